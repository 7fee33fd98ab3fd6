/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/host/gpu-host.h"

/* Sums of this many bytes for each argument do not overflow. */
#define LOCAL_SIZE_MAX ((gsize) 1 << 50)

/* Default number of work-items in a group. */
#define DEFAULT_BLOCK         256
#define DEFAULT_BARRIER_BLOCK 64

/* Alignment of each argument value in a launch. */
#define ARGUMENT_ALIGNMENT 16

#define ALIGN_UP(size, alignment) (((size) + (alignment) - 1) / (alignment) * (alignment))

static void
fill_arguments (GpuHostKernel *kernel)
{
  const GpuHostKernelEntry *entry = kernel->entry;
  GpuNativeKernel *native = &kernel->parent;

  native->n_arguments = entry->n_arguments;
  native->arguments = g_new0 (GpuArgumentInfo, entry->n_arguments);

  for (guint i = 0; i < entry->n_arguments; i++)
    {
      const GpuHostArgument *from = &entry->arguments[i];
      GpuArgumentInfo *to = &native->arguments[i];

      switch (from->kind)
        {
        case GPU_HOST_ARGUMENT_MEMORY:
          to->kind = GPU_ARGUMENT_KIND_MEMORY;
          break;
        case GPU_HOST_ARGUMENT_LOCAL:
          to->kind = GPU_ARGUMENT_KIND_LOCAL;
          break;
        case GPU_HOST_ARGUMENT_IMAGE:
          to->kind = GPU_ARGUMENT_KIND_IMAGE;
          break;
        case GPU_HOST_ARGUMENT_SAMPLER:
          to->kind = GPU_ARGUMENT_KIND_SAMPLER;
          break;
        case GPU_HOST_ARGUMENT_VALUE:
        default:
          to->kind = GPU_ARGUMENT_KIND_VALUE;
          break;
        }

      to->name = from->name;
      to->type_name = from->type_name;
      to->type = from->type;
      to->size = from->size;
      to->read_only = from->read_only;
    }
}

GpuNativeKernel *
_gpu_host_kernel_new (GpuNativeContext         *context,
                      GpuHostModule            *module,
                      const GpuHostKernelEntry *entry)
{
  GpuHostKernel *kernel = g_new0 (GpuHostKernel, 1);

  kernel->parent.backend = &_gpu_host_backend;
  kernel->context = (GpuHostContext *) context;
  kernel->module = _gpu_host_module_ref (module);
  kernel->entry = entry;

  for (const gsize *size = entry->local_sizes; size < entry->local_sizes_end; size++)
    kernel->local_size += *size;

  fill_arguments (kernel);

  return &kernel->parent;
}

static void
host_kernel_free (GpuNativeContext *context G_GNUC_UNUSED,
                  GpuNativeKernel  *kernel)
{
  GpuHostKernel *self = (GpuHostKernel *) kernel;

  g_free (kernel->arguments);
  _gpu_host_module_unref (self->module);
  g_free (self);
}

static guint64
host_kernel_get_handle (GpuNativeKernel *kernel)
{
  return (guintptr) ((GpuHostKernel *) kernel)->entry;
}

static gboolean
host_kernel_get_attributes (GpuNativeContext  *context G_GNUC_UNUSED,
                            GpuNativeKernel   *kernel,
                            GVariantDict      *attributes,
                            GError           **error G_GNUC_UNUSED)
{
  GpuHostKernel *self = (GpuHostKernel *) kernel;
  guint64 required[3];

  for (guint i = 0; i < 3; i++)
    required[i] = self->entry->required_block[i];

  g_variant_dict_insert (attributes, "function-name", "s", self->entry->name);
  g_variant_dict_insert (attributes, "num-args", "u", (guint32) self->entry->n_arguments);
  g_variant_dict_insert (attributes, "work-group-size", "t",
                         (guint64) GPU_HOST_MAX_WORK_GROUP_SIZE);
  g_variant_dict_insert (attributes, "preferred-work-group-size-multiple", "t", (guint64) 1);
  g_variant_dict_insert (attributes, "local-mem-size", "t", (guint64) self->local_size);
  g_variant_dict_insert (attributes, "private-mem-size", "t",
                         self->entry->has_barrier
                         ? (guint64) __atomic_load_n (&self->context->stack_size, __ATOMIC_RELAXED)
                         : (guint64) 0);
  g_variant_dict_insert (attributes, "compile-work-group-size", "(ttt)", required[0], required[1],
                         required[2]);

  return TRUE;
}

static gboolean
has_required_block (const GpuHostKernelEntry *entry)
{
  return entry->required_block[0] != 0;
}

static void
choose_block (GpuHostLaunch *launch)
{
  gsize left = launch->entry->has_barrier ? DEFAULT_BARRIER_BLOCK : DEFAULT_BLOCK;

  for (guint i = 0; i < 3; i++)
    {
      if (has_required_block (launch->entry))
        {
          launch->block[i] = launch->entry->required_block[i];
          continue;
        }

      launch->block[i] = MIN (launch->grid[i], left);
      left /= launch->block[i];
    }
}

static gboolean
check_required_block (GpuHostLaunch  *launch,
                      GError        **error)
{
  const gsize *required = launch->entry->required_block;
  const gsize *block = launch->block;

  if (!has_required_block (launch->entry) || memcmp (required, block, sizeof launch->block) == 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "host: kernel \"%s\" requires blocks of %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT
               " x %" G_GSIZE_FORMAT ", not %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %"
               G_GSIZE_FORMAT, launch->entry->name, required[0], required[1], required[2], block[0],
               block[1], block[2]);

  return FALSE;
}

static gboolean
check_block (GpuHostLaunch  *launch,
             GError        **error)
{
  const gsize *block = launch->block;
  gsize size;

  if (g_size_checked_mul (&size, block[0], block[1]) && g_size_checked_mul (&size, size, block[2])
      && size > 0 && size <= GPU_HOST_MAX_WORK_GROUP_SIZE)
    return check_required_block (launch, error);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "host: kernel %s: a block of %" G_GSIZE_FORMAT "x%" G_GSIZE_FORMAT "x%"
               G_GSIZE_FORMAT " must have 1 to %d work-items", launch->entry->name, block[0],
               block[1], block[2], GPU_HOST_MAX_WORK_GROUP_SIZE);

  return FALSE;
}

static gboolean
set_groups (GpuHostLaunch  *launch,
            GError        **error)
{
  const gsize *grid = launch->grid;
  gboolean fits = TRUE;

  launch->n_groups_total = 1;

  for (guint i = 0; i < 3; i++)
    {
      launch->n_groups[i] = grid[i] / launch->block[i] + (grid[i] % launch->block[i] != 0);
      fits = fits && g_size_checked_mul (&launch->n_groups_total, launch->n_groups_total,
                                         launch->n_groups[i]);
    }

  /* Leave room above the number of groups, so that the counter `next` does not overflow: threads
   * still increment `next` when no group is left. */
  if (fits && launch->n_groups_total > 0 && launch->n_groups_total < G_MAXSIZE / 4)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "host: kernel %s: a grid of %" G_GSIZE_FORMAT "x%" G_GSIZE_FORMAT "x%"
               G_GSIZE_FORMAT " work-items is empty or too large", launch->entry->name, grid[0],
               grid[1], grid[2]);

  return FALSE;
}

static gboolean
set_geometry (GpuHostLaunch    *launch,
              const GpuExtent  *grid,
              const GpuExtent  *block,
              GError          **error)
{
  launch->grid[0] = grid->width;
  launch->grid[1] = grid->height;
  launch->grid[2] = grid->depth;
  launch->work_dim = grid->depth > 1 ? 3 : grid->height > 1 ? 2 : 1;

  if (block != NULL)
    {
      launch->block[0] = block->width;
      launch->block[1] = block->height;
      launch->block[2] = block->depth;
    }
  else if (grid->width > 0 && grid->height > 0 && grid->depth > 0)
    {
      choose_block (launch);
    }

  return check_block (launch, error) && set_groups (launch, error);
}

/* The structure is followed by the pointers to the values, the offsets in local memory, the kinds
 * and the values. */
static GpuHostLaunch *
launch_new (const GpuArgumentValue *values,
            guint                   n_arguments)
{
  gsize pointers = ALIGN_UP (sizeof (GpuHostLaunch), ARGUMENT_ALIGNMENT);
  gsize offsets = pointers + n_arguments * sizeof (void *);
  gsize kinds = offsets + n_arguments * sizeof (gsize);
  gsize data = ALIGN_UP (kinds + n_arguments * sizeof (GpuArgumentKind), ARGUMENT_ALIGNMENT);
  gsize size = data;
  GpuHostLaunch *launch;

  for (guint i = 0; i < n_arguments; i++)
    {
      gboolean is_value = values[i].kind == GPU_ARGUMENT_KIND_VALUE;

      size += ALIGN_UP (is_value ? values[i].size : sizeof (void *), ARGUMENT_ALIGNMENT);
    }

  launch = _gpu_host_operation_new (size, _gpu_host_launch_run);
  launch->n_arguments = n_arguments;
  launch->arguments = (gpointer) ((guint8 *) launch + pointers);
  launch->offsets = (gpointer) ((guint8 *) launch + offsets);
  launch->kinds = (gpointer) ((guint8 *) launch + kinds);
  launch->values = (guint8 *) launch + data;

  return launch;
}

/* Returns the pointer that the kernel gets for an argument that is not a value. */
static gconstpointer
get_pointer (const GpuArgumentValue *value)
{
  switch (value->kind)
    {
    case GPU_ARGUMENT_KIND_MEMORY:
      return value->buffer != NULL ? _gpu_host_memory_get_data (value->buffer) : NULL;
    case GPU_ARGUMENT_KIND_IMAGE:
      return &((const GpuHostNativeImage *) value->image)->view;
    case GPU_ARGUMENT_KIND_SAMPLER:
      return value->sampler;
    case GPU_ARGUMENT_KIND_LOCAL:
    case GPU_ARGUMENT_KIND_VALUE:
    case GPU_ARGUMENT_KIND_UNKNOWN:
    default:
      return NULL;
    }
}

static void
set_arguments (GpuHostLaunch          *launch,
               const GpuArgumentValue *values)
{
  guint8 *place = launch->values;

  for (guint i = 0; i < launch->n_arguments; i++)
    {
      const GpuArgumentValue *value = &values[i];
      gboolean is_value = value->kind == GPU_ARGUMENT_KIND_VALUE;
      gconstpointer pointer = get_pointer (value);

      launch->kinds[i] = value->kind;
      launch->arguments[i] = place;

      if (value->kind == GPU_ARGUMENT_KIND_LOCAL)
        {
          launch->offsets[i] = launch->scratch_size;
          launch->scratch_size += ALIGN_UP (MIN (value->size, LOCAL_SIZE_MAX),
                                            GPU_HOST_BASE_ALIGNMENT);
        }

      if (is_value)
        memcpy (place, value->data, value->size);
      else
        memcpy (place, &pointer, sizeof pointer);

      place += ALIGN_UP (is_value ? value->size : sizeof pointer, ARGUMENT_ALIGNMENT);
    }
}

static gboolean
check_local_memory (GpuHostLaunch  *launch,
                    gsize           local_size,
                    GError        **error)
{
  if (launch->scratch_size <= GPU_HOST_LOCAL_MEMORY_SIZE
      && local_size <= GPU_HOST_LOCAL_MEMORY_SIZE - launch->scratch_size)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_LAUNCH_FAILED,
               "host: kernel %s: its arguments need at least %" G_GSIZE_FORMAT " bytes of local "
               "memory and its variables %" G_GSIZE_FORMAT ", but a work-group has %d",
               launch->entry->name, launch->scratch_size, local_size,
               GPU_HOST_LOCAL_MEMORY_SIZE);

  return FALSE;
}

static void
set_offset (GpuHostLaunch   *launch,
            const GpuExtent *offset)
{
  launch->offset[0] = offset->width;
  launch->offset[1] = offset->height;
  launch->offset[2] = offset->depth;

  /* As on OpenCL, a dimension with an offset counts for get_work_dim(). */
  if (offset->depth != 0)
    launch->work_dim = 3;
  else if (offset->height != 0)
    launch->work_dim = MAX (launch->work_dim, 2);
}

static gboolean
host_kernel_launch (GpuNativeStream        *stream,
                    GpuNativeKernel        *kernel,
                    const GpuNativeLaunch  *given,
                    GpuNativeEvent        **event,
                    GError                **error)
{
  GpuHostKernel *self = (GpuHostKernel *) kernel;
  GpuHostLaunch *launch = launch_new (given->arguments, given->n_arguments);

  launch->entry = self->entry;
  launch->stack_size = __atomic_load_n (&self->context->stack_size, __ATOMIC_RELAXED);
  set_arguments (launch, given->arguments);

  if (!set_geometry (launch, given->grid, given->block, error)
      || !check_local_memory (launch, self->local_size, error))
    {
      g_free (launch);
      return FALSE;
    }

  if (given->options != NULL && given->options->offset != NULL)
    set_offset (launch, given->options->offset);

  return _gpu_host_stream_submit (stream, launch, event, error);
}

const GpuKernelOps _gpu_host_kernel_ops =
{
  .free = host_kernel_free,
  .get_handle = host_kernel_get_handle,
  .get_attributes = host_kernel_get_attributes,
  .launch = host_kernel_launch
};

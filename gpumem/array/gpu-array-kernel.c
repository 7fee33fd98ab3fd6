/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies between arrays by a kernel instead of one command for each region. */
#include "config.h"

#include "gpumem/array/gpu-array-kernel-private.h"
#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/program/gpu-launch-private.h"

/* If a copy needs at most this many commands, they take less time than building a kernel, and
 * little more time than a launch. */
#define FEW_REGIONS 16

/* From about this many bytes on, a command for each region costs little, because the time of a copy
 * exceeds that of starting it. */
#define LARGE_REGION (4 << 20)

/* A driver needs as much time for a row of fewer than NARROW_ROW bytes as for a row of NARROW_ROW
 * bytes. In the time of the shortest kernel, a driver copies about FEW_ROWS such rows. */
#define NARROW_ROW 128
#define FEW_ROWS   4096

/* On a CPU device, the driver copies regions of more than this many bytes faster than work-items
 * do. */
#define FEW_BYTES 256

/* On a CPU device, from this many bytes on, a command for each row of a list costs less than the
 * work-items of a kernel. */
#define LARGE_CPU_ROW 4096

/* The kernels for all devices copy units of 1, 2, 4 and 8 bytes. */
#define N_UNITS   4
#define N_KERNELS 12

/* The kernels for all devices: those with 32-bit indices, those with 64-bit indices, and those for
 * lists of rows. */
static const char *const names[N_KERNELS] =
{
  "gpumem_copy_1", "gpumem_copy_2", "gpumem_copy_4", "gpumem_copy_8",
  "gpumem_copy_many_1", "gpumem_copy_many_2", "gpumem_copy_many_4", "gpumem_copy_many_8",
  "gpumem_list_1", "gpumem_list_2", "gpumem_list_4", "gpumem_list_8"
};

static const char *const gpu_names[N_KERNELS] =
{
  "gpumem_rows_1", "gpumem_rows_2", "gpumem_rows_4", "gpumem_rows_8", "gpumem_rows_16",
  "gpumem_tiles_1", "gpumem_tiles_2", "gpumem_tiles_4", "gpumem_tiles_8", "gpumem_tiles_16",
  "gpumem_words_1", "gpumem_words_2"
};

typedef struct
{
  const char        *source;
  const char *const *names;
  gboolean           is_built;      /* also TRUE if a build failed, except for lack of memory */
  GpuKernelCore     *cores[N_KERNELS]; /* all NULL if the build failed */
} Program;

typedef struct
{
  GMutex  lock;                     /* guards the members below */
  Program program;
  Program gpu_program;
} GpuArrayKernels;

/* --- kernels ---------------------------------------------------------------- */

static void
forget_cores (Program *program)
{
  for (guint i = 0; i < N_KERNELS; i++)
    g_clear_pointer (&program->cores[i], _gpu_kernel_core_unref);
}

static void
kernels_free (gpointer data)
{
  GpuArrayKernels *kernels = data;

  forget_cores (&kernels->program);
  forget_cores (&kernels->gpu_program);
  g_mutex_clear (&kernels->lock);
  g_free (kernels);
}

/* Returns the kernels of @context, which the context owns. */
static GpuArrayKernels *
get_kernels (GpuContext *context)
{
  const GQuark quark = g_quark_from_static_string ("gpu-array-kernels");
  GpuArrayKernels *kernels = g_object_get_qdata (G_OBJECT (context), quark);

  if (kernels != NULL)
    return kernels;

  kernels = g_new0 (GpuArrayKernels, 1);
  g_mutex_init (&kernels->lock);
  kernels->program = (Program) { .source = _gpu_array_kernel_source, .names = names };
  kernels->gpu_program = (Program) { .source = _gpu_array_gpu_kernel_source, .names = gpu_names };

  if (g_object_replace_qdata (G_OBJECT (context), quark, NULL, kernels, kernels_free, NULL))
    return kernels;

  /* Another thread has already stored its kernels. */
  kernels_free (kernels);

  return g_object_get_qdata (G_OBJECT (context), quark);
}

/* Returns FALSE with an error if a group of the kernel may not have as many work-items as the
 * kernels for GPUs need. OpenCL reports that limit. */
static gboolean
check_group (GpuKernelCore  *core,
             GError        **error)
{
  g_auto (GVariantDict) attributes = G_VARIANT_DICT_INIT (NULL);
  guint64 size;

  if (!core->context->backend->kernel->get_attributes (core->context, core->kernel, &attributes,
                                                       error))
    return FALSE;

  if (!g_variant_dict_lookup (&attributes, "work-group-size", "t", &size)
      || size >= GPU_ARRAY_KERNEL_GROUP)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "a work-group has at most %" G_GUINT64_FORMAT " work-items, but %d are needed", size,
               GPU_ARRAY_KERNEL_GROUP);

  return FALSE;
}

static gboolean
build (Program           *program,
       GpuNativeContext  *context,
       GError           **error)
{
  const GpuProgramInputs inputs = { .source = program->source, .options = "" };
  gboolean from_cache;
  g_autoptr (GpuProgramCore) core = _gpu_program_core_build (context, &inputs, &from_cache, error);

  if (core == NULL)
    return FALSE;

  for (guint i = 0; i < N_KERNELS && program->names[i] != NULL; i++)
    {
      program->cores[i] = _gpu_kernel_core_new (core, program->names[i], error);

      if (program->cores[i] == NULL
          || (program->names == gpu_names && !check_group (program->cores[i], error)))
        return FALSE;
    }

  return TRUE;
}

/* Returns the index of the copy's kernel in its program. */
static guint
get_index (const GpuArrayKernelCopy *copy)
{
  const guint index = (guint) g_bit_nth_lsf (copy->unit, -1);

  if (copy->for_gpu)
    return index + copy->kind * GPU_ARRAY_KERNEL_N_UNITS;

  if (copy->is_list)
    return index + 2 * N_UNITS;

  return index + (copy->n_items > G_MAXUINT32 ? N_UNITS : 0);
}

/* Returns NULL if the kernels could not be built. */
static GpuKernelCore *
get_core (GpuArrayKernels          *kernels,
          GpuNativeContext         *context,
          const GpuArrayKernelCopy *copy)
{
  Program *program = copy->for_gpu ? &kernels->gpu_program : &kernels->program;
  g_autoptr (GError) error = NULL;
  GpuKernelCore *core;

  g_mutex_lock (&kernels->lock);

  if (!program->is_built && !build (program, context, &error))
    {
      forget_cores (program);
      _gpu_debug_print (GPU_DEBUG_BUILD, "no kernels for copies of arrays: %s", error->message);
    }

  /* After lack of memory, let the next copy try again: memory may have been freed by then. */
  program->is_built = !g_error_matches (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY)
                      && !g_error_matches (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY);
  core = program->cores[get_index (copy)];
  g_mutex_unlock (&kernels->lock);

  return core;
}

/* --- copies ----------------------------------------------------------------- */

/* Returns whether a kernel may use the memory. A kernel gets all of the memory as an argument, so
 * the function rejects memory if any range of the memory is mapped. Merges the known addresses of
 * the memory into @addresses by bitwise OR. */
static gboolean
check_memory (GpuMemory              *memory,
              const GpuNativeContext *context,
              GpuMemoryFlags          refused,
              guint64                *addresses)
{
  GpuStorage *storage = _gpu_memory_acquire (memory, "", NULL);
  gboolean usable;

  if (storage == NULL)
    return FALSE;

  _gpu_storage_lock (storage->root);
  usable = storage->context == context && !storage->buffer->is_host_only
           && ((memory->flags | storage->root->flags) & refused) == 0
           && (storage->root->mapped == NULL || storage->root->mapped->len == 0);
  _gpu_storage_unlock (storage->root);

  if (usable)
    *addresses |= (guintptr) storage->buffer->host
                  | context->backend->memory->get_address (storage->buffer);

  _gpu_storage_unuse (storage);

  return usable;
}

static gboolean
is_cpu (const GpuNativeDevice *device)
{
  return device->type == GPU_DEVICE_TYPE_HOST || device->type == GPU_DEVICE_TYPE_CPU;
}

gboolean
_gpu_array_kernel_suits (GpuTimeline        *timeline,
                         const GpuArrayPlan *plan)
{
  const gsize width = plan->extent.width;
  const gsize n_rows = plan->extent.height * plan->extent.depth;

  if (is_cpu (timeline->device))
    return plan->n_regions > FEW_REGIONS && width * n_rows <= FEW_BYTES;

  return (width < NARROW_ROW && n_rows > FEW_ROWS)
         || (plan->n_regions > FEW_REGIONS && width * n_rows < LARGE_REGION);
}

/* Returns whether a kernel may use both arrays. */
static gboolean
check_arrays (GpuArray               *to,
              GpuArray               *from,
              const GpuNativeContext *context,
              guint64                *addresses)
{
  *addresses = 0;

  return check_memory (to->memory, context, GPU_MEMORY_FLAGS_READ_ONLY, addresses)
         && check_memory (from->memory, context, GPU_MEMORY_FLAGS_WRITE_ONLY, addresses);
}

gboolean
_gpu_array_kernel_prepare_rows (GpuArrayKernelCopy    *copy,
                                GpuTimeline           *timeline,
                                const GpuArrayRowCopy *rows)
{
  const GpuExtent *extent = &rows->plan.extent;
  const gboolean on_cpu = is_cpu (timeline->device);
  guint64 addresses;

  if (rows->n_rows * rows->plan.n_regions <= FEW_REGIONS
      || extent->width * extent->height * extent->depth * rows->plan.n_regions
         >= (on_cpu ? LARGE_CPU_ROW : LARGE_REGION)
      || !check_arrays (rows->to, rows->from, timeline->context, &addresses)
      || !_gpu_array_list_walk_init (copy, rows, addresses, on_cpu))
    return FALSE;

  copy->core = get_core (get_kernels (rows->to->context), timeline->context, copy);

  return copy->core != NULL;
}

gboolean
_gpu_array_kernel_prepare (GpuArrayKernelCopy *copy,
                           GpuTimeline        *timeline,
                           GpuArray           *to,
                           GpuArray           *from,
                           const GpuArrayPlan *plan)
{
  GpuNativeContext *context = timeline->context;
  const gsize size = _gpu_array_get_access (to, TRUE).size
                     + _gpu_array_get_access (from, FALSE).size;
  GpuArrayKernels *kernels;
  guint64 addresses;

  if (!_gpu_array_kernel_suits (timeline, plan) || !check_arrays (to, from, context, &addresses))
    return FALSE;

  kernels = get_kernels (to->context);
  copy->core = NULL;

  if (!is_cpu (timeline->device) && _gpu_array_gpu_walk_init (copy, plan, addresses, size))
    copy->core = get_core (kernels, context, copy);

  if (copy->core == NULL)
    {
      _gpu_array_walk_init (copy, plan, addresses);
      copy->core = get_core (kernels, context, copy);
    }

  /* Without a kernel, the caller submits a command for each region. These commands report the error
   * if the device is lost. */
  return copy->core != NULL;
}

typedef struct
{
  const GpuArrayKernelCopy *copy;
  GpuTimeline              *timeline;
  GpuAccess                 accesses[2];
  const char               *function;
} Run;

/* Launches the kernel with an argument of @size bytes. */
static gboolean
submit (const Run        *run,
        gconstpointer     walk,
        gsize             size,
        gsize             n_items,
        const GpuExtent  *block,
        GError          **error)
{
  GpuAccess accesses[] = { run->accesses[0], run->accesses[1] };
  GpuMemory *memories[] = { accesses[0].memory, accesses[1].memory, NULL };
  const GpuExtent grid = { n_items, 1, 1 };
  GpuArgumentValue values[] = {
    { .kind = GPU_ARGUMENT_KIND_MEMORY },
    { .kind = GPU_ARGUMENT_KIND_MEMORY },
    { .kind = GPU_ARGUMENT_KIND_VALUE, .data = walk, .size = size }
  };
  GpuLaunch launch = { .core = run->copy->core, .call = { values, 3, &grid, block },
                       .memories = memories, .n_accesses = 2 };

  return _gpu_launch_submit (run->timeline, &launch, accesses, run->function, error);
}

static gboolean
launch (const GpuArrayPlan  *plan G_GNUC_UNUSED,
        gsize                to,
        gsize                from,
        gpointer             data,
        GError             **error)
{
  const Run *run = data;
  const GpuArrayKernelCopy *copy = run->copy;
  const gint64 unit = (gint64) copy->unit;
  const GpuExtent block = { copy->group, 1, 1 };
  GpuArrayWalk walk;
  GpuArrayGpuWalk gpu_walk;

  if (copy->for_gpu)
    {
      gpu_walk = copy->gpu_walk;
      gpu_walk.to = (gint64) to / unit;
      gpu_walk.from = (gint64) from / unit;
      return submit (run, &gpu_walk, sizeof gpu_walk, copy->n_items, &block, error);
    }

  walk = copy->walk;
  walk.to = (gint64) to / unit;
  walk.from = (gint64) from / unit;

  return submit (run, &walk, sizeof walk, copy->n_items, NULL, error);
}

GpuAccess
_gpu_array_get_access (GpuArray *array,
                       gboolean  write)
{
  gsize begin;
  gsize end;

  _gpu_array_layout_get_range (&array->layout, &begin, &end);

  return (GpuAccess) { array->memory, write, begin, end - begin, NULL };
}

gboolean
_gpu_array_kernel_run (const GpuArrayKernelCopy  *copy,
                       GpuTimeline               *timeline,
                       GpuArray                  *to,
                       GpuArray                  *from,
                       const char                *function,
                       GError                   **error)
{
  Run run = { copy, timeline,
              { _gpu_array_get_access (to, TRUE), _gpu_array_get_access (from, FALSE) },
              function };

  return _gpu_array_plan_run (&copy->plan, launch, &run, error);
}

gboolean
_gpu_array_kernel_run_rows (const GpuArrayKernelCopy  *copy,
                            GpuTimeline               *timeline,
                            const GpuArrayRowCopy     *rows,
                            const char                *function,
                            GError                   **error)
{
  const gint64 unit = (gint64) copy->unit;
  const Run run = { copy, timeline,
                    { _gpu_array_get_access (rows->to, TRUE),
                      _gpu_array_get_access (rows->from, FALSE) },
                    function };
  GpuArrayListWalk list = copy->list;

  for (gsize first = 0; first < rows->n_rows; first += GPU_ARRAY_KERNEL_LIST)
    {
      const gsize n = MIN (rows->n_rows - first, GPU_ARRAY_KERNEL_LIST);
      const gint64 to = rows->is_put ? 0 : (gint64) first * rows->to_step;
      const gint64 from = rows->is_put ? (gint64) first * rows->from_step : 0;

      list.to = ((gint64) copy->plan.to.offset + to) / unit;
      list.from = ((gint64) copy->plan.from.offset + from) / unit;
      list.n_parts = (guint32) n * copy->list.n_parts;
      memcpy (list.rows, rows->rows + first, n * sizeof *list.rows);

      if (!submit (&run, &list, sizeof list, _gpu_array_walk_round (list.n_parts), NULL, error))
        return FALSE;
    }

  return TRUE;
}

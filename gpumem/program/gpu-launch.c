/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/program/gpu-arguments-private.h"
#include "gpumem/program/gpu-launch-private.h"

/**
 * SECTION:gpu-launch
 * @title: GpuLaunch
 * @short_description: a prepared launch
 * @see_also: #GpuKernel, #GpuArguments
 */

/**
 * GpuLaunch:
 *
 * A kernel with its grid and arguments, checked once and launched many times.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
 * g_autoptr (GpuLaunch) step = NULL;
 * GpuExtent grid = { 1024, 1, 1 };
 *
 * gpu_arguments_add_memory (arguments, GPU_MEMORY (buffer));
 * step = gpu_launch_new (kernel, &grid, NULL, NULL, 0, GPU_LAUNCH_FLAGS_NONE, arguments, &error);
 *
 * for (int i = 0; step != NULL && i < 1000; i++)
 *   gpu_stream_launch_prepared (stream, step, &error);
 * ]|
 *
 * Any stream of the context of the kernel may run the launch. A #GpuLaunch retains its kernel and
 * its memory.
 *
 * A #GpuLaunch is immutable, but the contents of its memory may change. For arguments whose values
 * change from one launch to the next, use gpu_stream_launch_arguments(). All functions may be
 * called from any thread.
 *
 * Since: 0.1
 */
G_DEFINE_BOXED_TYPE (GpuLaunch, gpu_launch, gpu_launch_ref, gpu_launch_unref)

GPU_COLD gboolean
_gpu_launch_fail_host_only (const char        *what,
                            guint              index,
                            GpuNativeContext  *context,
                            GError           **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "%s %u is host memory that kernels on %s cannot access: allocate it with "
               "GPU_HOST_MEMORY_FLAGS_MAPPED", what, index, context->devices[0]->id);

  return FALSE;
}

GPU_COLD static gboolean
fail_extent (const char       *what,
             const GpuLaunch  *launch,
             GError          **error)
{
  const GpuExtent *grid = launch->call.grid;
  const GpuExtent *block = launch->call.block;
  g_autofree char *chosen = NULL;       /* by the program */

  if (block != NULL)
    chosen = g_strdup_printf (", block %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %"
                              G_GSIZE_FORMAT, block->width, block->height, block->depth);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpu_stream_launch: grid %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %"
               G_GSIZE_FORMAT "%s: %s", grid->width, grid->height, grid->depth,
               chosen != NULL ? chosen : "", what);

  return FALSE;
}

#define SHARED_PREFIX "gpu_stream_launch: "

GPU_COLD gboolean
_gpu_launch_name_error (const char  *function,
                        GError     **error)
{
  char *message;

  if (error == NULL || *error == NULL || !g_str_has_prefix ((*error)->message, SHARED_PREFIX))
    return FALSE;

  message = g_strdup_printf ("%s: %s", function, (*error)->message + strlen (SHARED_PREFIX));
  g_free ((*error)->message);
  (*error)->message = message;

  return FALSE;
}

/* The sum of offset and grid must be in range, too, because kernels may compute it. */
static gboolean
check_offset (const GpuLaunch        *launch,
              const GpuNativeDevice  *device,
              GError                **error)
{
  const GpuExtent *grid = launch->call.grid;
  const GpuExtent *offset = launch->offset;
  const gsize most = device->has_short_ids ? G_MAXUINT32 : G_MAXSIZE;

  if (grid->width <= most && offset->width <= most - grid->width
      && grid->height <= most && offset->height <= most - grid->height
      && grid->depth <= most && offset->depth <= most - grid->depth)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpu_stream_launch: grid %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %"
               G_GSIZE_FORMAT ", global offset %" G_GSIZE_FORMAT ", %" G_GSIZE_FORMAT ", %"
               G_GSIZE_FORMAT ": the sum exceeds %" G_GSIZE_FORMAT ", the largest on %s",
               grid->width, grid->height, grid->depth, offset->width, offset->height,
               offset->depth, most, device->id);

  return FALSE;
}

/* Avoids a division if @divisor is a power of two: the division takes longer than the rest of the
 * check. */
static inline gboolean
is_multiple (gsize size,
             gsize divisor)
{
  if (G_LIKELY ((divisor & (divisor - 1)) == 0))
    return (size & (divisor - 1)) == 0;

  return size % divisor == 0;
}

GPU_HOT gboolean
_gpu_launch_check_extents (const GpuLaunch        *launch,
                           const GpuNativeDevice  *device,
                           GError                **error)
{
  const GpuExtent *grid = launch->call.grid;
  const GpuExtent *block = launch->call.block;
  gsize n_items;

  if (G_UNLIKELY (_gpu_launch_is_empty (launch)))
    {
      if ((launch->flags & GPU_LAUNCH_FLAGS_ALLOW_EMPTY) == 0)
        return fail_extent ("the grid has no work-items, which only GPU_LAUNCH_FLAGS_ALLOW_EMPTY "
                            "allows", launch, error);
    }
  else if (!g_size_checked_mul (&n_items, grid->width, grid->height)
           || !g_size_checked_mul (&n_items, n_items, grid->depth))
    return fail_extent ("the number of work-items exceeds the range of gsize", launch, error);

  if (G_UNLIKELY (launch->offset != NULL) && !check_offset (launch, device, error))
    return FALSE;

  if (block == NULL)
    return TRUE;

  if (block->width == 0 || block->height == 0 || block->depth == 0)
    return fail_extent ("the block has no work-items", launch, error);

  if (G_UNLIKELY (!is_multiple (grid->width, block->width)
                  || !is_multiple (grid->height, block->height)
                  || !is_multiple (grid->depth, block->depth))
      && (device->capabilities & GPU_CAPABILITIES_NON_UNIFORM_GROUPS) == 0)
    return fail_extent ("the device requires the grid to be a multiple of the block in each "
                        "dimension; round the grid up, and let the kernel skip the extra "
                        "work-items",
                        launch, error);

  return TRUE;
}

gboolean
_gpu_launch_check_options (GpuKernel       *kernel,
                           gsize            shared_size,
                           GpuLaunchFlags   flags,
                           GError         **error)
{
  GpuNativeContext *context = _gpu_kernel_get_core (kernel)->context;
  const GpuNativeDevice *device = context->devices[0];
  const GpuLaunchFlags unknown = flags & ~(GPU_LAUNCH_FLAGS_COOPERATIVE
                                           | GPU_LAUNCH_FLAGS_ALLOW_EMPTY);

  if (shared_size == 0 && (flags & ~GPU_LAUNCH_FLAGS_ALLOW_EMPTY) == GPU_LAUNCH_FLAGS_NONE)
    return TRUE;

  if (unknown != 0)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "gpu_stream_launch: unknown launch flags 0x%x", unknown);
  else if (!context->backend->kernel->has_options)
    _gpu_backend_fail (context->backend, "gpu_stream_launch",
                       "launch flags or shared memory beyond the arguments", error);
  else if ((flags & GPU_LAUNCH_FLAGS_COOPERATIVE) != 0
           && (device->capabilities & GPU_CAPABILITIES_COOPERATIVE) == 0)
    g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                 "gpu_stream_launch: %s does not support cooperative launches", device->id);
  else
    return TRUE;

  return FALSE;
}

/* Adds the accesses of the arguments. Limits the access to the memory of an array to the bytes of
 * the array's elements. The first of these bytes may be before the address that the kernel gets. */
static void
add_accesses (GpuLaunch          *launch,
              const GpuArguments *arguments)
{
  const GpuArgumentInfo *infos = _gpu_kernel_get_arguments (launch->kernel, NULL);

  launch->n_accesses = 0;

  for (guint i = 0; i < launch->call.n_arguments; i++)
    {
      const GpuArgumentItem *item = &arguments->items[i];
      GpuAccess *access;

      if (launch->memories[i] == NULL)
        continue;

      access = _gpu_launch_add_access (launch, launch->memories[i],
                                       infos != NULL ? &infos[i] : NULL,
                                       _gpu_argument_is_texture (&launch->call.arguments[i]));

      if (item->type == GPU_ARGUMENT_ITEM_MEMORY && item->size > 0)
        {
          access->offset = item->value.offset;
          access->size = item->size;
        }
    }
}

/* The accesses of the kernel to indirect memory are unknown. Assumes writes, unless the flags of
 * the memory exclude writes. Memory that the program received as read-only (`is_constant`) counts
 * as written in spite of its flags: the submission then rejects the memory. */
static void
add_indirect_accesses (GpuLaunch *launch)
{
  for (guint i = 0; i < launch->n_indirect; i++)
    {
      GpuMemory *memory = launch->memories[launch->call.n_arguments + i];

      gboolean write = memory->is_constant || (memory->flags & GPU_MEMORY_FLAGS_READ_ONLY) == 0;

      launch->accesses[launch->n_accesses++] = (GpuAccess) { memory, write, 0, memory->span };
    }
}

gboolean
_gpu_launch_resolve (GpuLaunch     *launch,
                     GpuArguments  *arguments,
                     GError       **error)
{
  if (!_gpu_arguments_resolve (arguments, launch->kernel, launch->call.arguments,
                               launch->memories, error)
      || !_gpu_arguments_resolve_indirect (arguments, &launch->memories[launch->call.n_arguments],
                                           error))
    return FALSE;

  for (guint i = 0; i < launch->call.n_arguments; i++)
    launch->has_samplers |= launch->call.arguments[i].sampler != NULL;

  launch->has_options = launch->shared_size != 0 || launch->n_indirect != 0
                        || launch->offset != NULL
                        || (launch->flags & GPU_LAUNCH_FLAGS_COOPERATIVE) != 0;
  add_accesses (launch, arguments);
  add_indirect_accesses (launch);

  return TRUE;
}

static void
release_buffers (GpuLaunch *launch,
                guint      n)
{
  for (guint i = 0; i < n; i++)
    {
      if (launch->memories[i] != NULL)
        g_atomic_int_add (&launch->memories[i]->storage->n_prepared, -1);
    }
}

/* Stores the native buffers in the values, so that submissions need not look them up. The buffers
 * remain valid: memory with n_prepared > 0 keeps its buffer until it is released, and a submission
 * rejects released memory before it uses the buffer. */
static gboolean
set_buffers (GpuLaunch  *launch,
             GError    **error)
{
  GError *failure = NULL;

  for (guint i = 0; i < launch->call.n_arguments; i++)
    {
      GpuStorage *storage;

      if (launch->memories[i] == NULL)
        continue;

      storage = _gpu_memory_acquire (launch->memories[i], "gpu_launch_new", error);

      if (storage == NULL)
        {
          release_buffers (launch, i);
          return FALSE;
        }

      g_atomic_int_inc (&storage->n_prepared);
      launch->call.arguments[i].buffer = storage->buffer;

      if (storage->buffer->is_host_only)
        _gpu_launch_fail_host_only ("argument", i, storage->context, &failure);

      _gpu_storage_unuse (storage);

      if (failure != NULL)
        {
          release_buffers (launch, i + 1);
          g_propagate_prefixed_error (error, failure, "gpu_launch_new: ");
          return FALSE;
        }
    }

  launch->is_prepared = TRUE;

  return TRUE;
}

static void
set_extents (GpuLaunch        *launch,
             const GpuExtent  *grid,
             const GpuExtent  *block,
             const GpuExtent  *offset)
{
  launch->own_grid = *grid;
  launch->call.grid = &launch->own_grid;

  if (block != NULL)
    {
      launch->own_block = *block;
      launch->call.block = &launch->own_block;
    }

  if (offset != NULL && (offset->width != 0 || offset->height != 0 || offset->depth != 0))
    {
      launch->own_offset = *offset;
      launch->offset = &launch->own_offset;
    }
}

static gboolean
prepare_offset (GpuKernelCore  *core,
                GError        **error)
{
  const GpuKernelOps *ops = core->context->backend->kernel;
  GError *failure = NULL;

  if (ops->prepare_offset == NULL)
    return TRUE;

  if (_gpu_native_context_check (core->context, &failure))
    ops->prepare_offset (core->context, core->kernel, &failure);

  return _gpu_native_context_end (core->context, "gpu_launch_new", failure, error);
}

/**
 * gpu_launch_new:
 * @kernel: a #GpuKernel
 * @grid: the number of work-items in each dimension
 * @block: (nullable): the size of a work-group, or %NULL to let the driver choose
 * @global_offset: (nullable): numbers that are added to the global ids of the work-items, or %NULL
 *   for none
 * @shared_size: bytes of shared memory per work-group, besides the memory of local memory
 *   arguments, for `extern __shared__` in CUDA C++; 0 for none
 * @flags: flags of the launch
 * @arguments: the arguments of the kernel; the launch copies the list
 * @error: return location for an error
 *
 * Prepares a launch for any number of calls to gpu_stream_launch_prepared() (CUDA: each of those
 * calls uses cuLaunchKernel or cuLaunchCooperativeKernel). Does not block without @global_offset.
 *
 * With %GPU_LAUNCH_FLAGS_COOPERATIVE, all work-groups must fit on the device at the same time: see
 * gpu_kernel_get_max_active_blocks().
 *
 * @global_offset changes get_global_id() and get_global_offset() of the kernel, so that several
 * launches can share one large grid (OpenCL: global_work_offset of clEnqueueNDRangeKernel). On
 * CUDA, only kernels in the portable dialect take an offset, in programs without variables at
 * program scope (`__constant`, `const` or `__global`, also samplers) that were not created by
 * gpu_program_new_linked(). For these, the library loads the module of the program a second time
 * before the first launch with an offset (CUDA: cuModuleLoadDataEx, cuModuleGetGlobal,
 * cuFuncGetAttribute), which may block. The second module would have variables of its own, so that
 * launches with an offset would not read what gpu_program_get_global() or another launch writes.
 * Attributes and the cache preference of @kernel also apply to launches with an offset. Each launch
 * with an offset waits for the preceding launch with an offset of the same program, on any stream
 * (CUDA: cuStreamWaitEvent, cuMemcpyHtoDAsync, cuEventRecord).
 *
 * A grid with a size of 0 in any dimension is empty, and an error by default. With
 * %GPU_LAUNCH_FLAGS_ALLOW_EMPTY, this function checks such a launch like any other. Submitting it
 * makes no driver call, does not check whether memory is mapped, and does not order other work.
 *
 * Returns: (transfer full): the launch, or %NULL with %GPU_ERROR_NOT_SUPPORTED if the back end or
 *   the device does not support @shared_size or @flags (OpenCL and the host support neither), or if
 *   @global_offset is not 0, on CUDA, and @kernel is not in the portable dialect, or its program
 *   was linked or has a variable at program scope; %GPU_ERROR_INVALID_ARGUMENT for unknown flags,
 *   or if the sum of @global_offset and @grid exceeds the range of #gsize (NVIDIA's OpenCL:
 *   2^32 - 1); or an error of gpu_stream_launch_arguments()
 *
 * Since: 0.1
 */
GpuLaunch *
gpu_launch_new (GpuKernel        *kernel,
                const GpuExtent  *grid,
                const GpuExtent  *block,
                const GpuExtent  *global_offset,
                gsize             shared_size,
                GpuLaunchFlags    flags,
                GpuArguments     *arguments,
                GError          **error)
{
  g_autoptr (GpuLaunch) launch = NULL;
  GpuKernelCore *core;
  guint n;

  g_return_val_if_fail (GPU_IS_KERNEL (kernel), NULL);
  g_return_val_if_fail (grid != NULL, NULL);
  g_return_val_if_fail (arguments != NULL, NULL);

  core = _gpu_kernel_get_core (kernel);

  if (core == NULL)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                           "gpu_launch_new: the kernel was never initialised");
      return NULL;
    }

  n = gpu_arguments_get_length (arguments);
  launch = g_new0 (GpuLaunch, 1);
  g_atomic_ref_count_init (&launch->refs);
  _gpu_live_add (GPU_LIVE_LAUNCH, 1);
  launch->kernel = g_object_ref (kernel);
  launch->core = core;
  launch->arguments = _gpu_arguments_copy (arguments);
  set_extents (launch, grid, block, global_offset);
  launch->shared_size = shared_size;
  launch->flags = flags;
  launch->call.n_arguments = n;
  launch->n_indirect = _gpu_arguments_get_n_indirect (arguments);
  launch->call.arguments = g_new0 (GpuArgumentValue, n);
  launch->memories = g_new0 (GpuMemory *, n + launch->n_indirect);
  launch->accesses = g_new0 (GpuAccess, n + launch->n_indirect);

  if (!_gpu_launch_check_options (kernel, shared_size, flags, error)
      || !_gpu_launch_check_extents (launch, core->context->devices[0], error)
      || (launch->offset != NULL && !prepare_offset (core, error))
      || !_gpu_launch_resolve (launch, launch->arguments, error)
      || !set_buffers (launch, error))
    {
      _gpu_launch_name_error ("gpu_launch_new", error);
      return NULL;
    }

  return g_steal_pointer (&launch);
}

/**
 * gpu_launch_ref:
 * @launch: a #GpuLaunch
 *
 * Acquires a reference. May be called from any thread.
 *
 * Returns: (transfer full): @launch
 *
 * Since: 0.1
 */
GpuLaunch *
gpu_launch_ref (GpuLaunch *launch)
{
  g_return_val_if_fail (launch != NULL, NULL);

  g_atomic_ref_count_inc (&launch->refs);

  return launch;
}

/**
 * gpu_launch_unref:
 * @launch: (transfer full): a #GpuLaunch
 *
 * Releases a reference. Releasing the last reference frees the launch and drops its references to
 * the kernel and the memory. Submitted kernels are not affected.
 *
 * Since: 0.1
 */
void
gpu_launch_unref (GpuLaunch *launch)
{
  g_return_if_fail (launch != NULL);

  if (!g_atomic_ref_count_dec (&launch->refs))
    return;

  if (launch->is_prepared)
    release_buffers (launch, launch->call.n_arguments);

  g_object_unref (launch->kernel);
  gpu_arguments_unref (launch->arguments);
  g_free (launch->call.arguments);
  g_free (launch->memories);
  g_free (launch->accesses);
  g_free (launch);
  _gpu_live_add (GPU_LIVE_LAUNCH, -1);
}

/**
 * gpu_launch_get_kernel:
 * @launch: a #GpuLaunch
 *
 * Gets the kernel of the launch.
 *
 * Returns: (transfer none): the kernel
 *
 * Since: 0.1
 */
GpuKernel *
gpu_launch_get_kernel (GpuLaunch *launch)
{
  g_return_val_if_fail (launch != NULL, NULL);

  return launch->kernel;
}

/**
 * gpu_launch_get_grid:
 * @launch: a #GpuLaunch
 * @grid: (out caller-allocates): the number of work-items in each dimension
 *
 * Gets the grid of the launch.
 *
 * Since: 0.1
 */
void
gpu_launch_get_grid (GpuLaunch *launch,
                     GpuExtent *grid)
{
  g_return_if_fail (launch != NULL);
  g_return_if_fail (grid != NULL);

  *grid = *launch->call.grid;
}

/**
 * gpu_launch_get_block:
 * @launch: a #GpuLaunch
 * @block: (out caller-allocates): the size of a work-group; all 0 if the driver chooses
 *
 * Gets the size of a work-group of the launch.
 *
 * Returns: %FALSE if the driver chooses the size
 *
 * Since: 0.1
 */
gboolean
gpu_launch_get_block (GpuLaunch *launch,
                      GpuExtent *block)
{
  g_return_val_if_fail (launch != NULL, FALSE);
  g_return_val_if_fail (block != NULL, FALSE);

  *block = launch->own_block;

  return launch->call.block != NULL;
}

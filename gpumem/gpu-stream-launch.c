/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Launches of kernels. */
#include "config.h"

#include "gpumem/gpu-arguments-private.h"
#include "gpumem/gpu-kernel-private.h"
#include "gpumem/gpu-stream-private.h"

/* Launches of few arguments need no allocation. */
#define FEW_ARGUMENTS 16

typedef struct
{
  GpuKernelCode     *code;
  GpuArgumentValue  *values;
  GpuMemory        **memories;
  guint              n_arguments;
  const GpuExtent   *grid;
  const GpuExtent   *block;
} Launch;

static gboolean
run_launch (gconstpointer     operation,
            GpuNativeStream  *stream,
            GpuNativeEvent  **event,
            GError          **error)
{
  const Launch *launch = operation;

  for (guint i = 0; i < launch->n_arguments; i++)
    {
      if (launch->memories[i] != NULL)
        launch->values[i].buffer = launch->memories[i]->storage->buffer;
    }

  return stream->backend->kernel->launch (stream, launch->code->kernel, launch->values,
                                          launch->n_arguments, launch->grid, launch->block, event,
                                          error);
}

static gboolean
fail_extent (const char       *what,
             const GpuExtent  *grid,
             const GpuExtent  *block,
             GError          **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpu_stream_launch: grid %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %"
               G_GSIZE_FORMAT ", block %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %"
               G_GSIZE_FORMAT ": %s", grid->width, grid->height, grid->depth,
               block != NULL ? block->width : 0, block != NULL ? block->height : 0,
               block != NULL ? block->depth : 0, what);

  return FALSE;
}

static gboolean
check_extents (const GpuNativeDevice  *device,
               const GpuExtent        *grid,
               const GpuExtent        *block,
               GError                **error)
{
  gsize n_items;

  if (grid->width == 0 || grid->height == 0 || grid->depth == 0)
    return fail_extent ("the grid has no work-item", grid, block, error);

  if (!g_size_checked_mul (&n_items, grid->width, grid->height)
      || !g_size_checked_mul (&n_items, n_items, grid->depth))
    return fail_extent ("the grid has more work-items than can be counted", grid, block, error);

  if (block == NULL)
    return TRUE;

  if (block->width == 0 || block->height == 0 || block->depth == 0)
    return fail_extent ("the block has no work-item", grid, block, error);

  if ((device->capabilities & GPU_CAPABILITIES_NON_UNIFORM_GROUPS) == 0
      && (grid->width % block->width != 0 || grid->height % block->height != 0
          || grid->depth % block->depth != 0))
    return fail_extent ("the grid is no multiple of the block, as the device wants it", grid,
                        block, error);

  return TRUE;
}

/* What the kernel can do to each memory; a memory that is given twice is accessed twice. */
static guint
collect_accesses (GpuKernel   *kernel,
                  GpuMemory  **memories,
                  guint        n_arguments,
                  GpuAccess   *accesses)
{
  const GpuArgumentInfo *infos = _gpu_kernel_get_arguments (kernel, NULL);
  guint n = 0;

  for (guint i = 0; i < n_arguments; i++)
    {
      GpuMemory *memory = memories[i];

      if (memory == NULL)
        continue;

      accesses[n].memory = memory;
      accesses[n].write = (infos == NULL || !infos[i].read_only)
                          && (memory->flags & GPU_MEMORY_READ_ONLY) == 0;
      accesses[n].offset = 0;
      accesses[n].size = memory->size;
      n++;
    }

  return n;
}

static gboolean
launch (GpuTimeline      *timeline,
        GpuKernel        *kernel,
        const GpuExtent  *grid,
        const GpuExtent  *block,
        GpuArguments     *arguments,
        GError          **error)
{
  guint n = gpu_arguments_get_length (arguments);
  GpuArgumentValue few_values[FEW_ARGUMENTS];
  GpuMemory *few_memories[FEW_ARGUMENTS];
  GpuAccess few_accesses[FEW_ARGUMENTS];
  g_autofree GpuArgumentValue *values = n > FEW_ARGUMENTS ? g_new (GpuArgumentValue, n) : NULL;
  g_autofree GpuMemory **memories = n > FEW_ARGUMENTS ? g_new (GpuMemory *, n) : NULL;
  g_autofree GpuAccess *accesses = n > FEW_ARGUMENTS ? g_new (GpuAccess, n) : NULL;
  GpuKernelCode *code = _gpu_kernel_get_code (kernel);
  Launch operation = { code, values != NULL ? values : few_values,
                       memories != NULL ? memories : few_memories, n, grid, block };
  GpuSubmission submission = { .function = "gpu_stream_launch", .run = run_launch,
                               .operation = &operation, .keep = code,
                               .release = (GDestroyNotify) _gpu_kernel_code_unref };

  if (!_gpu_arguments_resolve (arguments, kernel, operation.values, operation.memories, error))
    return FALSE;

  submission.accesses = accesses != NULL ? accesses : few_accesses;
  submission.n_accesses = collect_accesses (kernel, operation.memories, n, submission.accesses);
  _gpu_kernel_code_ref (code);

  if (_gpu_submit (timeline, &submission, NULL, error))
    return TRUE;

  _gpu_kernel_code_unref (code);

  return FALSE;
}

static GpuTimeline *
check_launch (GpuStream        *stream,
              GpuKernel        *kernel,
              const GpuExtent  *grid,
              const GpuExtent  *block,
              GError          **error)
{
  GpuTimeline *timeline = _gpu_stream_get_timeline (stream, "gpu_stream_launch", error);
  GpuKernelCode *code = _gpu_kernel_get_code (kernel);

  if (timeline == NULL)
    return NULL;

  if (code == NULL)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                           "gpu_stream_launch: the kernel was never initialised");
      return NULL;
    }

  if (code->context != timeline->context)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "gpu_stream_launch: the kernel %s and the stream belong to different contexts",
                   gpu_kernel_get_name (kernel));
      return NULL;
    }

  return check_extents (timeline->device, grid, block, error) ? timeline : NULL;
}

/**
 * gpu_stream_launch: (skip)
 * @stream: a #GpuStream
 * @kernel: a kernel of the stream's context
 * @grid: how many work-items there are in each dimension
 * @block: (nullable): how many of them are a work-group, %NULL to let the driver choose
 * @error: return location for an error
 * @...: the arguments of the kernel, as many as gpu_kernel_get_n_arguments()
 *
 * Runs a kernel (OpenCL: clSetKernelArg, clEnqueueNDRangeKernel). @grid counts work-items, not
 * blocks. Does not block; the kernel and the memories are kept until it has run, values are copied
 * at once. The kernel counts as a writer of every memory but those with %GPU_MEMORY_READ_ONLY, and
 * those behind arguments of which the driver tells that they are const.
 *
 * The arguments are read by what the kernel says of them, or by gpu_kernel_declare_arguments()
 * where it says nothing: a #GpuMemory for memory, a #gsize of bytes for local memory, an int or
 * #guint for integers up to 32 bits, a #gint64 or #guint64 for those of 64 bits, a #gdouble for
 * half, float and double, and a pointer to its bytes for any other value. Nobody can check that
 * there are as many, and of these types.
 *
 * Returns: %TRUE, or %FALSE with an error as of gpu_stream_launch_arguments(), or with
 *   %GPU_ERROR_INVALID_ARGUMENT if it is not known what an argument is
 *
 * Since: 0.1
 */
gboolean
gpu_stream_launch (GpuStream        *stream,
                   GpuKernel        *kernel,
                   const GpuExtent  *grid,
                   const GpuExtent  *block,
                   GError          **error,
                   ...)
{
  g_autoptr (GpuArguments) arguments = NULL;
  GpuTimeline *timeline;
  va_list ap;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_KERNEL (kernel), FALSE);
  g_return_val_if_fail (grid != NULL, FALSE);

  timeline = check_launch (stream, kernel, grid, block, error);

  if (timeline == NULL)
    return FALSE;

  va_start (ap, error);
  arguments = _gpu_arguments_new_va (kernel, ap, error);
  va_end (ap);

  return arguments != NULL && launch (timeline, kernel, grid, block, arguments, error);
}

/**
 * gpu_stream_launch_arguments:
 * @stream: a #GpuStream
 * @kernel: a kernel of the stream's context
 * @grid: how many work-items there are in each dimension
 * @block: (nullable): how many of them are a work-group, %NULL to let the driver choose
 * @arguments: the arguments of the kernel; they can be used again, for other launches too
 * @error: return location for an error
 *
 * Runs a kernel (OpenCL: clSetKernelArg, clEnqueueNDRangeKernel). @grid counts work-items, not
 * blocks. Does not block; the kernel and the memories are kept until it has run, values are
 * copied at once. The kernel counts as a writer of every memory but those with
 * %GPU_MEMORY_READ_ONLY, and those behind arguments of which the driver tells that they are const.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if the number, a kind, a size or a
 *   range of the arguments is wrong, the grid or the block is empty, the grid is no multiple of the
 *   block on a device that lacks %GPU_CAPABILITIES_NON_UNIFORM_GROUPS, or a context is foreign,
 *   %GPU_ERROR_RELEASED, %GPU_ERROR_BUSY if a memory is mapped, %GPU_ERROR_LAUNCH_FAILED, or the
 *   driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_stream_launch_arguments (GpuStream        *stream,
                             GpuKernel        *kernel,
                             const GpuExtent  *grid,
                             const GpuExtent  *block,
                             GpuArguments     *arguments,
                             GError          **error)
{
  GpuTimeline *timeline;

  g_return_val_if_fail (GPU_IS_STREAM (stream), FALSE);
  g_return_val_if_fail (GPU_IS_KERNEL (kernel), FALSE);
  g_return_val_if_fail (grid != NULL, FALSE);
  g_return_val_if_fail (arguments != NULL, FALSE);

  timeline = check_launch (stream, kernel, grid, block, error);

  return timeline != NULL && launch (timeline, kernel, grid, block, arguments, error);
}

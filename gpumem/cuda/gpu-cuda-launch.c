/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Launches. Nothing is allocated; the driver copies the arguments before cuLaunchKernel() returns.
 */
#include "config.h"

#include <string.h>

#include "gpumem/cuda/gpu-cuda-program.h"

/* Work-items of a block when nobody says how many. */
#define DEFAULT_BLOCK 256

/* Of every piece of local memory: what the largest vector in the prelude's hands needs. */
#define SHARED_ALIGNMENT 16

#define EXTENT "%" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT
#define EXTENT_ARGS(e) (e)[0], (e)[1], (e)[2]

typedef struct
{
  gsize   grid[3];              /* work-items */
  gsize   block[3];
  gsize   n_blocks[3];
  gsize   shared;               /* dynamic, bytes */
  void  **arguments;
} Launch;

G_LOCK_DEFINE_STATIC (dynamic_shared);

/* --- blocks ----------------------------------------------------------------------------------- */

/* Division in 64 bits takes several times as long as in 32, and most blocks are powers of two. */
static inline gsize
divide (gsize size,
        gsize by)
{
  if ((by & (by - 1)) == 0)
    return size >> __builtin_ctzll (by);

  return ((size | by) >> 32) == 0 ? (guint32) size / (guint32) by : size / by;
}

/* The largest divisor of @size up to @limit that is a multiple of @warp, or else any. */
static gsize
choose_divisor (gsize size,
                gsize limit,
                gsize warp)
{
  if (size == 1 || limit <= 1)
    return 1;

  for (gsize divisor = limit / warp * warp; divisor >= warp; divisor -= warp)
    {
      if (divide (size, divisor) * divisor == size)
        return divisor;
    }

  for (gsize divisor = MIN (limit, size); divisor > 1; divisor--)
    {
      if (divide (size, divisor) * divisor == size)
        return divisor;
    }

  return 1;
}

/* Programs launch the same grid again and again: the last choice is kept for each thread. */
static void
choose_block (const GpuCudaKernel *kernel,
              const GpuCudaDevice *device,
              Launch              *launch)
{
  static __thread struct
  {
    const GpuCudaDevice *device;
    int                  max_threads;
    gsize                grid[3];
    gsize                block[3];
  } last;
  gsize left = MIN (DEFAULT_BLOCK, kernel->max_threads);

  if (last.device != device || last.max_threads != kernel->max_threads ||
      memcmp (last.grid, launch->grid, sizeof last.grid) != 0)
    {
      for (guint i = 0; i < 3; i++)
        {
          gsize limit = MIN (left, (gsize) device->max_block[i]);

          last.block[i] = choose_divisor (launch->grid[i], limit, i == 0 ? device->warp_size : 1);
          left /= last.block[i];
        }

      last.device = device;
      last.max_threads = kernel->max_threads;
      memcpy (last.grid, launch->grid, sizeof last.grid);
    }

  memcpy (launch->block, last.block, sizeof last.block);
}

static gboolean
fail_geometry (const GpuCudaKernel  *kernel,
               const GpuCudaDevice  *device,
               const Launch         *launch,
               const char           *what,
               GError              **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "kernel \"%s\", grid " EXTENT ", block " EXTENT ": %s; a block may have %d x %d x "
               "%d work-items, and %d in all, a grid %d x %d x %d blocks", kernel->name,
               EXTENT_ARGS (launch->grid), EXTENT_ARGS (launch->block), what,
               EXTENT_ARGS (device->max_block), kernel->max_threads,
               EXTENT_ARGS (device->max_grid));

  return FALSE;
}

static gboolean
check_required_block (const GpuCudaKernel  *kernel,
                      const Launch         *launch,
                      GError              **error)
{
  const guint *required = kernel->required_block;

  if (required[0] == 0 || (launch->block[0] == required[0] && launch->block[1] == required[1] &&
                           launch->block[2] == required[2]))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "kernel \"%s\" requires blocks of %u x %u x %u, not " EXTENT, kernel->name,
               EXTENT_ARGS (required), EXTENT_ARGS (launch->block));

  return FALSE;
}

static gboolean
set_geometry (const GpuCudaKernel  *kernel,
              const GpuCudaDevice  *device,
              const GpuExtent      *grid,
              const GpuExtent      *block,
              Launch               *launch,
              GError              **error)
{
  gsize n_items = 1;

  launch->grid[0] = grid->width;
  launch->grid[1] = grid->height;
  launch->grid[2] = grid->depth;

  if (block != NULL)
    {
      launch->block[0] = block->width;
      launch->block[1] = block->height;
      launch->block[2] = block->depth;
    }
  else if (kernel->required_block[0] != 0)
    {
      for (guint i = 0; i < 3; i++)
        launch->block[i] = kernel->required_block[i];
    }
  else
    {
      choose_block (kernel, device, launch);
    }

  for (guint i = 0; i < 3; i++)
    {
      gsize size = launch->block[i];

      if (size > (gsize) device->max_block[i])
        return fail_geometry (kernel, device, launch, "the block is too large", error);

      launch->n_blocks[i] = divide (launch->grid[i], size);
      n_items *= size;

      if (launch->n_blocks[i] * size != launch->grid[i])
        return fail_geometry (kernel, device, launch, "the grid is no multiple of the block",
                              error);
      if (launch->n_blocks[i] > (gsize) device->max_grid[i])
        return fail_geometry (kernel, device, launch, "the grid has too many blocks", error);
    }

  if (n_items > (gsize) kernel->max_threads)
    return fail_geometry (kernel, device, launch, "the block has too many work-items", error);

  return check_required_block (kernel, launch, error);
}

/* --- arguments -------------------------------------------------------------------------------- */

/* What the front class could not check: nothing but the size of the argument is known. */
static gboolean
check_argument (const GpuCudaKernel     *kernel,
                guint                    index,
                const GpuArgumentValue  *value,
                GError                 **error)
{
  gsize wanted = kernel->base.arguments[index].size;
  gsize given = value->kind == GPU_ARGUMENT_KIND_VALUE ? value->size : sizeof (CUdeviceptr);

  if (value->kind == GPU_ARGUMENT_KIND_LOCAL)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "kernel \"%s\", argument %u: only kernels in the portable dialect take local "
                 "memory as an argument", kernel->name, index);
  else if (wanted != 0 && wanted != given)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "kernel \"%s\", argument %u has %" G_GSIZE_FORMAT " bytes, not %" G_GSIZE_FORMAT,
                 kernel->name, index, wanted, given);
  else
    return TRUE;

  return FALSE;
}

/* Local memory is one block for all arguments, each of which is given its offset. */
static gboolean
set_arguments (const GpuCudaKernel     *kernel,
               const GpuArgumentValue  *values,
               guint                    n_values,
               guint32                 *offsets,
               Launch                  *launch,
               GError                 **error)
{
  static CUdeviceptr null;

  for (guint i = 0; i < n_values; i++)
    {
      const GpuArgumentValue *value = &values[i];

      if (G_UNLIKELY (!kernel->is_described) && !check_argument (kernel, i, value, error))
        return FALSE;

      switch (value->kind)
        {
        case GPU_ARGUMENT_KIND_MEMORY:
          launch->arguments[i] = value->buffer != NULL
                                 ? &((GpuCudaBuffer *) value->buffer)->address : &null;
          break;
        case GPU_ARGUMENT_KIND_LOCAL:
          launch->arguments[i] = &offsets[i];
          offsets[i] = (guint32) launch->shared;
          launch->shared += MIN (value->size, G_MAXINT32) + SHARED_ALIGNMENT - 1;
          launch->shared -= launch->shared % SHARED_ALIGNMENT;
          break;
        default:
          launch->arguments[i] = (void *) value->data;
          break;
        }
    }

  return TRUE;
}

/* --- local memory ----------------------------------------------------------------------------- */

/* The driver has one limit for all kernels of a function: it and what is known of it change
 * together. */
CUresult
_gpu_cuda_kernel_set_limit (GpuCudaKernel *kernel,
                            int            size)
{
  CUresult code;

  G_LOCK (dynamic_shared);
  code = _gpu_cuda.cuFuncSetAttribute (kernel->function,
                                       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, size);
  if (code == CUDA_SUCCESS)
    g_atomic_int_set (kernel->dynamic_shared, size);
  G_UNLOCK (dynamic_shared);

  return code;
}

/* With the context entered. The kernel gets what it asks for if the device has it: all that there
 * is, so that nobody who asks for less takes it away from others. */
static gboolean
raise_dynamic_shared (GpuCudaKernel        *kernel,
                      const GpuCudaDevice  *device,
                      gsize                 size,
                      GError              **error)
{
  int most = 0;
  CUresult code;

  _gpu_cuda.cuDeviceGetAttribute (&most,
                                  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                                  device->device);

  if (size > (gsize) MAX (most - kernel->static_shared, 0))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_LAUNCH_FAILED,
                   "kernel \"%s\" is given %" G_GSIZE_FORMAT " bytes of local memory and has "
                   "variables of %d there, but a block on %s has %d", kernel->name, size,
                   kernel->static_shared, device->base.id, most);
      return FALSE;
    }

  code = _gpu_cuda_kernel_set_limit (kernel, most - kernel->static_shared);

  if (code == CUDA_SUCCESS)
    return TRUE;

  _gpu_cuda_set_error (error, "cuFuncSetAttribute", code,
                       "kernel \"%s\", %" G_GSIZE_FORMAT " bytes of local memory", kernel->name,
                       size);

  return FALSE;
}

static CUresult
run (const GpuCudaKernel *kernel,
     const GpuCudaStream *stream,
     const Launch        *launch,
     GpuLaunchFlags       flags)
{
  const gsize *grid = launch->n_blocks;
  const gsize *block = launch->block;

  if ((flags & GPU_LAUNCH_FLAGS_COOPERATIVE) != 0)
    return _gpu_cuda.cuLaunchCooperativeKernel (kernel->function, EXTENT_ARGS (grid),
                                                EXTENT_ARGS (block), launch->shared,
                                                stream->stream, launch->arguments);

  return _gpu_cuda.cuLaunchKernel (kernel->function, EXTENT_ARGS (grid), EXTENT_ARGS (block),
                                   launch->shared, stream->stream, launch->arguments, NULL);
}

gboolean
_gpu_cuda_kernel_launch_full (GpuNativeStream         *stream,
                              GpuNativeKernel         *native,
                              const GpuArgumentValue  *arguments,
                              guint                    n_arguments,
                              const GpuExtent         *grid,
                              const GpuExtent         *block,
                              gsize                    shared_size,
                              GpuLaunchFlags           flags,
                              GpuNativeEvent         **event,
                              GError                 **error)
{
  GpuCudaKernel *kernel = (GpuCudaKernel *) native;
  const GpuCudaDevice *device = ((GpuCudaContext *) stream->context)->device;
  guint32 *offsets = g_newa (guint32, n_arguments + 1);
  Launch launch = { .shared = 0, .arguments = g_newa (void *, n_arguments + 1) };
  GpuCudaCall call;
  CUresult code;

  if (!set_geometry (kernel, device, grid, block, &launch, error) ||
      !set_arguments (kernel, arguments, n_arguments, offsets, &launch, error))
    return FALSE;

  launch.shared += MIN (shared_size, G_MAXINT32);

  if (!_gpu_cuda_begin (stream, event, &call, error))
    return FALSE;

  if (G_UNLIKELY (launch.shared > (gsize) g_atomic_int_get (kernel->dynamic_shared)) &&
      !raise_dynamic_shared (kernel, device, launch.shared, error))
    {
      _gpu_cuda_cancel (&call);
      return FALSE;
    }

  code = run (kernel, (GpuCudaStream *) stream, &launch, flags);

  if (G_LIKELY (_gpu_cuda_is_done (stream, &call, code)))
    {
      _gpu_cuda_leave (call.entered);
      return TRUE;
    }

  return _gpu_cuda_end (stream, event, &call, code, error, "cuLaunchKernel",
                        "kernel \"%s\", grid " EXTENT ", block " EXTENT ", %" G_GSIZE_FORMAT
                        " bytes of local memory", kernel->name, EXTENT_ARGS (launch.grid),
                        EXTENT_ARGS (launch.block), launch.shared);
}

gboolean
_gpu_cuda_kernel_launch (GpuNativeStream         *stream,
                         GpuNativeKernel         *native,
                         const GpuArgumentValue  *arguments,
                         guint                    n_arguments,
                         const GpuExtent         *grid,
                         const GpuExtent         *block,
                         GpuNativeEvent         **event,
                         GError                 **error)
{
  return _gpu_cuda_kernel_launch_full (stream, native, arguments, n_arguments, grid, block, 0,
                                       GPU_LAUNCH_FLAGS_NONE, event, error);
}

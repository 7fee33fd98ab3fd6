/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Launches. The arguments are on the stack, because the driver copies them before cuLaunchKernel()
 * returns.
 */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-call.h"
#include "gpumem/cuda/program/gpu-cuda-program.h"
#include "gpumem/format/gpu-region-private.h"

/* Maximum number of work-items per block if the caller specifies no block. */
#define DEFAULT_BLOCK 256

/* Alignment of each local memory argument in bytes. The prelude declares shared memory with this
 * alignment. */
#define SHARED_ALIGNMENT 16
/* Sums of this many bytes for each argument do not overflow. More than any device has. */
#define SHARED_MAX ((gsize) 1 << 50)

#define EXTENT "%" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT
#define EXTENT_ARGS(e) (e)->width, (e)->height, (e)->depth

typedef struct
{
  const GpuExtent  *grid;       /* work-items */
  const GpuExtent  *block;
  GpuExtent         chosen;     /* the block if the caller specified none */
  GpuExtent         n_blocks;
  gsize             shared;     /* dynamic, bytes */
  void            **arguments;  /* pointers, followed by space for values that they point to */
  const GpuExtent  *offset;     /* nullable */
  const char       *function;   /* the driver call that failed */
} Launch;

G_LOCK_DEFINE_STATIC (dynamic_shared);

/* --- blocks ----------------------------------------------------------------------------------- */

/* Avoids 64-bit divisions, which take several times as long as 32-bit divisions. */
GPU_APART static gsize
divide_by_any (gsize size,
               gsize by)
{
  return ((size | by) >> 32) == 0 ? (guint32) size / (guint32) by : size / by;
}

/* Most extents of blocks are powers of two. */
static inline gsize
divide (gsize size,
        gsize by)
{
  return G_LIKELY ((by & (by - 1)) == 0) ? size >> __builtin_ctzll (by) : divide_by_any (size, by);
}

/* Returns the largest divisor of @size up to @limit, preferring multiples of @warp. */
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

static inline gboolean
is_same (const GpuExtent *a,
         const GpuExtent *b)
{
  return a->width == b->width && a->height == b->height && a->depth == b->depth;
}

/* Caches the last choice of each thread, because programs often launch the same grid repeatedly. */
static void
choose_recent_block (const GpuCudaKernel *kernel,
                     const GpuCudaDevice *device,
                     const GpuExtent     *grid,
                     GpuExtent           *block)
{
  static __thread struct
  {
    const GpuCudaDevice *device;
    int                  max_threads;
    GpuExtent            grid;
    GpuExtent            block;
  } last;

  if (last.device != device || last.max_threads != kernel->max_threads ||
      !is_same (&last.grid, grid))
    {
      gsize left = MIN (DEFAULT_BLOCK, kernel->max_threads);
      const int *max = device->max_block;

      last.block.width = choose_divisor (grid->width, MIN (left, (gsize) max[0]),
                                         device->warp_size);
      left /= last.block.width;
      last.block.height = choose_divisor (grid->height, MIN (left, (gsize) max[1]), 1);
      left /= last.block.height;
      last.block.depth = choose_divisor (grid->depth, MIN (left, (gsize) max[2]), 1);
      last.device = device;
      last.max_threads = kernel->max_threads;
      last.grid = *grid;
    }

  *block = last.block;
}

static inline gboolean
is_too_large (const GpuExtent *extent,
              const int       *max)
{
  return extent->width > (gsize) max[0] || extent->height > (gsize) max[1]
         || extent->depth > (gsize) max[2];
}

static inline gboolean
is_multiple (const Launch *launch)
{
  const GpuExtent *n_blocks = &launch->n_blocks;

  return n_blocks->width * launch->block->width == launch->grid->width
         && n_blocks->height * launch->block->height == launch->grid->height
         && n_blocks->depth * launch->block->depth == launch->grid->depth;
}

GPU_COLD static gboolean
fail_geometry (const GpuCudaKernel  *kernel,
               const GpuCudaDevice  *device,
               const Launch         *launch,
               GError              **error)
{
  const char *what = is_too_large (launch->block, device->max_block)
                     ? "the block is too large"
                     : !is_multiple (launch)
                     ? "the grid is not a multiple of the block"
                     : is_too_large (&launch->n_blocks, device->max_grid)
                     ? "the grid has too many blocks" : "the block has too many work-items";

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "kernel \"%s\", grid " EXTENT ", block " EXTENT ": %s; a block may have at most %d "
               "x %d x %d work-items, and %d in total, a grid at most %d x %d x %d blocks",
               kernel->name, EXTENT_ARGS (launch->grid), EXTENT_ARGS (launch->block), what,
               device->max_block[0], device->max_block[1], device->max_block[2],
               kernel->max_threads, device->max_grid[0], device->max_grid[1],
               device->max_grid[2]);

  return FALSE;
}

static GpuExtent
get_required_block (const GpuCudaKernel *kernel)
{
  const guint *required = kernel->required_block;

  return (GpuExtent) { required[0], required[1], required[2] };
}

G_GNUC_NO_INLINE static void
choose_block (const GpuCudaKernel *kernel,
              const GpuCudaDevice *device,
              const GpuExtent     *grid,
              GpuExtent           *block)
{
  if (kernel->required_block[0] != 0)
    *block = get_required_block (kernel);
  else
    choose_recent_block (kernel, device, grid, block);
}

G_GNUC_NO_INLINE static gboolean
check_required_block (const GpuCudaKernel  *kernel,
                      const GpuExtent      *block,
                      GError              **error)
{
  const GpuExtent required = get_required_block (kernel);

  if (is_same (&required, block))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "kernel \"%s\" requires blocks of " EXTENT ", not " EXTENT, kernel->name,
               EXTENT_ARGS (&required), EXTENT_ARGS (block));

  return FALSE;
}

G_GNUC_NO_INLINE static gboolean
set_blocks (const GpuCudaKernel  *kernel,
            const GpuCudaDevice  *device,
            Launch               *launch,
            GError              **error)
{
  const GpuExtent *grid = launch->grid;
  const GpuExtent *block = launch->block;

  launch->n_blocks.width = divide (grid->width, block->width);
  launch->n_blocks.height = divide (grid->height, block->height);
  launch->n_blocks.depth = divide (grid->depth, block->depth);

  if (G_UNLIKELY (is_too_large (block, device->max_block)) || G_UNLIKELY (!is_multiple (launch)) ||
      G_UNLIKELY (is_too_large (&launch->n_blocks, device->max_grid)) ||
      G_UNLIKELY (block->width * block->height * block->depth > (gsize) kernel->max_threads))
    return fail_geometry (kernel, device, launch, error);

  return TRUE;
}

/* Sets the blocks of a grid with one dimension. Returns FALSE if there are more dimensions, or if
 * set_blocks() must report an error. */
static inline gboolean
set_line (const GpuCudaKernel *kernel,
          const GpuCudaDevice *device,
          Launch              *launch)
{
  const gsize width = launch->block->width;
  const gsize n_blocks = divide (launch->grid->width, width);

  if (!_gpu_extent_is_line (launch->grid) || !_gpu_extent_is_line (launch->block)
      || width > (gsize) MIN (device->max_block[0], kernel->max_threads)
      || n_blocks * width != launch->grid->width || n_blocks > (gsize) device->max_grid[0])
    return FALSE;

  launch->n_blocks = (GpuExtent) { n_blocks, 1, 1 };

  return TRUE;
}

G_ALWAYS_INLINE static inline gboolean
set_geometry (const GpuCudaKernel  *kernel,
              const GpuCudaDevice  *device,
              const GpuExtent      *grid,
              const GpuExtent      *block,
              Launch               *launch,
              GError              **error)
{
  if (G_UNLIKELY (block == NULL))
    {
      choose_block (kernel, device, grid, &launch->chosen);
      block = &launch->chosen;
    }

  launch->grid = grid;
  launch->block = block;

  return (G_LIKELY (set_line (kernel, device, launch))
          || set_blocks (kernel, device, launch, error))
         && (G_LIKELY (kernel->required_block[0] == 0)
             || check_required_block (kernel, block, error));
}

/* --- arguments -------------------------------------------------------------------------------- */

/* Checks an argument of a kernel without a description. GpuKernel does not check it, because its
 * type is unknown. */
G_GNUC_NO_INLINE static gboolean
check_argument (const GpuCudaKernel     *kernel,
                guint                    index,
                const GpuArgumentValue  *value,
                GError                 **error)
{
  gsize wanted = kernel->base.arguments[index].size;
  gsize given = value->kind == GPU_ARGUMENT_KIND_VALUE ? value->size : sizeof (CUdeviceptr);

  if (value->kind == GPU_ARGUMENT_KIND_LOCAL || value->kind == GPU_ARGUMENT_KIND_SAMPLER)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "kernel \"%s\", argument %u: only kernels in the portable dialect take %s as an "
                 "argument", kernel->name, index,
                 value->kind == GPU_ARGUMENT_KIND_LOCAL ? "local memory" : "a sampler");
  else if (wanted != 0 && wanted != given)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "kernel \"%s\", argument %u has %" G_GSIZE_FORMAT " bytes, not %" G_GSIZE_FORMAT,
                 kernel->name, index, wanted, given);
  else
    return TRUE;

  return FALSE;
}

/* Sets images and samplers. Enters the context, because texture and surface objects are created on
 * first use. */
G_GNUC_NO_INLINE static gboolean
set_objects (const GpuCudaKernel     *kernel,
             const GpuArgumentValue  *values,
             guint                    n_values,
             Launch                  *launch,
             GError                 **error)
{
  guint64 *slots = (guint64 *) launch->arguments + n_values;
  guint64 *words = slots + n_values;
  gboolean success = TRUE;
  gboolean entered;

  if (!_gpu_cuda_enter (kernel->module->context, &entered, error))
    return FALSE;

  for (guint i = 0; i < n_values && success; i++)
    {
      if (values[i].kind == GPU_ARGUMENT_KIND_IMAGE || values[i].kind == GPU_ARGUMENT_KIND_SAMPLER)
        success = _gpu_cuda_launch_set_object (kernel, values, n_values, i, &slots[i], &words,
                                               &launch->arguments[i], error);
    }

  _gpu_cuda_leave (entered);

  return success;
}

/* All local memory arguments share one block of memory, and the kernel gets the offset of each
 * argument. */
GPU_APART static void
set_local (Launch                 *launch,
           guint                   index,
           guint64                *slot,
           const GpuArgumentValue *value)
{
  launch->arguments[index] = slot;
  *(guint32 *) slot = (guint32) launch->shared;
  launch->shared += MIN (value->size, SHARED_MAX) + SHARED_ALIGNMENT - 1;
  launch->shared -= launch->shared % SHARED_ALIGNMENT;
}

/* In launch->arguments, the pointers are followed by one slot per argument, which can hold the
 * offset of a local memory argument. The structures of images follow the slots. */
GPU_HOT static gboolean
set_arguments (const GpuCudaKernel     *kernel,
               const GpuArgumentValue  *values,
               guint                    n_values,
               Launch                  *launch,
               GError                 **error)
{
  static CUdeviceptr null;
  guint64 *slots = (guint64 *) launch->arguments + n_values;
  gboolean has_objects = FALSE;

  for (guint i = 0; i < n_values; i++)
    {
      const GpuArgumentValue *value = &values[i];

      if (G_UNLIKELY (!kernel->is_described) && !check_argument (kernel, i, value, error))
        return FALSE;

      if (value->kind == GPU_ARGUMENT_KIND_MEMORY)
        launch->arguments[i] = G_LIKELY (value->buffer != NULL)
                               ? &((GpuCudaBuffer *) value->buffer)->address : &null;
      else if (value->kind == GPU_ARGUMENT_KIND_LOCAL)
        set_local (launch, i, &slots[i], value);
      else if (value->kind == GPU_ARGUMENT_KIND_IMAGE || value->kind == GPU_ARGUMENT_KIND_SAMPLER)
        has_objects = TRUE;
      else
        launch->arguments[i] = (void *) value->data;
    }

  return G_LIKELY (!has_objects) || set_objects (kernel, values, n_values, launch, error);
}

/* --- local memory ----------------------------------------------------------------------------- */

/* All kernel objects of one CUfunction share the driver's limit of dynamic shared memory. The lock
 * ensures that the recorded value equals the driver's limit. */
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

/* Raises the kernel's limit of dynamic shared memory to the device maximum, so that concurrent
 * launches never lower it. */
G_GNUC_NO_INLINE static gboolean
raise_dynamic_shared (GpuCudaKernel   *kernel,
                      GpuCudaContext  *context,
                      gsize            size,
                      GError         **error)
{
  GpuCudaDevice *device = context->device;
  int most = _gpu_cuda_get_optional (device,
                                     CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  gboolean entered;
  CUresult code;

  if (size > (gsize) MAX (most - kernel->static_shared, 0))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_LAUNCH_FAILED,
                   "kernel \"%s\" needs %" G_GSIZE_FORMAT " bytes of local memory and %d bytes "
                   "for its variables, but a block on %s has only %d bytes", kernel->name, size,
                   kernel->static_shared, device->base.id, most);
      return FALSE;
    }

  if (!_gpu_cuda_enter (context, &entered, error))
    return FALSE;

  code = _gpu_cuda_kernel_set_limit (kernel, most - kernel->static_shared);
  _gpu_cuda_leave (entered);

  if (code == CUDA_SUCCESS)
    return TRUE;

  _gpu_cuda_set_error (error, "cuFuncSetAttribute", code,
                       "kernel \"%s\", %" G_GSIZE_FORMAT " bytes of local memory", kernel->name,
                       size);

  return FALSE;
}

static inline gboolean
add_shared (GpuCudaKernel   *kernel,
            GpuCudaContext  *context,
            gsize            size,
            Launch          *launch,
            GError         **error)
{
  launch->shared += MIN (size, SHARED_MAX);

  return G_LIKELY (launch->shared == 0)
         || launch->shared <= (gsize) g_atomic_int_get (kernel->dynamic_shared)
         || raise_dynamic_shared (kernel, context, launch->shared, error);
}

static inline CUresult
run (const GpuCudaKernel *kernel,
     const GpuCudaStream *stream,
     const Launch        *launch,
     GpuLaunchFlags       flags)
{
  const GpuExtent *grid = &launch->n_blocks;
  const GpuExtent *block = launch->block;

  if (G_UNLIKELY ((flags & GPU_LAUNCH_FLAGS_COOPERATIVE) != 0))
    return _gpu_cuda.cuLaunchCooperativeKernel (kernel->function, EXTENT_ARGS (grid),
                                                EXTENT_ARGS (block), launch->shared,
                                                stream->stream, launch->arguments);

  return _gpu_cuda.cuLaunchKernel (kernel->function, EXTENT_ARGS (grid), EXTENT_ARGS (block),
                                   launch->shared, stream->stream, launch->arguments, NULL);
}

/* Caller has entered the context. */
G_GNUC_NO_INLINE static CUresult
run_with_offset (const GpuCudaKernel *kernel,
                 GpuCudaOffset       *offset,
                 const GpuCudaStream *stream,
                 Launch              *launch,
                 GpuLaunchFlags       flags)
{
  CUresult code = _gpu_cuda_offset_begin (offset, stream->stream, launch->offset,
                                          &launch->function);

  if (code != CUDA_SUCCESS)
    return code;

  launch->function = "cuLaunchKernel";
  code = run (kernel, stream, launch, flags);

  return _gpu_cuda_offset_end (offset, stream->stream, code, &launch->function);
}

/* Ends a launch that failed or that returns an event. */
GPU_COLD static gboolean
end_launch (GpuNativeStream      *stream,
            const GpuCudaKernel  *kernel,
            const Launch         *launch,
            GpuNativeEvent      **event,
            GpuCudaCall          *call,
            CUresult              code,
            GError              **error)
{
  return _gpu_cuda_end (stream, event, call, code, error, launch->function,
                        "kernel \"%s\", grid " EXTENT ", block " EXTENT ", %" G_GSIZE_FORMAT
                        " bytes of local memory", kernel->name, EXTENT_ARGS (launch->grid),
                        EXTENT_ARGS (launch->block), launch->shared);
}

GPU_HOT gboolean
_gpu_cuda_kernel_launch (GpuNativeStream        *stream,
                         GpuNativeKernel        *native,
                         const GpuNativeLaunch  *given,
                         GpuNativeEvent        **event,
                         GError                **error)
{
  GpuCudaKernel *kernel = (GpuCudaKernel *) native;
  GpuCudaContext *context = (GpuCudaContext *) stream->context;
  const GpuLaunchOptions *options = given->options;
  const guint n = given->n_arguments;
  GpuLaunchFlags flags = GPU_LAUNCH_FLAGS_NONE;
  GpuCudaOffset *offset = NULL;
  gsize shared_size = 0;
  Launch launch;
  GpuCudaCall call;
  CUresult code;

  if (G_UNLIKELY (options != NULL))
    {
      shared_size = options->shared_size;
      flags = options->flags;
      launch.offset = options->offset;

      if (launch.offset != NULL)
        {
          offset = kernel->module->offset;
          kernel = kernel->with_offset;
        }
    }

  launch.function = "cuLaunchKernel";
  launch.shared = 0;
  launch.arguments = (void **) g_newa (guint64, 2 * (gsize) n + kernel->n_image_words);

  if (G_UNLIKELY (!set_geometry (kernel, context->device, given->grid, given->block, &launch,
                                 error)) ||
      (n > 0 && G_UNLIKELY (!set_arguments (kernel, given->arguments, n, &launch, error))) ||
      G_UNLIKELY (!add_shared (kernel, context, shared_size, &launch, error)))
    return FALSE;

  if (!(G_LIKELY (flags == GPU_LAUNCH_FLAGS_NONE) && G_LIKELY (offset == NULL)
        && _gpu_cuda_begin_plain (stream, event, &call))
      && !_gpu_cuda_begin (stream, event, &call, error))
    return FALSE;

  do
    code = G_LIKELY (offset == NULL)
           ? run (kernel, (GpuCudaStream *) stream, &launch, flags)
           : run_with_offset (kernel, offset, (GpuCudaStream *) stream, &launch, flags);
  while (G_UNLIKELY (code != CUDA_SUCCESS) && _gpu_cuda_enter_late (stream, &call, code));

  return _gpu_cuda_end_plain (stream, &call, code)
         || end_launch (stream, kernel, &launch, event, &call, code, error);
}

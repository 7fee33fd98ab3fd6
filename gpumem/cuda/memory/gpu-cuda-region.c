/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copies of regions. The driver requires rows that do not overlap, and slice pitches that are
 * multiples of the row pitch. Other regions are copied slice by slice or row by row. For arrays,
 * the driver takes coordinates instead of addresses and pitches.
 */
#include "config.h"

#include <string.h>

#include "gpumem/cuda/core/gpu-cuda-call.h"
#include "gpumem/cuda/memory/gpu-cuda-block.h"

/* The longest pitch that the driver accepts. */
#define PITCH_MAX ((gsize) G_MAXINT32)

/* The source or the destination of a copy: memory of the host, of a device or of both, or an
 * array. */
typedef struct
{
  CUmemorytype  type;
  guint8       *host;
  CUdeviceptr   address;
  gsize         row_pitch;
  gsize         slice_pitch;
  CUarray       array;              /* nullable; the fields below describe it */
  gsize         x;                  /* bytes */
  gsize         y;
  gsize         z;                  /* slices or layers */
  gboolean      rows_are_layers;
  gboolean      slices_are_layers;
  gboolean      is_chunked;         /* GpuCudaBuffer.is_chunked */
  gboolean      is_managed;         /* GpuCudaBuffer.is_managed */
} Side;

typedef struct
{
  CUstream       stream;
  GpuCudaStream *native;            /* NULL for a stream of the library's own */
  CUcontext      to_context;        /* NULL, like from_context, unless the contexts differ */
  CUcontext      from_context;
  gsize          width;
  gsize          height;
  gsize          depth;
  const char    *function;          /* the last driver function called */
  gsize          n_pieces;          /* copies enqueued so far */
  gboolean       by_rows;           /* each row of linear memory is one copy */
} RegionOp;

static Side
get_image_side (const GpuRegionSide *side)
{
  GpuCudaImage *image = (GpuCudaImage *) side->memory;
  const GpuImageDescription *description = &image->base.description;
  Side result = { image->array != NULL ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE, NULL,
                  image->address + side->offset, side->row_pitch, side->slice_pitch };

  if (image->array == NULL)
    {
      result.type = image->base.base.host != NULL ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
      result.is_chunked = image->base.base.host != NULL;
      return result;
    }

  result.rows_are_layers = description->type == GPU_IMAGE_TYPE_IMAGE_1D_ARRAY;
  result.slices_are_layers = description->type == GPU_IMAGE_TYPE_IMAGE_2D_ARRAY
                             || description->type == GPU_IMAGE_TYPE_CUBEMAP
                             || description->type == GPU_IMAGE_TYPE_CUBEMAP_ARRAY;
  result.array = image->array;
  result.x = side->x * description->texel_size;
  result.y = result.rows_are_layers ? 0 : side->y;
  result.z = result.rows_are_layers ? side->y : side->z;

  return result;
}

static Side
get_side (const GpuRegionSide *side)
{
  GpuCudaBuffer *buffer = (GpuCudaBuffer *) side->memory;

  if (buffer == NULL)
    return (Side) { CU_MEMORYTYPE_HOST, (guint8 *) side->data + side->offset, 0, side->row_pitch,
                    side->slice_pitch };

  if (side->memory->is_image)
    return get_image_side (side);

  if (side->memory->is_host_only || buffer->kind == GPU_CUDA_MEMORY_SYSTEM)
    return (Side) { CU_MEMORYTYPE_HOST, (guint8 *) side->memory->host + side->offset, 0,
                    side->row_pitch, side->slice_pitch };

  return (Side) { .type = side->memory->host != NULL ? CU_MEMORYTYPE_UNIFIED
                                                     : CU_MEMORYTYPE_DEVICE,
                  .address = buffer->address + side->offset, .row_pitch = side->row_pitch,
                  .slice_pitch = side->slice_pitch, .is_chunked = buffer->is_chunked,
                  .is_managed = buffer->is_managed };
}

static Side
advance (const Side *side,
         gsize       n_rows,
         gsize       n_slices)
{
  gsize n_bytes = n_rows * side->row_pitch + n_slices * side->slice_pitch;
  Side moved = *side;

  if (side->array != NULL)
    {
      moved.y += side->rows_are_layers ? 0 : n_rows;
      moved.z += side->rows_are_layers ? n_rows : n_slices;
    }
  else if (side->type == CU_MEMORYTYPE_HOST)
    {
      moved.host += n_bytes;
    }
  else
    {
      moved.address += n_bytes;
    }

  return moved;
}

static CUresult
copy_row (RegionOp   *op,
          const Side *to,
          const Side *from)
{
  if (op->to_context != NULL)
    {
      op->function = "cuMemcpyPeerAsync";

      return _gpu_cuda.cuMemcpyPeerAsync (to->address, op->to_context, from->address,
                                          op->from_context, op->width, op->stream);
    }

  op->function = "cuMemcpyAsync";

  return _gpu_cuda.cuMemcpyAsync (to->host != NULL ? (guintptr) to->host : to->address,
                                  from->host != NULL ? (guintptr) from->host : from->address,
                                  op->width, op->stream);
}

static CUresult
copy_2d (RegionOp   *op,
         const Side *to,
         const Side *from,
         gsize       height)
{
  const CUDA_MEMCPY2D copy =
  {
    .srcMemoryType = from->type,
    .srcHost       = from->host,
    .srcDevice     = from->address,
    .srcPitch      = from->row_pitch,
    .dstMemoryType = to->type,
    .dstHost       = to->host,
    .dstDevice     = to->address,
    .dstPitch      = to->row_pitch,
    .WidthInBytes  = op->width,
    .Height        = height
  };
  CUresult code;

  op->function = "cuMemcpy2DAsync";
  code = _gpu_cuda.cuMemcpy2DAsync (&copy, op->stream);
  op->n_pieces += code == CUDA_SUCCESS;

  return code;
}

/* Returns the structure for copies between contexts. The fields that CUDA_MEMCPY3D also has are at
 * the same offsets in both structures. */
static CUDA_MEMCPY3D_PEER
describe_3d (const RegionOp *op,
             const Side     *to,
             const Side     *from,
             gsize           height,
             gsize           depth)
{
  return (CUDA_MEMCPY3D_PEER)
  {
    .srcXInBytes   = from->x,
    .srcY          = from->y,
    .srcZ          = from->z,
    .srcMemoryType = from->type,
    .srcHost       = from->host,
    .srcDevice     = from->array == NULL ? from->address : 0,
    .srcContext    = op->from_context,
    .srcArray      = from->array,
    .srcPitch      = from->array == NULL ? from->row_pitch : 0,
    .srcHeight     = from->array == NULL && depth > 1 ? from->slice_pitch / from->row_pitch : 0,
    .dstXInBytes   = to->x,
    .dstY          = to->y,
    .dstZ          = to->z,
    .dstMemoryType = to->type,
    .dstHost       = to->host,
    .dstDevice     = to->array == NULL ? to->address : 0,
    .dstContext    = op->to_context,
    .dstArray      = to->array,
    .dstPitch      = to->array == NULL ? to->row_pitch : 0,
    .dstHeight     = to->array == NULL && depth > 1 ? to->slice_pitch / to->row_pitch : 0,
    .WidthInBytes  = op->width,
    .Height        = height,
    .Depth         = depth
  };
}

static CUresult
copy_3d (RegionOp   *op,
         const Side *to,
         const Side *from,
         gsize       height,
         gsize       depth)
{
  const CUDA_MEMCPY3D_PEER described = describe_3d (op, to, from, height, depth);
  CUDA_MEMCPY3D copy;
  CUresult code;

  if (op->to_context != NULL)
    {
      op->function = "cuMemcpy3DPeerAsync";
      code = _gpu_cuda.cuMemcpy3DPeerAsync (&described, op->stream);
    }
  else
    {
      G_STATIC_ASSERT (sizeof copy == sizeof described);
      memcpy (&copy, &described, sizeof copy);
      op->function = "cuMemcpy3DAsync";
      code = _gpu_cuda.cuMemcpy3DAsync (&copy, op->stream);
    }

  op->n_pieces += code == CUDA_SUCCESS;

  return code;
}

static gboolean
has_rows (const RegionOp *op,
          const Side     *side)
{
  return side->array != NULL || (side->row_pitch >= op->width && side->row_pitch <= PITCH_MAX);
}

static gboolean
has_slices (const RegionOp *op,
            const Side     *side)
{
  return side->array != NULL
         || (has_rows (op, side) && side->slice_pitch % side->row_pitch == 0
             && side->slice_pitch / side->row_pitch >= op->height);
}

/* --- linear memory ---------------------------------------------------------------------------- */

static CUresult
copy_rows (RegionOp   *op,
           const Side *to,
           const Side *from,
           gsize       height)
{
  CUresult code = CUDA_SUCCESS;

  if (height > 1 && !op->by_rows && has_rows (op, to) && has_rows (op, from))
    return op->to_context != NULL ? copy_3d (op, to, from, height, 1)
                                  : copy_2d (op, to, from, height);

  for (gsize i = 0; i < height && code == CUDA_SUCCESS; i++)
    {
      Side to_row = advance (to, i, 0);
      Side from_row = advance (from, i, 0);

      code = copy_row (op, &to_row, &from_row);
      op->n_pieces += code == CUDA_SUCCESS;
    }

  return code;
}

/* If each slice has one row, converts the slices to the rows of one slice. */
static void
flatten (RegionOp *op,
         Side     *to,
         Side     *from)
{
  if (op->height > 1)
    return;

  to->row_pitch = to->slice_pitch;
  from->row_pitch = from->slice_pitch;
  op->height = op->depth;
  op->depth = 1;
}

/* Tries the kernel. Sets @code to the result of the launch. Returns FALSE if the driver must copy,
 * which includes managed memory: it may be attached to another stream. */
static gboolean
launch_kernel (RegionOp   *op,
               const Side *to,
               const Side *from,
               CUresult   *code)
{
  const GpuCudaRegionLaunch region = { to->address, from->address, to->row_pitch, from->row_pitch,
                                       to->slice_pitch, from->slice_pitch, op->width, op->height,
                                       op->depth };

  if (to->type != CU_MEMORYTYPE_DEVICE || from->type != CU_MEMORYTYPE_DEVICE
      || to->is_managed || from->is_managed || op->to_context != NULL || op->native == NULL
      || !_gpu_cuda_region_fits_kernel (op->native, &region))
    return FALSE;

  op->function = "cuLaunchKernel";
  *code = _gpu_cuda_launch_region (op->native, &region);
  op->n_pieces += *code == CUDA_SUCCESS;

  return TRUE;
}

static CUresult
copy_linear (RegionOp *op,
             Side      to,
             Side      from)
{
  CUresult code = CUDA_SUCCESS;

  flatten (op, &to, &from);

  if (launch_kernel (op, &to, &from, &code))
    return code;

  if (op->depth > 1 && !op->by_rows && has_slices (op, &to) && has_slices (op, &from))
    return copy_3d (op, &to, &from, op->height, op->depth);

  for (gsize i = 0; i < op->depth && code == CUDA_SUCCESS; i++)
    {
      Side to_slice = advance (&to, 0, i);
      Side from_slice = advance (&from, 0, i);

      code = copy_rows (op, &to_slice, &from_slice, op->height);
    }

  return code;
}

/* --- arrays ----------------------------------------------------------------------------------- */

/* Converts rows to slices of one row, because the driver treats each layer of a 1D array image as
 * such a slice. */
static void
turn_layers (RegionOp *op,
             Side     *to,
             Side     *from)
{
  Side *sides[] = { to, from };

  for (guint i = 0; i < G_N_ELEMENTS (sides); i++)
    {
      sides[i]->slice_pitch = sides[i]->row_pitch;
      sides[i]->rows_are_layers = FALSE;
    }

  op->depth = op->height;
  op->height = 1;
}

static CUresult
copy_array_rows (RegionOp   *op,
                 const Side *to,
                 const Side *from)
{
  CUresult code = CUDA_SUCCESS;

  for (gsize i = 0; i < op->height && code == CUDA_SUCCESS; i++)
    {
      Side to_row = advance (to, i, 0);
      Side from_row = advance (from, i, 0);

      /* The driver requires a valid pitch, even though the pitch of a single row has no effect. */
      to_row.row_pitch = from_row.row_pitch = op->width;
      code = copy_3d (op, &to_row, &from_row, 1, 1);
    }

  return code;
}

static CUresult
copy_arrays (RegionOp *op,
             Side      to,
             Side      from)
{
  CUresult code = CUDA_SUCCESS;

  if (to.rows_are_layers || from.rows_are_layers)
    {
      /* Both sides are arrays, and the rows of one array correspond to the layers of the other. */
      if (to.array != NULL && from.array != NULL && to.rows_are_layers != from.rows_are_layers)
        return copy_array_rows (op, &to, &from);

      turn_layers (op, &to, &from);
    }

  if (op->height == 1)
    {
      to.row_pitch = to.slice_pitch;
      from.row_pitch = from.slice_pitch;
    }

  if (op->depth > 1 && has_slices (op, &to) && has_slices (op, &from))
    return copy_3d (op, &to, &from, op->height, op->depth);

  for (gsize i = 0; i < op->depth && code == CUDA_SUCCESS; i++)
    {
      Side to_slice = advance (&to, 0, i);
      Side from_slice = advance (&from, 0, i);

      if (op->height > 1 && has_rows (op, &to) && has_rows (op, &from))
        code = copy_3d (op, &to_slice, &from_slice, op->height, 1);
      else
        code = copy_array_rows (op, &to_slice, &from_slice);
    }

  return code;
}

static CUresult
copy_sides (RegionOp   *op,
            const Side *to,
            const Side *from)
{
  return to->array != NULL || from->array != NULL ? copy_arrays (op, *to, *from)
                                                  : copy_linear (op, *to, *from);
}

/* Copies through scratch memory. If both sides are the same array of 2D layers, the driver copies
 * wrong layers. Between an array and memory of the host in several chunks, it may refuse copies. */
static CUresult
copy_through_scratch (RegionOp   *op,
                      const Side *to,
                      const Side *from)
{
  Side between = { .type = CU_MEMORYTYPE_DEVICE, .row_pitch = op->width,
                   .slice_pitch = op->width * op->height };
  RegionOp second = *op;
  GpuCudaScratch scratch;
  CUresult code = _gpu_cuda_alloc_scratch (op->native, &scratch, between.slice_pitch * op->depth,
                                           &op->function);

  if (code != CUDA_SUCCESS)
    return code;

  between.address = scratch.address;
  code = copy_sides (op, &between, from);

  if (code == CUDA_SUCCESS)
    {
      second.n_pieces = op->n_pieces;
      code = copy_sides (&second, to, &between);
      *op = second;
    }

  _gpu_cuda_free_scratch (op->native, &scratch);

  return code;
}

/* Called after the driver has refused a copy with a side of memory of the host in several chunks:
 * it may accept only copies without pitches and arrays. Copies each row. */
static CUresult
copy_chunked (RegionOp   *op,
              const Side *to,
              const Side *from)
{
  op->by_rows = TRUE;

  if (to->array == NULL && from->array == NULL)
    return copy_sides (op, to, from);

  return op->to_context == NULL ? copy_through_scratch (op, to, from) : CUDA_ERROR_INVALID_VALUE;
}

static gsize
get_unit (const GpuRegionSide *side)
{
  if (side->memory == NULL || !side->memory->is_image)
    return 1;

  return ((GpuNativeImage *) side->memory)->description.texel_size;
}

static CUresult
enqueue (RegionOp             *op,
         const GpuRegionSide  *destination,
         const GpuRegionSide  *source)
{
  const Side to = get_side (destination);
  const Side from = get_side (source);
  RegionOp again;
  CUresult code;

  op->width *= MAX (get_unit (destination), get_unit (source));

  if (to.array != NULL && to.array == from.array && to.slices_are_layers)
    return copy_through_scratch (op, &to, &from);

  again = *op;
  code = copy_sides (op, &to, &from);

  if (code != CUDA_ERROR_INVALID_VALUE || !(to.is_chunked || from.is_chunked))
    return code;

  again.n_pieces = op->n_pieces;
  *op = again;

  return copy_chunked (op, &to, &from);
}

/* A write of pageable memory to memory of the device does not block behind pending work, within
 * limits. */
static CUresult
enqueue_behind (RegionOp             *op,
                const GpuRegionSide  *destination,
                const GpuRegionSide  *source,
                const GpuExtent      *extent)
{
  const GpuExtent bytes = { extent->width * get_unit (destination), extent->height,
                            extent->depth };
  GpuRegionSide packed = { .row_pitch = bytes.width, .slice_pitch = bytes.width * bytes.height };
  GpuCudaBlock *block = NULL;
  CUresult code;

  if (source->memory == NULL && destination->memory->host == NULL)
    block = _gpu_cuda_block_pack ((GpuCudaContext *) op->native->base.context, op->stream, source,
                                  &bytes);

  if (block == NULL)
    return enqueue (op, destination, source);

  packed.data = block->data;
  code = _gpu_cuda_block_record (op->stream, block, enqueue (op, destination, &packed),
                                 &op->function);
  _gpu_cuda_block_give_back (block->context, block);

  return code;
}

/* After a failure, no part of the copy is in flight. */
CUresult
_gpu_cuda_enqueue_region (CUstream              stream,
                          const GpuRegionSide  *destination,
                          const GpuRegionSide  *source,
                          const GpuExtent      *extent,
                          const char          **function)
{
  RegionOp op = { .stream = stream, .width = extent->width, .height = extent->height,
                  .depth = extent->depth };
  CUresult code = enqueue (&op, destination, source);

  if (code != CUDA_SUCCESS && op.n_pieces > 0)
    _gpu_cuda.cuStreamSynchronize (op.stream);

  *function = op.function;

  return code;
}

/* The caller retains the memory until an event that it records later has completed. On the
 * per-thread stream, `last` must be recorded after the copies. If the driver cannot record `last`,
 * waits for the copies instead. */
void
_gpu_cuda_leave_pieces (GpuCudaStream *stream)
{
  stream->base.partial = stream->last == NULL
                         || _gpu_cuda.cuEventRecord (stream->last, stream->stream) == CUDA_SUCCESS;

  if (!stream->base.partial)
    _gpu_cuda.cuStreamSynchronize (stream->stream);
}

/* Returns TRUE if the driver can copy without the contexts of the two memories. This requires that
 * one of them is host memory, which has the same address in all contexts, and that neither is an
 * array, because an array belongs to one context. */
static gboolean
is_same_everywhere (const GpuNativeMemory *one,
                    const GpuNativeMemory *other)
{
  return (one->host != NULL || other->host != NULL) && !one->is_image && !other->is_image;
}

static void
set_contexts (RegionOp            *op,
              const GpuRegionSide *destination,
              const GpuRegionSide *source)
{
  if (destination->memory == NULL || source->memory == NULL
      || destination->context == source->context
      || is_same_everywhere (destination->memory, source->memory))
    return;

  op->to_context = ((GpuCudaContext *) destination->context)->context;
  op->from_context = ((GpuCudaContext *) source->context)->context;
}

static char *
describe_side (const GpuRegionSide *side)
{
  if (side->memory != NULL && side->memory->is_image
      && ((GpuCudaImage *) side->memory)->array != NULL)
    return g_strdup_printf ("texel %" G_GSIZE_FORMAT ", %" G_GSIZE_FORMAT ", %" G_GSIZE_FORMAT
                            " of an array", side->x, side->y, side->z);

  return g_strdup_printf ("offset %" G_GSIZE_FORMAT ", row pitch %" G_GSIZE_FORMAT
                          ", slice pitch %" G_GSIZE_FORMAT, side->offset, side->row_pitch,
                          side->slice_pitch);
}

/* Called instead of _gpu_cuda_end() after a failure. Adds the region to the error. */
static gboolean
fail_region (GpuNativeStream      *stream,
             GpuNativeEvent      **event,
             GpuCudaCall          *call,
             CUresult              code,
             const RegionOp       *op,
             const GpuRegionSide  *destination,
             const GpuRegionSide  *source,
             const GpuExtent      *extent,
             GError              **error)
{
  const gboolean has_texels = get_unit (destination) * get_unit (source) > 1;
  g_autofree char *to = describe_side (destination);
  g_autofree char *from = describe_side (source);

  return _gpu_cuda_end (stream, event, call, code, error, op->function,
                        "region of %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT
                        " %s from %s to %s", extent->width, extent->height, extent->depth,
                        has_texels ? "texels" : "bytes", from, to);
}

gboolean
_gpu_cuda_copy_region (GpuNativeStream      *stream,
                       const GpuRegionSide  *destination,
                       const GpuRegionSide  *source,
                       const GpuExtent      *extent,
                       GpuNativeEvent      **event,
                       GError              **error)
{
  RegionOp op = { .stream = ((GpuCudaStream *) stream)->stream,
                  .native = (GpuCudaStream *) stream, .width = extent->width,
                  .height = extent->height, .depth = extent->depth };
  GpuCudaCall call;
  CUresult code;

  if (!_gpu_cuda_begin (stream, event, &call, error))
    return FALSE;

  set_contexts (&op, destination, source);
  op.function = "cuStreamSynchronize";
  _gpu_cuda_copy_staging_flag (stream, destination->context);
  _gpu_cuda_copy_staging_flag (stream, source->context);
  code = _gpu_cuda_finish_for_host (stream, destination->memory, source->memory);

  if (code == CUDA_SUCCESS)
    code = enqueue_behind (&op, destination, source, extent);

  if (code != CUDA_SUCCESS && op.n_pieces > 0)
    _gpu_cuda_leave_pieces ((GpuCudaStream *) stream);

  if (code != CUDA_SUCCESS)
    return fail_region (stream, event, &call, code, &op, destination, source, extent, error);

  return _gpu_cuda_end (stream, event, &call, code, error, op.function, "region");
}

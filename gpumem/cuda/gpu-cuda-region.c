/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copies of regions. The driver wants rows that do not reach into one another, and slice pitches
 * that are multiples of the row pitch. What does not fit is enqueued in pieces that do: slices, or
 * else rows.
 */
#include "config.h"

#include <string.h>

#include "gpumem/cuda/gpu-cuda.h"

/* The driver takes no longer pitches. */
#define PITCH_MAX ((gsize) G_MAXINT32)

/* One side of a copy: memory of the host, of a device, or of both. */
typedef struct
{
  CUmemorytype  type;
  guint8       *host;
  CUdeviceptr   address;
  gsize         row_pitch;
  gsize         slice_pitch;
} Side;

typedef struct
{
  CUstream    stream;
  CUcontext   to_context;           /* NULL, both, within one context */
  CUcontext   from_context;
  gsize       width;
  gsize       height;
  gsize       depth;
  const char *function;             /* the last one called */
  gsize       n_pieces;             /* enqueued so far */
} RegionOp;

static Side
get_side (const GpuRegionSide *side)
{
  GpuCudaBuffer *buffer = (GpuCudaBuffer *) side->memory;

  if (buffer == NULL)
    return (Side) { CU_MEMORYTYPE_HOST, (guint8 *) side->data + side->offset, 0, side->row_pitch,
                    side->slice_pitch };

  return (Side) { buffer->host != NULL ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE, NULL,
                  buffer->address + side->offset, side->row_pitch, side->slice_pitch };
}

static Side
advance (const Side *side,
         gsize       n_bytes)
{
  Side moved = *side;

  if (side->type == CU_MEMORYTYPE_HOST)
    moved.host += n_bytes;
  else
    moved.address += n_bytes;

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

  op->function = "cuMemcpy2DAsync";

  return _gpu_cuda.cuMemcpy2DAsync (&copy, op->stream);
}

/* Between contexts the structure is another one, with these in the same places. */
static CUDA_MEMCPY3D_PEER
describe_3d (const RegionOp *op,
             const Side     *to,
             const Side     *from,
             gsize           height,
             gsize           depth)
{
  return (CUDA_MEMCPY3D_PEER)
  {
    .srcMemoryType = from->type,
    .srcHost       = from->host,
    .srcDevice     = from->address,
    .srcContext    = op->from_context,
    .srcPitch      = from->row_pitch,
    .srcHeight     = depth > 1 ? from->slice_pitch / from->row_pitch : 0,
    .dstMemoryType = to->type,
    .dstHost       = to->host,
    .dstDevice     = to->address,
    .dstContext    = op->to_context,
    .dstPitch      = to->row_pitch,
    .dstHeight     = depth > 1 ? to->slice_pitch / to->row_pitch : 0,
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

  if (op->to_context != NULL)
    {
      op->function = "cuMemcpy3DPeerAsync";

      return _gpu_cuda.cuMemcpy3DPeerAsync (&described, op->stream);
    }

  G_STATIC_ASSERT (sizeof copy == sizeof described);
  memcpy (&copy, &described, sizeof copy);
  op->function = "cuMemcpy3DAsync";

  return _gpu_cuda.cuMemcpy3DAsync (&copy, op->stream);
}

static gboolean
has_rows (const RegionOp *op,
          const Side     *side)
{
  return side->row_pitch >= op->width && side->row_pitch <= PITCH_MAX;
}

static gboolean
has_slices (const RegionOp *op,
            const Side     *side)
{
  return has_rows (op, side) && side->slice_pitch % side->row_pitch == 0
         && side->slice_pitch / side->row_pitch >= op->height;
}

static CUresult
copy_rows (RegionOp   *op,
           const Side *to,
           const Side *from,
           gsize       height)
{
  CUresult code = CUDA_SUCCESS;

  if (height > 1 && has_rows (op, to) && has_rows (op, from))
    {
      code = op->to_context != NULL ? copy_3d (op, to, from, height, 1)
                                    : copy_2d (op, to, from, height);
      op->n_pieces += code == CUDA_SUCCESS;
      return code;
    }

  for (gsize i = 0; i < height && code == CUDA_SUCCESS; i++)
    {
      Side to_row = advance (to, i * to->row_pitch);
      Side from_row = advance (from, i * from->row_pitch);

      code = copy_row (op, &to_row, &from_row);
      op->n_pieces += code == CUDA_SUCCESS;
    }

  return code;
}

/* Single rows in several slices are the rows of one slice. */
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

static CUresult
copy (RegionOp   *op,
      const Side *to,
      const Side *from)
{
  CUresult code = CUDA_SUCCESS;

  if (op->depth > 1 && has_slices (op, to) && has_slices (op, from))
    return copy_3d (op, to, from, op->height, op->depth);

  for (gsize i = 0; i < op->depth && code == CUDA_SUCCESS; i++)
    {
      Side to_slice = advance (to, i * to->slice_pitch);
      Side from_slice = advance (from, i * from->slice_pitch);

      code = copy_rows (op, &to_slice, &from_slice, op->height);
    }

  return code;
}

/* After a failure: whoever called keeps what the pieces at work use, until an event that is
 * recorded later. The per-thread stream has to know of them for that, as of all its work. */
static void
leave_pieces (GpuCudaStream *stream)
{
  stream->base.partial = stream->last == NULL
                         || _gpu_cuda.cuEventRecord (stream->last, stream->stream) == CUDA_SUCCESS;

  if (!stream->base.partial)
    _gpu_cuda.cuStreamSynchronize (stream->stream);
}

static void
set_contexts (RegionOp            *op,
              const GpuRegionSide *destination,
              const GpuRegionSide *source)
{
  if (destination->memory == NULL || source->memory == NULL
      || destination->context == source->context)
    return;

  op->to_context = ((GpuCudaContext *) destination->context)->context;
  op->from_context = ((GpuCudaContext *) source->context)->context;
}

gboolean
_gpu_cuda_copy_region (GpuNativeStream      *stream,
                       const GpuRegionSide  *destination,
                       const GpuRegionSide  *source,
                       const GpuExtent      *extent,
                       GpuNativeEvent      **event,
                       GError              **error)
{
  RegionOp op = { .stream = ((GpuCudaStream *) stream)->stream, .width = extent->width,
                  .height = extent->height, .depth = extent->depth };
  Side to = get_side (destination);
  Side from = get_side (source);
  GpuCudaCall call;
  CUresult code;

  if (!_gpu_cuda_begin (stream, event, &call, error))
    return FALSE;

  set_contexts (&op, destination, source);
  flatten (&op, &to, &from);
  code = copy (&op, &to, &from);

  if (code != CUDA_SUCCESS && op.n_pieces > 0)
    leave_pieces ((GpuCudaStream *) stream);

#define SIZE "%" G_GSIZE_FORMAT
#define SIDE "row pitch " SIZE ", slice pitch " SIZE
  return _gpu_cuda_end (stream, event, &call, code, error, op.function,
                        "region of " SIZE " x " SIZE " x " SIZE " bytes from " SIDE " to " SIDE,
                        extent->width, extent->height, extent->depth, from.row_pitch,
                        from.slice_pitch, to.row_pitch, to.slice_pitch);
#undef SIDE
#undef SIZE
}

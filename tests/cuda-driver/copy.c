/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copies. Ordinary memory of the host is read before the call returns, and written before it
 * returns as well; page-locked memory is touched when the operation's turn comes.
 */
#include "config.h"

#include <string.h>

#include "driver.h"

typedef struct
{
  CUmemorytype  type;
  guint64       address;        /* of the first byte */
  guint64       pitch;
  guint64       slice;
} Side;

typedef struct
{
  Side     destination;
  Side     source;
  guint64  width;
  guint64  height;
  guint64  depth;
  guint8  *staged;              /* nullable; what stood in the source */
} Copy;

static void
copy_free (gpointer data)
{
  Copy *copy = data;

  g_free (copy->staged);
  g_free (copy);
}

static void
copy_rows (const Copy *copy)
{
  for (guint64 z = 0; z < copy->depth; z++)
    for (guint64 y = 0; y < copy->height; y++)
      memcpy (GSIZE_TO_POINTER (copy->destination.address + z * copy->destination.slice +
                                y * copy->destination.pitch),
              GSIZE_TO_POINTER (copy->source.address + z * copy->source.slice +
                                y * copy->source.pitch),
              copy->width);
}

static CUresult
copy_run (gpointer data)
{
  copy_rows (data);
  return CUDA_SUCCESS;
}

static guint64
get_span (const Copy *copy,
          const Side *side)
{
  return (copy->depth - 1) * side->slice + (copy->height - 1) * side->pitch + copy->width;
}

static gboolean
is_host_kind (const Memory *memory)
{
  return memory->kind == MEMORY_HOST || memory->kind == MEMORY_REGISTERED;
}

/* TRUE: memory of the host whose first byte is not page-locked; drivers look no further. */
static gboolean
is_ordinary (const Side *side)
{
  return side->type != CU_MEMORYTYPE_DEVICE && memory_find (side->address) == NULL;
}

/* Begins in memory of the host that is page-locked, and goes on behind it. */
static gboolean
runs_out (const Copy *copy,
          const Side *side)
{
  Memory *memory = memory_find (side->address);

  return side->type != CU_MEMORYTYPE_DEVICE && memory != NULL &&
         memory->kind == MEMORY_REGISTERED && !memory->freed &&
         memory->address + memory->size - side->address < get_span (copy, side);
}

static CUresult
check_side (const Copy *copy,
            const Side *side,
            Op         *op,
            Stream     *stream,
            gboolean    writes)
{
  const char *what = writes ? "the destination" : "the source";
  Memory *memory = memory_find (side->address);

  if (copy->height > 1 && side->pitch < copy->width)
    return misuse (CUDA_ERROR_INVALID_VALUE, "%s: a pitch of %" G_GUINT64_FORMAT
                   " for rows of %" G_GUINT64_FORMAT " bytes", what, side->pitch, copy->width);
  if (side->address == 0)
    return misuse (CUDA_ERROR_INVALID_VALUE, "%s is NULL", what);
  if (is_ordinary (side))
    return CUDA_SUCCESS;
  if (runs_out (copy, side))
    return CUDA_ERROR_INVALID_VALUE;
  if (side->type == CU_MEMORYTYPE_HOST && memory != NULL && !is_host_kind (memory))
    return misuse (CUDA_ERROR_INVALID_VALUE, "%s 0x%" G_GINT64_MODIFIER
                   "x is said to be of the host and is %s", what, side->address,
                   memory_kinds[memory->kind]);
  return memory_check (op, stream, side->address, get_span (copy, side), writes, what);
}

static void
stage (Copy *copy)
{
  Copy rows = *copy;

  copy->staged = g_malloc (copy->width * copy->height * copy->depth);
  rows.destination.address = GPOINTER_TO_SIZE (copy->staged);
  rows.destination.pitch = copy->width;
  rows.destination.slice = copy->width * copy->height;
  copy_rows (&rows);
  copy->source = rows.destination;
}

static CUresult
check_overlap (const Copy *copy)
{
  guint64 destination = copy->destination.address;
  guint64 source = copy->source.address;

  if (copy->height == 1 && copy->depth == 1 && destination < source + copy->width &&
      source < destination + copy->width)
    return misuse (CUDA_ERROR_INVALID_VALUE, "the ranges 0x%" G_GINT64_MODIFIER "x and 0x%"
                   G_GINT64_MODIFIER "x of %" G_GUINT64_FORMAT " bytes overlap", destination,
                   source, copy->width);
  return CUDA_SUCCESS;
}

static CUresult
wait_for (Stream *stream,
          Point  *point)
{
  Context *context = stream->object.context;

  point_wait (point);
  return context->error;
}

static CUresult
copy_submit (const Copy *template,
             CUstream    handle,
             gboolean    waits)
{
  Stream *stream;
  Copy *copy;
  Point *point;
  CUresult code;
  Op *op;

  TRY (stream_resolve (handle, &stream));
  if (template->width == 0 || template->height == 0 || template->depth == 0)
    return CUDA_SUCCESS;
  copy = g_memdup2 (template, sizeof *template);
  op = op_new (copy_run, copy, copy_free);
  code = check_side (copy, &copy->destination, op, stream, TRUE);
  if (code == CUDA_SUCCESS)
    code = check_side (copy, &copy->source, op, stream, FALSE);
  if (code == CUDA_SUCCESS)
    code = check_overlap (copy);
  if (code != CUDA_SUCCESS)
    {
      /* Nobody waits for what is not submitted. */
      point_finish (op->point);
      op_free (op);
      return code;
    }
  waits |= is_ordinary (&copy->destination);
  if (is_ordinary (&copy->source))
    stage (copy);
  point = stream_submit (stream, op);
  if (waits)
    code = wait_for (stream, point);
  point_unref (point);
  return code;
}

static CUresult
copy_linear (CUmemorytype destination_type,
             guint64      destination,
             CUmemorytype source_type,
             guint64      source,
             guint64      size,
             CUstream     stream,
             gboolean     waits)
{
  Copy copy = {
    .destination = { destination_type, destination, size, size },
    .source = { source_type, source, size, size },
    .width = size,
    .height = 1,
    .depth = 1,
  };

  return copy_submit (&copy, stream, waits);
}

/* --- linear ----------------------------------------------------------------------------------- */

ENTRY (cuMemcpyHtoDAsync,
       (CUdeviceptr destination, const void *source, size_t size, CUstream stream),
       (destination, source, size, stream))
{
  return copy_linear (CU_MEMORYTYPE_DEVICE, destination, CU_MEMORYTYPE_HOST,
                      GPOINTER_TO_SIZE (source), size, stream, FALSE);
}

ENTRY (cuMemcpyDtoHAsync, (void *destination, CUdeviceptr source, size_t size, CUstream stream),
       (destination, source, size, stream))
{
  return copy_linear (CU_MEMORYTYPE_HOST, GPOINTER_TO_SIZE (destination), CU_MEMORYTYPE_DEVICE,
                      source, size, stream, FALSE);
}

ENTRY (cuMemcpyDtoDAsync,
       (CUdeviceptr destination, CUdeviceptr source, size_t size, CUstream stream),
       (destination, source, size, stream))
{
  return copy_linear (CU_MEMORYTYPE_DEVICE, destination, CU_MEMORYTYPE_DEVICE, source, size,
                      stream, FALSE);
}

ENTRY (cuMemcpyAsync, (CUdeviceptr destination, CUdeviceptr source, size_t size, CUstream stream),
       (destination, source, size, stream))
{
  return copy_linear (CU_MEMORYTYPE_UNIFIED, destination, CU_MEMORYTYPE_UNIFIED, source, size,
                      stream, FALSE);
}

ENTRY (cuMemcpyPeerAsync,
       (CUdeviceptr destination, CUcontext destination_context, CUdeviceptr source,
        CUcontext source_context, size_t size, CUstream stream),
       (destination, destination_context, source, source_context, size, stream))
{
  TRY (object_check (destination_context, OBJECT_CONTEXT));
  TRY (object_check (source_context, OBJECT_CONTEXT));
  TRY (destination_context->error);
  TRY (source_context->error);
  return copy_linear (CU_MEMORYTYPE_DEVICE, destination, CU_MEMORYTYPE_DEVICE, source, size,
                      stream, FALSE);
}

ENTRY (cuMemcpyHtoD, (CUdeviceptr destination, const void *source, size_t size),
       (destination, source, size))
{
  return copy_linear (CU_MEMORYTYPE_DEVICE, destination, CU_MEMORYTYPE_HOST,
                      GPOINTER_TO_SIZE (source), size, NULL, TRUE);
}

ENTRY (cuMemcpyDtoH, (void *destination, CUdeviceptr source, size_t size),
       (destination, source, size))
{
  return copy_linear (CU_MEMORYTYPE_HOST, GPOINTER_TO_SIZE (destination), CU_MEMORYTYPE_DEVICE,
                      source, size, NULL, TRUE);
}

/* --- with pitches ----------------------------------------------------------------------------- */

static CUresult
fill_side (Side          *side,
           CUmemorytype   type,
           gconstpointer  host,
           CUdeviceptr    device,
           gsize          offset,
           gsize          pitch,
           gsize          slice)
{
  if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED)
    return misuse (CUDA_ERROR_INVALID_VALUE, "memory of type %u", type);
  side->type = type;
  side->address = type == CU_MEMORYTYPE_HOST ? GPOINTER_TO_SIZE (host) : device;
  side->address += offset;
  side->pitch = pitch;
  side->slice = slice;
  return CUDA_SUCCESS;
}

ENTRY (cuMemcpy2DAsync, (const CUDA_MEMCPY2D *with, CUstream stream), (with, stream))
{
  Copy copy = { .width = with->WidthInBytes, .height = with->Height, .depth = 1 };
  gsize source_pitch = with->srcPitch != 0 ? with->srcPitch : with->WidthInBytes;
  gsize destination_pitch = with->dstPitch != 0 ? with->dstPitch : with->WidthInBytes;

  TRY (fill_side (&copy.destination, with->dstMemoryType, with->dstHost, with->dstDevice,
                  with->dstY * destination_pitch + with->dstXInBytes, destination_pitch, 0));
  TRY (fill_side (&copy.source, with->srcMemoryType, with->srcHost, with->srcDevice,
                  with->srcY * source_pitch + with->srcXInBytes, source_pitch, 0));
  return copy_submit (&copy, stream, FALSE);
}

/* Both structures have everything that is read here at the same places. */
static CUresult
copy_3d (const CUDA_MEMCPY3D_PEER *with,
         CUstream                  stream)
{
  Copy copy = { .width = with->WidthInBytes, .height = with->Height, .depth = with->Depth };
  gsize source_pitch = with->srcPitch != 0 ? with->srcPitch : with->WidthInBytes;
  gsize destination_pitch = with->dstPitch != 0 ? with->dstPitch : with->WidthInBytes;
  gsize source_slice = source_pitch * (with->srcHeight != 0 ? with->srcHeight : with->Height);
  gsize destination_slice = destination_pitch * (with->dstHeight != 0 ? with->dstHeight
                                                                      : with->Height);

  if ((with->Depth > 1 && ((with->srcHeight != 0 && with->srcHeight < with->Height) ||
                           (with->dstHeight != 0 && with->dstHeight < with->Height))) ||
      with->srcLOD != 0 || with->dstLOD != 0)
    return misuse (CUDA_ERROR_INVALID_VALUE, "%zu rows of slices with %zu and %zu", with->Height,
                   with->srcHeight, with->dstHeight);
  TRY (fill_side (&copy.destination, with->dstMemoryType, with->dstHost, with->dstDevice,
                  with->dstZ * destination_slice + with->dstY * destination_pitch +
                  with->dstXInBytes, destination_pitch, destination_slice));
  TRY (fill_side (&copy.source, with->srcMemoryType, with->srcHost, with->srcDevice,
                  with->srcZ * source_slice + with->srcY * source_pitch + with->srcXInBytes,
                  source_pitch, source_slice));
  return copy_submit (&copy, stream, FALSE);
}

ENTRY (cuMemcpy3DAsync, (const CUDA_MEMCPY3D *with, CUstream stream), (with, stream))
{
  G_STATIC_ASSERT (sizeof (CUDA_MEMCPY3D) == sizeof (CUDA_MEMCPY3D_PEER));

  return copy_3d ((const CUDA_MEMCPY3D_PEER *) with, stream);
}

ENTRY (cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *with, CUstream stream), (with, stream))
{
  TRY (object_check (with->srcContext, OBJECT_CONTEXT));
  TRY (object_check (with->dstContext, OBJECT_CONTEXT));
  TRY (with->srcContext->error);
  TRY (with->dstContext->error);
  return copy_3d (with, stream);
}

/* --- fills ------------------------------------------------------------------------------------ */

typedef struct
{
  guint64 address;
  guint64 pitch;
  guint64 width;                /* bytes */
  guint64 height;
  guint   unit;                 /* bytes */
  guint   value;
} Fill;

static CUresult
fill_run (gpointer data)
{
  const Fill *fill = data;

  for (guint64 y = 0; y < fill->height; y++)
    for (guint64 x = 0; x < fill->width; x += fill->unit)
      memcpy (GSIZE_TO_POINTER (fill->address + y * fill->pitch + x), &fill->value, fill->unit);
  return CUDA_SUCCESS;
}

static CUresult
fill_submit (guint64  address,
             guint64  pitch,
             guint    unit,
             guint    value,
             guint64  width,
             guint64  height,
             CUstream handle)
{
  Fill fill = { address, pitch, width * unit, height, unit, value };
  Stream *stream;
  CUresult code;
  Op *op;

  TRY (stream_resolve (handle, &stream));
  if (width == 0 || height == 0)
    return CUDA_SUCCESS;
  if (address % unit != 0 || (height > 1 && (pitch % unit != 0 || pitch < fill.width)))
    return misuse (CUDA_ERROR_INVALID_VALUE, "address 0x%" G_GINT64_MODIFIER "x, pitch %"
                   G_GUINT64_FORMAT ": rows of %" G_GUINT64_FORMAT " bytes by %u", address,
                   pitch, fill.width, unit);
  op = op_new (fill_run, g_memdup2 (&fill, sizeof fill), g_free);
  code = memory_check (op, stream, address, (height - 1) * pitch + fill.width, TRUE,
                       "the destination");
  if (code != CUDA_SUCCESS)
    {
      point_finish (op->point);
      op_free (op);
      return code;
    }
  point_unref (stream_submit (stream, op));
  return CUDA_SUCCESS;
}

ENTRY (cuMemsetD8Async,
       (CUdeviceptr address, unsigned char value, size_t n_elements, CUstream stream),
       (address, value, n_elements, stream))
{
  return fill_submit (address, 0, 1, value, n_elements, 1, stream);
}

ENTRY (cuMemsetD16Async,
       (CUdeviceptr address, unsigned short value, size_t n_elements, CUstream stream),
       (address, value, n_elements, stream))
{
  return fill_submit (address, 0, 2, value, n_elements, 1, stream);
}

ENTRY (cuMemsetD32Async,
       (CUdeviceptr address, unsigned int value, size_t n_elements, CUstream stream),
       (address, value, n_elements, stream))
{
  return fill_submit (address, 0, 4, value, n_elements, 1, stream);
}

ENTRY (cuMemsetD2D8Async,
       (CUdeviceptr address, size_t pitch, unsigned char value, size_t width, size_t height,
        CUstream stream),
       (address, pitch, value, width, height, stream))
{
  return fill_submit (address, pitch, 1, value, width, height, stream);
}

ENTRY (cuMemsetD2D16Async,
       (CUdeviceptr address, size_t pitch, unsigned short value, size_t width, size_t height,
        CUstream stream),
       (address, pitch, value, width, height, stream))
{
  return fill_submit (address, pitch, 2, value, width, height, stream);
}

ENTRY (cuMemsetD2D32Async,
       (CUdeviceptr address, size_t pitch, unsigned int value, size_t width, size_t height,
        CUstream stream),
       (address, pitch, value, width, height, stream))
{
  return fill_submit (address, pitch, 4, value, width, height, stream);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copies. Pageable host memory is read and written before the call returns, unless the copy is
 * captured; page-locked memory is accessed when the operation runs.
 */
#include "config.h"

#include <string.h>

#include "image.h"

typedef struct
{
  CUmemorytype  type;
  guint64       address;        /* the first byte */
  guint64       pitch;
  guint64       slice;
  Array        *array;          /* nullable */
  guint64       place[3];       /* offset in the array: bytes, rows, slices or layers */
} Side;

typedef struct
{
  Side     destination;
  Side     source;
  guint64  width;
  guint64  height;
  guint64  depth;
  guint8  *staged;              /* nullable; copy of the source */
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
has_rows (const Copy *copy)
{
  return copy->height > 1 || copy->depth > 1 || copy->destination.array != NULL ||
         copy->source.array != NULL;
}

static gboolean
is_host_kind (const Memory *memory)
{
  return memory->kind == MEMORY_HOST || memory->kind == MEMORY_REGISTERED ||
         memory->kind == MEMORY_MANAGED || virtual_is_host (memory);
}

/* Returns whether the first byte is in pageable host memory. Drivers treat the whole range like its
 * first byte. */
static gboolean
is_ordinary (const Side *side)
{
  return side->type != CU_MEMORYTYPE_DEVICE && side->array == NULL &&
         memory_find (side->address) == NULL;
}

/* Returns whether the range begins in page-locked host memory and ends past the end of this
 * memory. */
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
check_array (const Copy *copy,
             const Side *side,
             Op         *op,
             Stream     *stream)
{
  const Array *array = side->array;
  const guint64 *place = side->place;
  guint64 row = array_get_row (array);

  if (place[0] % array->element != 0 || copy->width % array->element != 0)
    return misuse (CUDA_ERROR_INVALID_VALUE, "%" G_GUINT64_FORMAT " bytes from byte %"
                   G_GUINT64_FORMAT " of an array of %u bytes each", copy->width, place[0],
                   array->element);
  if (place[0] + copy->width > row || place[1] + copy->height > array->height ||
      place[2] + copy->depth > array->depth)
    return misuse (CUDA_ERROR_INVALID_VALUE, "%" G_GUINT64_FORMAT " bytes x %" G_GUINT64_FORMAT
                   " x %" G_GUINT64_FORMAT " from %" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT ", %"
                   G_GUINT64_FORMAT " on of an array of %" G_GUINT64_FORMAT " bytes x %"
                   G_GUINT64_FORMAT " x %" G_GUINT64_FORMAT, copy->width, copy->height,
                   copy->depth, place[0], place[1], place[2], row, array->height, array->depth);
  return op_use (op, stream, array->memory);
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

  if (side->array != NULL)
    return check_array (copy, side, op, stream);
  if (copy->height > 1 && side->pitch < copy->width)
    return misuse (CUDA_ERROR_INVALID_VALUE, "%s: a pitch of %" G_GUINT64_FORMAT
                   " for rows of %" G_GUINT64_FORMAT " bytes", what, side->pitch, copy->width);
  if (side->address == 0)
    return misuse (CUDA_ERROR_INVALID_VALUE, "%s is NULL", what);
  if (is_ordinary (side))
    return CUDA_SUCCESS;
  if (runs_out (copy, side) ||
      (has_rows (copy) && virtual_spans_host (side->address, get_span (copy, side))))
    return CUDA_ERROR_INVALID_VALUE;
  if (side->type == CU_MEMORYTYPE_HOST && memory != NULL && !is_host_kind (memory))
    return misuse (CUDA_ERROR_INVALID_VALUE, "%s 0x%" G_GINT64_MODIFIER
                   "x is said to be of the host and is %s", what, side->address,
                   memory_kinds[memory->kind]);
  if (memory != NULL && memory->kind == MEMORY_MAPPED && virtual_is_host (memory)
      && !virtual_reaches (memory, stream->object.context->device))
    return misuse (CUDA_ERROR_INVALID_VALUE, "%s 0x%" G_GINT64_MODIFIER
                   "x is not mapped for device %u", what, side->address,
                   stream->object.context->device->ordinal);
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

static gboolean
is_empty (const Copy *copy)
{
  return copy->width == 0 || copy->height == 0 || copy->depth == 0;
}

/* NVIDIA's driver copies large writes to one of two buffers, and waits until the buffer is free. A
 * node of a graph needs no buffer. */
static gboolean
needs_buffer (const Copy *copy,
              Stream     *stream)
{
  return stream->capture == 0 && copy->width * copy->height * copy->depth > 64 * 1024
         && is_ordinary (&copy->source);
}

static void
keep_buffer (Stream *stream,
             Point  *point)
{
  g_clear_pointer (&stream->written[0], point_unref);
  stream->written[0] = stream->written[1];
  stream->written[1] = point_ref (point);
}

static gboolean
boxes_overlap (const Copy *copy)
{
  const guint64 sizes[] = { copy->width, copy->height, copy->depth };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    if (copy->destination.place[i] >= copy->source.place[i] + sizes[i] ||
        copy->source.place[i] >= copy->destination.place[i] + sizes[i])
      return FALSE;
  return TRUE;
}

static CUresult
check_arrays (const Copy *copy)
{
  const Array *to = copy->destination.array;
  const Array *from = copy->source.array;

  if (to == NULL || from == NULL)
    return CUDA_SUCCESS;
  if (to->element != from->element)
    return misuse (CUDA_ERROR_INVALID_VALUE, "from an array of %u bytes each to one of %u",
                   from->element, to->element);
  if (to == from && boxes_overlap (copy))
    return misuse (CUDA_ERROR_INVALID_VALUE, "two parts of an array overlap");
  if (to == from && array_is_layered (to) && to->descriptor.Height > 0)
    return misuse (CUDA_SUCCESS, "NVIDIA's driver copies other layers of an array to itself");
  return CUDA_SUCCESS;
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

/* Frees an operation that is not submitted. Completes its point, which is already in the list of
 * uses of the memory. */
static void
discard (Op *op)
{
  point_finish (op->point);
  op_free (op);
}

static CUresult
wait_for (Stream *stream,
          Point  *point)
{
  Context *context = stream->object.context;

  point_wait (point);
  return context->error;
}

/* Creates the operation, which owns @result, unless a check fails. */
static CUresult
copy_prepare (const Copy *template,
              Stream     *stream,
              Copy      **result,
              Op        **op)
{
  Copy *copy = *result = g_memdup2 (template, sizeof *template);
  CUresult code;

  *op = op_new (copy_run, copy, copy_free);
  code = check_side (copy, &copy->destination, *op, stream, TRUE);
  if (code == CUDA_SUCCESS)
    code = check_side (copy, &copy->source, *op, stream, FALSE);
  if (code == CUDA_SUCCESS)
    code = check_overlap (copy);
  if (code == CUDA_SUCCESS)
    code = check_arrays (copy);
  if (code != CUDA_SUCCESS)
    discard (g_steal_pointer (op));
  return code;
}

static CUresult
copy_submit_to (Stream     *stream,
                const Copy *template,
                gboolean    waits)
{
  Copy *copy;
  Point *point;
  CUresult code = CUDA_SUCCESS;
  Op *op;

  if (is_empty (template))
    return CUDA_SUCCESS;
  TRY (copy_prepare (template, stream, &copy, &op));
  waits |= is_ordinary (&copy->destination);
  if (is_ordinary (&copy->source) && stream->capture == 0)
    stage (copy);
  point = stream_submit (stream, op);
  if (needs_buffer (template, stream))
    keep_buffer (stream, point);
  if (waits)
    code = wait_for (stream, point);
  point_unref (point);
  return code;
}

/* Waits until one of the two buffers of the stream is free, once the copy has passed the checks.
 * The wait releases the lock, so the caller must resolve the stream again. */
static CUresult
wait_for_buffer (const Copy *template,
                 Stream     *stream)
{
  Copy *copy;
  Op *op;

  if (point_over (stream->written[0]) || is_empty (template) || !needs_buffer (template, stream))
    return CUDA_SUCCESS;
  TRY (copy_prepare (template, stream, &copy, &op));
  discard (op);
  point_wait (stream->written[0]);
  return CUDA_SUCCESS;
}

static CUresult
copy_submit (const Copy *template,
             CUstream    handle,
             gboolean    waits)
{
  Stream *stream;

  TRY (stream_resolve (handle, &stream));
  TRY (wait_for_buffer (template, stream));
  TRY (stream_resolve (handle, &stream));
  return copy_submit_to (stream, template, waits);
}

static Copy
linear (CUmemorytype destination_type,
        guint64      destination,
        CUmemorytype source_type,
        guint64      source,
        guint64      size)
{
  return (Copy) {
    .destination = { destination_type, destination, size, size },
    .source = { source_type, source, size, size },
    .width = size,
    .height = 1,
    .depth = 1,
  };
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
  const Copy copy = linear (destination_type, destination, source_type, source, size);

  return copy_submit (&copy, stream, waits);
}

/* --- linear ----------------------------------------------------------------------------------- */

static gboolean
is_pieced (CUdeviceptr address,
           size_t      size)
{
  const Memory *memory = memory_find (address);

  return memory != NULL && memory->address + memory->size - address < size;
}

/* Gets the stream of a linear copy or fill. If the range on the device spans several mapped chunks,
 * driver 580.159 finds the chunks of a copy only while the stream's context is current. It finds
 * those of a fill, but other versions may not. */
static CUresult
resolve_linear (CUstream    handle,
                CUdeviceptr address,
                size_t      size,
                Stream    **stream)
{
  TRY (stream_resolve_own (handle, stream));
  return (*stream)->object.context != context_peek () && is_pieced (address, size)
         ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult
copy_host (const Copy *copy,
           CUdeviceptr address,
           CUstream    handle)
{
  Stream *stream;

  TRY (resolve_linear (handle, address, copy->width, &stream));
  TRY (wait_for_buffer (copy, stream));
  TRY (resolve_linear (handle, address, copy->width, &stream));
  return copy_submit_to (stream, copy, FALSE);
}

ENTRY (cuMemcpyHtoDAsync,
       (CUdeviceptr destination, const void *source, size_t size, CUstream stream),
       (destination, source, size, stream))
{
  const Copy copy = linear (CU_MEMORYTYPE_DEVICE, destination, CU_MEMORYTYPE_HOST,
                            GPOINTER_TO_SIZE (source), size);

  return copy_host (&copy, destination, stream);
}

ENTRY (cuMemcpyDtoHAsync, (void *destination, CUdeviceptr source, size_t size, CUstream stream),
       (destination, source, size, stream))
{
  const Copy copy = linear (CU_MEMORYTYPE_HOST, GPOINTER_TO_SIZE (destination),
                            CU_MEMORYTYPE_DEVICE, source, size);

  return copy_host (&copy, source, stream);
}

ENTRY (cuMemcpyDtoDAsync,
       (CUdeviceptr destination, CUdeviceptr source, size_t size, CUstream handle),
       (destination, source, size, handle))
{
  const Copy copy = linear (CU_MEMORYTYPE_DEVICE, destination, CU_MEMORYTYPE_DEVICE, source, size);
  Stream *stream;

  TRY (resolve_linear (handle, destination, size, &stream));
  TRY (resolve_linear (handle, source, size, &stream));
  return copy_submit_to (stream, &copy, FALSE);
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

typedef struct
{
  CUmemorytype   type;
  gconstpointer  host;
  CUdeviceptr    device;
  CUarray        array;
  gsize          place[3];
  gsize          pitch;
  gsize          height;
} Given;

static CUresult
fill_array (Side        *side,
            const Given *given,
            Context     *context)
{
  Array *array = given->array;

  TRY (array_check (array, context));
  *side = (Side) { given->type, array_get_address (array), array_get_row (array),
                   array_get_slice (array), array,
                   { given->place[0], given->place[1], given->place[2] } };
  side->address += given->place[2] * side->slice + given->place[1] * side->pitch + given->place[0];
  return CUDA_SUCCESS;
}

static CUresult
fill_side (const Copy  *copy,
           Side        *side,
           const Given *given,
           Context     *context)
{
  gsize pitch = given->pitch != 0 ? given->pitch : copy->width;
  gsize height = given->height != 0 ? given->height : copy->height;

  if (given->type == CU_MEMORYTYPE_ARRAY)
    return fill_array (side, given, context);
  if (given->type != CU_MEMORYTYPE_HOST && given->type != CU_MEMORYTYPE_DEVICE &&
      given->type != CU_MEMORYTYPE_UNIFIED)
    return misuse (CUDA_ERROR_INVALID_VALUE, "memory of type %u", given->type);
  if (copy->depth > 1 && height < copy->height)
    return misuse (CUDA_ERROR_INVALID_VALUE, "%" G_GUINT64_FORMAT " rows of slices with %zu",
                   copy->height, height);
  *side = (Side) { .type = given->type, .pitch = pitch, .slice = pitch * height };
  side->address = given->type == CU_MEMORYTYPE_HOST ? GPOINTER_TO_SIZE (given->host)
                                                    : given->device;
  side->address += given->place[2] * side->slice + given->place[1] * pitch + given->place[0];
  return CUDA_SUCCESS;
}

ENTRY (cuMemcpy2DAsync, (const CUDA_MEMCPY2D *with, CUstream stream), (with, stream))
{
  Copy copy = { .width = with->WidthInBytes, .height = with->Height, .depth = 1 };
  const Given to = { with->dstMemoryType, with->dstHost, with->dstDevice, with->dstArray,
                     { with->dstXInBytes, with->dstY, 0 }, with->dstPitch, 0 };
  const Given from = { with->srcMemoryType, with->srcHost, with->srcDevice, with->srcArray,
                       { with->srcXInBytes, with->srcY, 0 }, with->srcPitch, 0 };
  Context *context;

  TRY (context_current (&context));
  TRY (fill_side (&copy, &copy.destination, &to, context));
  TRY (fill_side (&copy, &copy.source, &from, context));
  return copy_submit (&copy, stream, FALSE);
}

/* The fields that this function reads have the same offsets in CUDA_MEMCPY3D and in
 * CUDA_MEMCPY3D_PEER. */
static CUresult
copy_3d (const CUDA_MEMCPY3D_PEER *with,
         Context                  *to_context,
         Context                  *from_context,
         CUstream                  stream)
{
  Copy copy = { .width = with->WidthInBytes, .height = with->Height, .depth = with->Depth };
  const Given to = { with->dstMemoryType, with->dstHost, with->dstDevice, with->dstArray,
                     { with->dstXInBytes, with->dstY, with->dstZ }, with->dstPitch,
                     with->dstHeight };
  const Given from = { with->srcMemoryType, with->srcHost, with->srcDevice, with->srcArray,
                       { with->srcXInBytes, with->srcY, with->srcZ }, with->srcPitch,
                       with->srcHeight };

  if (with->srcLOD != 0 || with->dstLOD != 0)
    return misuse (CUDA_ERROR_INVALID_VALUE, "levels %zu and %zu", with->srcLOD, with->dstLOD);
  TRY (fill_side (&copy, &copy.destination, &to, to_context));
  TRY (fill_side (&copy, &copy.source, &from, from_context));
  return copy_submit (&copy, stream, FALSE);
}

ENTRY (cuMemcpy3DAsync, (const CUDA_MEMCPY3D *with, CUstream stream), (with, stream))
{
  Context *context;

  G_STATIC_ASSERT (sizeof (CUDA_MEMCPY3D) == sizeof (CUDA_MEMCPY3D_PEER));

  TRY (context_current (&context));
  if (with->reserved0 != NULL || with->reserved1 != NULL)
    return misuse (CUDA_ERROR_INVALID_VALUE, "a reserved field is not zero");
  return copy_3d ((const CUDA_MEMCPY3D_PEER *) with, context, context, stream);
}

ENTRY (cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *with, CUstream stream), (with, stream))
{
  TRY (object_check (with->srcContext, OBJECT_CONTEXT));
  TRY (object_check (with->dstContext, OBJECT_CONTEXT));
  TRY (with->srcContext->error);
  TRY (with->dstContext->error);
  return copy_3d (with, with->dstContext, with->srcContext, stream);
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

  if (height == 1)
    TRY (resolve_linear (handle, address, fill.width, &stream));
  else
    TRY (stream_resolve (handle, &stream));
  if (width == 0 || height == 0)
    return CUDA_SUCCESS;
  if (address % unit != 0 || (height > 1 && (pitch % unit != 0 || pitch < fill.width)))
    return misuse (CUDA_ERROR_INVALID_VALUE, "address 0x%" G_GINT64_MODIFIER "x, pitch %"
                   G_GUINT64_FORMAT ": rows of %" G_GUINT64_FORMAT " bytes by %u", address,
                   pitch, fill.width, unit);
  if (virtual_spans_host (address, (height - 1) * pitch + fill.width))
    return CUDA_ERROR_INVALID_VALUE;
  op = op_new (fill_run, g_memdup2 (&fill, sizeof fill), g_free);
  code = memory_check (op, stream, address, (height - 1) * pitch + fill.width, TRUE,
                       "the destination");
  if (code != CUDA_SUCCESS)
    {
      discard (op);
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

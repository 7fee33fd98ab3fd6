/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Captures of streams into graphs: which streams take part, and which calls the driver refuses
 * meanwhile. */
#include "config.h"

#include <string.h>

#include "cuda-driver.h"
#include "driver.h"

static guint n_capturing;
static guint n_global;              /* those that began with CU_STREAM_CAPTURE_MODE_GLOBAL */
static guint n_blocking;            /* those of streams without CU_STREAM_NON_BLOCKING */
static guint64 last_capture;
static GPtrArray *members;          /* nullable; of Stream: those that take part in captures */
static __thread CUstreamCaptureMode mode_of_thread;

/* The driver refuses these calls, and invalidates the capture (seen with driver 580.159 on an
 * H200). The stand-in reports misuse. */
gboolean
gpumem_cuda_driver_is_unsafe (const char *function)
{
  static const char *const names[] = {
    "cuArray3DCreate", "cuArrayDestroy", "cuCtxSetLimit", "cuEventQuery", "cuEventSynchronize",
    "cuMemAdvise", "cuMemAdvise_v2", "cuMemAlloc", "cuMemAllocFromPoolAsync", "cuMemAllocManaged",
    "cuMemAllocPitch", "cuMemFree", "cuMemFreeAsync", "cuMemFreeHost", "cuMemHostAlloc",
    "cuMemHostRegister", "cuMemHostUnregister", "cuMemPoolCreate", "cuMemPoolDestroy",
    "cuMemPoolSetAttribute", "cuMemPoolTrimTo", "cuModuleUnload", "cuStreamAttachMemAsync",
    "cuStreamQuery", "cuStreamSynchronize", "cuSurfObjectCreate", "cuTexObjectCreate",
    "cuTexObjectDestroy"
  };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (strcmp (function, names[i]) == 0)
      return TRUE;
  return FALSE;
}

gboolean
capture_is_blocking (void)
{
  return n_blocking > 0;
}

CUresult
capture_check (CallFunction function)
{
  if (n_capturing == 0)
    return CUDA_SUCCESS;
  if (function == CALL_cuMemUnmap)
    return misuse (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "memory is unmapped during a capture");
  if (function == CALL_cuCtxSynchronize)
    return misuse (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the device is awaited in a capture");
  if (n_global > 0 && mode_of_thread != CU_STREAM_CAPTURE_MODE_RELAXED
      && gpumem_cuda_driver_is_unsafe (call_names[function]))
    return misuse (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the call invalidates a capture");
  return CUDA_SUCCESS;
}

ENTRY (cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *mode), (mode))
{
  CUstreamCaptureMode old = mode_of_thread;

  if (*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  mode_of_thread = *mode;
  *mode = old;
  return CUDA_SUCCESS;
}

static void
enter (Stream  *stream,
       guint64  capture)
{
  if (members == NULL)
    members = g_ptr_array_new ();
  g_ptr_array_add (members, stream);
  stream->capture = capture;
  n_blocking += (stream->flags & CU_STREAM_NON_BLOCKING) == 0;
}

/* Gets the graph into which the stream is being captured. Returns NULL after the end of a capture
 * that the stream was not joined to. (nullable) */
static Graph *
find_graph (guint64 capture)
{
  for (guint i = 0; i < members->len; i++)
    {
      Stream *stream = members->pdata[i];

      if (stream->capture == capture && stream->graph != NULL)
        return stream->graph;
    }
  return NULL;
}

void
capture_add_memory (guint64  capture,
                    Memory  *memory)
{
  memory->capture = capture;
  graph_add_memory (find_graph (capture), memory);
}

void
capture_add_op (guint64  capture,
                Op      *op)
{
  graph_add_op (find_graph (capture), op);
}

/* Ends the capture for all its streams. Returns whether the others were joined to the first one. */
static gboolean
leave (guint64 capture)
{
  gboolean is_joined = TRUE;

  for (guint i = members->len; i > 0; i--)
    {
      Stream *stream = members->pdata[i - 1];

      if (stream->capture != capture)
        continue;
      is_joined &= !stream->is_forked;
      stream->capture = 0;
      stream->is_forked = FALSE;
      n_blocking -= (stream->flags & CU_STREAM_NON_BLOCKING) == 0;
      g_ptr_array_remove_index_fast (members, i - 1);
    }

  return is_joined;
}

/* Graphs have no edges: a stream is joined once another one waits for an event of it. */
CUresult
capture_wait (Stream *stream,
              Event  *event)
{
  if (event->captured->capture != event->capture)
    return misuse (CUDA_ERROR_CAPTURED_EVENT, "the capture of the event has ended");
  if (stream->is_legacy)
    return misuse (CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the legacy stream would be captured");
  if (stream->capture != 0 && stream->capture != event->capture)
    return misuse (CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would be merged");
  if (stream->capture == 0)
    {
      enter (stream, event->capture);
      stream->is_forked = TRUE;
    }
  else if (stream != event->captured)
    event->captured->is_forked = FALSE;
  return CUDA_SUCCESS;
}

ENTRY (cuStreamBeginCapture, (CUstream handle, CUstreamCaptureMode mode), (handle, mode))
{
  Stream *stream;

  TRY (stream_resolve_any (handle, &stream));
  if (stream->is_legacy || stream->capture != 0)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  enter (stream, ++last_capture);
  stream->capture_mode = mode;
  stream->graph = graph_new (stream->object.context);
  n_capturing++;
  n_global += mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  return CUDA_SUCCESS;
}

ENTRY (cuStreamEndCapture, (CUstream handle, CUgraph *graph), (handle, graph))
{
  Stream *stream;

  TRY (stream_resolve_any (handle, &stream));
  if (stream->capture == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (stream->graph == NULL)
    return misuse (CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "another stream began the capture");
  n_capturing--;
  n_global -= stream->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  *graph = g_steal_pointer (&stream->graph);
  if (leave (stream->capture))
    return CUDA_SUCCESS;
  return misuse (CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a stream was not joined to the capture");
}

static CUstreamCaptureStatus
get_status (Stream *stream)
{
  return stream->capture != 0 ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
}

ENTRY (cuStreamIsCapturing, (CUstream handle, CUstreamCaptureStatus *status), (handle, status))
{
  Stream *stream;

  TRY (stream_resolve_any (handle, &stream));
  if (stream->is_legacy && capture_is_blocking ())
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *status = get_status (stream);
  return CUDA_SUCCESS;
}

ENTRY_REVISED (cuStreamGetCaptureInfo_v2,
               (CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                const CUgraphNode **dependencies, size_t *n_dependencies),
               (handle, status, id, graph, dependencies, n_dependencies))
{
  Stream *stream;

  TRY (stream_resolve_any (handle, &stream));
  /* Does not invalidate the capture */
  if (stream->is_legacy && capture_is_blocking ())
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *status = get_status (stream);
  if (id != NULL)
    *id = stream->capture;
  if (graph != NULL)
    *graph = stream->capture != 0 ? find_graph (stream->capture) : NULL;
  if (dependencies != NULL)
    *dependencies = NULL;
  if (n_dependencies != NULL)
    *n_dependencies = 0;
  return CUDA_SUCCESS;
}

void
capture_lose (void)
{
  for (guint i = 0; members != NULL && i < members->len; i++)
    {
      Stream *stream = members->pdata[i];

      if (stream->graph != NULL)
        graph_destroy (g_steal_pointer (&stream->graph));
    }
  while (members != NULL && members->len > 0)
    leave (((Stream *) members->pdata[0])->capture);
  n_capturing = 0;
  n_global = 0;
}

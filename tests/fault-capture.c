/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Streams whose handles the program has, so that the library asks the driver for captures, and
 * memory that is unmapped during a capture, while driver calls fail. */
#include "config.h"

#include <string.h>

#include "cuda-driver/cuda-driver.h"
#include "fault-util.h"
#include "gpumem/cuda/driver/gpu-cuda-types.h"

#define SIZE 4096

static gboolean
fill (GpuStream *stream, GpuBuffer *buffer, guint8 value, GError **error)
{
  return gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, error);
}

static gboolean
check (GBytes *bytes, guint8 value)
{
  if (bytes == NULL)
    return FALSE;

  fault_check (g_bytes_get_data (bytes, NULL), value, SIZE, "buffer");
  return TRUE;
}

static void
take_result (GObject *source G_GNUC_UNUSED, GAsyncResult *result, gpointer data)
{
  *(GAsyncResult **) data = g_object_ref (result);
}

static gboolean
read_async (GpuStream *stream, GpuBuffer *buffer, guint8 value, GError **error)
{
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GBytes) bytes = NULL;

  gpu_buffer_read_bytes_async (buffer, stream, 0, SIZE, NULL, NULL, NULL, NULL, take_result,
                               &result);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);
  bytes = gpu_buffer_read_bytes_finish (buffer, result, error);

  return check (bytes, value);
}

/* The two streams use the buffer in turns. */
static gboolean
use (GpuStream *first, GpuStream *second, GpuBuffer *buffer, GError **error)
{
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GBytes) bytes = NULL;

  if (!fill (first, buffer, 1, error))
    return FALSE;
  event = gpu_stream_record (first, GPU_EVENT_FLAGS_NONE, error);
  if (event == NULL || !gpu_event_wait (event, NULL, error) || !fill (second, buffer, 2, error))
    return FALSE;
  bytes = gpu_buffer_read_bytes (buffer, first, 0, SIZE, NULL, error);

  return check (bytes, 2) && fill (first, buffer, 3, error)
         && read_async (second, buffer, 3, error)
         && gpu_buffer_spill (buffer, first, error) && gpu_buffer_unspill (buffer, second, error)
         && read_async (first, buffer, 3, error)
         && gpu_stream_synchronize (second, NULL, error);
}

static gboolean
check_driver (const char *function, CUresult code, GError **error)
{
  if (code == CUDA_SUCCESS)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "the test: %s() failed with %u", function, code);
  return FALSE;
}

static gboolean
begin_capture (CUstream stream, GError **error)
{
  CUresult (*begin) (CUstream stream, CUstreamCaptureMode mode)
    = gpumem_cuda_driver_symbol ("cuStreamBeginCapture_v2");

  return check_driver ("cuStreamBeginCapture",
                       begin (stream, CU_STREAM_CAPTURE_MODE_GLOBAL), error);
}

/* The library has left the capture intact. */
static gboolean
end_capture (CUstream stream, GError **error)
{
  CUresult (*end) (CUstream stream, CUgraph *graph)
    = gpumem_cuda_driver_symbol ("cuStreamEndCapture");
  CUresult (*destroy) (CUgraph graph) = gpumem_cuda_driver_symbol ("cuGraphDestroy");
  CUresult code, destroyed;
  CUgraph graph = NULL;

  code = end (stream, &graph);
  if (code != CUDA_SUCCESS)                 /* a call fails once */
    end (stream, &graph);
  destroyed = graph != NULL ? destroy (graph) : CUDA_SUCCESS;

  return check_driver ("cuStreamEndCapture", code, error)
         && check_driver ("cuGraphDestroy", destroyed, error);
}

/* Unmaps memory while its stream is being captured. */
static gboolean
unmap_captured (GpuStream *stream, GpuBuffer *buffer, GError **error)
{
  CUstream handle = (CUstream) (gsize) gpu_stream_get_native_handle (stream);
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GBytes) bytes = NULL;
  gboolean is_unmapped;

  mapping = gpu_buffer_map (buffer, stream, GPU_MAP_FLAGS_WRITE, 0, SIZE, NULL, error);
  if (mapping == NULL || !begin_capture (handle, error))
    return FALSE;

  memset (gpu_mapping_get_data (mapping), 4, SIZE);
  is_unmapped = gpu_mapping_unmap (mapping, error);
  if (!end_capture (handle, is_unmapped ? error : NULL) || !is_unmapped)
    return FALSE;

  bytes = gpu_buffer_read_bytes (buffer, stream, 0, SIZE, NULL, error);

  return check (bytes, 4);
}

static gboolean
run (GpuContext *context, GError **error)
{
  g_autoptr (GpuStream) first = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuStream) second = NULL;
  g_autoptr (GpuStream) wrapped = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;

  if (first == NULL)
    return FALSE;
  second = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  if (second == NULL)
    return FALSE;
  wrapped = gpu_stream_new_wrapped (context, gpu_stream_get_native_handle (second),
                                    GPU_WRAP_MODE_BORROW, error);
  if (wrapped == NULL)
    return FALSE;
  buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);

  /* First, for the row of the table that only fails the first calls. */
  return buffer != NULL && unmap_captured (first, buffer, error)
         && use (first, second, buffer, error) && use (first, wrapped, buffer, error);
}

int
main (void)
{
  return fault_run (run);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory of the host back end in OpenCL, while driver calls fail. Every command must run between an
 * acquire and a release of the memory. At the end no descriptor may be open. */
#include "config.h"

#include <string.h>
#include <unistd.h>

#include "fault-util.h"
#include "test-util.h"
#include "tests/opencl-layer/gpumem-layer.h"

#define SIZE 8192

static GpuBuffer *
take (GpuContext *context, GpuBuffer *theirs, GError **error)
{
  GpuBuffer *ours;
  gsize whole_size;
  gsize offset;
  int fd = gpu_buffer_export_fd (theirs, GPU_FD_KINDS_OPAQUE, &whole_size, &offset, error);

  if (fd < 0)
    return NULL;
  ours = gpu_buffer_new_from_fd (context, GPU_MEMORY_FLAGS_NONE, GPU_FD_KINDS_OPAQUE, fd,
                                 whole_size,
                                 offset + SIZE / 2, SIZE / 2, error);
  close (fd);
  return ours;
}

static gboolean
fill (GpuStream *stream, GpuBuffer *buffer, guint8 value, GError **error)
{
  return gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE / 2, &value, 1, error);
}

/* Uses the memory once. Later uses must work even if this use fails. */
static gboolean
use_once (GpuStream *stream, GpuBuffer *ours, GpuBuffer *far, GpuBuffer *plain, GError **error)
{
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GBytes) content = NULL;

  if (!fill (stream, ours, 4, error)
      || !gpu_stream_copy (stream, GPU_MEMORY (plain), 0, GPU_MEMORY (ours), 0, SIZE / 2, error))
    return FALSE;
  mapping = gpu_buffer_map (ours, stream, GPU_MAP_FLAGS_WRITE, 0, SIZE / 4, NULL, error);
  if (mapping == NULL)
    return FALSE;
  memset (GSIZE_TO_POINTER (gpu_mapping_get_address (mapping)), 5, SIZE / 4);
  if (!gpu_mapping_unmap (mapping, error)
      || !gpu_stream_copy (stream, GPU_MEMORY (far), 0, GPU_MEMORY (ours), 0, SIZE / 2, error))
    return FALSE;
  content = gpu_buffer_read_bytes (far, NULL, 0, SIZE / 2, NULL, error);
  if (content == NULL)
    return FALSE;
  fault_check (g_bytes_get_data (content, NULL), 5, SIZE / 4, "through the mapping");
  fault_check ((const guint8 *) g_bytes_get_data (content, NULL) + SIZE / 4, 4, SIZE / 4, "filled");
  return gpu_stream_synchronize (stream, NULL, error);
}

static gboolean
use (GpuContext *context, GpuStreamFlags flags, GpuBuffer *ours, GpuBuffer *far, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_stream_new (context, flags, error);
  g_autoptr (GpuBuffer) plain = NULL;
  g_autoptr (GError) later = NULL;
  gboolean success;

  if (stream == NULL)
    return FALSE;
  plain = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE / 2, error);
  if (plain == NULL)
    return FALSE;
  success = use_once (stream, ours, far, plain, error);
  if (!success && fill (stream, ours, 6, &later))
    gpu_stream_synchronize (stream, NULL, NULL);
  return success;
}

static gboolean
external (GpuContext *context, GError **error)
{
  g_autoptr (GpuDevice) device = gpu_device_find ("host", error);
  g_autoptr (GpuContext) host = device != NULL ? gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE,
                                                                  error) : NULL;
  g_autoptr (GpuBuffer) theirs = NULL;
  g_autoptr (GpuBuffer) far = NULL;
  g_autoptr (GpuBuffer) ours = NULL;

  theirs = gpu_buffer_new (host, GPU_MEMORY_FLAGS_SHAREABLE, SIZE, error);
  far = gpu_buffer_new (host, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  ours = take (context, theirs, error);
  return ours != NULL && use (context, GPU_STREAM_FLAGS_NONE, ours, far, error)
         && use (context, GPU_STREAM_FLAGS_OUT_OF_ORDER, ours, far, error);
}

/* Returns whether all acquired memory was released to the other API. The result is only valid if no
 * fault was injected. */
static gboolean
is_released (void)
{
  if (gpumem_layer_symbol ("gpumem_layer_get_count") == NULL || GPUMEM_LAYER (get_failed) () > 0)
    return TRUE;

  return GPUMEM_LAYER (get_count) ("clEnqueueAcquireExternalMemObjectsKHR")
         == GPUMEM_LAYER (get_count) ("clEnqueueReleaseExternalMemObjectsKHR");
}

int
main (void)
{
  int code = fault_run (external);

  if (!is_released ())
    {
      g_printerr ("host memory stays acquired\n");
      return 1;
    }
  if (test_count_descriptors ("memfd:") == 0)
    return code;
  g_printerr ("%u descriptors of memory are still open\n", test_count_descriptors ("memfd:"));
  return 1;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The hooks of a pool, while driver calls fail: streams that end, memory that another stream still
 * uses, and a capture. */
#include "config.h"

#include "fault-util.h"

#define SIZE   (3 * 1024 * 1024)
#define NUMBER 5                    /* of the capture */

static gboolean
check (GpuContext *context, GpuStream *stream, guint64 address, guint8 value, GError **error)
{
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new_wrapped (context, address, SIZE,
                                                         GPU_WRAP_MODE_BORROW, NULL, error);
  g_autoptr (GBytes) content = NULL;

  if (buffer == NULL || !gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, error))
    return FALSE;

  content = gpu_buffer_read_bytes (buffer, stream, 0, SIZE, NULL, error);
  if (content == NULL)
    return FALSE;

  fault_check (g_bytes_get_data (content, NULL), value, SIZE, "memory");

  return TRUE;
}

/* Uses memory on both streams. Frees it even after an error, when work of either stream may be
 * pending; registers the stream that does not free it. */
static gboolean
use (GpuContext *context, GpuPoolHooks *hooks, GpuStream *first, GpuStream *second, guint8 value,
     GError **error)
{
  gpointer a = (gpointer) (gsize) gpu_stream_get_native_handle (first);
  gpointer b = (gpointer) (gsize) gpu_stream_get_native_handle (second);
  gboolean first_frees = value % 2 == 0;
  guint64 address = hooks->alloc (hooks->pool, SIZE, a, error);
  gboolean success;

  if (address == 0)
    return FALSE;

  success = hooks->add_stream (hooks->pool, address, first_frees ? b : a, error)
            && check (context, first, address, value, error)
            && check (context, second, address, value + 1, error);
  if (!hooks->free (hooks->pool, address, first_frees ? a : b))
    g_error ("the memory is unknown");

  return success;
}

static gboolean
capture (GpuContext *context, GpuPoolHooks *hooks, GpuStream *first, GpuStream *second,
         GError **error)
{
  gboolean success;

  if (!hooks->begin_capture (hooks->pool, NUMBER, NULL, NULL, NULL, error))
    return FALSE;

  success = use (context, hooks, first, second, 20, error)
            && use (context, hooks, second, first, 21, error);
  if (!hooks->end_capture (hooks->pool, NUMBER) || !hooks->release_capture (hooks->pool, NUMBER))
    g_error ("the capture is unknown");

  return success;
}

static gboolean
run (GpuContext *context, GError **error)
{
  g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new (context, GPU_MEMORY_POOL_AUTOMATIC,
                                                        GPU_MEMORY_FLAGS_NONE, error);
  GpuPoolHooks *hooks = NULL;

  if (pool == NULL)
    return FALSE;

  g_object_get (pool, "hooks", &hooks, NULL);
  gpu_memory_pool_set_limit (pool, 4 * SIZE);

  for (guint8 i = 0; i < 3; i++)
    {
      g_autoptr (GpuStream) first = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
      g_autoptr (GpuStream) second = first != NULL ? gpu_stream_new (context, 0, error) : NULL;
      gboolean success = second != NULL && use (context, hooks, first, second, i, error)
                         && (i == 0 || capture (context, hooks, first, second, error));

      if (first != NULL)
        hooks->end_stream (hooks->pool, (gpointer) (gsize) gpu_stream_get_native_handle (first));
      if (second != NULL)
        hooks->end_stream (hooks->pool, (gpointer) (gsize) gpu_stream_get_native_handle (second));
      if (!success)
        return FALSE;
    }

  hooks->trim (hooks->pool, 0);

  return TRUE;
}

int
main (void)
{
  return fault_run (run);
}

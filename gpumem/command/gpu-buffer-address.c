/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Host memory by its address, for language bindings. */
#include "config.h"

#include "gpumem/backend/gpu-native-context-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-memory-task-private.h"

static gboolean
check_address (const char  *function,
               guint64      address,
               gsize        size,
               GError     **error)
{
  if (size == 0 || (address != 0 && address <= G_MAXSIZE - size))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: there are no %" G_GSIZE_FORMAT " bytes at address 0x%" G_GINT64_MODIFIER "x",
               function, size, address);

  return FALSE;
}

/* The timeline of @stream, or NULL, without an error, if work on it is pending. Asks the driver
 * about work that is not known to be complete, so that `if_idle` does not take completed work for
 * pending, and refuses before a large copy is staged in vain. */
static GpuTimeline *
get_idle_timeline (GpuBuffer   *buffer,
                   GpuStream   *stream,
                   const char  *function,
                   GError     **error)
{
  GpuTimeline *timeline = _gpu_memory_peek_timeline ((GpuMemory *) buffer, stream, function, NULL,
                                                     error);
  guint64 submitted;

  if (timeline == NULL)
    return NULL;

  /* In a forked child work stays pending for ever. */
  if (!_gpu_native_context_check (timeline->context, error))
    {
      g_prefix_error (error, "%s: ", function);
      return NULL;
    }

  submitted = _gpu_timeline_get_submitted (timeline);

  return G_LIKELY (_gpu_timeline_is_complete (timeline, submitted))
         || _gpu_timeline_query (timeline, submitted, NULL) != GPU_EVENT_STATUS_PENDING
         ? timeline : NULL;
}

static gboolean
end_try (GpuTimeline  *timeline,
         GpuPending   *pending,
         const char   *function,
         GError      **error)
{
  if (pending->busy)
    return FALSE;

  return _gpu_memory_wait_for_operation (timeline, pending, function, error);
}

/**
 * gpu_buffer_try_read_address:
 * @buffer: a #GpuBuffer
 * @stream: (nullable): the stream to read on, %NULL for the default stream
 * @offset: where to read, in bytes
 * @address: address of writable memory of @size bytes, which nobody else touches meanwhile
 * @size: how much, in bytes
 * @error: return location for an error
 *
 * Does what gpu_buffer_read() does if that has to wait for nothing but the copy itself:
 * for callers that must not be stuck behind other work.
 *
 * Returns: as gpu_buffer_read(), or %FALSE without error, and nothing is read, if work that
 *   comes before is not complete
 *
 * Since: 0.1
 */
gboolean
gpu_buffer_try_read_address (GpuBuffer  *buffer,
                             GpuStream  *stream,
                             gsize       offset,
                             guint64     address,
                             gsize       size,
                             GError    **error)
{
  const char *function = "gpu_buffer_try_read_address";
  GpuTimeline *timeline;
  GpuPending pending = { .if_idle = TRUE };

  g_return_val_if_fail (GPU_IS_BUFFER (buffer), FALSE);

  if (!check_address (function, address, size, error))
    return FALSE;

  timeline = get_idle_timeline (buffer, stream, function, error);

  return timeline != NULL
         && _gpu_timeline_read (timeline, function, GPU_MEMORY (buffer), offset,
                                (gpointer) (guintptr) address, size, NULL, &pending, error)
         && end_try (timeline, &pending, function, error);
}

/**
 * gpu_buffer_try_write_address:
 * @buffer: a #GpuBuffer
 * @stream: (nullable): the stream to write on, %NULL for the default stream
 * @offset: where to write, in bytes
 * @address: address of memory of @size bytes
 * @size: how much, in bytes
 * @error: return location for an error
 *
 * Does what gpu_buffer_write() does if that has to wait for nothing but the copy itself:
 * for callers that must not be stuck behind other work.
 *
 * Returns: as gpu_buffer_write(), or %FALSE without error, and nothing is written, if work
 *   that comes before is not complete
 *
 * Since: 0.1
 */
gboolean
gpu_buffer_try_write_address (GpuBuffer  *buffer,
                              GpuStream  *stream,
                              gsize       offset,
                              guint64     address,
                              gsize       size,
                              GError    **error)
{
  const char *function = "gpu_buffer_try_write_address";
  GpuTimeline *timeline;
  GpuPending pending = { .if_idle = TRUE };

  g_return_val_if_fail (GPU_IS_BUFFER (buffer), FALSE);

  if (!check_address (function, address, size, error))
    return FALSE;

  timeline = get_idle_timeline (buffer, stream, function, error);

  return timeline != NULL
         && _gpu_timeline_write (timeline, function, GPU_MEMORY (buffer), offset,
                                 (gconstpointer) (guintptr) address, size, NULL, &pending, error)
         && end_try (timeline, &pending, function, error);
}

/* The callback of gpu_bytes_new_for_address(). */
typedef struct
{
  GMainContext    *context;
  GSourceOnceFunc  released;
  gpointer         user_data;
} Release;

static gboolean
call_released (gpointer data)
{
  Release *release = data;

  release->released (release->user_data);

  return G_SOURCE_REMOVE;
}

static void
release_free (gpointer data)
{
  Release *release = data;

  g_main_context_unref (release->context);
  g_free (release);
}

static void
bytes_released (gpointer data)
{
  Release *release = data;
  g_autoptr (GSource) source = g_idle_source_new ();

  g_source_set_priority (source, G_PRIORITY_DEFAULT);
  g_source_set_callback (source, call_released, release, release_free);
  g_source_attach (source, release->context);
}

/**
 * gpu_bytes_new_for_address:
 * @address: address of memory of @size bytes
 * @size: how much, in bytes
 * @context: (nullable): where to call @released, %NULL for the default main context
 * @released: (scope async): called when nobody uses the bytes any more
 * @user_data: for @released
 * @error: return location for an error
 *
 * Makes bytes of memory that belongs to somebody else, without a copy, for languages that know the
 * address of their memory as a number. The memory stays where it is until @released is called.
 * That is done by @context, as a rule after the last reference was dropped on some other thread;
 * where nobody runs @context, it is never called.
 *
 * What is written from the bytes, as by gpu_stream_write(), is what the memory holds when the
 * device gets there. gpu_stream_read_into() changes it.
 *
 * Returns: (transfer full): the bytes, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @address is 0,
 *   and then @released is not called
 *
 * Since: 0.1
 */
GBytes *
gpu_bytes_new_for_address (guint64           address,
                           gsize             size,
                           GMainContext     *context,
                           GSourceOnceFunc   released,
                           gpointer          user_data,
                           GError          **error)
{
  Release *release;

  g_return_val_if_fail (released != NULL, NULL);

  if (!check_address ("gpu_bytes_new_for_address", address, size, error))
    return NULL;

  release = g_new (Release, 1);
  release->context = g_main_context_ref (context != NULL ? context
                                                         : g_main_context_default ());
  release->released = released;
  release->user_data = user_data;

  return g_bytes_new_with_free_func ((gconstpointer) (guintptr) address, size, bytes_released,
                                     release);
}

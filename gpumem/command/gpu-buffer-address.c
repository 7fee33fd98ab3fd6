/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Access to host memory by numeric address, and transfers that only run while no earlier work is
 * pending, for language bindings. */
#include "config.h"

#include "gpumem/backend/gpu-native-context-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-memory-task-private.h"
#include "gpumem/gpumem-bindings.h"
#include "gpumem/memory/gpu-image-private.h"

static gboolean
check_address (const char  *function,
               guint64      address,
               gsize        size,
               GError     **error)
{
  if (size == 0 || (address != 0 && address <= G_MAXSIZE - size))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: no memory of %" G_GSIZE_FORMAT " bytes at address 0x%" G_GINT64_MODIFIER "x",
               function, size, address);

  return FALSE;
}

/* Returns the timeline of @stream, or NULL without an error if the stream has pending work. Queries
 * the driver, because GpuPending.if_idle also counts completed work as pending if the library has
 * not queried it yet. Called before a copy is staged, so that a large copy is not staged in
 * vain. */
static GpuTimeline *
get_idle_timeline (GpuMemory   *memory,
                   GpuStream   *stream,
                   const char  *function,
                   GError     **error)
{
  GpuTimeline *timeline = _gpu_memory_peek_timeline (memory, stream, function, NULL, error);
  guint64 submitted;

  if (timeline == NULL)
    return NULL;

  /* In a forked child, pending work never completes. */
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

static gboolean
try_read (GpuMemory   *memory,
          GpuStream   *stream,
          gsize        offset,
          gpointer     data,
          gsize        size,
          const char  *function,
          GError     **error)
{
  GpuTimeline *timeline = get_idle_timeline (memory, stream, function, error);
  GpuPending pending = { .if_idle = TRUE };

  return timeline != NULL
         && _gpu_timeline_read (timeline, function, memory, offset, data, size, NULL, &pending,
                                error)
         && end_try (timeline, &pending, function, error);
}

/**
 * gpu_buffer_try_read_address:
 * @buffer: a #GpuBuffer
 * @stream: (nullable): the stream to read on, %NULL for the default stream
 * @offset: offset of the range in @buffer, in bytes
 * @address: address of writable memory of @size bytes, which no other thread may access until the
 *   call returns
 * @size: the number of bytes
 * @error: return location for an error
 *
 * Reads like gpu_buffer_read(), but only if no earlier work is pending, so that the caller never
 * waits for earlier work. A spilled buffer is always read.
 *
 * Returns: like gpu_buffer_read(), or %FALSE without an error, and without reading, if earlier work
 *   is pending
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
  gpointer data = (gpointer) (guintptr) address;
  GpuMemory *memory = (GpuMemory *) buffer;
  GError *failure = NULL;
  gboolean success;
  gint n_moves;

  g_return_val_if_fail (GPU_IS_BUFFER (buffer), FALSE);

  if (!check_address (function, address, size, error))
    return FALSE;

  do
    {
      g_autoptr (GBytes) spilled = _gpu_memory_ref_spilled (memory, &n_moves);

      success = G_LIKELY (spilled == NULL)
                ? try_read (memory, stream, offset, data, size, function, &failure)
                : _gpu_memory_read_spilled (memory, spilled, offset, data, size, function,
                                            &failure);
    }
  while (G_UNLIKELY (failure != NULL) && _gpu_memory_was_moved (memory, n_moves, &failure));

  if (G_UNLIKELY (failure != NULL))
    g_propagate_error (error, failure);

  return success;
}

/**
 * gpu_buffer_try_write_address:
 * @buffer: a #GpuBuffer
 * @stream: (nullable): the stream to write on, %NULL for the default stream
 * @offset: offset of the range in @buffer, in bytes
 * @address: address of memory of @size bytes
 * @size: the number of bytes
 * @error: return location for an error
 *
 * Writes like gpu_buffer_write(), but only if no earlier work is pending, so that the caller never
 * waits for earlier work.
 *
 * Returns: like gpu_buffer_write(), or %FALSE without an error, and without writing, if earlier
 *   work is pending
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

  timeline = get_idle_timeline ((GpuMemory *) buffer, stream, function, error);

  return timeline != NULL
         && _gpu_timeline_write (timeline, function, GPU_MEMORY (buffer), offset,
                                 (gconstpointer) (guintptr) address, size, NULL, &pending, error)
         && end_try (timeline, &pending, function, error);
}

gboolean
_gpu_binding_try_read_image (GpuImage   *image,
                             GpuStream  *stream,
                             gpointer    data,
                             gsize       size,
                             GError    **error)
{
  const char *function = "gpu_image_read";
  const GpuHostBytes host = { .data = data, .size = size };
  GpuTimeline *timeline = get_idle_timeline ((GpuMemory *) image, stream, function, error);
  GpuPending pending = { .if_idle = TRUE };

  return timeline != NULL
         && _gpu_timeline_read_region (timeline, function, (GpuMemory *) image, NULL, &host,
                                       &image->description.extent, &pending, error)
         && end_try (timeline, &pending, function, error);
}

gboolean
_gpu_binding_try_write_image (GpuImage       *image,
                              GpuStream      *stream,
                              gconstpointer   data,
                              gsize           size,
                              GError        **error)
{
  const char *function = "gpu_image_write";
  const GpuHostBytes host = { .data = (gpointer) data, .size = size };
  GpuTimeline *timeline = get_idle_timeline ((GpuMemory *) image, stream, function, error);
  GpuPending pending = { .if_idle = TRUE };

  return timeline != NULL
         && _gpu_timeline_write_region (timeline, function, (GpuMemory *) image, NULL, &host,
                                        &image->description.extent, &pending, error)
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
 * @size: the number of bytes
 * @context: (nullable): the #GMainContext in which @released is called, %NULL for the default main
 *   context
 * @released: (scope async): called when the memory is no longer in use
 * @user_data: data for @released
 * @error: return location for an error
 *
 * Wraps memory of the program in a #GBytes, without a copy, for languages that represent addresses
 * as numbers. The memory must remain valid until @released is called in @context. If @context is
 * not iterated, @released is never called. The last reference may be dropped on any thread,
 * including the threads of the library.
 *
 * For example, gpu_stream_write() submits work that reads the bytes. The work reads them when it
 * executes, not when it is submitted. gpu_stream_read_into() changes the bytes.
 *
 * Returns: (transfer full): the bytes, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @address is 0
 *   and @size is not; in that case @released is not called
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

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies between memory and several connections, each with a thread that calls the blocking
 * functions of its connection on page-locked memory. */
#include "config.h"

#include "gpumem/base/gpu-error-private.h"
#include "gpumem/base/gpu-workers-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-mapping.h"
#include "gpumem/command/gpu-memory-task-private.h"
#include "gpumem/io/gpu-output-stream.h"
#include "gpumem/io/gpu-stream-chunks-private.h"

static const char function[] = "gpu_memory_splice_async";

/* The last part that ends frees the structure. */
typedef struct
{
  GpuMemory    *memory;
  GpuTimeline  *timeline;
  gboolean      send;
  GCancellable *cancellable;        /* of the parts; also ends them if one of them fails */
  GCancellable *caller;             /* nullable */
  gulong        handler;            /* of `caller` */
  GpuTaskWait  *wait;
  gint          n_running;          /* atomic */
  GMutex        lock;               /* guards `error` */
  GError       *error;              /* the first failure */
} Splice;

typedef struct
{
  Splice          *splice;
  GIOStream       *connection;
  guint            index;
  gsize            offset;          /* in the memory */
  gsize            size;
  gsize            done;            /* bytes before a failure */
  GpuStreamChunks  chunks;
} Part;

/* --- one connection --------------------------------------------------------------------------- */

static gsize
get_chunk_size (const GpuStreamChunks *chunks,
                gsize                  begin)
{
  return MIN (chunks->chunk_size, chunks->size - begin);
}

static guint
get_place (const GpuStreamChunks *chunks,
           gsize                  begin)
{
  return begin / chunks->chunk_size % GPU_STREAM_CHUNKS;
}

static gboolean
copy_chunk (Part    *part,
            gsize    begin,
            gsize    size,
            GError **error)
{
  return _gpu_stream_chunks_copy (&part->chunks, get_place (&part->chunks, begin), begin, size,
                                  !part->splice->send, "copy", error);
}

static gboolean
wait_for_chunk (Part    *part,
                gsize    begin,
                GError **error)
{
  return _gpu_stream_chunks_wait (&part->chunks, get_place (&part->chunks, begin),
                                  part->splice->cancellable, "copy", error);
}

/* Copies the next chunks while it sends the current one. */
static gboolean
send_part (Part    *part,
           GError **error)
{
  GpuStreamChunks *chunks = &part->chunks;
  GOutputStream *output = g_io_stream_get_output_stream (part->connection);
  gsize loaded = 0;

  while (part->done < part->size)
    {
      gsize begin = part->done;
      guint8 *data = _gpu_stream_chunks_get_data (chunks, get_place (chunks, begin));
      gboolean success;
      gsize n = 0;

      for (; loaded < MIN (part->size, begin + chunks->chunk_size * GPU_STREAM_CHUNKS);
           loaded += get_chunk_size (chunks, loaded))
        {
          if (!copy_chunk (part, loaded, get_chunk_size (chunks, loaded), error))
            return FALSE;
        }

      if (!wait_for_chunk (part, begin, error))
        return FALSE;

      success = g_output_stream_write_all (output, data, get_chunk_size (chunks, begin), &n,
                                           part->splice->cancellable, error);
      part->done += n;

      if (!success)
        return FALSE;
    }

  return TRUE;
}

static void
set_closed (const Part  *part,
            GError     **error)
{
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT,
               "the peer has closed the connection %" G_GSIZE_FORMAT " bytes early",
               part->size - part->done);
}

/* Receives one chunk and submits its copy, also of the bytes before a failure. */
static gboolean
receive_chunk (Part    *part,
               gsize    begin,
               GError **error)
{
  GpuStreamChunks *chunks = &part->chunks;
  GInputStream *input = g_io_stream_get_input_stream (part->connection);
  gsize size = get_chunk_size (chunks, begin);
  GError *failure = NULL;
  gsize n = 0;

  g_input_stream_read_all (input, _gpu_stream_chunks_get_data (chunks, get_place (chunks, begin)),
                           size, &n, part->splice->cancellable, &failure);

  if (n > 0 && !copy_chunk (part, begin, n, error))
    {
      g_clear_error (&failure);
      return FALSE;
    }

  part->done = begin + n;

  if (failure != NULL)
    g_propagate_error (error, failure);
  else if (n < size)
    set_closed (part, error);

  return n == size && failure == NULL;
}

/* Waits for the copies of all chunks in the order of the memory. If one fails, its begin is the
 * position of the failure. */
static gboolean
receive_part (Part    *part,
              GError **error)
{
  gsize span = part->chunks.chunk_size * GPU_STREAM_CHUNKS;
  gsize begin;
  gsize waited = 0;

  for (begin = 0; begin < part->size; begin = part->done)
    {
      if (begin >= span)
        {
          waited = begin - span + part->chunks.chunk_size;

          if (!wait_for_chunk (part, begin, error))
            {
              part->done = begin - span;
              return FALSE;
            }
        }

      if (!receive_chunk (part, begin, error))
        return FALSE;
    }

  for (; waited < part->size; waited += part->chunks.chunk_size)
    {
      if (!wait_for_chunk (part, waited, error))
        {
          part->done = waited;
          return FALSE;
        }
    }

  return TRUE;
}

/* --- all connections -------------------------------------------------------------------------- */

static void
splice_end (Splice *splice)
{
  /* The handler of the caller's cancellable uses the structure. */
  if (splice->handler != 0)
    g_cancellable_disconnect (splice->caller, splice->handler);

  g_clear_object (&splice->caller);
  g_object_unref (splice->cancellable);
  _gpu_timeline_unuse (splice->timeline);
  _gpu_timeline_unref (splice->timeline);
  /* Before the task ends, so that the program drops the last reference */
  g_object_unref (splice->memory);
  _gpu_task_wait_end (splice->wait, splice->error);
  g_clear_error (&splice->error);
  g_mutex_clear (&splice->lock);
  g_free (splice);
}

/* The first failure ends the other parts. Takes ownership of @error. */
static void
part_end (Part   *part,
          GError *error)
{
  Splice *splice = part->splice;

  if (error != NULL)
    {
      g_prefix_error (&error, "%s: connection %u, byte %" G_GSIZE_FORMAT " of the memory: ",
                      function, part->index, part->offset + part->done);
      g_mutex_lock (&splice->lock);

      if (splice->error == NULL)
        splice->error = g_steal_pointer (&error);

      g_mutex_unlock (&splice->lock);
      g_clear_error (&error);
      g_cancellable_cancel (splice->cancellable);
    }

  _gpu_stream_chunks_clear (&part->chunks);
  g_object_unref (part->connection);
  g_free (part);

  if (g_atomic_int_dec_and_test (&splice->n_running))
    splice_end (splice);
}

/* Returns whether a mapping of the memory costs no copy. The connection then uses the memory
 * itself. On CUDA, a mapping of device memory is a copy. */
static gboolean
is_mapped_in_place (const Splice *splice)
{
  GpuNativeDevice *device = splice->timeline->device;
  const GpuTransferOps *ops = splice->timeline->context->backend->transfer;

  return splice->memory->has_host_data
         || ((device->capabilities & GPU_CAPABILITIES_HOST_MEMORY) != 0
             && ops != NULL && !ops->needs_page_locked);
}

/* Maps the part, and waits for the mapping. */
static GpuMapping *
map_part (Part    *part,
          GError **error)
{
  Splice *splice = part->splice;
  const GpuMapFlags flags = splice->send ? GPU_MAP_FLAGS_READ : GPU_MAP_FLAGS_WRITE;
  g_auto (GpuHostWait) wait = { NULL };
  g_autoptr (GpuMapping) mapping = NULL;

  _gpu_host_wait_begin (&wait, splice->timeline);
  mapping = _gpu_timeline_map (splice->timeline, "map", splice->memory, flags, part->offset,
                               part->size, error);

  return mapping != NULL && _gpu_host_wait_block (&wait, splice->cancellable, error)
         ? g_steal_pointer (&mapping) : NULL;
}

/* Waits until the driver has the received bytes: the program may use untracked memory without the
 * order of the stream. If the unmap fails, none of the bytes count. */
static void
unmap_part (Part        *part,
            GpuMapping  *mapping,
            GError     **error)
{
  Splice *splice = part->splice;
  GpuPending pending = { NULL };

  if (_gpu_mapping_unmap (mapping, &pending, error)
      && _gpu_pending_wait_until (&pending, splice->timeline, splice->cancellable, error))
    return;

  if (!splice->send)
    part->done = 0;
  g_prefix_error (error, "unmap: ");
}

/* After an error, the last reference unmaps the memory in the order of the stream. */
static void
transfer_mapped (Part    *part,
                 GError **error)
{
  GCancellable *cancellable = part->splice->cancellable;
  g_autoptr (GpuMapping) mapping = map_part (part, error);
  guint8 *data;

  if (mapping == NULL)
    return;

  data = gpu_mapping_get_data (mapping);

  if (part->splice->send
      ? !g_output_stream_write_all (g_io_stream_get_output_stream (part->connection), data,
                                    part->size, &part->done, cancellable, error)
      : !g_input_stream_read_all (g_io_stream_get_input_stream (part->connection), data,
                                  part->size, &part->done, cancellable, error))
    return;

  if (part->done < part->size)
    set_closed (part, error);
  else
    unmap_part (part, mapping, error);
}

static void
transfer_chunks (Part    *part,
                 GError **error)
{
  Splice *splice = part->splice;

  if (!_gpu_stream_chunks_open (&part->chunks, splice->memory, splice->timeline, part->offset,
                                part->size, error))
    return;

  if (splice->send)
    send_part (part, error);
  else
    receive_part (part, error);
}

static void
part_run (gpointer data)
{
  Part *part = data;
  GError *error = NULL;

  (is_mapped_in_place (part->splice) ? transfer_mapped : transfer_chunks) (part, &error);
  part_end (part, error);
}

static void
on_cancelled (GCancellable *caller G_GNUC_UNUSED,
              gpointer      data)
{
  Splice *splice = data;

  g_cancellable_cancel (splice->cancellable);
}

static Splice *
splice_new (GTask        *task,
            GpuMemory    *memory,
            GpuTimeline  *timeline,
            gboolean      send,
            GCancellable *caller)
{
  Splice *splice = g_new0 (Splice, 1);

  splice->memory = g_object_ref (memory);
  splice->timeline = _gpu_timeline_ref (timeline);
  _gpu_timeline_use (timeline);
  splice->send = send;
  splice->cancellable = g_cancellable_new ();
  splice->wait = _gpu_task_wait_new (task, NULL, NULL, NULL);
  splice->n_running = 1;
  g_mutex_init (&splice->lock);

  if (caller != NULL)
    {
      splice->caller = g_object_ref (caller);
      splice->handler = g_cancellable_connect (caller, G_CALLBACK (on_cancelled), splice, NULL);
    }

  return splice;
}

/* Starts a thread for each part. The calling thread counts as a part, so that the structure exists
 * until all threads have been started. */
static void
splice_start (Splice     *splice,
              gsize       offset,
              gsize       size,
              GIOStream **connections,
              guint       n_connections)
{
  static GpuWorkers workers = { .name = "gpumem-splice" };
  gsize part_size = (size - 1) / n_connections + 1;

  for (guint i = 0; i < n_connections && part_size * i < size; i++)
    {
      Part *part = g_new0 (Part, 1);
      GError *error = NULL;

      part->splice = splice;
      part->connection = g_object_ref (connections[i]);
      part->index = i;
      part->offset = offset + part_size * i;
      part->size = MIN (part_size, size - part_size * i);
      g_atomic_int_inc (&splice->n_running);

      if (!_gpu_workers_push (&workers, G_MAXUINT, part_run, part, &error))
        part_end (part, error);
    }

  if (g_atomic_int_dec_and_test (&splice->n_running))
    splice_end (splice);
}

static gboolean
check (GpuMemory    *memory,
       GpuTimeline  *timeline,
       gsize         offset,
       gsize         size,
       gboolean      send,
       guint         n_connections,
       GError      **error)
{
  if (!_gpu_stream_chunks_check_range (memory, timeline, offset, size, !send, function, error))
    return FALSE;

  if (n_connections > 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: there is no connection: pass at least one", function);

  return FALSE;
}

/**
 * gpu_memory_splice_async:
 * @memory: linear memory
 * @stream: (nullable): the stream to copy on, %NULL for the default stream
 * @offset: offset of the range in @memory, in bytes
 * @size: the size of the range; 0 does nothing
 * @send: %TRUE to send the range, %FALSE to receive it
 * @connections: (array length=n_connections): open connections
 * @n_connections: the number of connections, at least 1
 * @cancellable: (nullable): a #GCancellable that ends the transfer, or %NULL
 * @callback: (scope async) (nullable): called in the thread-default main context of the calling
 *   thread
 * @user_data: data for @callback
 *
 * Sends a range of @memory through several connections, or receives it, without blocking the
 * caller. Each connection transfers one contiguous part: the parts have @size / @n_connections
 * bytes, rounded up, in the order of @connections. The last parts may be shorter or empty. The peer
 * must use the same division. Several TCP connections use more of a fast link than one.
 *
 * A thread of the library for each connection copies chunks of at most 512 KiB through page-locked
 * memory of at most 2 MiB (OpenCL: clEnqueueCopyBuffer; CUDA: cuMemcpyHtoDAsync,
 * cuMemcpyDtoHAsync). If the host can access @memory, as with #GpuHostMemory, the host back end and
 * OpenCL devices that use the memory of the host, the thread maps its part instead, and passes that
 * memory to the connection (OpenCL: clEnqueueMapBuffer). The copies and mappings are operations of
 * @stream after the work that is submitted to it before the call. When the transfer succeeds, they
 * have completed, and the memory is unmapped. Until the callback, do not use the connections or
 * change the range; if the range is received, do not read it. While a part is mapped, work that may
 * write it fails with %GPU_ERROR_BUSY, such as a kernel that gets the whole memory as an argument.
 * The connections stay open, and a connection may only occur once. Holds references to @memory and
 * to the connections.
 *
 * The first failure ends the whole transfer: the connections are then at unknown positions and
 * should be closed. The error names the connection and the offset in @memory of the first byte that
 * it did not transfer. To send a byte means to pass it to the connection, not that the peer has
 * received it.
 *
 * gpu_memory_splice_finish() fails with the error of the connection in the domain %G_IO_ERROR;
 * %G_IO_ERROR_PARTIAL_INPUT if the peer closes a connection early; %G_IO_ERROR_CANCELLED;
 * %GPU_ERROR_INVALID_ARGUMENT if the range exceeds the memory, the flags of the memory deny the
 * access by the host, @stream belongs to another context or there is no connection;
 * %GPU_ERROR_RELEASED; %GPU_ERROR_OUT_OF_HOST_MEMORY; or the error of a copy.
 *
 * Since: 0.1
 */
void
gpu_memory_splice_async (GpuMemory            *memory,
                         GpuStream            *stream,
                         gsize                 offset,
                         gsize                 size,
                         gboolean              send,
                         GIOStream           **connections,
                         guint                 n_connections,
                         GCancellable         *cancellable,
                         GAsyncReadyCallback   callback,
                         gpointer              user_data)
{
  g_auto (GpuHostWait) wait = { NULL };
  g_autoptr (GTask) task = NULL;
  GError *error = NULL;

  g_return_if_fail (GPU_IS_MEMORY (memory));
  g_return_if_fail (n_connections == 0 || connections != NULL);

  for (guint i = 0; i < n_connections; i++)
    g_return_if_fail (G_IS_IO_STREAM (connections[i]));

  task = _gpu_memory_begin_task (memory, stream, function, gpu_memory_splice_async, NULL, callback,
                                 user_data, &wait, &error);

  if (wait.timeline != NULL && _gpu_error_check_cancelled (cancellable, function, &error)
      && check (memory, wait.timeline, offset, size, send, n_connections, &error) && size > 0)
    splice_start (splice_new (task, memory, wait.timeline, send, cancellable), offset, size,
                  connections, n_connections);
  else
    _gpu_memory_end_task (task, &wait, NULL, NULL, error);
}

/**
 * gpu_memory_splice_finish:
 * @memory: a #GpuMemory
 * @result: the #GAsyncResult passed to the callback
 * @error: return location for an error
 *
 * Finishes gpu_memory_splice_async().
 *
 * Returns: %TRUE if all connections have transferred their parts, otherwise %FALSE with an error;
 *   see gpu_memory_splice_async()
 *
 * Since: 0.1
 */
gboolean
gpu_memory_splice_finish (GpuMemory     *memory,
                          GAsyncResult  *result,
                          GError       **error)
{
  g_return_val_if_fail (g_task_is_valid (result, memory), FALSE);

  return _gpu_error_propagate_boolean (result, function, error);
}

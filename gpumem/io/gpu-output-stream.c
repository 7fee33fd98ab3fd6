/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/base/gpu-workers-private.h"
#include "gpumem/io/gpu-output-stream.h"
#include "gpumem/io/gpu-stream-chunks-private.h"

/**
 * SECTION:gpu-output-stream
 * @title: GpuOutputStream
 * @short_description: memory as a GOutputStream
 * @see_also: #GpuInputStream, #GpuFile
 */

/**
 * GpuOutputStream:
 *
 * A #GOutputStream that writes a range of memory, for example with the data of a socket, or of a
 * #GConverterInputStream that decompresses.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GOutputStream) output = gpu_output_stream_new (GPU_MEMORY (buffer), NULL, 0, size,
 *                                                           &error);
 * g_autoptr (GFile) file = g_file_new_for_path ("buffer.bin");
 * g_autoptr (GFileInputStream) input = g_file_read (file, NULL, &error);
 *
 * g_output_stream_splice (output, G_INPUT_STREAM (input), G_OUTPUT_STREAM_SPLICE_CLOSE_TARGET,
 *                         NULL, &error);
 * ]|
 *
 * The stream collects the written bytes in page-locked memory. Whenever it has 512 KiB, it submits
 * a copy of them to a #GpuStream, while the program writes the next bytes. g_output_stream_flush()
 * and g_output_stream_close() submit the remaining bytes and wait until the memory has all bytes.
 * Use the memory after one of them. An error of a copy is reported by a later write, or by these
 * functions.
 *
 * The asynchronous functions of #GOutputStream never block the main loop, and never occupy the few
 * threads that GIO has for all asynchronous calls of a program. A write that does not fill the
 * current 512 KiB copies its bytes in the calling thread. A thread of the library executes any
 * other write, a flush or a close of bytes that are not in the memory yet, and a splice, whose
 * source it reads with blocking functions. Each pending call has a thread, and fails with
 * %GPU_ERROR_OUT_OF_HOST_MEMORY if none can be started; a close then loses the bytes that are not
 * submitted. g_output_stream_writev_async() may write the first vector only. The callback is always
 * called in the main context of the caller, after the function has returned. Other streams of GIO,
 * such as #GConverterOutputStream, call the blocking functions of this stream in threads of GIO.
 *
 * #GpuOutputStream implements #GSeekable; positions are relative to the start of the range. A write
 * at the end of the range fails with %G_IO_ERROR_NO_SPACE. Only one thread at a time may use a
 * stream.
 *
 * As with any #GOutputStream, dropping the last reference closes an open stream. That submits the
 * remaining bytes, but does not wait for them, and reports no error. So to use the memory without a
 * stream of the device, or to get errors, close the stream first.
 *
 * Since: 0.1
 */
struct _GpuOutputStream
{
  GOutputStream   parent_instance;
  GpuStreamChunks chunks;
  guint           place;            /* the place of the bytes that are not submitted */
  gsize           begin;            /* of these bytes, within the range */
  gsize           filled;           /* number of these bytes */
  gboolean        is_dropped;       /* the last reference closes the stream */
};

static void gpu_output_stream_seekable_iface_init (GSeekableIface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (GpuOutputStream, gpu_output_stream, G_TYPE_OUTPUT_STREAM,
                               G_IMPLEMENT_INTERFACE (G_TYPE_SEEKABLE,
                                                      gpu_output_stream_seekable_iface_init))

static const char function[] = "gpu_output_stream_new";

static void
gpu_output_stream_dispose (GObject *object)
{
  GPU_OUTPUT_STREAM (object)->is_dropped = TRUE;
  G_OBJECT_CLASS (gpu_output_stream_parent_class)->dispose (object);
}

static void
gpu_output_stream_finalize (GObject *object)
{
  _gpu_stream_chunks_clear (&GPU_OUTPUT_STREAM (object)->chunks);
  G_OBJECT_CLASS (gpu_output_stream_parent_class)->finalize (object);
}

/* On failure, the bytes remain to be submitted. */
static gboolean
submit (GpuOutputStream  *output,
        GError          **error)
{
  if (output->filled == 0)
    return TRUE;

  if (!_gpu_stream_chunks_copy (&output->chunks, output->place, output->begin, output->filled, TRUE,
                                "gpu_output_stream", error))
    return FALSE;

  output->place = (output->place + 1) % GPU_STREAM_CHUNKS;
  output->filled = 0;

  return TRUE;
}

/* Makes place for the next bytes. The bytes that were in the place before may still be copied. */
static gboolean
begin_write (GpuOutputStream  *output,
             GCancellable     *cancellable,
             GError          **error)
{
  GpuStreamChunks *chunks = &output->chunks;

  if (output->filled == chunks->chunk_size && !submit (output, error))
    return FALSE;

  if (output->filled == 0
      && !_gpu_stream_chunks_wait (chunks, output->place, cancellable, "gpu_output_stream", error))
    return FALSE;

  if (output->filled == 0)
    output->begin = chunks->position;

  return TRUE;
}

static guint8 *
get_free (GpuOutputStream *output,
          gsize           *size)
{
  GpuStreamChunks *chunks = &output->chunks;

  *size = MIN (chunks->chunk_size - output->filled, chunks->size - chunks->position);

  return _gpu_stream_chunks_get_data (chunks, output->place) + output->filled;
}

/* If the submission fails, the next call reports the error. */
static void
end_write (GpuOutputStream *output,
           gsize            size)
{
  output->filled += size;
  output->chunks.position += size;

  if (output->filled == output->chunks.chunk_size)
    submit (output, NULL);
}

static void
set_no_space (GpuOutputStream  *output,
              GError          **error)
{
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_NO_SPACE,
               "the stream has no place behind its %" G_GSIZE_FORMAT " bytes", output->chunks.size);
}

static gssize
gpu_output_stream_write (GOutputStream  *base,
                         const void     *buffer,
                         gsize           count,
                         GCancellable   *cancellable,
                         GError        **error)
{
  GpuOutputStream *output = GPU_OUTPUT_STREAM (base);
  GpuStreamChunks *chunks = &output->chunks;
  guint8 *data;
  gsize size;

  if (!_gpu_stream_chunks_check (chunks, cancellable, function, error)
      || (output->filled == chunks->chunk_size && !submit (output, error)))
    return -1;

  if (chunks->position == chunks->size)
    {
      set_no_space (output, error);
      return -1;
    }

  if (!begin_write (output, cancellable, error))
    return -1;

  data = get_free (output, &size);
  count = MIN (count, size);
  memcpy (data, buffer, count);
  end_write (output, count);

  return (gssize) count;
}

/* Reads the next bytes of @source into the current place, or finds the end of @source if the range
 * is full. Returns their number, 0 at the end of @source, or -1. */
static gssize
read_source (GpuOutputStream  *output,
             GInputStream     *source,
             GCancellable     *cancellable,
             GError          **error)
{
  GpuStreamChunks *chunks = &output->chunks;
  guint8 *data;
  guint8 next;
  gsize size;
  gssize n;

  if (!_gpu_stream_chunks_check (chunks, cancellable, function, error))
    return -1;

  if (chunks->position == chunks->size)
    {
      n = g_input_stream_read (source, &next, 1, cancellable, error);

      if (n > 0)
        set_no_space (output, error);

      return n > 0 ? -1 : n;
    }

  if (!begin_write (output, cancellable, error))
    return -1;

  data = get_free (output, &size);
  n = g_input_stream_read (source, data, size, cancellable, error);

  if (n > 0)
    end_write (output, n);

  return n;
}

/* Reads directly into page-locked memory. The default would copy blocks of 8 KiB, each in another
 * thread if the source is a socket. The splice of the parent class closes this stream, because its
 * close function is private while an operation is pending. */
static gssize
gpu_output_stream_splice (GOutputStream             *base,
                          GInputStream              *source,
                          GOutputStreamSpliceFlags   flags,
                          GCancellable              *cancellable,
                          GError                   **error)
{
  GpuOutputStream *output = GPU_OUTPUT_STREAM (base);
  GError **close_error = error;
  gssize total = 0;
  gssize n;

  do
    {
      gsize begin = output->chunks.position;

      n = read_source (output, source, cancellable, error);
      total += output->chunks.position - begin;
    }
  while (n > 0);

  if (n < 0)
    close_error = NULL;

  if (flags & G_OUTPUT_STREAM_SPLICE_CLOSE_SOURCE)
    g_input_stream_close (source, cancellable, NULL);

  if (flags & G_OUTPUT_STREAM_SPLICE_CLOSE_TARGET)
    {
      g_autoptr (GInputStream) empty = g_memory_input_stream_new ();
      GOutputStreamClass *parent = G_OUTPUT_STREAM_CLASS (gpu_output_stream_parent_class);

      if (parent->splice (base, empty, G_OUTPUT_STREAM_SPLICE_CLOSE_TARGET, cancellable,
                          close_error) < 0)
        n = -1;
    }

  return n < 0 ? -1 : total;
}

typedef struct
{
  GInputStream             *source;
  GOutputStreamSpliceFlags  flags;
} Splice;

static void
splice_free (gpointer data)
{
  Splice *splice = data;

  g_object_unref (splice->source);
  g_free (splice);
}

static gssize
splice_in_thread (gpointer       base,
                  gpointer       data,
                  GCancellable  *cancellable,
                  GError       **error)
{
  Splice *splice = data;

  return gpu_output_stream_splice (base, splice->source, splice->flags, cancellable, error);
}

/* Not g_task_run_in_thread(): a splice waits for the peer of its source, and the few threads of GIO
 * would delay all other asynchronous calls of the process, including those of the peer. */
static void
gpu_output_stream_splice_async (GOutputStream             *base,
                                GInputStream              *source,
                                GOutputStreamSpliceFlags   flags,
                                int                        priority,
                                GCancellable              *cancellable,
                                GAsyncReadyCallback        callback,
                                gpointer                   user_data)
{
  g_autoptr (GTask) task = g_task_new (base, cancellable, callback, user_data);
  Splice *splice = g_new (Splice, 1);

  splice->source = g_object_ref (source);
  splice->flags = flags;
  g_task_set_source_tag (task, gpu_output_stream_splice_async);
  g_task_set_priority (task, priority);
  g_task_set_task_data (task, splice, splice_free);
  _gpu_workers_run_task (task, FALSE, splice_in_thread);
}

/* Waits for all copies, even if one fails, and reports the first error. Submits the bytes also if
 * @cancellable is cancelled; the next flush reports failures. Does not wait if the last
 * reference closes the stream: the pending work may need the thread that drops the reference, or a
 * lock that it holds, such as the GIL of Python. Copies in flight hold all that they use. */
static gboolean
gpu_output_stream_flush (GOutputStream  *base,
                         GCancellable   *cancellable,
                         GError        **error)
{
  GpuOutputStream *output = GPU_OUTPUT_STREAM (base);
  GError *first = NULL;

  if (!_gpu_stream_chunks_check (&output->chunks, NULL, function, error))
    return FALSE;

  if (output->is_dropped)
    return submit (output, error);

  submit (output, &first);

  for (guint i = 0; i < GPU_STREAM_CHUNKS; i++)
    {
      GError **next = first == NULL ? &first : NULL;

      if (g_cancellable_set_error_if_cancelled (cancellable, next))
        break;

      _gpu_stream_chunks_wait (&output->chunks, (output->place + i) % GPU_STREAM_CHUNKS,
                               cancellable, "gpu_output_stream", next);
    }

  if (first != NULL)
    g_propagate_error (error, first);

  return first == NULL;
}

/* --- asynchronous functions ------------------------------------------------------------------- */

/* Returns whether a write of @count bytes neither waits nor submits a copy. */
static gboolean
can_write_at_once (const GpuOutputStream *output,
                   gsize                  count)
{
  const GpuStreamChunks *chunks = &output->chunks;

  if (output->filled == chunks->chunk_size)
    return FALSE;

  return chunks->position == chunks->size
         || (count < chunks->chunk_size - output->filled
             && (output->filled > 0 || chunks->pending[output->place].last == 0));
}

static gssize
run_write (gpointer       base,
           gpointer       data,
           GCancellable  *cancellable,
           GError       **error)
{
  const GpuStreamBytes *bytes = data;

  return gpu_output_stream_write (base, bytes->data, bytes->size, cancellable, error);
}

static void
gpu_output_stream_write_async (GOutputStream       *base,
                               const void          *buffer,
                               gsize                count,
                               int                  priority,
                               GCancellable        *cancellable,
                               GAsyncReadyCallback  callback,
                               gpointer             user_data)
{
  g_autoptr (GTask) task = _gpu_stream_chunks_new_task (base, gpu_output_stream_write_async, buffer,
                                                        count, priority, cancellable, callback,
                                                        user_data);

  _gpu_stream_chunks_run_task (task, can_write_at_once (GPU_OUTPUT_STREAM (base), count),
                               FALSE, run_write);
}

/* A short write: writes the first vector that has bytes. The function of the parent class would
 * write all of them in a thread of GIO. */
static void
gpu_output_stream_writev_async (GOutputStream       *base,
                                const GOutputVector *vectors,
                                gsize                n_vectors,
                                int                  priority,
                                GCancellable        *cancellable,
                                GAsyncReadyCallback  callback,
                                gpointer             user_data)
{
  GOutputVector vector = { "", 0 };

  for (gsize i = 0; i < n_vectors && vector.size == 0; i++)
    {
      if (vectors[i].size > 0)
        vector = vectors[i];
    }

  g_output_stream_write_async (base, vector.buffer, vector.size, priority, cancellable, callback,
                               user_data);
}

static gboolean
gpu_output_stream_writev_finish (GOutputStream  *base,
                                 GAsyncResult   *result,
                                 gsize          *bytes_written,
                                 GError        **error)
{
  gssize n = g_output_stream_write_finish (base, result, error);

  if (bytes_written != NULL)
    *bytes_written = (gsize) MAX (n, 0);

  return n >= 0;
}

/* Returns whether all bytes are in the memory, and no failure is to be reported. */
static gboolean
can_flush_at_once (const GpuOutputStream *output)
{
  for (guint i = 0; i < GPU_STREAM_CHUNKS; i++)
    {
      if (output->chunks.pending[i].last != 0)
        return FALSE;
    }

  return output->filled == 0;
}

static gssize
run_flush (gpointer       base,
           gpointer       data G_GNUC_UNUSED,
           GCancellable  *cancellable,
           GError       **error)
{
  return gpu_output_stream_flush (base, cancellable, error) ? TRUE : -1;
}

static void
gpu_output_stream_flush_async (GOutputStream       *base,
                               int                  priority,
                               GCancellable        *cancellable,
                               GAsyncReadyCallback  callback,
                               gpointer             user_data)
{
  g_autoptr (GTask) task = _gpu_stream_chunks_new_task (base, gpu_output_stream_flush_async, NULL,
                                                        0, priority, cancellable, callback,
                                                        user_data);

  _gpu_stream_chunks_run_task (task, can_flush_at_once (GPU_OUTPUT_STREAM (base)), TRUE,
                               run_flush);
}

/* GIO flushes the stream before, and returns the error of that. */
static void
gpu_output_stream_close_async (GOutputStream       *base,
                               int                  priority,
                               GCancellable        *cancellable,
                               GAsyncReadyCallback  callback,
                               gpointer             user_data)
{
  g_autoptr (GTask) task = _gpu_stream_chunks_new_task (base, gpu_output_stream_close_async, NULL,
                                                        0, priority, cancellable, callback,
                                                        user_data);

  g_task_return_boolean (task, TRUE);
}

static void
gpu_output_stream_class_init (GpuOutputStreamClass *class)
{
  GOutputStreamClass *stream_class = G_OUTPUT_STREAM_CLASS (class);

  G_OBJECT_CLASS (class)->dispose = gpu_output_stream_dispose;
  G_OBJECT_CLASS (class)->finalize = gpu_output_stream_finalize;
  stream_class->write_fn = gpu_output_stream_write;
  stream_class->flush = gpu_output_stream_flush;
  stream_class->splice = gpu_output_stream_splice;
  stream_class->write_async = gpu_output_stream_write_async;
  stream_class->writev_async = gpu_output_stream_writev_async;
  stream_class->writev_finish = gpu_output_stream_writev_finish;
  stream_class->flush_async = gpu_output_stream_flush_async;
  stream_class->close_async = gpu_output_stream_close_async;
  stream_class->splice_async = gpu_output_stream_splice_async;
}

static void
gpu_output_stream_init (GpuOutputStream *output G_GNUC_UNUSED)
{
}

static goffset
gpu_output_stream_tell (GSeekable *seekable)
{
  return (goffset) GPU_OUTPUT_STREAM (seekable)->chunks.position;
}

static gboolean
gpu_output_stream_seek (GSeekable     *seekable,
                        goffset        offset,
                        GSeekType      type,
                        GCancellable  *cancellable,
                        GError       **error)
{
  GpuOutputStream *output = GPU_OUTPUT_STREAM (seekable);
  gboolean success;

  if (!_gpu_stream_chunks_check (&output->chunks, cancellable, function, error)
      || !g_output_stream_set_pending (G_OUTPUT_STREAM (seekable), error))
    return FALSE;

  success = submit (output, error)
            && _gpu_stream_chunks_seek (&output->chunks, offset, type, &output->chunks.position,
                                        error);
  g_output_stream_clear_pending (G_OUTPUT_STREAM (seekable));

  return success;
}

static void
gpu_output_stream_seekable_iface_init (GSeekableIface *iface)
{
  _gpu_stream_chunks_init_seekable (iface);
  iface->tell = gpu_output_stream_tell;
  iface->seek = gpu_output_stream_seek;
}

/**
 * gpu_output_stream_new: (constructor)
 * @memory: linear memory
 * @stream: (nullable): the stream to copy on, %NULL for the default stream
 * @offset: offset of the range in @memory, in bytes
 * @size: the number of bytes that can be written
 * @error: return location for an error
 *
 * Creates a stream that writes a range of @memory (OpenCL: clEnqueueCopyBuffer; CUDA:
 * cuMemcpyHtoDAsync). Allocates page-locked memory for four chunks, at most 2 MiB. The stream holds
 * a reference to @memory.
 *
 * Returns: (transfer full) (type Gpu.OutputStream): the stream, or %NULL with
 *   %GPU_ERROR_INVALID_ARGUMENT if the range exceeds the memory, the flags of the memory deny
 *   writes by the host or @stream belongs to another context; %GPU_ERROR_RELEASED; or
 *   %GPU_ERROR_OUT_OF_HOST_MEMORY
 *
 * Since: 0.1
 */
GOutputStream *
gpu_output_stream_new (GpuMemory  *memory,
                       GpuStream  *stream,
                       gsize       offset,
                       gsize       size,
                       GError    **error)
{
  g_autoptr (GpuOutputStream) output = NULL;

  g_return_val_if_fail (GPU_IS_MEMORY (memory), NULL);

  output = g_object_new (GPU_TYPE_OUTPUT_STREAM, NULL);

  if (!_gpu_stream_chunks_init (&output->chunks, memory, stream, offset, size, TRUE, function,
                                error))
    return NULL;

  return G_OUTPUT_STREAM (g_steal_pointer (&output));
}

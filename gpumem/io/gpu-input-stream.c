/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/io/gpu-input-stream.h"
#include "gpumem/io/gpu-stream-chunks-private.h"

/**
 * SECTION:gpu-input-stream
 * @title: GpuInputStream
 * @short_description: memory as a GInputStream
 * @see_also: #GpuOutputStream, #GpuFile
 */

/**
 * GpuInputStream:
 *
 * A #GInputStream that reads a range of memory, for example to send it through a socket, or to
 * compress it with a #GConverterInputStream.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GInputStream) input = gpu_input_stream_new (GPU_MEMORY (buffer), NULL, 0, size,
 *                                                        &error);
 * g_autoptr (GFile) file = g_file_new_for_path ("buffer.bin");
 * g_autoptr (GFileOutputStream) output = g_file_replace (file, NULL, FALSE, G_FILE_CREATE_NONE,
 *                                                        NULL, &error);
 *
 * g_output_stream_splice (G_OUTPUT_STREAM (output), input, G_OUTPUT_STREAM_SPLICE_CLOSE_TARGET,
 *                         NULL, &error);
 * ]|
 *
 * The stream copies the next chunks of at most 512 KiB to page-locked memory while the program uses
 * the current chunk. These copies are operations of a #GpuStream, after the work that is submitted
 * to it before the first read. Do not change the range while it is read: the program may get the
 * earlier or the later bytes. After a change, call g_seekable_seek(), also with the current
 * position: the next read then copies the chunk again, after the work that is submitted before it.
 * So after each seek, even a read of a few bytes copies up to 512 KiB; g_input_stream_skip() uses
 * the chunks that are already copied.
 *
 * To send memory fast, read blocks of 512 KiB, because the splice of a socket reads 8 KiB at once;
 * or use gpu_memory_splice_async(). g_output_stream_splice_async() to a file also copies 8 KiB at
 * once, and writes them in another thread: use gpu_memory_write_file_async().
 *
 * The asynchronous functions of #GInputStream never block the main loop, and never occupy the few
 * threads that GIO has for all asynchronous calls of a program. If the next bytes are already in
 * page-locked memory, a read copies them in the calling thread, at most 512 KiB. Otherwise, a
 * thread of the library submits the copies and waits for them: each pending read has a thread, and
 * fails with %GPU_ERROR_OUT_OF_HOST_MEMORY if none can be started. g_input_stream_skip_async() and
 * g_input_stream_close_async() need no thread. The callback is always called in the main context of
 * the caller, after the function has returned. Other streams of GIO, such as
 * #GConverterInputStream, call the blocking functions of this stream in threads of GIO.
 *
 * #GpuInputStream implements #GSeekable; positions are relative to the start of the range. Only one
 * thread at a time may use a stream. If a copy fails, the read fails with its error and does not
 * change the position, so that the program may read again.
 *
 * Since: 0.1
 */
struct _GpuInputStream
{
  GInputStream    parent_instance;
  GpuStreamChunks chunks;
  gsize           loaded[GPU_STREAM_CHUNKS]; /* number of the chunk in each place plus 1, or 0 */
  gboolean        has_sought;       /* the program has read no chunk to its end since a seek */
};

static void gpu_input_stream_seekable_iface_init (GSeekableIface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (GpuInputStream, gpu_input_stream, G_TYPE_INPUT_STREAM,
                               G_IMPLEMENT_INTERFACE (G_TYPE_SEEKABLE,
                                                      gpu_input_stream_seekable_iface_init))

static const char function[] = "gpu_input_stream_new";

static void
gpu_input_stream_finalize (GObject *object)
{
  _gpu_stream_chunks_clear (&GPU_INPUT_STREAM (object)->chunks);
  G_OBJECT_CLASS (gpu_input_stream_parent_class)->finalize (object);
}

static gsize
get_chunk_size (GpuStreamChunks *chunks,
                gsize            chunk)
{
  return MIN (chunks->chunk_size, chunks->size - chunk * chunks->chunk_size);
}

static gboolean
load (GpuInputStream  *input,
      gsize            chunk,
      GError         **error)
{
  GpuStreamChunks *chunks = &input->chunks;
  guint place = chunk % GPU_STREAM_CHUNKS;

  if (input->loaded[place] == chunk + 1)
    return TRUE;

  input->loaded[place] = 0;

  if (!_gpu_stream_chunks_copy (chunks, place, chunk * chunks->chunk_size,
                                get_chunk_size (chunks, chunk), FALSE, "gpu_input_stream", error))
    return FALSE;

  input->loaded[place] = chunk + 1;

  return TRUE;
}

/* Returns the end of the chunks that a read of @chunk loads: also the next chunks, but only @chunk
 * after a seek, because the program may read a few bytes and seek again. */
static gsize
get_load_end (const GpuInputStream *input,
              gsize                 chunk)
{
  const GpuStreamChunks *chunks = &input->chunks;
  gsize n_chunks = (chunks->size - 1) / chunks->chunk_size + 1;

  return input->has_sought ? chunk + 1 : MIN (chunk + GPU_STREAM_CHUNKS, n_chunks);
}

/* Loads @chunk and waits for it. Begins to load the next chunks; if that fails, the read of such a
 * chunk tries again. */
static gboolean
load_and_wait (GpuInputStream  *input,
               gsize            chunk,
               GCancellable    *cancellable,
               GError         **error)
{
  GpuStreamChunks *chunks = &input->chunks;
  guint place = chunk % GPU_STREAM_CHUNKS;
  gsize end = get_load_end (input, chunk);

  if (!load (input, chunk, error))
    return FALSE;

  for (gsize next = chunk + 1; next < end; next++)
    {
      if (!load (input, next, NULL))
        break;
    }

  if (_gpu_stream_chunks_wait (chunks, place, cancellable, "gpu_input_stream", error))
    return TRUE;

  if (!g_cancellable_is_cancelled (cancellable))
    input->loaded[place] = 0;

  return FALSE;
}

static gssize
gpu_input_stream_read (GInputStream  *base,
                       void          *buffer,
                       gsize          count,
                       GCancellable  *cancellable,
                       GError       **error)
{
  GpuInputStream *input = GPU_INPUT_STREAM (base);
  GpuStreamChunks *chunks = &input->chunks;
  gsize chunk;
  gsize begin;

  if (!_gpu_stream_chunks_check (chunks, cancellable, function, error))
    return -1;

  if (chunks->position == chunks->size)
    return 0;

  chunk = chunks->position / chunks->chunk_size;
  begin = chunks->position % chunks->chunk_size;

  if (!load_and_wait (input, chunk, cancellable, error))
    return -1;

  count = MIN (count, get_chunk_size (chunks, chunk) - begin);
  memcpy (buffer, _gpu_stream_chunks_get_data (chunks, chunk % GPU_STREAM_CHUNKS) + begin, count);
  chunks->position += count;

  if (chunks->position % chunks->chunk_size == 0)
    input->has_sought = FALSE;

  return (gssize) count;
}

static gssize
gpu_input_stream_skip (GInputStream  *base,
                       gsize          count,
                       GCancellable  *cancellable,
                       GError       **error)
{
  GpuStreamChunks *chunks = &GPU_INPUT_STREAM (base)->chunks;

  if (!_gpu_stream_chunks_check (chunks, cancellable, function, error))
    return -1;

  count = MIN (count, chunks->size - chunks->position);
  chunks->position += count;

  return (gssize) count;
}

/* --- asynchronous functions ------------------------------------------------------------------- */

/* Returns whether the next read neither waits nor submits copies. */
static gboolean
can_read_at_once (const GpuInputStream *input)
{
  const GpuStreamChunks *chunks = &input->chunks;
  gsize chunk, end;

  if (chunks->position == chunks->size)
    return TRUE;

  chunk = chunks->position / chunks->chunk_size;
  end = get_load_end (input, chunk);

  for (gsize next = chunk; next < end; next++)
    {
      if (input->loaded[next % GPU_STREAM_CHUNKS] != next + 1)
        return FALSE;
    }

  return chunks->pending[chunk % GPU_STREAM_CHUNKS].last == 0;
}

static gssize
run_read (gpointer       base,
          gpointer       data,
          GCancellable  *cancellable,
          GError       **error)
{
  const GpuStreamBytes *bytes = data;

  return gpu_input_stream_read (base, bytes->data, bytes->size, cancellable, error);
}

static gssize
run_skip (gpointer       base,
          gpointer       data,
          GCancellable  *cancellable,
          GError       **error)
{
  return gpu_input_stream_skip (base, ((const GpuStreamBytes *) data)->size, cancellable, error);
}

static void
gpu_input_stream_read_async (GInputStream        *base,
                             void                *buffer,
                             gsize                count,
                             int                  priority,
                             GCancellable        *cancellable,
                             GAsyncReadyCallback  callback,
                             gpointer             user_data)
{
  g_autoptr (GTask) task = _gpu_stream_chunks_new_task (base, gpu_input_stream_read_async, buffer,
                                                        count, priority, cancellable, callback,
                                                        user_data);

  _gpu_stream_chunks_run_task (task, can_read_at_once (GPU_INPUT_STREAM (base)), FALSE,
                               run_read);
}

/* A skip copies nothing. */
static void
gpu_input_stream_skip_async (GInputStream        *base,
                             gsize                count,
                             int                  priority,
                             GCancellable        *cancellable,
                             GAsyncReadyCallback  callback,
                             gpointer             user_data)
{
  g_autoptr (GTask) task = _gpu_stream_chunks_new_task (base, gpu_input_stream_skip_async, NULL,
                                                        count, priority, cancellable, callback,
                                                        user_data);

  _gpu_stream_chunks_run_task (task, TRUE, FALSE, run_skip);
}

static void
gpu_input_stream_close_async (GInputStream        *base,
                              int                  priority,
                              GCancellable        *cancellable,
                              GAsyncReadyCallback  callback,
                              gpointer             user_data)
{
  g_autoptr (GTask) task = _gpu_stream_chunks_new_task (base, gpu_input_stream_close_async, NULL, 0,
                                                        priority, cancellable, callback,
                                                        user_data);

  g_task_return_boolean (task, TRUE);
}

static void
gpu_input_stream_class_init (GpuInputStreamClass *class)
{
  GInputStreamClass *stream_class = G_INPUT_STREAM_CLASS (class);

  G_OBJECT_CLASS (class)->finalize = gpu_input_stream_finalize;
  stream_class->read_fn = gpu_input_stream_read;
  stream_class->skip = gpu_input_stream_skip;
  stream_class->read_async = gpu_input_stream_read_async;
  stream_class->skip_async = gpu_input_stream_skip_async;
  stream_class->close_async = gpu_input_stream_close_async;
}

static void
gpu_input_stream_init (GpuInputStream *input G_GNUC_UNUSED)
{
}

static goffset
gpu_input_stream_tell (GSeekable *seekable)
{
  return (goffset) GPU_INPUT_STREAM (seekable)->chunks.position;
}

/* Forgets all chunks, also those that are in flight: the memory may have changed. */
static gboolean
gpu_input_stream_seek (GSeekable     *seekable,
                       goffset        offset,
                       GSeekType      type,
                       GCancellable  *cancellable,
                       GError       **error)
{
  GpuInputStream *input = GPU_INPUT_STREAM (seekable);
  GpuStreamChunks *chunks = &input->chunks;
  gboolean success;

  if (!_gpu_stream_chunks_check (chunks, cancellable, function, error)
      || !g_input_stream_set_pending (G_INPUT_STREAM (seekable), error))
    return FALSE;

  success = _gpu_stream_chunks_seek (chunks, offset, type, &chunks->position, error);

  if (success)
    {
      memset (input->loaded, 0, sizeof input->loaded);
      input->has_sought = TRUE;
    }

  g_input_stream_clear_pending (G_INPUT_STREAM (seekable));

  return success;
}

static void
gpu_input_stream_seekable_iface_init (GSeekableIface *iface)
{
  _gpu_stream_chunks_init_seekable (iface);
  iface->tell = gpu_input_stream_tell;
  iface->seek = gpu_input_stream_seek;
}

/**
 * gpu_input_stream_new: (constructor)
 * @memory: linear memory
 * @stream: (nullable): the stream to copy on, %NULL for the default stream
 * @offset: offset of the range in @memory, in bytes
 * @size: the number of bytes to read
 * @error: return location for an error
 *
 * Creates a stream that reads a range of @memory. Allocates page-locked memory for four chunks, at
 * most 2 MiB. The stream holds a reference to @memory. Does not read anything before the first read
 * of the stream (OpenCL: clEnqueueCopyBuffer; CUDA: cuMemcpyDtoHAsync).
 *
 * Returns: (transfer full) (type Gpu.InputStream): the stream, or %NULL with
 *   %GPU_ERROR_INVALID_ARGUMENT if the range exceeds the memory, the flags of the memory deny reads
 *   by the host or @stream belongs to another context; %GPU_ERROR_RELEASED; or
 *   %GPU_ERROR_OUT_OF_HOST_MEMORY
 *
 * Since: 0.1
 */
GInputStream *
gpu_input_stream_new (GpuMemory  *memory,
                      GpuStream  *stream,
                      gsize       offset,
                      gsize       size,
                      GError    **error)
{
  g_autoptr (GpuInputStream) input = NULL;

  g_return_val_if_fail (GPU_IS_MEMORY (memory), NULL);

  input = g_object_new (GPU_TYPE_INPUT_STREAM, NULL);

  if (!_gpu_stream_chunks_init (&input->chunks, memory, stream, offset, size, FALSE, function,
                                error))
    return NULL;

  return G_INPUT_STREAM (g_steal_pointer (&input));
}

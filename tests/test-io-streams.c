/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* GpuInputStream and GpuOutputStream: every byte arrives, at any position and with any sizes of the
 * calls, through sockets and converters. The main loop does not block, and errors are reported. */
#include "config.h"

#include <gio/gio.h>
#include <sys/socket.h>

#include "test-io-util.h"

#define SIZE ((gsize) 3 * 1024 * 1024 + 5)
#define MARGIN 7

static void
check_range (GpuBuffer *buffer, GBytes *bytes)
{
  g_autoptr (GBytes) whole = test_content (buffer);
  const guint8 *data = g_bytes_get_data (whole, NULL);
  gsize size = g_bytes_get_size (bytes);

  test_assert_value (data, 9, MARGIN);
  test_assert_mem (data + MARGIN, g_bytes_get_data (bytes, NULL), size);
  test_assert_value (data + MARGIN + size, 9, MARGIN);
}

/* --- data ------------------------------------------------------------------------------------- */

static void
check_copy (TestFixture *fixture, GpuStream *stream, gsize size, gsize step)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (size);
  g_autoptr (GpuBuffer) from = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) to = test_buffer_filled (fixture, size + 2 * MARGIN, 9);
  g_autoptr (GInputStream) input = test_input_new (from, stream, 0, size);
  g_autoptr (GOutputStream) output = test_output_new (to, stream, MARGIN, size);
  g_autofree guint8 *data = g_malloc (step);
  gsize done = 0;
  gssize n;

  while ((n = g_input_stream_read (input, data, step, NULL, &error)) > 0)
    {
      test_assert_mem (data, (const guint8 *) g_bytes_get_data (bytes, NULL) + done, (gsize) n);
      test_assert_ok (g_output_stream_write_all (output, data, (gsize) n, NULL, NULL, &error),
                      error);
      done += (gsize) n;
      g_assert_cmpint (g_seekable_tell (G_SEEKABLE (input)), ==, done);
      g_assert_cmpint (g_seekable_tell (G_SEEKABLE (output)), ==, done);
    }

  g_assert_no_error (error);
  g_assert_cmpuint (done, ==, size);
  test_assert_ok (g_output_stream_close (output, NULL, &error), error);
  check_range (to, bytes);
}

static void
io_data (TestFixture *fixture)
{
  const gsize steps[] = { 1000, 65536, 524288, 4 * 1024 * 1024 };

  for (guint i = 0; i < G_N_ELEMENTS (steps); i++)
    check_copy (fixture, NULL, SIZE, steps[i]);
  check_copy (fixture, fixture->stream, 1, 1);
  check_copy (fixture, fixture->stream, 524288 * 4, 1024);
}

static void
io_out_of_order (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
  check_copy (fixture, stream, SIZE, 100000);
}

static void
io_host_memory (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostMemory) memory = gpu_host_memory_new (fixture->context,
                                                          GPU_HOST_MEMORY_FLAGS_NONE, SIZE, &error);
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GOutputStream) output = NULL;
  g_autoptr (GInputStream) input = NULL;
  g_autoptr (GBytes) back = NULL;

  g_assert_no_error (error);
  output = test_output_new (memory, NULL, 0, SIZE);
  test_assert_ok (g_output_stream_write_all (output, g_bytes_get_data (bytes, NULL), SIZE, NULL,
                                             NULL, &error), error);
  test_assert_ok (g_output_stream_flush (output, NULL, &error), error);
  test_assert_mem (gpu_host_memory_get_data (memory), g_bytes_get_data (bytes, NULL), SIZE);
  input = test_input_new (memory, NULL, 5, 100);
  back = g_input_stream_read_bytes (input, 1000, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_bytes_get_size (back), ==, 100);
  test_assert_mem (g_bytes_get_data (back, NULL),
                   (const guint8 *) g_bytes_get_data (bytes, NULL) + 5, 100);
}

/* Random positions, against the same calls on memory of GIO. */
static void
io_seek (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, bytes);
  g_autoptr (GInputStream) input = test_input_new (buffer, NULL, 0, SIZE);
  g_autofree guint8 *copy = g_memdup2 (g_bytes_get_data (bytes, NULL), SIZE);
  g_autoptr (GBytes) expected = g_bytes_new_static (copy, SIZE);
  g_autoptr (GOutputStream) output = test_output_new (buffer, NULL, 0, SIZE);
  guint8 data[3000];

  for (guint i = 0; i < 300; i++)
    {
      gsize at = (gsize) g_test_rand_int_range (0, (gint32) SIZE);
      gsize n = (gsize) g_test_rand_int_range (1, sizeof data);
      gsize done;

      n = MIN (n, SIZE - at);

      test_assert_ok (g_seekable_seek (G_SEEKABLE (output), (goffset) at - (goffset) SIZE,
                                       G_SEEK_END, NULL, &error), error);
      memset (data, (int) i, n);
      memset (copy + at, (int) i, n);
      test_assert_ok (g_output_stream_write_all (output, data, n, NULL, NULL, &error), error);

      if (i % 3 != 0)
        continue;

      at = (gsize) g_test_rand_int_range (0, (gint32) SIZE);
      g_clear_object (&input);
      test_assert_ok (g_output_stream_flush (output, NULL, &error), error);
      input = test_input_new (buffer, NULL, 0, SIZE);
      test_assert_ok (g_seekable_seek (G_SEEKABLE (input), (goffset) at, G_SEEK_SET, NULL, &error),
                      error);
      test_assert_ok (g_input_stream_read_all (input, data, sizeof data, &done, NULL, &error),
                      error);
      g_assert_cmpuint (done, ==, MIN (sizeof data, SIZE - at));
      test_assert_mem (data, copy + at, done);
    }

  test_assert_ok (g_output_stream_flush (output, NULL, &error), error);
  test_assert_content (buffer, expected);
}

static void
io_seek_back (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, bytes);
  g_autoptr (GInputStream) input = test_input_new (buffer, NULL, 0, SIZE);
  guint8 data[2000];

  for (guint i = 0; i < 200; i++)
    {
      goffset at = g_test_rand_int_range (0, (gint32) (SIZE - sizeof data));

      test_assert_ok (g_seekable_seek (G_SEEKABLE (input),
                                       at - g_seekable_tell (G_SEEKABLE (input)), G_SEEK_CUR, NULL,
                                       &error), error);
      test_assert_ok (g_input_stream_read_all (input, data, sizeof data, NULL, NULL, &error),
                      error);
      test_assert_mem (data, (const guint8 *) g_bytes_get_data (bytes, NULL) + at, sizeof data);
      g_assert_cmpint (g_input_stream_skip (input, 100, NULL, &error), >=, 0);
      g_assert_no_error (error);
    }
}

/* After a seek, a read returns the bytes that the memory has now. */
static void
io_seek_reads_again (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 0);
  g_autoptr (GInputStream) input = test_input_new (buffer, NULL, 0, SIZE);
  const struct { goffset offset; GSeekType type; } seeks[] = {
    { 0, G_SEEK_CUR }, { 0, G_SEEK_SET }, { 2000000, G_SEEK_SET }, { -1000, G_SEEK_END },
    { -10, G_SEEK_CUR }
  };
  guint8 data[1000];

  g_assert_cmpint (g_input_stream_read (input, data, sizeof data, NULL, &error), ==, sizeof data);

  for (guint8 i = 0; i < G_N_ELEMENTS (seeks); i++)
    {
      const guint8 value = i + 1;
      gsize done;

      test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1,
                                       &error), error);
      test_assert_ok (g_seekable_seek (G_SEEKABLE (input), seeks[i].offset, seeks[i].type, NULL,
                                       &error), error);
      test_assert_ok (g_input_stream_read_all (input, data, sizeof data, &done, NULL, &error),
                      error);
      g_assert_cmpuint (done, >=, 10);
      test_assert_value (data, value, done);
    }
}

/* --- order ------------------------------------------------------------------------------------ */

/* Fails if the result arrives within 30 ms. */
static void
check_waits (GAsyncResult **result)
{
  for (gint64 end = g_get_monotonic_time () + 30 * 1000; g_get_monotonic_time () < end; )
    {
      g_main_context_iteration (NULL, FALSE);
      g_assert_null (*result);
    }
}

/* While earlier work of the stream runs, a read waits. */
static void
io_read_waits (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, bytes);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GInputStream) input = test_input_new (buffer, stream, 0, SIZE);
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (TestHold) hold = NULL;
  guint8 data[1000] = { 0 };

  if (!test_can_hold (fixture))
    return;

  hold = test_hold (stream);
  g_input_stream_read_all_async (input, data, sizeof data, G_PRIORITY_DEFAULT, NULL,
                                 test_take_result, &result);
  check_waits (&result);
  test_hold_release (hold);
  test_assert_ok (g_input_stream_read_all_finish (input, test_await (&result), NULL, &error),
                  error);
  test_assert_mem (data, g_bytes_get_data (bytes, NULL), sizeof data);
}

/* While earlier work of the stream runs, a write waits if all places are in use. */
static void
io_write_waits (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE + 2 * MARGIN, 9);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GOutputStream) output = test_output_new (buffer, stream, MARGIN, SIZE);
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (TestHold) hold = NULL;

  if (!test_can_hold (fixture))
    return;

  hold = test_hold (stream);
  g_output_stream_write_all_async (output, g_bytes_get_data (bytes, NULL), SIZE, G_PRIORITY_DEFAULT,
                                   NULL, test_take_result, &result);
  check_waits (&result);
  test_hold_release (hold);
  test_assert_ok (g_output_stream_write_all_finish (output, test_await (&result), NULL, &error),
                  error);
  test_assert_ok (g_output_stream_flush (output, NULL, &error), error);
  check_range (buffer, bytes);
}

/* --- other streams of GIO --------------------------------------------------------------------- */

static void
io_converter (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_value_bytes (SIZE, 77);
  g_autoptr (GpuBuffer) from = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) to = test_buffer_filled (fixture, SIZE + 2 * MARGIN, 9);
  g_autoptr (GInputStream) input = test_input_new (from, NULL, 0, SIZE);
  g_autoptr (GOutputStream) output = test_output_new (to, NULL, MARGIN, SIZE);
  g_autoptr (GZlibCompressor) compressor = g_zlib_compressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP, 1);
  g_autoptr (GZlibDecompressor) expander = g_zlib_decompressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP);
  g_autoptr (GInputStream) small = g_converter_input_stream_new (input, G_CONVERTER (compressor));
  g_autoptr (GInputStream) large = g_converter_input_stream_new (small, G_CONVERTER (expander));

  g_assert_cmpint (g_output_stream_splice (output, large,
                                           G_OUTPUT_STREAM_SPLICE_CLOSE_SOURCE
                                           | G_OUTPUT_STREAM_SPLICE_CLOSE_TARGET, NULL, &error),
                   ==, SIZE);
  g_assert_no_error (error);
  check_range (to, bytes);
}

static GIOStream *
connection_for (int fd)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GSocket) socket = g_socket_new_from_fd (fd, &error);

  g_assert_no_error (error);

  return G_IO_STREAM (g_socket_connection_factory_create_connection (socket));
}

static gboolean
on_tick (gpointer data)
{
  guint *n_ticks = data;

  (*n_ticks)++;

  return G_SOURCE_CONTINUE;
}

/* Memory through a socket, asynchronously in both directions, while the main loop runs a timer. */
static void
io_socket (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) from = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) to = test_buffer_filled (fixture, SIZE + 2 * MARGIN, 9);
  g_autoptr (GInputStream) input = test_input_new (from, NULL, 0, SIZE);
  g_autoptr (GOutputStream) output = test_output_new (to, NULL, MARGIN, SIZE);
  g_autoptr (GIOStream) left = NULL;
  g_autoptr (GIOStream) right = NULL;
  g_autoptr (GAsyncResult) sent = NULL;
  g_autoptr (GAsyncResult) received = NULL;
  GOutputStream *to_socket;
  GInputStream *from_socket;
  guint n_ticks = 0;
  guint timer;
  int fds[2];

  g_assert_cmpint (socketpair (AF_UNIX, SOCK_STREAM, 0, fds), ==, 0);
  left = connection_for (fds[0]);
  right = connection_for (fds[1]);
  to_socket = g_io_stream_get_output_stream (left);
  from_socket = g_io_stream_get_input_stream (right);
  timer = g_timeout_add (1, on_tick, &n_ticks);
  g_output_stream_splice_async (to_socket, input, G_OUTPUT_STREAM_SPLICE_CLOSE_SOURCE
                                | G_OUTPUT_STREAM_SPLICE_CLOSE_TARGET, G_PRIORITY_DEFAULT, NULL,
                                test_take_result, &sent);
  g_output_stream_splice_async (output, from_socket, G_OUTPUT_STREAM_SPLICE_CLOSE_TARGET,
                                G_PRIORITY_DEFAULT, NULL, test_take_result, &received);
  g_assert_cmpint (g_output_stream_splice_finish (to_socket, test_await (&sent), &error), ==, SIZE);
  g_assert_no_error (error);
  test_assert_ok (g_io_stream_close (left, NULL, &error), error);
  g_assert_cmpint (g_output_stream_splice_finish (output, test_await (&received), &error), ==,
                   SIZE);
  g_assert_no_error (error);
  g_source_remove (timer);
  g_assert_cmpuint (n_ticks, >, 0);
  check_range (to, bytes);
}

typedef struct
{
  GIOStream     *left;
  GIOStream     *right;
  GOutputStream *output;
  GAsyncResult  *result;
} Receiver;

static void
receiver_begin (Receiver *receiver, GpuBuffer *buffer)
{
  int fds[2];

  g_assert_cmpint (socketpair (AF_UNIX, SOCK_STREAM, 0, fds), ==, 0);
  receiver->left = connection_for (fds[0]);
  receiver->right = connection_for (fds[1]);
  receiver->output = test_output_new (buffer, NULL, 0, 1);
  g_output_stream_splice_async (receiver->output, g_io_stream_get_input_stream (receiver->right),
                                G_OUTPUT_STREAM_SPLICE_CLOSE_TARGET, G_PRIORITY_DEFAULT, NULL,
                                test_take_result, &receiver->result);
}

static void
receiver_end (Receiver *receiver)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (g_io_stream_close (receiver->left, NULL, &error), error);
  g_assert_cmpint (g_output_stream_splice_finish (receiver->output, test_await (&receiver->result),
                                                  &error), ==, 0);
  g_assert_no_error (error);
  g_object_unref (receiver->result);
  g_object_unref (receiver->output);
  g_object_unref (receiver->left);
  g_object_unref (receiver->right);
}

/* Splices that wait for their peers do not delay other asynchronous calls, although GIO has few
 * threads and starts more of them slowly: one for each splice after more than a minute. */
static void
io_many_splices (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 1, 9);
  g_autoptr (GFile) folder = g_file_new_for_path (g_get_tmp_dir ());
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GFileInfo) info = NULL;
  Receiver receivers[120] = { { NULL } };
  gint64 begin;

  for (guint i = 0; i < G_N_ELEMENTS (receivers); i++)
    receiver_begin (&receivers[i], buffer);

  begin = g_get_monotonic_time ();
  g_file_query_info_async (folder, G_FILE_ATTRIBUTE_STANDARD_TYPE, G_FILE_QUERY_INFO_NONE,
                           G_PRIORITY_DEFAULT, NULL, test_take_result, &result);
  info = g_file_query_info_finish (folder, test_await (&result), &error);
  g_assert_no_error (error);
  g_assert_cmpint (g_get_monotonic_time () - begin, <, TEST_DEADLINE * G_TIME_SPAN_SECOND);

  for (guint i = 0; i < G_N_ELEMENTS (receivers); i++)
    receiver_end (&receivers[i]);
}

/* --- errors ----------------------------------------------------------------------------------- */

static void
io_full (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 100, 9);
  g_autoptr (GOutputStream) output = test_output_new (buffer, NULL, 10, 20);
  g_autoptr (GBytes) content = NULL;
  guint8 data[30] = { 0 };
  gsize done;

  g_assert_false (g_output_stream_write_all (output, data, 30, &done, NULL, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_NO_SPACE, "20");
  g_assert_cmpuint (done, ==, 20);
  test_assert_ok (g_output_stream_close (output, NULL, &error), error);
  content = test_content (buffer);
  test_assert_value (g_bytes_get_data (content, NULL), 9, 10);
  test_assert_value ((const guint8 *) g_bytes_get_data (content, NULL) + 10, 0, 20);
  test_assert_value ((const guint8 *) g_bytes_get_data (content, NULL) + 30, 9, 70);
}

/* A splice fills the range, fails if the source has more bytes, and closes both streams as its
 * flags say, also after a failure. */
static void
io_splice (TestFixture *fixture)
{
  const GOutputStreamSpliceFlags close = G_OUTPUT_STREAM_SPLICE_CLOSE_SOURCE
                                         | G_OUTPUT_STREAM_SPLICE_CLOSE_TARGET;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);

  for (gsize lack = 0; lack < 2; lack++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) expected = g_bytes_new_from_bytes (bytes, 0, SIZE - lack);
      g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE - lack + 2 * MARGIN, 9);
      g_autoptr (GOutputStream) output = test_output_new (buffer, NULL, MARGIN, SIZE - lack);
      g_autoptr (GInputStream) source = g_memory_input_stream_new_from_bytes (bytes);
      gssize n = g_output_stream_splice (output, source, close, NULL, &error);

      g_assert_cmpint (n, ==, lack == 0 ? (gssize) SIZE : -1);

      if (lack == 1)
        test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_NO_SPACE, "no place");

      g_assert_no_error (error);
      g_assert_true (g_output_stream_is_closed (output));
      g_assert_true (g_input_stream_is_closed (source));
      check_range (buffer, expected);
    }
}

/* The position does not change, and the memory is not used, after the release of the memory. */
static void
io_released (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 9);
  g_autoptr (GInputStream) input = test_input_new (buffer, NULL, 0, SIZE);
  g_autoptr (GOutputStream) output = test_output_new (buffer, NULL, 0, SIZE);
  guint8 data[10] = { 0 };

  g_assert_cmpint (g_output_stream_write (output, data, 10, NULL, &error), ==, 10);
  gpu_memory_release (GPU_MEMORY (buffer));
  g_assert_cmpint (g_input_stream_read (input, data, 10, NULL, &error), ==, -1);
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_input_stream");
  g_assert_cmpint (g_seekable_tell (G_SEEKABLE (input)), ==, 0);
  g_assert_false (g_output_stream_flush (output, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_output_stream");
  g_assert_false (g_output_stream_close (output, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_output_stream");
}

static void
io_failed (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 9);
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GInputStream) input = NULL;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  guint8 data[10];

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  gate = test_gate (fixture, stream);
  input = test_input_new (buffer, stream, 0, SIZE);
  g_input_stream_read_async (input, data, 10, G_PRIORITY_DEFAULT, cancellable, test_take_result,
                             &result);
  g_cancellable_cancel (cancellable);
  g_assert_cmpint (g_input_stream_read_finish (input, test_await (&result), &error), ==, -1);
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  test_assert_ok (gpu_event_fail (gate, "broken on purpose", &error), error);
  g_assert_cmpint (g_input_stream_read (input, data, 10, NULL, &error), ==, -1);
  g_assert_nonnull (strstr (error->message, "broken on purpose"));
  g_clear_error (&error);
  g_assert_cmpint (g_seekable_tell (G_SEEKABLE (input)), ==, 0);
  gpu_stream_synchronize (stream, NULL, NULL);
  g_assert_cmpint (g_input_stream_read (input, data, 10, NULL, &error), ==, 10);
  g_assert_no_error (error);
  test_assert_value (data, 9, 10);
}

static void
fail_work (TestFixture *fixture, GpuStream *stream, GpuBuffer *buffer, const char *message)
{
  static const guint8 value = 1;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuEvent) gate = test_gate (fixture, stream);

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, 16, &value, 1, &error), error);
  test_assert_ok (gpu_event_fail (gate, message, &error), error);
  g_assert_false (gpu_stream_synchronize (stream, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, message);
}

/* A flush reports the failure of a chunk although another wait has reported it, and thousands of
 * failures have followed. */
static void
io_failed_early (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL, other = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GOutputStream) output = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  g_autofree guint8 *data = g_malloc0 (SIZE);
  gsize n;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  buffer = test_buffer_filled (fixture, SIZE, 9);
  other = test_buffer_filled (fixture, 16, 9);
  stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  output = test_output_new (buffer, stream, 0, SIZE);
  gate = test_gate (fixture, stream);
  g_assert_true (g_output_stream_write_all (output, data, SIZE / 2, &n, NULL, &error));
  test_assert_ok (gpu_event_fail (gate, "the first failure", &error), error);
  g_assert_false (gpu_stream_synchronize (stream, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "the first failure");

  for (guint i = 0; i < 4000; i++)
    fail_work (fixture, stream, other, "a later failure");
  g_assert_false (g_output_stream_flush (output, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "gpu_output_stream", "the first failure");
}

static void
io_invalid (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 100, 9);
  g_autoptr (GpuBuffer) hidden = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_HOST_NO_ACCESS,
                                                 100, &error);
  g_autoptr (GInputStream) input = test_input_new (buffer, NULL, 0, 100);
  g_autoptr (GInputStream) empty = test_input_new (buffer, NULL, 100, 0);
  g_autoptr (GInputStream) none = g_object_new (GPU_TYPE_INPUT_STREAM, NULL);
  GSeekable *seekable = G_SEEKABLE (input);
  guint8 byte;

  g_assert_no_error (error);
  g_assert_null (gpu_input_stream_new (GPU_MEMORY (buffer), NULL, 1, 100, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_input_stream_new", "100");
  g_assert_null (gpu_output_stream_new (GPU_MEMORY (buffer), NULL, 101, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_output_stream_new", "101");
  g_assert_null (gpu_input_stream_new (GPU_MEMORY (hidden), NULL, 0, 100, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_input_stream_new");
  g_assert_cmpint (g_input_stream_read (none, &byte, 1, NULL, &error), ==, -1);
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_input_stream_new");
  g_assert_cmpint (g_input_stream_read (empty, &byte, 1, NULL, &error), ==, 0);
  g_assert_no_error (error);
  g_assert_false (g_seekable_seek (seekable, 101, G_SEEK_SET, NULL, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT, "101", "100");
  g_assert_false (g_seekable_seek (seekable, -101, G_SEEK_END, NULL, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT, "-101");
  g_assert_false (g_seekable_seek (seekable, G_MININT64, G_SEEK_CUR, NULL, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT);
  test_assert_ok (g_seekable_seek (seekable, -100, G_SEEK_END, NULL, &error), error);
  g_assert_false (g_seekable_can_truncate (seekable));
  g_assert_false (g_seekable_truncate (seekable, 0, NULL, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED, "GpuInputStream");
}

static void
check_cancelled (gssize result, GError **error)
{
  g_assert_cmpint (result, <=, 0);
  g_assert_error (*error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (error);
}

/* Every call fails if it is cancelled before, also if it has nothing to wait for. No bytes are
 * lost. */
static void
io_cancelled (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 100, 9);
  g_autoptr (GInputStream) input = test_input_new (buffer, NULL, 0, 100);
  g_autoptr (GOutputStream) output = test_output_new (buffer, NULL, 0, 100);
  g_autoptr (GInputStream) source = g_memory_input_stream_new_from_data ("more", 4, NULL);
  g_autoptr (GCancellable) cancelled = g_cancellable_new ();
  guint8 data[100] = { 1, 2, 3 };

  g_cancellable_cancel (cancelled);
  g_assert_cmpint (g_output_stream_write (output, data, 3, NULL, &error), ==, 3);
  check_cancelled (g_output_stream_write (output, data, 3, cancelled, &error), &error);
  check_cancelled (g_output_stream_splice (output, source, G_OUTPUT_STREAM_SPLICE_NONE, cancelled,
                                           &error), &error);
  g_assert_cmpint (g_seekable_tell (G_SEEKABLE (output)), ==, 3);
  check_cancelled (g_output_stream_flush (output, cancelled, &error), &error);
  test_assert_ok (g_output_stream_flush (output, NULL, &error), error);
  check_cancelled (g_output_stream_flush (output, cancelled, &error), &error);
  g_assert_cmpint (g_input_stream_read (input, data, 2, NULL, &error), ==, 2);
  g_assert_cmpint (data[1], ==, 2);
  check_cancelled (g_input_stream_read (input, data, 2, cancelled, &error), &error);
  check_cancelled (g_input_stream_skip (input, 2, cancelled, &error), &error);
  g_assert_cmpint (g_seekable_tell (G_SEEKABLE (input)), ==, 2);
  g_assert_cmpint (g_input_stream_read (input, data, 2, NULL, &error), ==, 2);
  g_assert_cmpint (data[0], ==, 3);
  g_assert_cmpint (data[1], ==, 9);
}

static void
io_other_context (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 100, 9);
  g_autoptr (GpuContext) context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE,
                                                    &error);
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, &error);

  g_assert_no_error (error);
  g_assert_null (gpu_input_stream_new (GPU_MEMORY (buffer), stream, 0, 100, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_input_stream_new", "100 bytes",
                         "different contexts");
  g_assert_null (gpu_output_stream_new (GPU_MEMORY (buffer), stream, 0, 100, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_output_stream_new", "100 bytes",
                         "different contexts");
}

/* Streams are dropped while copies are in flight. */
static void
io_unref (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *data = g_malloc0 (SIZE);

  for (guint i = 0; i < 20; i++)
    {
      GpuBuffer *buffer = test_buffer_filled (fixture, SIZE, 9);
      GInputStream *input = test_input_new (buffer, NULL, 0, SIZE);
      GOutputStream *output = test_output_new (buffer, NULL, 0, SIZE);

      g_object_unref (buffer);
      g_assert_cmpint (g_input_stream_read (input, data, 1, NULL, &error), ==, 1);
      test_assert_ok (g_output_stream_write_all (output, data, 2 * 1024 * 1024, NULL, NULL, &error),
                      error);
      g_object_unref (input);
      g_object_unref (output);
    }
}

typedef struct
{
  TestHold *hold;
  gint      is_done;                /* atomic */
} Releaser;

/* Lets the test fail instead of hanging. */
static gpointer
release_late (gpointer data)
{
  Releaser *releaser = data;

  for (guint i = 0; i < TEST_DEADLINE * 100 && !g_atomic_int_get (&releaser->is_done); i++)
    g_usleep (10 * 1000);
  test_hold_release (releaser->hold);

  return NULL;
}

/* The last reference to an output stream closes it, without a wait for pending work. */
static void
io_dropped_held (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE + 2 * MARGIN, 9);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  GOutputStream *output = test_output_new (buffer, stream, MARGIN, SIZE);
  g_autoptr (TestHold) hold = NULL;
  g_autoptr (GpuEvent) event = NULL;
  Releaser releaser = { NULL, FALSE };
  GThread *thread;

  if (!test_can_hold (fixture))
    {
      g_object_unref (output);
      return;
    }

  /* All but the last 100 bytes are in the memory before the stream is held. */
  test_assert_ok (g_output_stream_write_all (output, g_bytes_get_data (bytes, NULL), SIZE - 100,
                                             NULL, NULL, &error), error);
  test_assert_ok (g_output_stream_flush (output, NULL, &error), error);
  releaser.hold = hold = test_hold (stream);
  thread = g_thread_new ("test-release", release_late, &releaser);
  test_assert_ok (g_output_stream_write_all (output, (const guint8 *) g_bytes_get_data (bytes, NULL)
                                             + SIZE - 100, 100, NULL, NULL, &error), error);
  g_object_unref (output);
  event = test_record (stream);
  g_assert_cmpint (gpu_event_query (event, NULL), ==, GPU_EVENT_STATUS_PENDING);
  g_atomic_int_set (&releaser.is_done, TRUE);
  g_thread_join (thread);
  check_range (buffer, bytes);
}

/* The last reference to an output stream closes it. */
static void
io_dropped (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 100 + 2 * MARGIN, 9);
  g_autoptr (GBytes) bytes = test_random_bytes (100);
  GOutputStream *output = test_output_new (buffer, NULL, MARGIN, 100);
  g_autoptr (GError) error = NULL;

  test_assert_ok (g_output_stream_write_all (output, g_bytes_get_data (bytes, NULL), 100, NULL,
                                             NULL, &error), error);
  g_object_unref (output);
  check_range (buffer, bytes);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);

  test_add ("data", io_data);
  test_add ("out-of-order", io_out_of_order);
  test_add ("host-memory", io_host_memory);
  test_add ("seek", io_seek);
  test_add ("seek-back", io_seek_back);
  test_add ("seek-reads-again", io_seek_reads_again);
  test_add ("read-waits", io_read_waits);
  test_add ("write-waits", io_write_waits);
  test_add ("converter", io_converter);
  test_add ("socket", io_socket);
  test_add ("many-splices", io_many_splices);
  test_add ("full", io_full);
  test_add ("splice", io_splice);
  test_add ("released", io_released);
  test_add ("failed", io_failed);
  test_add ("failed-early", io_failed_early);
  test_add ("invalid", io_invalid);
  test_add ("cancelled", io_cancelled);
  test_add ("other-context", io_other_context);
  test_add ("unref", io_unref);
  test_add ("dropped", io_dropped);
  test_add ("dropped-held", io_dropped_held);

  return test_run ();
}

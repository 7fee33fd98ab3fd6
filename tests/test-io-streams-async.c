/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The asynchronous functions of GpuInputStream and GpuOutputStream: they never use the threads of
 * GIO, complete in the main context of the caller, and report errors and positions as the blocking
 * functions do. */
#include "config.h"

#include <string.h>

#include <gio/gio.h>

#include "test-io-util.h"

#define SIZE ((gsize) 3 * 1024 * 1024 + 5)
#define CHUNK ((gsize) 512 * 1024)
#define N_TASKS 150

/* More streams than GIO has threads. CUDA accepts about 1,000 pending commands in a stream. */
#define N_STREAMS 40

/* Fails if the result arrives within 30 ms. */
static void
check_waits (GAsyncResult **result)
{
  g_autoptr (GMainContext) context = g_main_context_ref_thread_default ();

  for (gint64 end = g_get_monotonic_time () + 30 * 1000; g_get_monotonic_time () < end; )
    {
      g_main_context_iteration (context, FALSE);
      g_assert_null (*result);
    }
}

/* Checks the result of a read, and frees it. */
static void
check_read (GInputStream *input, GAsyncResult **result, gssize size)
{
  g_autoptr (GError) error = NULL;
  gssize n = g_input_stream_read_finish (input, test_await (result), &error);

  g_assert_no_error (error);
  g_assert_cmpint (n, ==, size);
  g_clear_object (result);
}

static void
check_write (GOutputStream *output, GAsyncResult **result, gssize size)
{
  g_autoptr (GError) error = NULL;
  gssize n = g_output_stream_write_finish (output, test_await (result), &error);

  g_assert_no_error (error);
  g_assert_cmpint (n, ==, size);
  g_clear_object (result);
}

static void
check_flush (GOutputStream *output)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GAsyncResult) result = NULL;

  g_output_stream_flush_async (output, G_PRIORITY_DEFAULT, NULL, test_take_result, &result);
  test_assert_ok (g_output_stream_flush_finish (output, test_await (&result), &error), error);
}

static void
check_close (GOutputStream *output)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GAsyncResult) result = NULL;

  g_output_stream_close_async (output, G_PRIORITY_DEFAULT, NULL, test_take_result, &result);
  test_assert_ok (g_output_stream_close_finish (output, test_await (&result), &error), error);
  g_assert_true (g_output_stream_is_closed (output));
}

/* --- the threads of GIO ----------------------------------------------------------------------- */

/* More tasks than GIO starts threads within TEST_DEADLINE. They wait for the test. */
typedef struct
{
  GMutex        lock;
  GCond         cond;
  gboolean      is_over;
  GAsyncResult *results[N_TASKS];
} Crowd;

static void
wait_for_test (GTask        *task,
               gpointer      source G_GNUC_UNUSED,
               gpointer      data,
               GCancellable *cancellable G_GNUC_UNUSED)
{
  Crowd *crowd = data;

  g_mutex_lock (&crowd->lock);
  while (!crowd->is_over)
    g_cond_wait (&crowd->cond, &crowd->lock);
  g_mutex_unlock (&crowd->lock);
  g_task_return_boolean (task, TRUE);
}

static void
crowd_begin (Crowd *crowd)
{
  g_mutex_init (&crowd->lock);
  g_cond_init (&crowd->cond);

  for (guint i = 0; i < N_TASKS; i++)
    {
      g_autoptr (GTask) task = g_task_new (NULL, NULL, test_take_result, &crowd->results[i]);

      g_task_set_task_data (task, crowd, NULL);
      g_task_run_in_thread (task, wait_for_test);
    }
}

static void
crowd_end (Crowd *crowd)
{
  g_mutex_lock (&crowd->lock);
  crowd->is_over = TRUE;
  g_cond_broadcast (&crowd->cond);
  g_mutex_unlock (&crowd->lock);

  for (guint i = 0; i < N_TASKS; i++)
    {
      test_await (&crowd->results[i]);
      g_object_unref (crowd->results[i]);
    }

  g_cond_clear (&crowd->cond);
  g_mutex_clear (&crowd->lock);
}

static void
copy_data (GpuBuffer *from, GpuBuffer *to, GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GInputStream) input = test_input_new (from, NULL, 0, SIZE);
  g_autoptr (GOutputStream) output = test_output_new (to, NULL, 0, SIZE);
  g_autoptr (GAsyncResult) result = NULL;
  g_autofree guint8 *data = g_malloc (SIZE);
  gsize n;

  g_input_stream_read_all_async (input, data, SIZE, G_PRIORITY_DEFAULT, NULL, test_take_result,
                                 &result);
  test_assert_ok (g_input_stream_read_all_finish (input, test_await (&result), &n, &error), error);
  g_assert_cmpuint (n, ==, SIZE);
  g_clear_object (&result);
  test_assert_mem (data, g_bytes_get_data (bytes, NULL), SIZE);
  g_input_stream_read_async (input, data, 1, G_PRIORITY_DEFAULT, NULL, test_take_result, &result);
  check_read (input, &result, 0);

  g_output_stream_write_all_async (output, data, SIZE, G_PRIORITY_DEFAULT, NULL, test_take_result,
                                   &result);
  test_assert_ok (g_output_stream_write_all_finish (output, test_await (&result), &n, &error),
                  error);
  g_assert_cmpuint (n, ==, SIZE);
  check_flush (output);
  test_assert_content (to, bytes);
  check_close (output);
}

static void
copy_vectors (GpuBuffer *to)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GOutputStream) output = test_output_new (to, NULL, 0, SIZE);
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  const guint8 *data = g_bytes_get_data (bytes, NULL);
  const gsize middle = 2 * CHUNK + 1;
  GOutputVector vectors[] = { { data, 0 }, { data, 1 }, { data + 1, middle }, { data, 0 },
                              { data + 1 + middle, SIZE - 1 - middle } };
  gsize n;

  g_output_stream_writev_async (output, vectors, 1, G_PRIORITY_DEFAULT, NULL, test_take_result,
                                &result);
  test_assert_ok (g_output_stream_writev_finish (output, test_await (&result), &n, &error), error);
  g_assert_cmpuint (n, ==, 0);
  g_clear_object (&result);
  g_output_stream_writev_all_async (output, vectors, G_N_ELEMENTS (vectors), G_PRIORITY_DEFAULT,
                                    NULL, test_take_result, &result);
  test_assert_ok (g_output_stream_writev_all_finish (output, test_await (&result), &n, &error),
                  error);
  g_assert_cmpuint (n, ==, SIZE);
  check_flush (output);
  test_assert_content (to, bytes);
}

static void
skip_and_close (GpuBuffer *from, GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GInputStream) input = test_input_new (from, NULL, 0, SIZE);
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GBytes) part = NULL;

  g_input_stream_skip_async (input, SIZE - 3, G_PRIORITY_DEFAULT, NULL, test_take_result,
                             &result);
  g_assert_cmpint (g_input_stream_skip_finish (input, test_await (&result), &error), ==,
                   SIZE - 3);
  g_assert_no_error (error);
  g_clear_object (&result);
  g_input_stream_read_bytes_async (input, 200, G_PRIORITY_DEFAULT, NULL, test_take_result,
                                   &result);
  part = g_input_stream_read_bytes_finish (input, test_await (&result), &error);
  g_assert_no_error (error);
  g_clear_object (&result);
  g_assert_cmpuint (g_bytes_get_size (part), ==, 3);
  test_assert_mem (g_bytes_get_data (part, NULL),
                   (const guint8 *) g_bytes_get_data (bytes, NULL) + SIZE - 3, 3);
  g_input_stream_close_async (input, G_PRIORITY_DEFAULT, NULL, test_take_result, &result);
  test_assert_ok (g_input_stream_close_finish (input, test_await (&result), &error), error);
  g_assert_true (g_input_stream_is_closed (input));
}

/* While all threads of GIO are in use, every function completes. */
static void
async_busy_pool (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) from = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) to = test_buffer_filled (fixture, SIZE, 9);
  Crowd crowd = { .is_over = FALSE };

  crowd_begin (&crowd);
  copy_data (from, to, bytes);
  copy_vectors (to);
  skip_and_close (from, bytes);
  crowd_end (&crowd);
}

typedef struct
{
  GInputStream  *input;
  GOutputStream *output;
  guint8         data[10];
  GAsyncResult  *read;
  GAsyncResult  *closed;
} Pair;

static void
pair_begin (Pair *pair, GpuBuffer *from, GpuBuffer *to, GpuStream *stream)
{
  g_autoptr (GError) error = NULL;

  pair->input = test_input_new (from, stream, 0, sizeof pair->data);
  pair->output = test_output_new (to, stream, 0, sizeof pair->data);
  g_input_stream_read_async (pair->input, pair->data, sizeof pair->data, G_PRIORITY_DEFAULT, NULL,
                             test_take_result, &pair->read);
  g_assert_cmpint (g_output_stream_write (pair->output, "abcdefghi", 10, NULL, &error), ==, 10);
  g_assert_no_error (error);
  g_output_stream_close_async (pair->output, G_PRIORITY_DEFAULT, NULL, test_take_result,
                               &pair->closed);
}

static void
pair_end (Pair *pair)
{
  g_autoptr (GError) error = NULL;

  check_read (pair->input, &pair->read, sizeof pair->data);
  test_assert_value (pair->data, 7, sizeof pair->data);
  test_assert_ok (g_output_stream_close_finish (pair->output, test_await (&pair->closed), &error),
                  error);
  g_object_unref (pair->closed);
  g_object_unref (pair->input);
  g_object_unref (pair->output);
}

/* Streams that wait for the device do not delay other asynchronous calls. */
static void
async_many (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) from = test_buffer_filled (fixture, 10, 7);
  g_autoptr (GpuBuffer) to = test_buffer_filled (fixture, 10, 9);
  g_autoptr (GBytes) expected = g_bytes_new_static ("abcdefghi", 10);
  g_autoptr (GFile) folder = g_file_new_for_path (g_get_tmp_dir ());
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (TestHold) hold = NULL;
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GFileInfo) info = NULL;
  g_autofree Pair *pairs = g_new0 (Pair, N_STREAMS);

  if (!test_can_hold (fixture))
    return;

  hold = test_hold (stream);

  for (guint i = 0; i < N_STREAMS; i++)
    pair_begin (&pairs[i], from, to, stream);

  g_file_query_info_async (folder, G_FILE_ATTRIBUTE_STANDARD_TYPE, G_FILE_QUERY_INFO_NONE,
                           G_PRIORITY_DEFAULT, NULL, test_take_result, &result);
  info = g_file_query_info_finish (folder, test_await (&result), &error);
  g_assert_no_error (error);

  for (guint i = 0; i < N_STREAMS; i++)
    {
      g_assert_null (pairs[i].read);
      g_assert_null (pairs[i].closed);
    }

  test_hold_release (hold);

  for (guint i = 0; i < N_STREAMS; i++)
    pair_end (&pairs[i]);

  test_assert_content (to, expected);
}

/* --- main contexts ---------------------------------------------------------------------------- */

/* Callbacks run in the main context of the caller, after the call has returned, whether the bytes
 * are there or not. */
static void
async_context (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, bytes);
  g_autoptr (GInputStream) input = test_input_new (buffer, NULL, 0, SIZE);
  g_autoptr (GOutputStream) output = test_output_new (buffer, NULL, 0, SIZE);
  g_autoptr (GMainContext) context = g_main_context_new ();
  g_autoptr (GAsyncResult) result = NULL;
  guint8 data[1000] = { 0 };

  g_main_context_push_thread_default (context);

  for (guint i = 0; i < 4; i++)
    {
      if (i % 2 == 0)
        g_input_stream_read_async (input, data, sizeof data, G_PRIORITY_DEFAULT, NULL,
                                   test_take_result, &result);
      else
        g_output_stream_write_async (output, data, sizeof data, G_PRIORITY_DEFAULT, NULL,
                                     test_take_result, &result);

      g_assert_null (result);
      g_usleep (20000);
      while (g_main_context_iteration (NULL, FALSE))
        g_assert_null (result);
      g_assert_null (result);

      if (i % 2 == 0)
        check_read (input, &result, sizeof data);
      else
        check_write (output, &result, sizeof data);

      test_assert_mem (data, (const guint8 *) g_bytes_get_data (bytes, NULL) + i / 2 * 1000, 1000);
    }

  check_close (output);
  g_main_context_pop_thread_default (context);
  test_assert_content (buffer, bytes);
}

static void
count_read (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  g_autoptr (GError) error = NULL;
  GString *order = data;

  g_assert_cmpint (g_input_stream_read_finish (G_INPUT_STREAM (source), result, &error), ==, 1);
  g_assert_no_error (error);
  g_string_append_c (order, g_object_get_data (source, "urgent") != NULL ? 'u' : 'l');
}

/* Results arrive in the order of their priorities. */
static void
async_priority (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 10, 9);
  g_autoptr (GInputStream) late = test_input_new (buffer, NULL, 0, 10);
  g_autoptr (GInputStream) urgent = test_input_new (buffer, NULL, 0, 10);
  g_autoptr (GString) order = g_string_new (NULL);
  guint8 bytes[2];

  g_object_set_data (G_OBJECT (urgent), "urgent", order);
  /* Their bytes are there afterwards. */
  g_assert_cmpint (g_input_stream_read (late, bytes, 1, NULL, &error), ==, 1);
  g_assert_cmpint (g_input_stream_read (urgent, bytes, 1, NULL, &error), ==, 1);
  g_input_stream_read_async (late, bytes, 1, G_PRIORITY_LOW, NULL, count_read, order);
  g_input_stream_read_async (urgent, bytes + 1, 1, G_PRIORITY_HIGH, NULL, count_read, order);
  g_assert_cmpstr (order->str, ==, "");
  while (order->len < 2)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpstr (order->str, ==, "ul");
}

/* --- pending operations ----------------------------------------------------------------------- */

static void
check_pending (gboolean success, GError **error)
{
  g_assert_false (success);
  g_assert_error (*error, G_IO_ERROR, G_IO_ERROR_PENDING);
  g_clear_error (error);
}

/* A pending read or flush refuses other calls. A cancellation ends it, and loses no bytes. */
static void
async_pending (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) from = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) to = test_buffer_filled (fixture, SIZE, 9);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GInputStream) input = test_input_new (from, stream, 0, SIZE);
  g_autoptr (GOutputStream) output = test_output_new (to, stream, 0, SIZE);
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GAsyncResult) read = NULL, flushed = NULL, closed = NULL;
  g_autoptr (TestHold) hold = NULL;
  g_autofree guint8 *data = g_malloc (SIZE);

  if (!test_can_hold (fixture))
    return;

  hold = test_hold (stream);
  g_assert_cmpint (g_output_stream_write (output, g_bytes_get_data (bytes, NULL), 10, NULL, &error),
                   ==, 10);
  g_input_stream_read_async (input, data, SIZE, G_PRIORITY_DEFAULT, cancellable, test_take_result,
                             &read);
  g_output_stream_flush_async (output, G_PRIORITY_DEFAULT, cancellable, test_take_result,
                               &flushed);
  check_waits (&read);
  g_assert_null (flushed);
  check_pending (g_input_stream_read (input, data, 1, NULL, &error) > 0, &error);
  check_pending (g_seekable_seek (G_SEEKABLE (input), 0, G_SEEK_SET, NULL, &error), &error);
  check_pending (g_input_stream_close (input, NULL, &error), &error);
  check_pending (g_output_stream_write (output, data, 1, NULL, &error) > 0, &error);
  check_pending (g_seekable_seek (G_SEEKABLE (output), 0, G_SEEK_SET, NULL, &error), &error);
  g_output_stream_close_async (output, G_PRIORITY_DEFAULT, NULL, test_take_result, &closed);
  check_pending (g_output_stream_close_finish (output, test_await (&closed), &error), &error);

  g_cancellable_cancel (cancellable);
  g_assert_cmpint (g_input_stream_read_finish (input, test_await (&read), &error), ==, -1);
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_false (g_output_stream_flush_finish (output, test_await (&flushed), &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&error);
  g_assert_cmpint (g_seekable_tell (G_SEEKABLE (input)), ==, 0);
  test_hold_release (hold);

  g_clear_object (&read);
  g_input_stream_read_all_async (input, data, SIZE, G_PRIORITY_DEFAULT, NULL, test_take_result,
                                 &read);
  test_assert_ok (g_input_stream_read_all_finish (input, test_await (&read), NULL, &error), error);
  test_assert_mem (data, g_bytes_get_data (bytes, NULL), SIZE);
  g_clear_object (&closed);
  g_output_stream_write_all_async (output, data + 10, SIZE - 10, G_PRIORITY_DEFAULT, NULL,
                                   test_take_result, &closed);
  test_assert_ok (g_output_stream_write_all_finish (output, test_await (&closed), NULL, &error),
                  error);
  check_close (output);
  test_assert_content (to, bytes);
}

/* Calls for a few bytes do not block the main loop while the copy of their chunk is pending. */
static void
async_chunk_waits (TestFixture *fixture)
{
  const gsize size = 4 * CHUNK;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (size + 10);
  const guint8 *data = g_bytes_get_data (bytes, NULL);
  g_autoptr (GpuBuffer) from = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) to = test_buffer_filled (fixture, size + 10, 9);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GInputStream) input = test_input_new (from, stream, 0, size);
  g_autoptr (GOutputStream) output = test_output_new (to, stream, 0, size + 10);
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GAsyncResult) cancelled = NULL, read = NULL, written = NULL;
  g_autoptr (TestHold) hold = NULL;
  guint8 copy[10] = { 0 };

  if (!test_can_hold (fixture))
    return;

  hold = test_hold (stream);
  g_input_stream_read_async (input, copy, 10, G_PRIORITY_DEFAULT, cancellable, test_take_result,
                             &cancelled);
  check_waits (&cancelled);
  g_cancellable_cancel (cancellable);
  g_assert_cmpint (g_input_stream_read_finish (input, test_await (&cancelled), &error), ==, -1);
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_input_stream_read_async (input, copy, 10, G_PRIORITY_DEFAULT, NULL, test_take_result, &read);
  test_assert_ok (g_output_stream_write_all (output, data, size, NULL, NULL, &error), error);
  g_output_stream_write_async (output, data + size, 10, G_PRIORITY_DEFAULT, NULL, test_take_result,
                               &written);
  check_waits (&read);
  g_assert_null (written);
  test_hold_release (hold);
  check_read (input, &read, 10);
  test_assert_mem (copy, data, 10);
  check_write (output, &written, 10);
  check_close (output);
  test_assert_content (to, bytes);
}

/* Calls that are cancelled before fail, also if the bytes are there, and lose no bytes. */
static void
async_cancelled (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 100, 9);
  g_autoptr (GInputStream) input = test_input_new (buffer, NULL, 0, 100);
  g_autoptr (GOutputStream) output = test_output_new (buffer, NULL, 0, 100);
  g_autoptr (GCancellable) cancelled = g_cancellable_new ();
  GSeekable *seekables[] = { G_SEEKABLE (input), G_SEEKABLE (output) };
  guint8 data[3] = { 1, 2, 3 };

  g_cancellable_cancel (cancelled);

  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GAsyncResult) read = NULL, written = NULL, flushed = NULL;

      g_input_stream_read_async (input, data, 3, G_PRIORITY_DEFAULT, cancelled, test_take_result,
                                 &read);
      g_output_stream_write_async (output, data, 3, G_PRIORITY_DEFAULT, cancelled,
                                   test_take_result, &written);
      g_assert_cmpint (g_input_stream_read_finish (input, test_await (&read), &error), ==, -1);
      test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
      g_assert_cmpint (g_output_stream_write_finish (output, test_await (&written), &error), ==,
                       -1);
      g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
      g_clear_error (&error);
      g_output_stream_flush_async (output, G_PRIORITY_DEFAULT, cancelled, test_take_result,
                                   &flushed);
      g_assert_false (g_output_stream_flush_finish (output, test_await (&flushed), &error));
      g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
      g_clear_error (&error);

      for (guint k = 0; k < 2; k++)
        g_assert_cmpint (g_seekable_tell (seekables[k]), ==, 3 * i);

      g_assert_cmpint (g_input_stream_read (input, data, 3, NULL, &error), ==, 3);
      g_assert_cmpint (g_output_stream_write (output, data, 3, NULL, &error), ==, 3);
    }

  check_close (output);
}

/* The last references to the streams are dropped while operations are pending. The read and the
 * write have no order, because threads submit them, so they use different buffers. */
static void
async_unref (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  const gsize size = 6 * CHUNK;             /* no bytes remain to be submitted at the end */
  g_autoptr (GpuBuffer) source = test_buffer_filled (fixture, size, 9);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, size);
  g_autoptr (GBytes) bytes = test_random_bytes (size);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GAsyncResult) read = NULL, written = NULL;
  g_autoptr (TestHold) hold = NULL;
  guint8 data[100] = { 0 };
  GInputStream *input = test_input_new (source, stream, 0, size);
  GOutputStream *output = test_output_new (buffer, stream, 0, size);

  if (!test_can_hold (fixture))
    {
      g_object_unref (input);
      g_object_unref (output);
      return;
    }

  hold = test_hold (stream);
  g_input_stream_read_async (input, data, sizeof data, G_PRIORITY_DEFAULT, NULL, test_take_result,
                             &read);
  g_output_stream_write_all_async (output, g_bytes_get_data (bytes, NULL), size,
                                   G_PRIORITY_DEFAULT, NULL, test_take_result, &written);
  g_object_unref (input);
  g_object_unref (output);
  check_waits (&read);
  g_assert_null (written);
  test_hold_release (hold);
  check_read (input, &read, sizeof data);
  test_assert_ok (g_output_stream_write_all_finish (output, test_await (&written), NULL, &error),
                  error);
  test_assert_value (data, 9, sizeof data);
  test_assert_content (buffer, bytes);
}

/* After the callback of a call that a thread has executed, the last reference is that of the
 * program: dropping it submits the remaining bytes before later work of the stream. */
static void
async_dropped (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, CHUNK + 10, 9);
  g_autofree guint8 *data = g_malloc0 (CHUNK);

  for (guint i = 0; i < 300; i++)
    {
      GOutputStream *output = test_output_new (buffer, fixture->stream, 0, CHUNK + 10);
      gpointer weak = output;
      GAsyncResult *result = NULL;

      g_object_add_weak_pointer (G_OBJECT (output), &weak);
      g_output_stream_write_async (output, data, CHUNK, G_PRIORITY_DEFAULT, NULL, test_take_result,
                                   &result);
      test_await (&result);
      check_write (output, &result, (gssize) CHUNK);
      g_assert_cmpint (g_output_stream_write (output, data, 10, NULL, &error), ==, 10);
      g_object_unref (output);
      g_assert_null (weak);
    }
}

/* --- errors ----------------------------------------------------------------------------------- */

static void
async_full (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 30, 9);
  g_autoptr (GOutputStream) output = test_output_new (buffer, NULL, 0, 20);
  g_autoptr (GOutputStream) none = g_object_new (GPU_TYPE_OUTPUT_STREAM, NULL);
  g_autoptr (GInputStream) empty = test_input_new (buffer, NULL, 30, 0);
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GBytes) content = NULL;
  guint8 data[30] = { 0 };
  gsize done;

  g_output_stream_write_all_async (output, data, 30, G_PRIORITY_DEFAULT, NULL, test_take_result,
                                   &result);
  g_assert_false (g_output_stream_write_all_finish (output, test_await (&result), &done, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_NO_SPACE, "20");
  g_assert_cmpuint (done, ==, 20);
  g_clear_object (&result);
  check_close (output);
  content = test_content (buffer);
  test_assert_value (g_bytes_get_data (content, NULL), 0, 20);
  test_assert_value ((const guint8 *) g_bytes_get_data (content, NULL) + 20, 9, 10);
  g_output_stream_write_async (none, data, 1, G_PRIORITY_DEFAULT, NULL, test_take_result, &result);
  g_assert_cmpint (g_output_stream_write_finish (none, test_await (&result), &error), ==, -1);
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_output_stream_new");
  g_clear_object (&result);
  g_input_stream_read_async (empty, data, 1, G_PRIORITY_DEFAULT, NULL, test_take_result, &result);
  check_read (empty, &result, 0);
}

static void
await_submissions (GpuStream *stream, guint64 n)
{
  gint64 end = g_get_monotonic_time () + TEST_DEADLINE * G_TIME_SPAN_SECOND;

  for (; test_get_number (stream, "n-submitted") < n; g_usleep (1000))
    g_assert_cmpint (g_get_monotonic_time (), <, end);
}

/* A failure of the device reaches a read, a flush and a close. The read may be repeated. */
static void
async_failed (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 9);
  g_autoptr (GpuBuffer) to = test_buffer_filled (fixture, SIZE, 9);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GInputStream) input = test_input_new (buffer, stream, 0, SIZE);
  g_autoptr (GOutputStream) output = test_output_new (to, stream, 0, SIZE);
  g_autoptr (GOutputStream) other = test_output_new (to, stream, 0, SIZE);
  g_autoptr (GAsyncResult) read = NULL, flushed = NULL, closed = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  guint8 data[10] = { 0 };
  guint64 n_submitted;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;

  gate = test_gate (fixture, stream);
  n_submitted = test_get_number (stream, "n-submitted");
  g_input_stream_read_async (input, data, 10, G_PRIORITY_DEFAULT, NULL, test_take_result, &read);
  g_assert_cmpint (g_output_stream_write (output, data, 10, NULL, &error), ==, 10);
  g_assert_cmpint (g_output_stream_write (other, data, 10, NULL, &error), ==, 10);
  g_output_stream_flush_async (output, G_PRIORITY_DEFAULT, NULL, test_take_result, &flushed);
  g_output_stream_close_async (other, G_PRIORITY_DEFAULT, NULL, test_take_result, &closed);
  await_submissions (stream, n_submitted + 6);  /* four chunks, and the bytes of each output */
  check_waits (&read);
  test_assert_ok (gpu_event_fail (gate, "broken on purpose", &error), error);
  g_assert_cmpint (g_input_stream_read_finish (input, test_await (&read), &error), ==, -1);
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "gpu_input_stream: ", "broken on purpose");
  g_assert_false (g_output_stream_flush_finish (output, test_await (&flushed), &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "gpu_output_stream: ", "broken on purpose");
  g_assert_false (g_output_stream_close_finish (other, test_await (&closed), &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "gpu_output_stream: ", "broken on purpose");
  g_assert_true (g_output_stream_is_closed (other));

  g_assert_cmpint (g_seekable_tell (G_SEEKABLE (input)), ==, 0);
  gpu_stream_synchronize (stream, NULL, NULL);
  g_clear_object (&read);
  g_input_stream_read_async (input, data, 10, G_PRIORITY_DEFAULT, NULL, test_take_result, &read);
  check_read (input, &read, 10);
  test_assert_value (data, 9, 10);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);

  test_add ("busy-pool", async_busy_pool);
  test_add ("many", async_many);
  test_add ("context", async_context);
  test_add ("priority", async_priority);
  test_add ("pending", async_pending);
  test_add ("chunk-waits", async_chunk_waits);
  test_add ("cancelled", async_cancelled);
  test_add ("unref", async_unref);
  test_add ("dropped", async_dropped);
  test_add ("full", async_full);
  test_add ("failed", async_failed);

  return test_run ();
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* gpu_memory_splice_async(): every byte passes through any number of connections in both
 * directions, the main loop does not block, and errors name the connection and the byte. */
#include "config.h"

#include <gio/gio.h>
#include <sys/socket.h>

#include "test-util.h"

#define SIZE ((gsize) 5 * 1024 * 1024 + 7)
#define MARGIN 11
#define MAX_CONNECTIONS 7

typedef struct
{
  GIOStream *here[MAX_CONNECTIONS];
  GIOStream *there[MAX_CONNECTIONS];
  guint      n;
} Links;

/* Opens @n TCP connections. */
static void
links_open (Links *links,
            guint  n)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GSocketListener) listener = g_socket_listener_new ();
  g_autoptr (GSocketClient) client = g_socket_client_new ();
  guint16 port = g_socket_listener_add_any_inet_port (listener, NULL, &error);

  g_assert_no_error (error);
  links->n = n;

  for (guint i = 0; i < n; i++)
    {
      links->here[i] = G_IO_STREAM (g_socket_client_connect_to_host (client, "127.0.0.1", port,
                                                                     NULL, &error));
      g_assert_no_error (error);
      links->there[i] = G_IO_STREAM (g_socket_listener_accept (listener, NULL, NULL, &error));
      g_assert_no_error (error);
    }
}

static void
links_clear (Links *links)
{
  for (guint i = 0; i < links->n; i++)
    {
      g_clear_object (&links->here[i]);
      g_clear_object (&links->there[i]);
    }
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Links, links_clear)

/* Closes a connection with a reset. */
static void
reset (GIOStream *connection)
{
  GSocket *socket = g_socket_connection_get_socket (G_SOCKET_CONNECTION (connection));
  struct linger linger = { 1, 0 };

  g_assert_cmpint (setsockopt (g_socket_get_fd (socket), SOL_SOCKET, SO_LINGER, &linger,
                               sizeof linger), ==, 0);
  g_io_stream_close (connection, NULL, NULL);
}

static void
send_bytes (GIOStream    *connection,
            gconstpointer data,
            gsize         size)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (g_output_stream_write_all (g_io_stream_get_output_stream (connection), data, size,
                                             NULL, NULL, &error), error);
}

static gboolean
on_tick (gpointer data)
{
  guint *n_ticks = data;

  (*n_ticks)++;

  return G_SOURCE_CONTINUE;
}

static void
check_content (GpuBuffer *buffer,
               GBytes    *bytes)
{
  g_autoptr (GBytes) content = test_content (buffer);
  const guint8 *data = g_bytes_get_data (content, NULL);
  gsize size = g_bytes_get_size (bytes);

  test_assert_value (data, 9, MARGIN);
  test_assert_mem (data + MARGIN, g_bytes_get_data (bytes, NULL), size);
  test_assert_value (data + MARGIN + size, 9, MARGIN);
}

static void
check_splice (TestFixture *fixture,
              gsize        size,
              guint        n)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (size);
  g_autoptr (GpuBuffer) from = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) to = test_buffer_filled (fixture, size + 2 * MARGIN, 9);
  g_autoptr (GAsyncResult) sent = NULL;
  g_autoptr (GAsyncResult) received = NULL;
  g_auto (Links) links = { .n = 0 };
  guint n_ticks = 0;
  guint timer = g_timeout_add (1, on_tick, &n_ticks);

  links_open (&links, n);
  gpu_memory_splice_async (GPU_MEMORY (to), NULL, MARGIN, size, FALSE, links.there, n, NULL,
                           test_take_result, &received);
  gpu_memory_splice_async (GPU_MEMORY (from), NULL, 0, size, TRUE, links.here, n, NULL,
                           test_take_result, &sent);
  test_assert_ok (gpu_memory_splice_finish (GPU_MEMORY (from), test_await (&sent), &error), error);
  test_assert_ok (gpu_memory_splice_finish (GPU_MEMORY (to), test_await (&received), &error),
                  error);
  g_source_remove (timer);
  g_assert_true (size < SIZE || n_ticks > 0);
  check_content (to, bytes);
}

static void
splice_data (TestFixture *fixture)
{
  for (guint n = 1; n <= MAX_CONNECTIONS; n += 2)
    check_splice (fixture, SIZE, n);

  check_splice (fixture, 2, 3);
  check_splice (fixture, 512 * 1024 * 4, 1);
  check_splice (fixture, 512 * 1024 * 4 * 2 + 1, 2);
}

/* Each connection carries its part, as the documentation divides the range. */
static void
splice_parts (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (10);
  g_autoptr (GpuBuffer) buffer = test_buffer_from (fixture, bytes);
  g_autoptr (GAsyncResult) result = NULL;
  g_auto (Links) links = { .n = 0 };

  links_open (&links, 3);
  gpu_memory_splice_async (GPU_MEMORY (buffer), NULL, 0, 10, TRUE, links.here, 3, NULL,
                           test_take_result, &result);
  test_assert_ok (gpu_memory_splice_finish (GPU_MEMORY (buffer), test_await (&result), &error),
                  error);

  for (guint i = 0; i < 3; i++)
    {
      GInputStream *input = g_io_stream_get_input_stream (links.there[i]);
      guint8 data[10] = { 0 };
      gsize n;

      test_assert_ok (g_io_stream_close (links.here[i], NULL, &error), error);
      test_assert_ok (g_input_stream_read_all (input, data, sizeof data, &n, NULL, &error), error);
      g_assert_cmpuint (n, ==, i < 2 ? 4 : 2);
      test_assert_mem (data, (const guint8 *) g_bytes_get_data (bytes, NULL) + 4 * i, n);
    }
}

/* --- errors ----------------------------------------------------------------------------------- */

static void
receive (GpuBuffer    *buffer,
         gsize         size,
         Links        *links,
         GCancellable *cancellable,
         GAsyncResult **result)
{
  gpu_memory_splice_async (GPU_MEMORY (buffer), NULL, MARGIN, size, FALSE, links->here, links->n,
                           cancellable, test_take_result, result);
}

/* The second connection ends early: the first one, which waits for data, ends too. The memory has
 * all bytes before the failure. */
static void
splice_closed (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (1000);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 4000 + 2 * MARGIN, 9);
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GBytes) content = NULL;
  g_auto (Links) links = { .n = 0 };

  links_open (&links, 2);
  receive (buffer, 4000, &links, NULL, &result);
  send_bytes (links.there[1], g_bytes_get_data (bytes, NULL), 1000);
  g_io_stream_close (links.there[1], NULL, NULL);
  g_assert_false (gpu_memory_splice_finish (GPU_MEMORY (buffer), test_await (&result), &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT,
                         "gpu_memory_splice_async: connection 1, byte 3011 of the memory: the peer "
                         "has closed the connection 1000 bytes early");
  content = test_content (buffer);
  test_assert_mem ((const guint8 *) g_bytes_get_data (content, NULL) + MARGIN + 2000,
                   g_bytes_get_data (bytes, NULL), 1000);
  test_assert_value ((const guint8 *) g_bytes_get_data (content, NULL) + MARGIN + 3000, 9, 1000);
}

/* Limits the bytes that the system accepts before the peer has received them. */
static void
limit (GIOStream *connection,
       int        option)
{
  GSocket *socket = g_socket_connection_get_socket (G_SOCKET_CONNECTION (connection));

  g_assert_true (g_socket_set_option (socket, SOL_SOCKET, option, 64 * 1024, NULL));
}

static void
splice_reset (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE + 2 * MARGIN, 9);
  g_auto (Links) links = { .n = 0 };

  links_open (&links, 3);
  limit (links.here[2], SO_SNDBUF);
  limit (links.there[2], SO_RCVBUF);

  for (guint send = 0; send < 2; send++)
    {
      g_autoptr (GAsyncResult) result = NULL;
      g_autofree char *words = g_strdup_printf ("connection %u, byte ", send);

      gpu_memory_splice_async (GPU_MEMORY (buffer), NULL, MARGIN, SIZE, send == 1,
                               links.here + send, 3 - send, NULL, test_take_result, &result);
      reset (links.there[send * 2]);
      g_assert_false (gpu_memory_splice_finish (GPU_MEMORY (buffer), test_await (&result),
                                                &error));
      g_assert_nonnull (strstr (error->message, words));
      g_assert_true (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CONNECTION_CLOSED)
                     || g_error_matches (error, G_IO_ERROR, G_IO_ERROR_BROKEN_PIPE));
      g_clear_error (&error);
    }
}

/* Also while the connections have no data, and while the stream is blocked. */
static void
splice_cancelled (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE + 2 * MARGIN, 9);

  for (guint when = 0; when < 2; when++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GCancellable) cancellable = g_cancellable_new ();
      g_autoptr (GAsyncResult) result = NULL;
      g_auto (Links) links = { .n = 0 };

      links_open (&links, 2);

      if (when == 0)
        g_cancellable_cancel (cancellable);

      receive (buffer, SIZE, &links, cancellable, &result);

      for (guint i = 0; i < 20 && when == 1; i++)
        {
          g_usleep (1000);
          g_main_context_iteration (NULL, FALSE);
          g_assert_null (result);
        }

      g_cancellable_cancel (cancellable);
      g_assert_false (gpu_memory_splice_finish (GPU_MEMORY (buffer), test_await (&result),
                                                &error));
      test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED,
                             when == 1 ? "connection" : "");
    }
}

/* While earlier work of the stream runs, the main loop does not block, and a cancellation ends the
 * transfer. */
static void
splice_held (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 9);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (TestHold) hold = NULL;
  g_auto (Links) links = { .n = 0 };

  if (!test_can_hold (fixture))
    return;

  links_open (&links, 2);
  hold = test_hold (stream);
  gpu_memory_splice_async (GPU_MEMORY (buffer), stream, 0, SIZE, TRUE, links.here, 2, cancellable,
                           test_take_result, &result);

  for (guint i = 0; i < 20; i++)
    {
      g_usleep (1000);
      g_main_context_iteration (NULL, FALSE);
      g_assert_null (result);
    }

  g_cancellable_cancel (cancellable);
  g_assert_false (gpu_memory_splice_finish (GPU_MEMORY (buffer), test_await (&result), &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED, "byte ");
  test_hold_release (hold);
}

static void
splice_other_context (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 100, 9);
  g_autoptr (GpuContext) context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE,
                                                    &error);
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, &error);
  g_autoptr (GAsyncResult) result = NULL;
  g_auto (Links) links = { .n = 0 };
  GOutputStream *peer;
  guint8 data[100] = { 5 };

  g_assert_no_error (error);
  links_open (&links, 1);
  peer = g_io_stream_get_output_stream (links.there[0]);
  test_assert_ok (g_output_stream_write_all (peer, data, 100, NULL, NULL, &error), error);
  gpu_memory_splice_async (GPU_MEMORY (buffer), stream, 0, 100, FALSE, links.here, 1, NULL,
                           test_take_result, &result);
  g_assert_false (gpu_memory_splice_finish (GPU_MEMORY (buffer), test_await (&result), &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_memory_splice_async: the memory "
                         "of 100 bytes and the stream belong to different contexts");
  memset (data, 0, 100);
  test_assert_ok (g_input_stream_read_all (g_io_stream_get_input_stream (links.here[0]), data, 100,
                                           NULL, NULL, &error), error);
  g_assert_cmpint (data[0], ==, 5);
}

static void
splice_invalid (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 100, 9);
  g_auto (Links) links = { .n = 0 };
  const struct { gsize offset, size; guint n; const char *words; } calls[] = {
    { 50, 51, 1, "51" }, { 0, 100, 0, "no connection" }, { 0, 0, 1, NULL }
  };

  links_open (&links, 1);

  for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GAsyncResult) result = NULL;
      gboolean success;

      gpu_memory_splice_async (GPU_MEMORY (buffer), NULL, calls[i].offset, calls[i].size, TRUE,
                               links.here, calls[i].n, NULL, test_take_result, &result);
      success = gpu_memory_splice_finish (GPU_MEMORY (buffer), test_await (&result), &error);
      g_assert_true (success == (calls[i].words == NULL));

      if (!success)
        test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, calls[i].words);
    }
}

/* The transfer holds references to the memory and to the connections. */
static void
splice_unref (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer = test_buffer_filled (fixture, 2000 + 2 * MARGIN, 9);
  GpuMemory *memory = GPU_MEMORY (buffer);
  g_autoptr (GAsyncResult) result = NULL;
  g_auto (Links) links = { .n = 0 };
  guint8 data[2000] = { 0 };

  links_open (&links, 2);
  receive (buffer, 2000, &links, NULL, &result);
  g_object_unref (buffer);
  g_clear_object (&links.here[0]);
  g_clear_object (&links.here[1]);
  send_bytes (links.there[0], data, 1000);
  send_bytes (links.there[1], data, 1000);
  test_assert_ok (gpu_memory_splice_finish (memory, test_await (&result), &error), error);
}

/* Returns once the stream waits for a user event that was submitted after the transfer has begun:
 * when a device whose memory is mapped has mapped it. */
static GpuEvent *
gate_transfer (TestFixture  *fixture,
               GpuStream    *stream,
               GpuBuffer    *buffer,
               GAsyncResult **result)
{
  for (guint i = 0; i < 5000; i++)
    {
      const guint8 byte = 9;
      g_autoptr (GError) error = NULL;

      if (!gpu_buffer_write (buffer, NULL, 0, &byte, 1, NULL, &error))
        {
          g_assert_error (error, GPU_ERROR, GPU_ERROR_BUSY);
          return test_gate (fixture, stream);
        }

      g_usleep (1000);
      g_assert_null (*result);
    }

  return NULL;
}

/* Waits until the transfer has submitted the unmap to the gated stream. */
static void
await_unmap (GpuStream *stream,
             guint64    n_submitted)
{
  gint64 end = g_get_monotonic_time () + TEST_DEADLINE * G_USEC_PER_SEC;

  for (; test_get_number (stream, "n-submitted") == n_submitted; g_usleep (1000))
    g_assert_cmpint (g_get_monotonic_time (), <, end);
}

/* The memory is unmapped in the order of the stream. The transfer ends when the unmap has
 * completed, and fails if the unmap fails. */
static void
splice_unmap (TestFixture *fixture)
{
  g_autoptr (GBytes) bytes = test_random_bytes (1000);

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS)
      || !test_has (fixture, GPU_CAPABILITIES_HOST_MEMORY))
    return;

  for (guint how = 0; how < 3; how++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GCancellable) cancellable = g_cancellable_new ();
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuBuffer) buffer = test_buffer (fixture, 1000);
      g_autoptr (GAsyncResult) result = NULL;
      g_autoptr (GpuEvent) gate = NULL;
      g_auto (Links) links = { .n = 0 };
      guint64 n_submitted;
      gboolean success;

      links_open (&links, 1);
      gpu_memory_splice_async (GPU_MEMORY (buffer), stream, 0, 1000, FALSE, links.here, 1,
                               cancellable, test_take_result, &result);
      gate = gate_transfer (fixture, stream, buffer, &result);
      g_assert_nonnull (gate);
      n_submitted = test_get_number (stream, "n-submitted");
      send_bytes (links.there[0], g_bytes_get_data (bytes, NULL), 1000);
      await_unmap (stream, n_submitted);

      for (guint i = 0; i < 50; i++)
        {
          g_usleep (1000);
          g_main_context_iteration (NULL, FALSE);
          g_assert_null (result);
        }

      if (how == 0)
        test_open (gate);
      else if (how == 1)
        test_assert_ok (gpu_event_fail (gate, "broken on purpose", &error), error);
      else
        g_cancellable_cancel (cancellable);

      success = gpu_memory_splice_finish (GPU_MEMORY (buffer), test_await (&result), &error);
      g_assert_true (success == (how == 0));

      if (how == 1)
        test_assert_any_error (error, GPU_ERROR, GPU_ERROR_FAILED, "byte 0 of the memory: unmap",
                               "broken on purpose");
      if (how == 2)
        {
          test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED, "unmap");
          test_open (gate);
        }
      if (how != 1)
        test_assert_content (buffer, bytes);
    }
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);

  test_add ("data", splice_data);
  test_add ("parts", splice_parts);
  test_add ("closed", splice_closed);
  test_add ("reset", splice_reset);
  test_add ("cancelled", splice_cancelled);
  test_add ("held", splice_held);
  test_add ("other-context", splice_other_context);
  test_add ("invalid", splice_invalid);
  test_add ("unref", splice_unref);
  test_add ("unmap", splice_unmap);

  return test_run ();
}

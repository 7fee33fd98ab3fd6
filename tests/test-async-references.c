/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The references that an asynchronous wait holds, and when it releases them. */
#include "config.h"

#include "test-util.h"

#define SIZE 4096

static void
set_true (gpointer data, GObject *object)
{
  *(gboolean *) data = TRUE;
}

/* A cancelled wait releases its event. The test then drops the last reference to the user event, so
 * that the work behind the event fails. */
static void
async_cancelled_user_event (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GAsyncResult) result = NULL;
  g_autoptr (GpuEvent) behind = NULL;
  gboolean is_gone = FALSE;
  GpuEvent *event;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  event = test_gate (fixture, stream);
  behind = test_record (stream);
  g_object_weak_ref (G_OBJECT (event), set_true, &is_gone);
  gpu_event_wait_async (event, cancellable, test_take_result, &result);
  g_cancellable_cancel (cancellable);
  g_assert_false (gpu_event_wait_finish (event, test_await (&result), &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_object (&result);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_false (is_gone);
  g_object_unref (event);
  g_assert_true (is_gone);
  g_assert_false (gpu_event_wait_timeout (behind, TEST_DEADLINE * G_USEC_PER_SEC, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "dropped");
}

/* A cancelled wait releases the objects of a stream whose work is still pending. */
static void
async_cancelled_stream (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GAsyncResult) synchronized = NULL;
  g_autoptr (GAsyncResult) read = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  gboolean stream_is_gone = FALSE;
  gboolean buffer_is_gone = FALSE;
  GpuStream *stream;
  GpuBuffer *buffer;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  buffer = test_buffer_filled (fixture, SIZE, 1);
  g_object_weak_ref (G_OBJECT (stream), set_true, &stream_is_gone);
  g_object_weak_ref (G_OBJECT (buffer), set_true, &buffer_is_gone);
  gate = test_gate (fixture, stream);
  gpu_buffer_read_bytes_async (buffer, stream, 0, SIZE, cancellable, NULL, NULL, NULL,
                               test_take_result, &read);
  gpu_stream_synchronize_async (stream, cancellable, test_take_result, &synchronized);
  g_cancellable_cancel (cancellable);
  g_assert_null (gpu_buffer_read_bytes_finish (buffer, test_await (&read), &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_false (gpu_stream_synchronize_finish (stream, test_await (&synchronized), &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_object (&read);
  g_clear_object (&synchronized);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_object_unref (buffer);
  g_object_unref (stream);
  g_assert_true (buffer_is_gone);
  g_assert_true (stream_is_gone);
  test_open (gate);
}

/* A source object that records which thread frees it. */
typedef struct
{
  GThread  *thread;
  GpuEvent *event;
  gboolean  done;
} Owner;

static void
note_thread (gpointer data, GObject *object)
{
  ((Owner *) data)->thread = g_thread_self ();
}

static void
drop_source (GObject *source, GAsyncResult *result, gpointer data)
{
  Owner *owner = data;
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_event_wait_finish (GPU_EVENT (source), result, &error), error);
  owner->done = TRUE;
}

/* The main context's thread frees the source object, even if the completion thread is slow to
 * release its own references. */
static void
async_freed_on_caller_thread (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);

  for (guint i = 0; i < 300; i++)
    {
      g_autoptr (GError) error = NULL;
      Owner owner = { .done = FALSE };

      test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0, SIZE,
                                       (const guint8 *) "x", 1, &error), error);
      owner.event = test_record (fixture->stream);
      g_object_weak_ref (G_OBJECT (owner.event), note_thread, &owner);
      gpu_event_wait_async (owner.event, NULL, drop_source, &owner);
      g_object_unref (owner.event);
      test_wait_until (&owner.done);
      while (g_main_context_iteration (NULL, FALSE))
        ;
      g_assert_true (owner.thread == g_thread_self ());
    }
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("cancelled-user-event", async_cancelled_user_event);
  test_add ("cancelled-stream", async_cancelled_stream);
  test_add ("freed-on-caller-thread", async_freed_on_caller_thread);
  return test_run ();
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Waits in a context whose back end cannot record fences, and the order of waits. */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/stream/gpu-event-private.h"
#include "gpumem/stream/gpu-stream-private.h"
#include "test-util.h"

#define SIZE 4096

static void
fill (GpuStream *stream, GpuBuffer *buffer)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, "c", 1,
                                   &error), error);
}

static void
wait_for (gint *value)
{
  gint64 deadline = g_get_monotonic_time () + TEST_DEADLINE * G_USEC_PER_SEC;

  while (g_atomic_int_get (value) == 0)
    {
      g_assert_cmpint (g_get_monotonic_time (), <, deadline);
      g_thread_yield ();
    }
}

/* --- a back end that records no fences --------------------------------------------------- */

static GpuBackend refusing;
static GpuStreamOps refusing_stream;
static const GpuBackend *real;
static GpuError refusal;
static gint n_refused;
static gint n_freed;

static GpuNativeEvent *
refuse_record (GpuNativeStream *stream, GpuEventFlags flags, GError **error)
{
  g_set_error_literal (error, GPU_ERROR, (int) refusal, "no fence");
  g_atomic_int_inc (&n_refused);
  return NULL;
}

static void
count_free (GpuNativeStream *stream)
{
  real->stream->free (stream);
  g_atomic_int_inc (&n_freed);
}

static void
refuse (GpuNativeContext *context, GpuError code)
{
  real = context->backend;
  refusing_stream = *real->stream;
  refusing_stream.record = refuse_record;
  refusing_stream.free = count_free;
  refusing_stream.finish_reports_failure = FALSE; /* otherwise waits need no fence */
  refusing = *real;
  refusing.stream = &refusing_stream;
  refusal = code;
  n_refused = 0;
  n_freed = 0;
  context->backend = &refusing;
}

/* --- waits --------------------------------------------------------------------------------- */

static gpointer
wait_in_thread (gpointer data)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_event_wait (data, NULL, &error), error);
  return NULL;
}

/* A waiting thread cannot record a fence. Before the thread continues, the stream is dropped, and a
 * deferred job finishes and frees the stream. The test delays the thread by holding the context's
 * lock, which the thread needs to report a lost device. */
static void
completion_stream_dropped_during_wait (TestFixture *fixture)
{
  GpuNativeContext *context = _gpu_context_get_native (fixture->context);
  GpuStream *stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) event = NULL;
  GThread *thread;

  fill (stream, buffer);
  event = test_record (stream);
  refuse (context, GPU_ERROR_DEVICE_LOST);
  g_mutex_lock (&context->lock);
  thread = g_thread_new ("wait", wait_in_thread, event);
  wait_for (&n_refused);
  g_object_unref (stream);
  wait_for (&n_freed);
  g_mutex_unlock (&context->lock);
  g_thread_join (thread);
  context->backend = real;
}

/* If a wait cannot record a fence, it blocks until the whole stream is idle. If an earlier fence of
 * the stream has failed, the library still reports that failure. */
static void
completion_keeps_failures (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) bad = NULL;
  g_autoptr (GpuEvent) good = NULL;
  GpuNativeContext *context = _gpu_context_get_native (fixture->context);
  GpuTimeline *timeline = _gpu_stream_get_timeline (stream, "test", &error);
  GpuFence *fence;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  fill (stream, buffer);
  bad = test_record (stream);
  fence = g_new0 (GpuFence, 1);
  g_atomic_ref_count_init (&fence->refs);
  fence->seq = 1;
  fence->event = context->backend->event->create_user (context, &error);
  g_assert_no_error (error);
  test_assert_ok (context->backend->event->set_user (fence->event, FALSE, &error), error);
  _gpu_live_add (GPU_LIVE_FENCE, 1);
  _gpu_timeline_lock (timeline);
  g_queue_push_tail (&timeline->fences, fence);
  _gpu_timeline_unlock (timeline);
  fill (stream, buffer);
  good = test_record (stream);

  refuse (context, GPU_ERROR_FAILED);
  test_assert_ok (gpu_event_wait (good, NULL, &error), error);
  g_assert_cmpint (g_atomic_int_get (&n_refused), >, 0);
  g_assert_false (gpu_event_wait (bad, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED);
  context->backend = real;
}

/* An event imported from another process has no stream. In a forked process a wait for it fails
 * like every other call. */
static void
completion_forked (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuTimeline) timeline = NULL;
  g_autoptr (GpuEvent) event = NULL;
  GpuNativeContext *context = _gpu_context_get_native (fixture->context);
  GpuTimeline *recorded = _gpu_stream_get_timeline (stream, "test", &error);
  GpuNativeEvent *native;

  native = context->backend->stream->record (recorded->stream, GPU_EVENT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  test_assert_ok (context->backend->event->wait (native, TRUE, &error), error);
  timeline = _gpu_timeline_new_for_event (context, native);
  event = _gpu_event_new_for_point (fixture->context, timeline, 1, NULL);

  g_atomic_int_set (&_gpu_forked, TRUE);
  g_assert_false (gpu_event_wait (event, NULL, &error));
  g_atomic_int_set (&_gpu_forked, FALSE);
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST, "forked");
}

/* --- order of waits -------------------------------------------------------------------------- */

static void
ignore (GObject *source, GAsyncResult *result, gpointer user_data)
{
  test_assert_ok (gpu_stream_synchronize_finish (GPU_STREAM (source), result, NULL), NULL);
}

/* Memory of completed work is freed even while a thread waits for later work that is blocked. */
static void
completion_frees_completed_first (TestFixture *fixture)
{
  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  for (guint i = 0; i < 50; i++)
    {
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      GpuBuffer *buffer = test_buffer (fixture, SIZE);
      g_autoptr (GpuEvent) gate = NULL;
      gint64 deadline = g_get_monotonic_time () + TEST_DEADLINE * G_USEC_PER_SEC;

      fill (stream, buffer);
      g_object_unref (buffer);
      gate = test_gate (fixture, stream);
      gpu_stream_synchronize_async (stream, NULL, ignore, NULL);
      while (gpu_context_get_allocated_size (fixture->context) > 0)
        {
          g_assert_cmpint (g_get_monotonic_time (), <, deadline);
          g_thread_yield ();
        }
      test_open (gate);
      test_synchronize (stream);
      while (g_main_context_iteration (NULL, FALSE))
        ;
    }
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("stream-dropped-during-wait", completion_stream_dropped_during_wait);
  test_add ("keeps-failures", completion_keeps_failures);
  test_add ("forked", completion_forked);
  test_add ("frees-completed-first", completion_frees_completed_first);
  return test_run ();
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Internals of the timeline: the cost of counting, the creation of fences, and the release of
 * retained objects. A separate process under the OpenCL layer counts driver calls. */
#include "config.h"

#include "gpumem/command/gpu-command-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-memory-private.h"
#include "gpumem/stream/gpu-event-private.h"
#include "gpumem/stream/gpu-stream-private.h"
#include "gpumem/timeline/gpu-timeline-private.h"
#include "gpumem/timeline/gpu-user-event-private.h"
#include "opencl-layer/gpumem-layer.h"
#include "test-allocator-util.h"

#ifdef HAVE_CUDA
#include "cuda-driver/cuda-driver.h"
#endif

#define N_WORK 1000
#define SIZE 256

static GpuTimeline *
timeline_of (GpuStream *stream)
{
  g_autoptr (GError) error = NULL;
  GpuTimeline *timeline = _gpu_stream_get_timeline (stream, "test", &error);

  g_assert_no_error (error);
  return timeline;
}

static void
fill (GpuStream *stream, GpuBuffer *buffer)
{
  static const guint8 value = 1;
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error),
                  error);
}

static guint
n_fences (GpuTimeline *timeline)
{
  guint n;

  _gpu_timeline_lock (timeline);
  n = g_queue_get_length (&timeline->fences);
  _gpu_timeline_unlock (timeline);
  return n;
}

static guint
n_retained (GpuTimeline *timeline)
{
  guint n;

  _gpu_timeline_lock (timeline);
  n = timeline->retained->len - timeline->retained_first;
  _gpu_timeline_unlock (timeline);
  return n;
}

/* --- the lock that guards memory ------------------------------------------------------ */

static GpuTimeline *
biased_timeline (GpuBuffer *buffer)
{
  GpuMemory *memory = GPU_MEMORY (buffer);

  return __atomic_load_n (&memory->storage->root->biased_to, __ATOMIC_RELAXED);
}

/* Memory that only one stream uses needs only the lock of that stream (the lock bias), until it has
 * moved between streams too often. */
static void
timeline_lock_bias (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  guint n_changes = 0;

  for (guint i = 0; i < 3; i++)
    fill (stream, buffer);
  g_assert_true (biased_timeline (buffer) == timeline_of (stream));

  for (guint i = 0; i < 20 && biased_timeline (buffer) != NULL; i++, n_changes++)
    {
      GpuStream *turn = i % 2 == 0 ? other : stream;

      fill (turn, buffer);
      if (biased_timeline (buffer) != NULL)
        g_assert_true (biased_timeline (buffer) == timeline_of (turn));
    }
  g_assert_null (biased_timeline (buffer));
  g_assert_cmpuint (n_changes, >, 1);
  fill (stream, buffer);
  g_assert_null (biased_timeline (buffer));
}

static gboolean
run_never (gconstpointer     operation G_GNUC_UNUSED,
           GpuNativeStream  *stream G_GNUC_UNUSED,
           GpuNativeEvent  **event G_GNUC_UNUSED,
           GError          **error G_GNUC_UNUSED)
{
  g_assert_not_reached ();
}

/* An operation that is not submitted, because its stream is busy, does not count as a use. */
static void
timeline_lock_bias_busy (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) another = test_buffer (fixture, SIZE);
  g_autoptr (GError) error = NULL;
  GpuAccess access = { GPU_MEMORY (buffer), FALSE, 0, SIZE };
  const GpuSubmission submission = { .function = "test", .accesses = &access, .n_accesses = 1,
                                     .run = run_never };
  GpuPending pending = { .if_idle = TRUE };
  TestHold *hold;

  if (!test_can_hold (fixture))
    return;

  fill (stream, buffer);
  test_synchronize (stream);
  hold = test_hold (other);
  fill (other, another);
  test_assert_ok (_gpu_submit (timeline_of (other), &submission, &pending, &error), error);
  g_assert_true (pending.busy);
  g_assert_true (biased_timeline (buffer) != timeline_of (other));
  test_hold_release (hold);
  test_synchronize (other);
  test_hold_free (hold);
}

/* The lock of memory that only one stream uses stays biased to this stream (as in biased locking),
 * even if each operation of the stream also uses new memory. */
static void
timeline_keeps_lock_bias (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) weights = test_buffer (fixture, SIZE);

  for (guint i = 0; i < 20; i++)
    {
      g_autoptr (GpuBuffer) output = test_buffer (fixture, SIZE);

      test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (output), 0, GPU_MEMORY (weights), 0,
                                       SIZE, &error), error);
      g_assert_true (biased_timeline (weights) == timeline_of (stream));
      g_assert_true (biased_timeline (output) == timeline_of (stream));
    }
}

/* A blocking operation on an idle stream completes at once and leaves no fence. */
static void
timeline_idle_stream_needs_no_fence (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) event = NULL;
  GpuTimeline *timeline = timeline_of (stream);
  GpuNativeContext *context = timeline->context;
  guint8 data[SIZE] = { 0 };

  g_assert_cmpint (g_atomic_int_get (&context->n_active), ==, 0);
  for (guint i = 1; i <= 10; i++)
    {
      test_assert_ok (gpu_buffer_write (buffer, stream, 0, data, SIZE, NULL, &error), error);
      g_assert_cmpuint (_gpu_timeline_get_submitted (timeline), ==, i);
      g_assert_true (_gpu_timeline_is_complete (timeline, i));
    }
  event = test_record (stream);
  g_assert_cmpint (gpu_event_query (event, &error), ==, GPU_EVENT_STATUS_COMPLETE);

  fill (other, buffer);
  g_assert_cmpint (g_atomic_int_get (&context->n_active), ==, 1);
  test_assert_ok (gpu_buffer_read (buffer, stream, 0, data, SIZE, NULL, &error), error);
  g_assert_cmpint (data[SIZE - 1], ==, 1);
  g_assert_true (_gpu_timeline_is_complete (timeline, 11));
  test_synchronize (other);
  g_assert_cmpint (g_atomic_int_get (&context->n_active), ==, 0);
}

/* --- counting ----------------------------------------------------------------------- */

static void
timeline_counts (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  GpuTimeline *timeline = timeline_of (stream);

  for (guint i = 1; i <= N_WORK; i++)
    {
      g_autoptr (GpuEvent) event = NULL;

      fill (stream, buffer);
      g_assert_cmpuint (_gpu_timeline_get_submitted (timeline), ==, i);
      event = test_record (stream);
      g_assert_cmpuint (_gpu_timeline_get_submitted (timeline), ==, i);
    }
  g_assert_cmpuint (n_fences (timeline), ==, 0);
  g_assert_false (_gpu_timeline_is_complete (timeline, N_WORK));
  test_synchronize (stream);
  g_assert_true (_gpu_timeline_is_complete (timeline, N_WORK));
  g_assert_cmpuint (n_fences (timeline), ==, 0);
  g_assert_cmpuint (n_retained (timeline), ==, 0);
}

static void
timeline_points (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  GpuPoint point = { NULL, 0 };

  g_assert_false (_gpu_point_is_pending (&point));
  fill (stream, buffer);
  _gpu_point_set (&point, timeline_of (stream), 1);
  g_assert_true (_gpu_point_is_pending (&point));
  test_synchronize (stream);
  g_assert_false (_gpu_point_is_pending (&point));
  _gpu_point_set (&point, timeline_of (other), 1);
  g_assert_true (_gpu_point_is_pending (&point));
  _gpu_point_clear (&point);
  g_assert_false (_gpu_point_is_pending (&point));
}

/* Waits that end early leave no waiters behind. */
static void
timeline_abandoned_waits (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) behind = NULL;
  GpuTimeline *timeline = timeline_of (stream);

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  gate = test_gate (fixture, stream);
  fill (stream, buffer);
  behind = test_record (stream);
  for (guint i = 0; i < 2 * N_WORK; i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_false (gpu_event_wait_timeout (i % 2 == 0 ? behind : gate, i % 8, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_TIMED_OUT);
    }
  _gpu_timeline_lock (timeline);
  g_assert_cmpuint (timeline->waiters.length, ==, 0);
  g_assert_cmpuint (timeline->fences.length, <=, 2);
  g_assert_cmpuint (timeline->jobs->len, <=, 2);
  _gpu_timeline_unlock (timeline);
  g_assert_cmpuint (_gpu_event_get_user (gate)->waiters.length, ==, 0);
  test_open (gate);
}

/* --- failures -------------------------------------------------------------------------- */

static void
fail_once (TestFixture *fixture, GpuStream *stream, guint i, GpuEvent **failed, GpuEvent **good)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) gate = test_gate (fixture, stream);
  g_autofree char *message = g_strdup_printf ("failure %u", i);

  fill (stream, buffer);
  if (failed != NULL)
    *failed = test_record (stream);
  test_assert_ok (gpu_event_fail (gate, message, &error), error);
  g_assert_false (gpu_stream_synchronize (stream, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, message);
  fill (stream, buffer);
  test_synchronize (stream);
  if (good != NULL)
    *good = test_record (stream);
}

/* The timeline keeps a limited number of failures for later queries. */
static void
timeline_bounded_failures (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuEvent) failed = NULL;
  g_autoptr (GpuEvent) good = NULL;
  GpuTimeline *timeline = timeline_of (stream);

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  for (guint i = 0; i < 4000; i++)
    fail_once (fixture, stream, i, i == 7 ? &failed : NULL, i == 9 ? &good : NULL);
  _gpu_timeline_lock (timeline);
  g_assert_cmpuint (timeline->failures->len, >=, 1024);
  g_assert_cmpuint (timeline->failures->len, <, 2500);
  _gpu_timeline_unlock (timeline);
  g_assert_cmpint (gpu_event_query (failed, &error), ==, GPU_EVENT_STATUS_FAILED);
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "failure 7");
  g_assert_cmpint (gpu_event_query (good, &error), ==, GPU_EVENT_STATUS_COMPLETE);
  g_assert_no_error (error);
}

static void
record_failure (GpuTimeline *timeline, guint64 seq)
{
  _gpu_timeline_lock (timeline);
  _gpu_timeline_fail_locked (timeline, seq - 1, seq,
                             g_error_new (GPU_ERROR, GPU_ERROR_FAILED, "failure at %u",
                                          (guint) seq));
  _gpu_timeline_unlock (timeline);
}

/* The timeline keeps the failures that were recorded last, even if they belong to earlier work than
 * other failures: an operation may fail long after operations that were submitted later. */
static void
timeline_keeps_late_failures (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  GpuTimeline *timeline = timeline_of (stream);

  for (guint i = 0; i < 5000; i++)
    {
      guint64 seq = 2 * (5000 - i);
      g_autofree char *message = g_strdup_printf ("failure at %u", (guint) seq);

      record_failure (timeline, seq);
      g_assert_false (_gpu_timeline_check (timeline, seq, &error));
      test_assert_gpu_error (error, GPU_ERROR_FAILED, message);
      g_clear_error (&error);
    }
  for (guint64 seq = 2; seq < 2 * 1000; seq += 2)
    g_assert_false (_gpu_timeline_check (timeline, seq, NULL));
  g_assert_true (_gpu_timeline_check (timeline, 3, NULL));
  g_assert_cmpuint (timeline->failures->len, <, 2500);
}

/* A fence shows the completion of all work before it. The library therefore records no second fence
 * to wait for earlier work. */
static void
timeline_shares_fences (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuFence) first = NULL;
  g_autoptr (GpuFence) second = NULL;
  g_autoptr (GpuFence) later = NULL;
  g_autoptr (GpuFence) reached = NULL;
  GpuTimeline *timeline = timeline_of (stream);

  for (guint i = 0; i < 10; i++)
    fill (stream, buffer);
  test_assert_ok (_gpu_timeline_get_fence (timeline, 10, &first, &error), error);
  test_assert_ok (_gpu_timeline_get_fence (timeline, 5, &second, &error), error);
  g_assert_nonnull (first);
  g_assert_true (first == second);
  fill (stream, buffer);
  test_assert_ok (_gpu_timeline_get_fence (timeline, 11, &later, &error), error);
  g_assert_true (later != first);
  test_synchronize (stream);
  test_assert_ok (_gpu_timeline_get_fence (timeline, 11, &reached, &error), error);
  g_assert_null (reached);
}

/* --- the work of one thread ------------------------------------------------------------ */

/* A stream on which a thread submits work until it is stopped. */
typedef struct
{
  GpuStream *stream;
  GpuBuffer *buffer;
  gint       stop;                  /* atomic */
  gint       n;                     /* atomic; submissions */
} Busy;

static gpointer
submit_until_stopped (gpointer data)
{
  Busy *busy = data;

  while (!g_atomic_int_get (&busy->stop))
    {
      fill (busy->stream, busy->buffer);
      if (g_atomic_int_add (&busy->n, 1) % 64 == 0)
        test_synchronize (busy->stream);
    }

  return NULL;
}

static gpointer
submit_once (gpointer data)
{
  Busy *busy = data;

  fill (busy->stream, busy->buffer);
  return NULL;
}

/* Stores the number that the operation gets. The caller of the operation holds the lock of the
 * timeline. */
typedef struct
{
  GpuTimeline *timeline;
  guint64      seq;
} Numbered;

static gboolean
run_numbered (gconstpointer     operation,
              GpuNativeStream  *stream G_GNUC_UNUSED,
              GpuNativeEvent  **event G_GNUC_UNUSED,
              GError          **error G_GNUC_UNUSED)
{
  Numbered *numbered = (Numbered *) operation;

  numbered->seq = numbered->timeline->submitted + 1;
  return TRUE;
}

static guint64
submit_numbered (GpuTimeline *timeline)
{
  g_autoptr (GError) error = NULL;
  Numbered numbered = { timeline, 0 };
  const GpuSubmission submission = { .function = "test", .run = run_numbered,
                                     .operation = &numbered };

  test_assert_ok (_gpu_submit (timeline, &submission, NULL, &error), error);
  return numbered.seq;
}

/* A call learns the numbers of its own submissions, also while other threads submit work. */
static void
timeline_own_numbers (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  GpuTimeline *timeline = timeline_of (stream);
  Busy busy = { stream, buffer, FALSE, 0 };
  GThread *thread = g_thread_new ("busy", submit_until_stopped, &busy);

  while (g_atomic_int_get (&busy.n) == 0)
    g_thread_yield ();
  for (guint i = 0; i < N_WORK; i++)
    {
      g_auto (GpuHostWait) wait = { NULL };
      guint64 first;

      _gpu_host_wait_begin (&wait, timeline);
      g_assert_cmpuint (wait.work.last, ==, 0);
      first = submit_numbered (timeline);
      g_assert_cmpuint (wait.work.first, ==, first);
      g_assert_cmpuint (wait.work.last, ==, first);
      g_thread_join (g_thread_new ("once", submit_once, &busy));
      g_assert_cmpuint (wait.work.last, ==, first);
      g_assert_cmpuint (submit_numbered (timeline), ==, wait.work.last);
      g_assert_cmpuint (wait.work.first, ==, first);
      test_assert_ok (_gpu_host_wait_block (&wait, NULL, &error), error);
      g_assert_true (_gpu_timeline_is_complete (timeline, wait.work.last));
    }
  g_atomic_int_set (&busy.stop, TRUE);
  g_thread_join (thread);
  g_assert_cmpuint (timeline->watches.length, ==, 0);
}

/* The caller of a copy that the driver makes during the call also knows its point. Otherwise, a
 * call would wait for work that other threads submit afterwards. */
static void
timeline_immediate_number (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GError) error = NULL;
  GpuTimeline *timeline = timeline_of (stream);
  const guint8 data[SIZE] = { 7 };

  for (guint i = 0; i < 2; i++)
    {
      GpuPending pending = { NULL, 0 };

      test_assert_ok (_gpu_timeline_write (timeline, "test", GPU_MEMORY (buffer), 0, data, SIZE,
                                           NULL, &pending, &error), error);
      g_assert_cmpuint (pending.covers, ==, _gpu_timeline_get_submitted (timeline));
      test_assert_ok (_gpu_pending_wait (&pending, timeline, &error), error);
      g_assert_true (_gpu_timeline_is_complete (timeline, pending.covers));
    }
}

/* A scope has the work of the scopes within it, but not work of other streams. */
static void
timeline_nested_numbers (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  GpuTimeline *timeline = timeline_of (stream);
  g_auto (GpuHostWait) outer = { NULL };

  _gpu_host_wait_begin (&outer, timeline);
  fill (stream, buffer);
  {
    g_auto (GpuHostWait) inner = { NULL };
    g_auto (GpuHostWait) apart = { NULL };

    _gpu_host_wait_begin (&inner, timeline);
    _gpu_host_wait_begin (&apart, timeline_of (other));
    fill (stream, buffer);
    fill (other, buffer);
    fill (stream, buffer);
    g_assert_cmpuint (inner.work.first, ==, 2);
    g_assert_cmpuint (inner.work.last, ==, 3);
    g_assert_cmpuint (apart.work.first, ==, 1);
    g_assert_cmpuint (apart.work.last, ==, 1);
  }
  fill (stream, buffer);
  g_assert_cmpuint (outer.work.first, ==, 1);
  g_assert_cmpuint (outer.work.last, ==, 4);
}

static void
on_waited (gpointer data, const GError *error)
{
  g_atomic_pointer_set ((gpointer *) data, g_error_copy (error));
}

/* Any thread that notices the completion of the work may call on_waited(). */
static GError *
await_error (gpointer *error)
{
  gint64 deadline = g_get_monotonic_time () + TEST_DEADLINE * G_USEC_PER_SEC;

  while (g_atomic_pointer_get (error) == NULL)
    {
      g_assert_cmpint (g_get_monotonic_time (), <, deadline);
      g_usleep (1000);
    }

  return g_atomic_pointer_get (error);
}

/* A call that consists of several operations fails if one of them fails, although later ones
 * succeed. The failure is known until the call ends, even if thousands of failures follow. */
static void
timeline_own_failure (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GError) failure = NULL;
  gpointer waited = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) gate = NULL;
  GpuTimeline *timeline = timeline_of (stream);
  g_auto (GpuHostWait) wait = { NULL };

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  gate = test_gate (fixture, stream);
  _gpu_host_wait_begin (&wait, timeline);
  fill (stream, buffer);
  test_assert_ok (gpu_event_fail (gate, "of this call", &error), error);
  g_assert_false (gpu_stream_synchronize (stream, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "of this call");
  fill (stream, buffer);
  g_assert_cmpuint (wait.work.last, >, wait.work.first);
  test_assert_ok (_gpu_timeline_wait (timeline, wait.work.last, &error), error);

  for (guint i = 1; i <= 5000; i++)
    record_failure (timeline, wait.work.last + 2 * i);
  g_assert_false (_gpu_host_wait_block (&wait, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "of this call");
  test_assert_ok (_gpu_host_wait_notify (&wait, on_waited, &waited, &error), error);
  failure = await_error (&waited);
  test_assert_gpu_error (failure, GPU_ERROR_FAILED, "of this call");
}

/* The same for a function that is called when the work has completed. */
static void
timeline_own_failure_later (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GError) failure = NULL;
  gpointer waited = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) gate = NULL, second = NULL;
  GpuTimeline *timeline = timeline_of (stream);
  g_auto (GpuHostWait) wait = { NULL };

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  gate = test_gate (fixture, stream);
  _gpu_host_wait_begin (&wait, timeline);
  fill (stream, buffer);
  test_assert_ok (gpu_event_fail (gate, "of this call", &error), error);
  g_assert_false (gpu_stream_synchronize (stream, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "of this call");
  second = test_gate (fixture, stream);
  fill (stream, buffer);
  test_assert_ok (_gpu_host_wait_notify (&wait, on_waited, &waited, &error), error);
  _gpu_host_wait_end (&wait);
  g_assert_null (g_atomic_pointer_get (&waited));
  test_open (second);
  test_synchronize (stream);
  failure = await_error (&waited);
  test_assert_gpu_error (failure, GPU_ERROR_FAILED, "of this call");
}

/* --- retained objects ------------------------------------------------------------------ */

static void
wait_for_retained (GpuTimeline *timeline, guint most)
{
  gint64 deadline = g_get_monotonic_time () + TEST_DEADLINE * G_USEC_PER_SEC;

  while (n_retained (timeline) > most)
    {
      g_assert_cmpint (g_get_monotonic_time (), <, deadline);
      g_usleep (1000);
    }
}

/* A stream releases the objects of completed work when their number or size exceeds a bound, even
 * if no thread waits for the work. */
static void
timeline_releases_retained (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) large = test_buffer (fixture, 16 << 20);
  g_autoptr (GBytes) bytes = test_value_bytes (SIZE, 1);
  g_autoptr (GBytes) many = test_value_bytes (16 << 20, 1);
  GpuTimeline *timeline = timeline_of (stream);

  for (guint i = 0; i < 10000; i++)
    test_assert_ok (gpu_stream_write (stream, GPU_MEMORY (buffer), 0, bytes, &error), error);
  wait_for_retained (timeline, 5000);

  for (guint i = 0; i < 8; i++)
    test_assert_ok (gpu_stream_write (stream, GPU_MEMORY (large), 0, many, &error), error);
  wait_for_retained (timeline, 16);
}

static void
count (gpointer data)
{
  g_atomic_int_inc ((int *) data);
}

static void
timeline_keeps_bytes (TestFixture *fixture)
{
  static const guint8 data[SIZE] = { 3 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GBytes) bytes = NULL;
  int n_freed = 0;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  gate = test_gate (fixture, stream);
  bytes = g_bytes_new_with_free_func (data, SIZE, count, &n_freed);
  test_assert_ok (gpu_stream_write (stream, GPU_MEMORY (buffer), 0, bytes, &error), error);
  g_clear_pointer (&bytes, g_bytes_unref);
  g_assert_cmpint (g_atomic_int_get (&n_freed), ==, 0);
  g_assert_cmpuint (n_retained (timeline_of (stream)), >=, 1);
  test_open (gate);
  test_synchronize (stream);
  g_assert_cmpint (g_atomic_int_get (&n_freed), ==, 1);
}

/* --- waiters ------------------------------------------------------------------------------ */

typedef struct
{
  GMutex lock;
  GCond  cond;
  guint  n_good;
  guint  n_bad;
} Tally;

static void
tally (gpointer data, const GError *error)
{
  Tally *result = data;

  g_mutex_lock (&result->lock);
  if (error == NULL)
    result->n_good++;
  else
    result->n_bad++;
  g_cond_signal (&result->cond);
  g_mutex_unlock (&result->lock);
}

static void
tally_wait (Tally *result, guint n)
{
  gint64 deadline = g_get_monotonic_time () + TEST_DEADLINE * G_USEC_PER_SEC;

  g_mutex_lock (&result->lock);
  while (result->n_good + result->n_bad < n)
    g_assert_true (g_cond_wait_until (&result->cond, &result->lock, deadline));
  g_mutex_unlock (&result->lock);
}

static void
timeline_notifies (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  Tally result = { .n_good = 0 };

  g_mutex_init (&result.lock);
  g_cond_init (&result.cond);
  for (guint i = 1; i <= 100; i++)
    {
      fill (stream, buffer);
      test_assert_ok (_gpu_timeline_notify (timeline_of (stream), i, tally, &result, &error),
                      error);
    }
  tally_wait (&result, 100);
  g_assert_cmpuint (result.n_good, ==, 100);
  g_assert_true (_gpu_timeline_is_complete (timeline_of (stream), 100));
  test_assert_ok (_gpu_timeline_notify (timeline_of (stream), 50, tally, &result, &error), error);
  g_assert_cmpuint (result.n_good, ==, 101);
  g_mutex_clear (&result.lock);
  g_cond_clear (&result.cond);
}

static void
timeline_user_event (TestFixture *fixture)
{
  g_autoptr (GError) failure = g_error_new_literal (GPU_ERROR, GPU_ERROR_FAILED, "no");
  g_autoptr (GError) error = NULL;
  GpuUserEvent *event = _gpu_user_event_new (_gpu_context_get_native (fixture->context));
  Tally result = { .n_good = 0 };

  g_mutex_init (&result.lock);
  g_cond_init (&result.cond);
  for (guint i = 0; i < 3; i++)
    _gpu_user_event_notify (event, tally, &result);
  g_assert_cmpuint (result.n_bad, ==, 0);
  test_assert_ok (_gpu_user_event_set (event, failure, &error), error);
  g_assert_cmpuint (result.n_bad, ==, 3);
  _gpu_user_event_notify (event, tally, &result);
  g_assert_cmpuint (result.n_bad, ==, 4);
  g_assert_cmpint (_gpu_user_event_query (event, &error), ==, GPU_EVENT_STATUS_FAILED);
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "no");
  _gpu_user_event_unref (event);
  g_mutex_clear (&result.lock);
  g_cond_clear (&result.cond);
}

/* --- maps and released memory --------------------------------------------------------------- */

/* Maps @buffer, whose bytes are 1, and returns how many fences the map adds. */
static guint
count_map_fences (GpuStream *stream, GpuBuffer *buffer)
{
  guint8 expected[SIZE];
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  guint n;

  memset (expected, 1, SIZE);
  fill (stream, buffer);
  test_synchronize (stream);
  g_assert_cmpuint (n_fences (timeline_of (stream)), ==, 0);
  mapping = gpu_stream_map (stream, GPU_MEMORY (buffer), GPU_MAP_FLAGS_READ, 0, SIZE, &error);
  g_assert_no_error (error);
  n = n_fences (timeline_of (stream));
  test_synchronize (stream);
  test_assert_mem (gpu_mapping_get_data (mapping), expected, SIZE);
  test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
  test_synchronize (stream);
  return n;
}

/* The event of a map is the fence for which the caller waits, so the wait records no other. A
 * stream whose driver waits without fences adds none, and neither does a stream that keeps the
 * event of each command for the profile. */
static void
timeline_map_keeps_fence (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuStream) profiled = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) other = NULL;
  gboolean waits_without;

  if (!test_has (fixture, GPU_CAPABILITIES_MAP))
    return;
  stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  buffer = test_buffer (fixture, SIZE);
  waits_without = timeline_of (stream)->context->backend->stream->finish_reports_failure;
  g_assert_cmpuint (count_map_fences (stream, buffer), ==, waits_without ? 0 : 1);
  if (!test_has (fixture, GPU_CAPABILITIES_PROFILING))
    return;
  profiled = test_stream (fixture, GPU_STREAM_FLAGS_PROFILING);
  other = test_buffer (fixture, SIZE);
  g_assert_cmpuint (count_map_fences (profiled, other), ==, 0);
}

/* Points that the device has completed are retired without a wait, as the last release of memory
 * does before it frees the memory. Pending points are not, so memory that pending work reads
 * remains. */
static void
timeline_retires_completed (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GBytes) got = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) gate = NULL;
  GpuTimeline *timeline = timeline_of (stream);
  GpuBuffer *source;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS)
      || timeline->context->backend->stream->set_capture_rule != NULL)
    return;
  fill (stream, buffer);
  test_poll (_gpu_timeline_try_retire (timeline, timeline->submitted));
  g_assert_cmpuint (timeline->completed, ==, timeline->submitted);

  source = test_buffer_from (fixture, bytes);
  gate = test_gate (fixture, stream);
  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (buffer), 0, GPU_MEMORY (source), 0, SIZE,
                                   &error), error);
  g_assert_false (_gpu_timeline_try_retire (timeline, timeline->submitted));
  g_object_unref (source);
  test_open (gate);
  got = gpu_buffer_read_bytes (buffer, stream, 0, SIZE, NULL, &error);
  g_assert_no_error (error);
  test_assert_bytes (got, bytes);
}

/* --- calls of the driver --------------------------------------------------------------------- */

static void
timeline_driver_calls (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuEvent) event = NULL;
  guint64 before;

  if (!test_is_opencl (fixture) || gpumem_layer_symbol ("gpumem_layer_get_count") == NULL)
    {
      g_test_skip ("runs as a part of driver-calls, on OpenCL under the layer");
      return;
    }
  stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  buffer = test_buffer (fixture, SIZE);
  GPUMEM_LAYER (reset_counts) ();
  for (guint i = 0; i < N_WORK; i++)
    fill (stream, buffer);
  g_assert_cmpuint (GPUMEM_LAYER (get_count) ("clEnqueueFillBuffer"), ==, N_WORK);
  g_assert_cmpuint (GPUMEM_LAYER (get_count) (""), ==, N_WORK);

  /* If no thread waits for an event, the library makes no driver call for the event */
  before = GPUMEM_LAYER (get_count) ("");
  for (guint i = 0; i < N_WORK; i++)
    g_object_unref (test_record (stream));
  g_assert_cmpuint (GPUMEM_LAYER (get_count) (""), ==, before);

  /* The first wait needs one event of the driver, and later calls need no driver call */
  event = test_record (stream);
  test_assert_ok (gpu_event_wait (event, NULL, &error), error);
  g_assert_cmpuint (GPUMEM_LAYER (get_count) ("clEnqueueMarkerWithWaitList"), ==, 1);
  g_assert_cmpuint (GPUMEM_LAYER (get_count) ("clWaitForEvents"), ==, 1);
  before = GPUMEM_LAYER (get_count) ("");
  test_assert_ok (gpu_event_wait (event, NULL, &error), error);
  g_assert_cmpint (gpu_event_query (event, &error), ==, GPU_EVENT_STATUS_COMPLETE);
  g_assert_cmpuint (GPUMEM_LAYER (get_count) (""), ==, before);
}

/* --- device loss --------------------------------------------------------------------------- */

typedef struct
{
  GpuEvent *event;
  gint64    start;
} LostWaiter;

static gpointer
wait_for_lost (gpointer data)
{
  LostWaiter *waiter = data;
  g_autoptr (GError) error = NULL;

  g_assert_false (gpu_event_wait (waiter->event, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST);
  g_assert_cmpint (g_get_monotonic_time () - waiter->start, <, TEST_DEADLINE * G_USEC_PER_SEC);
  return NULL;
}

static void
on_lost (GpuContext *context, GError *error, gpointer user_data)
{
  g_assert_error (error, GPU_ERROR, GPU_ERROR_DEVICE_LOST);
  g_assert_true (gpu_context_is_lost (context));
  g_assert_true (g_main_context_is_owner (g_main_context_default ()));
  (*(guint *) user_data)++;
}

/* All waiters get an error; after that all calls fail, and all objects can be freed. */
static void
timeline_lost (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GAsyncResult) waited = NULL;
  g_autoptr (GAsyncResult) synchronized = NULL;
  GThread *threads[4];
  LostWaiter waiter;
  guint n_lost = 0;

  if (!test_is_opencl (fixture) || gpumem_layer_symbol ("gpumem_layer_set_fail") == NULL)
    {
      g_test_skip ("runs as a part of device-lost, on OpenCL under the layer");
      return;
    }
  g_signal_connect (fixture->context, "lost", G_CALLBACK (on_lost), &n_lost);
  stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  buffer = test_buffer (fixture, SIZE);
  fill (stream, buffer);
  waiter.event = test_record (stream);
  waiter.start = g_get_monotonic_time ();
  g_assert_true (GPUMEM_LAYER (set_fail) ("lost=1"));

  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("lost", wait_for_lost, &waiter);
  gpu_event_wait_async (waiter.event, NULL, test_take_result, &waited);
  gpu_stream_synchronize_async (stream, NULL, test_take_result, &synchronized);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  g_assert_false (gpu_event_wait_finish (waiter.event, test_await (&waited), &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST);
  g_assert_false (gpu_stream_synchronize_finish (stream, test_await (&synchronized), &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST);
  g_assert_cmpint (g_get_monotonic_time () - waiter.start, <, TEST_DEADLINE * G_USEC_PER_SEC);

  g_assert_true (gpu_context_is_lost (fixture->context));
  g_assert_null (gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST);
  g_assert_null (gpu_buffer_read_bytes (buffer, NULL, 0, SIZE, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_cmpuint (n_lost, ==, 1);
  g_object_unref (waiter.event);
}

#ifdef HAVE_CUDA
static gpointer
run_wait (gpointer data)
{
  GpuTimeline *timeline = data;
  g_autoptr (GError) error = NULL;

  test_assert_ok (_gpu_timeline_wait (timeline, _gpu_timeline_get_submitted (timeline), &error),
                  error);
  return NULL;
}

typedef struct
{
  GpuStream *stream;
  gint       is_dropping;           /* atomic */
  gint       has_completed;         /* atomic; whether the work of the stream could complete */
} Dropped;

static gpointer
drop_stream (gpointer data)
{
  Dropped *dropped = data;

  g_atomic_int_set (&dropped->is_dropping, TRUE);
  g_object_unref (dropped->stream);
  g_assert_true (g_atomic_int_get (&dropped->has_completed));
  return NULL;
}

/* A waiting thread that cannot record a fence finishes the stream instead. The program may destroy
 * a borrowed stream once its last object is dropped, so dropping the object waits for that
 * thread. */
static void
timeline_borrowed_ends_after_wait (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) owner = NULL;
  g_autoptr (GpuStream) borrowed = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuTimeline) timeline = NULL;
  g_autoptr (TestHold) hold = NULL;
  Dropped dropped = { NULL, FALSE, FALSE };
  GThread *thread, *dropper;
  guint64 n_finished;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE) || !test_can_hold (fixture))
    return;
  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_get_count") == NULL)
    {
      g_test_skip ("only the stand-in driver fails on demand");
      return;
    }

  owner = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  borrowed = gpu_stream_new_wrapped (fixture->context, gpu_stream_get_native_handle (owner),
                                     GPU_WRAP_MODE_BORROW, &error);
  g_assert_no_error (error);
  timeline = _gpu_timeline_ref (timeline_of (borrowed));
  buffer = test_buffer (fixture, SIZE);
  hold = test_hold (owner);
  fill (borrowed, buffer);
  g_assert_false (_gpu_timeline_is_complete (timeline, _gpu_timeline_get_submitted (timeline)));
  n_finished = GPUMEM_CUDA_DRIVER (get_count) ("cu*Synchronize");
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) ("cuEventCreate:1"));
  thread = g_thread_new ("wait", run_wait, timeline);
  while (GPUMEM_CUDA_DRIVER (get_count) ("cu*Synchronize") == n_finished)
    g_usleep (200);

  dropped.stream = g_steal_pointer (&borrowed);
  dropper = g_thread_new ("drop", drop_stream, &dropped);
  while (!g_atomic_int_get (&dropped.is_dropping))
    g_usleep (200);
  /* Only a library with a fault ends the use of the stream in this time. */
  g_usleep (20000);
  g_atomic_int_set (&dropped.has_completed, TRUE);
  test_hold_release (hold);
  g_thread_join (dropper);
  g_thread_join (thread);
  _gpu_timeline_lock (timeline);
  g_assert_true (timeline->is_ended);
  _gpu_timeline_unlock (timeline);
  g_assert_true (_gpu_timeline_is_complete (timeline, _gpu_timeline_get_submitted (timeline)));
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (""));
}

/* If no fence can be recorded when the stream is dropped, the library waits until the stream is
 * idle, so the result of its work is known at once. */
static GpuEvent *
drop_borrowed (TestFixture *fixture, const char *fault)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) owner = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) borrowed = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  GpuEvent *event;

  borrowed = gpu_stream_new_wrapped (fixture->context, gpu_stream_get_native_handle (owner),
                                     GPU_WRAP_MODE_BORROW, &error);
  g_assert_no_error (error);
  fill (borrowed, buffer);
  event = test_record (borrowed);
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (fault));
  g_clear_object (&borrowed);
  return event;
}

static void
timeline_borrowed_result_known (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuEvent) good = NULL;
  g_autoptr (GpuEvent) bad = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") == NULL)
    {
      g_test_skip ("only the stand-in driver fails on demand");
      return;
    }

  good = drop_borrowed (fixture, "cuEventCreate:1:2:0");
  test_assert_ok (gpu_event_wait (good, NULL, &error), error);
  g_assert_cmpint (gpu_event_query (good, &error), ==, GPU_EVENT_STATUS_COMPLETE);

  bad = drop_borrowed (fixture, "lost:1");
  g_assert_false (gpu_event_wait (bad, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST, "CUDA_ERROR_LAUNCH_FAILED");
  g_assert_true (gpu_context_is_lost (fixture->context));
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (""));
}
#endif

static void
timeline_run_driver_calls (TestFixture *fixture)
{
  test_run_under_layer (fixture, "driver-calls");
}

static void
timeline_run_device_lost (TestFixture *fixture)
{
  test_run_under_layer (fixture, "device-lost");
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("counts", timeline_counts);
  test_add ("points", timeline_points);
  test_add ("lock-bias", timeline_lock_bias);
  test_add ("lock-bias-busy", timeline_lock_bias_busy);
  test_add ("keeps-lock-bias", timeline_keeps_lock_bias);
  test_add ("idle-stream-needs-no-fence", timeline_idle_stream_needs_no_fence);
  test_add ("abandoned-waits", timeline_abandoned_waits);
  test_add ("bounded-failures", timeline_bounded_failures);
  test_add ("keeps-late-failures", timeline_keeps_late_failures);
  test_add ("own-numbers", timeline_own_numbers);
  test_add ("immediate-number", timeline_immediate_number);
  test_add ("nested-numbers", timeline_nested_numbers);
  test_add ("own-failure", timeline_own_failure);
  test_add ("own-failure-later", timeline_own_failure_later);
  test_add ("shares-fences", timeline_shares_fences);
  test_add ("releases-retained", timeline_releases_retained);
  test_add ("keeps-bytes", timeline_keeps_bytes);
  test_add ("notifies", timeline_notifies);
  test_add ("user-event", timeline_user_event);
  test_add ("map-keeps-fence", timeline_map_keeps_fence);
  test_add ("retires-completed", timeline_retires_completed);
  test_add ("driver-calls", timeline_run_driver_calls);
  test_add ("device-lost", timeline_run_device_lost);
#ifdef HAVE_CUDA
  test_add ("borrowed-ends-after-wait", timeline_borrowed_ends_after_wait);
  test_add ("borrowed-result-known", timeline_borrowed_result_known);
#endif
  test_add ("subprocess/driver-calls", timeline_driver_calls);
  test_add ("subprocess/device-lost", timeline_lost);
  return test_run ();
}

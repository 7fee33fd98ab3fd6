/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Many threads on one context: with a stream for each thread, with one shared stream, and with
 * shared objects. */
#include "config.h"

#include <sys/resource.h>
#include <unistd.h>

#include "test-util.h"

#define N_THREADS 8
#define N_ROUNDS 200
#define SIZE 4096
#define NOBODY 65534

typedef struct
{
  TestFixture *fixture;
  GpuStream   *stream;              /* shared; NULL: each thread has its own */
  GpuBuffer   *buffer;
  guint        number;
} Worker;

static void
run_workers (Worker *workers, GThreadFunc func)
{
  GThread *threads[N_THREADS];

  for (guint i = 0; i < N_THREADS; i++)
    {
      workers[i].number = i;
      threads[i] = g_thread_new ("worker", func, &workers[i]);
    }
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
}

/* Creates, fills, copies, reads, compares and releases buffers. Each thread has its own values. */
static gpointer
work (gpointer data)
{
  Worker *worker = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = worker->stream != NULL ? g_object_ref (worker->stream)
                                 : test_stream (worker->fixture, GPU_STREAM_FLAGS_NONE);

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      guint8 value = (guint8) (worker->number * 31 + i);
      g_autoptr (GpuBuffer) a = test_buffer (worker->fixture, SIZE);
      g_autoptr (GpuBuffer) b = test_buffer (worker->fixture, SIZE);
      g_autoptr (GBytes) bytes = NULL;

      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (a), 0, SIZE, &value, 1, &error), error);
      test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (b), 0, GPU_MEMORY (a), 0, SIZE,
                                       &error), error);
      bytes = gpu_buffer_read_bytes (b, stream, 0, SIZE, NULL, &error);
      g_assert_no_error (error);
      test_assert_value (g_bytes_get_data (bytes, NULL), value, SIZE);
      if (i % 3 == 0)
        gpu_memory_release (GPU_MEMORY (a));
    }
  return NULL;
}

static void
threads_own_streams (TestFixture *fixture)
{
  Worker workers[N_THREADS] = { { NULL } };

  for (guint i = 0; i < N_THREADS; i++)
    workers[i].fixture = fixture;
  run_workers (workers, work);
}

static void
threads_one_stream (TestFixture *fixture)
{
  Worker workers[N_THREADS] = { { NULL } };
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);

  for (guint i = 0; i < N_THREADS; i++)
    {
      workers[i].fixture = fixture;
      workers[i].stream = stream;
    }
  run_workers (workers, work);
  g_assert_cmpuint (test_get_number (stream, "n-submitted"), >=, N_THREADS * N_ROUNDS * 2);
}

/* Copies a source that all threads share. One of the threads also rewrites the source with the same
 * content. */
static gpointer
share (gpointer data)
{
  Worker *worker = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (worker->fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) own = test_buffer (worker->fixture, SIZE);
  g_autoptr (GBytes) content = NULL;
  guint8 value = 0x5a;

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      if (worker->number == 0)
        test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (worker->buffer), 0, SIZE, &value, 1,
                                         &error), error);
      test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (own), 0, GPU_MEMORY (worker->buffer), 0,
                                       SIZE, &error), error);
    }
  content = gpu_buffer_read_bytes (own, stream, 0, SIZE, NULL, &error);
  g_assert_no_error (error);
  test_assert_value (g_bytes_get_data (content, NULL), value, SIZE);
  return NULL;
}

static void
threads_one_buffer (TestFixture *fixture)
{
  Worker workers[N_THREADS] = { { NULL } };
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 0x5a);

  for (guint i = 0; i < N_THREADS; i++)
    {
      workers[i].fixture = fixture;
      workers[i].buffer = buffer;
    }
  run_workers (workers, share);
}

static gpointer
create_streams (gpointer data)
{
  Worker *worker = data;

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      g_autoptr (GpuStream) stream = test_stream (worker->fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GError) error = NULL;

      test_assert_ok (gpu_context_synchronize (worker->fixture->context, &error), error);
    }
  return NULL;
}

/* Waits for the context see streams that other threads are creating. */
static void
threads_create_streams (TestFixture *fixture)
{
  Worker workers[N_THREADS] = { { NULL } };

  for (guint i = 0; i < N_THREADS; i++)
    workers[i].fixture = fixture;
  run_workers (workers, create_streams);
}

static void
count (gpointer data)
{
  g_atomic_int_inc ((int *) data);
}

/* Uses memory that other threads release: each use succeeds or fails with GPU_ERROR_RELEASED. */
static gpointer
release_and_use (gpointer data)
{
  Worker *worker = data;
  guint8 byte = 1;

  for (guint i = 0; i < 20; i++)
    {
      g_autoptr (GError) error = NULL;

      if (worker->number == N_THREADS - 1 && i == 10)
        gpu_memory_release (GPU_MEMORY (worker->buffer));
      if (gpu_stream_fill (worker->stream, GPU_MEMORY (worker->buffer), 0, SIZE, &byte, 1, &error))
        continue;
      test_assert_gpu_error (error, GPU_ERROR_RELEASED);
      gpu_memory_release (GPU_MEMORY (worker->buffer));
    }
  return NULL;
}

static void
threads_release (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);

  for (guint round = 0; round < 20; round++)
    {
      Worker workers[N_THREADS] = { { NULL } };
      g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
      int n_released = 0;

      g_signal_connect_swapped (buffer, "released", G_CALLBACK (count), &n_released);
      for (guint i = 0; i < N_THREADS; i++)
        {
          workers[i].fixture = fixture;
          workers[i].buffer = buffer;
          workers[i].stream = i % 2 == 0 ? stream : fixture->stream;
        }
      run_workers (workers, release_and_use);
      g_assert_cmpint (n_released, ==, 1);
    }
}

/* Each thread creates and destroys contexts with objects in them. */
static gpointer
use_own_contexts (gpointer data)
{
  Worker *worker = data;

  for (guint i = 0; i < 10; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuContext) context = gpu_context_new (worker->fixture->device,
                                                        GPU_CONTEXT_FLAGS_NONE, &error);
      TestFixture fixture = { worker->fixture->device, context, NULL };
      g_autoptr (GpuBuffer) buffer = NULL;
      g_autoptr (GBytes) content = NULL;

      g_assert_no_error (error);
      buffer = test_buffer_filled (&fixture, SIZE, (guint8) i);
      content = test_content (buffer);
      test_assert_value (g_bytes_get_data (content, NULL), (guint8) i, SIZE);
    }
  return NULL;
}

static void
threads_contexts (TestFixture *fixture)
{
  Worker workers[N_THREADS] = { { NULL } };

  for (guint i = 0; i < N_THREADS; i++)
    workers[i].fixture = fixture;
  run_workers (workers, use_own_contexts);
}

/* All threads wait for the same events and for the same stream. */
static gpointer
wait_for_all (gpointer data)
{
  Worker *worker = data;
  guint8 value = (guint8) worker->number;

  for (guint i = 0; i < 50; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuEvent) event = NULL;

      test_assert_ok (gpu_stream_fill (worker->stream, GPU_MEMORY (worker->buffer), 0, SIZE,
                                       &value, 1, &error), error);
      event = test_record (worker->stream);
      if (i % 2 == 0)
        test_assert_ok (gpu_event_wait (event, NULL, &error), error);
      else
        test_synchronize (worker->stream);
      g_assert_cmpint (gpu_event_query (event, &error), ==, GPU_EVENT_STATUS_COMPLETE);
    }
  return NULL;
}

static void
threads_shared_waits (TestFixture *fixture)
{
  Worker workers[N_THREADS] = { { NULL } };
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);

  for (guint i = 0; i < N_THREADS; i++)
    {
      workers[i].fixture = fixture;
      workers[i].stream = fixture->stream;
      workers[i].buffer = buffer;
    }
  run_workers (workers, wait_for_all);
}

typedef struct
{
  GpuStream *streams[2];
  GpuBuffer *buffers[2];
  GRWLock    lock;                  /* while locked for writing, no thread submits */
  gint       wanted;                /* atomic; asks readers to unlock for a writer */
  gint       n_users;               /* atomic */
  gint       done;                  /* atomic */
} Failing;

static gpointer
use_failing (gpointer data)
{
  Failing *failing = data;
  guint number = g_atomic_int_add (&failing->n_users, 1);
  guint8 value = 1;

  for (guint i = number; !g_atomic_int_get (&failing->done); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuEvent) event = NULL;
      GpuStream *stream = failing->streams[i % 2];

      while (g_atomic_int_get (&failing->wanted))
        g_usleep (20);
      g_rw_lock_reader_lock (&failing->lock);
      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (failing->buffers[i % 2]), 0, SIZE,
                                       &value, 1, &error), error);
      if (i % 5 == 0)
        {
          event = test_record (stream);
          gpu_event_query (event, NULL);
        }
      g_rw_lock_reader_unlock (&failing->lock);
      if (i % 64 == 0)
        gpu_stream_synchronize (stream, NULL, NULL);
    }
  return NULL;
}

/* Waits until the stream is idle, and then blocks it with a user event. Without the wait, work
 * could depend on this user event and on earlier work. If the user event failed while the earlier
 * work completed, PoCL might run the work although it must fail. */
static GpuEvent *
gate_when_idle (TestFixture *fixture, Failing *failing, GpuStream *stream)
{
  GpuEvent *gate;

  g_atomic_int_set (&failing->wanted, TRUE);
  g_rw_lock_writer_lock (&failing->lock);
  gpu_stream_synchronize (stream, NULL, NULL);
  gate = test_gate (fixture, stream);
  g_rw_lock_writer_unlock (&failing->lock);
  g_atomic_int_set (&failing->wanted, FALSE);
  return gate;
}

/* User events fail while other threads submit to the streams that wait for them. */
static void
run_failing (TestFixture *fixture, GpuStreamFlags flags)
{
  Failing failing = { { test_stream (fixture, flags), test_stream (fixture, flags) },
                      { test_buffer (fixture, SIZE), test_buffer (fixture, SIZE) } };
  g_autoptr (GBytes) expected = test_value_bytes (SIZE, 7);
  GThread *threads[3];

  g_rw_lock_init (&failing.lock);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("user", use_failing, &failing);
  for (guint i = 0; i < 100; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuEvent) gate = gate_when_idle (fixture, &failing, failing.streams[i % 2]);

      if (i % 3 == 0)
        g_usleep (100);
      if (i % 4 == 0)
        test_assert_ok (gpu_event_complete (gate, &error), error);
      else
        test_assert_ok (gpu_event_fail (gate, "on purpose", &error), error);
    }
  g_atomic_int_set (&failing.done, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GError) error = NULL;

      gpu_stream_synchronize (failing.streams[i], NULL, NULL);
      test_assert_ok (gpu_stream_fill (failing.streams[i], GPU_MEMORY (failing.buffers[i]), 0,
                                       SIZE, (const guint8 *) "\7", 1, &error), error);
      test_synchronize (failing.streams[i]);
      test_assert_content (failing.buffers[i], expected);
      g_object_unref (failing.streams[i]);
      g_object_unref (failing.buffers[i]);
    }
  g_rw_lock_clear (&failing.lock);
}

static void
threads_failures (TestFixture *fixture)
{
  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  run_failing (fixture, GPU_STREAM_FLAGS_NONE);
  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_OUT_OF_ORDER) != 0)
    run_failing (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
}

/* --- no threads ----------------------------------------------------------------------------- */

static gpointer
do_nothing (gpointer data)
{
  return data;
}

/* Limits the threads of this process and changes to an unprivileged user, so that no thread can be
 * started. Skips the test, with a reason, if the limit has no effect. */
static gboolean
forbid_threads (struct rlimit *before)
{
  struct rlimit limit;
  GThread *thread;

  if (geteuid () == 0 && (setresgid (NOBODY, NOBODY, NOBODY) != 0
                          || setresuid (NOBODY, NOBODY, NOBODY) != 0))
    {
      g_test_skip ("the process cannot change its user");
      return FALSE;
    }
  g_assert_cmpint (getrlimit (RLIMIT_NPROC, before), ==, 0);
  limit = *before;
  limit.rlim_cur = 1;
  g_assert_cmpint (setrlimit (RLIMIT_NPROC, &limit), ==, 0);
  thread = g_thread_try_new ("one more", do_nothing, NULL, NULL);
  if (thread == NULL)
    return TRUE;
  g_thread_join (thread);
  g_test_skip ("the limit of threads has no effect here");
  return FALSE;
}

static void
assert_byte (GpuStream *stream, GpuBuffer *buffer, guint8 value)
{
  g_autoptr (GError) error = NULL;
  guint8 content[SIZE];

  test_assert_ok (gpu_buffer_read (buffer, stream, 0, content, SIZE, NULL, &error), error);
  test_assert_value (content, value, SIZE);
}

/* Returns an idle stream, after all threads that it needs to execute work have been started. It has
 * no helper thread, which would wait for the work of the stream. */
static GpuStream *
started_stream (TestFixture *fixture, GpuStreamFlags flags)
{
  GpuStream *stream = test_stream (fixture, flags);
  g_autoptr (GError) error = NULL;
  g_autoptr (GAsyncResult) result = NULL;

  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_USER_EVENTS) != 0)
    {
      g_autoptr (GpuEvent) gate = test_gate (fixture, stream);

      test_open (gate);
    }
  test_synchronize (stream);
  /* GLib starts a thread for the first GTask of a process. */
  gpu_stream_synchronize_async (stream, NULL, test_take_result, &result);
  test_assert_ok (gpu_stream_synchronize_finish (stream, test_await (&result), &error), error);
  return stream;
}

/* Checks that work on a stream without a helper thread completes. */
static void
limited_work (GpuStream *stream, GpuStream *reader, GpuBuffer *buffer)
{
  g_autoptr (GError) error = NULL;

  for (guint8 value = 1; value < 100; value++)
    {
      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error),
                      error);
      test_assert_ok (gpu_stream_synchronize (stream, NULL, &error), error);
      assert_byte (reader, buffer, value);
    }
}

/* An asynchronous wait needs a thread, and fails if no thread can be started. */
static void
limited_wait (TestFixture *fixture, GpuStream *stream)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GAsyncResult) result = NULL;
  const guint8 value = 3;

  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_USER_EVENTS) == 0)
    return;
  gate = test_gate (fixture, stream);
  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error), error);
  event = test_record (stream);
  gpu_stream_synchronize_async (stream, NULL, test_take_result, &result);
  g_assert_false (gpu_stream_synchronize_finish (stream, test_await (&result), &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "cannot be started", "gpumem-wait");
  g_assert_false (gpu_event_wait (event, cancellable, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "cannot be started");
  g_clear_object (&buffer);
  test_open (gate);
  test_assert_ok (gpu_event_wait (event, NULL, &error), error);
}

static void
limited_build (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GAsyncResult) result = NULL;

  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_SOURCE) == 0)
    return;
  gpu_program_new_from_source_async (fixture->context, "kernel void f (void) {}", NULL, NULL,
                                     test_take_result, &result);
  g_assert_null (gpu_program_new_from_source_finish (test_await (&result), &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "cannot be started", "gpumem-build");
}

/* Without threads, streams of GIO transfer bytes that need no copy, and report calls that need a
 * thread. No bytes are lost. */
static void
limited_io (GpuStream *stream, GpuBuffer *buffer)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GInputStream) input = gpu_input_stream_new (GPU_MEMORY (buffer), stream, 0, SIZE,
                                                         NULL);
  g_autoptr (GOutputStream) output = gpu_output_stream_new (GPU_MEMORY (buffer), stream, 0, SIZE,
                                                            NULL);
  g_autoptr (GAsyncResult) first = NULL, read = NULL, written = NULL, flushed = NULL;
  guint8 byte = 8;

  g_input_stream_read_async (input, &byte, 1, G_PRIORITY_DEFAULT, NULL, test_take_result, &first);
  g_assert_cmpint (g_input_stream_read_finish (input, test_await (&first), &error), ==, -1);
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "cannot be started", "gpumem-task");
  g_assert_cmpint (g_input_stream_read (input, &byte, 1, NULL, &error), ==, 1);
  g_input_stream_read_async (input, &byte, 1, G_PRIORITY_DEFAULT, NULL, test_take_result, &read);
  g_assert_cmpint (g_input_stream_read_finish (input, test_await (&read), &error), ==, 1);
  g_assert_no_error (error);
  byte++;
  g_output_stream_write_async (output, &byte, 1, G_PRIORITY_DEFAULT, NULL, test_take_result,
                               &written);
  g_assert_cmpint (g_output_stream_write_finish (output, test_await (&written), &error), ==, 1);
  g_assert_no_error (error);
  g_output_stream_flush_async (output, G_PRIORITY_DEFAULT, NULL, test_take_result, &flushed);
  g_assert_false (g_output_stream_flush_finish (output, test_await (&flushed), &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "cannot be started", "gpumem-task");
  test_assert_ok (g_output_stream_close (output, NULL, &error), error);
  test_assert_ok (gpu_buffer_read (buffer, stream, 0, &byte, 1, NULL, &error), error);
  g_assert_cmpint (byte, ==, 100);
}

static void
threads_thread_limit (TestFixture *fixture)
{
  gboolean has_order = (gpu_device_get_capabilities (fixture->device)
                        & GPU_CAPABILITIES_OUT_OF_ORDER) == 0;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 0);
  g_autoptr (GpuStream) stream = started_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) other = started_stream (fixture, has_order ? GPU_STREAM_FLAGS_NONE
                                                         : GPU_STREAM_FLAGS_OUT_OF_ORDER);
  g_autoptr (GAsyncResult) result = NULL;
  struct rlimit before;

  /* Drivers start threads for their first work, so run some work before threads are forbidden */
  if (!g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    limited_work (other, stream, buffer);
  if (!forbid_threads (&before))
    return;
  limited_work (other, stream, buffer);
  limited_wait (fixture, stream);
  limited_build (fixture);
  limited_io (stream, buffer);

  /* Everything works again when threads can be started. */
  g_assert_cmpint (setrlimit (RLIMIT_NPROC, &before), ==, 0);
  limited_work (other, stream, buffer);
  gpu_stream_synchronize_async (stream, NULL, test_take_result, &result);
  test_assert_ok (gpu_stream_synchronize_finish (stream, test_await (&result), &error), error);
}

static void
threads_run_thread_limit (TestFixture *fixture)
{
  g_autofree char *path = g_strdup_printf ("/threads/%s/subprocess/thread-limit",
                                           gpu_device_get_id (fixture->device));

  g_test_trap_subprocess (path, TEST_CHILD_TIMEOUT, G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_test_trap_assert_passed ();
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("own-streams", threads_own_streams);
  test_add ("one-stream", threads_one_stream);
  test_add ("one-buffer", threads_one_buffer);
  test_add ("create-streams", threads_create_streams);
  test_add ("release", threads_release);
  test_add ("contexts", threads_contexts);
  test_add ("shared-waits", threads_shared_waits);
  test_add ("failures", threads_failures);
  test_add ("thread-limit", threads_run_thread_limit);
  test_add ("subprocess/thread-limit", threads_thread_limit);
  return test_run ();
}

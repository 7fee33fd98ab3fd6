/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared virtual memory on several streams and threads, and its lifetime. */
#include "config.h"

#include "test-svm-util.h"

#define SIZE 8192
#define N_THREADS 4
#define N_ROUNDS 50
#define N_LOST 2000

/* --- streams, threads, lifetime ------------------------------------------------------- */

/* Uses SVM on several streams; the test itself does not wait. */
static void
svm_streams (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, N_ROUNDS * 64);
  g_autoptr (GpuSvm) svm = NULL;
  g_autoptr (GBytes) content = NULL;

  if (!test_has_svm (fixture))
    return;
  svm = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  for (guint i = 0; i < N_ROUNDS; i++)
    {
      guint8 value = (guint8) i;
      GpuStream *stream = i % 2 ? other : fixture->stream;

      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (svm), 0, SIZE, &value, 1, &error),
                      error);
      /* Two reads, on two streams */
      for (guint j = 0; j < 2; j++)
        test_assert_ok (gpu_stream_copy (j ? other : fixture->stream, GPU_MEMORY (buffer),
                                         i * 64 + j * 32, GPU_MEMORY (svm), SIZE - 32, 32,
                                         &error), error);
    }
  content = test_content (buffer);
  for (guint i = 0; i < N_ROUNDS; i++)
    test_assert_value ((const guint8 *) g_bytes_get_data (content, NULL) + i * 64, (guint8) i, 64);
}

/* A CUDA device without fine-grain support can use SVM only on one stream at a time, so even
 * reads on another stream wait. */
static void
svm_readers_in_turn (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) first = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) second = test_buffer (fixture, SIZE);
  g_autoptr (TestHold) hold = NULL;
  g_autoptr (GpuSvm) svm = NULL;

  if (!test_has_svm (fixture) || !test_can_hold (fixture))
    return;
  if (!g_str_equal (gpu_device_get_backend (fixture->device), "cuda")
      || (gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_SVM_FINE) != 0)
    {
      g_test_skip ("host and device can use the memory at the same time");
      return;
    }
  svm = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  test_synchronize (fixture->stream);
  hold = test_hold (fixture->stream);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (first), 0, GPU_MEMORY (svm), 0,
                                   SIZE, &error), error);
  test_assert_ok (gpu_stream_copy (other, GPU_MEMORY (second), 0, GPU_MEMORY (svm), 0, SIZE,
                                   &error), error);
  g_assert_cmpuint (test_get_number (other, "n-hazard-waits"), ==, 1);
  test_hold_release (hold);
  test_synchronize (other);
}

/* A finalized stream has no pending uses. The library must not treat a new stream with the same
 * handle as the finalized stream. */
static void
svm_reused_stream_handle (TestFixture *fixture)
{
  g_autoptr (GpuSvm) svm = NULL;

  if (!test_has_svm (fixture))
    return;
  svm = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  for (guint i = 0; i < N_ROUNDS; i++)
    {
      g_autoptr (GError) error = NULL;
      GpuStream *stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      guint8 value = (guint8) i;

      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (svm), 0, SIZE, &value, 1, &error),
                      error);
      g_object_unref (stream);
      if (i % 3 == 0)
        test_svm_check (svm, 0, SIZE, value);
    }
}

static void
svm_dropped_in_flight (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, N_LOST * 4);
  g_autoptr (GBytes) content = NULL;
  const guint8 *data;

  if (!test_has_svm (fixture))
    return;
  for (guint i = 0; i < N_LOST; i++)
    {
      g_autoptr (GpuSvm) svm = test_svm (fixture, GPU_SVM_FLAGS_NONE, 64);
      guint8 value = (guint8) (i * 7);

      test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (svm), 0, 64, &value, 1,
                                       &error), error);
      test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), i * 4,
                                       GPU_MEMORY (svm), 0, 4, &error), error);
      if (i % 2)
        gpu_memory_release (GPU_MEMORY (svm));
    }
  content = test_content (buffer);
  data = g_bytes_get_data (content, NULL);
  for (guint i = 0; i < N_LOST; i++)
    test_assert_value (data + i * 4, (guint8) (i * 7), 4);
}

typedef struct
{
  TestFixture *fixture;
  GpuSvm      *shared;
  guint8       number;
} Worker;

static gpointer
work (gpointer data)
{
  Worker *worker = data;
  TestFixture *fixture = worker->fixture;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuSvm) own = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      g_autoptr (GError) error = NULL;
      guint8 value = (guint8) (worker->number * N_ROUNDS + i);

      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (own), 0, SIZE, &value, 1, &error),
                      error);
      test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (worker->shared), worker->number * 1024,
                                       GPU_MEMORY (own), 0, 1024, &error), error);
      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (own), 0, SIZE, "", 1,
                                       &error), error);
      test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (own), 0, GPU_MEMORY (worker->shared),
                                       worker->number * 1024, 1024, &error), error);
      test_svm_check (own, 0, 1024, value);
    }

  return NULL;
}

static void
svm_threads (TestFixture *fixture)
{
  g_autoptr (GpuSvm) shared = NULL;
  GThread *threads[N_THREADS];
  Worker workers[N_THREADS];

  if (!test_has_svm (fixture))
    return;
  shared = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  for (guint8 i = 0; i < N_THREADS; i++)
    {
      workers[i] = (Worker) { fixture, shared, i };
      threads[i] = g_thread_new ("svm", work, &workers[i]);
    }
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("streams", svm_streams);
  test_add ("readers-in-turn", svm_readers_in_turn);
  test_add ("reused-stream-handle", svm_reused_stream_handle);
  test_add ("dropped-in-flight", svm_dropped_in_flight);
  test_add ("threads", svm_threads);

  return test_run ();
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The border of a captured graph: work outside of the graph, for which captured work cannot wait,
 * memory that the graph allocates, and allocators of the program. */
#include "config.h"

#ifdef HAVE_CUDA
#include "test-capture-util.h"
#endif
#include "test-pool-util.h"

#ifdef HAVE_CUDA

#define SIZE 4096

static void
fill (GpuStream *stream, GpuBuffer *buffer, guint8 value)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error), error);
}

/* Fails, and changes nothing: no capture is lost, and the buffer is usable on its own stream. */
static void
check_fill_refused (GpuStream *stream, GpuBuffer *buffer)
{
  const guint8 value = 9;
  g_autoptr (GError) error = NULL;

  g_assert_false (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_stream_fill",
                         "does not belong to the graph");
}

static void
check_wait_refused (GpuStream *stream, GpuEvent *event)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (gpu_stream_wait_event (stream, event, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_stream_wait_event",
                         "does not belong to the graph");
}

static void
join (GpuStream *stream, GpuStream *other)
{
  g_autoptr (GpuEvent) event = test_record (other);
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_wait_event (stream, event, &error), error);
}

static CUstream
begin (GpuStream *stream)
{
  CUstream handle = test_get_cuda_stream (stream);

  test_capture_begin (handle, CU_STREAM_CAPTURE_MODE_GLOBAL);
  return handle;
}

static void
end (CUstream handle)
{
  test_graph_destroy (test_capture_end (handle));
}

static void
check_content (GpuBuffer *buffer, guint8 value)
{
  guint8 data[SIZE];
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_buffer_read (buffer, NULL, 0, data, SIZE, NULL, &error), error);
  for (gsize i = 0; i < SIZE; i++)
    g_assert_cmpuint (data[i], ==, value);
}

static void
wait_by_driver (GpuStream *stream)
{
  CUresult (*synchronize) (CUstream stream) = gpumem_cuda_driver_symbol ("cuStreamSynchronize");

  g_assert_cmpuint (synchronize (test_get_cuda_stream (stream)), ==, 0);
}

/* --- waits for work outside of the graph ------------------------------------------------------ */

/* Work of another stream is pending when the capture begins. Captured work with the same memory,
 * and a wait for an event, are refused while it is pending, and succeed after it. */
static void
pending_outside (TestFixture *fixture)
{
  g_autoptr (GpuStream) captured = NULL;
  g_autoptr (GpuStream) other = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) unused = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GError) error = NULL;
  CUstream handle;
  TestHold *hold;

  if (!test_can_capture (fixture) || !test_can_hold (fixture))
    return;

  captured = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  other = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  buffer = test_buffer_filled (fixture, SIZE, 7);
  unused = test_buffer_filled (fixture, SIZE, 7);
  test_synchronize (fixture->stream);
  hold = test_hold (other);
  fill (other, buffer, 8);
  event = test_record (other);

  handle = begin (captured);
  check_fill_refused (captured, buffer);
  check_wait_refused (captured, event);
  fill (captured, unused, 9);
  g_assert_true (test_is_capturing (handle));
  test_hold_release (hold);
  while (gpu_event_query (event, &error) == GPU_EVENT_STATUS_PENDING)
    g_thread_yield ();
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_wait_event (captured, event, &error), error);
  fill (captured, buffer, 9);
  end (handle);

  check_content (buffer, 8);
  check_content (unused, 7);
  test_hold_free (hold);
}

/* The program waits for the other work with a function of the driver, so the library does not know
 * yet that the work has completed. */
static void
completed_outside (TestFixture *fixture)
{
  g_autoptr (GpuStream) captured = NULL;
  g_autoptr (GpuStream) other = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  CUstream handle;

  if (!test_can_capture (fixture))
    return;

  captured = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  other = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  buffer = test_buffer_filled (fixture, SIZE, 7);
  test_synchronize (fixture->stream);
  fill (other, buffer, 8);
  wait_by_driver (other);
  handle = begin (captured);
  fill (captured, buffer, 9);
  g_assert_true (test_is_capturing (handle));
  end (handle);
  check_content (buffer, 8);
}

/* Two streams are captured into different graphs. The driver merges no captures: work of one that
 * uses memory of the other is refused, and both captures stay intact. */
static void
two_captures (TestFixture *fixture)
{
  GpuStream *streams[2];
  GpuBuffer *buffers[2];
  g_autoptr (GpuStream) third = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GError) error = NULL;
  CUstream handles[2];

  if (!test_can_capture (fixture))
    return;

  third = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  for (guint i = 0; i < 2; i++)
    {
      streams[i] = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
      buffers[i] = test_buffer_filled (fixture, SIZE, 7);
    }
  test_synchronize (fixture->stream);
  for (guint i = 0; i < 2; i++)
    {
      handles[i] = begin (streams[i]);
      fill (streams[i], buffers[i], 9);
    }

  check_fill_refused (streams[0], buffers[1]);
  check_fill_refused (streams[1], buffers[0]);
  event = test_record (streams[1]);
  check_wait_refused (streams[0], event);
  /* A stream that is not captured cannot join both */
  g_assert_false (gpu_stream_copy (third, GPU_MEMORY (buffers[0]), 0, GPU_MEMORY (buffers[1]), 0,
                                   SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_stream_copy",
                         "does not belong to the graph");
  g_assert_false (test_is_capturing (test_get_cuda_stream (third)));
  for (guint i = 0; i < 2; i++)
    g_assert_true (test_is_capturing (handles[i]));
  fill (third, buffers[0], 9);
  join (streams[0], third);
  end (handles[0]);
  end (handles[1]);

  fill (streams[0], buffers[1], 8);
  test_synchronize (streams[0]);
  check_content (buffers[0], 7);
  check_content (buffers[1], 8);
  for (guint i = 0; i < 2; i++)
    {
      g_object_unref (streams[i]);
      g_object_unref (buffers[i]);
    }
}

/* A stream would join a capture with an operation that also follows pending work outside of it. */
static void
joins_with_pending (TestFixture *fixture)
{
  g_autoptr (GpuStream) captured = NULL;
  g_autoptr (GpuStream) other = NULL;
  g_autoptr (GpuStream) joining = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) source = NULL;
  g_autoptr (GError) error = NULL;
  CUstream handle;
  TestHold *hold;

  if (!test_can_capture (fixture) || !test_can_hold (fixture))
    return;

  captured = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  other = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  joining = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  buffer = test_buffer_filled (fixture, SIZE, 7);
  source = test_buffer_filled (fixture, SIZE, 7);
  test_synchronize (fixture->stream);
  hold = test_hold (other);
  fill (other, source, 8);
  handle = begin (captured);
  fill (captured, buffer, 9);
  g_assert_false (gpu_stream_copy (joining, GPU_MEMORY (buffer), 0, GPU_MEMORY (source), 0, SIZE,
                                   &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_stream_copy",
                         "does not belong to the graph");
  g_assert_false (test_is_capturing (test_get_cuda_stream (joining)));
  g_assert_true (test_is_capturing (handle));
  test_hold_release (hold);
  end (handle);

  check_content (source, 8);
  check_content (buffer, 7);
  test_hold_free (hold);
}

/* A stream joins a capture with an operation that also follows work outside of it. The program has
 * waited for that work with a function of the driver. */
static void
joins_with_completed (TestFixture *fixture)
{
  g_autoptr (GpuStream) captured = NULL;
  g_autoptr (GpuStream) other = NULL;
  g_autoptr (GpuStream) joining = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) outside = NULL;
  g_autoptr (GError) error = NULL;
  CUstream handle;

  if (!test_can_capture (fixture))
    return;

  captured = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  other = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  joining = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  /* The captured work is that of the destination, or that of the source. */
  for (guint i = 0; i < 2; i++)
    {
      g_clear_object (&buffer);
      g_clear_object (&outside);
      buffer = test_buffer_filled (fixture, SIZE, 7);
      outside = test_buffer_filled (fixture, SIZE, 7);
      test_synchronize (fixture->stream);
      fill (other, outside, 8);
      wait_by_driver (other);
      handle = begin (captured);
      fill (captured, buffer, 9);
      test_assert_ok (gpu_stream_copy (joining, GPU_MEMORY (i == 0 ? buffer : outside), 0,
                                       GPU_MEMORY (i == 0 ? outside : buffer), 0, SIZE, &error),
                      error);
      g_assert_true (test_is_capturing (test_get_cuda_stream (joining)));
      join (captured, joining);
      end (handle);
      check_content (buffer, 7);
      check_content (outside, 8);
    }
}

/* Work of a stream is pending when the stream joins a capture. That work does not belong to the
 * graph, so captured work that would follow it is refused while it is pending. */
static void
joins_behind_pending (TestFixture *fixture)
{
  g_autoptr (GpuStream) captured = NULL;
  g_autoptr (GpuStream) other = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) unused = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GError) error = NULL;
  CUstream handle;
  TestHold *hold;

  if (!test_can_capture (fixture) || !test_can_hold (fixture))
    return;

  captured = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  other = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  buffer = test_buffer_filled (fixture, SIZE, 7);
  unused = test_buffer_filled (fixture, SIZE, 7);
  test_synchronize (fixture->stream);
  hold = test_hold (other);
  fill (other, buffer, 8);
  event = test_record (other);

  handle = begin (captured);
  join (other, captured);
  check_fill_refused (captured, buffer);
  check_wait_refused (captured, event);
  g_assert_true (test_is_capturing (handle));
  fill (other, unused, 9);
  fill (captured, unused, 9);
  test_hold_release (hold);
  /* The host can wait for that work. */
  test_assert_ok (gpu_event_wait (event, NULL, &error), error);
  fill (captured, buffer, 9);
  end (handle);

  check_content (buffer, 8);
  check_content (unused, 7);
  test_hold_free (hold);
}

/* The program wrapped the legacy default stream, and a stream that waits for that stream is
 * captured. Any query of the legacy default stream would invalidate the capture. */
static void
legacy_outside (TestFixture *fixture)
{
  g_autoptr (GpuStream) captured = NULL;
  g_autoptr (GpuStream) legacy = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GError) error = NULL;
  const guint8 value = 9;
  CUstream handle;

  if (!test_can_capture (fixture))
    return;

  captured = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  legacy = gpu_stream_new_wrapped (fixture->context, GPU_STREAM_HANDLE_LEGACY,
                                   GPU_WRAP_MODE_BORROW, &error);
  g_assert_no_error (error);
  buffer = test_buffer_filled (fixture, SIZE, 7);
  test_synchronize (fixture->stream);
  fill (legacy, buffer, 8);
  test_assert_ok (gpu_context_push_current (fixture->context, &error), error);
  wait_by_driver (legacy);
  gpu_context_pop_current (fixture->context, NULL);

  handle = begin (captured);
  g_assert_false (gpu_stream_fill (captured, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_stream_fill",
                         "legacy default stream");
  g_assert_true (test_is_capturing (handle));
  end (handle);

  fill (captured, buffer, 9);
  check_content (buffer, 9);
}

/* --- memory that the graph allocates ---------------------------------------------------------- */

/* 0 unless the driver is the stand-in */
static guint64
count_frees (void)
{
  __typeof__ (&gpumem_cuda_driver_get_count) get_count = GPUMEM_CUDA_DRIVER (get_count);

  return get_count != NULL ? get_count ("cuMemFreeAsync") : 0;
}

/* The last reference is dropped during the capture. */
static void
freed_within (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer;
  CUstream handle;
  guint64 size, n_frees;

  if (!test_can_capture (fixture) || !test_has (fixture, GPU_CAPABILITIES_STREAM_ORDERED))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  size = gpu_context_get_allocated_size (fixture->context);
  n_frees = count_frees ();
  handle = begin (stream);
  buffer = gpu_buffer_new_on_stream (stream, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  fill (stream, buffer, 5);
  g_object_unref (buffer);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, size);
  if (GPUMEM_CUDA_DRIVER (get_count) != NULL)
    g_assert_cmpuint (count_frees (), ==, n_frees + 1);
  g_assert_true (test_is_capturing (handle));
  end (handle);
}

/* The last reference is dropped after the capture, and while the stream is captured into another
 * graph. Another graph must not free the memory. */
static void
freed_later (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffers[2];
  CUgraph graph;
  CUstream handle;
  guint64 size;

  if (!test_can_capture (fixture) || !test_has (fixture, GPU_CAPABILITIES_STREAM_ORDERED))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  size = gpu_context_get_allocated_size (fixture->context);
  handle = begin (stream);
  for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
    {
      buffers[i] = gpu_buffer_new_on_stream (stream, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
      g_assert_no_error (error);
      fill (stream, buffers[i], 5);
    }
  graph = test_capture_end (handle);
  g_object_unref (buffers[0]);
  handle = begin (stream);
  g_object_unref (buffers[1]);
  g_assert_true (test_is_capturing (handle));
  end (handle);

  test_synchronize (stream);
  while (gpu_context_get_allocated_size (fixture->context) > size)
    g_thread_yield ();
  test_graph_destroy (graph);
}

/* Memory of the pool is free, but work of another stream that uses it is pending. The request does
 * not make the graph wait for that work, and the capture stays intact. */
static void
check_pool (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GpuStream) captured = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  g_autoptr (GpuStream) other = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) again = NULL;
  g_autoptr (GError) error = NULL;
  TestHold *hold = test_hold (other);
  CUstream handle;

  buffer = test_pool_take (pool, SIZE, other);
  fill (other, buffer, 8);
  g_clear_object (&buffer);
  handle = begin (captured);
  again = gpu_memory_pool_alloc_buffer (pool, SIZE, captured, &error);
  if (again == NULL)
    test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_memory_pool_alloc");
  else
    fill (captured, again, 9);
  g_assert_true (test_is_capturing (handle));
  test_hold_release (hold);
  end (handle);
  test_synchronize (other);
  test_hold_free (hold);

  g_clear_object (&again);
  again = test_pool_take (pool, SIZE, captured);
  fill (captured, again, 3);
  test_synchronize (captured);
  check_content (again, 3);
}

static void
pending_in_pool (TestFixture *fixture)
{
  if (test_can_capture (fixture) && test_can_hold (fixture))
    test_pool_each_kind (fixture, check_pool);
}

/* The stream of a GpuStreamAllocator is captured, so a graph would allocate the memory of a pool
 * over the allocator. */
static void
pool_of_stream (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuAllocator) allocator = NULL;
  g_autoptr (GpuMemoryPool) pool = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GError) error = NULL;
  guint64 size;
  CUstream handle;

  if (!test_can_capture (fixture) || !test_has (fixture, GPU_CAPABILITIES_STREAM_ORDERED))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  allocator = GPU_ALLOCATOR (gpu_stream_allocator_new (stream, GPU_MEMORY_FLAGS_NONE, &error));
  g_assert_no_error (error);
  pool = gpu_memory_pool_new_for_allocator (allocator, GPU_MEMORY_POOL_SEGMENTS, 0, &error);
  g_assert_no_error (error);
  size = gpu_context_get_allocated_size (fixture->context);

  handle = begin (stream);
  buffer = gpu_memory_pool_alloc_buffer (pool, SIZE, fixture->stream, &error);
  g_assert_null (buffer);
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_memory_pool_alloc",
                         "is being captured");
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, size);
  g_assert_true (test_is_capturing (handle));
  end (handle);

  buffer = test_pool_take (pool, SIZE, fixture->stream);
  fill (fixture->stream, buffer, 3);
  check_content (buffer, 3);
}

/* --- allocators of the program ---------------------------------------------------------------- */

static CUstreamCaptureMode
exchange_mode (CUstreamCaptureMode mode)
{
  CUresult (*exchange) (CUstreamCaptureMode *mode)
    = gpumem_cuda_driver_symbol ("cuThreadExchangeStreamCaptureMode");

  g_assert_cmpuint (exchange (&mode), ==, 0);
  return mode;
}

static CUstreamCaptureMode
get_mode (void)
{
  CUstreamCaptureMode mode = exchange_mode (CU_STREAM_CAPTURE_MODE_RELAXED);

  exchange_mode (mode);
  return mode;
}

/* Called without a lock, on the thread of the request. @data is set to the mode of the thread. */
static guint64
alloc_by_driver (gsize size, GpuStream *stream G_GNUC_UNUSED, gpointer data, GError **error)
{
  CUresult (*alloc) (CUdeviceptr *address, size_t size)
    = gpumem_cuda_driver_symbol ("cuMemAlloc_v2");
  CUdeviceptr address = 0;

  *(CUstreamCaptureMode *) data = get_mode ();
  if (alloc (&address, size) != 0)
    g_set_error_literal (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "no memory");
  return address;
}

static void
free_by_driver (guint64 address, gsize size G_GNUC_UNUSED, gpointer data)
{
  CUresult (*free_memory) (CUdeviceptr address) = gpumem_cuda_driver_symbol ("cuMemFree_v2");

  *(CUstreamCaptureMode *) data = get_mode ();
  g_assert_cmpuint (free_memory (address), ==, 0);
}

static GpuMemoryPool *
new_pool (TestFixture *fixture, CUstreamCaptureMode *mode)
{
  g_autoptr (GpuExternalAllocator) allocator = NULL;
  g_autoptr (GError) error = NULL;
  GpuMemoryPool *pool;

  allocator = gpu_external_allocator_new (fixture->context, alloc_by_driver, mode, NULL,
                                          free_by_driver, mode, NULL, &error);
  g_assert_no_error (error);
  pool = gpu_memory_pool_new_for_allocator (GPU_ALLOCATOR (allocator), GPU_MEMORY_POOL_SEGMENTS, 0,
                                            &error);
  g_assert_no_error (error);
  return pool;
}

/* A pool calls an allocator of the program in the relaxed mode, because it may call functions of
 * the driver that invalidate captures. The thread then has the mode of the program again. */
static void
program_allocator (TestFixture *fixture)
{
  const CUstreamCaptureMode own = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  CUstreamCaptureMode mode = own;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuMemoryPool) pool = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GError) error = NULL;
  CUstream handle;

  if (!test_can_capture (fixture))
    return;

  test_assert_ok (gpu_context_push_current (fixture->context, &error), error);
  stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  pool = new_pool (fixture, &mode);
  handle = begin (stream);
  exchange_mode (own);
  buffer = test_pool_take (pool, SIZE, NULL);
  g_assert_cmpuint (mode, ==, CU_STREAM_CAPTURE_MODE_RELAXED);
  g_assert_cmpuint (get_mode (), ==, own);
  mode = own;
  g_clear_object (&buffer);
  gpu_memory_pool_trim (pool, 0);
  g_assert_cmpuint (mode, ==, CU_STREAM_CAPTURE_MODE_RELAXED);
  g_assert_cmpuint (get_mode (), ==, own);
  g_assert_true (test_is_capturing (handle));
  exchange_mode (CU_STREAM_CAPTURE_MODE_GLOBAL);
  end (handle);
  gpu_context_pop_current (fixture->context, NULL);
}

/* The driver fails to set the relaxed mode. The thread keeps its mode. */
static void
program_allocator_strict (TestFixture *fixture)
{
  const CUstreamCaptureMode own = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  __typeof__ (&gpumem_cuda_driver_set_fail) set_fail = GPUMEM_CUDA_DRIVER (set_fail);
  g_autoptr (GpuMemoryPool) pool = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GError) error = NULL;

  if (!test_can_capture (fixture))
    return;
  if (set_fail == NULL)
    {
      g_test_skip ("the driver has no faults");
      return;
    }

  test_assert_ok (gpu_context_push_current (fixture->context, &error), error);
  pool = new_pool (fixture, &mode);
  exchange_mode (own);
  g_assert_true (set_fail ("cuThreadExchangeStreamCaptureMode:1"));
  buffer = test_pool_take (pool, SIZE, NULL);
  g_assert_true (set_fail (""));
  g_assert_cmpuint (mode, ==, own);
  g_assert_cmpuint (exchange_mode (CU_STREAM_CAPTURE_MODE_GLOBAL), ==, own);
  g_clear_object (&buffer);
  g_clear_object (&pool);
  gpu_context_pop_current (fixture->context, NULL);
}

/* --- times ------------------------------------------------------------------------------------ */

/* Later events do not have the times of a captured operation, which it never gets. */
static void
times_afterwards (TestFixture *fixture)
{
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuEvent) untimed = NULL;
  g_autoptr (GpuEvent) timed = NULL;
  g_autoptr (GError) error = NULL;
  CUstream handle;
  guint64 time;

  if (!test_can_capture (fixture))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING | GPU_STREAM_FLAGS_PROFILING);
  buffer = test_buffer_filled (fixture, SIZE, 7);
  test_synchronize (fixture->stream);
  fill (stream, buffer, 8);
  handle = begin (stream);
  fill (stream, buffer, 9);
  end (handle);

  untimed = test_record (stream);
  timed = gpu_stream_record (stream, GPU_EVENT_FLAGS_TIMING, &error);
  g_assert_no_error (error);
  test_synchronize (stream);
  test_assert_ok (gpu_event_get_duration (timed, &time, &error), error);
  test_assert_ok (gpu_event_get_profiling_time (timed, GPU_PROFILING_POINT_ENDED, &time, &error),
                  error);
  g_assert_false (gpu_event_get_duration (untimed, &time, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_event_get_duration",
                         "no operation with times");
  check_content (buffer, 8);
}

#endif

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
#ifdef HAVE_CUDA
  test_add ("pending-outside", pending_outside);
  test_add ("completed-outside", completed_outside);
  test_add ("two-captures", two_captures);
  test_add ("joins-with-pending", joins_with_pending);
  test_add ("joins-with-completed", joins_with_completed);
  test_add ("joins-behind-pending", joins_behind_pending);
  test_add ("legacy-outside", legacy_outside);
  test_add ("freed-within", freed_within);
  test_add ("freed-later", freed_later);
  test_add ("pending-in-pool", pending_in_pool);
  test_add ("pool-of-stream", pool_of_stream);
  test_add ("program-allocator", program_allocator);
  test_add ("program-allocator-strict", program_allocator_strict);
  test_add ("times-afterwards", times_afterwards);
#endif

  return test_run ();
}

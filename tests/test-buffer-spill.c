/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Spilled buffers: they keep their content, which can be read, other allocations use their memory,
 * and commands refuse spilled buffers until they are restored. */
#include "config.h"

#include <glib/gstdio.h>
#include <unistd.h>

#include "opencl-layer/gpumem-layer.h"
#include "test-allocator-util.h"
#include "test-pool-util.h"

#ifdef HAVE_CUDA
#include "cuda-driver/cuda-driver.h"
#endif

#define SIZE (1 << 20)

/* Runs @func without a pool and with each kind of pool that the device supports. */
static void
for_each_source (TestFixture *fixture, TestPoolFunc func, gboolean plain)
{
  if (plain)
    func (fixture, NULL);

  test_pool_each_kind (fixture, func);
}

static GpuBuffer *
take (TestFixture *fixture, GpuMemoryPool *pool, GpuStream *stream)
{
  return pool != NULL ? test_pool_take (pool, SIZE, stream) : test_buffer (fixture, SIZE);
}

static void
fill (GpuStream *stream, GpuBuffer *buffer, guint8 value)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error), error);
}

static void
assert_filled (GpuBuffer *buffer, guint8 value)
{
  g_autoptr (GBytes) content = test_content (buffer);

  test_assert_value (g_bytes_get_data (content, NULL), value, SIZE);
}

static void
spill (GpuBuffer *buffer, GpuStream *stream)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_buffer_spill (buffer, stream, &error), error);
  g_assert_true (test_get_number (buffer, "spilled"));
}

static void
unspill (GpuBuffer *buffer, GpuStream *stream)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_buffer_unspill (buffer, stream, &error), error);
  g_assert_false (test_get_number (buffer, "spilled"));
}

static guint64
managed (TestFixture *fixture, GpuMemoryPool *pool)
{
  return pool != NULL ? test_pool_get_figure (pool, "used-bytes")
                      : gpu_context_get_allocated_size (fixture->context);
}

static void
count (guint *n)
{
  (*n)++;
}

/* Spills and restores repeatedly, on several streams and with work in flight. */
static void
check_content (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) first = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) second = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  guint64 before = managed (fixture, pool);
  g_autoptr (GpuBuffer) buffer = take (fixture, pool, first);
  g_autoptr (GpuBuffer) copy = take (fixture, pool, first);
  guint n_notified = 0;
  gint64 deadline;

  g_signal_connect_swapped (buffer, "notify::spilled", G_CALLBACK (count), &n_notified);

  for (guint i = 0; i < 10; i++)
    {
      g_autoptr (GBytes) data = test_random_bytes (SIZE);
      guint64 with_both = managed (fixture, pool);
      g_autoptr (GpuBuffer) other = NULL;

      test_assert_ok (gpu_stream_write (first, GPU_MEMORY (buffer), 0, data, &error), error);
      test_assert_ok (gpu_stream_copy (second, GPU_MEMORY (copy), 0, GPU_MEMORY (buffer), 0, SIZE,
                                       &error), error);
      spill (buffer, i % 2 == 0 ? NULL : second);
      spill (buffer, NULL);
      g_assert_cmpuint (n_notified, ==, 2 * i + 1);
      g_assert_cmpuint (managed (fixture, pool), <, with_both);
      g_assert_cmpuint (gpu_memory_get_native_handle (GPU_MEMORY (buffer)), ==, 0);
      g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (buffer)), ==, SIZE);

      other = take (fixture, pool, second);
      fill (second, other, 0xaa);
      unspill (buffer, i % 3 == 0 ? first : NULL);
      unspill (buffer, NULL);
      g_assert_cmpuint (gpu_memory_get_native_handle (GPU_MEMORY (buffer)), !=, 0);
      test_assert_content (buffer, data);
      test_assert_content (copy, data);
    }

  g_clear_object (&buffer);
  g_clear_object (&copy);
  deadline = g_get_monotonic_time () + TEST_DEADLINE * G_USEC_PER_SEC;
  while (managed (fixture, pool) > before && g_get_monotonic_time () < deadline)
    g_usleep (200);
  g_assert_cmpuint (managed (fixture, pool), ==, before);
}

static void
spill_content (TestFixture *fixture)
{
  for_each_source (fixture, check_content, TRUE);
}

/* Every command refuses a spilled buffer, and accepts the buffer after it is restored. */
static void
check_refused (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = take (fixture, pool, NULL);
  g_autoptr (GpuBuffer) other = test_buffer (fixture, SIZE);
  g_autoptr (GBytes) bytes = test_value_bytes (SIZE, 7);
  g_autoptr (GpuBuffer) slice = NULL;
  g_autoptr (GpuBuffer) wrapped = NULL;
  const guint8 value = 3;

  fill (fixture->stream, buffer, 5);
  spill (buffer, NULL);
  g_assert_false (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0, 1, &value, 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_fill", "spilled");
  g_assert_false (gpu_stream_copy (fixture->stream, GPU_MEMORY (other), 0, GPU_MEMORY (buffer), 0,
                                   SIZE, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_copy", "spilled");
  g_assert_false (gpu_stream_read_into (fixture->stream, GPU_MEMORY (buffer), 0, bytes, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_read_into", "gpu_buffer_unspill");
  g_assert_false (gpu_buffer_write_bytes (buffer, NULL, 0, bytes, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_buffer_write_bytes", "gpu_buffer_unspill");
  g_assert_null (gpu_buffer_slice (buffer, 0, 4096, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "spilled");
  g_assert_null (gpu_memory_get_attributes (GPU_MEMORY (buffer), &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "spilled");

  unspill (buffer, NULL);
  assert_filled (buffer, 5);

  slice = gpu_buffer_slice (buffer, 0, 4096, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_buffer_spill (buffer, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_buffer_spill", "slices");
  g_assert_false (gpu_buffer_spill (slice, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_buffer_spill", "a slice");
  g_clear_object (&slice);
  spill (buffer, NULL);

  wrapped = gpu_buffer_new_wrapped (fixture->context,
                                    gpu_memory_get_native_handle (GPU_MEMORY (other)), SIZE,
                                    GPU_WRAP_MODE_BORROW, NULL, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_buffer_spill (wrapped, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_buffer_spill", "wrapped");
}

static void
spill_refused (TestFixture *fixture)
{
  for_each_source (fixture, check_refused, TRUE);
}

static gboolean
try_read (GpuBuffer *buffer, gsize offset, guint8 *data, gsize size)
{
  g_autoptr (GError) error = NULL;
  gboolean is_read = gpu_buffer_try_read_address (buffer, NULL, offset, (guintptr) data, size,
                                                  &error);

  g_assert_no_error (error);

  return is_read;
}

/* Reads a range by all functions. With @idle, no other thread moves the buffer, so the read that
 * does not wait must succeed, too: at once if the buffer is spilled, otherwise as soon as the
 * stream has ended the asynchronous read. */
static void
check_read_range (GpuBuffer *buffer, GBytes *content, gsize offset, gsize size, gboolean idle)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) expected = g_bytes_new_from_bytes (content, offset, size);
  g_autofree guint8 *data = g_malloc (size + 1);
  g_autoptr (GAsyncResult) result = NULL;
  gboolean is_read;
  GBytes *bytes;

  test_assert_ok (gpu_buffer_read (buffer, NULL, offset, data, size, NULL, &error), error);
  test_assert_mem (data, g_bytes_get_data (expected, NULL), size);
  bytes = gpu_buffer_read_bytes (buffer, NULL, offset, size, NULL, &error);
  g_assert_no_error (error);
  test_assert_bytes (bytes, expected);
  g_bytes_unref (bytes);
  gpu_buffer_read_bytes_async (buffer, NULL, offset, size, NULL, NULL, NULL, NULL,
                               test_take_result, &result);
  g_assert_null (result);
  bytes = gpu_buffer_read_bytes_finish (buffer, test_await (&result), &error);
  g_assert_no_error (error);
  test_assert_bytes (bytes, expected);
  g_bytes_unref (bytes);

  memset (data, 0, size);
  is_read = try_read (buffer, offset, data, size);
  g_assert_true (is_read || !idle || !test_get_number (buffer, "spilled"));
  if (idle)
    test_poll (is_read || (is_read = try_read (buffer, offset, data, size)));
  if (is_read)
    test_assert_mem (data, g_bytes_get_data (expected, NULL), size);
}

/* Every second row and third column, as Fortran order: 100 rows and 40 columns of 16 bits. */
static void
check_read_array (GpuBuffer *buffer, GBytes *content)
{
  const gssize shape[] = { 100, 40 };
  const gssize strides[] = { 2 * 1024, 3 * 2 };
  g_autoptr (GError) error = NULL;
  GpuDType *dtype = gpu_dtype_get_number (GPU_DTYPE_KIND_UINT, 2);
  g_autoptr (GpuArray) array = gpu_array_new_for_memory (GPU_MEMORY (buffer), 10, dtype, shape, 2,
                                                         strides, 2, &error);
  g_autoptr (GBytes) elements = NULL;
  g_autoptr (GBytes) target = test_value_bytes (2 * 4000, 0);
  g_autoptr (GAsyncResult) result = NULL;
  const guint16 *got;
  const guint8 *data = g_bytes_get_data (content, NULL);

  g_assert_no_error (error);
  elements = gpu_array_read_bytes (array, NULL, GPU_ARRAY_ORDER_F, NULL, &error);
  g_assert_no_error (error);
  got = g_bytes_get_data (elements, NULL);
  for (guint i = 0; i < 4000; i++)
    test_assert_mem (&got[i], data + 10 + i % 100 * strides[0] + i / 100 * strides[1], 2);

  gpu_array_read_strided_async (array, NULL, target, 0, NULL, 0, NULL, test_take_result, &result);
  test_assert_ok (gpu_array_read_strided_finish (array, test_await (&result), &error), error);
  got = g_bytes_get_data (target, NULL);
  for (guint i = 0; i < 4000; i++)
    test_assert_mem (&got[i], data + 10 + i / 40 * strides[0] + i % 40 * strides[1], 2);
}

static void
add_progress (goffset current, goffset total, gpointer data)
{
  g_assert_cmpint (current, ==, total);
  (*(guint *) data)++;
}

/* Refused reads of a spilled buffer. */
static void
check_read_errors (GpuBuffer *buffer)
{
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (GAsyncResult) result = NULL;
  guint8 byte;

  g_assert_false (gpu_buffer_read (buffer, NULL, SIZE, &byte, 1, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_buffer_read", "exceeds");
  g_assert_null (gpu_buffer_read_bytes (buffer, NULL, 1, SIZE, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_buffer_read_bytes", "exceeds");
  gpu_buffer_read_bytes_async (buffer, NULL, G_MAXSIZE, 2, NULL, NULL, NULL, NULL,
                               test_take_result, &result);
  g_assert_null (gpu_buffer_read_bytes_finish (buffer, test_await (&result), &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_buffer_read_bytes_async");
  g_cancellable_cancel (cancellable);
  g_assert_null (gpu_buffer_read_bytes (buffer, NULL, 0, SIZE, cancellable, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_false (gpu_buffer_read (buffer, NULL, 0, &byte, 1, cancellable, &error));
  test_assert_any_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
}

/* Reads of a spilled buffer return the contents. They allocate no device memory, and the buffer
 * stays spilled. The bytes do not change when the buffer is restored and written. */
static void
check_read (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = take (fixture, pool, NULL);
  g_autoptr (GBytes) content = test_random_bytes (SIZE);
  g_autoptr (GBytes) whole = NULL;
  g_autoptr (GAsyncResult) result = NULL;
  guint n_reports = 0;
  guint64 before;

  test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (buffer), 0, content, &error),
                  error);
  spill (buffer, NULL);
  before = managed (fixture, pool);
  check_read_range (buffer, content, 0, SIZE, TRUE);
  check_read_range (buffer, content, 1001, 77, TRUE);
  check_read_range (buffer, content, SIZE, 0, TRUE);
  check_read_array (buffer, content);
  check_read_errors (buffer);
  gpu_buffer_read_bytes_async (buffer, NULL, 0, SIZE, NULL, add_progress, &n_reports, NULL,
                               test_take_result, &result);
  whole = gpu_buffer_read_bytes_finish (buffer, test_await (&result), &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n_reports, ==, 1);
  g_assert_cmpuint (managed (fixture, pool), ==, before);
  g_assert_true (test_get_number (buffer, "spilled"));

  unspill (buffer, NULL);
  check_read_range (buffer, content, 1001, 77, TRUE);
  fill (fixture->stream, buffer, 1);
  assert_filled (buffer, 1);
  test_assert_bytes (whole, content);
}

static void
spill_read (TestFixture *fixture)
{
  for_each_source (fixture, check_read, TRUE);
}

/* A read of a spilled buffer does not wait for the stream. */
static void
check_read_waits_for_no_stream (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = take (fixture, pool, stream);
  g_autoptr (GpuBuffer) other = test_buffer (fixture, SIZE);
  g_autoptr (GError) error = NULL;
  TestHold *hold;
  guint8 byte = 0;

  fill (stream, buffer, 5);
  spill (buffer, stream);
  hold = test_hold (stream);
  fill (stream, other, 1);
  test_assert_ok (gpu_buffer_read (buffer, stream, 3, &byte, 1, NULL, &error), error);
  g_assert_cmpuint (byte, ==, 5);
  test_hold_release (hold);
  test_hold_free (hold);
}

static void
spill_read_waits_for_no_stream (TestFixture *fixture)
{
  if (test_can_hold (fixture))
    for_each_source (fixture, check_read_waits_for_no_stream, TRUE);
}

/* Unmapped mappings, released slices and released images do not prevent a spill, even while the
 * program still has references to them. */
static void
check_released (TestFixture *fixture, GpuMemoryPool *pool)
{
  const GpuImageFormat format = { GPU_CHANNEL_ORDER_R, GPU_CHANNEL_TYPE_UINT8 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = take (fixture, pool, NULL);
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GpuBuffer) slice = NULL;
  g_autoptr (GpuImage) image = NULL;

  fill (fixture->stream, buffer, 5);
  mapping = gpu_buffer_map (buffer, NULL, GPU_MAP_FLAGS_READ, 0, SIZE, NULL, &error);
  g_assert_no_error (error);
  g_assert_false (gpu_buffer_spill (buffer, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_buffer_spill", "mappings");
  test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
  spill (buffer, NULL);
  test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
  g_assert_null (gpu_mapping_get_data (mapping));
  unspill (buffer, NULL);

  slice = gpu_buffer_slice (buffer, 0, 4096, &error);
  g_assert_no_error (error);
  gpu_memory_release (GPU_MEMORY (slice));
  spill (buffer, NULL);
  unspill (buffer, NULL);

  image = gpu_image_new_for_buffer (buffer, GPU_MEMORY_FLAGS_NONE, &format,
                                    GPU_IMAGE_TYPE_IMAGE_2D, 1024, 64, 1024, NULL);
  if (image != NULL)
    gpu_memory_release (GPU_MEMORY (image));
  spill (buffer, NULL);
  unspill (buffer, NULL);
  assert_filled (buffer, 5);
}

static void
spill_released (TestFixture *fixture)
{
  for_each_source (fixture, check_released, TRUE);
}

/* Released memory is equal only to itself. The hash does not change, and equal objects have equal
 * hashes. */
static void
check_hash (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = take (fixture, pool, NULL);
  g_autoptr (GpuBuffer) next = NULL;
  g_autoptr (GpuBuffer) other = NULL;
  guint hash = gpu_memory_hash (GPU_MEMORY (buffer));
  GpuBuffer *wrapped = gpu_buffer_new_wrapped (fixture->context,
                                               gpu_memory_get_native_handle (GPU_MEMORY (buffer)),
                                               SIZE, GPU_WRAP_MODE_BORROW, NULL, &error);

  g_assert_no_error (error);
  g_assert_true (gpu_memory_equal (GPU_MEMORY (buffer), GPU_MEMORY (wrapped)));
  g_assert_cmpuint (gpu_memory_hash (GPU_MEMORY (wrapped)), ==, hash);
  g_object_unref (wrapped);

  spill (buffer, NULL);
  g_assert_cmpuint (gpu_memory_hash (GPU_MEMORY (buffer)), ==, hash);
  other = take (fixture, pool, NULL);
  unspill (buffer, NULL);
  g_assert_cmpuint (gpu_memory_hash (GPU_MEMORY (buffer)), ==, hash);
  g_assert_false (gpu_memory_equal (GPU_MEMORY (buffer), GPU_MEMORY (other)));

  hash = gpu_memory_hash (GPU_MEMORY (other));
  gpu_memory_release (GPU_MEMORY (other));
  g_assert_cmpuint (gpu_memory_hash (GPU_MEMORY (other)), ==, hash);
  next = take (fixture, pool, NULL);
  g_assert_false (gpu_memory_equal (GPU_MEMORY (next), GPU_MEMORY (other)));
  g_assert_true (gpu_memory_equal (GPU_MEMORY (other), GPU_MEMORY (other)));
}

static void
spill_hash (TestFixture *fixture)
{
  for_each_source (fixture, check_hash, TRUE);
}

/* A prepared launch has looked up its memory before the spill, but must also refuse the spilled
 * buffer. */
static void
check_prepared (TestFixture *fixture, GpuMemoryPool *pool)
{
  static const char source[] = "__kernel void put (__global uchar *out) { out[0] = 7; }\n";
  const GpuExtent one = { 1, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = take (fixture, pool, NULL);
  g_autoptr (GpuKernel) kernel = test_kernel (fixture, source, "put");
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GpuLaunch) launch = NULL;
  g_autoptr (GBytes) bytes = NULL;

  gpu_arguments_add_memory (arguments, GPU_MEMORY (buffer));
  launch = gpu_launch_new (kernel, &one, &one, NULL, 0, GPU_LAUNCH_FLAGS_NONE, arguments, &error);
  g_assert_no_error (error);
  fill (fixture->stream, buffer, 5);
  g_assert_false (gpu_buffer_spill (buffer, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "prepared launches");
  test_assert_ok (gpu_stream_launch_prepared (fixture->stream, launch, &error), error);
  g_clear_pointer (&launch, gpu_launch_unref);
  spill (buffer, NULL);
  unspill (buffer, NULL);
  bytes = test_content (buffer);
  g_assert_cmpuint (*(const guint8 *) g_bytes_get_data (bytes, NULL), ==, 7);
}

static void
spill_prepared (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_SOURCE))
    for_each_source (fixture, check_prepared, TRUE);
}

/* A spilled buffer keeps its pool alive, and may be released or freed. */
static void
check_gone (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) mine =
    gpu_memory_pool_new (fixture->context, test_get_number (pool, "kind"), GPU_MEMORY_FLAGS_NONE,
                         &error);
  g_autoptr (GpuBuffer) kept = take (fixture, mine, NULL);
  g_autoptr (GpuBuffer) released = take (fixture, mine, NULL);
  GpuBuffer *gone = take (fixture, mine, NULL);
  g_autoptr (GBytes) bytes = NULL;

  fill (fixture->stream, kept, 9);
  spill (gone, NULL);
  g_object_unref (gone);
  spill (released, NULL);
  gpu_memory_release (GPU_MEMORY (released));
  g_assert_true (gpu_memory_is_released (GPU_MEMORY (released)));
  g_assert_false (gpu_buffer_unspill (released, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_buffer_unspill");

  spill (kept, NULL);
  g_clear_object (&mine);
  unspill (kept, NULL);
  bytes = test_content (kept);
  test_assert_value (g_bytes_get_data (bytes, NULL), 9, SIZE);

  g_assert_false (gpu_buffer_spill (kept, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_buffer_spill",
                         "was finalized");
  g_clear_pointer (&bytes, g_bytes_unref);
  bytes = test_content (kept);
  test_assert_value (g_bytes_get_data (bytes, NULL), 9, SIZE);
}

static void
spill_freed_while_spilled (TestFixture *fixture)
{
  for_each_source (fixture, check_gone, FALSE);
}

/* Makes the next write of the driver fail. Returns FALSE if the driver cannot fail on demand. */
static gboolean
arm (TestFixture *fixture, gboolean fails)
{
  if (test_is_opencl (fixture))
    return gpumem_layer_symbol ("gpumem_layer_set_fail") != NULL
           && GPUMEM_LAYER (set_fail) (fails ? "fn=clEnqueueWriteBuffer,n=1,code=-5" : NULL);
#ifdef HAVE_CUDA
  if (g_str_equal (gpu_device_get_backend (fixture->device), "cuda")
      && gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") != NULL)
    return GPUMEM_CUDA_DRIVER (set_fail) (fails ? "cuMemcpyHtoDAsync:1" : "");
#endif
  return FALSE;
}

/* If a restore fails after the program has dropped the pool, the buffer stays spilled and keeps the
 * pool alive. A second restore succeeds with memory of this pool. */
static void
check_fails_alone (TestFixture *fixture, GpuMemoryPool *pool)
{
  guint64 before = gpu_context_get_allocated_size (fixture->context);
  gpointer mine = test_pool (fixture, test_get_number (pool, "kind"));
  g_autoptr (GpuBuffer) buffer = take (fixture, mine, NULL);

  fill (fixture->stream, buffer, 9);
  spill (buffer, NULL);
  g_object_add_weak_pointer (mine, &mine);
  g_object_unref (mine);
  g_assert_nonnull (mine);

  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_true (arm (fixture, TRUE));
      g_assert_false (gpu_buffer_unspill (buffer, NULL, &error));
      g_assert_nonnull (error);
      g_assert_true (error->domain == GPU_ERROR);
      g_assert_nonnull (strstr (error->message, "gpu_buffer_unspill"));
      g_assert_true (arm (fixture, FALSE));
      g_assert_true (test_get_number (buffer, "spilled"));
      g_assert_nonnull (mine);
      g_assert_cmpuint (test_pool_get_figure (mine, "active-blocks"), ==, 0);
    }

  unspill (buffer, NULL);
  g_assert_null (mine);
  assert_filled (buffer, 9);
  g_clear_object (&buffer);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, before);
}

static void
spill_retry_after_failure_opencl (TestFixture *fixture)
{
  if (test_is_opencl (fixture) && arm (fixture, FALSE))
    for_each_source (fixture, check_fails_alone, FALSE);
  else
    g_test_skip ("runs as a part of retry-after-failure, on OpenCL under the layer");
}

static void
spill_retry_after_failure (TestFixture *fixture)
{
  if (test_is_opencl (fixture))
    test_run_under_layer (fixture, "retry-after-failure");
  else if (arm (fixture, FALSE))
    for_each_source (fixture, check_fails_alone, FALSE);
  else
    g_test_skip ("only the stand-in for CUDA and the layer of OpenCL fail on demand");
}

/* The memory of a spilled buffer must not be reused while a pending copy on another stream still
 * reads it. */
static void
check_in_flight (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GpuStream) first = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) second = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = take (fixture, pool, first);
  g_autoptr (GpuBuffer) copy = test_buffer (fixture, SIZE);
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = NULL;
  TestHold *hold;

  fill (first, buffer, 6);
  test_synchronize (first);
  hold = test_hold (second);
  test_assert_ok (gpu_stream_copy (second, GPU_MEMORY (copy), 0, GPU_MEMORY (buffer), 0, SIZE,
                                   &error), error);
  spill (buffer, first);

  for (guint i = 0; i < 10; i++)
    {
      g_autoptr (GpuBuffer) other = take (fixture, pool, first);

      fill (first, other, 0xbb);
    }

  test_hold_release (hold);
  bytes = test_content (copy);
  test_assert_value (g_bytes_get_data (bytes, NULL), 6, SIZE);
  test_hold_free (hold);
}

static void
spill_in_flight (TestFixture *fixture)
{
  if (test_can_hold (fixture))
    for_each_source (fixture, check_in_flight, FALSE);
}

typedef struct
{
  GpuEvent *gate;
  gint      is_open;                /* atomic */
} Opener;

static gpointer
open_later (gpointer data)
{
  Opener *opener = data;

  g_usleep (30000);
  g_atomic_int_set (&opener->is_open, TRUE);
  test_open (opener->gate);
  return NULL;
}

/* The memory of a spilled buffer without a pool is freed when other streams have completed their
 * work on it. */
static void
spill_waits_for_streams (TestFixture *fixture)
{
  g_autoptr (GpuStream) first = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) second = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 6);
  g_autoptr (GpuBuffer) copy = test_buffer (fixture, SIZE);
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GError) error = NULL;
  Opener opener = { NULL, FALSE };
  GThread *thread;

  if (!test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    return;
  gate = test_gate (fixture, second);
  test_assert_ok (gpu_stream_copy (second, GPU_MEMORY (copy), 0, GPU_MEMORY (buffer), 0, SIZE,
                                   &error), error);
  opener.gate = gate;
  thread = g_thread_new ("open", open_later, &opener);
  spill (buffer, first);
  g_assert_true (g_atomic_int_get (&opener.is_open));
  g_thread_join (thread);
  assert_filled (copy, 6);
}

/* A spill waits for pending work that uses a slice which the program has already dropped. */
static void
check_dropped_slice (TestFixture *fixture, GpuMemoryPool *pool)
{
  const guint8 value = 7;
  g_autoptr (GpuStream) first = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStream) second = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = take (fixture, pool, first);
  g_autoptr (GpuBuffer) copy = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) slice = NULL;
  g_autoptr (GpuEvent) gate = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < 2; i++)
    {
      Opener opener = { NULL, FALSE };
      GThread *thread;

      fill (first, buffer, 6);
      test_synchronize (first);
      slice = gpu_buffer_slice (buffer, 0, SIZE / 2, &error);
      g_assert_no_error (error);
      gate = test_gate (fixture, second);
      if (i == 0)
        gpu_stream_copy (second, GPU_MEMORY (copy), 0, GPU_MEMORY (slice), 0, SIZE / 2, &error);
      else
        gpu_stream_fill (second, GPU_MEMORY (slice), 0, SIZE / 2, &value, 1, &error);
      g_assert_no_error (error);
      g_clear_object (&slice);
      opener.gate = gate;
      thread = g_thread_new ("open", open_later, &opener);
      spill (buffer, first);
      g_assert_true (g_atomic_int_get (&opener.is_open));
      g_thread_join (thread);
      g_clear_object (&gate);
      unspill (buffer, first);
    }

  bytes = test_content (buffer);
  test_assert_value (g_bytes_get_data (bytes, NULL), value, SIZE / 2);
}

static void
spill_dropped_slice (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    for_each_source (fixture, check_dropped_slice, TRUE);
}

/* --- failed work ------------------------------------------------------------------------------ */

/* Makes the pool reuse memory with pending work of @stream. */
static void
leave_pending_memory (GpuMemoryPool *pool, GpuStream *stream)
{
  for (guint i = 0; pool != NULL && i < 4; i++)
    {
      g_autoptr (GpuBuffer) dropped = test_pool_take (pool, SIZE, stream);

      fill (stream, dropped, 0xcc);
    }
}

/* Earlier work of the stream waits for an event that fails before or after the restore, or that
 * completes: the contents are there in each case. */
static void
check_failed_event (TestFixture *fixture, GpuMemoryPool *pool)
{
  for (guint i = 0; i < 6; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuBuffer) buffer = take (fixture, pool, stream);
      g_autoptr (GpuBuffer) lost = test_buffer (fixture, SIZE);
      g_autoptr (GpuBuffer) copy = test_buffer (fixture, SIZE);
      g_autoptr (GpuEvent) gate = NULL;

      fill (stream, buffer, 5);
      spill (buffer, stream);
      gate = test_gate (fixture, stream);
      fill (stream, lost, 1);
      leave_pending_memory (pool, stream);
      if (i % 3 == 0)
        test_assert_ok (gpu_event_fail (gate, "on purpose", &error), error);
      unspill (buffer, stream);
      if (i % 3 == 1)
        test_assert_ok (gpu_event_fail (gate, "on purpose", &error), error);
      else if (i % 3 == 2)
        test_open (gate);

      if (i > 2)
        gpu_stream_synchronize (stream, NULL, NULL);
      assert_filled (buffer, 5);
      test_assert_ok (gpu_memory_wait (GPU_MEMORY (buffer), NULL, &error), error);
      gpu_stream_synchronize (stream, NULL, NULL);
      test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (copy), 0, GPU_MEMORY (buffer), 0, SIZE,
                                       &error), error);
      assert_filled (copy, 5);
    }
}

/* If the last write failed, the error only names the called function. */
static void
check_failed_write (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = take (fixture, pool, stream);
  g_autoptr (GpuEvent) gate = test_gate (fixture, stream);

  fill (stream, buffer, 5);
  test_assert_ok (gpu_event_fail (gate, "on purpose", &error), error);
  g_assert_false (gpu_buffer_spill (buffer, stream, &error));
  g_assert_true (g_str_has_prefix (error->message, "gpu_buffer_spill: "));
  g_assert_null (strstr (error->message, "gpu_buffer_read"));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "on purpose");
  gpu_stream_synchronize (stream, NULL, NULL);
}

static void
spill_failed_event (TestFixture *fixture)
{
  if (test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    for_each_source (fixture, check_failed_write, TRUE);
  if (test_has (fixture, GPU_CAPABILITIES_USER_EVENTS))
    for_each_source (fixture, check_failed_event, TRUE);
}

/* Earlier work of the stream is a copy of a file that ends too early. */
static void
check_failed_file (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autofree char *path = NULL;
  g_autoptr (GError) error = NULL;
  int fd = g_file_open_tmp (NULL, &path, &error);
  g_autoptr (GpuFile) file = NULL;

  g_assert_no_error (error);
  g_unlink (path);
  file = gpu_file_new_for_fd (fd, GPU_FILE_FLAGS_NONE, &error);
  g_assert_no_error (error);

  for (guint i = 0; i < 8; i++)
    {
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuBuffer) buffer = take (fixture, pool, stream);
      g_autoptr (GpuBuffer) lost = take (fixture, pool, stream);

      fill (stream, buffer, 5);
      spill (buffer, stream);
      test_assert_ok (gpu_stream_read_file (stream, GPU_MEMORY (lost), 0, file, 0, SIZE, NULL,
                                            &error), error);
      leave_pending_memory (pool, stream);
      unspill (buffer, stream);
      if (i % 2 == 0)
        g_assert_false (gpu_stream_synchronize (stream, NULL, NULL));
      assert_filled (buffer, 5);
      gpu_stream_synchronize (stream, NULL, NULL);
    }

  close (fd);
}

static void
spill_failed_file (TestFixture *fixture)
{
  for_each_source (fixture, check_failed_file, TRUE);
}

typedef struct
{
  TestHold *hold;                   /* nullable */
  GpuEvent *gate;                   /* nullable */
} Blocker;

static gpointer
unblock_later (gpointer data)
{
  const Blocker *blocker = data;

  g_usleep (20000);
  if (blocker->hold != NULL)
    test_hold_release (blocker->hold);
  else
    test_open (blocker->gate);
  return NULL;
}

/* The write of the contents must not overtake pending work of the previous owner of the memory. A
 * driver may block the write until then. */
static void
check_restored_in_order (TestFixture *fixture, GpuMemoryPool *pool)
{
  const gboolean has_user_events = test_has (fixture, GPU_CAPABILITIES_USER_EVENTS);

  for (guint i = 0; i < (has_user_events ? 2 : 1); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
      g_autoptr (GpuBuffer) buffer = take (fixture, pool, stream);
      g_autoptr (GpuBuffer) copy = test_buffer (fixture, SIZE);
      g_autoptr (GpuEvent) gate = NULL;
      Blocker blocker = { NULL, NULL };
      GpuBuffer *previous;
      GThread *thread;

      fill (stream, buffer, 5);
      spill (buffer, stream);
      previous = take (fixture, pool, stream);
      fill (stream, previous, 3);
      if (i == 0)
        blocker.hold = test_hold (stream);
      else
        blocker.gate = gate = test_gate (fixture, stream);
      test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (copy), 0, GPU_MEMORY (previous), 0, SIZE,
                                       &error), error);
      g_object_unref (previous);
      thread = g_thread_new ("unblock", unblock_later, &blocker);
      unspill (buffer, stream);
      g_thread_join (thread);
      g_clear_pointer (&blocker.hold, test_hold_free);
      assert_filled (copy, 3);
      assert_filled (buffer, 5);
    }
}

static void
spill_restored_in_order (TestFixture *fixture)
{
  if (test_can_hold (fixture))
    for_each_source (fixture, check_restored_in_order, FALSE);
}

/* Work of the stream that the library does not track is ordered after a restore. */
static void
spill_untracked (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) copy = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_UNTRACKED, SIZE,
                                                 &error);

  g_assert_no_error (error);
  fill (stream, buffer, 5);

  for (guint i = 0; i < 20; i++)
    {
      test_synchronize (stream);
      spill (buffer, stream);
      fill (stream, copy, 0);
      unspill (buffer, stream);
      test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (copy), 0, GPU_MEMORY (buffer), 0, SIZE,
                                       &error), error);
      test_synchronize (stream);
      assert_filled (copy, 5);
    }
}

/* --- out of memory ---------------------------------------------------------------------------- */

#define N_BUFFERS 12
#define N_ROOM    4

typedef struct
{
  GpuMemoryPool *pool;
  GpuStream     *stream;
  GpuBuffer     *buffers[N_BUFFERS];
  guint64        used[N_BUFFERS];   /* time of the last use; 0 for never */
  guint8         values[N_BUFFERS];
  guint64        time;
  guint          n_spilled;
} Working;

/* Spills the least recently used buffer. */
static gboolean
make_room (GpuMemoryPool *pool G_GNUC_UNUSED, guint64 requested, Working *working)
{
  g_autoptr (GError) error = NULL;
  guint oldest = N_BUFFERS;

  g_assert_cmpuint (requested, ==, SIZE);

  for (guint i = 0; i < N_BUFFERS; i++)
    if (working->buffers[i] != NULL && working->used[i] != 0
        && !test_get_number (working->buffers[i], "spilled")
        && (oldest == N_BUFFERS || working->used[i] < working->used[oldest]))
      oldest = i;

  if (oldest == N_BUFFERS)
    return FALSE;

  test_assert_ok (gpu_buffer_spill (working->buffers[oldest], working->stream, &error), error);
  working->used[oldest] = 0;
  working->n_spilled++;
  return TRUE;
}

static void
use (Working *working, guint i)
{
  unspill (working->buffers[i], working->stream);
  working->used[i] = ++working->time;
}

/* Uses three times as much memory as the pool may allocate. */
static void
check_room (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (5);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  Working working = { .pool = pool, .stream = stream };

  gpu_memory_pool_set_limit (pool, N_ROOM * (SIZE + SIZE / 8));
  g_signal_connect (pool, "out-of-memory", G_CALLBACK (make_room), &working);

  for (guint i = 0; i < N_BUFFERS; i++)
    {
      working.buffers[i] = take (fixture, pool, stream);
      working.used[i] = ++working.time;
      working.values[i] = 10 + i;
      fill (stream, working.buffers[i], working.values[i]);
    }

  for (guint round = 0; round < 60; round++)
    {
      guint i = g_rand_int_range (rand, 0, N_BUFFERS);
      g_autoptr (GBytes) bytes = NULL;

      use (&working, i);
      bytes = test_content (working.buffers[i]);
      test_assert_value (g_bytes_get_data (bytes, NULL), working.values[i], SIZE);
      fill (stream, working.buffers[i], working.values[i] = g_rand_int (rand));
    }

  g_assert_cmpuint (test_pool_get_figure (pool, "peak-managed-bytes"), <=,
                    N_ROOM * (SIZE + SIZE / 8));
  g_assert_cmpuint (working.n_spilled, >=, N_BUFFERS - N_ROOM);
  for (guint i = 0; i < N_BUFFERS; i++)
    g_clear_object (&working.buffers[i]);
}

static void
spill_out_of_memory (TestFixture *fixture)
{
  for_each_source (fixture, check_room, FALSE);
}

typedef struct
{
  GpuBuffer *buffer;
  GError    *error;
} Restored;

static gboolean
spill_restored (GpuMemoryPool *pool G_GNUC_UNUSED, guint64 requested G_GNUC_UNUSED,
                Restored *restored)
{
  g_assert_false (gpu_buffer_spill (restored->buffer, NULL, &restored->error));
  return FALSE;
}

/* While a buffer is restored, a handler tries to spill it. */
static void
check_busy_in_handler (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) second = NULL;
  g_autoptr (GpuBuffer) third = NULL;
  Restored restored = { NULL, };

  gpu_memory_pool_set_limit (pool, 2 * SIZE + SIZE / 4);
  restored.buffer = buffer = take (fixture, pool, NULL);
  spill (buffer, NULL);
  second = take (fixture, pool, NULL);
  third = take (fixture, pool, NULL);
  g_signal_connect (pool, "out-of-memory", G_CALLBACK (spill_restored), &restored);
  g_assert_false (gpu_buffer_unspill (buffer, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "gpu_buffer_unspill");
  test_assert_gpu_error (restored.error, GPU_ERROR_BUSY, "gpu_buffer_spill", "outer call");
}

static void
spill_busy_in_handler (TestFixture *fixture)
{
  for_each_source (fixture, check_busy_in_handler, FALSE);
}

/* --- threads ---------------------------------------------------------------------------------- */

static gpointer
run_spill (gpointer data)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_buffer_spill (data, NULL, &error), error);
  return NULL;
}

typedef struct
{
  GpuBuffer *buffer;
  guint8     value;                 /* of each byte */
  guint      n;                     /* reads of each kind */
  gint       has_begun;             /* atomic */
} Reader;

static gpointer
run_releaser (gpointer data)
{
  g_usleep (1000);
  gpu_memory_release (data);
  return NULL;
}

/* While a spill or restore of a buffer is in progress, other commands, spills and restores fail
 * with GPU_ERROR_BUSY. A release succeeds. */
static void
check_moving (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);

  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuBuffer) buffer = take (fixture, pool, stream);
      TestHold *hold = test_hold (stream);
      const guint8 value = 4;
      GThread *releaser = NULL;
      GThread *thread;

      fill (stream, buffer, 4);
      thread = g_thread_new ("spill", run_spill, buffer);
      while (gpu_memory_get_native_handle (GPU_MEMORY (buffer)) != 0)
        g_thread_yield ();
      g_assert_false (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, SIZE, &value, 1, &error));
      test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_fill", "another thread");
      g_assert_false (gpu_buffer_spill (buffer, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_buffer_spill", "another thread");
      g_assert_false (gpu_buffer_unspill (buffer, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_buffer_unspill", "another thread");

      /* Release in another thread, because the release would block if the library held the lock
       * during the read */
      if (i == 1)
        releaser = g_thread_new ("releaser", run_releaser, buffer);
      test_hold_release (hold);
      g_thread_join (thread);
      g_clear_pointer (&releaser, g_thread_join);
      test_hold_free (hold);
      g_assert_cmpint (test_get_number (buffer, "spilled"), ==, i == 0);
      g_assert_cmpint (gpu_buffer_unspill (buffer, NULL, &error), ==, i == 0);
      if (i == 1)
        test_assert_gpu_error (error, GPU_ERROR_RELEASED, "gpu_buffer_unspill");
      else
        assert_filled (buffer, 4);
    }
}

static void
spill_busy_while_moving (TestFixture *fixture)
{
  if (test_can_hold (fixture))
    for_each_source (fixture, check_moving, TRUE);
}

/* Alternately spills and restores a buffer. A call succeeds, even if the buffer is in the requested
 * state already, or fails with GPU_ERROR_BUSY. No error may mention slices. */
static gpointer
run_mover (gpointer data)
{
  GpuBuffer *buffer = data;

  for (guint i = 0; i < 50; i++)
    {
      g_autoptr (GError) error = NULL;

      if (!(i % 2 == 0 ? gpu_buffer_spill (buffer, NULL, &error)
                       : gpu_buffer_unspill (buffer, NULL, &error)))
        test_assert_gpu_error (error, GPU_ERROR_BUSY, "another thread");
    }

  return NULL;
}

/* Reads return the contents in every state. */
static gpointer
run_reader (gpointer data)
{
  Reader *reader = data;
  g_autoptr (GMainContext) context = g_main_context_new ();
  g_autoptr (GBytes) content = test_value_bytes (SIZE, reader->value);

  g_main_context_push_thread_default (context);
  g_atomic_int_set (&reader->has_begun, TRUE);
  for (guint i = 0; i < reader->n; i++)
    {
      check_read_range (reader->buffer, content, i % 2, SIZE - 1, FALSE);
      check_read_array (reader->buffer, content);
    }
  g_main_context_pop_thread_default (context);

  return NULL;
}

/* While a thread spills a buffer whose contents are not complete, a read waits for the contents. */
static void
check_readable (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = take (fixture, pool, stream);
  Reader reader = { .buffer = buffer, .value = 4, .n = 1 };
  TestHold *hold = test_hold (stream);
  GThread *threads[2];

  fill (stream, buffer, 4);
  threads[0] = g_thread_new ("spill", run_spill, buffer);
  while (gpu_memory_get_native_handle (GPU_MEMORY (buffer)) != 0)
    g_thread_yield ();
  threads[1] = g_thread_new ("reader", run_reader, &reader);
  while (!g_atomic_int_get (&reader.has_begun))
    g_thread_yield ();
  test_hold_release (hold);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  test_hold_free (hold);
  g_assert_true (test_get_number (buffer, "spilled"));
  unspill (buffer, NULL);
  assert_filled (buffer, 4);
}

/* Once the contents are on the host, reads return them without waiting, even if the spill waits for
 * pending work before it frees the memory. */
static void
check_read_before_freed (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = take (fixture, pool, NULL);
  g_autoptr (GpuBuffer) other = test_buffer (fixture, SIZE);
  g_autoptr (GError) error = NULL;
  TestHold *hold = test_hold (stream);
  GThread *thread;
  guint8 bytes[2] = { 0, };

  fill (fixture->stream, buffer, 5);
  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (other), 0, GPU_MEMORY (buffer), 0, SIZE,
                                   &error), error);
  thread = g_thread_new ("spill", run_spill, buffer);

  /* Work in the order of a stream may read the device memory until the contents are complete */
  while (gpu_stream_read (fixture->stream, GPU_MEMORY (buffer), 0, &bytes[0], 1, &error))
    test_synchronize (fixture->stream);
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "gpu_stream_read");
  test_assert_ok (gpu_buffer_read (buffer, stream, 3, &bytes[1], 1, NULL, &error), error);
  g_assert_cmpuint (bytes[1], ==, 5);

  test_hold_release (hold);
  g_thread_join (thread);
  test_hold_free (hold);
  unspill (buffer, NULL);
  assert_filled (buffer, 5);
}

static void
spill_readable_while_moving (TestFixture *fixture)
{
  if (!test_can_hold (fixture))
    return;
  for_each_source (fixture, check_readable, TRUE);
  for_each_source (fixture, check_read_before_freed, TRUE);
}

/* Several threads spill, restore, read and use one buffer, which is finally released. */
static void
check_threads (TestFixture *fixture, GpuMemoryPool *pool)
{
  g_autoptr (GpuBuffer) buffer = take (fixture, pool, NULL);
  Reader reader = { .buffer = buffer, .value = 8, .n = 20 };
  GThread *threads[4];
  g_autoptr (GBytes) bytes = NULL;

  fill (fixture->stream, buffer, 8);
  for (guint i = 0; i < G_N_ELEMENTS (threads) - 1; i++)
    threads[i] = g_thread_new ("mover", run_mover, buffer);
  threads[3] = g_thread_new ("reader", run_reader, &reader);
  for (guint i = 0; i < 200; i++)
    {
      g_autoptr (GError) error = NULL;

      if (!gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0, SIZE, "\10",
                            1, &error))
        g_assert_error (error, GPU_ERROR, GPU_ERROR_BUSY);
    }
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);

  unspill (buffer, NULL);
  bytes = test_content (buffer);
  test_assert_value (g_bytes_get_data (bytes, NULL), 8, SIZE);

  /* Release the buffer while the other threads run */
  threads[0] = g_thread_new ("mover", run_releaser, buffer);
  for (guint i = 0; i < 50; i++)
    {
      g_autoptr (GError) error = NULL;

      if (!(i % 2 == 0 ? gpu_buffer_spill (buffer, NULL, &error)
                       : gpu_buffer_unspill (buffer, NULL, &error)))
        g_assert_error (error, GPU_ERROR, GPU_ERROR_RELEASED);
    }
  g_thread_join (threads[0]);
}

static void
spill_threads (TestFixture *fixture)
{
  for_each_source (fixture, check_threads, TRUE);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("content", spill_content);
  test_add ("refused", spill_refused);
  test_add ("read", spill_read);
  test_add ("read-waits-for-no-stream", spill_read_waits_for_no_stream);
  test_add ("released", spill_released);
  test_add ("hash", spill_hash);
  test_add ("prepared", spill_prepared);
  test_add ("freed-while-spilled", spill_freed_while_spilled);
  test_add ("in-flight", spill_in_flight);
  test_add ("waits-for-streams", spill_waits_for_streams);
  test_add ("dropped-slice", spill_dropped_slice);
  test_add ("failed-event", spill_failed_event);
  test_add ("failed-file", spill_failed_file);
  test_add ("restored-in-order", spill_restored_in_order);
  test_add ("untracked", spill_untracked);
  test_add ("out-of-memory", spill_out_of_memory);
  test_add ("busy-in-handler", spill_busy_in_handler);
  test_add ("retry-after-failure", spill_retry_after_failure);
  test_add ("subprocess/retry-after-failure", spill_retry_after_failure_opencl);
  test_add ("busy-while-moving", spill_busy_while_moving);
  test_add ("readable-while-moving", spill_readable_while_moving);
  test_add ("threads", spill_threads);

  return test_run ();
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* CUDA memory: registered host memory, cached pool memory, and the staging blocks behind mappings.
 * The tests call or intercept functions of the driver that the library has loaded. */
#include "config.h"

#include <sys/wait.h>
#include <unistd.h>

#include <gio/gunixfdlist.h>

#include "gpumem/cuda/core/gpu-cuda.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-memory-private.h"
#include "test-cuda-util.h"
#include "tests/cuda-driver/cuda-driver.h"

#define SIZE 65536

static void
fill (GpuStream *stream, GpuBuffer *buffer, guint8 value)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0,
                                   gpu_memory_get_size (GPU_MEMORY (buffer)), &value, 1, &error),
                  error);
}

static void
assert_attribute (GVariant *attributes, const char *nick, const char *expected)
{
  g_autoptr (GVariant) value = g_variant_lookup_value (attributes, nick, NULL);
  g_autofree char *text = NULL;

  g_assert_nonnull (value);
  text = g_variant_print (value, FALSE);
  g_assert_cmpstr (text, ==, expected);
}

/* If the context cannot be made current, shareable memory leaks. But the list of ranges, which
 * later exports and changes of peer access read, does not keep the freed range. */
static void
memory_range_leaks (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = NULL;
  GpuCudaContext *context = (GpuCudaContext *) _gpu_context_get_native (fixture->context);
  g_autoptr (GError) error = NULL;
  guint n_ranges;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IPC_FDS))
    return;
  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") == NULL)
    {
      g_test_skip ("the driver has no calls that fail");
      return;
    }

  n_ranges = context->ranges->len;
  buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_SHAREABLE, SIZE, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (context->ranges->len, ==, n_ranges + 1);

  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) ("cuCtxPushCurrent:1:3:0"));
  g_clear_object (&buffer);
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (""));
  g_assert_cmpuint (context->ranges->len, ==, n_ranges);
}

/* --- host memory ----------------------------------------------------------------- */

static void
memory_of_host (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) near = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_ALLOC_HOST, SIZE,
                                               &error);
  g_autoptr (GpuBuffer) far = test_buffer (fixture, SIZE);
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GVariant) attributes = NULL;
  guint64 host = 0;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  g_assert_no_error (error);
  attributes = gpu_memory_get_attributes (GPU_MEMORY (near), &error);
  g_assert_no_error (error);
  assert_attribute (attributes, "memory-type", "'host'");
  g_assert_true (g_variant_lookup (attributes, "host-pointer", "t", &host));

  test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (near), 0, bytes, &error), error);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (far), 0, GPU_MEMORY (near), 0,
                                   SIZE, &error), error);
  test_assert_content (far, bytes);
  fill (fixture->stream, near, 4);
  {
    g_autoptr (GpuMapping) mapping = gpu_buffer_map (near, fixture->stream, GPU_MAP_FLAGS_NONE, 64,
                                                     SIZE - 64, NULL, &error);

    g_assert_no_error (error);
    /* The mapping has the address of the host memory, without a staging block. */
    g_assert_cmpuint (gpu_mapping_get_address (mapping), ==, host + 64);
    test_assert_value (gpu_mapping_get_data (mapping), 4, SIZE - 64);
  }
}

static GpuBuffer *
new_for_host (TestFixture *fixture, gpointer data, gsize size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new_static (data, size);
  GpuBuffer *buffer = gpu_buffer_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, bytes,
                                                     &error);

  g_assert_no_error (error);
  return buffer;
}

/* Several buffers over the same host memory are used and freed independently, although the driver
 * can page-lock that memory only once. */
static void
memory_registered (TestFixture *fixture)
{
  g_autofree guint8 *data = g_malloc0 (SIZE);
  g_autoptr (GpuBuffer) whole = NULL;
  g_autoptr (GpuBuffer) part = NULL;
  g_autoptr (GpuBuffer) same = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  whole = new_for_host (fixture, data, SIZE);
  part = new_for_host (fixture, data + 100, 200);
  same = new_for_host (fixture, data, SIZE);
  fill (fixture->stream, whole, 7);
  fill (fixture->stream, part, 8);
  test_synchronize (fixture->stream);
  test_assert_value (data, 7, 100);
  test_assert_value (data + 100, 8, 200);
  g_clear_object (&whole);
  g_clear_object (&part);
  fill (fixture->stream, same, 9);
  test_synchronize (fixture->stream);
  test_assert_value (data, 9, SIZE);
}

/* Buffers over memory that shares pages, such as adjacent arrays, are used and freed
 * independently. */
static void
memory_registered_neighbours (TestFixture *fixture)
{
  const gsize sizes[] = { 6000, 100, 10000, SIZE - 16100 };
  g_autofree guint8 *data = g_malloc0 (SIZE);
  g_autofree guint8 *expected = g_malloc0 (SIZE);
  GpuBuffer *buffers[G_N_ELEMENTS (sizes)];
  gsize offset = 0;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      buffers[i] = new_for_host (fixture, data + offset, sizes[i]);
      memset (expected + offset, i + 1, sizes[i]);
      offset += sizes[i];
    }
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    fill (fixture->stream, buffers[i], i + 1);
  test_synchronize (fixture->stream);
  test_assert_mem (data, expected, SIZE);
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    g_clear_object (&buffers[i]);
  for (guint i = G_N_ELEMENTS (sizes); i > 0; i--)
    {
      buffers[i - 1] = new_for_host (fixture, data + (offset -= sizes[i - 1]), sizes[i - 1]);
      if (i < G_N_ELEMENTS (sizes))
        g_object_unref (buffers[i]);
      fill (fixture->stream, buffers[i - 1], 20 + i);
      test_synchronize (fixture->stream);
      memset (expected + offset, 20 + i, sizes[i - 1]);
      test_assert_mem (data, expected, SIZE);
    }
  g_object_unref (buffers[0]);
}

/* The registration of host memory ends where the buffer ends. The bytes after it are pageable, even
 * those in the same page. */
static void
memory_registered_end (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *data = g_malloc0 (SIZE);
  g_autoptr (GpuBuffer) start = NULL;
  g_autoptr (GpuBuffer) far = test_buffer (fixture, 9000);
  g_autoptr (GBytes) bytes = test_random_bytes (9000);
  g_autoptr (GBytes) beside = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  start = new_for_host (fixture, data, 6000);
  memcpy (data + 6000, g_bytes_get_data (bytes, NULL), 9000);
  beside = g_bytes_new_static (data + 6000, 9000);
  test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (far), 0, beside, &error), error);
  test_assert_content (far, bytes);
}

/* Memory that spans two registrations is refused, because a copy must not cross the end of a
 * registration. */
static void
memory_registered_overlap (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *data = g_malloc0 (SIZE);
  const struct { gsize offset; gsize size; } parts[] = { { 2000, 6000 }, { 0, 3000 },
                                                         { 0, SIZE }, { 7999, 2 } };
  g_autoptr (GpuBuffer) buffer = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  buffer = new_for_host (fixture, data + 2000, 6000);
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      g_autoptr (GBytes) bytes = g_bytes_new_static (data + parts[i].offset, parts[i].size);
      g_autoptr (GpuBuffer) other = NULL;

      other = gpu_buffer_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, bytes,
                                             &error);
      if (i == 0)
        g_assert_no_error (error);
      else
        test_assert_gpu_error (error, GPU_ERROR_BUSY, "6000", "slices");
    }
  fill (fixture->stream, buffer, 3);
  test_synchronize (fixture->stream);
  test_assert_value (data + 2000, 3, 6000);
  test_assert_value (data + 8000, 0, SIZE - 8000);
  g_clear_object (&buffer);
  buffer = new_for_host (fixture, data, SIZE);
  fill (fixture->stream, buffer, 4);
  test_synchronize (fixture->stream);
  test_assert_value (data, 4, SIZE);
}

/* The library accepts memory that another library has registered if the registration covers all of
 * the memory. */
static void
memory_registered_in_part (TestFixture *fixture)
{
  static const gsize offsets[] = { 0, 1000, 5000 };
  g_autofree guint8 *data = g_malloc0 (SIZE);
  g_autoptr (GpuBuffer) buffer = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  test_cuda_push (fixture);
  g_assert_cmpuint (_gpu_cuda.cuMemHostRegister (data + 1000, 5000,
                                                 CU_MEMHOSTREGISTER_PORTABLE
                                                 | CU_MEMHOSTREGISTER_DEVICEMAP), ==,
                    CUDA_SUCCESS);
  test_cuda_pop (fixture);
  for (guint i = 0; i < G_N_ELEMENTS (offsets); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) bytes = g_bytes_new_static (data + offsets[i], 8000);

      g_assert_null (gpu_buffer_new_for_host_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, bytes,
                                                    &error));
      test_assert_gpu_error (error, GPU_ERROR_BUSY, "8000", "other code");
    }
  buffer = new_for_host (fixture, data + 2000, 4000);
  fill (fixture->stream, buffer, 6);
  test_synchronize (fixture->stream);
  test_assert_value (data + 2000, 6, 4000);
  test_assert_value (data + 6000, 0, SIZE - 6000);
  g_clear_object (&buffer);
  test_cuda_push (fixture);
  g_assert_cmpuint (_gpu_cuda.cuMemHostUnregister (data + 1000), ==, CUDA_SUCCESS);
  test_cuda_pop (fixture);
}

/* Host memory that the program allocated through the driver needs no registration. */
static void
memory_registered_elsewhere (TestFixture *fixture)
{
  gpointer data = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  test_cuda_push (fixture);
  g_assert_cmpuint (_gpu_cuda.cuMemHostAlloc (&data, SIZE, CU_MEMHOSTALLOC_PORTABLE), ==,
                    CUDA_SUCCESS);
  test_cuda_pop (fixture);
  buffer = new_for_host (fixture, data, SIZE);
  fill (fixture->stream, buffer, 5);
  test_synchronize (fixture->stream);
  test_assert_value (data, 5, SIZE);
  g_clear_object (&buffer);
  test_cuda_push (fixture);
  g_assert_cmpuint (_gpu_cuda.cuMemFreeHost (data), ==, CUDA_SUCCESS);
  test_cuda_pop (fixture);
}

static void
memory_pitched (TestFixture *fixture)
{
  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  for (gsize element_size = 1; element_size <= 32; element_size *= 2)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuBuffer) buffer = gpu_buffer_new_pitched (fixture->context,
                                                             GPU_MEMORY_FLAGS_NONE,
                                                             1000, 10, element_size, &error);
      gsize pitch = gpu_buffer_get_row_pitch (buffer);

      g_assert_no_error (error);
      g_assert_cmpuint (pitch, >=, 1000);
      g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (buffer)), ==, 10 * pitch);
    }
}

/* --- cached pool memory ---------------------------------------------------------- */

#define LARGE_DEVICE ((guint64) 32 << 30)

/* Makes the pool of @context cache @size unused bytes. */
static void
fill_pool (GpuContext *context, gsize size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = gpu_context_get_default_stream (context);
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new_on_stream (stream, GPU_MEMORY_FLAGS_NONE, size,
                                                           &error);

  g_assert_no_error (error);
  g_clear_object (&buffer);
  test_synchronize (stream);
}

static GpuBuffer *
new_by_kind (GpuContext *context, guint kind, gsize size, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_context_get_default_stream (context);

  switch (kind)
    {
    case 0:
      return gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, size, error);
    case 1:
      return gpu_buffer_new_pitched (context, GPU_MEMORY_FLAGS_NONE, 65536, size / 65536, 4, error);
    case 2:
      return gpu_buffer_new (context, GPU_MEMORY_FLAGS_SHAREABLE, size, error);
    default:
      return gpu_buffer_new_on_stream (stream, GPU_MEMORY_FLAGS_NONE, size, error);
    }
}

/* Checks that the last bytes of the memory are usable. */
static void
check_end (GpuStream *stream, GpuBuffer *buffer, guint8 value)
{
  const gsize offset = gpu_memory_get_size (GPU_MEMORY (buffer)) - 4096;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) content = NULL;

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), offset, 4096, &value, 1, &error),
                  error);
  content = gpu_buffer_read_bytes (buffer, stream, offset, 4096, NULL, &error);
  g_assert_no_error (error);
  test_assert_value (g_bytes_get_data (content, NULL), value, 4096);
}

/* If an allocation fails, the library frees the cached memory of the pools in all contexts of the
 * device, and retries. */
static void
memory_pool_frees_cache (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) own = NULL;
  g_autoptr (GpuStream) stream = NULL;
  GpuMemoryInfoSource source;
  guint64 free_size = 0;
  guint64 total_size = 0;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE)
      || !test_has (fixture, GPU_CAPABILITIES_STREAM_ORDERED | GPU_CAPABILITIES_IPC_FDS))
    return;
  own = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_OWN, &error);
  g_assert_no_error (error);
  stream = gpu_context_get_default_stream (own);
  test_assert_ok (gpu_context_get_memory_info (own, &free_size, &total_size, &source, &error),
                  error);
  for (guint i = 0; i < 8; i++)
    {
      const gsize size = free_size / 10 * 5 / 65536 * 65536;
      g_autoptr (GpuBuffer) buffer = NULL;

      /* The driver takes seconds to clear a large allocation, so on devices with much memory test
       * each kind in only one context. */
      if (free_size > LARGE_DEVICE && i / 4 != i % 2)
        continue;
      fill_pool (fixture->context, free_size / 10 * 6);
      buffer = new_by_kind (i < 4 ? fixture->context : own, i % 4, size, &error);
      g_assert_no_error (error);
      check_end (i < 4 ? fixture->stream : stream, buffer, i);
      g_clear_object (&buffer);
      test_synchronize (fixture->stream);
      test_synchronize (stream);
    }
}

static CUresult (CUDAAPI *load_module) (CUmodule *module, const void *image, unsigned int n_options,
                                        CUjit_option *options, void **values);
static guint n_loads;

static CUresult CUDAAPI
load_second (CUmodule *module, const void *image, unsigned int n_options, CUjit_option *options,
             void **values)
{
  if (n_loads++ % 2 == 0)
    {
      for (guint i = 0; i < n_options; i++)
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
          values[i] = NULL;
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  for (guint i = 0; i < n_options; i++)
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
      g_assert_nonnull (values[i]);
  return load_module (module, image, n_options, options, values);
}

/* Cached pool memory is also freed if loading a program runs out of memory, and if loading the
 * kernel of a fill does. A wrapped context loads the kernel at the first fill. */
static void
memory_pool_frees_cache_for_programs (TestFixture *fixture)
{
  static const char source[] = "extern \"C\" __global__ void k (int *p) { *p = 1; }";
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) own = NULL;
  g_autoptr (GpuContext) wrapped = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuProgram) program = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE)
      || !test_has (fixture, GPU_CAPABILITIES_STREAM_ORDERED | GPU_CAPABILITIES_SOURCE))
    return;
  own = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_OWN, &error);
  g_assert_no_error (error);
  wrapped = gpu_context_new_wrapped (fixture->device,
                                     gpu_context_get_native_handle (fixture->context),
                                     GPU_WRAP_MODE_BORROW, &error);
  g_assert_no_error (error);
  buffer = gpu_buffer_new (wrapped, GPU_MEMORY_FLAGS_NONE, 7 * 1000, &error);
  g_assert_no_error (error);
  load_module = _gpu_cuda.cuModuleLoadDataEx;
  n_loads = 0;
  _gpu_cuda.cuModuleLoadDataEx = load_second;
  program = gpu_program_new_from_source_full (fixture->context, source, NULL,
                                              GPU_PROGRAM_FLAGS_NO_CACHE, NULL, NULL, &error);
  /* No pool exists yet, so there is nothing to free. */
  g_assert_null (program);
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "cuModuleLoadDataEx");
  g_assert_cmpuint (n_loads, ==, 1);
  n_loads = 0;
  g_object_unref (new_by_kind (own, 3, 1000, &error));
  g_assert_no_error (error);
  program = gpu_program_new_from_source_full (fixture->context, source, NULL,
                                              GPU_PROGRAM_FLAGS_NO_CACHE, NULL, NULL, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_buffer_fill (buffer, NULL, 0, 7 * 1000, "pattern", 7, NULL,
                                   &error), error);
  g_assert_cmpuint (n_loads, ==, 4);
  _gpu_cuda.cuModuleLoadDataEx = load_module;
}

static __typeof__ (_gpu_cuda.cuEventQuery) query_event;
static GThread *query_thread;
static guint n_pending;

static CUresult CUDAAPI
count_pending (CUevent event)
{
  CUresult code = query_event (event);

  n_pending += g_thread_self () == query_thread && code == CUDA_ERROR_NOT_READY;
  return code;
}

/* A retry after a lack of memory does not wait for pending work of a per-thread stream. */
static void
memory_pool_skips_pending_streams (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuStream) stream = NULL;
  TestHold *hold;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE)
      || !test_has (fixture, GPU_CAPABILITIES_STREAM_ORDERED) || !test_can_hold (fixture))
    return;
  stream = gpu_stream_new_wrapped (fixture->context, GPU_STREAM_HANDLE_PER_THREAD,
                                   GPU_WRAP_MODE_BORROW, &error);
  g_assert_no_error (error);
  buffer = gpu_buffer_new_on_stream (stream, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  g_clear_object (&buffer);
  test_synchronize (stream);
  hold = test_hold (stream);
  query_event = _gpu_cuda.cuEventQuery;
  query_thread = g_thread_self ();
  n_pending = 0;
  _gpu_cuda.cuEventQuery = count_pending;
  _gpu_cuda_trim_pools ((GpuCudaContext *) _gpu_context_get_native (fixture->context),
                        CUDA_ERROR_OUT_OF_MEMORY);
  _gpu_cuda.cuEventQuery = query_event;
  g_assert_cmpuint (n_pending, ==, 1);
  test_hold_release (hold);
  test_synchronize (stream);
  test_hold_free (hold);
}

static CUresult (CUDAAPI *free_async) (CUdeviceptr address, CUstream stream);
static CUresult (CUDAAPI *query_stream) (CUstream stream);
static CUstream borrowed;
static gint n_borrowed_frees;       /* atomic */
static gint n_borrowed_queries;     /* atomic */

static CUresult CUDAAPI
count_borrowed_frees (CUdeviceptr address, CUstream stream)
{
  if (stream == borrowed)
    g_atomic_int_inc (&n_borrowed_frees);
  return free_async (address, stream);
}

static CUresult CUDAAPI
count_borrowed_queries (CUstream stream)
{
  if (stream == borrowed)
    g_atomic_int_inc (&n_borrowed_queries);
  return query_stream (stream);
}

static void
trim_pools (TestFixture *fixture)
{
  query_stream = _gpu_cuda.cuStreamQuery;
  _gpu_cuda.cuStreamQuery = count_borrowed_queries;
  _gpu_cuda_trim_pools ((GpuCudaContext *) _gpu_context_get_native (fixture->context),
                        CUDA_ERROR_OUT_OF_MEMORY);
  _gpu_cuda.cuStreamQuery = query_stream;
}

/* Once the last reference to a borrowed stream is dropped, the program may destroy the stream. So
 * memory that was allocated in its order is freed on another stream, after the work. When memory
 * runs out, the library no longer queries the borrowed stream. */
static void
memory_outlives_borrowed_stream (TestFixture *fixture)
{
  g_autoptr (GpuStream) owner = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GError) error = NULL;
  guint64 size;
  TestHold *hold;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE)
      || !test_has (fixture, GPU_CAPABILITIES_STREAM_ORDERED) || !test_can_hold (fixture))
    return;
  g_atomic_int_set (&n_borrowed_frees, 0);
  g_atomic_int_set (&n_borrowed_queries, 0);
  owner = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  borrowed = (CUstream) (gsize) gpu_stream_get_native_handle (owner);
  stream = gpu_stream_new_wrapped (fixture->context, (guint64) (gsize) borrowed,
                                   GPU_WRAP_MODE_BORROW, &error);
  g_assert_no_error (error);
  size = gpu_context_get_allocated_size (fixture->context);
  buffer = gpu_buffer_new_on_stream (stream, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  g_object_unref (gpu_buffer_new_on_stream (stream, GPU_MEMORY_FLAGS_NONE, SIZE, NULL));
  trim_pools (fixture);
  g_assert_cmpint (g_atomic_int_get (&n_borrowed_queries), ==, 1);
  hold = test_hold (owner);
  fill (stream, buffer, 3);
  g_clear_object (&stream);
  trim_pools (fixture);
  g_assert_cmpint (g_atomic_int_get (&n_borrowed_queries), ==, 1);
  free_async = _gpu_cuda.cuMemFreeAsync;
  _gpu_cuda.cuMemFreeAsync = count_borrowed_frees;
  g_clear_object (&buffer);
  test_hold_release (hold);
  test_synchronize (owner);
  while (gpu_context_get_allocated_size (fixture->context) > size)
    g_thread_yield ();
  _gpu_cuda.cuMemFreeAsync = free_async;
  g_assert_cmpint (g_atomic_int_get (&n_borrowed_frees), ==, 0);
  test_hold_free (hold);
}

/* --- processes ------------------------------------------------------------------- */

/* Frees @buffer in a forked child. */
static void
free_in_child (GpuBuffer *buffer)
{
  int status = 0;
  pid_t child = fork ();

  g_assert_cmpint (child, >=, 0);
  if (child == 0)
    {
      alarm (TEST_DEADLINE);
      g_object_unref (buffer);
      test_end_child (0);
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_false (WIFSIGNALED (status));
  g_assert_cmpint (WEXITSTATUS (status), ==, 0);
}

static __typeof__ (_gpu_cuda.cuMemHostRegister) register_memory;
static __typeof__ (_gpu_cuda.cuMemImportFromShareableHandle) import_memory;
static GpuBuffer *child_buffer;

static CUresult CUDAAPI
fork_and_register (void *data, size_t size, unsigned int flags)
{
  free_in_child (child_buffer);
  return register_memory (data, size, flags);
}

static CUresult CUDAAPI
fork_and_import (CUmemGenericAllocationHandle *handle, void *fd, CUmemAllocationHandleType type)
{
  free_in_child (child_buffer);
  return import_memory (handle, fd, type);
}

/* A process forks while a thread registers memory. The child can free registered memory. */
static void
memory_registered_forked (TestFixture *fixture)
{
  g_autofree guint8 *data = g_malloc0 (SIZE);
  g_autoptr (GpuBuffer) first = NULL;
  g_autoptr (GpuBuffer) second = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  first = new_for_host (fixture, data, SIZE / 2);
  child_buffer = first;
  register_memory = _gpu_cuda.cuMemHostRegister;
  _gpu_cuda.cuMemHostRegister = fork_and_register;
  second = new_for_host (fixture, data + SIZE / 2, SIZE / 2);
  _gpu_cuda.cuMemHostRegister = register_memory;
  fill (fixture->stream, first, 3);
  fill (fixture->stream, second, 3);
  test_synchronize (fixture->stream);
  test_assert_value (data, 3, SIZE);
}

static GpuBuffer *
import_new (GpuContext *context)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) handle = NULL;
  GpuBuffer *imported;

  buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_SHAREABLE, SIZE, &error);
  g_assert_no_error (error);
  handle = gpu_buffer_export_fds (buffer, fds, &error);
  g_assert_no_error (error);
  imported = gpu_buffer_new_from_fds (context, handle, fds, &error);
  g_assert_no_error (error);
  return imported;
}

/* A process forks while a thread imports memory. The child can free imported memory. */
static void
memory_imported_forked (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) first = NULL;
  g_autoptr (GpuBuffer) second = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IPC_FDS))
    return;
  first = import_new (fixture->context);
  child_buffer = first;
  import_memory = _gpu_cuda.cuMemImportFromShareableHandle;
  _gpu_cuda.cuMemImportFromShareableHandle = fork_and_import;
  second = import_new (fixture->context);
  _gpu_cuda.cuMemImportFromShareableHandle = import_memory;
  fill (fixture->stream, first, 3);
  test_synchronize (fixture->stream);
}

/* The library cannot share a descriptor of stream-ordered memory. It closes the descriptor and does
 * not return the number, because the next open file may get the same number. */
static void
memory_pooled_no_descriptor (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  GpuStorage *storage;
  gsize whole_size = 0;
  gsize offset = 0;
  int fd = -1;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_STREAM_ORDERED)
      || !test_has (fixture, GPU_CAPABILITIES_IPC_FDS))
    return;
  buffer = gpu_buffer_new_on_stream (fixture->stream, GPU_MEMORY_FLAGS_SHAREABLE, SIZE, &error);
  g_assert_no_error (error);
  storage = _gpu_memory_acquire (GPU_MEMORY (buffer), "test", &error);
  g_assert_no_error (error);
  g_assert_false (_gpu_cuda_share_fd (storage->context, storage->buffer, GPU_FD_KINDS_OPAQUE, &fd,
                                      &whole_size, &offset, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "stream-ordered");
  g_assert_cmpint (fd, ==, -1);
  _gpu_storage_unuse (storage);
}

/* --- mappings -------------------------------------------------------------------- */

/* A new mapping reuses the staging block of an earlier, unmapped mapping. Two mappings at the same
 * time have different blocks. */
static void
memory_staging (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 1);
  g_autoptr (GpuMapping) first = NULL;
  g_autoptr (GpuMapping) second = NULL;
  guint64 address;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  first = gpu_buffer_map (buffer, fixture->stream, GPU_MAP_FLAGS_READ, 0, SIZE, NULL, &error);
  g_assert_no_error (error);
  second = gpu_buffer_map (buffer, fixture->stream, GPU_MAP_FLAGS_READ, 0, SIZE, NULL, &error);
  g_assert_no_error (error);
  address = gpu_mapping_get_address (first);
  g_assert_cmpuint (address, !=, gpu_mapping_get_address (second));
  g_clear_object (&first);
  test_synchronize (fixture->stream);
  for (guint8 i = 2; i < 10; i++)
    {
      g_autoptr (GBytes) content = NULL;

      g_clear_object (&second);
      test_synchronize (fixture->stream);
      first = gpu_buffer_map (buffer, fixture->stream, GPU_MAP_FLAGS_WRITE_INVALIDATE, 10, 1000,
                              NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (gpu_mapping_get_address (first), !=, 0);
      memset (gpu_mapping_get_data (first), i, 1000);
      g_clear_object (&first);
      content = test_content (buffer);
      test_assert_value (g_bytes_get_data (content, NULL), 1, 10);
      test_assert_value ((const guint8 *) g_bytes_get_data (content, NULL) + 10, i, 1000);
      test_assert_value ((const guint8 *) g_bytes_get_data (content, NULL) + 1010, 1, SIZE - 1010);
    }
}

static GpuCudaContext *watched;
static __typeof__ (_gpu_cuda.cuMemHostRegister) lock_host;
static __typeof__ (_gpu_cuda.cuMemHostUnregister) unlock_host;
static guint n_allocs;
static guint n_frees;

static void
assert_unlocked (void)
{
  g_assert_true (g_mutex_trylock (&watched->lock));
  g_mutex_unlock (&watched->lock);
}

static CUresult CUDAAPI
lock_unlocked (void *data, size_t size, unsigned int flags)
{
  n_allocs++;
  assert_unlocked ();
  return lock_host (data, size, flags);
}

static CUresult CUDAAPI
unlock_unlocked (void *data)
{
  n_frees++;
  assert_unlocked ();
  return unlock_host (data);
}

/* The library does not lock the context while it allocates page-locked memory, because the
 * allocation may block in the driver. */
static void
memory_staging_unlocked (TestFixture *fixture)
{
  const gsize size = 40 << 20;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, size);
  GpuMapping *mappings[4] = { NULL };

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  watched = (GpuCudaContext *) _gpu_context_get_native (fixture->context);
  lock_host = _gpu_cuda.cuMemHostRegister;
  unlock_host = _gpu_cuda.cuMemHostUnregister;
  n_allocs = 0;
  n_frees = 0;
  _gpu_cuda.cuMemHostRegister = lock_unlocked;
  _gpu_cuda.cuMemHostUnregister = unlock_unlocked;
  for (guint i = 0; i < G_N_ELEMENTS (mappings); i++)
    {
      mappings[i] = gpu_buffer_map (buffer, fixture->stream, GPU_MAP_FLAGS_READ, 0, size, NULL,
                                    &error);
      g_assert_no_error (error);
    }
  g_assert_cmpuint (n_allocs, ==, G_N_ELEMENTS (mappings));
  for (guint i = 0; i < G_N_ELEMENTS (mappings); i++)
    g_object_unref (mappings[i]);
  test_synchronize (fixture->stream);
  /* No cached block is large enough, and the cache is full. */
  g_clear_object (&buffer);
  buffer = test_buffer_filled (fixture, size + (1 << 20), 6);
  mappings[0] = gpu_buffer_map (buffer, fixture->stream, GPU_MAP_FLAGS_READ, 0, size + (1 << 20),
                                NULL, &error);
  g_assert_no_error (error);
  test_assert_value (gpu_mapping_get_data (mappings[0]), 6, size + (1 << 20));
  g_assert_cmpuint (n_frees, ==, G_N_ELEMENTS (mappings) - 1);
  g_object_unref (mappings[0]);
  _gpu_cuda.cuMemHostRegister = lock_host;
  _gpu_cuda.cuMemHostUnregister = unlock_host;
}

/* --- exports of pools ------------------------------------------------------------- */

/* Allocates from a new expandable pool, and returns the attributes of the memory. */
static GVariant *
get_pool_attributes (TestFixture *fixture, GpuMemoryFlags flags)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  GVariant *attributes;

  pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_EXPANDABLE, flags, &error);
  g_assert_no_error (error);
  buffer = gpu_memory_pool_alloc_buffer (pool, 3 * SIZE, NULL, &error);
  g_assert_no_error (error);
  fill (fixture->stream, buffer, 3);
  attributes = gpu_memory_get_attributes (GPU_MEMORY (buffer), &error);
  g_assert_no_error (error);
  return attributes;
}

/* Network cards can access the memory of every expandable pool, if the device supports this. Only
 * the memory of shareable pools can be exported. */
static void
memory_pool_exports (TestFixture *fixture)
{
  static const GpuMemoryFlags flags[] = { GPU_MEMORY_FLAGS_NONE, GPU_MEMORY_FLAGS_SHAREABLE };
  static const char *const types[] = { "[]", "['posix-file-descriptor']" };
  g_autoptr (GVariant) rdma = NULL;
  g_autofree char *text = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY | GPU_CAPABILITIES_IPC_FDS))
    return;
  rdma = test_take_attribute (gpu_device_get_attributes (fixture->device, NULL),
                              "gpu-direct-rdma-with-cuda-vmm-supported");
  g_assert_nonnull (rdma);
  text = g_variant_print (rdma, FALSE);
  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    {
      g_autoptr (GVariant) attributes = get_pool_attributes (fixture, flags[i]);

      assert_attribute (attributes, "allowed-handle-types", types[i]);
      assert_attribute (attributes, "is-gpu-direct-rdma-capable", text);
    }
}

static __typeof__ (_gpu_cuda.cuMemCreate) create_memory;
static guint n_refused;

static CUresult
create_without_rdma (CUmemGenericAllocationHandle *handle, size_t size,
                     const CUmemAllocationProp *properties, unsigned long long flags)
{
  if (!properties->allocFlags.gpuDirectRDMACapable)
    return create_memory (handle, size, properties, flags);
  n_refused++;
  return CUDA_ERROR_NOT_SUPPORTED;
}

/* If the driver refuses memory for network cards, the library allocates other memory, and no longer
 * asks. */
static void
memory_rdma_refused (TestFixture *fixture)
{
  GpuCudaContext *context = (GpuCudaContext *) _gpu_context_get_native (fixture->context);

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY | GPU_CAPABILITIES_IPC_FDS))
    return;
  if (!context->device->gpu_direct_rdma)
    {
      g_test_skip ("network cards cannot access virtual memory of the device");
      return;
    }
  create_memory = _gpu_cuda.cuMemCreate;
  _gpu_cuda.cuMemCreate = create_without_rdma;
  n_refused = 0;
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GVariant) attributes = get_pool_attributes (fixture, GPU_MEMORY_FLAGS_SHAREABLE);

      assert_attribute (attributes, "allowed-handle-types", "['posix-file-descriptor']");
      assert_attribute (attributes, "is-gpu-direct-rdma-capable", "false");
      g_assert_cmpuint (n_refused, ==, 1);
    }
  _gpu_cuda.cuMemCreate = create_memory;
  g_atomic_int_set (&context->device->refuses_rdma, FALSE);
}

static CUresult CUDAAPI
refuse_host (CUmemGenericAllocationHandle *handle G_GNUC_UNUSED, size_t size G_GNUC_UNUSED,
             const CUmemAllocationProp *properties G_GNUC_UNUSED,
             unsigned long long flags G_GNUC_UNUSED)
{
  return CUDA_ERROR_NOT_PERMITTED;
}

/* In a container, the driver may refuse chunks of host memory although the device supports them. */
static void
memory_host_chunks_refused (TestFixture *fixture)
{
  __typeof__ (_gpu_cuda.cuMemCreate) create = _gpu_cuda.cuMemCreate;
  g_autoptr (GError) error = NULL;
  GpuMemoryPool *pool;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_VIRTUAL_MEMORY))
    return;
  _gpu_cuda.cuMemCreate = refuse_host;
  pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_EXPANDABLE,
                              GPU_MEMORY_FLAGS_ALLOC_HOST, &error);
  _gpu_cuda.cuMemCreate = create;
  g_assert_null (pool);
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_memory_pool_new");
}

static void
check_relaxed (const char *name, gpointer ours, gpointer driver)
{
  if (driver != NULL && GPUMEM_CUDA_DRIVER (is_unsafe) (name) && ours == driver)
    g_error ("%s is not called in relaxed mode", name);
}

/* Every call that the driver refuses during captures is made in relaxed mode. */
static void
memory_relaxed (void)
{
  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_is_unsafe") == NULL)
    {
      g_test_skip ("the driver does not list the calls");
      return;
    }

#define GPU_CUDA_SYMBOL(group, name, version, parameters) \
  check_relaxed (#name, (gpointer) _gpu_cuda.name, (gpointer) _gpu_cuda_raw.name);
#include "gpumem/cuda/driver/gpu-cuda-symbols.h"
#undef GPU_CUDA_SYMBOL
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("range-leaks", memory_range_leaks);
  test_add ("of-host", memory_of_host);
  test_add ("registered", memory_registered);
  test_add ("registered-neighbours", memory_registered_neighbours);
  test_add ("registered-end", memory_registered_end);
  test_add ("registered-overlap", memory_registered_overlap);
  test_add ("registered-in-part", memory_registered_in_part);
  test_add ("registered-elsewhere", memory_registered_elsewhere);
  test_add ("pitched", memory_pitched);
  test_add ("pool-frees-cache", memory_pool_frees_cache);
  test_add ("pool-frees-cache-for-programs", memory_pool_frees_cache_for_programs);
  test_add ("pool-skips-pending-streams", memory_pool_skips_pending_streams);
  test_add ("outlives-borrowed-stream", memory_outlives_borrowed_stream);
  test_add ("registered-forked", memory_registered_forked);
  test_add ("imported-forked", memory_imported_forked);
  test_add ("host-chunks-refused", memory_host_chunks_refused);
  test_add ("pooled-no-descriptor", memory_pooled_no_descriptor);
  test_add ("pool-exports", memory_pool_exports);
  test_add ("rdma-refused", memory_rdma_refused);
  test_add ("staging", memory_staging);
  test_add ("staging-unlocked", memory_staging_unlocked);
  g_test_add_func ("/cuda-memory/relaxed", memory_relaxed);
  return test_run ();
}

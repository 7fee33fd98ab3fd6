/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Allocators that call the driver or functions of the program: use and lifetime of the memory, and
 * errors. */
#include "config.h"

#include "cuda-driver/cuda-driver.h"
#include "opencl-layer/gpumem-layer.h"
#include <sys/mman.h>
#include <unistd.h>

#include "test-allocator-util.h"

#define COMMITTED_SIZE ((gsize) 64 * 1024 * 1024)

static void
assert_allocated (TestFixture *fixture, guint64 size)
{
  test_poll (gpu_context_get_allocated_size (fixture->context) == size);
}

/* The state of begin_work(), which blocks a stream until end_work(). */
typedef struct
{
  GpuEvent *gate;
  TestHold *hold;
} Work;

/* Returns FALSE and skips the test if the device cannot block a stream. */
static gboolean
begin_work (TestFixture *fixture, GpuStream *stream, Work *work)
{
  *work = (Work) { NULL, NULL };

  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_USER_EVENTS) != 0)
    work->gate = test_gate (fixture, stream);
  else if (test_can_hold (fixture))
    work->hold = test_hold (stream);

  return work->gate != NULL || work->hold != NULL;
}

static void
end_work (Work *work, GpuStream *stream)
{
  if (work->gate != NULL)
    test_open (work->gate);
  else
    test_hold_release (work->hold);

  test_synchronize (stream);
  g_clear_object (&work->gate);
  g_clear_pointer (&work->hold, test_hold_free);
}

static void
allocator_deferred (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuAllocator) allocator = test_deferred (fixture);
  g_autoptr (GpuDeferredAllocator) other = NULL;
  g_autoptr (GpuMemory) memory = NULL;

  test_check_allocator (fixture, allocator, GPU_TYPE_BUFFER);
  g_assert_null (test_get_object (allocator, "stream"));

  memory = gpu_allocator_alloc (allocator, G_MAXSIZE / 2, NULL, &error);
  g_assert_null (memory);
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "gpu_allocator_alloc",
                         "9223372036854775807");

  other = gpu_deferred_allocator_new (fixture->context, GPU_MEMORY_FLAGS_HOST_NO_ACCESS, &error);
  g_assert_no_error (error);
  memory = test_alloc (GPU_ALLOCATOR (other), 100);
  g_assert_cmpuint (gpu_memory_get_flags (memory), ==, GPU_MEMORY_FLAGS_HOST_NO_ACCESS);
  g_assert_cmpuint (test_get_number (other, "flags"), ==, GPU_MEMORY_FLAGS_HOST_NO_ACCESS);
}

/* Constructors refuse contradictory flags; uninitialised allocators return errors. */
static void
allocator_refused (TestFixture *fixture)
{
  const GpuMemoryFlags wrong = GPU_MEMORY_FLAGS_READ_ONLY | GPU_MEMORY_FLAGS_WRITE_ONLY;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuAllocator) empty = g_object_new (GPU_TYPE_DEFERRED_ALLOCATOR, NULL);
  g_autoptr (GpuAllocator) alone = g_object_new (GPU_TYPE_LIMIT_ALLOCATOR, NULL);
  guint64 size;

  g_assert_null (gpu_deferred_allocator_new (fixture->context, wrong, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_deferred_allocator_new");
  g_assert_null (gpu_immediate_allocator_new (fixture->stream, wrong, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_immediate_allocator_new");
  g_assert_null (g_initable_new (GPU_TYPE_DEFERRED_ALLOCATOR, NULL, &error, NULL));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "no context");
  g_assert_null (g_initable_new (GPU_TYPE_IMMEDIATE_ALLOCATOR, NULL, &error, "context",
                                 fixture->context, NULL));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "no stream");
  g_assert_null (g_initable_new (GPU_TYPE_EXTERNAL_ALLOCATOR, NULL, &error, "context",
                                 fixture->context, NULL));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "no functions");

  g_assert_null (gpu_allocator_alloc (empty, 10, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "never initialised");
  g_assert_null (gpu_allocator_get_context (empty));
  g_assert_null (gpu_allocator_alloc (alone, 10, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "GpuLimitAllocator", "upstream");
  g_assert_false (gpu_allocator_get_memory_info (alone, &size, &size, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "upstream");
  gpu_allocator_trim (alone, 0);
}

static void
allocator_immediate (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuImmediateAllocator) allocator = gpu_immediate_allocator_new (stream,
                                                                             GPU_MEMORY_FLAGS_NONE,
                                                                             &error);

  g_assert_no_error (error);
  g_assert_true (test_get_object (allocator, "stream") == stream);
  test_check_allocator (fixture, GPU_ALLOCATOR (allocator), GPU_TYPE_BUFFER);
  g_assert_cmpuint (test_get_number (stream, "n-completed"), ==,
                    test_get_number (stream, "n-submitted"));

  if (test_is_opencl (fixture))
    g_assert_cmpuint (test_get_number (stream, "n-submitted"), >=, 2);
}

static void
count_pressure (GpuContext *context G_GNUC_UNUSED, guint64 requested G_GNUC_UNUSED, guint *n)
{
  ++*n;
}

/* A request for which @function always fails emits ::memory-pressure once. */
static void
assert_one_emission (TestFixture  *fixture,
                     GpuAllocator *allocator,
                     const char   *function)
{
  g_autofree char *fail = g_strdup_printf ("fn=%s,n=1,times=0,code=-4", function);
  g_autoptr (GError) error = NULL;
  guint n_emitted = 0;
  gulong handler = g_signal_connect (fixture->context, "memory-pressure",
                                     G_CALLBACK (count_pressure), &n_emitted);

  g_assert_true (GPUMEM_LAYER (set_fail) (fail));
  g_assert_null (gpu_allocator_alloc (allocator, 4096, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY);
  g_assert_cmpuint (n_emitted, ==, 1);
  g_assert_true (GPUMEM_LAYER (set_fail) (NULL));
  g_signal_handler_disconnect (fixture->context, handler);
}

/* With an immediate allocator, an OpenCL driver allocates the memory before the call of the
 * allocator returns, not at the first use of the memory. */
static void
layer_immediate (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuAllocator) deferred = test_deferred (fixture);
  g_autoptr (GpuImmediateAllocator) immediate = gpu_immediate_allocator_new (fixture->stream,
                                                                             GPU_MEMORY_FLAGS_NONE,
                                                                             &error);
  g_autoptr (GpuMemory) memory = NULL;
  guint64 allocated;

  g_assert_no_error (error);
  assert_one_emission (fixture, deferred, "clCreateBuffer*");
  assert_one_emission (fixture, GPU_ALLOCATOR (immediate), "clCreateBuffer*");
  assert_one_emission (fixture, GPU_ALLOCATOR (immediate), "clEnqueueMigrateMemObjects");
  g_assert_true (GPUMEM_LAYER (set_fail) ("fn=clEnqueueMigrateMemObjects,n=1,code=-4"));
  memory = test_alloc (deferred, 4096);
  allocated = gpu_context_get_allocated_size (fixture->context);
  g_assert_null (gpu_allocator_alloc (GPU_ALLOCATOR (immediate), 4096, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "clEnqueueMigrateMemObjects");
  g_assert_cmpuint (GPUMEM_LAYER (get_failed) (), ==, 1);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, allocated);

  g_clear_object (&memory);
  memory = test_alloc (GPU_ALLOCATOR (immediate), 4096);
  test_check_memory (fixture, memory);
}

static void
allocator_immediate_proof (TestFixture *fixture)
{
  test_run_under_layer (fixture, "immediate");
}

static void
allocator_svm (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuSvmAllocator) allocator = NULL;
  g_autoptr (GpuMemory) memory = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SVM_COARSE))
    return;

  allocator = gpu_svm_allocator_new (fixture->context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE,
                                     64,
                                     NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (test_get_number (allocator, "alignment"), ==, 64);
  g_assert_cmpuint (test_get_number (allocator, "svm-flags"), ==, GPU_SVM_FLAGS_NONE);
  test_check_allocator (fixture, GPU_ALLOCATOR (allocator), GPU_TYPE_SVM);
  memory = test_alloc (GPU_ALLOCATOR (allocator), 10);
  g_assert_cmpuint (gpu_memory_get_device_address (memory) % 64, ==, 0);
}

/* An allocator with a stream frees memory after all work submitted to the stream. Without a stream
 * it frees memory immediately. */
static void
allocator_svm_stream (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuSvmAllocator) plain = NULL;
  g_autoptr (GpuSvmAllocator) ordered = NULL;
  g_autoptr (GpuMemory) memory = NULL;
  Work work;

  if (!test_has (fixture, GPU_CAPABILITIES_SVM_COARSE))
    return;

  plain = gpu_svm_allocator_new (fixture->context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE, 0,
                                 NULL,
                                 &error);
  g_assert_no_error (error);
  ordered = gpu_svm_allocator_new (fixture->context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE, 0,
                                   stream, &error);
  g_assert_no_error (error);

  if (!begin_work (fixture, stream, &work))
    return;

  /* Skip this part with a real CUDA driver. That driver waits for all work of the device when it
   * frees memory, and the work of this test is still pending. */
  if (!g_str_equal (gpu_device_get_backend (fixture->device), "cuda")
      || gpumem_cuda_driver_symbol ("gpumem_cuda_driver_get_live") != NULL)
    {
      memory = test_alloc (GPU_ALLOCATOR (plain), 4096);
      assert_allocated (fixture, 4096);
      g_clear_object (&memory);
      assert_allocated (fixture, 0);
    }

  memory = test_alloc (GPU_ALLOCATOR (ordered), 4096);
  g_clear_object (&memory);
  g_clear_object (&ordered);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, 4096);
  end_work (&work, stream);
  assert_allocated (fixture, 0);
}

/* The stream must belong to the same context and execute in order. */
static void
allocator_svm_refused (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE,
                                                    &error);
  g_autoptr (GpuStream) stream = NULL;

  g_assert_no_error (error);
  g_assert_null (gpu_svm_allocator_new (context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE, 0,
                                        fixture->stream, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "another context");

  if (!test_has (fixture, GPU_CAPABILITIES_OUT_OF_ORDER))
    return;

  stream = test_stream (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
  g_assert_null (gpu_svm_allocator_new (fixture->context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE,
                                        0,
                                        stream, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "out of order");
}

static void
allocator_host (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuHostAllocator) allocator = gpu_host_allocator_new (fixture->context,
                                                                   GPU_HOST_MEMORY_FLAGS_NONE,
                                                                   &error);

  g_assert_no_error (error);
  test_check_allocator (fixture, GPU_ALLOCATOR (allocator), GPU_TYPE_HOST_MEMORY);
  test_synchronize (fixture->stream);
  gpu_allocator_trim (GPU_ALLOCATOR (allocator), 0);
  g_assert_cmpuint (test_get_number (allocator, "held-bytes"), ==, 0);
}

static void
allocator_stream (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuStreamAllocator) allocator = gpu_stream_allocator_new (stream,
                                                                       GPU_MEMORY_FLAGS_NONE,
                                                                       &error);
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GpuStream) foreign = NULL;
  g_autoptr (GpuMemory) memory = NULL;
  const char *id = gpu_device_get_id (fixture->device);
  g_autofree char *text = NULL;

  if ((gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_STREAM_ORDERED) == 0)
    {
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_stream_allocator_new",
                             gpu_device_get_id (fixture->device));
      return;
    }

  g_assert_no_error (error);
  test_check_allocator (fixture, GPU_ALLOCATOR (allocator), GPU_TYPE_BUFFER);
  memory = gpu_allocator_alloc (GPU_ALLOCATOR (allocator), 100, fixture->stream, &error);
  g_assert_no_error (error);
  test_check_memory (fixture, memory);

  context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  foreign = gpu_context_get_default_stream (context);
  g_assert_null (gpu_allocator_alloc (GPU_ALLOCATOR (allocator), 100, foreign, &error));
  text = g_strdup_printf ("another context, on %s, than the allocator, on %s", id, id);
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_allocator_alloc", text);
}

/* --- functions of the program ------------------------------------------------ */

/* Buffers keyed by their native handles. */
typedef struct
{
  TestFixture *fixture;
  GHashTable  *buffers;
  gsize        freed;               /* bytes */
  int          n_notified;
  gboolean     fail;
} Others;

static guint64
others_alloc (gsize size, GpuStream *stream G_GNUC_UNUSED, gpointer data, GError **error)
{
  Others *others = data;
  GpuBuffer *buffer;
  guint64 handle;

  if (others->fail)
    return 0;

  buffer = gpu_buffer_new (others->fixture->context, GPU_MEMORY_FLAGS_NONE, size, error);

  if (buffer == NULL)
    return 0;

  handle = gpu_memory_get_native_handle (GPU_MEMORY (buffer));
  g_hash_table_insert (others->buffers, g_memdup2 (&handle, sizeof handle), buffer);

  return handle;
}

static void
others_free (guint64 handle, gsize size, gpointer data)
{
  Others *others = data;

  g_assert_true (g_hash_table_remove (others->buffers, &handle));
  g_atomic_pointer_add (&others->freed, size);
}

static void
others_notify (gpointer data)
{
  g_atomic_int_inc (&((Others *) data)->n_notified);
}

static void
wait_for_freed (Others *others, gsize size)
{
  test_poll ((gsize) g_atomic_pointer_get (&others->freed) == size);
}

/* The program's free function is called after pending work on the memory, even if the allocator was
 * freed before. */
static void
allocator_external (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GHashTable) buffers = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free,
                                                          g_object_unref);
  Others others = { fixture, buffers, 0, 0, FALSE };
  g_autoptr (GpuExternalAllocator) allocator =
    gpu_external_allocator_new (fixture->context, others_alloc, &others, others_notify,
                                others_free, &others, others_notify, &error);
  g_autoptr (GpuMemory) memory = NULL;
  g_autoptr (GBytes) bytes = test_value_bytes (100, 1);
  Work work;

  g_assert_no_error (error);
  test_check_allocator (fixture, GPU_ALLOCATOR (allocator), GPU_TYPE_BUFFER);
  test_synchronize (fixture->stream);
  wait_for_freed (&others, 14096);

  others.fail = TRUE;
  g_assert_null (gpu_allocator_alloc (GPU_ALLOCATOR (allocator), 100, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "neither", "100");
  others.fail = FALSE;

  if (!begin_work (fixture, fixture->stream, &work))
    return;

  memory = test_alloc (GPU_ALLOCATOR (allocator), 100);
  test_assert_ok (gpu_stream_write (fixture->stream, memory, 0, bytes, &error), error);
  g_clear_object (&memory);
  g_clear_object (&allocator);
  g_assert_cmpuint ((gsize) g_atomic_pointer_get (&others.freed), ==, 14096);
  g_assert_cmpint (g_atomic_int_get (&others.n_notified), ==, 0);
  end_work (&work, fixture->stream);
  wait_for_freed (&others, 14196);
  test_poll (g_atomic_int_get (&others.n_notified) == 2);
  g_assert_cmpuint (g_hash_table_size (buffers), ==, 0);
}

/* --- memory of the program --------------------------------------------------- */

/* An allocation fails if the implementation returns no memory, too little memory, released memory,
 * memory of another context or an image. */
static void
allocator_custom (TestFixture *fixture)
{
  const struct
  {
    TestGives   gives;
    GpuError    code;
    const char *word;
    const char *advice;
  }
  cases[] =
  {
    { TEST_GIVES_NOTHING, GPU_ERROR_FAILED, "neither 100 bytes nor an error", "" },
    { TEST_GIVES_LITTLE, GPU_ERROR_FAILED, "returned 1 bytes for a request of 100", "" },
    { TEST_GIVES_RELEASED, GPU_ERROR_RELEASED, "released", "" },
    { TEST_GIVES_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "no room in the test", "" },
    { TEST_GIVES_FOREIGN, GPU_ERROR_FAILED, "a GpuBuffer of another context of ",
      "; allocate from the context of the allocator, which " },
    { TEST_GIVES_IMAGE, GPU_ERROR_FAILED, "returned a GpuImage, which has texels", "" }
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (TestAllocator) allocator = test_allocator_new (fixture);
  g_autoptr (GpuMemory) memory = test_alloc (GPU_ALLOCATOR (allocator), 100);
  g_autoptr (GpuMemory) again = NULL;

  test_check_memory (fixture, memory);
  gpu_allocator_free (GPU_ALLOCATOR (allocator), memory);
  g_assert_false (gpu_memory_is_released (memory));
  again = test_alloc (GPU_ALLOCATOR (allocator), 100);
  g_assert_true (again == memory);

  g_assert_cmpuint (allocator->n_allocs, ==, 2);
  g_assert_null (gpu_allocator_alloc (GPU_ALLOCATOR (allocator), 0, NULL, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (allocator->n_allocs, ==, 2);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      if (cases[i].gives == TEST_GIVES_IMAGE && !test_has (fixture, GPU_CAPABILITIES_IMAGES))
        return;
      allocator->gives = cases[i].gives;
      g_assert_null (gpu_allocator_alloc (GPU_ALLOCATOR (allocator), 100, NULL, &error));
      test_assert_gpu_error (error, cases[i].code, cases[i].word, cases[i].advice);
    }
}

/* A pool refuses memory of another context, also from an allocator without a context. */
static void
allocator_hides_context (TestFixture *fixture)
{
  const GpuMemoryPoolKind kinds[] = { GPU_MEMORY_POOL_BINS, GPU_MEMORY_POOL_SEGMENTS };

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (TestAllocator) allocator = test_allocator_new (fixture);
      g_autoptr (GpuMemoryPool) pool = NULL;
      g_autoptr (GpuBuffer) buffer = NULL;

      allocator->hides_context = TRUE;
      pool = g_initable_new (GPU_TYPE_MEMORY_POOL, NULL, &error, "context", fixture->context,
                             "kind", kinds[i], "allocator", allocator, NULL);
      g_assert_no_error (error);
      allocator->gives = TEST_GIVES_FOREIGN;
      g_assert_null (gpu_memory_pool_alloc_buffer (pool, 4096, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_FAILED, "TestAllocator", "GpuBuffer",
                             "allocate from the context of the pool");
      allocator->gives = TEST_GIVES_MEMORY;
      buffer = gpu_memory_pool_alloc_buffer (pool, 4096, NULL, &error);
      g_assert_no_error (error);
    }
}

/* --- memory of the host ----------------------------------------------------------------------- */

/* Returns the number of resident pages of large memory. */
static gsize
count_pages (GpuMemory *memory)
{
  const gsize page = sysconf (_SC_PAGESIZE);
  const gsize n = (gpu_memory_get_size (memory) + page - 1) / page;
  g_autofree guchar *present = g_malloc (n);
  gsize n_present = 0;

  g_assert_cmpint (mincore ((gpointer) (guintptr) gpu_memory_get_native_handle (memory), n * page,
                            present), ==, 0);
  for (gsize i = 0; i < n; i++)
    n_present += present[i] & 1;
  return n_present;
}

static gboolean
is_host (TestFixture *fixture)
{
  if (g_str_equal (gpu_device_get_backend (fixture->device), "host"))
    return TRUE;
  g_test_skip ("the device does not use host memory");
  return FALSE;
}

static void
check_immediate (TestFixture *fixture, GpuAllocator *allocator, gsize size)
{
  g_autoptr (GError) error = NULL;
  GpuMemory *memory = gpu_allocator_alloc (allocator, size, NULL, &error);
  g_autoptr (GBytes) expected = test_value_bytes (size, 9);
  const guint8 value = 9;

  g_assert_no_error (error);
  if (size >= COMMITTED_SIZE)
    g_assert_cmpuint (count_pages (memory) * sysconf (_SC_PAGESIZE), >=, size);
  test_assert_ok (gpu_buffer_fill (GPU_BUFFER (memory), NULL, 0, size, &value, 1, NULL, &error),
                  error);
  test_assert_content (GPU_BUFFER (memory), expected);
  gpu_allocator_free (allocator, memory);
  g_object_unref (memory);
}

/* Pages become resident at the first write; an immediate allocator makes them resident when it
 * allocates. */
static void
allocator_committed (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImmediateAllocator) immediate = NULL;
  g_autoptr (GpuImmediateAllocator) shareable = NULL;
  g_autoptr (GpuBuffer) lazy = NULL;

  if (!is_host (fixture))
    return;
  immediate = gpu_immediate_allocator_new (fixture->stream, GPU_MEMORY_FLAGS_NONE, &error);
  g_assert_no_error (error);
  shareable = gpu_immediate_allocator_new (fixture->stream, GPU_MEMORY_FLAGS_SHAREABLE, &error);
  g_assert_no_error (error);
  lazy = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, COMMITTED_SIZE, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (count_pages (GPU_MEMORY (lazy)), ==, 0);
  check_immediate (fixture, GPU_ALLOCATOR (immediate), COMMITTED_SIZE);
  check_immediate (fixture, GPU_ALLOCATOR (immediate), COMMITTED_SIZE + 1);
  check_immediate (fixture, GPU_ALLOCATOR (immediate), 100);
  check_immediate (fixture, GPU_ALLOCATOR (immediate), 100000);
  check_immediate (fixture, GPU_ALLOCATOR (shareable), COMMITTED_SIZE);
}

static void
assert_no_memory (GpuBuffer *buffer, GError **error, gsize size)
{
  g_autofree char *text = g_strdup_printf ("%" G_GSIZE_FORMAT " bytes", size);

  g_assert_null (buffer);
  test_assert_gpu_error (*error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, text);
}

/* The total size of allocations on the host is limited to the memory of the machine. A
 * GpuImmediateAllocator rejects a request that exceeds the free memory, before it touches a
 * page. */
static void
allocator_no_memory (TestFixture *fixture)
{
  const guint64 total = gpu_device_get_memory_size (fixture->device);
  const gsize most = total / 4 * 3;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuImmediateAllocator) immediate = NULL;
  g_autoptr (GpuBuffer) part = NULL;
  GpuMemoryInfoSource source;
  guint64 free_size;
  guint64 total_size;

  if (!is_host (fixture))
    return;
  test_assert_ok (gpu_context_get_memory_info (fixture->context, &free_size, &total_size, &source,
                                               &error), error);
  g_assert_cmpuint (total_size, <=, (guint64) sysconf (_SC_PHYS_PAGES) * sysconf (_SC_PAGESIZE));
  g_assert_cmpuint (gpu_device_get_max_allocation (fixture->device), <=, total);
  assert_no_memory (gpu_buffer_new (fixture->context, 0, (gsize) 1 << 45, &error), &error,
                    (gsize) 1 << 45);
  part = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, most, &error);
  g_assert_no_error (error);
  assert_no_memory (gpu_buffer_new (fixture->context, 0, most, &error), &error, most);
  assert_no_memory (gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_SHAREABLE, most, &error),
                    &error,
                    most);
  g_clear_object (&part);

  immediate = gpu_immediate_allocator_new (fixture->stream, GPU_MEMORY_FLAGS_NONE, &error);
  g_assert_no_error (error);
  assert_no_memory ((GpuBuffer *) gpu_allocator_alloc (GPU_ALLOCATOR (immediate), (gsize) 1 << 45,
                                                       NULL, &error), &error, (gsize) 1 << 45);
  if (free_size < total_size)
    assert_no_memory ((GpuBuffer *) gpu_allocator_alloc (GPU_ALLOCATOR (immediate), total_size,
                                                         NULL, &error), &error, total_size);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("deferred", allocator_deferred);
  test_add ("refused", allocator_refused);
  test_add ("immediate", allocator_immediate);
  test_add ("immediate-proof", allocator_immediate_proof);
  test_add ("subprocess/immediate", layer_immediate);
  test_add ("svm", allocator_svm);
  test_add ("svm-stream", allocator_svm_stream);
  test_add ("svm-refused", allocator_svm_refused);
  test_add ("host", allocator_host);
  test_add ("stream", allocator_stream);
  test_add ("external", allocator_external);
  test_add ("custom", allocator_custom);
  test_add ("hides-context", allocator_hides_context);
  test_add ("committed", allocator_committed);
  test_add ("no-memory", allocator_no_memory);

  return test_run ();
}

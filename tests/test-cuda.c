/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Features of the CUDA back end only: wrapped handles, default streams, the current context,
 * timing, and the fill kernel of the library. The tests call functions of the driver that the
 * library has loaded. */
#include "config.h"

#include <elf.h>

#include "gpumem/cuda/core/gpu-cuda.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/stream/gpu-stream-private.h"
#include "test-cuda-util.h"
#include "tests/cuda-driver/cuda-driver.h"

#define SIZE 65536

static GpuCudaContext *
get_native (TestFixture *fixture)
{
  return (GpuCudaContext *) _gpu_context_get_native (fixture->context);
}

static CUcontext
get_current (void)
{
  CUcontext context = (CUcontext) 1;

  g_assert_cmpuint (_gpu_cuda.cuCtxGetCurrent (&context), ==, CUDA_SUCCESS);
  return context;
}

static void
fill (GpuStream *stream, GpuBuffer *buffer, guint8 value)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0,
                                   gpu_memory_get_size (GPU_MEMORY (buffer)), &value, 1, &error),
                  error);
}

/* --- contexts -------------------------------------------------------------------- */

/* Submits a few operations of each kind. */
static void
work (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 3);
  g_autoptr (GpuBuffer) other = test_buffer (fixture, SIZE);
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GBytes) content = NULL;

  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (other), 0, GPU_MEMORY (buffer), 0, SIZE,
                                   &error), error);
  event = test_record (stream);
  test_assert_ok (gpu_event_wait (event, NULL, &error), error);
  mapping = gpu_buffer_map (other, stream, GPU_MAP_FLAGS_READ, 0, SIZE, NULL, &error);
  g_assert_no_error (error);
  test_assert_value (gpu_mapping_get_data (mapping), 3, SIZE);
  content = test_content (other);
  test_assert_value (g_bytes_get_data (content, NULL), 3, SIZE);
}

static void
cuda_current_context (TestFixture *fixture)
{
  CUcontext foreign = NULL;
  CUcontext popped = NULL;
  CUdevice device = (CUdevice) gpu_device_get_native_handle (fixture->device);

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  g_assert_null (get_current ());
  work (fixture);
  g_assert_null (get_current ());

  test_cuda_push (fixture);
  work (fixture);
  g_assert_true (get_current () == test_cuda_context (fixture));
  test_cuda_pop (fixture);

  g_assert_cmpuint (_gpu_cuda.cuCtxCreate (&foreign, 0, device), ==, CUDA_SUCCESS);
  g_assert_true (get_current () == foreign);
  work (fixture);
  g_assert_true (get_current () == foreign);
  g_assert_cmpuint (_gpu_cuda.cuCtxPopCurrent (&popped), ==, CUDA_SUCCESS);
  g_assert_true (popped == foreign);
  g_assert_null (get_current ());
  g_assert_cmpuint (_gpu_cuda.cuCtxDestroy (foreign), ==, CUDA_SUCCESS);
}

/* --- streams --------------------------------------------------------------------- */

static GpuStream *
wrap_stream (TestFixture *fixture, guint64 handle, GpuWrapMode mode)
{
  g_autoptr (GError) error = NULL;
  GpuStream *stream = gpu_stream_new_wrapped (fixture->context, handle, mode, &error);

  g_assert_no_error (error);
  g_assert_true (GPU_IS_STREAM (stream));
  return stream;
}

static void
cuda_default_streams (TestFixture *fixture)
{
  static const guint64 handles[] = { GPU_STREAM_HANDLE_DEFAULT, GPU_STREAM_HANDLE_LEGACY,
                                     GPU_STREAM_HANDLE_PER_THREAD };
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  for (guint8 i = 0; i < G_N_ELEMENTS (handles); i++)
    {
      g_autoptr (GpuStream) stream = wrap_stream (fixture, handles[i], GPU_WRAP_MODE_BORROW);
      g_autoptr (GBytes) content = NULL;

      g_assert_cmpuint (gpu_stream_get_native_handle (stream), ==, MAX (handles[i], 1));
      g_assert_cmpint (test_get_number (stream, "flags"), ==, GPU_STREAM_FLAGS_NONE);
      fill (stream, buffer, i + 1);
      content = test_content (buffer);
      test_assert_value (g_bytes_get_data (content, NULL), i + 1, SIZE);
      test_synchronize (stream);
    }
}

typedef struct
{
  GpuStream *stream;
  GpuBuffer *from;
  GpuBuffer *to;
} ThreadWork;

static gpointer
copy_in_thread (gpointer data)
{
  ThreadWork *thread_work = data;
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_copy (thread_work->stream, GPU_MEMORY (thread_work->to), 0,
                                   GPU_MEMORY (thread_work->from), 0, SIZE, &error), error);
  return NULL;
}

/* Work on a GpuStream for the per-thread default stream is ordered on all threads, although the
 * driver's handle denotes a different queue on each thread. */
static void
cuda_per_thread_order (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) first = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) second = test_buffer_filled (fixture, SIZE, 0);
  g_autoptr (GpuBuffer) third = test_buffer_filled (fixture, SIZE, 0);
  g_autoptr (GpuStream) stream = NULL;
  ThreadWork works[2];

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  stream = wrap_stream (fixture, GPU_STREAM_HANDLE_PER_THREAD, GPU_WRAP_MODE_BORROW);
  works[0] = (ThreadWork) { stream, first, second };
  works[1] = (ThreadWork) { stream, second, third };
  for (guint8 i = 1; i <= 20; i++)
    {
      g_autoptr (GBytes) content = NULL;

      fill (stream, first, i);
      for (guint j = 0; j < G_N_ELEMENTS (works); j++)
        g_thread_join (g_thread_new ("copy", copy_in_thread, &works[j]));
      test_synchronize (stream);
      content = test_content (third);
      test_assert_value (g_bytes_get_data (content, NULL), i, SIZE);
    }
}

static void
cuda_foreign_streams (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  CUdevice device = (CUdevice) gpu_device_get_native_handle (fixture->device);
  GpuStream *stream;
  CUcontext context = NULL;
  CUstream handle = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  test_cuda_push (fixture);
  g_assert_cmpuint (_gpu_cuda.cuStreamCreateWithPriority (&handle, CU_STREAM_NON_BLOCKING, 0), ==,
                    CUDA_SUCCESS);
  test_cuda_pop (fixture);

  stream = wrap_stream (fixture, (guintptr) handle, GPU_WRAP_MODE_BORROW);
  g_assert_cmpint (test_get_number (stream, "flags"), ==, GPU_STREAM_FLAGS_NON_BLOCKING);
  fill (stream, buffer, 9);
  test_synchronize (stream);
  g_object_unref (stream);
  g_assert_cmpuint (_gpu_cuda.cuStreamQuery (handle), ==, CUDA_SUCCESS);
  /* An adopted handle is destroyed with its object. */
  g_object_unref (wrap_stream (fixture, (guintptr) handle, GPU_WRAP_MODE_ADOPT));

  g_assert_cmpuint (_gpu_cuda.cuCtxCreate (&context, 0, device), ==, CUDA_SUCCESS);
  g_assert_cmpuint (_gpu_cuda.cuStreamCreateWithPriority (&handle, 0, 0), ==, CUDA_SUCCESS);
  g_assert_null (gpu_stream_new_wrapped (fixture->context, (guintptr) handle,
                                         GPU_WRAP_MODE_BORROW, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "context");
  g_assert_cmpuint (_gpu_cuda.cuStreamDestroy (handle), ==, CUDA_SUCCESS);
  g_assert_cmpuint (_gpu_cuda.cuCtxDestroy (context), ==, CUDA_SUCCESS);
}

/* --- memory ---------------------------------------------------------------------- */

static void
count_call (gpointer data)
{
  g_atomic_int_inc ((gint *) data);
}

/* Memory is not wrapped if a query of its owner or its extent fails. Without the answers, the
 * library would accept memory of other contexts, more bytes than there are, and the adoption of a
 * part of an allocation. */
static void
cuda_wrapped_query_fails (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  CUdeviceptr address = 0;
  guint n_failed = 0;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") == NULL)
    {
      g_test_skip ("only the stand-in fails on demand");
      return;
    }
  test_cuda_push (fixture);
  g_assert_cmpuint (_gpu_cuda.cuMemAlloc (&address, SIZE), ==, CUDA_SUCCESS);
  for (guint n = 1; n_failed + 1 == n; n++)
    {
      g_autofree char *spec = g_strdup_printf ("cuPointerGetAttribute:%u:999", n);
      g_autoptr (GpuBuffer) buffer = NULL;

      g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (spec));
      buffer = gpu_buffer_new_wrapped (fixture->context, address + 100, 0, GPU_WRAP_MODE_BORROW,
                                       NULL, &error);
      g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (""));
      if (buffer != NULL)
        break;
      test_assert_gpu_error (error, GPU_ERROR_FAILED, "gpu_buffer_new_wrapped",
                             "cuPointerGetAttribute", "999");
      n_failed++;
    }
  /* The type, the context, the device, the start and the size */
  g_assert_cmpuint (n_failed, ==, 5);
  g_assert_cmpuint (_gpu_cuda.cuMemFree (address), ==, CUDA_SUCCESS);
  test_cuda_pop (fixture);
}

/* A wrapped address must lie within an allocation; only a whole allocation can be adopted. */
static void
cuda_wrapped_addresses (TestFixture *fixture)
{
  GBytes *keeper;
  g_autoptr (GError) error = NULL;
  GpuBuffer *whole = NULL;
  GpuBuffer *part = NULL;
  CUdeviceptr address = 0;
  gint n_calls = 0;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  test_cuda_push (fixture);
  g_assert_cmpuint (_gpu_cuda.cuMemAlloc (&address, SIZE), ==, CUDA_SUCCESS);
  test_cuda_pop (fixture);

  keeper = g_bytes_new_with_free_func (NULL, 0, count_call, &n_calls);
  whole = gpu_buffer_new_wrapped (fixture->context, address, 0, GPU_WRAP_MODE_ADOPT, keeper,
                                  &error);
  g_bytes_unref (keeper);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_get_size (GPU_MEMORY (whole)), ==, SIZE);
  g_assert_cmpuint (gpu_memory_get_native_handle (GPU_MEMORY (whole)), ==, address);
  keeper = g_bytes_new_with_free_func (NULL, 0, count_call, &n_calls);
  part = gpu_buffer_new_wrapped (fixture->context, address + 100, 1000, GPU_WRAP_MODE_BORROW,
                                 keeper, &error);
  g_bytes_unref (keeper);
  g_assert_no_error (error);
  g_assert_null (gpu_buffer_new_wrapped (fixture->context, address + 100, SIZE,
                                         GPU_WRAP_MODE_BORROW, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "65536", "65436");
  g_assert_null (gpu_buffer_new_wrapped (fixture->context, address + 100, 1000, GPU_WRAP_MODE_ADOPT,
                                         NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "allocation");
  g_assert_null (gpu_buffer_new_wrapped (fixture->context, 4096, 16, GPU_WRAP_MODE_BORROW, NULL,
                                         &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "0x1000");

  test_same_memory (fixture, part, 0, whole, 100);

  /* The library drops its reference to the keeper of wrapped memory, and so calls count_call(),
   * only when the GpuBuffer is freed. */
  fill (fixture->stream, whole, 1);
  fill (fixture->stream, part, 2);
  test_synchronize (fixture->stream);
  g_assert_cmpint (g_atomic_int_get (&n_calls), ==, 0);
  g_object_unref (part);
  g_assert_cmpint (g_atomic_int_get (&n_calls), ==, 1);
  {
    g_autoptr (GBytes) content = test_content (whole);
    const guint8 *data = g_bytes_get_data (content, NULL);

    test_assert_value (data, 1, 100);
    test_assert_value (data + 100, 2, 1000);
    test_assert_value (data + 1100, 1, SIZE - 1100);
  }
  g_object_unref (whole);
  g_assert_cmpint (g_atomic_int_get (&n_calls), ==, 2);
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

static void
assert_number (GVariant *attributes, const char *nick, guint64 expected)
{
  g_autofree char *text = g_strdup_printf ("%" G_GUINT64_FORMAT, expected);

  assert_attribute (attributes, nick, text);
}

static void
cuda_attributes (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  g_autoptr (GpuBuffer) slice = gpu_buffer_slice (buffer, 4096, 100, &error);
  g_autoptr (GVariant) attributes = NULL;
  guint64 address = gpu_memory_get_native_handle (GPU_MEMORY (buffer));

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  g_assert_no_error (error);
  attributes = gpu_memory_get_attributes (GPU_MEMORY (slice), &error);
  g_assert_no_error (error);
  assert_attribute (attributes, "memory-type", "'device'");
  assert_number (attributes, "context", (guintptr) test_cuda_context (fixture));
  assert_number (attributes, "device-pointer", address + 4096);
  assert_number (attributes, "range-start", address);
  assert_number (attributes, "range-size", SIZE);
  assert_attribute (attributes, "is-managed", "false");
  g_assert_false (g_variant_lookup (attributes, "host-pointer", "t", NULL));
}

/* --- linking --------------------------------------------------------------------- */

static __typeof__ (_gpu_cuda.cuLinkAddData) add_data;
static CUjitInputType added[4];
static guint n_added;

/* Records the input type, and passes on only device code, because the stand-in rejects other
 * inputs. */
static CUresult CUDAAPI
note_data (CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
           unsigned int n_options, CUjit_option *options, void **values)
{
  added[n_added++] = type;
  if (type != CU_JIT_INPUT_CUBIN && type != CU_JIT_INPUT_PTX)
    return CUDA_SUCCESS;
  return add_data (state, type, data, size, name, n_options, options, values);
}

/* `nvcc -c` writes a host object that contains device code. The library must pass it to the driver
 * as a host object: if the type were cubin, the driver would report an unknown architecture. */
static void
cuda_linked_kinds (TestFixture *fixture)
{
  static const char source[] = "extern \"C\" __global__ void k (int *p) { *p = 1; }";
  static const char archive[] = "!<arch>\n";
  const Elf64_Ehdr header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB },
                              .e_type = ET_REL, .e_machine = EM_X86_64,
                              .e_shentsize = sizeof (Elf64_Shdr) };
  const CUjitInputType expected[] = { CU_JIT_INPUT_CUBIN, CU_JIT_INPUT_OBJECT,
                                      CU_JIT_INPUT_LIBRARY };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) code = NULL;
  g_autoptr (GBytes) object = g_bytes_new_static (&header, sizeof header);
  g_autoptr (GBytes) library = g_bytes_new_static (archive, strlen (archive));
  g_autoptr (GpuProgram) program = NULL;
  GBytes *parts[3];

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE)
      || !test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  code = gpu_program_compile (fixture->context, source, NULL, NULL, &error);
  g_assert_no_error (error);
  parts[0] = code;
  parts[1] = object;
  parts[2] = library;
  add_data = _gpu_cuda.cuLinkAddData;
  n_added = 0;
  _gpu_cuda.cuLinkAddData = note_data;
  program = gpu_program_new_linked (fixture->context, parts, G_N_ELEMENTS (parts), NULL, &error);
  _gpu_cuda.cuLinkAddData = add_data;
  g_assert_no_error (error);
  g_assert_cmpmem (added, n_added * sizeof *added, expected, sizeof expected);
}

/* --- fills ----------------------------------------------------------------------- */

static void
fill_and_check (TestFixture *fixture, GpuBuffer *buffer, gsize offset, gsize pattern_size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) pattern = test_random_bytes (pattern_size);
  const guint8 *bytes = g_bytes_get_data (pattern, NULL);
  gsize size = (SIZE - offset) / pattern_size * pattern_size;
  g_autofree guint8 *expected = g_malloc0 (SIZE);
  g_autoptr (GBytes) content = NULL;

  for (gsize i = 0; i < size; i++)
    expected[offset + i] = bytes[i % pattern_size];
  fill (fixture->stream, buffer, 0);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), offset, size, bytes,
                                   pattern_size, &error), error);
  content = test_content (buffer);
  test_assert_mem (g_bytes_get_data (content, NULL), expected, SIZE);
}

static void
cuda_patterns (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  for (gsize pattern_size = 1; pattern_size <= 256; pattern_size++)
    fill_and_check (fixture, buffer, pattern_size % 3 == 0 ? 0 : (pattern_size % 5) * 4 + 1,
                    pattern_size);
  for (gsize pattern_size = 1020; pattern_size <= 1030; pattern_size++)
    fill_and_check (fixture, buffer, 16, pattern_size);
}

/* --- timing ---------------------------------------------------------------------- */

static void
cuda_times (TestFixture *fixture)
{
  const gint64 before = g_get_monotonic_time ();
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_PROFILING);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);
  guint64 last = 0;
  guint64 slack = 0;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  /* Run for so long that the back end must record a new event as the reference of its clock. If
   * this thread did not run between the first reference and the query of the time of the host, all
   * times are late: by less than the first calls took. */
  for (guint i = 0; i < 5; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuEvent) event = NULL;
      guint64 started = 0;
      guint64 ended = 0;
      guint64 duration = 0;

      fill (stream, buffer, 1);
      event = test_record (stream);
      test_synchronize (stream);
      test_assert_ok (gpu_event_get_profiling_time (event, GPU_PROFILING_POINT_STARTED, &started,
                                                    &error), error);
      test_assert_ok (gpu_event_get_profiling_time (event, GPU_PROFILING_POINT_ENDED, &ended,
                                                    &error), error);
      test_assert_ok (gpu_event_get_duration (event, &duration, &error), error);
      if (i == 0)
        slack = (guint64) (g_get_monotonic_time () - before) * 1000;
      g_assert_cmpuint (started, >=, last);
      g_assert_cmpuint (ended, >=, started);
      g_assert_cmpuint (ended, <=, (guint64) g_get_monotonic_time () * 1000 + slack
                        + 100 * 1000 * 1000);
      g_assert_cmpuint (MAX (duration, ended - started) - MIN (duration, ended - started), <, 1000);
      if (last != 0)
        g_assert_cmpuint (started - last, >=, 390 * 1000 * 1000);
      last = ended;
      g_usleep (400 * 1000);
    }
}

typedef struct
{
  GMutex     lock;
  GCond      cond;
  gboolean   is_open;           /* set to end the kernel that blocks the stream */
  gboolean   is_done;
  GpuStream *stream;
} Held;

static void
set_held (Held *held, gboolean *flag)
{
  g_mutex_lock (&held->lock);
  *flag = TRUE;
  g_cond_broadcast (&held->cond);
  g_mutex_unlock (&held->lock);
}

static gboolean
wait_held (Held *held, gboolean *flag)
{
  gint64 end = g_get_monotonic_time () + TEST_DEADLINE * G_TIME_SPAN_SECOND;
  gboolean is_set;

  g_mutex_lock (&held->lock);
  while (!*flag && g_cond_wait_until (&held->cond, &held->lock, end))
    ;
  is_set = *flag;
  g_mutex_unlock (&held->lock);
  return is_set;
}

static void CUDAAPI
hold_stream (void *data)
{
  Held *held = data;

  wait_held (held, &held->is_open);
}

static guint8 source[16 * 1024 * 1024];

static void
overwrite_source (gpointer data)
{
  memset (source, 0xdd, sizeof source);
  set_held (data, &((Held *) data)->is_done);
}

/* A write fails before threads have copied all its chunks, as after a failure of the device. The
 * library keeps the bytes until the threads no longer read them. */
static void
cuda_failed_write_keeps_bytes (TestFixture *fixture)
{
  Held held = { .stream = fixture->stream };
  const guint64 stream = gpu_stream_get_native_handle (fixture->stream);
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) expected = test_random_bytes (sizeof source);
  g_autoptr (GError) error = NULL;
  g_autoptr (GError) failure = NULL;
  GpuTimeline *timeline;
  GBytes *bytes;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  buffer = test_buffer_filled (fixture, sizeof source, 7);
  memcpy (source, g_bytes_get_data (expected, NULL), sizeof source);
  bytes = g_bytes_new_with_free_func (source, sizeof source, overwrite_source, &held);
  test_cuda_push (fixture);
  g_assert_cmpuint (_gpu_cuda.cuLaunchHostFunc ((CUstream) (guintptr) stream, hold_stream, &held),
                    ==, CUDA_SUCCESS);
  test_cuda_pop (fixture);
  test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (buffer), 0, bytes, &error), error);
  g_bytes_unref (bytes);
  timeline = _gpu_stream_get_timeline (fixture->stream, "test", &error);
  failure = g_error_new_literal (GPU_ERROR, GPU_ERROR_FAILED, "of a kernel");
  _gpu_timeline_retire (timeline, _gpu_timeline_get_last_point (timeline), failure);
  g_assert_false (held.is_done);
  set_held (&held, &held.is_open);
  g_assert_true (wait_held (&held, &held.is_done));
  test_cuda_push (fixture);
  g_assert_cmpuint (_gpu_cuda.cuMemcpyDtoH (source, gpu_memory_get_native_handle
                                            (GPU_MEMORY (buffer)), sizeof source), ==,
                    CUDA_SUCCESS);
  test_cuda_pop (fixture);
  g_assert_cmpmem (source, sizeof source, g_bytes_get_data (expected, NULL), sizeof source);
}

static gpointer
record_time (gpointer data)
{
  Held *held = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuEvent) event = gpu_stream_record (held->stream, GPU_EVENT_FLAGS_TIMING, &error);
  guint64 time = 0;

  g_assert_no_error (error);
  test_assert_ok (gpu_event_wait (event, NULL, &error), error);
  test_assert_ok (gpu_event_get_profiling_time (event, GPU_PROFILING_POINT_ENDED, &time, &error),
                  error);
  g_assert_cmpuint (time, >, 0);
  set_held (held, &held->is_done);
  return NULL;
}

/* Timing does not wait for uploads that the library submits for other work. */
static void
cuda_times_beside_uploads (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_PROFILING);
  Held held = { .stream = stream };
  CUstream internal = NULL;
  gboolean is_in_time;
  GThread *thread;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  test_cuda_push (fixture);
  test_assert_ok (_gpu_cuda_get_internal_stream (get_native (fixture), &internal, &error), error);
  g_assert_cmpuint (_gpu_cuda.cuLaunchHostFunc (internal, hold_stream, &held), ==, CUDA_SUCCESS);
  test_cuda_pop (fixture);
  thread = g_thread_new ("record", record_time, &held);
  is_in_time = wait_held (&held, &held.is_done);
  set_held (&held, &held.is_open);
  g_thread_join (thread);
  g_assert_true (is_in_time);
  test_cuda_push (fixture);
  g_assert_cmpuint (_gpu_cuda.cuStreamSynchronize (internal), ==, CUDA_SUCCESS);
  test_cuda_pop (fixture);
}

/* --- peers ----------------------------------------------------------------------- */

static void
copy_between (TestFixture *fixture, GpuContext *other)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GpuBuffer) here = test_buffer_from (fixture, bytes);
  g_autoptr (GpuBuffer) there = gpu_buffer_new (other, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_autoptr (GpuBuffer) back = test_buffer (fixture, SIZE);
  g_autoptr (GpuStream) stream = gpu_stream_new (other, GPU_STREAM_FLAGS_NON_BLOCKING, &error);

  g_assert_no_error (error);
  /* Copy to the peer on our stream and back on the peer's stream: each stream must wait for the
   * other. */
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (there), 0, GPU_MEMORY (here), 0,
                                   SIZE, &error), error);
  test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (back), 0, GPU_MEMORY (there), 0, SIZE,
                                   &error), error);
  test_assert_content (back, bytes);
  test_assert_content (there, bytes);
}

static void
cuda_peers (TestFixture *fixture)
{
  GPtrArray *devices = test_devices ();

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  for (guint i = 0; i < devices->len; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuContext) other = NULL;

      if (!g_str_equal (gpu_device_get_backend (devices->pdata[i]), "cuda"))
        continue;
      other = gpu_context_new (devices->pdata[i], GPU_CONTEXT_FLAGS_NONE, &error);
      g_assert_no_error (error);
      copy_between (fixture, other);
    }
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("current-context", cuda_current_context);
  test_add ("default-streams", cuda_default_streams);
  test_add ("per-thread-order", cuda_per_thread_order);
  test_add ("foreign-streams", cuda_foreign_streams);
  test_add ("wrapped-addresses", cuda_wrapped_addresses);
  test_add ("wrapped-query-fails", cuda_wrapped_query_fails);
  test_add ("failed-write-keeps-bytes", cuda_failed_write_keeps_bytes);
  test_add ("attributes", cuda_attributes);
  test_add ("linked-kinds", cuda_linked_kinds);
  test_add ("patterns", cuda_patterns);
  test_add ("times", cuda_times);
  test_add ("times-beside-uploads", cuda_times_beside_uploads);
  test_add ("peers", cuda_peers);
  return test_run ();
}

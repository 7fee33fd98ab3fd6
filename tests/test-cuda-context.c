/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* CUDA contexts of every kind, and the state of the driver after contexts are freed. */
#include "config.h"

#include "test-cuda-util.h"
#include "tests/cuda-driver/cuda-driver.h"

#define N_ITEMS 64

static CUdevice
get_device (TestFixture *fixture)
{
  return (CUdevice) gpu_device_get_native_handle (fixture->device);
}

static gboolean
is_primary_active (TestFixture *fixture)
{
  unsigned int flags = 0;
  int active = -1;

  g_assert_cmpuint (_gpu_cuda.cuDevicePrimaryCtxGetState (get_device (fixture), &flags, &active),
                    ==, CUDA_SUCCESS);
  return active != 0;
}

static CUcontext
get_current (void)
{
  CUcontext context = (CUcontext) 1;

  g_assert_cmpuint (_gpu_cuda.cuCtxGetCurrent (&context), ==, CUDA_SUCCESS);
  return context;
}

/* The primary context is active as long as a GpuContext uses it. After each call, the primary
 * context is not current on the calling thread. */
static void
contexts_primary (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  guint64 handle;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;

  handle = gpu_context_get_native_handle (fixture->context);
  g_assert_true (is_primary_active (fixture));
  g_assert_null (get_current ());
  {
    g_autoptr (GpuContext) again = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE,
                                                    &error);
    g_autoptr (GpuContext) wrapped = NULL;

    g_assert_no_error (error);
    g_assert_cmpuint (gpu_context_get_native_handle (again), ==, handle);
    wrapped = gpu_context_new_wrapped (fixture->device, handle, GPU_WRAP_MODE_BORROW, &error);
    g_assert_no_error (error);
    /* The wrapper retains the primary context itself. */
    test_drop_context (fixture);
    g_clear_object (&again);
    g_assert_true (is_primary_active (fixture));
  }
  g_assert_false (is_primary_active (fixture));
  g_assert_null (get_current ());
}

/* An adopted primary context is released exactly once. */
static void
contexts_adopted_primary (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = NULL;
  CUcontext handle = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;

  test_drop_context (fixture);
  g_assert_cmpuint (_gpu_cuda.cuDevicePrimaryCtxRetain (&handle, get_device (fixture)), ==,
                    CUDA_SUCCESS);
  context = gpu_context_new_wrapped (fixture->device, (guintptr) handle, GPU_WRAP_MODE_ADOPT,
                                     &error);
  g_assert_no_error (error);
  g_assert_true (is_primary_active (fixture));
  g_clear_object (&context);
  g_assert_false (is_primary_active (fixture));
}

/* A context with GPU_CONTEXT_FLAGS_OWN has a handle and flags of its own. A borrowed wrapper does
 * not destroy the wrapped context. */
static void
contexts_own (TestFixture *fixture)
{
  const GpuContextFlags flags = GPU_CONTEXT_FLAGS_OWN | GPU_CONTEXT_FLAGS_SCHED_BLOCKING |
                                GPU_CONTEXT_FLAGS_MAP_HOST;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) own = NULL;
  g_autoptr (GpuContext) borrowed = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (10000);
  guint64 handle;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;

  own = gpu_context_new (fixture->device, flags, &error);
  g_assert_no_error (error);
  handle = gpu_context_get_native_handle (own);
  g_assert_cmpuint (handle, !=, gpu_context_get_native_handle (fixture->context));
  g_assert_cmpuint (test_get_number (own, "flags") & flags, ==, flags);
  g_assert_null (get_current ());

  borrowed = gpu_context_new_wrapped (fixture->device, handle, GPU_WRAP_MODE_BORROW, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (test_get_number (borrowed, "flags") & flags, ==, flags);
  buffer = gpu_buffer_new_from_bytes (borrowed, GPU_MEMORY_FLAGS_NONE, bytes, &error);
  g_assert_no_error (error);
  test_assert_content (buffer, bytes);
  g_clear_object (&buffer);
  g_clear_object (&borrowed);
  g_assert_null (get_current ());

  /* Freeing the borrowed wrapper did not destroy the context. */
  buffer = gpu_buffer_new_from_bytes (own, GPU_MEMORY_FLAGS_NONE, bytes, &error);
  g_assert_no_error (error);
  test_assert_content (buffer, bytes);
}

static void
contexts_adopted (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (10000);
  CUcontext handle = NULL;
  CUcontext popped = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;

  g_assert_cmpuint (_gpu_cuda.cuCtxCreate (&handle, 0, get_device (fixture)), ==, CUDA_SUCCESS);
  context = gpu_context_new_wrapped (fixture->device, (guintptr) handle, GPU_WRAP_MODE_ADOPT,
                                     &error);
  g_assert_no_error (error);
  {
    g_autoptr (GpuBuffer) buffer = gpu_buffer_new_from_bytes (context, GPU_MEMORY_FLAGS_NONE, bytes,
                                                              &error);

    g_assert_no_error (error);
    test_assert_content (buffer, bytes);
  }
  /* The context has been current since its creation, and still is. */
  g_assert_true (get_current () == handle);
  g_assert_cmpuint (_gpu_cuda.cuCtxPopCurrent (&popped), ==, CUDA_SUCCESS);
}

static void
contexts_of_another_device (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) other = gpu_device_find ("cuda:1", NULL);
  g_autoptr (GpuContext) context = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  if (other == NULL)
    {
      g_test_skip ("only one device");
      return;
    }
  if (g_str_equal (gpu_device_get_id (fixture->device), "cuda:1"))
    {
      g_clear_object (&other);
      other = gpu_device_find ("cuda:0", NULL);
    }

  context = gpu_context_new_wrapped (other, gpu_context_get_native_handle (fixture->context),
                                     GPU_WRAP_MODE_BORROW, &error);
  g_assert_null (context);
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, gpu_device_get_id (other));
}

static void
contexts_flags (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = NULL;
  GpuContextFlags present;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;

  /* The current flags of the primary context are accepted. */
  present = test_get_number (fixture->context, "flags");
  g_assert_false (present & GPU_CONTEXT_FLAGS_OWN);
  context = gpu_context_new (fixture->device, present, &error);
  g_assert_no_error (error);
  g_clear_object (&context);

  /* If the primary context has other flags, the library changes them to the requested flags, or the
   * constructor fails with GPU_ERROR_BUSY. */
  context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_SCHED_YIELD, &error);
  if (context != NULL)
    g_assert_true (test_get_number (context, "flags") & GPU_CONTEXT_FLAGS_SCHED_YIELD);
  else
    test_assert_gpu_error (error, GPU_ERROR_BUSY);
}

static void
contexts_settings (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  GpuCachePreference preference;
  guint64 stack = 0;
  guint64 read = 0;
  guint version = 0;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;

  test_assert_ok (gpu_context_get_limit (fixture->context, GPU_LIMIT_STACK_SIZE, &stack, &error),
                  error);
  test_assert_ok (gpu_context_set_limit (fixture->context, GPU_LIMIT_STACK_SIZE, stack + 1024,
                                         &error), error);
  test_assert_ok (gpu_context_get_limit (fixture->context, GPU_LIMIT_STACK_SIZE, &read, &error),
                  error);
  g_assert_cmpuint (read, >=, stack + 1024);
  test_assert_ok (gpu_context_get_cache_preference (fixture->context, &preference, &error),
                  error);
  test_assert_ok (gpu_context_set_cache_preference (fixture->context, preference, &error), error);
  test_assert_ok (gpu_context_get_api_version (fixture->context, &version, &error), error);
  g_assert_cmpuint (version, >=, 3010);
  g_assert_null (get_current ());
}

static void
check_ordered (GpuContext *context)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = gpu_context_get_default_stream (context);
  g_autoptr (GBytes) bytes = test_random_bytes (10000);
  g_autoptr (GpuBuffer) buffer = NULL;

  if ((gpu_device_get_capabilities (gpu_context_get_device (context))
       & GPU_CAPABILITIES_STREAM_ORDERED) == 0)
    return;
  buffer = gpu_buffer_new_on_stream (stream, GPU_MEMORY_FLAGS_NONE, 10000, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_write (stream, GPU_MEMORY (buffer), 0, bytes, &error), error);
  test_assert_content (buffer, bytes);
}

/* Peer access applies to the pool of stream-ordered memory, whether the pool was created before or
 * after access was enabled. */
static void
contexts_peers (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) other = gpu_device_find ("cuda:1", NULL);
  gboolean reaches = FALSE;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  if (other == NULL || g_str_equal (gpu_device_get_id (fixture->device), "cuda:1") ||
      !gpu_device_can_access_peer (fixture->device, other, &reaches, NULL) || !reaches)
    {
      g_test_skip ("no two devices have peer access");
      return;
    }

  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GpuContext) peer = gpu_context_new (other, GPU_CONTEXT_FLAGS_NONE, &error);

      g_assert_no_error (error);
      if (i == 0)
        check_ordered (peer);
      test_assert_ok (gpu_context_enable_peer_access (fixture->context, peer, &error), error);
      check_ordered (peer);
      g_assert_false (gpu_context_enable_peer_access (fixture->context, peer, &error));
      test_assert_gpu_error (error, GPU_ERROR_BUSY, "ALREADY_ENABLED");
      test_assert_ok (gpu_context_disable_peer_access (fixture->context, peer, &error), error);
      check_ordered (peer);
      g_assert_false (gpu_context_disable_peer_access (fixture->context, peer, &error));
      test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "NOT_ENABLED");
    }
}

static CUresult CUDAAPI
refuse_context (CUcontext *context G_GNUC_UNUSED, CUdevice device G_GNUC_UNUSED)
{
  return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

/* A device in exclusive use by another process is not lost: a context may be created later. */
static void
contexts_unavailable (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = NULL;
  __typeof__ (_gpu_cuda.cuDevicePrimaryCtxRetain) retain = _gpu_cuda.cuDevicePrimaryCtxRetain;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  _gpu_cuda.cuDevicePrimaryCtxRetain = refuse_context;
  g_assert_null (gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "CUDA_ERROR_DEVICE_UNAVAILABLE (46)");
  _gpu_cuda.cuDevicePrimaryCtxRetain = retain;
  context = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
}

/* --- peer access of several contexts to one --------------------------------------- */

/* Launches a kernel in @context that writes @value to @buffer, memory of another context. */
static void
write_from (GpuContext *context, GpuBuffer *buffer, guint32 value)
{
  const GpuExtent grid = { 64, 1, 1 };
  const guint64 address = gpu_memory_get_native_handle (GPU_MEMORY (buffer));
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = gpu_context_get_default_stream (context);
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GBytes) content = NULL;

  program = gpu_program_new_from_source (context, "extern \"C\" __global__ void set "
                                         "(unsigned *p, unsigned v) { p[threadIdx.x] = v; }",
                                         NULL, &error);
  g_assert_no_error (error);
  kernel = gpu_program_get_kernel (program, "set", &error);
  g_assert_no_error (error);
  gpu_arguments_add_value (arguments, &address, sizeof address);
  gpu_arguments_add_value (arguments, &value, sizeof value);
  test_assert_ok (gpu_stream_launch_arguments (stream, kernel, &grid, NULL, arguments, &error),
                  error);
  test_synchronize (stream);
  content = test_content (buffer);
  for (guint i = 0; i < 64; i++)
    g_assert_cmpuint (((const guint32 *) g_bytes_get_data (content, NULL))[i], ==, value);
}

static GpuBuffer *
new_ordered (GpuContext *context)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = gpu_context_get_default_stream (context);
  GpuBuffer *buffer = gpu_buffer_new_on_stream (stream, GPU_MEMORY_FLAGS_NONE, 256, &error);

  g_assert_no_error (error);
  test_synchronize (stream);
  return buffer;
}

/* Returns NULL and skips the test if there is no peer. */
static GpuContext *
find_peer (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) other = gpu_device_find ("cuda:1", NULL);
  gboolean reaches = FALSE;
  GpuContext *peer;

  if (other == NULL || g_str_equal (gpu_device_get_id (fixture->device), "cuda:1") ||
      !gpu_device_can_access_peer (fixture->device, other, &reaches, NULL) || !reaches)
    {
      g_test_skip ("no two devices have peer access");
      return NULL;
    }
  if (!test_has (fixture, GPU_CAPABILITIES_STREAM_ORDERED | GPU_CAPABILITIES_SOURCE))
    return NULL;
  peer = gpu_context_new (other, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  return peer;
}

/* Pools grant access to devices, not to contexts: if two contexts of a device have access,
 * disabling it for one context must not end the access of the other. */
static void
contexts_peers_of_shared_device (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) peer = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  peer = find_peer (fixture);
  if (peer == NULL)
    return;
  for (guint32 i = 1; i < 9; i += 4)
    {
      g_autoptr (GpuContext) own = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_OWN, &error);

      g_assert_no_error (error);
      test_assert_ok (gpu_context_enable_peer_access (fixture->context, peer, &error), error);
      if (buffer == NULL)
        buffer = new_ordered (peer);
      test_assert_ok (gpu_context_enable_peer_access (own, peer, &error), error);
      write_from (fixture->context, buffer, i);
      write_from (own, buffer, i + 1);
      test_assert_ok (gpu_context_disable_peer_access (own, peer, &error), error);
      write_from (fixture->context, buffer, i + 2);
      test_assert_ok (gpu_context_enable_peer_access (own, peer, &error), error);
      test_assert_ok (gpu_context_disable_peer_access (fixture->context, peer, &error), error);
      write_from (own, buffer, i + 3);
    }
}

/* Peer access includes shareable memory that was allocated before access was enabled. */
static void
contexts_peers_of_shareable_memory (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) peer = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_IPC_FDS))
    return;
  peer = find_peer (fixture);
  if (peer == NULL)
    return;
  buffer = gpu_buffer_new (peer, GPU_MEMORY_FLAGS_SHAREABLE, 256, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_context_enable_peer_access (fixture->context, peer, &error), error);
  write_from (fixture->context, buffer, 5);
  test_assert_ok (gpu_context_disable_peer_access (fixture->context, peer, &error), error);
}

static CUresult CUDAAPI
refuse_access (CUmemoryPool pool G_GNUC_UNUSED, const CUmemAccessDesc *access G_GNUC_UNUSED,
               size_t n_access G_GNUC_UNUSED)
{
  return CUDA_ERROR_UNKNOWN;
}

/* If a call to enable or disable peer access fails, it changes nothing, and a second call
 * succeeds. */
static void
contexts_peers_refused (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) peer = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  __typeof__ (_gpu_cuda.cuMemPoolSetAccess) set_access = _gpu_cuda.cuMemPoolSetAccess;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  peer = find_peer (fixture);
  if (peer == NULL)
    return;
  buffer = new_ordered (peer);
  _gpu_cuda.cuMemPoolSetAccess = refuse_access;
  g_assert_false (gpu_context_enable_peer_access (fixture->context, peer, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "cuMemPoolSetAccess");
  _gpu_cuda.cuMemPoolSetAccess = set_access;
  test_assert_ok (gpu_context_enable_peer_access (fixture->context, peer, &error), error);
  write_from (fixture->context, buffer, 5);
  _gpu_cuda.cuMemPoolSetAccess = refuse_access;
  g_assert_false (gpu_context_disable_peer_access (fixture->context, peer, &error));
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "cuMemPoolSetAccess");
  _gpu_cuda.cuMemPoolSetAccess = set_access;
  write_from (fixture->context, buffer, 6);
  test_assert_ok (gpu_context_disable_peer_access (fixture->context, peer, &error), error);
}

/* If the context is current, an operation makes a single driver call, and a synchronization creates
 * no event. */
static void
contexts_no_extra_calls (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) from = NULL;
  g_autoptr (GpuBuffer) to = NULL;
  g_autoptr (GBytes) content = NULL;
  guint64 before;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_get_count") == NULL)
    {
      g_test_skip ("the driver counts no calls");
      return;
    }

  from = test_buffer_filled (fixture, 64, 7);
  to = test_buffer_filled (fixture, 64, 0);
  test_synchronize (fixture->stream);
  test_assert_ok (gpu_context_push_current (fixture->context, &error), error);
  before = GPUMEM_CUDA_DRIVER (get_count) ("*");

  for (guint i = 0; i < 10; i++)
    test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (to), 0, GPU_MEMORY (from), 0, 64,
                                     &error), error);

  g_assert_cmpuint (GPUMEM_CUDA_DRIVER (get_count) ("*"), ==, before + 10);
  before = GPUMEM_CUDA_DRIVER (get_count) ("cuEvent*");
  test_synchronize (fixture->stream);
  g_assert_cmpuint (GPUMEM_CUDA_DRIVER (get_count) ("cuEvent*"), ==, before);
  test_assert_ok (gpu_context_pop_current (fixture->context, &error), error);
  content = test_content (to);
  test_assert_value (g_bytes_get_data (content, NULL), 7, 64);
}

/* A thread that waits with a timeout polls, as one without a timeout does. It does not wait for
 * another thread that the driver has to wake. */
static void
contexts_timed_wait_polls (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuEvent) event = NULL;
  const guint8 value = 9;
  guint64 before;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_get_count") == NULL)
    {
      g_test_skip ("the driver counts no calls");
      return;
    }

  buffer = test_buffer_filled (fixture, 64, 7);
  test_synchronize (fixture->stream);
  before = GPUMEM_CUDA_DRIVER (get_count) ("cuEventSynchronize");

  for (guint i = 0; i < 10; i++)
    {
      g_autoptr (GpuEvent) last = g_steal_pointer (&event);

      test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (buffer), 0, 64, &value, 1,
                                       &error), error);
      event = gpu_stream_record (fixture->stream, GPU_EVENT_FLAGS_NONE, &error);
      g_assert_no_error (error);
      g_assert_cmpint (gpu_event_poll (event, TEST_DEADLINE * G_USEC_PER_SEC, NULL, &error),
                       ==, GPU_EVENT_STATUS_COMPLETE);
      g_assert_no_error (error);
    }

  g_assert_cmpuint (GPUMEM_CUDA_DRIVER (get_count) ("cuEventSynchronize"), ==, before);
}

/* --- operations under any current context ------------------------------------------- */

typedef struct
{
  GpuStream  *stream;
  CUcontext   current;                  /* nullable; current context of the thread */
  GpuKernel  *kernel;
  GpuLaunch  *launch;
  GpuBuffer  *from;
  GpuBuffer  *to;
  GpuBuffer  *bytes;
} Outside;

static GpuArguments *
add_arguments (GpuBuffer *buffer, gint64 n)
{
  GpuArguments *arguments = gpu_arguments_new ();

  gpu_arguments_add_memory (arguments, GPU_MEMORY (buffer));
  gpu_arguments_add_int (arguments, n);
  return arguments;
}

/* The blocking calls wait for the stream while it is idle. */
static void
block_outside (Outside *self)
{
  const guint8 written[4] = { 5, 6, 7, 8 };
  const guint8 pattern = 3;
  g_autoptr (GError) error = NULL;
  guint8 content[8] = { 0 };

  test_assert_ok (gpu_stream_fill (self->stream, GPU_MEMORY (self->bytes), 0, sizeof content,
                                   &pattern, 1, &error), error);
  g_assert_true (get_current () == self->current);
  test_assert_ok (gpu_stream_synchronize (self->stream, NULL, &error), error);
  g_assert_true (get_current () == self->current);
  test_assert_ok (gpu_buffer_write (self->bytes, self->stream, 0, written, sizeof written, NULL,
                                    &error), error);
  g_assert_true (get_current () == self->current);
  test_assert_ok (gpu_buffer_read (self->bytes, self->stream, 0, content, sizeof content, NULL,
                                   &error), error);
  g_assert_true (get_current () == self->current);
  g_assert_cmpmem (content, 4, written, 4);
  test_assert_value (content + 4, pattern, 4);
}

static gpointer
work_outside (gpointer data)
{
  const GpuExtent grid = { N_ITEMS, 1, 1 };
  Outside *self = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArguments) arguments = add_arguments (self->to, 1);
  CUcontext popped = NULL;

  if (self->current != NULL)
    g_assert_cmpuint (_gpu_cuda.cuCtxPushCurrent (self->current), ==, CUDA_SUCCESS);

  test_assert_ok (gpu_stream_copy (self->stream, GPU_MEMORY (self->to), 0, GPU_MEMORY (self->from),
                                   0, N_ITEMS * 4, &error), error);
  g_assert_true (get_current () == self->current);
  test_assert_ok (gpu_stream_launch_arguments (self->stream, self->kernel, &grid, NULL, arguments,
                                               &error), error);
  g_assert_true (get_current () == self->current);
  test_assert_ok (gpu_stream_launch_prepared (self->stream, self->launch, &error), error);
  g_assert_true (get_current () == self->current);
  block_outside (self);

  if (self->current != NULL)
    g_assert_cmpuint (_gpu_cuda.cuCtxPopCurrent (&popped), ==, CUDA_SUCCESS);
  g_assert_true (popped == self->current);
  return NULL;
}

static void
check_outside (TestFixture *fixture, Outside *self)
{
  const GpuExtent grid = { N_ITEMS, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) to = test_buffer_filled (fixture, N_ITEMS * 4, 0);
  g_autoptr (GpuBuffer) bytes = test_buffer_filled (fixture, 8, 0);
  g_autoptr (GpuArguments) arguments = add_arguments (to, 2);
  g_autoptr (GpuLaunch) launch = gpu_launch_new (self->kernel, &grid, NULL, NULL, 0,
                                                 GPU_LAUNCH_FLAGS_NONE, arguments, &error);
  g_autoptr (GBytes) content = NULL;

  g_assert_no_error (error);
  self->launch = launch;
  self->to = to;
  self->bytes = bytes;
  g_thread_join (g_thread_new ("outside", work_outside, self));
  content = test_content (to);
  for (guint i = 0; i < N_ITEMS; i++)
    g_assert_cmphex (((const guint32 *) g_bytes_get_data (content, NULL))[i], ==, 0x01010104);
}

/* Submits operations on threads without a current context, with the stream's context current, and
 * with another context current. Uses streams with a handle, and default streams, whose handles
 * depend on the current context. */
static void
contexts_other_current_contexts (TestFixture *fixture)
{
  const guint64 handles[] = { gpu_stream_get_native_handle (fixture->stream),
                              GPU_STREAM_HANDLE_LEGACY, GPU_STREAM_HANDLE_PER_THREAD };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) own = NULL;
  g_autoptr (GpuDevice) device = gpu_device_find ("cuda:1", NULL);
  g_autoptr (GpuContext) other = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) from = NULL;
  CUcontext currents[4] = { NULL };

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  g_assert_cmpuint (handles[0], >, GPU_STREAM_HANDLE_PER_THREAD);
  own = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_OWN, &error);
  g_assert_no_error (error);
  other = gpu_context_new (device != NULL ? device : fixture->device, GPU_CONTEXT_FLAGS_NONE,
                           &error);
  g_assert_no_error (error);
  currents[1] = test_cuda_context (fixture);
  currents[2] = (CUcontext) (guintptr) gpu_context_get_native_handle (own);
  currents[3] = (CUcontext) (guintptr) gpu_context_get_native_handle (other);
  kernel = test_kernel (fixture, "__kernel void add (__global int *p, const int n)\n"
                        "{ p[get_global_id (0)] += n; }\n", "add");
  from = test_buffer_filled (fixture, N_ITEMS * 4, 1);

  for (guint i = 0; i < G_N_ELEMENTS (handles); i++)
    {
      g_autoptr (GpuStream) stream = gpu_stream_new_wrapped (fixture->context, handles[i],
                                                             GPU_WRAP_MODE_BORROW, &error);

      g_assert_no_error (error);
      for (guint j = 0; j < G_N_ELEMENTS (currents); j++)
        check_outside (fixture, &(Outside) { .stream = stream, .current = currents[j],
                                             .kernel = kernel, .from = from });
    }
}

static struct
{
  GpuCudaApi  api;
  CUcontext   wanted;
  CUresult    code;                     /* with another current context */
  guint       n_calls;
}
strict;

#define STRICT(name, parameters, arguments) \
  static CUresult CUDAAPI \
  strict_##name parameters \
  { \
    strict.n_calls++; \
    return get_current () == strict.wanted ? strict.api.name arguments : strict.code; \
  }

STRICT (cuMemcpyDtoDAsync, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),
        (to, from, size, stream))
STRICT (cuMemcpyHtoDAsync, (CUdeviceptr to, const void *from, size_t size, CUstream stream),
        (to, from, size, stream))
STRICT (cuMemcpyDtoHAsync, (void *to, CUdeviceptr from, size_t size, CUstream stream),
        (to, from, size, stream))
STRICT (cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t size, CUstream stream),
        (to, value, size, stream))

typedef gboolean (*StrictFunc) (GpuStream *stream, GpuBuffer *to, GpuBuffer *from, GError **error);

static gboolean
copy_strictly (GpuStream *stream, GpuBuffer *to, GpuBuffer *from, GError **error)
{
  return gpu_stream_copy (stream, GPU_MEMORY (to), 0, GPU_MEMORY (from), 0, 64, error);
}

static gboolean
write_strictly (GpuStream *stream, GpuBuffer *to, GpuBuffer *from, GError **error)
{
  guint8 bytes[64];

  memset (bytes, 7, sizeof bytes);
  return gpu_buffer_write (to, stream, 0, bytes, sizeof bytes, NULL, error);
}

/* The bytes that were read become the contents of @to. */
static gboolean
read_strictly (GpuStream *stream, GpuBuffer *to, GpuBuffer *from, GError **error)
{
  guint8 bytes[64] = { 0 };
  gboolean success = gpu_buffer_read (from, stream, 0, bytes, sizeof bytes, NULL, error);

  _gpu_cuda = strict.api;
  return gpu_buffer_write (to, stream, 0, bytes, sizeof bytes, NULL, NULL) && success;
}

static gboolean
fill_strictly (GpuStream *stream, GpuBuffer *to, GpuBuffer *from, GError **error)
{
  const guint8 value = 7;

  return gpu_stream_fill (stream, GPU_MEMORY (to), 0, 64, &value, 1, error);
}

static void
run_strictly (TestFixture *fixture, StrictFunc func, const char *name, gboolean works,
              guint n_calls)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) from = test_buffer_filled (fixture, 64, 7);
  g_autoptr (GpuBuffer) to = test_buffer_filled (fixture, 64, 0);
  g_autoptr (GBytes) content = NULL;

  test_synchronize (fixture->stream);
  strict.api = _gpu_cuda;
  strict.n_calls = 0;
  _gpu_cuda.cuMemcpyDtoDAsync = strict_cuMemcpyDtoDAsync;
  _gpu_cuda.cuMemcpyHtoDAsync = strict_cuMemcpyHtoDAsync;
  _gpu_cuda.cuMemcpyDtoHAsync = strict_cuMemcpyDtoHAsync;
  _gpu_cuda.cuMemsetD8Async = strict_cuMemsetD8Async;
  g_assert_cmpint (func (fixture->stream, to, from, &error), ==, works);
  _gpu_cuda = strict.api;
  g_assert_cmpuint (strict.n_calls, ==, n_calls);
  g_assert_null (get_current ());
  if (!works)
    g_assert_true (strstr (error->message, name) != NULL);
  content = test_content (to);
  test_assert_value (g_bytes_get_data (content, NULL), works ? 7 : 0, 64);
}

/* If the driver rejects an operation because no context is current, the library makes the stream's
 * context current and repeats the operation once. */
static void
contexts_requires_current_context (TestFixture *fixture)
{
  const struct { CUresult code; gboolean reachable; guint n_calls; } cases[] = {
    { CUDA_ERROR_INVALID_CONTEXT, TRUE, 2 }, { CUDA_ERROR_INVALID_CONTEXT, FALSE, 2 },
    { CUDA_ERROR_INVALID_HANDLE, TRUE, 2 }, { CUDA_ERROR_INVALID_HANDLE, FALSE, 2 },
    { CUDA_ERROR_INVALID_VALUE, TRUE, 2 }, { CUDA_ERROR_INVALID_VALUE, FALSE, 2 },
    { CUDA_ERROR_NOT_SUPPORTED, TRUE, 1 },
  };
  const struct { StrictFunc func; const char *name; } operations[] = {
    { copy_strictly, "cuMemcpyDtoDAsync" }, { write_strictly, "cuMemcpyHtoDAsync" },
    { read_strictly, "cuMemcpyDtoHAsync" }, { fill_strictly, "cuMemsetD8Async" },
  };

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    for (guint j = 0; j < G_N_ELEMENTS (operations); j++)
      {
        strict.wanted = cases[i].reachable ? test_cuda_context (fixture) : (CUcontext) 1;
        strict.code = cases[i].code;
        run_strictly (fixture, operations[j].func, operations[j].name,
                      cases[i].reachable && cases[i].n_calls == 2, cases[i].n_calls);
      }
}

static CUresult CUDAAPI
strict_cuStreamSynchronize (CUstream stream)
{
  strict.n_calls++;
  return get_current () == strict.wanted ? strict.api.cuStreamSynchronize (stream)
                                         : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult CUDAAPI
strict_cuStreamQuery (CUstream stream)
{
  strict.n_calls++;
  return get_current () == strict.wanted ? strict.api.cuStreamQuery (stream)
                                         : CUDA_ERROR_INVALID_CONTEXT;
}

/* If the driver rejects a wait because no context is current, the library makes the stream's
 * context current and waits. */
static void
contexts_wait_requires_current_context (TestFixture *fixture)
{
  const guint8 bytes[4] = { 1, 2, 3, 4 };
  const GpuCudaApi api = _gpu_cuda;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) from = NULL;
  g_autoptr (GpuBuffer) to = NULL;
  guint8 content[4];

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  from = test_buffer_filled (fixture, sizeof bytes, 0);
  to = test_buffer_filled (fixture, sizeof bytes, 0);
  test_synchronize (fixture->stream);
  strict.api = _gpu_cuda_raw;
  strict.wanted = test_cuda_context (fixture);
  strict.n_calls = 0;

  _gpu_cuda.cuStreamSynchronize = strict_cuStreamSynchronize;
  test_assert_ok (gpu_buffer_write (from, fixture->stream, 0, bytes, sizeof bytes, NULL, &error),
                  error);
  g_assert_cmpuint (strict.n_calls, >, 0);
  g_assert_null (get_current ());
  strict.n_calls = 0;
  _gpu_cuda_raw.cuStreamQuery = strict_cuStreamQuery;
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (to), 0, GPU_MEMORY (from), 0,
                                   sizeof bytes, &error), error);
  test_assert_ok (gpu_stream_synchronize (fixture->stream, NULL, &error), error);
  g_assert_cmpuint (strict.n_calls, >=, 2);
  g_assert_null (get_current ());
  _gpu_cuda = api;
  _gpu_cuda_raw = strict.api;
  test_assert_ok (gpu_buffer_read (to, fixture->stream, 0, content, sizeof content, NULL, &error),
                  error);
  g_assert_cmpmem (content, sizeof content, bytes, sizeof bytes);
}

static CUresult CUDAAPI
create_nothing (CUevent *event, unsigned int flags)
{
  return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult CUDAAPI
record_nothing (CUevent event, CUstream stream)
{
  return CUDA_ERROR_OUT_OF_MEMORY;
}

static void
fail_to_fill (TestFixture *fixture, GpuStream *stream, const char *function)
{
  const guint8 value = 7;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 64, 1);

  g_assert_false (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, 64, &value, 1, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, function);
  g_assert_null (get_current ());
}

/* If the driver cannot create or record the event of an operation, the operation fails, and the
 * thread still has no current context. */
static void
contexts_after_failure (TestFixture *fixture)
{
  const __typeof__ (_gpu_cuda.cuEventCreate) create = _gpu_cuda.cuEventCreate;
  const __typeof__ (_gpu_cuda.cuEventRecord) record = _gpu_cuda.cuEventRecord;
  const guint8 value = 9;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GBytes) content = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  stream = test_stream (fixture, GPU_STREAM_FLAGS_PROFILING);
  buffer = test_buffer_filled (fixture, 64, 1);
  g_assert_null (get_current ());

  _gpu_cuda.cuEventCreate = create_nothing;
  fail_to_fill (fixture, stream, "cuEventCreate");
  _gpu_cuda.cuEventCreate = create;
  _gpu_cuda.cuEventRecord = record_nothing;
  fail_to_fill (fixture, stream, "cuEventRecord");
  _gpu_cuda.cuEventRecord = record;

  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, 64, &value, 1, &error), error);
  g_assert_null (get_current ());
  content = test_content (buffer);
  test_assert_value (g_bytes_get_data (content, NULL), 9, 64);
}

static CUresult CUDAAPI
copy_nowhere (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
  return CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* A context is lost from the first operation for which the driver returns a device-lost code. */
static void
contexts_lost_at_operation (TestFixture *fixture)
{
  const __typeof__ (_gpu_cuda.cuMemcpyDtoDAsync) copy = _gpu_cuda.cuMemcpyDtoDAsync;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) own = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;

  if (!test_is_cuda (fixture, GPU_CAPABILITIES_NONE))
    return;
  own = gpu_context_new (fixture->device, GPU_CONTEXT_FLAGS_OWN, &error);
  g_assert_no_error (error);
  stream = gpu_stream_new (own, GPU_STREAM_FLAGS_NONE, &error);
  g_assert_no_error (error);
  buffer = gpu_buffer_new (own, GPU_MEMORY_FLAGS_NONE, 128, &error);
  g_assert_no_error (error);

  _gpu_cuda.cuMemcpyDtoDAsync = copy_nowhere;
  g_assert_false (gpu_stream_copy (stream, GPU_MEMORY (buffer), 0, GPU_MEMORY (buffer), 64, 64,
                                   &error));
  _gpu_cuda.cuMemcpyDtoDAsync = copy;
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST, "gpu_stream_copy", "cuMemcpyDtoDAsync");
  g_assert_true (gpu_context_is_lost (own));
  g_assert_false (gpu_context_is_lost (fixture->context));
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("primary", contexts_primary);
  test_add ("adopted-primary", contexts_adopted_primary);
  test_add ("own", contexts_own);
  test_add ("adopted", contexts_adopted);
  test_add ("of-another-device", contexts_of_another_device);
  test_add ("flags", contexts_flags);
  test_add ("settings", contexts_settings);
  test_add ("unavailable", contexts_unavailable);
  test_add ("peers", contexts_peers);
  test_add ("peers-of-shared-device", contexts_peers_of_shared_device);
  test_add ("peers-of-shareable-memory", contexts_peers_of_shareable_memory);
  test_add ("peers-refused", contexts_peers_refused);
  test_add ("no-extra-calls", contexts_no_extra_calls);
  test_add ("timed-wait-polls", contexts_timed_wait_polls);
  test_add ("other-current-contexts", contexts_other_current_contexts);
  test_add ("requires-current-context", contexts_requires_current_context);
  test_add ("wait-requires-current-context", contexts_wait_requires_current_context);
  test_add ("after-failure", contexts_after_failure);
  test_add ("lost-at-operation", contexts_lost_at_operation);
  return test_run ();
}

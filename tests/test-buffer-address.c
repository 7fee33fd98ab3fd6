/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Addresses of buffers: kernels take them as arguments, and follow pointers from buffer to buffer.
 * On OpenCL this requires cl_ext_buffer_device_address, which the OpenCL layer emulates. */
#include "config.h"

#include "opencl-layer/gpumem-layer.h"
#include "test-util.h"

#define N_NODES 4
#define VALUE   11

typedef struct
{
  guint64 next;                     /* address of a node, or 0 */
  gint32  value;
  gint32  visits;
} Node;

static const char source[] =
  TEST_WALK_SOURCE
  "__kernel void copy (__global int *to, __global const int *from)\n"
  "{\n"
  "  to[get_global_id (0)] = from[get_global_id (0)] + 1;\n"
  "}\n";

static const GpuExtent one = { 1, 1, 1 };

static guint64
get_address (GpuBuffer *buffer)
{
  return gpu_memory_get_device_address (GPU_MEMORY (buffer));
}

static gboolean
has_addresses (TestFixture *fixture)
{
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, sizeof (Node));

  return get_address (buffer) != 0;
}

/* Returns FALSE and skips the test if the device cannot run the test. Under the OpenCL layer, which
 * emulates addresses, the test must not be skipped. */
static gboolean
can_follow (TestFixture *fixture)
{
  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return FALSE;

  if (has_addresses (fixture))
    return TRUE;

  g_test_skip ("the driver reports no addresses of buffers");
  return FALSE;
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* A list of nodes: two buffers, a slice of a third, and a buffer from a pool. */
typedef struct
{
  GpuBuffer *nodes[N_NODES];
  GpuBuffer *sum;
  GpuKernel *kernel;
} List;

static void
write_node (GpuBuffer *buffer, guint64 next, gint32 value)
{
  const Node node = { next, value, 0 };
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_buffer_write (buffer, NULL, 0, &node, sizeof node, NULL, &error), error);
}

static void
list_init (TestFixture *fixture, List *list)
{
  const gsize unit = MAX (gpu_device_get_base_alignment (fixture->device), sizeof (Node));
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) parent = test_buffer (fixture, 4 * unit);
  g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_AUTOMATIC,
                                                        GPU_MEMORY_FLAGS_NONE, &error);

  g_assert_no_error (error);
  list->kernel = test_kernel (fixture, source, "walk");
  list->sum = test_buffer_filled (fixture, sizeof (gint32), 0);
  list->nodes[0] = test_buffer (fixture, sizeof (Node));
  list->nodes[1] = gpu_buffer_slice (parent, 3 * unit, sizeof (Node), &error);
  g_assert_no_error (error);
  if (get_address (parent) != 0)
    g_assert_cmpuint (get_address (list->nodes[1]), ==, get_address (parent) + 3 * unit);
  list->nodes[2] = gpu_memory_pool_alloc_buffer (pool, sizeof (Node), NULL, &error);
  g_assert_no_error (error);
  list->nodes[3] = test_buffer (fixture, sizeof (Node));

  for (guint i = 0; i < N_NODES; i++)
    write_node (list->nodes[i], i + 1 < N_NODES ? get_address (list->nodes[i + 1]) : 0,
                (gint32) (VALUE << i));
}

static void
list_clear (List *list)
{
  for (guint i = 0; i < N_NODES; i++)
    g_clear_object (&list->nodes[i]);
  g_clear_object (&list->sum);
  g_clear_object (&list->kernel);
}

/* Launches a kernel that walks the list from node @first. The kernel gets this node as an address
 * if @by_address is TRUE, or else as a buffer. */
static gboolean
walk (TestFixture *fixture, List *list, guint first, gboolean by_address, GError **error)
{
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();

  if (by_address)
    gpu_arguments_add_address (arguments, get_address (list->nodes[first]));
  else
    gpu_arguments_add_memory (arguments, GPU_MEMORY (list->nodes[first]));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (list->sum));
  for (guint i = first + !by_address; i < N_NODES; i++)
    gpu_arguments_add_indirect (arguments, GPU_MEMORY (list->nodes[i]));

  return gpu_stream_launch_arguments (fixture->stream, list->kernel, &one, NULL, arguments, error);
}

static void
check_list (TestFixture *fixture, List *list, const gint32 *visits, gint32 sum)
{
  g_autoptr (GError) error = NULL;
  gint32 got = -1;

  for (guint i = 0; i < N_NODES; i++)
    {
      Node node;

      test_assert_ok (gpu_buffer_read (list->nodes[i], fixture->stream, 0, &node, sizeof node, NULL,
                                       &error), error);
      g_assert_cmpint (node.value, ==, VALUE << i);
      g_assert_cmpint (node.visits, ==, visits[i]);
    }

  test_assert_ok (gpu_buffer_read (list->sum, fixture->stream, 0, &got, sizeof got, NULL, &error),
                  error);
  g_assert_cmpint (got, ==, sum);
}

/* --- tests ------------------------------------------------------------------------------------ */

/* A kernel follows addresses that the buffers contain. The library orders the kernel's accesses to
 * these buffers in the same way as accesses to arguments. */
static void
address_follow (TestFixture *fixture)
{
  const gint32 visits[N_NODES] = { 1, 1, 3, 3 };
  g_autoptr (GError) error = NULL;
  List list;

  if (!can_follow (fixture))
    return;

  list_init (fixture, &list);
  test_assert_ok (walk (fixture, &list, 0, FALSE, &error), error);
  test_assert_ok (walk (fixture, &list, 2, FALSE, &error), error);
  test_assert_ok (walk (fixture, &list, 2, TRUE, &error), error);
  check_list (fixture, &list, visits, (VALUE << 2) + (VALUE << 3));
  list_clear (&list);
}

/* Kernels use blocks of a pool through their addresses. */
static void
address_block (TestFixture *fixture)
{
  enum { N = 1000 };
  const GpuExtent items = { N, 1, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, N * sizeof (gint32), 0);
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GBytes) bytes = NULL;
  const gint32 *values;

  if (!can_follow (fixture))
    return;

  kernel = test_kernel (fixture, source, "copy");
  pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_SEGMENTS, GPU_MEMORY_FLAGS_NONE,
                              &error);
  g_assert_no_error (error);

  for (guint i = 0; i < 100; i++)
    {
      GpuMemoryBlock *block = gpu_memory_pool_alloc_block (pool, N * sizeof (gint32) + 600 * i,
                                                           fixture->stream, &error);
      g_autoptr (GpuArguments) to_block = gpu_arguments_new ();
      g_autoptr (GpuArguments) back = gpu_arguments_new ();

      g_assert_no_error (error);
      gpu_arguments_add_address (to_block, gpu_memory_block_get_address (block));
      gpu_arguments_add_memory (to_block, GPU_MEMORY (buffer));
      gpu_arguments_add_memory (back, GPU_MEMORY (buffer));
      gpu_arguments_add_address (back, gpu_memory_block_get_address (block));
      test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &items, NULL, to_block,
                                                   &error), error);
      test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &items, NULL, back,
                                                   &error), error);
      gpu_memory_pool_free_block (pool, block, fixture->stream, NULL);
    }

  bytes = test_content (buffer);
  values = g_bytes_get_data (bytes, NULL);
  for (guint i = 0; i < N; i++)
    g_assert_cmpint (values[i], ==, 200);
}

/* After a release, the address of a buffer is 0. Two objects for the same memory have the same
 * address. */
static void
address_lifetime (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 4096, 1);
  g_autoptr (GpuBuffer) wrapped = NULL;
  guint64 address = get_address (buffer);

  if (!can_follow (fixture))
    return;

  wrapped = gpu_buffer_new_wrapped (fixture->context,
                                    gpu_memory_get_native_handle (GPU_MEMORY (buffer)), 4096,
                                    GPU_WRAP_MODE_BORROW, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (get_address (wrapped), ==, address);
  g_clear_object (&wrapped);
  gpu_memory_release (GPU_MEMORY (buffer));
  g_assert_cmpuint (get_address (buffer), ==, 0);
}

static void
copy_int (TestFixture *fixture, GpuKernel *kernel, guint64 to, guint64 from)
{
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GError) error = NULL;

  gpu_arguments_add_address (arguments, to);
  gpu_arguments_add_address (arguments, from);
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &one, NULL, arguments,
                                               &error), error);
}

/* Kernels take addresses inside buffers and inside shared virtual memory. A kernel still
 * takes the address of a buffer after another object for the same memory was freed. */
static void
address_kinds (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 2 * sizeof (gint32), 0);
  g_autoptr (GpuBuffer) wrapped = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuSvm) svm = NULL;
  g_autoptr (GBytes) bytes = NULL;
  guint64 in_svm;

  if (!test_is_opencl (fixture))
    {
      g_test_skip ("only OpenCL has a function for each kind of address");
      return;
    }
  if (!can_follow (fixture) || !test_has (fixture, GPU_CAPABILITIES_SVM_COARSE))
    return;

  kernel = test_kernel (fixture, source, "copy");
  svm = gpu_svm_new (fixture->context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE, 4096, 0, &error);
  g_assert_no_error (error);
  in_svm = gpu_memory_get_device_address (GPU_MEMORY (svm)) + 100;
  wrapped = gpu_buffer_new_wrapped (fixture->context,
                                    gpu_memory_get_native_handle (GPU_MEMORY (buffer)),
                                    2 * sizeof (gint32), GPU_WRAP_MODE_BORROW, NULL, &error);
  g_assert_no_error (error);
  g_clear_object (&wrapped);

  copy_int (fixture, kernel, in_svm, get_address (buffer));
  copy_int (fixture, kernel, get_address (buffer) + sizeof (gint32), in_svm);
  bytes = test_content (buffer);
  g_assert_cmpint (((const gint32 *) g_bytes_get_data (bytes, NULL))[1], ==, 2);
}

/* If the driver reports no addresses, a launch with indirect memory is refused. */
static void
address_refused (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  const gint32 visits[N_NODES] = { 0 };
  List list;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE))
    return;
  if (has_addresses (fixture))
    {
      g_test_skip ("the driver reports addresses of buffers");
      return;
    }

  list_init (fixture, &list);
  g_assert_false (walk (fixture, &list, 0, FALSE, &error));
  test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "\"walk\"", "16 bytes",
                         gpu_device_get_id (fixture->device));
  check_list (fixture, &list, visits, 0);
  list_clear (&list);
}

/* --- under the layer -------------------------------------------------------------------------- */

static void
check_failure (TestFixture *fixture, List *list)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  gboolean found = FALSE;

  /* On a device with shared virtual memory, an earlier call is about that memory. */
  for (guint n = 1; n <= 2 && !found; n++)
    {
      g_autofree char *fail = g_strdup_printf ("fn=clSetKernelExecInfo,n=%u,code=-6", n);

      g_assert_true (GPUMEM_LAYER (set_fail) (fail));
      g_assert_false (walk (fixture, list, 0, FALSE, &error));
      found = strstr (error->message, "0x5002") != NULL;
      test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "clSetKernelExecInfo");
      g_clear_error (&error);
    }
  g_assert_true (found);

  g_assert_true (GPUMEM_LAYER (set_fail) ("fn=clCreateBufferWithProperties,n=1,code=-4"));
  buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, 1000, &error);
  g_assert_null (buffer);
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "clCreateBufferWithProperties",
                         "1000 bytes");
  g_clear_error (&error);

  g_assert_true (GPUMEM_LAYER (set_fail) ("fn=clGetMemObjectInfo,n=1,code=-6"));
  buffer = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, 1000, &error);
  g_assert_null (buffer);
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, "clGetMemObjectInfo");
  g_assert_true (GPUMEM_LAYER (set_fail) (NULL));
}

static guint64
find_address (GVariant *events, const char *wanted)
{
  for (gsize i = 0; i < g_variant_n_children (events); i++)
    {
      g_autoptr (GVariant) event = g_variant_get_child_value (events, i);
      const char *action;
      guint64 address;

      g_assert_true (g_variant_lookup (event, "action", "&s", &action));
      if (g_str_equal (action, wanted) && g_variant_lookup (event, "address", "t", &address))
        return address;
    }
  g_assert_not_reached ();
}

/* The history of a pool has the addresses of the buffers that the pool divides. The layer returns
 * buffers that do not start at a multiple of the pool's unit, so the first block of a buffer starts
 * behind the start of the buffer. */
static void
check_history (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_SEGMENTS,
                                                        GPU_MEMORY_FLAGS_NONE, &error);
  g_autoptr (GVariant) events = NULL;
  guint64 segment;

  g_assert_no_error (error);
  g_assert_true (gpu_memory_pool_set_history_size (pool, 100, NULL));
  gpu_memory_block_unref (gpu_memory_pool_alloc_block (pool, 1000, NULL, &error));
  g_assert_no_error (error);
  gpu_memory_pool_free_held (pool);
  events = gpu_memory_pool_get_history (pool);
  segment = find_address (events, "segment_alloc");
  g_assert_cmpuint (segment, <, find_address (events, "alloc"));
  g_assert_cmpuint (segment, ==, find_address (events, "segment_free"));
}

/* Before a pool allocates blocks on an out-of-order stream, it submits a barrier. If the driver
 * refuses that, the message names only the function that the program called. */
static void
check_barrier_messages (TestFixture *fixture)
{
  const gsize sizes[] = { 100, 1000 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new (fixture->context, GPU_MEMORY_POOL_SEGMENTS,
                                                        GPU_MEMORY_FLAGS_NONE, &error);
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_OUT_OF_ORDER);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 4096, 1);

  g_assert_no_error (error);
  test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, 4096, "", 1, &error), error);
  g_assert_true (GPUMEM_LAYER (set_fail) ("fn=clEnqueueBarrierWithWaitList,n=1,times=0,code=-5"));
  g_assert_null (gpu_memory_pool_alloc_blocks (pool, sizes, 2, stream, &error));
  g_assert_nonnull (error);
  g_test_message ("%s", error->message);
  g_assert_true (g_str_has_prefix (error->message,
                                   "gpu_memory_pool_alloc_blocks: clEnqueueBarrier"));
  g_clear_error (&error);
  g_assert_null (gpu_memory_pool_alloc_block_aligned (pool, 1000, 4096, stream, &error));
  g_assert_nonnull (error);
  g_assert_true (g_str_has_prefix (error->message,
                                   "gpu_memory_pool_alloc_block_aligned: clEnqueueBarrier"));
  g_assert_true (GPUMEM_LAYER (set_fail) (NULL));
}

/* Memory without an address, although the driver reports addresses of other buffers. */
static void
check_without_address (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) near_host = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_ALLOC_HOST,
                                                    4096, &error);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, 4096, 1);

  g_assert_no_error (error);
  g_assert_cmpuint (get_address (near_host), ==, 0);
  test_assert_ok (gpu_buffer_spill (buffer, NULL, &error), error);
  g_assert_cmpuint (get_address (buffer), ==, 0);
  test_assert_ok (gpu_buffer_unspill (buffer, NULL, &error), error);
  g_assert_cmpuint (get_address (buffer), !=, 0);
}

static void
address_layer (TestFixture *fixture)
{
  const gint32 visits[N_NODES] = { 1, 1, 1, 1 };
  g_autoptr (GError) error = NULL;
  List list;

  g_assert_true (has_addresses (fixture));
  address_follow (fixture);
  address_block (fixture);
  address_lifetime (fixture);
  address_kinds (fixture);
  check_history (fixture);
  check_barrier_messages (fixture);
  check_without_address (fixture);

  list_init (fixture, &list);
  check_failure (fixture, &list);
  test_assert_ok (walk (fixture, &list, 0, FALSE, &error), error);
  check_list (fixture, &list, visits, VALUE * 15);
  list_clear (&list);
}

static void
address_draft (TestFixture *fixture)
{
  g_assert_false (has_addresses (fixture));
  address_refused (fixture);
}

static void
run_under_layer (TestFixture *fixture, const char *version, const char *name)
{
  if (!test_is_opencl (fixture) || !test_is_pocl (fixture) || has_addresses (fixture))
    {
      g_test_skip ("the layer emulates addresses on PoCL without addresses");
      return;
    }

  g_setenv ("GPUMEM_LAYER_ADDRESSES", version, TRUE);
  test_run_under_layer (fixture, name);
  g_unsetenv ("GPUMEM_LAYER_ADDRESSES");
}

static void
address_run_layer (TestFixture *fixture)
{
  run_under_layer (fixture, "1.0.2", "layer");
}

/* PoCL 6 implements a draft of cl_ext_buffer_device_address, which the library must not use. */
static void
address_run_draft (TestFixture *fixture)
{
  run_under_layer (fixture, "0.9.1", "draft");
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("follow", address_follow);
  test_add ("block", address_block);
  test_add ("lifetime", address_lifetime);
  test_add ("kinds", address_kinds);
  test_add ("refused", address_refused);
  test_add ("layer", address_run_layer);
  test_add ("subprocess/layer", address_layer);
  test_add ("draft", address_run_draft);
  test_add ("subprocess/draft", address_draft);

  return test_run ();
}

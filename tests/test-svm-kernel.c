/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared virtual memory in kernels: as an argument, and through pointers stored in the memory. */
#include "config.h"

#include "test-util.h"

#define N_ITEMS 256
#define N_NODES 100
#define N_ROUNDS 30
#define N_LOST 1000

typedef struct _Node Node;

struct _Node
{
  Node   *next;
  gint32  value;
  gint32  visits;
};

static const char source[] =
  TEST_WALK_SOURCE
  "__kernel void add (__global int *to, __global const int *from, int n)\n"
  "{\n"
  "  int i = (int) get_global_id (0);\n"
  "  to[i] = to[i] + from[i] + n;\n"
  "}\n";

static const GpuExtent one = { 1, 1, 1 };
static const GpuExtent items = { N_ITEMS, 1, 1 };

static GpuSvm *
svm_new (TestFixture *fixture, gsize size)
{
  g_autoptr (GError) error = NULL;
  GpuSvm *svm = gpu_svm_new (fixture->context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE, size, 0,
                             &error);

  g_assert_no_error (error);
  return svm;
}

static GpuMapping *
map (GpuSvm *svm, GpuMapFlags flags)
{
  g_autoptr (GError) error = NULL;
  GpuMapping *mapping = gpu_svm_map (svm, NULL, flags, 0, gpu_memory_get_size (GPU_MEMORY (svm)),
                                     NULL, &error);

  g_assert_no_error (error);
  return mapping;
}

static GpuSvm *
ints_new (TestFixture *fixture, gint32 value)
{
  GpuSvm *svm = svm_new (fixture, N_ITEMS * sizeof (gint32));
  g_autoptr (GpuMapping) mapping = map (svm, GPU_MAP_FLAGS_WRITE_INVALIDATE);
  gint32 *data = gpu_mapping_get_data (mapping);

  for (guint i = 0; i < N_ITEMS; i++)
    data[i] = value;
  return svm;
}

static void
check_ints (GpuSvm *svm, gint32 value)
{
  g_autoptr (GpuMapping) mapping = map (svm, GPU_MAP_FLAGS_READ);
  const gint32 *data = gpu_mapping_get_data (mapping);

  for (guint i = 0; i < N_ITEMS; i++)
    g_assert_cmpint (data[i], ==, value);
}

static gint32
get_sum (TestFixture *fixture, GpuBuffer *sum)
{
  g_autoptr (GError) error = NULL;
  gint32 value = 0;

  test_assert_ok (gpu_buffer_read (sum, fixture->stream, 0, &value, sizeof value, NULL, &error),
                  error);
  return value;
}

static gboolean
runs (TestFixture *fixture)
{
  return test_has (fixture, GPU_CAPABILITIES_SVM_COARSE | GPU_CAPABILITIES_SOURCE);
}

/* --- arguments ------------------------------------------------------------------------ */

static void
kernel_argument (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuLaunch) launch = NULL;
  g_autoptr (GpuSvm) to = NULL;
  g_autoptr (GpuSvm) from = NULL;

  if (!runs (fixture))
    return;
  kernel = test_kernel (fixture, source, "add");
  to = ints_new (fixture, 1);
  from = ints_new (fixture, 10);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &items, NULL, &error, to, from, 100),
                  error);
  check_ints (to, 111);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (to));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (from));
  gpu_arguments_add_int (arguments, 1000);
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &items, NULL, arguments,
                                               &error), error);
  check_ints (to, 1121);
  launch = gpu_launch_new (kernel, &items, NULL, NULL, 0, GPU_LAUNCH_FLAGS_NONE, arguments, &error);
  g_assert_no_error (error);
  test_assert_ok (gpu_stream_launch_prepared (fixture->stream, launch, &error), error);
  check_ints (to, 2131);
}

/* The same argument is a buffer in one launch and SVM in the next launch. Each launch sees the
 * results of the earlier launches. */
static void
kernel_buffer_and_svm (TestFixture *fixture)
{
  const gsize size = N_ITEMS * sizeof (gint32);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuSvm) to = NULL;
  g_autoptr (GpuSvm) from = NULL;
  GpuStream *stream = fixture->stream;
  gint32 expected = 0;

  if (!runs (fixture))
    return;
  kernel = test_kernel (fixture, source, "add");
  to = ints_new (fixture, 0);
  from = ints_new (fixture, 3);
  buffer = test_buffer_filled (fixture, size, 0);
  for (gint32 i = 0; i < N_ROUNDS; i++)
    {
      test_assert_ok (gpu_stream_launch (stream, kernel, &items, NULL, &error, to, from, i),
                      error);
      test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (buffer), 0, GPU_MEMORY (to), 0, size,
                                       &error), error);
      test_assert_ok (gpu_stream_launch (stream, kernel, &items, NULL, &error, buffer, from, 1),
                      error);
      test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (to), 0, GPU_MEMORY (buffer), 0, size,
                                       &error), error);
      test_assert_ok (gpu_stream_launch (stream, kernel, &items, NULL, &error, to, buffer, 0),
                      error);
      test_assert_ok (gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, size, "",
                                       1, &error), error);
      expected = (expected + 3 + i + 4) * 2;
      if (i % 5 == 0)
        check_ints (to, expected);
      expected &= 0xffff;
      if (expected != 0)
        {
          g_autoptr (GpuMapping) mapping = map (to, GPU_MAP_FLAGS_WRITE);
          gint32 *data = gpu_mapping_get_data (mapping);

          for (guint j = 0; j < N_ITEMS; j++)
            data[j] &= 0xffff;
        }
    }
  check_ints (to, expected);
}

/* A mapping on any stream waits for the kernel. */
static void
kernel_map_waits (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuSvm) to = NULL;
  g_autoptr (GpuSvm) from = NULL;

  if (!runs (fixture))
    return;
  kernel = test_kernel (fixture, source, "add");
  to = ints_new (fixture, 0);
  from = ints_new (fixture, 1);
  for (gint32 i = 1; i <= N_ROUNDS; i++)
    {
      test_assert_ok (gpu_stream_launch (i % 2 ? stream : fixture->stream, kernel, &items, NULL,
                                         &error, to, from, 0), error);
      check_ints (to, i);
    }
}

/* Two streams read the same memory in turn. If only one stream at a time may use the memory, the
 * library hands it over between the streams even for reads. */
static void
kernel_readers (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuSvm) a = NULL;
  g_autoptr (GpuSvm) b = NULL;
  g_autoptr (GpuSvm) from = NULL;

  if (!runs (fixture))
    return;
  kernel = test_kernel (fixture, source, "add");
  a = ints_new (fixture, 0);
  b = ints_new (fixture, 0);
  from = ints_new (fixture, 1);
  for (gint32 i = 0; i < N_ROUNDS; i++)
    {
      test_assert_ok (gpu_stream_launch (stream, kernel, &items, NULL, &error, a, from, 0), error);
      test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &items, NULL, &error, b, from,
                                         1), error);
    }
  check_ints (a, N_ROUNDS);
  check_ints (b, 2 * N_ROUNDS);
}

/* --- pointers ------------------------------------------------------------------------- */

/* Puts the nodes into the memories in turn, and links each node to the next. Returns the first
 * node. */
static void
link_nodes (GpuSvm **svms, guint n_svms)
{
  Node *nodes[2] = { NULL, NULL };
  g_autoptr (GpuMapping) first = map (svms[0], GPU_MAP_FLAGS_WRITE_INVALIDATE);
  g_autoptr (GpuMapping) second = n_svms > 1 ? map (svms[1], GPU_MAP_FLAGS_WRITE_INVALIDATE)
                                             : NULL;

  nodes[0] = gpu_mapping_get_data (first);
  nodes[1] = second != NULL ? gpu_mapping_get_data (second) : NULL;
  for (guint i = 0; i < N_NODES; i++)
    {
      Node *node = &nodes[i % n_svms][i];

      node->next = i + 1 < N_NODES ? &nodes[(i + 1) % n_svms][i + 1] : NULL;
      node->value = (gint32) i;
      node->visits = 0;
    }
}

static void
kernel_list (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) sum = test_buffer_filled (fixture, sizeof (gint32), 0);
  g_autoptr (GpuMapping) mapping = NULL;
  g_autoptr (GpuSvm) svm = NULL;
  const Node *nodes;

  if (!runs (fixture))
    return;
  kernel = test_kernel (fixture, source, "walk");
  svm = svm_new (fixture, N_NODES * sizeof (Node));
  link_nodes (&svm, 1);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernel, &one, NULL, &error, svm, sum),
                  error);
  g_assert_cmpint (get_sum (fixture, sum), ==, N_NODES * (N_NODES - 1) / 2);
  mapping = map (svm, GPU_MAP_FLAGS_READ);
  nodes = gpu_mapping_get_data (mapping);
  for (guint i = 0; i < N_NODES; i++)
    g_assert_cmpint (nodes[i].visits, ==, 1);
}

static GpuArguments *
walk_arguments (GpuSvm *first, GpuSvm *second, GpuBuffer *sum)
{
  GpuArguments *arguments = gpu_arguments_new ();

  gpu_arguments_add_indirect (arguments, GPU_MEMORY (second));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (first));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (sum));
  g_assert_cmpuint (gpu_arguments_get_length (arguments), ==, 2);

  return arguments;
}

static void
kernel_indirect (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArguments) arguments = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) sum = test_buffer_filled (fixture, sizeof (gint32), 0);
  g_autoptr (GpuLaunch) launch = NULL;
  g_autoptr (GpuMapping) mapping = NULL;
  GpuSvm *svms[2];

  if (!runs (fixture))
    return;
  kernel = test_kernel (fixture, source, "walk");
  for (guint i = 0; i < 2; i++)
    svms[i] = svm_new (fixture, N_NODES * sizeof (Node));
  link_nodes (svms, 2);
  arguments = walk_arguments (svms[0], svms[1], sum);
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &one, NULL, arguments,
                                               &error), error);
  g_assert_cmpint (get_sum (fixture, sum), ==, N_NODES * (N_NODES - 1) / 2);
  launch = gpu_launch_new (kernel, &one, NULL, NULL, 0, GPU_LAUNCH_FLAGS_NONE, arguments, &error);
  g_assert_no_error (error);
  gpu_arguments_clear (arguments);
  g_clear_pointer (&arguments, gpu_arguments_unref);
  test_assert_ok (gpu_stream_launch_prepared (fixture->stream, launch, &error), error);

  /* The kernel also writes svms[1], which it reaches through pointers in svms[0]. The mapping of
   * svms[1] therefore waits for the kernel */
  mapping = map (svms[1], GPU_MAP_FLAGS_READ);
  for (guint i = 1; i < N_NODES; i += 2)
    g_assert_cmpint (((const Node *) gpu_mapping_get_data (mapping))[i].visits, ==, 2);
  g_assert_false (gpu_stream_launch_prepared (fixture->stream, launch, &error));
  test_assert_gpu_error (error, GPU_ERROR_BUSY, "mapped");
  g_clear_object (&mapping);
  gpu_memory_release (GPU_MEMORY (svms[1]));
  g_assert_false (gpu_stream_launch_prepared (fixture->stream, launch, &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED, "released");
  g_clear_pointer (&launch, gpu_launch_unref);
  for (guint i = 0; i < 2; i++)
    g_object_unref (svms[i]);
}

/* A pending launch keeps alive the memory that its kernel reaches through pointers. */
static void
kernel_launch_keeps_memory (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) sum = test_buffer_filled (fixture, sizeof (gint32), 0);
  g_autoptr (GpuBuffer) sums = test_buffer (fixture, N_LOST * sizeof (gint32));
  g_autoptr (GBytes) content = NULL;
  const gint32 *got;

  if (!runs (fixture))
    return;
  kernel = test_kernel (fixture, source, "walk");
  for (guint i = 0; i < N_LOST; i++)
    {
      g_autoptr (GpuSvm) first = svm_new (fixture, N_NODES * sizeof (Node));
      g_autoptr (GpuSvm) second = svm_new (fixture, N_NODES * sizeof (Node));
      g_autoptr (GpuArguments) arguments = walk_arguments (first, second, sum);
      GpuSvm *svms[] = { first, second };

      link_nodes (svms, 2);
      test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &one, NULL, arguments,
                                                   &error), error);
      test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (sums), i * sizeof (gint32),
                                       GPU_MEMORY (sum), 0, sizeof (gint32), &error), error);
      if (i % 2)
        gpu_memory_release (GPU_MEMORY (second));
    }
  content = test_content (sums);
  got = g_bytes_get_data (content, NULL);
  for (guint i = 0; i < N_LOST; i++)
    g_assert_cmpint (got[i], ==, N_NODES * (N_NODES - 1) / 2);
}

/* A launch waits for another stream's work on memory that is not one of its arguments. */
static void
kernel_indirect_ordered (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuStream) stream = test_stream (fixture, GPU_STREAM_FLAGS_NONE);
  g_autoptr (GpuBuffer) sum = test_buffer_filled (fixture, sizeof (gint32), 0);
  g_autoptr (GpuBuffer) nodes = test_buffer (fixture, N_NODES * sizeof (Node));
  g_autoptr (GpuKernel) kernel = NULL;
  GpuSvm *svms[2];

  if (!runs (fixture))
    return;
  kernel = test_kernel (fixture, source, "walk");
  for (guint i = 0; i < 2; i++)
    svms[i] = svm_new (fixture, N_NODES * sizeof (Node));
  for (guint i = 0; i < N_ROUNDS; i++)
    {
      g_autoptr (GpuArguments) arguments = walk_arguments (svms[0], svms[1], sum);
      GpuMemory *second = GPU_MEMORY (svms[1]);

      link_nodes (svms, 2);
      test_assert_ok (gpu_stream_copy (stream, GPU_MEMORY (nodes), 0, second, 0,
                                       N_NODES * sizeof (Node), &error), error);
      test_assert_ok (gpu_stream_fill (stream, second, 0, N_NODES * sizeof (Node),
                                       (const guint8 *) "", 1, &error), error);
      test_assert_ok (gpu_stream_copy (stream, second, 0, GPU_MEMORY (nodes), 0,
                                       N_NODES * sizeof (Node), &error), error);
      test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &one, NULL, arguments,
                                                   &error), error);
      g_assert_cmpint (get_sum (fixture, sum), ==, N_NODES * (N_NODES - 1) / 2);
    }
  for (guint i = 0; i < 2; i++)
    g_object_unref (svms[i]);
}

static void
kernel_invalid_indirect (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, N_ITEMS * sizeof (gint32));
  g_autoptr (GpuSvm) svm = NULL;
  gboolean can;

  if (!runs (fixture))
    return;
  kernel = test_kernel (fixture, source, "add");
  svm = ints_new (fixture, 0);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (svm));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (svm));
  gpu_arguments_add_int (arguments, 1);
  gpu_arguments_add_indirect (arguments, GPU_MEMORY (buffer));
  can = gpu_stream_launch_arguments (fixture->stream, kernel, &items, NULL, arguments, &error);
  g_assert_true (can == (gpu_memory_get_device_address (GPU_MEMORY (buffer)) != 0));
  if (!can)
    test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "add", "indirectly");
  check_ints (svm, can ? 1 : 0);
  gpu_memory_release (GPU_MEMORY (buffer));
  g_assert_false (gpu_stream_launch_arguments (fixture->stream, kernel, &items, NULL, arguments,
                                               &error));
  test_assert_gpu_error (error, GPU_ERROR_RELEASED);
}

/* Kernels cannot reach host-only memory, neither as an argument nor through a pointer. */
static void
kernel_host_refused (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GpuHostMemory) memory = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuSvm) svm = NULL;
  gboolean can;

  if (!runs (fixture))
    return;
  memory = gpu_host_memory_new_aligned (fixture->context, 0, N_ITEMS * sizeof (gint32), &error);
  g_assert_no_error (error);
  kernel = test_kernel (fixture, source, "add");
  svm = ints_new (fixture, 0);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (svm));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (svm));
  gpu_arguments_add_int (arguments, 1);
  gpu_arguments_add_indirect (arguments, GPU_MEMORY (memory));
  can = gpu_stream_launch_arguments (fixture->stream, kernel, &items, NULL, arguments, &error);
  g_assert_true (can == g_str_equal (gpu_device_get_backend (fixture->device), "host"));
  if (!can)
    test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "host memory");
  check_ints (svm, can ? 1 : 0);
}

/* A kernel may write all memory that it reaches through pointers. On a GPU, a write to read-only
 * memory would lose the context, so a launch refuses read-only memory as indirect memory. */
static void
kernel_read_only_refused (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GpuHostMemory) memory = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuSvm) svm = NULL;
  g_autoptr (GBytes) bytes = NULL;
  gpointer data;

  if (!runs (fixture))
    return;
  data = g_aligned_alloc0 (1, 4096, 4096);
  bytes = g_bytes_new_with_free_func (data, 4096, g_aligned_free, data);
  memory = gpu_host_memory_new_registered (fixture->context, GPU_HOST_MEMORY_FLAGS_READ_ONLY
                                           | GPU_HOST_MEMORY_FLAGS_MAPPED, bytes, &error);
  if (memory == NULL)
    {
      g_test_skip_printf ("kernels cannot access registered memory: %s", error->message);
      return;
    }
  kernel = test_kernel (fixture, source, "add");
  svm = ints_new (fixture, 0);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (svm));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (svm));
  gpu_arguments_add_int (arguments, 1);
  gpu_arguments_add_indirect (arguments, GPU_MEMORY (memory));
  g_assert_false (gpu_stream_launch_arguments (fixture->stream, kernel, &items, NULL, arguments,
                                               &error));
  if (test_is_opencl (fixture))
    test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "host memory");
  else
    test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "read only");
  check_ints (svm, 0);
}

static void
kernel_image_refused (TestFixture *fixture)
{
  const GpuExtent extent = { 4, 4, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  GpuImageFormat format = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_FLOAT32 };
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuImage) image = NULL;
  g_autoptr (GpuSvm) svm = NULL;

  if (!runs (fixture) || !test_has (fixture, GPU_CAPABILITIES_IMAGES))
    return;
  image = gpu_image_new (fixture->context, GPU_MEMORY_FLAGS_NONE, &format, GPU_IMAGE_TYPE_IMAGE_2D,
                         &extent, &error);
  g_assert_no_error (error);
  kernel = test_kernel (fixture, source, "add");
  svm = ints_new (fixture, 0);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (svm));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (svm));
  gpu_arguments_add_int (arguments, 1);
  gpu_arguments_add_indirect (arguments, GPU_MEMORY (image));
  g_assert_false (gpu_stream_launch_arguments (fixture->stream, kernel, &items, NULL, arguments,
                                               &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "image");
  g_assert_null (gpu_launch_new (kernel, &items, NULL, NULL, 0, GPU_LAUNCH_FLAGS_NONE, arguments,
                                 &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "image");
}

/* A kernel uses pageable host memory, as an argument and through a pointer. */
static void
kernel_system_memory (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) sum = test_buffer_filled (fixture, sizeof (gint32), 0);
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  g_autoptr (GpuKernel) kernel = NULL;
  g_autofree Node *nodes = g_new0 (Node, 2);
  g_autofree Node *last = g_new0 (Node, 1);
  GpuSvm *svms[2];

  if (!runs (fixture) || !test_has (fixture, GPU_CAPABILITIES_SVM_SYSTEM))
    return;
  for (guint i = 0; i < 2; i++)
    {
      gpointer data = i ? last : nodes;
      g_autoptr (GBytes) bytes = g_bytes_new_with_free_func (data, sizeof (Node) * (2 - i), NULL,
                                                             NULL);

      svms[i] = gpu_svm_new_for_bytes (fixture->context, GPU_MEMORY_FLAGS_NONE, bytes, &error);
      g_assert_no_error (error);
    }
  nodes[0] = (Node) { &nodes[1], 3, 0 };
  nodes[1] = (Node) { last, 4, 0 };
  last->value = 5;
  kernel = test_kernel (fixture, source, "walk");
  gpu_arguments_add_memory (arguments, GPU_MEMORY (svms[0]));
  gpu_arguments_add_memory (arguments, GPU_MEMORY (sum));
  gpu_arguments_add_indirect (arguments, GPU_MEMORY (svms[1]));
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, kernel, &one, NULL, arguments,
                                               &error), error);
  g_assert_cmpint (get_sum (fixture, sum), ==, 12);
  g_assert_cmpint (last->visits, ==, 1);
  gpu_arguments_clear (arguments);
  for (guint i = 0; i < 2; i++)
    g_object_unref (svms[i]);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("argument", kernel_argument);
  test_add ("buffer-and-svm", kernel_buffer_and_svm);
  test_add ("map-waits", kernel_map_waits);
  test_add ("readers", kernel_readers);
  test_add ("list", kernel_list);
  test_add ("indirect", kernel_indirect);
  test_add ("launch-keeps-memory", kernel_launch_keeps_memory);
  test_add ("indirect-ordered", kernel_indirect_ordered);
  test_add ("invalid-indirect", kernel_invalid_indirect);
  test_add ("host-refused", kernel_host_refused);
  test_add ("read-only-refused", kernel_read_only_refused);
  test_add ("image-refused", kernel_image_refused);
  test_add ("system-memory", kernel_system_memory);

  return test_run ();
}

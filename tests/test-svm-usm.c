/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Unified shared memory of each kind that the device supports. */
#include "config.h"

#include "test-allocator-util.h"
#include "test-svm-util.h"

#define N    256
#define SIZE (N * sizeof (gint32))

static const char source[] =
  "__kernel void add (__global int *to, __global const int *from, int n)\n"
  "{\n"
  "  int i = (int) get_global_id (0);\n"
  "  to[i] = to[i] + from[i] + n;\n"
  "}\n"
  "__kernel void put (__global ulong *box, __global int *address)\n"
  "{\n"
  "  box[0] = (ulong) address;\n"
  "}\n"
  "__kernel void follow (__global const ulong *box, int n)\n"
  "{\n"
  "  __global int *to = (__global int *) box[0];\n"
  "  to[get_global_id (0)] += n;\n"
  "}\n";

static const struct
{
  GpuSvmFlags  flags;
  const char  *nick;
  const char  *attribute;
} kinds[] =
{
  { GPU_SVM_FLAGS_USM_DEVICE, "usm-device", "device-mem-capabilities-intel" },
  { GPU_SVM_FLAGS_USM_HOST, "usm-host", "host-mem-capabilities-intel" },
  { GPU_SVM_FLAGS_USM_SHARED, "usm-shared", "single-device-shared-mem-capabilities-intel" }
};

static const GpuExtent one = { 1, 1, 1 };
static const GpuExtent items = { N, 1, 1 };

/* Returns whether the device supports the kind. If it does not, checks that an allocation fails. */
static gboolean
has_kind (TestFixture *fixture, guint i)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) attributes = gpu_device_get_attributes (fixture->device, &error);
  g_autoptr (GpuSvm) svm = NULL;
  g_autofree const char **names = NULL;

  g_assert_no_error (error);

  if (g_variant_lookup (attributes, kinds[i].attribute, "^a&s", &names)
      && g_strv_contains (names, "access"))
    return TRUE;

  svm = gpu_svm_new (fixture->context, GPU_MEMORY_FLAGS_NONE, kinds[i].flags, SIZE, 0, &error);
  g_assert_null (svm);

  if (gpu_device_get_capabilities (fixture->device) & GPU_CAPABILITIES_SVM_COARSE)
    test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_svm_new", kinds[i].nick);
  else
    test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_svm_new");

  return FALSE;
}

static void
run_each (TestFixture *fixture, void (*run) (TestFixture *fixture, guint kind))
{
  gboolean any = FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      if (!has_kind (fixture, i))
        continue;

      any = TRUE;
      run (fixture, i);
    }

  if (!any)
    g_test_skip ("the device has no unified shared memory");
}

/* Reads the memory on a stream of its context. The library orders the read after all other work on
 * the memory. */
static void
read_all (GpuMemory *memory, gpointer data)
{
  GpuContext *context = gpu_memory_get_context (memory);
  g_autoptr (GpuStream) stream = gpu_context_get_default_stream (context);
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_read (stream, memory, 0, data, SIZE, &error), error);
  test_assert_ok (gpu_stream_synchronize (stream, NULL, &error), error);
}

static void
check_ints (GpuMemory *memory, gint32 value)
{
  gint32 data[N];

  read_all (memory, data);

  for (guint i = 0; i < N; i++)
    g_assert_cmpint (data[i], ==, value);
}

static void
fill_ints (TestFixture *fixture, GpuMemory *memory, gint32 value)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_fill (fixture->stream, memory, 0, SIZE, &value,
                                   sizeof value, &error), error);
}

/* --- copies and fills ------------------------------------------------------------------------- */

static void
check_copies (TestFixture *fixture, guint kind)
{
  static const guint8 three[] = { 1, 2, 3 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuSvm) a = test_svm (fixture, kinds[kind].flags, SIZE);
  g_autoptr (GpuSvm) b = test_svm (fixture, kinds[kind].flags, SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer_filled (fixture, SIZE, 0);
  g_autoptr (GpuBuffer) part = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  g_autoptr (GVariant) attributes = gpu_memory_get_attributes (GPU_MEMORY (a), &error);
  const guint8 *expected = g_bytes_get_data (bytes, NULL);
  const char *type = NULL;
  guint8 got[SIZE];

  g_assert_no_error (error);
  g_assert_true (g_variant_lookup (attributes, "usm-type", "&s", &type));
  g_assert_cmpstr (type, ==, kinds[kind].nick);
  g_assert_true ((test_get_number (a, "svm-flags") & kinds[kind].flags) != 0);
  g_assert_cmpuint (gpu_memory_get_device_address (GPU_MEMORY (a)), !=, 0);
  g_assert_cmpuint (gpu_memory_get_native_handle (GPU_MEMORY (a)), ==,
                    gpu_memory_get_device_address (GPU_MEMORY (a)));

  fill_ints (fixture, GPU_MEMORY (a), 0x01020304);
  check_ints (GPU_MEMORY (a), 0x01020304);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (buffer), 0, GPU_MEMORY (a), 0, SIZE,
                                   &error), error);
  check_ints (GPU_MEMORY (buffer), 0x01020304);
  test_assert_ok (gpu_stream_write (fixture->stream, GPU_MEMORY (buffer), 0, bytes, &error), error);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (b), 0, GPU_MEMORY (buffer), 0, SIZE,
                                   &error), error);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (a), 0, GPU_MEMORY (b), 0, SIZE,
                                   &error), error);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (a), 512, GPU_MEMORY (a), 0, 256,
                                   &error), error);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (a), 300, 99, three, 3, &error),
                  error);
  part = gpu_buffer_new_for_memory (GPU_MEMORY (a), 512, 512, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_get_device_address (GPU_MEMORY (part)), ==,
                    gpu_memory_get_device_address (GPU_MEMORY (a)) + 512);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (part), 500, 12,
                                   (const guint8 *) "x", 1, &error), error);
  read_all (GPU_MEMORY (a), got);
  test_assert_mem (got, expected, 300);
  for (guint i = 0; i < 99; i++)
    g_assert_cmpuint (got[300 + i], ==, three[i % 3]);
  test_assert_mem (got + 399, expected + 399, 512 - 399);
  test_assert_mem (got + 512, expected, 256);
  test_assert_mem (got + 768, expected + 768, 244);
  test_assert_value (got + 1012, 'x', 12);
}

static void
usm_copies (TestFixture *fixture)
{
  run_each (fixture, check_copies);
}

static void
check_region (TestFixture *fixture, GpuMemory *to, GpuMemory *from)
{
  const GpuExtent extent = { 10, 4, 2 };
  const GpuLayout to_layout = { .x = 64, .row_pitch = 32, .slice_pitch = 32 * 8 };
  const GpuLayout from_layout = { .x = 128, .row_pitch = 48, .slice_pitch = 48 * 4 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = test_random_bytes (SIZE);
  const guint8 *expected = g_bytes_get_data (bytes, NULL);
  guint8 got[SIZE];

  fill_ints (fixture, to, 0x05050505);
  test_assert_ok (gpu_stream_write (fixture->stream, from, 0, bytes, &error), error);
  test_assert_ok (gpu_stream_copy_region (fixture->stream, to, &to_layout, from, &from_layout,
                                          &extent, &error), error);
  read_all (to, got);

  for (gsize z = 0; z < extent.depth; z++)
    for (gsize y = 0; y < extent.height; y++)
      {
        const guint8 *row = got + 64 + z * 256 + y * 32;

        test_assert_mem (row, expected + 128 + z * 192 + y * 48, 10);
        test_assert_value (row + 10, 5, 22);
      }
}

static void
check_regions (TestFixture *fixture, guint kind)
{
  g_autoptr (GpuSvm) a = test_svm (fixture, kinds[kind].flags, SIZE);
  g_autoptr (GpuSvm) b = test_svm (fixture, kinds[kind].flags, SIZE);
  g_autoptr (GpuBuffer) buffer = test_buffer (fixture, SIZE);

  check_region (fixture, GPU_MEMORY (a), GPU_MEMORY (b));
  check_region (fixture, GPU_MEMORY (buffer), GPU_MEMORY (b));
  check_region (fixture, GPU_MEMORY (a), GPU_MEMORY (buffer));
}

static void
usm_regions (TestFixture *fixture)
{
  run_each (fixture, check_regions);
}

/* Copies to another context and back. */
static void
check_other_context (TestFixture *fixture, guint kind)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) host = gpu_device_find ("host", &error);
  g_autoptr (GpuContext) context = gpu_context_new (host, GPU_CONTEXT_FLAGS_NONE, &error);
  g_autoptr (GpuBuffer) other = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_autoptr (GpuSvm) from = test_svm (fixture, kinds[kind].flags, SIZE);
  g_autoptr (GpuSvm) to = test_svm (fixture, kinds[kind].flags, SIZE);

  g_assert_no_error (error);
  fill_ints (fixture, GPU_MEMORY (from), 77);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (other), 0, GPU_MEMORY (from), 0,
                                   SIZE, &error), error);
  check_ints (GPU_MEMORY (other), 77);
  test_assert_ok (gpu_stream_copy (fixture->stream, GPU_MEMORY (to), 0, GPU_MEMORY (other), 0, SIZE,
                                   &error), error);
  check_ints (GPU_MEMORY (to), 77);
}

static void
usm_other_context (TestFixture *fixture)
{
  run_each (fixture, check_other_context);
}

/* --- mappings --------------------------------------------------------------------------------- */

static void
check_map (TestFixture *fixture, guint kind)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuSvm) svm = test_svm (fixture, kinds[kind].flags, SIZE);
  g_autoptr (GpuMapping) mapping = NULL;

  fill_ints (fixture, GPU_MEMORY (svm), 4);

  if (kinds[kind].flags == GPU_SVM_FLAGS_USM_DEVICE)
    {
      g_assert_null (gpu_svm_get_data (svm));
      g_assert_null (gpu_svm_map (svm, NULL, GPU_MAP_FLAGS_READ, 0, SIZE, NULL, &error));
      test_assert_gpu_error (error, GPU_ERROR_NOT_SUPPORTED, "gpu_svm_map", "cannot access",
                             "gpu_stream_read");
      check_ints (GPU_MEMORY (svm), 4);
      return;
    }

  mapping = test_svm_map (svm, GPU_MAP_FLAGS_READ | GPU_MAP_FLAGS_WRITE, 4, SIZE - 4);
  g_assert_cmpuint ((guintptr) gpu_mapping_get_data (mapping), ==,
                    gpu_memory_get_device_address (GPU_MEMORY (svm)) + 4);
  for (guint i = 0; i < N - 1; i++)
    {
      gint32 *data = gpu_mapping_get_data (mapping);

      g_assert_cmpint (data[i], ==, 4);
      data[i] = 5;
    }
  test_assert_ok (gpu_mapping_unmap (mapping, &error), error);
  fill_ints (fixture, GPU_MEMORY (svm), 6);
  check_ints (GPU_MEMORY (svm), 6);
}

static void
usm_map (TestFixture *fixture)
{
  run_each (fixture, check_map);
}

/* --- kernels ---------------------------------------------------------------------------------- */

/* The memory that a kernel reaches through pointers may be a part of an allocation, as in pools. */
static void
check_follow (TestFixture *fixture, GpuMemory *target)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) put = test_kernel (fixture, source, "put");
  g_autoptr (GpuKernel) follow = test_kernel (fixture, source, "follow");
  g_autoptr (GpuBuffer) box = test_buffer (fixture, 8);
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  guint64 address = 0;

  fill_ints (fixture, target, 40);
  test_assert_ok (gpu_stream_launch (fixture->stream, put, &one, NULL, &error, box, target), error);
  test_assert_ok (gpu_buffer_read (box, fixture->stream, 0, &address, 8, NULL, &error), error);
  g_assert_cmpuint (address, ==, gpu_memory_get_device_address (target));
  gpu_arguments_add_indirect (arguments, target);
  gpu_arguments_add_memory (arguments, GPU_MEMORY (box));
  gpu_arguments_add_int (arguments, 2);
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, follow, &items, NULL, arguments,
                                               &error), error);
  check_ints (target, 42);
}

static void
check_kernels (TestFixture *fixture, guint kind)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) add = test_kernel (fixture, source, "add");
  g_autoptr (GpuSvm) to = test_svm (fixture, kinds[kind].flags, 2 * SIZE);
  g_autoptr (GpuSvm) from = test_svm (fixture, kinds[kind].flags, SIZE);
  g_autoptr (GpuBuffer) part = gpu_buffer_new_for_memory (GPU_MEMORY (to), SIZE, SIZE, &error);
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();

  g_assert_no_error (error);
  fill_ints (fixture, GPU_MEMORY (to), 1);
  fill_ints (fixture, GPU_MEMORY (part), 2);
  fill_ints (fixture, GPU_MEMORY (from), 10);
  test_assert_ok (gpu_stream_launch (fixture->stream, add, &items, NULL, &error, to, from, 100),
                  error);
  test_assert_ok (gpu_stream_launch (fixture->stream, add, &items, NULL, &error, part, to, 0),
                  error);
  gpu_arguments_add_address (arguments, gpu_memory_get_device_address (GPU_MEMORY (to)));
  gpu_arguments_add_address (arguments, gpu_memory_get_device_address (GPU_MEMORY (part)));
  gpu_arguments_add_int (arguments, 1000);
  test_assert_ok (gpu_stream_launch_arguments (fixture->stream, add, &items, NULL, arguments,
                                               &error), error);
  test_synchronize (fixture->stream);
  check_ints (GPU_MEMORY (to), 111 + 113 + 1000);
  check_ints (GPU_MEMORY (part), 113);
  check_follow (fixture, GPU_MEMORY (to));
  check_follow (fixture, GPU_MEMORY (part));
}

static void
usm_kernels (TestFixture *fixture)
{
  run_each (fixture, check_kernels);
}

/* --- pools ------------------------------------------------------------------------------------ */

static void
check_pools (TestFixture *fixture, guint kind)
{
  for (guint i = GPU_MEMORY_POOL_SEGMENTS; i <= GPU_MEMORY_POOL_BINS; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GpuAllocator) allocator = NULL;
      g_autoptr (GpuMemoryPool) pool = NULL;
      g_autoptr (GpuKernel) add = test_kernel (fixture, source, "add");
      g_autoptr (GpuSvm) to = NULL;
      g_autoptr (GpuSvm) from = NULL;

      if (i == GPU_MEMORY_POOL_EXPANDABLE)
        continue;

      allocator = GPU_ALLOCATOR (gpu_svm_allocator_new (fixture->context, GPU_MEMORY_FLAGS_NONE,
                                                        kinds[kind].flags, 0, NULL,
                                                        &error));
      g_assert_no_error (error);
      pool = g_initable_new (GPU_TYPE_MEMORY_POOL, NULL, &error, "context", fixture->context,
                             "allocator", allocator, "kind", i, NULL);
      g_assert_no_error (error);
      to = gpu_memory_pool_alloc_svm (pool, SIZE, fixture->stream, &error);
      g_assert_no_error (error);
      from = gpu_memory_pool_alloc_svm (pool, SIZE, fixture->stream, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (gpu_memory_get_device_address (GPU_MEMORY (to)), !=, 0);
      g_assert_cmpuint (gpu_memory_get_device_address (GPU_MEMORY (to)), !=,
                        gpu_memory_get_device_address (GPU_MEMORY (from)));
      fill_ints (fixture, GPU_MEMORY (to), 1);
      fill_ints (fixture, GPU_MEMORY (from), 10);
      test_assert_ok (gpu_stream_launch (fixture->stream, add, &items, NULL, &error, to, from, 100),
                      error);
      check_ints (GPU_MEMORY (to), 111);
      check_ints (GPU_MEMORY (from), 10);
    }
}

static void
usm_pools (TestFixture *fixture)
{
  run_each (fixture, check_pools);
}

/* --- release ---------------------------------------------------------------------------------- */

/* Releases memory while work is pending. The work must still have the right result. */
static void
check_release (TestFixture *fixture, guint kind)
{
  gsize before = gpu_context_get_allocated_size (fixture->context);
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuKernel) add = test_kernel (fixture, source, "add");
  g_autoptr (GpuBuffer) sum = test_buffer_filled (fixture, SIZE, 0);
  GpuSvm *svm = test_svm (fixture, kinds[kind].flags, SIZE);
  TestHold *hold;

  fill_ints (fixture, GPU_MEMORY (svm), 3);
  test_synchronize (fixture->stream);
  hold = test_hold (fixture->stream);
  test_assert_ok (gpu_stream_launch (fixture->stream, add, &items, NULL, &error, sum, svm, 1),
                  error);
  gpu_memory_release (GPU_MEMORY (svm));
  g_object_unref (svm);
  test_hold_release (hold);
  check_ints (GPU_MEMORY (sum), 4);
  test_hold_free (hold);
  test_synchronize (fixture->stream);
  /* Another thread may still be releasing the memory. */
  test_poll (gpu_context_get_allocated_size (fixture->context) == before + SIZE);
}

static void
usm_release (TestFixture *fixture)
{
  if (test_can_hold (fixture))
    run_each (fixture, check_release);
}

static void
check_errors (TestFixture *fixture, guint kind)
{
  const GpuSvmFlags both = kinds[kind].flags | GPU_SVM_FLAGS_FINE_GRAIN;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuSvm) aligned = NULL;

  g_assert_null (gpu_svm_new (fixture->context, GPU_MEMORY_FLAGS_NONE, both, SIZE, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_INVALID_ARGUMENT, "gpu_svm_new", kinds[kind].nick);
  g_assert_null (gpu_svm_new (fixture->context, GPU_MEMORY_FLAGS_NONE, kinds[kind].flags,
                              (gsize) 1 << 60, 0, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "1152921504606846976");
  aligned = gpu_svm_new (fixture->context, GPU_MEMORY_FLAGS_NONE, kinds[kind].flags, SIZE, 1 << 16,
                         &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gpu_memory_get_device_address (GPU_MEMORY (aligned)) % (1 << 16), ==, 0);
  fill_ints (fixture, GPU_MEMORY (aligned), 8);
  check_ints (GPU_MEMORY (aligned), 8);
}

static void
usm_errors (TestFixture *fixture)
{
  run_each (fixture, check_errors);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("copies", usm_copies);
  test_add ("regions", usm_regions);
  test_add ("other-context", usm_other_context);
  test_add ("map", usm_map);
  test_add ("kernels", usm_kernels);
  test_add ("pools", usm_pools);
  test_add ("release", usm_release);
  test_add ("errors", usm_errors);

  return test_run ();
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Kernel arguments that are memory objects in some launches and pointers in others. NVIDIA's driver
 * rejects such launches of one cl_kernel, so on that driver the library creates a second cl_kernel,
 * which takes the pointers. The OpenCL layer counts the cl_kernels. */
#include "config.h"

#include "gpumem/device/gpu-device-private.h"
#include "opencl-layer/gpumem-layer.h"
#include "test-svm-util.h"

#define N    256
#define SIZE (N * sizeof (gint32))

static const char source[] =
  "__kernel void add (__global int *to, __global const int *from, int n)\n"
  "{\n"
  "  int i = (int) get_global_id (0);\n"
  "  to[i] = to[i] + from[i] + n;\n"
  "}\n";

typedef struct
{
  TestFixture *fixture;
  GpuKernel   *kernel;
  GpuBuffer   *buffer;              /* filled with 1, only read */
  GpuBuffer   *sum;
  GpuSvm      *svm;                 /* filled with 1, passed as a pointer */
  GpuSvm      *svm_sum;
} Memories;

static gboolean
launch (Memories *memories, gboolean to_pointer, gboolean from_pointer, GError **error)
{
  const GpuExtent items = { N, 1, 1 };
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();

  if (to_pointer)
    gpu_arguments_add_address (arguments,
                               gpu_memory_get_device_address (GPU_MEMORY (memories->svm_sum)));
  else
    gpu_arguments_add_memory (arguments, GPU_MEMORY (memories->sum));
  if (from_pointer)
    gpu_arguments_add_address (arguments,
                               gpu_memory_get_device_address (GPU_MEMORY (memories->svm)));
  else
    gpu_arguments_add_memory (arguments, GPU_MEMORY (memories->buffer));
  gpu_arguments_add_int (arguments, 0);

  return gpu_stream_launch_arguments (memories->fixture->stream, memories->kernel, &items, NULL,
                                      arguments, error);
}

static void
check_launch (Memories *memories, gboolean to_pointer, gboolean from_pointer, guint n_created)
{
  g_autoptr (GError) error = NULL;
  guint64 before = GPUMEM_LAYER (get_count) ("clCreateKernel");

  test_assert_ok (launch (memories, to_pointer, from_pointer, &error), error);
  g_assert_cmpuint (GPUMEM_LAYER (get_count) ("clCreateKernel"), ==, before + n_created);
  g_assert_cmpuint (GPUMEM_LAYER (get_live) ("kernel"), <=, 2);
}

/* Checks that the library uses two cl_kernels: one for memory objects, and one for pointers. */
static void
check_kernels (Memories *memories)
{
  check_launch (memories, FALSE, FALSE, 0);
  g_assert_cmpuint (GPUMEM_LAYER (get_live) ("kernel"), ==, 1);
  for (guint i = 0; i < 3; i++)
    {
      check_launch (memories, FALSE, TRUE, i == 0);
      check_launch (memories, FALSE, FALSE, 0);
    }
  check_launch (memories, TRUE, FALSE, 1);
  check_launch (memories, TRUE, TRUE, 1);
  check_launch (memories, TRUE, TRUE, 0);
  g_assert_cmpuint (GPUMEM_LAYER (get_live) ("kernel"), ==, 2);
}

/* If the library cannot create the second cl_kernel, the one for pointers, only the launch that
 * needs that cl_kernel fails. */
static void
check_failure (Memories *memories, const char *function)
{
  g_autofree char *spec = g_strdup_printf ("fn=%s,n=1,code=-6", function);
  g_autoptr (GError) error = NULL;

  g_assert_true (GPUMEM_LAYER (set_fail) (spec));
  g_assert_false (launch (memories, FALSE, TRUE, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_HOST_MEMORY, function, "add");
  g_assert_true (GPUMEM_LAYER (set_fail) (NULL));
  g_assert_cmpuint (GPUMEM_LAYER (get_live) ("kernel"), ==, 1);
  check_launch (memories, FALSE, FALSE, 0);
  check_launch (memories, FALSE, TRUE, 1);
  check_launch (memories, TRUE, FALSE, 1);
}

static void
pointers_nvidia (TestFixture *fixture)
{
  GpuNativeDevice *device = _gpu_device_get_native (fixture->device);
  char *platform = device->platform;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuBuffer) sum = NULL;
  g_autoptr (GpuSvm) svm = NULL;
  g_autoptr (GpuSvm) svm_sum = NULL;
  g_autoptr (GBytes) content = NULL;
  Memories memories;

  if (!test_is_opencl (fixture) || gpumem_layer_symbol ("gpumem_layer_get_live") == NULL)
    {
      g_test_skip ("runs in a process of its own, on OpenCL under the layer");
      return;
    }

  kernel = test_kernel (fixture, source, "add");
  buffer = test_buffer_filled (fixture, SIZE, 1);
  sum = test_buffer_filled (fixture, SIZE, 0);
  svm = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  svm_sum = test_svm (fixture, GPU_SVM_FLAGS_NONE, SIZE);
  test_svm_set (svm, 0, SIZE, 1);
  test_svm_set (svm_sum, 0, SIZE, 0);
  memories = (Memories) { fixture, kernel, buffer, sum, svm, svm_sum };

  device->platform = (char *) "NVIDIA CUDA";
  check_kernels (&memories);
  check_failure (&memories, "clCreateKernel");
  check_failure (&memories, "clGetKernelInfo");
  device->platform = platform;

  /* Each successful launch has added 1 */
  test_synchronize (fixture->stream);
  content = test_content (sum);
  test_assert_value (g_bytes_get_data (content, NULL), 11, SIZE);
  test_svm_check (svm_sum, 0, SIZE, 5);
}

static void
pointers_run_nvidia (TestFixture *fixture)
{
  if (test_is_opencl (fixture) && !test_has_svm (fixture))
    return;
  test_run_under_layer (fixture, "nvidia");
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("nvidia", pointers_run_nvidia);
  test_add ("subprocess/nvidia", pointers_nvidia);
  return test_run ();
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Compares the tables that map driver codes to errors with the expected errors, and with the codes
 * of the OpenCL specification. A build-time check compares the codes of CUDA with cuda.h. */
#include "config.h"

#include "test-util.h"

#ifdef HAVE_OPENCL

#include "gpumem/opencl/driver/gpu-opencl.h"

static void
error_table_rows (void)
{
  g_autoptr (GHashTable) codes = g_hash_table_new (NULL, NULL);
  g_autoptr (GHashTable) names = g_hash_table_new (g_str_hash, g_str_equal);
  guint n = 0;

  for (const GpuOpenclErrorEntry *entry = _gpu_opencl_error_table; entry->name != NULL; entry++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *number = g_strdup_printf ("(%d)", entry->code);

      g_assert_true (g_hash_table_add (codes, GINT_TO_POINTER (entry->code)));
      g_assert_true (g_hash_table_add (names, (gpointer) entry->name));
      g_assert_cmpint (entry->code, <=, 0);
      g_assert_cmpint (entry->error, <=, GPU_ERROR_IPC);
      g_assert_cmpstr (_gpu_opencl_error_name (entry->code), ==, entry->name);
      g_assert_cmpint (_gpu_opencl_error_map (entry->code), ==, entry->error);

      _gpu_opencl_set_error (&error, "clDoSomething", entry->code, "%d apples", 7);
      test_assert_gpu_error (error, entry->error, "clDoSomething", entry->name, number,
                             "7 apples");
      n++;
    }
  g_assert_cmpuint (n, >=, 60);
}

/* Checks that the table has all codes of the core of OpenCL 3.0. */
static void
error_table_complete (void)
{
  for (int code = CL_MAX_SIZE_RESTRICTION_EXCEEDED; code <= CL_SUCCESS; code++)
    {
      if (code < CL_KERNEL_ARG_INFO_NOT_AVAILABLE && code > CL_INVALID_VALUE)
        continue;
      if (!g_str_has_prefix (_gpu_opencl_error_name (code), "CL_"))
        g_error ("code %d has no name", code);
    }
  g_assert_cmpstr (_gpu_opencl_error_name (CL_PLATFORM_NOT_FOUND_KHR), ==,
                   "CL_PLATFORM_NOT_FOUND_KHR");
}

static void
error_table_meanings (void)
{
  static const struct
  {
    cl_int   code;
    GpuError error;
  } rows[] = {
    { CL_MEM_OBJECT_ALLOCATION_FAILURE, GPU_ERROR_OUT_OF_DEVICE_MEMORY },
    { CL_OUT_OF_RESOURCES, GPU_ERROR_OUT_OF_DEVICE_MEMORY },
    { CL_OUT_OF_HOST_MEMORY, GPU_ERROR_OUT_OF_HOST_MEMORY },
    { CL_BUILD_PROGRAM_FAILURE, GPU_ERROR_BUILD_FAILED },
    { CL_DEVICE_NOT_AVAILABLE, GPU_ERROR_DEVICE_LOST },
    { CL_DEVICE_NOT_FOUND, GPU_ERROR_NO_DEVICE },
    { CL_PLATFORM_NOT_FOUND_KHR, GPU_ERROR_NO_DEVICE },
    { CL_INVALID_VALUE, GPU_ERROR_INVALID_ARGUMENT },
    { CL_MEM_COPY_OVERLAP, GPU_ERROR_INVALID_ARGUMENT },
    { CL_COMPILER_NOT_AVAILABLE, GPU_ERROR_NOT_SUPPORTED },
    { -123456, GPU_ERROR_FAILED },
  };
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    g_assert_cmpint (_gpu_opencl_error_map (rows[i].code), ==, rows[i].error);
  _gpu_opencl_set_error (&error, "clDoSomething", -123456, "what");
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "-123456");
}

#endif

#ifdef HAVE_CUDA

#include "gpumem/cuda/core/gpu-cuda.h"

static void
error_table_cuda_rows (void)
{
  g_autoptr (GHashTable) names = g_hash_table_new (g_str_hash, g_str_equal);
  const GpuCudaErrorEntry *previous = NULL;
  guint n = 0;

  for (const GpuCudaErrorEntry *entry = _gpu_cuda_error_table; entry->name != NULL; entry++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *number = g_strdup_printf ("(%u)", entry->code);

      g_assert_true (previous == NULL || entry->code > previous->code);
      g_assert_true (g_hash_table_add (names, (gpointer) entry->name));
      g_assert_true (g_str_has_prefix (entry->name, "CUDA_"));
      g_assert_cmpint (entry->error, <=, GPU_ERROR_IPC);
      g_assert_cmpstr (_gpu_cuda_error_name (entry->code), ==, entry->name);
      g_assert_cmpint (_gpu_cuda_error_map (entry->code), ==, entry->error);

      _gpu_cuda_set_error (&error, "cuDoSomething", entry->code, "%d pears", 7);
      test_assert_gpu_error (error, entry->error, "cuDoSomething", entry->name, number, "7 pears");

      g_assert_cmpint (_gpu_cuda_check (entry->code, "cuDoSomething", &error), ==,
                       entry->code == CUDA_SUCCESS);
      if (entry->code != CUDA_SUCCESS)
        test_assert_gpu_error (error, entry->error, "cuDoSomething", entry->name, number);
      g_assert_no_error (error);
      previous = entry;
      n++;
    }
  g_assert_cmpuint (n, >=, 90);
}

static void
error_table_cuda_meanings (void)
{
  static const struct
  {
    CUresult code;
    GpuError error;
  } rows[] = {
    { CUDA_ERROR_OUT_OF_MEMORY, GPU_ERROR_OUT_OF_DEVICE_MEMORY },
    { CUDA_ERROR_INVALID_VALUE, GPU_ERROR_INVALID_ARGUMENT },
    { CUDA_ERROR_NO_DEVICE, GPU_ERROR_NO_DEVICE },
    { CUDA_ERROR_STUB_LIBRARY, GPU_ERROR_NO_DEVICE },
    { CUDA_ERROR_INVALID_PTX, GPU_ERROR_BUILD_FAILED },
    { CUDA_ERROR_NO_BINARY_FOR_GPU, GPU_ERROR_BUILD_FAILED },
    { CUDA_ERROR_NOT_SUPPORTED, GPU_ERROR_NOT_SUPPORTED },
    { CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, GPU_ERROR_BUSY },
    { CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, GPU_ERROR_INVALID_ARGUMENT },
    { CUDA_ERROR_DEVICE_UNAVAILABLE, GPU_ERROR_BUSY },
    { CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, GPU_ERROR_LAUNCH_FAILED },
    /* After these codes the driver returns the same error for every call in the context. */
    { CUDA_ERROR_ECC_UNCORRECTABLE, GPU_ERROR_DEVICE_LOST },
    { CUDA_ERROR_ILLEGAL_ADDRESS, GPU_ERROR_DEVICE_LOST },
    { CUDA_ERROR_LAUNCH_TIMEOUT, GPU_ERROR_DEVICE_LOST },
    { CUDA_ERROR_CONTEXT_IS_DESTROYED, GPU_ERROR_DEVICE_LOST },
    { CUDA_ERROR_ASSERT, GPU_ERROR_DEVICE_LOST },
    { CUDA_ERROR_HARDWARE_STACK_ERROR, GPU_ERROR_DEVICE_LOST },
    { CUDA_ERROR_ILLEGAL_INSTRUCTION, GPU_ERROR_DEVICE_LOST },
    { CUDA_ERROR_MISALIGNED_ADDRESS, GPU_ERROR_DEVICE_LOST },
    { CUDA_ERROR_INVALID_ADDRESS_SPACE, GPU_ERROR_DEVICE_LOST },
    { CUDA_ERROR_INVALID_PC, GPU_ERROR_DEVICE_LOST },
    { CUDA_ERROR_LAUNCH_FAILED, GPU_ERROR_DEVICE_LOST },
    { 123456, GPU_ERROR_FAILED },
  };
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    g_assert_cmpint (_gpu_cuda_error_map (rows[i].code), ==, rows[i].error);
  _gpu_cuda_set_error (&error, "cuDoSomething", 123456, "what");
  test_assert_gpu_error (error, GPU_ERROR_FAILED, "123456");
}

#endif

#if !defined (HAVE_OPENCL) && !defined (HAVE_CUDA)

static void
error_table_skip (void)
{
  g_test_skip ("built without a driver");
}

#endif

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
#ifdef HAVE_OPENCL
  test_add_plain ("rows", error_table_rows);
  test_add_plain ("complete", error_table_complete);
  test_add_plain ("meanings", error_table_meanings);
#endif
#ifdef HAVE_CUDA
  test_add_plain ("cuda/rows", error_table_cuda_rows);
  test_add_plain ("cuda/meanings", error_table_cuda_meanings);
#endif
#if !defined (HAVE_OPENCL) && !defined (HAVE_CUDA)
  test_add_plain ("skip", error_table_skip);
#endif
  return test_run ();
}

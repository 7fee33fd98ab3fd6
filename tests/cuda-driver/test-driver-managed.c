/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Managed memory of the stand-in, on devices with and without concurrent managed access. */
#include "config.h"

#include "test-driver.h"

#define SIZE 4096

/* Makes the second device current, which cannot use managed memory at the same time as the host. */
static CUcontext
begin_turns (CUdeviceptr *memory, CUstream *stream)
{
  CUcontext context;

  OK (cuCtxCreate, &context, 0, 1);
  OK (cuMemAllocManaged, memory, SIZE, CU_MEM_ATTACH_HOST);
  OK (cuStreamCreateWithPriority, stream, CU_STREAM_NON_BLOCKING, 0);
  return context;
}

static CUdevice
get_place (CUmem_range_attribute attribute,
           CUdeviceptr           memory)
{
  int place = 0;

  OK (cuMemRangeGetAttribute, &place, sizeof place, attribute, memory, SIZE);
  return place;
}

static void
test_locations (void)
{
  const CUmemLocation host = { CU_MEM_LOCATION_TYPE_HOST, 9 };
  const CUmemLocation device = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
  const CUmemLocation nowhere = { 0, 0 };
  CUdeviceptr memory;

  begin ();
  OK (cuMemAllocManaged, &memory, SIZE, CU_MEM_ATTACH_GLOBAL);
  OK (cuMemPrefetchAsync_v2, memory, SIZE, host, 0, NULL);
  g_assert_cmpint (get_place (CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, memory), ==,
                   CU_DEVICE_CPU);
  OK (cuMemPrefetchAsync_v2, memory, SIZE, device, 0, NULL);
  g_assert_cmpint (get_place (CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, memory), ==, 0);
  OK (cuMemAdvise_v2, memory, SIZE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host);
  g_assert_cmpint (get_place (CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory), ==,
                   CU_DEVICE_CPU);
  FAILS (CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync_v2, memory, SIZE, nowhere, 0, NULL);
  FAILS (CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync_v2, memory, SIZE, host, 1, NULL);
  FAILS (CUDA_ERROR_INVALID_VALUE, cuMemAdvise_v2, memory, SIZE, CU_MEM_ADVISE_SET_READ_MOSTLY,
         nowhere);
  OK (cuCtxSynchronize);
  OK (cuMemFree, memory);
  end ();
}

static void
test_concurrent (void)
{
  CUdeviceptr memory;
  int place = 0;

  begin ();
  FAILS (CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged, &memory, SIZE, 0);
  OK (cuMemAllocManaged, &memory, SIZE, CU_MEM_ATTACH_GLOBAL);
  OK (cuMemsetD8Async, memory, 7, SIZE, NULL);
  OK (cuMemPrefetchAsync, memory, SIZE, CU_DEVICE_CPU, NULL);
  OK (cuCtxSynchronize);
  g_assert_cmpuint (((guint8 *) (gsize) memory)[SIZE - 1], ==, 7);
  OK (cuMemRangeGetAttribute, &place, sizeof place,
      CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, memory, SIZE);
  g_assert_cmpint (place, ==, CU_DEVICE_CPU);
  OK (cuMemAdvise, memory, SIZE, CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
  OK (cuMemRangeGetAttribute, &place, sizeof place, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory,
      SIZE);
  g_assert_cmpint (place, ==, 1);
  FAILS (CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync, memory, SIZE, 1, NULL);
  FAILS (CUDA_ERROR_INVALID_DEVICE, cuMemAdvise, memory, SIZE, CU_MEM_ADVISE_SET_ACCESSED_BY, 1);
  FAILS (CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync, memory, SIZE + 1, 0, NULL);
  OK (cuMemFree, memory);
  end ();
}

static void
test_turns (void)
{
  CUcontext context;
  CUdeviceptr memory;
  CUstream stream;

  begin ();
  context = begin_turns (&memory, &stream);
  memset ((gpointer) (gsize) memory, 1, SIZE);
  FAILS (CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync, NULL, memory, 0, CU_MEM_ATTACH_SINGLE);
  FAILS (CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync, stream, memory, SIZE / 2,
         CU_MEM_ATTACH_SINGLE);
  FAILS (CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync, memory, SIZE, 1, stream);
  OK (cuStreamAttachMemAsync, stream, memory, 0, CU_MEM_ATTACH_SINGLE);
  OK (cuMemsetD8Async, memory, 2, SIZE, stream);
  OK (cuStreamAttachMemAsync, stream, memory, SIZE, CU_MEM_ATTACH_HOST);
  OK (cuStreamSynchronize, stream);
  g_assert_cmpuint (((guint8 *) (gsize) memory)[SIZE - 1], ==, 2);
  OK (cuMemFree, memory);
  OK (cuStreamDestroy, stream);
  OK (cuCtxDestroy, context);
  end ();
}

/* --- misuse --------------------------------------------------------------------------- */

static void
used_while_of_host (void)
{
  CUdeviceptr memory;
  CUstream stream;

  begin_turns (&memory, &stream);
  driver.cuMemsetD8Async (memory, 2, SIZE, stream);
}

static void
used_by_another (void)
{
  CUdeviceptr memory;
  CUstream stream, other;

  begin_turns (&memory, &stream);
  OK (cuStreamCreateWithPriority, &other, CU_STREAM_NON_BLOCKING, 0);
  OK (cuStreamAttachMemAsync, stream, memory, 0, CU_MEM_ATTACH_SINGLE);
  driver.cuMemsetD8Async (memory, 2, SIZE, other);
}

static void
attached_in_use (void)
{
  CUdeviceptr memory;
  CUstream stream, other;

  begin_turns (&memory, &stream);
  OK (cuStreamCreateWithPriority, &other, CU_STREAM_NON_BLOCKING, 0);
  OK (cuStreamAttachMemAsync, stream, memory, 0, CU_MEM_ATTACH_SINGLE);
  keep_busy (stream);
  OK (cuMemsetD8Async, memory, 2, SIZE, stream);
  driver.cuStreamAttachMemAsync (other, memory, 0, CU_MEM_ATTACH_SINGLE);
}

static void
freed_in_use (void)
{
  CUdeviceptr memory;
  CUstream stream;

  begin_turns (&memory, &stream);
  keep_busy (stream);
  OK (cuStreamAttachMemAsync, stream, memory, 0, CU_MEM_ATTACH_SINGLE);
  driver.cuMemFree (memory);
}

/* The host accesses managed memory while a stream owns it. On processors with protection keys, the
 * access crashes the program. On other processors the access succeeds, so the program aborts
 * itself. */
static void
touched_while_of_stream (void)
{
  CUdeviceptr memory;
  CUstream stream;

  begin_turns (&memory, &stream);
  OK (cuStreamAttachMemAsync, stream, memory, 0, CU_MEM_ATTACH_SINGLE);
  *(volatile char *) (gsize) memory = 1;
  g_error ("the processor has no protection keys");
}

static const Misuse misuses[] = {
  { "used-while-of-host", "belongs to the host", used_while_of_host },
  { "used-by-another", "belongs to another stream", used_by_another },
  { "attached-in-use", "is still used where this stream does not wait", attached_in_use },
  { "managed-freed-in-use", "pending operations use the managed memory", freed_in_use },
  { "touched-while-of-stream", "", touched_while_of_stream },
};

void
add_managed_tests (void)
{
  g_test_add_func ("/cuda-driver/managed/concurrent", test_concurrent);
  g_test_add_func ("/cuda-driver/managed/locations", test_locations);
  g_test_add_func ("/cuda-driver/managed/turns", test_turns);
  add_misuses (misuses, G_N_ELEMENTS (misuses));
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Misuse that aborts a program on the stand-in. Each test runs in a separate process. */
#include "config.h"

#include "test-driver.h"

static void
use_after_free (void)
{
  CUdeviceptr memory;

  OK (cuMemAlloc, &memory, 64);
  OK (cuMemFree, memory);
  driver.cuMemsetD8Async (memory, 0, 64, NULL);
}

static void
double_free (void)
{
  CUdeviceptr memory;

  OK (cuMemAlloc, &memory, 64);
  OK (cuMemFree, memory);
  driver.cuMemFree (memory);
}

static void
free_inside (void)
{
  CUdeviceptr memory;

  OK (cuMemAlloc, &memory, 64);
  driver.cuMemFree (memory + 16);
}

static void
no_context (void)
{
  CUdeviceptr memory;

  OK (cuCtxPopCurrent, NULL);
  driver.cuMemAlloc (&memory, 64);
}

static void
other_context (void)
{
  CUcontext other;
  CUstream stream;
  CUdeviceptr memory;

  OK (cuStreamCreateWithPriority, &stream, 0, 0);
  OK (cuMemAlloc, &memory, 64);
  OK (cuCtxCreate, &other, 0, 0);
  driver.cuMemsetD2D8Async (memory, 32, 0, 32, 2, stream);
}

static void
free_in_use (void)
{
  CUdeviceptr memory;

  OK (cuMemAlloc, &memory, 64);
  keep_busy (NULL);
  OK (cuMemsetD8Async, memory, 0, 64, NULL);
  driver.cuMemFree (memory);
}

static void
stream_in_use (void)
{
  CUstream stream;

  OK (cuStreamCreateWithPriority, &stream, 0, 0);
  keep_busy (stream);
  driver.cuStreamDestroy (stream);
}

static void
dead_stream (void)
{
  CUstream stream;

  OK (cuStreamCreateWithPriority, &stream, 0, 0);
  OK (cuStreamDestroy, stream);
  driver.cuStreamQuery (stream);
}

static void
dead_event (void)
{
  CUevent event;

  OK (cuEventCreate, &event, 0);
  OK (cuEventDestroy, event);
  driver.cuEventQuery (event);
}

static void
call_the_driver (void *data)
{
  driver.cuEventQuery (data);
}

static void
call_in_host_function (void)
{
  CUevent event;

  OK (cuEventCreate, &event, 0);
  OK (cuLaunchHostFunc, NULL, call_the_driver, event);
  OK (cuCtxSynchronize);
}

static void
out_of_range (void)
{
  CUdeviceptr memory;
  guint8 data[65];

  OK (cuMemAlloc, &memory, 64);
  driver.cuMemcpyHtoD (memory, data, sizeof data);
}

static void
unaligned (void)
{
  CUdeviceptr memory;

  OK (cuMemAlloc, &memory, 64);
  driver.cuMemsetD32Async (memory + 2, 0, 1, NULL);
}

static void
small_pitch (void)
{
  CUdeviceptr memory;
  guint8 data[64];
  CUDA_MEMCPY2D copy = { .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = data, .srcPitch = 4,
                         .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstPitch = 8,
                         .WidthInBytes = 8, .Height = 2 };

  OK (cuMemAlloc, &memory, 64);
  copy.dstDevice = memory;
  driver.cuMemcpy2DAsync (&copy, NULL);
}

static void
overlap (void)
{
  CUdeviceptr memory;

  OK (cuMemAlloc, &memory, 64);
  driver.cuMemcpyDtoDAsync (memory, memory + 8, 16, NULL);
}

static void
device_as_host (void)
{
  CUdeviceptr memory;

  OK (cuMemAlloc, &memory, 64);
  driver.cuMemcpyHtoD (memory, (void *) (gsize) memory, 16);
}

/* On processors with protection keys, the access crashes the program. On other processors the
 * access succeeds, so the program aborts itself. */
static void
touch_on_host (void)
{
  CUdeviceptr memory;

  OK (cuMemAlloc, &memory, 64);
  if (!g_file_test ("/proc/cpuinfo", G_FILE_TEST_EXISTS))
    g_error ("the processor has no protection keys");
  *(volatile char *) (gsize) memory = 1;
  g_error ("the processor has no protection keys");
}

/* Allocates memory on a busy stream, and creates another stream. */
static CUdeviceptr
alloc_on_busy_stream (CUstream *other)
{
  CUdeviceptr memory;
  CUstream one;

  OK (cuStreamCreateWithPriority, &one, CU_STREAM_NON_BLOCKING, 0);
  OK (cuStreamCreateWithPriority, other, CU_STREAM_NON_BLOCKING, 0);
  keep_busy (one);
  OK (cuMemAllocAsync, &memory, 64, one);
  return memory;
}

static void
free_out_of_order (void)
{
  CUstream other;
  CUdeviceptr memory = alloc_on_busy_stream (&other);

  driver.cuMemFreeAsync (memory, other);
}

static void
use_out_of_order (void)
{
  CUstream other;
  CUdeviceptr memory = alloc_on_busy_stream (&other);

  driver.cuMemsetD8Async (memory, 0, 64, other);
}

static void
use_after_ordered_free (void)
{
  CUdeviceptr memory;

  OK (cuMemAllocAsync, &memory, 64, NULL);
  OK (cuMemFreeAsync, memory, NULL);
  driver.cuMemsetD8Async (memory, 0, 64, NULL);
}

/* Reserves four units of addresses and maps the first three: first a chunk of two units, then a
 * chunk of one unit. */
static CUdeviceptr
map_three (gsize *unit)
{
  CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
  CUmemGenericAllocationHandle two, one;
  CUdeviceptr address;

  OK (cuMemGetAllocationGranularity, unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  OK (cuMemAddressReserve, &address, 4 * *unit, 0, 0, 0);
  OK (cuMemCreate, &two, 2 * *unit, &properties, 0);
  OK (cuMemCreate, &one, *unit, &properties, 0);
  OK (cuMemMap, address, 2 * *unit, 0, two, 0);
  OK (cuMemMap, address + 2 * *unit, *unit, 0, one, 0);
  return address;
}

static const CUmemAccessDesc all_access = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
                                            CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

static void
access_to_hole (void)
{
  gsize unit;
  CUdeviceptr address = map_three (&unit);

  driver.cuMemSetAccess (address, 4 * unit, &all_access, 1);
}

static void
unmap_part (void)
{
  gsize unit;
  CUdeviceptr address = map_three (&unit);

  OK (cuMemSetAccess, address, 3 * unit, &all_access, 1);
  driver.cuMemUnmap (address, unit);
}

static void
unmap_in_use (void)
{
  gsize unit;
  CUdeviceptr address = map_three (&unit);

  OK (cuMemSetAccess, address, 3 * unit, &all_access, 1);
  keep_busy (NULL);
  OK (cuMemsetD8Async, address + unit, 0, 2 * unit, NULL);
  driver.cuMemUnmap (address + 2 * unit, unit);
}

static void
use_without_access (void)
{
  gsize unit;
  CUdeviceptr address = map_three (&unit);

  OK (cuMemSetAccess, address, 2 * unit, &all_access, 1);
  driver.cuMemsetD8Async (address + unit, 0, 2 * unit, NULL);
}

static void
use_hole (void)
{
  gsize unit;
  CUdeviceptr address = map_three (&unit);

  OK (cuMemSetAccess, address, 3 * unit, &all_access, 1);
  driver.cuMemsetD8Async (address + 2 * unit, 0, 2 * unit, NULL);
}

/* An event from before the capture */
static void
uncaptured_dependency (void)
{
  CUstream first, second;
  CUevent event;

  OK (cuStreamCreateWithPriority, &first, CU_STREAM_NON_BLOCKING, 0);
  OK (cuStreamCreateWithPriority, &second, CU_STREAM_NON_BLOCKING, 0);
  OK (cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
  OK (cuEventRecord, event, second);
  OK (cuStreamSynchronize, second);
  OK (cuStreamBeginCapture, first, CU_STREAM_CAPTURE_MODE_RELAXED);
  driver.cuStreamWaitEvent (first, event, 0);
}

static CUstream
capture_blocking (void)
{
  CUstream stream;

  OK (cuStreamCreateWithPriority, &stream, CU_STREAM_DEFAULT, 0);
  OK (cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  return stream;
}

static void
legacy_query (void)
{
  capture_blocking ();
  driver.cuStreamQuery (NULL);
}

static void
legacy_wait (void)
{
  capture_blocking ();
  driver.cuStreamSynchronize (NULL);
}

static void
captured_wait (void)
{
  driver.cuStreamSynchronize (capture_blocking ());
}

static void
free_in_capture (void)
{
  CUdeviceptr memory;
  CUstream stream;

  OK (cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, 0);
  OK (cuMemAllocAsync, &memory, 64, stream);
  OK (cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  driver.cuMemFreeAsync (memory, stream);
}

static void
graph_after_free (void)
{
  CUdeviceptr memory;
  CUgraphExec exec;
  CUstream stream;
  CUgraph graph;

  OK (cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, 0);
  OK (cuMemAlloc, &memory, 64);
  OK (cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  OK (cuMemsetD8Async, memory, 1, 64, stream);
  OK (cuStreamEndCapture, stream, &graph);
  OK (cuGraphInstantiateWithFlags, &exec, graph, 0);
  OK (cuMemFree, memory);
  driver.cuGraphLaunch (exec, stream);
}

static const Misuse misuses[] = {
  { "use-after-free", "cuMemsetD8Async*that was freed", use_after_free },
  { "double-free", "cuMemFree*was freed before", double_free },
  { "free-inside", "is no start of device memory", free_inside },
  { "no-context", "cuMemAlloc): no context is current", no_context },
  { "other-context", "the stream is of context", other_context },
  { "free-in-use", "cuMemFree): 1 pending operations use", free_in_use },
  { "stream-in-use", "1 operations of the stream are still at work", stream_in_use },
  { "dead-stream", "cuStreamQuery): stream*was destroyed", dead_stream },
  { "dead-event", "cuEventQuery): event*was destroyed", dead_event },
  { "call-in-host-function", "calls the driver", call_in_host_function },
  { "out-of-range", "65 bytes, only 64 are left of the 64", out_of_range },
  { "unaligned", "by 4", unaligned },
  { "small-pitch", "a pitch of 4 for rows of 8 bytes", small_pitch },
  { "overlap", "overlap", overlap },
  { "device-as-host", "is said to be of the host and is device memory", device_as_host },
  { "touch-on-host", "", touch_on_host },
  { "uncaptured-dependency", "would wait for work that is not captured", uncaptured_dependency },
  { "legacy-query", "cuStreamQuery): a stream that the legacy stream waits for", legacy_query },
  { "legacy-wait", "cuStreamSynchronize): a stream that the legacy stream waits for", legacy_wait },
  { "captured-wait", "cuStreamSynchronize): the stream is capturing", captured_wait },
  { "free-in-capture", "the captured graph did not allocate", free_in_capture },
  { "graph-after-free", "cuGraphLaunch): the graph uses device memory*that was freed",
    graph_after_free },
  { "free-out-of-order", "does not wait for the allocation", free_out_of_order },
  { "use-out-of-order", "this stream does not wait for its allocation", use_out_of_order },
  { "use-after-ordered-free", "pooled memory*that was freed", use_after_ordered_free },
  { "access-to-hole", "are no whole mappings in one range", access_to_hole },
  { "unmap-part", "were not mapped so", unmap_part },
  { "unmap-in-use", "cuMemUnmap): 1 pending operations use", unmap_in_use },
  { "use-without-access", "its access flags are 0", use_without_access },
  { "use-hole", "is no memory that a device can reach", use_hole },
};

static void
test_misuse (gconstpointer data)
{
  const Misuse *self = data;

  if (!g_test_subprocess ())
    {
      assert_aborts (self->text);
      return;
    }
  begin ();
  self->run ();
}

void
add_misuses (const Misuse *list,
             gsize         n)
{
  for (gsize i = 0; i < n; i++)
    {
      g_autofree char *path = g_strconcat ("/cuda-driver/misuse/", list[i].name, NULL);

      g_test_add_data_func (path, &list[i], test_misuse);
    }
}

void
add_misuse_tests (void)
{
  add_misuses (misuses, G_N_ELEMENTS (misuses));
}

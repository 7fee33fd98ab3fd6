/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The stand-in for the CUDA driver: data, order, limits, faults. */
#include "config.h"

#include <pthread.h>

#include "test-driver.h"

#define SIZE 100000
#define N_ROUNDS 100

Driver driver;

typedef CUresult (CUDAAPI *GetProcAddress) (const char                     *name,
                                            void                          **function,
                                            int                             version,
                                            cuuint64_t                      flags,
                                            CUdriverProcAddressQueryResult *status);

static GetProcAddress get_proc_address;

/* --- loading ---------------------------------------------------------------------------------- */

static char *
get_path (const char *folder,
          const char *name)
{
  return g_build_filename (g_getenv ("G_TEST_BUILDDIR") != NULL ? g_getenv ("G_TEST_BUILDDIR")
                                                                : "tests",
                           "cuda-driver", folder, name, NULL);
}

static void
open_driver (void)
{
  g_autofree char *path = get_path ("lib", "libcuda.so.1");
  gpointer module = dlopen (path, RTLD_NOW | RTLD_LOCAL);

  if (module == NULL)
    g_error ("%s", dlerror ());
  get_proc_address = (GetProcAddress) dlsym (module, "cuGetProcAddress_v2");
#define GPU_CUDA_SYMBOL(group, name, version, parameters) \
  g_assert_cmpuint (get_proc_address (#name, (void **) &driver.name, version, 0, NULL), ==, 0); \
  g_assert_nonnull (driver.name);
#define GPU_CUDA_REVISION(group, name, revision, version, parameters) \
  g_assert_cmpuint (get_proc_address (#name, (void **) &driver.name##revision, version, 0, NULL), \
                    ==, 0); \
  g_assert_nonnull (driver.name##revision);
#include DRIVER_SYMBOLS
#undef GPU_CUDA_SYMBOL
  OK (cuInit, 0);
}

CUcontext
begin (void)
{
  CUcontext context;

  OK (cuDevicePrimaryCtxRetain, &context, 0);
  OK (cuCtxPushCurrent, context);
  return context;
}

void
end (void)
{
  OK (cuCtxPopCurrent, NULL);
  OK (cuDevicePrimaryCtxRelease, 0);
}

/* Longer than any test needs to make its next calls. The programs that use this abort in them. */
static void
sleep_in_stream (void *data)
{
  (void) data;
  g_usleep (10 * G_USEC_PER_SEC);
}

void
keep_busy (CUstream stream)
{
  OK (cuLaunchHostFunc, stream, sleep_in_stream, NULL);
}

void
assert_aborts (const char *text)
{
  g_autofree char *pattern = g_strconcat ("*", text, "*", NULL);

  g_test_trap_subprocess (NULL, 0, 0);
  g_test_trap_assert_failed ();
  g_test_trap_assert_stderr (pattern);
}

/* --- functions -------------------------------------------------------------------------------- */

static void
test_versions (void)
{
  CUdriverProcAddressQueryResult status;
  gpointer function = NULL;
  int version;

  OK (cuDriverGetVersion, &version);
  g_assert_cmpint (version, ==, 13000);
  g_assert_cmpuint (get_proc_address ("cuNothing", &function, version, 0, &status), ==, 0);
  g_assert_null (function);
  g_assert_cmpuint (status, ==, 1);
  g_assert_cmpuint (get_proc_address ("cuMemAllocAsync", &function, 11010, 0, &status), ==, 0);
  g_assert_null (function);
  g_assert_cmpuint (status, ==, 2);
  g_assert_cmpuint (get_proc_address ("cuMemAllocAsync", &function, 11020, 0, &status), ==, 0);
  g_assert_true (function == (gpointer) driver.cuMemAllocAsync);
  /* In CUDA 13 the name cuCtxCreate resolves to a function with other parameters */
  g_assert_cmpuint (get_proc_address ("cuCtxCreate", &function, 13000, 0, &status), ==, 0);
  g_assert_true (function != (gpointer) driver.cuCtxCreate);
}

static void
test_old_driver (void)
{
  g_autofree char *path = get_path ("lib-11.4", "libcuda.so.1");
  gpointer module = dlopen (path, RTLD_NOW | RTLD_LOCAL);
  CUresult (*get) (const char *, void **, int, cuuint64_t);
  CUresult (*get_version) (int *);
  gpointer function;
  int version;

  g_assert_nonnull (module);
  g_assert_null (dlsym (module, "cuGetProcAddress_v2"));
  get = dlsym (module, "cuGetProcAddress");
  g_assert_cmpuint (get ("cuDriverGetVersion", (void **) &get_version, 2020, 0), ==, 0);
  get_version (&version);
  g_assert_cmpint (version, ==, 11040);
  g_assert_cmpuint (get ("cuMemAllocAsync", &function, 11020, 0), ==, 0);
  g_assert_cmpuint (get ("cuModuleGetFunctionCount", &function, 12040, 0), ==,
                    CUDA_ERROR_NOT_FOUND);
  dlclose (module);
}

static void
test_devices (void)
{
  char id[16];
  char name[64];
  int n;
  int value;

  OK (cuDeviceGetCount, &n);
  g_assert_cmpint (n, ==, 2);
  OK (cuDeviceGetPCIBusId, id, sizeof id, 1);
  g_assert_cmpstr (id, ==, "0000:02:00.0");
  OK (cuDeviceGetName, name, sizeof name, 1);
  OK (cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0);
  g_assert_cmpint (value, ==, 1024);
  FAILS (CUDA_ERROR_INVALID_DEVICE, cuDeviceGetName, name, sizeof name, 2);
  FAILS (CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute, &value, 4000, 0);
}

static void
test_contexts (void)
{
  CUcontext primary = begin ();
  CUcontext own;
  CUcontext current;
  CUdevice device;
  unsigned int flags;
  int active;

  OK (cuCtxCreate, &own, 0, 1);
  OK (cuCtxGetCurrent, &current);
  g_assert_true (current == own);
  OK (cuCtxGetDevice, &device);
  g_assert_cmpint (device, ==, 1);
  OK (cuCtxPopCurrent, &current);
  OK (cuCtxGetCurrent, &current);
  g_assert_true (current == primary);
  OK (cuCtxEnablePeerAccess, own, 0);
  FAILS (CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess, own, 0);
  OK (cuCtxDisablePeerAccess, own);
  OK (cuCtxDestroy, own);
  end ();
  OK (cuDevicePrimaryCtxGetState, 0, &flags, &active);
  g_assert_false (active);
}

/* A copy uses the context of its stream, unless the stream is a default stream. */
static void
test_other_context (void)
{
  CUcontext primary = begin ();
  CUcontext own;
  CUcontext current;
  CUstream stream;
  CUdeviceptr memory;
  guint8 data[64] = "data";

  OK (cuStreamCreateWithPriority, &stream, 0, 0);
  OK (cuMemAlloc, &memory, sizeof data);
  OK (cuMemcpyHtoDAsync, memory, data, 16, stream);
  OK (cuCtxPopCurrent, NULL);
  OK (cuMemcpyDtoDAsync, memory + 16, memory, 16, stream);
  OK (cuCtxCreate, &own, 0, 0);
  OK (cuMemcpyDtoDAsync, memory + 32, memory, 32, stream);
  OK (cuCtxGetCurrent, &current);
  g_assert_true (current == own);
  OK (cuCtxDestroy, own);
  OK (cuCtxPushCurrent, primary);
  OK (cuMemcpyDtoHAsync, data, memory, sizeof data, stream);
  g_assert_cmpstr ((const char *) data + 48, ==, "data");
  OK (cuMemFree, memory);
  OK (cuStreamDestroy, stream);
  end ();
}

/* --- order ------------------------------------------------------------------------------------ */

static void
test_data (void)
{
  g_autofree guint8 *in = g_malloc (SIZE);
  g_autofree guint8 *out = g_malloc (SIZE);
  CUdeviceptr one, other;
  CUstream first, second;
  CUevent event;

  begin ();
  OK (cuMemAlloc, &one, SIZE);
  OK (cuMemAlloc, &other, SIZE);
  OK (cuStreamCreateWithPriority, &first, CU_STREAM_NON_BLOCKING, 0);
  OK (cuStreamCreateWithPriority, &second, CU_STREAM_NON_BLOCKING, -1);
  OK (cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
  for (guint i = 0; i < N_ROUNDS; i++)
    {
      memset (in, i, SIZE);
      OK (cuMemcpyHtoDAsync, one, in, SIZE, first);
      memset (in, 0xee, SIZE);
      OK (cuEventRecord, event, first);
      OK (cuStreamWaitEvent, second, event, 0);
      OK (cuMemcpyDtoDAsync, other, one, SIZE, second);
      OK (cuEventRecord, event, second);
      OK (cuMemcpyDtoHAsync, out, other, SIZE, second);
      memset (in, i, SIZE);
      g_assert_cmpmem (in, SIZE, out, SIZE);
      OK (cuStreamWaitEvent, first, event, 0);
    }
  OK (cuStreamSynchronize, first);
  OK (cuStreamDestroy, first);
  OK (cuStreamDestroy, second);
  OK (cuEventDestroy, event);
  OK (cuMemFree, one);
  OK (cuMemFree, other);
  end ();
}

/* Without a wait between the streams, the copy must read old data in some round. */
static void
test_no_order (void)
{
  guint8 *pinned;
  CUdeviceptr memory;
  CUstream writer, reader;
  guint n_wrong = 0;

#ifdef __SANITIZE_THREAD__
  g_test_skip ("the thread sanitizer finds the race that is meant to be here");
  return;
#endif
  begin ();
  OK (cuMemAlloc, &memory, 64);
  OK (cuMemHostAlloc, (void **) &pinned, 64, 0);
  OK (cuStreamCreateWithPriority, &writer, CU_STREAM_NON_BLOCKING, 0);
  OK (cuStreamCreateWithPriority, &reader, CU_STREAM_NON_BLOCKING, 0);
  for (guint i = 0; i < 200; i++)
    {
      OK (cuMemsetD8Async, memory, i, 64, writer);
      OK (cuMemcpyDtoHAsync, pinned, memory, 64, reader);
      OK (cuStreamSynchronize, reader);
      n_wrong += pinned[0] != (guint8) i;
      OK (cuStreamSynchronize, writer);
    }
  g_assert_cmpuint (n_wrong, >, 0);
  OK (cuStreamDestroy, writer);
  OK (cuStreamDestroy, reader);
  OK (cuMemFree, memory);
  OK (cuMemFreeHost, pinned);
  end ();
}

/* The legacy stream and blocking streams wait for each other. Other streams do not wait. */
static void
test_legacy_stream (void)
{
  CUdeviceptr memory;
  CUstream stream;
  guint8 *pinned;

  begin ();
  OK (cuMemAlloc, &memory, 64);
  OK (cuMemHostAlloc, (void **) &pinned, 64, 0);
  OK (cuStreamCreateWithPriority, &stream, CU_STREAM_DEFAULT, 0);
  for (guint i = 0; i < N_ROUNDS; i++)
    {
      OK (cuMemsetD8Async, memory, i, 64, stream);
      OK (cuMemcpyDtoHAsync, pinned, memory, 64, i % 2 == 0 ? NULL : CU_STREAM_LEGACY);
      OK (cuMemsetD8Async, memory, 0xee, 64, stream);
      OK (cuStreamSynchronize, NULL);
      g_assert_cmpuint (pinned[63], ==, i);
      OK (cuMemsetD8Async, memory, i + 1, 64, CU_STREAM_PER_THREAD);
      OK (cuMemcpyDtoHAsync, pinned, memory, 64, CU_STREAM_PER_THREAD);
      OK (cuStreamSynchronize, CU_STREAM_PER_THREAD);
      g_assert_cmpuint (pinned[0], ==, i + 1);
    }
  OK (cuCtxSynchronize);
  OK (cuStreamDestroy, stream);
  OK (cuMemFree, memory);
  OK (cuMemFreeHost, pinned);
  end ();
}

typedef struct
{
  gint     may_end;                 /* atomic */
  gboolean has_ended;
} Function;

static void
wait_a_while (void *data)
{
  Function *function = data;

  while (!g_atomic_int_get (&function->may_end))
    g_usleep (100);
  g_usleep (20000);
  function->has_ended = TRUE;
}

static void
test_events (void)
{
  Function function = { FALSE, FALSE };
  CUstream stream;
  CUevent start, stop, plain;
  float milliseconds;

  begin ();
  OK (cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, 0);
  OK (cuEventCreate, &start, CU_EVENT_DEFAULT);
  OK (cuEventCreate, &stop, CU_EVENT_BLOCKING_SYNC);
  OK (cuEventCreate, &plain, CU_EVENT_DISABLE_TIMING);
  OK (cuEventQuery, start);
  FAILS (CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime, &milliseconds, start, stop);
  OK (cuEventRecord, start, stream);
  OK (cuLaunchHostFunc, stream, wait_a_while, &function);
  OK (cuEventRecord, stop, stream);
  FAILS (CUDA_ERROR_NOT_READY, cuEventQuery, stop);
  FAILS (CUDA_ERROR_NOT_READY, cuStreamQuery, stream);
  FAILS (CUDA_ERROR_NOT_READY, cuEventElapsedTime, &milliseconds, start, stop);
  g_atomic_int_set (&function.may_end, TRUE);
  OK (cuEventSynchronize, stop);
  g_assert_true (function.has_ended);
  OK (cuEventElapsedTime, &milliseconds, start, stop);
  g_assert_cmpfloat (milliseconds, >=, 19.0f);
  OK (cuEventRecord, plain, stream);
  OK (cuEventSynchronize, plain);
  FAILS (CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime, &milliseconds, start, plain);
  OK (cuEventDestroy, start);
  OK (cuEventDestroy, stop);
  OK (cuEventDestroy, plain);
  OK (cuStreamDestroy, stream);
  end ();
}

/* A stream joins a capture when it waits for an event of it. Captured work runs when the graph is
 * launched. */
static void
test_captures (void)
{
  CUstreamCaptureStatus status;
  CUstream first, second;
  CUevent fork, join;
  CUdeviceptr memory;
  CUgraphExec exec;
  CUgraph graph;
  guint8 byte;

  begin ();
  OK (cuStreamCreateWithPriority, &first, CU_STREAM_NON_BLOCKING, 0);
  OK (cuStreamCreateWithPriority, &second, CU_STREAM_NON_BLOCKING, 0);
  OK (cuEventCreate, &fork, CU_EVENT_DISABLE_TIMING);
  OK (cuEventCreate, &join, CU_EVENT_DISABLE_TIMING);
  OK (cuMemAlloc, &memory, 1);
  OK (cuMemsetD8Async, memory, 5, 1, first);
  OK (cuStreamSynchronize, first);
  OK (cuStreamBeginCapture, first, CU_STREAM_CAPTURE_MODE_RELAXED);
  OK (cuMemsetD8Async, memory, 6, 1, first);
  OK (cuEventRecord, fork, first);
  OK (cuStreamIsCapturing, second, &status);
  g_assert_cmpuint (status, ==, CU_STREAM_CAPTURE_STATUS_NONE);
  OK (cuStreamWaitEvent, second, fork, 0);
  OK (cuStreamIsCapturing, second, &status);
  g_assert_cmpuint (status, ==, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  OK (cuMemsetD8Async, memory, 7, 1, second);
  OK (cuEventRecord, join, second);
  OK (cuStreamWaitEvent, first, join, 0);
  OK (cuStreamEndCapture, first, &graph);
  OK (cuGraphInstantiateWithFlags, &exec, graph, 0);
  OK (cuGraphDestroy, graph);
  OK (cuMemcpyDtoHAsync, &byte, memory, 1, second);
  OK (cuStreamSynchronize, second);
  g_assert_cmpuint (byte, ==, 5);
  OK (cuGraphLaunch, exec, second);
  OK (cuMemcpyDtoHAsync, &byte, memory, 1, second);
  OK (cuStreamSynchronize, second);
  g_assert_cmpuint (byte, ==, 7);
  OK (cuGraphExecDestroy, exec);
  OK (cuMemFree, memory);
  OK (cuEventDestroy, fork);
  OK (cuEventDestroy, join);
  OK (cuStreamDestroy, first);
  OK (cuStreamDestroy, second);
  end ();
}

/* While a stream is captured that the legacy stream waits for, the driver does not report whether
 * the legacy stream is captured. */
static void
test_legacy_capture (void)
{
  CUstreamCaptureStatus status;
  CUstream stream;
  CUgraph graph;

  begin ();
  OK (cuStreamCreateWithPriority, &stream, CU_STREAM_DEFAULT, 0);
  OK (cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  FAILS (CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing, NULL, &status);
  FAILS (CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamGetCaptureInfo_v2, NULL, &status, NULL, NULL,
         NULL, NULL);
  OK (cuStreamEndCapture, stream, &graph);
  OK (cuStreamIsCapturing, NULL, &status);
  OK (cuGraphDestroy, graph);
  OK (cuStreamDestroy, stream);
  end ();
}

/* A graph reads and writes pageable memory when it is launched. The launches of an executable graph
 * run one after the other, also in two streams. */
static void
test_graph_launches (void)
{
  CUstream streams[2];
  CUdeviceptr memory;
  CUgraphExec exec;
  CUgraph graph;
  guint8 in = 1;
  guint8 out = 0;

  begin ();
  for (guint i = 0; i < 2; i++)
    OK (cuStreamCreateWithPriority, &streams[i], CU_STREAM_NON_BLOCKING, 0);
  OK (cuMemAlloc, &memory, 1);
  OK (cuStreamBeginCapture, streams[0], CU_STREAM_CAPTURE_MODE_RELAXED);
  OK (cuMemcpyHtoDAsync, memory, &in, 1, streams[0]);
  OK (cuMemcpyDtoHAsync, &out, memory, 1, streams[0]);
  OK (cuStreamEndCapture, streams[0], &graph);
  OK (cuGraphInstantiateWithFlags, &exec, graph, 0);
  OK (cuGraphDestroy, graph);
  for (in = 2; in < 4; in++)
    {
      OK (cuGraphLaunch, exec, streams[0]);
      OK (cuGraphLaunch, exec, streams[1]);
      OK (cuStreamSynchronize, streams[1]);
      g_assert_cmpuint (out, ==, in);
    }
  OK (cuGraphExecDestroy, exec);
  OK (cuMemFree, memory);
  for (guint i = 0; i < 2; i++)
    OK (cuStreamDestroy, streams[i]);
  end ();
}

static void
wait_for_flag (void *data)
{
  while (!g_atomic_int_get ((gint *) data))
    g_usleep (100);
}

/* A large write waits for one of two buffers, unless it is captured. */
static void
test_captured_write (void)
{
  const gsize size = 128 * 1024;
  g_autofree guint8 *bytes = g_malloc0 (size);
  CUdeviceptr memory;
  CUstream stream;
  CUgraph graph;
  gint flag = 0;

  begin ();
  OK (cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, 0);
  OK (cuMemAlloc, &memory, size);
  OK (cuLaunchHostFunc, stream, wait_for_flag, &flag);
  for (guint i = 0; i < 2; i++)
    OK (cuMemcpyHtoDAsync, memory, bytes, size, stream);
  OK (cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  for (guint i = 0; i < 3; i++)
    OK (cuMemcpyHtoDAsync, memory, bytes, size, stream);
  OK (cuStreamEndCapture, stream, &graph);
  OK (cuGraphDestroy, graph);
  g_atomic_int_set (&flag, 1);
  OK (cuMemcpyHtoDAsync, memory, bytes, size, stream);
  OK (cuStreamSynchronize, stream);
  OK (cuMemFree, memory);
  OK (cuStreamDestroy, stream);
  end ();
}

/* Two graphs allocate memory: one frees it, the other is never launched. */
static void
test_memory_of_graphs (void)
{
  CUdeviceptr memory[2];
  CUgraph graphs[2];
  CUstream stream;

  begin ();
  OK (cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, 0);
  for (guint i = 0; i < 2; i++)
    {
      OK (cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
      OK (cuMemAllocAsync, &memory[i], 64, stream);
      OK (cuMemsetD8Async, memory[i], 6, 64, stream);
      if (i == 0)
        OK (cuMemFreeAsync, memory[i], stream);
      OK (cuStreamEndCapture, stream, &graphs[i]);
    }
  FAILS (CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync, memory[1], stream);
  OK (cuGraphDestroy, graphs[0]);
  OK (cuGraphDestroy, graphs[1]);
  OK (cuStreamDestroy, stream);
  end ();
}

/* --- memory ----------------------------------------------------------------------------------- */

static void
test_regions (void)
{
  guint8 in[6 * 5 * 4];
  guint8 out[3 * 2 * 2];
  gsize pitch;
  CUdeviceptr memory;
  CUDA_MEMCPY3D copy = { 0 };
  CUDA_MEMCPY2D plane = { 0 };

  for (guint i = 0; i < sizeof in; i++)
    in[i] = i;
  begin ();
  OK (cuMemAllocPitch, &memory, &pitch, 6, 5 * 4, 4);
  g_assert_cmpuint (pitch, ==, 512);
  plane.srcMemoryType = CU_MEMORYTYPE_HOST;
  plane.srcHost = in;
  plane.srcPitch = 6;
  plane.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  plane.dstDevice = memory;
  plane.dstPitch = pitch;
  plane.WidthInBytes = 6;
  plane.Height = 20;
  OK (cuMemcpy2DAsync, &plane, NULL);
  copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = memory;
  copy.srcPitch = pitch;
  copy.srcHeight = 5;
  copy.srcXInBytes = 2;
  copy.srcY = 1;
  copy.srcZ = 1;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = out;
  copy.dstPitch = 3;
  copy.dstHeight = 2;
  copy.WidthInBytes = 3;
  copy.Height = 2;
  copy.Depth = 2;
  OK (cuMemcpy3DAsync, &copy, NULL);
  for (guint z = 0; z < 2; z++)
    for (guint y = 0; y < 2; y++)
      for (guint x = 0; x < 3; x++)
        g_assert_cmpuint (out[(z * 2 + y) * 3 + x], ==, ((z + 1) * 5 + y + 1) * 6 + x + 2);
  OK (cuMemsetD2D16Async, memory + 2, pitch, 0x0102, 2, 3, NULL);
  OK (cuMemcpyDtoH, out, memory + 2 * pitch, 8);
  g_assert_cmpmem (out, 6, "\x0c\x0d\x02\x01\x02\x01", 6);
  OK (cuMemFree, memory);
  end ();
}

static void
test_peers (void)
{
  CUcontext first = begin ();
  CUcontext second;
  CUdeviceptr here, there;
  guint32 value;

  OK (cuMemAlloc, &here, 64);
  OK (cuCtxCreate, &second, 0, 1);
  OK (cuMemAlloc, &there, 64);
  OK (cuMemsetD32Async, there, 0x12345678, 16, NULL);
  OK (cuCtxSynchronize);
  OK (cuCtxPopCurrent, NULL);
  OK (cuMemcpyPeerAsync, here, first, there, second, 64, NULL);
  OK (cuMemcpyDtoH, &value, here + 60, 4);
  g_assert_cmpuint (value, ==, 0x12345678);
  OK (cuMemFree, here);
  OK (cuCtxPushCurrent, second);
  OK (cuMemFree, there);
  OK (cuCtxDestroy, second);
  end ();
}

static void
test_limits (void)
{
  gsize free_size, total, after;
  CUdeviceptr memory, more;

  begin ();
  OK (cuMemGetInfo, &free_size, &total);
  g_assert_cmpuint (free_size, ==, total);
  FAILS (CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc, &memory, total + 1);
  OK (cuMemAlloc, &memory, total);
  OK (cuMemGetInfo, &after, &total);
  g_assert_cmpuint (after, ==, 0);
  FAILS (CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc, &more, 1);
  OK (cuMemFree, memory);
  FAILS (CUDA_ERROR_INVALID_VALUE, cuMemAlloc, &memory, 0);
  end ();
}

static void
test_pointers (void)
{
  CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                       CU_POINTER_ATTRIBUTE_RANGE_SIZE };
  g_autofree guint8 *ordinary = g_malloc (SIZE);
  CUdeviceptr memory, base, address;
  guint type;
  gsize size;
  gpointer values[] = { &type, &size };
  void *host;

  begin ();
  OK (cuMemAlloc, &memory, SIZE);
  OK (cuMemGetAddressRange, &base, &size, memory + 77);
  g_assert_cmpuint (base, ==, memory);
  g_assert_cmpuint (size, ==, SIZE);
  OK (cuPointerGetAttributes, 2, attributes, values, memory + SIZE - 1);
  g_assert_cmpuint (type, ==, CU_MEMORYTYPE_DEVICE);
  OK (cuPointerGetAttributes, 2, attributes, values, (gsize) ordinary);
  g_assert_cmpuint (type, ==, 0);
  FAILS (CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute, &type, attributes[0], (gsize) ordinary);
  OK (cuMemHostAlloc, &host, 64, CU_MEMHOSTALLOC_DEVICEMAP);
  OK (cuMemHostGetDevicePointer, &address, host, 0);
  OK (cuPointerGetAttribute, &type, attributes[0], address);
  g_assert_cmpuint (type, ==, CU_MEMORYTYPE_HOST);
  OK (cuMemHostRegister, ordinary, SIZE, 0);
  FAILS (CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister, ordinary + 10, 10, 0);
  OK (cuMemHostUnregister, ordinary);
  OK (cuMemFreeHost, host);
  OK (cuMemFree, memory);
  FAILS (CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange, &base, &size, memory);
  end ();
}

/* As observed with drivers for CUDA 13: registration covers exact bytes instead of whole pages, and
 * a copy must end in the memory in which it begins. */
static void
test_registered (void)
{
  g_autofree guint8 *bytes = g_malloc0 (SIZE);
  CUdeviceptr memory;
  gsize size;

  begin ();
  OK (cuMemAlloc, &memory, SIZE);
  OK (cuMemHostRegister, bytes + 100, 5000, 0);
  OK (cuMemHostRegister, bytes + 5100, 10000, 0);
  FAILS (CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister, bytes, 101, 0);
  FAILS (CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister, bytes, SIZE, 0);
  FAILS (CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister, bytes + 15099, 1, 0);
  OK (cuPointerGetAttribute, &size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, (gsize) bytes + 5100);
  g_assert_cmpuint (size, ==, 10000);
  OK (cuMemcpyHtoDAsync, memory, bytes + 100, 5000, NULL);
  OK (cuMemcpyHtoDAsync, memory, bytes + 15100, 1000, NULL);
  OK (cuMemcpyHtoDAsync, memory, bytes, SIZE, NULL);
  FAILS (CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync, memory, bytes + 100, 5001, NULL);
  FAILS (CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoHAsync, bytes + 15099, memory, 2, NULL);
  OK (cuCtxSynchronize);
  OK (cuMemHostUnregister, bytes + 100);
  OK (cuMemHostUnregister, bytes + 5100);
  OK (cuMemFree, memory);
  end ();
}

/* --- faults ----------------------------------------------------------------------------------- */

static void
test_faults (void)
{
  CUdeviceptr memory;
  CUevent event;

  begin ();
  g_assert_true (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_set_fail") != NULL);
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) ("cuMemAlloc:2"));
  OK (cuMemAlloc, &memory, 64);
  OK (cuMemFree, memory);
  FAILS (CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc, &memory, 64);
  OK (cuMemAlloc, &memory, 64);
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) ("cuMem*:1:46:2"));
  FAILS (46, cuMemsetD8Async, memory, 1, 64, NULL);
  /* Calls that free memory free it even if they fail */
  FAILS (46, cuMemFree, memory);
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) ("lost:2"));
  OK (cuEventCreate, &event, 0);
  FAILS (CUDA_ERROR_LAUNCH_FAILED, cuEventRecord, event, NULL);
  FAILS (CUDA_ERROR_LAUNCH_FAILED, cuEventQuery, event);
  FAILS (CUDA_ERROR_LAUNCH_FAILED, cuEventDestroy, event);
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (""));
  g_assert_false (GPUMEM_CUDA_DRIVER (set_fail) ("nothing:2"));
  g_assert_true (GPUMEM_CUDA_DRIVER (set_fail) (""));
  end ();
}

static void
test_leaves_nothing (void)
{
  g_assert_cmpuint (GPUMEM_CUDA_DRIVER (get_live) (""), ==, 0);
  g_assert_cmpuint (GPUMEM_CUDA_DRIVER (get_misuse) (), ==, 0);
}

int
main (int argc, char **argv)
{
  if (argc == 2 && g_str_equal (argv[1], "--export"))
    {
      open_driver ();
      run_exporter ();
      return 0;
    }
  g_test_init (&argc, &argv, NULL);
  open_driver ();
  g_test_add_func ("/cuda-driver/versions", test_versions);
  g_test_add_func ("/cuda-driver/old-driver", test_old_driver);
  g_test_add_func ("/cuda-driver/devices", test_devices);
  g_test_add_func ("/cuda-driver/contexts", test_contexts);
  g_test_add_func ("/cuda-driver/other-context", test_other_context);
  g_test_add_func ("/cuda-driver/data", test_data);
  g_test_add_func ("/cuda-driver/no-order", test_no_order);
  g_test_add_func ("/cuda-driver/legacy-stream", test_legacy_stream);
  g_test_add_func ("/cuda-driver/events", test_events);
  g_test_add_func ("/cuda-driver/captures", test_captures);
  g_test_add_func ("/cuda-driver/graph-launches", test_graph_launches);
  g_test_add_func ("/cuda-driver/legacy-capture", test_legacy_capture);
  g_test_add_func ("/cuda-driver/captured-write", test_captured_write);
  g_test_add_func ("/cuda-driver/memory-of-graphs", test_memory_of_graphs);
  g_test_add_func ("/cuda-driver/regions", test_regions);
  g_test_add_func ("/cuda-driver/peers", test_peers);
  g_test_add_func ("/cuda-driver/limits", test_limits);
  g_test_add_func ("/cuda-driver/pointers", test_pointers);
  g_test_add_func ("/cuda-driver/registered", test_registered);
  g_test_add_func ("/cuda-driver/faults", test_faults);
  add_program_tests ();
  add_image_tests ();
  add_texture_tests ();
  add_share_tests ();
  add_managed_tests ();
  add_misuse_tests ();
  g_test_add_func ("/cuda-driver/leaves-nothing", test_leaves_nothing);
  return g_test_run ();
}

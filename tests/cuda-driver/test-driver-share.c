/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pools, virtual memory, and two processes that share memory and events. */
#include "config.h"

#include <signal.h>
#include <unistd.h>

#include "test-driver.h"

#define MEGA (1 << 20)

static void
test_pool (void)
{
  CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
  cuuint64_t value = G_MAXUINT64;
  CUmemoryPool pool;
  CUdeviceptr memory;
  CUstream one, other;
  CUevent event;
  guint32 data;

  begin ();
  OK (cuStreamCreateWithPriority, &one, CU_STREAM_NON_BLOCKING, 0);
  OK (cuStreamCreateWithPriority, &other, CU_STREAM_NON_BLOCKING, 0);
  OK (cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
  OK (cuMemPoolCreate, &pool, &properties);
  OK (cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
  OK (cuMemAllocFromPoolAsync, &memory, MEGA, pool, one);
  OK (cuMemsetD32Async, memory, 7, MEGA / 4, one);
  OK (cuEventRecord, event, one);
  OK (cuStreamWaitEvent, other, event, 0);
  OK (cuMemcpyDtoHAsync, &data, memory + MEGA - 4, 4, other);
  g_assert_cmpuint (data, ==, 7);
  OK (cuMemFreeAsync, memory, other);
  OK (cuStreamSynchronize, other);
  OK (cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value);
  g_assert_cmpuint (value, ==, 0);
  OK (cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value);
  g_assert_cmpuint (value, ==, MEGA);
  OK (cuMemPoolTrimTo, pool, 0);
  OK (cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value);
  g_assert_cmpuint (value, ==, 0);
  OK (cuMemPoolDestroy, pool);
  OK (cuStreamDestroy, one);
  OK (cuStreamDestroy, other);
  OK (cuEventDestroy, event);
  end ();
}

/* Maps the memory of two handles at adjacent addresses, then again in the opposite order. */
static void
test_virtual (void)
{
  CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
  CUmemAccessDesc access = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
                             CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
  CUmemGenericAllocationHandle handles[2];
  CUdeviceptr address;
  CUdeviceptr places[2];
  guint16 values[2];
  gsize unit;

  begin ();
  OK (cuMemGetAllocationGranularity, &unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  FAILS (CUDA_ERROR_INVALID_VALUE, cuMemCreate, &handles[0], unit + 1, &properties, 0);
  OK (cuMemAddressReserve, &address, 2 * unit, 0, 0, 0);
  for (guint i = 0; i < 2; i++)
    {
      OK (cuMemCreate, &handles[i], unit, &properties, 0);
      OK (cuMemMap, address + i * unit, unit, 0, handles[i], 0);
    }
  OK (cuMemSetAccess, address, 2 * unit, &access, 1);
  OK (cuPointerGetAttribute, places, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + unit + 1);
  OK (cuPointerGetAttribute, places + 1, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
      address + unit + 1);
  g_assert_cmpuint (places[0], ==, address);
  g_assert_cmpuint (places[1], ==, address + unit);
  OK (cuMemsetD16Async, address, 1, unit / 2, NULL);
  OK (cuMemsetD16Async, address + unit, 2, unit / 2, NULL);
  OK (cuMemcpyDtoH, values, address + unit - 2, sizeof values);
  g_assert_cmpuint (values[0], ==, 1);
  g_assert_cmpuint (values[1], ==, 2);
  OK (cuMemUnmap, address, 2 * unit);
  for (guint i = 0; i < 2; i++)
    OK (cuMemMap, address + (1 - i) * unit, unit, 0, handles[i], 0);
  OK (cuMemSetAccess, address, 2 * unit, &access, 1);
  OK (cuMemcpyDtoH, values, address + unit - 2, sizeof values);
  g_assert_cmpuint (values[0], ==, 2);
  g_assert_cmpuint (values[1], ==, 1);
  for (guint i = 0; i < 2; i++)
    OK (cuMemRelease, handles[i]);
  OK (cuMemUnmap, address, 2 * unit);
  OK (cuMemAddressFree, address, 2 * unit);
  end ();
}

/* --- two processes ---------------------------------------------------------------------------- */

/* The message from the exporter. */
typedef struct
{
  CUipcMemHandle   memory;
  CUipcEventHandle event;
} Message;

/* Fills memory, records the event behind a delay, and waits until the parent kills the process. */
void
run_exporter (void)
{
  Message message;
  CUdeviceptr memory;
  CUstream stream;
  CUevent event;

  begin ();
  OK (cuMemAlloc, &memory, MEGA + 4);
  OK (cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, 0);
  OK (cuEventCreate, &event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
  OK (cuIpcGetMemHandle, &message.memory, memory);
  OK (cuIpcGetEventHandle, &message.event, event);
  for (guint i = 0; i < 200; i++)
    OK (cuMemsetD32Async, memory, i, MEGA / 4 + 1, stream);
  OK (cuEventRecord, event, stream);
  if (write (STDOUT_FILENO, &message, sizeof message) != sizeof message)
    g_error ("nobody reads");
  pause ();
}

static GPid
start_exporter (int *output)
{
  g_autofree char *self = g_file_read_link ("/proc/self/exe", NULL);
  const char *argv[] = { self, "--export", NULL };
  g_autoptr (GError) error = NULL;
  GPid process;

  g_spawn_async_with_pipes (NULL, (char **) argv, NULL, G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL,
                            &process, NULL, output, NULL, &error);
  g_assert_no_error (error);
  return process;
}

static void
stop_exporter (GPid process,
               int  output)
{
  char byte;

  kill (process, SIGKILL);
  while (read (output, &byte, 1) > 0)
    ;
  close (output);
  g_spawn_close_pid (process);
}

static void
test_processes (void)
{
  Message message;
  CUdeviceptr memory, again;
  CUstream stream;
  CUevent event;
  GPid process;
  guint32 value;
  int output;

  process = start_exporter (&output);
  g_assert_cmpint (read (output, &message, sizeof message), ==, sizeof message);
  begin ();
  OK (cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, 0);
  OK (cuIpcOpenEventHandle, &event, message.event);
  OK (cuIpcOpenMemHandle, &memory, message.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  FAILS (CUDA_ERROR_ALREADY_MAPPED, cuIpcOpenMemHandle, &again, message.memory,
         CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  OK (cuStreamWaitEvent, stream, event, 0);
  OK (cuMemcpyDtoHAsync, &value, memory + MEGA, 4, stream);
  g_assert_cmpuint (value, ==, 199);
  OK (cuEventSynchronize, event);
  stop_exporter (process, output);

  /* After the exporter is killed, open memory stays valid, but no further handle can be opened. */
  OK (cuMemcpyDtoH, &value, memory, 4);
  g_assert_cmpuint (value, ==, 199);
  OK (cuIpcCloseMemHandle, memory);
  FAILS (CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle, &again, message.memory,
         CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  OK (cuEventDestroy, event);
  OK (cuStreamDestroy, stream);
  end ();
}

static void
test_files (void)
{
  CUmemAllocationProp properties = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 }
  };
  CUmemAccessDesc access = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
                             CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
  CUmemGenericAllocationHandle handle, imported;
  CUdeviceptr address;
  guint32 value;
  int file;

  begin ();
  OK (cuMemCreate, &handle, 2 * MEGA, &properties, 0);
  OK (cuMemExportToShareableHandle, &file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  OK (cuMemImportFromShareableHandle, &imported, GINT_TO_POINTER (file),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  close (file);
  OK (cuMemAddressReserve, &address, 4 * MEGA, 0, 0, 0);
  OK (cuMemMap, address, 2 * MEGA, 0, handle, 0);
  OK (cuMemMap, address + 2 * MEGA, 2 * MEGA, 0, imported, 0);
  OK (cuMemSetAccess, address, 4 * MEGA, &access, 1);
  OK (cuMemsetD32Async, address, 77, MEGA / 2, NULL);
  OK (cuMemcpyDtoH, &value, address + 3 * MEGA, 4);
  g_assert_cmpuint (value, ==, 77);
  OK (cuMemUnmap, address, 4 * MEGA);
  OK (cuMemAddressFree, address, 4 * MEGA);
  OK (cuMemRelease, handle);
  OK (cuMemRelease, imported);
  FAILS (CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle, &imported, GINT_TO_POINTER (0),
         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  end ();
}

void
add_share_tests (void)
{
  g_test_add_func ("/cuda-driver/share/pool", test_pool);
  g_test_add_func ("/cuda-driver/share/virtual", test_virtual);
  g_test_add_func ("/cuda-driver/share/processes", test_processes);
  g_test_add_func ("/cuda-driver/share/files", test_files);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Devices with plausible attributes. */
#include "config.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"

/* The size of the file that holds a device's memory. The file is sparse: freed ranges are punched
 * out. */
#define FILE_SIZE (G_GUINT64_CONSTANT (1) << 42)

Device *devices;

void
devices_init (void)
{
  memory_init ();
  devices = g_new0 (Device, config.n_devices);
  for (guint i = 0; i < config.n_devices; i++)
    {
      Device *device = &devices[i];

      device->ordinal = i;
      device->memory_file = memfd_create ("cuda-device", MFD_CLOEXEC);
      if (device->memory_file < 0 || ftruncate (device->memory_file, FILE_SIZE) != 0)
        g_error ("gpumem-cuda-driver: no memory for a device");
    }
}

Device *
device_find (CUdevice ordinal)
{
  return ordinal >= 0 && (guint) ordinal < config.n_devices ? &devices[ordinal] : NULL;
}

static const struct
{
  CUdevice_attribute attribute;
  int                value;
}
attributes[] = {
  { CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024 },
  { CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024 },
  { CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024 },
  { CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64 },
  { CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647 },
  { CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535 },
  { CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535 },
  { CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152 },
  { CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536 },
  { CU_DEVICE_ATTRIBUTE_WARP_SIZE, WARP },
  { CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647 },
  { CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536 },
  { CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000 },
  { CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512 },
  { CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1 },
  { CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 4 },
  { CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, 16384 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, 16384 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, 16384 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH, 32768 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, 32768 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS, 2048 },
  { CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512 },
  { CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1 },
  { CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0 },
  { CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000 },
  { CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 64 },
  { CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1048576 },
  { CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048 },
  { CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2 },
  { CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH, 32768 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS, 2048 },
  { CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER, 1 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH, 32768 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT, 32768 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE, 8192 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE, 8192 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE, 32768 },
  { CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH, 32768 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH, 32768 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS, 2046 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH, 32768 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH, 131072 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT, 65536 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH, 16384 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT, 16384 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH, 16384 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH, 32768 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS, 2048 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH, 32768 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT, 32768 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS, 2048 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH, 32768 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH, 32768 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS, 2046 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, 268435456 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH, 131072 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, 65000 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH, 2097120 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, 32768 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT, 32768 },
  { CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH, 32768 },
  { CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1 },
  { CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1 },
  { CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1 },
  { CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1 },
  { CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472 },
  { CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536 },
  { CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2 },
  { CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1 },
  { CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1 },
  { CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1 },
  { CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448 },
  { CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1 },
  { CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1 },
  { CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1 },
  { CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1 },
  { CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1 },
  { CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 1 },
  { CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32 },
  { CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024 },
  { CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1 },
  { CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR },
  { CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 1 },
  { CU_DEVICE_ATTRIBUTE_NUMA_ID, -1 },
  { CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0 },
  { CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1 },
};

gboolean
device_can_access (const Device *device,
                   const Device *peer)
{
  if (device == peer || !config.peers)
    return FALSE;
  return MAX (device->ordinal, peer->ordinal) >= G_N_ELEMENTS (config.denied)
         || (config.denied[device->ordinal] >> peer->ordinal & 1) == 0;
}

gboolean
device_is_concurrent (const Device *device)
{
  return device->ordinal < config.concurrent;
}

int
device_get_number (CUdevice_attribute attribute)
{
  for (guint i = 0; i < G_N_ELEMENTS (attributes); i++)
    if (attributes[i].attribute == attribute)
      return attributes[i].value;
  return 0;
}

/* Returns the last attribute that a driver of the configured version supports. */
static CUdevice_attribute
last_attribute (void)
{
  if (config.version >= 13000)
    return CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
  if (config.version >= 12000)
    return CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS;
  return CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES;
}

ENTRY (cuDeviceGetCount, (int *count), (count))
{
  *count = config.n_devices;
  return CUDA_SUCCESS;
}

ENTRY (cuDeviceGet, (CUdevice *device, int ordinal), (device, ordinal))
{
  if (device_find (ordinal) == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

ENTRY (cuDeviceGetName, (char *name, int size, CUdevice device), (name, size, device))
{
  if (device_find (device) == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  if (name == NULL || size <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  g_snprintf (name, size, "Stand-in GPU %d", device);
  return CUDA_SUCCESS;
}

ENTRY (cuDeviceGetUuid, (CUuuid *uuid, CUdevice device), (uuid, device))
{
  if (device_find (device) == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  memset (uuid, 0x5a, sizeof *uuid);
  uuid->bytes[15] = device;
  return CUDA_SUCCESS;
}

ENTRY (cuDeviceTotalMem, (size_t *bytes, CUdevice device), (bytes, device))
{
  if (device_find (device) == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  *bytes = config.memory;
  return CUDA_SUCCESS;
}

ENTRY (cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device),
       (value, attribute, device))
{
  if (device_find (device) == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  if (attribute == 0 || attribute > last_attribute ())
    return CUDA_ERROR_INVALID_VALUE;
  *value = device_get_number (attribute);
  if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
    *value = device + 1;
  else if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
    *value = config.capability / 10;
  else if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    *value = config.capability % 10;
  else if (attribute == CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED)
    *value = config.ipc;
  else if (attribute == CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS ||
           attribute == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS)
    *value = device_is_concurrent (device_find (device));
  return CUDA_SUCCESS;
}

ENTRY (cuDeviceGetPCIBusId, (char *id, int size, CUdevice device), (id, size, device))
{
  if (device_find (device) == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  if (id == NULL || size < 13)
    return CUDA_ERROR_INVALID_VALUE;
  g_snprintf (id, size, "0000:%02X:00.0", device + 1);
  return CUDA_SUCCESS;
}

ENTRY (cuDeviceCanAccessPeer, (int *can_access, CUdevice device, CUdevice peer),
       (can_access, device, peer))
{
  if (device_find (device) == NULL || device_find (peer) == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  *can_access = device_can_access (device_find (device), device_find (peer));
  return CUDA_SUCCESS;
}

/* Returns whether the link of the two devices is faster and has atomics, as NVLink: that of the
 * devices 0 and 1, 2 and 3, and so on. */
static gboolean
is_fast_link (CUdevice device,
              CUdevice peer)
{
  return device / 2 == peer / 2;
}

ENTRY (cuDeviceGetP2PAttribute,
       (int *value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer),
       (value, attribute, device, peer))
{
  if (device_find (device) == NULL || device_find (peer) == NULL || device == peer)
    return CUDA_ERROR_INVALID_DEVICE;
  if (attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
      attribute > CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED)
    return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)
    *value = !is_fast_link (device, peer);
  else
    *value = device_can_access (device_find (device), device_find (peer))
             && (attribute != CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED
                 || is_fast_link (device, peer));
  return CUDA_SUCCESS;
}

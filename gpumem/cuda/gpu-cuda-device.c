/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <stdio.h>

#include "gpumem/cuda/compiler/gpu-cuda-nvrtc.h"
#include "gpumem/cuda/core/gpu-cuda.h"

/* The minimum alignment of cuMemAlloc(). */
#define BASE_ALIGNMENT 256

static gboolean
read_name (GpuCudaDevice  *device,
           GError        **error)
{
  char name[256] = "";
  CUresult code = _gpu_cuda.cuDeviceGetName (name, sizeof name - 1, device->device);

  if (!_gpu_cuda_check (code, "cuDeviceGetName", error))
    return FALSE;

  g_free (device->base.name);
  device->base.name = g_utf8_make_valid (g_strstrip (name), -1);

  return TRUE;
}

static gboolean
read_shape (GpuCudaDevice  *device,
            GError        **error)
{
  const struct
  {
    CUdevice_attribute  attribute;
    int                *value;
  }
  values[] =
  {
    { CU_DEVICE_ATTRIBUTE_WARP_SIZE, &device->warp_size },
    { CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &device->max_threads },
    { CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, &device->max_block[0] },
    { CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, &device->max_block[1] },
    { CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, &device->max_block[2] },
    { CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, &device->max_grid[0] },
    { CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, &device->max_grid[1] },
    { CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, &device->max_grid[2] }
  };

  for (gsize i = 0; i < G_N_ELEMENTS (values); i++)
    {
      if (!_gpu_cuda_device_get (device, values[i].attribute, values[i].value, error))
        return FALSE;
    }

  return TRUE;
}

static gboolean
read_version (GpuCudaDevice  *device,
              GError        **error)
{
  int major = 0;
  int minor = 0;

  if (!_gpu_cuda_device_get (device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major, error) ||
      !_gpu_cuda_device_get (device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor, error))
    return FALSE;

  device->compute_capability = major * 10 + minor;
  g_free (device->base.version);
  device->base.version = g_strdup_printf ("CUDA %d.%d, compute capability %d.%d",
                                          _gpu_cuda.version / 1000,
                                          _gpu_cuda.version % 1000 / 10, major, minor);

  return TRUE;
}

static gboolean
read_size (GpuCudaDevice  *device,
           GError        **error)
{
  size_t size = 0;
  CUresult code = _gpu_cuda.cuDeviceTotalMem (&size, device->device);

  if (!_gpu_cuda_check (code, "cuDeviceTotalMem", error))
    return FALSE;

  device->base.memory_size = size;
  device->base.max_allocation = size;

  return TRUE;
}

/* Formats the PCI bus ID in lower case, as the OpenCL back end does; the driver uses upper case. */
static void
read_pci_bus_id (GpuCudaDevice *device)
{
  char text[64] = "";
  guint domain;
  guint bus;
  guint slot;
  guint function;

  if (_gpu_cuda.cuDeviceGetPCIBusId (text, sizeof text - 1, device->device) == CUDA_SUCCESS &&
      sscanf (text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4)
    device->base.pci_bus_id = g_strdup_printf ("%04x:%02x:%02x.%x", domain, bus, slot, function);
}

static void
read_capabilities (GpuCudaDevice *device)
{
  GpuCapabilities capabilities = GPU_CAPABILITIES_BINARY | GPU_CAPABILITIES_PROFILING |
                                 GPU_CAPABILITIES_MAP | GPU_CAPABILITIES_FP64 |
                                 GPU_CAPABILITIES_LINKING | GPU_CAPABILITIES_GLOBALS;

  if (_gpu_cuda_get_optional (device, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED))
    capabilities |= GPU_CAPABILITIES_PRIORITY;
  if (_gpu_cuda_get_optional (device, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY) &&
      _gpu_cuda_get_optional (device, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED))
    capabilities |= GPU_CAPABILITIES_HOST_POINTER;
  if (device->compute_capability >= 53)
    capabilities |= GPU_CAPABILITIES_FP16;
  if (_gpu_cuda_get_optional (device, CU_DEVICE_ATTRIBUTE_INTEGRATED))
    capabilities |= GPU_CAPABILITIES_HOST_MEMORY;

  device->base.capabilities |= capabilities;
}

/* Atomic operations of host and device on managed memory work if both can access the memory
 * concurrently, even if the link between them does not support native atomics. */
static GpuCapabilities
read_svm (GpuCudaDevice *device)
{
  GpuCapabilities capabilities = 0;

  if (!_gpu_cuda.has[GPU_CUDA_GROUP_MANAGED])
    return 0;

  if (_gpu_cuda_get_optional (device, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY))
    capabilities |= GPU_CAPABILITIES_SVM_COARSE;
  if (_gpu_cuda_get_optional (device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS))
    capabilities |= GPU_CAPABILITIES_SVM_FINE | GPU_CAPABILITIES_SVM_ATOMICS;
  if (_gpu_cuda_get_optional (device, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS))
    capabilities |= GPU_CAPABILITIES_SVM_SYSTEM;

  return capabilities;
}

/* Returns whether memory and events can be shared with other processes. Drivers before CUDA 12
 * support both, but lack the attribute. */
static gboolean
has_ipc (GpuCudaDevice *device)
{
  int value = 0;

  return _gpu_cuda.has[GPU_CUDA_GROUP_IPC] &&
         (!_gpu_cuda_device_get (device, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, &value, NULL) ||
          value != 0);
}

/* Reads the capabilities that depend on a function group of the driver or on the compiler. */
static void
read_optional (GpuCudaDevice *device)
{
  GpuCapabilities capabilities = 0;
  g_autoptr (GError) error = NULL;

  device->cooperative =
    _gpu_cuda_get_optional (device, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH) != 0;
  device->stream_ordered =
    _gpu_cuda.has[GPU_CUDA_GROUP_STREAM_ORDERED] &&
    _gpu_cuda_get_optional (device, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) != 0;
  device->virtual_memory =
    _gpu_cuda.has[GPU_CUDA_GROUP_VIRTUAL_MEMORY] &&
    _gpu_cuda_get_optional (device,
                            CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0;

  device->base.has_host_chunks =
    device->virtual_memory &&
    _gpu_cuda_get_optional
      (device, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0;

  device->gpu_direct_rdma =
    _gpu_cuda_get_optional (device,
                            CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) != 0;

  if (device->cooperative)
    capabilities |= GPU_CAPABILITIES_COOPERATIVE;
  if (device->stream_ordered)
    capabilities |= GPU_CAPABILITIES_STREAM_ORDERED;
  if (device->virtual_memory)
    capabilities |= GPU_CAPABILITIES_VIRTUAL_MEMORY;
  if (has_ipc (device))
    capabilities |= GPU_CAPABILITIES_IPC_HANDLES;
  if (_gpu_cuda.has[GPU_CUDA_GROUP_IMAGE])
    capabilities |= GPU_CAPABILITIES_IMAGES | GPU_CAPABILITIES_IMAGE_FROM_BUFFER |
                    GPU_CAPABILITIES_IMAGE_3D_WRITES | GPU_CAPABILITIES_MIPMAPS |
                    GPU_CAPABILITIES_CUBEMAPS;
  if (device->virtual_memory &&
      _gpu_cuda_get_optional (device,
                              CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
    capabilities |= GPU_CAPABILITIES_IPC_FDS;

  if (_gpu_cuda_nvrtc_load (&error))
    capabilities |= GPU_CAPABILITIES_SOURCE | GPU_CAPABILITIES_ARGUMENT_INFO;
  else
    _gpu_debug_print (GPU_DEBUG_DEVICES, "%s: %s", device->base.id, error->message);

  device->base.capabilities |= capabilities | read_svm (device);
}

/* Returns the reason why the device is unusable, or NULL. Also returns NULL if it sets @error. */
static char *
find_fault (GpuCudaDevice  *device,
            GError        **error)
{
  int mode = 0;
  int unified = 0;

  if (!_gpu_cuda_device_get (device, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, &mode, error) ||
      !_gpu_cuda_device_get (device, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, &unified, error))
    return NULL;

  if (mode == CU_COMPUTEMODE_PROHIBITED)
    return g_strdup ("its compute mode is \"prohibited\"; to allow contexts, run "
                     "nvidia-smi --compute-mode=DEFAULT");
  if (!unified)
    return g_strdup ("it does not share one address space with the host");

  return NULL;
}

/* If the attributes of a device cannot be read, lists the device as unusable, with the reason. */
static void
read_device (GpuCudaDevice *device)
{
  g_autoptr (GError) error = NULL;

  if (read_name (device, &error) && read_version (device, &error) &&
      read_size (device, &error) && read_shape (device, &error))
    device->base.unusable = find_fault (device, &error);
  if (error != NULL)
    device->base.unusable = g_strdup (error->message);

  read_pci_bus_id (device);
  if (device->base.unusable != NULL)
    return;

  read_capabilities (device);
  read_optional (device);
}

/* Gets the release number of NVIDIA's driver, which CUDA does not report. */
static char *
get_driver_version (void)
{
  g_autofree char *text = NULL;

  if (g_file_get_contents ("/sys/module/nvidia/version", &text, NULL, NULL) &&
      g_utf8_validate (text, -1, NULL))
    return g_strstrip (g_steal_pointer (&text));

  return g_strdup_printf ("%d.%d", _gpu_cuda.version / 1000, _gpu_cuda.version % 1000 / 10);
}

static GpuCudaDevice *
create_device (CUdevice handle,
               int      ordinal)
{
  GpuCudaDevice *device = g_new0 (GpuCudaDevice, 1);

  device->device = handle;
  device->ordinal = ordinal;
  device->base.backend = &_gpu_cuda_backend;
  device->base.handle = (guint64) handle;
  device->base.id = g_strdup_printf ("cuda:%d", ordinal);
  device->base.name = g_strdup ("unknown");
  device->base.vendor = g_strdup ("NVIDIA Corporation");
  device->base.platform = g_strdup ("CUDA");
  device->base.version = g_strdup ("unknown");
  device->base.driver_version = get_driver_version ();
  device->base.type = GPU_DEVICE_TYPE_GPU;
  device->base.base_alignment = BASE_ALIGNMENT;
  read_device (device);

  return device;
}

static void
device_free (gpointer data)
{
  GpuCudaDevice *device = data;

  _gpu_native_device_clear (&device->base);
  g_free (device);
}

static gboolean
enumerate (GPtrArray  *devices,
           GError    **error)
{
  g_autoptr (GPtrArray) found = g_ptr_array_new_with_free_func (device_free);
  int n_devices = 0;

  if (!_gpu_cuda_load (error) ||
      !_gpu_cuda_check (_gpu_cuda.cuDeviceGetCount (&n_devices), "cuDeviceGetCount", error))
    return FALSE;

  for (int i = 0; i < n_devices; i++)
    {
      CUdevice handle = 0;
      CUresult code = _gpu_cuda.cuDeviceGet (&handle, i);

      if (code != CUDA_SUCCESS)
        {
          _gpu_cuda_set_error (error, "cuDeviceGet", code, "device %d of %d", i, n_devices);
          return FALSE;
        }
      g_ptr_array_add (found, create_device (handle, i));
    }

  g_ptr_array_set_free_func (found, NULL);
  _gpu_cuda_device_set_known (found);
  g_ptr_array_extend (devices, found, NULL, NULL);

  return TRUE;
}

const GpuDeviceOps _gpu_cuda_device_ops =
{
  .enumerate           = enumerate,
  .get_attributes      = _gpu_cuda_get_attributes,
  .can_access_peer     = _gpu_cuda_can_access_peer,
  .get_peer_attributes = _gpu_cuda_get_peer_attributes
};

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "gpumem/opencl/driver/gpu-opencl.h"

/* Infos of cl_nv_device_attribute_query, which no header defines. */
#define CL_DEVICE_PCI_BUS_ID_NV    0x4008
#define CL_DEVICE_PCI_SLOT_ID_NV   0x4009
#define CL_DEVICE_PCI_DOMAIN_ID_NV 0x400A

static char *
get_platform_text (cl_platform_id     id,
                   cl_platform_info   info,
                   GError           **error)
{
  g_autofree char *text = NULL;
  gsize size = 0;
  cl_int code = clGetPlatformInfo (id, info, 0, NULL, &size);

  if (code == CL_SUCCESS)
    {
      text = g_malloc0 (size + 1);
      code = clGetPlatformInfo (id, info, size, text, NULL);
    }

  if (code != CL_SUCCESS)
    {
      _gpu_opencl_set_error (error, "clGetPlatformInfo", code, "info 0x%04x", info);
      return NULL;
    }

  return _gpu_opencl_clean_text (g_steal_pointer (&text));
}

/* Replaces @text with the text that the driver returns for @info. On error, leaves @text
 * unchanged. */
static gboolean
set_text (char           **text,
          cl_device_id     id,
          cl_device_info   info,
          GError         **error)
{
  char *data = _gpu_opencl_device_get_data (id, info, NULL, error);

  if (data == NULL)
    return FALSE;

  g_free (*text);
  *text = _gpu_opencl_clean_text (data);
  return TRUE;
}

/* Returns 30 for "OpenCL 3.0 vendor", and 0 for text of another form. */
static guint
parse_version (const char *version)
{
  guint major = 0;
  guint minor = 0;

  if (sscanf (version, "OpenCL %u.%u", &major, &minor) != 2 || major > 99 || minor > 9)
    return 0;

  return major * 10 + minor;
}

static gboolean
read_texts (GpuOpenclDevice  *device,
            GError          **error)
{
  g_autofree char *of_device = NULL;
  g_autofree char *of_platform = NULL;
  g_autofree char *both = NULL;

  if (!set_text (&device->base.name, device->id, CL_DEVICE_NAME, error) ||
      !set_text (&device->base.vendor, device->id, CL_DEVICE_VENDOR, error) ||
      !set_text (&device->base.version, device->id, CL_DEVICE_VERSION, error) ||
      !set_text (&device->base.driver_version, device->id, CL_DRIVER_VERSION, error) ||
      !set_text (&of_device, device->id, CL_DEVICE_EXTENSIONS, error))
    return FALSE;

  of_platform = get_platform_text (device->cl_platform, CL_PLATFORM_EXTENSIONS, error);
  if (of_platform == NULL)
    return FALSE;

  both = g_strconcat (of_device, " ", of_platform, NULL);
  g_strfreev (device->extensions);
  device->extensions = g_strsplit (both, " ", -1);
  device->level = parse_version (device->base.version);
  if (g_str_equal (device->base.platform, "Portable Computing Language"))
    device->pocl = MAX (g_ascii_strtoull (device->base.driver_version, NULL, 10), 1);
  return TRUE;
}

static void
read_pci_bus_id (GpuOpenclDevice *device)
{
  cl_device_pci_bus_info_khr pci = { 0 };
  cl_device_topology_amd amd = { 0 };
  gboolean found = FALSE;

  if (_gpu_opencl_device_has (device, "cl_khr_pci_bus_info"))
    found = _gpu_opencl_device_get (device->id, CL_DEVICE_PCI_BUS_INFO_KHR, &pci, sizeof pci, NULL);

  if (!found && _gpu_opencl_device_has (device, "cl_nv_device_attribute_query"))
    {
      cl_uint slot = 0;

      found = _gpu_opencl_device_get (device->id, CL_DEVICE_PCI_BUS_ID_NV, &pci.pci_bus,
                                      sizeof pci.pci_bus, NULL) &&
              _gpu_opencl_device_get (device->id, CL_DEVICE_PCI_SLOT_ID_NV, &slot, sizeof slot,
                                      NULL);
      /* Drivers before 2018 do not report the domain, which stays 0. */
      if (found)
        _gpu_opencl_device_get (device->id, CL_DEVICE_PCI_DOMAIN_ID_NV, &pci.pci_domain,
                                sizeof pci.pci_domain, NULL);
      pci.pci_bus &= 0xff;
      pci.pci_device = slot >> 3;
      pci.pci_function = slot & 7;
    }

  if (!found && _gpu_opencl_device_has (device, "cl_amd_device_attribute_query") &&
      _gpu_opencl_device_get (device->id, CL_DEVICE_TOPOLOGY_AMD, &amd, sizeof amd, NULL) &&
      amd.raw.type == CL_DEVICE_TOPOLOGY_TYPE_PCIE_AMD)
    {
      found = TRUE;
      pci.pci_bus = (guint8) amd.pcie.bus;
      pci.pci_device = (guint8) amd.pcie.device;
      pci.pci_function = (guint8) amd.pcie.function;
    }

  if (found)
    device->base.pci_bus_id = g_strdup_printf ("%04x:%02x:%02x.%x", pci.pci_domain, pci.pci_bus,
                                               pci.pci_device, pci.pci_function);
}

static gboolean
read_sizes (GpuOpenclDevice  *device,
            GError          **error)
{
  cl_ulong memory_size = 0;
  cl_ulong max_allocation = 0;
  cl_uint align_bits = 0;

  if (!_gpu_opencl_device_get (device->id, CL_DEVICE_GLOBAL_MEM_SIZE, &memory_size,
                               sizeof memory_size, error) ||
      !_gpu_opencl_device_get (device->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, &max_allocation,
                               sizeof max_allocation, error) ||
      !_gpu_opencl_device_get (device->id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, &align_bits,
                               sizeof align_bits, error))
    return FALSE;

  device->base.memory_size = memory_size;
  device->base.max_allocation = MIN (max_allocation, G_MAXSIZE);
  device->base.base_alignment = MAX (align_bits / 8, 1);
  return TRUE;
}

static gboolean
get_bool (GpuOpenclDevice *device,
          cl_device_info   info)
{
  cl_bool value = CL_FALSE;

  return _gpu_opencl_device_get (device->id, info, &value, sizeof value, NULL) &&
         value != CL_FALSE;
}

static cl_bitfield
get_bits (GpuOpenclDevice *device,
          cl_device_info   info)
{
  cl_bitfield value = 0;

  return _gpu_opencl_device_get (device->id, info, &value, sizeof value, NULL) ? value : 0;
}

static gboolean
takes_il (GpuOpenclDevice *device)
{
  g_autofree char *versions = NULL;

  if (device->level >= 21 || _gpu_opencl_device_has (device, "cl_khr_il_program"))
    versions = _gpu_opencl_device_get_data (device->id, CL_DEVICE_IL_VERSION, NULL, NULL);
  if (versions == NULL || strstr (versions, "SPIR-V") == NULL)
    return FALSE;

  if (device->api >= 21)
    device->create_with_il = clCreateProgramWithIL;
  else
    device->create_with_il = (clCreateProgramWithILKHR_fn)
      clGetExtensionFunctionAddressForPlatform (device->cl_platform, "clCreateProgramWithILKHR");

  return device->create_with_il != NULL;
}

static GpuCapabilities
read_svm (GpuOpenclDevice *device)
{
  static const struct
  {
    cl_bitfield     bit;
    GpuCapabilities capability;
  } kinds[] =
  {
    { CL_DEVICE_SVM_COARSE_GRAIN_BUFFER, GPU_CAPABILITIES_SVM_COARSE },
    { CL_DEVICE_SVM_FINE_GRAIN_BUFFER, GPU_CAPABILITIES_SVM_FINE },
    { CL_DEVICE_SVM_FINE_GRAIN_SYSTEM, GPU_CAPABILITIES_SVM_SYSTEM },
    { CL_DEVICE_SVM_ATOMICS, GPU_CAPABILITIES_SVM_ATOMICS }
  };
  GpuCapabilities capabilities = 0;
  cl_bitfield bits = 0;

  if (device->level >= 20 && device->api >= 20)
    bits = get_bits (device, CL_DEVICE_SVM_CAPABILITIES);
  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      if (bits & kinds[i].bit)
        capabilities |= kinds[i].capability;
    }

  return capabilities;
}

static GpuCapabilities
read_arithmetic (GpuOpenclDevice *device)
{
  GpuCapabilities capabilities = 0;

  if (_gpu_opencl_device_has (device, "cl_khr_fp16"))
    capabilities |= GPU_CAPABILITIES_FP16;
  if (_gpu_opencl_device_has (device, "cl_khr_fp64") ||
      get_bits (device, CL_DEVICE_DOUBLE_FP_CONFIG) != 0)
    capabilities |= GPU_CAPABILITIES_FP64;

  return capabilities;
}

static void
read_capabilities (GpuOpenclDevice *device)
{
  GpuCapabilities capabilities = GPU_CAPABILITIES_BINARY | GPU_CAPABILITIES_MAP |
                                 GPU_CAPABILITIES_SUB_BUFFERS | GPU_CAPABILITIES_HOST_POINTER;
  cl_bitfield queues = get_bits (device, CL_DEVICE_QUEUE_PROPERTIES);

  if (!_gpu_opencl_device_hangs (device))
    capabilities |= GPU_CAPABILITIES_USER_EVENTS;
  if (get_bool (device, CL_DEVICE_COMPILER_AVAILABLE))
    capabilities |= GPU_CAPABILITIES_SOURCE | GPU_CAPABILITIES_ARGUMENT_INFO;
  if (device->api >= 12 && device->level >= 12 && get_bool (device, CL_DEVICE_LINKER_AVAILABLE))
    capabilities |= GPU_CAPABILITIES_LINKING;
  if (takes_il (device))
    capabilities |= GPU_CAPABILITIES_IL;
  if (queues & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
    capabilities |= GPU_CAPABILITIES_OUT_OF_ORDER;
  if (queues & CL_QUEUE_PROFILING_ENABLE)
    capabilities |= GPU_CAPABILITIES_PROFILING;
  /* Stream priorities are passed as a property to clCreateCommandQueueWithProperties(). */
  if (device->api >= 20 && device->level >= 20 &&
      _gpu_opencl_device_has (device, "cl_khr_priority_hints"))
    capabilities |= GPU_CAPABILITIES_PRIORITY;
  if ((device->level >= 20 && device->level < 30) ||
      (device->level >= 30 && get_bool (device, CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT)))
    capabilities |= GPU_CAPABILITIES_NON_UNIFORM_GROUPS;
  if (device->base.type == GPU_DEVICE_TYPE_CPU ||
      get_bool (device, CL_DEVICE_HOST_UNIFIED_MEMORY))
    capabilities |= GPU_CAPABILITIES_HOST_MEMORY;

  device->base.capabilities = capabilities | read_svm (device) | read_arithmetic (device)
                              | _gpu_opencl_device_read_images (device);
}

static gboolean
read_type (GpuOpenclDevice  *device,
           GError          **error)
{
  cl_device_type type = 0;

  if (!_gpu_opencl_device_get (device->id, CL_DEVICE_TYPE, &type, sizeof type, error))
    return FALSE;

  if (type & CL_DEVICE_TYPE_GPU)
    device->base.type = GPU_DEVICE_TYPE_GPU;
  else if (type & CL_DEVICE_TYPE_CPU)
    device->base.type = GPU_DEVICE_TYPE_CPU;
  else
    device->base.type = GPU_DEVICE_TYPE_ACCELERATOR;

  return TRUE;
}

/* Returns the reason for which the device is unusable, or NULL if the device is usable. On failure,
 * sets @error and returns NULL. */
static char *
find_fault (GpuOpenclDevice  *device,
            GError          **error)
{
  cl_bool available = CL_FALSE;
  cl_bool little = CL_FALSE;

  if (device->level < 12)
    return g_strdup_printf ("its version is \"%s\", but OpenCL 1.2 is required",
                            device->base.version);
  if (device->api < 12)
    return g_strdup_printf ("the version of its platform is \"%s\", but OpenCL 1.2 is required",
                            device->platform_version);
  if (!_gpu_opencl_device_get (device->id, CL_DEVICE_AVAILABLE, &available, sizeof available,
                               error) ||
      !_gpu_opencl_device_get (device->id, CL_DEVICE_ENDIAN_LITTLE, &little, sizeof little, error))
    return NULL;
  if (!available)
    return g_strdup ("its driver reports that it is not available");
  if (little != (G_BYTE_ORDER == G_LITTLE_ENDIAN))
    return g_strdup ("its byte order differs from that of the host");

  return NULL;
}

/* If the infos of a device cannot be read, the device is still listed, as unusable and with the
 * reason. */
static void
read_device (GpuOpenclDevice *device)
{
  g_autoptr (GError) error = NULL;

  if (read_texts (device, &error) && read_type (device, &error) && read_sizes (device, &error))
    device->base.unusable = find_fault (device, &error);
  if (error != NULL)
    device->base.unusable = g_strdup (error->message);
  if (device->base.unusable != NULL)
    return;

  read_pci_bus_id (device);
  read_capabilities (device);
  _gpu_opencl_device_read_external (device);
  _gpu_opencl_device_read_usm (device);
  _gpu_opencl_device_read_addresses (device);
}

static GpuOpenclDevice *
create_device (cl_device_id    id,
               cl_platform_id  platform,
               const char     *platform_name,
               const char     *platform_version,
               char           *name)
{
  GpuOpenclDevice *device = g_new0 (GpuOpenclDevice, 1);

  device->id = id;
  device->cl_platform = platform;
  device->platform_version = g_strdup (platform_version);
  device->api = parse_version (platform_version);
  device->extensions = g_new0 (char *, 1);
  device->base.backend = &_gpu_opencl_backend;
  device->base.handle = (guint64) (guintptr) id;
  device->base.id = name;
  device->base.name = g_strdup ("unknown");
  device->base.vendor = g_strdup ("unknown");
  device->base.version = g_strdup ("unknown");
  device->base.driver_version = g_strdup ("unknown");
  device->base.platform = g_strdup (platform_name);
  device->base.base_alignment = 1;
  device->base.has_short_ids = _gpu_opencl_device_is_nvidia (device);
  read_device (device);

  return device;
}

static void
device_free (gpointer data)
{
  GpuOpenclDevice *device = data;

  _gpu_native_device_clear (&device->base);
  g_free (device->platform_version);
  g_strfreev (device->extensions);
  g_free (device);
}

static gboolean
list_platform (GPtrArray       *devices,
               cl_platform_id   platform,
               guint            index,
               GError         **error)
{
  g_autofree cl_device_id *ids = NULL;
  g_autofree char *name = get_platform_text (platform, CL_PLATFORM_NAME, error);
  g_autofree char *version = NULL;
  cl_uint n_devices = 0;
  cl_int code;

  if (name == NULL)
    return FALSE;
  version = get_platform_text (platform, CL_PLATFORM_VERSION, error);
  if (version == NULL)
    return FALSE;

  code = clGetDeviceIDs (platform, CL_DEVICE_TYPE_ALL, 0, NULL, &n_devices);
  if (code == CL_SUCCESS && n_devices > 0)
    {
      ids = g_new0 (cl_device_id, n_devices);
      code = clGetDeviceIDs (platform, CL_DEVICE_TYPE_ALL, n_devices, ids, NULL);
    }
  else if (code == CL_SUCCESS)
    {
      code = CL_DEVICE_NOT_FOUND;
    }

  if (code != CL_SUCCESS)
    {
      _gpu_opencl_set_error (error, "clGetDeviceIDs", code, "platform %u, \"%s\"", index, name);
      return FALSE;
    }

  for (cl_uint i = 0; i < n_devices; i++)
    g_ptr_array_add (devices, create_device (ids[i], platform, name, version,
                                             g_strdup_printf ("opencl:%u:%u", index, i)));

  return TRUE;
}

static cl_platform_id *
list_platforms (cl_uint  *n_platforms,
                GError  **error)
{
  g_autofree cl_platform_id *platforms = NULL;
  cl_int code = clGetPlatformIDs (0, NULL, n_platforms);

  if (code == CL_SUCCESS && *n_platforms == 0)
    code = CL_PLATFORM_NOT_FOUND_KHR;
  if (code == CL_PLATFORM_NOT_FOUND_KHR)
    {
      _gpu_opencl_set_error (error, "clGetPlatformIDs", code, "no OpenCL driver is installed");
      return NULL;
    }

  if (code == CL_SUCCESS)
    {
      platforms = g_new0 (cl_platform_id, *n_platforms);
      code = clGetPlatformIDs (*n_platforms, platforms, NULL);
    }
  if (code != CL_SUCCESS)
    {
      _gpu_opencl_set_error (error, "clGetPlatformIDs", code, "cannot list the platforms");
      return NULL;
    }

  return g_steal_pointer (&platforms);
}

static gboolean
enumerate (GPtrArray  *devices,
           GError    **error)
{
  g_autoptr (GPtrArray) found = g_ptr_array_new_with_free_func (device_free);
  g_autofree cl_platform_id *platforms = NULL;
  g_autoptr (GError) first = NULL;
  cl_uint n_platforms = 0;

  _gpu_backend_watch_process ();
  if (!_gpu_backend_check_process (error))
    return FALSE;

  platforms = list_platforms (&n_platforms, error);
  if (platforms == NULL)
    return FALSE;

  /* A broken driver must not hide the devices of other drivers. */
  for (cl_uint i = 0; i < n_platforms; i++)
    {
      g_autoptr (GError) local = NULL;

      if (list_platform (found, platforms[i], i, &local))
        continue;
      _gpu_debug_print (GPU_DEBUG_DEVICES, "opencl: %s", local->message);
      if (first == NULL)
        first = g_steal_pointer (&local);
    }

  if (found->len == 0)
    {
      g_propagate_error (error, g_steal_pointer (&first));
      return FALSE;
    }

  g_ptr_array_set_free_func (found, NULL);
  _gpu_opencl_known_devices = g_ptr_array_ref (found);
  for (guint i = 0; i < found->len; i++)
    g_ptr_array_add (devices, g_ptr_array_index (found, i));

  return TRUE;
}

const GpuDeviceOps _gpu_opencl_device_ops =
{
  .enumerate      = enumerate,
  .get_attributes = _gpu_opencl_get_attributes
};

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory that kernels access through its address: support of the driver for addresses of buffers
 * (cl_ext_buffer_device_address), and access through a pointer that is stored in other memory. */
#include "config.h"

#include "gpumem/opencl/driver/gpu-opencl.h"

#define SIZE "%" G_GSIZE_FORMAT

/* Returns 0 if the driver does not implement @extension or does not report its version. */
static cl_version
get_extension_version (GpuOpenclDevice *device,
                       const char      *extension)
{
  gsize size = 0;
  g_autofree cl_name_version *list =
    _gpu_opencl_device_get_data (device->id, CL_DEVICE_EXTENSIONS_WITH_VERSION, &size, NULL);

  for (gsize i = 0; list != NULL && i < size / sizeof *list; i++)
    {
      if (g_str_equal (list[i].name, extension))
        return list[i].version;
    }

  return 0;
}

/* Checks the version, because PoCL 6 implements a draft of the extension with other values. */
void
_gpu_opencl_device_read_addresses (GpuOpenclDevice *device)
{
  const char *extension = "cl_ext_buffer_device_address";

  if (device->api >= 30 && _gpu_opencl_device_has (device, extension)
      && get_extension_version (device, extension) >= CL_MAKE_VERSION (1, 0, 0))
    device->set_address = (GpuOpenclSetDeviceAddress)
      clGetExtensionFunctionAddressForPlatform (device->cl_platform,
                                                "clSetKernelArgDevicePointerEXT");

  device->base.has_addresses = device->set_address != NULL;
  device->base.takes_addresses =
    device->base.has_addresses || device->base.usm_kinds != 0
    || (device->base.capabilities & GPU_CAPABILITIES_SVM_COARSE) != 0;
}

/* Drivers have separate functions for addresses of buffers (clSetKernelArgDevicePointerEXT()) and
 * of shared virtual memory. The wrong function may accept an address without making the memory
 * accessible to the kernel. If the library knows a buffer at @address, it therefore calls only the
 * function for buffers. Otherwise, @address belongs to shared virtual memory, or to a buffer that
 * the library does not know, so the function for buffers is tried last. */
cl_int
_gpu_opencl_set_address (cl_kernel        kernel,
                         GpuOpenclStream *stream,
                         guint            index,
                         guint64          address)
{
  GpuOpenclContext *context = (GpuOpenclContext *) stream->base.context;
  const GpuOpenclDevice *device = stream->device;
  gconstpointer pointer = (gconstpointer) (guintptr) address;
  cl_int code = CL_INVALID_ARG_VALUE;

  if (_gpu_opencl_is_buffer_address (context, address))
    return device->set_address (kernel, index, address);

  if ((device->base.capabilities & GPU_CAPABILITIES_SVM_COARSE) != 0)
    code = clSetKernelArgSVMPointer (kernel, index, pointer);

  if (code != CL_SUCCESS && device->base.usm_kinds != 0)
    code = device->usm.set_argument (kernel, index, pointer);

  if (code != CL_SUCCESS && device->set_address != NULL)
    code = device->set_address (kernel, index, address);

  return code;
}

static gboolean
set_exec_info (GpuOpenclKernel      *kernel,
               cl_kernel             handle,
               cl_kernel_exec_info   info,
               gsize                 size,
               gconstpointer         value,
               GError              **error)
{
  cl_int code = clSetKernelExecInfo (handle, info, size, value);

  if (code == CL_SUCCESS)
    return TRUE;

  _gpu_opencl_set_error (error, "clSetKernelExecInfo", code, "kernel \"%s\", info 0x%04x, " SIZE
                         " bytes", kernel->name, info, size);
  return FALSE;
}

/* Sets kinds of memory instead of a list of pointers: after a list was set with
 * CL_KERNEL_EXEC_INFO_USM_PTRS_INTEL, launches fail with CL_INVALID_OPERATION on Intel's driver. */
static gboolean
set_usm_kinds (GpuOpenclKernel  *kernel,
               cl_kernel         handle,
               GpuSvmFlags       used,
               GError          **error)
{
  static const struct { GpuSvmFlags kind; cl_kernel_exec_info info; } kinds[] =
  {
    { GPU_SVM_FLAGS_USM_DEVICE, CL_KERNEL_EXEC_INFO_INDIRECT_DEVICE_ACCESS_INTEL },
    { GPU_SVM_FLAGS_USM_HOST, CL_KERNEL_EXEC_INFO_INDIRECT_HOST_ACCESS_INTEL },
    { GPU_SVM_FLAGS_USM_SHARED, CL_KERNEL_EXEC_INFO_INDIRECT_SHARED_ACCESS_INTEL }
  };
  const cl_bool yes = CL_TRUE;

  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++)
    if ((used & kinds[i].kind) != 0
        && !set_exec_info (kernel, handle, kinds[i].info, sizeof yes, &yes, error))
      return FALSE;

  return TRUE;
}

/* The indirect memory of a launch, grouped by the kernel infos that make it accessible. */
typedef struct
{
  gpointer    *pointers;            /* shared virtual memory */
  guint        n_pointers;
  cl_ulong    *addresses;           /* of buffers */
  guint        n_addresses;
  GpuSvmFlags  usm_kinds;
  cl_bool      has_system;          /* whether the launch uses memory that the library did not
                                     * allocate. `pointers` does not contain such memory:
                                     * CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM enables access to
                                     * all host memory. */
} Indirect;

/* Returns FALSE for memory without an address. */
static gboolean
add_indirect (Indirect              *indirect,
              const GpuOpenclBuffer *buffer)
{
  if (buffer->svm == NULL && buffer->address == 0)
    return FALSE;

  if (buffer->svm == NULL)
    indirect->addresses[indirect->n_addresses++] = buffer->address - buffer->parent_offset;
  else if (buffer->usm != NULL)
    indirect->usm_kinds |= buffer->usm_kind;
  else if (buffer->svm_allocation == NULL && buffer->parent == NULL)
    indirect->has_system = CL_TRUE;
  else
    indirect->pointers[indirect->n_pointers++] = buffer->svm;

  return TRUE;
}

gboolean
_gpu_opencl_set_indirect (GpuOpenclKernel         *kernel,
                          cl_kernel                handle,
                          GpuOpenclDevice         *device,
                          const GpuLaunchOptions  *options,
                          GError                 **error)
{
  g_autofree gpointer *pointers = g_new (gpointer, options->n_indirect);
  g_autofree cl_ulong *addresses = g_new (cl_ulong, options->n_indirect);
  Indirect used = { .pointers = pointers, .addresses = addresses };

  for (guint i = 0; i < options->n_indirect; i++)
    {
      const GpuOpenclBuffer *buffer = (const GpuOpenclBuffer *) options->indirect[i];

      if (add_indirect (&used, buffer))
        continue;

      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "kernel \"%s\" cannot access memory of " SIZE " bytes indirectly: %s reports no "
                   "address for it", kernel->name, buffer->base.size, device->base.id);
      return FALSE;
    }

  return ((device->base.capabilities & GPU_CAPABILITIES_SVM_SYSTEM) == 0
          || set_exec_info (kernel, handle, CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM,
                            sizeof used.has_system, &used.has_system, error))
         && (used.n_pointers == 0
             || set_exec_info (kernel, handle, CL_KERNEL_EXEC_INFO_SVM_PTRS,
                               used.n_pointers * sizeof *pointers, pointers, error))
         && (used.n_addresses == 0
             || set_exec_info (kernel, handle, CL_KERNEL_EXEC_INFO_DEVICE_PTRS_EXT,
                               used.n_addresses * sizeof *addresses, addresses, error))
         && set_usm_kinds (kernel, handle, used.usm_kinds, error);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/opencl/driver/gpu-opencl.h"

/* The driver may call this function on any thread at any time, so it must not use any object. */
static void CL_CALLBACK
on_driver_message (const char *message,
                   const void *details G_GNUC_UNUSED,
                   size_t      details_size G_GNUC_UNUSED,
                   void       *user_data G_GNUC_UNUSED)
{
  _gpu_debug_print (GPU_DEBUG_ERRORS, "opencl: %s", message);
}

/* Takes ownership of @handle. */
static GpuNativeContext *
new_context (cl_context              handle,
             GpuNativeDevice *const *devices,
             guint                   n_devices)
{
  GpuOpenclContext *context = g_new0 (GpuOpenclContext, 1);

  _gpu_native_context_init (&context->base, &_gpu_opencl_backend, devices, n_devices);
  g_mutex_init (&context->slices_lock);
  g_rw_lock_init (&context->slices_use);
  g_mutex_init (&context->svm_lock);
  g_mutex_init (&context->internal_lock);
  g_mutex_init (&context->ranges_lock);
  g_mutex_init (&context->held_lock);
  g_mutex_init (&context->batch_lock);
  context->context = handle;
  context->ids = g_new (cl_device_id, n_devices);
  for (guint i = 0; i < n_devices; i++)
    context->ids[i] = ((GpuOpenclDevice *) devices[i])->id;

  return &context->base;
}

static gboolean
check_devices (GpuNativeDevice *const  *devices,
               guint                    n_devices,
               GError                 **error)
{
  for (guint i = 0; n_devices > 1 && i < n_devices; i++)
    {
      if (_gpu_opencl_device_hangs ((GpuOpenclDevice *) devices[i]))
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                       "device %s must be the only device of a context: it hangs when it waits for "
                   "another device", devices[i]->id);
          return FALSE;
        }
      if (((GpuOpenclDevice *) devices[i])->cl_platform ==
          ((GpuOpenclDevice *) devices[0])->cl_platform)
        continue;

      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "device %s is of platform \"%s\" and device %s of platform \"%s\": all devices "
                   "of an OpenCL context must be of one platform", devices[0]->id,
                   devices[0]->platform, devices[i]->id, devices[i]->platform);
      return FALSE;
    }

  return _gpu_backend_check_process (error);
}

static GpuNativeContext *
context_create (GpuNativeDevice *const  *devices,
                guint                    n_devices,
                GpuContextFlags          flags,
                GError                 **error)
{
  GpuNativeContext *context;
  GpuOpenclDevice *first = (GpuOpenclDevice *) devices[0];
  const cl_context_properties properties[] =
  {
    CL_CONTEXT_PLATFORM, (cl_context_properties) first->cl_platform, 0
  };
  g_autofree cl_device_id *ids = g_new (cl_device_id, n_devices);
  cl_context handle;
  cl_int code;

  if (!check_devices (devices, n_devices, error))
    return NULL;

  for (guint i = 0; i < n_devices; i++)
    ids[i] = ((GpuOpenclDevice *) devices[i])->id;

  handle = clCreateContext (properties, n_devices, ids, on_driver_message, NULL, &code);
  if (code != CL_SUCCESS)
    {
      _gpu_opencl_set_error (error, "clCreateContext", code, "%u devices, the first is %s",
                             n_devices, devices[0]->id);
      return NULL;
    }

  context = new_context (handle, devices, n_devices);
  context->flags = flags;

  return context;
}

/* Lists the enumerated devices of a foreign context, starting with @device. */
static GPtrArray *
list_foreign_devices (GpuNativeDevice  *device,
                      cl_context        handle,
                      GError          **error)
{
  g_autoptr (GPtrArray) devices = g_ptr_array_new ();
  g_autofree cl_device_id *ids = NULL;
  gboolean found = FALSE;
  gsize size = 0;
  cl_int code = clGetContextInfo (handle, CL_CONTEXT_DEVICES, 0, NULL, &size);

  if (code == CL_SUCCESS)
    {
      ids = g_malloc0 (size + 1);
      code = clGetContextInfo (handle, CL_CONTEXT_DEVICES, size, ids, NULL);
    }
  if (code != CL_SUCCESS)
    {
      _gpu_opencl_set_error (error, "clGetContextInfo", code, "context %p", (gpointer) handle);
      return NULL;
    }

  g_ptr_array_add (devices, device);
  for (gsize i = 0; i < size / sizeof *ids; i++)
    {
      GpuOpenclDevice *other = _gpu_opencl_device_lookup (ids[i]);

      if (ids[i] == ((GpuOpenclDevice *) device)->id)
        found = TRUE;
      else if (other != NULL)
        g_ptr_array_add (devices, other);
    }

  if (!found)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "context %p does not contain device %s", (gpointer) handle, device->id);
      return NULL;
    }

  return g_steal_pointer (&devices);
}

static GpuNativeContext *
context_wrap (GpuNativeDevice  *device,
              guint64           handle,
              GpuWrapMode       mode,
              GError          **error)
{
  cl_context foreign = (cl_context) (guintptr) handle;
  g_autoptr (GPtrArray) devices = NULL;

  if (!_gpu_backend_check_process (error))
    return NULL;

  devices = list_foreign_devices (device, foreign, error);
  if (devices == NULL)
    return NULL;

  if (mode == GPU_WRAP_MODE_BORROW)
    {
      cl_int code = clRetainContext (foreign);

      if (code != CL_SUCCESS)
        {
          _gpu_opencl_set_error (error, "clRetainContext", code, "context %p", (gpointer) foreign);
          return NULL;
        }
    }

  return new_context (foreign, (GpuNativeDevice *const *) devices->pdata, devices->len);
}

static void
context_free (GpuNativeContext *native)
{
  GpuOpenclContext *context = (GpuOpenclContext *) native;

  _gpu_opencl_release_held (context);
  if (context->batch_kernel != NULL)
    clReleaseKernel (context->batch_kernel);
  if (context->internal != NULL)
    clReleaseCommandQueue (context->internal);
  clReleaseContext (context->context);
  g_free (context->ids);
  g_mutex_clear (&context->slices_lock);
  g_rw_lock_clear (&context->slices_use);
  g_clear_pointer (&context->mapped, g_ptr_array_unref);
  g_mutex_clear (&context->svm_lock);
  g_mutex_clear (&context->internal_lock);
  g_clear_pointer (&context->ranges, g_tree_unref);
  g_mutex_clear (&context->ranges_lock);
  g_mutex_clear (&context->held_lock);
  g_mutex_clear (&context->batch_lock);
  _gpu_native_context_clear (native);
  g_free (context);
}

static guint64
context_get_handle (GpuNativeContext *native)
{
  return (guint64) (guintptr) _gpu_opencl_context_handle (native);
}

/* The driver returns the free memory in KiB, optionally followed by the largest free block. */
static gboolean
get_free_of_amd (GpuOpenclDevice  *device,
                 guint64          *free_size,
                 GError          **error)
{
  gsize size = 0;
  g_autofree gsize *kibibytes =
    _gpu_opencl_device_get_data (device->id, CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, &size, error);

  if (kibibytes == NULL)
    return FALSE;

  if (size >= sizeof *kibibytes)
    {
      *free_size = (guint64) kibibytes[0] * 1024;
      return TRUE;
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "CL_DEVICE_GLOBAL_FREE_MEMORY_AMD: %s returns only %" G_GSIZE_FORMAT " bytes",
               device->base.id, size);

  return FALSE;
}

/* OpenCL itself has no query for free memory. */
static gboolean
get_free (GpuOpenclDevice      *device,
          guint64              *free_size,
          GpuMemoryInfoSource  *source,
          GError              **error)
{
  if (_gpu_opencl_device_has (device, "cl_amd_device_attribute_query"))
    {
      *source = GPU_MEMORY_INFO_SOURCE_EXTENSION;
      return get_free_of_amd (device, free_size, error);
    }

  if (device->base.pci_bus_id != NULL && strstr (device->base.vendor, "NVIDIA") != NULL)
    {
      *source = GPU_MEMORY_INFO_SOURCE_NVML;
      return _gpu_opencl_nvml_get_free (device->base.pci_bus_id, free_size, error);
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "the driver of %s does not report how much memory is free", device->base.id);

  return FALSE;
}

static gboolean
context_get_memory_info (GpuNativeContext     *native,
                         guint64              *free_size,
                         guint64              *total_size,
                         GpuMemoryInfoSource  *source,
                         GError              **error)
{
  guint64 available = 0;
  guint64 total = 0;

  for (guint i = 0; i < native->n_devices; i++)
    {
      const guint64 whole = native->devices[i]->memory_size;
      guint64 part = 0;

      if (!get_free ((GpuOpenclDevice *) native->devices[i], &part, source, error))
        return FALSE;

      available += MIN (part, whole);
      total += whole;
    }

  *free_size = available;
  *total_size = total;

  return TRUE;
}

static gboolean
context_get_limit (GpuNativeContext  *native,
                   GpuLimit           limit,
                   guint64           *value,
                   GError           **error)
{
  GpuOpenclContext *context = (GpuOpenclContext *) native;
  gsize size = 0;

  if (limit != GPU_LIMIT_PRINTF_FIFO_SIZE)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "OpenCL only supports the limit GPU_LIMIT_PRINTF_FIFO_SIZE");
      return FALSE;
    }

  if (!_gpu_opencl_device_get (context->ids[0], CL_DEVICE_PRINTF_BUFFER_SIZE, &size, sizeof size,
                               error))
    return FALSE;

  *value = size;
  return TRUE;
}

static gboolean
context_get_api_version (GpuNativeContext  *context,
                         guint             *version,
                         GError           **error G_GNUC_UNUSED)
{
  const guint level = ((GpuOpenclDevice *) context->devices[0])->level;

  *version = level / 10 * 1000 + level % 10 * 10;

  return TRUE;
}

/* Returns the range of priorities that get_priority_hint() distinguishes. */
static gboolean
context_get_priority_range (GpuNativeContext  *context G_GNUC_UNUSED,
                            int               *least,
                            int               *greatest,
                            GError           **error G_GNUC_UNUSED)
{
  *least = 1;
  *greatest = -1;

  return TRUE;
}

/* `flags` are the flags of every context: waiting threads sleep, and contexts are never shared. */
const GpuContextOps _gpu_opencl_context_ops =
{
  .flags           = GPU_CONTEXT_FLAGS_SCHED_BLOCKING | GPU_CONTEXT_FLAGS_MAP_HOST
                     | GPU_CONTEXT_FLAGS_OWN,
  .create          = context_create,
  .wrap            = context_wrap,
  .free            = context_free,
  .get_handle      = context_get_handle,
  .get_memory_info = context_get_memory_info,
  .get_limit       = context_get_limit,
  .get_api_version = context_get_api_version,
  .get_priority_range = context_get_priority_range
};

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/device/gpu-device-private.h"

#include "gpumem/base/gpu-debug-private.h"

/**
 * SECTION:gpu-device
 * @title: GpuDevice
 * @short_description: a processor with memory of its own
 * @see_also: #GpuContext
 */

/**
 * GpuDevice:
 *
 * A GPU, another accelerator, a CPU with a driver, or the host itself.
 *
 * |[<!-- language="C" -->
 * GList *devices = gpu_device_list ();
 *
 * for (GList *l = devices; l != NULL; l = l->next)
 *   g_print ("%s: %s, %" G_GUINT64_FORMAT " MiB\n", gpu_device_get_id (l->data),
 *            gpu_device_get_name (l->data), gpu_device_get_memory_size (l->data) >> 20);
 * g_list_free_full (devices, g_object_unref);
 * ]|
 *
 * gpu_device_list() lists all devices of all back ends, including devices that cannot be used.
 * gpu_device_check() reports why a device cannot be used. gpu_device_get_default() returns the
 * default device, which the environment variable `GPUMEM_DEVICE` can name. gpu_device_find() finds
 * a device by name.
 *
 * The library looks for devices at the first call that needs them. Once a back end has found a
 * driver, the devices of that back end stay the same until the process ends. All callers share one
 * #GpuDevice for each device, which the library keeps until the process ends. A #GpuDevice never
 * changes, and may be used from any thread.
 *
 * Since: 0.1
 */
struct _GpuDevice
{
  GObject          parent_instance;
  GpuNativeDevice *native;          /* NULL for an object of g_object_new() */
};

G_DEFINE_FINAL_TYPE (GpuDevice, gpu_device, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_ID,
  PROP_NAME,
  PROP_BACKEND,
  PROP_VENDOR,
  PROP_PLATFORM,
  PROP_VERSION,
  PROP_DRIVER_VERSION,
  PROP_PCI_BUS_ID,
  PROP_DEVICE_TYPE,
  PROP_CAPABILITIES,
  PROP_MEMORY_SIZE,
  PROP_MAX_ALLOCATION,
  PROP_BASE_ALIGNMENT,
  PROP_NATIVE_HANDLE,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

static void
gpu_device_get_property (GObject    *object,
                         guint       id,
                         GValue     *value,
                         GParamSpec *pspec)
{
  GpuDevice *device = GPU_DEVICE (object);

  switch (id)
    {
    case PROP_ID:
      g_value_set_string (value, gpu_device_get_id (device));
      break;
    case PROP_NAME:
      g_value_set_string (value, gpu_device_get_name (device));
      break;
    case PROP_BACKEND:
      g_value_set_string (value, gpu_device_get_backend (device));
      break;
    case PROP_VENDOR:
      g_value_set_string (value, device->native != NULL ? device->native->vendor : NULL);
      break;
    case PROP_PLATFORM:
      g_value_set_string (value, device->native != NULL ? device->native->platform : NULL);
      break;
    case PROP_VERSION:
      g_value_set_string (value, device->native != NULL ? device->native->version : NULL);
      break;
    case PROP_DRIVER_VERSION:
      g_value_set_string (value, gpu_device_get_driver_version (device));
      break;
    case PROP_PCI_BUS_ID:
      g_value_set_string (value, device->native != NULL ? device->native->pci_bus_id : NULL);
      break;
    case PROP_DEVICE_TYPE:
      g_value_set_enum (value, gpu_device_get_device_type (device));
      break;
    case PROP_CAPABILITIES:
      g_value_set_flags (value, gpu_device_get_capabilities (device));
      break;
    case PROP_MEMORY_SIZE:
      g_value_set_uint64 (value, gpu_device_get_memory_size (device));
      break;
    case PROP_MAX_ALLOCATION:
      g_value_set_uint64 (value, gpu_device_get_max_allocation (device));
      break;
    case PROP_BASE_ALIGNMENT:
      g_value_set_uint64 (value, gpu_device_get_base_alignment (device));
      break;
    case PROP_NATIVE_HANDLE:
      g_value_set_uint64 (value, gpu_device_get_native_handle (device));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
install_names (void)
{
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  /**
   * GpuDevice:id:
   *
   * The unique name of the device for gpu_device_find(), for example `opencl:0:1`.
   *
   * Since: 0.1
   */
  props[PROP_ID] = g_param_spec_string ("id", NULL, NULL, NULL, flags);
  /**
   * GpuDevice:name:
   *
   * The name of the device, as the driver reports it.
   *
   * Since: 0.1
   */
  props[PROP_NAME] = g_param_spec_string ("name", NULL, NULL, NULL, flags);
  /**
   * GpuDevice:backend:
   *
   * The name of the back end of the device, such as `opencl` or `host`.
   *
   * Since: 0.1
   */
  props[PROP_BACKEND] = g_param_spec_string ("backend", NULL, NULL, NULL, flags);
  /**
   * GpuDevice:vendor:
   *
   * The vendor of the device.
   *
   * Since: 0.1
   */
  props[PROP_VENDOR] = g_param_spec_string ("vendor", NULL, NULL, NULL, flags);
  /**
   * GpuDevice:platform:
   *
   * The name of the OpenCL platform of the device.
   *
   * Since: 0.1
   */
  props[PROP_PLATFORM] = g_param_spec_string ("platform", NULL, NULL, NULL, flags);
}

static void
install_versions (void)
{
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  /**
   * GpuDevice:version:
   *
   * The version of the driver API: `OpenCL 3.0 ...`.
   *
   * Since: 0.1
   */
  props[PROP_VERSION] = g_param_spec_string ("version", NULL, NULL, NULL, flags);
  /**
   * GpuDevice:driver-version:
   *
   * The version of the driver.
   *
   * Since: 0.1
   */
  props[PROP_DRIVER_VERSION] = g_param_spec_string ("driver-version", NULL, NULL, NULL, flags);
  /**
   * GpuDevice:pci-bus-id:
   *
   * The PCI bus id of the device: `0000:01:00.0`.
   *
   * Since: 0.1
   */
  props[PROP_PCI_BUS_ID] = g_param_spec_string ("pci-bus-id", NULL, NULL, NULL, flags);
}

static void
install_values (void)
{
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  /**
   * GpuDevice:device-type:
   *
   * The type of the processor.
   *
   * Since: 0.1
   */
  props[PROP_DEVICE_TYPE] =
    g_param_spec_enum ("device-type", NULL, NULL, GPU_TYPE_DEVICE_TYPE, GPU_DEVICE_TYPE_HOST,
                       flags);
  /**
   * GpuDevice:capabilities:
   *
   * The optional features that the device supports.
   *
   * Since: 0.1
   */
  props[PROP_CAPABILITIES] =
    g_param_spec_flags ("capabilities", NULL, NULL, GPU_TYPE_CAPABILITIES, GPU_CAPABILITIES_NONE,
                        flags);
  /**
   * GpuDevice:memory-size:
   *
   * The size of the device's memory, in bytes.
   *
   * Since: 0.1
   */
  props[PROP_MEMORY_SIZE] =
    g_param_spec_uint64 ("memory-size", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * GpuDevice:max-allocation:
   *
   * The maximum size of a buffer, in bytes.
   *
   * Since: 0.1
   */
  props[PROP_MAX_ALLOCATION] =
    g_param_spec_uint64 ("max-allocation", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * GpuDevice:base-alignment:
   *
   * The alignment of buffers and, on most devices, of the offsets of slices, in bytes.
   *
   * Since: 0.1
   */
  props[PROP_BASE_ALIGNMENT] =
    g_param_spec_uint64 ("base-alignment", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * GpuDevice:native-handle:
   *
   * The driver's handle of the device.
   *
   * Since: 0.1
   */
  props[PROP_NATIVE_HANDLE] =
    g_param_spec_uint64 ("native-handle", NULL, NULL, 0, G_MAXUINT64, 0, flags);
}

static void
gpu_device_class_init (GpuDeviceClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = gpu_device_get_property;

  /* Every program needs a device. Parse GPUMEM_DEBUG now, so that "help" prints its list even if
   * the program logs nothing. */
  _gpu_debug_has (0);

  install_names ();
  install_versions ();
  install_values ();
  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_device_init (GpuDevice *device G_GNUC_UNUSED)
{
}

GpuNativeDevice *
_gpu_device_get_native (GpuDevice *device)
{
  return device->native;
}

/* Takes no lock: the library keeps the object. */
GpuDevice *
_gpu_device_new_for_native (GpuNativeDevice *native)
{
  if (g_atomic_pointer_get (&native->object) == NULL)
    {
      GpuDevice *device = g_object_new (GPU_TYPE_DEVICE, NULL);

      device->native = native;

      if (!g_atomic_pointer_compare_and_exchange (&native->object, NULL, device))
        g_object_unref (device);
    }

  return g_object_ref (g_atomic_pointer_get (&native->object));
}

gboolean
_gpu_device_check_initialized (GpuDevice   *device,
                               const char  *function,
                               GError     **error)
{
  if (device->native != NULL)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the device was never initialised; get devices from "
               "gpu_device_list(), gpu_device_find() or gpu_device_get_default()", function);

  return FALSE;
}

/**
 * gpu_device_get_id:
 * @device: a #GpuDevice
 *
 * Gets the unique name of the device for gpu_device_find(). The name consists of the back end and
 * the position of the device in the back end, for example `opencl:0:1`.
 *
 * Returns: (transfer none): the id
 *
 * Since: 0.1
 */
const char *
gpu_device_get_id (GpuDevice *device)
{
  g_return_val_if_fail (GPU_IS_DEVICE (device), NULL);

  return device->native != NULL ? device->native->id : NULL;
}

/**
 * gpu_device_get_name:
 * @device: a #GpuDevice
 *
 * Gets the name of the device (`CL_DEVICE_NAME`, `cuDeviceGetName()`).
 *
 * Returns: (transfer none): the name
 *
 * Since: 0.1
 */
const char *
gpu_device_get_name (GpuDevice *device)
{
  g_return_val_if_fail (GPU_IS_DEVICE (device), NULL);

  return device->native != NULL ? device->native->name : NULL;
}

/**
 * gpu_device_get_backend:
 * @device: a #GpuDevice
 *
 * Gets the back end of the device, one of gpu_device_list_backends().
 *
 * Returns: (transfer none): the name of the back end
 *
 * Since: 0.1
 */
const char *
gpu_device_get_backend (GpuDevice *device)
{
  g_return_val_if_fail (GPU_IS_DEVICE (device), NULL);

  return device->native != NULL ? device->native->backend->name : NULL;
}

/**
 * gpu_device_get_driver_version:
 * @device: a #GpuDevice
 *
 * Gets the version of the driver (`CL_DRIVER_VERSION`, `cuDriverGetVersion()`).
 *
 * Returns: (transfer none): the version
 *
 * Since: 0.1
 */
const char *
gpu_device_get_driver_version (GpuDevice *device)
{
  g_return_val_if_fail (GPU_IS_DEVICE (device), NULL);

  return device->native != NULL ? device->native->driver_version : NULL;
}

/**
 * gpu_device_get_device_type:
 * @device: a #GpuDevice
 *
 * Gets the type of the processor (`CL_DEVICE_TYPE`).
 *
 * Returns: the type
 *
 * Since: 0.1
 */
GpuDeviceType
gpu_device_get_device_type (GpuDevice *device)
{
  g_return_val_if_fail (GPU_IS_DEVICE (device), GPU_DEVICE_TYPE_HOST);

  return device->native != NULL ? device->native->type : GPU_DEVICE_TYPE_HOST;
}

/**
 * gpu_device_get_capabilities:
 * @device: a #GpuDevice
 *
 * Gets the optional features that the device supports. Calls that need other features fail with
 * %GPU_ERROR_NOT_SUPPORTED.
 *
 * Returns: the capabilities
 *
 * Since: 0.1
 */
GpuCapabilities
gpu_device_get_capabilities (GpuDevice *device)
{
  g_return_val_if_fail (GPU_IS_DEVICE (device), GPU_CAPABILITIES_NONE);

  return device->native != NULL ? device->native->capabilities : GPU_CAPABILITIES_NONE;
}

/**
 * gpu_device_get_memory_size:
 * @device: a #GpuDevice
 *
 * Gets the size of the device's memory (`CL_DEVICE_GLOBAL_MEM_SIZE`, `cuDeviceTotalMem()`).
 * gpu_context_get_memory_info() gets the size of the free memory. On the host, the size is the
 * memory size of the machine, or the lowest memory limit of the cgroups of the process if that
 * limit is smaller. The library reads the limits once, when a program first lists the devices.
 *
 * On the host, this size is also a limit: the memory of all contexts of a process together,
 * including page-locked memory, cannot exceed it. An allocation that would exceed the limit fails
 * with %GPU_ERROR_OUT_OF_DEVICE_MEMORY. Memory below the limit is not necessarily free, because
 * other programs and other code of the process also allocate memory. Concurrent allocations may
 * together exceed the limit, because the check reserves nothing. Only #GpuImmediateAllocator also
 * refuses to exceed the free memory.
 *
 * Returns: the size in bytes
 *
 * Since: 0.1
 */
guint64
gpu_device_get_memory_size (GpuDevice *device)
{
  g_return_val_if_fail (GPU_IS_DEVICE (device), 0);

  return device->native != NULL ? device->native->memory_size : 0;
}

/**
 * gpu_device_get_max_allocation:
 * @device: a #GpuDevice
 *
 * Gets the maximum size of a buffer (`CL_DEVICE_MAX_MEM_ALLOC_SIZE`). The size does not depend on
 * the memory that is free.
 *
 * Returns: the size in bytes
 *
 * Since: 0.1
 */
guint64
gpu_device_get_max_allocation (GpuDevice *device)
{
  g_return_val_if_fail (GPU_IS_DEVICE (device), 0);

  return device->native != NULL ? device->native->max_allocation : 0;
}

/**
 * gpu_device_get_base_alignment:
 * @device: a #GpuDevice
 *
 * Gets the alignment of buffers (`CL_DEVICE_MEM_BASE_ADDR_ALIGN`, which counts bits). On devices
 * with %GPU_CAPABILITIES_SUB_BUFFERS, the offsets of gpu_buffer_slice() must be multiples of this
 * alignment.
 *
 * Returns: the alignment in bytes
 *
 * Since: 0.1
 */
gsize
gpu_device_get_base_alignment (GpuDevice *device)
{
  g_return_val_if_fail (GPU_IS_DEVICE (device), 0);

  return device->native != NULL ? device->native->base_alignment : 0;
}

/**
 * gpu_device_get_native_handle:
 * @device: a #GpuDevice
 *
 * Gets the driver's handle: a `cl_device_id` on OpenCL, a `CUdevice` on CUDA. The device owns the
 * handle.
 *
 * Returns: the handle, 0 on the host
 *
 * Since: 0.1
 */
guint64
gpu_device_get_native_handle (GpuDevice *device)
{
  g_return_val_if_fail (GPU_IS_DEVICE (device), 0);

  return device->native != NULL ? device->native->handle : 0;
}

/**
 * gpu_device_check:
 * @device: a #GpuDevice
 * @error: return location for a #GError
 *
 * Checks whether the device can be used. Does not call the driver: the library tests each device
 * when it first lists the devices, and this function returns the stored result.
 *
 * Returns: %TRUE if contexts can be created on the device, or %FALSE with %GPU_ERROR_NO_DEVICE, or
 *   with %GPU_ERROR_INVALID_ARGUMENT if @device is an object of g_object_new()
 *
 * Since: 0.1
 */
gboolean
gpu_device_check (GpuDevice  *device,
                  GError    **error)
{
  g_return_val_if_fail (GPU_IS_DEVICE (device), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (!_gpu_device_check_initialized (device, "gpu_device_check", error))
    return FALSE;

  if (device->native->unusable != NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NO_DEVICE, "%s (%s) cannot be used: %s",
                   device->native->id, device->native->name, device->native->unusable);
      return FALSE;
    }

  return TRUE;
}

/**
 * gpu_device_equal:
 * @a: a #GpuDevice
 * @b: another #GpuDevice
 *
 * Compares two devices.
 *
 * Returns: %TRUE if @a and @b are the same device of the same driver
 *
 * Since: 0.1
 */
gboolean
gpu_device_equal (GpuDevice *a,
                  GpuDevice *b)
{
  g_return_val_if_fail (GPU_IS_DEVICE (a), FALSE);
  g_return_val_if_fail (GPU_IS_DEVICE (b), FALSE);

  return a == b || (a->native != NULL && a->native == b->native);
}

/**
 * gpu_device_hash:
 * @device: a #GpuDevice
 *
 * Computes the hash of a device, for a #GHashTable with gpu_device_equal().
 *
 * Returns: the hash
 *
 * Since: 0.1
 */
guint
gpu_device_hash (GpuDevice *device)
{
  g_return_val_if_fail (GPU_IS_DEVICE (device), 0);

  return g_direct_hash (device->native != NULL ? (gpointer) device->native : (gpointer) device);
}

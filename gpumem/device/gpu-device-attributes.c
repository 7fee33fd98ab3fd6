/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/device/gpu-device-private.h"

static char **
list_capabilities (GpuCapabilities capabilities)
{
  g_autoptr (GFlagsClass) klass = g_type_class_ref (GPU_TYPE_CAPABILITIES);
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  for (guint i = 0; i < klass->n_values; i++)
    {
      if ((capabilities & klass->values[i].value) != 0)
        g_strv_builder_add (builder, klass->values[i].value_nick);
    }

  return g_strv_builder_end (builder);
}

static void
insert_string (GVariantDict *attributes,
               const char   *nick,
               const char   *text)
{
  if (text == NULL)
    return;

  g_variant_dict_insert_value (attributes, nick,
                               g_variant_new_take_string (g_utf8_make_valid (text, -1)));
}

static void
insert_common (GpuNativeDevice *native,
               GVariantDict    *attributes)
{
  g_autoptr (GEnumClass) klass = g_type_class_ref (GPU_TYPE_DEVICE_TYPE);
  g_auto (GStrv) capabilities = list_capabilities (native->capabilities);

  insert_string (attributes, "id", native->id);
  insert_string (attributes, "name", native->name);
  insert_string (attributes, "backend", native->backend->name);
  insert_string (attributes, "vendor", native->vendor);
  insert_string (attributes, "platform", native->platform);
  insert_string (attributes, "version", native->version);
  insert_string (attributes, "driver-version", native->driver_version);
  insert_string (attributes, "pci-bus-id", native->pci_bus_id);
  insert_string (attributes, "unusable", native->unusable);
  insert_string (attributes, "device-type",
                 g_enum_get_value (klass, native->type)->value_nick);
  g_variant_dict_insert (attributes, "capabilities", "^as", capabilities);
  g_variant_dict_insert (attributes, "memory-size", "t", native->memory_size);
  g_variant_dict_insert (attributes, "max-allocation", "t", native->max_allocation);
  g_variant_dict_insert (attributes, "base-alignment", "t", (guint64) native->base_alignment);
  g_variant_dict_insert (attributes, "native-handle", "t", native->handle);
}

/**
 * gpu_device_get_attributes:
 * @device: a #GpuDevice
 * @error: return location for a #GError
 *
 * Gets all attributes of the device as a dictionary. The dictionary contains the properties of
 * #GpuDevice (`name`, `memory-size`, `capabilities` as an array of strings, ...) and everything
 * that the driver reports (`max-work-group-size` for CL_DEVICE_MAX_WORK_GROUP_SIZE, ...). Each call
 * queries the driver. If NVRTC is installed, `nvrtc-architectures` lists the architectures that
 * NVRTC compiles for, in ascending order, for example 90 for `sm_90` and `compute_90` (CUDA:
 * nvrtcGetSupportedArchs).
 *
 * A device that cannot be used has fewer attributes. If the driver refuses to report attributes of
 * such a device, the function omits them and does not fail.
 *
 * Returns: (transfer full): a dictionary of type `a{sv}`, or %NULL with the driver's error
 *
 * Since: 0.1
 */
GVariant *
gpu_device_get_attributes (GpuDevice  *device,
                           GError    **error)
{
  g_auto (GVariantDict) attributes = G_VARIANT_DICT_INIT (NULL);
  g_autoptr (GError) local_error = NULL;
  GpuNativeDevice *native;

  g_return_val_if_fail (GPU_IS_DEVICE (device), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!_gpu_device_check_initialized (device, "gpu_device_get_attributes", error))
    return NULL;

  native = _gpu_device_get_native (device);

  /* A driver may refuse queries of an unusable device. Ignore this error, and return the other
   * attributes of the device. */
  if (!native->backend->device->get_attributes (native, &attributes, &local_error) &&
      native->unusable == NULL)
    {
      g_propagate_prefixed_error (error, g_steal_pointer (&local_error),
                                  "gpu_device_get_attributes: ");
      return NULL;
    }

  insert_common (native, &attributes);

  return g_variant_ref_sink (g_variant_dict_end (&attributes));
}

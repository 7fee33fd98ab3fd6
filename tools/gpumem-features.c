/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "tools/gpumem-features.h"

/* Returns: (transfer full): the nicks of the capabilities of @device, in the order of their bits */
char **
gpumem_list_features (GpuDevice *device)
{
  g_autoptr (GFlagsClass) class = g_type_class_ref (GPU_TYPE_CAPABILITIES);
  g_autoptr (GStrvBuilder) nicks = g_strv_builder_new ();
  guint capabilities = gpu_device_get_capabilities (device);

  for (guint i = 0; i < class->n_values; i++)
    {
      const GFlagsValue *value = &class->values[i];

      if (value->value != 0 && (capabilities & value->value) == value->value)
        g_strv_builder_add (nicks, value->value_nick);
    }
  return g_strv_builder_end (nicks);
}

const char *
gpumem_get_device_type_name (GpuDeviceType type)
{
  g_autoptr (GEnumClass) class = g_type_class_ref (GPU_TYPE_DEVICE_TYPE);
  const GEnumValue *value = g_enum_get_value (class, type);

  return value != NULL ? value->value_nick : "unknown";
}

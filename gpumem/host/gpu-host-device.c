/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "gpumem/base/gpu-memory-limits-private.h"
#include "gpumem/host/gpu-host.h"

#define CAPABILITIES \
  (GPU_CAPABILITIES_OUT_OF_ORDER | GPU_CAPABILITIES_PROFILING | GPU_CAPABILITIES_USER_EVENTS \
   | GPU_CAPABILITIES_MAP | GPU_CAPABILITIES_HOST_POINTER | GPU_CAPABILITIES_ARGUMENT_INFO \
   | GPU_CAPABILITIES_FP64 | GPU_CAPABILITIES_NON_UNIFORM_GROUPS | GPU_CAPABILITIES_HOST_MEMORY \
   | GPU_CAPABILITIES_BINARY | GPU_CAPABILITIES_STREAM_ORDERED | GPU_CAPABILITIES_IPC_FDS \
   | GPU_CAPABILITIES_GLOBALS | GPU_CAPABILITIES_IMAGES | GPU_CAPABILITIES_IMAGE_FROM_BUFFER \
   | GPU_CAPABILITIES_IMAGE_3D_WRITES | GPU_CAPABILITIES_MIPMAPS | GPU_CAPABILITIES_CUBEMAPS \
   | GPU_CAPABILITIES_SVM_COARSE | GPU_CAPABILITIES_SVM_FINE | GPU_CAPABILITIES_SVM_SYSTEM \
   | GPU_CAPABILITIES_SVM_ATOMICS | GPU_CAPABILITIES_VIRTUAL_MEMORY)

static char *
get_name (void)
{
  struct utsname system;
  char *name = _gpu_read_value ("/proc/cpuinfo", "model name");

  if (name != NULL)
    return name;

  return g_strdup (uname (&system) == 0 ? system.machine : "host");
}

static gboolean
host_device_enumerate (GPtrArray  *devices,
                       GError    **error G_GNUC_UNUSED)
{
  GpuNativeDevice *device = g_new0 (GpuNativeDevice, 1);
  char *vendor = _gpu_read_value ("/proc/cpuinfo", "vendor_id");
  guint64 free_size;

  device->backend = &_gpu_host_backend;
  device->id = g_strdup ("host");
  device->name = get_name ();
  device->vendor = vendor != NULL ? vendor : g_strdup ("unknown");
  device->platform = g_strdup ("Host memory");
  device->version = g_strdup_printf ("Host %d", GPU_HOST_ABI_VERSION);
  device->driver_version = g_strdup (PACKAGE_VERSION);
  device->type = GPU_DEVICE_TYPE_HOST;
  device->capabilities = CAPABILITIES;
  _gpu_host_get_memory (&free_size, &device->memory_size, NULL);
  device->max_allocation = MIN (device->memory_size, G_MAXSSIZE);
  device->base_alignment = GPU_HOST_BASE_ALIGNMENT;
  device->has_host_chunks = TRUE;

  if (_gpu_host_compiler_check (NULL))
    device->capabilities |= GPU_CAPABILITIES_SOURCE;

  g_ptr_array_add (devices, device);

  return TRUE;
}

static void
insert_sizes (GpuNativeDevice *device,
              GVariantDict    *attributes)
{
  const guint64 items[3] = { GPU_HOST_MAX_WORK_GROUP_SIZE, GPU_HOST_MAX_WORK_GROUP_SIZE,
                             GPU_HOST_MAX_WORK_GROUP_SIZE };
  const struct
  {
    const char *nick;
    guint64     value;
  }
  sizes[] =
  {
    { "global-mem-size", device->memory_size },
    { "image-max-array-size", GPU_HOST_IMAGE_MAX_SIZE },
    { "image-max-buffer-size", GPU_HOST_IMAGE_MAX_BUFFER_SIZE },
    { "image2d-max-height", GPU_HOST_IMAGE_MAX_SIZE },
    { "image2d-max-width", GPU_HOST_IMAGE_MAX_SIZE },
    { "image3d-max-depth", GPU_HOST_IMAGE_MAX_SIZE },
    { "image3d-max-height", GPU_HOST_IMAGE_MAX_SIZE },
    { "image3d-max-width", GPU_HOST_IMAGE_MAX_SIZE },
    { "local-mem-size", GPU_HOST_LOCAL_MEMORY_SIZE },
    { "max-mem-alloc-size", device->max_allocation },
    { "max-work-group-size", GPU_HOST_MAX_WORK_GROUP_SIZE },
    { "profiling-timer-resolution", 1 }
  };

  for (gsize i = 0; i < G_N_ELEMENTS (sizes); i++)
    g_variant_dict_insert (attributes, sizes[i].nick, "t", sizes[i].value);

  g_variant_dict_insert_value (attributes, "max-work-item-sizes",
                               g_variant_new_fixed_array (G_VARIANT_TYPE_UINT64, items, 3,
                                                          sizeof items[0]));
}

/* Inserts attributes that only some systems report. */
static void
insert_system (GVariantDict *attributes)
{
#ifdef _SC_LEVEL1_DCACHE_LINESIZE
  long line = sysconf (_SC_LEVEL1_DCACHE_LINESIZE);
  long cache = sysconf (_SC_LEVEL3_CACHE_SIZE);

  if (line > 0)
    g_variant_dict_insert (attributes, "global-mem-cacheline-size", "u", (guint32) line);
  if (cache > 0)
    g_variant_dict_insert (attributes, "global-mem-cache-size", "t", (guint64) cache);
#endif
  g_autofree char *frequency = _gpu_read_value ("/proc/cpuinfo", "cpu MHz");

  if (frequency != NULL)
    g_variant_dict_insert (attributes, "max-clock-frequency", "u",
                           (guint32) g_ascii_strtod (frequency, NULL));
}

static gboolean
host_device_get_attributes (GpuNativeDevice  *device,
                            GVariantDict     *attributes,
                            GError          **error G_GNUC_UNUSED)
{
  gboolean has_compiler = (device->capabilities & GPU_CAPABILITIES_SOURCE) != 0;

  g_variant_dict_insert (attributes, "name", "s", device->name);
  g_variant_dict_insert (attributes, "vendor", "s", device->vendor);
  g_variant_dict_insert (attributes, "version", "s", device->version);
  g_variant_dict_insert (attributes, "driver-version", "s", device->driver_version);
  g_variant_dict_insert (attributes, "address-bits", "u", (guint32) GLIB_SIZEOF_VOID_P * 8);
  g_variant_dict_insert (attributes, "max-compute-units", "u", _gpu_host_pool_get_n_threads ());
  g_variant_dict_insert (attributes, "max-work-item-dimensions", "u", (guint32) 3);
  g_variant_dict_insert (attributes, "mem-base-addr-align", "u",
                         (guint32) GPU_HOST_BASE_ALIGNMENT * 8);
  g_variant_dict_insert (attributes, "available", "b", TRUE);
  g_variant_dict_insert (attributes, "compiler-available", "b", has_compiler);
  g_variant_dict_insert (attributes, "linker-available", "b", has_compiler);
  g_variant_dict_insert (attributes, "endian-little", "b", G_BYTE_ORDER == G_LITTLE_ENDIAN);
  g_variant_dict_insert (attributes, "image-support", "b", TRUE);
  g_variant_dict_insert (attributes, "image-pitch-alignment", "u", (guint32) 1);
  g_variant_dict_insert (attributes, "image-base-address-alignment", "u", (guint32) 1);
  g_variant_dict_insert (attributes, "host-unified-memory", "b", TRUE);
  g_variant_dict_insert (attributes, "non-uniform-work-group-support", "b", TRUE);

  if (has_compiler)
    g_variant_dict_insert (attributes, "compiler", "s", _gpu_host_compiler_identify ());

  insert_sizes (device, attributes);
  insert_system (attributes);

  return TRUE;
}

const GpuDeviceOps _gpu_host_device_ops =
{
  .enumerate = host_device_enumerate,
  .get_attributes = host_device_get_attributes
};

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Every attribute of a device. The nick is the name of the attribute without CU_DEVICE_ATTRIBUTE_,
 * in lower case, with dashes. If OpenCL has the same attribute under another name, it is also
 * listed with the nick of OpenCL, so that programs need not distinguish the back ends.
 */
#include "config.h"

#include <string.h>

#include "gpumem/cuda/compiler/gpu-cuda-nvrtc.h"
#include "gpumem/cuda/core/gpu-cuda.h"

/* The kinds of values, each with the type string of its GVariant. */
typedef enum
{
  KIND_BOOL,                /* b */
  KIND_UINT,                /* u */
  KIND_INT,                 /* i */
  KIND_CHOICE,              /* s, the name of the value */
  KIND_FLAGS                /* as, the names of the bits that are set */
} AttributeKind;

typedef struct
{
  CUdevice_attribute  attribute;
  const char         *name;
  AttributeKind       kind;
} AttributeEntry;

typedef struct
{
  CUdevice_attribute  attribute;
  guint               value;
  const char         *name;
} ValueName;

static const AttributeEntry entries[] =
{
#define GPU_CUDA_ATTRIBUTE(name, value, kind) { value, #name, KIND_##kind },
#include "gpumem/cuda/driver/gpu-cuda-attributes.h"
#undef GPU_CUDA_ATTRIBUTE
};

static const ValueName value_names[] =
{
  { CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT, "default" },
  { CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_PROHIBITED, "prohibited" },
  { CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_EXCLUSIVE_PROCESS, "exclusive-process" },
  { CU_DEVICE_ATTRIBUTE_NUMA_CONFIG, 0, "none" },
  { CU_DEVICE_ATTRIBUTE_NUMA_CONFIG, 1, "numa-node" },
  { CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 0, "none" },
  { CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 100, "owner" },
  { CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 200, "all-devices" },
  { CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 1, "host" },
  { CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 2, "memops" },
  { CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 1, "posix-file-descriptor" },
  { CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 2, "win32" },
  { CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 4, "win32-kmt" },
  { CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 8, "fabric" },
  { CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK, 1, "deflate" },
  { CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK, 2, "snappy" },
  { CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK, 4, "lz4" }
};

static GVariant *
from_choice (const AttributeEntry *entry,
             int                   value)
{
  for (gsize i = 0; i < G_N_ELEMENTS (value_names); i++)
    {
      if (value_names[i].attribute == entry->attribute && value_names[i].value == (guint) value)
        return g_variant_new_string (value_names[i].name);
    }

  return g_variant_new_take_string (g_strdup_printf ("%d", value));
}

static GVariant *
from_flags (const AttributeEntry *entry,
            guint                 bits)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_STRING_ARRAY);
  for (gsize i = 0; i < G_N_ELEMENTS (value_names); i++)
    {
      if (value_names[i].attribute != entry->attribute || (bits & value_names[i].value) == 0)
        continue;
      g_variant_builder_add (&builder, "s", value_names[i].name);
      bits &= ~value_names[i].value;
    }
  /* Report bits without a name as one number: a newer driver may define more bits. */
  if (bits != 0)
    g_variant_builder_add_value (&builder,
                                 g_variant_new_take_string (g_strdup_printf ("0x%x", bits)));

  return g_variant_builder_end (&builder);
}

static GVariant *
from_value (const AttributeEntry *entry,
            int                   value)
{
  switch (entry->kind)
    {
    case KIND_BOOL:
      return g_variant_new_boolean (value != 0);
    case KIND_UINT:
      return g_variant_new_uint32 ((guint32) value);
    case KIND_INT:
      return g_variant_new_int32 (value);
    case KIND_CHOICE:
      return from_choice (entry, value);
    case KIND_FLAGS:
      return from_flags (entry, (guint) value);
    default:
      g_assert_not_reached ();
    }
}

static char *
make_nick (const char *name)
{
  g_autofree char *lower = g_ascii_strdown (name, -1);

  return g_strdelimit (g_steal_pointer (&lower), "_", '-');
}

static gboolean
insert_all (GpuCudaDevice  *device,
            GVariantDict   *attributes,
            GError        **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS (entries); i++)
    {
      g_autofree char *nick = NULL;
      int value = 0;
      CUresult code = _gpu_cuda.cuDeviceGetAttribute (&value, entries[i].attribute,
                                                      device->device);

      /* Skip attributes that the driver does not support because it is older. */
      if (code == CUDA_ERROR_INVALID_VALUE || code == CUDA_ERROR_NOT_SUPPORTED)
        continue;
      if (!_gpu_cuda_check (code, "cuDeviceGetAttribute", error))
        return FALSE;

      nick = make_nick (entries[i].name);
      g_variant_dict_insert_value (attributes, nick, from_value (&entries[i], value));
    }

  return TRUE;
}

static void
insert_uuid (GpuCudaDevice *device,
             GVariantDict  *attributes)
{
  CUuuid uuid;

  if (_gpu_cuda_get_uuid (device->device, &uuid))
    g_variant_dict_insert_value (attributes, "uuid",
                                 g_variant_new_take_string (_gpu_cuda_format_uuid (&uuid)));
}

static guint32
get_uint (GVariantDict *attributes,
          const char   *nick)
{
  guint32 value = 0;

  g_variant_dict_lookup (attributes, nick, "u", &value);

  return value;
}

/* Adds the attributes under their OpenCL nicks. */
static void
insert_common (GpuCudaDevice *device,
               GVariantDict  *attributes)
{
  const guint64 items[3] =
  {
    get_uint (attributes, "max-block-dim-x"), get_uint (attributes, "max-block-dim-y"),
    get_uint (attributes, "max-block-dim-z")
  };
  gboolean has_compiler = (device->base.capabilities & GPU_CAPABILITIES_SOURCE) != 0;

  g_variant_dict_insert (attributes, "max-compute-units", "u",
                         get_uint (attributes, "multiprocessor-count"));
  g_variant_dict_insert (attributes, "max-work-group-size", "t",
                         (guint64) get_uint (attributes, "max-threads-per-block"));
  g_variant_dict_insert (attributes, "preferred-work-group-size-multiple", "t",
                         (guint64) get_uint (attributes, "warp-size"));
  g_variant_dict_insert (attributes, "max-work-item-dimensions", "u", (guint32) 3);
  g_variant_dict_insert_value (attributes, "max-work-item-sizes",
                               g_variant_new_fixed_array (G_VARIANT_TYPE_UINT64, items, 3,
                                                          sizeof items[0]));
  /* Report the opt-in limit of shared memory if it is larger than the default limit: a launch that
   * needs more than the default limit raises the limit of its kernel. */
  g_variant_dict_insert (attributes, "local-mem-size", "t",
                         (guint64) MAX (get_uint (attributes, "max-shared-memory-per-block"),
                                        get_uint (attributes,
                                                  "max-shared-memory-per-block-optin")));
  g_variant_dict_insert (attributes, "global-mem-size", "t", device->base.memory_size);
  g_variant_dict_insert (attributes, "max-mem-alloc-size", "t", device->base.max_allocation);
  g_variant_dict_insert (attributes, "global-mem-cache-size", "t",
                         (guint64) get_uint (attributes, "l2-cache-size"));
  g_variant_dict_insert (attributes, "max-clock-frequency", "u",
                         get_uint (attributes, "clock-rate") / 1000);
  g_variant_dict_insert (attributes, "mem-base-addr-align", "u",
                         (guint32) device->base.base_alignment * 8);
  g_variant_dict_insert (attributes, "address-bits", "u", (guint32) 64);
  g_variant_dict_insert (attributes, "endian-little", "b", TRUE);
  g_variant_dict_insert (attributes, "available", "b", device->base.unusable == NULL);
  g_variant_dict_insert (attributes, "compiler-available", "b", has_compiler);
  g_variant_dict_insert (attributes, "linker-available", "b", TRUE);
}

/* Adds the version of NVRTC and the architectures that it supports, in ascending order: 90 for
 * sm_90 and compute_90. */
static void
insert_compiler (GVariantDict *attributes)
{
  GVariantBuilder builder;

  if (!_gpu_cuda_nvrtc_load (NULL))
    return;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("au"));

  for (int i = 0; i < _gpu_cuda_nvrtc.n_architectures; i++)
    g_variant_builder_add (&builder, "u", (guint32) _gpu_cuda_nvrtc.architectures[i]);

  g_variant_dict_insert (attributes, "nvrtc-version", "u", (guint32) _gpu_cuda_nvrtc.version);
  g_variant_dict_insert_value (attributes, "nvrtc-architectures",
                               g_variant_builder_end (&builder));
}

gboolean
_gpu_cuda_get_attributes (GpuNativeDevice  *native,
                          GVariantDict     *attributes,
                          GError          **error)
{
  GpuCudaDevice *device = (GpuCudaDevice *) native;

  if (!insert_all (device, attributes, error))
    return FALSE;

  insert_uuid (device, attributes);
  insert_common (device, attributes);
  g_variant_dict_insert (attributes, "ordinal", "u", (guint32) device->ordinal);
  g_variant_dict_insert (attributes, "cuda-driver-version", "u", (guint32) _gpu_cuda.version);
  insert_compiler (attributes);

  return TRUE;
}

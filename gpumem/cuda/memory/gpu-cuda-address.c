/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"

/* The kinds of values, each with the type string of its GVariant. */
typedef enum
{
  KIND_BOOL,                /* b */
  KIND_INT,                 /* i */
  KIND_NUMBER,              /* t */
  KIND_MEMORY_TYPE,         /* s */
  KIND_HANDLE_TYPES,        /* as */
  KIND_ACCESS               /* s */
} AttributeKind;

typedef struct
{
  const char          *nick;
  CUpointer_attribute  attribute;
  AttributeKind        kind;
} AttributeEntry;

/* Every valid address has the first of these attributes. If the driver does not return it for an
 * address, the whole query fails. Other missing attributes are skipped. */
static const AttributeEntry entries[] =
{
  { "memory-type", CU_POINTER_ATTRIBUTE_MEMORY_TYPE, KIND_MEMORY_TYPE },
  { "context", CU_POINTER_ATTRIBUTE_CONTEXT, KIND_NUMBER },
  { "device-pointer", CU_POINTER_ATTRIBUTE_DEVICE_POINTER, KIND_NUMBER },
  { "host-pointer", CU_POINTER_ATTRIBUTE_HOST_POINTER, KIND_NUMBER },
  { "sync-memops", CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, KIND_BOOL },
  { "buffer-id", CU_POINTER_ATTRIBUTE_BUFFER_ID, KIND_NUMBER },
  { "is-managed", CU_POINTER_ATTRIBUTE_IS_MANAGED, KIND_BOOL },
  { "device-ordinal", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, KIND_INT },
  { "is-legacy-ipc-capable", CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, KIND_BOOL },
  { "range-start", CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, KIND_NUMBER },
  { "range-size", CU_POINTER_ATTRIBUTE_RANGE_SIZE, KIND_NUMBER },
  { "mapped", CU_POINTER_ATTRIBUTE_MAPPED, KIND_BOOL },
  { "allowed-handle-types", CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, KIND_HANDLE_TYPES },
  { "is-gpu-direct-rdma-capable", CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, KIND_BOOL },
  { "access", CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, KIND_ACCESS },
  { "mempool-handle", CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, KIND_NUMBER },
  { "mapping-size", CU_POINTER_ATTRIBUTE_MAPPING_SIZE, KIND_NUMBER },
  { "mapping-base", CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, KIND_NUMBER },
  { "memory-block-id", CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, KIND_NUMBER }
};

static const char *
name_memory_type (guint type)
{
  switch (type)
    {
    case CU_MEMORYTYPE_HOST:
      return "host";
    case CU_MEMORYTYPE_DEVICE:
      return "device";
    case CU_MEMORYTYPE_ARRAY:
      return "array";
    case CU_MEMORYTYPE_UNIFIED:
      return "unified";
    default:
      return "unknown";
    }
}

static const char *
name_access (guint access)
{
  switch (access)
    {
    case CU_MEM_ACCESS_FLAGS_PROT_NONE:
      return "none";
    case CU_MEM_ACCESS_FLAGS_PROT_READ:
      return "read";
    case CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
      return "read-write";
    default:
      return "unknown";
    }
}

static GVariant *
from_handle_types (guint bits)
{
  static const char *const names[] = { "posix-file-descriptor", "win32", "win32-kmt", "fabric" };
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_STRING_ARRAY);
  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    {
      if (bits & (1u << i))
        g_variant_builder_add (&builder, "s", names[i]);
    }

  return g_variant_builder_end (&builder);
}

static GVariant *
from_value (AttributeKind kind,
            guint64       value)
{
  switch (kind)
    {
    case KIND_BOOL:
      return g_variant_new_boolean (value != 0);
    case KIND_INT:
      return g_variant_new_int32 ((gint32) value);
    case KIND_NUMBER:
      return g_variant_new_uint64 (value);
    case KIND_MEMORY_TYPE:
      return g_variant_new_string (name_memory_type ((guint) value));
    case KIND_HANDLE_TYPES:
      return from_handle_types ((guint) value);
    case KIND_ACCESS:
      return g_variant_new_string (name_access ((guint) value));
    default:
      g_assert_not_reached ();
    }
}

static gboolean
insert_all (guint64        address,
            GVariantDict  *attributes,
            GError       **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS (entries); i++)
    {
      /* The driver writes 1, 4 or 8 bytes. A 64-bit variable suffices for all three sizes on a
       * little-endian host, which CUDA requires. */
      guint64 value = 0;
      CUresult code = _gpu_cuda.cuPointerGetAttribute (&value, entries[i].attribute, address);

      if (code == CUDA_SUCCESS)
        {
          g_variant_dict_insert_value (attributes, entries[i].nick,
                                       from_value (entries[i].kind, value));
        }
      /* Skip attributes with these codes: either the memory has no such attribute (device memory,
       * for example, has no host pointer), or the driver does not support the attribute. */
      else if (i == 0 || (code != CUDA_ERROR_INVALID_VALUE && code != CUDA_ERROR_NOT_SUPPORTED))
        {
          _gpu_cuda_set_error (error, "cuPointerGetAttribute", code, "%s of the address 0x%"
                               G_GINT64_MODIFIER "x", entries[i].nick, address);
          return FALSE;
        }
    }

  return TRUE;
}

gboolean
_gpu_cuda_get_address_attributes (GpuNativeContext  *context,
                                  guint64            address,
                                  GVariantDict      *attributes,
                                  GError           **error)
{
  gboolean entered;
  gboolean success;

  if (!_gpu_cuda_enter ((GpuCudaContext *) context, &entered, error))
    return FALSE;

  success = insert_all (address, attributes, error);
  _gpu_cuda_leave (entered);

  return success;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Attributes of addresses. */
#include "config.h"

#include <string.h>

#include "driver.h"

static gboolean
is_of_host (const Memory *memory)
{
  return memory->kind == MEMORY_HOST || memory->kind == MEMORY_REGISTERED ||
         virtual_is_host (memory);
}

/* Gets the reserved range that contains mapped memory. Returns other memory unchanged. */
static const Memory *
get_range (const Memory *memory)
{
  return memory->kind == MEMORY_MAPPED ? memory_find_reserved (memory->address) : memory;
}

static CUresult
get_attribute (const Memory        *memory,
               CUpointer_attribute  attribute,
               guint64              address,
               gpointer             value)
{
  switch (attribute)
    {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *(CUcontext *) value = memory->context;
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *(guint *) value = is_of_host (memory) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *(CUdeviceptr *) value = address;
      break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!is_of_host (memory) && memory->kind != MEMORY_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
      *(gpointer *) value = GSIZE_TO_POINTER (address);
      break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *(guint64 *) value = memory->id;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *(int *) value = memory->device != NULL ? memory->device->ordinal
                                              : memory->context->device->ordinal;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *(CUdeviceptr *) value = get_range (memory)->address;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *(size_t *) value = get_range (memory)->size;
      break;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      *(CUdeviceptr *) value = memory->address;
      break;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      *(size_t *) value = memory->size;
      break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      *(guint *) value = memory->access;
      break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      *(CUmemoryPool *) value = memory->pool;
      break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      *(guint64 *) value = memory->kind == MEMORY_MAPPED
                           ? virtual_get_handle_types (memory) : 0;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
    }
  return CUDA_SUCCESS;
}

static gboolean
get_flag (const Memory        *memory,
          CUpointer_attribute  attribute,
          gpointer             value)
{
  gboolean flag;

  if (attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE)
    flag = memory->kind == MEMORY_DEVICE;
  else if (attribute == CU_POINTER_ATTRIBUTE_MAPPED)
    flag = TRUE;
  else if (attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED)
    flag = memory->kind == MEMORY_MANAGED;
  else if (attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
    flag = FALSE;
  else if (attribute == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE)
    flag = memory->kind == MEMORY_MAPPED && virtual_has_rdma (memory);
  else
    return FALSE;
  *(guint8 *) value = flag;
  return TRUE;
}

static CUresult
get (guint64             address,
     CUpointer_attribute attribute,
     gpointer            value)
{
  Memory *memory = memory_find (address);
  Context *context;

  TRY (context_current (&context));
  if (value == NULL || memory == NULL || memory->freed)
    return CUDA_ERROR_INVALID_VALUE;
  if (get_flag (memory, attribute, value))
    return CUDA_SUCCESS;
  return get_attribute (memory, attribute, address, value);
}

ENTRY (cuPointerGetAttribute, (void *value, CUpointer_attribute attribute, CUdeviceptr address),
       (value, attribute, address))
{
  return get (address, attribute, value);
}

/* Resets an attribute that the address lacks, because cuPointerGetAttributes() returns the default
 * value of such an attribute and no error. */
static void
clear (CUpointer_attribute attribute,
       gpointer            value)
{
  switch (attribute)
    {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      *(guint *) value = 0;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *(int *) value = -2;
      break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      *(guint8 *) value = 0;
      break;
    default:
      memset (value, 0, sizeof (guint64));
      break;
    }
}

ENTRY (cuPointerGetAttributes,
       (unsigned int n_attributes, CUpointer_attribute *attributes, void **values,
        CUdeviceptr address),
       (n_attributes, attributes, values, address))
{
  Context *context;

  TRY (context_current (&context));
  for (guint i = 0; i < n_attributes; i++)
    if (get (address, attributes[i], values[i]) != CUDA_SUCCESS)
      clear (attributes[i], values[i]);
  return CUDA_SUCCESS;
}

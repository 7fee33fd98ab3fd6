/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Entry points that allocate and free device memory and page-locked host memory. */
#include "config.h"

#include "driver.h"

#define PITCH 512
#define HOST_FLAGS (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | \
                    CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | \
                        CU_MEMHOSTREGISTER_READ_ONLY)

/* Finds the device memory or host memory that begins at @address. */
static CUresult
find_start (guint64     address,
            MemoryKind  kind,
            MemoryKind  other_kind,
            Memory    **memory)
{
  *memory = memory_find (address);
  if (*memory != NULL && (*memory)->kind == MEMORY_MANAGED && kind == MEMORY_DEVICE)
    kind = MEMORY_MANAGED;
  if (*memory == NULL || (*memory)->address != address ||
      ((*memory)->kind != kind && (*memory)->kind != other_kind))
    return misuse (CUDA_ERROR_INVALID_VALUE, "0x%" G_GINT64_MODIFIER "x is no start of %s",
                   address, memory_kinds[kind]);
  if ((*memory)->freed)
    return misuse (CUDA_ERROR_INVALID_VALUE, "0x%" G_GINT64_MODIFIER
                   "x, from call %u (%s), was freed before", address, (*memory)->number,
                   call_names[(*memory)->function]);
  return CUDA_SUCCESS;
}

/* --- device memory---------------------------------------------------------------------------- */

ENTRY (cuMemGetInfo, (size_t *free_size, size_t *total_size), (free_size, total_size))
{
  Context *context;

  TRY (context_current (&context));
  *free_size = config.memory - MIN (config.memory,
                                    context->device->used + context->device->pooled);
  *total_size = config.memory;
  return CUDA_SUCCESS;
}

static CUresult
alloc_device (CUdeviceptr *address,
              guint64      size)
{
  Context *context;
  Memory *memory;

  TRY (context_current (&context));
  if (address == NULL || size == 0)
    return CUDA_ERROR_INVALID_VALUE;
  memory = memory_new (MEMORY_DEVICE, context, context->device, size);
  if (memory == NULL)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *address = memory->address;
  return CUDA_SUCCESS;
}

ENTRY (cuMemAlloc, (CUdeviceptr *address, size_t size), (address, size))
{
  return alloc_device (address, size);
}

ENTRY (cuMemAllocPitch,
       (CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
        unsigned int element_size),
       (address, pitch, width, height, element_size))
{
  guint64 size;

  if (element_size != 4 && element_size != 8 && element_size != 16)
    return CUDA_ERROR_INVALID_VALUE;
  if (width > G_MAXSIZE - PITCH)
    return CUDA_ERROR_INVALID_VALUE;
  *pitch = (width + PITCH - 1) / PITCH * PITCH;
  if (!g_uint64_checked_mul (&size, *pitch, height))
    return CUDA_ERROR_OUT_OF_MEMORY;
  return alloc_device (address, size);
}

ENTRY (cuMemFree, (CUdeviceptr address), (address))
{
  Context *context;
  Memory *memory;

  TRY (context_current_lost (&context));
  if (address == 0)
    return context->error;
  TRY (find_start (address, MEMORY_DEVICE, MEMORY_POOL, &memory));
  memory_wait (memory, context->error);
  pool_note_free (memory);
  memory_kill (memory);
  return context->error;
}

ENTRY (cuMemGetAddressRange, (CUdeviceptr *base, size_t *size, CUdeviceptr address),
       (base, size, address))
{
  Context *context;
  Memory *memory = memory_find (address);

  TRY (context_current (&context));
  if (memory == NULL || memory->freed)
    return CUDA_ERROR_NOT_FOUND;
  if (base != NULL)
    *base = memory->address;
  if (size != NULL)
    *size = memory->size;
  return CUDA_SUCCESS;
}

/* --- host memory ------------------------------------------------------------------------------ */

ENTRY (cuMemHostAlloc, (void **data, size_t size, unsigned int flags), (data, size, flags))
{
  Context *context;
  Memory *memory;

  TRY (context_current (&context));
  if (data == NULL || size == 0 || (flags & ~HOST_FLAGS) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!memory_lock (size))
    return CUDA_ERROR_OUT_OF_MEMORY;
  memory = memory_new (MEMORY_HOST, context, NULL, size);
  if (memory == NULL)
    {
      memory_unlock (size);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  memory->flags = flags | CU_MEMHOSTALLOC_DEVICEMAP;
  *data = GSIZE_TO_POINTER (memory->address);
  return CUDA_SUCCESS;
}

ENTRY (cuMemFreeHost, (void *data), (data))
{
  Context *context;
  Memory *memory;

  TRY (context_current_lost (&context));
  TRY (find_start (GPOINTER_TO_SIZE (data), MEMORY_HOST, MEMORY_HOST, &memory));
  memory_wait (memory, context->error);
  memory_kill (memory);
  return context->error;
}

ENTRY (cuMemHostRegister, (void *data, size_t size, unsigned int flags), (data, size, flags))
{
  guint64 address = GPOINTER_TO_SIZE (data);
  Context *context;
  Memory *memory;

  TRY (context_current (&context));
  if (data == NULL || size == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  if ((flags & ~REGISTER_FLAGS) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (memory_is_taken (address, size))
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  if (!memory_lock (size))
    return CUDA_ERROR_OUT_OF_MEMORY;
  memory = memory_new_at (MEMORY_REGISTERED, context, NULL, address, size);
  memory->flags = flags | CU_MEMHOSTALLOC_DEVICEMAP;
  if ((flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0)
    memory->access = CU_MEM_ACCESS_FLAGS_PROT_READ;
  return CUDA_SUCCESS;
}

ENTRY (cuMemHostUnregister, (void *data), (data))
{
  Context *context;
  Memory *memory;

  TRY (context_current_lost (&context));
  TRY (find_start (GPOINTER_TO_SIZE (data), MEMORY_REGISTERED, MEMORY_REGISTERED, &memory));
  memory_wait (memory, context->error);
  memory_kill (memory);
  return context->error;
}

static CUresult
find_host (gconstpointer   data,
           Memory        **memory)
{
  Context *context;

  TRY (context_current (&context));
  *memory = memory_find (GPOINTER_TO_SIZE (data));
  if (*memory == NULL || (*memory)->freed ||
      ((*memory)->kind != MEMORY_HOST && (*memory)->kind != MEMORY_REGISTERED))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

ENTRY (cuMemHostGetDevicePointer, (CUdeviceptr *address, void *data, unsigned int flags),
       (address, data, flags))
{
  Memory *memory;

  TRY (find_host (data, &memory));
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  *address = GPOINTER_TO_SIZE (data);
  return CUDA_SUCCESS;
}

ENTRY (cuMemHostGetFlags, (unsigned int *flags, void *data), (flags, data))
{
  Memory *memory;

  TRY (find_host (data, &memory));
  *flags = memory->flags;
  return CUDA_SUCCESS;
}

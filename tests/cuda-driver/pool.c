/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stream-ordered memory. Addresses are never reused, so a pool only counts bytes and checks use. */
#include "config.h"

#include <string.h>
#include <unistd.h>

#include "driver.h"

#define MAGIC 0x67706f6c

struct CUmemPoolHandle_st
{
  Object      object;
  Device     *device;
  gboolean    is_default;
  guint       handle_types;
  gboolean    exported;         /* its addresses can be exported */
  int         file;             /* -1 for a pool of this process */
  guint64     max_size;         /* 0: the memory size of the device */
  guint64     threshold;
  guint64     peers;            /* bits of other devices with access */
  guint       n_live;           /* allocations that were not freed */
  guint64     used;
  guint64     used_high;
  guint64     reserved;
  guint64     reserved_high;
  int         reuse[3];
};

/* The export data of an address. */
typedef struct
{
  guint64 magic;
  guint64 file_offset;
  guint64 data_size;
  guint64 start;
  guint64 size;
} Export;

static Pool *
pool_new (Device *device)
{
  Pool *pool = object_new (sizeof (Pool), OBJECT_POOL, NULL);

  pool->device = device;
  pool->file = -1;
  for (guint i = 0; i < G_N_ELEMENTS (pool->reuse); i++)
    pool->reuse[i] = 1;
  return pool;
}

static Pool *
get_default (Device *device)
{
  if (device->default_pool == NULL)
    {
      device->default_pool = pool_new (device);
      device->default_pool->is_default = TRUE;
      device->default_pool->object.hidden = TRUE;
    }
  return device->default_pool;
}

static void
set_reserved (Pool    *pool,
              guint64  reserved)
{
  pool->device->pooled -= pool->reserved - pool->used;
  pool->reserved = MAX (reserved, pool->used);
  pool->reserved_high = MAX (pool->reserved_high, pool->reserved);
  pool->device->pooled += pool->reserved - pool->used;
}

static void
add_used (Pool   *pool,
          gint64  size)
{
  pool->device->pooled -= pool->reserved - pool->used;
  pool->used += size;
  pool->used_high = MAX (pool->used_high, pool->used);
  pool->reserved = MAX (pool->reserved, pool->used);
  pool->device->pooled += pool->reserved - pool->used;
  if (size < 0 && pool->reserved > pool->threshold)
    set_reserved (pool, pool->threshold);
  else
    set_reserved (pool, pool->reserved);
}

/* Called when a free is submitted. */
void
pool_note_free (Memory *memory)
{
  if (memory->pool != NULL)
    memory->pool->n_live--;
}

/* Called when the memory is freed. */
void
pool_note_freed (Memory *memory)
{
  if (memory->pool != NULL && memory->pool->file < 0)
    add_used (memory->pool, -(gint64) memory->size);
}

gboolean
pool_reaches (const Memory *memory,
              const Device *device)
{
  const Pool *pool = memory->pool;

  return pool->file >= 0 || pool->device == device ||
         (pool->peers & G_GUINT64_CONSTANT (1) << device->ordinal) != 0;
}

/* --- allocation ------------------------------------------------------------------------------- */

/* Allocates from the pool's reserve first. */
static Memory *
alloc (Pool    *pool,
       Stream  *stream,
       guint64  size)
{
  guint64 reserved = pool->reserved;
  Memory *memory;

  if (pool->max_size != 0 && (size > pool->max_size || pool->used > pool->max_size - size))
    return NULL;
  set_reserved (pool, pool->used);
  memory = memory_new (MEMORY_POOL, NULL, pool->device, size);
  if (memory == NULL)
    {
      /* Wait for the pending frees. */
      context_finish (stream->object.context);
      set_reserved (pool, pool->used);
      memory = memory_new (MEMORY_POOL, NULL, pool->device, size);
    }
  if (memory != NULL)
    {
      memory->pool = pool;
      add_used (pool, size);
    }
  set_reserved (pool, reserved);
  return memory;
}

static CUresult
alloc_async (CUdeviceptr *address,
             gsize        size,
             Pool        *pool,
             CUstream     handle)
{
  Stream *stream;
  Memory *memory;

  TRY (stream_resolve (handle, &stream));
  if (address == NULL || size == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (pool == NULL || stream->capture != 0)
    pool = get_default (stream->object.context->device);
  memory = alloc (pool, stream, size);
  if (memory == NULL)
    return CUDA_ERROR_OUT_OF_MEMORY;
  pool->n_live++;
  if (stream->capture != 0)
    capture_add_memory (stream->capture, memory);
  memory->made = stream_submit (stream, op_new (NULL, NULL, NULL));
  *address = memory->address;
  return CUDA_SUCCESS;
}

ENTRY (cuMemAllocAsync, (CUdeviceptr *address, size_t size, CUstream stream),
       (address, size, stream))
{
  return alloc_async (address, size, NULL, stream);
}

ENTRY (cuMemAllocFromPoolAsync,
       (CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream),
       (address, size, pool, stream))
{
  Stream *resolved;

  TRY (object_check (pool, OBJECT_POOL));
  TRY (stream_resolve (stream, &resolved));
  if (pool->file >= 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (resolved->capture != 0 && pool->handle_types != CU_MEM_HANDLE_TYPE_NONE)
    return CUDA_ERROR_NOT_SUPPORTED;
  return alloc_async (address, size, pool, stream);
}

static void
free_done (gpointer data)
{
  memory_kill (data);
}

/* Memory of a graph is allocated when the graph is launched. The stand-in launches no graphs. */
static CUresult
check_graph (Memory *memory,
             Stream *stream)
{
  if (stream->capture == 0)
    return memory->capture == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  if (memory->capture != stream->capture || memory->freed)
    return misuse (CUDA_ERROR_INVALID_VALUE,
                   "the captured graph did not allocate the memory, or frees it again");
  return CUDA_SUCCESS;
}

ENTRY (cuMemFreeAsync, (CUdeviceptr address, CUstream handle), (address, handle))
{
  Memory *memory = memory_find (address);
  Context *context;
  Stream *stream;
  Op *op;

  TRY (context_current_lost (&context));
  if (memory == NULL || memory->kind != MEMORY_POOL || memory->address != address)
    return misuse (CUDA_ERROR_INVALID_VALUE, "0x%llx is no start of pooled "
                   "memory", address);
  if (memory->freed && memory->capture == 0)
    return misuse (CUDA_ERROR_INVALID_VALUE, "0x%llx was freed before",
                   address);
  /* A failed context runs no further operations: free at once. */
  if (context->error != CUDA_SUCCESS)
    {
      memory_wait (memory, context->error);
      pool_note_free (memory);
      memory_kill (memory);
      return context->error;
    }
  TRY (stream_resolve (handle, &stream));
  TRY (check_graph (memory, stream));
  if (memory->made != NULL && !stream_is_after (stream, memory->made))
    return misuse (CUDA_ERROR_INVALID_VALUE, "the stream does not wait for the allocation");
  for (guint i = 0; i < memory->uses->len; i++)
    if (!stream_is_after (stream, memory->uses->pdata[i]))
      return misuse (CUDA_ERROR_INVALID_VALUE,
                     "the stream does not wait for uses of the memory in other streams");
  memory->freed = TRUE;
  pool_note_free (memory);
  stream->unseen += memory->size;
  context->device->unseen += memory->size;
  op = op_new (NULL, memory_ref (memory), (GDestroyNotify) memory_unref);
  op->done = free_done;
  point_unref (stream_submit (stream, op));
  return CUDA_SUCCESS;
}

/* --- pools ------------------------------------------------------------------------------------ */

ENTRY (cuDeviceGetDefaultMemPool, (CUmemoryPool *pool, CUdevice ordinal), (pool, ordinal))
{
  Device *device = device_find (ordinal);

  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  *pool = get_default (device);
  return CUDA_SUCCESS;
}

ENTRY (cuMemPoolCreate, (CUmemoryPool *pool, const CUmemPoolProps *properties),
       (pool, properties))
{
  Device *device = device_find (properties->location.id);

  if (device == NULL || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      (properties->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (gsize i = 0; i < sizeof properties->reserved; i++)
    if (properties->reserved[i] != 0)
      return misuse (CUDA_ERROR_INVALID_VALUE, "the reserved bytes of CUmemPoolProps are not zero");
  *pool = pool_new (device);
  (*pool)->handle_types = properties->handleTypes;
  (*pool)->max_size = properties->maxSize;
  return CUDA_SUCCESS;
}

ENTRY (cuMemPoolDestroy, (CUmemoryPool pool), (pool))
{
  TRY (object_check (pool, OBJECT_POOL));
  if (pool->is_default)
    return CUDA_ERROR_INVALID_VALUE;
  if (pool->n_live > 0)
    misuse (CUDA_SUCCESS, "%u allocations of the pool are not freed", pool->n_live);
  set_reserved (pool, 0);
  if (pool->file >= 0)
    close (pool->file);
  object_kill (pool);
  return CUDA_SUCCESS;
}

ENTRY (cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep), (pool, keep))
{
  TRY (object_check (pool, OBJECT_POOL));
  keep = MAX (keep, pool->used + pool->device->unseen);
  if (pool->reserved > keep)
    set_reserved (pool, keep);
  return CUDA_SUCCESS;
}

static guint64 *
find_number (Pool                *pool,
             CUmemPool_attribute  attribute)
{
  switch (attribute)
    {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return &pool->threshold;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return &pool->reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return &pool->reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return &pool->used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return &pool->used_high;
    default:
      return NULL;
    }
}

ENTRY (cuMemPoolGetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value),
       (pool, attribute, value))
{
  guint64 *number;

  TRY (object_check (pool, OBJECT_POOL));
  number = find_number (pool, attribute);
  if (number != NULL)
    *(guint64 *) value = *number;
  else if (attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
           attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
    *(int *) value = pool->reuse[attribute - 1];
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

ENTRY (cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value),
       (pool, attribute, value))
{
  TRY (object_check (pool, OBJECT_POOL));
  if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    pool->threshold = *(guint64 *) value;
  else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && *(guint64 *) value == 0)
    pool->reserved_high = pool->reserved;
  else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH && *(guint64 *) value == 0)
    pool->used_high = pool->used;
  else if (attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
           attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
    pool->reuse[attribute - 1] = *(int *) value;
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

ENTRY (cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc *access, size_t n_access),
       (pool, access, n_access))
{
  TRY (object_check (pool, OBJECT_POOL));
  for (gsize i = 0; i < n_access; i++)
    {
      Device *device = device_find (access[i].location.id);

      if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || device == NULL ||
          (device == pool->device && access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
        return CUDA_ERROR_INVALID_VALUE;
      if (device != pool->device && access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE
          && !device_can_access (device, pool->device))
        return CUDA_ERROR_INVALID_DEVICE;
    }
  for (gsize i = 0; i < n_access; i++)
    {
      guint64 bit = G_GUINT64_CONSTANT (1) << access[i].location.id;

      pool->peers = access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE ? pool->peers | bit
                                                                    : pool->peers & ~bit;
    }
  return CUDA_SUCCESS;
}

/* --- sharing with other processes ------------------------------------------------------------- */

ENTRY (cuMemPoolExportToShareableHandle,
       (void *handle, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags),
       (handle, pool, type, flags))
{
  TRY (object_check (pool, OBJECT_POOL));
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags != 0 || pool->file >= 0 ||
      (pool->handle_types & type) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  pool->exported = TRUE;
  *(int *) handle = dup (pool->device->memory_file);
  return *(int *) handle >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

ENTRY (cuMemPoolImportFromShareableHandle,
       (CUmemoryPool *pool, void *handle, CUmemAllocationHandleType type,
        unsigned long long flags),
       (pool, handle, type, flags))
{
  int file = GPOINTER_TO_INT (handle);

  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags != 0 ||
      !file_is_memory (file))
    return CUDA_ERROR_INVALID_VALUE;
  *pool = pool_new (&devices[0]);
  (*pool)->file = dup (file);
  return CUDA_SUCCESS;
}

ENTRY (cuMemPoolExportPointer, (CUmemPoolPtrExportData *data, CUdeviceptr address),
       (data, address))
{
  Memory *memory = memory_find (address);
  Export export = { .magic = MAGIC };

  if (memory == NULL || memory->freed || memory->kind != MEMORY_POOL ||
      memory->pool->handle_types == 0 || !memory->pool->exported || address != memory->address)
    return CUDA_ERROR_INVALID_VALUE;
  export.file_offset = memory->file_offset;
  export.data_size = memory->data_size;
  export.start = memory->address - GPOINTER_TO_SIZE (memory->data);
  export.size = memory->size;
  memset (data, 0, sizeof *data);
  memcpy (data, &export, sizeof export);
  return CUDA_SUCCESS;
}

ENTRY (cuMemPoolImportPointer,
       (CUdeviceptr *address, CUmemoryPool pool, CUmemPoolPtrExportData *data),
       (address, pool, data))
{
  Export export;
  Memory *memory;

  TRY (object_check (pool, OBJECT_POOL));
  memcpy (&export, data, sizeof export);
  if (export.magic != MAGIC || pool->file < 0)
    return CUDA_ERROR_INVALID_VALUE;
  memory = memory_new_file (MEMORY_POOL, NULL, pool->device, pool->file, export.file_offset,
                            export.data_size, export.start, export.size);
  if (memory == NULL)
    return CUDA_ERROR_MAP_FAILED;
  memory->pool = pool;
  pool->n_live++;
  *address = memory->address;
  return CUDA_SUCCESS;
}

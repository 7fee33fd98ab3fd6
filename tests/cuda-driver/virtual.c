/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Virtual memory management: reserved addresses, physical memory, mappings and access rights. */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"

/* In the flags of a mapping: the host may access its memory. Set for memory of a device, which is
 * protected by other means. */
#define HOST_ACCESS 1

#define GRANULARITY (G_GUINT64_CONSTANT (2) << 20)

/* Physical memory. Its handles and mappings hold references. */
typedef struct
{
  guint    refs;
  Device  *device;              /* of memory of the host: the first device */
  gboolean is_host;
  guint64  size;
  guint    handle_types;
  gboolean rdma;                /* network cards can access the memory */
  gboolean imported;
  int      file;
} Physical;

typedef struct
{
  Object    object;
  guint     refs;
  Physical *physical;
} Share;

static Physical *
physical_ref (Physical *physical)
{
  physical->refs++;
  return physical;
}

static void
physical_unref (Physical *physical)
{
  if (--physical->refs > 0)
    return;
  if (physical->is_host)
    memory_unlock (physical->size);
  else if (!physical->imported)
    physical->device->used -= physical->size;
  close (physical->file);
  g_free (physical);
}

/* Called when a mapping is unmapped. */
void
virtual_note_unmapped (Memory *memory)
{
  g_clear_pointer ((Physical **) &memory->share, physical_unref);
}

gboolean
virtual_reaches (const Memory *memory,
                 const Device *device)
{
  if (memory->device == device)
    return memory->access != CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return (memory->peers & G_GUINT64_CONSTANT (1) << device->ordinal) != 0;
}

guint
virtual_get_handle_types (const Memory *memory)
{
  return ((const Physical *) memory->share)->handle_types;
}

gboolean
virtual_has_rdma (const Memory *memory)
{
  return ((const Physical *) memory->share)->rdma;
}

/* Returns whether the stand-in CUDA driver of this or of another process created the file. */
gboolean
file_is_memory (int file)
{
  g_autofree char *path = g_strdup_printf ("/proc/self/fd/%d", file);
  char target[64] = "";

  return readlink (path, target, sizeof target - 1) > 0 &&
         g_str_has_prefix (target, "/memfd:cuda-");
}

gboolean
virtual_is_host (const Memory *memory)
{
  return memory->kind == MEMORY_MAPPED && ((const Physical *) memory->share)->is_host;
}

gboolean
virtual_spans_host (guint64 address,
                    guint64 size)
{
  const Memory *memory = memory_find (address);

  return memory != NULL && virtual_is_host (memory) &&
         size > memory->address + memory->size - address;
}

/* Finds the device at @location, or the first device if that is the only node of the host. */
static Device *
find_location (const CUmemLocation *location,
               gboolean            *is_host)
{
  *is_host = location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  if (*is_host)
    return location->id == 0 ? device_find (0) : NULL;
  return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? device_find (location->id) : NULL;
}

static CUmemGenericAllocationHandle
share_new (Physical *physical)
{
  Share *share = object_new (sizeof (Share), OBJECT_SHARE, NULL);

  share->refs = 1;
  share->physical = physical;
  return GPOINTER_TO_SIZE (share);
}

static CUresult
find_share (CUmemGenericAllocationHandle   handle,
            Share                        **share)
{
  *share = GSIZE_TO_POINTER (handle);
  return object_check (*share, OBJECT_SHARE);
}

/* --- memory ----------------------------------------------------------------------------------- */

ENTRY (cuMemGetAllocationGranularity,
       (size_t *granularity, const CUmemAllocationProp *properties,
        CUmemAllocationGranularity_flags option),
       (granularity, properties, option))
{
  gboolean is_host;

  if (find_location (&properties->location, &is_host) == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  if (properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
    return CUDA_ERROR_INVALID_VALUE;
  *granularity = GRANULARITY;
  return CUDA_SUCCESS;
}

ENTRY (cuMemCreate,
       (CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *properties,
        unsigned long long flags),
       (handle, size, properties, flags))
{
  gboolean is_host;
  Device *device = find_location (&properties->location, &is_host);
  g_autofree char *name = NULL;
  Physical *physical;
  int file;

  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  if (size == 0 || size % GRANULARITY != 0 || flags != 0 ||
      properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->allocFlags.compressionType != 0 || properties->allocFlags.usage != 0 ||
      properties->allocFlags.gpuDirectRDMACapable > 1 ||
      (properties->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (is_host ? !memory_lock (size) : size + device->used + device->pooled > config.memory)
    return CUDA_ERROR_OUT_OF_MEMORY;
  name = g_strdup_printf ("cuda-share-%u", device->ordinal);
  file = memfd_create (name, MFD_CLOEXEC);
  if (file < 0 || ftruncate (file, size) != 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  physical = g_new0 (Physical, 1);
  physical->refs = 1;
  physical->device = device;
  physical->size = size;
  physical->handle_types = properties->requestedHandleTypes;
  physical->rdma = properties->allocFlags.gpuDirectRDMACapable;
  physical->file = file;
  physical->is_host = is_host;
  if (!is_host)
    device->used += size;
  *handle = share_new (physical);
  return CUDA_SUCCESS;
}

ENTRY (cuMemRelease, (CUmemGenericAllocationHandle handle), (handle))
{
  Share *share;

  TRY (find_share (handle, &share));
  if (--share->refs == 0)
    {
      g_clear_pointer (&share->physical, physical_unref);
      object_kill (share);
    }
  return CUDA_SUCCESS;
}

/* --- addresses -------------------------------------------------------------------------------- */

ENTRY (cuMemAddressReserve,
       (CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr fixed,
        unsigned long long flags),
       (address, size, alignment, fixed, flags))
{
  Memory *memory;
  guint8 *map;
  guint64 map_size;
  guint64 start;

  (void) fixed;
  if (size == 0 || size % GRANULARITY != 0 || (alignment & (alignment - 1)) != 0 || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  alignment = MAX (alignment, GRANULARITY);
  if (size > G_MAXINT64 / 2 - alignment)
    return CUDA_ERROR_OUT_OF_MEMORY;
  map_size = size + alignment;
  map = mmap (NULL, map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  start = (GPOINTER_TO_SIZE (map) + alignment - 1) / alignment * alignment;
  memory = memory_new_at (MEMORY_RESERVED, NULL, NULL, start, size);
  memory->map = map;
  memory->map_size = map_size;
  memory->data = GSIZE_TO_POINTER (start);
  memory->data_size = size;
  *address = start;
  return CUDA_SUCCESS;
}

static Memory *
find_mapping (guint64 address,
              guint64 size)
{
  for (guint64 offset = 0; offset < size; offset += GRANULARITY)
    {
      Memory *memory = memory_find (address + offset);

      if (memory != NULL && !memory->freed)
        return memory;
    }
  return NULL;
}

ENTRY (cuMemAddressFree, (CUdeviceptr address, size_t size), (address, size))
{
  Memory *memory = memory_find_reserved (address);

  if (memory == NULL || memory->freed || memory->address != address || memory->size != size)
    return misuse (CUDA_ERROR_INVALID_VALUE, "0x%llx and %zu bytes were not "
                   "reserved so", address, size);
  if (find_mapping (address, size) != NULL)
    return misuse (CUDA_ERROR_INVALID_VALUE, "memory is mapped there");
  memory_kill (memory);
  return CUDA_SUCCESS;
}

/* --- mappings --------------------------------------------------------------------------------- */

ENTRY (cuMemMap,
       (CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
        unsigned long long flags),
       (address, size, offset, handle, flags))
{
  Memory *reserved = memory_find_reserved (address);
  Memory *memory;
  Share *share;

  TRY (find_share (handle, &share));
  if (size == 0 || size % GRANULARITY != 0 || offset != 0 || flags != 0 ||
      address % GRANULARITY != 0 || size != share->physical->size)
    return CUDA_ERROR_INVALID_VALUE;
  if (reserved == NULL || reserved->freed || reserved->address + reserved->size - address < size ||
      find_mapping (address, size) != NULL)
    return misuse (CUDA_ERROR_INVALID_VALUE,
                   "0x%llx: the addresses are not reserved, or in use", address);
  if (!memory_map_file (address, size, share->physical->file, 0, PROT_NONE))
    return CUDA_ERROR_MAP_FAILED;
  memory = memory_new_at (MEMORY_MAPPED, NULL, share->physical->device, address, size);
  memory->data = GSIZE_TO_POINTER (address);
  memory->data_size = size;
  memory->share = physical_ref (share->physical);
  memory->access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  memory->flags = share->physical->is_host ? 0 : HOST_ACCESS;
  return CUDA_SUCCESS;
}

/* Finds the mappings that exactly cover a range. (nullable) */
static GPtrArray *
find_mappings (guint64 address,
               guint64 size)
{
  g_autoptr (GPtrArray) list = g_ptr_array_new ();
  guint64 end = address + size;

  while (address < end)
    {
      Memory *memory = memory_find (address);

      if (memory == NULL || memory->freed || memory->kind != MEMORY_MAPPED ||
          memory->address != address || memory->size > end - address)
        return NULL;
      g_ptr_array_add (list, memory);
      address += memory->size;
    }
  return g_steal_pointer (&list);
}

/* Returns the error of a context that has failed, or CUDA_SUCCESS. A mapping belongs to no context,
 * so operations of any failed context may have used the mapping. */
static CUresult
any_error (void)
{
  g_autoptr (GPtrArray) contexts = object_list (OBJECT_CONTEXT, NULL);

  for (guint i = 0; i < contexts->len; i++)
    if (((Context *) contexts->pdata[i])->error != CUDA_SUCCESS)
      return ((Context *) contexts->pdata[i])->error;
  return CUDA_SUCCESS;
}

ENTRY (cuMemUnmap, (CUdeviceptr address, size_t size), (address, size))
{
  g_autoptr (GPtrArray) list = find_mappings (address, size);

  if (list == NULL)
    return misuse (CUDA_ERROR_INVALID_VALUE, "0x%llx and %zu bytes were not mapped so", address,
                   size);
  for (guint i = 0; i < list->len; i++)
    {
      Memory *memory = list->pdata[i];

      memory_wait (memory, any_error ());
      memory_kill (memory);
    }
  return CUDA_SUCCESS;
}

/* Returns FALSE if the pages cannot be mapped with this access. */
static gboolean
set_access (Memory                *memory,
            const CUmemAccessDesc *access)
{
  const guint64 bit = G_GUINT64_CONSTANT (1) << access->location.id;
  int protection;

  if (access->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
    memory->flags = HOST_ACCESS;
  else if ((guint) access->location.id == memory->device->ordinal)
    memory->access = access->flags;
  else if (access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
    memory->peers |= bit;
  else
    memory->peers &= ~bit;

  protection = memory->flags != HOST_ACCESS
               ? PROT_NONE
               : memory->peers != 0 || memory->access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE
               ? PROT_READ | PROT_WRITE
               : memory->access == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ : PROT_NONE;

  if (!memory_map_file (memory->address, memory->size, ((Physical *) memory->share)->file, 0,
                        protection))
    return FALSE;
  if (virtual_is_host (memory) && protection == (PROT_READ | PROT_WRITE))
    memory_close_to_host (memory, FALSE);
  return TRUE;
}

ENTRY (cuMemSetAccess,
       (CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t n_access),
       (address, size, access, n_access))
{
  g_autoptr (GPtrArray) list = find_mappings (address, size);
  gboolean is_host;

  if (list == NULL || list->len == 0 ||
      memory_find_reserved (address) != memory_find_reserved (address + size - 1))
    return misuse (CUDA_ERROR_INVALID_VALUE, "0x%llx and %zu bytes are no whole mappings in one "
                   "range of addresses", address, size);
  if (n_access == 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (gsize i = 0; i < n_access; i++)
    if (find_location (&access[i].location, &is_host) == NULL ||
        (is_host && !virtual_is_host (list->pdata[0])))
      return CUDA_ERROR_INVALID_VALUE;
  for (guint i = 0; i < list->len; i++)
    for (gsize j = 0; j < n_access; j++)
      {
        Memory *memory = list->pdata[i];
        Device *device = device_find (access[j].location.id);

        if (!virtual_is_host (memory) && device != memory->device
            && access[j].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE
            && !device_can_access (device, memory->device))
          return CUDA_ERROR_INVALID_DEVICE;
        if (!set_access (memory, &access[j]))
          return CUDA_ERROR_MAP_FAILED;
      }
  return CUDA_SUCCESS;
}

ENTRY (cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle *handle, void *address),
       (handle, address))
{
  Memory *memory = memory_find (GPOINTER_TO_SIZE (address));

  if (memory == NULL || memory->freed || memory->kind != MEMORY_MAPPED)
    return CUDA_ERROR_INVALID_VALUE;
  *handle = share_new (physical_ref (memory->share));
  return CUDA_SUCCESS;
}

/* --- between processes ------------------------------------------------------------------------ */

ENTRY (cuMemExportToShareableHandle,
       (void *handle, CUmemGenericAllocationHandle allocation, CUmemAllocationHandleType type,
        unsigned long long flags),
       (handle, allocation, type, flags))
{
  Share *share;

  TRY (find_share (allocation, &share));
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags != 0 ||
      (share->physical->handle_types & type) == 0 || share->physical->imported)
    return CUDA_ERROR_INVALID_VALUE;
  *(int *) handle = fcntl (share->physical->file, F_DUPFD_CLOEXEC, 0);
  return *(int *) handle >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

/* Finds the device of imported memory by the name of the memory's file. */
static Device *
find_device (int file)
{
  g_autofree char *path = g_strdup_printf ("/proc/self/fd/%d", file);
  char target[64] = "";
  guint ordinal;

  if (readlink (path, target, sizeof target - 1) <= 0 ||
      sscanf (target, "/memfd:cuda-share-%u", &ordinal) != 1)
    return NULL;
  return device_find (ordinal);
}

ENTRY (cuMemImportFromShareableHandle,
       (CUmemGenericAllocationHandle *allocation, void *handle, CUmemAllocationHandleType type),
       (allocation, handle, type))
{
  int file = GPOINTER_TO_INT (handle);
  Physical *physical;
  struct stat info;
  Device *device;

  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !file_is_memory (file) ||
      fstat (file, &info) != 0 || info.st_size % GRANULARITY != 0)
    return CUDA_ERROR_INVALID_VALUE;
  device = find_device (file);
  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  physical = g_new0 (Physical, 1);
  physical->refs = 1;
  physical->device = device;
  physical->size = info.st_size;
  physical->handle_types = type;
  physical->imported = TRUE;
  physical->file = fcntl (file, F_DUPFD_CLOEXEC, 0);
  *allocation = share_new (physical);
  return CUDA_SUCCESS;
}

/* Returns the memfd of the allocation, instead of a dma-buf. */
ENTRY (cuMemGetHandleForAddressRange,
       (void *handle, CUdeviceptr address, size_t size, CUmemRangeHandleType type,
        unsigned long long flags),
       (handle, address, size, type, flags))
{
  Memory *memory = memory_find (address);

  if (memory == NULL || memory->freed || memory->kind != MEMORY_MAPPED ||
      type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags != 0 ||
      memory->address != address || memory->size != size)
    return CUDA_ERROR_INVALID_VALUE;
  *(int *) handle = fcntl (((Physical *) memory->share)->file, F_DUPFD_CLOEXEC, 0);
  return *(int *) handle >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

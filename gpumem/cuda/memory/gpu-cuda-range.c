/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Address ranges, and the allocations mapped there. cuMemSetAccess() only affects memory that is
 * mapped at the time of the call. Therefore each context lists its ranges and their mappings, to
 * grant access to peers that are enabled later. */
#include "config.h"

#include <fcntl.h>
#include <unistd.h>

#include "gpumem/cuda/core/gpu-cuda-current.h"

/* A range of mapped allocations without gaps between them. */
typedef struct
{
  const GpuCudaRange    *range;
  const CUmemAccessDesc *access;
  gsize                  begin;
  gsize                  end;
  CUresult               code;
} Extent;

static int
compare_offsets (gconstpointer a,
                 gconstpointer b,
                 gpointer      data G_GNUC_UNUSED)
{
  const gsize one = GPOINTER_TO_SIZE (a);
  const gsize other = GPOINTER_TO_SIZE (b);

  return (one > other) - (one < other);
}

/* --- access ----------------------------------------------------------------------------------- */

guint
_gpu_cuda_list_access (GpuCudaContext  *context,
                       CUmemAccessDesc  access[GPU_CUDA_MAX_PEERS + 1])
{
  guint64 peers = __atomic_load_n (&context->peers, __ATOMIC_RELAXED);
  guint n = 1;

  access[0].location.id = context->device->device;
  for (int i = 0; i < GPU_CUDA_MAX_PEERS; i++)
    {
      if (peers & (G_GUINT64_CONSTANT (1) << i))
        access[n++].location.id = i;
    }

  for (guint i = 0; i < n; i++)
    {
      access[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      access[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }

  return n;
}

static void
extent_set_access (Extent *extent)
{
  if (extent->end > extent->begin && extent->code == CUDA_SUCCESS)
    extent->code = _gpu_cuda.cuMemSetAccess (extent->range->address + extent->begin,
                                             extent->end - extent->begin, extent->access, 1);
}

static gboolean
extent_add (gpointer key,
            gpointer value,
            gpointer data)
{
  const gsize offset = GPOINTER_TO_SIZE (key);
  Extent *extent = data;

  if (offset != extent->end)
    {
      extent_set_access (extent);
      extent->begin = offset;
    }

  extent->end = offset + GPOINTER_TO_SIZE (value);

  return extent->code != CUDA_SUCCESS;
}

static CUresult
range_set_access (const GpuCudaRange    *range,
                  const CUmemAccessDesc *access)
{
  Extent extent = { .range = range, .access = access };

  g_tree_foreach (range->mapped, extent_add, &extent);
  extent_set_access (&extent);

  return extent.code;
}

gboolean
_gpu_cuda_ranges_set_access_locked (GpuCudaContext         *context,
                                    const CUmemAccessDesc  *access,
                                    GError                **error)
{
  CUmemAccessDesc before = *access;
  CUresult code = CUDA_SUCCESS;
  guint n = 0;

  before.flags = access->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                                : CU_MEM_ACCESS_FLAGS_PROT_NONE;

  while (n < context->ranges->len && code == CUDA_SUCCESS)
    code = range_set_access (context->ranges->pdata[n++], access);

  if (code == CUDA_SUCCESS)
    return TRUE;

  while (n > 0)
    range_set_access (context->ranges->pdata[--n], &before);

  _gpu_cuda_set_error (error, "cuMemSetAccess", code, "flags %u of device %d for memory of %s",
                       access->flags, access->location.id, context->base.devices[0]->id);

  return FALSE;
}

/* --- ranges ----------------------------------------------------------------------------------- */

GpuCudaRange *
_gpu_cuda_range_new (GpuCudaContext  *context,
                     gsize            size,
                     GError         **error)
{
  CUdeviceptr address = 0;
  CUresult code = _gpu_cuda.cuMemAddressReserve (&address, size, 0, 0, 0);
  GpuCudaRange *range;

  if (code != CUDA_SUCCESS)
    {
      _gpu_cuda_set_error (error, "cuMemAddressReserve", code, "%" G_GSIZE_FORMAT " bytes", size);
      return NULL;
    }

  range = g_new0 (GpuCudaRange, 1);
  range->address = address;
  range->size = size;
  range->mapped = g_tree_new_full (compare_offsets, NULL, NULL, NULL);

  g_mutex_lock (&context->ranges_lock);
  g_ptr_array_add (context->ranges, range);
  g_mutex_unlock (&context->ranges_lock);

  return range;
}

GpuCudaRange *
_gpu_cuda_range_new_for (GpuCudaContext                      *context,
                         const CUmemGenericAllocationHandle  *allocations,
                         const gsize                         *sizes,
                         guint                                n_allocations,
                         GError                             **error)
{
  GpuCudaRange *range;
  gsize size = 0;

  for (guint i = 0; i < n_allocations; i++)
    size += sizes[i];

  range = _gpu_cuda_range_new (context, size, error);

  if (range != NULL
      && !_gpu_cuda_range_map (context, range, 0, allocations, sizes, n_allocations, error))
    {
      _gpu_cuda_range_free (context, range);
      return NULL;
    }

  return range;
}

static gboolean
unmap_one (gpointer key,
           gpointer value,
           gpointer data)
{
  _gpu_cuda.cuMemUnmap (((GpuCudaRange *) data)->address + GPOINTER_TO_SIZE (key),
                        GPOINTER_TO_SIZE (value));

  return FALSE;
}

void
_gpu_cuda_range_free (GpuCudaContext *context,
                      GpuCudaRange   *range)
{
  gboolean entered;

  /* A forked child does not take ranges_lock: a thread of the parent may have held that lock during
   * the fork, and it then stays locked. */
  if (!g_atomic_int_get (&_gpu_forked))
    {
      g_mutex_lock (&context->ranges_lock);
      g_ptr_array_remove_fast (context->ranges, range);
      g_mutex_unlock (&context->ranges_lock);
    }

  /* Without the context, which a forked child never gets, the mappings leak. */
  if (_gpu_cuda_enter_again (context, &entered, NULL))
    {
      g_tree_foreach (range->mapped, unmap_one, range);
      _gpu_cuda.cuMemAddressFree (range->address, range->size);
      _gpu_cuda_leave (entered);
    }

  g_clear_pointer (&range->exported, g_hash_table_unref);
  g_tree_unref (range->mapped);
  g_free (range);
}

/* --- mappings --------------------------------------------------------------------------------- */

/* Maps the allocations from the offset @end on. Sets @n_mapped to the number of mapped allocations,
 * and @end to the offset after the last of them, also on failure. */
static CUresult
map_all (GpuCudaRange                       *range,
         const CUmemGenericAllocationHandle *allocations,
         const gsize                        *sizes,
         guint                               n_allocations,
         guint                              *n_mapped,
         gsize                              *end)
{
  CUresult code = CUDA_SUCCESS;

  for (*n_mapped = 0; *n_mapped < n_allocations; (*n_mapped)++)
    {
      code = _gpu_cuda.cuMemMap (range->address + *end, sizes[*n_mapped], 0,
                                 allocations[*n_mapped], 0);
      if (code != CUDA_SUCCESS)
        break;

      *end += sizes[*n_mapped];
    }

  return code;
}

static CUresult
set_host_access (GpuCudaContext *context,
                 CUdeviceptr     address,
                 gsize           size)
{
  const CUmemAccessDesc access = { .location = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA,
                                                 .id = _gpu_cuda_get_numa_node (context) },
                                   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

  return _gpu_cuda.cuMemSetAccess (address, size, &access, 1);
}

gboolean
_gpu_cuda_range_map (GpuCudaContext                      *context,
                     GpuCudaRange                        *range,
                     gsize                                offset,
                     const CUmemGenericAllocationHandle  *allocations,
                     const gsize                         *sizes,
                     guint                                n_allocations,
                     GError                             **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->ranges_lock);
  CUmemAccessDesc access[GPU_CUDA_MAX_PEERS + 1];
  guint n_access = _gpu_cuda_list_access (context, access);
  const char *function = "cuMemMap";
  gsize end = offset;
  guint n_mapped;
  CUresult code = map_all (range, allocations, sizes, n_allocations, &n_mapped, &end);

  if (code == CUDA_SUCCESS)
    {
      function = "cuMemSetAccess";
      code = _gpu_cuda.cuMemSetAccess (range->address + offset, end - offset, access, n_access);

      if (code == CUDA_SUCCESS && range->is_host)
        code = set_host_access (context, range->address + offset, end - offset);
    }

  if (code == CUDA_SUCCESS)
    {
      for (guint i = n_mapped; i > 0; i--)
        {
          end -= sizes[i - 1];
          g_tree_insert (range->mapped, GSIZE_TO_POINTER (end), GSIZE_TO_POINTER (sizes[i - 1]));
        }
      return TRUE;
    }

  _gpu_cuda_set_error (error, function, code, "%u allocations at %" G_GSIZE_FORMAT " of %"
                       G_GSIZE_FORMAT " bytes of addresses, mapped up to %" G_GSIZE_FORMAT,
                       n_allocations, offset, range->size, end);

  while (n_mapped > 0)
    {
      end -= sizes[--n_mapped];
      _gpu_cuda.cuMemUnmap (range->address + end, sizes[n_mapped]);
    }

  return FALSE;
}

void
_gpu_cuda_range_unmap (GpuCudaContext *context,
                       GpuCudaRange   *range,
                       gsize           offset,
                       gsize           size)
{
  gboolean entered;

  if (!_gpu_cuda_enter_again (context, &entered, NULL))
    return;

  g_mutex_lock (&context->ranges_lock);
  _gpu_cuda.cuMemUnmap (range->address + offset, size);
  for (gsize at = offset; at < offset + size; )
    {
      gpointer key = GSIZE_TO_POINTER (at);

      at += GPOINTER_TO_SIZE (g_tree_lookup (range->mapped, key));
      g_tree_remove (range->mapped, key);
      if (range->exported != NULL)
        g_hash_table_remove (range->exported, key);
    }
  g_mutex_unlock (&context->ranges_lock);

  _gpu_cuda_leave (entered);
}

/* --- descriptors ------------------------------------------------------------------------------ */

static void
close_descriptor (gpointer fd)
{
  close (GPOINTER_TO_INT (fd));
}

static GpuCudaRange *
find_range_locked (GpuCudaContext *context,
                   CUdeviceptr     address)
{
  for (guint i = 0; i < context->ranges->len; i++)
    {
      GpuCudaRange *range = context->ranges->pdata[i];

      if (address >= range->address && address - range->address < range->size)
        return range;
    }

  return NULL;
}

int
_gpu_cuda_range_share_fd (GpuCudaContext *context,
                          CUdeviceptr     address,
                          int             fd)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->ranges_lock);
  GpuCudaRange *range = find_range_locked (context, address);
  gpointer known;
  gpointer offset;
  int copy;

  if (range == NULL)
    return fd;

  if (range->exported == NULL)
    range->exported = g_hash_table_new_full (NULL, NULL, NULL, close_descriptor);

  offset = GSIZE_TO_POINTER ((gsize) (address - range->address));

  if (!g_hash_table_lookup_extended (range->exported, offset, NULL, &known))
    {
      copy = fcntl (fd, F_DUPFD_CLOEXEC, 3);

      if (copy >= 0)
        g_hash_table_insert (range->exported, offset, GINT_TO_POINTER (copy));

      return fd;
    }

  copy = fcntl (GPOINTER_TO_INT (known), F_DUPFD_CLOEXEC, 3);

  if (copy < 0)
    return fd;

  close (fd);

  return copy;
}

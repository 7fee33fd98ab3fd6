/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Virtual memory: address ranges and the memory mapped to them. gpu-backend.h has the rules for
 * every op. */
#pragma once

#include "gpumem/backend/gpu-native-types.h"

G_BEGIN_DECLS

/* Physical memory without an address, which can be mapped to a range of addresses. */
struct _GpuNativeChunk
{
  const GpuBackend *backend;
  gsize             size;           /* bytes, set by the op that created it */
  gboolean          is_host;        /* page-locked memory of the host */
};

/* Ops that allocate address ranges and physical memory separately. All ops may be called from any
 * thread, must not wait for work, and are called only if the device has
 * GPU_CAPABILITIES_VIRTUAL_MEMORY. Sizes and offsets are multiples of the granularity; sizes are
 * not 0. @is_host is TRUE for page-locked memory of the host, and only if
 * GpuNativeDevice.has_host_chunks; all chunks in a range are of the same kind. */
typedef struct
{
  /* Gets the size of the smallest chunk, in bytes. */
  gboolean          (*get_granularity) (GpuNativeContext        *context,
                                        gboolean                 is_host,
                                        gsize                   *granularity,
                                        GError                 **error);
  /* Reserves addresses without memory. Returns a buffer that only GpuMemoryOps.free(),
   * GpuMemoryOps.get_address() and GpuBufferOps.slice() accept. A slice can be used like any buffer
   * while physical memory is mapped to all of it. An access to an unmapped part is an error of the
   * kernel or the program. All chunks are unmapped before the buffer is freed. The slices of the
   * buffer are freed with the context NULL, possibly after the buffer and the context. With
   * @is_host, sets GpuNativeMemory.host, and fails with GPU_ERROR_NOT_SUPPORTED if the driver
   * refuses such memory to this process. Fails with GPU_ERROR_OUT_OF_DEVICE_MEMORY if the address
   * space is exhausted. */
  GpuNativeBuffer * (*reserve)         (GpuNativeContext        *context,
                                        gboolean                 is_host,
                                        gsize                    size,
                                        GError                 **error);
  /* Allocates memory with undefined contents. If @shared is not NULL, the chunk is only mapped to
   * this range, and GpuBufferOps.export_fd() accepts slices over the chunk and over its neighbours
   * that are shareable. A descriptor gives access to no memory of other ranges. Only called with
   * @shared if the device has GPU_CAPABILITIES_IPC_FDS, and never with @is_host and @shared. */
  GpuNativeChunk *  (*create_chunk)    (GpuNativeContext        *context,
                                        gboolean                 is_host,
                                        gsize                    size,
                                        GpuNativeBuffer         *shared,
                                        GError                 **error);
  /* Frees a chunk that is not mapped, with the structure itself. */
  void              (*destroy_chunk)   (GpuNativeContext        *context,
                                        GpuNativeChunk          *chunk);
  /* Maps @n_chunks chunks, at least one, one after another into @range, from @offset on. The
   * addresses are unmapped. A chunk may also be mapped at another place: work sees there what
   * earlier work has written here, and the reverse. On return, every device that can access memory
   * of the context can use the chunks, and so can devices that get access later. Chunks keep their
   * contents. On failure, no chunk is mapped here. */
  gboolean          (*map)             (GpuNativeContext        *context,
                                        GpuNativeBuffer         *range,
                                        gsize                    offset,
                                        GpuNativeChunk *const   *chunks,
                                        guint                    n_chunks,
                                        GError                 **error);
  /* Unmaps the adjacent chunks, at least one, of together @size bytes that begin at @offset. Called
   * when no submitted work uses the chunks any more, or when the context is lost. */
  void              (*unmap)           (GpuNativeContext        *context,
                                        GpuNativeBuffer         *range,
                                        gsize                    offset,
                                        gsize                    size);
} GpuVirtualOps;

G_END_DECLS

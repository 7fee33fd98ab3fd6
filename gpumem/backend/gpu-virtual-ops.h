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
};

/* Address ranges and physical memory, allocated separately. All ops may be called from any thread,
 * do not wait for work, and are only called if the device has GPU_CAPABILITIES_VIRTUAL_MEMORY.
 * Sizes and offsets are multiples of the granularity; sizes are not 0. */
typedef struct
{
  /* Gets the size of the smallest chunk, in bytes. */
  gboolean          (*get_granularity) (GpuNativeContext        *context,
                                        gsize                   *granularity,
                                        GError                 **error);
  /* Reserves addresses without memory, as a buffer for GpuMemoryOps.free(), get_address() and
   * GpuBufferOps.slice(). A slice can be used like any buffer while all of it is mapped; accessing
   * an unmapped part is an error of the kernel or the program. No chunk is mapped to the buffer
   * when it is freed. Fails with GPU_ERROR_OUT_OF_DEVICE_MEMORY if the address space is
   * exhausted. */
  GpuNativeBuffer * (*reserve)         (GpuNativeContext        *context,
                                        gsize                    size,
                                        GError                 **error);
  /* Allocates memory with undefined contents. If @shareable is TRUE, GpuBufferOps.export_fd()
   * accepts slices within the chunk; create_chunk() fails with GPU_ERROR_NOT_SUPPORTED if the back
   * end has no such chunks. */
  GpuNativeChunk *  (*create_chunk)    (GpuNativeContext        *context,
                                        gsize                    size,
                                        gboolean                 shareable,
                                        GError                 **error);
  /* The chunk is not mapped. Frees the structure itself. */
  void              (*destroy_chunk)   (GpuNativeContext        *context,
                                        GpuNativeChunk          *chunk);
  /* Maps @n_chunks chunks, at least one, which are not mapped elsewhere, consecutively at the
   * unmapped addresses of @range from @offset on. On return, every device that can access memory of
   * the context can use the chunks, and so can devices that get access later. Chunks keep their
   * contents. On failure no chunk is mapped. */
  gboolean          (*map)             (GpuNativeContext        *context,
                                        GpuNativeBuffer         *range,
                                        gsize                    offset,
                                        GpuNativeChunk *const   *chunks,
                                        guint                    n_chunks,
                                        GError                 **error);
  /* Unmaps the chunk of @size bytes that begins at @offset. No submitted work uses the chunk any
   * more, or the context is lost. */
  void              (*unmap)           (GpuNativeContext        *context,
                                        GpuNativeBuffer         *range,
                                        gsize                    offset,
                                        gsize                    size);
} GpuVirtualOps;

G_END_DECLS

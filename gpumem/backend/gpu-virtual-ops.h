/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Addresses and the memory behind them, apart. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-native-types.h"

G_BEGIN_DECLS

/* Memory that is at no address, but can be put behind some. */
struct _GpuNativeChunk
{
  const GpuBackend *backend;
  gsize             size;           /* bytes, set by the op that made it */
};

/* Addresses and the memory behind them apart. All of it is for any thread and waits for no work,
 * and only called where the device has GPU_CAPABILITIES_VIRTUAL_MEMORY. Sizes and offsets are not 0
 * but for the offset of the first byte, and multiples of the granularity. */
typedef struct
{
  /* Bytes of the smallest chunk. */
  gboolean          (*get_granularity) (GpuNativeContext        *context,
                                        gsize                   *granularity,
                                        GError                 **error);
  /* Addresses with nothing behind them, as a buffer for GpuMemoryOps.free(), get_address() and
   * BufferOps.slice(). A slice is a buffer like any other for all that is done while every byte of
   * it has memory; touching one that has none is a fault of the kernel's or the program's. Nothing
   * is mapped when it is freed. Where there are not so many addresses it is
   * GPU_ERROR_OUT_OF_DEVICE_MEMORY. */
  GpuNativeBuffer * (*reserve)         (GpuNativeContext        *context,
                                        gsize                    size,
                                        GError                 **error);
  /* Memory with undefined content. BufferOps.export_fd() takes slices within one @shareable chunk;
   * where the back end has no such chunks it is GPU_ERROR_NOT_SUPPORTED. */
  GpuNativeChunk *  (*create_chunk)    (GpuNativeContext        *context,
                                        gsize                    size,
                                        gboolean                 shareable,
                                        GError                 **error);
  /* It is mapped nowhere. Frees the structure itself. */
  void              (*destroy_chunk)   (GpuNativeContext        *context,
                                        GpuNativeChunk          *chunk);
  /* Puts @n_chunks, at least one, none of which is mapped, one after the other behind the addresses
   * of @range from @offset on, which have nothing behind them. All can be used when it returns, by
   * every device that may reach memory of the context then or later, and have the content that
   * they had at their last place. When it fails none is mapped. */
  gboolean          (*map)             (GpuNativeContext        *context,
                                        GpuNativeBuffer         *range,
                                        gsize                    offset,
                                        GpuNativeChunk *const   *chunks,
                                        guint                    n_chunks,
                                        GError                 **error);
  /* Takes away the chunk that begins at @offset and has @size bytes. No submitted work uses it any
   * more, or the context is lost. */
  void              (*unmap)           (GpuNativeContext        *context,
                                        GpuNativeBuffer         *range,
                                        gsize                    offset,
                                        gsize                    size);
} GpuVirtualOps;

G_END_DECLS

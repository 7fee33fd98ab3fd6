/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The core of GpuMemoryPool for memory that cannot be suballocated. Its owner (the code that
 * created the pool) allocates whole items. The pool caches freed items in bins by size, as the
 * pools of PyOpenCL and PyCUDA do. The core handles sizes and streams (gpu-pool-stream.h), and
 * calls no driver.
 *
 * All functions are thread-safe. The ops of the owner and of streams are called without the lock.
 */
#pragma once

#include <gpumem/gpumem.h>

#include "gpumem/pool/core/gpu-pool-stream.h"
#include "gpumem/pool/core/gpu-pool.h"

G_BEGIN_DECLS

/* The default and the maximum number of leading bits that select the bin of a size. */
#define GPU_POOL_BINS_BITS     4
#define GPU_POOL_BINS_MAX_BITS 10

typedef struct _GpuPoolBins GpuPoolBins;
/* The metadata of an item; freed with the item. */
typedef struct _GpuPoolItem GpuPoolItem;

/* Returns the number of the bin for @size bytes. In binary, the number is the position of the
 * leading bit of @size, followed by the next @bits bits of @size. */
static inline guint
gpu_pool_bin_number (guint bits,
                     gsize size)
{
  guint exponent = size == 0 ? 0 : 63 - __builtin_clzll (size);
  gsize leading = exponent >= bits ? size >> (exponent - bits) : size << (bits - exponent);

  return exponent << bits | (guint) (leading & ((1u << bits) - 1));
}

/* Returns the largest size in @bin. @bin must be below 64 << @bits. All items of the bin have this
 * size. */
static inline gsize
gpu_pool_bin_size (guint bits,
                   guint bin)
{
  guint exponent = bin >> bits;
  gsize leading = 1u << bits | (bin & ((1u << bits) - 1));

  g_return_val_if_fail (exponent < 64, 0);

  if (exponent < bits)
    return leading >> (bits - exponent);

  return (leading + 1) * ((gsize) 1 << (exponent - bits)) - 1;
}

/* The owner's functions that allocate and free items. These functions may call the pool. */
typedef struct
{
  /* Returns NULL with an error on failure. After GPU_ERROR_OUT_OF_DEVICE_MEMORY or
   * GPU_ERROR_OUT_OF_HOST_MEMORY, the pool tries its fallbacks. */
  gpointer (*alloc_item) (gpointer   owner,
                          gsize      size,
                          GError   **error);
  /* Called after all uses known to the pool have completed. */
  void     (*free_item)  (gpointer   owner,
                          gpointer   data,
                          gsize      size);
  /* Called when a request of @size bytes fails after the pool has freed all held items. Like
   * GpuPoolOps.make_room(), but nullable. */
  gboolean (*make_room)  (gpointer   owner,
                          gsize      size,
                          guint     *attempt);
} GpuPoolBinsOps;

GpuPoolBins *_gpu_pool_bins_new          (guint                    bits,
                                          const GpuPoolBinsOps    *ops,
                                          gpointer                 owner,
                                          const GpuPoolStreamOps  *stream_ops);
/* Waits for pending uses, and then frees the pool. The caller must have released all items. */
void         _gpu_pool_bins_free         (GpuPoolBins             *bins);

/* Closes the pool, which must not allocate after this call. The pool frees items when their uses
 * have completed. Calls @notify, which may free the pool, once all items are freed. This may happen
 * before the call returns. */
void         _gpu_pool_bins_close        (GpuPoolBins             *bins,
                                          GDestroyNotify           notify,
                                          gpointer                 data);
/* Returns (transfer full) the keys of streams with pending uses of held items. The caller owns a
 * reference to each key. */
GPtrArray   *_gpu_pool_bins_list_pending (GpuPoolBins             *bins);

/* @key identifies a stream, or is NULL for the host. A request by the host blocks if all held items
 * that it may use have pending uses. @size is not 0. */
GpuPoolItem *_gpu_pool_bins_alloc        (GpuPoolBins             *bins,
                                          gsize                    size,
                                          gpointer                 key,
                                          GError                 **error);
/* Frees @item. Later requests reuse it only after all work that was submitted to @key so far. */
void         _gpu_pool_bins_release      (GpuPoolItem             *item,
                                          gpointer                 key);
/* Like _gpu_pool_bins_release() with several streams; NULLs are ignored. */
void         _gpu_pool_bins_release_all  (GpuPoolItem             *item,
                                          const gpointer          *keys,
                                          guint                    n_keys);

gpointer     _gpu_pool_item_get_data     (const GpuPoolItem       *item);   /* data of the owner */
gsize        _gpu_pool_item_get_size     (const GpuPoolItem       *item);   /* as requested */
gsize        _gpu_pool_item_get_capacity (const GpuPoolItem       *item);   /* size of its bin */

/* Frees held items, the largest first, until at most @keep bytes are managed. If @wait is FALSE,
 * skips items with pending uses. If @wait is TRUE, waits for the uses and frees these items too. */
void         _gpu_pool_bins_trim         (GpuPoolBins             *bins,
                                          guint64                  keep,
                                          gboolean                 wait);
/* Sets the limits, and frees unused memory above the release threshold. If such memory has pending
 * uses, the first call of any function of the pool after these uses have completed frees the
 * memory. Active items stay allocated even above the limit. `waste` is ignored. */
void         _gpu_pool_bins_set_limits   (GpuPoolBins             *bins,
                                          const GpuPoolLimits     *limits);
/* From now on the pool keeps no released items. If the use of an item has completed, its release
 * frees the item at once. If not, a later call of any function frees the item. */
void         _gpu_pool_bins_stop_holding (GpuPoolBins             *bins);
/* Counts that do not apply to bins (maps, moved chunks, hits in thread caches) are always 0. */
void         _gpu_pool_bins_get_stats    (GpuPoolBins             *bins,
                                          GpuPoolStats            *stats);
void         _gpu_pool_bins_reset_peaks  (GpuPoolBins             *bins);
/* Enables or disables trace output. Initially enabled if GPUMEM_DEBUG contains "pool". */
void         _gpu_pool_bins_set_trace    (GpuPoolBins             *bins,
                                          gboolean                 trace);

/* Visits every item, the newest first. Holds the lock, so @func must not call the pool. @requested
 * is 0 for a held item. */
typedef void (*GpuPoolBinsVisitFunc)     (gpointer                 data,
                                          const GpuPoolItem       *item,
                                          gsize                    capacity,
                                          gsize                    requested,
                                          GpuPoolState             state);
void         _gpu_pool_bins_visit        (GpuPoolBins             *bins,
                                          GpuPoolBinsVisitFunc     func,
                                          gpointer                 data);

G_END_DECLS

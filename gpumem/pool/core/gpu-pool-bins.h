/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The other core of GpuMemoryPool, for memory that cannot be cut: it holds whole items that its
 * owner makes, in bins by their size, as the pools of PyOpenCL and PyCUDA do, and hands them out
 * again. It knows sizes and streams (gpu-pool-stream.h), and no driver.
 *
 * Any thread calls anything. No op of the owner or of streams is called with the lock held.
 */
#pragma once

#include <gpumem/gpumem.h>

#include "gpumem/pool/core/gpu-pool-stream.h"
#include "gpumem/pool/core/gpu-pool.h"

G_BEGIN_DECLS

/* Of leading bits in the number of a bin. */
#define GPU_POOL_BINS_BITS     4
#define GPU_POOL_BINS_MAX_BITS 10

typedef struct _GpuPoolBins GpuPoolBins;
/* An item with what the pool knows of it; lives as long as the item. */
typedef struct _GpuPoolItem GpuPoolItem;

/* The bin of @size bytes: the exponent of two, and @bits leading bits behind the first. */
static inline guint
gpu_pool_bin_number (guint bits,
                     gsize size)
{
  guint exponent = size == 0 ? 0 : 63 - __builtin_clzll (size);
  gsize leading = exponent >= bits ? size >> (exponent - bits) : size << (bits - exponent);

  return exponent << bits | (guint) (leading & ((1u << bits) - 1));
}

/* The largest size of @bin, below 64 << @bits: what items of it have. */
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

/* Where items come from. May call the pool. */
typedef struct
{
  /* Not NULL, or an error: GPU_ERROR_OUT_OF_DEVICE_MEMORY and _OUT_OF_HOST_MEMORY are what the
   * ladder goes on for. */
  gpointer (*alloc_item) (gpointer   owner,
                          gsize      size,
                          GError   **error);
  /* All uses that the pool was told of are over. */
  void     (*free_item)  (gpointer   owner,
                          gpointer   data,
                          gsize      size);
  /* There is no memory for @size bytes although the pool has freed what it held: somebody may make
   * room, in this pool or elsewhere. TRUE if it should try again; @attempt counts from 0, to 2.
   * Nullable. */
  gboolean (*make_room)  (gpointer   owner,
                          gsize      size,
                          guint      attempt);
} GpuPoolBinsOps;

GpuPoolBins *_gpu_pool_bins_new          (guint                    bits,
                                          const GpuPoolBinsOps    *ops,
                                          gpointer                 owner,
                                          const GpuPoolStreamOps  *stream_ops);
/* All items were given back. Waits for their uses. */
void         _gpu_pool_bins_free         (GpuPoolBins             *bins);

/* Nothing is handed out any more, and held only while its use is not over. @notify is called once
 * all is given back, which may be now, and may free the pool. */
void         _gpu_pool_bins_close        (GpuPoolBins             *bins,
                                          GDestroyNotify           notify,
                                          gpointer                 data);
/* (transfer full): the keys, each with a reference, of streams whose work may still use held
 * items. */
GPtrArray   *_gpu_pool_bins_list_pending (GpuPoolBins             *bins);

/* @key is a stream, NULL for the host, which blocks until a use is over where no other item is.
 * @size is not 0. */
GpuPoolItem *_gpu_pool_bins_alloc        (GpuPoolBins             *bins,
                                          gsize                    size,
                                          gpointer                 key,
                                          GError                 **error);
/* Free for use after all that was submitted to @key so far. */
void         _gpu_pool_bins_release      (GpuPoolItem             *item,
                                          gpointer                 key);
/* The same after all of several streams; NULLs among them say nothing. */
void         _gpu_pool_bins_release_all  (GpuPoolItem             *item,
                                          const gpointer          *keys,
                                          guint                    n_keys);

GpuPoolBins *_gpu_pool_item_get_bins     (const GpuPoolItem       *item);
gpointer     _gpu_pool_item_get_data     (const GpuPoolItem       *item);   /* the owner's */
gsize        _gpu_pool_item_get_size     (const GpuPoolItem       *item);   /* as requested */
gsize        _gpu_pool_item_get_capacity (const GpuPoolItem       *item);   /* of its bin */

/* Gives held items back, the largest first, until at most @keep bytes are managed; those whose use
 * is not over stay unless it may @wait. */
void         _gpu_pool_bins_trim         (GpuPoolBins             *bins,
                                          guint64                  keep,
                                          gboolean                 wait);
/* What is over the release threshold goes with this call or a later one that finds its use over;
 * what is over the limit stays until it is given back. Nothing is recycled: the waste is not
 * looked at. */
void         _gpu_pool_bins_set_limits   (GpuPoolBins             *bins,
                                          const GpuPoolLimits     *limits);
/* From now on nothing is held: what is given back goes back to the owner, at once if its use is
 * over, else with a later call that finds it over. */
void         _gpu_pool_bins_stop_holding (GpuPoolBins             *bins);
/* The counts of maps, of recycled pieces and of caches stay 0. */
void         _gpu_pool_bins_get_stats    (GpuPoolBins             *bins,
                                          GpuPoolStats            *stats);
/* Whether decisions are printed; at first, whether GPUMEM_DEBUG has "pool". */
void         _gpu_pool_bins_set_trace    (GpuPoolBins             *bins,
                                          gboolean                 trace);

/* Every item, the newest first, under the lock: @func calls nothing. @requested is 0 for one that
 * is held. */
typedef void (*GpuPoolBinsVisitFunc)     (gpointer                 data,
                                          const GpuPoolItem       *item,
                                          gsize                    capacity,
                                          gsize                    requested,
                                          GpuPoolState             state);
void         _gpu_pool_bins_visit        (GpuPoolBins             *bins,
                                          GpuPoolBinsVisitFunc     func,
                                          gpointer                 data);

G_END_DECLS

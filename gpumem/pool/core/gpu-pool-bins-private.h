/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Private structures of pools with bins; see gpu-pool-bins.h. */
#pragma once

#include "gpumem/base/gpu-attributes-private.h"
#include "gpumem/pool/core/gpu-pool-bins.h"
#include "gpumem/pool/core/gpu-pool-lock.h"

G_BEGIN_DECLS

#define N_CACHED_STREAMS 8          /* streams cached by key */
#define MAX_EXAMINED     8          /* items examined per bin */

/* The members that alloc and release use come first, and share a cache line. */
struct _GpuPoolItem
{
  GpuPoolItem *below;               /* the next older item of its bin */
  GpuPoolUse   own;                 /* storage for the first use */
  GpuPoolUse  *uses;                /* &own, or an allocated array */
  guint        n_uses;
  guint        bin;
  gsize        capacity;
  gsize        requested;           /* bytes; 0 if the item is not active */
  GpuPoolBins *bins;

  gpointer     data;
  GpuPoolItem *previous, *next;     /* neighbours in the list of all items */
  gboolean     moving;              /* a thread took the item from its bin in order to examine or
                                     * to free it; the item is not active */
};

/* An entry of a cache of recently used streams. The entry pins the stream (see gpu-pool-stream.h),
 * so the key remains valid. */
typedef struct
{
  gpointer       key;               /* NULL: none */
  GpuPoolStream *stream;
} KnownStream;

struct _GpuPoolBins
{
  GpuPoolLock            lock;      /* guards the members below, except constants */
  guint                  bits;
  guint                  n_bins;
  gboolean               stopped;
  guint                  n_inside;  /* threads that are releasing excess memory or closing the
                                     * pool */
  GDestroyNotify         closed;    /* nullable; to call once all items of a closed pool are
                                     * freed */
  gpointer               closed_data;
  gint                   trace;     /* atomic */
  GpuPoolItem          **tops;      /* newest item of each bin */
  KnownStream            known[N_CACHED_STREAMS];
  GpuPoolStats           stats;
  GpuPoolLimits          limits;
  guint64                n_asked;   /* bytes of allocations in progress */
  GpuPoolItem           *items;
  /* "Moving" items are items that threads took from their bins in order to examine or to free
   * them. */
  guint                  n_moving;
  pthread_cond_t         moved;
  guint64                n_freed;   /* items freed so far */

  const GpuPoolBinsOps  *ops;
  gpointer               owner;
  GpuPoolStreams        *streams;
};

/* A request for an item. */
typedef struct
{
  GpuPoolBins   *bins;
  gsize          size;
  guint          bin;
  GpuPoolStream *stream;
  guint64        n_changes;         /* value of count_changes() when the bin was examined */
} GpuPoolRequest;

static inline void
bins_lock (GpuPoolBins *bins)
{
  _gpu_pool_lock (&bins->lock);
}

static inline void
bins_unlock (GpuPoolBins *bins)
{
  _gpu_pool_unlock (&bins->lock);
}

/* Caller holds the lock. */
static inline void
bins_forget_stream (KnownStream *known)
{
  if (known->key != NULL)
    _gpu_pool_stream_unpin (known->stream);
  known->key = NULL;
}

#define bins_are_traced(bins) G_UNLIKELY (g_atomic_int_get (&(bins)->trace))

/* Prints a line of the trace. */
GPU_COLD void _gpu_pool_bins_print (GpuPoolBins *bins,
                                    const char  *format,
                                    ...) G_GNUC_PRINTF (2, 3);
/* Slow path: called if no item of the bin can be reused without a wait. */
GPU_COLD GpuPoolItem *_gpu_pool_bins_alloc_slowly (GpuPoolRequest  *request,
                                                   GError         **error);
/* Frees held items until at most @keep bytes are managed. With @keep NULL, frees held items until
 * the limits are met. */
void          _gpu_pool_bins_trim_to (GpuPoolBins    *bins,
                                      const guint64  *keep,
                                      gboolean        wait);
/* Drops streams that accept no more work and whose work has completed. */
void          _gpu_pool_bins_sweep   (GpuPoolBins    *bins);
/* Frees an item that is marked as moving and whose use has completed. */
void          _gpu_pool_bins_discard (GpuPoolBins    *bins,
                                      GpuPoolItem    *item);
/* The next two functions require that @item is marked as moving, or that the caller owns @item.
 * _gpu_pool_item_follow() returns FALSE without an error if a wait is refused, see
 * _gpu_pool_use_follow(). */
gboolean      _gpu_pool_item_is_completed (GpuPoolItem    *item);
gboolean      _gpu_pool_item_follow  (GpuPoolItem    *item,
                                      GpuPoolStream  *stream,
                                      guint          *n_waits,
                                      GError        **error);

/* --- under the lock ---------------------------------------------------------------- */

static inline void
bins_push (GpuPoolBins *bins,
           GpuPoolItem *item)
{
  item->below = bins->tops[item->bin];
  bins->tops[item->bin] = item;
}

static inline void
bins_set_active (GpuPoolBins *bins,
                 GpuPoolItem *item,
                 gsize        size)
{
  GpuPoolStats *stats = &bins->stats;

  item->requested = size;
  stats->n_allocs++;
  stats->active_blocks++;
  stats->active_bytes += size;
  stats->used_bytes += item->capacity;
  stats->peak_active_bytes = MAX (stats->peak_active_bytes, stats->active_bytes);
  stats->peak_used_bytes = MAX (stats->peak_used_bytes, stats->used_bytes);
}

static inline void
bins_set_held (GpuPoolBins *bins,
               GpuPoolItem *item)
{
  GpuPoolStats *stats = &bins->stats;

  stats->active_blocks--;
  stats->held_blocks++;
  stats->active_bytes -= item->requested;
  stats->used_bytes -= item->capacity;
  item->requested = 0;
  bins_push (bins, item);
}

/* Returns whether the unused memory exceeds the release threshold. */
static inline gboolean
bins_have_excess (const GpuPoolBins *bins)
{
  const GpuPoolStats *stats = &bins->stats;

  return bins->stopped || stats->managed_bytes - stats->used_bytes > bins->limits.release_threshold;
}

static inline void
item_forget_uses (GpuPoolItem *item)
{
  if (G_UNLIKELY (item->uses != &item->own))
    g_free (item->uses);
  item->uses = &item->own;
  item->n_uses = 0;
}

static inline gboolean
item_is_ready (const GpuPoolItem   *item,
               const GpuPoolStream *stream)
{
  for (guint i = 0; i < item->n_uses; i++)
    {
      if (item->uses[i].stream != NULL && item->uses[i].stream != stream)
        return FALSE;
    }

  return TRUE;
}

/* Takes an item from a bin if the uses recorded in the item show that no wait is needed. */
static inline GpuPoolItem *
bins_take_ready (GpuPoolBins         *bins,
                 guint                bin,
                 const GpuPoolStream *stream)
{
  GpuPoolItem **link = &bins->tops[bin];

  for (guint n = 0; *link != NULL && n < MAX_EXAMINED; n++, link = &(*link)->below)
    {
      GpuPoolItem *item = *link;

      if (item_is_ready (item, stream))
        {
          *link = item->below;
          bins->stats.held_blocks--;
          return item;
        }
    }

  return NULL;
}

static inline GpuPoolItem *
bins_pop_moving (GpuPoolBins *bins,
                 guint        bin)
{
  GpuPoolItem *item = bins->tops[bin];

  if (item == NULL)
    return NULL;

  bins->tops[bin] = item->below;
  item->moving = TRUE;
  bins->n_moving++;

  return item;
}

static inline void
bins_stop_moving (GpuPoolBins *bins,
                  GpuPoolItem *item)
{
  item->moving = FALSE;
  bins->n_moving--;
  pthread_cond_broadcast (&bins->moved);
}

static inline guint
bins_find_largest (GpuPoolBins *bins)
{
  guint bin = bins->n_bins;

  while (bin > 0 && bins->tops[bin - 1] == NULL)
    bin--;

  return bin;
}

G_END_DECLS

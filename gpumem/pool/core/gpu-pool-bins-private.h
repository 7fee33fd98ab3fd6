/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The insides of pools of items; see gpu-pool-bins.h. */
#pragma once

#include "gpumem/base/gpu-attributes-private.h"
#include "gpumem/pool/core/gpu-pool-bins.h"
#include "gpumem/pool/core/gpu-pool-lock.h"

G_BEGIN_DECLS

#define N_KNOWN      8              /* streams found without asking for them */
#define N_LOOKED_AT  8              /* items of a bin */

/* First what taking and giving back look at, in one line of the caches. */
struct _GpuPoolItem
{
  GpuPoolItem *below;               /* in its bin */
  GpuPoolUse   own;
  GpuPoolUse  *uses;                /* &own, or as many as it takes */
  guint        n_uses;
  guint        bin;
  gsize        capacity;
  gsize        requested;           /* bytes; 0 if it is not active */
  GpuPoolBins *bins;

  gpointer     data;
  GpuPoolItem *previous, *next;     /* of all items */
  gboolean     moving;              /* out of its bin, without being active */
};

/* It is pinned, so that the key stays its own. */
typedef struct
{
  gpointer       key;               /* NULL: none */
  GpuPoolStream *stream;
} KnownStream;

struct _GpuPoolBins
{
  GpuPoolLock            lock;      /* guards what follows, but not what never changes */
  guint                  bits;
  guint                  n_bins;
  gboolean               stopped;
  guint                  n_inside;  /* threads that free what was given back since */
  GDestroyNotify         closed;    /* NULL until it is closed, and after */
  gpointer               closed_data;
  gint                   trace;     /* atomic */
  GpuPoolItem          **tops;      /* of each bin */
  KnownStream            known[N_KNOWN];
  GpuPoolStats           stats;
  GpuPoolLimits          limits;
  guint64                n_asked;   /* bytes that the owner is being asked for */
  GpuPoolItem           *items;
  /* Items that threads have taken out of their bins to look at them, or to free them. */
  guint                  n_moving;
  pthread_cond_t         moved;
  guint64                n_freed;   /* items */

  const GpuPoolBinsOps  *ops;
  gpointer               owner;
  GpuPoolStreams        *streams;
};

/* What somebody wants. */
typedef struct
{
  GpuPoolBins   *bins;
  gsize          size;
  guint          bin;
  GpuPoolStream *stream;
  guint64        n_changes;         /* of the pool, when the bin was looked into */
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

/* Under the lock. */
static inline void
bins_forget_stream (KnownStream *known)
{
  if (known->key != NULL)
    _gpu_pool_stream_unpin (known->stream);
  known->key = NULL;
}

#define bins_are_traced(bins) G_UNLIKELY (g_atomic_int_get (&(bins)->trace))

/* Prints a line, where decisions are traced. */
GPU_COLD void _gpu_pool_bins_print (GpuPoolBins *bins,
                                    const char  *format,
                                    ...) G_GNUC_PRINTF (2, 3);
/* Where the bin has nothing that is ready. */
GPU_COLD GpuPoolItem *_gpu_pool_bins_alloc_slowly (GpuPoolRequest  *request,
                                                   GError         **error);
/* Gives held items back until at most @keep bytes are managed; NULL: what is to be held. */
void          _gpu_pool_bins_trim_to (GpuPoolBins    *bins,
                                      const guint64  *keep,
                                      gboolean        wait);
/* Lets go of streams that are gone. */
void          _gpu_pool_bins_sweep   (GpuPoolBins    *bins);
/* Of one that is moving, and whose use is over. */
void          _gpu_pool_bins_discard (GpuPoolBins    *bins,
                                      GpuPoolItem    *item);
/* Of items that are moving, or else nobody else's. */
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

/* More than is to be kept of what nobody uses. */
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

/* One that needs no waiting, as far as can be seen without asking anybody. */
static inline GpuPoolItem *
bins_take_ready (GpuPoolBins         *bins,
                 guint                bin,
                 const GpuPoolStream *stream)
{
  GpuPoolItem **link = &bins->tops[bin];

  for (guint n = 0; *link != NULL && n < N_LOOKED_AT; n++, link = &(*link)->below)
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

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The counters of a pool, and notifications of their changes. */
#include "config.h"

#include "gpumem/pool/gpu-memory-pool-private.h"

const GpuPoolFigure _gpu_pool_figures[GPU_POOL_N_FIGURES] =
{
  { "held-blocks", G_STRUCT_OFFSET (GpuPoolStats, held_blocks) },
  { "active-blocks", G_STRUCT_OFFSET (GpuPoolStats, active_blocks) },
  { "managed-bytes", G_STRUCT_OFFSET (GpuPoolStats, managed_bytes) },
  { "active-bytes", G_STRUCT_OFFSET (GpuPoolStats, active_bytes) },
  { "used-bytes", G_STRUCT_OFFSET (GpuPoolStats, used_bytes) },
  { "largest-free", G_STRUCT_OFFSET (GpuPoolStats, largest_free) },
  { "peak-active-bytes", G_STRUCT_OFFSET (GpuPoolStats, peak_active_bytes) },
  { "peak-used-bytes", G_STRUCT_OFFSET (GpuPoolStats, peak_used_bytes) },
  { "peak-managed-bytes", G_STRUCT_OFFSET (GpuPoolStats, peak_managed_bytes) },
  { "n-allocs", G_STRUCT_OFFSET (GpuPoolStats, n_allocs) },
  { "n-frees", G_STRUCT_OFFSET (GpuPoolStats, n_frees) },
  { "n-cache-hits", G_STRUCT_OFFSET (GpuPoolStats, n_cache_hits) },
  { "n-hits", G_STRUCT_OFFSET (GpuPoolStats, n_hits) },
  { "n-steals", G_STRUCT_OFFSET (GpuPoolStats, n_steals) },
  { "n-waits", G_STRUCT_OFFSET (GpuPoolStats, n_waits) },
  { "n-growths", G_STRUCT_OFFSET (GpuPoolStats, n_growths) },
  { "n-recycled", G_STRUCT_OFFSET (GpuPoolStats, n_recycled) },
  { "n-maps", G_STRUCT_OFFSET (GpuPoolStats, n_maps) },
  { "n-unmaps", G_STRUCT_OFFSET (GpuPoolStats, n_unmaps) },
  { "n-refused", G_STRUCT_OFFSET (GpuPoolStats, n_refused) }
};

/* The user data of the GSource. The GSource owns the structure. */
typedef struct
{
  GWeakRef     pool;
  GpuPoolStats last;
} Notifier;

guint64
_gpu_pool_stats_get (const GpuPoolStats *stats,
                     guint               i)
{
  return G_STRUCT_MEMBER (guint64, stats, _gpu_pool_figures[i].offset);
}

static void
notifier_free (gpointer data)
{
  Notifier *notifier = data;

  g_weak_ref_clear (&notifier->pool);
  g_free (notifier);
}

static void
notify_changes (GpuMemoryPool      *pool,
                const GpuPoolStats *last,
                const GpuPoolStats *stats)
{
  for (guint i = 0; i < GPU_POOL_N_FIGURES; i++)
    {
      if (_gpu_pool_stats_get (last, i) != _gpu_pool_stats_get (stats, i))
        g_object_notify (G_OBJECT (pool), _gpu_pool_figures[i].name);
    }
}

static gboolean
on_interval (gpointer data)
{
  Notifier *notifier = data;
  g_autoptr (GpuMemoryPool) pool = g_weak_ref_get (&notifier->pool);
  GpuPoolStats last = notifier->last;

  if (pool == NULL || pool->core == NULL)
    return G_SOURCE_CONTINUE;

  _gpu_pool_core_get_stats (pool->core, &notifier->last);
  notify_changes (pool, &last, &notifier->last);

  return G_SOURCE_CONTINUE;
}

static GSource *
new_source (GpuMemoryPool *pool,
            guint          interval)
{
  g_autoptr (GMainContext) context = g_main_context_ref_thread_default ();
  Notifier *notifier = g_new0 (Notifier, 1);
  GSource *source = g_timeout_source_new (interval);

  g_weak_ref_init (&notifier->pool, pool);

  if (pool->core != NULL)
    _gpu_pool_core_get_stats (pool->core, &notifier->last);

  g_source_set_callback (source, on_interval, notifier, notifier_free);
  g_source_attach (source, context);

  return source;
}

guint
_gpu_memory_pool_get_notify_interval (GpuMemoryPool *pool)
{
  guint interval;

  g_mutex_lock (&pool->lock);
  interval = pool->notify_interval;
  g_mutex_unlock (&pool->lock);

  return interval;
}

void
_gpu_memory_pool_set_notify_interval (GpuMemoryPool *pool,
                                      guint          interval)
{
  GSource *source = interval != 0 ? new_source (pool, interval) : NULL;
  gboolean is_changed;
  GSource *before;

  g_mutex_lock (&pool->lock);
  is_changed = pool->notify_interval != interval;
  pool->notify_interval = interval;
  before = pool->notify_source;
  pool->notify_source = source;
  g_mutex_unlock (&pool->lock);

  if (before != NULL)
    {
      g_source_destroy (before);
      g_source_unref (before);
    }

  if (is_changed)
    g_object_notify (G_OBJECT (pool), "notify-interval");
}

void
_gpu_memory_pool_stop_notifying (GpuMemoryPool *pool)
{
  if (pool->notify_source == NULL)
    return;

  g_source_destroy (pool->notify_source);
  g_clear_pointer (&pool->notify_source, g_source_unref);
}

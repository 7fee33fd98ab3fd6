/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Uses of free memory: which have completed, and waiting for those that have not. */
#include "config.h"

#include "gpumem/pool/core/gpu-pool-private.h"

/* Drops uses that are over; @mark: makes marks where there are none. */
static void
settle_uses (GpuPoolShared *shared,
             gboolean       mark)
{
  for (guint i = shared->n_uses; i > 0; i--)
    {
      if (mark)
        _gpu_pool_use_mark (&shared->uses[i - 1], NULL);
      if (_gpu_pool_use_is_over (&shared->uses[i - 1]))
        shared->uses[i - 1] = shared->uses[--shared->n_uses];
    }
}

/* Those with one use left are free memory of its stream. */
gboolean
_gpu_pool_settle_shared (GpuPool *pool)
{
  g_autoptr (GPtrArray) all = NULL;
  gboolean any = FALSE;

  _gpu_pool_lock (&pool->lock);
  if (pool->shared->len > 0)
    {
      all = pool->shared;
      pool->shared = g_ptr_array_new ();
    }
  _gpu_pool_unlock (&pool->lock);

  if (all == NULL)
    return FALSE;

  for (guint i = 0; i < all->len; i++)
    settle_uses (g_ptr_array_index (all, i), TRUE);

  _gpu_pool_lock (&pool->lock);
  for (guint i = 0; i < all->len; i++)
    {
      GpuPoolShared *shared = g_ptr_array_index (all, i);
      GpuPoolUse use = shared->uses[0];

      if (shared->n_uses > 1)
        {
          g_ptr_array_add (pool->shared, shared);
          continue;
        }

      any = TRUE;
      if (shared->n_uses == 0)
        use = (GpuPoolUse) { NULL, 0 };
      _gpu_pool_heap_add (pool, shared->node,
                          gpu_pool_use_pack (_gpu_pool_stream_get_slot (use.stream), use.stamp));
      g_free (shared);
    }
  _gpu_pool_leave (pool);

  return any;
}

static gboolean
is_worth_waiting (const GpuPoolRequest *request,
                  GpuPoolStream        *stream)
{
  return request == NULL || (stream != request->stream && _gpu_pool_stream_is_free (stream));
}

static gboolean
find_pending (GpuPool              *pool,
              const GpuPoolRequest *request,
              GpuPoolUse           *use)
{
  gboolean found = FALSE;

  _gpu_pool_lock (&pool->lock);
  for (guint slot = 1; slot < pool->n_frees && !found; slot++)
    {
      GpuPoolFrees *frees = pool->frees[slot];

      if (frees == NULL || frees->n == 0)
        continue;

      *use = (GpuPoolUse) { frees->stream, frees->youngest };
      found = !gpu_pool_stream_has_reached (use->stream, use->stamp)
              && is_worth_waiting (request, use->stream);
    }
  if (!found && request == NULL && pool->shared->len > 0)
    {
      GpuPoolShared *shared = g_ptr_array_index (pool->shared, 0);

      *use = shared->uses[0];
      found = TRUE;
    }
  _gpu_pool_unlock (&pool->lock);

  return found;
}

gboolean
_gpu_pool_wait_for_pending (GpuPool              *pool,
                            const GpuPoolRequest *request)
{
  GpuPoolUse use;
  gboolean waited;

  if (!find_pending (pool, request, &use) || !_gpu_pool_use_follow (&use, NULL, &waited, NULL))
    return FALSE;

  _gpu_pool_settle_shared (pool);
  _gpu_pool_lock (&pool->lock);
  pool->stats.n_waits += waited;
  _gpu_pool_heap_settle (pool, TRUE);
  _gpu_pool_leave (pool);

  return TRUE;
}

/* A mark for each stream that has free memory which is not over, unless one is under way. */
static void
mark_pending (GpuPool *pool)
{
  g_autoptr (GArray) uses = g_array_new (FALSE, FALSE, sizeof (GpuPoolUse));

  _gpu_pool_lock (&pool->lock);
  for (guint slot = 1; slot < pool->n_frees; slot++)
    {
      GpuPoolFrees *frees = pool->frees[slot];

      if (frees != NULL && frees->n > 0)
        {
          GpuPoolUse use = { frees->stream, frees->youngest };

          g_array_append_val (uses, use);
        }
    }
  _gpu_pool_unlock (&pool->lock);

  for (guint i = 0; i < uses->len; i++)
    _gpu_pool_use_mark (&g_array_index (uses, GpuPoolUse, i), NULL);
}

void
_gpu_pool_settle (GpuPool *pool)
{
  mark_pending (pool);
  _gpu_pool_streams_poll (pool->streams);
  _gpu_pool_settle_shared (pool);

  _gpu_pool_lock (&pool->lock);
  _gpu_pool_heap_settle (pool, TRUE);
  _gpu_pool_leave (pool);
}

GPtrArray *
_gpu_pool_list_pending (GpuPool *pool)
{
  g_autoptr (GPtrArray) streams = g_ptr_array_new ();

  _gpu_pool_lock (&pool->lock);

  for (guint slot = 1; slot < pool->n_frees; slot++)
    if (pool->frees[slot] != NULL && pool->frees[slot]->n > 0)
      g_ptr_array_add (streams, pool->frees[slot]->stream);

  for (guint i = 0; i < pool->shared->len; i++)
    {
      const GpuPoolShared *shared = g_ptr_array_index (pool->shared, i);

      for (guint k = 0; k < shared->n_uses; k++)
        if (!g_ptr_array_find (streams, shared->uses[k].stream, NULL))
          g_ptr_array_add (streams, shared->uses[k].stream);
    }

  _gpu_pool_unlock (&pool->lock);

  return _gpu_pool_streams_ref_keys (streams);
}

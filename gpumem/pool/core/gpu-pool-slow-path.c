/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Slow path: tries fallbacks, one after another, for a request that the stream's own free list
 * cannot serve. */
#include "config.h"

#include "gpumem/base/gpu-error-private.h"
#include "gpumem/pool/core/gpu-pool-cache.h"

/* Maximum number of searches after a failed growth. A request would otherwise be repeated as long
 * as other threads free blocks. */
#define MAX_SEARCHES 16
/* The heap of a thread gets new memory, instead of memory of other heaps, while at most
 * 1/EARLY_GROWTH of the peak of used bytes, or EARLY_RANGES ranges for each heap, are unused. */
#define EARLY_GROWTH 4
#define EARLY_RANGES 2

static GpuPoolNode *
poll_and_serve (GpuPool              *pool,
                const GpuPoolRequest *request)
{
  gboolean any = _gpu_pool_streams_poll (pool->streams);
  GpuPoolNode *node;

  any = _gpu_pool_reclaim_shared (pool) || any;
  if (!any)
    return NULL;

  _gpu_pool_lock (&pool->lock);
  _gpu_pool_heap_reclaim_completed (pool, FALSE);
  node = _gpu_pool_serve (pool, request);
  _gpu_pool_unlock_and_destroy (pool);

  return node;
}

/* Flushes the cache of this thread, or the caches of all threads if @all is TRUE. Then tries again:
 * the flushed blocks may have been joined into a range that is large enough. */
static GpuPoolNode *
flush_and_serve (GpuPool              *pool,
                 const GpuPoolRequest *request,
                 gboolean              all)
{
  GpuPoolNode *node = NULL;

  _gpu_pool_lock (&pool->lock);
  if (all ? _gpu_pool_cache_flush_all (pool, FALSE) : _gpu_pool_cache_flush_own (pool))
    node = _gpu_pool_serve (pool, request);
  _gpu_pool_unlock_and_destroy (pool);

  return node;
}

/* Finds the best fit among the free ranges of other streams. Prefers ranges whose use has
 * completed. */
static GpuPoolNode *
find_stolen (GpuPool              *pool,
             const GpuPoolRequest *request)
{
  guint32 units = request->units + request->align - 1;
  GpuPoolNode *best = NULL;
  gboolean best_is_completed = FALSE;

  for (guint slot = 1; slot < pool->n_free_lists; slot++)
    {
      GpuPoolNode *node = slot != request->slot ? gpu_pool_heap_find (pool, slot, units) : NULL;
      gboolean is_completed = node != NULL && _gpu_pool_heap_is_completed (pool, node->use);

      if (node != NULL
          && (is_completed || _gpu_pool_may_follow (pool, request, pool->free_lists[slot]->stream))
          && (best == NULL || is_completed > best_is_completed
              || (is_completed == best_is_completed && node->units < best->units)))
        {
          best = node;
          best_is_completed = is_completed;
        }
    }

  return best;
}

/* Returns NULL without an error if no other stream has suitable memory, or if a wait for that
 * stream is refused, and NULL with an error if the driver fails. */
static GpuPoolNode *
steal (GpuPool               *pool,
       const GpuPoolRequest  *request,
       GError               **error)
{
  GpuPoolNode *node;
  GpuPoolUse use;
  gboolean waited, followed;
  guint64 before;

  _gpu_pool_lock (&pool->lock);
  node = find_stolen (pool, request);
  if (node == NULL)
    {
      _gpu_pool_unlock (&pool->lock);
      return NULL;
    }

  before = node->use;
  use = gpu_pool_heap_use (pool, before);
  _gpu_pool_heap_remove (pool, node);
  node = _gpu_pool_serve_from (pool, node, request);
  _gpu_pool_unlock_and_destroy (pool);

  followed = _gpu_pool_use_follow (&use, request->stream, &waited, error);

  _gpu_pool_lock (&pool->lock);
  pool->stats.n_steals += followed;
  pool->stats.n_waits += waited;
  if (followed)
    node->use = gpu_pool_get_use_now (request->stream);
  else
    _gpu_pool_serve_undo (pool, node, before);
  _gpu_pool_unlock_and_destroy (pool);

  return followed ? node : NULL;
}

/* Returns whether the pool may grow by @bytes so that a heap need not use memory of other heaps. */
static gboolean
may_grow_early (GpuPool *pool,
                guint64  bytes)
{
  guint64 used, managed;

  _gpu_pool_lock (&pool->lock);
  used = MAX (_gpu_pool_sum_used (pool), pool->most_used_bytes);
  managed = pool->stats.managed_bytes;
  _gpu_pool_unlock (&pool->lock);

  return managed + bytes
         <= used + MAX (used / EARLY_GROWTH, EARLY_RANGES * gpu_pool_n_heaps (pool) * bytes);
}

GpuPoolNode *
_gpu_pool_grow_early (GpuPool              *pool,
                      GpuPool              *heap,
                      const GpuPoolRequest *request)
{
  GpuPoolRequest lent = *request;
  GpuPoolNode *node;
  gboolean has_grown;
  guint64 n_growths;

  if (__atomic_load_n (&pool->has_failed_early, __ATOMIC_RELAXED))
    return NULL;

  lent.is_lent = TRUE;
  lent.prefers_edges = FALSE;
  lent.units = _gpu_pool_get_lent_units (pool, request);
  lent.size = gpu_pool_bytes (pool, lent.units);
  if (!may_grow_early (pool, lent.size) || !_gpu_pool_lock_growth (pool))
    return NULL;

  n_growths = pool->stats.n_growths;
  node = _gpu_pool_grow (pool, &lent, NULL);
  has_grown = pool->stats.n_growths != n_growths;
  if (node == NULL)
    __atomic_store_n (&pool->has_failed_early, TRUE, __ATOMIC_RELAXED);
  else
    node = _gpu_pool_lend (heap, node, request, has_grown);
  _gpu_pool_unlock_growth (pool);

  return node;
}

/* Serves @request from a free range of its stream, or a free range without pending uses, in the
 * heap of any thread. */
static GpuPoolNode *
serve_from_heaps (GpuPool              *pool,
                  const GpuPoolRequest *request)
{
  GpuPoolNode *node = NULL;

  for (guint i = 1; i < gpu_pool_n_heaps (pool) && node == NULL; i++)
    {
      GpuPool *heap = gpu_pool_heap_at (pool, i);

      _gpu_pool_lock (&heap->lock);
      _gpu_pool_heap_reclaim_completed (heap, FALSE);
      node = _gpu_pool_serve (heap, request);
      _gpu_pool_unlock_and_destroy (heap);
    }

  return node;
}

/* Steals memory of other streams from the pool, or else from the heaps of threads. */
static GpuPoolNode *
steal_anywhere (GpuPool               *pool,
                const GpuPoolRequest  *request,
                GError               **error)
{
  GError *local_error = NULL;
  GpuPoolNode *node = NULL;

  for (guint i = 0; i < gpu_pool_n_heaps (pool) && node == NULL && local_error == NULL; i++)
    node = steal (gpu_pool_heap_at (pool, i), request, &local_error);

  if (local_error != NULL)
    g_propagate_error (error, local_error);

  return node;
}

/* Tries all fallbacks that need no new memory. */
static GpuPoolNode *
serve_without_growth (GpuPool               *pool,
                      const GpuPoolRequest  *request,
                      GError               **error)
{
  GError *local_error = NULL;
  GpuPoolNode *node = _gpu_pool_lock_and_serve (pool, request);

  if (node == NULL)
    node = flush_and_serve (pool, request, FALSE);
  if (node == NULL)
    node = poll_and_serve (pool, request);
  if (node == NULL)
    node = serve_from_heaps (pool, request);
  if (node == NULL)
    node = steal_anywhere (pool, request, &local_error);
  if (node == NULL && local_error == NULL)
    node = flush_and_serve (pool, request, TRUE);
  if (node == NULL && local_error == NULL)
    node = serve_from_heaps (pool, request);
  if (node == NULL && local_error == NULL)
    node = steal_anywhere (pool, request, &local_error);

  if (local_error != NULL)
    g_propagate_error (error, local_error);

  return node;
}

/* The state of the pool when its growth failed. */
typedef struct
{
  guint64 n_changes;                /* at the first failure */
  guint64 managed_bytes;            /* at the last failure */
} Failure;

/* Grows the pool. After a failure, reclaims memory, returns unused memory to the owner, waits for
 * the uses that are pending then, and tries again. Caller holds growth_lock. */
static GpuPoolNode *
grow_hard (GpuPool               *pool,
           const GpuPoolRequest  *request,
           Failure               *failure,
           GError               **error)
{
  GpuPoolNode *node = poll_and_serve (pool, request);
  g_autoptr (GArray) pending = NULL;
  gboolean more = TRUE;

  while (node == NULL)
    {
      g_clear_error (error);
      node = _gpu_pool_grow (pool, request, error);
      if (node != NULL || !more || !_gpu_error_is_out_of_memory (*error))
        break;

      if (pending != NULL)
        more = _gpu_pool_shrink (pool, 0) || _gpu_pool_wait_for_next (pool, pending);
      else
        {
          failure->n_changes = _gpu_pool_cache_count_changes (pool);
          _gpu_pool_reclaim_completed (pool);
          pending = _gpu_pool_list_uses (pool, NULL);
        }

      node = _gpu_pool_lock_and_serve (pool, request);
      if (node == NULL)
        node = serve_from_heaps (pool, request);
    }

  if (node != NULL)
    {
      g_clear_error (error);
      return node;
    }

  /* Only the holder of growth_lock changes this number. */
  _gpu_pool_lock (&pool->lock);
  failure->managed_bytes = pool->stats.managed_bytes;
  _gpu_pool_unlock (&pool->lock);

  return NULL;
}

/* Sets @is_nested to TRUE, without an error, if the calling thread already holds growth_lock. */
static GpuPoolNode *
lock_and_grow (GpuPool               *pool,
               const GpuPoolRequest  *request,
               Failure               *failure,
               gboolean              *is_nested,
               GError               **error)
{
  GpuPoolNode *node;

  *is_nested = !_gpu_pool_lock_growth (pool);
  if (*is_nested)
    return NULL;

  node = grow_hard (pool, request, failure, error);
  _gpu_pool_unlock_growth (pool);

  return node;
}

/* Serves a request that prefers edges, see gpu_pool_wants_edges(). */
static GpuPoolNode *
serve_from_edges (GpuPool              *pool,
                  const GpuPoolRequest *request)
{
  GpuPoolNode *node = NULL;
  gboolean wants_edges;

  _gpu_pool_lock (&pool->lock);
  wants_edges = gpu_pool_wants_edges (pool, request->units);
  pool->edge_budget -= wants_edges;
  _gpu_pool_unlock (&pool->lock);

  if (wants_edges && _gpu_pool_lock_growth (pool))
    {
      node = _gpu_pool_chunks_serve (pool, request);
      _gpu_pool_unlock_growth (pool);
    }

  return node;
}

/* Returns whether the memory that the pool had when its growth failed would suffice for @request,
 * without the active blocks. If another thread has returned some of it to the owner, growth may
 * succeed now. */
static gboolean
may_suffice (GpuPool              *pool,
             const GpuPoolRequest *request,
             const Failure        *failure)
{
  guint64 used;

  _gpu_pool_lock (&pool->lock);
  used = _gpu_pool_sum_used (pool);
  _gpu_pool_unlock (&pool->lock);

  return used + gpu_pool_bytes (pool, request->units) <= failure->managed_bytes;
}

/* Searches all places, and sets @has_waited to TRUE if that included a wait for a pending use. */
static GpuPoolNode *
search (GpuPool               *pool,
        const GpuPoolRequest  *request,
        gboolean              *has_waited,
        GError               **error)
{
  g_autoptr (GArray) pending = NULL;
  GError *local_error = NULL;
  GpuPoolNode *node;

  _gpu_pool_reclaim_completed (pool);
  node = serve_without_growth (pool, request, &local_error);
  pending = _gpu_pool_list_uses (pool, NULL);
  *has_waited = node == NULL && local_error == NULL && _gpu_pool_wait_for_next (pool, pending);
  if (*has_waited)
    node = serve_without_growth (pool, request, &local_error);

  if (local_error != NULL)
    g_propagate_error (error, local_error);

  return node;
}

/* After growth has failed, searches all places once more, and again while other threads free or
 * move memory: a search looks at one place after another, so it may miss memory that moves from one
 * place to another. Then grows once more if there was such a change: the free memory may be in
 * several ranges, so that the owner must provide it anew. Returns NULL without an error if @request
 * must fail with the error of the first growth. */
static GpuPoolNode *
search_again (GpuPool               *pool,
              const GpuPoolRequest  *request,
              Failure               *failure,
              GError               **error)
{
  GError *local_error = NULL;
  GpuPoolNode *node = NULL;
  gboolean has_changed = FALSE, has_moved = FALSE, has_waited = TRUE, is_nested;

  for (guint i = 0; node == NULL && local_error == NULL && i < MAX_SEARCHES; i++)
    {
      gboolean changed = _gpu_pool_cache_has_changed (pool, &failure->n_changes, &has_moved);

      has_changed |= changed;
      if ((!changed && !has_waited) || !may_suffice (pool, request, failure))
        break;

      node = search (pool, request, &has_waited, &local_error);
    }

  /* The owner may have room beside the memory that was moving, which the pool can return now. */
  if (node == NULL && local_error == NULL
      && (has_moved || (has_changed && may_suffice (pool, request, failure))))
    node = lock_and_grow (pool, request, failure, &is_nested, &local_error);

  if (local_error != NULL)
    g_propagate_error (error, local_error);

  return node;
}

/* Tries all fallbacks. */
static GpuPoolNode *
serve_or_grow (GpuPool               *pool,
               const GpuPoolRequest  *request,
               gboolean              *is_nested,
               GError               **error)
{
  GError *local_error = NULL, *later_error = NULL;
  GpuPoolNode *node = serve_without_growth (pool, request, &local_error);
  Failure failure = { 0, 0 };

  if (node == NULL && local_error == NULL)
    {
      node = lock_and_grow (pool, request, &failure, is_nested, &local_error);
      if (_gpu_error_is_out_of_memory (local_error))
        node = search_again (pool, request, &failure, &later_error);
    }

  if (node != NULL || later_error != NULL)
    g_clear_error (&local_error);

  if (local_error != NULL)
    g_propagate_error (error, local_error);
  else if (later_error != NULL)
    g_propagate_error (error, later_error);

  return node;
}

GPU_COLD GpuPoolNode *
_gpu_pool_alloc_slowly (GpuPool               *pool,
                        const GpuPoolRequest  *original,
                        GError               **error)
{
  g_autoptr (GError) local_error = NULL;
  GpuPoolRequest copy = *original;
  const GpuPoolRequest *request = &copy;
  GpuPoolNode *node = NULL;
  gboolean is_nested = FALSE;
  guint attempt = 0;

  __atomic_fetch_add (&pool->n_slow, 1, __ATOMIC_RELAXED);
  copy.prefers_edges = FALSE;
  if (original->prefers_edges && (node = serve_from_edges (pool, request)) != NULL)
    return node;

  while (node == NULL)
    {
      g_clear_error (&local_error);
      node = serve_or_grow (pool, request, &is_nested, &local_error);
      if (is_nested)
        {
          g_set_error_literal (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
                               "the calling thread is already allocating memory for this pool");
          return NULL;
        }

      if (node != NULL || !_gpu_error_is_out_of_memory (local_error)
          || !pool->ops.make_room (pool->owner, request->size, &attempt))
        break;
    }

  if (node == NULL && _gpu_error_is_out_of_memory (local_error))
    _gpu_pool_set_refused (pool, request, local_error->code, local_error->message, error);
  else if (node == NULL)
    g_propagate_error (error, g_steal_pointer (&local_error));

  return node;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reclaims free memory whose uses have completed, and waits for pending uses. */
#include "config.h"

#include "gpumem/pool/core/gpu-pool-private.h"

/* Removes the uses that are known to have completed from the list of uses. If @stream (nullable) is
 * ordered after all others, replaces them with one use by @stream. */
static void
drop_uses (GpuPoolShared *shared,
           GpuPoolStream *stream)
{
  guint n_followed = 0;

  for (guint i = shared->n_uses; i > 0; i--)
    {
      const GpuPoolUse *use = &shared->uses[i - 1];

      if (gpu_pool_stream_has_reached (use->stream, use->use_seq))
        shared->uses[i - 1] = shared->uses[--shared->n_uses];
      else
        n_followed += stream != NULL && _gpu_pool_use_is_followed (use, stream);
    }

  if (n_followed > 0 && n_followed == shared->n_uses)
    {
      shared->uses[0] = (GpuPoolUse) { stream, _gpu_pool_stream_get_use_seq (stream) };
      shared->n_uses = 1;
    }
}

/* Polls the uses of the freed blocks that had pending uses on several streams. First records a
 * fence for each use that has none, because only a fence shows that a use has completed. The blocks
 * stay in the list: another thread that runs out of memory meanwhile must find them, and wait for
 * their uses. Returns FALSE if there are no such blocks. */
static gboolean
poll_shared (GpuPool *pool)
{
  g_autoptr (GArray) uses = NULL;

  _gpu_pool_lock (&pool->lock);
  if (pool->shared->len > 0)
    uses = g_array_new (FALSE, FALSE, sizeof (GpuPoolUse));
  for (guint i = 0; i < pool->shared->len; i++)
    {
      const GpuPoolShared *shared = g_ptr_array_index (pool->shared, i);

      for (guint k = shared->n_uses; k > 0; k--)
        g_array_append_val (uses, shared->uses[k - 1]);
    }
  _gpu_pool_unlock (&pool->lock);

  for (guint i = 0; uses != NULL && i < uses->len; i++)
    {
      _gpu_pool_use_add_fence (&g_array_index (uses, GpuPoolUse, i), NULL);
      _gpu_pool_use_is_completed (&g_array_index (uses, GpuPoolUse, i));
    }

  return uses != NULL;
}

/* Checks the freed blocks that had pending uses on several streams. A block with only one pending
 * use left becomes free memory of the stream of that use, if that stream fits a node. A block with
 * none left becomes free memory without a pending use. A use by @stream (nullable) replaces the
 * uses of a block if @stream is ordered after all of them. */
static gboolean
reclaim_shared (GpuPool       *pool,
                GpuPoolStream *stream)
{
  guint n_left = 0;
  gboolean any;

  if (!poll_shared (pool))
    return FALSE;

  _gpu_pool_lock (&pool->lock);
  for (guint i = 0; i < pool->shared->len; i++)
    {
      GpuPoolShared *shared = g_ptr_array_index (pool->shared, i);
      GpuPoolUse use = { NULL, 0 };

      drop_uses (shared, stream);
      if (shared->n_uses > 1
          || (shared->n_uses == 1 && !gpu_pool_stream_fits_node (shared->uses[0].stream)))
        {
          g_ptr_array_index (pool->shared, n_left++) = shared;
          continue;
        }

      if (shared->n_uses == 1)
        use = shared->uses[0];
      _gpu_pool_heap_add (pool, shared->node,
                          gpu_pool_use_pack (_gpu_pool_stream_get_slot (use.stream), use.use_seq));
      g_free (shared);
    }
  any = n_left < pool->shared->len;
  g_ptr_array_set_size (pool->shared, n_left);
  _gpu_pool_unlock_and_destroy (pool);

  return any;
}

gboolean
_gpu_pool_reclaim_shared (GpuPool *pool)
{
  gboolean any = FALSE;

  for (guint i = 0; i < gpu_pool_n_heaps (pool); i++)
    any |= reclaim_shared (gpu_pool_heap_at (pool, i), NULL);

  return any;
}

/* Moves the free ranges of all heaps whose uses have completed to the lists of ranges without
 * pending uses. */
static void
reclaim_ranges (GpuPool *pool)
{
  for (guint i = 0; i < gpu_pool_n_heaps (pool); i++)
    {
      GpuPool *heap = gpu_pool_heap_at (pool, i);

      _gpu_pool_lock (&heap->lock);
      _gpu_pool_heap_reclaim_completed (heap, TRUE);
      _gpu_pool_unlock_and_destroy (heap);
    }

  _gpu_pool_lock (&pool->lock);
  _gpu_pool_take_back (pool, NULL);
  _gpu_pool_unlock_and_destroy (pool);
}

static gboolean
is_worth_waiting (const GpuPoolRequest *request,
                  GpuPoolStream        *stream)
{
  return request == NULL || (stream != request->stream && _gpu_pool_stream_is_free (stream));
}

/* Returns whether @shared cannot serve @request before an action of the program. */
static gboolean
is_blocked (const GpuPoolRequest *request,
            const GpuPoolShared  *shared)
{
  for (guint i = 0; request != NULL && i < shared->n_uses; i++)
    if (shared->uses[i].stream != request->stream
        && !_gpu_pool_stream_is_free (shared->uses[i].stream))
      return TRUE;

  return FALSE;
}

/* Adds the pending uses to @uses: the latest of the free ranges of each stream, and those of the
 * freed blocks that several streams have used. */
static void
list_uses_in (GpuPool              *heap,
              const GpuPoolRequest *request,
              GArray               *uses)
{
  _gpu_pool_lock (&heap->lock);
  for (guint slot = 1; slot < heap->n_free_lists; slot++)
    {
      const GpuPoolFreeList *free_list = heap->free_lists[slot];

      if (free_list != NULL && free_list->n > 0
          && !gpu_pool_stream_has_reached (free_list->stream, free_list->latest_seq)
          && is_worth_waiting (request, free_list->stream))
        {
          GpuPoolUse use = { free_list->stream, free_list->latest_seq };

          g_array_append_val (uses, use);
        }
    }
  for (guint i = 0; i < heap->shared->len; i++)
    {
      const GpuPoolShared *shared = g_ptr_array_index (heap->shared, i);

      if (is_blocked (request, shared))
        continue;

      for (guint k = 0; k < shared->n_uses; k++)
        if (is_worth_waiting (request, shared->uses[k].stream))
          g_array_append_val (uses, shared->uses[k]);
    }
  _gpu_pool_unlock (&heap->lock);
}

GArray *
_gpu_pool_list_uses (GpuPool              *pool,
                     const GpuPoolRequest *request)
{
  GArray *uses = g_array_new (FALSE, FALSE, sizeof (GpuPoolUse));

  for (guint i = 0; i < gpu_pool_n_heaps (pool); i++)
    list_uses_in (gpu_pool_heap_at (pool, i), request, uses);

  return uses;
}

gboolean
_gpu_pool_may_follow (GpuPool              *pool,
                      const GpuPoolRequest *request,
                      GpuPoolStream        *stream)
{
  return !_gpu_pool_stream_is_capturing (stream)
         && (request->stream != NULL ? !_gpu_pool_stream_is_capturing (request->stream)
                                     : !gpu_pool_is_frozen (pool));
}

/* Orders the stream of @request after @uses, as far as possible. */
static void
follow_uses (GpuPool              *pool,
             const GpuPoolRequest *request,
             const GArray         *uses)
{
  guint n_waits = 0;

  for (guint i = 0; i < uses->len; i++)
    {
      const GpuPoolUse *use = &g_array_index (uses, GpuPoolUse, i);
      gboolean waited = FALSE;

      if (_gpu_pool_may_follow (pool, request, use->stream))
        _gpu_pool_use_follow (use, request->stream, &waited, NULL);
      n_waits += waited;
    }

  _gpu_pool_lock (&pool->lock);
  pool->stats.n_waits += n_waits;
  _gpu_pool_unlock (&pool->lock);
}

gboolean
_gpu_pool_take_over (GpuPool              *pool,
                     const GpuPoolRequest *request)
{
  g_autoptr (GArray) uses = g_array_new (FALSE, FALSE, sizeof (GpuPoolUse));

  /* The streams of threads that contend for the pool would take the memory from each other again
   * and again. */
  if (request->stream == NULL || gpu_pool_n_heaps (pool) > 1
      || !_gpu_pool_stream_is_free (request->stream)
      || _gpu_pool_stream_is_capturing (request->stream))
    return FALSE;

  list_uses_in (pool, request, uses);
  if (uses->len == 0)
    return FALSE;

  follow_uses (pool, request, uses);
  reclaim_shared (pool, request->stream);
  _gpu_pool_lock (&pool->lock);
  _gpu_pool_heap_take_over (pool, request->stream);
  _gpu_pool_unlock_and_destroy (pool);

  return TRUE;
}

static gboolean
wait_for_use (GpuPool          *pool,
              const GpuPoolUse *use)
{
  gboolean waited;

  if (gpu_pool_is_frozen (pool) || !_gpu_pool_use_follow (use, NULL, &waited, NULL))
    return FALSE;

  _gpu_pool_reclaim_shared (pool);
  _gpu_pool_lock (&pool->lock);
  pool->stats.n_waits += waited;
  _gpu_pool_unlock (&pool->lock);
  reclaim_ranges (pool);

  return TRUE;
}

gboolean
_gpu_pool_wait_for_next (GpuPool *pool,
                         GArray  *pending)
{
  while (pending->len > 0)
    {
      const GpuPoolUse use = g_array_index (pending, GpuPoolUse, 0);

      g_array_remove_index (pending, 0);
      if (!gpu_pool_stream_has_reached (use.stream, use.use_seq) && wait_for_use (pool, &use))
        return TRUE;
    }

  return FALSE;
}

/* Adds the latest use of the free ranges of each stream to @uses. */
static void
list_latest (GpuPool *heap,
             GArray  *uses)
{
  _gpu_pool_lock (&heap->lock);
  for (guint slot = 1; slot < heap->n_free_lists; slot++)
    {
      GpuPoolFreeList *free_list = heap->free_lists[slot];

      if (free_list != NULL && free_list->n > 0)
        {
          GpuPoolUse use = { free_list->stream, free_list->latest_seq };

          g_array_append_val (uses, use);
        }
    }
  _gpu_pool_unlock (&heap->lock);
}

/* For each stream that has free memory with pending uses, creates a fence unless one exists. */
static void
fence_pending (GpuPool *pool)
{
  g_autoptr (GArray) uses = g_array_new (FALSE, FALSE, sizeof (GpuPoolUse));

  for (guint i = 0; i < gpu_pool_n_heaps (pool); i++)
    list_latest (gpu_pool_heap_at (pool, i), uses);

  for (guint i = 0; i < uses->len; i++)
    _gpu_pool_use_add_fence (&g_array_index (uses, GpuPoolUse, i), NULL);
}

void
_gpu_pool_reclaim_completed (GpuPool *pool)
{
  fence_pending (pool);
  _gpu_pool_streams_poll (pool->streams);
  _gpu_pool_reclaim_shared (pool);
  reclaim_ranges (pool);
}

static void
add_pending_streams (GpuPool   *heap,
                     GPtrArray *streams)
{
  _gpu_pool_lock (&heap->lock);

  for (guint slot = 1; slot < heap->n_free_lists; slot++)
    if (heap->free_lists[slot] != NULL && heap->free_lists[slot]->n > 0
        && !g_ptr_array_find (streams, heap->free_lists[slot]->stream, NULL))
      g_ptr_array_add (streams, heap->free_lists[slot]->stream);

  for (guint i = 0; i < heap->shared->len; i++)
    {
      const GpuPoolShared *shared = g_ptr_array_index (heap->shared, i);

      for (guint k = 0; k < shared->n_uses; k++)
        if (!g_ptr_array_find (streams, shared->uses[k].stream, NULL))
          g_ptr_array_add (streams, shared->uses[k].stream);
    }

  _gpu_pool_unlock (&heap->lock);
}

GPtrArray *
_gpu_pool_list_pending (GpuPool *pool)
{
  g_autoptr (GPtrArray) streams = g_ptr_array_new ();

  for (guint i = 0; i < gpu_pool_n_heaps (pool); i++)
    add_pending_streams (gpu_pool_heap_at (pool, i), streams);

  return _gpu_pool_streams_ref_keys (streams);
}

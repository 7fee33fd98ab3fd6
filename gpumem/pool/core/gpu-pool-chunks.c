/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Growth in an address range. If free ranges are too small for a request, their chunks are
 * unmapped, and mapped again where the request needs them. Fragmentation therefore costs driver
 * calls, but no memory.
 */
#include "config.h"

#include "gpumem/base/gpu-error-private.h"
#include "gpumem/pool/core/gpu-pool-chunks-private.h"

/* The limits of the size of a new chunk: MAX_CHUNK bytes, 1/CHUNK_REQUEST of the request, and
 * 1/CHUNK_PEAK of the peak use. Large chunks need fewer driver calls, but small chunks are easier
 * to reuse for other requests, because the pool can only move whole chunks. */
#define MAX_CHUNK      (64 * 1024 * 1024)
#define CHUNK_REQUEST  2
#define CHUNK_PEAK     280
/* If growth would raise the waste above this multiple of the allowed waste, the pool waits for
 * pending uses and does not grow. There are few such waits, because a pool no longer grows once it
 * has all the memory that its program needs. */
#define WASTE_FACTOR   4.0
/* The number of granules by which a pool may exceed the allowed memory. */
#define SLACK          1
/* If a free range could serve the request, edges are only used if they have MIN_EDGES granules
 * together, and if at most MAX_BETWEEN granules have to be moved between them: otherwise they are
 * not worth the driver calls. */
#define MIN_EDGES      1
#define MAX_BETWEEN    64

/* For each new chunk, EDGES_PER_CHUNK requests may search for edges although a free range could
 * serve them. So the calls for edges are few, compared with the calls for growth, and end with the
 * growth: after MAX_EDGE_BUDGET searches at the latest. */
#define EDGES_PER_CHUNK 2
#define MAX_EDGE_BUDGET 2000

typedef enum
{
  NORMAL,
  FRUGAL,                           /* moves as many chunks as possible */
  EDGES                             /* only uses edges and the chunks between them */
} Mode;

static void
start (GpuPoolGrowth        *growth,
       GpuPool              *pool,
       const GpuPoolRequest *request)
{
  *growth = (GpuPoolGrowth) { .pool = pool, .chunks = pool->chunks, .request = request };
  growth->moved = g_array_new (FALSE, FALSE, sizeof (GpuPoolChunk));
  growth->holes = g_ptr_array_new ();
  growth->stale = g_array_new (FALSE, FALSE, sizeof (GpuPoolStale));
}

static void
finish (GpuPoolGrowth *growth)
{
  g_array_unref (growth->moved);
  g_ptr_array_unref (growth->holes);
  g_array_unref (growth->stale);
}

static void
unmap_moved (GpuPoolGrowth *growth)
{
  GpuPool *pool = growth->pool;

  growth->n_unmaps += _gpu_pool_unmap_chunks (pool, (const GpuPoolChunk *) growth->moved->data,
                                              growth->moved->len);

  _gpu_pool_lock (&pool->lock);
  for (guint i = 0; i < growth->holes->len; i++)
    _gpu_pool_make_unmapped (pool, g_ptr_array_index (growth->holes, i));
  _gpu_pool_unlock_and_destroy (pool);
}

/* --- mapping: without the lock --------------------------------------------------------- */

/* Finds the largest chunk of at most @max granules that is still mapped at its old addresses. */
static GpuPoolStale *
find_largest_stale (GpuPoolGrowth *growth,
                    guint32        max)
{
  GpuPoolStale *best = NULL;

  for (guint i = 0; i < growth->stale->len; i++)
    {
      GpuPoolStale *stale = &g_array_index (growth->stale, GpuPoolStale, i);

      if (!stale->is_moved && stale->chunk.n <= max
          && (best == NULL || stale->chunk.n > best->chunk.n))
        best = stale;
    }

  return best;
}

static gboolean
fail_limit (guint64   bytes,
            GError  **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
               "growth by %" G_GUINT64_FORMAT " bytes would exceed the limit", bytes);

  return FALSE;
}

/* Destroys moved chunks as far as a new chunk of @n granules would exceed the allowed memory. Such
 * moved chunks are too large for the unmapped ranges. Returns whether the pool may create the new
 * chunk. Chunks of growth->stale that do not fit into the placement remain, and so do moved chunks
 * with stale mappings, so the pool may need more new chunks than move_chunks() has assumed.
 *
 * A pool far above the allowed memory destroys more chunks than the new one needs, and creates
 * smaller ones for the rest of the request. That is worth the calls: smaller chunks fit later
 * requests, so the pool needs less memory and fewer calls afterwards. */
static gboolean
make_way (GpuPoolGrowth *growth,
          guint32        n)
{
  GpuPool *pool = growth->pool;

  for (;;)
    {
      guint n_moved = growth->moved->len;
      guint64 managed, limit;

      _gpu_pool_lock (&pool->lock);
      managed = pool->stats.managed_bytes + n * pool->config.granularity;
      limit = pool->limits.limit;
      _gpu_pool_unlock (&pool->lock);

      if (n_moved == 0 || managed <= growth->allowed)
        return limit == 0 || managed <= limit;

      _gpu_pool_drop_chunk (pool, &g_array_index (growth->moved, GpuPoolChunk, n_moved - 1));
      g_array_set_size (growth->moved, n_moved - 1);
    }
}

/* Creates the largest chunk of at most @max granules that the growth may use. */
static gboolean
create_chunk (GpuPoolGrowth  *growth,
              guint32         max,
              GpuPoolChunk   *chunk,
              GError        **error)
{
  GpuPool *pool = growth->pool;
  gsize granularity = pool->config.granularity;

  chunk->n = CLAMP (growth->largest / granularity, 1, max);
  if (!make_way (growth, chunk->n))
    return fail_limit (chunk->n * granularity, error);

  chunk->handle = pool->ops.create_chunk (pool->owner, chunk->n * granularity, error);
  if (chunk->handle == NULL)
    return FALSE;

  growth->n_created++;
  _gpu_pool_lock (&pool->lock);
  _gpu_pool_count_managed (pool, chunk->n * granularity);
  _gpu_pool_unlock (&pool->lock);

  return TRUE;
}

/* Takes the largest chunk of at most @max granules from growth->moved, or else from growth->stale.
 * If there is none, creates a chunk. */
static gboolean
get_chunk (GpuPoolGrowth  *growth,
           guint32         max,
           GpuPoolChunk   *chunk,
           GError        **error)
{
  GpuPoolStale *stale;
  gint best = -1;

  for (guint i = 0; i < growth->moved->len; i++)
    {
      const GpuPoolChunk *moved = &g_array_index (growth->moved, GpuPoolChunk, i);

      if (moved->n <= max
          && (best < 0 || moved->n > g_array_index (growth->moved, GpuPoolChunk, best).n))
        best = i;
    }

  if (best >= 0)
    {
      *chunk = g_array_index (growth->moved, GpuPoolChunk, best);
      g_array_remove_index_fast (growth->moved, best);
      return TRUE;
    }

  stale = find_largest_stale (growth, max);
  if (stale != NULL)
    {
      stale->is_moved = TRUE;
      *chunk = stale->chunk;
      return TRUE;
    }

  return create_chunk (growth, max, chunk, error);
}

static gboolean
map_parts (GpuPoolGrowth  *growth,
           guint32         first,
           GArray         *parts,
           GError        **error)
{
  GpuPool *pool = growth->pool;
  gsize granularity = pool->config.granularity;
  g_autofree gpointer *chunks = g_new (gpointer, parts->len);
  g_autofree gsize *sizes = g_new (gsize, parts->len);

  for (guint i = 0; i < parts->len; i++)
    {
      chunks[i] = g_array_index (parts, GpuPoolChunk, i).handle;
      sizes[i] = g_array_index (parts, GpuPoolChunk, i).n * granularity;
    }

  if (!pool->ops.map_chunks (pool->owner, first * granularity, chunks, sizes, parts->len, error))
    return FALSE;

  for (guint i = 0; i < parts->len; i++)
    {
      const GpuPoolChunk *part = &g_array_index (parts, GpuPoolChunk, i);

      for (guint32 j = 0; j < part->n; j++)
        growth->chunks->granules[first + j] = (GpuPoolGranule) { part->handle, first, part->n };
      first += part->n;
    }

  _gpu_pool_lock (&pool->lock);
  pool->stats.n_maps++;
  _gpu_pool_unlock (&pool->lock);

  return TRUE;
}

/* Returns whether a chunk is also mapped where it was before the growth. */
static gboolean
is_elsewhere (GpuPoolGrowth *growth,
              gpointer       handle)
{
  return handle == growth->head.chunk.handle || handle == growth->tail.chunk.handle
         || _gpu_pool_find_stale (growth, handle) != NULL;
}

/* Maps memory to a whole unmapped range, including the chunks of the edges, if any. On failure,
 * maps nothing. */
static gboolean
fill_unmapped (GpuPoolGrowth  *growth,
               GpuPoolNode    *node,
               GError        **error)
{
  g_autoptr (GArray) parts = g_array_new (FALSE, FALSE, sizeof (GpuPoolChunk));
  guint32 granule = growth->chunks->granule;
  guint32 left = node->units / granule - growth->head.chunk.n - growth->tail.chunk.n;
  gboolean filled = TRUE;

  if (growth->head.node != NULL)
    g_array_append_val (parts, growth->head.chunk);

  while (left > 0 && filled)
    {
      GpuPoolChunk chunk = { NULL, };

      filled = get_chunk (growth, left, &chunk, error);
      if (filled)
        {
          g_array_append_val (parts, chunk);
          left -= chunk.n;
        }
    }

  if (growth->tail.node != NULL)
    g_array_append_val (parts, growth->tail.chunk);

  if (filled)
    filled = map_parts (growth, node->offset / granule, parts, error);

  for (guint i = 0; i < parts->len && !filled; i++)
    {
      GpuPoolChunk *part = &g_array_index (parts, GpuPoolChunk, i);

      if (!is_elsewhere (growth, part->handle))
        g_array_append_val (growth->moved, *part);
    }

  return filled;
}

/* Unmaps the chunks that were mapped into the nodes from @first up to @end, excluding @end. */
static void
unmap_filled (GpuPoolGrowth *growth,
              GpuPoolNode   *first,
              GpuPoolNode   *end)
{
  guint32 granule = growth->chunks->granule;
  guint n = growth->moved->len;

  for (GpuPoolNode *node = first; node != end; node = node->next)
    for (guint32 at = node->offset / granule;
         node->flag && at < (node->offset + node->units) / granule; )
      {
        const GpuPoolGranule *behind = &growth->chunks->granules[at];
        GpuPoolChunk chunk = { behind->handle, at, behind->n };

        g_array_append_val (growth->moved, chunk);
        at += chunk.n;
      }

  growth->n_unmaps += _gpu_pool_unmap_chunks (growth->pool,
                                              &g_array_index (growth->moved, GpuPoolChunk, n),
                                              growth->moved->len - n);

  for (guint i = growth->moved->len; i > n; i--)
    if (is_elsewhere (growth, g_array_index (growth->moved, GpuPoolChunk, i - 1).handle))
      g_array_remove_index_fast (growth->moved, i - 1);
}

static gboolean
fill_placement (GpuPoolGrowth           *growth,
                const GpuPoolPlacement  *placement,
                GError                 **error)
{
  for (GpuPoolNode *node = placement->first; ; node = node->next)
    {
      if (node->flag && !fill_unmapped (growth, node, error))
        {
          unmap_filled (growth, placement->first, node);
          return FALSE;
        }

      /* Do not read `last->next`: other threads may change the nodes after `last`. */
      if (node == placement->last)
        return TRUE;
    }
}

/* Destroys moved chunks that were not mapped again. Caller does not hold `lock`. */
static void
destroy_moved (GpuPoolGrowth *growth)
{
  GpuPool *pool = growth->pool;

  if (growth->moved->len > 0)
    _gpu_pool_unmap_stale (pool);

  for (guint i = 0; i < growth->moved->len; i++)
    _gpu_pool_drop_chunk (pool, &g_array_index (growth->moved, GpuPoolChunk, i));

  _gpu_pool_lock (&pool->lock);
  pool->stats.n_unmaps += growth->n_unmaps;
  pool->edge_budget = MIN (pool->edge_budget + EDGES_PER_CHUNK * growth->n_created,
                           MAX_EDGE_BUDGET);
  _gpu_pool_unlock (&pool->lock);
}

/* --- growth ---------------------------------------------------------------------------- */

/* Returns the number of managed bytes up to which the pool may grow for @request with @waste. */
static guint64
get_allowed (GpuPool              *pool,
             const GpuPoolRequest *request,
             double                waste)
{
  guint64 used = _gpu_pool_sum_used (pool) + gpu_pool_bytes (pool, request->units);
  guint64 allowed = MAX (pool->most_used_bytes, used) * (1.0 + waste)
                    + SLACK * pool->config.granularity;

  if (pool->limits.soft_limit != 0)
    allowed = MIN (allowed, pool->limits.soft_limit);
  if (pool->limits.limit != 0)
    allowed = MIN (allowed, pool->limits.limit);

  return allowed;
}

/* A request needs @cost bytes of mapped memory. Returns the number of these bytes that must come
 * from moved chunks, to keep the managed memory within the allowed @waste. */
static guint64
get_shortage (GpuPool              *pool,
              const GpuPoolRequest *request,
              guint64               cost,
              double                waste)
{
  guint64 allowed = get_allowed (pool, request, waste);
  guint64 managed = pool->stats.managed_bytes + cost;

  return managed > allowed ? MIN (managed - allowed, cost) : 0;
}

/* Returns the number of mapped bytes that can be moved to other addresses: the whole chunks of free
 * ranges whose uses have completed or, unless there are too many stale mappings, are by the stream
 * of @request. */
static guint64
count_movable (GpuPool              *pool,
               const GpuPoolRequest *request)
{
  guint32 granule = pool->chunks->granule;
  const GpuPoolRequest *mover = _gpu_pool_may_move_pending (pool) ? request : NULL;
  g_autoptr (GPtrArray) ranges = _gpu_pool_find_ranges (pool, mover, granule);
  guint64 n = 0;

  for (guint i = 0; i < ranges->len; i++)
    n += _gpu_pool_count_whole (pool->chunks, g_ptr_array_index (ranges, i));

  return n * pool->config.granularity;
}

/* Takes the chunks to move for @shortage bytes. Fails if the pool would exceed its limit. */
static gboolean
move_chunks (GpuPoolGrowth           *growth,
             const GpuPoolPlacement  *placement,
             guint64                  shortage,
             GError                 **error)
{
  GpuPool *pool = growth->pool;
  gsize granularity = pool->config.granularity;
  guint64 limit = pool->limits.limit, cost = gpu_pool_bytes (pool, placement->cost), moved;

  growth->largest = MIN (growth->request->size / CHUNK_REQUEST, MAX_CHUNK);
  growth->largest = MIN (growth->largest, pool->most_used_bytes / CHUNK_PEAK);

  growth->allowed = get_allowed (pool, growth->request, pool->limits.waste);
  if (growth->is_frugal)
    growth->allowed = MIN (growth->allowed, pool->stats.managed_bytes);

  if (gpu_pool_is_frozen (pool))
    shortage = 0;
  moved = _gpu_pool_take_chunks (growth, (shortage + granularity - 1) / granularity) * granularity;
  pool->stats.n_recycled += growth->moved->len + growth->stale->len;

  if (limit != 0 && pool->stats.managed_bytes + cost - moved > limit)
    return fail_limit (cost - moved, error);

  return TRUE;
}

static gboolean
prepare (GpuPoolGrowth     *growth,
         GpuPoolPlacement  *placement,
         GError           **error)
{
  GpuPool *pool = growth->pool;
  gboolean found = _gpu_pool_find_placement (growth, placement);
  guint64 cost = found ? placement->cost : growth->request->units;
  double waste = pool->limits.waste;
  gboolean has_edges = FALSE;

  if (growth->is_frugal
      || get_shortage (pool, growth->request, gpu_pool_bytes (pool, cost), waste) > 0)
    has_edges = _gpu_pool_take_edges (growth, found ? cost : G_MAXUINT64, placement);

  if (!found && !has_edges)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
                   "no contiguous range of %" G_GUINT64_FORMAT " bytes of addresses is free",
                   (guint64) gpu_pool_bytes (pool, growth->request->units));
      return FALSE;
    }

  if (!has_edges)
    _gpu_pool_take_placement (growth, placement);

  cost = gpu_pool_bytes (pool, placement->cost);
  if (!growth->is_frugal)
    cost = get_shortage (pool, growth->request, cost, waste);

  return move_chunks (growth, placement, cost, error);
}

/* Like prepare(), for a request that free ranges could serve: fails unless there are edges, and
 * about enough chunks to move between them. As chunks are only moved whole, the pool may grow a
 * little, so it must be below its soft limit by the size of the chunks. Also fails if the range
 * that could serve the request has pending uses: its chunks cannot be moved, so the pool would soon
 * need more memory. */
static gboolean
prepare_edges (GpuPoolGrowth     *growth,
               GpuPoolPlacement  *placement,
               GError           **error)
{
  GpuPool *pool = growth->pool;
  GpuPoolNode *fit = _gpu_pool_find_fit (pool, growth->request);

  if ((fit == NULL || _gpu_pool_heap_is_completed (pool, fit->use))
      && _gpu_pool_take_edges (growth, G_MAXUINT64, placement))
    {
      guint64 cost = gpu_pool_bytes (pool, placement->cost);
      guint64 soft_limit = pool->limits.soft_limit;

      if ((soft_limit == 0 || pool->stats.managed_bytes + cost <= soft_limit)
          && growth->head.units + (guint64) growth->tail.units
             >= MIN_EDGES * (guint64) pool->granule
          && cost <= MAX_BETWEEN * pool->config.granularity
          && cost <= count_movable (pool, growth->request))
        return move_chunks (growth, placement, cost, error);
    }

  g_set_error_literal (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "no edges suffice");

  return FALSE;
}

/* Restores the nodes of a placement that could not be mapped. Caller holds `lock`. */
static void
give_up_placement (GpuPoolGrowth          *growth,
                   const GpuPoolPlacement *placement)
{
  GpuPoolNode *end = placement->last->next;
  GpuPoolNode *node, *next;

  _gpu_pool_return_edges (growth);

  for (node = placement->first; node != end; node = next)
    {
      next = node->next;
      if (node->flag)
        _gpu_pool_make_unmapped (growth->pool, node);
      else
        _gpu_pool_heap_add (growth->pool, node, node->use);
    }
}

static void
rejoin (GpuPool     *pool,
        GpuPoolNode *node)
{
  if (node == NULL || gpu_pool_node_state (node) != GPU_POOL_NODE_FREE)
    return;

  _gpu_pool_heap_remove (pool, node);
  _gpu_pool_heap_add (pool, node, node->use);
}

/* Returns the later of @use and @added. @use is by the stream of the request. If @added is by
 * another stream, it has completed. */
static guint64
add_use (GpuPoolGrowth *growth,
         guint64        use,
         guint64        added)
{
  return gpu_pool_use_slot (added) == growth->request->slot ? MAX (use, added) : use;
}

static GpuPoolNode *
use_placement (GpuPoolGrowth    *growth,
               GpuPoolPlacement *placement)
{
  GpuPool *pool = growth->pool;
  GpuPoolNode *node, *end;
  guint64 use = gpu_pool_use_pack (growth->request->slot, 0);

  _gpu_pool_split_chunks (growth, placement);
  node = placement->first;
  end = placement->last->next;

  use = add_use (growth, use, growth->head.use);
  use = add_use (growth, use, growth->tail.use);
  for (guint i = 0; i < growth->stale->len; i++)
    use = add_use (growth, use, g_array_index (growth->stale, GpuPoolStale, i).node->use);
  for (GpuPoolNode *part = placement->first; part != end; part = part->next)
    if (!part->flag)
      use = add_use (growth, use, part->use);

  while (node->next != end)
    _gpu_pool_heap_join_next (pool, node);

  node->use = use;
  pool->stats.n_growths++;
  node = _gpu_pool_serve_from (pool, node, growth->request);

  /* The request may not need the first or the last part of the range. These parts are now free
   * nodes. Join each with its other neighbour, which another thread may have freed during the
   * growth. */
  rejoin (pool, node->prev);
  rejoin (pool, node->next);

  return node;
}

static GpuPoolNode *
grow (GpuPool               *pool,
      const GpuPoolRequest  *request,
      Mode                   mode,
      GError               **error)
{
  GpuPoolNode *node = NULL;
  GpuPoolPlacement placement = { NULL, };
  GpuPoolGrowth growth;
  gboolean ready;

  start (&growth, pool, request);
  growth.is_frugal = mode == FRUGAL;

  _gpu_pool_lock (&pool->lock);
  if (mode == EDGES)
    ready = prepare_edges (&growth, &placement, error);
  else
    ready = prepare (&growth, &placement, error);
  _gpu_pool_unlock_and_destroy (pool);

  unmap_moved (&growth);
  if (ready)
    ready = fill_placement (&growth, &placement, error);
  destroy_moved (&growth);

  _gpu_pool_lock (&pool->lock);
  if (ready)
    node = use_placement (&growth, &placement);
  else if (placement.first != NULL)
    give_up_placement (&growth, &placement);
  _gpu_pool_keep_stale (&growth, !ready);
  _gpu_pool_unlock_and_destroy (pool);

  finish (&growth);

  return node;
}

typedef enum
{
  PLENTY,
  SCARCE,                           /* poll pending uses first */
  SHORT                             /* wait for pending uses */
} Supply;

static Supply
get_supply (GpuPool              *pool,
            const GpuPoolRequest *request)
{
  guint64 cost = gpu_pool_bytes (pool, request->units);
  double waste = pool->limits.waste;
  Supply supply = PLENTY;

  _gpu_pool_lock (&pool->lock);
  if (get_shortage (pool, request, cost, waste) > 0)
    supply = SCARCE;
  if (supply == SCARCE
      && get_shortage (pool, request, cost, WASTE_FACTOR * waste) > count_movable (pool, request))
    supply = SHORT;
  _gpu_pool_unlock (&pool->lock);

  return supply;
}

/* Unmaps the chunks that are mapped twice from one place, as far as pending uses allow. */
static void
unmap_doubles (GpuPool              *pool,
               const GpuPoolRequest *request)
{
  _gpu_pool_unmap_stale (pool);
  _gpu_pool_reunite_chunks (pool, request);
}

/* Avoids growth beyond the limit `waste`. If growth would exceed this limit, tries memory whose
 * uses have completed, and then orders the stream of the request after the uses of other streams.
 * Their memory then serves the request, or its chunks move. If the shortage is large, waits for the
 * other pending uses: for all if the request has no stream. Does neither for memory to lend. */
static GpuPoolNode *
find_more (GpuPool              *pool,
           const GpuPoolRequest *request)
{
  g_autoptr (GArray) pending = NULL;
  GpuPoolNode *node;

  if (get_supply (pool, request) == PLENTY)
    return NULL;

  _gpu_pool_reclaim_completed (pool);
  unmap_doubles (pool, request);
  node = _gpu_pool_lock_and_serve (pool, request);
  if (node == NULL && !request->is_lent && _gpu_pool_take_over (pool, request))
    {
      unmap_doubles (pool, request);
      node = _gpu_pool_lock_and_serve (pool, request);
    }
  if (node == NULL && !request->is_lent)
    pending = _gpu_pool_list_uses (pool, request);
  while (node == NULL && !request->is_lent && get_supply (pool, request) == SHORT
         && _gpu_pool_wait_for_next (pool, pending))
    node = _gpu_pool_lock_and_serve (pool, request);

  return node;
}

GpuPoolNode *
_gpu_pool_chunks_serve (GpuPool              *pool,
                        const GpuPoolRequest *request)
{
  _gpu_pool_reclaim_completed (pool);
  unmap_doubles (pool, request);

  return grow (pool, request, EDGES, NULL);
}

GpuPoolNode *
_gpu_pool_chunks_grow (GpuPool               *pool,
                       const GpuPoolRequest  *request,
                       GError               **error)
{
  GError *local_error = NULL;
  GpuPoolNode *node = find_more (pool, request);

  if (node != NULL)
    return node;

  node = grow (pool, request, NORMAL, &local_error);
  if (node == NULL && _gpu_error_is_out_of_memory (local_error))
    {
      g_clear_error (&local_error);
      unmap_doubles (pool, request);
      node = grow (pool, request, FRUGAL, &local_error);
    }

  if (node == NULL)
    g_propagate_error (error, local_error);

  return node;
}

gboolean
_gpu_pool_chunks_shrink (GpuPool *pool,
                         guint64  keep)
{
  gsize granularity = pool->config.granularity;
  gboolean any = FALSE, more = TRUE;

  while (more)
    {
      GpuPoolGrowth growth;

      unmap_doubles (pool, NULL);
      start (&growth, pool, NULL);
      growth.overshoot = TRUE;

      _gpu_pool_lock (&pool->lock);
      if (pool->stats.managed_bytes > keep)
        _gpu_pool_take_chunks (&growth, (pool->stats.managed_bytes - keep + granularity - 1)
                                  / granularity);
      _gpu_pool_unlock_and_destroy (pool);

      more = growth.moved->len > 0;
      any |= more;
      if (more)
        {
          unmap_moved (&growth);
          destroy_moved (&growth);
        }
      finish (&growth);
    }

  return any;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Selects the addresses to which memory is mapped for a request, and the chunks to move there.
 * Callers hold `lock`. */
#include "config.h"

#include "gpumem/pool/core/gpu-pool-chunks-private.h"

/* Nodes examined on each side of an unmapped range. */
#define RADIUS 4
/* Free nodes examined in the list of each stream. */
#define MAX_VISITED (2 * GPU_POOL_MAX_MOVED)
/* No chunks with pending uses are moved while stale mappings have more than 1/MAX_STALE of the
 * addresses. */
#define MAX_STALE 4

/* --- the list of unmapped ranges ------------------------------------------------------ */

void
_gpu_pool_add_unmapped (GpuPool     *pool,
                        GpuPoolNode *node)
{
  GpuPoolChunks *chunks = pool->chunks;
  GpuPoolNode *prev = NULL, *next = chunks->unmapped;

  while (next != NULL && next->offset < node->offset)
    {
      prev = next;
      next = next->free_next;
    }

  gpu_pool_node_set_state (node, GPU_POOL_NODE_UNMAPPED);
  node->use = 0;
  node->free_prev = prev;
  node->free_next = next;
  if (prev != NULL)
    prev->free_next = node;
  else
    chunks->unmapped = node;
  if (next != NULL)
    next->free_prev = node;
}

void
_gpu_pool_remove_unmapped (GpuPool     *pool,
                           GpuPoolNode *node)
{
  if (node->free_prev != NULL)
    node->free_prev->free_next = node->free_next;
  else
    pool->chunks->unmapped = node->free_next;
  if (node->free_next != NULL)
    node->free_next->free_prev = node->free_prev;

  gpu_pool_node_set_state (node, GPU_POOL_NODE_BUSY);
}

void
_gpu_pool_make_unmapped (GpuPool     *pool,
                         GpuPoolNode *node)
{
  GpuPoolNode *prev = node->prev, *next = node->next;

  if (next != NULL && gpu_pool_node_state (next) == GPU_POOL_NODE_UNMAPPED)
    {
      _gpu_pool_remove_unmapped (pool, next);
      _gpu_pool_heap_join_next (pool, node);
    }

  if (prev != NULL && gpu_pool_node_state (prev) == GPU_POOL_NODE_UNMAPPED)
    {
      _gpu_pool_remove_unmapped (pool, prev);
      _gpu_pool_heap_join_next (pool, prev);
      node = prev;
    }

  _gpu_pool_add_unmapped (pool, node);
}

void
_gpu_pool_chunks_new (GpuPool *pool)
{
  const GpuPoolConfig *config = &pool->config;
  GpuPoolChunks *chunks = g_new0 (GpuPoolChunks, 1);
  GpuPoolSegment segment = { config->range_address, 0, NULL };

  chunks->granule = config->granularity >> pool->unit_shift;
  chunks->n_granules = config->range_size / config->granularity;
  chunks->granules = g_new0 (GpuPoolGranule, chunks->n_granules);
  chunks->splits = g_array_new (FALSE, FALSE, sizeof (GpuPoolSplit));
  chunks->stale = g_array_new (FALSE, FALSE, sizeof (GpuPoolStale));
  segment.size = chunks->n_granules * config->granularity;
  pool->chunks = chunks;
  pool->granule = chunks->granule;
  pool->granule_shift = g_bit_storage (chunks->granule) - 1;
  pool->granules = chunks->granules;

  chunks->area = _gpu_pool_heap_add_area (pool, &segment);
  _gpu_pool_add_unmapped (pool, chunks->area->first);
}

void
_gpu_pool_destroy_chunk (GpuPool            *pool,
                         const GpuPoolChunk *chunk)
{
  pool->ops.destroy_chunk (pool->owner, chunk->handle, chunk->n * pool->config.granularity);
}

guint
_gpu_pool_unmap_chunks (GpuPool            *pool,
                        const GpuPoolChunk *chunks,
                        guint               n_chunks)
{
  gsize granularity = pool->config.granularity;
  guint n_calls = 0;

  for (guint i = 0; i < n_chunks; n_calls++)
    {
      guint32 first = chunks[i].first, end = first;

      for (; i < n_chunks && chunks[i].first == end; i++)
        end += chunks[i].n;

      pool->ops.unmap_chunks (pool->owner, first * granularity, (end - first) * granularity);
      memset (pool->chunks->granules + first, 0, (end - first) * sizeof (GpuPoolGranule));
    }

  return n_calls;
}

void
_gpu_pool_unmap_nodes (GpuPool      *pool,
                       const GArray *chunks,
                       GPtrArray    *nodes)
{
  guint n_unmaps = _gpu_pool_unmap_chunks (pool, (const GpuPoolChunk *) chunks->data, chunks->len);

  _gpu_pool_lock (&pool->lock);
  pool->stats.n_unmaps += n_unmaps;
  for (guint i = 0; i < nodes->len; i++)
    _gpu_pool_make_unmapped (pool, g_ptr_array_index (nodes, i));
  _gpu_pool_unlock_and_destroy (pool);
}

/* Frees all chunks, including memory with pending uses. */
void
_gpu_pool_chunks_free (GpuPool *pool)
{
  GpuPoolChunks *chunks = pool->chunks;

  for (guint i = 0; i < chunks->splits->len; i++)
    {
      const GpuPoolSplit *split = &g_array_index (chunks->splits, GpuPoolSplit, i);
      GpuPoolChunk chunk = { split->handle, split->first[1], split->n };

      _gpu_pool_unmap_chunks (pool, &chunk, 1);
    }

  for (guint i = 0; i < chunks->stale->len; i++)
    _gpu_pool_unmap_chunks (pool, &g_array_index (chunks->stale, GpuPoolStale, i).chunk, 1);
  for (guint i = 0; i < chunks->stale->len; i++)
    if (g_array_index (chunks->stale, GpuPoolStale, i).is_last)
      _gpu_pool_destroy_chunk (pool, &g_array_index (chunks->stale, GpuPoolStale, i).chunk);

  for (guint i = 0; i < chunks->n_granules; i++)
    if (chunks->granules[i].handle != NULL)
      {
        GpuPoolChunk chunk = { chunks->granules[i].handle, i, chunks->granules[i].n };

        _gpu_pool_unmap_chunks (pool, &chunk, 1);
        _gpu_pool_destroy_chunk (pool, &chunk);
      }

  g_array_unref (chunks->stale);
  g_array_unref (chunks->splits);
  g_free (chunks->granules);
  g_free (chunks);
}

/* --- finding a placement -------------------------------------------------------------- */

gboolean
_gpu_pool_may_use (GpuPool              *pool,
                   const GpuPoolRequest *request,
                   guint64               use)
{
  return (request != NULL && gpu_pool_use_slot (use) == request->slot)
         || _gpu_pool_heap_is_completed (pool, use);
}

static gboolean
is_part (GpuPool              *pool,
         GpuPoolNode          *node,
         const GpuPoolRequest *request)
{
  GpuPoolNodeState state = gpu_pool_node_state (node);

  return state == GPU_POOL_NODE_UNMAPPED
         || (state == GPU_POOL_NODE_FREE && _gpu_pool_may_use (pool, request, node->use));
}

/* Adds ranges to a placement, from @first to the right, or to the left if @left is TRUE, until they
 * have @needed units. Adds no range beyond @end. Replaces @best if the new placement is cheaper. */
static void
try_placement (GpuPoolGrowth    *growth,
               GpuPoolNode      *first,
               GpuPoolNode      *end,
               guint64           needed,
               gboolean          left,
               GpuPoolPlacement *best)
{
  guint32 granule = growth->chunks->granule;
  guint64 sum = 0, cost = 0;

  for (GpuPoolNode *node = first; ; node = left ? node->prev : node->next)
    {
      guint32 rest = 0;

      if (gpu_pool_node_state (node) == GPU_POOL_NODE_UNMAPPED)
        {
          guint64 take = (needed - sum + granule - 1) / granule * granule;

          take = MIN (take, node->units);
          rest = node->units - take;
          cost += take;
          sum += take;
        }
      else
        sum += node->units;

      if (cost >= best->cost)
        break;

      if (sum >= needed)
        {
          *best = (GpuPoolPlacement) { left ? node : first, left ? first : node,
                                    left ? rest : 0, left ? 0 : rest, cost };
          break;
        }

      if (node == end)
        break;
    }
}

gboolean
_gpu_pool_find_placement (GpuPoolGrowth    *growth,
                          GpuPoolPlacement *best)
{
  guint64 needed = (guint64) growth->request->units + growth->request->align - 1;
  const GpuPoolRequest *request = growth->request;

  best->cost = G_MAXUINT64;

  for (GpuPoolNode *hole = growth->chunks->unmapped; hole != NULL; hole = hole->free_next)
    {
      GpuPoolNode *first = hole, *last = hole;

      for (guint i = 0; i < RADIUS && first->prev != NULL
           && is_part (growth->pool, first->prev, request); i++)
        first = first->prev;
      for (guint i = 0; i < RADIUS && last->next != NULL
           && is_part (growth->pool, last->next, request); i++)
        last = last->next;

      for (GpuPoolNode *node = first; ; node = node->next)
        {
          try_placement (growth, node, last, needed, FALSE, best);
          /* Also try the reverse direction. If the leftmost unmapped range is then mapped only in
           * part, the part at its end is mapped, next to the other ranges of the placement. */
          if (node->next != NULL)
            try_placement (growth, node, first, needed, TRUE, best);
          if (node == last)
            break;
        }
    }

  return best->cost != G_MAXUINT64;
}

/* Frees the part of the first or the last range of @placement that the request does not need, if
 * the part may have chunks to move. */
static void
free_excess (GpuPoolGrowth    *growth,
             GpuPoolPlacement *placement)
{
  GpuPool *pool = growth->pool;
  GpuPoolNode *first = placement->first, *last = placement->last;
  guint64 needed = (guint64) growth->request->units + growth->request->align - 1;
  guint64 units = (guint64) last->offset + last->units - first->offset;
  guint64 excess = units - MIN (units, needed);

  if (excess < growth->chunks->granule)
    return;

  if (!last->flag && excess < last->units)
    {
      GpuPoolNode *rest = _gpu_pool_heap_split (pool, last, last->units - excess);

      _gpu_pool_heap_add (pool, rest, last->use);
    }
  else if (!first->flag && excess < first->units)
    {
      placement->first = _gpu_pool_heap_split (pool, first, excess);
      placement->first->flag = FALSE;
      if (placement->last == first)
        placement->last = placement->first;
      _gpu_pool_heap_add (pool, first, first->use);
    }
}

void
_gpu_pool_take_placement (GpuPoolGrowth    *growth,
                          GpuPoolPlacement *placement)
{
  GpuPool *pool = growth->pool;
  GpuPoolNode *end;

  if (placement->unmapped_after > 0)
    {
      GpuPoolNode *rest;

      _gpu_pool_remove_unmapped (pool, placement->last);
      rest = _gpu_pool_heap_split (pool, placement->last,
                                   placement->last->units - placement->unmapped_after);
      _gpu_pool_add_unmapped (pool, rest);
      if (placement->unmapped_before == 0 || placement->first != placement->last)
        _gpu_pool_add_unmapped (pool, placement->last);
    }
  if (placement->unmapped_before > 0)
    {
      GpuPoolNode *rest = placement->first;

      _gpu_pool_remove_unmapped (pool, rest);
      placement->first = _gpu_pool_heap_split (pool, rest, placement->unmapped_before);
      if (placement->last == rest)
        placement->last = placement->first;
      _gpu_pool_add_unmapped (pool, rest);
      _gpu_pool_add_unmapped (pool, placement->first);
    }

  end = placement->last->next;
  for (GpuPoolNode *node = placement->first; node != end; node = node->next)
    if (gpu_pool_node_state (node) == GPU_POOL_NODE_UNMAPPED)
      {
        _gpu_pool_remove_unmapped (pool, node);
        node->flag = TRUE;
      }
    else
      {
        _gpu_pool_heap_remove (pool, node);
        node->flag = FALSE;
      }

  free_excess (growth, placement);
}

/* --- taking chunks ------------------------------------------------------------------- */

static guint
count_taken (const GpuPoolGrowth *growth)
{
  return growth->moved->len + growth->stale->len;
}

/* Makes each of the chunks from @from to @to a busy node. @node consists of these chunks. */
static void
take_stale (GpuPoolGrowth *growth,
            GpuPoolNode   *node,
            guint32        from,
            guint32        to)
{
  GpuPool *pool = growth->pool;
  guint32 granule = growth->chunks->granule;

  for (guint32 at = from; at < to; at += growth->chunks->granules[at].n)
    {
      const GpuPoolGranule *behind = &growth->chunks->granules[at];
      GpuPoolStale stale = { { behind->handle, at, behind->n }, node, FALSE };

      if (at + behind->n < to)
        node = _gpu_pool_heap_split (pool, node, behind->n * granule);
      g_array_append_val (growth->stale, stale);
    }
}

GpuPoolNode *
_gpu_pool_cut_out (GpuPool      *pool,
                   GpuPoolNode **node,
                   guint32       offset,
                   guint32       units)
{
  GpuPoolNode *part = *node, *rest = NULL;
  guint64 use = part->use;

  _gpu_pool_heap_remove (pool, part);
  if (offset > part->offset)
    {
      GpuPoolNode *front = part;

      part = _gpu_pool_heap_split (pool, front, offset - front->offset);
      _gpu_pool_heap_add (pool, front, use);
    }
  if (part->units > units)
    rest = _gpu_pool_heap_add (pool, _gpu_pool_heap_split (pool, part, units), use);

  part->use = use;
  *node = part;

  return rest;
}

/* Returns the granule at which the first whole chunk of @node begins, if @node has a whole
 * chunk. */
static guint32
find_whole (const GpuPoolChunks *chunks,
            const GpuPoolNode   *node)
{
  guint32 at = (node->offset + chunks->granule - 1) / chunks->granule;

  /* Skip a chunk that begins before the range: only whole chunks can be moved. */
  if (at < (node->offset + node->units) / chunks->granule && chunks->granules[at].first != at)
    at = chunks->granules[at].first + chunks->granules[at].n;

  return at;
}

guint32
_gpu_pool_count_whole (const GpuPoolChunks *chunks,
                       const GpuPoolNode   *node)
{
  guint32 end = (node->offset + node->units) / chunks->granule;
  guint32 count = 0, n;

  for (guint32 at = find_whole (chunks, node);
       at < end && at + (n = chunks->granules[at].n) <= end; at += n)
    count += n;

  return count;
}

/* Takes whole chunks from @node, which is free, and which the request may use. */
static guint32
take_chunks (GpuPoolGrowth *growth,
             GpuPoolNode   *node,
             guint32        max)
{
  GpuPool *pool = growth->pool;
  gboolean is_pending = !_gpu_pool_heap_is_completed (pool, node->use);
  GpuPoolChunks *chunks = growth->chunks;
  guint32 granule = chunks->granule, taken = 0, n = 0;
  guint32 end = (node->offset + node->units) / granule;
  guint32 from, to;

  for (from = to = find_whole (chunks, node);
       to < end && count_taken (growth) + n < GPU_POOL_MAX_MOVED;
       to += chunks->granules[to].n, n++)
    {
      GpuPoolChunk chunk = { chunks->granules[to].handle, to, chunks->granules[to].n };

      if (to + chunk.n > end || taken >= max || (taken + chunk.n > max && !growth->overshoot))
        break;
      if (!is_pending)
        g_array_append_val (growth->moved, chunk);
      taken += chunk.n;
    }

  if (taken > 0)
    {
      _gpu_pool_cut_out (pool, &node, from * granule, taken * granule);
      if (is_pending)
        take_stale (growth, node, from, to);
      else
        g_ptr_array_add (growth->holes, node);
    }

  return taken;
}

GPtrArray *
_gpu_pool_find_ranges (GpuPool              *pool,
                       const GpuPoolRequest *request,
                       guint32               units)
{
  GPtrArray *ranges = g_ptr_array_new ();

  for (guint slot = 0; slot < pool->n_free_lists; slot++)
    {
      GpuPoolFreeList *free_list = pool->free_lists[slot];
      guint bin = G_MAXUINT, n_visited = 0;
      GpuPoolNode *node;

      if (free_list == NULL || free_list->n == 0)
        continue;

      for (node = _gpu_pool_index_next (&free_list->index, NULL, &bin);
           node != NULL && node->units >= units && ranges->len < GPU_POOL_MAX_MOVED
           && n_visited++ < MAX_VISITED;
           node = _gpu_pool_index_next (&free_list->index, node, &bin))
        if (_gpu_pool_may_use (pool, request, node->use))
          g_ptr_array_add (ranges, node);
    }

  return ranges;
}

/* Takes chunks from the free ranges that @request may use. */
static guint32
take_chunks_for (GpuPoolGrowth        *growth,
                 const GpuPoolRequest *request,
                 guint32               max)
{
  GpuPool *pool = growth->pool;
  g_autoptr (GPtrArray) ranges = _gpu_pool_find_ranges (pool, request, growth->chunks->granule);
  guint32 taken = 0;

  /* Check each range again, because the range may have changed when chunks were taken from another
   * range. */
  for (guint i = 0; i < ranges->len && taken < max; i++)
    {
      GpuPoolNode *node = g_ptr_array_index (ranges, i);

      if (gpu_pool_node_state (node) == GPU_POOL_NODE_FREE
          && _gpu_pool_may_use (pool, request, node->use))
        taken += take_chunks (growth, node, max - taken);
    }

  return taken;
}

gboolean
_gpu_pool_may_move_pending (GpuPool *pool)
{
  return pool->chunks->n_stale < pool->chunks->n_granules / MAX_STALE;
}

/* Finds the smallest chunk of at least @least granules in the free ranges whose use has completed.
 * Returns its range, or NULL if there is none. */
static GpuPoolNode *
find_larger_chunk (GpuPoolGrowth *growth,
                   guint32        least,
                   GpuPoolChunk  *chunk)
{
  const GpuPoolChunks *chunks = growth->chunks;
  g_autoptr (GPtrArray) ranges = _gpu_pool_find_ranges (growth->pool, NULL,
                                                        least * chunks->granule);
  GpuPoolNode *found = NULL;

  for (guint i = 0; i < ranges->len; i++)
    {
      GpuPoolNode *node = g_ptr_array_index (ranges, i);
      guint32 end = (node->offset + node->units) / chunks->granule;
      guint32 at = find_whole (chunks, node), n;

      for (; at < end && at + (n = chunks->granules[at].n) <= end; at += n)
        if (n >= least && (found == NULL || n < chunk->n))
          {
            *chunk = (GpuPoolChunk) { chunks->granules[at].handle, at, n };
            found = node;
          }
    }

  return found;
}

/* Takes a chunk that is larger than needed. Returns whether there is one. */
static gboolean
take_larger_chunk (GpuPoolGrowth *growth,
                   guint32        needed)
{
  guint32 granule = growth->chunks->granule;
  GpuPoolChunk chunk = { NULL, };
  GpuPoolNode *node = find_larger_chunk (growth, needed, &chunk);

  if (node == NULL)
    return FALSE;

  _gpu_pool_cut_out (growth->pool, &node, chunk.first * granule, chunk.n * granule);
  g_array_append_val (growth->moved, chunk);
  g_ptr_array_add (growth->holes, node);

  return TRUE;
}

guint32
_gpu_pool_take_chunks (GpuPoolGrowth *growth,
                       guint32        max)
{
  guint32 taken = take_chunks_for (growth, NULL, max);

  if (taken < max && growth->request != NULL && _gpu_pool_may_move_pending (growth->pool))
    taken += take_chunks_for (growth, growth->request, max - taken);

  if (taken < max && growth->request != NULL && count_taken (growth) < GPU_POOL_MAX_MOVED
      && take_larger_chunk (growth, max - taken))
    taken = max;

  return taken;
}

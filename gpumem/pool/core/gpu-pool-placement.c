/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where memory for a request should be, and which pieces can be moved there: all of it under the
 * lock of the heap. */
#include "config.h"

#include "gpumem/pool/core/gpu-pool-chunks-private.h"

/* Nodes on each side of a gap that are looked at. */
#define RADIUS 4

/* --- the range of addresses ----------------------------------------------------------- */

void
_gpu_pool_add_gap (GpuPool     *pool,
                   GpuPoolNode *node)
{
  GpuPoolPieces *pieces = pool->pieces;
  GpuPoolNode *prev = NULL, *next = pieces->gaps;

  while (next != NULL && next->offset < node->offset)
    {
      prev = next;
      next = next->free_next;
    }

  gpu_pool_node_set_state (node, GPU_POOL_NODE_GAP);
  node->use = 0;
  node->free_prev = prev;
  node->free_next = next;
  if (prev != NULL)
    prev->free_next = node;
  else
    pieces->gaps = node;
  if (next != NULL)
    next->free_prev = node;
}

void
_gpu_pool_remove_gap (GpuPool     *pool,
                      GpuPoolNode *node)
{
  if (node->free_prev != NULL)
    node->free_prev->free_next = node->free_next;
  else
    pool->pieces->gaps = node->free_next;
  if (node->free_next != NULL)
    node->free_next->free_prev = node->free_prev;

  gpu_pool_node_set_state (node, GPU_POOL_NODE_BUSY);
}

void
_gpu_pool_make_gap (GpuPool     *pool,
                    GpuPoolNode *node)
{
  GpuPoolNode *prev = node->prev, *next = node->next;

  if (next != NULL && gpu_pool_node_state (next) == GPU_POOL_NODE_GAP)
    {
      _gpu_pool_remove_gap (pool, next);
      _gpu_pool_heap_join_next (pool, node);
    }

  if (prev != NULL && gpu_pool_node_state (prev) == GPU_POOL_NODE_GAP)
    {
      _gpu_pool_remove_gap (pool, prev);
      _gpu_pool_heap_join_next (pool, prev);
      node = prev;
    }

  _gpu_pool_add_gap (pool, node);
}

void
_gpu_pool_pieces_new (GpuPool *pool)
{
  const GpuPoolConfig *config = &pool->config;
  GpuPoolPieces *pieces = g_new0 (GpuPoolPieces, 1);
  GpuPoolSegment segment = { config->range_address, 0, NULL };

  pieces->granule = config->granularity >> pool->unit_shift;
  pieces->n_granules = config->range_size / config->granularity;
  pieces->granules = g_new0 (GpuPoolGranule, pieces->n_granules);
  segment.size = pieces->n_granules * config->granularity;
  pool->pieces = pieces;

  pieces->area = _gpu_pool_heap_add_area (pool, &segment);
  _gpu_pool_add_gap (pool, pieces->area->first);
}

void
_gpu_pool_destroy_piece (GpuPool            *pool,
                         const GpuPoolPiece *piece)
{
  pool->ops.destroy_piece (pool->owner, piece->piece, piece->n * pool->config.granularity);
}

void
_gpu_pool_unmap_piece (GpuPool            *pool,
                       const GpuPoolPiece *piece)
{
  gsize granularity = pool->config.granularity;

  pool->ops.unmap_piece (pool->owner, piece->first * granularity, piece->piece,
                         piece->n * granularity);
  memset (pool->pieces->granules + piece->first, 0, piece->n * sizeof (GpuPoolGranule));
}

/* Whatever is still there goes, over or not. */
void
_gpu_pool_pieces_free (GpuPool *pool)
{
  GpuPoolPieces *pieces = pool->pieces;

  for (guint i = 0; i < pieces->n_granules; i++)
    if (pieces->granules[i].piece != NULL)
      {
        GpuPoolPiece piece = { pieces->granules[i].piece, i, pieces->granules[i].n };

        _gpu_pool_unmap_piece (pool, &piece);
        _gpu_pool_destroy_piece (pool, &piece);
      }

  g_free (pieces->granules);
  g_free (pieces);
}

/* --- where it should be --------------------------------------------------------------- */

static gboolean
is_part (GpuPool     *pool,
         GpuPoolNode *node,
         guint        slot)
{
  GpuPoolNodeState state = gpu_pool_node_state (node);

  return state == GPU_POOL_NODE_GAP
         || (state == GPU_POOL_NODE_FREE
             && (gpu_pool_use_slot (node->use) == slot
                 || _gpu_pool_heap_is_over (pool, node->use)));
}

/* From @first on, to the right or to the left; keeps what is cheaper. */
static void
try_window (GpuPoolGrowth *growth,
            GpuPoolNode   *first,
            GpuPoolNode   *end,
            guint64        needed,
            gboolean       left,
            GpuPoolWindow *best)
{
  guint32 granule = growth->pieces->granule;
  guint64 sum = 0, cost = 0;

  for (GpuPoolNode *node = first; ; node = left ? node->prev : node->next)
    {
      guint32 rest = 0;

      if (gpu_pool_node_state (node) == GPU_POOL_NODE_GAP)
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
          *best = (GpuPoolWindow) { left ? node : first, left ? first : node,
                                    left ? rest : 0, left ? 0 : rest, cost };
          break;
        }

      if (node == end)
        break;
    }
}

gboolean
_gpu_pool_find_window (GpuPoolGrowth *growth,
                       GpuPoolWindow *best)
{
  guint64 needed = (guint64) growth->request->units + growth->request->align - 1;
  guint slot = growth->request->slot;

  best->cost = G_MAXUINT64;

  for (GpuPoolNode *gap = growth->pieces->gaps; gap != NULL; gap = gap->free_next)
    {
      GpuPoolNode *first = gap, *last = gap;

      for (guint i = 0; i < RADIUS && first->prev != NULL
           && is_part (growth->pool, first->prev, slot); i++)
        first = first->prev;
      for (guint i = 0; i < RADIUS && last->next != NULL
           && is_part (growth->pool, last->next, slot); i++)
        last = last->next;

      for (GpuPoolNode *node = first; ; node = node->next)
        {
          try_window (growth, node, last, needed, FALSE, best);
          /* The last gap of all is filled from below. */
          if (node->next != NULL)
            try_window (growth, node, first, needed, TRUE, best);
          if (node == last)
            break;
        }
    }

  return best->cost != G_MAXUINT64;
}

void
_gpu_pool_take_window (GpuPoolGrowth *growth,
                       GpuPoolWindow *window)
{
  GpuPool *pool = growth->pool;
  GpuPoolNode *end;

  if (window->leave > 0)
    {
      GpuPoolNode *rest;

      _gpu_pool_remove_gap (pool, window->last);
      rest = _gpu_pool_heap_split (pool, window->last, window->last->units - window->leave);
      _gpu_pool_add_gap (pool, rest);
      if (window->skip == 0 || window->first != window->last)
        _gpu_pool_add_gap (pool, window->last);
    }
  if (window->skip > 0)
    {
      GpuPoolNode *rest = window->first;

      _gpu_pool_remove_gap (pool, rest);
      window->first = _gpu_pool_heap_split (pool, rest, window->skip);
      if (window->last == rest)
        window->last = window->first;
      _gpu_pool_add_gap (pool, rest);
      _gpu_pool_add_gap (pool, window->first);
    }

  end = window->last->next;
  for (GpuPoolNode *node = window->first; node != end; node = node->next)
    if (gpu_pool_node_state (node) == GPU_POOL_NODE_GAP)
      {
        _gpu_pool_remove_gap (pool, node);
        node->flag = TRUE;
      }
    else
      {
        _gpu_pool_heap_remove (pool, node);
        node->flag = FALSE;
      }
}

/* --- what can be moved --------------------------------------------------------------- */

/* Takes whole pieces out of @node, which is free and over. */
static guint32
take_pieces (GpuPoolGrowth *growth,
             GpuPoolNode   *node,
             guint32        max)
{
  GpuPool *pool = growth->pool;
  GpuPoolPieces *pieces = growth->pieces;
  guint32 granule = pieces->granule, taken = 0;
  guint32 at = (node->offset + granule - 1) / granule;
  guint32 end = (node->offset + node->units) / granule;
  guint32 from, to;

  /* Not one that begins before. */
  if (at < end && pieces->granules[at].first != at)
    at = pieces->granules[at].first + pieces->granules[at].n;

  for (from = to = at; to < end && growth->moved->len < GPU_POOL_MAX_MOVED;
       to += pieces->granules[to].n)
    {
      GpuPoolPiece piece = { pieces->granules[to].piece, to, pieces->granules[to].n };

      if (to + piece.n > end || taken >= max || (taken + piece.n > max && !growth->overshoot))
        break;
      g_array_append_val (growth->moved, piece);
      taken += piece.n;
    }

  if (taken > 0)
    {
      guint64 use = node->use;

      _gpu_pool_heap_remove (pool, node);
      if (from * granule > node->offset)
        {
          GpuPoolNode *front = node;

          node = _gpu_pool_heap_split (pool, front, from * granule - front->offset);
          _gpu_pool_heap_add (pool, front, use);
        }
      if (node->units > taken * granule)
        _gpu_pool_heap_add (pool, _gpu_pool_heap_split (pool, node, taken * granule), use);
      g_ptr_array_add (growth->holes, node);
    }

  return taken;
}

GPtrArray *
_gpu_pool_find_ranges (GpuPool *pool,
                       guint32  units)
{
  GPtrArray *ranges = g_ptr_array_new ();

  for (guint slot = 0; slot < pool->n_frees; slot++)
    {
      GpuPoolFrees *frees = pool->frees[slot];
      guint bin = G_MAXUINT;
      GpuPoolNode *node;

      if (frees == NULL || frees->n == 0)
        continue;

      for (node = _gpu_pool_index_next (&frees->index, NULL, &bin);
           node != NULL && node->units >= units && ranges->len < GPU_POOL_MAX_MOVED;
           node = _gpu_pool_index_next (&frees->index, node, &bin))
        if (_gpu_pool_heap_is_over (pool, node->use))
          g_ptr_array_add (ranges, node);
    }

  return ranges;
}

guint32
_gpu_pool_take_pieces (GpuPoolGrowth *growth,
                       guint32        max)
{
  GpuPool *pool = growth->pool;
  g_autoptr (GPtrArray) ranges = _gpu_pool_find_ranges (pool, growth->pieces->granule);
  guint32 taken = 0;

  /* Taking from one may change another, which then is looked at as what it is now. */
  for (guint i = 0; i < ranges->len && taken < max; i++)
    {
      GpuPoolNode *node = g_ptr_array_index (ranges, i);

      if (gpu_pool_node_state (node) == GPU_POOL_NODE_FREE
          && _gpu_pool_heap_is_over (pool, node->use))
        taken += take_pieces (growth, node, max - taken);
    }

  return taken;
}

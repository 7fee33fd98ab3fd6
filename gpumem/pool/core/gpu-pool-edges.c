/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Edges: free parts of chunks whose other parts are in use. The pool cannot move such a chunk, but
 * it can map the chunk a second time. So a request can get the free end of one chunk, whole chunks,
 * and the free beginning of another chunk, mapped one after another at new addresses. The chunk of
 * an edge is then split: each of its two mappings owns a part, and the addresses of the other part
 * are hidden.
 */
#include "config.h"

#include "gpumem/pool/core/gpu-pool-chunks-private.h"

/* Two edges may exceed a request by 1/MAX_REST of a granule. */
#define MAX_REST  16

/* --- finding edges --------------------------------------------------------------------- */

static void
add_edge (GpuPoolGrowth        *growth,
          GArray               *edges,
          GpuPoolNode          *node,
          const GpuPoolGranule *granule,
          guint32               units)
{
  GpuPoolEdge edge = { node, { granule->handle, granule->first, granule->n }, units, 0 };
  GpuPoolChunks *chunks = growth->chunks;

  if (!chunks->granules[granule->first].is_split && units >= chunks->granule / GPU_POOL_MIN_EDGE)
    g_array_append_val (edges, edge);
}

/* Lists the edges at both ends of a free node. */
static void
add_edges (GpuPoolGrowth *growth,
           GpuPoolNode   *node,
           GArray        *heads,
           GArray        *tails)
{
  GpuPoolChunks *chunks = growth->chunks;
  guint64 granule = chunks->granule;
  guint64 node_end = (guint64) node->offset + node->units;
  const GpuPoolGranule *first = &chunks->granules[node->offset / granule];
  const GpuPoolGranule *last = &chunks->granules[(node_end - 1) / granule];
  guint64 head_end = (first->first + first->n) * granule;
  guint64 tail_begin = last->first * granule;

  if (node->offset > first->first * granule && head_end <= node_end)
    add_edge (growth, heads, node, first, head_end - node->offset);
  if (node->offset <= tail_begin && node_end < (last->first + last->n) * granule)
    add_edge (growth, tails, node, last, node_end - tail_begin);
}

static gint
compare_edges (gconstpointer a,
               gconstpointer b)
{
  const GpuPoolEdge *x = a, *y = b;

  return (x->units > y->units) - (x->units < y->units);
}

/* Finds the head and the tail with the smallest sum of at least @wanted units. Both lists are in
 * order of size, and begin with an edge of no units. Unless the tail is empty, the sum may exceed
 * @wanted by only a little: the rest of the tail would be free, but between two used parts of its
 * chunk, where only small blocks could use it. The rest of the last chunk before the tail, if any,
 * is an edge again. */
static gboolean
find_pair (GpuPoolGrowth *growth,
           const GArray  *heads,
           const GArray  *tails,
           guint64        wanted)
{
  guint64 best = G_MAXUINT64, rest = growth->chunks->granule / MAX_REST;
  guint j = tails->len - 1;

  for (guint i = 0; i < heads->len; i++)
    {
      const GpuPoolEdge *head = &g_array_index (heads, GpuPoolEdge, i);
      const GpuPoolEdge *tail = &g_array_index (tails, GpuPoolEdge, j);

      while (j > 0 && head->units + (guint64) tail[-1].units >= wanted)
        {
          tail--;
          j--;
        }

      /* The two parts of one chunk cannot be used together: a chunk is split once. */
      if (head->units + (guint64) tail->units >= wanted
          && head->units + (guint64) tail->units < best
          && (j == 0 || head->units + (guint64) tail->units <= wanted + rest)
          && (head->node == NULL || head->chunk.handle != tail->chunk.handle))
        {
          best = head->units + (guint64) tail->units;
          growth->head = *head;
          growth->tail = *tail;
        }
    }

  return best != G_MAXUINT64;
}

/* Sets the edges of @growth. Prefers edges that need the fewest chunks between them. */
static gboolean
find_edges (GpuPoolGrowth *growth,
            guint64        needed)
{
  const GpuPoolEdge none = { NULL, };
  GpuPool *pool = growth->pool;
  guint32 granule = growth->chunks->granule;
  g_autoptr (GArray) heads = g_array_new (FALSE, FALSE, sizeof (GpuPoolEdge));
  g_autoptr (GArray) tails = g_array_new (FALSE, FALSE, sizeof (GpuPoolEdge));
  g_autoptr (GPtrArray) ranges = _gpu_pool_find_ranges (pool, growth->request,
                                                        granule / GPU_POOL_MIN_EDGE);
  gboolean found = FALSE;
  guint64 largest;
  gint64 n;

  g_array_append_val (heads, none);
  g_array_append_val (tails, none);
  for (guint i = 0; i < ranges->len; i++)
    add_edges (growth, g_ptr_array_index (ranges, i), heads, tails);
  g_array_sort (heads, compare_edges);
  g_array_sort (tails, compare_edges);

  largest = g_array_index (heads, GpuPoolEdge, heads->len - 1).units
            + (guint64) g_array_index (tails, GpuPoolEdge, tails->len - 1).units;
  n = ((gint64) MIN (largest, needed) - (gint64) (needed % granule)) / granule;
  for (; n >= 0 && !found; n--)
    {
      guint64 wanted = needed % granule + n * (guint64) granule;

      found = wanted > 0 && largest >= wanted && find_pair (growth, heads, tails, wanted);
    }

  return found;
}

static gboolean
may_use_edges (const GpuPoolGrowth *growth)
{
  GpuPool *pool = growth->pool;

  return (growth->is_frugal || gpu_pool_is_small_for_edges (pool, growth->request->units))
         && !gpu_pool_is_frozen (pool);
}

/* --- taking edges ---------------------------------------------------------------------- */

static GpuPoolNode *
find_unmapped (GpuPool *pool,
               guint64  units)
{
  GpuPoolNode *best = NULL;

  for (GpuPoolNode *node = pool->chunks->unmapped; node != NULL; node = node->free_next)
    if (node->units >= units && (best == NULL || node->units < best->units))
      best = node;

  return best;
}

static void
take_head_and_tail (GpuPoolGrowth *growth)
{
  GpuPool *pool = growth->pool;
  guint32 granule = growth->chunks->granule;
  GpuPoolEdge *head = &growth->head, *tail = &growth->tail;
  guint32 tail_offset = tail->chunk.first * granule;

  if (head->node != NULL)
    {
      guint32 end = (head->chunk.first + head->chunk.n) * granule;
      GpuPoolNode *rest = _gpu_pool_cut_out (pool, &head->node, end - head->units, head->units);

      /* The head may have been cut from the node of the tail, or from a neighbour that has now been
       * joined with it. */
      if (rest != NULL && tail->node != NULL && tail_offset >= rest->offset
          && tail_offset - rest->offset < rest->units)
        tail->node = rest;
      head->use = head->node->use;
    }

  if (tail->node != NULL)
    {
      _gpu_pool_cut_out (pool, &tail->node, tail_offset, tail->units);
      tail->use = tail->node->use;
    }
}

gboolean
_gpu_pool_take_edges (GpuPoolGrowth    *growth,
                      guint64           cost,
                      GpuPoolPlacement *placement)
{
  GpuPool *pool = growth->pool;
  guint32 granule = growth->chunks->granule;
  guint64 needed = (guint64) growth->request->units + growth->request->align - 1;
  guint64 between = 0, units = 0;
  GpuPoolNode *node = NULL;

  if (may_use_edges (growth) && find_edges (growth, needed))
    {
      between = needed - MIN (needed, growth->head.units + (guint64) growth->tail.units);
      between = (between + granule - 1) / granule * granule;
      units = between + (growth->head.chunk.n + growth->tail.chunk.n) * (guint64) granule;
      node = find_unmapped (pool, units);
    }

  if (node == NULL || between >= cost)
    {
      growth->head = growth->tail = (GpuPoolEdge) { NULL, };
      return FALSE;
    }

  _gpu_pool_remove_unmapped (pool, node);
  if (node->units > units)
    _gpu_pool_add_unmapped (pool, _gpu_pool_heap_split (pool, node, units));
  node->flag = TRUE;
  *placement = (GpuPoolPlacement) { node, node, 0, 0, between };
  take_head_and_tail (growth);

  return TRUE;
}

void
_gpu_pool_return_edges (GpuPoolGrowth *growth)
{
  GpuPoolEdge *edges[] = { &growth->head, &growth->tail };

  for (guint i = 0; i < G_N_ELEMENTS (edges); i++)
    if (edges[i]->node != NULL)
      _gpu_pool_heap_add (growth->pool, edges[i]->node, edges[i]->use);
}

/* --- split chunks ---------------------------------------------------------------------- */

static void
add_split (GpuPoolGrowth      *growth,
           const GpuPoolChunk *chunk,
           guint32             cut,
           GpuPoolNode        *hidden_end,
           GpuPoolNode        *hidden_begin)
{
  GpuPoolChunks *chunks = growth->chunks;
  GpuPoolSplit split = { chunk->handle, chunk->n, cut,
                         { hidden_end->offset / chunks->granule,
                           hidden_begin->offset / chunks->granule },
                         { hidden_end, hidden_begin } };

  for (guint i = 0; i < 2; i++)
    {
      gpu_pool_node_set_state (split.hidden[i], GPU_POOL_NODE_HIDDEN);
      split.first[i] = chunks->granules[split.first[i]].first;
      chunks->granules[split.first[i]].is_split = TRUE;
    }
  g_array_append_val (chunks->splits, split);
}

void
_gpu_pool_split_chunks (GpuPoolGrowth    *growth,
                        GpuPoolPlacement *placement)
{
  GpuPool *pool = growth->pool;
  guint32 granule = growth->chunks->granule;
  const GpuPoolEdge *head = &growth->head, *tail = &growth->tail;
  GpuPoolNode *node = placement->first;

  if (head->node != NULL)
    {
      guint32 cut = head->chunk.n * granule - head->units;

      placement->first = _gpu_pool_heap_split (pool, node, cut);
      placement->first->flag = node->flag;
      add_split (growth, &head->chunk, cut, head->node, node);
      node = placement->first;
    }

  if (tail->node != NULL)
    {
      guint32 hidden = tail->chunk.n * granule - tail->units;
      GpuPoolNode *rest = _gpu_pool_heap_split (pool, node, node->units - hidden);

      add_split (growth, &tail->chunk, tail->units, rest, tail->node);
    }

  if (head->node != NULL || tail->node != NULL)
    placement->last = node;
}

/* Returns the free node that contains all units that mapping @i of @split owns, or NULL if this
 * mapping is in use. @request (nullable) may use these units. The hidden units may have been used
 * at the same addresses before the split. */
static GpuPoolNode *
find_owned (GpuPool              *pool,
            const GpuPoolRequest *request,
            const GpuPoolSplit   *split,
            guint                 i,
            GpuPoolChunk         *owned)
{
  guint32 granule = pool->chunks->granule;
  GpuPoolNode *node = i == 0 ? split->hidden[0]->prev : split->hidden[1]->next;
  guint32 begin = split->first[i] * granule + (i == 0 ? 0 : split->cut);
  guint32 units = i == 0 ? split->cut : split->n * granule - split->cut;

  *owned = (GpuPoolChunk) { NULL, begin, units };

  return node != NULL && gpu_pool_node_state (node) == GPU_POOL_NODE_FREE
         && _gpu_pool_may_use (pool, request, node->use)
         && _gpu_pool_may_use (pool, request, split->hidden[i]->use) && node->offset <= begin
         && (guint64) node->offset + node->units >= (guint64) begin + units ? node : NULL;
}

/* Returns the later of two uses that find_owned() accepts, or 0 if both have completed. If both are
 * pending, they are by one stream. */
static guint64
get_later (GpuPool *pool,
           guint64  use,
           guint64  other)
{
  return MAX (_gpu_pool_heap_is_completed (pool, use) ? 0 : use,
              _gpu_pool_heap_is_completed (pool, other) ? 0 : other);
}

/* Makes the addresses of mapping @i a busy node, which it returns with the pending use, if any.
 * Makes the hidden addresses of the other mapping free. */
static GpuPoolNode *
reunite (GpuPool            *pool,
         const GpuPoolSplit *split,
         guint               i,
         GpuPoolNode        *node,
         guint32             begin,
         guint32             units)
{
  GpuPoolNode *hidden = split->hidden[i];
  guint64 use = get_later (pool, node->use, hidden->use);

  _gpu_pool_cut_out (pool, &node, begin, units);
  gpu_pool_node_set_state (hidden, GPU_POOL_NODE_BUSY);
  if (i == 0)
    _gpu_pool_heap_join_next (pool, node);
  else
    {
      _gpu_pool_heap_join_next (pool, hidden);
      node = hidden;
    }

  pool->chunks->granules[split->first[1 - i]].is_split = FALSE;
  gpu_pool_node_set_state (split->hidden[1 - i], GPU_POOL_NODE_BUSY);
  _gpu_pool_heap_add (pool, split->hidden[1 - i], use);
  node->use = use;

  return node;
}

void
_gpu_pool_reunite_chunks (GpuPool              *pool,
                          const GpuPoolRequest *request)
{
  GArray *splits = pool->chunks->splits;
  g_autoptr (GArray) unmapped = g_array_new (FALSE, FALSE, sizeof (GpuPoolChunk));
  g_autoptr (GPtrArray) nodes = g_ptr_array_new ();

  if (splits->len == 0)
    return;

  _gpu_pool_lock (&pool->lock);
  if (gpu_pool_is_frozen (pool))
    {
      _gpu_pool_unlock (&pool->lock);
      return;
    }

  for (guint i = splits->len; i > 0; i--)
    for (guint j = 0; j < 2; j++)
      {
        GpuPoolSplit split = g_array_index (splits, GpuPoolSplit, i - 1);
        GpuPoolChunk owned, chunk = { split.handle, split.first[j], split.n };
        const GpuPoolRequest *mover = _gpu_pool_may_move_pending (pool) ? request : NULL;
        GpuPoolNode *node = find_owned (pool, mover, &split, j, &owned);

        if (node == NULL)
          continue;

        g_array_remove_index_fast (splits, i - 1);
        node = reunite (pool, &split, j, node, owned.first, owned.n);
        if (node->use != 0)
          _gpu_pool_add_stale (pool, &chunk, node);
        else
          {
            g_ptr_array_add (nodes, node);
            g_array_append_val (unmapped, chunk);
          }
        break;
      }
  _gpu_pool_unlock_and_destroy (pool);

  _gpu_pool_unmap_nodes (pool, unmapped, nodes);
}

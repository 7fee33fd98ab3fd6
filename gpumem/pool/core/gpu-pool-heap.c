/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <stdlib.h>

#include "gpumem/pool/core/gpu-pool-private.h"

#define NODES_PER_SLAB (GPU_POOL_SLAB_SIZE / sizeof (GpuPoolNode))

GpuPoolFreeList *
_gpu_pool_heap_get_free_list (GpuPool       *pool,
                              GpuPoolStream *stream)
{
  guint slot = _gpu_pool_stream_get_slot (stream);
  GpuPoolFreeList *free_list;

  if (slot >= pool->n_free_lists)
    {
      guint n = MAX (2 * pool->n_free_lists, slot + 1);

      pool->free_lists = g_renew (GpuPoolFreeList *, pool->free_lists, n);
      memset (pool->free_lists + pool->n_free_lists, 0,
              (n - pool->n_free_lists) * sizeof (GpuPoolFreeList *));
      pool->n_free_lists = n;
    }

  free_list = pool->free_lists[slot];
  if (free_list == NULL)
    {
      free_list = g_new0 (GpuPoolFreeList, 1);
      free_list->stream = stream;
      pool->free_lists[slot] = free_list;
      if (slot != 0)
        pool->n_streams++;
    }

  return free_list;
}

GpuPoolFreeList *
_gpu_pool_heap_make_free_list (GpuPool *pool,
                               guint    slot)
{
  GpuPoolStream *stream = NULL;

  if (slot != 0)
    stream = _gpu_pool_streams_get_at (pool->streams, slot);

  return _gpu_pool_heap_get_free_list (pool, stream);
}

gboolean
_gpu_pool_heap_is_completed (GpuPool *pool,
                             guint64  use)
{
  guint slot = gpu_pool_use_slot (use);

  return slot == 0
         || gpu_pool_stream_has_reached (gpu_pool_heap_at_slot (pool, slot)->stream,
                                         gpu_pool_use_seq (use));
}

void
_gpu_pool_heap_drop_data (GpuPool     *pool,
                          GpuPoolNode *node)
{
  if (G_UNLIKELY (node->data != NULL))
    {
      node->data->next = pool->dropped;
      pool->dropped = node->data;
      node->data = NULL;
    }
}

/* --- nodes ------------------------------------------------------------------------ */

GpuPoolNode *
_gpu_pool_nodes_add (GpuPoolNodes *nodes,
                     GpuPool      *heap)
{
  GpuPoolNode *first = aligned_alloc (GPU_POOL_SLAB_SIZE, GPU_POOL_SLAB_SIZE);
  GpuPoolSlab *slab = gpu_pool_node_slab (first);

  if (first == NULL)
    g_error ("gpumem: the host has no memory for %d bytes", GPU_POOL_SLAB_SIZE);

  memset (first, 0, GPU_POOL_SLAB_SIZE);
  slab->memory = first;
  slab->pool = heap->pool;
  slab->heap = heap;
  slab->next = nodes->slabs;
  nodes->slabs = slab;

  /* The last node is returned to the caller. */
  for (guint i = NODES_PER_SLAB - 1; i > 0; i--)
    if (first + i - 1 != (gpointer) slab)
      gpu_pool_node_free (nodes, first + i - 1);

  return first + NODES_PER_SLAB - 1;
}

void
_gpu_pool_nodes_clear (GpuPoolNodes *nodes)
{
  while (nodes->slabs != NULL)
    {
      GpuPoolSlab *slab = nodes->slabs;

      nodes->slabs = slab->next;
      free (slab->memory);
    }
}

GpuPoolNode *
_gpu_pool_heap_split (GpuPool     *pool,
                      GpuPoolNode *node,
                      guint32      units)
{
  GpuPoolNode *rest = gpu_pool_node_new (&pool->nodes, pool);

  _gpu_pool_heap_drop_data (pool, node);

  rest->area = node->area;
  rest->offset = node->offset + units;
  rest->units = node->units - units;
  rest->use = node->use;
  rest->data = NULL;
  rest->prev = node;
  rest->next = node->next;
  gpu_pool_node_set_state (rest, gpu_pool_node_state (node));

  if (node->next != NULL)
    node->next->prev = rest;
  node->next = rest;
  node->units = units;

  return rest;
}

void
_gpu_pool_heap_join_next (GpuPool     *pool,
                          GpuPoolNode *node)
{
  GpuPoolNode *next = node->next;

  _gpu_pool_heap_drop_data (pool, node);
  _gpu_pool_heap_drop_data (pool, next);

  node->units += next->units;
  node->next = next->next;
  if (node->next != NULL)
    node->next->prev = node;

  gpu_pool_node_free (&pool->nodes, next);
}

/* --- free ranges ------------------------------------------------------------------ */

/* Returns the units of @node that are outside of whole chunks. Small ranges do not count. */
static inline guint32
count_edges (const GpuPool     *pool,
             const GpuPoolNode *node)
{
  guint32 granule = pool->granule;
  guint32 begin = node->offset, last_unit = begin + node->units - 1;
  const GpuPoolGranule *first, *last;
  guint64 whole_begin, whole_end;

  if (granule == 0 || node->units < granule / GPU_POOL_MIN_EDGE)
    return 0;

  first = &pool->granules[begin >> pool->granule_shift];
  last = &pool->granules[last_unit >> pool->granule_shift];
  whole_begin = (guint64) first->first * granule;
  whole_end = ((guint64) last->first + last->n) * granule;

  if (whole_begin < begin)
    whole_begin += (guint64) first->n * granule;
  if (whole_end > (guint64) last_unit + 1)
    whole_end -= (guint64) last->n * granule;

  return node->units - (whole_end > whole_begin ? whole_end - whole_begin : 0);
}

static inline void
insert (GpuPool     *pool,
        GpuPoolNode *node)
{
  GpuPoolFreeList *free_list = gpu_pool_heap_at_slot (pool, gpu_pool_use_slot (node->use));
  guint64 use_seq = gpu_pool_use_seq (node->use);

  gpu_pool_node_set_state (node, GPU_POOL_NODE_FREE);
  gpu_pool_index_add (&free_list->index, node);
  node->edges = count_edges (pool, node);
  pool->edge_units += node->edges;
  free_list->n++;
  free_list->units += node->units;

  if (use_seq > free_list->latest_seq)
    {
      free_list->latest_seq = use_seq;
      free_list->n_latest = 0;
    }
  if (use_seq == free_list->latest_seq)
    free_list->n_latest++;
}

void
_gpu_pool_heap_remove (GpuPool     *pool,
                       GpuPoolNode *node)
{
  GpuPoolFreeList *free_list = pool->free_lists[gpu_pool_use_slot (node->use)];

  gpu_pool_index_remove (&free_list->index, node);
  pool->edge_units -= node->edges;
  free_list->n--;
  free_list->units -= node->units;
  if (gpu_pool_use_seq (node->use) == free_list->latest_seq)
    free_list->n_latest--;

  gpu_pool_node_set_state (node, GPU_POOL_NODE_BUSY);
}

/* Returns whether two neighbouring ranges may be joined. If the ranges were last used by different
 * streams, both uses must have completed. If pending ranges were joined, a stream that needs only
 * its own range would have to wait for the other stream. If a pool has a single stream, its ranges
 * may always be joined. */
static inline gboolean
can_join (GpuPool *pool,
          guint64  use,
          guint64  other,
          guint64 *joined)
{
  gboolean is_completed, other_is_completed;

  if (gpu_pool_use_slot (use) == gpu_pool_use_slot (other))
    {
      *joined = MAX (use, other);
      return TRUE;
    }

  is_completed = _gpu_pool_heap_is_completed (pool, use);
  other_is_completed = _gpu_pool_heap_is_completed (pool, other);

  if (is_completed && other_is_completed)
    *joined = 0;
  else if (is_completed && pool->n_streams <= 1)
    *joined = other;
  else if (other_is_completed && pool->n_streams <= 1)
    *joined = use;
  else
    return FALSE;

  return TRUE;
}

GpuPoolNode *
_gpu_pool_heap_add (GpuPool     *pool,
                    GpuPoolNode *node,
                    guint64      use)
{
  GpuPoolNode *prev, *next;

  /* Repeat this: beyond a joined neighbour may be another free range, which could not be joined
   * earlier because its use was pending. */
  while ((next = node->next) != NULL && gpu_pool_node_state (next) == GPU_POOL_NODE_FREE
         && can_join (pool, use, next->use, &use))
    {
      _gpu_pool_heap_remove (pool, next);
      _gpu_pool_heap_join_next (pool, node);
    }

  while ((prev = node->prev) != NULL && gpu_pool_node_state (prev) == GPU_POOL_NODE_FREE
         && can_join (pool, use, prev->use, &use))
    {
      _gpu_pool_heap_remove (pool, prev);
      _gpu_pool_heap_join_next (pool, prev);
      node = prev;
    }

  node->use = use;
  insert (pool, node);

  return node;
}

GpuPoolNode *
_gpu_pool_heap_cut (GpuPool     *pool,
                    GpuPoolNode *node,
                    guint32      pad,
                    guint32      units)
{
  if (pad > 0)
    {
      GpuPoolNode *front = node;

      node = _gpu_pool_heap_split (pool, front, pad);
      insert (pool, front);
    }

  if (node->units > units)
    insert (pool, _gpu_pool_heap_split (pool, node, units));

  return node;
}

GpuPoolNode *
_gpu_pool_heap_take (GpuPool     *pool,
                     GpuPoolNode *node,
                     guint32      pad,
                     guint32      units)
{
  GpuPoolFreeList *free_list = pool->free_lists[gpu_pool_use_slot (node->use)];
  GpuPoolNode *back, *rest;

  if ((pad > 0) == (pad + units < node->units))
    {
      _gpu_pool_heap_remove (pool, node);
      return _gpu_pool_heap_cut (pool, node, pad, units);
    }

  /* One part of the range remains free: move it to the bin of its size. */
  gpu_pool_index_remove (&free_list->index, node);
  pool->edge_units -= node->edges;
  free_list->units -= units;
  back = _gpu_pool_heap_split (pool, node, pad > 0 ? pad : units);
  rest = pad > 0 ? node : back;
  gpu_pool_index_add (&free_list->index, rest);
  rest->edges = count_edges (pool, rest);
  pool->edge_units += rest->edges;

  return pad > 0 ? back : node;
}

/* --- completed uses ----------------------------------------------------------------- */

/* Removes from @free_list all ranges whose use has completed. If @stream is not NULL, also removes
 * those that @stream is ordered after. Prepends the ranges to @list, which is linked by free_next.
 * Returns the new head of @list. */
static GpuPoolNode *
take_ranges (GpuPool         *pool,
             GpuPoolFreeList *free_list,
             GpuPoolStream   *stream,
             GpuPoolNode     *list)
{
  guint bin = G_MAXUINT;
  GpuPoolNode *node = _gpu_pool_index_next (&free_list->index, NULL, &bin);

  while (node != NULL)
    {
      GpuPoolNode *next = _gpu_pool_index_next (&free_list->index, node, &bin);
      GpuPoolUse use = gpu_pool_heap_use (pool, node->use);

      if (_gpu_pool_heap_is_completed (pool, node->use)
          || (stream != NULL && _gpu_pool_use_is_followed (&use, stream)))
        {
          _gpu_pool_heap_remove (pool, node);
          node->free_next = list;
          list = node;
        }
      node = next;
    }

  return list;
}

/* Returns TRUE if the uses of at least half of the ranges in the list have completed. With this
 * condition, each range is examined only a few times on average. */
static gboolean
is_scan_worthwhile (GpuPoolFreeList *free_list,
                    guint64          reached,
                    gboolean         all)
{
  guint n = free_list->n;
  guint n_completed = reached >= free_list->latest_seq ? n : n - free_list->n_latest;

  return n > 0 && (all || (reached != free_list->scanned_at && 2 * n_completed >= n));
}

void
_gpu_pool_heap_reclaim_completed (GpuPool  *pool,
                                  gboolean  all)
{
  GpuPoolNode *list = NULL;

  for (guint slot = 1; slot < pool->n_free_lists; slot++)
    {
      GpuPoolFreeList *free_list = pool->free_lists[slot];
      guint64 reached;

      if (free_list == NULL)
        continue;

      reached = __atomic_load_n (&free_list->stream->reached, __ATOMIC_ACQUIRE);
      if (is_scan_worthwhile (free_list, reached, all))
        {
          list = take_ranges (pool, free_list, NULL, list);
          free_list->scanned_at = reached;
        }
    }

  while (list != NULL)
    {
      GpuPoolNode *node = list;

      list = node->free_next;
      _gpu_pool_heap_add (pool, node, 0);
    }
}

void
_gpu_pool_heap_take_over (GpuPool       *pool,
                          GpuPoolStream *stream)
{
  GpuPoolNode *list = NULL;

  for (guint slot = 1; slot < pool->n_free_lists; slot++)
    if (pool->free_lists[slot] != NULL && slot != stream->slot)
      list = take_ranges (pool, pool->free_lists[slot], stream, list);

  while (list != NULL)
    {
      GpuPoolNode *node = list;

      list = node->free_next;
      _gpu_pool_heap_add (pool, node, gpu_pool_get_use_now (stream));
    }
}

/* --- areas -------------------------------------------------------------------------- */

GpuPoolArea *
_gpu_pool_heap_add_area (GpuPool              *pool,
                         const GpuPoolSegment *segment)
{
  GpuPoolArea *area = g_new0 (GpuPoolArea, 1);
  guint id = 0;

  while (id < pool->n_areas && pool->areas[id] != NULL)
    id++;
  pool->n_areas = MAX (pool->n_areas, id + 1);
  __atomic_store_n (&pool->n_used_areas, pool->n_used_areas + 1, __ATOMIC_RELAXED);

  area->id = id;
  area->segment = *segment;
  area->units = segment->size >> pool->unit_shift;
  area->first = gpu_pool_node_new (&pool->nodes, pool);
  *area->first = (GpuPoolNode) { .units = area->units, .area = id, .state = GPU_POOL_NODE_BUSY };
  pool->areas[id] = area;

  return area;
}

void
_gpu_pool_heap_remove_area (GpuPool     *pool,
                            GpuPoolArea *area)
{
  _gpu_pool_heap_drop_data (pool, area->first);
  gpu_pool_node_free (&pool->nodes, area->first);
  pool->areas[area->id] = NULL;
  __atomic_store_n (&pool->n_used_areas, pool->n_used_areas - 1, __ATOMIC_RELAXED);
  g_free (area);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <stdlib.h>

#include "gpumem/pool/core/gpu-pool-private.h"

#define NODES_PER_SLAB (GPU_POOL_SLAB_SIZE / sizeof (GpuPoolNode))

GpuPoolFrees *
_gpu_pool_heap_get_frees (GpuPool       *pool,
                          GpuPoolStream *stream)
{
  guint slot = _gpu_pool_stream_get_slot (stream);
  GpuPoolFrees *frees;

  if (slot >= pool->n_frees)
    {
      guint n = MAX (2 * pool->n_frees, slot + 1);

      pool->frees = g_renew (GpuPoolFrees *, pool->frees, n);
      memset (pool->frees + pool->n_frees, 0, (n - pool->n_frees) * sizeof (GpuPoolFrees *));
      pool->n_frees = n;
    }

  frees = pool->frees[slot];
  if (frees == NULL)
    {
      frees = g_new0 (GpuPoolFrees, 1);
      frees->stream = stream;
      pool->frees[slot] = frees;
      if (slot != 0)
        pool->n_streams++;
    }

  return frees;
}

gboolean
_gpu_pool_heap_is_over (GpuPool *pool,
                        guint64  use)
{
  guint slot = gpu_pool_use_slot (use);

  return slot == 0
         || gpu_pool_stream_has_reached (pool->frees[slot]->stream, gpu_pool_use_stamp (use));
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
                     GpuPool      *pool)
{
  GpuPoolSlab *slab = aligned_alloc (GPU_POOL_SLAB_SIZE, GPU_POOL_SLAB_SIZE);
  GpuPoolNode *first = (GpuPoolNode *) slab;

  if (slab == NULL)
    g_error ("gpumem: the host has no memory for %d bytes", GPU_POOL_SLAB_SIZE);

  memset (slab, 0, GPU_POOL_SLAB_SIZE);
  slab->pool = pool;
  slab->next = nodes->slabs;
  nodes->slabs = slab;

  /* The first place is the header's, the last one is handed out at once. */
  for (guint i = NODES_PER_SLAB - 2; i > 0; i--)
    gpu_pool_node_free (nodes, first + i);

  return first + NODES_PER_SLAB - 1;
}

void
_gpu_pool_nodes_clear (GpuPoolNodes *nodes)
{
  while (nodes->slabs != NULL)
    {
      GpuPoolSlab *slab = nodes->slabs;

      nodes->slabs = slab->next;
      free (slab);
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

static inline void
insert (GpuPool     *pool,
        GpuPoolNode *node)
{
  GpuPoolFrees *frees = pool->frees[gpu_pool_use_slot (node->use)];
  guint64 stamp = gpu_pool_use_stamp (node->use);

  gpu_pool_node_set_state (node, GPU_POOL_NODE_FREE);
  gpu_pool_index_add (&frees->index, node);
  frees->n++;

  if (stamp > frees->youngest)
    {
      frees->youngest = stamp;
      frees->n_youngest = 0;
    }
  if (stamp == frees->youngest)
    frees->n_youngest++;
}

void
_gpu_pool_heap_remove (GpuPool     *pool,
                       GpuPoolNode *node)
{
  GpuPoolFrees *frees = pool->frees[gpu_pool_use_slot (node->use)];

  gpu_pool_index_remove (&frees->index, node);
  frees->n--;
  if (gpu_pool_use_stamp (node->use) == frees->youngest)
    frees->n_youngest--;

  gpu_pool_node_set_state (node, GPU_POOL_NODE_BUSY);
}

/* Memory of several streams is joined only when it is over, or else one would wait for the other
 * where it need not. While there is one stream there is no such danger. */
static inline gboolean
can_join (GpuPool *pool,
          guint64  use,
          guint64  other,
          guint64 *joined)
{
  gboolean is_over, other_is_over;

  if (gpu_pool_use_slot (use) == gpu_pool_use_slot (other))
    {
      *joined = MAX (use, other);
      return TRUE;
    }

  is_over = _gpu_pool_heap_is_over (pool, use);
  other_is_over = _gpu_pool_heap_is_over (pool, other);

  if (is_over && other_is_over)
    *joined = 0;
  else if (is_over && pool->n_streams <= 1)
    *joined = other;
  else if (other_is_over && pool->n_streams <= 1)
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

  /* What is over by now may be so on both sides of what was in between. */
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
_gpu_pool_heap_find (GpuPool *pool,
                     guint    slot,
                     guint32  units)
{
  GpuPoolFrees *frees = slot < pool->n_frees ? pool->frees[slot] : NULL;

  if (frees == NULL || frees->n == 0)
    return NULL;

  return _gpu_pool_index_find (&frees->index, units);
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

/* --- what is over ------------------------------------------------------------------ */

/* Takes out what is over, as a list by free_next. */
static GpuPoolNode *
take_over (GpuPool      *pool,
           GpuPoolFrees *frees,
           GpuPoolNode  *list)
{
  guint bin = G_MAXUINT;
  GpuPoolNode *node = _gpu_pool_index_next (&frees->index, NULL, &bin);

  while (node != NULL)
    {
      GpuPoolNode *next = _gpu_pool_index_next (&frees->index, node, &bin);

      if (_gpu_pool_heap_is_over (pool, node->use))
        {
          _gpu_pool_heap_remove (pool, node);
          node->free_next = list;
          list = node;
        }
      node = next;
    }

  return list;
}

/* Looking through all is worth it where it finds some: each range becomes nobody's once. */
static gboolean
is_worth_it (GpuPoolFrees *frees,
             guint64       reached,
             gboolean      all)
{
  guint n_over = reached >= frees->youngest ? frees->n : frees->n - frees->n_youngest;

  return frees->n > 0 && (all || (reached != frees->settled && 2 * n_over >= frees->n));
}

void
_gpu_pool_heap_settle (GpuPool  *pool,
                       gboolean  all)
{
  GpuPoolNode *list = NULL;

  for (guint slot = 1; slot < pool->n_frees; slot++)
    {
      GpuPoolFrees *frees = pool->frees[slot];
      guint64 reached;

      if (frees == NULL)
        continue;

      reached = __atomic_load_n (&frees->stream->reached, __ATOMIC_ACQUIRE);
      if (is_worth_it (frees, reached, all))
        {
          list = take_over (pool, frees, list);
          frees->settled = reached;
        }
    }

  while (list != NULL)
    {
      GpuPoolNode *node = list;

      list = node->free_next;
      _gpu_pool_heap_add (pool, node, 0);
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
  g_free (area);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Heaps of threads. If threads contend for the lock of the pool, each of them gets a heap with its
 * own lock. The pool lends ranges of its memory to these heaps, and a heap lends ranges to other
 * heaps. If a lent range has no block, the pool takes the range back before it grows. Any thread
 * may free a block of any heap.
 *
 * The node that was lent stays in the list of nodes of its heap. The nodes of the blocks inside the
 * range belong to the heap that borrows it, and are linked to each other only, so the lock of that
 * heap suffices to split and join them.
 */
#include "config.h"

#include "gpumem/pool/core/gpu-pool-private.h"

/* The pool lends ranges of at least 1/LEAST_LENT of the usual size, or for at least LEAST_REQUESTS
 * requests, but not less than LEAST_BYTES: a heap has a limited number of areas. Free ranges of
 * adjacent areas are not joined, so smaller areas would divide the memory into small ranges. */
#define LEAST_LENT     32
#define LEAST_REQUESTS 8
#define LEAST_BYTES    (64 * 1024)

void
_gpu_pool_unlock_nested (GpuPool *pool,
                         GpuPool *heap)
{
  while (heap->dropped != NULL)
    {
      GpuPoolData *data = heap->dropped;

      heap->dropped = data->next;
      data->next = pool->dropped;
      pool->dropped = data;
    }

  _gpu_pool_unlock (&heap->lock);
}

/* --- creating and freeing ---------------------------------------------------------- */

static GpuPool *
heap_new (GpuPool *pool)
{
  GpuPool *heap = g_aligned_alloc0 (1, sizeof (GpuPool), GPU_LINE);

  heap->pool = pool;
  heap->unit_shift = pool->unit_shift;
  heap->config = pool->config;
  heap->streams = pool->streams;
  heap->shared = g_ptr_array_new ();
  heap->areas = g_new0 (GpuPoolArea *, GPU_POOL_MAX_AREAS);
  _gpu_pool_lock_init (&heap->lock);
  _gpu_pool_heap_get_free_list (heap, NULL);

  return heap;
}

void
_gpu_pool_heap_free (GpuPool *heap)
{
  for (guint id = 0; id < heap->n_areas; id++)
    g_free (heap->areas[id]);
  for (guint i = 0; i < heap->n_free_lists; i++)
    g_free (heap->free_lists[i]);

  g_free (heap->free_lists);
  g_free (heap->areas);
  g_ptr_array_unref (heap->shared);
  _gpu_pool_nodes_clear (&heap->nodes);
  _gpu_pool_lock_clear (&heap->lock);
  g_aligned_free (heap);
}

GpuPool *
_gpu_pool_heap_claim (GpuPool *pool)
{
  GpuPool *heap = NULL;

  /* Prefer a heap whose thread has exited: it may still have memory. */
  for (guint i = 1; i < gpu_pool_n_heaps (pool) && heap == NULL; i++)
    if (!gpu_pool_heap_at (pool, i)->has_thread)
      heap = gpu_pool_heap_at (pool, i);

  if (heap == NULL)
    {
      if (pool->n_heaps == GPU_POOL_MAX_HEAPS)
        return NULL;

      heap = heap_new (pool);
      pool->heaps[pool->n_heaps] = heap;
      __atomic_store_n (&pool->n_heaps, pool->n_heaps + 1, __ATOMIC_RELEASE);
    }

  heap->has_thread = TRUE;

  return heap;
}

/* --- lending ------------------------------------------------------------------------- */

/* Finds a free range to lend for @request. Prefers a range of the usual size. Otherwise returns the
 * largest range, unless it is too small. Caller holds the lock of @from. */
static GpuPoolNode *
find_lendable (GpuPool              *from,
               const GpuPoolRequest *request,
               guint32               units)
{
  const guint slots[] = { request->slot, 0 };
  guint32 least = MAX (request->units, MIN (units / LEAST_LENT, LEAST_REQUESTS * request->units));
  GpuPoolNode *largest = NULL;

  least = MAX (least, (guint32) LEAST_BYTES >> from->unit_shift);
  for (guint i = 0; i < G_N_ELEMENTS (slots); i++)
    {
      guint bin = G_MAXUINT;
      GpuPoolNode *node = gpu_pool_heap_find (from, slots[i], units);

      if (node != NULL)
        return node;
      if (slots[i] >= from->n_free_lists || from->free_lists[slots[i]] == NULL)
        continue;

      node = _gpu_pool_index_next (&from->free_lists[slots[i]]->index, NULL, &bin);
      if (node != NULL && (largest == NULL || node->units > largest->units))
        largest = node;
    }

  return largest != NULL && largest->units >= least ? largest : NULL;
}

GpuPoolNode *
_gpu_pool_take_lendable (GpuPool              *from,
                         const GpuPoolRequest *request)
{
  guint32 units = _gpu_pool_get_lent_units (from->pool, request);
  GpuPoolNode *node;

  _gpu_pool_lock (&from->lock);
  node = find_lendable (from, request, units);
  if (node != NULL)
    {
      _gpu_pool_heap_remove (from, node);
      node = _gpu_pool_heap_cut (from, node, 0, MIN (node->units, units));
      _gpu_pool_heap_drop_data (from, node);
      gpu_pool_node_set_state (node, GPU_POOL_NODE_BUSY);
    }
  _gpu_pool_unlock_and_destroy (from);

  return node;
}

GpuPoolNode *
_gpu_pool_lend (GpuPool              *heap,
                GpuPoolNode          *node,
                const GpuPoolRequest *request,
                gboolean              has_grown)
{
  GpuPool *from = gpu_pool_node_heap (node);
  GpuPoolSegment segment = from->areas[node->area]->segment;
  GpuPoolArea *area;
  GpuPoolNode *served;

  segment.address += gpu_pool_bytes (from, node->offset);
  segment.size = gpu_pool_bytes (from, node->units);
  segment.lost = 0;

  _gpu_pool_lock (&heap->lock);
  area = _gpu_pool_heap_add_area (heap, &segment);
  area->lent = node;
  area->first->use = node->use;
  node->lent = area;
  __atomic_store_n (&node->state, GPU_POOL_NODE_LENT, __ATOMIC_RELEASE);
  heap->stats.n_hits += !has_grown;
  served = _gpu_pool_serve_from (heap, area->first, request);
  _gpu_pool_unlock_and_destroy (heap);

  return served;
}

/* Removes from @heap the areas that are entirely free. Prepends the nodes that were lent, with
 * their last uses, to @list, which is linked by free_next. Returns the new head of @list. */
static GpuPoolNode *
take_areas (GpuPool     *heap,
            GpuPoolNode *list)
{
  for (guint id = 0; id < heap->n_areas; id++)
    {
      GpuPoolArea *area = heap->areas[id];

      if (area != NULL && area->first->units == area->units
          && gpu_pool_node_state (area->first) == GPU_POOL_NODE_FREE)
        {
          GpuPoolNode *node = area->lent;

          gpu_pool_node_set_state (node, GPU_POOL_NODE_BUSY);
          node->use = area->first->use;
          node->free_next = list;
          list = node;
          _gpu_pool_heap_remove (heap, area->first);
          _gpu_pool_heap_remove_area (heap, area);
        }
    }

  return list;
}

/* Returns @node, which was lent, to the free ranges of its heap. */
static void
end_loan (GpuPool     *pool,
          GpuPoolNode *node,
          gboolean    *has_excess)
{
  GpuPool *from = gpu_pool_node_heap (node);

  if (from != pool)
    _gpu_pool_lock (&from->lock);

  node = _gpu_pool_heap_add (from, node, node->use);
  if (has_excess != NULL && from == pool)
    *has_excess |= gpu_pool_has_excess (pool, node);

  if (from != pool)
    _gpu_pool_unlock_nested (pool, from);
}

gboolean
_gpu_pool_take_back (GpuPool  *pool,
                     gboolean *has_excess)
{
  gboolean any = FALSE;
  GpuPoolNode *list;

  /* Repeat this: a heap may have lent a part of an area to another heap. */
  do
    {
      list = NULL;
      for (guint i = 1; i < gpu_pool_n_heaps (pool); i++)
        {
          GpuPool *heap = gpu_pool_heap_at (pool, i);

          _gpu_pool_lock (&heap->lock);
          list = take_areas (heap, list);
          _gpu_pool_unlock_nested (pool, heap);
        }

      any |= list != NULL;
      for (GpuPoolNode *node = list, *next; node != NULL; node = next)
        {
          next = node->free_next;
          end_loan (pool, node, has_excess);
        }
    }
  while (list != NULL);

  return any;
}

void
_gpu_pool_uncache (GpuPool     *pool,
                   GpuPoolNode *node)
{
  GpuPool *heap = gpu_pool_node_heap (node);

  if (heap != pool)
    _gpu_pool_lock (&heap->lock);

  _gpu_pool_heap_add (heap, node, node->use);
  heap->n_out--;

  if (heap != pool)
    _gpu_pool_unlock_nested (pool, heap);
}

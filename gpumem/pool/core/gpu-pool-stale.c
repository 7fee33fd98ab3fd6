/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Stale mappings. A chunk that pending work uses can be moved for a request of the same stream,
 * whose work runs later: the chunk is mapped a second time, at the addresses of the request, and
 * remains mapped at its old addresses until the pending work has completed. So the pool neither
 * waits nor grows if the host is ahead of the device. A split chunk is reunited in the same way.
 */
#include "config.h"

#include "gpumem/pool/core/gpu-pool-chunks-private.h"

static GpuPoolStale *
find_handle (const GArray *list,
             gpointer      handle)
{
  for (guint i = 0; i < list->len; i++)
    {
      GpuPoolStale *stale = &g_array_index (list, GpuPoolStale, i);

      if (stale->chunk.handle == handle)
        return stale;
    }

  return NULL;
}

GpuPoolStale *
_gpu_pool_find_stale (GpuPoolGrowth *growth,
                      gpointer       handle)
{
  return find_handle (growth->stale, handle);
}

void
_gpu_pool_add_stale (GpuPool            *pool,
                     const GpuPoolChunk *chunk,
                     GpuPoolNode        *node)
{
  GpuPoolStale stale = { *chunk, node, TRUE, FALSE };

  gpu_pool_node_set_state (node, GPU_POOL_NODE_HIDDEN);
  pool->chunks->n_stale += chunk->n;
  g_array_append_val (pool->chunks->stale, stale);
}

void
_gpu_pool_keep_stale (GpuPoolGrowth *growth,
                      gboolean       has_failed)
{
  for (guint i = 0; i < growth->stale->len; i++)
    {
      GpuPoolStale *stale = &g_array_index (growth->stale, GpuPoolStale, i);

      if (has_failed || !stale->is_moved)
        _gpu_pool_heap_add (growth->pool, stale->node, stale->node->use);
      else
        _gpu_pool_add_stale (growth->pool, &stale->chunk, stale->node);
    }
}

/* --- destroying chunks ------------------------------------------------------------------ */

void
_gpu_pool_drop_chunk (GpuPool            *pool,
                      const GpuPoolChunk *chunk)
{
  GpuPoolStale *stale = find_handle (pool->chunks->stale, chunk->handle);

  if (stale != NULL)
    {
      stale->is_last = TRUE;
      return;
    }

  _gpu_pool_destroy_chunk (pool, chunk);

  _gpu_pool_lock (&pool->lock);
  _gpu_pool_count_managed (pool, -(gint64) (chunk->n * pool->config.granularity));
  _gpu_pool_unlock (&pool->lock);
}

/* --- unmapping -------------------------------------------------------------------------- */

/* Removes the mappings whose uses have completed from the list. Their nodes become busy. The
 * others keep their order, which is mostly that of the addresses, so that few calls unmap them.
 * Lists in @unused the chunks that the pool no longer needs. */
static void
take_completed (GpuPool   *pool,
                GArray    *completed,
                GArray    *unused,
                GPtrArray *nodes)
{
  GArray *list = pool->chunks->stale;
  guint n = 0;

  for (guint i = 0; i < list->len; i++)
    {
      GpuPoolStale stale = g_array_index (list, GpuPoolStale, i);

      if (!_gpu_pool_heap_is_completed (pool, stale.node->use))
        {
          g_array_index (list, GpuPoolStale, n++) = stale;
          continue;
        }

      gpu_pool_node_set_state (stale.node, GPU_POOL_NODE_BUSY);
      pool->chunks->n_stale -= stale.chunk.n;
      g_array_append_val (completed, stale.chunk);
      if (stale.is_last)
        g_array_append_val (unused, stale.chunk);
      g_ptr_array_add (nodes, stale.node);
    }

  g_array_set_size (list, n);
}

void
_gpu_pool_unmap_stale (GpuPool *pool)
{
  g_autoptr (GArray) completed = NULL, unused = NULL;
  g_autoptr (GPtrArray) nodes = NULL;

  if (pool->chunks->stale->len == 0)
    return;

  /* If the last use of a moved chunk has completed, on any stream, so have the uses at its old
   * addresses, but the pool may not have polled their stream since. */
  _gpu_pool_streams_poll (pool->streams);

  completed = g_array_new (FALSE, FALSE, sizeof (GpuPoolChunk));
  unused = g_array_new (FALSE, FALSE, sizeof (GpuPoolChunk));
  nodes = g_ptr_array_new ();

  _gpu_pool_lock (&pool->lock);
  if (!gpu_pool_is_frozen (pool))
    take_completed (pool, completed, unused, nodes);
  _gpu_pool_unlock (&pool->lock);

  _gpu_pool_unmap_nodes (pool, completed, nodes);
  for (guint i = 0; i < unused->len; i++)
    _gpu_pool_drop_chunk (pool, &g_array_index (unused, GpuPoolChunk, i));
}

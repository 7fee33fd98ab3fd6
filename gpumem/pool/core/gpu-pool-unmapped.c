/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The range of addresses of an expandable pool: what has pieces of memory behind it, and gaps. */
#include "config.h"

#include "gpumem/pool/core/gpu-pool-chunks-private.h"

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

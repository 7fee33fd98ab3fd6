/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An index of free ranges by size, with 32 bins for each power of two. Two levels of bit maps show
 * which bins are not empty, so the cost of a search does not depend on the number of ranges.
 */
#pragma once

#include "gpumem/pool/core/gpu-pool-node.h"

G_BEGIN_DECLS

#define GPU_POOL_STEP_BITS 5
#define GPU_POOL_STEPS     (1 << GPU_POOL_STEP_BITS)
#define GPU_POOL_LEVELS    (32 - GPU_POOL_STEP_BITS + 1)
#define GPU_POOL_MAX_SCAN  8

typedef struct
{
  guint64      levels;              /* a bit for each nonzero word of steps */
  guint32      steps[GPU_POOL_LEVELS];
  GpuPoolNode *bins[GPU_POOL_LEVELS * GPU_POOL_STEPS];
} GpuPoolIndex;

/* Returns the bin that contains ranges of @units. */
static inline guint
gpu_pool_index_bin (guint32 units)
{
  guint level;

  if (units < GPU_POOL_STEPS)
    return units;

  level = 31 - __builtin_clz (units) - GPU_POOL_STEP_BITS;

  return ((level + 1) << GPU_POOL_STEP_BITS)
         + ((units >> level) & (GPU_POOL_STEPS - 1));
}

static inline void
gpu_pool_index_add (GpuPoolIndex *index,
                    GpuPoolNode  *node)
{
  guint bin = gpu_pool_index_bin (node->units);
  GpuPoolNode *head = index->bins[bin];

  node->free_prev = NULL;
  node->free_next = head;
  if (head != NULL)
    head->free_prev = node;
  else
    {
      index->levels |= G_GUINT64_CONSTANT (1) << (bin >> GPU_POOL_STEP_BITS);
      index->steps[bin >> GPU_POOL_STEP_BITS] |= 1u << (bin & (GPU_POOL_STEPS - 1));
    }
  index->bins[bin] = node;
}

static inline void
gpu_pool_index_remove (GpuPoolIndex *index,
                       GpuPoolNode  *node)
{
  if (node->free_next != NULL)
    node->free_next->free_prev = node->free_prev;

  if (node->free_prev != NULL)
    node->free_prev->free_next = node->free_next;
  else
    {
      guint bin = gpu_pool_index_bin (node->units);
      guint level = bin >> GPU_POOL_STEP_BITS;

      index->bins[bin] = node->free_next;
      if (node->free_next == NULL)
        {
          index->steps[level] &= ~(1u << (bin & (GPU_POOL_STEPS - 1)));
          if (index->steps[level] == 0)
            index->levels &= ~(G_GUINT64_CONSTANT (1) << level);
        }
    }
}

/* Returns a range of at least @units: the best fit among a few candidates. */
GpuPoolNode *_gpu_pool_index_find    (const GpuPoolIndex *index,
                                      guint32             units);
/* Returns a range that hardly exceeds @units, or else the lowest among a few larger ranges. All
 * ranges must be in one area. */
GpuPoolNode *_gpu_pool_index_find_lowest (const GpuPoolIndex *index,
                                          guint32             units);
/* Returns the largest range. If the largest nonempty bin has many ranges, the result may be
 * slightly smaller than the largest. */
GpuPoolNode *_gpu_pool_index_largest (const GpuPoolIndex *index);
/* Iterates over the ranges from the largest bin down; @bin starts as G_MAXUINT. */
GpuPoolNode *_gpu_pool_index_next    (const GpuPoolIndex *index,
                                      GpuPoolNode        *node,
                                      guint              *bin);

G_END_DECLS

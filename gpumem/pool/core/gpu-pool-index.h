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
  GpuPoolNode *unused;              /* written in place of a node that does not exist: whether one
                                     * exists is random, so a branch would often be mispredicted */
} GpuPoolIndex;

/* Returns the binary logarithm of the difference between the smallest sizes of two bins around
 * @units. */
static inline guint
gpu_pool_index_step_shift (guint32 units)
{
  return units < 2 * GPU_POOL_STEPS ? 0 : 31 - __builtin_clz (units) - GPU_POOL_STEP_BITS;
}

/* Returns the bin that contains ranges of @units. */
static inline guint
gpu_pool_index_bin (guint32 units)
{
  guint shift = gpu_pool_index_step_shift (units);

  return (shift << GPU_POOL_STEP_BITS) + (units >> shift);
}

/* Returns the first bin whose ranges all have at least @units, which is not 0. */
static inline guint
gpu_pool_index_bin_above (guint32 units)
{
  guint shift = gpu_pool_index_step_shift (units);

  return (shift << GPU_POOL_STEP_BITS) + ((units - 1) >> shift) + 1;
}

static inline void
gpu_pool_index_add (GpuPoolIndex *index,
                    GpuPoolNode  *node)
{
  guint bin = gpu_pool_index_bin (node->units);
  guint level = bin >> GPU_POOL_STEP_BITS;
  GpuPoolNode *head = index->bins[bin];
  GpuPoolNode **back = head != NULL ? &head->free_prev : &index->unused;

  node->free_prev = NULL;
  node->free_next = head;
  *back = node;
  index->bins[bin] = node;
  index->steps[level] |= 1u << (bin & (GPU_POOL_STEPS - 1));
  index->levels |= G_GUINT64_CONSTANT (1) << level;
}

static inline void
gpu_pool_index_remove (GpuPoolIndex *index,
                       GpuPoolNode  *node)
{
  guint bin = gpu_pool_index_bin (node->units);
  guint level = bin >> GPU_POOL_STEP_BITS;
  GpuPoolNode *prev = node->free_prev, *next = node->free_next;
  GpuPoolNode **link = prev != NULL ? &prev->free_next : &index->bins[bin];
  GpuPoolNode **back = next != NULL ? &next->free_prev : &index->unused;
  guint32 is_empty;

  *link = next;
  *back = prev;
  is_empty = index->bins[bin] == NULL;
  index->steps[level] &= ~(is_empty << (bin & (GPU_POOL_STEPS - 1)));
  index->levels &= ~((guint64) (index->steps[level] == 0) << level);
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

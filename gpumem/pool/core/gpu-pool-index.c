/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/pool/core/gpu-pool-index.h"

/* The maximum number of nodes that a search examines in the bin of the requested size, if all
 * larger bins are empty. */
#define MAX_LAST_SCAN 1024
/* The maximum number of nodes that a search for a low address examines, and of these in one bin. */
#define MAX_LOW_SCAN     16
#define MAX_LOW_BIN_SCAN 4

/* Returns the smallest of the first @n nodes that have at least @units, or NULL. Compares without
 * branches, because the order of the sizes is random. */
static inline GpuPoolNode *
scan (GpuPoolNode *node,
      guint32      units,
      guint        n)
{
  GpuPoolNode *best = NULL;
  guint32 best_rest = -units;       /* more than the rest of any node that is large enough, and at
                                     * most the difference of any other, which is negative */

  for (; node != NULL && n > 0 && best_rest > 0; node = node->free_next, n--)
    {
      guint32 rest = node->units - units;

      best = rest < best_rest ? node : best;
      best_rest = MIN (rest, best_rest);
    }

  return best;
}

/* Returns the first bin, starting at @bin, that is not empty, or G_MAXUINT if there is none. */
static inline guint
next_bin (const GpuPoolIndex *index,
          guint               bin)
{
  guint level = bin >> GPU_POOL_STEP_BITS;
  guint32 steps = 0;

  if (level < GPU_POOL_LEVELS)
    steps = index->steps[level] & (G_MAXUINT32 << (bin & (GPU_POOL_STEPS - 1)));

  if (steps == 0)
    {
      guint64 levels = index->levels & ~((G_GUINT64_CONSTANT (2) << level) - 1);

      if (levels == 0)
        return G_MAXUINT;

      level = __builtin_ctzll (levels);
      steps = index->steps[level];
    }

  return (level << GPU_POOL_STEP_BITS) + __builtin_ctz (steps);
}

GpuPoolNode *
_gpu_pool_index_find (const GpuPoolIndex *index,
                      guint32             units)
{
  guint own = gpu_pool_index_bin (units);
  GpuPoolNode *found = scan (index->bins[own], units, GPU_POOL_MAX_SCAN);
  guint bin;

  if (found != NULL)
    return found;

  bin = next_bin (index, own + 1);
  if (bin != G_MAXUINT)
    return scan (index->bins[bin], units, GPU_POOL_MAX_SCAN);

  /* All larger bins are empty, but the bin of the requested size may contain a node that is large
   * enough. */
  return scan (index->bins[own], units, MAX_LAST_SCAN);
}

GpuPoolNode *
_gpu_pool_index_find_lowest (const GpuPoolIndex *index,
                             guint32             units)
{
  guint bin = gpu_pool_index_bin (units);
  GpuPoolNode *lowest = scan (index->bins[bin], units, GPU_POOL_MAX_SCAN);
  guint32 lowest_offset = G_MAXUINT32;
  guint n = 0;

  if (lowest != NULL)
    return lowest;

  for (bin = next_bin (index, bin + 1); bin != G_MAXUINT && n < MAX_LOW_SCAN;
       bin = next_bin (index, bin + 1))
    {
      GpuPoolNode *node = index->bins[bin];

      for (guint i = 0; node != NULL && i < MAX_LOW_BIN_SCAN; i++, n++, node = node->free_next)
        {
          lowest = node->offset < lowest_offset ? node : lowest;
          lowest_offset = MIN (node->offset, lowest_offset);
        }
    }

  return lowest;
}

GpuPoolNode *
_gpu_pool_index_next (const GpuPoolIndex *index,
                      GpuPoolNode        *node,
                      guint              *bin)
{
  gint level;
  guint32 steps;

  if (node != NULL && node->free_next != NULL)
    return node->free_next;

  if (index->levels == 0 || *bin == 0)
    return NULL;

  level = 63 - __builtin_clzll (index->levels);
  if (*bin != G_MAXUINT && (*bin - 1) >> GPU_POOL_STEP_BITS < (guint) level)
    level = (*bin - 1) >> GPU_POOL_STEP_BITS;

  for (; level >= 0; level--)
    {
      guint last = MIN (*bin - 1 - (level << GPU_POOL_STEP_BITS), GPU_POOL_STEPS - 1);

      steps = index->steps[level] & (G_MAXUINT32 >> (GPU_POOL_STEPS - 1 - last));
      if (steps != 0)
        {
          *bin = (level << GPU_POOL_STEP_BITS) + 31 - __builtin_clz (steps);
          return index->bins[*bin];
        }
    }

  *bin = 0;

  return NULL;
}

GpuPoolNode *
_gpu_pool_index_largest (const GpuPoolIndex *index)
{
  guint bin = G_MAXUINT;
  GpuPoolNode *node = _gpu_pool_index_next (index, NULL, &bin);
  GpuPoolNode *largest = node;
  guint n = 0;

  /* Examine up to 1000 nodes: the size is reported to users, so it should be accurate. */
  for (; node != NULL && n < 1000; node = node->free_next, n++)
    if (node->units > largest->units)
      largest = node;

  return largest;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <stdlib.h>

#include "gpumem/pool/core/gpu-pool-node.h"

#define NODES_PER_SLAB (GPU_POOL_SLAB_SIZE / sizeof (GpuPoolNode))

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

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A node is the metadata of a block, of a free range or of an unmapped range. A node fills one
 * cache line, and is separate from the memory itself. A GpuMemoryBlock is the node of an active
 * block.
 *
 * Nodes are allocated from slabs. The address of a slab is a multiple of its size, so the slab and
 * the pool can be found from the address of a node.
 */
#pragma once

#include <gpumem/gpumem.h>

#include "gpumem/pool/core/gpu-pool.h"

G_BEGIN_DECLS

#define GPU_POOL_SLAB_SIZE    (64 * 1024)
/* The number of offsets of the header in a slab. */
#define GPU_POOL_SLAB_OFFSETS 64

typedef enum
{
  GPU_POOL_NODE_UNUSED,
  GPU_POOL_NODE_ACTIVE,
  GPU_POOL_NODE_CACHED,             /* in a thread's cache */
  GPU_POOL_NODE_FREE,               /* in an index */
  GPU_POOL_NODE_SHARED,             /* freed, with uses on several streams */
  GPU_POOL_NODE_BUSY,               /* in no list; owned by a thread that has released the lock */
  GPU_POOL_NODE_UNMAPPED,           /* addresses without memory */
  GPU_POOL_NODE_LENT,               /* lent to the heap of a thread, as an area of that heap */
  GPU_POOL_NODE_HIDDEN              /* addresses whose memory is used at other addresses */
} GpuPoolNodeState;

typedef struct _GpuMemoryBlock GpuPoolNode;
typedef struct _GpuPoolArea    GpuPoolArea;

/* Data that the owner of the pool attaches to a range. When the range is split or joined with
 * another range, the pool destroys the data. */
typedef struct _GpuPoolData GpuPoolData;
struct _GpuPoolData
{
  gpointer        data;
  GDestroyNotify  destroy;
  GpuPoolData    *next;             /* next in a list of data to destroy */
};

/* The lock of the node's heap guards all members, with one exception: slack, use, state, flag and
 * free_next of an active or cached block belong to the thread that holds the block. */
struct _GpuMemoryBlock
{
  GpuPoolNode *prev;                /* by address, in the same area */
  GpuPoolNode *next;
  GpuPoolNode *free_prev;           /* in the bin */
  union
  {
    GpuPoolNode *free_next;         /* in the bin or the thread's cache */
    GpuPoolArea *lent;              /* of a lent node: the area that it is lent as */
  };
  guint32      offset;              /* in the area, in units */
  guint32      units;
  guint64      use;                 /* the last use: stream slot in the upper 16 bits, use sequence
                                     * in the lower 48 bits; or 0 if that use has completed. In an
                                     * active block: the allocation stream */
  GpuPoolData *data;
  union
  {
    guint32    slack;               /* bytes beyond the request; atomic, because _gpu_pool_visit()
                                     * reads it */
    guint32    edges;               /* of a free node: see GpuPool.edge_units */
  };
  guint16      area;
  guint8       state;               /* GpuPoolNodeState; atomic, because _gpu_pool_visit() reads
                                     * it */
  guint8       flag;                /* atomic. Active block: the owner's flag. Busy node: TRUE while
                                     * its memory is being mapped */
};

G_STATIC_ASSERT (GLIB_SIZEOF_VOID_P != 8 || sizeof (GpuPoolNode) == 64);

/* The header of a slab, which is in the place of a node. */
typedef struct _GpuPoolSlab GpuPoolSlab;
struct _GpuPoolSlab
{
  gpointer     memory;              /* all of the slab */
  GpuPool     *pool;
  GpuPool     *heap;                /* the pool itself, or the heap of a thread */
  GpuPoolSlab *next;
};

typedef struct
{
  GpuPoolSlab *slabs;
  GpuPoolNode *unused;              /* list of unused nodes, linked by `next` */
} GpuPoolNodes;

GpuPoolNode *_gpu_pool_nodes_add   (GpuPoolNodes *nodes,
                                    GpuPool      *heap);
void         _gpu_pool_nodes_clear (GpuPoolNodes *nodes);

/* Never returns NULL: aborts the process, like GLib, if the host is out of memory. */
static inline GpuPoolNode *
gpu_pool_node_new (GpuPoolNodes *nodes,
                   GpuPool      *heap)
{
  GpuPoolNode *node = nodes->unused;

  if (G_UNLIKELY (node == NULL))
    return _gpu_pool_nodes_add (nodes, heap);

  nodes->unused = node->next;

  return node;
}

static inline GpuPoolNodeState
gpu_pool_node_state (const GpuPoolNode *node)
{
  return __atomic_load_n (&node->state, __ATOMIC_RELAXED);
}

static inline void
gpu_pool_node_set_state (GpuPoolNode      *node,
                         GpuPoolNodeState  state)
{
  __atomic_store_n (&node->state, state, __ATOMIC_RELAXED);
}

static inline gboolean
gpu_pool_node_flag (const GpuPoolNode *node)
{
  return __atomic_load_n (&node->flag, __ATOMIC_ACQUIRE);
}

static inline void
gpu_pool_node_free (GpuPoolNodes *nodes,
                    GpuPoolNode  *node)
{
  gpu_pool_node_set_state (node, GPU_POOL_NODE_UNUSED);
  node->next = nodes->unused;
  nodes->unused = node;
}

/* Returns the header of the slab of @node. The headers of consecutive slabs have different offsets:
 * with the same offset, they would compete for the same few lines of the processor's caches. */
static inline GpuPoolSlab *
gpu_pool_node_slab (const GpuPoolNode *node)
{
  gsize number = (gsize) node / GPU_POOL_SLAB_SIZE;
  gsize slot = number % GPU_POOL_SLAB_OFFSETS;

  return (GpuPoolSlab *) (number * GPU_POOL_SLAB_SIZE + slot * sizeof (GpuPoolNode));
}

static inline GpuPool *
gpu_pool_node_pool (const GpuPoolNode *node)
{
  return gpu_pool_node_slab (node)->pool;
}

/* Returns the heap that @node belongs to. A node never changes its heap. */
static inline GpuPool *
gpu_pool_node_heap (const GpuPoolNode *node)
{
  return gpu_pool_node_slab (node)->heap;
}

/* --- uses packed into 64 bits ----------------------------------------------------------- */

#define GPU_POOL_USE_SEQ_BITS 48

static inline guint64
gpu_pool_use_pack (guint   slot,
                   guint64 use_seq)
{
  return (guint64) slot << GPU_POOL_USE_SEQ_BITS | use_seq;
}

static inline guint
gpu_pool_use_slot (guint64 use)
{
  return use >> GPU_POOL_USE_SEQ_BITS;
}

static inline guint64
gpu_pool_use_seq (guint64 use)
{
  return use & ((G_GUINT64_CONSTANT (1) << GPU_POOL_USE_SEQ_BITS) - 1);
}

G_END_DECLS

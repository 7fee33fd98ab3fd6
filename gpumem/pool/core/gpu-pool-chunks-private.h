/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of expandable pools share: pieces of memory, gaps without any, and a request on
 * its way. */
#pragma once

#include "gpumem/pool/core/gpu-pool-private.h"

G_BEGIN_DECLS

/* Pieces that are moved by one request: more would take longer than new memory is worth. */
#define GPU_POOL_MAX_MOVED 256

/* Which piece is behind each granule. */
typedef struct
{
  gpointer handle;                  /* NULL: none */
  guint32  first;                   /* granules */
  guint32  n;
} GpuPoolGranule;

struct _GpuPoolChunks
{
  GpuPoolArea    *area;
  guint32         granule;          /* units */
  guint           n_granules;
  GpuPoolGranule *granules;         /* changed with the lock of growth held */
  GpuPoolNode    *unmapped;         /* by address, by free_next; guarded by the lock of the heap */
};

/* Memory without an address, on its way. */
typedef struct
{
  gpointer handle;
  guint32  first;                   /* where it was, in granules */
  guint32  n;
} GpuPoolChunk;

/* Neighbours that are free or a gap, and will be one range. */
typedef struct
{
  GpuPoolNode *first;
  GpuPoolNode *last;
  guint32      unmapped_before;     /* units of a gap at the beginning that stay one */
  guint32      unmapped_after;      /* the same at the end */
  guint64      cost;                /* units that have to be mapped */
} GpuPoolPlacement;

typedef struct
{
  GpuPool              *pool;
  GpuPoolChunks        *chunks;
  const GpuPoolRequest *request;
  gsize                 largest;    /* bytes of new pieces */
  gboolean              overshoot;  /* may move more than was asked for */
  GArray               *moved;      /* of GpuPoolChunk, from elsewhere */
  GPtrArray            *holes;      /* nodes: where they were */
  guint64               created;    /* granules */
  guint                 n_unmaps;
} GpuPoolGrowth;

/* --- gaps: under the lock of the heap -------------------------------------------------- */

void       _gpu_pool_add_unmapped  (GpuPool            *pool,
                                    GpuPoolNode        *node);
void       _gpu_pool_remove_unmapped (GpuPool            *pool,
                                      GpuPoolNode        *node);
/* @node, which is busy, has no memory any more. */
void       _gpu_pool_make_unmapped (GpuPool            *pool,
                                    GpuPoolNode        *node);

/* --- pieces: with the lock of growth --------------------------------------------------- */

void       _gpu_pool_destroy_chunk (GpuPool            *pool,
                                    const GpuPoolChunk *chunk);
void       _gpu_pool_unmap_chunk   (GpuPool            *pool,
                                    const GpuPoolChunk *chunk);

/* --- windows: under the lock of the heap ----------------------------------------------- */

/* The cheapest for the request; FALSE if there is none. */
gboolean   _gpu_pool_find_placement (GpuPoolGrowth      *growth,
                                     GpuPoolPlacement   *best);
/* Its nodes are busy; gaps among them still have no memory. */
void       _gpu_pool_take_placement (GpuPoolGrowth      *growth,
                                     GpuPoolPlacement   *placement);
/* Nodes of so many units that are free and over, the largest first. */
GPtrArray *_gpu_pool_find_ranges   (GpuPool            *pool,
                                    guint32             units);
/* Whole pieces out of those, @max granules; returns how many. */
guint32    _gpu_pool_take_chunks   (GpuPoolGrowth      *growth,
                                    guint32             max);

G_END_DECLS

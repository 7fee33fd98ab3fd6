/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Declarations that the files of expandable pools share: chunks, unmapped ranges, and the state of
 * a growth. */
#pragma once

#include "gpumem/pool/core/gpu-pool-private.h"

G_BEGIN_DECLS

/* Maximum number of chunks moved per request: moving more takes longer than creating new memory. */
#define GPU_POOL_MAX_MOVED 1024

/* A chunk that is mapped at two places, besides stale mappings. One mapping owns the units before
 * @cut, and the other the units from @cut on. The addresses of a mapping that it does not own are a
 * hidden node. */
typedef struct
{
  gpointer     handle;
  guint32      n;                   /* granules in the chunk */
  guint32      cut;                 /* units */
  guint32      first[2];            /* first granule of the mapping that owns the beginning, and of
                                     * the mapping that owns the end */
  GpuPoolNode *hidden[2];           /* the hidden nodes of these mappings */
} GpuPoolSplit;

struct _GpuPoolChunks
{
  GpuPoolArea    *area;
  guint32         granule;          /* size of a granule, in units */
  guint           n_granules;
  GpuPoolGranule *granules;         /* guarded by growth_lock */
  GArray         *splits;           /* of GpuPoolSplit; guarded by growth_lock */
  GArray         *stale;            /* of GpuPoolStale; guarded by growth_lock */
  guint           n_stale;          /* granules of these mappings */
  GpuPoolNode    *unmapped;         /* by address, linked by free_next; guarded by `lock` */
};

/* A chunk of physical memory that is being moved. Such a chunk has no address. */
typedef struct
{
  gpointer handle;
  guint32  first;                   /* granule that the chunk was mapped at */
  guint32  n;
} GpuPoolChunk;

/* The old mapping of a chunk that is being moved, or was moved, while work of the stream that uses
 * it was pending. */
typedef struct
{
  GpuPoolChunk  chunk;
  GpuPoolNode  *node;               /* the addresses; `use` is the pending use */
  gboolean      is_moved;           /* the chunk is mapped at new addresses, too */
  gboolean      is_last;            /* the chunk is mapped nowhere else, except at other stale
                                     * mappings: it is destroyed after the last of them */
} GpuPoolStale;

/* A run of adjacent free and unmapped ranges that will become one range. */
typedef struct
{
  GpuPoolNode *first;
  GpuPoolNode *last;
  guint32      unmapped_before;     /* units at the start that stay unmapped */
  guint32      unmapped_after;      /* units at the end that stay unmapped */
  guint64      cost;                /* units that have to be mapped */
} GpuPoolPlacement;

/* A free part of a chunk whose other part is in use: the end of the chunk (a head of a new block),
 * or its beginning (a tail). @node is NULL if there is no edge. */
typedef struct
{
  GpuPoolNode *node;                /* contains the edge, and once the edge is taken is the edge */
  GpuPoolChunk chunk;
  guint32      units;
  guint64      use;
} GpuPoolEdge;

typedef struct
{
  GpuPool              *pool;
  GpuPoolChunks        *chunks;
  const GpuPoolRequest *request;
  gsize                 largest;    /* largest new chunk, in bytes */
  guint64               allowed;    /* managed bytes above which moved chunks are destroyed before
                                     * others are created */
  gboolean              is_frugal;  /* the owner has no more memory: saves what is possible */
  gboolean              overshoot;  /* may move more granules than needed, because only whole chunks
                                     * can be moved */
  GArray               *moved;      /* of GpuPoolChunk: chunks to map at the new addresses */
  GPtrArray            *holes;      /* nodes that the chunks were taken from */
  GArray               *stale;      /* of GpuPoolStale: further chunks to map at the new addresses.
                                     * They remain mapped at the old ones */
  GpuPoolEdge           head;       /* edges to map before and after the chunks */
  GpuPoolEdge           tail;
  guint                 n_created;  /* new chunks */
  guint                 n_unmaps;
} GpuPoolGrowth;

/* --- unmapped ranges: caller holds lock -------------------------------------------------- */

void       _gpu_pool_add_unmapped  (GpuPool            *pool,
                                    GpuPoolNode        *node);
void       _gpu_pool_remove_unmapped (GpuPool            *pool,
                                      GpuPoolNode        *node);
/* Turns @node, which is busy, into an unmapped range. */
void       _gpu_pool_make_unmapped (GpuPool            *pool,
                                    GpuPoolNode        *node);

/* --- chunks: caller holds growth_lock ---------------------------------------------------- */

void       _gpu_pool_destroy_chunk (GpuPool            *pool,
                                    const GpuPoolChunk *chunk);
/* Unmaps @chunks, of GpuPoolChunk, whose addresses are @nodes, which are busy. Caller does not hold
 * lock. */
void       _gpu_pool_unmap_nodes   (GpuPool            *pool,
                                    const GArray       *chunks,
                                    GPtrArray          *nodes);
/* Unmaps the chunks, joining adjacent ones into one call. Returns the number of calls. */
guint      _gpu_pool_unmap_chunks  (GpuPool            *pool,
                                    const GpuPoolChunk *chunks,
                                    guint               n_chunks);

/* --- placements: caller holds lock ---------------------------------------------------- */

/* Finds the cheapest placement for the request. Returns FALSE if there is none. */
gboolean   _gpu_pool_find_placement (GpuPoolGrowth      *growth,
                                     GpuPoolPlacement   *best);
/* Makes the nodes of @placement busy. Does not map memory to the unmapped ranges among these
 * nodes. */
void       _gpu_pool_take_placement (GpuPoolGrowth      *growth,
                                     GpuPoolPlacement   *placement);
/* Returns whether @request may use memory whose last use is @use: the use has completed, or is by
 * the stream of @request. @request may be NULL. */
gboolean   _gpu_pool_may_use       (GpuPool              *pool,
                                    const GpuPoolRequest *request,
                                    guint64               use);
/* Lists the free nodes that have at least @units and that @request may use, at most
 * GPU_POOL_MAX_MOVED. The nodes of a free list are in order of size, the largest first. */
GPtrArray *_gpu_pool_find_ranges   (GpuPool              *pool,
                                    const GpuPoolRequest *request,
                                    guint32               units);
/* Returns the number of granules of whole chunks of @node, which is free. */
guint32    _gpu_pool_count_whole   (const GpuPoolChunks  *chunks,
                                    const GpuPoolNode    *node);
/* Returns whether chunks with pending uses may be moved: stale mappings must leave enough
 * addresses. */
gboolean   _gpu_pool_may_move_pending (GpuPool            *pool);
/* Makes the @units at @offset, which are part of the free node @node, a busy node. Returns the free
 * node that follows, if any. */
GpuPoolNode *_gpu_pool_cut_out     (GpuPool            *pool,
                                    GpuPoolNode       **node,
                                    guint32             offset,
                                    guint32             units);
/* Takes whole chunks, together at most @max granules, from free ranges whose use has completed, and
 * then from free ranges that the request, if any, may use. If these do not suffice for the request,
 * also takes a larger chunk whose use has completed. If that chunk does not fit into the unmapped
 * ranges, smaller chunks replace it. Returns the number of granules taken, at most @max. */
guint32    _gpu_pool_take_chunks   (GpuPoolGrowth      *growth,
                                    guint32             max);

/* --- edges: caller holds growth_lock, and lock except where noted -------------------------- */

/* Finds edges for the request that leave less than @cost units to be mapped, and makes their nodes
 * busy. Unless the growth is frugal, no edges serve large requests. Sets @placement to addresses
 * for the edges and for the chunks between them. Returns FALSE if there are no such edges. */
gboolean   _gpu_pool_take_edges    (GpuPoolGrowth      *growth,
                                    guint64             cost,
                                    GpuPoolPlacement   *placement);
/* Splits the chunks of the edges, which are mapped to @placement, and limits @placement to the
 * addresses that the request may use. */
void       _gpu_pool_split_chunks  (GpuPoolGrowth      *growth,
                                    GpuPoolPlacement   *placement);
/* Frees the edges, if the growth has failed. */
void       _gpu_pool_return_edges  (GpuPoolGrowth      *growth);
/* Removes one of the two mappings of each split chunk, if the part of the chunk that this mapping
 * owns is free, and its use has completed or is by the stream of @request (nullable). In the latter
 * case the mapping becomes stale. Caller does not hold lock. */
void       _gpu_pool_reunite_chunks (GpuPool              *pool,
                                     const GpuPoolRequest *request);

/* --- stale mappings: caller holds growth_lock -------------------------------------------- */

/* Returns the old mapping of a chunk that the growth moves, or NULL if it has none. */
GpuPoolStale *_gpu_pool_find_stale  (GpuPoolGrowth      *growth,
                                     gpointer            handle);
/* Adds the mapping of @chunk, whose addresses are @node, with a pending use. Caller holds lock. */
void       _gpu_pool_add_stale      (GpuPool            *pool,
                                     const GpuPoolChunk *chunk,
                                     GpuPoolNode        *node);
/* Keeps the old mappings of the chunks that were moved. Frees those of the others, or of all chunks
 * if the growth has failed. Caller holds lock. */
void       _gpu_pool_keep_stale     (GpuPoolGrowth      *growth,
                                     gboolean            has_failed);
/* Unmaps the stale mappings whose uses have completed. Caller does not hold lock. */
void       _gpu_pool_unmap_stale    (GpuPool            *pool);
/* Destroys @chunk, which has no other mappings than stale ones. If there are any, the chunk is
 * destroyed when the last of them is unmapped: until then, its memory exists, so it counts as
 * managed. Caller does not hold lock. */
void       _gpu_pool_drop_chunk     (GpuPool            *pool,
                                     const GpuPoolChunk *chunk);

G_END_DECLS

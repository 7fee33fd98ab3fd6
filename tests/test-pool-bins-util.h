/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pools with bins over host memory. Their owner has limited memory, and the streams are
 * simulated. */
#pragma once

#include "gpumem/pool/core/gpu-pool-bins.h"

#include "test-util.h"

G_BEGIN_DECLS

#define POOL_N_STREAMS 4

/* The data of an item of a pool. */
typedef struct
{
  gsize    size;
  guint8   byte;                    /* value that the user wrote */
  guint    n_uses;                  /* number of valid entries in the arrays below */
  guint    streams[POOL_N_STREAMS];
  guint64  points[POOL_N_STREAMS];
} PoolMemory;

typedef struct
{
  GpuPoolBins *bins;
  GMutex       lock;                /* guards the fields below */
  guint64      capacity, used;
  guint        n_live, n_allocs, n_frees, n_refused;
  GError      *failure;             /* of the next alloc_item(), nullable */
  GArray      *freed;               /* sizes of freed items, in order */
  GString     *steps;               /* a: alloc_item, f: free_item, rN: make_room(N) */
  guint        n_rooms;             /* number of further make_room() calls that return TRUE */
  GPtrArray   *garbage;             /* items that make_room() releases */
  gboolean     trims;               /* trims the pool after refusing an item */
  GpuPoolItem *churned;             /* nullable; released and taken again after each refusal */
} PoolOwner;

/* A simulated stream, which counts submitted and completed work. All fields are atomic. */
typedef struct
{
  guint    number;
  guint    refs;
  guint64  submitted, completed;
  guint64  waits[POOL_N_STREAMS];   /* by other stream: the point that this stream waits for */
  guint    n_fences, n_waits;
  guint    n_refused;               /* waits of the host while refusing */
  gboolean broken;                  /* recording a fence fails */
  gboolean refusing;                /* refuses all waits for its work, like a capturing stream */
  gboolean gone;                    /* closed, and all work completed */
} PoolStream;

extern PoolStream pool_streams[POOL_N_STREAMS];
/* The number of waits by the host. */
extern guint pool_n_blocked;

GpuPoolBins *pool_begin           (PoolOwner   *owner,
                                   guint64      capacity);
/* Asserts that all memory was returned to the owner. */
void         pool_end             (PoolOwner   *owner);

/* Takes an item, and asserts that it matches the request. */
GpuPoolItem *pool_take            (GpuPoolBins *bins,
                                   gsize        size,
                                   PoolStream  *stream);
/* Submits work that uses the item and releases the item. */
void         pool_give            (GpuPoolItem *item,
                                   PoolStream  *stream);
/* Asserts that the owner has recorded these steps since the last call. */
void         pool_assert_steps    (PoolOwner   *owner,
                                   const char  *steps);
/* Asserts that the known uses of an item have completed, or that @stream waits for them. If @stream
 * is NULL (the host), all uses must have completed. */
void         pool_assert_is_complete (const PoolMemory *memory,
                                      const PoolStream *stream);
guint        pool_count_fences    (void);

G_END_DECLS

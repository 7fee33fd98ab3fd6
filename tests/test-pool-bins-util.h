/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pools of items on host memory, with an owner that has a given amount of it, and with simulated
 * streams. */
#pragma once

#include "gpumem/pool/core/gpu-pool-bins.h"

#include "test-util.h"

G_BEGIN_DECLS

#define POOL_N_STREAMS 4

/* An item. */
typedef struct
{
  gsize    size;
  guint8   byte;                    /* the user's value */
  guint    n_uses;                  /* when it was freed, if the test says so */
  guint    streams[POOL_N_STREAMS];
  guint64  points[POOL_N_STREAMS];
} PoolMemory;

typedef struct
{
  GpuPoolBins *bins;
  GMutex       lock;                /* guards what follows */
  guint64      capacity, used;
  guint        n_live, n_allocs, n_frees, n_refused;
  GError      *failure;             /* of the next alloc_item(), nullable */
  GArray      *freed;               /* sizes, in order */
  GString     *steps;               /* a: alloc_item, f: free_item, rN: make_room(N) */
  guint        n_rooms;             /* how often make_room() returns TRUE */
  GPtrArray   *garbage;             /* items that make_room() releases */
  gboolean     trims;               /* the pool, when it has just refused an item */
  GpuPoolItem *churned;             /* then given back and taken again, nullable */
} PoolOwner;

/* What is submitted to it, and done of that; all atomic. */
typedef struct
{
  guint    number;
  guint    refs;
  guint64  submitted, completed;
  guint64  waits[POOL_N_STREAMS];   /* for so much of others */
  guint    n_fences, n_waits;
  gboolean broken;                  /* marks fail */
  gboolean gone;                    /* closed, and all work completed */
} PoolStream;

extern PoolStream pool_streams[POOL_N_STREAMS];
/* How often the host waited. */
extern guint pool_n_blocked;

GpuPoolBins *pool_begin           (PoolOwner   *owner,
                                   guint64      capacity);
/* Asserts that all memory was returned to the owner. */
void         pool_end             (PoolOwner   *owner);

/* Fails unless there is an item, and it is as asked for. */
GpuPoolItem *pool_take            (GpuPoolBins *bins,
                                   gsize        size,
                                   PoolStream  *stream);
/* After one more piece of work. */
void         pool_give            (GpuPoolItem *item,
                                   PoolStream  *stream);
/* Of the owner, since this was last asked. */
void         pool_assert_steps    (PoolOwner   *owner,
                                   const char  *steps);
/* Asserts that the known uses of an item have completed or that @stream waits for them; NULL is
 * the host. */
void         pool_assert_is_over  (const PoolMemory *memory,
                                   const PoolStream *stream);
guint        pool_count_fences    (void);

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An owner of a pool with memory that does not exist, and streams that work when they are told to.
 * It ends the program when the pool hands out what is not there or what somebody still uses: of
 * every unit it knows who has it, which work of which stream touched it, and of every stream what
 * has to be over before its next work begins.
 */
#pragma once

#include "gpumem/pool/core/gpu-pool.h"

G_BEGIN_DECLS

#define SIM_MAX_STREAMS 16

typedef struct _Sim       Sim;
typedef struct _SimStream SimStream;

typedef struct
{
  guint64 n_segments, n_chunks;     /* there are */
  guint64 bytes, peak_bytes;        /* there are; of pieces also those with no address */
  guint64 n_allocs, n_frees;        /* calls, of segments or pieces */
  guint64 n_maps, n_unmaps;
  guint64 n_mapped;                 /* pieces, by all calls */
  guint64 n_fences, n_orders, n_waits, n_asked;
  guint64 n_rooms;
} SimStats;

/* @granularity 0: segments. @checked: as said above, which takes time and memory. */
Sim        *sim_new             (gsize                  capacity,
                                 gsize                  unit,
                                 gsize                  granularity,
                                 gboolean               checked);
/* Everything has come back. */
void        sim_free            (Sim                   *sim);
void        sim_config          (Sim                   *sim,
                                 GpuPoolConfig         *config);
GpuPool    *sim_pool_new        (Sim                   *sim);
void        sim_get_stats       (Sim                   *sim,
                                 SimStats              *stats);
void        sim_set_capacity    (Sim                   *sim,
                                 gsize                  capacity);
/* The @nth call that can fail from now on, from 1, fails with @code. */
void        sim_fail            (Sim                   *sim,
                                 guint                  nth,
                                 GpuError               code);
/* Whether it has. */
gboolean    sim_has_failed      (Sim                   *sim);
/* What make_room() does; it gives up without. */
void        sim_set_make_room   (Sim                   *sim,
                                 gboolean             (*make_room) (gpointer data),
                                 gpointer               data);

/* What a stream has is over when @lag more things were put into it, and when it is waited for. */
SimStream  *sim_stream_new      (Sim                   *sim,
                                 guint64                lag);
void        sim_stream_unref    (SimStream             *stream);
/* Something, on no memory. */
void        sim_stream_submit   (SimStream             *stream);
/* All of it is over. */
void        sim_stream_finish   (SimStream             *stream);
/* Nobody submits to it any more. */
void        sim_stream_close    (SimStream             *stream);
guint       sim_stream_get_refs (SimStream             *stream);

/* The program has got the memory; @stream NULL is the host. */
void        sim_take            (Sim                   *sim,
                                 SimStream             *stream,
                                 guint64                address,
                                 gsize                  size);
/* Work on it. */
void        sim_use             (Sim                   *sim,
                                 SimStream             *stream,
                                 guint64                address,
                                 gsize                  size);
void        sim_give            (Sim                   *sim,
                                 guint64                address,
                                 gsize                  size);
/* What the program itself has @stream wait for. */
void        sim_order           (SimStream             *stream,
                                 SimStream             *after);

extern const GpuPoolOps       sim_ops;
extern const GpuPoolStreamOps sim_stream_ops;

G_END_DECLS

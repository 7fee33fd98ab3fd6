/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A simulated owner of a pool and simulated streams, whose work completes under control of the
 * test. The simulation aborts if the pool returns memory that does not exist or has pending uses.
 * For every unit of memory, it records whether the unit is allocated and which work of each stream
 * used it. For every stream, it records the points that must complete before its next work begins.
 */
#pragma once

#include "gpumem/pool/core/gpu-pool.h"

G_BEGIN_DECLS

#define SIM_MAX_STREAMS 16

typedef struct _Sim       Sim;
typedef struct _SimStream SimStream;

typedef struct
{
  guint64 n_segments, n_chunks;     /* current */
  guint64 bytes, peak_bytes;        /* current; includes chunks without an address */
  guint64 n_allocs, n_frees;        /* number of calls, for segments or chunks */
  guint64 n_maps, n_unmaps;
  guint64 n_mapped;                 /* total number of chunks that were mapped */
  guint64 n_mapped_twice;           /* the same, while they were mapped at another place, too */
  guint64 n_fences, n_orders, n_waits, n_asked;
  guint64 n_rooms;
  guint64 n_unmapped;               /* total number of chunks that were unmapped */
  guint64 driver_time;              /* of calls for chunks, in ns: a model, see sim_estimate() */
  guint64 first_time;               /* the part of it that creates chunks and maps each once */
} SimStats;

/* If @granularity is 0, the owner allocates segments; otherwise it allocates chunks of this
 * granularity. If @checked is TRUE, makes the checks described above, which cost time and
 * memory. */
Sim        *sim_new             (gsize                  capacity,
                                 gsize                  unit,
                                 gsize                  granularity,
                                 gboolean               checked);
/* Frees the owner. All memory must have been returned. */
void        sim_free            (Sim                   *sim);
void        sim_config          (Sim                   *sim,
                                 GpuPoolConfig         *config);
GpuPool    *sim_pool_new        (Sim                   *sim);
/* Gives every thread its own heap in pools that are created afterwards. */
void        sim_set_thread_heaps (Sim                  *sim,
                                 gboolean               has_thread_heaps);
void        sim_get_stats       (Sim                   *sim,
                                 SimStats              *stats);
void        sim_set_capacity    (Sim                   *sim,
                                 gsize                  capacity);
/* Makes each allocation @lost bytes larger than its segment. */
void        sim_set_lost        (Sim                   *sim,
                                 gsize                  lost);
/* Makes the @nth call from now that can fail (counted from 1) fail with @code. */
void        sim_fail            (Sim                   *sim,
                                 guint                  nth,
                                 GpuError               code);
/* Returns whether the failure of sim_fail() has happened. */
gboolean    sim_has_failed      (Sim                   *sim);
/* Sets the function that make_room() calls. Without such a function, make_room() returns FALSE. */
void        sim_set_make_room   (Sim                   *sim,
                                 gboolean             (*make_room) (gpointer data),
                                 gpointer               data);

/* Creates a stream whose work completes after @lag further submissions, or when the host waits for
 * the work. */
SimStream  *sim_stream_new      (Sim                   *sim,
                                 guint64                lag);
void        sim_stream_unref    (SimStream             *stream);
/* Submits work that uses no memory. */
void        sim_stream_submit   (SimStream             *stream);
/* Completes all work of the stream. */
void        sim_stream_finish   (SimStream             *stream);
/* Closes the stream for submissions. */
void        sim_stream_close    (SimStream             *stream);
guint       sim_stream_get_refs (SimStream             *stream);

/* Marks the memory as allocated for @stream, or for the host if @stream is NULL. */
void        sim_take            (Sim                   *sim,
                                 SimStream             *stream,
                                 guint64                address,
                                 gsize                  size);
/* Submits work that uses the memory. */
void        sim_use             (Sim                   *sim,
                                 SimStream             *stream,
                                 guint64                address,
                                 gsize                  size);
void        sim_give            (Sim                   *sim,
                                 guint64                address,
                                 gsize                  size);
/* Makes @stream wait for the work that was submitted to @after. Simulates a wait that the program
 * adds itself, without the pool. */
void        sim_order           (SimStream             *stream,
                                 SimStream             *after);

extern const GpuPoolOps       sim_ops;
extern const GpuPoolStreamOps sim_stream_ops;

G_END_DECLS

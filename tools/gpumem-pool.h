/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gpumem/gpumem.h>

#include "tools/gpumem-command.h"
#include "tools/gpumem-progress.h"
#include "tools/gpumem-trace.h"

G_BEGIN_DECLS

/* --- replaying ------------------------------------------------------------------------- */

/* The kind of memory that is allocated from the pool. */
typedef enum
{
  GPUMEM_TAKE_BEST,             /* blocks if the pool supports them */
  GPUMEM_TAKE_BLOCKS,
  GPUMEM_TAKE_BUFFERS
} GpumemTake;

/* Options. */
typedef struct
{
  GpuDevice         *device;
  GpuContext        *context;
  GpuMemoryPoolKind  kind;
  GpumemTake         take;
  guint64            limit;         /* bytes, 0: none */
  double             target;        /* of fragmentation; negative: the default of the pool */
  gboolean           touch;         /* fill the first bytes of each allocation */
  GCancellable      *cancellable;
  GpumemProgress    *progress;
} GpumemReplay;

/* The memory of the pool, in bytes, at one operation of a replay. */
typedef struct
{
  gsize   operation;                /* counted from 1 */
  guint64 live;
  guint64 used;                     /* live bytes, with rounding */
  guint64 managed;
} GpumemSample;

typedef struct
{
  const char *action;               /* an action of gpumem-snapshot.h */
  guint64     time;                 /* microseconds */
  guint64     address;
  guint64     size;                 /* bytes */
  guint64     device_free;          /* bytes; only for the action oom */
  guint32     stream;
} GpumemPoolEvent;

/* The record of a separate replay. The events are a ring buffer with the most recent events. */
typedef struct
{
  GArray          *samples;         /* of GpumemSample */
  GpumemPoolEvent *events;          /* NULL if not recorded */
  gsize            n_events;        /* total number, with overwritten events */
  guint64          managed;         /* bytes at the last event */
  GVariant        *snapshot;        /* at the end, or at the first failed allocation */
} GpumemRecord;

#define GPUMEM_MAX_EVENTS 65536

/* A column of the table. */
typedef struct
{
  GpumemTrace       *trace;
  char              *path;
  char              *name;          /* of the file */
  GpuMemoryPoolKind  kind;
  gboolean           has_blocks;    /* TRUE: blocks were allocated; FALSE: buffers */
  gsize              n_operations;  /* number of replayed operations */
  guint64            peak_live;     /* bytes, as requested */
  guint64            peak_managed;
  double             nanoseconds;   /* per operation, without the loop */
  double             loop;          /* overhead of the loop per operation */
  guint64            n_refused;
  gsize              refused_at;    /* number of the refused operation, from 1; or 0 */
  char              *refusal;       /* nullable: the first error */
  GVariant          *statistics;
} GpumemReplayed;

void            gpumem_replayed_free    (GpumemReplayed      *replayed);
/* Replays the trace. Returns: (transfer full): the result; %NULL after an error. A lack of memory
 * is no error, but is part of the result */
GpumemReplayed *gpumem_replay_run       (const GpumemReplay  *replay,
                                         const char          *path,
                                         GError             **error);
/* Replays the same operations on another pool, and records the state of that pool. */
gboolean        gpumem_replay_record    (const GpumemReplay  *replay,
                                         const GpumemTrace   *trace,
                                         gboolean             with_events,
                                         GpumemRecord        *record,
                                         GError             **error);
void            gpumem_record_clear     (GpumemRecord        *record);

/* Called during a replay; @refusal is nullable. */
void            gpumem_record_add       (GpumemRecord               *record,
                                         GpuMemoryPool              *pool,
                                         const GpumemTraceOperation *operation,
                                         guint64                     address,
                                         const GError               *refusal);
void            gpumem_record_sample    (GpumemRecord               *record,
                                         GpuMemoryPool              *pool,
                                         gsize                       operation);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpumemReplayed, gpumem_replayed_free)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (GpumemRecord, gpumem_record_clear)

guint64         gpumem_replayed_get     (const GpumemReplayed *replayed,
                                         const char           *figure);
void            gpumem_replay_print     (const GpumemReplay   *replay,
                                         GPtrArray            *results);
void            gpumem_replay_print_json (const GpumemReplay  *replay,
                                          GPtrArray           *results,
                                          gboolean             csv);
gboolean        gpumem_replay_plot      (const GpumemReplay   *replay,
                                         const GpumemReplayed *replayed,
                                         const GpumemRecord   *record,
                                         const char           *path,
                                         GError              **error);
gboolean        gpumem_replay_save_report (const GpumemReplay   *replay,
                                           const GpumemReplayed *replayed,
                                           const GpumemRecord   *record,
                                           const char           *path,
                                           GError              **error);
gboolean        gpumem_record_save      (const GpumemRecord   *record,
                                         const char           *snapshot,
                                         const char           *perfetto,
                                         GError              **error);

/* --- measuring ----------------------------------------------------------------------------- */

/* The source of the measured memory. */
typedef enum
{
  GPUMEM_SOURCE_BLOCKS,
  GPUMEM_SOURCE_BUFFERS,
  GPUMEM_SOURCE_DEVICE,         /* buffers of the driver */
  GPUMEM_SOURCE_STREAM,         /* stream-ordered memory of the driver */
  GPUMEM_SOURCE_MALLOC,         /* malloc() of the process, on the host device */
  GPUMEM_SOURCE_JEMALLOC,       /* those of other libraries, on the host device */
  GPUMEM_SOURCE_MIMALLOC,
  GPUMEM_N_SOURCES
} GpumemSource;

/* The time of an allocation and a free in nanoseconds, over the rounds; 0 if not measured. */
typedef struct
{
  double median;
  double least;
  double most;
} GpumemTimes;

/* A line of the table. */
typedef struct
{
  char        *workload;
  guint        n_threads;
  GpumemTimes  times[GPUMEM_N_SOURCES];
} GpumemLatency;

typedef struct
{
  GpuDevice         *device;
  GpuContext        *context;
  GpuMemoryPoolKind  kind;
  gboolean           has_blocks;
  gboolean           slow;
  guint              n_threads;
  double             min_time;      /* seconds per figure */
  GCancellable      *cancellable;
  GpumemProgress    *progress;
  GPtrArray         *latencies;     /* of GpumemLatency */
  GPtrArray         *omissions;     /* of strings */
  gboolean           lacks[GPUMEM_N_SOURCES]; /* libraries that are not installed */
  gboolean           failed;        /* TRUE after a failure, FALSE for missing features */
} GpumemPoolBench;

gboolean        gpumem_pool_bench_open       (GpumemPoolBench       *bench,
                                              GError               **error);
gboolean        gpumem_pool_bench_run        (GpumemPoolBench       *bench);
/* Measures malloc() of this process for the workload with this number. */
GpumemTimes     gpumem_pool_bench_measure    (GpumemPoolBench       *bench,
                                              guint                  workload,
                                              GError               **error);
/* Measures malloc() of another library. %GPU_ERROR_NOT_SUPPORTED: it is not installed. */
GpumemTimes     gpumem_pool_bench_measure_malloc (const GpumemPoolBench *bench,
                                                  GpumemSource           source,
                                                  guint                  workload,
                                                  guint                  n_threads,
                                                  GError               **error);
/* Measures and prints the line that gpumem_pool_bench_measure_malloc() has chosen; prints nothing
 * if the library is not loaded. */
gboolean        gpumem_pool_bench_print_malloc (GpumemPoolBench     *bench,
                                                const char          *line,
                                                GError             **error);
void            gpumem_pool_bench_clear      (GpumemPoolBench       *bench);
/* Gets the time of the faster of the driver's two allocations, divided by the time of the pool. The
 * time of the pool is that of its blocks, or that of its buffers if the pool has no blocks. The
 * minimum and the maximum are the extreme ratios of any two rounds.
 * Returns: %FALSE if the driver or the pool was not measured */
gboolean        gpumem_latency_get_ratio     (const GpumemLatency   *latency,
                                              GpumemTimes           *ratio);
const char     *gpumem_source_get_name       (GpumemSource           source);
gboolean        gpumem_pool_bench_save_report (const GpumemPoolBench *bench,
                                               const char            *path,
                                               GError               **error);
void            gpumem_pool_bench_print      (const GpumemPoolBench *bench);
void            gpumem_pool_bench_print_json (const GpumemPoolBench *bench,
                                              gboolean               csv);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (GpumemPoolBench, gpumem_pool_bench_clear)

const char     *gpumem_pool_kind_get_name    (GpuMemoryPoolKind      kind);
/* Returns whether @pool supports blocks. */
gboolean        gpumem_pool_has_blocks       (GpuMemoryPool         *pool);

extern const GpumemCommand gpumem_pool_replay_command;
extern const GpumemCommand gpumem_pool_bench_command;

G_END_DECLS

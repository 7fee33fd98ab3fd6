/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Measures the core of memory pools without a device: allocations only change counters, and each
 * use of a block completes after a fixed number of further operations.
 *
 *   pool-core latency                    time of an allocation and a free, by workload
 *   pool-core threads [--lag N] [N_THREADS]
 *                                        how requests of contending threads are served, as counts
 *   pool-core replay [--lag N] [--granularity KIB] [--waste PERCENT] [--repeat N] TRACE...
 *
 * In the table of replays, "model" is the estimated time of the driver calls in ns per operation,
 * and "first" the part of it that creates each chunk and maps it once: chunks that move take the
 * rest.
 *
 * A trace has lines "a ID SIZE STREAM" and "f ID STREAM", and may be compressed with gzip.
 */
#include "config.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "tests/test-pool-sim.h"

#define KIB 1024u
#define MIB (1024u * KIB)
#define GIB ((gsize) 1024 * MIB)

static gint lag = 0;
static gint granularity = 2048;
static gdouble waste = 3;
static gint n_copies = 0;
static gint n_repeats = 0;

static const GOptionEntry options[] = {
  { "lag", 0, 0, G_OPTION_ARG_INT, &lag, "Operations until a use completes", "N" },
  { "granularity", 0, 0, G_OPTION_ARG_INT, &granularity, "Size of chunks; 0 for segments", "KIB" },
  { "waste", 0, 0, G_OPTION_ARG_DOUBLE, &waste,
    "Fragmentation above which memory moves", "PERCENT" },
  { "copies", 0, 0, G_OPTION_ARG_INT, &n_copies,
    "Also replay copies, in which each size above 64 KiB grows at random by up to 2 %", "N" },
  { "repeat", 0, 0, G_OPTION_ARG_INT, &n_repeats,
    "Also replay the trace N times in one pool, like a program that repeats its steps", "N" },
  { NULL, }
};

static guint64
get_random (guint64 *state)
{
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;

  return *state >> 16;
}

static GpuPool *
make_pool (Sim      *sim,
           gboolean  has_thread_heaps)
{
  GpuPoolLimits limits = { .release_threshold = G_MAXUINT64, .waste = waste / 100 };
  GpuPoolConfig config;
  GpuPool *pool;

  sim_config (sim, &config);
  config.segment_size = 256 * MIB;
  config.has_thread_heaps = has_thread_heaps;
  pool = _gpu_pool_new (&config, &sim_ops, sim, &sim_stream_ops, NULL);
  _gpu_pool_set_limits (pool, &limits);

  return pool;
}

/* --- traces ------------------------------------------------------------------------------- */

typedef struct
{
  gboolean is_alloc;
  guint    id;
  guint    stream;
  gsize    size;
} Op;

static GArray *
read_trace (const char  *path,
            GError     **error)
{
  g_autoptr (GFile) file = g_file_new_for_commandline_arg (path);
  g_autoptr (GInputStream) stream = G_INPUT_STREAM (g_file_read (file, NULL, error));
  g_autoptr (GConverter) unzip = NULL;
  g_autoptr (GDataInputStream) data = NULL;
  g_autoptr (GArray) ops = g_array_new (FALSE, TRUE, sizeof (Op));
  char *line;

  if (stream == NULL)
    return NULL;

  if (g_str_has_suffix (path, ".gz"))
    {
      g_autoptr (GInputStream) zipped = g_steal_pointer (&stream);

      unzip = G_CONVERTER (g_zlib_decompressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP));
      stream = g_converter_input_stream_new (zipped, unzip);
    }

  data = g_data_input_stream_new (stream);
  while ((line = g_data_input_stream_read_line (data, NULL, NULL, error)) != NULL)
    {
      Op op = { .is_alloc = line[0] == 'a' };
      guint64 size = 0;

      if (op.is_alloc
          ? sscanf (line, "a %u %" G_GUINT64_FORMAT " %u", &op.id, &size, &op.stream) == 3
          : sscanf (line, "f %u %u", &op.id, &op.stream) == 2)
        {
          op.size = size;
          g_array_append_val (ops, op);
        }
      g_free (line);
    }

  return g_steal_pointer (&ops);
}

typedef struct
{
  guint64 peak_live;
  gint64  nanoseconds;
  guint64 n_refused;
} Played;

static gint64
get_nanoseconds (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);

  return now.tv_sec * G_GINT64_CONSTANT (1000000000) + now.tv_nsec;
}

static void
play (GpuPool    *pool,
      SimStream **streams,
      GArray     *ops,
      Played     *played)
{
  g_autofree GpuMemoryBlock **by_id = NULL;
  guint64 live = 0;
  guint last = 0;
  gint64 begin;

  for (guint i = 0; i < ops->len; i++)
    last = MAX (last, g_array_index (ops, Op, i).id);
  by_id = g_new0 (GpuMemoryBlock *, last + 1);
  *played = (Played) { .peak_live = 0 };

  begin = get_nanoseconds ();
  for (guint i = 0; i < ops->len; i++)
    {
      const Op *op = &g_array_index (ops, Op, i);
      SimStream *stream = streams[op->stream];

      if (op->is_alloc)
        {
          by_id[op->id] = _gpu_pool_alloc (pool, op->size, 0, stream, NULL);
          played->n_refused += by_id[op->id] == NULL;
          live += by_id[op->id] != NULL ? op->size : 0;
          played->peak_live = MAX (played->peak_live, live);
        }
      else if (by_id[op->id] != NULL)
        {
          live -= _gpu_pool_block_get_size (by_id[op->id]);
          _gpu_pool_release (g_steal_pointer (&by_id[op->id]), stream);
        }

      if (lag > 0)
        sim_stream_submit (stream);
    }
  played->nanoseconds = get_nanoseconds () - begin;

  for (guint i = 0; i <= last; i++)
    if (by_id[i] != NULL)
      _gpu_pool_release (by_id[i], streams[0]);
}

/* The figures of a replay. */
typedef struct
{
  Played       played;
  SimStats     made;
  GpuPoolStats stats;
} Replayed;

/* Prints the calls of a further replay in the same pool. @before are the figures before it. */
static void
show_repeat (Sim            *sim,
             gint            i,
             guint           n_ops,
             const SimStats *before)
{
  SimStats made;

  sim_get_stats (sim, &made);
  g_print ("  replay %d: model %.0f ns/op, created %" G_GUINT64_FORMAT ", mapped %"
           G_GUINT64_FORMAT ", unmapped %" G_GUINT64_FORMAT "\n", i + 1,
           (double) (made.driver_time - before->driver_time) / n_ops,
           made.n_allocs - before->n_allocs, made.n_mapped - before->n_mapped,
           made.n_unmapped - before->n_unmapped);
}

/* Replays the trace @n_times in one pool. Prints the calls of each replay if there are several. */
static void
replay_times (GArray   *ops,
              gint      n_times,
              Replayed *replayed)
{
  Sim *sim = sim_new (80 * GIB, 512, granularity * KIB, FALSE);
  GpuPool *pool = make_pool (sim, FALSE);
  SimStream *streams[SIM_MAX_STREAMS];

  for (guint i = 0; i < SIM_MAX_STREAMS; i++)
    streams[i] = sim_stream_new (sim, lag);

  for (gint i = 0; i < n_times; i++)
    {
      SimStats before;

      sim_get_stats (sim, &before);
      play (pool, streams, ops, &replayed->played);
      if (n_times > 1)
        show_repeat (sim, i, ops->len, &before);
    }
  _gpu_pool_get_stats (pool, &replayed->stats);
  sim_get_stats (sim, &replayed->made);

  _gpu_pool_free (pool);
  for (guint i = 0; i < SIM_MAX_STREAMS; i++)
    sim_stream_unref (streams[i]);
  sim_free (sim);
}

static double
get_ratio (const Replayed *replayed)
{
  return (double) replayed->made.peak_bytes / replayed->played.peak_live;
}

/* Replays copies of the trace, whose sizes differ at random: the result of one trace is partly
 * chance. */
static void
replay_copies (GArray *ops)
{
  double sum = 0, largest = 0, time = 0;
  guint64 state = 88172645463325252;

  for (gint i = 0; i < n_copies; i++)
    {
      g_autoptr (GArray) copy = g_array_copy (ops);
      Replayed replayed;

      for (guint j = 0; j < copy->len; j++)
        {
          Op *op = &g_array_index (copy, Op, j);

          if (op->size > 64 * KIB)
            op->size += get_random (&state) % (op->size / 50 + 1);
        }
      replay_times (copy, 1, &replayed);
      sum += get_ratio (&replayed);
      largest = MAX (largest, get_ratio (&replayed));
      time += replayed.made.driver_time;
    }

  g_print ("  mean of %d copies: %.4f, largest %.4f, model %.0f ns/op\n", n_copies,
           sum / n_copies, largest, time / n_copies / ops->len);
}

static gboolean
replay (const char  *path,
        GError     **error)
{
  g_autoptr (GArray) ops = read_trace (path, error);
  g_autofree char *name = g_path_get_basename (path);
  Replayed replayed;
  const SimStats *made = &replayed.made;

  if (ops == NULL)
    return FALSE;

  replay_times (ops, 1, &replayed);
  g_print ("%-22s %6.0f %6.0f %6.0f %7.4f %8" G_GUINT64_FORMAT " %6" G_GUINT64_FORMAT " %6"
           G_GUINT64_FORMAT " %6" G_GUINT64_FORMAT " %8" G_GUINT64_FORMAT " %6" G_GUINT64_FORMAT
           " %6" G_GUINT64_FORMAT " %6" G_GUINT64_FORMAT " %6" G_GUINT64_FORMAT " %5"
           G_GUINT64_FORMAT "\n",
           name, (double) replayed.played.nanoseconds / ops->len,
           (double) made->driver_time / ops->len, (double) made->first_time / ops->len,
           get_ratio (&replayed), made->n_allocs, made->n_frees, made->n_maps,
           made->n_mapped, made->n_unmapped, made->n_unmaps,
           replayed.stats.n_steals, replayed.stats.n_waits, made->n_fences,
           replayed.played.n_refused);

  if (n_copies > 0)
    replay_copies (ops);
  if (n_repeats > 1)
    replay_times (ops, n_repeats, &replayed);

  return TRUE;
}

/* --- latency ---------------------------------------------------------------------------------- */

typedef struct
{
  const char *name;
  guint       n_live;
  gsize       smallest;
  gsize       largest;
  guint       n_holes;              /* number of blocks of 512 bytes that stay live */
} Workload;

typedef struct
{
  const Workload *workload;
  GpuPool        *pool;
  SimStream      *stream;
  guint           n_rounds;
  guint64         seed;
  gboolean        contends;         /* gives way to other threads, as if there were many cores */
  double          nanoseconds;      /* per allocation and free */
} Thread;

static const Workload workloads[] = {
  { "one block, 256 B", 1, 256, 256, 0 },
  { "one block, 1 MiB", 1, MIB, MIB, 0 },
  { "one block, 64 MiB", 1, 64 * MIB, 64 * MIB, 0 },
  { "16 blocks, 256 KiB", 16, 256 * KIB, 256 * KIB, 0 },
  { "100 live, 512 B to 1 MiB", 100, 512, MIB, 0 },
  { "1,000 live, 512 B to 1 MiB", 1000, 512, MIB, 0 },
  { "10,000 live, 512 B to 1 MiB", 10000, 512, MIB, 0 },
  { "100 live, 4 KiB to 4 MiB", 100, 4 * KIB, 4 * MIB, 0 },
  { "10,000 live, 8 to 4,096 B", 10000, 8, 4096, 0 },
  { "1 KiB, 4,096 holes", 1, KIB, KIB, 4096 },
  { "1 KiB, 65,536 holes", 1, KIB, KIB, 65536 },
  { "1 KiB, 1,000,000 holes", 1, KIB, KIB, 1000000 },
  { "1,000 live, 1,000,000 holes", 1000, 512, MIB, 1000000 },
};

static inline gsize
choose_size (const Workload *workload,
             guint64        *state)
{
  return workload->smallest + get_random (state) % (workload->largest - workload->smallest + 1);
}

/* Frees a random block and allocates another. */
static gpointer
work (gpointer data)
{
  Thread *thread = data;
  const Workload *workload = thread->workload;
  g_autofree GpuMemoryBlock **blocks = g_new (GpuMemoryBlock *, workload->n_live);
  guint64 state = thread->seed;
  gint64 begin = 0;

  for (guint i = 0; i < workload->n_live; i++)
    blocks[i] = _gpu_pool_alloc (thread->pool, choose_size (workload, &state), 0, thread->stream,
                                 NULL);

  for (guint i = 0; i < thread->n_rounds + thread->n_rounds / 4; i++)
    {
      guint at = workload->n_live > 1 ? get_random (&state) % workload->n_live : 0;

      if (i == thread->n_rounds / 4)
        begin = get_nanoseconds ();
      _gpu_pool_release (blocks[at], thread->stream);
      blocks[at] = _gpu_pool_alloc (thread->pool, choose_size (workload, &state), 0,
                                    thread->stream, NULL);
      if (lag > 0)
        sim_stream_submit (thread->stream);
      if (thread->contends && i % 4 == 0)
        sched_yield ();
    }
  thread->nanoseconds = (double) (get_nanoseconds () - begin) / thread->n_rounds;

  for (guint i = 0; i < workload->n_live; i++)
    _gpu_pool_release (blocks[i], thread->stream);

  return NULL;
}

/* Makes holes: allocates blocks that stay live, each next to a free range. Returns NULL if the
 * workload has none. */
static GpuMemoryBlock **
make_holes (GpuPool   *pool,
            SimStream *stream,
            guint      n)
{
  g_autofree GpuMemoryBlock **holes = g_new (GpuMemoryBlock *, n);
  GpuMemoryBlock **blocks = g_new (GpuMemoryBlock *, n);

  for (guint i = 0; i < n; i++)
    {
      blocks[i] = _gpu_pool_alloc (pool, 512, 0, stream, NULL);
      holes[i] = _gpu_pool_alloc (pool, 512, 0, stream, NULL);
    }
  for (guint i = 0; i < n; i++)
    _gpu_pool_release (holes[i], stream);

  return blocks;
}

static void
run_threads (Thread *threads,
             guint   n_threads)
{
  g_autofree GThread **running = g_new0 (GThread *, n_threads);

  for (guint i = 1; i < n_threads; i++)
    running[i] = g_thread_new ("pool", work, &threads[i]);
  work (&threads[0]);
  for (guint i = 1; i < n_threads; i++)
    g_thread_join (running[i]);
}

static double
measure (const Workload *workload,
         guint           n_threads,
         gboolean        one_stream)
{
  g_autofree Thread *threads = g_new0 (Thread, n_threads);
  g_autofree GpuMemoryBlock **blocks = NULL;
  Sim *sim = sim_new (80 * GIB, 512, granularity * KIB, FALSE);
  GpuPool *pool = make_pool (sim, FALSE);
  double sum = 0;

  for (guint i = 0; i < n_threads; i++)
    threads[i] = (Thread) { workload, pool, NULL, 2000000, i + 88172645463325252, FALSE, 0 };
  for (guint i = 0; i < n_threads; i++)
    threads[i].stream = i == 0 || !one_stream ? sim_stream_new (sim, 0) : threads[0].stream;

  blocks = make_holes (pool, threads[0].stream, workload->n_holes);
  run_threads (threads, n_threads);
  for (guint i = 0; i < n_threads; i++)
    sum += threads[i].nanoseconds;
  for (guint i = 0; i < workload->n_holes; i++)
    _gpu_pool_release (blocks[i], threads[0].stream);

  _gpu_pool_free (pool);
  for (guint i = 0; i < (one_stream ? 1 : n_threads); i++)
    sim_stream_unref (threads[i].stream);
  sim_free (sim);

  return sum / n_threads;
}

static double
best_of (const Workload *workload,
         guint           n_threads,
         gboolean        one_stream)
{
  double best = G_MAXDOUBLE;

  for (guint i = 0; i < 3; i++)
    best = MIN (best, measure (workload, n_threads, one_stream));

  return best;
}

/* Measures a mutex, as the baseline of the other figures. */
static double
measure_mutex (void)
{
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  double best = G_MAXDOUBLE;

  for (guint i = 0; i < 5; i++)
    {
      gint64 begin = get_nanoseconds ();

      for (guint j = 0; j < 1000000; j++)
        {
          pthread_mutex_lock (&mutex);
          pthread_mutex_unlock (&mutex);
        }
      best = MIN (best, (get_nanoseconds () - begin) / 1e6);
    }

  return best;
}

static void
show_latency (void)
{
  g_print ("a mutex, taken and left: %.1f ns\n\n", measure_mutex ());
  g_print ("%-30s %8s %12s %10s\n", "ns of allocation and release", "1 thread", "2, 1 stream",
           "2 threads");
  for (guint i = 0; i < G_N_ELEMENTS (workloads); i++)
    g_print ("%-30s %8.1f %12.1f %10.1f\n", workloads[i].name, best_of (&workloads[i], 1, TRUE),
             best_of (&workloads[i], 2, TRUE), best_of (&workloads[i], 2, FALSE));
}

/* --- threads ---------------------------------------------------------------------------------- */

/* Every thread has a stream and, from the start, a heap. */
static void
count_requests (const Workload *workload,
                guint           n_threads)
{
  g_autofree Thread *threads = g_new0 (Thread, n_threads);
  Sim *sim = sim_new (80 * GIB, 512, granularity * KIB, FALSE);
  GpuPool *pool = make_pool (sim, TRUE);
  GpuPoolStats stats;
  SimStats made;
  double missed;

  for (guint i = 0; i < n_threads; i++)
    threads[i] = (Thread) { workload, pool, sim_stream_new (sim, lag), 200000,
                            i + 88172645463325252, TRUE, 0 };

  run_threads (threads, n_threads);
  _gpu_pool_get_stats (pool, &stats);
  sim_get_stats (sim, &made);
  missed = stats.n_allocs - stats.n_cache_hits;
  g_print ("%-30s %9" G_GUINT64_FORMAT " %7.1f %7.2f %8" G_GUINT64_FORMAT " %8" G_GUINT64_FORMAT
           " %8" G_GUINT64_FORMAT " %8" G_GUINT64_FORMAT " %8.3f\n",
           workload->name, stats.n_allocs, 100 * missed / stats.n_allocs,
           100 * stats.n_slow / missed, stats.n_flushes, stats.n_steals, made.n_orders,
           stats.n_growths, (double) stats.peak_managed_bytes / stats.peak_used_bytes);

  _gpu_pool_free (pool);
  for (guint i = 0; i < n_threads; i++)
    sim_stream_unref (threads[i].stream);
  sim_free (sim);
}

static void
show_counts (guint n_threads)
{
  g_print ("%u threads; missed: requests that no cache served, in %% of all; slow: in %% of these\n"
           "%-30s %9s %7s %7s %8s %8s %8s %8s %8s\n", n_threads, "", "requests", "missed", "slow",
           "flushes", "steals", "orders", "growths", "managed");
  for (guint i = 0; i < G_N_ELEMENTS (workloads); i++)
    if (workloads[i].n_live > 1 && workloads[i].n_live <= 1000 && workloads[i].n_holes == 0)
      count_requests (&workloads[i], n_threads);
}

int
main (int   argc,
      char *argv[])
{
  g_autoptr (GOptionContext) context =
    g_option_context_new ("latency | threads [N] | replay TRACE...");
  g_autoptr (GError) error = NULL;

  g_option_context_add_main_entries (context, options, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || argc < 2)
    {
      g_printerr ("%s\n", error != NULL ? error->message : "latency, threads or replay?");
      return 1;
    }

  if (strcmp (argv[1], "latency") == 0)
    {
      show_latency ();
      return 0;
    }
  if (strcmp (argv[1], "threads") == 0)
    {
      show_counts (argc > 2 ? MAX (g_ascii_strtoull (argv[2], NULL, 10), 1) : 8);
      return 0;
    }

  g_print ("%-22s %6s %6s %6s %7s %8s %6s %6s %6s %8s %6s %6s %6s %6s %5s\n", "trace",
           "ns/op", "model", "first", "peak", "created", "freed", "maps", "mapped", "unmapped",
           "unmaps", "steals", "waits", "marks", "OOM");
  for (gint i = 2; i < argc; i++)
    if (!replay (argv[i], &error))
      {
        g_printerr ("%s: %s\n", argv[i], error->message);
        return 1;
      }

  return 0;
}

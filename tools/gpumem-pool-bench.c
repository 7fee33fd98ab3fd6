/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Measures the time of an allocation and a free for each workload, and compares it with allocations
 * of the driver. */
#include "config.h"

#include <time.h>

#include "tools/gpumem-pool.h"

#define KIB ((gsize) 1024)
#define MIB ((gsize) 1024 * KIB)
#define N_ROUNDS     5              /* the median is reported */
#define PART         4096           /* pairs (allocation, free) between checks for Ctrl-C */
#define WARM_UP      4              /* minimum number of pairs (allocation, free) in a round, for
                                     * each live block */
#define MAX_GROWTH   50             /* maximum number of rounds before those that are measured, in
                                     * which the pool grows */
#define MAX_OWN_LIVE 1000           /* live blocks of driver memory */

typedef enum
{
  PATTERN_ONE,                      /* allocate a block, then free it */
  PATTERN_STACK,                    /* allocate all blocks, then free them in reverse order */
  PATTERN_RANDOM,                   /* free a random block, then allocate another */
  PATTERN_GROWING                   /* allocate or free at random, up to MAX_GROWN bytes */
} Pattern;

typedef struct
{
  const char *name;
  Pattern     pattern;
  guint       n_live;
  gsize       smallest, largest;    /* bytes */
  guint       n_holes;              /* free ranges of 512 bytes, during all rounds */
} Workload;

static const Workload workloads[] = {
  { "one of 1 KiB", PATTERN_ONE, 1, KIB, KIB, 0 },
  { "one of 1 MiB", PATTERN_ONE, 1, MIB, MIB, 0 },
  { "16 of 256 KiB, last in, first out", PATTERN_STACK, 16, 256 * KIB, 256 * KIB, 0 },
  { "100 of 512 B to 1 MiB", PATTERN_RANDOM, 100, 512, MIB, 0 },
  { "1,000 of 512 B to 1 MiB", PATTERN_RANDOM, 1000, 512, MIB, 0 },
  { "10,000 of 8 to 4,096 B", PATTERN_RANDOM, 10000, 8, 4096, 0 },
  { "up to 256 MiB of 1 B to 1 MiB, at random", PATTERN_GROWING, 1000, 1, MIB, 0 },
  { "one of 1 KiB, 4,096 holes", PATTERN_ONE, 1, KIB, KIB, 4096 },
  { "one of 1 KiB, 65,536 holes", PATTERN_ONE, 1, KIB, KIB, 65536 },
  { "one of 1 KiB, 1,000,000 holes", PATTERN_ONE, 1, KIB, KIB, 1000000 }
};

#define MAX_GROWN (256 * MIB)
#define SLOW      1000000           /* workloads with at least this number of holes need --slow */

static const char *const source_names[GPUMEM_N_SOURCES] = {
  "pool-block-ns", "pool-buffer-ns", "device-ns", "device-on-stream-ns", "malloc-ns",
  "jemalloc-ns", "mimalloc-ns"
};

/* A thread, and the memory that it allocates. */
typedef struct
{
  const GpumemPoolBench *bench;
  const Workload        *workload;
  GpumemSource           source;
  GpuMemoryPool         *pool;
  GpuStream             *stream;
  GPtrArray             *memories;
  GArray                *sizes;     /* of gsize; the size of each element of memories */
  gsize                  bytes;     /* the sum of `sizes` */
  guint64                seed;
  guint64                n_pairs;
  GpumemTimes            times;
  GError                *error;     /* nullable */
} Worker;

const char *
gpumem_source_get_name (GpumemSource source)
{
  return source_names[source];
}

static gint64
get_nanoseconds (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return now.tv_sec * G_GINT64_CONSTANT (1000000000) + now.tv_nsec;
}

static guint64
get_random (guint64 *state)
{
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state >> 16;
}

/* --- memory of each source --------------------------------------------------------------- */

/* Hides the pointer from the compiler, which may remove a malloc() with its free(). */
static inline gpointer
take_malloc (Worker *worker,
             gsize   size)
{
  gpointer memory = malloc (size);

  __asm__ volatile ("" : "+r" (memory) : : "memory");
  if (memory == NULL)
    g_set_error (&worker->error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY,
                 "malloc() failed to allocate %" G_GSIZE_FORMAT " bytes", size);
  return memory;
}

static inline gpointer
take (Worker *worker,
      gsize   size)
{
  switch (worker->source)
    {
    case GPUMEM_SOURCE_BLOCKS:
      return gpu_memory_pool_alloc_block (worker->pool, size, worker->stream, &worker->error);
    case GPUMEM_SOURCE_BUFFERS:
      return gpu_memory_pool_alloc_buffer (worker->pool, size, worker->stream, &worker->error);
    case GPUMEM_SOURCE_DEVICE:
      return gpu_buffer_new (worker->bench->context, GPU_MEMORY_FLAGS_NONE, size, &worker->error);
    case GPUMEM_SOURCE_MALLOC:
      return take_malloc (worker, size);
    default:
      return gpu_buffer_new_on_stream (worker->stream, GPU_MEMORY_FLAGS_NONE, size, &worker->error);
    }
}

static inline void
return_to_pool (Worker  *worker,
                gpointer memory)
{
  if (worker->source == GPUMEM_SOURCE_BLOCKS)
    gpu_memory_pool_free_block (worker->pool, memory, worker->stream, NULL);
  else if (worker->source == GPUMEM_SOURCE_MALLOC)
    free (memory);
  else
    g_object_unref (memory);
}

static inline gsize
choose_size (Worker *worker)
{
  const Workload *workload = worker->workload;

  return workload->smallest == workload->largest
         ? workload->smallest
         : workload->smallest +
           get_random (&worker->seed) % (workload->largest - workload->smallest + 1);
}

static gboolean
add (Worker *worker)
{
  gsize size = choose_size (worker);
  gpointer memory = take (worker, size);

  if (memory == NULL)
    return FALSE;
  g_ptr_array_add (worker->memories, memory);
  g_array_append_val (worker->sizes, size);
  worker->bytes += size;
  return TRUE;
}

static void
drop (Worker *worker,
      guint   i)
{
  worker->bytes -= g_array_index (worker->sizes, gsize, i);
  g_array_remove_index_fast (worker->sizes, i);
  return_to_pool (worker, g_ptr_array_steal_index_fast (worker->memories, i));
}

/* --- the patterns --------------------------------------------------------------------------- */

static gboolean
run_one (Worker  *worker,
         guint64  n)
{
  const gsize size = choose_size (worker);

  for (guint64 i = 0; i < n; i++)
    {
      gpointer memory = take (worker, size);

      if (memory == NULL)
        return FALSE;
      return_to_pool (worker, memory);
    }
  worker->n_pairs += n;
  return TRUE;
}

static gboolean
run_stack (Worker  *worker,
           guint64  n)
{
  for (guint64 done = 0; done < n; done += worker->workload->n_live)
    {
      for (guint i = 0; i < worker->workload->n_live; i++)
        if (!add (worker))
          return FALSE;
      for (guint i = worker->workload->n_live; i > 0; i--)
        drop (worker, i - 1);
      worker->n_pairs += worker->workload->n_live;
    }
  return TRUE;
}

static gboolean
run_random (Worker  *worker,
            guint64  n)
{
  const guint n_live = worker->workload->n_live;

  while (worker->memories->len < n_live)
    if (!add (worker))
      return FALSE;
  for (guint64 i = 0; i < n; i++)
    {
      gpointer *place = &g_ptr_array_index (worker->memories, get_random (&worker->seed) % n_live);
      gpointer memory;

      return_to_pool (worker, *place);
      memory = take (worker, choose_size (worker));
      *place = memory != NULL ? memory : g_ptr_array_index (worker->memories, n_live - 1);
      if (memory == NULL)
        {
          g_ptr_array_steal_index (worker->memories, n_live - 1);
          return FALSE;
        }
    }
  worker->n_pairs += n;
  return TRUE;
}

/* Each operation allocates a block with a probability of 73 %, and otherwise frees one. At
 * MAX_GROWN live bytes, it always frees a block. Two operations count as a pair. */
static gboolean
run_growing (Worker  *worker,
             guint64  n)
{
  for (guint64 i = 0; i < 2 * n; i++)
    {
      gboolean room = worker->bytes + worker->workload->largest <= MAX_GROWN;
      guint n_live = worker->memories->len;

      if (n_live == 0 || (room && get_random (&worker->seed) % 100 < 73))
        {
          if (!add (worker))
            return FALSE;
        }
      else
        drop (worker, get_random (&worker->seed) % n_live);
    }
  worker->n_pairs += n;
  return TRUE;
}

static gboolean
run_part (Worker  *worker,
          guint64  n)
{
  switch (worker->workload->pattern)
    {
    case PATTERN_ONE:
      return run_one (worker, n);
    case PATTERN_STACK:
      return run_stack (worker, n);
    case PATTERN_RANDOM:
      return run_random (worker, n);
    default:
      return run_growing (worker, n);
    }
}

/* Returns: %FALSE if an allocation failed, or if the run was cancelled */
static gboolean
run_pattern (Worker  *worker,
             guint64  n)
{
  for (guint64 done = 0; done < n; done += PART)
    if (!run_part (worker, MIN (n - done, PART)) ||
        g_cancellable_is_cancelled (worker->bench->cancellable))
      return FALSE;
  return TRUE;
}

/* --- rounds --------------------------------------------------------------------------- */

static int
compare (gconstpointer a,
         gconstpointer b)
{
  double one = *(const double *) a, other = *(const double *) b;

  return one < other ? -1 : one > other;
}

static guint64
get_managed (Worker *worker)
{
  g_autoptr (GVariant) statistics = NULL;
  guint64 managed = 0;

  if (worker->pool != NULL)
    {
      statistics = gpu_memory_pool_get_statistics (worker->pool);
      g_variant_lookup (statistics, "managed-bytes", "t", &managed);
    }
  return managed;
}

/* Runs rounds of @n pairs until the pool does not grow in a round. */
static gboolean
fill_pool (Worker  *worker,
           guint64  n)
{
  guint64 before = 0, managed = get_managed (worker);

  for (guint i = 0; i < MAX_GROWTH && managed > before; i++)
    {
      before = managed;
      if (!run_pattern (worker, n))
        return FALSE;
      managed = get_managed (worker);
    }
  return TRUE;
}

/* First doubles the number of pairs until they take as long as one round must take, and lets the
 * pool grow. Then measures the rounds, each with this number of pairs. */
static gboolean
run_rounds (Worker *worker)
{
  const double least = worker->bench->min_time * 1e9 / N_ROUNDS;
  double rounds[N_ROUNDS];
  guint64 n = MAX (16, WARM_UP * worker->workload->n_live);
  gint64 begin, time = 0;

  for (;; n *= 2)
    {
      begin = get_nanoseconds ();
      if (!run_pattern (worker, n))
        return FALSE;
      time = get_nanoseconds () - begin;
      if (time >= least)
        break;
    }
  if (!fill_pool (worker, n))
    return FALSE;
  for (guint i = 0; i < N_ROUNDS; i++)
    {
      worker->n_pairs = 0;
      begin = get_nanoseconds ();
      if (!run_pattern (worker, n))
        return FALSE;
      rounds[i] = (double) (get_nanoseconds () - begin) / worker->n_pairs;
    }
  qsort (rounds, N_ROUNDS, sizeof *rounds, compare);
  worker->times = (GpumemTimes) { rounds[N_ROUNDS / 2], rounds[0], rounds[N_ROUNDS - 1] };
  return TRUE;
}

static gpointer
work (gpointer data)
{
  Worker *worker = data;

  run_rounds (worker);
  for (guint i = 0; i < worker->memories->len; i++)
    return_to_pool (worker, g_ptr_array_index (worker->memories, i));
  g_ptr_array_set_size (worker->memories, 0);
  return NULL;
}

/* Allocates blocks, and frees every second one, so that a hole follows each block in @kept. Returns
 * FALSE if an allocation failed. */
static gboolean
make_holes (Worker    *worker,
            GPtrArray *kept)
{
  const guint n = worker->workload->n_holes;
  g_autoptr (GPtrArray) holes = g_ptr_array_new ();

  for (guint i = 0; i < 2 * n && worker->error == NULL; i++)
    {
      gpointer memory = take (worker, 512);

      if (memory != NULL)
        g_ptr_array_add (i % 2 == 0 ? kept : holes, memory);
    }
  for (guint i = 0; i < holes->len; i++)
    return_to_pool (worker, g_ptr_array_index (holes, i));
  return worker->error == NULL;
}

/* Waits for the stream. Until its work has completed, the next worker cannot use the memory that
 * was freed on the stream. */
static void
worker_clear (Worker *worker)
{
  if (worker->stream != NULL)
    gpu_stream_synchronize (worker->stream, NULL, NULL);
  g_clear_pointer (&worker->memories, g_ptr_array_unref);
  g_clear_pointer (&worker->sizes, g_array_unref);
  g_clear_object (&worker->stream);
  g_clear_error (&worker->error);
}

static gboolean
worker_init (Worker                *worker,
             const GpumemPoolBench *bench,
             const Workload        *workload,
             GpumemSource           source,
             GpuMemoryPool         *pool,
             guint                  number,
             GError               **error)
{
  *worker = (Worker) { .bench = bench, .workload = workload, .source = source, .pool = pool,
                       .seed = 88172645463325252 + number };
  worker->memories = g_ptr_array_new ();
  worker->sizes = g_array_new (FALSE, FALSE, sizeof (gsize));
  worker->stream = gpu_stream_new (bench->context, GPU_STREAM_FLAGS_NON_BLOCKING, error);
  return worker->stream != NULL;
}

/* Runs the first worker on the calling thread, and the other workers on new threads. Returns: the
 * means of the times of all workers */
static GpumemTimes
run_workers (Worker  *workers,
             guint    n,
             GError **error)
{
  g_autofree GThread **threads = g_new0 (GThread *, n);
  g_autoptr (GPtrArray) kept = g_ptr_array_new ();
  GpumemTimes mean = { 0 };

  if (make_holes (&workers[0], kept))
    {
      for (guint i = 1; i < n && *error == NULL; i++)
        threads[i] = g_thread_try_new ("pool", work, &workers[i], error);
      if (*error == NULL)
        work (&workers[0]);
      for (guint i = 1; i < n; i++)
        if (threads[i] != NULL)
          g_thread_join (threads[i]);
    }
  for (guint i = 0; i < kept->len; i++)
    return_to_pool (&workers[0], g_ptr_array_index (kept, i));
  for (guint i = 0; i < n; i++)
    {
      mean.median += workers[i].times.median / n;
      mean.least += workers[i].times.least / n;
      mean.most += workers[i].times.most / n;
      if (workers[i].error != NULL && *error == NULL)
        *error = g_steal_pointer (&workers[i].error);
    }
  return mean;
}

static GpumemTimes
measure_here (const GpumemPoolBench *bench,
              const Workload        *workload,
              GpumemSource           source,
              guint                  n_threads,
              GError               **error)
{
  g_autofree Worker *workers = g_new0 (Worker, n_threads);
  g_autoptr (GpuMemoryPool) pool = NULL;
  gboolean ready = TRUE;
  GpumemTimes times = { 0 };

  if (source == GPUMEM_SOURCE_BLOCKS || source == GPUMEM_SOURCE_BUFFERS)
    {
      pool = gpu_memory_pool_new (bench->context, bench->kind, GPU_MEMORY_FLAGS_NONE, error);
      if (pool == NULL)
        return times;
    }
  for (guint i = 0; i < n_threads && ready; i++)
    ready = worker_init (&workers[i], bench, workload, source, pool, i, error);
  if (ready)
    times = run_workers (workers, n_threads, error);
  for (guint i = 0; i < n_threads; i++)
    worker_clear (&workers[i]);
  return *error == NULL ? times : (GpumemTimes) { 0 };
}

static GpumemTimes
measure (const GpumemPoolBench *bench,
         const Workload        *workload,
         GpumemSource           source,
         guint                  n_threads,
         GError               **error)
{
  if (source > GPUMEM_SOURCE_MALLOC)
    return gpumem_pool_bench_measure_malloc (bench, source, workload - workloads, n_threads, error);
  return measure_here (bench, workload, source, n_threads, error);
}

GpumemTimes
gpumem_pool_bench_measure (GpumemPoolBench  *bench,
                           guint             workload,
                           GError          **error)
{
  return measure_here (bench, &workloads[MIN (workload, G_N_ELEMENTS (workloads) - 1)],
                       GPUMEM_SOURCE_MALLOC, bench->n_threads, error);
}

/* --- the table ------------------------------------------------------------------------ */

static void G_GNUC_PRINTF (2, 3)
omit (GpumemPoolBench *bench,
      const char      *format,
      ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_ptr_array_add (bench->omissions, g_strdup_vprintf (format, arguments));
  va_end (arguments);
}

static gboolean
is_measured (const GpumemPoolBench *bench,
             const Workload        *workload,
             GpumemSource           source,
             guint                  n_threads)
{
  switch (source)
    {
    case GPUMEM_SOURCE_BLOCKS:
      return bench->has_blocks;
    case GPUMEM_SOURCE_BUFFERS:
      return workload->n_holes == 0;
    case GPUMEM_SOURCE_MALLOC:
    case GPUMEM_SOURCE_JEMALLOC:
    case GPUMEM_SOURCE_MIMALLOC:
      return g_str_equal (gpu_device_get_backend (bench->device), "host") &&
             workload->n_holes == 0 && !bench->lacks[source];
    case GPUMEM_SOURCE_STREAM:
      if ((gpu_device_get_capabilities (bench->device) & GPU_CAPABILITIES_STREAM_ORDERED) == 0)
        return FALSE;
      G_GNUC_FALLTHROUGH;
    default:
      return workload->n_holes == 0 && workload->n_live <= MAX_OWN_LIVE && n_threads == 1;
    }
}

static void
run_line (GpumemPoolBench *bench,
          const Workload  *workload,
          guint            n_threads)
{
  GpumemLatency *latency = g_new0 (GpumemLatency, 1);
  gboolean any = FALSE;

  latency->workload = g_strdup (workload->name);
  latency->n_threads = n_threads;
  for (guint source = 0; source < GPUMEM_N_SOURCES; source++)
    {
      g_autoptr (GError) error = NULL;

      if (!is_measured (bench, workload, source, n_threads) ||
          g_cancellable_is_cancelled (bench->cancellable))
        continue;
      latency->times[source] = measure (bench, workload, source, n_threads, &error);
      any |= latency->times[source].median > 0;
      if (error == NULL || g_cancellable_is_cancelled (bench->cancellable))
        continue;
      bench->lacks[source] = g_error_matches (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED);
      if (bench->lacks[source])
        {
          omit (bench, "%s: %s", source_names[source], error->message);
          continue;
        }
      omit (bench, "%s, %u thread%s, %s: %s", workload->name, n_threads, n_threads == 1 ? "" : "s",
            source_names[source], error->message);
      bench->failed |= !g_error_matches (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY);
    }
  if (any)
    g_ptr_array_add (bench->latencies, latency);
  else
    {
      g_free (latency->workload);
      g_free (latency);
    }
}

gboolean
gpumem_latency_get_ratio (const GpumemLatency *latency,
                          GpumemTimes         *ratio)
{
  const GpumemTimes *all = latency->times;
  const GpumemTimes *ours = all[GPUMEM_SOURCE_BLOCKS].median > 0 ? &all[GPUMEM_SOURCE_BLOCKS]
                                                                 : &all[GPUMEM_SOURCE_BUFFERS];
  const GpumemTimes *theirs = &all[GPUMEM_SOURCE_DEVICE];
  const GpumemTimes *on_stream = &all[GPUMEM_SOURCE_STREAM];

  if (on_stream->median > 0 && on_stream->median < theirs->median)
    theirs = on_stream;
  if (ours->median <= 0 || theirs->median <= 0)
    return FALSE;
  *ratio = (GpumemTimes) { theirs->median / ours->median, theirs->least / ours->most,
                           theirs->most / ours->least };
  return TRUE;
}

static void
latency_free (gpointer data)
{
  GpumemLatency *latency = data;

  g_free (latency->workload);
  g_free (latency);
}

gboolean
gpumem_pool_bench_open (GpumemPoolBench  *bench,
                        GError          **error)
{
  g_autoptr (GpuMemoryPool) pool = NULL;

  bench->latencies = g_ptr_array_new_with_free_func (latency_free);
  bench->omissions = g_ptr_array_new_with_free_func (g_free);
  bench->context = gpu_context_new (bench->device, GPU_CONTEXT_FLAGS_NONE, error);
  if (bench->context == NULL)
    return FALSE;
  pool = gpu_memory_pool_new (bench->context, bench->kind, GPU_MEMORY_FLAGS_NONE, error);
  if (pool == NULL)
    return FALSE;
  g_object_get (pool, "kind", &bench->kind, NULL);
  bench->has_blocks = gpumem_pool_has_blocks (pool);
  bench->progress = gpumem_progress_new (2 * G_N_ELEMENTS (workloads));
  if (!bench->has_blocks)
    omit (bench,
          "workloads with blocks and holes: a pool of kind %s on this device has only buffers",
          gpumem_pool_kind_get_name (bench->kind));
  return TRUE;
}

/* Returns: %FALSE if the run was cancelled */
gboolean
gpumem_pool_bench_run (GpumemPoolBench *bench)
{
  for (guint i = 0; i < G_N_ELEMENTS (workloads); i++)
    {
      const Workload *workload = &workloads[i];

      if (workload->n_holes > 0 && !bench->has_blocks)
        continue;
      if (workload->n_holes >= SLOW && !bench->slow)
        {
          omit (bench, "%s: only with --slow", workload->name);
          continue;
        }
      gpumem_progress_begin (bench->progress, "%s", workload->name);
      run_line (bench, workload, 1);
      if (bench->n_threads == 1 || workload->n_holes > 0)
        {
          gpumem_progress_skip (bench->progress, 1);
          continue;
        }
      gpumem_progress_begin (bench->progress, "%s, %u threads", workload->name, bench->n_threads);
      run_line (bench, workload, bench->n_threads);
    }
  return !g_cancellable_is_cancelled (bench->cancellable);
}

void
gpumem_pool_bench_clear (GpumemPoolBench *bench)
{
  g_clear_object (&bench->context);
  g_clear_object (&bench->device);
  g_clear_pointer (&bench->progress, gpumem_progress_free);
  g_clear_pointer (&bench->latencies, g_ptr_array_unref);
  g_clear_pointer (&bench->omissions, g_ptr_array_unref);
}

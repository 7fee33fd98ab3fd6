/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Several threads, each with a stream, allocate and free memory of one small pool, so that memory
 * moves between the streams. Pending kernels fill and verify every word of the memory. */
#include "config.h"

#include "test-pool-util.h"

#define N_STREAMS 4
#define N_ITEMS   256               /* few, so that work stays pending */
#define MAX_WORDS (256 * 1024)
/* The limit of the pool in bytes: so small that a large request must take memory of other streams
 * or wait for them. */
#define LIMIT     (4 * MAX_WORDS * 4)
#define QUEUE     16                /* operations between waits for the stream, on average */

/* Size in bytes of two counters: the number of wrong words, and the number of checked words. */
#define COUNTS_SIZE (2 * sizeof (guint32))

static const char source[] =
  "#define WORD(seed, i) (((seed) ^ (i)) * 2654435761u)\n"
  "#ifdef BY_ADDRESS\n"
  "#define ARGUMENT const ulong address\n"
  "#define WORDS __global uint *words = (__global uint *) address\n"
  "#else\n"
  "#define ARGUMENT __global uint *words\n"
  "#define WORDS\n"
  "#endif\n"
  "__kernel void fill (ARGUMENT, const uint n, const uint seed)\n"
  "{\n"
  "  WORDS;\n"
  "  for (uint i = (uint) get_global_id (0); i < n; i += (uint) get_global_size (0))\n"
  "    words[i] = WORD (seed, i);\n"
  "}\n"
  "__kernel void check (ARGUMENT, const uint n, const uint seed,\n"
  "                     volatile __global uint *counts)\n"
  "{\n"
  "  uint n_wrong = 0, n_seen = 0;\n"
  "  WORDS;\n"
  "  for (uint i = (uint) get_global_id (0); i < n; i += (uint) get_global_size (0))\n"
  "    {\n"
  "      n_wrong += words[i] != WORD (seed, i);\n"
  "      n_seen++;\n"
  "    }\n"
  "  if (n_wrong > 0)\n"
  "    atomic_add (&counts[0], n_wrong);\n"
  "  if (n_seen > 0)\n"
  "    atomic_add (&counts[1], n_seen);\n"
  "}\n";

typedef struct
{
  GpuKernel *fill, *check;
  gboolean   by_address;
} Kernels;

typedef struct
{
  const Kernels *kernels;
  GpuMemoryPool *pool;
  GpuStream     *stream;
  GpuBuffer     *counts;
  guint          n_operations;
  guint          n_refused;
  guint32        number;            /* number of this thread */
  guint32        n_words;
} Worker;

static const GpuExtent grid = { N_ITEMS, 1, 1 };

static void
kernels_init (Kernels *kernels, TestFixture *fixture, gboolean by_address)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program =
    gpu_program_new_from_source (fixture->context, source, by_address ? "-DBY_ADDRESS" : NULL,
                                 &error);

  g_assert_no_error (error);
  kernels->by_address = by_address;
  kernels->fill = gpu_program_get_kernel (program, "fill", &error);
  g_assert_no_error (error);
  kernels->check = gpu_program_get_kernel (program, "check", &error);
  g_assert_no_error (error);
}

static void
kernels_clear (Kernels *kernels)
{
  g_clear_object (&kernels->fill);
  g_clear_object (&kernels->check);
}

/* --- one operation -------------------------------------------------------------------- */

/* Retries, because an allocation may fail while other threads hold too much memory, which they free
 * soon. */
static gpointer
take (Worker *worker, gsize size)
{
  gint64 deadline = g_get_monotonic_time () + TEST_DEADLINE * G_USEC_PER_SEC;

  for (;;)
    {
      g_autoptr (GError) error = NULL;
      gpointer memory = worker->kernels->by_address
        ? (gpointer) gpu_memory_pool_alloc_block (worker->pool, size, worker->stream, &error)
        : (gpointer) gpu_memory_pool_alloc_buffer (worker->pool, size, worker->stream, &error);

      if (memory != NULL)
        return memory;
      g_assert_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY);
      g_assert_cmpint (g_get_monotonic_time (), <, deadline);
      worker->n_refused++;
      g_thread_yield ();
    }
}

static void
use_block (Worker *worker, guint32 n, guint32 seed)
{
  g_autoptr (GError) error = NULL;
  GpuMemoryBlock *block = take (worker, n * 4);
  guint64 address = gpu_memory_block_get_address (block);

  test_assert_ok (gpu_stream_launch (worker->stream, worker->kernels->fill, &grid, NULL, &error,
                                     address, n, seed), error);
  test_assert_ok (gpu_stream_launch (worker->stream, worker->kernels->check, &grid, NULL, &error,
                                     address, n, seed, worker->counts), error);
  gpu_memory_pool_free_block (worker->pool, block, worker->stream, NULL);
}

static void
use_buffer (Worker *worker, guint32 n, guint32 seed)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) buffer = take (worker, n * 4);

  test_assert_ok (gpu_stream_launch (worker->stream, worker->kernels->fill, &grid, NULL, &error,
                                     buffer, n, seed), error);
  test_assert_ok (gpu_stream_launch (worker->stream, worker->kernels->check, &grid, NULL, &error,
                                     buffer, n, seed, worker->counts), error);
}

/* Small sizes are as frequent as large sizes. */
static guint32
choose_words (GRand *rand)
{
  guint32 most = MAX_WORDS >> g_rand_int_range (rand, 0, 10);

  return g_rand_int_range (rand, most / 2, most) + 1;
}

static gpointer
work (gpointer data)
{
  Worker *worker = data;
  g_autoptr (GRand) rand = g_rand_new_with_seed (worker->number);

  for (guint i = 0; i < worker->n_operations; i++)
    {
      guint32 n = choose_words (rand);
      guint32 seed = worker->number << 28 ^ i * 40503;

      if (worker->kernels->by_address)
        use_block (worker, n, seed);
      else
        use_buffer (worker, n, seed);
      worker->n_words += n;
      if (g_rand_int_range (rand, 0, QUEUE) == 0)
        test_synchronize (worker->stream);
    }

  test_synchronize (worker->stream);
  return NULL;
}

/* --- all streams --------------------------------------------------------------------- */

static void
assert_counts (GpuBuffer *counts, guint32 n_wrong, guint32 n_seen)
{
  g_autoptr (GBytes) content = test_content (counts);
  const guint32 *got = g_bytes_get_data (content, NULL);

  g_assert_cmpuint (got[0], ==, n_wrong);
  g_assert_cmpuint (got[1], ==, n_seen);
}

/* Returns the number of refused allocations. */
static guint
run_streams (TestFixture *fixture, GpuMemoryPool *pool, const Kernels *kernels, guint n_operations)
{
  guint n_refused = 0;
  Worker workers[N_STREAMS];
  GThread *threads[N_STREAMS];

  for (guint i = 0; i < N_STREAMS; i++)
    workers[i] = (Worker) {
      .kernels = kernels, .pool = pool, .n_operations = n_operations / N_STREAMS, .number = i,
      .stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING),
      .counts = test_buffer_filled (fixture, COUNTS_SIZE, 0)
    };
  for (guint i = 0; i < N_STREAMS; i++)
    threads[i] = g_thread_new ("test-streams", work, &workers[i]);
  for (guint i = 0; i < N_STREAMS; i++)
    g_thread_join (threads[i]);
  for (guint i = 0; i < N_STREAMS; i++)
    {
      assert_counts (workers[i].counts, 0, workers[i].n_words);
      g_object_unref (workers[i].counts);
      g_object_unref (workers[i].stream);
      n_refused += workers[i].n_refused;
    }

  return n_refused;
}

static void
check_pool (TestFixture *fixture, GpuMemoryPoolKind kind, gboolean by_address)
{
  static const char *const names[] = { "automatic", "expandable", "segments", "bins" };
  const guint n_operations = g_test_slow () ? 1000000 : 1000;
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new (fixture->context, kind,
                                                        GPU_MEMORY_FLAGS_NONE,
                                                        &error);
  gint64 begin = g_get_monotonic_time ();
  Kernels kernels;
  guint n_refused;

  g_assert_no_error (error);
  gpu_memory_pool_set_limit (pool, LIMIT);
  kernels_init (&kernels, fixture, by_address);
  n_refused = run_streams (fixture, pool, &kernels, n_operations);
  kernels_clear (&kernels);

  g_test_message ("%s, %s: %u operations in %.1f s, %" G_GUINT64_FORMAT " steals, %"
                  G_GUINT64_FORMAT " waits, %u refused, at most %" G_GUINT64_FORMAT " bytes",
                  names[kind], by_address ? "blocks" : "buffers", n_operations,
                  (g_get_monotonic_time () - begin) / 1e6, test_pool_get_figure (pool, "n-steals"),
                  test_pool_get_figure (pool, "n-waits"), n_refused,
                  test_pool_get_figure (pool, "peak-managed-bytes"));
  g_assert_cmpuint (test_pool_get_figure (pool, "n-steals"), >, 0);
  g_assert_cmpuint (test_pool_get_figure (pool, "n-waits"), >, 0);
  g_assert_cmpuint (test_pool_get_figure (pool, "n-allocs"), ==, n_operations);
  g_assert_cmpuint (test_pool_get_figure (pool, "n-frees"), ==, n_operations);
  g_assert_cmpuint (test_pool_get_figure (pool, "active-bytes"), ==, 0);
  g_assert_cmpuint (test_pool_get_figure (pool, "peak-managed-bytes"), <=, LIMIT);
}

/* Skips the test if the device does not support this kind of pool, or if the test needs addresses
 * and the pool's memory has none. */
static gboolean
has_pool (TestFixture *fixture, GpuMemoryPoolKind kind, gboolean by_address)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuMemoryPool) pool = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SOURCE | GPU_CAPABILITIES_ARGUMENT_INFO))
    return FALSE;
  pool = gpu_memory_pool_new (fixture->context, kind, GPU_MEMORY_FLAGS_NONE, &error);
  if (pool != NULL && by_address)
    gpu_memory_pool_alloc_block (pool, 0, NULL, &error);
  if (error == NULL)
    return TRUE;
  g_assert_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED);
  g_test_skip (error->message);
  return FALSE;
}

static void
run_kind (TestFixture *fixture, GpuMemoryPoolKind kind, gboolean by_address)
{
  if (has_pool (fixture, kind, by_address))
    check_pool (fixture, kind, by_address);
}

#define TEST_KIND(name, kind, by_address) \
  static void \
  name (TestFixture *fixture) \
  { \
    run_kind (fixture, GPU_MEMORY_POOL_ ## kind, by_address); \
  }

TEST_KIND (expandable_blocks, EXPANDABLE, TRUE)
TEST_KIND (expandable_buffers, EXPANDABLE, FALSE)
TEST_KIND (segments_blocks, SEGMENTS, TRUE)
TEST_KIND (segments_buffers, SEGMENTS, FALSE)
TEST_KIND (bins_buffers, BINS, FALSE)

/* --- one block ------------------------------------------------------------------------ */

#define N_SHARERS    2
#define N_ROUNDS     15
#define SHARED_WORDS (3 * 256 * 1024)
#define SHARED_LIMIT (4 << 20)      /* no room for a second block */

typedef struct
{
  const Kernels  *kernels;
  GpuMemoryBlock *block;            /* holds a reference */
  GpuStream      *stream;
  GpuEvent       *filled;
  GpuBuffer      *counts;
  guint32         seed;
} Sharer;

static gpointer
run_sharer (gpointer data)
{
  Sharer *sharer = data;
  g_autoptr (GError) error = NULL;
  const guint32 n = SHARED_WORDS;
  guint64 address = gpu_memory_block_get_address (sharer->block);

  test_assert_ok (gpu_stream_wait_event (sharer->stream, sharer->filled, &error), error);
  test_assert_ok (gpu_memory_block_add_stream (sharer->block, sharer->stream, &error), error);
  test_assert_ok (gpu_stream_launch (sharer->stream, sharer->kernels->check, &grid, NULL, &error,
                                     address, n, sharer->seed, sharer->counts), error);
  gpu_memory_block_unref (sharer->block);
  return NULL;
}

static void
fill_block (const Kernels *kernels, GpuStream *stream, GpuMemoryBlock *block, guint32 seed)
{
  g_autoptr (GError) error = NULL;
  const guint32 n = SHARED_WORDS;
  guint64 address = gpu_memory_block_get_address (block);

  test_assert_ok (gpu_stream_launch (stream, kernels->fill, &grid, NULL, &error, address, n, seed),
                  error);
}

static GpuMemoryBlock *
take_block (GpuMemoryPool *pool, GpuStream *stream)
{
  g_autoptr (GError) error = NULL;
  GpuMemoryBlock *block = gpu_memory_pool_alloc_block (pool, 4 * SHARED_WORDS, stream, &error);

  g_assert_no_error (error);
  return block;
}

/* Two threads read the block on their own streams. At the same time, a third thread frees the
 * block. The next owner must write the block only after both reads. */
static void
share_block (GpuMemoryPool *pool, GpuStream **streams, Sharer *sharers, guint32 seed)
{
  const Kernels *kernels = sharers[0].kernels;
  GpuMemoryBlock *block = take_block (pool, streams[0]);
  guint64 address = gpu_memory_block_get_address (block);
  g_autoptr (GpuEvent) filled = NULL;
  GThread *threads[N_SHARERS];

  fill_block (kernels, streams[0], block, seed);
  filled = test_record (streams[0]);
  for (guint i = 0; i < N_SHARERS; i++)
    {
      sharers[i].block = gpu_memory_block_ref (block);
      sharers[i].filled = filled;
      sharers[i].seed = seed;
      threads[i] = g_thread_new ("test-sharer", run_sharer, &sharers[i]);
    }
  gpu_memory_pool_free_block (pool, block, streams[0], NULL);
  for (guint i = 0; i < N_SHARERS; i++)
    g_thread_join (threads[i]);

  block = take_block (pool, streams[1]);
  g_assert_cmpuint (gpu_memory_block_get_address (block), ==, address);
  fill_block (kernels, streams[1], block, ~seed);
  gpu_memory_pool_free_block (pool, block, streams[1], NULL);
}

static void
check_shared (TestFixture *fixture, GpuMemoryPoolKind kind)
{
  g_autoptr (GpuMemoryPool) pool = NULL;
  GpuStream *streams[2 + N_SHARERS];
  Sharer sharers[N_SHARERS];
  Kernels kernels;

  if (!has_pool (fixture, kind, TRUE))
    return;
  pool = test_pool (fixture, kind);
  gpu_memory_pool_set_limit (pool, SHARED_LIMIT);
  kernels_init (&kernels, fixture, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (streams); i++)
    streams[i] = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  for (guint i = 0; i < N_SHARERS; i++)
    sharers[i] = (Sharer) { .kernels = &kernels, .stream = streams[2 + i],
                            .counts = test_buffer_filled (fixture, COUNTS_SIZE, 0) };

  for (guint i = 0; i < N_ROUNDS; i++)
    share_block (pool, streams, sharers, i * 40503);

  for (guint i = 0; i < N_SHARERS; i++)
    {
      assert_counts (sharers[i].counts, 0, N_ROUNDS * SHARED_WORDS);
      g_object_unref (sharers[i].counts);
    }
  for (guint i = 0; i < G_N_ELEMENTS (streams); i++)
    g_object_unref (streams[i]);
  kernels_clear (&kernels);
  g_assert_cmpuint (test_pool_get_figure (pool, "active-blocks"), ==, 0);
}

static void
expandable_shared (TestFixture *fixture)
{
  check_shared (fixture, GPU_MEMORY_POOL_EXPANDABLE);
}

static void
segments_shared (TestFixture *fixture)
{
  check_shared (fixture, GPU_MEMORY_POOL_SEGMENTS);
}

/* --- memory of other streams ------------------------------------------------------------ */

#define N_HOLES    3
#define HOLE_WORDS (1024 * 1024)

static void
use_words (Worker *worker, GpuBuffer *buffer, guint32 n, guint32 seed)
{
  g_autoptr (GError) error = NULL;

  test_assert_ok (gpu_stream_launch (worker->stream, worker->kernels->fill, &grid, NULL, &error,
                                     buffer, n, seed), error);
  test_assert_ok (gpu_stream_launch (worker->stream, worker->kernels->check, &grid, NULL, &error,
                                     buffer, n, seed, worker->counts), error);
  worker->n_words += n;
}

/* Allocates buffers on the first stream, and frees every second one. With @is_shared, the work of
 * both streams on these is pending. */
static void
make_holes (Worker *workers, gboolean is_shared, GpuBuffer **kept)
{
  GpuBuffer *holes[N_HOLES];

  for (guint i = 0; i < N_HOLES; i++)
    {
      holes[i] = take (&workers[0], HOLE_WORDS * 4);
      kept[i] = take (&workers[0], HOLE_WORDS * 4);
    }
  for (guint i = 0; i < N_HOLES; i++)
    {
      use_words (&workers[0], holes[i], HOLE_WORDS, i);
      use_words (&workers[0], kept[i], HOLE_WORDS, ~i);
      if (is_shared)
        use_words (&workers[1], holes[i], HOLE_WORDS, 7 * i);
      g_object_unref (holes[i]);
    }
}

/* The last stream gets memory that pending work of other streams uses, without a wait of the host,
 * and uses the memory after that work. */
static void
check_taken_over (TestFixture *fixture, const Kernels *kernels, gboolean is_shared)
{
  g_autoptr (GpuMemoryPool) pool = test_pool (fixture, GPU_MEMORY_POOL_EXPANDABLE);
  g_autoptr (GError) error = NULL;
  g_autoptr (TestHold) hold = NULL;
  g_autoptr (GpuBuffer) large = NULL;
  GpuBuffer *kept[N_HOLES];
  Worker workers[3];
  guint64 managed;

  for (guint i = 0; i < G_N_ELEMENTS (workers); i++)
    workers[i] = (Worker) { .kernels = kernels, .pool = pool,
                            .stream = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING),
                            .counts = test_buffer_filled (fixture, COUNTS_SIZE, 0) };
  hold = test_hold (workers[0].stream);
  make_holes (workers, is_shared, kept);
  managed = test_pool_get_figure (pool, "managed-bytes");
  large = take (&workers[2], N_HOLES * HOLE_WORDS * 4);
  g_assert_cmpuint (test_pool_get_figure (pool, "managed-bytes"), <, managed + 4 * HOLE_WORDS);
  g_assert_cmpuint (test_pool_get_figure (pool, "n-waits"), >, 0);
  use_words (&workers[2], large, N_HOLES * HOLE_WORDS, 99);

  test_hold_release (hold);
  for (guint i = 0; i < N_HOLES; i++)
    {
      test_assert_ok (gpu_stream_launch (workers[2].stream, kernels->check, &grid, NULL, &error,
                                         kept[i], HOLE_WORDS, ~i, workers[2].counts), error);
      workers[2].n_words += HOLE_WORDS;
      g_object_unref (kept[i]);
    }
  for (guint i = 0; i < G_N_ELEMENTS (workers); i++)
    {
      assert_counts (workers[i].counts, 0, workers[i].n_words);
      g_object_unref (workers[i].counts);
      g_object_unref (workers[i].stream);
    }
}

static void
expandable_taken_over (TestFixture *fixture)
{
  Kernels kernels;

  if (!has_pool (fixture, GPU_MEMORY_POOL_EXPANDABLE, FALSE) || !test_can_hold (fixture))
    return;
  kernels_init (&kernels, fixture, FALSE);
  check_taken_over (fixture, &kernels, FALSE);
  check_taken_over (fixture, &kernels, TRUE);
  kernels_clear (&kernels);
}

/* The check kernel detects wrong words. */
static void
wrong_words (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuBuffer) words = NULL;
  g_autoptr (GpuBuffer) counts = NULL;
  const guint8 value = 0x77;
  const guint32 n = 5000, seed = 3;
  Kernels kernels;

  if (!has_pool (fixture, GPU_MEMORY_POOL_SEGMENTS, FALSE))
    return;
  kernels_init (&kernels, fixture, FALSE);
  words = test_buffer (fixture, n * 4);
  counts = test_buffer_filled (fixture, COUNTS_SIZE, 0);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernels.fill, &grid, NULL, &error, words, n,
                                     seed), error);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (words), 4 * 4999, 1, &value, 1,
                                   &error), error);
  test_assert_ok (gpu_stream_fill (fixture->stream, GPU_MEMORY (words), 4 * 1000, 8, &value, 1,
                                   &error), error);
  test_assert_ok (gpu_stream_launch (fixture->stream, kernels.check, &grid, NULL, &error, words, n,
                                     seed, counts), error);
  assert_counts (counts, 3, n);
  kernels_clear (&kernels);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("wrong-words", wrong_words);
  test_add ("expandable/blocks", expandable_blocks);
  test_add ("expandable/buffers", expandable_buffers);
  test_add ("segments/blocks", segments_blocks);
  test_add ("segments/buffers", segments_buffers);
  test_add ("expandable/shared", expandable_shared);
  test_add ("segments/shared", segments_shared);
  test_add ("bins/buffers", bins_buffers);
  test_add ("expandable/taken-over", expandable_taken_over);

  return test_run ();
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pools at their limit. The tests repeatedly fill a pool until an allocation fails; the pool must
 * lose no memory and must count correctly. Other tests check how many allocations succeed if the
 * limit is little more than the live memory. */
#include "config.h"

#include "test-pool-util.h"

#ifdef HAVE_CUDA
#include "cuda-driver/cuda-driver.h"
#endif

#define MIB       ((guint64) 1 << 20)
#define LIMIT     (32 * MIB)
#define MAX_SIZE  (LIMIT / 16)
#define N_STREAMS 2

static const char *const kind_names[] = { "automatic", "expandable", "segments", "bins" };

typedef struct
{
  gpointer memory;
  guint64  address;                 /* of a block */
  gsize    size;
  guint8   value;                   /* of each byte of a buffer */
} Piece;

typedef struct
{
  GpuMemoryPool *pool;
  GpuStream     *streams[N_STREAMS];
  GRand         *rand;
  GArray        *pieces;            /* of Piece */
  gboolean       blocks, check;     /* settings of this round */
  guint64        bytes;             /* of all pieces */
  guint64        n_allocs;
} Filler;

/* The pool has no blocks if the driver reports no addresses. */
static gboolean
has_blocks (GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;

  gpu_memory_pool_alloc_block (pool, 0, NULL, &error);
  return error == NULL;
}

/* Counts the live objects of the stand-in for the CUDA driver. Returns 0 with a real driver. */
static guint
count_of_driver (void)
{
#ifdef HAVE_CUDA
  static const char *const kinds[] = { "device memory", "pooled memory", "mapped memory",
                                       "reserved addresses", "allocation handle" };
  guint n = 0;

  if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_get_live") != NULL)
    for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
      n += GPUMEM_CUDA_DRIVER (get_live) (kinds[i]);
  return n;
#else
  return 0;
#endif
}

/* --- filling and emptying a pool ----------------------------------------------------- */

static GpuStream *
choose_stream (Filler *filler)
{
  return filler->streams[g_rand_int_range (filler->rand, 0, N_STREAMS)];
}

static gsize
choose_size (GRand *rand)
{
  gsize most = MAX_SIZE >> g_rand_int_range (rand, 0, 12);

  return 1 + g_rand_int (rand) % most;
}

/* Returns FALSE if the pool is out of memory. */
static gboolean
add_piece (Filler *filler)
{
  g_autoptr (GError) error = NULL;
  GpuStream *stream = choose_stream (filler);
  Piece piece = { .size = choose_size (filler->rand), .value = g_rand_int (filler->rand) };

  if (filler->blocks)
    piece.memory = gpu_memory_pool_alloc_block (filler->pool, piece.size, stream, &error);
  else
    piece.memory = gpu_memory_pool_alloc_buffer (filler->pool, piece.size, stream, &error);
  if (piece.memory == NULL)
    {
      test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY);
      return FALSE;
    }
  if (filler->blocks)
    piece.address = gpu_memory_block_get_address (piece.memory);
  else
    test_assert_ok (gpu_stream_fill (stream, piece.memory, 0,
                                     filler->check ? piece.size : MIN (piece.size, 64),
                                     &piece.value, 1, &error), error);
  g_array_append_val (filler->pieces, piece);
  filler->bytes += piece.size;
  filler->n_allocs++;
  return TRUE;
}

static int
compare_pieces (gconstpointer a, gconstpointer b)
{
  const Piece *one = a, *other = b;

  return one->address < other->address ? -1 : one->address > other->address;
}

/* Checks that blocks do not overlap, and that buffers keep their content. */
static void
check_pieces (Filler *filler)
{
  if (filler->blocks)
    g_array_sort (filler->pieces, compare_pieces);
  for (guint i = 0; i < filler->pieces->len; i++)
    {
      const Piece *piece = &g_array_index (filler->pieces, Piece, i);

      if (!filler->blocks)
        {
          g_autoptr (GBytes) content = test_content (piece->memory);

          test_assert_value (g_bytes_get_data (content, NULL), piece->value, piece->size);
        }
      else if (i > 0)
        g_assert_cmpuint (piece[-1].address + piece[-1].size, <=, piece->address);
    }
}

static void
drop_pieces (Filler *filler)
{
  while (filler->pieces->len > 0)
    {
      guint i = g_rand_int_range (filler->rand, 0, filler->pieces->len);
      const Piece *piece = &g_array_index (filler->pieces, Piece, i);

      if (filler->blocks)
        gpu_memory_pool_free_block (filler->pool, piece->memory, choose_stream (filler), NULL);
      else
        g_object_unref (piece->memory);
      g_array_remove_index_fast (filler->pieces, i);
    }
  filler->bytes = 0;
}

/* Fills the pool until it refuses a request, and then frees everything, @n_rounds times. Returns
 * the average share of the limit that is in use when the pool refuses a request. */
static double
fill_and_empty (Filler *filler, guint n_rounds)
{
  const gboolean both = has_blocks (filler->pool);
  double sum = 0;

  for (guint i = 0; i < n_rounds; i++)
    {
      filler->blocks = both && i % 2 == 0;
      filler->check = filler->blocks || i % 20 == 1;
      while (add_piece (filler))
        ;
      g_assert_cmpuint (test_pool_get_figure (filler->pool, "active-bytes"), ==, filler->bytes);
      g_assert_cmpuint (test_pool_get_figure (filler->pool, "active-blocks"), ==,
                        filler->pieces->len);
      sum += (double) filler->bytes / LIMIT;
      if (filler->check)
        check_pieces (filler);
      drop_pieces (filler);
    }
  return sum / n_rounds;
}

static void
check_figures (Filler *filler, guint n_rounds, guint64 allocated)
{
  GpuMemoryPool *pool = filler->pool;

  g_assert_cmpuint (test_pool_get_figure (pool, "active-blocks"), ==, 0);
  g_assert_cmpuint (test_pool_get_figure (pool, "active-bytes"), ==, 0);
  g_assert_cmpuint (test_pool_get_figure (pool, "used-bytes"), ==, 0);
  g_assert_cmpuint (test_pool_get_figure (pool, "n-allocs"), ==, filler->n_allocs);
  g_assert_cmpuint (test_pool_get_figure (pool, "n-frees"), ==, filler->n_allocs);
  g_assert_cmpuint (test_pool_get_figure (pool, "n-refused"), ==, n_rounds);
  g_assert_cmpuint (test_pool_get_figure (pool, "peak-managed-bytes"), <=, LIMIT);
  g_assert_cmpuint (test_pool_get_figure (pool, "managed-bytes"), >, 0);
  g_assert_cmpuint (test_pool_get_figure (pool, "managed-bytes"), ==, allocated);
}

static void
check_full (TestFixture *fixture, GpuMemoryPoolKind kind)
{
  const guint n_rounds = g_test_slow () ? 10000 : 100;
  const guint64 before = gpu_context_get_allocated_size (fixture->context);
  const guint n_before = count_of_driver ();
  g_autoptr (GRand) rand = g_rand_new_with_seed (kind);
  g_autoptr (GArray) pieces = g_array_new (FALSE, FALSE, sizeof (Piece));
  Filler filler = { .pool = test_pool (fixture, kind), .rand = rand, .pieces = pieces };
  double part;

  if (filler.pool == NULL)
    {
      g_test_skip ("the device has no such pools");
      return;
    }
  for (guint i = 0; i < N_STREAMS; i++)
    filler.streams[i] = test_stream (fixture, GPU_STREAM_FLAGS_NON_BLOCKING);
  gpu_memory_pool_set_limit (filler.pool, LIMIT);
  part = fill_and_empty (&filler, n_rounds);
  g_test_message ("%s: %u times full, with %.4f of the limit in use", kind_names[kind], n_rounds,
                  part);
  g_assert_cmpfloat (part, >, 0.5);
  check_figures (&filler, n_rounds, gpu_context_get_allocated_size (fixture->context) - before);

  for (guint i = 0; i < N_STREAMS; i++)
    test_synchronize (filler.streams[i]);
  gpu_memory_pool_stop_holding (filler.pool);
  g_assert_cmpuint (test_pool_get_figure (filler.pool, "managed-bytes"), ==, 0);
  g_assert_cmpuint (test_pool_get_figure (filler.pool, "held-blocks"), ==, 0);
  g_assert_cmpuint (gpu_context_get_allocated_size (fixture->context), ==, before);
  for (guint i = 0; i < N_STREAMS; i++)
    g_object_unref (filler.streams[i]);
  g_object_unref (filler.pool);
  g_assert_cmpuint (count_of_driver (), ==, n_before);
}

static void
expandable_full (TestFixture *fixture)
{
  check_full (fixture, GPU_MEMORY_POOL_EXPANDABLE);
}

static void
segments_full (TestFixture *fixture)
{
  check_full (fixture, GPU_MEMORY_POOL_SEGMENTS);
}

static void
bins_full (TestFixture *fixture)
{
  check_full (fixture, GPU_MEMORY_POOL_BINS);
}

/* The host back end allocates segments of less than 256 KiB with posix_memalign(). */
static void
segments_small (TestFixture *fixture)
{
  for (guint64 limit = MIB / 16; limit < MIB; limit += limit / 2)
    {
      g_autoptr (GpuMemoryPool) pool = test_pool (fixture, GPU_MEMORY_POOL_SEGMENTS);
      g_autoptr (GPtrArray) buffers = g_ptr_array_new_with_free_func (g_object_unref);
      g_autoptr (GError) error = NULL;
      GpuBuffer *buffer;

      gpu_memory_pool_set_limit (pool, limit);
      while ((buffer = gpu_memory_pool_alloc_buffer (pool, 1000, NULL, &error)) != NULL)
        g_ptr_array_add (buffers, buffer);
      test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "limit");
      g_assert_cmpuint (test_pool_get_figure (pool, "active-bytes"), >=, limit / 10 * 9);
    }
}

/* An allocator whose alignment is less than that of segments */
static void
segments_less_aligned (TestFixture *fixture)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuSvmAllocator) allocator = NULL;
  g_autoptr (GpuMemoryPool) pool = NULL;
  g_autoptr (GpuSvm) svm = NULL;

  if (!test_has (fixture, GPU_CAPABILITIES_SVM_COARSE))
    return;
  allocator = gpu_svm_allocator_new (fixture->context, GPU_MEMORY_FLAGS_NONE, GPU_SVM_FLAGS_NONE,
                                     256, NULL, &error);
  g_assert_no_error (error);
  pool = gpu_memory_pool_new_for_allocator (GPU_ALLOCATOR (allocator), GPU_MEMORY_POOL_AUTOMATIC, 4,
                                            &error);
  g_assert_no_error (error);
  svm = gpu_memory_pool_alloc_svm (pool, 1000, NULL, &error);
  g_assert_no_error (error);
}

/* --- a limit of little more than the live memory ---------------------------------------- */

#define N_STEPS   4000
#define LEAST     (1024 * MIB)      /* with less live memory, chunks are relatively large */
#define MOST      (4000 * MIB)
#define MAX_LIVES 64                /* of the largest size */

/* A random sequence of allocations and frees. If there is room, 73 of 100 steps allocate a random
 * size; the other steps free a random allocation. If `pool` is NULL, the steps only count the live
 * bytes. */
typedef struct
{
  GpuMemoryPool *pool;              /* nullable */
  GpuStream     *stream;
  guint64        most;              /* limit for the live bytes */
  guint64        peak;
  guint          done;              /* steps until the first refusal */
  guint          n_refused;
} Walk;

static void
drop_memory (gpointer memory)
{
  if (memory != NULL)
    g_object_unref (memory);
}

static gpointer
take (Walk *walk, gsize size, guint step)
{
  g_autoptr (GError) error = NULL;
  gpointer memory = gpu_memory_pool_alloc_buffer (walk->pool, size, walk->stream, &error);

  if (memory != NULL)
    return memory;
  if (walk->n_refused++ == 0)
    {
      walk->done = step;
      if (g_test_verbose ())
        g_test_message ("%s", error->message);
    }
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY);
  return NULL;
}

static void
run_walk (Walk *walk)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (1);
  g_autoptr (GPtrArray) memories = g_ptr_array_new_with_free_func (drop_memory);
  g_autoptr (GArray) sizes = g_array_new (FALSE, FALSE, sizeof (gsize));
  const guint64 largest = walk->most / MAX_LIVES;
  guint64 live = 0;

  walk->done = N_STEPS;
  for (guint i = 0; i < N_STEPS; i++)
    {
      gboolean room = live + largest <= walk->most;
      gsize size = 1 + g_rand_int (rand) % largest;
      guint chance = g_rand_int_range (rand, 0, 100);

      if (sizes->len == 0 || (room && chance < 73))
        {
          g_ptr_array_add (memories, walk->pool != NULL ? take (walk, size, i) : NULL);
          g_array_append_val (sizes, size);
          live += size;
        }
      else
        {
          guint victim = g_rand_int_range (rand, 0, sizes->len);

          live -= g_array_index (sizes, gsize, victim);
          g_array_remove_index_fast (sizes, victim);
          g_ptr_array_remove_index_fast (memories, victim);
        }
      walk->peak = MAX (walk->peak, live);
    }
}

static void
check_margin (TestFixture *fixture, GpuMemoryPoolKind kind, guint64 most, double margin)
{
  g_autoptr (GpuMemoryPool) pool = test_pool (fixture, kind);
  Walk needs = { .most = most };
  Walk walk = { .pool = pool, .stream = fixture->stream, .most = most };

  if (pool == NULL)
    return;
  run_walk (&needs);
  gpu_memory_pool_set_limit (pool, (guint64) (margin * needs.peak));
  run_walk (&walk);
  g_test_message ("%s: %u of %u steps with %.2f times the peak of live bytes; %u refused, %.4f "
                  "managed", kind_names[kind], walk.done, N_STEPS, margin, walk.n_refused,
                  (double) test_pool_get_figure (pool, "peak-managed-bytes") / needs.peak);
  g_assert_cmpuint (test_pool_get_figure (pool, "n-refused"), ==, walk.n_refused);
  g_assert_cmpuint (test_pool_get_figure (pool, "peak-managed-bytes"), <=, margin * needs.peak);
  /* No request fails before the memory is full for the first time. Later requests may fail, unless
   * the limit leaves enough room for the kind of pool. */
  g_assert_cmpuint (walk.done, >=, 150);
  if ((kind == GPU_MEMORY_POOL_BINS && margin >= 1.1)
      || (kind == GPU_MEMORY_POOL_EXPANDABLE && margin >= 1.3))
    g_assert_cmpuint (walk.done, ==, N_STEPS);
}

static void
limit_near_peak (TestFixture *fixture, GpuMemoryPoolKind kind, const double *margins, guint n)
{
  guint64 size = gpu_device_get_memory_size (fixture->device);
  guint64 most = MIN (size / 4, MOST);

  if (most < LEAST)
    {
      g_test_skip_printf ("%s has only %" G_GUINT64_FORMAT " bytes",
                          gpu_device_get_id (fixture->device), size);
      return;
    }
  for (guint i = 0; i < n; i++)
    check_margin (fixture, kind, most, margins[i]);
}

static void
expandable_near_peak (TestFixture *fixture)
{
  static const double margins[] = { 1.02, 1.05, 1.1, 1.3 };

  limit_near_peak (fixture, GPU_MEMORY_POOL_EXPANDABLE, margins, G_N_ELEMENTS (margins));
}

/* Pools with segments and pools with bins call the driver more often than expandable pools. Calls
 * to the driver are slow while other programs run, so the next two tests check fewer margins. */
static void
segments_near_peak (TestFixture *fixture)
{
  static const double margins[] = { 1.02, 1.3 };

  limit_near_peak (fixture, GPU_MEMORY_POOL_SEGMENTS, margins, G_N_ELEMENTS (margins));
}

static void
bins_near_peak (TestFixture *fixture)
{
  static const double margins[] = { 1.02, 1.1 };

  limit_near_peak (fixture, GPU_MEMORY_POOL_BINS, margins, G_N_ELEMENTS (margins));
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add ("full/expandable", expandable_full);
  test_add ("full/segments", segments_full);
  test_add ("full/bins", bins_full);
  test_add ("small-segments", segments_small);
  test_add ("less-aligned-segments", segments_less_aligned);
  test_add ("limit-near-peak/expandable", expandable_near_peak);
  test_add ("limit-near-peak/segments", segments_near_peak);
  test_add ("limit-near-peak/bins", bins_near_peak);

  return test_run ();
}

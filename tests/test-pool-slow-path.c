/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The slow path of a pool of items, which runs when the owner is out of memory: the order and
 * amount of freed memory, calls of make_room(), errors, and threads. Also tests trimming. */
#include "config.h"

#include "test-pool-bins-util.h"

#define CAPACITY(size) gpu_pool_bin_size (4, gpu_pool_bin_number (4, size))

static gsize
freed (PoolOwner *owner,
       guint      number)
{
  g_assert_cmpuint (number, <, owner->freed->len);

  return g_array_index (owner->freed, gsize, number);
}

/* Makes the pool hold one item of each size in @sizes, which ends with 0. All items were used on
 * @stream. */
static void
hold (GpuPoolBins *bins,
      PoolStream  *stream,
      const gsize *sizes)
{
  GpuPoolItem *items[16];
  guint n = 0;

  for (; sizes[n] != 0; n++)
    items[n] = pool_take (bins, sizes[n], stream);
  while (n-- > 0)
    pool_give (items[n], stream);
}

/* --- order of the slow path ---------------------------------------------------------- */

static void
check_largest_first (void)
{
  const gsize sizes[] = { 100, 4000, 1000, 4000, 2000, 0 };
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, CAPACITY (100) + CAPACITY (1000) + CAPACITY (2000)
                                          + 2 * CAPACITY (4000));
  GpuPoolItem *item;
  GpuPoolStats stats;

  hold (bins, &pool_streams[0], sizes);
  pool_assert_steps (&owner, "aaaaa");

  /* Frees one item, then two items; the other items stay held */
  item = pool_take (bins, 3000, &pool_streams[0]);
  pool_assert_steps (&owner, "afa");
  g_assert_cmpuint (freed (&owner, 0), ==, CAPACITY (4000));
  pool_give (item, &pool_streams[0]);

  item = pool_take (bins, 5200, &pool_streams[0]);
  pool_assert_steps (&owner, "afafa");
  g_assert_cmpuint (freed (&owner, 1), ==, CAPACITY (4000));
  g_assert_cmpuint (freed (&owner, 2), ==, CAPACITY (3000));
  _gpu_pool_bins_get_stats (bins, &stats);
  g_assert_cmpuint (stats.held_blocks, ==, 3);
  g_assert_cmpuint (stats.largest_free, ==, CAPACITY (2000));
  g_assert_cmpuint (stats.n_refused, ==, 0);

  pool_give (item, &pool_streams[0]);
  pool_end (&owner);
}

/* make_room() is called only when the pool holds nothing */
static void
check_make_room_last (void)
{
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, 2 * CAPACITY (1000));
  GpuPoolItem *garbage = pool_take (bins, 1000, &pool_streams[0]);
  GpuPoolItem *held = pool_take (bins, 100, &pool_streams[0]);
  GpuPoolItem *item;

  pool_give (held, &pool_streams[0]);
  g_ptr_array_add (owner.garbage, garbage);
  owner.n_rooms = 1;
  pool_assert_steps (&owner, "aa");

  item = pool_take (bins, 900, &pool_streams[0]);
  pool_assert_steps (&owner, "afa");
  g_assert_true (pool_take (bins, 1010, &pool_streams[0]) == garbage);
  pool_assert_steps (&owner, "ar0");

  pool_give (item, &pool_streams[0]);
  pool_give (garbage, &pool_streams[0]);
  pool_end (&owner);
}

/* If another thread freed the held items after the refusal, there is room for the request */
static void
check_freed_meanwhile (void)
{
  const gsize sizes[] = { 1000, 0 };
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, 1100);
  GpuPoolItem *item;

  hold (bins, &pool_streams[0], sizes);
  pool_streams[0].completed = pool_streams[0].submitted;
  owner.trims = TRUE;
  pool_assert_steps (&owner, "a");
  item = pool_take (bins, 500, &pool_streams[1]);
  pool_assert_steps (&owner, "afa");

  pool_give (item, &pool_streams[1]);
  pool_end (&owner);
}

static void
check_refused (void)
{
  const gsize sizes[] = { 100, 200, 0 };
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, 5000);
  GpuPoolItem *item = pool_take (bins, 1000, &pool_streams[0]);
  g_autoptr (GError) error = NULL;
  GpuPoolStats stats;

  hold (bins, &pool_streams[0], sizes);
  pool_assert_steps (&owner, "aaa");
  g_assert_null (_gpu_pool_bins_alloc (bins, 4500, &pool_streams[0], &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "4500 bytes, rounded to 4607: ",
                         "the owner has no more; the pool has 1023 bytes, of which 1000 are active "
                         "and 0 held; the largest held block has 0");
  pool_assert_steps (&owner, "afafar0");

  /* The pool retries while make_room() returns TRUE */
  owner.n_rooms = 2;
  g_assert_null (_gpu_pool_bins_alloc (bins, 4500, &pool_streams[0], &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "4500");
  pool_assert_steps (&owner, "ar0ar1ar2");
  owner.n_rooms = 5;
  g_assert_null (_gpu_pool_bins_alloc (bins, 4500, &pool_streams[0], &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "4500");
  pool_assert_steps (&owner, "ar0ar1ar2ar3ar4ar5");

  _gpu_pool_bins_get_stats (bins, &stats);
  g_assert_cmpuint (stats.n_refused, ==, 3);
  g_assert_cmpuint (stats.active_bytes, ==, 1000);
  pool_give (item, &pool_streams[0]);
  pool_end (&owner);
}

/* A request that cannot succeed fails, although other threads keep allocating and freeing */
static void
check_fails_while_others_free (void)
{
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, 5000);
  g_autoptr (GError) error = NULL;

  owner.churned = pool_take (bins, 1000, NULL);
  g_assert_null (_gpu_pool_bins_alloc (bins, 4500, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "4500");
  g_assert_cmpuint (owner.n_refused, >, 1);
  g_assert_cmpuint (owner.n_refused, <, 10000);

  _gpu_pool_bins_release (owner.churned, NULL);
  pool_end (&owner);
}

/* The pool only retries after out-of-memory errors */
static void
check_other_failure (void)
{
  const gsize sizes[] = { 100, 0 };
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, 5000);
  g_autoptr (GError) error = NULL;
  GpuPoolItem *item;

  hold (bins, &pool_streams[0], sizes);
  owner.failure = g_error_new (GPU_ERROR, GPU_ERROR_DEVICE_LOST, "fell off the bus");
  g_assert_null (_gpu_pool_bins_alloc (bins, 1000, &pool_streams[0], &error));
  g_assert_cmpstr (error->message, ==, "fell off the bus");
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST, "fell off");
  pool_assert_steps (&owner, "aa");

  owner.failure = g_error_new (GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY, "no pages");
  item = pool_take (bins, 1000, &pool_streams[0]);
  pool_assert_steps (&owner, "afa");

  pool_give (item, &pool_streams[0]);
  pool_end (&owner);
}

/* The pool frees items with completed uses first, and other items only after a wait */
static void
check_completed_first (void)
{
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, 2 * CAPACITY (1000) + 100);
  GpuPoolItem *busy = pool_take (bins, 1000, &pool_streams[0]);
  GpuPoolItem *idle = pool_take (bins, 1000, &pool_streams[1]);
  GpuPoolItem *item, *more;
  PoolMemory *memory = _gpu_pool_item_get_data (busy);

  memory->n_uses = 1;
  memory->points[0] = 1;
  _gpu_pool_bins_release (idle, NULL);
  pool_give (busy, &pool_streams[0]);

  item = pool_take (bins, 500, &pool_streams[2]);
  g_assert_cmpuint (pool_n_blocked, ==, 0);
  more = pool_take (bins, 600, &pool_streams[2]);
  g_assert_cmpuint (pool_n_blocked, ==, 0);
  _gpu_pool_bins_release (more, NULL);
  more = pool_take (bins, 700, &pool_streams[2]);
  g_assert_cmpuint (pool_n_blocked, ==, 1);
  g_assert_cmpuint (pool_streams[0].completed, ==, 1);

  _gpu_pool_bins_release (item, NULL);
  _gpu_pool_bins_release (more, NULL);
  pool_end (&owner);
}

static void
check_broken_stream (void)
{
  const gsize sizes[] = { 1000, 0 };
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, 1100);
  g_autoptr (GError) error = NULL;

  hold (bins, &pool_streams[0], sizes);
  pool_streams[0].broken = TRUE;
  g_assert_null (_gpu_pool_bins_alloc (bins, 500, &pool_streams[1], &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST, "stream 0 is broken");
  g_assert_cmpuint (owner.n_live, ==, 1);

  pool_end (&owner);
}

/* A refused wait does not keep the pool from waiting for other streams */
static void
check_refused_wait (void)
{
  const gsize sizes[] = { 4000, 4000, 0 };
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, 2 * CAPACITY (4000) + 2 * CAPACITY (1000));
  GpuPoolItem *first = pool_take (bins, 1000, &pool_streams[0]);
  GpuPoolItem *second = pool_take (bins, 1000, &pool_streams[1]);
  g_autoptr (GError) error = NULL;
  GpuPoolItem *item;
  GpuPoolStats stats;

  hold (bins, &pool_streams[0], sizes);
  pool_give (first, &pool_streams[0]);
  pool_give (second, &pool_streams[1]);
  pool_assert_steps (&owner, "aaaa");
  pool_streams[0].refusing = TRUE;

  /* The item that was freed first is of stream 0 */
  item = pool_take (bins, 1000, &pool_streams[2]);
  pool_assert_steps (&owner, "");
  g_assert_true (item == second);
  g_assert_cmpuint (pool_streams[2].n_waits, ==, 1);
  g_assert_cmpuint (pool_n_blocked, ==, 0);
  pool_give (item, &pool_streams[1]);

  /* The largest items are of stream 0 */
  item = pool_take (bins, 500, &pool_streams[2]);
  pool_assert_steps (&owner, "afa");
  g_assert_cmpuint (freed (&owner, 0), ==, CAPACITY (1000));
  g_assert_cmpuint (pool_n_blocked, ==, 1);

  /* No other item is left */
  g_assert_null (_gpu_pool_bins_alloc (bins, 3000, &pool_streams[2], &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "3000", "3 held");
  pool_assert_steps (&owner, "ar0");
  _gpu_pool_bins_get_stats (bins, &stats);
  g_assert_cmpuint (stats.held_blocks, ==, 3);

  pool_streams[0].refusing = FALSE;
  _gpu_pool_bins_release (item, NULL);
  pool_end (&owner);
}

/* A request that frees many items tries each wait that is refused only once. */
static void
check_refused_waits (void)
{
  const gsize large[] = { 4000, 4000, 4000, 4000, 4000, 4000, 4000, 4000, 4000, 4000, 0 };
  const gsize small[] = { 1000, 1000, 1000, 1000, 1000, 0 };
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, 10 * CAPACITY (4000) + 5 * CAPACITY (1000));
  g_autoptr (GError) error = NULL;

  hold (bins, &pool_streams[0], large);
  hold (bins, &pool_streams[1], small);
  pool_assert_steps (&owner, "aaaaaaaaaaaaaaa");
  pool_streams[0].refusing = TRUE;
  g_assert_null (_gpu_pool_bins_alloc (bins, 8000, &pool_streams[2], &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "8000", "40950 held");
  pool_assert_steps (&owner, "afafafafafar0");
  g_assert_cmpuint (pool_streams[0].n_refused, ==, 10);
  pool_streams[0].refusing = FALSE;
  pool_end (&owner);
}

/* --- limits --------------------------------------------------------------------------- */

static GpuPoolItem *
take_any (GpuPoolBins *bins,
          gsize        size)
{
  g_autoptr (GError) error = NULL;
  GpuPoolItem *item = _gpu_pool_bins_alloc (bins, size, NULL, &error);

  test_assert_ok (item != NULL, error);

  return item;
}

static gpointer
alloc_slowly (gpointer   owner,
              gsize      size,
              GError   **error G_GNUC_UNUSED)
{
  GpuPoolBins **bins = owner;
  g_autoptr (GError) refused = NULL;

  /* Simulate another thread that allocates memory at the same time */
  if (size > CAPACITY (1000))
    {
      g_assert_null (_gpu_pool_bins_alloc (*bins, 1000, NULL, &refused));
      test_assert_gpu_error (refused, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "limit of 3000");
    }

  return g_malloc (size);
}

static void
free_slowly (gpointer owner G_GNUC_UNUSED,
             gpointer data,
             gsize    size G_GNUC_UNUSED)
{
  g_free (data);
}

/* Allocations in progress count towards the limit */
static void
check_limit (void)
{
  const GpuPoolBinsOps ops = { .alloc_item = alloc_slowly, .free_item = free_slowly };
  const GpuPoolLimits limits = { .limit = 3000, .release_threshold = G_MAXUINT64 };
  GpuPoolStreamOps no_streams = { 0, };
  GpuPoolBins *bins = NULL;
  GpuPoolItem *item, *other;
  g_autoptr (GError) error = NULL;
  GpuPoolStats stats;

  bins = _gpu_pool_bins_new (4, &ops, &bins, &no_streams);
  _gpu_pool_bins_set_limits (bins, &limits);
  item = take_any (bins, 2100);
  other = take_any (bins, 700);
  g_assert_null (_gpu_pool_bins_alloc (bins, 200, NULL, &error));
  test_assert_gpu_error (error, GPU_ERROR_OUT_OF_DEVICE_MEMORY, "207", "limit of 3000");

  /* A freed item also makes room for items of another bin */
  _gpu_pool_bins_release (other, NULL);
  other = take_any (bins, 200);
  _gpu_pool_bins_get_stats (bins, &stats);
  g_assert_cmpuint (stats.peak_managed_bytes, ==, CAPACITY (2100) + CAPACITY (700));
  g_assert_cmpuint (stats.managed_bytes, ==, CAPACITY (2100) + CAPACITY (200));
  g_assert_cmpuint (stats.n_refused, ==, 2);

  _gpu_pool_bins_release (item, NULL);
  _gpu_pool_bins_release (other, NULL);
  _gpu_pool_bins_free (bins);
}

/* The pool frees held items with completed uses to stay below the soft limit */
static void
check_soft_limit (void)
{
  const gsize sizes[] = { 1000, 2000, 0 };
  const GpuPoolLimits limits = { .soft_limit = CAPACITY (1000) + CAPACITY (2000),
                                 .release_threshold = G_MAXUINT64 };
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, G_MAXUINT64);
  GpuPoolItem *items[3];

  _gpu_pool_bins_set_limits (bins, &limits);
  hold (bins, &pool_streams[0], sizes);
  pool_assert_steps (&owner, "aa");
  items[0] = pool_take (bins, 300, NULL);
  pool_assert_steps (&owner, "a");
  pool_streams[0].completed = pool_streams[0].submitted;
  items[1] = pool_take (bins, 400, NULL);
  pool_assert_steps (&owner, "fa");
  g_assert_cmpuint (freed (&owner, 0), ==, CAPACITY (2000));
  items[2] = pool_take (bins, 500, NULL);
  pool_assert_steps (&owner, "a");
  g_assert_cmpuint (pool_n_blocked, ==, 0);

  for (guint i = 0; i < G_N_ELEMENTS (items); i++)
    _gpu_pool_bins_release (items[i], NULL);
  pool_end (&owner);
}

/* The pool holds unused memory up to the threshold, however much memory is in use */
static void
check_release_threshold (void)
{
  const gsize sizes[] = { 200, 300, 0 };
  GpuPoolLimits limits = { .release_threshold = CAPACITY (200) + CAPACITY (300) };
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, G_MAXUINT64);
  GpuPoolItem *one = pool_take (bins, 4000, NULL);
  GpuPoolItem *two = pool_take (bins, 100, NULL);

  hold (bins, &pool_streams[0], sizes);
  pool_streams[0].completed = pool_streams[0].submitted;
  pool_assert_steps (&owner, "aaaa");
  _gpu_pool_bins_set_limits (bins, &limits);
  pool_assert_steps (&owner, "");

  _gpu_pool_bins_release (two, NULL);
  pool_assert_steps (&owner, "f");
  g_assert_cmpuint (freed (&owner, 0), ==, CAPACITY (300));
  limits.release_threshold = CAPACITY (100);
  _gpu_pool_bins_set_limits (bins, &limits);
  pool_assert_steps (&owner, "f");
  g_assert_cmpuint (freed (&owner, 1), ==, CAPACITY (200));

  /* The item is freed by the next call after its use has completed */
  two = pool_take (bins, 500, NULL);
  pool_give (two, &pool_streams[1]);
  pool_assert_steps (&owner, "af");
  g_assert_cmpuint (freed (&owner, 2), ==, CAPACITY (100));
  pool_streams[1].completed = pool_streams[1].submitted;
  _gpu_pool_bins_release_all (one, NULL, 0);
  pool_assert_steps (&owner, "ff");
  g_assert_cmpuint (owner.n_live, ==, 0);

  pool_end (&owner);
}

/* --- trimming ------------------------------------------------------------------------- */

static void
check_trim (void)
{
  const gsize sizes[] = { 100, 1000, 4000, 2000, 0 };
  const gsize busy[] = { 8000, 0 };
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, G_MAXUINT64);
  guint64 kept = CAPACITY (100) + CAPACITY (1000);
  GpuPoolStats stats;

  hold (bins, &pool_streams[0], sizes);
  _gpu_pool_bins_trim (bins, G_MAXUINT64, TRUE);
  g_assert_cmpuint (owner.n_live, ==, 4);

  _gpu_pool_bins_trim (bins, kept, FALSE);
  g_assert_cmpuint (owner.n_live, ==, 4);
  _gpu_pool_bins_trim (bins, kept, TRUE);
  g_assert_cmpuint (owner.used, ==, kept);
  g_assert_cmpuint (freed (&owner, 0), ==, CAPACITY (4000));
  g_assert_cmpuint (freed (&owner, 1), ==, CAPACITY (2000));
  g_assert_cmpuint (pool_streams[0].completed, ==, pool_streams[0].submitted);

  /* Trimming skips items with pending uses */
  hold (bins, &pool_streams[1], busy);
  _gpu_pool_bins_trim (bins, 0, FALSE);
  _gpu_pool_bins_get_stats (bins, &stats);
  g_assert_cmpuint (stats.held_blocks, ==, 1);
  g_assert_cmpuint (stats.managed_bytes, ==, CAPACITY (8000));
  g_assert_cmpuint (stats.peak_managed_bytes, ==, kept + CAPACITY (8000));
  _gpu_pool_bins_trim (bins, 0, TRUE);
  g_assert_cmpuint (owner.n_live, ==, 0);

  pool_end (&owner);
}

static void
check_stop_holding (void)
{
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, G_MAXUINT64);
  GpuPoolItem *one = pool_take (bins, 50, NULL);
  GpuPoolItem *two = pool_take (bins, 60, &pool_streams[0]);
  GpuPoolItem *three = pool_take (bins, 70, &pool_streams[1]);
  GpuPoolItem *four = pool_take (bins, 80, NULL);

  _gpu_pool_bins_release (four, NULL);
  _gpu_pool_bins_stop_holding (bins);
  g_assert_cmpuint (owner.n_live, ==, 3);

  /* An item with a pending use is freed when the use has completed, without another request */
  pool_give (two, &pool_streams[0]);
  pool_give (three, &pool_streams[1]);
  g_assert_cmpuint (owner.n_live, ==, 3);
  pool_streams[0].completed = pool_streams[0].submitted;
  _gpu_pool_bins_release (one, NULL);
  g_assert_cmpuint (owner.n_live, ==, 1);
  g_assert_cmpuint (pool_n_blocked, ==, 0);

  _gpu_pool_bins_trim (bins, 0, TRUE);
  g_assert_cmpuint (owner.n_live, ==, 0);
  g_assert_cmpuint (pool_n_blocked, ==, 1);

  pool_end (&owner);
}

static void
visit (gpointer           data,
       const GpuPoolItem *item,
       gsize              capacity,
       gsize              requested,
       GpuPoolState       state)
{
  const PoolMemory *memory = _gpu_pool_item_get_data (item);

  g_assert_cmpuint (capacity, ==, memory->size);
  g_string_append_printf (data, "%" G_GSIZE_FORMAT ":%u ", requested, state);
}

static void
check_visit (void)
{
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, G_MAXUINT64);
  GpuPoolItem *one = pool_take (bins, 50, NULL);
  GpuPoolItem *two = pool_take (bins, 60, &pool_streams[0]);
  GpuPoolItem *three = pool_take (bins, 70, NULL);
  g_autoptr (GString) seen = g_string_new (NULL);
  g_autofree char *expected = g_strdup_printf ("70:%u 0:%u 0:%u ", GPU_POOL_ACTIVE,
                                               GPU_POOL_PENDING, GPU_POOL_FREE);

  _gpu_pool_bins_release (one, NULL);
  pool_give (two, &pool_streams[0]);
  _gpu_pool_bins_visit (bins, visit, seen);
  g_assert_cmpstr (seen->str, ==, expected);

  _gpu_pool_bins_release (three, NULL);
  pool_end (&owner);
}

static void
trace (void)
{
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, 2000);

  _gpu_pool_bins_release (pool_take (bins, 1111, NULL), NULL);
  _gpu_pool_bins_set_trace (bins, TRUE);
  _gpu_pool_bins_release (pool_take (bins, 1000, NULL), NULL);
  pool_give (pool_take (bins, 1001, &pool_streams[0]), &pool_streams[0]);
  _gpu_pool_bins_release (pool_take (bins, 1002, &pool_streams[1]), NULL);
  _gpu_pool_bins_set_trace (bins, FALSE);
  _gpu_pool_bins_release (pool_take (bins, 1003, NULL), NULL);
  pool_end (&owner);
}

/* Runs in a separate process, with GPUMEM_DEBUG */
static void
run_trace (const char *debug)
{
  g_autofree char *before = g_strdup (g_getenv ("GPUMEM_DEBUG"));

  g_setenv ("GPUMEM_DEBUG", debug, TRUE);
  g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed ();
  if (before != NULL)
    g_setenv ("GPUMEM_DEBUG", before, TRUE);
  else
    g_unsetenv ("GPUMEM_DEBUG");
}

static void
check_trace (void)
{
  if (g_test_subprocess ())
    {
      trace ();
      return;
    }

  run_trace ("pool");
  g_test_trap_assert_stderr ("*1111 bytes from a new block of 1151 for bin 161\n*");

  run_trace ("cache");
  g_test_trap_assert_stderr ("*no memory for 1000 bytes\n"
                             "*block of 1151 bytes of bin 161 is freed\n"
                             "*1000 bytes from a new block of 1023 for bin 159\n"
                             "*a block of 1023 bytes returned to bin 159\n"
                             "*1001 bytes from bin 159 of 1023\n*"
                             "*1002 bytes from bin 159 of 1023, with 1 waits\n*");
  g_test_trap_assert_stderr_unmatched ("*1111*");
  g_test_trap_assert_stderr_unmatched ("*1003*");
}

/* --- threads ---------------------------------------------------------------------------- */

#define N_ROUNDS 20000
#define N_MINE   2
#define N_SIZES  10
#define SIZE(i)  (512 + 64 * (i))    /* each size has a separate bin */

typedef struct
{
  GpuPoolBins *bins;
  guint        number;
} Worker;

static void
work_once (Worker      *worker,
           GRand       *random,
           PoolStream  *stream,
           GpuPoolItem *items[N_MINE],
           gsize        size)
{
  GpuPoolItem **item = &items[g_rand_int_range (random, 0, N_MINE)];
  PoolMemory *memory;

  if (*item != NULL)
    {
      /* No other thread has used the memory since this thread took the item */
      memory = _gpu_pool_item_get_data (*item);
      g_assert_cmpuint (memory->byte, ==, worker->number + 1);
      memory->byte = 0;
      memory->n_uses = 1;
      memory->streams[0] = stream->number;
      memory->points[0] = __atomic_add_fetch (&stream->submitted, 1, __ATOMIC_SEQ_CST);
      _gpu_pool_bins_release (*item, stream);
      *item = NULL;
      return;
    }

  *item = pool_take (worker->bins, size, stream);
  memory = _gpu_pool_item_get_data (*item);
  g_assert_cmpuint (memory->byte, ==, 0);
  pool_assert_is_complete (memory, stream);
  memory->byte = worker->number + 1;
}

static gpointer
work (gpointer data)
{
  Worker *worker = data;
  PoolStream *stream = &pool_streams[worker->number];
  GpuPoolItem *items[N_MINE] = { NULL };
  GRand *random = g_rand_new_with_seed (worker->number);

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      work_once (worker, random, stream, items, SIZE (i / 300 % N_SIZES));
      if (i % 1000 == 0)
        _gpu_pool_bins_trim (worker->bins, 2000, i % 2000 == 0);
    }

  for (guint i = 0; i < N_MINE; i++)
    {
      if (items[i] != NULL)
        {
          PoolMemory *memory = _gpu_pool_item_get_data (items[i]);

          memory->byte = 0;
          memory->n_uses = 0;
          _gpu_pool_bins_release (items[i], NULL);
        }
    }
  g_rand_free (random);

  return NULL;
}

static void
run_threads (GpuPoolBins  *bins,
             GpuPoolStats *stats)
{
  GThread *threads[POOL_N_STREAMS];
  Worker workers[POOL_N_STREAMS];

  for (guint i = 0; i < POOL_N_STREAMS; i++)
    {
      workers[i] = (Worker) { bins, i };
      threads[i] = g_thread_new ("worker", work, &workers[i]);
    }
  for (guint i = 0; i < 1000; i++)
    {
      g_autoptr (GString) seen = g_string_new (NULL);

      _gpu_pool_bins_visit (bins, visit, seen);
      _gpu_pool_bins_get_stats (bins, stats);
      g_assert_cmpuint (stats->active_blocks, <=, POOL_N_STREAMS * N_MINE);
      g_assert_cmpuint (stats->used_bytes, <=, stats->managed_bytes);
    }
  for (guint i = 0; i < POOL_N_STREAMS; i++)
    g_thread_join (threads[i]);

  _gpu_pool_bins_get_stats (bins, stats);
  g_assert_cmpuint (stats->n_refused, ==, 0);
}

/* With enough memory for all items in use at once, no request fails, however many items are held */
static void
check_threads (void)
{
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, POOL_N_STREAMS * N_MINE
                                          * CAPACITY (SIZE (N_SIZES - 1)));
  GpuPoolStats stats;

  run_threads (bins, &stats);
  g_assert_cmpuint (stats.n_steals, >, 0);
  g_assert_cmpuint (owner.n_refused, >, 0);
  pool_end (&owner);
}

/* Like check_threads(), but with limits, which the pool never exceeds. Each release frees unused
 * memory above the threshold */
static void
check_threads_limits (void)
{
  const GpuPoolLimits limits = { .limit = POOL_N_STREAMS * N_MINE * CAPACITY (SIZE (N_SIZES - 1)),
                                 .soft_limit = 4 * CAPACITY (SIZE (N_SIZES - 1)),
                                 .release_threshold = 3 * CAPACITY (SIZE (0)) };
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, limits.limit);
  GpuPoolStats stats;

  _gpu_pool_bins_set_limits (bins, &limits);
  run_threads (bins, &stats);
  g_assert_cmpuint (stats.peak_managed_bytes, <=, limits.limit);
  g_assert_cmpuint (owner.n_frees, >, 0);
  g_assert_cmpuint (owner.n_refused, ==, 0);
  pool_end (&owner);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);

  test_add_plain ("largest-first", check_largest_first);
  test_add_plain ("make-room-last", check_make_room_last);
  test_add_plain ("freed-meanwhile", check_freed_meanwhile);
  test_add_plain ("refused", check_refused);
  test_add_plain ("fails-while-others-free", check_fails_while_others_free);
  test_add_plain ("other-failure", check_other_failure);
  test_add_plain ("completed-first", check_completed_first);
  test_add_plain ("broken-stream", check_broken_stream);
  test_add_plain ("refused-wait", check_refused_wait);
  test_add_plain ("refused-waits", check_refused_waits);
  test_add_plain ("limit", check_limit);
  test_add_plain ("soft-limit", check_soft_limit);
  test_add_plain ("release-threshold", check_release_threshold);
  test_add_plain ("trim", check_trim);
  test_add_plain ("stop-holding", check_stop_holding);
  test_add_plain ("visit", check_visit);
  test_add_plain ("trace", check_trace);
  test_add_plain ("threads", check_threads);
  test_add_plain ("threads-limits", check_threads_limits);

  return test_run ();
}

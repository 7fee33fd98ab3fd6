/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pools of the kind BINS, which sort whole allocations into bins by size. The bins have the same
 * sizes as in PyOpenCL's pools, no item is reused before its use has completed, and the pool
 * returns all items to its owner. Also tests the slow path when the owner is out of memory. */
#include "config.h"

#include "test-pool-bins-util.h"

/* --- bins ------------------------------------------------------------------------- */

/* Expected values, from PyOpenCL 2022.3. */
#define U64 G_GUINT64_CONSTANT

static const struct
{
  guint   bits;
  guint64 size;
  guint   bin;
  guint64 capacity;
} known[] =
{
  { 0, U64 (0), 0, U64 (1) },
  { 0, U64 (1), 0, U64 (1) },
  { 0, U64 (5), 2, U64 (7) },
  { 0, U64 (1000), 9, U64 (1023) },
  { 0, U64 (4294967295), 31, U64 (4294967295) },
  { 0, U64 (1099511627775), 39, U64 (1099511627775) },
  { 0, U64 (9223372036854788153), 63, U64 (18446744073709551615) },
  { 0, U64 (18446744073709551615), 63, U64 (18446744073709551615) },
  { 0, U64 (292433519), 28, U64 (536870911) },
  { 0, U64 (5494), 12, U64 (8191) },
  { 0, U64 (281204861), 28, U64 (536870911) },
  { 0, U64 (1133857668512811), 50, U64 (2251799813685247) },
  { 0, U64 (186477027610878657), 57, U64 (288230376151711743) },
  { 0, U64 (20881865312), 34, U64 (34359738367) },
  { 1, U64 (0), 0, U64 (1) },
  { 1, U64 (1), 0, U64 (1) },
  { 1, U64 (5), 4, U64 (5) },
  { 1, U64 (1000), 19, U64 (1023) },
  { 1, U64 (4294967295), 63, U64 (4294967295) },
  { 1, U64 (1099511627775), 79, U64 (1099511627775) },
  { 1, U64 (9223372036854788153), 126, U64 (13835058055282163711) },
  { 1, U64 (18446744073709551615), 127, U64 (18446744073709551615) },
  { 1, U64 (7410), 25, U64 (8191) },
  { 1, U64 (341091065797), 76, U64 (412316860415) },
  { 1, U64 (30394490169121), 89, U64 (35184372088831) },
  { 1, U64 (120458784369755145), 113, U64 (144115188075855871) },
  { 1, U64 (2793820783023304), 102, U64 (3377699720527871) },
  { 1, U64 (500132), 37, U64 (524287) },
  { 2, U64 (0), 0, U64 (1) },
  { 2, U64 (1), 0, U64 (1) },
  { 2, U64 (5), 9, U64 (5) },
  { 2, U64 (1000), 39, U64 (1023) },
  { 2, U64 (4294967295), 127, U64 (4294967295) },
  { 2, U64 (1099511627775), 159, U64 (1099511627775) },
  { 2, U64 (9223372036854788153), 252, U64 (11529215046068469759) },
  { 2, U64 (18446744073709551615), 255, U64 (18446744073709551615) },
  { 2, U64 (33040421), 99, U64 (33554431) },
  { 2, U64 (579382050272), 156, U64 (687194767359) },
  { 2, U64 (1687775), 82, U64 (1835007) },
  { 2, U64 (10003276496680598985), 252, U64 (11529215046068469759) },
  { 2, U64 (446219792179098780), 234, U64 (504403158265495551) },
  { 2, U64 (24255981712964665), 217, U64 (27021597764222975) },
  { 4, U64 (0), 0, U64 (1) },
  { 4, U64 (1), 0, U64 (1) },
  { 4, U64 (2), 16, U64 (2) },
  { 4, U64 (3), 24, U64 (3) },
  { 4, U64 (5), 36, U64 (5) },
  { 4, U64 (15), 62, U64 (15) },
  { 4, U64 (16), 64, U64 (16) },
  { 4, U64 (17), 65, U64 (17) },
  { 4, U64 (31), 79, U64 (31) },
  { 4, U64 (32), 80, U64 (33) },
  { 4, U64 (33), 80, U64 (33) },
  { 4, U64 (63), 95, U64 (63) },
  { 4, U64 (64), 96, U64 (67) },
  { 4, U64 (100), 105, U64 (103) },
  { 4, U64 (1000), 159, U64 (1023) },
  { 4, U64 (1023), 159, U64 (1023) },
  { 4, U64 (1024), 160, U64 (1087) },
  { 4, U64 (1025), 160, U64 (1087) },
  { 4, U64 (4096), 192, U64 (4351) },
  { 4, U64 (5000), 195, U64 (5119) },
  { 4, U64 (65535), 255, U64 (65535) },
  { 4, U64 (65537), 256, U64 (69631) },
  { 4, U64 (1000000), 318, U64 (1015807) },
  { 4, U64 (1000000000), 477, U64 (1006632959) },
  { 4, U64 (4294967295), 511, U64 (4294967295) },
  { 4, U64 (4294967296), 512, U64 (4563402751) },
  { 4, U64 (4294967301), 512, U64 (4563402751) },
  { 4, U64 (17179869189), 544, U64 (18253611007) },
  { 4, U64 (1099511627775), 639, U64 (1099511627775) },
  { 4, U64 (9223372036854788153), 1008, U64 (9799832789158199295) },
  { 4, U64 (18446744073709551615), 1023, U64 (18446744073709551615) },
  { 4, U64 (91078), 262, U64 (94207) },
  { 4, U64 (36660438956), 561, U64 (38654705663) },
  { 4, U64 (290535651664909), 768, U64 (299067162755071) },
  { 4, U64 (139251), 272, U64 (139263) },
  { 4, U64 (218053), 282, U64 (221183) },
  { 4, U64 (1761010), 330, U64 (1769471) },
  { 7, U64 (0), 0, U64 (1) },
  { 7, U64 (1), 0, U64 (1) },
  { 7, U64 (5), 288, U64 (5) },
  { 7, U64 (1000), 1274, U64 (1003) },
  { 7, U64 (4294967295), 4095, U64 (4294967295) },
  { 7, U64 (1099511627775), 5119, U64 (1099511627775) },
  { 7, U64 (9223372036854788153), 8064, U64 (9295429630892703743) },
  { 7, U64 (18446744073709551615), 8191, U64 (18446744073709551615) },
  { 7, U64 (67629414195927432), 7152, U64 (67835469387268095) },
  { 7, U64 (6329821), 2881, U64 (6356991) },
  { 7, U64 (21913494), 3111, U64 (22020095) },
  { 7, U64 (3599144319835695625), 7879, U64 (3602879701896396799) },
  { 7, U64 (75074122084817683), 7173, U64 (75435293758455807) },
  { 7, U64 (83507), 2083, U64 (83967) },
  { 10, U64 (0), 0, U64 (1) },
  { 10, U64 (1), 0, U64 (1) },
  { 10, U64 (5), 2304, U64 (5) },
  { 10, U64 (1000), 10192, U64 (1000) },
  { 10, U64 (4294967295), 32767, U64 (4294967295) },
  { 10, U64 (1099511627775), 40959, U64 (1099511627775) },
  { 10, U64 (9223372036854788153), 64512, U64 (9232379236109516799) },
  { 10, U64 (18446744073709551615), 65535, U64 (18446744073709551615) },
  { 10, U64 (5340673155688), 43227, U64 (5342939316223) },
  { 10, U64 (15414844151), 34605, U64 (15418261503) },
  { 10, U64 (931068308255), 40646, U64 (931471032319) },
  { 10, U64 (3073428057), 32185, U64 (3074424831) },
  { 10, U64 (660389119272), 40142, U64 (660888092671) },
  { 10, U64 (91239934436), 37199, U64 (91268055039) }
};

static void
check_pyopencl_sizes (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (known); i++)
    {
      g_assert_cmpuint (gpu_pool_bin_number (known[i].bits, known[i].size), ==, known[i].bin);
      g_assert_cmpuint (gpu_pool_bin_size (known[i].bits, known[i].bin), ==, known[i].capacity);
    }
}

static void
check_size (guint bits,
            gsize size)
{
  guint bin = gpu_pool_bin_number (bits, size);
  gsize capacity = gpu_pool_bin_size (bits, bin);

  g_assert_cmpuint (bin, <, 64u << bits);
  g_assert_cmpuint (capacity, >=, size);
  g_assert_cmpuint (gpu_pool_bin_number (bits, capacity), ==, bin);
  g_assert_cmpuint (gpu_pool_bin_number (bits, size + (size < G_MAXSIZE)), >=, bin);
  if (capacity < G_MAXSIZE)
    g_assert_cmpuint (gpu_pool_bin_number (bits, capacity + 1), >, bin);
  /* Bins of sizes up to 2^bits are exact; larger bins waste less than one part in 2^bits */
  if (size > 0)
    g_assert_cmpuint (capacity - size, <=, (size - 1) >> bits);
}

static void
check_every_size (void)
{
  for (guint bits = 0; bits <= GPU_POOL_BINS_MAX_BITS; bits++)
    {
      guint last = 0;

      for (gsize size = 0; size < 1 << 14; size++)
        {
          check_size (bits, size);
          g_assert_cmpuint (gpu_pool_bin_number (bits, size), >=, last);
          last = gpu_pool_bin_number (bits, size);
        }
      for (guint exponent = 14; exponent < 64; exponent++)
        {
          for (gssize near = -5; near <= 5; near++)
            check_size (bits, ((gsize) 1 << exponent) + near);
        }
      for (guint i = 0; i < 2000; i++)
        {
          guint64 size = (guint64) g_test_rand_int () << 32 | (guint32) g_test_rand_int ();

          check_size (bits, size >> g_test_rand_int_range (0, 64));
        }
      check_size (bits, G_MAXSIZE);
    }
}

static void
check_large (void)
{
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, G_MAXUINT64);

  for (guint exponent = 30; exponent <= 34; exponent++)
    {
      for (gssize near = -5; near <= 5; near++)
        {
          gsize size = ((gsize) 1 << exponent) + near;
          GpuPoolItem *item = pool_take (bins, size, &pool_streams[0]);

          g_assert_cmpuint (_gpu_pool_item_get_capacity (item), <, size + (size >> 4) + 1);
          pool_give (item, &pool_streams[0]);
          g_assert_true (pool_take (bins, size, &pool_streams[0]) == item);
          pool_give (item, &pool_streams[0]);
        }
    }

  pool_end (&owner);
}

/* 2000 random sizes, 20 items alive */
static void
check_random_sizes (void)
{
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, G_MAXUINT64);
  GpuPoolItem *items[20] = { NULL };
  GpuPoolStats stats;
  guint64 requested = 0;

  for (guint i = 0; i < 2000; i++)
    {
      GpuPoolItem **item = &items[i % G_N_ELEMENTS (items)];
      gsize size = 1 + ((guint) g_test_rand_int_range (0, G_MAXINT32)
                        >> g_test_rand_int_range (0, 32));

      if (*item != NULL)
        {
          requested -= _gpu_pool_item_get_size (*item);
          pool_give (*item, &pool_streams[0]);
        }
      *item = pool_take (bins, size, &pool_streams[0]);
      requested += size;
      _gpu_pool_bins_get_stats (bins, &stats);
      g_assert_cmpuint (stats.active_bytes, ==, requested);
      g_assert_cmpuint (stats.managed_bytes, ==, owner.used);
      g_assert_cmpuint (stats.active_blocks + stats.held_blocks, ==, owner.n_live);
    }
  g_assert_cmpuint (stats.n_allocs, ==, 2000);
  g_assert_cmpuint (stats.n_hits, ==, 2000 - stats.n_growths);
  g_assert_cmpuint (stats.n_hits, >, 0);
  g_assert_cmpuint (stats.peak_active_bytes, >=, stats.active_bytes);
  g_assert_cmpuint (stats.peak_managed_bytes, ==, stats.managed_bytes);

  for (guint i = 0; i < G_N_ELEMENTS (items); i++)
    pool_give (items[i], &pool_streams[0]);
  pool_end (&owner);
}

/* --- streams ----------------------------------------------------------------------- */

static void
check_same_stream (void)
{
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, G_MAXUINT64);
  GpuPoolItem *one = pool_take (bins, 1000, &pool_streams[0]);
  GpuPoolItem *two = pool_take (bins, 1001, &pool_streams[0]);
  GpuPoolItem *other = pool_take (bins, 1024, &pool_streams[0]);

  pool_give (one, &pool_streams[0]);
  pool_give (two, &pool_streams[0]);
  pool_give (other, &pool_streams[0]);

  /* Last in, first out, for any size of the bin */
  g_assert_true (pool_take (bins, 1023, &pool_streams[0]) == two);
  g_assert_true (pool_take (bins, 992, &pool_streams[0]) == one);
  g_assert_true (pool_take (bins, 1087, &pool_streams[0]) == other);
  g_assert_cmpuint (pool_count_fences (), ==, 0);
  g_assert_cmpuint (pool_n_blocked, ==, 0);
  pool_assert_steps (&owner, "aaa");

  pool_give (one, &pool_streams[0]);
  pool_give (two, &pool_streams[0]);
  pool_give (other, &pool_streams[0]);
  pool_end (&owner);
}

/* Checks in which order a stream gets the items that other streams have freed, and how often it
 * waits for each item. */
static void
check_other_stream (void)
{
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, G_MAXUINT64);
  GpuPoolItem *mine = pool_take (bins, 64, &pool_streams[0]);
  GpuPoolItem *busy = pool_take (bins, 64, &pool_streams[1]);
  GpuPoolItem *idle = pool_take (bins, 64, &pool_streams[2]);
  GpuPoolItem *free = pool_take (bins, 64, &pool_streams[3]);
  GpuPoolStats stats;

  pool_give (mine, &pool_streams[0]);
  _gpu_pool_bins_release (free, NULL);
  pool_give (idle, &pool_streams[2]);
  pool_give (busy, &pool_streams[1]);
  pool_streams[2].completed = pool_streams[2].submitted;

  /* The pool skips the top item, which is in use. It prefers completed items, then items of the
   * same stream */
  g_assert_true (pool_take (bins, 64, &pool_streams[0]) == free);
  g_assert_true (pool_take (bins, 64, &pool_streams[0]) == mine);
  g_assert_cmpuint (pool_count_fences () + pool_streams[0].n_waits, ==, 0);

  /* After these, the pool returns items that other streams used. For each item, stream 0 waits for
   * that use, unless the pool has already detected that the use has completed */
  g_assert_true (pool_take (bins, 64, &pool_streams[0]) != NULL);
  g_assert_true (pool_take (bins, 64, &pool_streams[0]) != NULL);
  g_assert_cmpuint (pool_streams[0].waits[1], ==, 1);
  g_assert_cmpuint (pool_n_blocked, ==, 0);
  _gpu_pool_bins_get_stats (bins, &stats);
  g_assert_cmpuint (stats.n_steals, ==, 2);
  g_assert_cmpuint (stats.n_waits, >=, 1);
  g_assert_cmpuint (stats.n_growths, ==, 4);

  _gpu_pool_bins_release (mine, NULL);
  _gpu_pool_bins_release (busy, NULL);
  _gpu_pool_bins_release (idle, NULL);
  _gpu_pool_bins_release (free, NULL);
  pool_end (&owner);
}

static void
check_host_use (void)
{
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, G_MAXUINT64);
  GpuPoolItem *item = pool_take (bins, 64, NULL);

  _gpu_pool_bins_release (item, NULL);
  g_assert_true (pool_take (bins, 64, NULL) == item);
  g_assert_cmpuint (pool_n_blocked, ==, 0);

  pool_give (item, &pool_streams[0]);
  g_assert_true (pool_take (bins, 64, NULL) == item);
  g_assert_cmpuint (pool_n_blocked, ==, 1);
  g_assert_cmpuint (pool_streams[0].completed, ==, 1);

  _gpu_pool_bins_release (item, NULL);
  pool_end (&owner);
}

static void
check_several_streams (void)
{
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, G_MAXUINT64);

  for (guint n = 1; n < POOL_N_STREAMS; n++)
    {
      GpuPoolItem *item = pool_take (bins, 64, &pool_streams[0]);
      gpointer keys[POOL_N_STREAMS + 1] = { NULL };

      for (guint i = 0; i < n; i++)
        {
          pool_streams[i].submitted++;
          keys[i + 1] = &pool_streams[i];
        }
      _gpu_pool_bins_release_all (item, keys, n + 1);
      g_assert_true (pool_take (bins, 64, &pool_streams[POOL_N_STREAMS - 1]) == item);
      for (guint i = 0; i < n; i++)
        g_assert_cmpuint (pool_streams[POOL_N_STREAMS - 1].waits[i], ==, pool_streams[i].submitted);
      _gpu_pool_bins_release (item, NULL);
    }
  g_assert_cmpuint (pool_n_blocked, ==, 0);

  pool_end (&owner);
}

static void
check_broken_stream (void)
{
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, G_MAXUINT64);
  GpuPoolItem *item = pool_take (bins, 64, &pool_streams[0]);
  g_autoptr (GError) error = NULL;

  pool_give (item, &pool_streams[0]);
  pool_streams[0].broken = TRUE;
  g_assert_null (_gpu_pool_bins_alloc (bins, 64, &pool_streams[1], &error));
  test_assert_gpu_error (error, GPU_ERROR_DEVICE_LOST, "stream 0 is broken");

  /* The failed request has put the item back: stream 0 can reuse it, and later the pool frees it */
  g_assert_true (pool_take (bins, 64, &pool_streams[0]) == item);
  pool_give (item, &pool_streams[0]);
  _gpu_pool_bins_trim (bins, 0, TRUE);
  g_assert_cmpuint (owner.n_live, ==, 1);
  pool_end (&owner);
}

/* The pool drops its references to closed streams, even if items still record a use on them */
static void
check_closed_streams (void)
{
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, G_MAXUINT64);
  PoolStream *gone = g_new0 (PoolStream, 100);
  GpuPoolItem *item = NULL;
  guint n_refs = 0;

  for (guint i = 0; i < 100; i++)
    {
      item = pool_take (bins, i + 1, &gone[i]);
      g_assert_cmpuint (gone[i].refs, >, 0);
      pool_give (item, &gone[i]);
      gone[i].gone = TRUE;
    }
  for (guint i = 0; i < 100; i++)
    n_refs += gone[i].refs;
  g_assert_cmpuint (n_refs, <, 100);
  _gpu_pool_bins_trim (bins, G_MAXUINT64, FALSE);
  for (guint i = 0; i < 100; i++)
    g_assert_cmpuint (gone[i].refs, ==, 0);

  /* Items of closed streams are reusable. A new stream at the address of a closed stream is a
   * different stream */
  gone[99] = (PoolStream) { .number = 0 };
  g_assert_true (pool_take (bins, 100, &gone[99]) == item);
  g_assert_cmpuint (gone[99].n_waits + gone[99].n_fences + pool_n_blocked, ==, 0);
  pool_give (item, &gone[99]);
  g_assert_cmpuint (gone[99].refs, ==, 1);

  pool_end (&owner);
  g_assert_cmpuint (gone[99].refs, ==, 0);
  g_free (gone);
}

static void
give_at_random (GpuPoolItem *item)
{
  PoolMemory *memory = _gpu_pool_item_get_data (item);
  gpointer keys[POOL_N_STREAMS];

  memory->n_uses = g_test_rand_int_range (0, POOL_N_STREAMS + 1);
  for (guint i = 0; i < memory->n_uses; i++)
    {
      PoolStream *stream = &pool_streams[(i + memory->size) % POOL_N_STREAMS];

      keys[i] = stream;
      memory->streams[i] = stream->number;
      memory->points[i] = ++stream->submitted;
    }

  if (memory->n_uses < 2)
    _gpu_pool_bins_release (item, memory->n_uses == 0 ? NULL : keys[0]);
  else
    _gpu_pool_bins_release_all (item, keys, memory->n_uses);
}

/* Random uses on streams with pending work. There is enough memory for all items in use, but not
 * for all items in use and all held items together */
static void
check_random_streams (void)
{
  const guint n_steps = g_test_slow () ? 10000000 : 20000;
  PoolOwner owner;
  GpuPoolBins *bins = pool_begin (&owner, 27000);
  GpuPoolItem *items[32] = { NULL };
  GpuPoolStats stats;

  for (guint i = 0; i < n_steps; i++)
    {
      GpuPoolItem **item = &items[g_test_rand_int_range (0, G_N_ELEMENTS (items))];
      guint number = g_test_rand_int_range (0, POOL_N_STREAMS + 1);
      PoolStream *stream = number < POOL_N_STREAMS ? &pool_streams[number] : NULL;
      PoolStream *late = &pool_streams[g_test_rand_int_range (0, POOL_N_STREAMS)];

      late->completed += (late->submitted - late->completed) / 2;
      if (*item != NULL)
        {
          give_at_random (*item);
          *item = NULL;
          continue;
        }
      *item = pool_take (bins, 100u << i / 1000 % 4, stream);
      pool_assert_is_complete (_gpu_pool_item_get_data (*item), stream);
    }

  _gpu_pool_bins_get_stats (bins, &stats);
  g_assert_cmpuint (stats.n_steals, >, 0);
  g_assert_cmpuint (stats.n_waits, >, 0);
  g_assert_cmpuint (owner.n_refused, >, 0);
  for (guint i = 0; i < G_N_ELEMENTS (items); i++)
    {
      if (items[i] != NULL)
        give_at_random (items[i]);
    }
  pool_end (&owner);
}

int
main (int    argc,
      char **argv)
{
  test_init (&argc, &argv);

  test_add_plain ("pyopencl-sizes", check_pyopencl_sizes);
  test_add_plain ("every-size", check_every_size);
  test_add_plain ("large", check_large);
  test_add_plain ("random-sizes", check_random_sizes);
  test_add_plain ("same-stream", check_same_stream);
  test_add_plain ("other-stream", check_other_stream);
  test_add_plain ("host-use", check_host_use);
  test_add_plain ("several-streams", check_several_streams);
  test_add_plain ("broken-stream", check_broken_stream);
  test_add_plain ("closed-streams", check_closed_streams);
  test_add_plain ("random-streams", check_random_streams);

  return test_run ();
}

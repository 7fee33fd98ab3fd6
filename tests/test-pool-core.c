/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The core of memory pools, on a simulated owner and streams: see test-pool-sim.h. */
#include "config.h"

#include <dlfcn.h>

#include "gpumem/pool/core/gpu-pool-cache.h"
#include "gpumem/pool/core/gpu-pool-chunks-private.h"
#include "test-pool-model.h"

#define UNIT ((gsize) 512)
#define KIB  ((gsize) 1024)
#define MIB  (1024 * KIB)

typedef struct
{
  Sim       *sim;
  GpuPool   *pool;
  SimStream *a, *b;
} Fixture;

/* The kinds of pools that the tests use. */
#define CHUNKS       (1u << 0)
#define THREAD_HEAPS (1u << 1)

static const char *const kinds[] = {
  "segments", "chunks", "segments-heaps", "chunks-heaps"
};

static void
set_up (Fixture       *fixture,
        gconstpointer  data)
{
  guint kind = GPOINTER_TO_UINT (data);

  fixture->sim = sim_new (64 * MIB, UNIT, (kind & CHUNKS) != 0 ? 64 * KIB : 0, TRUE);
  sim_set_thread_heaps (fixture->sim, (kind & THREAD_HEAPS) != 0);
  fixture->pool = sim_pool_new (fixture->sim);
  fixture->a = sim_stream_new (fixture->sim, G_MAXUINT64);
  fixture->b = sim_stream_new (fixture->sim, G_MAXUINT64);
}

/* sim_free() checks that all memory was returned. */
static void
tear_down (Fixture       *fixture,
           gconstpointer  data)
{
  _gpu_pool_free (fixture->pool);
  sim_stream_unref (fixture->a);
  sim_stream_unref (fixture->b);
  sim_free (fixture->sim);
}

static GpuMemoryBlock *
take (Fixture   *fixture,
      gsize      size,
      SimStream *stream)
{
  g_autoptr (GError) error = NULL;
  GpuMemoryBlock *block = _gpu_pool_alloc (fixture->pool, size, 0, stream, &error);

  g_assert_no_error (error);
  g_assert_nonnull (block);
  g_assert_cmpuint (_gpu_pool_block_get_size (block), ==, size);
  sim_take (fixture->sim, stream, _gpu_pool_block_get_address (block), size);
  if (stream != NULL)
    sim_use (fixture->sim, stream, _gpu_pool_block_get_address (block), size);

  return block;
}

static void
give (Fixture        *fixture,
      GpuMemoryBlock *block,
      SimStream      *stream)
{
  sim_give (fixture->sim, _gpu_pool_block_get_address (block), _gpu_pool_block_get_size (block));
  _gpu_pool_release (block, stream);
}

static GpuPoolStats
get_stats (Fixture *fixture)
{
  GpuPoolStats stats;

  _gpu_pool_get_stats (fixture->pool, &stats);

  return stats;
}

static SimStats
get_sim_stats (Fixture *fixture)
{
  SimStats stats;

  sim_get_stats (fixture->sim, &stats);

  return stats;
}

/* --- streams --------------------------------------------------------------------------- */

/* The stream that freed a block reuses it at once, without calls to the owner or the stream. */
static void
test_same_stream (Fixture       *fixture,
                  gconstpointer  data)
{
  static const gsize sizes[] = { 1, 512, 4000, 100 * KIB, MIB, 3 * MIB };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      GpuMemoryBlock *block = take (fixture, sizes[i], fixture->a);
      guint64 address = _gpu_pool_block_get_address (block);
      SimStats before = get_sim_stats (fixture), after;

      give (fixture, block, fixture->a);
      block = take (fixture, sizes[i], fixture->a);
      g_assert_cmpuint (_gpu_pool_block_get_address (block), ==, address);
      give (fixture, block, fixture->a);

      after = get_sim_stats (fixture);
      g_assert_cmpmem (&before, sizeof (before), &after, sizeof (after));
    }

  /* The cache serves the second request of each size except the largest. It also serves the first
   * request of 512 bytes, with the block that the requests of 1 byte used. */
  g_assert_cmpuint (get_stats (fixture).n_cache_hits, ==, G_N_ELEMENTS (sizes));
}

/* A cache serves a request with a block that is at most an eighth larger, and counts the size of
 * the block. */
static void
test_cache_fit (Fixture       *fixture,
                gconstpointer  data)
{
  static const struct
  {
    gsize    kept, asked;           /* KiB */
    gboolean hit;
  } cases[] = { { 100, 100, TRUE }, { 100, 94, TRUE }, { 100, 80, FALSE }, { 100, 104, FALSE },
                { 1000, 950, TRUE }, { 1000, 900, FALSE }, { 2, 1, FALSE }, { 4, 3, FALSE } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      GpuMemoryBlock *kept = take (fixture, cases[i].kept * KIB, fixture->a);
      guint64 address = _gpu_pool_block_get_address (kept);
      GpuPoolStats before, after;
      GpuMemoryBlock *block;

      give (fixture, kept, fixture->a);
      before = get_stats (fixture);
      block = take (fixture, cases[i].asked * KIB, fixture->a);
      after = get_stats (fixture);

      g_assert_cmpuint (after.n_cache_hits - before.n_cache_hits, ==, cases[i].hit);
      g_assert_cmpuint (after.active_bytes - before.active_bytes, ==, cases[i].asked * KIB);
      g_assert_cmpuint (_gpu_pool_block_get_size (block), ==, cases[i].asked * KIB);
      g_assert_cmpuint (after.used_bytes - before.used_bytes, <=, cases[i].asked * KIB * 9 / 8);
      if (cases[i].hit)
        g_assert_cmpuint (_gpu_pool_block_get_address (block), ==, address);

      give (fixture, block, fixture->a);
      _gpu_pool_trim (fixture->pool, 0, TRUE);
    }
}

static void
add_cached (gpointer              data,
            const GpuPoolSegment *segment,
            guint64               address,
            gsize                 size,
            gsize                 requested,
            GpuPoolState          state,
            gpointer              key)
{
  if (state == GPU_POOL_CACHED)
    *(guint64 *) data += size;
}

/* A thread cache evicts blocks one size class after another, and never exceeds its budget. */
static void
test_cache_eviction (Fixture       *fixture,
                     gconstpointer  data)
{
  GpuMemoryBlock *blocks[96];

  for (guint round = 0; round < 4; round++)
    {
      guint64 cached = 0, managed;

      for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
        blocks[i] = take (fixture, (64 + (i * 37 + round * 11) % 900) * KIB, fixture->a);
      for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
        give (fixture, blocks[i], fixture->a);

      managed = get_stats (fixture).managed_bytes;
      _gpu_pool_visit (fixture->pool, add_cached, &cached);
      g_assert_cmpuint (cached, >=, 4 * MIB);
      g_assert_cmpuint (cached, <=, MAX (8 * MIB, managed / 64));
      g_assert_cmpuint (get_stats (fixture).used_bytes, ==, 0);
    }
}

/* Another stream waits before it reuses a block. It does not wait again before it reuses a second
 * block whose use precedes the same fence. */
static void
test_other_stream (Fixture       *fixture,
                   gconstpointer  data)
{
  GpuMemoryBlock *first = take (fixture, 30 * MIB, fixture->a);
  GpuMemoryBlock *second = take (fixture, 20 * MIB, fixture->a);

  give (fixture, first, fixture->a);
  give (fixture, second, fixture->a);
  g_assert_cmpuint (get_sim_stats (fixture).n_fences, ==, 0);

  first = take (fixture, 30 * MIB, fixture->b);
  second = take (fixture, 20 * MIB, fixture->b);
  g_assert_cmpuint (get_sim_stats (fixture).n_fences, ==, 1);
  g_assert_cmpuint (get_sim_stats (fixture).n_orders, ==, 1);
  g_assert_cmpuint (get_sim_stats (fixture).n_waits, ==, 0);
  g_assert_cmpuint (get_stats (fixture).n_steals, ==, 2);
  g_assert_cmpuint (get_stats (fixture).n_waits, ==, 1);

  give (fixture, first, fixture->b);
  give (fixture, second, fixture->b);
}

/* Another stream reuses a block without a wait if the block's use has completed. */
static void
test_completed_use (Fixture       *fixture,
                    gconstpointer  data)
{
  GpuMemoryBlock *block = take (fixture, 30 * MIB, fixture->a);
  GpuMemoryBlock *small;

  give (fixture, block, fixture->a);
  _gpu_pool_trim (fixture->pool, G_MAXUINT64, FALSE);
  sim_stream_finish (fixture->a);

  block = take (fixture, 30 * MIB, fixture->b);
  small = take (fixture, KIB, fixture->b);
  g_assert_cmpuint (get_stats (fixture).n_waits, ==, 0);
  g_assert_cmpuint (get_sim_stats (fixture).n_orders, ==, 0);
  give (fixture, small, fixture->b);
  give (fixture, block, fixture->b);
}

/* The host waits only if no other memory is left. */
static void
test_host_waits_last (Fixture       *fixture,
                      gconstpointer  data)
{
  GpuMemoryBlock *block = take (fixture, 40 * MIB, fixture->a);

  give (fixture, block, fixture->a);
  block = take (fixture, 40 * MIB, NULL);
  g_assert_cmpuint (get_sim_stats (fixture).n_waits, ==, 1);
  give (fixture, block, NULL);

  block = take (fixture, 40 * MIB, fixture->b);
  g_assert_cmpuint (get_sim_stats (fixture).n_orders, ==, 0);
  give (fixture, block, fixture->b);
}

/* Allocates a block for a stream with pending work. The host frees the block without any use. */
static void
test_freed_without_use (Fixture       *fixture,
                        gconstpointer  data)
{
  for (guint i = 0; i < 2; i++)
    {
      gsize size = i == 0 ? 4 * KIB : 40 * MIB;
      GpuMemoryBlock *block = take (fixture, size, fixture->a);

      give (fixture, block, fixture->a);
      block = _gpu_pool_alloc (fixture->pool, size, 0, fixture->a, NULL);
      _gpu_pool_release (block, NULL);

      /* If the request is for the host (NULL), sim_take() checks that all uses of the block have
       * completed. */
      block = take (fixture, size, NULL);
      give (fixture, block, NULL);
    }
}

/* A block is used on several streams. Another stream gets the block only after all these uses. */
static void
test_several_streams (Fixture       *fixture,
                      gconstpointer  data)
{
  gpointer keys[] = { fixture->a, fixture->b, fixture->a, NULL };
  GpuMemoryBlock *block = take (fixture, 40 * MIB, fixture->a);
  guint64 address = _gpu_pool_block_get_address (block);
  SimStream *c = sim_stream_new (fixture->sim, G_MAXUINT64);

  sim_order (fixture->b, fixture->a);
  sim_use (fixture->sim, fixture->b, address, 40 * MIB);
  sim_give (fixture->sim, address, 40 * MIB);
  _gpu_pool_release_all (block, keys, G_N_ELEMENTS (keys));
  g_assert_cmpuint (get_sim_stats (fixture).n_fences, ==, 0);
  g_assert_cmpuint (get_stats (fixture).held_blocks, >=, 1);
  g_assert_cmpuint (get_stats (fixture).active_blocks, ==, 0);

  block = take (fixture, 40 * MIB, c);
  g_assert_cmpuint (_gpu_pool_block_get_address (block), ==, address);
  give (fixture, block, c);
  sim_stream_close (c);
  sim_stream_unref (c);
}

/* The pool frees its records of closed streams, because a program may create many streams. */
static void
test_many_streams (Fixture       *fixture,
                   gconstpointer  data)
{
  for (guint i = 0; i < 2000; i++)
    {
      SimStream *stream = sim_stream_new (fixture->sim, 10);
      GpuMemoryBlock *block = take (fixture, 3 * MIB + i * UNIT, stream);

      give (fixture, block, stream);
      sim_stream_finish (stream);
      sim_stream_close (stream);
      sim_stream_unref (stream);
    }
}

/* If a block is released on streams that did not use it, the next owner still waits for the pending
 * use by the previous owner. */
static void
test_released_on_other_streams (Fixture       *fixture,
                                gconstpointer  data)
{
  SimStream *c = sim_stream_new (fixture->sim, G_MAXUINT64);
  SimStream *d = sim_stream_new (fixture->sim, G_MAXUINT64);
  gpointer keys[] = { fixture->b, c };
  GpuMemoryBlock *block = take (fixture, 40 * MIB, fixture->a);
  guint64 address = _gpu_pool_block_get_address (block);

  give (fixture, block, fixture->a);
  block = _gpu_pool_alloc (fixture->pool, 40 * MIB, 0, fixture->a, NULL);
  g_assert_cmpuint (_gpu_pool_block_get_address (block), ==, address);
  sim_take (fixture->sim, fixture->a, address, 40 * MIB);
  sim_give (fixture->sim, address, 40 * MIB);
  _gpu_pool_release_all (block, keys, G_N_ELEMENTS (keys));

  block = take (fixture, 40 * MIB, d);
  give (fixture, block, d);
  sim_stream_close (c);
  sim_stream_unref (c);
  sim_stream_close (d);
  sim_stream_unref (d);
}

/* A free range whose use has completed is not merged with a range whose use is pending, because the
 * merged range could only be reused after a wait. */
static void
test_completed_neighbour (Fixture       *fixture,
                          gconstpointer  data)
{
  GpuMemoryBlock *whole = take (fixture, 32 * MIB, NULL);
  GpuMemoryBlock *first;
  GpuMemoryBlock *second;

  give (fixture, whole, NULL);
  first = take (fixture, 16 * MIB, fixture->a);
  second = take (fixture, 16 * MIB, fixture->b);
  give (fixture, first, fixture->a);
  give (fixture, second, fixture->b);
  _gpu_pool_trim (fixture->pool, G_MAXUINT64, FALSE);
  sim_stream_finish (fixture->a);
  _gpu_pool_trim (fixture->pool, G_MAXUINT64, FALSE);

  first = take (fixture, 16 * MIB, fixture->a);
  g_assert_cmpuint (get_sim_stats (fixture).n_orders, ==, 0);
  g_assert_cmpuint (get_stats (fixture).n_waits, ==, 0);
  give (fixture, first, fixture->a);
}

/* A request takes the best fit of the free blocks of other streams. */
static void
test_best_fit (Fixture       *fixture,
               gconstpointer  data)
{
  SimStream *c = sim_stream_new (fixture->sim, G_MAXUINT64);
  GpuMemoryBlock *large = take (fixture, 24 * MIB, fixture->b);
  GpuMemoryBlock *between = take (fixture, 8 * MIB, fixture->b);
  GpuMemoryBlock *small = take (fixture, 16 * MIB, c);
  guint64 address = _gpu_pool_block_get_address (small);

  give (fixture, large, fixture->b);
  give (fixture, small, c);
  sim_set_capacity (fixture->sim, 48 * MIB);
  small = take (fixture, 16 * MIB, fixture->a);
  g_assert_cmpuint (_gpu_pool_block_get_address (small), ==, address);
  give (fixture, small, fixture->a);
  give (fixture, between, fixture->b);
  sim_stream_close (c);
  sim_stream_unref (c);
}

/* --- memory ---------------------------------------------------------------------------- */

static void
test_alignment (Fixture       *fixture,
                gconstpointer  data)
{
  GpuMemoryBlock *blocks[24];

  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    {
      gsize alignment = (gsize) 1 << (i % 21);

      blocks[i] = _gpu_pool_alloc (fixture->pool, 700 + i * 1000, alignment, fixture->a, NULL);
      g_assert_nonnull (blocks[i]);
      g_assert_cmpuint (_gpu_pool_block_get_address (blocks[i]) % MAX (alignment, UNIT), ==, 0);
    }

  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    _gpu_pool_release (blocks[i], fixture->a);
}

/* Adjacent free ranges are merged, regardless of the order of the frees. */
static void
test_coalesce (Fixture       *fixture,
               gconstpointer  data)
{
  static const guint orders[][4] =
    { { 0, 1, 2, 3 }, { 3, 2, 1, 0 }, { 0, 2, 1, 3 }, { 1, 3, 0, 2 } };
  GpuMemoryBlock *blocks[4];
  guint64 managed = 0;

  for (guint i = 0; i < G_N_ELEMENTS (orders); i++)
    {
      for (guint j = 0; j < 4; j++)
        blocks[j] = take (fixture, 10 * MIB, fixture->a);
      for (guint j = 0; j < 4; j++)
        give (fixture, blocks[orders[i][j]], fixture->a);

      if (i == 0)
        managed = get_stats (fixture).managed_bytes;
      g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, managed);
    }

  _gpu_pool_trim (fixture->pool, 0, TRUE);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, 0);
}

static void
count_destroyed (gpointer data)
{
  ++*(guint *) data;
}

/* Owner data survives reuse of the same range, and is destroyed when the range is split. */
static void
test_owner_data (Fixture       *fixture,
                 gconstpointer  data)
{
  guint n = 0;
  GpuMemoryBlock *block = take (fixture, 2 * MIB, fixture->a), *other;

  g_assert_null (_gpu_pool_block_get_data (block));
  _gpu_pool_block_set_data (block, &n, count_destroyed);
  other = take (fixture, 2 * MIB, fixture->a);
  give (fixture, block, fixture->a);
  g_assert_cmpuint (n, ==, 0);

  block = take (fixture, 2 * MIB, fixture->a);
  g_assert_true (_gpu_pool_block_get_data (block) == &n);
  give (fixture, block, fixture->a);
  block = take (fixture, 2 * MIB - UNIT, fixture->a);
  g_assert_cmpuint (n, ==, 1);
  g_assert_null (_gpu_pool_block_get_data (block));

  _gpu_pool_block_set_data (block, &n, count_destroyed);
  _gpu_pool_block_set_data (block, NULL, NULL);
  g_assert_cmpuint (n, ==, 2);
  give (fixture, block, fixture->a);
  give (fixture, other, fixture->a);
}

static gboolean
give_way (gpointer data)
{
  Fixture *fixture = data;

  sim_set_capacity (fixture->sim, 64 * MIB);

  return TRUE;
}

/* The pool calls make_room() before it fails. The error quotes the pool's figures. */
static void
test_out_of_memory (Fixture       *fixture,
                    gconstpointer  data)
{
  static const char *words[] = { "50331648 bytes", " active", " held", "largest free", "limit" };
  GpuMemoryBlock *block = take (fixture, 30 * MIB, fixture->a);
  g_autoptr (GError) error = NULL;

  g_assert_null (_gpu_pool_alloc (fixture->pool, 48 * MIB, 0, fixture->a, &error));
  g_assert_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY);
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    g_assert_nonnull (strstr (error->message, words[i]));
  g_assert_cmpuint (get_sim_stats (fixture).n_rooms, ==, 1);
  g_assert_cmpuint (get_stats (fixture).n_refused, ==, 1);
  g_clear_error (&error);

  g_assert_null (_gpu_pool_alloc (fixture->pool, G_MAXSIZE, 0, fixture->a, &error));
  g_assert_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY);

  sim_set_capacity (fixture->sim, 31 * MIB);
  sim_set_make_room (fixture->sim, give_way, fixture);
  give (fixture, take (fixture, 20 * MIB, fixture->a), fixture->a);
  g_assert_cmpuint (get_sim_stats (fixture).n_rooms, ==, 2);
  give (fixture, block, fixture->a);
}

/* A request can use all free memory: memory that another stream holds, that is mapped at another
 * address, or that is in a cache. */
static void
test_use_all_memory (Fixture       *fixture,
                     gconstpointer  data)
{
  GpuMemoryBlock *blocks[96];

  sim_set_capacity (fixture->sim, 33 * MIB);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = take (fixture, 128 * KIB, i % 2 == 0 ? fixture->a : fixture->b);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    give (fixture, blocks[i], i % 2 == 0 ? fixture->a : fixture->b);

  blocks[0] = take (fixture, 32 * MIB, fixture->a);
  give (fixture, blocks[0], fixture->a);
}

/* A request above the limit fails, and allocates nothing. */
static void
test_limit (Fixture       *fixture,
            gconstpointer  data)
{
  GpuPoolLimits limits = { .limit = 16 * MIB, .release_threshold = G_MAXUINT64, .waste = 0.03 };
  g_autoptr (GError) error = NULL;
  GpuMemoryBlock *block, *other;
  guint64 n_allocs, growth, rest;

  _gpu_pool_set_limits (fixture->pool, &limits);
  block = take (fixture, 12 * MIB, fixture->a);
  n_allocs = get_sim_stats (fixture).n_allocs;
  g_assert_null (_gpu_pool_alloc (fixture->pool, 8 * MIB, 0, fixture->a, &error));
  g_assert_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY);
  /* The numbers of the message agree: the growth is larger than the limit leaves. */
  g_assert_nonnull (strstr (error->message, "no memory for 8388608 bytes: growth by "));
  g_assert_nonnull (strstr (error->message, " 12582912 are active"));
  g_assert_nonnull (strstr (error->message, "the limit is 16777216 bytes, which leaves "));
  growth = g_ascii_strtoull (strstr (error->message, "growth by ") + 10, NULL, 10);
  rest = g_ascii_strtoull (strstr (error->message, "leaves ") + 7, NULL, 10);
  g_assert_cmpuint (growth, >, rest);
  g_assert_cmpuint (rest, ==, 16 * MIB - get_stats (fixture).managed_bytes);
  g_assert_cmpuint (get_sim_stats (fixture).n_allocs, ==, n_allocs);

  other = take (fixture, 3 * MIB, fixture->a);
  g_assert_cmpuint (get_stats (fixture).peak_managed_bytes, <=, 16 * MIB);

  limits.limit = 0;
  _gpu_pool_set_limits (fixture->pool, &limits);
  sim_set_capacity (fixture->sim, 16 * MIB);
  g_clear_error (&error);
  g_assert_null (_gpu_pool_alloc (fixture->pool, 32 * MIB, 0, fixture->a, &error));
  g_assert_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY);
  g_assert_nonnull (strstr (error->message, "; the pool has no limit"));
  give (fixture, other, fixture->a);
  give (fixture, block, fixture->a);
}

static void
test_whole_limit (Fixture       *fixture,
                  gconstpointer  data)
{
  GpuPoolLimits limits = { .limit = 16 * MIB, .release_threshold = G_MAXUINT64 };
  GpuMemoryBlock *block;

  _gpu_pool_set_limits (fixture->pool, &limits);
  block = take (fixture, 16 * MIB, fixture->a);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, 16 * MIB);
  give (fixture, block, fixture->a);
}

/* An allocator that returns more than requested does not make the pool exceed its limit. */
static void
test_larger_segments (Fixture       *fixture,
                      gconstpointer  data)
{
  GpuPoolLimits limits = { .limit = 16 * MIB, .release_threshold = G_MAXUINT64 };
  GpuMemoryBlock *blocks[64];
  guint n = 0;

  sim_set_lost (fixture->sim, 70 * KIB);
  _gpu_pool_set_limits (fixture->pool, &limits);
  for (; n < G_N_ELEMENTS (blocks); n++)
    {
      blocks[n] = _gpu_pool_alloc (fixture->pool, MIB, 0, fixture->a, NULL);
      if (blocks[n] == NULL)
        break;
    }
  g_assert_cmpuint (n, >=, 14);
  g_assert_cmpuint (get_stats (fixture).peak_managed_bytes, <=, 16 * MIB);
  while (n > 0)
    _gpu_pool_release (blocks[--n], fixture->a);
}

static void
set_true (gpointer data)
{
  *(gboolean *) data = TRUE;
}

/* A closed pool lives until its last block is freed. */
static void
test_close (Fixture       *fixture,
            gconstpointer  data)
{
  GpuMemoryBlock *block = take (fixture, MIB, fixture->a);
  gboolean closed = FALSE;

  _gpu_pool_close (fixture->pool, set_true, &closed);
  g_assert_false (closed);
  give (fixture, block, fixture->a);
  g_assert_true (closed);
}

/* Above the soft limit, the pool reuses completed memory and frees empty segments before it
 * grows. */
static void
test_soft_limit (Fixture       *fixture,
                 gconstpointer  data)
{
  GpuPoolLimits limits = { .soft_limit = 16 * MIB, .release_threshold = G_MAXUINT64 };
  GpuMemoryBlock *block;

  _gpu_pool_set_limits (fixture->pool, &limits);
  for (guint i = 0; i < 5; i++)
    {
      block = take (fixture, (8 + i) * MIB, NULL);
      give (fixture, block, NULL);
    }
  g_assert_cmpuint (get_sim_stats (fixture).peak_bytes, <=, 16 * MIB);

  block = take (fixture, 20 * MIB, NULL);
  give (fixture, block, NULL);
}

/* A pool that stopped holding memory frees it as soon as its use has completed. */
static void
test_stop_holding (Fixture       *fixture,
                   gconstpointer  data)
{
  GpuMemoryBlock *block = take (fixture, 20 * MIB, fixture->a);
  GpuMemoryBlock *other = take (fixture, 4 * KIB, NULL);

  _gpu_pool_stop_holding (fixture->pool);
  give (fixture, block, fixture->a);
  g_assert_cmpuint (get_sim_stats (fixture).bytes, >, 0);

  sim_stream_finish (fixture->a);
  give (fixture, other, NULL);
  g_assert_cmpuint (get_sim_stats (fixture).bytes, ==, 0);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, 0);
  g_assert_cmpuint (get_stats (fixture).held_blocks, ==, 0);
}

static void
test_release_threshold (Fixture       *fixture,
                        gconstpointer  data)
{
  GpuPoolLimits limits = { .release_threshold = 8 * MIB, .waste = 0.03 };
  GpuMemoryBlock *blocks[4];

  _gpu_pool_set_limits (fixture->pool, &limits);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = take (fixture, 7 * MIB, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    give (fixture, blocks[i], NULL);

  g_assert_cmpuint (get_sim_stats (fixture).bytes, <=, 8 * MIB);
  g_assert_cmpuint (get_sim_stats (fixture).bytes, >, 0);
}

/* --- failures -------------------------------------------------------------------------- */

static void
work_a_bit (Fixture *fixture)
{
  GpuMemoryBlock *blocks[32];
  SimStream *streams[] = { fixture->a, fixture->b };

  for (guint round = 0; round < 4; round++)
    {
      for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
        {
          g_autoptr (GError) error = NULL;
          gsize size = ((i * 7 + round * 5) % 13 + 1) * 170 * KIB;
          SimStream *stream = streams[(i + round) % 2];

          blocks[i] = _gpu_pool_alloc (fixture->pool, size, 0, stream, &error);
          if (blocks[i] == NULL)
            {
              g_assert_nonnull (error);
              g_assert_true (sim_has_failed (fixture->sim));
              continue;
            }
          sim_take (fixture->sim, stream, _gpu_pool_block_get_address (blocks[i]), size);
          sim_use (fixture->sim, stream, _gpu_pool_block_get_address (blocks[i]), size);
        }
      for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
        if (blocks[i] != NULL)
          give (fixture, blocks[i], streams[(i + round) % 2]);
      if (round == 1)
        _gpu_pool_trim (fixture->pool, 8 * MIB, FALSE);
    }
}

/* In each round, one call to the simulated memory or to a stream fails, alternately with an
 * out-of-memory error and with a lost device. After each failure, no memory may leak. */
static void
test_failures (Fixture       *fixture,
               gconstpointer  data)
{
  guint n_failed = 0;

  for (guint nth = 1; ; nth += 1 + nth / 24)
    {
      sim_fail (fixture->sim, nth,
                nth % 2 == 0 ? GPU_ERROR_OUT_OF_DEVICE_MEMORY : GPU_ERROR_DEVICE_LOST);
      work_a_bit (fixture);
      if (!sim_has_failed (fixture->sim))
        break;

      n_failed++;
      sim_fail (fixture->sim, 0, GPU_ERROR_FAILED);
      _gpu_pool_trim (fixture->pool, 0, TRUE);
      g_assert_cmpuint (get_sim_stats (fixture).bytes, ==, 0);
      g_assert_cmpuint (get_stats (fixture).active_blocks, ==, 0);
      g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, 0);
    }

  g_assert_cmpuint (n_failed, >=, 10);
  sim_fail (fixture->sim, 0, GPU_ERROR_FAILED);
}

/* --- frozen pools ------------------------------------------------------------------------ */

static gboolean is_frozen;

static gboolean
get_frozen (gpointer owner G_GNUC_UNUSED)
{
  return is_frozen;
}

/* While a pool is frozen, a request without a stream fails rather than wait for a stream, also if
 * the memory is in the heap of a thread. */
static void
test_frozen (Fixture       *fixture,
             gconstpointer  data)
{
  g_autoptr (GError) error = NULL;
  GpuPoolOps ops = sim_ops;
  GpuPoolConfig config;
  GpuMemoryBlock *block, *first;
  GpuPool *pool;

  ops.is_frozen = get_frozen;
  sim_config (fixture->sim, &config);
  pool = _gpu_pool_new (&config, &ops, fixture->sim, &sim_stream_ops, NULL);

  /* The thread gets its heap during its first request, so only the second block is from there. */
  first = _gpu_pool_alloc (pool, MIB, 0, fixture->a, NULL);
  block = _gpu_pool_alloc (pool, MIB, 0, fixture->a, NULL);
  sim_take (fixture->sim, fixture->a, _gpu_pool_block_get_address (block), MIB);
  sim_use (fixture->sim, fixture->a, _gpu_pool_block_get_address (block), MIB);
  sim_give (fixture->sim, _gpu_pool_block_get_address (block), MIB);
  _gpu_pool_release (block, fixture->a);
  sim_set_capacity (fixture->sim, get_sim_stats (fixture).bytes);

  is_frozen = TRUE;
  g_assert_null (_gpu_pool_alloc (pool, MIB, 0, NULL, &error));
  g_assert_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY);
  g_assert_cmpuint (get_sim_stats (fixture).n_waits, ==, 0);

  is_frozen = FALSE;
  block = _gpu_pool_alloc (pool, MIB, 0, NULL, NULL);
  g_assert_nonnull (block);
  g_assert_cmpuint (get_sim_stats (fixture).n_waits, ==, 1);
  _gpu_pool_release (block, NULL);
  _gpu_pool_release (first, NULL);
  _gpu_pool_free (pool);
}

/* --- more streams than nodes can name ---------------------------------------------------- */

static gboolean fillers_are_gone;

/* Streams that submit nothing. Their keys are numbers from 1. */
static gboolean
is_filler (gpointer key)
{
  return GPOINTER_TO_SIZE (key) < GPU_POOL_MAX_STREAMS;
}

static gpointer
ref_key (gpointer key)
{
  return is_filler (key) ? key : sim_stream_ops.ref (key);
}

static void
unref_key (gpointer key)
{
  if (!is_filler (key))
    sim_stream_ops.unref (key);
}

static gboolean
key_is_gone (gpointer key)
{
  return is_filler (key) ? fillers_are_gone : sim_stream_ops.is_gone (key);
}

/* Creates the pool again, with the first stream and as many other streams as nodes can name. */
static void
fill_streams (Fixture *fixture)
{
  GpuPoolStreamOps ops = sim_stream_ops;
  GpuPoolConfig config;

  ops.ref = ref_key;
  ops.unref = unref_key;
  ops.is_gone = key_is_gone;
  fillers_are_gone = FALSE;
  sim_config (fixture->sim, &config);
  _gpu_pool_free (fixture->pool);
  fixture->pool = _gpu_pool_new (&config, &sim_ops, fixture->sim, &ops, NULL);

  _gpu_pool_streams_get (fixture->pool->streams, fixture->a);
  for (guint i = 1; i < GPU_POOL_MAX_STREAMS; i++)
    _gpu_pool_streams_get (fixture->pool->streams, GUINT_TO_POINTER (i));
}

/* Lets the second stream use memory of the first. */
static void
use_on_second (Fixture        *fixture,
               GpuMemoryBlock *block)
{
  sim_order (fixture->b, fixture->a);
  sim_use (fixture->sim, fixture->b, _gpu_pool_block_get_address (block),
           _gpu_pool_block_get_size (block));
}

/* Checks that a request on the first stream gets a block that the second stream uses, and only
 * after that use. */
static void
take_after_second (Fixture *fixture)
{
  SimStats before = get_sim_stats (fixture);
  GpuMemoryBlock *block;

  sim_set_capacity (fixture->sim, before.bytes);
  block = take (fixture, 16 * MIB, fixture->a);
  g_assert_cmpuint (get_sim_stats (fixture).n_waits + get_sim_stats (fixture).n_orders, >,
                    before.n_waits + before.n_orders);
  give (fixture, block, fixture->a);
  sim_set_capacity (fixture->sim, 64 * MIB);
}

/* A stream beyond the limit gets no memory. Memory that it frees is reused after its work. */
static void
test_stream_limit (Fixture       *fixture,
                   gconstpointer  data)
{
  static const gsize sizes[] = { 4 * KIB, 16 * MIB };
  g_autoptr (GError) error = NULL;
  GpuMemoryBlock *block, *small[GPU_POOL_CACHE_DEPTH + 1];
  guint64 cached = 0;

  fill_streams (fixture);
  g_assert_null (_gpu_pool_alloc (fixture->pool, MIB, 0, fixture->b, &error));
  g_assert_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED);
  g_assert_nonnull (strstr (error->message, "at most 65535 streams"));
  g_clear_error (&error);
  g_assert_false (_gpu_pool_alloc_n (fixture->pool, sizes, 2, fixture->b, small, &error));
  g_assert_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED);

  for (guint i = 0; i < G_N_ELEMENTS (small); i++)
    small[i] = take (fixture, 4 * KIB, fixture->a);
  for (guint i = 0; i < G_N_ELEMENTS (small); i++)
    {
      use_on_second (fixture, small[i]);
      give (fixture, small[i], fixture->b);
    }
  _gpu_pool_visit (fixture->pool, add_cached, &cached);
  g_assert_cmpuint (cached, ==, 0);
  _gpu_pool_trim (fixture->pool, 0, FALSE);

  block = take (fixture, 16 * MIB, fixture->a);
  use_on_second (fixture, block);
  give (fixture, block, fixture->b);
  take_after_second (fixture);

  block = take (fixture, 16 * MIB, fixture->a);
  use_on_second (fixture, block);
  sim_give (fixture->sim, _gpu_pool_block_get_address (block), 16 * MIB);
  _gpu_pool_release_all (block, (gpointer[]) { fixture->a, fixture->b }, 2);
  sim_stream_finish (fixture->a);
  take_after_second (fixture);
}

/* Dropped streams do not count for the limit. */
static void
test_dropped_streams (Fixture       *fixture,
                      gconstpointer  data)
{
  SimStream *stream = sim_stream_new (fixture->sim, 0);

  fill_streams (fixture);
  g_assert_null (_gpu_pool_alloc (fixture->pool, MIB, 0, fixture->b, NULL));
  fillers_are_gone = TRUE;
  give (fixture, take (fixture, MIB, stream), stream);
  sim_stream_unref (stream);
}

/* Without a key of thread-specific data, no pool is created. Runs in a separate process, because a
 * process needs one key for all pools. */
static void
test_thread_keys (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree pthread_key_t *keys = g_new (pthread_key_t, sysconf (_SC_THREAD_KEYS_MAX));
  g_autofree char *limit = NULL;
  GpuPoolConfig config;
  guint n = 0;
  Sim *sim;

  if (!g_test_subprocess ())
    {
      g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
      g_test_trap_assert_passed ();
      return;
    }

  limit = g_strdup_printf ("a process has at most %ld of them", sysconf (_SC_THREAD_KEYS_MAX));
  sim = sim_new (MIB, UNIT, 0, TRUE);
  sim_config (sim, &config);
  while (pthread_key_create (&keys[n], NULL) == 0)
    n++;
  g_assert_null (_gpu_pool_new (&config, &sim_ops, sim, &sim_stream_ops, &error));
  for (guint i = 0; i < n; i++)
    pthread_key_delete (keys[i]);

  g_assert_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED);
  g_assert_nonnull (strstr (error->message, limit));
  _gpu_pool_free (sim_pool_new (sim));
  sim_free (sim);
}

static gboolean
refuse_wait (gpointer key,
             guint64  seq)
{
  return !is_frozen && sim_stream_ops.wait (key, seq);
}

/* If a capture begins after the pool has checked for captures, the driver refuses the wait. The
 * pool then does not take the memory. */
static void
test_refused_wait (Fixture       *fixture,
                   gconstpointer  data)
{
  g_autoptr (GError) error = NULL;
  GpuPoolStreamOps ops = sim_stream_ops;
  GpuPoolConfig config;
  GpuMemoryBlock *blocks[2];
  GpuPool *pool;

  ops.wait = refuse_wait;
  sim_config (fixture->sim, &config);
  pool = _gpu_pool_new (&config, &sim_ops, fixture->sim, &ops, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    {
      blocks[i] = _gpu_pool_alloc (pool, MIB, 0, fixture->a, NULL);
      sim_take (fixture->sim, fixture->a, _gpu_pool_block_get_address (blocks[i]), MIB);
      sim_use (fixture->sim, fixture->a, _gpu_pool_block_get_address (blocks[i]), MIB);
      sim_give (fixture->sim, _gpu_pool_block_get_address (blocks[i]), MIB);
    }
  _gpu_pool_release_n (blocks, G_N_ELEMENTS (blocks), fixture->a);
  sim_set_capacity (fixture->sim, get_sim_stats (fixture).bytes);

  is_frozen = TRUE;
  g_assert_null (_gpu_pool_alloc (pool, MIB, 0, NULL, &error));
  g_assert_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY);

  is_frozen = FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    {
      blocks[i] = _gpu_pool_alloc (pool, MIB, 0, NULL, NULL);
      g_assert_nonnull (blocks[i]);
      sim_take (fixture->sim, NULL, _gpu_pool_block_get_address (blocks[i]), MIB);
      sim_give (fixture->sim, _gpu_pool_block_get_address (blocks[i]), MIB);
    }
  g_assert_cmpuint (get_sim_stats (fixture).n_waits, >, 0);
  _gpu_pool_release_n (blocks, G_N_ELEMENTS (blocks), NULL);
  _gpu_pool_free (pool);
}

/* --- loans ------------------------------------------------------------------------------- */

static GpuPool *
claim_heap (GpuPool *pool)
{
  GpuPool *heap;

  _gpu_pool_lock (&pool->lock);
  heap = _gpu_pool_heap_claim (pool);
  _gpu_pool_unlock_and_destroy (pool);

  return heap;
}

/* Lends a range of @from to @to, and serves a request for @units from it. */
static GpuMemoryBlock *
lend (GpuPool *from,
      GpuPool *to,
      guint32  units)
{
  const GpuPoolRequest request = { .size = units * UNIT, .units = units, .align = 1 };
  GpuPoolNode *node = _gpu_pool_take_lendable (from, &request);

  g_assert_nonnull (node);

  return _gpu_pool_lend (to, node, &request, FALSE);
}

typedef struct
{
  guint64 address;                  /* the end of the last range */
  guint64 bytes;                    /* of all ranges */
  guint   n_active;
} Visit;

static void
add_visited (gpointer              data,
             const GpuPoolSegment *segment,
             guint64               address,
             gsize                 size,
             gsize                 requested G_GNUC_UNUSED,
             GpuPoolState          state,
             gpointer              key G_GNUC_UNUSED)
{
  Visit *visit = data;

  g_assert_cmpuint (address, >=, visit->address);
  g_assert_cmpuint (address, >=, segment->address);
  g_assert_cmpuint (address + size, <=, segment->address + segment->size);
  visit->address = address + size;
  visit->bytes += state != GPU_POOL_UNMAPPED ? size : 0;
  visit->n_active += state == GPU_POOL_ACTIVE;
}

/* A visit finds all ranges, in order, if two heaps lend parts of the same range to each other. */
static void
test_loan_cycle (Fixture       *fixture,
                 gconstpointer  data)
{
  GpuPool *first = claim_heap (fixture->pool), *second = claim_heap (fixture->pool);
  GpuMemoryBlock *blocks[5];
  Visit visit = { 0, };

  _gpu_pool_release (_gpu_pool_alloc (fixture->pool, 8 * MIB, 0, NULL, NULL), NULL);

  blocks[0] = lend (fixture->pool, first, 16);
  for (guint i = 1; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = i % 2 == 1 ? lend (first, second, 16) : lend (second, first, 16);

  _gpu_pool_visit (fixture->pool, add_visited, &visit);
  g_assert_cmpuint (visit.n_active, ==, G_N_ELEMENTS (blocks));
  g_assert_cmpuint (visit.bytes, ==, get_stats (fixture).managed_bytes);

  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    _gpu_pool_release (blocks[i], NULL);
}

/* A heap that has the maximum of areas borrows no further range, so the pool serves the request. It
 * borrows again once it has returned a range. */
static void
test_many_loans (Fixture       *fixture,
                 gconstpointer  data)
{
  GpuMemoryBlock *block;
  GpuPool *heap;

  /* The thread gets its heap during its first request. */
  give (fixture, take (fixture, 8 * MIB, NULL), NULL);
  heap = _gpu_pool_cache_get (fixture->pool, FALSE)->heap;
  if (heap == NULL)
    return;

  heap->n_used_areas += GPU_POOL_MAX_AREAS;
  heap->n_areas = GPU_POOL_MAX_AREAS;
  block = take (fixture, MIB, NULL);
  g_assert_true (gpu_pool_node_heap (block) == fixture->pool);
  give (fixture, block, NULL);
  _gpu_pool_trim (fixture->pool, G_MAXUINT64, FALSE);

  heap->n_used_areas -= GPU_POOL_MAX_AREAS;
  block = take (fixture, MIB, NULL);
  g_assert_true (gpu_pool_node_heap (block) == heap);
  give (fixture, block, NULL);
}

/* Each block counts in exactly one of four figures, also if its memory was lent for it. */
static void
test_counts (Fixture       *fixture,
             gconstpointer  data)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (1);
  GpuMemoryBlock *blocks[64] = { NULL, };
  GpuPoolStats stats;

  for (guint i = 0; i < 5000; i++)
    {
      guint at = g_rand_int_range (random, 0, G_N_ELEMENTS (blocks));

      if (blocks[at] != NULL)
        give (fixture, blocks[at], fixture->a);
      blocks[at] = take (fixture, KIB << g_rand_int_range (random, 0, 11), fixture->a);
    }

  stats = get_stats (fixture);
  g_assert_cmpuint (stats.n_cache_hits + stats.n_hits + stats.n_steals + stats.n_growths, ==,
                    stats.n_allocs);

  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    if (blocks[i] != NULL)
      give (fixture, blocks[i], fixture->a);
}

/* A visit does not report memory to lend as a block. */
static void
test_grown_for_heap (Fixture       *fixture,
                     gconstpointer  data)
{
  const GpuPoolRequest request = { .size = KIB, .units = KIB / UNIT, .align = 1 };
  const GpuPoolRequest lent = { .size = MIB, .units = MIB / UNIT, .align = 1, .is_lent = TRUE };
  GpuPool *heap = claim_heap (fixture->pool);
  Visit visit = { 0, };
  GpuPoolNode *node;

  g_assert_true (_gpu_pool_lock_growth (fixture->pool));
  node = _gpu_pool_grow (fixture->pool, &lent, NULL);
  _gpu_pool_unlock_growth (fixture->pool);
  g_assert_nonnull (node);

  _gpu_pool_visit (fixture->pool, add_visited, &visit);
  g_assert_cmpuint (visit.n_active, ==, 0);
  g_assert_cmpuint (visit.bytes, ==, get_stats (fixture).managed_bytes);

  _gpu_pool_release (_gpu_pool_lend (heap, node, &request, TRUE), NULL);
}

/* The heap of a thread grows by room for 16 requests at once. Smaller ranges would end in free
 * parts that few requests fit in. */
static void
test_room_for_requests (Fixture       *fixture,
                        gconstpointer  data)
{
  GpuMemoryBlock *first = take (fixture, MIB, fixture->a);      /* the thread gets its heap */
  GpuMemoryBlock *blocks[16];
  guint64 n_growths = get_stats (fixture).n_growths;

  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = take (fixture, MIB, fixture->a);

  if ((GPOINTER_TO_UINT (data) & THREAD_HEAPS) != 0)
    {
      g_assert_cmpuint (get_stats (fixture).n_growths, ==, n_growths + 1);
      for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
        g_assert_true (gpu_pool_node_heap (blocks[i]) == gpu_pool_node_heap (blocks[0]));
    }

  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    give (fixture, blocks[i], fixture->a);
  give (fixture, first, fixture->a);
}

static guint n_failures;

static gboolean
count_segment (gpointer         owner,
               gsize            size,
               GpuPoolSegment  *segment,
               GError         **error)
{
  gboolean success = sim_ops.alloc_segment (owner, size, segment, error);

  n_failures += !success;

  return success;
}

static gpointer
count_chunk (gpointer   owner,
             gsize      size,
             GError   **error)
{
  gpointer chunk = sim_ops.create_chunk (owner, size, error);

  n_failures += chunk == NULL;

  return chunk;
}

/* After the owner has refused memory for the heap of a thread, the next requests use the memory of
 * other streams, and do not ask the owner again. */
static void
test_refused_early (Fixture       *fixture,
                    gconstpointer  data)
{
  GpuPoolOps ops = sim_ops;
  GpuMemoryBlock *blocks[16];
  GpuPoolConfig config;
  GpuPoolStats stats;
  GpuPool *pool;
  guint n;

  ops.alloc_segment = count_segment;
  ops.create_chunk = count_chunk;
  sim_config (fixture->sim, &config);
  pool = _gpu_pool_new (&config, &ops, fixture->sim, &sim_stream_ops, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = _gpu_pool_alloc (pool, 512 * KIB, 0, fixture->a, NULL);
  _gpu_pool_get_stats (pool, &stats);               /* updates the peak of used bytes */
  _gpu_pool_release_n (blocks, G_N_ELEMENTS (blocks), fixture->a);
  sim_set_capacity (fixture->sim, get_sim_stats (fixture).bytes);

  n_failures = 0;
  blocks[0] = _gpu_pool_alloc (pool, 512 * KIB, 0, fixture->b, NULL);
  n = n_failures;
  for (guint i = 1; i < G_N_ELEMENTS (blocks) / 2; i++)
    blocks[i] = _gpu_pool_alloc (pool, 512 * KIB, 0, fixture->b, NULL);
  g_assert_cmpuint (n_failures, ==, n);

  for (guint i = 0; i < G_N_ELEMENTS (blocks) / 2; i++)
    g_assert_nonnull (blocks[i]);
  _gpu_pool_release_n (blocks, G_N_ELEMENTS (blocks) / 2, fixture->b);
  _gpu_pool_free (pool);
}

/* New limits take the memory back that caches and heaps of threads may no longer hold. */
static void
test_new_limits (Fixture       *fixture,
                 gconstpointer  data)
{
  const GpuPoolLimits limits = { .limit = 16 * MIB, .release_threshold = G_MAXUINT64 };
  GpuMemoryBlock *blocks[8];
  guint64 cached = 0;
  GpuPoolStats stats;

  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = take (fixture, MIB, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    give (fixture, blocks[i], NULL);

  _gpu_pool_set_limits (fixture->pool, &limits);
  _gpu_pool_visit (fixture->pool, add_cached, &cached);
  g_assert_cmpuint (cached, ==, 0);

  for (guint i = 0; i < gpu_pool_n_heaps (fixture->pool) - 1; i++)
    g_assert_cmpuint (fixture->pool->heaps[i]->n_used_areas, ==, 0);
  stats = get_stats (fixture);
  g_assert_cmpuint (stats.active_blocks, ==, 0);
}

/* --- threads --------------------------------------------------------------------------- */

#define N_THREADS 4
#define N_SHARED  64

typedef struct
{
  Fixture         *fixture;
  SimStream       *stream;
  guint            n_steps;
  guint32          seed;
  GpuMemoryBlock **shared;          /* N_SHARED blocks that the threads exchange; atomic */
} Worker;

/* Allocates blocks, and frees blocks of other threads. */
static gpointer
run_worker (gpointer data)
{
  Worker *worker = data;
  Fixture *fixture = worker->fixture;
  g_autoptr (GRand) random = g_rand_new_with_seed (worker->seed);

  for (guint i = 0; i < worker->n_steps; i++)
    {
      guint at = g_rand_int_range (random, 0, N_SHARED);
      gsize size = (gsize) 1 << g_rand_int_range (random, 0, 19);
      GpuMemoryBlock *block, *old;

      size += g_rand_int_range (random, 0, size);
      block = _gpu_pool_alloc (fixture->pool, size, 0, worker->stream, NULL);
      if (block != NULL)
        {
          sim_take (fixture->sim, worker->stream, _gpu_pool_block_get_address (block), size);
          sim_use (fixture->sim, worker->stream, _gpu_pool_block_get_address (block), size);
          /* Another thread may free the block on its own stream, so that stream must be ordered
           * after the work of this stream. Therefore complete that work first. */
          sim_stream_finish (worker->stream);
        }

      old = g_atomic_pointer_exchange (&worker->shared[at], block);
      if (old != NULL)
        give (fixture, old, worker->stream);
      if (i % 997 == 0)
        _gpu_pool_trim (fixture->pool, MIB, i % 2);
      if (i % 499 == 0)
        get_stats (fixture);
    }

  return NULL;
}

static void
test_threads (Fixture       *fixture,
              gconstpointer  data)
{
  GpuMemoryBlock *shared[N_SHARED] = { NULL, };
  Worker workers[N_THREADS];
  GThread *threads[N_THREADS];
  GpuPoolStats stats;

  /* Run several rounds, so that threads exit while they have caches. */
  for (guint round = 0; round < 3; round++)
    {
      for (guint i = 0; i < N_THREADS; i++)
        {
          workers[i] = (Worker) { fixture, sim_stream_new (fixture->sim, i * 10),
                                  g_test_slow () ? 100000 : 3000, round * 10 + i, shared };
          threads[i] = g_thread_new ("pool", run_worker, &workers[i]);
        }
      for (guint i = 0; i < N_THREADS; i++)
        {
          g_thread_join (threads[i]);
          sim_stream_finish (workers[i].stream);
          sim_stream_close (workers[i].stream);
          sim_stream_unref (workers[i].stream);
        }
      _gpu_pool_trim (fixture->pool, 0, TRUE);
    }

  for (guint i = 0; i < N_SHARED; i++)
    if (shared[i] != NULL)
      give (fixture, shared[i], NULL);

  stats = get_stats (fixture);
  g_assert_cmpuint (stats.active_blocks, ==, 0);
  g_assert_cmpuint (stats.active_bytes, ==, 0);
  g_assert_cmpuint (stats.used_bytes, ==, 0);
  g_assert_cmpuint (stats.n_allocs, ==, stats.n_frees);
}

#define SMALL_BLOCKS 12

/* A thread that frees a block, requests one, or reclaims one, while another thread is in the call
 * number `at` of the owner or of a stream. */
typedef struct
{
  Fixture        *fixture;
  GpuMemoryBlock *block;            /* to free; NULL: request one of `size` */
  gsize           size;
  guint           n_keys;           /* number of streams that used the block */
  gboolean        reclaims;
  GpuMemoryBlock *small[SMALL_BLOCKS];  /* to free one in each call */
  guint           n_small;
  SimStream      *stream;
  guint           n_calls, at;
  gboolean        reuses;           /* takes and frees a block after each wait */
  guint           n_waits;
  gint            n_failures;       /* atomic: attempts of the owner to allocate memory that
                                     * failed */
  GThread        *thread;           /* of let_rival_wait() */
  gint            is_waiting;       /* atomic: the thread waits for the end of a move */
  gint            is_blocked;       /* atomic: attempts of the owner end later */
} Rival;

static Rival rival;

/* Reclaims a block that was used on two streams. The block becomes free memory of the second
 * stream, whose work then completes. */
static void
reclaim_and_complete (void)
{
  GpuPool *pool = rival.fixture->pool;

  sim_stream_finish (rival.fixture->a);
  _gpu_pool_reclaim_shared (pool);
  sim_stream_finish (rival.fixture->b);
  _gpu_pool_streams_poll (pool->streams);
}

static gpointer
run_rival (gpointer data)
{
  const gpointer keys[] = { rival.fixture->a, rival.fixture->b };

  if (rival.reclaims)
    {
      reclaim_and_complete ();
      return NULL;
    }

  if (rival.block == NULL)
    {
      rival.block = take (rival.fixture, rival.size, rival.stream);
      return NULL;
    }

  sim_give (rival.fixture->sim, _gpu_pool_block_get_address (rival.block), MIB);
  _gpu_pool_release_all (rival.block, keys, rival.n_keys);

  return NULL;
}

static gpointer
free_small (gpointer data)
{
  give (rival.fixture, rival.small[--rival.n_small], NULL);

  return NULL;
}

static gpointer
reuse_small (gpointer data)
{
  give (rival.fixture, take (rival.fixture, 4 * KIB, rival.fixture->a), rival.fixture->a);

  return NULL;
}

/* A request of a block would wait for growth_lock. */
static void
meet_rival (void)
{
  gboolean may_run = rival.block != NULL || rival.reclaims
                     || g_atomic_pointer_get (&rival.fixture->pool->grower) != g_thread_self ();

  if (may_run && ++rival.n_calls == rival.at)
    g_thread_join (g_thread_new ("rival", run_rival, NULL));
  if (rival.n_small > 0)
    g_thread_join (g_thread_new ("rival", free_small, NULL));
}

static gboolean
alloc_segment_with_rival (gpointer         owner,
                          gsize            size,
                          GpuPoolSegment  *segment,
                          GError         **error)
{
  gboolean success = sim_ops.alloc_segment (owner, size, segment, error);

  g_atomic_int_add (&rival.n_failures, !success);
  meet_rival ();
  while (g_atomic_int_get (&rival.is_blocked))
    g_thread_yield ();

  return success;
}

static gpointer
create_chunk_with_rival (gpointer   owner,
                         gsize      size,
                         GError   **error)
{
  gpointer chunk = sim_ops.create_chunk (owner, size, error);

  g_atomic_int_add (&rival.n_failures, chunk == NULL);
  meet_rival ();
  while (g_atomic_int_get (&rival.is_blocked))
    g_thread_yield ();

  return chunk;
}

static gboolean
add_fence_with_rival (gpointer   key,
                      guint64   *seq,
                      GError   **error)
{
  meet_rival ();

  return sim_stream_ops.add_fence (key, seq, error);
}

static gboolean
is_reached_with_rival (gpointer key,
                       guint64  seq)
{
  meet_rival ();

  return sim_stream_ops.is_reached (key, seq);
}

static gboolean
wait_with_rival (gpointer key,
                 guint64  seq)
{
  gboolean success = sim_stream_ops.wait (key, seq);

  meet_rival ();
  rival.n_waits++;
  g_assert_cmpuint (rival.n_waits, <, 100);
  if (rival.reuses)
    g_thread_join (g_thread_new ("rival", reuse_small, NULL));

  return success;
}

static void
start_rival (Fixture *fixture)
{
  GpuPoolOps ops = sim_ops;
  GpuPoolStreamOps stream_ops = sim_stream_ops;
  GpuPoolConfig config;

  ops.alloc_segment = alloc_segment_with_rival;
  ops.create_chunk = create_chunk_with_rival;
  stream_ops.add_fence = add_fence_with_rival;
  stream_ops.is_reached = is_reached_with_rival;
  stream_ops.wait = wait_with_rival;

  _gpu_pool_free (fixture->pool);
  sim_config (fixture->sim, &config);
  rival = (Rival) { .fixture = fixture, .size = MIB, .stream = sim_stream_new (fixture->sim, 064) };
  fixture->pool = _gpu_pool_new (&config, &ops, fixture->sim, &stream_ops, NULL);
  sim_set_capacity (fixture->sim, 2 * MIB);
}

/* Frees the blocks of a test. Returns whether the rival has run. */
static gboolean
end_rival (Fixture         *fixture,
           GpuMemoryBlock **blocks)
{
  gboolean has_run = rival.n_calls >= rival.at;

  rival.at = 0;
  for (guint i = 0; i < 2; i++)
    if (blocks[i] != NULL)
      give (fixture, blocks[i], fixture->a);

  sim_stream_finish (fixture->a);
  sim_stream_finish (fixture->b);
  sim_stream_finish (rival.stream);
  _gpu_pool_trim (fixture->pool, 0, TRUE);
  sim_stream_close (rival.stream);
  sim_stream_unref (rival.stream);

  return has_run;
}

/* A request that runs out of memory succeeds if another thread frees a block in any of the calls
 * that the request makes. */
static void
test_freed_meanwhile (Fixture       *fixture,
                      gconstpointer  data)
{
  for (guint n_keys = 1; n_keys <= 2; n_keys++)
    {
      gboolean has_run = TRUE;

      for (guint at = 1; has_run; at++)
        {
          g_autoptr (GError) error = NULL;
          GpuMemoryBlock *blocks[2], *request;

          start_rival (fixture);
          blocks[0] = take (fixture, MIB, fixture->a);
          blocks[1] = take (fixture, MIB, fixture->a);
          rival.n_keys = n_keys;
          rival.block = blocks[1];
          rival.n_calls = 0;
          rival.at = at;

          request = _gpu_pool_alloc (fixture->pool, MIB, 0, fixture->b, &error);
          if (rival.n_calls >= at)
            {
              g_assert_no_error (error);
              blocks[1] = request;
              sim_take (fixture->sim, fixture->b, _gpu_pool_block_get_address (request), MIB);
            }
          else
            g_assert_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY);
          g_test_message ("call %u of %u", at, rival.n_calls);
          has_run = end_rival (fixture, blocks);
        }
    }
}

/* While a thread checks the uses of blocks that several streams used, another thread gets these
 * blocks, too: it waits for their uses instead of running out of memory. */
static void
test_taken_meanwhile (Fixture       *fixture,
                      gconstpointer  data)
{
  gboolean has_run = TRUE;

  for (guint at = 1; has_run; at++)
    {
      const gpointer keys[] = { fixture->a, fixture->b };
      GpuMemoryBlock *blocks[2];

      start_rival (fixture);
      for (guint i = 0; i < 2; i++)
        blocks[i] = take (fixture, MIB, fixture->a);
      for (guint i = 0; i < 2; i++)
        {
          sim_give (fixture->sim, _gpu_pool_block_get_address (blocks[i]), MIB);
          _gpu_pool_release_all (blocks[i], keys, 2);
        }
      rival.n_calls = 0;
      rival.at = at;

      blocks[0] = take (fixture, MIB, fixture->a);
      blocks[1] = rival.block;
      g_test_message ("call %u of %u", at, rival.n_calls);
      has_run = end_rival (fixture, blocks);
    }
}

/* A request that exceeds the memory of the pool asks the owner for memory as often as without the
 * other thread, which frees small blocks meanwhile. */
static void
test_refused_meanwhile (Fixture       *fixture,
                        gconstpointer  data)
{
  GpuMemoryBlock *small[SMALL_BLOCKS], *blocks[2] = { NULL, NULL };
  gint n_alone;

  start_rival (fixture);
  blocks[0] = take (fixture, MIB, fixture->a);
  /* The last one stays, so that no segment becomes empty. */
  blocks[1] = take (fixture, 4 * KIB, fixture->a);
  for (guint i = 0; i < SMALL_BLOCKS; i++)
    small[i] = take (fixture, 4 * KIB, NULL);
  sim_stream_finish (fixture->a);

  for (guint i = 0; i < 2; i++)
    {
      rival.n_failures = 0;
      g_assert_null (_gpu_pool_alloc (fixture->pool, 2 * MIB, 0, rival.stream, NULL));
    }
  n_alone = rival.n_failures;
  g_assert_cmpint (n_alone, <=, fixture->pool->chunks == NULL ? 3 : 6);

  memcpy (rival.small, small, sizeof small);
  rival.n_small = SMALL_BLOCKS;
  rival.n_failures = 0;
  g_assert_null (_gpu_pool_alloc (fixture->pool, 2 * MIB, 0, rival.stream, NULL));
  g_test_message ("%d attempts, %u blocks left", rival.n_failures, rival.n_small);
  g_assert_cmpuint (rival.n_small, <, SMALL_BLOCKS);
  g_assert_cmpint (rival.n_failures, ==, n_alone);

  while (rival.n_small > 0)
    free_small (NULL);
  end_rival (fixture, blocks);
}

/* A request that must fail waits for the work that is pending when growth fails, and not for work
 * that another thread submits later. */
static void
test_busy_meanwhile (Fixture       *fixture,
                     gconstpointer  data)
{
  GpuMemoryBlock *blocks[2] = { NULL, NULL };

  start_rival (fixture);
  /* The first one stays, so that the segment of the others does not become empty. */
  blocks[0] = take (fixture, 4 * KIB, fixture->a);
  blocks[1] = take (fixture, 64 * KIB, fixture->a);
  give (fixture, g_steal_pointer (&blocks[1]), fixture->a);

  rival.n_waits = 0;
  rival.reuses = TRUE;
  g_assert_null (_gpu_pool_alloc (fixture->pool, 4 * MIB, 0, rival.stream, NULL));
  rival.reuses = FALSE;
  g_test_message ("%u waits", rival.n_waits);
  g_assert_cmpuint (rival.n_waits, >, 0);
  end_rival (fixture, blocks);
}

#ifndef __SANITIZE_THREAD__             /* tsan-glib.c replaces the function, too */
/* Replaces the function of GLib, with which a request waits for the end of a move. Caller holds
 * @mutex, so that the move ends after the wait has begun. */
gboolean
g_cond_wait_until (GCond  *cond,
                   GMutex *mutex,
                   gint64  end_time)
{
  gboolean (*wait_until) (GCond *, GMutex *, gint64) = dlsym (RTLD_NEXT, "g_cond_wait_until");

  g_atomic_int_set (&rival.is_waiting, TRUE);

  return wait_until (cond, mutex, end_time);
}
#endif

/* Starts a request in another thread, and waits until it waits. Called for the data of a range that
 * the pool is lending to the heap of this thread. */
static void
let_rival_wait (gpointer data)
{
  rival.thread = g_thread_new ("rival", run_rival, NULL);
#ifdef __SANITIZE_THREAD__
  g_usleep (100 * 1000);
#else
  while (!g_atomic_int_get (&rival.is_waiting))
    g_thread_yield ();
#endif
  g_atomic_int_set (&rival.is_blocked, rival.size > MIB);
}

/* The pool lends free memory to the heap of this thread. Meanwhile a request of @size in another
 * thread finds no memory, and waits. Returns a block of the memory that was lent, or NULL if
 * threads have no heaps. */
static GpuMemoryBlock *
lend_with_rival (Fixture *fixture,
                 gsize    size)
{
  GpuMemoryBlock *all;
  gboolean has_heap;

  start_rival (fixture);
  all = take (fixture, 2 * MIB, fixture->a);
  sim_set_capacity (fixture->sim, MAX (size, 2 * MIB));
  rival.size = size;
  has_heap = _gpu_pool_cache_get (fixture->pool, FALSE)->heap != NULL;
  if (has_heap)
    _gpu_pool_block_set_data (all, fixture, let_rival_wait);
  give (fixture, all, fixture->a);
  sim_stream_finish (fixture->a);

  return has_heap ? take (fixture, 64 * KIB, fixture->a) : NULL;
}

/* While the pool lends memory to the heap of a thread, another thread that finds no memory waits
 * for the rest of it. */
static void
test_lent_meanwhile (Fixture       *fixture,
                     gconstpointer  data)
{
  GpuMemoryBlock *blocks[2] = { lend_with_rival (fixture, MIB), NULL };

  if (rival.thread != NULL)
    g_thread_join (rival.thread);
  blocks[1] = rival.block;
  end_rival (fixture, blocks);
}

/* Like test_lent_meanwhile(), for a request that exceeds the memory of the pool. When the pool has
 * the lent memory again, it can return it to the owner, which then has enough. */
static void
test_returned_meanwhile (Fixture       *fixture,
                         gconstpointer  data)
{
  GpuMemoryBlock *blocks[2] = { lend_with_rival (fixture, 3 * MIB), NULL };

  if (blocks[0] != NULL)
    {
      give (fixture, g_steal_pointer (&blocks[0]), fixture->a);
      sim_stream_finish (fixture->a);
      _gpu_pool_lock (&fixture->pool->lock);
      _gpu_pool_cache_flush_all (fixture->pool, FALSE);
      _gpu_pool_unlock (&fixture->pool->lock);
      g_atomic_int_set (&rival.is_blocked, FALSE);
      g_thread_join (rival.thread);
      blocks[1] = rival.block;
    }
  end_rival (fixture, blocks);
}

/* Another thread may reclaim a block in any of the calls of a request, which then finds the
 * block. */
static void
test_reclaimed_meanwhile (Fixture       *fixture,
                          gconstpointer  data)
{
  gboolean has_run = TRUE;

  for (guint at = 1; has_run; at++)
    {
      const gpointer keys[] = { fixture->a, fixture->b };
      GpuMemoryBlock *blocks[2];

      start_rival (fixture);
      /* One segment for both blocks, which the pool cannot return to the owner. */
      give (fixture, take (fixture, 2 * MIB, fixture->a), fixture->a);
      for (guint i = 0; i < 2; i++)
        blocks[i] = take (fixture, MIB, fixture->a);
      sim_stream_submit (fixture->b);
      sim_give (fixture->sim, _gpu_pool_block_get_address (blocks[1]), MIB);
      _gpu_pool_release_all (blocks[1], keys, 2);
      rival.reclaims = TRUE;
      rival.n_calls = 0;
      rival.at = at;

      blocks[1] = take (fixture, MIB, rival.stream);
      g_test_message ("call %u of %u", at, rival.n_calls);
      has_run = end_rival (fixture, blocks);
    }
}

typedef struct
{
  Sim     *sims[4];
  GpuPool *pools[4];
  gint     done;                    /* atomic */
  GMutex   stay;                    /* keeps the thread alive until unlocked */
} Lives;

static gpointer
use_pools (gpointer data)
{
  Lives *lives = data;

  for (guint i = 0; i < 100; i++)
    for (guint j = 0; j < 4; j++)
      _gpu_pool_release (_gpu_pool_alloc (lives->pools[j], 4096 + j, 0, NULL, NULL), NULL);

  g_atomic_int_set (&lives->done, 1);
  g_mutex_lock (&lives->stay);
  g_mutex_unlock (&lives->stay);

  return NULL;
}

static void
free_pools (Lives *lives,
            guint  first)
{
  for (guint i = 0; i < 4; i++)
    {
      _gpu_pool_free (lives->pools[(first + i) % 4]);
      sim_free (lives->sims[(first + i) % 4]);
    }
}

/* A thread with caches of several pools may exit before or after the pools are freed. */
static void
test_thread_exit (Fixture       *fixture,
                  gconstpointer  data)
{
  for (guint i = 0; i < 20; i++)
    {
      Lives lives = { .done = 0 };
      GThread *thread;

      for (guint j = 0; j < 4; j++)
        {
          lives.sims[j] = sim_new (MIB, UNIT, GPOINTER_TO_INT (data) ? 64 * KIB : 0, TRUE);
          lives.pools[j] = sim_pool_new (lives.sims[j]);
        }
      use_pools (&lives);
      lives.done = 0;

      g_mutex_lock (&lives.stay);
      thread = g_thread_new ("pool", use_pools, &lives);
      while (g_atomic_int_get (&lives.done) == 0)
        g_thread_yield ();
      if (i % 2 == 0)
        free_pools (&lives, i);
      g_mutex_unlock (&lives.stay);
      g_thread_join (thread);
      if (i % 2 == 1)
        free_pools (&lives, i);
      g_mutex_clear (&lives.stay);
    }
}

/* --- edges ----------------------------------------------------------------------------- */

/* Like set_up() with chunks, but with the granularity of GPUs, so that the blocks of the tests are
 * too large for caches. The fragmentation target is 0. Work of the second stream completes at
 * once. */
static void
set_up_edges (Fixture       *fixture,
              gconstpointer  data)
{
  GpuPoolLimits limits = { .release_threshold = G_MAXUINT64 };

  fixture->sim = sim_new (256 * MIB, 64 * KIB, 2 * MIB, TRUE);
  fixture->pool = sim_pool_new (fixture->sim);
  fixture->a = sim_stream_new (fixture->sim, G_MAXUINT64);
  fixture->b = sim_stream_new (fixture->sim, 0);
  _gpu_pool_set_limits (fixture->pool, &limits);
}

/* Allocates five blocks, and frees the second and the fourth on @stream. Each of the two free
 * ranges has a whole granule, and half a granule whose other half is in use: the end of a granule
 * in the first range, and the beginning of a granule in the second. */
static void
take_around_edges (Fixture        *fixture,
                   GpuMemoryBlock *blocks[3],
                   SimStream      *stream)
{
  GpuMemoryBlock *freed[2];

  blocks[0] = take (fixture, 3 * MIB, fixture->a);
  freed[0] = take (fixture, 3 * MIB, stream);
  blocks[1] = take (fixture, 2 * MIB, fixture->a);
  freed[1] = take (fixture, 3 * MIB, stream);
  blocks[2] = take (fixture, 2 * MIB, fixture->a);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, 14 * MIB);

  give (fixture, freed[0], stream);
  give (fixture, freed[1], stream);
}

static void
give_around_edges (Fixture        *fixture,
                   GpuMemoryBlock *blocks[3])
{
  for (guint i = 0; i < 3; i++)
    give (fixture, blocks[i], fixture->a);
}

/* If the owner has no more memory, a request uses two halves of granules and the whole granules,
 * without a wait for work of its stream. The sim checks that no other block uses the memory. */
static void
test_edges (Fixture       *fixture,
            gconstpointer  data)
{
  GpuMemoryBlock *blocks[3], *block;

  take_around_edges (fixture, blocks, fixture->b);
  sim_set_capacity (fixture->sim, 14 * MIB);
  block = take (fixture, 6 * MIB, fixture->a);

  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, 14 * MIB);
  g_assert_cmpuint (get_sim_stats (fixture).n_mapped_twice, ==, 2);
  g_assert_cmpuint (get_sim_stats (fixture).n_waits, ==, 0);

  /* Both orders of frees unmap the granules from one of their two places. */
  if (GPOINTER_TO_INT (data))
    {
      give (fixture, block, fixture->a);
      give_around_edges (fixture, blocks);
    }
  else
    {
      give_around_edges (fixture, blocks);
      give (fixture, block, fixture->a);
    }
  _gpu_pool_trim (fixture->pool, 0, TRUE);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, 0);
}

/* Edges count again after a part of a range and a whole range were in use, and only once. */
static void
test_edge_count (Fixture       *fixture,
                 gconstpointer  data)
{
  const gsize sizes[] = { 3 * MIB / 2, 3 * MIB };
  GpuMemoryBlock *blocks[3];
  guint64 edge_units;

  take_around_edges (fixture, blocks, fixture->b);
  edge_units = fixture->pool->edge_units;
  g_assert_cmpuint (edge_units, >, 0);

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      give (fixture, take (fixture, sizes[i], fixture->b), fixture->b);
      g_assert_cmpuint (fixture->pool->edge_units, ==, edge_units);
    }

  give_around_edges (fixture, blocks);
}

/* While work of another stream may use the halves of the granules, no request uses them. */
static void
test_edges_pending (Fixture       *fixture,
                    gconstpointer  data)
{
  GpuPoolLimits limits = { .release_threshold = G_MAXUINT64, .waste = 1 };
  GpuMemoryBlock *blocks[3], *block;

  take_around_edges (fixture, blocks, fixture->a);
  _gpu_pool_set_limits (fixture->pool, &limits);
  block = take (fixture, 6 * MIB, fixture->b);
  g_assert_cmpuint (get_sim_stats (fixture).n_mapped_twice, ==, 0);
  g_assert_cmpuint (get_sim_stats (fixture).n_waits, ==, 0);

  give (fixture, block, fixture->b);
  give_around_edges (fixture, blocks);
}

#define N_PIECES 5

/* Allocates blocks on @stream, and frees the second and the fourth, which have 1.25 MiB each and no
 * whole granule. */
static void
take_pieces (Fixture        *fixture,
             GpuMemoryBlock *blocks[N_PIECES],
             SimStream      *stream)
{
  static const gsize sizes[N_PIECES] = { 2816, 1280, 2048, 1280, 2816 };

  for (guint i = 0; i < N_PIECES; i++)
    blocks[i] = take (fixture, sizes[i] * KIB, stream);

  give (fixture, blocks[1], stream);
  give (fixture, blocks[3], stream);
}

/* A request uses parts of granules that earlier work of its stream may use. Another stream that
 * gets the rest of these parts waits for that work. */
static void
test_edges_own (Fixture       *fixture,
                gconstpointer  data)
{
  GpuMemoryBlock *blocks[N_PIECES], *block, *rest;

  take_pieces (fixture, blocks, fixture->a);
  sim_set_capacity (fixture->sim, get_stats (fixture).managed_bytes);

  block = take (fixture, 2432 * KIB, fixture->a);
  g_assert_cmpuint (get_sim_stats (fixture).n_mapped_twice, ==, 2);
  g_assert_cmpuint (get_stats (fixture).n_steals, ==, 0);
  rest = take (fixture, 128 * KIB, fixture->b);
  g_assert_cmpuint (get_stats (fixture).n_steals, ==, 1);

  give (fixture, rest, fixture->b);
  give (fixture, block, fixture->a);
  for (guint i = 0; i < N_PIECES; i += 2)
    give (fixture, blocks[i], fixture->a);
}

/* A chunk that cannot be mapped leaves the halves of the granules free. */
static void
test_edges_failure (Fixture       *fixture,
                    gconstpointer  data)
{
  g_autoptr (GError) error = NULL;
  GpuMemoryBlock *blocks[3], *block;

  take_around_edges (fixture, blocks, fixture->b);
  sim_set_capacity (fixture->sim, 14 * MIB);
  for (guint i = 1; ; i++)
    {
      sim_fail (fixture->sim, i, GPU_ERROR_FAILED);
      block = _gpu_pool_alloc (fixture->pool, 6 * MIB, 0, fixture->a, &error);
      if (!sim_has_failed (fixture->sim))
        break;
      if (block != NULL)
        _gpu_pool_release (block, fixture->a);
      else
        g_assert_error (error, GPU_ERROR, GPU_ERROR_FAILED);
      g_clear_error (&error);
    }
  sim_fail (fixture->sim, 0, GPU_ERROR_FAILED);

  g_assert_no_error (error);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, <=, 14 * MIB);
  _gpu_pool_release (block, fixture->a);
  give_around_edges (fixture, blocks);
  _gpu_pool_trim (fixture->pool, 0, TRUE);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, 0);
}

/* If all memory is free, but work of the stream is pending, parts of the same granule at two places
 * become one granule again, without a wait for that work. The sim checks that no other block uses
 * the memory at the old addresses. */
static void
test_edges_reunited (Fixture       *fixture,
                     gconstpointer  data)
{
  GpuMemoryBlock *blocks[N_PIECES], *block, *rest;
  gsize size;

  take_pieces (fixture, blocks, fixture->a);
  size = get_stats (fixture).managed_bytes;
  sim_set_capacity (fixture->sim, size);

  block = take (fixture, 2432 * KIB, fixture->a);
  g_assert_cmpuint (get_sim_stats (fixture).n_mapped_twice, ==, 2);
  give (fixture, block, fixture->a);
  for (guint i = 0; i < N_PIECES; i += 2)
    give (fixture, blocks[i], fixture->a);

  block = take (fixture, size - 2 * MIB, fixture->a);
  g_assert_cmpuint (get_sim_stats (fixture).n_waits, ==, 0);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, size);
  rest = take (fixture, 2 * MIB, fixture->b);
  g_assert_cmpuint (get_stats (fixture).n_steals, ==, 1);

  give (fixture, rest, fixture->b);
  give (fixture, block, fixture->a);
  _gpu_pool_trim (fixture->pool, 0, TRUE);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, 0);
}

/* Granules with pending uses are only made whole while old mappings have less than a quarter of the
 * addresses. */
static void
test_edges_stale (Fixture       *fixture,
                  gconstpointer  data)
{
  GpuMemoryBlock *blocks[N_PIECES], *block;
  GpuPoolRequest request = { .size = 4 * MIB };
  GpuPoolChunks *chunks = fixture->pool->chunks;
  guint most = chunks->n_granules / 4, others;

  take_pieces (fixture, blocks, fixture->a);
  sim_set_capacity (fixture->sim, get_stats (fixture).managed_bytes);
  block = take (fixture, 2432 * KIB, fixture->a);
  give (fixture, block, fixture->a);
  g_assert_cmpuint (chunks->splits->len, ==, 2);

  others = most - 1 - chunks->n_stale;
  chunks->n_stale += others;
  request.stream = _gpu_pool_streams_get (fixture->pool->streams, fixture->a);
  request.slot = _gpu_pool_stream_get_slot (request.stream);
  g_assert_true (_gpu_pool_lock_growth (fixture->pool));
  _gpu_pool_reunite_chunks (fixture->pool, &request);
  _gpu_pool_unlock_growth (fixture->pool);
  g_assert_cmpuint (chunks->splits->len, ==, 1);
  g_assert_cmpuint (chunks->n_stale, ==, most);
  chunks->n_stale -= others;

  for (guint i = 0; i < N_PIECES; i += 2)
    give (fixture, blocks[i], fixture->a);
}

/* Another stream that gets a part of such a granule waits for the pending work. */
static void
test_edges_reunited_use (Fixture       *fixture,
                         gconstpointer  data)
{
  GpuMemoryBlock *blocks[N_PIECES], *block, *other;

  take_pieces (fixture, blocks, fixture->a);
  sim_set_capacity (fixture->sim, get_stats (fixture).managed_bytes);
  block = take (fixture, 2432 * KIB, fixture->a);
  g_assert_cmpuint (get_sim_stats (fixture).n_mapped_twice, ==, 2);
  give (fixture, block, fixture->a);

  sim_set_capacity (fixture->sim, 256 * MIB);
  block = take (fixture, 4 * MIB, fixture->a);
  g_assert_cmpuint (get_stats (fixture).largest_free, ==, 1280 * KIB);
  other = take (fixture, 1280 * KIB, fixture->b);
  g_assert_cmpuint (get_stats (fixture).n_steals, ==, 1);

  give (fixture, other, fixture->b);
  give (fixture, block, fixture->a);
  for (guint i = 0; i < N_PIECES; i += 2)
    give (fixture, blocks[i], fixture->a);
}

#define N_GROUPS 12
#define N_BLOCKS (5 * N_GROUPS)

/* Allocates groups of five blocks, and frees two blocks of the first @n groups, as
 * take_around_edges() does. A group has 14 MiB. */
static void
take_groups (Fixture        *fixture,
             GpuMemoryBlock *blocks[N_BLOCKS],
             guint           n)
{
  static const guint sizes[] = { 3, 3, 2, 3, 3 };

  for (guint i = 0; i < N_BLOCKS; i++)
    blocks[i] = take (fixture, sizes[i % 5] * MIB, fixture->b);

  for (guint i = 0; i < n; i++)
    {
      give (fixture, g_steal_pointer (&blocks[5 * i + 1]), fixture->b);
      give (fixture, g_steal_pointer (&blocks[5 * i + 3]), fixture->b);
    }
}

static void
give_groups (Fixture        *fixture,
             GpuMemoryBlock *blocks[N_BLOCKS])
{
  for (guint i = 0; i < N_BLOCKS; i++)
    if (blocks[i] != NULL)
      give (fixture, blocks[i], fixture->b);
}

/* A pool that would grow beyond its fragmentation target uses edges, but not for a large part of
 * its memory: the addresses around the block could not be joined with others once it is freed. */
static void
test_edges_share (Fixture       *fixture,
                  gconstpointer  data)
{
  GpuMemoryBlock *blocks[N_BLOCKS], *small, *large;

  take_groups (fixture, blocks, N_GROUPS);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, N_GROUPS * 14 * MIB);

  /* While many whole granules are free, no edges are used. */
  small = take (fixture, 2 * MIB, fixture->b);
  g_assert_cmpuint (get_sim_stats (fixture).n_mapped_twice, ==, 0);
  give (fixture, small, fixture->b);

  large = take (fixture, 16 * MIB, fixture->b);
  g_assert_cmpuint (get_sim_stats (fixture).n_mapped_twice, ==, 0);
  small = take (fixture, 6 * MIB, fixture->b);
  g_assert_cmpuint (get_sim_stats (fixture).n_mapped_twice, ==, 2);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, <=, (N_GROUPS * 14 + 2) * MIB);

  give (fixture, small, fixture->b);
  give (fixture, large, fixture->b);
  give_groups (fixture, blocks);
}

/* If there are many edges and few whole granules, a request uses edges although a free range could
 * serve it, unless the edges are small, or that range has pending uses: then its granules could not
 * be moved. */
static void
test_edges_preferred (Fixture       *fixture,
                      gconstpointer  data)
{
  SimStream *stream = GPOINTER_TO_INT (data) ? fixture->a : fixture->b;
  GpuPoolLimits limits = { .release_threshold = G_MAXUINT64, .waste = 0.01 };
  GpuMemoryBlock *blocks[N_BLOCKS], *wide, *next, *block;
  guint64 address;

  wide = take (fixture, 5 * MIB, stream);
  next = take (fixture, MIB, fixture->b);
  address = _gpu_pool_block_get_address (wide);
  take_groups (fixture, blocks, 3);
  _gpu_pool_set_limits (fixture->pool, &limits);
  give (fixture, wide, stream);

  block = take (fixture, 4 * MIB + MIB / 2, stream);
  g_assert_cmpuint (get_sim_stats (fixture).n_mapped_twice, ==, 0);
  g_assert_cmpuint (_gpu_pool_block_get_address (block), ==, address);
  give (fixture, block, stream);

  block = take (fixture, 4 * MIB, stream);
  g_assert_cmpuint (get_sim_stats (fixture).n_mapped_twice, ==, stream == fixture->a ? 0 : 2);
  if (stream == fixture->a)
    g_assert_cmpuint (_gpu_pool_block_get_address (block), ==, address);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, (N_GROUPS * 14 + 6) * MIB);

  give (fixture, block, stream);
  give (fixture, next, fixture->b);
  give_groups (fixture, blocks);
}

/* A pool that no longer grows has enough memory, so it stops searching for edges before whole
 * granules. Each search polls fences. */
static void
test_edges_budget (Fixture       *fixture,
                   gconstpointer  data)
{
  GpuPoolLimits limits = { .release_threshold = G_MAXUINT64, .waste = 0.01 };
  GpuMemoryBlock *blocks[N_BLOCKS], *wide, *next;
  guint64 n_fences;

  wide = take (fixture, 5 * MIB, fixture->b);
  next = take (fixture, MIB, fixture->b);
  take_groups (fixture, blocks, 3);
  _gpu_pool_set_limits (fixture->pool, &limits);
  give (fixture, wide, fixture->b);

  for (guint i = 0; i < 1000; i++)
    give (fixture, take (fixture, 4 * MIB + MIB / 2, fixture->b), fixture->b);
  n_fences = get_sim_stats (fixture).n_fences;
  g_assert_cmpuint (n_fences, >, 100);
  give (fixture, take (fixture, 4 * MIB + MIB / 2, fixture->b), fixture->b);
  g_assert_cmpuint (get_sim_stats (fixture).n_fences, ==, n_fences);

  give (fixture, next, fixture->b);
  give_groups (fixture, blocks);
}

/* --- which chunks move ----------------------------------------------------------------- */

/* A chunk that is larger than needed also moves, and if it does not fit, smaller chunks replace it:
 * the pool never has more memory than before. */
static void
test_moved_larger (void)
{
  Sim *sim = sim_new (2048 * MIB, 64 * KIB, 2 * MIB, TRUE);
  GpuPool *pool = sim_pool_new (sim);
  SimStream *stream = sim_stream_new (sim, 0);
  GpuPoolLimits limits = { .release_threshold = G_MAXUINT64 };
  GpuMemoryBlock *large, *wide, *next, *last, *block;
  GpuPoolStats stats;
  SimStats made;

  _gpu_pool_set_limits (pool, &limits);
  large = _gpu_pool_alloc (pool, 1200 * MIB, 0, stream, NULL);

  /* Two chunks of 4 MiB: a 280th of the peak, in granules. A block then uses one of them. */
  wide = _gpu_pool_alloc (pool, 8 * MIB, 0, stream, NULL);
  next = _gpu_pool_alloc (pool, 2 * MIB, 0, stream, NULL);
  last = _gpu_pool_alloc (pool, 4 * MIB, 0, stream, NULL);
  _gpu_pool_release (wide, stream);
  wide = _gpu_pool_alloc (pool, 4 * MIB, 0, stream, NULL);
  sim_get_stats (sim, &made);
  g_assert_cmpuint (made.bytes, ==, 1214 * MIB);
  g_assert_cmpuint (made.n_chunks, ==, 605);

  /* The request extends the range at the end by 2 MiB. */
  limits.soft_limit = made.bytes;
  _gpu_pool_set_limits (pool, &limits);
  _gpu_pool_release (last, stream);
  block = _gpu_pool_alloc (pool, 6 * MIB, 0, stream, NULL);
  g_assert_nonnull (block);
  sim_get_stats (sim, &made);
  g_assert_cmpuint (made.peak_bytes, ==, 1214 * MIB);
  _gpu_pool_get_stats (pool, &stats);
  g_assert_cmpuint (stats.managed_bytes, ==, 1212 * MIB);

  _gpu_pool_release (block, stream);
  _gpu_pool_release (wide, stream);
  _gpu_pool_release (next, stream);
  _gpu_pool_release (large, stream);
  _gpu_pool_free (pool);
  sim_stream_unref (stream);
  sim_free (sim);
}

/* While a pool is frozen, no chunk is mapped a second time, and none is unmapped. */
static void
test_edges_frozen (Fixture       *fixture,
                   gconstpointer  data)
{
  GpuPoolOps ops = sim_ops;
  GpuPoolConfig config;
  GpuMemoryBlock *blocks[N_PIECES], *block;
  guint64 n_unmaps;

  ops.is_frozen = get_frozen;
  sim_config (fixture->sim, &config);
  _gpu_pool_free (fixture->pool);
  fixture->pool = _gpu_pool_new (&config, &ops, fixture->sim, &sim_stream_ops, NULL);

  take_pieces (fixture, blocks, fixture->b);
  sim_set_capacity (fixture->sim, 10 * MIB);

  is_frozen = TRUE;
  g_assert_null (_gpu_pool_alloc (fixture->pool, 2560 * KIB, 0, fixture->b, NULL));
  g_assert_cmpuint (get_sim_stats (fixture).n_mapped_twice, ==, 0);

  is_frozen = FALSE;
  block = take (fixture, 2560 * KIB, fixture->b);
  g_assert_cmpuint (get_sim_stats (fixture).n_mapped_twice, ==, 2);
  n_unmaps = get_sim_stats (fixture).n_unmaps;

  is_frozen = TRUE;
  give (fixture, block, fixture->b);
  g_assert_null (_gpu_pool_alloc (fixture->pool, 8 * MIB, 0, fixture->b, NULL));
  g_assert_cmpuint (get_sim_stats (fixture).n_unmaps, ==, n_unmaps);

  is_frozen = FALSE;
  for (guint i = 0; i < N_PIECES; i += 2)
    give (fixture, blocks[i], fixture->b);
}

/* Small blocks come from the free range with the lowest address, not from the smallest one. */
static void
test_low_addresses (Fixture       *fixture,
                    gconstpointer  data)
{
  GpuMemoryBlock *blocks[4], *small;
  guint64 address;

  blocks[0] = take (fixture, 6 * MIB, fixture->b);
  blocks[1] = take (fixture, 2 * MIB, fixture->b);
  blocks[2] = take (fixture, 4 * MIB, fixture->b);
  blocks[3] = take (fixture, 2 * MIB, fixture->b);
  address = _gpu_pool_block_get_address (blocks[0]);
  g_assert_cmpuint (_gpu_pool_block_get_address (blocks[3]), >, address);
  give (fixture, blocks[0], fixture->b);
  give (fixture, blocks[2], fixture->b);

  small = take (fixture, 64 * KIB, fixture->b);
  g_assert_cmpuint (_gpu_pool_block_get_address (small) - address, <, 6 * MIB);

  give (fixture, small, fixture->b);
  give (fixture, blocks[1], fixture->b);
  give (fixture, blocks[3], fixture->b);
}

/* --- chunks with pending uses ------------------------------------------------------------ */

#define N_HOLES 3

/* Allocates blocks of 4 MiB on the first stream, and frees every second one. Work on all of them is
 * pending. No more memory is left. */
static void
take_around_holes (Fixture        *fixture,
                   GpuMemoryBlock *blocks[N_HOLES])
{
  GpuMemoryBlock *holes[N_HOLES];

  for (guint i = 0; i < N_HOLES; i++)
    {
      holes[i] = take (fixture, 4 * MIB, fixture->a);
      blocks[i] = take (fixture, 4 * MIB, fixture->a);
    }
  for (guint i = 0; i < N_HOLES; i++)
    give (fixture, holes[i], fixture->a);

  sim_set_capacity (fixture->sim, get_stats (fixture).managed_bytes);
}

static void
give_around_holes (Fixture        *fixture,
                   GpuMemoryBlock *blocks[N_HOLES])
{
  for (guint i = 0; i < N_HOLES; i++)
    give (fixture, blocks[i], fixture->a);
}

/* A request gets memory that pending work of its stream uses, without a wait. The work keeps its
 * addresses. Another stream that gets the rest waits for the work. */
static void
test_pending_moved (Fixture       *fixture,
                    gconstpointer  data)
{
  GpuMemoryBlock *blocks[N_HOLES], *block, *rest;

  take_around_holes (fixture, blocks);
  block = take (fixture, 11 * MIB, fixture->a);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, 24 * MIB);
  g_assert_cmpuint (get_sim_stats (fixture).n_mapped_twice, >, 0);
  g_assert_cmpuint (get_sim_stats (fixture).n_unmaps, ==, 0);
  g_assert_cmpuint (get_sim_stats (fixture).n_waits, ==, 0);

  rest = take (fixture, 512 * KIB, fixture->b);
  g_assert_cmpuint (get_stats (fixture).n_steals, ==, 1);
  give (fixture, rest, fixture->b);

  /* The old addresses are unmapped once the work has completed. */
  _gpu_pool_trim (fixture->pool, 0, FALSE);
  g_assert_cmpuint (get_sim_stats (fixture).n_unmaps, ==, 0);
  give (fixture, block, fixture->a);
  _gpu_pool_trim (fixture->pool, 12 * MIB, TRUE);
  g_assert_cmpuint (get_sim_stats (fixture).n_unmaps, >, 0);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, 12 * MIB);

  give_around_holes (fixture, blocks);
}

/* Memory moves again and again while all work on it is pending. */
static void
test_pending_repeated (Fixture       *fixture,
                       gconstpointer  data)
{
  GpuMemoryBlock *blocks[N_HOLES], *block;

  take_around_holes (fixture, blocks);
  for (guint i = 0; i < 6; i++)
    {
      GpuMemoryBlock *front, *back;

      block = take (fixture, 12 * MIB, fixture->a);
      give (fixture, block, fixture->a);
      front = take (fixture, 4 * MIB, fixture->a);
      back = take (fixture, 4 * MIB, fixture->a);
      give (fixture, front, fixture->a);
      g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, 24 * MIB);
      block = take (fixture, 8 * MIB, fixture->a);
      give (fixture, back, fixture->a);
      give (fixture, block, fixture->a);
    }
  g_assert_cmpuint (get_sim_stats (fixture).n_waits, ==, 0);
  give_around_holes (fixture, blocks);

  _gpu_pool_trim (fixture->pool, 0, TRUE);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, 0);
  g_assert_cmpuint (get_sim_stats (fixture).bytes, ==, 0);
}

/* Allocates 12 MiB on the second stream, which gets the memory of three holes: the pool does not
 * wait, but orders the stream after the uses of the holes. It grows by a granule at most. */
static void
take_holes (Fixture        *fixture,
            GpuMemoryBlock *blocks[N_HOLES])
{
  GpuMemoryBlock *block;

  sim_set_capacity (fixture->sim, 256 * MIB);
  block = take (fixture, 12 * MIB, fixture->b);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, <=, 26 * MIB);
  g_assert_cmpuint (get_sim_stats (fixture).n_mapped_twice, >, 0);
  g_assert_cmpuint (get_sim_stats (fixture).n_orders, >, 0);
  g_assert_cmpuint (get_sim_stats (fixture).n_waits, ==, 0);

  give (fixture, block, fixture->b);
  give_around_holes (fixture, blocks);
  _gpu_pool_trim (fixture->pool, 0, TRUE);
  g_assert_cmpuint (get_sim_stats (fixture).bytes, ==, 0);
}

/* A request gets memory that pending work of another stream uses. */
static void
test_pending_other (Fixture       *fixture,
                    gconstpointer  data)
{
  GpuMemoryBlock *blocks[N_HOLES];

  take_around_holes (fixture, blocks);
  take_holes (fixture, blocks);
}

/* Allocates blocks of 4 MiB on the first stream, and frees every second one after use on all of the
 * streams. */
static void
share_holes (Fixture         *fixture,
             SimStream      **streams,
             guint            n_streams,
             GpuMemoryBlock  *blocks[N_HOLES])
{
  GpuMemoryBlock *holes[N_HOLES];

  for (guint i = 0; i < N_HOLES; i++)
    {
      holes[i] = take (fixture, 4 * MIB, fixture->a);
      blocks[i] = take (fixture, 4 * MIB, fixture->a);
    }
  for (guint i = 0; i < N_HOLES; i++)
    {
      guint64 address = _gpu_pool_block_get_address (holes[i]);

      for (guint k = 1; k < n_streams; k++)
        {
          sim_order (streams[k], streams[k - 1]);
          sim_use (fixture->sim, streams[k], address, 4 * MIB);
        }
      sim_give (fixture->sim, address, 4 * MIB);
      _gpu_pool_release_all (holes[i], (const gpointer *) streams, n_streams);
    }
}

/* The same, if pending work of several streams uses the memory. */
static void
test_pending_shared (Fixture       *fixture,
                     gconstpointer  data)
{
  SimStream *streams[] = { fixture->a, fixture->b, sim_stream_new (fixture->sim, G_MAXUINT64) };
  GpuMemoryBlock *blocks[N_HOLES];

  share_holes (fixture, streams, G_N_ELEMENTS (streams), blocks);
  take_holes (fixture, blocks);
  sim_stream_unref (streams[2]);
}

/* Creates the pool again, with other operations of its streams, and with get_frozen(). */
static void
replace_pool (Fixture                *fixture,
              const GpuPoolStreamOps *stream_ops)
{
  GpuPoolLimits limits = { .release_threshold = G_MAXUINT64 };
  GpuPoolOps ops = sim_ops;
  GpuPoolConfig config;

  ops.is_frozen = get_frozen;
  sim_config (fixture->sim, &config);
  _gpu_pool_free (fixture->pool);
  fixture->pool = _gpu_pool_new (&config, &ops, fixture->sim, stream_ops, NULL);
  _gpu_pool_set_limits (fixture->pool, &limits);
}

static gpointer waiting_key;

static gboolean
is_not_waiting (gpointer key)
{
  return key != waiting_key;
}

/* The pool orders no stream after work that waits for an action of the program, and does not take
 * memory for a stream with such work: other streams would have to wait for that action, too. */
static void
test_pending_waiting (Fixture       *fixture,
                      gconstpointer  data)
{
  GpuPoolStreamOps ops = sim_stream_ops;
  GpuMemoryBlock *blocks[N_HOLES], *block;

  ops.is_free = is_not_waiting;
  replace_pool (fixture, &ops);
  take_around_holes (fixture, blocks);
  sim_set_capacity (fixture->sim, 256 * MIB);
  waiting_key = GPOINTER_TO_INT (data) ? fixture->a : fixture->b;
  block = take (fixture, 12 * MIB, fixture->b);
  g_assert_cmpuint (get_sim_stats (fixture).n_orders, ==, 0);

  waiting_key = NULL;
  give (fixture, block, fixture->b);
  give_around_holes (fixture, blocks);
}

/* If one of the streams that used the memory waits for an action of the program, the pool neither
 * waits for the others nor orders the stream after them: it cannot take over the memory. */
static void
test_pending_partly (Fixture       *fixture,
                     gconstpointer  data)
{
  SimStream *streams[] = { fixture->a, sim_stream_new (fixture->sim, G_MAXUINT64) };
  GpuPoolStreamOps ops = sim_stream_ops;
  GpuMemoryBlock *blocks[N_HOLES], *block;

  ops.is_free = is_not_waiting;
  replace_pool (fixture, &ops);
  share_holes (fixture, streams, G_N_ELEMENTS (streams), blocks);
  waiting_key = streams[1];
  block = take (fixture, 12 * MIB, fixture->b);
  g_assert_cmpuint (get_sim_stats (fixture).n_orders, ==, 0);
  g_assert_cmpuint (get_sim_stats (fixture).n_waits, ==, 0);

  waiting_key = NULL;
  give (fixture, block, fixture->b);
  give_around_holes (fixture, blocks);
  sim_stream_unref (streams[1]);
}

static gpointer capturing_key;

static gboolean
is_capturing (gpointer key)
{
  return key == capturing_key;
}

/* A stream that is being captured gets no memory with pending uses of other streams, even if it was
 * ordered after them earlier: until the capture ends, no other stream could use that memory. */
static void
test_pending_capturing (Fixture       *fixture,
                        gconstpointer  data)
{
  GpuPoolStreamOps ops = sim_stream_ops;
  GpuMemoryBlock *blocks[N_HOLES], *block, *first;
  guint64 managed;

  ops.is_capturing = is_capturing;
  replace_pool (fixture, &ops);
  take_around_holes (fixture, blocks);
  sim_set_capacity (fixture->sim, 256 * MIB);
  first = take (fixture, 512 * KIB, fixture->b);
  g_assert_cmpuint (get_stats (fixture).n_steals, ==, 1);

  is_frozen = TRUE;
  capturing_key = fixture->b;
  managed = get_stats (fixture).managed_bytes;
  block = take (fixture, 4 * MIB, fixture->b);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, managed + 4 * MIB);

  is_frozen = FALSE;
  capturing_key = NULL;
  give (fixture, first, fixture->b);
  give (fixture, block, fixture->b);
  give_around_holes (fixture, blocks);
}

/* If a call fails, the memory stays where it is, and none is lost. */
static void
test_pending_failure (Fixture       *fixture,
                      gconstpointer  data)
{
  g_autoptr (GError) error = NULL;
  GpuMemoryBlock *blocks[N_HOLES], *block;

  take_around_holes (fixture, blocks);
  for (guint i = 1; ; i++)
    {
      sim_fail (fixture->sim, i, GPU_ERROR_FAILED);
      block = _gpu_pool_alloc (fixture->pool, 12 * MIB, 0, fixture->a, &error);
      if (!sim_has_failed (fixture->sim))
        break;
      if (block != NULL)
        _gpu_pool_release (block, fixture->a);
      g_clear_error (&error);
      g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, 24 * MIB);
    }
  sim_fail (fixture->sim, 0, GPU_ERROR_FAILED);

  g_assert_no_error (error);
  _gpu_pool_release (block, fixture->a);
  give_around_holes (fixture, blocks);
  _gpu_pool_trim (fixture->pool, 0, TRUE);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, 0);
}

/* A stream that gets all the moved memory completes after the work of the first stream. So a trim
 * that has waited for it also returns chunks whose old addresses the first stream used. */
static void
test_pending_trimmed (Fixture       *fixture,
                      gconstpointer  data)
{
  GpuMemoryBlock *blocks[N_HOLES], *block;

  take_around_holes (fixture, blocks);
  block = take (fixture, 12 * MIB, fixture->a);
  g_assert_cmpuint (get_sim_stats (fixture).n_mapped_twice, >, 0);
  give (fixture, block, fixture->a);
  block = take (fixture, 12 * MIB, fixture->b);
  g_assert_cmpuint (get_stats (fixture).n_steals, ==, 1);
  give (fixture, block, fixture->b);

  _gpu_pool_trim (fixture->pool, 0, TRUE);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, 12 * MIB);
  g_assert_cmpuint (get_sim_stats (fixture).bytes, ==, 12 * MIB);

  give_around_holes (fixture, blocks);
}

/* Adds a fence for the free memory of each stream, but returns no memory. */
static void
add_fences (Fixture *fixture)
{
  _gpu_pool_trim (fixture->pool, G_MAXUINT64, FALSE);
}

/* If a stream has many fences, the pool forgets some, so it may learn late that the uses of old
 * addresses have completed. Until the pool unmaps these, the memory exists, and counts as
 * managed. */
static void
test_pending_forgotten (Fixture       *fixture,
                        gconstpointer  data)
{
  GpuMemoryBlock *blocks[N_HOLES], *block, *extra = take (fixture, 2 * MIB, fixture->a);
  guint64 managed;

  for (guint i = 2; i < GPU_POOL_MAX_FENCES; i++)
    {
      block = take (fixture, 2 * MIB, fixture->a);
      give (fixture, block, fixture->a);
      add_fences (fixture);
    }
  take_around_holes (fixture, blocks);
  managed = get_stats (fixture).managed_bytes;
  block = take (fixture, 12 * MIB, fixture->a);
  g_assert_cmpuint (get_sim_stats (fixture).n_mapped_twice, >, 0);
  give (fixture, block, fixture->a);
  block = take (fixture, 12 * MIB, fixture->b);
  g_assert_cmpuint (get_sim_stats (fixture).n_orders, ==, 1);
  for (guint i = 0; i < 3; i++)
    {
      give (fixture, extra, fixture->a);
      add_fences (fixture);
      extra = take (fixture, 2 * MIB, fixture->a);
    }

  /* The second stream, and thereby the work at the old addresses, has completed. */
  give (fixture, block, fixture->b);
  add_fences (fixture);
  sim_stream_finish (fixture->b);
  _gpu_pool_trim (fixture->pool, 0, FALSE);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, get_sim_stats (fixture).bytes);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, managed);

  sim_stream_finish (fixture->a);
  _gpu_pool_trim (fixture->pool, 0, FALSE);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, get_sim_stats (fixture).bytes);
  g_assert_cmpuint (get_stats (fixture).managed_bytes, ==, 14 * MIB);

  give (fixture, extra, fixture->a);
  give_around_holes (fixture, blocks);
}

/* --- heaps of threads ----------------------------------------------------------------------- */

/* A heap grows the pool, up to a quarter above the peak of used bytes, instead of flushing the
 * caches of all threads or waiting for another stream. */
static void
test_early_growth (void)
{
  enum { N_KEPT = 4096, N_FREED = 2048, N_EARLY = 1200, N_MORE = 2000 };
  const gsize size = 256 * KIB;
  Sim *sim = sim_new (4096 * MIB, UNIT, 2 * MIB, FALSE);
  SimStream *a = sim_stream_new (sim, G_MAXUINT64), *b = sim_stream_new (sim, G_MAXUINT64);
  g_autoptr (GPtrArray) blocks = g_ptr_array_new (), freed = g_ptr_array_new ();
  GpuPoolStats before, stats;
  SimStats sim_stats;
  GpuPool *pool;

  sim_set_thread_heaps (sim, TRUE);
  pool = sim_pool_new (sim);
  for (guint i = 0; i < N_KEPT; i++)
    g_ptr_array_add (blocks, _gpu_pool_alloc (pool, size, 0, a, NULL));
  for (guint i = 0; i < N_FREED; i++)
    g_ptr_array_add (freed, _gpu_pool_alloc (pool, size, 0, b, NULL));
  for (guint i = 0; i < N_FREED; i++)
    _gpu_pool_release (freed->pdata[i], b);

  _gpu_pool_get_stats (pool, &before);
  for (guint i = 0; i < N_MORE; i++)
    {
      g_ptr_array_add (blocks, _gpu_pool_alloc (pool, size, 0, a, NULL));
      g_assert_nonnull (blocks->pdata[blocks->len - 1]);
      _gpu_pool_get_stats (pool, &stats);
      if (i == N_EARLY)
        {
          sim_get_stats (sim, &sim_stats);
          g_assert_cmpuint (stats.n_slow, ==, before.n_slow);
          g_assert_cmpuint (stats.n_flushes, ==, before.n_flushes);
          g_assert_cmpuint (sim_stats.n_orders, ==, 0);
        }
    }
  g_assert_cmpuint (stats.n_slow, >, before.n_slow);
  g_assert_cmpfloat (stats.peak_managed_bytes, <, 1.26 * stats.peak_used_bytes);

  for (guint i = 0; i < blocks->len; i++)
    _gpu_pool_release (blocks->pdata[i], a);
  _gpu_pool_free (pool);
  sim_stream_unref (a);
  sim_stream_unref (b);
  sim_free (sim);
}

/* --- statistics ------------------------------------------------------------------------ */

/* An empty pool is not fragmented, although work of one or two streams may still use its ranges,
 * and although a cache holds some of them. */
static void
test_empty (Fixture       *fixture,
            gconstpointer  data)
{
  gpointer keys[] = { fixture->a, fixture->b };
  GpuMemoryBlock *blocks[6];

  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = take (fixture, i < 3 ? 100 * KIB : 1100 * KIB, fixture->a);

  for (guint i = 0; i < G_N_ELEMENTS (blocks); i += 2)
    give (fixture, blocks[i], fixture->a);
  for (guint i = 1; i < G_N_ELEMENTS (blocks); i += 2)
    {
      sim_give (fixture->sim, _gpu_pool_block_get_address (blocks[i]),
                _gpu_pool_block_get_size (blocks[i]));
      _gpu_pool_release_all (blocks[i], keys, 2);
    }

  g_assert_cmpuint (get_stats (fixture).active_blocks, ==, 0);
  /* A segment has 4 MiB. */
  if (GPOINTER_TO_UINT (data) == CHUNKS)
    g_assert_cmpuint (get_stats (fixture).largest_free, ==, get_stats (fixture).managed_bytes);
  else
    g_assert_cmpuint (get_stats (fixture).largest_free, ==, 4 * MIB);
}

/* --- peaks ----------------------------------------------------------------------------- */

#define N_TWIN_BLOCKS 48

/* A pool that gets the same requests as another one. */
typedef struct
{
  Sim            *sim;
  GpuPool        *pool;
  SimStream      *stream;
  GpuMemoryBlock *blocks[N_TWIN_BLOCKS];
  GpuPoolStats    stats;            /* without peaks */
  SimStats        sim_stats;
} Twin;

static void
twin_init (Twin  *twin,
           guint  kind)
{
  *twin = (Twin) { NULL };
  twin->sim = sim_new (256 * MIB, UNIT, (kind & CHUNKS) != 0 ? 64 * KIB : 0, FALSE);
  sim_set_thread_heaps (twin->sim, (kind & THREAD_HEAPS) != 0);
  twin->pool = sim_pool_new (twin->sim);
  twin->stream = sim_stream_new (twin->sim, 20);
}

static void
twin_exchange (Twin  *twin,
               guint  at,
               gsize  size)
{
  if (twin->blocks[at] != NULL)
    _gpu_pool_release (twin->blocks[at], twin->stream);
  twin->blocks[at] = size > 0 ? _gpu_pool_alloc (twin->pool, size, 0, twin->stream, NULL) : NULL;
  sim_stream_submit (twin->stream);

  _gpu_pool_get_stats (twin->pool, &twin->stats);
  twin->stats.peak_active_bytes = twin->stats.peak_used_bytes = twin->stats.peak_managed_bytes = 0;
  sim_get_stats (twin->sim, &twin->sim_stats);
}

/* Returns all memory to the owner, so that the pool must grow or move chunks again. */
static void
twin_trim (Twin *twin)
{
  for (guint i = 0; i < N_TWIN_BLOCKS; i++)
    twin_exchange (twin, i, 0);
  _gpu_pool_trim (twin->pool, 0, TRUE);
}

static void
twin_clear (Twin *twin)
{
  _gpu_pool_free (twin->pool);
  sim_stream_unref (twin->stream);
  sim_free (twin->sim);
}

/* A pool whose peaks are reset grows, moves chunks and searches as the same pool does without the
 * resets. The phases use less and less memory, so each reset lowers the peaks. */
static void
test_reset_peaks (gconstpointer data)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (1);
  GpuPoolStats stats;
  Twin twins[2];

  for (guint i = 0; i < G_N_ELEMENTS (twins); i++)
    twin_init (&twins[i], GPOINTER_TO_UINT (data));

  for (guint phase = 0; phase < 6; phase++)
    {
      for (guint n = 0; n < 400; n++)
        {
          guint at = g_rand_int_range (random, 0, N_TWIN_BLOCKS);
          gboolean is_empty = (guint) g_rand_int_range (random, 0, 6) < phase;
          gsize size = is_empty ? 0 : g_rand_int_range (random, 1, 4 * MIB >> phase);

          for (guint i = 0; i < G_N_ELEMENTS (twins); i++)
            twin_exchange (&twins[i], at, size);
          g_assert_cmpmem (&twins[0].stats, sizeof (GpuPoolStats), &twins[1].stats,
                           sizeof (GpuPoolStats));
          g_assert_cmpmem (&twins[0].sim_stats, sizeof (SimStats), &twins[1].sim_stats,
                           sizeof (SimStats));
        }

      for (guint i = 0; i < G_N_ELEMENTS (twins); i++)
        twin_trim (&twins[i]);
      _gpu_pool_reset_peaks (twins[1].pool);
      _gpu_pool_get_stats (twins[1].pool, &stats);
      g_assert_cmpuint (stats.peak_used_bytes, ==, stats.used_bytes);
    }

  for (guint i = 0; i < G_N_ELEMENTS (twins); i++)
    twin_clear (&twins[i]);
}

/* --- random operations ----------------------------------------------------------------- */

static guint64
choose (gpointer data,
        guint64  n)
{
  GRand *random = data;

  return (((guint64) g_rand_int (random) << 32) | g_rand_int (random)) % n;
}

/* Returns the number of chunks that the pool mapped at a second place. */
static guint64
run_model (GRand    *random,
           guint     kind,
           guint     n_steps)
{
  Model *model = model_new (kind & CHUNKS, (kind & THREAD_HEAPS) != 0, choose, random);
  SimStats stats;

  for (guint i = 0; i < n_steps; i++)
    model_step (model);
  model_get_sim_stats (model, &stats);
  model_free (model);

  return stats.n_mapped_twice;
}

static void
test_random (gconstpointer data)
{
  guint n_models = g_test_slow () ? 1000 : 10;
  guint64 n_mapped_twice = 0;

  for (guint i = 0; i < n_models; i++)
    {
      g_autoptr (GRand) random = g_rand_new_with_seed (i);

      n_mapped_twice += run_model (random, GPOINTER_TO_UINT (data), 5000);
    }

  if (GPOINTER_TO_UINT (data) == CHUNKS)
    g_assert_cmpuint (n_mapped_twice, >=, n_models);

  /* Runs ten million steps, half of them on a single pool. */
  if (g_test_slow ())
    {
      g_autoptr (GRand) random = g_rand_new_with_seed (n_models);

      run_model (random, GPOINTER_TO_UINT (data), 5000000);
    }
}

/* Adds a test for the first @n_kinds kinds of pools. */
static void
add (const char *name,
     guint       n_kinds,
     void      (*test) (Fixture       *fixture,
                        gconstpointer  data))
{
  for (guint i = 0; i < n_kinds; i++)
    {
      g_autofree char *path = g_strdup_printf ("/pool-core/%s/%s", kinds[i], name);

      g_test_add (path, Fixture, GUINT_TO_POINTER (i), set_up, test, tear_down);
    }
}

static void
add_edges (const char  *name,
           gboolean     variant,
           void       (*test) (Fixture *fixture, gconstpointer data))
{
  g_autofree char *path = g_strdup_printf ("/pool-core/edges/%s", name);

  g_test_add (path, Fixture, GINT_TO_POINTER (variant), set_up_edges, test, tear_down);
}

static void
add_pending (const char  *name,
             gboolean     variant,
             void       (*test) (Fixture *fixture, gconstpointer data))
{
  g_autofree char *path = g_strdup_printf ("/pool-core/pending/%s", name);

  g_test_add (path, Fixture, GINT_TO_POINTER (variant), set_up_edges, test, tear_down);
}

static void
add_rivals (void)
{
  add ("freed-meanwhile", G_N_ELEMENTS (kinds), test_freed_meanwhile);
  add ("taken-meanwhile", G_N_ELEMENTS (kinds), test_taken_meanwhile);
  add ("reclaimed-meanwhile", G_N_ELEMENTS (kinds), test_reclaimed_meanwhile);
  add ("refused-meanwhile", G_N_ELEMENTS (kinds), test_refused_meanwhile);
  add ("busy-meanwhile", G_N_ELEMENTS (kinds), test_busy_meanwhile);
  add ("lent-meanwhile", G_N_ELEMENTS (kinds), test_lent_meanwhile);
  add ("returned-meanwhile", G_N_ELEMENTS (kinds), test_returned_meanwhile);
}

static void
add_chunks (void)
{
  add_edges ("block-freed-first", TRUE, test_edges);
  add_edges ("block-freed-last", FALSE, test_edges);
  add_edges ("count", FALSE, test_edge_count);
  add_edges ("pending", FALSE, test_edges_pending);
  add_edges ("own-pending", FALSE, test_edges_own);
  add_edges ("reunited-pending", FALSE, test_edges_reunited);
  add_edges ("reunited-use", FALSE, test_edges_reunited_use);
  add_edges ("stale", FALSE, test_edges_stale);
  add_edges ("failure", FALSE, test_edges_failure);
  add_edges ("share", FALSE, test_edges_share);
  add_edges ("preferred", FALSE, test_edges_preferred);
  add_edges ("preferred-unless-pending", TRUE, test_edges_preferred);
  add_edges ("budget", FALSE, test_edges_budget);
  add_edges ("frozen", FALSE, test_edges_frozen);
  add_edges ("low-addresses", FALSE, test_low_addresses);
  add_pending ("moved", FALSE, test_pending_moved);
  add_pending ("repeated", FALSE, test_pending_repeated);
  add_pending ("other-stream", FALSE, test_pending_other);
  add_pending ("shared", FALSE, test_pending_shared);
  add_pending ("waiting-other", TRUE, test_pending_waiting);
  add_pending ("waiting-own", FALSE, test_pending_waiting);
  add_pending ("partly", FALSE, test_pending_partly);
  add_pending ("capturing", FALSE, test_pending_capturing);
  add_pending ("failure", FALSE, test_pending_failure);
  add_pending ("trimmed", FALSE, test_pending_trimmed);
  add_pending ("forgotten", FALSE, test_pending_forgotten);
  g_test_add_func ("/pool-core/moved-larger", test_moved_larger);
  g_test_add_func ("/pool-core/early-growth", test_early_growth);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  add ("same-stream", G_N_ELEMENTS (kinds), test_same_stream);
  add ("cache-fit", G_N_ELEMENTS (kinds), test_cache_fit);
  add ("cache-eviction", G_N_ELEMENTS (kinds), test_cache_eviction);
  add ("other-stream", G_N_ELEMENTS (kinds), test_other_stream);
  add ("completed-use", G_N_ELEMENTS (kinds), test_completed_use);
  add ("host-waits-last", G_N_ELEMENTS (kinds), test_host_waits_last);
  add ("freed-without-use", G_N_ELEMENTS (kinds), test_freed_without_use);
  add ("several-streams", G_N_ELEMENTS (kinds), test_several_streams);
  add ("many-streams", G_N_ELEMENTS (kinds), test_many_streams);
  add ("released-on-other-streams", G_N_ELEMENTS (kinds), test_released_on_other_streams);
  add ("completed-neighbour", G_N_ELEMENTS (kinds), test_completed_neighbour);
  add ("best-fit", G_N_ELEMENTS (kinds), test_best_fit);
  add ("alignment", G_N_ELEMENTS (kinds), test_alignment);
  add ("coalesce", G_N_ELEMENTS (kinds), test_coalesce);
  add ("owner-data", G_N_ELEMENTS (kinds), test_owner_data);
  add ("out-of-memory", G_N_ELEMENTS (kinds), test_out_of_memory);
  add ("use-all-memory", G_N_ELEMENTS (kinds), test_use_all_memory);
  add ("limit", G_N_ELEMENTS (kinds), test_limit);
  add ("whole-limit", G_N_ELEMENTS (kinds), test_whole_limit);
  add ("larger-segments", G_N_ELEMENTS (kinds), test_larger_segments);
  add ("soft-limit", G_N_ELEMENTS (kinds), test_soft_limit);
  add ("close", G_N_ELEMENTS (kinds), test_close);
  add ("stop-holding", G_N_ELEMENTS (kinds), test_stop_holding);
  add ("release-threshold", G_N_ELEMENTS (kinds), test_release_threshold);
  add ("empty", 2, test_empty);
  add ("failures", G_N_ELEMENTS (kinds), test_failures);
  add ("frozen", G_N_ELEMENTS (kinds), test_frozen);
  add ("loan-cycle", G_N_ELEMENTS (kinds), test_loan_cycle);
  add ("refused-wait", G_N_ELEMENTS (kinds), test_refused_wait);
  add ("stream-limit", G_N_ELEMENTS (kinds), test_stream_limit);
  add ("dropped-streams", G_N_ELEMENTS (kinds), test_dropped_streams);
  add ("many-loans", G_N_ELEMENTS (kinds), test_many_loans);
  add ("counts", G_N_ELEMENTS (kinds), test_counts);
  add ("grown-for-heap", G_N_ELEMENTS (kinds), test_grown_for_heap);
  add ("room-for-requests", G_N_ELEMENTS (kinds), test_room_for_requests);
  add ("refused-early", G_N_ELEMENTS (kinds), test_refused_early);
  add ("new-limits", G_N_ELEMENTS (kinds), test_new_limits);
  add ("threads", G_N_ELEMENTS (kinds), test_threads);
  add ("thread-exit", G_N_ELEMENTS (kinds), test_thread_exit);
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autofree char *path = g_strdup_printf ("/pool-core/%s/random", kinds[i]);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_random);
    }
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autofree char *path = g_strdup_printf ("/pool-core/%s/reset-peaks", kinds[i]);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_reset_peaks);
    }
  add_rivals ();
  add_chunks ();
  g_test_add_func ("/pool-core/thread-keys", test_thread_keys);

  return g_test_run ();
}

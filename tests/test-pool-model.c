/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "test-pool-model.h"

#define UNIT        512
#define GRANULARITY (64 * 1024)
#define CAPACITY    (16 * 1024 * 1024)
#define MAX_BLOCKS  512
#define MAX_STREAMS 5

typedef struct
{
  GpuMemoryBlock *block;
  guint64         address;
  gsize           size;
  guint64         data;             /* owner data, 0 for none */
  gint            owner;            /* the allocation stream, -1 for the host */
  guint           streams;          /* bit map: streams that used the block since its allocation */
} Live;

struct _Model
{
  Sim         *sim;
  GpuPool     *pool;
  ModelChoose  choose;
  gpointer     choose_data;
  SimStream   *streams[MAX_STREAMS];
  Live         blocks[MAX_BLOCKS];
  guint        n_blocks;
  guint64      n_bytes;
  guint64      n_allocs, n_frees, n_refused;
  gint         n_data;              /* number of owner data that were set and not destroyed */
};

static guint64
pick (Model   *model,
      guint64  n)
{
  return model->choose (model->choose_data, n);
}

static SimStream *
pick_stream (Model *model)
{
  return model->streams[pick (model, MAX_STREAMS)];
}

/* --- allocation --------------------------------------------------------------------------- */

static gsize
pick_size (Model *model)
{
  switch (pick (model, 8))
    {
    case 0:
      return 1 + pick (model, 64);
    case 1:
    case 2:
      return 1 + pick (model, 4096);
    case 3:
    case 4:
      return 1 + pick (model, 64 * 1024);
    case 5:
      return UNIT << pick (model, 12);
    case 6:
      return 1 + pick (model, 512 * 1024);
    default:
      return 1 + pick (model, 3 * 1024 * 1024);
    }
}

static void
use (Model *model,
     Live  *live,
     guint  index)
{
  SimStream *stream = model->streams[index];

  /* As a program must, order the stream after the other streams that use the block. */
  for (guint i = 0; i < MAX_STREAMS; i++)
    if (((live->streams & 1u << i) != 0 || (gint) i == live->owner) && i != index)
      sim_order (stream, model->streams[i]);

  sim_use (model->sim, stream, live->address, live->size);
  live->streams |= 1u << index;
}

static void
add_block (Model          *model,
           GpuMemoryBlock *block,
           gsize           size,
           gsize           alignment,
           gint            index)
{
  Live *live = &model->blocks[model->n_blocks++];

  *live = (Live) { block, _gpu_pool_block_get_address (block), size, 0, index, 0 };
  g_assert_cmpuint (_gpu_pool_block_get_size (block), ==, size);
  g_assert_true (_gpu_pool_block_get_pool (block) == model->pool);
  if (alignment > 0)
    g_assert_cmpuint (live->address % alignment, ==, 0);

  sim_take (model->sim, index >= 0 ? model->streams[index] : NULL, live->address, size);
  live->data = GPOINTER_TO_SIZE (_gpu_pool_block_get_data (block)) != 0;
  model->n_bytes += size;
  model->n_allocs++;

  if (index >= 0 && pick (model, 4) != 0)
    use (model, live, index);
}

static void
check_error (Model        *model,
             const GError *error,
             gsize         size)
{
  g_autofree char *bytes = g_strdup_printf ("%" G_GSIZE_FORMAT " bytes", size);

  g_assert_nonnull (error);
  if (sim_has_failed (model->sim) && error->code != GPU_ERROR_OUT_OF_DEVICE_MEMORY)
    {
      g_assert_cmpstr (error->message, ==, "made to fail");
      return;
    }

  g_assert_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY);
  g_assert_nonnull (strstr (error->message, bytes));
  model->n_refused++;
}

static void
take_one (Model *model)
{
  gint index = (gint) pick (model, MAX_STREAMS + 1) - 1;
  gsize size = pick_size (model);
  gsize alignment = pick (model, 10) == 0 ? (gsize) 1 << pick (model, 18) : 0;
  g_autoptr (GError) error = NULL;
  GpuMemoryBlock *block;

  if (model->n_blocks == MAX_BLOCKS)
    return;

  block = _gpu_pool_alloc (model->pool, size, alignment,
                           index >= 0 ? model->streams[index] : NULL, &error);
  if (block == NULL)
    check_error (model, error, size);
  else
    add_block (model, block, size, alignment, index);
}

static void
take_some (Model *model)
{
  gint index = (gint) pick (model, MAX_STREAMS + 1) - 1;
  guint n = 1 + pick (model, 8);
  g_autoptr (GError) error = NULL;
  GpuMemoryBlock *blocks[8];
  gsize sizes[8];

  if (model->n_blocks + n > MAX_BLOCKS)
    return;

  for (guint i = 0; i < n; i++)
    sizes[i] = pick_size (model);

  if (_gpu_pool_alloc_n (model->pool, sizes, n, index >= 0 ? model->streams[index] : NULL,
                         blocks, &error))
    for (guint i = 0; i < n; i++)
      add_block (model, blocks[i], sizes[i], 0, index);
  else
    {
      g_assert_nonnull (error);
      model->n_refused += error->code == GPU_ERROR_OUT_OF_DEVICE_MEMORY;
      for (guint i = 0; i < n; i++)
        g_assert_null (blocks[i]);
    }
}

/* --- release -------------------------------------------------------------------------------- */

static Live
remove_block (Model *model,
              guint  at)
{
  Live live = model->blocks[at];

  sim_give (model->sim, live.address, live.size);
  g_assert_cmpuint (GPOINTER_TO_SIZE (_gpu_pool_block_get_data (live.block)) != 0, ==, live.data);
  model->blocks[at] = model->blocks[--model->n_blocks];
  model->n_bytes -= live.size;
  model->n_frees++;

  return live;
}

static void
give_to_all (Model *model,
             Live  *live)
{
  gpointer keys[2 * MAX_STREAMS];
  guint n = 0;

  /* Release the block on its streams in any order, on some streams twice, and also on some streams
   * that have not used the block. */
  for (guint i = 0; i < MAX_STREAMS; i++)
    {
      if ((live->streams & 1u << i) != 0 || pick (model, 4) == 0)
        keys[n++] = model->streams[i];
      if (n > 0 && pick (model, 8) == 0)
        keys[n++] = keys[0];
    }

  _gpu_pool_release_all (live->block, keys, n);
}

static void
give_one (Model *model)
{
  guint at, index = pick (model, MAX_STREAMS);
  Live live;

  if (model->n_blocks == 0)
    return;

  at = pick (model, model->n_blocks);
  switch (pick (model, 6))
    {
    case 0:
      /* Wait for the work that uses the block, then release the block on behalf of the host. */
      live = remove_block (model, at);
      for (guint i = 0; i < MAX_STREAMS; i++)
        if ((live.streams & 1u << i) != 0)
          sim_stream_finish (model->streams[i]);
      _gpu_pool_release (live.block, NULL);
      break;
    case 1:
      use (model, &model->blocks[at], index);
      live = remove_block (model, at);
      _gpu_pool_release (live.block, model->streams[index]);
      break;
    case 2:
      use (model, &model->blocks[at], index);
      live = remove_block (model, at);
      give_to_all (model, &live);
      break;
    default:
      live = remove_block (model, at);
      if (live.streams == 0)
        _gpu_pool_release (live.block, pick (model, 2) == 0 ? NULL : model->streams[index]);
      else
        {
          index = g_bit_nth_lsf (live.streams, -1);
          for (guint i = 0; i < MAX_STREAMS; i++)
            if ((live.streams & 1u << i) != 0 && i != index)
              sim_order (model->streams[index], model->streams[i]);
          _gpu_pool_release (live.block, model->streams[index]);
        }
      break;
    }
}

static void
give_some (Model *model)
{
  guint n = 1 + pick (model, 8), index = pick (model, MAX_STREAMS);
  GpuMemoryBlock *blocks[8];

  n = MIN (n, model->n_blocks);
  for (guint i = 0; i < n; i++)
    {
      guint at = pick (model, model->n_blocks);

      use (model, &model->blocks[at], index);
      blocks[i] = remove_block (model, at).block;
    }

  _gpu_pool_release_n (blocks, n, model->streams[index]);
}

/* --- other operations ------------------------------------------------------------------------- */

static void
forget_data (gpointer data)
{
  Model *model = data;

  g_atomic_int_add (&model->n_data, -1);
}

static void
set_data (Model *model)
{
  Live *live;

  if (model->n_blocks == 0)
    return;

  live = &model->blocks[pick (model, model->n_blocks)];
  if (pick (model, 4) == 0)
    _gpu_pool_block_set_data (live->block, NULL, NULL);
  else
    {
      g_atomic_int_inc (&model->n_data);
      _gpu_pool_block_set_data (live->block, model, forget_data);
    }
  live->data = _gpu_pool_block_get_data (live->block) != NULL;
}

static void
set_limits (Model *model)
{
  GpuPoolLimits limits = { .release_threshold = G_MAXUINT64, .waste = 0.01 * pick (model, 20) };

  if (pick (model, 3) == 0)
    limits.limit = UNIT + pick (model, 2 * CAPACITY);
  if (pick (model, 3) == 0)
    limits.soft_limit = UNIT + pick (model, CAPACITY);
  if (pick (model, 3) == 0)
    limits.release_threshold = pick (model, CAPACITY);

  _gpu_pool_set_limits (model->pool, &limits);
}

static void
change_something (Model *model)
{
  switch (pick (model, 8))
    {
    case 0:
      _gpu_pool_trim (model->pool, pick (model, CAPACITY), pick (model, 2));
      break;
    case 1:
      set_limits (model);
      break;
    case 2:
      sim_fail (model->sim, 1 + pick (model, 20),
                pick (model, 2) == 0 ? GPU_ERROR_OUT_OF_DEVICE_MEMORY : GPU_ERROR_FAILED);
      break;
    case 3:
      sim_set_capacity (model->sim, CAPACITY / 2 + pick (model, CAPACITY));
      break;
    case 4:
      sim_stream_finish (pick_stream (model));
      break;
    case 5:
      model_check (model);
      break;
    default:
      set_data (model);
      break;
    }
}

void
model_step (Model *model)
{
  guint64 what = pick (model, 100);

  if (what < 48)
    take_one (model);
  else if (what < 90)
    give_one (model);
  else if (what < 93)
    take_some (model);
  else if (what < 96)
    give_some (model);
  else
    change_something (model);
}

typedef struct
{
  guint64 address;                  /* the next address of the area */
  guint64 n_blocks[GPU_POOL_UNMAPPED + 1];
  guint64 n_bytes[GPU_POOL_UNMAPPED + 1];
  guint64 requested;
  guint64 n_areas;
} Seen;

static void
see (gpointer              data,
     const GpuPoolSegment *segment,
     guint64               address,
     gsize                 size,
     gsize                 requested,
     GpuPoolState          state,
     gpointer              key)
{
  Seen *seen = data;

  if (address == segment->address)
    seen->n_areas++;
  else
    g_assert_cmpuint (address, ==, seen->address);
  g_assert_cmpuint (size, >, 0);
  g_assert_cmpuint (address + size, <=, segment->address + segment->size);
  g_assert_cmpuint (requested, <=, size);
  g_assert_true (key == NULL || state == GPU_POOL_PENDING);

  seen->address = address + size;
  seen->n_blocks[state]++;
  seen->n_bytes[state] += size;
  seen->requested += requested;
}

void
model_check (Model *model)
{
  GpuPoolStats stats;
  SimStats sim_stats;
  Seen seen = { 0, };
  guint64 n_held, n_free;

  _gpu_pool_get_stats (model->pool, &stats);
  _gpu_pool_visit (model->pool, see, &seen);
  sim_get_stats (model->sim, &sim_stats);

  g_assert_cmpuint (stats.active_blocks, ==, model->n_blocks);
  g_assert_cmpuint (stats.active_bytes, ==, model->n_bytes);
  g_assert_cmpuint (stats.n_allocs - stats.n_frees, ==, model->n_allocs - model->n_frees);
  g_assert_cmpuint (stats.n_allocs, >=, model->n_allocs);
  g_assert_cmpuint (stats.n_refused, ==, model->n_refused);
  g_assert_cmpuint (stats.n_allocs, >=, stats.n_cache_hits + stats.n_hits + stats.n_steals);

  g_assert_cmpuint (seen.n_blocks[GPU_POOL_ACTIVE], ==, stats.active_blocks);
  g_assert_cmpuint (seen.requested, ==, stats.active_bytes);
  g_assert_cmpuint (seen.n_bytes[GPU_POOL_ACTIVE], ==, stats.used_bytes);
  n_held = seen.n_blocks[GPU_POOL_CACHED] + seen.n_blocks[GPU_POOL_FREE]
           + seen.n_blocks[GPU_POOL_PENDING];
  g_assert_cmpuint (n_held, ==, stats.held_blocks);
  n_free = seen.n_bytes[GPU_POOL_CACHED] + seen.n_bytes[GPU_POOL_FREE]
           + seen.n_bytes[GPU_POOL_PENDING];
  g_assert_cmpuint (n_free + stats.used_bytes, ==, stats.managed_bytes);

  g_assert_cmpuint (stats.managed_bytes, <=, sim_stats.bytes);
  g_assert_cmpuint (stats.peak_active_bytes, >=, stats.active_bytes);
  g_assert_cmpuint (stats.peak_used_bytes, >=, stats.used_bytes);
  g_assert_cmpuint (stats.peak_managed_bytes, >=, stats.managed_bytes);
}

GpuPool *
model_pool (Model *model)
{
  return model->pool;
}

void
model_get_sim_stats (Model    *model,
                     SimStats *stats)
{
  sim_get_stats (model->sim, stats);
}

Model *
model_new (gboolean    chunks,
           gboolean    thread_heaps,
           ModelChoose choose,
           gpointer    data)
{
  Model *model = g_new0 (Model, 1);

  model->choose = choose;
  model->choose_data = data;
  model->sim = sim_new (CAPACITY, UNIT, chunks ? GRANULARITY : 0, TRUE);
  sim_set_thread_heaps (model->sim, thread_heaps);
  model->pool = sim_pool_new (model->sim);
  for (guint i = 0; i < MAX_STREAMS; i++)
    model->streams[i] = sim_stream_new (model->sim, pick (model, 100));

  return model;
}

void
model_free (Model *model)
{
  SimStats stats;

  model_check (model);
  if (pick (model, 2) == 0)
    _gpu_pool_stop_holding (model->pool);
  sim_fail (model->sim, 0, GPU_ERROR_FAILED);

  while (model->n_blocks > 0)
    give_one (model);
  model_check (model);

  _gpu_pool_trim (model->pool, 0, TRUE);
  model_check (model);
  sim_get_stats (model->sim, &stats);
  g_assert_cmpuint (stats.bytes, ==, 0);
  g_assert_cmpint (model->n_data, ==, 0);

  _gpu_pool_free (model->pool);
  for (guint i = 0; i < MAX_STREAMS; i++)
    {
      g_assert_cmpuint (sim_stream_get_refs (model->streams[i]), ==, 1);
      sim_stream_unref (model->streams[i]);
    }
  sim_free (model->sim);
  g_free (model);
}

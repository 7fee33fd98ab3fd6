/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Replays traces on pools of a device. */
#include "config.h"

#include <time.h>

#include "tools/gpumem-pool.h"

#define TOUCHED    64               /* bytes of each allocation */
#define N_LOOPS    3                /* measurements of the empty loop; the fastest counts */
#define CHECK_EACH 4096             /* operations between checks for Ctrl-C */

/* The functions that the replay loop calls for allocations and frees. */
typedef struct
{
  gpointer (*take)      (GpuMemoryPool  *pool,
                         gsize           size,
                         GpuStream      *stream,
                         GError        **error);
  void     (*return_to_pool) (GpuMemoryPool  *pool,
                              gpointer        memory,
                              GpuStream      *stream);
} Verbs;

typedef struct
{
  const GpumemReplay *replay;
  const GpumemTrace  *trace;
  const Verbs        *verbs;
  GpuMemoryPool      *pool;
  GPtrArray          *streams;      /* of GpuStream */
  gpointer           *memories;     /* by number of the block in the trace */
  GpumemRecord       *record;       /* nullable */
  const gsize        *moments;      /* operations at which to take samples */
  gsize               done;         /* number of replayed operations */
  guint64             live, peak_live;
  guint64             n_refused;
  gsize               refused_at;
  GError             *refusal;      /* nullable */
} Player;

static gpointer
take_block (GpuMemoryPool  *pool,
            gsize           size,
            GpuStream      *stream,
            GError        **error)
{
  return gpu_memory_pool_alloc_block (pool, size, stream, error);
}

static void
give_back_block (GpuMemoryPool *pool,
                 gpointer       memory,
                 GpuStream     *stream)
{
  gpu_memory_pool_free_block (pool, memory, stream, NULL);
}

static gpointer
take_buffer (GpuMemoryPool  *pool,
             gsize           size,
             GpuStream      *stream,
             GError        **error)
{
  return gpu_memory_pool_alloc_buffer (pool, size, stream, error);
}

static gpointer
take_and_touch (GpuMemoryPool  *pool,
                gsize           size,
                GpuStream      *stream,
                GError        **error)
{
  static const guint8 pattern = 0x5a;
  g_autoptr (GpuBuffer) buffer = gpu_memory_pool_alloc_buffer (pool, size, stream, error);

  if (buffer == NULL ||
      !gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, MIN (size, TOUCHED), &pattern, 1, error))
    return NULL;
  return g_steal_pointer (&buffer);
}

static void
give_back_buffer (GpuMemoryPool *pool G_GNUC_UNUSED,
                  gpointer       memory,
                  GpuStream     *stream G_GNUC_UNUSED)
{
  g_object_unref (memory);
}

/* Allocates nothing. Used to measure the overhead of the loop. */
static gpointer
take_nothing (GpuMemoryPool  *pool G_GNUC_UNUSED,
              gsize           size G_GNUC_UNUSED,
              GpuStream      *stream,
              GError        **error G_GNUC_UNUSED)
{
  return stream;
}

static void
give_back_nothing (GpuMemoryPool *pool G_GNUC_UNUSED,
                   gpointer       memory G_GNUC_UNUSED,
                   GpuStream     *stream G_GNUC_UNUSED)
{
}

static const Verbs blocks = { take_block, give_back_block };
static const Verbs buffers = { take_buffer, give_back_buffer };
static const Verbs touched = { take_and_touch, give_back_buffer };
static const Verbs nothing = { take_nothing, give_back_nothing };

static gint64
get_nanoseconds (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return now.tv_sec * G_GINT64_CONSTANT (1000000000) + now.tv_nsec;
}

/* --- playing ----------------------------------------------------------------------------- */

static guint64
get_address (const Player *player,
             gpointer      memory)
{
  guint64 address;

  if (player->verbs == &blocks)
    return gpu_memory_block_get_address (memory);
  address = gpu_memory_get_device_address (memory);
  return address != 0 ? address : gpu_memory_get_native_handle (memory);
}

/* Records a failed allocation. Returns TRUE if the failure was a lack of memory. Any other failure
 * ends the replay, and replaces an earlier lack of memory in `refusal`. */
static gboolean
refuse (Player *player,
        gsize   i,
        GError *error)
{
  gboolean goes_on = g_error_matches (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY);

  if (player->n_refused++ == 0)
    player->refused_at = i + 1;
  if (player->refusal == NULL || !goes_on)
    {
      g_clear_error (&player->refusal);
      player->refusal = error;
    }
  else
    g_error_free (error);
  return goes_on;
}

static void
look (Player                     *player,
      gsize                       i,
      const GpumemTraceOperation *operation,
      guint64                     address)
{
  gpumem_record_add (player->record, player->pool, operation, address, player->refusal);
  if (i == *player->moments || player->n_refused > 0)
    gpumem_record_sample (player->record, player->pool, i + 1);
  if (i == *player->moments)
    player->moments++;
}

static gboolean
step (Player *player,
      gsize   i)
{
  const GpumemTraceOperation *operation = &player->trace->operations[i];
  GpuStream *stream = g_ptr_array_index (player->streams, operation->stream);
  gpointer *memory = &player->memories[operation->block];
  guint64 address = 0;
  GError *error = NULL;

  if (!operation->is_free)
    {
      *memory = player->verbs->take (player->pool, operation->size, stream, &error);
      if (*memory != NULL)
        player->live += operation->size;
      else if (error != NULL && !refuse (player, i, error))
        return FALSE;
      player->peak_live = MAX (player->peak_live, player->live);
    }
  if (G_UNLIKELY (player->record != NULL) && *memory != NULL)
    address = get_address (player, *memory);
  if (operation->is_free && *memory != NULL)
    {
      player->live -= operation->size;
      player->verbs->return_to_pool (player->pool, g_steal_pointer (memory), stream);
    }
  if (G_UNLIKELY (player->record != NULL))
    look (player, i, operation, address);
  return TRUE;
}

/* A replay that is recorded ends at the first refused allocation. Returns: %TRUE at that end or at
 * the end of the trace; %FALSE if the replay failed or was cancelled before */
static gboolean
play (Player  *player,
      GError **error)
{
  const gsize n = player->trace->n_operations;

  for (gsize i = 0; i < n; i++)
    {
      if (!step (player, i))
        {
          g_propagate_error (error, g_steal_pointer (&player->refusal));
          return FALSE;
        }
      player->done = i + 1;
      if (player->record != NULL && player->n_refused > 0)
        break;
      if (i % CHECK_EACH != 0)
        continue;
      if (g_cancellable_set_error_if_cancelled (player->replay->cancellable, error))
        return FALSE;
      if (player->pool != NULL)
        gpumem_progress_part (player->replay->progress, (double) i / n);
    }
  return TRUE;
}

/* --- set-up and measurement ---------------------------------------------------------------- */

const char *
gpumem_pool_kind_get_name (GpuMemoryPoolKind kind)
{
  static const char *const names[] = { "automatic", "expandable", "segments", "bins" };

  return names[kind];
}

/* Allocates 0 bytes: this only checks whether the pool supports blocks. */
gboolean
gpumem_pool_has_blocks (GpuMemoryPool *pool)
{
  g_autoptr (GError) error = NULL;

  gpu_memory_pool_alloc_block (pool, 0, NULL, &error);
  return error == NULL;
}

static gboolean
choose_verbs (Player  *player,
              GError **error)
{
  const GpumemReplay *replay = player->replay;
  gboolean has_blocks = gpumem_pool_has_blocks (player->pool);

  if (replay->take == GPUMEM_TAKE_BLOCKS && !has_blocks)
    {
      GpuMemoryPoolKind kind;

      g_object_get (player->pool, "kind", &kind, NULL);
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "A pool of kind %s on %s has no blocks, only buffers",
                   gpumem_pool_kind_get_name (kind),
                   gpu_device_get_id (replay->device));
      return FALSE;
    }
  if (replay->touch)
    player->verbs = &touched;
  else
    player->verbs = has_blocks && replay->take != GPUMEM_TAKE_BUFFERS ? &blocks : &buffers;
  return TRUE;
}

static gboolean
player_open (Player              *player,
             const GpumemReplay  *replay,
             const GpumemTrace   *trace,
             GError             **error)
{
  *player = (Player) { .replay = replay, .trace = trace };
  player->streams = g_ptr_array_new_with_free_func (g_object_unref);
  player->memories = g_new0 (gpointer, MAX (trace->n_blocks, 1));
  for (guint i = 0; i < trace->streams->len; i++)
    {
      GpuStream *stream = gpu_stream_new (replay->context, GPU_STREAM_FLAGS_NON_BLOCKING, error);

      if (stream == NULL)
        return FALSE;
      g_ptr_array_add (player->streams, stream);
    }
  player->pool = gpu_memory_pool_new (replay->context, replay->kind, GPU_MEMORY_FLAGS_NONE, error);
  if (player->pool == NULL)
    return FALSE;
  gpu_memory_pool_set_limit (player->pool, replay->limit);
  if (replay->target >= 0 &&
      !gpu_memory_pool_set_fragmentation_target (player->pool, replay->target, error))
    return FALSE;
  return choose_verbs (player, error);
}

/* Frees the memory that the trace never frees. */
static void
player_clear (Player *player)
{
  for (gsize i = 0; player->memories != NULL && i < player->trace->n_blocks; i++)
    if (player->memories[i] != NULL)
      player->verbs->return_to_pool (player->pool, player->memories[i],
                                     g_ptr_array_index (player->streams, 0));
  g_free (player->memories);
  g_clear_object (&player->pool);
  g_clear_pointer (&player->streams, g_ptr_array_unref);
  g_clear_error (&player->refusal);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Player, player_clear)

static gboolean
synchronize (Player  *player,
             GError **error)
{
  for (guint i = 0; i < player->streams->len; i++)
    if (!gpu_stream_synchronize (g_ptr_array_index (player->streams, i),
                                 player->replay->cancellable, error))
      return FALSE;
  return TRUE;
}

/* Returns the shortest time in nanoseconds, of N_LOOPS attempts, that a replay of the trace takes
 * if it allocates no memory. */
static gint64
time_loop (const Player *player)
{
  gint64 best = G_MAXINT64;

  for (guint i = 0; i < N_LOOPS; i++)
    {
      g_autofree gpointer *memories = g_new0 (gpointer, MAX (player->trace->n_blocks, 1));
      Player empty = { .replay = player->replay, .trace = player->trace, .verbs = &nothing,
                       .streams = player->streams, .memories = memories };
      gint64 begin = get_nanoseconds ();

      play (&empty, NULL);
      best = MIN (best, get_nanoseconds () - begin);
    }
  return best;
}

void
gpumem_replayed_free (GpumemReplayed *replayed)
{
  g_clear_pointer (&replayed->trace, gpumem_trace_free);
  g_clear_pointer (&replayed->statistics, g_variant_unref);
  g_free (replayed->path);
  g_free (replayed->name);
  g_free (replayed->refusal);
  g_free (replayed);
}

guint64
gpumem_replayed_get (const GpumemReplayed *replayed,
                     const char           *figure)
{
  guint64 value = 0;

  g_variant_lookup (replayed->statistics, figure, "t", &value);
  return value;
}

GpumemReplayed *
gpumem_replay_run (const GpumemReplay  *replay,
                   const char          *path,
                   GError             **error)
{
  g_autoptr (GpumemReplayed) replayed = g_new0 (GpumemReplayed, 1);
  g_auto (Player) player = { NULL };
  gint64 begin, time, loop;

  replayed->trace = gpumem_trace_read (path, error);
  if (replayed->trace == NULL)
    return NULL;
  replayed->path = g_strdup (path);
  replayed->name = g_path_get_basename (path);
  gpumem_progress_begin (replay->progress, "%s", replayed->name);
  if (!player_open (&player, replay, replayed->trace, error))
    return NULL;
  loop = time_loop (&player);
  begin = get_nanoseconds ();
  if (!play (&player, error))
    return NULL;
  time = get_nanoseconds () - begin;
  if (!synchronize (&player, error))
    return NULL;
  replayed->statistics = gpu_memory_pool_get_statistics (player.pool);
  g_object_get (player.pool, "kind", &replayed->kind, NULL);
  replayed->has_blocks = player.verbs == &blocks;
  replayed->n_operations = player.done;
  replayed->peak_live = player.peak_live;
  replayed->peak_managed = gpumem_replayed_get (replayed, "peak-managed-bytes");
  replayed->loop = (double) loop / player.done;
  replayed->nanoseconds = (double) MAX (time - loop, 0) / player.done;
  replayed->n_refused = player.n_refused;
  replayed->refused_at = player.refused_at;
  replayed->refusal = player.refusal != NULL ? g_strdup (player.refusal->message) : NULL;
  return g_steal_pointer (&replayed);
}

/* --- recording ----------------------------------------------------------------------------- */

#define N_SAMPLES 1000

/* Returns the operations at which to take samples: for each part of the trace the operation with
 * the most live bytes, then the last operation of the trace, then a terminator. */
static gsize *
choose_moments (const GpumemTrace *trace)
{
  const gsize n = trace->n_operations;
  const gsize part = MAX (n / N_SAMPLES, 1);
  g_autoptr (GArray) moments = g_array_new (FALSE, FALSE, sizeof (gsize));
  const gsize none = G_MAXSIZE;
  guint64 live = 0, most = 0;
  gsize moment = 0;

  for (gsize i = 0; i < n; i++)
    {
      const GpumemTraceOperation *operation = &trace->operations[i];

      live = operation->is_free ? live - operation->size : live + operation->size;
      if (i % part == 0 || live > most)
        {
          most = live;
          moment = i;
        }
      if (i % part == part - 1 || i == n - 1)
        g_array_append_val (moments, moment);
    }
  if (moment != n - 1)
    {
      moment = n - 1;
      g_array_append_val (moments, moment);
    }
  g_array_append_val (moments, none);
  return (gsize *) g_array_free (g_steal_pointer (&moments), FALSE);
}

gboolean
gpumem_replay_record (const GpumemReplay  *replay,
                      const GpumemTrace   *trace,
                      gboolean             with_events,
                      GpumemRecord        *record,
                      GError             **error)
{
  g_autofree gsize *moments = choose_moments (trace);
  g_auto (Player) player = { NULL };

  gpumem_progress_begin (replay->progress, "recording the pool");
  record->samples = g_array_new (FALSE, FALSE, sizeof (GpumemSample));
  if (with_events)
    record->events = g_new (GpumemPoolEvent, GPUMEM_MAX_EVENTS);
  if (!player_open (&player, replay, trace, error))
    return FALSE;
  player.record = record;
  player.moments = moments;
  if (!play (&player, error) || !synchronize (&player, error))
    return FALSE;
  record->snapshot = gpu_memory_pool_snapshot (player.pool);
  return TRUE;
}

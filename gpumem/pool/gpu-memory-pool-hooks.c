/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The functions of a pool for other libraries, which know addresses and streams of the driver. */
#include "config.h"

#include "gpumem/device/gpu-context-private.h"
#include "gpumem/pool/gpu-memory-pool-hooks-private.h"
#include "gpumem/stream/gpu-stream-private.h"

#define ALLOC "GpuPoolHooks.alloc()"

/* --- blocks by address ------------------------------------------------------------------ */

static GpuPoolHooksShard *
get_shard (GpuPoolHooksState *state,
           guint64            address)
{
  /* The high bits of the product depend on all bits of the address. */
  return &state->shards[address * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15) >> 58];
}

static void
insert_block (GpuPoolHooksState *state,
              guint64            address,
              GpuMemoryBlock    *block)
{
  GpuPoolHooksShard *shard = get_shard (state, address);

  _gpu_pool_lock (&shard->lock);
  g_hash_table_insert (shard->blocks, GSIZE_TO_POINTER (address), block);
  _gpu_pool_unlock (&shard->lock);
}

static GpuMemoryBlock *
take_block (GpuPoolHooksState *state,
            guint64            address)
{
  GpuPoolHooksShard *shard = get_shard (state, address);
  gpointer block = NULL;

  _gpu_pool_lock (&shard->lock);
  g_hash_table_steal_extended (shard->blocks, GSIZE_TO_POINTER (address), NULL, &block);
  _gpu_pool_unlock (&shard->lock);

  return block;
}

static gboolean
is_private (GpuPoolHooksState    *state,
            const GpuMemoryBlock *block)
{
  return _gpu_pool_block_get_pool (block) != state->owner->blocks;
}

/* --- streams ---------------------------------------------------------------------------- */

/* The stream that this thread used last. */
static __thread struct
{
  guint64             generation;
  gpointer            handle;
  GpuPoolHooksStream *stream;
} recent;

static guint64
new_generation (void)
{
  static guint64 last;

  return __atomic_add_fetch (&last, 1, __ATOMIC_RELAXED);
}

static GpuPoolHooksStream *
stream_new (GpuPoolHooksState *state)
{
  GpuPoolHooksStream *stream = NULL;

  _gpu_pool_lock (&state->lock);
  if (state->recycled->len > 0)
    stream = g_ptr_array_steal_index_fast (state->recycled, state->recycled->len - 1);
  _gpu_pool_unlock (&state->lock);

  return stream != NULL ? stream : g_new0 (GpuPoolHooksStream, 1);
}

static void
stream_recycle (GpuPoolHooksState  *state,
                GpuPoolHooksStream *stream)
{
  _gpu_pool_lock (&state->lock);
  g_ptr_array_add (state->recycled, stream);
  _gpu_pool_unlock (&state->lock);
}

/* The default streams are never forgotten, so that their users are not counted. */
static gboolean
is_default (gpointer handle)
{
  return (guintptr) handle <= GPU_STREAM_HANDLE_PER_THREAD;
}

/* Returns FALSE if the record has no users, so that it may be recycled. */
static gboolean
stream_use (GpuPoolHooksStream *stream)
{
  gint n = g_atomic_int_get (&stream->n_users);

  while (n > 0 && !__atomic_compare_exchange_n (&stream->n_users, &n, n + 1, TRUE,
                                                __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    ;

  return n > 0;
}

/* Dropping a GpuStream records its last point, in the stream that has the handle now. */
static void
stream_drop (GpuPoolHooksState  *state,
             GpuPoolHooksStream *stream)
{
  GpuStream *native;

  if (!g_atomic_int_dec_and_test (&stream->n_users))
    return;

  native = g_steal_pointer (&stream->stream);
  if (stream->is_dead)
    {
      _gpu_pool_lock (&state->lock);
      g_ptr_array_add (state->ended, native);
      _gpu_pool_unlock (&state->lock);
    }
  else
    {
      g_object_unref (native);
    }

  stream_recycle (state, stream);
}

/* @stream is nullable. */
static inline void
leave_stream (GpuPoolHooksState  *state,
              GpuPoolHooksStream *stream)
{
  if (stream != NULL && !is_default (stream->handle))
    stream_drop (state, stream);
}

static void
get_stream_state (GpuPoolHooksStream *stream,
                  guint64            *id,
                  guint64            *capture)
{
  GpuTimeline *timeline = stream->timeline;
  const GpuStreamOps *ops = timeline->context->backend->stream;

  *id = *capture = 0;

  if (ops->get_state != NULL)
    ops->get_state (timeline->stream, id, capture);
}

static GpuStream *
wrap_handle (GpuMemoryPool  *pool,
             gpointer        handle,
             GError        **error)
{
  if (handle != NULL || pool->core->context->backend->stream->has_default_handles)
    return gpu_stream_new_wrapped (pool->context, (guint64) (gsize) handle, GPU_WRAP_MODE_BORROW,
                                   error);

  return _gpu_context_peek_timeline (pool->context, NULL, ALLOC, error) != NULL
           ? gpu_context_get_default_stream (pool->context) : NULL;
}

/* Returns a record whose only user is the caller. */
static GpuPoolHooksStream *
wrap_stream (GpuPoolHooksState  *state,
             gpointer            handle,
             GError            **error)
{
  GpuMemoryPool *pool = state->owner;
  GpuStream *native = wrap_handle (pool, handle, error);
  GpuPoolHooksStream *stream;
  guint64 capture;

  if (native == NULL)
    return NULL;

  stream = stream_new (state);
  stream->handle = handle;
  stream->stream = native;
  stream->timeline = native->timeline;
  stream->id = 0;
  stream->is_dead = FALSE;
  g_atomic_int_set (&stream->n_users, 1);

  if ((guintptr) handle > GPU_STREAM_HANDLE_LEGACY)
    {
      get_stream_state (stream, &stream->id, &capture);
      _gpu_pool_set_capture_role (stream->timeline, GPU_CAPTURE_ROLE_STREAM);
    }
  else if (pool->core->context->backend->stream->has_default_handles)
    {
      _gpu_pool_set_capture_role (stream->timeline, GPU_CAPTURE_ROLE_LEGACY);
    }

  return stream;
}

static GpuPoolHooksStream *
look_up_stream (GpuPoolHooksState *state,
                gpointer           handle)
{
  GpuPoolHooksStream *stream;

  _gpu_pool_lock (&state->lock);
  stream = g_hash_table_lookup (state->streams, handle);
  if (stream != NULL && !is_default (handle))
    stream_use (stream);
  _gpu_pool_unlock (&state->lock);

  return stream;
}

/* Adds @wrapped to the table, unless another thread was faster. */
static GpuPoolHooksStream *
add_wrapped (GpuPoolHooksState  *state,
             GpuPoolHooksStream *wrapped)
{
  gpointer past = NULL;
  GpuPoolHooksStream *known;

  _gpu_pool_lock (&state->lock);
  known = g_hash_table_lookup (state->streams, wrapped->handle);
  if (known == NULL)
    {
      g_hash_table_insert (state->streams, wrapped->handle, wrapped);
      g_hash_table_steal_extended (state->past, wrapped->handle, NULL, &past);
    }
  if (!is_default (wrapped->handle))
    stream_use (known != NULL ? known : wrapped);
  _gpu_pool_unlock (&state->lock);

  g_clear_pointer (&past, _gpu_timeline_unref);
  if (known != NULL)
    stream_drop (state, wrapped);

  return known != NULL ? known : wrapped;
}

/* Uses the stream that this thread used last. */
static inline GpuPoolHooksStream *
use_recent (GpuPoolHooksState *state,
            gpointer           handle)
{
  guint64 generation = __atomic_load_n (&state->generation, __ATOMIC_SEQ_CST);
  GpuPoolHooksStream *stream = recent.stream;

  if (G_UNLIKELY (recent.generation != generation || recent.handle != handle))
    return NULL;

  if (is_default (handle))
    return stream;

  if (!stream_use (stream))
    return NULL;

  /* In the meantime, another thread may have forgotten the stream. */
  if (G_LIKELY (__atomic_load_n (&state->generation, __ATOMIC_SEQ_CST) == generation))
    return stream;

  stream_drop (state, stream);

  return NULL;
}

/* Finds the stream, and wraps @handle on its first use. The caller calls leave_stream(). */
static GpuPoolHooksStream *
find_stream (GpuPoolHooksState  *state,
             gpointer            handle,
             GError            **error)
{
  GpuPoolHooksStream *stream = use_recent (state, handle);
  guint64 generation;

  if (G_LIKELY (stream != NULL))
    return stream;

  generation = __atomic_load_n (&state->generation, __ATOMIC_SEQ_CST);
  stream = look_up_stream (state, handle);

  if (stream == NULL)
    {
      stream = wrap_stream (state, handle, error);
      if (stream == NULL)
        return NULL;
      stream = add_wrapped (state, stream);
    }

  recent.generation = generation;
  recent.handle = handle;
  recent.stream = stream;

  return stream;
}

/* Removes @stream from the table, unless another thread has done so. Without @is_dead, the driver's
 * stream still exists. */
static void
forget_stream (GpuPoolHooksState  *state,
               GpuPoolHooksStream *stream,
               gboolean            is_dead)
{
  g_autoptr (GPtrArray) streams = NULL;
  gboolean is_known;

  _gpu_pool_lock (&state->lock);
  is_known = g_hash_table_lookup (state->streams, stream->handle) == stream;
  if (is_known)
    {
      stream->is_dead = is_dead;
      g_hash_table_steal (state->streams, stream->handle);
      if (!is_dead)
        g_hash_table_insert (state->past, stream->handle, _gpu_timeline_ref (stream->timeline));
      __atomic_store_n (&state->generation, new_generation (), __ATOMIC_SEQ_CST);
    }
  _gpu_pool_unlock (&state->lock);

  if (!is_known)
    return;

  streams = g_ptr_array_new_with_free_func (g_object_unref);
  _gpu_pool_set_capture_role (stream->timeline, GPU_CAPTURE_ROLE_NONE);
  _gpu_pool_captures_forget_stream (state, stream->timeline, streams);
  stream_drop (state, stream);
}

/* Drops the streams that the driver has destroyed. Dropping a stream records its last point, in the
 * stream that has the handle now; so first waits for the work of the old stream. */
static void
drop_ended (GpuPoolHooksState *state)
{
  g_autoptr (GPtrArray) ended = g_ptr_array_new_with_free_func (g_object_unref);

  if (_gpu_pool_is_frozen (NULL))
    return;

  _gpu_pool_lock (&state->lock);
  g_ptr_array_extend_and_steal (ended, g_steal_pointer (&state->ended));
  state->ended = g_ptr_array_new_with_free_func (g_object_unref);
  _gpu_pool_unlock (&state->lock);

  if (ended->len == 0 || _gpu_pool_synchronize_context (state->owner->core->context))
    return;

  /* The driver refuses to wait. */
  _gpu_pool_lock (&state->lock);
  g_ptr_array_extend_and_steal (state->ended, g_steal_pointer (&ended));
  _gpu_pool_unlock (&state->lock);
}

/* Memory for the per-thread default stream is that of the legacy default stream, which is ordered
 * with the per-thread streams of all threads. But memory of a captured graph must be private. */
static gboolean
check_per_thread (GpuPoolHooksState  *state,
                  GError            **error)
{
  GpuPoolHooksStream *stream = find_stream (state, (gpointer) GPU_STREAM_HANDLE_PER_THREAD, error);
  guint64 id, capture;

  if (stream == NULL)
    return FALSE;

  get_stream_state (stream, &id, &capture);

  if (capture == 0)
    return TRUE;

  g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                       "GpuPoolHooks: the per-thread default stream is capturing; capture another "
                       "stream");

  return FALSE;
}

static gboolean
is_per_thread (GpuPoolHooksState *state,
               gpointer           handle)
{
  return (guintptr) handle == GPU_STREAM_HANDLE_PER_THREAD
         && state->owner->core->context->backend->stream->has_default_handles;
}

/* Returns whether @stream is the stream with the id @id, which has the handle. An id is 0 if the
 * driver did not report it, because the stream was capturing or after an error. In this case
 * returns TRUE, because the record of a stream must stay in the table for end_stream(). */
static inline gboolean
is_same_stream (GpuPoolHooksStream *stream,
                guint64             id)
{
  guint64 known = __atomic_load_n (&stream->id, __ATOMIC_RELAXED);

  if (G_UNLIKELY (known == 0))
    __atomic_store_n (&stream->id, id, __ATOMIC_RELAXED);

  return id == known || id == 0 || known == 0;
}

/* Finds the stream to which new work is submitted. Sets @capture to the driver's number of the
 * capture of the stream, 0 if it is not capturing. The caller calls leave_stream(). */
static GpuPoolHooksStream *
find_live_stream (GpuPoolHooksState  *state,
                  gpointer            handle,
                  guint64            *capture,
                  GError            **error)
{
  GpuPoolHooksStream *stream;
  guint64 id;

  *capture = 0;

  if (G_UNLIKELY (is_per_thread (state, handle)))
    return check_per_thread (state, error) ? find_stream (state, NULL, error) : NULL;

  stream = find_stream (state, handle, error);
  if (stream == NULL || (guintptr) handle <= GPU_STREAM_HANDLE_LEGACY)
    return stream;

  get_stream_state (stream, &id, capture);

  if (G_LIKELY (is_same_stream (stream, id)))
    return stream;

  forget_stream (state, stream, TRUE);
  leave_stream (state, stream);
  drop_ended (state);

  return find_stream (state, handle, error);
}

/* Makes no driver call for a known stream, because the stream may have been destroyed. If the
 * stream has ended, sets @past to (transfer full) its timeline and returns NULL. */
static GpuPoolHooksStream *
find_last_stream (GpuPoolHooksState  *state,
                  gpointer            handle,
                  GpuTimeline       **past)
{
  GpuPoolHooksStream *stream;

  *past = NULL;

  if (G_UNLIKELY (is_per_thread (state, handle)))
    handle = NULL;

  stream = use_recent (state, handle);
  if (G_LIKELY (stream != NULL))
    return stream;

  _gpu_pool_lock (&state->lock);
  *past = g_hash_table_lookup (state->past, handle);
  if (*past != NULL)
    _gpu_timeline_ref (*past);
  _gpu_pool_unlock (&state->lock);

  return *past == NULL ? find_stream (state, handle, NULL) : NULL;
}

/* --- the functions ---------------------------------------------------------------------- */

static GpuMemoryBlock *
alloc_block (GpuPoolHooksState   *state,
             gsize                size,
             GpuPoolHooksStream  *stream,
             guint64              sequence,
             GError             **error)
{
  GpuPoolCapture *capture = NULL;
  GpuMemoryBlock *block;

  if (G_UNLIKELY (sequence != 0 || g_atomic_int_get (&state->n_begun) > 0))
    capture = _gpu_pool_captures_find (state, stream, sequence);

  if (capture != NULL)
    {
      block = _gpu_pool_capture_alloc (capture, size, stream->timeline, error);
      _gpu_pool_capture_leave (capture);
      if (block == NULL)
        g_prefix_error (error, ALLOC ": ");
    }
  else
    {
      block = _gpu_memory_pool_alloc_block (state->owner, size, stream->stream, ALLOC, error);
    }

  return block;
}

static guint64
hooks_alloc (gpointer   data,
             gsize      size,
             gpointer   handle,
             GError   **error)
{
  GpuPoolHooksState *state = data;
  guint64 capture;
  GpuPoolHooksStream *stream = find_live_stream (state, handle, &capture, error);
  GpuMemoryBlock *block;
  guint64 address;

  if (stream == NULL)
    return 0;

  block = size > 0 ? alloc_block (state, size, stream, capture, error) : NULL;
  leave_stream (state, stream);

  if (block == NULL)
    return 0;

  address = _gpu_pool_block_get_address (block);
  insert_block (state, address, block);

  return address;
}

static gboolean
hooks_free (gpointer data,
            guint64  address,
            gpointer handle)
{
  GpuPoolHooksState *state = data;
  GpuMemoryBlock *block = take_block (state, address);
  GpuPoolHooksStream *stream;
  g_autoptr (GpuTimeline) past = NULL;

  if (block == NULL)
    return FALSE;

  stream = find_last_stream (state, handle, &past);

  if (is_private (state, block))
    _gpu_pool_capture_free (block, stream != NULL ? stream->timeline : past);
  else if (past != NULL)
    _gpu_memory_block_release (block, past);
  else
    gpu_memory_pool_free_block (state->owner, block, stream != NULL ? stream->stream : NULL, NULL);

  leave_stream (state, stream);

  return TRUE;
}

static gboolean
add_stream_locked (GpuPoolHooksState   *state,
                   GpuPoolHooksShard   *shard,
                   guint64              address,
                   GpuPoolHooksStream  *stream,
                   GError             **error)
{
  GpuMemoryBlock *block = g_hash_table_lookup (shard->blocks, GSIZE_TO_POINTER (address));

  if (block == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "GpuPoolHooks.add_stream(): 0x%" G_GINT64_MODIFIER "x is not the start of "
                   "memory of GpuPoolHooks.alloc()", address);
      return FALSE;
    }

  if (is_private (state, block))
    _gpu_pool_capture_add_timeline (block, stream->timeline);
  else
    return gpu_memory_block_add_stream (block, stream->stream, error);

  return TRUE;
}

static gboolean
hooks_add_stream (gpointer   data,
                  guint64    address,
                  gpointer   handle,
                  GError   **error)
{
  GpuPoolHooksState *state = data;
  guint64 capture;
  GpuPoolHooksStream *stream = find_live_stream (state, handle, &capture, error);
  GpuPoolHooksShard *shard = get_shard (state, address);
  gboolean added;

  if (stream == NULL)
    return FALSE;

  /* The lock keeps the block from being freed. */
  _gpu_pool_lock (&shard->lock);
  added = add_stream_locked (state, shard, address, stream, error);
  _gpu_pool_unlock (&shard->lock);
  leave_stream (state, stream);

  return added;
}

typedef struct
{
  guint64  address;
  guint64  start;
  gsize    size;                    /* 0: not found */
  gboolean is_private;              /* the address belongs to a capture */
} Search;

static void
search_range (gpointer              data,
              const GpuPoolSegment *segment G_GNUC_UNUSED,
              guint64               address,
              gsize                 size,
              gsize                 requested,
              GpuPoolState          range_state,
              gpointer              key G_GNUC_UNUSED)
{
  Search *search = data;

  if (search->address >= address && search->address - address < size)
    search->is_private = TRUE;

  if (range_state != GPU_POOL_ACTIVE || search->address < address
      || search->address - address >= requested)
    return;

  search->start = address;
  search->size = requested;
}

static void
search_capture (gpointer pool,
                gpointer search)
{
  _gpu_pool_visit (pool, search_range, search);
}

static gboolean
hooks_lookup (gpointer  data,
              guint64   address,
              guint64  *start,
              gsize    *size)
{
  GpuPoolHooksState *state = data;
  GpuPoolHooksShard *shard = get_shard (state, address);
  Search search = { .address = address, .start = address };
  GpuMemoryBlock *block;

  _gpu_pool_lock (&shard->lock);
  block = g_hash_table_lookup (shard->blocks, GSIZE_TO_POINTER (address));
  if (block != NULL)
    search.size = _gpu_pool_block_get_size (block);
  _gpu_pool_unlock (&shard->lock);

  /* First the memory of captures: in the pool itself it is part of a larger block. */
  if (search.size == 0)
    _gpu_pool_captures_visit (state, search_capture, &search);
  if (search.size == 0 && !search.is_private)
    _gpu_pool_visit (state->owner->blocks, search_range, &search);

  if (start != NULL)
    *start = search.start;
  if (size != NULL)
    *size = search.size;

  return search.size != 0;
}

static void
hooks_end_stream (gpointer data,
                  gpointer handle)
{
  GpuPoolHooksState *state = data;
  GpuPoolHooksStream *stream = is_default (handle) ? NULL : look_up_stream (state, handle);

  if (stream != NULL)
    forget_stream (state, stream, FALSE);
  leave_stream (state, stream);
}

static guint64
hooks_get_figure (gpointer    data,
                  const char *name)
{
  GpuPoolHooksState *state = data;
  GpuPoolStats stats;

  _gpu_pool_core_get_stats (state->owner->core, &stats);

  for (guint i = 0; i < GPU_POOL_N_FIGURES; i++)
    if (g_strcmp0 (_gpu_pool_figures[i].name, name) == 0)
      return _gpu_pool_stats_get (&stats, i);

  return 0;
}

static void
hooks_trim (gpointer data,
            guint64  keep)
{
  GpuPoolHooksState *state = data;

  drop_ended (state);
  _gpu_pool_captures_collect (state);
  gpu_memory_pool_trim (state->owner, keep);
}

/* --- creating and freeing ---------------------------------------------------------------- */

static GpuPoolHooksState *
state_new (GpuMemoryPool *pool)
{
  GpuPoolHooksState *state = g_new0 (GpuPoolHooksState, 1);

  state->owner = pool;
  state->generation = new_generation ();
  state->table = (GpuPoolHooks) {
    .version = GPU_POOL_HOOKS_VERSION,
    .pool = state,
    .alloc = hooks_alloc,
    .free = hooks_free,
    .add_stream = hooks_add_stream,
    .lookup = hooks_lookup,
    .end_stream = hooks_end_stream,
    .begin_capture = _gpu_pool_captures_begin,
    .end_capture = _gpu_pool_captures_end,
    .release_capture = _gpu_pool_captures_release,
    .get_figure = hooks_get_figure,
    .trim = hooks_trim
  };

  _gpu_pool_lock_init (&state->lock);
  g_mutex_init (&state->visit_lock);
  state->streams = g_hash_table_new (NULL, NULL);
  state->past = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) _gpu_timeline_unref);
  state->recycled = g_ptr_array_new_with_free_func (g_free);
  state->ended = g_ptr_array_new_with_free_func (g_object_unref);
  state->captures = g_ptr_array_new ();
  state->freed = g_ptr_array_new ();

  for (guint i = 0; i < GPU_POOL_HOOKS_SHARDS; i++)
    {
      _gpu_pool_lock_init (&state->shards[i].lock);
      state->shards[i].blocks = g_hash_table_new (NULL, NULL);
    }

  return state;
}

GpuPoolHooks *
_gpu_memory_pool_get_hooks (GpuMemoryPool *pool)
{
  if (pool->blocks == NULL)
    return NULL;

  g_mutex_lock (&pool->lock);
  if (pool->hooks == NULL)
    pool->hooks = state_new (pool);
  g_mutex_unlock (&pool->lock);

  return &pool->hooks->table;
}

static void
forget_timeline (gpointer key G_GNUC_UNUSED,
                 gpointer value,
                 gpointer data G_GNUC_UNUSED)
{
  _gpu_pool_set_capture_role (((GpuPoolHooksStream *) value)->timeline, GPU_CAPTURE_ROLE_NONE);
}

static void
drop_stream (gpointer key G_GNUC_UNUSED,
             gpointer stream,
             gpointer state)
{
  stream_drop (state, stream);
}

/* Frees the memory that the caller has not freed, as when the last reference to a block is
 * dropped. */
static void
free_blocks (GpuPoolHooksState *state,
             GpuPoolHooksShard *shard)
{
  GHashTableIter iter;
  gpointer block;

  g_hash_table_iter_init (&iter, shard->blocks);
  while (g_hash_table_iter_next (&iter, NULL, &block))
    {
      if (is_private (state, block))
        _gpu_pool_capture_free (block, NULL);
      else
        gpu_memory_block_unref (block);
    }

  g_hash_table_unref (shard->blocks);
  _gpu_pool_lock_clear (&shard->lock);
}

void
_gpu_memory_pool_free_hooks (GpuMemoryPool *pool)
{
  GpuPoolHooksState *state = g_steal_pointer (&pool->hooks);

  if (state == NULL)
    return;

  for (guint i = 0; i < GPU_POOL_HOOKS_SHARDS; i++)
    free_blocks (state, &state->shards[i]);

  g_hash_table_foreach (state->streams, forget_timeline, NULL);
  _gpu_pool_captures_clear (state);
  drop_ended (state);
  g_hash_table_foreach (state->streams, drop_stream, state);
  g_hash_table_unref (state->streams);
  g_hash_table_unref (state->past);
  g_ptr_array_unref (state->recycled);
  g_ptr_array_unref (state->ended);
  g_ptr_array_unref (state->captures);
  g_ptr_array_unref (state->freed);
  g_mutex_clear (&state->visit_lock);
  _gpu_pool_lock_clear (&state->lock);
  g_free (state);
}

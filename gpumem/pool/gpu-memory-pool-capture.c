/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Captures: memory that belongs to a graph. Each capture has a pool of its own, whose segments are
 * blocks of the pool of the program, so that limits and counters hold for both. The memory returns
 * when the graph is destroyed and the program has freed it.
 */
#include "config.h"

#include "gpumem/device/gpu-context-private.h"
#include "gpumem/pool/core/gpu-pool-node.h"
#include "gpumem/pool/gpu-memory-pool-hooks-private.h"
#include "gpumem/stream/gpu-stream-private.h"

/* Bytes of an ordinary segment of a capture. */
#define SEGMENT_SIZE ((gsize) 32 * 1024 * 1024)

/* Captures whose pool was finalized while the driver refused to wait for the device. Guarded by the
 * lock of captures. */
static GPtrArray *orphans;

/* The filter of begin_capture(), and its data. */
typedef struct
{
  gatomicrefcount      refs;
  GpuPoolStreamFilter  accepts;     /* NULL: accepts every stream */
  gpointer             data;
  GDestroyNotify       destroy;     /* nullable */
} Filter;

struct _GpuPoolCapture
{
  gatomicrefcount      refs;
  gint                 is_released; /* atomic */
  GpuPoolHooksState   *state;       /* NULL if the pool was finalized before the memory returned */
  GpuPoolCore         *core;
  GpuPool             *pool;
  GpuPoolLock          lock;        /* guards `users` */
  GHashTable          *users;       /* GpuMemoryBlock -> GPtrArray of GpuTimeline; nullable */

  /* The lock of captures guards all members below. */
  GpuPoolWatch         watch;       /* active: memory is being allocated for the capture. Has the
                                     * driver's number of a detected capture */
  gboolean             is_closed;   /* no thread may allocate any more */
  guint                n_allocating;  /* threads that allocate; meanwhile it is not closed */
  guint64              number;      /* of begin_capture(); 0 for a detected capture */
  Filter              *filter;      /* of an announced capture that is active */
  GpuStream           *stream;      /* of a detected capture: the stream that was seen */
};

static Filter *
filter_new (GpuPoolStreamFilter accepts,
            gpointer            data,
            GDestroyNotify      destroy)
{
  Filter *filter = g_new (Filter, 1);

  *filter = (Filter) { .accepts = accepts, .data = data, .destroy = destroy };
  g_atomic_ref_count_init (&filter->refs);

  return filter;
}

/* Caller holds no lock. @filter is nullable. */
static void
filter_unref (Filter *filter)
{
  if (filter == NULL || !g_atomic_ref_count_dec (&filter->refs))
    return;

  if (filter->destroy != NULL)
    filter->destroy (filter->data);
  g_free (filter);
}

static void
set_active_locked (GpuPoolCapture *capture,
                   gboolean        is_active)
{
  if (capture->watch.is_active == is_active)
    return;

  _gpu_pool_watch_set_active_locked (&capture->watch, is_active);
  if (capture->number != 0)
    g_atomic_int_add (&capture->state->n_begun, is_active ? 1 : -1);
}

/* --- the pool of a capture --------------------------------------------------------------- */

/* Allocates a block without a stream: such a block has no pending uses, and the request neither
 * waits nor moves memory. */
static gboolean
alloc_segment (gpointer         owner,
               gsize            size,
               GpuPoolSegment  *segment,
               GError         **error)
{
  GpuPoolCapture *capture = owner;
  GpuMemoryBlock *block = _gpu_pool_core_alloc (capture->core, size, 0, NULL, error);

  if (block == NULL)
    return FALSE;

  *segment = (GpuPoolSegment) { .address = _gpu_pool_block_get_address (block), .size = size,
                                .data = block };

  return TRUE;
}

static void
free_segment (gpointer               owner,
              const GpuPoolSegment  *segment)
{
  _gpu_pool_core_release (((GpuPoolCapture *) owner)->core, segment->data, NULL, NULL);
}

/* The pool that provides the segments has already tried to make room. */
static gboolean
make_room (gpointer owner G_GNUC_UNUSED,
           gsize    size G_GNUC_UNUSED,
           guint   *attempt G_GNUC_UNUSED)
{
  return FALSE;
}

static const GpuPoolOps capture_ops = {
  .alloc_segment = alloc_segment,
  .free_segment = free_segment,
  .make_room = make_room,
  .is_frozen = _gpu_pool_is_frozen
};

static GpuPoolCapture *
capture_new (GpuPoolHooksState *state)
{
  GpuPoolCapture *capture = g_new0 (GpuPoolCapture, 1);
  const GpuPoolConfig config = { .unit = state->owner->core->unit, .segment_size = SEGMENT_SIZE };

  g_atomic_ref_count_init (&capture->refs);
  capture->state = state;
  capture->core = _gpu_pool_core_ref (state->owner->core);
  /* Cannot fail, because the pool that provides the segments exists. */
  capture->pool = _gpu_pool_new (&config, &capture_ops, capture, &_gpu_pool_timeline_ops, NULL);
  _gpu_pool_lock_init (&capture->lock);

  return capture;
}

static GpuPoolCapture *
capture_ref (GpuPoolCapture *capture)
{
  g_atomic_ref_count_inc (&capture->refs);

  return capture;
}

/* The last reference may be dropped by the driver, on a thread that must not call the driver. By
 * then capture_finish() was called. */
static void
capture_unref (GpuPoolCapture *capture)
{
  if (!g_atomic_ref_count_dec (&capture->refs))
    return;

  g_clear_pointer (&capture->users, g_hash_table_unref);
  _gpu_pool_lock_clear (&capture->lock);
  g_free (capture);
}

/* Returns all memory to the pool, drops what the capture holds, and drops a reference. No thread
 * uses the capture. */
static void
capture_finish (GpuPoolCapture *capture)
{
  g_clear_pointer (&capture->pool, _gpu_pool_free);
  g_clear_pointer (&capture->core, _gpu_pool_core_unref);
  g_clear_object (&capture->stream);
  capture_unref (capture);
}

/* Caller holds the lock of captures. */
static GpuPoolCapture *
enter_locked (GpuPoolCapture *capture)
{
  capture->n_allocating++;

  return capture_ref (capture);
}

void
_gpu_pool_capture_leave (GpuPoolCapture *capture)
{
  g_mutex_lock (&_gpu_pool_captures_lock);
  capture->n_allocating--;
  g_mutex_unlock (&_gpu_pool_captures_lock);

  capture_unref (capture);
}

GpuMemoryBlock *
_gpu_pool_capture_alloc (GpuPoolCapture  *capture,
                         gsize            size,
                         GpuTimeline     *timeline,
                         GError         **error)
{
  GpuMemoryBlock *block = _gpu_pool_alloc (capture->pool, size, 0, timeline, error);

  if (block != NULL && gpu_pool_core_records (capture->core))
    _gpu_pool_core_record (capture->core, GPU_POOL_GRAPH_ALLOC,
                           _gpu_pool_block_get_address (block), size, timeline);

  return block;
}

void
_gpu_pool_capture_add_timeline (GpuMemoryBlock *block,
                                GpuTimeline    *timeline)
{
  GpuPoolCapture *capture = _gpu_pool_get_owner (_gpu_pool_block_get_pool (block));
  GPtrArray *timelines;

  _gpu_pool_lock (&capture->lock);
  if (capture->users == NULL)
    capture->users = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) g_ptr_array_unref);

  timelines = g_hash_table_lookup (capture->users, block);
  if (timelines == NULL)
    {
      timelines = g_ptr_array_new_with_free_func ((GDestroyNotify) _gpu_timeline_unref);
      g_hash_table_insert (capture->users, block, timelines);
      _gpu_pool_block_set_owner_flag (block, TRUE);
    }

  g_atomic_int_set (&timeline->is_pooled, TRUE);
  if (!g_ptr_array_find (timelines, timeline, NULL))
    g_ptr_array_add (timelines, _gpu_timeline_ref (timeline));
  _gpu_pool_unlock (&capture->lock);
}

static GPtrArray *
take_timelines (GpuPoolCapture *capture,
                GpuMemoryBlock *block)
{
  gpointer timelines = NULL;

  _gpu_pool_lock (&capture->lock);
  g_hash_table_steal_extended (capture->users, block, NULL, &timelines);
  _gpu_pool_block_set_owner_flag (block, FALSE);
  _gpu_pool_unlock (&capture->lock);

  return timelines;
}

void
_gpu_pool_capture_free (GpuMemoryBlock *block,
                        GpuTimeline    *timeline)
{
  GpuPoolCapture *capture = _gpu_pool_get_owner (_gpu_pool_block_get_pool (block));

  if (gpu_pool_core_records (capture->core))
    _gpu_pool_core_record (capture->core, GPU_POOL_GRAPH_FREE, _gpu_pool_block_get_address (block),
                           _gpu_pool_block_get_size (block), timeline);

  if (_gpu_pool_block_get_owner_flag (block))
    {
      g_autoptr (GPtrArray) timelines = take_timelines (capture, block);

      if (timeline != NULL)
        g_ptr_array_add (timelines, _gpu_timeline_ref (timeline));
      _gpu_pool_release_all (block, timelines->pdata, timelines->len);
    }
  else if (timeline != NULL)
    {
      _gpu_pool_release (block, timeline);
    }
  else
    {
      _gpu_pool_release_on_alloc_stream (block);
    }
}

/* --- finding ------------------------------------------------------------------------------ */

/* Called by the driver, on any thread, when the last graph with the captured work was destroyed. */
static void
graph_destroyed (gpointer data)
{
  GpuPoolCapture *capture = data;

  g_atomic_int_set (&capture->is_released, TRUE);
  capture_unref (capture);
}

static GpuPoolCapture *
find_detected_locked (GpuPoolHooksState *state,
                      guint64            sequence)
{
  for (guint i = 0; i < state->captures->len; i++)
    {
      GpuPoolCapture *capture = state->captures->pdata[i];

      if (capture->number == 0 && capture->watch.sequence == sequence && !capture->is_closed)
        return capture;
    }

  return NULL;
}

/* Returns (transfer full) (nullable) the stream that the capture no longer watches. */
static GpuStream *
watch_locked (GpuPoolCapture     *capture,
              GpuPoolHooksStream *stream)
{
  GpuStream *old = g_steal_pointer (&capture->stream);

  capture->stream = g_object_ref (stream->stream);
  capture->watch.timeline = stream->timeline;
  set_active_locked (capture, TRUE);

  return old;
}

/* If the driver does not report that the graph is destroyed, the capture keeps its memory until
 * the pool is finalized. */
static GpuPoolCapture *
detect (GpuPoolHooksState  *state,
        GpuPoolHooksStream *stream,
        guint64             sequence)
{
  const GpuStreamOps *ops = stream->timeline->context->backend->stream;
  g_autoptr (GpuStream) old = NULL;         /* dropped without the lock */
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&_gpu_pool_captures_lock);
  GpuPoolCapture *capture = find_detected_locked (state, sequence);

  if (capture != NULL)
    {
      /* The stream that was watched has ended, but others of the capture have not. */
      if (!capture->watch.is_active)
        old = watch_locked (capture, stream);
      return enter_locked (capture);
    }

  capture = capture_new (state);
  capture->watch.sequence = sequence;
  g_ptr_array_add (state->captures, capture);
  watch_locked (capture, stream);

  capture_ref (capture);
  if (!ops->retain_in_capture (stream->timeline->stream, graph_destroyed, capture, NULL))
    capture_unref (capture);

  return enter_locked (capture);
}

void
_gpu_pool_captures_forget_stream (GpuPoolHooksState *state,
                                  GpuTimeline       *timeline,
                                  GPtrArray         *streams)
{
  g_mutex_lock (&_gpu_pool_captures_lock);
  for (guint i = 0; i < state->captures->len; i++)
    {
      GpuPoolCapture *capture = state->captures->pdata[i];

      if (capture->stream == NULL || capture->watch.timeline != timeline)
        continue;

      set_active_locked (capture, FALSE);
      capture->watch.timeline = NULL;
      g_ptr_array_add (streams, g_steal_pointer (&capture->stream));
    }
  g_mutex_unlock (&_gpu_pool_captures_lock);
}

/* Returns the active captures with a filter, and takes a reference to the filter of each. */
static GPtrArray *
list_filters (GpuPoolHooksState *state,
              GPtrArray         *captures)
{
  GPtrArray *filters = g_ptr_array_new_with_free_func ((GDestroyNotify) filter_unref);

  g_mutex_lock (&_gpu_pool_captures_lock);
  for (guint i = 0; i < state->captures->len; i++)
    {
      GpuPoolCapture *capture = state->captures->pdata[i];

      if (capture->filter == NULL || capture->is_closed)
        continue;

      g_atomic_ref_count_inc (&capture->filter->refs);
      g_ptr_array_add (filters, capture->filter);
      g_ptr_array_add (captures, capture_ref (capture));
    }
  g_mutex_unlock (&_gpu_pool_captures_lock);

  return filters;
}

/* Returns NULL if the capture was closed in the meantime. */
static GpuPoolCapture *
enter (GpuPoolCapture *capture)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&_gpu_pool_captures_lock);

  return capture->is_closed ? NULL : enter_locked (capture);
}

/* Calls the filters without a lock: they are code of the program. */
static GpuPoolCapture *
find_announced (GpuPoolHooksState *state,
                gpointer           handle)
{
  g_autoptr (GPtrArray) captures =
    g_ptr_array_new_with_free_func ((GDestroyNotify) capture_unref);
  g_autoptr (GPtrArray) filters = list_filters (state, captures);

  for (guint i = 0; i < filters->len; i++)
    {
      const Filter *filter = filters->pdata[i];
      GpuPoolCapture *capture = NULL;

      if (filter->accepts == NULL || filter->accepts (handle, filter->data))
        capture = enter (captures->pdata[i]);
      if (capture != NULL)
        return capture;
    }

  return NULL;
}

GpuPoolCapture *
_gpu_pool_captures_find (GpuPoolHooksState  *state,
                         GpuPoolHooksStream *stream,
                         guint64             sequence)
{
  GpuPoolCapture *capture = NULL;

  if (g_atomic_int_get (&state->n_begun) > 0)
    capture = find_announced (state, stream->handle);
  if (capture == NULL && sequence != 0)
    capture = detect (state, stream, sequence);

  return capture;
}

/* --- announced captures -------------------------------------------------------------------- */

static GpuPoolCapture *
find_announced_locked (GpuPoolHooksState *state,
                       guint64            number)
{
  for (guint i = 0; number != 0 && i < state->captures->len; i++)
    {
      GpuPoolCapture *capture = state->captures->pdata[i];

      if (capture->number == number && !capture->is_closed
          && !g_atomic_int_get (&capture->is_released))
        return capture;
    }

  return NULL;
}

/* Takes ownership of @filter on success. Returns FALSE if the capture is active. */
static gboolean
begin_locked (GpuPoolHooksState *state,
              guint64            number,
              Filter            *filter)
{
  GpuPoolCapture *capture = find_announced_locked (state, number);

  if (capture == NULL)
    {
      capture = capture_new (state);
      capture->number = number;
      g_ptr_array_add (state->captures, capture);
    }

  if (capture->watch.is_active)
    return FALSE;

  capture->filter = filter;
  set_active_locked (capture, TRUE);

  return TRUE;
}

gboolean
_gpu_pool_captures_begin (gpointer              data,
                          guint64               number,
                          GpuPoolStreamFilter   accepts,
                          gpointer              filter_data,
                          GDestroyNotify        destroy,
                          GError              **error)
{
  GpuPoolHooksState *state = data;
  Filter *filter;
  gboolean has_begun;

  if (number == 0)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                           "GpuPoolHooks.begin_capture(): the number of a capture is not 0");
      return FALSE;
    }

  _gpu_pool_captures_collect (state);
  filter = filter_new (accepts, filter_data, destroy);

  g_mutex_lock (&_gpu_pool_captures_lock);
  has_begun = begin_locked (state, number, filter);
  g_mutex_unlock (&_gpu_pool_captures_lock);

  if (has_begun)
    return TRUE;

  filter->destroy = NULL;
  filter_unref (filter);
  g_set_error (error, GPU_ERROR, GPU_ERROR_BUSY,
               "GpuPoolHooks.begin_capture(): the capture %" G_GUINT64_FORMAT
               " has begun; end it first", number);

  return FALSE;
}

gboolean
_gpu_pool_captures_end (gpointer data,
                        guint64  number)
{
  GpuPoolHooksState *state = data;
  GpuPoolCapture *capture;
  Filter *filter = NULL;

  g_mutex_lock (&_gpu_pool_captures_lock);
  capture = find_announced_locked (state, number);
  if (capture != NULL)
    {
      filter = g_steal_pointer (&capture->filter);
      set_active_locked (capture, FALSE);
    }
  g_mutex_unlock (&_gpu_pool_captures_lock);

  filter_unref (filter);
  _gpu_pool_captures_collect (state);

  return capture != NULL;
}

/* --- returning memory ------------------------------------------------------------------------ */

/* Called on any thread when all memory of the capture is free. */
static void
add_freed (gpointer data)
{
  GpuPoolCapture *capture = data;

  g_mutex_lock (&_gpu_pool_captures_lock);
  g_ptr_array_add (capture->state->freed, capture);
  g_mutex_unlock (&_gpu_pool_captures_lock);
}

static void
finish_one (gpointer capture,
            gpointer data G_GNUC_UNUSED)
{
  capture_finish (capture);
}

static void
add_orphan (GpuPoolCapture *capture)
{
  g_mutex_lock (&_gpu_pool_captures_lock);
  if (orphans == NULL)
    orphans = g_ptr_array_new ();
  capture->state = NULL;
  g_ptr_array_add (orphans, capture);
  g_mutex_unlock (&_gpu_pool_captures_lock);
}

/* Makes released captures inactive: the pool allocates no more memory for them. */
static void
deactivate_released (GpuPoolHooksState *state)
{
  g_autoptr (GPtrArray) filters = g_ptr_array_new_with_free_func ((GDestroyNotify) filter_unref);

  g_mutex_lock (&_gpu_pool_captures_lock);
  for (guint i = 0; i < state->captures->len; i++)
    {
      GpuPoolCapture *capture = state->captures->pdata[i];

      if (!g_atomic_int_get (&capture->is_released))
        continue;

      set_active_locked (capture, FALSE);
      if (capture->filter != NULL)
        g_ptr_array_add (filters, g_steal_pointer (&capture->filter));
    }
  g_mutex_unlock (&_gpu_pool_captures_lock);
}

/* Takes the captures that are released and not closed. */
static GPtrArray *
take_released (GpuPoolHooksState *state)
{
  GPtrArray *captures = g_ptr_array_new ();

  g_mutex_lock (&_gpu_pool_captures_lock);
  for (guint i = 0; i < state->captures->len; i++)
    {
      GpuPoolCapture *capture = state->captures->pdata[i];

      if (capture->is_closed || capture->n_allocating > 0
          || !g_atomic_int_get (&capture->is_released))
        continue;

      capture->is_closed = TRUE;
      g_ptr_array_add (captures, capture);
    }
  g_mutex_unlock (&_gpu_pool_captures_lock);

  return captures;
}

/* Closes the pools of released captures. First waits for the device: launches of the graphs may be
 * pending on any stream, and a closed pool returns its free memory. Returns TRUE if any pool was
 * closed. */
static gboolean
close_released (GpuPoolHooksState *state)
{
  g_autoptr (GPtrArray) captures = take_released (state);

  if (captures->len == 0)
    return FALSE;

  if (_gpu_pool_synchronize_context (state->owner->core->context))
    {
      for (guint i = 0; i < captures->len; i++)
        _gpu_pool_close (((GpuPoolCapture *) captures->pdata[i])->pool, add_freed,
                         captures->pdata[i]);
      return TRUE;
    }

  g_mutex_lock (&_gpu_pool_captures_lock);
  for (guint i = 0; i < captures->len; i++)
    ((GpuPoolCapture *) captures->pdata[i])->is_closed = FALSE;
  g_mutex_unlock (&_gpu_pool_captures_lock);

  return FALSE;
}

static GPtrArray *
take_freed (GpuPoolHooksState *state)
{
  GPtrArray *captures = g_ptr_array_new ();

  g_mutex_lock (&_gpu_pool_captures_lock);
  for (guint i = 0; i < state->freed->len; i++)
    {
      g_ptr_array_add (captures, state->freed->pdata[i]);
      g_ptr_array_remove_fast (state->captures, state->freed->pdata[i]);
    }
  g_ptr_array_set_size (state->freed, 0);
  g_mutex_unlock (&_gpu_pool_captures_lock);

  return captures;
}

/* Frees the pools of closed captures whose memory is free. First waits for the device: work on that
 * memory may be pending. */
static gboolean
finish_freed (GpuPoolHooksState *state)
{
  g_autoptr (GPtrArray) captures = take_freed (state);

  if (captures->len == 0)
    return FALSE;

  if (_gpu_pool_synchronize_context (state->owner->core->context))
    {
      g_mutex_lock (&state->visit_lock);
      g_ptr_array_foreach (captures, finish_one, NULL);
      g_mutex_unlock (&state->visit_lock);
      return TRUE;
    }

  g_mutex_lock (&_gpu_pool_captures_lock);
  for (guint i = 0; i < captures->len; i++)
    {
      g_ptr_array_add (state->captures, captures->pdata[i]);
      g_ptr_array_add (state->freed, captures->pdata[i]);
    }
  g_mutex_unlock (&_gpu_pool_captures_lock);

  return FALSE;
}

static void
finish_orphans (void)
{
  g_autoptr (GPtrArray) captures = NULL;

  g_mutex_lock (&_gpu_pool_captures_lock);
  captures = g_steal_pointer (&orphans);
  g_mutex_unlock (&_gpu_pool_captures_lock);

  for (guint i = 0; captures != NULL && i < captures->len; i++)
    {
      GpuPoolCapture *capture = captures->pdata[i];

      if (_gpu_pool_synchronize_context (capture->core->context))
        capture_finish (capture);
      else
        add_orphan (capture);
    }
}

gboolean
_gpu_pool_captures_collect (GpuPoolHooksState *state)
{
  gboolean has_closed;

  deactivate_released (state);

  if (_gpu_pool_is_frozen (NULL))
    return FALSE;

  finish_orphans ();
  has_closed = close_released (state);

  return finish_freed (state) || has_closed;
}

gboolean
_gpu_memory_pool_collect_captures (GpuMemoryPool *pool)
{
  GpuPoolHooksState *state;

  g_mutex_lock (&pool->lock);
  state = pool->hooks;
  g_mutex_unlock (&pool->lock);

  return state != NULL && _gpu_pool_captures_collect (state);
}

gboolean
_gpu_pool_captures_release (gpointer data,
                            guint64  number)
{
  GpuPoolHooksState *state = data;
  GpuPoolCapture *capture;

  g_mutex_lock (&_gpu_pool_captures_lock);
  capture = find_announced_locked (state, number);
  if (capture != NULL)
    g_atomic_int_set (&capture->is_released, TRUE);
  g_mutex_unlock (&_gpu_pool_captures_lock);

  _gpu_pool_captures_collect (state);

  return capture != NULL;
}

void
_gpu_pool_captures_visit (GpuPoolHooksState *state,
                          GFunc              func,
                          gpointer           data)
{
  g_autoptr (GPtrArray) pools = g_ptr_array_new ();

  g_mutex_lock (&state->visit_lock);
  g_mutex_lock (&_gpu_pool_captures_lock);
  for (guint i = 0; i < state->captures->len; i++)
    g_ptr_array_add (pools, ((GpuPoolCapture *) state->captures->pdata[i])->pool);
  g_mutex_unlock (&_gpu_pool_captures_lock);

  for (guint i = 0; i < pools->len; i++)
    func (pools->pdata[i], data);
  g_mutex_unlock (&state->visit_lock);
}

void
_gpu_pool_captures_clear (GpuPoolHooksState *state)
{
  g_mutex_lock (&_gpu_pool_captures_lock);
  for (guint i = 0; i < state->captures->len; i++)
    g_atomic_int_set (&((GpuPoolCapture *) state->captures->pdata[i])->is_released, TRUE);
  g_mutex_unlock (&_gpu_pool_captures_lock);

  _gpu_pool_captures_collect (state);

  /* A stream is capturing for another pool, and the driver does not wait for the device. */
  while (state->captures->len > 0)
    add_orphan (g_ptr_array_steal_index_fast (state->captures, 0));
}

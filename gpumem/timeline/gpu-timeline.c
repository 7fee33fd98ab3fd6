/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/backend/gpu-native-context-private.h"
#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/staging/gpu-transfer-cross-driver.h"
#include "gpumem/staging/gpu-transfer.h"
#include "gpumem/timeline/gpu-timeline-private.h"
#include "gpumem/timeline/gpu-user-event-private.h"

/* When a stream retains this many objects, or objects that hold this many bytes, a job releases the
 * objects of completed work. Without this limit, a stream without waiters would retain all its
 * objects. */
#define RETAINED_MAX 4096
#define RETAINED_SIZE_MAX (1024 * 1024)

typedef struct
{
  guint64        first;             /* the points whose failure the waiter gets */
  guint64        seq;               /* the last of these points, and the one to wait for */
  GpuWaiterFunc  func;
  gpointer       data;
  GError        *error;             /* set when the waiter is retired */
} GpuWaiter;

/* The objects that retire_locked() removes under the lock. retired_release_memory() and
 * retired_finish() release them without the lock. */
typedef struct
{
  GpuRetained shared;
  GpuRetained *retained;
  guint    n_retained;
  gboolean holds_memory;            /* some of the objects hold host memory of the program */
  guint    phase;                   /* of their release */
  GQueue   fences;
  GQueue   waiters;
  GQueue   user_waits;
} GpuRetired;

static GpuFence *
fence_new (guint64         seq,
           GpuNativeEvent *event)
{
  GpuFence *fence = g_new0 (GpuFence, 1);

  g_atomic_ref_count_init (&fence->refs);
  fence->seq = seq;
  fence->event = event;
  _gpu_live_add (GPU_LIVE_FENCE, 1);

  return fence;
}

GpuFence *
_gpu_fence_ref (GpuFence *fence)
{
  g_atomic_ref_count_inc (&fence->refs);

  return fence;
}

void
_gpu_fence_unref (GpuFence *fence)
{
  if (!g_atomic_ref_count_dec (&fence->refs))
    return;

  _gpu_native_event_unref (fence->event);
  g_free (fence);
  _gpu_live_add (GPU_LIVE_FENCE, -1);
}

static GpuTimeline *
timeline_new (GpuNativeContext *context,
              GpuNativeDevice  *device,
              GpuNativeStream  *stream,
              GpuStreamFlags    flags,
              int               priority)
{
  GpuTimeline *timeline = g_aligned_alloc0 (1, sizeof (GpuTimeline), GPU_LINE);

  timeline->refs = 1;
  timeline->users = 1;
  timeline->context = _gpu_native_context_ref (context);
  timeline->device = device;
  timeline->stream = stream;
  timeline->flags = flags | (_gpu_debug_has (GPU_DEBUG_MARKS) ? GPU_TIMELINE_MARKS : 0);
  timeline->priority = priority;
  timeline->retained = g_array_new (FALSE, FALSE, sizeof (GpuRetained));
  timeline->jobs = g_array_new (FALSE, FALSE, sizeof (guint64));
  _gpu_timeline_init_failures (timeline);
  g_mutex_init (&timeline->lock);
  g_mutex_init (&timeline->dual_lock);
  _gpu_live_add (GPU_LIVE_TIMELINE, 1);

  return timeline;
}

GpuTimeline *
_gpu_timeline_new (GpuNativeContext *context,
                   GpuNativeDevice  *device,
                   GpuNativeStream  *stream,
                   GpuStreamFlags    flags,
                   int               priority)
{
  GpuTimeline *timeline = timeline_new (context, device, stream, flags, priority);

  g_mutex_lock (&context->lock);
  g_ptr_array_add (context->timelines, timeline);
  g_mutex_unlock (&context->lock);

  return timeline;
}

GpuTimeline *
_gpu_timeline_new_for_event (GpuNativeContext *context,
                             GpuNativeEvent   *event)
{
  GpuTimeline *timeline = timeline_new (context, context->devices[0], NULL,
                                        GPU_STREAM_FLAGS_NONE, 0);

  timeline->users = 0;
  g_queue_push_tail (&timeline->fences,
                     fence_new (_gpu_timeline_submit_locked (timeline), event));

  return timeline;
}

GpuTimeline *
_gpu_timeline_ref (GpuTimeline *timeline)
{
  g_atomic_int_inc (&timeline->refs);

  return timeline;
}

/* Adds a reference. Returns FALSE if the timeline is being finalized, which is possible because the
 * list of the context holds no references. */
static gboolean
timeline_try_ref (GpuTimeline *timeline)
{
  gint refs = g_atomic_int_get (&timeline->refs);

  while (refs > 0)
    {
      if (g_atomic_int_compare_and_exchange (&timeline->refs, refs, refs + 1))
        return TRUE;

      refs = g_atomic_int_get (&timeline->refs);
    }

  return FALSE;
}

static void
release_shared (const GpuRetained *shared)
{
  if (shared->object != NULL)
    shared->release (shared->object);
}

static void
timeline_release_retained (GpuTimeline *timeline)
{
  release_shared (&timeline->shared);

  for (guint i = timeline->retained_first; i < timeline->retained->len; i++)
    {
      GpuRetained *retained = &g_array_index (timeline->retained, GpuRetained, i);

      retained->release (retained->object);
    }
}

/* Returns the driver's stream if it must be freed now. Caller holds the lock. */
static GpuNativeStream *
take_stream_locked (GpuTimeline *timeline)
{
  if (g_atomic_int_get (&timeline->users) > 0 || timeline->jobs->len > 0
      || timeline->n_finishing > 0 || timeline->completed != timeline->submitted)
    return NULL;

  return g_steal_pointer (&timeline->stream);
}

static void
free_stream (GpuTimeline     *timeline,
             GpuNativeStream *stream)
{
  if (stream != NULL)
    timeline->context->backend->stream->free (stream);
}

void
_gpu_timeline_use (GpuTimeline *timeline)
{
  g_atomic_int_inc (&timeline->users);
}

gboolean
_gpu_timeline_drain_locked (GpuTimeline  *timeline,
                            GError      **failure)
{
  if (!timeline->is_borrowed || timeline->n_user_waits > 0)
    return FALSE;

  if (!timeline->is_ended)
    timeline->context->backend->stream->finish (timeline->stream, failure);

  return TRUE;
}

GPU_HOT gboolean
_gpu_timeline_begin_finish_locked (GpuTimeline *timeline,
                                   guint64     *submitted)
{
  if (timeline->stream == NULL || timeline->is_ended)
    return FALSE;

  timeline->n_finishing++;
  *submitted = timeline->submitted;

  return TRUE;
}

void
_gpu_timeline_append_point_locked (GpuTimeline *timeline)
{
  if (g_atomic_int_get (&timeline->is_open) && timeline->stream != NULL
      && !g_atomic_int_get (&timeline->context->lost))
    _gpu_timeline_submit_marker_locked (timeline);
}

guint64
_gpu_timeline_append_point (GpuTimeline *timeline)
{
  guint64 seq;

  _gpu_timeline_lock (timeline);

  if (!timeline->is_ended)
    _gpu_timeline_append_point_locked (timeline);

  seq = timeline->submitted;
  _gpu_timeline_unlock (timeline);

  return seq;
}

void
_gpu_timeline_job_end (GpuTimeline *timeline,
                       guint64      seq)
{
  GpuNativeStream *stream;

  g_mutex_lock (&timeline->lock);

  for (guint i = 0; i < timeline->jobs->len; i++)
    {
      if (g_array_index (timeline->jobs, guint64, i) == seq)
        {
          g_array_remove_index_fast (timeline->jobs, i);
          break;
        }
    }

  stream = take_stream_locked (timeline);
  g_mutex_unlock (&timeline->lock);
  free_stream (timeline, stream);
}

static void
timeline_free (gpointer data)
{
  GpuTimeline *timeline = data;
  GpuNativeContext *context = timeline->context;

  if (timeline->completed != timeline->submitted)
    g_atomic_int_add (&context->n_active, -1);

  timeline_release_retained (timeline);
  g_clear_pointer (&timeline->timed_event, _gpu_native_event_unref);
  g_queue_clear_full (&timeline->fences, (GDestroyNotify) _gpu_fence_unref);
  g_array_unref (timeline->retained);
  g_array_unref (timeline->jobs);
  g_array_unref (timeline->failures);
  g_ptr_array_unref (timeline->user_waits);
  g_hash_table_unref (timeline->user_events);
  g_clear_pointer (&timeline->file_queue, _gpu_transfer_queue_unref);
  free_stream (timeline, timeline->stream);
  g_mutex_clear (&timeline->lock);
  g_mutex_clear (&timeline->dual_lock);
  g_aligned_free (timeline);
  _gpu_live_add (GPU_LIVE_TIMELINE, -1);
  _gpu_native_context_unref (context);
}

void
_gpu_timeline_unref (GpuTimeline *timeline)
{
  GpuNativeContext *context = timeline->context;

  if (!g_atomic_int_dec_and_test (&timeline->refs))
    return;

  g_mutex_lock (&context->lock);
  g_ptr_array_remove_fast (context->timelines, timeline);
  g_mutex_unlock (&context->lock);

  /* A stream that was dropped during a capture may still retain objects. The caller may hold locks,
   * and their release may call functions of the program. */
  if (timeline->retained->len > timeline->retained_first || timeline->shared.object != NULL)
    _gpu_timeline_run_later (timeline_free, timeline);
  else
    timeline_free (timeline);
}

GPtrArray *
_gpu_timeline_list (GpuNativeContext *context)
{
  GPtrArray *timelines = g_ptr_array_new_with_free_func ((GDestroyNotify) _gpu_timeline_unref);

  g_mutex_lock (&context->lock);

  for (guint i = 0; i < context->timelines->len; i++)
    {
      GpuTimeline *timeline = g_ptr_array_index (context->timelines, i);

      if (timeline_try_ref (timeline))
        g_ptr_array_add (timelines, timeline);
    }

  g_mutex_unlock (&context->lock);

  return timelines;
}

guint64
_gpu_timeline_get_submitted (GpuTimeline *timeline)
{
  return __atomic_load_n (&timeline->submitted, __ATOMIC_ACQUIRE);
}

void
_gpu_timeline_retain_locked (GpuTimeline    *timeline,
                             gpointer        object,
                             GDestroyNotify  release,
                             gsize           size)
{
  GpuRetained retained = { timeline->submitted, object, release, size };

  if (_gpu_retained_is_cross_driver (&retained))
    timeline->n_cross_driver++;

  g_array_append_val (timeline->retained, retained);
  timeline->retained_size += size;

  if (timeline->retained->len - timeline->retained_first >= RETAINED_MAX
      || timeline->retained_size >= RETAINED_SIZE_MAX)
    _gpu_timeline_collect_locked (timeline);
}

void
_gpu_timeline_share_locked (GpuTimeline         *timeline,
                            gpointer             object,
                            const GpuRetainType *type)
{
  const GpuRetained *last = &timeline->shared;

  if (last->object != NULL)
    _gpu_timeline_retain_locked (timeline, last->object, last->release, 0);

  timeline->shared = (GpuRetained) { timeline->submitted, type->retain (object), type->release,
                                     0 };
}

void
_gpu_timeline_add_fence_locked (GpuTimeline    *timeline,
                                guint64         seq,
                                GpuNativeEvent *event)
{
  g_queue_push_tail (&timeline->fences, fence_new (seq, event));
  /* If this fails, the wait for the event fails as well. */
  timeline->context->backend->stream->flush (timeline->stream, NULL);
}

/* Searches from both ends: jobs need the first fences, and other callers the last ones. */
static GpuFence *
find_fence_locked (GpuTimeline *timeline,
                   guint64      seq)
{
  GList *l = timeline->fences.head;
  GpuFence *found = NULL;

  if (l != NULL && ((GpuFence *) l->data)->seq >= seq)
    return l->data;

  for (l = timeline->fences.tail; l != NULL && ((GpuFence *) l->data)->seq >= seq; l = l->prev)
    found = l->data;

  return found;
}

gboolean
_gpu_timeline_has_fence_locked (GpuTimeline *timeline,
                                guint64      seq)
{
  return find_fence_locked (timeline, seq) != NULL;
}

static GpuFence *
record_fence_locked (GpuTimeline  *timeline,
                     GError      **error)
{
  GpuNativeEvent *event;

  if (timeline->is_ended)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_FAILED,
                           "no event could be recorded when the use of a borrowed stream ended");
      return NULL;
    }

  event = timeline->context->backend->stream->record (timeline->stream, GPU_EVENT_FLAGS_NONE,
                                                      error);

  return event != NULL ? fence_new (timeline->submitted, event) : NULL;
}

GpuFence *
_gpu_timeline_get_fence_locked (GpuTimeline  *timeline,
                                guint64       seq,
                                GError      **error)
{
  const GpuStreamOps *ops = timeline->context->backend->stream;
  GpuFence *fence = find_fence_locked (timeline, seq);

  if (fence != NULL)
    return _gpu_fence_ref (fence);

  if (!_gpu_timeline_check_fence_locked (timeline, error))
    return NULL;

  fence = record_fence_locked (timeline, error);

  if (fence == NULL)
    return NULL;

  g_queue_push_tail (&timeline->fences, fence);

  return ops->flush (timeline->stream, error) ? _gpu_fence_ref (fence) : NULL;
}

static guint64
get_handle_locked (GpuTimeline *timeline)
{
  return timeline->stream != NULL
         ? timeline->context->backend->stream->get_handle (timeline->stream) : 0;
}

GpuFence *
_gpu_timeline_get_stream_fence_locked (GpuTimeline  *timeline,
                                       guint64       seq,
                                       guint64      *capture,
                                       guint64      *captured,
                                       GError      **error)
{
  *capture = _gpu_timeline_has_fence_locked (timeline, seq)
             ? 0 : _gpu_timeline_get_capture_locked (timeline);

  if (*capture == 0)
    return _gpu_timeline_get_fence_locked (timeline, seq, error);

  *captured = get_handle_locked (timeline);

  /* Does not list the fence, whose event is invalid after the capture. */
  return record_fence_locked (timeline, error);
}

void
_gpu_timeline_allow_captures (void)
{
  g_atomic_int_set (&_gpu_may_capture, TRUE);
}

GPU_HOT guint64
_gpu_timeline_get_capture_locked (GpuTimeline *timeline)
{
  const GpuStreamOps *ops = timeline->context->backend->stream;
  guint64 capture = 0;

  if (!g_atomic_int_get (&_gpu_may_capture))
    return 0;

  if (ops->get_state != NULL && timeline->stream != NULL && !timeline->is_ended)
    ops->get_state (timeline->stream, NULL, &capture);

  return capture;
}

guint64
_gpu_timeline_get_capture (GpuTimeline *timeline)
{
  guint64 capture;

  if (!g_atomic_int_get (&_gpu_may_capture))
    return 0;

  _gpu_timeline_lock (timeline);
  capture = _gpu_timeline_get_capture_locked (timeline);
  _gpu_timeline_unlock (timeline);

  return capture;
}

guint64
_gpu_timeline_get_capture_of (GpuTimeline *timeline,
                              guint64      seq)
{
  guint64 capture = 0;

  _gpu_timeline_lock (timeline);
  if (!_gpu_timeline_has_fence_locked (timeline, seq))
    capture = _gpu_timeline_get_capture_locked (timeline);
  _gpu_timeline_unlock (timeline);

  return capture;
}

gboolean
_gpu_timeline_is_capturing_locked (GpuTimeline *timeline)
{
  return _gpu_timeline_get_capture_locked (timeline) != 0;
}

gboolean
_gpu_timeline_fail_captured (guint64   handle,
                             GError  **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "stream 0x%" G_GINT64_MODIFIER "x is being captured into a graph, which cannot "
               "contain this operation; end the capture first", handle);

  return FALSE;
}

gboolean
_gpu_timeline_check_fence_locked (GpuTimeline  *timeline,
                                  GError      **error)
{
  return !_gpu_timeline_is_capturing_locked (timeline)
         || _gpu_timeline_fail_captured (get_handle_locked (timeline), error);
}

gboolean
_gpu_timeline_check_captured (GpuTimeline  *timeline,
                              guint64       seq,
                              GError      **error)
{
  g_autoptr (GMutexLocker) locker = NULL;

  if (!g_atomic_int_get (&_gpu_may_capture))
    return TRUE;

  locker = g_mutex_locker_new (&timeline->lock);

  return timeline->completed >= seq || _gpu_timeline_has_fence_locked (timeline, seq)
         || _gpu_timeline_check_fence_locked (timeline, error);
}

/* An object that a graph retains. */
typedef struct
{
  gpointer       object;
  GDestroyNotify release;
} GraphRetained;

static void
graph_retained_release (gpointer data)
{
  GraphRetained *retained = data;

  retained->release (retained->object);
  g_free (retained);
}

/* Must not call the driver, as the release of an object may. */
static void
graph_destroyed (gpointer data)
{
  _gpu_timeline_run_later (graph_retained_release, data);
}

gboolean
_gpu_timeline_retain_in_graph_locked (GpuTimeline          *timeline,
                                      gpointer              object,
                                      const GpuRetainType  *type,
                                      GError              **error)
{
  const GpuStreamOps *ops = timeline->context->backend->stream;
  GraphRetained *retained;

  if (!_gpu_timeline_is_capturing_locked (timeline))
    return TRUE;

  retained = g_new (GraphRetained, 1);
  *retained = (GraphRetained) { type->retain (object), type->release };

  if (ops->retain_in_capture (timeline->stream, graph_destroyed, retained, error))
    return TRUE;

  graph_retained_release (retained);

  return FALSE;
}

gboolean
_gpu_timeline_barrier_locked (GpuTimeline  *timeline,
                              GError      **error)
{
  GpuNativeEvent *event = NULL;
  GpuNativeEvent **wanted = _gpu_timeline_may_fail_locked (timeline) ? &event : NULL;

  if ((timeline->flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) == 0
      || timeline->barrier == timeline->submitted)
    return TRUE;

  if (!timeline->context->backend->stream->barrier (timeline->stream, wanted, error))
    return FALSE;

  timeline->barrier = timeline->submitted;

  if (event != NULL)
    _gpu_timeline_retain_event_locked (timeline, event);

  return TRUE;
}

void
_gpu_timeline_retain_event_locked (GpuTimeline    *timeline,
                                   GpuNativeEvent *event)
{
  _gpu_timeline_submit_marker_locked (timeline);
  _gpu_timeline_retain_locked (timeline, event, (GDestroyNotify) _gpu_native_event_unref, 0);
}

gboolean
_gpu_timeline_get_fence (GpuTimeline  *timeline,
                         guint64       seq,
                         GpuFence    **fence,
                         GError      **error)
{
  gboolean has_failure_lock;
  gboolean over;

  *fence = NULL;

  if (_gpu_timeline_is_complete (timeline, seq))
    return TRUE;

  has_failure_lock = _gpu_timeline_lock_against_failure (timeline);
  over = timeline->completed >= seq;

  if (!over)
    *fence = _gpu_timeline_get_fence_locked (timeline, seq, error);

  _gpu_timeline_unlock_against_failure (timeline, has_failure_lock);

  return over || *fence != NULL;
}

void
_gpu_timeline_add_waiter_locked (GpuTimeline   *timeline,
                                 guint64        first,
                                 guint64        last,
                                 GpuWaiterFunc  func,
                                 gpointer       data)
{
  GpuWaiter *waiter = g_new (GpuWaiter, 1);
  GList *l = timeline->waiters.tail;

  *waiter = (GpuWaiter) { .first = first, .seq = last, .func = func, .data = data };

  while (l != NULL && ((GpuWaiter *) l->data)->seq > last)
    l = l->prev;

  if (l != NULL)
    g_queue_insert_after (&timeline->waiters, l, waiter);
  else
    g_queue_push_head (&timeline->waiters, waiter);
}

guint64
_gpu_timeline_get_needed_locked (GpuTimeline *timeline)
{
  const GpuWaiter *waiter = g_queue_peek_head (&timeline->waiters);
  guint64 collect_to = timeline->collect_to > timeline->completed ? timeline->collect_to : 0;

  if (waiter == NULL)
    return collect_to;

  return collect_to != 0 ? MIN (collect_to, waiter->seq) : waiter->seq;
}

static void
retire_retained_locked (GpuTimeline *timeline,
                        guint64      seq,
                        gboolean     failed,
                        GpuRetired  *retired)
{
  GpuRetained *first = (GpuRetained *) timeline->retained->data + timeline->retained_first;
  guint n = timeline->retained->len - timeline->retained_first;

  while (retired->n_retained < n && first[retired->n_retained].seq <= seq)
    {
      _gpu_timeline_check_retained_locked (timeline, &first[retired->n_retained], failed);
      retired->holds_memory |= first[retired->n_retained].size > 0;
      timeline->retained_size -= first[retired->n_retained++].size;
    }

  /* Before other threads see that the work has completed */
  if (retired->holds_memory)
    retired->phase = _gpu_release_begin ();

  retired->retained = g_memdup2 (first, retired->n_retained * sizeof *first);
  timeline->retained_first += retired->n_retained;

  if (timeline->retained_first > timeline->retained->len / 2)
    {
      g_array_remove_range (timeline->retained, 0, timeline->retained_first);
      timeline->retained_first = 0;
    }
}

/* Called after the failures of the points were recorded. Looks them up for the waiters now: a later
 * failure may replace them once the lock is released. */
static void
retire_waiters_locked (GpuTimeline *timeline,
                       guint64      seq,
                       GpuRetired  *retired)
{
  GQueue *waiters = &timeline->waiters;

  while (waiters->head != NULL && ((GpuWaiter *) waiters->head->data)->seq <= seq)
    {
      GpuWaiter *waiter = g_queue_pop_head (waiters);

      _gpu_timeline_check_points_locked (timeline, waiter->first, waiter->seq, &waiter->error);
      g_queue_push_tail (&retired->waiters, waiter);
    }
}

GPU_HOT static void
retire_locked (GpuTimeline  *timeline,
               guint64       seq,
               const GError *error,
               GpuRetired   *retired)
{
  g_autoptr (GError) failure = error != NULL ? g_error_copy (error) : NULL;
  guint64 from = timeline->completed;
  GQueue *fences = &timeline->fences;

  if (seq <= from)
    return;

  if (failure != NULL)
    _gpu_timeline_inherit_cause_locked (timeline, from, &failure);

  if (timeline->retained->len > 0)
    retire_retained_locked (timeline, seq, failure != NULL, retired);

  if (timeline->shared.seq <= seq)
    {
      retired->shared = timeline->shared;
      timeline->shared.object = NULL;
    }

  if (timeline->n_user_waits > 0)
    _gpu_timeline_retire_user_waits_locked (timeline, seq, &retired->user_waits, &from,
                                            &failure);

  while (fences->head != NULL && ((GpuFence *) fences->head->data)->seq <= seq)
    g_queue_push_tail (&retired->fences, g_queue_pop_head (fences));

  if (failure != NULL)
    _gpu_timeline_fail_locked (timeline, from, seq, g_steal_pointer (&failure));

  retire_waiters_locked (timeline, seq, retired);

  /* Store this last. A thread that reads `completed` without the lock must also see the failures of
   * the completed points. */
  __atomic_store_n (&timeline->completed, seq, __ATOMIC_RELEASE);

  if (seq == timeline->submitted)
    g_atomic_int_add (&timeline->context->n_active, -1);
}

gboolean
_gpu_timeline_remove_waiter (GpuTimeline   *timeline,
                             GpuWaiterFunc  func,
                             gpointer       data)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&timeline->lock);

  for (GList *l = timeline->waiters.head; l != NULL; l = l->next)
    {
      GpuWaiter *waiter = l->data;

      if (waiter->func == func && waiter->data == data)
        {
          g_queue_delete_link (&timeline->waiters, l);
          g_free (waiter);
          return TRUE;
        }
    }

  return FALSE;
}

/* Releases the objects that hold host memory. Called directly after the lock is released: other
 * calls may block, or call functions of the program, and then must not be within a counted
 * release. */
GPU_HOT static void
retired_release_memory (GpuRetired *retired)
{
  if (G_LIKELY (!retired->holds_memory))
    return;

  for (guint i = 0; i < retired->n_retained; i++)
    {
      if (retired->retained[i].size > 0)
        retired->retained[i].release (retired->retained[i].object);
    }

  _gpu_release_end (retired->phase);
}

GPU_HOT static void
retired_finish (GpuRetired *retired)
{
  release_shared (&retired->shared);

  for (guint i = 0; i < retired->n_retained; i++)
    {
      if (retired->retained[i].size == 0)
        retired->retained[i].release (retired->retained[i].object);
    }

  g_free (retired->retained);

  if (retired->fences.length > 0)
    g_queue_clear_full (&retired->fences, (GDestroyNotify) _gpu_fence_unref);

  if (retired->user_waits.length > 0)
    g_queue_clear_full (&retired->user_waits, _gpu_user_wait_free);

  while (retired->waiters.length > 0)
    {
      GpuWaiter *waiter = g_queue_pop_head (&retired->waiters);

      waiter->func (waiter->data, waiter->error);
      g_clear_error (&waiter->error);
      g_free (waiter);
    }
}

/* Locks the timeline, in order to retire work, which releases the events of that work. PoCL aborts
 * if an event is released while PoCL fails that event. If a user event may fail work of the
 * timeline, the function therefore first waits until no thread fails a user event. The wait is also
 * needed if the work to retire has not failed: after a failure, PoCL may complete later work of a
 * queue while earlier work of that queue is still running. */
static void
lock_to_retire (GpuTimeline *timeline,
                gboolean     failed)
{
  g_mutex_lock (&timeline->lock);

  if (!failed && timeline->n_user_waits == 0)
    return;

  g_mutex_unlock (&timeline->lock);
  g_mutex_lock (&timeline->context->failure_lock);
  g_mutex_unlock (&timeline->context->failure_lock);
  g_mutex_lock (&timeline->lock);
}

/* Also ends @n_finishing waits for all work in the stream. */
GPU_HOT static void
retire (GpuTimeline  *timeline,
        guint64       seq,
        const GError *failure,
        guint         n_finishing)
{
  GpuRetired retired = { 0 };
  GpuNativeStream *stream;

  lock_to_retire (timeline, failure != NULL);
  timeline->n_finishing -= n_finishing;
  retire_locked (timeline, seq, failure, &retired);
  stream = take_stream_locked (timeline);
  g_mutex_unlock (&timeline->lock);
  retired_release_memory (&retired);
  free_stream (timeline, stream);

  if (failure != NULL)
    _gpu_native_context_report (timeline->context, failure);

  _gpu_debug_print (GPU_DEBUG_COMPLETION, "timeline %p: reached %" G_GUINT64_FORMAT
                    ", released %u%s", (void *) timeline, seq, retired.n_retained,
                    failure != NULL ? ", failed" : "");

  retired_finish (&retired);
}

GPU_HOT void
_gpu_timeline_retire (GpuTimeline  *timeline,
                      guint64       seq,
                      const GError *failure)
{
  retire (timeline, seq, failure, 0);
}

GPU_HOT void
_gpu_timeline_end_finish (GpuTimeline  *timeline,
                          guint64       seq,
                          const GError *failure)
{
  retire (timeline, seq, failure, 1);
}

/* Retires all points of a drained stream. Called before the lock is released, because the program
 * may destroy the stream afterwards. Also queries the fences, because the stream does not report
 * all failures. */
static void
retire_drained_locked (GpuTimeline  *timeline,
                       const GError *failure,
                       GpuRetired   *retired)
{
  const GpuEventOps *ops = timeline->context->backend->event;
  guint64 from = timeline->completed;

  for (GList *l = timeline->fences.head; l != NULL; l = l->next)
    {
      const GpuFence *fence = l->data;
      g_autoptr (GError) error = NULL;

      if (ops->query (fence->event, &error) == GPU_EVENT_STATUS_FAILED)
        _gpu_timeline_fail_locked (timeline, from, fence->seq, g_steal_pointer (&error));

      from = fence->seq;
    }

  retire_locked (timeline, timeline->submitted, failure, retired);
}

/* Work without a fence in a stream that is being captured counts as captured, and so as complete:
 * the host cannot wait for it. gpu_stream_new_wrapped() states what that means for earlier work. */
static void
retire_captured_locked (GpuTimeline *timeline,
                        GpuRetired  *retired)
{
  const GpuFence *newest = g_queue_peek_tail (&timeline->fences);
  g_autoptr (GError) failure = NULL;

  if (newest != NULL)
    timeline->context->backend->event->wait (newest->event, FALSE, &failure);

  retire_locked (timeline, timeline->submitted, failure, retired);
}

/* Called when the last user of the timeline is removed. The program may destroy a borrowed stream
 * after this call, so this function records a fence for pending points. For a borrowed stream, work
 * that the program submitted itself is only included if a pool depends on it. */
static void
end_use_locked (GpuTimeline  *timeline,
                GpuRetired   *retired,
                GError      **failure)
{
  g_autoptr (GpuFence) fence = NULL;
  gboolean pending;

  if (timeline->is_ended)
    return;

  if (!timeline->is_borrowed || g_atomic_int_get (&timeline->is_pooled))
    _gpu_timeline_append_point_locked (timeline);

  pending = timeline->is_borrowed && timeline->completed != timeline->submitted;

  if (pending && !g_atomic_int_get (&timeline->context->lost))
    fence = _gpu_timeline_get_fence_locked (timeline, timeline->submitted, NULL);

  if (pending && fence == NULL && _gpu_timeline_is_capturing_locked (timeline))
    retire_captured_locked (timeline, retired);
  else if (pending && fence == NULL && _gpu_timeline_drain_locked (timeline, failure))
    retire_drained_locked (timeline, *failure, retired);

  timeline->is_ended = timeline->is_borrowed;
  if (timeline->is_ended && timeline->stream != NULL
      && timeline->context->backend->stream->end_use != NULL)
    timeline->context->backend->stream->end_use (timeline->stream);
}

static void
free_partners (GPtrArray *partners)
{
  for (guint i = 0; partners != NULL && i < partners->len; i++)
    {
      _gpu_timeline_unuse (g_ptr_array_index (partners, i));
      _gpu_timeline_unref (g_ptr_array_index (partners, i));
    }

  g_clear_pointer (&partners, g_ptr_array_unref);
}

void
_gpu_timeline_unuse (GpuTimeline *timeline)
{
  g_autoptr (GError) failure = NULL;
  GpuRetired retired = { 0 };
  gboolean has_failure_lock;
  GpuNativeStream *stream;
  GPtrArray *partners;

  if (!g_atomic_int_dec_and_test (&timeline->users))
    return;

  has_failure_lock = _gpu_timeline_lock_against_failure (timeline);
  end_use_locked (timeline, &retired, &failure);
  _gpu_timeline_collect_locked (timeline);
  stream = take_stream_locked (timeline);
  partners = g_steal_pointer (&timeline->partners);
  _gpu_timeline_unlock_against_failure (timeline, has_failure_lock);
  retired_release_memory (&retired);
  free_stream (timeline, stream);
  free_partners (partners);

  if (failure != NULL)
    _gpu_native_context_report (timeline->context, failure);

  retired_finish (&retired);
}

void
_gpu_point_set (GpuPoint    *point,
                GpuTimeline *timeline,
                guint64      seq)
{
  if (point->timeline != timeline)
    {
      GpuTimeline *old = point->timeline;

      point->timeline = _gpu_timeline_ref (timeline);
      g_clear_pointer (&old, _gpu_timeline_unref);
    }

  point->seq = seq;
}

void
_gpu_point_clear (GpuPoint *point)
{
  g_clear_pointer (&point->timeline, _gpu_timeline_unref);
  point->seq = 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Streams of a pool, implemented by timelines. */
#include "config.h"

#include "gpumem/base/gpu-attributes-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/pool/gpu-memory-pool-private.h"
#include "gpumem/stream/gpu-event-private.h"
#include "gpumem/stream/gpu-stream-private.h"

static gpointer
ref (gpointer key)
{
  g_atomic_int_set (&((GpuTimeline *) key)->is_pooled, TRUE);

  return _gpu_timeline_ref (key);
}

static void
unref (gpointer key)
{
  _gpu_timeline_unref (key);
}

/* Returns a fence after all work of @timeline, or NULL if all work has completed. The program may
 * have submitted work directly to the driver's stream, which the timeline does not count. Therefore
 * first appends a point, so that the fence also covers that work. If the last reference to a
 * borrowed stream was dropped, its timeline already has a point for that work. */
static GpuFence *
fence_locked (GpuTimeline  *timeline,
              GError      **error)
{
  if (!timeline->is_ended)
    _gpu_timeline_append_point_locked (timeline);

  if (timeline->completed == timeline->submitted)
    return NULL;

  return _gpu_timeline_get_fence_locked (timeline, timeline->submitted, error);
}

static gboolean
add_fence (gpointer   key,
           guint64   *seq,
           GError   **error)
{
  GpuTimeline *timeline = key;
  g_autoptr (GpuFence) fence = NULL;
  gboolean has_failure_lock;
  GError *failure = NULL;

  if (_gpu_pool_is_capturing (timeline))
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                           "work of the stream is being captured");
      return FALSE;
    }

  has_failure_lock = _gpu_timeline_lock_against_failure (timeline);

  if (timeline->stream != NULL && !g_atomic_int_get (&timeline->context->lost))
    fence = fence_locked (timeline, &failure);

  *seq = timeline->submitted;
  _gpu_timeline_unlock_against_failure (timeline, has_failure_lock);

  if (failure == NULL)
    return TRUE;

  _gpu_native_context_report (timeline->context, failure);
  g_propagate_error (error, failure);

  return FALSE;
}

/* Work of a lost device counts as completed. */
static gboolean
is_reached (gpointer key,
            guint64  seq)
{
  GpuTimeline *timeline = key;

  if (_gpu_timeline_is_complete (timeline, seq) || g_atomic_int_get (&timeline->context->lost))
    return TRUE;

  return _gpu_timeline_query (timeline, seq, NULL) != GPU_EVENT_STATUS_PENDING;
}

static gboolean
order_after (gpointer   key,
             gpointer   after,
             guint64    seq,
             GError   **error)
{
  const GpuPoint point = { after, seq };
  GError *failure = NULL;

  if (_gpu_timeline_follow_end (key, &point, "pool wait", &failure))
    return TRUE;

  /* The submission of the wait failed. This is not an error if the work of @after up to @seq has
   * completed or failed, because that work no longer uses the memory. */
  if (_gpu_timeline_is_complete (after, seq))
    {
      g_error_free (failure);
      return TRUE;
    }

  g_propagate_error (error, failure);

  return FALSE;
}

/* Reads n_user_waits without the lock of the timeline. A stale value does no harm, because a later
 * call returns the current state. */
static gboolean
is_free (gpointer key)
{
  return __atomic_load_n (&((GpuTimeline *) key)->n_user_waits, __ATOMIC_RELAXED) == 0;
}

static gboolean
is_capturing (gpointer key)
{
  return _gpu_pool_is_capturing (key);
}

static gboolean
wait (gpointer key,
      guint64  seq)
{
  return _gpu_timeline_wait (key, seq, NULL) || is_reached (key, seq);
}

static gboolean
is_gone (gpointer key)
{
  GpuTimeline *timeline = key;
  gboolean gone;

  _gpu_timeline_lock (timeline);
  gone = timeline->stream == NULL && timeline->completed == timeline->submitted;
  _gpu_timeline_unlock (timeline);

  return gone;
}

gboolean
_gpu_pool_timeline_add_barrier (GpuTimeline  *timeline,
                                const char   *function,
                                GError      **error)
{
  gboolean has_failure_lock = _gpu_timeline_lock_against_failure (timeline);
  GError *failure = NULL;

  _gpu_timeline_barrier_locked (timeline, &failure);
  _gpu_timeline_unlock_against_failure (timeline, has_failure_lock);

  return _gpu_native_context_end (timeline->context, function, failure, error);
}

const GpuPoolStreamOps _gpu_pool_timeline_ops = {
  .ref = ref,
  .unref = unref,
  .add_fence = add_fence,
  .is_reached = is_reached,
  .order_after = order_after,
  .is_free = is_free,
  .is_capturing = is_capturing,
  .wait = wait,
  .is_gone = is_gone
};

gboolean
_gpu_memory_pool_check (GpuMemoryPool  *pool,
                        const char     *function,
                        GError        **error)
{
  if (G_LIKELY (pool->core != NULL))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the pool was never initialised", function);

  return FALSE;
}

GpuTimeline *
_gpu_memory_pool_get_timeline (GpuMemoryPool  *pool,
                               GpuStream      *stream,
                               const char     *function,
                               GError        **error)
{
  GpuTimeline *timeline;

  if (stream == NULL && !_gpu_context_check (pool->context, function, error))
    return NULL;

  timeline = _gpu_context_peek_timeline (pool->context, stream, function, error);

  if (G_LIKELY (timeline == NULL) || G_LIKELY (timeline->context == pool->core->context))
    return timeline;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the stream belongs to another context, on %s, than the pool, on %s", function,
               timeline->context->devices[0]->id, pool->core->context->devices[0]->id);

  return NULL;
}

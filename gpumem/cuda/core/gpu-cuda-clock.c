/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Profiling times. The driver only reports the time between two events, as a float of milliseconds,
 * which is coarse for long intervals. Therefore times are measured from a recent clock event on a
 * stream without other work. The time of the first clock event is that of the host; the time of
 * each later clock event is measured from the previous clock event.
 */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"

/* The maximum age of a clock in microseconds. For intervals up to this length, a float of
 * milliseconds resolves 0.1 microseconds. */
#define CLOCK_AGE_MAX G_USEC_PER_SEC

struct _GpuCudaClock
{
  gatomicrefcount  refs;
  GpuCudaContext  *context;         /* unowned: every owner of a clock references the context */
  CUevent          event;           /* completed */
  gint64           made;            /* host time in microseconds */
  guint64          time;            /* nanoseconds */
};

static GpuCudaClock *
clock_ref (GpuCudaClock *clock)
{
  g_atomic_ref_count_inc (&clock->refs);

  return clock;
}

void
_gpu_cuda_clock_unref (GpuCudaClock *clock)
{
  if (!g_atomic_ref_count_dec (&clock->refs))
    return;

  _gpu_cuda_recycle_event (clock->context, TRUE, clock->event);
  g_free (clock);
}

/* Caller has entered the context. Records an event on the clock stream and waits for the event.
 * This stream only carries such events, so the wait does not depend on other work and is as short
 * as a submission. */
static CUevent
record_now (GpuCudaContext  *context,
            GError         **error)
{
  CUevent event = NULL;
  CUstream stream;

  if (!_gpu_cuda_get_clock_stream (context, &stream, error)
      || !_gpu_cuda_take_event (context, TRUE, &event, error))
    return NULL;

  if (_gpu_cuda_check (_gpu_cuda.cuEventRecord (event, stream), "cuEventRecord", error)
      && _gpu_cuda_check (_gpu_cuda.cuEventSynchronize (event), "cuEventSynchronize", error))
    return event;

  _gpu_cuda_recycle_event (context, TRUE, event);

  return NULL;
}

/* Caller has entered the context. */
static gboolean
count (GpuCudaClock  *clock,
       CUevent        moment,
       guint64       *nanoseconds,
       GError       **error)
{
  float milliseconds = 0;

  if (!_gpu_cuda_check (_gpu_cuda.cuEventElapsedTime (&milliseconds, clock->event, moment),
                        "cuEventElapsedTime", error))
    return FALSE;

  *nanoseconds = clock->time + (gint64) ((double) milliseconds * 1e6);

  return TRUE;
}

static GpuCudaClock *
clock_new (GpuCudaContext  *context,
           GError         **error)
{
  GpuCudaClock *clock;
  CUevent event = record_now (context, error);

  if (event == NULL)
    return NULL;

  clock = g_new0 (GpuCudaClock, 1);
  g_atomic_ref_count_init (&clock->refs);
  clock->context = context;
  clock->event = event;
  clock->made = g_get_monotonic_time ();
  clock->time = (guint64) clock->made * 1000;

  return clock;
}

/* Returns the clock of the context, or NULL if the clock is missing or too old. Caller holds `lock`
 * of the context. (transfer full) (nullable) */
static GpuCudaClock *
get_young_locked (GpuCudaContext *context)
{
  GpuCudaClock *clock = context->clock;

  if (clock == NULL || g_get_monotonic_time () - clock->made >= CLOCK_AGE_MAX)
    return NULL;

  return clock_ref (clock);
}

GpuCudaClock *
_gpu_cuda_clock_get (GpuCudaContext  *context,
                     GError         **error)
{
  GpuCudaClock *clock;
  GpuCudaClock *old;
  gboolean counted;

  g_mutex_lock (&context->lock);
  clock = get_young_locked (context);
  g_mutex_unlock (&context->lock);

  if (clock != NULL)
    return clock;

  clock = clock_new (context, error);

  if (clock == NULL)
    return NULL;

  g_mutex_lock (&context->lock);
  old = context->clock;
  counted = old == NULL || count (old, clock->event, &clock->time, error);
  if (counted)
    context->clock = clock_ref (clock);
  g_mutex_unlock (&context->lock);

  if (!counted)
    g_clear_pointer (&clock, _gpu_cuda_clock_unref);
  else if (old != NULL)
    _gpu_cuda_clock_unref (old);

  return clock;
}

gboolean
_gpu_cuda_clock_read (GpuCudaClock  *clock,
                      CUevent        moment,
                      guint64       *nanoseconds,
                      GError       **error)
{
  gboolean entered;
  gboolean counted;

  if (!_gpu_cuda_enter (clock->context, &entered, error))
    return FALSE;

  counted = count (clock, moment, nanoseconds, error);
  _gpu_cuda_leave (entered);

  return counted;
}

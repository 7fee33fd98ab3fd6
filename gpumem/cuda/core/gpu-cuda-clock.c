/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Times. The driver only tells how long two events lie apart, as a float of milliseconds, which
 * is coarse once they lie far apart. So events are counted from a clock: an event on a stream that
 * has nothing else, not long before. The first clock begins with the time of the host, and every
 * other is counted from the one before it.
 */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"

/* Within so many microseconds a float of milliseconds tells tenths of microseconds. */
#define CLOCK_AGE_MAX G_USEC_PER_SEC

struct _GpuCudaClock
{
  gatomicrefcount  refs;
  GpuCudaContext  *context;         /* whoever has the clock holds it */
  CUevent          event;           /* complete */
  gint64           made;            /* by the clock of the host, in microseconds */
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

  _gpu_cuda_give_event (clock->context, TRUE, clock->event);
  g_free (clock);
}

/* With the context entered. Clocks alone are on the stream, so that this takes no longer than a
 * submission, whatever else is at work. */
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

  _gpu_cuda_give_event (context, TRUE, event);

  return NULL;
}

/* With the context entered. */
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

/* With the context's lock held. (transfer full) (nullable) */
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

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Recycled events and internal streams of a context. */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"

/* The maximum number of events in each list of recycled events. Events that no longer fit into the
 * list are destroyed after use. */
#define N_RECYCLED_MAX 1024

/* Caller has entered the context. */
gboolean
_gpu_cuda_take_event (GpuCudaContext  *context,
                      gboolean         timing,
                      CUevent         *event,
                      GError         **error)
{
  const unsigned int flags = timing ? CU_EVENT_BLOCKING_SYNC
                                    : CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
  GPtrArray *list;

  *event = NULL;
  g_mutex_lock (&context->recycled_lock);
  list = timing ? context->recycled_timers : context->recycled_events;
  if (list != NULL && list->len > 0)
    *event = g_ptr_array_steal_index_fast (list, list->len - 1);
  g_mutex_unlock (&context->recycled_lock);

  return *event != NULL
         || _gpu_cuda_check (_gpu_cuda.cuEventCreate (event, flags), "cuEventCreate", error);
}

/* Returns FALSE if the list is full. */
static gboolean
recycle_event (GpuCudaContext *context,
               gboolean        timing,
               CUevent         event)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->recycled_lock);
  GPtrArray **list = timing ? &context->recycled_timers : &context->recycled_events;

  if (*list == NULL)
    *list = g_ptr_array_new ();

  if ((*list)->len >= N_RECYCLED_MAX)
    return FALSE;

  g_ptr_array_add (*list, event);

  return TRUE;
}

void
_gpu_cuda_recycle_event (GpuCudaContext *context,
                         gboolean        timing,
                         CUevent         event)
{
  gboolean entered;

  if (recycle_event (context, timing, event) || !_gpu_cuda_enter_again (context, &entered, NULL))
    return;

  _gpu_cuda.cuEventDestroy (event);
  _gpu_cuda_leave (entered);
}

/* Caller has entered the context. Gets the stream from @place, a member of @context. If the member
 * is NULL, creates the stream first. */
static gboolean
get_stream (GpuCudaContext  *context,
            CUstream        *place,
            CUstream        *stream,
            GError         **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->lock);
  CUresult code = CUDA_SUCCESS;

  if (*place == NULL)
    code = _gpu_cuda.cuStreamCreateWithPriority (place, CU_STREAM_NON_BLOCKING,
                                                 context->greatest_priority);

  *stream = *place;

  return _gpu_cuda_check (code, "cuStreamCreateWithPriority", error);
}

/* Caller has entered the context. */
gboolean
_gpu_cuda_get_internal_stream (GpuCudaContext  *context,
                               CUstream        *stream,
                               GError         **error)
{
  return get_stream (context, &context->internal, stream, error);
}

/* Caller has entered the context. */
gboolean
_gpu_cuda_get_clock_stream (GpuCudaContext  *context,
                            CUstream        *stream,
                            GError         **error)
{
  return get_stream (context, &context->clock_stream, stream, error);
}

static void
destroy_events (GPtrArray *events)
{
  for (guint i = 0; events != NULL && i < events->len; i++)
    _gpu_cuda.cuEventDestroy (g_ptr_array_index (events, i));
}

/* Caller has entered the context. */
static void
destroy_all (GpuCudaContext *context)
{
  destroy_events (context->recycled_events);
  destroy_events (context->recycled_timers);

  if (context->builtin_module != NULL)
    _gpu_cuda.cuModuleUnload (context->builtin_module);
  if (context->internal != NULL)
    _gpu_cuda.cuStreamDestroy (context->internal);
  if (context->clock_stream != NULL)
    _gpu_cuda.cuStreamDestroy (context->clock_stream);
}

void
_gpu_cuda_cache_clear (GpuCudaContext *context,
                       gboolean        can_free)
{
  if (can_free)
    destroy_all (context);

  g_clear_pointer (&context->recycled_events, g_ptr_array_unref);
  g_clear_pointer (&context->recycled_timers, g_ptr_array_unref);
}

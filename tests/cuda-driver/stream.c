/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Streams. Each has a thread that delays operations at random, so that tests detect a missing
 * wait. */
#include "config.h"

#include <unistd.h>

#include "cuda-driver.h"
#include "driver.h"

#define FLAGS CU_STREAM_NON_BLOCKING

static guint n_streams;

/* --- order ------------------------------------------------------------------------------------ */

static void
note_after (Stream  *stream,
            guint    id,
            guint64  sequence)
{
  guint64 known = GPOINTER_TO_SIZE (g_hash_table_lookup (stream->before, GUINT_TO_POINTER (id)));

  if (sequence > known)
    g_hash_table_insert (stream->before, GUINT_TO_POINTER (id), GSIZE_TO_POINTER (sequence));
}

static void
note_all_after (Stream     *stream,
                GHashTable *before)
{
  GHashTableIter iter;
  gpointer id;
  gpointer sequence;

  g_hash_table_iter_init (&iter, before);
  while (g_hash_table_iter_next (&iter, &id, &sequence))
    note_after (stream, GPOINTER_TO_UINT (id), GPOINTER_TO_SIZE (sequence));
}

/* Records that all work submitted to @stream from now on runs after @point, and after the points
 * that are complete when @point is complete. */
static void
stream_note_point (Stream *stream,
                   Point  *point)
{
  note_after (stream, point->stream_id, point->sequence);
  if (point->before != NULL)
    note_all_after (stream, point->before);
}

gboolean
stream_is_after (Stream *stream,
                 Point  *point)
{
  guint64 known = GPOINTER_TO_SIZE (g_hash_table_lookup (stream->before,
                                                         GUINT_TO_POINTER (point->stream_id)));

  return point->done || point->stream_id == stream->id || known >= point->sequence;
}

static gboolean
is_blocking (Stream *stream)
{
  return (stream->flags & CU_STREAM_NON_BLOCKING) == 0 && !stream->is_legacy;
}

/* The legacy default stream and blocking streams wait for each other. */
static void
wait_for_legacy (Stream *stream,
                 Op     *op)
{
  Context *context = stream->object.context;

  if (is_blocking (stream) && context->legacy->last != NULL)
    {
      op_wait (op, context->legacy->last);
      stream_note_point (stream, context->legacy->last);
      note_all_after (stream, context->legacy->before);
    }
  if (!stream->is_legacy)
    return;
  for (guint i = 0; i < context->streams->len; i++)
    {
      Stream *other = context->streams->pdata[i];

      if (!is_blocking (other) || other->last == NULL)
        continue;
      op_wait (op, other->last);
      stream_note_point (stream, other->last);
      note_all_after (stream, other->before);
    }
}

/* --- the thread ------------------------------------------------------------------------------- */

static guint
random_number (guint *state)
{
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

static void
pause_a_while (guint *state)
{
  if (config.delay > 0 && random_number (state) % 4 == 0)
    usleep (random_number (state) % config.delay);
}

static void
run_op (Stream *stream,
        Op     *op,
        guint  *state)
{
  Context *context = stream->object.context;

  for (guint i = 0; i < op->waits->len; i++)
    while (!((Point *) op->waits->pdata[i])->done && context->error == CUDA_SUCCESS)
      pthread_cond_wait (&point_done, &driver_lock);
  while (op->ready != NULL && !op->ready (op->data) && context->error == CUDA_SUCCESS)
    {
      pthread_mutex_unlock (&driver_lock);
      usleep (100);
      pthread_mutex_lock (&driver_lock);
    }

  if (context->error == CUDA_SUCCESS && op->run != NULL)
    {
      CUresult code;

      pthread_mutex_unlock (&driver_lock);
      pause_a_while (state);
      code = op->run (op->data);
      pthread_mutex_lock (&driver_lock);
      if (code != CUDA_SUCCESS)
        context_fail (context, code);
    }

  if (op->done != NULL)
    op->done (op->data);
  stream->n_work -= op->point->work;
  point_finish (op->point);
  op_free (op);
}

static void
stream_leave (Stream *stream)
{
  Context *context = stream->object.context;

  g_clear_pointer (&stream->last, point_unref);
  for (guint i = 0; i < G_N_ELEMENTS (stream->written); i++)
    g_clear_pointer (&stream->written[i], point_unref);
  g_clear_pointer (&stream->before, g_hash_table_unref);
  if (!context->object.dead)
    g_ptr_array_remove_fast (context->streams, stream);
  object_kill (stream);
}

static void *
stream_main (void *data)
{
  Stream *stream = data;
  guint state;

  memory_open ();
  pthread_mutex_lock (&driver_lock);
  state = stream->id * 2654435761u | 1;
  for (;;)
    {
      while (stream->ops.length == 0 && !stream->ends)
        pthread_cond_wait (&stream->wake, &driver_lock);
      if (stream->ops.length == 0)
        break;
      run_op (stream, g_queue_pop_head (&stream->ops), &state);
    }
  stream_leave (stream);
  pthread_mutex_unlock (&driver_lock);
  launch_thread_end ();
  return NULL;
}

static void
start_thread (Stream *stream)
{
  pthread_attr_t attributes;
  pthread_t thread;

  pthread_attr_init (&attributes);
  pthread_attr_setdetachstate (&attributes, PTHREAD_CREATE_DETACHED);
  if (pthread_create (&thread, &attributes, stream_main, stream) != 0)
    g_error ("gpumem-cuda-driver: no thread for a stream");
  pthread_attr_destroy (&attributes);
  stream->has_thread = TRUE;
}

/* --- functions that other files of the stand-in call ------------------------------------------ */

Stream *
stream_new (Context *context,
            guint    flags,
            int      priority)
{
  Stream *stream = object_new (sizeof (Stream), OBJECT_STREAM, context);

  stream->id = ++n_streams;
  stream->flags = flags;
  stream->priority = priority;
  stream->before = g_hash_table_new (NULL, NULL);
  g_queue_init (&stream->ops);
  pthread_cond_init (&stream->wake, NULL);
  g_ptr_array_add (context->streams, stream);
  return stream;
}

/* Captured work becomes a part of the graph. */
Point *
stream_submit (Stream *stream,
               Op     *op)
{
  Point *point = point_ref (op->point);

  if (stream->is_legacy && capture_is_blocking ())
    misuse (CUDA_SUCCESS, "work of the legacy stream invalidates a capture");
  if (stream->capture != 0)
    {
      point_finish (point);
      capture_add_op (stream->capture, op);
      return point;
    }
  wait_for_legacy (stream, op);
  point->stream_id = stream->id;
  point->sequence = ++stream->sequence;
  for (guint i = 0; i < op->waits->len; i++)
    stream_note_point (stream, op->waits->pdata[i]);
  g_clear_pointer (&stream->last, point_unref);
  stream->last = point_ref (point);
  stream->n_work += point->work;
  g_queue_push_tail (&stream->ops, op);
  if (!stream->has_thread)
    start_thread (stream);
  pthread_cond_signal (&stream->wake);
  return point;
}

/* Records in @point the points of other streams that are complete when @point is complete. */
void
stream_snapshot (Stream *stream,
                 Point  *point)
{
  GHashTableIter iter;
  gpointer id;
  gpointer sequence;

  point->before = g_hash_table_new (NULL, NULL);
  g_hash_table_iter_init (&iter, stream->before);
  while (g_hash_table_iter_next (&iter, &id, &sequence))
    g_hash_table_insert (point->before, id, sequence);
}

/* Lets pools trim memory freed in the stream. As in the driver, only a wait for the stream calls
 * this function; a query does not. */
static void
see_frees (Stream *stream)
{
  stream->object.context->device->unseen -= stream->unseen;
  stream->unseen = 0;
}

void
stream_see_frees (Context *context,
                  guint    id)
{
  for (guint i = 0; i < context->streams->len; i++)
    {
      Stream *stream = context->streams->pdata[i];

      if (stream->id == id)
        see_frees (stream);
    }
}

void
stream_finish (Stream *stream)
{
  Context *context = stream->object.context;
  g_autoptr (GPtrArray) points = NULL;

  points = g_ptr_array_new_with_free_func ((GDestroyNotify) point_unref);
  for (guint i = 0; i < context->streams->len; i++)
    {
      Stream *other = context->streams->pdata[i];

      if (other->last != NULL &&
          (other == stream || (stream->is_legacy && is_blocking (other))))
        g_ptr_array_add (points, point_ref (other->last));
    }
  for (guint i = 0; i < points->len; i++)
    point_wait (points->pdata[i]);
  see_frees (stream);
}

void
context_finish (Context *context)
{
  g_autoptr (GPtrArray) points = NULL;

  points = g_ptr_array_new_with_free_func ((GDestroyNotify) point_unref);
  for (guint i = 0; i < context->streams->len; i++)
    {
      Stream *stream = context->streams->pdata[i];

      if (stream->last != NULL)
        g_ptr_array_add (points, point_ref (stream->last));
    }
  for (guint i = 0; i < points->len; i++)
    point_wait (points->pdata[i]);
}

/* Closes the stream. The thread of the stream exits when all work is done. */
void
stream_end (Stream *stream)
{
  see_frees (stream);
  managed_forget (stream);
  stream->object.dead = TRUE;           /* stream_leave() frees it: its thread still uses it */
  stream->ends = TRUE;
  if (stream->has_thread)
    pthread_cond_signal (&stream->wake);
  else
    stream_leave (stream);
}

static Stream *
get_per_thread (Context *context)
{
  gpointer key = (gpointer) pthread_self ();
  Stream *stream = g_hash_table_lookup (context->per_thread, key);

  if (stream == NULL)
    {
      stream = stream_new (context, 0, 0);
      stream->object.hidden = TRUE;
      g_hash_table_insert (context->per_thread, key, stream);
    }
  return stream;
}

static gboolean
is_special (CUstream handle)
{
  return handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
}

CUresult
stream_resolve (CUstream   handle,
                Stream   **stream)
{
  Context *context;

  TRY (context_current (&context));
  if (is_special (handle))
    *stream = handle == CU_STREAM_PER_THREAD ? get_per_thread (context) : context->legacy;
  else
    {
      TRY (object_check (handle, OBJECT_STREAM));
      *stream = handle;
    }
  if ((*stream)->object.context != context)
    return misuse (CUDA_ERROR_INVALID_HANDLE,
                   "the stream is of context %p, current is context %p",
                   (gpointer) (*stream)->object.context, (gpointer) context);
  return CUDA_SUCCESS;
}

CUresult
stream_resolve_any (CUstream   handle,
                    Stream   **stream)
{
  if (is_special (handle))
    return stream_resolve (handle, stream);
  TRY (object_check (handle, OBJECT_STREAM));
  *stream = handle;
  return (*stream)->object.context->error;
}

CUresult
stream_resolve_own (CUstream   handle,
                    Stream   **stream)
{
  TRY (stream_resolve_any (handle, stream));
  return config.version < 12000 && (*stream)->object.context != context_peek ()
         ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

static CUresult
check_capture (Stream *stream)
{
  if (stream->is_legacy && capture_is_blocking ())
    return misuse (CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                   "a stream that the legacy stream waits for is capturing");
  return stream->capture != 0
         ? misuse (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the stream is capturing")
         : CUDA_SUCCESS;
}

/* --- entry points ----------------------------------------------------------------------------- */

ENTRY (cuStreamCreateWithPriority, (CUstream *stream, unsigned int flags, int priority),
       (stream, flags, priority))
{
  Context *context;

  TRY (context_current (&context));
  if ((flags & ~FLAGS) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  *stream = stream_new (context, flags, CLAMP (priority, -5, 0));
  return CUDA_SUCCESS;
}

ENTRY (cuStreamDestroy, (CUstream handle), (handle))
{
  Stream *stream;
  CUresult error;

  TRY (object_check (handle, OBJECT_STREAM));
  stream = handle;
  error = stream->object.context->error;
  if (stream->object.hidden)
    return CUDA_ERROR_INVALID_HANDLE;
  if (stream->n_work > 0 && error == CUDA_SUCCESS)
    misuse (CUDA_SUCCESS, "%u operations of the stream are still at work", stream->n_work);
  stream_end (stream);
  return error;
}

ENTRY (cuStreamSynchronize, (CUstream handle), (handle))
{
  Stream *stream;
  Context *context;

  TRY (stream_resolve_any (handle, &stream));
  TRY (check_capture (stream));
  context = stream->object.context;
  stream_finish (stream);
  return context->error;
}

ENTRY (cuStreamQuery, (CUstream handle), (handle))
{
  Stream *stream;

  TRY (stream_resolve_any (handle, &stream));
  TRY (check_capture (stream));
  return point_over (stream->last) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

ENTRY (cuStreamGetPriority, (CUstream handle, int *priority), (handle, priority))
{
  Stream *stream;

  TRY (stream_resolve_any (handle, &stream));
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

ENTRY (cuStreamGetFlags, (CUstream handle, unsigned int *flags), (handle, flags))
{
  Stream *stream;

  TRY (stream_resolve_any (handle, &stream));
  if (stream->capture != 0)
    return misuse (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the stream is capturing");
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

ENTRY (cuStreamGetCtx, (CUstream handle, CUcontext *context), (handle, context))
{
  Stream *stream;

  TRY (stream_resolve_any (handle, &stream));
  *context = stream->object.context;
  return CUDA_SUCCESS;
}

ENTRY (cuStreamGetId, (CUstream handle, unsigned long long *id), (handle, id))
{
  Stream *stream;

  TRY (stream_resolve_any (handle, &stream));
  if (stream->capture != 0)
    return misuse (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the stream is capturing");
  *id = stream->id;
  return CUDA_SUCCESS;
}

void
gpumem_cuda_driver_renew_stream (guint64 handle)
{
  pthread_mutex_lock (&driver_lock);
  ((Stream *) (gsize) handle)->id = ++n_streams;
  pthread_mutex_unlock (&driver_lock);
}

/* --- host functions --------------------------------------------------------------------------- */

typedef struct
{
  CUhostFn  function;
  void     *data;
} HostCall;

static CUresult
run_host_call (gpointer data)
{
  HostCall *call = data;

  call_forbid (TRUE);
  call->function (call->data);
  call_forbid (FALSE);
  return CUDA_SUCCESS;
}

ENTRY (cuLaunchHostFunc, (CUstream handle, CUhostFn function, void *data),
       (handle, function, data))
{
  Stream *stream;
  HostCall *call;

  TRY (stream_resolve (handle, &stream));
  if (function == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  call = g_new0 (HostCall, 1);
  call->function = function;
  call->data = data;
  point_unref (stream_submit (stream, op_new (run_host_call, call, g_free)));
  return CUDA_SUCCESS;
}

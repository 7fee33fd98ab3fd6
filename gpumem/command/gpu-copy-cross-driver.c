/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-copy-cross-driver-private.h"
#include "gpumem/command/gpu-memory-task-private.h"
#include "gpumem/command/gpu-staging-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/staging/gpu-transfer-cross-driver.h"
#include "gpumem/timeline/gpu-user-event-private.h"

/* The chunk size of a copy that the calling thread performs itself, in bytes. */
#define BLOCKING_CHUNK ((gsize) 4 * 1024 * 1024)

/* The driver does copies of at most this size between devices without access to each other's
 * memory, in bytes: the threads that drive a copy through the host cost more than such a copy. */
#define MAX_DRIVER_COPY ((gsize) 64 * 1024)

/* Data of a copy for explain() and end_drive(). */
typedef struct
{
  GpuTimeline *partner;
  GPtrArray   *user_events[2];      /* nullable; the user events whose failure fails the copy, for
                                     * the stream of the source and for that of the destination */
} DriveData;

/* A copy. Its arrays have two elements, called sides: GPU_CROSS_DRIVER_FROM is the index of the
 * source, and GPU_CROSS_DRIVER_TO is the index of the destination. */
typedef struct
{
  const char  *function;
  GpuTimeline *timelines[2];
  GpuMemory   *memories[2];
  gsize        offsets[2];
  gsize        size;
  guint        user;                /* the side of the stream that the caller passed */
  GpuCrossDriver *cross;
  DriveData   *drive_data;          /* passed to `cross`, which frees it with end_drive() */
  gboolean     is_submitted;        /* whether at least one stream has commands of the copy */
  GpuPending  *pending;             /* nullable */
  GpuPatience *patience;            /* nullable */
} Copy;

gboolean
_gpu_timeline_is_cross_driver (GpuTimeline *timeline,
                               GpuMemory   *destination,
                               GpuMemory   *source)
{
  GpuNativeContext *to = destination->storage->context;
  GpuNativeContext *from = source->storage->context;

  return (to == timeline->context || from == timeline->context)
         && (to->backend != from->backend || to->backend->buffer->copy_peer == NULL);
}

/* Returns whether the devices of all contexts can access the memory. Pools map page-locked memory
 * only for devices with access to their own device. */
static gboolean
is_mapped_everywhere (GpuMemory *memory)
{
  return memory->has_host_data && memory->storage->root->suballocation == NULL;
}

gboolean
_gpu_timeline_copies_through_host (GpuTimeline         *timeline,
                                   const GpuRangeCopy  *copy)
{
  GpuMemory *destination = copy->destination;
  GpuMemory *source = copy->source;
  GpuNativeContext *context = timeline->context;
  GpuNativeContext *to = destination->storage->context;
  GpuNativeContext *from = source->storage->context;
  GpuNativeContext *other = to == context ? from : to;

  if (_gpu_timeline_is_cross_driver (timeline, destination, source))
    return TRUE;

  if ((to != context && from != context) || other->backend != context->backend
      || context->backend->context->reach_peer == NULL
      || is_mapped_everywhere (source) || is_mapped_everywhere (destination)
      || context->backend->context->reach_peer (context, other))
    return FALSE;

  /* The driver copies through memory of its own. Small copies are faster that way, only the
   * driver's copies can be captured, and flags may deny the access of the host. */
  return (copy->size > MAX_DRIVER_COPY || source->has_host_data || destination->has_host_data)
         && _gpu_memory_check_host (source, "gpu_stream_copy", FALSE, NULL)
         && _gpu_memory_check_host (destination, "gpu_stream_copy", TRUE, NULL)
         && _gpu_native_context_check (context, NULL)
         && _gpu_timeline_get_capture (timeline) == 0;
}

/* --- the partner of a stream ------------------------------------------------------------------ */

static GpuTimeline *
find_partner_locked (GpuTimeline      *timeline,
                     GpuNativeContext *context)
{
  for (guint i = 0; timeline->partners != NULL && i < timeline->partners->len; i++)
    {
      GpuTimeline *partner = g_ptr_array_index (timeline->partners, i);

      if (partner->context == context)
        return partner;
    }

  return NULL;
}

static GpuTimeline *
partner_new (GpuTimeline       *timeline,
             GpuNativeContext  *context,
             GError           **error)
{
  const GpuStreamFlags flags = GPU_STREAM_FLAGS_NON_BLOCKING;
  GpuNativeDevice *device = timeline->context == context ? timeline->device : context->devices[0];
  GpuNativeStream *stream = context->backend->stream->create (context, device, flags, 0, error);

  return stream != NULL ? _gpu_timeline_new (context, device, stream, flags, 0) : NULL;
}

static void
drop_partner (GpuTimeline *timeline,
              GpuTimeline *partner)
{
  gboolean is_dropped;

  _gpu_timeline_lock (timeline);
  is_dropped = timeline->partners != NULL && g_ptr_array_remove (timeline->partners, partner);
  _gpu_timeline_unlock (timeline);

  if (is_dropped)
    _gpu_timeline_release_partner (partner);
}

/* Returns whether work of @partner has failed, or will fail. Later copies then need another
 * partner: no caller synchronizes a partner, so these copies would also fail, although the stream
 * of the caller has already reported the failure. */
static gboolean
is_failing (GpuTimeline *partner)
{
  return g_atomic_int_get (&_gpu_timeline_any_failed)
         && !_gpu_timeline_check_pending (partner, _gpu_timeline_get_submitted (partner), NULL);
}

static GpuTimeline *
find_partner (GpuTimeline      *timeline,
              GpuNativeContext *context)
{
  GpuTimeline *found;

  _gpu_timeline_lock (timeline);
  found = find_partner_locked (timeline, context);
  if (found != NULL)
    _gpu_timeline_use (_gpu_timeline_ref (found));
  _gpu_timeline_unlock (timeline);

  if (found == NULL || !is_failing (found))
    return found;

  drop_partner (timeline, found);
  _gpu_timeline_release_partner (found);

  return NULL;
}

/* Returns whether the program has released the GpuContext, and all its memory, which holds
 * references to the GpuContext. */
static gboolean
is_abandoned (GpuNativeContext *context)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->lock);

  return context->owner == NULL;
}

/* A program may copy from one context after another to the same stream: drops the partners in
 * contexts that it has released. */
static void
drop_abandoned_partners (GpuTimeline *timeline)
{
  g_autoptr (GPtrArray) partners
    = g_ptr_array_new_with_free_func ((GDestroyNotify) _gpu_timeline_unref);

  _gpu_timeline_lock (timeline);

  for (guint i = 0; timeline->partners != NULL && i < timeline->partners->len; i++)
    g_ptr_array_add (partners, _gpu_timeline_ref (g_ptr_array_index (timeline->partners, i)));

  _gpu_timeline_unlock (timeline);

  for (guint i = 0; i < partners->len; i++)
    {
      GpuTimeline *partner = g_ptr_array_index (partners, i);

      if (is_abandoned (partner->context))
        drop_partner (timeline, partner);
    }
}

/* (transfer full): gets the partner of @timeline in @context: an internal stream for the half of
 * cross-driver copies that @context executes, or, in the context of @timeline, for the contents of
 * spilled buffers. Creates the partner when it is first needed.
 * Timelines do not share partners: otherwise unrelated streams would wait for each other. */
static GpuTimeline *
get_partner (GpuTimeline       *timeline,
             GpuNativeContext  *context,
             GError           **error)
{
  GpuTimeline *partner = find_partner (timeline, context);
  GpuTimeline *found;

  if (partner != NULL)
    return partner;

  drop_abandoned_partners (timeline);
  partner = partner_new (timeline, context, error);
  if (partner == NULL)
    return NULL;

  _gpu_timeline_lock (timeline);
  found = find_partner_locked (timeline, context);

  if (timeline->partners == NULL)
    timeline->partners = g_ptr_array_new ();
  if (found == NULL)
    g_ptr_array_add (timeline->partners, partner);

  _gpu_timeline_use (_gpu_timeline_ref (found != NULL ? found : partner));
  _gpu_timeline_unlock (timeline);

  if (found == NULL)
    return partner;

  _gpu_timeline_release_partner (partner);

  return found;
}

/* --- copies that the streams execute ---------------------------------------------------------- */

static const GpuRetainType retain_cross_driver = { (GBoxedCopyFunc) _gpu_cross_driver_ref,
                                                   (GDestroyNotify) _gpu_cross_driver_unref };

static DriveData *
drive_data_new (GpuTimeline *partner)
{
  DriveData *drive_data = g_new0 (DriveData, 1);

  drive_data->partner = _gpu_timeline_ref (partner);

  return drive_data;
}

static void
drive_data_free (DriveData *drive_data)
{
  for (guint side = 0; side < 2; side++)
    g_clear_pointer (&drive_data->user_events[side], g_ptr_array_unref);

  _gpu_timeline_unref (drive_data->partner);
  g_free (drive_data);
}

/* Returns the error of a failed user event that the commands of @side wait for, or NULL if none has
 * failed. The drivers do not report this error. They only report that the commands failed, or
 * report nothing. */
static GError *
explain (gpointer data,
         guint    side)
{
  const DriveData *drive_data = data;
  GPtrArray *events = drive_data->user_events[side];
  GError *cause = NULL;

  for (guint i = 0; events != NULL && i < events->len && cause == NULL; i++)
    _gpu_user_event_query (events->pdata[i], &cause);

  return cause;
}

/* Called when the copy has ended. Releases the objects that the partner timeline retains for
 * completed work, because perhaps no thread ever waits for work of the partner. */
static void
end_drive (gpointer data)
{
  DriveData *drive_data = data;
  GpuTimeline *partner = drive_data->partner;
  gboolean has_failure_lock = _gpu_timeline_lock_against_failure (partner);

  if (partner->completed != partner->submitted)
    _gpu_timeline_collect_locked (partner);

  _gpu_timeline_unlock_against_failure (partner, has_failure_lock);
  drive_data_free (drive_data);
}

/* Sets @event to the event of the copy in the user's stream, if a caller waits for that event or
 * the stream has GPU_STREAM_FLAGS_PROFILING. */
static gboolean
get_event (Copy             *copy,
           GpuNativeStream  *stream,
           GpuNativeEvent  **event,
           GError          **error)
{
  GpuTimeline *timeline = copy->timelines[copy->user];

  if (copy->pending != NULL)
    *event = stream->backend->stream->record (stream, GPU_EVENT_FLAGS_NONE, error);
  else if ((timeline->flags & GPU_STREAM_FLAGS_PROFILING) != 0)
    *event = _gpu_cross_driver_get_event (copy->cross, copy->user);

  return copy->pending == NULL || *event != NULL;
}

/* Called only in the first call of run_dual() for @copy, in which the caller holds the locks of
 * both streams. If a second call submits the other side, user events cannot fail that side. */
static void
list_user_events_locked (Copy *copy)
{
  for (guint side = 0; side < 2; side++)
    copy->drive_data->user_events[side] =
      _gpu_timeline_list_causes_locked (copy->timelines[side],
                                        copy->timelines[side]->submitted + 1, side == copy->user);
}

static gboolean
run_dual (gpointer                 data,
          GpuNativeStream *const  *streams,
          guint                    sides,
          gboolean                 may_fail,
          GpuNativeEvent         **event,
          guint                   *failed,
          GError                 **error)
{
  Copy *copy = data;
  GpuNativeMemory *memories[] = { copy->memories[0]->storage->buffer,
                                  copy->memories[1]->storage->buffer };

  if (!copy->is_submitted)
    list_user_events_locked (copy);

  copy->is_submitted = TRUE;

  if (!_gpu_cross_driver_submit (copy->cross, memories, streams, sides, may_fail, failed, error))
    return FALSE;

  if ((sides & 1u << copy->user) == 0)
    return TRUE;

  *failed = copy->user;

  if (get_event (copy, streams[copy->user], event, error))
    return TRUE;

  for (guint side = 0; side < 2; side++)
    {
      if ((sides & 1u << side) != 0)
        streams[side]->partial = TRUE;
    }

  return FALSE;
}

static gboolean
submit (Copy    *copy,
        GError **error)
{
  const GpuRetain retain = { copy->cross, &retain_cross_driver, 1, NULL };
  GpuAccess accesses[2];
  GpuDualSide sides[2];

  for (guint side = 0; side < 2; side++)
    {
      accesses[side] = (GpuAccess) { copy->memories[side], side == GPU_CROSS_DRIVER_TO,
                                     copy->offsets[side], copy->size, NULL };
      sides[side] = (GpuDualSide) { copy->timelines[side],
                                    { .function = copy->function, .accesses = &accesses[side],
                                      .n_accesses = 1, .retain = &retain } };
    }

  if (_gpu_submit_dual (sides, copy->user, run_dual, copy, copy->pending, error))
    return TRUE;

  _gpu_cross_driver_abandon (copy->cross);

  return FALSE;
}

/* --- copies that the caller performs ---------------------------------------------------------- */

static GCancellable *
get_cancellable (const Copy *copy)
{
  return copy->patience != NULL ? copy->patience->cancellable : NULL;
}

/* The wait may be cancelled, because the operation holds a reference to the bytes of the chunk. */
static gboolean
wait_for_chunk (Copy               *copy,
                const GpuHostWait  *wait,
                GError            **error)
{
  return _gpu_memory_wait_for_work (wait, copy->function, get_cancellable (copy), error);
}

static gboolean
copy_chunk (Copy    *copy,
            GBytes  *bytes,
            gsize    start,
            gsize    size,
            GError **error)
{
  GpuTimeline *from = copy->timelines[GPU_CROSS_DRIVER_FROM];
  GpuTimeline *to = copy->timelines[GPU_CROSS_DRIVER_TO];
  g_auto (GpuHostWait) read = { NULL };
  g_auto (GpuHostWait) written = { NULL };
  gpointer data = (gpointer) g_bytes_get_data (bytes, NULL);

  _gpu_host_wait_begin (&read, from);
  _gpu_host_wait_begin (&written, to);

  return _gpu_timeline_read (from, copy->function, copy->memories[GPU_CROSS_DRIVER_FROM],
                             copy->offsets[GPU_CROSS_DRIVER_FROM] + start, data, size, bytes, NULL,
                             error)
         && wait_for_chunk (copy, &read, error)
         && _gpu_timeline_write (to, copy->function, copy->memories[GPU_CROSS_DRIVER_TO],
                                 copy->offsets[GPU_CROSS_DRIVER_TO]
                                   + start, data, size, bytes, NULL,
                                 error)
         && wait_for_chunk (copy, &written, error);
}

/* Waits for earlier work on the user's stream. If earlier work fails, the copy also fails, as it
 * would if the stream executed the copy. */
static gboolean
wait_for_turn (Copy    *copy,
               GError **error)
{
  GpuTimeline *timeline = copy->timelines[copy->user];
  g_auto (GpuHostWait) wait = { NULL };

  _gpu_host_wait_begin (&wait, timeline);

  return _gpu_timeline_is_complete (timeline, _gpu_timeline_get_submitted (timeline))
         || wait_for_chunk (copy, &wait, error);
}

static gboolean
copy_blocking (Copy        *copy,
               const char  *reason,
               GError     **error)
{
  gsize chunk_size = MIN (copy->size, BLOCKING_CHUNK);
  GpuAccess accesses[2];
  g_autoptr (GBytes) bytes = NULL;
  gpointer data;

  _gpu_debug_print (GPU_DEBUG_TRANSFER, "copying %" G_GSIZE_FORMAT " bytes between two contexts "
                    "blocks the caller: %s", copy->size, reason);
  bytes = _gpu_bytes_new (chunk_size, copy->function, &data, error);

  for (guint side = 0; side < G_N_ELEMENTS (accesses); side++)
    accesses[side] = (GpuAccess) { copy->memories[side], side == GPU_CROSS_DRIVER_TO,
                                   copy->offsets[side], copy->size };

  /* Check the whole ranges before the first chunk, so that a refused copy changes nothing. */
  if (bytes == NULL
      || !_gpu_submission_check_mappings (copy->function, accesses, G_N_ELEMENTS (accesses), error)
      || !wait_for_turn (copy, error))
    return FALSE;

  for (gsize start = 0; start < copy->size; start += chunk_size)
    {
      if (!copy_chunk (copy, bytes, start, MIN (chunk_size, copy->size - start), error))
        return FALSE;
    }

  return TRUE;
}

/* --- common ----------------------------------------------------------------------------------- */

static gboolean
check (Copy    *copy,
       GError **error)
{
  GpuNativeContext *other = copy->memories[1 - copy->user]->storage->context;

  /* Check the memory and the contexts before the copy makes the two streams wait for each other. Do
   * not lock the memory, because a spill may hold that lock for a long time. */
  if (!_gpu_memory_check (copy->memories[GPU_CROSS_DRIVER_FROM], copy->function, error)
      || !_gpu_memory_check (copy->memories[GPU_CROSS_DRIVER_TO], copy->function, error))
    return FALSE;

  if (!_gpu_memory_check_host (copy->memories[GPU_CROSS_DRIVER_FROM], copy->function, FALSE, error)
      || !_gpu_memory_check_host (copy->memories[GPU_CROSS_DRIVER_TO], copy->function, TRUE, error))
    return FALSE;

  if (_gpu_native_context_check (copy->timelines[copy->user]->context, error)
      && _gpu_native_context_check (other, error))
    return TRUE;

  g_prefix_error (error, "%s: ", copy->function);

  return FALSE;
}

GpuTimeline *
_gpu_timeline_get_partner (GpuTimeline       *timeline,
                           GpuNativeContext  *context,
                           const char        *function,
                           GError           **error)
{
  GError *failure = NULL;
  GpuTimeline *partner = get_partner (timeline, context, &failure);

  return _gpu_native_context_end (context, function, failure, error) ? partner : NULL;
}

void
_gpu_timeline_release_partner (GpuTimeline *partner)
{
  _gpu_timeline_unuse (partner);
  _gpu_timeline_unref (partner);
}

static void
begin (Copy        *copy,
       const char **reason)
{
  GpuCrossDriverCopy cross = { .size = copy->size, .user = copy->user, .explain = explain,
                               .end = end_drive };

  copy->drive_data = drive_data_new (copy->timelines[1 - copy->user]);
  cross.data = copy->drive_data;

  for (guint side = 0; side < 2; side++)
    cross.sides[side] = (GpuCrossDriverSide) { copy->timelines[side]->context,
                                               copy->offsets[side] };

  copy->cross = _gpu_cross_driver_begin (&cross, reason);

  if (copy->cross == NULL)
    drive_data_free (copy->drive_data);
}

gboolean
_gpu_timeline_copy_cross_driver (GpuTimeline         *timeline,
                                 const char          *function,
                                 const GpuRangeCopy  *ranges,
                                 GpuPending          *pending,
                                 GpuPatience         *patience,
                                 GError             **error)
{
  gboolean is_to = ranges->destination->storage->context == timeline->context;
  GpuNativeContext *other = (is_to ? ranges->source : ranges->destination)->storage->context;
  Copy copy = { .function = function, .memories = { ranges->source, ranges->destination },
                .offsets = { ranges->source_offset, ranges->destination_offset },
                .size = ranges->size,
                .user = is_to ? GPU_CROSS_DRIVER_TO : GPU_CROSS_DRIVER_FROM, .pending = pending,
                .patience = patience };
  const char *reason = NULL;
  gboolean success;

  copy.timelines[copy.user] = timeline;

  if (!check (&copy, error) || !_gpu_range_copy_check_overlap (ranges, function, error)
      || !_gpu_timeline_check_capture (timeline, function, error))
    return FALSE;

  copy.timelines[1 - copy.user] = _gpu_timeline_get_partner (timeline, other, function, error);

  if (copy.timelines[1 - copy.user] == NULL)
    return FALSE;

  begin (&copy, &reason);

  if (copy.cross != NULL)
    {
      success = submit (&copy, error);
      _gpu_cross_driver_unref (copy.cross);
    }
  else if (!_gpu_timeline_is_cross_driver (timeline, ranges->destination, ranges->source))
    {
      success = _gpu_timeline_copy_direct (timeline, function, ranges, pending, error);
    }
  else if (patience == NULL || !patience->must_not_block)
    {
      success = copy_blocking (&copy, reason, error);
    }
  else
    {
      patience->would_block = TRUE;
      success = TRUE;
    }

  _gpu_timeline_release_partner (copy.timelines[1 - copy.user]);

  return success;
}

gboolean
_gpu_timeline_copy_with (GpuTimeline         *timeline,
                         const char          *function,
                         const GpuRangeCopy  *copy,
                         GpuPatience         *patience,
                         GError             **error)
{
  if (!_gpu_memory_check_range (copy->destination, function, "destination",
                                copy->destination_offset, copy->size, error)
      || !_gpu_memory_check_range (copy->source, function, "source", copy->source_offset,
                                   copy->size, error))
    return FALSE;

  if (copy->size > 0 && copy->destination->storage->context != copy->source->storage->context
      && _gpu_timeline_copies_through_host (timeline, copy))
    return _gpu_timeline_copy_cross_driver (timeline, function, copy, NULL, patience, error);

  return _gpu_timeline_copy (timeline, function, copy, NULL, error);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-latch-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-storage-private.h"

/* If the bias of a root has changed to another stream this many times, the root is never biased
 * again, because each change takes two more locks. */
#define MAX_BIASES 4

/* Microseconds that _gpu_storage_wait_for_retiring() waits after all work has completed. By then,
 * other threads only have to call a few functions. Without a limit, a program that spills memory in
 * a destroy notify of completed work could wait for its own thread. */
#define RETIRE_TIME (10 * G_USEC_PER_SEC)

static void
readers_clear (gpointer data)
{
  _gpu_point_clear (data);
}

static void
use_clear (gpointer data)
{
  GpuUse *use = data;

  _gpu_point_clear (&use->point);
}

static GpuStorage *
storage_new (GpuNativeContext *context,
             GpuNativeBuffer  *buffer,
             GpuMemoryFlags    flags)
{
  GpuStorage *storage = g_aligned_alloc0 (1, sizeof (GpuStorage), GPU_LINE);

  g_atomic_ref_count_init (&storage->refs);
  storage->users = 1;
  storage->context = _gpu_native_context_ref (context);
  storage->buffer = buffer;
  storage->identity = context->backend->memory->get_handle (buffer);
  storage->root = storage;
  storage->whole = storage;
  storage->size = buffer->size;
  storage->flags = flags;
  storage->is_exclusive = buffer->is_exclusive;
  storage->is_external = buffer->is_external;
  g_mutex_init (&storage->lock);
  _gpu_live_add (GPU_LIVE_STORAGE, 1);

  return storage;
}

static void
count (GpuStorage *storage,
       gssize      size)
{
  if (storage->kind == GPU_STORAGE_DEVICE)
    g_atomic_pointer_add (&storage->context->allocated, size);
  else if (storage->kind == GPU_STORAGE_HOST)
    g_atomic_pointer_add (&storage->context->allocated_host, size);
}

GpuStorage *
_gpu_storage_new (GpuNativeContext *context,
                  GpuNativeBuffer  *buffer,
                  GpuMemoryFlags    flags,
                  GpuStorageKind    kind,
                  gpointer          owner,
                  GDestroyNotify    owner_notify)
{
  GpuStorage *storage = storage_new (context, buffer, flags);

  storage->owner = owner;
  storage->owner_notify = owner_notify;

  storage->kind = kind;
  count (storage, (gssize) storage->size);
  _gpu_storage_register_alias (storage, kind != GPU_STORAGE_FOREIGN);

  return storage;
}

GpuStorage *
_gpu_storage_new_for_suballocation (GpuNativeContext       *context,
                                    GpuNativeBuffer        *buffer,
                                    GpuMemoryFlags          flags,
                                    GpuSuballocation       *suballocation,
                                    gpointer                owner,
                                    GDestroyNotify          owner_notify)
{
  GpuStorage *storage = storage_new (context, buffer, flags);

  storage->owner = owner;
  storage->owner_notify = owner_notify;
  storage->suballocation = suballocation;

  return storage;
}

GpuStorage *
_gpu_storage_new_slice (GpuStorage      *storage,
                        GpuNativeBuffer *buffer,
                        GpuMemoryFlags   flags,
                        gsize            offset)
{
  GpuStorage *slice = storage_new (storage->context, buffer, flags);

  slice->root = storage->root;
  slice->whole = _gpu_storage_ref (storage->whole);
  slice->offset = storage->offset + offset;
  slice->identity = storage->identity + offset;
  slice->is_constant = storage->is_constant;
  _gpu_storage_use (storage->whole);

  return slice;
}

GpuStorage *
_gpu_storage_new_view (GpuStorage      *storage,
                       GpuNativeBuffer *buffer,
                       gsize            offset,
                       gpointer         owner,
                       GDestroyNotify   owner_notify)
{
  const GpuMemoryFlags access = GPU_MEMORY_FLAGS_READ_ONLY | GPU_MEMORY_FLAGS_WRITE_ONLY
                                | GPU_MEMORY_FLAGS_HOST_READ_ONLY
                                | GPU_MEMORY_FLAGS_HOST_WRITE_ONLY
                                | GPU_MEMORY_FLAGS_HOST_NO_ACCESS;
  GpuStorage *view = _gpu_storage_new_slice (storage, buffer, storage->flags & access, offset);

  view->owner = owner;
  view->owner_notify = owner_notify;

  return view;
}

void
_gpu_storage_start_after (GpuStorage  *storage,
                          GpuTimeline *timeline)
{
  guint64 submitted;

  if (G_UNLIKELY (g_atomic_int_get (&timeline->is_open)))
    {
      _gpu_timeline_lock (timeline);
      _gpu_timeline_append_point_locked (timeline);
      _gpu_timeline_unlock (timeline);
    }

  submitted = _gpu_timeline_get_submitted (timeline);

  if (_gpu_timeline_is_complete (timeline, submitted))
    return;

  _gpu_point_set (&storage->writer, timeline, submitted);
  storage->writer_kind = GPU_USE_EARLIER;
}

gboolean
_gpu_storage_steal_earlier (GpuStorage *root,
                            GpuPoint   *point)
{
  _gpu_storage_lock (root);

  if (root->writer_kind == GPU_USE_EARLIER && _gpu_point_is_pending (&root->writer))
    {
      *point = root->writer;
      root->writer = (GpuPoint) { NULL, 0 };
      root->writer_kind = GPU_USE_WRITE;
    }

  _gpu_storage_unlock (root);

  return point->timeline != NULL;
}

void
_gpu_storage_set_allocation_stream (GpuStorage  *storage,
                                    GpuTimeline *timeline)
{
  storage->allocation_stream = _gpu_timeline_ref (timeline);
  storage->allocation_capture = _gpu_timeline_get_capture (timeline);
  _gpu_storage_start_after (storage, timeline);
}

GpuStorage *
_gpu_storage_ref (GpuStorage *storage)
{
  g_atomic_ref_count_inc (&storage->refs);

  return storage;
}

/* Returns the storage that counts @storage among its users, or NULL. @storage also holds a
 * reference to the returned storage. */
static GpuStorage *
get_used (GpuStorage *storage)
{
  if (storage->whole != storage)
    return storage->whole;

  return storage->root != storage ? storage->root : NULL;
}

void
_gpu_storage_unref (GpuStorage *storage)
{
  GpuStorage *used = get_used (storage);

  if (!g_atomic_ref_count_dec (&storage->refs))
    return;

  if (used != NULL)
    _gpu_storage_unref (used);

  _gpu_native_context_unref (storage->context);
  g_mutex_clear (&storage->lock);
  g_aligned_free (storage);
  _gpu_live_add (GPU_LIVE_STORAGE, -1);
}

void
_gpu_storage_lock (GpuStorage *root)
{
  g_mutex_lock (&root->lock);

  /* biased_to changes only under root->lock, which this thread now holds. */
  if (root->biased_to != NULL)
    _gpu_timeline_lock (root->biased_to);
}

void
_gpu_storage_unlock (GpuStorage *root)
{
  if (root->biased_to != NULL)
    _gpu_timeline_unlock (root->biased_to);

  g_mutex_unlock (&root->lock);
}

void
_gpu_storage_lock_shared (GpuStorage *root)
{
  g_autoptr (GpuTimeline) biased_to = NULL;

  g_mutex_lock (&root->lock);
  biased_to = root->biased_to;

  if (biased_to == NULL)
    return;

  _gpu_timeline_lock (biased_to);
  __atomic_store_n (&root->biased_to, NULL, __ATOMIC_RELAXED);
  _gpu_timeline_unlock (biased_to);
}

void
_gpu_storage_unlock_shared (GpuStorage *root)
{
  g_mutex_unlock (&root->lock);
}

static inline gboolean
is_pending_elsewhere (const GpuPoint *point,
                      GpuTimeline    *timeline)
{
  return point->timeline != timeline && _gpu_point_is_pending (point);
}

void
_gpu_storage_bias_locked (GpuStorage  *root,
                          GpuTimeline *timeline)
{
  if (root->n_biases == MAX_BIASES || root->is_exclusive || root->is_external
      || is_pending_elsewhere (&root->writer, timeline)
      || is_pending_elsewhere (&root->reader, timeline))
    return;

  for (guint i = 0; root->readers != NULL && i < root->readers->len; i++)
    {
      if (is_pending_elsewhere (&g_array_index (root->readers, GpuPoint, i), timeline))
        return;
    }

  /* A submission that also uses other memory removes the bias and then biases the root to the same
   * timeline again. That is no change, so count only a bias to another timeline than the last
   * one. */
  if (root->last_biased_to != timeline)
    root->n_biases++;

  root->last_biased_to = timeline;
  __atomic_store_n (&root->biased_to, _gpu_timeline_ref (timeline), __ATOMIC_RELAXED);
}

void
_gpu_storage_use (GpuStorage *storage)
{
  g_atomic_int_inc (&storage->users);
}

static void
add_point (GArray         *points,
           const GpuPoint *point)
{
  GpuPoint copy = { NULL, 0 };

  if (point->timeline == NULL)
    return;

  _gpu_point_set (&copy, point->timeline, point->seq);
  g_array_append_val (points, copy);
}

static GArray *
point_array_new (void)
{
  GArray *points = g_array_new (FALSE, FALSE, sizeof (GpuPoint));

  g_array_set_clear_func (points, readers_clear);

  return points;
}

static void
add_use (GArray         *uses,
         const GpuPoint *point,
         GpuUseKind      kind)
{
  GpuUse use = { { NULL, 0 }, kind };

  if (point->timeline == NULL)
    return;

  _gpu_point_set (&use.point, point->timeline, point->seq);
  g_array_append_val (uses, use);
}

static GpuPoint *
get_last_write (GpuStorage *root)
{
  return root->writer_kind == GPU_USE_WRITE ? &root->writer : &root->last_write;
}

GArray *
_gpu_storage_list_uses (GpuStorage *root,
                        gboolean    readers)
{
  GArray *uses = g_array_new (FALSE, FALSE, sizeof (GpuUse));

  g_array_set_clear_func (uses, use_clear);
  _gpu_storage_lock (root);
  add_use (uses, get_last_write (root), GPU_USE_WRITE);

  if (root->writer_kind != GPU_USE_WRITE)
    add_use (uses, &root->writer, root->writer_kind);

  /* Writes of untracked memory are recorded as reads, see _gpu_storage_add_use_locked(). */
  if (readers || (root->flags & GPU_MEMORY_FLAGS_UNTRACKED) != 0)
    {
      add_use (uses, &root->reader, GPU_USE_READ);

      for (guint i = 0; root->readers != NULL && i < root->readers->len; i++)
        add_use (uses, &g_array_index (root->readers, GpuPoint, i), GPU_USE_READ);
    }

  _gpu_storage_unlock (root);

  return uses;
}

gboolean
_gpu_storage_get_writer (GpuStorage *root,
                         GpuPoint   *point)
{
  const GpuPoint *write;

  _gpu_storage_lock (root);
  write = get_last_write (root);

  if (write->timeline != NULL)
    _gpu_point_set (point, write->timeline, write->seq);

  _gpu_storage_unlock (root);

  return point->timeline != NULL;
}

static void
add_pending (GArray         **points,
             const GpuPoint  *point)
{
  if (!_gpu_point_is_pending (point))
    return;

  if (*points == NULL)
    *points = point_array_new ();

  add_point (*points, point);
}

/* Sets @reader to a read, unless it is a pending read of another stream. Returns FALSE for such a
 * read. */
static gboolean
replace_reader (GpuPoint    *reader,
                GpuTimeline *timeline,
                guint64      seq)
{
  if (reader->timeline != timeline && _gpu_point_is_pending (reader))
    return FALSE;

  if (reader->timeline != timeline || reader->seq < seq)
    _gpu_point_set (reader, timeline, seq);

  return TRUE;
}

static void
add_reader_locked (GpuStorage  *root,
                   GpuTimeline *timeline,
                   guint64      seq)
{
  GpuPoint point = { NULL, 0 };

  if (replace_reader (&root->reader, timeline, seq))
    return;

  if (root->readers == NULL)
    {
      root->readers = g_array_new (FALSE, FALSE, sizeof (GpuPoint));
      g_array_set_clear_func (root->readers, readers_clear);
    }

  for (guint i = 0; i < root->readers->len; i++)
    {
      if (replace_reader (&g_array_index (root->readers, GpuPoint, i), timeline, seq))
        return;
    }

  _gpu_point_set (&point, timeline, seq);
  g_array_append_val (root->readers, point);
}

void
_gpu_storage_add_stream (GpuStorage  *root,
                         GpuTimeline *timeline)
{
  g_atomic_int_set (&timeline->is_pooled, TRUE);
  g_mutex_lock (&root->lock);

  if (root->streams == NULL)
    g_atomic_pointer_set (&root->streams,
                          g_ptr_array_new_with_free_func ((GDestroyNotify) _gpu_timeline_unref));

  if (!g_ptr_array_find (root->streams, timeline, NULL))
    g_ptr_array_add (root->streams, _gpu_timeline_ref (timeline));

  g_mutex_unlock (&root->lock);
}

static gpointer
ref_timeline (gconstpointer timeline,
              gpointer      data G_GNUC_UNUSED)
{
  return _gpu_timeline_ref ((GpuTimeline *) timeline);
}

/* Records the program's own work on registered streams. That work did not wait for earlier uses, so
 * it is recorded as a read: a write would replace the earlier uses. */
static GPU_COLD void
record_stream_uses_slowly (GpuStorage *root)
{
  g_autoptr (GPtrArray) streams = NULL;

  g_mutex_lock (&root->lock);
  streams = g_ptr_array_copy (root->streams, ref_timeline, NULL);
  g_mutex_unlock (&root->lock);

  for (guint i = 0; i < streams->len; i++)
    {
      GpuTimeline *timeline = streams->pdata[i];
      guint64 seq = _gpu_timeline_append_point (timeline);

      if (_gpu_timeline_is_complete (timeline, seq))
        continue;

      _gpu_storage_lock_shared (root);
      add_reader_locked (root, timeline, seq);
      _gpu_storage_unlock_shared (root);
    }
}

static inline void
record_stream_uses (GpuStorage *root)
{
  if (G_UNLIKELY (g_atomic_pointer_get (&root->streams) != NULL))
    record_stream_uses_slowly (root);
}

/* Returns a list of the uses of @root that have not completed, as GpuPoint, or NULL if all uses
 * have completed. */
static GArray *
list_pending (GpuStorage *root)
{
  GArray *points = NULL;

  _gpu_storage_lock (root);
  add_pending (&points, &root->writer);
  add_pending (&points, &root->reader);

  for (guint i = 0; root->readers != NULL && i < root->readers->len; i++)
    add_pending (&points, &g_array_index (root->readers, GpuPoint, i));

  _gpu_storage_unlock (root);

  return points;
}

/* Removes all recorded uses. Takes the lock, because other threads may still read the fields: a
 * submission that runs concurrently with the release checks `biased_to`, and a new storage of the
 * same memory copies uses that have not completed, see inherit_uses(). */
static void
forget_uses (GpuStorage *storage)
{
  g_autoptr (GArray) readers = NULL;
  g_autoptr (GArray) mapped = NULL;
  g_autoptr (GPtrArray) streams = NULL;
  GpuPoint writer;
  GpuPoint reader;
  GpuPoint last_write;

  _gpu_storage_lock_shared (storage);
  writer = storage->writer;
  reader = storage->reader;
  last_write = storage->last_write;
  readers = g_steal_pointer (&storage->readers);
  mapped = g_steal_pointer (&storage->mapped);
  streams = g_steal_pointer (&storage->streams);
  storage->writer = (GpuPoint) { NULL, 0 };
  storage->reader = (GpuPoint) { NULL, 0 };
  storage->last_write = (GpuPoint) { NULL, 0 };
  storage->writer_kind = GPU_USE_WRITE;
  storage->last_biased_to = NULL;
  storage->n_biases = 0;
  _gpu_storage_unlock_shared (storage);

  _gpu_point_clear (&writer);
  _gpu_point_clear (&last_write);
  _gpu_point_clear (&reader);
}

gboolean
_gpu_storage_renew (GpuStorage  *storage,
                    GArray     **uses)
{
  if (!g_atomic_ref_count_compare (&storage->refs, 1) || g_atomic_int_get (&storage->users) != 1
      || g_atomic_pointer_get (&storage->hooks) != NULL)
    return FALSE;

  record_stream_uses (storage);
  *uses = NULL;

  if (storage->writer.timeline != NULL || storage->reader.timeline != NULL
      || storage->readers != NULL || storage->mapped != NULL || storage->biased_to != NULL
      || storage->streams != NULL)
    {
      *uses = list_pending (storage);
      forget_uses (storage);
    }

  return TRUE;
}

/* Continues a release once the storage has no users left. */
static void
begin_release (GpuStorage *storage)
{
  record_stream_uses (storage->root);
  storage->pending = list_pending (storage->root);
  _gpu_storage_resume_release (storage);
}

/* Like _gpu_storage_unuse(), for a user that is counted in n_retiring. Changes both counters under
 * the lock, because _gpu_storage_count_users_locked() subtracts one from the other. */
static void
unuse_retiring (GpuStorage *storage)
{
  GpuLatch *latch = NULL;
  gboolean is_last;

  g_mutex_lock (&storage->lock);
  is_last = g_atomic_int_dec_and_test (&storage->users);

  if (--storage->n_retiring == 0)
    latch = g_steal_pointer (&storage->retired);

  g_mutex_unlock (&storage->lock);

  if (latch != NULL)
    _gpu_latch_open (latch, NULL);

  if (is_last)
    begin_release (storage);
}

/* Called when only pending work delays freeing the buffer of @storage. */
static void
set_retiring (GpuStorage *storage)
{
  GpuStorage *used = get_used (storage);

  if (used == NULL || storage->pending == NULL)
    return;

  g_mutex_lock (&used->lock);
  used->n_retiring++;
  g_mutex_unlock (&used->lock);
  storage->is_retiring = TRUE;
}

gint
_gpu_storage_count_users_locked (GpuStorage *storage)
{
  return g_atomic_int_get (&storage->users) - (gint) storage->n_retiring;
}

gboolean
_gpu_storage_wait_for_retiring (GpuStorage *storage)
{
  g_autoptr (GpuLatch) latch = NULL;

  g_mutex_lock (&storage->lock);

  if (storage->n_retiring > 0)
    {
      latch = _gpu_latch_new ();
      storage->retired = _gpu_latch_ref (latch);
    }

  g_mutex_unlock (&storage->lock);

  if (latch == NULL)
    return TRUE;

  _gpu_uses_wait (_gpu_storage_list_work (storage->root), _gpu_use_can_ignore, NULL, NULL);

  if (_gpu_latch_wait (latch, g_get_monotonic_time () + RETIRE_TIME, NULL, NULL))
    return TRUE;

  g_mutex_lock (&storage->lock);
  if (storage->retired == latch)
    _gpu_latch_unref (g_steal_pointer (&storage->retired));
  g_mutex_unlock (&storage->lock);

  return FALSE;
}

static void
free_buffer (GpuStorage *storage)
{
  GpuNativeContext *context = storage->context;
  GpuStorage *used = get_used (storage);

  _gpu_storage_unregister_alias (storage);

  if (storage->buffer != NULL && storage->suballocation == NULL)
    context->backend->memory->free (context, g_steal_pointer (&storage->buffer));

  g_clear_pointer (&storage->allocation_stream, _gpu_timeline_unref);
  count (storage, -(gssize) storage->size);

  if (storage->owner_notify != NULL)
    storage->owner_notify (storage->owner);

  forget_uses (storage);

  if (storage->is_retiring)
    unuse_retiring (used);
  else if (used != NULL)
    _gpu_storage_unuse (used);
}

GArray *
_gpu_storage_list_work (GpuStorage *root)
{
  record_stream_uses (root);

  return _gpu_storage_list_uses (root, TRUE);
}

gboolean
_gpu_use_can_ignore (const GpuUse *use,
                     const GError *failure)
{
  return use->kind == GPU_USE_EARLIER
         && !g_error_matches (failure, GPU_ERROR, GPU_ERROR_DEVICE_LOST)
         && !_gpu_point_is_pending (&use->point);
}

gboolean
_gpu_uses_wait (GArray            *uses,
                GpuUseIgnoreFunc  *can_ignore,
                GCancellable      *cancellable,
                GError           **error)
{
  GError *first = NULL;

  /* Also waits for completed uses, because they may have failed. */
  for (guint i = 0; i < uses->len; i++)
    {
      const GpuUse *use = &g_array_index (uses, GpuUse, i);
      g_autoptr (GError) failure = NULL;

      if (!_gpu_timeline_wait_until (use->point.timeline, use->point.seq, -1, cancellable, &failure)
          && first == NULL && !can_ignore (use, failure))
        first = g_steal_pointer (&failure);
    }

  g_array_unref (uses);
  if (first != NULL)
    g_propagate_error (error, first);

  return first == NULL;
}

gboolean
_gpu_storage_check_captured (GpuStorage  *root,
                             GError     **error)
{
  g_autoptr (GArray) uses = NULL;

  record_stream_uses (root);
  uses = list_pending (root);

  for (guint i = 0; uses != NULL && i < uses->len; i++)
    {
      const GpuPoint *point = &g_array_index (uses, GpuPoint, i);

      if (!_gpu_timeline_check_captured (point->timeline, point->seq, error))
        return FALSE;
    }

  return TRUE;
}

gboolean
_gpu_storage_empty (GpuStorage  *storage,
                    GArray     **uses,
                    GError     **error)
{
  if (g_atomic_int_get (&storage->users) != 1 || g_atomic_pointer_get (&storage->hooks) != NULL)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_BUSY,
                           "the memory is in use by slices, mappings or other memory objects");
      return FALSE;
    }

  record_stream_uses (storage);
  *uses = list_pending (storage);
  forget_uses (storage);

  return TRUE;
}

gboolean
_gpu_storage_drop_buffer (GpuStorage  *storage,
                          GError     **error)
{
  GpuNativeContext *context = storage->context;
  g_autoptr (GArray) uses = NULL;

  if (!_gpu_storage_empty (storage, &uses, error))
    return FALSE;

  for (guint i = 0; uses != NULL && i < uses->len; i++)
    {
      const GpuPoint *point = &g_array_index (uses, GpuPoint, i);

      _gpu_timeline_wait (point->timeline, point->seq, NULL);
    }

  _gpu_storage_unregister_alias (storage);
  context->backend->memory->free (context, g_steal_pointer (&storage->buffer));
  g_clear_pointer (&storage->allocation_stream, _gpu_timeline_unref);
  count (storage, -(gssize) storage->size);
  storage->kind = GPU_STORAGE_FOREIGN;

  return TRUE;
}

void
_gpu_storage_take_buffer (GpuStorage      *storage,
                          GpuNativeBuffer *buffer,
                          GpuStorageKind   kind)
{
  storage->buffer = buffer;
  storage->kind = kind;
  count (storage, (gssize) storage->size);
  _gpu_storage_register_alias (storage, TRUE);
}

/* Returns whether the stream can free the buffer. An out-of-order stream may run the free before
 * earlier uses. After the last use of a borrowed stream the program may have destroyed it. A graph
 * frees only memory that it allocates, and the driver fails such a call during the capture of
 * another graph. */
static gboolean
can_free_in_order_locked (GpuStorage  *storage,
                          GpuTimeline *timeline)
{
  guint64 capture;

  if (timeline->stream == NULL || timeline->is_ended
      || (timeline->flags & GPU_STREAM_FLAGS_OUT_OF_ORDER) != 0)
    return FALSE;

  capture = _gpu_timeline_get_capture_locked (timeline);

  return capture == 0 || capture == storage->allocation_capture;
}

/* Frees a buffer that was allocated in stream order in the order of its allocation stream, unless
 * another stream still uses the buffer. */
static void
free_in_order (GpuStorage *storage)
{
  const GpuBufferOps *ops = storage->context->backend->buffer;
  GpuTimeline *allocation_stream = storage->allocation_stream;
  g_autoptr (GError) error = NULL;

  if (allocation_stream == NULL || ops->free_ordered == NULL
      || g_atomic_int_get (&storage->context->lost))
    return;

  for (guint i = 0; storage->pending != NULL && i < storage->pending->len; i++)
    {
      if (is_pending_elsewhere (&g_array_index (storage->pending, GpuPoint, i), allocation_stream))
        return;
    }

  _gpu_storage_unregister_alias (storage);
  _gpu_timeline_lock (allocation_stream);

  if (can_free_in_order_locked (storage, allocation_stream))
    {
      ops->free_ordered (allocation_stream->stream, g_steal_pointer (&storage->buffer), &error);
      g_clear_pointer (&storage->pending, g_array_unref);
    }

  _gpu_timeline_unlock (allocation_stream);

  if (error != NULL)
    _gpu_native_context_report (storage->context, error);
}

/* Returns the number of bytes of host memory of the program that the storage keeps in use. */
static gsize
get_retained_size (const GpuStorage *storage)
{
  return storage->root->owner_notify == (GDestroyNotify) g_bytes_unref ? storage->size : 0;
}

/* Frees the buffer of @data, a GpuStorage, if all uses in `pending` have completed. Otherwise this
 * function is called again when the next of these uses has completed. May query the driver, and
 * then also releases other objects whose work has completed, on the thread of the caller. Takes
 * ownership of a reference to @data. */
static void
retire (gpointer data)
{
  GpuStorage *storage = data;

  while (storage->pending != NULL && storage->pending->len > 0)
    {
      guint last = storage->pending->len - 1;
      GpuPoint *point = &g_array_index (storage->pending, GpuPoint, last);

      if (_gpu_point_is_pending (point) && !_gpu_timeline_try_retire (point->timeline, point->seq))
        {
          g_autoptr (GpuTimeline) timeline = _gpu_timeline_ref (point->timeline);

          g_array_set_size (storage->pending, last);
          _gpu_timeline_defer_until_complete (timeline, storage, retire,
                                              get_retained_size (storage));
          return;
        }

      g_array_set_size (storage->pending, last);
    }

  g_clear_pointer (&storage->pending, g_array_unref);
  free_buffer (storage);
  _gpu_storage_unref (storage);
}

void
_gpu_storage_add_hook (GpuStorage     *storage,
                       GpuStorageHook *hook)
{
  g_mutex_lock (&storage->lock);
  hook->next = storage->hooks;
  g_atomic_pointer_set (&storage->hooks, hook);
  g_mutex_unlock (&storage->lock);
}

/* Returns the link to the newest hook of @owner, or of all owners if @owner is NULL. */
static GpuStorageHook **
find_hook_locked (GpuStorage    *storage,
                  gconstpointer  owner)
{
  GpuStorageHook **link = &storage->hooks;

  while (*link != NULL && owner != NULL && (*link)->owner != owner)
    link = &(*link)->next;

  return link;
}

gboolean
_gpu_storage_has_hook (GpuStorage    *storage,
                       gconstpointer  owner)
{
  gboolean found;

  g_mutex_lock (&storage->lock);
  found = *find_hook_locked (storage, owner) != NULL;
  g_mutex_unlock (&storage->lock);

  return found;
}

GpuStorageHook *
_gpu_storage_take_hook (GpuStorage    *storage,
                        gconstpointer  owner)
{
  GpuStorageHook **link;
  GpuStorageHook *hook;

  if (g_atomic_pointer_get (&storage->hooks) == NULL)
    return NULL;

  g_mutex_lock (&storage->lock);
  link = find_hook_locked (storage, owner);
  hook = *link;

  if (hook != NULL)
    g_atomic_pointer_set (link, hook->next);

  g_mutex_unlock (&storage->lock);

  return hook;
}

void
_gpu_storage_resume_release (GpuStorage *storage)
{
  GpuStorageHook *hook;

  while ((hook = _gpu_storage_take_hook (storage, NULL)) != NULL)
    {
      if (!hook->func (hook, storage))
        return;
    }

  if (storage->suballocation != NULL)
    storage->suballocation->ops->return_to_pool (storage);

  free_in_order (storage);
  set_retiring (storage);
  retire (_gpu_storage_ref (storage));
}

void
_gpu_storage_wait_for (GpuStorage  *storage,
                       GpuTimeline *timeline)
{
  GpuPoint point = { NULL, 0 };

  _gpu_point_set (&point, timeline, _gpu_timeline_get_last_point (timeline));

  add_pending (&storage->pending, &point);
  _gpu_point_clear (&point);
}

void
_gpu_storage_unuse (GpuStorage *storage)
{
  if (g_atomic_int_dec_and_test (&storage->users))
    begin_release (storage);
}

/* If a user event may fail a write, the write may end before the uses that it waits for. So keep
 * these uses, as reads: the next write and the release of the memory wait for them. */
static void
keep_uses_locked (GpuStorage  *root,
                  GpuTimeline *timeline)
{
  GpuPoint writer = root->writer;

  root->writer = (GpuPoint) { NULL, 0 };
  if (is_pending_elsewhere (&writer, timeline))
    add_reader_locked (root, writer.timeline, writer.seq);

  _gpu_point_clear (&writer);
}

void
_gpu_storage_add_use_locked (GpuStorage  *root,
                             GpuTimeline *timeline,
                             guint64      seq,
                             gboolean     write)
{
  /* An untracked write did not wait for earlier uses, so it must not replace them: record it as a
   * read. */
  if (!write || (root->flags & GPU_MEMORY_FLAGS_UNTRACKED) != 0)
    {
      add_reader_locked (root, timeline, seq);
      return;
    }

  if (G_UNLIKELY (__atomic_load_n (&timeline->n_user_waits, __ATOMIC_RELAXED) > 0))
    keep_uses_locked (root, timeline);
  else
    {
      if (root->reader.timeline != NULL)
        _gpu_point_clear (&root->reader);

      if (root->readers != NULL)
        g_array_set_size (root->readers, 0);
    }

  _gpu_point_set (&root->writer, timeline, seq);
  _gpu_point_clear (&root->last_write);
  root->writer_kind = GPU_USE_WRITE;
}

void
_gpu_storage_set_promoted_locked (GpuStorage  *root,
                                  GpuTimeline *timeline,
                                  guint64      seq)
{
  GpuPoint last_write = { NULL, 0 };

  /* The same submission may also write the memory: if so, keep writer_kind at GPU_USE_WRITE. */
  if (root->writer.timeline == timeline && root->writer.seq == seq)
    return;

  if ((root->flags & GPU_MEMORY_FLAGS_UNTRACKED) == 0)
    {
      GpuPoint *write = get_last_write (root);

      last_write = *write;
      *write = (GpuPoint) { NULL, 0 };
    }

  _gpu_storage_add_use_locked (root, timeline, seq, TRUE);

  if ((root->flags & GPU_MEMORY_FLAGS_UNTRACKED) == 0)
    {
      root->last_write = last_write;
      root->writer_kind = GPU_USE_READ;
    }
}

void
_gpu_storage_map_locked (GpuStorage *root,
                         gsize       offset,
                         gsize       size,
                         gboolean    write)
{
  GpuMappedRange range = { offset, size, write };

  if (root->mapped == NULL)
    root->mapped = g_array_new (FALSE, FALSE, sizeof (GpuMappedRange));

  g_array_append_val (root->mapped, range);
}

void
_gpu_storage_unmap (GpuStorage *root,
                    gsize       offset,
                    gsize       size,
                    gboolean    write)
{
  _gpu_storage_lock (root);

  for (guint i = 0; i < root->mapped->len; i++)
    {
      GpuMappedRange *range = &g_array_index (root->mapped, GpuMappedRange, i);

      if (range->offset == offset && range->size == size && range->write == write)
        {
          g_array_remove_index_fast (root->mapped, i);
          break;
        }
    }

  _gpu_storage_unlock (root);
}

const GpuMappedRange *
_gpu_storage_find_clash_locked (GpuStorage *root,
                                gsize       offset,
                                gsize       size,
                                gboolean    write)
{
  for (guint i = 0; root->mapped != NULL && i < root->mapped->len; i++)
    {
      GpuMappedRange *range = &g_array_index (root->mapped, GpuMappedRange, i);

      if ((write || range->write)
          && offset < range->offset + range->size && range->offset < offset + size)
        return range;
    }

  return NULL;
}

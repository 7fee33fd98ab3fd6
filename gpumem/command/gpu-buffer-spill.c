/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Buffers whose contents are moved to the host temporarily, which frees their device memory. */
#include "config.h"

#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-copy-cross-driver-private.h"
#include "gpumem/command/gpu-staging-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/stream/gpu-event-private.h"

typedef enum
{
  MOVE_REFUSED,
  MOVE_BEGUN,
  MOVE_DONE                         /* another thread has completed the same move */
} Move;

/* Returns the reason why the memory cannot be spilled, or NULL if it can. Caller holds the lock of
 * the storage: a concurrent move would change `storage->kind`. */
static const char *
get_obstacle_locked (GpuBuffer *buffer)
{
  GpuStorage *storage = GPU_MEMORY (buffer)->storage;

  if (gpu_buffer_get_memory (buffer) != NULL)
    return "a slice";
  if (storage->suballocation == NULL && storage->kind != GPU_STORAGE_DEVICE)
    return "wrapped or imported memory";
  if ((storage->flags & GPU_MEMORY_FLAGS_SHAREABLE) != 0)
    return "shareable memory";
  if (gpu_buffer_get_row_pitch (buffer) != 0)
    return "pitched memory";
  if (g_atomic_pointer_get (&storage->hooks) != NULL)
    return "tracked by an adaptor of allocators";

  return NULL;
}

static void
set_move_error (GpuMemory   *memory,
                const char  *obstacle,
                const char  *function,
                GError     **error)
{
  if (obstacle != NULL)
    g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                 "%s: cannot spill a buffer of %" G_GSIZE_FORMAT " bytes: it is %s", function,
                 memory->size, obstacle);
  else
    g_set_error (error, GPU_ERROR, GPU_ERROR_BUSY, "%s: the memory of %" G_GSIZE_FORMAT
                 " bytes is in use by slices, images, mappings, bytes or prepared launches; "
                 "drop these first", function, memory->size);
}

/* Changes the state from @from to SPILLING or MOVING, as the first step of a move to the state
 * @to. */
static Move
begin_move (GpuMemory       *memory,
            GpuMemoryState   from,
            GpuMemoryState   to,
            const char      *function,
            GError         **error)
{
  GpuStorage *storage = memory->storage;
  const char *obstacle = NULL;
  gboolean can_begin = FALSE;
  GpuMemoryState state;

  /* Check without the lock first. A thread that spills the memory may hold the lock while the
   * driver reads the contents, and this thread would then block. */
  state = (GpuMemoryState) g_atomic_int_get (&memory->state);

  if (state == GPU_MEMORY_STATE_SPILLING || state == GPU_MEMORY_STATE_MOVING)
    {
      _gpu_memory_fail_in_state (memory, state, function, error);
      return MOVE_REFUSED;
    }

  _gpu_storage_lock (storage->root);
  state = (GpuMemoryState) g_atomic_int_get (&memory->state);

  if (state == from)
    {
      obstacle = to == GPU_MEMORY_STATE_SPILLED ? get_obstacle_locked ((GpuBuffer *) memory) : NULL;
      can_begin = obstacle == NULL && storage->root == storage
                  && _gpu_storage_count_users_locked (storage) == 1
                  && g_atomic_int_get (&storage->n_prepared) == 0;
    }

  if (can_begin)
    {
      g_atomic_int_inc (&memory->n_moves);
      g_atomic_int_set (&memory->state, to == GPU_MEMORY_STATE_SPILLED ? GPU_MEMORY_STATE_SPILLING
                                                                       : GPU_MEMORY_STATE_MOVING);
    }

  _gpu_storage_unlock (storage->root);

  if (can_begin)
    return MOVE_BEGUN;

  if (state == to)
    return MOVE_DONE;

  if (state != from)
    _gpu_memory_fail_in_state (memory, state, function, error);
  else
    set_move_error (memory, obstacle, function, error);

  return MOVE_REFUSED;
}

/* Changes the state to @to, and the contents on the host to @contents. If the memory was released
 * during the move, only drops the contents on the host, and returns FALSE. */
static gboolean
change_state (GpuMemory      *memory,
              GpuMemoryState  to,
              GBytes         *contents)
{
  GpuStorage *root = memory->storage->root;
  g_autoptr (GBytes) before = NULL;
  gboolean is_released;

  _gpu_storage_lock (root);
  g_mutex_lock (&memory->content_lock);

  is_released = g_atomic_int_get (&memory->state) == GPU_MEMORY_STATE_RELEASED;
  before = memory->spilled;
  memory->spilled = contents != NULL && !is_released ? g_bytes_ref (contents) : NULL;

  /* Reads that begin and end before a move fails must see it, too */
  g_atomic_int_inc (&memory->n_moves);
  if (!is_released)
    g_atomic_int_set (&memory->state, to);

  g_mutex_unlock (&memory->content_lock);
  _gpu_storage_unlock (root);

  return !is_released;
}

/* Changes the state to @to, unless the memory was released during the move. */
static void
end_move (GpuMemory      *memory,
          GpuMemoryState  to)
{
  if (!change_state (memory, to, to == GPU_MEMORY_STATE_SPILLED ? memory->spilled : NULL))
    _gpu_storage_unuse (memory->storage);
}

/* Creates a second buffer over the storage of @memory. The second buffer is usable while @memory is
 * being moved. */
static GpuBuffer *
make_twin (GpuMemory *memory)
{
  GpuBuffer *twin = g_object_new (GPU_TYPE_BUFFER, "context", memory->context, NULL);

  _gpu_storage_use (memory->storage);
  _gpu_memory_set_storage (GPU_MEMORY (twin), _gpu_storage_ref (memory->storage));

  return twin;
}

static gboolean
drop_memory (GpuMemory  *memory,
             GError    **error)
{
  GpuStorage *storage = memory->storage;

  return storage->suballocation != NULL ? storage->suballocation->ops->spill (memory, error)
                                        : _gpu_storage_drop_buffer (storage, error);
}

static gboolean
spill (GpuMemory   *memory,
       GpuStream   *stream,
       const char  *function,
       GError     **error)
{
  GpuStorage *storage = memory->storage;
  g_autoptr (GpuBuffer) twin = make_twin (memory);
  g_autoptr (GBytes) content = NULL;

  /* The read below is not ordered after untracked work, or after work of streams that the program
   * has registered for the memory: wait for this work first. */
  if ((storage->flags & GPU_MEMORY_FLAGS_UNTRACKED) != 0 || storage->streams != NULL)
    _gpu_uses_wait (_gpu_storage_list_work (storage), _gpu_use_can_ignore, NULL, NULL);
  if (!_gpu_storage_check_captured (storage, error))
    {
      g_prefix_error (error, "%s: ", function);
      return FALSE;
    }

  content = _gpu_memory_read_bytes ((GpuMemory *) twin, stream, 0, memory->size, function, NULL,
                                    error);
  g_clear_object (&twin);

  if (content == NULL)
    return FALSE;

  /* From here on, no other thread submits work that uses the memory: reads return @content. */
  change_state (memory, GPU_MEMORY_STATE_MOVING, content);

  /* A capture may have begun to use the memory during the read. */
  if (_gpu_storage_check_captured (storage, error))
    {
      _gpu_storage_wait_for_retiring (storage);

      if (drop_memory (memory, error))
        return TRUE;
    }

  g_prefix_error (error, "%s: ", function);

  return FALSE;
}

static void
notify_spilled (GpuBuffer *buffer)
{
  g_object_notify (G_OBJECT (buffer), "spilled");
}

/**
 * gpu_buffer_spill:
 * @buffer: a #GpuBuffer that is not a slice
 * @stream: (nullable): the stream to read on, %NULL for the default stream
 * @error: return location for an error
 *
 * Moves the contents of @buffer to pageable host memory and frees its device memory, or returns the
 * device memory to its pool. The object stays valid. The contents are never moved back implicitly,
 * because the move can take long and can fail for lack of memory. A handler of
 * #GpuMemoryPool::out-of-memory can spill buffers to make room without data loss.
 *
 * Until gpu_buffer_unspill(), gpu_buffer_read(), gpu_buffer_read_bytes(), gpu_array_read_bytes(),
 * gpu_array_read_strided() and their asynchronous variants read the contents from the host. All
 * other operations on @buffer fail with %GPU_ERROR_BUSY. This includes reads in the order of a
 * stream, such as gpu_stream_read(): earlier work of the stream may still use their destination.
 *
 * The functions that read a spilled buffer also succeed while another thread is in this function or
 * in gpu_buffer_unspill(). Until the contents are on the host, they read the device memory, and
 * wait for the same work as a read of a buffer that is not spilled. Other operations that would
 * write the memory fail with %GPU_ERROR_BUSY meanwhile.
 *
 * Handles and addresses of @buffer are 0 while it is spilled. After gpu_buffer_unspill(), handles
 * and addresses have new values. Streams registered with gpu_memory_add_stream() are no longer
 * registered. Exported handles of the memory, and objects that wrap the memory,
 * become invalid, so the program must not use them any more. Spilling a spilled buffer does
 * nothing.
 *
 * Blocks until the contents are read (OpenCL: clEnqueueReadBuffer; CUDA: cuMemcpyDtoHAsync). The
 * read is ordered after the last work that wrote the memory, on any stream. If @buffer is not from
 * a pool, or if pending work uses a released slice of @buffer, the call also blocks until all work
 * that uses the memory has completed. If this work waits for an event of gpu_event_new_user(),
 * another thread must complete the event. Released slices and images of @buffer, and mappings that
 * are no longer mapped, do not prevent the move; a pending slice of an object that wraps the memory
 * does. May be called from any thread.
 *
 * An error leaves @buffer unchanged.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_NOT_SUPPORTED for a slice, for pitched, wrapped,
 *   imported or %GPU_MEMORY_FLAGS_SHAREABLE memory, for memory that a #GpuAllocatorAdaptor tracks,
 *   if the pool of @buffer no longer exists, or while a graph that uses the memory is being
 *   captured; %GPU_ERROR_BUSY while @buffer is mapped, or while slices, images or prepared launches
 *   of @buffer exist; %GPU_ERROR_INVALID_ARGUMENT if the flags do not let the host read and write
 *   the memory, or if @stream belongs to another context; %GPU_ERROR_RELEASED; or the driver's
 *   error
 *
 * Since: 0.1
 */
gboolean
gpu_buffer_spill (GpuBuffer  *buffer,
                  GpuStream  *stream,
                  GError    **error)
{
  const char *function = "gpu_buffer_spill";
  GpuMemory *memory = (GpuMemory *) buffer;
  gboolean success;
  Move move;

  g_return_val_if_fail (GPU_IS_BUFFER (buffer), FALSE);
  g_return_val_if_fail (stream == NULL || GPU_IS_STREAM (stream), FALSE);

  if (g_atomic_int_get (&memory->state) == GPU_MEMORY_STATE_SPILLED)
    return TRUE;

  if ((memory->storage == NULL && !_gpu_memory_check (memory, function, error))
      || !_gpu_memory_check_host (memory, function, TRUE, error))
    return FALSE;

  move = begin_move (memory, GPU_MEMORY_STATE_USABLE, GPU_MEMORY_STATE_SPILLED, function, error);

  if (move != MOVE_BEGUN)
    return move == MOVE_DONE;

  success = spill (memory, stream, function, error);
  end_move (memory, success ? GPU_MEMORY_STATE_SPILLED : GPU_MEMORY_STATE_USABLE);

  if (success)
    notify_spilled (buffer);

  return success;
}

typedef struct
{
  GpuMemoryFlags flags;
  gsize          size;
} Allocation;

static GpuNativeMemory *
allocate (GpuNativeContext  *context,
          gpointer           data,
          GError           **error)
{
  const Allocation *allocation = data;

  return context->backend->buffer->alloc (context, allocation->flags, allocation->size, NULL,
                                          error);
}

static gboolean
check_context (GpuMemory    *memory,
               GpuTimeline  *timeline,
               const char   *function,
               GError      **error)
{
  if (timeline->context == memory->storage->context)
    return TRUE;

  return _gpu_native_context_set_memory_mismatch (function, memory->size,
                                                  memory->storage->context, timeline->context,
                                                  error);
}

static gboolean
get_memory (GpuMemory    *memory,
            GpuTimeline  *timeline,
            const char   *function,
            GError      **error)
{
  GpuStorage *storage = memory->storage;
  Allocation allocation = { storage->flags, storage->size };
  GpuNativeMemory *native;

  if (storage->suballocation != NULL)
    {
      gboolean success = storage->suballocation->ops->unspill (memory, timeline, error);

      if (!success)
        g_prefix_error (error, "%s: ", function);

      return success;
    }

  native = _gpu_memory_allocate (memory->context, function, storage->size, allocate, &allocation,
                                 error);

  if (native == NULL)
    return FALSE;

  _gpu_storage_take_buffer (storage, native, GPU_STORAGE_DEVICE);
  _gpu_memory_set_storage (memory, storage);

  return TRUE;
}

/* Makes @own wait for the work of previous owners of pooled memory, but not fail with that work. */
static gboolean
follow_earlier_work (GpuStorage   *storage,
                     GpuTimeline  *own,
                     const char   *function,
                     GError      **error)
{
  GpuPoint earlier = { NULL, 0 };
  gboolean success;

  if (!_gpu_storage_steal_earlier (storage, &earlier))
    return TRUE;

  success = _gpu_timeline_follow_end (own, &earlier, function, error);
  _gpu_point_clear (&earlier);

  return success;
}

/* Submits the write on a stream of its own, because failed work of the program on @timeline would
 * also fail a write that follows it there, and the contents would be lost. Later work of @timeline
 * is ordered after the write, even if the library does not track its use of the memory. */
static gboolean
write_contents (GpuMemory    *memory,
                GpuTimeline  *timeline,
                const char   *function,
                GError      **error)
{
  g_autoptr (GpuBuffer) twin = make_twin (memory);
  GpuTimeline *own = _gpu_timeline_get_partner (timeline, timeline->context, function, error);
  gsize size;
  gconstpointer data = g_bytes_get_data (memory->spilled, &size);
  g_auto (GpuHostWait) wait = { NULL };
  gboolean success;

  if (own == NULL)
    return FALSE;

  success = follow_earlier_work (memory->storage, own, function, error);
  _gpu_host_wait_begin (&wait, own);
  success = success
            && _gpu_timeline_write (own, function, GPU_MEMORY (twin), 0, data, size,
                                    memory->spilled, NULL, error);

  if (success)
    {
      const GpuPoint written = { own, wait.work.last };
      const GpuSubmission submission = { .function = function, .after = &written };

      _gpu_host_wait_end (&wait);
      success = _gpu_submit (timeline, &submission, NULL, error);
    }

  _gpu_timeline_release_partner (own);

  return success;
}

static gboolean
unspill (GpuMemory    *memory,
         GpuTimeline  *timeline,
         const char   *function,
         GError      **error)
{
  if (!get_memory (memory, timeline, function, error))
    return FALSE;

  if (write_contents (memory, timeline, function, error))
    {
      if (memory->storage->suballocation != NULL)
        memory->storage->suballocation->ops->unspilled (memory);

      return TRUE;
    }

  /* memory->spilled still holds the contents. */
  drop_memory (memory, NULL);

  return FALSE;
}

/**
 * gpu_buffer_unspill:
 * @buffer: a #GpuBuffer
 * @stream: (nullable): the stream that waits for the contents, %NULL for the default stream
 * @error: return location for an error
 *
 * Allocates memory for a buffer that gpu_buffer_spill() moved to the host, and submits a write of
 * its contents (OpenCL: clCreateBuffer, clEnqueueWriteBuffer; CUDA: cuMemAlloc,
 * cuMemcpyHtoDAsync). If the buffer came from a pool, the new memory comes from the same pool. The
 * buffer can be used at once, on all streams. Does nothing if @buffer is not spilled. Blocks during
 * the allocation. If a pool on CUDA allocates memory of the host, the driver also blocks the write
 * as long as earlier work may use memory from the pool. May be called from any thread.
 *
 * An error leaves @buffer spilled. Later work of @stream is ordered after the write. The write does
 * not wait for earlier work of @stream, except for work that may still use memory from the pool,
 * and a failure of earlier work, such as a copy of a file, does not fail the write. After a
 * successful return, only a failure of the device can lose the contents.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_OUT_OF_DEVICE_MEMORY, %GPU_ERROR_BUSY if another thread
 *   is moving @buffer, %GPU_ERROR_INVALID_ARGUMENT if @stream belongs to another context,
 *   %GPU_ERROR_NOT_SUPPORTED if @stream is being captured into a graph, %GPU_ERROR_RELEASED, or
 *   the driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_buffer_unspill (GpuBuffer  *buffer,
                    GpuStream  *stream,
                    GError    **error)
{
  const char *function = "gpu_buffer_unspill";
  GpuMemory *memory = (GpuMemory *) buffer;
  g_autoptr (GpuTimeline) timeline = NULL;
  gboolean success;
  Move move;

  g_return_val_if_fail (GPU_IS_BUFFER (buffer), FALSE);
  g_return_val_if_fail (stream == NULL || GPU_IS_STREAM (stream), FALSE);

  if (memory->storage == NULL)
    return _gpu_memory_check (memory, function, error);

  if (g_atomic_int_get (&memory->state) == GPU_MEMORY_STATE_USABLE)
    return TRUE;

  move = begin_move (memory, GPU_MEMORY_STATE_SPILLED, GPU_MEMORY_STATE_USABLE, function, error);

  if (move != MOVE_BEGUN)
    return move == MOVE_DONE;

  timeline = _gpu_context_get_timeline (memory->context, stream, function, error);
  success = timeline != NULL && _gpu_context_check (memory->context, function, error)
            && check_context (memory, timeline, function, error)
            && _gpu_timeline_check_capture (timeline, function, error)
            && unspill (memory, timeline, function, error);
  end_move (memory, success ? GPU_MEMORY_STATE_USABLE : GPU_MEMORY_STATE_SPILLED);

  if (success)
    notify_spilled (buffer);

  return success;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/command/gpu-staging-private.h"
#include "gpumem/device/gpu-context-private.h"

/**
 * SECTION:gpu-staging
 * @title: Staging
 * @short_description: Fast copies of pageable memory
 *
 * Copies of pageable host memory, such as that of malloc() or of a NumPy array, are slow, and the
 * driver blocks the caller until the copy has completed. Only page-locked memory is copied at the
 * speed of the link. Therefore the library copies large amounts of pageable memory through
 * page-locked memory of its own: several threads copy the next chunks while the device transfers
 * the previous ones.
 *
 * With CUDA and with NVIDIA's driver for OpenCL, staging applies to all operations that read or
 * write host memory, and to gpu_stream_copy() from or to #GpuHostMemory that is not page-locked.
 * Blocking operations of at least 4 MiB are staged, because that is faster. Other operations are
 * staged if the driver would block the caller: reads of at least 64 KiB and writes of at least
 * 2 MiB. Smaller writes are copied to page-locked memory during the call: by the driver, or by the
 * library where CUDA's driver would block. Other drivers do not need staging, nor does memory that
 * the library or the program has page-locked. Copies on profiling or out-of-order streams, and
 * copies that wait for user events, are not staged.
 *
 * Asynchronous operations return at once, except in long sequences of copies: a copy is split into
 * about four chunks, or more of at most 4 MiB each, and drivers block a caller while about 50
 * chunks are pending: twelve copies of 2 MiB, or 200 MiB of large copies. Other threads that use
 * the stream or the memory are then blocked as well. A caller that must never block submits smaller
 * writes, at most 32 MiB of them at a time, or writes from #GpuHostMemory.
 *
 * If the driver fails to report the completion of a chunk, the copy fails like any operation: its
 * events fail, and waits for them return the error.
 *
 * Each context has at most 64 MiB of page-locked memory for staging. It is allocated on first use
 * and freed when memory runs short. If no page-locked memory can be allocated, or no thread can be
 * started, copies are not staged, and the library logs this once.
 *
 * All contexts of the process share the threads that copy to and from page-locked memory, and the
 * threads that read and write files. They exit after some idle time. The environment variable
 * `GPUMEM_COPY_THREADS` sets the initial number of each of the two groups.
 * `GPUMEM_DEBUG=transfer` shows which copies are staged, and which may block their caller.
 *
 * All functions may be called from any thread.
 */

gboolean
_gpu_timeline_check_capture (GpuTimeline  *timeline,
                             const char   *function,
                             GError      **error)
{
  gboolean success = _gpu_native_context_check (timeline->context, error);

  if (success && _gpu_timeline_get_capture (timeline) == 0)
    return TRUE;

  if (success)
    {
      _gpu_timeline_lock (timeline);
      success = _gpu_timeline_check_fence_locked (timeline, error);
      _gpu_timeline_unlock (timeline);
    }

  if (!success)
    g_prefix_error (error, "%s: ", function);

  return success;
}

GpuTransfer *
_gpu_timeline_stage (GpuTimeline           *timeline,
                     GpuMemory             *memory,
                     const GpuTransferCopy *copy,
                     gboolean               blocking)
{
  const GpuStreamFlags flags = GPU_STREAM_FLAGS_OUT_OF_ORDER | GPU_STREAM_FLAGS_PROFILING;
  const GpuMemoryState state = (GpuMemoryState) g_atomic_int_get (&memory->state);
  gboolean plain;

  if (timeline->context->backend->transfer == NULL
      || (memory->has_host_data && !_gpu_debug_has (GPU_DEBUG_STAGE)))
    return NULL;

  /* Do not stage the copy if the context or the memory is unusable: _gpu_submit() then reports the
   * error. In a forked child, not even the locks are usable, so check this before locking. */
  if (!_gpu_native_context_check (timeline->context, NULL)
      || (state != GPU_MEMORY_STATE_USABLE
          && (copy->write || state != GPU_MEMORY_STATE_SPILLING)))
    return NULL;

  /* The threads of a staged copy would wait for work that the driver only records. The driver
   * decides itself whether it captures the copy. */
  if (_gpu_timeline_get_capture (timeline) != 0)
    return NULL;

  /* Work that waits for user events may never execute. */
  _gpu_timeline_lock (timeline);
  plain = (timeline->flags & flags) == 0 && timeline->n_user_waits == 0;
  _gpu_timeline_unlock (timeline);

  if (plain)
    return _gpu_transfer_begin (timeline->context, timeline, copy, blocking);

  _gpu_debug_print (GPU_DEBUG_TRANSFER, "pageable memory is not staged, and the caller may block: "
                    "the stream profiles, is out of order or waits for a user event");

  return NULL;
}

static const GpuRetainType retain_transfer = { (GBoxedCopyFunc) _gpu_transfer_ref,
                                               (GDestroyNotify) _gpu_transfer_retire };

gboolean
_gpu_submit_staged (GpuTimeline    *timeline,
                    GpuSubmission  *submission,
                    GpuTransfer    *transfer,
                    GpuPending     *pending,
                    GError        **error)
{
  /* The timeline retains the transfer until the submission has completed and the timeline has
   * checked whether the staged copy was aborted. */
  const GpuRetain retain = { transfer, &retain_transfer, 1, submission->retain };
  GError *failure = NULL;
  gboolean success;

  submission->retain = &retain;
  success = _gpu_submit (timeline, submission, pending, error);
  submission->retain = retain.next;

  if (_gpu_transfer_end (transfer, success, &failure))
    return success;

  _gpu_pending_wait (pending, timeline, NULL);
  g_propagate_prefixed_error (error, failure, "%s: ", submission->function);

  return FALSE;
}

/**
 * gpu_staging_get_n_threads:
 *
 * Gets the number of threads that copy pageable host memory concurrently. As many threads read and
 * write files, but by default up to 12.
 *
 * Returns: the number, by default the number of processors, but at most 8
 *
 * Since: 0.1
 */
guint
gpu_staging_get_n_threads (void)
{
  return _gpu_transfer_get_n_threads (FALSE);
}

/**
 * gpu_staging_set_n_threads:
 * @n_threads: the number of threads, at most 256; 0 for the initial number
 *
 * Sets the number of threads that copy pageable host memory concurrently, and the number of those
 * that read and write files. The driver itself copies as fast as one such thread. Therefore, with
 * one thread, copies are staged only to avoid blocking the caller. The call does not affect copies
 * in flight.
 *
 * Since: 0.1
 */
void
gpu_staging_set_n_threads (guint n_threads)
{
  _gpu_transfer_set_n_threads (n_threads);
}

/**
 * gpu_context_get_staging_limit:
 * @context: a #GpuContext
 *
 * Gets the limit of page-locked memory for staging.
 *
 * Returns: the limit in bytes, by default 64 MiB
 *
 * Since: 0.1
 */
gsize
gpu_context_get_staging_limit (GpuContext *context)
{
  GpuNativeContext *native;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), 0);

  native = _gpu_context_get_native (context);

  return native != NULL ? _gpu_transfer_get_limit (native) : 0;
}

/**
 * gpu_context_set_staging_limit:
 * @context: a #GpuContext
 * @limit: the limit in bytes; less than 4 MiB disables staging
 *
 * Sets the limit of page-locked memory for staging. Unused memory in excess of the limit is freed
 * at once, which may block until the device is idle. A thread of the library frees the rest of the
 * excess as soon as no copy uses it.
 *
 * If all memory is in use, a copy between a file and memory allocates 4 MiB beyond the limit, so
 * that its caller does not block. All pending copies of one stream share this memory.
 *
 * The limit does not apply to the blocks of mappings and of smaller writes behind pending work.
 *
 * Since: 0.1
 */
void
gpu_context_set_staging_limit (GpuContext *context,
                               gsize       limit)
{
  GpuNativeContext *native;

  g_return_if_fail (GPU_IS_CONTEXT (context));

  native = _gpu_context_get_native (context);

  if (native != NULL)
    _gpu_transfer_set_limit (native, limit);
}

/**
 * gpu_context_get_staging_size:
 * @context: a #GpuContext
 *
 * Gets the amount of page-locked memory allocated for staging. This memory is not included in
 * gpu_context_get_allocated_size().
 *
 * Returns: the size in bytes
 *
 * Since: 0.1
 */
gsize
gpu_context_get_staging_size (GpuContext *context)
{
  GpuNativeContext *native;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), 0);

  native = _gpu_context_get_native (context);

  return native != NULL ? _gpu_transfer_get_size (native) : 0;
}

/**
 * gpu_context_trim_staging:
 * @context: a #GpuContext
 *
 * Frees the page-locked memory that is allocated for staging but not in use. Later copies allocate
 * such memory again, which takes some milliseconds. May block until the device is idle. The library
 * also frees this memory before it emits #GpuContext::memory-pressure.
 *
 * Since: 0.1
 */
void
gpu_context_trim_staging (GpuContext *context)
{
  GpuNativeContext *native;

  g_return_if_fail (GPU_IS_CONTEXT (context));

  native = _gpu_context_get_native (context);

  if (native != NULL)
    _gpu_transfer_trim (native, 0);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/command/gpu-staging-private.h"
#include "gpumem/device/gpu-context-private.h"

/**
 * SECTION:gpu-staging
 * @title: Staging
 * @short_description: fast copies of ordinary memory
 *
 * A device copies ordinary memory of the host, such as that of malloc() or of a NumPy array, slowly
 * and makes the caller wait for it; only page-locked memory moves at the speed of the link. So the
 * library copies large pieces of ordinary memory by way of page-locked memory of its own, with
 * several threads, while the device moves what they have copied before.
 *
 * All verbs that read or write memory of the host, and gpu_stream_copy() from or to #GpuHostMemory
 * that is not page-locked, do so where the driver is one for CUDA or NVIDIA's for OpenCL: those
 * that block for 2 MiB and more from the device and 8 MiB and more to it, where that is faster; the
 * others for 64 KiB and more from the device and 2 MiB and more to it, where the driver would make
 * them block, too. Elsewhere, and for memory that is page-locked already, whoever locked it,
 * nothing is copied twice. Copies on streams that profile or that are out of order, and such as
 * wait for events of the user, go straight.
 *
 * Verbs that do not block return at once, but for long rows of copies: a copy is cut into chunks of
 * at most 4 MiB, and drivers make a caller wait who has some 50 of them, or 200 MiB, behind one
 * that is not copied yet. The stream and the memory are locked for others as long as that takes.
 * Who must never wait writes less at a time, or from #GpuHostMemory.
 *
 * A copy that cannot be brought to its end, because the driver failed to tell when a chunk was
 * there, fails like any operation: its events do, and those who wait for them get the reason.
 *
 * Each context has at most 64 MiB of page-locked memory for that, allocated when it is first
 * needed and given back when memory runs short. If there is none, or no thread can be started,
 * copies go on without, as the driver does them, and the library says so once.
 *
 * The threads are shared by all contexts of the process, sleep while there is nothing to copy, and
 * end after a while of that. The environment variable `GPUMEM_COPY_THREADS` says how many there are
 * to begin with, `GPUMEM_DEBUG=transfer` which copies are staged, and which may make their caller
 * wait.
 *
 * All functions may be called from any thread.
 */

GpuTransfer *
_gpu_timeline_stage (GpuTimeline           *timeline,
                     GpuMemory             *memory,
                     const GpuTransferCopy *copy,
                     gboolean               blocking)
{
  const GpuStreamFlags flags = GPU_STREAM_FLAGS_OUT_OF_ORDER | GPU_STREAM_FLAGS_PROFILING;
  gboolean plain;

  if (timeline->context->backend->transfer == NULL
      || (memory->has_host_data && !_gpu_debug_has (GPU_DEBUG_STAGE)))
    return NULL;

  /* _gpu_submit() reports the error. In a forked child even the locks cannot be trusted. */
  if (!_gpu_native_context_check (timeline->context, NULL)
      || g_atomic_int_get (&memory->state) != GPU_MEMORY_STATE_USABLE)
    return NULL;

  /* Work that waits for events of the user may never run. */
  _gpu_timeline_lock (timeline);
  plain = (timeline->flags & flags) == 0 && timeline->n_user_waits == 0;
  _gpu_timeline_unlock (timeline);

  if (plain)
    return _gpu_transfer_begin (timeline->context, timeline, copy, blocking);

  _gpu_debug_print (GPU_DEBUG_TRANSFER, "ordinary memory goes straight, and may make the caller "
                    "wait: the stream profiles, is out of order or waits for an event of the user");

  return NULL;
}

static const GpuRetainType retain_transfer = { (GBoxedCopyFunc) _gpu_transfer_ref,
                                               (GDestroyNotify) _gpu_transfer_unref };

gboolean
_gpu_submit_staged (GpuTimeline    *timeline,
                    GpuSubmission  *submission,
                    GpuTransfer    *transfer,
                    GpuPending     *pending,
                    GError        **error)
{
  /* The timeline asks it how it ended. */
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
 * Gets how many threads copy ordinary memory of the host at a time.
 *
 * Returns: the number, one for each processor but at most 8 unless it was set
 *
 * Since: 0.1
 */
guint
gpu_staging_get_n_threads (void)
{
  return _gpu_transfer_get_n_threads ();
}

/**
 * gpu_staging_set_n_threads:
 * @n_threads: how many, at most 256; 0 for as many as at the beginning
 *
 * Sets how many threads copy ordinary memory of the host at a time. With one thread only what would
 * block else is staged: a driver copies as fast. Copies that have begun keep theirs.
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
 * Gets how much page-locked memory copies of ordinary memory may take.
 *
 * Returns: the limit in bytes, 64 MiB unless it was set
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
 * @limit: bytes; less than 4 MiB for no staging at all
 *
 * Sets how much page-locked memory copies of ordinary memory may take. What is over the limit and
 * idle is given back at once, for which the driver may wait for the device; a thread of the library
 * gives back the rest as soon as no copy uses it.
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
 * Gets how much page-locked memory there is for copies of ordinary memory. It does not count for
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
 * Gives back the page-locked memory that copies of ordinary memory do not use at the moment. The
 * next ones allocate it again, which takes some milliseconds; the driver may wait for the device.
 * Before #GpuContext::memory-pressure is emitted this has happened by itself.
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

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Operations on shared virtual memory: map, prefetch, advise and attach. */
#include "config.h"

#include "gpumem/base/gpu-error-private.h"
#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-memory-task-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/device/gpu-device-private.h"

/**
 * gpu_svm_map:
 * @svm: a #GpuSvm
 * @stream: (nullable): the stream to map on, %NULL for the default stream
 * @flags: the intended access of the host
 * @offset: offset of the range in @svm, in bytes
 * @size: size of the range in bytes, not 0
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Maps a range of @svm and waits until the host may access it, see gpu_stream_map() (OpenCL:
 * clEnqueueMapBuffer; CUDA: a wait for the work that uses the memory, and cuStreamAttachMemAsync if
 * the host and the device cannot access the memory at the same time). The host and kernels use the
 * same address. Cancellation unmaps the range.
 *
 * Returns: (transfer full): the mapping, or %NULL with the errors of gpu_stream_map(), the error of
 *   earlier work on the stream, or %G_IO_ERROR_CANCELLED
 *
 * Since: 0.1
 */
GpuMapping *
gpu_svm_map (GpuSvm        *svm,
             GpuStream     *stream,
             GpuMapFlags    flags,
             gsize          offset,
             gsize          size,
             GCancellable  *cancellable,
             GError       **error)
{
  const char *function = "gpu_svm_map";
  g_auto (GpuHostWait) wait = { NULL };
  g_autoptr (GpuMapping) mapping = NULL;

  g_return_val_if_fail (GPU_IS_SVM (svm), NULL);

  if (!_gpu_memory_begin_wait ((GpuMemory *) svm, stream, function, cancellable, &wait, error))
    return NULL;

  mapping = _gpu_timeline_map (wait.timeline, function, GPU_MEMORY (svm), flags, offset, size,
                               error);

  if (mapping == NULL || !_gpu_memory_wait_for_work (&wait, function, cancellable, error))
    return NULL;

  return g_steal_pointer (&mapping);
}

/**
 * gpu_svm_map_async:
 * @svm: a #GpuSvm
 * @stream: (nullable): the stream to map on, %NULL for the default stream
 * @flags: the intended access of the host
 * @offset: offset of the range in @svm, in bytes
 * @size: size of the range in bytes, not 0
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @callback: (scope async) (nullable): called when the host may access the range
 * @user_data: data for @callback
 *
 * Maps like gpu_svm_map() without blocking. @callback is called in the thread-default main context
 * of the calling thread.
 *
 * Since: 0.1
 */
void
gpu_svm_map_async (GpuSvm              *svm,
                   GpuStream           *stream,
                   GpuMapFlags          flags,
                   gsize                offset,
                   gsize                size,
                   GCancellable        *cancellable,
                   GAsyncReadyCallback  callback,
                   gpointer             user_data)
{
  const char *function = "gpu_svm_map_async";
  g_auto (GpuHostWait) wait = { NULL };
  g_autoptr (GTask) task = NULL;
  GpuMapping *mapping = NULL;
  GError *error = NULL;

  g_return_if_fail (GPU_IS_SVM (svm));

  task = _gpu_memory_begin_task ((GpuMemory *) svm, stream, function, gpu_svm_map_async,
                                 cancellable, callback, user_data, &wait, &error);

  if (wait.timeline != NULL)
    mapping = _gpu_timeline_map (wait.timeline, function, GPU_MEMORY (svm), flags, offset, size,
                                 &error);

  _gpu_memory_end_task (task, &wait, mapping, g_object_unref, error);
}

/**
 * gpu_svm_map_finish:
 * @svm: a #GpuSvm
 * @result: the #GAsyncResult passed to the callback
 * @error: return location for an error
 *
 * Finishes gpu_svm_map_async().
 *
 * Returns: (transfer full): like gpu_svm_map()
 *
 * Since: 0.1
 */
GpuMapping *
gpu_svm_map_finish (GpuSvm        *svm,
                    GAsyncResult  *result,
                    GError       **error)
{
  g_return_val_if_fail (g_task_is_valid (result, svm), NULL);

  return _gpu_error_propagate_pointer (result, "gpu_svm_map_async", error);
}

typedef struct
{
  GpuMemory        *memory;
  GpuMigrateFlags   flags;
  GpuSvmAttachment  attachment;
  gsize             offset;
  gsize             size;
} SvmOperation;

static gboolean
run_prefetch (gconstpointer     operation,
              GpuNativeStream  *stream,
              GpuNativeEvent  **event,
              GError          **error)
{
  const SvmOperation *prefetch = operation;

  return stream->backend->svm->prefetch (stream, prefetch->memory->storage->buffer,
                                         prefetch->flags, prefetch->offset, prefetch->size, event,
                                         error);
}

/* Caller holds the locks, which guard `attachment`: later uses of exclusive memory read this
 * field. */
static gboolean
run_attach (gconstpointer     operation,
            GpuNativeStream  *stream,
            GpuNativeEvent  **event,
            GError          **error)
{
  const SvmOperation *attach = operation;
  GpuStorage *storage = attach->memory->storage;

  if (!stream->backend->svm->attach (stream, storage->buffer, attach->attachment, event, error))
    return FALSE;

  if (attach->attachment != GPU_SVM_ATTACHMENT_HOST)
    storage->root->attachment = attach->attachment;

  return TRUE;
}

static gboolean
submit (SvmOperation      *operation,
        GpuStream         *stream,
        const char        *function,
        gboolean           write,
        GpuOperationFunc   run,
        GError           **error)
{
  GpuAccess access = { operation->memory, write, operation->offset, operation->size };
  const GpuSubmission submission = { .function = function, .accesses = &access, .n_accesses = 1,
                                     .reads = (operation->flags
                                               & GPU_MIGRATE_FLAGS_CONTENT_UNDEFINED) == 0,
                                     .run = run, .operation = operation };
  GpuTimeline *timeline = _gpu_memory_peek_timeline (operation->memory, stream, function, NULL,
                                                     error);

  return timeline != NULL && _gpu_submit (timeline, &submission, NULL, error);
}

static const GpuSvmOps *
get_ops (GpuMemory *memory)
{
  return memory->storage->context->backend->svm;
}

/**
 * gpu_svm_prefetch:
 * @svm: a #GpuSvm
 * @stream: (nullable): the stream to submit to, %NULL for the default stream
 * @flags: the destination: the host with %GPU_MIGRATE_FLAGS_HOST, otherwise the device of @stream
 * @offset: offset of the range in @svm, in bytes
 * @size: size of the range in bytes; 0 does nothing
 * @error: return location for an error
 *
 * Moves a range of @svm to the host or to a device before its next use there (OpenCL:
 * clEnqueueSVMMigrateMem, or clEnqueueMigrateMemObjects for the whole memory before OpenCL 2.1;
 * CUDA: cuMemPrefetchAsync; if the host and the device cannot access the memory at the same time,
 * cuStreamAttachMemAsync, which attaches the memory to the host or to the stream). If the memory
 * cannot move, the call does nothing. The operation counts as a read of the range, or as a write
 * with %GPU_MIGRATE_FLAGS_CONTENT_UNDEFINED. gpu_stream_migrate() moves whole memory objects,
 * including buffers. Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if the range exceeds the memory or for
 *   unknown flags, %GPU_ERROR_RELEASED, %GPU_ERROR_BUSY if the range is mapped for writing, the
 *   error of the last write of the memory if that write failed and @flags keep the contents, or the
 *   driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_svm_prefetch (GpuSvm           *svm,
                  GpuStream        *stream,
                  GpuMigrateFlags   flags,
                  gsize             offset,
                  gsize             size,
                  GError          **error)
{
  const char *function = "gpu_svm_prefetch";
  SvmOperation prefetch = { .memory = (GpuMemory *) svm, .flags = flags, .offset = offset,
                            .size = size };

  g_return_val_if_fail (GPU_IS_SVM (svm), FALSE);
  g_return_val_if_fail (stream == NULL || GPU_IS_STREAM (stream), FALSE);

  /* Check here, because _gpu_submit() is not called if the back end has no prefetch op. */
  if (!_gpu_memory_check (prefetch.memory, function, error)
      || !_gpu_memory_check_range (prefetch.memory, function, "memory", offset, size, error))
    return FALSE;

  if ((flags & ~(GPU_MIGRATE_FLAGS_HOST | GPU_MIGRATE_FLAGS_CONTENT_UNDEFINED)) != 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: unknown flags 0x%x",
                   function, flags);
      return FALSE;
    }

  return size == 0 || get_ops (prefetch.memory)->prefetch == NULL
         || submit (&prefetch, stream, function,
                    (flags & GPU_MIGRATE_FLAGS_CONTENT_UNDEFINED) != 0, run_prefetch, error);
}

/* Returns FALSE if @device is of another back end than the memory. */
static gboolean
check_device (GpuMemory        *memory,
              const char       *function,
              GpuNativeDevice  *device,
              GError          **error)
{
  if (device == NULL || device->backend == memory->storage->context->backend)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the memory belongs to the back end %s, not to that of device %s", function,
               memory->storage->context->backend->name, device->id);

  return FALSE;
}

/**
 * gpu_svm_advise:
 * @svm: a #GpuSvm
 * @advice: the expected use of the range
 * @offset: offset of the range in @svm, in bytes
 * @size: size of the range in bytes; 0 does nothing
 * @device: (nullable): a device of the same back end, %NULL for the host; ignored for
 *   %GPU_MEMORY_ADVICE_READ_MOSTLY and for advice that withdraws other advice, except
 *   %GPU_MEMORY_ADVICE_UNSET_ACCESSED_BY
 * @error: return location for an error
 *
 * Advises the driver about the expected use of memory that migrates between host and devices (CUDA:
 * cuMemAdvise). The advice applies immediately, to all pages that the range touches, without
 * waiting for any stream. Advice never changes results. It has no effect on OpenCL, on the host
 * back end, and on devices that cannot access the memory at the same time as the host. May block
 * for as long as the driver takes.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if the range exceeds the memory, for
 *   unknown advice, or if @device is of another back end, %GPU_ERROR_RELEASED, or the driver's
 *   error
 *
 * Since: 0.1
 */
gboolean
gpu_svm_advise (GpuSvm           *svm,
                GpuMemoryAdvice   advice,
                gsize             offset,
                gsize             size,
                GpuDevice        *device,
                GError          **error)
{
  const char *function = "gpu_svm_advise";
  GpuMemory *memory = (GpuMemory *) svm;
  GpuNativeDevice *native = NULL;
  GpuStorage *storage;
  gboolean success;

  g_return_val_if_fail (GPU_IS_SVM (svm), FALSE);
  g_return_val_if_fail (device == NULL || GPU_IS_DEVICE (device), FALSE);

  if (device != NULL)
    native = _gpu_device_get_native (device);

  if (!_gpu_memory_check (memory, function, error)
      || !_gpu_memory_check_range (memory, function, "memory", offset, size, error)
      || !check_device (memory, function, native, error))
    return FALSE;

  if ((guint) advice > GPU_MEMORY_ADVICE_UNSET_ACCESSED_BY)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: unknown advice %d",
                   function, (int) advice);
      return FALSE;
    }

  if (size == 0 || get_ops (memory)->advise == NULL)
    return TRUE;

  storage = _gpu_memory_acquire (memory, function, error);

  if (storage == NULL)
    return FALSE;

  success = get_ops (memory)->advise (storage->context, storage->buffer, advice, offset, size,
                                      native, error);
  _gpu_storage_unuse (storage);

  if (!success)
    g_prefix_error (error, "%s: ", function);

  return success;
}

static gboolean
is_cut (const GpuStorage *storage)
{
  return storage->suballocation != NULL && storage->suballocation->whole != storage->buffer;
}

/**
 * gpu_svm_attach:
 * @svm: a #GpuSvm
 * @stream: (nullable): the stream to submit to, %NULL for the default stream
 * @attachment: the user of the memory once earlier work on @stream has completed: @stream, all
 *   streams, or only the host
 * @error: return location for an error
 *
 * Declares to the driver the only user of the memory (CUDA: cuStreamAttachMemAsync; no operation
 * elsewhere). The operation counts as a write of the memory. Does not block.
 *
 * Operations of the library do not need this call: if the host and the device cannot access the
 * memory at the same time, the library attaches the memory before each use. This call also
 * determines how the library attaches the memory from now on. With %GPU_SVM_ATTACHMENT_STREAM, the
 * initial value, the library attaches the memory to the stream of the next use. With
 * %GPU_SVM_ATTACHMENT_GLOBAL, the library attaches the memory to all streams, for memory that other
 * libraries use on their own streams. On a default stream of CUDA, which cannot own memory,
 * %GPU_SVM_ATTACHMENT_STREAM attaches to all streams.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT for an unknown attachment,
 *   %GPU_ERROR_RELEASED, %GPU_ERROR_BUSY if the memory is mapped, on CUDA %GPU_ERROR_NOT_SUPPORTED
 *   for a part of a segment of a pool, because the driver can only attach a whole segment, or the
 *   driver's error
 *
 * Since: 0.1
 */
gboolean
gpu_svm_attach (GpuSvm            *svm,
                GpuStream         *stream,
                GpuSvmAttachment   attachment,
                GError           **error)
{
  const char *function = "gpu_svm_attach";
  SvmOperation attach = { .memory = (GpuMemory *) svm, .attachment = attachment };

  g_return_val_if_fail (GPU_IS_SVM (svm), FALSE);
  g_return_val_if_fail (stream == NULL || GPU_IS_STREAM (stream), FALSE);

  if (!_gpu_memory_check (attach.memory, function, error))
    return FALSE;

  if ((guint) attachment > GPU_SVM_ATTACHMENT_HOST)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: unknown attachment %d",
                   function, (int) attachment);
      return FALSE;
    }

  attach.size = attach.memory->size;

  if (get_ops (attach.memory)->attach != NULL && is_cut (attach.memory->storage))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "%s: cannot attach a part of a pool segment, which other memory shares",
                   function);
      return FALSE;
    }

  return get_ops (attach.memory)->attach == NULL
         || submit (&attach, stream, function, TRUE, run_attach, error);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Commands on shared virtual memory: mapping, prefetching and attaching. */
#include "config.h"

#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-memory-task-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/device/gpu-device-private.h"

/**
 * gpu_svm_map:
 * @svm: a #GpuSvm
 * @stream: (nullable): the stream to map on, %NULL for the default stream
 * @flags: what the host does with the mapping
 * @offset: where the range begins, in bytes
 * @size: size of the range in bytes, not 0
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Maps a range of @svm and waits until it may be touched, see gpu_stream_map() (OpenCL:
 * clEnqueueMapBuffer; CUDA: the work that uses it is waited for, and where host and device take
 * turns cuStreamAttachMemAsync). The mapping is at the address that kernels see. When cancelled it
 * is unmapped again.
 *
 * Returns: (transfer full): the mapping, or %NULL with an error as of gpu_stream_map(), of the
 *   work before it on the stream, or %G_IO_ERROR_CANCELLED
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
  g_autoptr (GpuTimeline) timeline = NULL;
  g_autoptr (GpuMapping) mapping = NULL;

  g_return_val_if_fail (GPU_IS_SVM (svm), NULL);

  timeline = _gpu_memory_get_timeline ((GpuMemory *) svm, stream, function, cancellable, error);

  if (timeline == NULL)
    return NULL;

  mapping = _gpu_timeline_map (timeline, function, GPU_MEMORY (svm), flags, offset, size, error);

  if (mapping == NULL || !_gpu_memory_wait_for_all (timeline, function, cancellable, error))
    return NULL;

  return g_steal_pointer (&mapping);
}

/**
 * gpu_svm_map_async:
 * @svm: a #GpuSvm
 * @stream: (nullable): the stream to map on, %NULL for the default stream
 * @flags: what the host does with the mapping
 * @offset: where the range begins, in bytes
 * @size: size of the range in bytes, not 0
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @callback: (scope async) (nullable): called when the range may be touched
 * @user_data: for @callback
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
  g_autoptr (GpuTimeline) timeline = NULL;
  g_autoptr (GTask) task = NULL;
  GpuMapping *mapping = NULL;
  GError *error = NULL;

  g_return_if_fail (GPU_IS_SVM (svm));

  task = _gpu_memory_begin_task ((GpuMemory *) svm, stream, function, gpu_svm_map_async,
                                 cancellable, callback, user_data, &timeline, &error);

  if (timeline != NULL)
    mapping = _gpu_timeline_map (timeline, function, GPU_MEMORY (svm), flags, offset, size,
                                 &error);

  _gpu_memory_end_task (task, timeline, mapping, g_object_unref, error);
}

/**
 * gpu_svm_map_finish:
 * @svm: a #GpuSvm
 * @result: what the callback was given
 * @error: return location for an error
 *
 * Ends gpu_svm_map_async().
 *
 * Returns: (transfer full): as gpu_svm_map()
 *
 * Since: 0.1
 */
GpuMapping *
gpu_svm_map_finish (GpuSvm        *svm,
                    GAsyncResult  *result,
                    GError       **error)
{
  g_return_val_if_fail (g_task_is_valid (result, svm), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
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

/* What automatic uses attach exclusive memory to from then on changes with the locks held. */
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
                                     .run = run, .operation = operation };
  g_autoptr (GpuTimeline) timeline = _gpu_memory_get_timeline (operation->memory, stream, function,
                                                               NULL, error);

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
 * @stream: (nullable): the stream to do it on, %NULL for the default stream
 * @flags: where to: without %GPU_MIGRATE_FLAGS_HOST to the device of @stream
 * @offset: where the range begins, in bytes
 * @size: size of the range in bytes; 0 does nothing
 * @error: return location for an error
 *
 * Moves a range of @svm to where it will be used next, ahead of that (OpenCL:
 * clEnqueueSVMMigrateMem, or clEnqueueMigrateMemObjects for all of it before OpenCL 2.1; CUDA:
 * cuMemPrefetchAsync; where host and device take turns the memory goes to the stream, or to the
 * host, with cuStreamAttachMemAsync). It counts as reading the range. Does not block. Where memory
 * does not move, nothing happens. For whole memories, also ordinary buffers, there is
 * gpu_stream_migrate().
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if the range reaches past the end or a
 *   flag does not exist, %GPU_ERROR_RELEASED, %GPU_ERROR_BUSY if the range is mapped for writing,
 *   or the driver's error
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

  /* Without an op of the driver nothing is submitted, so the check is here. */
  if (!_gpu_memory_check (prefetch.memory, function, error)
      || !_gpu_memory_check_range (prefetch.memory, function, "memory", offset, size, error))
    return FALSE;

  if ((flags & ~(GPU_MIGRATE_FLAGS_HOST | GPU_MIGRATE_FLAGS_CONTENT_UNDEFINED)) != 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: there are no flags 0x%x",
                   function, flags);
      return FALSE;
    }

  return size == 0 || get_ops (prefetch.memory)->prefetch == NULL
         || submit (&prefetch, stream, function,
                    (flags & GPU_MIGRATE_FLAGS_CONTENT_UNDEFINED) != 0, run_prefetch, error);
}

/* FALSE for a device that cannot be where the memory goes. */
static gboolean
check_device (GpuMemory        *memory,
              const char       *function,
              GpuNativeDevice  *device,
              GError          **error)
{
  if (device == NULL || device->backend == memory->storage->context->backend)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the memory is of the back end %s, and the device is %s", function,
               memory->storage->context->backend->name, device->id);

  return FALSE;
}

/**
 * gpu_svm_advise:
 * @svm: a #GpuSvm
 * @advice: how the range will be used
 * @offset: where the range begins, in bytes
 * @size: size of the range in bytes; 0 does nothing
 * @device: (nullable): a device of the same back end, %NULL for the host;
 *   %GPU_MEMORY_ADVICE_READ_MOSTLY and the advice that takes something back but
 *   %GPU_MEMORY_ADVICE_UNSET_ACCESSED_BY do not look at it
 * @error: return location for an error
 *
 * Advises the driver how memory that moves between host and devices will be used (CUDA:
 * cuMemAdvise). It holds at once, for the pages that the range touches, and waits for no stream.
 * Advice changes no result: drivers that take none, as those of OpenCL, devices that share memory
 * by turns, and the host back end pass over it. May block for as long as the driver takes.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if the range reaches past the end,
 *   there is no such advice, or @device is of another back end, %GPU_ERROR_RELEASED, or the
 *   driver's error
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
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: there is no advice %d",
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
 * @stream: (nullable): the stream to do it on, %NULL for the default stream
 * @attachment: who uses the memory once the work that is on @stream is complete: @stream, all
 *   streams, or the host alone
 * @error: return location for an error
 *
 * Tells the driver who uses the memory (CUDA: cuStreamAttachMemAsync; nothing elsewhere). It counts
 * as a write of the memory. Does not block.
 *
 * What the library does with the memory needs no such help: where host and streams take turns it
 * attaches the memory by itself. What was chosen here is what it attaches to from then on:
 * %GPU_SVM_ATTACHMENT_STREAM, as from the beginning, to the stream of the next use, or
 * %GPU_SVM_ATTACHMENT_GLOBAL to all, for streams that others know the memory on. To a default
 * stream of CUDA, which cannot have memory of its own, means to all.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if there is no such attachment,
 *   %GPU_ERROR_RELEASED, %GPU_ERROR_BUSY if the memory is mapped, on CUDA %GPU_ERROR_NOT_SUPPORTED
 *   for a part of a segment of a pool, which the driver attaches as a whole, or the driver's error
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
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: there is no attachment %d",
                   function, (int) attachment);
      return FALSE;
    }

  attach.size = attach.memory->size;

  if (get_ops (attach.memory)->attach != NULL && is_cut (attach.memory->storage))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "%s: the memory is a part of a segment of a pool, which has many users",
                   function);
      return FALSE;
    }

  return get_ops (attach.memory)->attach == NULL
         || submit (&attach, stream, function, TRUE, run_attach, error);
}

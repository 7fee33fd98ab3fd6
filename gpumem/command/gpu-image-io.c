/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The blocking methods of images, and their asynchronous variants. */
#include "config.h"

#include "gpumem/base/gpu-error-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/command/gpu-memory-task-private.h"
#include "gpumem/memory/gpu-image-private.h"

/* Describes memory of the caller, whose size is unknown. */
static GpuHostBytes
get_unbounded (gconstpointer    data,
               const GpuLayout *layout)
{
  return (GpuHostBytes) { (gpointer) data, G_MAXSIZE, layout, NULL };
}

/**
 * gpu_image_read: (skip)
 * @image: a #GpuImage
 * @stream: (nullable): the stream to read on, %NULL for the default stream
 * @layout: (nullable): origin of the region in @image, in texels; %NULL for the first texel
 * @extent: (nullable): size of the region in texels; %NULL for the rest of @image
 * @data: the memory to read into
 * @row_pitch: distance between rows of @data in bytes, 0 for tightly packed rows
 * @slice_pitch: distance between slices of @data in bytes, 0 for tightly packed slices
 * @cancellable: (nullable): a #GCancellable, or %NULL; checked before the read begins
 * @error: return location for an error
 *
 * Reads a region of @image into memory of the caller and waits until the operation completes
 * (OpenCL: clEnqueueReadImage; CUDA: cuMemcpy2DAsync, cuMemcpy3DAsync). The padding between rows is
 * not changed. When the call returns, even with an error, @data is no longer in use.
 *
 * Returns: %TRUE, or %FALSE with the errors of gpu_stream_read_region(), or the error of earlier
 *   work on the stream
 *
 * Since: 0.1
 */
gboolean
gpu_image_read (GpuImage         *image,
                GpuStream        *stream,
                const GpuLayout  *layout,
                const GpuExtent  *extent,
                gpointer          data,
                gsize             row_pitch,
                gsize             slice_pitch,
                GCancellable     *cancellable,
                GError          **error)
{
  const char *function = "gpu_image_read";
  const GpuLayout pitches = { 0, 0, 0, row_pitch, slice_pitch };
  const GpuHostBytes host = get_unbounded (data, &pitches);
  GpuPending pending = { NULL, 0 };
  GpuTimeline *timeline;
  GpuExtent rest;

  g_return_val_if_fail (GPU_IS_IMAGE (image), FALSE);
  g_return_val_if_fail (data != NULL, FALSE);

  timeline = _gpu_memory_peek_timeline ((GpuMemory *) image, stream, function, cancellable, error);
  rest = _gpu_image_get_rest (image, layout, extent);

  return timeline != NULL
         && _gpu_timeline_read_region (timeline, function, (GpuMemory *) image, layout, &host,
                                       &rest, &pending, error)
         && _gpu_memory_wait_for_operation (timeline, &pending, function, error);
}

/**
 * gpu_image_write: (skip)
 * @image: a #GpuImage
 * @stream: (nullable): the stream to write on, %NULL for the default stream
 * @layout: (nullable): origin of the region in @image, in texels; %NULL for the first texel
 * @extent: (nullable): size of the region in texels; %NULL for the rest of @image
 * @data: the data to write
 * @row_pitch: distance between rows of @data in bytes, 0 for tightly packed rows
 * @slice_pitch: distance between slices of @data in bytes, 0 for tightly packed slices
 * @cancellable: (nullable): a #GCancellable, or %NULL; checked before the write begins
 * @error: return location for an error
 *
 * Writes memory of the caller to a region of @image and waits until the operation completes
 * (OpenCL: clEnqueueWriteImage; CUDA: cuMemcpy2DAsync, cuMemcpy3DAsync). When the call returns,
 * even with an error, @data is no longer in use.
 *
 * Returns: %TRUE, or %FALSE with the errors of gpu_stream_write_region(), or the error of earlier
 *   work on the stream
 *
 * Since: 0.1
 */
gboolean
gpu_image_write (GpuImage         *image,
                 GpuStream        *stream,
                 const GpuLayout  *layout,
                 const GpuExtent  *extent,
                 gconstpointer     data,
                 gsize             row_pitch,
                 gsize             slice_pitch,
                 GCancellable     *cancellable,
                 GError          **error)
{
  const char *function = "gpu_image_write";
  const GpuLayout pitches = { 0, 0, 0, row_pitch, slice_pitch };
  const GpuHostBytes host = get_unbounded (data, &pitches);
  GpuPending pending = { NULL, 0 };
  GpuTimeline *timeline;
  GpuExtent rest;

  g_return_val_if_fail (GPU_IS_IMAGE (image), FALSE);
  g_return_val_if_fail (data != NULL, FALSE);

  timeline = _gpu_memory_peek_timeline ((GpuMemory *) image, stream, function, cancellable, error);
  rest = _gpu_image_get_rest (image, layout, extent);

  return timeline != NULL
         && _gpu_timeline_write_region (timeline, function, (GpuMemory *) image, layout, &host,
                                        &rest, &pending, error)
         && _gpu_memory_wait_for_operation (timeline, &pending, function, error);
}

/* Allocates bytes for the region and submits a read into them. Returns NULL on error. */
static GBytes *
submit_read (GpuTimeline      *timeline,
             const char       *function,
             GpuImage         *image,
             const GpuLayout  *layout,
             const GpuExtent  *extent,
             GError          **error)
{
  GpuMemory *memory = GPU_MEMORY (image);
  GpuExtent rest = _gpu_image_get_rest (image, layout, extent);
  g_autoptr (GBytes) bytes = NULL;
  GpuHostBytes host;

  if (!_gpu_region_check (memory, layout, &rest, function, "source", error))
    return NULL;

  bytes = _gpu_region_bytes_new (memory, &rest, function, &host, error);

  if (bytes == NULL || !_gpu_timeline_read_region (timeline, function, memory, layout, &host,
                                                   &rest, NULL, error))
    return NULL;

  return g_steal_pointer (&bytes);
}

/**
 * gpu_image_read_bytes:
 * @image: a #GpuImage
 * @stream: (nullable): the stream to read on, %NULL for the default stream
 * @layout: (nullable): origin of the region in @image, in texels; %NULL for the first texel
 * @extent: (nullable): size of the region in texels; %NULL for the rest of @image
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Reads a region of @image into new host memory with tightly packed rows and waits until the
 * operation completes (OpenCL: clEnqueueReadImage; CUDA: cuMemcpy2DAsync, cuMemcpy3DAsync).
 * Cancellation ends the wait, but the read continues.
 *
 * Returns: (transfer full): the bytes, or %NULL with the errors of gpu_stream_read_region(), the
 *   error of earlier work on the stream, or %G_IO_ERROR_CANCELLED
 *
 * Since: 0.1
 */
GBytes *
gpu_image_read_bytes (GpuImage         *image,
                      GpuStream        *stream,
                      const GpuLayout  *layout,
                      const GpuExtent  *extent,
                      GCancellable     *cancellable,
                      GError          **error)
{
  const char *function = "gpu_image_read_bytes";
  g_auto (GpuHostWait) wait = { NULL };
  g_autoptr (GBytes) bytes = NULL;

  g_return_val_if_fail (GPU_IS_IMAGE (image), NULL);

  if (!_gpu_memory_begin_wait ((GpuMemory *) image, stream, function, cancellable, &wait, error))
    return NULL;

  bytes = submit_read (wait.timeline, function, image, layout, extent, error);

  if (bytes == NULL || !_gpu_memory_wait_for_work (&wait, function, cancellable, error))
    return NULL;

  return g_steal_pointer (&bytes);
}

/**
 * gpu_image_read_bytes_async:
 * @image: a #GpuImage
 * @stream: (nullable): the stream to read on, %NULL for the default stream
 * @layout: (nullable): origin of the region in @image, in texels; %NULL for the first texel
 * @extent: (nullable): size of the region in texels; %NULL for the rest of @image
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @callback: (scope async) (nullable): called when the bytes are available
 * @user_data: data for @callback
 *
 * Reads like gpu_image_read_bytes(), but does not wait until the operation completes. May block
 * under the same conditions as gpu_stream_read(). @callback is called in the thread-default main
 * context of the calling thread.
 *
 * Since: 0.1
 */
void
gpu_image_read_bytes_async (GpuImage             *image,
                            GpuStream            *stream,
                            const GpuLayout      *layout,
                            const GpuExtent      *extent,
                            GCancellable         *cancellable,
                            GAsyncReadyCallback   callback,
                            gpointer              user_data)
{
  const char *function = "gpu_image_read_bytes_async";
  g_auto (GpuHostWait) wait = { NULL };
  g_autoptr (GTask) task = NULL;
  GBytes *bytes = NULL;
  GError *error = NULL;

  g_return_if_fail (GPU_IS_IMAGE (image));

  task = _gpu_memory_begin_task ((GpuMemory *) image, stream, function, gpu_image_read_bytes_async,
                                 cancellable, callback, user_data, &wait, &error);

  if (wait.timeline != NULL)
    bytes = submit_read (wait.timeline, function, image, layout, extent, &error);

  _gpu_memory_end_task (task, &wait, bytes, (GDestroyNotify) g_bytes_unref, error);
}

/**
 * gpu_image_read_bytes_finish:
 * @image: a #GpuImage
 * @result: the #GAsyncResult passed to the callback
 * @error: return location for an error
 *
 * Finishes gpu_image_read_bytes_async().
 *
 * Returns: (transfer full): like gpu_image_read_bytes()
 *
 * Since: 0.1
 */
GBytes *
gpu_image_read_bytes_finish (GpuImage      *image,
                             GAsyncResult  *result,
                             GError       **error)
{
  g_return_val_if_fail (g_task_is_valid (result, image), NULL);

  return _gpu_error_propagate_pointer (result, "gpu_image_read_bytes_async", error);
}

/* Fails if @size exceeds the size of the region. _gpu_timeline_write_region() fails if @size is too
 * small. */
static gboolean
check_exact (GpuImage         *image,
             const GpuExtent  *extent,
             gsize             size,
             const char       *function,
             GError          **error)
{
  gsize n_texels;
  gsize wanted;

  if (!g_size_checked_mul (&n_texels, extent->width, extent->height)
      || !g_size_checked_mul (&n_texels, n_texels, extent->depth)
      || !g_size_checked_mul (&wanted, n_texels, image->description.texel_size)
      || size <= wanted)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: %" G_GSIZE_FORMAT " bytes without pitches exceed the region of %"
               G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " texels, which has %"
               G_GSIZE_FORMAT " bytes", function, size, extent->width, extent->height,
               extent->depth, wanted);

  return FALSE;
}

static gboolean
submit_write (GpuTimeline      *timeline,
              const char       *function,
              GpuImage         *image,
              const GpuLayout  *layout,
              const GpuExtent  *extent,
              GBytes           *bytes,
              const GpuLayout  *pitches,
              GError          **error)
{
  GpuMemory *memory = GPU_MEMORY (image);
  GpuExtent rest = _gpu_image_get_rest (image, layout, extent);
  GpuHostBytes host = { .layout = pitches, .bytes = bytes };

  host.data = (gpointer) g_bytes_get_data (bytes, &host.size);

  if (!_gpu_region_check (memory, layout, &rest, function, "destination", error))
    return FALSE;

  if (pitches->row_pitch == 0 && pitches->slice_pitch == 0
      && !check_exact (image, &rest, host.size, function, error))
    return FALSE;

  return _gpu_timeline_write_region (timeline, function, memory, layout, &host, &rest, NULL, error);
}

/**
 * gpu_image_write_bytes:
 * @image: a #GpuImage
 * @stream: (nullable): the stream to write on, %NULL for the default stream
 * @layout: (nullable): origin of the region in @image, in texels; %NULL for the first texel
 * @extent: (nullable): size of the region in texels; %NULL for the rest of @image
 * @bytes: the bytes to write
 * @row_pitch: distance between rows of @bytes in bytes, 0 for tightly packed rows
 * @slice_pitch: distance between slices of @bytes in bytes, 0 for tightly packed slices
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Writes @bytes to a region of @image and waits until the operation completes (OpenCL:
 * clEnqueueWriteImage; CUDA: cuMemcpy2DAsync, cuMemcpy3DAsync). Cancellation ends the wait, but the
 * write continues.
 *
 * Returns: %TRUE, or %FALSE with the errors of gpu_stream_write_region(),
 *   %GPU_ERROR_INVALID_ARGUMENT if both pitches are 0 and @bytes has more bytes than the region,
 *   the error of earlier work on the stream, or %G_IO_ERROR_CANCELLED
 *
 * Since: 0.1
 */
gboolean
gpu_image_write_bytes (GpuImage         *image,
                       GpuStream        *stream,
                       const GpuLayout  *layout,
                       const GpuExtent  *extent,
                       GBytes           *bytes,
                       gsize             row_pitch,
                       gsize             slice_pitch,
                       GCancellable     *cancellable,
                       GError          **error)
{
  const char *function = "gpu_image_write_bytes";
  const GpuLayout pitches = { 0, 0, 0, row_pitch, slice_pitch };
  g_auto (GpuHostWait) wait = { NULL };

  g_return_val_if_fail (GPU_IS_IMAGE (image), FALSE);
  g_return_val_if_fail (bytes != NULL, FALSE);

  return _gpu_memory_begin_wait ((GpuMemory *) image, stream, function, cancellable, &wait, error)
         && submit_write (wait.timeline, function, image, layout, extent, bytes, &pitches, error)
         && _gpu_memory_wait_for_work (&wait, function, cancellable, error);
}

/**
 * gpu_image_write_bytes_async:
 * @image: a #GpuImage
 * @stream: (nullable): the stream to write on, %NULL for the default stream
 * @layout: (nullable): origin of the region in @image, in texels; %NULL for the first texel
 * @extent: (nullable): size of the region in texels; %NULL for the rest of @image
 * @bytes: the bytes to write
 * @row_pitch: distance between rows of @bytes in bytes, 0 for tightly packed rows
 * @slice_pitch: distance between slices of @bytes in bytes, 0 for tightly packed slices
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @callback: (scope async) (nullable): called when the bytes are written
 * @user_data: data for @callback
 *
 * Writes like gpu_image_write_bytes(), but does not wait until the operation completes. May block
 * under the same conditions as gpu_stream_write(). @callback is called in the thread-default main
 * context of the calling thread.
 *
 * Since: 0.1
 */
void
gpu_image_write_bytes_async (GpuImage             *image,
                             GpuStream            *stream,
                             const GpuLayout      *layout,
                             const GpuExtent      *extent,
                             GBytes               *bytes,
                             gsize                 row_pitch,
                             gsize                 slice_pitch,
                             GCancellable         *cancellable,
                             GAsyncReadyCallback   callback,
                             gpointer              user_data)
{
  const char *function = "gpu_image_write_bytes_async";
  const GpuLayout pitches = { 0, 0, 0, row_pitch, slice_pitch };
  g_auto (GpuHostWait) wait = { NULL };
  g_autoptr (GTask) task = NULL;
  GError *error = NULL;

  g_return_if_fail (GPU_IS_IMAGE (image));
  g_return_if_fail (bytes != NULL);

  task = _gpu_memory_begin_task ((GpuMemory *) image, stream, function,
                                 gpu_image_write_bytes_async, cancellable, callback, user_data,
                                 &wait, &error);

  if (wait.timeline != NULL)
    submit_write (wait.timeline, function, image, layout, extent, bytes, &pitches, &error);

  _gpu_memory_end_task (task, &wait, NULL, NULL, error);
}

/**
 * gpu_image_write_bytes_finish:
 * @image: a #GpuImage
 * @result: the #GAsyncResult passed to the callback
 * @error: return location for an error
 *
 * Finishes gpu_image_write_bytes_async().
 *
 * Returns: like gpu_image_write_bytes()
 *
 * Since: 0.1
 */
gboolean
gpu_image_write_bytes_finish (GpuImage      *image,
                              GAsyncResult  *result,
                              GError       **error)
{
  g_return_val_if_fail (g_task_is_valid (result, image), FALSE);

  return _gpu_error_propagate_boolean (result, "gpu_image_write_bytes_async", error);
}

/**
 * gpu_image_fill:
 * @image: a #GpuImage
 * @stream: (nullable): the stream to fill on, %NULL for the default stream
 * @color: the value of every texel
 * @layout: (nullable): origin of the region in @image, in texels; %NULL for the first texel
 * @extent: (nullable): size of the region in texels; %NULL for the rest of @image
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Fills a region of @image like gpu_stream_fill_image() and waits until the operation completes
 * (OpenCL: clEnqueueFillImage; CUDA: cuMemcpy2DAsync, cuMemcpy3DAsync). Cancellation ends the wait,
 * but the fill continues.
 *
 * Returns: %TRUE, or %FALSE with the errors of gpu_stream_fill_image(), the error of earlier work
 *   on the stream, or %G_IO_ERROR_CANCELLED
 *
 * Since: 0.1
 */
gboolean
gpu_image_fill (GpuImage         *image,
                GpuStream        *stream,
                const GpuColor   *color,
                const GpuLayout  *layout,
                const GpuExtent  *extent,
                GCancellable     *cancellable,
                GError          **error)
{
  const char *function = "gpu_image_fill";
  g_auto (GpuHostWait) wait = { NULL };

  g_return_val_if_fail (GPU_IS_IMAGE (image), FALSE);
  g_return_val_if_fail (color != NULL, FALSE);

  return _gpu_memory_begin_wait ((GpuMemory *) image, stream, function, cancellable, &wait, error)
         && _gpu_timeline_fill_image (wait.timeline, function, image, color, layout, extent, error)
         && _gpu_memory_wait_for_work (&wait, function, cancellable, error);
}

/**
 * gpu_image_map:
 * @image: a #GpuImage
 * @stream: (nullable): the stream to map on, %NULL for the default stream
 * @flags: the intended access of the host
 * @layout: (nullable): origin of the region in @image, in texels; %NULL for the first texel
 * @extent: (nullable): size of the region in texels, not empty; %NULL for the rest of @image
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @error: return location for an error
 *
 * Maps a region of @image like gpu_stream_map_image() and waits until the host may access it
 * (OpenCL: clEnqueueMapImage; CUDA: page-locked memory, cuMemcpy3DAsync).
 *
 * Returns: (transfer full): the mapping, or %NULL with the errors of gpu_stream_map_image(), the
 *   error of earlier work on the stream, or %G_IO_ERROR_CANCELLED
 *
 * Since: 0.1
 */
GpuMapping *
gpu_image_map (GpuImage         *image,
               GpuStream        *stream,
               GpuMapFlags       flags,
               const GpuLayout  *layout,
               const GpuExtent  *extent,
               GCancellable     *cancellable,
               GError          **error)
{
  const char *function = "gpu_image_map";
  g_auto (GpuHostWait) wait = { NULL };
  g_autoptr (GpuMapping) mapping = NULL;
  GpuExtent rest;

  g_return_val_if_fail (GPU_IS_IMAGE (image), NULL);

  rest = _gpu_image_get_rest (image, layout, extent);

  if (!_gpu_memory_begin_wait ((GpuMemory *) image, stream, function, cancellable, &wait, error))
    return NULL;

  mapping = _gpu_timeline_map_image (wait.timeline, function, image, flags, layout, &rest, error);

  if (mapping == NULL || !_gpu_memory_wait_for_work (&wait, function, cancellable, error))
    return NULL;

  return g_steal_pointer (&mapping);
}

/**
 * gpu_image_map_async:
 * @image: a #GpuImage
 * @stream: (nullable): the stream to map on, %NULL for the default stream
 * @flags: the intended access of the host
 * @layout: (nullable): origin of the region in @image, in texels; %NULL for the first texel
 * @extent: (nullable): size of the region in texels, not empty; %NULL for the rest of @image
 * @cancellable: (nullable): a #GCancellable, or %NULL
 * @callback: (scope async) (nullable): called when the host may access the mapping
 * @user_data: data for @callback
 *
 * Maps like gpu_image_map() without blocking. @callback is called in the thread-default main
 * context of the calling thread.
 *
 * Since: 0.1
 */
void
gpu_image_map_async (GpuImage             *image,
                     GpuStream            *stream,
                     GpuMapFlags           flags,
                     const GpuLayout      *layout,
                     const GpuExtent      *extent,
                     GCancellable         *cancellable,
                     GAsyncReadyCallback   callback,
                     gpointer              user_data)
{
  const char *function = "gpu_image_map_async";
  g_auto (GpuHostWait) wait = { NULL };
  g_autoptr (GTask) task = NULL;
  GpuMapping *mapping = NULL;
  GError *error = NULL;
  GpuExtent rest;

  g_return_if_fail (GPU_IS_IMAGE (image));

  task = _gpu_memory_begin_task ((GpuMemory *) image, stream, function, gpu_image_map_async,
                                 cancellable, callback, user_data, &wait, &error);
  rest = _gpu_image_get_rest (image, layout, extent);

  if (wait.timeline != NULL)
    mapping = _gpu_timeline_map_image (wait.timeline, function, image, flags, layout, &rest,
                                       &error);

  _gpu_memory_end_task (task, &wait, mapping, g_object_unref, error);
}

/**
 * gpu_image_map_finish:
 * @image: a #GpuImage
 * @result: the #GAsyncResult passed to the callback
 * @error: return location for an error
 *
 * Finishes gpu_image_map_async().
 *
 * Returns: (transfer full): like gpu_image_map()
 *
 * Since: 0.1
 */
GpuMapping *
gpu_image_map_finish (GpuImage      *image,
                      GAsyncResult  *result,
                      GError       **error)
{
  g_return_val_if_fail (g_task_is_valid (result, image), NULL);

  return _gpu_error_propagate_pointer (result, "gpu_image_map_async", error);
}

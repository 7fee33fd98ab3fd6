/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <cuda.h>
#include <gpumem/gpumem.h>

G_BEGIN_DECLS

/**
 * SECTION:gpumem-cuda
 * @title: CUDA interoperability
 * @short_description: typed CUDA handles of objects, and objects that wrap CUDA handles
 * @include: gpumem/gpumem-cuda.h
 *
 * Typed access to the CUDA handles behind objects, and constructors that wrap existing handles, for
 * C programs that also call the CUDA driver themselves. Every function here is inline: it needs the
 * header of a CUDA Toolkit, and the program links the driver itself. In other languages the same
 * handles are numbers: see gpu_memory_get_native_handle(), gpu_buffer_new_wrapped() and the similar
 * functions of the other classes.
 *
 * The library uses primary contexts unless a program requests others, so its objects work together
 * with the CUDA runtime and with every library built on that. Between gpu_context_push_current()
 * and gpu_context_pop_current(), driver functions that need a current context find it. The library
 * itself leaves the current context of every thread unchanged.
 *
 * A handle belongs to its object and is valid as long as the object exists. The library does not
 * track work that a program enqueues on such a handle, so the program must order that work against
 * the work of the library. The easiest way is to enqueue both on the same stream.
 */

/**
 * gpu_device_get_cu_device: (skip)
 * @device: a device
 * @handle: (out): the handle
 *
 * Gets the CUDA handle of @device, which may be 0. Any thread may call this function.
 *
 * Returns: %TRUE, or %FALSE if @device is not a CUDA device
 *
 * Since: 0.1
 */
static inline gboolean
gpu_device_get_cu_device (GpuDevice *device,
                          CUdevice  *handle)
{
  if (g_strcmp0 (gpu_device_get_backend (device), "cuda") != 0)
    return FALSE;

  *handle = (CUdevice) gpu_device_get_native_handle (device);

  return TRUE;
}

/**
 * gpu_device_find_cu_device: (skip)
 * @handle: the handle of a device
 *
 * Finds the device with the CUDA handle @handle. The first call in a process starts the drivers, as
 * gpu_device_list() does. Any thread may call this function.
 *
 * Returns: (transfer full) (nullable): the device; %NULL if gpu_device_list() does not contain it
 *
 * Since: 0.1
 */
static inline GpuDevice *
gpu_device_find_cu_device (CUdevice handle)
{
  GList *devices = gpu_device_list ();
  GpuDevice *found = NULL;

  for (GList *link = devices; link != NULL && found == NULL; link = link->next)
    {
      GpuDevice *device = (GpuDevice *) link->data;
      CUdevice each;

      if (gpu_device_get_cu_device (device, &each) && each == handle)
        found = (GpuDevice *) g_object_ref (device);
    }

  g_list_free_full (devices, g_object_unref);

  return found;
}

/**
 * gpu_context_get_cu_context: (skip)
 * @context: a context
 *
 * Gets the CUDA handle of @context. Any thread may call this function.
 *
 * Returns: (nullable): the handle, owned by @context; %NULL if @context is not a CUDA context
 *
 * Since: 0.1
 */
static inline CUcontext
gpu_context_get_cu_context (GpuContext *context)
{
  GpuDevice *device = gpu_context_get_device (context);
  CUdevice handle;

  if (device == NULL || !gpu_device_get_cu_device (device, &handle))
    return NULL;

  return (CUcontext) (guintptr) gpu_context_get_native_handle (context);
}

/**
 * gpu_context_new_for_cu_context: (skip)
 * @device: the device of @handle
 * @handle: a context that the program created or retained
 * @mode: whether the program keeps @handle, or the new object destroys or releases it
 * @error: return location for a #GError
 *
 * Creates an object for an existing CUDA context: gpu_context_new_wrapped() with a typed handle. If
 * the call fails, the caller keeps ownership of @handle for every @mode.
 *
 * Returns: (transfer full): the context, or %NULL with @error set
 *
 * Since: 0.1
 */
static inline GpuContext *
gpu_context_new_for_cu_context (GpuDevice    *device,
                                CUcontext     handle,
                                GpuWrapMode   mode,
                                GError      **error)
{
  return gpu_context_new_wrapped (device, (guint64) (guintptr) handle, mode, error);
}

/**
 * gpu_stream_get_cu_stream: (skip)
 * @stream: a stream
 * @handle: (out): the handle
 *
 * Gets the CUDA handle of @stream. For a default stream, the handle is one of the driver's
 * constants. Work that the program enqueues on the handle is ordered with the work of @stream. An
 * event that gpu_stream_record() later records on @stream completes after this work. Any thread may
 * call this function.
 *
 * Returns: %TRUE, or %FALSE if @stream is not a CUDA stream
 *
 * Since: 0.1
 */
static inline gboolean
gpu_stream_get_cu_stream (GpuStream *stream,
                          CUstream  *handle)
{
  if (gpu_context_get_cu_context (gpu_stream_get_context (stream)) == NULL)
    return FALSE;

  *handle = (CUstream) (guintptr) gpu_stream_get_native_handle (stream);

  return TRUE;
}

/**
 * gpu_stream_new_for_cu_stream: (skip)
 * @context: the context of @handle
 * @handle: a stream that the program created, or one of the default streams
 * @mode: whether the program keeps @handle, or the new object destroys it
 * @error: return location for a #GError
 *
 * Creates an object for an existing CUDA stream: gpu_stream_new_wrapped() with a typed handle. If
 * the call fails, the caller keeps ownership of @handle for every @mode.
 *
 * Returns: (transfer full): the stream, or %NULL with @error set
 *
 * Since: 0.1
 */
static inline GpuStream *
gpu_stream_new_for_cu_stream (GpuContext   *context,
                              CUstream      handle,
                              GpuWrapMode   mode,
                              GError      **error)
{
  return gpu_stream_new_wrapped (context, (guint64) (guintptr) handle, mode, error);
}

/**
 * gpu_event_get_cu_event: (skip)
 * @event: an event
 *
 * Gets the CUDA event of @event. The first call may record an event, which may complete later than
 * @event, but not before: see #GpuEvent:native-handle. Any thread may call this function.
 *
 * Returns: (nullable): the handle, owned by @event; %NULL if @event is not a CUDA event, or needs
 *   no CUDA event because it has completed or failed
 *
 * Since: 0.1
 */
static inline CUevent
gpu_event_get_cu_event (GpuEvent *event)
{
  GpuContext *context = NULL;
  guint64 handle = 0;

  g_object_get (event, "context", &context, NULL);
  if (context != NULL && gpu_context_get_cu_context (context) != NULL)
    g_object_get (event, "native-handle", &handle, NULL);
  g_clear_object (&context);

  return (CUevent) (guintptr) handle;
}

/**
 * gpu_event_new_for_cu_event: (skip)
 * @context: the context of @handle
 * @handle: an event that the program recorded
 * @mode: whether the program keeps @handle, or the new object destroys it
 * @error: return location for a #GError
 *
 * Creates an object for an existing CUDA event: gpu_event_new_wrapped() with a typed handle. If the
 * call fails, the caller keeps ownership of @handle for every @mode.
 *
 * Returns: (transfer full): the event, or %NULL with @error set
 *
 * Since: 0.1
 */
static inline GpuEvent *
gpu_event_new_for_cu_event (GpuContext   *context,
                            CUevent       handle,
                            GpuWrapMode   mode,
                            GError      **error)
{
  return gpu_event_new_wrapped (context, (guint64) (guintptr) handle, mode, error);
}

/**
 * gpu_buffer_get_cu_deviceptr: (skip)
 * @buffer: a buffer
 *
 * Gets the device address of @buffer. The address of a slice is that of its first byte. Any thread
 * may call this function.
 *
 * Returns: the address; 0 if @buffer is not CUDA memory or was released
 *
 * Since: 0.1
 */
static inline CUdeviceptr
gpu_buffer_get_cu_deviceptr (GpuBuffer *buffer)
{
  if (gpu_context_get_cu_context (gpu_memory_get_context (GPU_MEMORY (buffer))) == NULL)
    return 0;

  return (CUdeviceptr) gpu_memory_get_native_handle (GPU_MEMORY (buffer));
}

/**
 * gpu_buffer_new_for_cu_deviceptr: (skip)
 * @context: a context that can access the memory
 * @address: the address of memory that the program allocated
 * @size: the size in bytes, or 0 for the rest of the allocation from @address on
 * @mode: whether the program keeps the memory, or the new object frees it
 * @error: return location for a #GError
 *
 * Creates an object for existing CUDA memory: gpu_buffer_new_wrapped() with a typed address. If
 * the call fails, the caller keeps ownership of the memory for every @mode.
 *
 * Returns: (transfer full): the buffer, or %NULL with @error set
 *
 * Since: 0.1
 */
static inline GpuBuffer *
gpu_buffer_new_for_cu_deviceptr (GpuContext   *context,
                                 CUdeviceptr   address,
                                 gsize         size,
                                 GpuWrapMode   mode,
                                 GError      **error)
{
  return gpu_buffer_new_wrapped (context, (guint64) address, size, mode, NULL, error);
}

/**
 * gpu_image_get_cu_array: (skip)
 * @image: an image
 *
 * Gets the CUDA array of @image. An image with mip levels has a mipmapped array instead;
 * gpu_image_get_level() returns images with the arrays of the levels. An image over a buffer has no
 * array. Any thread may call this function.
 *
 * Returns: (nullable): the handle, owned by @image; %NULL if @image has no such array, is not a
 *   CUDA image or was released
 *
 * Since: 0.1
 */
static inline CUarray
gpu_image_get_cu_array (GpuImage *image)
{
  if (gpu_context_get_cu_context (gpu_memory_get_context (GPU_MEMORY (image))) == NULL
      || gpu_image_get_n_levels (image) != 1 || gpu_image_get_buffer (image) != NULL)
    return NULL;

  return (CUarray) (guintptr) gpu_memory_get_native_handle (GPU_MEMORY (image));
}

/**
 * gpu_image_get_cu_mipmapped_array: (skip)
 * @image: an image
 *
 * Gets the CUDA mipmapped array of @image. Any thread may call this function.
 *
 * Returns: (nullable): the handle, owned by @image; %NULL if @image has no mip levels, is not a
 *   CUDA image or was released
 *
 * Since: 0.1
 */
static inline CUmipmappedArray
gpu_image_get_cu_mipmapped_array (GpuImage *image)
{
  if (gpu_context_get_cu_context (gpu_memory_get_context (GPU_MEMORY (image))) == NULL
      || gpu_image_get_n_levels (image) < 2)
    return NULL;

  return (CUmipmappedArray) (guintptr) gpu_memory_get_native_handle (GPU_MEMORY (image));
}

/**
 * gpu_image_get_cu_tex_object: (skip)
 * @image: an image
 * @sampler: a sampler of the same context
 * @error: return location for a #GError
 *
 * Gets the texture object with which kernels read @image through @sampler:
 * gpu_image_get_native_object() with a typed result. Any thread may call this function.
 *
 * Returns: the handle, owned by @image; 0 with @error set
 *
 * Since: 0.1
 */
static inline CUtexObject
gpu_image_get_cu_tex_object (GpuImage    *image,
                             GpuSampler  *sampler,
                             GError     **error)
{
  g_return_val_if_fail (sampler != NULL, 0);

  return (CUtexObject) gpu_image_get_native_object (image, sampler, error);
}

/**
 * gpu_image_get_cu_surf_object: (skip)
 * @image: an image
 * @error: return location for a #GError
 *
 * Gets the surface object with which kernels write @image: gpu_image_get_native_object() with a
 * typed result. Any thread may call this function.
 *
 * Returns: the handle, owned by @image; 0 with @error set
 *
 * Since: 0.1
 */
static inline CUsurfObject
gpu_image_get_cu_surf_object (GpuImage  *image,
                              GError   **error)
{
  return (CUsurfObject) gpu_image_get_native_object (image, NULL, error);
}

/**
 * gpu_image_new_for_cu_array: (skip)
 * @context: the context of @handle
 * @handle: an array that the program created
 * @format: (nullable): the texel format; %NULL to derive it from @handle, in which case integer
 *   channels are not normalized
 * @mode: whether the program keeps @handle, or the new object destroys it
 * @error: return location for a #GError
 *
 * Creates an object for an existing CUDA array: gpu_image_new_wrapped() with a typed handle.
 * Kernels can write the image if the array was created with CUDA_ARRAY3D_SURFACE_LDST. If the call
 * fails, the caller keeps ownership of the array for every @mode.
 *
 * Returns: (transfer full): the image, or %NULL with @error set
 *
 * Since: 0.1
 */
static inline GpuImage *
gpu_image_new_for_cu_array (GpuContext            *context,
                            CUarray                handle,
                            const GpuImageFormat  *format,
                            GpuWrapMode            mode,
                            GError               **error)
{
  return gpu_image_new_wrapped (context, (guint64) (guintptr) handle, format, mode, NULL, error);
}

/**
 * gpu_program_get_cu_module: (skip)
 * @program: a program
 *
 * Gets the CUDA module of @program. Any thread may call this function.
 *
 * Returns: (nullable): the handle, owned by @program and its kernels; %NULL if @program is not a
 *   CUDA program
 *
 * Since: 0.1
 */
static inline CUmodule
gpu_program_get_cu_module (GpuProgram *program)
{
  guint64 handle = 0;

  if (gpu_context_get_cu_context (gpu_program_get_context (program)) != NULL)
    g_object_get (program, "native-handle", &handle, NULL);

  return (CUmodule) (guintptr) handle;
}

/**
 * gpu_program_new_for_cu_module: (skip)
 * @context: the context of @handle
 * @handle: a module that the program loaded
 * @mode: whether the program keeps @handle, or the new object unloads it
 * @error: return location for a #GError
 *
 * Creates an object for an existing CUDA module: gpu_program_new_wrapped() with a typed handle. If
 * the call fails, the caller keeps ownership of @handle for every @mode.
 *
 * Returns: (transfer full): the program, or %NULL with @error set
 *
 * Since: 0.1
 */
static inline GpuProgram *
gpu_program_new_for_cu_module (GpuContext   *context,
                               CUmodule      handle,
                               GpuWrapMode   mode,
                               GError      **error)
{
  return gpu_program_new_wrapped (context, (guint64) (guintptr) handle, mode, error);
}

/**
 * gpu_kernel_get_cu_function: (skip)
 * @kernel: a kernel
 *
 * Gets the CUDA function of @kernel. Any thread may call this function.
 *
 * Returns: (nullable): the handle, owned by @kernel; %NULL if @kernel is not a CUDA kernel
 *
 * Since: 0.1
 */
static inline CUfunction
gpu_kernel_get_cu_function (GpuKernel *kernel)
{
  GpuContext *context = gpu_program_get_context (gpu_kernel_get_program (kernel));

  if (gpu_context_get_cu_context (context) == NULL)
    return NULL;

  return (CUfunction) (guintptr) gpu_kernel_get_native_handle (kernel);
}

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <cuda.h>
#include <gpumem/gpumem.h>

G_BEGIN_DECLS

/**
 * SECTION:gpumem-cuda
 * @title: CUDA interoperability
 * @short_description: handles of CUDA out of objects, and objects out of handles
 * @include: gpumem/gpumem-cuda.h
 *
 * What C programs need that call the CUDA driver themselves beside this library: the handle behind
 * an object, with its type, and an object around a handle. Everything here is inline; it needs the
 * header of a CUDA Toolkit, and programs that use it link the driver themselves. In other
 * languages the same handles are numbers: gpu_memory_get_native_handle(),
 * gpu_buffer_new_wrapped() and their kin.
 *
 * The contexts of the library are the primary ones unless a program asks for others, so what is
 * made here works together with the CUDA runtime and with all that is built on it. A function of
 * the driver that needs a current context finds it between gpu_context_push_current() and
 * gpu_context_pop_current(); the library itself leaves the current context of every thread as it
 * is.
 *
 * A handle belongs to its object and lives as long as that. The library does not see what a
 * program enqueues on such a handle itself, so the program orders that work against the library's
 * own, most easily by enqueueing it on the stream that it also gives to the library.
 */

/**
 * gpu_device_get_cu_device: (skip)
 * @device: a device
 * @handle: (out): the handle
 *
 * The handle of @device, which may be 0. Any thread may call it.
 *
 * Returns: %TRUE, or %FALSE if @device is none of CUDA
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
 * Finds the device that CUDA knows as @handle. The first call in a process starts the drivers, as
 * gpu_device_list() does. Any thread may call it.
 *
 * Returns: (transfer full) (nullable): the device; %NULL if it is not listed
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
 * The handle of @context. Any thread may call it.
 *
 * Returns: (nullable): the handle, owned by @context; %NULL if @context is none of CUDA
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
 * @handle: a context that the program made or retained
 * @mode: whether it stays the program's, or is the new object's to destroy or to release
 * @error: return location for a #GError
 *
 * Makes an object around a context of CUDA: gpu_context_new_wrapped() with types. If it fails
 * @handle stays with the caller whatever @mode is.
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
 * The handle of @stream, which for default streams is one of the driver's constants. Any thread
 * may call it. What the program enqueues on it is ordered with the work of @stream; points of
 * @stream that are recorded later cover it.
 *
 * Returns: %TRUE, or %FALSE if @stream is none of CUDA
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
 * @handle: a stream that the program made, or one of the default streams
 * @mode: whether it stays the program's or is the new object's to destroy
 * @error: return location for a #GError
 *
 * Makes an object around a stream of CUDA: gpu_stream_new_wrapped() with types. If it fails
 * @handle stays with the caller whatever @mode is.
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
 * gpu_buffer_get_cu_deviceptr: (skip)
 * @buffer: a buffer
 *
 * The address of @buffer in the device's memory; of a slice, that of its first byte. Any thread
 * may call it.
 *
 * Returns: the address; 0 if @buffer is none of CUDA or was released
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
 * @context: a context that reaches the memory
 * @address: memory that the program allocated
 * @size: its size in bytes, or 0 for all of the allocation from @address on
 * @mode: whether it stays the program's or is the new object's to free
 * @error: return location for a #GError
 *
 * Makes an object around memory of CUDA: gpu_buffer_new_wrapped() with types. If it fails the
 * memory stays with the caller whatever @mode is.
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
 * The array behind @image. One with mip levels has a mipmapped array instead, and
 * gpu_image_get_level() gives images with the arrays of its levels; an image over a buffer has
 * none. Any thread may call it.
 *
 * Returns: (nullable): the handle, owned by @image; %NULL if there is no such array, or @image is
 *   none of CUDA or was released
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
 * The mipmapped array behind @image. Any thread may call it.
 *
 * Returns: (nullable): the handle, owned by @image; %NULL if @image has no mip levels, is none of
 *   CUDA or was released
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
 * The texture object that kernels read @image by in the way of @sampler:
 * gpu_image_get_native_object() with types. Any thread may call it.
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
 * The surface object that kernels write @image by: gpu_image_get_native_object() with types. Any
 * thread may call it.
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
 * @handle: an array that the program made
 * @format: (nullable): what the texels are; %NULL to take integers for integers
 * @mode: whether it stays the program's or is the new object's to destroy
 * @error: return location for a #GError
 *
 * Makes an object around an array of CUDA: gpu_image_new_wrapped() with types. Kernels write it if
 * it was made with CUDA_ARRAY3D_SURFACE_LDST. If it fails the array stays with the caller whatever
 * @mode is.
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
 * gpu_kernel_get_cu_function: (skip)
 * @kernel: a kernel
 *
 * The function of @kernel. Any thread may call it.
 *
 * Returns: (nullable): the handle, owned by @kernel; %NULL if @kernel is none of CUDA
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

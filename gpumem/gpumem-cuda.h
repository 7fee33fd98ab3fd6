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
  return gpu_buffer_new_wrapped (context, (guint64) address, size, mode, error);
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

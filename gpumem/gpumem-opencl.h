/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#endif

#include <CL/opencl.h>
#include <gpumem/gpumem.h>

G_BEGIN_DECLS

/**
 * SECTION:gpumem-opencl
 * @title: OpenCL interoperability
 * @short_description: handles of OpenCL out of objects, and objects out of handles
 * @include: gpumem/gpumem-opencl.h
 *
 * What C programs need that call OpenCL themselves beside this library: the handle behind an
 * object, with its type, and an object around a handle. Everything here is inline; programs that
 * use it link the OpenCL loader themselves. In other languages the same handles are numbers:
 * gpu_memory_get_native_handle(), gpu_buffer_new_wrapped() and their kin.
 *
 * A handle belongs to its object: retain it to keep it for longer. The library does not see what
 * a program enqueues on such a handle itself, so the program orders that work against the
 * library's own, most easily by enqueueing it on the queue of the stream that it also gives to
 * the library.
 *
 * Queues that the library makes are never those on the device, and the library calls no function
 * of OpenCL before the first device is asked for.
 */

/**
 * gpu_device_get_cl_device: (skip)
 * @device: a device
 *
 * The handle of @device. Any thread may call it.
 *
 * Returns: (nullable): the handle, owned by the driver; %NULL if @device is none of OpenCL
 *
 * Since: 0.1
 */
static inline cl_device_id
gpu_device_get_cl_device (GpuDevice *device)
{
  if (g_strcmp0 (gpu_device_get_backend (device), "opencl") != 0)
    return NULL;

  return (cl_device_id) (guintptr) gpu_device_get_native_handle (device);
}

/**
 * gpu_device_find_cl_device: (skip)
 * @id: the handle of a device
 *
 * Finds the device that OpenCL knows as @id. The first call in a process starts the drivers, as
 * gpu_device_list() does. Any thread may call it.
 *
 * Returns: (transfer full) (nullable): the device; %NULL if it is not listed, as parts of devices
 *   are not
 *
 * Since: 0.1
 */
static inline GpuDevice *
gpu_device_find_cl_device (cl_device_id id)
{
  GList *devices = gpu_device_list ();
  GpuDevice *found = NULL;

  for (GList *link = devices; link != NULL && found == NULL; link = link->next)
    {
      if (gpu_device_get_cl_device ((GpuDevice *) link->data) == id)
        found = (GpuDevice *) g_object_ref (link->data);
    }

  g_list_free_full (devices, g_object_unref);

  return found;
}

/**
 * gpu_context_get_cl_context: (skip)
 * @context: a context
 *
 * The handle of @context. Any thread may call it.
 *
 * Returns: (nullable): the handle, owned by @context; %NULL if @context is none of OpenCL
 *
 * Since: 0.1
 */
static inline cl_context
gpu_context_get_cl_context (GpuContext *context)
{
  GpuDevice *device = gpu_context_get_device (context);

  if (device == NULL || gpu_device_get_cl_device (device) == NULL)
    return NULL;

  return (cl_context) (guintptr) gpu_context_get_native_handle (context);
}

/**
 * gpu_context_new_for_cl_context: (skip)
 * @device: one of the devices of @handle
 * @handle: a context that the program made
 * @mode: whether the new object takes a reference of its own or takes over the caller's
 * @error: return location for a #GError
 *
 * Makes an object around a context of OpenCL: gpu_context_new_wrapped() with types. If it fails
 * the reference stays with the caller whatever @mode is.
 *
 * Returns: (transfer full): the context, or %NULL with @error set
 *
 * Since: 0.1
 */
static inline GpuContext *
gpu_context_new_for_cl_context (GpuDevice    *device,
                                cl_context    handle,
                                GpuWrapMode   mode,
                                GError      **error)
{
  return gpu_context_new_wrapped (device, (guint64) (guintptr) handle, mode, error);
}

/**
 * gpu_stream_get_cl_queue: (skip)
 * @stream: a stream
 *
 * The command queue of @stream. Any thread may call it. Commands that the program enqueues on it
 * are ordered with those of @stream if that is an in-order one; points of @stream that are
 * recorded later cover them.
 *
 * Returns: (nullable): the handle, owned by @stream; %NULL if @stream is none of OpenCL
 *
 * Since: 0.1
 */
static inline cl_command_queue
gpu_stream_get_cl_queue (GpuStream *stream)
{
  if (gpu_context_get_cl_context (gpu_stream_get_context (stream)) == NULL)
    return NULL;

  return (cl_command_queue) (guintptr) gpu_stream_get_native_handle (stream);
}

/**
 * gpu_stream_new_for_cl_queue: (skip)
 * @context: the context of @handle
 * @handle: a command queue that the program made
 * @mode: whether the new object takes a reference of its own or takes over the caller's
 * @error: return location for a #GError
 *
 * Makes a stream around a command queue: gpu_stream_new_wrapped() with types. Device and flags are
 * those of the queue. If it fails the reference stays with the caller whatever @mode is.
 *
 * Returns: (transfer full): the stream, or %NULL with @error set
 *
 * Since: 0.1
 */
static inline GpuStream *
gpu_stream_new_for_cl_queue (GpuContext        *context,
                             cl_command_queue   handle,
                             GpuWrapMode        mode,
                             GError           **error)
{
  return gpu_stream_new_wrapped (context, (guint64) (guintptr) handle, mode, error);
}

/**
 * gpu_buffer_get_cl_mem: (skip)
 * @buffer: a buffer
 *
 * The memory object of @buffer; a slice has one of its own. Any thread may call it.
 *
 * Returns: (nullable): the handle, owned by @buffer; %NULL if @buffer is none of OpenCL or was
 *   released
 *
 * Since: 0.1
 */
static inline cl_mem
gpu_buffer_get_cl_mem (GpuBuffer *buffer)
{
  if (gpu_context_get_cl_context (gpu_memory_get_context (GPU_MEMORY (buffer))) == NULL)
    return NULL;

  return (cl_mem) (guintptr) gpu_memory_get_native_handle (GPU_MEMORY (buffer));
}

/**
 * gpu_buffer_new_for_cl_mem: (skip)
 * @context: the context of @handle
 * @handle: a buffer that the program made
 * @mode: whether the new object takes a reference of its own or takes over the caller's
 * @error: return location for a #GError
 *
 * Makes an object around a memory object: gpu_buffer_new_wrapped() with types, and with the size
 * that the driver tells. Images are refused with %GPU_ERROR_INVALID_ARGUMENT. If it fails the
 * reference stays with the caller whatever @mode is.
 *
 * Returns: (transfer full): the buffer, or %NULL with @error set
 *
 * Since: 0.1
 */
static inline GpuBuffer *
gpu_buffer_new_for_cl_mem (GpuContext   *context,
                           cl_mem        handle,
                           GpuWrapMode   mode,
                           GError      **error)
{
  return gpu_buffer_new_wrapped (context, (guint64) (guintptr) handle, 0, mode, NULL, error);
}

/**
 * gpu_image_get_cl_mem: (skip)
 * @image: an image
 *
 * The memory object of @image. A mip level is the same one as the image that it is a level of. Any
 * thread may call it.
 *
 * Returns: (nullable): the handle, owned by @image; %NULL if @image is none of OpenCL or was
 *   released
 *
 * Since: 0.1
 */
static inline cl_mem
gpu_image_get_cl_mem (GpuImage *image)
{
  if (gpu_context_get_cl_context (gpu_memory_get_context (GPU_MEMORY (image))) == NULL)
    return NULL;

  return (cl_mem) (guintptr) gpu_memory_get_native_handle (GPU_MEMORY (image));
}

/**
 * gpu_image_new_for_cl_mem: (skip)
 * @context: the context of @handle
 * @handle: an image that the program made
 * @mode: whether the new object takes a reference of its own or takes over the caller's
 * @error: return location for a #GError
 *
 * Makes an object around an image of OpenCL: gpu_image_new_wrapped() with types, and with the
 * format that the driver tells. Buffers, and images with several samples for each texel, are
 * refused. If it fails the reference stays with the caller whatever @mode is.
 *
 * Returns: (transfer full): the image, or %NULL with @error set
 *
 * Since: 0.1
 */
static inline GpuImage *
gpu_image_new_for_cl_mem (GpuContext   *context,
                          cl_mem        handle,
                          GpuWrapMode   mode,
                          GError      **error)
{
  return gpu_image_new_wrapped (context, (guint64) (guintptr) handle, NULL, mode, NULL, error);
}

/**
 * gpu_sampler_get_cl_sampler: (skip)
 * @sampler: a sampler
 *
 * The sampler object of @sampler. Any thread may call it.
 *
 * Returns: (nullable): the handle, owned by @sampler; %NULL if @sampler is none of OpenCL
 *
 * Since: 0.1
 */
static inline cl_sampler
gpu_sampler_get_cl_sampler (GpuSampler *sampler)
{
  if (gpu_context_get_cl_context (gpu_sampler_get_context (sampler)) == NULL)
    return NULL;

  return (cl_sampler) (guintptr) gpu_sampler_get_native_handle (sampler);
}

/**
 * gpu_sampler_new_for_cl_sampler: (skip)
 * @context: the context of @handle
 * @handle: a sampler that the program made
 * @mode: whether the new object takes a reference of its own or takes over the caller's
 * @error: return location for a #GError
 *
 * Makes an object around a sampler of OpenCL: gpu_sampler_new_wrapped() with types. If it fails the
 * reference stays with the caller whatever @mode is.
 *
 * Returns: (transfer full): the sampler, or %NULL with @error set
 *
 * Since: 0.1
 */
static inline GpuSampler *
gpu_sampler_new_for_cl_sampler (GpuContext   *context,
                                cl_sampler    handle,
                                GpuWrapMode   mode,
                                GError      **error)
{
  return gpu_sampler_new_wrapped (context, (guint64) (guintptr) handle, mode, error);
}

/**
 * gpu_kernel_get_cl_kernel: (skip)
 * @kernel: a kernel
 *
 * The kernel object of @kernel. A launch through the library sets all its arguments, under a lock
 * that the program cannot take: do not set arguments of this object while another thread
 * launches it.
 *
 * Returns: (nullable): the handle, owned by @kernel; %NULL if @kernel is none of OpenCL
 *
 * Since: 0.1
 */
static inline cl_kernel
gpu_kernel_get_cl_kernel (GpuKernel *kernel)
{
  GpuContext *context = gpu_program_get_context (gpu_kernel_get_program (kernel));

  if (gpu_context_get_cl_context (context) == NULL)
    return NULL;

  return (cl_kernel) (guintptr) gpu_kernel_get_native_handle (kernel);
}

G_END_DECLS

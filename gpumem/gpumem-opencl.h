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
 * @short_description: conversion between objects and OpenCL handles
 * @include: gpumem/gpumem-opencl.h
 *
 * These functions are for C programs that use this library and also call OpenCL directly. They
 * return the typed handle of an object, or create an object that wraps a handle. All of them are
 * inline; a program that uses them links the OpenCL loader itself. Other languages use the same
 * handles as numbers, through gpu_memory_get_native_handle(), gpu_buffer_new_wrapped() and similar
 * functions.
 *
 * An object owns its handle; a program that keeps the handle longer than the object must retain
 * it. The library does not track commands that the program enqueues itself, so the program must
 * order them against the library's work. The easiest way is to enqueue them on the queue of a
 * stream that the program also uses through the library.
 *
 * The library never creates on-device queues, and calls no OpenCL function before the program
 * requests the first device.
 */

/**
 * gpu_device_get_cl_device: (skip)
 * @device: a device
 *
 * Gets the OpenCL handle of @device. Any thread may call this function.
 *
 * Returns: (nullable): the handle, owned by the driver; %NULL if @device is not an OpenCL device
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
 * Finds the device whose OpenCL handle is @id. The first call in a process starts the drivers, as
 * gpu_device_list() does. Any thread may call this function.
 *
 * Returns: (transfer full) (nullable): the device; %NULL if gpu_device_list() does not contain it,
 *   for example because @id is a sub-device
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
 * Gets the OpenCL handle of @context. Any thread may call this function.
 *
 * Returns: (nullable): the handle, owned by @context; %NULL if @context is not an OpenCL context
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
 * @handle: a context that the program created
 * @mode: whether the new object takes a reference of its own or takes over the caller's
 * @error: return location for a #GError
 *
 * Creates an object that wraps an OpenCL context, like gpu_context_new_wrapped() with a typed
 * handle. If the call fails, the caller keeps its reference for every @mode.
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
 * Gets the command queue of @stream. If @stream is in order, commands that the program enqueues on
 * the queue are ordered with those of @stream, and an event that gpu_stream_record() later records
 * on @stream completes after them. Any thread may call this function.
 *
 * Returns: (nullable): the handle, owned by @stream; %NULL if @stream is not an OpenCL stream
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
 * @handle: a command queue that the program created
 * @mode: whether the new object takes a reference of its own or takes over the caller's
 * @error: return location for a #GError
 *
 * Creates a stream that wraps a command queue, like gpu_stream_new_wrapped() with a typed handle.
 * The stream has the device and the flags of the queue. If the call fails, the caller keeps its
 * reference for every @mode.
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
 * gpu_event_get_cl_event: (skip)
 * @event: an event
 *
 * Gets the OpenCL event of @event. The first call may enqueue a marker, which may complete later
 * than @event, but not before: see #GpuEvent:native-handle. Any thread may call this function.
 *
 * Returns: (nullable): the handle, owned by @event; %NULL if @event is not an OpenCL event, or
 *   needs no OpenCL event because it has completed or failed
 *
 * Since: 0.1
 */
static inline cl_event
gpu_event_get_cl_event (GpuEvent *event)
{
  GpuContext *context = NULL;
  guint64 handle = 0;

  g_object_get (event, "context", &context, NULL);
  if (context != NULL && gpu_context_get_cl_context (context) != NULL)
    g_object_get (event, "native-handle", &handle, NULL);
  g_clear_object (&context);

  return (cl_event) (guintptr) handle;
}

/**
 * gpu_event_new_for_cl_event: (skip)
 * @context: the context of @handle
 * @handle: an event that the program created
 * @mode: whether the new object takes a reference of its own or takes over the caller's
 * @error: return location for a #GError
 *
 * Creates an object that wraps an OpenCL event, like gpu_event_new_wrapped() with a typed handle.
 * If the call fails, the caller keeps its reference for every @mode.
 *
 * Returns: (transfer full): the event, or %NULL with @error set
 *
 * Since: 0.1
 */
static inline GpuEvent *
gpu_event_new_for_cl_event (GpuContext   *context,
                            cl_event      handle,
                            GpuWrapMode   mode,
                            GError      **error)
{
  return gpu_event_new_wrapped (context, (guint64) (guintptr) handle, mode, error);
}

/**
 * gpu_buffer_get_cl_mem: (skip)
 * @buffer: a buffer
 *
 * Gets the memory object of @buffer. A slice has its own memory object. Any thread may call this
 * function.
 *
 * Returns: (nullable): the handle, owned by @buffer; %NULL if @buffer is not an OpenCL buffer or
 *   was released
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
 * @handle: a buffer that the program created
 * @mode: whether the new object takes a reference of its own or takes over the caller's
 * @error: return location for a #GError
 *
 * Creates an object that wraps a memory object, like gpu_buffer_new_wrapped() with a typed handle.
 * The driver reports the size. If the call fails, the caller keeps its reference for every @mode.
 *
 * Fails with %GPU_ERROR_INVALID_ARGUMENT if @handle is an image.
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
 * Gets the memory object of @image. A mip level shares the memory object of its image. Any thread
 * may call this function.
 *
 * Returns: (nullable): the handle, owned by @image; %NULL if @image is not an OpenCL image or was
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
 * @handle: an image that the program created
 * @mode: whether the new object takes a reference of its own or takes over the caller's
 * @error: return location for a #GError
 *
 * Creates an object that wraps an OpenCL image, like gpu_image_new_wrapped() with a typed handle.
 * The driver reports the format. If the call fails, the caller keeps its reference for every
 * @mode.
 *
 * Fails with %GPU_ERROR_INVALID_ARGUMENT if @handle is a buffer, and with %GPU_ERROR_NOT_SUPPORTED
 * if the image has several samples per texel or a format that #GpuImageFormat lacks.
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
 * Gets the OpenCL sampler of @sampler. Any thread may call this function.
 *
 * Returns: (nullable): the handle, owned by @sampler; %NULL if @sampler is not an OpenCL sampler
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
 * @handle: a sampler that the program created
 * @mode: whether the new object takes a reference of its own or takes over the caller's
 * @error: return location for a #GError
 *
 * Creates an object that wraps an OpenCL sampler, like gpu_sampler_new_wrapped() with a typed
 * handle. If the call fails, the caller keeps its reference for every @mode.
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
 * gpu_program_get_cl_program: (skip)
 * @program: a program
 *
 * Gets the OpenCL program of @program. Any thread may call this function.
 *
 * Returns: (nullable): the handle, owned by @program and its kernels; %NULL if @program is not an
 *   OpenCL program
 *
 * Since: 0.1
 */
static inline cl_program
gpu_program_get_cl_program (GpuProgram *program)
{
  guint64 handle = 0;

  if (gpu_context_get_cl_context (gpu_program_get_context (program)) != NULL)
    g_object_get (program, "native-handle", &handle, NULL);

  return (cl_program) (guintptr) handle;
}

/**
 * gpu_program_new_for_cl_program: (skip)
 * @context: the context of @handle
 * @handle: a built program that the program created
 * @mode: whether the new object takes a reference of its own or takes over the caller's
 * @error: return location for a #GError
 *
 * Creates an object that wraps an OpenCL program, like gpu_program_new_wrapped() with a typed
 * handle. If the call fails, the caller keeps its reference for every @mode.
 *
 * To wrap a cl_kernel, wrap its CL_KERNEL_PROGRAM with %GPU_WRAP_MODE_BORROW, and get the kernel
 * with gpu_program_get_kernel().
 *
 * Returns: (transfer full): the program, or %NULL with @error set
 *
 * Since: 0.1
 */
static inline GpuProgram *
gpu_program_new_for_cl_program (GpuContext   *context,
                                cl_program    handle,
                                GpuWrapMode   mode,
                                GError      **error)
{
  return gpu_program_new_wrapped (context, (guint64) (guintptr) handle, mode, error);
}

/**
 * gpu_kernel_get_cl_kernel: (skip)
 * @kernel: a kernel
 *
 * Gets the OpenCL kernel of @kernel. A launch through the library sets all arguments of the OpenCL
 * kernel under a lock that the program cannot take, so the program must not set arguments while
 * another thread launches @kernel.
 *
 * Returns: (nullable): the handle, owned by @kernel; %NULL if @kernel is not an OpenCL kernel
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

/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Every function that the layer intercepts. Included several times, with different macros:
 *
 *   INFO     queries an object
 *   PLAIN    returns a code
 *   WAIT     returns a code; with an injected fault the driver still runs the call first, so that
 *            no command stays pending and no event stays unset
 *   ENQUEUE  returns a code; the first parameter is a queue, the last an event
 *   MAP      as ENQUEUE, but returns a pointer
 *   CREATE   returns a handle; the last parameter is the code
 *   REFS     the retain and release functions of a kind
 *   SPECIAL  written out in layer-main.c
 *   EXTENSION  written out in layer-external.c, and found by name only
 *
 * If LAYER_CALL is defined, every entry expands to LAYER_CALL (name). Functions of other
 * extensions (GL, EGL, D3D) are not intercepted or counted.
 */
#ifdef LAYER_CALL
# define INFO(name, type, info_type, checks) LAYER_CALL (name)
# define PLAIN(name, params, args, checks) LAYER_CALL (name)
# define WAIT(name, params, args, checks) LAYER_CALL (name)
# define ENQUEUE(name, params, args, checks) LAYER_CALL (name)
# define MAP(name, params, args, checks) LAYER_CALL (name)
# define CREATE(name, type, kind, params, args, checks) LAYER_CALL (name)
# define REFS(object, kind, type) LAYER_CALL (clRetain##object) LAYER_CALL (clRelease##object)
# define SPECIAL(name) LAYER_CALL (name)
# ifndef EXTENSION
#  define EXTENSION(name) LAYER_CALL (name)
# endif
#endif

#define BUFFER_RECT(pointer) \
  (cl_mem mem, cl_bool blocking, const size_t *origin, const size_t *host_origin, \
   const size_t *region, size_t row_pitch, size_t slice_pitch, size_t host_row_pitch, \
   size_t host_slice_pitch, pointer ptr)
#define BUFFER_RECT_ARGS \
  (mem, blocking, origin, host_origin, region, row_pitch, slice_pitch, host_row_pitch, \
   host_slice_pitch, ptr)

/* Platforms, devices, contexts, queues */
PLAIN (clGetPlatformIDs,
       (cl_uint n, cl_platform_id *platforms, cl_uint *n_ret), (n, platforms, n_ret), )
INFO (clGetPlatformInfo, cl_platform_id, cl_platform_info, )
PLAIN (clGetDeviceIDs,
       (cl_platform_id platform, cl_device_type type, cl_uint n, cl_device_id *devices,
        cl_uint *n_ret),
       (platform, type, n, devices, n_ret), )
INFO (clGetDeviceInfo, cl_device_id, cl_device_info, USE (DEVICE, object))
SPECIAL (clCreateSubDevices)
SPECIAL (clCreateSubDevicesEXT)
REFS (Device, DEVICE, cl_device_id)
REFS (DeviceEXT, DEVICE, cl_device_id)
PLAIN (clGetDeviceAndHostTimer, (cl_device_id device, cl_ulong *device_time, cl_ulong *host_time),
       (device, device_time, host_time), USE (DEVICE, device))
PLAIN (clGetHostTimer, (cl_device_id device, cl_ulong *time), (device, time), USE (DEVICE, device))
PLAIN (clUnloadPlatformCompiler, (cl_platform_id platform), (platform), )
PLAIN (clUnloadCompiler, (void), (), )
SPECIAL (clGetExtensionFunctionAddress)
SPECIAL (clGetExtensionFunctionAddressForPlatform)

CREATE (clCreateContext, cl_context, CONTEXT,
        (const cl_context_properties *properties, cl_uint n, const cl_device_id *devices,
         void (CL_CALLBACK *notify) (const char *, const void *, size_t, void *), void *data),
        (properties, n, devices, notify, data), USE_LIST (DEVICE, n, devices))
CREATE (clCreateContextFromType, cl_context, CONTEXT,
        (const cl_context_properties *properties, cl_device_type type,
         void (CL_CALLBACK *notify) (const char *, const void *, size_t, void *), void *data),
        (properties, type, notify, data), )
REFS (Context, CONTEXT, cl_context)
INFO (clGetContextInfo, cl_context, cl_context_info, USE (CONTEXT, object))
PLAIN (clSetContextDestructorCallback,
       (cl_context context, void (CL_CALLBACK *notify) (cl_context, void *), void *data),
       (context, notify, data), USE (CONTEXT, context))
PLAIN (clGetSupportedImageFormats,
       (cl_context context, cl_mem_flags flags, cl_mem_object_type type, cl_uint n,
        cl_image_format *formats, cl_uint *n_ret),
       (context, flags, type, n, formats, n_ret), USE (CONTEXT, context))

CREATE (clCreateCommandQueue, cl_command_queue, QUEUE,
        (cl_context context, cl_device_id device, cl_command_queue_properties properties),
        (context, device, properties), USE (CONTEXT, context); USE (DEVICE, device))
CREATE (clCreateCommandQueueWithProperties, cl_command_queue, QUEUE,
        (cl_context context, cl_device_id device, const cl_queue_properties *properties),
        (context, device, properties), USE (CONTEXT, context); USE (DEVICE, device))
REFS (CommandQueue, QUEUE, cl_command_queue)
INFO (clGetCommandQueueInfo, cl_command_queue, cl_command_queue_info, USE (QUEUE, object))
PLAIN (clSetCommandQueueProperty,
       (cl_command_queue queue, cl_command_queue_properties properties, cl_bool enable,
        cl_command_queue_properties *old),
       (queue, properties, enable, old), USE (QUEUE, queue))
PLAIN (clSetDefaultDeviceCommandQueue,
       (cl_context context, cl_device_id device, cl_command_queue queue), (context, device, queue),
       USE (CONTEXT, context); USE (DEVICE, device); USE (QUEUE, queue))
WAIT (clFlush, (cl_command_queue queue), (queue), USE (QUEUE, queue))
WAIT (clFinish, (cl_command_queue queue), (queue), USE (QUEUE, queue))

/* Memory */
CREATE (clCreateBuffer, cl_mem, MEM,
        (cl_context context, cl_mem_flags flags, size_t size, void *host),
        (context, flags, size, host), USE (CONTEXT, context))
CREATE (clCreateBufferWithProperties, cl_mem, MEM,
        (cl_context context, const cl_mem_properties *properties, cl_mem_flags flags,
         size_t size, void *host),
        (context, properties, flags, size, host), USE (CONTEXT, context))
CREATE (clCreateSubBuffer, cl_mem, MEM,
        (cl_mem mem, cl_mem_flags flags, cl_buffer_create_type type, const void *info),
        (mem, flags, type, info), USE (MEM, mem))
CREATE (clCreateImage, cl_mem, MEM,
        (cl_context context, cl_mem_flags flags, const cl_image_format *format,
         const cl_image_desc *desc, void *host),
        (context, flags, format, desc, host), USE (CONTEXT, context); USE_PARENT (desc))
CREATE (clCreateImageWithProperties, cl_mem, MEM,
        (cl_context context, const cl_mem_properties *properties, cl_mem_flags flags,
         const cl_image_format *format, const cl_image_desc *desc, void *host),
        (context, properties, flags, format, desc, host),
        USE (CONTEXT, context); USE_PARENT (desc))
CREATE (clCreateImage2D, cl_mem, MEM,
        (cl_context context, cl_mem_flags flags, const cl_image_format *format, size_t width,
         size_t height, size_t row_pitch, void *host),
        (context, flags, format, width, height, row_pitch, host), USE (CONTEXT, context))
CREATE (clCreateImage3D, cl_mem, MEM,
        (cl_context context, cl_mem_flags flags, const cl_image_format *format, size_t width,
         size_t height, size_t depth, size_t row_pitch, size_t slice_pitch, void *host),
        (context, flags, format, width, height, depth, row_pitch, slice_pitch, host),
        USE (CONTEXT, context))
CREATE (clCreatePipe, cl_mem, MEM,
        (cl_context context, cl_mem_flags flags, cl_uint packet_size, cl_uint max_packets,
         const cl_pipe_properties *properties),
        (context, flags, packet_size, max_packets, properties), USE (CONTEXT, context))
REFS (MemObject, MEM, cl_mem)
INFO (clGetMemObjectInfo, cl_mem, cl_mem_info, USE (MEM, object))
INFO (clGetImageInfo, cl_mem, cl_image_info, USE (MEM, object))
INFO (clGetPipeInfo, cl_mem, cl_pipe_info, USE (MEM, object))
PLAIN (clSetMemObjectDestructorCallback,
       (cl_mem mem, void (CL_CALLBACK *notify) (cl_mem, void *), void *data), (mem, notify, data),
       USE (MEM, mem))
SPECIAL (clSVMAlloc)
SPECIAL (clSVMFree)
SPECIAL (clEnqueueSVMFree)

CREATE (clCreateSampler, cl_sampler, SAMPLER,
        (cl_context context, cl_bool normalized, cl_addressing_mode addressing,
         cl_filter_mode filter),
        (context, normalized, addressing, filter), USE (CONTEXT, context))
CREATE (clCreateSamplerWithProperties, cl_sampler, SAMPLER,
        (cl_context context, const cl_sampler_properties *properties), (context, properties),
        USE (CONTEXT, context))
REFS (Sampler, SAMPLER, cl_sampler)
INFO (clGetSamplerInfo, cl_sampler, cl_sampler_info, USE (SAMPLER, object))

/* Programs and kernels */
CREATE (clCreateProgramWithSource, cl_program, PROGRAM,
        (cl_context context, cl_uint n, const char **strings, const size_t *lengths),
        (context, n, strings, lengths), USE (CONTEXT, context))
CREATE (clCreateProgramWithBinary, cl_program, PROGRAM,
        (cl_context context, cl_uint n, const cl_device_id *devices, const size_t *lengths,
         const unsigned char **binaries, cl_int *status),
        (context, n, devices, lengths, binaries, status),
        USE (CONTEXT, context); USE_LIST (DEVICE, n, devices))
CREATE (clCreateProgramWithBuiltInKernels, cl_program, PROGRAM,
        (cl_context context, cl_uint n, const cl_device_id *devices, const char *names),
        (context, n, devices, names), USE (CONTEXT, context); USE_LIST (DEVICE, n, devices))
CREATE (clCreateProgramWithIL, cl_program, PROGRAM,
        (cl_context context, const void *il, size_t length), (context, il, length),
        USE (CONTEXT, context))
CREATE (clLinkProgram, cl_program, PROGRAM,
        (cl_context context, cl_uint n, const cl_device_id *devices, const char *options,
         cl_uint n_inputs, const cl_program *inputs,
         void (CL_CALLBACK *notify) (cl_program, void *), void *data),
        (context, n, devices, options, n_inputs, inputs, notify, data),
        USE (CONTEXT, context); USE_LIST (DEVICE, n, devices);
        USE_LIST (PROGRAM, n_inputs, inputs))
REFS (Program, PROGRAM, cl_program)
PLAIN (clBuildProgram,
       (cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
        void (CL_CALLBACK *notify) (cl_program, void *), void *data),
       (program, n, devices, options, notify, data),
       USE (PROGRAM, program); USE_LIST (DEVICE, n, devices))
PLAIN (clCompileProgram,
       (cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
        cl_uint n_headers, const cl_program *headers, const char **names,
        void (CL_CALLBACK *notify) (cl_program, void *), void *data),
       (program, n, devices, options, n_headers, headers, names, notify, data),
       USE (PROGRAM, program); USE_LIST (DEVICE, n, devices);
       USE_LIST (PROGRAM, n_headers, headers))
PLAIN (clSetProgramReleaseCallback,
       (cl_program program, void (CL_CALLBACK *notify) (cl_program, void *), void *data),
       (program, notify, data), USE (PROGRAM, program))
PLAIN (clSetProgramSpecializationConstant,
       (cl_program program, cl_uint id, size_t size, const void *value),
       (program, id, size, value), USE (PROGRAM, program))
INFO (clGetProgramInfo, cl_program, cl_program_info, USE (PROGRAM, object))
PLAIN (clGetProgramBuildInfo,
       (cl_program program, cl_device_id device, cl_program_build_info info, size_t size,
        void *value, size_t *size_ret),
       (program, device, info, size, value, size_ret), USE (PROGRAM, program); USE (DEVICE, device))

CREATE (clCreateKernel, cl_kernel, KERNEL, (cl_program program, const char *name), (program, name),
        USE (PROGRAM, program))
SPECIAL (clCreateKernelsInProgram)
SPECIAL (clCloneKernel)
REFS (Kernel, KERNEL, cl_kernel)
SPECIAL (clSetKernelArg)
PLAIN (clSetKernelArgSVMPointer, (cl_kernel kernel, cl_uint index, const void *value),
       (kernel, index, value), USE (KERNEL, kernel); USE (SVM, value))
PLAIN (clSetKernelExecInfo,
       (cl_kernel kernel, cl_kernel_exec_info info, size_t size, const void *value),
       (kernel, info, size, value), USE (KERNEL, kernel))
INFO (clGetKernelInfo, cl_kernel, cl_kernel_info, USE (KERNEL, object))
PLAIN (clGetKernelArgInfo,
       (cl_kernel kernel, cl_uint index, cl_kernel_arg_info info, size_t size, void *value,
        size_t *size_ret),
       (kernel, index, info, size, value, size_ret), USE (KERNEL, kernel))
PLAIN (clGetKernelWorkGroupInfo,
       (cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info info, size_t size,
        void *value, size_t *size_ret),
       (kernel, device, info, size, value, size_ret), USE (KERNEL, kernel); USE (DEVICE, device))
PLAIN (clGetKernelSubGroupInfo,
       (cl_kernel kernel, cl_device_id device, cl_kernel_sub_group_info info, size_t input_size,
        const void *input, size_t size, void *value, size_t *size_ret),
       (kernel, device, info, input_size, input, size, value, size_ret),
       USE (KERNEL, kernel); USE (DEVICE, device))
PLAIN (clGetKernelSubGroupInfoKHR,
       (cl_kernel kernel, cl_device_id device, cl_kernel_sub_group_info info, size_t input_size,
        const void *input, size_t size, void *value, size_t *size_ret),
       (kernel, device, info, input_size, input, size, value, size_ret),
       USE (KERNEL, kernel); USE (DEVICE, device))

/* Events */
CREATE (clCreateUserEvent, cl_event, EVENT, (cl_context context), (context), USE (CONTEXT, context))
REFS (Event, EVENT, cl_event)
INFO (clGetEventInfo, cl_event, cl_event_info, USE (EVENT, object))
INFO (clGetEventProfilingInfo, cl_event, cl_profiling_info, USE (EVENT, object))
WAIT (clWaitForEvents, (cl_uint n, const cl_event *events), (n, events),
      USE_LIST (EVENT, n, events))
WAIT (clSetUserEventStatus, (cl_event event, cl_int status), (event, status), USE (EVENT, event))
PLAIN (clSetEventCallback,
       (cl_event event, cl_int type, void (CL_CALLBACK *notify) (cl_event, cl_int, void *),
        void *data),
       (event, type, notify, data), USE (EVENT, event))

/* Commands */
ENQUEUE (clEnqueueReadBuffer,
         (cl_mem mem, cl_bool blocking, size_t offset, size_t size, void *ptr),
         (mem, blocking, offset, size, ptr), USE (MEM, mem))
ENQUEUE (clEnqueueWriteBuffer,
         (cl_mem mem, cl_bool blocking, size_t offset, size_t size, const void *ptr),
         (mem, blocking, offset, size, ptr), USE (MEM, mem))
ENQUEUE (clEnqueueReadBufferRect, BUFFER_RECT (void *), BUFFER_RECT_ARGS, USE (MEM, mem))
ENQUEUE (clEnqueueWriteBufferRect, BUFFER_RECT (const void *), BUFFER_RECT_ARGS, USE (MEM, mem))
ENQUEUE (clEnqueueFillBuffer,
         (cl_mem mem, const void *pattern, size_t pattern_size, size_t offset, size_t size),
         (mem, pattern, pattern_size, offset, size), USE (MEM, mem))
ENQUEUE (clEnqueueCopyBuffer,
         (cl_mem src, cl_mem dst, size_t src_offset, size_t dst_offset, size_t size),
         (src, dst, src_offset, dst_offset, size), USE (MEM, src); USE (MEM, dst))
ENQUEUE (clEnqueueCopyBufferRect,
         (cl_mem src, cl_mem dst, const size_t *src_origin, const size_t *dst_origin,
          const size_t *region, size_t src_row_pitch, size_t src_slice_pitch,
          size_t dst_row_pitch, size_t dst_slice_pitch),
         (src, dst, src_origin, dst_origin, region, src_row_pitch, src_slice_pitch,
          dst_row_pitch, dst_slice_pitch), USE (MEM, src); USE (MEM, dst))
ENQUEUE (clEnqueueReadImage,
         (cl_mem mem, cl_bool blocking, const size_t *origin, const size_t *region,
          size_t row_pitch, size_t slice_pitch, void *ptr),
         (mem, blocking, origin, region, row_pitch, slice_pitch, ptr), USE (MEM, mem))
ENQUEUE (clEnqueueWriteImage,
         (cl_mem mem, cl_bool blocking, const size_t *origin, const size_t *region,
          size_t row_pitch, size_t slice_pitch, const void *ptr),
         (mem, blocking, origin, region, row_pitch, slice_pitch, ptr), USE (MEM, mem))
ENQUEUE (clEnqueueFillImage,
         (cl_mem mem, const void *color, const size_t *origin, const size_t *region),
         (mem, color, origin, region), USE (MEM, mem))
ENQUEUE (clEnqueueCopyImage,
         (cl_mem src, cl_mem dst, const size_t *src_origin, const size_t *dst_origin,
          const size_t *region),
         (src, dst, src_origin, dst_origin, region), USE (MEM, src); USE (MEM, dst))
ENQUEUE (clEnqueueCopyImageToBuffer,
         (cl_mem src, cl_mem dst, const size_t *src_origin, const size_t *region,
          size_t dst_offset),
         (src, dst, src_origin, region, dst_offset), USE (MEM, src); USE (MEM, dst))
ENQUEUE (clEnqueueCopyBufferToImage,
         (cl_mem src, cl_mem dst, size_t src_offset, const size_t *dst_origin,
          const size_t *region),
         (src, dst, src_offset, dst_origin, region), USE (MEM, src); USE (MEM, dst))
MAP (clEnqueueMapBuffer,
     (cl_mem mem, cl_bool blocking, cl_map_flags flags, size_t offset, size_t size),
     (mem, blocking, flags, offset, size), USE (MEM, mem))
MAP (clEnqueueMapImage,
     (cl_mem mem, cl_bool blocking, cl_map_flags flags, const size_t *origin,
      const size_t *region, size_t *row_pitch, size_t *slice_pitch),
     (mem, blocking, flags, origin, region, row_pitch, slice_pitch), USE (MEM, mem))
ENQUEUE (clEnqueueUnmapMemObject, (cl_mem mem, void *ptr), (mem, ptr),
         USE (MEM, mem); layer_unmap (&call, mem))
ENQUEUE (clEnqueueMigrateMemObjects,
         (cl_uint n, const cl_mem *mems, cl_mem_migration_flags flags), (n, mems, flags),
         USE_LIST (MEM, n, mems))
ENQUEUE (clEnqueueNDRangeKernel,
         (cl_kernel kernel, cl_uint n_dims, const size_t *offset, const size_t *global,
          const size_t *local),
         (kernel, n_dims, offset, global, local), USE (KERNEL, kernel); USE_ARGS (kernel))
ENQUEUE (clEnqueueTask, (cl_kernel kernel), (kernel), USE (KERNEL, kernel); USE_ARGS (kernel))
ENQUEUE (clEnqueueNativeKernel,
         (void (CL_CALLBACK *func) (void *), void *data, size_t size, cl_uint n,
          const cl_mem *mems, const void **places),
         (func, data, size, n, mems, places), USE_LIST (MEM, n, mems))
ENQUEUE (clEnqueueMarkerWithWaitList, (), (), )
ENQUEUE (clEnqueueBarrierWithWaitList, (), (), )
SPECIAL (clEnqueueMarker)
EXTENSION (clEnqueueAcquireExternalMemObjectsKHR)
EXTENSION (clEnqueueReleaseExternalMemObjectsKHR)
PLAIN (clEnqueueBarrier, (cl_command_queue queue), (queue), USE (QUEUE, queue))
PLAIN (clEnqueueWaitForEvents, (cl_command_queue queue, cl_uint n, const cl_event *events),
       (queue, n, events), USE (QUEUE, queue); USE_LIST (EVENT, n, events))
ENQUEUE (clEnqueueSVMMemcpy, (cl_bool blocking, void *dst, const void *src, size_t size),
         (blocking, dst, src, size), )
ENQUEUE (clEnqueueSVMMemFill, (void *ptr, const void *pattern, size_t pattern_size, size_t size),
         (ptr, pattern, pattern_size, size), USE (SVM, ptr))
ENQUEUE (clEnqueueSVMMap, (cl_bool blocking, cl_map_flags flags, void *ptr, size_t size),
         (blocking, flags, ptr, size), USE (SVM, ptr))
ENQUEUE (clEnqueueSVMUnmap, (void *ptr), (ptr), USE (SVM, ptr))
ENQUEUE (clEnqueueSVMMigrateMem,
         (cl_uint n, const void **ptrs, const size_t *sizes, cl_mem_migration_flags flags),
         (n, ptrs, sizes, flags), USE_LIST (SVM, n, ptrs))

#undef BUFFER_RECT
#undef BUFFER_RECT_ARGS
#undef INFO
#undef PLAIN
#undef WAIT
#undef ENQUEUE
#undef MAP
#undef CREATE
#undef REFS
#undef SPECIAL
#undef EXTENSION
#undef LAYER_CALL

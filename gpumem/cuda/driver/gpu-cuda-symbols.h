/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Every function of the CUDA driver that the back end calls. This file has no include guard,
 * because the function table, the loader, the check against cuda.h and the stand-in driver of the
 * tests include it.
 *
 *   GPU_CUDA_SYMBOL (group, name, version, parameters)
 *
 * @version is the CUDA version in which the function got these parameters; the loader passes it to
 * cuGetProcAddress(). Functions of the group CORE are required. Any other group is only available
 * if the driver has all of its functions.
 *
 *   GPU_CUDA_REVISION (group, name, revision, version, parameters)
 *
 * Lists a newer variant of a function that is also listed with its older parameters. The newer
 * variant follows the older one. In the function table, the name of the newer variant ends with
 * @revision. By default, this macro expands to GPU_CUDA_SYMBOL().
 *
 *   GPU_CUDA_UNSAFE (group, name, version, parameters, arguments)
 *   GPU_CUDA_UNSAFE_REVISION (group, name, revision, version, parameters, arguments)
 *
 * List functions that a driver may refuse while any stream of the process is being captured; the
 * driver then invalidates the capture (gpu-cuda-relaxed.c). @arguments are the names of the
 * parameters. By default, these macros expand to the two above.
 */
#ifndef GPU_CUDA_REVISION
#define GPU_CUDA_REVISION(group, name, revision, version, parameters) \
  GPU_CUDA_SYMBOL (group, name##revision, version, parameters)
#endif

#ifndef GPU_CUDA_UNSAFE
#define GPU_CUDA_UNSAFE(group, name, version, parameters, arguments) \
  GPU_CUDA_SYMBOL (group, name, version, parameters)
#define GPU_CUDA_UNSAFE_REVISION(group, name, revision, version, parameters, arguments) \
  GPU_CUDA_REVISION (group, name, revision, version, parameters)
#endif

/* The functions that are called most often come first, to share one cache line of the table. */
GPU_CUDA_SYMBOL (CORE, cuCtxGetCurrent, 4000, (CUcontext *context))
GPU_CUDA_SYMBOL (CORE, cuMemcpyDtoDAsync, 3020,
                 (CUdeviceptr destination, CUdeviceptr source, size_t size, CUstream stream))
GPU_CUDA_SYMBOL (CORE, cuLaunchKernel, 4000,
                 (CUfunction function, unsigned int grid_x, unsigned int grid_y,
                  unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                  unsigned int block_z, unsigned int shared_size, CUstream stream,
                  void **arguments, void **extra))

/* The driver */
GPU_CUDA_SYMBOL (CORE, cuInit, 2000, (unsigned int flags))
GPU_CUDA_SYMBOL (CORE, cuDriverGetVersion, 2020, (int *version))
GPU_CUDA_SYMBOL (CORE, cuGetErrorName, 6000, (CUresult error, const char **name))
GPU_CUDA_SYMBOL (CORE, cuGetErrorString, 6000, (CUresult error, const char **text))

/* Devices */
GPU_CUDA_SYMBOL (CORE, cuDeviceGetCount, 2000, (int *count))
GPU_CUDA_SYMBOL (CORE, cuDeviceGet, 2000, (CUdevice *device, int ordinal))
GPU_CUDA_SYMBOL (CORE, cuDeviceGetName, 2000, (char *name, int size, CUdevice device))
GPU_CUDA_SYMBOL (CORE, cuDeviceGetUuid, 11040, (CUuuid *uuid, CUdevice device))
GPU_CUDA_SYMBOL (CORE, cuDeviceTotalMem, 3020, (size_t *bytes, CUdevice device))
GPU_CUDA_SYMBOL (CORE, cuDeviceGetAttribute, 2000,
                 (int *value, CUdevice_attribute attribute, CUdevice device))
GPU_CUDA_SYMBOL (CORE, cuDeviceGetPCIBusId, 4010, (char *id, int size, CUdevice device))
GPU_CUDA_SYMBOL (CORE, cuDeviceCanAccessPeer, 4000,
                 (int *can_access, CUdevice device, CUdevice peer))
GPU_CUDA_SYMBOL (CORE, cuDeviceGetP2PAttribute, 8000,
                 (int *value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer))

/* Contexts */
GPU_CUDA_UNSAFE (CORE, cuDevicePrimaryCtxRetain, 7000,
                 (CUcontext *context, CUdevice device), (context, device))
GPU_CUDA_UNSAFE (CORE, cuDevicePrimaryCtxRelease, 11000, (CUdevice device), (device))
GPU_CUDA_SYMBOL (CORE, cuDevicePrimaryCtxGetState, 7000,
                 (CUdevice device, unsigned int *flags, int *active))
GPU_CUDA_SYMBOL (CORE, cuDevicePrimaryCtxSetFlags, 11000, (CUdevice device, unsigned int flags))
GPU_CUDA_UNSAFE (CORE, cuCtxCreate, 3020,
                 (CUcontext *context, unsigned int flags, CUdevice device),
                 (context, flags, device))
GPU_CUDA_UNSAFE (CORE, cuCtxDestroy, 4000, (CUcontext context), (context))
GPU_CUDA_SYMBOL (CORE, cuCtxPushCurrent, 4000, (CUcontext context))
GPU_CUDA_SYMBOL (CORE, cuCtxPopCurrent, 4000, (CUcontext *context))
GPU_CUDA_SYMBOL (CORE, cuCtxSetCurrent, 4000, (CUcontext context))
GPU_CUDA_SYMBOL (CORE, cuCtxGetDevice, 2000, (CUdevice *device))
GPU_CUDA_SYMBOL (CORE, cuCtxGetFlags, 7000, (unsigned int *flags))
GPU_CUDA_SYMBOL (CORE, cuCtxSynchronize, 2000, (void))
GPU_CUDA_SYMBOL (CORE, cuCtxGetLimit, 3010, (size_t *value, CUlimit limit))
GPU_CUDA_UNSAFE (CORE, cuCtxSetLimit, 3010, (CUlimit limit, size_t value), (limit, value))
GPU_CUDA_SYMBOL (CORE, cuCtxGetCacheConfig, 3020, (CUfunc_cache *config))
GPU_CUDA_SYMBOL (CORE, cuCtxSetCacheConfig, 3020, (CUfunc_cache config))
GPU_CUDA_SYMBOL (CORE, cuCtxGetApiVersion, 3020, (CUcontext context, unsigned int *version))
GPU_CUDA_SYMBOL (CORE, cuCtxGetStreamPriorityRange, 5050, (int *least, int *greatest))
GPU_CUDA_UNSAFE (CORE, cuCtxEnablePeerAccess, 4000,
                 (CUcontext peer, unsigned int flags), (peer, flags))
GPU_CUDA_UNSAFE (CORE, cuCtxDisablePeerAccess, 4000, (CUcontext peer), (peer))

/* Streams */
GPU_CUDA_SYMBOL (CORE, cuStreamCreateWithPriority, 5050,
                 (CUstream *stream, unsigned int flags, int priority))
GPU_CUDA_SYMBOL (CORE, cuStreamDestroy, 4000, (CUstream stream))
GPU_CUDA_UNSAFE (CORE, cuStreamSynchronize, 2000, (CUstream stream), (stream))
GPU_CUDA_UNSAFE (CORE, cuStreamQuery, 2000, (CUstream stream), (stream))
GPU_CUDA_SYMBOL (CORE, cuStreamWaitEvent, 3020,
                 (CUstream stream, CUevent event, unsigned int flags))
GPU_CUDA_SYMBOL (STREAM_WAIT, cuStreamWaitValue32, 11070,
                 (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags))
GPU_CUDA_SYMBOL (CORE, cuStreamGetPriority, 5050, (CUstream stream, int *priority))
GPU_CUDA_SYMBOL (CORE, cuStreamGetFlags, 5050, (CUstream stream, unsigned int *flags))
GPU_CUDA_SYMBOL (CORE, cuStreamGetCtx, 9020, (CUstream stream, CUcontext *context))
GPU_CUDA_SYMBOL (HOST_FUNCTION, cuLaunchHostFunc, 10000,
                 (CUstream stream, CUhostFn function, void *data))

GPU_CUDA_SYMBOL (STREAM_ID, cuStreamGetId, 12000, (CUstream stream, unsigned long long *id))

/* Graphs captured from streams */
GPU_CUDA_REVISION (CAPTURE, cuStreamGetCaptureInfo, _v2, 11030,
                   (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                    CUgraph *graph, const CUgraphNode **dependencies, size_t *n_dependencies))
GPU_CUDA_SYMBOL (CAPTURE, cuThreadExchangeStreamCaptureMode, 10010, (CUstreamCaptureMode *mode))
GPU_CUDA_SYMBOL (CAPTURE, cuUserObjectCreate, 11030,
                 (CUuserObject *object, void *pointer, CUhostFn destroy,
                  unsigned int n_references, unsigned int flags))
GPU_CUDA_SYMBOL (CAPTURE, cuUserObjectRelease, 11030,
                 (CUuserObject object, unsigned int n_references))
GPU_CUDA_SYMBOL (CAPTURE, cuGraphRetainUserObject, 11030,
                 (CUgraph graph, CUuserObject object, unsigned int n_references,
                  unsigned int flags))

/* Events */
GPU_CUDA_SYMBOL (CORE, cuEventCreate, 2000, (CUevent *event, unsigned int flags))
GPU_CUDA_SYMBOL (CORE, cuEventDestroy, 4000, (CUevent event))
GPU_CUDA_SYMBOL (CORE, cuEventRecord, 2000, (CUevent event, CUstream stream))
GPU_CUDA_UNSAFE (CORE, cuEventQuery, 2000, (CUevent event), (event))
GPU_CUDA_UNSAFE (CORE, cuEventSynchronize, 2000, (CUevent event), (event))
GPU_CUDA_SYMBOL (CORE, cuEventElapsedTime, 2000,
                 (float *milliseconds, CUevent start, CUevent end))

/* Memory */
GPU_CUDA_SYMBOL (CORE, cuMemGetInfo, 3020, (size_t *free_size, size_t *total_size))
GPU_CUDA_UNSAFE (CORE, cuMemAlloc, 3020, (CUdeviceptr *address, size_t size), (address, size))
GPU_CUDA_UNSAFE (CORE, cuMemAllocPitch, 3020,
                 (CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
                  unsigned int element_size), (address, pitch, width, height, element_size))
GPU_CUDA_UNSAFE (CORE, cuMemFree, 3020, (CUdeviceptr address), (address))
GPU_CUDA_SYMBOL (CORE, cuMemGetAddressRange, 3020,
                 (CUdeviceptr *base, size_t *size, CUdeviceptr address))
GPU_CUDA_UNSAFE (CORE, cuMemHostAlloc, 2020,
                 (void **data, size_t size, unsigned int flags), (data, size, flags))
GPU_CUDA_UNSAFE (CORE, cuMemFreeHost, 2000, (void *data), (data))
GPU_CUDA_UNSAFE (CORE, cuMemHostRegister, 6050,
                 (void *data, size_t size, unsigned int flags), (data, size, flags))
GPU_CUDA_UNSAFE (CORE, cuMemHostUnregister, 4000, (void *data), (data))
GPU_CUDA_SYMBOL (CORE, cuMemHostGetDevicePointer, 3020,
                 (CUdeviceptr *address, void *data, unsigned int flags))
GPU_CUDA_SYMBOL (CORE, cuMemHostGetFlags, 2030, (unsigned int *flags, void *data))
GPU_CUDA_SYMBOL (CORE, cuPointerGetAttribute, 4000,
                 (void *value, CUpointer_attribute attribute, CUdeviceptr address))
GPU_CUDA_SYMBOL (CORE, cuPointerGetAttributes, 7000,
                 (unsigned int n_attributes, CUpointer_attribute *attributes, void **values,
                  CUdeviceptr address))

/* Copies and fills */
GPU_CUDA_SYMBOL (CORE, cuMemcpyHtoDAsync, 3020,
                 (CUdeviceptr destination, const void *source, size_t size, CUstream stream))
GPU_CUDA_SYMBOL (CORE, cuMemcpyDtoHAsync, 3020,
                 (void *destination, CUdeviceptr source, size_t size, CUstream stream))
GPU_CUDA_SYMBOL (CORE, cuMemcpyAsync, 4000,
                 (CUdeviceptr destination, CUdeviceptr source, size_t size, CUstream stream))
GPU_CUDA_SYMBOL (CORE, cuMemcpyPeerAsync, 4000,
                 (CUdeviceptr destination, CUcontext destination_context, CUdeviceptr source,
                  CUcontext source_context, size_t size, CUstream stream))
GPU_CUDA_SYMBOL (CORE, cuMemcpy2DAsync, 3020, (const CUDA_MEMCPY2D *copy, CUstream stream))
GPU_CUDA_SYMBOL (CORE, cuMemcpy3DAsync, 3020, (const CUDA_MEMCPY3D *copy, CUstream stream))
GPU_CUDA_SYMBOL (CORE, cuMemcpy3DPeerAsync, 4000,
                 (const CUDA_MEMCPY3D_PEER *copy, CUstream stream))
GPU_CUDA_SYMBOL (CORE, cuMemcpyHtoD, 3020,
                 (CUdeviceptr destination, const void *source, size_t size))
GPU_CUDA_SYMBOL (CORE, cuMemcpyDtoH, 3020, (void *destination, CUdeviceptr source, size_t size))
GPU_CUDA_SYMBOL (CORE, cuMemsetD8Async, 3020,
                 (CUdeviceptr address, unsigned char value, size_t n_elements, CUstream stream))
GPU_CUDA_SYMBOL (CORE, cuMemsetD16Async, 3020,
                 (CUdeviceptr address, unsigned short value, size_t n_elements, CUstream stream))
GPU_CUDA_SYMBOL (CORE, cuMemsetD32Async, 3020,
                 (CUdeviceptr address, unsigned int value, size_t n_elements, CUstream stream))
GPU_CUDA_SYMBOL (CORE, cuMemsetD2D8Async, 3020,
                 (CUdeviceptr address, size_t pitch, unsigned char value, size_t width,
                  size_t height, CUstream stream))
GPU_CUDA_SYMBOL (CORE, cuMemsetD2D16Async, 3020,
                 (CUdeviceptr address, size_t pitch, unsigned short value, size_t width,
                  size_t height, CUstream stream))
GPU_CUDA_SYMBOL (CORE, cuMemsetD2D32Async, 3020,
                 (CUdeviceptr address, size_t pitch, unsigned int value, size_t width,
                  size_t height, CUstream stream))

/* Arrays, textures and surfaces */
GPU_CUDA_UNSAFE (IMAGE, cuArray3DCreate, 3020,
                 (CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor), (array, descriptor))
GPU_CUDA_UNSAFE (IMAGE, cuArrayDestroy, 2000, (CUarray array), (array))
GPU_CUDA_SYMBOL (IMAGE, cuArray3DGetDescriptor, 3020,
                 (CUDA_ARRAY3D_DESCRIPTOR *descriptor, CUarray array))
GPU_CUDA_UNSAFE (IMAGE, cuMipmappedArrayCreate, 5000,
                 (CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                  unsigned int n_levels), (array, descriptor, n_levels))
GPU_CUDA_UNSAFE (IMAGE, cuMipmappedArrayDestroy, 5000, (CUmipmappedArray array), (array))
GPU_CUDA_SYMBOL (IMAGE, cuMipmappedArrayGetLevel, 5000,
                 (CUarray *level_array, CUmipmappedArray array, unsigned int level))
GPU_CUDA_UNSAFE (IMAGE, cuTexObjectCreate, 5000,
                 (CUtexObject *object, const CUDA_RESOURCE_DESC *resource,
                  const CUDA_TEXTURE_DESC *texture, const CUDA_RESOURCE_VIEW_DESC *view),
                 (object, resource, texture, view))
GPU_CUDA_UNSAFE (IMAGE, cuTexObjectDestroy, 5000, (CUtexObject object), (object))
GPU_CUDA_UNSAFE (IMAGE, cuSurfObjectCreate, 5000,
                 (CUsurfObject *object, const CUDA_RESOURCE_DESC *resource), (object, resource))
GPU_CUDA_UNSAFE (IMAGE, cuSurfObjectDestroy, 5000, (CUsurfObject object), (object))

/* Programs and kernels */
GPU_CUDA_UNSAFE (CORE, cuModuleLoadDataEx, 2010,
                 (CUmodule *module, const void *image, unsigned int n_options,
                  CUjit_option *options, void **values),
                 (module, image, n_options, options, values))
GPU_CUDA_UNSAFE (CORE, cuModuleUnload, 2000, (CUmodule module), (module))
GPU_CUDA_SYMBOL (CORE, cuModuleGetFunction, 2000,
                 (CUfunction *function, CUmodule module, const char *name))
GPU_CUDA_SYMBOL (CORE, cuModuleGetGlobal, 3020,
                 (CUdeviceptr *address, size_t *size, CUmodule module, const char *name))
GPU_CUDA_SYMBOL (CORE, cuFuncGetAttribute, 2020,
                 (int *value, CUfunction_attribute attribute, CUfunction function))
GPU_CUDA_SYMBOL (CORE, cuFuncSetAttribute, 9000,
                 (CUfunction function, CUfunction_attribute attribute, int value))
GPU_CUDA_SYMBOL (CORE, cuFuncSetCacheConfig, 3000, (CUfunction function, CUfunc_cache config))
GPU_CUDA_SYMBOL (CORE, cuLaunchCooperativeKernel, 9000,
                 (CUfunction function, unsigned int grid_x, unsigned int grid_y,
                  unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                  unsigned int block_z, unsigned int shared_size, CUstream stream,
                  void **arguments))
GPU_CUDA_SYMBOL (CORE, cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050,
                 (int *n_blocks, CUfunction function, int block_size, size_t shared_size))
GPU_CUDA_SYMBOL (CORE, cuLinkCreate, 6050,
                 (unsigned int n_options, CUjit_option *options, void **values,
                  CUlinkState *state))
GPU_CUDA_SYMBOL (CORE, cuLinkAddData, 6050,
                 (CUlinkState state, CUjitInputType type, void *data, size_t size,
                  const char *name, unsigned int n_options, CUjit_option *options,
                  void **values))
GPU_CUDA_SYMBOL (CORE, cuLinkComplete, 5050, (CUlinkState state, void **cubin, size_t *size))
GPU_CUDA_SYMBOL (CORE, cuLinkDestroy, 5050, (CUlinkState state))
/* The lists of kernels and of kernel parameters, since CUDA 12.4. */
GPU_CUDA_SYMBOL (KERNEL_INFO, cuModuleGetFunctionCount, 12040,
                 (unsigned int *count, CUmodule module))
GPU_CUDA_SYMBOL (KERNEL_INFO, cuModuleEnumerateFunctions, 12040,
                 (CUfunction *functions, unsigned int n_functions, CUmodule module))
GPU_CUDA_SYMBOL (KERNEL_INFO, cuFuncGetName, 12030, (const char **name, CUfunction function))
GPU_CUDA_SYMBOL (KERNEL_INFO, cuFuncGetParamInfo, 12040,
                 (CUfunction function, size_t index, size_t *offset, size_t *size))

/* Profiler */
GPU_CUDA_SYMBOL (PROFILER, cuProfilerStart, 4000, (void))
GPU_CUDA_SYMBOL (PROFILER, cuProfilerStop, 4000, (void))

/* Interprocess communication */
GPU_CUDA_SYMBOL (IPC, cuIpcGetEventHandle, 4010, (CUipcEventHandle *handle, CUevent event))
GPU_CUDA_SYMBOL (IPC, cuIpcOpenEventHandle, 4010, (CUevent *event, CUipcEventHandle handle))
GPU_CUDA_SYMBOL (IPC, cuIpcGetMemHandle, 4010, (CUipcMemHandle *handle, CUdeviceptr address))
GPU_CUDA_UNSAFE (IPC, cuIpcOpenMemHandle, 11000,
                 (CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags),
                 (address, handle, flags))
GPU_CUDA_UNSAFE (IPC, cuIpcCloseMemHandle, 4010, (CUdeviceptr address), (address))

/* Stream-ordered memory */
GPU_CUDA_UNSAFE (STREAM_ORDERED, cuMemAllocAsync, 11020,
                 (CUdeviceptr *address, size_t size, CUstream stream), (address, size, stream))
GPU_CUDA_UNSAFE (STREAM_ORDERED, cuMemFreeAsync, 11020,
                 (CUdeviceptr address, CUstream stream), (address, stream))
GPU_CUDA_UNSAFE (STREAM_ORDERED, cuMemAllocFromPoolAsync, 11020,
                 (CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream),
                 (address, size, pool, stream))
GPU_CUDA_SYMBOL (STREAM_ORDERED, cuDeviceGetDefaultMemPool, 11020,
                 (CUmemoryPool *pool, CUdevice device))
GPU_CUDA_UNSAFE (STREAM_ORDERED, cuMemPoolCreate, 11020,
                 (CUmemoryPool *pool, const CUmemPoolProps *properties), (pool, properties))
GPU_CUDA_UNSAFE (STREAM_ORDERED, cuMemPoolDestroy, 11020, (CUmemoryPool pool), (pool))
GPU_CUDA_UNSAFE (STREAM_ORDERED, cuMemPoolTrimTo, 11020,
                 (CUmemoryPool pool, size_t keep), (pool, keep))
GPU_CUDA_UNSAFE (STREAM_ORDERED, cuMemPoolSetAttribute, 11020,
                 (CUmemoryPool pool, CUmemPool_attribute attribute, void *value),
                 (pool, attribute, value))
GPU_CUDA_UNSAFE (STREAM_ORDERED, cuMemPoolGetAttribute, 11020,
                 (CUmemoryPool pool, CUmemPool_attribute attribute, void *value),
                 (pool, attribute, value))
GPU_CUDA_UNSAFE (STREAM_ORDERED, cuMemPoolSetAccess, 11020,
                 (CUmemoryPool pool, const CUmemAccessDesc *access, size_t n_access),
                 (pool, access, n_access))
GPU_CUDA_SYMBOL (STREAM_ORDERED, cuMemPoolExportToShareableHandle, 11020,
                 (void *handle, CUmemoryPool pool, CUmemAllocationHandleType type,
                  unsigned long long flags))
GPU_CUDA_UNSAFE (STREAM_ORDERED, cuMemPoolImportFromShareableHandle, 11020,
                 (CUmemoryPool *pool, void *handle, CUmemAllocationHandleType type,
                  unsigned long long flags), (pool, handle, type, flags))
GPU_CUDA_SYMBOL (STREAM_ORDERED, cuMemPoolExportPointer, 11020,
                 (CUmemPoolPtrExportData *data, CUdeviceptr address))
GPU_CUDA_UNSAFE (STREAM_ORDERED, cuMemPoolImportPointer, 11020,
                 (CUdeviceptr *address, CUmemoryPool pool, CUmemPoolPtrExportData *data),
                 (address, pool, data))

/* Virtual memory */
GPU_CUDA_SYMBOL (VIRTUAL_MEMORY, cuMemGetAllocationGranularity, 10020,
                 (size_t *granularity, const CUmemAllocationProp *properties,
                  CUmemAllocationGranularity_flags option))
GPU_CUDA_UNSAFE (VIRTUAL_MEMORY, cuMemCreate, 10020,
                 (CUmemGenericAllocationHandle *handle, size_t size,
                  const CUmemAllocationProp *properties, unsigned long long flags),
                 (handle, size, properties, flags))
GPU_CUDA_UNSAFE (VIRTUAL_MEMORY, cuMemRelease, 10020,
                 (CUmemGenericAllocationHandle handle), (handle))
GPU_CUDA_UNSAFE (VIRTUAL_MEMORY, cuMemAddressReserve, 10020,
                 (CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr fixed,
                  unsigned long long flags), (address, size, alignment, fixed, flags))
GPU_CUDA_UNSAFE (VIRTUAL_MEMORY, cuMemAddressFree, 10020,
                 (CUdeviceptr address, size_t size), (address, size))
GPU_CUDA_UNSAFE (VIRTUAL_MEMORY, cuMemMap, 10020,
                 (CUdeviceptr address, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags),
                 (address, size, offset, handle, flags))
GPU_CUDA_UNSAFE (VIRTUAL_MEMORY, cuMemUnmap, 10020,
                 (CUdeviceptr address, size_t size), (address, size))
GPU_CUDA_UNSAFE (VIRTUAL_MEMORY, cuMemSetAccess, 10020,
                 (CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
                  size_t n_access), (address, size, access, n_access))
GPU_CUDA_SYMBOL (VIRTUAL_MEMORY, cuMemExportToShareableHandle, 10020,
                 (void *handle, CUmemGenericAllocationHandle allocation,
                  CUmemAllocationHandleType type, unsigned long long flags))
GPU_CUDA_UNSAFE (VIRTUAL_MEMORY, cuMemImportFromShareableHandle, 10020,
                 (CUmemGenericAllocationHandle *allocation, void *handle,
                  CUmemAllocationHandleType type), (allocation, handle, type))
GPU_CUDA_SYMBOL (VIRTUAL_MEMORY, cuMemRetainAllocationHandle, 11000,
                 (CUmemGenericAllocationHandle *allocation, void *address))

/* Import of memory from other libraries */
GPU_CUDA_UNSAFE (EXTERNAL_MEMORY, cuImportExternalMemory, 10000,
                 (CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *description),
                 (memory, description))
GPU_CUDA_UNSAFE (EXTERNAL_MEMORY, cuExternalMemoryGetMappedBuffer, 10000,
                 (CUdeviceptr *address, CUexternalMemory memory,
                  const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *description),
                 (address, memory, description))
GPU_CUDA_UNSAFE (EXTERNAL_MEMORY, cuDestroyExternalMemory, 10000,
                 (CUexternalMemory memory), (memory))

/* Export of memory to other libraries */
GPU_CUDA_SYMBOL (DMA_BUF, cuMemGetHandleForAddressRange, 11070,
                 (void *handle, CUdeviceptr address, size_t size, CUmemRangeHandleType type,
                  unsigned long long flags))

/* Managed memory */
GPU_CUDA_UNSAFE (MANAGED, cuMemAllocManaged, 6000,
                 (CUdeviceptr *address, size_t size, unsigned int flags), (address, size, flags))
GPU_CUDA_UNSAFE (MANAGED, cuStreamAttachMemAsync, 6000,
                 (CUstream stream, CUdeviceptr address, size_t size, unsigned int flags),
                 (stream, address, size, flags))
GPU_CUDA_SYMBOL (MANAGED, cuMemPrefetchAsync, 8000,
                 (CUdeviceptr address, size_t size, CUdevice device, CUstream stream))
GPU_CUDA_UNSAFE (MANAGED, cuMemAdvise, 8000,
                 (CUdeviceptr address, size_t size, CUmem_advise advice, CUdevice device),
                 (address, size, advice, device))
GPU_CUDA_SYMBOL (MANAGED, cuMemRangeGetAttribute, 8000,
                 (void *data, size_t data_size, CUmem_range_attribute attribute,
                  CUdeviceptr address, size_t size))
/* Variants that support locations other than devices, since CUDA 12.2. */
GPU_CUDA_REVISION (MEMORY_LOCATION, cuMemPrefetchAsync, _v2, 12020,
                   (CUdeviceptr address, size_t size, CUmemLocation location, unsigned int flags,
                    CUstream stream))
GPU_CUDA_UNSAFE_REVISION (MEMORY_LOCATION, cuMemAdvise, _v2, 12020,
                          (CUdeviceptr address, size_t size, CUmem_advise advice,
                           CUmemLocation location), (address, size, advice, location))

#undef GPU_CUDA_REVISION
#undef GPU_CUDA_UNSAFE
#undef GPU_CUDA_UNSAFE_REVISION

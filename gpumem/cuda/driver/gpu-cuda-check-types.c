/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Compares the types and values that the back end declares with the headers of the CUDA Toolkit.
 * This file is only compiled if configure finds a toolkit, and never linked.
 */
#include <cuda.h>

/* Rename the library's types, so that they can be declared next to those of the toolkit. */
#define CUresult                         gpu_CUresult
#define CUaddress_mode                   gpu_CUaddress_mode
#define CUarray_format                   gpu_CUarray_format
#define CUdevice_attribute               gpu_CUdevice_attribute
#define CUdevice_P2PAttribute            gpu_CUdevice_P2PAttribute
#define CUexternalMemoryHandleType       gpu_CUexternalMemoryHandleType
#define CUfilter_mode                    gpu_CUfilter_mode
#define CUfunction_attribute             gpu_CUfunction_attribute
#define CUfunc_cache                     gpu_CUfunc_cache
#define CUjit_option                     gpu_CUjit_option
#define CUjitInputType                   gpu_CUjitInputType
#define CUlibraryOption                  gpu_CUlibraryOption
#define CUlimit                          gpu_CUlimit
#define CUmemAccess_flags                gpu_CUmemAccess_flags
#define CUmemAllocationGranularity_flags gpu_CUmemAllocationGranularity_flags
#define CUmemAllocationHandleType        gpu_CUmemAllocationHandleType
#define CUmemAllocationType              gpu_CUmemAllocationType
#define CUmemLocationType                gpu_CUmemLocationType
#define CUmemRangeHandleType             gpu_CUmemRangeHandleType
#define CUmemorytype                     gpu_CUmemorytype
#define CUmem_advise                     gpu_CUmem_advise
#define CUmem_range_attribute            gpu_CUmem_range_attribute
#define CUmemPool_attribute              gpu_CUmemPool_attribute
#define CUpointer_attribute              gpu_CUpointer_attribute
#define CUresourcetype                   gpu_CUresourcetype
#define CUstreamCaptureMode              gpu_CUstreamCaptureMode
#define CUstreamCaptureStatus            gpu_CUstreamCaptureStatus
#define CUresourceViewFormat             gpu_CUresourceViewFormat
#define CUdriverProcAddressQueryResult   gpu_CUdriverProcAddressQueryResult
#define CUuuid                           gpu_CUuuid
#define CUipcMemHandle                   gpu_CUipcMemHandle
#define CUipcEventHandle                 gpu_CUipcEventHandle
#define CUDA_MEMCPY2D                    gpu_CUDA_MEMCPY2D
#define CUDA_MEMCPY3D                    gpu_CUDA_MEMCPY3D
#define CUDA_MEMCPY3D_PEER               gpu_CUDA_MEMCPY3D_PEER
#define CUDA_ARRAY3D_DESCRIPTOR          gpu_CUDA_ARRAY3D_DESCRIPTOR
#define CUDA_RESOURCE_DESC               gpu_CUDA_RESOURCE_DESC
#define CUDA_TEXTURE_DESC                gpu_CUDA_TEXTURE_DESC
#define CUDA_RESOURCE_VIEW_DESC          gpu_CUDA_RESOURCE_VIEW_DESC
#define CUDA_EXTERNAL_MEMORY_HANDLE_DESC gpu_CUDA_EXTERNAL_MEMORY_HANDLE_DESC
#define CUDA_EXTERNAL_MEMORY_BUFFER_DESC gpu_CUDA_EXTERNAL_MEMORY_BUFFER_DESC
#define CUmemLocation                    gpu_CUmemLocation
#define CUmemPoolProps                   gpu_CUmemPoolProps
#define CUmemPoolPtrExportData           gpu_CUmemPoolPtrExportData
#define CUmemAllocationProp              gpu_CUmemAllocationProp
#define CUmemAccessDesc                  gpu_CUmemAccessDesc

#define GPU_CUDA_CHECK
#include "gpumem/cuda/driver/gpu-cuda-types.h"

#undef CUresult
#undef CUaddress_mode
#undef CUarray_format
#undef CUdevice_attribute
#undef CUdevice_P2PAttribute
#undef CUexternalMemoryHandleType
#undef CUfilter_mode
#undef CUfunction_attribute
#undef CUfunc_cache
#undef CUjit_option
#undef CUjitInputType
#undef CUlibraryOption
#undef CUlimit
#undef CUmemAccess_flags
#undef CUmemAllocationGranularity_flags
#undef CUmemAllocationHandleType
#undef CUmemAllocationType
#undef CUmemLocationType
#undef CUmemRangeHandleType
#undef CUmemorytype
#undef CUmem_advise
#undef CUmem_range_attribute
#undef CUmemPool_attribute
#undef CUpointer_attribute
#undef CUresourcetype
#undef CUstreamCaptureMode
#undef CUstreamCaptureStatus
#undef CUresourceViewFormat
#undef CUdriverProcAddressQueryResult
#undef CUuuid
#undef CUipcMemHandle
#undef CUipcEventHandle
#undef CUDA_MEMCPY2D
#undef CUDA_MEMCPY3D
#undef CUDA_MEMCPY3D_PEER
#undef CUDA_ARRAY3D_DESCRIPTOR
#undef CUDA_RESOURCE_DESC
#undef CUDA_TEXTURE_DESC
#undef CUDA_RESOURCE_VIEW_DESC
#undef CUDA_EXTERNAL_MEMORY_HANDLE_DESC
#undef CUDA_EXTERNAL_MEMORY_BUFFER_DESC
#undef CUmemLocation
#undef CUmemPoolProps
#undef CUmemPoolPtrExportData
#undef CUmemAllocationProp
#undef CUmemAccessDesc

#define CONSTANT(name, value) _Static_assert ((int) name == value, #name);
GPU_CUDA_CONSTANTS (CONSTANT)

/* The list of errors matches CUDA 13; older toolkits have fewer errors. */
#if CUDA_VERSION >= 13000
#define GPU_CUDA_ERROR(name, value, error) _Static_assert (name == value, #name);
#include "gpumem/cuda/driver/gpu-cuda-errors.h"
#endif

#define ENUMERATION(type) _Static_assert (sizeof (gpu_##type) == sizeof (type), #type);
ENUMERATION (CUresult)
ENUMERATION (CUaddress_mode)
ENUMERATION (CUarray_format)
ENUMERATION (CUdevice_attribute)
ENUMERATION (CUdevice_P2PAttribute)
ENUMERATION (CUexternalMemoryHandleType)
ENUMERATION (CUfilter_mode)
ENUMERATION (CUfunction_attribute)
ENUMERATION (CUfunc_cache)
ENUMERATION (CUjit_option)
ENUMERATION (CUjitInputType)
ENUMERATION (CUlibraryOption)
ENUMERATION (CUlimit)
ENUMERATION (CUmemAccess_flags)
ENUMERATION (CUmemAllocationGranularity_flags)
ENUMERATION (CUmemAllocationHandleType)
ENUMERATION (CUmemAllocationType)
ENUMERATION (CUmemLocationType)
ENUMERATION (CUmemRangeHandleType)
ENUMERATION (CUmemorytype)
ENUMERATION (CUmem_advise)
ENUMERATION (CUmem_range_attribute)
ENUMERATION (CUmemPool_attribute)
ENUMERATION (CUpointer_attribute)
ENUMERATION (CUresourcetype)
ENUMERATION (CUstreamCaptureMode)
ENUMERATION (CUstreamCaptureStatus)
ENUMERATION (CUresourceViewFormat)
ENUMERATION (CUdriverProcAddressQueryResult)

#define STRUCTURE(type) _Static_assert (sizeof (gpu_##type) == sizeof (type), #type);
#define FIELD(type, field) \
  _Static_assert (G_STRUCT_OFFSET (gpu_##type, field) == G_STRUCT_OFFSET (type, field) && \
                  sizeof ((gpu_##type) { 0 }.field) == sizeof ((type) { 0 }.field), \
                  #type "." #field);

STRUCTURE (CUuuid)
FIELD (CUuuid, bytes)

STRUCTURE (CUipcMemHandle)
FIELD (CUipcMemHandle, reserved)

STRUCTURE (CUipcEventHandle)
FIELD (CUipcEventHandle, reserved)

STRUCTURE (CUDA_MEMCPY2D)
FIELD (CUDA_MEMCPY2D, srcXInBytes)
FIELD (CUDA_MEMCPY2D, srcY)
FIELD (CUDA_MEMCPY2D, srcMemoryType)
FIELD (CUDA_MEMCPY2D, srcHost)
FIELD (CUDA_MEMCPY2D, srcDevice)
FIELD (CUDA_MEMCPY2D, srcArray)
FIELD (CUDA_MEMCPY2D, srcPitch)
FIELD (CUDA_MEMCPY2D, dstXInBytes)
FIELD (CUDA_MEMCPY2D, dstY)
FIELD (CUDA_MEMCPY2D, dstMemoryType)
FIELD (CUDA_MEMCPY2D, dstHost)
FIELD (CUDA_MEMCPY2D, dstDevice)
FIELD (CUDA_MEMCPY2D, dstArray)
FIELD (CUDA_MEMCPY2D, dstPitch)
FIELD (CUDA_MEMCPY2D, WidthInBytes)
FIELD (CUDA_MEMCPY2D, Height)

STRUCTURE (CUDA_MEMCPY3D)
FIELD (CUDA_MEMCPY3D, srcXInBytes)
FIELD (CUDA_MEMCPY3D, srcY)
FIELD (CUDA_MEMCPY3D, srcZ)
FIELD (CUDA_MEMCPY3D, srcLOD)
FIELD (CUDA_MEMCPY3D, srcMemoryType)
FIELD (CUDA_MEMCPY3D, srcHost)
FIELD (CUDA_MEMCPY3D, srcDevice)
FIELD (CUDA_MEMCPY3D, srcArray)
FIELD (CUDA_MEMCPY3D, reserved0)
FIELD (CUDA_MEMCPY3D, srcPitch)
FIELD (CUDA_MEMCPY3D, srcHeight)
FIELD (CUDA_MEMCPY3D, dstXInBytes)
FIELD (CUDA_MEMCPY3D, dstY)
FIELD (CUDA_MEMCPY3D, dstZ)
FIELD (CUDA_MEMCPY3D, dstLOD)
FIELD (CUDA_MEMCPY3D, dstMemoryType)
FIELD (CUDA_MEMCPY3D, dstHost)
FIELD (CUDA_MEMCPY3D, dstDevice)
FIELD (CUDA_MEMCPY3D, dstArray)
FIELD (CUDA_MEMCPY3D, reserved1)
FIELD (CUDA_MEMCPY3D, dstPitch)
FIELD (CUDA_MEMCPY3D, dstHeight)
FIELD (CUDA_MEMCPY3D, WidthInBytes)
FIELD (CUDA_MEMCPY3D, Height)
FIELD (CUDA_MEMCPY3D, Depth)

STRUCTURE (CUDA_MEMCPY3D_PEER)
FIELD (CUDA_MEMCPY3D_PEER, srcXInBytes)
FIELD (CUDA_MEMCPY3D_PEER, srcY)
FIELD (CUDA_MEMCPY3D_PEER, srcZ)
FIELD (CUDA_MEMCPY3D_PEER, srcLOD)
FIELD (CUDA_MEMCPY3D_PEER, srcMemoryType)
FIELD (CUDA_MEMCPY3D_PEER, srcHost)
FIELD (CUDA_MEMCPY3D_PEER, srcDevice)
FIELD (CUDA_MEMCPY3D_PEER, srcArray)
FIELD (CUDA_MEMCPY3D_PEER, srcContext)
FIELD (CUDA_MEMCPY3D_PEER, srcPitch)
FIELD (CUDA_MEMCPY3D_PEER, srcHeight)
FIELD (CUDA_MEMCPY3D_PEER, dstXInBytes)
FIELD (CUDA_MEMCPY3D_PEER, dstY)
FIELD (CUDA_MEMCPY3D_PEER, dstZ)
FIELD (CUDA_MEMCPY3D_PEER, dstLOD)
FIELD (CUDA_MEMCPY3D_PEER, dstMemoryType)
FIELD (CUDA_MEMCPY3D_PEER, dstHost)
FIELD (CUDA_MEMCPY3D_PEER, dstDevice)
FIELD (CUDA_MEMCPY3D_PEER, dstArray)
FIELD (CUDA_MEMCPY3D_PEER, dstContext)
FIELD (CUDA_MEMCPY3D_PEER, dstPitch)
FIELD (CUDA_MEMCPY3D_PEER, dstHeight)
FIELD (CUDA_MEMCPY3D_PEER, WidthInBytes)
FIELD (CUDA_MEMCPY3D_PEER, Height)
FIELD (CUDA_MEMCPY3D_PEER, Depth)

STRUCTURE (CUDA_ARRAY3D_DESCRIPTOR)
FIELD (CUDA_ARRAY3D_DESCRIPTOR, Width)
FIELD (CUDA_ARRAY3D_DESCRIPTOR, Height)
FIELD (CUDA_ARRAY3D_DESCRIPTOR, Depth)
FIELD (CUDA_ARRAY3D_DESCRIPTOR, Format)
FIELD (CUDA_ARRAY3D_DESCRIPTOR, NumChannels)
FIELD (CUDA_ARRAY3D_DESCRIPTOR, Flags)

STRUCTURE (CUDA_RESOURCE_DESC)
FIELD (CUDA_RESOURCE_DESC, resType)
FIELD (CUDA_RESOURCE_DESC, res.array.hArray)
FIELD (CUDA_RESOURCE_DESC, res.mipmap.hMipmappedArray)
FIELD (CUDA_RESOURCE_DESC, res.linear.devPtr)
FIELD (CUDA_RESOURCE_DESC, res.linear.format)
FIELD (CUDA_RESOURCE_DESC, res.linear.numChannels)
FIELD (CUDA_RESOURCE_DESC, res.linear.sizeInBytes)
FIELD (CUDA_RESOURCE_DESC, res.pitch2D.devPtr)
FIELD (CUDA_RESOURCE_DESC, res.pitch2D.format)
FIELD (CUDA_RESOURCE_DESC, res.pitch2D.numChannels)
FIELD (CUDA_RESOURCE_DESC, res.pitch2D.width)
FIELD (CUDA_RESOURCE_DESC, res.pitch2D.height)
FIELD (CUDA_RESOURCE_DESC, res.pitch2D.pitchInBytes)
FIELD (CUDA_RESOURCE_DESC, res.reserved.reserved)
FIELD (CUDA_RESOURCE_DESC, flags)

STRUCTURE (CUDA_TEXTURE_DESC)
FIELD (CUDA_TEXTURE_DESC, addressMode)
FIELD (CUDA_TEXTURE_DESC, filterMode)
FIELD (CUDA_TEXTURE_DESC, flags)
FIELD (CUDA_TEXTURE_DESC, maxAnisotropy)
FIELD (CUDA_TEXTURE_DESC, mipmapFilterMode)
FIELD (CUDA_TEXTURE_DESC, mipmapLevelBias)
FIELD (CUDA_TEXTURE_DESC, minMipmapLevelClamp)
FIELD (CUDA_TEXTURE_DESC, maxMipmapLevelClamp)
FIELD (CUDA_TEXTURE_DESC, borderColor)
FIELD (CUDA_TEXTURE_DESC, reserved)

STRUCTURE (CUDA_RESOURCE_VIEW_DESC)
FIELD (CUDA_RESOURCE_VIEW_DESC, format)
FIELD (CUDA_RESOURCE_VIEW_DESC, width)
FIELD (CUDA_RESOURCE_VIEW_DESC, height)
FIELD (CUDA_RESOURCE_VIEW_DESC, depth)
FIELD (CUDA_RESOURCE_VIEW_DESC, firstMipmapLevel)
FIELD (CUDA_RESOURCE_VIEW_DESC, lastMipmapLevel)
FIELD (CUDA_RESOURCE_VIEW_DESC, firstLayer)
FIELD (CUDA_RESOURCE_VIEW_DESC, lastLayer)
FIELD (CUDA_RESOURCE_VIEW_DESC, reserved)

STRUCTURE (CUDA_EXTERNAL_MEMORY_HANDLE_DESC)
FIELD (CUDA_EXTERNAL_MEMORY_HANDLE_DESC, type)
FIELD (CUDA_EXTERNAL_MEMORY_HANDLE_DESC, handle)
FIELD (CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size)
FIELD (CUDA_EXTERNAL_MEMORY_HANDLE_DESC, flags)

STRUCTURE (CUDA_EXTERNAL_MEMORY_BUFFER_DESC)
FIELD (CUDA_EXTERNAL_MEMORY_BUFFER_DESC, offset)
FIELD (CUDA_EXTERNAL_MEMORY_BUFFER_DESC, size)
FIELD (CUDA_EXTERNAL_MEMORY_BUFFER_DESC, flags)

STRUCTURE (CUmemLocation)
FIELD (CUmemLocation, type)
FIELD (CUmemLocation, id)

STRUCTURE (CUmemPoolProps)
FIELD (CUmemPoolProps, allocType)
FIELD (CUmemPoolProps, handleTypes)
FIELD (CUmemPoolProps, location)
FIELD (CUmemPoolProps, win32SecurityAttributes)
FIELD (CUmemPoolProps, maxSize)
#if CUDA_VERSION >= 13000
FIELD (CUmemPoolProps, usage)
FIELD (CUmemPoolProps, reserved)
#endif

STRUCTURE (CUmemPoolPtrExportData)
FIELD (CUmemPoolPtrExportData, reserved)

STRUCTURE (CUmemAllocationProp)
FIELD (CUmemAllocationProp, type)
FIELD (CUmemAllocationProp, requestedHandleTypes)
FIELD (CUmemAllocationProp, location)
FIELD (CUmemAllocationProp, win32HandleMetaData)
FIELD (CUmemAllocationProp, allocFlags)
FIELD (CUmemAllocationProp, allocFlags.compressionType)
FIELD (CUmemAllocationProp, allocFlags.gpuDirectRDMACapable)
FIELD (CUmemAllocationProp, allocFlags.usage)
FIELD (CUmemAllocationProp, allocFlags.reserved)

STRUCTURE (CUmemAccessDesc)
FIELD (CUmemAccessDesc, location)
FIELD (CUmemAccessDesc, flags)

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The types and values of the CUDA driver API that the back end uses, under NVIDIA's names. If a
 * toolkit is installed, the build compares all of them with cuda.h.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

#if defined (_WIN32)
#define CUDAAPI __stdcall
#else
#define CUDAAPI
#endif

typedef int                   CUdevice;
typedef unsigned long long    CUdeviceptr;
typedef unsigned long long    CUmemGenericAllocationHandle;
typedef guint64               cuuint64_t;
typedef guint32               cuuint32_t;
typedef struct CUctx_st      *CUcontext;
typedef struct CUmod_st      *CUmodule;
typedef struct CUfunc_st     *CUfunction;
typedef struct CUlib_st      *CUlibrary;
typedef struct CUkern_st     *CUkernel;
typedef struct CUstream_st   *CUstream;
typedef struct CUevent_st    *CUevent;
typedef struct CUarray_st    *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef unsigned long long    CUtexObject;
typedef unsigned long long    CUsurfObject;
typedef struct CUlinkState_st *CUlinkState;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUextMemory_st *CUexternalMemory;
typedef struct CUgraph_st    *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUuserObject_st *CUuserObject;
typedef void (CUDAAPI *CUhostFn) (void *data);

/* Enumerations of the driver; their values are listed below. */
typedef unsigned int CUresult;
typedef unsigned int CUaddress_mode;
typedef unsigned int CUarray_format;
typedef unsigned int CUdevice_attribute;
typedef unsigned int CUdevice_P2PAttribute;
typedef unsigned int CUexternalMemoryHandleType;
typedef unsigned int CUfilter_mode;
typedef unsigned int CUfunction_attribute;
typedef unsigned int CUfunc_cache;
typedef unsigned int CUjit_option;
typedef unsigned int CUjitInputType;
typedef unsigned int CUlibraryOption;
typedef unsigned int CUlimit;
typedef unsigned int CUmemAccess_flags;
typedef unsigned int CUmemAllocationGranularity_flags;
typedef unsigned int CUmemAllocationHandleType;
typedef unsigned int CUmemAllocationType;
typedef unsigned int CUmemLocationType;
typedef unsigned int CUmemRangeHandleType;
typedef unsigned int CUmemorytype;
typedef unsigned int CUmem_advise;
typedef unsigned int CUmem_range_attribute;
typedef unsigned int CUmemPool_attribute;
typedef unsigned int CUpointer_attribute;
typedef unsigned int CUresourcetype;
typedef unsigned int CUstreamCaptureMode;
typedef unsigned int CUstreamCaptureStatus;
typedef unsigned int CUresourceViewFormat;
typedef unsigned int CUdriverProcAddressQueryResult;

/* These definitions equal those of cuda.h: the compiler would report any difference as a
 * redefinition. */
#define CU_STREAM_LEGACY     ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)
#define CU_IPC_HANDLE_SIZE   64
#define CU_DEVICE_CPU        ((CUdevice)-1)
#define CU_DEVICE_INVALID    ((CUdevice)-2)

#define GPU_CUDA_CONSTANTS(CONSTANT)                                   \
  CONSTANT (CU_GET_PROC_ADDRESS_DEFAULT, 0)                            \
  CONSTANT (CU_CTX_SCHED_AUTO, 0)                                      \
  CONSTANT (CU_CTX_SCHED_SPIN, 1)                                      \
  CONSTANT (CU_CTX_SCHED_YIELD, 2)                                     \
  CONSTANT (CU_CTX_SCHED_BLOCKING_SYNC, 4)                             \
  CONSTANT (CU_CTX_SCHED_MASK, 7)                                      \
  CONSTANT (CU_CTX_MAP_HOST, 8)                                        \
  CONSTANT (CU_CTX_LMEM_RESIZE_TO_MAX, 16)                             \
  CONSTANT (CU_COMPUTEMODE_DEFAULT, 0)                                 \
  CONSTANT (CU_COMPUTEMODE_PROHIBITED, 2)                              \
  CONSTANT (CU_COMPUTEMODE_EXCLUSIVE_PROCESS, 3)                       \
  CONSTANT (CU_STREAM_DEFAULT, 0)                                      \
  CONSTANT (CU_STREAM_NON_BLOCKING, 1)                                 \
  CONSTANT (CU_STREAM_WAIT_VALUE_GEQ, 0)                               \
  CONSTANT (CU_STREAM_CAPTURE_STATUS_NONE, 0)                          \
  CONSTANT (CU_STREAM_CAPTURE_STATUS_ACTIVE, 1)                        \
  CONSTANT (CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2)                   \
  CONSTANT (CU_STREAM_CAPTURE_MODE_GLOBAL, 0)                          \
  CONSTANT (CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)                    \
  CONSTANT (CU_STREAM_CAPTURE_MODE_RELAXED, 2)                         \
  CONSTANT (CU_USER_OBJECT_NO_DESTRUCTOR_SYNC, 1)                      \
  CONSTANT (CU_GRAPH_USER_OBJECT_MOVE, 1)                              \
  CONSTANT (CU_EVENT_DEFAULT, 0)                                       \
  CONSTANT (CU_EVENT_BLOCKING_SYNC, 1)                                 \
  CONSTANT (CU_EVENT_DISABLE_TIMING, 2)                                \
  CONSTANT (CU_EVENT_INTERPROCESS, 4)                                  \
  CONSTANT (CU_MEMORYTYPE_HOST, 1)                                     \
  CONSTANT (CU_MEMORYTYPE_DEVICE, 2)                                   \
  CONSTANT (CU_MEMORYTYPE_ARRAY, 3)                                    \
  CONSTANT (CU_MEMORYTYPE_UNIFIED, 4)                                  \
  CONSTANT (CU_MEMHOSTALLOC_PORTABLE, 1)                               \
  CONSTANT (CU_MEMHOSTALLOC_DEVICEMAP, 2)                              \
  CONSTANT (CU_MEMHOSTALLOC_WRITECOMBINED, 4)                          \
  CONSTANT (CU_MEMHOSTREGISTER_PORTABLE, 1)                            \
  CONSTANT (CU_MEMHOSTREGISTER_DEVICEMAP, 2)                           \
  CONSTANT (CU_MEMHOSTREGISTER_IOMEMORY, 4)                            \
  CONSTANT (CU_MEMHOSTREGISTER_READ_ONLY, 8)                           \
  CONSTANT (CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, 1)                     \
  CONSTANT (CU_LIMIT_STACK_SIZE, 0)                                    \
  CONSTANT (CU_LIMIT_PRINTF_FIFO_SIZE, 1)                              \
  CONSTANT (CU_LIMIT_MALLOC_HEAP_SIZE, 2)                              \
  CONSTANT (CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 5)                      \
  CONSTANT (CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 6)                      \
  CONSTANT (CU_FUNC_CACHE_PREFER_NONE, 0)                              \
  CONSTANT (CU_FUNC_CACHE_PREFER_SHARED, 1)                            \
  CONSTANT (CU_FUNC_CACHE_PREFER_L1, 2)                                \
  CONSTANT (CU_FUNC_CACHE_PREFER_EQUAL, 3)                             \
  CONSTANT (CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0)                \
  CONSTANT (CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)                    \
  CONSTANT (CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, 2)                     \
  CONSTANT (CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 3)                     \
  CONSTANT (CU_FUNC_ATTRIBUTE_NUM_REGS, 4)                             \
  CONSTANT (CU_FUNC_ATTRIBUTE_PTX_VERSION, 5)                          \
  CONSTANT (CU_FUNC_ATTRIBUTE_BINARY_VERSION, 6)                       \
  CONSTANT (CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, 7)                        \
  CONSTANT (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)        \
  CONSTANT (CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 9)     \
  CONSTANT (CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, 10)            \
  CONSTANT (CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 11)              \
  CONSTANT (CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, 12)             \
  CONSTANT (CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, 13)              \
  CONSTANT (CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 14)   \
  CONSTANT (CU_JIT_MAX_REGISTERS, 0)                                   \
  CONSTANT (CU_JIT_THREADS_PER_BLOCK, 1)                               \
  CONSTANT (CU_JIT_WALL_TIME, 2)                                       \
  CONSTANT (CU_JIT_INFO_LOG_BUFFER, 3)                                 \
  CONSTANT (CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, 4)                      \
  CONSTANT (CU_JIT_ERROR_LOG_BUFFER, 5)                                \
  CONSTANT (CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)                     \
  CONSTANT (CU_JIT_OPTIMIZATION_LEVEL, 7)                              \
  CONSTANT (CU_JIT_TARGET_FROM_CUCONTEXT, 8)                           \
  CONSTANT (CU_JIT_TARGET, 9)                                          \
  CONSTANT (CU_JIT_FALLBACK_STRATEGY, 10)                              \
  CONSTANT (CU_JIT_GENERATE_DEBUG_INFO, 11)                            \
  CONSTANT (CU_JIT_LOG_VERBOSE, 12)                                    \
  CONSTANT (CU_JIT_GENERATE_LINE_INFO, 13)                             \
  CONSTANT (CU_JIT_CACHE_MODE, 14)                                     \
  CONSTANT (CU_JIT_INPUT_CUBIN, 0)                                     \
  CONSTANT (CU_JIT_INPUT_PTX, 1)                                       \
  CONSTANT (CU_JIT_INPUT_FATBINARY, 2)                                 \
  CONSTANT (CU_JIT_INPUT_OBJECT, 3)                                    \
  CONSTANT (CU_JIT_INPUT_LIBRARY, 4)                                   \
  CONSTANT (CU_POINTER_ATTRIBUTE_CONTEXT, 1)                           \
  CONSTANT (CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                       \
  CONSTANT (CU_POINTER_ATTRIBUTE_DEVICE_POINTER, 3)                    \
  CONSTANT (CU_POINTER_ATTRIBUTE_HOST_POINTER, 4)                      \
  CONSTANT (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 6)                       \
  CONSTANT (CU_POINTER_ATTRIBUTE_BUFFER_ID, 7)                         \
  CONSTANT (CU_POINTER_ATTRIBUTE_IS_MANAGED, 8)                        \
  CONSTANT (CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                    \
  CONSTANT (CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, 10)       \
  CONSTANT (CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11)                 \
  CONSTANT (CU_POINTER_ATTRIBUTE_RANGE_SIZE, 12)                       \
  CONSTANT (CU_POINTER_ATTRIBUTE_MAPPED, 13)                           \
  CONSTANT (CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, 14)             \
  CONSTANT (CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, 15)       \
  CONSTANT (CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, 16)                     \
  CONSTANT (CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, 17)                   \
  CONSTANT (CU_POINTER_ATTRIBUTE_MAPPING_SIZE, 18)                     \
  CONSTANT (CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, 19)                \
  CONSTANT (CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, 20)                  \
  CONSTANT (CU_MEM_ATTACH_GLOBAL, 1)                                   \
  CONSTANT (CU_MEM_ATTACH_HOST, 2)                                     \
  CONSTANT (CU_MEM_ATTACH_SINGLE, 4)                                   \
  CONSTANT (CU_MEM_ADVISE_SET_READ_MOSTLY, 1)                          \
  CONSTANT (CU_MEM_ADVISE_UNSET_READ_MOSTLY, 2)                        \
  CONSTANT (CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 3)                   \
  CONSTANT (CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, 4)                 \
  CONSTANT (CU_MEM_ADVISE_SET_ACCESSED_BY, 5)                          \
  CONSTANT (CU_MEM_ADVISE_UNSET_ACCESSED_BY, 6)                        \
  CONSTANT (CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 1)                     \
  CONSTANT (CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, 2)              \
  CONSTANT (CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, 3)                     \
  CONSTANT (CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, 4)          \
  CONSTANT (CU_MEM_ALLOCATION_TYPE_PINNED, 1)                          \
  CONSTANT (CU_MEM_HANDLE_TYPE_NONE, 0)                                \
  CONSTANT (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1)               \
  CONSTANT (CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, 1)               \
  CONSTANT (CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 1)                    \
  CONSTANT (CU_MEM_LOCATION_TYPE_DEVICE, 1)                            \
  CONSTANT (CU_MEM_LOCATION_TYPE_HOST, 2)                              \
  CONSTANT (CU_MEM_LOCATION_TYPE_HOST_NUMA, 3)                         \
  CONSTANT (CU_MEM_ACCESS_FLAGS_PROT_NONE, 0)                          \
  CONSTANT (CU_MEM_ACCESS_FLAGS_PROT_READ, 1)                          \
  CONSTANT (CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3)                     \
  CONSTANT (CU_MEM_ALLOC_GRANULARITY_MINIMUM, 0)                       \
  CONSTANT (CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, 1)                   \
  CONSTANT (CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1)        \
  CONSTANT (CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 2)              \
  CONSTANT (CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 3)      \
  CONSTANT (CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 4)                      \
  CONSTANT (CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 5)                   \
  CONSTANT (CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 6)                      \
  CONSTANT (CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 7)                       \
  CONSTANT (CU_MEMPOOL_ATTR_USED_MEM_HIGH, 8)                          \
  CONSTANT (CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 1)               \
  CONSTANT (CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 2)               \
  CONSTANT (CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 3)        \
  CONSTANT (CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED, 4)    \
  CONSTANT (CU_AD_FORMAT_UNSIGNED_INT8, 0x01)                          \
  CONSTANT (CU_AD_FORMAT_UNSIGNED_INT16, 0x02)                         \
  CONSTANT (CU_AD_FORMAT_UNSIGNED_INT32, 0x03)                         \
  CONSTANT (CU_AD_FORMAT_SIGNED_INT8, 0x08)                            \
  CONSTANT (CU_AD_FORMAT_SIGNED_INT16, 0x09)                           \
  CONSTANT (CU_AD_FORMAT_SIGNED_INT32, 0x0a)                           \
  CONSTANT (CU_AD_FORMAT_HALF, 0x10)                                   \
  CONSTANT (CU_AD_FORMAT_FLOAT, 0x20)                                  \
  CONSTANT (CU_AD_FORMAT_UNORM_INT8X1, 0xc0)                           \
  CONSTANT (CU_AD_FORMAT_UNORM_INT8X2, 0xc1)                           \
  CONSTANT (CU_AD_FORMAT_UNORM_INT8X4, 0xc2)                           \
  CONSTANT (CU_AD_FORMAT_UNORM_INT16X1, 0xc3)                          \
  CONSTANT (CU_AD_FORMAT_UNORM_INT16X2, 0xc4)                          \
  CONSTANT (CU_AD_FORMAT_UNORM_INT16X4, 0xc5)                          \
  CONSTANT (CU_AD_FORMAT_SNORM_INT8X1, 0xc6)                           \
  CONSTANT (CU_AD_FORMAT_SNORM_INT8X2, 0xc7)                           \
  CONSTANT (CU_AD_FORMAT_SNORM_INT8X4, 0xc8)                           \
  CONSTANT (CU_AD_FORMAT_SNORM_INT16X1, 0xc9)                          \
  CONSTANT (CU_AD_FORMAT_SNORM_INT16X2, 0xca)                          \
  CONSTANT (CU_AD_FORMAT_SNORM_INT16X4, 0xcb)                          \
  CONSTANT (CUDA_ARRAY3D_LAYERED, 1)                                   \
  CONSTANT (CUDA_ARRAY3D_SURFACE_LDST, 2)                              \
  CONSTANT (CUDA_ARRAY3D_CUBEMAP, 4)                                   \
  CONSTANT (CUDA_ARRAY3D_TEXTURE_GATHER, 8)                            \
  CONSTANT (CUDA_ARRAY3D_DEPTH_TEXTURE, 16)                            \
  CONSTANT (CUDA_ARRAY3D_COLOR_ATTACHMENT, 32)                         \
  CONSTANT (CUDA_ARRAY3D_SPARSE, 64)                                   \
  CONSTANT (CUDA_ARRAY3D_DEFERRED_MAPPING, 128)                        \
  CONSTANT (CU_TR_ADDRESS_MODE_WRAP, 0)                                \
  CONSTANT (CU_TR_ADDRESS_MODE_CLAMP, 1)                               \
  CONSTANT (CU_TR_ADDRESS_MODE_MIRROR, 2)                              \
  CONSTANT (CU_TR_ADDRESS_MODE_BORDER, 3)                              \
  CONSTANT (CU_TR_FILTER_MODE_POINT, 0)                                \
  CONSTANT (CU_TR_FILTER_MODE_LINEAR, 1)                               \
  CONSTANT (CU_TRSF_READ_AS_INTEGER, 1)                                \
  CONSTANT (CU_TRSF_NORMALIZED_COORDINATES, 2)                         \
  CONSTANT (CU_TRSF_SRGB, 16)                                          \
  CONSTANT (CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION, 32)                \
  CONSTANT (CU_TRSF_SEAMLESS_CUBEMAP, 64)                              \
  CONSTANT (CU_RESOURCE_TYPE_ARRAY, 0)                                 \
  CONSTANT (CU_RESOURCE_TYPE_MIPMAPPED_ARRAY, 1)                       \
  CONSTANT (CU_RESOURCE_TYPE_LINEAR, 2)                                \
  CONSTANT (CU_RESOURCE_TYPE_PITCH2D, 3)

/* gpu-cuda-check-types.c uses the definitions of cuda.h instead. */
#ifndef GPU_CUDA_CHECK
#define GPU_CUDA_CONSTANT(name, value) name = value,
enum { GPU_CUDA_CONSTANTS (GPU_CUDA_CONSTANT) };
#undef GPU_CUDA_CONSTANT

enum
{
#define GPU_CUDA_ERROR(name, value, error) name = value,
#include "gpumem/cuda/driver/gpu-cuda-errors.h"
#undef GPU_CUDA_ERROR
};

enum
{
#define GPU_CUDA_ATTRIBUTE(name, value, kind) CU_DEVICE_ATTRIBUTE_##name = value,
#include "gpumem/cuda/driver/gpu-cuda-attributes.h"
#undef GPU_CUDA_ATTRIBUTE
};
#endif

typedef struct
{
  char bytes[16];
} CUuuid;

typedef struct
{
  char reserved[CU_IPC_HANDLE_SIZE];
} CUipcMemHandle;

typedef struct
{
  char reserved[CU_IPC_HANDLE_SIZE];
} CUipcEventHandle;

typedef struct
{
  size_t       srcXInBytes;
  size_t       srcY;
  CUmemorytype srcMemoryType;
  const void  *srcHost;
  CUdeviceptr  srcDevice;
  CUarray      srcArray;
  size_t       srcPitch;
  size_t       dstXInBytes;
  size_t       dstY;
  CUmemorytype dstMemoryType;
  void        *dstHost;
  CUdeviceptr  dstDevice;
  CUarray      dstArray;
  size_t       dstPitch;
  size_t       WidthInBytes;
  size_t       Height;
} CUDA_MEMCPY2D;

typedef struct
{
  size_t       srcXInBytes;
  size_t       srcY;
  size_t       srcZ;
  size_t       srcLOD;
  CUmemorytype srcMemoryType;
  const void  *srcHost;
  CUdeviceptr  srcDevice;
  CUarray      srcArray;
  void        *reserved0;
  size_t       srcPitch;
  size_t       srcHeight;
  size_t       dstXInBytes;
  size_t       dstY;
  size_t       dstZ;
  size_t       dstLOD;
  CUmemorytype dstMemoryType;
  void        *dstHost;
  CUdeviceptr  dstDevice;
  CUarray      dstArray;
  void        *reserved1;
  size_t       dstPitch;
  size_t       dstHeight;
  size_t       WidthInBytes;
  size_t       Height;
  size_t       Depth;
} CUDA_MEMCPY3D;

/* Like CUDA_MEMCPY3D, with contexts in place of the reserved fields. */
typedef struct
{
  size_t       srcXInBytes;
  size_t       srcY;
  size_t       srcZ;
  size_t       srcLOD;
  CUmemorytype srcMemoryType;
  const void  *srcHost;
  CUdeviceptr  srcDevice;
  CUarray      srcArray;
  CUcontext    srcContext;
  size_t       srcPitch;
  size_t       srcHeight;
  size_t       dstXInBytes;
  size_t       dstY;
  size_t       dstZ;
  size_t       dstLOD;
  CUmemorytype dstMemoryType;
  void        *dstHost;
  CUdeviceptr  dstDevice;
  CUarray      dstArray;
  CUcontext    dstContext;
  size_t       dstPitch;
  size_t       dstHeight;
  size_t       WidthInBytes;
  size_t       Height;
  size_t       Depth;
} CUDA_MEMCPY3D_PEER;

typedef struct
{
  size_t         Width;
  size_t         Height;
  size_t         Depth;
  CUarray_format Format;
  unsigned int   NumChannels;
  unsigned int   Flags;
} CUDA_ARRAY3D_DESCRIPTOR;

typedef struct
{
  CUresourcetype resType;
  union
  {
    struct
    {
      CUarray hArray;
    } array;
    struct
    {
      CUmipmappedArray hMipmappedArray;
    } mipmap;
    struct
    {
      CUdeviceptr    devPtr;
      CUarray_format format;
      unsigned int   numChannels;
      size_t         sizeInBytes;
    } linear;
    struct
    {
      CUdeviceptr    devPtr;
      CUarray_format format;
      unsigned int   numChannels;
      size_t         width;
      size_t         height;
      size_t         pitchInBytes;
    } pitch2D;
    struct
    {
      int reserved[32];
    } reserved;
  } res;
  unsigned int   flags;
} CUDA_RESOURCE_DESC;

typedef struct
{
  CUaddress_mode addressMode[3];
  CUfilter_mode  filterMode;
  unsigned int   flags;
  unsigned int   maxAnisotropy;
  CUfilter_mode  mipmapFilterMode;
  float          mipmapLevelBias;
  float          minMipmapLevelClamp;
  float          maxMipmapLevelClamp;
  float          borderColor[4];
  int            reserved[12];
} CUDA_TEXTURE_DESC;

typedef struct
{
  CUresourceViewFormat format;
  size_t               width;
  size_t               height;
  size_t               depth;
  unsigned int         firstMipmapLevel;
  unsigned int         lastMipmapLevel;
  unsigned int         firstLayer;
  unsigned int         lastLayer;
  unsigned int         reserved[16];
} CUDA_RESOURCE_VIEW_DESC;

/* A CUexternalMemoryHandleType that headers before CUDA 12.9 lack. */
#define GPU_CUDA_EXTERNAL_MEMORY_DMA_BUF_FD 9

typedef struct
{
  CUexternalMemoryHandleType type;
  union
  {
    int         fd;
    struct
    {
      void       *handle;
      const void *name;
    } win32;
    const void *nvSciBufObject;
  } handle;
  unsigned long long size;
  unsigned int       flags;
  unsigned int       reserved[16];
} CUDA_EXTERNAL_MEMORY_HANDLE_DESC;

typedef struct
{
  unsigned long long offset;
  unsigned long long size;
  unsigned int       flags;
  unsigned int       reserved[16];
} CUDA_EXTERNAL_MEMORY_BUFFER_DESC;

typedef struct
{
  CUmemLocationType type;
  int               id;
} CUmemLocation;

typedef struct
{
  CUmemAllocationType       allocType;
  CUmemAllocationHandleType handleTypes;
  CUmemLocation             location;
  void                     *win32SecurityAttributes;
  size_t                    maxSize;
  unsigned short            usage;
  unsigned char             reserved[54];
} CUmemPoolProps;

typedef struct
{
  unsigned char reserved[64];
} CUmemPoolPtrExportData;

typedef struct
{
  CUmemAllocationType       type;
  CUmemAllocationHandleType requestedHandleTypes;
  CUmemLocation             location;
  void                     *win32HandleMetaData;
  struct
  {
    unsigned char  compressionType;
    unsigned char  gpuDirectRDMACapable;
    unsigned short usage;
    unsigned char  reserved[4];
  } allocFlags;
} CUmemAllocationProp;

typedef struct
{
  CUmemLocation     location;
  CUmemAccess_flags flags;
} CUmemAccessDesc;

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <glib.h>

G_BEGIN_DECLS

/**
 * SECTION:gpu-enums
 * @title: Enumerations
 * @short_description: kinds and flags of everything
 *
 * The enumerations and flags that the classes share. In other languages they are
 * `Gpu.MapFlags.READ` and the like.
 */

/**
 * GpuDeviceType:
 * @GPU_DEVICE_TYPE_HOST: the host itself: plain memory, streams on threads
 * @GPU_DEVICE_TYPE_CPU: a CPU behind a driver, such as PoCL
 * @GPU_DEVICE_TYPE_GPU: a graphics processor
 * @GPU_DEVICE_TYPE_ACCELERATOR: any other accelerator
 *
 * What kind of processor a device is.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_DEVICE_TYPE_HOST,
  GPU_DEVICE_TYPE_CPU,
  GPU_DEVICE_TYPE_GPU,
  GPU_DEVICE_TYPE_ACCELERATOR
} GpuDeviceType;

/**
 * GpuCapabilities:
 * @GPU_CAPABILITIES_NONE: nothing beyond buffers and copies
 * @GPU_CAPABILITIES_SOURCE: programs build from source
 * @GPU_CAPABILITIES_BINARY: programs load from the device's own binaries
 * @GPU_CAPABILITIES_IL: programs load from SPIR-V
 * @GPU_CAPABILITIES_OUT_OF_ORDER: streams may run their work in any order
 * @GPU_CAPABILITIES_PROFILING: streams can time their work
 * @GPU_CAPABILITIES_PRIORITY: streams can have a priority
 * @GPU_CAPABILITIES_USER_EVENTS: events that the program completes itself
 * @GPU_CAPABILITIES_MAP: buffers can be mapped
 * @GPU_CAPABILITIES_SUB_BUFFERS: the driver makes slices with a handle of their own
 * @GPU_CAPABILITIES_HOST_POINTER: buffers can use memory of the host in place
 * @GPU_CAPABILITIES_ARGUMENT_INFO: kernels describe their arguments
 * @GPU_CAPABILITIES_FP16: kernels can compute with half precision
 * @GPU_CAPABILITIES_FP64: kernels can compute with double precision
 * @GPU_CAPABILITIES_IMAGES: images
 * @GPU_CAPABILITIES_SVM_COARSE: coarse grain shared virtual memory
 * @GPU_CAPABILITIES_SVM_FINE: fine grain shared virtual memory
 * @GPU_CAPABILITIES_SVM_SYSTEM: kernels can use any memory of the host
 * @GPU_CAPABILITIES_SVM_ATOMICS: atomic operations reach across host and device
 * @GPU_CAPABILITIES_NON_UNIFORM_GROUPS: a grid need not be a multiple of its block
 * @GPU_CAPABILITIES_HOST_MEMORY: the device computes in the memory of the host
 * @GPU_CAPABILITIES_STREAM_ORDERED: memory can be had in the order of a stream
 * @GPU_CAPABILITIES_IPC_HANDLES: memory and events pass to other processes as bytes
 * @GPU_CAPABILITIES_IPC_FDS: memory passes to other processes as file descriptors
 * @GPU_CAPABILITIES_COOPERATIVE: all work-groups of a launch can wait for one another
 * @GPU_CAPABILITIES_LINKING: programs can be linked from parts compiled before
 * @GPU_CAPABILITIES_GLOBALS: the variables of programs can be reached
 * @GPU_CAPABILITIES_IMAGE_FROM_BUFFER: images of two dimensions can be made over a buffer
 * @GPU_CAPABILITIES_IMAGE_3D_WRITES: kernels can write images of three dimensions
 * @GPU_CAPABILITIES_MIPMAPS: images can have mip levels
 * @GPU_CAPABILITIES_CUBEMAPS: images can be cubes
 * @GPU_CAPABILITIES_VIRTUAL_MEMORY: memory can be put behind addresses and taken away again, as
 *   pools do that grow in place
 *
 * What a device, through its driver, can do.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_CAPABILITIES_NONE               = 0,
  GPU_CAPABILITIES_SOURCE             = 1 << 0,
  GPU_CAPABILITIES_BINARY             = 1 << 1,
  GPU_CAPABILITIES_IL                 = 1 << 2,
  GPU_CAPABILITIES_OUT_OF_ORDER       = 1 << 3,
  GPU_CAPABILITIES_PROFILING          = 1 << 4,
  GPU_CAPABILITIES_PRIORITY           = 1 << 5,
  GPU_CAPABILITIES_USER_EVENTS        = 1 << 6,
  GPU_CAPABILITIES_MAP                = 1 << 7,
  GPU_CAPABILITIES_SUB_BUFFERS        = 1 << 8,
  GPU_CAPABILITIES_HOST_POINTER       = 1 << 9,
  GPU_CAPABILITIES_ARGUMENT_INFO      = 1 << 10,
  GPU_CAPABILITIES_FP16               = 1 << 11,
  GPU_CAPABILITIES_FP64               = 1 << 12,
  GPU_CAPABILITIES_IMAGES             = 1 << 13,
  GPU_CAPABILITIES_SVM_COARSE         = 1 << 14,
  GPU_CAPABILITIES_SVM_FINE           = 1 << 15,
  GPU_CAPABILITIES_SVM_SYSTEM         = 1 << 16,
  GPU_CAPABILITIES_SVM_ATOMICS        = 1 << 17,
  GPU_CAPABILITIES_NON_UNIFORM_GROUPS = 1 << 18,
  GPU_CAPABILITIES_HOST_MEMORY        = 1 << 19,
  GPU_CAPABILITIES_STREAM_ORDERED     = 1 << 20,
  GPU_CAPABILITIES_IPC_HANDLES        = 1 << 21,
  GPU_CAPABILITIES_IPC_FDS            = 1 << 22,
  GPU_CAPABILITIES_COOPERATIVE        = 1 << 23,
  GPU_CAPABILITIES_LINKING            = 1 << 24,
  GPU_CAPABILITIES_GLOBALS            = 1 << 25,
  GPU_CAPABILITIES_IMAGE_FROM_BUFFER  = 1 << 26,
  GPU_CAPABILITIES_IMAGE_3D_WRITES    = 1 << 27,
  GPU_CAPABILITIES_MIPMAPS            = 1 << 28,
  GPU_CAPABILITIES_CUBEMAPS           = 1 << 29,
  GPU_CAPABILITIES_VIRTUAL_MEMORY     = 1 << 30
} GpuCapabilities;

/**
 * GpuFdKinds:
 * @GPU_FD_KINDS_NONE: none
 * @GPU_FD_KINDS_OPAQUE: what the driver itself makes of memory: an allocation of CUDA, Vulkan or
 *   OpenCL; a sealed memfd on the host
 * @GPU_FD_KINDS_DMA_BUF: a dma-buf of Linux
 *
 * What a file descriptor of memory is, for gpu_buffer_export_fd() and gpu_buffer_new_from_fd().
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_FD_KINDS_NONE    = 0,
  GPU_FD_KINDS_OPAQUE  = 1 << 0,
  GPU_FD_KINDS_DMA_BUF = 1 << 1
} GpuFdKinds;

/**
 * GpuContextFlags:
 * @GPU_CONTEXT_FLAGS_NONE: threads that wait for the device poll for up to 20 milliseconds, and
 *   sleep then
 * @GPU_CONTEXT_FLAGS_SCHED_SPIN: threads that wait for the device spin
 * @GPU_CONTEXT_FLAGS_SCHED_YIELD: threads that wait for the device spin and let others run
 * @GPU_CONTEXT_FLAGS_SCHED_BLOCKING: threads that wait for the device sleep
 * @GPU_CONTEXT_FLAGS_MAP_HOST: kernels can reach page-locked memory of the host
 * @GPU_CONTEXT_FLAGS_LOCAL_MEMORY_RESIZE: private memory that a launch made grow does not shrink
 * @GPU_CONTEXT_FLAGS_OWN: a context of its own, not the one of the device that all libraries
 *   of a process share
 *
 * How a context behaves. The flags of scheduling exclude each other.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_CONTEXT_FLAGS_NONE                = 0,
  GPU_CONTEXT_FLAGS_SCHED_SPIN          = 1 << 0,
  GPU_CONTEXT_FLAGS_SCHED_YIELD         = 1 << 1,
  GPU_CONTEXT_FLAGS_SCHED_BLOCKING      = 1 << 2,
  GPU_CONTEXT_FLAGS_MAP_HOST            = 1 << 3,
  GPU_CONTEXT_FLAGS_LOCAL_MEMORY_RESIZE = 1 << 4,
  GPU_CONTEXT_FLAGS_OWN                 = 1 << 5
} GpuContextFlags;

/**
 * GpuCachePreference:
 * @GPU_CACHE_PREFERENCE_NONE: none
 * @GPU_CACHE_PREFERENCE_SHARED: more local memory, less cache
 * @GPU_CACHE_PREFERENCE_L1: more cache, less local memory
 * @GPU_CACHE_PREFERENCE_EQUAL: the same of both
 *
 * How kernels prefer that memory on the chip is divided, where cache and local memory share it.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_CACHE_PREFERENCE_NONE,
  GPU_CACHE_PREFERENCE_SHARED,
  GPU_CACHE_PREFERENCE_L1,
  GPU_CACHE_PREFERENCE_EQUAL
} GpuCachePreference;

/**
 * GpuLaunchFlags:
 * @GPU_LAUNCH_FLAGS_NONE: work-groups run in any order, a few at a time
 * @GPU_LAUNCH_FLAGS_COOPERATIVE: all work-groups run at the same time and can wait for one another
 *
 * How a kernel is launched.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_LAUNCH_FLAGS_NONE        = 0,
  GPU_LAUNCH_FLAGS_COOPERATIVE = 1 << 0
} GpuLaunchFlags;

/**
 * GpuMemoryFlags:
 * @GPU_MEMORY_FLAGS_NONE: kernels read and write, the host reads and writes, uses are tracked
 * @GPU_MEMORY_FLAGS_READ_ONLY: kernels only read. The program promises this: a kernel that writes
 *   the memory is not refused, and is not ordered as a write. The host and copies may write
 * @GPU_MEMORY_FLAGS_WRITE_ONLY: kernels only write
 * @GPU_MEMORY_FLAGS_HOST_READ_ONLY: the host only reads
 * @GPU_MEMORY_FLAGS_HOST_WRITE_ONLY: the host only writes
 * @GPU_MEMORY_FLAGS_HOST_NO_ACCESS: the host neither reads nor writes
 * @GPU_MEMORY_FLAGS_ALLOC_HOST: placed where host and device both reach it fast
 * @GPU_MEMORY_FLAGS_UNTRACKED: the program orders uses on several streams itself
 * @GPU_MEMORY_FLAGS_SHAREABLE: can be handed to another process as a file descriptor
 *
 * How memory will be used. The flags of kernels exclude each other, and so do the flags of the
 * host.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_MEMORY_FLAGS_NONE            = 0,
  GPU_MEMORY_FLAGS_READ_ONLY       = 1 << 0,
  GPU_MEMORY_FLAGS_WRITE_ONLY      = 1 << 1,
  GPU_MEMORY_FLAGS_HOST_READ_ONLY  = 1 << 2,
  GPU_MEMORY_FLAGS_HOST_WRITE_ONLY = 1 << 3,
  GPU_MEMORY_FLAGS_HOST_NO_ACCESS  = 1 << 4,
  GPU_MEMORY_FLAGS_ALLOC_HOST      = 1 << 5,
  GPU_MEMORY_FLAGS_UNTRACKED       = 1 << 6,
  GPU_MEMORY_FLAGS_SHAREABLE       = 1 << 7
} GpuMemoryFlags;

/**
 * GpuSvmFlags:
 * @GPU_SVM_FLAGS_NONE: coarse grain: the host reaches the memory while it is mapped
 * @GPU_SVM_FLAGS_FINE_GRAIN: the host reaches the memory at any time
 * @GPU_SVM_FLAGS_ATOMICS: atomic operations reach across host and device; together with
 *   @GPU_SVM_FLAGS_FINE_GRAIN
 * @GPU_SVM_FLAGS_USM_DEVICE: unified shared memory of the device, which the host does not reach
 * @GPU_SVM_FLAGS_USM_HOST: unified shared memory of the host, which kernels reach where it is
 * @GPU_SVM_FLAGS_USM_SHARED: unified shared memory that moves between host and device
 *
 * How closely host and device share memory. The kinds of unified shared memory (OpenCL:
 * cl_intel_unified_shared_memory) stand alone. A device has a kind if "access" is in its attribute
 * "device-mem-capabilities-intel", "host-mem-capabilities-intel" or
 * "single-device-shared-mem-capabilities-intel", see gpu_device_get_attributes().
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_SVM_FLAGS_NONE       = 0,
  GPU_SVM_FLAGS_FINE_GRAIN = 1 << 0,
  GPU_SVM_FLAGS_ATOMICS    = 1 << 1,
  GPU_SVM_FLAGS_USM_DEVICE = 1 << 2,
  GPU_SVM_FLAGS_USM_HOST   = 1 << 3,
  GPU_SVM_FLAGS_USM_SHARED = 1 << 4
} GpuSvmFlags;

/**
 * GpuSvmAttachment:
 * @GPU_SVM_ATTACHMENT_STREAM: one stream
 * @GPU_SVM_ATTACHMENT_GLOBAL: all streams
 * @GPU_SVM_ATTACHMENT_HOST: the host alone
 *
 * Who uses shared memory, for gpu_svm_attach().
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_SVM_ATTACHMENT_STREAM,
  GPU_SVM_ATTACHMENT_GLOBAL,
  GPU_SVM_ATTACHMENT_HOST
} GpuSvmAttachment;

/**
 * GpuMemoryAdvice:
 * @GPU_MEMORY_ADVICE_READ_MOSTLY: it is read far more often than written: whoever reads may have a
 *   copy of its own
 * @GPU_MEMORY_ADVICE_UNSET_READ_MOSTLY: no more
 * @GPU_MEMORY_ADVICE_PREFERRED_LOCATION: it should stay where the advice says
 * @GPU_MEMORY_ADVICE_UNSET_PREFERRED_LOCATION: no more
 * @GPU_MEMORY_ADVICE_ACCESSED_BY: it will be used from where the advice says, and should be within
 *   reach from there
 * @GPU_MEMORY_ADVICE_UNSET_ACCESSED_BY: no more
 *
 * How memory that moves between host and devices will be used, for gpu_svm_advise().
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_MEMORY_ADVICE_READ_MOSTLY,
  GPU_MEMORY_ADVICE_UNSET_READ_MOSTLY,
  GPU_MEMORY_ADVICE_PREFERRED_LOCATION,
  GPU_MEMORY_ADVICE_UNSET_PREFERRED_LOCATION,
  GPU_MEMORY_ADVICE_ACCESSED_BY,
  GPU_MEMORY_ADVICE_UNSET_ACCESSED_BY
} GpuMemoryAdvice;

/**
 * GpuWrapMode:
 * @GPU_WRAP_MODE_BORROW: the handle stays with its owner; where the driver counts references we
 *   take one of our own
 * @GPU_WRAP_MODE_ADOPT: the object takes the reference over and frees it
 *
 * Who owns a native handle that is wrapped.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_WRAP_MODE_BORROW,
  GPU_WRAP_MODE_ADOPT
} GpuWrapMode;

/**
 * GpuStreamFlags:
 * @GPU_STREAM_FLAGS_NONE: work runs in order, untimed
 * @GPU_STREAM_FLAGS_OUT_OF_ORDER: work on unrelated memory may run in any order
 * @GPU_STREAM_FLAGS_PROFILING: every operation is timed
 * @GPU_STREAM_FLAGS_NON_BLOCKING: never waits for a legacy default stream (CUDA)
 *
 * How a stream behaves.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_STREAM_FLAGS_NONE         = 0,
  GPU_STREAM_FLAGS_OUT_OF_ORDER = 1 << 0,
  GPU_STREAM_FLAGS_PROFILING    = 1 << 1,
  GPU_STREAM_FLAGS_NON_BLOCKING = 1 << 2
} GpuStreamFlags;

/**
 * GpuEventFlags:
 * @GPU_EVENT_FLAGS_NONE: the driver is asked for nothing until somebody waits
 * @GPU_EVENT_FLAGS_TIMING: the time of the point is taken
 * @GPU_EVENT_FLAGS_BLOCKING_SYNC: waiting threads sleep in the driver, once they have polled for as
 *   long as #GpuContextFlags say
 * @GPU_EVENT_FLAGS_INTERPROCESS: the event can be handed to another process, and tells no times
 *
 * What an event is for.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_EVENT_FLAGS_NONE          = 0,
  GPU_EVENT_FLAGS_TIMING        = 1 << 0,
  GPU_EVENT_FLAGS_BLOCKING_SYNC = 1 << 1,
  GPU_EVENT_FLAGS_INTERPROCESS  = 1 << 2
} GpuEventFlags;

/**
 * GpuEventStatus:
 * @GPU_EVENT_STATUS_PENDING: not yet reached
 * @GPU_EVENT_STATUS_COMPLETE: all the work before it is done
 * @GPU_EVENT_STATUS_FAILED: some of the work before it failed
 *
 * Where an event stands.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_EVENT_STATUS_PENDING,
  GPU_EVENT_STATUS_COMPLETE,
  GPU_EVENT_STATUS_FAILED
} GpuEventStatus;

/**
 * GpuProfilingPoint:
 * @GPU_PROFILING_POINT_QUEUED: enqueued by the program
 * @GPU_PROFILING_POINT_SUBMITTED: handed to the device
 * @GPU_PROFILING_POINT_STARTED: began to run
 * @GPU_PROFILING_POINT_ENDED: finished
 *
 * A moment in the life of an operation on a profiling stream.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_PROFILING_POINT_QUEUED,
  GPU_PROFILING_POINT_SUBMITTED,
  GPU_PROFILING_POINT_STARTED,
  GPU_PROFILING_POINT_ENDED
} GpuProfilingPoint;

/**
 * GpuHostMemoryFlags:
 * @GPU_HOST_MEMORY_FLAGS_NONE: copies between device and host are fast
 * @GPU_HOST_MEMORY_FLAGS_PORTABLE: it is page-locked for all contexts of the driver
 * @GPU_HOST_MEMORY_FLAGS_MAPPED: kernels reach it
 * @GPU_HOST_MEMORY_FLAGS_WRITE_COMBINED: the host only writes it, in order: slow to read
 * @GPU_HOST_MEMORY_FLAGS_READ_ONLY: for registered memory: nothing may write it, and every write
 *   through the library is refused
 *
 * What page-locked memory is for. A device without what @GPU_HOST_MEMORY_FLAGS_PORTABLE and
 * @GPU_HOST_MEMORY_FLAGS_WRITE_COMBINED ask for does without: they are hints.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_HOST_MEMORY_FLAGS_NONE           = 0,
  GPU_HOST_MEMORY_FLAGS_PORTABLE       = 1 << 0,
  GPU_HOST_MEMORY_FLAGS_MAPPED         = 1 << 1,
  GPU_HOST_MEMORY_FLAGS_WRITE_COMBINED = 1 << 2,
  GPU_HOST_MEMORY_FLAGS_READ_ONLY      = 1 << 3
} GpuHostMemoryFlags;

/**
 * GpuMapFlags:
 * @GPU_MAP_FLAGS_NONE: the same as @GPU_MAP_FLAGS_READ and @GPU_MAP_FLAGS_WRITE together
 * @GPU_MAP_FLAGS_READ: the host reads the mapping
 * @GPU_MAP_FLAGS_WRITE: the host writes the mapping; what it leaves alone is kept
 * @GPU_MAP_FLAGS_WRITE_INVALIDATE: the host writes all of the mapping; nothing is read first; not
 *   together with the others
 *
 * What the host does with a mapping.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_MAP_FLAGS_NONE             = 0,
  GPU_MAP_FLAGS_READ             = 1 << 0,
  GPU_MAP_FLAGS_WRITE            = 1 << 1,
  GPU_MAP_FLAGS_WRITE_INVALIDATE = 1 << 2
} GpuMapFlags;

/**
 * GpuMigrateFlags:
 * @GPU_MIGRATE_FLAGS_NONE: to the device of the stream
 * @GPU_MIGRATE_FLAGS_HOST: to the host
 * @GPU_MIGRATE_FLAGS_CONTENT_UNDEFINED: the content need not travel
 *
 * Where memory migrates and with what.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_MIGRATE_FLAGS_NONE              = 0,
  GPU_MIGRATE_FLAGS_HOST              = 1 << 0,
  GPU_MIGRATE_FLAGS_CONTENT_UNDEFINED = 1 << 1
} GpuMigrateFlags;

/**
 * GpuMemoryInfoSource:
 * @GPU_MEMORY_INFO_SOURCE_DRIVER: the driver told both figures
 * @GPU_MEMORY_INFO_SOURCE_EXTENSION: a vendor's extension told the free memory
 * @GPU_MEMORY_INFO_SOURCE_ACCOUNTING: the total less what all contexts of the process hold on the
 *   device; what other processes use is not known
 * @GPU_MEMORY_INFO_SOURCE_SYSTEM: the operating system told
 * @GPU_MEMORY_INFO_SOURCE_NVML: the management library of NVIDIA told the free memory
 *
 * Where a figure of free memory comes from.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_MEMORY_INFO_SOURCE_DRIVER,
  GPU_MEMORY_INFO_SOURCE_EXTENSION,
  GPU_MEMORY_INFO_SOURCE_ACCOUNTING,
  GPU_MEMORY_INFO_SOURCE_SYSTEM,
  GPU_MEMORY_INFO_SOURCE_NVML
} GpuMemoryInfoSource;

/**
 * GpuLimit:
 * @GPU_LIMIT_STACK_SIZE: bytes of stack of one work-item
 * @GPU_LIMIT_PRINTF_FIFO_SIZE: bytes of the buffer behind printf in kernels
 * @GPU_LIMIT_MALLOC_HEAP_SIZE: bytes of the heap behind malloc in kernels
 * @GPU_LIMIT_L2_FETCH_GRANULARITY: bytes that a miss of the second-level cache fetches at most
 * @GPU_LIMIT_PERSISTING_L2_SIZE: bytes of the second-level cache kept for data that stays
 *
 * A limit of a context.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_LIMIT_STACK_SIZE,
  GPU_LIMIT_PRINTF_FIFO_SIZE,
  GPU_LIMIT_MALLOC_HEAP_SIZE,
  GPU_LIMIT_L2_FETCH_GRANULARITY,
  GPU_LIMIT_PERSISTING_L2_SIZE
} GpuLimit;

/**
 * GpuProgramFlags:
 * @GPU_PROGRAM_FLAGS_NONE: built binaries are kept on disk and used again
 * @GPU_PROGRAM_FLAGS_NO_CACHE: always built anew, never stored
 *
 * How a program is built.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_PROGRAM_FLAGS_NONE     = 0,
  GPU_PROGRAM_FLAGS_NO_CACHE = 1 << 0
} GpuProgramFlags;

/**
 * GpuArgumentKind:
 * @GPU_ARGUMENT_KIND_UNKNOWN: the driver does not tell
 * @GPU_ARGUMENT_KIND_MEMORY: memory of the device
 * @GPU_ARGUMENT_KIND_LOCAL: memory of a work-group, given by its size
 * @GPU_ARGUMENT_KIND_VALUE: a value, copied at the launch
 * @GPU_ARGUMENT_KIND_IMAGE: an image
 * @GPU_ARGUMENT_KIND_SAMPLER: a sampler
 *
 * What a kernel takes as an argument.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_ARGUMENT_KIND_UNKNOWN,
  GPU_ARGUMENT_KIND_MEMORY,
  GPU_ARGUMENT_KIND_LOCAL,
  GPU_ARGUMENT_KIND_VALUE,
  GPU_ARGUMENT_KIND_IMAGE,
  GPU_ARGUMENT_KIND_SAMPLER
} GpuArgumentKind;

/**
 * GpuImageType:
 * @GPU_IMAGE_TYPE_IMAGE_1D: a row of texels
 * @GPU_IMAGE_TYPE_IMAGE_1D_ARRAY: rows that kernels choose from by number
 * @GPU_IMAGE_TYPE_IMAGE_1D_BUFFER: a row of texels over a buffer, read without a sampler
 * @GPU_IMAGE_TYPE_IMAGE_2D: rows of texels
 * @GPU_IMAGE_TYPE_IMAGE_2D_ARRAY: images of two dimensions that kernels choose from by number
 * @GPU_IMAGE_TYPE_IMAGE_3D: slices of rows of texels
 * @GPU_IMAGE_TYPE_CUBEMAP: the six sides of a cube
 * @GPU_IMAGE_TYPE_CUBEMAP_ARRAY: cubes that kernels choose from by number
 *
 * What dimensions an image has.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_IMAGE_TYPE_IMAGE_1D,
  GPU_IMAGE_TYPE_IMAGE_1D_ARRAY,
  GPU_IMAGE_TYPE_IMAGE_1D_BUFFER,
  GPU_IMAGE_TYPE_IMAGE_2D,
  GPU_IMAGE_TYPE_IMAGE_2D_ARRAY,
  GPU_IMAGE_TYPE_IMAGE_3D,
  GPU_IMAGE_TYPE_CUBEMAP,
  GPU_IMAGE_TYPE_CUBEMAP_ARRAY
} GpuImageType;

/**
 * GpuChannelOrder:
 * @GPU_CHANNEL_ORDER_R: red
 * @GPU_CHANNEL_ORDER_A: alpha
 * @GPU_CHANNEL_ORDER_RG: red, green
 * @GPU_CHANNEL_ORDER_RA: red, alpha
 * @GPU_CHANNEL_ORDER_RGB: red, green, blue
 * @GPU_CHANNEL_ORDER_RGBA: red, green, blue, alpha
 * @GPU_CHANNEL_ORDER_BGRA: blue, green, red, alpha
 * @GPU_CHANNEL_ORDER_ARGB: alpha, red, green, blue
 * @GPU_CHANNEL_ORDER_ABGR: alpha, blue, green, red
 * @GPU_CHANNEL_ORDER_INTENSITY: one value for all four components
 * @GPU_CHANNEL_ORDER_LUMINANCE: one value for red, green and blue
 * @GPU_CHANNEL_ORDER_DEPTH: the depth of a scene
 * @GPU_CHANNEL_ORDER_SRGBA: red, green, blue, alpha, the first three as sRGB
 * @GPU_CHANNEL_ORDER_SBGRA: blue, green, red, alpha, the first three as sRGB
 *
 * Which channels a texel has, in the order in which they stand in memory.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_CHANNEL_ORDER_R,
  GPU_CHANNEL_ORDER_A,
  GPU_CHANNEL_ORDER_RG,
  GPU_CHANNEL_ORDER_RA,
  GPU_CHANNEL_ORDER_RGB,
  GPU_CHANNEL_ORDER_RGBA,
  GPU_CHANNEL_ORDER_BGRA,
  GPU_CHANNEL_ORDER_ARGB,
  GPU_CHANNEL_ORDER_ABGR,
  GPU_CHANNEL_ORDER_INTENSITY,
  GPU_CHANNEL_ORDER_LUMINANCE,
  GPU_CHANNEL_ORDER_DEPTH,
  GPU_CHANNEL_ORDER_SRGBA,
  GPU_CHANNEL_ORDER_SBGRA
} GpuChannelOrder;

/**
 * GpuChannelType:
 * @GPU_CHANNEL_TYPE_UNORM8: 8 bits, from 0.0 to 1.0
 * @GPU_CHANNEL_TYPE_UNORM16: 16 bits, from 0.0 to 1.0
 * @GPU_CHANNEL_TYPE_SNORM8: 8 bits, from -1.0 to 1.0
 * @GPU_CHANNEL_TYPE_SNORM16: 16 bits, from -1.0 to 1.0
 * @GPU_CHANNEL_TYPE_UINT8: unsigned integers of 8 bits
 * @GPU_CHANNEL_TYPE_UINT16: unsigned integers of 16 bits
 * @GPU_CHANNEL_TYPE_UINT32: unsigned integers of 32 bits
 * @GPU_CHANNEL_TYPE_INT8: signed integers of 8 bits
 * @GPU_CHANNEL_TYPE_INT16: signed integers of 16 bits
 * @GPU_CHANNEL_TYPE_INT32: signed integers of 32 bits
 * @GPU_CHANNEL_TYPE_FLOAT16: floating-point numbers of 16 bits
 * @GPU_CHANNEL_TYPE_FLOAT32: floating-point numbers of 32 bits
 * @GPU_CHANNEL_TYPE_UNORM_565: three channels of 5, 6 and 5 bits in 16, from 0.0 to 1.0
 * @GPU_CHANNEL_TYPE_UNORM_555: three channels of 5 bits in 16, from 0.0 to 1.0
 * @GPU_CHANNEL_TYPE_UNORM_101010: three channels of 10 bits in 32, from 0.0 to 1.0
 *
 * What a channel of a texel holds.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_CHANNEL_TYPE_UNORM8,
  GPU_CHANNEL_TYPE_UNORM16,
  GPU_CHANNEL_TYPE_SNORM8,
  GPU_CHANNEL_TYPE_SNORM16,
  GPU_CHANNEL_TYPE_UINT8,
  GPU_CHANNEL_TYPE_UINT16,
  GPU_CHANNEL_TYPE_UINT32,
  GPU_CHANNEL_TYPE_INT8,
  GPU_CHANNEL_TYPE_INT16,
  GPU_CHANNEL_TYPE_INT32,
  GPU_CHANNEL_TYPE_FLOAT16,
  GPU_CHANNEL_TYPE_FLOAT32,
  GPU_CHANNEL_TYPE_UNORM_565,
  GPU_CHANNEL_TYPE_UNORM_555,
  GPU_CHANNEL_TYPE_UNORM_101010
} GpuChannelType;

/**
 * GpuAddressMode:
 * @GPU_ADDRESS_MODE_NONE: kernels stay within the image; what they read outside is undefined
 * @GPU_ADDRESS_MODE_CLAMP_TO_EDGE: outside are the texels at the edge
 * @GPU_ADDRESS_MODE_CLAMP_TO_BORDER: outside is the color of the border
 * @GPU_ADDRESS_MODE_REPEAT: outside the image begins again; normalized coordinates only
 * @GPU_ADDRESS_MODE_MIRRORED_REPEAT: outside the image begins again, mirrored every second time;
 *   normalized coordinates only
 *
 * What kernels read outside of an image.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_ADDRESS_MODE_NONE,
  GPU_ADDRESS_MODE_CLAMP_TO_EDGE,
  GPU_ADDRESS_MODE_CLAMP_TO_BORDER,
  GPU_ADDRESS_MODE_REPEAT,
  GPU_ADDRESS_MODE_MIRRORED_REPEAT
} GpuAddressMode;

/**
 * GpuFilterMode:
 * @GPU_FILTER_MODE_NEAREST: the nearest texel
 * @GPU_FILTER_MODE_LINEAR: what lies between the nearest texels, by the distance to each
 *
 * What kernels read between the texels of an image, or between its mip levels.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_FILTER_MODE_NEAREST,
  GPU_FILTER_MODE_LINEAR
} GpuFilterMode;

/**
 * GpuReadMode:
 * @GPU_READ_MODE_FORMAT: what the format of the image says: integers as integers, normalized ones
 *   as floating-point numbers
 * @GPU_READ_MODE_ELEMENT: integers as they stand in memory, normalized or not
 * @GPU_READ_MODE_NORMALIZED: integers of 8 and 16 bits as floating-point numbers from 0.0 or -1.0
 *   to 1.0, normalized or not
 *
 * As what kernels read integers.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_READ_MODE_FORMAT,
  GPU_READ_MODE_ELEMENT,
  GPU_READ_MODE_NORMALIZED
} GpuReadMode;

/**
 * GpuMemoryPoolKind:
 * @GPU_MEMORY_POOL_AUTOMATIC: the best that the device, or the allocator, can do: the first that
 *   follows
 * @GPU_MEMORY_POOL_EXPANDABLE: one range of addresses, behind which memory is put as it is needed,
 *   and moved: needs %GPU_CAPABILITIES_VIRTUAL_MEMORY
 * @GPU_MEMORY_POOL_SEGMENTS: large allocations that blocks are cut from: needs memory with
 *   addresses, or %GPU_CAPABILITIES_SUB_BUFFERS. On OpenCL each new block costs a sub-buffer
 *   (clCreateSubBuffer)
 * @GPU_MEMORY_POOL_BINS: whole allocations, with sizes rounded up so that later requests fit. A
 *   program with many different sizes may hold many times the memory that it uses, as an
 *   allocation only serves requests of its own size class. %GPU_MEMORY_POOL_AUTOMATIC chooses bins
 *   only for shared virtual memory that host and device cannot use at the same time
 *
 * How a pool manages its memory.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_MEMORY_POOL_AUTOMATIC,
  GPU_MEMORY_POOL_EXPANDABLE,
  GPU_MEMORY_POOL_SEGMENTS,
  GPU_MEMORY_POOL_BINS
} GpuMemoryPoolKind;

/**
 * GpuDTypeKind:
 * @GPU_DTYPE_KIND_BOOL: truth values of one byte
 * @GPU_DTYPE_KIND_INT: integers with a sign
 * @GPU_DTYPE_KIND_UINT: integers without
 * @GPU_DTYPE_KIND_FLOAT: floating-point numbers of IEEE 754, and what C calls a long double
 * @GPU_DTYPE_KIND_BFLOAT: floating-point numbers with the exponent of 32 bits in 16
 * @GPU_DTYPE_KIND_COMPLEX: two floating-point numbers
 * @GPU_DTYPE_KIND_OPAQUE: bytes that only the program understands
 * @GPU_DTYPE_KIND_RECORD: structures with fields
 *
 * What the elements of an array are.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_DTYPE_KIND_BOOL,
  GPU_DTYPE_KIND_INT,
  GPU_DTYPE_KIND_UINT,
  GPU_DTYPE_KIND_FLOAT,
  GPU_DTYPE_KIND_BFLOAT,
  GPU_DTYPE_KIND_COMPLEX,
  GPU_DTYPE_KIND_OPAQUE,
  GPU_DTYPE_KIND_RECORD
} GpuDTypeKind;

/**
 * GpuArrayOrder:
 * @GPU_ARRAY_ORDER_C: the last index moves fastest, as in C
 * @GPU_ARRAY_ORDER_F: the first index moves fastest, as in Fortran
 *
 * In which order elements follow each other.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_ARRAY_ORDER_C,
  GPU_ARRAY_ORDER_F
} GpuArrayOrder;

G_END_DECLS

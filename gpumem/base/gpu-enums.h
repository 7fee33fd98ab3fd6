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
 * @short_description: enumerations and flags
 *
 * The enumerations and flags that the classes share. Language bindings name them
 * `Gpu.MapFlags.READ` and the like.
 */

/**
 * GpuDeviceType:
 * @GPU_DEVICE_TYPE_HOST: the host: plain memory, with streams that run on threads
 * @GPU_DEVICE_TYPE_CPU: a CPU behind a driver, such as PoCL
 * @GPU_DEVICE_TYPE_GPU: a graphics processor
 * @GPU_DEVICE_TYPE_ACCELERATOR: any other accelerator
 *
 * The kind of processor behind a device.
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
 * @GPU_CAPABILITIES_NONE: only buffers and copies
 * @GPU_CAPABILITIES_SOURCE: building programs from source
 * @GPU_CAPABILITIES_BINARY: loading programs from binaries of the device
 * @GPU_CAPABILITIES_IL: loading programs from SPIR-V
 * @GPU_CAPABILITIES_OUT_OF_ORDER: streams that may run their work in any order
 * @GPU_CAPABILITIES_PROFILING: streams that time their work
 * @GPU_CAPABILITIES_PRIORITY: streams with a priority
 * @GPU_CAPABILITIES_USER_EVENTS: events that the program completes
 * @GPU_CAPABILITIES_MAP: mapping of buffers
 * @GPU_CAPABILITIES_SUB_BUFFERS: slices of buffers, each with a native handle of its own
 * @GPU_CAPABILITIES_HOST_POINTER: buffers that use host memory in place
 * @GPU_CAPABILITIES_ARGUMENT_INFO: kernels that describe their arguments
 * @GPU_CAPABILITIES_FP16: half-precision arithmetic in kernels
 * @GPU_CAPABILITIES_FP64: double-precision arithmetic in kernels
 * @GPU_CAPABILITIES_IMAGES: images
 * @GPU_CAPABILITIES_SVM_COARSE: coarse-grain shared virtual memory
 * @GPU_CAPABILITIES_SVM_FINE: fine-grain shared virtual memory
 * @GPU_CAPABILITIES_SVM_SYSTEM: kernels that use any host memory
 * @GPU_CAPABILITIES_SVM_ATOMICS: atomic operations between host and device
 * @GPU_CAPABILITIES_NON_UNIFORM_GROUPS: launches whose grid is not a multiple of the block
 * @GPU_CAPABILITIES_HOST_MEMORY: the memory of the device is host memory
 * @GPU_CAPABILITIES_STREAM_ORDERED: allocation of memory in stream order
 * @GPU_CAPABILITIES_IPC_HANDLES: sharing of memory and events with other processes by means of
 *   handles, which are bytes
 * @GPU_CAPABILITIES_IPC_FDS: sharing of memory with other processes by means of file descriptors
 * @GPU_CAPABILITIES_COOPERATIVE: launches whose work-groups can all wait for one another
 * @GPU_CAPABILITIES_LINKING: linking programs from parts that were compiled separately
 * @GPU_CAPABILITIES_GLOBALS: access to the global variables of programs
 * @GPU_CAPABILITIES_IMAGE_FROM_BUFFER: two-dimensional images over the memory of a buffer
 * @GPU_CAPABILITIES_IMAGE_3D_WRITES: kernels that write three-dimensional images
 * @GPU_CAPABILITIES_MIPMAPS: images with mip levels
 * @GPU_CAPABILITIES_CUBEMAPS: cubemaps
 * @GPU_CAPABILITIES_VIRTUAL_MEMORY: mapping and unmapping of physical memory at reserved addresses,
 *   as required by pools that grow in place
 *
 * The features that a device and its driver support.
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
 * @GPU_FD_KINDS_NONE: no kind
 * @GPU_FD_KINDS_OPAQUE: the driver's own kind: an allocation of CUDA, Vulkan or OpenCL; a sealed
 *   memfd on the host
 * @GPU_FD_KINDS_DMA_BUF: a Linux dma-buf
 *
 * The kinds of file descriptors that refer to memory, for gpu_buffer_export_fd() and
 * gpu_buffer_new_from_fd().
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
 * @GPU_CONTEXT_FLAGS_NONE: threads that wait for the device poll for up to 20 milliseconds, then
 *   sleep
 * @GPU_CONTEXT_FLAGS_SCHED_SPIN: threads that wait for the device poll without sleeping
 * @GPU_CONTEXT_FLAGS_SCHED_YIELD: threads that wait for the device poll, and yield to other threads
 *   between two polls
 * @GPU_CONTEXT_FLAGS_SCHED_BLOCKING: threads that wait for the device sleep
 * @GPU_CONTEXT_FLAGS_MAP_HOST: kernels can access page-locked host memory
 * @GPU_CONTEXT_FLAGS_LOCAL_MEMORY_RESIZE: if the private memory of kernels grows for a launch, it
 *   does not shrink after that launch
 * @GPU_CONTEXT_FLAGS_OWN: a new context, instead of the device's context that all libraries of a
 *   process share
 *
 * The behavior of a context. The scheduling flags exclude each other.
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
 * @GPU_CACHE_PREFERENCE_NONE: no preference
 * @GPU_CACHE_PREFERENCE_SHARED: more local memory, less cache
 * @GPU_CACHE_PREFERENCE_L1: more cache, less local memory
 * @GPU_CACHE_PREFERENCE_EQUAL: as much cache as local memory
 *
 * The preferred division of on-chip memory, on devices where cache and local memory share that
 * memory.
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
 * @GPU_LAUNCH_FLAGS_NONE: work-groups run in any order, and not necessarily at the same time
 * @GPU_LAUNCH_FLAGS_COOPERATIVE: all work-groups run at the same time and can wait for one another
 * @GPU_LAUNCH_FLAGS_ALLOW_EMPTY: a grid with a size of 0 is no error; the launch then runs nothing
 *
 * The mode of a kernel launch.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_LAUNCH_FLAGS_NONE        = 0,
  GPU_LAUNCH_FLAGS_COOPERATIVE = 1 << 0,
  GPU_LAUNCH_FLAGS_ALLOW_EMPTY = 1 << 1
} GpuLaunchFlags;

/**
 * GpuMemoryFlags:
 * @GPU_MEMORY_FLAGS_NONE: read and written by kernels and by the host; uses are tracked
 * @GPU_MEMORY_FLAGS_READ_ONLY: kernels read the memory, but do not write it. Launches reject the
 *   memory for an argument that the driver describes as a pointer to non-const. If the driver does
 *   not describe the argument, the program must ensure that the kernel only reads the memory. The
 *   host may write the memory, and so may copies
 * @GPU_MEMORY_FLAGS_WRITE_ONLY: kernels write the memory, but do not read it
 * @GPU_MEMORY_FLAGS_HOST_READ_ONLY: the host reads the memory, but does not write it
 * @GPU_MEMORY_FLAGS_HOST_WRITE_ONLY: the host writes the memory, but does not read it
 * @GPU_MEMORY_FLAGS_HOST_NO_ACCESS: the host neither reads nor writes the memory
 * @GPU_MEMORY_FLAGS_ALLOC_HOST: placed in memory that both host and device access fast
 * @GPU_MEMORY_FLAGS_UNTRACKED: uses are not tracked; the program orders uses on several streams
 * @GPU_MEMORY_FLAGS_SHAREABLE: can be exported to another process as a file descriptor. Other
 *   processes that get the descriptor of memory of a #GpuMemoryPool can also access other memory of
 *   the pool
 *
 * The intended use of memory. The flags for access by kernels exclude each other. The flags for
 * access by the host exclude each other.
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
 * @GPU_SVM_FLAGS_NONE: coarse grain: the host may access the memory only while the memory is mapped
 * @GPU_SVM_FLAGS_FINE_GRAIN: fine grain: the host may access the memory at any time
 * @GPU_SVM_FLAGS_ATOMICS: atomic operations work between host and device; requires
 *   @GPU_SVM_FLAGS_FINE_GRAIN
 * @GPU_SVM_FLAGS_USM_DEVICE: unified shared memory on the device, without host access
 * @GPU_SVM_FLAGS_USM_HOST: unified shared memory on the host, which kernels access in place
 * @GPU_SVM_FLAGS_USM_SHARED: unified shared memory that migrates between host and device
 *
 * The kind of memory sharing between host and device. The kinds of unified shared memory (OpenCL:
 * cl_intel_unified_shared_memory) cannot be combined with other flags. A device supports a kind if
 * the attribute for this kind ("device-mem-capabilities-intel", "host-mem-capabilities-intel" or
 * "single-device-shared-mem-capabilities-intel") contains "access", see
 * gpu_device_get_attributes().
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
 * @GPU_SVM_ATTACHMENT_HOST: only the host
 *
 * The users of shared memory, for gpu_svm_attach().
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
 * @GPU_MEMORY_ADVICE_READ_MOSTLY: the memory is mostly read and rarely written, so each reading
 *   device may get its own copy
 * @GPU_MEMORY_ADVICE_UNSET_READ_MOSTLY: reverts @GPU_MEMORY_ADVICE_READ_MOSTLY
 * @GPU_MEMORY_ADVICE_PREFERRED_LOCATION: the memory should stay at the given location
 * @GPU_MEMORY_ADVICE_UNSET_PREFERRED_LOCATION: the memory has no preferred location
 * @GPU_MEMORY_ADVICE_ACCESSED_BY: the given location will access the memory, so the memory should
 *   be mapped there
 * @GPU_MEMORY_ADVICE_UNSET_ACCESSED_BY: reverts @GPU_MEMORY_ADVICE_ACCESSED_BY
 *
 * The expected use of memory that migrates between host and devices, for gpu_svm_advise().
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
 * @GPU_WRAP_MODE_BORROW: the caller keeps ownership; if the driver counts references, the object
 *   takes its own reference
 * @GPU_WRAP_MODE_ADOPT: the object takes ownership of the caller's reference, and releases that
 *   reference when the object is finalized
 *
 * The owner of a wrapped native handle.
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
 * @GPU_STREAM_FLAGS_NONE: work runs in order and is not timed
 * @GPU_STREAM_FLAGS_OUT_OF_ORDER: work on unrelated memory may run in any order
 * @GPU_STREAM_FLAGS_PROFILING: every operation is timed
 * @GPU_STREAM_FLAGS_NON_BLOCKING: the stream never waits for the legacy default stream (CUDA)
 *
 * The behavior of a stream.
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
 * @GPU_EVENT_FLAGS_NONE: no driver event is recorded until a thread or stream waits
 * @GPU_EVENT_FLAGS_TIMING: the time at which the device reaches the event is recorded
 * @GPU_EVENT_FLAGS_BLOCKING_SYNC: a waiting thread first polls for the time that #GpuContextFlags
 *   describes, and then sleeps in the driver
 * @GPU_EVENT_FLAGS_INTERPROCESS: the event can be shared with another process, and records no time
 *
 * The intended use of an event.
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
 * @GPU_EVENT_STATUS_PENDING: the event has not been reached yet
 * @GPU_EVENT_STATUS_COMPLETE: all the work before the event has completed
 * @GPU_EVENT_STATUS_FAILED: some of the work before the event failed
 *
 * The status of an event.
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
 * @GPU_PROFILING_POINT_SUBMITTED: submitted to the device
 * @GPU_PROFILING_POINT_STARTED: started to run
 * @GPU_PROFILING_POINT_ENDED: finished
 *
 * A point in the execution of an operation on a profiling stream.
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
 * GPU_NUMA_NODE_NONE:
 *
 * For #GpuHostMemory:numa-node: no preferred NUMA node.
 *
 * Since: 0.1
 */
#define GPU_NUMA_NODE_NONE (-1)

/**
 * GPU_NUMA_NODE_DEVICE:
 *
 * For #GpuHostMemory:numa-node: the NUMA node nearest to the device.
 *
 * Since: 0.1
 */
#define GPU_NUMA_NODE_DEVICE (-2)

/**
 * GpuHostMemoryFlags:
 * @GPU_HOST_MEMORY_FLAGS_NONE: page-locked for fast copies between device and host
 * @GPU_HOST_MEMORY_FLAGS_PORTABLE: page-locked for all contexts of the driver
 * @GPU_HOST_MEMORY_FLAGS_MAPPED: accessible to kernels
 * @GPU_HOST_MEMORY_FLAGS_WRITE_COMBINED: the host only writes the memory, sequentially; reading it
 *   is slow
 * @GPU_HOST_MEMORY_FLAGS_READ_ONLY: only for registered memory that must not be written; the
 *   library rejects every write
 *
 * The intended use of page-locked memory. @GPU_HOST_MEMORY_FLAGS_PORTABLE and
 * @GPU_HOST_MEMORY_FLAGS_WRITE_COMBINED are hints: a device that lacks the feature ignores them.
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
 * @GPU_MAP_FLAGS_NONE: equivalent to @GPU_MAP_FLAGS_READ | @GPU_MAP_FLAGS_WRITE
 * @GPU_MAP_FLAGS_READ: the host reads the mapping
 * @GPU_MAP_FLAGS_WRITE: the host writes the mapping; bytes that the host does not write keep their
 *   values
 * @GPU_MAP_FLAGS_WRITE_INVALIDATE: the host writes all of the mapping, and the previous contents
 *   are not read; excludes the other flags
 *
 * The host's access to a mapping.
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
 * @GPU_MIGRATE_FLAGS_NONE: to the device of the stream, with the contents
 * @GPU_MIGRATE_FLAGS_HOST: to the host
 * @GPU_MIGRATE_FLAGS_CONTENT_UNDEFINED: without the contents, which become undefined
 *
 * The destination of a migration and the treatment of the contents.
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
 * GpuFileFlags:
 * @GPU_FILE_FLAGS_NONE: no options
 * @GPU_FILE_FLAGS_READ: open for reading
 * @GPU_FILE_FLAGS_WRITE: open for writing, without removing the contents of the file
 * @GPU_FILE_FLAGS_CREATE: create the file, or remove the contents of an existing file
 * @GPU_FILE_FLAGS_DIRECT: bypass the page cache of the system (`O_DIRECT`) where the position in
 *   the file is a multiple of 4096 bytes. A copy at any other position, the last bytes of a copy,
 *   and files of file systems without support use the page cache
 *
 * The access that a #GpuFile allows, and options.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_FILE_FLAGS_NONE   = 0,
  GPU_FILE_FLAGS_READ   = 1 << 0,
  GPU_FILE_FLAGS_WRITE  = 1 << 1,
  GPU_FILE_FLAGS_CREATE = 1 << 2,
  GPU_FILE_FLAGS_DIRECT = 1 << 3
} GpuFileFlags;

/**
 * GpuMemoryInfoSource:
 * @GPU_MEMORY_INFO_SOURCE_DRIVER: the driver reported both values
 * @GPU_MEMORY_INFO_SOURCE_EXTENSION: a vendor's extension reported the free memory
 * @GPU_MEMORY_INFO_SOURCE_ACCOUNTING: the free memory is the total minus the memory of all contexts
 *   of this process on the device; memory of other processes is not subtracted
 * @GPU_MEMORY_INFO_SOURCE_SYSTEM: the operating system reported both values
 * @GPU_MEMORY_INFO_SOURCE_NVML: NVIDIA's management library reported the free memory
 *
 * The source of a value for free memory.
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
 * @GPU_LIMIT_STACK_SIZE: stack of one work-item, in bytes
 * @GPU_LIMIT_PRINTF_FIFO_SIZE: buffer of printf() in kernels, in bytes
 * @GPU_LIMIT_MALLOC_HEAP_SIZE: heap of malloc() in kernels, in bytes
 * @GPU_LIMIT_L2_FETCH_GRANULARITY: size of the largest fetch after a miss in the second-level
 *   cache, in bytes
 * @GPU_LIMIT_PERSISTING_L2_SIZE: part of the second-level cache for persisting data, in bytes
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
 * @GPU_PROGRAM_FLAGS_NONE: binaries are cached on disk and reused
 * @GPU_PROGRAM_FLAGS_NO_CACHE: every build compiles, and its binary is not stored
 *
 * The options of a program build.
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
 * @GPU_ARGUMENT_KIND_UNKNOWN: the driver does not report the kind
 * @GPU_ARGUMENT_KIND_MEMORY: device memory
 * @GPU_ARGUMENT_KIND_LOCAL: local memory of a work-group, passed as its size
 * @GPU_ARGUMENT_KIND_VALUE: a value, copied at the launch
 * @GPU_ARGUMENT_KIND_IMAGE: an image
 * @GPU_ARGUMENT_KIND_SAMPLER: a sampler
 *
 * The kind of a kernel argument.
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
 * @GPU_IMAGE_TYPE_IMAGE_1D: one-dimensional image
 * @GPU_IMAGE_TYPE_IMAGE_1D_ARRAY: array of one-dimensional images, which kernels select by index
 * @GPU_IMAGE_TYPE_IMAGE_1D_BUFFER: one-dimensional image over a buffer, read without a sampler
 * @GPU_IMAGE_TYPE_IMAGE_2D: two-dimensional image
 * @GPU_IMAGE_TYPE_IMAGE_2D_ARRAY: array of two-dimensional images, which kernels select by index
 * @GPU_IMAGE_TYPE_IMAGE_3D: three-dimensional image
 * @GPU_IMAGE_TYPE_CUBEMAP: the six sides of a cube
 * @GPU_IMAGE_TYPE_CUBEMAP_ARRAY: array of cubes, which kernels select by index
 *
 * The type of an image.
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
 * @GPU_CHANNEL_ORDER_DEPTH: depth
 * @GPU_CHANNEL_ORDER_SRGBA: red, green, blue, alpha, with red, green and blue encoded as sRGB
 * @GPU_CHANNEL_ORDER_SBGRA: blue, green, red, alpha, with blue, green and red encoded as sRGB
 *
 * The channels of a texel, in memory order.
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
 * @GPU_CHANNEL_TYPE_UNORM_565: three channels of 5, 6 and 5 bits, packed into 16 bits, from 0.0 to
 *   1.0
 * @GPU_CHANNEL_TYPE_UNORM_555: three channels of 5 bits each, packed into 16 bits, from 0.0 to 1.0
 * @GPU_CHANNEL_TYPE_UNORM_101010: three channels of 10 bits each, packed into 32 bits, from 0.0 to
 *   1.0
 *
 * The type of a channel of a texel.
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
 * @GPU_ADDRESS_MODE_NONE: kernels must stay within the image; reads outside it are undefined
 * @GPU_ADDRESS_MODE_CLAMP_TO_EDGE: reads outside the image return the nearest texel at the edge
 * @GPU_ADDRESS_MODE_CLAMP_TO_BORDER: reads outside the image return the border color
 * @GPU_ADDRESS_MODE_REPEAT: the image repeats; normalized coordinates only
 * @GPU_ADDRESS_MODE_MIRRORED_REPEAT: the image repeats, and every second copy is mirrored;
 *   normalized coordinates only
 *
 * The result of reads outside an image.
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
 * @GPU_FILTER_MODE_LINEAR: linear interpolation of the nearest texels
 *
 * The filter for reads between the texels of an image, or between its mip levels.
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
 * @GPU_READ_MODE_FORMAT: according to the format of the image: integers as integers, normalized
 *   values as floating-point numbers
 * @GPU_READ_MODE_ELEMENT: integers as stored in memory, even if the format is normalized
 * @GPU_READ_MODE_NORMALIZED: integers of 8 and 16 bits as floating-point numbers, from 0.0 to 1.0
 *   if they are unsigned and from -1.0 to 1.0 if they are signed, even if the format is not
 *   normalized
 *
 * The type that kernels get when they read integers from an image.
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
 * @GPU_MEMORY_POOL_AUTOMATIC: the first of the following kinds that the device or the allocator
 *   supports; segments for memory with %GPU_MEMORY_FLAGS_SHAREABLE
 * @GPU_MEMORY_POOL_EXPANDABLE: one range of addresses, to which the pool maps physical memory on
 *   demand; the pool also moves physical memory to other addresses of the range; requires
 *   %GPU_CAPABILITIES_VIRTUAL_MEMORY
 * @GPU_MEMORY_POOL_SEGMENTS: large allocations that are divided into blocks; requires memory with
 *   addresses or %GPU_CAPABILITIES_SUB_BUFFERS. On OpenCL each new block costs a sub-buffer
 *   (clCreateSubBuffer)
 * @GPU_MEMORY_POOL_BINS: one allocation per block. The size of the allocation is rounded up to a
 *   size class, and later requests of that class can reuse the allocation. Other requests cannot,
 *   so the pool of a program with many different sizes may hold many times the memory in use.
 *   Limits count the rounded sizes. %GPU_MEMORY_POOL_AUTOMATIC chooses bins only for shared virtual
 *   memory that host and device cannot use at the same time
 *
 * The strategy by which a pool manages its memory.
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
 * @GPU_DTYPE_KIND_BOOL: booleans of one byte
 * @GPU_DTYPE_KIND_INT: signed integers
 * @GPU_DTYPE_KIND_UINT: unsigned integers
 * @GPU_DTYPE_KIND_FLOAT: IEEE 754 floating-point numbers, and the C type long double
 * @GPU_DTYPE_KIND_BFLOAT: 16-bit floating-point numbers with the exponent of 32-bit floating-point
 *   numbers
 * @GPU_DTYPE_KIND_COMPLEX: complex numbers, as two floating-point numbers
 * @GPU_DTYPE_KIND_OPAQUE: bytes that only the program interprets
 * @GPU_DTYPE_KIND_RECORD: structures with fields
 *
 * The kind of the elements of an array.
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
 * @GPU_ARRAY_ORDER_C: row-major: the last index varies fastest, as in C
 * @GPU_ARRAY_ORDER_F: column-major: the first index varies fastest, as in Fortran
 *
 * The order of array elements in memory.
 *
 * Since: 0.1
 */
typedef enum
{
  GPU_ARRAY_ORDER_C,
  GPU_ARRAY_ORDER_F
} GpuArrayOrder;

G_END_DECLS

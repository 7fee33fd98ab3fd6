/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The structures and shared functions of the CUDA back end. gpu-cuda-call.h has the begin and end
 * functions of operations.
 */
#pragma once

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/base/gpu-attributes-private.h"
#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/cuda/compiler/gpu-cuda-sampler-words.h"
#include "gpumem/cuda/driver/gpu-cuda-api.h"
#include "gpumem/cuda/driver/gpu-cuda-error.h"

G_BEGIN_DECLS

/* The ops tables of this back end. In each object of this back end, the member `backend` points to
 * this structure. */
extern const GpuBackend _gpu_cuda_backend;

typedef struct
{
  GpuNativeDevice  base;
  CUdevice         device;
  int              ordinal;
  int              compute_capability;  /* 90 for 9.0 */
  int              warp_size;
  int              max_threads;         /* per block */
  int              max_block[3];
  int              max_grid[3];
  gboolean         stream_ordered;      /* the device supports memory pools */
  gboolean         virtual_memory;
  gboolean         cooperative;
  gboolean         gpu_direct_rdma;     /* network cards can access virtual memory */
  gint             refuses_dma_bufs;    /* atomic; whether an import of a dma-buf has failed */
  gint             refuses_rdma;        /* atomic; whether the driver has refused to allocate memory
                                         * with GPUDirect RDMA */
} GpuCudaDevice;

/* The kernels of the library */
typedef enum
{
  GPU_CUDA_BUILTIN_FILL,
  GPU_CUDA_BUILTIN_COPY_BATCH,
  GPU_CUDA_BUILTIN_COPY_REGION,
  GPU_CUDA_BUILTIN_COPY_ROWS,
  GPU_CUDA_BUILTIN_COPY_MORE_ROWS,
  GPU_CUDA_N_BUILTINS
} GpuCudaBuiltin;

/* Records whether streams support the host-signalled waits of the staging engine. */
typedef enum
{
  GPU_CUDA_HOST_WAITS_UNKNOWN,
  GPU_CUDA_HOST_WAITS_WORK,
  GPU_CUDA_HOST_WAITS_FAIL
} GpuCudaHostWaits;

typedef struct
{
  GpuNativeContext  base;
  CUcontext         context;
  GpuCudaDevice    *device;
  enum { GPU_CUDA_CONTEXT_PRIMARY, GPU_CUDA_CONTEXT_OWN, GPU_CUDA_CONTEXT_BORROWED } kind;
  int               least_priority;     /* numerically the greatest value */
  int               greatest_priority;
  GMutex            recycled_lock;      /* guards the next four members. Never held during a driver
                                         * call, which may block, because copies on other threads
                                         * need the lock */
  GPtrArray        *recycled_events;    /* of CUevent without timing, for later fences */
  GPtrArray        *recycled_timers;    /* of CUevent with timing */
  GPtrArray        *host_wait_blocks;   /* page-locked blocks of host-wait words; nullable */
  GPtrArray        *host_wait_words;    /* unused words, in host_wait_blocks */
  gint              host_waits;         /* GpuCudaHostWaits; atomic */
  GMutex            lock;               /* guards the fields up to builtins */
  GPtrArray        *blocks;             /* of GpuCudaBlock: page-locked blocks; nullable */
  struct _GpuCudaClock *clock;          /* the current time base; NULL before the first use */
  CUstream          internal;           /* stream of the library; NULL until first needed */
  CUstream          clock_stream;       /* stream for clock events only; NULL until first needed */
  CUmemoryPool      pool;               /* for stream-ordered memory; NULL until first needed */
  guint64           peers;              /* bitmap of the peer devices with access to memory of this
                                         * context */
  CUmodule          builtin_module;     /* the kernels of the library; atomic; NULL until loaded */
  CUfunction        builtins[GPU_CUDA_N_BUILTINS]; /* valid if builtin_module is not NULL */
  GMutex            freeing_lock;       /* guards freeing */
  GPtrArray        *freeing;            /* of GpuCudaStream that freed memory of the pool */
  GMutex            ranges_lock;        /* guards ranges; held while memory is mapped and while
                                         * devices get access to it */
  GPtrArray        *ranges;             /* of GpuCudaRange: all addresses with mapped memory */
  GMutex            import_lock;        /* guards the fields below; held during driver imports */
  GHashTable       *imported;           /* memory of other processes: one entry per allocation;
                                         * nullable */
  int               pool_fd;            /* descriptor of the pool, duplicated for each export; -1
                                         * before the first export */
} GpuCudaContext;

typedef struct
{
  GpuNativeStream  base;
  CUstream         stream;
  CUevent          last;                /* per-thread stream: event after the newest operation;
                                         * NULL for other streams */
  GpuWrapMode      mode;
  gboolean         profiling;           /* whether events of operations record times */
  gint             frees;               /* atomic; whether the stream is in the context's freeing
                                         * list */
  guint64          thread;              /* per-thread stream: the last thread that enqueued work */
  guint            serial;              /* unique among all streams of the process */
} GpuCudaStream;

/* State of an operation between _gpu_cuda_begin() and _gpu_cuda_end(). */
typedef struct
{
  gboolean               entered;
  struct _GpuCudaEvent  *event;         /* recorded after the operation; nullable */
} GpuCudaCall;

typedef struct _GpuCudaEvent
{
  GpuNativeEvent        base;
  GpuCudaContext       *context;        /* referenced */
  CUevent               event;
  CUevent               start;          /* recorded before a timed operation; nullable */
  struct _GpuCudaClock *clock;          /* time base of the timings; nullable */
  gboolean              timing;         /* for a wrapped event: TRUE, but times may be missing */
  gboolean              is_foreign;     /* shared with other processes or wrapped: never recycled */
  gboolean              is_borrowed;    /* wrapped; the program destroys it */
  guint32              *word;           /* the word of a host-signalled wait; nullable */
  guint32               value;          /* the value of the word that ends the wait */
} GpuCudaEvent;

typedef struct
{
  GpuNativeBuffer  base;
  CUdeviceptr      address;
  CUdeviceptr      whole;               /* start of the allocation, or 0 if the driver must be
                                         * queried */
  gsize            whole_size;          /* size of that allocation in bytes */
  CUdeviceptr      around;              /* for wrapped memory: start of the range that the driver
                                         * reports for the address; otherwise 0 */
  enum
  {
    GPU_CUDA_MEMORY_OWN,                /* cuMemAlloc() */
    GPU_CUDA_MEMORY_STREAM_ORDERED,     /* cuMemAllocFromPoolAsync() */
    GPU_CUDA_MEMORY_VIRTUAL,            /* cuMemCreate() mapped at its own address */
    GPU_CUDA_MEMORY_RESERVED,           /* addresses at which chunks are mapped */
    GPU_CUDA_MEMORY_REGISTERED,         /* cuMemHostRegister() of the user's host memory */
    GPU_CUDA_MEMORY_HOST,               /* cuMemHostAlloc() */
    GPU_CUDA_MEMORY_LOCKED,             /* cuMemHostRegister() of memory from _gpu_pages_map() */
    GPU_CUDA_MEMORY_ORDINARY,           /* host memory that is unknown to the driver */
    GPU_CUDA_MEMORY_MANAGED,            /* cuMemAllocManaged() */
    GPU_CUDA_MEMORY_SYSTEM,             /* host memory that the device can access */
    GPU_CUDA_MEMORY_IMPORTED,           /* from another process */
    GPU_CUDA_MEMORY_BORROWED            /* wrapped, or a slice */
  }                kind;
  gpointer         shared;              /* nullable; for an import or a registration of host memory,
                                         * its structure, which several buffers may share; for
                                         * managed memory, its GpuCudaManaged; for virtual memory,
                                         * its GpuCudaRange */
  gboolean         is_managed;          /* managed memory or a slice of it: mapped at its address */
  gboolean         is_chunked;          /* memory of the host that may be several allocations: the
                                         * driver refuses to fill such memory */
} GpuCudaBuffer;

/* The attachment of managed memory on a device that cannot access the memory concurrently with the
 * host. The locks that guard the uses of the memory during a submission also guard this
 * structure. */
typedef struct
{
  CUdeviceptr       allocation;         /* start address, which may precede the buffer */
  CUcontext         context;
  GpuSvmAttachment  attachment;
  guint             stream;             /* serial, for GPU_SVM_ATTACHMENT_STREAM */
} GpuCudaManaged;

typedef struct
{
  GpuNativeImage    base;
  CUarray           array;              /* the first level; NULL if the image is linear */
  CUmipmappedArray  mipmapped;          /* NULL unless there are several levels */
  CUdeviceptr       address;            /* of a linear image */
  gsize             pitch;              /* row pitch of a linear 2D image, as passed to the
                                         * driver */
  CUarray_format    format;
  guint             n_channels;
  gboolean          owned;              /* whether the array is destroyed with the image */
  gboolean          has_surface;        /* the array was created for surfaces */
  GMutex            lock;               /* guards the fields below */
  CUsurfObject      surface;            /* 0 until first needed */
  GHashTable       *textures;           /* of GpuCudaTexture, one per sampler state; nullable */
  /* Texture objects for samplers that are constants in the kernel source, indexed by
   * GPU_CUDA_SAMPLER_NUMBER(); 0 until first needed. */
  CUtexObject       constants[GPU_CUDA_N_CONSTANT_SAMPLERS];
} GpuCudaImage;

typedef struct _GpuCudaModule GpuCudaModule;

typedef struct
{
  GpuNativeProgram  base;
  GpuCudaModule    *module;             /* also referenced by the kernels */
} GpuCudaProgram;

/* gpu-cuda-device-query.c */
/* Stores a reference on @devices (element-type GpuCudaDevice) for _gpu_cuda_device_lookup(). */
void        _gpu_cuda_device_set_known (GPtrArray   *devices);
/* Returns the enumerated device with the driver handle @device, or NULL. */
GpuCudaDevice *_gpu_cuda_device_lookup (CUdevice device);
gboolean    _gpu_cuda_device_get   (GpuCudaDevice       *device,
                                    CUdevice_attribute   attribute,
                                    int                 *value,
                                    GError             **error);
/* Returns 0 if the value is 0 or negative, or if the driver does not support @attribute. */
int         _gpu_cuda_get_optional (GpuCudaDevice      *device,
                                    CUdevice_attribute  attribute);
/* Returns FALSE, with a UUID of zeros, if the driver does not report the UUID. */
gboolean    _gpu_cuda_get_uuid     (CUdevice            device,
                                    CUuuid             *uuid);
char       *_gpu_cuda_format_uuid  (const CUuuid       *uuid);

/* gpu-cuda-cache-preference.c */
CUfunc_cache       _gpu_cuda_cache_to_native   (GpuCachePreference preference);
GpuCachePreference _gpu_cuda_cache_from_native (CUfunc_cache       config);

/* gpu-cuda-address.c, gpu-cuda-peer.c: ops of contexts and devices. */
GpuContextGetAddressAttributesOp _gpu_cuda_get_address_attributes;
GpuDeviceCanAccessPeerOp _gpu_cuda_can_access_peer;
GpuDeviceGetPeerAttributesOp _gpu_cuda_get_peer_attributes;
GpuContextEnablePeerOp _gpu_cuda_enable_peer;
GpuContextHasPeerOp _gpu_cuda_has_peer;
GpuContextDisablePeerOp _gpu_cuda_disable_peer;
GpuContextReachPeerOp _gpu_cuda_reach_peer;
/* Called when @context is freed. */
void        _gpu_cuda_forget_peers (GpuCudaContext  *context);

/* gpu-cuda-cache.c. The caller has entered the context; only _gpu_cuda_recycle_event() does not
 * require this. */
gboolean    _gpu_cuda_take_event   (GpuCudaContext  *context,
                                    gboolean         timing,
                                    CUevent         *event,
                                    GError         **error);
void        _gpu_cuda_recycle_event (GpuCudaContext  *context,
                                     gboolean         timing,
                                     CUevent          event);
/* Gets the library's own stream, which never waits for work of the application. */
gboolean    _gpu_cuda_get_internal_stream (GpuCudaContext  *context,
                                           CUstream        *stream,
                                           GError         **error);
/* Gets a stream that carries clock events only. The internal stream also carries uploads. */
gboolean    _gpu_cuda_get_clock_stream (GpuCudaContext  *context,
                                        CUstream        *stream,
                                        GError         **error);
/* Frees the lists of the cache and, if @can_free is TRUE, the driver objects. If @can_free is TRUE,
 * the caller has entered the context. */
void        _gpu_cuda_cache_clear  (GpuCudaContext  *context,
                                    gboolean         can_free);

/* gpu-cuda-host-wait.c */
/* GpuTransferOps.create_host_wait() */
GpuNativeEvent *
            _gpu_cuda_host_wait_new (GpuNativeContext *context,
                                     GError          **error);
/* Caller has entered the context. Makes @stream wait until the host signals @host_wait. */
CUresult    _gpu_cuda_enqueue_host_wait (CUstream    stream,
                                         GpuCudaEvent    *host_wait);
/* Recycles the word of @host_wait. */
void        _gpu_cuda_host_wait_free (GpuCudaEvent  *host_wait);
void        _gpu_cuda_host_waits_clear (GpuCudaContext  *context,
                                        gboolean         can_free);

/* gpu-cuda-clock.c */
typedef struct _GpuCudaClock GpuCudaClock;

/* Caller has entered the context. */
GpuCudaClock *
            _gpu_cuda_clock_get    (GpuCudaContext  *context,
                                    GError         **error);
void        _gpu_cuda_clock_unref  (GpuCudaClock    *clock);
/* Gets the completion time of @moment, a completed event with timing. */
gboolean    _gpu_cuda_clock_read   (GpuCudaClock    *clock,
                                    CUevent          moment,
                                    guint64         *nanoseconds,
                                    GError         **error);

/* gpu-cuda-allocation.c */
/* Creates a buffer structure. Does not take ownership of the memory. Sets the fields that have no
 * parameter to 0. */
GpuCudaBuffer *
            _gpu_cuda_buffer_new   (CUdeviceptr      address,
                                    gsize            size,
                                    int              kind);
/* Caller has entered the context. Sets an error with the requested and the available size. */
void        _gpu_cuda_fail_alloc   (GpuCudaContext  *context,
                                    const char      *function,
                                    CUresult         code,
                                    gsize            size,
                                    GError         **error);
/* Fails with GPU_ERROR_OUT_OF_HOST_MEMORY if @size exceeds the free memory of the host: the kernel
 * would then end processes while the driver locks the pages. */
gboolean    _gpu_cuda_check_host_room (gsize     size,
                                    GError         **error);
/* Sets an error with the requested size and the limits of the host. */
void        _gpu_cuda_fail_locked  (const char      *function,
                                    CUresult         code,
                                    gsize            size,
                                    GError         **error);
/* Returns the NUMA node of the host that is nearest to the device. */
int         _gpu_cuda_get_numa_node (GpuCudaContext *context);
/* Caller has entered the context. Returns a pointer attribute of @address, or @fallback. */
guint64     _gpu_cuda_get_pointer_attribute (CUdeviceptr address,
                                             CUpointer_attribute attribute,
                                             guint64          fallback);
/* Leaves @value unchanged if the driver does not support the attribute for this memory. Fails on
 * other error codes, because the value decides which memory @address belongs to. */
gboolean    _gpu_cuda_query_pointer (CUdeviceptr         address,
                                     CUpointer_attribute attribute,
                                     guint64            *value,
                                     GError            **error);

/* gpu-cuda-free.c */
void        _gpu_cuda_buffer_free  (GpuNativeContext *context,
                                    GpuNativeBuffer  *buffer);

/* gpu-cuda-range.c: address ranges, and the allocations that are mapped there. */
typedef struct
{
  CUdeviceptr  address;
  gsize        size;
  gboolean     is_host;             /* the allocations are memory of the host */
  GTree       *mapped;              /* maps the offset of each allocation to its size in bytes */
  GHashTable  *exported;            /* nullable; maps offsets of exported allocations to their
                                     * descriptors */
} GpuCudaRange;

/* Fills @access with the devices that can access memory of @context, starting with the device of
 * @context, and returns their number. */
#define GPU_CUDA_MAX_PEERS 64
guint       _gpu_cuda_list_access  (GpuCudaContext  *context,
                                    CUmemAccessDesc  access[GPU_CUDA_MAX_PEERS + 1]);
/* Caller has entered the context. */
GpuCudaRange *
            _gpu_cuda_range_new    (GpuCudaContext  *context,
                                    gsize            size,
                                    GError         **error);
/* Caller has entered the context. Creates a range and maps the allocations to it, one after the
 * other. Does not take ownership of them. @sizes has the size of each allocation; their sum does
 * not overflow. */
GpuCudaRange *
            _gpu_cuda_range_new_for (GpuCudaContext *context,
                                    const CUmemGenericAllocationHandle *allocations,
                                    const gsize     *sizes,
                                    guint            n_allocations,
                                    GError         **error);
/* Unmaps all allocations and frees the range. The caller need not have entered the context. */
void        _gpu_cuda_range_free   (GpuCudaContext  *context,
                                    GpuCudaRange    *range);
/* Caller has entered the context. Maps the allocations one after the other from @offset on. If one
 * cannot be mapped, maps none. */
gboolean    _gpu_cuda_range_map    (GpuCudaContext  *context,
                                    GpuCudaRange    *range,
                                    gsize            offset,
                                    const CUmemGenericAllocationHandle *allocations,
                                    const gsize     *sizes,
                                    guint            n_allocations,
                                    GError         **error);
void        _gpu_cuda_range_unmap  (GpuCudaContext  *context,
                                    GpuCudaRange    *range,
                                    gsize            offset,
                                    gsize            size);
/* Makes all exported descriptors of the allocation at @address share one open file description, so
 * that importers can detect that two descriptors refer to the same allocation. Takes ownership of
 * @fd. Returns the descriptor to export. */
int         _gpu_cuda_range_share_fd (GpuCudaContext *context,
                                    CUdeviceptr      address,
                                    int              fd);
/* Caller holds ranges_lock. Sets @access on all mapped memory. If the driver refuses @access for
 * any part, undoes the change of the other parts. */
gboolean    _gpu_cuda_ranges_set_access_locked (GpuCudaContext        *context,
                                    const CUmemAccessDesc *access,
                                    GError               **error);

/* gpu-cuda-physical.c */
typedef enum
{
  GPU_CUDA_PHYSICAL_DEVICE,
  GPU_CUDA_PHYSICAL_SHAREABLE,      /* memory of the device that can be exported */
  GPU_CUDA_PHYSICAL_HOST            /* page-locked memory of the host */
} GpuCudaPhysicalKind;

/* Caller has entered the context. */
gboolean    _gpu_cuda_physical_get_granularity (GpuCudaContext *context,
                                    GpuCudaPhysicalKind kind,
                                    gsize           *granularity,
                                    GError         **error);
gboolean    _gpu_cuda_physical_create (GpuCudaContext *context,
                                    gsize            size,
                                    GpuCudaPhysicalKind kind,
                                    CUmemGenericAllocationHandle *allocation,
                                    GError         **error);
/* Caller has entered the context. Allocates memory that can be exported as a file descriptor. */
GpuCudaBuffer *
            _gpu_cuda_virtual_alloc (GpuCudaContext *context,
                                    gsize            size,
                                    GError         **error);

/* gpu-cuda-pool.c: stream-ordered memory. */
GpuBufferAllocOrderedOp _gpu_cuda_alloc_ordered;
GpuBufferFreeOrderedOp _gpu_cuda_free_ordered;
/* Temporary memory for the work that is enqueued between the calls of _alloc_scratch() and
 * _free_scratch(). Caller has entered the context. Without pools, _free_scratch() waits for the
 * stream. */
typedef struct
{
  CUdeviceptr address;
  gboolean    is_ordered;
} GpuCudaScratch;

CUresult    _gpu_cuda_alloc_scratch (GpuCudaStream   *stream,
                                    GpuCudaScratch   *scratch,
                                    gsize             size,
                                    const char      **function);
void        _gpu_cuda_free_scratch (GpuCudaStream    *stream,
                                    GpuCudaScratch   *scratch);
/* Caller has entered the context. If @code means that a call was out of memory, returns the unused
 * memory of all pools on the device to the driver. Returns TRUE if the caller should retry the
 * call. */
gboolean    _gpu_cuda_trim_pools   (GpuCudaContext   *context,
                                    CUresult          code);
/* Called when the context is freed. If @can_free is TRUE, the caller has entered the context. */
void        _gpu_cuda_pool_clear   (GpuCudaContext   *context,
                                    gboolean          can_free);
/* Called before @stream is freed, and when the use of a borrowed stream has ended. */
void        _gpu_cuda_pool_remove_stream (GpuCudaStream *stream);
/* Returns a bitmap of the handle types with which pool memory can be exported. */
guint       _gpu_cuda_get_pool_handle_types (GpuCudaContext *context);

/* gpu-cuda-register.c: host memory of the application, made accessible to devices. */
GpuBufferAllocForHostOp _gpu_cuda_alloc_for_host;
/* Registers host memory. If @read_only is TRUE, the pages of the memory may be read-only. */
GpuNativeBuffer *
            _gpu_cuda_register     (GpuNativeContext  *context,
                                    gboolean           read_only,
                                    gpointer           data,
                                    gsize              size,
                                    GError           **error);
void        _gpu_cuda_unregister   (gpointer           registration);

/* gpu-cuda-host-memory.c */
/* Caller has entered the context. @flags are flags of cuMemHostAlloc(). Sets @numa_node to the node
 * in effect. */
GpuCudaBuffer *
            _gpu_cuda_alloc_locked (GpuCudaContext    *context,
                                    unsigned int       flags,
                                    int               *numa_node,
                                    gsize              size,
                                    GError           **error);
GpuBufferAllocHostOp _gpu_cuda_alloc_host;
GpuBufferRegisterHostOp _gpu_cuda_register_host;
GpuBufferUseHostOp _gpu_cuda_use_host;

/* gpu-cuda-copy.c */
/* Called before a copy on @stream from or to memory of @context. @context is nullable. If the flag
 * `stages_host_memory` of @context is set, also sets the flag in the context of @stream: copies on
 * @stream from or to pageable memory must then wait for staged writes. */
void        _gpu_cuda_copy_staging_flag (GpuNativeStream    *stream,
                                         GpuNativeContext   *context);
/* Caller has entered the context. Called before a copy between @a and @b, each of which may be
 * NULL. If the driver may copy before earlier work of @stream completes, waits for that work. */
CUresult    _gpu_cuda_finish_for_host (GpuNativeStream    *stream,
                                       GpuNativeMemory    *a,
                                       GpuNativeMemory    *b);
GpuBufferCopyOp _gpu_cuda_copy;
GpuBufferCopyPeerOp _gpu_cuda_copy_peer;
GpuBufferWriteOp _gpu_cuda_write;
GpuBufferReadOp _gpu_cuda_read;
GpuBufferWriteNowOp _gpu_cuda_write_now;
GpuBufferReadNowOp _gpu_cuda_read_now;

/* gpu-cuda-copy-batch.c */
GpuBufferPrepareBatchOp _gpu_cuda_prepare_batch;
GpuBufferCopyBatchOp _gpu_cuda_copy_batch;
GpuBufferCopyRowsOp _gpu_cuda_copy_rows;

/* gpu-cuda-region.c */
/* Caller has entered the context. Sets @function to the last driver function called. After a
 * failure, no part of the copy is in flight. */
CUresult    _gpu_cuda_enqueue_region (CUstream            stream,
                                    const GpuRegionSide  *destination,
                                    const GpuRegionSide  *source,
                                    const GpuExtent      *extent,
                                    const char          **function);
/* Caller has entered the context. Called if a driver call of an op fails after other commands of
 * the op were enqueued. Sets `partial`, or waits for these commands. */
void        _gpu_cuda_leave_pieces (GpuCudaStream        *stream);
GpuMemoryCopyRegionOp _gpu_cuda_copy_region;

/* gpu-cuda-builtin.c. Caller has entered the context. Loads the kernels of the library, unless they
 * are loaded. The driver may wait for all pending work of the context. */
gboolean    _gpu_cuda_load_builtins (GpuCudaContext  *context,
                                    GError          **error);
extern const char _gpu_cuda_fill_text[];
extern const char _gpu_cuda_copy_batch_text[];
extern const char _gpu_cuda_copy_rows_text[];   /* without its name and parameters */
extern const char _gpu_cuda_region_text[];

static inline gboolean
_gpu_cuda_has_builtins (GpuCudaContext *context)
{
  return g_atomic_pointer_get (&context->builtin_module) != NULL;
}

/* gpu-cuda-region-kernel.c. A region within the memory of one device; sizes in bytes */
typedef struct
{
  CUdeviceptr destination;
  CUdeviceptr source;
  gsize       to_row;               /* pitches */
  gsize       from_row;
  gsize       to_slice;
  gsize       from_slice;
  gsize       width;
  gsize       height;
  gsize       depth;
} GpuCudaRegionLaunch;

/* Returns whether the kernel can copy the region, and the region is large enough for it. */
gboolean    _gpu_cuda_region_fits_kernel (GpuCudaStream *stream,
                                    const GpuCudaRegionLaunch *region);
CUresult    _gpu_cuda_launch_region (GpuCudaStream       *stream,
                                    const GpuCudaRegionLaunch *region);

/* gpu-cuda-fill.c */
#define GPU_CUDA_PATTERN_MAX 1024

GpuBufferFillOp _gpu_cuda_fill;
GpuBufferFillRegionOp _gpu_cuda_fill_region;

/* gpu-cuda-mapping.c */
GpuBufferMapOp _gpu_cuda_map;
GpuImageMapOp _gpu_cuda_map_image;
GpuMemoryUnmapOp _gpu_cuda_unmap;

/* gpu-cuda-block-copy.c */
/* Submits a write of pageable or page-locked memory, like cuMemcpyHtoDAsync(). Caller has entered
 * the context. Sets @function to the function of the driver that failed. */
CUresult    _gpu_cuda_write_behind     (GpuCudaContext    *context,
                                        CUstream           stream,
                                        CUdeviceptr        address,
                                        gconstpointer      data,
                                        gsize              size,
                                        const char       **function);
/* Fills host memory that is unknown to the driver. */
GpuBufferFillOp _gpu_cuda_fill_ordinary;

/* gpu-cuda-block.c */
/* Frees the page-locked blocks. If @can_free is TRUE, the caller has entered the context.
 * Otherwise, only frees the list of the blocks, without calling the driver. */
void        _gpu_cuda_blocks_clear     (GpuCudaContext    *context,
                                        gboolean           can_free);

/* gpu-cuda-export.c, gpu-cuda-import.c */
GpuBufferExportHandleOp _gpu_cuda_export_handle;
GpuBufferImportHandleOp _gpu_cuda_import_handle;
GpuBufferExportFdOp _gpu_cuda_export_fd;
GpuBufferImportFdOp _gpu_cuda_import_fd;
/* gpu-cuda-share.c */
GpuBufferGetFdKindsOp _gpu_cuda_get_fd_kinds;
GpuBufferShareFdOp _gpu_cuda_share_fd;
GpuBufferOpenFdOp _gpu_cuda_open_fd;
/* Returns the address, in this process, of the start of the memory that was exported. */
CUdeviceptr _gpu_cuda_import_get_address (gpointer        import);
void        _gpu_cuda_import_unref (GpuCudaContext       *context,
                                    gpointer              import);

/* gpu-cuda-managed.c */
GpuSvmPrefetchOp _gpu_cuda_prefetch;
/* Adds the attributes of managed memory that the driver reports, such as its preferred location. */
void        _gpu_cuda_managed_get_attributes (GpuNativeContext *context,
                                              GpuCudaBuffer    *buffer,
                                              GVariantDict     *attributes);

/* gpu-cuda-attributes.c */
GpuDeviceGetAttributesOp _gpu_cuda_get_attributes;

extern const GpuDeviceOps  _gpu_cuda_device_ops;
extern const GpuContextOps _gpu_cuda_context_ops;
extern const GpuStreamOps  _gpu_cuda_stream_ops;
extern const GpuEventOps   _gpu_cuda_event_ops;
extern const GpuMemoryOps  _gpu_cuda_memory_ops;
extern const GpuBufferOps  _gpu_cuda_buffer_ops;
extern const GpuVirtualOps _gpu_cuda_virtual_ops;
extern const GpuSvmOps     _gpu_cuda_svm_ops;
extern const GpuProgramOps _gpu_cuda_program_ops;
extern const GpuKernelOps  _gpu_cuda_kernel_ops;
extern const GpuTransferOps _gpu_cuda_transfer_ops;

G_END_DECLS

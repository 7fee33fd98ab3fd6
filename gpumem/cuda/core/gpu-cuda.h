/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The structures of the CUDA back end, and what its files share. gpu-cuda-call.h has the beginning
 * and the end of each call of the driver.
 */
#pragma once

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/base/gpu-attributes-private.h"
#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/cuda/compiler/gpu-cuda-sampler-words.h"
#include "gpumem/cuda/driver/gpu-cuda-api.h"
#include "gpumem/cuda/driver/gpu-cuda-error.h"

G_BEGIN_DECLS

/* The tables of this driver; its address tells its objects from those of other drivers. */
extern const GpuBackend _gpu_cuda_backend;

typedef struct
{
  GpuNativeDevice  base;
  CUdevice         device;
  int              ordinal;
  int              compute_capability;  /* 90 for 9.0 */
  int              warp_size;
  int              max_threads;         /* of one block */
  int              max_block[3];
  int              max_grid[3];
  gboolean         stream_ordered;      /* the device has memory pools */
  gboolean         virtual_memory;
  gboolean         cooperative;
  gint             refuses_dma_bufs;    /* atomic; one was refused */
} GpuCudaDevice;

/* Whether streams can perform the host-signalled waits of the staging engine */
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
  int               least_priority;     /* numerically the greatest */
  int               greatest_priority;
  GMutex            recycled_lock;      /* guards what follows; never held in a call of the driver:
                                         * copies that others wait for take it */
  GPtrArray        *recycled_events;    /* of CUevent without timing, for the next fences */
  GPtrArray        *recycled_timers;    /* of CUevent with timing */
  GPtrArray        *host_wait_blocks;   /* page-locked, with the words of host waits; nullable */
  GPtrArray        *host_wait_words;    /* unused words, with host_wait_blocks */
  gint              host_waits;         /* GpuCudaHostWaits; atomic */
  GMutex            lock;               /* guards what follows */
  GPtrArray        *staging;            /* of GpuCudaStaging: page-locked blocks behind mappings */
  struct _GpuCudaClock *clock;          /* what times are counted from; NULL before the first */
  CUstream          internal;           /* of the library; NULL until first needed */
  CUstream          clock_stream;       /* likewise, with nothing but clocks in it */
  CUmemoryPool      pool;               /* behind stream-ordered memory; NULL until first needed */
  guint64           peers;              /* bits: the devices that may reach this memory, too */
  GHashTable       *accessors;          /* CUcontext to CUdevice: whom they may for; nullable */
  CUmodule          fill_module;        /* the library's own kernels, loaded when first needed */
  CUfunction        fill_function;
  GMutex            freeing_lock;       /* guards the next */
  GPtrArray        *freeing;            /* of GpuCudaStream that freed memory of the pool */
  GMutex            ranges_lock;        /* guards the next, and is held while memory is mapped and
                                         * while devices get access to it */
  GPtrArray        *ranges;             /* of GpuCudaRange: all addresses with mapped memory */
  GMutex            import_lock;        /* guards the fields below; held while the driver opens */
  GHashTable       *imported;           /* of memory from other processes: imported twice is one */
  int               pool_fd;            /* of which exports of pool are copies; -1: none */
} GpuCudaContext;

typedef struct
{
  GpuNativeStream  base;
  CUstream         stream;
  CUevent          last;                /* of the per-thread stream: after the newest operation */
  GpuWrapMode      mode;
  gboolean         profiling;           /* ops that are asked for an event time it */
  gint             frees;               /* atomic; one of the context's freeing ones */
  guint            thread;              /* of the per-thread stream: whose queue that went to */
  guint            serial;              /* no other stream of the process has had it */
} GpuCudaStream;

/* What an op that enqueues holds between _gpu_cuda_begin() and _gpu_cuda_end(). */
typedef struct
{
  gboolean               entered;
  struct _GpuCudaEvent  *event;         /* to be recorded after the operation, nullable */
} GpuCudaCall;

typedef struct _GpuCudaEvent
{
  GpuNativeEvent        base;
  GpuCudaContext       *context;        /* referenced */
  CUevent               event;
  CUevent               start;          /* nullable; of a timed operation, before it */
  struct _GpuCudaClock *clock;          /* nullable; what its times are counted from */
  gboolean              timing;
  gboolean              interprocess;   /* not one of the context's spare ones */
  guint32              *word;           /* of a host-signalled wait; otherwise NULL */
  guint32               value;          /* that it is open with */
} GpuCudaEvent;

typedef struct
{
  GpuNativeBuffer  base;
  CUdeviceptr      address;
  CUdeviceptr      whole;               /* where the allocation begins; 0: the driver knows */
  gsize            whole_size;          /* bytes of it */
  CUdeviceptr      around;              /* of wrapped memory: where the driver's range begins */
  enum
  {
    GPU_CUDA_MEMORY_OWN,                /* cuMemAlloc() */
    GPU_CUDA_MEMORY_STREAM_ORDERED,     /* cuMemAllocFromPoolAsync() */
    GPU_CUDA_MEMORY_VIRTUAL,            /* cuMemCreate() mapped at an address of its own */
    GPU_CUDA_MEMORY_RESERVED,           /* addresses that chunks are mapped at */
    GPU_CUDA_MEMORY_REGISTERED,         /* cuMemHostRegister() of the user's host memory */
    GPU_CUDA_MEMORY_HOST,               /* cuMemHostAlloc() */
    GPU_CUDA_MEMORY_ORDINARY,           /* host memory that the driver knows nothing of */
    GPU_CUDA_MEMORY_MANAGED,            /* cuMemAllocManaged() */
    GPU_CUDA_MEMORY_SYSTEM,             /* ordinary, too, but the device reaches it */
    GPU_CUDA_MEMORY_IMPORTED,           /* of another process */
    GPU_CUDA_MEMORY_BORROWED            /* wrapped, or a slice */
  }                kind;
  gpointer         shared;              /* nullable; what several buffers hold: an import, or a
                                         * registration of host memory; of managed memory, whom it
                                         * is attached to; of virtual memory, its GpuCudaRange */
  gboolean         is_managed;          /* or a slice of what is: mapped at its address */
} GpuCudaBuffer;

/* Whom managed memory belongs to on a device that shares none of it with the host at the same
 * time. Guarded as the uses of the memory are: by the locks of whoever submits one. */
typedef struct
{
  CUdeviceptr       allocation;         /* where it begins; the memory may do so later */
  CUcontext         context;
  GpuSvmAttachment  attachment;
  guint             stream;             /* its serial, with GPU_SVM_ATTACHMENT_STREAM */
} GpuCudaManaged;

typedef struct
{
  GpuNativeImage    base;
  CUarray           array;              /* the first level; NULL if the image is linear */
  CUmipmappedArray  mipmapped;          /* NULL unless there are several levels */
  CUdeviceptr       address;            /* of a linear image */
  gsize             pitch;              /* of a linear image of rows, as the driver takes it */
  CUarray_format    format;
  guint             n_channels;
  gboolean          owned;              /* the array goes with the image */
  gboolean          has_surface;        /* the array was made for surfaces */
  GMutex            lock;               /* guards what follows */
  CUsurfObject      surface;            /* 0 until first needed */
  GHashTable       *textures;           /* of GpuCudaTexture, for each way to sample; nullable */
  CUtexObject       constants[GPU_CUDA_N_CONSTANT_SAMPLERS]; /* the same, by number, or 0 */
} GpuCudaImage;

typedef struct _GpuCudaModule GpuCudaModule;

typedef struct
{
  GpuNativeProgram  base;
  GpuCudaModule    *module;             /* kernels of the program hold it too */
} GpuCudaProgram;

/* gpu-cuda-device-query.c */
/* References @devices (element-type GpuCudaDevice), for _gpu_cuda_device_lookup(). */
void        _gpu_cuda_device_set_known (GPtrArray   *devices);
/* The device of the driver's @device, if it was enumerated. */
GpuCudaDevice *_gpu_cuda_device_lookup (CUdevice device);
gboolean    _gpu_cuda_device_get   (GpuCudaDevice       *device,
                                    CUdevice_attribute   attribute,
                                    int                 *value,
                                    GError             **error);
/* 0 as well where the driver does not know @attribute. */
int         _gpu_cuda_get_optional (GpuCudaDevice      *device,
                                    CUdevice_attribute  attribute);

/* gpu-cuda-cache-preference.c */
CUfunc_cache       _gpu_cuda_cache_to_native   (GpuCachePreference preference);
GpuCachePreference _gpu_cuda_cache_from_native (CUfunc_cache       config);

/* gpu-cuda-address.c, gpu-cuda-peer.c: ops of contexts and devices. */
GpuContextGetAddressAttributesOp _gpu_cuda_get_address_attributes;
GpuDeviceCanAccessPeerOp _gpu_cuda_can_access_peer;
GpuDeviceGetPeerAttributesOp _gpu_cuda_get_peer_attributes;
GpuContextEnablePeerOp _gpu_cuda_enable_peer;
GpuContextDisablePeerOp _gpu_cuda_disable_peer;

/* gpu-cuda-cache.c. Caller has entered the context, except for _give_event(). */
gboolean    _gpu_cuda_take_event   (GpuCudaContext  *context,
                                    gboolean         timing,
                                    CUevent         *event,
                                    GError         **error);
void        _gpu_cuda_give_event   (GpuCudaContext  *context,
                                    gboolean         timing,
                                    CUevent          event);
/* The library's own stream, which no work of the user's ever holds up. */
gboolean    _gpu_cuda_get_internal_stream (GpuCudaContext  *context,
                                           CUstream        *stream,
                                           GError         **error);
/* One that nothing holds up: data that somebody uploads go through the other. */
gboolean    _gpu_cuda_get_clock_stream (GpuCudaContext  *context,
                                        CUstream        *stream,
                                        GError         **error);
/* Frees all of it. With the context entered if @can_free: otherwise nothing of the driver is
 * freed. */
void        _gpu_cuda_cache_clear  (GpuCudaContext  *context,
                                    gboolean         can_free);

/* gpu-cuda-host-wait.c */
/* GpuTransferOps.create_host_wait() */
GpuNativeEvent *
            _gpu_cuda_host_wait_new (GpuNativeContext *context,
                                     GError          **error);
/* With the context entered: for streams, in the place of an event. */
CUresult    _gpu_cuda_enqueue_host_wait (CUstream    stream,
                                         GpuCudaEvent    *host_wait);
/* Frees the part of @host_wait that belongs to the wait. */
void        _gpu_cuda_host_wait_free (GpuCudaEvent  *host_wait);
void        _gpu_cuda_host_waits_clear (GpuCudaContext  *context,
                                        gboolean         can_free);

/* gpu-cuda-clock.c */
typedef struct _GpuCudaClock GpuCudaClock;

/* With the context entered. */
GpuCudaClock *
            _gpu_cuda_clock_get    (GpuCudaContext  *context,
                                    GError         **error);
void        _gpu_cuda_clock_unref  (GpuCudaClock    *clock);
/* When the timing event @moment, which is complete, was reached. */
gboolean    _gpu_cuda_clock_read   (GpuCudaClock    *clock,
                                    CUevent          moment,
                                    guint64         *nanoseconds,
                                    GError         **error);

/* gpu-cuda-allocation.c */
/* Takes nothing over; the rest of the structure is 0. */
GpuCudaBuffer *
            _gpu_cuda_buffer_new   (CUdeviceptr      address,
                                    gsize            size,
                                    int              kind);
/* With the context entered. Says what was asked for and what there is. */
void        _gpu_cuda_fail_alloc   (GpuCudaContext  *context,
                                    const char      *function,
                                    CUresult         code,
                                    gsize            size,
                                    GError         **error);
/* With the context entered. What the driver says of an address, or @fallback. */
guint64     _gpu_cuda_ask_address  (CUdeviceptr      address,
                                    CUpointer_attribute attribute,
                                    guint64          fallback);

/* gpu-cuda-free.c */
void        _gpu_cuda_buffer_free  (GpuNativeContext *context,
                                    GpuNativeBuffer  *buffer);

/* gpu-cuda-range.c: addresses, and the allocations that are mapped there. */
typedef struct
{
  CUdeviceptr  address;
  gsize        size;
  GTree       *mapped;              /* of bytes by offset: each allocation */
  GHashTable  *exported;            /* nullable; descriptors by offset, of exported allocations */
} GpuCudaRange;

/* Fills in the devices that reach memory of @context, its own one first, and returns their
 * number. */
#define GPU_CUDA_MAX_PEERS 64
guint       _gpu_cuda_list_access  (GpuCudaContext  *context,
                                    CUmemAccessDesc  access[GPU_CUDA_MAX_PEERS + 1]);
/* With the context entered. */
GpuCudaRange *
            _gpu_cuda_range_new    (GpuCudaContext  *context,
                                    gsize            size,
                                    GError         **error);
/* The same with all of @allocation mapped, which stays the caller's. */
GpuCudaRange *
            _gpu_cuda_range_new_for (GpuCudaContext *context,
                                    CUmemGenericAllocationHandle allocation,
                                    gsize            size,
                                    GError         **error);
/* Unmaps what is there. The context need not be entered. */
void        _gpu_cuda_range_free   (GpuCudaContext  *context,
                                    GpuCudaRange    *range);
/* With the context entered. One after the other from @offset on; all of them or none. */
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
/* Has all exports of the allocation at @address share one open file description, so that importers
 * can compare them. Takes @fd over; returns the descriptor to export. */
int         _gpu_cuda_range_share_fd (GpuCudaContext *context,
                                    CUdeviceptr      address,
                                    int              fd);
/* With the ranges_lock. Gives @access to all that is mapped or, when it fails, to nothing. */
gboolean    _gpu_cuda_ranges_set_access_locked (GpuCudaContext        *context,
                                    const CUmemAccessDesc *access,
                                    GError               **error);

/* gpu-cuda-physical.c */
/* With the context entered. */
gboolean    _gpu_cuda_physical_get_granularity (GpuCudaContext *context,
                                    gboolean         shareable,
                                    gsize           *granularity,
                                    GError         **error);
gboolean    _gpu_cuda_physical_create (GpuCudaContext *context,
                                    gsize            size,
                                    gboolean         shareable,
                                    CUmemGenericAllocationHandle *allocation,
                                    GError         **error);
/* With the context entered. Memory that passes to other processes as a file descriptor. */
GpuCudaBuffer *
            _gpu_cuda_virtual_alloc (GpuCudaContext *context,
                                    gsize            size,
                                    GError         **error);

/* gpu-cuda-pool.c: memory in the order of a stream. */
GpuBufferAllocOrderedOp _gpu_cuda_alloc_ordered;
GpuBufferFreeOrderedOp _gpu_cuda_free_ordered;
/* With the context entered: memory for what is enqueued between the two. Where there are no pools
 * the second one waits. */
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
/* With the context entered. Whether a call that answered @code is to be made again: TRUE if it
 * lacked memory, and what pools on the device held for nobody is the driver's again. */
gboolean    _gpu_cuda_make_room    (GpuCudaContext   *context,
                                    CUresult          code);
/* By whoever clears the context, which has been entered if @can_free. */
void        _gpu_cuda_pool_clear   (GpuCudaContext   *context,
                                    gboolean          can_free);
/* By whoever frees @stream. */
void        _gpu_cuda_pool_forget  (GpuCudaStream    *stream);
/* Bits: how the memory of pools passes to other processes. */
guint       _gpu_cuda_get_pool_handle_types (GpuCudaContext *context);

/* gpu-cuda-register.c: memory of the program that devices reach. */
GpuBufferAllocForHostOp _gpu_cuda_alloc_for_host;
/* The same; the bytes of @read_only are in pages that nobody may be able to write. */
GpuNativeBuffer *
            _gpu_cuda_register     (GpuNativeContext  *context,
                                    gboolean           read_only,
                                    gpointer           data,
                                    gsize              size,
                                    GError           **error);
void        _gpu_cuda_unregister   (gpointer           registration);

/* gpu-cuda-host-memory.c */
/* With the context entered. @flags are those of cuMemHostAlloc(). */
GpuCudaBuffer *
            _gpu_cuda_alloc_locked (GpuCudaContext    *context,
                                    unsigned int       flags,
                                    gsize              size,
                                    GError           **error);
GpuBufferAllocHostOp _gpu_cuda_alloc_host;
GpuBufferRegisterHostOp _gpu_cuda_register_host;
GpuBufferUseHostOp _gpu_cuda_use_host;

/* gpu-cuda-copy.c */
/* With the context entered. Before a copy of either memory; both may be NULL. */
void        _gpu_cuda_follow       (GpuNativeStream    *stream,
                                    GpuNativeContext   *context);
CUresult    _gpu_cuda_finish_for_host (GpuNativeStream    *stream,
                                       GpuNativeMemory    *a,
                                       GpuNativeMemory    *b);
GpuBufferCopyOp _gpu_cuda_copy;
GpuBufferCopyPeerOp _gpu_cuda_copy_peer;
GpuBufferWriteOp _gpu_cuda_write;
GpuBufferReadOp _gpu_cuda_read;
GpuBufferWriteNowOp _gpu_cuda_write_now;
GpuBufferReadNowOp _gpu_cuda_read_now;

/* gpu-cuda-region.c */
/* With the context entered; @function becomes the one that was called last. When it fails nothing
 * of the copy is at work. */
CUresult    _gpu_cuda_enqueue_region (CUstream            stream,
                                    const GpuRegionSide  *destination,
                                    const GpuRegionSide  *source,
                                    const GpuExtent      *extent,
                                    const char          **function);
GpuMemoryCopyRegionOp _gpu_cuda_copy_region;

/* gpu-cuda-fill.c */
#define GPU_CUDA_PATTERN_MAX 1024

GpuBufferFillOp _gpu_cuda_fill;
GpuBufferFillRegionOp _gpu_cuda_fill_region;

/* gpu-cuda-mapping.c */
GpuBufferMapOp _gpu_cuda_map;
GpuImageMapOp _gpu_cuda_map_image;
GpuMemoryUnmapOp _gpu_cuda_unmap;
/* For ordinary memory of the host. */
GpuBufferFillOp _gpu_cuda_fill_ordinary;
/* With the context entered, if @can_free: else what the driver has is not freed. */
void        _gpu_cuda_staging_clear (GpuCudaContext      *context,
                                    gboolean              can_free);

/* gpu-cuda-export.c, gpu-cuda-import.c */
GpuBufferExportHandleOp _gpu_cuda_export_handle;
GpuBufferImportHandleOp _gpu_cuda_import_handle;
GpuBufferExportFdOp _gpu_cuda_export_fd;
GpuBufferImportFdOp _gpu_cuda_import_fd;
/* gpu-cuda-share.c */
GpuBufferGetFdKindsOp _gpu_cuda_get_fd_kinds;
GpuBufferShareFdOp _gpu_cuda_share_fd;
GpuBufferOpenFdOp _gpu_cuda_open_fd;
/* Where the memory of the exporter begins here. */
CUdeviceptr _gpu_cuda_import_get_address (gpointer        import);
void        _gpu_cuda_import_unref (GpuCudaContext       *context,
                                    gpointer              import);

/* gpu-cuda-managed.c */
GpuSvmPrefetchOp _gpu_cuda_prefetch;
/* Where the pages of managed memory are and shall be, by nick, as far as the driver tells. */
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

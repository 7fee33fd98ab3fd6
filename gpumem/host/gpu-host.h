/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The host back end: streams are threads, buffers are memory of the process, and programs are
 * shared objects that the C compiler of the machine creates.
 *
 * Lock order: stream, then event. A thread never locks two streams at once. The completion of an
 * event locks the streams that wait for it, so it must run with no lock held.
 */
#pragma once

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/host/compiler/gpu-host-compiler.h"
#include "gpumem/host/executor/gpu-host-executor.h"

G_BEGIN_DECLS

/* The ops tables of this back end. In each object of this back end, the member `backend` points to
 * this structure. */
extern const GpuBackend _gpu_host_backend;

#define GPU_HOST_MAX_WORK_GROUP_SIZE 1024
#define GPU_HOST_LOCAL_MEMORY_SIZE   (64 * 1024)
#define GPU_HOST_STACK_SIZE          (256 * 1024)
#define GPU_HOST_STACK_SIZE_MIN      (32 * 1024)
#define GPU_HOST_STACK_SIZE_MAX      (64 * 1024 * 1024)

/* The maximum width, height, depth and number of layers of images, and the maximum width of images
 * over buffers. Sizes must fit into the int that kernels use for them. */
#define GPU_HOST_IMAGE_MAX_SIZE        (64 * 1024)
#define GPU_HOST_IMAGE_MAX_BUFFER_SIZE (1024 * 1024 * 1024)

/* A sealed file that contains shareable chunks. */
typedef struct _GpuHostSlab GpuHostSlab;
/* The shareable chunks of an address range. */
typedef struct _GpuHostRange GpuHostRange;

typedef struct
{
  GpuNativeContext parent;
  gsize            stack_size;      /* atomic; bytes of the stack of each work-item in kernels with
                                     * barriers */

  GMutex           chunks_lock;     /* protects the next two members */
  int              chunks_fd;       /* the file that contains all chunks that cannot be shared; -1
                                     * until needed */
  guint64          chunks_end;      /* size of the file, and offset of the next chunk. The offset of
                                     * a freed chunk is not reused: its part of the file is a hole,
                                     * which takes no memory */
} GpuHostContext;

/* A part of a file. A handle of exported memory is an array of these, one for each file
 * descriptor. */
typedef struct
{
  guint64 offset;
  guint64 size;
} GpuHostPart;

/* Physical memory without an address: a part of a file. */
typedef struct
{
  GpuNativeChunk  parent;
  GpuHostSlab    *slab;             /* NULL if the chunk cannot be shared */
  int             fd;               /* belongs to the slab or the context */
  guint64         offset;           /* in the file */
} GpuHostChunk;

/* The failure of a stream's work. */
typedef struct
{
  gatomicrefcount  refs;
  guint64          reported;        /* atomic; number of the last operation whose error was
                                     * returned */
  GError          *error;
} GpuHostFailure;

struct _GpuHostEvent
{
  GpuNativeEvent  parent;
  gboolean        is_user;
  gboolean        is_timed;
  guint64         seq;              /* the event reports the result of the stream up to the
                                     * operation with this number */
  gint            status;           /* atomic, GpuEventStatus; written under lock */
  GpuHostFailure *failure;          /* set before the status is FAILED */
  guint64         times[4];         /* indexed by GpuProfilingPoint; set before the status is
                                     * COMPLETE */

  GMutex          lock;             /* protects the next three members */
  GCond           cond;
  guint           n_sleepers;
  GSList         *streams;          /* of GpuHostStream; they wait for this event */
};

struct _GpuHostBuffer
{
  GpuNativeBuffer  parent;
  guint8          *data;
  gsize            mapped_size;     /* bytes for munmap(), or 0 */
  gpointer         allocation;      /* address for free(), or NULL */
  GpuHostFile     *file;            /* of shared memory, nullable */
  GpuHostRange    *range;           /* of reserved addresses, nullable */
  GpuHostBuffer   *root;            /* parent of a slice */
  const char      *origin;          /* "memory", "shared", "slice", "wrapped", "host", "global" */
};

typedef struct
{
  GpuHostOperation  parent;
  guint             n_events;
  GpuHostEvent     *events[];
} GpuHostWait;

/* A loaded program. */
typedef struct
{
  gatomicrefcount            refs;
  gpointer                   module;        /* GModule */
  const GpuHostProgramEntry *entry;
  GBytes                    *binary;
} GpuHostModule;

typedef struct
{
  GpuNativeProgram  parent;
  GpuHostModule    *module;
} GpuHostProgram;

typedef struct
{
  GpuNativeKernel           parent;
  GpuHostContext           *context;
  GpuHostModule            *module;
  const GpuHostKernelEntry *entry;
  gsize                     local_size;     /* bytes of the variables in local memory */
} GpuHostKernel;

extern const GpuDeviceOps  _gpu_host_device_ops;
extern const GpuContextOps _gpu_host_context_ops;
extern const GpuStreamOps  _gpu_host_stream_ops;
extern const GpuEventOps   _gpu_host_event_ops;
extern const GpuMemoryOps  _gpu_host_memory_ops;
extern const GpuBufferOps  _gpu_host_buffer_ops;
extern const GpuVirtualOps _gpu_host_virtual_ops;
extern const GpuSvmOps     _gpu_host_svm_ops;
extern const GpuImageOps   _gpu_host_image_ops;
extern const GpuSamplerOps _gpu_host_sampler_ops;
extern const GpuProgramOps _gpu_host_program_ops;
extern const GpuKernelOps  _gpu_host_kernel_ops;
extern const GpuTransferOps _gpu_host_transfer_ops;

/* Gets the time of the profiling clock in nanoseconds. */
guint64         _gpu_host_get_time            (void);
/* Gets the free and the total memory of the machine, within the limits of the cgroups of the
 * process. Reads system files on each call; a move of the process to another cgroup takes effect
 * after a second. */
gboolean        _gpu_host_get_memory          (guint64                 *free_size,
                                               guint64                 *total_size,
                                               GError                 **error);

GpuHostFailure *_gpu_host_failure_new         (GError                  *error);
GpuHostFailure *_gpu_host_failure_ref         (GpuHostFailure          *failure);
void            _gpu_host_failure_unref       (GpuHostFailure          *failure);

GpuHostEvent   *_gpu_host_event_new           (gboolean                 is_timed);
/* Completes the event, or fails it with @failure. Returns FALSE if the event has already ended. The
 * caller must hold no locks. */
gboolean        _gpu_host_event_end           (GpuHostEvent            *event,
                                               GpuHostFailure          *failure);
/* Registers @stream to be woken when the event ends. Returns FALSE if the event has already
 * ended. */
gboolean        _gpu_host_event_add_stream    (GpuHostEvent            *event,
                                               GpuHostStream           *stream);
void            _gpu_host_event_remove_stream (GpuHostEvent            *event,
                                               GpuHostStream           *stream);

/* Creates an operation of kind WORK: @size bytes that begin with a GpuHostOperation; the rest is
 * 0. */
gpointer        _gpu_host_operation_new       (gsize                    size,
                                               GpuHostRunFunc           run);
/* Takes ownership of @operation. */
gboolean        _gpu_host_stream_submit       (GpuNativeStream         *stream,
                                               gpointer                 operation,
                                               GpuNativeEvent         **event,
                                               GError                 **error);
gboolean        _gpu_host_stream_submit_nothing (GpuNativeStream       *stream,
                                               GpuNativeEvent         **event,
                                               GError                 **error);
GpuHostStream  *_gpu_host_stream_ref          (GpuHostStream           *stream);
void            _gpu_host_stream_unref        (GpuHostStream           *stream);
void            _gpu_host_stream_wake         (GpuHostStream           *stream);

GpuMemoryFreeOp _gpu_host_memory_free;
/* Returns @memory itself if it is a buffer, or the buffer that contains the texels if @memory is an
 * image. */
GpuHostBuffer  *_gpu_host_memory_get_buffer   (const GpuNativeMemory   *memory);
/* Returns the address of the first byte or texel. */
guint8         *_gpu_host_memory_get_data     (const GpuNativeMemory   *memory);
GpuMemoryCopyRegionOp _gpu_host_copy_region;
GpuNativeBuffer *_gpu_host_buffer_new         (gpointer                 data,
                                               gsize                    size,
                                               const char              *origin);
GpuBufferAllocOp _gpu_host_buffer_alloc;
/* @alignment is at least GPU_HOST_BASE_ALIGNMENT. */
GpuNativeBuffer *_gpu_host_buffer_alloc_aligned (GpuNativeContext      *context,
                                               gsize                    size,
                                               gsize                    alignment,
                                               GError                 **error);
GpuBufferAllocForHostOp _gpu_host_buffer_alloc_for_host;
GpuNativeBuffer *_gpu_host_buffer_alloc_shared (gsize                   size,
                                               GError                 **error);
void            _gpu_host_file_unuse          (GpuHostFile             *file);
/* Sets the alias key of memory that begins at the address @data in the mapping @file. */
void            _gpu_host_file_identify       (GpuHostFile             *file,
                                               gconstpointer            data,
                                               GpuAliasKey             *alias_key);
GpuBufferExportFdOp _gpu_host_buffer_export_fd;
GpuBufferImportFdOp _gpu_host_buffer_import_fd;
GpuBufferGetFdKindsOp _gpu_host_buffer_get_fd_kinds;
GpuBufferShareFdOp _gpu_host_buffer_share_fd;
GpuBufferOpenFdOp _gpu_host_buffer_open_fd;

/* Sets GPU_ERROR_OUT_OF_DEVICE_MEMORY after @function failed with the errno @code. */
void            _gpu_host_set_no_memory       (GpuNativeContext        *context,
                                               const char              *function,
                                               int                      code,
                                               gsize                    size,
                                               GError                 **error);
/* Fails with GPU_ERROR_OUT_OF_DEVICE_MEMORY if the contexts of the process would hold more than the
 * memory of the device. The system itself accepts such allocations: it provides pages at the first
 * write, and kills a process if no pages are left. Reserves no memory, so concurrent allocations
 * may together exceed the limit. */
gboolean        _gpu_host_check_room          (GpuNativeContext        *context,
                                               gsize                    size,
                                               GError                 **error);
GpuBufferCommitOp _gpu_host_buffer_commit;

/* gpu-host-chunk.c */
GpuNativeChunk *_gpu_host_create_chunk        (GpuNativeContext        *context,
                                               gboolean                 is_host,
                                               gsize                    size,
                                               GpuNativeBuffer         *shared,
                                               GError                 **error);
void            _gpu_host_destroy_chunk       (GpuNativeContext        *context,
                                               GpuNativeChunk          *chunk);
/* Frees the state of a context. All chunks have been destroyed. */
void            _gpu_host_chunks_clear        (GpuHostContext          *context);
/* Creates a file of @size bytes that cannot be truncated. Returns its descriptor, or -1 with
 * errno and the name of the failed call in @function. */
int             _gpu_host_create_sealed_file  (guint64                  size,
                                               const char             **function);

GpuHostRange   *_gpu_host_range_new           (void);
void            _gpu_host_range_free          (GpuHostRange            *range);
/* Lists the shareable chunks among @n_chunks chunks, which are mapped from @offset on. */
void            _gpu_host_range_add           (GpuHostRange            *range,
                                               gsize                    offset,
                                               GpuNativeChunk *const   *chunks,
                                               guint                    n_chunks);
/* Removes the chunks that were mapped to the @size bytes at @offset from the list. */
void            _gpu_host_range_remove        (GpuHostRange            *range,
                                               gsize                    offset,
                                               gsize                    size);
/* Adds the parts of files that are mapped to the first @size bytes of @buffer, a slice of a range,
 * to @parts, and a descriptor for each part to @fds. */
gboolean        _gpu_host_range_list_parts    (GpuHostBuffer           *buffer,
                                               gsize                    size,
                                               GArray                  *parts,
                                               GArray                  *fds,
                                               GError                 **error);

GpuHostModule  *_gpu_host_module_new          (GBytes                  *binary,
                                               GError                 **error);
GpuHostModule  *_gpu_host_module_ref          (GpuHostModule           *module);
void            _gpu_host_module_unref        (GpuHostModule           *module);

GpuNativeKernel *_gpu_host_kernel_new         (GpuNativeContext        *context,
                                               GpuHostModule           *module,
                                               const GpuHostKernelEntry *entry);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuHostFailure, _gpu_host_failure_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuHostModule, _gpu_host_module_unref)

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The back end on plain memory: streams are threads, buffers are memory of the process, programs
 * are shared objects made by the C compiler of the machine.
 *
 * Lock order: stream, then event. Nothing is called with a stream locked that could lock another
 * stream, so events complete with no lock held.
 */
#pragma once

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/host/gpu-host-abi.h"
#include "gpumem/host/gpu-host-texture.h"

G_BEGIN_DECLS

/* The tables of this driver; its address tells its objects from those of other drivers. */
extern const GpuBackend _gpu_host_backend;

GPU_HOST_ABI (GPU_HOST_ABI_AS_C)

#define GPU_HOST_BASE_ALIGNMENT      64
#define GPU_HOST_MAX_WORK_GROUP_SIZE 1024
#define GPU_HOST_LOCAL_MEMORY_SIZE   (64 * 1024)
#define GPU_HOST_STACK_SIZE          (256 * 1024)
#define GPU_HOST_STACK_SIZE_MIN      (32 * 1024)
#define GPU_HOST_STACK_SIZE_MAX      (64 * 1024 * 1024)

/* Texels, rows, slices and layers of images, and texels over a buffer: kernels count with an int,
 * and more is of no use. */
#define GPU_HOST_IMAGE_MAX_SIZE        (64 * 1024)
#define GPU_HOST_IMAGE_MAX_BUFFER_SIZE (1024 * 1024 * 1024)

#define GPU_HOST_N_CHANNEL_ORDERS (GPU_CHANNEL_ORDER_SBGRA + 1)
#define GPU_HOST_N_CHANNEL_TYPES  (GPU_CHANNEL_TYPE_UNORM_101010 + 1)

typedef struct _GpuHostBuffer    GpuHostBuffer;
typedef struct _GpuHostFile      GpuHostFile;
typedef struct _GpuHostOperation GpuHostOperation;
typedef struct _GpuHostStream    GpuHostStream;

typedef struct
{
  GpuNativeContext parent;
  gsize            stack_size;      /* atomic; bytes of stack of a work-item that has barriers */

  GMutex           pieces_lock;     /* guards what follows */
  int              pieces_fd;       /* the file that pieces are parts of; -1: not yet needed */
  guint64          pieces_end;      /* bytes of it: nothing is used twice, and holes cost nothing */
} GpuHostContext;

/* Why work of a stream failed, and up to which operation somebody was told. */
typedef struct
{
  gatomicrefcount  refs;
  guint64          reported;        /* atomic */
  GError          *error;
} GpuHostFailure;

typedef struct
{
  GpuNativeEvent  parent;
  gboolean        is_user;
  gboolean        is_timed;
  guint64         seq;              /* it says how all went up to this operation of its stream */
  gint            status;           /* atomic, GpuEventStatus; written under lock */
  GpuHostFailure *failure;          /* set before the status is FAILED */
  guint64         times[4];         /* by GpuProfilingPoint; set before the status is COMPLETE */

  GMutex          lock;             /* guards what follows */
  GCond           cond;
  guint           n_sleepers;
  GSList         *streams;          /* of GpuHostStream that wait for this event */
} GpuHostEvent;

struct _GpuHostBuffer
{
  GpuNativeBuffer  parent;
  guint8          *data;
  gsize            mapped_size;     /* of what munmap() frees, or 0 */
  gpointer         allocation;      /* of what free() frees, or NULL */
  GpuHostFile     *file;            /* of shared memory, nullable */
  GpuHostBuffer   *root;            /* of a slice */
  const char      *origin;          /* "memory", "shared", "slice", "wrapped", "host", "global" */
};

/* What kernels get is the view. */
typedef struct
{
  GpuNativeImage  parent;
  GpuHostBuffer  *memory;           /* where the texels stand, its own or borrowed */
  GpuHostImage    view;
  GpuHostTexture  texture;          /* of the levels that follow */
  GpuHostLevel    levels[];
} GpuHostNativeImage;

/* An order or a type of channels as OpenCL C has it, "R" for CLK_R. */
typedef struct
{
  const char *name;
  int         number;
} GpuHostChannelName;

/* Any thread but never two at once. */
typedef gboolean (*GpuHostRunFunc) (GpuHostOperation  *operation,
                                    GError           **error);

typedef void (*GpuHostReleaseFunc) (GpuHostOperation *operation);

typedef enum
{
  GPU_HOST_OPERATION_WORK,
  GPU_HOST_OPERATION_RECORD,
  GPU_HOST_OPERATION_WAIT,
  GPU_HOST_OPERATION_BARRIER
} GpuHostOperationKind;

typedef struct _GpuHostEpoch GpuHostEpoch;

/* One thing for a stream to do; what it works on follows it in a larger structure. */
struct _GpuHostOperation
{
  GpuHostOperation     *next;
  GpuHostOperationKind  kind;
  GpuHostRunFunc        run;        /* of WORK; NULL for work that does nothing */
  GpuHostReleaseFunc    release;    /* nullable; called at the end, whether it was run or not */
  guint64               seq;
  GpuHostEvent         *event;      /* nullable */
  GpuHostStream        *stream;     /* while on the pool, with a reference */
  GpuHostEpoch         *epoch;      /* while on the pool */
};

typedef struct
{
  GpuHostOperation  parent;
  guint             n_events;
  GpuHostEvent     *events[];
} GpuHostWait;

/* A compiled program, loaded. */
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

/* A grid of work-groups that any number of threads work off together. */
typedef struct
{
  GpuHostOperation          parent;
  const GpuHostKernelEntry *entry;
  guint                     work_dim;
  gsize                     grid[3];
  gsize                     block[3];
  gsize                     n_groups[3];
  gsize                     n_groups_total;
  gsize                     stack_size;
  gsize                     scratch_size;   /* bytes of local memory that arguments ask for */
  gsize                     next;           /* atomic; the first group nobody has taken */
  gsize                     chunk;
  gint                      failed;         /* atomic */
  GError                   *error;          /* of the one that set failed */
  guint                     n_arguments;
  void                    **arguments;      /* where each value stands */
  gsize                    *offsets;        /* into the scratch memory, for LOCAL */
  GpuArgumentKind          *kinds;
  guint8                   *values;
} GpuHostLaunch;

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

/* What kernels read and write images with. */
extern const GpuHostImageFunctions _gpu_host_image_functions;
/* By GpuChannelOrder and GpuChannelType; NULL behind the last. */
extern const GpuHostChannelName    _gpu_host_channel_orders[GPU_HOST_N_CHANNEL_ORDERS + 1];
extern const GpuHostChannelName    _gpu_host_channel_types[GPU_HOST_N_CHANNEL_TYPES + 1];

/* Nanoseconds of the clock that events are timed by. */
guint64         _gpu_host_get_time            (void);
/* Bytes that the operating system could still give, and all that the machine has. */
gboolean        _gpu_host_get_memory          (guint64                 *free_size,
                                               guint64                 *total_size,
                                               GError                 **error);

GpuHostFailure *_gpu_host_failure_new         (GError                  *error);
GpuHostFailure *_gpu_host_failure_ref         (GpuHostFailure          *failure);
void            _gpu_host_failure_unref       (GpuHostFailure          *failure);

GpuHostEvent   *_gpu_host_event_new           (gboolean                 is_timed);
/* With no lock held. @failure NULL completes the event. FALSE if it was over already. */
gboolean        _gpu_host_event_end           (GpuHostEvent            *event,
                                               GpuHostFailure          *failure);
/* Has @stream woken when the event ends. FALSE if it has ended already. */
gboolean        _gpu_host_event_add_stream    (GpuHostEvent            *event,
                                               GpuHostStream           *stream);
void            _gpu_host_event_remove_stream (GpuHostEvent            *event,
                                               GpuHostStream           *stream);

/* The operations that buffers and kernels submit: @size bytes, zeroed but for the head. */
gpointer        _gpu_host_operation_new       (gsize                    size,
                                               GpuHostRunFunc           run);
/* Takes @operation over. */
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

void            _gpu_host_memory_free         (GpuNativeContext        *context,
                                               GpuNativeMemory         *memory);
/* Where memory begins, an image's with its first texel. */
guint8         *_gpu_host_memory_get_data     (const GpuNativeMemory   *memory);
/* GpuMemoryOps.copy_region() */
gboolean        _gpu_host_copy_region         (GpuNativeStream         *stream,
                                               const GpuRegionSide     *destination,
                                               const GpuRegionSide     *source,
                                               const GpuExtent         *extent,
                                               GpuNativeEvent         **event,
                                               GError                 **error);
GpuNativeBuffer *_gpu_host_buffer_new         (gpointer                 data,
                                               gsize                    size,
                                               const char              *origin);
/* GpuBufferOps.alloc() */
GpuNativeBuffer *_gpu_host_buffer_alloc       (GpuNativeContext        *context,
                                               GpuMemoryFlags           flags,
                                               gsize                    size,
                                               gconstpointer            data,
                                               GError                 **error);
/* At a multiple of @alignment, at least GPU_HOST_BASE_ALIGNMENT. */
GpuNativeBuffer *_gpu_host_buffer_alloc_aligned (GpuNativeContext      *context,
                                               gsize                    size,
                                               gsize                    alignment,
                                               GError                 **error);
/* GpuBufferOps.alloc_for_host() */
GpuNativeBuffer *_gpu_host_buffer_alloc_for_host (GpuNativeContext     *context,
                                               GpuMemoryFlags           flags,
                                               gpointer                 data,
                                               gsize                    size,
                                               GError                 **error);
GpuNativeBuffer *_gpu_host_buffer_alloc_shared (gsize                   size,
                                               GError                 **error);
void            _gpu_host_file_unuse          (GpuHostFile             *file);
/* Where in the file @data, of a mapping of it, is. */
void            _gpu_host_file_identify       (GpuHostFile             *file,
                                               gconstpointer            data,
                                               GpuOrigin               *origin);
GBytes         *_gpu_host_buffer_export_fd    (GpuNativeContext        *context,
                                               GpuNativeBuffer         *buffer,
                                               int                     *fd,
                                               GError                 **error);
GpuNativeBuffer *_gpu_host_buffer_import_fd   (GpuNativeContext        *context,
                                               GBytes                  *handle,
                                               int                      fd,
                                               gsize                    size,
                                               GError                 **error);
GpuFdKinds       _gpu_host_buffer_get_fd_kinds (GpuNativeContext       *context,
                                               gboolean                 import);
gboolean         _gpu_host_buffer_share_fd    (GpuNativeContext        *context,
                                               GpuNativeBuffer         *buffer,
                                               GpuFdKinds               kind,
                                               int                     *fd,
                                               gsize                   *whole_size,
                                               gsize                   *offset,
                                               GError                 **error);
GpuNativeBuffer *_gpu_host_buffer_open_fd     (GpuNativeContext        *context,
                                               GpuFdKinds               kind,
                                               int                      fd,
                                               gsize                    whole_size,
                                               gsize                    offset,
                                               gsize                    size,
                                               GError                 **error);

/* Sets GPU_ERROR_OUT_OF_DEVICE_MEMORY: @function failed with the errno @code. */
void            _gpu_host_set_no_memory       (GpuNativeContext        *context,
                                               const char              *function,
                                               int                      code,
                                               gsize                    size,
                                               GError                 **error);
/* What GpuVirtualOps leave in a context. */
void            _gpu_host_pieces_clear        (GpuHostContext          *context);

typedef void (*GpuHostPoolFunc) (gpointer data);

/* Runs @func on a thread of the process-wide pool. */
void            _gpu_host_pool_push           (GpuHostPoolFunc          func,
                                               gpointer                 data);
/* Runs @func here and on idle threads of the pool at the same time; all of them are back when
 * the call returns. */
void            _gpu_host_pool_share          (GpuHostPoolFunc          func,
                                               gpointer                 data);
guint           _gpu_host_pool_get_n_threads  (void);

typedef void (*GpuHostItemFunc) (void        **arguments,
                                 GpuHostItem  *item);

/* The GpuHostRunFunc of a GpuHostLaunch. */
gboolean        _gpu_host_launch_run          (GpuHostOperation        *operation,
                                               GError                 **error);

/* What stands at the head of every program, with @images also of those that have vectors, images
 * or samplers. */
char           *_gpu_host_prelude_new         (gboolean                 images);
void            _gpu_host_prelude_append_images (GString               *text);
/* Whether @text, a source or options, may have vectors, images or samplers. */
gboolean        _gpu_host_text_has_images     (const char              *text);
/* "image2d_t" and its kin. */
gboolean        _gpu_host_is_image_type       (const char              *name);
/* Turns the vector literals behind the preprocessor into C: "(float2) (x, y)". */
char           *_gpu_host_rewrite_vectors     (const char              *text);
/* Turns what the preprocessor made of a program into C that exports a GpuHostProgramEntry. */
char           *_gpu_host_rewrite             (const char              *text,
                                               GError                 **error);
/* Why there is no compiler: FALSE. */
gboolean        _gpu_host_compiler_check      (GError                 **error);
/* Path and version of the compiler; any thread. */
const char     *_gpu_host_compiler_identify   (void);
/* The bytes of the shared object. */
GBytes         *_gpu_host_compiler_run        (const char              *source,
                                               const char              *options,
                                               char                   **log,
                                               GError                 **error);

GpuHostModule  *_gpu_host_module_new          (GBytes                  *binary,
                                               GError                 **error);
GpuHostModule  *_gpu_host_module_ref          (GpuHostModule           *module);
void            _gpu_host_module_unref        (GpuHostModule           *module);

/* Creates a directory that only this process can enter. */
char           *_gpu_host_directory_new       (GError                 **error);

GpuNativeKernel *_gpu_host_kernel_new         (GpuNativeContext        *context,
                                               GpuHostModule           *module,
                                               const GpuHostKernelEntry *entry);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuHostFailure, _gpu_host_failure_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuHostModule, _gpu_host_module_unref)

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the files of the OpenCL back end. Functions of the API that came after 1.2 are only
 * called on platforms whose version has them: the loader would jump through an empty slot.
 */
#pragma once

#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/opencl.h>

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/base/gpu-debug-private.h"

G_BEGIN_DECLS

/* The tables of this driver; its address tells its objects from those of other drivers. */
extern const GpuBackend _gpu_opencl_backend;

/* Texels in each dimension, and layers; zeros where there are no images. */
typedef struct
{
  gsize width_2d;
  gsize height_2d;
  gsize width_3d;
  gsize height_3d;
  gsize depth_3d;
  gsize over_buffer;
  gsize n_layers;
} GpuOpenclImageLimits;

/* cl_intel_unified_shared_memory */
typedef struct
{
  clDeviceMemAllocINTEL_fn         alloc_device;
  clHostMemAllocINTEL_fn           alloc_host;
  clSharedMemAllocINTEL_fn         alloc_shared;
  clMemFreeINTEL_fn                free;
  clSetKernelArgMemPointerINTEL_fn set_argument;
  clEnqueueMemFillINTEL_fn         fill;
  clEnqueueMemcpyINTEL_fn          copy;
  GpuSvmFlags                      fine;        /* kinds that the host may touch at any time */
} GpuOpenclUsm;

typedef struct
{
  GpuNativeDevice              base;
  cl_device_id                 id;
  cl_platform_id               cl_platform;
  char                        *platform_version;
  guint                        api;             /* of the platform: 30 for OpenCL 3.0 */
  guint                        level;           /* of the device */
  guint                        pocl;            /* major version of PoCL, 0 for other drivers */
  GpuOpenclImageLimits         image_limits;
  char                       **extensions;      /* of the device and of its platform */
  clCreateProgramWithILKHR_fn  create_with_il;  /* NULL where there is none */
  GpuFdKinds                   fd_kinds;        /* that memory is made from; with the next two */
  clEnqueueAcquireExternalMemObjectsKHR_fn acquire_external;
  clEnqueueReleaseExternalMemObjectsKHR_fn release_external;
  GpuOpenclUsm                 usm;             /* where base.usm_kinds is not 0 */
} GpuOpenclDevice;

typedef struct
{
  GpuNativeContext  base;
  cl_context        context;
  cl_device_id     *ids;                        /* of the devices, in their order */
  GMutex            slices_lock;                /* of the slices of every buffer */
  GRWLock           slices_use;                 /* see _gpu_opencl_hold_slices() */
  gint              has_slices;                 /* atomic; since the first was made */
  GMutex            svm_lock;                   /* held while shared virtual memory is allocated or
                                                 * freed */
  GMutex            internal_lock;              /* of what follows */
  cl_command_queue  internal;                   /* maps memory of the host; NULL before any was */
  GPtrArray        *mapped;                     /* of GpuOpenclBuffer: that memory; likewise */
} GpuOpenclContext;

/* The queue of a stream, for its events, which may outlive it. */
typedef struct
{
  gatomicrefcount   refs;
  GMutex            lock;
  cl_command_queue  handle;                     /* NULL once the stream is freed; under lock */
  gboolean          fails_late;                 /* see settle() in gpu-opencl-event.c */
} GpuOpenclQueue;

typedef struct
{
  GpuNativeStream   base;
  cl_command_queue  queue;
  GpuOpenclQueue   *shared_queue;               /* the same, for events */
  GpuOpenclDevice  *device;
  gboolean          out_of_order;
} GpuOpenclStream;

typedef struct
{
  GpuNativeEvent    base;
  cl_event          event;
  GpuOpenclQueue   *queue;                      /* NULL for a user event */
  GArray           *pieces;                     /* nullable; events that must outlive this one:
                                                 * PoCL uses those of failed commands again */
  gint              unset;                      /* atomic; a user event that has no status yet */
  gboolean          cannot_fail;                /* a user event that must not fail in the driver */
  gint              failed;                     /* atomic; set complete there instead of failed */
  gint              settled;                    /* atomic; its failure was seen, see settle() */
} GpuOpenclEvent;

typedef struct _GpuOpenclSlice GpuOpenclSlice;

/* Bytes of a buffer that stands between memory of the host and memory of the host. */
#define GPU_OPENCL_SCRATCH_SIZE ((gsize) 16 * 1024 * 1024)

typedef struct
{
  GpuNativeBuffer   base;
  cl_mem            mem;
  cl_mem            parent;                     /* of a wrapped sub-buffer, or NULL */
  gsize             parent_offset;              /* in that */
  GpuOpenclSlice   *slice;                      /* what owns mem, nullable */
  GPtrArray        *slices;                     /* nullable; those that it has, unowned */
  gpointer          svm;                        /* nullable; where it is for host and device, mem
                                                 * is over that */
  gpointer          svm_allocation;             /* what clSVMAlloc() gave for it, nullable */
  gpointer          svm_argument;               /* what kernels get in the place of mem, nullable */
  const GpuOpenclUsm *usm;                      /* nullable: it is unified shared memory at svm, and
                                                 * mem is NULL; with the next three */
  GpuSvmFlags       usm_kind;
  gpointer          usm_start;                  /* what svm is a part of */
  gpointer          usm_allocation;             /* what the driver gave; NULL for a part */
  gboolean          is_mapped;                  /* mem is at base.host as long as it lives, so that
                                                 * commands take that in its place */
  gboolean          is_registered;              /* mem is over memory of the program */
} GpuOpenclBuffer;

typedef struct
{
  GpuNativeImage    base;
  cl_mem            mem;
  cl_mem            buffer;                     /* of a 1D_BUFFER: nullable, unowned; all commands
                                                 * but launches go to it */
  guint             level;                      /* within mem */
} GpuOpenclImage;

typedef struct
{
  GpuNativeSampler  base;
  cl_sampler        sampler;
} GpuOpenclSampler;

typedef struct
{
  GpuNativeProgram  base;
  cl_program        program;
} GpuOpenclProgram;

typedef struct
{
  GpuNativeKernel   base;
  cl_kernel         kernel;
  char             *name;
  gsize             required_block[3];          /* zeros where the source requires none */
  gboolean          takes_images;               /* or may, for all the driver tells */
  GMutex            lock;                       /* from the first argument to the enqueueing */
  cl_kernel         pointer_kernel;             /* the same one once more, for launches that reach
                                                 * memory indirectly; NULL until there is one */
  guint64           pointers;                   /* of pointer_kernel, see get_pointers() */
} GpuOpenclKernel;

/* gpu-opencl-error.c: the only file that knows what the codes of OpenCL mean. */
typedef struct
{
  cl_int      code;
  const char *name;
  GpuError    error;
} GpuOpenclErrorEntry;

/* Ends with an entry whose name is NULL. */
extern const GpuOpenclErrorEntry _gpu_opencl_error_table[];

const char     *_gpu_opencl_error_name       (cl_int               code);
GpuError        _gpu_opencl_error_map        (cl_int               code);
/* Sets "clFunction: CL_NAME (-1): details". */
void            _gpu_opencl_set_error        (GError             **error,
                                              const char          *function,
                                              cl_int               code,
                                              const char          *format,
                                              ...) G_GNUC_PRINTF (4, 5);
/* The same where the function gives @code a meaning that differs from the table. */
void            _gpu_opencl_set_error_as     (GError             **error,
                                              GpuError             meaning,
                                              const char          *function,
                                              cl_int               code,
                                              const char          *format,
                                              ...) G_GNUC_PRINTF (5, 6);

/* gpu-opencl-nvml.c. Bytes of a device of NVIDIA that nobody uses; where its library cannot tell it
 * is GPU_ERROR_NOT_SUPPORTED. */
gboolean        _gpu_opencl_nvml_get_free    (const char          *pci_bus_id,
                                              guint64             *free_size,
                                              GError             **error);

/* gpu-opencl-device-info.c */
/* Set by the first enumeration that succeeds, read only after it. */
extern GPtrArray *_gpu_opencl_known_devices;
/* The device with the handle @id, if it was enumerated. */
GpuOpenclDevice *_gpu_opencl_device_lookup   (cl_device_id         id);
gboolean        _gpu_opencl_device_has       (GpuOpenclDevice     *device,
                                              const char          *extension);
/* The device "basic" of PoCL runs a command on the very thread that ends what the command waited
 * for, under a lock that it then wants itself: user events and other devices make it hang. So do
 * user events with Oclgrind, which runs everything, waits included, within clFlush(). */
gboolean        _gpu_opencl_device_hangs     (GpuOpenclDevice     *device);
gboolean        _gpu_opencl_device_is_nvidia (GpuOpenclDevice     *device);
/* Intel's runtime for CPUs. */
gboolean        _gpu_opencl_device_is_intel_cpu (GpuOpenclDevice  *device);
/* @size bytes of an info, exactly. */
gboolean        _gpu_opencl_device_get       (cl_device_id         id,
                                              cl_device_info       info,
                                              gpointer             value,
                                              gsize                size,
                                              GError             **error);
/* An info of any size, with a nul byte behind it. */
gpointer        _gpu_opencl_device_get_data  (cl_device_id         id,
                                              cl_device_info       info,
                                              gsize               *size,
                                              GError             **error);
/* Without spaces around it, valid UTF-8. Takes @text over. */
char           *_gpu_opencl_clean_text       (char                *text);

/* gpu-opencl-image-device.c */
/* Also sets the limits. */
GpuCapabilities _gpu_opencl_device_read_images (GpuOpenclDevice   *device);

/* gpu-opencl-external.c: memory of other APIs. */
void            _gpu_opencl_device_read_external (GpuOpenclDevice *device);
GpuBufferGetFdKindsOp _gpu_opencl_get_fd_kinds;
GpuBufferOpenFdOp _gpu_opencl_open_fd;
GpuBufferAcquireOp _gpu_opencl_acquire;
GpuBufferReleaseOp _gpu_opencl_release;

/* gpu-opencl-usm.c: unified shared memory */
void            _gpu_opencl_device_read_usm  (GpuOpenclDevice     *device);
GpuNativeBuffer *_gpu_opencl_usm_alloc       (GpuNativeContext    *context,
                                              GpuSvmFlags          kind,
                                              gsize                size,
                                              gsize                alignment,
                                              GError             **error);
GpuNativeBuffer *_gpu_opencl_usm_slice       (GpuOpenclBuffer     *parent,
                                              gsize                offset,
                                              gsize                size);
void            _gpu_opencl_usm_get_attributes (GpuOpenclBuffer   *buffer,
                                              GVariantDict        *attributes);
/* One of the two is unified shared memory, and the other that or memory of the host. */
gboolean        _gpu_opencl_usm_copy         (GpuNativeStream     *stream,
                                              const GpuOpenclUsm  *usm,
                                              gpointer             destination,
                                              gconstpointer        source,
                                              gsize                size,
                                              GpuNativeEvent     **event,
                                              GError             **error);
GpuBufferFillOp _gpu_opencl_usm_fill;
GpuBufferMapOp  _gpu_opencl_usm_map;

/* gpu-opencl-attributes.c */
GpuDeviceGetAttributesOp _gpu_opencl_get_attributes;

/* gpu-opencl-event.c */
GpuOpenclQueue *_gpu_opencl_queue_new        (cl_command_queue     handle,
                                              GpuOpenclDevice     *device);
/* No event uses the queue afterwards. */
void            _gpu_opencl_queue_close      (GpuOpenclQueue      *queue);
/* @stream is NULL for a user event. Takes @event over. */
GpuNativeEvent *_gpu_opencl_event_new        (GpuNativeStream     *stream,
                                              cl_event             event);
/* An array of cl_event that owns them. */
GArray         *_gpu_opencl_pieces_new       (void);
/* Blocks until a command is over that had nothing to wait for. */
gboolean        _gpu_opencl_wait_and_release (GpuNativeStream     *stream,
                                              cl_event             event,
                                              GError             **error);
/* Ends every op that enqueues: hands the event out, or sets the error. */
gboolean        _gpu_opencl_enqueued         (GpuNativeStream     *stream,
                                              cl_int               code,
                                              const char          *function,
                                              cl_event             native,
                                              GpuNativeEvent     **event,
                                              GError             **error,
                                              const char          *format,
                                              ...) G_GNUC_PRINTF (7, 8);

/* gpu-opencl-host-memory.c: ops for memory of the host, and those of buffers where it is all that
 * a buffer is. */
GpuBufferAllocHostOp _gpu_opencl_alloc_host;
GpuBufferRegisterHostOp _gpu_opencl_register_host;
GpuBufferUseHostOp _gpu_opencl_use_host;
GpuNativeBuffer *_gpu_opencl_slice_host      (GpuNativeBuffer     *parent,
                                              gsize                offset,
                                              gsize                size);
/* Before its cl_mem is released. */
void            _gpu_opencl_unmap_host       (GpuOpenclContext    *context,
                                              GpuOpenclBuffer     *buffer);
/* Whether @data is within memory of the host that the driver has mapped for the library. */
/* All of the @size bytes */
gboolean         _gpu_opencl_is_mapped_host (GpuOpenclContext   *context,
                                             gconstpointer       data,
                                             gsize               size);
GpuBufferCopyOp _gpu_opencl_copy_host;
GpuBufferWriteOp _gpu_opencl_write_host;
GpuBufferReadOp _gpu_opencl_read_host;
GpuBufferFillOp _gpu_opencl_fill_host;
/* An operation that does nothing. */
gboolean        _gpu_opencl_pass             (GpuNativeStream     *stream,
                                              GpuNativeEvent     **event,
                                              GError             **error);

/* gpu-opencl-svm.c */
/* Fine-grained memory is also what the host can have mapped all the time. */
GpuSvmAllocOp _gpu_opencl_svm_alloc;
/* With the cl_mem that is over it, which goes first. */
void            _gpu_opencl_svm_free         (GpuOpenclContext    *context,
                                              GpuOpenclBuffer     *buffer);

/* gpu-opencl-allocation.c */
/* Takes @mem, nullable, over. */
GpuNativeBuffer *_gpu_opencl_buffer_new      (cl_mem               mem,
                                              gsize                size);
GpuNativeBuffer *_gpu_opencl_buffer_create   (GpuNativeContext    *context,
                                              cl_mem_flags         flags,
                                              gsize                size,
                                              gpointer             data,
                                              GError             **error);
/* The flags that memory made from other memory takes as well; none means the same as that has. */
cl_mem_flags    _gpu_opencl_get_access_flags (GpuMemoryFlags       flags);
/* Those of memory of its own, but for what it begins with. */
cl_mem_flags    _gpu_opencl_get_root_flags   (GpuMemoryFlags       flags);
cl_map_flags    _gpu_opencl_get_map_flags    (GpuMapFlags          flags);
/* @size bytes of an info, exactly. */
gboolean        _gpu_opencl_mem_get          (cl_mem               mem,
                                              cl_mem_info          info,
                                              gpointer             value,
                                              gsize                size,
                                              GError             **error);
/* The memory that @mem is a part of, or is over, and the offset in it; NULL: none. */
cl_mem          _gpu_opencl_mem_get_parent   (cl_mem               mem,
                                              gsize               *offset);
/* Checks that memory from elsewhere belongs to @context. */
gboolean        _gpu_opencl_mem_check        (GpuNativeContext    *context,
                                              cl_mem               mem,
                                              GError             **error);
gboolean        _gpu_opencl_mem_retain       (cl_mem               mem,
                                              GError             **error);

/* gpu-opencl-image-format.c */
/* FALSE for what has no name here. */
gboolean        _gpu_opencl_format_from_cl   (const cl_image_format *native,
                                              GpuImageFormat      *format);
/* FALSE for what OpenCL does not have. */
gboolean        _gpu_opencl_format_to_cl     (const GpuImageFormat *format,
                                              cl_image_format     *native);
cl_mem_object_type
                _gpu_opencl_image_type_to_cl (GpuImageType         type);
gboolean        _gpu_opencl_image_type_from_cl (cl_mem_object_type native,
                                              GpuImageType        *type);
GpuImageListFormatsOp _gpu_opencl_list_formats;
/* What clEnqueueFillImage() takes for a texel that is given as it stands in memory: 16 bytes. FALSE
 * for one that drivers make another of. */
gboolean        _gpu_opencl_format_get_color (const GpuImageFormat *format,
                                              gconstpointer        texel,
                                              gpointer             color);

/* gpu-opencl-image-object.c */
/* Those of a layer and, behind them, the one that counts layers. */
guint           _gpu_opencl_image_get_n_dimensions (GpuImageType   type);
GpuExtent       _gpu_opencl_image_get_level_extent (const GpuImageDescription *description,
                                              guint                level);
/* Four numbers: where a region begins, in which level. */
void            _gpu_opencl_image_get_origin (const GpuOpenclImage *image,
                                              const GpuRegionSide *side,
                                              gsize               *origin);
/* @size bytes of an info, exactly. */
gboolean        _gpu_opencl_image_get        (cl_mem               mem,
                                              cl_image_info        info,
                                              gpointer             value,
                                              gsize                size,
                                              GError             **error);
/* Without pitches. */
cl_image_desc   _gpu_opencl_image_get_descriptor (const GpuImageDescription *description);
cl_mem          _gpu_opencl_image_create_mem (GpuNativeContext    *context,
                                              cl_mem_flags         flags,
                                              const GpuImageDescription *description,
                                              const cl_image_desc *descriptor,
                                              gpointer             data,
                                              cl_int              *code);
void            _gpu_opencl_image_set_error  (GError             **error,
                                              cl_int               code,
                                              GpuNativeContext    *context,
                                              const GpuImageDescription *description,
                                              const cl_image_desc *descriptor);
/* Takes @mem over, also when it fails. @buffer is what a 1D_BUFFER is made over. */
GpuNativeImage *_gpu_opencl_image_new        (cl_mem               mem,
                                              cl_mem               buffer,
                                              const GpuImageDescription *description,
                                              guint                level,
                                              GError             **error);

/* gpu-opencl-image-buffer.c */
GpuImageCreateForBufferOp _gpu_opencl_image_create_for_buffer;

/* gpu-opencl-image-command.c */
GpuImageFillOp _gpu_opencl_image_fill;
GpuImageMapOp _gpu_opencl_image_map;

/* gpu-opencl-image-info.c */
/* What the driver tells of an image beyond other memory, by nick. */
gboolean        _gpu_opencl_image_get_attributes (GpuOpenclImage  *image,
                                              GVariantDict        *attributes,
                                              GError             **error);
GpuImageWrapOp _gpu_opencl_image_wrap;

/* gpu-opencl-slice.c, for NVIDIA's driver: with a reference to be released. @mem belongs to it. */
GpuOpenclSlice *_gpu_opencl_slice_get        (GpuOpenclContext    *context,
                                              GpuOpenclBuffer     *root,
                                              cl_mem_flags         flags,
                                              const cl_buffer_region *region,
                                              cl_mem              *mem,
                                              cl_int              *code);
void            _gpu_opencl_slice_release    (GpuOpenclContext    *context,
                                              GpuOpenclSlice      *slice);

/* That driver crashes as well when a sub-buffer comes or goes while another thread enqueues what
 * uses one of the same buffer. So who enqueues holds them all; TRUE if there are any. */
static inline gboolean
_gpu_opencl_hold_slices (GpuNativeStream *stream)
{
  GpuOpenclContext *context = (GpuOpenclContext *) stream->context;

  if (G_LIKELY (!g_atomic_int_get (&context->has_slices)))
    return FALSE;

  /* Past a writer that waits, which has this lock: readers alone might never be none. */
  g_mutex_lock (&context->slices_lock);
  g_rw_lock_reader_lock (&context->slices_use);
  g_mutex_unlock (&context->slices_lock);

  return TRUE;
}

static inline void
_gpu_opencl_let_slices_go (GpuNativeStream *stream,
                           gboolean         held)
{
  if (G_UNLIKELY (held))
    g_rw_lock_reader_unlock (&((GpuOpenclContext *) stream->context)->slices_use);
}

/* gpu-opencl-region.c */
GpuMemoryCopyRegionOp _gpu_opencl_copy_region;
/* Fills bit by bit, with as much memory as the region has; not for images over
 * buffers. */
GpuImageFillOp _gpu_opencl_fill_through_buffer;

/* gpu-opencl-binary.c: binaries for several devices in one block of bytes. */
GBytes         *_gpu_opencl_binary_join      (GBytes *const       *binaries,
                                              guint                n_binaries);
/* One binary for each of @n_devices devices; a bare binary stands for itself. */
GPtrArray      *_gpu_opencl_binary_split     (GBytes              *bytes,
                                              guint                n_devices,
                                              GError             **error);
/* What was compiled goes out with a seal: NVIDIA's driver ends the process when it is to link what
 * its compiler did not make. @maker tells the devices and drivers apart. */
GBytes         *_gpu_opencl_part_seal        (GBytes              *part,
                                              const char          *maker);
GBytes         *_gpu_opencl_part_open        (GBytes              *sealed,
                                              const char          *maker,
                                              GError             **error);

/* gpu-opencl-kernel.c */
/* Takes @handle over, also when it fails. */
GpuNativeKernel *_gpu_opencl_kernel_new      (GpuNativeContext    *context,
                                              cl_kernel            handle,
                                              const char          *name,
                                              GError             **error);

/* gpu-opencl-argument.c: what a kernel says of its arguments. */
/* FALSE only for an error; what the driver does not tell stays unknown. */
gboolean        _gpu_opencl_describe_argument (cl_kernel           kernel,
                                              guint                index,
                                              GpuArgumentInfo     *info,
                                              GError             **error);
/* The code and the size of an OpenCL C type; 0 for what has none. */
void            _gpu_opencl_parse_type       (const char          *type_name,
                                              char                *type,
                                              gsize               *size);

extern const GpuContextOps _gpu_opencl_context_ops;
extern const GpuStreamOps  _gpu_opencl_stream_ops;
extern const GpuEventOps   _gpu_opencl_event_ops;
extern const GpuMemoryOps  _gpu_opencl_memory_ops;
extern const GpuBufferOps  _gpu_opencl_buffer_ops;
extern const GpuSvmOps     _gpu_opencl_svm_ops;
extern const GpuImageOps   _gpu_opencl_image_ops;
extern const GpuSamplerOps _gpu_opencl_sampler_ops;
extern const GpuProgramOps _gpu_opencl_program_ops;
extern const GpuKernelOps  _gpu_opencl_kernel_ops;
extern const GpuTransferOps _gpu_opencl_transfer_ops;
extern const GpuDeviceOps  _gpu_opencl_device_ops;

static inline cl_context
_gpu_opencl_context_handle (GpuNativeContext *context)
{
  return ((GpuOpenclContext *) context)->context;
}

static inline cl_command_queue
_gpu_opencl_stream_handle (GpuNativeStream *stream)
{
  return ((GpuOpenclStream *) stream)->queue;
}

static inline cl_mem
_gpu_opencl_buffer_handle (GpuNativeBuffer *buffer)
{
  return ((GpuOpenclBuffer *) buffer)->mem;
}

static inline cl_mem
_gpu_opencl_memory_handle (GpuNativeMemory *memory)
{
  return memory->is_image ? ((GpuOpenclImage *) memory)->mem
                          : _gpu_opencl_buffer_handle (memory);
}

/* Unified shared memory, or NULL. */
static inline GpuOpenclBuffer *
_gpu_opencl_memory_get_usm (GpuNativeMemory *memory)
{
  return !memory->is_image && ((GpuOpenclBuffer *) memory)->usm != NULL ? (GpuOpenclBuffer *) memory
                                                                        : NULL;
}

/* What commands take that are no launches. */
static inline cl_mem
_gpu_opencl_memory_target (GpuNativeMemory *memory)
{
  if (memory->is_image && ((GpuOpenclImage *) memory)->buffer != NULL)
    return ((GpuOpenclImage *) memory)->buffer;

  return _gpu_opencl_memory_handle (memory);
}

static inline cl_event
_gpu_opencl_event_handle (GpuNativeEvent *event)
{
  return ((GpuOpenclEvent *) event)->event;
}

G_END_DECLS

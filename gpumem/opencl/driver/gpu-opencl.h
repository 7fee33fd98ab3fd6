/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the files of the OpenCL back end. Before a call to a function newer than OpenCL 1.2,
 * check the version of the platform: on an older platform, the OpenCL loader jumps through a NULL
 * pointer.
 */
#pragma once

#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/opencl.h>

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/base/gpu-attributes-private.h"
#include "gpumem/base/gpu-debug-private.h"

/* Headers may be older than cl_ext_buffer_device_address. */
#ifndef CL_MEM_DEVICE_PRIVATE_ADDRESS_EXT
#define CL_MEM_DEVICE_PRIVATE_ADDRESS_EXT   0x5000
#define CL_MEM_DEVICE_ADDRESS_EXT           0x5001
#define CL_KERNEL_EXEC_INFO_DEVICE_PTRS_EXT 0x5002
#endif

G_BEGIN_DECLS

/* clSetKernelArgDevicePointerEXT() */
typedef cl_int (CL_API_CALL *GpuOpenclSetDeviceAddress) (cl_kernel kernel,
                                                         cl_uint   index,
                                                         cl_ulong  address);

/* The ops tables of the OpenCL back end. In each object of this back end, the member `backend`
 * points to this structure. */
extern const GpuBackend _gpu_opencl_backend;

/* Maximum sizes of images in texels and, for arrays, in layers. All are 0 if the device does not
 * support images. */
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
  GpuSvmFlags                      fine;        /* kinds of memory that the host may access at any
                                                 * time */
} GpuOpenclUsm;

typedef struct
{
  GpuNativeDevice              base;
  cl_device_id                 id;
  cl_platform_id               cl_platform;
  char                        *platform_version;
  guint                        api;             /* version of the platform: 30 for OpenCL 3.0 */
  guint                        level;           /* version of the device, in the same form */
  guint                        pocl;            /* major version of PoCL, 0 for other drivers */
  GpuOpenclImageLimits         image_limits;
  char                       **extensions;      /* of the device and of its platform */
  clCreateProgramWithILKHR_fn  create_with_il;  /* NULL if not supported */
  GpuFdKinds                   fd_kinds;        /* kinds of file descriptors that can be imported;
                                                 * if not 0, the next two members are set */
  clEnqueueAcquireExternalMemObjectsKHR_fn acquire_external;
  clEnqueueReleaseExternalMemObjectsKHR_fn release_external;
  GpuOpenclUsm                 usm;             /* valid if base.usm_kinds is not 0 */
  GpuOpenclSetDeviceAddress    set_address;     /* NULL without cl_ext_buffer_device_address */
} GpuOpenclDevice;

/* Held events: see gpu-opencl-guard.c. */
typedef struct
{
  GQueue            pending;                    /* of cl_event: not known to have ended, or behind
                                                 * such an event */
  GQueue            ended;                      /* of GpuOpenclEnded */
} GpuOpenclHeld;

typedef struct
{
  GpuNativeContext  base;
  cl_context        context;
  cl_device_id     *ids;                        /* handles of base.devices, in that order */
  GMutex            slices_lock;                /* protects the slices of all buffers */
  GRWLock           slices_use;                 /* locked by _gpu_opencl_hold_slices() */
  gint              has_slices;                 /* atomic; TRUE after the first slice */
  GMutex            svm_lock;                   /* held while shared virtual memory is allocated or
                                                 * freed */
  GMutex            internal_lock;              /* protects the next two members */
  cl_command_queue  internal;                   /* for mapping host memory; NULL until first
                                                 * needed */
  GPtrArray        *mapped;                     /* nullable; GpuOpenclBuffers of mapped host
                                                 * memory */
  GMutex            ranges_lock;                /* protects `ranges` */
  GTree            *ranges;                     /* nullable; address ranges of the buffers, for
                                                 * _gpu_opencl_is_buffer_address() */
  GMutex            held_lock;                  /* protects `held` */
  GpuOpenclHeld     held;                       /* the events of streams that were freed */
  gint              batch_state;                /* atomic; 1 if the next members are set, -1 if
                                                 * there is no kernel for batches, 0 before the
                                                 * first batch */
  GMutex            batch_lock;                 /* held from setting arguments of batch_kernel until
                                                 * the launch is enqueued */
  cl_kernel         batch_kernel;               /* nullable */
  gsize             batch_length;               /* the number of copies of one launch */
} GpuOpenclContext;

/* The queue of a stream. Events of the stream share this structure, because they may outlive the
 * stream. */
typedef struct
{
  gatomicrefcount   refs;
  GMutex            lock;
  cl_command_queue  handle;                     /* NULL after the stream was freed; guarded by
                                                 * lock */
  gboolean          fails_late;                 /* see delay_failure() in gpu-opencl-event.c */
  GPtrArray        *guards;                     /* nullable; of cl_event: the guards (see
                                                 * gpu-opencl-guard.c) of the user events that the
                                                 * last command depends on. The array is replaced,
                                                 * never changed. It is used only under the lock of
                                                 * the timeline that submits to the stream */
} GpuOpenclQueue;

typedef struct
{
  GpuNativeStream   base;
  cl_command_queue  queue;
  GpuOpenclQueue   *shared_queue;               /* the same queue, shared with events */
  GpuOpenclHeld     held;                       /* used like guards of shared_queue */
  GpuOpenclDevice  *device;
  gboolean          out_of_order;
  gboolean          finish_on_free;
} GpuOpenclStream;

typedef struct
{
  GpuNativeEvent    base;
  cl_event          event;
  GpuOpenclQueue   *queue;                      /* NULL for a user event */
  GArray           *pieces;                     /* nullable; cl_events that must not be released
                                                 * before this event, because PoCL reuses the events
                                                 * of failed commands */
  GPtrArray        *guards;                     /* nullable; of cl_event: for a user event its
                                                 * guard, for a command the guards of its queue */
  gint              unset;                      /* atomic; TRUE for a user event without a status */
  gboolean          cannot_fail;                /* TRUE for a user event that must not fail in the
                                                 * driver */
  gint              failed;                     /* atomic; TRUE for a user event that has failed
                                                 * although its cl_event is complete: see
                                                 * cannot_fail */
  gint              settled;                    /* atomic; delay_failure() has run */
} GpuOpenclEvent;

typedef struct _GpuOpenclSlice GpuOpenclSlice;

/* Size in bytes of the intermediate buffer of copies from host memory to host memory. */
#define GPU_OPENCL_SCRATCH_SIZE ((gsize) 16 * 1024 * 1024)

typedef struct
{
  GpuNativeBuffer   base;
  cl_mem            mem;
  cl_mem            parent;                     /* buffer that this sub-buffer is a part of, or
                                                 * NULL */
  gsize             parent_offset;              /* offset within parent */
  GpuOpenclSlice   *slice;                      /* nullable; owner of mem */
  GPtrArray        *slices;                     /* nullable; slices of this buffer, unowned */
  guint64           address;                    /* on the device; 0 if unknown or if svm is set */
  gpointer          svm;                        /* nullable; address of the shared virtual memory
                                                 * that is the storage of mem */
  gpointer          svm_allocation;             /* nullable; result of clSVMAlloc() */
  gpointer          svm_argument;               /* nullable; pointer passed to kernels instead of
                                                 * mem */
  const GpuOpenclUsm *usm;                      /* not NULL if the memory at svm is unified shared
                                                 * memory. In this case mem is NULL, and the next
                                                 * three members are set */
  GpuSvmFlags       usm_kind;
  gpointer          usm_start;                  /* aligned start of the memory that contains svm */
  gpointer          usm_allocation;             /* returned by the driver; NULL for a slice */
  gboolean          is_mapped;                  /* mem is mapped at base.host for its whole
                                                 * lifetime. Commands therefore use base.host
                                                 * instead of mem */
  gboolean          is_registered;              /* mem uses memory of the program */
} GpuOpenclBuffer;

typedef struct
{
  GpuNativeImage    base;
  cl_mem            mem;
  cl_mem            buffer;                     /* nullable, unowned; the storage of a 1D_BUFFER
                                                 * image, which all commands except launches use */
  guint             level;                      /* mip level within mem */
  cl_mem            root;                       /* the memory object without a parent that stores
                                                 * the texels, unowned: only compared */
  gsize             root_offset;
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
  gsize             required_block[3];          /* zeros if the source requires none */
  gboolean          takes_images;               /* also TRUE for arguments of unknown kind */
  GMutex            lock;                       /* held from setting arguments until the launch is
                                                 * enqueued */
  cl_kernel         pointer_kernel;             /* a second kernel object, for launches with
                                                 * indirect access or pointer arguments; NULL until
                                                 * needed */
  guint64           pointers;                   /* result of get_pointers() for pointer_kernel */
} GpuOpenclKernel;

/* gpu-opencl-error.c: the only file that interprets OpenCL error codes. */
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
/* Like _gpu_opencl_set_error(), but with the error code @meaning instead of the code from
 * _gpu_opencl_error_table. */
void            _gpu_opencl_set_error_as     (GError             **error,
                                              GpuError             meaning,
                                              const char          *function,
                                              cl_int               code,
                                              const char          *format,
                                              ...) G_GNUC_PRINTF (5, 6);

/* gpu-opencl-nvml.c. Gets the free memory of an NVIDIA device in bytes. Fails with
 * GPU_ERROR_NOT_SUPPORTED if the management library cannot report it. */
gboolean        _gpu_opencl_nvml_get_free    (const char          *pci_bus_id,
                                              guint64             *free_size,
                                              GError             **error);

/* gpu-opencl-device-info.c */
/* Set by the first enumeration that succeeds, and not read before that enumeration. */
extern GPtrArray *_gpu_opencl_known_devices;
/* Returns the enumerated device with the handle @id, or NULL. */
GpuOpenclDevice *_gpu_opencl_device_lookup   (cl_device_id         id);
gboolean        _gpu_opencl_device_has       (GpuOpenclDevice     *device,
                                              const char          *extension);
/* Returns whether user events make the device hang. PoCL's "basic" device runs a command on the
 * thread that completes the command's dependency, and deadlocks on a lock that this thread already
 * holds. Every context that contains a "basic" device is affected. Oclgrind executes all commands
 * inside clFlush(), which therefore never returns if a command waits for a user event. */
gboolean        _gpu_opencl_device_hangs     (GpuOpenclDevice     *device);
gboolean        _gpu_opencl_device_is_nvidia (GpuOpenclDevice     *device);
/* Returns whether the device belongs to Intel's runtime for CPUs. */
gboolean        _gpu_opencl_device_is_intel_cpu (GpuOpenclDevice  *device);
/* Reads an info, which must have exactly @size bytes. */
gboolean        _gpu_opencl_device_get       (cl_device_id         id,
                                              cl_device_info       info,
                                              gpointer             value,
                                              gsize                size,
                                              GError             **error);
/* Returns an info of any size, and appends a nul byte. */
gpointer        _gpu_opencl_device_get_data  (cl_device_id         id,
                                              cl_device_info       info,
                                              gsize               *size,
                                              GError             **error);
/* Strips spaces at both ends and makes the text valid UTF-8. Takes ownership of @text. */
char           *_gpu_opencl_clean_text       (char                *text);

/* gpu-opencl-image-device.c */
/* Returns the image capabilities of @device, and sets its image_limits. */
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
/* At least one of @destination and @source must be unified shared memory. The other one may be host
 * memory. */
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
/* Events do not use the queue after this call. */
void            _gpu_opencl_queue_close      (GpuOpenclQueue      *queue);
/* @stream is NULL for a user event. Takes ownership of @event. */
GpuNativeEvent *_gpu_opencl_event_new        (GpuNativeStream     *stream,
                                              cl_event             event);
/* Returns an array of cl_event that owns its elements. */
GArray         *_gpu_opencl_pieces_new       (void);
/* Blocks until the command of @event completes. The command must have no dependencies. */
gboolean        _gpu_opencl_wait_and_release (GpuNativeStream     *stream,
                                              cl_event             event,
                                              GError             **error);
/* The last call of every op that enqueues a command: returns the event of the command, or sets the
 * error. */
gboolean        _gpu_opencl_enqueued         (GpuNativeStream     *stream,
                                              cl_int               code,
                                              const char          *function,
                                              cl_event             native,
                                              GpuNativeEvent     **event,
                                              GError             **error,
                                              const char          *format,
                                              ...) G_GNUC_PRINTF (7, 8);

/* gpu-opencl-guard.c */
/* Returns an array of cl_event that owns its elements. */
GPtrArray      *_gpu_opencl_guards_new       (void);
/* (transfer full) (nullable): lists the pending guards that the next command of @stream must wait
 * for if it waits for @events. */
GPtrArray      *_gpu_opencl_list_guards      (GpuNativeStream     *stream,
                                              GpuNativeEvent *const *events,
                                              guint                n_events);
/* Records that all later commands of @stream depend on @guards. */
void            _gpu_opencl_set_guards       (GpuNativeStream     *stream,
                                              GPtrArray           *guards);
/* (transfer full) (nullable): lists the pending guards that the last command of @stream depends on.
 * If there are pending guards, holds @event, the event of that command. */
GPtrArray      *_gpu_opencl_guard_event      (GpuNativeStream     *stream,
                                              cl_event             event);
/* Creates a user event without a guard, for a host-signalled wait: the event never fails. */
GpuNativeEvent *_gpu_opencl_create_host_wait (GpuNativeContext    *context,
                                              GError             **error);
void            _gpu_opencl_hold_event       (GpuNativeStream     *stream,
                                              cl_event             event);
/* Called before a command of @stream that waits for @events and @guards. Holds @events and @guards.
 * Also enqueues a marker and holds its event, because the command, or the barrier that follows it
 * on an out-of-order stream, also waits for all earlier commands. Returns the driver's result for
 * the marker. */
cl_int          _gpu_opencl_hold_awaited     (GpuNativeStream     *stream,
                                              GpuNativeEvent *const *events,
                                              guint                n_events,
                                              GPtrArray           *guards);
/* Called when @stream is freed: the context takes its held events. */
void            _gpu_opencl_pass_held        (GpuNativeStream     *stream);
/* Releases all held events of @context. All work of @context must have ended. */
void            _gpu_opencl_release_held     (GpuOpenclContext    *context);

/* gpu-opencl-host-memory.c: ops for host memory, and ops for buffers with base.is_host_only. */
GpuBufferAllocHostOp _gpu_opencl_alloc_host;
GpuBufferRegisterHostOp _gpu_opencl_register_host;
GpuBufferUseHostOp _gpu_opencl_use_host;
GpuNativeBuffer *_gpu_opencl_slice_host      (GpuNativeBuffer     *parent,
                                              gsize                offset,
                                              gsize                size);
/* Must be called before buffer->mem is released. */
void            _gpu_opencl_unmap_host       (GpuOpenclContext    *context,
                                              GpuOpenclBuffer     *buffer);
/* Returns whether all @size bytes at @data are within host memory that the driver has mapped for
 * the library. */
gboolean         _gpu_opencl_is_mapped_host (GpuOpenclContext   *context,
                                             gconstpointer       data,
                                             gsize               size);
GpuBufferCopyOp _gpu_opencl_copy_host;
GpuBufferWriteOp _gpu_opencl_write_host;
GpuBufferReadOp _gpu_opencl_read_host;
GpuBufferFillOp _gpu_opencl_fill_host;
/* Enqueues a command that has no effect, and returns its @event. */
gboolean        _gpu_opencl_pass             (GpuNativeStream     *stream,
                                              GpuNativeEvent     **event,
                                              GError             **error);

/* gpu-opencl-address.c */
void            _gpu_opencl_device_read_addresses (GpuOpenclDevice *device);
/* Sets an argument to an address on the device. */
cl_int          _gpu_opencl_set_address      (cl_kernel            kernel,
                                              GpuOpenclStream     *stream,
                                              guint                index,
                                              guint64              address);
/* Lets launches of @handle access the indirect memory of @options. */
gboolean        _gpu_opencl_set_indirect     (GpuOpenclKernel     *kernel,
                                              cl_kernel            handle,
                                              GpuOpenclDevice     *device,
                                              const GpuLaunchOptions *options,
                                              GError             **error);

/* gpu-opencl-svm.c */
/* Sets base.host for fine-grained memory, because the host may access such memory at any time. */
GpuSvmAllocOp _gpu_opencl_svm_alloc;
/* Releases the cl_mem before it frees the memory, because the cl_mem uses the memory. */
void            _gpu_opencl_svm_free         (GpuOpenclContext    *context,
                                              GpuOpenclBuffer     *buffer);

/* gpu-opencl-host-copy.c */
/* Enqueues a copy from host memory to a range of @mem. Returns the code of the driver, and sets
 * @function to the function that returned it. */
cl_int          _gpu_opencl_enqueue_write    (GpuNativeStream     *stream,
                                              cl_mem               mem,
                                              gsize                offset,
                                              gconstpointer        data,
                                              gsize                size,
                                              cl_event            *event,
                                              const char         **function);
/* Like _gpu_opencl_enqueue_write(), from a range of @mem to host memory. */
cl_int          _gpu_opencl_enqueue_read     (GpuNativeStream     *stream,
                                              cl_mem               mem,
                                              gsize                offset,
                                              gpointer             data,
                                              gsize                size,
                                              cl_event            *event,
                                              const char         **function);

/* gpu-opencl-allocation.c */
/* Takes ownership of @mem, which may be NULL. */
GpuNativeBuffer *_gpu_opencl_buffer_new      (cl_mem               mem,
                                              gsize                size);
GpuNativeBuffer *_gpu_opencl_buffer_create   (GpuNativeContext    *context,
                                              cl_mem_flags         flags,
                                              gsize                size,
                                              gpointer             data,
                                              GError             **error);
/* Gets the address of a buffer from the driver if the context supports addresses, and records its
 * address range in the context. Before the buffer is freed, the caller must remove the range with
 * _gpu_opencl_buffer_forget_address(). */
gboolean        _gpu_opencl_buffer_read_address (GpuNativeContext *context,
                                              GpuOpenclBuffer     *buffer,
                                              GError             **error);
void            _gpu_opencl_buffer_forget_address (GpuOpenclContext *context,
                                              GpuOpenclBuffer     *buffer);
/* Returns whether @address is in a buffer of the context. */
gboolean        _gpu_opencl_is_buffer_address (GpuOpenclContext   *context,
                                              guint64              address);
/* Returns the access flags for memory created from other memory. The result 0 means that the memory
 * inherits the access flags of the other memory. */
cl_mem_flags    _gpu_opencl_get_access_flags (GpuMemoryFlags       flags);
/* Returns the access flags for a new allocation, READ_WRITE by default. */
cl_mem_flags    _gpu_opencl_get_root_flags   (GpuMemoryFlags       flags);
cl_map_flags    _gpu_opencl_get_map_flags    (GpuMapFlags          flags);
/* Reads an info, which must have exactly @size bytes. */
gboolean        _gpu_opencl_mem_get          (cl_mem               mem,
                                              cl_mem_info          info,
                                              gpointer             value,
                                              gsize                size,
                                              GError             **error);
/* Gets the memory object that @mem is a part of or was created from, and the offset of @mem in that
 * object. @parent is NULL if @mem has its own memory, and after an error. */
gboolean        _gpu_opencl_mem_find_parent  (cl_mem               mem,
                                              cl_mem              *parent,
                                              gsize               *offset,
                                              GError             **error);
/* Checks that foreign memory belongs to @context. */
gboolean        _gpu_opencl_mem_check        (GpuNativeContext    *context,
                                              cl_mem               mem,
                                              GError             **error);
gboolean        _gpu_opencl_mem_retain       (cl_mem               mem,
                                              GError             **error);

/* gpu-opencl-image-format.c */
/* Returns FALSE for formats that GpuImageFormat cannot express. */
gboolean        _gpu_opencl_format_from_cl   (const cl_image_format *native,
                                              GpuImageFormat      *format);
/* Returns FALSE for formats that OpenCL does not have. */
gboolean        _gpu_opencl_format_to_cl     (const GpuImageFormat *format,
                                              cl_image_format     *native);
cl_mem_object_type
                _gpu_opencl_image_type_to_cl (GpuImageType         type);
gboolean        _gpu_opencl_image_type_from_cl (cl_mem_object_type native,
                                              GpuImageType        *type);
GpuImageListFormatsOp _gpu_opencl_list_formats;
/* Converts a texel in its memory representation to a color of 16 bytes for clEnqueueFillImage().
 * Returns FALSE if a driver would change the value. */
gboolean        _gpu_opencl_format_get_color (const GpuImageFormat *format,
                                              gconstpointer        texel,
                                              gpointer             color);

/* gpu-opencl-image-object.c */
/* Returns the number of dimensions of a layer, plus one if the image has layers. */
guint           _gpu_opencl_image_get_n_dimensions (GpuImageType   type);
GpuExtent       _gpu_opencl_image_get_level_extent (const GpuImageDescription *description,
                                              guint                level);
/* Sets four numbers: the origin of a region, and its mip level. */
void            _gpu_opencl_image_get_origin (const GpuOpenclImage *image,
                                              const GpuRegionSide *side,
                                              gsize               *origin);
/* Reads an info, which must have exactly @size bytes. */
gboolean        _gpu_opencl_image_get        (cl_mem               mem,
                                              cl_image_info        info,
                                              gpointer             value,
                                              gsize                size,
                                              GError             **error);
/* Returns a descriptor without pitches. */
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
/* Takes ownership of @mem, also on failure. @buffer is the cl_mem that stores the texels of a
 * 1D_BUFFER image, and NULL for other images. */
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
/* Adds the attributes that only images have. */
gboolean        _gpu_opencl_image_get_attributes (GpuOpenclImage  *image,
                                              GVariantDict        *attributes,
                                              GError             **error);
GpuImageWrapOp _gpu_opencl_image_wrap;

/* gpu-opencl-slice.c, for NVIDIA's driver. Sets @mem to the sub-buffer of @root for @region, and
 * returns a new reference to the slice that owns this sub-buffer. */
GpuOpenclSlice *_gpu_opencl_slice_get        (GpuOpenclContext    *context,
                                              GpuOpenclBuffer     *root,
                                              cl_mem_flags         flags,
                                              const cl_buffer_region *region,
                                              cl_mem              *mem,
                                              cl_int              *code);
void            _gpu_opencl_slice_release    (GpuOpenclContext    *context,
                                              GpuOpenclSlice      *slice);

/* NVIDIA's driver crashes if one thread creates or releases a sub-buffer while another thread
 * enqueues a command that uses a sub-buffer of the same buffer. Threads that enqueue commands
 * therefore hold a reader lock on all slices of the context. Returns TRUE if the lock was taken. */
static inline gboolean
_gpu_opencl_hold_slices (GpuNativeStream *stream)
{
  GpuOpenclContext *context = (GpuOpenclContext *) stream->context;

  if (G_LIKELY (!g_atomic_int_get (&context->has_slices)))
    return FALSE;

  /* A waiting writer holds slices_lock, and so blocks new readers. Otherwise a writer could wait
   * forever while readers overlap. */
  g_mutex_lock (&context->slices_lock);
  g_rw_lock_reader_lock (&context->slices_use);
  g_mutex_unlock (&context->slices_lock);

  return TRUE;
}

static inline void
_gpu_opencl_release_slices (GpuNativeStream *stream,
                            gboolean         held)
{
  if (G_UNLIKELY (held))
    g_rw_lock_reader_unlock (&((GpuOpenclContext *) stream->context)->slices_use);
}

/* gpu-opencl-copy-batch.c */
GpuBufferPrepareBatchOp _gpu_opencl_prepare_batch;
GpuBufferCopyBatchOp _gpu_opencl_copy_batch;

/* gpu-opencl-region.c */
GpuMemoryCopyRegionOp _gpu_opencl_copy_region;
/* Fills with exact texel bits: copies from a temporary buffer of the region's size. Must not be
 * called for images whose storage is a buffer. */
GpuImageFillOp _gpu_opencl_fill_through_buffer;

/* gpu-opencl-binary.c: binaries for several devices in one block of bytes. */
GBytes         *_gpu_opencl_binary_join      (GBytes *const       *binaries,
                                              guint                n_binaries);
/* Returns one binary for each of @n_devices devices. A block without the header is a single
 * binary. */
GPtrArray      *_gpu_opencl_binary_split     (GBytes              *bytes,
                                              guint                n_devices,
                                              GError             **error);
/* _part_seal() adds a digest to a compiled part. _part_open() checks and removes the digest:
 * NVIDIA's driver ends the process if a program links a part of another compiler. The digest also
 * covers @maker, a text that identifies the devices and drivers of the context. */
GBytes         *_gpu_opencl_part_seal        (GBytes              *part,
                                              const char          *maker);
GBytes         *_gpu_opencl_part_open        (GBytes              *sealed,
                                              const char          *maker,
                                              GError             **error);

/* gpu-opencl-kernel.c */
/* Takes ownership of @handle, also on failure. */
GpuNativeKernel *_gpu_opencl_kernel_new      (GpuNativeContext    *context,
                                              cl_kernel            handle,
                                              const char          *name,
                                              GError             **error);

/* gpu-opencl-argument.c: descriptions of kernel arguments. */
/* Returns FALSE only for an error. Attributes that the driver does not report remain unknown. */
gboolean        _gpu_opencl_describe_argument (cl_kernel           kernel,
                                              guint                index,
                                              GpuArgumentInfo     *info,
                                              GError             **error);
/* Sets @type to the type code of an OpenCL C type, or to 0 if the type has no code. Sets @size to
 * the size of the type, or to 0 if the size is unknown. */
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

/* Returns @memory as a buffer if it is unified shared memory, otherwise NULL. */
static inline GpuOpenclBuffer *
_gpu_opencl_memory_get_usm (GpuNativeMemory *memory)
{
  return !memory->is_image && ((GpuOpenclBuffer *) memory)->usm != NULL ? (GpuOpenclBuffer *) memory
                                                                        : NULL;
}

/* Returns the memory object to pass to all commands except launches. */
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

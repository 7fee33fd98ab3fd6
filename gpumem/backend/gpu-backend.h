/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The interface between the public classes and a back end.
 *
 * A back end is one const GpuBackend, which points to one table of ops for each kind of object. An
 * op is a function of a back end. The objects of a back end embed the GpuNative structure of their
 * kind as their first member. The public classes check every argument that can be checked without
 * the driver: sizes, offsets, overlaps, flags, contexts and released objects. Ops may rely on these
 * checks.
 *
 * Rules for every op:
 *  - Failure is FALSE or NULL with @error set; the message begins with the native function and the
 *    name and number of its error code. The public class prepends its own name.
 *  - If the driver lacks an op, its entry in the table is NULL, and the public class fails with
 *    GPU_ERROR_NOT_SUPPORTED. Only entries whose comment permits NULL may be NULL.
 *  - No op emits a signal, calls back into a public class, or uses another back end.
 *  - "any thread" ops may be called from any thread at any time, including from finalizers.
 *  - "stream" ops are called by one thread at a time for each stream, because the caller holds the
 *    lock of the stream's GpuTimeline. They must not block on the device, except ops whose names
 *    end in "_now". The CUDA driver breaks this rule for pageable host memory: reads of any size,
 *    and writes of several megabytes, block until they have completed. Meanwhile the caller holds
 *    the locks of the GpuTimeline and of the memory.
 *  - Ops that enqueue an operation take @event: if @event is not NULL, they set it to a new event
 *    for exactly that operation; if @event is NULL, they create no event.
 *  - If back ends declare an op in a header, the op has a function type that is named after its
 *    table and member, such as GpuBufferWriteOp. The comment in the table describes what the op
 *    must do.
 *  - An op may enqueue several commands, and fail after some of them are in the stream. It then
 *    sets GpuNativeStream.partial. If @event is not NULL, the op may then set it to an event that
 *    must be retained until these commands complete.
 */
#pragma once

#include "gpumem/backend/gpu-buffer-ops.h"
#include "gpumem/backend/gpu-context-ops.h"
#include "gpumem/backend/gpu-device-ops.h"
#include "gpumem/backend/gpu-event-ops.h"
#include "gpumem/backend/gpu-image-ops.h"
#include "gpumem/backend/gpu-kernel-ops.h"
#include "gpumem/backend/gpu-memory-ops.h"
#include "gpumem/backend/gpu-program-ops.h"
#include "gpumem/backend/gpu-sampler-ops.h"
#include "gpumem/backend/gpu-stream-ops.h"
#include "gpumem/backend/gpu-svm-ops.h"
#include "gpumem/backend/gpu-transfer-ops.h"
#include "gpumem/backend/gpu-virtual-ops.h"

G_BEGIN_DECLS

struct _GpuBackend
{
  const char          *name;        /* "host", "opencl", "cuda": the first part of device ids */
  const GpuDeviceOps  *device;
  const GpuContextOps *context;
  const GpuStreamOps  *stream;
  const GpuEventOps   *event;
  const GpuMemoryOps  *memory;
  const GpuBufferOps  *buffer;
  const GpuVirtualOps *virtual_memory; /* nullable */
  const GpuSvmOps     *svm;         /* nullable */
  const GpuImageOps   *image;       /* nullable */
  const GpuSamplerOps *sampler;     /* NULL if image is NULL */
  const GpuProgramOps *program;
  const GpuKernelOps  *kernel;
  const GpuTransferOps *transfer;   /* NULL if no host memory needs staging */
};

#define GPU_MAX_BACKENDS 3

/* The back ends in this build, in order of preference; NULL-terminated. Defined in gpu-backends.c,
 * which may include the headers of all back ends. */
extern const GpuBackend *const _gpu_backends[GPU_MAX_BACKENDS + 1];

const GpuBackend        *_gpu_backend_lookup       (const char        *name);
/* (transfer none): lists the devices of @backend, enumerated once per process; NULL on error. */
GPtrArray               *_gpu_backend_list_devices (const GpuBackend  *backend,
                                                    GError           **error);

/* If a process has used a driver and then forks, the threads of the driver do not exist in the
 * child process. Driver calls in the child may therefore block forever.
 * _gpu_backend_check_process() returns FALSE in the child if the parent had called
 * _gpu_backend_watch_process(). */
void                     _gpu_backend_watch_process (void);
/* Atomic. TRUE in a forked child process if the parent had called _gpu_backend_watch_process(). */
extern gint _gpu_forked;
gboolean                 _gpu_backend_check_process (GError           **error);

/* Atomic. Set once the program has had the handle of a stream or an event. Only then can a stream
 * of the library be captured into a graph, so until then no function asks the driver. */
extern gint _gpu_may_capture;

/* Atomic. Set once the program has enabled the access of a context to a peer. Only then can a
 * kernel use memory of another context. */
extern gint _gpu_may_access_peers;

/* For the back ends: initialize or clear the common part of an object. */
void                     _gpu_native_device_clear  (GpuNativeDevice         *device);
void                     _gpu_native_context_init  (GpuNativeContext        *context,
                                                    const GpuBackend        *backend,
                                                    GpuNativeDevice *const  *devices,
                                                    guint                    n_devices);
void                     _gpu_native_context_clear (GpuNativeContext        *context);
void                     _gpu_native_event_init    (GpuNativeEvent          *event,
                                                    const GpuBackend        *backend);

/* Adds up the bytes held by all contexts of the process that share a device with @context,
 * including contexts of other back ends. If @with_host is TRUE, includes the page-locked memory of
 * these contexts. */
guint64                  _gpu_native_context_get_held
                                                   (GpuNativeContext        *context,
                                                    gboolean                 with_host);
GpuNativeContext        *_gpu_native_context_ref   (GpuNativeContext        *context);
void                     _gpu_native_context_unref (GpuNativeContext        *context);
GpuNativeEvent          *_gpu_native_event_ref     (GpuNativeEvent          *event);
void                     _gpu_native_event_unref   (GpuNativeEvent          *event);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuNativeContext, _gpu_native_context_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuNativeEvent, _gpu_native_event_unref)

G_END_DECLS

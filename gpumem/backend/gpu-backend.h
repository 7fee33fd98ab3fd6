/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The interface between the public classes and a back end.
 *
 * A back end is one const GpuBackend: a table of tables, one for each kind of object. Its objects
 * embed the GpuNative structure of their kind as their first member. The front classes have
 * checked every argument that they can check without the driver: sizes, offsets, overlaps,
 * flags, contexts and released objects never reach an op wrong.
 *
 * Rules for every op:
 *  - Failure is FALSE or NULL with @error set; the text starts with the native function, its code
 *    by name and number. The front class puts its own name before it.
 *  - An op whose entry is NULL is one that the driver lacks: the front class answers
 *    GPU_ERROR_NOT_SUPPORTED. Entries that may be NULL say so here; all others must be there.
 *  - No op emits a signal, calls back into a front class, or touches a sibling back end.
 *  - "any thread" ops may be called from any thread at any time, also from finalizers.
 *  - "stream" ops are called by one thread at a time for each stream (the timeline holds its
 *    lock), and must not block on the device, but for those whose names end in "_now". The driver
 *    of CUDA does where it copies ordinary memory of the host: reads into it, of any size, and
 *    writes of several megabytes from it return when they are over, with the locks held.
 *  - Ops that enqueue take @event: when it is not NULL they set it to a new event of that very
 *    operation; when it is NULL they make no event.
 *  - An op that back ends declare in a header has a function type, named after its table and its
 *    member: GpuBufferWriteOp. The contract stands in the table.
 *  - An op that enqueues several commands, and fails when some of them are in the stream already,
 *    sets @partial of the stream. @event, if it was asked for, may then be one to be kept until
 *    they are over.
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
  const GpuSamplerOps *sampler;     /* nullable, with image */
  const GpuProgramOps *program;
  const GpuKernelOps  *kernel;
  const GpuTransferOps *transfer;   /* nullable: all memory of the host is as good as any */
};

#define GPU_MAX_BACKENDS 3

/* Every driver in this build, in order of preference; NULL-terminated. gpu-backends.c, on top of
 * the drivers, defines it. */
extern const GpuBackend *const _gpu_backends[GPU_MAX_BACKENDS + 1];

const GpuBackend        *_gpu_backend_lookup       (const char        *name);
/* (transfer none): devices of @backend, found once in a process. NULL: why, in @error. */
GPtrArray               *_gpu_backend_list_devices (const GpuBackend  *backend,
                                                    GError           **error);

/* A process that was forked from one that had used a back end finds drivers without their threads,
 * and hangs in them, or in locks that no thread holds any more: FALSE in such a one, where its
 * parent was watched. */
void                     _gpu_backend_watch_process (void);
/* Atomic: TRUE in a child process of one that had used a device. */
extern gint _gpu_forked;
gboolean                 _gpu_backend_check_process (GError           **error);

/* For the back ends: fill in the common part of a new object. */
void                     _gpu_native_context_init  (GpuNativeContext        *context,
                                                    const GpuBackend        *backend,
                                                    GpuNativeDevice *const  *devices,
                                                    guint                    n_devices);
void                     _gpu_native_context_clear (GpuNativeContext        *context);
void                     _gpu_native_event_init    (GpuNativeEvent          *event,
                                                    const GpuBackend        *backend);

/* Bytes held by all contexts of the process that have a device of @context, also through another
 * back end. @with_host: and their page-locked memory. */
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

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The executor of kernels: runs work-groups on the threads of a pool and work-items on separate
 * stacks, and samples images.
 */
#pragma once

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/host/executor/gpu-host-abi.h"
#include "gpumem/host/executor/gpu-host-texture.h"

G_BEGIN_DECLS

#define GPU_HOST_BASE_ALIGNMENT      64

typedef struct _GpuHostBuffer    GpuHostBuffer;
typedef struct _GpuHostEpoch     GpuHostEpoch;
typedef struct _GpuHostEvent     GpuHostEvent;
typedef struct _GpuHostFile      GpuHostFile;
typedef struct _GpuHostOperation GpuHostOperation;
typedef struct _GpuHostStream    GpuHostStream;

/* Kernels receive the address of `view`. */
typedef struct
{
  GpuNativeImage  parent;
  GpuHostBuffer  *memory;           /* of the texels, owned or borrowed */
  GpuHostImage    view;
  GpuHostTexture  texture;          /* refers to levels */
  GpuHostLevel    levels[];
} GpuHostNativeImage;

/* Runs an operation. Called on any thread, but only on one thread per operation. */
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

/* An operation of a stream; the first member of a structure with the parameters. */
struct _GpuHostOperation
{
  GpuHostOperation     *next;
  GpuHostOperationKind  kind;
  GpuHostRunFunc        run;        /* for kind WORK; NULL if there is nothing to do */
  GpuHostReleaseFunc    release;    /* nullable; called at the end, also if run was not called */
  guint64               seq;
  GpuHostEvent         *event;      /* nullable */
  GpuHostStream        *stream;     /* referenced; set while the operation is on the thread pool */
  GpuHostEpoch         *epoch;      /* set while the operation is on the thread pool */
};

/* A grid of work-groups that several threads process together. */
typedef struct
{
  GpuHostOperation          parent;
  const GpuHostKernelEntry *entry;
  guint                     work_dim;
  gsize                     grid[3];
  gsize                     offset[3];      /* of the global ids */
  gsize                     block[3];
  gsize                     n_groups[3];
  gsize                     n_groups_total;
  gsize                     stack_size;
  gsize                     scratch_size;   /* local memory of arguments in bytes */
  gsize                     next;           /* atomic; the first group that no thread has taken */
  gsize                     chunk;          /* groups that a thread takes at once */
  gint                      failed;         /* atomic */
  GError                   *error;          /* set by the thread that set failed */
  guint                     n_arguments;
  void                    **arguments;      /* addresses of the values */
  gsize                    *offsets;        /* into the scratch memory, for LOCAL */
  GpuArgumentKind          *kinds;
  guint8                   *values;
} GpuHostLaunch;

/* The functions that kernels call to read and write images. */
extern const GpuHostImageFunctions _gpu_host_image_functions;

typedef void (*GpuHostPoolFunc) (gpointer data);

/* Runs @func on a thread of the process-wide pool, or in the calling thread if the pool has no
 * thread and cannot start one. The caller must hold no locks. */
void            _gpu_host_pool_push           (GpuHostPoolFunc          func,
                                               gpointer                 data);
/* Runs @func on this thread and on idle threads of the pool at the same time. Blocks until all of
 * them have returned. */
void            _gpu_host_pool_share          (GpuHostPoolFunc          func,
                                               gpointer                 data);
guint           _gpu_host_pool_get_n_threads  (void);

typedef void (*GpuHostItemFunc) (void        **arguments,
                                 GpuHostItem  *item);

/* The GpuHostRunFunc of a GpuHostLaunch. */
gboolean        _gpu_host_launch_run          (GpuHostOperation        *operation,
                                               GError                 **error);

G_END_DECLS

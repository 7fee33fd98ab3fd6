/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The executor of kernels: work-groups on the threads of a pool, work-items on stacks of their own,
 * and the sampling of images.
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

/* What kernels get is the view. */
typedef struct
{
  GpuNativeImage  parent;
  GpuHostBuffer  *memory;           /* where the texels stand, its own or borrowed */
  GpuHostImage    view;
  GpuHostTexture  texture;          /* of the levels that follow */
  GpuHostLevel    levels[];
} GpuHostNativeImage;

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

/* What kernels read and write images with. */
extern const GpuHostImageFunctions _gpu_host_image_functions;

typedef void (*GpuHostPoolFunc) (gpointer data);

/* Runs @func on a thread of the process-wide pool, or in the calling thread if the pool has no
 * thread and cannot start one. Call it without locks. */
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

G_END_DECLS

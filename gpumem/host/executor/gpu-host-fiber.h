/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Runs the work-items of a group on one thread, so that some may wait for others. An item runs on
 * the stack of the one before it if that has completed; one that waits keeps its stack. The
 * stand-in CUDA driver of the tests compiles this file as well (tests/cuda-driver/): it uses
 * nothing but GLib.
 */
#pragma once

#include "gpumem/host/executor/gpu-host-stack.h"

G_BEGIN_DECLS

typedef struct _GpuHostFiber  GpuHostFiber;
/* The stacks of one thread, kept from one group to the next. */
typedef struct _GpuHostFibers GpuHostFibers;

struct _GpuHostFiber
{
  GpuHostFibers *fibers;
  GpuHostFiber  *next;          /* in the ring of fibers in use, which ends with the thread */
  gboolean       is_blocked;    /* passed over until a GpuHostWakeFunc clears it */
  GpuHostStack   stack;
};

/* Runs item number @index on @fiber. */
typedef void     (*GpuHostFiberFunc) (GpuHostFiber *fiber,
                                      gsize         index,
                                      gpointer      data);
/* Called when every item has begun and waits or has completed. FALSE: none can go on. */
typedef gboolean (*GpuHostWakeFunc)  (gpointer      data);

typedef enum
{
  GPU_HOST_FIBERS_OVER,         /* all items have run */
  GPU_HOST_FIBERS_STOPPED,
  GPU_HOST_FIBERS_STUCK,
  GPU_HOST_FIBERS_NO_MEMORY     /* for another stack; see errno */
} GpuHostFibersResult;

GpuHostFibers       *_gpu_host_fibers_new     (void);
void                 _gpu_host_fibers_free    (GpuHostFibers    *fibers);
/* Creates fibers up to @n, of @stack_size bytes each. FALSE and errno if there is no memory. */
gboolean             _gpu_host_fibers_reserve (GpuHostFibers    *fibers,
                                               gsize             n,
                                               gsize             stack_size);
/* Runs @n_items items. Creates fibers as needed, of the size last reserved. @wake may be NULL. */
GpuHostFibersResult  _gpu_host_fibers_run     (GpuHostFibers    *fibers,
                                               gsize             n_items,
                                               GpuHostFiberFunc  func,
                                               GpuHostWakeFunc   wake,
                                               gpointer          data);
/* Abandons all items, in a signal handler too. The stacks are unmapped without being unwound. */
void                 _gpu_host_fibers_stop    (GpuHostFibers    *fibers) G_GNUC_NORETURN;
/* Waits, in an item: returns once every other item that is not blocked waits or has completed. */
void                 _gpu_host_fiber_wait     (GpuHostFiber     *fiber);

G_END_DECLS

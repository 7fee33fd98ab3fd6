/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Runs the work-items of a group on one thread, and lets items wait for each other. An item runs on
 * the stack of the previous item if that item has completed. An item that waits keeps its stack.
 * Uses only GLib, because the stand-in CUDA driver of the tests (tests/cuda-driver/) also compiles
 * this file.
 */
#pragma once

#include "gpumem/host/executor/gpu-host-stack.h"

G_BEGIN_DECLS

typedef struct _GpuHostFiber  GpuHostFiber;
/* The stacks of one thread, reused for each group. */
typedef struct _GpuHostFibers GpuHostFibers;

struct _GpuHostFiber
{
  GpuHostFibers *fibers;
  GpuHostFiber  *next;          /* the next fiber in the ring of fibers in use; the last element of
                                 * the ring is the thread */
  gboolean       is_blocked;    /* skipped until a GpuHostWakeFunc clears it */
  GpuHostStack   stack;
};

/* Runs item number @index on @fiber. */
typedef void     (*GpuHostFiberFunc) (GpuHostFiber *fiber,
                                      gsize         index,
                                      gpointer      data);
/* Called when all items have begun and each of them either waits or has completed. Returns FALSE if
 * no item can continue. */
typedef gboolean (*GpuHostWakeFunc)  (gpointer      data);

typedef enum
{
  GPU_HOST_FIBERS_COMPLETE,     /* all items have completed */
  GPU_HOST_FIBERS_STOPPED,
  GPU_HOST_FIBERS_STUCK,
  GPU_HOST_FIBERS_NO_MEMORY     /* no memory for another stack; see errno */
} GpuHostFibersResult;

GpuHostFibers       *_gpu_host_fibers_new     (void);
void                 _gpu_host_fibers_free    (GpuHostFibers    *fibers);
/* Creates fibers until there are @n, with stacks of @stack_size bytes. Returns FALSE and sets errno
 * if there is no memory. */
gboolean             _gpu_host_fibers_reserve (GpuHostFibers    *fibers,
                                               gsize             n,
                                               gsize             stack_size);
/* Runs @n_items items. Creates fibers as needed, with the last reserved stack size. @wake may be
 * NULL. */
GpuHostFibersResult  _gpu_host_fibers_run     (GpuHostFibers    *fibers,
                                               gsize             n_items,
                                               GpuHostFiberFunc  func,
                                               GpuHostWakeFunc   wake,
                                               gpointer          data);
/* Abandons all items. May be called in a signal handler. The stacks are unmapped without being
 * unwound. */
void                 _gpu_host_fibers_stop    (GpuHostFibers    *fibers) G_GNUC_NORETURN;
/* Called by an item that waits for the other items, for example at a barrier. Returns once every
 * other item that is not blocked has also called this function or has completed. */
void                 _gpu_host_fiber_wait     (GpuHostFiber     *fiber);

G_END_DECLS

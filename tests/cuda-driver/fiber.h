/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Runs the threads of one block of a kernel. */
#pragma once

#include <glib.h>

#include "kernel.h"

G_BEGIN_DECLS

typedef struct
{
  KernelThread    template;     /* values that all threads of the block share */
  KernelThread  **place;        /* where the kernel reads its current thread */
  void          (*run) (void (*function) (void), void **arguments);
  void          (*function) (void);
  void          **arguments;
} FiberRun;

/* Returns 0, the code that a thread terminated with, or 702 after a deadlock. */
guint fibers_run         (const FiberRun *run);
/* Makes fibers_run() return @code. Called from a signal handler. */
void  fiber_stop_current (guint           code) G_GNUC_NORETURN;
/* Frees the block state that the calling thread retains for reuse. */
void  fibers_free        (void);

G_END_DECLS

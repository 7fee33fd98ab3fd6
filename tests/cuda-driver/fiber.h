/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Runs the threads of one block of a kernel. */
#pragma once

#include <glib.h>

#include "kernel.h"

G_BEGIN_DECLS

typedef struct
{
  KernelThread    template;     /* block, sizes, shared memory */
  KernelThread  **place;        /* where the kernel looks for the thread that it is */
  void          (*run) (void (*function) (void), void **arguments);
  void          (*function) (void);
  void          **arguments;
} FiberRun;

/* 0, or the code that a thread stopped with; 702 if none of them can go on. */
guint fibers_run         (const FiberRun *run);
/* In a handler of signals: ends fibers_run() with this code. */
void  fiber_stop_current (guint           code) G_GNUC_NORETURN;
/* Frees what this thread keeps. */
void  fibers_free        (void);

G_END_DECLS

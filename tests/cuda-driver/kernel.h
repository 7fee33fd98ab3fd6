/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What kernel-prelude.h is to the programs, seen from the driver: the same structures. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _KernelThread KernelThread;

/* gpumem_thread */
struct _KernelThread
{
  guint      thread[3];
  guint      block[3];
  guint      block_size[3];
  guint      grid_size[3];
  gpointer   shared;
  guint64   *slots;
  guint      lane;
  void     (*barrier)      (KernelThread *thread);
  void     (*warp_barrier) (KernelThread *thread,
                            guint         mask);
  void     (*stop)         (KernelThread *thread,
                            guint         code);
};

/* gpumem_kernel */
typedef struct
{
  void        (*function) (void);
  void        (*run) (void (*function) (void), void **arguments);
  const char   *name;
  const gsize  *sizes;
  const gsize  *alignments;
  gsize         n_parameters;
  int           max_threads;
} KernelEntry;

G_END_DECLS

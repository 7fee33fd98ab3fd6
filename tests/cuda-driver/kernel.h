/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What kernel-prelude.h is to the programs, seen from the driver: the same structures. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _KernelThread KernelThread;

/* gpumem_fetch: what a function for textures asks for */
typedef struct
{
  guint64  object;
  guint    kind;                /* FETCH_ */
  int      layer;
  float    place[3];
  float    level;
} KernelFetch;

/* gpumem_access: what a function for surfaces does */
typedef struct
{
  guint64   object;
  guint     kind;               /* FETCH_ */
  int       place[3];           /* bytes, rows, slices */
  int       layer;
  guint     size;               /* bytes */
  guint     outside;            /* as cudaSurfaceBoundaryMode */
  int       writes;
  gpointer  data;
} KernelAccess;

enum
{
  FETCH_LINEAR,
  FETCH_1D,
  FETCH_2D,
  FETCH_3D,
  FETCH_1D_LAYERED,
  FETCH_2D_LAYERED,
  FETCH_CUBE,
  FETCH_CUBE_LAYERED
};

enum
{
  OUTSIDE_ZERO,
  OUTSIDE_CLAMP,
  OUTSIDE_TRAP
};

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
  void     (*fetch)        (KernelThread       *thread,
                            const KernelFetch  *fetch,
                            guint32             result[4]);
  void     (*access)       (KernelThread       *thread,
                            const KernelAccess *access);
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

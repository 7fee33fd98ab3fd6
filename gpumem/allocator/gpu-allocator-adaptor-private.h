/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What adaptors stand on. Every memory that an adaptor has given has a lease, until nobody uses the
 * memory any more or it is given back; leases keep the core of the adaptor, which may be gone.
 */
#pragma once

#include "gpumem/memory/gpu-memory-private.h"

G_BEGIN_DECLS

typedef struct _GpuAdaptorOps GpuAdaptorOps;

/* The first member of what an adaptor counts in. */
typedef struct
{
  gatomicrefcount      refs;
  const GpuAdaptorOps *ops;
  GMutex               lock;        /* for the adaptor's use; no other is taken under it */
  gboolean             closed;      /* guarded by it: the adaptor is gone */
} GpuAdaptorCore;

/* The first member of what an adaptor knows about a memory. */
typedef struct
{
  GpuStorageHook  hook;
  GpuAdaptorCore *core;             /* with a reference */
  gsize           size;             /* bytes, as asked for */
  guint64         pointer;          /* the address, or the driver's handle where it tells none */
  guint64         stream;           /* the driver's handle, 0 for none */
} GpuLease;

/* What a class of them is; every function but @alloc may be NULL. */
struct _GpuAdaptorOps
{
  gsize      core_size;
  gsize      lease_size;
  /* Asks upstream, and more: _gpu_adaptor_alloc() for a start. NULL is that. */
  GpuMemory *(*alloc)    (GpuAllocatorAdaptor  *adaptor,
                          gsize                 size,
                          GpuStream            *stream,
                          GError              **error);
  /* Upstream gave the memory of @lease. */
  void       (*granted)  (GpuAdaptorCore       *core,
                          GpuLease             *lease);
  /* The memory came back; any thread, any moment. FALSE to hold up the freeing, see
   * GpuStorageHook; @storage is NULL if the memory was given back with gpu_allocator_free(), and
   * FALSE nothing then. The lease is freed after it. */
  gboolean   (*returned) (GpuAdaptorCore       *core,
                          GpuLease             *lease,
                          GpuStorage           *storage);
  /* Nobody has the core any more. */
  void       (*clear)    (GpuAdaptorCore       *core);
};

struct _GpuAllocatorAdaptor
{
  GObject         parent_instance;

  GpuAllocator   *upstream;         /* NULL if never given */
  GpuAdaptorCore *core;
};

/* By the init of a class: its core, which is 0 but for what is declared here. */
gpointer   _gpu_adaptor_init  (GpuAllocatorAdaptor  *adaptor,
                               const GpuAdaptorOps  *ops);
/* Asks upstream, and has a lease of what that gives. */
GpuMemory *_gpu_adaptor_alloc (GpuAllocatorAdaptor  *adaptor,
                               gsize                 size,
                               GpuStream            *stream,
                               GError              **error);
/* TRUE for an error that freeing memory may help against. */
gboolean   _gpu_error_is_out_of_memory (const GError *error);

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The base of all adaptors: a list of the live memory of an adaptor. Each memory object that an
 * adaptor allocated has a lease. The lease ends when the memory loses its last user or is freed.
 * Each lease holds a reference to the core of the adaptor, so the adaptor may be finalized before
 * the lease ends.
 */
#pragma once

#include "gpumem/memory/gpu-memory-private.h"

G_BEGIN_DECLS

typedef struct _GpuAdaptorOps GpuAdaptorOps;

/* The first member of the state structure of every adaptor. The state may outlive the adaptor. */
typedef struct
{
  gatomicrefcount      refs;
  const GpuAdaptorOps *ops;
  GMutex               lock;        /* guards all members below and the state of the adaptor; no
                                     * other lock is taken under it */
  gboolean             closed;      /* the adaptor is finalized */
  GQueue               leases;      /* of GpuLease: live memory, oldest first */
  guint64              active;      /* bytes of live memory */
} GpuAdaptorCore;

/* First member of the data that an adaptor keeps for one memory object. */
typedef struct
{
  GpuStorageHook  hook;
  GList           link;             /* the link in GpuAdaptorCore.leases */
  GpuAdaptorCore *core;             /* the lease holds a reference */
  gsize           size;             /* bytes requested */
  guint64         pointer;          /* the address if known, otherwise the driver's handle */
  guint64         stream;           /* the driver's handle of the stream, 0 for none */
} GpuLease;

/* The functions of an adaptor class. Each function may be NULL. */
struct _GpuAdaptorOps
{
  gsize      core_size;
  gsize      lease_size;
  /* Allocates memory; the default is _gpu_adaptor_alloc(). */
  GpuMemory *(*alloc)    (GpuAllocatorAdaptor  *adaptor,
                          gsize                 size,
                          GpuStream            *stream,
                          GError              **error);
  /* Initializes a lease that is not registered yet. Called without the lock. */
  void       (*prepare)  (GpuAdaptorCore       *core,
                          GpuLease             *lease);
  /* Called after @lease was registered. Caller holds the lock. */
  void       (*granted)  (GpuAdaptorCore       *core,
                          GpuLease             *lease);
  /* Called after @lease was unregistered, and before it is freed. Called on any thread, without the
   * lock. If the function returns FALSE, the memory is not freed yet, see GpuStorageHook. When
   * gpu_allocator_free() ends the lease, @storage is NULL and the result is ignored. */
  gboolean   (*returned) (GpuAdaptorCore       *core,
                          GpuLease             *lease,
                          GpuStorage           *storage);
  /* Called when the adaptor is finalized. Leases may remain. */
  void       (*closed)   (GpuAdaptorCore       *core);
  /* Frees the state of the adaptor, after the adaptor is finalized and the last lease has ended. */
  void       (*clear)    (GpuAdaptorCore       *core);
};

struct _GpuAllocatorAdaptor
{
  GObject         parent_instance;

  GpuAllocator   *upstream;         /* NULL if constructed without an upstream */
  GpuAdaptorCore *core;
};

/* Called by the instance init function of a class. Creates the core of @adaptor and returns it. All
 * members that the class adds to the core are 0. */
gpointer   _gpu_adaptor_init       (GpuAllocatorAdaptor  *adaptor,
                                    const GpuAdaptorOps  *ops);
/* Returns the core of an instance of any adaptor class. */
gpointer   _gpu_adaptor_get_core   (gpointer              adaptor);
/* Lock @adaptor, and get or set the guint64 at @offset in its core. The setter returns TRUE if the
 * value changed. */
guint64    _gpu_adaptor_get_uint64 (gpointer              adaptor,
                                    gsize                 offset);
gboolean   _gpu_adaptor_set_uint64 (gpointer              adaptor,
                                    gsize                 offset,
                                    guint64               value);
/* Returns NULL if the adaptor was constructed without an upstream. */
GpuAllocator *_gpu_allocator_adaptor_get_upstream (GpuAllocatorAdaptor *adaptor);
/* Allocates memory with the upstream allocator and registers a lease for the memory. */
GpuMemory *_gpu_adaptor_alloc      (GpuAllocatorAdaptor  *adaptor,
                                    gsize                 size,
                                    GpuStream            *stream,
                                    GError              **error);

G_END_DECLS

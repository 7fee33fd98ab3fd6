/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Registry of live memory, shared by all adaptors. Each memory object that an adaptor allocated has
 * a lease. The lease ends when the memory loses its last user or is freed. Leases reference the
 * core, so the adaptor may be finalized first.
 */
#pragma once

#include "gpumem/memory/gpu-memory-private.h"

G_BEGIN_DECLS

typedef struct _GpuAdaptorOps GpuAdaptorOps;

/* First member of the state of an adaptor. */
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
  GList           link;             /* in leases */
  GpuAdaptorCore *core;             /* with a reference */
  gsize           size;             /* bytes requested */
  guint64         pointer;          /* the address if known, otherwise the driver's handle */
  guint64         stream;           /* the driver's handle, 0 for none */
} GpuLease;

/* The functions of an adaptor class. Each function is nullable. */
struct _GpuAdaptorOps
{
  gsize      core_size;
  gsize      lease_size;
  /* Allocates; defaults to _gpu_adaptor_alloc(). */
  GpuMemory *(*alloc)    (GpuAllocatorAdaptor  *adaptor,
                          gsize                 size,
                          GpuStream            *stream,
                          GError              **error);
  /* Initializes a lease that is not registered yet. Called without the lock. */
  void       (*prepare)  (GpuAdaptorCore       *core,
                          GpuLease             *lease);
  /* @lease was registered. Caller holds the lock. */
  void       (*granted)  (GpuAdaptorCore       *core,
                          GpuLease             *lease);
  /* @lease was unregistered, and is freed after the call. Called on any thread, without the lock.
   * If the function returns FALSE, the memory is not freed yet, see GpuStorageHook. When
   * gpu_allocator_free() ends the lease, @storage is NULL and the result is ignored. */
  gboolean   (*returned) (GpuAdaptorCore       *core,
                          GpuLease             *lease,
                          GpuStorage           *storage);
  /* The adaptor is being finalized; leases may remain. */
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

/* Called by the instance init function of a class. Returns its zeroed core. */
gpointer   _gpu_adaptor_init       (GpuAllocatorAdaptor  *adaptor,
                                    const GpuAdaptorOps  *ops);
/* Returns the core of an instance of any adaptor class. */
gpointer   _gpu_adaptor_get_core   (gpointer              adaptor);
/* These functions read and write a guint64 of the core under the lock. The setter returns TRUE if
 * the value changed. */
guint64    _gpu_adaptor_get_uint64 (gpointer              adaptor,
                                    gsize                 offset);
gboolean   _gpu_adaptor_set_uint64 (gpointer              adaptor,
                                    gsize                 offset,
                                    guint64               value);
/* Returns NULL if the adaptor was constructed without an upstream. */
GpuAllocator *_gpu_allocator_adaptor_get_upstream (GpuAllocatorAdaptor *adaptor);
/* Allocates upstream and registers the memory. */
GpuMemory *_gpu_adaptor_alloc      (GpuAllocatorAdaptor  *adaptor,
                                    gsize                 size,
                                    GpuStream            *stream,
                                    GError              **error);
/* Returns whether the failed request may succeed after other memory is freed. */
gboolean   _gpu_error_is_out_of_memory (const GError *error);

G_END_DECLS

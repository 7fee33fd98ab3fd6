/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Contexts. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-native-types.h"

G_BEGIN_DECLS

/* The driver's context; shared by the GpuContext and by everything still at work in it. The
 * front classes count the references, bytes and streams; the back end fills in the rest. */
struct _GpuNativeContext
{
  const GpuBackend  *backend;
  gatomicrefcount    refs;
  GpuNativeDevice  **devices;       /* array of n_devices, owned */
  guint              n_devices;
  GpuContextFlags    flags;         /* that it has: set by create() and wrap() */
  gsize              allocated;     /* atomic; bytes of memory held by this context */
  gsize              allocated_host; /* atomic; bytes of GpuHostMemory, which is none of these */
  gint               stages_host_memory; /* atomic; copies of ordinary memory of the library go, or
                                     * went, by way of the staging engine, in their turn: what uses
                                     * such memory at once must let the stream come to an end */
  gint               n_active;      /* atomic; timelines with work that is not known to be over */
  GMutex             failure_lock;  /* held while an event fails and while streams are made to
                                     * wait for events that may fail: PoCL hangs on a wait for
                                     * what has failed already */
  GMutex             lock;          /* guards what follows */
  GPtrArray         *timelines;     /* every live timeline of the context, unowned */
  GHashTable        *aliases;       /* nullable; of GpuStorage by GpuAliasKey.id, unowned */
  GHashTable        *formats;       /* nullable; of images: GArray by memory flags and type */
  gpointer           owner;         /* GWeakRef on the GpuContext, for signals */
  /* nullable; called once, on any thread, when the context turns out to be lost */
  void             (*notify_lost) (GpuNativeContext *context,
                                   const GError     *error);
  struct _GpuTransferRing *ring;    /* of the staging engine; NULL until first needed */
  void             (*ring_free)  (GpuNativeContext *context);

  /* Last, beside what back ends put first: all that an operation looks at. */
  gint               lost;          /* atomic; once TRUE every call answers DEVICE_LOST */
};

typedef gboolean GpuContextGetAddressAttributesOp (GpuNativeContext *context,
                                                   guint64           address,
                                                   GVariantDict     *attributes,
                                                   GError          **error);
typedef gboolean GpuContextEnablePeerOp (GpuNativeContext *context,
                                         GpuNativeContext *peer,
                                         GError          **error);
typedef gboolean GpuContextDisablePeerOp (GpuNativeContext *context,
                                          GpuNativeContext *peer,
                                          GError          **error);

typedef struct
{
  /* Those that create() knows; the front class refuses others. */
  GpuContextFlags    flags;

  /* any thread. All devices are of this back end; more than one only where the back end can:
   * else GPU_ERROR_NOT_SUPPORTED. At most one GPU_CONTEXT_FLAGS_SCHED_ is in @flags. */
  GpuNativeContext * (*create)          (GpuNativeDevice *const *devices,
                                         guint                   n_devices,
                                         GpuContextFlags         flags,
                                         GError                **error);
  /* any thread; may be NULL. A foreign context of @device. */
  GpuNativeContext * (*wrap)            (GpuNativeDevice        *device,
                                         guint64                 handle,
                                         GpuWrapMode             mode,
                                         GError                **error);
  /* any thread; nothing of the context is left. Frees the structure itself. */
  void               (*free)            (GpuNativeContext       *context);
  guint64            (*get_handle)      (GpuNativeContext       *context);
  /* any thread; may be NULL or fail with NOT_SUPPORTED: the front class then counts. */
  gboolean           (*get_memory_info) (GpuNativeContext       *context,
                                         guint64                *free_size,
                                         guint64                *total_size,
                                         GpuMemoryInfoSource    *source,
                                         GError                **error);
  /* any thread; may be NULL. */
  gboolean           (*get_limit)       (GpuNativeContext       *context,
                                         GpuLimit                limit,
                                         guint64                *value,
                                         GError                **error);
  gboolean           (*set_limit)       (GpuNativeContext       *context,
                                         GpuLimit                limit,
                                         guint64                 value,
                                         GError                **error);

  /* The rest may be NULL, and are for any thread. */

  /* Blocks until all work of the context is complete, including streams that the library does not
   * know. NULL: the driver has no such call. */
  gboolean           (*synchronize)     (GpuNativeContext       *context,
                                         GError                **error);

  /* Of the context: 1000 times the major number and 10 times the minor one. */
  gboolean           (*get_api_version) (GpuNativeContext       *context,
                                         guint                  *version,
                                         GError                **error);
  gboolean           (*get_cache_preference) (GpuNativeContext       *context,
                                              GpuCachePreference     *preference,
                                              GError                **error);
  gboolean           (*set_cache_preference) (GpuNativeContext       *context,
                                              GpuCachePreference      preference,
                                              GError                **error);
  /* Of streams on the first device; @greatest is what goes first, and the lower number. NULL:
   * from 0 to 0. */
  gboolean           (*get_priority_range) (GpuNativeContext     *context,
                                            int                  *least,
                                            int                  *greatest,
                                            GError              **error);
  /* Current for the calling thread, for programs that call the driver themselves. pop() fails if
   * another than @context is current. */
  gboolean           (*push_current)    (GpuNativeContext       *context,
                                         GError                **error);
  gboolean           (*pop_current)     (GpuNativeContext       *context,
                                         GError                **error);
  /* What the driver knows of an address of the device or of the host, by nick. An address that
   * it does not know is GPU_ERROR_INVALID_ARGUMENT. */
  GpuContextGetAddressAttributesOp *get_address_attributes;
  /* Kernels and copies of @context may reach the memory of @peer, on another device, or no more.
   * Enabling what is enabled and disabling what is not are GPU_ERROR_BUSY and
   * GPU_ERROR_INVALID_ARGUMENT. */
  GpuContextEnablePeerOp *enable_peer;
  GpuContextDisablePeerOp *disable_peer;
  /* A profiler that runs the process takes notes between the two. */
  gboolean           (*start_profiler)  (GpuNativeContext       *context,
                                         GError                **error);
  gboolean           (*stop_profiler)   (GpuNativeContext       *context,
                                         GError                **error);
} GpuContextOps;

G_END_DECLS

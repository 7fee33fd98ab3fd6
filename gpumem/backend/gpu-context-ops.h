/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Contexts. gpu-backend.h has the rules for every op. */
#pragma once

#include "gpumem/backend/gpu-native-types.h"

G_BEGIN_DECLS

/* The driver's context, shared by the GpuContext and by all pending work of the context. The public
 * classes count the references, bytes and streams; the back end fills in the other fields. */
struct _GpuNativeContext
{
  const GpuBackend  *backend;
  gatomicrefcount    refs;
  GpuNativeDevice  **devices;       /* array of n_devices, owned */
  guint              n_devices;
  GpuContextFlags    flags;         /* the flags in effect, set by create() and wrap() */
  gsize              allocated;     /* atomic; bytes of memory held by this context */
  gsize              allocated_host; /* atomic; bytes of GpuHostMemory, not part of allocated */
  gint               stages_host_memory; /* atomic; set before the first staged copy in the context.
                                          * Staged copies access pageable memory in stream order.
                                          * An op must then wait for the stream before the driver
                                          * accesses pageable memory of the library immediately */
  gint               n_active;      /* atomic; number of timelines whose work is not known to be
                                     * complete */
  GMutex             failure_lock;  /* held while a thread fails a user event, or enqueues a wait
                                     * for an event that may fail: PoCL hangs if a wait is enqueued
                                     * after the event has failed */
  GMutex             lock;          /* guards the fields below */
  GPtrArray         *timelines;     /* every live timeline of the context, unowned */
  GHashTable        *aliases;       /* nullable; of GpuStorage by GpuAliasKey.id, unowned */
  GHashTable        *formats;       /* nullable; the cached lists of image formats: GArrays, by a
                                     * combination of memory flags and image type */
  gpointer           owner;         /* unowned, guarded by lock; set by gpu-context.c, to emit the
                                     * signals; NULL once the GpuContext is finalized */
  /* nullable; called once, on any thread, when the context is found to be lost */
  void             (*notify_lost) (GpuNativeContext *context,
                                   const GError     *error);
  struct _GpuTransferRing *ring;    /* of the staging engine; NULL until first used */
  void             (*ring_free)  (GpuNativeContext *context);

  /* Must be the last member: every operation reads `lost`, and also the first members that a back
   * end's own structure adds after this structure. */
  gint               lost;          /* atomic; once TRUE, every call fails with DEVICE_LOST */
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
typedef gboolean GpuContextReachPeerOp (GpuNativeContext *context,
                                        GpuNativeContext *peer);
typedef gboolean GpuContextHasPeerOp (GpuNativeContext *context,
                                      GpuNativeContext *peer);

typedef struct
{
  /* The flags that create() supports; the public class rejects others. */
  GpuContextFlags    flags;

  /* any thread. All devices belong to this back end. Fails with GPU_ERROR_NOT_SUPPORTED if
   * @n_devices is above 1 and the back end does not support contexts of several devices. @flags has
   * at most one GPU_CONTEXT_FLAGS_SCHED_ flag. */
  GpuNativeContext * (*create)          (GpuNativeDevice *const *devices,
                                         guint                   n_devices,
                                         GpuContextFlags         flags,
                                         GError                **error);
  /* any thread; may be NULL. Wraps a foreign context of @device. */
  GpuNativeContext * (*wrap)            (GpuNativeDevice        *device,
                                         guint64                 handle,
                                         GpuWrapMode             mode,
                                         GError                **error);
  /* any thread. Called when no object of the context exists any more. Frees the structure
   * itself. */
  void               (*free)            (GpuNativeContext       *context);
  guint64            (*get_handle)      (GpuNativeContext       *context);
  /* any thread; may be NULL, and may fail with GPU_ERROR_NOT_SUPPORTED. In both cases, the public
   * class reports the memory that the library has counted. */
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

  /* All ops below may be NULL, and may be called from any thread. */

  /* Blocks until all work of the context has completed, including work on streams that the library
   * does not track. NULL if the driver has no such call. */
  gboolean           (*synchronize)     (GpuNativeContext       *context,
                                         GError                **error);

  /* Gets the API version of the context: 1000 times the major number plus 10 times the minor
   * number. */
  gboolean           (*get_api_version) (GpuNativeContext       *context,
                                         guint                  *version,
                                         GError                **error);
  gboolean           (*get_cache_preference) (GpuNativeContext       *context,
                                              GpuCachePreference     *preference,
                                              GError                **error);
  gboolean           (*set_cache_preference) (GpuNativeContext       *context,
                                              GpuCachePreference      preference,
                                              GError                **error);
  /* Gets the range of stream priorities on the first device. @greatest is the highest priority,
   * which is the smallest number. If the op is NULL, the range is 0 to 0. */
  gboolean           (*get_priority_range) (GpuNativeContext     *context,
                                            int                  *least,
                                            int                  *greatest,
                                            GError              **error);
  /* Make the context current for the calling thread, for programs that call the driver themselves.
   * pop_current() fails if @context is not the current context. */
  gboolean           (*push_current)    (GpuNativeContext       *context,
                                         GError                **error);
  gboolean           (*pop_current)     (GpuNativeContext       *context,
                                         GError                **error);
  /* Gets the attributes that the driver reports for @address, which may be in device memory or in
   * host memory; their keys are nicks. Fails with GPU_ERROR_INVALID_ARGUMENT if the driver does not
   * know @address. */
  GpuContextGetAddressAttributesOp *get_address_attributes;
  /* Enable and disable access of @context to the memory of @peer, a context on another device.
   * Access means that the kernels and the copies that run in @context can use this memory.
   * enable_peer() fails with GPU_ERROR_BUSY if an earlier call has enabled the access.
   * disable_peer() fails with GPU_ERROR_INVALID_ARGUMENT if no call of enable_peer() has. */
  GpuContextEnablePeerOp *enable_peer;
  GpuContextDisablePeerOp *disable_peer;
  /* Called without locks before each copy on a stream of @context from or to memory of @peer.
   * Enables the access that fast copies need, unless it is enabled. Only the first call for two
   * contexts calls the driver. Returns whether copies go directly from device to device. NULL: all
   * copies do. */
  GpuContextReachPeerOp *reach_peer;
  /* any thread; not NULL if enable_peer() is not NULL. Returns whether enable_peer() has enabled
   * the access. Does not call the driver. */
  GpuContextHasPeerOp *has_peer;
  /* Start and stop the data collection of a profiler that runs the process. */
  gboolean           (*start_profiler)  (GpuNativeContext       *context,
                                         GError                **error);
  gboolean           (*stop_profiler)   (GpuNativeContext       *context,
                                         GError                **error);
} GpuContextOps;

G_END_DECLS

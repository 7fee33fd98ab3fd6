/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

/* The table is for C: language bindings have the classes. */
#ifndef __GI_SCANNER__

/**
 * GPU_POOL_HOOKS_VERSION:
 *
 * The version of #GpuPoolHooks in this header.
 *
 * Since: 0.1
 */
#define GPU_POOL_HOOKS_VERSION 1

typedef struct _GpuPoolHooks GpuPoolHooks;

/**
 * GpuPoolStreamFilter:
 * @stream: a stream of the driver
 * @data: the data of GpuPoolHooks.begin_capture()
 *
 * Called on the allocating thread, without locks of the library.
 *
 * Returns: %TRUE if memory for @stream belongs to the capture
 *
 * Since: 0.1
 */
typedef gboolean (*GpuPoolStreamFilter) (gpointer stream,
                                         gpointer data);

/**
 * GpuPoolHooks:
 * @version: the version of the table: a later version only has more members at the end
 * @pool: the first argument of every function
 * @alloc: allocates memory for work that is submitted to the stream from now on. Returns the
 *   address; 0 without an error for a size of 0; or 0 with an error of
 *   gpu_memory_pool_alloc_block(), such as %GPU_ERROR_OUT_OF_DEVICE_MEMORY
 * @free: frees memory. Later requests reuse it only after all work that was submitted to the stream
 *   so far, and to the streams of @add_stream. Does not block. Returns %FALSE, without effect, if
 *   the address is not the start of memory of @alloc
 * @add_stream: registers one more stream whose work uses the memory. Returns %FALSE with an error
 *   for an unknown address, or if the stream belongs to another context
 * @lookup: finds the memory that contains an address. The start of memory of @alloc takes constant
 *   time; any other address takes a walk over the pool. Returns %FALSE if no active memory contains
 *   the address
 * @end_stream: forgets a stream. The owner of the stream calls this function before it destroys the
 *   stream
 * @begin_capture: from now on, memory for the streams that the filter accepts, or for all streams
 *   if the filter is %NULL, belongs to the capture with this number, which is not 0. May be called
 *   again for the same number after @end_capture. Returns %FALSE with %GPU_ERROR_BUSY if the
 *   capture has begun and not ended. The pool calls @destroy when it no longer needs the data
 * @end_capture: ends what @begin_capture began. The memory keeps belonging to the capture. Returns
 *   %FALSE for an unknown number
 * @release_capture: returns the memory of the capture to the pool: free memory now, other memory
 *   once it is freed. Call it when the graph is destroyed. Blocks until the device is idle.
 *   Returns %FALSE for an unknown number
 * @get_figure: gets a counter by the name of the property of #GpuMemoryPool, such as
 *   "managed-bytes"; 0 for an unknown name
 * @trim: like gpu_memory_pool_trim()
 *
 * The functions of a pool for other libraries: plain C, addresses, and streams of the driver.
 *
 * |[<!-- language="C" -->
 * GpuPoolHooks *hooks = NULL;
 * guint64 address;
 *
 * g_object_get (pool, "hooks", &hooks, NULL);
 * address = hooks->alloc (hooks->pool, size, native_stream, &error);
 * hooks->free (hooks->pool, address, native_stream);
 * ]|
 *
 * #GpuMemoryPool:hooks is the table of a pool. The table is valid as long as the pool exists, so
 * the caller keeps a reference to the pool until it has freed all memory.
 *
 * A stream is a handle of the driver, such as a CUstream; %NULL is the default stream, on CUDA the
 * legacy default stream. The pool wraps each handle once. If the driver gives the handle of a
 * destroyed stream to a new stream, the pool notices this, and waits for the device once (CUDA 12
 * and newer; on older drivers @end_stream is required). On all drivers, a stream that allocated
 * memory while it was capturing needs @end_stream before it is destroyed. @free may name an ended
 * stream. Memory for the per-thread default stream is ordered as for the legacy default stream; it
 * cannot be allocated while the per-thread default stream is capturing (%GPU_ERROR_NOT_SUPPORTED).
 *
 * While work of a stream is being captured into a graph, memory for that stream is private to the
 * graph: it only consists of memory without pending uses, and other requests never reuse it. The
 * pool then neither moves memory nor unmaps it, does not wait for streams, and records no events in
 * the stream. This also holds from @begin_capture to @end_capture, even if no stream is capturing.
 * A capture is either announced with @begin_capture, or detected by the first request
 * for the stream. Memory of a detected capture returns to the pool after the last graph with the
 * captured work was destroyed.
 *
 * All functions may be called from any thread.
 *
 * Since: 0.1
 */
struct _GpuPoolHooks
{
  guint      version;
  gpointer   pool;

  guint64  (*alloc)           (gpointer               pool,
                               gsize                  size,
                               gpointer               stream,
                               GError               **error);
  gboolean (*free)            (gpointer               pool,
                               guint64                address,
                               gpointer               stream);
  gboolean (*add_stream)      (gpointer               pool,
                               guint64                address,
                               gpointer               stream,
                               GError               **error);
  gboolean (*lookup)          (gpointer               pool,
                               guint64                address,
                               guint64               *start,
                               gsize                 *size);
  void     (*end_stream)      (gpointer               pool,
                               gpointer               stream);
  gboolean (*begin_capture)   (gpointer               pool,
                               guint64                number,
                               GpuPoolStreamFilter    filter,
                               gpointer               data,
                               GDestroyNotify         destroy,
                               GError               **error);
  gboolean (*end_capture)     (gpointer               pool,
                               guint64                number);
  gboolean (*release_capture) (gpointer               pool,
                               guint64                number);
  guint64  (*get_figure)      (gpointer               pool,
                               const char            *name);
  void     (*trim)            (gpointer               pool,
                               guint64                keep);
};

#endif /* __GI_SCANNER__ */

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Functions for the language bindings of this library. Programs must not call them: they may change
 * or disappear in any version.
 */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

/* Returns whether @buffer has memory of a pool, is not released, and has no reference besides the
 * caller's. Does not block. */
GPU_AVAILABLE_IN_0_1
gboolean _gpu_binding_can_recycle_buffer (GpuBuffer *buffer);
/* Drops the caller's reference to @buffer, with the result of g_object_unref(). If possible,
 * returns the memory to the pool and keeps the object for the next buffer of the pool, without
 * disposal. The object then keeps its data with the key @retained, which must be valid for any
 * buffer of any pool. An object with other references, with slices or mappings, or with other data,
 * such as weak references, is disposed of as usual. Signal handlers are disconnected. Blocks in the
 * same cases as g_object_unref(). */
GPU_AVAILABLE_IN_0_1
void     _gpu_binding_recycle_buffer     (GpuBuffer *buffer,
                                          GQuark     retained);

/* Returns whether the library knows that the event has completed without an error. Takes no lock
 * and does not query the driver. */
GPU_AVAILABLE_IN_0_1
gboolean _gpu_binding_is_complete        (GpuEvent       *event);
/* Submits work without waiting for it. Returns FALSE, possibly with an error, on failure. */
typedef gboolean (*GpuBindingSubmitFunc) (gpointer   data,
                                          GError   **error);
/* Calls @submit. Sets @event to an event for the work that the calling thread submits to @stream
 * within @submit, or to NULL if this work has completed. For the host, the event fails if any of
 * this work fails, even if another thread gets the failure first, and also if work fails that
 * another thread submits to @stream between two submissions of @submit. gpu_stream_wait_event()
 * sees only a failure of the last submission. If @submit submits nothing to @stream, the event is
 * for all work of the stream. As in all calls that wait, the work cannot be captured or join a
 * capture. Returns FALSE, without an event, if @submit returns FALSE, if @stream is being captured,
 * or if no event can be recorded. */
GPU_AVAILABLE_IN_0_1
gboolean _gpu_binding_submit             (GpuStream             *stream,
                                          GpuBindingSubmitFunc   submit,
                                          gpointer               data,
                                          GpuEvent             **event,
                                          GError               **error);
/* Returns the intended access of the host, never %GPU_MAP_FLAGS_NONE. */
GPU_AVAILABLE_IN_0_1
GpuMapFlags _gpu_binding_get_map_flags   (GpuMapping     *mapping);
/* Reads all of an image into @size bytes at @data, in tightly packed rows, and waits. Returns FALSE
 * without an error, and without reading, if earlier work is pending on @stream, or on the default
 * stream for NULL. */
GPU_AVAILABLE_IN_0_1
gboolean _gpu_binding_try_read_image     (GpuImage       *image,
                                          GpuStream      *stream,
                                          gpointer        data,
                                          gsize           size,
                                          GError        **error);
/* Writes all of an image, like _gpu_binding_try_read_image(). */
GPU_AVAILABLE_IN_0_1
gboolean _gpu_binding_try_write_image    (GpuImage       *image,
                                          GpuStream      *stream,
                                          gconstpointer   data,
                                          gsize           size,
                                          GError        **error);
/* Returns whether a wait for the work that uses @memory would not block, because all of it has
 * completed, or because the wait fails at once. Returns FALSE for work that is being captured. May
 * query the driver. Does not block. */
GPU_AVAILABLE_IN_0_1
gboolean _gpu_binding_is_idle            (GpuMemory      *memory);
/* Returns whether _gpu_binding_wait_for_releases() may block. Takes no lock. */
GPU_AVAILABLE_IN_0_1
gboolean _gpu_binding_is_releasing       (void);
/* Waits until other threads have released the host memory of work whose completion is known to the
 * caller, such as the GBytes of a write: a wait for this work may return slightly earlier. Returns
 * at once on a thread that is releasing such memory. Call this function without a lock that the
 * #GDestroyNotify of a #GBytes takes. */
GPU_AVAILABLE_IN_0_1
void     _gpu_binding_wait_for_releases  (void);

G_END_DECLS

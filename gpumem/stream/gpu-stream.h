/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

#define GPU_TYPE_STREAM (gpu_stream_get_type ())

/**
 * GPU_STREAM_HANDLE_DEFAULT:
 *
 * CUDA's default stream, which is the legacy default stream. A handle for gpu_stream_new_wrapped().
 *
 * Since: 0.1
 */
#define GPU_STREAM_HANDLE_DEFAULT 0

/**
 * GPU_STREAM_HANDLE_LEGACY:
 *
 * CUDA's legacy default stream. It waits for all streams without %GPU_STREAM_FLAGS_NON_BLOCKING,
 * and those streams wait for it. A handle for gpu_stream_new_wrapped().
 *
 * Since: 0.1
 */
#define GPU_STREAM_HANDLE_LEGACY 1

/**
 * GPU_STREAM_HANDLE_PER_THREAD:
 *
 * CUDA's per-thread default stream: each thread submits to a stream of its own. A handle for
 * gpu_stream_new_wrapped(). gpu_stream_is_idle() checks the work that all threads submitted through
 * the library. It checks work that the program submitted directly only for the calling thread.
 *
 * Since: 0.1
 */
#define GPU_STREAM_HANDLE_PER_THREAD 2

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuStream, gpu_stream, GPU, STREAM, GObject)

GPU_AVAILABLE_IN_0_1
GpuStream      *gpu_stream_new                   (GpuContext           *context,
                                                  GpuStreamFlags        flags,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
GpuStream      *gpu_stream_new_full              (GpuContext           *context,
                                                  GpuDevice            *device,
                                                  GpuStreamFlags        flags,
                                                  int                   priority,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
GpuStream      *gpu_stream_new_wrapped           (GpuContext           *context,
                                                  guint64               handle,
                                                  GpuWrapMode           mode,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
GpuContext     *gpu_stream_get_context           (GpuStream            *stream);
GPU_AVAILABLE_IN_0_1
int             gpu_stream_get_priority          (GpuStream            *stream);
GPU_AVAILABLE_IN_0_1
guint64         gpu_stream_get_native_handle     (GpuStream            *stream);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_equal                 (GpuStream            *a,
                                                  GpuStream            *b);
GPU_AVAILABLE_IN_0_1
guint           gpu_stream_hash                  (GpuStream            *stream);

GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_copy                  (GpuStream            *stream,
                                                  GpuMemory            *destination,
                                                  gsize                 destination_offset,
                                                  GpuMemory            *source,
                                                  gsize                 source_offset,
                                                  gsize                 size,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_copy_batch            (GpuStream            *stream,
                                                  GpuMemory           **memories,
                                                  gsize                 n_memories,
                                                  const guint64        *ranges,
                                                  gsize                 n_ranges,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_copy_region           (GpuStream            *stream,
                                                  GpuMemory            *destination,
                                                  const GpuLayout      *destination_layout,
                                                  GpuMemory            *source,
                                                  const GpuLayout      *source_layout,
                                                  const GpuExtent      *extent,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_write                 (GpuStream            *stream,
                                                  GpuMemory            *destination,
                                                  gsize                 offset,
                                                  GBytes               *bytes,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_write_region          (GpuStream            *stream,
                                                  GpuMemory            *destination,
                                                  const GpuLayout      *destination_layout,
                                                  GBytes               *bytes,
                                                  const GpuLayout      *bytes_layout,
                                                  const GpuExtent      *extent,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_read                  (GpuStream            *stream,
                                                  GpuMemory            *source,
                                                  gsize                 offset,
                                                  gpointer              data,
                                                  gsize                 size,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
GBytes         *gpu_stream_read_bytes            (GpuStream            *stream,
                                                  GpuMemory            *source,
                                                  gsize                 offset,
                                                  gsize                 size,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_read_into             (GpuStream            *stream,
                                                  GpuMemory            *source,
                                                  gsize                 offset,
                                                  GBytes               *bytes,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
GBytes         *gpu_stream_read_region           (GpuStream            *stream,
                                                  GpuMemory            *source,
                                                  const GpuLayout      *source_layout,
                                                  const GpuExtent      *extent,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_read_region_into      (GpuStream            *stream,
                                                  GpuMemory            *source,
                                                  const GpuLayout      *source_layout,
                                                  GBytes               *bytes,
                                                  const GpuLayout      *bytes_layout,
                                                  const GpuExtent      *extent,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_fill                  (GpuStream            *stream,
                                                  GpuMemory            *destination,
                                                  gsize                 offset,
                                                  gsize                 size,
                                                  gconstpointer         pattern,
                                                  gsize                 pattern_size,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_fill_region           (GpuStream            *stream,
                                                  GpuMemory            *destination,
                                                  const GpuLayout      *layout,
                                                  const GpuExtent      *extent,
                                                  gconstpointer         pattern,
                                                  gsize                 pattern_size,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_fill_image            (GpuStream            *stream,
                                                  GpuImage             *image,
                                                  const GpuColor       *color,
                                                  const GpuLayout      *layout,
                                                  const GpuExtent      *extent,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_copy_array            (GpuStream            *stream,
                                                  GpuArray             *destination,
                                                  GpuArray             *source,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_take_rows             (GpuStream            *stream,
                                                  GpuArray             *destination,
                                                  GpuArray             *source,
                                                  const gint64         *rows,
                                                  gsize                 n_rows,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_put_rows              (GpuStream            *stream,
                                                  GpuArray             *destination,
                                                  GpuArray             *source,
                                                  const gint64         *rows,
                                                  gsize                 n_rows,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_fill_array            (GpuStream            *stream,
                                                  GpuArray             *array,
                                                  GBytes               *value,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_write_array           (GpuStream            *stream,
                                                  GpuArray             *array,
                                                  GBytes               *bytes,
                                                  gsize                 offset,
                                                  const gssize         *strides,
                                                  guint                 n_strides,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_read_array            (GpuStream            *stream,
                                                  GpuArray             *array,
                                                  GBytes               *bytes,
                                                  gsize                 offset,
                                                  const gssize         *strides,
                                                  guint                 n_strides,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_wait_array            (GpuStream            *stream,
                                                  GpuArray             *array,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_migrate               (GpuStream            *stream,
                                                  GpuMemory           **memories,
                                                  gsize                 n_memories,
                                                  GpuMigrateFlags       flags,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
GpuMapping     *gpu_stream_map                   (GpuStream            *stream,
                                                  GpuMemory            *memory,
                                                  GpuMapFlags           flags,
                                                  gsize                 offset,
                                                  gsize                 size,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
GpuMapping     *gpu_stream_map_image             (GpuStream            *stream,
                                                  GpuImage             *image,
                                                  GpuMapFlags           flags,
                                                  const GpuLayout      *layout,
                                                  const GpuExtent      *extent,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_launch                (GpuStream            *stream,
                                                  GpuKernel            *kernel,
                                                  const GpuExtent      *grid,
                                                  const GpuExtent      *block,
                                                  GError              **error,
                                                  ...);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_launch_arguments      (GpuStream            *stream,
                                                  GpuKernel            *kernel,
                                                  const GpuExtent      *grid,
                                                  const GpuExtent      *block,
                                                  GpuArguments         *arguments,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_launch_prepared       (GpuStream            *stream,
                                                  GpuLaunch            *launch,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
GpuEvent       *gpu_stream_launch_timed          (GpuStream            *stream,
                                                  GpuLaunch            *launch,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_wait_event            (GpuStream            *stream,
                                                  GpuEvent             *event,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_barrier               (GpuStream            *stream,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
GpuEvent       *gpu_stream_record                (GpuStream            *stream,
                                                  GpuEventFlags         flags,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_flush                 (GpuStream            *stream,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_is_idle               (GpuStream            *stream,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_synchronize           (GpuStream            *stream,
                                                  GCancellable         *cancellable,
                                                  GError              **error);
GPU_AVAILABLE_IN_0_1
void            gpu_stream_synchronize_async     (GpuStream            *stream,
                                                  GCancellable         *cancellable,
                                                  GAsyncReadyCallback   callback,
                                                  gpointer              user_data);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_stream_synchronize_finish    (GpuStream            *stream,
                                                  GAsyncResult         *result,
                                                  GError              **error);

/* gpu_stream_launch() checks that its variable arguments end with these two random values, because
 * a C function cannot determine the number of its arguments. */
#define _GPU_ARGUMENTS_END_INTEGER G_GUINT64_CONSTANT (0xa4bfdacda9a38a90)
#define _GPU_ARGUMENTS_END_REAL    1.5465140538444657e-113

#ifndef __GTK_DOC_IGNORE__
#define gpu_stream_launch(...) \
  gpu_stream_launch (__VA_ARGS__, _GPU_ARGUMENTS_END_INTEGER, _GPU_ARGUMENTS_END_REAL)
#endif

G_END_DECLS

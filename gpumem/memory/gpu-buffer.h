/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/memory/gpu-memory.h>

G_BEGIN_DECLS

#define GPU_TYPE_BUFFER (gpu_buffer_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuBuffer, gpu_buffer, GPU, BUFFER, GpuMemory)

GPU_AVAILABLE_IN_0_1
GpuBuffer  *gpu_buffer_new                (GpuContext           *context,
                                           GpuMemoryFlags        flags,
                                           gsize                 size,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
GpuBuffer  *gpu_buffer_new_from_bytes     (GpuContext           *context,
                                           GpuMemoryFlags        flags,
                                           GBytes               *bytes,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
GpuBuffer  *gpu_buffer_new_for_host_bytes (GpuContext           *context,
                                           GpuMemoryFlags        flags,
                                           GBytes               *bytes,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
GpuBuffer  *gpu_buffer_new_pitched        (GpuContext           *context,
                                           GpuMemoryFlags        flags,
                                           gsize                 row_size,
                                           gsize                 n_rows,
                                           gsize                 element_size,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
GpuBuffer  *gpu_buffer_new_wrapped        (GpuContext           *context,
                                           guint64               handle,
                                           gsize                 size,
                                           GpuWrapMode           mode,
                                           GBytes               *owner,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
GpuBuffer  *gpu_buffer_new_on_stream      (GpuStream            *stream,
                                           GpuMemoryFlags        flags,
                                           gsize                 size,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
GpuBuffer  *gpu_buffer_new_from_handle    (GpuContext           *context,
                                           GBytes               *handle,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
GpuBuffer  *gpu_buffer_new_from_fds       (GpuContext           *context,
                                           GBytes               *handle,
                                           GUnixFDList          *fds,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
GBytes     *gpu_buffer_export_handle      (GpuBuffer            *buffer,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
GBytes     *gpu_buffer_export_fds         (GpuBuffer            *buffer,
                                           GUnixFDList          *fds,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
gint        gpu_buffer_export_fd          (GpuBuffer            *buffer,
                                           GpuFdKinds            kind,
                                           gsize                *whole_size,
                                           gsize                *offset,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
GpuBuffer  *gpu_buffer_new_from_fd        (GpuContext           *context,
                                           GpuMemoryFlags        flags,
                                           GpuFdKinds            kind,
                                           gint                  fd,
                                           gsize                 whole_size,
                                           gsize                 offset,
                                           gsize                 size,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
GpuBuffer  *gpu_buffer_slice              (GpuBuffer            *buffer,
                                           gsize                 offset,
                                           gsize                 size,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
GpuBuffer  *gpu_buffer_slice_full         (GpuBuffer            *buffer,
                                           GpuMemoryFlags        flags,
                                           gsize                 offset,
                                           gsize                 size,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
GpuBuffer  *gpu_buffer_new_for_memory     (GpuMemory            *memory,
                                           gsize                 offset,
                                           gsize                 size,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
GpuBuffer  *gpu_buffer_get_parent         (GpuBuffer            *buffer);
GPU_AVAILABLE_IN_0_1
GpuMemory  *gpu_buffer_get_memory         (GpuBuffer            *buffer);
GPU_AVAILABLE_IN_0_1
gsize       gpu_buffer_get_offset         (GpuBuffer            *buffer);
GPU_AVAILABLE_IN_0_1
gsize       gpu_buffer_get_row_pitch      (GpuBuffer            *buffer);

GPU_AVAILABLE_IN_0_1
gboolean    gpu_buffer_spill              (GpuBuffer            *buffer,
                                           GpuStream            *stream,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_buffer_unspill            (GpuBuffer            *buffer,
                                           GpuStream            *stream,
                                           GError              **error);

GPU_AVAILABLE_IN_0_1
gboolean    gpu_buffer_read               (GpuBuffer            *buffer,
                                           GpuStream            *stream,
                                           gsize                 offset,
                                           gpointer              data,
                                           gsize                 size,
                                           GCancellable         *cancellable,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_buffer_write              (GpuBuffer            *buffer,
                                           GpuStream            *stream,
                                           gsize                 offset,
                                           gconstpointer         data,
                                           gsize                 size,
                                           GCancellable         *cancellable,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_buffer_try_read_address   (GpuBuffer            *buffer,
                                           GpuStream            *stream,
                                           gsize                 offset,
                                           guint64               address,
                                           gsize                 size,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_buffer_try_write_address  (GpuBuffer            *buffer,
                                           GpuStream            *stream,
                                           gsize                 offset,
                                           guint64               address,
                                           gsize                 size,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
GBytes     *gpu_bytes_new_for_address     (guint64               address,
                                           gsize                 size,
                                           GMainContext         *context,
                                           GSourceOnceFunc       released,
                                           gpointer              user_data,
                                           GError              **error);

GPU_AVAILABLE_IN_0_1
GBytes     *gpu_buffer_read_bytes         (GpuBuffer            *buffer,
                                           GpuStream            *stream,
                                           gsize                 offset,
                                           gsize                 size,
                                           GCancellable         *cancellable,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
void        gpu_buffer_read_bytes_async   (GpuBuffer            *buffer,
                                           GpuStream            *stream,
                                           gsize                 offset,
                                           gsize                 size,
                                           GCancellable         *cancellable,
                                           GFileProgressCallback progress_callback,
                                           gpointer              progress_data,
                                           GDestroyNotify        progress_notify,
                                           GAsyncReadyCallback   callback,
                                           gpointer              user_data);
GPU_AVAILABLE_IN_0_1
GBytes     *gpu_buffer_read_bytes_finish  (GpuBuffer            *buffer,
                                           GAsyncResult         *result,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_buffer_write_bytes        (GpuBuffer            *buffer,
                                           GpuStream            *stream,
                                           gsize                 offset,
                                           GBytes               *bytes,
                                           GCancellable         *cancellable,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
void        gpu_buffer_write_bytes_async  (GpuBuffer            *buffer,
                                           GpuStream            *stream,
                                           gsize                 offset,
                                           GBytes               *bytes,
                                           GCancellable         *cancellable,
                                           GFileProgressCallback progress_callback,
                                           gpointer              progress_data,
                                           GDestroyNotify        progress_notify,
                                           GAsyncReadyCallback   callback,
                                           gpointer              user_data);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_buffer_write_bytes_finish (GpuBuffer            *buffer,
                                           GAsyncResult         *result,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_buffer_fill               (GpuBuffer            *buffer,
                                           GpuStream            *stream,
                                           gsize                 offset,
                                           gsize                 size,
                                           gconstpointer         pattern,
                                           gsize                 pattern_size,
                                           GCancellable         *cancellable,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_buffer_copy               (GpuBuffer            *buffer,
                                           GpuStream            *stream,
                                           gsize                 offset,
                                           GpuBuffer            *source,
                                           gsize                 source_offset,
                                           gsize                 size,
                                           GCancellable         *cancellable,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
void        gpu_buffer_copy_async         (GpuBuffer            *buffer,
                                           GpuStream            *stream,
                                           gsize                 offset,
                                           GpuBuffer            *source,
                                           gsize                 source_offset,
                                           gsize                 size,
                                           GCancellable         *cancellable,
                                           GAsyncReadyCallback   callback,
                                           gpointer              user_data);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_buffer_copy_finish        (GpuBuffer            *buffer,
                                           GAsyncResult         *result,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
GpuMapping *gpu_buffer_map                (GpuBuffer            *buffer,
                                           GpuStream            *stream,
                                           GpuMapFlags           flags,
                                           gsize                 offset,
                                           gsize                 size,
                                           GCancellable         *cancellable,
                                           GError              **error);
GPU_AVAILABLE_IN_0_1
void        gpu_buffer_map_async          (GpuBuffer            *buffer,
                                           GpuStream            *stream,
                                           GpuMapFlags           flags,
                                           gsize                 offset,
                                           gsize                 size,
                                           GCancellable         *cancellable,
                                           GAsyncReadyCallback   callback,
                                           gpointer              user_data);
GPU_AVAILABLE_IN_0_1
GpuMapping *gpu_buffer_map_finish         (GpuBuffer            *buffer,
                                           GAsyncResult         *result,
                                           GError              **error);

G_END_DECLS

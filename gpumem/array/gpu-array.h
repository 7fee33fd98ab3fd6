/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

#define GPU_TYPE_ARRAY (gpu_array_get_type ())

/**
 * GPU_ARRAY_MAX_DIMS:
 *
 * The maximum number of dimensions of a #GpuArray.
 *
 * Since: 0.1
 */
#define GPU_ARRAY_MAX_DIMS 32

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuArray, gpu_array, GPU, ARRAY, GObject)

GPU_AVAILABLE_IN_0_1
GpuArray     *gpu_array_new                  (GpuContext           *context,
                                              GpuDType             *dtype,
                                              const gssize         *shape,
                                              guint                 n_dims,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GpuArray     *gpu_array_new_full             (GpuContext           *context,
                                              GpuAllocator         *allocator,
                                              GpuStream            *stream,
                                              GpuDType             *dtype,
                                              const gssize         *shape,
                                              guint                 n_dims,
                                              GpuArrayOrder         order,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GpuArray     *gpu_array_new_filled           (GpuContext           *context,
                                              GpuAllocator         *allocator,
                                              GpuStream            *stream,
                                              GpuDType             *dtype,
                                              const gssize         *shape,
                                              guint                 n_dims,
                                              GpuArrayOrder         order,
                                              GBytes               *value,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GpuArray     *gpu_array_new_from_bytes       (GpuContext           *context,
                                              GpuAllocator         *allocator,
                                              GpuStream            *stream,
                                              GpuDType             *dtype,
                                              const gssize         *shape,
                                              guint                 n_dims,
                                              GpuArrayOrder         order,
                                              GBytes               *bytes,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GpuArray     *gpu_array_new_for_memory       (GpuMemory            *memory,
                                              gsize                 offset,
                                              GpuDType             *dtype,
                                              const gssize         *shape,
                                              guint                 n_dims,
                                              const gssize         *strides,
                                              guint                 n_strides,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GpuArray     *gpu_array_new_like             (GpuArray             *array,
                                              GpuAllocator         *allocator,
                                              GpuStream            *stream,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GpuArray     *gpu_array_copy                 (GpuArray             *array,
                                              GpuAllocator         *allocator,
                                              GpuStream            *stream,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GpuContext   *gpu_array_get_context          (GpuArray             *array);

GPU_AVAILABLE_IN_0_1
GpuMemory    *gpu_array_get_memory           (GpuArray             *array);
GPU_AVAILABLE_IN_0_1
GpuDType     *gpu_array_get_dtype            (GpuArray             *array);
GPU_AVAILABLE_IN_0_1
guint         gpu_array_get_n_dims           (GpuArray             *array);
GPU_AVAILABLE_IN_0_1
const gssize *gpu_array_get_shape            (GpuArray             *array,
                                              guint                *n_dims);
GPU_AVAILABLE_IN_0_1
const gssize *gpu_array_get_strides          (GpuArray             *array,
                                              guint                *n_dims);
GPU_AVAILABLE_IN_0_1
gsize         gpu_array_get_offset           (GpuArray             *array);
GPU_AVAILABLE_IN_0_1
gsize         gpu_array_get_n_elements       (GpuArray             *array);
GPU_AVAILABLE_IN_0_1
gsize         gpu_array_get_size             (GpuArray             *array);
GPU_AVAILABLE_IN_0_1
void          gpu_array_get_range            (GpuArray             *array,
                                              gsize                *offset,
                                              gsize                *size);
GPU_AVAILABLE_IN_0_1
gboolean      gpu_array_is_contiguous        (GpuArray             *array,
                                              GpuArrayOrder         order);
GPU_AVAILABLE_IN_0_1
gboolean      gpu_array_is_writable          (GpuArray             *array);
GPU_AVAILABLE_IN_0_1
guint64       gpu_array_get_device_address   (GpuArray             *array);
GPU_AVAILABLE_IN_0_1
guint64       gpu_array_get_host_address     (GpuArray             *array);
GPU_AVAILABLE_IN_0_1
GBytes       *gpu_array_get_host_bytes       (GpuArray             *array);
GPU_AVAILABLE_IN_0_1
GBytes       *gpu_array_get_descriptor       (GpuArray             *array,
                                              GError              **error);

GPU_AVAILABLE_IN_0_1
GpuArray     *gpu_array_slice                (GpuArray             *array,
                                              guint                 axis,
                                              gssize                start,
                                              gssize                stop,
                                              gssize                step,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GpuArray     *gpu_array_index                (GpuArray             *array,
                                              guint                 axis,
                                              gssize                index,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GpuArray     *gpu_array_insert_axis          (GpuArray             *array,
                                              guint                 axis,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GpuArray     *gpu_array_reshape              (GpuArray             *array,
                                              const gssize         *shape,
                                              guint                 n_dims,
                                              GpuArrayOrder         order,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GpuArray     *gpu_array_ravel                (GpuArray             *array,
                                              GpuArrayOrder         order,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GpuArray     *gpu_array_transpose            (GpuArray             *array,
                                              const guint          *axes,
                                              guint                 n_axes,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GpuArray     *gpu_array_broadcast            (GpuArray             *array,
                                              const gssize         *shape,
                                              guint                 n_dims,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GPtrArray    *gpu_array_split                (GpuArray             *array,
                                              guint                 axis,
                                              gssize                length,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GpuArray     *gpu_array_view                 (GpuArray             *array,
                                              GpuDType             *dtype,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GpuArray     *gpu_array_get_field            (GpuArray             *array,
                                              const char           *name,
                                              GError              **error);

GPU_AVAILABLE_IN_0_1
GBytes       *gpu_array_read_bytes           (GpuArray             *array,
                                              GpuStream            *stream,
                                              GpuArrayOrder         order,
                                              GCancellable         *cancellable,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
void          gpu_array_read_bytes_async     (GpuArray             *array,
                                              GpuStream            *stream,
                                              GpuArrayOrder         order,
                                              GCancellable         *cancellable,
                                              GAsyncReadyCallback   callback,
                                              gpointer              user_data);
GPU_AVAILABLE_IN_0_1
GBytes       *gpu_array_read_bytes_finish    (GpuArray             *array,
                                              GAsyncResult         *result,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean      gpu_array_read_strided         (GpuArray             *array,
                                              GpuStream            *stream,
                                              GBytes               *bytes,
                                              gsize                 offset,
                                              const gssize         *strides,
                                              guint                 n_strides,
                                              GCancellable         *cancellable,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
void          gpu_array_read_strided_async   (GpuArray             *array,
                                              GpuStream            *stream,
                                              GBytes               *bytes,
                                              gsize                 offset,
                                              const gssize         *strides,
                                              guint                 n_strides,
                                              GCancellable         *cancellable,
                                              GAsyncReadyCallback   callback,
                                              gpointer              user_data);
GPU_AVAILABLE_IN_0_1
gboolean      gpu_array_read_strided_finish  (GpuArray             *array,
                                              GAsyncResult         *result,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean      gpu_array_write_bytes          (GpuArray             *array,
                                              GpuStream            *stream,
                                              GpuArrayOrder         order,
                                              GBytes               *bytes,
                                              GCancellable         *cancellable,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
void          gpu_array_write_bytes_async    (GpuArray             *array,
                                              GpuStream            *stream,
                                              GpuArrayOrder         order,
                                              GBytes               *bytes,
                                              GCancellable         *cancellable,
                                              GAsyncReadyCallback   callback,
                                              gpointer              user_data);
GPU_AVAILABLE_IN_0_1
gboolean      gpu_array_write_bytes_finish   (GpuArray             *array,
                                              GAsyncResult         *result,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
gboolean      gpu_array_write_strided        (GpuArray             *array,
                                              GpuStream            *stream,
                                              GBytes               *bytes,
                                              gsize                 offset,
                                              const gssize         *strides,
                                              guint                 n_strides,
                                              GCancellable         *cancellable,
                                              GError              **error);

GPU_AVAILABLE_IN_0_1
gboolean      gpu_array_get_dlpack_device    (GpuArray             *array,
                                              int                  *device_type,
                                              int                  *device_id);
GPU_AVAILABLE_IN_0_1
gpointer      gpu_array_to_dlpack            (GpuArray             *array,
                                              gboolean              versioned,
                                              gboolean              copied,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
GpuArray     *gpu_array_new_from_dlpack      (GpuContext           *context,
                                              gpointer              tensor,
                                              gboolean              versioned,
                                              GError              **error);
GPU_AVAILABLE_IN_0_1
void          gpu_dlpack_free                (gpointer              tensor,
                                              gboolean              versioned);

G_END_DECLS

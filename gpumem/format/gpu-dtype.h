/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

#define GPU_TYPE_DTYPE (gpu_dtype_get_type ())

/* Borrowed references, valid for the lifetime of the process */
#define GPU_DTYPE_BOOL       (gpu_dtype_get_number (GPU_DTYPE_KIND_BOOL, 1))
#define GPU_DTYPE_INT8       (gpu_dtype_get_number (GPU_DTYPE_KIND_INT, 1))
#define GPU_DTYPE_INT16      (gpu_dtype_get_number (GPU_DTYPE_KIND_INT, 2))
#define GPU_DTYPE_INT32      (gpu_dtype_get_number (GPU_DTYPE_KIND_INT, 4))
#define GPU_DTYPE_INT64      (gpu_dtype_get_number (GPU_DTYPE_KIND_INT, 8))
#define GPU_DTYPE_UINT8      (gpu_dtype_get_number (GPU_DTYPE_KIND_UINT, 1))
#define GPU_DTYPE_UINT16     (gpu_dtype_get_number (GPU_DTYPE_KIND_UINT, 2))
#define GPU_DTYPE_UINT32     (gpu_dtype_get_number (GPU_DTYPE_KIND_UINT, 4))
#define GPU_DTYPE_UINT64     (gpu_dtype_get_number (GPU_DTYPE_KIND_UINT, 8))
#define GPU_DTYPE_FLOAT16    (gpu_dtype_get_number (GPU_DTYPE_KIND_FLOAT, 2))
#define GPU_DTYPE_FLOAT32    (gpu_dtype_get_number (GPU_DTYPE_KIND_FLOAT, 4))
#define GPU_DTYPE_FLOAT64    (gpu_dtype_get_number (GPU_DTYPE_KIND_FLOAT, 8))
#define GPU_DTYPE_BFLOAT16   (gpu_dtype_get_number (GPU_DTYPE_KIND_BFLOAT, 2))
#define GPU_DTYPE_COMPLEX64  (gpu_dtype_get_number (GPU_DTYPE_KIND_COMPLEX, 8))
#define GPU_DTYPE_COMPLEX128 (gpu_dtype_get_number (GPU_DTYPE_KIND_COMPLEX, 16))

GPU_AVAILABLE_IN_0_1
GType         gpu_dtype_get_type         (void) G_GNUC_CONST;
GPU_AVAILABLE_IN_0_1
GpuDType     *gpu_dtype_get_number       (GpuDTypeKind        kind,
                                          gsize               item_size);
GPU_AVAILABLE_IN_0_1
GpuDType     *gpu_dtype_new              (GpuDTypeKind        kind,
                                          gsize               item_size,
                                          GError            **error);
GPU_AVAILABLE_IN_0_1
GpuDType     *gpu_dtype_new_record       (gsize               item_size,
                                          GError            **error);
GPU_AVAILABLE_IN_0_1
GpuDType     *gpu_dtype_add_field        (GpuDType           *dtype,
                                          const char         *name,
                                          GpuDType           *type,
                                          gsize               offset,
                                          const gssize       *shape,
                                          guint               n_dims,
                                          GError            **error);
GPU_AVAILABLE_IN_0_1
GpuDType     *gpu_dtype_new_from_string  (const char         *text,
                                          GError            **error);
GPU_AVAILABLE_IN_0_1
GpuDType     *gpu_dtype_new_from_format  (const char         *format,
                                          GError            **error);
GPU_AVAILABLE_IN_0_1
GpuDType     *gpu_dtype_ref              (GpuDType           *dtype);
GPU_AVAILABLE_IN_0_1
void          gpu_dtype_unref            (GpuDType           *dtype);
GPU_AVAILABLE_IN_0_1
GpuDTypeKind  gpu_dtype_get_kind         (GpuDType           *dtype);
GPU_AVAILABLE_IN_0_1
gsize         gpu_dtype_get_item_size    (GpuDType           *dtype);
GPU_AVAILABLE_IN_0_1
char         *gpu_dtype_get_name         (GpuDType           *dtype);
GPU_AVAILABLE_IN_0_1
char         *gpu_dtype_to_string        (GpuDType           *dtype);
GPU_AVAILABLE_IN_0_1
char         *gpu_dtype_to_format        (GpuDType           *dtype);
GPU_AVAILABLE_IN_0_1
guint         gpu_dtype_get_n_fields     (GpuDType           *dtype);
GPU_AVAILABLE_IN_0_1
const char   *gpu_dtype_get_field_name   (GpuDType           *dtype,
                                          guint               index);
GPU_AVAILABLE_IN_0_1
GpuDType     *gpu_dtype_get_field_type   (GpuDType           *dtype,
                                          guint               index);
GPU_AVAILABLE_IN_0_1
gsize         gpu_dtype_get_field_offset (GpuDType           *dtype,
                                          guint               index);
GPU_AVAILABLE_IN_0_1
const gssize *gpu_dtype_get_field_shape  (GpuDType           *dtype,
                                          guint               index,
                                          guint              *n_dims);
GPU_AVAILABLE_IN_0_1
int           gpu_dtype_find_field       (GpuDType           *dtype,
                                          const char         *name);
GPU_AVAILABLE_IN_0_1
gboolean      gpu_dtype_equal            (GpuDType           *a,
                                          GpuDType           *b);
GPU_AVAILABLE_IN_0_1
guint         gpu_dtype_hash             (GpuDType           *dtype);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuDType, gpu_dtype_unref)

G_END_DECLS

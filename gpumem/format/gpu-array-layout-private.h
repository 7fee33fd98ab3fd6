/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shapes and strides of arrays: pure computations, without memory. */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

/* The positions of the elements of an array in its memory. Strides are in bytes, and may be
 * negative or 0. */
typedef struct
{
  guint  n_dims;
  gsize  item_size;
  gsize  offset;                    /* of the element whose indices are all 0, in bytes */
  gssize shape[GPU_ARRAY_MAX_DIMS];
  gssize strides[GPU_ARRAY_MAX_DIMS];
} GpuArrayLayout;

/* If a function with @error fails, the error message begins with @function, and the layout is
 * unchanged. */

/* Sets @layout to an array without gaps at offset 0. */
gboolean _gpu_array_layout_init         (GpuArrayLayout        *layout,
                                         const gssize          *shape,
                                         guint                  n_dims,
                                         gsize                  item_size,
                                         GpuArrayOrder          order,
                                         const char            *function,
                                         GError               **error);
gsize    _gpu_array_layout_get_n_elements (const GpuArrayLayout *layout);
/* Returns the size of the elements in bytes, without the gaps between them. */
gsize    _gpu_array_layout_get_size     (const GpuArrayLayout  *layout);
/* Sets @begin to the lowest offset of any byte of an element, and @end to the offset after the
 * highest. Returns FALSE if an offset is negative or exceeds the address space. */
gboolean _gpu_array_layout_get_range    (const GpuArrayLayout  *layout,
                                         gsize                 *begin,
                                         gsize                 *end);
gboolean _gpu_array_layout_is_contiguous (const GpuArrayLayout *layout,
                                         GpuArrayOrder          order);
gboolean _gpu_array_layout_same_shape   (const GpuArrayLayout  *a,
                                         const GpuArrayLayout  *b);
/* Returns FALSE if no two elements share a byte, because each stride is at least the extent in
 * bytes of all dimensions with shorter strides. Otherwise returns TRUE: elements may share
 * bytes. */
gboolean _gpu_array_layout_may_overlap  (const GpuArrayLayout  *layout);
/* Returns TRUE only if two elements are known to share a byte. FALSE is exact except for layouts
 * of many dimensions, for which the search ends early. */
gboolean _gpu_array_layout_overlaps     (const GpuArrayLayout  *layout);
/* Formats @numbers as "(2, 3)". */
char    *_gpu_array_numbers_to_string   (const gssize          *numbers,
                                         guint                  n);
/* Sets @packed to a layout of the same shape without gaps. The dimensions of @packed, sorted by the
 * length of their strides, have the same order as those of @layout. A dimension with the stride 0
 * keeps this stride, so its elements are stored once. */
void     _gpu_array_layout_pack         (const GpuArrayLayout  *layout,
                                         GpuArrayLayout        *packed);

gboolean _gpu_array_layout_slice        (GpuArrayLayout        *layout,
                                         guint                  axis,
                                         gssize                 start,
                                         gssize                 stop,
                                         gssize                 step,
                                         const char            *function,
                                         GError               **error);
gboolean _gpu_array_layout_index        (GpuArrayLayout        *layout,
                                         guint                  axis,
                                         gssize                 index,
                                         const char            *function,
                                         GError               **error);
gboolean _gpu_array_layout_insert_axis  (GpuArrayLayout        *layout,
                                         guint                  axis,
                                         const char            *function,
                                         GError               **error);
gboolean _gpu_array_layout_permute      (GpuArrayLayout        *layout,
                                         const guint           *axes,
                                         guint                  n_axes,
                                         const char            *function,
                                         GError               **error);
gboolean _gpu_array_layout_broadcast    (GpuArrayLayout        *layout,
                                         const gssize          *shape,
                                         guint                  n_dims,
                                         const char            *function,
                                         GError               **error);
gboolean _gpu_array_layout_reshape      (GpuArrayLayout        *layout,
                                         const gssize          *shape,
                                         guint                  n_dims,
                                         GpuArrayOrder          order,
                                         const char            *function,
                                         GError               **error);

G_END_DECLS

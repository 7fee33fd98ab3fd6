/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/format/gpu-array-layout-private.h"

G_BEGIN_DECLS

/* Immutable. */
struct _GpuArray
{
  GObject         parent_instance;

  GpuContext     *context;          /* NULL if never initialised */
  GpuMemory      *memory;           /* NULL for no elements */
  GpuDType       *dtype;
  GpuArrayLayout  layout;           /* of the elements in `memory` */
  /* Two elements of this array, or of an array that it views, are known to share bytes. Views
   * inherit this: a write through the view would change several elements of the other array. */
  gboolean        overlaps;
  /* The array cannot be written: `overlaps` is TRUE, or elements of this array may share bytes. */
  gboolean        shares_bytes;
};

GpuArray *_gpu_array_new   (GpuContext            *context,
                            GpuMemory             *memory,
                            GpuDType              *dtype,
                            const GpuArrayLayout  *layout);
/* Creates an array with the shape and the order of dimensions of @array, with positive strides and
 * without gaps. */
GpuArray *_gpu_array_new_like (GpuArray               *array,
                            GpuContext            *context,
                            GpuAllocator          *allocator,
                            GpuStream             *stream,
                            const char            *function,
                            GError               **error);
/* Returns FALSE if @array was never initialised. */
gboolean  _gpu_array_check (GpuArray              *array,
                            const char            *function,
                            GError               **error);
/* Gets the layout of the elements of @array in host memory, without gaps between them. */
gboolean  _gpu_array_get_dense_layout (GpuArray           *array,
                                      GpuArrayOrder         order,
                                      const char           *function,
                                      GpuArrayLayout       *layout,
                                      GError              **error);
/* Gets the layout of host memory with @strides, or in C order if @n_strides is 0. Returns FALSE if
 * elements are outside of the @size bytes, or @n_strides does not match the shape. */
gboolean  _gpu_array_get_host_layout (GpuArray              *array,
                                      gsize                  size,
                                      gsize                  offset,
                                      const gssize          *strides,
                                      guint                  n_strides,
                                      const char            *function,
                                      GpuArrayLayout        *layout,
                                      GError               **error);

G_END_DECLS

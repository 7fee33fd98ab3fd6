/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/allocator/gpu-basic-allocator.h>

G_BEGIN_DECLS

/**
 * GpuExternalAllocFunc:
 * @size: size in bytes, not 0
 * @stream: (nullable): the stream of the request, or %NULL
 * @user_data: the data passed to gpu_external_allocator_new()
 * @error: return location for an error
 *
 * Allocates memory. Called by gpu_allocator_alloc(), on the calling thread.
 *
 * Returns: a handle for gpu_buffer_new_wrapped(): a cl_mem on OpenCL, a CUdeviceptr on CUDA, an
 *   address on the host back end; or 0 with an error, such as %GPU_ERROR_OUT_OF_DEVICE_MEMORY
 *
 * Since: 0.1
 */
typedef guint64 (*GpuExternalAllocFunc) (gsize       size,
                                         GpuStream  *stream,
                                         gpointer    user_data,
                                         GError    **error);

/**
 * GpuExternalFreeFunc:
 * @handle: the handle that the #GpuExternalAllocFunc returned
 * @size: size in bytes
 * @user_data: the data passed to gpu_external_allocator_new()
 *
 * Frees memory that neither the program nor submitted work uses any more. Called once for each
 * allocation, on any thread.
 *
 * Since: 0.1
 */
typedef void (*GpuExternalFreeFunc) (guint64  handle,
                                     gsize    size,
                                     gpointer user_data);

#define GPU_TYPE_EXTERNAL_ALLOCATOR (gpu_external_allocator_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuExternalAllocator, gpu_external_allocator, GPU, EXTERNAL_ALLOCATOR,
                      GpuBasicAllocator)

GPU_AVAILABLE_IN_0_1
GpuExternalAllocator *gpu_external_allocator_new (GpuContext            *context,
                                                  GpuExternalAllocFunc   alloc_func,
                                                  gpointer               alloc_data,
                                                  GDestroyNotify         alloc_notify,
                                                  GpuExternalFreeFunc    free_func,
                                                  gpointer               free_data,
                                                  GDestroyNotify         free_notify,
                                                  GError               **error);

G_END_DECLS

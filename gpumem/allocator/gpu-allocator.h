/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/memory/gpu-memory.h>

G_BEGIN_DECLS

#define GPU_TYPE_ALLOCATOR (gpu_allocator_get_type ())

GPU_AVAILABLE_IN_0_1
G_DECLARE_INTERFACE (GpuAllocator, gpu_allocator, GPU, ALLOCATOR, GObject)

struct _GpuAllocatorInterface
{
  /*< private >*/
  GTypeInterface parent_iface;

  /*< public >*/
  GpuMemory  *(*alloc)           (GpuAllocator  *allocator,
                                  gsize          size,
                                  GpuStream     *stream,
                                  GError       **error);
  void        (*free)            (GpuAllocator  *allocator,
                                  GpuMemory     *memory);
  GpuContext *(*get_context)     (GpuAllocator  *allocator);
  gboolean    (*get_memory_info) (GpuAllocator  *allocator,
                                  guint64       *free_size,
                                  guint64       *total_size,
                                  GError       **error);
  void        (*trim)            (GpuAllocator  *allocator,
                                  guint64        held_bytes);

  /*< private >*/
  gpointer    padding[4];
};

GPU_AVAILABLE_IN_0_1
GpuMemory  *gpu_allocator_alloc           (GpuAllocator  *allocator,
                                           gsize          size,
                                           GpuStream     *stream,
                                           GError       **error);
GPU_AVAILABLE_IN_0_1
void        gpu_allocator_free            (GpuAllocator  *allocator,
                                           GpuMemory     *memory);
GPU_AVAILABLE_IN_0_1
GpuContext *gpu_allocator_get_context     (GpuAllocator  *allocator);
GPU_AVAILABLE_IN_0_1
gboolean    gpu_allocator_get_memory_info (GpuAllocator  *allocator,
                                           guint64       *free_size,
                                           guint64       *total_size,
                                           GError       **error);
GPU_AVAILABLE_IN_0_1
void        gpu_allocator_trim            (GpuAllocator  *allocator,
                                           guint64        held_bytes);

G_END_DECLS

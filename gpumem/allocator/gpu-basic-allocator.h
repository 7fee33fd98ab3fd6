/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/allocator/gpu-allocator.h>

G_BEGIN_DECLS

#define GPU_TYPE_BASIC_ALLOCATOR (gpu_basic_allocator_get_type ())
#define GPU_BASIC_ALLOCATOR(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST ((obj), GPU_TYPE_BASIC_ALLOCATOR, GpuBasicAllocator))
#define GPU_IS_BASIC_ALLOCATOR(obj) \
  (G_TYPE_CHECK_INSTANCE_TYPE ((obj), GPU_TYPE_BASIC_ALLOCATOR))

typedef struct _GpuBasicAllocatorClass GpuBasicAllocatorClass;

/* Complete for the classes derived from it in this library; no other can be */
struct _GpuBasicAllocatorClass
{
  /*< private >*/
  GObjectClass parent_class;
};

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuBasicAllocator, g_object_unref)

GPU_AVAILABLE_IN_0_1
GType           gpu_basic_allocator_get_type   (void) G_GNUC_CONST;
GPU_AVAILABLE_IN_0_1
GpuStream      *gpu_basic_allocator_get_stream (GpuBasicAllocator *allocator);
GPU_AVAILABLE_IN_0_1
GpuMemoryFlags  gpu_basic_allocator_get_flags  (GpuBasicAllocator *allocator);

G_END_DECLS

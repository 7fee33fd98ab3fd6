/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/allocator/gpu-allocator.h>

G_BEGIN_DECLS

#define GPU_TYPE_ALLOCATOR_ADAPTOR (gpu_allocator_adaptor_get_type ())
#define GPU_ALLOCATOR_ADAPTOR(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST ((obj), GPU_TYPE_ALLOCATOR_ADAPTOR, GpuAllocatorAdaptor))
#define GPU_IS_ALLOCATOR_ADAPTOR(obj) \
  (G_TYPE_CHECK_INSTANCE_TYPE ((obj), GPU_TYPE_ALLOCATOR_ADAPTOR))

typedef struct _GpuAllocatorAdaptorClass GpuAllocatorAdaptorClass;

/* Defined in this header only because other classes of this library derive from the class. */
struct _GpuAllocatorAdaptorClass
{
  /*< private >*/
  GObjectClass parent_class;
};

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuAllocatorAdaptor, g_object_unref)

GPU_AVAILABLE_IN_0_1
GType         gpu_allocator_adaptor_get_type     (void) G_GNUC_CONST;

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/allocator/gpu-allocator.h>

G_BEGIN_DECLS

#define GPU_TYPE_BASIC_ALLOCATOR     (gpu_basic_allocator_get_type ())
#define GPU_TYPE_DEFERRED_ALLOCATOR  (gpu_deferred_allocator_get_type ())
#define GPU_TYPE_IMMEDIATE_ALLOCATOR (gpu_immediate_allocator_get_type ())
#define GPU_TYPE_STREAM_ALLOCATOR    (gpu_stream_allocator_get_type ())
#define GPU_TYPE_SVM_ALLOCATOR       (gpu_svm_allocator_get_type ())

#define GPU_BASIC_ALLOCATOR(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST ((obj), GPU_TYPE_BASIC_ALLOCATOR, GpuBasicAllocator))
#define GPU_IS_BASIC_ALLOCATOR(obj) \
  (G_TYPE_CHECK_INSTANCE_TYPE ((obj), GPU_TYPE_BASIC_ALLOCATOR))

typedef struct _GpuBasicAllocatorClass GpuBasicAllocatorClass;

/* Defined in this header only because other classes of this library derive from the class. */
struct _GpuBasicAllocatorClass
{
  /*< private >*/
  GObjectClass parent_class;
#ifndef __GI_SCANNER__
  const char  *function;            /* the name of the constructor, for error messages */
  gboolean     needs_stream;
  /* Validates the construct properties; may be NULL. */
  gboolean   (*check) (GpuBasicAllocator  *allocator,
                       GError            **error);
  /* Allocates memory. If the request has no stream, @stream is the stream of the allocator. */
  GpuMemory *(*alloc) (GpuBasicAllocator  *allocator,
                       gsize               size,
                       GpuStream          *stream,
                       GError            **error);
#endif
};

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuBasicAllocator, g_object_unref)

GPU_AVAILABLE_IN_0_1
GType                  gpu_basic_allocator_get_type    (void) G_GNUC_CONST;

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuDeferredAllocator, gpu_deferred_allocator, GPU, DEFERRED_ALLOCATOR,
                      GpuBasicAllocator)
GPU_AVAILABLE_IN_0_1
GpuDeferredAllocator  *gpu_deferred_allocator_new      (GpuContext        *context,
                                                        GpuMemoryFlags     flags,
                                                        GError           **error);

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuImmediateAllocator, gpu_immediate_allocator, GPU, IMMEDIATE_ALLOCATOR,
                      GpuBasicAllocator)
GPU_AVAILABLE_IN_0_1
GpuImmediateAllocator *gpu_immediate_allocator_new     (GpuStream         *stream,
                                                        GpuMemoryFlags     flags,
                                                        GError           **error);

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuStreamAllocator, gpu_stream_allocator, GPU, STREAM_ALLOCATOR,
                      GpuBasicAllocator)
GPU_AVAILABLE_IN_0_1
GpuStreamAllocator    *gpu_stream_allocator_new        (GpuStream         *stream,
                                                        GpuMemoryFlags     flags,
                                                        GError           **error);

GPU_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GpuSvmAllocator, gpu_svm_allocator, GPU, SVM_ALLOCATOR, GpuBasicAllocator)
GPU_AVAILABLE_IN_0_1
GpuSvmAllocator       *gpu_svm_allocator_new           (GpuContext        *context,
                                                        GpuMemoryFlags     flags,
                                                        GpuSvmFlags        svm_flags,
                                                        gsize              alignment,
                                                        GpuStream         *stream,
                                                        GError           **error);

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/allocator/gpu-basic-allocator.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-memory-private.h"
#include "gpumem/stream/gpu-stream-private.h"

G_BEGIN_DECLS

#define GPU_BASIC_ALLOCATOR_GET_CLASS(obj) \
  (G_TYPE_INSTANCE_GET_CLASS ((obj), GPU_TYPE_BASIC_ALLOCATOR, GpuBasicAllocatorClass))

struct _GpuBasicAllocator
{
  GObject         parent_instance;

  GpuContext     *context;
  GpuStream      *stream;           /* (nullable): see GpuBasicAllocator:stream */
  GpuMemoryFlags  flags;
  GpuSvmFlags     svm_flags;        /* only used by GpuSvmAllocator */
  gsize           alignment;        /* only used by GpuSvmAllocator */
  gboolean        is_ready;         /* initialised */
};

static inline GpuSvmFlags
_gpu_svm_allocator_get_svm_flags (GpuSvmAllocator *allocator)
{
  return GPU_BASIC_ALLOCATOR (allocator)->svm_flags;
}

static inline gsize
_gpu_svm_allocator_get_alignment (GpuSvmAllocator *allocator)
{
  return GPU_BASIC_ALLOCATOR (allocator)->alignment;
}

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <gpumem/base/gpu-types.h>

G_BEGIN_DECLS

#define GPU_TYPE_MEMORY (gpu_memory_get_type ())
#define GPU_MEMORY(obj) (G_TYPE_CHECK_INSTANCE_CAST ((obj), GPU_TYPE_MEMORY, GpuMemory))
#define GPU_IS_MEMORY(obj) (G_TYPE_CHECK_INSTANCE_TYPE ((obj), GPU_TYPE_MEMORY))

typedef struct _GpuMemoryClass GpuMemoryClass;

/* The classes of this library that derive from GpuMemory need this definition. Other code cannot
 * derive from GpuMemory, because struct _GpuMemory is private. */
struct _GpuMemoryClass
{
  /*< private >*/
  GObjectClass parent_class;
};

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuMemory, g_object_unref)

GPU_AVAILABLE_IN_0_1
GType           gpu_memory_get_type           (void) G_GNUC_CONST;
GPU_AVAILABLE_IN_0_1
GpuContext     *gpu_memory_get_context        (GpuMemory   *memory);
GPU_AVAILABLE_IN_0_1
gsize           gpu_memory_get_size           (GpuMemory   *memory);
GPU_AVAILABLE_IN_0_1
GpuMemoryFlags  gpu_memory_get_flags          (GpuMemory   *memory);
GPU_AVAILABLE_IN_0_1
guint64         gpu_memory_get_native_handle  (GpuMemory   *memory);
GPU_AVAILABLE_IN_0_1
guint64         gpu_memory_get_device_address (GpuMemory   *memory);
GPU_AVAILABLE_IN_0_1
GBytes         *gpu_memory_get_host_bytes     (GpuMemory   *memory);
GPU_AVAILABLE_IN_0_1
GVariant       *gpu_memory_get_attributes     (GpuMemory   *memory,
                                               GError     **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_memory_add_stream         (GpuMemory   *memory,
                                               GpuStream   *stream,
                                               GError     **error);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_memory_wait               (GpuMemory     *memory,
                                               GCancellable  *cancellable,
                                               GError       **error);
GPU_AVAILABLE_IN_0_1
void            gpu_memory_wait_async         (GpuMemory            *memory,
                                               GCancellable         *cancellable,
                                               GAsyncReadyCallback   callback,
                                               gpointer              user_data);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_memory_wait_finish        (GpuMemory     *memory,
                                               GAsyncResult  *result,
                                               GError       **error);
GPU_AVAILABLE_IN_0_1
void            gpu_memory_release            (GpuMemory   *memory);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_memory_is_released        (GpuMemory   *memory);
GPU_AVAILABLE_IN_0_1
gboolean        gpu_memory_equal              (GpuMemory   *a,
                                               GpuMemory   *b);
GPU_AVAILABLE_IN_0_1
guint           gpu_memory_hash               (GpuMemory   *memory);

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/memory/gpu-memory-private.h"

G_BEGIN_DECLS

struct _GpuHostMemory
{
  GpuMemory           parent_instance;

  GpuHostMemoryFlags  host_flags;   /* the flags in effect */
  gboolean            is_locked;
  guint8             *data;         /* NULL if never initialised; valid while storage has users */
};

/* Returns FALSE for a size of 0, or for flags that are not valid for allocated memory, such as
 * GPU_HOST_MEMORY_FLAGS_READ_ONLY. */
gboolean         _gpu_host_memory_check    (GpuContext          *context,
                                            const char          *function,
                                            GpuHostMemoryFlags   flags,
                                            gsize                size,
                                            GError             **error);
/* Lets the driver allocate page-locked memory. Changes @flags to the flags in effect. */
GpuNativeBuffer *_gpu_host_memory_allocate (GpuContext          *context,
                                            const char          *function,
                                            GpuHostMemoryFlags  *flags,
                                            gsize                size,
                                            GError             **error);
/* @storage must be new. The new object takes over the reference to @storage, and becomes its only
 * user. */
GpuHostMemory   *_gpu_host_memory_new_for_storage (GpuContext          *context,
                                                   GpuStorage          *storage,
                                                   GpuHostMemoryFlags   flags);

G_END_DECLS

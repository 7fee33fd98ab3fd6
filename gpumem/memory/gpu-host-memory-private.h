/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/memory/gpu-memory-private.h"

G_BEGIN_DECLS

struct _GpuHostMemory
{
  GpuMemory           parent_instance;

  GpuHostMemoryFlags  host_flags;   /* the flags in effect */
  int                 numa_node;    /* the node in effect */
  gboolean            is_locked;
  guint8             *data;         /* NULL if never initialised; valid while storage has users */
};

/* Returns FALSE for a size of 0, for flags that are not valid for allocated memory, such as
 * GPU_HOST_MEMORY_FLAGS_READ_ONLY, or for a NUMA node that the host does not have. */
gboolean         _gpu_host_memory_check    (GpuContext          *context,
                                            const char          *function,
                                            GpuHostMemoryFlags   flags,
                                            int                  numa_node,
                                            gsize                size,
                                            GError             **error);
/* Lets the driver allocate page-locked memory. Changes @flags and @numa_node to those in effect. */
GpuNativeBuffer *_gpu_host_memory_allocate (GpuContext          *context,
                                            const char          *function,
                                            GpuHostMemoryFlags  *flags,
                                            int                 *numa_node,
                                            gsize                size,
                                            GError             **error);
/* @storage must be new. The new object takes over the reference to @storage, and becomes its only
 * user. */
GpuHostMemory   *_gpu_host_memory_new_for_storage (GpuContext          *context,
                                                   GpuStorage          *storage,
                                                   GpuHostMemoryFlags   flags,
                                                   int                  numa_node);

G_END_DECLS

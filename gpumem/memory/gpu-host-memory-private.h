/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/memory/gpu-memory-private.h"

G_BEGIN_DECLS

struct _GpuHostMemory
{
  GpuMemory           parent_instance;

  GpuHostMemoryFlags  host_flags;   /* that it has */
  gboolean            is_locked;
  guint8             *data;         /* NULL if never initialised; good while there are users */
};

/* FALSE for no bytes, or flags that memory which is allocated cannot have. */
gboolean         _gpu_host_memory_check    (GpuContext          *context,
                                            const char          *function,
                                            GpuHostMemoryFlags   flags,
                                            gsize                size,
                                            GError             **error);
/* Page-locked memory of the driver; @flags become those that it has. */
GpuNativeBuffer *_gpu_host_memory_allocate (GpuContext          *context,
                                            const char          *function,
                                            GpuHostMemoryFlags  *flags,
                                            gsize                size,
                                            GError             **error);
/* Takes @storage and its first user over. */
GpuHostMemory   *_gpu_host_memory_new_for_storage (GpuContext          *context,
                                                   GpuStorage          *storage,
                                                   GpuHostMemoryFlags   flags);

G_END_DECLS

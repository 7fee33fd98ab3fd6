/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-memory-private.h"
#include "gpumem/stream/gpu-stream-private.h"

G_BEGIN_DECLS

/* What a class of them is. */
typedef struct
{
  const char  *function;            /* that makes one */
  gboolean     needs_stream;
  /* Looks at what @allocator was made with; NULL if there is nothing to look at. */
  gboolean   (*check) (GpuBasicAllocator  *allocator,
                       GError            **error);
  /* @stream is the allocator's own if nobody gave one. */
  GpuMemory *(*alloc) (GpuBasicAllocator  *allocator,
                       gsize               size,
                       GpuStream          *stream,
                       GError            **error);
} GpuBasicAllocatorOps;

struct _GpuBasicAllocator
{
  GObject                     parent_instance;

  const GpuBasicAllocatorOps *ops;  /* set by the init of the derived class */
  GpuContext                 *context;
  GpuStream                  *stream;       /* nullable */
  GpuMemoryFlags              flags;
  gboolean                    is_ready;     /* it was initialised */
};

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Marks ranges of time for profilers, as NVTX ranges and as marks of Sysprof. Enabled if
 * GPUMEM_DEBUG contains "marks". */
#pragma once

#include "gpumem/base/gpu-attributes-private.h"
#include "gpumem/base/gpu-debug-private.h"

G_BEGIN_DECLS

/* A range of time of the calling thread; ranges of a thread are nested. */
typedef struct
{
  const char *name;                 /* NULL if no range was begun */
  guint64     size;
  gint64      begin;                /* on Sysprof's clock */
} GpuMark;

/* Begins a range in every profiler. Does not check whether GPUMEM_DEBUG contains "marks". @name is
 * static; @size is in bytes, 0 if it is not known. */
GPU_COLD GpuMark _gpu_mark_begin (const char *name,
                                  guint64     size);
GPU_COLD void    _gpu_mark_end   (GpuMark    *mark);

/* Ends the range. Called at the end of the scope of a g_auto variable. */
static inline void
_gpu_mark_clear (GpuMark *mark)
{
  if (G_UNLIKELY (mark->name != NULL))
    _gpu_mark_end (mark);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (GpuMark, _gpu_mark_clear)

G_END_DECLS

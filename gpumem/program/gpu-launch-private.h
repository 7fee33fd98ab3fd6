/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/program/gpu-kernel-private.h"
#include "gpumem/stream/gpu-submission-private.h"

G_BEGIN_DECLS

/* Everything that a launch takes: on the stack for one launch, or prepared for many. */
struct _GpuLaunch
{
  gatomicrefcount   refs;           /* of a prepared one, as are those that are owned */
  GpuKernel        *kernel;         /* owned */
  GpuKernelCore    *core;
  GpuArguments     *arguments;      /* owned; what the values point into */
  const GpuExtent  *grid;
  const GpuExtent  *block;          /* NULL to let the driver choose */
  gsize             shared_size;
  GpuLaunchFlags    flags;
  gboolean          is_prepared;    /* the buffers stand in the values already */
  gboolean          has_options;    /* what is in GpuLaunchOptions: any of it */
  gboolean          has_samplers;
  guint             n_arguments;
  GpuArgumentValue *values;         /* n_arguments, owned */
  guint             n_indirect;     /* with options: memories that kernels reach through pointers
                                     * elsewhere */
  GpuMemory       **memories;       /* n_arguments and, behind them, n_indirect; owned; the
                                     * arguments hold what they hold */
  guint             n_accesses;
  GpuAccess        *accesses;       /* at most one for each of the memories, owned */
  GpuExtent         own_grid;       /* of a prepared one: what grid and block point to */
  GpuExtent         own_block;
};

/* FALSE if a device of the context cannot launch so. */
gboolean _gpu_launch_check_options (GpuKernel        *kernel,
                                    gsize             shared_size,
                                    GpuLaunchFlags    flags,
                                    GError          **error);
gboolean _gpu_launch_check_extents (const GpuLaunch       *launch,
                                    const GpuNativeDevice *device,
                                    GError               **error);
/* Read and never written. */
static inline gboolean
_gpu_argument_is_texture (const GpuArgumentValue *value)
{
  return value->kind == GPU_ARGUMENT_KIND_IMAGE && value->sampler != NULL;
}

/* For memory with GPU_MEMORY_FLAGS_READ_ONLY the program promises that kernels only read it.
 * Constant memory is checked all the same: a kernel that is described as writing it is a writer. */
static inline gboolean
_gpu_launch_may_write (GpuMemory             *memory,
                       const GpuArgumentInfo *info)
{
  return (memory->flags & GPU_MEMORY_FLAGS_READ_ONLY) == 0
         || (memory->is_constant && info != NULL && info->kind == GPU_ARGUMENT_KIND_MEMORY
             && !info->is_declared);
}

/* Fills in the accesses from the memories, as the kernel says in @infos what it does to them; a
 * memory that is given twice is accessed twice. */
static inline void
_gpu_launch_set_accesses (GpuLaunch             *launch,
                          const GpuArgumentInfo *infos)
{
  GpuAccess *access = launch->accesses;

  for (guint i = 0; i < launch->n_arguments; i++)
    {
      GpuMemory *memory = launch->memories[i];

      if (memory == NULL)
        continue;

      access->memory = memory;
      access->write = (infos == NULL || !infos[i].read_only)
                      && _gpu_launch_may_write (memory, infos != NULL ? &infos[i] : NULL)
                      && !_gpu_argument_is_texture (&launch->values[i]);
      access->offset = 0;
      access->size = memory->span;
      access++;
    }

  launch->n_accesses = access - launch->accesses;
}

/* Fills in the values, memories and accesses, for which there is room. */
gboolean _gpu_launch_resolve       (GpuLaunch        *launch,
                                    GpuArguments     *arguments,
                                    GError          **error);

/* Submits what is resolved already; of @launch it takes the code, the extents, the values and the
 * memories. @accesses are for this submission alone. */
gboolean _gpu_launch_submit        (GpuTimeline      *timeline,
                                    const GpuLaunch  *launch,
                                    GpuAccess        *accesses,
                                    const char       *function,
                                    GError          **error);

/* Sets GPU_ERROR_NOT_SUPPORTED: kernels cannot access the memory of argument @index. FALSE. */
gboolean _gpu_launch_fail_host_only (const char        *what,
                                     guint              index,
                                     GpuNativeContext  *context,
                                     GError           **error);

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/format/gpu-region-private.h"
#include "gpumem/program/gpu-kernel-private.h"
#include "gpumem/stream/gpu-submission-private.h"

G_BEGIN_DECLS

/* A launch. gpu_stream_launch() places it on the stack, and gpu_launch_new() on the heap. A launch
 * on the heap is called a prepared launch, and owns the fields marked as owned. A launch on the
 * stack owns no field. */
struct _GpuLaunch
{
  gatomicrefcount   refs;           /* prepared launches only */
  GpuKernel        *kernel;         /* owned */
  GpuKernelCore    *core;
  GpuArguments     *arguments;      /* owned; the values point into it */
  GpuNativeLaunch   call;           /* without options; the array of arguments is owned */
  const GpuExtent  *offset;         /* of the global ids; NULL if all 0 */
  gsize             shared_size;
  GpuLaunchFlags    flags;
  gboolean          is_prepared;    /* a prepared launch: `call` contains the native buffers */
  gboolean          has_options;    /* the launch needs GpuLaunchOptions */
  gboolean          has_samplers;
  guint             n_indirect;     /* memories from gpu_arguments_add_indirect() */
  GpuMemory       **memories;       /* call.n_arguments, then n_indirect elements; the array is
                                     * owned, and `arguments` retains the objects */
  guint             n_accesses;
  GpuAccess        *accesses;       /* at most one for each memory, owned */
  GpuExtent         own_grid;       /* prepared launches: grid, block and offset point here */
  GpuExtent         own_block;
  GpuExtent         own_offset;
};

static inline gboolean
_gpu_launch_is_empty (const GpuLaunch *launch)
{
  const GpuExtent *grid = launch->call.grid;

  return grid->width == 0 || grid->height == 0 || grid->depth == 0;
}

/* Returns FALSE with an error if the device or the back end does not support @shared_size or
 * @flags. */
gboolean _gpu_launch_check_options (GpuKernel        *kernel,
                                    gsize             shared_size,
                                    GpuLaunchFlags    flags,
                                    GError          **error);
gboolean _gpu_launch_check_extents (const GpuLaunch       *launch,
                                    const GpuNativeDevice *device,
                                    GError               **error);

/* Returns TRUE for the most frequent launches that need no _gpu_launch_check_extents(): one
 * dimension, no offset, and blocks of a power of two work-items that fill the grid. */
static inline gboolean
_gpu_launch_is_simple (const GpuLaunch *launch)
{
  const GpuExtent *grid = launch->call.grid;
  const GpuExtent *block = launch->call.block;

  return block != NULL && launch->offset == NULL && _gpu_extent_is_line (grid)
         && _gpu_extent_is_line (block) && grid->width > 0 && block->width > 0
         && (block->width & (block->width - 1)) == 0 && (grid->width & (block->width - 1)) == 0;
}

/* An image with a sampler is a texture. Kernels can only read textures. */
static inline gboolean
_gpu_argument_is_texture (const GpuArgumentValue *value)
{
  return value->kind == GPU_ARGUMENT_KIND_IMAGE && value->sampler != NULL;
}

/* Adds the access of an argument, and returns it. @info, which may be NULL, shows whether the
 * kernel only reads the memory. The access to memory with GPU_MEMORY_FLAGS_READ_ONLY also counts as
 * a read: such memory is refused for an argument that the kernel may write according to its
 * description. Without a description, the program must ensure that the kernel does not write such
 * memory. Memory that is passed twice gets two accesses. */
static inline GpuAccess *
_gpu_launch_add_access (GpuLaunch             *launch,
                        GpuMemory             *memory,
                        const GpuArgumentInfo *info,
                        gboolean               is_texture)
{
  GpuAccess *access = &launch->accesses[launch->n_accesses++];

  access->memory = memory;
  access->write = (info == NULL || !info->read_only)
                  && (memory->flags & GPU_MEMORY_FLAGS_READ_ONLY) == 0 && !is_texture;
  access->offset = 0;
  access->size = memory->span;

  return access;
}

/* Fills in the values, memories and accesses. The caller has allocated these arrays. */
gboolean _gpu_launch_resolve       (GpuLaunch        *launch,
                                    GpuArguments     *arguments,
                                    GError          **error);

/* Submits a resolved launch. Uses the core, extents, values and memories of @launch. Modifies
 * @accesses, so the caller must pass a new copy for each submission. */
gboolean _gpu_launch_submit        (GpuTimeline      *timeline,
                                    const GpuLaunch  *launch,
                                    GpuAccess        *accesses,
                                    const char       *function,
                                    GError          **error);

/* Sets GPU_ERROR_NOT_SUPPORTED for host memory that kernels cannot access. Returns FALSE. */
gboolean _gpu_launch_fail_host_only (const char        *what,
                                     guint              index,
                                     GpuNativeContext  *context,
                                     GError           **error);

/* The checks of launches begin their messages with gpu_stream_launch. Replaces this name with
 * @function, which the program called. Returns FALSE. */
gboolean _gpu_launch_name_error     (const char        *function,
                                     GError           **error);

G_END_DECLS

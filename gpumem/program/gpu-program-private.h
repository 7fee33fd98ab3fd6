/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/backend/gpu-backend.h"

G_BEGIN_DECLS

/* What is behind a GpuProgram, and what its kernels hold. */
typedef struct
{
  gatomicrefcount   refs;
  GpuNativeContext *context;
  GpuNativeProgram *native;
  GVariant         *descriptions;   /* of the kernels of a program from the cache, nullable */
  GHashTable       *lowered;        /* names as written to those in the binary, nullable */
} GpuProgramCore;

GpuProgramCore *_gpu_program_core_ref   (GpuProgramCore    *core);
void            _gpu_program_core_unref (GpuProgramCore    *core);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuProgramCore, _gpu_program_core_unref)

/* What a program is made of: one of source, binary, il and images. */
typedef struct
{
  const char      *source;
  char           **names;           /* of the source, nullable */
  GBytes          *binary;
  GBytes          *il;
  GPtrArray       *images;          /* of GBytes, to link */
  const char      *options;
  GpuProgramFlags  flags;
} GpuProgramInputs;

/* Builds or loads. */
GpuProgramCore *_gpu_program_core_build (GpuNativeContext        *context,
                                         const GpuProgramInputs  *inputs,
                                         gboolean                *from_cache,
                                         GError                 **error);
/* What is called @name in the binary: itself, mostly. */
const char     *_gpu_program_core_lower (GpuProgramCore    *core,
                                         const char        *name);

/* (transfer none); NULL for a program that was never initialised. */
GpuProgramCore *_gpu_program_get_core   (GpuProgram        *program);
/* FALSE if @program was never initialised or its context is lost. */
gboolean        _gpu_program_check_built (GpuProgram       *program,
                                         const char        *function,
                                         GError           **error);
/* Before @program is initialised: has it linked. */
void            _gpu_program_set_images (GpuProgram        *program,
                                         GBytes           **images,
                                         gsize              n_images);
/* The options of @context, then @options. */
char           *_gpu_program_join_options (GpuContext      *context,
                                         const char        *options);

G_END_DECLS

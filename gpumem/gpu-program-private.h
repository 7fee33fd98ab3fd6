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
} GpuProgramCode;

GpuProgramCode *_gpu_program_code_ref   (GpuProgramCode    *code);
void            _gpu_program_code_unref (GpuProgramCode    *code);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpuProgramCode, _gpu_program_code_unref)

/* Builds or loads; the one of @source, @binary and @il that is not NULL. */
GpuProgramCode *_gpu_program_code_build (GpuNativeContext  *context,
                                         const char        *source,
                                         GBytes            *binary,
                                         GBytes            *il,
                                         const char        *options,
                                         GpuProgramFlags    flags,
                                         gboolean          *from_cache,
                                         GError           **error);

/* (transfer none); NULL for a program that was never initialised. */
GpuProgramCode *_gpu_program_get_code   (GpuProgram        *program);

G_END_DECLS

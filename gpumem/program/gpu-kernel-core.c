/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/program/gpu-kernel-private.h"

GpuKernelCore *
_gpu_kernel_core_ref (GpuKernelCore *core)
{
  g_atomic_ref_count_inc (&core->refs);

  return core;
}

void
_gpu_kernel_core_unref (GpuKernelCore *core)
{
  if (!g_atomic_ref_count_dec (&core->refs))
    return;

  core->context->backend->kernel->free (core->context, core->kernel);
  _gpu_program_core_unref (core->program);
  _gpu_native_context_unref (core->context);
  g_free (core);
  _gpu_live_add (GPU_LIVE_KERNEL_CORE, -1);
}

GpuKernelCore *
_gpu_kernel_core_new (GpuProgramCore  *program,
                      const char      *name,
                      GError         **error)
{
  const GpuProgramOps *ops = program->context->backend->program;
  GpuNativeKernel *native = ops->create_kernel (program->context, program->native,
                                                 _gpu_program_core_lower (program, name), error);
  GpuKernelCore *core;

  if (native == NULL)
    return NULL;

  core = g_new0 (GpuKernelCore, 1);
  g_atomic_ref_count_init (&core->refs);
  core->context = _gpu_native_context_ref (program->context);
  core->program = _gpu_program_core_ref (program);
  core->kernel = native;
  _gpu_live_add (GPU_LIVE_KERNEL_CORE, 1);

  return core;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/program/gpu-kernel-private.h"

GpuKernelCode *
_gpu_kernel_code_ref (GpuKernelCode *code)
{
  g_atomic_ref_count_inc (&code->refs);

  return code;
}

void
_gpu_kernel_code_unref (GpuKernelCode *code)
{
  if (!g_atomic_ref_count_dec (&code->refs))
    return;

  code->context->backend->kernel->free (code->context, code->kernel);
  _gpu_program_code_unref (code->program);
  _gpu_native_context_unref (code->context);
  g_free (code);
  _gpu_live_add (GPU_LIVE_KERNEL_CODE, -1);
}

GpuKernelCode *
_gpu_kernel_code_new (GpuProgramCode  *program,
                      const char      *name,
                      GError         **error)
{
  const GpuProgramOps *ops = program->context->backend->program;
  GpuNativeKernel *native = ops->create_kernel (program->context, program->native,
                                                 _gpu_program_code_lower (program, name), error);
  GpuKernelCode *code;

  if (native == NULL)
    return NULL;

  code = g_new0 (GpuKernelCode, 1);
  g_atomic_ref_count_init (&code->refs);
  code->context = _gpu_native_context_ref (program->context);
  code->program = _gpu_program_code_ref (program);
  code->kernel = native;
  _gpu_live_add (GPU_LIVE_KERNEL_CODE, 1);

  return code;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The library's own declarations of NVRTC, the run-time compiler of CUDA C++. The CUDA Toolkit and
 * a separate package contain NVRTC; the driver does not.
 */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

typedef struct _nvrtcProgram *nvrtcProgram;
typedef unsigned int          nvrtcResult;

#define GPU_CUDA_NVRTC_CONSTANTS(CONSTANT)              \
  CONSTANT (NVRTC_SUCCESS, 0)                           \
  CONSTANT (NVRTC_ERROR_OUT_OF_MEMORY, 1)               \
  CONSTANT (NVRTC_ERROR_PROGRAM_CREATION_FAILURE, 2)    \
  CONSTANT (NVRTC_ERROR_INVALID_INPUT, 3)               \
  CONSTANT (NVRTC_ERROR_INVALID_OPTION, 5)              \
  CONSTANT (NVRTC_ERROR_COMPILATION, 6)                 \
  CONSTANT (NVRTC_ERROR_BUILTIN_OPERATION_FAILURE, 7)   \
  CONSTANT (NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID, 10)

#ifndef GPU_CUDA_CHECK
#define GPU_CUDA_NVRTC_CONSTANT(name, value) name = value,
enum { GPU_CUDA_NVRTC_CONSTANTS (GPU_CUDA_NVRTC_CONSTANT) };
#undef GPU_CUDA_NVRTC_CONSTANT
#endif

typedef struct
{
#define GPU_CUDA_NVRTC_SYMBOL(result, name, parameters) result (*name) parameters;
#include "gpumem/cuda/compiler/gpu-cuda-nvrtc-symbols.h"
#undef GPU_CUDA_NVRTC_SYMBOL

  int   version;                /* 13000 for 13.0 */
  int  *architectures;          /* array of n_architectures, ascending: 90 for 9.0 */
  int   n_architectures;
} GpuCudaNvrtc;

/* All fields are 0 until _gpu_cuda_nvrtc_load() has returned TRUE. */
extern GpuCudaNvrtc _gpu_cuda_nvrtc;

/* Loads NVRTC once per process. The driver must have been loaded before. Fails with
 * GPU_ERROR_NOT_SUPPORTED if NVRTC is missing or unusable. Thread-safe. */
gboolean _gpu_cuda_nvrtc_load (GError **error);

G_END_DECLS

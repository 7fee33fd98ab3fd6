/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Compares the back end's declarations of NVRTC with the header of the CUDA Toolkit. This file is
 * only compiled if configure finds the header, and never linked.
 */
#include <nvrtc.h>

#define GPU_CUDA_NVRTC_SYMBOL(result, name, parameters) \
  _Static_assert (__builtin_types_compatible_p (__typeof__ (&name), result (*) parameters), \
                  #name ": not as in nvrtc.h");
#include "gpumem/cuda/compiler/gpu-cuda-nvrtc-symbols.h"
#undef GPU_CUDA_NVRTC_SYMBOL

/* Rename the library's types, so that they can be declared next to those of the toolkit. */
#define nvrtcResult  gpu_nvrtcResult
#define nvrtcProgram gpu_nvrtcProgram
#define GPU_CUDA_CHECK
#include "gpumem/cuda/compiler/gpu-cuda-nvrtc.h"
#undef nvrtcResult
#undef nvrtcProgram

#define GPU_CUDA_NVRTC_CONSTANT(name, value) \
  _Static_assert (name == value, #name ": not as in nvrtc.h");
GPU_CUDA_NVRTC_CONSTANTS (GPU_CUDA_NVRTC_CONSTANT)

_Static_assert (sizeof (nvrtcResult) == sizeof (gpu_nvrtcResult), "nvrtcResult: another size");

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Compares every function that the back end calls with the headers of the CUDA Toolkit. This file
 * is only compiled if configure finds a toolkit, and never linked.
 */
#include <cuda.h>
#include <cudaProfilerTypedefs.h>
#include <cudaTypedefs.h>

#define GPU_CUDA_SYMBOL(group, name, version, parameters) \
  _Static_assert (__builtin_types_compatible_p (PFN_##name##_v##version, \
                                                CUresult (CUDAAPI *) parameters), \
                  #name ": not as in cuda.h");
/* These macros do not expand to GPU_CUDA_SYMBOL(): cuda.h defines the names of functions as macros,
 * which the preprocessor would expand in the arguments of GPU_CUDA_SYMBOL(). */
#define GPU_CUDA_REVISION(group, name, revision, version, parameters) \
  _Static_assert (__builtin_types_compatible_p (PFN_##name##_v##version, \
                                                CUresult (CUDAAPI *) parameters), \
                  #name #revision ": not as in cuda.h");
#define GPU_CUDA_UNSAFE(group, name, version, parameters, arguments) \
  _Static_assert (__builtin_types_compatible_p (PFN_##name##_v##version, \
                                                CUresult (CUDAAPI *) parameters), \
                  #name ": not as in cuda.h");
#define GPU_CUDA_UNSAFE_REVISION(group, name, revision, version, parameters, arguments) \
  _Static_assert (__builtin_types_compatible_p (PFN_##name##_v##version, \
                                                CUresult (CUDAAPI *) parameters), \
                  #name #revision ": not as in cuda.h");
#include "gpumem/cuda/driver/gpu-cuda-symbols.h"

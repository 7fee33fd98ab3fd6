/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Holds every function that the back end calls against the headers of the CUDA Toolkit. Compiled
 * where configure finds one, linked nowhere.
 */
#include <cuda.h>
#include <cudaProfilerTypedefs.h>
#include <cudaTypedefs.h>

#define GPU_CUDA_SYMBOL(group, name, version, parameters) \
  _Static_assert (__builtin_types_compatible_p (PFN_##name##_v##version, \
                                                CUresult (CUDAAPI *) parameters), \
                  #name ": not as in cuda.h");
/* Not by way of the other: there cuda.h would put what it takes the name for. */
#define GPU_CUDA_REVISION(group, name, revision, version, parameters) \
  _Static_assert (__builtin_types_compatible_p (PFN_##name##_v##version, \
                                                CUresult (CUDAAPI *) parameters), \
                  #name #revision ": not as in cuda.h");
#include "gpumem/cuda/driver/gpu-cuda-symbols.h"

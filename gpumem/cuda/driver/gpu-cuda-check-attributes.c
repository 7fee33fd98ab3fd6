/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Holds the list of attributes against the headers of the CUDA Toolkit: each has its value, and
 * none is missing; before CUDA 13 there were fewer. Compiled where configure finds one, linked
 * nowhere.
 */
#include <cuda.h>

#if CUDA_VERSION >= 13000
#define GPU_CUDA_ATTRIBUTE(name, value, kind) \
  _Static_assert (CU_DEVICE_ATTRIBUTE_##name == value, #name);
#include "gpumem/cuda/driver/gpu-cuda-attributes.h"
#undef GPU_CUDA_ATTRIBUTE
#endif

/* Values count from 1, without a gap. */
enum
{
  BEFORE_FIRST,
#define GPU_CUDA_ATTRIBUTE(name, value, kind) PLACE_OF_##name,
#include "gpumem/cuda/driver/gpu-cuda-attributes.h"
#undef GPU_CUDA_ATTRIBUTE
  AFTER_LAST
};

#define GPU_CUDA_ATTRIBUTE(name, value, kind) _Static_assert (PLACE_OF_##name == value, #name);
#include "gpumem/cuda/driver/gpu-cuda-attributes.h"

#if CUDA_VERSION == 13000
_Static_assert ((int) AFTER_LAST == (int) CU_DEVICE_ATTRIBUTE_MAX, "attributes are missing");
#endif

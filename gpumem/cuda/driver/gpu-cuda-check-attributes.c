/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Compares the list of attributes with the headers of the CUDA Toolkit: values must be equal, and
 * no attribute may be missing. Toolkits before CUDA 13 are not compared, because they have fewer
 * attributes. This file is only compiled if configure finds a toolkit, and never linked.
 */
#include <cuda.h>

#if CUDA_VERSION >= 13000
#define GPU_CUDA_ATTRIBUTE(name, value, kind) \
  _Static_assert (CU_DEVICE_ATTRIBUTE_##name == value, #name);
#include "gpumem/cuda/driver/gpu-cuda-attributes.h"
#undef GPU_CUDA_ATTRIBUTE
#endif

/* Checks that the attribute values in gpu-cuda-attributes.h are consecutive and start with 1. */
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

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Preferences for dividing the L1 cache and shared memory of a multiprocessor. */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda.h"

static const struct
{
  GpuCachePreference preference;
  CUfunc_cache       native;
}
cache_table[] =
{
  { GPU_CACHE_PREFERENCE_NONE, CU_FUNC_CACHE_PREFER_NONE },
  { GPU_CACHE_PREFERENCE_SHARED, CU_FUNC_CACHE_PREFER_SHARED },
  { GPU_CACHE_PREFERENCE_L1, CU_FUNC_CACHE_PREFER_L1 },
  { GPU_CACHE_PREFERENCE_EQUAL, CU_FUNC_CACHE_PREFER_EQUAL }
};

CUfunc_cache
_gpu_cuda_cache_to_native (GpuCachePreference preference)
{
  for (gsize i = 0; i < G_N_ELEMENTS (cache_table); i++)
    {
      if (cache_table[i].preference == preference)
        return cache_table[i].native;
    }

  return CU_FUNC_CACHE_PREFER_NONE;
}

GpuCachePreference
_gpu_cuda_cache_from_native (CUfunc_cache config)
{
  for (gsize i = 0; i < G_N_ELEMENTS (cache_table); i++)
    {
      if (cache_table[i].native == config)
        return cache_table[i].preference;
    }

  return GPU_CACHE_PREFERENCE_NONE;
}

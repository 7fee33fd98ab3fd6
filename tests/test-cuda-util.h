/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* For tests that call the driver directly, through the function pointers that the library has
 * loaded. */
#pragma once

#include "gpumem/cuda/core/gpu-cuda.h"
#include "test-util.h"

static inline CUcontext
test_cuda_context (TestFixture *fixture)
{
  return (CUcontext) (guintptr) gpu_context_get_native_handle (fixture->context);
}

static inline void
test_cuda_push (TestFixture *fixture)
{
  g_assert_cmpuint (_gpu_cuda.cuCtxPushCurrent (test_cuda_context (fixture)), ==, CUDA_SUCCESS);
}

static inline void
test_cuda_pop (TestFixture *fixture)
{
  CUcontext context = NULL;

  g_assert_cmpuint (_gpu_cuda.cuCtxPopCurrent (&context), ==, CUDA_SUCCESS);
  g_assert_true (context == test_cuda_context (fixture));
}

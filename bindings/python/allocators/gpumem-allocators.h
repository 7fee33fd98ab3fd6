/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A shared object that puts other libraries on one pool per CUDA device. It needs neither Python
 * nor introspection: gpumem/allocators.py calls it through ctypes, and passes the addresses of its
 * functions to PyTorch.
 */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

#define GPUMEM_EXPORT __attribute__ ((visibility ("default")))
#define GPUMEM_MAX_DEVICES 64

static inline gboolean
gpumem_is_out_of_memory (const GError *error)
{
  return g_error_matches (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY)
         || g_error_matches (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY);
}

/* Returns the hooks of the pool of the CUDA device @device. Creates the pool on first use. Returns
 * NULL with an error on failure. The pool is never freed. */
GpuPoolHooks *gpumem_get_hooks          (int          device,
                                         GError     **error);
/* Like gpumem_get_hooks(), but returns NULL if the device has no pool. */
GpuPoolHooks *gpumem_peek_hooks         (int          device);
GpuMemoryPool *gpumem_peek_pool         (int          device);
/* Throws PyTorch's out-of-memory error, or another exception of C++ if PyTorch does not have it.
 * Returns if there is no C++ library in the process. */
void          gpumem_torch_throw        (const char  *message,
                                         gboolean     is_out_of_memory);

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The kernels of the library, in PTX, so that they need no compiler. They run on every device since
 * compute capability 5.0; gpu_copy_more_rows needs a newer one.
 *
 * While the driver loads a module, it waits for all pending work of the context. That work may wait
 * for the caller, for example for a user event. So new contexts load the kernels at once. In a
 * context that other code uses, the first batch loads them before it takes locks, and the first
 * fill that needs them loads them with the locks of its stream.
 */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"

static const char header[] =
  ".version 6.4\n"
  ".target sm_50\n"
  ".address_size 64\n";

/* Since CUDA 12.1 and compute capability 7.0, launches may have 32 KiB of arguments, not only 4. */
static const char large_header[] =
  ".version 8.1\n"
  ".target sm_70\n"
  ".address_size 64\n";

static const char rows[] = ".visible .entry gpu_copy_rows (.param .align 8 .b8 table[4088])\n";
static const char more_rows[] =
  ".visible .entry gpu_copy_more_rows (.param .align 8 .b8 table[16432])\n";

static gboolean
has_large_arguments (GpuCudaContext *context)
{
  return _gpu_cuda.version >= 12010 && context->device->compute_capability >= 70;
}

static gboolean
find_functions (GpuCudaContext  *context,
                CUmodule         module,
                CUfunction      *functions,
                GError         **error)
{
  static const char *const names[GPU_CUDA_N_BUILTINS] = {
    [GPU_CUDA_BUILTIN_FILL] = "gpu_fill",
    [GPU_CUDA_BUILTIN_COPY_BATCH] = "gpu_copy_batch",
    [GPU_CUDA_BUILTIN_COPY_REGION] = "gpu_copy_region",
    [GPU_CUDA_BUILTIN_COPY_ROWS] = "gpu_copy_rows",
    [GPU_CUDA_BUILTIN_COPY_MORE_ROWS] = "gpu_copy_more_rows"
  };
  guint n = has_large_arguments (context) ? GPU_CUDA_N_BUILTINS : GPU_CUDA_BUILTIN_COPY_MORE_ROWS;

  for (guint i = 0; i < n; i++)
    if (!_gpu_cuda_check (_gpu_cuda.cuModuleGetFunction (&functions[i], module, names[i]),
                          "cuModuleGetFunction", error))
      return FALSE;

  return TRUE;
}

static CUresult
load_module (GpuCudaContext *context,
             CUmodule       *module)
{
  gboolean large = has_large_arguments (context);
  g_autofree char *text = g_strconcat (large ? large_header : header, _gpu_cuda_fill_text,
                                       _gpu_cuda_copy_batch_text, _gpu_cuda_region_text, rows,
                                       _gpu_cuda_copy_rows_text, large ? more_rows : NULL,
                                       _gpu_cuda_copy_rows_text, NULL);
  CUresult code = _gpu_cuda.cuModuleLoadDataEx (module, text, 0, NULL, NULL);

  if (_gpu_cuda_trim_pools (context, code))
    code = _gpu_cuda.cuModuleLoadDataEx (module, text, 0, NULL, NULL);

  return code;
}

/* Holds no lock of the context while it calls the driver. If two threads load the kernels at the
 * same time, one of the modules is unloaded. */
gboolean
_gpu_cuda_load_builtins (GpuCudaContext  *context,
                         GError         **error)
{
  CUfunction functions[GPU_CUDA_N_BUILTINS] = { NULL, };
  CUmodule module = NULL;
  gboolean success;

  if (_gpu_cuda_has_builtins (context))
    return TRUE;

  if (!_gpu_cuda_check (load_module (context, &module), "cuModuleLoadDataEx", error))
    return FALSE;

  success = find_functions (context, module, functions, error);

  if (success)
    {
      g_mutex_lock (&context->lock);
      if (context->builtin_module == NULL)
        {
          memcpy (context->builtins, functions, sizeof functions);
          g_atomic_pointer_set (&context->builtin_module, g_steal_pointer (&module));
        }
      g_mutex_unlock (&context->lock);
    }

  if (module != NULL)
    _gpu_cuda.cuModuleUnload (module);

  return success;
}

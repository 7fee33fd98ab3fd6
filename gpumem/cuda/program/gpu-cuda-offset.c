/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Launches with an offset of the global ids, which CUDA lacks. Portable kernels add a variable in
 * constant memory to their ids. All launches of a module share this variable, so launches with an
 * offset use a second copy of the module, and one after the other: each waits for the one before.
 * Launches without an offset neither wait nor write anything.
 */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"
#include "gpumem/cuda/program/gpu-cuda-program.h"

G_LOCK_DEFINE_STATIC (offsets);

/* Caller has entered the context. Returns FALSE without @error if @module has no variable for the
 * offset. */
static gboolean
find_variable (const GpuCudaModule  *module,
               CUdeviceptr          *address,
               GError              **error)
{
  gsize size = 0;
  CUresult code = _gpu_cuda.cuModuleGetGlobal (address, &size, module->module,
                                               GPU_CUDA_OFFSET_NAME);

  return code != CUDA_ERROR_NOT_FOUND && _gpu_cuda_check (code, "cuModuleGetGlobal", error)
         && size == sizeof (GpuExtent);
}

static void
offset_free (GpuCudaOffset *self,
             gboolean       has_context)
{
  if (self->last != NULL && has_context)
    _gpu_cuda.cuEventDestroy (self->last);

  _gpu_cuda_module_unref (self->module);
  g_mutex_clear (&self->lock);
  g_free (self);
}

/* Caller has entered the context. */
static GpuCudaOffset *
offset_new (GpuCudaModule  *module,
            GError        **error)
{
  g_autoptr (GString) log = g_string_new (NULL);
  GpuCudaModule *copy = _gpu_cuda_module_load (module->context, module->image, NULL, log, error);
  GpuCudaOffset *self;

  if (copy == NULL)
    return NULL;

  self = g_new0 (GpuCudaOffset, 1);
  g_mutex_init (&self->lock);
  self->module = copy;
  self->free = offset_free;

  if (find_variable (copy, &self->address, error)
      && _gpu_cuda_check (_gpu_cuda.cuEventCreate (&self->last, CU_EVENT_DISABLE_TIMING),
                          "cuEventCreate", error))
    return self;

  offset_free (self, TRUE);

  return NULL;
}

/* Caller has entered the context and holds the static lock. */
static gboolean
prepare_locked (GpuCudaKernel  *kernel,
                GError        **error)
{
  GpuCudaModule *module = kernel->module;
  CUdeviceptr address;
  GError *failure = NULL;

  if (kernel->with_offset != NULL)
    return TRUE;

  if (!kernel->is_described || !find_variable (module, &address, &failure))
    {
      if (failure == NULL)
        g_set_error (&failure, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                     "kernel \"%s\": CUDA has no global offset; only kernels in the portable "
                     "dialect, in programs that were not linked, take one", kernel->name);
      g_propagate_error (error, failure);
      return FALSE;
    }

  if (module->offset == NULL)
    module->offset = offset_new (module, error);

  if (module->offset != NULL)
    g_atomic_pointer_set (&kernel->with_offset,
                          (GpuCudaKernel *) _gpu_cuda_kernel_new (module->offset->module,
                                                                  kernel->name, kernel->name,
                                                                  error));

  return kernel->with_offset != NULL;
}

gboolean
_gpu_cuda_kernel_prepare_offset (GpuNativeContext  *context,
                                 GpuNativeKernel   *native,
                                 GError           **error)
{
  GpuCudaKernel *kernel = (GpuCudaKernel *) native;
  gboolean entered;
  gboolean success;

  if (g_atomic_pointer_get (&kernel->with_offset) != NULL)
    return TRUE;

  if (!_gpu_cuda_enter ((GpuCudaContext *) context, &entered, error))
    return FALSE;

  G_LOCK (offsets);
  success = prepare_locked (kernel, error);
  G_UNLOCK (offsets);
  _gpu_cuda_leave (entered);

  return success;
}

static gboolean
is_same (const GpuExtent *a,
         const GpuExtent *b)
{
  return a->width == b->width && a->height == b->height && a->depth == b->depth;
}

/* The driver copies pageable memory before cuMemcpyHtoDAsync() returns. */
CUresult
_gpu_cuda_offset_begin (GpuCudaOffset    *self,
                        CUstream          stream,
                        const GpuExtent  *offset,
                        const char      **function)
{
  CUresult code;

  g_mutex_lock (&self->lock);
  *function = "cuStreamWaitEvent";
  code = _gpu_cuda.cuStreamWaitEvent (stream, self->last, 0);

  if (code == CUDA_SUCCESS && !is_same (&self->offset, offset))
    {
      *function = "cuMemcpyHtoDAsync";
      code = _gpu_cuda.cuMemcpyHtoDAsync (self->address, offset, sizeof *offset, stream);

      /* After a failure, the value is unknown: the next launch must write it. */
      self->offset = code == CUDA_SUCCESS ? *offset : (GpuExtent) { 0, 0, 0 };
    }

  return code;
}

CUresult
_gpu_cuda_offset_end (GpuCudaOffset  *self,
                      CUstream        stream,
                      CUresult        code,
                      const char    **function)
{
  if (code == CUDA_SUCCESS)
    {
      *function = "cuEventRecord";
      code = _gpu_cuda.cuEventRecord (self->last, stream);
    }

  g_mutex_unlock (&self->lock);

  return code;
}

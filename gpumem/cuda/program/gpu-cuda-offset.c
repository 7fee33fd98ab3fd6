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

/* Caller has entered the context. Finds the variable for the offset. */
static gboolean
find_variable (const GpuCudaKernel  *kernel,
               const GpuCudaModule  *module,
               CUdeviceptr          *address,
               GError              **error)
{
  gsize size = 0;
  CUresult code = kernel->is_described
                  ? _gpu_cuda.cuModuleGetGlobal (address, &size, module->module,
                                                 GPU_CUDA_OFFSET_NAME)
                  : CUDA_ERROR_NOT_FOUND;

  if (code == CUDA_ERROR_NOT_FOUND)
    g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                 "kernel \"%s\": CUDA has no global offset; only kernels in the portable dialect, "
                 "in programs that were not linked, take one", kernel->name);
  else if (code == CUDA_SUCCESS && size != sizeof (GpuExtent))
    g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                 "kernel \"%s\": no global offset is possible, because the variable \"%s\" has %"
                 G_GSIZE_FORMAT " bytes, not %" G_GSIZE_FORMAT, kernel->name,
                 GPU_CUDA_OFFSET_NAME, size, sizeof (GpuExtent));
  else
    return _gpu_cuda_check (code, "cuModuleGetGlobal", error);

  return FALSE;
}

/* The copy of the module has variables of its own, so launches with an offset would neither see nor
 * change the values of the other launches. */
static gboolean
check_variables (const GpuCudaKernel  *kernel,
                 GError              **error)
{
  g_autofree char *name = NULL;

  if (kernel->module->image == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "kernel \"%s\": on CUDA, a wrapped program takes no global offset, because "
                   "the driver does not return its binary; pass the offset as an argument",
                   kernel->name);
      return FALSE;
    }

  if (!_gpu_cuda_binary_find_variable (kernel->module->image, &name))
    return TRUE;

  if (name != NULL)
    g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                 "kernel \"%s\": on CUDA, a program with a variable at program scope takes no "
                 "global offset, and this program has \"%s\"; pass the offset as an argument",
                 kernel->name, name);
  else
    g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                 "kernel \"%s\": on CUDA, a program with a variable at program scope takes no "
                 "global offset, and the binary of this program does not list its variables",
                 kernel->name);

  return FALSE;
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
offset_new (GpuCudaKernel  *kernel,
            GError        **error)
{
  g_autoptr (GString) log = g_string_new (NULL);
  GpuCudaModule *module = kernel->module;
  GpuCudaModule *copy = _gpu_cuda_module_load (module->context, module->image, NULL, log, error);
  GpuCudaOffset *self;

  if (copy == NULL)
    return NULL;

  self = g_new0 (GpuCudaOffset, 1);
  g_mutex_init (&self->lock);
  self->module = copy;
  self->free = offset_free;

  if (find_variable (kernel, copy, &self->address, error)
      && _gpu_cuda_check (_gpu_cuda.cuEventCreate (&self->last, CU_EVENT_DISABLE_TIMING),
                          "cuEventCreate", error))
    return self;

  offset_free (self, TRUE);

  return NULL;
}

/* Caller has entered the context and holds the lock of the module. */
static gboolean
prepare_locked (GpuCudaKernel  *kernel,
                GError        **error)
{
  GpuCudaModule *module = kernel->module;
  GpuCudaKernel *copy;
  CUdeviceptr address;

  if (kernel->with_offset != NULL)
    return TRUE;

  if (module->offset == NULL && find_variable (kernel, module, &address, error)
      && check_variables (kernel, error))
    module->offset = offset_new (kernel, error);

  if (module->offset == NULL)
    return FALSE;

  copy = (GpuCudaKernel *) _gpu_cuda_kernel_new (module->offset->module, kernel->name,
                                                 kernel->name, error);

  if (copy != NULL && !_gpu_cuda_kernel_copy_attributes (copy, kernel, error))
    {
      _gpu_cuda_kernel_free (NULL, &copy->base);
      copy = NULL;
    }

  g_atomic_pointer_set (&kernel->with_offset, copy);

  return copy != NULL;
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

  g_mutex_lock (&kernel->module->offset_lock);
  success = prepare_locked (kernel, error);
  g_mutex_unlock (&kernel->module->offset_lock);
  _gpu_cuda_leave (entered);

  return success;
}

/* Other kernel objects of the same function share its attributes, so the kernel also counts if only
 * another object has been launched with an offset. */
gboolean
_gpu_cuda_kernel_find_copy (GpuCudaKernel   *kernel,
                            GpuCudaKernel  **copy,
                            GError         **error)
{
  GpuCudaModule *module = kernel->module;
  gboolean has_copy;

  g_mutex_lock (&module->offset_lock);
  has_copy = module->offset != NULL;
  g_mutex_unlock (&module->offset_lock);

  if (has_copy && !_gpu_cuda_kernel_prepare_offset (&module->context->base, &kernel->base, error))
    return FALSE;

  *copy = has_copy ? kernel->with_offset : NULL;

  return TRUE;
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

  if (code != CUDA_SUCCESS)
    g_mutex_unlock (&self->lock);

  return code;
}

CUresult
_gpu_cuda_offset_end (GpuCudaOffset  *self,
                      CUstream        stream,
                      CUresult        code,
                      const char    **function)
{
  /* Record the event even if the launch failed: the stream may not have written the offset yet, and
   * the next launch, on any stream, must wait for that. */
  CUresult recorded = _gpu_cuda.cuEventRecord (self->last, stream);

  if (recorded != CUDA_SUCCESS)
    self->offset = (GpuExtent) { 0, 0, 0 };

  g_mutex_unlock (&self->lock);

  if (code != CUDA_SUCCESS || recorded == CUDA_SUCCESS)
    return code;

  *function = "cuEventRecord";

  return recorded;
}

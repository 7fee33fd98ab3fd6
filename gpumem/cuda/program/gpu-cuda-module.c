/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Modules: code that the driver has loaded. */
#include "config.h"

#include <string.h>

#include "gpumem/cuda/core/gpu-cuda-current.h"
#include "gpumem/cuda/program/gpu-cuda-program.h"

/* The name of a variable that no program defines. */
#define NO_VARIABLE "_gpumem_no_variable"

G_LOCK_DEFINE_STATIC (limits);

static GpuCudaModule *
module_new (GpuCudaContext *context,
            CUmodule        handle,
            GBytes         *image)
{
  GpuCudaModule *module = g_new0 (GpuCudaModule, 1);

  g_atomic_ref_count_init (&module->refs);
  module->context = context;
  module->module = handle;
  module->image = image != NULL ? g_bytes_ref (image) : NULL;
  module->limits = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  g_mutex_init (&module->offset_lock);

  return module;
}

GpuCudaModule *
_gpu_cuda_module_ref (GpuCudaModule *module)
{
  g_atomic_ref_count_inc (&module->refs);

  return module;
}

void
_gpu_cuda_module_unref (GpuCudaModule *module)
{
  gboolean has_context;
  gboolean entered;

  if (!g_atomic_ref_count_dec (&module->refs))
    return;

  /* If the context cannot be entered, the driver has already freed the module: the context is lost,
   * or the process ends. */
  has_context = _gpu_cuda_enter_again (module->context, &entered, NULL);

  if (module->offset != NULL)
    module->offset->free (module->offset, has_context);

  if (has_context)
    {
      if (!module->is_borrowed)
        _gpu_cuda.cuModuleUnload (module->module);
      _gpu_cuda_leave (entered);
    }

  g_mutex_clear (&module->offset_lock);
  g_hash_table_unref (module->limits);
  g_clear_pointer (&module->image, g_bytes_unref);
  g_free (module);
}

/* Returns PTX with a terminating zero, which the driver requires. Returns other images
 * unchanged. */
static GBytes *
terminate (GBytes *image)
{
  gsize size;
  const char *data = g_bytes_get_data (image, &size);

  if (_gpu_cuda_binary_identify (image) != GPU_CUDA_BINARY_PTX ||
      memchr (data, '\0', size) != NULL)
    return g_bytes_ref (image);

  return g_bytes_new_take (g_strndup (data, size), size + 1);
}

/* Caller has entered the context. The driver overwrites the sizes of the logs in `values`, so the
 * sizes must be restored before the driver call is repeated. */
static CUresult
load (GpuCudaContext *context,
      gconstpointer   data,
      GpuCudaJit     *jit,
      CUmodule       *module)
{
  void *values[G_N_ELEMENTS (jit->values)];
  CUresult code;

  memcpy (values, jit->values, sizeof values);
  code = _gpu_cuda.cuModuleLoadDataEx (module, data, jit->n, jit->options, jit->values);

  if (!_gpu_cuda_trim_pools (context, code))
    return code;

  memcpy (jit->values, values, sizeof values);

  return _gpu_cuda.cuModuleLoadDataEx (module, data, jit->n, jit->options, jit->values);
}

static void
set_load_error (GError     **error,
                const char  *function,
                CUresult     code,
                gsize        size,
                GpuCudaJit  *jit)
{
  g_autoptr (GString) log = g_string_new (NULL);

  _gpu_cuda_jit_append_log (jit, log);
  _gpu_cuda_set_error (error, function, code, "%" G_GSIZE_FORMAT " bytes%s%s", size,
                       log->len > 0 ? ":\n" : "", log->str);
}

GpuCudaModule *
_gpu_cuda_module_load (GpuCudaContext  *context,
                       GBytes          *image,
                       const char      *options,
                       GString         *log,
                       GError         **error)
{
  g_autoptr (GBytes) terminated = NULL;
  GpuCudaModule *module = NULL;
  GpuCudaJit jit;
  CUmodule handle;
  CUresult code;
  gboolean entered;

  if (!_gpu_cuda_binary_check (image, error) || !_gpu_cuda_jit_init (&jit, options, error))
    return NULL;

  if (!_gpu_cuda_enter (context, &entered, error))
    {
      _gpu_cuda_jit_clear (&jit);
      return NULL;
    }

  terminated = terminate (image);
  code = load (context, g_bytes_get_data (terminated, NULL), &jit, &handle);
  _gpu_cuda_leave (entered);

  if (code == CUDA_SUCCESS)
    {
      module = module_new (context, handle, image);
      _gpu_cuda_jit_append_log (&jit, log);
    }
  else
    {
      set_load_error (error, "cuModuleLoadDataEx", code, g_bytes_get_size (image), &jit);
    }

  _gpu_cuda_jit_clear (&jit);

  return module;
}

/* The driver does not report the context of a module, but fails for an invalid module. */
GpuCudaModule *
_gpu_cuda_module_wrap (GpuCudaContext  *context,
                       CUmodule         handle,
                       GpuWrapMode      mode,
                       GError         **error)
{
  GpuCudaModule *module;
  CUdeviceptr address;
  gboolean entered;
  CUresult code;
  gsize size;

  if (!_gpu_cuda_enter (context, &entered, error))
    return NULL;

  code = _gpu_cuda.cuModuleGetGlobal (&address, &size, handle, NO_VARIABLE);
  _gpu_cuda_leave (entered);

  if (code != CUDA_SUCCESS && code != CUDA_ERROR_NOT_FOUND)
    {
      _gpu_cuda_set_error (error, "cuModuleGetGlobal", code, "module %p", (gpointer) handle);
      return NULL;
    }

  module = module_new (context, handle, NULL);
  module->is_borrowed = mode == GPU_WRAP_MODE_BORROW;

  return module;
}

/* --- linking ---------------------------------------------------------------------------------- */

static CUjitInputType
get_input_type (GBytes *image)
{
  switch (_gpu_cuda_binary_identify (image))
    {
    case GPU_CUDA_BINARY_ELF:
      return _gpu_cuda_binary_is_cubin (image) ? CU_JIT_INPUT_CUBIN : CU_JIT_INPUT_OBJECT;
    case GPU_CUDA_BINARY_FATBIN:
      return CU_JIT_INPUT_FATBINARY;
    case GPU_CUDA_BINARY_PTX:
      return CU_JIT_INPUT_PTX;
    case GPU_CUDA_BINARY_UNKNOWN:
    default:
      return CU_JIT_INPUT_LIBRARY;
    }
}

static gboolean
is_archive (GBytes *image)
{
  static const char magic[] = "!<arch>\n";
  gsize size;
  gconstpointer data = g_bytes_get_data (image, &size);

  return size >= strlen (magic) && memcmp (data, magic, strlen (magic)) == 0;
}

static gboolean
check_images (GBytes *const  *images,
              guint           n_images,
              GError        **error)
{
  for (guint i = 0; i < n_images; i++)
    {
      if (!is_archive (images[i]) && !_gpu_cuda_binary_check (images[i], error))
        {
          g_prefix_error (error, "image %u: ", i);
          return FALSE;
        }
    }

  return TRUE;
}

/* Caller has entered the context. @state owns @cubin. */
static CUresult
link_images (CUlinkState    state,
             GBytes *const *images,
             guint          n_images,
             void         **cubin,
             gsize         *size,
             const char   **function)
{
  *function = "cuLinkAddData";

  for (guint i = 0; i < n_images; i++)
    {
      g_autoptr (GBytes) image = terminate (images[i]);
      g_autofree char *name = g_strdup_printf ("image %u", i);
      gsize length;
      gconstpointer data = g_bytes_get_data (image, &length);
      CUresult code = _gpu_cuda.cuLinkAddData (state, get_input_type (image), (void *) data, length,
                                               name, 0, NULL, NULL);

      if (code != CUDA_SUCCESS)
        return code;
    }

  *function = "cuLinkComplete";

  return _gpu_cuda.cuLinkComplete (state, cubin, size);
}

static GBytes *
link_in_context (GBytes *const  *images,
                 guint           n_images,
                 GpuCudaJit     *jit,
                 GError        **error)
{
  const char *function = "cuLinkCreate";
  GBytes *linked = NULL;
  CUlinkState state;
  void *cubin = NULL;
  gsize size = 0;
  CUresult code = _gpu_cuda.cuLinkCreate (jit->n, jit->options, jit->values, &state);

  if (code == CUDA_SUCCESS)
    {
      code = link_images (state, images, n_images, &cubin, &size, &function);
      if (code == CUDA_SUCCESS)
        linked = g_bytes_new (cubin, size);
      _gpu_cuda.cuLinkDestroy (state);
    }

  if (linked == NULL)
    {
      g_autoptr (GString) log = g_string_new (NULL);

      _gpu_cuda_jit_append_log (jit, log);
      _gpu_cuda_set_error (error, function, code, "%u images%s%s", n_images,
                           log->len > 0 ? ":\n" : "", log->str);
    }

  return linked;
}

GpuCudaModule *
_gpu_cuda_module_link (GpuCudaContext  *context,
                       GBytes *const   *images,
                       guint            n_images,
                       const char      *options,
                       GString         *log,
                       GError         **error)
{
  g_autoptr (GBytes) linked = NULL;
  GpuCudaJit jit;
  gboolean entered;

  if (!check_images (images, n_images, error) || !_gpu_cuda_jit_init (&jit, options, error))
    return NULL;

  if (_gpu_cuda_enter (context, &entered, error))
    {
      linked = link_in_context (images, n_images, &jit, error);
      _gpu_cuda_leave (entered);
    }

  if (linked != NULL)
    _gpu_cuda_jit_append_log (&jit, log);

  _gpu_cuda_jit_clear (&jit);

  return linked != NULL ? _gpu_cuda_module_load (context, linked, NULL, log, error) : NULL;
}

/* --- kernels and variables of a module -------------------------------------------------------- */

static CUresult
list_functions (CUmodule   module,
                GPtrArray *names)
{
  g_autofree CUfunction *functions = NULL;
  unsigned int n = 0;
  CUresult code = _gpu_cuda.cuModuleGetFunctionCount (&n, module);

  if (code != CUDA_SUCCESS || n == 0)
    return code;

  functions = g_new0 (CUfunction, n);
  code = _gpu_cuda.cuModuleEnumerateFunctions (functions, n, module);

  for (unsigned int i = 0; code == CUDA_SUCCESS && i < n; i++)
    {
      const char *name = NULL;

      code = _gpu_cuda.cuFuncGetName (&name, functions[i]);
      if (code == CUDA_SUCCESS)
        g_ptr_array_add (names, g_strdup (name));
    }

  return code;
}

static char **
list_names (GpuCudaModule  *module,
            GError        **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  gboolean entered;
  CUresult code;

  if (!_gpu_cuda_enter (module->context, &entered, error))
    return NULL;

  code = list_functions (module->module, names);
  _gpu_cuda_leave (entered);

  if (!_gpu_cuda_check (code, "cuModuleEnumerateFunctions", error))
    return NULL;

  g_ptr_array_add (names, NULL);

  return (char **) g_ptr_array_free (g_steal_pointer (&names), FALSE);
}

char **
_gpu_cuda_module_list (GpuCudaModule  *module,
                       GError        **error)
{
  char **names;

  if (_gpu_cuda.has[GPU_CUDA_GROUP_KERNEL_INFO])
    return list_names (module, error);

  names = module->image != NULL ? _gpu_cuda_binary_list_kernels (module->image) : NULL;
  if (names == NULL)
    _gpu_cuda_has_group (GPU_CUDA_GROUP_KERNEL_INFO, error);

  return names;
}

gint *
_gpu_cuda_module_get_limit (GpuCudaModule *module,
                            CUfunction     function,
                            gint           initial)
{
  gint *limit;

  G_LOCK (limits);
  limit = g_hash_table_lookup (module->limits, function);

  if (limit == NULL)
    {
      limit = g_new (gint, 1);
      *limit = initial;
      g_hash_table_insert (module->limits, function, limit);
    }

  G_UNLOCK (limits);

  return limit;
}

/* Caller has entered the context. */
static gboolean
read_global (GpuCudaModule  *module,
             const char     *name,
             GBytes        **data,
             GError        **error)
{
  g_autofree gpointer content = NULL;
  CUdeviceptr address;
  CUstream stream;
  gsize size;
  CUresult code = _gpu_cuda.cuModuleGetGlobal (&address, &size, module->module, name);

  if (code == CUDA_ERROR_NOT_FOUND)
    return FALSE;

  if (!_gpu_cuda_check (code, "cuModuleGetGlobal", error) ||
      !_gpu_cuda_get_internal_stream (module->context, &stream, error))
    return FALSE;

  content = g_malloc0 (size);
  code = _gpu_cuda.cuMemcpyDtoHAsync (content, address, size, stream);

  if (!_gpu_cuda_check (code, "cuMemcpyDtoHAsync", error) ||
      !_gpu_cuda_check (_gpu_cuda.cuStreamSynchronize (stream), "cuStreamSynchronize", error))
    return FALSE;

  *data = g_bytes_new_take (g_steal_pointer (&content), size);

  return TRUE;
}

gboolean
_gpu_cuda_module_read (GpuCudaModule  *module,
                       const char     *name,
                       GBytes        **data,
                       GError        **error)
{
  gboolean entered;
  gboolean read;

  if (!_gpu_cuda_enter (module->context, &entered, error))
    return FALSE;

  read = read_global (module, name, data, error);
  _gpu_cuda_leave (entered);

  return read;
}

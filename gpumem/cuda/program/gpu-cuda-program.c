/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"
#include "gpumem/cuda/program/gpu-cuda-program.h"

static const GpuCudaDevice *
get_device (GpuNativeContext *context)
{
  return ((GpuCudaContext *) context)->device;
}

/* Takes ownership of @module and @log. Returns NULL if @module is NULL. */
static GpuNativeProgram *
program_new (GpuCudaModule *module,
             GString       *log)
{
  GpuCudaProgram *program;
  char *text = g_string_free (log, log->len == 0);

  if (module == NULL)
    {
      g_free (text);
      return NULL;
    }

  program = g_new0 (GpuCudaProgram, 1);
  program->base.backend = &_gpu_cuda_backend;
  program->base.log = text;
  program->module = module;

  return &program->base;
}

static GpuNativeProgram *
program_build_names (GpuNativeContext    *context,
                     const char          *source,
                     const char          *options,
                     const char *const   *headers,
                     const char *const   *names,
                     char              ***lowered,
                     GError             **error)
{
  g_autofree char *messages = NULL;
  g_autoptr (GBytes) image = _gpu_cuda_compile (get_device (context)->compute_capability, source,
                                                options, headers, FALSE, names, lowered, &messages,
                                                error);
  GpuNativeProgram *program;
  GpuCudaModule *module;
  GString *log;

  if (image == NULL)
    return NULL;

  log = g_string_new (messages);
  module = _gpu_cuda_module_load ((GpuCudaContext *) context, image, NULL, log, error);
  program = program_new (module, log);

  if (program == NULL && names != NULL)
    g_clear_pointer (lowered, g_strfreev);

  return program;
}

static GpuNativeProgram *
program_build_source (GpuNativeContext   *context,
                      const char         *source,
                      const char         *options,
                      const char *const  *headers,
                      GError            **error)
{
  return program_build_names (context, source, options, headers, NULL, NULL, error);
}

static GpuNativeProgram *
program_load_binary (GpuNativeContext  *context,
                     GBytes            *binary,
                     const char        *options,
                     GError           **error)
{
  GString *log = g_string_new (NULL);

  return program_new (_gpu_cuda_module_load ((GpuCudaContext *) context, binary, options, log,
                                             error), log);
}

static GpuNativeProgram *
program_load_cached (GpuNativeContext  *context,
                     GBytes            *binary,
                     GError           **error)
{
  return program_load_binary (context, binary, NULL, error);
}

static GBytes *
program_compile (GpuNativeContext   *context,
                 const char         *source,
                 const char         *options,
                 const char *const  *headers,
                 GError            **error)
{
  return _gpu_cuda_compile (get_device (context)->compute_capability, source, options, headers,
                            TRUE, NULL, NULL, NULL, error);
}

static GpuNativeProgram *
program_link (GpuNativeContext  *context,
              GBytes *const     *images,
              guint              n_images,
              const char        *options,
              GError           **error)
{
  GString *log = g_string_new (NULL);

  return program_new (_gpu_cuda_module_link ((GpuCudaContext *) context, images, n_images, options,
                                             log, error), log);
}

static GpuNativeProgram *
program_wrap (GpuNativeContext  *context,
              guint64            handle,
              GpuWrapMode        mode,
              GError           **error)
{
  return program_new (_gpu_cuda_module_wrap ((GpuCudaContext *) context,
                                             (CUmodule) (guintptr) handle, mode, error),
                      g_string_new (NULL));
}

static void
program_fingerprint (GpuNativeContext *context,
                     GString          *text)
{
  const GpuCudaDevice *device = get_device (context);

  g_string_append_printf (text, "cuda " PACKAGE_VERSION "\n%s\nsm_%d\n", device->base.name,
                          device->compute_capability);
  _gpu_cuda_compile_identify (text);
}

static void
program_free (GpuNativeContext *context G_GNUC_UNUSED,
              GpuNativeProgram *program)
{
  _gpu_cuda_module_unref (((GpuCudaProgram *) program)->module);
  g_free (program->log);
  g_free (program);
}

static GBytes *
program_get_binary (GpuNativeContext  *context G_GNUC_UNUSED,
                    GpuNativeProgram  *program,
                    GError           **error)
{
  const GpuCudaModule *module = ((GpuCudaProgram *) program)->module;

  if (module->image != NULL)
    return g_bytes_ref (module->image);

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "CUDA does not return the binary of module %p, which is wrapped",
               (gpointer) module->module);

  return NULL;
}

/* Lists each kernel under its name in the source. If this name is not unique, lists the kernel
 * under its mangled name. */
static char **
program_list_kernels (GpuNativeContext  *context G_GNUC_UNUSED,
                      GpuNativeProgram  *program,
                      GError           **error)
{
  g_auto (GStrv) names = _gpu_cuda_module_list (((GpuCudaProgram *) program)->module, error);
  char **simple;
  guint n;

  if (names == NULL)
    return NULL;

  n = g_strv_length (names);
  simple = g_new0 (char *, n + 1);

  for (guint i = 0; i < n; i++)
    {
      g_autofree char *name = _gpu_cuda_name_simplify (names[i]);
      const char *found = _gpu_cuda_name_find ((const char *const *) names, name);

      simple[i] = g_strcmp0 (found, names[i]) == 0 ? g_steal_pointer (&name)
                                                   : g_strdup (names[i]);
    }

  return simple;
}

/* Returns the mangled name of the kernel @name, or NULL if there is no such kernel or more than
 * one. */
static char *
find_name (GpuCudaModule *module,
           const char    *name)
{
  g_auto (GStrv) names = _gpu_cuda_module_list (module, NULL);

  return names != NULL ? g_strdup (_gpu_cuda_name_find ((const char *const *) names, name)) : NULL;
}

static GpuNativeKernel *
program_create_kernel (GpuNativeContext  *context,
                       GpuNativeProgram  *program,
                       const char        *name,
                       GError           **error)
{
  GpuCudaModule *module = ((GpuCudaProgram *) program)->module;
  g_autoptr (GError) reason = NULL;
  GpuNativeKernel *kernel = _gpu_cuda_kernel_new (module, name, name, &reason);
  g_autofree char *native_name = NULL;
  g_auto (GStrv) names = NULL;
  g_autofree char *list = NULL;

  if (kernel != NULL)
    return kernel;

  if (g_error_matches (reason, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT))
    {
      native_name = find_name (module, name);
      if (native_name != NULL)
        return _gpu_cuda_kernel_new (module, name, native_name, error);

      names = program_list_kernels (context, program, NULL);
      list = names != NULL ? g_strjoinv (", ", names) : NULL;
      if (list != NULL && !g_strv_contains ((const char *const *) names, name))
        {
          _gpu_cuda_set_error (error, "cuModuleGetFunction", CUDA_ERROR_NOT_FOUND,
                               *list != '\0' ? "the program only has the kernels %s"
                                             : "the program has no kernels%s", list);
          return NULL;
        }
    }

  g_propagate_error (error, g_steal_pointer (&reason));

  return NULL;
}

static GpuNativeBuffer *
program_get_global (GpuNativeContext  *context,
                    GpuNativeProgram  *program,
                    const char        *name,
                    GError           **error)
{
  GpuCudaModule *module = ((GpuCudaProgram *) program)->module;
  CUdeviceptr address = 0;
  gsize size = 0;
  CUresult code;
  gboolean entered;

  if (!_gpu_cuda_enter ((GpuCudaContext *) context, &entered, error))
    return NULL;

  code = _gpu_cuda.cuModuleGetGlobal (&address, &size, module->module, name);
  _gpu_cuda_leave (entered);

  if (code != CUDA_SUCCESS)
    {
      _gpu_cuda_set_error (error, "cuModuleGetGlobal", code, "\"%s\"", name);
      return NULL;
    }

  return &_gpu_cuda_buffer_new (address, size, GPU_CUDA_MEMORY_BORROWED)->base;
}

static guint64
program_get_handle (GpuNativeProgram *program)
{
  return (guint64) (guintptr) ((GpuCudaProgram *) program)->module->module;
}

const GpuProgramOps _gpu_cuda_program_ops =
{
  .build_source  = program_build_source,
  .load_binary   = program_load_binary,
  .build_names   = program_build_names,
  .compile       = program_compile,
  .link          = program_link,
  .wrap          = program_wrap,
  .load_cached   = program_load_cached,
  .fingerprint   = program_fingerprint,
  .assembly_is_closed = TRUE,
  .options_are_shell_words = TRUE,
  .free          = program_free,
  .get_binary    = program_get_binary,
  .get_handle    = program_get_handle,
  .list_kernels  = program_list_kernels,
  .create_kernel = program_create_kernel,
  .get_global    = program_get_global
};

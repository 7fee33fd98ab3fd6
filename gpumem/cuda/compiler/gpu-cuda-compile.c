/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Compiles source to a cubin or PTX. */
#include "config.h"

#include <string.h>

#include "gpumem/cuda/compiler/gpu-cuda-compiler.h"
#include "gpumem/cuda/compiler/gpu-cuda-nvrtc.h"
#include "gpumem/dialect/gpu-builtin-private.h"

static GpuError
map_result (nvrtcResult result)
{
  switch (result)
    {
    case NVRTC_ERROR_OUT_OF_MEMORY:
      return GPU_ERROR_OUT_OF_HOST_MEMORY;
    case NVRTC_ERROR_COMPILATION:
    case NVRTC_ERROR_INVALID_OPTION:
    case NVRTC_ERROR_BUILTIN_OPERATION_FAILURE:
    case NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID:
      return GPU_ERROR_BUILD_FAILED;
    default:
      return GPU_ERROR_FAILED;
    }
}

static gboolean
check (nvrtcResult   result,
       const char   *function,
       const char   *log,
       GError      **error)
{
  if (result == NVRTC_SUCCESS)
    return TRUE;

  g_set_error (error, GPU_ERROR, map_result (result), "%s: %s (%u)%s%s", function,
               _gpu_cuda_nvrtc.nvrtcGetErrorString (result), result, log != NULL ? ":\n" : "",
               log != NULL ? log : "");

  return FALSE;
}

/* Removes the descriptions of kernels from the lines of the source that NVRTC quotes. They were not
 * in the user's source. */
static void
hide_descriptions (char *log)
{
  char *start;

  while ((start = strstr (log, " GPU_DESCRIBE (")) != NULL)
    {
      char *line_end = start + strcspn (start, "\n");
      char *end = strstr (start, "\")");

      end = end != NULL && end < line_end ? end + 2 : line_end;
      memmove (start, end, strlen (end) + 1);
      log = start;
    }
}

/* Returns NULL if the log is empty. */
static char *
get_log (nvrtcProgram program)
{
  g_autofree char *raw = NULL;
  char *log;
  gsize size = 0;

  if (_gpu_cuda_nvrtc.nvrtcGetProgramLogSize (program, &size) != NVRTC_SUCCESS || size <= 1)
    return NULL;

  raw = g_malloc0 (size + 1);
  if (_gpu_cuda_nvrtc.nvrtcGetProgramLog (program, raw) != NVRTC_SUCCESS)
    return NULL;

  log = g_strstrip (g_utf8_make_valid (raw, -1));
  hide_descriptions (log);
  if (*log == '\0')
    g_clear_pointer (&log, g_free);

  return log;
}

/* Returns a cubin, or the PTX for "compute" architectures, for which NVRTC creates no cubin. */
static GBytes *
get_image (nvrtcProgram   program,
           GError       **error)
{
  g_autofree char *data = NULL;
  gsize size = 0;
  nvrtcResult result = _gpu_cuda_nvrtc.nvrtcGetCUBINSize (program, &size);
  gboolean is_cubin = result == NVRTC_SUCCESS && size > 0;

  if (!is_cubin &&
      !check (_gpu_cuda_nvrtc.nvrtcGetPTXSize (program, &size), "nvrtcGetPTXSize", NULL, error))
    return NULL;

  data = g_malloc0 (size + 1);
  result = is_cubin ? _gpu_cuda_nvrtc.nvrtcGetCUBIN (program, data)
                    : _gpu_cuda_nvrtc.nvrtcGetPTX (program, data);

  if (!check (result, is_cubin ? "nvrtcGetCUBIN" : "nvrtcGetPTX", NULL, error))
    return NULL;

  /* The size of PTX includes the terminating zero. */
  return g_bytes_new_take (g_steal_pointer (&data), is_cubin ? size : strlen (data));
}

static gboolean
add_names (nvrtcProgram        program,
           const char *const  *names,
           GError            **error)
{
  for (guint i = 0; names != NULL && names[i] != NULL; i++)
    {
      if (!check (_gpu_cuda_nvrtc.nvrtcAddNameExpression (program, names[i]),
                  "nvrtcAddNameExpression", names[i], error))
        return FALSE;
    }

  return TRUE;
}

static char **
get_lowered (nvrtcProgram        program,
             const char *const  *names,
             GError            **error)
{
  guint n = g_strv_length ((char **) names);
  g_auto (GStrv) lowered = g_new0 (char *, n + 1);

  for (guint i = 0; i < n; i++)
    {
      const char *name = NULL;

      if (!check (_gpu_cuda_nvrtc.nvrtcGetLoweredName (program, names[i], &name),
                  "nvrtcGetLoweredName", names[i], error))
        return NULL;

      lowered[i] = g_strdup (name);
    }

  return g_steal_pointer (&lowered);
}

/* Removes @option, which NVRTC does not support, from @options. Returns TRUE if @options contained
 * it. */
static gboolean
take_option (GPtrArray  *options,
             const char *option)
{
  guint index;

  if (!g_ptr_array_find_with_equal_func (options, option, g_str_equal, &index))
    return FALSE;

  g_ptr_array_remove_index (options, index);

  return TRUE;
}

static gboolean
run (nvrtcProgram   program,
     GPtrArray     *options,
     char         **log,
     GError       **error)
{
  gboolean warnings_are_errors = take_option (options, "-Werror");
  nvrtcResult result = _gpu_cuda_nvrtc.nvrtcCompileProgram (program, (int) options->len,
                                                            (const char *const *) options->pdata);

  *log = get_log (program);

  if (result == NVRTC_SUCCESS && warnings_are_errors && *log != NULL &&
      strstr (*log, "warning") != NULL)
    result = NVRTC_ERROR_COMPILATION;

  return check (result, "nvrtcCompileProgram", *log, error);
}

/* @headers (nullable) has names and texts, alternately. */
static gboolean
create_program (nvrtcProgram   *program,
                const char     *text,
                char          **headers,
                GError        **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  g_autoptr (GPtrArray) texts = g_ptr_array_new ();

  for (; headers != NULL && *headers != NULL; headers += 2)
    {
      g_ptr_array_add (names, headers[0]);
      g_ptr_array_add (texts, headers[1]);
    }

  return check (_gpu_cuda_nvrtc.nvrtcCreateProgram (program, text, "program.cu", (int) names->len,
                                                    (const char *const *) texts->pdata,
                                                    (const char *const *) names->pdata),
                "nvrtcCreateProgram", NULL, error);
}

static GBytes *
compile (const char          *text,
         GPtrArray           *options,
         char               **headers,
         const char *const   *names,
         char              ***lowered,
         char               **log,
         GError             **error)
{
  GBytes *image = NULL;
  nvrtcProgram program;

  if (!create_program (&program, text, headers, error))
    return NULL;

  if (add_names (program, names, error) && run (program, options, log, error))
    {
      image = get_image (program, error);

      if (image != NULL && names != NULL)
        {
          *lowered = get_lowered (program, names, error);
          if (*lowered == NULL)
            g_clear_pointer (&image, g_bytes_unref);
        }
    }

  _gpu_cuda_nvrtc.nvrtcDestroyProgram (&program);

  return image;
}

GBytes *
_gpu_cuda_compile (int                  compute_capability,
                   const char          *source,
                   const char          *options,
                   const char *const   *headers,
                   gboolean             relocatable,
                   const char *const   *names,
                   char              ***lowered,
                   char               **log,
                   GError             **error)
{
  GpuCudaLanguage language = _gpu_cuda_source_identify (source, headers);
  g_auto (GStrv) translated = g_strdupv ((char **) headers);
  g_autoptr (GPtrArray) words = NULL;
  g_autofree char *text = NULL;
  g_autofree char *messages = NULL;
  GBytes *image;

  if (!_gpu_backend_check_process (error) || !_gpu_cuda_nvrtc_load (error))
    return NULL;

  words = _gpu_cuda_options_new (compute_capability, language, options, error);
  if (words == NULL)
    return NULL;

  if (relocatable && !_gpu_cuda_options_have (words, "-rdc") &&
      !_gpu_cuda_options_have (words, "--relocatable-device-code"))
    g_ptr_array_add (words, g_strdup ("--relocatable-device-code=true"));

  text = _gpu_cuda_source_prepare (source, language, words, translated);
  image = compile (text, words, translated, names, lowered, &messages, error);

  if (image == NULL && language == GPU_CUDA_LANGUAGE_PORTABLE)
    _gpu_builtin_explain_failure (source, error);

  if (image != NULL && log != NULL)
    *log = g_steal_pointer (&messages);

  return image;
}

void
_gpu_cuda_compile_identify (GString *text)
{
  g_string_append_printf (text, "driver %d\n", _gpu_cuda.version);

  if (_gpu_cuda_nvrtc_load (NULL))
    g_string_append_printf (text, "nvrtc %d\n", _gpu_cuda_nvrtc.version);
}

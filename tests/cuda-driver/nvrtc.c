/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The functions of the stand-in for NVRTC. */
#include "config.h"

#include <string.h>

#include "nvrtc.h"

#define EXPORT __attribute__ ((visibility ("default")))
#define DEFAULT_ARCHITECTURE 75
#define NVRTC_MAY_FAIL(name)                  \
  G_STMT_START                                \
    {                                         \
      nvrtcResult fault = nvrtc_fault (#name); \
                                              \
      if (fault != NVRTC_SUCCESS)             \
        return fault;                         \
    }                                         \
  G_STMT_END
#define NO_LOWERED_NAMES_BEFORE_COMPILATION 9

#define GPU_CUDA_NVRTC_SYMBOL(result, name, parameters) EXPORT result name parameters;
#include "gpumem/cuda/compiler/gpu-cuda-nvrtc-symbols.h"
#undef GPU_CUDA_NVRTC_SYMBOL

static const int architectures[] = { 75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121 };

static const struct { nvrtcResult code; const char *name; } results[] = {
#define RESULT(name, value) { value, #name },
  GPU_CUDA_NVRTC_CONSTANTS (RESULT)
#undef RESULT
};

const char *
nvrtcGetErrorString (nvrtcResult result)
{
  for (gsize i = 0; i < G_N_ELEMENTS (results); i++)
    if (results[i].code == result)
      return results[i].name;
  return "NVRTC_ERROR unknown";
}

nvrtcResult
nvrtcVersion (int *major,
              int *minor)
{
  NVRTC_MAY_FAIL (nvrtcVersion);
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetNumSupportedArchs (int *n_architectures)
{
  NVRTC_MAY_FAIL (nvrtcGetNumSupportedArchs);
  *n_architectures = G_N_ELEMENTS (architectures);
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetSupportedArchs (int *list)
{
  NVRTC_MAY_FAIL (nvrtcGetSupportedArchs);
  memcpy (list, architectures, sizeof architectures);
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcCreateProgram (nvrtcProgram      *program,
                    const char        *source,
                    const char        *name,
                    int                n_headers,
                    const char *const *headers,
                    const char *const *include_names)
{
  nvrtcProgram self;

  NVRTC_MAY_FAIL (nvrtcCreateProgram);
  if (program == NULL || source == NULL || n_headers < 0)
    return NVRTC_ERROR_INVALID_INPUT;
  self = g_new0 (struct _nvrtcProgram, 1);
  self->source = g_strdup (source);
  self->name = g_strdup (name != NULL ? name : "default_program");
  self->headers = g_ptr_array_new_with_free_func (g_free);
  for (int i = 0; i < n_headers; i++)
    {
      g_ptr_array_add (self->headers, g_strdup (include_names[i]));
      g_ptr_array_add (self->headers, g_strdup (headers[i]));
    }
  self->expressions = g_ptr_array_new_with_free_func (g_free);
  self->lowered = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  self->log = g_string_new (NULL);
  *program = self;
  nvrtc_count_programs (1);
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcDestroyProgram (nvrtcProgram *program)
{
  nvrtcProgram self = *program;

  g_free (self->source);
  g_free (self->name);
  g_free (self->ptx);
  g_ptr_array_unref (self->headers);
  g_ptr_array_unref (self->expressions);
  g_hash_table_unref (self->lowered);
  g_string_free (self->log, TRUE);
  g_clear_pointer (&self->cubin, g_bytes_unref);
  g_free (self);
  nvrtc_count_programs (-1);
  *program = NULL;
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcAddNameExpression (nvrtcProgram       program,
                        const char *const  expression)
{
  NVRTC_MAY_FAIL (nvrtcAddNameExpression);
  g_ptr_array_add (program->expressions, g_strdup (expression));
  return NVRTC_SUCCESS;
}

gboolean
nvrtc_has_architecture (int architecture)
{
  for (gsize i = 0; i < G_N_ELEMENTS (architectures); i++)
    if (architectures[i] == architecture)
      return TRUE;
  return FALSE;
}

nvrtcResult
nvrtcCompileProgram (nvrtcProgram       self,
                     int                n_options,
                     const char *const *words)
{
  NvrtcOptions options = { .architecture = DEFAULT_ARCHITECTURE };
  g_autofree char *cached = nvrtc_cache_find (self, n_options, words);
  nvrtcResult result = NVRTC_SUCCESS;

  NVRTC_MAY_FAIL (nvrtcCompileProgram);
  g_string_truncate (self->log, 0);
  g_hash_table_remove_all (self->lowered);
  g_clear_pointer (&self->cubin, g_bytes_unref);
  g_clear_pointer (&self->ptx, g_free);
  options.flags = g_ptr_array_new_with_free_func (g_free);
  if (!nvrtc_parse_options (self, &options, n_options, words))
    result = NVRTC_ERROR_INVALID_OPTION;
  else if (cached != NULL && nvrtc_cache_load (self, cached))
    result = NVRTC_SUCCESS;
  else if (!nvrtc_compile (self, &options))
    result = NVRTC_ERROR_COMPILATION;
  else if (cached != NULL)
    nvrtc_cache_store (self, cached);
  g_ptr_array_unref (options.flags);
  g_free (options.standard);
  self->compiled = result == NVRTC_SUCCESS;
  return result;
}

/* --- results ---------------------------------------------------------------------------------- */

nvrtcResult
nvrtcGetProgramLogSize (nvrtcProgram  program,
                        size_t       *size)
{
  NVRTC_MAY_FAIL (nvrtcGetProgramLogSize);
  *size = program->log->len + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetProgramLog (nvrtcProgram  program,
                    char         *log)
{
  NVRTC_MAY_FAIL (nvrtcGetProgramLog);
  memcpy (log, program->log->str, program->log->len + 1);
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetCUBINSize (nvrtcProgram  program,
                   size_t       *size)
{
  NVRTC_MAY_FAIL (nvrtcGetCUBINSize);
  if (!program->compiled)
    return NVRTC_ERROR_INVALID_INPUT;
  *size = program->cubin != NULL ? g_bytes_get_size (program->cubin) : 0;
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetCUBIN (nvrtcProgram  program,
               char         *cubin)
{
  NVRTC_MAY_FAIL (nvrtcGetCUBIN);
  if (!program->compiled || program->cubin == NULL)
    return NVRTC_ERROR_INVALID_INPUT;
  memcpy (cubin, g_bytes_get_data (program->cubin, NULL), g_bytes_get_size (program->cubin));
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetPTXSize (nvrtcProgram  program,
                 size_t       *size)
{
  NVRTC_MAY_FAIL (nvrtcGetPTXSize);
  if (!program->compiled)
    return NVRTC_ERROR_INVALID_INPUT;
  *size = strlen (program->ptx) + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetPTX (nvrtcProgram  program,
             char         *ptx)
{
  NVRTC_MAY_FAIL (nvrtcGetPTX);
  if (!program->compiled)
    return NVRTC_ERROR_INVALID_INPUT;
  memcpy (ptx, program->ptx, strlen (program->ptx) + 1);
  return NVRTC_SUCCESS;
}

nvrtcResult
nvrtcGetLoweredName (nvrtcProgram       program,
                     const char *const  expression,
                     const char       **lowered)
{
  NVRTC_MAY_FAIL (nvrtcGetLoweredName);
  if (!program->compiled)
    return NO_LOWERED_NAMES_BEFORE_COMPILATION;
  *lowered = g_hash_table_lookup (program->lowered, expression);
  return *lowered != NULL ? NVRTC_SUCCESS : NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
}

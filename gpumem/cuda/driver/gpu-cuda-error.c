/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/cuda/driver/gpu-cuda-api.h"
#include "gpumem/cuda/driver/gpu-cuda-error.h"

#define GPU_CUDA_ERROR(name, value, error) { name, #name, GPU_ERROR_##error },

const GpuCudaErrorEntry _gpu_cuda_error_table[] =
{
#include "gpumem/cuda/driver/gpu-cuda-errors.h"
  { 0, NULL, GPU_ERROR_FAILED }
};

static const GpuCudaErrorEntry *
find_entry (CUresult code)
{
  const GpuCudaErrorEntry *entry = _gpu_cuda_error_table;

  while (entry->name != NULL && entry->code != code)
    entry++;

  return entry;
}

const char *
_gpu_cuda_error_name (CUresult code)
{
  const char *name = find_entry (code)->name;

  /* A driver that is newer than the table may return codes that the table lacks. cuGetErrorName()
   * leaves @name unchanged if the code has no name. */
  if (name == NULL && _gpu_cuda.cuGetErrorName != NULL)
    _gpu_cuda.cuGetErrorName (code, &name);

  return name != NULL ? name : "unknown code";
}

GpuError
_gpu_cuda_error_map (CUresult code)
{
  return find_entry (code)->error;
}

static const char *
get_driver_text (CUresult code)
{
  const char *text = NULL;

  if (_gpu_cuda.cuGetErrorString != NULL)
    _gpu_cuda.cuGetErrorString (code, &text);

  return text != NULL ? text : "no description in the driver";
}

static void
set_error (GError     **error,
           const char  *function,
           CUresult     code,
           const char  *details)
{
  g_autofree char *joined = g_strdup_printf ("%s: %s (%u): %s%s%s", function,
                                             _gpu_cuda_error_name (code), code,
                                             get_driver_text (code), details != NULL ? ": " : "",
                                             details != NULL ? details : "");
  g_autofree char *text = g_utf8_make_valid (joined, -1);

  _gpu_debug_print (GPU_DEBUG_ERRORS, "%s", text);
  g_set_error_literal (error, GPU_ERROR, _gpu_cuda_error_map (code), text);
}

void
_gpu_cuda_set_error (GError     **error,
                     const char  *function,
                     CUresult     code,
                     const char  *format,
                     ...)
{
  g_autofree char *details = NULL;
  va_list arguments;

  va_start (arguments, format);
  details = g_strdup_vprintf (format, arguments);
  va_end (arguments);

  set_error (error, function, code, details);
}

gboolean
_gpu_cuda_check (CUresult     code,
                 const char  *function,
                 GError     **error)
{
  if (G_LIKELY (code == CUDA_SUCCESS))
    return TRUE;

  set_error (error, function, code, NULL);

  return FALSE;
}

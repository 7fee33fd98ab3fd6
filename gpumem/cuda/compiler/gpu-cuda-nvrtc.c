/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Loads NVRTC. Prefers versions that are not newer than the driver: a driver may reject code of a
 * newer CUDA version, but accepts code of all older versions.
 */
#include "config.h"

#include <gmodule.h>

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/cuda/compiler/gpu-cuda-nvrtc.h"
#include "gpumem/cuda/driver/gpu-cuda-api.h"

#define VARIABLE "GPUMEM_NVRTC"

typedef struct
{
  const char *name;
  gsize       offset;           /* in GpuCudaNvrtc */
} Symbol;

static const Symbol symbols[] =
{
#define GPU_CUDA_NVRTC_SYMBOL(result, name, parameters) \
  { #name, G_STRUCT_OFFSET (GpuCudaNvrtc, name) },
#include "gpumem/cuda/compiler/gpu-cuda-nvrtc-symbols.h"
#undef GPU_CUDA_NVRTC_SYMBOL
};

/* The supported versions, newest first. */
static const struct
{
  int         major;
  const char *name;
}
libraries[] =
{
  { 13, "libnvrtc.so.13" },
  { 12, "libnvrtc.so.12" },
  { 11, "libnvrtc.so.11.2" }
};

GpuCudaNvrtc _gpu_cuda_nvrtc;

static gboolean
find_symbols (GModule       *module,
              GpuCudaNvrtc  *nvrtc,
              const char   **missing)
{
  for (gsize i = 0; i < G_N_ELEMENTS (symbols); i++)
    {
      gpointer *function = &G_STRUCT_MEMBER (gpointer, nvrtc, symbols[i].offset);

      *missing = symbols[i].name;
      if (!g_module_symbol (module, symbols[i].name, function) || *function == NULL)
        return FALSE;
    }

  return TRUE;
}

/* Sets @failed to the name of the last function called. */
static gboolean
query_version (GpuCudaNvrtc  *nvrtc,
               const char   **failed)
{
  int major;
  int minor;

  *failed = "nvrtcVersion";
  if (nvrtc->nvrtcVersion (&major, &minor) != NVRTC_SUCCESS)
    return FALSE;

  *failed = "nvrtcGetNumSupportedArchs";
  if (nvrtc->nvrtcGetNumSupportedArchs (&nvrtc->n_architectures) != NVRTC_SUCCESS ||
      nvrtc->n_architectures <= 0)
    return FALSE;

  nvrtc->version = major * 1000 + minor * 10;
  nvrtc->architectures = g_new0 (int, nvrtc->n_architectures);
  *failed = "nvrtcGetSupportedArchs";

  return nvrtc->nvrtcGetSupportedArchs (nvrtc->architectures) == NVRTC_SUCCESS;
}

/* Appends the reason of a failure to @reasons. */
static gboolean
try_library (const char *path,
             GString    *reasons)
{
  GModule *module = g_module_open (path, G_MODULE_BIND_LAZY | G_MODULE_BIND_LOCAL);
  GpuCudaNvrtc nvrtc = { 0 };
  const char *missing = NULL;
  const char *failed = NULL;

  if (module == NULL)
    {
      g_string_append_printf (reasons, "%s%s", reasons->len > 0 ? "; " : "", g_module_error ());
      return FALSE;
    }

  if (find_symbols (module, &nvrtc, &missing) && query_version (&nvrtc, &failed))
    {
      g_module_make_resident (module);
      _gpu_cuda_nvrtc = nvrtc;
      _gpu_debug_print (GPU_DEBUG_DEVICES, "cuda: NVRTC %d.%d from %s", nvrtc.version / 1000,
                        nvrtc.version % 1000 / 10, g_module_name (module));
      return TRUE;
    }

  g_string_append_printf (reasons, failed != NULL ? "%s%s is unusable: %s failed"
                                                  : "%s%s has no %s",
                          reasons->len > 0 ? "; " : "", path, failed != NULL ? failed : missing);
  g_free (nvrtc.architectures);
  g_module_close (module);

  return FALSE;
}

/* Returns NULL if NVRTC was loaded, or the reasons of the failure. */
static char *
load (void)
{
  g_autoptr (GString) reasons = g_string_new (NULL);
  const char *path = g_getenv (VARIABLE);
  int driver_major = _gpu_cuda.version / 1000;

  if (path != NULL && *path != '\0')
    return try_library (path, reasons) ? NULL : g_strdup (reasons->str);

  /* First try the versions that the driver supports, then the newer ones. */
  for (guint pass = 0; pass < 2; pass++)
    {
      for (gsize i = 0; i < G_N_ELEMENTS (libraries); i++)
        {
          gboolean is_newer = libraries[i].major > driver_major;

          if (is_newer == (pass == 1) && try_library (libraries[i].name, reasons))
            return NULL;
        }
    }

  return g_strdup (reasons->str);
}

gboolean
_gpu_cuda_nvrtc_load (GError **error)
{
  static gsize is_tried;
  static char *failure;

  if (g_once_init_enter (&is_tried))
    {
      g_autofree char *reasons = load ();

      failure = reasons != NULL ? g_utf8_make_valid (reasons, -1) : NULL;
      g_once_init_leave (&is_tried, 1);
    }

  if (failure == NULL)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "sources require NVRTC, the compiler in the package libnvrtc (cuda-nvrtc, "
               "nvidia-cuda-nvrtc) or in a CUDA Toolkit; " VARIABLE " can name its file: %s",
               failure);

  return FALSE;
}

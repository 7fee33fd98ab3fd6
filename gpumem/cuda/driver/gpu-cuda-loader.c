/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Loads the driver. Each function is requested with the CUDA version in which it got its current
 * parameters, because the driver also contains older and newer variants of the function.
 */
#include "config.h"

#include <gmodule.h>

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/cuda/driver/gpu-cuda-api.h"
#include "gpumem/cuda/driver/gpu-cuda-error.h"

/* The name includes the version number: libcuda.so, without the number, may be the stub library of
 * a CUDA Toolkit. */
#define DRIVER_LIBRARY "libcuda.so.1"

typedef CUresult (CUDAAPI *GetProcAddress) (const char  *symbol,
                                            void       **function,
                                            int          version,
                                            cuuint64_t   flags);
typedef CUresult (CUDAAPI *GetProcAddress2) (const char                     *symbol,
                                             void                          **function,
                                             int                             version,
                                             cuuint64_t                      flags,
                                             CUdriverProcAddressQueryResult *status);

typedef struct
{
  const char   *name;
  int           version;
  GpuCudaGroup  group;
  gsize         offset;             /* in GpuCudaApi */
  gboolean      is_revision;
} Symbol;

static const Symbol symbols[] =
{
#define GPU_CUDA_SYMBOL(group, name, version, parameters) \
  { #name, version, GPU_CUDA_GROUP_##group, G_STRUCT_OFFSET (GpuCudaApi, name), FALSE },
#define GPU_CUDA_REVISION(group, name, revision, version, parameters) \
  { #name, version, GPU_CUDA_GROUP_##group, G_STRUCT_OFFSET (GpuCudaApi, name##revision), TRUE },
#include "gpumem/cuda/driver/gpu-cuda-symbols.h"
#undef GPU_CUDA_SYMBOL
};

static const struct
{
  const char *what;
  const char *since;
}
groups[GPU_CUDA_N_GROUPS] =
{
  [GPU_CUDA_GROUP_CORE]           = { "the core of CUDA", "11.4" },
  [GPU_CUDA_GROUP_HOST_FUNCTION]  = { "host functions in streams", "10.0" },
  [GPU_CUDA_GROUP_STREAM_WAIT]    = { "stream waits for values", "11.7" },
  [GPU_CUDA_GROUP_STREAM_ID]      = { "unique numbers of streams", "12.0" },
  [GPU_CUDA_GROUP_CAPTURE]        = { "graphs captured from streams", "11.3" },
  [GPU_CUDA_GROUP_KERNEL_INFO]    = { "the lists of kernels and parameters", "12.4" },
  [GPU_CUDA_GROUP_PROFILER]       = { "the profiler's start and stop", "4.0" },
  [GPU_CUDA_GROUP_IPC]            = { "memory and events of other processes", "11.0" },
  [GPU_CUDA_GROUP_STREAM_ORDERED] = { "stream-ordered memory", "11.2" },
  [GPU_CUDA_GROUP_VIRTUAL_MEMORY] = { "virtual memory", "11.0" },
  [GPU_CUDA_GROUP_EXTERNAL_MEMORY] = { "external memory", "10.0" },
  [GPU_CUDA_GROUP_DMA_BUF]        = { "the export of dma-bufs", "11.7" },
  [GPU_CUDA_GROUP_IMAGE]          = { "arrays, textures and surfaces", "5.0" },
  [GPU_CUDA_GROUP_MANAGED]        = { "managed memory", "8.0" },
  [GPU_CUDA_GROUP_MEMORY_LOCATION] = { "locations of managed memory", "12.2" }
};

GpuCudaApi _gpu_cuda;

static GModule *driver;
static GetProcAddress get_proc_address;
static GetProcAddress2 get_proc_address_2;
static const char *first_missing[GPU_CUDA_N_GROUPS];

static gpointer
find_symbol (const char *name,
             int         version)
{
  CUdriverProcAddressQueryResult status = 0;
  gpointer function = NULL;
  CUresult code;

  if (get_proc_address_2 != NULL)
    code = get_proc_address_2 (name, &function, version, CU_GET_PROC_ADDRESS_DEFAULT, &status);
  else
    code = get_proc_address (name, &function, version, CU_GET_PROC_ADDRESS_DEFAULT);

  return code == CUDA_SUCCESS ? function : NULL;
}

static gboolean
open_driver (GError **error)
{
  if (driver == NULL)
    driver = g_module_open (DRIVER_LIBRARY, G_MODULE_BIND_LAZY | G_MODULE_BIND_LOCAL);

  if (driver == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NO_DEVICE, "no NVIDIA driver is installed: %s",
                   g_module_error ());
      return FALSE;
    }

  if (g_module_symbol (driver, "cuGetProcAddress_v2", (gpointer *) &get_proc_address_2) ||
      g_module_symbol (driver, "cuGetProcAddress", (gpointer *) &get_proc_address))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NO_DEVICE,
               "%s has no cuGetProcAddress: a driver for CUDA 11.4 or newer is needed",
               g_module_name (driver));

  return FALSE;
}

/* A revision is a newer variant of a function, with other parameters. If the driver is older than
 * the revision, it would return the older variant. In this case, returns NULL instead. */
static gpointer
find_function (const Symbol *symbol)
{
  if (symbol->is_revision && symbol->version > _gpu_cuda.version)
    return NULL;

  return find_symbol (symbol->name, symbol->version);
}

static int
get_version (void)
{
  CUresult (CUDAAPI *get) (int *version) = find_symbol ("cuDriverGetVersion", 2020);
  int version = 0;

  return get != NULL && get (&version) == CUDA_SUCCESS ? version : 0;
}

/* Sets all function pointers. Sets `has` of a group to TRUE if the driver has all its functions. */
static void
find_symbols (void)
{
  _gpu_cuda.version = get_version ();

  for (gsize i = 0; i < GPU_CUDA_N_GROUPS; i++)
    {
      _gpu_cuda.has[i] = TRUE;
      first_missing[i] = NULL;
    }

  for (gsize i = 0; i < G_N_ELEMENTS (symbols); i++)
    {
      const Symbol *symbol = &symbols[i];
      gpointer function = find_function (symbol);

      G_STRUCT_MEMBER (gpointer, &_gpu_cuda, symbol->offset) = function;
      if (function != NULL || !_gpu_cuda.has[symbol->group])
        continue;

      _gpu_debug_print (GPU_DEBUG_DEVICES, "cuda: the driver has no %s of CUDA %d.%d",
                        symbol->name, symbol->version / 1000, symbol->version % 1000 / 10);
      _gpu_cuda.has[symbol->group] = FALSE;
      first_missing[symbol->group] = symbol->name;
    }
}

gboolean
_gpu_cuda_has_group (GpuCudaGroup   group,
                     GError       **error)
{
  GpuError meaning = group == GPU_CUDA_GROUP_CORE ? GPU_ERROR_NO_DEVICE : GPU_ERROR_NOT_SUPPORTED;

  if (G_LIKELY (_gpu_cuda.has[group]))
    return TRUE;

  g_set_error (error, GPU_ERROR, meaning,
               "the driver is for CUDA %d.%d and has no %s, as needed for %s: install a driver for "
               "CUDA %s or newer",
               _gpu_cuda.version / 1000, _gpu_cuda.version % 1000 / 10, first_missing[group],
               groups[group].what, groups[group].since);

  return FALSE;
}

/* Returns a probable cause of a failure, because the driver's own text often names no cause. */
static const char *
get_hint (CUresult code)
{
  switch (code)
    {
    case CUDA_ERROR_STUB_LIBRARY:
      return DRIVER_LIBRARY " is the stub that comes with a CUDA Toolkit, not the driver";
    case CUDA_ERROR_NO_DEVICE:
      return "the driver finds no GPU, or CUDA_VISIBLE_DEVICES hides it";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      return DRIVER_LIBRARY " and the kernel module have different versions: restart "
             "the machine after an update";
    case CUDA_ERROR_SYSTEM_NOT_READY:
      return "a service that the GPU needs, such as the fabric manager, is not running yet";
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return DRIVER_LIBRARY " is newer than the kernel module, which this GPU does "
             "not support";
    case CUDA_ERROR_OPERATING_SYSTEM:
    case CUDA_ERROR_UNKNOWN:
      return "the kernel module or its device files may be missing";
    default:
      return "the driver failed to initialize";
    }
}

gboolean
_gpu_cuda_load (GError **error)
{
  g_autoptr (GError) local_error = NULL;
  CUresult code;

  _gpu_backend_watch_process ();
  if (!_gpu_backend_check_process (error) || !open_driver (error))
    return FALSE;

  find_symbols ();
  _gpu_cuda_relax_captures ();
  if (!_gpu_cuda_has_group (GPU_CUDA_GROUP_CORE, error))
    return FALSE;

  /* The driver starts threads in cuInit(), so its code must never be unloaded. */
  g_module_make_resident (driver);
  code = _gpu_cuda.cuInit (0);
  if (code == CUDA_SUCCESS)
    return TRUE;

  /* Set GPU_ERROR_NO_DEVICE for every code: after any failure of cuInit(), no driver is
   * available. */
  _gpu_cuda_set_error (&local_error, "cuInit", code, "%s", get_hint (code));
  g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NO_DEVICE, local_error->message);

  return FALSE;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies with direct calls of the CUDA driver. This file loads the driver itself, so that the build
 * needs no CUDA Toolkit. */
#include "config.h"

#include <gmodule.h>

#include "tools/gpumem-bandwidth-raw.h"

#define DRIVER_LIBRARY "libcuda.so.1"

typedef int     Result;     /* CUresult */
typedef guint64 Address;    /* CUdeviceptr */

static struct
{
  Result (*push)    (gpointer context);
  Result (*pop)     (gpointer *context);
  Result (*write)   (Address to, gconstpointer from, gsize size, gpointer stream);
  Result (*read)    (gpointer to, Address from, gsize size, gpointer stream);
  Result (*copy)    (Address to, Address from, gsize size, gpointer stream);
  Result (*peer)    (Address to, gpointer to_context, Address from, gpointer from_context,
                     gsize size, gpointer stream);
  Result (*wait)    (gpointer stream);
  Result (*name)    (Result code, const char **name);
} cuda;

static const struct
{
  const char *name;
  gpointer   *function;
} symbols[] = {
  { "cuCtxPushCurrent_v2", (gpointer *) &cuda.push },
  { "cuCtxPopCurrent_v2", (gpointer *) &cuda.pop },
  { "cuMemcpyHtoDAsync_v2", (gpointer *) &cuda.write },
  { "cuMemcpyDtoHAsync_v2", (gpointer *) &cuda.read },
  { "cuMemcpyAsync", (gpointer *) &cuda.copy },
  { "cuMemcpyPeerAsync", (gpointer *) &cuda.peer },
  { "cuStreamSynchronize", (gpointer *) &cuda.wait },
  { "cuGetErrorName", (gpointer *) &cuda.name }
};

static gboolean
cuda_open (GError **error)
{
  GModule *module = g_module_open (DRIVER_LIBRARY, G_MODULE_BIND_LAZY | G_MODULE_BIND_LOCAL);

  if (module == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NO_DEVICE, "no NVIDIA driver: %s",
                   g_module_error ());
      return FALSE;
    }
  g_module_make_resident (module);
  for (guint i = 0; i < G_N_ELEMENTS (symbols); i++)
    if (!g_module_symbol (module, symbols[i].name, symbols[i].function))
      {
        g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "%s has no %s", DRIVER_LIBRARY,
                     symbols[i].name);
        g_module_close (module);
        return FALSE;
      }
  g_module_close (module);
  return TRUE;
}

static gboolean
check (Result       code,
       const char  *function,
       GError     **error)
{
  const char *name = NULL;

  if (code == 0)
    return TRUE;
  if (cuda.name (code, &name) != 0 || name == NULL)
    name = "unknown";
  g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "%s, called directly: %s (%d)", function, name,
               code);
  return FALSE;
}

static gpointer
get_context (GpuContext *context)
{
  return (gpointer) (guintptr) gpu_context_get_native_handle (context);
}

static gpointer
get_stream (const GpumemRaw *raw,
            guint            lane)
{
  return (gpointer) (guintptr) gpu_stream_get_native_handle (raw->streams[lane]);
}

static gboolean
cuda_enter (const GpumemRaw  *raw,
            GError          **error)
{
  return check (cuda.push (get_context (raw->context)), "cuCtxPushCurrent", error);
}

static void
cuda_leave (const GpumemRaw *raw G_GNUC_UNUSED)
{
  gpointer context;

  cuda.pop (&context);
}

static gboolean
cuda_copy (const GpumemRaw    *raw,
           guint               lane,
           const GpumemPlace  *to,
           const GpumemPlace  *from,
           gsize               size,
           GError            **error)
{
  gpointer stream = get_stream (raw, lane);
  GpuContext *to_context, *from_context;
  Address to_address, from_address;

  if (from->data != NULL)
    return check (cuda.write (gpu_memory_get_native_handle (to->memory), from->data, size, stream),
                  "cuMemcpyHtoDAsync", error);
  from_address = gpu_memory_get_native_handle (from->memory);
  if (to->data != NULL)
    return check (cuda.read (to->data, from_address, size, stream), "cuMemcpyDtoHAsync", error);
  to_address = gpu_memory_get_native_handle (to->memory);
  to_context = gpu_memory_get_context (to->memory);
  from_context = gpu_memory_get_context (from->memory);
  if (to_context == from_context)
    return check (cuda.copy (to_address, from_address, size, stream), "cuMemcpyAsync", error);
  return check (cuda.peer (to_address, get_context (to_context), from_address,
                           get_context (from_context), size, stream), "cuMemcpyPeerAsync", error);
}

static gboolean
cuda_wait (const GpumemRaw  *raw,
           guint             lane,
           GError          **error)
{
  return check (cuda.wait (get_stream (raw, lane)), "cuStreamSynchronize", error);
}

const GpumemRawDriver gpumem_raw_cuda = {
  .backend = "cuda",
  .open = cuda_open,
  .enter = cuda_enter,
  .leave = cuda_leave,
  .copy = cuda_copy,
  .wait = cuda_wait
};

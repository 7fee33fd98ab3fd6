/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Selects the functions that call the driver of a back end. For the host back end, these functions
 * use memcpy(). */
#include "config.h"

#include <string.h>

#include "tools/gpumem-bandwidth-raw.h"

static const GpumemRawDriver *const drivers[] = {
#ifdef HAVE_CUDA
  &gpumem_raw_cuda,
#endif
#ifdef HAVE_OPENCL
  &gpumem_raw_opencl,
#endif
  &gpumem_raw_host
};

static gpointer
get_data (const GpumemPlace *place)
{
  return place->data != NULL ? place->data
                             : (gpointer) (guintptr) gpu_memory_get_native_handle (place->memory);
}

static gboolean
host_copy (const GpumemRaw    *raw G_GNUC_UNUSED,
           guint               lane G_GNUC_UNUSED,
           const GpumemPlace  *to,
           const GpumemPlace  *from,
           gsize               size,
           GError            **error G_GNUC_UNUSED)
{
  memcpy (get_data (to), get_data (from), size);
  return TRUE;
}

static gboolean
host_wait (const GpumemRaw  *raw G_GNUC_UNUSED,
           guint             lane G_GNUC_UNUSED,
           GError          **error G_GNUC_UNUSED)
{
  return TRUE;
}

static gpointer
host_map (const GpumemRaw    *raw G_GNUC_UNUSED,
          guint               lane G_GNUC_UNUSED,
          const GpumemPlace  *place,
          gboolean            write G_GNUC_UNUSED,
          gsize               size G_GNUC_UNUSED,
          GError            **error G_GNUC_UNUSED)
{
  return get_data (place);
}

static gboolean
host_unmap (const GpumemRaw    *raw G_GNUC_UNUSED,
            guint               lane G_GNUC_UNUSED,
            const GpumemPlace  *place G_GNUC_UNUSED,
            gpointer            data G_GNUC_UNUSED,
            GError            **error G_GNUC_UNUSED)
{
  return TRUE;
}

const GpumemRawDriver gpumem_raw_host = {
  .backend = "host",
  .copy = host_copy,
  .wait = host_wait,
  .map = host_map,
  .unmap = host_unmap
};

static const GpumemRawDriver *
find_driver (const char  *backend,
             GError     **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (drivers); i++)
    if (g_str_equal (drivers[i]->backend, backend))
      return drivers[i];
  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "this command was built without the calls of the back end %s", backend);
  return NULL;
}

gboolean
gpumem_raw_init (GpumemRaw   *raw,
                 GpuContext  *context,
                 GError     **error)
{
  GpuDevice *device = gpu_context_get_device (context);

  raw->driver = find_driver (gpu_device_get_backend (device), error);
  if (raw->driver == NULL || (raw->driver->open != NULL && !raw->driver->open (error)))
    return FALSE;
  raw->context = g_object_ref (context);
  for (guint i = 0; i < GPUMEM_N_LANES; i++)
    {
      raw->streams[i] = gpu_stream_new (context, GPU_STREAM_FLAGS_NON_BLOCKING, error);
      if (raw->streams[i] == NULL)
        return FALSE;
    }
  return TRUE;
}

void
gpumem_raw_clear (GpumemRaw *raw)
{
  for (guint i = 0; i < GPUMEM_N_LANES; i++)
    g_clear_object (&raw->streams[i]);
  g_clear_object (&raw->context);
}

gboolean
gpumem_raw_enter (GpumemRaw  *raw,
                  GError    **error)
{
  return raw->driver->enter == NULL || raw->driver->enter (raw, error);
}

void
gpumem_raw_leave (GpumemRaw *raw)
{
  if (raw->driver->leave != NULL)
    raw->driver->leave (raw);
}

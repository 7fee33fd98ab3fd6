/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/backend/gpu-native-context-private.h"
#include "gpumem/device/gpu-ipc-private.h"

/* The fields, in this order: type of the object, back end, size of the memory, flags of the memory,
 * index of the first file descriptor, number of file descriptors, data of the back end. */
#define ENVELOPE_TYPE "(sstuiuay)"

static const struct
{
  const char      *magic;
  GpuCapabilities  capability;
  const char      *text;
  const char      *exporter;
}
types[] =
{
  [GPU_IPC_BUFFER]    = { "gpumem buffer 1", GPU_CAPABILITIES_IPC_HANDLES,
                          "handles of other processes", "gpu_buffer_export_handle()" },
  [GPU_IPC_BUFFER_FD] = { "gpumem buffer fd 1", GPU_CAPABILITIES_IPC_FDS,
                          "memory with file descriptors", "gpu_buffer_export_fds()" },
  [GPU_IPC_EVENT]     = { "gpumem event 1", GPU_CAPABILITIES_IPC_HANDLES,
                          "events of other processes", "gpu_event_export_handle()" }
};

void
_gpu_ipc_envelope_clear (GpuIpcEnvelope *envelope)
{
  g_clear_pointer (&envelope->payload, g_bytes_unref);
}

GBytes *
_gpu_ipc_envelope_seal (const GpuIpcEnvelope  *envelope,
                        GpuIpcType             type,
                        const GpuBackend      *backend)
{
  GVariant *payload = g_variant_new_from_bytes (G_VARIANT_TYPE_BYTESTRING, envelope->payload,
                                                TRUE);
  g_autoptr (GVariant) variant = g_variant_new ("(sstuiu@ay)", types[type].magic, backend->name,
                                                envelope->size, (guint32) envelope->flags,
                                                envelope->fd, envelope->n_fds, payload);

  g_variant_ref_sink (variant);

  return g_variant_get_data_as_bytes (variant);
}

/* Sets the error for bytes that are not a handle of this type: changed bytes, or a handle of
 * another function. */
static void
set_type_error (GpuIpcType    type,
                GBytes       *handle,
                gboolean      is_normal,
                const char   *magic,
                const char   *function,
                GError      **error)
{
  for (guint i = 0; is_normal && i < G_N_ELEMENTS (types); i++)
    {
      if (g_strcmp0 (types[i].magic, magic) == 0)
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
                       "%s: the handle is one of %s, not of %s", function, types[i].exporter,
                       types[type].exporter);
          return;
        }
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
               "%s: the %" G_GSIZE_FORMAT " bytes are not a handle of %s, or have changed since",
               function, g_bytes_get_size (handle), types[type].exporter);
}

static gboolean
envelope_open (GpuIpcEnvelope    *envelope,
               GBytes            *handle,
               const char        *function,
               GpuIpcType         type,
               const GpuBackend  *backend,
               GError           **error)
{
  g_autoptr (GVariant) variant = NULL;
  g_autoptr (GVariant) payload = NULL;
  const char *given_magic;
  const char *given_backend;
  gboolean is_normal;
  guint32 flags;

  variant = g_variant_new_from_bytes (G_VARIANT_TYPE (ENVELOPE_TYPE), handle, FALSE);
  g_variant_ref_sink (variant);
  g_variant_get (variant, "(&s&stuiu@ay)", &given_magic, &given_backend, &envelope->size, &flags,
                 &envelope->fd, &envelope->n_fds, &payload);

  is_normal = g_variant_is_normal_form (variant);
  if (!is_normal || !g_str_equal (given_magic, types[type].magic))
    {
      set_type_error (type, handle, is_normal, given_magic, function, error);
      return FALSE;
    }

  if (!g_str_equal (given_backend, backend->name))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_IPC,
                   "%s: the handle is of the back end %s, the context of the back end %s", function,
                   given_backend, backend->name);
      return FALSE;
    }

  envelope->flags = flags;
  envelope->payload = g_variant_get_data_as_bytes (payload);

  return TRUE;
}

gboolean
_gpu_ipc_check (GpuNativeContext  *context,
                const char        *function,
                gboolean           has_op,
                GpuCapabilities    capability,
                const char        *what,
                GError           **error)
{
  if (!has_op)
    return _gpu_backend_fail (context->backend, function, what, error);

  if ((context->devices[0]->capabilities & capability) != 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "%s: %s has no %s", function,
               context->devices[0]->id, what);

  return FALSE;
}

static gboolean
can_import (const GpuBackend *backend,
            GpuIpcType        type)
{
  switch (type)
    {
    case GPU_IPC_BUFFER:
      return backend->buffer->import_handle != NULL;
    case GPU_IPC_BUFFER_FD:
      return backend->buffer->import_fd != NULL;
    case GPU_IPC_EVENT:
    default:
      return backend->event->import_handle != NULL;
    }
}

GpuNativeContext *
_gpu_ipc_import_begin (GpuContext      *context,
                       GpuIpcType       type,
                       GBytes          *handle,
                       const char      *function,
                       GpuIpcEnvelope  *envelope,
                       GError         **error)
{
  GpuNativeContext *native;

  if (!_gpu_context_check (context, function, error))
    return NULL;

  native = _gpu_context_get_native (context);

  if (!_gpu_ipc_check (native, function, can_import (native->backend, type),
                       types[type].capability, types[type].text, error)
      || !envelope_open (envelope, handle, function, type, native->backend, error))
    return NULL;

  return native;
}

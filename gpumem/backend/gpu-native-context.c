/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Errors of a context: every error of a driver is reported here. */
#include "config.h"

#include "gpumem/backend/gpu-native-context-private.h"
#include "gpumem/base/gpu-debug-private.h"

void
_gpu_native_context_report (GpuNativeContext *native,
                            const GError     *error)
{
  _gpu_debug_print (GPU_DEBUG_ERRORS, "%s", error->message);

  if (!g_error_matches (error, GPU_ERROR, GPU_ERROR_DEVICE_LOST)
      || !g_atomic_int_compare_and_exchange (&native->lost, FALSE, TRUE))
    return;

  if (native->notify_lost != NULL)
    native->notify_lost (native, error);
}

gboolean
_gpu_native_context_fail (GpuNativeContext  *context,
                          GError           **error)
{
  if (_gpu_backend_check_process (error))
    g_set_error (error, GPU_ERROR, GPU_ERROR_DEVICE_LOST, "the device %s was lost",
                 context->devices[0]->id);

  return FALSE;
}

gboolean
_gpu_native_context_set_mismatch (const char              *function,
                                  const char              *what,
                                  const GpuNativeContext  *theirs,
                                  const GpuNativeContext  *ours,
                                  GError                 **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: %s and the stream belong to different contexts, on %s and on %s", function,
               what, theirs->devices[0]->id, ours->devices[0]->id);

  return FALSE;
}

/* Whether kernels of @context could use memory of @peer if the program enabled the access. */
static gboolean
may_become_peers (const GpuNativeContext *context,
                  const GpuNativeContext *peer)
{
  const GpuContextOps *ops = context->backend->context;

  return context->backend == peer->backend && context->devices[0] != peer->devices[0]
         && ops->has_peer != NULL
         && !ops->has_peer ((GpuNativeContext *) context, (GpuNativeContext *) peer);
}

gboolean
_gpu_native_context_set_memory_mismatch (const char              *function,
                                         gsize                    size,
                                         const GpuNativeContext  *theirs,
                                         const GpuNativeContext  *ours,
                                         GError                 **error)
{
  g_autofree char *what = g_strdup_printf ("the memory of %" G_GSIZE_FORMAT " bytes", size);

  if (!may_become_peers (ours, theirs))
    return _gpu_native_context_set_mismatch (function, what, theirs, ours, error);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: %s and the stream belong to different contexts, on %s and on %s: kernels only "
               "use buffers of another device after gpu_context_enable_peer_access()", function,
               what, theirs->devices[0]->id, ours->devices[0]->id);

  return FALSE;
}

gboolean
_gpu_native_context_end (GpuNativeContext  *context,
                         const char        *function,
                         GError            *failure,
                         GError           **error)
{
  if (failure == NULL)
    return TRUE;

  _gpu_native_context_report (context, failure);
  g_propagate_prefixed_error (error, failure, "%s: ", function);

  return FALSE;
}

gboolean
_gpu_backend_fail (const GpuBackend  *backend,
                   const char        *function,
                   const char        *what,
                   GError           **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "%s: the back end %s has no %s",
               function, backend->name, what);

  return FALSE;
}

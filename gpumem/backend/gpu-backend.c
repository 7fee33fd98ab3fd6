/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <pthread.h>
#include <unistd.h>

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/base/gpu-attributes-private.h"
#include "gpumem/base/gpu-debug-private.h"

gint _gpu_forked;
gint _gpu_may_capture;
gint _gpu_may_access_peers;

static GMutex contexts_lock;
static GPtrArray *contexts;         /* of GpuNativeContext; NULL if empty */

static GMutex registry_lock;
static GPtrArray *registry_devices[GPU_MAX_BACKENDS];

const GpuBackend *
_gpu_backend_lookup (const char *name)
{
  for (gsize i = 0; _gpu_backends[i] != NULL; i++)
    {
      if (g_str_equal (_gpu_backends[i]->name, name))
        return _gpu_backends[i];
    }

  return NULL;
}

static GPtrArray *
enumerate (const GpuBackend  *backend,
           GError           **error)
{
  g_autoptr (GPtrArray) devices = g_ptr_array_new ();

  if (!backend->device->enumerate (devices, error))
    return NULL;

  if (devices->len == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NO_DEVICE, "%s: no device", backend->name);
      return NULL;
    }

  return g_steal_pointer (&devices);
}

GPtrArray *
_gpu_backend_list_devices (const GpuBackend  *backend,
                           GError           **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&registry_lock);
  gsize i = 0;

  while (_gpu_backends[i] != backend)
    i++;

  if (registry_devices[i] == NULL)
    registry_devices[i] = enumerate (backend, error);

  return registry_devices[i];
}

static void
on_fork (void)
{
  g_atomic_int_set (&_gpu_forked, TRUE);
  _gpu_live_unlock ();
}

void
_gpu_backend_watch_process (void)
{
  static gsize once;

  if (g_once_init_enter (&once))
    {
      gpu_error_quark ();               /* for errors in the child: no lock for the quark */
      pthread_atfork (_gpu_live_lock, _gpu_live_unlock, on_fork);
      g_once_init_leave (&once, 1);
    }
}

gboolean
_gpu_backend_check_process (GError **error)
{
  if (G_LIKELY (!g_atomic_int_get (&_gpu_forked)))
    return TRUE;

  /* Do not call GLib unless the caller wants an error: another thread of the parent process may
   * have held a lock of GLib during the fork, and this lock then stays locked in the child. */
  if (error != NULL)
    g_set_error (error, GPU_ERROR, GPU_ERROR_DEVICE_LOST,
                 "process %d was forked from a process that had used a device; drivers and "
                 "threads do not survive a fork: start a new process instead", (int) getpid ());

  return FALSE;
}

static void
list_context (GpuNativeContext *context)
{
  g_mutex_lock (&contexts_lock);

  if (contexts == NULL)
    contexts = g_ptr_array_new ();

  g_ptr_array_add (contexts, context);
  g_mutex_unlock (&contexts_lock);
}

static void
unlist_context (GpuNativeContext *context)
{
  /* In a forked child, the lock may stay locked forever: a thread of the parent may have held it
   * during the fork. */
  if (g_atomic_int_get (&_gpu_forked))
    return;

  g_mutex_lock (&contexts_lock);
  g_ptr_array_remove_fast (contexts, context);

  if (contexts->len == 0)
    g_clear_pointer (&contexts, g_ptr_array_unref);

  g_mutex_unlock (&contexts_lock);
}

void
_gpu_native_device_clear (GpuNativeDevice *device)
{
  g_free (device->id);
  g_free (device->name);
  g_free (device->vendor);
  g_free (device->platform);
  g_free (device->version);
  g_free (device->driver_version);
  g_free (device->pci_bus_id);
  g_free (device->unusable);
}

void
_gpu_native_context_init (GpuNativeContext        *context,
                          const GpuBackend        *backend,
                          GpuNativeDevice *const  *devices,
                          guint                    n_devices)
{
  context->backend = backend;
  context->devices = g_memdup2 (devices, n_devices * sizeof *devices);
  context->n_devices = n_devices;
  context->timelines = g_ptr_array_new ();
  g_atomic_ref_count_init (&context->refs);
  g_mutex_init (&context->lock);
  g_mutex_init (&context->failure_lock);
  list_context (context);
  _gpu_live_add (GPU_LIVE_NATIVE_CONTEXT, 1);
}

void
_gpu_native_context_clear (GpuNativeContext *context)
{
  unlist_context (context);
  g_ptr_array_unref (context->timelines);
  g_clear_pointer (&context->formats, g_hash_table_unref);
  g_clear_pointer (&context->aliases, g_hash_table_unref);
  g_mutex_clear (&context->lock);
  g_mutex_clear (&context->failure_lock);
  g_free (context->devices);
}

static gboolean
shares_device (const GpuNativeContext *context,
               const GpuNativeContext *other)
{
  for (guint i = 0; i < context->n_devices; i++)
    {
      for (guint j = 0; j < other->n_devices; j++)
        {
          if (context->devices[i] == other->devices[j]
              || (context->devices[i]->pci_bus_id != NULL
                  && g_strcmp0 (context->devices[i]->pci_bus_id,
                                other->devices[j]->pci_bus_id) == 0))
            return TRUE;
        }
    }

  return FALSE;
}

guint64
_gpu_native_context_get_held (GpuNativeContext *context,
                              gboolean          with_host)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&contexts_lock);
  guint64 held = 0;

  for (guint i = 0; i < contexts->len; i++)
    {
      GpuNativeContext *other = contexts->pdata[i];

      if (!shares_device (context, other))
        continue;

      held += (gsize) g_atomic_pointer_get (&other->allocated);
      if (with_host)
        held += (gsize) g_atomic_pointer_get (&other->allocated_host);
    }

  return held;
}

GpuNativeContext *
_gpu_native_context_ref (GpuNativeContext *context)
{
  g_atomic_ref_count_inc (&context->refs);

  return context;
}

void
_gpu_native_context_unref (GpuNativeContext *context)
{
  if (!g_atomic_ref_count_dec (&context->refs))
    return;

  if (context->ring != NULL)
    context->ring_free (context);

  context->backend->context->free (context);
  _gpu_live_add (GPU_LIVE_NATIVE_CONTEXT, -1);
}

void
_gpu_native_event_init (GpuNativeEvent   *event,
                        const GpuBackend *backend)
{
  event->backend = backend;
  g_atomic_ref_count_init (&event->refs);
}

GpuNativeEvent *
_gpu_native_event_ref (GpuNativeEvent *event)
{
  g_atomic_ref_count_inc (&event->refs);

  return event;
}

void
_gpu_native_event_unref (GpuNativeEvent *event)
{
  if (g_atomic_ref_count_dec (&event->refs))
    event->backend->event->free (event);
}

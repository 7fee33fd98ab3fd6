/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/host/gpu-host.h"

static GpuNativeContext *
host_context_create (GpuNativeDevice *const  *devices,
                     guint                    n_devices,
                     GpuContextFlags          flags,
                     GError                 **error)
{
  GpuHostContext *context;

  if (n_devices != 1)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "host: a context has one device, not %u", n_devices);
      return NULL;
    }

  if (!_gpu_backend_check_process (error))
    return NULL;

  _gpu_backend_watch_process ();
  context = g_new0 (GpuHostContext, 1);
  context->stack_size = GPU_HOST_STACK_SIZE;
  g_mutex_init (&context->chunks_lock);
  context->chunks_fd = -1;
  _gpu_native_context_init (&context->parent, &_gpu_host_backend, devices, n_devices);
  context->parent.flags = flags;

  return &context->parent;
}

static void
host_context_free (GpuNativeContext *context)
{
  _gpu_host_chunks_clear ((GpuHostContext *) context);
  _gpu_native_context_clear (context);
  g_free (context);
}

static guint64
host_context_get_handle (GpuNativeContext *context)
{
  return (guintptr) context;
}

static gboolean
host_context_get_memory_info (GpuNativeContext     *context G_GNUC_UNUSED,
                              guint64              *free_size,
                              guint64              *total_size,
                              GpuMemoryInfoSource  *source,
                              GError              **error)
{
  *source = GPU_MEMORY_INFO_SOURCE_SYSTEM;

  return _gpu_host_get_memory (free_size, total_size, error);
}

static gboolean
check_limit (GpuLimit   limit,
             GError   **error)
{
  if (limit == GPU_LIMIT_STACK_SIZE)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "host: only GPU_LIMIT_STACK_SIZE is supported: kernels use the heap and the output "
               "of the process, which have no limits");

  return FALSE;
}

static gboolean
host_context_get_limit (GpuNativeContext  *context,
                        GpuLimit           limit,
                        guint64           *value,
                        GError           **error)
{
  GpuHostContext *self = (GpuHostContext *) context;

  if (!check_limit (limit, error))
    return FALSE;

  *value = __atomic_load_n (&self->stack_size, __ATOMIC_RELAXED);

  return TRUE;
}

static gboolean
host_context_set_limit (GpuNativeContext  *context,
                        GpuLimit           limit,
                        guint64            value,
                        GError           **error)
{
  GpuHostContext *self = (GpuHostContext *) context;

  if (!check_limit (limit, error))
    return FALSE;

  if (value < GPU_HOST_STACK_SIZE_MIN || value > GPU_HOST_STACK_SIZE_MAX)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "host: a stack of %" G_GUINT64_FORMAT " bytes is not between %d and %d", value,
                   GPU_HOST_STACK_SIZE_MIN, GPU_HOST_STACK_SIZE_MAX);
      return FALSE;
    }

  __atomic_store_n (&self->stack_size, value, __ATOMIC_RELAXED);

  return TRUE;
}

/* The flags of every context: waiting threads sleep, and contexts are never shared. */
const GpuContextOps _gpu_host_context_ops =
{
  .flags = GPU_CONTEXT_FLAGS_SCHED_BLOCKING | GPU_CONTEXT_FLAGS_MAP_HOST | GPU_CONTEXT_FLAGS_OWN,
  .create = host_context_create,
  .free = host_context_free,
  .get_handle = host_context_get_handle,
  .get_memory_info = host_context_get_memory_info,
  .get_limit = host_context_get_limit,
  .set_limit = host_context_set_limit
};

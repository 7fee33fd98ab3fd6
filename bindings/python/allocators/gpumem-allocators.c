/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The pools by device, and plain functions for ctypes. */
#include "gpumem-allocators.h"

#include <string.h>

static GMutex lock;                 /* held while a pool is created */
static GpuMemoryPool *pools[GPUMEM_MAX_DEVICES];      /* atomic */
static GpuPoolHooks *hooks[GPUMEM_MAX_DEVICES];       /* atomic; set before the pool */

GPUMEM_EXPORT int      gpumem_allocators_set_pool   (int            device,
                                                     gpointer       pool);
GPUMEM_EXPORT int      gpumem_allocators_has_pool   (int            device);
GPUMEM_EXPORT gpointer gpumem_allocators_get_pool   (int            device,
                                                     char          *message,
                                                     gsize          size);
GPUMEM_EXPORT guint64  gpumem_allocators_alloc      (int            device,
                                                     gsize          size,
                                                     gpointer       stream,
                                                     int           *is_out_of_memory,
                                                     char          *message,
                                                     gsize          message_size);
GPUMEM_EXPORT int      gpumem_allocators_free       (int            device,
                                                     guint64        address,
                                                     gpointer       stream);
GPUMEM_EXPORT void     gpumem_allocators_end_stream (int            device,
                                                     gpointer       stream);
GPUMEM_EXPORT guint64  gpumem_allocators_get_figure (int            device,
                                                     const char    *name);
GPUMEM_EXPORT int      gpumem_allocators_get_memory (int            device,
                                                     guint64       *free_size,
                                                     guint64       *total_size);
GPUMEM_EXPORT void     gpumem_allocators_set_limit  (int            device,
                                                     guint64        limit);
GPUMEM_EXPORT void     gpumem_allocators_trim       (int            device,
                                                     guint64        keep);

static gboolean
check_device (int      device,
              GError **error)
{
  if (device >= 0 && device < GPUMEM_MAX_DEVICES)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpumem.allocators: the device %d is not between 0 and %d", device,
               GPUMEM_MAX_DEVICES - 1);

  return FALSE;
}

GpuMemoryPool *
gpumem_peek_pool (int device)
{
  return check_device (device, NULL) ? g_atomic_pointer_get (&pools[device]) : NULL;
}

GpuPoolHooks *
gpumem_peek_hooks (int device)
{
  return gpumem_peek_pool (device) != NULL ? hooks[device] : NULL;
}

static GpuMemoryPool *
make_pool (int      device,
           GError **error)
{
  g_autofree char *id = g_strdup_printf ("cuda:%d", device);
  g_autoptr (GpuDevice) found = gpu_device_find (id, error);
  g_autoptr (GpuContext) context = NULL;

  if (found != NULL)
    context = gpu_context_new (found, GPU_CONTEXT_FLAGS_NONE, error);
  if (context == NULL)
    return NULL;

  return gpu_memory_pool_new (context, GPU_MEMORY_POOL_AUTOMATIC, GPU_MEMORY_FLAGS_NONE, error);
}

/* Caller holds the lock. */
static gboolean
set_pool (int            device,
          GpuMemoryPool *pool)
{
  GpuPoolHooks *found = NULL;

  g_object_get (pool, "hooks", &found, NULL);
  if (found == NULL)
    return FALSE;

  hooks[device] = found;
  g_atomic_pointer_set (&pools[device], g_object_ref (pool));

  return TRUE;
}

GpuPoolHooks *
gpumem_get_hooks (int      device,
                  GError **error)
{
  g_autoptr (GMutexLocker) locker = NULL;
  g_autoptr (GpuMemoryPool) pool = NULL;

  if (G_LIKELY (gpumem_peek_hooks (device) != NULL))
    return hooks[device];

  if (!check_device (device, error))
    return NULL;

  locker = g_mutex_locker_new (&lock);
  if (pools[device] != NULL)
    return hooks[device];

  pool = make_pool (device, error);
  if (pool == NULL)
    return NULL;

  if (!set_pool (device, pool))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "gpumem.allocators: memory of pools of cuda:%d has no addresses", device);
      return NULL;
    }

  return hooks[device];
}

/* Returns 0 if the device has another pool: memory of that pool may be in use. Returns -1 if memory
 * of the pool has no addresses. */
int
gpumem_allocators_set_pool (int      device,
                            gpointer pool)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&lock);

  if (!check_device (device, NULL))
    return -1;

  if (pools[device] != NULL)
    return pools[device] == pool;

  return set_pool (device, pool) ? 1 : -1;
}

static void
pass_message (GError *error,
              char   *message,
              gsize   size)
{
  g_strlcpy (message, error != NULL ? error->message : "", size);
  g_clear_error (&error);
}

int
gpumem_allocators_has_pool (int device)
{
  return gpumem_peek_pool (device) != NULL;
}

gpointer
gpumem_allocators_get_pool (int    device,
                            char  *message,
                            gsize  size)
{
  GError *error = NULL;

  gpumem_get_hooks (device, &error);
  pass_message (error, message, size);

  return gpumem_peek_pool (device);
}

guint64
gpumem_allocators_alloc (int       device,
                         gsize     size,
                         gpointer  stream,
                         int      *is_out_of_memory,
                         char     *message,
                         gsize     message_size)
{
  GError *error = NULL;
  GpuPoolHooks *table = gpumem_get_hooks (device, &error);
  guint64 address = table != NULL ? table->alloc (table->pool, size, stream, &error) : 0;

  if (G_LIKELY (error == NULL))
    return address;

  *is_out_of_memory = gpumem_is_out_of_memory (error);
  pass_message (error, message, message_size);

  return 0;
}

int
gpumem_allocators_free (int      device,
                        guint64  address,
                        gpointer stream)
{
  GpuPoolHooks *table = gpumem_peek_hooks (device);

  return table != NULL && table->free (table->pool, address, stream);
}

void
gpumem_allocators_end_stream (int      device,
                              gpointer stream)
{
  GpuPoolHooks *table = gpumem_peek_hooks (device);

  if (table != NULL)
    table->end_stream (table->pool, stream);
}

guint64
gpumem_allocators_get_figure (int         device,
                              const char *name)
{
  GpuPoolHooks *table = gpumem_peek_hooks (device);

  return table != NULL ? table->get_figure (table->pool, name) : 0;
}

/* Gets the bytes of the device that are free for the pool, including unused memory of the pool. */
int
gpumem_allocators_get_memory (int      device,
                              guint64 *free_size,
                              guint64 *total_size)
{
  GpuMemoryPool *pool = gpumem_peek_pool (device);
  guint64 limit, active, managed;

  if (pool == NULL || !gpu_allocator_get_memory_info (GPU_ALLOCATOR (pool), free_size, total_size,
                                                      NULL))
    return FALSE;

  g_object_get (pool, "limit", &limit, "active-bytes", &active, "managed-bytes", &managed, NULL);
  *free_size += managed - MIN (managed, active);

  if (limit != 0)
    {
      *total_size = MIN (*total_size, limit);
      *free_size = MIN (*free_size, limit - MIN (limit, active));
    }

  return TRUE;
}

void
gpumem_allocators_set_limit (int     device,
                             guint64 limit)
{
  GpuMemoryPool *pool = gpumem_peek_pool (device);

  if (pool != NULL)
    gpu_memory_pool_set_limit (pool, limit);
}

void
gpumem_allocators_trim (int     device,
                        guint64 keep)
{
  GpuPoolHooks *table = gpumem_peek_hooks (device);

  if (table != NULL)
    table->trim (table->pool, keep);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The pools by device, and plain functions for ctypes. */
#include "gpumem-allocators.h"

#include <string.h>

static GMutex lock;                 /* held while a pool is created, offered or withdrawn */
static GpuMemoryPool *pools[GPUMEM_MAX_DEVICES];      /* atomic; never replaced */
static GpuPoolHooks *hooks[GPUMEM_MAX_DEVICES];       /* atomic; set before the pool */
/* The pools of calls of install() that may still fail. The first allocation uses this pool, which
 * then cannot be withdrawn. Protected by the lock. */
static GpuMemoryPool *offered[GPUMEM_MAX_DEVICES];

GPUMEM_EXPORT int      gpumem_allocators_has_pool      (int            device);
GPUMEM_EXPORT int      gpumem_allocators_offer_pool    (int            device,
                                                        gpointer       pool,
                                                        char          *message,
                                                        gsize          size);
GPUMEM_EXPORT int      gpumem_allocators_accept_pool   (int            device);
GPUMEM_EXPORT int      gpumem_allocators_withdraw_pool (int            device);
GPUMEM_EXPORT guint64  gpumem_allocators_alloc         (int            device,
                                                        gsize          size,
                                                        gpointer       stream,
                                                        int           *is_out_of_memory,
                                                        char          *message,
                                                        gsize          message_size);
GPUMEM_EXPORT int      gpumem_allocators_free          (int            device,
                                                        guint64        address,
                                                        gpointer       stream);
GPUMEM_EXPORT void     gpumem_allocators_end_stream    (int            device,
                                                        gpointer       stream);
GPUMEM_EXPORT guint64  gpumem_allocators_get_figure    (int            device,
                                                        const char    *name);
GPUMEM_EXPORT int      gpumem_allocators_get_memory    (int            device,
                                                        guint64       *free_size,
                                                        guint64       *total_size);
GPUMEM_EXPORT guint64  gpumem_allocators_get_limit     (int            device);
GPUMEM_EXPORT void     gpumem_allocators_set_limit     (int            device,
                                                        guint64        limit);
GPUMEM_EXPORT void     gpumem_allocators_reset_peaks   (int            device);
GPUMEM_EXPORT void     gpumem_allocators_trim          (int            device,
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

/* Caller holds the lock. Consumes the reference to @pool. */
static void
set_pool (int            device,
          GpuMemoryPool *pool)
{
  g_object_get (pool, "hooks", &hooks[device], NULL);
  g_atomic_pointer_set (&pools[device], pool);
}

static gboolean
check_hooks (GpuMemoryPool  *pool,
             int             device,
             GError        **error)
{
  GpuPoolHooks *found = NULL;

  g_object_get (pool, "hooks", &found, NULL);
  if (found != NULL)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "gpumem.allocators: memory of the pool for cuda:%d has no addresses", device);

  return FALSE;
}

/* Makes @pool, or a new pool, the offer for the device. Caller holds the lock. */
static gboolean
offer_pool (int             device,
            GpuMemoryPool  *pool,
            GError        **error)
{
  g_autoptr (GpuMemoryPool) made = pool != NULL ? g_object_ref (pool) : make_pool (device, error);

  if (made == NULL || !check_hooks (made, device, error))
    return FALSE;

  offered[device] = g_steal_pointer (&made);

  return TRUE;
}

GpuPoolHooks *
gpumem_get_hooks (int      device,
                  GError **error)
{
  g_autoptr (GMutexLocker) locker = NULL;

  if (G_LIKELY (gpumem_peek_hooks (device) != NULL))
    return hooks[device];

  if (!check_device (device, error))
    return NULL;

  locker = g_mutex_locker_new (&lock);
  if (pools[device] != NULL)
    return hooks[device];

  if (offered[device] == NULL && !offer_pool (device, NULL, error))
    return NULL;

  set_pool (device, g_steal_pointer (&offered[device]));

  return hooks[device];
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

/* Prepares the pool of a device: the given pool, or a new one for NULL. Returns 1 if the pool can
 * still be withdrawn, 2 if it is already the pool of the device, 0 if the device has another pool,
 * whose memory may be in use, or -1 with a message on failure. */
int
gpumem_allocators_offer_pool (int       device,
                              gpointer  pool,
                              char     *message,
                              gsize     size)
{
  GError *error = NULL;
  int result = -1;

  g_mutex_lock (&lock);
  if (!check_device (device, &error))
    result = -1;
  else if (pools[device] != NULL || offered[device] != NULL)
    result = pool == NULL || pools[device] == pool ? 2 : 0;
  else if (offer_pool (device, pool, &error))
    result = 1;
  g_mutex_unlock (&lock);

  pass_message (error, message, size);

  return result;
}

/* Makes the offered pool the pool of the device. */
int
gpumem_allocators_accept_pool (int device)
{
  return gpumem_get_hooks (device, NULL) != NULL;
}

/* Drops the offered pool. Returns FALSE if an allocation has used it in the meantime. */
int
gpumem_allocators_withdraw_pool (int device)
{
  GpuMemoryPool *pool;

  if (!check_device (device, NULL))
    return FALSE;

  g_mutex_lock (&lock);
  pool = g_steal_pointer (&offered[device]);
  g_mutex_unlock (&lock);

  if (pool == NULL)
    return FALSE;

  g_object_unref (pool);

  return TRUE;
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

  return pool != NULL && gpu_allocator_get_memory_info (GPU_ALLOCATOR (pool), free_size, total_size,
                                                        NULL);
}

/* Returns a reference to the pool of the device, or to the pool that is offered. */
static GpuMemoryPool *
ref_pool (int device)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&lock);
  GpuMemoryPool *pool = gpumem_peek_pool (device);

  if (pool == NULL && check_device (device, NULL))
    pool = offered[device];

  return pool != NULL ? g_object_ref (pool) : NULL;
}

guint64
gpumem_allocators_get_limit (int device)
{
  g_autoptr (GpuMemoryPool) pool = ref_pool (device);
  guint64 limit = 0;

  if (pool != NULL)
    g_object_get (pool, "limit", &limit, NULL);

  return limit;
}

void
gpumem_allocators_set_limit (int     device,
                             guint64 limit)
{
  g_autoptr (GpuMemoryPool) pool = ref_pool (device);

  if (pool != NULL)
    gpu_memory_pool_set_limit (pool, limit);
}

void
gpumem_allocators_reset_peaks (int device)
{
  g_autoptr (GpuMemoryPool) pool = ref_pool (device);

  if (pool != NULL)
    gpu_memory_pool_reset_peaks (pool);
}

void
gpumem_allocators_trim (int     device,
                        guint64 keep)
{
  GpuPoolHooks *table = gpumem_peek_hooks (device);

  if (table != NULL)
    table->trim (table->pool, keep);
}

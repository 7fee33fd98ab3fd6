/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/allocator/gpu-allocator-adaptor-private.h"

/**
 * SECTION:gpu-limit-allocator
 * @title: GpuLimitAllocator
 * @short_description: a limit for the bytes in use
 * @see_also: #GpuAllocatorAdaptor
 */

/**
 * GpuLimitAllocator:
 *
 * An adaptor that limits the number of bytes in use.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuLimitAllocator) limited = gpu_limit_allocator_new (allocator, 1 << 30);
 * g_autoptr (GpuMemory) memory =
 *   gpu_allocator_alloc (GPU_ALLOCATOR (limited), size, stream, &error);
 *
 * if (g_error_matches (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY))
 *   g_message ("%s", error->message);
 * ]|
 *
 * The adaptor refuses requests that would exceed the limit as if the device were full: with
 * %GPU_ERROR_OUT_OF_DEVICE_MEMORY and a message that quotes the request, the limit and the bytes in
 * use. gpu_allocator_get_memory_info() reports no more free memory than the limit leaves.
 *
 * Since: 0.1
 */
struct _GpuLimitAllocator
{
  GpuAllocatorAdaptor parent_instance;
};

typedef struct
{
  GpuAdaptorCore parent;

  guint64        limit;
  guint64        reserved;          /* bytes of requests in progress */
} Core;

enum
{
  PROP_0,
  PROP_LIMIT,
  PROP_ACTIVE_BYTES,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

static void allocator_iface_init (GpuAllocatorInterface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (GpuLimitAllocator, gpu_limit_allocator, GPU_TYPE_ALLOCATOR_ADAPTOR,
                               G_IMPLEMENT_INTERFACE (GPU_TYPE_ALLOCATOR, allocator_iface_init))

/* Returns the bytes in use and in requests in progress, and sets @limit. */
static guint64
read_core (gpointer  adaptor,
           guint64  *limit)
{
  Core *core = _gpu_adaptor_get_core (adaptor);
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&core->parent.lock);

  *limit = core->limit;

  return core->parent.active + core->reserved;
}

static gboolean
reserve (Core    *core,
         gsize    size,
         GError **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&core->parent.lock);
  guint64 active = core->parent.active + core->reserved;

  if (active <= core->limit && size <= core->limit - active)
    {
      core->reserved += size;
      return TRUE;
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
               "gpu_allocator_alloc: %" G_GSIZE_FORMAT " bytes exceed the limit of %"
               G_GUINT64_FORMAT " bytes, of which %" G_GUINT64_FORMAT " are in use", size,
               core->limit, active);

  return FALSE;
}

static GpuMemory *
limit_alloc (GpuAllocatorAdaptor  *adaptor,
             gsize                 size,
             GpuStream            *stream,
             GError              **error)
{
  Core *core = (Core *) adaptor->core;
  GpuMemory *memory;

  if (!reserve (core, size, error))
    return NULL;

  memory = _gpu_adaptor_alloc (adaptor, size, stream, error);

  if (memory == NULL)
    {
      g_mutex_lock (&core->parent.lock);
      core->reserved -= size;
      g_mutex_unlock (&core->parent.lock);
    }

  return memory;
}

static void
limit_granted (GpuAdaptorCore *core,
               GpuLease       *lease)
{
  ((Core *) core)->reserved -= lease->size;
}

static const GpuAdaptorOps limit_ops =
{
  .core_size = sizeof (Core),
  .lease_size = sizeof (GpuLease),
  .alloc = limit_alloc,
  .granted = limit_granted
};

static gboolean
limit_get_memory_info (GpuAllocator  *allocator,
                       guint64       *free_size,
                       guint64       *total_size,
                       GError       **error)
{
  GpuAllocatorInterface *parent =
    g_type_interface_peek_parent (GPU_ALLOCATOR_GET_IFACE (allocator));
  guint64 limit;
  guint64 active = read_core (allocator, &limit);

  if (!parent->get_memory_info (allocator, free_size, total_size, error))
    return FALSE;

  *free_size = MIN (*free_size, limit - MIN (active, limit));
  *total_size = MIN (*total_size, limit);

  return TRUE;
}

static void
allocator_iface_init (GpuAllocatorInterface *iface)
{
  iface->get_memory_info = limit_get_memory_info;
}

static void
gpu_limit_allocator_get_property (GObject    *object,
                                  guint       id,
                                  GValue     *value,
                                  GParamSpec *pspec)
{
  guint64 limit;
  guint64 active = read_core (object, &limit);

  if (id == PROP_LIMIT || id == PROP_ACTIVE_BYTES)
    g_value_set_uint64 (value, id == PROP_LIMIT ? limit : active);
  else
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
}

static void
set_limit (GpuLimitAllocator *allocator,
           guint64            limit)
{
  if (_gpu_adaptor_set_uint64 (allocator, G_STRUCT_OFFSET (Core, limit), limit))
    g_object_notify_by_pspec (G_OBJECT (allocator), props[PROP_LIMIT]);
}

static void
gpu_limit_allocator_set_property (GObject      *object,
                                  guint         id,
                                  const GValue *value,
                                  GParamSpec   *pspec)
{
  if (id == PROP_LIMIT)
    set_limit (GPU_LIMIT_ALLOCATOR (object), g_value_get_uint64 (value));
  else
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
}

static void
gpu_limit_allocator_class_init (GpuLimitAllocatorClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = gpu_limit_allocator_get_property;
  object_class->set_property = gpu_limit_allocator_set_property;

  /**
   * GpuLimitAllocator:limit:
   *
   * The maximum number of bytes in use.
   *
   * Since: 0.1
   */
  props[PROP_LIMIT] =
    g_param_spec_uint64 ("limit", NULL, NULL, 0, G_MAXUINT64, G_MAXUINT64,
                         G_PARAM_READWRITE | G_PARAM_CONSTRUCT | G_PARAM_EXPLICIT_NOTIFY
                         | G_PARAM_STATIC_STRINGS);
  /**
   * GpuLimitAllocator:active-bytes:
   *
   * The number of bytes in use. Changes are not notified.
   *
   * Since: 0.1
   */
  props[PROP_ACTIVE_BYTES] = g_param_spec_uint64 ("active-bytes", NULL, NULL, 0, G_MAXUINT64, 0,
                                                  G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);

  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_limit_allocator_init (GpuLimitAllocator *allocator)
{
  _gpu_adaptor_init (&allocator->parent_instance, &limit_ops);
}

/**
 * gpu_limit_allocator_new:
 * @upstream: the allocator to limit
 * @limit: the maximum number of bytes in use
 *
 * Creates an adaptor that refuses requests beyond @limit. May be called from any thread.
 *
 * Returns: (transfer full): the allocator
 *
 * Since: 0.1
 */
GpuLimitAllocator *
gpu_limit_allocator_new (GpuAllocator *upstream,
                         guint64       limit)
{
  g_return_val_if_fail (GPU_IS_ALLOCATOR (upstream), NULL);

  return g_object_new (GPU_TYPE_LIMIT_ALLOCATOR, "upstream", upstream, "limit", limit, NULL);
}

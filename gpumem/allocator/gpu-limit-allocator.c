/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/allocator/gpu-allocator-adaptor-private.h"

/**
 * SECTION:gpu-limit-allocator
 * @title: GpuLimitAllocator
 * @short_description: no more than so many bytes
 *
 * Refuses what would bring the memory in use beyond a limit, as if the device had no more: with
 * %GPU_ERROR_OUT_OF_DEVICE_MEMORY, whose text has the request, the limit and what is in use. With
 * gpu_allocator_get_memory_info() it tells what is left of the limit.
 */

/**
 * GpuLimitAllocator:
 *
 * An adaptor that limits memory.
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
  guint64        active;
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

static Core *
get_core (gpointer adaptor)
{
  return (Core *) GPU_ALLOCATOR_ADAPTOR (adaptor)->core;
}

/* What is in use, and the limit. */
static guint64
read_core (Core    *core,
           guint64 *limit)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&core->parent.lock);

  *limit = core->limit;

  return core->active;
}

static gboolean
reserve (Core    *core,
         gsize    size,
         GError **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&core->parent.lock);

  if (core->active <= core->limit && size <= core->limit - core->active)
    {
      core->active += size;
      return TRUE;
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
               "gpu_allocator_alloc: %" G_GSIZE_FORMAT " bytes exceed the limit of %"
               G_GUINT64_FORMAT " bytes, of which %" G_GUINT64_FORMAT " are in use", size,
               core->limit, core->active);

  return FALSE;
}

static void
unreserve (Core  *core,
           gsize  size)
{
  g_mutex_lock (&core->parent.lock);
  core->active -= size;
  g_mutex_unlock (&core->parent.lock);
}

static GpuMemory *
limit_alloc (GpuAllocatorAdaptor  *adaptor,
             gsize                 size,
             GpuStream            *stream,
             GError              **error)
{
  Core *core = get_core (adaptor);
  GpuMemory *memory;

  if (!reserve (core, size, error))
    return NULL;

  memory = _gpu_adaptor_alloc (adaptor, size, stream, error);

  if (memory == NULL)
    unreserve (core, size);

  return memory;
}

static gboolean
limit_returned (GpuAdaptorCore *core,
                GpuLease       *lease,
                GpuStorage     *storage G_GNUC_UNUSED)
{
  unreserve ((Core *) core, lease->size);

  return TRUE;
}

static const GpuAdaptorOps limit_ops =
{
  .core_size = sizeof (Core),
  .lease_size = sizeof (GpuLease),
  .alloc = limit_alloc,
  .returned = limit_returned
};

static gboolean
limit_get_memory_info (GpuAllocator  *allocator,
                       guint64       *free_size,
                       guint64       *total_size,
                       GError       **error)
{
  GpuAllocatorInterface *parent = NULL;
  guint64 limit;
  guint64 active = read_core (get_core (allocator), &limit);

  parent = g_type_interface_peek_parent (GPU_ALLOCATOR_GET_IFACE (allocator));

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
  GpuLimitAllocator *allocator = GPU_LIMIT_ALLOCATOR (object);

  switch (id)
    {
    case PROP_LIMIT:
      g_value_set_uint64 (value, gpu_limit_allocator_get_limit (allocator));
      break;
    case PROP_ACTIVE_BYTES:
      g_value_set_uint64 (value, gpu_limit_allocator_get_active_bytes (allocator));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_limit_allocator_set_property (GObject      *object,
                                  guint         id,
                                  const GValue *value,
                                  GParamSpec   *pspec)
{
  if (id == PROP_LIMIT)
    gpu_limit_allocator_set_limit (GPU_LIMIT_ALLOCATOR (object), g_value_get_uint64 (value));
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
   * How many bytes may be in use at a time.
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
   * How many bytes are in use. No notification tells when it changes.
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
 * @limit: how many bytes may be in use at a time
 *
 * Makes an adaptor that refuses what would exceed @limit.
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

/**
 * gpu_limit_allocator_get_limit:
 * @allocator: a #GpuLimitAllocator
 *
 * Gets how many bytes may be in use at a time. Any thread.
 *
 * Returns: the size in bytes
 *
 * Since: 0.1
 */
guint64
gpu_limit_allocator_get_limit (GpuLimitAllocator *allocator)
{
  guint64 limit;

  g_return_val_if_fail (GPU_IS_LIMIT_ALLOCATOR (allocator), 0);

  read_core (get_core (allocator), &limit);

  return limit;
}

/**
 * gpu_limit_allocator_set_limit:
 * @allocator: a #GpuLimitAllocator
 * @limit: size in bytes
 *
 * Sets how many bytes may be in use at a time. Memory that is in use stays so, also if it is more.
 * Any thread.
 *
 * Since: 0.1
 */
void
gpu_limit_allocator_set_limit (GpuLimitAllocator *allocator,
                               guint64            limit)
{
  Core *core;
  gboolean changed;

  g_return_if_fail (GPU_IS_LIMIT_ALLOCATOR (allocator));

  core = get_core (allocator);
  g_mutex_lock (&core->parent.lock);
  changed = core->limit != limit;
  core->limit = limit;
  g_mutex_unlock (&core->parent.lock);

  if (changed)
    g_object_notify_by_pspec (G_OBJECT (allocator), props[PROP_LIMIT]);
}

/**
 * gpu_limit_allocator_get_active_bytes:
 * @allocator: a #GpuLimitAllocator
 *
 * Gets how many bytes are in use. Any thread.
 *
 * Returns: the size in bytes
 *
 * Since: 0.1
 */
guint64
gpu_limit_allocator_get_active_bytes (GpuLimitAllocator *allocator)
{
  guint64 limit;

  g_return_val_if_fail (GPU_IS_LIMIT_ALLOCATOR (allocator), 0);

  return read_core (get_core (allocator), &limit);
}

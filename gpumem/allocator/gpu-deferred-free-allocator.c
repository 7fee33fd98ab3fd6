/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/allocator/gpu-allocator-adaptor-private.h"

/**
 * SECTION:gpu-deferred-free-allocator
 * @title: GpuDeferredFreeAllocator
 * @short_description: frees memory later, and then all at once
 *
 * Drivers may wait for the device when they free memory. This adaptor gathers what comes back, and
 * frees all of it when there is more of it than #GpuDeferredFreeAllocator:max-count or
 * #GpuDeferredFreeAllocator:max-bytes, when upstream has no memory, which is asked again then, when
 * the program says so with gpu_deferred_free_allocator_flush() or gpu_allocator_trim(), and when
 * the allocator goes. Between gpu_deferred_free_allocator_hold() and
 * gpu_deferred_free_allocator_unhold() nothing is freed because of its amount.
 *
 * Memory is not used again meanwhile: for that there are pools. Adaptors that are upstream are told
 * when memory is freed, those around this one when it comes back. What a #GpuStreamAllocator gave
 * is not gathered: its driver never waits. The `free` of a class of the program that is upstream is
 * not called.
 */

/**
 * GpuDeferredFreeAllocator:
 *
 * An adaptor that frees memory later.
 *
 * Since: 0.1
 */
struct _GpuDeferredFreeAllocator
{
  GpuAllocatorAdaptor parent_instance;
};

#define DEFAULT_MAX_COUNT 10
#define DEFAULT_SHARE     5         /* of the memory of the device, one in so many */

typedef struct
{
  GpuAdaptorCore  parent;

  GPtrArray      *pending;          /* of GpuStorage, with a reference each */
  guint64         bytes;            /* of them */
  guint           max_count;
  guint64         max_bytes;
  guint           n_holds;
} Core;

enum
{
  PROP_0,
  PROP_MAX_COUNT,
  PROP_MAX_BYTES,
  PROP_PENDING_COUNT,
  PROP_PENDING_BYTES,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

static void allocator_iface_init (GpuAllocatorInterface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (GpuDeferredFreeAllocator, gpu_deferred_free_allocator,
                               GPU_TYPE_ALLOCATOR_ADAPTOR,
                               G_IMPLEMENT_INTERFACE (GPU_TYPE_ALLOCATOR, allocator_iface_init))

static Core *
get_core (gpointer adaptor)
{
  return (Core *) GPU_ALLOCATOR_ADAPTOR (adaptor)->core;
}

static void
free_pending (gpointer data)
{
  _gpu_storage_go_on (data);
  _gpu_storage_unref (data);
}

static GPtrArray *
pending_new (void)
{
  return g_ptr_array_new_with_free_func (free_pending);
}

/* (transfer full): what is to be freed now, without the lock, by letting go of it; or NULL. */
static GPtrArray *
steal_locked (Core     *core,
              gboolean  all)
{
  gboolean much = core->n_holds == 0 && (core->pending->len > core->max_count
                                         || core->bytes > core->max_bytes);
  GPtrArray *pending = core->pending;

  if (pending->len == 0 || !(all || much))
    return NULL;

  core->pending = pending_new ();
  core->bytes = 0;

  return pending;
}

/* TRUE if there was something. */
static gboolean
flush (Core     *core,
       gboolean  all)
{
  g_autoptr (GPtrArray) pending = NULL;

  g_mutex_lock (&core->parent.lock);
  pending = steal_locked (core, all);
  g_mutex_unlock (&core->parent.lock);

  return pending != NULL;
}

static gboolean
deferred_free_returned (GpuAdaptorCore *parent,
                        GpuLease       *lease,
                        GpuStorage     *storage)
{
  Core *core = (Core *) parent;
  g_autoptr (GPtrArray) pending = NULL;

  if (storage == NULL || storage->home != NULL)
    return TRUE;

  g_mutex_lock (&parent->lock);

  if (parent->closed)
    {
      g_mutex_unlock (&parent->lock);
      return TRUE;
    }

  g_ptr_array_add (core->pending, _gpu_storage_ref (storage));
  core->bytes += lease->size;
  pending = steal_locked (core, FALSE);
  g_mutex_unlock (&parent->lock);

  return FALSE;
}

static GpuMemory *
deferred_free_alloc (GpuAllocatorAdaptor  *adaptor,
                     gsize                 size,
                     GpuStream            *stream,
                     GError              **error)
{
  g_autoptr (GError) failure = NULL;
  GpuMemory *memory = _gpu_adaptor_alloc (adaptor, size, stream, &failure);

  if (memory != NULL)
    return memory;

  if (_gpu_error_is_out_of_memory (failure) && flush (get_core (adaptor), TRUE))
    return _gpu_adaptor_alloc (adaptor, size, stream, error);

  g_propagate_error (error, g_steal_pointer (&failure));

  return NULL;
}

static void
deferred_free_clear (GpuAdaptorCore *core)
{
  g_ptr_array_unref (((Core *) core)->pending);
}

static const GpuAdaptorOps deferred_free_ops =
{
  .core_size = sizeof (Core),
  .lease_size = sizeof (GpuLease),
  .alloc = deferred_free_alloc,
  .returned = deferred_free_returned,
  .clear = deferred_free_clear
};

/* The lease has to be there when the memory is released. */
static void
deferred_free_free (GpuAllocator *allocator G_GNUC_UNUSED,
                    GpuMemory    *memory)
{
  gpu_memory_release (memory);
}

static void
deferred_free_trim (GpuAllocator *allocator,
                    guint64       held_bytes)
{
  GpuAllocatorInterface *parent =
    g_type_interface_peek_parent (GPU_ALLOCATOR_GET_IFACE (allocator));
  Core *core = get_core (allocator);

  if (gpu_deferred_free_allocator_get_pending_bytes (GPU_DEFERRED_FREE_ALLOCATOR (allocator))
      > held_bytes)
    flush (core, TRUE);

  parent->trim (allocator, held_bytes);
}

static void
allocator_iface_init (GpuAllocatorInterface *iface)
{
  iface->free = deferred_free_free;
  iface->trim = deferred_free_trim;
}

static void
gpu_deferred_free_allocator_get_property (GObject    *object,
                                          guint       id,
                                          GValue     *value,
                                          GParamSpec *pspec)
{
  GpuDeferredFreeAllocator *allocator = GPU_DEFERRED_FREE_ALLOCATOR (object);

  switch (id)
    {
    case PROP_MAX_COUNT:
      g_value_set_uint (value, gpu_deferred_free_allocator_get_max_count (allocator));
      break;
    case PROP_MAX_BYTES:
      g_value_set_uint64 (value, gpu_deferred_free_allocator_get_max_bytes (allocator));
      break;
    case PROP_PENDING_COUNT:
      g_value_set_uint (value, gpu_deferred_free_allocator_get_pending_count (allocator));
      break;
    case PROP_PENDING_BYTES:
      g_value_set_uint64 (value, gpu_deferred_free_allocator_get_pending_bytes (allocator));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_deferred_free_allocator_set_property (GObject      *object,
                                          guint         id,
                                          const GValue *value,
                                          GParamSpec   *pspec)
{
  GpuDeferredFreeAllocator *allocator = GPU_DEFERRED_FREE_ALLOCATOR (object);

  switch (id)
    {
    case PROP_MAX_COUNT:
      gpu_deferred_free_allocator_set_max_count (allocator, g_value_get_uint (value));
      break;
    case PROP_MAX_BYTES:
      gpu_deferred_free_allocator_set_max_bytes (allocator, g_value_get_uint64 (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_deferred_free_allocator_constructed (GObject *object)
{
  GpuAllocator *upstream = GPU_ALLOCATOR_ADAPTOR (object)->upstream;
  guint64 free_size;
  guint64 total_size;

  if (upstream != NULL && gpu_allocator_get_memory_info (upstream, &free_size, &total_size, NULL)
      && total_size > 0)
    get_core (object)->max_bytes = total_size / DEFAULT_SHARE;

  G_OBJECT_CLASS (gpu_deferred_free_allocator_parent_class)->constructed (object);
}

static void
gpu_deferred_free_allocator_finalize (GObject *object)
{
  Core *core = get_core (object);

  g_mutex_lock (&core->parent.lock);
  core->parent.closed = TRUE;
  g_mutex_unlock (&core->parent.lock);
  flush (core, TRUE);

  G_OBJECT_CLASS (gpu_deferred_free_allocator_parent_class)->finalize (object);
}

static void
install_pending (void)
{
  /**
   * GpuDeferredFreeAllocator:pending-count:
   *
   * Number of memories that are to be freed. No notification tells when it changes.
   *
   * Since: 0.1
   */
  props[PROP_PENDING_COUNT] = g_param_spec_uint ("pending-count", NULL, NULL, 0, G_MAXUINT, 0,
                                                 G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  /**
   * GpuDeferredFreeAllocator:pending-bytes:
   *
   * Bytes that are to be freed. No notification tells when it changes.
   *
   * Since: 0.1
   */
  props[PROP_PENDING_BYTES] = g_param_spec_uint64 ("pending-bytes", NULL, NULL, 0, G_MAXUINT64, 0,
                                                   G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
}

static void
gpu_deferred_free_allocator_class_init (GpuDeferredFreeAllocatorClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_EXPLICIT_NOTIFY | G_PARAM_STATIC_STRINGS;

  object_class->get_property = gpu_deferred_free_allocator_get_property;
  object_class->set_property = gpu_deferred_free_allocator_set_property;
  object_class->constructed = gpu_deferred_free_allocator_constructed;
  object_class->finalize = gpu_deferred_free_allocator_finalize;

  /**
   * GpuDeferredFreeAllocator:max-count:
   *
   * How many memories are gathered at most.
   *
   * Since: 0.1
   */
  props[PROP_MAX_COUNT] = g_param_spec_uint ("max-count", NULL, NULL, 0, G_MAXUINT,
                                             DEFAULT_MAX_COUNT, flags);
  /**
   * GpuDeferredFreeAllocator:max-bytes:
   *
   * How many bytes are gathered at most: to begin with a fifth of what upstream tells there is.
   *
   * Since: 0.1
   */
  props[PROP_MAX_BYTES] = g_param_spec_uint64 ("max-bytes", NULL, NULL, 0, G_MAXUINT64,
                                               G_MAXUINT64, flags);
  install_pending ();

  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_deferred_free_allocator_init (GpuDeferredFreeAllocator *allocator)
{
  Core *core = _gpu_adaptor_init (&allocator->parent_instance, &deferred_free_ops);

  core->pending = pending_new ();
  core->max_count = DEFAULT_MAX_COUNT;
  core->max_bytes = G_MAXUINT64;
}

/**
 * gpu_deferred_free_allocator_new:
 * @upstream: the allocator to free later for
 *
 * Makes an adaptor that frees memory later.
 *
 * Returns: (transfer full): the allocator
 *
 * Since: 0.1
 */
GpuDeferredFreeAllocator *
gpu_deferred_free_allocator_new (GpuAllocator *upstream)
{
  g_return_val_if_fail (GPU_IS_ALLOCATOR (upstream), NULL);

  return g_object_new (GPU_TYPE_DEFERRED_FREE_ALLOCATOR, "upstream", upstream, NULL);
}

typedef struct
{
  guint   max_count;
  guint64 max_bytes;
  guint   count;
  guint64 bytes;
} Figures;

static Figures
read_core (GpuDeferredFreeAllocator *allocator)
{
  Core *core = get_core (allocator);
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&core->parent.lock);

  return (Figures) { core->max_count, core->max_bytes, core->pending->len, core->bytes };
}

/**
 * gpu_deferred_free_allocator_get_max_count:
 * @allocator: a #GpuDeferredFreeAllocator
 *
 * Gets how many memories are gathered at most. Any thread.
 *
 * Returns: the number
 *
 * Since: 0.1
 */
guint
gpu_deferred_free_allocator_get_max_count (GpuDeferredFreeAllocator *allocator)
{
  g_return_val_if_fail (GPU_IS_DEFERRED_FREE_ALLOCATOR (allocator), 0);

  return read_core (allocator).max_count;
}

/**
 * gpu_deferred_free_allocator_get_max_bytes:
 * @allocator: a #GpuDeferredFreeAllocator
 *
 * Gets how many bytes are gathered at most. Any thread.
 *
 * Returns: the size in bytes
 *
 * Since: 0.1
 */
guint64
gpu_deferred_free_allocator_get_max_bytes (GpuDeferredFreeAllocator *allocator)
{
  g_return_val_if_fail (GPU_IS_DEFERRED_FREE_ALLOCATOR (allocator), 0);

  return read_core (allocator).max_bytes;
}

/**
 * gpu_deferred_free_allocator_get_pending_count:
 * @allocator: a #GpuDeferredFreeAllocator
 *
 * Gets how many memories are to be freed. Any thread.
 *
 * Returns: the number
 *
 * Since: 0.1
 */
guint
gpu_deferred_free_allocator_get_pending_count (GpuDeferredFreeAllocator *allocator)
{
  g_return_val_if_fail (GPU_IS_DEFERRED_FREE_ALLOCATOR (allocator), 0);

  return read_core (allocator).count;
}

/**
 * gpu_deferred_free_allocator_get_pending_bytes:
 * @allocator: a #GpuDeferredFreeAllocator
 *
 * Gets how many bytes are to be freed. Any thread.
 *
 * Returns: the size in bytes
 *
 * Since: 0.1
 */
guint64
gpu_deferred_free_allocator_get_pending_bytes (GpuDeferredFreeAllocator *allocator)
{
  g_return_val_if_fail (GPU_IS_DEFERRED_FREE_ALLOCATOR (allocator), 0);

  return read_core (allocator).bytes;
}

/* Ends what was begun with the lock. */
static void
unlock_limits (GpuDeferredFreeAllocator *allocator,
               guint                     property,
               gboolean                  changed)
{
  Core *core = get_core (allocator);

  g_mutex_unlock (&core->parent.lock);
  flush (core, FALSE);

  if (changed)
    g_object_notify_by_pspec (G_OBJECT (allocator), props[property]);
}

/**
 * gpu_deferred_free_allocator_set_max_count:
 * @allocator: a #GpuDeferredFreeAllocator
 * @max_count: a number, 0 to gather nothing
 *
 * Sets how many memories are gathered at most; if there are more, all are freed. Any thread.
 *
 * Since: 0.1
 */
void
gpu_deferred_free_allocator_set_max_count (GpuDeferredFreeAllocator *allocator,
                                           guint                     max_count)
{
  gboolean changed;
  Core *core;

  g_return_if_fail (GPU_IS_DEFERRED_FREE_ALLOCATOR (allocator));

  core = get_core (allocator);
  g_mutex_lock (&core->parent.lock);
  changed = core->max_count != max_count;
  core->max_count = max_count;
  unlock_limits (allocator, PROP_MAX_COUNT, changed);
}

/**
 * gpu_deferred_free_allocator_set_max_bytes:
 * @allocator: a #GpuDeferredFreeAllocator
 * @max_bytes: a size in bytes, 0 to gather nothing
 *
 * Sets how many bytes are gathered at most; if there are more, all are freed. Any thread.
 *
 * Since: 0.1
 */
void
gpu_deferred_free_allocator_set_max_bytes (GpuDeferredFreeAllocator *allocator,
                                           guint64                   max_bytes)
{
  gboolean changed;
  Core *core;

  g_return_if_fail (GPU_IS_DEFERRED_FREE_ALLOCATOR (allocator));

  core = get_core (allocator);
  g_mutex_lock (&core->parent.lock);
  changed = core->max_bytes != max_bytes;
  core->max_bytes = max_bytes;
  unlock_limits (allocator, PROP_MAX_BYTES, changed);
}

/**
 * gpu_deferred_free_allocator_flush:
 * @allocator: a #GpuDeferredFreeAllocator
 *
 * Frees all that is gathered, also while it is held. What work still uses is freed when that is
 * complete. Any thread; blocks where the driver does.
 *
 * Since: 0.1
 */
void
gpu_deferred_free_allocator_flush (GpuDeferredFreeAllocator *allocator)
{
  g_return_if_fail (GPU_IS_DEFERRED_FREE_ALLOCATOR (allocator));

  flush (get_core (allocator), TRUE);
}

/**
 * gpu_deferred_free_allocator_hold:
 * @allocator: a #GpuDeferredFreeAllocator
 *
 * Has memory gathered whatever its amount, until gpu_deferred_free_allocator_unhold() was called as
 * often. Any thread.
 *
 * Since: 0.1
 */
void
gpu_deferred_free_allocator_hold (GpuDeferredFreeAllocator *allocator)
{
  Core *core;

  g_return_if_fail (GPU_IS_DEFERRED_FREE_ALLOCATOR (allocator));

  core = get_core (allocator);
  g_mutex_lock (&core->parent.lock);
  core->n_holds++;
  g_mutex_unlock (&core->parent.lock);
}

/**
 * gpu_deferred_free_allocator_unhold:
 * @allocator: a #GpuDeferredFreeAllocator that is held
 *
 * Ends a gpu_deferred_free_allocator_hold(); if it was the last one, what is too much is freed. Any
 * thread.
 *
 * Since: 0.1
 */
void
gpu_deferred_free_allocator_unhold (GpuDeferredFreeAllocator *allocator)
{
  Core *core;
  gboolean held;

  g_return_if_fail (GPU_IS_DEFERRED_FREE_ALLOCATOR (allocator));

  core = get_core (allocator);
  g_mutex_lock (&core->parent.lock);
  held = core->n_holds > 0;
  core->n_holds -= held;
  g_mutex_unlock (&core->parent.lock);
  g_return_if_fail (held);

  flush (core, FALSE);
}

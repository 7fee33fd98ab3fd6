/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/allocator/gpu-allocator-adaptor-private.h"
#include "gpumem/base/gpu-error-private.h"

/**
 * SECTION:gpu-deferred-free-allocator
 * @title: GpuDeferredFreeAllocator
 * @short_description: an adaptor that frees memory in batches
 * @see_also: #GpuAllocatorAdaptor
 */

/**
 * GpuDeferredFreeAllocator:
 *
 * An adaptor that frees memory in batches.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuDeferredFreeAllocator) batches = gpu_deferred_free_allocator_new (allocator);
 * g_autoptr (GpuMemory) memory =
 *   gpu_allocator_alloc (GPU_ALLOCATOR (batches), size, stream, &error);
 *
 * g_object_set (batches, "max-count", 100, NULL);
 * g_clear_object (&memory);
 * gpu_deferred_free_allocator_flush (batches);
 * ]|
 *
 * A driver that frees memory may block until the device is idle. This adaptor collects memory that
 * the program no longer uses, which this class calls pending memory. It frees all pending memory at
 * once
 *
 * - when it exceeds #GpuDeferredFreeAllocator:max-count or #GpuDeferredFreeAllocator:max-bytes;
 * - when the upstream allocator is out of memory; the adaptor then retries the request;
 * - in gpu_deferred_free_allocator_flush() and gpu_allocator_trim(), and when the adaptor is
 *   finalized.
 *
 * Between gpu_deferred_free_allocator_hold() and gpu_deferred_free_allocator_unhold(), max-count
 * and max-bytes have no effect.
 *
 * The adaptor does not reuse pending memory, unlike a #GpuMemoryPool. Adaptors upstream of this
 * adaptor count memory until it is freed. Adaptors that wrap this adaptor count memory until the
 * program no longer uses it. The adaptor frees memory of a #GpuStreamAllocator immediately, because
 * freeing that memory never blocks. gpu_allocator_free() releases memory of this adaptor. This
 * adaptor never calls the `free` function of the upstream allocator.
 *
 * Since: 0.1
 */
struct _GpuDeferredFreeAllocator
{
  GpuAllocatorAdaptor parent_instance;
};

#define DEFAULT_MAX_COUNT 10
#define DEFAULT_SHARE     5         /* max-bytes defaults to a fifth of the device's memory */

typedef struct
{
  GpuAdaptorCore  parent;

  GPtrArray      *pending;          /* of GpuStorage, with a reference to each: memory that the
                                     * program no longer uses, but that is not freed yet */
  guint64         count;            /* number of elements of `pending` */
  guint64         bytes;            /* requested size of all memory in `pending` */
  guint64         max_count;
  guint64         max_bytes;
  guint           n_holds;          /* while this is not 0, the limits have no effect */
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

static void
free_pending (gpointer data)
{
  _gpu_storage_resume_release (data);
  _gpu_storage_unref (data);
}

static GPtrArray *
pending_new (void)
{
  return g_ptr_array_new_with_free_func (free_pending);
}

/* Returns (transfer full) (nullable) all pending memory, if @all is TRUE, or if the pending memory
 * exceeds a limit and n_holds is 0. The caller unrefs the array after it has released the lock: the
 * unref frees the memory, which may block. */
static GPtrArray *
steal_locked (Core     *core,
              gboolean  all)
{
  gboolean exceeded = core->n_holds == 0 && (core->count > core->max_count
                                             || core->bytes > core->max_bytes);
  GPtrArray *pending = core->pending;

  if (core->count == 0 || !(all || exceeded))
    return NULL;

  core->pending = pending_new ();
  core->count = 0;
  core->bytes = 0;

  return pending;
}

/* Frees all pending memory, if @all is TRUE or the memory exceeds a limit. Returns TRUE if memory
 * was freed. */
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

  if (storage == NULL || storage->allocation_stream != NULL)
    return TRUE;

  g_mutex_lock (&parent->lock);

  if (parent->closed)
    {
      g_mutex_unlock (&parent->lock);
      return TRUE;
    }

  g_ptr_array_add (core->pending, _gpu_storage_ref (storage));
  core->count++;
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

  if (_gpu_error_is_out_of_memory (failure) && flush ((Core *) adaptor->core, TRUE))
    return _gpu_adaptor_alloc (adaptor, size, stream, error);

  g_propagate_error (error, g_steal_pointer (&failure));

  return NULL;
}

static void
deferred_free_closed (GpuAdaptorCore *core)
{
  flush ((Core *) core, TRUE);
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
  .closed = deferred_free_closed,
  .clear = deferred_free_clear
};

/* Does not end the lease: the hook of the lease adds the memory to the pending memory when the
 * memory is released. */
static void
deferred_free_free (GpuAllocator *allocator,
                    GpuMemory    *memory)
{
  if (memory->storage != NULL
      && _gpu_storage_has_hook (memory->storage, _gpu_adaptor_get_core (allocator)))
    gpu_memory_release (memory);
}

static void
deferred_free_trim (GpuAllocator *allocator,
                    guint64       held_bytes)
{
  GpuAllocatorInterface *parent =
    g_type_interface_peek_parent (GPU_ALLOCATOR_GET_IFACE (allocator));

  if (_gpu_adaptor_get_uint64 (allocator, G_STRUCT_OFFSET (Core, bytes)) > held_bytes)
    flush (_gpu_adaptor_get_core (allocator), TRUE);

  parent->trim (allocator, held_bytes);
}

static void
allocator_iface_init (GpuAllocatorInterface *iface)
{
  iface->free = deferred_free_free;
  iface->trim = deferred_free_trim;
}

static void
set_maximum (GpuDeferredFreeAllocator *allocator,
             guint                     property,
             gsize                     offset,
             guint64                   value)
{
  gboolean changed = _gpu_adaptor_set_uint64 (allocator, offset, value);

  flush (_gpu_adaptor_get_core (allocator), FALSE);

  if (changed)
    g_object_notify_by_pspec (G_OBJECT (allocator), props[property]);
}

static guint64
get_figure (GpuDeferredFreeAllocator *allocator,
            gsize                     offset)
{
  return _gpu_adaptor_get_uint64 (allocator, offset);
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
      g_value_set_uint (value, (guint) get_figure (allocator, G_STRUCT_OFFSET (Core, max_count)));
      break;
    case PROP_MAX_BYTES:
      g_value_set_uint64 (value, get_figure (allocator, G_STRUCT_OFFSET (Core, max_bytes)));
      break;
    case PROP_PENDING_COUNT:
      g_value_set_uint (value, (guint) get_figure (allocator, G_STRUCT_OFFSET (Core, count)));
      break;
    case PROP_PENDING_BYTES:
      g_value_set_uint64 (value, get_figure (allocator, G_STRUCT_OFFSET (Core, bytes)));
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
      set_maximum (allocator, PROP_MAX_COUNT, G_STRUCT_OFFSET (Core, max_count),
                   g_value_get_uint (value));
      break;
    case PROP_MAX_BYTES:
      set_maximum (allocator, PROP_MAX_BYTES, G_STRUCT_OFFSET (Core, max_bytes),
                   g_value_get_uint64 (value));
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
    _gpu_adaptor_set_uint64 (object, G_STRUCT_OFFSET (Core, max_bytes),
                             total_size / DEFAULT_SHARE);

  G_OBJECT_CLASS (gpu_deferred_free_allocator_parent_class)->constructed (object);
}

static void
install_pending (void)
{
  /**
   * GpuDeferredFreeAllocator:pending-count:
   *
   * The number of memory objects that the program no longer uses, but that are not freed yet.
   * Changes are not notified.
   *
   * Since: 0.1
   */
  props[PROP_PENDING_COUNT] = g_param_spec_uint ("pending-count", NULL, NULL, 0, G_MAXUINT, 0,
                                                 G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  /**
   * GpuDeferredFreeAllocator:pending-bytes:
   *
   * The size in bytes of the memory that the program no longer uses, but that is not freed yet.
   * Changes are not notified.
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

  /**
   * GpuDeferredFreeAllocator:max-count:
   *
   * The maximum of #GpuDeferredFreeAllocator:pending-count. When the number exceeds this maximum,
   * the adaptor frees all pending memory.
   *
   * Since: 0.1
   */
  props[PROP_MAX_COUNT] = g_param_spec_uint ("max-count", NULL, NULL, 0, G_MAXUINT,
                                             DEFAULT_MAX_COUNT, flags);
  /**
   * GpuDeferredFreeAllocator:max-bytes:
   *
   * The maximum of #GpuDeferredFreeAllocator:pending-bytes. When the size exceeds this maximum, the
   * adaptor frees all pending memory. By default, the maximum is a fifth of the total memory that
   * the upstream allocator reports.
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
 * @upstream: the allocator to wrap
 *
 * Creates an adaptor that frees memory in batches. May be called from any thread.
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

/**
 * gpu_deferred_free_allocator_flush:
 * @allocator: a #GpuDeferredFreeAllocator
 *
 * Frees all memory that the program no longer uses, even after gpu_deferred_free_allocator_hold().
 * If submitted work still uses some of the memory, that memory is freed when the work has
 * completed. May be called from any thread; may block in the driver.
 *
 * Since: 0.1
 */
void
gpu_deferred_free_allocator_flush (GpuDeferredFreeAllocator *allocator)
{
  g_return_if_fail (GPU_IS_DEFERRED_FREE_ALLOCATOR (allocator));

  flush (_gpu_adaptor_get_core (allocator), TRUE);
}

/**
 * gpu_deferred_free_allocator_hold:
 * @allocator: a #GpuDeferredFreeAllocator
 *
 * Suspends the limits #GpuDeferredFreeAllocator:max-count and #GpuDeferredFreeAllocator:max-bytes
 * until the matching call of gpu_deferred_free_allocator_unhold(). Calls may be nested. May be
 * called from any thread.
 *
 * Since: 0.1
 */
void
gpu_deferred_free_allocator_hold (GpuDeferredFreeAllocator *allocator)
{
  Core *core;

  g_return_if_fail (GPU_IS_DEFERRED_FREE_ALLOCATOR (allocator));

  core = _gpu_adaptor_get_core (allocator);
  g_mutex_lock (&core->parent.lock);
  core->n_holds++;
  g_mutex_unlock (&core->parent.lock);
}

/**
 * gpu_deferred_free_allocator_unhold:
 * @allocator: a #GpuDeferredFreeAllocator after gpu_deferred_free_allocator_hold()
 * @error: return location for an error
 *
 * Ends the effect of one gpu_deferred_free_allocator_hold(). If no other hold is in effect, and the
 * memory that the program no longer uses exceeds a limit, frees that memory. May be called from any
 * thread; may block in the driver.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if no hold is in effect
 *
 * Since: 0.1
 */
gboolean
gpu_deferred_free_allocator_unhold (GpuDeferredFreeAllocator  *allocator,
                                    GError                   **error)
{
  Core *core;
  gboolean held;

  g_return_val_if_fail (GPU_IS_DEFERRED_FREE_ALLOCATOR (allocator), FALSE);

  core = _gpu_adaptor_get_core (allocator);
  g_mutex_lock (&core->parent.lock);
  held = core->n_holds > 0;
  core->n_holds -= held;
  g_mutex_unlock (&core->parent.lock);

  if (held)
    flush (core, FALSE);
  else
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "gpu_deferred_free_allocator_unhold: no hold is in effect; "
                 "call gpu_deferred_free_allocator_hold() first");

  return held;
}

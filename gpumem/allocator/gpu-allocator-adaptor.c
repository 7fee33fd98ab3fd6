/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/allocator/gpu-allocator-adaptor-private.h"
#include "gpumem/base/gpu-debug-private.h"

/**
 * SECTION:gpu-allocator-adaptor
 * @title: GpuAllocatorAdaptor
 * @short_description: the base class of allocators that wrap another allocator
 * @see_also: #GpuLimitAllocator, #GpuStatisticsAllocator, #GpuTrackingAllocator,
 *   #GpuLoggingAllocator, #GpuOomAllocator, #GpuDeferredFreeAllocator
 */

/**
 * GpuAllocatorAdaptor:
 *
 * The base class of allocators that wrap another allocator.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuDeferredAllocator) buffers =
 *   gpu_deferred_allocator_new (context, GPU_MEMORY_FLAGS_NONE, &error);
 * g_autoptr (GpuLimitAllocator) limit = gpu_limit_allocator_new (GPU_ALLOCATOR (buffers), 1 << 30);
 * g_autoptr (GpuStatisticsAllocator) counter =
 *   gpu_statistics_allocator_new (GPU_ALLOCATOR (limit));
 * g_autoptr (GpuMemory) memory =
 *   gpu_allocator_alloc (GPU_ALLOCATOR (counter), size, stream, &error);
 * ]|
 *
 * An adaptor forwards requests to another allocator, its upstream, and counts, limits, logs or
 * delays them. Adaptors are allocators, so they can be stacked. In languages other than C, a class
 * that derives from #GpuAllocatorAdaptor forwards all requests that it does not override.
 *
 * An adaptor tracks memory until gpu_allocator_free() frees the memory or the memory has no users
 * left. A #GpuMemory is a user until gpu_memory_release() or its last unref. Slices and mappings
 * are also users; submitted work is not a user. An adaptor and its memory hold no references to
 * each other, so the adaptor may be finalized before the memory. gpu_allocator_free() does nothing
 * for memory that is freed already, or that the adaptor did not allocate. If a class of another
 * language overrides `alloc`, the adaptor does not know its memory, and passes each
 * gpu_allocator_free() to the upstream allocator.
 *
 * The sizes that adaptors report are the requested sizes: the upstream allocator may round them up.
 * Several threads may use an adaptor at the same time.
 *
 * Since: 0.1
 */

enum
{
  PROP_0,
  PROP_UPSTREAM,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

static void allocator_iface_init (GpuAllocatorInterface *iface);

G_DEFINE_ABSTRACT_TYPE_WITH_CODE (GpuAllocatorAdaptor, gpu_allocator_adaptor, G_TYPE_OBJECT,
                                  G_IMPLEMENT_INTERFACE (GPU_TYPE_ALLOCATOR,
                                                         allocator_iface_init))

gpointer
_gpu_adaptor_init (GpuAllocatorAdaptor *adaptor,
                   const GpuAdaptorOps *ops)
{
  GpuAdaptorCore *core = g_malloc0 (ops->core_size);

  g_atomic_ref_count_init (&core->refs);
  core->ops = ops;
  g_mutex_init (&core->lock);
  g_queue_init (&core->leases);
  adaptor->core = core;
  _gpu_live_add (GPU_LIVE_ADAPTOR_CORE, 1);

  return core;
}

static void
core_unref (GpuAdaptorCore *core)
{
  if (!g_atomic_ref_count_dec (&core->refs))
    return;

  if (core->ops->clear != NULL)
    core->ops->clear (core);

  g_mutex_clear (&core->lock);
  g_free (core);
  _gpu_live_add (GPU_LIVE_ADAPTOR_CORE, -1);
}

static gboolean
end_lease (GpuLease   *lease,
           GpuStorage *storage)
{
  GpuAdaptorCore *core = lease->core;
  gboolean proceed;

  g_mutex_lock (&core->lock);
  g_queue_unlink (&core->leases, &lease->link);
  core->active -= lease->size;
  g_mutex_unlock (&core->lock);

  proceed = core->ops->returned == NULL || core->ops->returned (core, lease, storage);
  g_free (lease);
  core_unref (core);

  return proceed;
}

static gboolean
lease_hook (GpuStorageHook *hook,
            GpuStorage     *storage)
{
  return end_lease ((GpuLease *) hook, storage);
}

static void
gpu_allocator_adaptor_get_property (GObject    *object,
                                    guint       id,
                                    GValue     *value,
                                    GParamSpec *pspec)
{
  if (id == PROP_UPSTREAM)
    g_value_set_object (value, GPU_ALLOCATOR_ADAPTOR (object)->upstream);
  else
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
}

static void
gpu_allocator_adaptor_set_property (GObject      *object,
                                    guint         id,
                                    const GValue *value,
                                    GParamSpec   *pspec)
{
  if (id == PROP_UPSTREAM)
    GPU_ALLOCATOR_ADAPTOR (object)->upstream = g_value_dup_object (value);
  else
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
}

/* A class of another language that derives from this one has no operations of its own. */
static void
gpu_allocator_adaptor_constructed (GObject *object)
{
  static const GpuAdaptorOps ops = { .core_size = sizeof (GpuAdaptorCore),
                                     .lease_size = sizeof (GpuLease) };
  GpuAllocatorAdaptor *adaptor = GPU_ALLOCATOR_ADAPTOR (object);

  if (adaptor->core == NULL)
    _gpu_adaptor_init (adaptor, &ops);

  G_OBJECT_CLASS (gpu_allocator_adaptor_parent_class)->constructed (object);
}

static void
gpu_allocator_adaptor_finalize (GObject *object)
{
  GpuAllocatorAdaptor *adaptor = GPU_ALLOCATOR_ADAPTOR (object);
  GpuAdaptorCore *core = adaptor->core;

  g_mutex_lock (&core->lock);
  core->closed = TRUE;
  g_mutex_unlock (&core->lock);

  if (core->ops->closed != NULL)
    core->ops->closed (core);

  core_unref (core);
  g_clear_object (&adaptor->upstream);
  _gpu_live_add (GPU_LIVE_ALLOCATOR, -1);

  G_OBJECT_CLASS (gpu_allocator_adaptor_parent_class)->finalize (object);
}

static void
gpu_allocator_adaptor_class_init (GpuAllocatorAdaptorClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = gpu_allocator_adaptor_get_property;
  object_class->set_property = gpu_allocator_adaptor_set_property;
  object_class->constructed = gpu_allocator_adaptor_constructed;
  object_class->finalize = gpu_allocator_adaptor_finalize;

  /**
   * GpuAllocatorAdaptor:upstream:
   *
   * The allocator that requests are forwarded to.
   *
   * Since: 0.1
   */
  props[PROP_UPSTREAM] =
    g_param_spec_object ("upstream", NULL, NULL, GPU_TYPE_ALLOCATOR,
                         G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS);

  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_allocator_adaptor_init (GpuAllocatorAdaptor *adaptor G_GNUC_UNUSED)
{
  _gpu_live_add (GPU_LIVE_ALLOCATOR, 1);
}

gpointer
_gpu_adaptor_get_core (gpointer adaptor)
{
  return GPU_ALLOCATOR_ADAPTOR (adaptor)->core;
}

guint64
_gpu_adaptor_get_uint64 (gpointer adaptor,
                         gsize    offset)
{
  GpuAdaptorCore *core = _gpu_adaptor_get_core (adaptor);
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&core->lock);

  return G_STRUCT_MEMBER (guint64, core, offset);
}

gboolean
_gpu_adaptor_set_uint64 (gpointer adaptor,
                         gsize    offset,
                         guint64  value)
{
  GpuAdaptorCore *core = _gpu_adaptor_get_core (adaptor);
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&core->lock);
  guint64 old = G_STRUCT_MEMBER (guint64, core, offset);

  G_STRUCT_MEMBER (guint64, core, offset) = value;

  return value != old;
}

GpuMemory *
_gpu_adaptor_alloc (GpuAllocatorAdaptor  *adaptor,
                    gsize                 size,
                    GpuStream            *stream,
                    GError              **error)
{
  GpuAdaptorCore *core = adaptor->core;
  GpuMemory *memory = gpu_allocator_alloc (adaptor->upstream, size, stream, error);
  GpuLease *lease;

  if (memory == NULL)
    return NULL;

  lease = g_malloc0 (core->ops->lease_size);
  lease->hook.owner = core;
  lease->hook.func = lease_hook;
  lease->link.data = lease;
  lease->core = core;
  lease->size = size;
  lease->pointer = memory->address != 0 ? memory->address : memory->handle;
  lease->stream = stream != NULL ? gpu_stream_get_native_handle (stream) : 0;
  g_atomic_ref_count_inc (&core->refs);

  if (core->ops->prepare != NULL)
    core->ops->prepare (core, lease);

  g_mutex_lock (&core->lock);
  g_queue_push_tail_link (&core->leases, &lease->link);
  core->active += size;

  if (core->ops->granted != NULL)
    core->ops->granted (core, lease);

  g_mutex_unlock (&core->lock);
  _gpu_storage_add_hook (memory->storage, &lease->hook);

  return memory;
}

static gboolean
check_upstream (GpuAllocatorAdaptor  *adaptor,
                const char           *function,
                GError              **error)
{
  if (adaptor->upstream == NULL)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: the adaptor %s has no upstream; pass an allocator when you create it",
                 function, G_OBJECT_TYPE_NAME (adaptor));

  return adaptor->upstream != NULL;
}

static GpuMemory *
gpu_allocator_adaptor_alloc (GpuAllocator  *allocator,
                             gsize          size,
                             GpuStream     *stream,
                             GError       **error)
{
  GpuAllocatorAdaptor *adaptor = GPU_ALLOCATOR_ADAPTOR (allocator);
  const GpuAdaptorOps *ops = adaptor->core->ops;

  if (!check_upstream (adaptor, "gpu_allocator_alloc", error))
    return NULL;

  return (ops->alloc != NULL ? ops->alloc : _gpu_adaptor_alloc) (adaptor, size, stream, error);
}

/* Ends the lease at once, even if the memory has other users, because the upstream allocator may
 * cache the memory and allocate it again. A class of another language that overrides alloc may have
 * got the memory from the upstream allocator, without a lease. */
static void
gpu_allocator_adaptor_free (GpuAllocator *allocator,
                            GpuMemory    *memory)
{
  GpuAllocatorAdaptor *adaptor = GPU_ALLOCATOR_ADAPTOR (allocator);
  gboolean overrides_alloc
    = GPU_ALLOCATOR_GET_IFACE (allocator)->alloc != gpu_allocator_adaptor_alloc;
  GpuStorageHook *hook = memory->storage != NULL
                         ? _gpu_storage_take_hook (memory->storage, adaptor->core) : NULL;

  if (hook != NULL)
    end_lease ((GpuLease *) hook, NULL);

  if (hook != NULL || (overrides_alloc && adaptor->upstream != NULL))
    gpu_allocator_free (adaptor->upstream, memory);
}

static GpuContext *
gpu_allocator_adaptor_get_context (GpuAllocator *allocator)
{
  GpuAllocatorAdaptor *adaptor = GPU_ALLOCATOR_ADAPTOR (allocator);

  return adaptor->upstream != NULL ? gpu_allocator_get_context (adaptor->upstream) : NULL;
}

static gboolean
gpu_allocator_adaptor_get_memory_info (GpuAllocator  *allocator,
                                       guint64       *free_size,
                                       guint64       *total_size,
                                       GError       **error)
{
  GpuAllocatorAdaptor *adaptor = GPU_ALLOCATOR_ADAPTOR (allocator);

  return check_upstream (adaptor, "gpu_allocator_get_memory_info", error)
         && gpu_allocator_get_memory_info (adaptor->upstream, free_size, total_size, error);
}

static void
gpu_allocator_adaptor_trim (GpuAllocator *allocator,
                            guint64       held_bytes)
{
  GpuAllocatorAdaptor *adaptor = GPU_ALLOCATOR_ADAPTOR (allocator);

  if (adaptor->upstream != NULL)
    gpu_allocator_trim (adaptor->upstream, held_bytes);
}

static void
allocator_iface_init (GpuAllocatorInterface *iface)
{
  iface->alloc = gpu_allocator_adaptor_alloc;
  iface->free = gpu_allocator_adaptor_free;
  iface->get_context = gpu_allocator_adaptor_get_context;
  iface->get_memory_info = gpu_allocator_adaptor_get_memory_info;
  iface->trim = gpu_allocator_adaptor_trim;
}

GpuAllocator *
_gpu_allocator_adaptor_get_upstream (GpuAllocatorAdaptor *adaptor)
{
  return adaptor->upstream;
}

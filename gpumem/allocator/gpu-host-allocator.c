/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-memory-limits-private.h"
#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-host-memory-private.h"

/**
 * SECTION:gpu-host-allocator
 * @title: GpuHostAllocator
 * @short_description: a cache of page-locked memory
 * @see_also: #GpuHostMemory
 */

/**
 * GpuHostAllocator:
 *
 * An allocator that caches and reuses page-locked memory of the host.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuHostAllocator) allocator =
 *   gpu_host_allocator_new (context, GPU_HOST_MEMORY_FLAGS_NONE, &error);
 * g_autoptr (GpuHostMemory) memory = gpu_host_allocator_alloc (allocator, size, &error);
 *
 * memcpy (gpu_host_memory_get_data (memory), data, size);
 * gpu_stream_copy (stream, GPU_MEMORY (buffer), 0, GPU_MEMORY (memory), 0, size, &error);
 * ]|
 *
 * Allocating page-locked memory is slow and may block until the device is idle. This allocator
 * caches freed blocks and reuses them. After the last unref of a #GpuHostMemory, or after
 * gpu_memory_release(), its block returns to the cache when all work that uses the block has
 * completed, and no slice, mapping or #GBytes of the block exists any more.
 *
 * Sizes are rounded up to whole pages of 4 KiB. A request reuses the smallest cached block that is
 * large enough, if that block is at most an eighth larger than the request.
 *
 * Any thread may call all methods.
 *
 * Since: 0.1
 */

#define PAGE_SIZE           4096
#define WASTE_DIVISOR       8
#define DEFAULT_HELD_LIMIT  (G_GUINT64_CONSTANT (256) * 1024 * 1024)

/* State shared by the allocator and its blocks in use, which may outlive the allocator. */
typedef struct
{
  gatomicrefcount   refs;
  GpuNativeContext *context;

  GMutex            lock;           /* guards the members below; never held during a driver call */
  GSequence        *idle;           /* of Block, by size and then by serial */
  GQueue            order;          /* idle blocks; the block that has been idle longest is first */
  guint64           n_returns;      /* number of times that a block became idle */
  guint64           held;           /* bytes of idle blocks */
  guint64           active;         /* bytes of blocks in use */
  guint64           limit;          /* maximum of `held` */
  gboolean          closed;         /* the allocator is finalized */
} Core;

typedef struct
{
  Core               *core;         /* with a reference while the block is in use */
  GpuNativeBuffer    *buffer;
  gsize               size;         /* bytes, a multiple of PAGE_SIZE */
  GpuHostMemoryFlags  flags;        /* the flags in effect */
  int                 numa_node;    /* the node in effect */
  guint64             serial;       /* value of Core.n_returns when the block last became idle */
  GSequenceIter      *place;        /* the position in Core.idle */
  GList               link;         /* the link in Core.order */
} Block;

struct _GpuHostAllocator
{
  GObject             parent_instance;

  GpuContext         *context;
  GpuHostMemoryFlags  flags;
  int                 numa_node;
  Core               *core;         /* NULL if never initialised */
};

enum
{
  PROP_0,
  PROP_CONTEXT,
  PROP_HOST_FLAGS,
  PROP_NUMA_NODE,
  PROP_HELD_BYTES,
  PROP_ACTIVE_BYTES,
  PROP_HELD_LIMIT,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

static void initable_iface_init (GInitableIface *iface);
static void allocator_iface_init (GpuAllocatorInterface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (GpuHostAllocator, gpu_host_allocator, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_INITABLE, initable_iface_init)
                               G_IMPLEMENT_INTERFACE (GPU_TYPE_ALLOCATOR, allocator_iface_init))

static Core *
core_new (GpuNativeContext *context)
{
  Core *core = g_new0 (Core, 1);

  g_atomic_ref_count_init (&core->refs);
  core->context = _gpu_native_context_ref (context);
  g_mutex_init (&core->lock);
  core->idle = g_sequence_new (NULL);
  g_queue_init (&core->order);
  core->limit = DEFAULT_HELD_LIMIT;

  return core;
}

static void
core_unref (Core *core)
{
  if (!g_atomic_ref_count_dec (&core->refs))
    return;

  g_sequence_free (core->idle);
  g_mutex_clear (&core->lock);
  _gpu_native_context_unref (core->context);
  g_free (core);
}

static void
block_free (gpointer data)
{
  Block *block = data;
  GpuNativeContext *context = block->core->context;

  context->backend->memory->free (context, block->buffer);
  g_atomic_pointer_add (&context->allocated_host, -(gssize) block->size);
  g_free (block);
  _gpu_live_add (GPU_LIVE_HOST_BLOCK, -1);
}

static int
compare_blocks (gconstpointer a,
                gconstpointer b,
                gpointer      user_data G_GNUC_UNUSED)
{
  const Block *one = a;
  const Block *other = b;

  if (one->size != other->size)
    return one->size < other->size ? -1 : 1;

  return one->serial < other->serial ? -1 : one->serial > other->serial;
}

static void
remove_locked (Core  *core,
               Block *block)
{
  g_sequence_remove (block->place);
  g_queue_unlink (&core->order, &block->link);
  core->held -= block->size;
}

/* Removes cached blocks until at most @held bytes are left, starting with the block that has been
 * idle longest. Returns (transfer full) (nullable) the removed blocks, which the caller frees after
 * it has released the lock. */
static GPtrArray *
trim_locked (Core    *core,
             guint64  held)
{
  GPtrArray *trimmed = NULL;

  while (core->held > held)
    {
      Block *block = g_queue_peek_head (&core->order);

      if (trimmed == NULL)
        trimmed = g_ptr_array_new_with_free_func (block_free);

      remove_locked (core, block);
      g_ptr_array_add (trimmed, block);
    }

  return trimmed;
}

static void
core_trim (Core    *core,
           guint64  held)
{
  g_autoptr (GPtrArray) trimmed = NULL;

  g_mutex_lock (&core->lock);
  trimmed = trim_locked (core, held);
  g_mutex_unlock (&core->lock);
}

/* Caches a block, after its last use. Called on any thread. */
static void
block_return (gpointer data)
{
  Block *block = data;
  Core *core = block->core;
  GPtrArray *trimmed;

  g_mutex_lock (&core->lock);
  core->active -= block->size;
  core->held += block->size;
  block->serial = ++core->n_returns;
  block->place = g_sequence_insert_sorted (core->idle, block, compare_blocks, NULL);
  g_queue_push_tail_link (&core->order, &block->link);
  trimmed = trim_locked (core, core->closed ? 0 : core->limit);
  g_mutex_unlock (&core->lock);

  g_clear_pointer (&trimmed, g_ptr_array_unref);
  core_unref (core);
}

/* Takes the smallest suitable block from the cache and counts it as active. Returns NULL if there
 * is no such block. */
static Block *
take_idle (Core  *core,
           gsize  size)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&core->lock);
  const Block wanted = { .size = size };
  GSequenceIter *place = g_sequence_search (core->idle, (gpointer) &wanted, compare_blocks, NULL);
  Block *block;

  if (g_sequence_iter_is_end (place))
    return NULL;

  block = g_sequence_get (place);

  if (block->size - size > size / WASTE_DIVISOR)
    return NULL;

  remove_locked (core, block);
  core->active += block->size;
  g_atomic_ref_count_inc (&core->refs);

  return block;
}

static gboolean
check_initialised (GpuHostAllocator  *allocator,
                   const char        *function,
                   GError           **error)
{
  if (G_LIKELY (allocator->core != NULL))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: the allocator was never initialised", function);

  return FALSE;
}

static guint64
get_figure (GpuHostAllocator *allocator,
            gsize             offset)
{
  Core *core = allocator->core;
  guint64 value;

  if (core == NULL)
    return 0;

  g_mutex_lock (&core->lock);
  value = G_STRUCT_MEMBER (guint64, core, offset);
  g_mutex_unlock (&core->lock);

  return value;
}

static Block *
make_block (GpuHostAllocator  *allocator,
            gsize              size,
            GError           **error)
{
  const char *function = "gpu_host_allocator_alloc";
  Core *core = allocator->core;
  GpuHostMemoryFlags flags = allocator->flags;
  int numa_node = allocator->numa_node;
  g_autoptr (GError) failure = NULL;
  GpuNativeBuffer *buffer = _gpu_host_memory_allocate (allocator->context, function, &flags,
                                                       &numa_node, size, &failure);
  Block *block;

  /* Free the cached blocks and retry. */
  if (buffer == NULL && g_error_matches (failure, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY)
      && get_figure (allocator, G_STRUCT_OFFSET (Core, held)) > 0)
    {
      g_clear_error (&failure);
      core_trim (core, 0);
      flags = allocator->flags;
      numa_node = allocator->numa_node;
      buffer = _gpu_host_memory_allocate (allocator->context, function, &flags, &numa_node, size,
                                          &failure);
    }

  if (buffer == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&failure));
      return NULL;
    }

  block = g_new0 (Block, 1);
  block->core = core;
  block->buffer = buffer;
  block->size = size;
  block->flags = flags;
  block->numa_node = numa_node;
  block->link.data = block;
  g_atomic_pointer_add (&core->context->allocated_host, (gssize) size);
  _gpu_live_add (GPU_LIVE_HOST_BLOCK, 1);

  g_mutex_lock (&core->lock);
  core->active += size;
  g_mutex_unlock (&core->lock);
  g_atomic_ref_count_inc (&core->refs);

  return block;
}

static void
gpu_host_allocator_get_property (GObject    *object,
                                 guint       id,
                                 GValue     *value,
                                 GParamSpec *pspec)
{
  GpuHostAllocator *allocator = GPU_HOST_ALLOCATOR (object);

  switch (id)
    {
    case PROP_CONTEXT:
      g_value_set_object (value, allocator->context);
      break;
    case PROP_HOST_FLAGS:
      g_value_set_flags (value, allocator->flags);
      break;
    case PROP_NUMA_NODE:
      g_value_set_int (value, allocator->numa_node);
      break;
    case PROP_HELD_BYTES:
      g_value_set_uint64 (value, get_figure (allocator, G_STRUCT_OFFSET (Core, held)));
      break;
    case PROP_ACTIVE_BYTES:
      g_value_set_uint64 (value, get_figure (allocator, G_STRUCT_OFFSET (Core, active)));
      break;
    case PROP_HELD_LIMIT:
      g_value_set_uint64 (value, get_figure (allocator, G_STRUCT_OFFSET (Core, limit)));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

/* Sets the limit. If more than @limit bytes are cached, frees the blocks that have been idle
 * longest. */
static void
set_held_limit (GpuHostAllocator *allocator,
                guint64           limit)
{
  Core *core = allocator->core;
  gboolean changed;

  if (core == NULL)
    return;

  g_mutex_lock (&core->lock);
  changed = core->limit != limit;
  core->limit = limit;
  g_mutex_unlock (&core->lock);

  core_trim (core, limit);

  if (changed)
    g_object_notify_by_pspec (G_OBJECT (allocator), props[PROP_HELD_LIMIT]);
}

static void
gpu_host_allocator_set_property (GObject      *object,
                                 guint         id,
                                 const GValue *value,
                                 GParamSpec   *pspec)
{
  GpuHostAllocator *allocator = GPU_HOST_ALLOCATOR (object);

  switch (id)
    {
    case PROP_CONTEXT:
      allocator->context = g_value_dup_object (value);
      break;
    case PROP_HOST_FLAGS:
      allocator->flags = g_value_get_flags (value);
      break;
    case PROP_NUMA_NODE:
      allocator->numa_node = g_value_get_int (value);
      break;
    case PROP_HELD_LIMIT:
      set_held_limit (allocator, g_value_get_uint64 (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_host_allocator_finalize (GObject *object)
{
  GpuHostAllocator *allocator = GPU_HOST_ALLOCATOR (object);
  Core *core = allocator->core;

  if (core != NULL)
    {
      g_mutex_lock (&core->lock);
      core->closed = TRUE;
      g_mutex_unlock (&core->lock);
      core_trim (core, 0);
      core_unref (core);
    }

  g_clear_object (&allocator->context);
  _gpu_live_add (GPU_LIVE_HOST_ALLOCATOR, -1);

  G_OBJECT_CLASS (gpu_host_allocator_parent_class)->finalize (object);
}

static void
install_figures (void)
{
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  /**
   * GpuHostAllocator:held-bytes:
   *
   * The number of bytes in cached blocks. Changes are not notified.
   *
   * Since: 0.1
   */
  props[PROP_HELD_BYTES] = g_param_spec_uint64 ("held-bytes", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * GpuHostAllocator:active-bytes:
   *
   * The number of bytes in blocks that are in use. Changes are not notified.
   *
   * Since: 0.1
   */
  props[PROP_ACTIVE_BYTES] = g_param_spec_uint64 ("active-bytes", NULL, NULL, 0, G_MAXUINT64, 0,
                                                  flags);
  /**
   * GpuHostAllocator:held-limit:
   *
   * The maximum number of cached bytes; 256 MiB by default.
   *
   * Since: 0.1
   */
  props[PROP_HELD_LIMIT] =
    g_param_spec_uint64 ("held-limit", NULL, NULL, 0, G_MAXUINT64, DEFAULT_HELD_LIMIT,
                         G_PARAM_READWRITE | G_PARAM_EXPLICIT_NOTIFY | G_PARAM_STATIC_STRINGS);
}

static void
gpu_host_allocator_class_init (GpuHostAllocatorClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS;

  object_class->get_property = gpu_host_allocator_get_property;
  object_class->set_property = gpu_host_allocator_set_property;
  object_class->finalize = gpu_host_allocator_finalize;

  /**
   * GpuHostAllocator:context:
   *
   * The context of the memory.
   *
   * Since: 0.1
   */
  props[PROP_CONTEXT] = g_param_spec_object ("context", NULL, NULL, GPU_TYPE_CONTEXT, flags);
  /**
   * GpuHostAllocator:host-flags:
   *
   * The flags of the memory.
   *
   * Since: 0.1
   */
  props[PROP_HOST_FLAGS] =
    g_param_spec_flags ("host-flags", NULL, NULL, GPU_TYPE_HOST_MEMORY_FLAGS,
                        GPU_HOST_MEMORY_FLAGS_NONE, flags);
  /**
   * GpuHostAllocator:numa-node:
   *
   * The requested NUMA node of the memory, as for #GpuHostMemory:numa-node. If the host has several
   * nodes and this is none of them, construction fails with %GPU_ERROR_INVALID_ARGUMENT.
   *
   * Since: 0.1
   */
  props[PROP_NUMA_NODE] = g_param_spec_int ("numa-node", NULL, NULL, G_MININT, G_MAXINT,
                                            GPU_NUMA_NODE_DEVICE, flags);
  install_figures ();

  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_host_allocator_init (GpuHostAllocator *allocator)
{
  _gpu_live_add (GPU_LIVE_HOST_ALLOCATOR, 1);
}

static gboolean
gpu_host_allocator_initable_init (GInitable     *initable,
                                  GCancellable  *cancellable G_GNUC_UNUSED,
                                  GError       **error)
{
  GpuHostAllocator *allocator = GPU_HOST_ALLOCATOR (initable);

  if (allocator->core != NULL)
    return TRUE;

  if (!_gpu_host_memory_check (allocator->context, "gpu_host_allocator_new", allocator->flags,
                               allocator->numa_node, PAGE_SIZE, error))
    return FALSE;

  allocator->core = core_new (_gpu_context_get_native (allocator->context));

  return TRUE;
}

static void
initable_iface_init (GInitableIface *iface)
{
  iface->init = gpu_host_allocator_initable_init;
}

static GpuMemory *
iface_alloc (GpuAllocator  *allocator,
             gsize          size,
             GpuStream     *stream G_GNUC_UNUSED,
             GError       **error)
{
  return (GpuMemory *) gpu_host_allocator_alloc (GPU_HOST_ALLOCATOR (allocator), size, error);
}

static GpuContext *
iface_get_context (GpuAllocator *allocator)
{
  return GPU_HOST_ALLOCATOR (allocator)->context;
}

/* The free memory of the host and the idle blocks. */
static gboolean
iface_get_memory_info (GpuAllocator  *allocator,
                       guint64       *free_size,
                       guint64       *total_size,
                       GError       **error)
{
  GpuHostAllocator *self = GPU_HOST_ALLOCATOR (allocator);
  GpuMemoryLimits limits;

  if (!check_initialised (self, "gpu_allocator_get_memory_info", error))
    return FALSE;

  _gpu_memory_limits_read ("", &limits);
  *total_size = limits.total_size;
  *free_size = limits.free_size + get_figure (self, G_STRUCT_OFFSET (Core, held));
  *free_size = MIN (*free_size, *total_size);

  return TRUE;
}

static void
iface_trim (GpuAllocator *allocator,
            guint64       held_bytes)
{
  gpu_host_allocator_trim (GPU_HOST_ALLOCATOR (allocator), held_bytes);
}

static void
allocator_iface_init (GpuAllocatorInterface *iface)
{
  iface->alloc = iface_alloc;
  iface->get_context = iface_get_context;
  iface->get_memory_info = iface_get_memory_info;
  iface->trim = iface_trim;
}

/**
 * gpu_host_allocator_new:
 * @context: a #GpuContext
 * @flags: the flags of the memory; without %GPU_HOST_MEMORY_FLAGS_READ_ONLY
 * @error: return location for an error
 *
 * Creates an allocator with an empty cache. Does not block.
 *
 * Returns: (transfer full): the allocator, or %NULL with %GPU_ERROR_INVALID_ARGUMENT for
 *   unsuitable flags, or %GPU_ERROR_DEVICE_LOST
 *
 * Since: 0.1
 */
GpuHostAllocator *
gpu_host_allocator_new (GpuContext          *context,
                        GpuHostMemoryFlags   flags,
                        GError             **error)
{
  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  if (!_gpu_flags_check (GPU_TYPE_HOST_MEMORY_FLAGS, flags, "host memory flags",
                         "gpu_host_allocator_new", error))
    return NULL;

  return g_initable_new (GPU_TYPE_HOST_ALLOCATOR, NULL, error, "context", context,
                         "host-flags", flags, NULL);
}

static gboolean
round_size (GpuHostAllocator  *allocator,
            gsize              size,
            gsize             *rounded,
            GError           **error)
{
  const char *function = "gpu_host_allocator_alloc";

  if (!check_initialised (allocator, function, error)
      || !_gpu_host_memory_check (allocator->context, function, allocator->flags,
                                  GPU_NUMA_NODE_NONE, size, error))
    return FALSE;

  if (size > G_MAXSSIZE - PAGE_SIZE)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY,
                   "%s: %" G_GSIZE_FORMAT " bytes exceed the address space", function, size);
      return FALSE;
    }

  *rounded = (size + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE;

  return TRUE;
}

/**
 * gpu_host_allocator_alloc:
 * @allocator: a #GpuHostAllocator
 * @size: size in bytes, not 0
 * @error: return location for an error
 *
 * Allocates page-locked memory with undefined content, aligned to at least 64 bytes. The memory
 * returns to @allocator after its last use, and may outlive @allocator. If no cached block fits,
 * the function calls the driver, which may block, see gpu_host_memory_new(). If the driver is out
 * of memory, the function frees all cached blocks and tries again.
 *
 * Returns: (transfer full): the memory, or %NULL with an error of gpu_host_memory_new()
 *
 * Since: 0.1
 */
GpuHostMemory *
gpu_host_allocator_alloc (GpuHostAllocator  *allocator,
                          gsize              size,
                          GError           **error)
{
  GpuNativeContext *context;
  GpuNativeBuffer *buffer;
  Block *block;
  gsize rounded;

  g_return_val_if_fail (GPU_IS_HOST_ALLOCATOR (allocator), NULL);

  if (!round_size (allocator, size, &rounded, error))
    return NULL;

  block = take_idle (allocator->core, rounded);

  if (block == NULL)
    block = make_block (allocator, rounded, error);

  if (block == NULL)
    return NULL;

  context = allocator->core->context;
  buffer = _gpu_buffer_cut (context, block->buffer, GPU_MEMORY_FLAGS_NONE, 0, size, error);

  if (buffer == NULL)
    {
      g_prefix_error (error, "gpu_host_allocator_alloc: ");
      block_return (block);
      return NULL;
    }

  return _gpu_host_memory_new_for_storage (allocator->context,
                                           _gpu_storage_new (context, buffer, GPU_MEMORY_FLAGS_NONE,
                                                             GPU_STORAGE_FOREIGN, block,
                                                             block_return), block->flags,
                                           block->numa_node);
}

/**
 * gpu_host_allocator_trim:
 * @allocator: a #GpuHostAllocator
 * @held_bytes: bytes to keep cached, 0 for none
 *
 * Frees cached blocks until at most @held_bytes are cached, starting with the blocks that have been
 * idle longest. May block in the driver.
 *
 * Since: 0.1
 */
void
gpu_host_allocator_trim (GpuHostAllocator *allocator,
                         guint64           held_bytes)
{
  g_return_if_fail (GPU_IS_HOST_ALLOCATOR (allocator));

  if (allocator->core != NULL)
    core_trim (allocator->core, held_bytes);
}

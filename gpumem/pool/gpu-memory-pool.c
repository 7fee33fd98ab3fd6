/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-attributes-private.h"
#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-memory-limits-private.h"
#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/pool/gpu-memory-pool-hooks-private.h"
#include "gpumem/stream/gpu-stream-private.h"

/**
 * SECTION:gpu-memory-pool
 * @title: GpuMemoryPool
 * @short_description: a cache of freed memory for fast allocation
 * @see_also: #GpuMemoryBlock, #GpuMemoryPoolKind
 */

#define FUNCTION             "gpu_memory_pool_new"
#define MAX_LEADING_BITS     GPU_POOL_BINS_MAX_BITS
#define DEFAULT_LEADING_BITS GPU_POOL_BINS_BITS
#define DEFAULT_WASTE        0.01

/* The flags that an expandable pool supports. */
#define EXPANDABLE_FLAGS \
  (GPU_MEMORY_FLAGS_UNTRACKED | GPU_MEMORY_FLAGS_SHAREABLE | GPU_MEMORY_FLAGS_ALLOC_HOST)

/**
 * GpuMemoryPool:
 *
 * A cache of freed memory of a context, from which later allocations are served.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new (context, GPU_MEMORY_POOL_AUTOMATIC,
 *                                                       GPU_MEMORY_FLAGS_NONE, &error);
 * const gsize n_bytes = g_bytes_get_size (bytes);
 * g_autoptr (GpuBuffer) input = gpu_memory_pool_alloc_buffer (pool, n_bytes, stream, &error);
 * g_autoptr (GpuBuffer) output = gpu_memory_pool_alloc_buffer (pool, n_bytes, stream, &error);
 * g_autoptr (GBytes) result = NULL;
 *
 * gpu_stream_write (stream, GPU_MEMORY (input), 0, bytes, &error);
 * gpu_stream_copy (stream, GPU_MEMORY (output), 0, GPU_MEMORY (input), 0, n_bytes, &error);
 * result = gpu_buffer_read_bytes (output, stream, 0, n_bytes, NULL, &error);
 * ]|
 *
 * Drivers allocate memory slowly and free it even more slowly: many drivers wait until the device
 * is idle before they free memory. A pool keeps freed memory, and allocates from the kept memory in
 * nanoseconds.
 *
 * A pool allocates #GpuBuffer objects, which every function of the library accepts, and
 * #GpuMemoryBlock structures, which consist of an address and a size. A pool over a
 * #GpuSvmAllocator also allocates #GpuSvm objects. There may be adaptors and other pools between
 * the two.
 *
 * Memory is allocated on a stream; %NULL is the default stream of the context. Work submitted to
 * that stream later may use the memory at once. Memory freed on a stream is reused on the same
 * stream without a wait. Before another stream reuses the memory, the work submitted before the
 * free must have completed, or the pool makes that stream wait for this work: if the work is behind
 * a user event, until the program sets the event. A failure of this work does not reach the other
 * stream.
 *
 * A buffer returns its memory to the pool when the last reference to the buffer is dropped or when
 * the buffer is released, even if pending work still uses the memory.
 *
 * If the stream is being captured into a CUDA graph, methods of the pool allocate memory that does
 * not belong to the graph: the program keeps it as long as it launches the graph. They do not reuse
 * memory with pending uses outside of the graph, and methods for other streams do not reuse memory
 * that was freed in the captured stream: the pool allocates more memory. Methods fail with
 * %GPU_ERROR_NOT_SUPPORTED if the pool needs memory of a #GpuStreamAllocator whose stream is being
 * captured. Memory that #GpuPoolHooks allocates for a captured stream belongs to the graph.
 *
 * #GpuMemoryPool:kind is the way in which a pool manages its memory. An expandable pool reserves
 * one range of addresses. It moves physical memory to the addresses where a request needs memory,
 * and thus loses almost no memory to fragmentation. %GPU_MEMORY_POOL_AUTOMATIC selects an
 * expandable pool if the device supports virtual memory management and the driver can reserve the
 * addresses.
 *
 * If #GpuMemoryPool:flags contains %GPU_MEMORY_FLAGS_SHAREABLE, buffers of the pool can be exported
 * to other processes, see gpu_buffer_export_fds(). %GPU_MEMORY_POOL_AUTOMATIC then selects
 * %GPU_MEMORY_POOL_SEGMENTS, whose buffers have one file descriptor each. Communication libraries
 * such as UCX also need memory of segments: they copy memory of an expandable pool through the
 * host. If an expandable pool has this flag, UCX 1.22 only accesses the first chunk of a buffer.
 *
 * If #GpuMemoryPool:flags contains %GPU_MEMORY_FLAGS_ALLOC_HOST, the memory is page-locked memory
 * of the host. An expandable pool of such memory returns #GpuBuffer objects that the host accesses
 * in place when it maps them, and wastes less memory than a #GpuHostAllocator or a pool with
 * segments. Only %GPU_MEMORY_POOL_EXPANDABLE selects it, on CUDA and on the host back end. On CUDA,
 * it needs CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, and the creation of
 * the pool tries to map some memory, because containers may forbid it. The memory is on the NUMA
 * node of the device.
 *
 * For gpu_allocator_get_memory_info(), the unused memory of the pool is free, and
 * #GpuMemoryPool:limit is the most memory that there is.
 *
 * A pool may be finalized while its memory is in use. The memory remains valid.
 *
 * The properties that count blocks, bytes and calls change without notifications, unless
 * #GpuMemoryPool:notify-interval is set.
 *
 * All methods may be called from any thread.
 *
 * Since: 0.1
 */

enum
{
  PROP_0,
  PROP_CONTEXT,
  PROP_ALLOCATOR,
  PROP_KIND,
  PROP_FLAGS,
  PROP_LEADING_BITS,
  PROP_LIMIT,
  PROP_SOFT_LIMIT,
  PROP_RELEASE_THRESHOLD,
  PROP_FRAGMENTATION_TARGET,
  PROP_HISTORY_SIZE,
  PROP_NOTIFY_INTERVAL,
  PROP_HOOKS,
  PROP_FIGURES,
  N_PROPS = PROP_FIGURES + GPU_POOL_N_FIGURES
};

static GParamSpec *props[N_PROPS];

static void initable_iface_init (GInitableIface *iface);
static void allocator_iface_init (GpuAllocatorInterface *iface);

gpointer _gpu_memory_pool_class;

G_DEFINE_FINAL_TYPE_WITH_CODE (GpuMemoryPool, gpu_memory_pool, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_INITABLE, initable_iface_init)
                               G_IMPLEMENT_INTERFACE (GPU_TYPE_ALLOCATOR, allocator_iface_init))

static void
get_stats (GpuMemoryPool *pool,
           GpuPoolStats  *stats)
{
  *stats = (GpuPoolStats) { 0 };

  if (pool->core != NULL)
    _gpu_pool_core_get_stats (pool->core, stats);
}

static void
gpu_memory_pool_get_property (GObject    *object,
                              guint       id,
                              GValue     *value,
                              GParamSpec *pspec)
{
  GpuMemoryPool *pool = GPU_MEMORY_POOL (object);
  GpuPoolStats stats;

  switch (id)
    {
    case PROP_CONTEXT:
      g_value_set_object (value, pool->context);
      break;
    case PROP_ALLOCATOR:
      g_value_set_object (value, pool->allocator);
      break;
    case PROP_KIND:
      g_value_set_enum (value, pool->kind);
      break;
    case PROP_FLAGS:
      g_value_set_flags (value, pool->flags);
      break;
    case PROP_LEADING_BITS:
      g_value_set_uint (value, pool->leading_bits);
      break;
    case PROP_LIMIT:
      g_value_set_uint64 (value, _gpu_memory_pool_get_limit (pool, &pool->limits.limit));
      break;
    case PROP_SOFT_LIMIT:
      g_value_set_uint64 (value, _gpu_memory_pool_get_limit (pool, &pool->limits.soft_limit));
      break;
    case PROP_RELEASE_THRESHOLD:
      g_value_set_uint64 (value, _gpu_memory_pool_get_limit (pool,
                                                             &pool->limits.release_threshold));
      break;
    case PROP_FRAGMENTATION_TARGET:
      g_mutex_lock (&pool->lock);
      g_value_set_double (value, pool->limits.waste);
      g_mutex_unlock (&pool->lock);
      break;
    case PROP_HISTORY_SIZE:
      g_value_set_uint (value, pool->core != NULL ? _gpu_pool_history_get_size (pool->core->history)
                                                : 0);
      break;
    case PROP_NOTIFY_INTERVAL:
      g_value_set_uint (value, _gpu_memory_pool_get_notify_interval (pool));
      break;
    case PROP_HOOKS:
      g_value_set_pointer (value, _gpu_memory_pool_get_hooks (pool));
      break;
    default:
      if (id < PROP_FIGURES || id >= N_PROPS)
        {
          G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
          break;
        }

      get_stats (pool, &stats);
      g_value_set_uint64 (value, _gpu_pool_stats_get (&stats, id - PROP_FIGURES));
    }
}

static void
gpu_memory_pool_set_property (GObject      *object,
                              guint         id,
                              const GValue *value,
                              GParamSpec   *pspec)
{
  GpuMemoryPool *pool = GPU_MEMORY_POOL (object);

  switch (id)
    {
    case PROP_CONTEXT:
      pool->context = g_value_dup_object (value);
      break;
    case PROP_ALLOCATOR:
      pool->allocator = g_value_dup_object (value);
      break;
    case PROP_KIND:
      pool->kind = g_value_get_enum (value);
      break;
    case PROP_FLAGS:
      pool->flags = g_value_get_flags (value);
      break;
    case PROP_LEADING_BITS:
      pool->leading_bits = g_value_get_uint (value);
      break;
    case PROP_LIMIT:
      gpu_memory_pool_set_limit (pool, g_value_get_uint64 (value));
      break;
    case PROP_SOFT_LIMIT:
      _gpu_memory_pool_set_limit (pool, "soft-limit", &pool->limits.soft_limit,
                                  g_value_get_uint64 (value));
      break;
    case PROP_RELEASE_THRESHOLD:
      _gpu_memory_pool_set_limit (pool, "release-threshold", &pool->limits.release_threshold,
                                  g_value_get_uint64 (value));
      break;
    case PROP_FRAGMENTATION_TARGET:
      gpu_memory_pool_set_fragmentation_target (pool, g_value_get_double (value), NULL);
      break;
    case PROP_HISTORY_SIZE:
      gpu_memory_pool_set_history_size (pool, g_value_get_uint (value), NULL);
      break;
    case PROP_NOTIFY_INTERVAL:
      _gpu_memory_pool_set_notify_interval (pool, g_value_get_uint (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_memory_pool_finalize (GObject *object)
{
  GpuMemoryPool *pool = GPU_MEMORY_POOL (object);

  _gpu_memory_pool_free_hooks (pool);

  if (pool->core != NULL)
    {
      _gpu_pool_status_remove (pool->core);
      _gpu_pool_core_drop_recycled (pool->core);
      _gpu_pool_core_close (pool->core);
    }

  _gpu_memory_pool_stop_notifying (pool);
  g_clear_object (&pool->allocator);
  g_clear_object (&pool->context);
  g_mutex_clear (&pool->lock);
  _gpu_live_add (GPU_LIVE_MEMORY_POOL, -1);

  G_OBJECT_CLASS (gpu_memory_pool_parent_class)->finalize (object);
}

static void
install_settings (void)
{
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_EXPLICIT_NOTIFY | G_PARAM_STATIC_STRINGS;

  /**
   * GpuMemoryPool:limit:
   *
   * The maximum number of bytes that the pool holds from the driver or its allocator; 0 for no
   * limit. A pool of kind %GPU_MEMORY_POOL_BINS counts each size rounded up to the size of its bin,
   * see gpu_memory_pool_alloc_size(). An expandable pool maps whole units of the driver, which have
   * 2 MiB on most devices: a lower limit permits no memory. On OpenCL, if the memory has device
   * addresses, each segment includes spare bytes for the alignment of its first block. A request
   * may therefore fail although the requested size is within the limit.
   *
   * Since: 0.1
   */
  props[PROP_LIMIT] = g_param_spec_uint64 ("limit", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * GpuMemoryPool:soft-limit:
   *
   * A soft limit in bytes for the memory that the pool holds; 0 for none. If an allocation would
   * exceed the soft limit, the pool first moves or frees unused memory, or waits for other streams.
   *
   * Since: 0.1
   */
  props[PROP_SOFT_LIMIT] = g_param_spec_uint64 ("soft-limit", NULL, NULL, 0, G_MAXUINT64, 0,
                                                flags);
  /**
   * GpuMemoryPool:release-threshold:
   *
   * The maximum number of unused bytes that the pool keeps. By default the pool keeps all of them.
   * Lowering the threshold releases memory that the device no longer uses. In a pool with a
   * threshold below 512 MiB, threads cache fewer freed blocks, so allocations take longer.
   *
   * Since: 0.1
   */
  props[PROP_RELEASE_THRESHOLD] = g_param_spec_uint64 ("release-threshold", NULL, NULL, 0,
                                                       G_MAXUINT64, G_MAXUINT64, flags);
  /**
   * GpuMemoryPool:fragmentation-target:
   *
   * The memory that an expandable pool may hold beyond its peak use, as a fraction of that peak, by
   * default 0.01. If a request would exceed this target, the pool moves free memory. It only
   * allocates more from the driver if it finds too little memory to move: it can only move whole
   * units of the driver whose memory is free. Other kinds of pools ignore the target.
   *
   * Since: 0.1
   */
  props[PROP_FRAGMENTATION_TARGET] = g_param_spec_double ("fragmentation-target", NULL, NULL, 0.0,
                                                          G_MAXDOUBLE, DEFAULT_WASTE, flags);
  /**
   * GpuMemoryPool:history-size:
   *
   * The number of events that the pool keeps in its history; the oldest events are dropped. A free
   * counts once, but has two entries in the history. May be set after the pool is initialised.
   *
   * Since: 0.1
   */
  props[PROP_HISTORY_SIZE] = g_param_spec_uint ("history-size", NULL, NULL, 0,
                                                GPU_MEMORY_POOL_MAX_HISTORY, 0, flags);
}

static void
install_notify_interval (void)
{
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_EXPLICIT_NOTIFY | G_PARAM_STATIC_STRINGS;

  /**
   * GpuMemoryPool:notify-interval:
   *
   * The interval in milliseconds at which the pool emits #GObject::notify for the counters that
   * have changed; 0, the default, for no notifications. The pool emits the notifications in the
   * thread-default main context of the thread that sets this property. With notifications, a
   * program can bind a label or a graph to a counter with g_object_bind_property(). At the end of
   * each interval, the pool reads its counters under its lock. Intervals of a few milliseconds can
   * therefore delay allocations of other threads.
   *
   * Since: 0.1
   */
  props[PROP_NOTIFY_INTERVAL] = g_param_spec_uint ("notify-interval", NULL, NULL, 0, G_MAXUINT, 0,
                                                   flags);
}

/**
 * GpuMemoryPool:held-blocks:
 *
 * The number of free blocks that the pool keeps for reuse.
 *
 * Since: 0.1
 */
/**
 * GpuMemoryPool:active-blocks:
 *
 * The number of blocks in use.
 *
 * Since: 0.1
 */
/**
 * GpuMemoryPool:managed-bytes:
 *
 * The number of bytes that the pool holds from the driver or its allocator.
 *
 * Since: 0.1
 */
/**
 * GpuMemoryPool:active-bytes:
 *
 * The number of bytes in use, as requested.
 *
 * Since: 0.1
 */
/**
 * GpuMemoryPool:used-bytes:
 *
 * The number of bytes in use, including rounding.
 *
 * Since: 0.1
 */
/**
 * GpuMemoryPool:largest-free:
 *
 * The size in bytes of the largest free block. If the pool has no active blocks, adjacent blocks
 * count as one, even if work may still use them or the caches of threads hold them.
 *
 * Since: 0.1
 */
/**
 * GpuMemoryPool:peak-active-bytes:
 *
 * The maximum of #GpuMemoryPool:active-bytes so far, or since gpu_memory_pool_reset_peaks(). Pools
 * of kind %GPU_MEMORY_POOL_BINS update it exactly. Other pools update it when a program reads the
 * counters of the pool, and when a thread allocates memory that is not in the thread's cache of
 * freed blocks. If the bytes in use rise between two updates only because threads allocate from
 * their caches, the peak is missed. The value is then too small by at most the size of the caches.
 * The caches of all threads share 1/64 of #GpuMemoryPool:managed-bytes equally, but the cache of
 * each thread may hold at least 8 MiB and at most 64 MiB. Caches of a pool with a limit are
 * smaller. #GpuMemoryPool:peak-managed-bytes is exact.
 *
 * Since: 0.1
 */
/**
 * GpuMemoryPool:peak-used-bytes:
 *
 * The maximum of #GpuMemoryPool:used-bytes so far, or since gpu_memory_pool_reset_peaks().
 *
 * Since: 0.1
 */
/**
 * GpuMemoryPool:peak-managed-bytes:
 *
 * The maximum of #GpuMemoryPool:managed-bytes so far, or since gpu_memory_pool_reset_peaks().
 *
 * Since: 0.1
 */
/**
 * GpuMemoryPool:n-allocs:
 *
 * The number of blocks allocated so far.
 *
 * Since: 0.1
 */
/**
 * GpuMemoryPool:n-frees:
 *
 * The number of blocks freed so far.
 *
 * Since: 0.1
 */
/**
 * GpuMemoryPool:n-cache-hits:
 *
 * The number of blocks that threads allocated from their own caches of freed blocks.
 *
 * Since: 0.1
 */
/**
 * GpuMemoryPool:n-hits:
 *
 * The number of blocks allocated from free memory of the same stream, or from free memory without
 * pending uses.
 *
 * Since: 0.1
 */
/**
 * GpuMemoryPool:n-steals:
 *
 * The number of blocks allocated from free memory of another stream.
 *
 * Since: 0.1
 */
/**
 * GpuMemoryPool:n-waits:
 *
 * The number of waits, by a stream or by the host, for pending uses of free memory.
 *
 * Since: 0.1
 */
/**
 * GpuMemoryPool:n-growths:
 *
 * The number of times that the pool allocated memory from the driver or its allocator.
 *
 * Since: 0.1
 */
/**
 * GpuMemoryPool:n-recycled:
 *
 * The number of chunks of physical memory that were moved to other addresses.
 *
 * Since: 0.1
 */
/**
 * GpuMemoryPool:n-maps:
 *
 * The number of calls that mapped physical memory.
 *
 * Since: 0.1
 */
/**
 * GpuMemoryPool:n-unmaps:
 *
 * The number of calls that unmapped physical memory.
 *
 * Since: 0.1
 */
/**
 * GpuMemoryPool:n-refused:
 *
 * The number of requests that failed for lack of memory.
 *
 * Since: 0.1
 */
static void
install_figures (void)
{
  for (guint i = 0; i < GPU_POOL_N_FIGURES; i++)
    props[PROP_FIGURES + i] =
      g_param_spec_uint64 (_gpu_pool_figures[i].name, NULL, NULL, 0, G_MAXUINT64, 0,
                           G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
}

static void
install_construct_properties (void)
{
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS;

  /**
   * GpuMemoryPool:context:
   *
   * The context of the memory. By default, this is the context of the allocator.
   *
   * Since: 0.1
   */
  props[PROP_CONTEXT] = g_param_spec_object ("context", NULL, NULL, GPU_TYPE_CONTEXT, flags);
  /**
   * GpuMemoryPool:allocator:
   *
   * The allocator that provides the memory, or %NULL if the pool allocates from the driver.
   *
   * Since: 0.1
   */
  props[PROP_ALLOCATOR] = g_param_spec_object ("allocator", NULL, NULL, GPU_TYPE_ALLOCATOR, flags);
  /**
   * GpuMemoryPool:kind:
   *
   * The way in which the pool manages its memory. After initialisation, the property is the kind in
   * effect, never %GPU_MEMORY_POOL_AUTOMATIC.
   *
   * Since: 0.1
   */
  props[PROP_KIND] = g_param_spec_enum ("kind", NULL, NULL, GPU_TYPE_MEMORY_POOL_KIND,
                                        GPU_MEMORY_POOL_AUTOMATIC, flags);
  /**
   * GpuMemoryPool:flags:
   *
   * The flags of the memory that the pool allocates from the driver.
   *
   * Since: 0.1
   */
  props[PROP_FLAGS] = g_param_spec_flags ("flags", NULL, NULL, GPU_TYPE_MEMORY_FLAGS,
                                          GPU_MEMORY_FLAGS_NONE, flags);
  /**
   * GpuMemoryPool:leading-bits:
   *
   * For pools of kind %GPU_MEMORY_POOL_BINS: the number of bits after the leading bit of a size
   * that select the bin of the size.
   *
   * Since: 0.1
   */
  props[PROP_LEADING_BITS] = g_param_spec_uint ("leading-bits", NULL, NULL, 0, MAX_LEADING_BITS,
                                                DEFAULT_LEADING_BITS, flags);
}

static void
gpu_memory_pool_class_init (GpuMemoryPoolClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  _gpu_memory_pool_class = klass;
  object_class->get_property = gpu_memory_pool_get_property;
  object_class->set_property = gpu_memory_pool_set_property;
  object_class->finalize = gpu_memory_pool_finalize;

  install_construct_properties ();
  install_settings ();
  install_notify_interval ();
  /**
   * GpuMemoryPool:hooks: (skip)
   *
   * The functions of the pool for other libraries, a #GpuPoolHooks; %NULL if memory of the pool has
   * no device addresses, or if the pool is of kind %GPU_MEMORY_POOL_BINS. The pool owns the table.
   *
   * Since: 0.1
   */
  props[PROP_HOOKS] = g_param_spec_pointer ("hooks", NULL, NULL,
                                            G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  install_figures ();
  g_object_class_install_properties (object_class, N_PROPS, props);

  /**
   * GpuMemoryPool::out-of-memory:
   * @pool: the pool
   * @requested: size in bytes of the request that failed
   *
   * Emitted when a request fails for lack of memory, after the pool has freed all its unused
   * memory. The signal is emitted on the thread that made the request. A handler may free memory of
   * this pool or other memory, for example with gpu_buffer_spill(), and then return %TRUE: the pool
   * tries again, at most three times for each request. The first handler that returns %TRUE stops
   * the emission. If none does, or if there is still no memory after three times, the pool emits
   * #GpuContext::memory-pressure once. If a handler itself requests memory of this pool and there
   * is none, that request fails without another emission.
   *
   * Returns: %TRUE to try again
   *
   * Since: 0.1
   */
  g_signal_new ("out-of-memory", GPU_TYPE_MEMORY_POOL, G_SIGNAL_RUN_LAST, 0,
                g_signal_accumulator_true_handled, NULL, NULL, G_TYPE_BOOLEAN, 1, G_TYPE_UINT64);
}

static void
gpu_memory_pool_init (GpuMemoryPool *pool)
{
  g_mutex_init (&pool->lock);
  pool->limits.release_threshold = G_MAXUINT64;
  pool->limits.waste = DEFAULT_WASTE;
  _gpu_live_add (GPU_LIVE_MEMORY_POOL, 1);
}

/* Creates the allocator from which the pool gets its segments. On the host back end it is a
 * deferred allocator, so that a large segment does not occupy memory before its blocks are used. On
 * other back ends it is an immediate allocator, so that the pool gets the error if an allocation
 * fails. If that allocator uses its stream, the pool has a stream of its own: behind pending work
 * of the program, requests would wait for that work, and fail if it fails. */
static GpuAllocator *
make_allocator (GpuMemoryPool  *pool,
                GError        **error)
{
  const GpuBufferOps *ops = _gpu_context_get_native (pool->context)->backend->buffer;
  g_autoptr (GpuStream) stream = NULL;
  GpuImmediateAllocator *allocator;

  if (ops->commit != NULL)
    return (GpuAllocator *) gpu_deferred_allocator_new (pool->context, pool->flags, error);

  if (_gpu_context_peek_timeline (pool->context, NULL, FUNCTION, error) == NULL)
    return NULL;

  stream = ops->is_deferred ? gpu_stream_new (pool->context, GPU_STREAM_FLAGS_NONE, error)
                            : gpu_context_get_default_stream (pool->context);

  if (stream == NULL)
    return NULL;

  allocator = gpu_immediate_allocator_new (stream, pool->flags, error);

  return allocator != NULL ? GPU_ALLOCATOR (allocator) : NULL;
}

/* Returns the first kind, in the order of GpuMemoryPoolKind, that the device supports.
 * @has_addresses is FALSE after the driver failed to reserve addresses, which an expandable pool
 * needs. Shareable pools get segments, because a buffer in a segment has one file descriptor, and
 * other libraries cannot import several. Bins are the last choice: if sizes vary, a pool with bins
 * holds up to ten times as much memory as a pool with segments. */
static GpuMemoryPoolKind
choose_kind (GpuMemoryPool *pool,
             gboolean       has_addresses)
{
  GpuCapabilities capabilities =
    _gpu_context_get_native (pool->context)->devices[0]->capabilities;

  if (has_addresses && pool->allocator == NULL && (pool->flags & ~GPU_MEMORY_FLAGS_UNTRACKED) == 0
      && (capabilities & GPU_CAPABILITIES_VIRTUAL_MEMORY) != 0)
    return GPU_MEMORY_POOL_EXPANDABLE;

  if (_gpu_pool_find_svm (pool->allocator) != NULL
      && _gpu_pool_takes_turns (_gpu_context_get_native (pool->context)))
    return GPU_MEMORY_POOL_BINS;

  return GPU_MEMORY_POOL_SEGMENTS;
}

static gboolean
check_kind (GpuMemoryPool  *pool,
            GError        **error)
{
  const GpuNativeDevice *device = _gpu_context_get_native (pool->context)->devices[0];

  if (pool->kind != GPU_MEMORY_POOL_EXPANDABLE)
    return TRUE;

  if ((device->capabilities & GPU_CAPABILITIES_VIRTUAL_MEMORY) == 0)
    g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                 "%s: %s does not support virtual memory management, which an expandable pool "
                 "needs; use another kind", FUNCTION, device->id);
  else if (pool->allocator != NULL)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: an expandable pool allocates from the driver and cannot use an allocator; "
                 "use another kind", FUNCTION);
  else if ((pool->flags & GPU_MEMORY_FLAGS_ALLOC_HOST) != 0 && !device->has_host_chunks)
    g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                 "%s: %s does not support virtual memory management of host memory, which an "
                 "expandable pool of host memory needs; use another kind", FUNCTION, device->id);
  else if ((pool->flags & ~EXPANDABLE_FLAGS) != 0)
    {
      g_autofree char *text = _gpu_flags_get_nicks (GPU_TYPE_MEMORY_FLAGS, pool->flags);

      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "%s: an expandable pool does not support the flags %s; use another kind",
                   FUNCTION, text);
    }
  else
    {
      return TRUE;
    }

  return FALSE;
}

static gboolean
choose_context (GpuMemoryPool  *pool,
                GError        **error)
{
  GpuContext *context = NULL;

  if (pool->allocator != NULL)
    context = gpu_allocator_get_context (pool->allocator);

  if (pool->context == NULL && context != NULL)
    pool->context = g_object_ref (context);

  if (pool->context == NULL)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: neither a context nor an allocator with a context was given: pass the "
                 "context, or implement get_context() of the allocator; in Python, define "
                 "do_get_context()", FUNCTION);
  else if (!_gpu_context_check (pool->context, FUNCTION, error))
    return FALSE;
  else if (context == NULL || context == pool->context)
    return TRUE;
  else if (_gpu_context_check (context, FUNCTION, error))
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: the allocator %s belongs to another context, on %s, than the pool, on %s",
                 FUNCTION, G_OBJECT_TYPE_NAME (pool->allocator),
                 _gpu_context_get_native (context)->devices[0]->id,
                 _gpu_context_get_native (pool->context)->devices[0]->id);

  return FALSE;
}

static gboolean
make_core (GpuMemoryPool  *pool,
           GError        **error)
{
  g_autoptr (GpuAllocator) allocator = NULL;

  if (!check_kind (pool, error))
    return FALSE;

  if (pool->allocator != NULL)
    allocator = g_object_ref (pool->allocator);
  else if (pool->kind != GPU_MEMORY_POOL_EXPANDABLE)
    allocator = make_allocator (pool, error);

  if (allocator == NULL && pool->kind != GPU_MEMORY_POOL_EXPANDABLE)
    return FALSE;

  pool->core = _gpu_pool_core_new (pool, allocator, error);

  if (pool->core == NULL)
    g_prefix_error (error, "%s: ", FUNCTION);

  return pool->core != NULL;
}

/* Tries the next kind if the driver fails to reserve addresses. A reservation may fail even if the
 * device supports virtual memory, for example if the process is short of address space. */
static gboolean
make_best_core (GpuMemoryPool  *pool,
                GError        **error)
{
  GError *failure = NULL;

  pool->kind = choose_kind (pool, TRUE);

  if (make_core (pool, &failure))
    return TRUE;

  if (pool->kind != GPU_MEMORY_POOL_EXPANDABLE
      || g_error_matches (failure, GPU_ERROR, GPU_ERROR_DEVICE_LOST))
    {
      g_propagate_error (error, failure);
      return FALSE;
    }

  _gpu_debug_print (GPU_DEBUG_POOL, "pool %p: not expandable: %s", (void *) pool,
                    failure->message);

  g_error_free (failure);
  pool->kind = choose_kind (pool, FALSE);

  return make_core (pool, error);
}

static const char *
get_kind_name (GpuMemoryPoolKind kind)
{
  switch (kind)
    {
    case GPU_MEMORY_POOL_EXPANDABLE:
      return "expandable";
    case GPU_MEMORY_POOL_SEGMENTS:
      return "segments";
    default:
      return "bins";
    }
}

static gboolean
gpu_memory_pool_initable_init (GInitable     *initable,
                               GCancellable  *cancellable G_GNUC_UNUSED,
                               GError       **error)
{
  GpuMemoryPool *pool = GPU_MEMORY_POOL (initable);
  gboolean is_made;

  if (pool->core != NULL)
    return TRUE;

  if (!choose_context (pool, error)
      || !_gpu_buffer_check_flags (FUNCTION, _gpu_context_get_native (pool->context), pool->flags,
                                   error))
    return FALSE;

  is_made = pool->kind == GPU_MEMORY_POOL_AUTOMATIC ? make_best_core (pool, error)
                                                    : make_core (pool, error);

  if (!is_made)
    return FALSE;

  _gpu_pool_core_set_limits (pool->core, &pool->limits);
  _gpu_pool_status_add (pool->core,
                        gpu_device_get_id (gpu_context_get_device (pool->context)),
                        get_kind_name (pool->kind));

  if (pool->core->has_addresses)
    pool->blocks = pool->core->pool;

  return TRUE;
}

static void
initable_iface_init (GInitableIface *iface)
{
  iface->init = gpu_memory_pool_initable_init;
}

static GpuMemory *
gpu_memory_pool_allocator_alloc (GpuAllocator  *allocator,
                                 gsize          size,
                                 GpuStream     *stream,
                                 GError       **error)
{
  GpuBuffer *buffer = gpu_memory_pool_alloc_buffer (GPU_MEMORY_POOL (allocator), size, stream,
                                                    error);

  return buffer != NULL ? GPU_MEMORY (buffer) : NULL;
}

static GpuContext *
gpu_memory_pool_allocator_get_context (GpuAllocator *allocator)
{
  return GPU_MEMORY_POOL (allocator)->context;
}

static gboolean
get_upstream_info (GpuMemoryPool  *pool,
                   guint64        *free_size,
                   guint64        *total_size,
                   GError        **error)
{
  GpuMemoryInfoSource source;
  GpuMemoryLimits limits;

  if (pool->allocator != NULL)
    return gpu_allocator_get_memory_info (pool->allocator, free_size, total_size, error);

  if ((pool->flags & GPU_MEMORY_FLAGS_ALLOC_HOST) != 0)
    {
      _gpu_memory_limits_read ("", &limits);
      *free_size = limits.free_size;
      *total_size = limits.total_size;
      return TRUE;
    }

  return gpu_context_get_memory_info (pool->context, free_size, total_size, &source, error);
}

/* The unused memory of the pool is free for its requests. */
static gboolean
gpu_memory_pool_allocator_get_memory_info (GpuAllocator  *allocator,
                                           guint64       *free_size,
                                           guint64       *total_size,
                                           GError       **error)
{
  GpuMemoryPool *pool = GPU_MEMORY_POOL (allocator);
  guint64 limit;
  GpuPoolStats stats;

  if (!_gpu_memory_pool_check (pool, "gpu_allocator_get_memory_info", error)
      || !get_upstream_info (pool, free_size, total_size, error))
    return FALSE;

  get_stats (pool, &stats);
  limit = _gpu_memory_pool_get_limit (pool, &pool->limits.limit);
  *free_size += stats.managed_bytes - MIN (stats.used_bytes, stats.managed_bytes);

  if (limit != 0)
    {
      *free_size = MIN (*free_size, limit - MIN (stats.used_bytes, limit));
      *total_size = MIN (*total_size, limit);
    }

  *free_size = MIN (*free_size, *total_size);

  return TRUE;
}

static void
gpu_memory_pool_allocator_trim (GpuAllocator *allocator,
                                guint64       held_bytes)
{
  gpu_memory_pool_trim (GPU_MEMORY_POOL (allocator), held_bytes);
}

static void
allocator_iface_init (GpuAllocatorInterface *iface)
{
  iface->alloc = gpu_memory_pool_allocator_alloc;
  iface->get_context = gpu_memory_pool_allocator_get_context;
  iface->get_memory_info = gpu_memory_pool_allocator_get_memory_info;
  iface->trim = gpu_memory_pool_allocator_trim;
}

/**
 * gpu_memory_pool_new:
 * @context: a #GpuContext
 * @kind: the kind of the pool; %GPU_MEMORY_POOL_AUTOMATIC for the best kind that the device and the
 *   driver support
 * @flags: the flags of the memory
 * @error: return location for an error
 *
 * Creates an empty pool of memory of @context. #GpuMemoryPool:kind is then the kind in effect. If
 * the driver cannot reserve addresses for an expandable pool (CUDA: cuMemAddressReserve),
 * %GPU_MEMORY_POOL_EXPANDABLE fails and %GPU_MEMORY_POOL_AUTOMATIC selects the next kind. Does not
 * block.
 *
 * Returns: (transfer full): the pool, or %NULL with %GPU_ERROR_NOT_SUPPORTED if the device does not
 *   support @kind or @flags, or the process has no thread key left,
 *   %GPU_ERROR_INVALID_ARGUMENT for contradictory flags, %GPU_ERROR_DEVICE_LOST or the driver's
 *   error
 *
 * Since: 0.1
 */
GpuMemoryPool *
gpu_memory_pool_new (GpuContext         *context,
                     GpuMemoryPoolKind   kind,
                     GpuMemoryFlags      flags,
                     GError            **error)
{
  const char *function = "gpu_memory_pool_new";

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  if (!_gpu_enum_check (GPU_TYPE_MEMORY_POOL_KIND, kind, "kind of pool", function, error)
      || !_gpu_flags_check (GPU_TYPE_MEMORY_FLAGS, flags, "memory flags", function, error))
    return NULL;

  return g_initable_new (GPU_TYPE_MEMORY_POOL, NULL, error, "context", context, "kind", kind,
                         "flags", flags, NULL);
}

/**
 * gpu_memory_pool_new_for_allocator:
 * @allocator: a #GpuAllocator
 * @kind: the kind of the pool; not %GPU_MEMORY_POOL_EXPANDABLE
 * @leading_bits: for %GPU_MEMORY_POOL_BINS: the number of bits after the leading bit of a size that
 *   select the bin of the size, at most 10. With more bits, rounding wastes less memory, but fewer
 *   sizes share a bin. PyOpenCL uses 4
 * @error: return location for an error
 *
 * Creates an empty pool of memory from @allocator. Use an allocator that allocates memory
 * immediately, such as a #GpuImmediateAllocator. If an allocator allocates memory only when the
 * memory is first used, an error occurs too late for the pool to free other memory and try again.
 * Does not block.
 *
 * %GPU_MEMORY_POOL_SEGMENTS, which is also the choice of %GPU_MEMORY_POOL_AUTOMATIC for most
 * allocators, divides the memory of @allocator. Except on OpenCL, the memory must then start at a
 * multiple of 512 bytes, or of the alignment of the device if that is larger; otherwise requests
 * fail with %GPU_ERROR_NOT_SUPPORTED. %GPU_MEMORY_POOL_BINS accepts any address.
 *
 * Returns: (transfer full): the pool, or %NULL with %GPU_ERROR_INVALID_ARGUMENT or
 *   %GPU_ERROR_NOT_SUPPORTED for an unsuitable @kind, %GPU_ERROR_INVALID_ARGUMENT if @leading_bits
 *   is too large or @allocator has no context, or %GPU_ERROR_DEVICE_LOST
 *
 * Since: 0.1
 */
GpuMemoryPool *
gpu_memory_pool_new_for_allocator (GpuAllocator       *allocator,
                                   GpuMemoryPoolKind   kind,
                                   guint               leading_bits,
                                   GError            **error)
{
  g_return_val_if_fail (GPU_IS_ALLOCATOR (allocator), NULL);

  if (!_gpu_enum_check (GPU_TYPE_MEMORY_POOL_KIND, kind, "kind of pool",
                        "gpu_memory_pool_new_for_allocator", error))
    return NULL;

  if (leading_bits <= MAX_LEADING_BITS)
    return g_initable_new (GPU_TYPE_MEMORY_POOL, NULL, error, "allocator", allocator, "kind", kind,
                           "leading-bits", leading_bits, NULL);

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpu_memory_pool_new_for_allocator: %u leading bits exceed the maximum of %u",
               leading_bits, MAX_LEADING_BITS);

  return NULL;
}

/**
 * gpu_memory_pool_get_statistics:
 * @pool: a #GpuMemoryPool
 *
 * Gets a copy of all counters of the pool. The keys are the names of the properties. The values are
 * exact if no other thread uses the pool during the call.
 *
 * Returns: (transfer full): a dictionary of type a{sv}, whose values have type t
 *
 * Since: 0.1
 */
GVariant *
gpu_memory_pool_get_statistics (GpuMemoryPool *pool)
{
  GVariantDict dict;
  GpuPoolStats stats;

  g_return_val_if_fail (GPU_IS_MEMORY_POOL (pool), NULL);

  get_stats (pool, &stats);
  g_variant_dict_init (&dict, NULL);

  for (guint i = 0; i < GPU_POOL_N_FIGURES; i++)
    g_variant_dict_insert (&dict, _gpu_pool_figures[i].name, "t", _gpu_pool_stats_get (&stats, i));

  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

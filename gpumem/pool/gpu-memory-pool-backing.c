/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Backing of a pool: the memory, which comes from an allocator or from the driver, and its views. A
 * view is the driver's handle for a part of the memory. */
#include "config.h"

#include "gpumem/allocator/gpu-allocator-adaptor-private.h"
#include "gpumem/allocator/gpu-allocator-adaptor.h"
#include "gpumem/allocator/gpu-allocator.h"
#include "gpumem/allocator/gpu-basic-allocator.h"
#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-error-private.h"
#include "gpumem/base/gpu-memory-limits-private.h"
#include "gpumem/base/gpu-signal-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-virtual-memory-private.h"
#include "gpumem/pool/gpu-memory-pool-private.h"

/* The size of the smallest block, the distance between the artificial addresses of two segments,
 * and the size of an ordinary segment, in bytes. A pool assigns artificial addresses if the driver
 * reports none. */
#define UNIT         512
#define ADDRESS_STEP (G_GUINT64_CONSTANT (1) << 32)
#define SEGMENT_SIZE ((gsize) 256 * 1024 * 1024)

/* Maximum number of emissions of GpuMemoryPool::out-of-memory for one request. */
#define MAX_ATTEMPTS 3

/* Returns the allocation that contains @source, and the offset of @source in it. Callers create
 * views of that allocation, because @source may be a sub-buffer (a slice, or a block of another
 * pool), and a sub-buffer cannot have sub-buffers. */
static GpuNativeBuffer *
find_allocation (GpuStorage *source,
                 gsize      *offset)
{
  GpuStorage *whole = source->whole;

  *offset = source->offset - whole->offset;

  if (whole->suballocation == NULL)
    return whole->buffer;

  *offset += whole->suballocation->offset;

  return whole->suballocation->whole;
}

/* With @source NULL, creates a view of the pool's address range. */
static GpuPoolView *
view_new (GpuPoolCore      *core,
          GpuStorage       *source,
          gsize             offset,
          GpuMemoryFlags    flags)
{
  GpuPoolView *view = g_new0 (GpuPoolView, 1);

  g_atomic_ref_count_init (&view->refs);
  view->backend = core->context->backend;
  view->whole = source != NULL ? source->buffer : core->range;
  view->offset = offset;
  view->flags = flags;

  if (source != NULL)
    {
      view->context = _gpu_native_context_ref (core->context);
      view->source = _gpu_storage_ref (source);
      _gpu_storage_use (source);
    }

  return view;
}

GpuPoolView *
_gpu_pool_view_ref (GpuPoolView *view)
{
  g_atomic_ref_count_inc (&view->refs);

  return view;
}

void
_gpu_pool_view_unref (gpointer data)
{
  GpuPoolView *view = data;

  if (!g_atomic_ref_count_dec (&view->refs))
    return;

  if (view->buffer != NULL && view->buffer != view->whole)
    view->backend->memory->free (view->context, view->buffer);

  if (view->source != NULL)
    {
      _gpu_storage_unuse (view->source);
      _gpu_storage_unref (view->source);
      _gpu_native_context_unref (view->context);
    }

  g_free (view);
}

/* A large allocation that blocks are cut from. If the driver reports no address for the allocation,
 * the pool assigns an artificial address. */
typedef struct
{
  GpuMemory *memory;
  guint64    address;               /* address of the allocation; the segment may begin at a higher
                                     * address */
} Segment;

static guint64
make_address (GpuPoolCore *core,
              gsize        size)
{
  guint64 address;

  g_mutex_lock (&core->lock);
  address = core->next_address;
  core->next_address += (size / ADDRESS_STEP + 1) * ADDRESS_STEP;
  g_mutex_unlock (&core->lock);

  return address;
}

/* Fails if a graph would allocate the memory, because the memory then exists only after a launch of
 * the graph. Also fails for memory of another context, which gpu_allocator_alloc() accepts from an
 * allocator without a context: the driver may crash otherwise. */
static GpuMemory *
alloc_outside (GpuPoolCore  *core,
               gsize         size,
               GError      **error)
{
  g_autoptr (GpuMemory) memory = gpu_allocator_alloc (core->allocator, size, NULL, error);

  if (memory != NULL && _gpu_context_get_native (memory->context) != core->context)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED,
                   "the allocator %s returned a %s of another context, on %s, than that of the "
                   "pool, on %s; allocate from the context of the pool",
                   G_OBJECT_TYPE_NAME (core->allocator), G_OBJECT_TYPE_NAME (memory),
                   _gpu_context_get_native (memory->context)->devices[0]->id,
                   core->context->devices[0]->id);
      return NULL;
    }

  if (memory == NULL || memory->storage->root->allocation_capture == 0)
    return g_steal_pointer (&memory);

  g_set_error_literal (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                       "the stream of the allocator is being captured into a graph, which would "
                       "allocate the memory of the pool; end the capture first");

  return NULL;
}

/* Allocates memory from the allocator. Waits for pending uses of that memory, because the pool does
 * not track these uses. */
static GpuMemory *
alloc_relaxed (GpuPoolCore  *core,
               gsize         size,
               GError      **error)
{
  GpuMemory *memory = alloc_outside (core, size, error);
  g_autoptr (GArray) uses = NULL;

  if (memory == NULL)
    return NULL;

  uses = _gpu_storage_list_uses (memory->storage->root, TRUE);

  for (guint i = 0; i < uses->len; i++)
    {
      const GpuPoint *point = &g_array_index (uses, GpuUse, i).point;

      _gpu_timeline_wait (point->timeline, point->seq, NULL);
    }

  return memory;
}

/* Prevents the emission of GpuContext::memory-pressure for each size that the allocator refuses:
 * the pool may have unused memory, or need less. If the request fails, make_room() emits the
 * signal. If the device has refused memory, but the allocator has found some, emits it
 * afterwards. Only that emission takes a reference to the pool: the toggle reference of a language
 * binding may need a lock whose holder waits for the growth. */
static GpuMemory *
alloc_memory (GpuPoolCore  *core,
              gsize         size,
              GError      **error)
{
  g_autoptr (GpuMemoryPool) pool = NULL;
  guint rule = _gpu_pool_relax_captures (core->context);
  GpuEmission emission;
  GpuMemory *memory;

  _gpu_emission_begin (&emission, core->context);
  memory = alloc_relaxed (core, size, error);
  _gpu_emission_end (&emission);
  _gpu_pool_restore_captures (core->context, rule);

  if (emission.is_requested && memory != NULL)
    pool = g_weak_ref_get (core->owner);
  if (pool != NULL)
    _gpu_context_signal_pressure (pool->context, size);

  return memory;
}

static void
free_memory (GpuPoolCore *core,
             GpuMemory   *memory)
{
  guint rule = _gpu_pool_relax_captures (core->context);

  gpu_allocator_free (core->allocator, memory);
  g_object_unref (memory);
  _gpu_pool_restore_captures (core->context, rule);
}

static gboolean
has_sub_buffers (GpuPoolCore *core)
{
  return (core->context->devices[0]->capabilities & GPU_CAPABILITIES_SUB_BUFFERS) != 0;
}

/* Returns the maximum number of bytes that may be lost at the start of an allocation: on OpenCL, an
 * allocation may start at any address, but the first block must start at a multiple of the unit. */
static gsize
get_slack (GpuPoolCore *core)
{
  return core->has_addresses && has_sub_buffers (core) ? core->unit : 0;
}

static gboolean
set_segment (GpuPoolCore    *core,
             GpuMemory      *memory,
             gsize           size,
             GpuPoolSegment *segment)
{
  guint64 base = core->has_addresses ? gpu_memory_get_device_address (memory)
                                     : make_address (core, memory->size);
  gsize lead = -base % core->unit;

  if (base == 0 || lead > get_slack (core) || lead > memory->size
      || (has_sub_buffers (core) && lead % core->context->devices[0]->base_alignment != 0))
    return FALSE;

  segment->address = base + lead;
  segment->size = (memory->size - lead) / core->unit * core->unit;
  segment->lost = memory->size - segment->size;

  if (segment->size < size - get_slack (core))
    return FALSE;

  segment->data = g_new (Segment, 1);
  *(Segment *) segment->data = (Segment) { memory, base };

  if (gpu_pool_core_records (core))
    _gpu_pool_core_record (core, GPU_POOL_SEGMENT_ALLOC, base, memory->size, NULL);

  return TRUE;
}

static gboolean
alloc_segment (gpointer         owner,
               gsize            size,
               GpuPoolSegment  *segment,
               GError         **error)
{
  GpuPoolCore *core = owner;
  GpuMemory *memory = alloc_memory (core, size, error);

  if (memory == NULL)
    return FALSE;

  if (!memory->storage->root->is_exclusive && set_segment (core, memory, size, segment))
    return TRUE;

  if (memory->storage->root->is_exclusive)
    g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                 "memory of the allocator %s cannot be divided, because host and device cannot use "
                 "it at the same time; use GPU_MEMORY_POOL_BINS",
                 G_OBJECT_TYPE_NAME (core->allocator));
  else
    g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                 "the allocator %s returned %" G_GSIZE_FORMAT " bytes at address 0x%"
                 G_GINT64_MODIFIER "x, but a segment needs %" G_GSIZE_FORMAT
                 " bytes at a multiple of %" G_GSIZE_FORMAT "; use GPU_MEMORY_POOL_BINS",
                 G_OBJECT_TYPE_NAME (core->allocator), memory->size,
                 gpu_memory_get_device_address (memory), size - get_slack (core), core->unit);

  free_memory (core, memory);

  return FALSE;
}

static void
free_segment (gpointer               owner,
              const GpuPoolSegment  *segment)
{
  GpuPoolCore *core = owner;
  Segment *data = segment->data;

  if (gpu_pool_core_records (core))
    _gpu_pool_core_record (core, GPU_POOL_SEGMENT_FREE, data->address, data->memory->size, NULL);

  free_memory (core, data->memory);
  g_free (data);
}

static gboolean
is_host (GpuPoolCore *core)
{
  return (core->flags & GPU_MEMORY_FLAGS_ALLOC_HOST) != 0;
}

static gpointer
create_chunk (gpointer   owner,
              gsize      size,
              GError   **error)
{
  GpuPoolCore *core = owner;
  gboolean shareable = (core->flags & GPU_MEMORY_FLAGS_SHAREABLE) != 0;

  if (is_host (core))
    return _gpu_virtual_create_host_chunk (core->context, size, error);

  return _gpu_virtual_create_chunk (core->context, size, shareable ? core->range : NULL, error);
}

static void
destroy_chunk (gpointer owner,
               gpointer chunk,
               gsize    size G_GNUC_UNUSED)
{
  _gpu_virtual_destroy_chunk (((GpuPoolCore *) owner)->context, chunk);
}

static guint64
get_range_address (GpuPoolCore *core)
{
  return core->context->backend->memory->get_address (core->range);
}

static gboolean
map_chunks (gpointer         owner,
            gsize            offset,
            const gpointer  *chunks,
            const gsize     *sizes,
            guint            n_chunks,
            GError         **error)
{
  GpuPoolCore *core = owner;
  GpuNativeChunk *const *natives = (GpuNativeChunk *const *) chunks;
  gboolean is_mapped = core->context->backend->virtual_memory->map (core->context, core->range,
                                                                    offset, natives, n_chunks,
                                                                    error);
  gsize size = 0;

  if (!is_mapped)
    return FALSE;

  for (guint i = 0; i < n_chunks; i++)
    size += sizes[i];

  if (gpu_pool_core_records (core))
    _gpu_pool_core_record (core, GPU_POOL_CHUNK_MAP, get_range_address (core) + offset, size, NULL);

  return TRUE;
}

static void
unmap_chunks (gpointer owner,
              gsize    offset,
              gsize    size)
{
  GpuPoolCore *core = owner;

  if (gpu_pool_core_records (core))
    _gpu_pool_core_record (core, GPU_POOL_CHUNK_UNMAP, get_range_address (core) + offset, size,
                           NULL);

  core->context->backend->virtual_memory->unmap (core->context, core->range, offset, size);
}

/* Returns TRUE at most MAX_ATTEMPTS times for memory of captures and for ::out-of-memory, and then
 * once for ::memory-pressure. */
static gboolean
make_room (gpointer  owner,
           gsize     size,
           guint    *attempt)
{
  GpuPoolCore *core = owner;
  g_autoptr (GpuMemoryPool) pool = g_weak_ref_get (core->owner);
  GpuEmission emission;
  gboolean retry = FALSE;

  if (pool == NULL || *attempt > MAX_ATTEMPTS)
    return FALSE;

  if (*attempt < MAX_ATTEMPTS)
    {
      ++*attempt;

      if (_gpu_memory_pool_collect_captures (pool))
        return TRUE;

      if (_gpu_emission_find (pool) != NULL)
        return FALSE;

      _gpu_emission_begin (&emission, pool);
      g_signal_emit_by_name (pool, "out-of-memory", (guint64) size, &retry);
      _gpu_emission_end (&emission);
    }

  if (retry)
    return TRUE;

  *attempt = MAX_ATTEMPTS + 1;

  return _gpu_context_signal_pressure (pool->context, size);
}

/* One allocation for a pool with bins, with its view. */
typedef struct
{
  GpuMemory   *memory;
  GpuPoolView *view;
} Item;

static gpointer
alloc_item (gpointer   owner,
            gsize      size,
            GError   **error)
{
  GpuPoolCore *core = owner;
  GpuMemory *memory = alloc_memory (core, size, error);
  Item *item;

  if (memory == NULL)
    return NULL;

  item = g_new (Item, 1);
  item->memory = memory;
  item->view = view_new (core, memory->storage, 0, memory->flags);
  item->view->buffer = item->view->whole;

  if (gpu_pool_core_records (core))
    _gpu_pool_core_record (core, GPU_POOL_SEGMENT_ALLOC, memory->handle, size, NULL);

  return item;
}

static void
free_item (gpointer owner,
           gpointer data,
           gsize    size)
{
  GpuPoolCore *core = owner;
  Item *item = data;

  if (gpu_pool_core_records (core))
    _gpu_pool_core_record (core, GPU_POOL_SEGMENT_FREE, item->memory->handle, size, NULL);

  _gpu_pool_view_unref (item->view);
  free_memory (core, item->memory);
  g_free (item);
}

guint64
_gpu_pool_item_get_handle (const GpuPoolItem *item)
{
  const Item *data = _gpu_pool_item_get_data (item);

  return data->memory->handle;
}

static const GpuPoolBinsOps bins_ops = {
  .alloc_item = alloc_item,
  .free_item = free_item,
  .make_room = make_room
};

static const GpuPoolOps segment_ops = {
  .alloc_segment = alloc_segment,
  .free_segment = free_segment,
  .make_room = make_room,
  .is_frozen = _gpu_pool_is_frozen
};

static const GpuPoolOps chunk_ops = {
  .create_chunk = create_chunk,
  .destroy_chunk = destroy_chunk,
  .map_chunks = map_chunks,
  .unmap_chunks = unmap_chunks,
  .make_room = make_room,
  .is_frozen = _gpu_pool_is_frozen
};

static guint64
get_memory_size (GpuPoolCore *core)
{
  GpuMemoryLimits limits;

  if (!is_host (core))
    return core->context->devices[0]->memory_size;

  _gpu_memory_limits_read ("", &limits);

  return limits.total_size;
}

/* Reserves a range of addresses that is twice as large as the memory of the device or the host:
 * chunks can then be moved to unused addresses. Reserved addresses occupy no memory. If the process
 * is short of addresses, the range is as large as the memory. */
static gboolean
reserve (GpuPoolCore    *core,
         GpuPoolConfig  *config,
         GError        **error)
{
  GpuNativeContext *context = core->context;
  const GpuVirtualOps *ops = context->backend->virtual_memory;
  guint64 total = get_memory_size (core);
  GError *failure = NULL;

  if (!ops->get_granularity (context, is_host (core), &config->granularity, error))
    return FALSE;

  total = (total + config->granularity - 1) / config->granularity * config->granularity;
  config->range_size = total * 2;
  core->range = ops->reserve (context, is_host (core), config->range_size, &failure);

  if (g_error_matches (failure, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY))
    {
      g_clear_error (&failure);
      config->range_size = total;
      core->range = ops->reserve (context, is_host (core), config->range_size, &failure);
    }

  if (core->range == NULL)
    {
      g_propagate_error (error, failure);
      return FALSE;
    }

  config->range_address = context->backend->memory->get_address (core->range);

  return TRUE;
}

static void
core_free (GpuPoolCore *core)
{
  g_clear_pointer (&core->pool, _gpu_pool_free);
  g_clear_pointer (&core->bins, _gpu_pool_bins_free);

  if (core->range != NULL)
    core->context->backend->memory->free (core->context, core->range);

  g_clear_object (&core->svm);
  g_clear_object (&core->allocator);
  g_clear_pointer (&core->extras, g_hash_table_unref);
  _gpu_pool_history_free (core->history);
  g_weak_ref_clear (core->owner);
  g_free (core->owner);
  g_mutex_clear (&core->lock);
  _gpu_pool_core_clear_recycled (core);
  _gpu_native_context_unref (core->context);
  g_free (core);
  _gpu_live_add (GPU_LIVE_POOL_CORE, -1);
}

GpuSvmAllocator *
_gpu_pool_find_svm (GpuAllocator *allocator)
{
  while (allocator != NULL && !GPU_IS_SVM_ALLOCATOR (allocator))
    {
      if (GPU_IS_ALLOCATOR_ADAPTOR (allocator))
        allocator = _gpu_allocator_adaptor_get_upstream (GPU_ALLOCATOR_ADAPTOR (allocator));
      else
        allocator = GPU_IS_MEMORY_POOL (allocator) ? GPU_MEMORY_POOL (allocator)->allocator : NULL;
    }

  return (GpuSvmAllocator *) allocator;
}

gboolean
_gpu_pool_takes_turns (GpuNativeContext *context)
{
  return context->backend->svm != NULL && context->backend->svm->attach != NULL
         && (context->devices[0]->capabilities & GPU_CAPABILITIES_SVM_FINE) == 0;
}

/* Returns the alignment of blocks. A sub-buffer may begin at any multiple of this alignment on
 * every device of the context. */
static gsize
get_unit (GpuNativeContext *context)
{
  gsize unit = UNIT;

  for (guint i = 0; i < context->n_devices; i++)
    unit = MAX (unit, (gsize) context->devices[i]->base_alignment);

  return unit;
}

/* Returns whether all memory of the pool has addresses. On OpenCL, only two kinds of memory are
 * known to have addresses: shared virtual memory, and buffers of the pool's own allocator if the
 * device supports addresses. Other allocators may return memory without an address. */
static gboolean
has_addresses (GpuMemoryPool   *pool,
               GpuSvmAllocator *svm)
{
  const GpuNativeContext *context = _gpu_context_get_native (pool->context);
  const GpuNativeDevice *device = context->devices[0];

  return (device->capabilities & GPU_CAPABILITIES_SUB_BUFFERS) == 0 || svm != NULL
         || (device->has_addresses && context->n_devices == 1 && pool->allocator == NULL
             && (pool->flags & GPU_MEMORY_FLAGS_ALLOC_HOST) == 0);
}

GpuPoolCore *
_gpu_pool_core_new (GpuMemoryPool  *pool,
                    GpuAllocator   *allocator,
                    GError        **error)
{
  GpuNativeContext *native = _gpu_context_get_native (pool->context);
  GpuNativeDevice *device = native->devices[0];
  GpuPoolCore *core = g_new0 (GpuPoolCore, 1);
  GpuPoolConfig config = { .unit = get_unit (native),
                           .segment_size = MIN (SEGMENT_SIZE, device->max_allocation),
                           .max_segment_size = device->max_allocation };

  _gpu_live_add (GPU_LIVE_POOL_CORE, 1);
  g_atomic_ref_count_init (&core->refs);
  core->context = _gpu_native_context_ref (native);
  core->flags = pool->flags;
  core->owner = g_new0 (GWeakRef, 1);
  g_weak_ref_init (core->owner, pool);
  g_mutex_init (&core->lock);
  _gpu_pool_core_init_recycled (core);
  core->history = _gpu_pool_history_new ();
  core->unit = config.unit;
  core->next_address = ADDRESS_STEP;
  g_set_object (&core->allocator, allocator);
  g_set_object (&core->svm, _gpu_pool_find_svm (allocator));
  core->has_addresses = has_addresses (pool, core->svm);
  config.slack = get_slack (core);

  if (pool->kind == GPU_MEMORY_POOL_BINS)
    {
      core->bins = _gpu_pool_bins_new (pool->leading_bits, &bins_ops, core,
                                       &_gpu_pool_timeline_ops);
      return core;
    }

  if (pool->kind == GPU_MEMORY_POOL_EXPANDABLE && !reserve (core, &config, error))
    {
      core_free (core);
      return NULL;
    }

  core->pool = _gpu_pool_new (&config, core->range != NULL ? &chunk_ops : &segment_ops, core,
                              &_gpu_pool_timeline_ops, error);
  if (core->pool == NULL)
    {
      core_free (core);
      return NULL;
    }

  return core;
}

GpuPoolCore *
_gpu_pool_core_ref (GpuPoolCore *core)
{
  g_atomic_ref_count_inc (&core->refs);

  return core;
}

void
_gpu_pool_core_unref (GpuPoolCore *core)
{
  if (g_atomic_ref_count_dec (&core->refs))
    core_free (core);
}

/* State of a closed pool draining its pending work. */
typedef struct
{
  GpuPoolCore *core;
  GPtrArray   *timelines;
} Closing;

static void
continue_closing (gpointer data)
{
  Closing *closing = data;

  if (closing->timelines->len > 0)
    {
      GpuTimeline *timeline = g_ptr_array_steal_index_fast (closing->timelines, 0);

      _gpu_timeline_defer_until_complete (timeline, closing, continue_closing, 0);
      _gpu_timeline_unref (timeline);
      return;
    }

  g_ptr_array_unref (closing->timelines);
  _gpu_pool_core_unref (closing->core);
  g_free (closing);
}

/* Called on any thread when all blocks are freed. Pending work may still use the memory of the
 * blocks. */
static void
finish_closing (gpointer data)
{
  GpuPoolCore *core = data;
  Closing *closing = g_new0 (Closing, 1);

  closing->core = core;
  closing->timelines = core->bins != NULL ? _gpu_pool_bins_list_pending (core->bins)
                                          : _gpu_pool_list_pending (core->pool);
  continue_closing (closing);
}

void
_gpu_pool_core_close (GpuPoolCore *core)
{
  g_atomic_int_or (&core->modes, GPU_POOL_STOPPED);

  if (core->bins != NULL)
    _gpu_pool_bins_close (core->bins, finish_closing, core);
  else
    _gpu_pool_close (core->pool, finish_closing, core);
}

static guint64
get_suballocation_address (GpuPoolCore          *core,
                           GpuPoolSuballocation  suballocation)
{
  return core->bins != NULL ? _gpu_pool_item_get_handle (suballocation)
                            : _gpu_pool_block_get_address (suballocation);
}

static inline GpuPoolSuballocation
alloc_suballocation (GpuPoolCore  *core,
                     gsize         size,
                     gsize         alignment,
                     GpuTimeline  *timeline,
                     GError      **error)
{
  if (core->bins != NULL)
    return _gpu_pool_bins_alloc (core->bins, size, timeline, error);

  return _gpu_pool_alloc (core->pool, size, alignment, timeline, error);
}

static GPU_COLD GpuPoolSuballocation
alloc_recorded (GpuPoolCore  *core,
                gsize         size,
                gsize         alignment,
                GpuTimeline  *timeline,
                GError      **error)
{
  GError *failure = NULL;
  GpuPoolSuballocation suballocation = alloc_suballocation (core, size, alignment, timeline,
                                                            &failure);

  if (suballocation != NULL)
    _gpu_pool_core_record (core, GPU_POOL_ALLOC, get_suballocation_address (core, suballocation),
                           size, timeline);
  else if (_gpu_error_is_out_of_memory (failure))
    _gpu_pool_core_record (core, GPU_POOL_OUT_OF_MEMORY, 0, size, timeline);

  if (failure != NULL)
    g_propagate_error (error, failure);

  return suballocation;
}

GpuPoolSuballocation
_gpu_pool_core_alloc (GpuPoolCore  *core,
                      gsize         size,
                      gsize         alignment,
                      GpuTimeline  *timeline,
                      GError      **error)
{
  if (gpu_pool_core_records (core))
    return alloc_recorded (core, size, alignment, timeline, error);

  return alloc_suballocation (core, size, alignment, timeline, error);
}

static void
release_after (GpuPoolCore          *core,
               GpuPoolSuballocation  suballocation,
               const gpointer       *timelines,
               guint                 n_timelines)
{
  if (core->bins != NULL)
    _gpu_pool_bins_release_all (suballocation, timelines, n_timelines);
  else if (n_timelines == 1)
    _gpu_pool_release (suballocation, timelines[0]);
  else
    _gpu_pool_release_all (suballocation, timelines, n_timelines);
}

/* May run on a thread that is growing the pool. */
static void
release_excess (gpointer data)
{
  GpuPoolCore *core = data;

  if (core->bins != NULL)
    _gpu_pool_bins_trim (core->bins, 0, FALSE);
  else
    _gpu_pool_release_excess (core->pool);

  _gpu_pool_core_unref (core);
}

void
_gpu_pool_core_release_excess_after (GpuPoolCore *core,
                                     GpuTimeline *timeline)
{
  _gpu_timeline_defer_until_complete (timeline, core, release_excess, 0);
}

static GPU_COLD void
release_pending (GpuPoolCore          *core,
                 GpuPoolSuballocation  suballocation,
                 GpuTimeline          *alloc_timeline,
                 GArray               *uses)
{
  g_autofree gpointer *timelines = g_new (gpointer, uses->len + 1);
  gboolean stopped = (g_atomic_int_get (&core->modes) & GPU_POOL_STOPPED) != 0;
  guint n = 0;

  timelines[n++] = alloc_timeline;

  for (guint i = 0; i < uses->len; i++)
    {
      GpuTimeline *timeline = g_array_index (uses, GpuPoint, i).timeline;

      if (timeline != alloc_timeline)
        timelines[n++] = timeline;
    }

  release_after (core, suballocation, timelines, n);

  for (guint i = 0; stopped && i < n; i++)
    _gpu_pool_core_release_excess_after (_gpu_pool_core_ref (core), timelines[i]);
}

void
_gpu_pool_core_release (GpuPoolCore          *core,
                        GpuPoolSuballocation  suballocation,
                        GpuTimeline          *alloc_timeline,
                        GArray               *uses)
{
  const gpointer timelines[] = { alloc_timeline };

  if (gpu_pool_core_records (core))
    _gpu_pool_core_record (core, GPU_POOL_RELEASE, get_suballocation_address (core, suballocation),
                           _gpu_pool_core_get_size (core, suballocation), alloc_timeline);

  if (G_UNLIKELY (uses != NULL))
    release_pending (core, suballocation, alloc_timeline, uses);
  else
    release_after (core, suballocation, timelines, 1);
}

gsize
_gpu_pool_core_get_size (GpuPoolCore          *core,
                         GpuPoolSuballocation  suballocation)
{
  return core->bins != NULL ? _gpu_pool_item_get_size (suballocation)
                            : _gpu_pool_block_get_size (suballocation);
}

/* Creates the driver's handle of @view, a new view of @block. Frees @view on failure. */
static GpuPoolView *
cut_view (GpuPoolCore     *core,
          GpuPoolView     *view,
          GpuMemoryBlock  *block,
          GError         **error)
{
  view->buffer = _gpu_buffer_cut (core->context, view->whole, view->flags, view->offset,
                                  _gpu_pool_block_get_capacity (block), error);

  if (view->buffer == NULL)
    g_clear_pointer (&view, _gpu_pool_view_unref);

  return view;
}

/* Creates the view of @block in a segment. The view stays attached to the range of memory of the
 * block, even after the block is freed, until that range is split or joined with a neighbour. */
static GpuPoolView *
make_segment_view (GpuPoolCore     *core,
                   GpuMemoryBlock  *block,
                   GError         **error)
{
  const Segment *segment = _gpu_pool_block_get_segment (block);
  GpuPoolView *view = view_new (core, segment->memory->storage,
                                _gpu_pool_block_get_address (block) - segment->address,
                                segment->memory->flags);
  gsize begin;

  view->whole = find_allocation (segment->memory->storage, &begin);
  view->offset += begin;
  view = cut_view (core, view, block, error);

  if (view != NULL)
    _gpu_pool_block_set_data (block, view, _gpu_pool_view_unref);

  return view;
}

static inline gsize
get_range_offset (GpuPoolCore    *core,
                  GpuMemoryBlock *block)
{
  return _gpu_pool_block_get_address (block) - get_range_address (core);
}

gsize
_gpu_pool_core_move_slice (GpuPoolCore          *core,
                           GpuNativeBuffer      *slice,
                           GpuPoolSuballocation  suballocation)
{
  gsize offset = get_range_offset (core, suballocation);

  core->context->backend->buffer->move_slice (slice, core->range, offset,
                                              _gpu_pool_block_get_capacity (suballocation));

  return offset;
}

GpuPoolView *
_gpu_pool_core_get_view (GpuPoolCore           *core,
                         GpuPoolSuballocation   suballocation,
                         GError               **error)
{
  GpuPoolView *view;

  if (core->range != NULL)
    {
      view = view_new (core, NULL, get_range_offset (core, suballocation), core->flags);
      return cut_view (core, view, suballocation, error);
    }

  if (core->bins != NULL)
    view = ((Item *) _gpu_pool_item_get_data (suballocation))->view;
  else
    view = _gpu_pool_block_get_data (suballocation);

  if (G_UNLIKELY (view == NULL))
    view = make_segment_view (core, suballocation, error);

  return view != NULL ? _gpu_pool_view_ref (view) : NULL;
}

void
_gpu_pool_core_set_limits (GpuPoolCore         *core,
                           const GpuPoolLimits *limits)
{
  if (core->bins != NULL)
    _gpu_pool_bins_set_limits (core->bins, limits);
  else
    _gpu_pool_set_limits (core->pool, limits);
}

void
_gpu_pool_core_trim (GpuPoolCore *core,
                     guint64      keep,
                     gboolean     wait)
{
  if (core->bins != NULL)
    _gpu_pool_bins_trim (core->bins, keep, wait);
  else
    _gpu_pool_trim (core->pool, keep, wait);
}

void
_gpu_pool_core_stop_holding (GpuPoolCore *core)
{
  g_atomic_int_or (&core->modes, GPU_POOL_STOPPED);

  if (core->bins != NULL)
    _gpu_pool_bins_stop_holding (core->bins);
  else
    _gpu_pool_stop_holding (core->pool);
}

void
_gpu_pool_core_get_stats (GpuPoolCore  *core,
                          GpuPoolStats *stats)
{
  if (core->bins != NULL)
    _gpu_pool_bins_get_stats (core->bins, stats);
  else
    _gpu_pool_get_stats (core->pool, stats);
}

void
_gpu_pool_core_reset_peaks (GpuPoolCore *core)
{
  if (core->bins != NULL)
    _gpu_pool_bins_reset_peaks (core->bins);
  else
    _gpu_pool_reset_peaks (core->pool);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Growth by segments: chooses the sizes of segments, and frees segments. For expandable pools, the
 * public functions of this file call gpu-pool-chunks.c. */
#include "config.h"

#include "gpumem/base/gpu-error-private.h"
#include "gpumem/base/gpu-marks-private.h"
#include "gpumem/pool/core/gpu-pool-private.h"

/* Returns the number of bytes left below the limit. */
static guint64
get_room (GpuPool *pool)
{
  guint64 room = G_MAXUINT64;

  _gpu_pool_lock (&pool->lock);
  if (pool->limits.limit != 0)
    room = pool->limits.limit - MIN (pool->limits.limit, pool->stats.managed_bytes);
  _gpu_pool_unlock (&pool->lock);

  return room;
}

/* Makes the first segments small, because many programs need little memory. */
static gsize
choose_size (GpuPool *pool,
             gsize    needed,
             guint64  room)
{
  gsize size = pool->config.segment_size;
  gsize unit = (gsize) 1 << pool->unit_shift;

  if (needed > size / 2)
    return needed;

  for (guint n = pool->n_grown; n < 3 && size / 2 >= needed; n++)
    size /= 2;

  if (pool->config.max_segment_size != 0)
    size = MIN (size, pool->config.max_segment_size);
  size = MIN (size, room);

  return MAX (size & ~(unit - 1), needed);
}

/* Allocates a segment that does not exceed @room. Checks the size of the result, because an
 * allocator may return more memory than requested. */
static gboolean
alloc_within (GpuPool         *pool,
              gsize            size,
              guint64          room,
              GpuPoolSegment  *segment,
              GError         **error)
{
  *segment = (GpuPoolSegment) { 0, };

  if (!pool->ops.alloc_segment (pool->owner, size, segment, error))
    return FALSE;

  if (segment->size + segment->lost <= room)
    return TRUE;

  pool->ops.free_segment (pool->owner, segment);
  g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
               "the allocator returned %" G_GSIZE_FORMAT " bytes, which would exceed the limit",
               segment->size + segment->lost);

  return FALSE;
}

static gboolean
alloc_segment (GpuPool         *pool,
               gsize            needed,
               gsize            size,
               guint64          room,
               GpuPoolSegment  *segment,
               GError         **error)
{
  gsize unit = (gsize) 1 << pool->unit_shift;

  while (TRUE)
    {
      GError *local_error = NULL;

      if (alloc_within (pool, size, room, segment, &local_error))
        return TRUE;

      if (size == needed || !_gpu_error_is_out_of_memory (local_error))
        {
          g_propagate_error (error, local_error);
          return FALSE;
        }

      g_error_free (local_error);
      size = MAX (size / 2 & ~(unit - 1), needed);
    }
}

static GpuPoolNode *
add_segment (GpuPool              *pool,
             const GpuPoolSegment *segment,
             const GpuPoolRequest *request)
{
  GpuPoolArea *area;
  GpuPoolNode *node;

  _gpu_pool_lock (&pool->lock);

  area = _gpu_pool_heap_add_area (pool, segment);
  _gpu_pool_count_managed (pool, segment->size + segment->lost);
  pool->stats.n_growths++;
  pool->n_grown++;

  /* The segment has no uses yet. Assign the segment to the requesting stream: the rest of the
   * segment, which the request does not need, then becomes free memory of that stream. */
  area->first->use = gpu_pool_use_pack (request->slot, 0);
  node = _gpu_pool_serve_from (pool, area->first, request);

  _gpu_pool_unlock_and_destroy (pool);

  return node;
}

/* Returns whether an unused area id is left. A node has only 16 bits for its area id. */
static gboolean
has_id (GpuPool *pool)
{
  gboolean any;

  _gpu_pool_lock (&pool->lock);
  any = pool->n_used_areas < GPU_POOL_MAX_AREAS;
  _gpu_pool_unlock (&pool->lock);

  return any;
}

/* Keeps the pool below the soft limit: reclaims completed ranges, then frees empty segments. */
static GpuPoolNode *
save_memory (GpuPool              *pool,
             const GpuPoolRequest *request,
             gsize                 needed)
{
  GpuPoolNode *node;
  guint64 soft_limit;
  gboolean exceeds;

  _gpu_pool_lock (&pool->lock);
  soft_limit = pool->limits.soft_limit;
  exceeds = soft_limit != 0 && pool->stats.managed_bytes + needed > soft_limit;
  _gpu_pool_unlock (&pool->lock);

  if (!exceeds)
    return NULL;

  _gpu_pool_reclaim_completed (pool);

  node = _gpu_pool_lock_and_serve (pool, request);
  if (node == NULL)
    _gpu_pool_shrink (pool, soft_limit - MIN (soft_limit, needed));

  return node;
}

static GpuPoolNode *
grow_segments (GpuPool               *pool,
               const GpuPoolRequest  *request,
               GError               **error)
{
  gsize needed = gpu_pool_bytes (pool, (guint64) request->units + request->align - 1)
                 + pool->config.slack;
  gsize max = pool->config.max_segment_size;
  GpuPoolNode *node = save_memory (pool, request, needed);
  guint64 room = get_room (pool);
  GpuPoolSegment segment;

  if (node != NULL)
    return node;

  if (!has_id (pool))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
                   "the pool has the maximum of %d areas",
                   GPU_POOL_MAX_AREAS);
      return NULL;
    }

  if (needed > room)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
                   "growth by %" G_GSIZE_FORMAT " bytes would exceed the limit", needed);
      return NULL;
    }

  if (max != 0 && needed > max)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY,
                   "the device allows at most %" G_GSIZE_FORMAT " bytes per allocation", max);
      return NULL;
    }

  if (!alloc_segment (pool, needed, choose_size (pool, needed, room), room, &segment, error))
    return NULL;

  return add_segment (pool, &segment, request);
}

/* Finds an area that is entirely free and whose use has completed. Marks its node busy. */
static GpuPoolArea *
take_empty_area (GpuPool *pool)
{
  for (guint id = 0; id < pool->n_areas; id++)
    {
      GpuPoolArea *area = pool->areas[id];

      if (area != NULL && area->first->units == area->units
          && gpu_pool_node_state (area->first) == GPU_POOL_NODE_FREE
          && _gpu_pool_heap_is_completed (pool, area->first->use))
        {
          _gpu_pool_heap_remove (pool, area->first);
          return area;
        }
    }

  return NULL;
}

static gboolean
free_empty_area (GpuPool *pool,
                 guint64  keep)
{
  GpuPoolArea *area = NULL;
  GpuPoolSegment segment;

  _gpu_pool_lock (&pool->lock);
  if (pool->stats.managed_bytes > keep)
    area = take_empty_area (pool);
  if (area != NULL)
    {
      segment = area->segment;
      _gpu_pool_count_managed (pool, -(gint64) (segment.size + segment.lost));
      _gpu_pool_heap_remove_area (pool, area);
    }
  _gpu_pool_unlock_and_destroy (pool);

  if (area == NULL)
    return FALSE;

  pool->ops.free_segment (pool->owner, &segment);

  return TRUE;
}

GpuPoolNode *
_gpu_pool_grow (GpuPool               *pool,
                const GpuPoolRequest  *request,
                GError               **error)
{
  g_auto (GpuMark) mark = { NULL, };

  if (G_UNLIKELY (_gpu_debug_has (GPU_DEBUG_MARKS)))
    mark = _gpu_mark_begin ("pool growth", gpu_pool_bytes (pool, request->units));

  if (pool->chunks != NULL)
    return _gpu_pool_chunks_grow (pool, request, error);

  return grow_segments (pool, request, error);
}

gboolean
_gpu_pool_shrink (GpuPool *pool,
                  guint64  keep)
{
  gboolean any = FALSE;

  if (gpu_pool_is_frozen (pool))
    return FALSE;

  if (pool->chunks != NULL)
    return _gpu_pool_chunks_shrink (pool, keep);

  while (free_empty_area (pool, keep))
    any = TRUE;

  return any;
}

/* Frees all segments, including memory with pending uses. */
void
_gpu_pool_segments_free (GpuPool *pool)
{
  for (guint id = 0; id < pool->n_areas; id++)
    if (pool->areas[id] != NULL)
      {
        if (pool->chunks == NULL)
          pool->ops.free_segment (pool->owner, &pool->areas[id]->segment);
        g_free (pool->areas[id]);
      }
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Snapshots of the layout of a pool's memory. */
#include "config.h"

#include "gpumem/pool/gpu-memory-pool-private.h"

typedef struct
{
  guint64      address;
  gsize        size;                /* bytes */
  gsize        requested;           /* requested bytes; only for active blocks */
  GpuPoolState state;
  guint32      stream;              /* number of the stream, from 1; 0 for none */
  guint64      segment;             /* address of the segment */
} Part;

typedef struct
{
  GArray     *parts;                /* of Part */
  GHashTable *streams;              /* stream numbers by key */
} Collection;

static void
add_block (gpointer              data,
           const GpuPoolSegment *segment,
           guint64               address,
           gsize                 size,
           gsize                 requested,
           GpuPoolState          state,
           gpointer              key)
{
  Collection *collection = data;
  const Part part = { address, size, requested, state,
                      _gpu_pool_streams_get_number (collection->streams, key), segment->address };

  g_array_append_val (collection->parts, part);
}

/* Adds an item as a segment of its own. The address of the segment is the handle of the
 * allocation. */
static void
add_item (gpointer           data,
          const GpuPoolItem *item,
          gsize              capacity,
          gsize              requested,
          GpuPoolState       state)
{
  Collection *collection = data;
  guint64 handle = _gpu_pool_item_get_handle (item);
  const Part part = { handle, capacity, requested, state, 0, handle };

  g_array_append_val (collection->parts, part);
}

static const char *
get_state_name (GpuPoolState state)
{
  switch (state)
    {
    case GPU_POOL_ACTIVE:
      return "active";
    case GPU_POOL_CACHED:
      return "cached";
    case GPU_POOL_PENDING:
      return "pending";
    case GPU_POOL_UNMAPPED:
      return "unmapped";
    case GPU_POOL_FREE:
    default:
      return "held";
    }
}

static GVariant *
describe_block (const Part *part)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "state", "s", get_state_name (part->state));
  g_variant_dict_insert (&dict, "size", "t", (guint64) part->size);

  if (part->state == GPU_POOL_ACTIVE)
    g_variant_dict_insert (&dict, "requested", "t", (guint64) part->requested);

  if (part->stream != 0)
    g_variant_dict_insert (&dict, "stream", "u", part->stream);

  return g_variant_dict_end (&dict);
}

/* Describes the segment that begins with the part at @i, and advances @i past the parts of this
 * segment. */
static GVariant *
describe_segment (GArray *parts,
                  guint  *i)
{
  guint64 segment = g_array_index (parts, Part, *i).segment;
  GVariantBuilder blocks;
  GVariantDict dict;

  g_variant_builder_init (&blocks, G_VARIANT_TYPE ("aa{sv}"));

  for (; *i < parts->len && g_array_index (parts, Part, *i).segment == segment; (*i)++)
    g_variant_builder_add_value (&blocks, describe_block (&g_array_index (parts, Part, *i)));

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "address", "t", segment);
  g_variant_dict_insert_value (&dict, "blocks", g_variant_builder_end (&blocks));

  return g_variant_dict_end (&dict);
}

/**
 * gpu_memory_pool_snapshot:
 * @pool: a #GpuMemoryPool
 *
 * Gets the layout of the memory of the pool as an array of segments. Each segment has an `address`,
 * of type t, and `blocks`, of type aa{sv}. The blocks of a segment are adjacent and in order of
 * address. If the driver reports no addresses, the pool assigns artificial addresses. In pools of
 * kind %GPU_MEMORY_POOL_BINS, `address` is the driver's handle of the allocation. A block has
 *
 * - `state`, s: "active", "pending" (freed, but work may still use it), "held" (free), "cached" (in
 *   the cache of a thread) or "unmapped" (addresses without memory)
 * - `size`, t: bytes
 * - `requested`, t, for active blocks only: bytes requested
 * - `stream`, u, for pending blocks only, except in pools of kind %GPU_MEMORY_POOL_BINS: the
 *   number, from 1, of the stream that may still use the block
 *
 * `gpumem pool` converts snapshots to files for viewers. While the snapshot is taken, other threads
 * that use the pool have to wait.
 *
 * Returns: (transfer full): the segments, an array of type aa{sv}
 *
 * Since: 0.1
 */
GVariant *
gpu_memory_pool_snapshot (GpuMemoryPool *pool)
{
  g_autoptr (GArray) parts = g_array_new (FALSE, FALSE, sizeof (Part));
  g_autoptr (GHashTable) streams = NULL;
  Collection collection = { parts, NULL };
  GVariantBuilder segments;

  g_return_val_if_fail (GPU_IS_MEMORY_POOL (pool), NULL);

  streams = pool->core != NULL ? _gpu_pool_core_list_streams (pool->core) : NULL;
  collection.streams = streams;

  if (pool->core != NULL && pool->core->bins != NULL)
    _gpu_pool_bins_visit (pool->core->bins, add_item, &collection);
  else if (pool->core != NULL)
    _gpu_pool_visit (pool->core->pool, add_block, &collection);

  g_variant_builder_init (&segments, G_VARIANT_TYPE ("aa{sv}"));

  for (guint i = 0; i < parts->len;)
    g_variant_builder_add_value (&segments, describe_segment (parts, &i));

  return g_variant_ref_sink (g_variant_builder_end (&segments));
}

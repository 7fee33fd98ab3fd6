/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/command/gpu-command-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/format/gpu-region-private.h"
#include "gpumem/gpumem-bindings.h"
#include "gpumem/memory/gpu-image-private.h"

/**
 * SECTION:gpu-mapping
 * @title: GpuMapping
 * @short_description: Device memory in the address space of the host
 * @see_also: #GpuStream, #GpuBuffer, #GpuImage, #GpuSvm
 */

/* A mapped range, shared by the GpuMapping and the bytes of gpu_mapping_get_bytes(). Dropping the
 * last reference unmaps the range. */
typedef struct
{
  gatomicrefcount  refs;
  GMutex           lock;            /* prevents range_take() from clearing `data` while range_ref()
                                     * adds a reference */
  GpuTimeline     *timeline;
  GpuStorage      *storage;         /* in use while the range is mapped; NULL once unmapped */
  gpointer         data;            /* atomic; NULL once unmapped */
  gsize            offset;          /* from the start of the memory of `storage->root` */
  gsize            size;
  gboolean         write;
  gsize            row_pitch;       /* of an image; 0 for a buffer */
  gsize            slice_pitch;
  GpuExtent        extent;          /* texels of an image; bytes of a buffer, in one row */
  gsize            mapped_size;     /* bytes from `data` on; differs from `size` for images */
} MappedRange;

/**
 * GpuMapping:
 *
 * A range of device memory that the host can read or write in place.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuMapping) mapping = NULL;
 *
 * mapping = gpu_buffer_map (buffer, stream, GPU_MAP_FLAGS_WRITE, 0, size, NULL, &error);
 *
 * if (mapping == NULL)
 *   g_error ("%s", error->message);
 *
 * memcpy (gpu_mapping_get_data (mapping), data, size);
 * gpu_mapping_unmap (mapping, &error);
 * ]|
 *
 * The range stays mapped until gpu_mapping_unmap() is called, or until the mapping and all bytes of
 * gpu_mapping_get_bytes() are finalized. The memory is unmapped on the stream that mapped it.
 *
 * While a range is mapped for writing, work that reads or writes the range fails with
 * %GPU_ERROR_BUSY, and the range cannot be mapped again. While a range is mapped for reading, only
 * work that writes the range fails, and the range can be mapped again for reading. The range of an
 * image region extends from the first texel of the region to the last, and includes all texels
 * between them, even texels outside the region. Work that fails for this reason changes nothing,
 * unless another thread maps the range during the call. These checks do not apply to memory with
 * %GPU_MEMORY_FLAGS_UNTRACKED.
 *
 * All methods may be called from any thread.
 *
 * Since: 0.1
 */
struct _GpuMapping
{
  GObject       parent_instance;

  GpuMemory    *memory;
  GpuMapFlags   flags;
  MappedRange  *range;              /* NULL if initialization failed */
};

enum
{
  PROP_0,
  PROP_MEMORY,
  PROP_FLAGS,
  PROP_SIZE,
  PROP_ADDRESS,
  PROP_MAPPED,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

G_DEFINE_FINAL_TYPE (GpuMapping, gpu_mapping, G_TYPE_OBJECT)

typedef struct
{
  GpuStorage *storage;
  gpointer    data;
} UnmapOperation;

static gboolean
run_unmap (gconstpointer     operation,
           GpuNativeStream  *stream,
           GpuNativeEvent  **event,
           GError          **error)
{
  const UnmapOperation *unmap = operation;

  return stream->backend->memory->unmap (stream, unmap->storage->buffer, unmap->data, event,
                                         error);
}

/* An unmapped range must not count as a user: the memory of the range may then be spilled. */
static void
range_leave (MappedRange *range)
{
  GpuStorage *storage = g_steal_pointer (&range->storage);

  if (storage == NULL)
    return;

  _gpu_storage_unuse (storage);
  _gpu_storage_unref (storage);
}

/* Unmaps @data, which range_take() removed from @range. @pending is nullable. */
static gboolean
range_unmap (MappedRange  *range,
             gpointer      data,
             GpuPending   *pending,
             GError      **error)
{
  const UnmapOperation unmap = { range->storage, data };
  GpuAccess access = { NULL, range->write, range->offset - range->storage->offset, range->size,
                       range->storage };
  const GpuSubmission submission = { .function = "gpu_mapping_unmap", .accesses = &access,
                                     .n_accesses = 1, .unmaps = TRUE, .run = run_unmap,
                                     .operation = &unmap };
  gboolean success = _gpu_submit (range->timeline, &submission, pending, error);

  _gpu_storage_unmap (range->storage->root, range->offset, range->size, range->write);
  range_leave (range);

  return success;
}

/* Adds a reference, which keeps the range mapped, and returns the address of the range. Returns
 * NULL if the range is unmapped. */
static gpointer
range_ref (MappedRange *range)
{
  gpointer data;

  g_mutex_lock (&range->lock);
  data = range->data;

  if (data != NULL)
    g_atomic_ref_count_inc (&range->refs);

  g_mutex_unlock (&range->lock);

  return data;
}

/* Moves the mapped address from @range to @data, or sets @data to NULL if the range is already
 * unmapped. Returns FALSE if a GBytes or another thread holds a reference to @range. */
static gboolean
range_take (MappedRange *range,
            gpointer    *data)
{
  gboolean is_free;

  g_mutex_lock (&range->lock);
  is_free = g_atomic_ref_count_compare (&range->refs, 1);
  *data = NULL;

  if (is_free)
    {
      *data = range->data;
      g_atomic_pointer_set (&range->data, NULL);
    }

  g_mutex_unlock (&range->lock);

  return is_free;
}

static void
range_unref (gpointer data)
{
  MappedRange *range = data;

  if (!g_atomic_ref_count_dec (&range->refs))
    return;

  if (range->data != NULL)
    range_unmap (range, range->data, NULL, NULL);

  range_leave (range);
  _gpu_timeline_unuse (range->timeline);
  _gpu_timeline_unref (range->timeline);
  g_mutex_clear (&range->lock);
  g_free (range);
}

static MappedRange *
range_new (GpuTimeline *timeline,
           GpuStorage  *storage,
           gsize        offset,
           gsize        size,
           gboolean     write)
{
  MappedRange *range = g_new0 (MappedRange, 1);

  g_atomic_ref_count_init (&range->refs);
  g_mutex_init (&range->lock);
  range->timeline = _gpu_timeline_ref (timeline);
  _gpu_timeline_use (timeline);
  range->storage = _gpu_storage_ref (storage);
  range->offset = storage->offset + offset;
  range->size = size;
  range->extent = (GpuExtent) { size, 1, 1 };
  range->mapped_size = size;
  range->write = write;

  return range;
}

static void
gpu_mapping_get_property (GObject    *object,
                          guint       id,
                          GValue     *value,
                          GParamSpec *pspec)
{
  GpuMapping *mapping = GPU_MAPPING (object);

  switch (id)
    {
    case PROP_MEMORY:
      g_value_set_object (value, mapping->memory);
      break;
    case PROP_FLAGS:
      g_value_set_flags (value, mapping->flags);
      break;
    case PROP_SIZE:
      g_value_set_uint64 (value, gpu_mapping_get_size (mapping));
      break;
    case PROP_ADDRESS:
      g_value_set_uint64 (value, gpu_mapping_get_address (mapping));
      break;
    case PROP_MAPPED:
      g_value_set_boolean (value, gpu_mapping_get_data (mapping) != NULL);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_mapping_finalize (GObject *object)
{
  GpuMapping *mapping = GPU_MAPPING (object);

  g_clear_pointer (&mapping->range, range_unref);
  g_clear_object (&mapping->memory);
  _gpu_live_add (GPU_LIVE_MAPPING, -1);

  G_OBJECT_CLASS (gpu_mapping_parent_class)->finalize (object);
}

static void
gpu_mapping_class_init (GpuMappingClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  object_class->get_property = gpu_mapping_get_property;
  object_class->finalize = gpu_mapping_finalize;

  /**
   * GpuMapping:memory:
   *
   * The mapped memory.
   *
   * Since: 0.1
   */
  props[PROP_MEMORY] = g_param_spec_object ("memory", NULL, NULL, GPU_TYPE_MEMORY, flags);
  /**
   * GpuMapping:flags:
   *
   * The intended access of the host.
   *
   * Since: 0.1
   */
  props[PROP_FLAGS] = g_param_spec_flags ("flags", NULL, NULL, GPU_TYPE_MAP_FLAGS,
                                          GPU_MAP_FLAGS_NONE, flags);
  /**
   * GpuMapping:size:
   *
   * The size of the mapped range in bytes.
   *
   * Since: 0.1
   */
  props[PROP_SIZE] = g_param_spec_uint64 ("size", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * GpuMapping:address:
   *
   * The address of the mapped range, or 0 once it is unmapped.
   *
   * Since: 0.1
   */
  props[PROP_ADDRESS] = g_param_spec_uint64 ("address", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * GpuMapping:mapped:
   *
   * Whether the range is still mapped. Other properties, such as #GpuMapping:address, change at the
   * same time without a #GObject::notify of their own.
   *
   * Since: 0.1
   */
  props[PROP_MAPPED] = g_param_spec_boolean ("mapped", NULL, NULL, FALSE, flags);

  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_mapping_init (GpuMapping *mapping)
{
  _gpu_live_add (GPU_LIVE_MAPPING, 1);
}

typedef struct
{
  GpuMemory           *memory;
  GpuMapFlags          flags;
  gsize                offset;
  gsize                size;
  const GpuRegionSide *side;        /* origin of the region of an image; NULL for a buffer */
  const GpuExtent     *extent;
  gboolean             write;
  MappedRange         *range;
} MapOperation;

static gpointer
map_image (const MapOperation  *map,
           GpuNativeStream     *stream,
           GpuNativeEvent     **event,
           GError             **error)
{
  MappedRange *range = map->range;
  GpuNativeImage *image = (GpuNativeImage *) range->storage->buffer;
  GpuExtent bytes = *map->extent;
  GpuRegionSide side = { .offset = 0 };
  gpointer data;

  data = stream->backend->image->map (stream, image, map->flags, map->side, map->extent,
                                      &side.row_pitch, &side.slice_pitch, event, error);

  bytes.width *= image->description.texel_size;
  range->row_pitch = side.row_pitch;
  range->slice_pitch = side.slice_pitch;
  range->extent = *map->extent;
  range->mapped_size = _gpu_region_get_end (&side, &bytes);

  return data;
}

/* For exclusive memory, always maps the native buffer of the root: even if the mapped object only
 * wraps the memory, the back end must acquire the memory itself for the host. */
static gpointer
map_buffer (const MapOperation  *map,
            GpuNativeStream     *stream,
            GpuNativeEvent     **event,
            GError             **error)
{
  MappedRange *range = map->range;
  GpuStorage *root = range->storage->root;

  if (root->is_exclusive)
    return stream->backend->buffer->map (stream, root->buffer, map->flags, range->offset,
                                         map->size, event, error);

  return stream->backend->buffer->map (stream, range->storage->buffer, map->flags, map->offset,
                                       map->size, event, error);
}

static gboolean
run_map (gconstpointer     operation,
         GpuNativeStream  *stream,
         GpuNativeEvent  **event,
         GError          **error)
{
  const MapOperation *map = operation;
  MappedRange *range = map->range;

  if (map->side != NULL)
    range->data = map_image (map, stream, event, error);
  else
    range->data = map_buffer (map, stream, event, error);

  if (range->data == NULL)
    return FALSE;

  _gpu_storage_map_locked (range->storage->root, range->offset, range->size, range->write);

  return TRUE;
}

static gboolean
check_map (const char        *function,
           GpuTimeline       *timeline,
           const MapOperation *map,
           GError           **error)
{
  const GpuMapFlags known = GPU_MAP_FLAGS_READ | GPU_MAP_FLAGS_WRITE
                            | GPU_MAP_FLAGS_WRITE_INVALIDATE;

  const GpuBackend *backend = timeline->context->backend;

  if (map->side != NULL ? backend->image == NULL || backend->image->map == NULL
                        : backend->buffer->map == NULL)
    return _gpu_backend_fail (backend, function, "mappings of this memory", error);

  if ((map->flags & ~known) != 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: unknown map flags 0x%x",
                   function, map->flags & ~known);
      return FALSE;
    }

  if ((map->flags & GPU_MAP_FLAGS_WRITE_INVALIDATE) != 0
      && map->flags != GPU_MAP_FLAGS_WRITE_INVALIDATE)
    {
      g_autofree char *text = _gpu_flags_get_nicks (GPU_TYPE_MAP_FLAGS, map->flags);

      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: the map flags %s cannot be combined", function, text);
      return FALSE;
    }

  if (map->size == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: cannot map 0 bytes at offset %" G_GSIZE_FORMAT, function, map->offset);
      return FALSE;
    }

  /* For an image, the caller has already checked the region in texels. A check in bytes could fail
   * wrongly, because the size of the memory does not include the padding of rows. */
  return (map->side != NULL
          || _gpu_memory_check_range (map->memory, function, "memory", map->offset, map->size,
                                      error))
         && ((map->flags & GPU_MAP_FLAGS_READ) == 0
             || _gpu_memory_check_host (map->memory, function, FALSE, error))
         && (!map->write || _gpu_memory_check_host (map->memory, function, TRUE, error));
}

static GpuMapping *
submit_map (GpuTimeline   *timeline,
            const char    *function,
            MapOperation  *map,
            GError       **error)
{
  GpuAccess access = { map->memory, FALSE, map->offset, map->size };
  GpuSubmission submission = { .function = function, .accesses = &access, .n_accesses = 1,
                               .maps = TRUE, .run = run_map, .operation = map };
  GpuMapping *mapping;

  if (map->flags == GPU_MAP_FLAGS_NONE)
    map->flags = GPU_MAP_FLAGS_READ | GPU_MAP_FLAGS_WRITE;

  map->write = access.write = map->flags != GPU_MAP_FLAGS_READ;
  submission.reads = (map->flags & GPU_MAP_FLAGS_READ) != 0;

  if (!check_map (function, timeline, map, error)
      || _gpu_memory_acquire (map->memory, function, error) == NULL)
    return NULL;

  map->range = range_new (timeline, map->memory->storage, map->offset, map->size, map->write);

  if (!_gpu_submit (timeline, &submission, NULL, error))
    {
      range_unref (map->range);
      return NULL;
    }

  mapping = g_object_new (GPU_TYPE_MAPPING, NULL);
  mapping->memory = g_object_ref (map->memory);
  mapping->flags = map->flags;
  mapping->range = map->range;

  return mapping;
}

GpuMapping *
_gpu_timeline_map (GpuTimeline  *timeline,
                   const char   *function,
                   GpuMemory    *memory,
                   GpuMapFlags   flags,
                   gsize         offset,
                   gsize         size,
                   GError      **error)
{
  MapOperation map = { .memory = memory, .flags = flags, .offset = offset, .size = size };

  return submit_map (timeline, function, &map, error);
}

GpuMapping *
_gpu_timeline_map_image (GpuTimeline      *timeline,
                         const char       *function,
                         GpuImage         *image,
                         GpuMapFlags       flags,
                         const GpuLayout  *layout,
                         const GpuExtent  *extent,
                         GError          **error)
{
  GpuRegionSide side = { .context = timeline->context };
  MapOperation map = { .memory = GPU_MEMORY (image), .flags = flags, .side = &side,
                       .extent = extent };
  GpuExtent bytes = *extent;

  if (!_gpu_memory_check (map.memory, function, error)
      || !_gpu_image_resolve (image, layout, extent, function, "image", &side, error))
    return NULL;

  if (_gpu_region_is_empty (extent))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: cannot map a region of %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %"
                   G_GSIZE_FORMAT " texels", function, extent->width, extent->height,
                   extent->depth);
      return NULL;
    }

  side.memory = map.memory->storage->buffer;
  bytes.width *= image->description.texel_size;
  map.offset = side.offset;
  map.size = _gpu_region_get_end (&side, &bytes) - side.offset;

  return submit_map (timeline, function, &map, error);
}

/**
 * gpu_stream_map:
 * @stream: a #GpuStream
 * @memory: memory of the stream's context
 * @flags: the intended access of the host
 * @offset: offset of the range in @memory, in bytes
 * @size: size of the range in bytes, not 0
 * @error: return location for an error
 *
 * Maps a range of memory into the address space of the host (OpenCL: clEnqueueMapBuffer; CUDA:
 * page-locked memory, cuMemcpyDtoHAsync). %GPU_MAP_FLAGS_WRITE_INVALIDATE cannot be combined with
 * other flags. Does not block: the host may access the range only after the operation has
 * completed, so wait with gpu_stream_synchronize() or an event first. gpu_buffer_map() maps and
 * waits in one call.
 *
 * Returns: (transfer full): the mapping, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if the range
 *   exceeds the memory, @flags are invalid or the flags of the memory forbid the access,
 *   %GPU_ERROR_BUSY if the range conflicts with another mapping, %GPU_ERROR_RELEASED,
 *   %GPU_ERROR_NOT_SUPPORTED, the error of the last write of the memory if that failed and @flags
 *   has %GPU_MAP_FLAGS_READ, or the driver's error
 *
 * Since: 0.1
 */
GpuMapping *
gpu_stream_map (GpuStream    *stream,
                GpuMemory    *memory,
                GpuMapFlags   flags,
                gsize         offset,
                gsize         size,
                GError      **error)
{
  GpuTimeline *timeline;

  g_return_val_if_fail (GPU_IS_STREAM (stream), NULL);
  g_return_val_if_fail (GPU_IS_MEMORY (memory), NULL);

  timeline = _gpu_stream_get_timeline (stream, "gpu_stream_map", error);

  if (timeline == NULL)
    return NULL;

  return _gpu_timeline_map (timeline, "gpu_stream_map", memory, flags, offset, size, error);
}

/**
 * gpu_mapping_get_data: (skip)
 * @mapping: a #GpuMapping
 *
 * Gets the address of the mapped range. The pointer is valid until @mapping is unmapped.
 *
 * Returns: (nullable): the first byte, or %NULL once the range is unmapped
 *
 * Since: 0.1
 */
gpointer
gpu_mapping_get_data (GpuMapping *mapping)
{
  g_return_val_if_fail (GPU_IS_MAPPING (mapping), NULL);

  return mapping->range != NULL ? g_atomic_pointer_get (&mapping->range->data) : NULL;
}

/**
 * gpu_mapping_get_address:
 * @mapping: a #GpuMapping
 *
 * Gets the address of the mapped range as a number, for languages without pointers. The address is
 * valid until @mapping is unmapped.
 *
 * Returns: the address, or 0 once the range is unmapped
 *
 * Since: 0.1
 */
guint64
gpu_mapping_get_address (GpuMapping *mapping)
{
  return (guint64) (guintptr) gpu_mapping_get_data (mapping);
}

/**
 * gpu_mapping_get_size:
 * @mapping: a #GpuMapping
 *
 * Gets the size of the mapped range.
 *
 * Returns: the size in bytes
 *
 * Since: 0.1
 */
gsize
gpu_mapping_get_size (GpuMapping *mapping)
{
  g_return_val_if_fail (GPU_IS_MAPPING (mapping), 0);

  return mapping->range != NULL ? mapping->range->mapped_size : 0;
}

/**
 * gpu_mapping_get_extent:
 * @mapping: a #GpuMapping
 * @extent: (out caller-allocates): return location for the size
 *
 * Gets the extent of the mapping: for an image the texels, rows and slices of the region; for a
 * buffer one row with the bytes of the range.
 *
 * Since: 0.1
 */
void
gpu_mapping_get_extent (GpuMapping *mapping,
                        GpuExtent  *extent)
{
  g_return_if_fail (GPU_IS_MAPPING (mapping));
  g_return_if_fail (extent != NULL);

  *extent = mapping->range != NULL ? mapping->range->extent : (GpuExtent) { 0, 0, 0 };
}

/**
 * gpu_mapping_get_row_pitch:
 * @mapping: a #GpuMapping
 *
 * Gets the distance between two rows in the mapped range. For an image the driver chooses the
 * distance. For a buffer created with gpu_buffer_new_pitched() it is the row pitch of the buffer;
 * for any other buffer it is the size of the range.
 *
 * Returns: the pitch in bytes
 *
 * Since: 0.1
 */
gsize
gpu_mapping_get_row_pitch (GpuMapping *mapping)
{
  gsize pitch = 0;

  g_return_val_if_fail (GPU_IS_MAPPING (mapping), 0);

  if (GPU_IS_BUFFER (mapping->memory))
    pitch = gpu_buffer_get_row_pitch (GPU_BUFFER (mapping->memory));
  else if (mapping->range != NULL)
    pitch = mapping->range->row_pitch;

  return pitch != 0 ? pitch : gpu_mapping_get_size (mapping);
}

/**
 * gpu_mapping_get_slice_pitch:
 * @mapping: a #GpuMapping
 *
 * Gets the distance between two slices, or layers, in the mapped range. For an image the driver
 * chooses the distance. A buffer has one slice, and the distance is the size of the range.
 *
 * Returns: the pitch in bytes
 *
 * Since: 0.1
 */
gsize
gpu_mapping_get_slice_pitch (GpuMapping *mapping)
{
  g_return_val_if_fail (GPU_IS_MAPPING (mapping), 0);

  if (mapping->range != NULL && mapping->range->slice_pitch != 0)
    return mapping->range->slice_pitch;

  return gpu_mapping_get_size (mapping);
}

/**
 * gpu_mapping_get_bytes:
 * @mapping: a #GpuMapping
 *
 * Gets the mapped range as bytes, without copying it. The range stays mapped as long as the bytes
 * exist, even after @mapping is finalized. The bytes change when the range is written.
 *
 * Returns: (transfer full) (nullable): the bytes, or %NULL once the range is unmapped
 *
 * Since: 0.1
 */
GBytes *
gpu_mapping_get_bytes (GpuMapping *mapping)
{
  gpointer data;

  g_return_val_if_fail (GPU_IS_MAPPING (mapping), NULL);

  data = mapping->range != NULL ? range_ref (mapping->range) : NULL;

  if (data == NULL)
    return NULL;

  return g_bytes_new_with_free_func (data, mapping->range->mapped_size, range_unref,
                                     mapping->range);
}

/* Returns the address of @offset and adds a reference to the range. Returns NULL with an error if
 * the range has less than @size bytes from @offset on, or is unmapped. */
static gpointer
ref_range (GpuMapping  *mapping,
           const char  *function,
           gsize        offset,
           gsize        size,
           GError     **error)
{
  MappedRange *range = mapping->range;
  guint8 *data = range != NULL ? range_ref (range) : NULL;

  if (data == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_RELEASED,
                   "%s: the mapping is unmapped; map the memory again", function);
      return NULL;
    }

  if (offset <= range->mapped_size && size <= range->mapped_size - offset)
    return data + offset;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: offset %" G_GSIZE_FORMAT " + size %" G_GSIZE_FORMAT " exceeds the %"
               G_GSIZE_FORMAT " bytes of the mapping", function, offset, size, range->mapped_size);
  range_unref (range);

  return NULL;
}

/**
 * gpu_mapping_read_bytes:
 * @mapping: a #GpuMapping
 * @offset: offset within the mapped range, in bytes
 * @size: the number of bytes
 * @error: return location for an error
 *
 * Copies a part of the mapped range, for languages without pointers. Unlike the bytes of
 * gpu_mapping_get_bytes(), the copy does not keep the range mapped.
 *
 * Returns: (transfer full): the bytes, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if the part
 *   exceeds the range, %GPU_ERROR_RELEASED once the range is unmapped, or
 *   %GPU_ERROR_OUT_OF_HOST_MEMORY
 *
 * Since: 0.1
 */
GBytes *
gpu_mapping_read_bytes (GpuMapping  *mapping,
                        gsize        offset,
                        gsize        size,
                        GError     **error)
{
  const char *function = "gpu_mapping_read_bytes";
  gconstpointer mapped;
  GBytes *bytes;
  gpointer data;

  g_return_val_if_fail (GPU_IS_MAPPING (mapping), NULL);

  mapped = ref_range (mapping, function, offset, size, error);

  if (mapped == NULL)
    return NULL;

  bytes = _gpu_bytes_new (size, function, &data, error);

  if (bytes != NULL)
    memcpy (data, mapped, size);

  range_unref (mapping->range);

  return bytes;
}

/**
 * gpu_mapping_write_bytes:
 * @mapping: a #GpuMapping
 * @offset: offset within the mapped range, in bytes
 * @bytes: the bytes to write
 * @error: return location for an error
 *
 * Copies @bytes into a part of the mapped range, for languages without pointers.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_INVALID_ARGUMENT if the part exceeds the range or the
 *   range is not mapped for writing, or %GPU_ERROR_RELEASED once the range is unmapped
 *
 * Since: 0.1
 */
gboolean
gpu_mapping_write_bytes (GpuMapping  *mapping,
                         gsize        offset,
                         GBytes      *bytes,
                         GError     **error)
{
  const char *function = "gpu_mapping_write_bytes";
  gpointer mapped;
  gconstpointer data;
  gboolean writable;
  gsize size;

  g_return_val_if_fail (GPU_IS_MAPPING (mapping), FALSE);
  g_return_val_if_fail (bytes != NULL, FALSE);

  data = g_bytes_get_data (bytes, &size);
  mapped = ref_range (mapping, function, offset, size, error);

  if (mapped == NULL)
    return FALSE;

  writable = mapping->range->write;

  if (!writable)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: the %" G_GSIZE_FORMAT " bytes are mapped for reading only; "
                 "map them with GPU_MAP_FLAGS_WRITE", function, mapping->range->mapped_size);
  else if (size > 0)
    memcpy (mapped, data, size);

  range_unref (mapping->range);

  return writable;
}

gboolean
_gpu_mapping_unmap (GpuMapping  *mapping,
                    GpuPending  *pending,
                    GError     **error)
{
  gboolean success;
  gpointer data;

  if (mapping->range == NULL)
    return TRUE;

  if (!range_take (mapping->range, &data))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_BUSY,
                   "gpu_mapping_unmap: the mapping of %" G_GSIZE_FORMAT
                   " bytes is in use by bytes or by another thread", mapping->range->mapped_size);
      return FALSE;
    }

  if (data == NULL)
    return TRUE;

  success = range_unmap (mapping->range, data, pending, error);
  g_object_notify_by_pspec (G_OBJECT (mapping), props[PROP_MAPPED]);

  return success;
}

/**
 * gpu_mapping_unmap:
 * @mapping: a #GpuMapping
 * @error: return location for an error
 *
 * Unmaps the range (OpenCL: clEnqueueUnmapMemObject; CUDA: cuMemcpyHtoDAsync) on the stream that
 * mapped it. Work that is submitted later, on any stream, sees the writes of the host. Unmapping
 * again does nothing. Does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_BUSY if bytes from gpu_mapping_get_bytes() exist or
 *   another thread is copying from or to @mapping, or with the driver's error, after which @mapping
 *   is nevertheless unmapped
 *
 * Since: 0.1
 */
gboolean
gpu_mapping_unmap (GpuMapping  *mapping,
                   GError     **error)
{
  g_return_val_if_fail (GPU_IS_MAPPING (mapping), FALSE);

  return _gpu_mapping_unmap (mapping, NULL, error);
}

GpuMapFlags
_gpu_binding_get_map_flags (GpuMapping *mapping)
{
  return mapping->flags;
}

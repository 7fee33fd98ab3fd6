/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An image consists of rows of texels in memory of the process, one mip level after the other.
 * Images that use the memory of other objects, such as mip levels, have a borrowed buffer.
 */
#include "config.h"

#include <string.h>

#include "gpumem/format/gpu-image-type-private.h"
#include "gpumem/format/gpu-region-private.h"
#include "gpumem/format/gpu-texel-private.h"
#include "gpumem/host/gpu-host.h"

#define BIT(type) (1u << (type))

#define NORMALIZED_8  (BIT (GPU_CHANNEL_TYPE_UNORM8) | BIT (GPU_CHANNEL_TYPE_SNORM8))
#define NORMALIZED_16 (BIT (GPU_CHANNEL_TYPE_UNORM16) | BIT (GPU_CHANNEL_TYPE_SNORM16))
#define INTEGER_8     (BIT (GPU_CHANNEL_TYPE_UINT8) | BIT (GPU_CHANNEL_TYPE_INT8))
#define INTEGERS      (INTEGER_8 | BIT (GPU_CHANNEL_TYPE_UINT16) | BIT (GPU_CHANNEL_TYPE_INT16) \
                       | BIT (GPU_CHANNEL_TYPE_UINT32) | BIT (GPU_CHANNEL_TYPE_INT32))
#define FLOATS        (BIT (GPU_CHANNEL_TYPE_FLOAT16) | BIT (GPU_CHANNEL_TYPE_FLOAT32))
#define REALS         (NORMALIZED_8 | NORMALIZED_16 | FLOATS)
#define PACKED        (BIT (GPU_CHANNEL_TYPE_UNORM_565) | BIT (GPU_CHANNEL_TYPE_UNORM_555) \
                       | BIT (GPU_CHANNEL_TYPE_UNORM_101010))

/* The channel types that OpenCL allows for each channel order. */
static const guint types_of_order[] =
{
  [GPU_CHANNEL_ORDER_R]         = REALS | INTEGERS,
  [GPU_CHANNEL_ORDER_A]         = REALS | INTEGERS,
  [GPU_CHANNEL_ORDER_RG]        = REALS | INTEGERS,
  [GPU_CHANNEL_ORDER_RA]        = REALS | INTEGERS,
  [GPU_CHANNEL_ORDER_RGB]       = PACKED,
  [GPU_CHANNEL_ORDER_RGBA]      = REALS | INTEGERS,
  [GPU_CHANNEL_ORDER_BGRA]      = NORMALIZED_8 | INTEGER_8,
  [GPU_CHANNEL_ORDER_ARGB]      = NORMALIZED_8 | INTEGER_8,
  [GPU_CHANNEL_ORDER_ABGR]      = NORMALIZED_8 | INTEGER_8,
  [GPU_CHANNEL_ORDER_INTENSITY] = REALS,
  [GPU_CHANNEL_ORDER_LUMINANCE] = REALS,
  [GPU_CHANNEL_ORDER_DEPTH]     = BIT (GPU_CHANNEL_TYPE_UNORM16) | BIT (GPU_CHANNEL_TYPE_FLOAT32),
  [GPU_CHANNEL_ORDER_SRGBA]     = BIT (GPU_CHANNEL_TYPE_UNORM8),
  [GPU_CHANNEL_ORDER_SBGRA]     = BIT (GPU_CHANNEL_TYPE_UNORM8)
};

typedef struct
{
  GpuHostOperation  parent;
  guint8           *data;           /* address of the first texel */
  gsize             row_pitch;
  gsize             slice_pitch;
  GpuExtent         extent;
  gsize             texel_size;
  guint8            texel[GPU_TEXEL_SIZE_MAX];
} GpuHostFillImage;

/* --- supported formats ------------------------------------------------------------------------ */

static gboolean
has_order (GpuImageType    type,
           GpuChannelOrder order)
{
  return order != GPU_CHANNEL_ORDER_DEPTH || type == GPU_IMAGE_TYPE_IMAGE_2D
         || type == GPU_IMAGE_TYPE_IMAGE_2D_ARRAY;
}

static gboolean
host_image_list_formats (GpuNativeContext  *context G_GNUC_UNUSED,
                         GpuMemoryFlags     flags G_GNUC_UNUSED,
                         GpuImageType       type,
                         GArray            *formats,
                         GError           **error G_GNUC_UNUSED)
{
  for (guint order = 0; order < GPU_HOST_N_CHANNEL_ORDERS; order++)
    {
      for (guint i = 0; i < GPU_HOST_N_CHANNEL_TYPES; i++)
        {
          const GpuImageFormat format = { order, i };

          if ((types_of_order[order] & BIT (i)) != 0 && has_order (type, order))
            g_array_append_val (formats, format);
        }
    }

  return TRUE;
}

static void
host_image_get_max_extent (GpuNativeContext *context G_GNUC_UNUSED,
                           GpuImageType      type,
                           GpuExtent        *extent)
{
  guint n_sizes = _gpu_image_type_get_n_dimensions (type) + _gpu_image_type_has_layers (type);

  extent->width = type == GPU_IMAGE_TYPE_IMAGE_1D_BUFFER ? GPU_HOST_IMAGE_MAX_BUFFER_SIZE
                                                         : GPU_HOST_IMAGE_MAX_SIZE;
  extent->height = n_sizes > 1 ? GPU_HOST_IMAGE_MAX_SIZE : 1;
  extent->depth = n_sizes > 2 ? GPU_HOST_IMAGE_MAX_SIZE : 1;

  if (type == GPU_IMAGE_TYPE_CUBEMAP)
    extent->depth = 6;
}

/* --- creation --------------------------------------------------------------------------------- */

/* Returns the channel type that a kernel reads from channels of @type. */
static GpuChannelType
get_read_type (GpuChannelType type,
               GpuReadMode    mode)
{
  static const struct
  {
    GpuChannelType normalized;
    GpuChannelType plain;
  }
  pairs[] =
  {
    { GPU_CHANNEL_TYPE_UNORM8, GPU_CHANNEL_TYPE_UINT8 },
    { GPU_CHANNEL_TYPE_UNORM16, GPU_CHANNEL_TYPE_UINT16 },
    { GPU_CHANNEL_TYPE_SNORM8, GPU_CHANNEL_TYPE_INT8 },
    { GPU_CHANNEL_TYPE_SNORM16, GPU_CHANNEL_TYPE_INT16 }
  };

  for (guint i = 0; i < G_N_ELEMENTS (pairs); i++)
    {
      if (mode == GPU_READ_MODE_ELEMENT && pairs[i].normalized == type)
        return pairs[i].plain;
      if (mode == GPU_READ_MODE_NORMALIZED && pairs[i].plain == type)
        return pairs[i].normalized;
    }

  return type;
}

static GpuImageFormat
get_read_format (const GpuImageFormat *format,
                 GpuReadMode           mode)
{
  GpuImageFormat read = { format->channel_order, get_read_type (format->channel_type, mode) };

  /* Elements are read without the conversion from sRGB. */
  if (mode == GPU_READ_MODE_ELEMENT && read.channel_order == GPU_CHANNEL_ORDER_SRGBA)
    read.channel_order = GPU_CHANNEL_ORDER_RGBA;
  if (mode == GPU_READ_MODE_ELEMENT && read.channel_order == GPU_CHANNEL_ORDER_SBGRA)
    read.channel_order = GPU_CHANNEL_ORDER_BGRA;

  return read;
}

/* Returns the address of the first texel of a level, and gets the description of the level. */
static guint8 *
get_level (const GpuNativeImage *image,
           guint                 level,
           GpuImageDescription  *description,
           gsize                *row_pitch,
           gsize                *slice_pitch)
{
  gsize offset = 0;

  *description = image->description;
  *row_pitch = image->row_pitch;
  *slice_pitch = image->slice_pitch;

  /* Images with several levels have no padding between rows, slices or levels. */
  if (level > 0)
    {
      _gpu_image_get_size (&image->description, level, &offset);
      description->extent = _gpu_image_get_level_extent (&image->description, level);
      *row_pitch = description->extent.width * description->texel_size;
      *slice_pitch = description->extent.height * *row_pitch;
    }

  description->n_levels = 1;

  return _gpu_host_memory_get_data (&image->base) + offset;
}

/* Prepares the data that every access of a kernel needs. */
static void
fill_levels (GpuHostNativeImage *image)
{
  const GpuImageDescription *description = &image->parent.description;
  GpuHostTexture *texture = &image->texture;

  texture->levels = image->levels;
  texture->n_levels = description->n_levels;
  texture->n_dimensions = _gpu_image_type_get_n_dimensions (description->type);
  texture->has_layers = _gpu_image_type_has_layers (description->type);

  for (guint i = 0; i < G_N_ELEMENTS (texture->formats); i++)
    texture->formats[i] = get_read_format (&description->format, i);

  for (guint i = 0; i < description->n_levels; i++)
    {
      GpuHostLevel *level = &image->levels[i];
      GpuImageDescription part;
      gsize row_pitch;
      gsize slice_pitch;

      level->data = get_level (&image->parent, i, &part, &row_pitch, &slice_pitch);
      level->sizes[0] = (gssize) part.extent.width;
      level->sizes[1] = (gssize) part.extent.height;
      level->sizes[2] = (gssize) part.extent.depth;
      level->pitches[0] = (gssize) part.texel_size;
      level->pitches[1] = (gssize) row_pitch;
      level->pitches[2] = (gssize) slice_pitch;
    }
}

/* Fills the structure that kernels receive. */
static void
fill_view (GpuHostNativeImage *image)
{
  const GpuImageDescription *description = &image->parent.description;
  const GpuExtent *extent = &description->extent;
  guint n_dimensions = _gpu_image_type_get_n_dimensions (description->type);
  GpuHostImage *view = &image->view;

  view->functions = &_gpu_host_image_functions;
  view->width = (int) extent->width;
  view->height = n_dimensions > 1 ? (int) extent->height : 1;
  view->depth = n_dimensions > 2 ? (int) extent->depth : 1;
  view->n_layers = 1;
  view->n_levels = (int) description->n_levels;
  view->channel_order = _gpu_host_channel_orders[description->format.channel_order].number;
  view->channel_type = _gpu_host_channel_types[description->format.channel_type].number;

  if (_gpu_image_type_has_layers (description->type))
    view->n_layers = n_dimensions > 1 ? (int) extent->depth : (int) extent->height;
}

/* Takes ownership of @memory, which begins with the first texel. */
static GpuNativeImage *
image_new (GpuNativeBuffer           *memory,
           const GpuImageDescription *description,
           gsize                      row_pitch,
           gsize                      slice_pitch)
{
  GpuHostNativeImage *image = g_malloc0 (sizeof *image
                                         + description->n_levels * sizeof image->levels[0]);
  GpuNativeImage *native = &image->parent;

  native->base.backend = &_gpu_host_backend;
  native->base.is_image = TRUE;
  native->base.in_place = ((GpuHostBuffer *) memory)->data;
  native->description = *description;
  native->row_pitch = row_pitch;
  native->slice_pitch = slice_pitch;
  _gpu_image_get_size (description, description->n_levels, &native->base.size);
  image->memory = (GpuHostBuffer *) memory;
  fill_view (image);
  fill_levels (image);

  return native;
}

static GpuNativeImage *
host_image_create (GpuNativeContext           *context,
                   GpuMemoryFlags              flags,
                   const GpuImageDescription  *description,
                   gconstpointer               data,
                   gsize                       row_pitch,
                   gsize                       slice_pitch,
                   GError                    **error)
{
  const GpuRegionSide side = { .data = (gpointer) data, .row_pitch = row_pitch,
                               .slice_pitch = slice_pitch };
  const GpuExtent *extent = &description->extent;
  gsize row_size = extent->width * description->texel_size;
  gsize slice_size = extent->height * row_size;
  GpuNativeBuffer *memory;
  gsize size;

  _gpu_image_get_size (description, description->n_levels, &size);
  memory = _gpu_host_buffer_alloc (context, flags, size, NULL, error);

  if (memory == NULL)
    return NULL;

  if (data != NULL)
    _gpu_region_pack (&side, &(GpuExtent) { row_size, extent->height, extent->depth },
                      ((GpuHostBuffer *) memory)->data);

  return image_new (memory, description, row_size, slice_size);
}

static GpuNativeImage *
host_image_create_for_host (GpuNativeContext           *context G_GNUC_UNUSED,
                            GpuMemoryFlags              flags G_GNUC_UNUSED,
                            const GpuImageDescription  *description,
                            gpointer                    data,
                            gsize                       row_pitch,
                            gsize                       slice_pitch,
                            GError                    **error G_GNUC_UNUSED)
{
  return image_new (_gpu_host_buffer_new (data, 0, "host"), description, row_pitch, slice_pitch);
}

/* Any address and pitch is valid, because the host has no alignment requirements for texels. */
static GpuNativeImage *
host_image_create_for_buffer (GpuNativeContext           *context G_GNUC_UNUSED,
                              GpuMemoryFlags              flags G_GNUC_UNUSED,
                              const GpuImageDescription  *description,
                              GpuNativeBuffer            *buffer,
                              gsize                       row_pitch,
                              GError                    **error G_GNUC_UNUSED)
{
  gpointer data = _gpu_host_memory_get_data (buffer);

  return image_new (_gpu_host_buffer_new (data, 0, "slice"), description, row_pitch,
                    row_pitch * description->extent.height);
}

static GpuNativeImage *
host_image_get_level (GpuNativeContext  *context G_GNUC_UNUSED,
                      GpuNativeImage    *image,
                      guint              level,
                      GError           **error G_GNUC_UNUSED)
{
  GpuImageDescription description;
  gsize row_pitch;
  gsize slice_pitch;
  guint8 *data = get_level (image, level, &description, &row_pitch, &slice_pitch);

  return image_new (_gpu_host_buffer_new (data, 0, "slice"), &description, row_pitch, slice_pitch);
}

/* --- commands --------------------------------------------------------------------------------- */

static gboolean
fill_run (GpuHostOperation  *operation,
          GError           **error G_GNUC_UNUSED)
{
  const GpuHostFillImage *fill = (const GpuHostFillImage *) operation;
  gsize row_size = fill->extent.width * fill->texel_size;

  for (gsize x = 0; x < row_size; x += fill->texel_size)
    memcpy (fill->data + x, fill->texel, fill->texel_size);

  for (gsize z = 0; z < fill->extent.depth; z++)
    {
      for (gsize y = 0; y < fill->extent.height; y++)
        {
          if (y != 0 || z != 0)
            memcpy (fill->data + z * fill->slice_pitch + y * fill->row_pitch, fill->data,
                    row_size);
        }
    }

  return TRUE;
}

static gboolean
host_image_fill (GpuNativeStream      *stream,
                 GpuNativeImage       *image,
                 const GpuRegionSide  *side,
                 const GpuExtent      *extent,
                 gconstpointer         texel,
                 GpuNativeEvent      **event,
                 GError              **error)
{
  GpuHostFillImage *fill = _gpu_host_operation_new (sizeof *fill, fill_run);

  fill->data = _gpu_host_memory_get_data (&image->base) + side->offset;
  fill->row_pitch = image->row_pitch;
  fill->slice_pitch = image->slice_pitch;
  fill->extent = *extent;
  fill->texel_size = image->description.texel_size;
  memcpy (fill->texel, texel, fill->texel_size);

  return _gpu_host_stream_submit (stream, fill, event, error);
}

static gpointer
host_image_map (GpuNativeStream      *stream,
                GpuNativeImage       *image,
                GpuMapFlags           flags G_GNUC_UNUSED,
                const GpuRegionSide  *side,
                const GpuExtent      *extent G_GNUC_UNUSED,
                gsize                *row_pitch,
                gsize                *slice_pitch,
                GpuNativeEvent      **event,
                GError              **error)
{
  if (!_gpu_host_stream_submit_nothing (stream, event, error))
    return NULL;

  *row_pitch = image->row_pitch;
  *slice_pitch = image->slice_pitch;

  return _gpu_host_memory_get_data (&image->base) + side->offset;
}

const GpuImageOps _gpu_host_image_ops =
{
  .list_formats = host_image_list_formats,
  .get_max_extent = host_image_get_max_extent,
  .create = host_image_create,
  .create_for_host = host_image_create_for_host,
  .create_for_buffer = host_image_create_for_buffer,
  .get_level = host_image_get_level,
  .fill = host_image_fill,
  .map = host_image_map
};

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/memory/gpu-image-private.h"

/**
 * SECTION:gpu-image
 * @title: GpuImage
 * @short_description: images that kernels read through samplers
 * @see_also: #GpuImageFormat, #GpuSampler
 */

/**
 * GpuImage:
 *
 * Rows of texels of one format, which kernels read through a #GpuSampler and write texel by texel.
 *
 * |[<!-- language="C" -->
 * const GpuImageFormat format = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UNORM8 };
 * const GpuExtent extent = { 640, 480, 1 };
 * g_autoptr (GpuImage) picture = gpu_image_new (context, GPU_MEMORY_FLAGS_NONE, &format,
 *                                               GPU_IMAGE_TYPE_IMAGE_2D, &extent, &error);
 * g_autoptr (GBytes) result = NULL;
 *
 * gpu_image_write_bytes (picture, stream, NULL, &extent, bytes, 0, 0, NULL, &error);
 * result = gpu_image_read_bytes (picture, stream, NULL, &extent, NULL, &error);
 * ]|
 *
 * On OpenCL an image is a cl_mem object. On CUDA an image is a CUDA array, together with the
 * texture and surface objects that launches need. The sampler determines the values that kernels
 * read at positions between texels and beyond the edges.
 *
 * Sizes and origins are in texels. One-dimensional images have one row, and two-dimensional images
 * have one slice. For an array of one-dimensional images, the height is the number of layers; for
 * an array of two-dimensional images, the depth is the number of layers. The depth of a cube is 6,
 * and the depth of an array of cubes is a multiple of 6. Pitches of data on the host and in buffers
 * are in bytes.
 *
 * Methods that read, write, copy or map an image block the calling thread. Most of these methods
 * have an asynchronous variant: a pair of functions whose names end in _async() and _finish(). All
 * these functions take a stream, or %NULL for the default stream of the context. Operations that
 * only submit work to a stream are methods of #GpuStream.
 *
 * All methods may be called from any thread.
 *
 * Since: 0.1
 */

enum
{
  PROP_0,
  PROP_FORMAT,
  PROP_IMAGE_TYPE,
  PROP_WIDTH,
  PROP_HEIGHT,
  PROP_DEPTH,
  PROP_N_LAYERS,
  PROP_N_LEVELS,
  PROP_TEXEL_SIZE,
  PROP_ROW_PITCH,
  PROP_SLICE_PITCH,
  PROP_BUFFER,
  PROP_PARENT,
  PROP_PARENT_LEVEL,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

static void initable_iface_init (GInitableIface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (GpuImage, gpu_image, GPU_TYPE_MEMORY,
                               G_IMPLEMENT_INTERFACE (G_TYPE_INITABLE, initable_iface_init))

static gsize
get_n_layers (GpuImage *image)
{
  const GpuExtent *extent = &image->description.extent;

  if (!_gpu_image_type_has_layers (image->description.type))
    return 1;

  return image->description.type == GPU_IMAGE_TYPE_IMAGE_1D_ARRAY ? extent->height : extent->depth;
}

static void
get_size_property (GpuImage *image,
                   guint     id,
                   GValue   *value)
{
  gsize size = 0;

  switch (id)
    {
    case PROP_WIDTH:
      size = image->description.extent.width;
      break;
    case PROP_HEIGHT:
      size = _gpu_image_type_get_n_dimensions (image->description.type) > 1
             ? image->description.extent.height : 1;
      break;
    case PROP_DEPTH:
      size = _gpu_image_type_get_n_dimensions (image->description.type) > 2
             ? image->description.extent.depth : 1;
      break;
    case PROP_N_LAYERS:
      size = get_n_layers (image);
      break;
    case PROP_TEXEL_SIZE:
      size = image->description.texel_size;
      break;
    case PROP_ROW_PITCH:
      size = gpu_image_get_row_pitch (image);
      break;
    default:
      size = gpu_image_get_slice_pitch (image);
      break;
    }

  g_value_set_uint64 (value, size);
}

static void
gpu_image_get_property (GObject    *object,
                        guint       id,
                        GValue     *value,
                        GParamSpec *pspec)
{
  GpuImage *image = GPU_IMAGE (object);

  switch (id)
    {
    case PROP_FORMAT:
      g_value_set_boxed (value, &image->description.format);
      break;
    case PROP_IMAGE_TYPE:
      g_value_set_enum (value, image->description.type);
      break;
    case PROP_WIDTH:
    case PROP_HEIGHT:
    case PROP_DEPTH:
    case PROP_N_LAYERS:
    case PROP_TEXEL_SIZE:
    case PROP_ROW_PITCH:
    case PROP_SLICE_PITCH:
      get_size_property (image, id, value);
      break;
    case PROP_N_LEVELS:
      g_value_set_uint (value, image->description.n_levels);
      break;
    case PROP_BUFFER:
      g_value_set_object (value, image->buffer);
      break;
    case PROP_PARENT:
      g_value_set_object (value, image->parent);
      break;
    case PROP_PARENT_LEVEL:
      g_value_set_uint (value, image->level);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_image_set_property (GObject      *object,
                        guint         id,
                        const GValue *value,
                        GParamSpec   *pspec)
{
  GpuImageDescription *description = &GPU_IMAGE (object)->description;

  switch (id)
    {
    case PROP_FORMAT:
      GPU_IMAGE (object)->has_format = g_value_get_boxed (value) != NULL;
      if (GPU_IMAGE (object)->has_format)
        description->format = *(const GpuImageFormat *) g_value_get_boxed (value);
      break;
    case PROP_IMAGE_TYPE:
      description->type = g_value_get_enum (value);
      break;
    case PROP_WIDTH:
      description->extent.width = g_value_get_uint64 (value);
      break;
    case PROP_HEIGHT:
      description->extent.height = g_value_get_uint64 (value);
      break;
    case PROP_DEPTH:
      description->extent.depth = g_value_get_uint64 (value);
      break;
    case PROP_N_LAYERS:
      GPU_IMAGE (object)->n_layers = g_value_get_uint64 (value);
      break;
    case PROP_N_LEVELS:
      description->n_levels = g_value_get_uint (value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_image_finalize (GObject *object)
{
  GpuImage *image = GPU_IMAGE (object);

  g_clear_object (&image->buffer);
  g_clear_object (&image->parent);
  _gpu_live_add (GPU_LIVE_IMAGE, -1);

  G_OBJECT_CLASS (gpu_image_parent_class)->finalize (object);
}

static GParamSpec *
size_spec (const char  *name,
           guint64      value,
           GParamFlags  flags)
{
  return g_param_spec_uint64 (name, NULL, NULL, 0, G_MAXUINT64, value,
                              flags | G_PARAM_STATIC_STRINGS);
}

static void
install_construct_properties (void)
{
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS;
  /**
   * GpuImage:format:
   *
   * The format of the texels.
   *
   * Since: 0.1
   */
  props[PROP_FORMAT] = g_param_spec_boxed ("format", NULL, NULL, GPU_TYPE_IMAGE_FORMAT, flags);
  /**
   * GpuImage:image-type:
   *
   * The type of the image.
   *
   * Since: 0.1
   */
  props[PROP_IMAGE_TYPE] = g_param_spec_enum ("image-type", NULL, NULL, GPU_TYPE_IMAGE_TYPE,
                                              GPU_IMAGE_TYPE_IMAGE_2D, flags);
  /**
   * GpuImage:width:
   *
   * The width in texels.
   *
   * Since: 0.1
   */
  props[PROP_WIDTH] = size_spec ("width", 0, flags);
  /**
   * GpuImage:height:
   *
   * The number of rows of a slice or layer; 1 for one-dimensional images.
   *
   * Since: 0.1
   */
  props[PROP_HEIGHT] = size_spec ("height", 1, flags);
  /**
   * GpuImage:depth:
   *
   * The number of slices; 1 unless the image is three-dimensional.
   *
   * Since: 0.1
   */
  props[PROP_DEPTH] = size_spec ("depth", 1, flags);
  /**
   * GpuImage:n-layers:
   *
   * The number of layers of an array, or of sides of cubes; 1 for images without layers and sides.
   *
   * Since: 0.1
   */
  props[PROP_N_LAYERS] = size_spec ("n-layers", 1, flags);
  /**
   * GpuImage:n-levels:
   *
   * The number of mip levels; 1 for an image without mip levels.
   *
   * Since: 0.1
   */
  props[PROP_N_LEVELS] = g_param_spec_uint ("n-levels", NULL, NULL, 0, G_MAXUINT, 1, flags);
}

static void
install_other_properties (void)
{
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  /**
   * GpuImage:texel-size:
   *
   * The size of a texel in bytes.
   *
   * Since: 0.1
   */
  props[PROP_TEXEL_SIZE] = size_spec ("texel-size", 0, flags);
  /**
   * GpuImage:row-pitch:
   *
   * The distance between two rows in bytes, see gpu_image_get_row_pitch().
   *
   * Since: 0.1
   */
  props[PROP_ROW_PITCH] = size_spec ("row-pitch", 0, flags);
  /**
   * GpuImage:slice-pitch:
   *
   * The distance between two slices or layers in bytes, see gpu_image_get_slice_pitch().
   *
   * Since: 0.1
   */
  props[PROP_SLICE_PITCH] = size_spec ("slice-pitch", 0, flags);
  /**
   * GpuImage:buffer:
   *
   * The buffer that contains the texels, or %NULL.
   *
   * Since: 0.1
   */
  props[PROP_BUFFER] = g_param_spec_object ("buffer", NULL, NULL, GPU_TYPE_BUFFER, flags);
  /**
   * GpuImage:parent:
   *
   * The image that contains this mip level, or %NULL.
   *
   * Since: 0.1
   */
  props[PROP_PARENT] = g_param_spec_object ("parent", NULL, NULL, GPU_TYPE_IMAGE, flags);
  /**
   * GpuImage:parent-level:
   *
   * The index of this mip level in #GpuImage:parent, or 0 if there is no parent.
   *
   * Since: 0.1
   */
  props[PROP_PARENT_LEVEL] = g_param_spec_uint ("parent-level", NULL, NULL, 0, G_MAXUINT, 0,
                                                flags);
}

static void
gpu_image_class_init (GpuImageClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = gpu_image_get_property;
  object_class->set_property = gpu_image_set_property;
  object_class->finalize = gpu_image_finalize;

  install_construct_properties ();
  install_other_properties ();
  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_image_init (GpuImage *image)
{
  _gpu_live_add (GPU_LIVE_IMAGE, 1);
}

static gboolean
gpu_image_initable_init (GInitable     *initable,
                         GCancellable  *cancellable,
                         GError       **error)
{
  GpuImage *image = GPU_IMAGE (initable);

  return GPU_MEMORY (image)->storage != NULL || _gpu_image_initialize (image, error);
}

static void
initable_iface_init (GInitableIface *iface)
{
  iface->init = gpu_image_initable_init;
}

/* --- regions ---------------------------------------------------------------------------------- */

static gboolean
is_within (gsize origin,
           gsize size,
           gsize whole)
{
  return origin <= whole && size <= whole - origin;
}

/* Returns whether the origin is 0 in the dimensions that images of @type lack. An empty region at
 * the end of another dimension is valid. */
static gboolean
has_dimensions (GpuImageType      type,
                const GpuLayout  *origin)
{
  guint n_dims = _gpu_image_type_get_n_dimensions (type)
                 + (_gpu_image_type_has_layers (type) ? 1 : 0);

  return (origin->y == 0 || n_dims > 1) && (origin->z == 0 || n_dims > 2);
}

gboolean
_gpu_image_resolve (GpuImage         *image,
                    const GpuLayout  *layout,
                    const GpuExtent  *extent,
                    const char       *function,
                    const char       *what,
                    GpuRegionSide    *side,
                    GError          **error)
{
  static const GpuLayout first;
  const GpuExtent *whole = &image->description.extent;

  if (layout == NULL)
    layout = &first;

  if (layout->row_pitch != 0 || layout->slice_pitch != 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: row pitch %" G_GSIZE_FORMAT " and slice pitch %" G_GSIZE_FORMAT
                   " for the %s, an image, which has pitches of its own", function,
                   layout->row_pitch, layout->slice_pitch, what);
      return FALSE;
    }

  if (!is_within (layout->x, extent->width, whole->width)
      || !is_within (layout->y, extent->height, whole->height)
      || !is_within (layout->z, extent->depth, whole->depth)
      || !has_dimensions (image->description.type, layout))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: a region of %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT
                   " texels at %" G_GSIZE_FORMAT ", %" G_GSIZE_FORMAT ", %" G_GSIZE_FORMAT
                   " exceeds the %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT
                   " texels of the %s", function, extent->width, extent->height, extent->depth,
                   layout->x, layout->y, layout->z, whole->width, whole->height, whole->depth,
                   what);
      return FALSE;
    }

  side->x = layout->x;
  side->y = layout->y;
  side->z = layout->z;
  side->row_pitch = image->row_pitch;
  side->slice_pitch = image->slice_pitch;
  side->offset = layout->x * image->description.texel_size + layout->y * image->row_pitch
                 + layout->z * image->slice_pitch;

  return TRUE;
}

GpuExtent
_gpu_image_get_rest (GpuImage         *image,
                     const GpuLayout  *layout,
                     const GpuExtent  *extent)
{
  GpuExtent rest = image->description.extent;

  if (extent != NULL)
    return *extent;

  if (layout != NULL)
    {
      rest.width -= MIN (layout->x, rest.width);
      rest.height -= MIN (layout->y, rest.height);
      rest.depth -= MIN (layout->z, rest.depth);
    }

  return rest;
}

/* --- attributes ------------------------------------------------------------------------------- */

/**
 * gpu_image_get_format:
 * @image: a #GpuImage
 *
 * Gets the format of the texels (OpenCL: CL_IMAGE_FORMAT; CUDA: cuArray3DGetDescriptor).
 *
 * Returns: (transfer none): the format
 *
 * Since: 0.1
 */
const GpuImageFormat *
gpu_image_get_format (GpuImage *image)
{
  g_return_val_if_fail (GPU_IS_IMAGE (image), NULL);

  return &image->description.format;
}

/**
 * gpu_image_get_image_type:
 * @image: a #GpuImage
 *
 * Gets the type of the image (OpenCL: CL_MEM_TYPE).
 *
 * Returns: the type
 *
 * Since: 0.1
 */
GpuImageType
gpu_image_get_image_type (GpuImage *image)
{
  g_return_val_if_fail (GPU_IS_IMAGE (image), GPU_IMAGE_TYPE_IMAGE_2D);

  return image->description.type;
}

/**
 * gpu_image_get_extent:
 * @image: a #GpuImage
 * @extent: (out caller-allocates): return location for the size
 *
 * Gets the size of the image for copies: the width in texels, the height in rows and the depth in
 * slices. For an array of one-dimensional images, the height is the number of layers; for other
 * arrays and for cubes, the depth is the number of layers.
 *
 * Since: 0.1
 */
void
gpu_image_get_extent (GpuImage  *image,
                      GpuExtent *extent)
{
  g_return_if_fail (GPU_IS_IMAGE (image));
  g_return_if_fail (extent != NULL);

  *extent = image->description.extent;
}

/**
 * gpu_image_get_n_levels:
 * @image: a #GpuImage
 *
 * Gets the number of mip levels (OpenCL: CL_IMAGE_NUM_MIP_LEVELS).
 *
 * Returns: the number of mip levels; 1 for an image without mip levels
 *
 * Since: 0.1
 */
guint
gpu_image_get_n_levels (GpuImage *image)
{
  g_return_val_if_fail (GPU_IS_IMAGE (image), 0);

  return image->description.n_levels;
}

/**
 * gpu_image_get_row_pitch:
 * @image: a #GpuImage
 *
 * Gets the distance between two rows (OpenCL: CL_IMAGE_ROW_PITCH). If the texels are not stored row
 * by row, as in CUDA arrays, the result is the size of a row. A mapping of the image has a row
 * pitch of its own.
 *
 * Returns: the pitch in bytes
 *
 * Since: 0.1
 */
gsize
gpu_image_get_row_pitch (GpuImage *image)
{
  g_return_val_if_fail (GPU_IS_IMAGE (image), 0);

  return image->row_pitch;
}

/**
 * gpu_image_get_slice_pitch:
 * @image: a #GpuImage
 *
 * Gets the distance between two slices or layers (OpenCL: CL_IMAGE_SLICE_PITCH). If the texels are
 * not stored row by row, as in CUDA arrays, the result is the size of a slice.
 *
 * Returns: the pitch in bytes
 *
 * Since: 0.1
 */
gsize
gpu_image_get_slice_pitch (GpuImage *image)
{
  g_return_val_if_fail (GPU_IS_IMAGE (image), 0);

  return image->slice_pitch;
}

/**
 * gpu_image_get_buffer:
 * @image: a #GpuImage
 *
 * Gets the buffer that contains the texels, if @image was created by gpu_image_new_for_buffer() or
 * is a level of such an image (OpenCL: CL_IMAGE_BUFFER).
 *
 * Returns: (transfer none) (nullable): the buffer, or %NULL if the image was created in another way
 *
 * Since: 0.1
 */
GpuBuffer *
gpu_image_get_buffer (GpuImage *image)
{
  g_return_val_if_fail (GPU_IS_IMAGE (image), NULL);

  return image->buffer;
}

/**
 * gpu_image_get_parent:
 * @image: a #GpuImage
 *
 * If gpu_image_get_level() returned @image, gets the image that contains this mip level.
 *
 * Returns: (transfer none) (nullable): the image, or %NULL if @image is not a result of
 *   gpu_image_get_level()
 *
 * Since: 0.1
 */
GpuImage *
gpu_image_get_parent (GpuImage *image)
{
  g_return_val_if_fail (GPU_IS_IMAGE (image), NULL);

  return image->parent;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Checks whether a context supports an image, and lists the supported formats and sizes. */
#include "config.h"

#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-image-private.h"

#define EXTENT_FORMAT "%" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT
#define EXTENT_ARGS(extent) (extent)->width, (extent)->height, (extent)->depth

static gboolean
fail_support (GpuNativeContext  *context,
              const char        *function,
              const char        *what,
              GError           **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "%s: %s has no %s", function,
               context->devices[0]->id, what);

  return FALSE;
}

gboolean
_gpu_image_check_support (GpuNativeContext  *context,
                          const char        *function,
                          GError           **error)
{
  if (context->backend->image != NULL
      && (context->devices[0]->capabilities & GPU_CAPABILITIES_IMAGES) != 0)
    return TRUE;

  return fail_support (context, function, "images", error);
}

gboolean
_gpu_image_check_flags (GpuNativeContext  *context,
                        GpuMemoryFlags     flags,
                        const char        *function,
                        GError           **error)
{
  if (!_gpu_buffer_check_flags (function, context, flags & ~GPU_MEMORY_FLAGS_SHAREABLE, error))
    return FALSE;

  return (flags & GPU_MEMORY_FLAGS_SHAREABLE) == 0
         || fail_support (context, function, "images with file descriptors", error);
}

static gboolean
check_type (GpuNativeContext  *context,
            GpuImageType       type,
            const char        *function,
            GError           **error)
{
  if (!_gpu_image_type_is_known (type))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: unknown image type %d", function, type);
      return FALSE;
    }

  return TRUE;
}

/* Returns a new reference to the formats that the driver lists. The context caches this list,
 * because drivers always return the same list. */
static GArray *
get_formats (GpuNativeContext  *context,
             GpuMemoryFlags     flags,
             GpuImageType       type,
             const char        *function,
             GError           **error)
{
  const gpointer key = GUINT_TO_POINTER ((guint) flags << 4 | (guint) type);
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->lock);
  GArray *formats;

  G_STATIC_ASSERT (GPU_IMAGE_TYPE_CUBEMAP_ARRAY < 1 << 4);

  if (context->formats == NULL)
    context->formats = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) g_array_unref);

  formats = g_hash_table_lookup (context->formats, key);

  if (formats != NULL)
    return g_array_ref (formats);

  formats = g_array_new (FALSE, FALSE, sizeof (GpuImageFormat));

  if (!context->backend->image->list_formats (context, flags, type, formats, error))
    {
      g_prefix_error (error, "%s: ", function);
      g_array_unref (formats);
      return NULL;
    }

  g_hash_table_insert (context->formats, key, formats);

  return g_array_ref (formats);
}

static gboolean
check_format (GpuNativeContext      *context,
              GpuMemoryFlags         flags,
              GpuImageType           type,
              const GpuImageFormat  *format,
              const char            *function,
              GError               **error)
{
  g_autoptr (GArray) formats = NULL;
  g_autofree char *text = NULL;
  g_autofree char *nicks = NULL;

  if (!_gpu_image_format_is_known (format))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: channel order %d and channel type %d are not a valid format", function,
                   format->channel_order, format->channel_type);
      return FALSE;
    }

  formats = get_formats (context, flags, type, function, error);

  if (formats == NULL)
    return FALSE;

  for (guint i = 0; i < formats->len; i++)
    {
      if (gpu_image_format_equal (&g_array_index (formats, GpuImageFormat, i), format))
        return TRUE;
    }

  text = gpu_image_format_to_string (format);
  nicks = _gpu_flags_get_nicks (GPU_TYPE_MEMORY_FLAGS, flags);
  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "%s: %s has no images of type %s and format %s with memory flags %s", function,
               context->devices[0]->id, _gpu_image_type_get_name (type), text, nicks);

  return FALSE;
}

static gboolean
fail_extent (const GpuImageDescription  *description,
             const char                 *what,
             const char                 *function,
             GError                    **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s: an image of type %s must have %s, not " EXTENT_FORMAT " texels", function,
               _gpu_image_type_get_name (description->type), what,
               EXTENT_ARGS (&description->extent));

  return FALSE;
}

static gboolean
check_shape (const GpuImageDescription  *description,
             const char                 *function,
             GError                    **error)
{
  const GpuExtent *extent = &description->extent;
  guint n_sizes = _gpu_image_type_get_n_dimensions (description->type)
                  + _gpu_image_type_has_layers (description->type);

  if (extent->width == 0 || extent->height == 0 || extent->depth == 0)
    return fail_extent (description, "at least one texel in each dimension", function, error);

  if ((n_sizes < 2 && extent->height != 1) || (n_sizes < 3 && extent->depth != 1))
    return fail_extent (description,
                        n_sizes == 1 ? "one row"
                        : description->type == GPU_IMAGE_TYPE_IMAGE_1D_ARRAY
                        ? "one slice, whose rows are the layers" : "one slice", function, error);

  if ((description->type == GPU_IMAGE_TYPE_CUBEMAP
       && (extent->width != extent->height || extent->depth != 6))
      || (description->type == GPU_IMAGE_TYPE_CUBEMAP_ARRAY
          && (extent->width != extent->height || extent->depth % 6 != 0)))
    return fail_extent (description, "six square sides for each cube", function, error);

  return TRUE;
}

static gboolean
check_extent (GpuNativeContext           *context,
              const GpuImageDescription  *description,
              const char                 *function,
              GError                    **error)
{
  const GpuExtent *extent = &description->extent;
  GpuExtent most = { 0, 0, 0 };
  gsize size;

  context->backend->image->get_max_extent (context, description->type, &most);

  if (most.width == 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "%s: %s has no images of type %s",
                   function, context->devices[0]->id,
                   _gpu_image_type_get_name (description->type));
      return FALSE;
    }

  if (!check_shape (description, function, error))
    return FALSE;

  if (extent->width > most.width || extent->height > most.height || extent->depth > most.depth
      || !_gpu_image_get_size (description, description->n_levels, &size))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: an image of " EXTENT_FORMAT " texels exceeds the maximum of " EXTENT_FORMAT
                   " texels on %s for type %s", function, EXTENT_ARGS (extent),
                   EXTENT_ARGS (&most), context->devices[0]->id,
                   _gpu_image_type_get_name (description->type));
      return FALSE;
    }

  return _gpu_buffer_check_size (function, context, size, error);
}

static gboolean
check_levels (GpuNativeContext           *context,
              const GpuImageDescription  *description,
              const char                 *function,
              GError                    **error)
{
  guint most = _gpu_image_get_max_levels (description);

  if (description->n_levels == 0 || description->n_levels > most)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: %u mip levels for an image of " EXTENT_FORMAT " texels; the maximum is %u",
                   function, description->n_levels, EXTENT_ARGS (&description->extent), most);
      return FALSE;
    }

  return description->n_levels == 1
         || (context->devices[0]->capabilities & GPU_CAPABILITIES_MIPMAPS) != 0
         || fail_support (context, function, "images with mip levels", error);
}

gboolean
_gpu_image_check_description (GpuNativeContext     *context,
                              GpuMemoryFlags        flags,
                              GpuImageDescription  *description,
                              const char           *function,
                              GError              **error)
{
  if (!_gpu_image_check_support (context, function, error)
      || !_gpu_image_check_flags (context, flags, function, error)
      || !check_type (context, description->type, function, error))
    return FALSE;

  description->texel_size = gpu_image_format_get_texel_size (&description->format);

  return check_shape (description, function, error)
         && check_levels (context, description, function, error)
         && check_format (context, flags, description->type, &description->format, function, error)
         && check_extent (context, description, function, error);
}

/**
 * gpu_context_list_image_formats:
 * @context: a #GpuContext
 * @flags: the intended use of the images
 * @type: the type of the images
 * @error: return location for an error
 *
 * Lists the supported formats of images (OpenCL: clGetSupportedImageFormats). CUDA has no such
 * call: there, the function lists the formats that arrays support. Formats that #GpuImageFormat
 * cannot express are omitted. May be called from any thread; does not block.
 *
 * Returns: (transfer full) (element-type GpuImageFormat): the formats. The list is empty if the
 *   type is not supported. On failure the list is empty and @error is set to
 *   %GPU_ERROR_NOT_SUPPORTED if the device has no images, %GPU_ERROR_INVALID_ARGUMENT for flags
 *   that cannot be combined or an invalid type, %GPU_ERROR_DEVICE_LOST, or the driver's error
 *
 * Since: 0.1
 */
GList *
gpu_context_list_image_formats (GpuContext      *context,
                                GpuMemoryFlags   flags,
                                GpuImageType     type,
                                GError         **error)
{
  const char *function = "gpu_context_list_image_formats";
  g_autoptr (GArray) formats = NULL;
  GpuNativeContext *native;
  GList *list = NULL;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  if (!_gpu_context_check (context, function, error))
    return NULL;

  native = _gpu_context_get_native (context);

  if (!_gpu_image_check_support (native, function, error)
      || !_gpu_image_check_flags (native, flags, function, error)
      || !check_type (native, type, function, error))
    return NULL;

  formats = get_formats (native, flags, type, function, error);

  if (formats == NULL)
    return NULL;

  for (guint i = formats->len; i > 0; i--)
    list = g_list_prepend (list, gpu_image_format_copy (&g_array_index (formats, GpuImageFormat,
                                                                        i - 1)));

  return list;
}

/**
 * gpu_context_get_max_image_extent:
 * @context: a #GpuContext
 * @type: the type of the images
 * @extent: (out caller-allocates): return location for the maximum size
 * @error: return location for an error
 *
 * Gets the maximum size of images (OpenCL: CL_DEVICE_IMAGE2D_MAX_WIDTH and related attributes;
 * CUDA: CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH and related attributes). For arrays of
 * one-dimensional images, the height is the maximum number of layers; for other arrays, the depth
 * is the maximum number of layers. All sizes are 0 if the type is not supported. May be called from
 * any thread; does not block.
 *
 * Returns: %TRUE, or %FALSE with %GPU_ERROR_NOT_SUPPORTED if the device has no images of any type,
 *   %GPU_ERROR_INVALID_ARGUMENT for an invalid type, or %GPU_ERROR_DEVICE_LOST
 *
 * Since: 0.1
 */
gboolean
gpu_context_get_max_image_extent (GpuContext    *context,
                                  GpuImageType   type,
                                  GpuExtent     *extent,
                                  GError       **error)
{
  const char *function = "gpu_context_get_max_image_extent";
  GpuNativeContext *native;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), FALSE);
  g_return_val_if_fail (extent != NULL, FALSE);

  if (!_gpu_context_check (context, function, error))
    return FALSE;

  native = _gpu_context_get_native (context);

  if (!_gpu_image_check_support (native, function, error)
      || !check_type (native, type, function, error))
    return FALSE;

  *extent = (GpuExtent) { 0, 0, 0 };
  native->backend->image->get_max_extent (native, type, extent);

  return TRUE;
}

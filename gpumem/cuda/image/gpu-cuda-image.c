/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Images: arrays, mipmapped arrays and their levels, and linear memory of buffers. For a 1D array
 * image, the number of layers is the height of a GpuExtent, but the depth of the driver's
 * descriptor.
 */
#include "config.h"

#include "gpumem/cuda/core/gpu-cuda-current.h"
#include "gpumem/cuda/image/gpu-cuda-image.h"
#include "gpumem/format/gpu-image-type-private.h"

/* --- creation of arrays ----------------------------------------------------------------------- */

static CUDA_ARRAY3D_DESCRIPTOR
describe (const GpuCudaImage *image)
{
  const GpuExtent *extent = &image->base.description.extent;
  CUDA_ARRAY3D_DESCRIPTOR descriptor = { extent->width, 0, 0, image->format, image->n_channels,
                                         CUDA_ARRAY3D_SURFACE_LDST };

  switch (image->base.description.type)
    {
    case GPU_IMAGE_TYPE_IMAGE_1D_ARRAY:
      descriptor.Depth = extent->height;
      descriptor.Flags |= CUDA_ARRAY3D_LAYERED;
      break;
    case GPU_IMAGE_TYPE_IMAGE_2D:
      descriptor.Height = extent->height;
      break;
    case GPU_IMAGE_TYPE_IMAGE_2D_ARRAY:
    case GPU_IMAGE_TYPE_CUBEMAP:
    case GPU_IMAGE_TYPE_CUBEMAP_ARRAY:
    case GPU_IMAGE_TYPE_IMAGE_3D:
      descriptor.Height = extent->height;
      descriptor.Depth = extent->depth;
      if (image->base.description.type == GPU_IMAGE_TYPE_CUBEMAP)
        descriptor.Flags |= CUDA_ARRAY3D_CUBEMAP;
      else if (image->base.description.type == GPU_IMAGE_TYPE_CUBEMAP_ARRAY)
        descriptor.Flags |= CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED;
      else if (image->base.description.type == GPU_IMAGE_TYPE_IMAGE_2D_ARRAY)
        descriptor.Flags |= CUDA_ARRAY3D_LAYERED;
      break;
    case GPU_IMAGE_TYPE_IMAGE_1D:
    case GPU_IMAGE_TYPE_IMAGE_1D_BUFFER:
    default:
      break;
    }

  return descriptor;
}

static CUresult
create_array (GpuCudaImage                   *image,
              const CUDA_ARRAY3D_DESCRIPTOR  *descriptor,
              const char                    **function)
{
  guint n_levels = image->base.description.n_levels;
  CUresult code;

  if (n_levels == 1)
    {
      *function = "cuArray3DCreate";
      return _gpu_cuda.cuArray3DCreate (&image->array, descriptor);
    }

  *function = "cuMipmappedArrayCreate";
  code = _gpu_cuda.cuMipmappedArrayCreate (&image->mipmapped, descriptor, n_levels);

  if (code != CUDA_SUCCESS)
    return code;

  *function = "cuMipmappedArrayGetLevel";
  code = _gpu_cuda.cuMipmappedArrayGetLevel (&image->array, image->mipmapped, 0);

  if (code != CUDA_SUCCESS)
    _gpu_cuda.cuMipmappedArrayDestroy (image->mipmapped);

  return code;
}

static gboolean
alloc_entered (GpuCudaContext  *context,
               GpuCudaImage    *image,
               GError         **error)
{
  const CUDA_ARRAY3D_DESCRIPTOR descriptor = describe (image);
  const char *function;
  CUresult code = create_array (image, &descriptor, &function);

  if (_gpu_cuda_trim_pools (context, code))
    code = create_array (image, &descriptor, &function);

  image->owned = code == CUDA_SUCCESS;
  image->has_surface = TRUE;

  if (code == CUDA_SUCCESS)
    return TRUE;

  if (code == CUDA_ERROR_OUT_OF_MEMORY)
    _gpu_cuda_fail_alloc (context, function, code, image->base.base.size, error);
  else
    _gpu_cuda_set_error (error, function, code, "%" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %"
                         G_GSIZE_FORMAT " texels of format 0x%x with %u channels, flags 0x%x, %u "
                         "levels", descriptor.Width, descriptor.Height, descriptor.Depth,
                         descriptor.Format, descriptor.NumChannels, descriptor.Flags,
                         image->base.description.n_levels);

  return FALSE;
}

/* Uses the library's own stream, which does not wait for streams of the application. */
static gboolean
upload (GpuCudaContext  *context,
        GpuCudaImage    *image,
        gconstpointer    data,
        gsize            row_pitch,
        gsize            slice_pitch,
        GError         **error)
{
  const GpuRegionSide to = { .memory = &image->base.base };
  const GpuRegionSide from = { .data = (gpointer) data, .row_pitch = row_pitch,
                               .slice_pitch = slice_pitch };
  const GpuExtent *extent = &image->base.description.extent;
  const char *function;
  CUstream stream;
  CUresult code;

  if (!_gpu_cuda_get_internal_stream (context, &stream, error))
    return FALSE;

  code = _gpu_cuda_enqueue_region (stream, &to, &from, extent, &function);

  if (code == CUDA_SUCCESS)
    {
      function = "cuStreamSynchronize";
      code = _gpu_cuda.cuStreamSynchronize (stream);
    }

  if (code == CUDA_SUCCESS)
    return TRUE;

  _gpu_cuda_set_error (error, function, code, "%" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %"
                       G_GSIZE_FORMAT " texels, row pitch %" G_GSIZE_FORMAT ", slice pitch %"
                       G_GSIZE_FORMAT, extent->width, extent->height, extent->depth, row_pitch,
                       slice_pitch);

  return FALSE;
}

static gsize
get_attribute (GpuNativeContext   *context,
               CUdevice_attribute  attribute)
{
  return (gsize) _gpu_cuda_get_optional (((GpuCudaContext *) context)->device, attribute);
}

/* Checks the extent of a mipmapped array, for which the driver has separate limits. */
static gboolean
check_levels (GpuNativeContext           *context,
              const GpuImageDescription  *description,
              GError                    **error)
{
  gboolean is_row = description->type == GPU_IMAGE_TYPE_IMAGE_1D;
  gsize width;
  gsize height = 1;

  if (description->n_levels == 1 || (!is_row && description->type != GPU_IMAGE_TYPE_IMAGE_2D))
    return TRUE;

  width = get_attribute (context, is_row ? CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH
                                         : CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH);
  if (!is_row)
    height = get_attribute (context, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT);

  if (description->extent.width <= width && description->extent.height <= height)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "an image with %u mip levels has at most %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT
               " texels on %s, not %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT, description->n_levels,
               width, height, context->devices[0]->id, description->extent.width,
               description->extent.height);

  return FALSE;
}

static gboolean
find_format (const GpuImageFormat  *format,
             CUarray_format        *native,
             guint                 *n_channels,
             GError               **error)
{
  g_autofree char *text = NULL;

  if (_gpu_cuda_format_to_native (format, native, n_channels))
    return TRUE;

  text = gpu_image_format_to_string (format);
  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "CUDA has no format %s", text);

  return FALSE;
}

static GpuNativeImage *
image_create (GpuNativeContext           *native,
              GpuMemoryFlags              flags G_GNUC_UNUSED,
              const GpuImageDescription  *description,
              gconstpointer               data,
              gsize                       row_pitch,
              gsize                       slice_pitch,
              GError                    **error)
{
  GpuCudaContext *context = (GpuCudaContext *) native;
  CUarray_format format;
  GpuCudaImage *image;
  guint n_channels;
  gboolean entered;
  gboolean made;

  if (!find_format (&description->format, &format, &n_channels, error)
      || !check_levels (native, description, error)
      || !_gpu_cuda_enter (context, &entered, error))
    return NULL;

  image = _gpu_cuda_image_new (description, format, n_channels);
  made = alloc_entered (context, image, error)
         && (data == NULL || upload (context, image, data, row_pitch, slice_pitch, error));

  if (!made)
    _gpu_cuda_image_free (native, &image->base.base);

  _gpu_cuda_leave (entered);

  return made ? &image->base : NULL;
}

/* --- images over buffers ---------------------------------------------------------------------- */

static gboolean
check_multiple (guint64      value,
                gsize        of,
                const char  *what,
                GError     **error)
{
  if (value % MAX (of, 1) == 0)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "%s, %" G_GUINT64_FORMAT ", must be a multiple of %" G_GSIZE_FORMAT " bytes",
               what, value, of);

  return FALSE;
}

static gboolean
check_linear (GpuNativeContext           *context,
              const GpuImageDescription  *description,
              const GpuCudaBuffer        *buffer,
              gsize                       row_pitch,
              GError                    **error)
{
  const GpuExtent *extent = &description->extent;
  gsize width;
  gsize height;
  gsize pitch;

  if (!check_multiple (buffer->address,
                       get_attribute (context, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT),
                       "the address where the buffer begins", error))
    return FALSE;

  if (description->type == GPU_IMAGE_TYPE_IMAGE_1D_BUFFER)
    return TRUE;

  width = get_attribute (context, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH);
  height = get_attribute (context, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT);
  pitch = get_attribute (context, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH);

  if (extent->width > width || extent->height > height || row_pitch > pitch)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "an image over a buffer has at most %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT
                   " texels and a row pitch of %" G_GSIZE_FORMAT " bytes on %s, not %"
                   G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " and %" G_GSIZE_FORMAT, width, height,
                   pitch, context->devices[0]->id, extent->width, extent->height, row_pitch);
      return FALSE;
    }

  return extent->height == 1
         || check_multiple (row_pitch,
                            get_attribute (context, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT),
                            "the row pitch", error);
}

/* Returns the pitch for the driver. The driver requires an aligned pitch even for a single row, for
 * which the pitch has no effect. */
static gsize
align_pitch (GpuNativeContext          *context,
             const GpuImageDescription *description,
             gsize                      row_pitch)
{
  gsize alignment = get_attribute (context, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT);

  if (description->extent.height > 1 || alignment == 0)
    return row_pitch;

  return (row_pitch + alignment - 1) / alignment * alignment;
}

static GpuNativeImage *
image_create_for_buffer (GpuNativeContext           *context,
                         GpuMemoryFlags              flags G_GNUC_UNUSED,
                         const GpuImageDescription  *description,
                         GpuNativeBuffer            *native,
                         gsize                       row_pitch,
                         GError                    **error)
{
  const GpuCudaBuffer *buffer = (GpuCudaBuffer *) native;
  CUarray_format format;
  GpuCudaImage *image;
  guint n_channels;

  if (!find_format (&description->format, &format, &n_channels, error)
      || !check_linear (context, description, buffer, row_pitch, error))
    return NULL;

  image = _gpu_cuda_image_new (description, format, n_channels);
  image->address = buffer->address;
  image->base.base.host = buffer->base.host;
  image->pitch = align_pitch (context, description, row_pitch);
  image->base.row_pitch = row_pitch;
  image->base.slice_pitch = row_pitch * description->extent.height;

  return &image->base;
}

/* --- wrapped arrays --------------------------------------------------------------------------- */

static void
read_shape (const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
            GpuImageDescription           *description)
{
  gboolean is_layered = (descriptor->Flags & CUDA_ARRAY3D_LAYERED) != 0;
  gboolean has_rows = descriptor->Height > 0;

  description->n_levels = 1;
  description->extent = (GpuExtent) { descriptor->Width, MAX (descriptor->Height, 1),
                                      MAX (descriptor->Depth, 1) };

  if ((descriptor->Flags & CUDA_ARRAY3D_CUBEMAP) != 0)
    description->type = is_layered ? GPU_IMAGE_TYPE_CUBEMAP_ARRAY : GPU_IMAGE_TYPE_CUBEMAP;
  else if (is_layered)
    description->type = has_rows ? GPU_IMAGE_TYPE_IMAGE_2D_ARRAY : GPU_IMAGE_TYPE_IMAGE_1D_ARRAY;
  else if (descriptor->Depth > 0)
    description->type = GPU_IMAGE_TYPE_IMAGE_3D;
  else
    description->type = has_rows ? GPU_IMAGE_TYPE_IMAGE_2D : GPU_IMAGE_TYPE_IMAGE_1D;

  if (description->type == GPU_IMAGE_TYPE_IMAGE_1D_ARRAY)
    description->extent = (GpuExtent) { descriptor->Width, descriptor->Depth, 1 };
}

/* An array does not record whether its integer channels represent normalized numbers. Therefore the
 * caller may specify a format with the same channels. */
static gboolean
read_format (const CUDA_ARRAY3D_DESCRIPTOR  *descriptor,
             const GpuImageFormat           *given,
             GpuImageFormat                 *format,
             GError                        **error)
{
  g_autofree char *there = NULL;
  g_autofree char *wanted = NULL;
  CUarray_format native;
  guint n_channels;

  if (!_gpu_cuda_format_from_native (descriptor->Format, descriptor->NumChannels, format))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "unknown array format 0x%x with %u channels", descriptor->Format,
                   descriptor->NumChannels);
      return FALSE;
    }

  if (given == NULL || gpu_image_format_equal (given, format))
    return TRUE;

  if (_gpu_cuda_format_to_native (given, &native, &n_channels) && native == descriptor->Format
      && n_channels == descriptor->NumChannels)
    {
      *format = *given;
      return TRUE;
    }

  there = gpu_image_format_to_string (format);
  wanted = gpu_image_format_to_string (given);
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "the array has texels of %s, not of %s", there, wanted);

  return FALSE;
}

static GpuNativeImage *
image_wrap (GpuNativeContext      *context,
            guint64                handle,
            const GpuImageFormat  *format,
            GpuWrapMode            mode,
            GError               **error)
{
  CUarray array = (CUarray) (guintptr) handle;
  CUDA_ARRAY3D_DESCRIPTOR descriptor = { 0 };
  GpuImageDescription description = { 0 };
  GpuCudaImage *image;
  gboolean entered;
  CUresult code;

  if (!_gpu_cuda_enter ((GpuCudaContext *) context, &entered, error))
    return NULL;

  code = _gpu_cuda.cuArray3DGetDescriptor (&descriptor, array);
  _gpu_cuda_leave (entered);

  if (code != CUDA_SUCCESS)
    {
      _gpu_cuda_set_error (error, "cuArray3DGetDescriptor", code, "array %p", (gpointer) array);
      return NULL;
    }

  if (!read_format (&descriptor, format, &description.format, error))
    return NULL;

  description.texel_size = gpu_image_format_get_texel_size (&description.format);
  read_shape (&descriptor, &description);
  image = _gpu_cuda_image_new (&description, descriptor.Format, descriptor.NumChannels);
  image->array = array;
  image->owned = mode == GPU_WRAP_MODE_ADOPT;
  image->has_surface = (descriptor.Flags & CUDA_ARRAY3D_SURFACE_LDST) != 0;

  return &image->base;
}

static GpuNativeImage *
image_get_level (GpuNativeContext  *context,
                 GpuNativeImage    *native,
                 guint              level,
                 GError           **error)
{
  GpuCudaImage *image = (GpuCudaImage *) native;
  GpuImageDescription description = native->description;
  CUarray array = image->array;
  CUresult code = CUDA_SUCCESS;
  GpuCudaImage *result;
  gboolean entered;

  if (!_gpu_cuda_enter ((GpuCudaContext *) context, &entered, error))
    return NULL;

  if (image->mipmapped != NULL)
    code = _gpu_cuda.cuMipmappedArrayGetLevel (&array, image->mipmapped, level);

  _gpu_cuda_leave (entered);

  if (code != CUDA_SUCCESS)
    {
      _gpu_cuda_set_error (error, "cuMipmappedArrayGetLevel", code, "level %u of %u", level,
                           description.n_levels);
      return NULL;
    }

  description.extent = _gpu_image_get_level_extent (&native->description, level);
  description.n_levels = 1;
  result = _gpu_cuda_image_new (&description, image->format, image->n_channels);
  result->array = array;
  result->address = image->address;
  result->pitch = image->pitch;
  result->base.base.host = image->base.base.host;
  result->has_surface = image->has_surface;

  if (array == NULL)
    {
      result->base.row_pitch = native->row_pitch;
      result->base.slice_pitch = native->slice_pitch;
      result->base.base.size = native->base.size;
    }

  return &result->base;
}

const GpuImageOps _gpu_cuda_image_ops =
{
  .has_textures      = TRUE,
  .list_formats      = _gpu_cuda_list_formats,
  .get_max_extent    = _gpu_cuda_get_max_extent,
  .create            = image_create,
  .create_for_buffer = image_create_for_buffer,
  .wrap              = image_wrap,
  .get_level         = image_get_level,
  .get_object        = _gpu_cuda_image_get_object,
  .map               = _gpu_cuda_map_image
};

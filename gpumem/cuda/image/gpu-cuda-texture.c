/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Texture and surface objects, with which kernels read and write images. A texture object combines
 * an image with a sampler state, so each image has one texture object per sampler state in use.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/cuda/core/gpu-cuda-current.h"
#include "gpumem/cuda/image/gpu-cuda-image.h"
#include "gpumem/format/gpu-image-type-private.h"

typedef struct
{
  CUDA_TEXTURE_DESC description;    /* a hash key, so unused fields are 0 */
  CUtexObject       object;
} GpuCudaTexture;

static gboolean
is_real (const GpuCudaImage *image)
{
  return image->format == CU_AD_FORMAT_HALF || image->format == CU_AD_FORMAT_FLOAT;
}

static gboolean
is_integer (const GpuImageFormat *format)
{
  return format->channel_type >= GPU_CHANNEL_TYPE_UINT8
         && format->channel_type <= GPU_CHANNEL_TYPE_INT32;
}

/* Returns whether the array has one of the driver's own normalized formats. */
static gboolean
is_normalized (const GpuCudaImage *image)
{
  return image->format >= CU_AD_FORMAT_UNORM_INT8X1 && image->format <= CU_AD_FORMAT_SNORM_INT16X4;
}

/* Returns whether kernels read the texels as integers. The driver never converts 32-bit integers to
 * normalized numbers. */
static gboolean
reads_integers (const GpuCudaImage *image,
                GpuReadMode         mode)
{
  const GpuImageFormat *format = &image->base.description.format;

  if (is_real (image) || is_normalized (image))
    return FALSE;

  if (gpu_image_format_get_channel_size (format) == 4)
    return TRUE;

  return mode == GPU_READ_MODE_ELEMENT || (mode == GPU_READ_MODE_FORMAT && is_integer (format));
}

static gboolean
is_cube (const GpuCudaImage *image)
{
  return image->base.description.type == GPU_IMAGE_TYPE_CUBEMAP
         || image->base.description.type == GPU_IMAGE_TYPE_CUBEMAP_ARRAY;
}

static CUaddress_mode
get_address_mode (GpuAddressMode mode)
{
  switch (mode)
    {
    case GPU_ADDRESS_MODE_CLAMP_TO_BORDER:
      return CU_TR_ADDRESS_MODE_BORDER;
    case GPU_ADDRESS_MODE_REPEAT:
      return CU_TR_ADDRESS_MODE_WRAP;
    case GPU_ADDRESS_MODE_MIRRORED_REPEAT:
      return CU_TR_ADDRESS_MODE_MIRROR;
    case GPU_ADDRESS_MODE_NONE:
    case GPU_ADDRESS_MODE_CLAMP_TO_EDGE:
    default:
      return CU_TR_ADDRESS_MODE_CLAMP;
    }
}

static CUfilter_mode
get_filter_mode (GpuFilterMode mode)
{
  return mode == GPU_FILTER_MODE_LINEAR ? CU_TR_FILTER_MODE_LINEAR : CU_TR_FILTER_MODE_POINT;
}

/* The device treats a 1D image as a 2D image with one row, and samples the edge of that row. If the
 * unused axis had a border, the device would blend in the border color. Therefore unused axes clamp
 * to the edge. */
static void
describe_addressing (const GpuCudaImage          *image,
                     const GpuSamplerDescription *sampler,
                     CUDA_TEXTURE_DESC           *description)
{
  const guint n_axes = _gpu_image_type_get_n_dimensions (image->base.description.type);

  for (guint i = 0; i < G_N_ELEMENTS (description->addressMode); i++)
    description->addressMode[i] = i < n_axes ? get_address_mode (sampler->address_modes[i])
                                             : CU_TR_ADDRESS_MODE_CLAMP;
}

/* Returns whether the texture contains all mip levels. Unnormalized coordinates can only address
 * the first level. */
static gboolean
has_levels (const GpuCudaImage      *image,
            const CUDA_TEXTURE_DESC *description)
{
  return image->mipmapped != NULL
         && (description->flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
}

static void
describe_levels (const GpuCudaImage          *image,
                 const GpuSamplerDescription *sampler,
                 CUDA_TEXTURE_DESC           *description)
{
  float last = (float) (image->base.description.n_levels - 1);

  description->mipmapFilterMode = get_filter_mode (sampler->mip_filter_mode);
  description->mipmapLevelBias = sampler->lod_bias;
  description->minMipmapLevelClamp = MIN (sampler->min_lod, last);
  description->maxMipmapLevelClamp = MIN (sampler->max_lod, last);
}

static guint32
get_integer (double   value,
             gboolean is_signed)
{
  double least = is_signed ? G_MININT32 : 0;
  double most = is_signed ? G_MAXINT32 : G_MAXUINT32;

  return (guint32) (gint64) (value > least ? MIN (rint (value), most) : least);
}

static gboolean
has_border (const CUDA_TEXTURE_DESC *description)
{
  for (guint i = 0; i < G_N_ELEMENTS (description->addressMode); i++)
    {
      if (description->addressMode[i] == CU_TR_ADDRESS_MODE_BORDER)
        return TRUE;
    }

  return FALSE;
}

/* For integer reads, the driver expects the bits of integers in the fields of type float. */
static void
describe_border (const GpuCudaImage          *image,
                 const GpuSamplerDescription *sampler,
                 CUDA_TEXTURE_DESC           *description)
{
  const gboolean is_signed = image->format >= CU_AD_FORMAT_SIGNED_INT8
                             && image->format <= CU_AD_FORMAT_SIGNED_INT32;

  if (!has_border (description))
    return;

  memcpy (description->borderColor, sampler->border_color, sizeof description->borderColor);

  if ((description->flags & CU_TRSF_READ_AS_INTEGER) == 0)
    return;

  for (guint i = 0; i < G_N_ELEMENTS (description->borderColor); i++)
    {
      guint32 bits = get_integer ((double) sampler->border_color[i], is_signed);

      memcpy (&description->borderColor[i], &bits, sizeof bits);
    }
}

/* Omits sampler state that has no effect on the image, so that equivalent samplers share one
 * texture object. */
static void
describe (const GpuCudaImage           *image,
          const GpuSamplerDescription  *sampler,
          gboolean                      lenient,
          CUDA_TEXTURE_DESC            *description)
{
  gboolean as_integers = reads_integers (image, sampler->read_mode);

  memset (description, 0, sizeof *description);

  if (as_integers)
    description->flags |= CU_TRSF_READ_AS_INTEGER;

  if (image->base.description.type == GPU_IMAGE_TYPE_IMAGE_1D_BUFFER)
    {
      for (guint i = 0; i < G_N_ELEMENTS (description->addressMode); i++)
        description->addressMode[i] = CU_TR_ADDRESS_MODE_CLAMP;
      return;
    }

  if (sampler->normalized_coordinates || is_cube (image))
    description->flags |= CU_TRSF_NORMALIZED_COORDINATES;

  describe_addressing (image, sampler, description);
  description->filterMode = get_filter_mode (sampler->filter_mode);
  description->maxAnisotropy = sampler->max_anisotropy > 1 ? sampler->max_anisotropy : 0;
  describe_border (image, sampler, description);

  if (has_levels (image, description))
    describe_levels (image, sampler, description);

  if (lenient && as_integers)
    {
      description->filterMode = CU_TR_FILTER_MODE_POINT;
      description->mipmapFilterMode = CU_TR_FILTER_MODE_POINT;
    }
}

static CUDA_RESOURCE_DESC
get_resource (const GpuCudaImage      *image,
              const CUDA_TEXTURE_DESC *description)
{
  const GpuNativeImage *base = &image->base;
  CUDA_RESOURCE_DESC resource = { 0 };

  if (has_levels (image, description))
    {
      resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
      resource.res.mipmap.hMipmappedArray = image->mipmapped;
    }
  else if (image->array != NULL)
    {
      resource.resType = CU_RESOURCE_TYPE_ARRAY;
      resource.res.array.hArray = image->array;
    }
  else if (base->description.type == GPU_IMAGE_TYPE_IMAGE_1D_BUFFER)
    {
      resource.resType = CU_RESOURCE_TYPE_LINEAR;
      resource.res.linear.devPtr = image->address;
      resource.res.linear.format = image->format;
      resource.res.linear.numChannels = image->n_channels;
      resource.res.linear.sizeInBytes = base->base.size;
    }
  else
    {
      resource.resType = CU_RESOURCE_TYPE_PITCH2D;
      resource.res.pitch2D.devPtr = image->address;
      resource.res.pitch2D.format = image->format;
      resource.res.pitch2D.numChannels = image->n_channels;
      resource.res.pitch2D.width = base->description.extent.width;
      resource.res.pitch2D.height = base->description.extent.height;
      resource.res.pitch2D.pitchInBytes = image->pitch;
    }

  return resource;
}

static void
set_texture_error (GError                      **error,
                   CUresult                      code,
                   const GpuCudaImage           *image,
                   const GpuSamplerDescription  *sampler,
                   const CUDA_TEXTURE_DESC      *description)
{
  g_autofree char *format = gpu_image_format_to_string (&image->base.description.format);
  g_autofree char *type = _gpu_enum_get_nick (GPU_TYPE_IMAGE_TYPE,
                                              (int) image->base.description.type);
  g_autofree char *filter = _gpu_enum_get_nick (GPU_TYPE_FILTER_MODE, (int) sampler->filter_mode);
  char *modes[3];

  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    modes[i] = _gpu_enum_get_nick (GPU_TYPE_ADDRESS_MODE, (int) sampler->address_modes[i]);

  _gpu_cuda_set_error (error, "cuTexObjectCreate", code,
                       "image %s of %s with %u levels, addressing %s, %s and %s, filter %s, flags "
                       "0x%x, anisotropy %u, levels %g to %g", type, format,
                       image->base.description.n_levels, modes[0], modes[1], modes[2], filter,
                       description->flags, description->maxAnisotropy,
                       description->minMipmapLevelClamp, description->maxMipmapLevelClamp);

  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    g_free (modes[i]);
}

static guint
hash_texture (gconstpointer key)
{
  const guint8 *bytes = key;
  guint hash = 5381;

  for (gsize i = 0; i < sizeof (CUDA_TEXTURE_DESC); i++)
    hash = hash * 33 + bytes[i];

  return hash;
}

static gboolean
is_same_texture (gconstpointer a,
                 gconstpointer b)
{
  return memcmp (a, b, sizeof (CUDA_TEXTURE_DESC)) == 0;
}

/* Caller holds `lock` of the image. Texture objects are only destroyed with the image, because
 * callers of gpu_image_get_native_object() may still use them. */
static gboolean
find_locked (GpuCudaImage                 *image,
             const GpuSamplerDescription  *sampler,
             const CUDA_TEXTURE_DESC      *description,
             CUtexObject                  *object,
             GError                      **error)
{
  const CUDA_RESOURCE_DESC resource = get_resource (image, description);
  GpuCudaTexture *texture;
  CUresult code;

  if (image->textures == NULL)
    image->textures = g_hash_table_new_full (hash_texture, is_same_texture, NULL, g_free);

  texture = g_hash_table_lookup (image->textures, description);

  if (texture != NULL)
    {
      *object = texture->object;
      return TRUE;
    }

  code = _gpu_cuda.cuTexObjectCreate (object, &resource, description, NULL);

  if (code != CUDA_SUCCESS)
    {
      set_texture_error (error, code, image, sampler, description);
      return FALSE;
    }

  texture = g_new (GpuCudaTexture, 1);
  texture->description = *description;
  texture->object = *object;
  g_hash_table_insert (image->textures, &texture->description, texture);

  return TRUE;
}

gboolean
_gpu_cuda_image_get_texture (GpuCudaImage                 *image,
                             const GpuSamplerDescription  *sampler,
                             gboolean                      lenient,
                             CUtexObject                  *texture,
                             GError                      **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&image->lock);
  CUDA_TEXTURE_DESC description;

  if (is_normalized (image) && sampler->read_mode == GPU_READ_MODE_ELEMENT && !lenient)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "the array's format 0x%x does not support GPU_READ_MODE_ELEMENT",
                   image->format);
      return FALSE;
    }

  describe (image, sampler, lenient, &description);

  return find_locked (image, sampler, &description, texture, error);
}

/* --- constant samplers of the portable dialect ------------------------------------------------ */

static void
describe_constant (guint                  number,
                   GpuSamplerDescription *sampler)
{
  static const GpuAddressMode modes[] =
  {
    GPU_ADDRESS_MODE_CLAMP_TO_EDGE, GPU_ADDRESS_MODE_CLAMP_TO_BORDER, GPU_ADDRESS_MODE_REPEAT,
    GPU_ADDRESS_MODE_MIRRORED_REPEAT
  };
  guint clk = 0;

  while (GPU_CUDA_SAMPLER_NUMBER (clk) != number)
    clk++;

  *sampler = (GpuSamplerDescription) { .max_anisotropy = 1, .max_lod = G_MAXFLOAT };
  sampler->normalized_coordinates = GPU_CUDA_SAMPLER_IS_NORMALIZED (clk);

  for (guint i = 0; i < G_N_ELEMENTS (sampler->address_modes); i++)
    sampler->address_modes[i] = modes[GPU_CUDA_SAMPLER_OUTSIDE (clk)];

  sampler->filter_mode = GPU_CUDA_SAMPLER_IS_LINEAR (clk) ? GPU_FILTER_MODE_LINEAR
                                                          : GPU_FILTER_MODE_NEAREST;
}

gboolean
_gpu_cuda_image_get_constant (GpuCudaImage  *image,
                              guint          number,
                              CUtexObject   *texture,
                              GError       **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&image->lock);
  GpuSamplerDescription sampler;
  CUDA_TEXTURE_DESC description;

  if (image->constants[number] == 0)
    {
      describe_constant (number, &sampler);
      describe (image, &sampler, TRUE, &description);

      if (!find_locked (image, &sampler, &description, &image->constants[number], error))
        return FALSE;
    }

  *texture = image->constants[number];

  return TRUE;
}

/* --- surfaces --------------------------------------------------------------------------------- */

static void
set_surface_error (GError             **error,
                   CUresult             code,
                   const GpuCudaImage  *image)
{
  const GpuImageDescription *description = &image->base.description;
  g_autofree char *format = gpu_image_format_to_string (&description->format);
  g_autofree char *type = _gpu_enum_get_nick (GPU_TYPE_IMAGE_TYPE, (int) description->type);

  _gpu_cuda_set_error (error, "cuSurfObjectCreate", code,
                       "image %s of %s, %" G_GSIZE_FORMAT " x %" G_GSIZE_FORMAT " x %"
                       G_GSIZE_FORMAT, type, format, description->extent.width,
                       description->extent.height, description->extent.depth);
}

gboolean
_gpu_cuda_image_get_surface (GpuCudaImage  *image,
                             CUsurfObject  *surface,
                             GError       **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&image->lock);
  const CUDA_RESOURCE_DESC resource = { .resType = CU_RESOURCE_TYPE_ARRAY,
                                        .res.array.hArray = image->array };
  CUresult code = CUDA_SUCCESS;

  if (!image->has_surface)
    {
      g_set_error_literal (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, image->array == NULL
                           ? "an image over a buffer has no surface object: kernels write the "
                             "buffer"
                           : "the array was not created with CUDA_ARRAY3D_SURFACE_LDST: kernels "
                             "cannot write it");
      return FALSE;
    }

  if (image->surface == 0)
    code = _gpu_cuda.cuSurfObjectCreate (&image->surface, &resource);

  if (code != CUDA_SUCCESS)
    {
      set_surface_error (error, code, image);
      return FALSE;
    }

  *surface = image->surface;

  return TRUE;
}

gboolean
_gpu_cuda_image_find_object (GpuCudaImage      *image,
                             GpuNativeSampler  *sampler,
                             guint64           *handle,
                             GError           **error)
{
  CUtexObject texture = 0;
  CUsurfObject surface = 0;
  gboolean found = sampler != NULL ? _gpu_cuda_image_get_texture (image, &sampler->description,
                                                                  FALSE, &texture, error)
                                   : _gpu_cuda_image_get_surface (image, &surface, error);

  *handle = sampler != NULL ? texture : surface;

  return found;
}

gboolean
_gpu_cuda_image_get_object (GpuNativeContext  *context,
                            GpuNativeImage    *image,
                            GpuNativeSampler  *sampler,
                            guint64           *handle,
                            GError           **error)
{
  gboolean entered;
  gboolean found;

  if (!_gpu_cuda_enter ((GpuCudaContext *) context, &entered, error))
    return FALSE;

  found = _gpu_cuda_image_find_object ((GpuCudaImage *) image, sampler, handle, error);
  _gpu_cuda_leave (entered);

  return found;
}

void
_gpu_cuda_image_clear_objects (GpuCudaImage *image)
{
  GHashTableIter iter;
  gpointer texture;

  if (image->textures != NULL)
    {
      g_hash_table_iter_init (&iter, image->textures);
      while (g_hash_table_iter_next (&iter, NULL, &texture))
        _gpu_cuda.cuTexObjectDestroy (((GpuCudaTexture *) texture)->object);
    }

  if (image->surface != 0)
    _gpu_cuda.cuSurfObjectDestroy (image->surface);

  image->surface = 0;
}

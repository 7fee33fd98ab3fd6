/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Checks of image arguments, and the native texture and surface objects of images. */
#include "config.h"

#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/format/gpu-texel-private.h"
#include "gpumem/memory/gpu-sampler-private.h"
#include "gpumem/program/gpu-image-argument-private.h"

gboolean
_gpu_image_check_access (GpuImage  *image,
                         gboolean   is_written,
                         GError   **error)
{
  GpuMemoryFlags flags = gpu_memory_get_flags (GPU_MEMORY (image));
  g_autofree char *text = NULL;

  if ((flags & (is_written ? GPU_MEMORY_FLAGS_READ_ONLY : GPU_MEMORY_FLAGS_WRITE_ONLY)) == 0)
    return TRUE;

  text = _gpu_flags_get_nicks (GPU_TYPE_MEMORY_FLAGS, flags);
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "is %s, which the flags of the image, %s, do not allow",
               is_written ? "written" : "read", text);

  return FALSE;
}

/* Devices cannot interpolate integer texels, neither within a mip level nor between mip levels. */
gboolean
_gpu_image_check_texture (GpuImage                     *image,
                          const GpuSamplerDescription  *sampler,
                          GError                      **error)
{
  const GpuImageFormat *format = gpu_image_get_format (image);
  gboolean is_integer = _gpu_texel_get_kind (format) != GPU_TEXEL_REAL;
  gboolean is_filtered = sampler->filter_mode == GPU_FILTER_MODE_LINEAR
                         || (sampler->mip_filter_mode == GPU_FILTER_MODE_LINEAR
                             && gpu_image_get_n_levels (image) > 1);
  const char *what;
  g_autofree char *text = NULL;

  if (!is_integer || sampler->read_mode == GPU_READ_MODE_ELEMENT)
    return TRUE;

  if (sampler->read_mode == GPU_READ_MODE_NORMALIZED)
    what = gpu_image_format_get_channel_size (format) > 2 ? "read as normalized" : NULL;
  else
    what = is_filtered ? "filtered" : NULL;

  if (what == NULL)
    return TRUE;

  text = gpu_image_format_to_string (format);
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "texels of format %s cannot be %s", text, what);

  return FALSE;
}

static gboolean
check_sampler (GpuImage          *image,
               GpuNativeContext  *context,
               GpuSampler        *sampler,
               const char        *function,
               GpuNativeSampler **native,
               GError           **error)
{
  *native = NULL;

  if (!_gpu_image_check_access (image, sampler == NULL, error))
    {
      g_prefix_error (error, "%s: the object ", function);
      return FALSE;
    }

  if (sampler == NULL)
    return TRUE;

  *native = _gpu_sampler_get_native (sampler, function, error);

  if (*native == NULL)
    return FALSE;

  if ((*native)->context != context)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "%s: the sampler belongs to another context, on %s, than the image, on %s",
                   function, (*native)->context->devices[0]->id, context->devices[0]->id);
      return FALSE;
    }

  if (_gpu_image_check_texture (image, &(*native)->description, error))
    return TRUE;

  g_prefix_error (error, "%s: ", function);

  return FALSE;
}

/**
 * gpu_image_get_native_object:
 * @image: a #GpuImage
 * @sampler: (nullable): a sampler of the same context, or %NULL
 * @error: return location for an error
 *
 * Gets the native texture object for @image and @sampler or, if @sampler is %NULL, the native
 * surface object for @image. For programs that launch kernels without the library. CUDA: a
 * CUtexObject from cuTexObjectCreate, or a CUsurfObject from cuSurfObjectCreate.
 *
 * The first call creates the object, and later calls with an equal sampler return the same object.
 * The image owns the object, and destroys it when the memory of the image is freed. The library
 * does not track uses of the object by other code. May be called from any thread; does not block.
 *
 * Returns: the handle; 0 with %GPU_ERROR_NOT_SUPPORTED on OpenCL and the host, where kernels take
 *   the image itself; %GPU_ERROR_INVALID_ARGUMENT if @sampler belongs to another context or filters
 *   integers, if the flags of @image do not allow the access, or if @sampler is %NULL for an image
 *   over a buffer, which has no surface object; %GPU_ERROR_RELEASED; or the driver's error
 *
 * Since: 0.1
 */
guint64
gpu_image_get_native_object (GpuImage    *image,
                             GpuSampler  *sampler,
                             GError     **error)
{
  const char *function = "gpu_image_get_native_object";
  GpuNativeSampler *native;
  const GpuImageOps *ops;
  GpuStorage *storage;
  guint64 handle = 0;

  g_return_val_if_fail (GPU_IS_IMAGE (image), 0);
  g_return_val_if_fail (sampler == NULL || GPU_IS_SAMPLER (sampler), 0);

  storage = _gpu_memory_acquire (GPU_MEMORY (image), function, error);

  if (storage == NULL)
    return 0;

  ops = storage->context->backend->image;

  if (ops->get_object == NULL)
    _gpu_backend_fail (storage->context->backend, function, "texture and surface objects",
                       error);
  else if (check_sampler (image, storage->context, sampler, function, &native, error)
           && !ops->get_object (storage->context, (GpuNativeImage *) storage->buffer, native,
                                &handle, error))
    g_prefix_error (error, "%s: ", function);

  _gpu_storage_unuse (storage);

  return handle;
}

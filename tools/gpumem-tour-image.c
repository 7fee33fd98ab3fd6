/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The steps of the tour that use images and samplers. */
#include "config.h"

#include "tools/gpumem-tour-device.h"

static const GpuImageFormat integers = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UINT8 };
static const GpuImageFormat normalized = { GPU_CHANNEL_ORDER_RGBA, GPU_CHANNEL_TYPE_UNORM8 };

static gboolean
has_images (GpumemWork *work)
{
  GpuDevice *device = gpu_context_get_device (work->context);

  if (gpu_device_get_capabilities (device) & GPU_CAPABILITIES_IMAGES)
    return TRUE;
  g_free (work->note);
  work->note = g_strdup ("no images here");
  return FALSE;
}

static GpuExtent
picture_extent (GpumemWork *work)
{
  return (GpuExtent) { work->tour->picture->width, work->tour->picture->height, 1 };
}

static GpuExtent
resized_extent (GpumemWork *work)
{
  return (GpuExtent) { work->tour->reference->resized_width,
                       work->tour->reference->resized_height, 1 };
}

static GpuImage *
new_image (GpumemWork            *work,
           const GpuImageFormat  *format,
           GpuExtent              extent,
           GError               **error)
{
  return gpu_image_new (work->context, GPU_MEMORY_FLAGS_NONE, format, GPU_IMAGE_TYPE_IMAGE_2D,
                        &extent,
                        error);
}

static gboolean
build (GpumemWork  *work,
       GError     **error)
{
  g_autoptr (GpuProgram) program = gpumem_work_load (work, "/gpumem/tour-image.cl", error);

  return program != NULL &&
         gpumem_work_get_kernel (program, "blur_image", "TSTpii", &work->blur_image_kernel,
                                 error) &&
         gpumem_work_get_kernel (program, "resize", "TST", &work->resize_kernel, error);
}

/* Creates five images, two samplers and two kernels. */
gboolean
gpumem_work_make_images (GpumemWork  *work,
                         GError     **error)
{
  if (!has_images (work))
    return TRUE;
  work->edge = gpu_sampler_new (work->context, FALSE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE,
                                GPU_FILTER_MODE_NEAREST, error);
  if (work->edge == NULL)
    return FALSE;
  work->between = gpu_sampler_new (work->context, TRUE, GPU_ADDRESS_MODE_CLAMP_TO_EDGE,
                                   GPU_FILTER_MODE_LINEAR, error);
  if (work->between == NULL || !build (work, error))
    return FALSE;
  work->note = g_strdup ("5 images, 2 samplers, 2 kernels");
  return (work->image = new_image (work, &integers, picture_extent (work), error)) &&
         (work->image_scratch = new_image (work, &integers, picture_extent (work), error)) &&
         (work->image_blurred = new_image (work, &integers, picture_extent (work), error)) &&
         (work->image_smooth = new_image (work, &normalized, picture_extent (work), error)) &&
         (work->image_resized = new_image (work, &normalized, resized_extent (work), error));
}

static gboolean
copy_into (GpumemWork  *work,
           GpuImage    *image,
           GError     **error)
{
  GpuExtent extent = picture_extent (work);

  return gpu_stream_copy_region (work->first, GPU_MEMORY (image), NULL, GPU_MEMORY (work->input),
                                 NULL, &extent, error);
}

/* Copies the picture from its buffer to an image, and blurs it along the rows and the columns. */
gboolean
gpumem_work_blur_image (GpumemWork  *work,
                        GError     **error)
{
  GpuExtent grid = picture_extent (work);

  if (!has_images (work))
    return TRUE;
  work->moved = 6 * g_bytes_get_size (work->tour->picture->pixels);
  work->note = g_strdup ("through images");
  return copy_into (work, work->image, error) &&
         gpu_stream_launch (work->first, work->blur_image_kernel, &grid, NULL, error, work->image,
                            work->edge, work->image_scratch, work->weights, GPUMEM_BLUR_RADIUS,
                            1) &&
         gpu_stream_launch (work->first, work->blur_image_kernel, &grid, NULL, error,
                            work->image_scratch, work->edge, work->image_blurred, work->weights,
                            GPUMEM_BLUR_RADIUS, 0) &&
         gpu_stream_synchronize (work->first, work->tour->cancellable, error);
}

gboolean
gpumem_work_resize (GpumemWork  *work,
                    GError     **error)
{
  GpuExtent grid = resized_extent (work);

  if (!has_images (work))
    return TRUE;
  work->moved = 4 * grid.width * grid.height +
                3 * g_bytes_get_size (work->tour->picture->pixels);
  work->note = g_strdup_printf ("through a sampler, to %u x %u",
                                work->tour->reference->resized_width,
                                work->tour->reference->resized_height);
  return copy_into (work, work->image_smooth, error) &&
         gpu_stream_launch (work->first, work->resize_kernel, &grid, NULL, error,
                            work->image_smooth, work->between, work->image_resized) &&
         gpu_stream_synchronize (work->first, work->tour->cancellable, error);
}

gboolean
gpumem_work_read_images (GpumemWork  *work,
                         GError     **error)
{
  if (work->image == NULL)
    return TRUE;
  g_clear_pointer (&work->image_result, g_bytes_unref);
  g_clear_pointer (&work->resized_result, g_bytes_unref);
  work->image_result = gpu_image_read_bytes (work->image_blurred, work->first, NULL, NULL,
                                             work->tour->cancellable, error);
  if (work->image_result == NULL)
    return FALSE;
  work->resized_result = gpu_image_read_bytes (work->image_resized, work->first, NULL, NULL,
                                               work->tour->cancellable, error);
  if (work->resized_result == NULL)
    return FALSE;
  work->moved += g_bytes_get_size (work->image_result) + g_bytes_get_size (work->resized_result);
  return TRUE;
}

void
gpumem_work_clear_images (GpumemWork *work)
{
  g_clear_pointer (&work->image_result, g_bytes_unref);
  g_clear_pointer (&work->resized_result, g_bytes_unref);
  g_clear_object (&work->blur_image_kernel);
  g_clear_object (&work->resize_kernel);
  g_clear_object (&work->edge);
  g_clear_object (&work->between);
  g_clear_object (&work->image);
  g_clear_object (&work->image_scratch);
  g_clear_object (&work->image_blurred);
  g_clear_object (&work->image_smooth);
  g_clear_object (&work->image_resized);
}

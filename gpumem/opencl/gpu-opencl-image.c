/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/format/gpu-region-private.h"
#include "gpumem/opencl/driver/gpu-opencl.h"

#define SIZE "%" G_GSIZE_FORMAT

static GpuNativeImage *
create_image (GpuNativeContext           *context,
              cl_mem_flags                flags,
              const GpuImageDescription  *description,
              const cl_image_desc        *descriptor,
              gpointer                    data,
              GError                    **error)
{
  cl_int code;
  cl_mem mem = _gpu_opencl_image_create_mem (context, flags, description, descriptor, data, &code);

  if (code == CL_SUCCESS)
    return _gpu_opencl_image_new (mem, NULL, description, 0, error);

  _gpu_opencl_image_set_error (error, code, context, description, descriptor);
  return NULL;
}

/* Drivers may read the padding after the last row and the last slice, which may be outside mapped
 * memory. Rows with gaps are therefore copied to @packed, which remains NULL if there are no
 * gaps. */
static gboolean
pack_rows (const GpuImageDescription  *description,
           const guint8               *data,
           gsize                       row_pitch,
           gsize                       slice_pitch,
           guint8                    **packed,
           GError                    **error)
{
  const GpuRegionSide side = { .data = (gpointer) data, .row_pitch = row_pitch,
                               .slice_pitch = slice_pitch };
  const GpuExtent *extent = &description->extent;
  const gsize row = extent->width * description->texel_size;

  if ((extent->height == 1 || row_pitch == row)
      && (extent->depth == 1 || slice_pitch == row * extent->height))
    return TRUE;

  *packed = g_try_malloc (row * extent->height * extent->depth);
  if (*packed == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY,
                   "cannot allocate " SIZE " bytes of host memory to remove the gaps between rows",
                   row * extent->height * extent->depth);
      return FALSE;
    }

  _gpu_region_pack (&side, &(GpuExtent) { row, extent->height, extent->depth }, *packed);

  return TRUE;
}

static gboolean
check_levels (GpuNativeContext  *context,
              guint              n_levels,
              GError           **error)
{
  for (guint i = 0; n_levels > 1 && i < context->n_devices; i++)
    {
      if ((context->devices[i]->capabilities & GPU_CAPABILITIES_MIPMAPS) != 0)
        continue;

      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "device %s of the context does not support images with mip levels",
                   context->devices[i]->id);
      return FALSE;
    }

  return TRUE;
}

static GpuNativeImage *
image_create (GpuNativeContext           *context,
              GpuMemoryFlags              flags,
              const GpuImageDescription  *description,
              gconstpointer               data,
              gsize                       row_pitch,
              gsize                       slice_pitch,
              GError                    **error)
{
  const cl_image_desc descriptor = _gpu_opencl_image_get_descriptor (description);
  cl_mem_flags native_flags = _gpu_opencl_get_root_flags (flags);
  g_autofree guint8 *packed = NULL;

  if (!check_levels (context, description->n_levels, error)
      || (data != NULL
          && !pack_rows (description, data, row_pitch, slice_pitch, &packed, error)))
    return NULL;

  if (flags & GPU_MEMORY_FLAGS_ALLOC_HOST)
    native_flags |= CL_MEM_ALLOC_HOST_PTR;
  if (data != NULL)
    native_flags |= CL_MEM_COPY_HOST_PTR;

  return create_image (context, native_flags, description, &descriptor,
                       packed != NULL ? packed : (gpointer) data, error);
}

/* Returns FALSE with an error if host memory has gaps between slices and the driver is NVIDIA's,
 * which reads and maps images as if there were no such gaps. */
static gboolean
check_slices (GpuNativeContext           *context,
              const GpuImageDescription  *description,
              gsize                       row_pitch,
              gsize                       slice_pitch,
              GError                    **error)
{
  if (description->extent.depth == 1 || slice_pitch == row_pitch * description->extent.height
      || strstr (context->devices[0]->platform, "NVIDIA") == NULL)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "the driver of %s does not support gaps between slices in host memory: row pitch "
               SIZE ", " SIZE " rows, slice pitch " SIZE, context->devices[0]->id, row_pitch,
               description->extent.height, slice_pitch);
  return FALSE;
}

static GpuNativeImage *
image_create_for_host (GpuNativeContext           *context,
                       GpuMemoryFlags              flags,
                       const GpuImageDescription  *description,
                       gpointer                    data,
                       gsize                       row_pitch,
                       gsize                       slice_pitch,
                       GError                    **error)
{
  cl_image_desc descriptor = _gpu_opencl_image_get_descriptor (description);
  GpuNativeImage *image;

  /* If each slice is one row, both pitches are the distance between slices. */
  if (description->extent.height == 1 && description->extent.depth > 1)
    row_pitch = slice_pitch;
  if (!check_slices (context, description, row_pitch, slice_pitch, error))
    return NULL;

  /* For the layers of 1D arrays, PoCL uses the row pitch in some operations and the slice pitch in
   * others. Therefore set both to the same value. */
  descriptor.image_row_pitch = row_pitch;
  if (description->type == GPU_IMAGE_TYPE_IMAGE_1D_ARRAY)
    descriptor.image_slice_pitch = row_pitch;
  else if (_gpu_opencl_image_get_n_dimensions (description->type) == 3)
    descriptor.image_slice_pitch = slice_pitch;

  image = create_image (context, _gpu_opencl_get_root_flags (flags) | CL_MEM_USE_HOST_PTR,
                        description, &descriptor, data, error);

  if (image != NULL)
    image->base.in_place = data;

  return image;
}

/* A level shares the cl_mem of the image. Commands specify the level as a part of the origin. */
static GpuNativeImage *
image_get_level (GpuNativeContext  *context G_GNUC_UNUSED,
                 GpuNativeImage    *native,
                 guint              level,
                 GError           **error)
{
  GpuOpenclImage *image = (GpuOpenclImage *) native;
  GpuImageDescription description = native->description;

  if (!_gpu_opencl_mem_retain (image->mem, error))
    return NULL;

  description.extent = _gpu_opencl_image_get_level_extent (&native->description, level);
  description.n_levels = 1;

  return _gpu_opencl_image_new (image->mem, image->buffer, &description, level, error);
}

/* --- size limits ------------------------------------------------------------------------------ */

static GpuExtent
get_device_extent (const GpuOpenclImageLimits *limits,
                   GpuImageType                type)
{
  switch (type)
    {
    case GPU_IMAGE_TYPE_IMAGE_1D:
      return (GpuExtent) { limits->width_2d, 1, 1 };
    case GPU_IMAGE_TYPE_IMAGE_1D_ARRAY:
      return (GpuExtent) { limits->width_2d, limits->n_layers, 1 };
    case GPU_IMAGE_TYPE_IMAGE_1D_BUFFER:
      return (GpuExtent) { limits->over_buffer, 1, 1 };
    case GPU_IMAGE_TYPE_IMAGE_2D:
      return (GpuExtent) { limits->width_2d, limits->height_2d, 1 };
    case GPU_IMAGE_TYPE_IMAGE_2D_ARRAY:
      return (GpuExtent) { limits->width_2d, limits->height_2d, limits->n_layers };
    case GPU_IMAGE_TYPE_IMAGE_3D:
      return (GpuExtent) { limits->width_3d, limits->height_3d, limits->depth_3d };
    default:
      return (GpuExtent) { 0, 0, 0 };
    }
}

static void
image_get_max_extent (GpuNativeContext *context,
                      GpuImageType      type,
                      GpuExtent        *extent)
{
  for (guint i = 0; i < context->n_devices; i++)
    {
      const GpuOpenclDevice *device = (GpuOpenclDevice *) context->devices[i];
      const GpuExtent most = get_device_extent (&device->image_limits, type);

      if (i == 0)
        *extent = most;
      extent->width = MIN (extent->width, most.width);
      extent->height = MIN (extent->height, most.height);
      extent->depth = MIN (extent->depth, most.depth);
    }

  if (extent->width == 0 || extent->height == 0 || extent->depth == 0)
    *extent = (GpuExtent) { 0, 0, 0 };
}

const GpuImageOps _gpu_opencl_image_ops =
{
  .list_formats      = _gpu_opencl_list_formats,
  .get_max_extent    = image_get_max_extent,
  .create            = image_create,
  .create_for_host   = image_create_for_host,
  .create_for_buffer = _gpu_opencl_image_create_for_buffer,
  .wrap              = _gpu_opencl_image_wrap,
  .get_level         = image_get_level,
  .fill              = _gpu_opencl_image_fill,
  .map               = _gpu_opencl_image_map
};

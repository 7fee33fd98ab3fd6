/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The cl_mem of an image: geometry, descriptor and pitches. */
#include "config.h"

#include "gpumem/opencl/driver/gpu-opencl.h"

#define SIZE "%" G_GSIZE_FORMAT
#define TEXELS SIZE " x " SIZE " x " SIZE " texels"
#define EXTENT_ARGS(extent) (extent)->width, (extent)->height, (extent)->depth

guint
_gpu_opencl_image_get_n_dimensions (GpuImageType type)
{
  switch (type)
    {
    case GPU_IMAGE_TYPE_IMAGE_1D:
    case GPU_IMAGE_TYPE_IMAGE_1D_BUFFER:
      return 1;
    case GPU_IMAGE_TYPE_IMAGE_1D_ARRAY:
    case GPU_IMAGE_TYPE_IMAGE_2D:
      return 2;
    default:
      return 3;
    }
}

GpuExtent
_gpu_opencl_image_get_level_extent (const GpuImageDescription *description,
                                    guint                      level)
{
  GpuExtent extent = description->extent;

  extent.width = MAX (extent.width >> level, 1);
  if (description->type != GPU_IMAGE_TYPE_IMAGE_1D_ARRAY)
    extent.height = MAX (extent.height >> level, 1);
  if (description->type == GPU_IMAGE_TYPE_IMAGE_3D)
    extent.depth = MAX (extent.depth >> level, 1);

  return extent;
}

/* Returns the size of all mip levels, without padding. */
static gsize
get_size (const GpuImageDescription *description)
{
  gsize size = 0;

  for (guint i = 0; i < description->n_levels; i++)
    {
      const GpuExtent extent = _gpu_opencl_image_get_level_extent (description, i);

      size += extent.width * extent.height * extent.depth * description->texel_size;
    }

  return size;
}

void
_gpu_opencl_image_get_origin (const GpuOpenclImage *image,
                              const GpuRegionSide  *side,
                              gsize                *origin)
{
  origin[0] = side->x;
  origin[1] = side->y;
  origin[2] = side->z;
  origin[3] = 0;
  if (image->level > 0)
    origin[_gpu_opencl_image_get_n_dimensions (image->base.description.type)] = image->level;
}

gboolean
_gpu_opencl_image_get (cl_mem          mem,
                       cl_image_info   info,
                       gpointer        value,
                       gsize           size,
                       GError        **error)
{
  cl_int code = clGetImageInfo (mem, info, size, value, NULL);

  if (code == CL_SUCCESS)
    return TRUE;

  _gpu_opencl_set_error (error, "clGetImageInfo", code, "image %p, info 0x%04x", (gpointer) mem,
                         info);
  return FALSE;
}

/* Reads the pitches from the driver, which reports 0 for some images. The layers of a 1D array
 * count as rows. */
static gboolean
read_pitches (GpuOpenclImage  *image,
              GError         **error)
{
  const GpuImageDescription *description = &image->base.description;
  gsize row_pitch = 0;
  gsize slice_pitch = 0;

  if (image->level == 0
      && (!_gpu_opencl_image_get (image->mem, CL_IMAGE_ROW_PITCH, &row_pitch, sizeof row_pitch,
                                  error)
          || !_gpu_opencl_image_get (image->mem, CL_IMAGE_SLICE_PITCH, &slice_pitch,
                                     sizeof slice_pitch, error)))
    return FALSE;

  if (description->type == GPU_IMAGE_TYPE_IMAGE_1D_ARRAY)
    {
      row_pitch = MAX (row_pitch, slice_pitch);
      slice_pitch = 0;
    }

  image->base.row_pitch = MAX (row_pitch, description->extent.width * description->texel_size);
  image->base.slice_pitch = MAX (slice_pitch,
                                 image->base.row_pitch * description->extent.height);

  return TRUE;
}

/* Finds the root buffer of the chain that the image was created from, which identifies the storage.
 * An image with another identity would not be ordered after other uses of that storage. */
static gboolean
find_root (GpuOpenclImage  *image,
           GError         **error)
{
  cl_mem mem = _gpu_opencl_memory_target (&image->base.base);

  while (mem != NULL)
    {
      cl_mem parent;
      gsize offset;

      if (!_gpu_opencl_mem_find_parent (mem, &parent, &offset, error))
        return FALSE;

      image->root = mem;
      image->root_offset += offset;
      mem = parent;
    }

  return TRUE;
}

GpuNativeImage *
_gpu_opencl_image_new (cl_mem                      mem,
                       cl_mem                      buffer,
                       const GpuImageDescription  *description,
                       guint                       level,
                       GError                    **error)
{
  GpuOpenclImage *image = g_new0 (GpuOpenclImage, 1);

  image->base.base.backend = &_gpu_opencl_backend;
  image->base.base.size = get_size (description);
  image->base.base.is_image = TRUE;
  image->base.description = *description;
  image->mem = mem;
  image->buffer = buffer;
  image->level = level;

  if (!read_pitches (image, error) || !find_root (image, error))
    {
      clReleaseMemObject (mem);
      g_free (image);
      return NULL;
    }

  return &image->base;
}

cl_image_desc
_gpu_opencl_image_get_descriptor (const GpuImageDescription *description)
{
  cl_image_desc descriptor =
  {
    .image_type  = _gpu_opencl_image_type_to_cl (description->type),
    .image_width = description->extent.width
  };

  if (description->type == GPU_IMAGE_TYPE_IMAGE_1D_ARRAY)
    descriptor.image_array_size = description->extent.height;
  else
    descriptor.image_height = description->extent.height;
  if (description->type == GPU_IMAGE_TYPE_IMAGE_2D_ARRAY)
    descriptor.image_array_size = description->extent.depth;
  else
    descriptor.image_depth = description->extent.depth;
  /* Leave num_mip_levels 0 for a single level: PoCL ends the process if it is not 0. */
  if (description->n_levels > 1)
    descriptor.num_mip_levels = description->n_levels;

  return descriptor;
}

cl_mem
_gpu_opencl_image_create_mem (GpuNativeContext           *context,
                              cl_mem_flags                flags,
                              const GpuImageDescription  *description,
                              const cl_image_desc        *descriptor,
                              gpointer                    data,
                              cl_int                     *code)
{
  cl_image_format format;

  if (!_gpu_opencl_format_to_cl (&description->format, &format))
    {
      *code = CL_IMAGE_FORMAT_NOT_SUPPORTED;
      return NULL;
    }

  return clCreateImage (_gpu_opencl_context_handle (context), flags, &format, descriptor, data,
                        code);
}

void
_gpu_opencl_image_set_error (GError                    **error,
                             cl_int                      code,
                             GpuNativeContext           *context,
                             const GpuImageDescription  *description,
                             const cl_image_desc        *descriptor)
{
  g_autofree char *format = gpu_image_format_to_string (&description->format);
  GpuError meaning = _gpu_opencl_error_map (code);

  /* The caller refuses invalid sizes, so this size is too large for the device. */
  if (code == CL_INVALID_BUFFER_SIZE)
    meaning = GPU_ERROR_OUT_OF_DEVICE_MEMORY;
  _gpu_opencl_set_error_as (error, meaning, "clCreateImage", code,
                            "type 0x%04x, format %s, " TEXELS ", %u levels, row pitch " SIZE
                            ", slice pitch " SIZE "; " SIZE " bytes requested, " SIZE
                            " bytes held by the context on %s", descriptor->image_type, format,
                            EXTENT_ARGS (&description->extent), description->n_levels,
                            descriptor->image_row_pitch, descriptor->image_slice_pitch,
                            get_size (description),
                            (gsize) g_atomic_pointer_get (&context->allocated),
                            context->devices[0]->id);
}

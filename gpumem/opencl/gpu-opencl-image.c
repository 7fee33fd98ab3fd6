/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "gpumem/opencl/gpu-opencl.h"

#define SIZE "%" G_GSIZE_FORMAT
#define TEXELS SIZE " x " SIZE " x " SIZE " texels"
#define EXTENT_ARGS(extent) (extent)->width, (extent)->height, (extent)->depth

/* Those of a layer and, behind them, the one that counts layers. */
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

static GpuExtent
get_level_extent (const GpuImageDescription *description,
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

/* Without gaps, all levels. */
static gsize
get_size (const GpuImageDescription *description)
{
  gsize size = 0;

  for (guint i = 0; i < description->n_levels; i++)
    {
      const GpuExtent extent = get_level_extent (description, i);

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

/* --- making them ------------------------------------------------------------------------------ */

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

/* What the driver tells, where it does: the layers of an array of one dimension count as rows. */
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

  if (!read_pitches (image, error))
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
  /* PoCL ends the process if there is any. */
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

  /* Sizes that no image can have were refused before. */
  if (code == CL_INVALID_BUFFER_SIZE)
    meaning = GPU_ERROR_OUT_OF_DEVICE_MEMORY;
  _gpu_opencl_set_error_as (error, meaning, "clCreateImage", code,
                            "type 0x%04x, format %s, " TEXELS ", %u levels, row pitch " SIZE
                            ", slice pitch " SIZE "; " SIZE " bytes asked for, " SIZE
                            " bytes held by the context on %s", descriptor->image_type, format,
                            EXTENT_ARGS (&description->extent), description->n_levels,
                            descriptor->image_row_pitch, descriptor->image_slice_pitch,
                            get_size (description),
                            (gsize) g_atomic_pointer_get (&context->allocated),
                            context->devices[0]->id);
}

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

/* A driver may read all of the last row's pitch, and of the last slice's, which need not be there:
 * rows with gaps are copied together into @packed, which stays NULL for those without. */
static gboolean
pack_rows (const GpuImageDescription  *description,
           const guint8               *data,
           gsize                       row_pitch,
           gsize                       slice_pitch,
           guint8                    **packed,
           GError                    **error)
{
  const GpuExtent *extent = &description->extent;
  const gsize row = extent->width * description->texel_size;

  if ((extent->height == 1 || row_pitch == row)
      && (extent->depth == 1 || slice_pitch == row * extent->height))
    return TRUE;

  *packed = g_try_malloc (row * extent->height * extent->depth);
  if (*packed == NULL)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY,
                   "no " SIZE " bytes of the host to copy rows with gaps together",
                   row * extent->height * extent->depth);
      return FALSE;
    }

  for (gsize z = 0; z < extent->depth; z++)
    {
      for (gsize y = 0; y < extent->height; y++)
        memcpy (*packed + (z * extent->height + y) * row, data + z * slice_pitch + y * row_pitch,
                row);
    }

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
                   "device %s of the context has no images with mip levels",
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

  if (flags & GPU_MEMORY_ALLOC_HOST)
    native_flags |= CL_MEM_ALLOC_HOST_PTR;
  if (data != NULL)
    native_flags |= CL_MEM_COPY_HOST_PTR;

  return create_image (context, native_flags, description, &descriptor,
                       packed != NULL ? packed : (gpointer) data, error);
}

/* The driver of NVIDIA reads and maps slices as if there were no gaps between them. */
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
               "the driver of %s takes no gaps between slices in memory of the host: row pitch "
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

  /* Of single rows one pitch is as good as the other. */
  if (description->extent.height == 1 && description->extent.depth > 1)
    row_pitch = slice_pitch;
  if (!check_slices (context, description, row_pitch, slice_pitch, error))
    return NULL;

  /* Layers of one dimension lie by either pitch: PoCL takes now this one, now that one. */
  descriptor.image_row_pitch = row_pitch;
  if (description->type == GPU_IMAGE_TYPE_IMAGE_1D_ARRAY)
    descriptor.image_slice_pitch = row_pitch;
  else if (_gpu_opencl_image_get_n_dimensions (description->type) == 3)
    descriptor.image_slice_pitch = slice_pitch;

  return create_image (context, _gpu_opencl_get_root_flags (flags) | CL_MEM_USE_HOST_PTR,
                       description, &descriptor, data, error);
}

/* The level goes with the origins of commands. */
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

  description.extent = get_level_extent (&native->description, level);
  description.n_levels = 1;

  return _gpu_opencl_image_new (image->mem, image->buffer, &description, level, error);
}

/* --- how large -------------------------------------------------------------------------------- */

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

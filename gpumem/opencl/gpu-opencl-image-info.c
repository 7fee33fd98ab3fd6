/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Attributes of images, and wrapping of foreign images. */
#include "config.h"

#include "gpumem/opencl/driver/gpu-opencl.h"

#define SIZE "%" G_GSIZE_FORMAT

/* Returns the name of the format, or its channel order and type as numbers if it has no name. */
static GVariant *
from_format (const cl_image_format *native)
{
  GpuImageFormat format;

  if (_gpu_opencl_format_from_cl (native, &format))
    return g_variant_new_take_string (gpu_image_format_to_string (&format));

  return g_variant_new_take_string (g_strdup_printf ("0x%04x-0x%04x", native->image_channel_order,
                                                     native->image_channel_data_type));
}

gboolean
_gpu_opencl_image_get_attributes (GpuOpenclImage  *image,
                                  GVariantDict    *attributes,
                                  GError         **error)
{
  static const struct
  {
    const char    *nick;
    cl_image_info  info;
    char           type;    /* z for a size or a pointer, u for a number, f for the format */
  } entries[] =
  {
    { "format", CL_IMAGE_FORMAT, 'f' },
    { "element-size", CL_IMAGE_ELEMENT_SIZE, 'z' },
    { "row-pitch", CL_IMAGE_ROW_PITCH, 'z' },
    { "slice-pitch", CL_IMAGE_SLICE_PITCH, 'z' },
    { "width", CL_IMAGE_WIDTH, 'z' },
    { "height", CL_IMAGE_HEIGHT, 'z' },
    { "depth", CL_IMAGE_DEPTH, 'z' },
    { "array-size", CL_IMAGE_ARRAY_SIZE, 'z' },
    { "buffer", CL_IMAGE_BUFFER, 'z' },
    { "num-mip-levels", CL_IMAGE_NUM_MIP_LEVELS, 'u' },
    { "num-samples", CL_IMAGE_NUM_SAMPLES, 'u' }
  };

  for (gsize i = 0; i < G_N_ELEMENTS (entries); i++)
    {
      union
      {
        cl_image_format format;
        cl_uint         number;
        gsize           size;
      } value = { { 0, 0 } };
      const char type = entries[i].type;
      gsize size = type == 'f' ? sizeof value.format : type == 'u' ? sizeof value.number :
                   sizeof value.size;
      cl_int code = clGetImageInfo (image->mem, entries[i].info, size, &value, NULL);

      /* Skip infos that the driver does not implement. */
      if (code == CL_INVALID_VALUE)
        continue;
      if (code != CL_SUCCESS)
        {
          _gpu_opencl_set_error (error, "clGetImageInfo", code, "image %p, info 0x%04x",
                                 (gpointer) image->mem, entries[i].info);
          return FALSE;
        }

      g_variant_dict_insert_value (attributes, entries[i].nick,
                                   type == 'f' ? from_format (&value.format) :
                                   type == 'u' ? g_variant_new_uint32 (value.number) :
                                   g_variant_new_uint64 (value.size));
    }

  return TRUE;
}

/* --- wrapping --------------------------------------------------------------------------------- */

static gboolean
read_format (cl_mem                 mem,
             const GpuImageFormat  *expected,
             GpuImageDescription   *description,
             GError               **error)
{
  g_autofree char *text = NULL;
  g_autofree char *expected_text = NULL;
  cl_image_format native = { 0, 0 };
  gsize texel_size = 0;

  if (!_gpu_opencl_image_get (mem, CL_IMAGE_FORMAT, &native, sizeof native, error)
      || !_gpu_opencl_image_get (mem, CL_IMAGE_ELEMENT_SIZE, &texel_size, sizeof texel_size,
                                 error))
    return FALSE;

  if (!_gpu_opencl_format_from_cl (&native, &description->format)
      || texel_size != gpu_image_format_get_texel_size (&description->format))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "image %p has channel order 0x%04x, channel type 0x%04x and texels of " SIZE
                   " bytes, a format that this library does not support", (gpointer) mem,
                   native.image_channel_order, native.image_channel_data_type, texel_size);
      return FALSE;
    }

  description->texel_size = texel_size;

  if (expected == NULL || gpu_image_format_equal (expected, &description->format))
    return TRUE;

  text = gpu_image_format_to_string (&description->format);
  expected_text = gpu_image_format_to_string (expected);
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "image %p has format %s, not %s",
               (gpointer) mem, text, expected_text);
  return FALSE;
}

static gboolean
read_extent (cl_mem                mem,
             GpuImageDescription  *description,
             GError              **error)
{
  const gboolean is_row_array = description->type == GPU_IMAGE_TYPE_IMAGE_1D_ARRAY;
  const guint n_dimensions = _gpu_opencl_image_get_n_dimensions (description->type);
  const cl_image_info infos[] =
  {
    CL_IMAGE_WIDTH,
    is_row_array ? CL_IMAGE_ARRAY_SIZE : CL_IMAGE_HEIGHT,
    description->type == GPU_IMAGE_TYPE_IMAGE_2D_ARRAY ? CL_IMAGE_ARRAY_SIZE : CL_IMAGE_DEPTH
  };
  gsize sizes[] = { 1, 1, 1 };

  for (guint i = 0; i < n_dimensions; i++)
    {
      if (!_gpu_opencl_image_get (mem, infos[i], &sizes[i], sizeof sizes[i], error))
        return FALSE;

      sizes[i] = MAX (sizes[i], 1);
    }

  description->extent = (GpuExtent) { sizes[0], sizes[1], sizes[2] };

  return TRUE;
}

static gboolean
read_levels (cl_mem                mem,
             GpuImageDescription  *description,
             GError              **error)
{
  cl_uint n_levels = 0;
  cl_uint n_samples = 0;

  if (!_gpu_opencl_image_get (mem, CL_IMAGE_NUM_MIP_LEVELS, &n_levels, sizeof n_levels, error)
      || !_gpu_opencl_image_get (mem, CL_IMAGE_NUM_SAMPLES, &n_samples, sizeof n_samples, error))
    return FALSE;

  description->n_levels = MAX (n_levels, 1);

  if (n_samples <= 1)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "image %p has %u samples per texel: multisampled images cannot be copied",
               (gpointer) mem, n_samples);
  return FALSE;
}

static gboolean
read_description (GpuNativeContext      *context,
                  cl_mem                 mem,
                  const GpuImageFormat  *format,
                  GpuImageDescription   *description,
                  GError               **error)
{
  cl_mem_object_type type = 0;

  if (!_gpu_opencl_mem_get (mem, CL_MEM_TYPE, &type, sizeof type, error))
    return FALSE;

  if (!_gpu_opencl_image_type_from_cl (type, &description->type))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "memory object %p is not an image: its type is 0x%04x", (gpointer) mem, type);
      return FALSE;
    }

  return _gpu_opencl_mem_check (context, mem, error)
         && read_format (mem, format, description, error)
         && read_extent (mem, description, error) && read_levels (mem, description, error);
}

/* Gets the buffer that a 1D_BUFFER image was created from. */
static gboolean
read_buffer (GpuNativeContext           *context,
             cl_mem                      mem,
             const GpuImageDescription  *description,
             cl_mem                     *buffer,
             GError                    **error)
{
  *buffer = NULL;
  if (description->type != GPU_IMAGE_TYPE_IMAGE_1D_BUFFER)
    return TRUE;

  if (!_gpu_opencl_mem_get (mem, CL_MEM_ASSOCIATED_MEMOBJECT, buffer, sizeof *buffer, error)
      || (*buffer == NULL
          && !_gpu_opencl_image_get (mem, CL_IMAGE_BUFFER, buffer, sizeof *buffer, error)))
    return FALSE;

  if (*buffer != NULL)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
               "the driver of %s does not report the buffer of image %p",
               context->devices[0]->id, (gpointer) mem);
  return FALSE;
}

GpuNativeImage *
_gpu_opencl_image_wrap (GpuNativeContext      *context,
                        guint64                handle,
                        const GpuImageFormat  *format,
                        GpuWrapMode            mode,
                        GError               **error)
{
  cl_mem mem = (cl_mem) (guintptr) handle;
  GpuImageDescription description = { .n_levels = 1 };
  GpuNativeImage *image;
  cl_mem buffer = NULL;

  if (!read_description (context, mem, format, &description, error)
      || !read_buffer (context, mem, &description, &buffer, error)
      /* Take a reference for the new object. On failure the caller keeps its own reference. */
      || !_gpu_opencl_mem_retain (mem, error))
    return NULL;

  image = _gpu_opencl_image_new (mem, buffer, &description, 0, error);

  if (image != NULL && mode == GPU_WRAP_MODE_ADOPT)
    clReleaseMemObject (mem);

  return image;
}

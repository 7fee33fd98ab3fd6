/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Images and samplers as kernel arguments. In the portable dialect, an image argument is a
 * structure. If the kernel reads the image, the structure has an array with a texture object for
 * each sampler. The index is the number of the sampler. The lowest numbers belong to the constant
 * samplers: the value of a constant sampler determines its number. The sampler arguments follow, in
 * the order of the arguments. Samplers that the kernel does not use have no texture object. If the
 * kernel writes the image, the structure has a surface object or an address. In CUDA C++, the
 * argument is a single texture or surface object.
 */
#include "config.h"

#include <string.h>

#include "gpumem/cuda/image/gpu-cuda-image.h"
#include "gpumem/cuda/program/gpu-cuda-program.h"

/* These three structures match those of gpu-cuda-prelude-image.c. */
typedef struct
{
  gint32  width;
  gint32  height;
  gint32  depth;
  guint16 order;
  guint16 data_type;
  guint32 n_channels;
  guint32 texel_size;
} ImageHead;

typedef struct
{
  ImageHead head;
  guint64   textures[GPU_CUDA_N_SAMPLERS];
} ReadImage;

typedef struct
{
  ImageHead head;
  guint64   surface;
  guint64   address;
  guint64   row_pitch;
} WriteImage;

static const struct
{
  char        type;
  const char *name;
}
image_types[] =
{
  { '1', "image1d_t" },
  { 'a', "image1d_array_t" },
  { 'b', "image1d_buffer_t" },
  { '2', "image2d_t" },
  { 'A', "image2d_array_t" },
  { '3', "image3d_t" }
};

const char *
_gpu_cuda_image_get_type_name (char type)
{
  for (gsize i = 0; i < G_N_ELEMENTS (image_types); i++)
    {
      if (image_types[i].type == type)
        return image_types[i].name;
    }

  return NULL;
}

guint
_gpu_cuda_image_get_n_words (char     kind,
                             char     type,
                             gsize    size,
                             gboolean read_only)
{
  gsize wanted = read_only ? sizeof (ReadImage) : sizeof (WriteImage);

  if (kind != 'i' || size != wanted || _gpu_cuda_image_get_type_name (type) == NULL)
    return 0;

  return (guint) (size / sizeof (guint64));
}

/* Sets the channel order and the data type of @head to the values of OpenCL. */
static void
describe_format (const GpuImageFormat *format,
                 ImageHead            *head)
{
  static const struct
  {
    GpuChannelType type;
    guint16        value;
  }
  types[] =
  {
    { GPU_CHANNEL_TYPE_SNORM8, 0x10d0 }, { GPU_CHANNEL_TYPE_SNORM16, 0x10d1 },
    { GPU_CHANNEL_TYPE_UNORM8, 0x10d2 }, { GPU_CHANNEL_TYPE_UNORM16, 0x10d3 },
    { GPU_CHANNEL_TYPE_INT8, 0x10d7 }, { GPU_CHANNEL_TYPE_INT16, 0x10d8 },
    { GPU_CHANNEL_TYPE_INT32, 0x10d9 }, { GPU_CHANNEL_TYPE_UINT8, 0x10da },
    { GPU_CHANNEL_TYPE_UINT16, 0x10db }, { GPU_CHANNEL_TYPE_UINT32, 0x10dc },
    { GPU_CHANNEL_TYPE_FLOAT16, 0x10dd }, { GPU_CHANNEL_TYPE_FLOAT32, 0x10de }
  };

  head->n_channels = gpu_image_format_get_n_channels (format);
  head->order = head->n_channels == 4 ? 0x10b5 : head->n_channels == 2 ? 0x10b2 : 0x10b0;

  for (gsize i = 0; i < G_N_ELEMENTS (types); i++)
    {
      if (types[i].type == format->channel_type)
        head->data_type = types[i].value;
    }
}

static void
describe (const GpuCudaImage *image,
          ImageHead          *head)
{
  const GpuImageDescription *description = &image->base.description;

  head->width = (gint32) description->extent.width;
  head->height = (gint32) description->extent.height;
  head->depth = (gint32) description->extent.depth;
  head->texel_size = (guint32) description->texel_size;
  describe_format (&description->format, head);
}

static gboolean
fill_read_image (const GpuCudaKernel     *kernel,
                 const GpuArgumentValue  *values,
                 guint                    n_values,
                 GpuCudaImage            *image,
                 ReadImage               *result,
                 GError                 **error)
{
  guint n = GPU_CUDA_N_CONSTANT_SAMPLERS;
  /* Reads without a sampler use the first constant sampler. */
  guint constants = kernel->constant_samplers | 1;
  CUtexObject texture;

  memset (result, 0, sizeof *result);
  describe (image, &result->head);

  for (guint i = 0; i < GPU_CUDA_N_CONSTANT_SAMPLERS; i++)
    {
      if ((constants & (1u << i)) == 0)
        continue;

      if (!_gpu_cuda_image_get_constant (image, i, &texture, error))
        return FALSE;

      result->textures[i] = texture;
    }

  for (guint i = 0; i < n_values && n < GPU_CUDA_N_SAMPLERS; i++)
    {
      if (values[i].kind != GPU_ARGUMENT_KIND_SAMPLER)
        continue;

      if (!_gpu_cuda_image_get_texture (image, &values[i].sampler->description, TRUE, &texture,
                                        error))
        return FALSE;

      result->textures[n++] = texture;
    }

  return TRUE;
}

static gboolean
fill_write_image (GpuCudaImage  *image,
                  WriteImage    *result,
                  GError       **error)
{
  CUsurfObject surface = 0;

  memset (result, 0, sizeof *result);
  describe (image, &result->head);

  if (image->array != NULL && !_gpu_cuda_image_get_surface (image, &surface, error))
    return FALSE;

  result->surface = surface;
  result->address = image->address;
  result->row_pitch = image->base.row_pitch;

  return TRUE;
}

static guint32
get_sampler (const GpuArgumentValue *values,
             guint                   index)
{
  guint32 number = GPU_CUDA_N_CONSTANT_SAMPLERS;

  for (guint i = 0; i < index; i++)
    number += values[i].kind == GPU_ARGUMENT_KIND_SAMPLER;

  if (values[index].sampler->description.normalized_coordinates)
    number |= 1u << GPU_CUDA_SAMPLER_SHIFT;

  return number;
}

gboolean
_gpu_cuda_launch_set_object (const GpuCudaKernel     *kernel,
                             const GpuArgumentValue  *values,
                             guint                    n_values,
                             guint                    index,
                             guint64                 *slot,
                             guint64                **words,
                             void                   **argument,
                             GError                 **error)
{
  const GpuArgumentInfo *info = &kernel->base.arguments[index];
  const GpuArgumentValue *value = &values[index];
  GpuCudaImage *image = (GpuCudaImage *) value->image;
  gboolean filled;

  *argument = slot;

  if (value->kind == GPU_ARGUMENT_KIND_SAMPLER)
    {
      *(guint32 *) slot = get_sampler (values, index);
      return TRUE;
    }

  if (info->kind != GPU_ARGUMENT_KIND_IMAGE)
    {
      filled = _gpu_cuda_image_find_object (image, value->sampler, slot, error);
    }
  else
    {
      *argument = *words;
      *words += (info->read_only ? sizeof (ReadImage) : sizeof (WriteImage)) / sizeof (guint64);
      filled = info->read_only ? fill_read_image (kernel, values, n_values, image, *argument, error)
                               : fill_write_image (image, *argument, error);
    }

  if (!filled)
    g_prefix_error (error, "kernel \"%s\", argument %u: ", kernel->name, index);

  return filled;
}

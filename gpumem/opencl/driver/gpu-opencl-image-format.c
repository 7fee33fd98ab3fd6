/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Conversion of image formats and types from and to OpenCL. */
#include "config.h"

#include <math.h>
#include <string.h>

#include "gpumem/format/gpu-texel-private.h"
#include "gpumem/opencl/driver/gpu-opencl.h"

/* The first version of PoCL that supports images with one half-float channel in kernels. */
#define POCL_WITH_HALVES 7

static const struct
{
  GpuChannelOrder  order;
  cl_channel_order native;
}
orders[] =
{
  { GPU_CHANNEL_ORDER_R, CL_R },
  { GPU_CHANNEL_ORDER_A, CL_A },
  { GPU_CHANNEL_ORDER_RG, CL_RG },
  { GPU_CHANNEL_ORDER_RA, CL_RA },
  { GPU_CHANNEL_ORDER_RGB, CL_RGB },
  { GPU_CHANNEL_ORDER_RGBA, CL_RGBA },
  { GPU_CHANNEL_ORDER_BGRA, CL_BGRA },
  { GPU_CHANNEL_ORDER_ARGB, CL_ARGB },
  { GPU_CHANNEL_ORDER_ABGR, CL_ABGR },
  { GPU_CHANNEL_ORDER_INTENSITY, CL_INTENSITY },
  { GPU_CHANNEL_ORDER_LUMINANCE, CL_LUMINANCE },
  { GPU_CHANNEL_ORDER_DEPTH, CL_DEPTH },
  { GPU_CHANNEL_ORDER_SRGBA, CL_sRGBA },
  { GPU_CHANNEL_ORDER_SBGRA, CL_sBGRA }
};

static const struct
{
  GpuChannelType  type;
  cl_channel_type native;
}
types[] =
{
  { GPU_CHANNEL_TYPE_UNORM8, CL_UNORM_INT8 },
  { GPU_CHANNEL_TYPE_UNORM16, CL_UNORM_INT16 },
  { GPU_CHANNEL_TYPE_SNORM8, CL_SNORM_INT8 },
  { GPU_CHANNEL_TYPE_SNORM16, CL_SNORM_INT16 },
  { GPU_CHANNEL_TYPE_UINT8, CL_UNSIGNED_INT8 },
  { GPU_CHANNEL_TYPE_UINT16, CL_UNSIGNED_INT16 },
  { GPU_CHANNEL_TYPE_UINT32, CL_UNSIGNED_INT32 },
  { GPU_CHANNEL_TYPE_INT8, CL_SIGNED_INT8 },
  { GPU_CHANNEL_TYPE_INT16, CL_SIGNED_INT16 },
  { GPU_CHANNEL_TYPE_INT32, CL_SIGNED_INT32 },
  { GPU_CHANNEL_TYPE_FLOAT16, CL_HALF_FLOAT },
  { GPU_CHANNEL_TYPE_FLOAT32, CL_FLOAT },
  { GPU_CHANNEL_TYPE_UNORM_565, CL_UNORM_SHORT_565 },
  { GPU_CHANNEL_TYPE_UNORM_555, CL_UNORM_SHORT_555 },
  { GPU_CHANNEL_TYPE_UNORM_101010, CL_UNORM_INT_101010 }
};

/* OpenCL has no cube images. */
static const struct
{
  GpuImageType       type;
  cl_mem_object_type native;
}
image_types[] =
{
  { GPU_IMAGE_TYPE_IMAGE_1D, CL_MEM_OBJECT_IMAGE1D },
  { GPU_IMAGE_TYPE_IMAGE_1D_ARRAY, CL_MEM_OBJECT_IMAGE1D_ARRAY },
  { GPU_IMAGE_TYPE_IMAGE_1D_BUFFER, CL_MEM_OBJECT_IMAGE1D_BUFFER },
  { GPU_IMAGE_TYPE_IMAGE_2D, CL_MEM_OBJECT_IMAGE2D },
  { GPU_IMAGE_TYPE_IMAGE_2D_ARRAY, CL_MEM_OBJECT_IMAGE2D_ARRAY },
  { GPU_IMAGE_TYPE_IMAGE_3D, CL_MEM_OBJECT_IMAGE3D }
};

gboolean
_gpu_opencl_format_from_cl (const cl_image_format *native,
                            GpuImageFormat        *format)
{
  gsize order = 0;
  gsize type = 0;

  while (order < G_N_ELEMENTS (orders) && orders[order].native != native->image_channel_order)
    order++;
  while (type < G_N_ELEMENTS (types) && types[type].native != native->image_channel_data_type)
    type++;

  if (order == G_N_ELEMENTS (orders) || type == G_N_ELEMENTS (types))
    return FALSE;

  format->channel_order = orders[order].order;
  format->channel_type = types[type].type;

  return TRUE;
}

gboolean
_gpu_opencl_format_to_cl (const GpuImageFormat *format,
                          cl_image_format      *native)
{
  gsize order = 0;
  gsize type = 0;

  while (order < G_N_ELEMENTS (orders) && orders[order].order != format->channel_order)
    order++;
  while (type < G_N_ELEMENTS (types) && types[type].type != format->channel_type)
    type++;

  if (order == G_N_ELEMENTS (orders) || type == G_N_ELEMENTS (types))
    return FALSE;

  native->image_channel_order = orders[order].native;
  native->image_channel_data_type = types[type].native;

  return TRUE;
}

cl_mem_object_type
_gpu_opencl_image_type_to_cl (GpuImageType type)
{
  for (gsize i = 0; i < G_N_ELEMENTS (image_types); i++)
    {
      if (image_types[i].type == type)
        return image_types[i].native;
    }

  return 0;
}

gboolean
_gpu_opencl_image_type_from_cl (cl_mem_object_type  native,
                                GpuImageType       *type)
{
  for (gsize i = 0; i < G_N_ELEMENTS (image_types); i++)
    {
      *type = image_types[i].type;
      if (image_types[i].native == native)
        return TRUE;
    }

  return FALSE;
}

/* --- supported formats ------------------------------------------------------------------------ */

/* In older PoCL versions, kernels always read 234.0 from images with one half-float channel, and
 * writes by kernels to such images are lost. */
static gboolean
is_broken (GpuNativeContext     *context,
           const GpuImageFormat *format)
{
  const guint pocl = ((GpuOpenclDevice *) context->devices[0])->pocl;

  return pocl > 0 && pocl < POCL_WITH_HALVES
         && format->channel_type == GPU_CHANNEL_TYPE_FLOAT16
         && (format->channel_order == GPU_CHANNEL_ORDER_R
             || format->channel_order == GPU_CHANNEL_ORDER_A);
}

static cl_image_format *
list_native (GpuNativeContext    *context,
             GpuMemoryFlags       flags,
             cl_mem_object_type   type,
             cl_uint             *n_formats,
             GError             **error)
{
  const cl_mem_flags access = _gpu_opencl_get_root_flags (flags)
                              & (CL_MEM_READ_WRITE | CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY);
  g_autofree cl_image_format *formats = NULL;
  cl_int code = clGetSupportedImageFormats (_gpu_opencl_context_handle (context), access, type, 0,
                                            NULL, n_formats);

  if (code == CL_SUCCESS)
    {
      formats = g_new0 (cl_image_format, *n_formats + 1);
      if (*n_formats > 0)
        code = clGetSupportedImageFormats (_gpu_opencl_context_handle (context), access, type,
                                           *n_formats, formats, NULL);
    }

  if (code == CL_SUCCESS)
    return g_steal_pointer (&formats);

  _gpu_opencl_set_error (error, "clGetSupportedImageFormats", code, "type 0x%04x, flags 0x%x",
                         type, (guint) access);
  return NULL;
}

gboolean
_gpu_opencl_list_formats (GpuNativeContext  *context,
                          GpuMemoryFlags     flags,
                          GpuImageType       type,
                          GArray            *formats,
                          GError           **error)
{
  const cl_mem_object_type native_type = _gpu_opencl_image_type_to_cl (type);
  g_autofree cl_image_format *native = NULL;
  cl_uint n_formats = 0;

  if (native_type == 0)
    return TRUE;

  native = list_native (context, flags, native_type, &n_formats, error);
  if (native == NULL)
    return FALSE;

  for (cl_uint i = 0; i < n_formats; i++)
    {
      GpuImageFormat format;

      if (_gpu_opencl_format_from_cl (&native[i], &format) && !is_broken (context, &format))
        g_array_append_val (formats, format);
    }

  return TRUE;
}

/* --- colors ----------------------------------------------------------------------------------- */

/* Returns the integer type with the same bits as a normalized type. Returns a packed type
 * unchanged. */
static GpuChannelType
get_integer_type (GpuChannelType type)
{
  switch (type)
    {
    case GPU_CHANNEL_TYPE_UNORM8:
      return GPU_CHANNEL_TYPE_UINT8;
    case GPU_CHANNEL_TYPE_UNORM16:
      return GPU_CHANNEL_TYPE_UINT16;
    case GPU_CHANNEL_TYPE_SNORM8:
      return GPU_CHANNEL_TYPE_INT8;
    case GPU_CHANNEL_TYPE_SNORM16:
      return GPU_CHANNEL_TYPE_INT16;
    default:
      return type;
    }
}

static float
get_number (GpuTexelKind    kind,
            const GpuTexel *value,
            guint           component,
            float           one)
{
  switch (kind)
    {
    case GPU_TEXEL_INTEGER:
      return (float) value->integer[component];
    case GPU_TEXEL_NATURAL:
      return (float) value->natural[component];
    case GPU_TEXEL_REAL:
    default:
      return nearbyintf (value->real[component] * one);
    }
}

/* Returns a value that the driver converts to @number, whether the driver truncates or rounds. */
static float
get_between (float number,
             float one)
{
  if (number == 0 || number == one)
    return number / one;

  return (number + (number < 0 ? -0.25f : 0.25f)) / one;
}

static float
from_srgb (float value)
{
  return value <= 0.04045f ? value / 12.92f : powf ((value + 0.055f) / 1.055f, 2.4f);
}

/* Returns whether the color contains an infinite half: NVIDIA's driver clamps infinity to the
 * largest half in 3D images. */
static gboolean
has_wild_halves (const GpuImageFormat *format,
                 const GpuTexel       *value)
{
  for (guint i = 0; format->channel_type == GPU_CHANNEL_TYPE_FLOAT16
                    && i < G_N_ELEMENTS (value->real); i++)
    {
      if (!isfinite (value->real[i]))
        return TRUE;
    }

  return FALSE;
}

gboolean
_gpu_opencl_format_get_color (const GpuImageFormat *format,
                              gconstpointer         texel,
                              gpointer              color)
{
  const gboolean is_srgb = format->channel_order == GPU_CHANNEL_ORDER_SRGBA
                           || format->channel_order == GPU_CHANNEL_ORDER_SBGRA;
  const GpuImageFormat stored =
  {
    format->channel_order == GPU_CHANNEL_ORDER_SRGBA ? GPU_CHANNEL_ORDER_RGBA :
    format->channel_order == GPU_CHANNEL_ORDER_SBGRA ? GPU_CHANNEL_ORDER_BGRA :
    format->channel_order,
    get_integer_type (format->channel_type)
  };
  GpuTexel value;

  _gpu_texel_read (&stored, texel, &value);

  for (guint i = 0; i < G_N_ELEMENTS (value.real); i++)
    {
      const float one = (float) _gpu_texel_get_one (format, i);

      if (one == 0)
        continue;

      value.real[i] = get_between (get_number (_gpu_texel_get_kind (&stored), &value, i, one),
                                   one);
      if (is_srgb && i < 3)
        value.real[i] = from_srgb (value.real[i]);
    }

  memcpy (color, &value, sizeof value);

  return !has_wild_halves (format, &value);
}

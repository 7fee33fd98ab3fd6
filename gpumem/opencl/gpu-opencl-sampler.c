/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Samplers. This file checks all values, because PoCL accepts any number as a mode.
 */
#include "config.h"

#include <string.h>

#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/opencl/driver/gpu-opencl.h"

static const struct
{
  GpuAddressMode     mode;
  cl_addressing_mode native;
}
address_modes[] =
{
  { GPU_ADDRESS_MODE_NONE, CL_ADDRESS_NONE },
  { GPU_ADDRESS_MODE_CLAMP_TO_EDGE, CL_ADDRESS_CLAMP_TO_EDGE },
  { GPU_ADDRESS_MODE_CLAMP_TO_BORDER, CL_ADDRESS_CLAMP },
  { GPU_ADDRESS_MODE_REPEAT, CL_ADDRESS_REPEAT },
  { GPU_ADDRESS_MODE_MIRRORED_REPEAT, CL_ADDRESS_MIRRORED_REPEAT }
};

/* Takes ownership of @handle. */
static GpuNativeSampler *
sampler_new (cl_sampler                   handle,
             const GpuSamplerDescription *description)
{
  GpuOpenclSampler *sampler = g_new0 (GpuOpenclSampler, 1);

  sampler->base.backend = &_gpu_opencl_backend;
  sampler->base.description = *description;
  sampler->sampler = handle;

  return &sampler->base;
}

static gboolean
fail_support (const char  *what,
              GError     **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED, "OpenCL samplers do not support %s",
               what);

  return FALSE;
}

/* Returns whether the description uses mip levels. */
static gboolean
has_levels (const GpuSamplerDescription *description)
{
  return description->mip_filter_mode != GPU_FILTER_MODE_NEAREST || description->min_lod > 0
         || description->max_lod < G_MAXFLOAT;
}

static gboolean
check_levels (GpuNativeContext             *context,
              const GpuSamplerDescription  *description,
              GError                      **error)
{
  if (description->lod_bias != 0)
    return fail_support ("a bias of mip levels", error);

  for (guint i = 0; has_levels (description) && i < context->n_devices; i++)
    {
      const GpuOpenclDevice *device = (GpuOpenclDevice *) context->devices[i];
      g_autofree char *filter = NULL;

      if (device->api >= 20 && (device->base.capabilities & GPU_CAPABILITIES_MIPMAPS) != 0)
        continue;

      filter = _gpu_enum_get_nick (GPU_TYPE_FILTER_MODE, description->mip_filter_mode);
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "%s does not support samplers with mip levels from %g to %g and filter mode %s",
                   device->base.id, description->min_lod, description->max_lod, filter);
      return FALSE;
    }

  return TRUE;
}

static gboolean
check_description (GpuNativeContext             *context,
                   const GpuSamplerDescription  *description,
                   GError                      **error)
{
  const GpuAddressMode mode = description->address_modes[0];

  if (description->address_modes[1] != mode || description->address_modes[2] != mode)
    return fail_support ("a different address mode for each dimension", error);

  for (guint i = 0; mode == GPU_ADDRESS_MODE_CLAMP_TO_BORDER
                    && i < G_N_ELEMENTS (description->border_color); i++)
    {
      if (description->border_color[i] != 0)
        return fail_support ("border colors: the border is black", error);
    }

  if (description->max_anisotropy > 1)
    return fail_support ("anisotropic filtering", error);
  if (description->read_mode != GPU_READ_MODE_FORMAT)
    return fail_support ("read modes: the image format determines the values that kernels read",
                         error);

  return check_levels (context, description, error);
}

static cl_addressing_mode
get_native_mode (GpuAddressMode mode)
{
  gsize i = 0;

  while (address_modes[i].mode != mode)
    i++;

  return address_modes[i].native;
}

/* OpenCL properties are integers; the properties for mip levels are the bits of a float. */
static cl_sampler_properties
from_float (float value)
{
  guint32 bits;

  memcpy (&bits, &value, sizeof bits);

  return bits;
}

static cl_sampler
create_with_levels (cl_context                    context,
                    const GpuSamplerDescription  *description,
                    cl_int                       *code)
{
  const cl_sampler_properties properties[] =
  {
    CL_SAMPLER_NORMALIZED_COORDS, description->normalized_coordinates ? CL_TRUE : CL_FALSE,
    CL_SAMPLER_ADDRESSING_MODE, get_native_mode (description->address_modes[0]),
    CL_SAMPLER_FILTER_MODE,
    description->filter_mode == GPU_FILTER_MODE_LINEAR ? CL_FILTER_LINEAR : CL_FILTER_NEAREST,
    CL_SAMPLER_MIP_FILTER_MODE_KHR,
    description->mip_filter_mode == GPU_FILTER_MODE_LINEAR ? CL_FILTER_LINEAR
                                                           : CL_FILTER_NEAREST,
    CL_SAMPLER_LOD_MIN_KHR, from_float (description->min_lod),
    CL_SAMPLER_LOD_MAX_KHR, from_float (description->max_lod),
    0
  };

  return clCreateSamplerWithProperties (context, properties, code);
}

static GpuNativeSampler *
sampler_create (GpuNativeContext             *context,
                const GpuSamplerDescription  *description,
                GError                      **error)
{
  const char *function = "clCreateSampler";
  g_autofree char *address = NULL;
  g_autofree char *filter = NULL;
  cl_sampler sampler;
  cl_int code;

  if (!check_description (context, description, error))
    return NULL;

  if (has_levels (description))
    {
      function = "clCreateSamplerWithProperties";
      sampler = create_with_levels (_gpu_opencl_context_handle (context), description, &code);
    }
  else
    {
      sampler = clCreateSampler (_gpu_opencl_context_handle (context),
                                 description->normalized_coordinates ? CL_TRUE : CL_FALSE,
                                 get_native_mode (description->address_modes[0]),
                                 description->filter_mode == GPU_FILTER_MODE_LINEAR
                                 ? CL_FILTER_LINEAR : CL_FILTER_NEAREST, &code);
    }

  if (code == CL_SUCCESS)
    return sampler_new (sampler, description);

  address = _gpu_enum_get_nick (GPU_TYPE_ADDRESS_MODE, description->address_modes[0]);
  filter = _gpu_enum_get_nick (GPU_TYPE_FILTER_MODE, description->filter_mode);
  _gpu_opencl_set_error (error, function, code, "normalized coordinates %d, address mode %s, "
                         "filter mode %s", description->normalized_coordinates, address, filter);
  return NULL;
}

/* --- wrapping --------------------------------------------------------------------------------- */

static gboolean
get_info (cl_sampler        sampler,
          cl_sampler_info   info,
          gpointer          value,
          gsize             size,
          GError          **error)
{
  cl_int code = clGetSamplerInfo (sampler, info, size, value, NULL);

  if (code == CL_SUCCESS)
    return TRUE;

  _gpu_opencl_set_error (error, "clGetSamplerInfo", code, "sampler %p, info 0x%04x",
                         (gpointer) sampler, info);
  return FALSE;
}

static gboolean
check_context (GpuNativeContext  *context,
               cl_sampler         sampler,
               GError           **error)
{
  cl_context its_context = NULL;

  if (!get_info (sampler, CL_SAMPLER_CONTEXT, &its_context, sizeof its_context, error))
    return FALSE;

  if (its_context == _gpu_opencl_context_handle (context))
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "sampler %p is of context %p, not of context %p", (gpointer) sampler,
               (gpointer) its_context, (gpointer) _gpu_opencl_context_handle (context));
  return FALSE;
}

static gboolean
set_modes (cl_sampler              sampler,
           cl_addressing_mode      addressing,
           cl_filter_mode          filter,
           GpuSamplerDescription  *description,
           GError                **error)
{
  gsize i = 0;

  while (i < G_N_ELEMENTS (address_modes) && address_modes[i].native != addressing)
    i++;

  if (i == G_N_ELEMENTS (address_modes)
      || (filter != CL_FILTER_NEAREST && filter != CL_FILTER_LINEAR))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                   "sampler %p has addressing mode 0x%04x and filter mode 0x%04x, which this "
                   "library does not support", (gpointer) sampler, addressing, filter);
      return FALSE;
    }

  for (guint j = 0; j < G_N_ELEMENTS (description->address_modes); j++)
    description->address_modes[j] = address_modes[i].mode;
  description->filter_mode = filter == CL_FILTER_LINEAR ? GPU_FILTER_MODE_LINEAR
                                                        : GPU_FILTER_MODE_NEAREST;

  return TRUE;
}

static GpuNativeSampler *
sampler_wrap (GpuNativeContext  *context,
              guint64            handle,
              GpuWrapMode        mode,
              GError           **error)
{
  cl_sampler sampler = (cl_sampler) (guintptr) handle;
  GpuSamplerDescription description = { .max_anisotropy = 1, .max_lod = G_MAXFLOAT };
  cl_addressing_mode addressing = 0;
  cl_filter_mode filter = 0;
  cl_bool normalized = CL_FALSE;
  cl_int code;

  if (!check_context (context, sampler, error)
      || !get_info (sampler, CL_SAMPLER_NORMALIZED_COORDS, &normalized, sizeof normalized, error)
      || !get_info (sampler, CL_SAMPLER_ADDRESSING_MODE, &addressing, sizeof addressing, error)
      || !get_info (sampler, CL_SAMPLER_FILTER_MODE, &filter, sizeof filter, error)
      || !set_modes (sampler, addressing, filter, &description, error))
    return NULL;

  description.normalized_coordinates = normalized != CL_FALSE;

  if (mode == GPU_WRAP_MODE_BORROW)
    {
      code = clRetainSampler (sampler);
      if (code != CL_SUCCESS)
        {
          _gpu_opencl_set_error (error, "clRetainSampler", code, "sampler %p",
                                 (gpointer) sampler);
          return NULL;
        }
    }

  return sampler_new (sampler, &description);
}

static void
sampler_free (GpuNativeContext *context G_GNUC_UNUSED,
              GpuNativeSampler *native)
{
  clReleaseSampler (((GpuOpenclSampler *) native)->sampler);
  g_free (native);
}

static guint64
sampler_get_handle (GpuNativeSampler *native)
{
  return (guint64) (guintptr) ((GpuOpenclSampler *) native)->sampler;
}

const GpuSamplerOps _gpu_opencl_sampler_ops =
{
  .create     = sampler_create,
  .wrap       = sampler_wrap,
  .free       = sampler_free,
  .get_handle = sampler_get_handle
};

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <math.h>

#include "gpumem/base/gpu-debug-private.h"
#include "gpumem/base/gpu-nick-private.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-image-private.h"
#include "gpumem/memory/gpu-sampler-private.h"

/**
 * SECTION:gpu-sampler
 * @title: GpuSampler
 * @short_description: parameters for reading images in kernels
 * @see_also: #GpuImage, gpu_arguments_add_sampler(), gpu_arguments_add_texture()
 */

/**
 * GpuSampler:
 *
 * The parameters with which kernels read an image at positions between texels and beyond the edges.
 *
 * |[<!-- language="C" -->
 * g_autoptr (GpuSampler) sampler = g_initable_new (GPU_TYPE_SAMPLER, NULL, &error,
 *                                                  "context", context,
 *                                                  "normalized-coordinates", TRUE,
 *                                                  "address-mode-x", GPU_ADDRESS_MODE_REPEAT,
 *                                                  "address-mode-y", GPU_ADDRESS_MODE_REPEAT,
 *                                                  "address-mode-z", GPU_ADDRESS_MODE_REPEAT,
 *                                                  "filter-mode", GPU_FILTER_MODE_LINEAR,
 *                                                  NULL);
 *
 * gpu_stream_launch (stream, kernel, &(GpuExtent) { 64, 64, 1 }, NULL, &error, image, sampler);
 * ]|
 *
 * A kernel in OpenCL C or in the portable dialect takes a sampler as an argument. A kernel in CUDA
 * C++ takes a texture object, which combines an image with a sampler. gpu_sampler_new() sets the
 * most common parameters; the other parameters are construct-only properties, as in the example.
 *
 * On OpenCL, all dimensions must have the same address mode, and #GpuSampler:read-mode,
 * #GpuSampler:lod-bias, #GpuSampler:max-anisotropy and #GpuSampler:border-color must have their
 * default values. The border color is then transparent black if the format of the image has alpha,
 * otherwise opaque black. CUDA supports all values of the properties. The host back end supports
 * all values except anisotropic filtering.
 *
 * A sampler is immutable. All methods may be called from any thread.
 *
 * Since: 0.1
 */
struct _GpuSampler
{
  GObject                parent_instance;

  GpuContext            *context;
  GpuNativeSampler      *native;    /* NULL if never initialised */
  GpuSamplerDescription  description;
};

enum
{
  PROP_0,
  PROP_CONTEXT,
  PROP_NORMALIZED_COORDINATES,
  PROP_ADDRESS_MODE_X,
  PROP_ADDRESS_MODE_Y,
  PROP_ADDRESS_MODE_Z,
  PROP_FILTER_MODE,
  PROP_MIP_FILTER_MODE,
  PROP_READ_MODE,
  PROP_MAX_ANISOTROPY,
  PROP_LOD_BIAS,
  PROP_MIN_LOD,
  PROP_MAX_LOD,
  PROP_BORDER_COLOR,
  PROP_NATIVE_HANDLE,
  N_PROPS
};

static GParamSpec *props[N_PROPS];

static void initable_iface_init (GInitableIface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (GpuSampler, gpu_sampler, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_INITABLE, initable_iface_init))

GpuNativeSampler *
_gpu_native_sampler_ref (GpuNativeSampler *sampler)
{
  g_atomic_ref_count_inc (&sampler->refs);

  return sampler;
}

void
_gpu_native_sampler_unref (GpuNativeSampler *sampler)
{
  GpuNativeContext *context = sampler->context;

  if (!g_atomic_ref_count_dec (&sampler->refs))
    return;

  context->backend->sampler->free (context, sampler);
  _gpu_native_context_unref (context);
}

GpuNativeSampler *
_gpu_sampler_get_native (GpuSampler  *sampler,
                         const char  *function,
                         GError     **error)
{
  if (sampler->native == NULL)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                 "%s: the sampler was never initialised; create samplers with gpu_sampler_new()",
                 function);

  return sampler->native;
}

static void
gpu_sampler_get_property (GObject    *object,
                          guint       id,
                          GValue     *value,
                          GParamSpec *pspec)
{
  GpuSampler *sampler = GPU_SAMPLER (object);
  const GpuSamplerDescription *description = &sampler->description;

  switch (id)
    {
    case PROP_CONTEXT:
      g_value_set_object (value, sampler->context);
      break;
    case PROP_NORMALIZED_COORDINATES:
      g_value_set_boolean (value, description->normalized_coordinates);
      break;
    case PROP_ADDRESS_MODE_X:
    case PROP_ADDRESS_MODE_Y:
    case PROP_ADDRESS_MODE_Z:
      g_value_set_enum (value, description->address_modes[id - PROP_ADDRESS_MODE_X]);
      break;
    case PROP_FILTER_MODE:
      g_value_set_enum (value, description->filter_mode);
      break;
    case PROP_MIP_FILTER_MODE:
      g_value_set_enum (value, description->mip_filter_mode);
      break;
    case PROP_READ_MODE:
      g_value_set_enum (value, description->read_mode);
      break;
    case PROP_MAX_ANISOTROPY:
      g_value_set_uint (value, description->max_anisotropy);
      break;
    case PROP_LOD_BIAS:
      g_value_set_float (value, description->lod_bias);
      break;
    case PROP_MIN_LOD:
      g_value_set_float (value, description->min_lod);
      break;
    case PROP_MAX_LOD:
      g_value_set_float (value, description->max_lod);
      break;
    case PROP_BORDER_COLOR:
      g_value_take_boxed (value, gpu_sampler_get_border_color (sampler));
      break;
    case PROP_NATIVE_HANDLE:
      g_value_set_uint64 (value, gpu_sampler_get_native_handle (sampler));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
set_border_color (GpuSamplerDescription *description,
                  const GpuColor        *color)
{
  static const GpuColor black;

  if (color == NULL)
    color = &black;

  description->border_color[0] = (float) color->red;
  description->border_color[1] = (float) color->green;
  description->border_color[2] = (float) color->blue;
  description->border_color[3] = (float) color->alpha;
}

static void
gpu_sampler_set_property (GObject      *object,
                          guint         id,
                          const GValue *value,
                          GParamSpec   *pspec)
{
  GpuSampler *sampler = GPU_SAMPLER (object);
  GpuSamplerDescription *description = &sampler->description;

  switch (id)
    {
    case PROP_CONTEXT:
      sampler->context = g_value_dup_object (value);
      break;
    case PROP_NORMALIZED_COORDINATES:
      description->normalized_coordinates = g_value_get_boolean (value);
      break;
    case PROP_ADDRESS_MODE_X:
    case PROP_ADDRESS_MODE_Y:
    case PROP_ADDRESS_MODE_Z:
      description->address_modes[id - PROP_ADDRESS_MODE_X] = g_value_get_enum (value);
      break;
    case PROP_FILTER_MODE:
      description->filter_mode = g_value_get_enum (value);
      break;
    case PROP_MIP_FILTER_MODE:
      description->mip_filter_mode = g_value_get_enum (value);
      break;
    case PROP_READ_MODE:
      description->read_mode = g_value_get_enum (value);
      break;
    case PROP_MAX_ANISOTROPY:
      description->max_anisotropy = g_value_get_uint (value);
      break;
    case PROP_LOD_BIAS:
      description->lod_bias = g_value_get_float (value);
      break;
    case PROP_MIN_LOD:
      description->min_lod = g_value_get_float (value);
      break;
    case PROP_MAX_LOD:
      description->max_lod = g_value_get_float (value);
      break;
    case PROP_BORDER_COLOR:
      set_border_color (description, g_value_get_boxed (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gpu_sampler_finalize (GObject *object)
{
  GpuSampler *sampler = GPU_SAMPLER (object);

  g_clear_pointer (&sampler->native, _gpu_native_sampler_unref);
  g_clear_object (&sampler->context);
  _gpu_live_add (GPU_LIVE_SAMPLER, -1);

  G_OBJECT_CLASS (gpu_sampler_parent_class)->finalize (object);
}

static void
install_coordinate_properties (GParamFlags flags)
{
  /**
   * GpuSampler:context:
   *
   * The context that the sampler belongs to.
   *
   * Since: 0.1
   */
  props[PROP_CONTEXT] = g_param_spec_object ("context", NULL, NULL, GPU_TYPE_CONTEXT, flags);
  /**
   * GpuSampler:normalized-coordinates:
   *
   * Whether coordinates range from 0.0 to 1.0 over the image, instead of counting texels.
   *
   * Since: 0.1
   */
  props[PROP_NORMALIZED_COORDINATES] = g_param_spec_boolean ("normalized-coordinates", NULL, NULL,
                                                             FALSE, flags);
  /**
   * GpuSampler:address-mode-x:
   *
   * The address mode of x coordinates, which increase along the rows of the image.
   *
   * Since: 0.1
   */
  props[PROP_ADDRESS_MODE_X] = g_param_spec_enum ("address-mode-x", NULL, NULL,
                                                  GPU_TYPE_ADDRESS_MODE,
                                                  GPU_ADDRESS_MODE_CLAMP_TO_EDGE, flags);
  /**
   * GpuSampler:address-mode-y:
   *
   * The address mode of y coordinates, which increase from row to row.
   *
   * Since: 0.1
   */
  props[PROP_ADDRESS_MODE_Y] = g_param_spec_enum ("address-mode-y", NULL, NULL,
                                                  GPU_TYPE_ADDRESS_MODE,
                                                  GPU_ADDRESS_MODE_CLAMP_TO_EDGE, flags);
  /**
   * GpuSampler:address-mode-z:
   *
   * The address mode of z coordinates, which increase from slice to slice.
   *
   * Since: 0.1
   */
  props[PROP_ADDRESS_MODE_Z] = g_param_spec_enum ("address-mode-z", NULL, NULL,
                                                  GPU_TYPE_ADDRESS_MODE,
                                                  GPU_ADDRESS_MODE_CLAMP_TO_EDGE, flags);
  /**
   * GpuSampler:border-color:
   *
   * The color that kernels read outside the image with %GPU_ADDRESS_MODE_CLAMP_TO_BORDER. The
   * default is transparent black. Other colors are supported only on CUDA and on the host back end.
   * If the format of the image lacks a color component, kernels read 0 for it; if the format lacks
   * alpha, kernels read 1.
   *
   * Since: 0.1
   */
  props[PROP_BORDER_COLOR] = g_param_spec_boxed ("border-color", NULL, NULL, GPU_TYPE_COLOR, flags);
}

static void
install_filter_properties (GParamFlags flags)
{
  /**
   * GpuSampler:filter-mode:
   *
   * The filter mode within an image or mip level.
   *
   * Since: 0.1
   */
  props[PROP_FILTER_MODE] = g_param_spec_enum ("filter-mode", NULL, NULL, GPU_TYPE_FILTER_MODE,
                                               GPU_FILTER_MODE_NEAREST, flags);
  /**
   * GpuSampler:mip-filter-mode:
   *
   * The filter mode between mip levels.
   *
   * Since: 0.1
   */
  props[PROP_MIP_FILTER_MODE] = g_param_spec_enum ("mip-filter-mode", NULL, NULL,
                                                   GPU_TYPE_FILTER_MODE, GPU_FILTER_MODE_NEAREST,
                                                   flags);
  /**
   * GpuSampler:read-mode:
   *
   * The type of the values that kernels read from an image of integers.
   *
   * Since: 0.1
   */
  props[PROP_READ_MODE] = g_param_spec_enum ("read-mode", NULL, NULL, GPU_TYPE_READ_MODE,
                                             GPU_READ_MODE_FORMAT, flags);
}

/* The properties of type float need G_PARAM_LAX_VALIDATION. Without it, GObject would print a
 * warning for NaN and ignore the value. With it, check_description() rejects NaN with an error. */
static void
install_level_properties (GParamFlags flags)
{
  const GParamFlags lax = flags | G_PARAM_LAX_VALIDATION;

  /**
   * GpuSampler:max-anisotropy:
   *
   * The maximum anisotropy, or 1 without anisotropic filtering. Values above 1 are supported only
   * on CUDA.
   *
   * Since: 0.1
   */
  props[PROP_MAX_ANISOTROPY] = g_param_spec_uint ("max-anisotropy", NULL, NULL, 1, 16, 1, flags);
  /**
   * GpuSampler:lod-bias:
   *
   * The offset that is added to the mip level.
   *
   * Since: 0.1
   */
  props[PROP_LOD_BIAS] = g_param_spec_float ("lod-bias", NULL, NULL, -G_MAXFLOAT, G_MAXFLOAT, 0,
                                             lax);
  /**
   * GpuSampler:min-lod:
   *
   * The lowest mip level that is read.
   *
   * Since: 0.1
   */
  props[PROP_MIN_LOD] = g_param_spec_float ("min-lod", NULL, NULL, 0, G_MAXFLOAT, 0, lax);
  /**
   * GpuSampler:max-lod:
   *
   * The highest mip level that is read.
   *
   * Since: 0.1
   */
  props[PROP_MAX_LOD] = g_param_spec_float ("max-lod", NULL, NULL, 0, G_MAXFLOAT, G_MAXFLOAT,
                                            lax);
}

static void
gpu_sampler_class_init (GpuSamplerClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags construct = G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY
                                | G_PARAM_STATIC_STRINGS;

  object_class->get_property = gpu_sampler_get_property;
  object_class->set_property = gpu_sampler_set_property;
  object_class->finalize = gpu_sampler_finalize;

  install_coordinate_properties (construct);
  install_filter_properties (construct);
  install_level_properties (construct);
  /**
   * GpuSampler:native-handle:
   *
   * The driver's handle, see gpu_sampler_get_native_handle().
   *
   * Since: 0.1
   */
  props[PROP_NATIVE_HANDLE] = g_param_spec_uint64 ("native-handle", NULL, NULL, 0, G_MAXUINT64, 0,
                                                   G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);

  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
gpu_sampler_init (GpuSampler *sampler)
{
  _gpu_live_add (GPU_LIVE_SAMPLER, 1);
}

static gboolean
fail_description (const char  *what,
                  GError     **error)
{
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "gpu_sampler_new: %s", what);

  return FALSE;
}

static gboolean
check_address_modes (const GpuSamplerDescription  *description,
                     GError                      **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (description->address_modes); i++)
    {
      GpuAddressMode mode = description->address_modes[i];

      if ((guint) mode > GPU_ADDRESS_MODE_MIRRORED_REPEAT)
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                       "gpu_sampler_new: unknown address mode %d", mode);
          return FALSE;
        }

      if (!description->normalized_coordinates && mode >= GPU_ADDRESS_MODE_REPEAT)
        {
          g_autofree char *nick = _gpu_enum_get_nick (GPU_TYPE_ADDRESS_MODE, mode);

          g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                       "gpu_sampler_new: address mode %s, which repeats the image, requires "
                       "normalized coordinates", nick);
          return FALSE;
        }
    }

  return TRUE;
}

static gboolean
check_description (const GpuSamplerDescription  *description,
                   GError                      **error)
{
  if ((guint) description->filter_mode > GPU_FILTER_MODE_LINEAR
      || (guint) description->mip_filter_mode > GPU_FILTER_MODE_LINEAR)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "gpu_sampler_new: unknown filter mode %d, or %d between mip levels",
                   description->filter_mode, description->mip_filter_mode);
      return FALSE;
    }

  if ((guint) description->read_mode > GPU_READ_MODE_NORMALIZED)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "gpu_sampler_new: unknown read mode %d", description->read_mode);
      return FALSE;
    }

  if (description->read_mode == GPU_READ_MODE_ELEMENT
      && (description->filter_mode == GPU_FILTER_MODE_LINEAR
          || description->mip_filter_mode == GPU_FILTER_MODE_LINEAR))
    return fail_description ("integers that are read as stored in memory cannot be filtered",
                             error);

  if (isnan (description->lod_bias) || !(description->min_lod <= description->max_lod))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
                   "gpu_sampler_new: the range of mip levels from %g to %g, with a bias of %g, is "
                   "not valid",
                   description->min_lod, description->max_lod, description->lod_bias);
      return FALSE;
    }

  return check_address_modes (description, error);
}

/* Takes ownership of @native. */
static void
adopt (GpuSampler        *sampler,
       GpuNativeContext  *context,
       GpuNativeSampler  *native)
{
  native->context = _gpu_native_context_ref (context);
  g_atomic_ref_count_init (&native->refs);
  sampler->native = native;
  sampler->description = native->description;
}

static gboolean
gpu_sampler_initable_init (GInitable     *initable,
                           GCancellable  *cancellable,
                           GError       **error)
{
  const char *function = "gpu_sampler_new";
  GpuSampler *sampler = GPU_SAMPLER (initable);
  GpuNativeContext *context;
  GpuNativeSampler *native;

  if (sampler->native != NULL)
    return TRUE;

  if (sampler->context == NULL)
    return fail_description ("no context was given", error);

  if (!_gpu_context_check (sampler->context, function, error)
      || !check_description (&sampler->description, error))
    return FALSE;

  context = _gpu_context_get_native (sampler->context);

  if (!_gpu_image_check_support (context, function, error))
    return FALSE;

  native = context->backend->sampler->create (context, &sampler->description, error);

  if (native == NULL)
    {
      g_prefix_error (error, "%s: ", function);
      return FALSE;
    }

  adopt (sampler, context, native);

  return TRUE;
}

static void
initable_iface_init (GInitableIface *iface)
{
  iface->init = gpu_sampler_initable_init;
}

/**
 * gpu_sampler_new:
 * @context: a #GpuContext
 * @normalized_coordinates: whether coordinates range from 0.0 to 1.0 over the image, instead of
 *   counting texels
 * @address_mode: the address mode of all dimensions
 * @filter_mode: the filter mode
 * @error: return location for an error
 *
 * Creates a sampler (OpenCL: clCreateSampler, clCreateSamplerWithProperties; on CUDA the sampler
 * becomes part of texture objects, without a call of its own). To set other parameters, call
 * g_initable_new() with the properties of #GpuSampler instead. Does not block.
 *
 * Returns: (transfer full): the sampler, or %NULL with %GPU_ERROR_NOT_SUPPORTED if the device has
 *   no images or the driver does not support the parameters, %GPU_ERROR_INVALID_ARGUMENT for
 *   parameters that cannot be combined, such as %GPU_ADDRESS_MODE_REPEAT with coordinates that are
 *   not normalized, %GPU_ERROR_DEVICE_LOST, or the driver's error
 *
 * Since: 0.1
 */
GpuSampler *
gpu_sampler_new (GpuContext      *context,
                 gboolean         normalized_coordinates,
                 GpuAddressMode   address_mode,
                 GpuFilterMode    filter_mode,
                 GError         **error)
{
  GpuSampler *sampler;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  sampler = g_object_new (GPU_TYPE_SAMPLER, "context", context, NULL);
  sampler->description.normalized_coordinates = normalized_coordinates != FALSE;
  sampler->description.filter_mode = filter_mode;

  for (guint i = 0; i < G_N_ELEMENTS (sampler->description.address_modes); i++)
    sampler->description.address_modes[i] = address_mode;

  if (!g_initable_init (G_INITABLE (sampler), NULL, error))
    g_clear_object (&sampler);

  return sampler;
}

/**
 * gpu_sampler_new_wrapped:
 * @context: a #GpuContext
 * @handle: the driver's handle: a cl_sampler on OpenCL
 * @mode: whether the caller keeps the ownership of @handle, or the sampler takes it
 * @error: return location for an error
 *
 * Creates an object for a sampler that was created outside this library (OpenCL: clGetSamplerInfo,
 * clRetainSampler if @mode is %GPU_WRAP_MODE_BORROW). If the call fails, the caller keeps ownership
 * of @handle, even if @mode is %GPU_WRAP_MODE_ADOPT.
 *
 * Returns: (transfer full): the sampler, or %NULL with %GPU_ERROR_INVALID_ARGUMENT if @handle is 0
 *   or belongs to another context, %GPU_ERROR_NOT_SUPPORTED if the driver has no sampler objects,
 *   or the driver's error
 *
 * Since: 0.1
 */
GpuSampler *
gpu_sampler_new_wrapped (GpuContext   *context,
                         guint64       handle,
                         GpuWrapMode   mode,
                         GError      **error)
{
  const char *function = "gpu_sampler_new_wrapped";
  GpuNativeSampler *wrapped = NULL;
  GpuNativeContext *native;
  GpuSampler *sampler;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);

  if (!_gpu_context_check (context, function, error))
    return NULL;

  native = _gpu_context_get_native (context);

  if (!_gpu_image_check_support (native, function, error))
    return NULL;

  if (handle == 0)
    g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT, "%s: the handle is 0", function);
  else if (native->backend->sampler->wrap == NULL)
    _gpu_backend_fail (native->backend, function, "support for wrapping samplers", error);
  else if ((wrapped = native->backend->sampler->wrap (native, handle, mode, error)) == NULL)
    g_prefix_error (error, "%s: ", function);

  if (wrapped == NULL)
    return NULL;

  sampler = g_object_new (GPU_TYPE_SAMPLER, "context", context, NULL);
  adopt (sampler, native, wrapped);

  return sampler;
}

/**
 * gpu_sampler_get_context:
 * @sampler: a #GpuSampler
 *
 * Gets the context that @sampler belongs to.
 *
 * Returns: (transfer none): the context
 *
 * Since: 0.1
 */
GpuContext *
gpu_sampler_get_context (GpuSampler *sampler)
{
  g_return_val_if_fail (GPU_IS_SAMPLER (sampler), NULL);

  return sampler->context;
}

/**
 * gpu_sampler_get_border_color:
 * @sampler: a #GpuSampler
 *
 * Gets the border color for %GPU_ADDRESS_MODE_CLAMP_TO_BORDER.
 *
 * Returns: (transfer full): the color
 *
 * Since: 0.1
 */
GpuColor *
gpu_sampler_get_border_color (GpuSampler *sampler)
{
  const float *color;

  g_return_val_if_fail (GPU_IS_SAMPLER (sampler), NULL);

  color = sampler->description.border_color;

  return gpu_color_new (color[0], color[1], color[2], color[3]);
}

/**
 * gpu_sampler_get_native_handle:
 * @sampler: a #GpuSampler
 *
 * Gets the driver's own handle: a cl_sampler on OpenCL. @sampler owns the handle.
 *
 * Returns: the handle, or 0 if the driver has no sampler objects
 *
 * Since: 0.1
 */
guint64
gpu_sampler_get_native_handle (GpuSampler *sampler)
{
  g_return_val_if_fail (GPU_IS_SAMPLER (sampler), 0);

  return sampler->native != NULL ? sampler->native->backend->sampler->get_handle (sampler->native)
                                 : 0;
}

static gboolean
equal_descriptions (const GpuSamplerDescription *a,
                    const GpuSamplerDescription *b)
{
  for (guint i = 0; i < G_N_ELEMENTS (a->border_color); i++)
    {
      if (a->border_color[i] != b->border_color[i])
        return FALSE;
    }

  for (guint i = 0; i < G_N_ELEMENTS (a->address_modes); i++)
    {
      if (a->address_modes[i] != b->address_modes[i])
        return FALSE;
    }

  return a->normalized_coordinates == b->normalized_coordinates
         && a->filter_mode == b->filter_mode && a->mip_filter_mode == b->mip_filter_mode
         && a->read_mode == b->read_mode && a->max_anisotropy == b->max_anisotropy
         && a->lod_bias == b->lod_bias && a->min_lod == b->min_lod && a->max_lod == b->max_lod;
}

/**
 * gpu_sampler_equal:
 * @a: a #GpuSampler
 * @b: a #GpuSampler
 *
 * Compares two samplers. They are equal if they belong to the same context and have the same
 * parameters.
 *
 * Returns: %TRUE if @a and @b are equal
 *
 * Since: 0.1
 */
gboolean
gpu_sampler_equal (GpuSampler *a,
                   GpuSampler *b)
{
  g_return_val_if_fail (GPU_IS_SAMPLER (a), FALSE);
  g_return_val_if_fail (GPU_IS_SAMPLER (b), FALSE);

  return a == b || (a->native != NULL && b->native != NULL
                    && a->native->context == b->native->context
                    && equal_descriptions (&a->description, &b->description));
}

/**
 * gpu_sampler_hash:
 * @sampler: a #GpuSampler
 *
 * Computes a hash that is consistent with gpu_sampler_equal().
 *
 * Returns: the hash
 *
 * Since: 0.1
 */
guint
gpu_sampler_hash (GpuSampler *sampler)
{
  const GpuSamplerDescription *description;

  g_return_val_if_fail (GPU_IS_SAMPLER (sampler), 0);

  description = &sampler->description;

  return (guint) description->normalized_coordinates + 2 * (guint) description->filter_mode
         + 4 * (guint) description->mip_filter_mode + 8 * (guint) description->address_modes[0]
         + 64 * (guint) description->address_modes[1] + 512 * (guint) description->address_modes[2]
         + 4096 * (guint) description->read_mode + 16384 * description->max_anisotropy;
}

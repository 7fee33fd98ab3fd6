/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Texture and surface objects. Invalid descriptors are misuse. */
#include "config.h"

#include <string.h>

#include "image.h"

#define MAX_ANISOTROPY 16
#define TEXTURE_FLAGS (CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB | \
                       CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | CU_TRSF_SEAMLESS_CUBEMAP)

#define WRONG(...) return misuse (CUDA_ERROR_INVALID_VALUE, __VA_ARGS__)

static gboolean
is_zero (gconstpointer data,
         gsize         size)
{
  const guint8 *bytes = data;

  for (gsize i = 0; i < size; i++)
    if (bytes[i] != 0)
      return FALSE;
  return TRUE;
}

/* --- resources -------------------------------------------------------------------------------- */

static CUresult
check_memory (guint64     address,
              guint64     size,
              const char *what)
{
  Memory *memory = memory_find (address);

  if (address % device_get_number (CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT) != 0)
    WRONG ("%s at address 0x%" G_GINT64_MODIFIER "x", what, address);
  if (memory == NULL || memory->freed || memory->kind == MEMORY_ARRAY ||
      memory->address + memory->size - address < size)
    WRONG ("%s of %" G_GUINT64_FORMAT " bytes at address 0x%" G_GINT64_MODIFIER
           "x, where is no memory of that size", what, size, address);
  return CUDA_SUCCESS;
}

static CUresult
check_format (CUarray_format  format,
              guint           n_channels,
              FormatInfo     *info)
{
  if (!format_get_info (format, info) || info->n_channels != 0 ||
      (n_channels != 1 && n_channels != 2 && n_channels != 4))
    WRONG ("%u channels of format %u in linear memory", n_channels, format);
  info->n_channels = n_channels;
  return CUDA_SUCCESS;
}

static CUresult
check_linear (const CUDA_RESOURCE_DESC *resource,
              FormatInfo               *info)
{
  guint64 size = resource->res.linear.sizeInBytes;
  guint element;

  TRY (check_format (resource->res.linear.format, resource->res.linear.numChannels, info));
  element = info->size * info->n_channels;
  if (size == 0 || size % element != 0 ||
      size / element >
      (guint64) device_get_number (CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH))
    WRONG ("a linear texture of %" G_GUINT64_FORMAT " bytes by %u", size, element);
  return check_memory (resource->res.linear.devPtr, size, "a linear texture");
}

static CUresult
check_pitch (const CUDA_RESOURCE_DESC *resource,
             FormatInfo               *info)
{
  guint64 width = resource->res.pitch2D.width;
  guint64 height = resource->res.pitch2D.height;
  guint64 pitch = resource->res.pitch2D.pitchInBytes;
  guint64 row;

  TRY (check_format (resource->res.pitch2D.format, resource->res.pitch2D.numChannels, info));
  row = width * info->size * info->n_channels;
  if (width == 0 || height == 0 ||
      width > (guint64) device_get_number (CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH) ||
      height > (guint64) device_get_number (CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT))
    WRONG ("a texture of %" G_GUINT64_FORMAT " x %" G_GUINT64_FORMAT, width, height);
  if (pitch < row || pitch % device_get_number (CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT) != 0 ||
      pitch > (guint64) device_get_number (CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH))
    WRONG ("a texture with a pitch of %" G_GUINT64_FORMAT " for rows of %" G_GUINT64_FORMAT
           " bytes", pitch, row);
  return check_memory (resource->res.pitch2D.devPtr, (height - 1) * pitch + row, "a texture");
}

static CUresult
check_resource (Texture *self,
                Context *context)
{
  const CUDA_RESOURCE_DESC *resource = &self->resource;

  if (resource->flags != 0)
    WRONG ("the flags of a resource are 0x%x", resource->flags);
  switch (resource->resType)
    {
    case CU_RESOURCE_TYPE_ARRAY:
      TRY (array_check (resource->res.array.hArray, context));
      self->array = resource->res.array.hArray;
      break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      TRY (object_check (resource->res.mipmap.hMipmappedArray, OBJECT_MIPMAPPED));
      self->mipmapped = resource->res.mipmap.hMipmappedArray;
      self->array = self->mipmapped->levels[0];
      TRY (array_check (self->array, context));
      break;
    case CU_RESOURCE_TYPE_LINEAR:
      return check_linear (resource, &self->format);
    case CU_RESOURCE_TYPE_PITCH2D:
      return check_pitch (resource, &self->format);
    default:
      WRONG ("there is no resource of type %u", resource->resType);
    }
  self->format = self->array->format;
  self->format.n_channels = self->array->descriptor.NumChannels;
  return CUDA_SUCCESS;
}

/* --- textures --------------------------------------------------------------------------------- */

static CUresult
check_filter (const Texture *self)
{
  const CUDA_TEXTURE_DESC *texture = &self->texture;
  gboolean as_integer = _gpu_texel_get_kind (self->view.formats) != GPU_TEXEL_REAL;

  if (texture->filterMode > CU_TR_FILTER_MODE_LINEAR ||
      texture->mipmapFilterMode > CU_TR_FILTER_MODE_LINEAR)
    WRONG ("the filter modes %u and %u", texture->filterMode, texture->mipmapFilterMode);
  if (as_integer && (texture->filterMode == CU_TR_FILTER_MODE_LINEAR ||
                     (self->mipmapped != NULL &&
                      texture->mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR)))
    WRONG ("a texture that is read as integers and filtered");
  if (self->format.normalized && (texture->flags & CU_TRSF_READ_AS_INTEGER) != 0)
    WRONG ("a texture of a normalized format, read as integers");
  if (texture->maxAnisotropy > MAX_ANISOTROPY ||
      !(texture->minMipmapLevelClamp <= texture->maxMipmapLevelClamp))
    WRONG ("anisotropy %u, levels from %g to %g", texture->maxAnisotropy,
           texture->minMipmapLevelClamp, texture->maxMipmapLevelClamp);
  return CUDA_SUCCESS;
}

static CUresult
check_texture (const Texture *self)
{
  const CUDA_TEXTURE_DESC *texture = &self->texture;
  gboolean is_normalized = (texture->flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
  gboolean is_cube = self->array != NULL &&
                     (self->array->descriptor.Flags & CUDA_ARRAY3D_CUBEMAP) != 0;

  if ((texture->flags & ~TEXTURE_FLAGS) != 0 ||
      !is_zero (texture->reserved, sizeof texture->reserved))
    WRONG ("a texture with flags 0x%x, or with a reserved field that is not zero", texture->flags);
  if (self->mipmapped != NULL && !is_normalized)
    WRONG ("a texture with mip levels, and coordinates that are not normalized");
  if ((texture->flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0 && !is_cube)
    WRONG ("a seamless cubemap needs a cubemap array");
  for (guint i = 0; i < G_N_ELEMENTS (texture->addressMode); i++)
    {
      CUaddress_mode mode = texture->addressMode[i];

      if (mode > CU_TR_ADDRESS_MODE_BORDER ||
          (!is_normalized && (mode == CU_TR_ADDRESS_MODE_MIRROR ||
                              (mode == CU_TR_ADDRESS_MODE_WRAP &&
                               self->resource.resType != CU_RESOURCE_TYPE_LINEAR))))
        WRONG ("address mode %u%s", mode, is_normalized ? "" : " without normalized coordinates");
    }
  return check_filter (self);
}

/* --- views ------------------------------------------------------------------------------------ */

static void
fill_levels (Texture *self)
{
  GpuHostTexture *view = &self->view;
  const CUDA_RESOURCE_DESC *resource = &self->resource;

  view->levels = self->levels;
  view->n_levels = self->mipmapped != NULL ? self->mipmapped->n_levels : 1;
  /* Like the device, treat a one-dimensional texture as two-dimensional, so that it is also
   * filtered at its edge. */
  view->n_dimensions = 2;
  if (self->array != NULL)
    {
      view->has_layers = array_is_layered (self->array);
      if (!view->has_layers && self->array->descriptor.Depth > 0)
        view->n_dimensions = 3;
      array_get_level (self->array, &self->levels[0]);
    }
  else if (resource->resType == CU_RESOURCE_TYPE_PITCH2D)
    self->levels[0] = (GpuHostLevel) {
      GSIZE_TO_POINTER (resource->res.pitch2D.devPtr),
      { resource->res.pitch2D.width, resource->res.pitch2D.height, 1 },
      { self->format.size * self->format.n_channels, resource->res.pitch2D.pitchInBytes, 0 }
    };
  for (guint i = 1; i < view->n_levels; i++)
    array_get_level (self->mipmapped->levels[i], &self->levels[i]);
}

static void
fill_format (Texture *self)
{
  static const GpuChannelOrder orders[] = {
    [1] = GPU_CHANNEL_ORDER_R, [2] = GPU_CHANNEL_ORDER_RG, [4] = GPU_CHANNEL_ORDER_RGBA
  };

  self->view.formats[0].channel_order = orders[self->format.n_channels];
  self->view.formats[0].channel_type = (self->texture.flags & CU_TRSF_READ_AS_INTEGER) != 0
                                       ? self->format.plain : self->format.type;
}

static void
fill_sampler (Texture *self)
{
  static const GpuAddressMode modes[] = {
    [CU_TR_ADDRESS_MODE_WRAP] = GPU_ADDRESS_MODE_REPEAT,
    [CU_TR_ADDRESS_MODE_CLAMP] = GPU_ADDRESS_MODE_CLAMP_TO_EDGE,
    [CU_TR_ADDRESS_MODE_MIRROR] = GPU_ADDRESS_MODE_MIRRORED_REPEAT,
    [CU_TR_ADDRESS_MODE_BORDER] = GPU_ADDRESS_MODE_CLAMP_TO_BORDER
  };
  const CUDA_TEXTURE_DESC *texture = &self->texture;
  GpuSamplerDescription *sampler = &self->sampler;

  sampler->normalized_coordinates = (texture->flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
  sampler->filter_mode = texture->filterMode == CU_TR_FILTER_MODE_LINEAR;
  sampler->mip_filter_mode = texture->mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
  sampler->lod_bias = texture->mipmapLevelBias;
  sampler->min_lod = texture->minMipmapLevelClamp;
  sampler->max_lod = texture->maxMipmapLevelClamp;
  memcpy (sampler->border_color, texture->borderColor, sizeof sampler->border_color);
  for (guint i = 0; i < G_N_ELEMENTS (sampler->address_modes); i++)
    {
      CUaddress_mode mode = texture->addressMode[i];

      if (!sampler->normalized_coordinates && mode != CU_TR_ADDRESS_MODE_BORDER)
        mode = CU_TR_ADDRESS_MODE_CLAMP;
      sampler->address_modes[i] = modes[mode];
    }
}

ENTRY (cuTexObjectCreate,
       (CUtexObject *object, const CUDA_RESOURCE_DESC *resource,
        const CUDA_TEXTURE_DESC *texture, const CUDA_RESOURCE_VIEW_DESC *view),
       (object, resource, texture, view))
{
  Context *context;
  Texture *self;
  CUresult code;

  TRY (context_current (&context));
  if (object == NULL || resource == NULL || texture == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (view != NULL)
    return CUDA_ERROR_NOT_SUPPORTED;
  self = object_new (sizeof (Texture), OBJECT_TEXTURE, context);
  self->resource = *resource;
  self->texture = *texture;
  self->uses = g_ptr_array_new_with_free_func ((GDestroyNotify) point_unref);
  code = check_resource (self, context);
  if (code == CUDA_SUCCESS)
    {
      fill_format (self);
      code = check_texture (self);
    }
  if (code != CUDA_SUCCESS)
    {
      g_clear_pointer (&self->uses, g_ptr_array_unref);
      object_kill (self);
      return code;
    }
  fill_levels (self);
  fill_sampler (self);
  *object = GPOINTER_TO_SIZE (self);
  return CUDA_SUCCESS;
}

/* --- pending uses of objects ------------------------------------------------------------------ */

static GPtrArray **
get_uses (Object *object)
{
  return object->kind == OBJECT_TEXTURE ? &((Texture *) object)->uses
                                        : &((Surface *) object)->uses;
}

static CUresult
destroy (guint64    handle,
         ObjectKind kind)
{
  Object *object = GSIZE_TO_POINTER (handle);
  GPtrArray *uses;
  Context *context;

  TRY (context_current_lost (&context));
  TRY (object_check (object, kind));
  if (object->context != context)
    return misuse (CUDA_ERROR_INVALID_HANDLE, "the %s is of another context", object_kinds[kind]);
  uses = *get_uses (object);
  points_forget (uses);
  if (uses->len > 0 && context->error == CUDA_SUCCESS)
    misuse (CUDA_SUCCESS, "%u pending launches use the %s from call %u (%s)", uses->len,
            object_kinds[kind], object->number, call_names[object->function]);
  for (; uses->len > 0; points_forget (uses))
    point_wait (uses->pdata[0]);
  g_clear_pointer (get_uses (object), g_ptr_array_unref);
  object_kill (object);
  return context->error;
}

ENTRY (cuTexObjectDestroy, (CUtexObject object), (object))
{
  return destroy (object, OBJECT_TEXTURE);
}

static CUresult
use_linear (const Texture *self,
            Op            *op,
            Stream        *stream)
{
  if (self->resource.resType == CU_RESOURCE_TYPE_LINEAR)
    return memory_check (op, stream, self->resource.res.linear.devPtr,
                         self->resource.res.linear.sizeInBytes, FALSE, "a linear texture");
  return memory_check (op, stream, self->resource.res.pitch2D.devPtr, 1, FALSE,
                       "a texture of pitched memory");
}

static CUresult
use (Object *object,
     Op     *op,
     Stream *stream)
{
  Array *array;

  TRY (object_check (object, object->kind));
  if (object->context != stream->object.context)
    return misuse (CUDA_ERROR_INVALID_HANDLE, "an argument is a %s of another context",
                   object_kinds[object->kind]);
  array = object->kind == OBJECT_TEXTURE ? ((Texture *) object)->array
                                         : ((Surface *) object)->array;
  points_forget (*get_uses (object));
  g_ptr_array_add (*get_uses (object), point_ref (op->point));
  if (array == NULL)
    return use_linear ((Texture *) object, op, stream);
  TRY (object_check (array, OBJECT_ARRAY));
  return op_use (op, stream, array->memory);
}

CUresult
textures_use (Op           *op,
              Stream       *stream,
              const guint8 *value,
              gsize         size)
{
  for (gsize i = 0; i + sizeof (guint64) <= size; i += sizeof (guint64))
    {
      guint64 handle;
      Object *object;

      memcpy (&handle, value + i, sizeof handle);
      object = handle != 0 ? object_find (handle) : NULL;
      if (object != NULL && (object->kind == OBJECT_TEXTURE || object->kind == OBJECT_SURFACE))
        TRY (use (object, op, stream));
    }
  return CUDA_SUCCESS;
}

Object *
texture_find_for (gconstpointer array)
{
  g_autoptr (GPtrArray) textures = object_list (OBJECT_TEXTURE, NULL);
  g_autoptr (GPtrArray) surfaces = object_list (OBJECT_SURFACE, NULL);

  for (guint i = 0; i < textures->len; i++)
    {
      Texture *texture = textures->pdata[i];

      if (texture->array != NULL && (texture->array == array || texture->mipmapped == array ||
                                     (gconstpointer) texture->array->parent == array))
        return &texture->object;
    }
  for (guint i = 0; i < surfaces->len; i++)
    {
      Surface *surface = surfaces->pdata[i];

      if (surface->array == array || (gconstpointer) surface->array->parent == array)
        return &surface->object;
    }
  return NULL;
}

/* --- surfaces --------------------------------------------------------------------------------- */

ENTRY (cuSurfObjectCreate, (CUsurfObject *object, const CUDA_RESOURCE_DESC *resource),
       (object, resource))
{
  Context *context;
  Surface *self;
  Array *array;

  TRY (context_current (&context));
  if (object == NULL || resource == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (resource->resType != CU_RESOURCE_TYPE_ARRAY || resource->flags != 0)
    WRONG ("a surface of a resource of type %u, flags 0x%x", resource->resType, resource->flags);
  array = resource->res.array.hArray;
  TRY (array_check (array, context));
  if ((array->descriptor.Flags & CUDA_ARRAY3D_SURFACE_LDST) == 0)
    WRONG ("a surface of an array that was not made for one");
  self = object_new (sizeof (Surface), OBJECT_SURFACE, context);
  self->array = array;
  self->uses = g_ptr_array_new_with_free_func ((GDestroyNotify) point_unref);
  *object = GPOINTER_TO_SIZE (self);
  return CUDA_SUCCESS;
}

ENTRY (cuSurfObjectDestroy, (CUsurfObject object), (object))
{
  return destroy (object, OBJECT_SURFACE);
}

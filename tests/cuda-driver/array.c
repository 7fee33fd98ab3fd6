/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Arrays and mipmapped arrays. Programs cannot get the address of an array's memory. */
#include "config.h"

#include <string.h>

#include "image.h"

#define FLAGS (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP | \
               CUDA_ARRAY3D_TEXTURE_GATHER)
#define N_CUBE_SIDES 6

#define TYPE(name) GPU_CHANNEL_TYPE_##name

gboolean
format_get_info (CUarray_format  format,
                 FormatInfo     *info)
{
  static const struct { CUarray_format format; FormatInfo info; } formats[] = {
    { CU_AD_FORMAT_UNSIGNED_INT8, { TYPE (UINT8), TYPE (UNORM8), 1, 0, FALSE } },
    { CU_AD_FORMAT_UNSIGNED_INT16, { TYPE (UINT16), TYPE (UNORM16), 2, 0, FALSE } },
    { CU_AD_FORMAT_UNSIGNED_INT32, { TYPE (UINT32), TYPE (UINT32), 4, 0, FALSE } },
    { CU_AD_FORMAT_SIGNED_INT8, { TYPE (INT8), TYPE (SNORM8), 1, 0, FALSE } },
    { CU_AD_FORMAT_SIGNED_INT16, { TYPE (INT16), TYPE (SNORM16), 2, 0, FALSE } },
    { CU_AD_FORMAT_SIGNED_INT32, { TYPE (INT32), TYPE (INT32), 4, 0, FALSE } },
    { CU_AD_FORMAT_HALF, { TYPE (FLOAT16), TYPE (FLOAT16), 2, 0, FALSE } },
    { CU_AD_FORMAT_FLOAT, { TYPE (FLOAT32), TYPE (FLOAT32), 4, 0, FALSE } },
    { CU_AD_FORMAT_UNORM_INT8X1, { TYPE (UNORM8), TYPE (UNORM8), 1, 1, TRUE } },
    { CU_AD_FORMAT_UNORM_INT8X2, { TYPE (UNORM8), TYPE (UNORM8), 1, 2, TRUE } },
    { CU_AD_FORMAT_UNORM_INT8X4, { TYPE (UNORM8), TYPE (UNORM8), 1, 4, TRUE } },
    { CU_AD_FORMAT_UNORM_INT16X1, { TYPE (UNORM16), TYPE (UNORM16), 2, 1, TRUE } },
    { CU_AD_FORMAT_UNORM_INT16X2, { TYPE (UNORM16), TYPE (UNORM16), 2, 2, TRUE } },
    { CU_AD_FORMAT_UNORM_INT16X4, { TYPE (UNORM16), TYPE (UNORM16), 2, 4, TRUE } },
    { CU_AD_FORMAT_SNORM_INT8X1, { TYPE (SNORM8), TYPE (SNORM8), 1, 1, TRUE } },
    { CU_AD_FORMAT_SNORM_INT8X2, { TYPE (SNORM8), TYPE (SNORM8), 1, 2, TRUE } },
    { CU_AD_FORMAT_SNORM_INT8X4, { TYPE (SNORM8), TYPE (SNORM8), 1, 4, TRUE } },
    { CU_AD_FORMAT_SNORM_INT16X1, { TYPE (SNORM16), TYPE (SNORM16), 2, 1, TRUE } },
    { CU_AD_FORMAT_SNORM_INT16X2, { TYPE (SNORM16), TYPE (SNORM16), 2, 2, TRUE } },
    { CU_AD_FORMAT_SNORM_INT16X4, { TYPE (SNORM16), TYPE (SNORM16), 2, 4, TRUE } },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (formats); i++)
    if (formats[i].format == format)
      {
        *info = formats[i].info;
        return TRUE;
      }
  return FALSE;
}

#undef TYPE

/* --- descriptors ------------------------------------------------------------------------------ */

/* The device attributes of the maximum extents, or 0 for a dimension that is unused or has no
 * attribute. */
typedef struct
{
  CUdevice_attribute width;
  CUdevice_attribute height;
  CUdevice_attribute depth;
} Limit;

static gboolean
is_within (const Limit                   *limit,
           const CUDA_ARRAY3D_DESCRIPTOR *with)
{
  const guint64 sizes[] = { with->Width, with->Height, with->Depth };
  const CUdevice_attribute attributes[] = { limit->width, limit->height, limit->depth };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    if (attributes[i] != 0 && sizes[i] > (guint64) device_get_number (attributes[i]))
      return FALSE;
  return TRUE;
}

#define MOST(name) CU_DEVICE_ATTRIBUTE_MAXIMUM_##name

/* Returns whether the array is within the limits that a table in cuda.h lists. The limits depend on
 * the dimensions and on the number of layers. */
static gboolean
fits (const CUDA_ARRAY3D_DESCRIPTOR *with)
{
  static const Limit textures[] = {
    { MOST (TEXTURE1D_WIDTH), 0, 0 },
    { MOST (TEXTURE2D_WIDTH), MOST (TEXTURE2D_HEIGHT), 0 },
    { MOST (TEXTURE3D_WIDTH), MOST (TEXTURE3D_HEIGHT), MOST (TEXTURE3D_DEPTH) },
    { MOST (TEXTURE1D_LAYERED_WIDTH), 0, MOST (TEXTURE1D_LAYERED_LAYERS) },
    { MOST (TEXTURE2D_LAYERED_WIDTH), MOST (TEXTURE2D_LAYERED_HEIGHT),
      MOST (TEXTURE2D_LAYERED_LAYERS) },
    { MOST (TEXTURECUBEMAP_WIDTH), 0, 0 },
    { MOST (TEXTURECUBEMAP_LAYERED_WIDTH), 0, MOST (TEXTURECUBEMAP_LAYERED_LAYERS) },
  };
  static const Limit surfaces[] = {
    { MOST (SURFACE1D_WIDTH), 0, 0 },
    { MOST (SURFACE2D_WIDTH), MOST (SURFACE2D_HEIGHT), 0 },
    { MOST (SURFACE3D_WIDTH), MOST (SURFACE3D_HEIGHT), MOST (SURFACE3D_DEPTH) },
    { MOST (SURFACE1D_LAYERED_WIDTH), 0, MOST (SURFACE1D_LAYERED_LAYERS) },
    { MOST (SURFACE2D_LAYERED_WIDTH), MOST (SURFACE2D_LAYERED_HEIGHT),
      MOST (SURFACE2D_LAYERED_LAYERS) },
    { MOST (SURFACECUBEMAP_WIDTH), 0, 0 },
    { MOST (SURFACECUBEMAP_LAYERED_WIDTH), 0, MOST (SURFACECUBEMAP_LAYERED_LAYERS) },
  };
  gboolean is_layered = (with->Flags & CUDA_ARRAY3D_LAYERED) != 0;
  guint kind;

  if ((with->Flags & CUDA_ARRAY3D_CUBEMAP) != 0)
    kind = is_layered ? 6 : 5;
  else if (is_layered)
    kind = with->Height > 0 ? 4 : 3;
  else
    kind = with->Depth > 0 ? 2 : with->Height > 0 ? 1 : 0;
  return is_within (&textures[kind], with) &&
         ((with->Flags & CUDA_ARRAY3D_SURFACE_LDST) == 0 || is_within (&surfaces[kind], with));
}

#undef MOST

static gboolean
has_shape (const CUDA_ARRAY3D_DESCRIPTOR *with)
{
  gboolean is_layered = (with->Flags & CUDA_ARRAY3D_LAYERED) != 0;
  gboolean is_cube = (with->Flags & CUDA_ARRAY3D_CUBEMAP) != 0;

  if (with->Width == 0 || (with->Flags & ~FLAGS) != 0)
    return FALSE;
  if (is_cube)
    return with->Height == with->Width && with->Depth > 0 && with->Depth % N_CUBE_SIDES == 0 &&
           (is_layered || with->Depth == N_CUBE_SIDES);
  if (is_layered)
    return with->Depth > 0;
  return with->Height > 0 || with->Depth == 0;
}

static CUresult
check_descriptor (const CUDA_ARRAY3D_DESCRIPTOR *with,
                  FormatInfo                    *format)
{
  if (!format_get_info (with->Format, format))
    return CUDA_ERROR_INVALID_VALUE;
  if ((with->NumChannels != 1 && with->NumChannels != 2 && with->NumChannels != 4) ||
      (format->n_channels != 0 && format->n_channels != with->NumChannels))
    return CUDA_ERROR_INVALID_VALUE;
  return has_shape (with) && fits (with) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- arrays ----------------------------------------------------------------------------------- */

gboolean
array_is_layered (const Array *array)
{
  return (array->descriptor.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
}

guint64
array_get_address (const Array *array)
{
  return array->memory->address + array->offset;
}

guint64
array_get_row (const Array *array)
{
  return array->width * array->element;
}

guint64
array_get_slice (const Array *array)
{
  return array_get_row (array) * array->height;
}

void
array_get_level (const Array  *array,
                 GpuHostLevel *level)
{
  *level = (GpuHostLevel) { GSIZE_TO_POINTER (array_get_address (array)),
                            { array->width, array->height, array->depth },
                            { array->element, array_get_row (array), array_get_slice (array) } };
}

CUresult
array_check (CUarray  array,
             Context *context)
{
  TRY (object_check (array, OBJECT_ARRAY));
  if (array->object.context != context)
    return misuse (CUDA_ERROR_INVALID_HANDLE, "array %p, from call %u (%s), is of another context",
                   (gpointer) array, array->object.number, call_names[array->object.function]);
  return CUDA_SUCCESS;
}

/* Creates an array without memory. */
static Array *
array_new (Context                       *context,
           const CUDA_ARRAY3D_DESCRIPTOR *with,
           const FormatInfo              *format)
{
  Array *array = object_new (sizeof (Array), OBJECT_ARRAY, context);

  array->descriptor = *with;
  array->format = *format;
  array->element = format->size * with->NumChannels;
  array->width = with->Width;
  array->height = MAX (with->Height, 1);
  array->depth = MAX (with->Depth, 1);
  return array;
}

/* Returns FALSE if the device is out of memory. */
static gboolean
set_memory (Context  *context,
            guint64   size,
            Memory  **memory)
{
  *memory = memory_new (MEMORY_ARRAY, context, context->device, size);
  if (*memory == NULL)
    return FALSE;
  memory_ref (*memory);
  return TRUE;
}

static void
drop_memory (Memory   *memory,
             CUresult  error)
{
  memory_wait (memory, error);
  if (!memory->freed)
    memory_kill (memory);
  memory_unref (memory);
}

static CUresult
check_unused (gconstpointer array)
{
  const Object *user = texture_find_for (array);

  if (user != NULL)
    return misuse (CUDA_ERROR_INVALID_VALUE, "the %s from call %u (%s) was not destroyed before",
                   object_kinds[user->kind], user->number, call_names[user->function]);
  return CUDA_SUCCESS;
}

ENTRY (cuArray3DCreate, (CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor),
       (array, descriptor))
{
  FormatInfo format;
  Context *context;
  Memory *memory;
  Array *self;

  TRY (context_current (&context));
  if (array == NULL || descriptor == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  TRY (check_descriptor (descriptor, &format));
  self = array_new (context, descriptor, &format);
  if (!set_memory (context, array_get_slice (self) * self->depth, &memory))
    {
      object_kill (self);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  self->memory = memory;
  *array = self;
  return CUDA_SUCCESS;
}

ENTRY (cuArrayDestroy, (CUarray array), (array))
{
  CUresult error;

  TRY (object_check (array, OBJECT_ARRAY));
  if (array->parent != NULL)
    return misuse (CUDA_ERROR_INVALID_HANDLE, "a level is destroyed with its mipmapped array");
  error = array->object.context->error;
  if (error == CUDA_SUCCESS)
    TRY (check_unused (array));
  drop_memory (array->memory, error);
  object_kill (array);
  return error;
}

ENTRY (cuArray3DGetDescriptor, (CUDA_ARRAY3D_DESCRIPTOR *descriptor, CUarray array),
       (descriptor, array))
{
  Context *context;

  TRY (context_current (&context));
  TRY (array_check (array, context));
  *descriptor = array->descriptor;
  return CUDA_SUCCESS;
}

/* --- mipmapped arrays ------------------------------------------------------------------------- */

static CUDA_ARRAY3D_DESCRIPTOR
halve (const CUDA_ARRAY3D_DESCRIPTOR *with,
       guint                          level)
{
  CUDA_ARRAY3D_DESCRIPTOR half = *with;
  gboolean is_solid = (with->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) == 0;

  half.Width = MAX (with->Width >> level, 1);
  if (with->Height > 0)
    half.Height = MAX (with->Height >> level, 1);
  if (with->Depth > 0 && is_solid)
    half.Depth = MAX (with->Depth >> level, 1);
  return half;
}

static guint
count_levels (const CUDA_ARRAY3D_DESCRIPTOR *with)
{
  gboolean is_solid = (with->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) == 0;

  return g_bit_storage (MAX (MAX (with->Width, with->Height), is_solid ? with->Depth : 0));
}

static void
mipmapped_free (Mipmapped *self)
{
  for (guint i = 0; i < self->n_levels; i++)
    object_kill (self->levels[i]);
  g_clear_pointer (&self->levels, g_free);
  object_kill (self);
}

ENTRY (cuMipmappedArrayCreate,
       (CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
        unsigned int n_levels),
       (array, descriptor, n_levels))
{
  FormatInfo format;
  Context *context;
  Mipmapped *self;
  guint64 size = 0;

  TRY (context_current (&context));
  if (array == NULL || descriptor == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  TRY (check_descriptor (descriptor, &format));
  self = object_new (sizeof (Mipmapped), OBJECT_MIPMAPPED, context);
  self->n_levels = CLAMP (n_levels, 1, count_levels (descriptor));
  self->levels = g_new0 (Array *, self->n_levels);
  for (guint i = 0; i < self->n_levels; i++)
    {
      CUDA_ARRAY3D_DESCRIPTOR half = halve (descriptor, i);

      self->levels[i] = array_new (context, &half, &format);
      self->levels[i]->object.hidden = TRUE;
      self->levels[i]->parent = self;
      self->levels[i]->offset = size;
      size += array_get_slice (self->levels[i]) * self->levels[i]->depth;
    }
  if (!set_memory (context, size, &self->memory))
    {
      mipmapped_free (self);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  for (guint i = 0; i < self->n_levels; i++)
    self->levels[i]->memory = self->memory;
  *array = self;
  return CUDA_SUCCESS;
}

ENTRY (cuMipmappedArrayDestroy, (CUmipmappedArray array), (array))
{
  CUresult error;

  TRY (object_check (array, OBJECT_MIPMAPPED));
  error = array->object.context->error;
  if (error == CUDA_SUCCESS)
    TRY (check_unused (array));
  drop_memory (array->memory, error);
  mipmapped_free (array);
  return error;
}

ENTRY (cuMipmappedArrayGetLevel,
       (CUarray *level_array, CUmipmappedArray array, unsigned int level),
       (level_array, array, level))
{
  Context *context;

  TRY (context_current (&context));
  TRY (object_check (array, OBJECT_MIPMAPPED));
  if (level >= array->n_levels)
    return CUDA_ERROR_INVALID_VALUE;
  *level_array = array->levels[level];
  return CUDA_SUCCESS;
}

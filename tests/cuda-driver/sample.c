/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What kernels read through textures, in the manner of CUDA: between texels with weights of nine
 * bits, eight of them behind the point. And what they read and write through surfaces. Called by
 * kernels, in the threads of streams.
 *
 * Components that the texels lack come with a value that nobody can take for one.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "gpumem/format/gpu-half-private.h"
#include "image.h"

#define NO_COMPONENT 0xcbcbcbcbu

/* One level, as it stands in memory. */
typedef struct
{
  const guint8 *data;
  gint64        sizes[3];       /* texels; slices, where these are no layers */
  gint64        n_layers;
  gsize         row;
  gsize         slice;
} Level;

/* A texel as it is read: numbers, or integers. */
typedef struct
{
  gboolean is_integer;
  double   reals[4];
  guint32  integers[4];
} Texel;

/* The thread of the kernel ends here, and so does the launch. */
static void
fail (KernelThread *thread,
      const char   *what)
{
  pthread_mutex_lock (&driver_lock);
  misuse (CUDA_ERROR_LAUNCH_FAILED, "in a kernel: %s", what);
  pthread_mutex_unlock (&driver_lock);
  thread->stop (thread, CUDA_ERROR_LAUNCH_FAILED);
}

static gpointer
find (KernelThread *thread,
      guint64       handle,
      ObjectKind    kind)
{
  Object *object;
  gboolean is_alive;

  pthread_mutex_lock (&driver_lock);
  object = object_find (handle);
  is_alive = object != NULL && object->kind == kind && !object->dead;
  pthread_mutex_unlock (&driver_lock);
  if (!is_alive)
    fail (thread, kind == OBJECT_TEXTURE ? "there is no such texture object"
                                         : "there is no such surface object");
  return object;
}

/* --- texels ----------------------------------------------------------------------------------- */

static gboolean
reads_integers (const Texture *texture)
{
  const FormatInfo *format = &texture->format;

  return format->kind != CHANNEL_REAL && !format->normalized &&
         (format->size == 4 || (texture->texture.flags & CU_TRSF_READ_AS_INTEGER) != 0);
}

static guint32
get_bits (const FormatInfo *format,
          const guint8     *data,
          guint             channel)
{
  guint32 bits = 0;

  memcpy (&bits, data + channel * format->size, format->size);
  if (format->kind == CHANNEL_INTEGER && format->size < 4)
    bits = (guint32) ((gint32) (bits << (32 - 8 * format->size)) >> (32 - 8 * format->size));
  return bits;
}

static double
get_real (const FormatInfo *format,
          guint32           bits)
{
  guint n_bits = format->size * 8;
  float single;

  if (format->kind == CHANNEL_REAL && format->size == 2)
    return _gpu_half_to_float (bits);
  if (format->kind == CHANNEL_REAL)
    {
      memcpy (&single, &bits, sizeof single);
      return single;
    }
  if (format->kind == CHANNEL_NATURAL)
    return bits / (float) ((1u << n_bits) - 1);
  return MAX ((gint32) bits / (float) ((1u << (n_bits - 1)) - 1), -1.0f);
}

static void
read_texel (const Texture *texture,
            const Level   *level,
            const gint64   place[3],
            gint64         layer,
            Texel         *texel)
{
  const FormatInfo *format = &texture->format;
  const guint8 *data = level->data + (place[2] + layer) * level->slice + place[1] * level->row +
                       place[0] * format->size * format->n_channels;

  for (guint i = 0; i < format->n_channels; i++)
    {
      texel->integers[i] = get_bits (format, data, i);
      if (!texel->is_integer)
        texel->reals[i] = get_real (format, texel->integers[i]);
    }
}

/* Of integers these are the bits. */
static void
read_border (const Texture *texture,
             Texel         *texel)
{
  for (guint i = 0; i < texture->format.n_channels; i++)
    {
      texel->reals[i] = texture->texture.borderColor[i];
      memcpy (&texel->integers[i], &texture->texture.borderColor[i], sizeof texel->integers[i]);
    }
}

/* --- places ----------------------------------------------------------------------------------- */

static gint64
modulo (gint64 a,
        gint64 n)
{
  return a % n < 0 ? a % n + n : a % n;
}

/* -1: the border. */
static gint64
find_place (CUaddress_mode mode,
            gint64         place,
            gint64         size)
{
  switch (mode)
    {
    case CU_TR_ADDRESS_MODE_WRAP:
      return modulo (place, size);
    case CU_TR_ADDRESS_MODE_MIRROR:
      place = modulo (place, 2 * size);
      return place < size ? place : 2 * size - 1 - place;
    case CU_TR_ADDRESS_MODE_BORDER:
      return place < 0 || place >= size ? -1 : place;
    default:
      return CLAMP (place, 0, size - 1);
    }
}

/* In texels; what is no number, or far away, is somewhere. */
static double
find_coordinate (const Texture *texture,
                 float          coordinate,
                 gint64         size)
{
  double value = coordinate;

  if ((texture->texture.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0)
    value *= size;
  return isnan (value) ? 0 : CLAMP (value, -1e9, 1e9);
}

static CUaddress_mode
get_mode (const Texture *texture,
          guint          dimension)
{
  gboolean is_normalized = (texture->texture.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
  CUaddress_mode mode = texture->texture.addressMode[dimension];

  return is_normalized || mode == CU_TR_ADDRESS_MODE_BORDER ? mode : CU_TR_ADDRESS_MODE_CLAMP;
}

/* --- filters ---------------------------------------------------------------------------------- */

/* The texel at places that may lie outside. */
static void
read_at (const Texture *texture,
         const Level   *level,
         guint          n_dimensions,
         const gint64   places[3],
         gint64         layer,
         Texel         *texel)
{
  gint64 found[3] = { 0, 0, 0 };

  for (guint i = 0; i < n_dimensions; i++)
    {
      found[i] = find_place (get_mode (texture, i), places[i], level->sizes[i]);
      if (found[i] < 0)
        {
          read_border (texture, texel);
          return;
        }
    }
  read_texel (texture, level, found, layer, texel);
}

static void
read_between (const Texture *texture,
              const Level   *level,
              guint          n_dimensions,
              const double   coordinates[3],
              gint64         layer,
              Texel         *texel)
{
  double weights[3];
  gint64 first[3];

  memset (texel->reals, 0, sizeof texel->reals);
  for (guint i = 0; i < n_dimensions; i++)
    {
      first[i] = (gint64) floor (coordinates[i] - 0.5);
      weights[i] = floor ((coordinates[i] - 0.5 - first[i]) * 256 + 0.5) / 256;
    }
  for (guint corner = 0; corner < 1u << n_dimensions; corner++)
    {
      Texel part = { .is_integer = FALSE };
      gint64 places[3];
      double weight = 1;

      for (guint i = 0; i < n_dimensions; i++)
        {
          places[i] = first[i] + (corner >> i & 1);
          weight *= (corner >> i & 1) != 0 ? weights[i] : 1 - weights[i];
        }
      if (weight == 0)
        continue;
      read_at (texture, level, n_dimensions, places, layer, &part);
      for (guint i = 0; i < G_N_ELEMENTS (part.reals); i++)
        texel->reals[i] += weight * part.reals[i];
    }
}

static void
read_level (const Texture *texture,
            const Level   *level,
            guint          n_dimensions,
            const float    place[3],
            gint64         layer,
            Texel         *texel)
{
  double coordinates[3] = { 0, 0, 0 };
  gint64 places[3] = { 0, 0, 0 };

  for (guint i = 0; i < n_dimensions; i++)
    {
      coordinates[i] = find_coordinate (texture, place[i], level->sizes[i]);
      places[i] = (gint64) floor (coordinates[i]);
    }
  /* As in the device, where a row lies in two dimensions, and is read at its edge. */
  n_dimensions = MAX (n_dimensions, 2);
  layer = CLAMP (layer, 0, level->n_layers - 1);
  if (texture->texture.filterMode == CU_TR_FILTER_MODE_LINEAR)
    read_between (texture, level, n_dimensions, coordinates, layer, texel);
  else
    read_at (texture, level, n_dimensions, places, layer, texel);
}

/* --- levels ----------------------------------------------------------------------------------- */

static void
get_array_level (const Array *array,
                 Level       *level)
{
  gboolean is_layered = array_is_layered (array);

  level->data = GSIZE_TO_POINTER (array_get_address (array));
  level->sizes[0] = array->width;
  level->sizes[1] = array->height;
  level->sizes[2] = is_layered ? 1 : array->depth;
  level->n_layers = is_layered ? array->depth : 1;
  level->row = array_get_row (array);
  level->slice = array_get_slice (array);
}

static void
get_level (const Texture *texture,
           guint          number,
           Level         *level)
{
  const CUDA_RESOURCE_DESC *resource = &texture->resource;

  if (texture->array != NULL)
    {
      get_array_level (texture->mipmapped != NULL ? texture->mipmapped->levels[number]
                                                  : texture->array, level);
      return;
    }
  level->data = GSIZE_TO_POINTER (resource->res.pitch2D.devPtr);
  level->sizes[0] = resource->res.pitch2D.width;
  level->sizes[1] = resource->res.pitch2D.height;
  level->sizes[2] = 1;
  level->n_layers = 1;
  level->row = resource->res.pitch2D.pitchInBytes;
  level->slice = 0;
}

static void
mix (Texel       *texel,
     const Texel *with,
     double       weight)
{
  for (guint i = 0; i < G_N_ELEMENTS (texel->reals); i++)
    texel->reals[i] = texel->reals[i] * (1 - weight) + with->reals[i] * weight;
}

static void
read_levels (const Texture *texture,
             guint          n_dimensions,
             const float    place[3],
             gint64         layer,
             float          wanted,
             Texel         *texel)
{
  const CUDA_TEXTURE_DESC *with = &texture->texture;
  guint last = texture->mipmapped != NULL ? texture->mipmapped->n_levels - 1 : 0;
  double number = CLAMP (wanted + with->mipmapLevelBias, with->minMipmapLevelClamp,
                         with->maxMipmapLevelClamp);
  gboolean is_linear = with->mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
  Level level;
  guint first;

  number = CLAMP (number, 0, last);
  first = (guint) floor (is_linear ? number : number + 0.5);
  get_level (texture, first, &level);
  read_level (texture, &level, n_dimensions, place, layer, texel);
  if (is_linear && number > first)
    {
      Texel next = { .is_integer = texel->is_integer };

      get_level (texture, first + 1, &level);
      read_level (texture, &level, n_dimensions, place, layer, &next);
      mix (texel, &next, floor ((number - first) * 256 + 0.5) / 256);
    }
}

/* --- fetches ---------------------------------------------------------------------------------- */

/* The side of a cube that a direction points to, and where on it, normalized. */
static guint
find_side (const float direction[3],
           float       place[3])
{
  float x = direction[0], y = direction[1], z = direction[2];
  float most = MAX (MAX (fabsf (x), fabsf (y)), fabsf (z));
  guint side;
  float s, t;

  if (most == fabsf (x))
    {
      side = x < 0;
      s = x < 0 ? z : -z;
      t = -y;
    }
  else if (most == fabsf (y))
    {
      side = 2 + (y < 0);
      s = x;
      t = y < 0 ? -z : z;
    }
  else
    {
      side = 4 + (z < 0);
      s = z < 0 ? -x : x;
      t = -y;
    }
  place[0] = (s / most + 1) / 2;
  place[1] = (t / most + 1) / 2;
  return side;
}

static guint
get_kind (const Texture *texture)
{
  const Array *array = texture->array;
  guint flags = array != NULL ? array->descriptor.Flags : 0;

  if (array == NULL)
    return texture->resource.resType == CU_RESOURCE_TYPE_LINEAR ? FETCH_LINEAR : FETCH_2D;
  if ((flags & CUDA_ARRAY3D_CUBEMAP) != 0)
    return (flags & CUDA_ARRAY3D_LAYERED) != 0 ? FETCH_CUBE_LAYERED : FETCH_CUBE;
  if ((flags & CUDA_ARRAY3D_LAYERED) != 0)
    return array->descriptor.Height > 0 ? FETCH_2D_LAYERED : FETCH_1D_LAYERED;
  return array->descriptor.Depth > 0 ? FETCH_3D : array->descriptor.Height > 0 ? FETCH_2D
                                                                              : FETCH_1D;
}

static guint
count_dimensions (guint kind)
{
  switch (kind)
    {
    case FETCH_1D:
    case FETCH_1D_LAYERED:
      return 1;
    case FETCH_3D:
      return 3;
    default:
      return 2;
    }
}

static void
read_linear (const Texture *texture,
             gint64         place,
             Texel         *texel)
{
  const FormatInfo *format = &texture->format;
  const CUDA_RESOURCE_DESC *resource = &texture->resource;
  guint64 n = resource->res.linear.sizeInBytes / (format->size * format->n_channels);
  const Level level = { .data = GSIZE_TO_POINTER (resource->res.linear.devPtr) };
  const gint64 places[3] = { place, 0, 0 };

  if (place >= 0 && (guint64) place < n)
    read_texel (texture, &level, places, 0, texel);
}

static void
finish (const Texture *texture,
        const Texel   *texel,
        guint32        result[4])
{
  for (guint i = 0; i < 4; i++)
    {
      float single = (float) texel->reals[i];

      if (i >= texture->format.n_channels)
        result[i] = NO_COMPONENT;
      else if (texel->is_integer)
        result[i] = texel->integers[i];
      else
        memcpy (&result[i], &single, sizeof single);
    }
}

void
texture_fetch (KernelThread      *thread,
               const KernelFetch *fetch,
               guint32            result[4])
{
  const Texture *texture = find (thread, fetch->object, OBJECT_TEXTURE);
  Texel texel = { .is_integer = reads_integers (texture) };
  float place[3] = { fetch->place[0], fetch->place[1], fetch->place[2] };
  gint64 layer = fetch->layer;

  if (get_kind (texture) != fetch->kind)
    fail (thread, "a texture is read by the function for another kind");
  if (fetch->kind == FETCH_LINEAR)
    read_linear (texture, layer, &texel);
  else
    {
      if (fetch->kind == FETCH_CUBE || fetch->kind == FETCH_CUBE_LAYERED)
        layer = layer * 6 + find_side (fetch->place, place);
      read_levels (texture, count_dimensions (fetch->kind), place, layer, fetch->level, &texel);
    }
  finish (texture, &texel, result);
}

/* --- surfaces --------------------------------------------------------------------------------- */

/* FALSE: outside. */
static gboolean
find_inside (gint64 *place,
             gint64  size,
             guint   outside)
{
  if (*place >= 0 && *place < size)
    return TRUE;
  if (outside != OUTSIDE_CLAMP)
    return FALSE;
  *place = CLAMP (*place, 0, size - 1);
  return TRUE;
}

void
surface_access (KernelThread       *thread,
                const KernelAccess *access)
{
  const Surface *surface = find (thread, access->object, OBJECT_SURFACE);
  const Texture as_texture = { .array = surface->array };
  gint64 x = access->place[0];
  gint64 y = access->place[1];
  gint64 z = access->place[2];
  gint64 layer = access->layer;
  Level level;
  guint8 *data;

  get_array_level (surface->array, &level);
  if (get_kind (&as_texture) != access->kind)
    fail (thread, "a surface is used by the function for another kind");
  if (x % access->size != 0)
    fail (thread, "the first coordinate of a surface counts bytes");
  x /= access->size;
  if (!find_inside (&x, level.row / access->size, access->outside) ||
      !find_inside (&y, level.sizes[1], access->outside) ||
      !find_inside (&z, level.sizes[2], access->outside) ||
      !find_inside (&layer, level.n_layers, access->outside))
    {
      if (access->outside == OUTSIDE_TRAP)
        thread->stop (thread, CUDA_ERROR_LAUNCH_FAILED);
      if (!access->writes)
        memset (access->data, 0, access->size);
      return;
    }
  data = (guint8 *) level.data + (z + layer) * level.slice + y * level.row + x * access->size;
  if (access->writes)
    memcpy (data, access->data, access->size);
  else
    memcpy (access->data, data, access->size);
}

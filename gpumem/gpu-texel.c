/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <math.h>
#include <string.h>

#include "gpumem/gpu-half-private.h"
#include "gpumem/gpu-texel-private.h"

#define RED   0
#define GREEN 1
#define BLUE  2
#define ALPHA 3

/* Which component stands in which place. */
static const guint8 *
get_places (GpuChannelOrder  order,
            guint           *n_channels)
{
  static const guint8 rgba[] = { RED, GREEN, BLUE, ALPHA };
  static const guint8 bgra[] = { BLUE, GREEN, RED, ALPHA };
  static const guint8 argb[] = { ALPHA, RED, GREEN, BLUE };
  static const guint8 abgr[] = { ALPHA, BLUE, GREEN, RED };
  static const guint8 ra[] = { RED, ALPHA };
  static const guint8 a[] = { ALPHA };
  const GpuImageFormat format = { order, GPU_CHANNEL_TYPE_UNORM8 };

  *n_channels = gpu_image_format_get_n_channels (&format);

  switch (order)
    {
    case GPU_CHANNEL_ORDER_A:
      return a;
    case GPU_CHANNEL_ORDER_RA:
      return ra;
    case GPU_CHANNEL_ORDER_BGRA:
    case GPU_CHANNEL_ORDER_SBGRA:
      return bgra;
    case GPU_CHANNEL_ORDER_ARGB:
      return argb;
    case GPU_CHANNEL_ORDER_ABGR:
      return abgr;
    default:
      return rgba;
    }
}

GpuTexelKind
_gpu_texel_get_kind (const GpuImageFormat *format)
{
  switch (format->channel_type)
    {
    case GPU_CHANNEL_TYPE_INT8:
    case GPU_CHANNEL_TYPE_INT16:
    case GPU_CHANNEL_TYPE_INT32:
      return GPU_TEXEL_INTEGER;
    case GPU_CHANNEL_TYPE_UINT8:
    case GPU_CHANNEL_TYPE_UINT16:
    case GPU_CHANNEL_TYPE_UINT32:
      return GPU_TEXEL_NATURAL;
    default:
      return GPU_TEXEL_REAL;
    }
}

guint
_gpu_texel_get_one (const GpuImageFormat *format,
                    guint                 channel)
{
  switch (format->channel_type)
    {
    case GPU_CHANNEL_TYPE_UNORM8:
      return G_MAXUINT8;
    case GPU_CHANNEL_TYPE_UNORM16:
      return G_MAXUINT16;
    case GPU_CHANNEL_TYPE_SNORM8:
      return G_MAXINT8;
    case GPU_CHANNEL_TYPE_SNORM16:
      return G_MAXINT16;
    case GPU_CHANNEL_TYPE_UNORM_565:
      return channel == GREEN ? 63 : 31;
    case GPU_CHANNEL_TYPE_UNORM_555:
      return 31;
    case GPU_CHANNEL_TYPE_UNORM_101010:
      return 1023;
    default:
      return 0;
    }
}

static gboolean
is_srgb (const GpuImageFormat *format)
{
  return format->channel_order == GPU_CHANNEL_ORDER_SRGBA
         || format->channel_order == GPU_CHANNEL_ORDER_SBGRA;
}

static float
from_srgb (float value)
{
  return value <= 0.04045f ? value / 12.92f : powf ((value + 0.055f) / 1.055f, 2.4f);
}

static float
to_srgb (float value)
{
  return value < 0.0031308f ? 12.92f * value : 1.055f * powf (value, 1 / 2.4f) - 0.055f;
}

/* Rows of the host may begin at any byte. */
static inline guint16
get_16 (const guint8 *data,
        guint         place)
{
  guint16 value;

  memcpy (&value, data + place * sizeof value, sizeof value);

  return value;
}

static inline void
set_16 (guint8  *data,
        guint    place,
        guint16  value)
{
  memcpy (data + place * sizeof value, &value, sizeof value);
}

/* --- channels that are packed together -------------------------------------------------------- */

/* How far up each channel of a packed texel stands. */
static guint
get_shift (GpuChannelType type,
           guint          channel)
{
  static const guint8 shifts[][3] = { { 11, 5, 0 }, { 10, 5, 0 }, { 20, 10, 0 } };

  return shifts[type - GPU_CHANNEL_TYPE_UNORM_565][channel];
}

static guint32
get_packed (const GpuImageFormat *format,
            const guint8         *data)
{
  guint32 bits;

  if (gpu_image_format_get_texel_size (format) == sizeof (guint16))
    return get_16 (data, 0);

  memcpy (&bits, data, sizeof bits);

  return bits;
}

static void
read_packed (const GpuImageFormat *format,
             const guint8         *data,
             GpuTexel             *texel)
{
  guint32 bits = get_packed (format, data);

  for (guint i = RED; i <= BLUE; i++)
    {
      guint one = _gpu_texel_get_one (format, i);

      texel->real[i] = (bits >> get_shift (format->channel_type, i) & one) / (float) one;
    }
}

/* Rounds @value times @one, and clamps. What is no number is 0. */
static gint32
quantize (float value,
          guint one,
          gint  least)
{
  float scaled = value * (float) one;

  if (isnan (scaled))
    return 0;

  return (gint32) nearbyintf (CLAMP (scaled, (float) least, (float) one));
}

static void
write_packed (const GpuImageFormat *format,
              const GpuTexel       *texel,
              guint8               *data)
{
  guint32 bits = 0;

  for (guint i = RED; i <= BLUE; i++)
    bits |= (guint32) quantize (texel->real[i], _gpu_texel_get_one (format, i), 0)
            << get_shift (format->channel_type, i);

  if (gpu_image_format_get_texel_size (format) == sizeof (guint16))
    set_16 (data, 0, (guint16) bits);
  else
    memcpy (data, &bits, sizeof bits);
}

static gboolean
is_packed (const GpuImageFormat *format)
{
  return format->channel_type >= GPU_CHANNEL_TYPE_UNORM_565;
}

/* --- a channel at a time ---------------------------------------------------------------------- */

static void
read_channel (const GpuImageFormat *format,
              const guint8         *data,
              guint                 place,
              guint                 component,
              GpuTexel             *texel)
{
  float one = (float) _gpu_texel_get_one (format, component);

  switch (format->channel_type)
    {
    case GPU_CHANNEL_TYPE_UNORM8:
      texel->real[component] = data[place] / one;
      break;
    case GPU_CHANNEL_TYPE_UNORM16:
      texel->real[component] = get_16 (data, place) / one;
      break;
    case GPU_CHANNEL_TYPE_SNORM8:
      texel->real[component] = MAX (((const gint8 *) data)[place] / one, -1.0f);
      break;
    case GPU_CHANNEL_TYPE_SNORM16:
      texel->real[component] = MAX ((gint16) get_16 (data, place) / one, -1.0f);
      break;
    case GPU_CHANNEL_TYPE_UINT8:
      texel->natural[component] = data[place];
      break;
    case GPU_CHANNEL_TYPE_UINT16:
      texel->natural[component] = get_16 (data, place);
      break;
    case GPU_CHANNEL_TYPE_INT8:
      texel->integer[component] = ((const gint8 *) data)[place];
      break;
    case GPU_CHANNEL_TYPE_INT16:
      texel->integer[component] = (gint16) get_16 (data, place);
      break;
    case GPU_CHANNEL_TYPE_FLOAT16:
      texel->real[component] = _gpu_half_to_float (get_16 (data, place));
      break;
    default:
      memcpy (&texel->natural[component], data + place * sizeof (guint32), sizeof (guint32));
      break;
    }
}

static void
write_channel (const GpuImageFormat *format,
               const GpuTexel       *texel,
               guint                 component,
               guint8               *data,
               guint                 place)
{
  gint one = (gint) _gpu_texel_get_one (format, component);

  switch (format->channel_type)
    {
    case GPU_CHANNEL_TYPE_UNORM8:
      data[place] = (guint8) quantize (texel->real[component], one, 0);
      break;
    case GPU_CHANNEL_TYPE_UNORM16:
      set_16 (data, place, (guint16) quantize (texel->real[component], one, 0));
      break;
    case GPU_CHANNEL_TYPE_SNORM8:
      ((gint8 *) data)[place] = (gint8) quantize (texel->real[component], one, -one - 1);
      break;
    case GPU_CHANNEL_TYPE_SNORM16:
      set_16 (data, place, (guint16) quantize (texel->real[component], one, -one - 1));
      break;
    case GPU_CHANNEL_TYPE_UINT8:
      data[place] = (guint8) MIN (texel->natural[component], G_MAXUINT8);
      break;
    case GPU_CHANNEL_TYPE_UINT16:
      set_16 (data, place, (guint16) MIN (texel->natural[component], G_MAXUINT16));
      break;
    case GPU_CHANNEL_TYPE_INT8:
      ((gint8 *) data)[place] = (gint8) CLAMP (texel->integer[component], G_MININT8, G_MAXINT8);
      break;
    case GPU_CHANNEL_TYPE_INT16:
      set_16 (data, place, (guint16) CLAMP (texel->integer[component], G_MININT16, G_MAXINT16));
      break;
    case GPU_CHANNEL_TYPE_FLOAT16:
      set_16 (data, place, _gpu_half_from_double (texel->real[component]));
      break;
    default:
      memcpy (data + place * sizeof (guint32), &texel->natural[component], sizeof (guint32));
      break;
    }
}

/* What one channel stands for where it is not red alone. */
static void
spread (const GpuImageFormat *format,
        GpuTexel             *texel)
{
  if (format->channel_order == GPU_CHANNEL_ORDER_INTENSITY)
    texel->natural[ALPHA] = texel->natural[RED];

  if (format->channel_order == GPU_CHANNEL_ORDER_INTENSITY
      || format->channel_order == GPU_CHANNEL_ORDER_LUMINANCE)
    texel->natural[GREEN] = texel->natural[BLUE] = texel->natural[RED];
}

/* What a texel without channels would be. */
static void
clear (const GpuImageFormat *format,
       GpuTexel             *texel)
{
  memset (texel, 0, sizeof *texel);

  if (_gpu_texel_get_kind (format) == GPU_TEXEL_REAL)
    texel->real[ALPHA] = 1;
  else
    texel->natural[ALPHA] = 1;
}

void
_gpu_texel_restrict (const GpuImageFormat *format,
                     GpuTexel             *texel)
{
  const GpuTexel whole = *texel;
  guint n_channels;
  const guint8 *places = get_places (format->channel_order, &n_channels);

  clear (format, texel);

  for (guint i = 0; i < n_channels; i++)
    texel->natural[places[i]] = whole.natural[places[i]];

  spread (format, texel);
}

void
_gpu_texel_read (const GpuImageFormat *format,
                 const guint8         *data,
                 GpuTexel             *texel)
{
  guint n_channels;
  const guint8 *places = get_places (format->channel_order, &n_channels);

  clear (format, texel);

  if (is_packed (format))
    {
      read_packed (format, data, texel);
      return;
    }

  for (guint i = 0; i < n_channels; i++)
    read_channel (format, data, i, places[i], texel);

  for (guint i = RED; is_srgb (format) && i <= BLUE; i++)
    texel->real[i] = from_srgb (texel->real[i]);

  spread (format, texel);
}

void
_gpu_texel_write (const GpuImageFormat *format,
                  const GpuTexel       *texel,
                  guint8               *data)
{
  guint n_channels;
  const guint8 *places = get_places (format->channel_order, &n_channels);
  GpuTexel converted = *texel;

  if (is_packed (format))
    {
      write_packed (format, texel, data);
      return;
    }

  for (guint i = RED; is_srgb (format) && i <= BLUE; i++)
    converted.real[i] = to_srgb (texel->real[i]);

  for (guint i = 0; i < n_channels; i++)
    write_channel (format, &converted, places[i], data, i);
}

static gdouble
round_within (gdouble value,
              gdouble least,
              gdouble most)
{
  return isnan (value) ? 0 : nearbyint (CLAMP (value, least, most));
}

void
_gpu_texel_from_color (const GpuImageFormat *format,
                       const GpuColor       *color,
                       guint8               *data)
{
  const gdouble values[] = { color->red, color->green, color->blue, color->alpha };
  GpuTexelKind kind = _gpu_texel_get_kind (format);
  GpuTexel texel;

  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    {
      if (kind == GPU_TEXEL_REAL)
        texel.real[i] = (float) values[i];
      else if (kind == GPU_TEXEL_INTEGER)
        texel.integer[i] = (gint32) round_within (values[i], G_MININT32, G_MAXINT32);
      else
        texel.natural[i] = (guint32) round_within (values[i], 0, G_MAXUINT32);
    }

  _gpu_texel_write (format, &texel, data);
}

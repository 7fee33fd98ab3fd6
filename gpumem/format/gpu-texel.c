/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <math.h>
#include <string.h>

#include "gpumem/format/gpu-half-private.h"
#include "gpumem/format/gpu-texel-private.h"

#define RED   0
#define GREEN 1
#define BLUE  2
#define ALPHA 3

/* Channel numbers for components that no channel stores: such a component is read as 0 or 1. */
#define ZERO 4
#define ONE  5

/* The channels of a texel in memory order, followed by 0 and 1. */
typedef union
{
  float   real[6];
  gint32  integer[6];
  guint32 natural[6];
} Channels;

/* components: the component that each channel stores. channels: the channel from which each
 * component is read. */
typedef struct
{
  guint  n_channels;
  guint8 components[4];
  guint8 channels[4];
} Order;

static const Order orders[] =
{
  [GPU_CHANNEL_ORDER_R]         = { 1, { RED }, { 0, ZERO, ZERO, ONE } },
  [GPU_CHANNEL_ORDER_A]         = { 1, { ALPHA }, { ZERO, ZERO, ZERO, 0 } },
  [GPU_CHANNEL_ORDER_RG]        = { 2, { RED, GREEN }, { 0, 1, ZERO, ONE } },
  [GPU_CHANNEL_ORDER_RA]        = { 2, { RED, ALPHA }, { 0, ZERO, ZERO, 1 } },
  [GPU_CHANNEL_ORDER_RGB]       = { 3, { RED, GREEN, BLUE }, { 0, 1, 2, ONE } },
  [GPU_CHANNEL_ORDER_RGBA]      = { 4, { RED, GREEN, BLUE, ALPHA }, { 0, 1, 2, 3 } },
  [GPU_CHANNEL_ORDER_BGRA]      = { 4, { BLUE, GREEN, RED, ALPHA }, { 2, 1, 0, 3 } },
  [GPU_CHANNEL_ORDER_ARGB]      = { 4, { ALPHA, RED, GREEN, BLUE }, { 1, 2, 3, 0 } },
  [GPU_CHANNEL_ORDER_ABGR]      = { 4, { ALPHA, BLUE, GREEN, RED }, { 3, 2, 1, 0 } },
  [GPU_CHANNEL_ORDER_INTENSITY] = { 1, { RED }, { 0, 0, 0, 0 } },
  [GPU_CHANNEL_ORDER_LUMINANCE] = { 1, { RED }, { 0, 0, 0, ONE } },
  [GPU_CHANNEL_ORDER_DEPTH]     = { 1, { RED }, { 0, ZERO, ZERO, ONE } },
  [GPU_CHANNEL_ORDER_SRGBA]     = { 4, { RED, GREEN, BLUE, ALPHA }, { 0, 1, 2, 3 } },
  [GPU_CHANNEL_ORDER_SBGRA]     = { 4, { BLUE, GREEN, RED, ALPHA }, { 2, 1, 0, 3 } }
};

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

/* Unaligned loads: rows of host memory may begin at any byte. */
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

/* Returns the number of the lowest bit of @channel in a packed texel. */
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

  if (format->channel_type != GPU_CHANNEL_TYPE_UNORM_101010)
    return get_16 (data, 0);

  memcpy (&bits, data, sizeof bits);

  return bits;
}

static void
read_packed (const GpuImageFormat *format,
             const guint8         *data,
             Channels             *channels)
{
  guint32 bits = get_packed (format, data);

  for (guint i = RED; i <= BLUE; i++)
    {
      guint one = _gpu_texel_get_one (format, i);

      channels->real[i] = (bits >> get_shift (format->channel_type, i) & one) / (float) one;
    }
}

/* Like nearbyintf(), but without a function call. */
static gint32
round_to_even (float value)
{
  gint32 whole = (gint32) value;
  float rest = fabsf (value - (float) whole);
  gboolean away = rest > 0.5f || (rest == 0.5f && whole % 2 != 0);

  return value < 0 ? whole - away : whole + away;
}

/* Rounds @value times @one, and clamps. NaN becomes 0. */
static gint32
quantize (float value,
          guint one,
          gint  least)
{
  float scaled = value * (float) one;

  if (isnan (scaled))
    return 0;

  return round_to_even (CLAMP (scaled, (float) least, (float) one));
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

  if (format->channel_type != GPU_CHANNEL_TYPE_UNORM_101010)
    set_16 (data, 0, (guint16) bits);
  else
    memcpy (data, &bits, sizeof bits);
}

static gboolean
is_packed (const GpuImageFormat *format)
{
  return format->channel_type >= GPU_CHANNEL_TYPE_UNORM_565;
}

/* --- separate channels ------------------------------------------------------------------------ */

static void
read_channels (GpuChannelType  type,
               guint           n_channels,
               const guint8   *data,
               Channels       *channels)
{
  switch (type)
    {
    case GPU_CHANNEL_TYPE_UNORM8:
      for (guint i = 0; i < n_channels; i++)
        channels->real[i] = data[i] / (float) G_MAXUINT8;
      break;
    case GPU_CHANNEL_TYPE_UNORM16:
      for (guint i = 0; i < n_channels; i++)
        channels->real[i] = get_16 (data, i) / (float) G_MAXUINT16;
      break;
    case GPU_CHANNEL_TYPE_SNORM8:
      for (guint i = 0; i < n_channels; i++)
        channels->real[i] = MAX ((gint8) data[i] / (float) G_MAXINT8, -1.0f);
      break;
    case GPU_CHANNEL_TYPE_SNORM16:
      for (guint i = 0; i < n_channels; i++)
        channels->real[i] = MAX ((gint16) get_16 (data, i) / (float) G_MAXINT16, -1.0f);
      break;
    case GPU_CHANNEL_TYPE_UINT8:
      for (guint i = 0; i < n_channels; i++)
        channels->natural[i] = data[i];
      break;
    case GPU_CHANNEL_TYPE_UINT16:
      for (guint i = 0; i < n_channels; i++)
        channels->natural[i] = get_16 (data, i);
      break;
    case GPU_CHANNEL_TYPE_INT8:
      for (guint i = 0; i < n_channels; i++)
        channels->integer[i] = (gint8) data[i];
      break;
    case GPU_CHANNEL_TYPE_INT16:
      for (guint i = 0; i < n_channels; i++)
        channels->integer[i] = (gint16) get_16 (data, i);
      break;
    case GPU_CHANNEL_TYPE_FLOAT16:
      for (guint i = 0; i < n_channels; i++)
        channels->real[i] = _gpu_half_to_float (get_16 (data, i));
      break;
    default:
      memcpy (channels, data, n_channels * sizeof (guint32));
      break;
    }
}

static void
write_channels (GpuChannelType  type,
                guint           n_channels,
                const Channels *channels,
                guint8         *data)
{
  switch (type)
    {
    case GPU_CHANNEL_TYPE_UNORM8:
      for (guint i = 0; i < n_channels; i++)
        data[i] = (guint8) quantize (channels->real[i], G_MAXUINT8, 0);
      break;
    case GPU_CHANNEL_TYPE_UNORM16:
      for (guint i = 0; i < n_channels; i++)
        set_16 (data, i, (guint16) quantize (channels->real[i], G_MAXUINT16, 0));
      break;
    case GPU_CHANNEL_TYPE_SNORM8:
      for (guint i = 0; i < n_channels; i++)
        data[i] = (guint8) quantize (channels->real[i], G_MAXINT8, G_MININT8);
      break;
    case GPU_CHANNEL_TYPE_SNORM16:
      for (guint i = 0; i < n_channels; i++)
        set_16 (data, i, (guint16) quantize (channels->real[i], G_MAXINT16, G_MININT16));
      break;
    case GPU_CHANNEL_TYPE_UINT8:
      for (guint i = 0; i < n_channels; i++)
        data[i] = (guint8) MIN (channels->natural[i], G_MAXUINT8);
      break;
    case GPU_CHANNEL_TYPE_UINT16:
      for (guint i = 0; i < n_channels; i++)
        set_16 (data, i, (guint16) MIN (channels->natural[i], G_MAXUINT16));
      break;
    case GPU_CHANNEL_TYPE_INT8:
      for (guint i = 0; i < n_channels; i++)
        data[i] = (guint8) CLAMP (channels->integer[i], G_MININT8, G_MAXINT8);
      break;
    case GPU_CHANNEL_TYPE_INT16:
      for (guint i = 0; i < n_channels; i++)
        set_16 (data, i, (guint16) CLAMP (channels->integer[i], G_MININT16, G_MAXINT16));
      break;
    case GPU_CHANNEL_TYPE_FLOAT16:
      for (guint i = 0; i < n_channels; i++)
        set_16 (data, i, _gpu_half_from_double (channels->real[i]));
      break;
    default:
      memcpy (data, channels, n_channels * sizeof (guint32));
      break;
    }
}

/* --- texels ----------------------------------------------------------------------------------- */

/* Stores all four components at once, so that a later load of the whole texel does not wait for
 * four separate stores. */
static void
arrange (const GpuImageFormat *format,
         Channels             *channels,
         GpuTexel             *texel)
{
  const guint8 *places = orders[format->channel_order].channels;

  channels->natural[ZERO] = 0;

  if (_gpu_texel_get_kind (format) == GPU_TEXEL_REAL)
    channels->real[ONE] = 1;
  else
    channels->natural[ONE] = 1;

  *texel = (GpuTexel) { .natural = { channels->natural[places[RED]],
                                     channels->natural[places[GREEN]],
                                     channels->natural[places[BLUE]],
                                     channels->natural[places[ALPHA]] } };
}

void
_gpu_texel_restrict (const GpuImageFormat *format,
                     GpuTexel             *texel)
{
  const Order *order = &orders[format->channel_order];
  Channels channels;

  for (guint i = 0; i < order->n_channels; i++)
    channels.natural[i] = texel->natural[order->components[i]];

  arrange (format, &channels, texel);
}

static void
read_any (const GpuImageFormat *format,
          const guint8         *data,
          GpuTexel             *texel)
{
  Channels channels;

  if (is_packed (format))
    read_packed (format, data, &channels);
  else
    read_channels (format->channel_type, orders[format->channel_order].n_channels, data,
                   &channels);

  arrange (format, &channels, texel);

  for (guint i = RED; is_srgb (format) && i <= BLUE; i++)
    texel->real[i] = from_srgb (texel->real[i]);
}

/* The most common formats take a fast path. */
void
_gpu_texel_read (const GpuImageFormat *format,
                 const guint8         *data,
                 GpuTexel             *texel)
{
  gboolean is_rgba = format->channel_order == GPU_CHANNEL_ORDER_RGBA;
  const float one = G_MAXUINT8;

  if (is_rgba && format->channel_type == GPU_CHANNEL_TYPE_UNORM8)
    *texel = (GpuTexel) { .real = { data[0] / one, data[1] / one, data[2] / one,
                                    data[3] / one } };
  else if (is_rgba && format->channel_type == GPU_CHANNEL_TYPE_FLOAT32)
    memcpy (texel, data, sizeof *texel);
  else
    read_any (format, data, texel);
}

void
_gpu_texel_write (const GpuImageFormat *format,
                  const GpuTexel       *texel,
                  guint8               *data)
{
  const Order *order = &orders[format->channel_order];
  Channels channels;

  if (is_packed (format))
    {
      write_packed (format, texel, data);
      return;
    }

  for (guint i = 0; i < order->n_channels; i++)
    {
      guint component = order->components[i];

      if (is_srgb (format) && component != ALPHA)
        channels.real[i] = to_srgb (texel->real[component]);
      else
        channels.natural[i] = texel->natural[component];
    }

  write_channels (format->channel_type, order->n_channels, &channels, data);
}

static gdouble
round_within (gdouble value,
              gdouble least,
              gdouble most)
{
  return isnan (value) ? 0 : nearbyint (CLAMP (value, least, most));
}

/* Rounds to the nearest value that the format can store. Computes in double: a conversion to float
 * before the rounding would round twice. */
static float
round_real (const GpuImageFormat *format,
            guint                 component,
            gdouble               value)
{
  guint one = _gpu_texel_get_one (format, component);

  if (format->channel_type == GPU_CHANNEL_TYPE_FLOAT16)
    return _gpu_half_to_float (_gpu_half_from_double (value));

  if (one == 0 || (is_srgb (format) && component != ALPHA))
    return (float) value;

  return (float) (nearbyint (value * one) / one);
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
        texel.real[i] = round_real (format, i, values[i]);
      else if (kind == GPU_TEXEL_INTEGER)
        texel.integer[i] = (gint32) round_within (values[i], G_MININT32, G_MAXINT32);
      else
        texel.natural[i] = (guint32) round_within (values[i], 0, G_MAXUINT32);
    }

  _gpu_texel_write (format, &texel, data);
}

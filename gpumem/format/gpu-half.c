/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <math.h>
#include <string.h>

#include "gpumem/format/gpu-half-private.h"

guint16
_gpu_half_from_double (gdouble value)
{
  guint16 sign = signbit (value) ? 0x8000 : 0;
  gdouble magnitude = fabs (value);
  gdouble scaled;
  int exponent;

  if (isnan (value))
    return 0x7e00;
  if (magnitude >= 65520.0)
    return sign | 0x7c00;
  if (magnitude < 0x1p-14)
    return sign | (guint16) nearbyint (magnitude * 0x1p24);

  frexp (magnitude, &exponent);
  scaled = nearbyint (ldexp (magnitude, 11 - exponent));

  /* `scaled` is 1024 to 2048. The value 2048 carries into the exponent, as intended. */
  return sign | (guint16) (((exponent + 13) << 10) + (int) scaled);
}

gfloat
_gpu_half_to_float (guint16 half)
{
  gfloat sign = (half & 0x8000) != 0 ? -1 : 1;
  int exponent = half >> 10 & 0x1f;
  gfloat fraction = half & 0x3ff;
  guint32 bits;
  gfloat value;

  if (exponent == 0x1f)
    return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0)
    return sign * fraction * 0x1p-24f;

  /* A float has the exponent bias 127 instead of 15, and a fraction of 23 bits instead of 10. */
  bits = (guint32) (half & 0x8000) << 16 | (guint32) (exponent + 112) << 23
         | (guint32) (half & 0x3ff) << 13;
  memcpy (&value, &bits, sizeof value);

  return value;
}

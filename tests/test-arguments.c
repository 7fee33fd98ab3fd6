/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Numbers as arguments, converted to every parameter type of kernels. */
#include "config.h"

#include <math.h>

#include "gpumem/program/gpu-arguments-private.h"

#include "test-util.h"

static double
from_half (guint16 half)
{
  int exponent = (half >> 10) & 0x1f;
  double fraction = half & 0x3ff;
  double magnitude;

  if (exponent == 0x1f)
    magnitude = fraction > 0 ? NAN : INFINITY;
  else if (exponent == 0)
    magnitude = ldexp (fraction, -24);
  else
    magnitude = ldexp (fraction + 1024, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

static guint16
to_half (double value)
{
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();

  gpu_arguments_add_double (arguments, value);
  return arguments->items[0].value.number.half;
}

/* Every half converts to double and back unchanged. A number between two halves is rounded to the
 * nearer half, and a tie to the even half. */
static void
arguments_half (void)
{
  for (guint i = 0; i < 0x7c00; i++)
    {
      double value = from_half (i);
      double next = i + 1 < 0x7c00 ? from_half (i + 1) : 65536.0;
      double middle = (value + next) / 2;
      double below = nextafter (middle, 0);
      double above = nextafter (middle, INFINITY);

      g_assert_cmphex (to_half (value), ==, i);
      g_assert_cmphex (to_half (-value), ==, i | 0x8000);
      g_assert_cmphex (to_half (below), ==, i);
      g_assert_cmphex (to_half (above), ==, i + 1);
      g_assert_cmphex (to_half (middle), ==, i % 2 == 0 ? i : i + 1);
    }

  g_assert_cmphex (to_half (INFINITY), ==, 0x7c00);
  g_assert_cmphex (to_half (-INFINITY), ==, 0xfc00);
  g_assert_cmphex (to_half (1e300), ==, 0x7c00);
  g_assert_cmphex (to_half (-0.0), ==, 0x8000);
  g_assert_true (isnan (from_half (to_half (NAN))));
}

/* Only whole numbers from -2^63 up to 2^64 are converted to 64-bit integers. */
static void
arguments_whole (void)
{
  static const struct
  {
    double   value;
    gboolean is_whole;
    guint64  bits;
  } cases[] =
  {
    { 0, TRUE, 0 },
    { -0.0, TRUE, 0 },
    { -1, TRUE, G_MAXUINT64 },
    { 0.5, FALSE, 0 },
    { 0x1p63, TRUE, (guint64) 1 << 63 },
    { -0x1p63, TRUE, (guint64) 1 << 63 },
    { 0x1p64 - 2048, TRUE, G_MAXUINT64 - 2047 },
    { 0x1p64, FALSE, 0 },
    { -0x1p63 - 2048, FALSE, 0 },
    { NAN, FALSE, 0 },
    { INFINITY, FALSE, 0 }
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GpuArguments) arguments = gpu_arguments_new ();

      gpu_arguments_add_double (arguments, cases[i].value);
      g_assert_cmpint (arguments->items[0].value.number.integral, ==, cases[i].is_whole);
      g_assert_cmphex ((guint64) arguments->items[0].value.number.integer, ==, cases[i].bits);
    }
}

static void
arguments_unsigned (void)
{
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  const GpuArgumentItem *item;

  gpu_arguments_add_uint (arguments, 3);
  gpu_arguments_add_uint (arguments, G_MAXUINT64);

  item = &arguments->items[0];
  g_assert_true (item->value.number.integral);
  g_assert_cmpint (item->value.number.integer, ==, 3);
  g_assert_cmphex (item->value.number.half, ==, to_half (3));

  item = &arguments->items[1];
  g_assert_true (item->value.number.integral);
  g_assert_cmphex ((guint64) item->value.number.integer, ==, G_MAXUINT64);
  g_assert_true (item->value.number.real == 0x1p64);
  g_assert_true (item->value.number.single == 0x1p64f);
  g_assert_cmphex (item->value.number.half, ==, 0x7c00);
}

/* Adds more arguments than fit into the structure itself, with values of every size. */
static void
arguments_many (void)
{
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();
  guint8 bytes[100];

  for (guint i = 0; i < sizeof bytes; i++)
    bytes[i] = i;

  for (guint round = 0; round < 2; round++)
    {
      for (gsize i = 0; i <= sizeof bytes; i++)
        gpu_arguments_add_value (arguments, bytes, i);
      g_assert_cmpuint (gpu_arguments_get_length (arguments), ==, sizeof bytes + 1);

      for (gsize i = 0; i <= sizeof bytes; i++)
        {
          GpuArgumentItem *item = &arguments->items[i];

          g_assert_cmpuint (item->size, ==, i);
          g_assert_cmpmem (i > GPU_ARGUMENT_INLINE_SIZE ? item->value.allocated
                                                        : item->value.bytes, i, bytes, i);
        }

      gpu_arguments_clear (arguments);
      g_assert_cmpuint (gpu_arguments_get_length (arguments), ==, 0);
    }
}

/* The boxed type's copy and free functions are ref and unref. */
static void
arguments_boxed (void)
{
  GpuArguments *arguments = gpu_arguments_new ();
  GpuArguments *copy;

  gpu_arguments_add_int (arguments, 1);
  copy = g_boxed_copy (GPU_TYPE_ARGUMENTS, arguments);
  g_assert_true (copy == arguments);
  gpu_arguments_unref (arguments);
  g_assert_cmpuint (gpu_arguments_get_length (copy), ==, 1);
  g_boxed_free (GPU_TYPE_ARGUMENTS, copy);
}

int
main (int argc, char **argv)
{
  test_init (&argc, &argv);
  test_add_plain ("half", arguments_half);
  test_add_plain ("whole", arguments_whole);
  test_add_plain ("unsigned", arguments_unsigned);
  test_add_plain ("many", arguments_many);
  test_add_plain ("boxed", arguments_boxed);
  return test_run ();
}

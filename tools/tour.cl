/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The kernels of the tour. A pixel is one 32-bit number, red in its lowest byte, then green, blue
 * and alpha. All arithmetic is on integers, so that the results of all devices are identical.
 */

int
confine (int value, int limit)
{
  return value < 0 ? 0 : value >= limit ? limit - 1 : value;
}

int
luminance (uint pixel)
{
  uint sum = 77 * (pixel & 255) + 150 * ((pixel >> 8) & 255) + 29 * ((pixel >> 16) & 255);

  return (int) (sum >> 8);
}

/* One direction of a Gaussian blur: along either the rows or the columns. The weights of the
 * 2 * radius + 1 taps add up to 65536. */
__kernel void
blur (__global const uint *source,
      __global uint       *destination,
      __global const uint *weights,
      int                  radius,
      int                  width,
      int                  height,
      int                  along_rows)
{
  int x = (int) get_global_id (0);
  int y = (int) get_global_id (1);
  int place = along_rows ? x : y;
  int limit = along_rows ? width : height;
  int step = along_rows ? 1 : width;
  int start = along_rows ? y * width : x;
  uint red = 32768;
  uint green = 32768;
  uint blue = 32768;
  uint alpha = 32768;
  int i;

  if (x >= width || y >= height)
    return;
  for (i = -radius; i <= radius; i++)
    {
      uint pixel = source[start + confine (place + i, limit) * step];
      uint weight = weights[i + radius];

      red += weight * (pixel & 255);
      green += weight * ((pixel >> 8) & 255);
      blue += weight * ((pixel >> 16) & 255);
      alpha += weight * (pixel >> 24);
    }
  destination[y * width + x] =
    (red >> 16) | ((green >> 16) << 8) | ((blue >> 16) << 16) | ((alpha >> 16) << 24);
}

int
brightness_at (__global const uint *source, int width, int height, int x, int y)
{
  return luminance (source[confine (y, height) * width + confine (x, width)]);
}

/* Sobel operator on the luminance; the length of the gradient is accurate to 7 %. */
__kernel void
edges (__global const uint *source,
       __global uint       *destination,
       int                  width,
       int                  height)
{
  int x = (int) get_global_id (0);
  int y = (int) get_global_id (1);
  int north_west, north_east, south_west, south_east, across, down, value;

  if (x >= width || y >= height)
    return;
  north_west = brightness_at (source, width, height, x - 1, y - 1);
  north_east = brightness_at (source, width, height, x + 1, y - 1);
  south_west = brightness_at (source, width, height, x - 1, y + 1);
  south_east = brightness_at (source, width, height, x + 1, y + 1);
  across = north_east + south_east - north_west - south_west;
  down = south_west + south_east - north_west - north_east;
  across += 2 * (brightness_at (source, width, height, x + 1, y) -
                 brightness_at (source, width, height, x - 1, y));
  down += 2 * (brightness_at (source, width, height, x, y + 1) -
               brightness_at (source, width, height, x, y - 1));
  across = across < 0 ? -across : across;
  down = down < 0 ? -down : down;
  value = across > down ? across + 3 * down / 8 : down + 3 * across / 8;
  value = value > 255 ? 255 : value;
  destination[y * width + x] = 0xff000000 | (uint) (value | value << 8 | value << 16);
}

/* Counts the values of red, green, blue and luminance, in four tables of 256 counts. */
__kernel void
histogram (__global const uint    *source,
           __global volatile uint *counts,
           int                     width,
           int                     height)
{
  int x = (int) get_global_id (0);
  int y = (int) get_global_id (1);
  uint pixel;

  if (x >= width || y >= height)
    return;
  pixel = source[y * width + x];
  atomic_inc (&counts[pixel & 255]);
  atomic_inc (&counts[256 + ((pixel >> 8) & 255)]);
  atomic_inc (&counts[512 + ((pixel >> 16) & 255)]);
  atomic_inc (&counts[768 + luminance (pixel)]);
}

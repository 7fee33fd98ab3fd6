#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""picture: blurs a picture and inverts its colours on the device.

    ./picture.py holiday.jpeg blurred.png

Without arguments, the program draws a picture and writes picture.png.
"""

import sys

import gi

try:
    gi.require_version("GdkPixbuf", "2.0")
except ValueError:
    print("GdkPixbuf is not installed")
    sys.exit(77)
gi.require_version("Gpu", "1.0")
from gi.repository import GdkPixbuf, GLib, Gpu  # noqa: E402

RADIUS = 2

# This OpenCL C is also valid C, so the host back end can compile it.
SOURCE = """
__kernel void
blur (__global const uchar *in, __global uchar *out, int width, int height, int stride,
      int channels, int radius)
{
  int x = (int) get_global_id (0);
  int y = (int) get_global_id (1);

  for (int c = 0; c < channels; c++)
    {
      int sum = 0;
      int n = 0;

      for (int v = max (y - radius, 0); v <= min (y + radius, height - 1); v++)
        for (int u = max (x - radius, 0); u <= min (x + radius, width - 1); u++)
          {
            sum += in[v * stride + u * channels + c];
            n++;
          }
      out[y * stride + x * channels + c] = (uchar) (sum / n);
    }
}

__kernel void
invert (__global uchar *pixels, int stride, int channels)
{
  int first = (int) get_global_id (1) * stride + (int) get_global_id (0) * channels;

  for (int c = 0; c < 3; c++)
    pixels[first + c] = (uchar) (255 - pixels[first + c]);
}
"""


def draw_picture():
    width, height = 320, 240
    pixels = bytearray()
    for y in range(height):
        for x in range(width):
            pixels += bytes((x * 255 // 319, y * 255 // 239, (x // 16 + y // 16) % 2 * 255))
    return GdkPixbuf.Pixbuf.new_from_bytes(GLib.Bytes.new(bytes(pixels)),
                                           GdkPixbuf.Colorspace.RGB, False, 8, width, height,
                                           width * 3)


def process(context, picture):
    """Processes the picture on the device. Returns a picture of the same size."""
    pixels = picture.read_pixel_bytes()
    width, height = picture.get_width(), picture.get_height()
    stride, channels = picture.get_rowstride(), picture.get_n_channels()
    program = Gpu.Program(context, SOURCE)
    source = Gpu.Buffer(context, pixels)
    target = Gpu.Buffer(context, pixels.get_size())

    with Gpu.Stream(context) as stream:
        stream.launch(program.blur, (width, height),
                      args=(source, target, width, height, stride, channels, RADIUS))
        stream.launch(program.invert, (width, height), args=(target, stride, channels))

    return GdkPixbuf.Pixbuf.new_from_bytes(GLib.Bytes.new(target.read()),
                                           GdkPixbuf.Colorspace.RGB, channels == 4, 8, width,
                                           height, stride)


def check(picture, result):
    """Verifies about 1,000 pixels on the CPU."""
    before, after = picture.get_pixels(), result.get_pixels()
    width, height = picture.get_width(), picture.get_height()
    stride, channels = picture.get_rowstride(), picture.get_n_channels()

    for i in range(0, width * height, max(width * height // 1000, 1)):
        y, x = divmod(i, width)
        reds = [before[v * stride + u * channels]
                for v in range(max(y - RADIUS, 0), min(y + RADIUS, height - 1) + 1)
                for u in range(max(x - RADIUS, 0), min(x + RADIUS, width - 1) + 1)]
        expected = 255 - sum(reds) // len(reds)
        if after[y * stride + x * channels] != expected:
            sys.exit(f"picture: red at {x}, {y} is {after[y * stride + x * channels]}, "
                     f"not {expected}")


def run(source=None, target="picture.png"):
    picture = GdkPixbuf.Pixbuf.new_from_file(source) if source else draw_picture()
    context = Gpu.Context.new_default()
    result = process(context, picture)
    check(picture, result)
    result.savev(target, "png", [], [])
    print(f"blurred and inverted {result.get_width()} x {result.get_height()} pixels on "
          f"{context.device.id}: see {target}")


try:
    run(*sys.argv[1:3])
except GLib.Error as error:
    sys.exit(f"picture: {error.message}")

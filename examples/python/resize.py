#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""resize: halves a picture on the device, through an image and a sampler.

    ./resize.py holiday.jpeg small.png

Without arguments, the program draws a picture and writes resize.png.
"""

import math
import sys

import gi

try:
    gi.require_version("GdkPixbuf", "2.0")
except ValueError:
    print("GdkPixbuf is not installed")
    sys.exit(77)
gi.require_version("Gpu", "1.0")
from gi.repository import GdkPixbuf, GLib, Gpu  # noqa: E402

# Samplers in hardware interpolate with weights of about eight bits, so results may differ from
# those of the CPU.
TOLERANCE = 2

# A kernel in the portable dialect, which OpenCL, CUDA and the host back end can build.
SOURCE = """
__kernel void
resize (__read_only image2d_t in, sampler_t between, __write_only image2d_t out)
{
  int x = (int) get_global_id (0);
  int y = (int) get_global_id (1);
  float u = ((float) x + 0.5f) / (float) get_image_width (out);
  float v = ((float) y + 0.5f) / (float) get_image_height (out);

  write_imagef (out, (int2) (x, y), read_imagef (in, between, (float2) (u, v)));
}
"""


def to_pixbuf(pixels, width, height):
    return GdkPixbuf.Pixbuf.new_from_bytes(GLib.Bytes.new(bytes(pixels)),
                                           GdkPixbuf.Colorspace.RGB, True, 8, width, height,
                                           width * 4)


def draw_picture():
    width, height = 321, 240
    pixels = bytearray()
    for y in range(height):
        for x in range(width):
            pixels += bytes((x * 255 // 320, y * 255 // 239, (x // 16 + y // 16) % 2 * 255, 255))
    return to_pixbuf(pixels, width, height)


def process(context, picture):
    size = picture.get_width(), picture.get_height()
    half = max(size[0] // 2, 1), max(size[1] // 2, 1)
    program = Gpu.Program(context, SOURCE)
    between = Gpu.Sampler(context, True, Gpu.AddressMode.CLAMP_TO_EDGE, Gpu.FilterMode.LINEAR)
    # Rows of a pixbuf may be padded: pass the row pitch.
    source = Gpu.Image.new_from_data(context, "rgba-unorm8", size, picture.read_pixel_bytes(),
                                     flags=Gpu.MemoryFlags.READ_ONLY,
                                     row_pitch=picture.get_rowstride())
    target = Gpu.Image(context, "rgba-unorm8", half, flags=Gpu.MemoryFlags.WRITE_ONLY)

    context.default_stream.launch(program.resize, half, args=(source, between, target))
    return to_pixbuf(target.read(), *half)


def check(picture, result):
    """Verifies about 1,000 pixels on the CPU."""
    before, after = picture.get_pixels(), result.get_pixels()
    width, height = picture.get_width(), picture.get_height()
    half_width, half_height = result.get_width(), result.get_height()

    def red(x, y):
        x, y = min(max(x, 0), width - 1), min(max(y, 0), height - 1)
        return before[y * picture.get_rowstride() + x * 4]

    for i in range(0, half_width * half_height, max(half_width * half_height // 1000, 1)):
        y, x = divmod(i, half_width)
        u = (x + 0.5) * width / half_width - 0.5
        v = (y + 0.5) * height / half_height - 0.5
        left, top = math.floor(u), math.floor(v)
        expected = sum((1 - abs(u - left - i)) * (1 - abs(v - top - j)) * red(left + i, top + j)
                       for i in (0, 1) for j in (0, 1))
        got = after[y * result.get_rowstride() + x * 4]
        if abs(got - expected) > TOLERANCE:
            sys.exit(f"resize: red at {x}, {y} is {got}, not {expected:.1f}")


def run(source=None, target="resize.png"):
    picture = (GdkPixbuf.Pixbuf.new_from_file(source).add_alpha(False, 0, 0, 0) if source
               else draw_picture())
    context = Gpu.Context.new_default()
    if not context.device.capabilities & Gpu.Capabilities.IMAGES:
        print("the device has no images")
        sys.exit(77)
    result = process(context, picture)
    check(picture, result)
    result.savev(target, "png", [], [])
    print(f"{result.get_width()} x {result.get_height()} pixels from {picture.get_width()} x "
          f"{picture.get_height()} on {context.device.id}: see {target}")


try:
    run(*sys.argv[1:3])
except GLib.Error as error:
    sys.exit(f"resize: {error.message}")

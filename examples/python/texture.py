#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""texture: mirrors a GdkTexture on the device. No display is needed."""

import sys

import gi

try:
    gi.require_version("Gdk", "4.0")
except ValueError:
    print("GTK 4 is not installed")
    sys.exit(77)
gi.require_version("Gpu", "1.0")
from gi.repository import Gdk, GLib, Gpu  # noqa: E402

WIDTH, HEIGHT = 64, 48

SOURCE = """
__kernel void
mirror (__read_only image2d_t in, sampler_t exact, __write_only image2d_t out)
{
  int x = (int) get_global_id (0);
  int y = (int) get_global_id (1);
  int2 from = (int2) (get_image_width (in) - 1 - x, y);

  write_imagef (out, (int2) (x, y), read_imagef (in, exact, from));
}
"""


def draw_row(y):
    return [bytes((x * 4, y * 4, x ^ y, 255)) for x in range(WIDTH)]


def to_texture(pixels):
    return Gdk.MemoryTexture.new(WIDTH, HEIGHT, Gdk.MemoryFormat.R8G8B8A8,
                                 GLib.Bytes.new(pixels), WIDTH * 4)


def mirror(context, texture):
    program = Gpu.Program(context, SOURCE)
    exact = Gpu.Sampler(context, False, Gpu.AddressMode.CLAMP_TO_EDGE, Gpu.FilterMode.NEAREST)
    # gdk_texture_download() cannot be called from Python, so a pixbuf, which is RGBA, holds the
    # pixels.
    pixbuf = Gdk.pixbuf_get_from_texture(texture)
    source = Gpu.Image.new_from_data(context, "rgba-unorm8", (WIDTH, HEIGHT),
                                     pixbuf.read_pixel_bytes(), flags=Gpu.MemoryFlags.READ_ONLY,
                                     row_pitch=pixbuf.get_rowstride())
    target = Gpu.Image(context, "rgba-unorm8", (WIDTH, HEIGHT), flags=Gpu.MemoryFlags.WRITE_ONLY)

    context.default_stream.launch(program.mirror, (WIDTH, HEIGHT), args=(source, exact, target))
    return to_texture(bytes(target.read()))


def check(texture):
    pixbuf = Gdk.pixbuf_get_from_texture(texture)
    pixels, stride = pixbuf.get_pixels(), pixbuf.get_rowstride()
    for y in range(HEIGHT):
        if pixels[y * stride:y * stride + WIDTH * 4] != b"".join(reversed(draw_row(y))):
            sys.exit(f"texture: row {y} is wrong")


def run():
    context = Gpu.Context.new_default()
    if not context.device.capabilities & Gpu.Capabilities.IMAGES:
        print("the device has no images")
        sys.exit(77)
    texture = to_texture(b"".join(b"".join(draw_row(y)) for y in range(HEIGHT)))
    check(mirror(context, texture))
    print(f"mirrored a texture of {WIDTH} x {HEIGHT} pixels on {context.device.id}")


try:
    run()
except GLib.Error as error:
    sys.exit(f"texture: {error.message}")

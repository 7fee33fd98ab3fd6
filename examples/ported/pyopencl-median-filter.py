#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""pyopencl-median-filter: removes noise from a picture: each pixel becomes the median of itself and
its neighbours. The program draws the picture and stores it in an image. Based on median-filter.py
of PyOpenCL."""

import sys

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)

WIDTH, HEIGHT = 320, 200

# Pixels at the edge are not changed.
SOURCE = """
__constant sampler_t texels = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE
                              | CLK_FILTER_NEAREST;

__kernel void
filter (__read_only image2d_t noisy, __write_only image2d_t clean)
{
  int x = (int) get_global_id (0);
  int y = (int) get_global_id (1);
  float values[9];

  for (int i = 0; i < 9; i++)
    values[i] = read_imagef (noisy, texels, (int2) (x + i % 3 - 1, y + i / 3 - 1)).x;
  if (x == 0 || y == 0 || x == get_image_width (noisy) - 1 || y == get_image_height (noisy) - 1)
    values[0] = values[4];
  else
    for (int i = 0; i <= 4; i++)
      for (int j = i + 1; j < 9; j++)
        {
          float least = min (values[i], values[j]);

          values[j] = max (values[i], values[j]);
          values[i] = least;
        }
  write_imagef (clean, (int2) (x, y), (float4) (values[4], 0, 0, 1));
}
"""


def draw_noisy():
    """Draws a gradient of greys, with a black or white dot on every tenth pixel."""
    picture = np.add.outer(np.arange(HEIGHT), np.arange(WIDTH)).astype(np.float32) / 2
    random = np.random.default_rng()
    dots = random.random(picture.shape) < 0.1
    picture[dots] = random.choice([0, 255], dots.sum())
    return picture


def filter_with_numpy(noisy):
    windows = np.lib.stride_tricks.sliding_window_view(noisy, (3, 3))
    clean = noisy.copy()
    clean[1:-1, 1:-1] = np.median(windows, (2, 3))
    return clean


def run():
    context = Gpu.Context.new_default()
    if not context.device.capabilities & Gpu.Capabilities.IMAGES:
        print(f"{context.device.id} has no images")
        sys.exit(77)
    noisy = draw_noisy()
    source = Gpu.Image.from_array(context, noisy, mode="r")
    target = Gpu.Image(context, source.format, source.extent[:2], flags=Gpu.MemoryFlags.WRITE_ONLY)
    kernel = Gpu.Program(context, SOURCE).filter
    kernel(context.default_stream, (WIDTH, HEIGHT), None, source, target)

    clean = target.to_numpy()
    if not np.array_equal(clean, filter_with_numpy(noisy)):
        sys.exit("pyopencl-median-filter: the medians are wrong")
    print(f"{WIDTH} x {HEIGHT} pixels on {context.device.id}; neighbours differed by "
          f"{np.abs(np.diff(noisy)).mean():.1f}, and by {np.abs(np.diff(clean)).mean():.1f} after")


try:
    run()
except GLib.Error as error:
    sys.exit(f"pyopencl-median-filter: {error.message}")

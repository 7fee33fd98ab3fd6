# SPDX-License-Identifier: LGPL-2.1-or-later
"""The common part of halo-devices.py, halo-mpi.py and halo-dask.py: a picture that is larger than a
device is blurred many times by several devices.

Each device has a band of the picture, and a halo: the next rows of both neighbours. A step of the
blur uses the row above and the row below of each pixel. So after one step, the outermost row of
the halo is wrong, after two steps the next one, and so on. After as many steps as the halo has
rows, its depth, the devices exchange the rows at the borders of their bands. A deeper halo needs
fewer exchanges, and more pixels are computed twice."""

import argparse
import time

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import Gpu  # noqa: E402

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    raise SystemExit(77)

# At the edges of the picture, the pixels repeat
SOURCE = """
__kernel void
blur (__global float *to, __global const float *from, int width, int height)
{
  int x = (int) get_global_id (0);
  int y = (int) get_global_id (1);
  size_t i = (size_t) y * width + x;

  float above = from[y > 0 ? i - width : i];
  float below = from[y < height - 1 ? i + width : i];
  float left = from[x > 0 ? i - 1 : i];
  float right = from[x < width - 1 ? i + 1 : i];

  to[i] = 0.5f * from[i] + 0.125f * (((above + below) + left) + right);
}
"""


@Gpu.memoize
def get_kernel(context):
    return Gpu.Program(context, SOURCE).blur


def count(text):
    """The type of an argument that is a number of things."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {number}")
    return number


def make_parser(doc, has_workers=True):
    """Returns a parser of the sizes. The defaults are for a test; --width 16384 --rows 65536
    --steps 256 --depth 32 is 4 GiB for each device, and as much for the result of a step."""
    parser = argparse.ArgumentParser(description=doc.partition("\n\n")[0])
    parser.add_argument("--width", type=count, default=320, help="pixels of a row")
    parser.add_argument("--rows", type=count, default=96, help="rows for each device")
    parser.add_argument("--steps", type=count, default=10, help="number of blurs")
    parser.add_argument("--depth", type=count, default=4, help="rows of a halo")
    if has_workers:
        parser.add_argument("--workers", type=count, default=2, help="devices or processes at most")
    return parser


def parse(parser):
    """Returns the sizes, and the other arguments."""
    arguments = parser.parse_args()
    if arguments.depth > arguments.rows:
        parser.error(f"argument --depth: must be 1 to {arguments.rows}, the number of rows, not "
                     f"{arguments.depth}")
    return arguments


def make_rows(first, last, width):
    """Returns rows of the picture, which repeats tiles of 256 x 256 pixels. No process has to hold
    all of it."""
    y, x = np.ogrid[:256, :256]
    tile = ((x * 7 + y * 13) % 256 + (x // 64 + y // 64) % 2 * 256).astype(np.float32)
    return tile[:, np.arange(width) % 256][np.arange(first, last) % 256]


def blur(array, spare, steps):
    """Blurs all rows of an array with the help of another one of the same size. Returns the array
    with the result, and the other one. Does not wait."""
    height, width = array.shape
    kernel, stream = get_kernel(array.context), array.context.default_stream
    for step in range(steps):
        kernel(stream, (width, height), None, spare, array, width, height)
        array, spare = spare, array
    return array, spare


class Band:
    """The rows of a device, and the halo around them. The picture has no rows above the first band
    and below the last one."""

    def __init__(self, context, number, count, sizes):
        self.rows, self.depth = sizes.rows, sizes.depth
        self.above = sizes.depth if number > 0 else 0
        self.below = sizes.depth if number < count - 1 else 0
        first = number * sizes.rows
        self.array = Gpu.Array.from_numpy(context, make_rows(
            first - self.above, first + sizes.rows + self.below, sizes.width))
        self.spare = Gpu.Array.empty_like(self.array)

    def blur(self, steps):
        self.array, self.spare = blur(self.array, self.spare, steps)

    @property
    def inner(self):
        """The rows of this band, without the halo."""
        return self.array[self.above:self.above + self.rows]

    # The rows for the neighbours, and those that they write
    upper_edge = property(lambda self: self.inner[:self.depth])
    lower_edge = property(lambda self: self.inner[-self.depth:])
    upper_halo = property(lambda self: self.array[:self.above])
    lower_halo = property(lambda self: self.array[self.above + self.rows:])


def rounds(sizes):
    """Yields the number of steps of each round, which an exchange precedes."""
    for first in range(0, sizes.steps, sizes.depth):
        yield min(sizes.depth, sizes.steps - first)


def check_rows(context, rows, number, count, sizes):
    """Compares the rows of a band with those that one device computes: the band, with a halo of as
    many rows as there are steps, needs no exchange. All bits must be equal."""
    first, last = number * sizes.rows, (number + 1) * sizes.rows
    start, end = max(first - sizes.steps, 0), min(last + sizes.steps, count * sizes.rows)
    array = Gpu.Array.from_numpy(context, make_rows(start, end, sizes.width))
    result, _ = blur(array, Gpu.Array.empty_like(array), sizes.steps)
    expected = result[first - start:last - start].to_numpy()
    if not np.array_equal(rows.view(np.uint32), expected.view(np.uint32)):
        raise SystemExit(f"halo: the rows from {first} to {last} are wrong")


class Table:
    """Prints the rates for 1, 2, 4 ... workers, each with a band of the same size. An efficiency of
    1 means that n workers blur n times as many pixels in the same time as one."""

    def __init__(self, sizes, kind, bands=1):
        self.sizes, self.first = sizes, None
        self.pixels = sizes.width * sizes.rows * bands
        print(f"{sizes.width} x {sizes.rows * bands} pixels for each of the {kind}, {sizes.steps} "
              f"steps, halo of {sizes.depth} rows")
        print(f"{kind:>10} {'seconds':>10} {'pixels/s':>10} {'efficiency':>10}", flush=True)

    def add(self, count, seconds):
        self.first = self.first or seconds
        rate = count * self.pixels * self.sizes.steps / seconds
        print(f"{count:>10} {seconds:>10.4f} {rate:>10.3g} {self.first / seconds:>10.3f}",
              flush=True)


def counts(most):
    """Returns 1, 2, 4 ... and the number itself."""
    return [count for count in range(1, most) if count & (count - 1) == 0] + [most]


def measure(work, synchronize=lambda: None):
    """Returns the result of a function and its seconds."""
    synchronize()
    start = time.perf_counter()
    result = work()
    synchronize()
    return result, time.perf_counter() - start

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""saxpy: builds a kernel, launches it over a million numbers and maps the result."""

import sys

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)

N = 1 << 20

SOURCE = """
__kernel void
saxpy (float a, __global const float *x, __global float *y)
{
  size_t i = get_global_id (0);

  y[i] = a * x[i] + y[i];
}
"""


def run():
    context = Gpu.Context.new_default()
    program = Gpu.Program.new_from_source(context, SOURCE)
    x = Gpu.Buffer.new_from_data(context, np.arange(N, dtype=np.float32))
    y = Gpu.Buffer.new_from_data(context, np.ones(N, np.float32))

    # The launch returns at once. The mapping below waits for the kernel, because both use y.
    stream = context.default_stream
    stream.launch(program.saxpy, grid=N, args=(2.5, x, y))

    # The array accesses the memory of the buffer without a copy.
    with y.map(Gpu.MapFlags.READ) as mapping:
        numbers = mapping.to_numpy("float32")
        right = np.array_equal(numbers, 2.5 * np.arange(N, dtype=np.float32) + 1)
        text = f"{numbers[0]}, {numbers[1]}, {numbers[2]} ... {numbers[-1]}"
        del numbers                             # otherwise the with statement raises BufferError

    if not right:
        sys.exit(f"saxpy: 2.5 x + 1 is wrong: {text}")
    print(f"2.5 x + 1 is correct for all {N} numbers: {text}")


try:
    run()
except GLib.Error as error:
    sys.exit(f"saxpy: {error.message}")

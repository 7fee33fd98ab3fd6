#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""pyopencl-demo: adds two vectors on the device. Based on demo.py of PyOpenCL."""

import sys

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)

N = 50000

SOURCE = """
__kernel void
add (__global const float *a, __global const float *b, __global float *sum)
{
  size_t i = get_global_id (0);

  sum[i] = a[i] + b[i];
}
"""


def run():
    random = np.random.default_rng()
    a = random.random(N, np.float32)
    b = random.random(N, np.float32)

    context = Gpu.Context.new_default()
    on_device = [Gpu.Buffer(context, array, Gpu.MemoryFlags.READ_ONLY) for array in (a, b)]
    result = Gpu.Buffer(context, a.nbytes, Gpu.MemoryFlags.WRITE_ONLY)
    add = Gpu.Program(context, SOURCE).add
    add(context.default_stream, N, None, *on_device, result)

    error = np.linalg.norm(result.to_numpy(np.float32) - (a + b))
    print(f"{N} sums on {context.device.id}; the norm of their error is {error}")
    if error != 0:
        sys.exit("pyopencl-demo: the sums are wrong")


try:
    run()
except GLib.Error as error:
    sys.exit(f"pyopencl-demo: {error.message}")

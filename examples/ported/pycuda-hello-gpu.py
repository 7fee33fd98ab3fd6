#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""pycuda-hello-gpu: passes NumPy arrays to a kernel. Based on hello_gpu.py of PyCUDA."""

import sys

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)

N = 400

SOURCE = """
__kernel void
multiply (__global float *product, __global const float *a, __global const float *b)
{
  size_t i = get_global_id (0);

  product[i] = a[i] * b[i];
}
"""


def run():
    random = np.random.default_rng()
    a = random.standard_normal(N, np.float32)
    b = random.standard_normal(N, np.float32)
    product = np.zeros_like(a)

    context = Gpu.Context.new_default()
    multiply = Gpu.Program(context, SOURCE).multiply
    multiply(context.default_stream, N, N, Gpu.Out(product), Gpu.In(a), Gpu.In(b))

    if not np.array_equal(product, a * b):
        sys.exit("pycuda-hello-gpu: the products are wrong")
    print(f"{N} products on {context.device.id} are right: {product[0]:.3f}, {product[1]:.3f} ...")


try:
    run()
except GLib.Error as error:
    sys.exit(f"pycuda-hello-gpu: {error.message}")

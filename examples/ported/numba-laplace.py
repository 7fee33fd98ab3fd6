#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""numba-laplace: simulates how heat spreads from the middle of a rod, in 10,000 steps between two
buffers. Based on the example in Numba's documentation. In Numba's example, one kernel runs all
steps, and its threads wait for each other. Here, each step is a launch, and the launches are
prepared once."""

import sys

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)

N = 1001
STEPS = 10000
K = 0.25

# Both ends of the rod are kept at 0.
SOURCE = """
__kernel void
spread (__global const double *now, __global double *next, int n, double k)
{
  int i = (int) get_global_id (0);
  double left = i > 0 ? now[i - 1] : 0;
  double right = i < n - 1 ? now[i + 1] : 0;

  next[i] = now[i] + k * (left - 2 * now[i] + right);
}
"""


def spread_with_numpy(rod):
    for _ in range(STEPS):
        walled = np.pad(rod, 1)
        rod = rod + K * (walled[:-2] - 2 * rod + walled[2:])
    return rod


def run():
    context = Gpu.Context.new_default()
    if not context.device.capabilities & Gpu.Capabilities.FP64:
        print(f"{context.device.id} does not support double precision")
        sys.exit(77)
    rod = np.zeros(N)
    rod[N // 2] = 10000

    now = Gpu.Buffer(context, rod)
    other = Gpu.Buffer(context, rod.nbytes)
    spread = Gpu.Program(context, SOURCE).spread
    there = spread.prepare(N, None, (now, other, N, K))
    back = spread.prepare(N, None, (other, now, N, K))
    with Gpu.Stream(context) as stream:
        for _ in range(STEPS // 2):
            stream.launch_prepared(there)
            stream.launch_prepared(back)

    result = now.to_numpy(rod.dtype)
    if not np.allclose(result, spread_with_numpy(rod)) or not np.isclose(result.sum(), 10000):
        sys.exit("numba-laplace: the temperatures are wrong")
    print(f"after {STEPS} steps on {context.device.id} the middle has {result[N // 2]:.3f} of "
          f"{rod[N // 2]:.0f}, and all of it together {result.sum():.3f}")


try:
    run()
except GLib.Error as error:
    sys.exit(f"numba-laplace: {error.message}")

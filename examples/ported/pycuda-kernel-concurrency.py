#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""pycuda-kernel-concurrency: runs kernels on two streams, possibly concurrently, and prints the
start and the end of the last kernel of each stream. The numbers are in page-locked host memory, so
that the copies are also asynchronous, like the kernels. Based on from-wiki/kernel_concurrency.py of
PyCUDA."""

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
ROUNDS = 10

# To run longer, the kernel halves and doubles each number repeatedly, and then doubles it. All
# these results are exact.
SOURCE = """
__kernel void
work (__global float *numbers)
{
  size_t i = get_global_id (0);

  for (int round = 0; round < 10; round++)
    {
      for (int k = 0; k < 100; k++)
        numbers[i] = numbers[i] * 2;
      for (int k = 0; k < 100; k++)
        numbers[i] = numbers[i] * 0.5f;
    }
  numbers[i] = numbers[i] * 2;
}
"""


class Lane:
    """A stream, its numbers, and events before and after its last kernel."""

    def __init__(self, context, pool):
        self.stream = Gpu.Stream(context, Gpu.StreamFlags.PROFILING)
        self.numbers = Gpu.HostMemory.empty(context, N, np.float32)
        self.numbers[:] = np.random.default_rng().standard_normal(N)
        self.expected = self.numbers * 2.0 ** ROUNDS
        self.buffer = pool.alloc_buffer(self.numbers.nbytes, self.stream)
        self.stream.copy(self.buffer, self.numbers)

    def launch(self, kernel):
        self.begin = self.stream.record()
        self.stream.launch(kernel, N, args=(self.buffer,))
        self.end = self.stream.record()


def run():
    context = Gpu.Context.new_default()
    if not context.device.capabilities & Gpu.Capabilities.PROFILING:
        print(f"{context.device.id} does not support profiling")
        sys.exit(77)
    kernel = Gpu.Program(context, SOURCE).work
    pool = Gpu.MemoryPool(context)
    lanes = [Lane(context, pool), Lane(context, pool)]
    start = lanes[0].stream.record()

    for _ in range(ROUNDS):
        for lane in lanes:
            lane.launch(kernel)
    for lane in lanes:
        lane.stream.copy(lane.numbers, lane.buffer)
    context.synchronize()

    for index, lane in enumerate(lanes):
        if not np.array_equal(lane.numbers, lane.expected):
            sys.exit(f"pycuda-kernel-concurrency: the numbers of stream {index} are wrong")
        times = [event.get_elapsed(start) / 1e6 for event in (lane.begin, lane.end)]
        print(f"stream {index} on {context.device.id} is right; its last kernel ran from "
              f"{times[0]:.3f} to {times[1]:.3f} ms")


try:
    run()
except GLib.Error as error:
    sys.exit(f"pycuda-kernel-concurrency: {error.message}")

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""stream-file: counts the bytes of a file that is larger than the device memory that the program
may use. The chunks of the file alternate between two streams: while the device processes a chunk,
the program reads the next chunk.

    ./stream-file.py disk.img 64

Without arguments, the program creates a file and uses 2 MiB.
"""

import itertools
import sys
import tempfile

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)

GROUPS = 32
COUNTS_SIZE = GROUPS * 256 * 8

# Each group of 256 work-items counts bytes in local memory, and adds the result to its own part of
# counts.
SOURCE = """
__kernel void
count (__global const uchar *bytes, ulong size, __global ulong *counts)
{
  __local uint mine[256];

  mine[get_local_id (0)] = 0;
  barrier (CLK_LOCAL_MEM_FENCE);
  for (ulong i = get_global_id (0); i < size; i += get_global_size (0))
    atomic_inc (&mine[bytes[i]]);
  barrier (CLK_LOCAL_MEM_FENCE);
  counts[get_global_id (0)] += mine[get_local_id (0)];
}
"""


class Lane:
    """A stream with its half of the device memory, and with page-locked memory into which the file
    is read."""

    def __init__(self, context, size):
        self.stream = Gpu.Stream(context)
        self.chunk = Gpu.HostMemory(context, size - COUNTS_SIZE)
        self.view = self.chunk.view()
        self.bytes = Gpu.Buffer(context, size - COUNTS_SIZE)
        self.counts = Gpu.Buffer(context, COUNTS_SIZE)
        self.stream.fill(self.counts, 0)


def stream_file(context, file, lanes):
    """Enqueues the whole file; returns the peak of device memory in use."""
    kernel = Gpu.Program(context, SOURCE).count
    held = 0

    for lane in itertools.cycle(lanes):
        # Waits only for the copy of the chunk: the kernel and the other stream may still run.
        lane.chunk.synchronize(Gpu.MapFlags.WRITE)
        size = file.readinto(lane.view)
        if size == 0:
            return held

        lane.stream.copy(lane.bytes, lane.chunk, size)
        lane.stream.launch(kernel, GROUPS * 256, 256, args=(lane.bytes, size, lane.counts))
        held = max(held, context.allocated_size)


def count(context, file, budget):
    lanes = [Lane(context, budget // 2) for i in range(2)]
    held = stream_file(context, file, lanes)
    if held > budget:
        sys.exit(f"stream-file: {held} bytes were held on the device, more than {budget}")

    # Waits for the streams.
    counts = [np.frombuffer(lane.counts.read(stream=lane.stream), np.uint64) for lane in lanes]
    return np.concatenate(counts).reshape(-1, 256).sum(0), held


def check(file, totals):
    """Verifies the counts on the CPU."""
    expected = np.zeros(256, np.uint64)
    file.seek(0)
    while block := file.read(65536):
        expected += np.bincount(np.frombuffer(block, np.uint8), minlength=256).astype(np.uint64)
    if not np.array_equal(totals, expected):
        sys.exit("stream-file: the counts are wrong")


def make_file():
    file = tempfile.TemporaryFile()
    file.write((np.arange(65000) ** 2 >> 8).astype(np.uint8).tobytes() * 160)
    file.seek(0)
    return file


def run(path=None, mebibytes=2):
    budget = int(mebibytes) << 20
    context = Gpu.Context.new_default()
    with open(path, "rb") if path else make_file() as file:
        totals, held = count(context, file, budget)
        check(file, totals)
    print(f"counted {totals.sum()} bytes on {context.device.id}, {totals[0]} of them zero, "
          f"with at most {held} of {budget} bytes held there")


try:
    run(*sys.argv[1:3])
except GLib.Error as error:
    sys.exit(f"stream-file: {error.message}")
except (OSError, OverflowError, ValueError) as error:
    sys.exit(f"stream-file: {error}")

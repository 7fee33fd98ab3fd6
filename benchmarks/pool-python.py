#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measures the time to allocate and drop a buffer of a pool from Python. If PyOpenCL is installed,
compares this time with that of the pool of PyOpenCL on the same OpenCL device, in alternating
rounds.

    benchmarks/pool-python.py [DEVICE [SIZE]]

The default device is opencl:pocl:0, and the default size is 4096 bytes. Times are CPU times of the
calling thread, as medians of all rounds. The ratio is the median of the ratios of the rounds."""

import statistics
import sys
import time

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import Gpu  # noqa: E402

ROUNDS = 41
CALLS = 5000


def measure(take, size):
    """Returns the nanoseconds to allocate a buffer and drop it at once."""
    start = time.thread_time_ns()
    for i in range(CALLS):
        take(size)
    return (time.thread_time_ns() - start) / CALLS


def find_rival(device):
    """Returns the pool of PyOpenCL on the same device, or None."""
    try:
        import pyopencl
        from pyopencl.tools import ImmediateAllocator, MemoryPool
    except ImportError as error:
        print(f"PyOpenCL is not installed: {error}")
        return None
    if device.backend != "opencl":
        print(f"PyOpenCL has no {device.id}")
        return None
    for platform in pyopencl.get_platforms():
        for rival in platform.get_devices():
            if rival.name == device.name:
                queue = pyopencl.CommandQueue(pyopencl.Context([rival]))
                return MemoryPool(ImmediateAllocator(queue))
    print(f"PyOpenCL does not find {device.name}")
    return None


def main():
    device = Gpu.Device.find(sys.argv[1] if len(sys.argv) > 1 else "opencl:pocl:0")
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 4096
    pool = Gpu.MemoryPool(Gpu.Context(device))
    rival = find_rival(device)
    takes = {"pool.alloc_buffer (size)": pool.alloc_buffer}
    if not device.capabilities & Gpu.Capabilities.SUB_BUFFERS:
        takes["pool.alloc_block (size)"] = pool.alloc_block
    if rival is not None:
        takes["PyOpenCL's MemoryPool.allocate (size)"] = rival.allocate
    rounds = [{name: measure(take, size) for name, take in takes.items()} for i in range(ROUNDS)]

    print(f"{size} bytes on {device.id}, {device.name}")
    for name in takes:
        print(f"{name}: {statistics.median(times[name] for times in rounds):.0f} ns")
    if rival is not None:
        ours, theirs = list(takes)[0], list(takes)[-1]
        ratio = statistics.median(times[ours] / times[theirs] for times in rounds)
        print(f"ratio: {ratio:.2f}")


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measures the argument checks of the Python overrides, in calls that the C module does not
replace.

    benchmarks/checks-python.py [DEVICE]

Prints the CPU time of one call on the calling thread, in nanoseconds, with the checks and without
them, from 101 rounds of alternating batches of 200 calls. Without the checks, PyGObject truncates
bad arguments silently. A ratio is the median of the ratios of the rounds."""

import os
import sys
import time

# Set this before the overrides read it
os.environ["GPUMEM_PYTHON_FAST"] = "0"

import gi  # noqa: E402

from rounds import median, print_table  # noqa: E402

gi.require_version("Gpu", "1.0")
from gi._gi import FunctionInfo  # noqa: E402
from gi.module import get_introspection_module  # noqa: E402
from gi.repository import GLib, Gpu  # noqa: E402

ROUNDS = 101
CALLS = 200
SIZE = 4096

SOURCE = """
__kernel void
scale (__global float *numbers, float factor)
{
  numbers[get_global_id (0)] *= factor;
}
"""


def list_functions():
    """Yields (class, name, with checks, without checks) for all functions with checks."""
    gpu = get_introspection_module("Gpu")
    for owner in [gpu, *vars(gpu).values()]:
        for name in list(getattr(owner, "__dict__", ())):
            function = getattr(owner, name)
            info = getattr(getattr(function, "__func__", function), "_info", None)
            if isinstance(info, FunctionInfo):
                yield owner, name, vars(owner)[name], info


def list_calls(name):
    """Returns functions without overrides, then functions that the overrides extend."""
    context = Gpu.Context(name)
    stream = context.default_stream
    program = Gpu.Program(context, SOURCE)
    kernel = program.scale
    pool = Gpu.MemoryPool(context)
    a, b = Gpu.Buffer(context, SIZE), Gpu.Buffer(context, SIZE)
    event = stream.record()
    event.wait()
    data = bytes(SIZE)
    few = GLib.Bytes.new(b"1234")
    array = Gpu.Array(context, (32, 32), "float32")
    return stream, {
        "MemoryPool.bin_number (size)": lambda: pool.bin_number(SIZE),
        "MemoryPool.alloc_buffer (size)": lambda: pool.alloc_buffer(SIZE),
        "Kernel.get_argument_name (index)": lambda: kernel.get_argument_name(0),
        "Event.poll (timeout)": lambda: event.poll(0),
        "Buffer.slice (offset, size)": lambda: a.slice(0, 1024),
        "Extent.new (width, height, depth)": lambda: Gpu.Extent.new(1, 2, 3),
        "Array.transpose (axes)": lambda: array.transpose([1, 0]),
        "Program.get_kernel (name)": lambda: program.get_kernel("scale"),
        "Buffer.write_bytes (stream, offset, bytes)": lambda: a.write_bytes(stream, 0, few),
        "stream.copy (destination, source)": lambda: stream.copy(b, a),
        "stream.fill (destination, pattern)": lambda: stream.fill(a, 0),
        "stream.write (destination, data)": lambda: stream.write(a, data),
        "buffer.write (data)": lambda: a.write(data),
        "buffer.read ()": lambda: a.read(),
        "kernel (stream, grid, block, ...)": lambda: kernel(stream, 1024, None, a, 2.0)}


def measure(call, stream):
    """Returns the CPU time of one call on this thread, in nanoseconds."""
    for i in range(CALLS // 10):
        call()
    start = time.thread_time_ns()
    for i in range(CALLS):
        call()
    total = time.thread_time_ns() - start
    stream.synchronize()
    return total / CALLS


def main():
    device = Gpu.Device(*sys.argv[1:2])
    functions = list(list_functions())
    stream, calls = list_calls(device.id)
    times = {what: ([], []) for what in calls}
    for i in range(ROUNDS):
        for what, call in calls.items():
            for column in range(2):
                for owner, name, *function in functions:
                    setattr(owner, name, function[column])
                times[what][column].append(measure(call, stream))
    lines = [["call", "with checks", "without", "ratio"]]
    for what, columns in times.items():
        cells = [f"{median(column):.0f}" for column in columns]
        lines.append([what, *cells, f"{median(a / b for a, b in zip(*columns)):.2f}"])
    print(f"\nns of the calling thread on {device.id}, {device.name}\n")
    print_table(lines)


main()

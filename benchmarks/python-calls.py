#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the calls that programs make most cost from Python: with the module in C, without it, and
those of PyOpenCL where that is installed, on the same OpenCL device, in turns.

    benchmarks/python-calls.py [DEVICE [WORD]]

The device is opencl:pocl:0 by default; with a word only calls whose names have it. Times are of the
calling thread, so neither waits nor the work itself count, the medians of all rounds; the ratio is
the median of the ratios of the rounds. Each of the three is a process of its own, which sleeps
while the others are measured."""

import gc
import os
import statistics
import subprocess
import sys
import time

import numpy

ROUNDS = 21
CALLS = 100
BATCHES = 5
N = 1024                                        # numbers of four bytes

SOURCE = """
__kernel void
scale (__global float *numbers, float factor)
{
  numbers[get_global_id (0)] *= factor;
}
"""


def ours(name):
    """Calls by name, and what waits for them."""
    import gi
    gi.require_version("Gpu", "1.0")
    from gi.repository import Gpu

    context = Gpu.Context(name)
    stream = context.default_stream
    kernel = Gpu.Program(context, SOURCE).scale
    pool = Gpu.MemoryPool(context)
    a, b = Gpu.Buffer(context, 4 * N), Gpu.Buffer(context, 4 * N)
    numbers = numpy.zeros(N, numpy.float32)
    zero, two = numpy.float32(0), numpy.float32(2)
    stream.fill(a, zero)
    prepared = kernel.prepare(N, None, (a, 2.0))
    return stream.synchronize, {
        "take and drop a buffer of a pool": lambda: pool.alloc_buffer(4 * N),
        "copy 4 KiB between buffers": lambda: stream.copy(b, a),
        "fill 4 KiB": lambda: stream.fill(a, zero),
        "write 4 KiB, later": lambda: stream.write(a, numbers),
        "write 4 KiB, and wait": lambda: a.write(numbers),
        "read 4 KiB into an array": lambda: a.read_into(numbers),
        "launch a kernel with arguments": lambda: kernel(stream, N, None, a, two),
        "launch it as it was prepared": lambda: stream.launch_prepared(prepared),
        "wait for a stream that is idle": stream.synchronize,
        "size of a buffer": lambda: a.size}


def theirs(name):
    """The same with PyOpenCL."""
    import pyopencl as cl
    from pyopencl.tools import ImmediateAllocator, MemoryPool

    import gi
    gi.require_version("Gpu", "1.0")
    from gi.repository import Gpu

    name = Gpu.Device.find(name).name
    device = [device for platform in cl.get_platforms() for device in platform.get_devices()
              if device.name == name][0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    kernel = cl.Program(context, SOURCE).build().scale
    prepared = cl.Program(context, SOURCE).build().scale
    pool = MemoryPool(ImmediateAllocator(queue))
    a, b = (cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * N) for i in range(2))
    numbers = numpy.zeros(N, numpy.float32)
    zero, two = numpy.float32(0), numpy.float32(2)
    prepared.set_args(a, two)
    return queue.finish, {
        "take and drop a buffer of a pool": lambda: pool.allocate(4 * N),
        "copy 4 KiB between buffers": lambda: cl.enqueue_copy(queue, b, a),
        "fill 4 KiB": lambda: cl.enqueue_fill_buffer(queue, a, zero, 0, 4 * N),
        "write 4 KiB, later": lambda: cl.enqueue_copy(queue, a, numbers, is_blocking=False),
        "write 4 KiB, and wait": lambda: cl.enqueue_copy(queue, a, numbers),
        "read 4 KiB into an array": lambda: cl.enqueue_copy(queue, numbers, a),
        "launch a kernel with arguments": lambda: kernel(queue, (N,), None, a, two),
        "launch it as it was prepared":
            lambda: cl.enqueue_nd_range_kernel(queue, prepared, (N,), None),
        "wait for a stream that is idle": queue.finish,
        "size of a buffer": lambda: a.size}


def measure(call, wait):
    """Nanoseconds of this thread for one call."""
    total = 0
    gc.disable()
    for batch in range(BATCHES):
        start = time.thread_time_ns()
        for i in range(CALLS):
            call()
        total += time.thread_time_ns() - start
        wait()
    gc.enable()
    return total / CALLS / BATCHES


def work(library, device):
    """Measures what it is asked for."""
    wait, calls = (theirs if library == "theirs" else ours)(device)
    print("\t".join(calls), flush=True)
    for line in sys.stdin:
        print(measure(calls[line.strip()], wait), flush=True)


class Worker:
    def __init__(self, library, device):
        fast = "0" if library == "without" else "1"
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--work", library, device], text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=dict(os.environ, GPUMEM_PYTHON_FAST=fast, PYOPENCL_COMPILER_OUTPUT="0"))
        self.calls = [name for name in self.process.stdout.readline().strip().split("\t") if name]

    def ask(self, call):
        print(call, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def median(values):
    return statistics.median(list(values))


def main():
    if sys.argv[1:2] == ["--work"]:
        return work(*sys.argv[2:4])
    device = sys.argv[1] if len(sys.argv) > 1 else "opencl:pocl:0"
    word = sys.argv[2] if len(sys.argv) > 2 else ""
    workers = {library: Worker(library, device) for library in ("with", "without", "theirs")}
    if not workers["theirs"].calls:
        print("PyOpenCL is not there, or has no such device")
        del workers["theirs"]
    print(f"ns of the calling thread on {device}\n")
    print(f"{'':34}{'with':>8}{'without':>9}{'PyOpenCL':>10}{'ratio':>7}")
    for call in workers["with"].calls:
        if word not in call:
            continue
        rounds = [{library: worker.ask(call) for library, worker in workers.items()}
                  for i in range(ROUNDS)]
        text = f"{call:34}" + "".join(
            f"{median(times[library] for times in rounds):{width}.0f}"
            for library, width in (("with", 8), ("without", 9), ("theirs", 10))
            if library in workers)
        if "theirs" in workers:
            text += f"{median(times['with'] / times['theirs'] for times in rounds):7.2f}"
        print(text, flush=True)


main()

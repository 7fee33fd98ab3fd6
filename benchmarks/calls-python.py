#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measures the most frequent calls from Python: the Python version of calls.c.

    benchmarks/calls-python.py gpumem DEVICE
    benchmarks/calls-python.py pyopencl|cupy NAME

The other libraries find their device by its driver name."""

import gc
import json
import sys
import time

import numpy

CALLS = 100
BATCHES = 5
N = 1024                                        # numbers of four bytes
SIZE = 4 * N

SOURCE = """
__kernel void
scale (__global float *numbers, float factor)
{
  numbers[get_global_id (0)] *= factor;
}
"""

CUDA_SOURCE = """
extern "C" __global__ void
scale (float *numbers, float factor)
{
  numbers[blockIdx.x * blockDim.x + threadIdx.x] *= factor;
}
"""

numbers = numpy.zeros(N, numpy.float32)
zero, two = numpy.float32(0), numpy.float32(2)


def gpumem(name):
    """Returns a function that waits for pending operations, and the measured calls by name."""
    import gi
    gi.require_version("Gpu", "1.0")
    from gi.repository import Gpu

    context = Gpu.Context(name)
    stream = context.default_stream
    kernel = Gpu.Program(context, SOURCE).scale
    pool = Gpu.MemoryPool(context)
    a, b = Gpu.Buffer(context, SIZE), Gpu.Buffer(context, SIZE)
    stream.fill(a, zero)
    prepared = kernel.prepare(N, None, (a, 2.0))
    return stream.synchronize, {
        "take and drop a buffer of a pool": lambda: pool.alloc_buffer(SIZE),
        "copy 4 KiB between buffers": lambda: stream.copy(b, a),
        "fill 4 KiB": lambda: stream.fill(a, zero),
        "write 4 KiB, later": lambda: stream.write(a, numbers),
        "write 4 KiB, and wait": lambda: a.write(numbers),
        "read 4 KiB into an array": lambda: a.read_into(numbers),
        "launch a kernel with arguments": lambda: kernel(stream, N, None, a, two),
        "launch it as it was prepared": lambda: stream.launch_prepared(prepared),
        "wait for a stream that is idle": stream.synchronize,
        "size of a buffer": lambda: a.size}


def pyopencl(name):
    import pyopencl as cl
    from pyopencl.tools import ImmediateAllocator, MemoryPool

    devices = [device for platform in cl.get_platforms() for device in platform.get_devices()
               if device.name == name]
    if not devices:
        sys.exit(f"no device {name}")
    context = cl.Context(devices[:1])
    queue = cl.CommandQueue(context)
    kernel = cl.Program(context, SOURCE).build().scale
    prepared = cl.Program(context, SOURCE).build().scale
    pool = MemoryPool(ImmediateAllocator(queue))
    a, b = (cl.Buffer(context, cl.mem_flags.READ_WRITE, SIZE) for i in range(2))
    prepared.set_args(a, two)
    cl.enqueue_fill_buffer(queue, a, zero, 0, SIZE)
    return queue.finish, {
        "take and drop a buffer of a pool": lambda: pool.allocate(SIZE),
        "copy 4 KiB between buffers": lambda: cl.enqueue_copy(queue, b, a),
        "fill 4 KiB": lambda: cl.enqueue_fill_buffer(queue, a, zero, 0, SIZE),
        "write 4 KiB, later": lambda: cl.enqueue_copy(queue, a, numbers, is_blocking=False),
        "write 4 KiB, and wait": lambda: cl.enqueue_copy(queue, a, numbers),
        "read 4 KiB into an array": lambda: cl.enqueue_copy(queue, numbers, a),
        "launch a kernel with arguments": lambda: kernel(queue, (N,), None, a, two),
        "launch it as it was prepared":
            lambda: cl.enqueue_nd_range_kernel(queue, prepared, (N,), None),
        "wait for a stream that is idle": queue.finish,
        "size of a buffer": lambda: a.size}


def cupy(name):
    """Like gpumem(), but without prepared launches, which CuPy does not have."""
    import cupy as cp

    runtime = cp.cuda.runtime
    indices = [index for index in range(runtime.getDeviceCount())
               if runtime.getDeviceProperties(index)["name"].decode() == name]
    if not indices:
        sys.exit(f"no device {name}")
    cp.cuda.Device(indices[0]).use()
    stream = cp.cuda.Stream(non_blocking=True)
    stream.use()
    kernel = cp.RawKernel(CUDA_SOURCE, "scale")
    a, b = cp.zeros(N, cp.float32), cp.zeros(N, cp.float32)
    address = numbers.ctypes.data

    def write():
        # copy_from_host() would use another stream.
        a.data.copy_from_host_async(address, SIZE, stream)
        stream.synchronize()

    return stream.synchronize, {
        "take and drop a buffer of a pool": lambda: cp.cuda.alloc(SIZE),
        "copy 4 KiB between buffers":
            lambda: b.data.copy_from_device_async(a.data, SIZE, stream),
        "fill 4 KiB": lambda: a.data.memset_async(0, SIZE, stream),
        "write 4 KiB, later": lambda: a.data.copy_from_host_async(address, SIZE, stream),
        "write 4 KiB, and wait": write,
        "read 4 KiB into an array": lambda: a.get(out=numbers),
        "launch a kernel with arguments": lambda: kernel((N // 256,), (256,), (a, two)),
        "wait for a stream that is idle": stream.synchronize,
        "size of a buffer": lambda: a.nbytes}


def measure(call, wait):
    """Returns the CPU time of one call on this thread, in nanoseconds."""
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


def main():
    library, name = sys.argv[1:3]
    wait, calls = {"gpumem": gpumem, "pyopencl": pyopencl, "cupy": cupy}[library](name)
    for _ in sys.stdin:
        print(json.dumps({name: measure(call, wait) for name, call in calls.items()}), flush=True)


main()

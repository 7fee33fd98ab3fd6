# SPDX-License-Identifier: LGPL-2.1-or-later
"""The calls of calls_gpumem.py in CuPy, without those that CuPy lacks."""

import sys

import cupy as cp
import numpy

N = 1024                                        # numbers of four bytes
SIZE = 4 * N

SOURCE = """
extern "C" __global__ void
scale (float *numbers, float factor)
{
  numbers[blockIdx.x * blockDim.x + threadIdx.x] *= factor;
}
"""

numbers = numpy.zeros(N, numpy.float32)
two = numpy.float32(2)


def get_calls(name):
    """Returns a function that waits for pending operations, and the measured calls by name."""
    runtime = cp.cuda.runtime
    indices = [index for index in range(runtime.getDeviceCount())
               if runtime.getDeviceProperties(index)["name"].decode() == name]
    if not indices:
        sys.exit(f"no device {name}")
    cp.cuda.Device(indices[0]).use()
    stream = cp.cuda.Stream(non_blocking=True)
    stream.use()
    return stream.synchronize, {**add_frequent(stream), **add_events(stream), **add_arrays(stream)}


def add_frequent(stream):
    kernel = cp.RawKernel(SOURCE, "scale")
    a, b = cp.zeros(N, cp.float32), cp.zeros(N, cp.float32)
    address = numbers.ctypes.data

    def write():
        # copy_from_host() would use another stream.
        a.data.copy_from_host_async(address, SIZE, stream)
        stream.synchronize()

    return {
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


def add_events(stream):
    past = stream.record()
    stream.synchronize()
    return {
        "record an event": stream.record,
        "record an event, and wait": lambda: stream.record().synchronize(),
        "wait for an event that is complete": past.synchronize,
        "let a stream wait for an event": lambda: stream.wait_event(past),
        "make a stream": lambda: cp.cuda.Stream(non_blocking=True)}


def add_arrays(stream):
    array, other = cp.asarray(numbers), cp.asarray(numbers)

    def write():
        array.set(numbers)
        stream.synchronize()

    return {
        "make an array of one of NumPy": lambda: cp.asarray(numbers),
        "make an array of zeros from a pool": lambda: cp.zeros(N, cp.float32),
        "make an empty array from a pool": lambda: cp.empty(N, cp.float32),
        "copy an array to NumPy": array.get,
        "copy an array into one of NumPy": lambda: array.get(out=numbers),
        "copy an array from one of NumPy": write,
        "make a slice of an array": lambda: array[10:20],
        "make a copy of an array": array.copy,
        "fill an array": lambda: array.fill(two),
        "copy between arrays": lambda: cp.copyto(other, array)}

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""pycuda-demo-struct: doubles the numbers of arrays to which structures point. Based on
demo_struct.py of PyCUDA."""

import sys

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)

PART = np.dtype([("size", np.int32), ("padding", np.int32), ("numbers", np.uint64)])

SOURCE = """
struct part
{
  int size;
  int padding;
  __global float *numbers;
};

__kernel void
double_parts (__global struct part *parts, int first)
{
  __global struct part *part = parts + first + get_group_id (0);

  for (int i = (int) get_local_id (0); i < part->size; i += (int) get_local_size (0))
    part->numbers[i] *= 2;
}
"""


def upload(context, arrays):
    """Allocates memory for each array, and for the structures with their addresses."""
    memories = [Gpu.Svm(context, array.nbytes) for array in arrays]
    parts = Gpu.Svm(context, len(arrays) * PART.itemsize)
    for memory, array in zip(memories, arrays):
        with memory.map(Gpu.MapFlags.WRITE_INVALIDATE) as mapping:
            mapping.to_numpy(array.dtype)[:] = array
    with parts.map(Gpu.MapFlags.WRITE_INVALIDATE) as mapping:
        mapping.to_numpy(PART)[:] = [(array.size, 0, memory.address)
                                     for memory, array in zip(memories, arrays)]
    return parts, memories


def check(memories, expected):
    for memory, array in zip(memories, expected):
        with memory.map(Gpu.MapFlags.READ) as mapping:
            numbers = mapping.to_numpy(array.dtype).copy()
        if not np.array_equal(numbers, array):
            sys.exit(f"pycuda-demo-struct: {numbers} instead of {array}")
    print("  " + " and ".join(map(str, expected)))


def run():
    context = Gpu.Context.new_default()
    if not context.device.capabilities & Gpu.Capabilities.SVM_COARSE:
        print(f"{context.device.id} has no shared virtual memory, which this example needs")
        sys.exit(77)
    stream = context.default_stream
    arrays = [np.array([1, 2, 3], np.float32), np.array([0, 4], np.float32)]
    parts, memories = upload(context, arrays)
    kernel = Gpu.Program(context, SOURCE).double_parts
    print(f"on {context.device.id}:")
    check(memories, arrays)

    # The program must list memory that the kernel finds through pointers, so that later uses wait
    # for the kernel. A prepared launch can be repeated.
    both = kernel.prepare(2 * 32, 32, (parts, 0), indirect=memories)
    second = kernel.prepare(32, 32, (parts, 1), indirect=memories)
    for launch, factors in ((both, (2, 2)), (second, (2, 4)), (both, (4, 8)), (second, (4, 16))):
        stream.launch_prepared(launch)
        check(memories, [factor * array for factor, array in zip(factors, arrays)])


try:
    run()
except GLib.Error as error:
    sys.exit(f"pycuda-demo-struct: {error.message}")

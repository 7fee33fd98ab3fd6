#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""pyopencl-svm: for each kind of shared virtual memory of the device, writes an array in Python,
doubles its numbers in a kernel, and reads the array in Python. Based on svm.py of PyOpenCL."""

import sys

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)

N = 10

SOURCE = """
__kernel void
twice (__global float *numbers)
{
  numbers[get_global_id (0)] *= 2;
}
"""


def check(kind, before, after):
    if not np.array_equal(after, 2 * before):
        sys.exit(f"pyopencl-svm: {before} became {after} in memory of {kind}")
    print(f"memory of {kind}: right")


def use_coarse_grain(context, stream, twice):
    """Maps the memory before each access in Python, as coarse-grained memory requires."""
    memory = Gpu.Svm.shaped(context, N, np.float32)
    before = np.arange(N, dtype=np.float32)
    with memory.map(Gpu.MapFlags.WRITE_INVALIDATE) as mapping:
        mapping.to_numpy()[:] = before
    stream.launch(twice, N, args=(memory,))
    with memory.map(Gpu.MapFlags.READ) as mapping:
        check("coarse grain", before, mapping.to_numpy().copy())


def use_in_place(kind, array, memory, stream, twice):
    """Uses the array without a mapping, after the stream has completed the kernel."""
    array[:] = 17
    before = array.copy()
    stream.launch(twice, N, args=(memory,))
    stream.synchronize()
    check(kind, before, array)


def run():
    context = Gpu.Context.new_default()
    has = context.device.capabilities
    stream = context.default_stream
    if not has & Gpu.Capabilities.SVM_COARSE:
        print(f"{context.device.id} has no shared virtual memory")
        sys.exit(77)
    twice = Gpu.Program(context, SOURCE).twice
    print(f"shared virtual memory of {context.device.id}:")

    use_coarse_grain(context, stream, twice)
    if has & Gpu.Capabilities.SVM_FINE:
        array = Gpu.Svm.empty(context, N, np.float32)
        use_in_place("fine grain", array, array, stream, twice)
    if has & Gpu.Capabilities.SVM_SYSTEM:
        array = np.empty(N, np.float32)
        memory = Gpu.Svm.new_for_data(context, array)
        use_in_place("NumPy's own", array, memory, stream, twice)


try:
    run()
except GLib.Error as error:
    sys.exit(f"pyopencl-svm: {error.message}")

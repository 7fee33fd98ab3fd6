#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""pinned: page-locks existing arrays, and copies them to the device and back."""

import sys

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)

N = 1 << 20


def run():
    context = Gpu.Context.new_default()
    stream = context.get_default_stream()
    numbers = np.arange(N, dtype=np.int32)
    result = np.zeros(N, np.int32)
    buffer = Gpu.Buffer(context, numbers.nbytes)

    # Both arrays are page-locked until the with statement ends. The copies return at once.
    with Gpu.pinned(context, numbers, result) as (source, target):
        stream.copy(buffer, source)
        stream.copy(target, buffer)
        target.synchronize(Gpu.MapFlags.READ)
        if not np.array_equal(result, numbers):
            sys.exit("pinned: the numbers are wrong")

    # This array uses page-locked memory of the library. The array keeps the memory allocated.
    memory = Gpu.HostMemory(context, numbers.nbytes)
    stream.copy(memory, buffer)
    array = memory.to_numpy(np.int32)
    if array.sum() != numbers.sum():
        sys.exit("pinned: the sum is wrong")
    print(f"copied {N} numbers to the device and back")


try:
    run()
except GLib.Error as error:
    sys.exit(f"pinned: {error.message}")

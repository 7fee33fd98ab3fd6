#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""table: fills a block of a table on the device, and reads the block with rows and columns
swapped."""

import sys

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)


def run():
    context = Gpu.Context.new_default()
    table = Gpu.Array.zeros(context, (400, 600), np.float32)

    # A view does not copy the memory. This view has every second column of rows 100 to 199.
    table[100:200, ::2] = 1.5

    expected = np.zeros((400, 600), np.float32)
    expected[100:200, ::2] = 1.5
    if not np.array_equal(table.T.to_numpy(), expected.T):
        sys.exit("table: the numbers are wrong")
    print(f"transposed {table.size} numbers")


try:
    run()
except GLib.Error as error:
    sys.exit(f"table: {error.message}")

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""svm-list: a linked list in shared virtual memory. Python links the nodes by their addresses, and
a kernel follows the links."""

import sys

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)

N = 1000
NODE = np.dtype([("next", np.uint64), ("value", np.int32), ("visited", np.int32)])

SOURCE = """
struct node
{
  __global struct node *next;
  int value;
  int visited;
};

__kernel void
walk (__global struct node *first, __global int *sum)
{
  __global struct node *node;

  sum[0] = 0;
  for (node = first; node != 0; node = node->next)
    {
      sum[0] += node->value;
      node->visited = 1;
    }
}
"""


def link_nodes(memories):
    """Links the nodes, which alternate between two allocations, by their addresses."""
    for part, memory in enumerate(memories):
        numbers = np.arange(part, N, 2)
        following = numbers + 1
        with memory.map(Gpu.MapFlags.WRITE_INVALIDATE) as mapping:
            nodes = np.asarray(mapping).view(NODE)
            nodes["next"] = memories[1 - part].address + following // 2 * NODE.itemsize
            nodes["next"][following == N] = 0
            nodes["value"] = numbers
            nodes["visited"] = 0
            del nodes                           # otherwise the with statement raises BufferError


def run():
    context = Gpu.Context.new_default()
    program = Gpu.Program.new_from_source(context, SOURCE)
    memories = [Gpu.Svm(context, N // 2 * NODE.itemsize) for _ in range(2)]
    total = Gpu.Buffer(context, 4)
    link_nodes(memories)

    # The kernel gets the first node as an argument. It reaches the other allocation only through
    # pointers, so the program must declare that allocation to the library.
    context.default_stream.launch(program.walk, grid=1, args=(memories[0], total),
                                  indirect=memories[1:])

    with memories[1].map(Gpu.MapFlags.READ) as mapping:
        visited = int(np.asarray(mapping).view(NODE)["visited"].sum())
    sum_of_all = int(np.frombuffer(total.read(), np.int32)[0])
    if sum_of_all != N * (N - 1) // 2 or visited != N // 2:
        sys.exit(f"svm-list: the sum is {sum_of_all}, and {visited} nodes were visited")
    print(f"the kernel visited {N} nodes in two memories: their sum is {sum_of_all}")


try:
    run()
except GLib.Error as error:
    print(f"svm-list: {error.message}")
    sys.exit(77 if error.matches(Gpu.error_quark(), Gpu.Error.NOT_SUPPORTED) else 1)

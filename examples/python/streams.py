#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""streams: two streams take turns on one buffer without a single wait in the program, and a main
loop hears of the end."""

import sys

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

N = 65536
TURNS = 100

SOURCE = """
__kernel void
increment (__global uint *numbers)
{
  numbers[get_global_id (0)] += 1;
}

__kernel void
triple (__global uint *numbers)
{
  numbers[get_global_id (0)] *= 3;
}
"""


def enqueue(context):
    """The odd turns belong to one stream, the even ones to the other. Both use the same buffer,
    so each waits on the device for the one before; this thread waits for nothing."""
    one = Gpu.Stream(context)
    other = Gpu.Stream(context)
    program = Gpu.Program(context, SOURCE)
    increment = program.increment
    triple = program.triple
    buffer = Gpu.Buffer(context, N * 4)

    one.fill(buffer, 0)
    for turn in range(TURNS):
        one.launch(increment, N, args=(buffer,))
        other.launch(triple, N, args=(buffer,))

    waits = one.n_hazard_waits + other.n_hazard_waits
    print(f"enqueued {2 * TURNS} kernels on two streams, which waited {waits} times for each "
          "other")
    return buffer, other.record()


def check(buffer):
    expected = 0
    for turn in range(TURNS):
        expected = (expected + 1) * 3 % (1 << 32)
    if buffer.read() != expected.to_bytes(4, sys.byteorder) * N:
        sys.exit("streams: the numbers are wrong")
    print(f"all of {N} numbers are {expected}, as if one stream had done it all")


def run():
    context = Gpu.Context.new_default()
    loop = GLib.MainLoop()
    results = []

    def completed(event, result):
        """Called by the main loop, in the thread that asked."""
        results.append(result)
        loop.quit()

    # The streams may go: what they still have to do holds everything that it needs.
    buffer, end = enqueue(context)
    end.wait_async(None, completed)
    loop.run()
    end.wait_finish(results[0])
    print("the main loop hears that both streams are done")

    # Under asyncio it is just: await end
    check(buffer)


try:
    run()
except GLib.Error as error:
    sys.exit(f"streams: {error.message}")

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""streams: two streams use one buffer in turns, and the program itself does not wait. A main loop
is notified of the completion."""

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
    """Odd turns run on one stream, even turns on the other stream. All turns use the same buffer,
    so on the device each kernel waits for the previous kernel. This thread does not wait."""
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
    print(f"all {N} numbers are {expected}, as if a single stream had run all kernels")


def run():
    context = Gpu.Context.new_default()
    loop = GLib.MainLoop()
    results = []

    def completed(event, result):
        """Called by the main loop, in the thread that made the request."""
        results.append(result)
        loop.quit()

    # The program may drop the streams: pending work references all objects that it uses.
    buffer, end = enqueue(context)
    end.wait_async(None, completed)
    loop.run()
    end.wait_finish(results[0])
    print("main loop: both streams have completed")

    # Under asyncio, use: await end
    check(buffer)


try:
    run()
except GLib.Error as error:
    sys.exit(f"streams: {error.message}")

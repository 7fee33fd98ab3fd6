#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""pool: two streams work on the chunks of something long, and take their buffers from a pool for
each chunk anew. All goes through the memory of a few chunks, and hardly any of it through the
driver."""

import array
import sys

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

N = 16384                                       # numbers in a chunk
CHUNKS = 64

SOURCE = """
__kernel void
polynomial (__global const uint *x, __global uint *y)
{
  size_t i = get_global_id (0);

  y[i] = 3 * x[i] * x[i] + 2 * x[i] + 1;
}
"""


def enqueue(pool, stream, kernel, chunk):
    """Returns at once. The buffers may go here: what the stream still has to do with their memory
    comes before whatever has it next."""
    x = pool.alloc_buffer(N * 4, stream)
    y = pool.alloc_buffer(N * 4, stream)
    stream.write(x, array.array("I", range(chunk * N, (chunk + 1) * N)))
    stream.launch(kernel, N, args=(x, y))
    return stream.read(y)


def check(results):
    for chunk, result in enumerate(results):
        expected = array.array("I", ((3 * x * x + 2 * x + 1) & 0xffffffff
                                     for x in range(chunk * N, (chunk + 1) * N)))
        if result.get_data() != expected.tobytes():
            sys.exit(f"pool: chunk {chunk} is wrong")


def run():
    context = Gpu.Context.new_default()
    pool = Gpu.MemoryPool(context)
    streams = [Gpu.Stream(context), Gpu.Stream(context)]
    kernel = Gpu.Program(context, SOURCE).polynomial

    results = [enqueue(pool, streams[chunk % 2], kernel, chunk) for chunk in range(CHUNKS)]
    context.synchronize()
    check(results)

    print(f"{CHUNKS} chunks on {context.device.id} are right")
    print(f"{pool.n_allocs} buffers came out of {pool.managed_bytes} bytes, which the driver was "
          f"asked for {pool.n_growths} times; {pool.active_blocks} are in use, and at most "
          f"{pool.peak_active_bytes} bytes were")


try:
    run()
except GLib.Error as error:
    sys.exit(f"pool: {error.message}")

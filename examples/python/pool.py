#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""pool: two streams process the chunks of a long input. The buffers for each chunk come from a
pool, which reuses the memory of earlier chunks and rarely calls the driver."""

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
    """Returns at once. The buffers may be dropped: the pool orders the next use of their memory
    after the pending work of the stream."""
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

    print(f"{CHUNKS} chunks on {context.device.id} are correct")
    print(f"the pool served {pool.n_allocs} buffers from {pool.managed_bytes} bytes, which took "
          f"{pool.n_growths} allocations by the driver; {pool.active_blocks} are in use, and the "
          f"peak was {pool.peak_active_bytes} bytes")


try:
    run()
except GLib.Error as error:
    sys.exit(f"pool: {error.message}")

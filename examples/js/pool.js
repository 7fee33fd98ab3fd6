#!/usr/bin/env -S gjs -m
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// pool: two streams process the chunks of a long input. The buffers for each chunk come from a
// pool, which reuses the memory of earlier chunks and rarely calls the driver.

import Gpu from 'gi://Gpu?version=1.0';
import System from 'system';

const N = 16384;    // numbers in a chunk
const CHUNKS = 64;

const SOURCE = `
__kernel void
polynomial (__global const uint *x, __global uint *y)
{
  size_t i = get_global_id (0);

  y[i] = 3 * x[i] * x[i] + 2 * x[i] + 1;
}
`;

function numbers(chunk) {
    return Uint32Array.from({length: N}, (_, i) => chunk * N + i);
}

// Returns at once. The buffers are freed here, without waiting for garbage collection: the pool
// orders the next use of their memory after the pending work of the stream.
function enqueue(pool, stream, kernel, chunk) {
    const x = pool.alloc_buffer(N * 4, stream);
    const y = pool.alloc_buffer(N * 4, stream);
    stream.write(x, numbers(chunk));
    stream.launch(kernel, N, null, [x, y]);
    const result = stream.read(y);
    x.release();
    y.release();
    return result;
}

function check(results) {
    results.forEach((result, chunk) => {
        const bytes = result.toArray();
        const found = new Uint32Array(bytes.buffer, bytes.byteOffset, N);
        const expected = numbers(chunk).map(x => Math.imul(3, Math.imul(x, x)) + 2 * x + 1);
        if (!found.every((number, i) => number === expected[i]))
            throw new Error(`chunk ${chunk} is wrong`);
    });
}

async function run() {
    const context = Gpu.Context.new_default();
    const pool = Gpu.MemoryPool.new(context);
    const streams = [0, 1].map(() => Gpu.Stream.new(context, Gpu.StreamFlags.NONE));
    const kernel = Gpu.Program.new_from_source(context, SOURCE, null).get_kernel('polynomial');

    const results = [];
    for (let chunk = 0; chunk < CHUNKS; chunk++)
        results.push(enqueue(pool, streams[chunk % 2], kernel, chunk));
    for (const stream of streams)
        await stream.synchronize_async(null);
    check(results);

    print(`${CHUNKS} chunks on ${context.get_device().get_id()} are correct`);
    print(`the pool served ${pool.n_allocs} buffers from ${pool.managed_bytes} bytes, which took ` +
        `${pool.n_growths} allocations by the driver; ${pool.active_blocks} are in use, and the ` +
        `peak was ${pool.peak_active_bytes} bytes`);
}

try {
    await run();
} catch (error) {
    printerr(`pool: ${error.message}`);
    System.exit(1);
}

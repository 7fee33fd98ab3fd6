#!/usr/bin/env -S gjs -m
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Measures the most frequent calls from JavaScript: the JavaScript version of calls.c.

import Gio from 'gi://Gio';
import GLib from 'gi://GLib';
import Gpu from 'gi://Gpu?version=1.0';
import System from 'system';

const N = 1024;
const SIZE = 4 * N;
const CALLS = 100;
const BATCHES = 5;

const SOURCE = `
__kernel void
scale (__global float *numbers, float factor)
{
  numbers[get_global_id (0)] *= factor;
}
`;

function makeCalls(name) {
    const context = Gpu.Context.new(Gpu.Device.find(name));
    const stream = context.get_default_stream();
    const pool = Gpu.MemoryPool.new(context);
    const kernel = Gpu.Program.new_from_source(context, SOURCE, null).get_kernel('scale');
    const [a, b] = [0, 1].map(() => Gpu.Buffer.new(context, Gpu.MemoryFlags.NONE, SIZE));
    const numbers = new Uint8Array(SIZE);
    const zero = new Float32Array(1);
    stream.fill(a, zero);
    const prepared = kernel.prepare(N, null, [a, 2]);
    return [() => stream.synchronize(null), {
        // Without release() the buffer is only dropped at the next garbage collection.
        'take and drop a buffer of a pool': () => pool.alloc_buffer(SIZE, null).release(),
        'copy 4 KiB between buffers': () => stream.copy(b, a),
        'fill 4 KiB': () => stream.fill(a, zero),
        'write 4 KiB, later': () => stream.write(a, numbers),
        'write 4 KiB, and wait': () => a.write_bytes(null, 0, numbers, null),
        'read 4 KiB into an array': () => a.read_bytes(null, 0, SIZE, null).toArray(),
        'launch a kernel with arguments': () => stream.launch(kernel, N, null, [a, 2]),
        'launch it as it was prepared': () => stream.launch_prepared(prepared),
        'wait for a stream that is idle': () => stream.synchronize(null),
        'size of a buffer': () => a.get_size(),
    }];
}

// The operating system's CPU time of this thread is exact only directly after a sleep.
function getThreadTime() {
    GLib.usleep(1);
    const [, text] = GLib.file_get_contents('/proc/thread-self/schedstat');
    return Number(new TextDecoder().decode(text).split(' ')[0]);
}

function measure(call, wait) {
    let total = 0;
    for (let batch = 0; batch < BATCHES; batch++) {
        const start = getThreadTime();
        for (let i = 0; i < CALLS; i++)
            call();
        total += getThreadTime() - start;
        wait();
    }
    return total / CALLS / BATCHES;
}

function measureNothing(wait) {
    const times = Array.from({length: 101}, () => measure(() => {}, wait));
    return times.sort((one, other) => one - other)[50];
}

try {
    const [wait, calls] = makeCalls(ARGV[0]);
    const nothing = measureNothing(wait);
    const input = Gio.DataInputStream.new(Gio.UnixInputStream.new(0, false));
    while (input.read_line_utf8(null)[0] !== null) {
        const times = Object.entries(calls).map(
            ([name, call]) => [name, measure(call, wait) - nothing]);
        print(JSON.stringify(Object.fromEntries(times)));
    }
} catch (error) {
    printerr(`calls: ${error.message}`);
    System.exit(1);
}

#!/usr/bin/env -S gjs -m
// SPDX-License-Identifier: LGPL-2.1-or-later
// streams: two streams use one buffer in turns, and the program itself does not wait. A main loop
// is notified of the completion.

import GLib from 'gi://GLib';
import Gpu from 'gi://Gpu?version=1.0';
import System from 'system';

const N = 65536;
const TURNS = 100;

const SOURCE = `
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
`;

// Odd turns run on one stream, even turns on the other stream. All turns use the same buffer, so on
// the device each kernel waits for the previous kernel. This thread does not wait.
function enqueue(context) {
    const one = Gpu.Stream.new(context, Gpu.StreamFlags.NONE);
    const other = Gpu.Stream.new(context, Gpu.StreamFlags.NONE);
    const program = Gpu.Program.new_from_source(context, SOURCE, null);
    const increment = program.get_kernel('increment');
    const triple = program.get_kernel('triple');
    const buffer = Gpu.Buffer.new(context, Gpu.MemoryFlags.NONE, N * 4);

    one.fill(buffer, 0);
    for (let turn = 0; turn < TURNS; turn++) {
        one.launch(increment, N, null, [buffer]);
        other.launch(triple, N, null, [buffer]);
    }

    const waits = one.n_hazard_waits + other.n_hazard_waits;
    print(`enqueued ${2 * TURNS} kernels on two streams, which waited ${
        waits} times for each other`);
    return [buffer, other.record()];
}

async function check(buffer) {
    let expected = 0;
    for (let turn = 0; turn < TURNS; turn++)
        expected = (expected + 1) * 3 % 2 ** 32;

    const bytes = await buffer.read();
    const numbers = new Uint32Array(bytes.buffer, bytes.byteOffset, N);
    if (!numbers.every(number => number === expected))
        throw new Error('the numbers are wrong');
    print(`all ${N} numbers are ${expected}, as if a single stream had run all kernels`);
}

async function run() {
    const context = Gpu.Context.new_default();

    // The program may drop the streams: pending work references all objects that it uses.
    const [buffer, end] = enqueue(context);
    await end.wait_async(null);
    print('main loop: both streams have completed');
    await check(buffer);
}

const loop = GLib.MainLoop.new(null, false);
let status = 0;

run().catch(error => {
    printerr(`streams: ${error.message}`);
    status = 1;
}).finally(() => loop.quit());
loop.run();
System.exit(status);

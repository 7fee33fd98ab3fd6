#!/usr/bin/env -S gjs -m
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// saxpy: builds a kernel, launches it over a million numbers and maps the result.

import Gpu from 'gi://Gpu?version=1.0';
import System from 'system';

const N = 1 << 20;

const SOURCE = `
__kernel void
saxpy (float a, __global const float *x, __global float *y)
{
  size_t i = get_global_id (0);

  y[i] = a * x[i] + y[i];
}
`;

function newBuffer(context, numbers) {
    return Gpu.Buffer.new_from_bytes(context, Gpu.MemoryFlags.NONE, new Uint8Array(numbers.buffer));
}

async function run() {
    const context = Gpu.Context.new_default();
    const program = Gpu.Program.new_from_source(context, SOURCE, null);
    const x = newBuffer(context, Float32Array.from({length: N}, (_, i) => i));
    const y = newBuffer(context, new Float32Array(N).fill(1));

    // The launch returns at once. The mapping below waits for the kernel, because both use y.
    const stream = context.get_default_stream();
    stream.launch(program.get_kernel('saxpy'), N, null, [2.5, x, y]);

    // With gjs up to 1.74, the array accesses the memory of the buffer without a copy.
    const mapping = await y.map(Gpu.MapFlags.READ);
    const bytes = mapping.toUint8Array();
    const numbers = new Float32Array(bytes.buffer, bytes.byteOffset, N);

    for (let i = 0; i < N; i++) {
        if (numbers[i] !== 2.5 * i + 1)
            throw new Error(`number ${i} is ${numbers[i]}, not ${2.5 * i + 1}`);
    }
    print(`2.5 x + 1 is correct for all ${N} numbers: ${
        [0, 1, 2].map(i => numbers[i].toFixed(1)).join(', ')} ... ${numbers[N - 1]}`);
}

try {
    await run();
} catch (error) {
    printerr(`saxpy: ${error.message}`);
    System.exit(1);
}

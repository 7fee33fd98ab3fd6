#!/usr/bin/env -S gjs -m
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// pinned: copies numbers to the device and back through page-locked memory.

import Gpu from 'gi://Gpu?version=1.0';
import System from 'system';

const N = 1 << 20;

async function run() {
    const context = Gpu.Context.new_default();
    const stream = context.get_default_stream();
    const allocator = Gpu.HostAllocator.new(context, Gpu.HostMemoryFlags.NONE);
    const buffer = Gpu.Buffer.new(context, Gpu.MemoryFlags.NONE, 4 * N);

    // Releasing the memory does not wait: the allocator reuses the memory only after the copy.
    const source = allocator.alloc(4 * N);
    await source.write(Int32Array.from({length: N}, (_, i) => i));
    stream.copy(buffer, source);
    source.release();

    // Reading waits for the copy.
    const result = allocator.alloc(4 * N);
    stream.copy(result, buffer);
    const bytes = await result.read();
    const numbers = new Int32Array(bytes.buffer, bytes.byteOffset, N);

    for (let i = 0; i < N; i++) {
        if (numbers[i] !== i)
            throw new Error(`number ${i} is ${numbers[i]}`);
    }
    print(`copied ${N} numbers to the device and back`);
}

try {
    await run();
} catch (error) {
    printerr(`pinned: ${error.message}`);
    System.exit(1);
}

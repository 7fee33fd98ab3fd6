#!/usr/bin/env -S gjs -m
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// stream-file: counts the bytes of a file that is larger than the device memory that the program
// may use. The chunks of the file alternate between two streams: while the device processes a
// chunk, the program reads the next chunk.
//
//     gjs -m stream-file.js disk.img 64
//
// Without arguments, the program creates a file and uses 2 MiB.

import Gio from 'gi://Gio';
import GLib from 'gi://GLib';
import Gpu from 'gi://Gpu?version=1.0';
import System from 'system';

const GROUPS = 32;
const COUNTS_SIZE = GROUPS * 256 * 8;

// Each group of 256 work-items counts bytes in local memory, and adds the result to its own part of
// counts.
const SOURCE = `
__kernel void
count (__global const uchar *bytes, ulong size, __global ulong *counts)
{
  __local uint mine[256];

  mine[get_local_id (0)] = 0;
  barrier (CLK_LOCAL_MEM_FENCE);
  for (ulong i = get_global_id (0); i < size; i += get_global_size (0))
    atomic_inc (&mine[bytes[i]]);
  barrier (CLK_LOCAL_MEM_FENCE);
  counts[get_global_id (0)] += mine[get_local_id (0)];
}
`;

Gio._promisify(Gio.InputStream.prototype, 'read_bytes_async');

// A stream, with one half of the device memory, and with page-locked memory into which the file is
// read.
function newLane(context, size) {
    const lane = {
        stream: Gpu.Stream.new(context, Gpu.StreamFlags.NONE),
        chunk: Gpu.HostMemory.new(context, Gpu.HostMemoryFlags.NONE, size - COUNTS_SIZE),
        bytes: Gpu.Buffer.new(context, Gpu.MemoryFlags.NONE, size - COUNTS_SIZE),
        counts: Gpu.Buffer.new(context, Gpu.MemoryFlags.NONE, COUNTS_SIZE),
    };
    lane.stream.fill(lane.counts, 0);
    return lane;
}

// Enqueues the whole file; returns the peak of device memory in use.
async function streamFile(context, file, lanes) {
    const kernel = Gpu.Program.new_from_source(context, SOURCE, null).get_kernel('count');
    const input = file.read(null);
    let held = 0;

    for (let turn = 0; ; turn++) {
        const {stream, chunk, bytes, counts} = lanes[turn % 2];
        const data = await input.read_bytes_async(chunk.get_size(), GLib.PRIORITY_DEFAULT, null);
        const size = data.get_size();
        if (size === 0)
            return held;

        // Waits only for the copy of the chunk: the kernel and the other stream may still run.
        await chunk.write(data);
        stream.copy(bytes, chunk, size);
        stream.launch(kernel, GROUPS * 256, 256, [bytes, size, counts]);
        held = Math.max(held, context.get_allocated_size());
    }
}

async function count(context, file, budget) {
    const lanes = [0, 1].map(() => newLane(context, Math.floor(budget / 2)));
    const held = await streamFile(context, file, lanes);
    if (held > budget)
        throw new Error(`${held} bytes were held on the device, more than ${budget}`);

    const totals = new Array(256).fill(0);
    for (const {stream, counts} of lanes) {
        // Waits for the stream of the lane.
        const bytes = await counts.read(0, null, {stream});
        new BigUint64Array(bytes.buffer, bytes.byteOffset, GROUPS * 256)
            .forEach((n, i) => (totals[i % 256] += Number(n)));
    }
    return [totals, held];
}

// Verifies the counts on the CPU.
function check(file, totals) {
    const expected = new Array(256).fill(0);
    const input = file.read(null);
    for (;;) {
        const block = input.read_bytes(65536, null).toArray();
        if (block.length === 0)
            break;
        for (let i = 0; i < block.length; i++)
            expected[block[i]]++;
    }
    if (!totals.every((n, i) => n === expected[i]))
        throw new Error('the counts are wrong');
}

function makeFile() {
    const [file, stream] = Gio.File.new_tmp('stream-file-XXXXXX');
    const block = Uint8Array.from({length: 65000}, (_, i) => i * i >> 8);
    for (let i = 0; i < 160; i++)
        stream.get_output_stream().write_all(block, null);
    return file;
}

async function run([path, mebibytes = 2]) {
    const file = path ? Gio.File.new_for_commandline_arg(path) : makeFile();
    const budget = mebibytes * 2 ** 20;
    try {
        const context = Gpu.Context.new_default();
        const [totals, held] = await count(context, file, budget);
        check(file, totals);
        print(`counted ${totals.reduce((sum, n) => sum + n)} bytes on ${
            context.get_device().get_id()}, ${totals[0]} of them zero, with at most ${held} of ${
            budget} bytes held there`);
    } finally {
        if (!path)
            file.delete(null);
    }
}

try {
    await run(ARGV);
} catch (error) {
    printerr(`stream-file: ${error.message}`);
    System.exit(1);
}

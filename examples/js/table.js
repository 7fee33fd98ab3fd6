#!/usr/bin/env -S gjs -m
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// table: fills a block of a table on the device, and reads the block with rows and columns swapped.

import Gpu from 'gi://Gpu?version=1.0';
import GLib from 'gi://GLib';
import System from 'system';

const N_ROWS = 400;
const N_COLUMNS = 600;

async function run() {
    const context = Gpu.Context.new_default();
    const stream = context.get_default_stream();
    const table = Gpu.Array.from(context, new Float32Array(N_ROWS * N_COLUMNS),
        [N_ROWS, N_COLUMNS]);

    // Views do not copy the memory. These are rows 100 to 199, and every second column of these
    // rows.
    const block = table.slice(0, 100, 200, 1).slice(1, 0, N_COLUMNS, 2);
    stream.fill_array(block, new GLib.Bytes(new Uint8Array(Float32Array.of(1.5).buffer)));

    // Reading waits for the fill.
    const numbers = await table.transpose(null).read();

    for (let column = 0; column < N_COLUMNS; column++) {
        for (let row = 0; row < N_ROWS; row++) {
            const expected = row >= 100 && row < 200 && column % 2 === 0 ? 1.5 : 0;
            if (numbers[column * N_ROWS + row] !== expected)
                throw new Error(`row ${row}, column ${column} is wrong`);
        }
    }
    print(`transposed ${numbers.length} numbers`);
}

try {
    await run();
} catch (error) {
    printerr(`table: ${error.message}`);
    System.exit(1);
}

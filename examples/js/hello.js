#!/usr/bin/env -S gjs -m
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// hello: lists the devices, then copies a greeting to the memory of one of them and back.
//
//     gjs -m hello.js                          the default device
//     GPUMEM_DEVICE=host gjs -m hello.js       another device

import Gpu from 'gi://Gpu?version=1.0';
import System from 'system';

const SIZE = 4096;
const GREETING = 'Hello from the memory of a device';

function listDevices() {
    for (const device of Gpu.Device.list()) {
        let unusable = '';
        try {
            device.check();
        } catch (error) {
            unusable = `, unusable: ${error.message}`;
        }
        print(`${device.get_id().padEnd(10)} ${device.get_name()}${unusable}`);
    }
}

async function sayHello() {
    const context = Gpu.Context.new_default();
    const buffer = Gpu.Buffer.new(context, Gpu.MemoryFlags.NONE, SIZE);
    const duplicate = Gpu.Buffer.new(context, Gpu.MemoryFlags.NONE, SIZE);

    // Each promise resolves when the device has completed the operation.
    await buffer.fill('.'.charCodeAt(0));
    await buffer.write(new TextEncoder().encode(GREETING), 8);
    await duplicate.copy(buffer);
    const text = new TextDecoder().decode(await duplicate.read());

    print(`${context.get_device().get_id()} says: ${text.slice(0, 50)}`);
    if (text !== `........${GREETING}`.padEnd(SIZE, '.'))
        throw new Error('the text is wrong');
}

try {
    listDevices();
    await sayHello();
} catch (error) {
    printerr(`hello: ${error.message}`);
    System.exit(1);
}

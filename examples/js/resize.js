#!/usr/bin/env -S gjs -m
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// resize: halves a picture on the device, through an image and a sampler.
//
//     gjs -m resize.js holiday.jpeg small.png
//
// Without arguments, the program draws a picture and writes resize.png.

import GdkPixbuf from 'gi://GdkPixbuf?version=2.0';
import GLib from 'gi://GLib';
import Gpu from 'gi://Gpu?version=1.0';
import System from 'system';

// Samplers in hardware interpolate with weights of about eight bits, so results may differ from
// those of the CPU.
const TOLERANCE = 2;

// A kernel in the portable dialect, which OpenCL, CUDA and the host back end can build.
const SOURCE = `
__kernel void
resize (__read_only image2d_t in, sampler_t between, __write_only image2d_t out)
{
  int x = (int) get_global_id (0);
  int y = (int) get_global_id (1);
  float u = ((float) x + 0.5f) / (float) get_image_width (out);
  float v = ((float) y + 0.5f) / (float) get_image_height (out);

  write_imagef (out, (int2) (x, y), read_imagef (in, between, (float2) (u, v)));
}
`;

function toPixbuf(pixels, width, height) {
    return GdkPixbuf.Pixbuf.new_from_bytes(new GLib.Bytes(pixels), GdkPixbuf.Colorspace.RGB, true,
        8, width, height, width * 4);
}

function drawPicture() {
    const [width, height] = [321, 240];
    const pixels = new Uint8Array(width * height * 4);
    for (let y = 0, i = 0; y < height; y++) {
        for (let x = 0; x < width; x++) {
            pixels[i++] = x * 255 / 320;
            pixels[i++] = y * 255 / 239;
            pixels[i++] = ((x >> 4) + (y >> 4)) % 2 * 255;
            pixels[i++] = 255;
        }
    }
    return toPixbuf(pixels, width, height);
}

async function process(context, picture) {
    const size = [picture.get_width(), picture.get_height()];
    const half = size.map(length => Math.max(length >> 1, 1));
    const program = await Gpu.Program.new_from_source_async(context, SOURCE, null, null);
    const between = Gpu.Sampler.new(context, true, Gpu.AddressMode.CLAMP_TO_EDGE,
        Gpu.FilterMode.LINEAR);
    // Rows of a pixbuf may be padded: pass the row pitch.
    const source = Gpu.Image.new_from_bytes(context, Gpu.MemoryFlags.READ_ONLY, 'rgba-unorm8',
        Gpu.ImageType.IMAGE_2D, size, picture.read_pixel_bytes(), picture.get_rowstride());
    const target = Gpu.Image.new(context, Gpu.MemoryFlags.WRITE_ONLY, 'rgba-unorm8',
        Gpu.ImageType.IMAGE_2D, half);

    context.get_default_stream().launch(program.get_kernel('resize'), half, null,
        [source, between, target]);
    return toPixbuf(await target.read(), ...half);
}

// Verifies every pixel on the CPU.
function check(picture, result) {
    const before = picture.read_pixel_bytes().toArray();
    const after = result.read_pixel_bytes().toArray();
    const [width, height] = [picture.get_width(), picture.get_height()];
    const [halfWidth, halfHeight] = [result.get_width(), result.get_height()];
    const confine = (value, limit) => Math.min(Math.max(value, 0), limit - 1);
    const red = (x, y) =>
        before[confine(y, height) * picture.get_rowstride() + confine(x, width) * 4];

    for (let y = 0; y < halfHeight; y++) {
        for (let x = 0; x < halfWidth; x++) {
            const u = (x + 0.5) * width / halfWidth - 0.5;
            const v = (y + 0.5) * height / halfHeight - 0.5;
            const [left, top] = [Math.floor(u), Math.floor(v)];
            const [across, down] = [u - left, v - top];
            const expected =
                (1 - down) * ((1 - across) * red(left, top) + across * red(left + 1, top)) +
                down * ((1 - across) * red(left, top + 1) + across * red(left + 1, top + 1));
            const got = after[y * result.get_rowstride() + x * 4];
            if (Math.abs(got - expected) > TOLERANCE)
                throw new Error(`red at ${x}, ${y} is ${got}, not ${expected}`);
        }
    }
}

try {
    const [source, target = 'resize.png'] = ARGV;
    const picture = source
        ? GdkPixbuf.Pixbuf.new_from_file(source).add_alpha(false, 0, 0, 0) : drawPicture();
    const context = Gpu.Context.new_default();
    if (!(context.get_device().get_capabilities() & Gpu.Capabilities.IMAGES)) {
        print('the device has no images');
        System.exit(77);
    }
    const result = await process(context, picture);
    check(picture, result);
    result.savev(target, 'png', [], []);
    print(`${result.get_width()} x ${result.get_height()} pixels from ${picture.get_width()} x ${
        picture.get_height()} on ${context.get_device().get_id()}: see ${target}`);
} catch (error) {
    printerr(`resize: ${error.message}`);
    System.exit(1);
}

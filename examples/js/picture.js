#!/usr/bin/env -S gjs -m
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// picture: blurs a picture and inverts its colours on the device.
//
//     gjs -m picture.js holiday.jpeg blurred.png
//
// Without arguments, the program draws a picture and writes picture.png.

import GdkPixbuf from 'gi://GdkPixbuf?version=2.0';
import GLib from 'gi://GLib';
import Gpu from 'gi://Gpu?version=1.0';
import System from 'system';

const RADIUS = 2;

// This OpenCL C is also valid C, so the host back end can compile it.
const SOURCE = `
__kernel void
blur (__global const uchar *in, __global uchar *out, int width, int height, int stride,
      int channels, int radius)
{
  int x = (int) get_global_id (0);
  int y = (int) get_global_id (1);

  for (int c = 0; c < channels; c++)
    {
      int sum = 0;
      int n = 0;

      for (int v = max (y - radius, 0); v <= min (y + radius, height - 1); v++)
        for (int u = max (x - radius, 0); u <= min (x + radius, width - 1); u++)
          {
            sum += in[v * stride + u * channels + c];
            n++;
          }
      out[y * stride + x * channels + c] = (uchar) (sum / n);
    }
}

__kernel void
invert (__global uchar *pixels, int stride, int channels)
{
  int first = (int) get_global_id (1) * stride + (int) get_global_id (0) * channels;

  for (int c = 0; c < 3; c++)
    pixels[first + c] = (uchar) (255 - pixels[first + c]);
}
`;

function drawPicture() {
    const [width, height] = [320, 240];
    const pixels = new Uint8Array(width * height * 3);
    for (let y = 0, i = 0; y < height; y++) {
        for (let x = 0; x < width; x++) {
            pixels[i++] = x * 255 / 319;
            pixels[i++] = y * 255 / 239;
            pixels[i++] = ((x >> 4) + (y >> 4)) % 2 * 255;
        }
    }
    return GdkPixbuf.Pixbuf.new_from_bytes(new GLib.Bytes(pixels), GdkPixbuf.Colorspace.RGB, false,
        8, width, height, width * 3);
}

// Processes the picture on the device. Returns a picture of the same size.
async function process(context, picture) {
    const pixels = picture.read_pixel_bytes();
    const [width, height] = [picture.get_width(), picture.get_height()];
    const [stride, channels] = [picture.get_rowstride(), picture.get_n_channels()];
    const program = await Gpu.Program.new_from_source_async(context, SOURCE, null, null);
    const source = Gpu.Buffer.new_from_bytes(context, Gpu.MemoryFlags.NONE, pixels);
    const target = Gpu.Buffer.new(context, Gpu.MemoryFlags.NONE, pixels.get_size());

    const stream = context.get_default_stream();
    stream.launch(program.get_kernel('blur'), [width, height], null,
        [source, target, width, height, stride, channels, RADIUS]);
    stream.launch(program.get_kernel('invert'), [width, height], null, [target, stride, channels]);

    return GdkPixbuf.Pixbuf.new_from_bytes(new GLib.Bytes(await target.read()),
        GdkPixbuf.Colorspace.RGB, channels === 4, 8, width, height, stride);
}

// Verifies about 10,000 pixels on the CPU.
function check(picture, result) {
    const before = picture.read_pixel_bytes().toArray();
    const after = result.read_pixel_bytes().toArray();
    const [width, height] = [picture.get_width(), picture.get_height()];
    const [stride, channels] = [picture.get_rowstride(), picture.get_n_channels()];
    const step = Math.max(Math.floor(width * height / 10000), 1);

    for (let i = 0; i < width * height; i += step) {
        const [x, y] = [i % width, Math.floor(i / width)];
        let [sum, n] = [0, 0];
        for (let v = Math.max(y - RADIUS, 0); v <= Math.min(y + RADIUS, height - 1); v++) {
            for (let u = Math.max(x - RADIUS, 0); u <= Math.min(x + RADIUS, width - 1); u++, n++)
                sum += before[v * stride + u * channels];
        }
        const [red, expected] = [after[y * stride + x * channels], 255 - Math.floor(sum / n)];
        if (red !== expected)
            throw new Error(`red at ${x}, ${y} is ${red}, not ${expected}`);
    }
}

try {
    const [source, target = 'picture.png'] = ARGV;
    const picture = source ? GdkPixbuf.Pixbuf.new_from_file(source) : drawPicture();
    const context = Gpu.Context.new_default();
    const result = await process(context, picture);
    check(picture, result);
    result.savev(target, 'png', [], []);
    print(`blurred and inverted ${result.get_width()} x ${result.get_height()} pixels on ${
        context.get_device().get_id()}: see ${target}`);
} catch (error) {
    printerr(`picture: ${error.message}`);
    System.exit(1);
}

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""video: takes frames from one GStreamer pipeline, inverts their colours on the device and passes
them to another pipeline."""

import sys

import gi

try:
    gi.require_version("Gst", "1.0")
    gi.require_version("GstApp", "1.0")
except ValueError:
    print("GStreamer is not installed")
    sys.exit(77)
gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu, Gst, GstApp  # noqa: E402, F401

WIDTH, HEIGHT = 160, 120
SIZE = WIDTH * HEIGHT * 4
FRAMES = 10
CAPS = f"video/x-raw,format=RGBA,width={WIDTH},height={HEIGHT},framerate=30/1"

SOURCE = """
__kernel void
invert (__global uchar *pixels)
{
  size_t first = 4 * get_global_id (0);

  for (size_t i = first; i < first + 3; i++)
    pixels[i] = (uchar) (255 - pixels[i]);
}
"""


def open_pipelines():
    try:
        return (Gst.parse_launch(f"videotestsrc num-buffers={FRAMES} ! {CAPS} ! "
                                 "appsink name=frames sync=false"),
                Gst.parse_launch(f"appsrc name=input format=time caps={CAPS} ! "
                                 "appsink name=output sync=false"))
    except GLib.Error as error:
        if not error.matches(Gst.ParseError.quark(), Gst.ParseError.NO_SUCH_ELEMENT):
            raise
        print(error.message)
        sys.exit(77)


def play(player, source, pixels):
    """Passes a frame on and returns what the other end of the pipeline receives."""
    buffer = Gst.Buffer.new_wrapped(pixels)
    buffer.pts, buffer.duration = source.pts, source.duration
    player.get_by_name("input").push_buffer(buffer)
    sample = player.get_by_name("output").try_pull_sample(10 * Gst.SECOND)
    return sample.get_buffer().extract_dup(0, SIZE) if sample else None


def process(context, camera, player):
    invert = Gpu.Program(context, SOURCE).invert
    memory = Gpu.Buffer(context, SIZE)
    stream = context.default_stream
    opposite = bytes(255 - value for value in range(256))
    n = 0

    # None at the end of the video
    while (sample := camera.get_by_name("frames").pull_sample()) is not None:
        buffer = sample.get_buffer()
        before = buffer.extract_dup(0, SIZE)
        stream.write(memory, before)
        stream.launch(invert, SIZE // 4, args=(memory,))
        after = play(player, buffer, bytes(memory.read()))

        expected = bytearray(before.translate(opposite))
        expected[3::4] = before[3::4]
        if after != expected:
            sys.exit(f"video: frame {n} is wrong")
        n += 1
    if n != FRAMES:
        sys.exit(f"video: {n} frames, not {FRAMES}")


def run():
    Gst.init(None)
    camera, player = open_pipelines()
    context = Gpu.Context.new_default()
    for pipeline in camera, player:
        pipeline.set_state(Gst.State.PLAYING)
    try:
        process(context, camera, player)
    finally:
        for pipeline in camera, player:
            pipeline.set_state(Gst.State.NULL)
    print(f"inverted {FRAMES} frames on {context.device.id}")


try:
    run()
except GLib.Error as error:
    sys.exit(f"video: {error.message}")

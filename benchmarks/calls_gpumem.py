# SPDX-License-Identifier: LGPL-2.1-or-later
"""The calls that calls-python.py measures, in gpumem. Each function below the first adds the calls
of one part of the library."""

import numpy
import gi

gi.require_version("Gpu", "1.0")
from gi.repository import GObject, Gpu  # noqa: E402

N = 1024                                        # numbers of four bytes
SIZE = 4 * N

SOURCE = """
__kernel void
scale (__global float *numbers, float factor)
{
  numbers[get_global_id (0)] *= factor;
}
"""

numbers = numpy.zeros(N, numpy.float32)
pixels = numbers.reshape(32, 32)
zero, two = numpy.float32(0), numpy.float32(2)


def get_calls(name):
    """Returns a function that waits for pending operations, and the measured calls by name."""
    context = Gpu.Context(name)
    stream = context.default_stream
    calls = add_frequent(context, stream)
    for add in (add_memory, add_regions, add_events, add_svm, add_images, add_arrays):
        calls.update(add(context, stream))
    return stream.synchronize, calls


def add_frequent(context, stream):
    kernel = Gpu.Program(context, SOURCE).scale
    pool = Gpu.MemoryPool(context)
    a, b = Gpu.Buffer(context, SIZE), Gpu.Buffer(context, SIZE)
    stream.fill(a, zero)
    prepared = kernel.prepare(N, None, (a, 2.0))
    return {
        "take and drop a buffer of a pool": lambda: pool.alloc_buffer(SIZE),
        "copy 4 KiB between buffers": lambda: stream.copy(b, a),
        "fill 4 KiB": lambda: stream.fill(a, zero),
        "write 4 KiB, later": lambda: stream.write(a, numbers),
        "write 4 KiB, and wait": lambda: a.write(numbers),
        "read 4 KiB into an array": lambda: a.read_into(numbers),
        "launch a kernel with arguments": lambda: kernel(stream, N, None, a, two),
        "launch it as it was prepared": lambda: stream.launch_prepared(prepared),
        "wait for a stream that is idle": stream.synchronize,
        "size of a buffer": lambda: a.size}


def add_memory(context, stream):
    buffer = Gpu.Buffer(context, SIZE)

    def map_array():
        with buffer.map(Gpu.MapFlags.READ) as mapping:
            mapping.to_numpy("float32")

    return {
        "make an empty GObject, for comparison": lambda: GObject.Object(),
        "make a buffer": lambda: Gpu.Buffer(context, SIZE),
        "make and release a buffer": lambda: Gpu.Buffer(context, SIZE).release(),
        "make a buffer of an array": lambda: Gpu.Buffer(context, numbers),
        "make a part of a buffer": lambda: buffer[0:512],
        "map a buffer as an array, and unmap": map_array}


def add_regions(context, stream):
    a, b = Gpu.Buffer(context, SIZE), Gpu.Buffer(context, SIZE)
    wide, narrow, extent = (16, 2, 0, 128), (0, 0, 0, 64), (16, 4)
    return {
        "copy a rectangle": lambda: stream.copy_region(a, b, extent, wide, narrow),
        "write a rectangle, later":
            lambda: stream.write_region(a, numbers, extent, wide, narrow)}


def add_events(context, stream):
    past = stream.record()
    stream.synchronize()

    calls = {
        "record an event": stream.record,
        "record an event, and wait": lambda: stream.record().wait(),
        "wait for an event that is complete": past.wait,
        "let a stream wait for an event": lambda: stream.wait_event(past),
        "make a stream": lambda: Gpu.Stream(context)}
    if context.device.capabilities & Gpu.Capabilities.USER_EVENTS:
        calls["make and complete an event of the program"] = (
            lambda: Gpu.Event.new_user(context).complete())
    return calls


def add_svm(context, stream):
    if not context.device.capabilities & Gpu.Capabilities.SVM_COARSE:
        return {}
    a, b = Gpu.Svm(context, SIZE), Gpu.Svm(context, SIZE)
    pool = Gpu.MemoryPool.new_for_allocator(Gpu.SvmAllocator(context))

    def map_array():
        with a.map(Gpu.MapFlags.READ) as mapping:
            mapping.to_numpy("float32")

    return {
        "make shared memory": lambda: Gpu.Svm(context, SIZE),
        "take and drop shared memory of a pool": lambda: pool.alloc_svm(SIZE),
        "copy shared memory": lambda: stream.copy(a, b),
        "fill shared memory": lambda: stream.fill(a, two),
        "map shared memory as an array, and unmap": map_array}


def add_images(context, stream):
    a, b = Gpu.Image.from_array(context, pixels), Gpu.Image.from_array(context, pixels)
    black = Gpu.Color.new(0, 0, 0, 0)
    return {
        "make a sampler":
            lambda: Gpu.Sampler(context, True, Gpu.AddressMode.REPEAT, Gpu.FilterMode.LINEAR),
        "make an image": lambda: Gpu.Image(context, "r-float32", (32, 32)),
        "make an image of an array": lambda: Gpu.Image.from_array(context, pixels),
        "write an image, and wait": lambda: a.write(pixels),
        "read an image into an array": lambda: a.read_into(pixels),
        "copy an image": lambda: stream.copy_region(b, a, (32, 32)),
        "fill an image": lambda: stream.fill_image(a, black)}


def add_arrays(context, stream):
    array = Gpu.Array.from_numpy(context, numbers)
    other = Gpu.Array.from_numpy(context, numbers)
    pool = Gpu.MemoryPool(context)
    return {
        "make an array of one of NumPy": lambda: Gpu.Array.from_numpy(context, numbers),
        "make an array of zeros from a pool": lambda: Gpu.Array.zeros(pool, N, "float32"),
        "make an empty array from a pool": lambda: Gpu.Array.empty(pool, N, "float32"),
        "copy an array to NumPy": array.to_numpy,
        "copy an array into one of NumPy": lambda: array.read_into(numbers),
        "copy an array from one of NumPy": lambda: array.write(numbers),
        "make a slice of an array": lambda: array[10:20],
        "make a copy of an array": lambda: array.copy(stream=stream),
        "fill an array": lambda: array.fill(two, stream=stream),
        "copy between arrays": lambda: stream.copy_array(other, array)}

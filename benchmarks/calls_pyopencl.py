# SPDX-License-Identifier: LGPL-2.1-or-later
"""The calls of calls_gpumem.py in PyOpenCL, each in its fastest documented way."""

import sys
import warnings

import numpy
import pyopencl as cl
import pyopencl.array as cl_array
from pyopencl.tools import ImmediateAllocator, MemoryPool, SVMAllocator, SVMPool

N = 1024                                        # numbers of four bytes
SIZE = 4 * N

SOURCE = """
__kernel void
scale (__global float *numbers, float factor)
{
  numbers[get_global_id (0)] *= factor;
}
"""

READ_WRITE = cl.mem_flags.READ_WRITE

numbers = numpy.zeros(N, numpy.float32)
pixels = numbers.reshape(32, 32)
zero, two = numpy.float32(0), numpy.float32(2)


def get_calls(name):
    """Returns a function that waits for pending operations, and the measured calls by name."""
    devices = [device for platform in cl.get_platforms() for device in platform.get_devices()
               if device.name == name]
    if not devices:
        sys.exit(f"no device {name}")
    warnings.simplefilter("ignore")
    context = cl.Context(devices[:1])
    queue = cl.CommandQueue(context)
    calls = add_frequent(context, queue)
    for add in (add_memory, add_regions, add_events, add_svm, add_images, add_arrays):
        calls.update(add(context, queue))
    return queue.finish, calls


def make_buffer(context):
    return cl.Buffer(context, READ_WRITE, SIZE)


def add_frequent(context, queue):
    kernel, prepared = (cl.Program(context, SOURCE).build().scale for i in range(2))
    kernel.set_scalar_arg_dtypes([None, numpy.float32])
    pool = MemoryPool(ImmediateAllocator(queue))
    a, b = make_buffer(context), make_buffer(context)
    prepared.set_args(a, two)
    cl.enqueue_fill_buffer(queue, a, zero, 0, SIZE)
    return {
        "take and drop a buffer of a pool": lambda: pool.allocate(SIZE),
        "copy 4 KiB between buffers": lambda: cl.enqueue_copy(queue, b, a),
        "fill 4 KiB": lambda: cl.enqueue_fill_buffer(queue, a, zero, 0, SIZE),
        "write 4 KiB, later": lambda: cl.enqueue_copy(queue, a, numbers, is_blocking=False),
        "write 4 KiB, and wait": lambda: cl.enqueue_copy(queue, a, numbers),
        "read 4 KiB into an array": lambda: cl.enqueue_copy(queue, numbers, a),
        "launch a kernel with arguments": lambda: kernel(queue, (N,), None, a, two),
        "launch it as it was prepared":
            lambda: cl.enqueue_nd_range_kernel(queue, prepared, (N,), None),
        "wait for a stream that is idle": queue.finish,
        "size of a buffer": lambda: a.size}


def add_memory(context, queue):
    buffer = make_buffer(context)
    copied = READ_WRITE | cl.mem_flags.COPY_HOST_PTR

    def map_array():
        array, event = cl.enqueue_map_buffer(queue, buffer, cl.map_flags.READ, 0, (N,),
                                             numpy.float32)
        with array.base:
            pass

    return {
        "make a buffer": lambda: make_buffer(context),
        "make and release a buffer": lambda: make_buffer(context).release(),
        "make a buffer of an array": lambda: cl.Buffer(context, copied, hostbuf=numbers),
        "make a part of a buffer": lambda: buffer[0:512],
        "map a buffer as an array, and unmap": map_array}


def add_regions(context, queue):
    a, b = make_buffer(context), make_buffer(context)
    return {
        "copy a rectangle": lambda: cl.enqueue_copy(
            queue, a, b, src_origin=(0, 0), dst_origin=(16, 2), region=(16, 4),
            src_pitches=(64,), dst_pitches=(128,)),
        "write a rectangle, later": lambda: cl.enqueue_copy(
            queue, a, numbers, buffer_origin=(16, 2), host_origin=(0, 0), region=(16, 4),
            buffer_pitches=(128,), host_pitches=(64,), is_blocking=False)}


def add_events(context, queue):
    past = cl.enqueue_marker(queue)
    queue.finish()

    def complete():
        cl.UserEvent(context).set_status(cl.command_execution_status.COMPLETE)

    return {
        "record an event": lambda: cl.enqueue_marker(queue),
        "record an event, and wait": lambda: cl.enqueue_marker(queue).wait(),
        "wait for an event that is complete": past.wait,
        "let a stream wait for an event": lambda: cl.enqueue_barrier(queue, [past]),
        "make and complete an event of the program": complete,
        "make a stream": lambda: cl.CommandQueue(context)}


def add_svm(context, queue):
    def make():
        return cl.SVMAllocation(context, SIZE, 0, cl.svm_mem_flags.READ_WRITE)

    a, b = make(), make()
    pool = SVMPool(SVMAllocator(context, queue=queue))

    def map_array():
        with a.map_ro(queue) as mapped:
            mapped.view(numpy.float32)

    return {
        "make shared memory": make,
        "take and drop shared memory of a pool": lambda: pool(SIZE),
        "copy shared memory": lambda: cl.enqueue_copy(queue, a, b),
        "fill shared memory": lambda: cl.enqueue_svm_memfill(queue, a, two),
        "map shared memory as an array, and unmap": map_array}


def add_images(context, queue):
    a, b = (cl.image_from_array(context, pixels) for i in range(2))
    form = cl.ImageFormat(cl.channel_order.R, cl.channel_type.FLOAT)
    whole = {"origin": (0, 0), "region": (32, 32)}
    black = numpy.zeros(4, numpy.float32)
    return {
        "make a sampler": lambda: cl.Sampler(context, True, cl.addressing_mode.REPEAT,
                                             cl.filter_mode.LINEAR),
        "make an image": lambda: cl.Image(context, READ_WRITE, form, (32, 32)),
        "make an image of an array": lambda: cl.image_from_array(context, pixels),
        "write an image, and wait": lambda: cl.enqueue_copy(queue, a, pixels, **whole),
        "read an image into an array": lambda: cl.enqueue_copy(queue, pixels, a, **whole),
        "copy an image": lambda: cl.enqueue_copy(queue, b, a, src_origin=(0, 0),
                                                 dest_origin=(0, 0), region=(32, 32)),
        "fill an image":
            lambda: cl.enqueue_fill_image(queue, a, black, (0, 0, 0), (32, 32, 1))}


def add_arrays(context, queue):
    array, other = (cl_array.to_device(queue, numbers) for i in range(2))
    pool = MemoryPool(ImmediateAllocator(queue))
    return {
        "make an array of one of NumPy": lambda: cl_array.to_device(queue, numbers),
        "make an array of zeros from a pool":
            lambda: cl_array.zeros(queue, N, numpy.float32, allocator=pool),
        "make an empty array from a pool":
            lambda: cl_array.empty(queue, N, numpy.float32, allocator=pool),
        "copy an array to NumPy": array.get,
        "copy an array into one of NumPy": lambda: array.get(queue, numbers),
        "copy an array from one of NumPy": lambda: array.set(numbers),
        "make a slice of an array": lambda: array[10:20],
        "make a copy of an array": lambda: array.copy(),
        "fill an array": lambda: array.fill(two),
        "copy between arrays": lambda: cl.enqueue_copy(queue, other.data, array.data)}

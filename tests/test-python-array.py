# SPDX-License-Identifier: LGPL-2.1-or-later
"""Arrays on the device from Python, compared with arrays of NumPy."""

import array as arrays
import asyncio
import contextlib
import gc
import importlib
import random
import sys
import threading
import time
import types
import weakref

from python_util import (DEADLINE, Skip, choose_devices, equal, main, need_numpy, np, raises,
                         spin)
from gi.repository import GLib, Gpu

ADD = """
__kernel void
add (__global uint *numbers, uint summand)
{
  numbers[get_global_id (0)] += summand;
}
"""

COPY = """
__kernel void
copy (__global uint *to, __global const uint *from)
{
  to[get_global_id (0)] = from[get_global_id (0)];
}
"""


def same(got, expected):
    equal(got.shape, expected.shape)
    equal(got.dtype, expected.dtype)
    assert np.array_equal(got, expected), f"{got} and not {expected}"


def sample(shape, dtype="float32", order="C"):
    rng = np.random.default_rng(7)
    data = rng.integers(0, 100, shape)
    return np.asarray(data, dtype, order=order)


def test_dtypes(fixture):
    need_numpy()
    for name in ("bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64",
                 "complex64", "complex128", "V12"):
        dtype = np.dtype(name)
        equal(Gpu.DType(dtype).numpy(), dtype)
        equal(Gpu.DType(dtype).itemsize, dtype.itemsize)
    record = np.dtype([("id", "u1"), ("at", "f4", (2, 3)), ("in", [("x", "i2"), ("y", "i8")])],
                      align=True)
    equal(Gpu.DType(record).numpy(), record)
    equal(Gpu.DType(float), Gpu.DType.FLOAT64)
    equal(Gpu.DType("bfloat16"), Gpu.DType.BFLOAT16)
    equal(Gpu.DType.BFLOAT16.itemsize, 2)
    assert Gpu.DType.INT32 != Gpu.DType.UINT32
    equal(hash(Gpu.DType("f4")), hash(Gpu.DType.FLOAT32))
    assert "float32" in repr(Gpu.DType.FLOAT32)
    with raises(TypeError, "objects"):
        Gpu.DType(object)


def test_round_trip(fixture):
    need_numpy()
    for dtype in ("bool", "int8", "float16", "float32", "complex128", "V12"):
        for order in ("C", "F"):
            host = sample((3, 4, 5), "uint8" if dtype == "V12" else dtype, order)
            if dtype == "V12":
                host = np.arange(720, dtype="uint8").view("V12").reshape(3, 4, 5, order=order)
            array = Gpu.Array.from_numpy(fixture.context, host)
            equal(array.shape, (3, 4, 5))
            equal(array.strides, host.strides)
            equal(array.nbytes, host.nbytes)
            same(array.to_numpy(), host)
            same(array[1:, ::-2, 2].to_numpy(), host[1:, ::-2, 2])


def test_bytes(fixture):
    """bytes() returns the elements in C order, and for a buffer its contents."""
    need_numpy()
    numbers = np.arange(24, dtype="int32").reshape(2, 3, 4)
    array = Gpu.Array.from_numpy(fixture.context, numbers)
    for index in (..., (slice(None), 1, slice(None, None, -2)), (1, 2, 3)):
        equal(bytes(array[index]), numbers[index].tobytes())
    equal(bytes(array.T), numbers.T.tobytes())
    equal(bytes(Gpu.Array.empty(fixture.context, (0, 3), "f4")), b"")
    equal(bytes(fixture.buffer(b"abc")), b"abc")


def test_array_for_shape(fixture):
    """An array in the place of numbers is described without its elements, with the function that
    the program needs."""
    need_numpy()
    data = np.ones((2, 3), "f4")
    for call in (Gpu.Array, Gpu.Array.zeros):
        with raises(TypeError, "type float32 and shape (2, 3)", "Gpu.Array.from_numpy()"):
            call(fixture.context, data)
        with raises(TypeError, "array(3.)"):
            call(fixture.context, np.array(3.0))
        equal(call(fixture.context, np.array(3)).shape, (3,))
    array = Gpu.Array.from_numpy(fixture.context, data)
    with raises(TypeError, "block must be 1 to 3 whole numbers, not Gpu.Array"):
        fixture.stream.launch(fixture.program().scale, 4, array, 2)


def test_properties(fixture):
    need_numpy()
    array = Gpu.Array.zeros(fixture.context, (3, 4), "int16")
    equal((array.ndim, array.size, array.itemsize, array.nbytes), (2, 12, 2, 24))
    equal(array.dtype, np.dtype("int16"))
    assert array.flags.c_contiguous and not array.flags.f_contiguous
    assert array.T.flags.f_contiguous
    equal(len(array), 3)
    equal([row.shape for row in array], [(4,)] * 3)
    assert "(3, 4)" in repr(array) and "int16" in repr(array)
    assert not array.to_numpy().any()
    equal(Gpu.Array.full(fixture.context, 3, 2.5).to_numpy().tolist(), [2.5] * 3)
    with raises(ValueError, "'K'"):
        Gpu.Array.empty(fixture.context, 3, order="K")
    with raises(TypeError, "length"):
        len(Gpu.Array.zeros(fixture.context, ()))


def random_key(generator, shape):
    keys = []
    for length in shape:
        kind = generator.randrange(5)
        if kind == 0 and length > 0:
            keys.append(generator.randrange(-length, length))
        elif kind == 1:
            keys.append(slice(None))
        else:
            bounds = [None, *range(-length - 2, length + 3)]
            step = generator.choice([None, 1, 2, 3, -1, -2])
            keys.append(slice(generator.choice(bounds), generator.choice(bounds), step))
        if generator.randrange(6) == 0:
            keys.append(None)
    if generator.randrange(3) == 0:
        keys[generator.randrange(len(keys))] = Ellipsis
    return tuple(keys)


def test_indices(fixture):
    need_numpy()
    generator = random.Random(5)
    host = sample((4, 5, 6), "int32")
    array = Gpu.Array.from_numpy(fixture.context, host)
    for _ in range(150):
        key = random_key(generator, host.shape)
        expected = host[key]
        view = array[key]
        equal(view.shape, expected.shape)
        same(view.to_numpy(), expected)
        if expected.size > 0:
            changed = np.asarray(expected + 1000, "int32")
            view.write(changed)
            host[key] = changed
            same(array.to_numpy(), host)
    for key in (4, -5, (0, 0, 0, 0), (..., ...)):
        with raises(IndexError):
            array[key]
    with raises(TypeError, "1.5"):
        array[1.5]


def test_views(fixture):
    need_numpy()
    host = sample((4, 6), "uint32")
    array = Gpu.Array.from_numpy(fixture.context, host)
    same(array.reshape(2, -1).to_numpy(), host.reshape(2, -1))
    same(array.T.to_numpy(), host.T)
    same(array.ravel().to_numpy(), host.ravel())
    same(array.T.ravel(order="F").to_numpy(), host.T.ravel(order="F"))
    same(array.transpose(1, 0).to_numpy(), host.transpose(1, 0))
    same(array.broadcast_to((2, 4, 6)).to_numpy(), np.broadcast_to(host, (2, 4, 6)))
    same(array.view("uint8").to_numpy(), host.view("uint8"))
    equal([part.shape for part in array.split(4, axis=1)], [(4, 4), (4, 2)])
    array[1:3, ::2] = 7
    host[1:3, ::2] = 7
    same(array.to_numpy(), host)
    array[0] = array[1]
    host[0] = host[1]
    same(array.to_numpy(), host)
    same(array.T.ravel().to_numpy(), host.T.ravel())
    view = array[2]
    del array
    gc.collect()
    same(view.to_numpy(), host[2])


def test_assign_converts(fixture):
    """An assignment converts the elements of another array to the dtype, as in NumPy."""
    need_numpy()
    other = Gpu.Context(Gpu.Device("host"))
    for to, of in (("float32", "int32"), ("int64", "uint8"), ("complex64", "float32"),
                   ("float16", "float64"), ("bool", "int16")):
        host, data = np.zeros((4, 6), to), np.arange(-3, 3).astype(of)
        array = Gpu.Array.from_numpy(fixture.context, host)
        for context in fixture.context, other:
            source = Gpu.Array.from_numpy(context, data)
            array[1::2, ::-1], host[1::2, ::-1] = source, data
            array[2, 3], host[2, 3] = source[4], data[4]
            same(array.to_numpy(), host)
        stream = Gpu.Stream(fixture.context)
        for context in fixture.context, other:
            values = Gpu.Array.from_numpy(context, data)
            array.fill(0)
            host.fill(0)
            array[[3, 0]], host[[3, 0]] = values, data
            array[:, 2:].put(np.array([1]), values[:4], stream)
            host[1, 2:] = data[:4]
            stream.synchronize()
            same(array.to_numpy(), host)
    array = Gpu.Array.from_numpy(fixture.context, np.arange(6, dtype="float32"))
    array[...] = array.view("int32")[::-1]      # of the same memory
    same(array.to_numpy(), np.arange(6, dtype="float32").view("int32")[::-1].astype("float32"))
    record = Gpu.Array.from_numpy(fixture.context, np.zeros(6, [("a", "int8"), ("b", "int16")]))
    with raises(TypeError):
        array[...] = record


def test_assign_bfloat(fixture):
    """Assignments and rows of bfloat16 need no other package."""
    need_numpy()
    array = Gpu.Array.zeros(fixture.context, (4, 2), "bfloat16")
    array[0] = Gpu.Array.from_numpy(fixture.context, np.array([1.5, -2], "float32"))
    array.put([3, 1], Gpu.Array.from_numpy(fixture.context, np.array([3, 4], "int32")))
    array.put([2], b"\xc0\x3f")
    expected = [[1.5, -2], [3, 4], [1.5, 1.5], [3, 4]]
    equal(array.astype("float32").tolist(), expected)
    equal(array[[3, 0]].astype("float32").tolist(), [expected[3], expected[0]])


def test_as_memory(fixture):
    """Streams accept contiguous arrays of any element type as bytes."""
    need_numpy()
    context, stream = fixture.context, fixture.stream
    host = sample((8, 128))
    array = Gpu.Array.from_numpy(context, host)
    other = Gpu.Array.zeros(context, (8, 128), "float32")
    buffer = fixture.buffer(host.nbytes)
    stream.copy(buffer, array)
    same(buffer.to_numpy("float32", (8, 128)), host)
    stream.copy(other[2:4], array[5:7])
    stream.copy(other, array, 4, destination_offset=8, source_offset=12)
    stream.fill(other[7], np.float32(9))
    stream.write(other[6], np.arange(128, dtype="float32"))
    stream.write(other[6], np.float32(-1), offset=4)
    expected = np.zeros_like(host)
    expected[2:4], expected[0, 2], expected[7] = host[5:7], host[0, 3], 9
    expected[6], expected[6, 1] = np.arange(128), -1
    same(other.to_numpy(), expected)
    target = np.zeros(128, "float32")
    equal(stream.read_into(other[6], target), 512)
    data = stream.read(other[6], 4, 8)
    stream.migrate([array, other[4:]])
    stream.synchronize()
    same(target, expected[6])
    equal(np.frombuffer(data.get_data(), "float32").tolist(), [-1, 2])
    equal(Gpu.memory_of(array), array.memory)
    part = Gpu.memory_of(other[4:])
    equal((part.size, part.read()), (2048, expected[4:].tobytes()))
    arguments = Gpu.parse_arguments("float *x", with_offset=True)
    memory, offset = Gpu.bind_arguments(arguments, (other[3],))
    equal((memory, offset), (other.memory, 3 * 512))
    for call in (lambda: stream.copy(buffer, array[:, 1]), lambda: stream.fill(array[::2], 0),
                 lambda: stream.write(array[:, ::-1], b"1"), lambda: Gpu.memory_of(array[:, 3:])):
        with raises(ValueError, "not contiguous"):
            call()
    equal(stream.fill(Gpu.Array.empty(context, (0, 3)), 0), True)
    with raises(ValueError, "has no bytes"):
        Gpu.memory_of(Gpu.Array.empty(context, (0, 3)))
    with raises(ValueError, "past the 512 bytes"):
        stream.write(other[7], bytes(513))
    with raises(TypeError, "'bytes'"):
        stream.copy(buffer, b"123")


def test_strided_transfers(fixture):
    """Copies from and to NumPy arrays that are not contiguous."""
    need_numpy()
    host = sample((6, 7, 8), "float64")
    array = Gpu.Array.from_numpy(fixture.context, host[::2, ::-1, 1:5])
    same(array.to_numpy(), host[::2, ::-1, 1:5])
    target = np.zeros((5, 8, 9))
    array.read_into(target[1:4, 7:0:-1, ::2][:, :, :4])
    expected = np.zeros((5, 8, 9))
    expected[1:4, 7:0:-1, ::2][:, :, :4] = host[::2, ::-1, 1:5]
    same(target, expected)
    with raises(ValueError, "(2, 2)"):
        array.read_into(np.zeros((2, 2)))
    with raises(TypeError, "float32"):
        array.write(np.zeros(array.shape, "float32"))


def wait_gone(make):
    """Waits until the NumPy array that make() returns is freed."""
    host = weakref.ref(make())
    deadline = time.monotonic() + DEADLINE
    while host() is not None:
        assert time.monotonic() < deadline, f"still alive: an array of shape {host().shape}"
        gc.collect()
        time.sleep(0.001)


def test_held(fixture):
    """Completed copies release the host memory."""
    need_numpy()
    context = fixture.context
    array = Gpu.Array.zeros(context, (3, 4), "int32")

    def assign():
        host = sample((3, 4), "int32")
        array[...] = host
        return host

    def write():
        host = sample((3, 4), "int32")
        array.write(host)
        return host

    def from_numpy():
        host = sample((3, 4), "int32")
        same(Gpu.Array.from_numpy(context, host).to_numpy(), host)
        return host

    def read_on_stream():
        host = array.copy_to_host(stream=fixture.stream)
        context.synchronize()
        return host

    for make in (assign, write, from_numpy, array.to_numpy, read_on_stream,
                 lambda: array.read_into(np.zeros((3, 4), "int32")),
                 lambda: array.T.read_into(np.zeros((4, 3), "int32")),
                 lambda: asyncio.run(array.to_numpy_async())):
        wait_gone(make)


def test_streams(fixture):
    need_numpy()
    stream = Gpu.Stream(fixture.context)
    host = sample((50, 60), "uint32")
    expected = host.copy()
    array = Gpu.Array.from_numpy(fixture.context, host, stream)
    host[:] = 0
    kernel = Gpu.Program(fixture.context, ADD).add
    stream.launch(kernel, array.size, args=(array, np.uint32(5)))
    got = array.T.copy_to_host(stream=stream)
    target = np.zeros((50, 60), "uint32")
    assert array.copy_to_host(target, stream) is target
    copied = array.copy(stream=stream)
    turned = array.T.copy(stream=stream, order="C")
    stream.synchronize()
    assert turned.flags.c_contiguous
    same(turned.to_numpy(), expected.T + np.uint32(5))
    same(got, expected.T + np.uint32(5))
    same(target, expected + np.uint32(5))
    stream.launch(kernel, 60 * 18, args=(array[32:], 2))
    expected[32:] += np.uint32(2)
    stream.synchronize()
    same(array.to_numpy(), expected + np.uint32(5))
    expected[32:] -= np.uint32(2)
    same(copied.to_numpy(), expected + np.uint32(5))


def test_to_numpy_waits(fixture):
    """to_numpy() waits for the copy on any thread, even with a stream as an argument.
    copy_to_host() does not wait."""
    need_numpy()
    stream = fixture.new_stream()
    host = sample((30, 40))
    array = Gpu.Array.from_numpy(fixture.context, host)
    gate = fixture.gate(stream)
    timer = threading.Timer(0.1, gate.complete)
    late = array.copy_to_host(stream=stream)
    assert stream.n_completed < stream.n_submitted
    timer.start()
    same(array.to_numpy(stream), host)
    timer.join()
    stream.synchronize()
    same(late, host)
    for view, expected in ((array, host), (array[::2, ::-3], host[::2, ::-3])):
        gate = fixture.gate(stream)
        outcome, before = [], stream.n_submitted
        thread = threading.Thread(target=lambda: outcome.append(view.to_numpy(stream)))
        thread.start()
        spin(lambda: stream.n_submitted > before)
        gate.complete()
        thread.join()
        same(outcome[0], expected)


def test_strides(fixture):
    """New arrays with strides have the same memory layout as NumPy arrays with these strides."""
    need_numpy()
    context, pool = fixture.context, Gpu.MemoryPool(fixture.context)
    for shape, strides in (((4, 4), (4, 16)), ((3, 5), (32, 4)), ((2, 3), (-12, 4)),
                           ((5,), (-8,)), ((), ()), ((0, 3), (12, 4)), ((3, 2), (0, 4))):
        for source in (context, pool):
            array = Gpu.Array.empty(source, shape, "int32", strides=strides)
            equal((array.shape, array.strides), (shape, strides))
            if 0 in strides:
                continue                        # several elements at one address
            host = sample(shape, "int32")
            array.write(host)
            same(array.to_numpy(), host)
    array = Gpu.Array(context, (2, 3), "int32", strides=(-12, 4))
    array.write(np.arange(6, dtype="int32").reshape(2, 3))
    equal(array.memory.to_numpy("int32")[:6].tolist(), [3, 4, 5, 0, 1, 2])
    for strides in (4,), (), (12, 4, 4):
        with raises(Gpu.Error.INVALID_ARGUMENT, f"2 dimensions cannot have {len(strides)} strides"):
            Gpu.Array.empty(context, (2, 3), "int32", strides=strides)


def test_sources(fixture):
    """Arrays can be created from pools and other allocators instead of a context, or over existing
    memory."""
    need_numpy()
    host = sample((10, 10))
    pool = Gpu.MemoryPool(fixture.context)
    array = Gpu.Array.from_numpy(pool, host)
    equal(array.context, fixture.context)
    same(array.to_numpy(), host)
    same(Gpu.Array.zeros_like(array, allocator=pool).to_numpy(), np.zeros_like(host))
    pinned = Gpu.Array.from_numpy(Gpu.HostAllocator(fixture.context), host)
    assert isinstance(pinned.memory, Gpu.HostMemory)
    same(pinned.to_numpy(), host)
    memory = fixture.buffer(400)
    view = Gpu.Array.for_memory(memory, (5, 2), "int32", offset=8, strides=(16, 4))
    view.fill(3)
    numbers = memory.to_numpy("int32")
    equal(numbers[2:8].tolist()[:2], [3, 3])
    same(view.to_numpy(), np.full((5, 2), 3, "int32"))
    numbers = Gpu.Array.from_numpy(fixture.context, arrays.array("h", [1, 2, 3]))
    equal(numbers.dtype, np.dtype("int16"))
    equal(numbers.to_numpy().tolist(), [1, 2, 3])


def test_zero_copy(fixture):
    """numpy.asarray() shares memory that the host can access, and copies other memory."""
    need_numpy()
    host = sample((64, 1024))
    array = Gpu.Array.from_numpy(Gpu.HostAllocator(fixture.context), host)
    shared = np.asarray(array)
    equal(shared.ctypes.data, array.get_host_address())
    same(shared, host)
    same(np.asarray(array[::-1, 3:7]), host[::-1, 3:7])
    shared[5] = 1
    same(np.asarray(array)[5], shared[5])
    view = np.asarray(array[2])
    array.memory.release()
    del array
    gc.collect()
    same(view, host[2])
    plain = Gpu.Array.from_numpy(fixture.context, host)
    if plain.get_host_address() == 0:
        with raises(AttributeError):
            plain.__array_interface__
    same(np.asarray(plain), host)


def test_array_protocol(fixture):
    """array.__array__() copies the memory in the same cases as numpy.asarray()."""
    need_numpy()
    host = sample((8, 16))
    for array in (Gpu.Array.from_numpy(fixture.context, host),
                  Gpu.Array.from_numpy(Gpu.HostAllocator(fixture.context), host)):
        address = array.get_host_address()
        same(array.__array__(), host)
        copied = array.__array__(copy=True)
        same(copied, host)
        assert copied.ctypes.data != address
        same(array.__array__("float64"), host.astype("float64"))
        if address == 0:
            with raises(ValueError, "copy"):
                array.__array__(copy=False)
            continue
        for shared in (array.__array__(), array.__array__(copy=False),
                       array.__array__(host.dtype, copy=False), np.asarray(array)):
            equal(shared.ctypes.data, address)
            same(shared, host)
        shared[3] = 7
        same(array.to_numpy(), shared)
        with raises(ValueError, "copy"):
            array.__array__("complex128", copy=False)
        del shared
    empty = Gpu.Array(fixture.context, (0, 3), "int32")
    equal(empty.__array__(copy=False).shape, (0, 3))


def test_records(fixture):
    need_numpy()
    host = np.zeros(5, [("id", "u1"), ("at", "f4", (2,))])
    host["id"] = range(5)
    host["at"] = np.arange(10).reshape(5, 2)
    array = Gpu.Array.from_numpy(fixture.context, host)
    same(array.to_numpy(), host)
    same(array["at"].to_numpy(), host["at"])
    same(array[3].to_numpy(), np.asarray(host[3]))
    array["id"] = 9
    host["id"] = 9
    same(array.to_numpy(), host)


def test_record_layouts(fixture):
    """Records with gaps, with overlapping fields, and without fields."""
    need_numpy()
    aligned = np.dtype([("id", "u1"), ("x", "f4")], align=True)
    shared = np.dtype({"names": ["a", "b"], "formats": ["u4", "u2"], "offsets": [0, 0],
                       "itemsize": 4})
    for dtype in (aligned, shared):
        host = np.frombuffer(bytes(range(3 * dtype.itemsize)), dtype)
        array = Gpu.Array.from_numpy(fixture.context, host)
        equal(array.to_numpy().tolist(), host.tolist())
        equal(np.asarray(array).dtype, dtype)
        equal(np.asarray(array).tolist(), host.tolist())
    empty = Gpu.Array.zeros(fixture.context, 3, Gpu.DType.new_record(12))
    equal(empty.dtype.itemsize, 12)
    equal(empty.to_numpy().shape, (3,))
    equal(Gpu.DType(empty.dtype), empty.get_dtype())


def test_ravel_repeated(fixture):
    """Repeated elements become a copy in one dimension, in the order of NumPy."""
    need_numpy()
    data = sample((2, 1, 3), "int32")
    array = Gpu.Array.from_numpy(fixture.context, data)
    for shape, axes in (((2, 4, 3), (0, 1, 2)), ((2, 4, 3), (1, 0, 2)), ((2, 4, 3), (2, 1, 0)),
                        ((5, 2, 4, 3), (0, 1, 2, 3)), ((5, 2, 4, 3), (2, 3, 0, 1))):
        view = array.broadcast_to(shape).transpose(axes)
        expected = np.broadcast_to(data, shape).transpose(axes)
        for order in "CFAK":
            same(view.ravel(order).to_numpy(), expected.ravel(order))
            same(view.copy(order=order).to_numpy(), expected)
    flat = array[0, 0, 1].broadcast_to((4,)).ravel()
    equal((flat.strides, flat.is_writable()), ((4,), True))
    flat[2] = 1000
    same(array.to_numpy(), data)


def test_positional_order(fixture):
    """copy() takes the order as its only positional argument, as in NumPy."""
    need_numpy()
    data = sample((2, 3))
    array = Gpu.Array.from_numpy(fixture.context, data)
    for order in "CFAK":
        got, expected = array.T.copy(order), data.T.copy(order)
        same(got.to_numpy(), expected)
        equal(got.strides, expected.strides)
    with raises(ValueError, "order must be"):
        array.copy("X")


def test_repeated_arguments(fixture):
    """A kernel takes an array whose elements share memory only as a pointer to const, if the driver
    describes the arguments."""
    need_numpy()
    if not fixture.device.capabilities & Gpu.Capabilities.SOURCE:
        raise Skip(f"{fixture.device.id} compiles no source")
    array = Gpu.Array.from_numpy(fixture.context, np.arange(2, 6, dtype="uint32"))
    program = Gpu.Program(fixture.context, ADD + COPY)
    add, copy = program.add, program.copy
    result = Gpu.Array.zeros(fixture.context, 1, "uint32")
    view = array[:1].broadcast_to((3,))
    for repeated in view, view[1:]:
        fixture.stream.launch(copy, 1, None, (result, repeated))
        equal(result.tolist(), [2])
        with raises(ValueError, "argument 0", "cannot be written", "share memory", "const"):
            fixture.stream.launch(add, 1, None, (repeated, 5))
    equal(array.tolist(), [2, 3, 4, 5])
    fixture.stream.launch(add, 1, None, (array[:1], 5))
    equal(array.tolist(), [7, 3, 4, 5])


def test_no_arithmetic(fixture):
    """Arithmetic raises TypeError for operands of NumPy too, and comparisons remain."""
    need_numpy()
    data = np.arange(4, dtype="float32")
    array, ones = Gpu.Array.from_numpy(fixture.context, data), np.ones(4, "float32")
    for call in (lambda: array + ones, lambda: ones * array, lambda: array + np.float32(1),
                 lambda: np.float32(1) - array, lambda: array + 1, lambda: np.add(array, ones)):
        with raises(TypeError):
            call()
    with raises(TypeError):
        array += ones
    assert isinstance(array, Gpu.Array)
    with raises(TypeError):
        ones += array
    same(ones == array, ones == data)
    same(ones < array, ones < data)
    same(np.asarray(array), data)
    with raises(AttributeError, "'resize'", "new[:n] = array"):
        array.resize(8)


def list_foreign_dtypes():
    """Returns dtypes of other packages than NumPy, and unsigned integers of the same size."""
    found = []
    for name, types, view in (
            ("numpy.core._rational_tests", ["rational"], "uint64"),
            ("numpy._core._rational_tests", ["rational"], "uint64"),
            ("ml_dtypes", ["float8_e4m3fn", "float8_e5m2", "int4"], "uint8")):
        with contextlib.suppress(ImportError):
            module = importlib.import_module(name)
            found += [(np.dtype(getattr(module, one)), view) for one in types]
    return found


def test_refused_types(fixture):
    need_numpy()
    for dtype, word in (("S5", "V5"), ("U2", "V8"), ("M8[ns]", "V8"), ("m8[s]", "V8"),
                        (("f4", (2,)), "(2,)"), ([("name", "S4")], "V4")):
        with raises(TypeError, word):
            Gpu.Array.zeros(fixture.context, 3, dtype)
    for dtype, view in list_foreign_dtypes():
        data = np.zeros(3, dtype)
        for call in (lambda: Gpu.Array.zeros(fixture.context, 3, dtype),
                     lambda: Gpu.Array.from_numpy(fixture.context, data),
                     lambda: Gpu.Array.from_numpy(fixture.context,
                                                  np.zeros(3, [("a", "i1"), ("b", dtype)])),
                     lambda: Gpu.DType(np.dtype([("a", dtype, (2,))]))):
            with raises(TypeError, f"dtype {dtype}", f"view('{view}')"):
                call()
        array = Gpu.Array.from_numpy(fixture.context, data.view(view))
        equal(array.to_numpy().view(dtype).tolist(), data.tolist())
    array = Gpu.Array.zeros(fixture.context, 3, "int8")
    for key in (True, np.bool_(False)):
        with raises(TypeError, "array index must be"):
            array[key]


class Number:
    def __index__(self):
        return 7


def test_rows(fixture):
    """Rows by a list of their numbers, as in NumPy."""
    need_numpy()
    data = np.arange(60, dtype="float32").reshape(10, 6)
    array = Gpu.Array.from_numpy(fixture.context, data)
    for rows in ([3, 1, -1, 1], [0], [], range(9, -1, -1), np.array([2, 9], "uint8"), (4, 5),
                 np.array([2, -10]), np.arange(9, -1, -3), np.array([3, 0], "uint64"),
                 np.array([-1, 2], ">i4"), [np.int8(3), 4, Number()], np.array([], "int64"),
                 [i % 10 for i in range(5000)], np.arange(5000) % 10):
        same(np.asarray(array.take(rows)), data[[*map(int, rows)]])
    same(np.asarray(array[[4, 2]]), data[[4, 2]])
    same(np.asarray(array[:, ::2][[4, 2]]), data[:, ::2][[4, 2]])
    same(np.asarray(array[::-2][np.array([0, 3])]), data[::-2][[0, 3]])
    for rows, values in (([2, 5], data[[0, 9]] + 1), ([7, 7], data[[1, 3]] * 2), ([8], 5)):
        array[rows], data[rows] = values, values
        same(np.asarray(array), data)
    array[[1, 0]] = array[0:2]
    data[[1, 0]] = data[0:2].copy()
    same(np.asarray(array), data)
    array[:, ::2][[0, 3]] = data[[5, 6], ::2]
    data[[0, 3], ::2] = data[[5, 6], ::2]
    same(np.asarray(array), data)
    array[[-1, 4]] = array[2]                   # broadcast
    data[[-1, 4]] = data[2]
    same(np.asarray(array), data)
    for value in (b"1234", bytearray(b"4321")):  # the bytes of one element
        array[[0, 6]] = value
        data[[0, 6]] = np.frombuffer(value, "float32")
        same(np.asarray(array), data)
    with raises(ValueError):
        array[[0, 6]] = b"12345"
    for rows in ([10], [0, -11], np.array([3, 10]), np.array([1, 2 ** 64 - 1], "uint64"),
                 [5, 2 ** 63], [-2 ** 63 - 1], range(11), [2] * 100 + [10]):
        with raises(IndexError, f"row {rows[-1]} at position {len(rows) - 1}", "10 rows"):
            array[list(rows) if isinstance(rows, range) else rows]
        with raises(IndexError, f"row {rows[-1]} at position {len(rows) - 1}", "10 rows"):
            array.put(rows, 0)
    same(np.asarray(array), data)
    repeated = array[0:1].broadcast_to((3, 6))
    with raises(ValueError, "share memory"):
        repeated[[0]] = 7
    same(np.asarray(array), data)
    with raises(ValueError, "(3, 6)", "(2, 6)"):
        array[[0, 1]] = Gpu.Array.zeros(fixture.context, (3, 6), "float32")


def test_rows_stream(fixture):
    """With a stream, take() and put() do not wait, and keep the memory that they use."""
    need_numpy()
    data = np.arange(6000, dtype="int32").reshape(1000, 6)
    rows = np.random.default_rng(1).permutation(1000)
    stream = Gpu.Stream(fixture.context)
    for _ in range(10):
        array = Gpu.Array.from_numpy(fixture.context, data)
        taken = array.take(rows, stream)
        array.put(rows.tolist(), taken, stream)
        taken.put(rows, data, stream)
        stream.synchronize()
        same(np.asarray(array), data)
        same(np.asarray(taken)[rows], data)


def test_copy_batch(fixture):
    """Tuples of the arguments of copy()."""
    stream = Gpu.Stream(fixture.context)
    source = Gpu.Buffer(fixture.context, bytes(range(200)))
    target = Gpu.Buffer(fixture.context, 100)
    target.fill(0)
    stream.copy_batch([(target, source, 10, 0, 50), (target, source, 10, 20, 70)])
    stream.synchronize()
    assert bytes(target.read()) == (bytes(range(50, 60)) + bytes(10) + bytes(range(70, 80))
                                    + bytes(70))
    with raises(Gpu.InvalidArgumentError, "copy 1"):
        stream.copy_batch([(target, source, 1), (target, source, 10, 95)])


def test_copy_batch_arguments(fixture):
    """Errors name the copy, the argument and the types that it may have."""
    stream = Gpu.Stream(fixture.context)
    one, other = Gpu.Buffer(fixture.context, 100), Gpu.Buffer(fixture.context, 100)
    array = Gpu.Array.zeros(fixture.context, (4, 3), "float32")
    one.fill(7)
    good = (one, other, 1)
    for copies, kind, words in (
            (5, TypeError, ("copies", "list of tuples", "5")),
            (one, TypeError, ("copies", "list of tuples", "Buffer")),
            ([one], TypeError, ("copies[0]", "tuple", "Buffer")),
            ((one, other), TypeError, ("copies[0]", "tuple", "Buffer")),
            ([good, "ab"], TypeError, ("copies[1]", "tuple", "'ab'")),
            ([good, (one,)], TypeError, ("copies[1]", "size, destination_offset")),
            ([good, (*good, 1, 2, 3)], TypeError, ("copies[1]", "size, destination_offset")),
            ([good, (one, 5)], TypeError, ("copies[1]", "source must be Gpu.Memory", "int")),
            ([good, (None, one)], TypeError, ("copies[1]", "destination must be Gpu.Memory")),
            ([good, (one, other, "x")], TypeError, ("copies[1]", "size must be", "'x'")),
            ([good, (one, other, True)], TypeError, ("copies[1]", "size must be", "True")),
            ([good, (one, other, 1, None)], TypeError, ("copies[1]", "offsets", "None")),
            ([good, (one, other, 1, 0, 1.5)], TypeError, ("copies[1]", "source_offset", "1.5")),
            ([good, (one, other, 1, -1)], OverflowError, ("copies[1]", "destination_offset", "-1")),
            ([good, (array, other, -1)], OverflowError, ("copies[1]", "size", "-1")),
            (iter([good, (one, other, 2 ** 64)]), OverflowError, ("copies[1]", "size", "184467")),
            ([good, (one, array[:, 1])], ValueError, ("copies[1]", "not contiguous"))):
        with raises(kind, *words):
            stream.copy_batch(copies)
    stream.synchronize()
    assert bytes(one.read()) == bytes([7] * 100)


def test_row_arguments(fixture):
    """Errors of indices say that lists of rows are possible; those of rows name the position."""
    need_numpy()
    array = Gpu.Array.zeros(fixture.context, (4, 3), "float32")
    for key in (1.5, "x", b"x", {1}, ([1], 2), np.array([True, False]), np.array([[1, 2]]),
                np.array([1.5])):
        with raises(TypeError, "an array index must be", "list of whole numbers"):
            array[key]
        with raises(TypeError, "an array index must be", "list of whole numbers"):
            array[key] = 1
    for rows, words in (([True], ("rows[0]", "True")), ([1, 1.5], ("rows[1]", "1.5")),
                        ([1, "x"], ("rows[1]", "'x'")), ([[1, 2]], ("rows[0]", "[1, 2]")),
                        ([0, 1, None], ("rows[2]", "None")), ([np.True_], ("rows[0]", "True"))):
        for call in (lambda: array[rows], lambda: array.take(rows), lambda: array.put(rows, 0)):
            with raises(TypeError, *words, "whole number"):
                call()
    for key, word in ((np.array([True, False] * 2), "numpy.flatnonzero()"),
                      (np.array([[1, 2]]), "ravel()")):
        for call in (array.__getitem__, array.take):
            with raises(TypeError, word):
                call(key)
    stream = fixture.context.default_stream
    there = Gpu.Array.zeros(fixture.context, 2, "int32")
    for call in (array.take, lambda rows: array.put(rows, 0),
                 lambda rows: stream.take_rows(array, array, rows),
                 lambda rows: stream.put_rows(array, array, rows)):
        with raises(TypeError, "rows must be in the memory of the host", "rows.to_numpy()"):
            call(there)
    for call in array.__getitem__, lambda rows: array.__setitem__(rows, 0):
        with raises(TypeError, "an array index must be", "not Gpu.Array: pass its to_numpy()"):
            call(there)
    for rows, word in ((5, "5"), (None, "None"), (np.array(5), "array(5)"),
                       (np.zeros(2), "float64"), (np.array([[1]]), "(1, 1)")):
        for call in (array.take, lambda one: array.put(one, 0)):
            with raises(TypeError, "rows must be", word):
                call(rows)
    for rows, words in ((5, ("rows", "5", "sequence of whole numbers")), (None, ("rows", "None")),
                        (np.array(5), ("rows", "array(5)", "sequence of whole numbers")),
                        ("10", ("rows", "'10'", "whole number")),
                        (np.zeros(2), ("rows[0]", "0.0", "whole number"))):
        for method in (stream.take_rows, stream.put_rows):
            with raises(TypeError, *words):
                method(array, array, rows)
    scalar = Gpu.Array.zeros(fixture.context, (), "float32")
    for call in (lambda: scalar.take([0]), lambda: scalar.put([0], 1)):
        with raises(IndexError, "no dimensions", "rows"):
            call()
    for values, kind, words in ((object(), TypeError, ("values", "float32", "object")),
                                ("x", ValueError, ("values", "float32", "'x'")),
                                (np.zeros((2, 3)), ValueError, ("(2, 3)", "1 rows", "(3,)"))):
        with raises(kind, *words):
            array.put([1], values)


def test_full(fixture):
    need_numpy()
    array = Gpu.Array.full(fixture.context, 3, 1.7, Gpu.DType.INT16)
    same(array.to_numpy(), np.ones(3, "int16"))
    for value, bits in ((1.0, 0x3f80), (-2.5, 0xc020), (1 + 2 ** -8, 0x3f80),
                        (1 + 3 * 2 ** -8, 0x3f82), (float("inf"), 0x7f80),
                        (float("nan"), 0x7fc0)):
        array = Gpu.Array.full(fixture.context, 3, value, "bfloat16")
        equal(array.get_dtype(), Gpu.DType.BFLOAT16)
        equal(array.view("uint16").to_numpy().tolist(), [bits] * 3)
    array.fill(3)
    equal(array.view("uint16").to_numpy().tolist(), [0x4040] * 3)


def test_brain_floats(fixture):
    """Without ml_dtypes, NumPy cannot convert an array of bfloat16. The error names the function to
    call instead."""
    need_numpy()
    array = Gpu.Array.full(Gpu.HostAllocator(fixture.context), 3, 1.5, "bfloat16")
    known = sys.modules.get("ml_dtypes")
    try:
        sys.modules["ml_dtypes"] = None
        for use in (np.asarray, lambda one: one.to_numpy(), lambda one: one.dtype,
                    lambda one: one.get_dtype().numpy()):
            with raises(TypeError, "ml_dtypes", "view('uint16')"):
                use(array)
        equal(np.asarray(array.view("uint16")).tolist(), [0x3fc0] * 3)
        sys.modules["ml_dtypes"] = types.SimpleNamespace(bfloat16=np.dtype("V2"))
        equal(np.asarray(array).view("uint16").tolist(), [0x3fc0] * 3)
    finally:
        if known is None:
            del sys.modules["ml_dtypes"]
        else:
            sys.modules["ml_dtypes"] = known


def test_interface_waits(fixture):
    """Creating a NumPy view of host memory only waits for pending uses of this memory."""
    need_numpy()
    if not fixture.device.capabilities & Gpu.Capabilities.USER_EVENTS:
        raise Skip("the device has no user events")
    array = Gpu.Array.from_numpy(Gpu.HostAllocator(fixture.context), sample((3, 4), "int32"))
    gate = Gpu.Event.new_user(fixture.context)
    busy = Gpu.Stream(fixture.context)
    busy.wait_event(gate)
    other = Gpu.Array.zeros(fixture.context, 3, "int32", stream=busy)
    ready = Gpu.Stream(fixture.context)
    array.fill(9, stream=ready)
    equal(np.asarray(array).tolist(), [[9] * 4] * 3)
    gate.complete()
    equal(other.to_numpy(busy).shape, (3,))
    fixture.context.synchronize()


def test_copy_to(fixture):
    """Copies between every pair of devices, on streams of either device."""
    need_numpy()
    host = sample((3, 4, 5), "int16")
    array = Gpu.Array.from_numpy(fixture.context, host)
    for device in choose_devices():
        context = Gpu.Context(device)
        for one, expected in ((array, host), (array[:, ::-1, ::2], host[:, ::-1, ::2]),
                              (array.T, host.T)):
            same(one.copy_to(context).to_numpy(), expected)
            for stream in (Gpu.Stream(fixture.context), Gpu.Stream(context)):
                target = Gpu.Array.zeros(context, expected.shape[::-1], "int16").T
                assert one.copy_to(target, stream) is target
                stream.synchronize()
                same(target.to_numpy(), expected)
            pool = Gpu.MemoryPool(context)
            for stream in (None, Gpu.Stream(fixture.context), Gpu.Stream(context)):
                copied = one.copy_to(pool, stream)
                fixture.context.synchronize()
                context.synchronize()
                same(copied.to_numpy(), expected)
        target = Gpu.Array.zeros(context, (2, 6, 8, 10), "int16")
        target[1, ::2, 1::2, ::2] = array
        expected = np.zeros((2, 6, 8, 10), "int16")
        expected[1, ::2, 1::2, ::2] = host
        same(target.to_numpy(), expected)


def test_no_elements(fixture):
    """NumPy arrays without elements, whose strides and addresses may be invalid."""
    need_numpy()
    for host in (np.ones((4, 4), "float32")[::-1, :0], np.zeros((0, 3), "float32")[:, ::-1],
                 np.ndarray((0, 3), "float32", bytearray(100), 88, (12, -4))):
        array = Gpu.Array.from_numpy(fixture.context, host)
        equal(array.shape, host.shape)
        array.write(host)
        equal(array.read_into(host.copy()[::-1]).shape, host.shape)
        equal(array.read_into(host).shape, host.shape)


def test_transpose(fixture):
    """numpy.transpose() returns a view on the device, and axes that do not exist are errors."""
    need_numpy()
    host = np.arange(24, dtype="int32").reshape(2, 3, 4)
    array = Gpu.Array.from_numpy(fixture.context, host)
    for axes in None, (0, 1, 2), (2, 0, -2):
        turned = np.transpose(array, axes)
        assert isinstance(turned, Gpu.Array) and turned.memory is array.memory
        same(turned.to_numpy(), np.transpose(host, axes))
    for axes in np.array([2, 0, 1]), [2, 0, 1], (np.array(2), 0, np.int8(1)), range(3):
        same(array.transpose(axes).to_numpy(), host.transpose(axes))
    for axes in ((0, 1, -4), (0, 1, 3), (0, 1, 1), (0, 1), ()):
        with raises(ValueError):
            array.transpose(axes)
    line = array[0, 0]
    for axes in (), (None,), (0,), (-1,), ((0,),), (np.array(0),):
        same(line.transpose(*axes).to_numpy(), host[0, 0])
    with raises(ValueError, "1 dimension"):
        line.transpose(())
    equal(array[0, 0, 0].transpose(()).shape, ())
    for axes in (False,), ((False,),), (0.0,), ("0",), ([[0]],):
        with raises(TypeError, "axis"):
            line.transpose(*axes)
    with raises(TypeError, "axis", "True"):
        array.swapaxes(True, 0)
    with raises(ValueError, "-4", "3 dimensions"):
        array.split(1, -4)


def test_many_dimensions(fixture):
    """Errors state the number of dimensions, not only those below the limit."""
    for create in (lambda: Gpu.Array.empty(fixture.context, (1,) * 40, "uint8"),
                   lambda: Gpu.Array.empty(fixture.context, 1, "uint8").reshape((1,) * 40)):
        with raises(Gpu.Error.INVALID_ARGUMENT, "40 dimensions", "limit of 32"):
            create()


def test_flags(fixture):
    """The flags are also items, with the names and the values of NumPy."""
    need_numpy()
    for host in np.zeros((3, 4)), np.zeros((3, 4)).T, np.zeros((3, 4))[:, ::2], np.zeros(3):
        array = Gpu.Array.empty(fixture.context, host.shape, host.dtype, strides=host.strides)
        for name in "C", "C_CONTIGUOUS", "F", "F_CONTIGUOUS", "FORC":
            equal(array.flags[name], host.flags[name])
    with raises(KeyError, "'WRONG'", "C_CONTIGUOUS"):
        array.flags["WRONG"]


def test_never_made(fixture):
    with raises(TypeError):
        Gpu.Array(fixture.context)
    try:
        Gpu.Array.empty(fixture.context, -1, "int8")
    except GLib.Error as error:
        assert "(-1,)" in error.message
    else:
        raise AssertionError("a negative length")


if __name__ == "__main__":
    sys.exit(main(globals()))

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Calls that the C module makes for the usual arguments, and the overrides in Python for all
others: transfers of arrays, images and regions, views of arrays, and mappings. Both give the
results of NumPy, on idle streams and behind pending work, on every device that GPUMEM_TEST
selects."""

import gc
import sys
import threading
import weakref

import gi

from python_util import equal, main, need, need_numpy, np, raises, run_without_fast

gi.require_version("Gpu", "1.0")
from gi.repository import Gpu  # noqa: E402

DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "float32", "float64", "complex64", "complex128")
SHAPES = ((), (1,), (7,), (3, 4), (2, 3, 4), (5, 1, 2))


def numbers(shape, dtype):
    """Returns an array of different numbers."""
    count = int(np.prod(shape, dtype=int))
    return (np.arange(count) % 120 + 1).astype(dtype).reshape(shape)


def same(got, expected):
    equal((got.dtype, got.shape), (expected.dtype, expected.shape))
    assert np.array_equal(got, expected), f"{got} is not {expected}"


# --- arrays --------------------------------------------------------------------------------------

def test_array_transfers(fixture):
    """Each dtype and shape, in both orders."""
    need_numpy()
    for dtype in DTYPES:
        for shape in SHAPES:
            for order in "CF":
                values = np.array(numbers(shape, dtype), order=order)
                array = Gpu.Array(fixture.context, shape, dtype, order)
                equal(array.write(values), None)
                same(array.to_numpy(), values)
                same(array.to_numpy(stream=fixture.stream), values)
                target = np.zeros_like(values)
                assert array.read_into(target) is target
                same(target, values)
                array.write(data=np.zeros_like(values), stream=None)
                same(array.to_numpy(None), np.zeros_like(values))


def test_array_types(fixture):
    """The letters of one type are equal, and no other type is converted."""
    need_numpy()
    for left, right in (("l", "q"), ("L", "Q"), ("i", "int32")):
        values = numbers((6,), left)
        if values.dtype != np.dtype(right):
            continue
        array = Gpu.Array(fixture.context, 6, right)
        array.write(values)
        target = np.zeros(6, left)
        array.read_into(target)
        same(target, values)
    array = Gpu.Array(fixture.context, 6, "int32")
    for wrong in "uint32", "float32", "int64", "V4":
        with raises(TypeError, "int32", "convert"):
            array.write(np.zeros(6, wrong))
        with raises(ValueError, "int32"):
            array.read_into(np.zeros(6, wrong))
    with raises(TypeError, "float64", "int32", "array[...] = data converts"):
        array.write([1.5] * 6)
    for call in array.write, array.read_into:
        with raises(Gpu.Error.NOT_SUPPORTED, "byte order", "astype('"):
            call(np.zeros(6, ">i4"))
    for dtype in (np.dtype([("a", "i4"), ("b", "f4")]), np.dtype("V12")):
        record = Gpu.Array(fixture.context, 3, dtype)
        values = np.frombuffer(bytes(range(dtype.itemsize * 3)), dtype)
        record.write(values)
        equal(record.to_numpy().tobytes(), values.tobytes())


def test_array_shapes(fixture):
    """Data are broadcast, and a target must have the shape of the array."""
    need_numpy()
    array = Gpu.Array(fixture.context, (3, 4), "float32")
    array.fill(3)
    for data in (np.float32(5), np.arange(4, dtype="float32"), np.ones((3, 1), "float32"),
                 numbers((3, 8), "float32")[:, ::2], numbers((4, 3), "float32").T,
                 np.ma.masked_array(numbers((3, 4), "float32")), array.copy()):
        array.write(data)
        same(array.to_numpy(), np.broadcast_to(
            data.to_numpy() if isinstance(data, Gpu.Array) else np.asarray(data), (3, 4)))
    with raises(ValueError):
        array.write(np.zeros((4, 3), "float32"))
    for wrong in (12, 4, 3), (4, 3), (12,):
        with raises(ValueError, "(3, 4)"):
            array.read_into(np.zeros(wrong, "float32"))
    frozen = np.zeros((3, 4), "float32")
    frozen.flags.writeable = False
    with raises(ValueError, "read-only"):
        array.read_into(frozen)
    wide = np.zeros((3, 8), "float32")
    array.write(numbers((3, 4), "float32"))
    array.read_into(wide[:, ::2])
    same(wide[:, ::2], numbers((3, 4), "float32"))
    equal(wide[:, 1::2].any(), np.False_)
    equal(Gpu.Array(fixture.context, (0, 4), "float32").to_numpy().shape, (0, 4))


def test_array_parts(fixture):
    """Views, contiguous or not, and arrays over memory."""
    need_numpy()
    values = numbers((6, 4), "int32")
    array = Gpu.Array.from_numpy(fixture.context, values)
    for key in (slice(2, 5), slice(None, None, 2), 3, (slice(None), 1), (slice(1, 3), slice(2, 4)),
                slice(None, None, -1), (2, 3)):
        same(array[key].to_numpy(), values[key])
        values[key] += 1
        array[key].write(values[key])
        same(array.to_numpy(), values)
        target = np.empty_like(values[key])
        array[key].read_into(target)
        same(target, values[key])
    memory = fixture.buffer(numbers((10,), "float32"))
    over = Gpu.Array.for_memory(memory, 5, "float32", 8)
    over.write(np.zeros(5, "float32"))
    same(memory.to_numpy("float32")[2:7], np.zeros(5, "float32"))
    if fixture.device.capabilities & Gpu.Capabilities.SVM_COARSE:
        over = Gpu.Array.for_memory(Gpu.Svm(fixture.context, 40), 5, "float32", 8)
        over.write(np.arange(5, dtype="float32"))
        same(over.to_numpy(), np.arange(5, dtype="float32"))


def test_array_behind_work(fixture):
    """Transfers wait for earlier work of the stream."""
    need_numpy()
    for size in 16, 100000:
        values = numbers((size,), "uint8")
        array = Gpu.Array(fixture.context, size, "uint8")
        target = np.zeros(size, "uint8")
        for call in (lambda: array.write(values), lambda: array.read_into(target),
                     lambda: array.to_numpy(), lambda: array.fill(b"\5"), lambda: array.copy()):
            gate = fixture.gate(fixture.stream)
            fixture.stream.fill(array.memory, 7)
            timer = threading.Timer(0.05, gate.complete)
            timer.start()
            call()
            assert gate.query() == Gpu.EventStatus.COMPLETE
            timer.join()
        same(target, np.full(size, 7, "uint8"))
        same(array.to_numpy(), np.full(size, 7, "uint8"))


def test_array_errors(fixture):
    need_numpy()
    array = Gpu.Array.from_numpy(fixture.context, numbers((4,), "float32"))
    for call in (lambda: array.write(), lambda: array.write(1, 2, 3), lambda: array.read_into(),
                 lambda: array.to_numpy(1, 2), lambda: array.fill(), lambda: array.copy(1, 2, 3, 4),
                 lambda: array.write(np.zeros(4, "float32"), to=5),
                 lambda: array.write(np.zeros(4, "float32"), 5), lambda: array.fill(1, 5),
                 lambda: array.to_numpy(stream=5)):
        with raises(TypeError):
            call()
    with raises(Gpu.Error.INVALID_ARGUMENT, "Array.fill: "):
        array.fill(b"12345")
    array.memory.release()
    for call, name in ((lambda: array.write(np.zeros(4, "float32")), "Array.write: "),
                       (lambda: array.read_into(np.zeros(4, "float32")), "Array.read_into: "),
                       (array.to_numpy, "Array.to_numpy: "), (lambda: array.fill(b"1234"),
                                                              "Array.fill: "),
                       (array.copy, "Array.copy: ")):
        with raises(Gpu.Error.RELEASED, name):
            call()


def test_array_fill(fixture):
    need_numpy()
    for dtype in DTYPES:
        array = Gpu.Array(fixture.context, (2, 3), dtype)
        number = np.dtype(dtype).type(1)
        for value in number, 1, 1.0, True, number.tobytes(), np.float64(1), [1]:
            array.fill(np.dtype(dtype).type(0))
            equal(array.fill(value), None)
            same(array.to_numpy(), np.ones((2, 3), dtype))
            array.fill(value=value, stream=fixture.stream)
            same(array.to_numpy(fixture.stream), np.ones((2, 3), dtype))
    array = Gpu.Array(fixture.context, (4, 4), "float64")
    array.fill(1.5)
    array[1:3, 1:3].fill(2.5)
    expected = np.full((4, 4), 1.5)
    expected[1:3, 1:3] = 2.5
    same(array.to_numpy(), expected)
    equal(Gpu.Array(fixture.context, 0).fill(1.5), None)


def test_array_copy(fixture):
    """A copy keeps the order, and comes from the allocator in effect."""
    need_numpy()
    pool = Gpu.MemoryPool(fixture.context)
    values = numbers((3, 4), "int16")
    for order in "FC":
        array = Gpu.Array.from_numpy(fixture.context, np.array(values, order=order))
        for copy in (array.copy(), array.copy(stream=fixture.stream), array.copy(order="K"),
                     array.copy(None, fixture.stream), array.copy(pool), array[:].copy()):
            equal((type(copy), copy.strides), (Gpu.Array, array.strides))
            assert copy.memory is not array.memory
            same(copy.to_numpy(), values)
        same(array[1:, ::2].copy().to_numpy(), values[1:, ::2])
    with pool:
        copy = array.copy()
        equal(pool.active_blocks, 1)
        del copy
    fixture.context.allocator = pool
    copy = array.copy(stream=fixture.stream)
    equal(pool.active_blocks, 1)
    fixture.context.allocator = None
    del copy
    with fixture.context.using_allocator(lambda size: fixture.buffer(size + 100)):
        equal(array.copy().memory.size, values.nbytes + 100)


def test_array_views(fixture):
    """Keys give the views of NumPy, or its errors."""
    need_numpy()
    values = numbers((5, 6, 7), "uint8")
    array = Gpu.Array.from_numpy(fixture.context, values)
    big = 1 << 70
    for key in (0, -1, 4, slice(None), slice(1, 4), slice(-3, None), slice(4, 1), slice(4, 1, -1),
                slice(None, None, -2), slice(100), slice(-100, 100), slice(0, 0), slice(big),
                slice(-big, big), (1,), (1, 2), (1, 2, 3), (slice(1, 3), 2), (2, slice(1, 3)),
                (0, slice(None), -1), (slice(None), slice(None, None, 3), slice(-2, None)), (),
                Ellipsis, None, (None, 1), (1, Ellipsis), (Ellipsis, 1), (slice(2), None, 3),
                np.int64(2), (np.uint8(2), slice(np.int32(1), None))):
        view = array[key]
        equal(type(view), Gpu.Array)
        assert view.size == 0 or view.memory is array.memory
        same(view.to_numpy(), values[key])
    for key in (5, -6, big, (0, 6), (0, 0, 7), (0, 0, 0, 0)):
        with raises(IndexError):
            array[key]
    for key in (1.5, "a", True, (0, "a"), [0.5], (slice("a"),), slice(1.5)):
        with raises(TypeError):
            array[key]
    with raises(ValueError):
        array[::0]
    with raises(IndexError):
        Gpu.Array(fixture.context, (), "uint8")[0]


def test_array_new(fixture):
    """New arrays come from the allocator that is passed or in effect."""
    need_numpy()
    context, pool = fixture.context, Gpu.MemoryPool(fixture.context)
    for make in Gpu.Array.empty, Gpu.Array.zeros:
        for shape in 5, (5,), [5], np.int64(5), (2, 3), (), (0, 3), [np.int32(2), 2]:
            for dtype in "float32", Gpu.DType("int16"), np.uint8, np.dtype("float64"), float:
                for array in (make(context, shape, dtype), make(pool, shape, dtype),
                              make(context, shape, dtype=dtype, allocator=pool),
                              make(context, shape, dtype, "F", stream=fixture.stream)):
                    expected = np.zeros(shape, dtype.numpy() if isinstance(dtype, Gpu.DType)
                                        else dtype)
                    equal((type(array), array.shape, array.dtype, array.context),
                          (Gpu.Array, expected.shape, expected.dtype, context))
                    if make == Gpu.Array.zeros:
                        same(array.to_numpy(), expected)
        arrays = [make(pool, 5, "int8")]
        equal(pool.active_blocks, 1)
        with pool:
            arrays.append(make(context, 5, "int8"))
        equal(pool.active_blocks, 2)
        context.allocator = pool
        arrays.append(make(context, 5, "int8"))
        equal(pool.active_blocks, 3)
        context.allocator = None
        arrays.append(make(context, 5, "int8"))
        equal(pool.active_blocks, 3)
        arrays.append(make(context, 5, "int8", allocator=pool))
        equal(pool.active_blocks, 4)
        arrays.clear()
        for args in ((), (context,), (5, 5, "int8"), (context, "a", "int8"), (context, 5.5, "int8"),
                     (context, 5, "none"), (context, True, "int8"), (context, 5, object)):
            with raises(TypeError):
                make(*args)
        with raises(Gpu.Error.INVALID_ARGUMENT, f"Array.{make.__name__}: ", "-1"):
            make(context, -1, "int8")


# --- regions and images --------------------------------------------------------------------------

def test_regions(fixture):
    need_numpy()
    values = numbers((8, 16), "uint8")
    stream = fixture.stream
    layouts = (((16, 2, 0, 128), (0, 0, 0, 64), (16, 4)), (None, None, 64), (64, 8, (32,)),
               (Gpu.Layout(0, 1, 0, 16), (3, 2, 0, 16), Gpu.Extent(5, 3)),
               ([1, 1, 1, 8, 32], (0, 0, 0, 8, 40), [4, 2, 2]))
    for to, at, extent in layouts:
        source, targets = fixture.buffer(numbers((400,), "uint8")), []
        for copy in (lambda target: stream.copy_region(target, source, extent, to, at),
                     lambda target: stream.copy_region(source=source, destination=target,
                                                       extent=extent, source_layout=at,
                                                       destination_layout=to),
                     lambda target: stream.write_region(target, numbers((400,), "uint8"), extent,
                                                        to, at),
                     lambda target: stream.write_region(target, numbers((400,), "uint8"), extent,
                                                        data_layout=at, destination_layout=to,
                                                        copy=False)):
            target = fixture.buffer(bytes(1000))
            equal(copy(target), True)
            targets.append(target.read())
        equal(targets[1:], targets[:1] * 3)
        assert any(targets[0])
    target = fixture.buffer(bytes(64))
    stream.write_region(target, values, (4, 3), (8, 1, 0, 16), (2, 1, 0, 16))
    expected = np.zeros((4, 16), "uint8")
    expected[1:4, 8:12] = values[1:4, 2:6]
    equal(target.read(), expected.tobytes())
    data = bytearray(16)
    gate = fixture.gate(stream, must_hold=False)
    stream.write_region(target, data, 16)
    data[:] = b"x" * 16
    gate.complete()
    equal(target.read(0, 16), bytes(16))
    with raises(Gpu.Error.INVALID_ARGUMENT, "Stream.write_region: "):
        stream.write_region(target, values, 128)
    with raises(Gpu.Error.INVALID_ARGUMENT, "Stream.copy_region: "):
        stream.copy_region(target, target, 65)
    for extent in "a", (), (1, 2, 3, 4), None, 1.5, True, (1, True):
        with raises((ValueError if extent in ((), (1, 2, 3, 4)) else TypeError)):
            stream.write_region(target, values, extent)
    with raises(OverflowError):
        stream.copy_region(target, fixture.buffer(64), (-1, 1))
    with raises(TypeError):
        stream.copy_region(target, b"bytes", 5)


def images(fixture, *shapes):
    need(fixture, Gpu.Capabilities.IMAGES)
    need_numpy()
    for shape in shapes:
        yield numbers(shape, "float32"), Gpu.Image.from_array(fixture.context,
                                                              numbers(shape, "float32"))


def test_images(fixture):
    for values, image in images(fixture, (9,), (4, 6), (2, 3, 4), (300, 200)):
        for data in values + 1, (values + 2).tobytes(), bytearray(values + 3), memoryview(values):
            expected = np.frombuffer(data, "float32").reshape(values.shape)
            equal(image.write(data), True)
            same(image.to_numpy(), expected)
            target = np.zeros_like(values)
            equal(image.read_into(target), values.nbytes)
            same(target, expected)
            equal(image.read_into(target=bytearray(values.nbytes), stream=fixture.stream),
                  values.nbytes)
            equal(image.write(data=data, stream=fixture.stream), True)
        with raises(ValueError):
            image.write(bytes(values.nbytes + 4))
        for size in values.nbytes - 4, values.nbytes + 4:
            with raises(ValueError, f"{size} bytes", f"{values.nbytes} bytes"):
                image.read_into(bytearray(size))
        with raises(BufferError):
            image.read_into(bytes(values.nbytes))
        for call in (lambda: image.write("text"), lambda: image.write(values, stream=5),
                     lambda: image.read_into(5), lambda: image.read_into(),
                     lambda: image.write(values, 0, None, 0, 0, None, 1)):
            with raises(TypeError):
                call()
        image.release()
        with raises(Gpu.Error.RELEASED, "Image.write: "):
            image.write(values)
        with raises(Gpu.Error.RELEASED, "Image.read_into: "):
            image.read_into(values)


def test_images_behind_work(fixture):
    """Transfers of images wait for earlier work of the stream."""
    for values, image in images(fixture, (4, 6), (200, 300)):
        target = np.zeros_like(values)
        for call in lambda: image.write(values + 1), lambda: image.read_into(target):
            gate = fixture.gate(fixture.stream)
            fixture.stream.fill_image(image, Gpu.Color(7))
            timer = threading.Timer(0.05, gate.complete)
            timer.start()
            call()
            assert gate.query() == Gpu.EventStatus.COMPLETE
            timer.join()
        same(target, np.full(values.shape, 7, "float32"))


def test_fill_image(fixture):
    for values, image in images(fixture, (4, 6)):
        black, stream = Gpu.Color(0, 0, 0, 0), fixture.stream
        for color in Gpu.Color(5, 0, 0, 0), 5, (5,), np.float32(5):
            for args, key in (((), slice(None)), ((None, None), slice(None)),
                              (((1, 2),), (slice(2, None), slice(1, None))),
                              ((1, (2, 3)), (slice(0, 3), slice(1, 3))),
                              ((Gpu.Layout(2), Gpu.Extent(2, 2)), (slice(0, 2), slice(2, 4)))):
                stream.fill_image(image, black)
                equal(stream.fill_image(image, color, *args), True)
                expected = np.zeros((4, 6), "float32")
                expected[key] = 5
                same(image.to_numpy(), expected)
        equal(stream.fill_image(image=image, color=black, extent=(1, 1), origin=(5, 3)), True)
        with raises(Gpu.Error.INVALID_ARGUMENT, "Stream.fill_image: "):
            stream.fill_image(image, black, (6, 0), (1, 1))
        for args in ((fixture.buffer(5), black), (image, "red"), (image, black, "a"), (image,),
                     (image, black, (1, 1, 1, 1)), (None, black)):
            with raises((ValueError if len(args) == 3 and args[2] != "a" else TypeError)):
                stream.fill_image(*args)


# --- mappings ------------------------------------------------------------------------------------

def mappable(fixture):
    """Returns memory of 64 bytes that can be mapped."""
    yield fixture.buffer(bytes(range(64)))
    if fixture.device.capabilities & Gpu.Capabilities.SVM_COARSE:
        svm = Gpu.Svm(fixture.context, 64)
        with svm.map(Gpu.MapFlags.WRITE) as mapping:
            mapping[:] = bytes(range(64))
        yield svm


def test_map(fixture):
    for memory in mappable(fixture):
        kind, stream = type(memory).__name__, fixture.stream
        for args, kwargs, start, size, writable in (
                ((), {}, 0, 64, True), ((Gpu.MapFlags.READ,), {}, 0, 64, False),
                ((Gpu.MapFlags.READ, 8), {}, 8, 56, False),
                ((Gpu.MapFlags.WRITE, 8, 16, stream), {}, 8, 16, True),
                ((), dict(stream=stream, size=4, flags=Gpu.MapFlags.READ), 0, 4, False)):
            with memory.map(*args, **kwargs) as mapping:
                equal((type(mapping), mapping.size, mapping.mapped), (Gpu.Mapping, size, True))
                view = mapping.view()
                equal((view.nbytes, view.readonly), (size, not writable))
                equal(bytes(view), bytes(range(start, start + size)))
                view.release()
            assert not mapping.mapped
        for args in ((Gpu.MapFlags.READ, 64), (Gpu.MapFlags.READ, 0, 65),
                     (Gpu.MapFlags.WRITE_INVALIDATE | Gpu.MapFlags.READ,)):
            with raises(Gpu.Error.INVALID_ARGUMENT, f"{kind}.map: "):
                memory.map(*args)
        for args in ("r",), (5.5,), (0, "a"), (Gpu.MapFlags.READ, 0, 1, 5), (0,) * 6:
            with raises(TypeError):
                memory.map(*args)
        with raises(OverflowError):
            memory.map(Gpu.MapFlags.READ, -1)
        memory.release()
        with raises(Gpu.Error.RELEASED, f"{kind}.map: "):
            memory.map(0, 0, 1)


def test_map_arrays(fixture):
    need_numpy()
    for memory in mappable(fixture):
        values = np.arange(64, dtype="uint8")
        with memory.map(Gpu.MapFlags.READ) as mapping:
            for dtype in "float32", np.int16, np.dtype("V8"), "<u4":
                array = mapping.to_numpy(dtype)
                equal(array.flags.writeable, False)
                equal((array.dtype, array.tobytes()), (np.dtype(dtype), values.tobytes()))
            same(mapping.to_numpy(dtype="uint8", shape=(8, -1), order="F"),
                 values.reshape((8, 8), order="F"))
            same(mapping.to_numpy(), values)
            same(mapping.to_numpy(None, (2, 32)), values.reshape(2, 32))
            with raises(TypeError):
                mapping.to_numpy("nothing")
            with raises(ValueError):
                mapping.to_numpy("V7")
            array = mapping.to_numpy("i4,f4")
            array.dtype.names = "i", "f"
            equal(mapping.to_numpy("i4,f4").dtype.names, ("f0", "f1"))
            del array
        with raises(Gpu.Error.RELEASED):
            mapping.to_numpy("uint8")
        with memory.map(Gpu.MapFlags.WRITE) as mapping:
            array = mapping.to_numpy("uint16")
            array[:] = 7
            del array
        with memory.map(Gpu.MapFlags.READ) as mapping:
            same(mapping.to_numpy("uint16").copy(), np.full(32, 7, "uint16"))


def test_map_bytes(fixture):
    """Bytes and slices of a mapping, and loops over it, are those of a memoryview."""
    for memory in mappable(fixture):
        data = bytes(range(64))
        mapping = memory.map()
        equal((len(mapping), bytes(mapping), list(mapping)), (64, data, list(data)))
        equal((list(reversed(mapping)), 63 in mapping, 64 in mapping),
              (list(reversed(data)), True, False))
        for i in range(-64, 64):
            equal(mapping[i], data[i])
        for key in (slice(None), slice(3, 9), slice(-5, None), slice(9, 3), slice(60, 99),
                    slice(None, None, -3), slice(1, 50, 7)):
            equal(mapping[key], data[key])
        mapping[-1], mapping[2:5], mapping[10:20:4] = 200, b"abc", b"def"
        equal((mapping[63], mapping[1:6], mapping[10:19:4]), (200, b"\1abc\5", b"def"))
        for index in 64, -65, 1 << 70:
            for call in mapping.__getitem__, lambda i: mapping.__setitem__(i, 0):
                with raises(IndexError, str(index), "64 bytes"):
                    call(index)
        for index in (True, *((np.int8(3), np.array(3)) if np is not None else ())):
            equal(mapping[index], bytes(mapping)[index])
        mapping[False] = 0
        with raises(ValueError, "4 bytes cannot replace 3 bytes of a mapping"):
            mapping[1:4] = b"abcd"
        for key in "a", None, 1.5, (1, 2), (1,), ...:
            for call in mapping.__getitem__, lambda i: mapping.__setitem__(i, 0):
                with raises(TypeError, "index of a mapping", str(key)):
                    call(key)
        steps = iter(mapping)
        equal(next(steps), 0)
        with raises(BufferError, "views"):
            mapping.unmap()
        del steps
        try:
            mapping[64]
        except IndexError as error:             # must not keep the memory mapped
            kept = error
        mapping.unmap()
        assert kept.__traceback__ is not None
        equal((len(mapping), bool(mapping)), (64, True))
        for call in (iter, bytes, list, lambda one: 0 in one, lambda one: one[0],
                     lambda one: one[99], lambda one: one[1:2],
                     lambda one: one.__setitem__(0, 1), lambda one: one.__setitem__(99, 1)):
            with raises(Gpu.Error.RELEASED, "unmapped"):
                call(mapping)
        with memory.map(Gpu.MapFlags.READ) as mapping:
            with raises(TypeError, "read-only"):
                mapping[0] = 1


def test_partial_elements(fixture):
    """Bytes that are not a whole number of elements are an error, as in numpy.frombuffer()."""
    need_numpy()
    data, words = bytes(range(10)), ("10 bytes", "4 bytes", "float32")
    buffer = fixture.buffer(data)
    with raises(ValueError, *words, "pass a shape"):
        buffer.to_numpy("float32")
    with raises(ValueError, "9 bytes", "2 bytes", "int16"):
        buffer.to_numpy(np.int16, offset=1)
    same(buffer.to_numpy("uint32", 2), np.frombuffer(data[:8], "uint32"))
    same(buffer.to_numpy("uint32", offset=2), np.frombuffer(data[2:], "uint32"))
    equal(buffer.to_numpy("uint32", offset=10).shape, (0,))
    made = [Gpu.HostMemory(fixture.context, 10)]
    if fixture.device.capabilities & Gpu.Capabilities.SVM_FINE:
        made.append(Gpu.Svm(fixture.context, 10, Gpu.SvmFlags.FINE_GRAIN))
    made += [memory.map(Gpu.MapFlags.READ, 0, 10) for memory in mappable(fixture)]
    for memory in made:
        for args in ("float32",), (np.float32, 2), (np.dtype("float32"), (1, 2), "F"):
            with raises(ValueError, *words, "view()"):
                memory.to_numpy(*args)
        equal(np.frombuffer(memory.view()[:8], "float32").shape, memory.to_numpy("i2")[:2].shape)
    for mapping in made:
        if isinstance(mapping, Gpu.Mapping):
            errors = collect_errors(mapping)
            mapping.unmap()
            assert errors[0].__traceback__ is not None and not mapping.mapped
            with raises(Gpu.Error.RELEASED):
                mapping.to_numpy("float32")
    data = bytearray(10)
    with Gpu.HostMemory.registered(fixture.context, data) as memory:
        errors = collect_errors(memory)
    fixture.stream.synchronize()
    gc.collect()
    data.extend(b"x")
    assert errors[0].__traceback__ is not None


def collect_errors(memory):
    """Returns the errors of to_numpy() of memory of 10 bytes, which must not keep the memory
    mapped or page-locked."""
    errors = []
    for args, kind in ((("float32",), ValueError), ((object,), TypeError),
                       (("uint8", (3, -1)), ValueError), (("uint8", (3, 5), "F"), ValueError),
                       (("S",), ValueError), (("u1", -1, "X"), ValueError),
                       (("(3,)u1",), ValueError)):
        try:
            memory.to_numpy(*args)
        except kind as error:
            errors.append(error)
    try:
        memory.to_numpy(shape=(3, -1))
    except ValueError as error:
        errors.append(error)
    equal(len(errors), 8)
    return errors


def test_wrong_elements(fixture):
    """Errors of to_numpy() name the argument that is wrong."""
    need_numpy()
    buffer = fixture.buffer(bytes(10))
    made = [Gpu.HostMemory(fixture.context, 10)]
    if fixture.device.capabilities & Gpu.Capabilities.SVM_FINE:
        made.append(Gpu.Svm(fixture.context, 10, Gpu.SvmFlags.FINE_GRAIN))
    made += [memory.map(Gpu.MapFlags.READ, 0, 10) for memory in mappable(fixture)]
    for memory in (buffer, *made):
        for args in (object,), ("O", 1), ([("a", "i2"), ("b", "O")],):
            with raises(TypeError, "Python objects"):
                memory.to_numpy(*args)
    for args in ("float32",), (np.uint8, 2), (), (object,):
        for offset in -1, 11, 1 << 70:
            with raises(ValueError, f"offset {offset}", "10 bytes"):
                buffer.to_numpy(*args, offset=offset)


def test_subarray_types(fixture):
    """Elements of a dtype with dimensions are the last dimensions, as in numpy.frombuffer()."""
    need_numpy()
    data = bytes(range(20))
    copies = [fixture.buffer(data), Gpu.HostMemory(fixture.context, 20)]
    copies[1].write(data)
    for memory in copies:
        for dtype in "(5,)i2", "(2,)u1", np.dtype(("i2", (5, 2))):
            same(memory.to_numpy(dtype), np.frombuffer(data, dtype))
    for memory in mappable(fixture):
        with memory.map(Gpu.MapFlags.READ, 0, 20) as mapping:
            for dtype in "(5,)i2", "(2,)u1", np.dtype(("i2", (5, 2))):
                same(mapping.to_numpy(dtype).copy(), np.frombuffer(data, dtype))
            same(mapping.to_numpy("u2", np.array([2, 5])).copy(),
                 np.frombuffer(data, "u2").reshape(2, 5))


def test_map_views(fixture):
    """A view keeps the memory mapped, and views of one mapping share one object."""
    for memory in mappable(fixture):
        mapping = memory.map(Gpu.MapFlags.READ)
        view, other = mapping.view(), mapping.view()
        for call in mapping.unmap, lambda: mapping.__exit__(None, None, None):
            with raises(BufferError, "views"):
                call()
        failure = ValueError()
        equal(mapping.__exit__(ValueError, failure, None), None)
        if sys.version_info >= (3, 11):         # exceptions have notes
            assert "stays mapped while views" in failure.__notes__[0], failure.__notes__
        view.release()
        with raises(BufferError):
            mapping.unmap()
        other.release()
        equal((mapping.unmap(), mapping.unmap()), (True, True))
        equal(mapping.__exit__(None, None, None), None)
        with raises(Gpu.Error.RELEASED):
            mapping.view()
        with raises(TypeError):
            mapping.unmap(5)
        with raises(ZeroDivisionError), memory.map() as mapping:
            view = mapping.view()
            1 / 0
        equal(mapping.mapped, True)
        gone = weakref.ref(mapping)
        mapping.own = view
        del mapping, view
        gc.collect()
        assert gone() is None
        with memory.map() as mapping:           # no longer mapped
            pass
        view = memory.map(Gpu.MapFlags.READ).view()
        equal(bytes(view[:3]), b"\0\1\2")       # the view keeps its mapping
        del view
        fixture.stream.fill(memory, 0)


def test_map_behind_work(fixture):
    for memory in mappable(fixture):
        gate = fixture.gate(fixture.stream)
        fixture.stream.fill(memory, 9)
        timer = threading.Timer(0.05, gate.complete)
        timer.start()
        with memory.map(Gpu.MapFlags.READ) as mapping:
            assert gate.query() == Gpu.EventStatus.COMPLETE
            equal(bytes(mapping), b"\x09" * 64)
        timer.join()


def plain_without_module():
    """The same tests without the C module."""
    run_without_fast(__file__)


if __name__ == "__main__":
    sys.exit(main(globals()))

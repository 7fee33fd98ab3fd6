# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Python binding, over every device that GPUMEM_TEST chooses: prints TAP."""

import array
import asyncio
import ctypes
import gc
import mmap
import os
import random
import struct
import sys
import threading
import time
import traceback
import weakref

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import Gio, GLib, Gpu  # noqa: E402

try:
    import numpy as np
except ImportError:
    np = None

DEADLINE = 30                                   # seconds after which something counts as hung

SOURCE = """
__kernel void
scale (__global float *numbers, float factor)
{
  numbers[get_global_id (0)] *= factor;
}

__kernel void
add (__global uint *numbers, uint summand)
{
  numbers[get_global_id (0)] += summand;
}

__kernel void
triple (__global uint *numbers)
{
  numbers[get_global_id (0)] *= 3;
}

__kernel void
kinds (__global double *out, char a, uchar b, short c, ushort d, int e, uint f, long g, ulong h,
       float i)
{
  out[0] = a;
  out[1] = b;
  out[2] = c;
  out[3] = d;
  out[4] = e;
  out[5] = f;
  out[6] = (double) g;
  out[7] = (double) h;
  out[8] = i;
}

__kernel void
place (__global uint *out)
{
  size_t x = get_global_id (0);
  size_t y = get_global_id (1);
  size_t z = get_global_id (2);
  size_t i = (z * get_global_size (1) + y) * get_global_size (0) + x;

  out[i] = (uint) (x + 100 * y + 10000 * z + 1000000 * get_local_size (0));
}

__kernel void
reverse (__global uint *numbers, __local uint *shared)
{
  size_t i = get_local_id (0);

  shared[i] = numbers[get_global_id (0)];
  barrier (CLK_LOCAL_MEM_FENCE);
  numbers[get_global_id (0)] = shared[get_local_size (0) - 1 - i];
}

__kernel void
is_null (__global uint *out, __global const uint *pointer)
{
  out[0] = pointer == 0;
}
"""


class Skip(Exception):
    pass


class Fixture:
    """One device, with a context of the test's own."""

    def __init__(self, device):
        self.device = device
        self.context = Gpu.Context.new(device)
        self.stream = self.context.get_default_stream()

    def buffer(self, size_or_data, flags=Gpu.MemoryFlags.NONE):
        return Gpu.Buffer(self.context, size_or_data, flags)

    def program(self):
        return Gpu.Program(self.context, SOURCE)

    def new_stream(self):
        return Gpu.Stream.new(self.context, Gpu.StreamFlags.NONE)

    def gate(self, stream):
        """Holds the stream until the event is completed."""
        gate = Gpu.Event.new_user(self.context)
        stream.wait_event(gate)
        return gate


class raises:
    """The block must raise what is given: a type, or a code of Gpu.Error with words of its text."""

    def __init__(self, what, *words):
        self.what = what
        self.words = words

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        assert kind is not None, f"no error where {self.what} must be"
        if isinstance(self.what, type):
            assert issubclass(kind, self.what), f"{kind}: {error} instead of {self.what}"
        else:
            assert issubclass(kind, GLib.Error), f"{kind}: {error} instead of {self.what}"
            assert error.matches(Gpu.error_quark(), self.what), \
                f"{error.domain} {error.code}: {error.message} instead of {self.what}"
        for word in self.words:
            assert word in str(error), f"'{word}' is not in '{error}'"
        # The traceback holds the locals of the test, some of which it wants to see gone.
        error.__traceback__ = None
        return True


def equal(got, expected, what="value"):
    if got != expected:
        raise AssertionError(f"{what} is {repr(got)[:200]}, not {repr(expected)[:200]}")


def need_numpy():
    if np is None:
        raise Skip("NumPy is not installed")


def need(fixture, capability):
    if not fixture.device.capabilities & capability:
        raise Skip(f"{fixture.device.id} lacks {capability.first_value_nick}")


def spin(done, context=None):
    """Serves the main context until done ()."""
    context = context or GLib.MainContext.default()
    deadline = time.monotonic() + DEADLINE
    tick = GLib.timeout_source_new(10)
    tick.set_callback(lambda *data: True)
    tick.attach(context)
    try:
        while not done():
            assert time.monotonic() < deadline, "the main context was not called in time"
            context.iteration(True)
    finally:
        tick.destroy()


# --- without a device ------------------------------------------------------------------------

def plain_names():
    assert "gi.overrides.Gpu" in sys.modules
    equal(Gpu.error_quark(), GLib.quark_from_string("gpu-error-quark"))
    for name in ("FAILED", "OUT_OF_DEVICE_MEMORY", "INVALID_ARGUMENT", "NOT_SUPPORTED", "NO_DEVICE",
                 "BUILD_FAILED", "BUSY", "RELEASED", "TIMED_OUT"):
        assert hasattr(Gpu.Error, name), name
    equal(int(Gpu.MemoryFlags.UNTRACKED), 64)
    equal(int(Gpu.MapFlags.READ | Gpu.MapFlags.WRITE), 3)
    equal(int(Gpu.StreamFlags.PROFILING), 2)
    equal(Gpu.DeviceType.HOST.value_nick, "host")


def plain_devices():
    found = Gpu.devices()
    assert any(device.backend == "host" for device in found)
    host = Gpu.Device("host")
    again = Gpu.Device.find("host")
    equal(host, again)
    equal(hash(host), hash(again))
    equal(len({host, again}), 1)
    assert host != 3
    assert host.id in repr(host) and host.name in repr(host)
    equal(host.device_type, Gpu.DeviceType.HOST)


def plain_no_such_device():
    with raises(Gpu.Error.NO_DEVICE, "nothing-like-it"):
        Gpu.Device.find("nothing-like-it")
    with raises(Gpu.Error.NO_DEVICE):
        Gpu.Context("nothing-like-it")


def plain_geometry():
    extent = Gpu.Extent(3, 4)
    equal(tuple(extent), (3, 4, 1))
    equal(repr(extent), "Gpu.Extent(3, 4, 1)")
    equal(extent, Gpu.Extent(3, 4, 1))
    assert extent != Gpu.Extent(3, 4, 5)
    equal(tuple(Gpu.Layout(1, row_pitch=7)), (1, 0, 0, 7, 0))


def plain_arguments():
    arguments = Gpu.Arguments.new()
    arguments.add_int(3)
    arguments.add_double(0.5)
    arguments.add_value(b"1234")
    arguments.add_memory(None)
    arguments.add_local(64)
    equal(arguments.get_length(), 5)
    arguments.clear()
    equal(arguments.get_length(), 0)


# --- devices and contexts -----------------------------------------------------------------------

def test_device(fixture):
    device = fixture.device
    attributes = device.attributes
    assert isinstance(attributes, dict) and attributes
    for nick in attributes:
        if not hasattr(type(device), nick.replace("-", "_")):
            equal(getattr(device, nick.replace("-", "_")), attributes[nick], nick)
    with raises(AttributeError, "no_such_thing"):
        device.no_such_thing
    assert device.memory_size > 0 and device.max_allocation > 0 and device.base_alignment > 0


def test_context(fixture):
    equal(fixture.context.device, fixture.device)
    equal(fixture.context.devices, [fixture.device])
    assert fixture.device.id in repr(fixture.context)
    info = fixture.context.get_memory_info()
    free_size, total_size, source = info[-3:]
    assert 0 < free_size <= total_size, (free_size, total_size)
    assert isinstance(source, Gpu.MemoryInfoSource)

    before = fixture.context.allocated_size
    buffer = fixture.buffer(5000)
    assert fixture.context.allocated_size >= before + 5000
    with Gpu.Context(fixture.device) as other:
        assert other != fixture.context
        data = Gpu.Buffer(other, 100)
        other.default_stream.fill(data, 7)
    equal(data.read(), b"\7" * 100)
    del buffer


# --- data in and out -----------------------------------------------------------------------------

def bytes_like():
    """Pairs of something bytes-like and its bytes."""
    raw = random.Random(1).randbytes(1000)
    yield raw, raw
    yield bytearray(raw), raw
    yield memoryview(raw), raw
    yield memoryview(raw)[100:900], raw[100:900]
    yield memoryview(raw)[::3], raw[::3]
    yield memoryview(raw)[::-1], raw[::-1]
    yield array.array("d", [1.5, 2.5, -3]), struct.pack("=ddd", 1.5, 2.5, -3)
    yield (ctypes.c_int * 3)(1, -2, 3), struct.pack("=iii", 1, -2, 3)
    yield GLib.Bytes.new(raw), raw
    pages = mmap.mmap(-1, 4096)
    pages[:1000] = raw
    yield pages, raw + bytes(3096)
    if np is None:
        return
    numbers = np.arange(600, dtype=np.float32).reshape(20, 30)
    yield numbers, numbers.tobytes()
    yield numbers[3:9], numbers[3:9].tobytes()
    yield numbers.T, numbers.T.tobytes()
    yield numbers[::2, ::3], numbers[::2, ::3].tobytes()
    yield np.asfortranarray(numbers), numbers.tobytes()
    yield np.float32(1.25), struct.pack("=f", 1.25)
    yield np.array(7, dtype=np.int64), struct.pack("=q", 7)
    yield np.array([1 + 2j]), struct.pack("=dd", 1, 2)
    yield np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]), struct.pack("=id", 1, 2.5)
    days = np.array(["2026-01-01", "2027-01-01"], dtype="datetime64[D]")
    yield days, days.tobytes()
    frozen = numbers.copy()
    frozen.flags.writeable = False
    yield frozen, numbers.tobytes()


def test_bytes_like(fixture):
    for data, expected in bytes_like():
        buffer = Gpu.Buffer.new_from_data(fixture.context, data)
        equal(buffer.size, len(expected), type(data))
        equal(buffer.read(), expected, type(data))

        buffer = fixture.buffer(len(expected) + 20)
        buffer.fill(9)
        buffer.write(data, offset=7)
        equal(buffer.read(), b"\t" * 7 + expected + b"\t" * 13, type(data))

        buffer.fill(9)
        fixture.stream.write(buffer, data, offset=11)
        equal(buffer.read(), b"\t" * 11 + expected + b"\t" * 9, type(data))


def test_not_bytes_like(fixture):
    buffer = fixture.buffer(100)
    bad = [[1, 2, 3], "text", 3.5, object(), None]
    if np is not None:
        bad.append(np.array([object(), None]))
    for data in bad:
        with raises(TypeError):
            buffer.write(data)
        with raises(TypeError):
            fixture.stream.write(buffer, data)
        with raises(TypeError):
            Gpu.Buffer.new_from_data(fixture.context, data)


def test_host_flags(fixture):
    buffer = Gpu.Buffer.new_from_data(fixture.context, b"abc", Gpu.MemoryFlags.HOST_READ_ONLY)
    equal(buffer.read(), b"abc")
    equal(buffer.flags, Gpu.MemoryFlags.HOST_READ_ONLY)
    with raises(GLib.Error):
        buffer.write(b"x")


def test_read(fixture):
    data = random.Random(2).randbytes(10000)
    buffer = fixture.buffer(data)
    equal(len(buffer), 10000)
    equal(buffer.read(9000), data[9000:])
    equal(buffer.read(5, 3), data[5:8])
    equal(buffer.read(size=1), data[:1])
    equal(buffer.read(10000), b"")
    stream = fixture.new_stream()
    equal(buffer.read(17, 100, stream), data[17:117])

    target = bytearray(100)
    equal(buffer.read_into(target, 33), 100)
    equal(target, data[33:133])
    target = array.array("I", [0] * 25)
    buffer.read_into(target)
    equal(target.tobytes(), data[:100])
    with raises(BufferError):
        buffer.read_into(bytes(10))
    with raises(TypeError):
        buffer.read_into([0] * 10)

    later = fixture.stream.read(buffer, 100, 50)
    fixture.stream.synchronize()
    equal(later.get_data(), data[100:150])


def test_numpy(fixture):
    need_numpy()
    numbers = np.arange(1000, dtype=np.int32).reshape(10, 100)
    buffer = fixture.buffer(numbers)
    assert np.array_equal(buffer.to_numpy(np.int32, (10, 100)), numbers)
    assert np.array_equal(buffer.to_numpy("int32"), numbers.ravel())
    assert np.array_equal(buffer.to_numpy("int32", 3, offset=40), [10, 11, 12])
    equal(buffer.to_numpy().nbytes, 4000)
    equal(Gpu.Buffer(fixture.context, np.int64(12)).size, 12)
    with raises(ValueError, "1001"):
        buffer.to_numpy("int32", 1001)

    target = np.zeros((10, 200), np.int32)
    buffer.read_into(target[:, ::2])
    assert np.array_equal(target[:, ::2], numbers)
    assert not target[:, 1::2].any()
    target.flags.writeable = False
    with raises(ValueError):
        buffer.read_into(target)


def best_of(times, func, *args):
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        func(*args)
        best = min(best, time.perf_counter() - start)
    return best


def test_speed(fixture):
    """At the speed of memcpy: nothing converts element by element, which takes 130 ms."""
    size = 1 << 20
    buffer = fixture.buffer(size)
    sources = {"bytes": bytes(size), "bytearray": bytearray(size),
               "memoryview": memoryview(bytearray(size)), "array": array.array("d", bytes(size))}
    if np is not None:
        sources["ndarray"] = np.zeros(size // 4, np.float32)
    for name, data in sources.items():
        for what, func, args in (("buffer.write", buffer.write, (data,)),
                                 ("stream.write", fixture.stream.write, (buffer, data)),
                                 ("new_from_data", Gpu.Buffer.new_from_data,
                                  (fixture.context, data))):
            seconds = best_of(9, func, *args)
            fixture.stream.synchronize()
            print(f"# {fixture.device.id}: {what} of 1 MiB from {name}: {seconds * 1e6:.0f} us, "
                  f"{size / seconds / 1e9:.1f} GB/s")
            assert seconds < 0.025, f"{what} from {name} took {seconds} s"
    seconds = best_of(9, buffer.read)
    print(f"# {fixture.device.id}: buffer.read of 1 MiB: {seconds * 1e6:.0f} us")
    assert seconds < 0.025, f"read took {seconds} s"


def test_fill(fixture):
    buffer = fixture.buffer(96)
    for pattern, expected in ((0xAB, b"\xab"), (b"abcd", b"abcd"), (b"xyz", b"xyz"),
                              (bytearray(b"12345678"), b"12345678"),
                              (array.array("H", [258]), struct.pack("=H", 258))):
        buffer.fill(0)
        buffer.fill(pattern)
        equal(buffer.read(), expected * (96 // len(expected)))
        buffer.fill(0)
        fixture.stream.fill(buffer, pattern, 24, 48)
        equal(buffer.read(), bytes(24) + expected * (48 // len(expected)) + bytes(24))
    if np is not None:
        buffer.fill(np.float32(1.5))
        equal(buffer.read(), struct.pack("=f", 1.5) * 24)
        buffer.fill(np.array([1, 2], np.uint16))
        equal(buffer.read(), struct.pack("=HH", 1, 2) * 24)
    with raises(TypeError, "float32"):
        buffer.fill(1.5)
    with raises(OverflowError):
        buffer.fill(256)
    with raises(Gpu.Error.INVALID_ARGUMENT):
        buffer.fill(b"")


def test_copy(fixture):
    data = bytes(range(200))
    source = fixture.buffer(data)
    target = fixture.buffer(200)
    target.fill(0)
    target.copy(source)
    equal(target.read(), data)
    target.copy(source, offset=100, source_offset=10, size=20)
    equal(target.read(), data[:100] + data[10:30] + data[120:])
    fixture.stream.fill(target, 0)
    fixture.stream.copy(target, source, 50)
    fixture.stream.copy(target, source, destination_offset=100, source_offset=150)
    equal(target.read(), data[:50] + bytes(50) + data[150:] + bytes(50))
    with raises(Gpu.Error.INVALID_ARGUMENT, "200"):
        target.copy(source, offset=1)


def test_regions(fixture):
    rows = [bytes(range(16 * y, 16 * y + 16)) for y in range(8)]
    source = fixture.buffer(b"".join(rows))
    target = fixture.buffer(100)
    stream = fixture.stream

    stream.fill(target, 0)
    stream.copy_region(target, source, (5, 3), (1, 2, 0, 10), (4, 1, 0, 16))
    got = target.read()
    for y in range(10):
        expected = bytes(10)
        if 2 <= y < 5:
            expected = bytes(1) + rows[y - 1][4:9] + bytes(4)
        equal(got[10 * y:10 * y + 10], expected, f"row {y}")

    region = stream.read_region(source, (4, 2), (3, 5, 0, 16))
    stream.synchronize()
    equal(region.get_data(), rows[5][3:7] + rows[6][3:7])

    stream.fill(target, 0)
    stream.write_region(target, b"abcdef", (3, 2), Gpu.Layout(2, 1, row_pitch=10))
    stream.fill_region(target, b"-", (2, 2), (0, 8, 0, 10))
    got = target.read()
    equal(got[10:30], b"\0\0abc\0\0\0\0\0" + b"\0\0def\0\0\0\0\0")
    equal(got[80:], (b"--" + bytes(8)) * 2)

    with raises(ValueError, "4"):
        stream.copy_region(target, source, (1, 2, 3, 4))
    with raises(GLib.Error):
        stream.copy_region(target, source, (100, 100))


# --- memory objects -----------------------------------------------------------------------------

def test_slices(fixture):
    step = max(fixture.device.base_alignment, 64)
    data = random.Random(3).randbytes(step * 8)
    buffer = fixture.buffer(data)
    part = buffer[step:3 * step]
    equal(len(part), 2 * step)
    equal(part.offset, step)
    equal(part.parent, buffer)
    equal(part.read(), data[step:3 * step])
    equal(buffer[-step:].read(), data[-step:])
    equal(buffer[:step].read(), data[:step])

    part.fill(1)
    equal(buffer.read(), data[:step] + b"\1" * (2 * step) + data[3 * step:])
    inner = part[step:]
    inner.fill(2)
    equal(buffer.read(2 * step, step), b"\2" * step)

    del buffer, part
    gc.collect()
    equal(inner.read(), b"\2" * step)

    with raises(TypeError, "slices"):
        inner[3]
    with raises(ValueError, "2"):
        inner[::2]
    with raises(Gpu.Error.INVALID_ARGUMENT):
        inner[5:5]
    with raises(TypeError):
        iter(inner)


def test_equality(fixture):
    buffer = fixture.buffer(256)
    other = fixture.buffer(256)
    assert buffer == buffer and buffer != other and buffer != 3 and buffer is not None
    assert hash(buffer) == hash(buffer)
    equal(len({buffer, other, buffer}), 2)
    assert bool(buffer)
    try:
        wrapped = Gpu.Buffer.new_wrapped(fixture.context, buffer.native_handle, 256,
                                         Gpu.WrapMode.BORROW)
    except GLib.Error as error:
        assert error.matches(Gpu.error_quark(), Gpu.Error.NOT_SUPPORTED), error.message
        raise Skip("handles cannot be wrapped")
    assert wrapped is not buffer
    equal(wrapped, buffer)
    equal(hash(wrapped), hash(buffer))
    wrapped.fill(3)
    equal(buffer.read(), b"\3" * 256)


def test_repr(fixture):
    buffer = fixture.buffer(1234)
    assert "1234" in repr(buffer) and fixture.device.id in repr(buffer)
    assert fixture.device.id in repr(fixture.stream)
    assert isinstance(buffer.attributes, dict)
    buffer.release()
    assert "released" in repr(buffer)


def test_release(fixture):
    other = fixture.buffer(64)
    program = fixture.program()
    with fixture.buffer(64) as buffer:
        assert not buffer.released
        fixture.stream.fill(buffer, 1)
    assert buffer.released
    buffer.release()
    stream = fixture.stream
    for call in (lambda: buffer.read(), lambda: buffer.read(0, 1), lambda: buffer.write(b"x"),
                 lambda: buffer.fill(0, 0, 1), lambda: buffer.copy(other),
                 lambda: other.copy(buffer, size=1), lambda: buffer.map(size=1),
                 lambda: buffer.slice(0, 1), lambda: buffer.read_into(bytearray(1)),
                 lambda: stream.write(buffer, b"x"), lambda: stream.read(buffer, 0, 1),
                 lambda: stream.fill(buffer, 0, 0, 1), lambda: stream.copy(other, buffer, 1),
                 lambda: stream.launch(program.triple, 1, args=(buffer,))):
        with raises(Gpu.Error.RELEASED):
            call()
    other.fill(5)
    equal(other.read(), b"\5" * 64)


def test_foreign_context(fixture):
    foreign = Gpu.Context.new(fixture.device)
    buffer = Gpu.Buffer(foreign, 64)
    stream = fixture.stream
    kernel = fixture.program().triple
    for call in (lambda: buffer.write(b"x", stream=stream), lambda: buffer.read(stream=stream),
                 lambda: stream.fill(buffer, 0), lambda: stream.write(buffer, b"x"),
                 lambda: stream.launch(kernel, 1, args=(buffer,)),
                 lambda: buffer.map(stream=stream)):
        with raises(Gpu.Error.INVALID_ARGUMENT, "context"):
            call()


def test_bad_sizes(fixture):
    context = fixture.context
    for size in (0, 1 << 62, (1 << 64) - 1):
        with raises(GLib.Error):
            Gpu.Buffer(context, size)
    for size in (-1, 1 << 64):
        with raises(OverflowError):
            Gpu.Buffer(context, size)
    for size in (float("nan"), "10", None):
        with raises(TypeError):
            Gpu.Buffer.new(context, Gpu.MemoryFlags.NONE, size)
    with raises(GLib.Error):
        Gpu.Buffer(context, b"")
    with raises(Gpu.Error.INVALID_ARGUMENT):
        Gpu.Buffer(context, 16, Gpu.MemoryFlags.READ_ONLY | Gpu.MemoryFlags.WRITE_ONLY)

    buffer = fixture.buffer(100)
    huge = (1 << 64) - 1
    for call in (lambda: buffer.read(101), lambda: buffer.read(50, 51),
                 lambda: buffer.read(huge, 1), lambda: buffer.read(1, huge),
                 lambda: buffer.write(b"xx", 99), lambda: buffer.write(b"x", huge),
                 lambda: buffer.fill(0, 50, 51), lambda: buffer.fill(0, huge, huge),
                 lambda: buffer.map(offset=50, size=51), lambda: buffer.slice(huge, 2),
                 lambda: buffer.read_into(bytearray(101)),
                 lambda: fixture.stream.read(buffer, 1, 1 << 62)):
        with raises(Gpu.Error.INVALID_ARGUMENT, "100"):
            call()
    for call in (lambda: buffer.read(-1, 1), lambda: buffer.read(0, -1),
                 lambda: buffer.write(b"x", -1), lambda: buffer.fill(0, -5)):
        with raises(OverflowError):
            call()
    equal(len(buffer.read()), 100)


def test_no_constructor(fixture):
    with raises(TypeError):
        Gpu.Buffer()
    with raises(TypeError):
        Gpu.Stream()


# --- mappings --------------------------------------------------------------------------------------

def test_map(fixture):
    data = bytes(range(256))
    buffer = fixture.buffer(data)
    with buffer.map(Gpu.MapFlags.READ) as mapping:
        equal(len(mapping), 256)
        equal(bytes(mapping), data)
        equal(mapping[3], 3)
        equal(mapping[250:], data[250:])
        view = mapping.view()
        assert view.readonly
        equal(view, data)
        with raises(TypeError):
            mapping[0] = 1
        del view
    assert not mapping.is_mapped()
    assert "unmapped" in repr(mapping)
    with raises(Gpu.Error.RELEASED):
        mapping.view()

    with buffer.map(Gpu.MapFlags.READ | Gpu.MapFlags.WRITE, 64, 64) as mapping:
        mapping[0] = 99
        mapping[10:13] = b"xyz"
    equal(buffer.read(), data[:64] + b"c" + data[65:74] + b"xyz" + data[77:])

    with buffer.map(Gpu.MapFlags.WRITE_INVALIDATE) as mapping:
        mapping[:] = bytes(256)
    equal(buffer.read(), bytes(256))


def test_map_numpy(fixture):
    need_numpy()
    numbers = np.arange(1000, dtype=np.float32)
    buffer = fixture.buffer(numbers)
    with buffer.map() as mapping:
        view = np.asarray(mapping).view(np.float32)
        equal(view.ctypes.data, mapping.address)
        assert np.array_equal(view, numbers)
        view[:] *= 2
        part = view[10:20]
        del view
        with raises(BufferError):
            mapping.unmap()
        assert mapping.is_mapped()
        part[0] = -1
        del part
        assert np.array_equal(mapping.to_numpy(np.float32, (10, 100))[5], numbers[500:600] * 2)
    expected = numbers * 2
    expected[10] = -1
    assert np.array_equal(buffer.to_numpy(np.float32), expected)

    with buffer.map(Gpu.MapFlags.READ) as mapping:
        assert not np.asarray(mapping).flags.writeable
        copied = fixture.buffer(mapping)
    assert np.array_equal(copied.to_numpy(np.float32), expected)


def test_map_lifetime(fixture):
    """Views keep what they show, after everything else is gone."""
    data = random.Random(4).randbytes(4096)
    mapping = fixture.buffer(data).map(Gpu.MapFlags.READ)
    gone = weakref.ref(mapping)
    views = [mapping.view()[100:]]
    if np is not None:
        views.append(np.asarray(mapping)[100:].view(np.uint8))
    del mapping
    gc.collect()
    assert gone() is not None, "a view does not hold its mapping"
    for view in views:
        equal(bytes(view), data[100:])
    del view, views
    gc.collect()
    equal(gone(), None)


def test_map_errors(fixture):
    buffer = fixture.buffer(16)
    with raises(BufferError):
        with buffer.map(Gpu.MapFlags.READ) as mapping:
            view = mapping.view()
    assert mapping.is_mapped()
    del view
    mapping.unmap()
    with raises(KeyError):                      # and not the BufferError that follows from it
        with buffer.map(Gpu.MapFlags.READ) as mapping:
            view = mapping.view()
            raise KeyError
    del view
    with raises(GLib.Error):
        buffer.map(Gpu.MapFlags.READ, 8, 9)


# --- programs, kernels, launches ------------------------------------------------------------------

def test_launch(fixture):
    need_numpy()
    program = fixture.program()
    numbers = np.arange(1000, dtype=np.float32)
    buffer = fixture.buffer(numbers)
    kernel = program.get_kernel("scale")
    fixture.stream.launch(kernel, grid=1000, args=(buffer, np.float32(3)))
    fixture.stream.launch(kernel, (1000,), (10,), (buffer, 0.5))
    fixture.stream.launch(kernel, Gpu.Extent(500), None, [buffer, 2])
    kernel(fixture.stream, 1000, None, buffer, 2.0)
    program.scale(fixture.stream, (1000, 1, 1), None, buffer, struct.pack("=f", 10))
    expected = numbers * 30
    expected[:500] *= 2
    assert np.array_equal(buffer.to_numpy(np.float32), expected)


def test_argument_types(fixture):
    kernel = fixture.program().kinds
    need(fixture, Gpu.Capabilities.FP64)
    buffer = fixture.buffer(72)
    values = (-128, 255, -32768, 65535, -(1 << 31), (1 << 32) - 1, -(1 << 53), 1 << 53, -0.75)
    fixture.stream.launch(kernel, 1, args=(buffer, *values))
    equal(struct.unpack("=9d", buffer.read()), values)
    if np is not None:
        types = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64,
                 np.float32)
        buffer.fill(0)
        fixture.stream.launch(kernel, 1,
                              args=(buffer, *(kind(v) for kind, v in zip(types, values))))
        equal(struct.unpack("=9d", buffer.read()), values)
    buffer.fill(0)
    types = (ctypes.c_int8, ctypes.c_uint8, ctypes.c_int16, ctypes.c_uint16, ctypes.c_int32,
             ctypes.c_uint32, ctypes.c_int64, ctypes.c_uint64, ctypes.c_float)
    fixture.stream.launch(kernel, 1, args=(buffer, *(kind(v) for kind, v in zip(types, values))))
    equal(struct.unpack("=9d", buffer.read()), values)
    fixture.stream.launch(kernel, 1, args=(buffer, True, 2.0, 3, 4, 5, 6, 7, 8, 9))
    equal(struct.unpack("=9d", buffer.read()), (1, 2, 3, 4, 5, 6, 7, 8, 9))


def test_grids(fixture):
    kernel = fixture.program().place
    buffer = fixture.buffer(4 * 3 * 2 * 4)
    fixture.stream.launch(kernel, (4, 3, 2), (2, 1, 1), (buffer,))
    got = struct.unpack("=24I", buffer.read())
    equal(got, tuple(x + 100 * y + 10000 * z + 2000000
                     for z in range(2) for y in range(3) for x in range(4)))


def test_local_and_null(fixture):
    program = fixture.program()
    buffer = fixture.buffer(array.array("I", range(64)))
    fixture.stream.launch(program.reverse, 64, 16, (buffer, Gpu.Local(64)))
    got = struct.unpack("=64I", buffer.read())
    equal(got, tuple(16 * (i // 16) + 15 - i % 16 for i in range(64)))
    fixture.stream.launch(program.is_null, 1, args=(buffer, None))
    equal(buffer.read(0, 4), struct.pack("=I", 1))


def test_launch_errors(fixture):
    program = fixture.program()
    buffer = fixture.buffer(64)
    stream = fixture.stream
    with raises(AttributeError, "no_such_kernel"):
        program.no_such_kernel
    assert "scale" in program.kernels
    equal(program.scale.name, "scale")
    equal(program.scale.n_arguments, 2)
    for arguments in ((), (buffer,), (buffer, 1, 2), (1, 1), (buffer, b"123"), (buffer, buffer),
                      (buffer, 1e300)):
        with raises(Gpu.Error.INVALID_ARGUMENT, "scale"):
            stream.launch(program.scale, 1, args=arguments)
    for value in (-1, 1 << 32, 0.5):
        with raises(Gpu.Error.INVALID_ARGUMENT, "add"):
            stream.launch(program.add, 1, args=(buffer, value))
    for value in ("text", [1], object()):
        with raises(TypeError, "argument 1"):
            stream.launch(program.scale, 1, args=(buffer, value))
    with raises(Gpu.Error.INVALID_ARGUMENT):
        stream.launch(program.triple, 0, args=(buffer,))
    with raises(OverflowError):
        stream.launch(program.triple, -1, args=(buffer,))
    with raises(ValueError):
        stream.launch(program.triple, (1, 2, 3, 4), args=(buffer,))


def test_build_failure(fixture):
    with raises(Gpu.Error.BUILD_FAILED, "no_such_function_anywhere"):
        Gpu.Program(fixture.context,
                    "__kernel void f (__global int *x) { x[0] = no_such_function_anywhere (); }")


# --- streams and events --------------------------------------------------------------------------

def test_two_streams(fixture):
    program = fixture.program()
    add, triple = program.add, program.triple
    one, other = fixture.new_stream(), fixture.new_stream()
    buffer = fixture.buffer(4096)
    one.fill(buffer, 0)
    expected = 0
    for turn in range(200):
        one.launch(add, 1024, args=(buffer, turn))
        other.launch(triple, 1024, args=(buffer,))
        expected = (expected + turn) * 3 % (1 << 32)
    assert one.n_hazard_waits + other.n_hazard_waits > 0
    with one, other:
        pass
    equal(buffer.read(), struct.pack("=I", expected) * 1024)
    assert one.n_submitted >= 201

    free = fixture.buffer(64, Gpu.MemoryFlags.UNTRACKED)
    third, fourth = fixture.new_stream(), fixture.new_stream()
    for turn in range(10):
        third.fill(free, turn)
        fourth.fill(free, turn)
    third.synchronize()
    fourth.synchronize()
    equal((third.n_hazard_waits, fourth.n_hazard_waits), (0, 0))


def test_with_stream(fixture):
    buffer = fixture.buffer(100)
    with fixture.new_stream() as stream:
        for value in range(50):
            stream.fill(buffer, value)
    assert stream.is_idle()
    equal(stream.n_completed, stream.n_submitted)
    with raises(ZeroDivisionError):
        with stream:
            1 / 0


def test_events(fixture):
    stream = fixture.new_stream()
    gate = fixture.gate(stream)
    buffer = fixture.buffer(64)
    stream.fill(buffer, 8)
    event = stream.record()
    equal(gate.is_user(), True)
    equal(event.query(), Gpu.EventStatus.PENDING)
    with raises(Gpu.Error.TIMED_OUT):
        event.wait_timeout(1000)
    gate.complete()
    event.wait()
    equal(event.query(), Gpu.EventStatus.COMPLETE)
    Gpu.Event.wait_all([event, gate])
    equal(buffer.read(), b"\x08" * 64)


def test_event_times(fixture):
    need(fixture, Gpu.Capabilities.PROFILING)
    stream = Gpu.Stream(fixture.context, Gpu.StreamFlags.PROFILING)
    buffer = fixture.buffer(1 << 20)
    first = stream.record(Gpu.EventFlags.TIMING)
    for value in range(5):
        stream.fill(buffer, value)
    last = stream.record(Gpu.EventFlags.TIMING)
    last.wait()
    elapsed = last.get_elapsed(first)
    assert isinstance(elapsed, int) and 0 < elapsed < 30e9, elapsed
    equal(first.get_elapsed(last), -elapsed)
    started = last.get_profiling_time(Gpu.ProfilingPoint.STARTED)
    assert 0 < started <= last.get_profiling_time(Gpu.ProfilingPoint.ENDED)


def test_completed_signal(fixture):
    stream = fixture.new_stream()
    gate = fixture.gate(stream)
    event = stream.record()
    calls = []
    event.connect("completed", lambda *args: calls.append((args[0], threading.get_ident())))
    while GLib.MainContext.default().iteration(False):
        pass
    equal(calls, [])
    gate.complete()
    spin(lambda: calls)
    equal(calls, [(event, threading.get_ident())])


def test_wait_async(fixture):
    stream = fixture.new_stream()
    gate = fixture.gate(stream)
    event = stream.record()
    buffer = fixture.buffer(b"0123456789")
    results = {}

    def take(name):
        def done(source, result):
            results[name] = (source, result, threading.get_ident())
        return done

    event.wait_async(None, take("event"))
    stream.synchronize_async(None, take("stream"))
    buffer.read_bytes_async(stream, 2, 4, None, take("read"))
    buffer.write_bytes_async(stream, 8, GLib.Bytes.new(b"ab"), None, take("write"))
    buffer.fill_async(stream, 0, 1, b"-", None, take("fill"))
    buffer.map_async(stream, Gpu.MapFlags.READ, 0, 10, None, take("map"))
    equal(results, {})
    gate.complete()
    spin(lambda: len(results) == 6)
    assert all(thread == threading.get_ident() for _, _, thread in results.values())
    assert event.wait_finish(results["event"][1])
    assert stream.synchronize_finish(results["stream"][1])
    equal(buffer.read_bytes_finish(results["read"][1]).get_data(), b"2345")
    assert buffer.write_bytes_finish(results["write"][1])
    assert buffer.fill_finish(results["fill"][1])
    with buffer.map_finish(results["map"][1]) as mapping:
        equal(bytes(mapping), b"-1234567ab")


def test_cancel(fixture):
    stream = fixture.new_stream()
    gate = fixture.gate(stream)
    event = stream.record()
    cancellable = Gio.Cancellable()
    results = []
    event.wait_async(cancellable, lambda source, result: results.append(result))
    cancellable.cancel()
    spin(lambda: results)
    try:
        event.wait_finish(results[0])
        raise AssertionError("the wait was not cancelled")
    except GLib.Error as error:
        assert error.matches(Gio.io_error_quark(), Gio.IOErrorEnum.CANCELLED), error.message
        error.__traceback__ = None
    gate.complete()
    event.wait()


def test_user_event_fails(fixture):
    stream = fixture.new_stream()
    gate = fixture.gate(stream)
    buffer = fixture.buffer(64)
    stream.fill(buffer, 1)
    event = stream.record()
    gate.fail("the reason why")
    start = time.monotonic()
    with raises(GLib.Error):
        event.wait()
    with raises(GLib.Error, "the reason why"):
        gate.wait()
    assert time.monotonic() - start < 5
    with raises(GLib.Error):
        event.query()


# --- asyncio -----------------------------------------------------------------------------------------

def run_async(main):
    async def limited():
        return await asyncio.wait_for(main(), DEADLINE)
    return asyncio.run(limited())


def test_asyncio(fixture):
    stream = fixture.new_stream()
    buffer = fixture.buffer(1000)
    data = random.Random(5).randbytes(1000)

    async def main():
        gate = fixture.gate(stream)
        await buffer.write_async(data)
        stream.fill(buffer, 0, 0, 10)
        event = stream.record()
        waiting = [asyncio.ensure_future(wait) for wait in (
            asyncio.wait_for(event, DEADLINE), asyncio.wait_for(stream, DEADLINE),
            buffer.read_async(5, 20, stream))]
        ready = fixture.stream.record()
        await ready
        await asyncio.sleep(0.05)
        assert not any(wait.done() for wait in waiting)
        gate.complete()
        _, _, got = await asyncio.gather(*waiting)
        equal(got, bytes(5) + data[10:25])
        equal(await buffer.read_async(), bytes(10) + data[10:])
        with raises(Gpu.Error.INVALID_ARGUMENT, "1000"):
            await buffer.read_async(0, 1001)
        with raises(OverflowError):
            await buffer.read_async(-1, 1)

    run_async(main)


def test_asyncio_many(fixture):
    """Waits for events that complete in the wrong order do not stand in each other's way."""
    async def main():
        gates = [Gpu.Event.new_user(fixture.context) for _ in range(50)]

        async def chain(index):
            await gates[index]
            if index > 0:
                gates[index - 1].complete()

        tasks = [asyncio.ensure_future(chain(index)) for index in range(50)]
        await asyncio.sleep(0)
        gates[-1].complete()
        await asyncio.gather(*tasks)

    run_async(main)


def test_asyncio_cancel(fixture):
    async def main():
        stream = fixture.new_stream()
        gate = fixture.gate(stream)
        event = stream.record()
        with raises(asyncio.TimeoutError):
            await asyncio.wait_for(event, 0.05)
        gate.complete()
        await event
        failing = Gpu.Event.new_user(fixture.context)
        failing.fail("no luck")
        with raises(GLib.Error, "no luck"):
            await failing

    run_async(main)


# --- lifetimes and threads --------------------------------------------------------------------------

def enqueue_much(fixture, result, gated):
    """1,000 copies and launches whose memory, data, kernels and stream are dropped at once."""
    stream = fixture.new_stream()
    gate = fixture.gate(stream) if gated else None
    program = fixture.program()
    for turn in range(500):
        source = fixture.buffer(4)
        stream.write(source, array.array("I", [turn]))
        stream.copy(result, source, destination_offset=4 * turn)
        del source
        if turn % 10 == 0:
            stream.launch(program.add, 500, args=(result, 1))
        else:
            stream.launch(program.add, 1, args=(fixture.buffer(4), 1))
        if turn % 50 == 0:
            gc.collect()
    return gate


def expected_much():
    numbers = [0] * 500
    for turn in range(500):
        numbers[turn] = turn
        if turn % 10 == 0:
            numbers = [number + 1 for number in numbers]
    return struct.pack("=500I", *numbers)


def test_drop_references(fixture):
    for gated in (False, True):
        if gated:
            need(fixture, Gpu.Capabilities.USER_EVENTS)
        result = fixture.buffer(2000)
        result.fill(0)
        gate = enqueue_much(fixture, result, gated)
        gc.collect()
        if gate is not None:
            gate.complete()
        equal(result.read(), expected_much(), "content")


def test_drop_everything(fixture):
    """Nobody is left to see the result: but nothing crashes, and everything is freed."""
    context = fixture.context
    fixture.context = Gpu.Context.new(fixture.device)
    del context
    result = fixture.buffer(2000)
    gate = enqueue_much(fixture, result, False)
    del result, gate
    fixture.context = fixture.stream = None
    gc.collect()


def test_context_goes_first(fixture):
    context = Gpu.Context.new(fixture.device)
    buffer = Gpu.Buffer(context, b"still there")
    stream = Gpu.Stream(context)
    del context
    gc.collect()
    stream.fill(buffer, b"S", 0, 1)
    equal(buffer.read(stream=stream), b"Still there")


def test_threads(fixture):
    kernel = fixture.program().add
    failures = []

    def work(number):
        try:
            stream = fixture.new_stream()
            for turn in range(30):
                buffer = fixture.buffer(array.array("I", [number] * 256))
                stream.launch(kernel, 256, args=(buffer, turn))
                equal(buffer.read(stream=stream), struct.pack("=I", number + turn) * 256)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert not failures, failures


# --- running -----------------------------------------------------------------------------------------

def matches(device, word):
    """As in test-util.c: an id, a back end, a part of the platform, or one of the name."""
    if word in (device.id, device.backend):
        return True
    if word.startswith(device.backend + ":"):
        try:
            if Gpu.Device.find(word) == device:
                return True
        except GLib.Error:
            pass
        return word.partition(":")[2].lower() in (device.platform or "").lower()
    return word.lower() in device.name.lower()


def choose_devices():
    choice = os.environ.get("GPUMEM_TEST", "").replace(";", ",")
    words = [word.strip() for word in choice.split(",") if word.strip()]
    chosen = []
    for device in Gpu.devices():
        if words:
            if any(matches(device, word) for word in words):
                chosen.append(device)
            continue
        try:
            device.check()
            chosen.append(device)
        except GLib.Error as error:
            print(f"# {device.id}: {error.message}")
    if not chosen:
        sys.exit(f"no device to test: GPUMEM_TEST is '{choice}'")
    return chosen


def check_nothing_lives():
    deadline = time.monotonic() + DEADLINE
    while True:
        gc.collect()
        while GLib.MainContext.default().iteration(False):
            pass
        alive = Gpu.debug_list_live_objects().unpack()
        if not alive:
            return
        assert time.monotonic() < deadline, f"still alive: {alive}"
        time.sleep(0.001)


def run_case(func, device):
    if device is None:
        func()
    else:
        func(Fixture(device))


def main():
    functions = list(globals().items())
    cases = [(name[6:], func, None) for name, func in functions if name.startswith("plain_")]
    for device in choose_devices():
        cases += [(f"{device.id}/{name[5:]}", func, device) for name, func in functions
                  if name.startswith("test_")]
    cases = [case for case in cases if all(word in case[0] for word in sys.argv[1:])]
    failed = 0
    print(f"1..{len(cases)}")
    for number, (name, func, device) in enumerate(cases, 1):
        text = f"ok {number} - {name}"
        try:
            run_case(func, device)
        except Skip as reason:
            text += f" # SKIP {reason}"
        except BaseException:
            failed += 1
            text = "not " + text
            print("# " + traceback.format_exc().replace("\n", "\n# "))
        try:
            check_nothing_lives()
        except AssertionError as error:
            if not text.startswith("not"):
                failed += 1
                text = "not " + text
            print(f"# {error}")
        print(text, flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Devices, memory and mappings from Python, on every device that GPUMEM_TEST selects."""

import array
import ctypes
import gc
import mmap
import random
import struct
import sys
import time
import weakref

from python_util import DEADLINE, Skip, equal, main, need, need_numpy, np, raises, spin
from gi.repository import GLib, GObject, Gpu


# --- without a device ----------------------------------------------------------------------------

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
    for i, name in enumerate(("x", "y", "z", "row_pitch", "slice_pitch")):
        layout = Gpu.Layout(*range(1, 6))
        equal(layout, Gpu.Layout(*range(1, 6)))
        setattr(layout, name, 1 << 40)
        assert layout != Gpu.Layout(*range(1, 6)) and list(layout)[i] == 1 << 40
    assert Gpu.Layout(1) != (1, 0, 0, 0, 0)
    with raises(TypeError, "unhashable"):
        hash(Gpu.Layout())


def plain_arguments():
    arguments = Gpu.Arguments.new()
    arguments.add_int(3)
    arguments.add_double(0.5)
    arguments.add_value(b"1234")
    arguments.add_memory(None)
    arguments.add_local(64)
    arguments.add_uint((1 << 64) - 1)
    equal(arguments.get_length(), 6)
    arguments.clear()
    equal(arguments.get_length(), 0)


# --- devices and contexts ------------------------------------------------------------------------

def test_device(fixture):
    """D6, D13: the attributes of the driver, as a dictionary and by name."""
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
    """D14, D24: contexts, and the amount of free memory."""
    equal(fixture.context.device, fixture.device)
    equal(fixture.context.devices, [fixture.device])
    assert fixture.device.id in repr(fixture.context)
    free_size, total_size, source = fixture.context.get_memory_info()
    assert 0 < free_size <= total_size, (free_size, total_size)
    assert isinstance(source, Gpu.MemoryInfoSource)

    before = fixture.context.allocated_size
    buffer = fixture.buffer(5000)
    assert fixture.context.allocated_size >= before + 5000
    with Gpu.Context(fixture.device) as other:
        assert other is not fixture.context
        data = Gpu.Buffer(other, 100)
        other.default_stream.fill(data, 7)
    equal(data.read(), b"\7" * 100)
    del buffer


def test_context_of_devices(fixture):
    """D14: contexts of a sequence of devices, given as objects or by name. Other arguments are
    rejected."""
    for devices in ([fixture.device], (fixture.device.id,)):
        context = Gpu.Context(devices)
        equal(context.devices, [fixture.device])
        equal(Gpu.Buffer(context, b"abc").read(), b"abc")
    for devices in ([None], [fixture.device, 3], 5, 1.5, {}, object()):
        with raises(TypeError, "Gpu.Device"):
            Gpu.Context(devices)
    with raises(Gpu.Error.INVALID_ARGUMENT):
        Gpu.Context([])
    with raises(Gpu.Error.NO_DEVICE, "nothing-like-it"):
        Gpu.Context([fixture.device, "nothing-like-it"])


def test_limits(fixture):
    """D18: errors of unsupported limits name the limit."""
    for limit in Gpu.Limit.__enum_values__.values():
        try:
            fixture.context.set_limit(limit, 1024)
        except GLib.Error as error:
            assert limit.value_nick in error.message, error.message
            error.__traceback__ = None


# --- data in and out -----------------------------------------------------------------------------

def bytes_like():
    """Yields pairs of a bytes-like object and its bytes."""
    raw = random.Random(1).randbytes(1000)
    yield raw, raw
    yield bytearray(raw), raw
    yield memoryview(raw), raw
    yield memoryview(raw)[100:900], raw[100:900]
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
    yield numbers.T, numbers.tobytes()
    yield np.asfortranarray(numbers), numbers.T.tobytes()
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
    """M7, D26: any bytes-like object is written to the device and read back unchanged."""
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
    """D26: the content of a buffer, by every method of Python."""
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
    equal(buffer.to_numpy("int32", ()).shape, ())
    for shape, offset, expected in ((-1, 0, (1000,)), ((-1,), 40, (990,)), ((10, -1), 0, (10, 100)),
                                    ((-1, 4, 5), 0, (50, 4, 5)), ((2, -1), 4000, (2, 0))):
        array = buffer.to_numpy("int32", shape, offset)
        equal(array.shape, expected)
        assert np.array_equal(array.ravel(), numbers.ravel()[offset // 4:])
    for shape in ((-1, -1), -2, (3, -1), (0, -1)):
        with raises(ValueError, "4000"):
            buffer.to_numpy("int32", shape)
    for shape in (1.5, "12", (1, None)):
        with raises(TypeError):
            buffer.to_numpy("int32", shape)
    for dtype, name in (("S", "|S0"), ("U", "U0"), ("V0", "|V0"), (np.dtype([]), "|V0")):
        for memory in buffer, Gpu.HostMemory(fixture.context, 4000):
            for shape in (), (-1,), (4,):
                with raises(ValueError, name, "0 bytes"):
                    memory.to_numpy(dtype, *shape)
    with buffer.map(Gpu.MapFlags.READ) as mapping:
        equal(mapping.to_numpy("int32", (10, -1)).shape, (10, 100))

    target = np.zeros((10, 100), np.int32)
    target.flags.writeable = False
    with raises(ValueError):
        buffer.read_into(target)


LARGE = 1 << 20


def plain_bytes_over_memory():
    """A GLib.Bytes wraps Python memory, which another thread releases."""
    data = bytearray(b"0123456789")
    address = ctypes.addressof(ctypes.c_char.from_buffer(data))
    context = GLib.MainContext.new()
    calls = []
    held = Gpu.bytes_new_for_address(address + 2, 4, context, lambda *args: calls.append(args))
    equal(held.get_data(), b"2345")
    data[3] = ord("x")
    equal(held.get_data(), b"2x45")
    del held
    equal(calls, [])
    spin(lambda: calls, context)
    equal(len(calls), 1)
    with raises(Gpu.Error.INVALID_ARGUMENT, "10 bytes"):
        Gpu.bytes_new_for_address(0, 10, context, lambda *args: calls.append(args))


def test_write_holds(fixture):
    """M7: large data is written without an additional copy, and released after the write. If the
    write must wait, mutable data is copied, unless the program forbids the copy."""
    need(fixture, Gpu.Capabilities.USER_EVENTS)
    ones, twos = b"\1" * LARGE, b"\2" * LARGE
    for make, copy, expected in ((bytearray, True, ones), (bytearray, False, twos),
                                 (lambda data: memoryview(bytearray(data)), True, ones),
                                 (bytes, True, ones)):
        stream = fixture.new_stream()
        buffer = fixture.buffer(LARGE)
        gate = fixture.gate(stream)
        data = make(ones)
        stream.write(buffer, data, copy=copy)
        if type(data) is not bytes:
            data[:] = twos
        if not copy:
            with raises(BufferError):
                data.append(1)
        gate.complete()
        equal(buffer.read(stream=stream), expected)
    # After the write has completed, the library soon releases the bytearray, so it can be resized.
    # Before this, an append() raises BufferError.
    data = bytearray(ones)
    buffer.write(data)
    fixture.stream.write(buffer, data, copy=False)
    fixture.stream.synchronize()
    deadline = time.monotonic() + DEADLINE
    while True:
        try:
            data.append(1)
            break
        except BufferError:
            assert time.monotonic() < deadline
            time.sleep(0.001)


def test_write_while_busy_elsewhere(fixture):
    """A write on an idle stream does not block the caller, even while another stream uses the
    buffer."""
    need(fixture, Gpu.Capabilities.USER_EVENTS)
    stream = fixture.new_stream()
    buffer = fixture.buffer(LARGE)
    gate = fixture.gate(stream)
    stream.fill(buffer, 1)
    data = bytearray(b"\3" * LARGE)
    fixture.stream.write(buffer, data)
    data[:] = bytes(LARGE)
    target = bytearray(1)
    address = ctypes.addressof(ctypes.c_char.from_buffer(target))
    equal(buffer.try_read_address(None, 0, address, 1), False)
    equal(buffer.try_write_address(stream, 0, address, 1), False)
    equal(target, b"\0")
    gate.complete()
    equal(buffer.read(), b"\3" * LARGE)


def test_read_into_later(fixture):
    data = random.Random(7).randbytes(LARGE)
    buffer = fixture.buffer(data)
    target = bytearray(1000)
    equal(fixture.stream.read_into(buffer, target, 17), 1000)
    fixture.stream.synchronize()
    equal(target, data[17:1017])
    with raises(BufferError):
        fixture.stream.read_into(buffer, b"12")
    with raises(Gpu.Error.INVALID_ARGUMENT, str(LARGE)):
        fixture.stream.read_into(buffer, bytearray(1), LARGE)
    if np is not None:
        numbers = np.zeros(LARGE // 4, np.uint32)
        fixture.stream.read_into(buffer, numbers)
        fixture.stream.synchronize()
        equal(numbers.tobytes(), data)


def best_of(times, func, *args):
    """Returns the seconds of the processor that this process needs for the fastest call."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        func(*args)
        best = min(best, time.process_time() - start)
    return best


def test_speed(fixture):
    """Reads and writes need as little time of the processor as memcpy(). Element-wise conversion,
    which takes 130 ms, would fail the test."""
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
            print(f"# {fixture.device.id}: {what} of 1 MiB from {name}: {seconds * 1e6:.0f} us")
            assert seconds < 0.025, f"{what} from {name} took {seconds} s"
    seconds = best_of(9, buffer.read)
    print(f"# {fixture.device.id}: buffer.read of 1 MiB: {seconds * 1e6:.0f} us")
    assert seconds < 0.025, f"read took {seconds} s"


def test_fill(fixture):
    """M10: patterns of any size."""
    buffer = fixture.buffer(96)
    for pattern, expected in ((0xAB, b"\xab"), (b"abcd", b"abcd"), (b"xyz", b"xyz"),
                              (bytearray(b"12345678"), b"12345678"),
                              (array.array("H", [258]), struct.pack("=H", 258))):
        buffer.fill(0)
        buffer.fill(pattern)
        equal(buffer.read(), expected * (96 // len(expected)))
        with raises(TypeError, "the pattern 1.5 is a float", "pass numpy.float32 (1.5) or"):
            buffer.fill(1.5)
        buffer.fill(0)
        fixture.stream.fill(buffer, pattern, 24, 48)
        equal(buffer.read(), bytes(24) + expected * (48 // len(expected)) + bytes(24))
    if np is not None:
        buffer.fill(np.float32(1.5))
        equal(buffer.read(), struct.pack("=f", 1.5) * 24)
        buffer.fill(np.float64(-2.5))
        equal(buffer.read(), struct.pack("=d", -2.5) * 12)
        fixture.stream.fill(buffer, np.int16(-3))
        equal(buffer.read(), struct.pack("=h", -3) * 48)
        buffer.fill(np.bool_(True))
        equal(buffer.read(), b"\1" * 96)
        buffer.fill(np.array([1, 2], np.uint16))
        equal(buffer.read(), struct.pack("=HH", 1, 2) * 24)
    with raises(TypeError, "float32"):
        buffer.fill(1.5)
    with raises(OverflowError):
        buffer.fill(256)
    with raises(Gpu.Error.INVALID_ARGUMENT):
        buffer.fill(b"")


def test_copy(fixture):
    """M24: copies of byte ranges."""
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
    for numbers in ((100,), (64, 128, 0)):
        with raises(TypeError, "positional"):
            target.copy(source, *numbers)
    for name in ("offset", "source_offset", "size"):
        for bad in (-1, 1 << 64):
            with raises(OverflowError, f"{name} must be 0 to {(1 << 64) - 1}, not {bad}") as got:
                target.copy(source, **{name: bad})
            assert got.text.startswith(name)
        with raises(TypeError, f"{name} must be a whole number"):
            target.copy(source, **{name: 1.5})


def test_regions(fixture):
    """M24: copies of regions with up to three dimensions."""
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


# --- memory objects ------------------------------------------------------------------------------

def sliced(fixture):
    """Returns a buffer, its content, and the alignment of slices."""
    step = max(fixture.device.base_alignment, 64)
    data = random.Random(3).randbytes(step * 8)
    return fixture.buffer(data), data, step


def test_slices_read(fixture):
    """M9: parts of a buffer."""
    buffer, data, step = sliced(fixture)
    part = buffer[step:3 * step]
    equal(len(part), 2 * step)
    equal(part.offset, step)
    equal(part.parent, buffer)
    equal(part.read(), data[step:3 * step])
    equal(buffer[-step:].read(), data[-step:])
    equal(buffer[:step].read(), data[:step])


def test_slices_write(fixture):
    """M9: data written to a slice, or to a slice of a slice, is in the whole."""
    buffer, data, step = sliced(fixture)
    part = buffer[step:3 * step]
    part.fill(1)
    equal(buffer.read(), data[:step] + b"\1" * (2 * step) + data[3 * step:])
    inner = part[step:]
    inner.fill(2)
    equal(buffer.read(2 * step, step), b"\2" * step)


def test_slices_keep(fixture):
    """M9: slices of slices keep the memory of the buffer alive."""
    buffer, data, step = sliced(fixture)
    part = buffer[step:3 * step]
    inner = part[step:]
    del buffer, part
    gc.collect()
    equal(inner.read(), data[2 * step:3 * step])


def test_slices_refuse(fixture):
    inner = fixture.buffer(256)[:]
    with raises(TypeError, "slices"):
        inner[3]
    with raises(ValueError, "2"):
        inner[::2]
    with raises(Gpu.Error.INVALID_ARGUMENT):
        inner[5:5]
    with raises(TypeError):
        iter(inner)


def test_equality(fixture):
    """M5: memory objects with the same handle are equal."""
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


def plain_repr():
    """repr() works for objects that were created by g_object_new() alone."""
    assert "no device" in repr(GObject.new(Gpu.Stream))
    assert "Gpu.Buffer" in repr(GObject.new(Gpu.Buffer))
    equal(repr(Gpu.Local(12)), "Gpu.Local(12)")


def test_repr(fixture):
    buffer = fixture.buffer(1234)
    assert "1234" in repr(buffer) and fixture.device.id in repr(buffer)
    assert fixture.device.id in repr(fixture.stream)
    assert isinstance(buffer.attributes, dict)
    buffer.release()
    assert "released" in repr(buffer)


def test_release(fixture):
    """M3: any use after the release is an error."""
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
    foreign = Gpu.Context(fixture.device)
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


# --- mappings ------------------------------------------------------------------------------------

def test_map(fixture):
    """M25: a mapping is the memory of the buffer itself, not a copy."""
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
    assert not mapping.mapped
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
        assert mapping.mapped
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
    """Views keep their memory after all other objects are freed."""
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
    assert mapping.mapped
    del view
    mapping.unmap()
    with raises(KeyError):                      # and not the BufferError that the live view causes
        with buffer.map(Gpu.MapFlags.READ) as mapping:
            view = mapping.view()
            raise KeyError
    del view
    with raises(GLib.Error):
        buffer.map(Gpu.MapFlags.READ, 8, 9)


if __name__ == "__main__":
    sys.exit(main(globals()))

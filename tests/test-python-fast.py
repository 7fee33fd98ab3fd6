# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C module of the overrides: recycled buffers of pools keep no state of their former use, and
streams, buffers and kernels behave the same with and without the module, on every device that
GPUMEM_TEST selects."""

import asyncio
import functools
import gc
import inspect
import os
import subprocess
import sys
import threading
import time
import weakref

import gi

from python_util import (DEADLINE, Skip, equal, main, need, np, raises, run_threads,
                         run_without_fast)
from gi.module import get_introspection_module
from gi.overrides._gpumem import held, submit_later
from gi.repository import Gio, GLib, GObject, Gpu

try:
    from gi.overrides import _gpumem_fast
except ImportError:
    _gpumem_fast = None

base = get_introspection_module("Gpu")

IS_FAST = _gpumem_fast is not None and os.environ.get("GPUMEM_PYTHON_FAST") != "0"
KINDS = (Gpu.MemoryPoolKind.EXPANDABLE, Gpu.MemoryPoolKind.SEGMENTS, Gpu.MemoryPoolKind.BINS)
ROUNDS = 100000


def need_fast():
    if not IS_FAST:
        raise Skip("the module in C was not built, or is switched off")


def pools(fixture):
    for kind in KINDS:
        try:
            yield Gpu.MemoryPool(fixture.context, kind)
        except GLib.Error as error:
            assert error.matches(Gpu.error_quark(), Gpu.Error.NOT_SUPPORTED), error


def take_spare(pool, size=5000):
    """Returns a recycled buffer."""
    pool.alloc_buffer(size)
    return pool.alloc_buffer(size)


def is_reused(pool, change):
    """Returns whether a buffer is recycled after change() was called for the buffer. PyGObject's
    hash of an object is its address."""
    buffer = take_spare(pool)
    before = hash(buffer)
    change(buffer)
    others = [pool.alloc_buffer(5000) for i in range(3)]
    del buffer
    return hash(pool.alloc_buffer(5000)) == before and len(others) == 3


def test_is_fast(fixture):
    """Checks that buffers are recycled: otherwise the other tests of this file would test
    nothing. The class of a buffer deallocates only its own objects itself."""
    need_fast()
    assert issubclass(Gpu.Buffer, _gpumem_fast.BufferBase)
    assert not issubclass(Gpu.Memory, _gpumem_fast.BufferBase)
    for pool in pools(fixture):
        assert is_reused(pool, lambda buffer: None)
        assert is_reused(pool, lambda buffer: buffer.size)
        for take in pool, pool.allocate, pool.alloc_buffer:
            known = {hash(take(100)) for i in range(100)}
            assert len(known) < 100 and hash(take(100)) in known


def test_data(fixture):
    """The content of buffers is correct even if they are recycled."""
    for pool in pools(fixture):
        live = []
        for number in range(300):
            buffer = pool.alloc_buffer(100 + number % 7 * 300, *[fixture.stream][:number % 2])
            equal((buffer.size, buffer.context), (100 + number % 7 * 300, fixture.context))
            assert not buffer.released
            fixture.stream.fill(buffer, number % 251)
            live.append((buffer, number % 251))
            if len(live) > 5:
                old, value = live.pop(number % 5)
                equal(old.read(), bytes([value]) * old.size)
        for buffer, value in live:
            equal(buffer.read(), bytes([value]) * buffer.size)
        del buffer, old
        live.clear()
        equal((pool.active_blocks, pool.active_bytes), (0, 0))


def test_in_flight(fixture):
    """Submitted work can still use the memory of a freed buffer."""
    for pool in pools(fixture):
        other = fixture.new_stream()
        for number in range(20):
            target = Gpu.Buffer(fixture.context, 5000)
            source = take_spare(pool)
            gate = fixture.gate(fixture.stream, must_hold=False)
            fixture.stream.fill(source, number)
            fixture.stream.copy(target, source)
            del source
            # On another stream, a pool of the kind BINS would wait here until the blocked stream
            # completes.
            stream = fixture.stream if pool.kind == Gpu.MemoryPoolKind.BINS else other
            new = pool.alloc_buffer(5000, stream)
            stream.fill(new, 255)
            gate.complete()
            equal(target.read(), bytes([number]) * 5000)
            equal(new.read(), b"\xff" * 5000)


def test_weak_references(fixture):
    for pool in pools(fixture):
        buffer = take_spare(pool)
        called = []
        weak = weakref.ref(buffer, called.append)
        weak_g = []
        buffer.weak_ref(lambda: weak_g.append(1))
        del buffer
        assert weak() is None and len(called) == 1
        buffer = pool.alloc_buffer(5000)
        assert weak() is None
        equal(len(weak_g), 1)
        buffer.weak_ref(lambda: weak_g.append(2))
        del buffer
        equal(weak_g, [1, 2])
        buffer = pool.alloc_buffer(5000)
        key = {buffer: 1}
        finalizer = weakref.finalize(buffer, called.clear)
        del key, buffer
        assert not finalizer.alive and called == []


def test_attributes(fixture):
    class Token:
        pass

    for pool in pools(fixture):
        for number in range(5):
            buffer = take_spare(pool)
            assert not hasattr(buffer, "token") and buffer.__dict__ == {}
            buffer.token = Token()
            gone = weakref.ref(buffer.token)
            if number % 2:
                del buffer.token
            del buffer
            gc.collect()
            assert gone() is None
        buffer = take_spare(pool)
        buffer.me = buffer
        equal(pool.active_blocks, 1)
        del buffer
        gc.collect()
        equal(pool.active_blocks, 0)
        assert not hasattr(take_spare(pool), "me")


def test_weak_reference_and_attributes(fixture):
    """A weak reference ends although the program used the dictionary of the buffer."""
    for pool in pools(fixture):
        for use in dir, vars:
            buffer = take_spare(pool)
            use(buffer)
            called = []
            weak = weakref.ref(buffer, called.append)
            del buffer
            gc.collect()
            assert weak() is None
            equal(called, [weak])


def test_attributes_kept(fixture):
    """The dictionary of the attributes of a buffer, kept by the program, is not that of a later
    buffer."""
    for pool in pools(fixture):
        for number in range(5):
            buffer = take_spare(pool)
            attributes = buffer.__dict__
            del buffer
            attributes["late"] = 1
            assert not hasattr(take_spare(pool), "late")


def test_object_data(fixture):
    """Bindings of properties end with the buffer."""
    class Target(GObject.Object):
        size = GObject.Property(type=GObject.TYPE_UINT64)

    for pool in pools(fixture):
        target = Target()
        buffer = take_spare(pool)
        buffer.bind_property("size", target, "size", GObject.BindingFlags.SYNC_CREATE)
        equal(target.size, 5000)
        del buffer
        buffer = pool.alloc_buffer(700)
        buffer.notify("size")
        equal((target.size, buffer.size), (5000, 700))


def test_blocked_handlers(fixture):
    """A blocked handler is disconnected with the buffer, and its closure is freed."""
    class Token:
        pass

    for pool in pools(fixture):
        buffer = take_spare(pool)
        token = Token()
        gone = weakref.ref(token)
        handler = buffer.connect("released", lambda *args, token=token: None)
        buffer.handler_block(handler)
        del token, buffer
        gc.collect()
        assert gone() is None
        assert not pool.alloc_buffer(5000).handler_is_connected(handler)


def test_signals(fixture):
    """Signal handlers are not called for the next buffer that uses the object."""
    for pool in pools(fixture):
        called = []
        for number in range(5):
            buffer = take_spare(pool)
            buffer.connect("released", lambda *args: called.append("released"))
            buffer.connect("notify::size", lambda *args: called.append("notify"))
            if number == 0:
                buffer.notify("size")
                buffer.release()
                equal(called, ["notify", "released"])
                called.clear()
        del buffer
        buffer = take_spare(pool)
        buffer.notify("size")
        buffer.release()
        equal(called, [])


def test_released(fixture):
    for pool in pools(fixture):
        with take_spare(pool) as buffer:
            handle = buffer.native_handle
            assert handle != 0
        equal((buffer.released, pool.active_blocks), (True, 0))
        del buffer
        buffer = pool.alloc_buffer(5000)
        assert not buffer.released and buffer.native_handle != 0
        assert buffer == buffer and hash(buffer) == hash(buffer) and repr(buffer)


def test_other_references(fixture):
    """Slices, containers and references in C keep the memory allocated."""
    for pool in pools(fixture):
        buffer = take_spare(pool)
        fixture.stream.fill(buffer, 42)
        part = buffer[1024:2048]
        del buffer
        other = pool.alloc_buffer(5000)
        fixture.stream.fill(other, 1)
        equal(part.read(), b"\x2a" * 1024)
        equal(pool.active_blocks, 2)
        del part
        equal(pool.active_blocks, 1)

        arguments = Gpu.Arguments.new()
        buffer = take_spare(pool)
        arguments.add_memory(buffer)
        handle = buffer.native_handle
        del buffer
        equal(pool.active_blocks, 2)
        others = [pool.alloc_buffer(5000) for i in range(3)]
        assert handle not in [buffer.native_handle for buffer in others]
        del arguments, others
        equal(pool.active_blocks, 1)
        del other

        store = Gio.ListStore.new(Gpu.Buffer)
        for number in range(5):
            buffer = take_spare(pool)
            store.append(buffer)
            fixture.stream.fill(buffer, number)
            address = hash(buffer)
            del buffer
            assert address not in [hash(pool.alloc_buffer(5000)) for i in range(3)]
        for number in range(5):
            equal(store[number].read(), bytes([number]) * 5000)
            equal((type(store[number]), store[number].__dict__), (Gpu.Buffer, {}))
        equal(pool.active_blocks, 5)
        store.remove_all()
        equal(pool.active_blocks, 0)


def count_class_references(make):
    make()
    before = sys.getrefcount(Gpu.Buffer)
    for number in range(100):
        make()
    return sys.getrefcount(Gpu.Buffer) - before


def test_subclasses(fixture):
    """The finalizer of an instance of a subclass is called for each instance. The C module keeps no
    references to classes."""
    finalized = []
    # Only the overrides may derive from a final class. Call __new__ only: __init__ would try to
    # register a GObject subclass.
    body = {"__module__": "gi.overrides.test", "__del__": lambda self: finalized.append(1)}
    mine = type.__new__(type(Gpu.Buffer), "Mine", (Gpu.Buffer,), body)

    for pool in pools(fixture):
        before = sys.getrefcount(mine)
        for number in range(10):
            buffer = take_spare(pool)
            equal(type(buffer), Gpu.Buffer)
            buffer.__class__ = mine
            del buffer
            equal((len(finalized), pool.active_blocks), (number + 1, 0))
        equal(sys.getrefcount(mine), before)
        finalized.clear()
        # PyGObject keeps references to the class for each wrapper that it makes.
        plain = count_class_references(lambda: Gpu.Buffer(fixture.context, 5000))
        pooled = count_class_references(lambda: pool.alloc_buffer(5000))
        assert pooled <= plain + 2, (pooled, plain)


def test_plain_buffers(fixture):
    """Buffers without a pool are created and freed as usual."""
    for number in range(100):
        buffer = Gpu.Buffer(fixture.context, 100)
        buffer.fill(number)
        equal(buffer.read(), bytes([number]) * 100)
        gone = weakref.ref(buffer)
        del buffer
        assert gone() is None
    equal(Gpu.debug_list_live_objects().unpack().get("buffer", 0), 0)


def test_pool_first(fixture):
    """A pool may be freed before its buffers, and before its recycled objects."""
    for pool in pools(fixture):
        live = [pool.alloc_buffer(1000) for i in range(100)]
        for number, buffer in enumerate(live):
            fixture.stream.fill(buffer, number)
        del live[50:], buffer
        del pool
        gc.collect()
        for number, buffer in enumerate(live):
            equal(buffer.read(), bytes([number]) * 1000)
        del live, buffer
        gc.collect()
        equal(Gpu.debug_list_live_objects().unpack().get("memory-pool", 0), 0)


def test_errors(fixture):
    """Errors are the same as without the C module, and do not damage the recycled object."""
    for pool in pools(fixture):
        for wrong in -1, 1 << 64:
            with raises(OverflowError):
                pool.alloc_buffer(wrong)
        for args in (("many",), (10, fixture.context), (), (10, None, 10, 10)):
            with raises(TypeError):
                pool.alloc_buffer(*args)
        with raises(TypeError):
            Gpu.MemoryPool.alloc_buffer(fixture.context, 10)
        assert pool.alloc_buffer(0) is None
        equal(pool.alloc_buffer(10, None).size, 10)
        equal(pool.alloc_buffer(size=10, stream=fixture.stream).size, 10)
        equal(pool.alloc_buffer(10, stream=None).size, 10)
        with raises(TypeError, "size", "True"):
            pool.alloc_buffer(True)
        if np is not None:
            equal(pool.alloc_buffer(np.int32(11)).size, 11)
        stranger = Gpu.Context(fixture.device).default_stream
        if stranger.context is not fixture.context:
            with raises(Gpu.Error.INVALID_ARGUMENT, "another context"):
                pool.alloc_buffer(10, stranger)
        del stranger
        pool.limit = 64 << 20
        fixture.context.synchronize()
        pool.free_held()
        take_spare(pool, 100)
        with raises(Gpu.Error.OUT_OF_DEVICE_MEMORY):
            pool.alloc_buffer(256 << 20)
        buffer = pool.alloc_buffer(100)
        fixture.stream.fill(buffer, 9)
        equal(buffer.read(), b"\x09" * 100)


# --- streams, buffers and launches ---------------------------------------------------------------

def test_copy(fixture):
    stream = fixture.stream
    source = Gpu.Buffer(fixture.context, bytes(range(200)))
    for size, to, at in ((200, 0, 0), (10, 5, 7), (100, 100, 100), (0, 3, 200)):
        expected = bytearray(200)
        expected[to:to + size] = bytes(range(200))[at:at + size]
        for call in (lambda target: stream.copy(target, source, size, to, at),
                     lambda target: stream.copy(target, source, size=size, source_offset=at,
                                                destination_offset=to),
                     lambda target: stream.copy(source=source, destination=target, size=size,
                                                destination_offset=to, source_offset=at)):
            target = Gpu.Buffer(fixture.context, bytes(200))
            if size == 0:
                stream.copy(target, source, size, to, at)
                continue
            equal(call(target), True)
            equal(target.read(), bytes(expected))
    target = Gpu.Buffer(fixture.context, bytes(200))
    stream.copy(target, source, None, 50, 50)
    equal(target.read(), bytes(50) + bytes(range(50, 200)))
    for args in ((target, source, 300), (target, source, 100, 150), (target, source, 100, 0, 101)):
        with raises(Gpu.Error.INVALID_ARGUMENT, "Stream.copy", "200 bytes"):
            stream.copy(*args)
    with raises(OverflowError):
        stream.copy(target, source, -1)
    for args, names in (((target,), {}), ((target, 5), {}), ((), {}), ((target, source), {"to": 1}),
                        ((target, source, 1), {"size": 1}), ((target, source, "many"), {}),
                        ((target, source, 1, 0, 0, 0), {})):
        with raises(TypeError):
            stream.copy(*args, **names)
    with raises(TypeError):
        Gpu.Stream.copy(fixture.context, target, source)
    source.release()
    with raises(Gpu.Error.RELEASED, "Stream.copy"):
        stream.copy(target, source)


def test_events(fixture):
    stream = fixture.stream
    for event in (stream.record(), stream.record(Gpu.EventFlags.NONE),
                  stream.record(flags=Gpu.EventFlags.NONE)):
        equal(type(event), Gpu.Event)
        for args, kwargs in (((), {}), ((None,), {}), ((), {"cancellable": None}),
                             ((Gio.Cancellable(),), {}), ((), {"timeout": None}),
                             ((), {"timeout": 30}), ((None, None), {})):
            equal(event.wait(*args, **kwargs), True)
    for call in (lambda: stream.record("now"), lambda: stream.record(0, 1), lambda: event.wait(1),
                 lambda: event.wait(None, None, None)):
        with raises(TypeError):
            call()
    event = fixture.user_event()
    cancellable = Gio.Cancellable()
    cancellable.cancel()
    try:
        event.wait(cancellable)
    except GLib.Error as error:
        assert error.matches(Gio.io_error_quark(), Gio.IOErrorEnum.CANCELLED), error
    else:
        raise AssertionError("the wait was not cancelled")
    event.complete()
    equal(event.wait(), True)


def test_new(fixture):
    context = fixture.context
    for size in 1, 64, 4097:
        for buffer in (Gpu.Buffer(context, size), Gpu.Buffer(context, size_or_data=size),
                       Gpu.Buffer(context, size, Gpu.MemoryFlags.READ_ONLY),
                       Gpu.Buffer(context, bytes(size)), Gpu.Buffer(context, bytearray(size))):
            equal((type(buffer), buffer.size, buffer.context), (Gpu.Buffer, size, context))
    for stream in (Gpu.Stream(context), Gpu.Stream(context, Gpu.StreamFlags.NONE),
                   Gpu.Stream(context=context)):
        equal((type(stream), stream.context), (Gpu.Stream, context))
    for kind in Gpu.Buffer, Gpu.Svm:
        for args in ((), (context,), (context, None), (context, "64"), (fixture.device, 64),
                     (None, 64), (context, True), (context, 1.5), (context, 64, 0, 0, 0, 0)):
            with raises(TypeError):
                kind(*args)
        for size in -1, 1 << 64:
            with raises(OverflowError, str(size)):
                kind(context, size)
    with raises(Gpu.Error.INVALID_ARGUMENT):
        Gpu.Buffer(context, 0)
    for args in ((), (None,), (64,), (context, "now"), (context, 0, 0)):
        with raises(TypeError):
            Gpu.Stream(*args)


def test_slices(fixture):
    step = fixture.device.base_alignment
    data = bytes(range(64)) * 128
    assert len(data) % step == 0, step
    buffer = fixture.buffer(data)
    for key in (slice(None), slice(0, 64), slice(step), slice(step, None), slice(-step, None),
                slice(0, -1), slice(step, 10000), slice(step, step + 1), slice(0, 10, 1)):
        equal(buffer[key].read(), data[key])
    if np is not None:
        equal(buffer[np.int64(0):np.int32(64)].read(), data[:64])
    for key in (slice(64, 64), slice(64, 0), slice(9000, 9500)):
        with raises(Gpu.Error.INVALID_ARGUMENT):
            buffer[key]
    for key in (5, "a", None, slice("a", None), slice(0, 1.5), (0, 1)):
        with raises(TypeError):
            buffer[key]
    with raises(ValueError, "step"):
        buffer[::2]
    buffer.release()
    with raises(Gpu.Error.RELEASED):
        buffer[0:64]


def is_exported(data):
    """Returns whether the memory of a bytearray is in use."""
    try:
        data.append(0)
    except BufferError:
        return True
    data.pop()
    return False


def wait_until_released(data):
    deadline = time.monotonic() + DEADLINE
    while is_exported(data):
        assert time.monotonic() < deadline, "the memory is still in use"
        time.sleep(0.001)


def test_held(fixture):
    """The memory of data is in use for the duration of a call that waits. After an interrupted
    wait, it is in use until the work has completed, which still fills a target."""
    stream, buffer = fixture.stream, fixture.buffer(bytes(range(64)))
    for size in 64, 200000:
        data = bytearray(size)
        with held(data) as kept:
            equal((kept.size, kept.bytes.get_size()), (size, size))
            assert is_exported(data)
        wait_until_released(data)
    gate = fixture.gate(stream)
    target = bytearray(64)
    with raises(KeyboardInterrupt), held(target, True) as kept:
        base.Stream.read_into(stream, buffer, 0, kept.bytes)
        del kept
        raise KeyboardInterrupt
    assert is_exported(target)
    gate.complete()
    stream.synchronize()
    wait_until_released(target)
    equal(target, bytes(range(64)))
    for wrong in "text", 5, None:
        with raises(TypeError):
            held(wrong)
    with raises(BufferError):
        held(b"read-only", True)


def test_views_of_mapping(fixture):
    """Not even the library itself unmaps memory while a view of it exists."""
    buffer = fixture.buffer(bytes(range(64)))
    for flags, is_read_only in ((Gpu.MapFlags.READ, True), (Gpu.MapFlags.WRITE, False)):
        mapping = buffer.map(flags)
        view = mapping.view()
        equal((view.readonly, view.nbytes, view.format), (is_read_only, 64, "B"))
        equal(bytes(view[1:4]), b"\1\2\3")
        with raises(BufferError):
            mapping.unmap()
        with raises(Gpu.Error.BUSY):
            base.Mapping.unmap(mapping)
        references = sys.getrefcount(mapping)
        view.release()
        equal(sys.getrefcount(mapping), references - 1)
        assert base.Mapping.unmap(mapping)
        with raises(Gpu.Error.RELEASED):
            mapping.view()


def test_view_in_mapping(fixture):
    """The garbage collector frees a mapping that holds a view of itself."""
    buffer = fixture.buffer(bytes(64))
    mapping = buffer.map()
    mapping.own = mapping.view()
    gone = weakref.ref(mapping)
    del mapping
    gc.collect()
    assert gone() is None
    buffer.write(b"1")


def test_references_of_held(fixture):
    image_data = bytearray(64)
    before = sys.getrefcount(image_data)
    for i in range(1000):
        with held(image_data, True) as kept:
            assert kept.bytes.get_size() == 64
        del kept
    wait_until_released(image_data)
    equal(sys.getrefcount(image_data), before)
    with held(image_data) as kept:
        freed_later = kept.bytes
    image_data.append(1)
    del freed_later


def test_fill(fixture):
    buffer = Gpu.Buffer(fixture.context, bytes(64))
    stream = fixture.stream
    patterns = [(7, b"\7"), (b"abcd", b"abcd"), (bytearray(b"xy"), b"xy"),
                (memoryview(b"12345678"), b"12345678"), (True, b"\1")]
    if np is not None:
        patterns += [(np.uint32(0x01020304), np.uint32(0x01020304).tobytes()),
                     (np.float64(1.5), np.float64(1.5).tobytes()),
                     (np.array([[1, 2]], np.uint8), b"\1\2"),
                     (np.array([[1, 2], [3, 4]], np.uint8, order="F"), b"\1\3\2\4")]
    for pattern, data in patterns:
        for offset, size in ((0, 64), (8, 48), (16, 16)):
            expected = bytearray(64)
            expected[offset:offset + size] = data * (size // len(data))
            for call in (lambda: stream.fill(buffer, pattern, offset, size),
                         lambda: stream.fill(buffer, pattern, size=size, offset=offset)):
                stream.fill(buffer, 0)
                call()
                equal(buffer.read(), bytes(expected))
    for wrong in 256, -1:
        with raises(OverflowError):
            stream.fill(buffer, wrong)
    for wrong in 1.5, "text", None:
        with raises(TypeError):
            stream.fill(buffer, wrong)
    if np is not None:
        with raises(TypeError):
            stream.fill(buffer, np.array([None]))
    with raises(Gpu.Error.INVALID_ARGUMENT, "Stream.fill"):
        stream.fill(buffer, 1, 60, 5)


def sources(size):
    data = bytes(i * 7 % 256 for i in range(size))
    yield data, data
    yield bytearray(data), data
    yield memoryview(data), data
    if np is not None:
        array = np.frombuffer(data, np.uint8)
        yield array, data
        yield array.reshape(2, -1).T, data
        yield array.view(np.uint16), data
    yield GLib.Bytes.new(data), data


def test_data_of_hosts(fixture):
    """Writes and reads small and large data with every function, on idle streams and behind other
    work."""
    for size in 64, 200000:
        buffer = Gpu.Buffer(fixture.context, size + 8)
        for data, expected in sources(size):
            for write in (lambda: fixture.stream.write(buffer, data, 8),
                          lambda: fixture.stream.write(data=data, destination=buffer, offset=8),
                          lambda: fixture.stream.write(buffer, data, 8, copy=False),
                          lambda: buffer.write(data, 8),
                          lambda: buffer.write(data, stream=fixture.stream, offset=8)):
                fixture.stream.fill(buffer, 255)
                write()
                target = bytearray(size)
                equal(buffer.read_into(target, 8), size)
                equal(bytes(target), expected)
                equal(buffer.read(8), expected)
                equal(buffer.read(offset=4, size=8), b"\xff" * 4 + expected[:4])
        data = bytearray(b"a" * size)
        fixture.stream.write(buffer, data)
        data[:] = b"b" * size
        equal(buffer.read(0, size), b"a" * size)
    equal(buffer.read(size=0), b"")
    for call in (lambda: buffer.write(b"12", size + 7), lambda: buffer.read(size + 7, 2),
                 lambda: buffer.read_into(bytearray(9), size), lambda: buffer.read(0, size + 9),
                 lambda: fixture.stream.write(buffer, b"12", size + 7)):
        with raises(Gpu.Error.INVALID_ARGUMENT, f"{size + 8}"):
            call()
    for wrong in "text", 5, None:
        with raises(TypeError):
            buffer.write(wrong)
    with raises(BufferError):
        buffer.read_into(b"read-only")
    with raises(TypeError):
        buffer.read(stream=5)
    if np is not None:
        with raises(ValueError, "contiguous"):
            buffer.read_into(np.zeros((4, 4), np.uint8)[:, ::2])


def test_properties(fixture):
    buffer = Gpu.Buffer(fixture.context, 100)
    equal((buffer.size, len(buffer), buffer.released), (100, 100, False))
    equal(buffer.native_handle, buffer.get_native_handle())
    equal(buffer.device_address, buffer.get_device_address())
    with raises(AttributeError):
        buffer.size = 5
    buffer.release()
    equal((buffer.size, buffer.native_handle, buffer.device_address, buffer.released),
          (100, 0, 0, True))


def test_synchronize(fixture):
    stream = fixture.new_stream()
    equal(stream.synchronize(), True)
    equal(stream.synchronize(None), True)
    equal(stream.synchronize(cancellable=Gio.Cancellable()), True)
    with raises(TypeError):
        stream.synchronize(5)
    gate = fixture.gate(stream, must_hold=False)
    buffer = Gpu.Buffer(fixture.context, 100)
    stream.fill(buffer, 1)
    threading.Timer(0.05, gate.complete).start()
    stream.synchronize()
    equal(stream.n_completed, stream.n_submitted)


def test_launch(fixture):
    """Numbers of Python and NumPy are converted to the type of the kernel's parameter."""
    program = fixture.program()
    add, scale, kinds = program.add, program.scale, program.kinds
    stream = fixture.stream
    numbers = Gpu.Buffer(fixture.context, 4 * 64)
    values = [1, 0xffffffff]
    if np is not None:
        values += [np.uint32(3), np.int64(4), np.uint8(5), np.bool_(True)]
    for value in values:
        for call in (lambda: stream.launch(add, 64, None, (numbers, value)),
                     lambda: stream.launch(add, (64,), (8,), args=[numbers, value]),
                     lambda: stream.launch(kernel=add, args=(numbers, value), grid=(64, 1, 1)),
                     lambda: add(stream, 64, None, numbers, value),
                     lambda: add(stream, 64, 8, numbers, value, shared_size=0),
                     lambda: stream.launch_prepared(add.prepare(64, 8, (numbers, value)))):
            stream.fill(numbers, 0)
            equal(call(), True)
            equal(numbers.read(), (int(value) % (1 << 32)).to_bytes(4, sys.byteorder) * 64)
    for value in [2, 2.0] + ([np.float32(2), np.float64(2), np.int8(2)] if np is not None else []):
        stream.fill(numbers, b"\0\0\x40\x40")
        scale(stream, 64, None, numbers, value)
        equal(numbers.read(), b"\0\0\xc0\x40" * 64)
    out = Gpu.Buffer(fixture.context, 8 * 9)
    limits = (-128, 255, -32768, 65535, -1 << 31, (1 << 32) - 1, -1 << 62, 1 << 63, 0.5)
    kinds(stream, 1, None, out, *limits)
    equal(memoryview(out.read()).cast("d").tolist(), [float(value) for value in limits])
    sizes = Gpu.Buffer(fixture.context, 4 * 64)
    stream.launch(program.place, (4, 4, 4), (2, 1, 1), (sizes,))
    equal(sizes.read(252), (2030303).to_bytes(4, sys.byteorder))
    program.place(stream, (16, 4), (8, 2), sizes)
    equal(sizes.read(252), (8000315).to_bytes(4, sys.byteorder))
    check_refused(fixture, add, numbers)


def check_refused(fixture, add, numbers):
    stream = fixture.stream
    for args in ((numbers, 1 << 32), (numbers, -1 << 40), (numbers,), (numbers, 1, 2), (1, 1),
                 (numbers, 1.5)):
        with raises(Gpu.Error.INVALID_ARGUMENT):
            stream.launch(add, 64, None, args)
    for grid in "many", None, 1.5, b"1", {}:
        with raises(TypeError):
            stream.launch(add, grid, None, (numbers, 1))
    for grid in (), (1, 1, 1, 1):
        with raises(ValueError):
            add(stream, grid, None, numbers, 1)
    for wrong in (lambda: add(stream), lambda: stream.launch(add), lambda: add(), lambda:
                  stream.launch_prepared(5), lambda: stream.launch(add, 64, args=(numbers, "a"))):
        with raises(TypeError):
            wrong()
    released = Gpu.Buffer(fixture.context, 256)
    released.release()
    with raises(Gpu.Error.RELEASED):
        add(stream, 64, None, released, 1)


def plain_signatures():
    """The methods have signatures for inspection."""
    names = list(inspect.signature(Gpu.Stream.copy).parameters)
    equal(names, ["self", "destination", "source", "size", "destination_offset", "source_offset"])
    if IS_FAST:
        equal(list(inspect.signature(Gpu.MemoryPool.alloc_buffer).parameters),
              ["self", "size", "stream"])


# --- all of it -----------------------------------------------------------------------------------

def test_threads(fixture):
    """Several threads allocate, fill, check and drop buffers, and pass some buffers to other
    threads."""
    def work(pool, number, exchange):
        stream = fixture.new_stream()
        for i in range(200):
            buffer = pool.alloc_buffer(64 + number * 64, stream)
            stream.fill(buffer, number)
            if i % 3 == 0:
                exchange[i % len(exchange)] = buffer
            if i % 20 == 0:
                equal(buffer.read(stream=stream), bytes([number]) * buffer.size)

    for pool in pools(fixture):
        exchange = [None] * 5
        run_threads(4, lambda number: work(pool, number + 1, exchange))
        exchange.clear()
        equal(pool.active_blocks, 0)


def test_closed_elsewhere(fixture):
    """Another thread frees the pool while this thread drops its buffers."""
    for number in range(30):
        pool = Gpu.MemoryPool(fixture.context)
        live = [pool.alloc_buffer(100) for i in range(60)]
        holder = [pool]
        thread = threading.Thread(target=holder.clear)
        del pool
        thread.start()
        live.clear()
        thread.join()


def test_drop_elsewhere(fixture):
    """A buffer may be dropped on another thread, whose pool then recycles the object."""
    for pool in pools(fixture):
        for number in range(20):
            holder = [take_spare(pool)]
            fixture.stream.fill(holder[0], number)
            thread = threading.Thread(target=holder.clear)
            thread.start()
            thread.join()
            buffer = pool.alloc_buffer(5000)
            fixture.stream.fill(buffer, 255)
            equal(buffer.read(), b"\xff" * 5000)
            del buffer
        equal(pool.active_blocks, 0)


def test_rounds(fixture):
    """After many buffers, no objects stay alive and memory does not grow."""
    pool = Gpu.MemoryPool(fixture.context)
    stream = fixture.stream
    take_spare(pool)
    managed = pool.managed_bytes
    objects = len(gc.get_objects())
    buffers = Gpu.debug_list_live_objects().unpack().get("buffer", 0)
    for i in range(ROUNDS):
        pool.alloc_buffer(5000, stream)
    assert pool.managed_bytes <= 2 * managed
    assert abs(len(gc.get_objects()) - objects) < 100
    equal(pool.active_blocks, 0)
    equal(Gpu.debug_list_live_objects().unpack().get("buffer", 0), buffers)


def test_read_while_moving(fixture):
    """Reads succeed while another thread spills and restores the buffer, also behind other work."""
    size = 1 << 20
    stream = fixture.new_stream()
    buffer = fixture.buffer(size)
    other = fixture.buffer(size)
    buffer.fill(7)
    expected = bytes([7]) * size
    is_done = threading.Event()
    failures = []

    def move():
        try:
            while not is_done.is_set():
                buffer.spill()
                buffer.unspill()
        except BaseException as error:
            failures.append(error)

    async def read():
        target = bytearray(size)
        await buffer.read_into_async(target, 0, stream)
        return await buffer.read_async(0, size, stream), target

    thread = threading.Thread(target=move)
    thread.start()
    try:
        for i in range(50):
            target = bytearray(size)
            stream.fill(other, i)
            buffer.read_into(target, 0, stream)
            stream.fill(other, i)
            assert target == expected == buffer.read(0, size, stream)
            stream.fill(other, i)
            equal(asyncio.run(read()), (expected, expected))
    finally:
        is_done.set()
        thread.join(DEADLINE)
    equal(failures, [])


def test_data_after_wait(fixture):
    """A call that waits releases its data before it returns, also behind pending work: the program
    can resize them."""
    size = 1 << 17
    buffer, host = fixture.buffer(size), Gpu.HostMemory(fixture.context, size)

    def transfer(call, order, data):
        call(np.frombuffer(data, np.uint8).reshape(array.shape, order=order))

    calls = [host.write, lambda data: buffer.write_async(data, progress=lambda *args: None)]
    memories = [buffer]
    if fixture.device.capabilities & Gpu.Capabilities.IMAGES:
        memories.append(Gpu.Image(fixture.context, "rgba-unorm8", (256, 128)))
    for memory in memories:
        calls += [memory.write, memory.read_into, memory.write_async, memory.read_into_async]
    if np is not None:
        for order in "CF":
            array = Gpu.Array.zeros(fixture.context, (2, size // 2), "u1", order=order)
            calls += [functools.partial(transfer, call, order)
                      for call in (array.write, array.read_into)]

    async def use():
        for call in calls:
            for number in range(10):
                data = bytearray(size)
                fixture.stream.fill(buffer, number)
                result = call(data)
                if inspect.isawaitable(result):
                    await result
                data.append(number)             # raises BufferError while the data are in use

    asyncio.run(use())


def is_free(data):
    """Returns whether nothing uses the data. Without the C module, another thread releases them
    after a failure."""
    end = time.monotonic() + (0 if IS_FAST else DEADLINE)
    while True:
        try:
            data.append(0)
            return True
        except BufferError:
            if time.monotonic() >= end:
                return False
            time.sleep(0.001)


def test_data_after_failure(fixture):
    """A call that fails before it submits work releases its data before it returns. With the C
    module, this holds even while the program keeps the exception."""
    stream, buffer = fixture.stream, fixture.buffer(1 << 16)
    calls = [lambda data: stream.read_into(buffer, data),
             lambda data: stream.read_into(buffer, data, offset=1 << 40),
             lambda data: stream.read_region_into(buffer, data, (1 << 30, 1)),
             buffer.read_into, buffer.write, buffer.read_into_async, buffer.write_async,
             lambda data: buffer.read_into_async(data, progress=lambda *args: None),
             lambda data: buffer.write_async(data, offset="0")]

    async def use(call):
        data = bytearray(1 << 17)
        try:
            result = call(data)
            if inspect.isawaitable(result):
                await result
        except (TypeError, ValueError):
            assert not IS_FAST or is_free(data), call
        else:
            raise AssertionError(f"{call} succeeded")
        assert is_free(data), call

    gc.disable()                                # which would hide a cycle
    try:
        for call in calls:
            asyncio.run(use(call))
    finally:
        gc.enable()


def test_data_after_cancel(fixture):
    """A write that is cancelled before another thread begins it releases its data at once, and
    never begins."""
    buffer = fixture.buffer(1 << 17)
    buffer.fill(7)
    is_blocked, may_end = threading.Event(), threading.Event()

    def block(*args):
        is_blocked.set()
        may_end.wait(DEADLINE)

    async def use():
        data = bytearray(1 << 17)
        submit_later(block)
        assert await asyncio.to_thread(is_blocked.wait, DEADLINE)
        task = asyncio.ensure_future(buffer.write_async(data))
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            assert is_free(data)
        else:
            raise AssertionError("the write was not cancelled")
        may_end.set()
        await buffer.write_async(b"9", 5)       # behind the cancelled write

    try:
        asyncio.run(use())
    finally:
        may_end.set()
    equal(buffer.read(0, 7), b"\7" * 5 + b"9" + b"\7")


CHILD = """
import sys
import gi
gi.require_version("Gpu", "1.0")
from gi.repository import Gpu
import gi.overrides
pool = Gpu.MemoryPool(Gpu.Context("host"))
pool.alloc_buffer(100)
buffers = [pool.alloc_buffer(100) for i in range(10)]
del buffers[5:]
buffer = pool(100)
buffer.fill(7)
assert buffer.read() == bytes([7]) * 100
print("gi.overrides._gpumem_fast" in sys.modules)
buffers[0].buffers = buffers
sys.kept = buffers[1]
"""


def run_child(text, **environment):
    result = subprocess.run([sys.executable, "-c", text], env=dict(os.environ, **environment),
                            capture_output=True, text=True, timeout=300)
    equal((result.returncode, result.stderr), (0, ""), result.stdout)
    return result.stdout.strip()


def plain_switch():
    """GPUMEM_PYTHON_FAST=0 disables the C module. A process may end while pools and buffers are
    alive."""
    equal(run_child(CHILD, GPUMEM_PYTHON_FAST="0"), "False")
    equal(run_child(CHILD, GPUMEM_PYTHON_FAST="1"), str(_gpumem_fast is not None))


def plain_without_fast():
    """Repeats all tests of this file without the C module."""
    need_fast()
    run_without_fast(__file__, GPUMEM_TEST="host")


SUBINTERPRETER = """
import sys
if sys.version_info >= (3, 13):
    import _interpreters as interpreters
else:
    import _xxsubinterpreters as interpreters
code = '''
import importlib.machinery, importlib.util
loader = importlib.machinery.ExtensionFileLoader("gi.overrides._gpumem_fast", FILE)
spec = importlib.util.spec_from_loader("gi.overrides._gpumem_fast", loader)
try:
    importlib.util.module_from_spec(spec)
except ImportError as error:
    print(error)
'''
child = interpreters.create()
interpreters.run_string(child, code.replace("FILE", repr(sys.argv[1])))
interpreters.destroy(child)
"""


def plain_subinterpreter():
    """A subinterpreter cannot import the C module. PyGObject itself hangs in a subinterpreter when
    it imports GLib, or cannot be imported there."""
    need_fast()
    result = subprocess.run([sys.executable, "-c", SUBINTERPRETER, _gpumem_fast.__file__],
                            capture_output=True, text=True, timeout=300)
    equal(result.returncode, 0, result.stderr)
    assert "subinterpreter" in result.stdout, result


def test_constructors(fixture):
    """Constructors take the usual arguments in C and all others in Python, with equal results."""
    context, modes, filters = fixture.context, Gpu.AddressMode, Gpu.FilterMode
    for buffer in (Gpu.Buffer(context, 8), Gpu.Buffer(context=context, size_or_data=8),
                   Gpu.Buffer(context, 8, Gpu.MemoryFlags.NONE), Gpu.Buffer(context, bytes(8)),
                   Gpu.Buffer.__new__(Gpu.Buffer, context, 8)):
        equal((type(buffer), buffer.size), (Gpu.Buffer, 8))
    for stream in (Gpu.Stream(context), Gpu.Stream(context, flags=Gpu.StreamFlags.NONE),
                   Gpu.Stream.__new__(Gpu.Stream, context)):
        equal((type(stream), stream.context), (Gpu.Stream, context))
    for kind, words in ((Gpu.Buffer, "Gpu.Buffer()"), (Gpu.Sampler, "Gpu.Sampler()"),
                        (Gpu.Stream, "Gpu.Stream()"), (Gpu.Svm, "Gpu.Svm()")):
        for args in (), (context,) + (1,) * 9:
            if kind is not Gpu.Stream or len(args) != 1:
                with raises(TypeError, words):
                    kind(*args)
    need(fixture, Gpu.Capabilities.IMAGES)
    for args, values in (((), (False, modes.CLAMP_TO_EDGE, filters.NEAREST)),
                         ((True,), (True, modes.CLAMP_TO_EDGE, filters.NEAREST)),
                         ((True, modes.REPEAT), (True, modes.REPEAT, filters.NEAREST)),
                         ((True, modes.REPEAT, filters.LINEAR),
                          (True, modes.REPEAT, filters.LINEAR))):
        names = ("normalized_coordinates", "address_mode", "filter_mode")
        for sampler in (Gpu.Sampler(context, *args),
                        Gpu.Sampler(context=context, **dict(zip(names, args)))):
            equal((type(sampler), sampler.normalized_coordinates, sampler.address_mode_x,
                   sampler.address_mode_z, sampler.filter_mode),
                  (Gpu.Sampler, values[0], values[1], values[1], values[2]))
    with raises(Gpu.Error.INVALID_ARGUMENT, "Gpu.Sampler: ", "normalized"):
        Gpu.Sampler(context, False, modes.REPEAT)
    for args in ((1,), (True, filters.LINEAR), (True, modes.REPEAT, 5)):
        with raises(TypeError):
            Gpu.Sampler(context, *args)
    equal(Gpu.Sampler(context, max_anisotropy=1).max_anisotropy, 1)


def plain_fork():
    """A forked child exits at once, and its parent continues."""
    pool = Gpu.MemoryPool(Gpu.Context("host"))
    live = [pool.alloc_buffer(100) for i in range(10)]
    take_spare(pool)
    child = os.fork()
    if child == 0:
        try:
            live.clear()
            try:
                pool.alloc_buffer(100)
            except GLib.Error:
                pass
            del pool
            os._exit(0)
        finally:
            os._exit(1)
    equal(os.waitpid(child, 0)[1], 0)
    equal(pool.active_blocks, 10)
    buffer = pool.alloc_buffer(100)
    buffer.fill(5)
    equal(buffer.read(), b"\x05" * 100)


if __name__ == "__main__":
    sys.exit(main(dict(globals())))

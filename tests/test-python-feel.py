#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Python binding on every device that GPUMEM_TEST selects: pools for a scope, asyncio and
repr() (parity row D54)."""

import asyncio
import contextvars
import functools
import os
import signal
import sys
import threading
from unittest import mock

from gi import _gi

from python_util import DEADLINE, Gpu, equal, main, need, raises, spin
from gi.repository import GLib, GObject

CAPABILITIES = Gpu.Capabilities


# --- pools for a scope (D54) -------------------------------------------------------------------

def test_pool_scope(fixture):
    """Within the scope of a pool, arrays that a launch copies use memory of the pool."""
    kernel = fixture.program().add
    pool = Gpu.MemoryPool(fixture.context)
    equal(Gpu.get_current_allocator(fixture.context), None)
    with pool as entered:
        assert entered is pool
        assert Gpu.get_current_allocator(fixture.context) is pool
        for _ in range(3):
            numbers = bytearray(b"\1\0\0\0" * 100)
            kernel(fixture.stream, 100, None, Gpu.InOut(numbers), 5)
            equal(numbers, b"\6\0\0\0" * 100)
        equal(Gpu.get_current_allocator(Gpu.Context(fixture.device)), None)
        managed = pool.managed_bytes
        assert managed >= 400
    equal(pool.managed_bytes, managed)          # the pool keeps its memory
    equal(Gpu.get_current_allocator(fixture.context), None)
    kernel(fixture.stream, 100, None, Gpu.In(bytearray(1 << 24)), 5)
    equal(pool.managed_bytes, managed)          # the pool is no longer used


def test_pool_scope_nested(fixture):
    outer, inner = Gpu.MemoryPool(fixture.context), Gpu.MemoryPool(fixture.context)

    def current():
        return Gpu.get_current_allocator(fixture.context)
    with outer:
        with inner:
            assert current() is inner
            with outer:
                assert current() is outer
            assert current() is inner
        with raises(KeyError):
            with inner:
                raise KeyError
        assert current() is outer
        with raises(RuntimeError, "innermost"):
            inner.__exit__(None, None, None)
        seen = []
        thread = threading.Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join()
        equal(seen, [None])
        assert contextvars.copy_context().run(current) is outer
    equal(current(), None)


def test_pool_scope_disorder(fixture):
    """Scopes that are left in the wrong order do end. They raise an error unless another exception
    is raised already."""
    one, other = Gpu.MemoryPool(fixture.context), Gpu.MemoryPool(fixture.context)

    def current():
        return Gpu.get_current_allocator(fixture.context)

    def scopes():
        yield from ((one, Gpu.using_allocator(other)), (Gpu.using_allocator(one), other),
                    (one, other), (Gpu.using_allocator(one), Gpu.using_allocator(other)))

    for outer, inner in scopes():
        outer.__enter__()
        inner.__enter__()
        with raises(RuntimeError, "innermost first"):
            outer.__exit__(None, None, None)
        assert current() is other
        inner.__exit__(None, None, None)
        equal(current(), None)
    for outer, inner in scopes():
        with raises(ValueError, "mine"):
            with outer:
                inner.__enter__()
                raise ValueError("mine")
        assert current() is other
        inner.__exit__(None, None, None)
        equal(current(), None)
    with raises(RuntimeError, "innermost first"):
        one.__exit__(None, None, None)


def test_pool_scope_tasks(fixture):
    """A scope in one asyncio task does not affect other tasks."""
    async def use(pool, mine, other):
        with pool:
            mine.set()
            await other.wait()
            assert Gpu.get_current_allocator(fixture.context) is pool

    async def run():
        one, other = asyncio.Event(), asyncio.Event()
        await asyncio.gather(use(Gpu.MemoryPool(fixture.context), one, other),
                             use(Gpu.MemoryPool(fixture.context), other, one))
        equal(Gpu.get_current_allocator(fixture.context), None)
    run_async(run)


def test_using_allocator(fixture):
    """A scope accepts any allocator, including an allocator of shared virtual memory."""
    kernel = fixture.program().add
    allocators = [Gpu.StatisticsAllocator(Gpu.DeferredAllocator(fixture.context))]
    if fixture.device.capabilities & CAPABILITIES.SVM_COARSE:
        allocators.append(Gpu.StatisticsAllocator(Gpu.SvmAllocator(fixture.context)))
    for allocator in allocators:
        with Gpu.using_allocator(allocator):
            numbers = bytearray(b"\1\0\0\0" * 100)
            kernel(fixture.stream, 100, None, Gpu.InOut(numbers), 5)
            equal(numbers, b"\6\0\0\0" * 100)
        equal(allocator.total_count, 1, repr(allocator))
    with raises(TypeError, "allocator"):
        with Gpu.using_allocator(fixture.context):
            pass


def test_pool_scope_arrays(fixture):
    """Within the scope, new arrays use memory of the pool, unless the program names another
    allocator."""
    pool, other = Gpu.MemoryPool(fixture.context), Gpu.MemoryPool(fixture.context)
    with pool:
        arrays = [Gpu.Array.empty(fixture.context, 100, "float32"),
                  Gpu.Array.zeros(fixture.context, (5, 20), "float32")]
        arrays += [arrays[1].copy(), Gpu.Array.empty_like(arrays[1])]
        equal((pool.active_blocks, other.active_blocks), (4, 0))
        arrays.append(Gpu.Array.zeros(fixture.context, 100, "float32", allocator=other))
        arrays.append(Gpu.Array.zeros(other, 100, "float32"))
        equal((pool.active_blocks, other.active_blocks), (4, 2))
    arrays.append(Gpu.Array.zeros(fixture.context, 100, "float32"))
    equal((pool.active_blocks, other.active_blocks), (4, 2))
    fixture.stream.synchronize()
    equal(arrays[2].memory.read()[:400], bytes(400))
    del arrays
    equal((pool.active_blocks, other.active_blocks), (0, 0))


# --- asyncio -------------------------------------------------------------------------------------

def run_async(func):
    async def limited():
        return await asyncio.wait_for(func(), DEADLINE)
    return asyncio.run(limited())


def test_async_context(fixture):
    """A context is created on another thread; its errors arrive in the coroutine."""
    async def run():
        context = await Gpu.Context.new_async(fixture.device)
        assert type(context) is Gpu.Context and context.device == fixture.device
        buffer = Gpu.Buffer(context, b"0123456789")
        equal(await buffer.read_async(), b"0123456789")
        with raises(Gpu.Error.INVALID_ARGUMENT, "device"):
            await Gpu.Context.new_async(None)
        with raises(TypeError, "device must be of type Gpu.Device, not 'host'"):
            await Gpu.Context.new_async("host")
    run_async(run)


def test_device_model(fixture):
    """The model has the devices of Gpu.Device.list() once a main loop has run."""
    model = Gpu.DeviceModel.new()
    equal((len(model), model.props.loading), (0, True))
    looks(model, "loading")
    while model.props.loading:
        GLib.MainContext.default().iteration(True)
    equal(list(model), Gpu.Device.list())
    looks(model, f"of {len(model)} device")
    for count, text in (0, "0 devices"), (1, "1 device"), (2, "2 devices"):
        fake = mock.Mock(props=mock.Mock(loading=False, n_items=count))
        assert Gpu.DeviceModel.__repr__(fake).endswith(f" of {text}>")
    assert fixture.device in list(model)


def test_async_buffer(fixture):
    """None of these calls blocks the main loop, which must run while a gate blocks the stream."""
    stream = fixture.new_stream()
    buffer = fixture.buffer(b"0123456789")
    other = fixture.buffer(b"abcdefghij")

    async def run():
        gate = fixture.gate(stream, must_hold=False)
        calls = [asyncio.ensure_future(call) for call in (
            buffer.fill_async(b"-", 0, 2, stream),
            buffer.copy_async(other, offset=4, source_offset=2, size=3, stream=stream),
            buffer.map_async(Gpu.MapFlags.READ, 1, 6, stream))]
        await asyncio.sleep(0.02)
        assert not gate.holds or not any(call.done() for call in calls)
        gate.complete()
        filled, copied, mapping = await asyncio.gather(*calls)
        assert filled and copied
        with mapping:
            equal(bytes(mapping), b"-23cde")
        await buffer.fill_async(7)
        equal(await buffer.read_async(), b"\7" * 10)
        with raises(Gpu.Error.INVALID_ARGUMENT, "10"):
            await buffer.copy_async(other, offset=1)
        with raises(TypeError, "positional"):
            await buffer.copy_async(other, 1)
        with raises(OverflowError, "offset must be 0 to", "-1"):
            await buffer.copy_async(other, offset=-1)
        with raises(TypeError):
            await buffer.fill_async(1.5)
    run_async(run)


def test_async_across(fixture):
    """Without staging memory, a thread must wait for the gate and then copy. The thread of the main
    loop must not do this, because it opens the gate."""
    need(fixture, CAPABILITIES.USER_EVENTS)
    stream = fixture.new_stream()
    buffer = fixture.buffer(b"0123456789")
    host = Gpu.Context("host")
    other = Gpu.Buffer(host, b"abcdefghij")
    fixture.context.set_staging_limit(0)
    host.set_staging_limit(0)

    async def run():
        gate = fixture.gate(stream)
        asyncio.get_running_loop().call_later(0.05, gate.complete)
        await buffer.copy_async(other, offset=4, source_offset=2, size=3, stream=stream)
        equal(buffer.read(), b"0123cde789")
    run_async(run)


def test_async_wait(fixture):
    """An asynchronous wait for memory waits for its uses on all streams."""
    buffer = fixture.buffer(4096)
    stream = Gpu.Stream(fixture.context)
    stream.fill(buffer, 7)
    done = []
    buffer.wait_async(None, lambda memory, result: done.append(memory.wait_finish(result)))
    spin(lambda: done)
    equal(done, [True])
    equal(stream.n_completed, stream.n_submitted)
    assert buffer.wait()
    buffer.release()
    with raises(Gpu.Error.RELEASED):
        buffer.wait()


def test_async_failures(fixture):
    """The error of failed work names the call that waited for the work."""
    need(fixture, CAPABILITIES.USER_EVENTS)
    context, buffer = fixture.context, fixture.buffer(64)

    async def leave(stream):
        async with stream:
            pass

    async def wait(awaitable):
        await awaitable

    async def run():
        for name, begin in (
                ("Stream.__await__", wait), ("Stream.__aexit__", leave),
                ("Event.__await__", lambda stream: wait(stream.record())),
                ("Buffer.fill_async", lambda stream: buffer.fill_async(2, stream=stream)),
                ("Stream.call", lambda stream: asyncio.wrap_future(stream.call(int))),
                ("Event.call", lambda stream: asyncio.wrap_future(stream.record().call(int)))):
            gate, stream = Gpu.Event.new_user(context), fixture.new_stream()
            stream.wait_event(gate)
            stream.fill(buffer, 1)
            waiting = asyncio.ensure_future(begin(stream))
            await asyncio.sleep(0)
            gate.fail("boom")
            with raises(Gpu.Error, f"{name}: boom"):
                await waiting
            buffer.write(bytes(64))
            with raises(Gpu.Error, "Stream.synchronize: boom"):
                stream.synchronize()

    asyncio.run(run())


def test_async_callbacks(fixture):
    """With a callback, asynchronous methods behave as in C."""
    buffer = fixture.buffer(b"0123456789")
    dashes = fixture.buffer(b"-" * 10)
    results = []

    class Taker:
        def take(self, source, result):
            results.append(result)
    callbacks = [lambda source, result: results.append(result), Taker().take,
                 functools.partial(Taker.take, None)]
    for n, callback in enumerate(callbacks, 1):
        buffer.copy_async(None, 0, dashes, 0, n, None, callback)
        spin(lambda: len(results) == n)
        assert buffer.copy_finish(results[-1])
        equal(buffer.read(0, n + 1), b"-" * n + str(n).encode())


def test_async_memory(fixture):
    """Asynchronous calls with shared virtual memory and host memory."""
    host = Gpu.HostMemory(fixture.context, 64)
    has_svm = fixture.device.capabilities & CAPABILITIES.SVM_COARSE
    svm = Gpu.Svm(fixture.context, 64) if has_svm else None

    async def run():
        fixture.stream.fill(host, 3)
        await host.synchronize_async()
        equal(host.read(), b"\3" * 64)
        if svm is not None:
            fixture.stream.fill(svm, 4)
            with await svm.map_async(Gpu.MapFlags.READ, 10, 20) as mapping:
                equal(bytes(mapping), b"\4" * 20)
            with raises(Gpu.Error.INVALID_ARGUMENT, "65"):
                await svm.map_async(Gpu.MapFlags.READ, 0, 65)
    run_async(run)


def test_async_image(fixture):
    need(fixture, CAPABILITIES.IMAGES)
    form = Gpu.ImageFormat("rgba-unorm8")
    one, other = (Gpu.Image(fixture.context, form, (4, 2)) for _ in range(2))

    async def run():
        assert await one.fill_async((0, 0, 0, 0))
        assert await one.fill_async((1, 0, 1, 0), (1, 1), (2, 1))
        texels = b"\0" * 20 + b"\xff\0\xff\0" * 2 + b"\0" * 4
        equal(await one.read_async(), texels)
        assert await other.copy_async(one)
        with await other.map_async(Gpu.MapFlags.READ, (1, 1), (2, 1)) as mapping:
            equal(bytes(mapping)[:8], b"\xff\0\xff\0" * 2)
        with raises(Gpu.Error.INVALID_ARGUMENT):
            await one.fill_async(0, (0, 0), (5, 1))
    run_async(run)


def test_async_program(fixture):
    need(fixture, CAPABILITIES.SOURCE)

    async def run():
        program = await Gpu.Program.new_from_source_async(
            fixture.context, "__kernel void k (__global int *p) { p[0] = N; }", "-DN=9")
        buffer = fixture.buffer(4)
        async with fixture.stream as stream:
            assert stream is fixture.stream
            program.k(stream, 1, None, buffer)
        equal(stream.n_completed, stream.n_submitted)
        equal(await buffer.read_async(), b"\11\0\0\0")
        with raises(Gpu.Error.BUILD_FAILED):
            await Gpu.Program.new_from_source_async(fixture.context, "__kernel void k (rubbish")
        with raises(KeyError):
            async with fixture.stream:
                raise KeyError
    run_async(run)


def test_async_beside_main_loop(fixture):
    """Awaits asynchronous calls in two programs: one iterates its default main context, the other
    does not."""
    buffer = fixture.buffer(b"0123456789")

    async def read():
        return await buffer.read_async(2, 3)
    equal(run_async(read), b"234")
    outcome = []
    thread = threading.Thread(target=lambda: outcome.append(run_async(read)))
    thread.start()
    spin(lambda: outcome)
    thread.join()
    equal(outcome, [b"234"])


def test_async_after_fork(fixture):
    """A forked child has no helper thread. A call in the child fails instead of waiting for this
    thread."""
    buffer = fixture.buffer(100000)
    run_async(lambda: buffer.read_async(0, 4))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(DEADLINE)
        try:
            asyncio.run(buffer.read_async(0, 4))
        except GLib.Error as error:
            os.write(write, str(error.matches(Gpu.error_quark(), Gpu.Error.DEVICE_LOST)).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as answer:
        equal(answer.read(), b"True")
    equal(os.waitpid(child, 0)[1], 0)


# --- repr of objects ----------------------------------------------------------------------

def looks(value, *words):
    text = repr(value)
    assert "\n" not in text and len(text) < 300, text
    for word in ("Gpu." + type(value).__name__, *words):
        assert str(word) in text, f"'{word}' is not in '{text}'"
    assert " object at 0x" not in text, text


def test_repr(fixture):
    """repr() shows the main properties on one line, and does not wait for pending work."""
    context, stream, ident = fixture.context, fixture.new_stream(), fixture.device.id
    gate = fixture.gate(stream, must_hold=False)
    buffer = fixture.buffer(96)
    stream.fill(buffer, 1)
    looks(fixture.device, ident, fixture.device.name)
    looks(context, ident)
    looks(stream, ident, "completed")
    looks(stream.record(), ident)
    looks(buffer, 96, ident)
    looks(buffer[:32], 32, ident)
    looks(Gpu.HostMemory(context, 77), 77)
    incoming, outgoing = Gpu.InputStream(buffer, 8, 64, stream), Gpu.OutputStream(buffer)
    looks(incoming, "at byte 0 of 64", repr(buffer))
    if gate.holds:
        looks(gate, "user", ident)
    gate.complete()
    stream.synchronize()
    with buffer.map(Gpu.MapFlags.READ) as mapping:
        looks(mapping, 96)
    looks(mapping, "unmapped")
    incoming.read_bytes(5)
    outgoing.write_all(b"123")
    looks(incoming, "at byte 5 of 64", repr(buffer))
    looks(outgoing, "at byte 3 of 96", repr(buffer))
    outgoing.close()
    looks(outgoing, "closed at byte 3 of 96", repr(buffer))
    buffer.release()
    looks(incoming, "at byte 5 of 64", "released")
    incoming.run_dispose()
    looks(incoming, "closed at byte 5")


def test_repr_programs(fixture):
    source = "__kernel void twice (__global int *p) { p[0] *= N; }"
    need(fixture, CAPABILITIES.SOURCE)
    program = Gpu.Program(fixture.context, source, "-DN=2")
    looks(program, fixture.device.id, len(source), "-DN=2")
    looks(program.twice, "twice")
    looks(program.twice.prepare(64, 16, (fixture.buffer(4),)), "twice", "64 x 1 x 1",
          "16 x 1 x 1")
    looks(program.twice.prepare((6, 4), None, (fixture.buffer(4),)), "6 x 4 x 1")
    arguments = Gpu.Arguments.new()
    arguments.add_int(1)
    looks(arguments, 1)


def test_repr_allocators(fixture):
    context, ident = fixture.context, fixture.device.id
    deferred = Gpu.DeferredAllocator(context, Gpu.MemoryFlags.READ_ONLY)
    looks(deferred, ident, "read-only")
    looks(Gpu.ImmediateAllocator(fixture.stream), ident, "stream")
    looks(Gpu.HostAllocator(context), ident, "0 held")
    limit = Gpu.LimitAllocator(deferred, 1000)
    memory = limit(100)
    looks(limit, "100 of 1000", repr(deferred))
    tracking = Gpu.TrackingAllocator(limit)
    with tracking.tagged("weights"):
        looks(tracking, "weights", repr(limit))
    statistics = Gpu.StatisticsAllocator(limit)
    kept = statistics(50)
    looks(statistics, "50 bytes")
    looks(Gpu.DeferredFreeAllocator(deferred), "0 bytes to free")
    looks(Gpu.OomAllocator(deferred), ident)
    pool = Gpu.MemoryPool(context)
    looks(pool, "0 in use")
    del memory, kept
    if fixture.device.backend != "opencl":      # because memory of OpenCL has no addresses
        with pool.alloc_block(256) as block:
            looks(block, 256)
        looks(block, "freed")


def plain_repr_of_classes():
    """Each class that creates objects has a repr() of its own."""
    names = {info.get_name() for info in _gi.Repository.get_default().get_infos("Gpu")
             if isinstance(info, (_gi.ObjectInfo, _gi.StructInfo))}
    kinds = [getattr(Gpu, name) for name in names if not name.endswith(("Class", "Interface"))]
    assert len(kinds) > 30, kinds
    for kind in kinds:
        owner = next(base for base in kind.__mro__ if "__repr__" in vars(base))
        assert owner.__module__ != "gi._gi" and owner not in (object, _gi.Struct), kind


def plain_repr_unmade():
    """repr() works for objects that were created by g_object_new() alone."""
    looks(Gpu.FunctionAllocator.__new__(Gpu.FunctionAllocator))
    for name in ("Buffer", "Context", "DeferredAllocator", "Event", "OomAllocator",
                 "HostAllocator", "HostMemory", "Image", "ImmediateAllocator", "InputStream",
                 "Kernel", "LimitAllocator", "Mapping", "MemoryPool", "OutputStream", "Program",
                 "StatisticsAllocator",
                 "Stream", "Svm", "TrackingAllocator"):
        looks(GObject.new(getattr(Gpu, name)))


if __name__ == "__main__":
    sys.exit(main(globals()))

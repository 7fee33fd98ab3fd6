# SPDX-License-Identifier: LGPL-2.1-or-later
"""Kernels, streams, events and lifetimes from Python, on every device that GPUMEM_TEST selects."""

import _thread
import array
import asyncio
import ctypes
import fractions
import gc
import math
import os
import random
import signal
import struct
import sys
import threading
import time

from python_util import (DEADLINE, Skip, equal, main, need, need_numpy, np, raises, run_threads,
                         spin)
from gi.overrides import _gpumem
from gi.repository import Gio, GLib, Gpu


# --- programs, kernels, launches -----------------------------------------------------------------

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
    large = (1 << 64) - 2048
    fixture.stream.launch(kernel, 1, args=(buffer, 1, 2, 3, 4, 5, 6, 7, large, 1 << 63))
    equal(struct.unpack("=9d", buffer.read())[7:], (float(large), float(1 << 63)))
    with raises(Gpu.Error.INVALID_ARGUMENT, str(large)):
        fixture.stream.launch(kernel, 1, args=(buffer, 1, 2, 3, 4, 5, 6, large, 8, 9))
    with raises(OverflowError):
        fixture.stream.launch(kernel, 1, args=(buffer, 1, 2, 3, 4, 5, 6, 7, 1 << 64, 9))


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
    """D2, C8: the error contains the build log."""
    with raises(Gpu.Error.BUILD_FAILED, "no_such_function_anywhere"):
        Gpu.Program(fixture.context,
                    "__kernel void f (__global int *x) { x[0] = no_such_function_anywhere (); }")


# --- streams and events --------------------------------------------------------------------------

def test_two_streams(fixture):
    """D21: two streams use one buffer; the test itself does not wait."""
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
    """D22: query and wait."""
    stream = fixture.new_stream()
    gate = fixture.gate(stream, must_hold=False)
    buffer = fixture.buffer(64)
    stream.fill(buffer, 8)
    event = stream.record()
    equal(event.props.user, False)
    if gate.holds:
        equal(gate.props.user, True)
        equal(event.query(), Gpu.EventStatus.PENDING)
        with raises(Gpu.Error.TIMED_OUT):
            event.wait_timeout(1000)
        gate.complete()
    event.wait()
    equal(event.query(), Gpu.EventStatus.COMPLETE)
    Gpu.Event.wait_all([event, gate] if gate.holds else [event, stream.record()])
    equal(buffer.read(), b"\x08" * 64)


def test_timeouts(fixture):
    """Waits for at most some seconds."""
    stream, other = fixture.new_stream(), fixture.new_stream()
    gate = fixture.gate(stream)
    event, memory = stream.record(), fixture.buffer(64)
    stream.fill(memory, 7)
    done = other.record()
    done.wait()

    def wait_all(cancellable=None, timeout=None):
        return Gpu.Event.wait_all([done, event, stream.record()], cancellable, timeout)

    waits = event.wait, stream.synchronize, memory.wait, wait_all
    for wait, words in zip(waits, ("Event.wait: the work of the event on ",
                                   "Stream.synchronize: the work of the stream on ",
                                   f"Memory.wait: the work that uses {memory!r} has not",
                                   "Event.wait_all: the work of the event on ")):
        for timeout in (0, 0.001, fractions.Fraction(1, 1000), 1e-9, -1, -math.inf):
            with raises(Gpu.TimedOutError, f" within {timeout} seconds"):
                wait(timeout=timeout)
        with raises(Gpu.TimedOutError, words):
            wait(timeout=0)
        with raises(ValueError, "timeout must be a number of seconds or None, not nan"):
            wait(timeout=math.nan)
        for timeout in ("1", True, [1]):
            with raises(TypeError, "timeout must be a number of seconds or None"):
                wait(timeout=timeout)
        with raises(TimeoutError):
            wait(None, 0.001)
        cancellable, n_threads = Gio.Cancellable(), threading.active_count()
        for _ in range(5):
            with raises(TimeoutError):
                wait(cancellable, 0.001)
        assert threading.active_count() <= n_threads + 1, "waits that have ended keep threads"
        threading.Timer(0.01, cancellable.cancel).start()
        with raises(GLib.Error, "was cancelled"):
            wait(cancellable, 1000)
        timer = threading.Timer(0.01, gate.complete) if wait is wait_all else None
    timer.start()                               # completes the gate during the waits
    for wait in waits:
        equal(wait(timeout=1000), True)
    for wait in waits:
        for timeout in (None, 0, -1, 1000.5, 1e300, math.inf):
            equal(wait(timeout=timeout), True)
        run_threads(1, lambda number: wait(timeout=1000))
    equal(memory.read(), b"\7" * 64)
    memory.release()
    with raises(Gpu.ReleasedError, "Memory.wait: "):
        memory.wait(timeout=1)


def test_timeout_and_failure(fixture):
    """A wait of a memory for at most some seconds fails with the error of the work."""
    stream, memory = fixture.new_stream(), fixture.buffer(64)
    gate = fixture.gate(stream)
    stream.fill(memory, 7)
    threading.Timer(0.01, lambda: gate.fail("the reason why")).start()
    for timeout in (1000, 0):                   # during the wait, and before it
        with raises(GLib.Error, "the reason why"):
            memory.wait(timeout=timeout)


def test_event_times(fixture):
    """D22: elapsed and profiling times."""
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
    gate = fixture.gate(stream, must_hold=False)
    event = stream.record()
    calls = []
    event.connect("completed", lambda *args: calls.append((args[0], threading.get_ident())))
    while gate.holds and GLib.MainContext.default().iteration(False):
        pass
    equal(calls, [])
    gate.complete()
    spin(lambda: calls)
    equal(calls, [(event, threading.get_ident())])


def test_wait_async(fixture):
    stream = fixture.new_stream()
    gate = fixture.gate(stream, must_hold=False)
    event = stream.record()
    buffer = fixture.buffer(b"0123456789")
    results = {}

    def take(name):
        def done(source, result):
            results[name] = (source, result, threading.get_ident())
        return done

    event.wait_async(None, take("event"))
    stream.synchronize_async(None, take("stream"))
    buffer.read_bytes_async(stream, 2, 4, None, None, None, take("read"))
    buffer.write_bytes_async(stream, 8, GLib.Bytes.new(b"ab"), None, None, None, take("write"))
    stream.fill(buffer, b"-", 0, 1)
    buffer.wait_async(None, take("fill"))
    buffer.map_async(stream, Gpu.MapFlags.READ, 0, 10, None, take("map"))
    equal(results, {})
    gate.complete()
    spin(lambda: len(results) == 6)
    assert all(thread == threading.get_ident() for _, _, thread in results.values())
    assert event.wait_finish(results["event"][1])
    assert stream.synchronize_finish(results["stream"][1])
    equal(buffer.read_bytes_finish(results["read"][1]).get_data(), b"2345")
    assert buffer.write_bytes_finish(results["write"][1])
    assert buffer.wait_finish(results["fill"][1])
    with buffer.map_finish(results["map"][1]) as mapping:
        equal(bytes(mapping), b"-1234567ab")


def test_wait_async_without_callback(fixture):
    """Without a callback, the asynchronous waits are coroutines."""
    stream = fixture.new_stream()
    gate = fixture.gate(stream, must_hold=False)
    buffer = fixture.buffer(100)
    stream.fill(buffer, 7)
    event = stream.record()

    async def use():
        tasks = [asyncio.ensure_future(call()) for call in (
            buffer.wait_async, event.wait_async, stream.synchronize_async)]
        await asyncio.sleep(0)
        gate.complete()
        equal(await asyncio.wait_for(asyncio.gather(*tasks), DEADLINE), [True] * 3)
        equal(buffer.read(), b"\7" * 100)
        buffer.release()
        with raises(Gpu.Error.RELEASED, "Memory.wait_async"):
            await buffer.wait_async()

    asyncio.run(use())


def test_progress_in_main_loop(fixture):
    """progress_data is optional, and its items are further arguments."""
    data = bytes(range(256)) * 4096
    buffer = Gpu.Buffer(fixture.context, len(data))
    calls = []
    results = []

    def progress(*call):
        calls.append((*call, threading.get_ident()))

    def done(source, result, *rest):
        results.append((result, rest))

    buffer.write_bytes_async(None, 0, GLib.Bytes.new(data), None, progress, None, done, "end")
    spin(lambda: results)
    equal(results[0][1], ("end",))
    assert buffer.write_bytes_finish(results[0][0])
    equal(calls[-1], (len(data), len(data), threading.get_ident()))

    with raises(TypeError, "progress_data"):
        buffer.write_bytes_async(None, 0, data, None, progress, done)
    with raises(TypeError, "progress_callback"):
        buffer.read_bytes_async(None, 0, len(data), None, "progress")
    calls.clear()
    results.clear()
    buffer.read_bytes_async(None, 0, len(data), progress_callback=progress,
                            progress_data=("a", 2), callback=done)
    spin(lambda: results)
    equal(buffer.read_bytes_finish(results[0][0]).get_data(), data)
    equal(calls[-1], (len(data), len(data), "a", 2, threading.get_ident()))


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
    with raises(GLib.Error):
        event.wait()
    with raises(GLib.Error, "the reason why"):
        gate.wait()
    with raises(GLib.Error):
        event.query()


# --- Ctrl-C --------------------------------------------------------------------------------------

N_ASLEEP = 20                                   # times that a thread must be seen asleep


def is_asleep(thread):
    """Returns whether a thread sleeps in the kernel. The read of the file releases the GIL, so a
    thread that only waits for the GIL wakes up."""
    with open(f"/proc/self/task/{thread.native_id}/stat", "rb", buffering=0) as file:
        return file.read().rpartition(b")")[2].split()[0] == b"S"


def interrupt(wait, is_ready=lambda: True):
    """Returns the seconds from a SIGINT to the end of the wait. The signal is sent when is_ready()
    returns True and this thread has slept for some time: an earlier signal would prevent the call
    from submitting its work."""
    begun, sent, waiter = threading.Event(), [], threading.current_thread()

    def send():
        begun.wait(DEADLINE)
        deadline, n_asleep = time.monotonic() + DEADLINE, 0
        while n_asleep < N_ASLEEP and time.monotonic() < deadline:
            time.sleep(0.002)
            n_asleep = n_asleep + 1 if is_ready() and is_asleep(waiter) else 0
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        begun.set()
        wait()
    except KeyboardInterrupt as error:
        error.__traceback__ = None
        return time.monotonic() - sent[0]
    finally:
        sender.join()
    raise AssertionError("the wait was not interrupted")


def await_equal(get, expected):
    """Waits until get() returns the expected value. After Ctrl-C, a write of another thread may end
    later than the work for which it waited."""
    deadline = time.monotonic() + DEADLINE
    while get() != expected and time.monotonic() < deadline:
        time.sleep(0.001)
    equal(get(), expected)


def test_interrupt(fixture):
    """Each wait ends with KeyboardInterrupt, and the work continues."""
    need(fixture, Gpu.Capabilities.USER_EVENTS)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    stream = fixture.new_stream()
    buffer = fixture.buffer(64)
    other, written = fixture.buffer(64), fixture.buffer(64)
    buffer.fill(1)
    gate = fixture.gate(stream)
    stream.fill(buffer, 7)
    host = Gpu.HostMemory(fixture.context, 64)
    stream.fill(host, 7)
    event = stream.record()
    array_target = bytearray(64)
    waits = {
        "user event": gate.wait, "event": event.wait, "stream": stream.synchronize,
        "with stream": lambda: stream.__exit__(None, None, None),
        "timeout": lambda: event.wait_timeout(10 ** 8),
        "seconds": lambda: event.wait(timeout=100),
        "seconds of stream": lambda: stream.synchronize(timeout=100),
        "all": lambda: Gpu.Event.wait_all([event]),
        "poll": lambda: event.poll(10 ** 8), "endless poll": lambda: event.poll(-1),
        "memory": buffer.wait, "seconds of memory": lambda: buffer.wait(timeout=100),
        "seconds of all": lambda: Gpu.Event.wait_all([event], timeout=100),
        "host memory": host.synchronize, "read of host memory": host.read,
        "context": fixture.context.synchronize, "read": lambda: buffer.read(stream=stream),
        "read elsewhere": buffer.read, "read_into": lambda: buffer.read_into(array_target),
        "write": lambda: other.write(b"x", stream=stream),
        "write of bytes": lambda: other.write(GLib.Bytes.new(b"x"), stream=stream),
        "fill": lambda: other.fill(0, stream=stream), "copy": lambda: other.copy(buffer),
        "map": lambda: buffer.map(Gpu.MapFlags.READ, stream=stream),
        "read_bytes": lambda: buffer.read_bytes(stream, 0, 64, None),
        "read_bytes elsewhere": lambda: buffer.read_bytes(None, 0, 64),
        "write_bytes": lambda: written.write_bytes(stream, 0, bytes=GLib.Bytes.new(b"y" * 64)),
        "read_bytes of host memory": lambda: host.read_bytes(0, 64),
        "write of host memory": lambda: host.write(b"z", 1)}
    try:
        for name, wait in waits.items():
            seconds = interrupt(wait)
            print(f"# {fixture.device.id}: {name} ended after {seconds * 1e3:.0f} ms")
            assert seconds < DEADLINE, f"{name} took {seconds} s"
        with raises(Gpu.Error.TIMED_OUT, "150000 microseconds") as caught:
            event.wait_timeout(150000)
        equal(caught.args, (caught.text,))
        equal(event.poll(150000), Gpu.EventStatus.PENDING)
    finally:
        signal.signal(signal.SIGINT, previous)
        gate.complete()
    fixture.context.synchronize()
    equal(event.poll(-1), Gpu.EventStatus.COMPLETE)
    await_equal(host.read, b"\7z" + b"\7" * 62)
    await_equal(written.read, b"y" * 64)
    equal(buffer.read(), b"\7" * 64)
    equal(other.read(), b"\7" * 64)
    equal(array_target, b"\7" * 64)


def check_interrupts(fixture, make_waits):
    """Checks that each call that make_waits(stream) yields ends with KeyboardInterrupt while the
    stream is blocked. A function may follow the call, as for interrupt()."""
    need(fixture, Gpu.Capabilities.USER_EVENTS)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    stream = fixture.new_stream()
    gate = fixture.gate(stream)
    try:
        for name, *wait in make_waits(stream):
            seconds = interrupt(*wait)
            print(f"# {fixture.device.id}: {name} ended after {seconds * 1e3:.0f} ms")
            assert seconds < DEADLINE, f"{name} took {seconds} s"
    finally:
        signal.signal(signal.SIGINT, previous)
        gate.complete()
    fixture.context.synchronize()


def test_handler_fails(fixture):
    """Any exception of a signal handler ends a read of a stream of Gio, before the call returns."""
    def fail(*args):
        raise TimeoutError("alarm")

    stream, buffer = fixture.new_stream(), fixture.buffer(b"0123456789")
    gate = fixture.gate(stream)
    source = Gpu.InputStream(buffer, stream=stream)
    previous = signal.signal(signal.SIGINT, fail)
    try:
        with raises(TimeoutError, "alarm"):
            interrupt(lambda: source.read_bytes(4))
        assert not source.has_pending()
    finally:
        signal.signal(signal.SIGINT, previous)
        gate.complete()
    equal(source.read_bytes(4).get_data(), b"0123")


def plain_interrupt_at_end():
    """Ctrl-C as a function ends, which has no effect before that, ends the call."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with raises(KeyboardInterrupt):
            _gpumem.run_interruptible(_thread.interrupt_main, Gio.Cancellable().cancel)
    finally:
        signal.signal(signal.SIGINT, previous)


def test_interrupt_keeps_nothing(fixture):
    """A call that Ctrl-C has interrupted, and that then fails, does not keep its memory."""
    need(fixture, Gpu.Capabilities.USER_EVENTS)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    dead = []
    calls = (lambda buffer, stream: buffer.read_file("/dev/zero", size=9, stream=stream),
             lambda buffer, stream: buffer.write_file("/dev/null", stream=stream),
             lambda buffer, stream: buffer.read_bytes(stream, 0, 64, None))

    def start(number, call, stream):
        buffer = fixture.buffer(64)
        buffer.weak_ref(dead.append, number)
        call(buffer, stream)

    gc.disable()
    try:
        for number, call in enumerate(calls):
            stream = fixture.new_stream()
            gate = fixture.gate(stream)
            interrupt(lambda: start(number, call, stream))
            gate.fail("the stream is broken")
            with raises(GLib.Error):
                stream.synchronize()
            del stream, gate
            await_equal(lambda: dead[-1:], [number])
    finally:
        gc.enable()
        signal.signal(signal.SIGINT, previous)


def test_interrupt_arrays(fixture):
    """Transfers of arrays behind pending work end with KeyboardInterrupt, and are done later."""
    need_numpy()
    context = fixture.context
    source = Gpu.Array.zeros(context, (4, 8), "float32")
    written = [Gpu.Array.zeros(context, (4, 8), "float32") for _ in range(8)]
    target, data = np.zeros((4, 8), "float32"), np.arange(32, dtype="float32").reshape(4, 8)
    columns, host = np.asfortranarray(data), Gpu.HostMemory(context, 128)

    def waits(stream):
        for array in [source] + written:
            array.fill(7, stream)
        yield "to_numpy", source.to_numpy
        yield "to_numpy of a view", source[:, 1:3].to_numpy
        yield "to_numpy on the stream", lambda: source.to_numpy(stream)
        yield "read_into", lambda: source.read_into(target)
        yield "write", lambda: written[0].write(data)
        yield "copy_to_device", lambda: written[1].copy_to_device(data)
        yield "write of columns", lambda: written[2].write(columns)
        yield "write of an array", lambda: written[3].write(source)
        yield "assignment", lambda: written[4].__setitem__(slice(1, 3), data[1:3])
        yield "fill", lambda: written[5].fill(np.float32(3))
        yield "copy", source.copy
        yield "item", lambda: source[0, 0].item()
        yield "read_bytes", lambda: source[:, 1:3].read_bytes(stream, Gpu.ArrayOrder.F)
        yield "read_strided", lambda: source.read_strided(None, host.get_bytes(), 0, [32, 4])
        yield "write_bytes", lambda: written[6].write_bytes(
            stream, Gpu.ArrayOrder.C, GLib.Bytes.new(data.tobytes()))
        yield "write_strided", lambda: written[7].write_strided(
            None, GLib.Bytes.new(columns.tobytes("F")), 0, [4, 16])

    check_interrupts(fixture, waits)
    equal(target.tolist(), np.full_like(data, 7).tolist())
    await_equal(lambda: host.to_numpy("float32").tolist(), [7] * 32)
    part = np.full_like(data, 7)
    part[1:3] = data[1:3]
    for array, expected in zip(written, (data, data, data, np.full_like(data, 7), part,
                                         np.full_like(data, 3), data, data)):
        await_equal(lambda: array.to_numpy().tolist(), expected.tolist())


def test_interrupt_images(fixture):
    need(fixture, Gpu.Capabilities.IMAGES)
    pixels = bytes(range(64))
    image, other, last = (Gpu.Image(fixture.context, "rgba-unorm8", (4, 4)) for _ in range(3))
    image.write(pixels)
    target = bytearray(64)

    def waits(stream):
        for one in image, other, last:
            stream.fill_image(one, (1.0, 0.0, 0.0, 1.0))
        yield "Image.read_into", lambda: image.read_into(target)
        yield "Image.read", image.read
        yield "Image.write", lambda: other.write(pixels)
        yield "Image.map", lambda: image.map(Gpu.MapFlags.READ)
        yield "Image.read_bytes", lambda: image.read_bytes(stream)
        yield "Image.write_bytes", lambda: last.write_bytes(
            None, None, None, GLib.Bytes.new(pixels), 0, 0)

    check_interrupts(fixture, waits)
    equal(bytes(target), b"\xff\0\0\xff" * 16)
    equal(bytes(other.read()), pixels)
    await_equal(lambda: bytes(last.read()), pixels)


def test_interrupt_io_streams(fixture):
    """Ctrl-C ends the waits of streams of Gio. The streams remain usable, and no byte is lost."""
    size = 5 << 19                              # one chunk more than a stream holds
    data = random.randbytes(size)
    buffer, written, spliced = (fixture.buffer(size) for _ in range(3))
    source = Gpu.InputStream(buffer)
    outputs = [Gpu.OutputStream(written), Gpu.OutputStream(spliced)]
    cancellable = Gio.Cancellable()

    def waits(stream):
        for one in written, spliced:
            stream.fill(one, 1)
        stream.write(buffer, data)
        yield "read_bytes", lambda: source.read_bytes(100)
        yield "read_bytes with a cancellable", lambda: source.read_bytes(100, cancellable)
        yield "read_bytes without overrides", lambda: Gpu.InputStream.new(
            buffer, None, 5, 100).read_bytes(100)
        yield "write_all", lambda: outputs[0].write_all(data)
        yield "write", lambda: outputs[0].write(data)
        yield "write_bytes", lambda: outputs[0].write_bytes(GLib.Bytes.new(data))
        yield "flush", outputs[0].flush
        yield "splice", lambda: outputs[1].splice(
            Gio.MemoryInputStream.new_from_bytes(GLib.Bytes.new(data)), 0), \
            lambda: outputs[1].tell() == 1 << 21
        yield "close", outputs[1].close

    check_interrupts(fixture, waits)
    assert cancellable.is_cancelled()
    equal(source.tell(), 0)
    equal(source.read_bytes(100).get_data(), data[:100])
    equal((outputs[0].tell(), outputs[1].tell(), outputs[1].is_closed()), (1 << 21, 1 << 21, True))
    equal(outputs[0].write_all(data[1 << 21:]), (True, 1 << 19))
    outputs[0].close()
    equal(written.read(), data)
    equal(spliced.read(), data[:1 << 21] + b"\1" * (1 << 19))


def test_idle_waits(fixture):
    """A wait for idle memory does not hand over to another thread."""
    if _gpumem.fast is None:
        raise Skip("the C module is missing")
    stream, size = fixture.new_stream(), 64
    buffer, host = fixture.buffer(size), Gpu.HostMemory(fixture.context, size)
    stream.fill(host, 3)
    stream.synchronize()
    handed_over, is_handed_over = [], threading.Event()

    def run(function, cancel=None):
        handed_over.append(function)
        is_handed_over.set()
        return original(function, cancel)
    original, _gpumem.run_interruptible = _gpumem.run_interruptible, run
    try:
        equal((buffer.wait(), host.read()), (True, b"\3" * size))
        host.synchronize()
        host.write(b"a")
        equal(buffer.write_bytes(None, 0, GLib.Bytes.new(b"b" * size)), True)
        equal(buffer.read_bytes(stream, 0, 2).get_data(), b"bb")
        equal(buffer.read_bytes(stream=None, offset=0, size=2).get_data(), b"bb")
        with raises(Gpu.Error.INVALID_ARGUMENT, "Buffer.read_bytes"):
            buffer.read_bytes(None, size, 1)
        buffer.release()
        with raises(Gpu.Error.RELEASED, "Memory.wait"):
            buffer.wait()
        equal(handed_over, [])
        gate = fixture.gate(stream)
        stream.fill(host, 4)
        threading.Thread(target=lambda: (is_handed_over.wait(DEADLINE), gate.complete())).start()
        equal((host.read(), len(handed_over)), (b"\4" * size, 1))
    finally:
        _gpumem.run_interruptible = original


def test_read_bytes(fixture):
    """A read of idle memory makes no query before the read, and returns all bytes and errors."""
    if _gpumem.fast is None:
        raise Skip("the C module is missing")
    data = random.randbytes(5000)
    buffer = fixture.buffer(data)
    assert "new host memory" in Gpu.Buffer.read_bytes.__doc__
    original, _gpumem._may_block = _gpumem._may_block, None
    try:
        for offset, size in (0, 5000), (0, 1), (4999, 1), (17, 4096):
            part = buffer.read_bytes(fixture.stream, offset, size)
            equal((type(part), part.get_data()), (GLib.Bytes, data[offset:offset + size]))
            equal(buffer.read_bytes(size=size, offset=offset, stream=None).get_data(),
                  data[offset:offset + size])
        with raises(Gpu.Error.INVALID_ARGUMENT, "Buffer.read_bytes"):
            buffer.read_bytes(None, 4999, 2)
    finally:
        _gpumem._may_block = original
    equal(buffer.read_bytes(None, 5000, 0).get_data() or b"", b"")
    with raises(TypeError, "size"):
        buffer.read_bytes(None, 0, 1.5, None)
    buffer.spill()
    equal(buffer.read_bytes(None, 1, 2).get_data(), data[1:3])
    buffer.release()
    with raises(Gpu.Error.RELEASED, "Buffer.read_bytes"):
        buffer.read_bytes(None, 0, 1)


def make_long_copies(buffer):
    """Yields the name of a method, and a function that calls it for a number of bytes."""
    size = _gpumem.LONG_SIZE
    target = bytearray(size)
    target[5] = 7
    data = _gpumem.to_glib_bytes(target, copy=False)
    yield "write", lambda n: buffer.write(memoryview(target)[:n])
    yield "write of bytes", lambda n: buffer.write(data.new_from_bytes(0, n))
    yield "read_into", lambda n: buffer.read_into(memoryview(target)[:n])
    yield "read", lambda n: equal(buffer.read(0, n)[:6], b"\0\0\0\0\0\7")
    yield "read_bytes", lambda n: equal(buffer.read_bytes(None, 0, n).get_size(), n)
    yield "write_bytes", lambda n: buffer.write_bytes(None, 0, data.new_from_bytes(0, n))
    if np is not None and buffer.context.device.backend == "host":
        array = Gpu.Array.new_for_memory(buffer, 0, Gpu.DType.UINT8, [size], None)
        elements = np.frombuffer(target, np.uint8)
        yield "Array.write", lambda n: array[:n].write(elements[:n])
        yield "Array.read_into", lambda n: array[:n].read_into(elements[:n])
        yield "Array.to_numpy", lambda n: equal(array[:n].to_numpy()[5], 7)


def test_long_copies(fixture):
    """Long copies of idle memory run in another thread, so that Ctrl-C ends the wait. Shorter ones
    do not."""
    if fixture.device.max_allocation <= _gpumem.LONG_SIZE:
        raise Skip("the largest allocation is too small")
    buffer = fixture.buffer(_gpumem.LONG_SIZE + 1)
    handed_over = []

    def run(function, cancel=None):
        if _gpumem.takes_signals():
            handed_over.append(function)
        return original(function, cancel)
    original, _gpumem.run_interruptible = _gpumem.run_interruptible, run
    try:
        for name, copy in make_long_copies(buffer):
            for n in 64, _gpumem.LONG_SIZE:
                handed_over.clear()
                copy(n)
                is_long = n > 64 or _gpumem.fast is None and "_bytes" in name
                equal((name, n, len(handed_over)), (name, n, int(is_long)))
        if _gpumem.fast is not None:            # the offset is not the size
            handed_over.clear()
            buffer.write_bytes(None, _gpumem.LONG_SIZE, GLib.Bytes.new(b"1"))
            equal(handed_over, [])
    finally:
        _gpumem.run_interruptible = original


def test_copied_size(fixture):
    """The number of bytes that a method copies, by its arguments."""
    equal(_gpumem._get_copied_size(fixture.buffer(8), 5), 5)
    equal(_gpumem._get_copied_size(fixture.buffer(8), GLib.Bytes.new(b"123")), 3)
    need(fixture, Gpu.Capabilities.IMAGES)
    image = Gpu.Image(fixture.context, "rgba-unorm8", (8, 4))
    equal(_gpumem._get_copied_size(image, None), 128)
    equal(_gpumem._get_copied_size(image, Gpu.Extent(2, 3, 1)), 24)
    equal(_gpumem._get_copied_size(image, GLib.Bytes.new(b"123")), 3)


def test_interrupt_svm(fixture):
    """The map of unfinished memory ends with KeyboardInterrupt, and the memory can be mapped
    later."""
    need(fixture, Gpu.Capabilities.SVM_COARSE)
    svm, buffer = Gpu.Svm(fixture.context, 64), fixture.buffer(64)

    def waits(stream):
        stream.fill(svm, 5)
        stream.fill(buffer, 6)
        yield "Svm.map", lambda: svm.map(Gpu.MapFlags.READ)
        yield "Buffer.map", lambda: buffer.map(Gpu.MapFlags.READ)
        yield "Buffer.map on the stream", lambda: buffer.map(Gpu.MapFlags.READ, stream=stream)

    check_interrupts(fixture, waits)
    for memory, value in (svm, 5), (buffer, 6):
        with memory.map(Gpu.MapFlags.READ) as mapping:
            equal(bytes(mapping.view()), bytes([value]) * 64)


def test_wait_of_failed(fixture):
    """The library waits in short intervals to detect Ctrl-C. Such a series of waits reports a
    failure in the same way as a single wait, on any thread."""
    need(fixture, Gpu.Capabilities.USER_EVENTS)
    stream = fixture.new_stream()
    gate = fixture.gate(stream)
    event = stream.record()
    failures = []

    def work():
        try:
            event.wait()
        except GLib.Error as error:
            failures.append(error.message)

    thread = threading.Thread(target=work)
    thread.start()
    threading.Timer(0.25, lambda: gate.fail("broken on purpose")).start()
    with raises(GLib.Error, "broken on purpose"):
        gate.wait()
    with raises(GLib.Error):
        event.wait()
    with raises(GLib.Error):
        Gpu.Event.wait_all([event, gate])
    thread.join(DEADLINE)
    equal(len(failures), 1)


# --- asyncio -------------------------------------------------------------------------------------

def run_async(main):
    async def limited():
        return await asyncio.wait_for(main(), DEADLINE)
    return asyncio.run(limited())


def test_asyncio(fixture):
    stream = fixture.new_stream()
    buffer = fixture.buffer(1000)
    data = random.Random(5).randbytes(1000)

    async def main():
        gate = fixture.gate(stream, must_hold=False)
        await buffer.write_async(data)
        stream.fill(buffer, 0, 0, 10)
        event = stream.record()
        waiting = [asyncio.ensure_future(wait) for wait in (
            asyncio.wait_for(event, DEADLINE), asyncio.wait_for(stream, DEADLINE),
            buffer.read_async(5, 20, stream))]
        ready = fixture.stream.record()
        await ready
        await asyncio.sleep(0.05)
        assert not gate.holds or not any(wait.done() for wait in waiting)
        gate.complete()
        _, _, got = await asyncio.gather(*waiting)
        equal(got, bytes(5) + data[10:25])
        equal(await buffer.read_async(), bytes(10) + data[10:])
        with raises(Gpu.Error.INVALID_ARGUMENT, "1000"):
            await buffer.read_async(0, 1001)
        with raises(OverflowError):
            await buffer.read_async(-1, 1)

    run_async(main)


def test_asyncio_large(fixture):
    """Asynchronous reads into existing memory and into new memory make no additional copy."""
    data = random.Random(6).randbytes(1 << 18)
    buffer = fixture.buffer(1 << 18)
    stream = fixture.new_stream()

    async def main():
        await buffer.write_async(bytearray(data), stream=stream)
        equal(await buffer.read_async(stream=stream), data)
        equal(await buffer.read_async(1, 1 << 17), data[1:(1 << 17) + 1])
        target = bytearray(1 << 17)
        equal(await buffer.read_into_async(target, 5), 1 << 17)
        equal(target, data[5:(1 << 17) + 5])
        with raises(BufferError):
            await buffer.read_into_async(data)
        with raises(Gpu.Error.INVALID_ARGUMENT, str(1 << 18)):
            await buffer.read_async(1, 1 << 18)

    run_async(main)


def test_asyncio_progress(fixture):
    """Progress is reported in the event loop, with the total before the await returns."""
    size = 40 << 20
    buffer = fixture.buffer(size)
    data = bytes(range(256)) * (size // 256)
    calls = []

    def progress(current, total):
        asyncio.get_running_loop()
        calls.append((current, total))

    def check(total):
        currents = [current for current, _ in calls]
        equal({all for _, all in calls}, {total})
        equal(currents, sorted(set(currents)))
        equal(currents[-1], total)
        calls.clear()

    async def main():
        await buffer.write_async(data, progress=progress)
        check(size)
        equal(await buffer.read_async(progress=progress), data)
        check(size)
        await buffer.write_async(b"1234", 8, progress=progress)
        check(4)
        with raises(Gpu.Error.INVALID_ARGUMENT, str(size)):
            await buffer.write_async(data, 1, progress=progress)
        equal(calls, [])
        task = asyncio.ensure_future(buffer.write_async(
            data, progress=lambda *call: calls.append(call) or task.cancel()))
        with raises(asyncio.CancelledError):
            await task
        equal(len(calls), 1)

    run_async(main)


def test_asyncio_many(fixture):
    """Waits for several events do not block each other if the events complete in reverse order."""
    async def main():
        gates = [fixture.user_event() for _ in range(50)]

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
        failing = fixture.user_event()
        failing.fail("no luck")
        with raises(GLib.Error, "no luck"):
            await failing

    run_async(main)


# --- lifetimes and threads -----------------------------------------------------------------------

def enqueue_much(fixture, result, gated):
    """Submits 1,000 copies and launches, and drops their memory, data, kernels and stream at
    once."""
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
    can_hold = bool(fixture.device.capabilities & Gpu.Capabilities.USER_EVENTS)
    for gated in (False, True) if can_hold else (False,):
        result = fixture.buffer(2000)
        result.fill(0)
        gate = enqueue_much(fixture, result, gated)
        gc.collect()
        if gate is not None:
            gate.complete()
        equal(result.read(), expected_much(), "content")


def test_drop_everything(fixture):
    """If the program never reads the result, nothing crashes, and everything is freed."""
    context = fixture.context
    fixture.context = Gpu.Context(fixture.device)
    del context
    result = fixture.buffer(2000)
    gate = enqueue_much(fixture, result, False)
    del result, gate
    fixture.context = fixture.stream = None
    gc.collect()


def test_context_freed_first(fixture):
    context = Gpu.Context(fixture.device)
    buffer = Gpu.Buffer(context, b"still there")
    stream = Gpu.Stream(context)
    del context
    gc.collect()
    stream.fill(buffer, b"S", 0, 1)
    equal(buffer.read(stream=stream), b"Still there")


def test_threads(fixture):
    kernel = fixture.program().add

    def work(number):
        stream = fixture.new_stream()
        for turn in range(30):
            buffer = fixture.buffer(array.array("I", [number] * 256))
            stream.launch(kernel, 256, args=(buffer, turn))
            equal(buffer.read(stream=stream), struct.pack("=I", number + turn) * 256)

    run_threads(4, work)


if __name__ == "__main__":
    sys.exit(main(globals()))

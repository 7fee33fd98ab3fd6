# SPDX-License-Identifier: LGPL-2.1-or-later
"""Events in Python, on every device that GPUMEM_TEST selects."""

import asyncio
import contextlib
import ctypes
import gc
import os
import random
import sys
import threading
import time
import weakref
from unittest import mock

from gi.module import get_introspection_module
from gi.repository import Gio
from python_util import (DEADLINE, GLib, Gpu, Skip, choose_devices, equal, main, need, need_numpy,
                         np, raises, run_without_fast, spin)
from gi.overrides import _gpumem
from gi.overrides._gpumem import LoopThread, _unused, held, run_later, submit_later, wait_for
from gi.overrides._gpumem_native import fast

CAPABILITIES = Gpu.Capabilities


def gated(fixture):
    """Returns a user event for which the stream waits."""
    need(fixture, CAPABILITIES.USER_EVENTS)
    gate = Gpu.Event.new_user(fixture.context)
    fixture.stream.wait_event(gate)
    return gate


# --- calls ----------------------------------------------------------------------------------------

def test_call(fixture):
    """The function runs after the earlier work, on a thread of the module, without a main loop."""
    buffer = fixture.buffer(1000)
    fixture.stream.fill(buffer, 7)
    data, thread = fixture.stream.call(
        lambda offset, size: (buffer.read(offset, size), threading.current_thread()),
        10, 5).result(DEADLINE)
    equal(data, b"\7" * 5)
    equal(thread.name, "gpumem-call")
    assert thread.daemon and thread is not threading.main_thread()
    event = fixture.stream.record()
    event.wait()
    equal(event.call(threading.current_thread).result(DEADLINE), thread)


def test_call_waits(fixture):
    """The function runs only after the event has completed. Other streams do not wait."""
    gate = gated(fixture)
    calls = []
    futures = [fixture.stream.call(calls.append, number) for number in range(10)]
    other = Gpu.Stream(fixture.context)
    equal(other.call(lambda: len(calls)).result(DEADLINE), 0)
    assert not any(future.done() for future in futures)
    assert futures[3].cancel()
    gate.complete()
    for number, future in enumerate(futures):
        if number != 3:
            equal(future.result(DEADLINE), None)
    equal(calls, [0, 1, 2, 4, 5, 6, 7, 8, 9])


def test_call_order(fixture):
    """The calls of a stream are made in their order, even if the work before a later call completes
    before the thread makes an earlier call."""
    buffer = fixture.buffer(1 << 16)
    for _ in range(30):
        stream, calls = Gpu.Stream(fixture.context), []
        for number in range(30):
            stream.fill(buffer, number)
            stream.flush()
            future = stream.call(calls.append, number)
        future.result(DEADLINE)
        equal(calls, list(range(30)))


def test_call_fails(fixture):
    """A failure of the work is that of the future. The function is not called."""
    gate = gated(fixture)
    future = fixture.stream.call(sys.exit, "called")
    gate.fail("the gate broke")
    with raises(Gpu.Error.FAILED, "the gate broke"):
        future.result(DEADLINE)
    with raises(GLib.Error, "the gate broke"):
        gate.call(sys.exit, "called").result(DEADLINE)


@contextlib.contextmanager
def capture(fixture, launches=False):
    """The body captures the stream that this returns. The graph is launched if @launches is true,
    and destroyed."""
    if fixture.device.backend != "cuda":
        raise Skip("only CUDA captures streams")
    driver = ctypes.CDLL("libcuda.so.1")
    stream = Gpu.Stream.new(fixture.context, Gpu.StreamFlags.NON_BLOCKING)
    handle, graph = ctypes.c_void_p(stream.native_handle), ctypes.c_void_p()
    fixture.context.synchronize()
    equal(driver.cuStreamBeginCapture_v2(handle, 0), 0)
    try:
        yield stream
    finally:
        code = driver.cuStreamEndCapture(handle, ctypes.byref(graph))
    equal(code, 0)
    if launches:
        launch_graph(driver, fixture.context, graph, stream)
    equal(driver.cuGraphDestroy(graph), 0)


def launch_graph(driver, context, graph, stream):
    """Launches the graph on the stream, and waits, once the library has released the data of the
    capture."""
    executable = ctypes.c_void_p()
    stream.synchronize()
    with context.current():
        equal(driver.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph,
                                                 ctypes.c_ulonglong(0)), 0)
        equal(driver.cuGraphLaunch(executable, ctypes.c_void_p(stream.native_handle)), 0)
        equal(driver.cuStreamSynchronize(ctypes.c_void_p(stream.native_handle)), 0)
    equal(driver.cuGraphExecDestroy(executable), 0)


def test_call_captured(fixture):
    """A graph cannot contain the call, and the capture survives. After it, the call succeeds."""
    with capture(fixture) as stream:
        with raises(Gpu.Error.NOT_SUPPORTED, "Stream.call", "captured"):
            stream.call(sys.exit, "called")
        with raises(Gpu.Error.NOT_SUPPORTED, "Event.call", "captured"):
            stream.record().call(sys.exit, "called")
    equal(stream.call(int, 5).result(DEADLINE), 5)


def test_call_raises(fixture):
    """An exception of the function is that of the future. Python prints it if the program drops the
    future."""
    with raises(ZeroDivisionError):
        fixture.stream.call(lambda: 1 // 0).result(DEADLINE)
    printed = []
    hook = sys.unraisablehook
    sys.unraisablehook = lambda one: printed.append(one.exc_value.code)
    try:
        for exit_code in (3, 4):
            future = fixture.stream.call(sys.exit, exit_code)
            fixture.stream.call(int).result(DEADLINE)       # the thread has made the call
            if exit_code == 3:
                equal(future.exception(DEADLINE).code, 3)
            del future
    finally:
        sys.unraisablehook = hook
    equal(printed, [4])
    with raises(TypeError, "callable"):
        fixture.stream.call(5)


def test_call_frees(fixture):
    """A call that has raised an exception frees its arguments with its future, without the garbage
    collector."""
    class Argument:
        pass

    def fail(argument):
        raise LookupError(str(argument))

    def look_at_result(future):
        try:
            future.result(DEADLINE)
        except LookupError:
            return
        finally:
            del future                          # to which the traceback would refer
        raise AssertionError("the call returned")

    hook, printed = sys.unraisablehook, []
    sys.unraisablehook = lambda one: printed.append(type(one.exc_value))
    gc.disable()
    try:
        for look in (lambda future: future.exception(DEADLINE), look_at_result, None):
            argument = Argument()
            reference = weakref.ref(argument)
            future = fixture.stream.call(fail, argument)
            del argument
            if look is not None:
                look(future)
            fixture.stream.call(int).result(DEADLINE)       # the thread has left the first call
            del future
            equal(reference(), None)
    finally:
        gc.enable()
        sys.unraisablehook = hook
    equal(printed, [LookupError])


def test_call_is_slow(fixture):
    """A function that blocks delays neither asyncio nor the release of data."""
    release = threading.Event()
    future = fixture.stream.call(release.wait, DEADLINE)

    async def work():
        buffer = fixture.buffer(100)
        data = bytearray(b"\1") * (1 << 17)
        fixture.stream.write(Gpu.Buffer(fixture.context, 1 << 17), data, copy=False)
        await fixture.stream
        del data
        await buffer.fill_async(3)
        return await asyncio.wrap_future(fixture.stream.call(buffer.read)), buffer

    try:
        async def both():
            task = asyncio.create_task(work())
            await asyncio.sleep(0)
            await fixture.stream
            assert not future.done()
            release.set()
            return await task
        data, _ = asyncio.run(both())
    finally:
        release.set()
    equal(data, b"\3" * 100)
    assert future.result(DEADLINE)


# --- await ----------------------------------------------------------------------------------------

def test_submission_blocks(fixture):
    """A submission that blocks delays no wait for an event, and later submissions keep their
    order."""
    go, begun, event = threading.Event(), [], fixture.stream.record()
    buffer = fixture.buffer(1000)

    def begin(number):
        def run(cancellable, callback):
            begun.append(number)
            assert number > 0 or go.wait(2 * DEADLINE)
            event.wait_async(cancellable, callback)
        return run

    async def use():
        tasks = [asyncio.create_task(wait_for(begin(number), event.wait_finish))
                 for number in range(3)]
        await asyncio.sleep(0)
        await event
        await buffer.fill_async(7)
        assert not any(task.done() for task in tasks)
        tasks.append(asyncio.create_task(buffer.read_async()))
        go.set()
        results = await asyncio.gather(*tasks)
        equal((results, begun), ([True] * 3 + [b"\7" * 1000], [0, 1, 2]))

    try:
        asyncio.run(asyncio.wait_for(use(), DEADLINE))
    finally:
        go.set()


def plain_thread_fails():
    """After a failed start, the next use starts the helper thread."""
    thread, called = LoopThread("test"), threading.Event()
    with mock.patch("threading.Thread.start", side_effect=RuntimeError("no thread")):
        with raises(RuntimeError, "no thread"):
            thread.get_context()
    thread.run_later(lambda *data: called.set())
    assert called.wait(DEADLINE)


def test_stream_behind_submission(fixture):
    """Awaiting a stream waits for the operations that the program began before, also if their
    submission blocks. Without such operations, it needs no thread for submissions."""
    go, buffer, stream = threading.Event(), fixture.buffer(1000), fixture.stream

    async def use():
        submit_later(lambda *ignored: go.wait(2 * DEADLINE) and None)
        write = asyncio.create_task(buffer.write_async(b"\1" * 1000))
        await asyncio.sleep(0)
        behind = asyncio.ensure_future(stream)
        await asyncio.sleep(0)
        await stream.record()
        await asyncio.sleep(0.05)
        assert not behind.done()
        go.set()
        await asyncio.gather(write, behind)
        equal(buffer.read(), b"\1" * 1000)
        with mock.patch("gi.overrides._gpumem.submit_later", side_effect=AssertionError):
            await stream

    try:
        asyncio.run(asyncio.wait_for(use(), DEADLINE))
    finally:
        go.set()


# --- native handles -------------------------------------------------------------------------------

CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11D3
CUDA_SUCCESS, CUDA_ERROR_NOT_READY = 0, 600


def driver_says_complete(fixture, handle):
    """Queries an event of the driver by its handle, without this library."""
    if fixture.device.backend == "opencl":
        library, status = ctypes.CDLL("libOpenCL.so.1"), ctypes.c_int(-1)
        equal(library.clGetEventInfo(ctypes.c_void_p(handle), CL_EVENT_COMMAND_EXECUTION_STATUS,
                                     ctypes.c_size_t(4), ctypes.byref(status), None), 0)
        return status.value == 0
    with fixture.context.current():
        code = ctypes.CDLL("libcuda.so.1").cuEventQuery(ctypes.c_void_p(handle))
    assert code in (CUDA_SUCCESS, CUDA_ERROR_NOT_READY), code
    return code == CUDA_SUCCESS


def test_native_handle(fixture):
    """The handle is that of an event of the driver, which does not complete before the event, and
    stays valid after the event has completed."""
    fixture.stream.fill(fixture.buffer(1 << 20), 7)
    event = fixture.stream.record()
    handle = event.native_handle
    event.wait()
    equal(event.native_handle, handle)
    if handle != 0 and fixture.device.backend != "host":
        for _ in range(20):
            fixture.stream.record().wait()                  # the library could reuse events
        assert driver_says_complete(fixture, handle)
    done = fixture.stream.record()
    done.wait()
    done.query()
    equal(done.native_handle, done.native_handle)
    if fixture.device.backend == "cuda":
        timed = Gpu.Stream(fixture.context).record(Gpu.EventFlags.TIMING)
        timed.wait()
        assert driver_says_complete(fixture, timed.native_handle)


def test_native_handle_of_user_event(fixture):
    need(fixture, CAPABILITIES.USER_EVENTS)
    gate = gated(fixture)
    behind = fixture.stream.record()
    assert gate.native_handle not in (0, behind.native_handle) and behind.native_handle != 0
    if fixture.device.backend == "opencl":
        assert not driver_says_complete(fixture, gate.native_handle)
        assert not driver_says_complete(fixture, behind.native_handle)
    gate.complete()
    behind.wait()
    if fixture.device.backend == "opencl":
        assert driver_says_complete(fixture, gate.native_handle)
        assert driver_says_complete(fixture, behind.native_handle)
    complete = Gpu.Event.new_user(fixture.context)
    complete.complete()
    equal(complete.native_handle, 0)


# --- commands that wait alone ---------------------------------------------------------------------

def test_wait_alone(fixture):
    """Waits on a second stream delay only the work there, and later work on the same memory. An
    out-of-order stream needs no wait lists for work on the same memory."""
    need(fixture, CAPABILITIES.OUT_OF_ORDER)
    need(fixture, CAPABILITIES.USER_EVENTS)
    gate = Gpu.Event.new_user(fixture.context)
    stream, side = (Gpu.Stream(fixture.context, Gpu.StreamFlags.OUT_OF_ORDER) for _ in range(2))
    one, other, copy = (fixture.buffer(1000) for _ in range(3))
    side.wait_event(gate)
    side.fill(one, 1)
    stream.fill(other, 2)
    stream.record().wait()                      # the gate is still pending
    equal(other.read(), b"\2" * 1000)
    stream.copy(copy, one)
    copied = stream.record()
    equal(copied.poll(10000, None), Gpu.EventStatus.PENDING)
    gate.complete()
    for value in range(2, 100):
        stream.fill(one, value)
        stream.copy(copy, one, 500, destination_offset=value)
    stream.fill(one, 0)
    equal(copy.read(2, 600), bytes([*range(2, 99), *[99] * 500, *[1] * 3]))


# --- waits for events of other contexts -----------------------------------------------------------

def other_contexts(fixture):
    """Yields another context of the device, and a context of each other usable device."""
    yield Gpu.Context(fixture.device, Gpu.ContextFlags.OWN)
    for device in choose_devices():
        if device != fixture.device:
            yield Gpu.Context(device)


def can_wait(stream, event):
    """Whether a stream supports events of the context of the event."""
    backends = [one.context.device.backend for one in (stream, event)]
    return backends[0] != "cuda" or backends[1] == "cuda"


def test_foreign_wait(fixture):
    """A stream waits for a stream of another context, on the same or on another driver."""
    source = "__kernel void k (__global int *p) { int i; for (i = 0; i < 10000; i++) p[0] += 1; }"
    need(fixture, CAPABILITIES.SOURCE)
    for context in other_contexts(fixture):
        stream, memory = context.default_stream, Gpu.Buffer(context, bytes(4))
        Gpu.Program(context, source).k(stream, 1, None, memory)
        event = stream.record()
        own = fixture.buffer(4)
        if not can_wait(fixture.stream, event):
            event.wait()
            with raises(Gpu.Error.NOT_SUPPORTED, "Stream.wait_event", "Event.wait()"):
                fixture.stream.wait_event(Gpu.Event.new_user(context))
            continue
        fixture.stream.wait_event(event)
        fixture.stream.fill(own, 1)
        fixture.stream.record().wait()
        equal(event.query(), Gpu.EventStatus.COMPLETE)
        equal(memory.read(), (10000).to_bytes(4, sys.byteorder))


def test_foreign_threads(fixture):
    """Waits take no thread of their own while the other event is pending."""
    need(fixture, CAPABILITIES.USER_EVENTS)
    for context in other_contexts(fixture):
        if not context.device.capabilities & CAPABILITIES.USER_EVENTS:
            continue
        gate = Gpu.Event.new_user(context)
        before = len(os.listdir("/proc/self/task"))
        for number in range(50):
            fixture.stream.wait_event(gate)
        assert len(os.listdir("/proc/self/task")) < before + 10
        gate.complete()
        fixture.stream.record().wait()


def test_foreign_gate(fixture):
    """A stream does not run past a pending event of another context, and runs when it completes."""
    for context in other_contexts(fixture):
        for behind in (False, True):
            if not context.device.capabilities & CAPABILITIES.USER_EVENTS:
                continue
            gate = event = Gpu.Event.new_user(context)
            if not can_wait(fixture.stream, gate):
                continue
            if behind:
                context.default_stream.wait_event(gate)
                event = context.default_stream.record()
            other = Gpu.Stream(fixture.context)
            other.wait_event(event)
            buffer = fixture.buffer(4)
            other.fill(buffer, 9)
            filled = other.record()
            equal(filled.poll(10000, None), Gpu.EventStatus.PENDING)
            fixture.stream.fill(fixture.buffer(4), 1)
            fixture.stream.synchronize()                    # not held up
            gate.complete()
            filled.wait()
            equal(buffer.read(), b"\x09" * 4)


def test_foreign_failure(fixture):
    """A failure of an event of another context fails the work that waits for the event."""
    for context in other_contexts(fixture):
        if not context.device.capabilities & CAPABILITIES.USER_EVENTS:
            continue
        gate = Gpu.Event.new_user(context)
        if not can_wait(fixture.stream, gate):
            continue
        stream = Gpu.Stream(fixture.context)
        stream.wait_event(gate)
        stream.fill(fixture.buffer(4), 9)
        event = stream.record()
        gate.fail("the other gate broke")
        with raises(Gpu.Error.FAILED, "the other gate broke"):
            event.wait()
        with raises(Gpu.Error.FAILED, "Stream.wait_event", "the other gate broke"):
            Gpu.Stream(fixture.context).wait_event(gate)
        dropped = Gpu.Event.new_user(context)
        stream = Gpu.Stream(fixture.context)
        stream.wait_event(dropped)
        del dropped
        with raises(Gpu.Error.FAILED, "dropped"):
            stream.record().wait()


def test_foreign_cycle(fixture):
    """Streams of two contexts wait for each other many times."""
    context = next(other_contexts(fixture))
    streams = [fixture.stream, context.default_stream]
    buffers = [fixture.buffer(4), Gpu.Buffer(context, 4)]
    for step in range(50):
        stream = streams[step % 2]
        stream.fill(buffers[step % 2], step)
        streams[(step + 1) % 2].wait_event(stream.record())
    for stream in streams:
        stream.synchronize()
    equal([buffer.read(0, 1) for buffer in buffers], [b"\x30", b"\x31"])


# --- captures ------------------------------------------------------------------------------------

def test_refused_in_capture(fixture):
    """A method that waits is refused in a capture. The error names the method, and the data of the
    program are released."""
    data = bytearray(1 << 16)
    buffer, source = fixture.buffer(1 << 16), fixture.buffer(1 << 16)
    methods = [("fill", 1), ("fill_async", 1), ("copy", source), ("copy_async", source),
               ("write", data), ("read_into", data), ("read_into_async", data)]
    calls = [("Buffer", buffer, *one) for one in methods]
    if fixture.device.capabilities & CAPABILITIES.IMAGES:
        image = Gpu.Image(fixture.context, "rgba-unorm8", (128, 128))
        methods[0:4] = [("fill", (1.0, 0.0, 0.0, 1.0)), ("write_async", data)]
        calls += [("Image", image, *one) for one in methods]

    async def call_async(method, arg, stream):
        await method(arg, stream=stream)

    with capture(fixture) as stream:
        for owner, memory, name, arg in calls:
            method = getattr(memory, name)
            with raises(Gpu.Error.NOT_SUPPORTED, f"{owner}.{name}: ", "captured"):
                if name.endswith("_async"):
                    asyncio.run(call_async(method, arg, stream))
                else:
                    method(arg, stream=stream)
    resize(data)


def test_refused_joins(fixture):
    """A call that waits for work with memory of a capture is refused on another stream, which does
    not join the capture."""
    need_numpy()
    array = Gpu.Array.zeros(fixture.context, (64, 4), "uint8")
    other, memory = Gpu.Array.zeros(fixture.context, (64, 4), "uint8"), array.memory
    data, numbers = bytearray(256), np.ones((64, 8), "uint8")
    calls = [array.to_numpy, array.tobytes, array.tolist, lambda: array.fill(1),
             lambda: array.write(numbers[:, :4]), lambda: array.write(numbers[:, ::2]),
             lambda: array.read_into(numbers[:, ::2]), lambda: array.write(other),
             lambda: other.write(array), lambda: array.put([1, 5], other[:2]),
             lambda: array.__setitem__(3, 1), lambda: array.__setitem__(slice(2), b"\1"),
             lambda: array[:, 1].to_numpy(), memory.read, lambda: memory.read_into(data),
             lambda: memory.write(data), lambda: memory.fill(1), lambda: memory.copy(other.memory),
             lambda: asyncio.run(memory.fill_async(1)), lambda: asyncio.run(array.to_numpy_async()),
             lambda: asyncio.run(memory.write_async(data))]
    default = fixture.context.default_stream
    with capture(fixture, launches=True) as stream:
        stream.fill(memory, 5)
        for i, call in enumerate(calls):
            with raises(Gpu.Error.NOT_SUPPORTED, "captured"):
                call()
            assert default.is_idle(), f"call {i} has joined the capture"
    equal(bytes(memory.read()), b"\5" * 256)
    resize(data)


def test_transfers_in_capture(fixture):
    """A launch with Gpu.In, Gpu.Out or Gpu.InOut is refused before it submits work: the graph would
    use memory that the launch frees. The graph has only the work of the other calls."""
    data = bytearray(b"\1" * 4096)
    buffer, kernel = fixture.buffer(4096), Gpu.Program(fixture.context, """
__kernel void add (__global uint *x, __global uint *y)
{
  x[get_global_id (0)] += y[get_global_id (0)];
}
""").add
    with capture(fixture, launches=True) as stream:
        stream.fill(buffer, 5)
        for arg in (Gpu.In(data), Gpu.Out(data), Gpu.InOut(data)):
            with raises(Gpu.Error.NOT_SUPPORTED, "Stream.launch: ", "captured"):
                stream.launch(kernel, 1024, args=(buffer, arg))
            with raises(Gpu.Error.NOT_SUPPORTED, "Kernel.__call__: ", "captured"):
                kernel(stream, 1024, None, buffer, arg)
    equal(buffer.read(), b"\5" * 4096)
    resize(data)


def test_rows_in_capture(fixture):
    """Rows of an array of another type, or of the host, are refused for the same reason."""
    source = Gpu.Array.zeros(fixture.context, (2, 4), "int32")
    table = Gpu.Array.zeros(fixture.context, (3, 4), "float32")
    other = Gpu.Array.full(fixture.context, (2, 4), 5, "float32")
    with capture(fixture, launches=True) as stream:
        table.put([0, 2], other, stream)
        for values in (source, source.to_numpy(), 3, b"\0\0\0\1"):
            with raises(Gpu.Error.NOT_SUPPORTED, "Array.put: ", "captured"):
                table.put([0, 1], values, stream)
    equal(table.tolist(), [[5] * 4, [0] * 4, [5] * 4])


def test_written_in_capture(fixture):
    """A graph reads the data of a write when it is launched. The program may drop or change them
    before, because they are copied."""
    for size in (1000, 1 << 16):
        buffer, data = fixture.buffer(size), random.Random(size).randbytes(size)
        changed = bytearray(data)
        with capture(fixture, launches=True) as stream:
            stream.write(buffer, changed)
            changed[:] = bytes(size)
        equal(buffer.read(), data)


def resize(data):
    """Resizes a bytearray, which is possible once its last export is released."""
    deadline = time.monotonic() + DEADLINE
    while True:
        try:
            data.append(1)
            return
        except BufferError:
            assert time.monotonic() < deadline, "the data are still exported"
            time.sleep(0.001)


# --- data of completed work -----------------------------------------------------------------------

SIZE = 1 << 17                                  # calls that do not wait use such data in place


@contextlib.contextmanager
def blocked_helper():
    """Blocks the helper thread of the bindings. Without the C module, waits need that thread."""
    go, is_blocked = threading.Event(), threading.Event()
    if fast is None:
        go.set()

    def block(*data):
        is_blocked.set()
        go.wait(DEADLINE)

    run_later(block)
    assert is_blocked.wait(DEADLINE)
    try:
        yield
    finally:
        go.set()


def list_waits(fixture, buffer):
    stream = fixture.stream

    def wait_in_thread():
        thread = threading.Thread(target=stream.synchronize)
        thread.start()
        thread.join(DEADLINE)

    return [stream.synchronize, wait_in_thread, lambda: stream.__exit__(None, None, None),
            buffer.wait, lambda: buffer.wait(timeout=100), fixture.context.synchronize,
            lambda: stream.record().wait(),
            lambda: stream.record().wait_timeout(-1), lambda: stream.record().poll(-1),
            lambda: buffer.read(0, 1), lambda: buffer.read(0, SIZE), lambda: buffer.fill(1)]


def check_released(number, data, target):
    """Fails with a BufferError while the data are in use."""
    data.append(1)
    target.append(number)
    equal(target, bytes([number]) * (SIZE + 1))


def submit_transfers(stream, buffer, number):
    data, target = bytearray([number]) * SIZE, bytearray(SIZE)
    stream.write(buffer, data, copy=False)
    stream.read_into(buffer, target)
    return number, data, target


def test_wait_for_a_number(fixture):
    """A number in the place of the cancellable raises an error with advice, before the wait."""
    stream, event, memory = fixture.stream, fixture.stream.record(), fixture.buffer(16)
    for call in (event.wait, stream.synchronize, memory.wait,
                 lambda *args, **kwargs: Gpu.Event.wait_all([event], *args, **kwargs)):
        for number in 10, 0.5:
            with raises(TypeError, "cancellable must be of type Gio.Cancellable, not", repr(number),
                        f"a limit in seconds is timeout={number}"):
                call(number)
        with raises(TypeError, "cancellable") as caught:
            call("10")
        assert "timeout" not in caught.text, caught.text
        call(None, 10)
        call(timeout=10)
        call(Gio.Cancellable(), timeout=10.5)


def test_wait_releases_data(fixture):
    """The data of work are free when a wait for the work returns, without the helper thread of the
    bindings."""
    buffer = fixture.buffer(SIZE)
    for wait_for_work in list_waits(fixture, buffer):
        with blocked_helper():
            for number in range(20):
                transfers = submit_transfers(fixture.stream, buffer, number)
                wait_for_work()
                check_released(*transfers)


def test_await_releases_data(fixture):
    """The data of work are free when an await for the work ends."""
    buffer, stream = fixture.buffer(SIZE), fixture.stream

    async def use(begin):
        for number in range(20):
            transfers = submit_transfers(stream, buffer, number)
            await begin()
            check_released(*transfers)

    for begin in (lambda: stream, lambda: stream.record(), buffer.wait_async,
                  lambda: buffer.fill_async(1)):
        asyncio.run(asyncio.wait_for(use(begin), DEADLINE))


def list_makers(fixture):
    makers = [lambda data: Gpu.Buffer.new_for_data(fixture.context, data)]
    try:
        Gpu.HostMemory.registered(fixture.context, bytearray(SIZE)).release()
        makers.append(lambda data: Gpu.HostMemory.registered(fixture.context, data))
    except Gpu.Error.NOT_SUPPORTED:
        pass
    return makers


def test_release_of_memory_releases_data(fixture):
    """Memory over data of the program releases the data at once, or else at the end of a wait for
    the work that uses them."""
    stream, buffer = fixture.stream, fixture.buffer(SIZE)
    for make in list_makers(fixture):
        with blocked_helper():
            for number in range(20):
                data = bytearray([number]) * SIZE
                with make(data) as memory:
                    stream.copy(buffer, memory)
                    stream.synchronize()
                if fast is None:                # the helper thread may still release the data
                    stream.synchronize()
                data.append(1)
                with make(data) as memory:
                    stream.copy(buffer, memory, SIZE)
                stream.synchronize()
                data.append(1)
                equal(buffer.read(), bytes([number]) * SIZE)


def test_interrupted_wait_releases_data(fixture):
    """The data of a call that Ctrl-C has interrupted are free after the next wait."""
    buffer, data = fixture.buffer(SIZE), bytearray(b"\1") * SIZE
    gate = gated(fixture)
    with blocked_helper():
        with raises(KeyboardInterrupt), held(data) as kept:
            fixture.stream.write(buffer, kept.bytes)
            del kept
            raise KeyboardInterrupt
        with raises(BufferError):
            data.append(1)
        gate.complete()
        fixture.stream.synchronize()
        data.append(1)
    equal(buffer.read(), b"\1" * SIZE)


class Destroyed(bytearray):
    """Data whose destructor calls the library."""
    buffer, depths, depth = None, [], 0

    def __del__(self):
        Destroyed.depth += 1
        Destroyed.depths.append(Destroyed.depth)
        Destroyed.buffer.fill(0, 0, 4)
        Destroyed.depth -= 1


def test_destructors_of_data(fixture):
    """Destructors of data that call the library do not run inside of each other. PyGObject crashes
    if they are more than 50 deep."""
    gate = gated(fixture)
    Destroyed.buffer, Destroyed.depths = fixture.buffer(SIZE), []
    with blocked_helper():
        for _ in range(40):
            fixture.stream.write(Destroyed.buffer, Destroyed(SIZE), copy=False)
        gate.complete()
        fixture.stream.synchronize()
        if fast is not None:
            equal(Destroyed.depths, [1] * 40)
    spin(lambda: len(Destroyed.depths) == 40 and Destroyed.depth == 0)
    equal(Destroyed.buffer.read(), bytes(SIZE))
    Destroyed.buffer = None


class Locking(bytearray):
    """Data whose destructor takes a lock."""
    lock, took = threading.RLock(), []

    def __del__(self):
        took = Locking.lock.acquire(timeout=DEADLINE)
        Locking.took.append(took)
        if took:
            Locking.lock.release()


def test_destructors_that_lock(fixture):
    """A destructor of data may take a lock that the thread holds which waits for their work."""
    buffer, Locking.took = fixture.buffer(SIZE), []
    for number in range(1, 4):
        gate = gated(fixture)
        with Locking.lock:
            fixture.stream.write(buffer, Locking(SIZE), copy=False)
            gate.complete()
            fixture.stream.synchronize()
        spin(lambda: len(Locking.took) == number)
    equal(Locking.took, [True] * 3)


class Owner(Locking):
    """An owner of memory of CUDA whose destructor takes a lock."""


def read_with_gaps(fixture):
    """Begins a read into an array with gaps over data whose destructor takes a lock."""
    array = Gpu.Array.zeros(fixture.context, (SIZE // 8,), "uint8")
    gate = gated(fixture)
    array.read_into(np.frombuffer(Locking(SIZE), "uint8")[::8], fixture.stream)
    return gate


def use_foreign(fixture):
    """Begins a write to memory of another library whose destructor takes a lock."""
    if fixture.device.backend != "cuda":
        raise Skip("the device has no arrays of other libraries of CUDA")
    memory, owner = fixture.buffer(SIZE), Owner()
    owner.__cuda_array_interface__ = {"version": 3, "shape": (SIZE,), "typestr": "|u1",
                                      "data": (memory.get_device_address(), False)}
    array = Gpu.Array.from_cuda_array_interface(fixture.context, owner)
    gate = fixture.gate(fixture.stream, must_hold=False)
    array.fill(1, fixture.stream)
    return gate


def check_owner_that_locks(fixture, begin):
    """Work that completes in a wait, which holds a lock, drops an object that takes this lock."""
    need_numpy()
    buffer, Locking.took = fixture.buffer(SIZE), []
    for number in range(1, 4):
        with Locking.lock:
            gate = begin(fixture)
            # The wait for the release of these data needs the helper thread
            fixture.stream.write(buffer, bytearray(SIZE), copy=False)
            gate.complete()
            fixture.stream.synchronize()

            async def wait():
                await fixture.stream
            asyncio.run(wait())
        spin(lambda: len(Locking.took) == number)
    equal(Locking.took, [True] * 3)


def test_destructors_of_arrays_that_lock(fixture):
    check_owner_that_locks(fixture, read_with_gaps)


def test_destructors_of_owners_that_lock(fixture):
    check_owner_that_locks(fixture, use_foreign)


class Blocking:
    """An object whose destructor blocks."""

    def __init__(self):
        self.started, self.done = threading.Event(), threading.Event()

    def __del__(self):
        self.started.set()
        assert self.done.wait(DEADLINE)


def plain_destructor_that_blocks():
    """Data are released while another thread is in the destructor of other data."""
    for place in 0, 1:
        data, blocking = bytearray(4), Blocking()
        started, done = blocking.started, blocking.done
        _unused.items.append(memoryview(data))
        _unused.items.insert(place, blocking)
        del blocking
        thread = threading.Thread(target=_unused.drop)
        thread.start()
        assert started.wait(DEADLINE)
        _unused.drop()
        data.append(1)
        done.set()
        thread.join(DEADLINE)
        equal(_unused.items, [])


def plain_releases_without_thread():
    """Data are released, and no later wait waits for them, if the thread for destructors cannot
    start."""
    if fast is not None:
        run_without_fast(__file__, "releases_without_thread", GPUMEM_TEST="host")
        return
    context, data, reported = Gpu.Context("host"), bytearray(SIZE), []
    with mock.patch.object(_gpumem, "_drop_later", side_effect=RuntimeError("no thread")), \
            mock.patch.object(sys, "excepthook", lambda *error: reported.append(error[0])):
        context.default_stream.write(Gpu.Buffer(context, SIZE), data, copy=False)
        context.default_stream.synchronize()
        equal((reported, _gpumem._exports), ([RuntimeError], []))
        data.append(1)


def plain_destructors_without_module():
    run_without_fast(__file__, "destructors_of", GPUMEM_TEST="host,cuda:0")
    run_without_fast(__file__, "destructors_that_lock", GPUMEM_TEST="host")


def plain_refused_without_module():
    if not any(device.backend == "cuda" for device in choose_devices()):
        raise Skip("only CUDA captures streams")
    run_without_fast(__file__, "refused_", GPUMEM_TEST="cuda:0")


# --- failures that another thread takes -----------------------------------------------------------

class Taken:
    """A stream whose work waits for an event. take() fails the event in another thread, which gets
    the error of the stream, and then submits work that succeeds."""

    def __init__(self, fixture, stream=None):
        need(fixture, CAPABILITIES.USER_EVENTS)
        if fast is None:
            raise Skip("only the C module knows the work of a call")
        self.stream = stream or fixture.new_stream()
        self.other = fixture.buffer(64)
        self.gate = fixture.gate(self.stream)
        self.stream.fill(fixture.buffer(64), 1)
        self.is_taken = False

    def take(self):
        if not self.is_taken:
            self.is_taken = True
            thread = threading.Thread(target=self._run)
            thread.start()
            thread.join(DEADLINE)
            assert not thread.is_alive()

    def _run(self):
        self.gate.fail("it was taken")
        with raises(Gpu.Error, "it was taken"):
            self.stream.synchronize()
        self.stream.fill(self.other, 3)

    def check(self, method, call):
        """Checks that the call of a method fails with its name, and that the later work
        succeeds."""
        with raises(Gpu.Error, f"{method}: it was taken"):
            call(self.stream)
        assert self.is_taken
        equal(self.other.read(stream=self.stream), b"\3" * 64)

    def check_after(self, owner, name, method, call):
        """check() of a call, where take() runs after the call of a method that submits work."""
        original = getattr(owner, name)

        def submit(*args):
            result = original(*args)
            self.take()
            return result

        with mock.patch.object(owner, name, submit):
            self.check(method, call)


def raw(name):
    """Returns a class without the overrides, whose methods the overrides call."""
    return getattr(get_introspection_module("Gpu"), name)


def check_methods(fixture, make, rows):
    """Checks methods of new memory. A row has the class and the name of the method that submits the
    work, the name of the method that fails, and its arguments."""
    for owner, name, method, *args in rows:
        call = getattr(make(), method.partition(".")[2])

        async def call_async(stream):
            return await call(*args, stream=stream)

        Taken(fixture).check_after(
            owner, name, method, lambda stream: asyncio.run(call_async(stream))
            if method.endswith("_async") else call(*args, stream=stream))


def test_failure_taken(fixture):
    """A method fails if its own work failed, even if another thread got the error, and submitted
    work that succeeds, before the method waits."""
    data = bytearray(64)
    source = fixture.buffer(64)
    check_methods(fixture, lambda: fixture.buffer(64), (
        (Gpu.Stream, "fill", "Buffer.fill", 2),
        (Gpu.Stream, "fill", "Buffer.fill_async", 2),
        (Gpu.Stream, "copy", "Buffer.copy", source),
        (Gpu.Stream, "copy", "Buffer.copy_async", source),
        (Gpu.Stream, "map", "Buffer.map_async"),
        (raw("Stream"), "write", "Buffer.write", GLib.Bytes(data)),
        (raw("Stream"), "read_into", "Buffer.read_into_async", data)))


def test_failure_taken_of_array(fixture):
    """The same for arrays, whose methods wait if they are given no stream."""
    context = fixture.context
    array, source = (Gpu.Array.zeros(context, (4, 4), "uint8") for _ in range(2))
    for name, method, call in (
            ("copy_array", "Array.write", lambda stream: array.write(source)),
            ("fill_array", "Array.fill", lambda stream: array.fill(2)),
            ("take_rows", "Array.take", lambda stream: source.take([1, 3])),
            ("put_rows", "Array.put", lambda stream: array.put([3, 1], source[:2]))):
        taken = Taken(fixture, context.get_default_stream())
        taken.check_after(raw("Stream"), name, method, call)


def test_failure_taken_of_image(fixture):
    """The same for images."""
    need(fixture, CAPABILITIES.IMAGES)
    data = bytearray(64)
    color = (1, 2, 3, 4)

    def make():
        image = Gpu.Image(fixture.context, "rgba-uint8", (4, 4))
        image.write(data)
        return image

    source = make()
    check_methods(fixture, make, (
        (raw("Stream"), "write_region", "Image.write", data),
        (raw("Stream"), "write_region", "Image.write_async", data),
        (raw("Stream"), "read_region_into", "Image.read_into", data),
        (raw("Stream"), "read_region_into", "Image.read_into_async", data),
        (Gpu.Stream, "copy_region", "Image.copy", source),
        (Gpu.Stream, "copy_region", "Image.copy_async", source),
        (Gpu.Stream, "fill_image", "Image.fill", color),
        (Gpu.Stream, "fill_image", "Image.fill_async", color),
        (Gpu.Stream, "map_image", "Image.map_async")))


def test_failure_taken_of_map(fixture):
    """A map takes its reference to the memory after it was submitted and before it waits."""
    library = ctypes.CDLL("libgobject-2.0.so.0")
    notify_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    taken, buffer = Taken(fixture), fixture.buffer(64)
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address = ctypes.c_void_p(get_pointer(buffer.__gpointer__, None))

    @notify_type
    def referenced(data, instance, is_last):
        if not is_last:
            taken.take()

    # The reference of the wrapper becomes the toggle reference, the only one.
    library.g_object_add_toggle_ref(address, referenced, None)
    library.g_object_unref(address)
    try:
        taken.check("Buffer.map", lambda stream: buffer.map(stream=stream))
    finally:
        library.g_object_ref(address)
        library.g_object_remove_toggle_ref(address, referenced, None)


if __name__ == "__main__":
    sys.exit(main(globals()))

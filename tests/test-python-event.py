# SPDX-License-Identifier: LGPL-2.1-or-later
"""Events in Python, on every device that GPUMEM_TEST selects."""

import asyncio
import gc
import sys
import threading

from python_util import DEADLINE, GLib, Gpu, equal, main, need, raises

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
    equal(sorted(calls), [0, 1, 2, 4, 5, 6, 7, 8, 9])


def test_call_fails(fixture):
    """A failure of the work is that of the future. The function is not called."""
    gate = gated(fixture)
    future = fixture.stream.call(sys.exit, "called")
    gate.fail("the gate broke")
    with raises(Gpu.Error.FAILED, "the gate broke"):
        future.result(DEADLINE)
    with raises(GLib.Error, "the gate broke"):
        gate.call(sys.exit, "called").result(DEADLINE)


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
            gc.collect()
    finally:
        sys.unraisablehook = hook
    equal(printed, [4])
    with raises(TypeError, "callable"):
        fixture.stream.call(5)


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


if __name__ == "__main__":
    sys.exit(main(globals()))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Exceptions of functions of the program that the library calls, on every device that GPUMEM_TEST
selects: the call that ran the function raises the exception."""

import asyncio
import gc
import sys
import tempfile
import weakref

from python_util import DEADLINE, equal, main, raises, run_threads, run_without_fast, spin
from gi.repository import GLib, GObject, Gpu

KINDS = (KeyboardInterrupt, SystemExit, ZeroDivisionError)
POOLS = (Gpu.MemoryPoolKind.AUTOMATIC, Gpu.MemoryPoolKind.BINS, Gpu.MemoryPoolKind.SEGMENTS)


class Failing(GObject.Object, Gpu.Allocator):
    """An allocator whose method failing raises the exception."""

    def __init__(self, context):
        super().__init__()
        self.context, self.failing, self.exception = context, None, None
        self.calls = []

    def _call(self, name):
        self.calls.append(name)
        if self.failing == name:
            raise self.exception

    def do_get_context(self):
        self._call("get_context")
        return self.context

    def do_alloc(self, size, stream):
        self._call("alloc")
        return Gpu.Buffer(self.context, size)

    def do_free(self, memory):
        self._call("free")

    def do_get_memory_info(self):
        self._call("get_memory_info")
        return True, 1, 2

    def do_trim(self, held_bytes):
        self._call("trim")


def check_raised(call, *wanted):
    """Checks that the call raises these objects, with the line that raised them."""
    try:
        result = call()
    except BaseException as error:
        assert error in wanted, f"{error!r} instead of {wanted}"
        trace = error.__traceback__
        while trace.tb_next is not None:
            trace = trace.tb_next
        equal(trace.tb_frame.f_code.co_name, "fail" if error.args == ("fail",) else "_call")
        error.__traceback__ = None
        return
    raise AssertionError(f"{wanted} was lost: {result!r}")


def check_handler(emitter, signal, call):
    """Checks the exceptions of a handler of a signal that the call emits."""
    for kind in KINDS:
        exceptions = []

        def fail(*args):
            exceptions.append(kind("fail"))
            raise exceptions[-1]

        handler = emitter.connect(signal, fail)
        try:
            call()
        except BaseException as error:
            assert error in exceptions, f"{error!r} instead of {exceptions}"
            error.__traceback__ = None
        else:
            raise AssertionError(f"{exceptions} was lost")
        emitter.disconnect(handler)


def test_out_of_memory(fixture):
    """The handler of "out-of-memory" of a pool or an allocator."""
    for kind in POOLS:
        pool = Gpu.MemoryPool(fixture.context, kind)
        pool.limit = 8 << 20
        check_handler(pool, "out-of-memory", lambda: pool(64 << 20))
        if pool.kind != Gpu.MemoryPoolKind.BINS and pool(1).device_address != 0:
            check_handler(pool, "out-of-memory", lambda: pool.alloc_block(64 << 20))
        check_handler(pool, "out-of-memory",
                      lambda: Gpu.Array(fixture.context, 1 << 26, "uint8", allocator=pool))
        with raises(Gpu.Error.OUT_OF_DEVICE_MEMORY):
            pool(64 << 20)
        equal(pool(100).size, 100)
    oom = Gpu.OomAllocator(Gpu.LimitAllocator(Gpu.DeferredAllocator(fixture.context), 100))
    check_handler(oom, "out-of-memory", lambda: oom(200))


def test_signals(fixture):
    """Handlers of other signals, and of changes of properties."""
    tracking = Gpu.TrackingAllocator(Gpu.DeferredAllocator(fixture.context))
    check_handler(tracking, "find-tag", lambda: tracking(100))
    names = iter("abc")
    check_handler(tracking, "notify::tag", lambda: setattr(tracking, "tag", next(names)))
    for connect in "connect", "connect_after":
        buffer = fixture.buffer(10)

        def fail(*args):
            raise error

        error = KeyError("fail")
        getattr(buffer, connect)("released", fail)
        check_raised(buffer.release, error)
        assert buffer.released
    equal(fixture.buffer(10).size, 10)


def test_handler_is_the_function(fixture):
    """A program finds the handler by its function, and gets the arguments that it connected."""
    buffer, calls = fixture.buffer(10), []

    def handler(*args):
        calls.append(args)

    class Receiver:
        pass

    buffer.connect("released", handler)
    buffer.disconnect_by_func(handler)
    buffer.connect("released", handler, 1, "two")
    receiver = Receiver()
    buffer.connect_object("released", handler, receiver)
    buffer.release()
    equal(calls, [(buffer, 1, "two"), (receiver,)])
    with raises(TypeError):
        buffer.disconnect_by_func(len)
    with raises(TypeError):
        buffer.connect("released", 5)
    content = Receiver()
    gone = weakref.ref(content)
    buffer.content = content
    buffer.connect("released", lambda *args: content)
    del content, buffer
    del calls[:]
    gc.collect()
    equal(gone(), None)


def test_methods(fixture):
    """Methods of an allocator that cannot return an error."""
    allocator = Failing(fixture.context)
    for kind in KINDS:
        allocator.exception = kind("it")
        for name, call in (("trim", allocator.trim),
                           ("trim", lambda: Gpu.Allocator.trim(allocator)),
                           ("get_context", allocator.get_context),
                           ("get_context", lambda: Gpu.MemoryPool.new_for_allocator(allocator)),
                           ("free", lambda: allocator.free(fixture.buffer(10)))):
            allocator.failing = name
            check_raised(call, allocator.exception)
            allocator.failing = None
    allocator.exception, allocator.failing = KeyboardInterrupt("it"), "get_memory_info"
    check_raised(allocator.get_memory_info, allocator.exception)
    allocator.exception = ZeroDivisionError("it")
    with raises(Gpu.Error.FAILED, "do_get_memory_info: ZeroDivisionError: it"):
        allocator.get_memory_info()


class Answering(GObject.Object, Gpu.Allocator):
    """An allocator whose method returns a value."""

    def __init__(self, context):
        super().__init__()
        self.context, self.value = context, None

    def do_get_context(self):
        return self.context

    def do_alloc(self, size, stream):
        return self.value

    def do_get_memory_info(self):
        return self.value

    def do_free(self, memory):
        return self.value

    def do_trim(self, held_bytes):
        return self.value


class Halved(Answering):
    def do_get_memory_info(self):
        return [number // 2 for number in super().do_get_memory_info()]


def test_memory_info(fixture):
    """do_get_memory_info() returns a pair, as get_memory_info() does, or the triple of PyGObject.
    Other values are errors that quote the value."""
    allocator = Answering(fixture.context)
    most = GLib.MAXUINT64
    for value, pair in (((5, 7), (5, 7)), ([0, most], (0, most)), ((True, 1, 2), (1, 2))):
        allocator.value = value
        equal(allocator.get_memory_info(), pair)
        equal(Gpu.LimitAllocator(allocator, 6).get_memory_info(), tuple(min(n, 6) for n in pair))
    halved = Halved(fixture.context)
    halved.value = 10, 20
    equal(halved.get_memory_info(), (5, 10))
    for value, kind, text in (
            ((), TypeError, "()"), ((1,), TypeError, "(1,)"), ((1, 2, 3), TypeError, "(1, 2, 3)"),
            ((False, 1, 2), TypeError, "(False, 1, 2)"), ((1, 2, 3, 4), TypeError, "(1, 2, 3, 4)"),
            (None, TypeError, "None"), (5, TypeError, "5"), ("ab", TypeError, "'ab'"),
            ((5.5, 6), TypeError, "free bytes must be a whole number, not 5.5"),
            ((True, 6), TypeError, "free bytes must be a whole number, not True"),
            ((True, 1, "b"), TypeError, "total bytes must be a whole number, not 'b'"),
            ((1 << 70, 5), OverflowError, f"0 to {most}, not {1 << 70}"),
            ((5, -1), OverflowError, f"0 to {most}, not -1")):
        allocator.value = value
        for one in allocator, Gpu.StatisticsAllocator(allocator):
            with raises(Gpu.Error.FAILED, f"do_get_memory_info: {kind.__name__}: ", text):
                one.get_memory_info()
            try:
                one.get_memory_info()
            except Gpu.Error as error:
                equal(type(error.__cause__), kind)
                error.__traceback__ = error.__cause__.__traceback__ = None


def test_wrong_results(fixture):
    """Methods that return an object of another type: the call raises an error that quotes it. The
    result of methods that return nothing is ignored."""
    allocator = Answering(fixture.context)
    buffer = fixture.buffer(100)
    for value in 5, "x", (), (1,), (buffer,), [buffer], fixture.context, Gpu.Buffer, 1 << 70:
        allocator.value = value
        text = "Gpu.Context" if value is fixture.context else repr(value)[:10]
        pool = Gpu.MemoryPool.new_for_allocator(allocator)
        for one in allocator, Gpu.LimitAllocator(allocator, 1 << 40), pool:
            with raises(Gpu.Error.FAILED, "do_alloc: TypeError: it returned " + text,
                        "not Gpu.Memory of"):
                one(64)
        try:
            allocator(64)
        except Gpu.Error as error:
            equal(type(error.__cause__), TypeError)
            error.__traceback__ = error.__cause__.__traceback__ = None
        allocator.free(buffer)
        allocator.trim()
    allocator.value = buffer
    assert allocator(64) is buffer
    for value in 5, "x", (), (fixture.context,), buffer:
        allocator.context = value
        for call in (allocator.get_context, lambda: Gpu.MemoryPool.new_for_allocator(allocator),
                     lambda: Gpu.Array(fixture.context, 5, allocator=allocator)):
            with raises(TypeError, "do_get_context() must return a Gpu.Context, not"):
                call()
    allocator.context = None
    equal(allocator.get_context(), None)


class Textless(Exception):
    def __str__(self):
        raise KeyError("no text")


def test_texts(fixture):
    """Texts of exceptions that a GError cannot have are escaped."""
    def fail(*args):
        raise error

    allocator = Failing(fixture.context)
    allocator.failing = "alloc"
    external = Gpu.ExternalAllocator(fixture.context, fail, lambda handle, size: None)
    for text, escaped in ("file \udcff", "file \\udcff"), ("a\0b", "a\\x00b"), ("\u00e4", "\u00e4"):
        cause = ValueError("it")
        for kind in RuntimeError, Gpu.OutOfDeviceMemoryError:
            error = allocator.exception = kind(text)
            error.__cause__ = cause
            code = (Gpu.Error.OUT_OF_DEVICE_MEMORY if isinstance(error, Gpu.Error)
                    else Gpu.Error.FAILED)
            for one in allocator, external, Gpu.FunctionAllocator(fixture.context, fail):
                try:
                    one(64)
                except Gpu.Error as raised:
                    assert escaped in raised.message, raised
                    equal(raised.code, code)
                    equal(raised.__cause__, cause if code != Gpu.Error.FAILED else error)
                    error.__traceback__ = raised.__traceback__ = None
                else:
                    raise AssertionError("no error")
    allocator.exception = Textless()
    with raises(Gpu.Error.FAILED, "do_alloc: Textless: its text failed: KeyError"):
        allocator(64)
    allocator.exception.__traceback__ = None


def test_external(fixture):
    """Functions of a Gpu.ExternalAllocator."""
    def fail(size, stream):
        raise error

    for error in KeyboardInterrupt("fail"), SystemExit("fail"):
        external = Gpu.ExternalAllocator(fixture.context, fail, lambda handle, size: None)
        check_raised(lambda: external(100), error)
    error = ZeroDivisionError("fail")
    with raises(Gpu.Error.FAILED, "alloc: ZeroDivisionError: fail"):
        external(100)
    error.__traceback__ = None


def test_interrupt_wins(fixture):
    """If several functions raise exceptions during a call, it raises the interrupt, or else the
    first exception. Python prints the others."""
    def release(*raised):
        buffer, wanted = fixture.buffer(10), list(raised)

        def fail(*args):
            raise wanted.pop(0)

        for _ in raised:
            buffer.connect("released", fail)
        return buffer.release

    printed = []
    hook, sys.excepthook = sys.excepthook, lambda kind, error, trace: printed.append(error)
    try:
        first, second, interrupt = KeyError("fail"), ValueError("fail"), KeyboardInterrupt("fail")
        check_raised(release(first, second), first)
        equal(printed, [second])
        check_raised(release(first, interrupt, second), interrupt)
        equal(printed, [second, second])
    finally:
        sys.excepthook = hook
        sys.last_traceback = sys.last_value = sys.last_exc = None
        del printed[:]


def test_no_stale_causes(fixture):
    """A failure that the library has handled is no cause of a later error with the same message,
    in this call and in later ones."""
    def allocate(size):
        sizes.append(size)
        if len(sizes) == 1:
            raise MemoryError("once")
        if len(sizes) == 3:
            raise Gpu.OutOfDeviceMemoryError(f"the allocator {allocate!r}: MemoryError: once")
        return fixture.buffer(size)

    sizes = []
    oom = Gpu.OomAllocator(Gpu.FunctionAllocator(fixture.context, allocate))
    oom.connect("out-of-memory", lambda *args: len(sizes) < 3)
    equal((oom(64).size, sizes), (64, [64, 64]))
    try:
        oom(64)
    except Gpu.Error as error:
        equal((type(error), error.__cause__), (Gpu.OutOfDeviceMemoryError, None))
    equal(sizes, [64, 64, 64])


def test_memory_error(fixture):
    """A pool handles a MemoryError of its allocator like any lack of memory: it frees memory that
    it caches, asks the program to make room, and then fails with Gpu.OutOfMemoryError."""
    for kind in POOLS:
        live, sizes, hoard = [], [], []
        limit = 3 << 20

        def allocate(size):
            if sum(live) + size > limit:
                raise MemoryError(f"{size} bytes")
            memory = fixture.buffer(size)
            live.append(size)
            memory.weak_ref(live.remove, size)
            return memory

        def make_room(pool, size):
            sizes.append(size)
            return bool(hoard) and hoard.pop() is not None

        pool = Gpu.MemoryPool.new_for_allocator(Gpu.FunctionAllocator(fixture.context, allocate),
                                                kind)
        pool.connect("out-of-memory", make_room)
        cached = pool(2 << 20)
        fixture.stream.fill(cached, 1)
        del cached
        spin(lambda: pool.active_bytes == 0)
        hoard.append(pool(5 << 18))             # frees the cached memory first
        equal(sizes, [], kind)
        equal(pool(2 << 20).size, 2 << 20)
        assert len(sizes) == 1 and sizes[0] >= 2 << 20 and not hoard, (kind, sizes)
        with raises(Gpu.OutOfMemoryError):
            pool(8 << 20)
        with raises(MemoryError):
            pool(8 << 20)
        try:
            pool(8 << 20)
        except Gpu.Error as error:
            equal(type(error.__cause__), MemoryError)
            error.__traceback__ = error.__cause__.__traceback__ = None
        else:
            raise AssertionError("no error")
        assert len(sizes) >= 4, sizes


def test_nested(fixture):
    """A function of the program may handle the exception of a call that it makes."""
    allocator = Failing(fixture.context)
    allocator.failing, allocator.exception = "trim", KeyboardInterrupt("it")
    caught = []

    def handler(*args):
        try:
            allocator.trim()
        except KeyboardInterrupt as error:
            caught.append(error is allocator.exception)

    buffer = fixture.buffer(10)
    buffer.connect("released", handler)
    buffer.release()
    equal(caught, [True])


class Empty(Exception):
    """An exception that counts as false."""

    def __len__(self):
        return 0


def test_progress(fixture):
    """The await raises the exception of its progress function. asyncio refuses StopIteration."""
    buffer = fixture.buffer(1000)

    def fail(current, total):
        raise error

    async def work(raised):
        for call in (lambda: buffer.read_async(progress=fail),
                     lambda: buffer.write_async(bytes(1000), progress=fail),
                     lambda: buffer.write_file_async(file, progress=fail)):
            with raises(raised, "fail") as failure:
                await call()
            equal(failure.cause, error if raised is RuntimeError else None)
        equal(await buffer.read_async(), buffer.read())

    with tempfile.TemporaryFile() as file:
        for error, raised in ((ZeroDivisionError("fail"), ZeroDivisionError),
                              (Empty("fail"), Empty),
                              (asyncio.CancelledError("fail"), asyncio.CancelledError),
                              (StopIteration("fail"), RuntimeError)):
            asyncio.run(asyncio.wait_for(work(raised), DEADLINE))


def test_threads(fixture):
    """Each thread gets the exceptions of its own calls."""

    def work(number):
        for i in range(200):
            error = KeyError(number, i)
            buffer = fixture.buffer(10)

            def fail(*args):
                raise error

            buffer.connect("released", fail)
            try:
                buffer.release()
            except KeyError as raised:
                assert raised is error
            else:
                raise AssertionError("no error")

    run_threads(4, work)


def plain_without_fast():
    run_without_fast(__file__)


if __name__ == "__main__":
    sys.exit(main(globals()))

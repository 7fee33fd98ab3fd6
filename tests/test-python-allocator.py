# SPDX-License-Identifier: LGPL-2.1-or-later
"""Allocators from Python, on every device that GPUMEM_TEST selects: allocators of the library and
of the program, and adaptors of both."""

import _thread
import asyncio
import gc
import os
import signal
import sys
import tempfile
import threading
import traceback
import weakref
from fractions import Fraction

from python_util import BufferAllocator, equal, main, need_numpy, np, raises, run_threads, spin
from gi.module import get_introspection_module
from gi.repository import Gio, GLib, GObject, Gpu


class Shelf(BufferAllocator):
    """An allocator in Python that caches freed memory and allocates it again."""

    def __init__(self, context):
        super().__init__(context)
        self.kept = []
        self.lock = threading.Lock()
        self.failure = None
        self.n_allocs = 0

    def do_alloc(self, size, stream):
        self.n_allocs += 1
        if self.failure is not None:
            raise self.failure
        with self.lock:
            for memory in self.kept:
                if memory.size == size:
                    self.kept.remove(memory)
                    return memory
        return super().do_alloc(size, stream)

    def do_free(self, memory):
        with self.lock:
            self.kept.append(memory)


class Wrong(BufferAllocator):
    """An allocator that returns the same memory for each request."""

    def __init__(self, context, memory):
        super().__init__(context)
        self.memory = memory

    def do_alloc(self, size, stream):
        return self.memory


class Nothing(GObject.Object, Gpu.Allocator):
    def do_alloc(self, size, stream):
        return None


class Misnamed(GObject.Object, Gpu.Allocator):
    def alloc(self, size, stream=None):
        return None


def check(fixture, allocator, kind=Gpu.Buffer):
    memory = allocator(1000)
    assert isinstance(memory, kind), memory
    equal(memory.size, 1000)
    fixture.stream.fill(memory, 7)
    copy = fixture.buffer(1000)
    fixture.stream.copy(copy, memory)
    equal(copy.read(), b"\7" * 1000)
    assert allocator(0) is None
    equal(allocator.get_context(), fixture.context)
    free, total = allocator.get_memory_info()
    assert 0 <= free <= total and total > 0


def test_basic(fixture):
    check(fixture, Gpu.DeferredAllocator(fixture.context))
    check(fixture, Gpu.ImmediateAllocator(fixture.stream))
    check(fixture, Gpu.HostAllocator(fixture.context), Gpu.HostMemory)
    capabilities = fixture.context.get_device().get_capabilities()
    if capabilities & Gpu.Capabilities.SVM_COARSE:
        check(fixture, Gpu.SvmAllocator(fixture.context, alignment=64), Gpu.Svm)
    if capabilities & Gpu.Capabilities.STREAM_ORDERED:
        check(fixture, Gpu.StreamAllocator(fixture.stream))
    else:
        with raises(Gpu.Error.NOT_SUPPORTED):
            Gpu.StreamAllocator(fixture.stream)


def test_external(fixture):
    buffers = {}
    freed = []

    def alloc(size, stream):
        if size > 5000:
            raise ValueError("too much")
        buffer = fixture.buffer(size)
        buffers[buffer.get_native_handle()] = buffer
        return buffer.get_native_handle()

    def free(handle, size):
        freed.append((handle, size))
        del buffers[handle]

    allocator = Gpu.ExternalAllocator(fixture.context, alloc, free)
    check(fixture, allocator)
    gc.collect()
    fixture.context.synchronize()
    spin(lambda: len(freed) == 1)
    equal(freed[0][1], 1000)
    equal(buffers, {})
    with raises(Gpu.Error.FAILED, "too much"):
        allocator(10000)


def test_external_wrong(fixture):
    """Objects that are not callable, and invalid handles: nothing is allocated, and the error has
    the value."""
    def ignore(*args):
        calls.append(args)
    calls = []
    for alloc, free, name in ((5, ignore, "alloc"), (ignore, None, "free")):
        with raises(TypeError, f"{name} must be callable"):
            Gpu.ExternalAllocator(fixture.context, alloc, free)
    for value in (None, "x", b"x", bytearray(b"1"), [], 1.5, Fraction(3, 2), True, -1, 1 << 64, 0):
        allocator = Gpu.ExternalAllocator(fixture.context, lambda size, stream: value, ignore)
        with raises(Gpu.Error.FAILED, "alloc() must return a handle", repr(value)):
            allocator.alloc(100)
        try:
            allocator.alloc(100)
        except Gpu.Error as error:
            equal(type(error.__cause__), ValueError if value == 0 else TypeError)
    equal(calls, [])
    allocator = Gpu.ExternalAllocator(fixture.context, lambda size: 1, ignore)
    with raises(Gpu.Error.FAILED, "alloc", "TypeError", "positional argument"):
        allocator.alloc(100)
    equal(calls, [])


class Handle:
    """A handle of a library whose handles are objects."""

    def __init__(self, number):
        self.number = number

    def __int__(self):
        return self.number


def test_external_handle(fixture):
    """A handle may be an object that converts to int."""
    buffer = fixture.buffer(1000)
    freed = []
    allocator = Gpu.ExternalAllocator(
        fixture.context, lambda size, stream: Handle(buffer.get_native_handle()),
        lambda handle, size: freed.append(handle))
    allocator.alloc(1000).fill(b"a")
    gc.collect()
    fixture.context.synchronize()
    spin(lambda: freed == [buffer.get_native_handle()])


def test_program(fixture):
    shelf = Shelf(fixture.context)
    check(fixture, shelf)
    memory = shelf(100)
    shelf.free(memory)
    assert shelf(100) is memory
    n_allocs = shelf.n_allocs
    assert shelf(0) is None
    equal(shelf.n_allocs, n_allocs)
    shelf.failure = ValueError("no such luck")
    with raises(Gpu.Error.FAILED, "ValueError", "no such luck"):
        shelf(100)
    shelf.failure = MemoryError()
    with raises(Gpu.Error.OUT_OF_HOST_MEMORY, "MemoryError"):
        shelf(100)
    shelf.failure = GLib.Error.new_literal(Gpu.error_quark(), "full",
                                           Gpu.Error.OUT_OF_DEVICE_MEMORY)
    with raises(Gpu.Error.OUT_OF_DEVICE_MEMORY, "full"):
        shelf(100)
    with raises(Gpu.Error.FAILED, "neither"):
        Nothing()(10)
    assert Nothing().get_context() is None


class Keeping(BufferAllocator):
    def __init__(self, context):
        super().__init__(context)
        self.kept, self.trimmed = [], []

    def do_free(self, memory):
        self.kept.append(memory)

    def do_trim(self, held_bytes):
        self.trimmed.append(held_bytes)

    def do_get_memory_info(self):
        return True, 1, 2


class Padded(BufferAllocator):
    def do_alloc(self, size, stream):
        return Gpu.Buffer(self.context, size + 1000)


class Doubled(Padded, Gpu.Allocator):           # names the interface again
    def do_alloc(self, size, stream):
        return super().do_alloc(2 * size, stream)


class Inheriting(Doubled):
    pass


class Forwarding(Gpu.AllocatorAdaptor):
    pass


class PaddedAdaptor(Forwarding):
    def do_alloc(self, size, stream):
        return self.props.upstream.alloc(size + 1000, stream)


class Chained(Forwarding):
    """Forwards all requests with super(), and records them."""

    def __init__(self, **properties):
        super().__init__(**properties)
        self.calls = []

    def do_alloc(self, size, stream):
        self.calls.append(("alloc", size, stream))
        return super().do_alloc(size + 1000, stream)

    def do_free(self, memory):
        self.calls.append(("free", memory))
        super().do_free(memory)

    def do_get_context(self):
        return super().do_get_context()

    def do_get_memory_info(self):
        free, total = super().do_get_memory_info()
        self.calls.append(("info", total))
        return free, 2 * total

    def do_trim(self, held_bytes):
        self.calls.append(("trim", held_bytes))
        super().do_trim(held_bytes)


class ChainedTwice(Chained):
    def do_alloc(self, size, stream):
        return super().do_alloc(2 * size, stream)


class PaddedFunction(Gpu.FunctionAllocator):
    def do_alloc(self, size, stream):
        return super().do_alloc(size + 1000, stream)


def test_subclasses(fixture):
    """The methods of a subclass do not change its base class nor other subclasses."""
    context = fixture.context
    sizes = {BufferAllocator: 64, Keeping: 64, Padded: 1064, Doubled: 1128, Inheriting: 1128}
    for kind, size in sizes.items():
        allocator = kind(context)
        memory = allocator(64)
        equal((memory.size, allocator.get_context()), (size, context), kind)
        allocator.trim(5)
        allocator.free(memory)
        equal(memory.released, kind is not Keeping, kind)
        if kind is Keeping:
            equal((allocator.kept, allocator.trimmed), ([memory], [5]))
        equal(allocator.get_memory_info() == (1, 2), kind is Keeping, kind)
    for kind, size in (Gpu.FunctionAllocator, 64), (PaddedFunction, 1064):
        equal(kind(context, fixture.buffer)(64).size, size, kind)
    equal(Gpu.Array(context, 64, "uint8", allocator=fixture.buffer).memory.size, 64)


class Recycling(BufferAllocator):
    """Allocates freed memory again, so that freeing memory twice would allocate it twice."""

    def __init__(self, context):
        super().__init__(context)
        self.kept = []

    def do_alloc(self, size, stream):
        return self.kept.pop() if self.kept else super().do_alloc(size, stream)

    def do_free(self, memory):
        self.kept.append(memory)


def test_adaptor_subclasses(fixture):
    """A class that derives from the base class of adaptors forwards what it does not override."""
    context = fixture.context
    for kind, size in (Forwarding, 64), (PaddedAdaptor, 1064):
        with raises(Gpu.Error.INVALID_ARGUMENT if kind is Forwarding else Gpu.Error.FAILED):
            kind()(64)
        upstream = Gpu.StatisticsAllocator(Gpu.DeferredAllocator(context))
        allocator = kind(upstream=upstream)
        for wrong, method, *arguments in ((None, "do_free", None), (1.5, "do_alloc", 1.5, None),
                                          (True, "do_alloc", True, None), (1.5, "do_trim", 1.5)):
            with raises(TypeError, str(wrong)):
                getattr(super(kind, allocator), method)(*arguments)
            with raises(TypeError, "do_" if wrong is None else str(wrong)):
                getattr(Gpu.AllocatorAdaptor, method)(allocator, *arguments)
        with raises(TypeError, "do_alloc", "DeferredAllocator"):
            Gpu.AllocatorAdaptor.do_alloc(Gpu.DeferredAllocator(context), 5, None)
        memory = allocator(64)
        equal((memory.size, allocator.get_context()), (size, context), kind)
        equal(upstream.counters["current-bytes"], size, kind)
        # Only the total: other programs may allocate between the calls.
        equal(allocator.get_memory_info()[1], upstream.get_memory_info()[1], kind)
        allocator.free(memory)
        equal((upstream.counters["current-bytes"], memory.released), (0, True), kind)
    other = fixture.buffer(10)
    Forwarding(upstream=Gpu.DeferredAllocator(context)).free(other)
    assert not other.released
    shelf = Recycling(context)
    allocator = Forwarding(upstream=shelf)
    memory = allocator(64)
    for _ in range(2):
        allocator.free(memory)
    equal(shelf.kept, [memory])


def test_adaptor_chains_up(fixture):
    """super() in a class that derives from the base class of adaptors forwards each request."""
    context, stream = fixture.context, fixture.new_stream()
    for kind, factor in (Chained, 1), (ChainedTwice, 2):
        shelf = Keeping(context)
        allocator = kind(upstream=shelf)
        memory = allocator(64, stream)
        equal((memory.size, allocator.get_context()), (64 * factor + 1000, context), kind)
        equal(allocator.get_memory_info(), (1, 4), kind)
        allocator.trim(5)
        allocator.free(memory)
        equal((shelf.kept, shelf.trimmed), ([memory], [5]), kind)
        equal(allocator.calls, [("alloc", 64 * factor, stream), ("info", 2), ("trim", 5),
                                ("free", memory)], kind)
        with raises(Gpu.Error.INVALID_ARGUMENT, "no upstream"):
            kind()(64)
        assert kind().get_context() is None


class Failing(BufferAllocator):
    def do_alloc(self, size, stream):
        raise self.failure


def test_adaptor_chains_errors(fixture):
    """super() raises the error of the upstream allocator, whose __cause__ is the exception of a
    method of the program. An adaptor of C has the limits of its own class."""
    upstream = Failing(fixture.context)
    for failure in ValueError("odd"), MemoryError("full"), KeyboardInterrupt():
        upstream.failure = failure
        try:
            Chained(upstream=upstream)(64)
            raise AssertionError("no error")
        except (Gpu.Error, KeyboardInterrupt) as error:
            found = error if isinstance(failure, KeyboardInterrupt) else error.__cause__
            assert found is failure, repr(error)
            equal(isinstance(error, MemoryError), isinstance(failure, MemoryError))
    upstream.failure = None
    limit = Gpu.LimitAllocator(Gpu.DeferredAllocator(fixture.context), 100)
    with raises(Gpu.Error.OUT_OF_DEVICE_MEMORY):
        Chained(upstream=limit)(64)
    with raises(Gpu.Error.OUT_OF_DEVICE_MEMORY):
        limit.do_alloc(101, None)


def test_functions(fixture):
    """Arrays accept a function of the size as their allocator."""
    need_numpy()
    made = []

    def allocate(size):
        made.append(Gpu.Buffer(fixture.context, size))
        return made[-1]

    def check(array, values, size):
        equal(array.to_numpy().tolist(), values)
        assert array.memory is made[-1]
        equal([buffer.size for buffer in made], [size])
        del made[:]

    context, numbers = fixture.context, np.arange(3, dtype=np.int32)
    check(Gpu.Array.zeros(context, (2, 2), "int16", allocator=allocate), [[0, 0], [0, 0]], 8)
    check(Gpu.Array.full(context, 3, 5, "uint8", allocator=allocate), [5, 5, 5], 3)
    array = Gpu.Array.from_numpy(context, numbers, allocator=allocate)
    check(array, [0, 1, 2], 12)
    check(array.copy(allocator=allocate), [0, 1, 2], 12)
    check(Gpu.Array.zeros_like(array, allocator=allocate), [0, 0, 0], 12)
    equal(Gpu.Array(context, 0, allocator=allocate).memory, None)
    allocator = Gpu.FunctionAllocator(context, allocate)
    assert allocator.function is allocate and "allocate" in repr(allocator)
    pool = Gpu.MemoryPool.new_for_allocator(allocator)
    equal(Gpu.StatisticsAllocator(pool)(100).size, 100)
    equal(len(made), 1)


def list_allocations(context, function):
    """Returns calls that allocate by a function: through C functions that Python calls directly,
    functions of PyGObject, pools and adaptors."""
    allocator = Gpu.FunctionAllocator(context, function)
    pool = Gpu.MemoryPool.new_for_allocator(allocator)
    return [lambda: allocator(64), lambda: Gpu.Array(context, 5, allocator=function),
            lambda: Gpu.Array.zeros(context, (5, 1), "int32", allocator=function),
            lambda: Gpu.Array.from_numpy(context, [1, 2], allocator=function),
            lambda: Gpu.LimitAllocator(allocator, 1000)(64), lambda: pool(64),
            lambda: pool.alloc_buffer(64, stream=None)]


class Interrupted(GObject.Object, Gpu.Allocator):
    context = None

    def do_get_context(self):
        return self.context

    def do_alloc(self, size, stream):
        raise KeyboardInterrupt


class Fallback(Interrupted):
    """Handles errors of the library, but must not handle an interrupt."""

    def do_alloc(self, size, stream):
        try:
            return super().do_alloc(size, stream)
        except Gpu.Error:
            return Gpu.Buffer(self.context, size)


def test_interrupts(fixture):
    """Ctrl-C in a Python allocator raises KeyboardInterrupt in the call that allocates. So does
    sys.exit() with SystemExit."""
    need_numpy()

    def interrupt(size):
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            pass

    def leave(size):
        sys.exit(size)

    for function, kind in ((interrupt, KeyboardInterrupt), (leave, SystemExit)):
        for call in list_allocations(fixture.context, function):
            try:
                result = call()
            except BaseException as error:
                equal(type(error), kind, error)
                lines = traceback.extract_tb(error.__traceback__)
                assert any(line.name == function.__name__ for line in lines), lines
                continue
            raise AssertionError(f"{kind} was lost: {result!r}")
    fallback = Fallback()
    fallback.context = fixture.context
    try:
        raise AssertionError(f"KeyboardInterrupt was lost: {fallback(100)!r}")
    except KeyboardInterrupt:
        pass
    # Later errors of the library are not affected.
    with raises(Gpu.Error.INVALID_ARGUMENT):
        fixture.buffer(64).slice(0, 100)


def test_causes(fixture):
    """The error of an allocation has the exception of the Python allocator as its cause, and
    nothing else keeps that exception."""
    need_numpy()

    class Mistake(Exception):
        pass

    class Content:
        pass

    def fail(size):
        content = Content()
        contents.append(weakref.ref(content))
        raise Mistake(f"{size} bytes")

    contents = []
    for call in list_allocations(fixture.context, fail):
        try:
            call()
        except Gpu.Error as error:
            equal(type(error.__cause__), Mistake)
            assert str(error.__cause__) in error.message, error
        else:
            raise AssertionError("no error")
    gc.collect()
    equal([one() for one in contents], [None] * len(contents))


def test_handled_failures(fixture):
    """A failure that another allocator has handled is no cause of later errors."""
    def allocate(size):
        sizes.append(size)
        if len(sizes) == 1:
            raise MemoryError("once")
        return fixture.buffer(size)

    sizes = []
    oom = Gpu.OomAllocator(Gpu.FunctionAllocator(fixture.context, allocate))
    oom.connect("out-of-memory", lambda *args: True)
    equal((oom(64).size, sizes), (64, [64, 64]))
    equal(Gpu.Error(f"the allocator {allocate!r}: MemoryError: once").__cause__, None)


def test_wrong_functions(fixture):
    """Errors name the function, and what it returned or raised."""
    def wrong(size):
        return result
    wanted = (Gpu.Error.FAILED, "Gpu.Array: the allocator <function", "wrong")
    for result in None, 5, fixture.buffer(15):
        with raises(*wanted, repr(result), "not Gpu.Memory of 16 bytes"):
            Gpu.Array(fixture.context, 4, "int32", allocator=wrong)
    result = Gpu.Buffer(Gpu.Context(fixture.device), 16)
    with raises(*wanted, "another context"):
        Gpu.Array(fixture.context, 4, "int32", allocator=wrong)
    with raises(Gpu.Error.FAILED, "ZeroDivisionError"):
        Gpu.Array(fixture.context, 4, "int32", allocator=lambda size: 1 / 0)
    with raises(TypeError, "function of the size", "'int'"):
        Gpu.Array(fixture.context, 4, "int32", allocator=5)
    with raises(TypeError, "context", "'int'"):
        Gpu.FunctionAllocator(5, wrong)
    for make in Gpu.StatisticsAllocator, Gpu.OomAllocator, Gpu.MemoryPool.new_for_allocator:
        with raises(TypeError, "must be of type Gpu.Allocator", "Gpu.FunctionAllocator(context, f"):
            make(wrong)
        assert make(Gpu.FunctionAllocator(fixture.context, wrong))


def test_context(fixture):
    """The allocator of a context allocates its arrays and the copies of launches, in every
    thread. An allocator that a call or a with statement names takes precedence."""
    context = fixture.context
    counting, other = (Gpu.StatisticsAllocator(Gpu.DeferredAllocator(context)) for _ in range(2))
    equal(context.allocator, None)
    context.allocator = counting
    assert context.allocator is counting is Gpu.get_current_allocator(context)
    array = Gpu.Array.zeros(context, 5, "uint8")
    assert array.to_numpy().tolist() == array.copy().to_numpy().tolist() == [0] * 5
    equal(counting.total_count, 2)
    thread = threading.Thread(target=lambda: Gpu.Array(context, 5))
    thread.start()
    thread.join()
    equal(counting.total_count, 3)
    Gpu.Buffer(context, 5)
    with Gpu.using_allocator(other), context.using_allocator(other.alloc):
        Gpu.Array(context, 5)
    Gpu.Array(context, 5, allocator=other)
    equal((counting.total_count, other.total_count), (3, 2))
    count = 3
    if np is not None and fixture.device.capabilities & Gpu.Capabilities.SOURCE:
        numbers = np.arange(5, dtype=np.float32)
        fixture.stream.launch(fixture.program().scale, 5, args=(Gpu.InOut(numbers), 2.0))
        count += 1
        equal((numbers.tolist(), counting.total_count), ([0, 2, 4, 6, 8], count))
    sizes = []
    context.allocator = lambda size: sizes.append(size) or other.alloc(size)
    Gpu.Array(context, 5)
    equal((sizes, counting.total_count, other.total_count), ([40], count, 3))
    context.allocator = None
    Gpu.Array(context, 5)
    equal((sizes, context.allocator), ([40], None))


def test_missing_methods(fixture):
    """Messages name the methods that a class of the program has to define."""
    with raises(Gpu.Error.FAILED, "Misnamed", "do_alloc()"):
        Gpu.StatisticsAllocator(Misnamed())(100)
    allocator = Nothing()
    for call in (lambda: setattr(fixture.context, "allocator", allocator),
                 lambda: Gpu.MemoryPool.new_for_allocator(allocator, Gpu.MemoryPoolKind.BINS),
                 lambda: Gpu.Array.zeros(None, 5, allocator=allocator)):
        with raises(ValueError, "context", "do_get_context()"):
            call()


def test_wrong_context(fixture):
    context = fixture.context
    for wrong in 5, "pool":
        with raises(TypeError, repr(type(wrong).__name__)):
            context.allocator = wrong
    with raises(ValueError, "another context"):
        context.allocator = Gpu.DeferredAllocator(Gpu.Context(fixture.device))
    with raises(TypeError, "None"):
        with context.using_allocator(None):
            pass
    with raises(TypeError, "context.using_allocator"):
        with Gpu.using_allocator(lambda size: None):
            pass


def test_wrong_memory(fixture):
    """Pools, arrays and adaptors refuse images, and memory of another context."""
    context = fixture.context
    texts = {"image": "returned a Gpu.Image", "other": "a Gpu.Buffer of another context of "}
    memories = {"other": Gpu.Buffer(Gpu.Context(fixture.device), 4096)}
    if fixture.device.capabilities & Gpu.Capabilities.IMAGES:
        memories["image"] = Gpu.Image(context, "r-float32", (32, 32))
    for name, memory in memories.items():
        wrong = Wrong(context, memory)
        pools = [Gpu.MemoryPool.new_for_allocator(wrong, kind)
                 for kind in (Gpu.MemoryPoolKind.SEGMENTS, Gpu.MemoryPoolKind.BINS)]
        for take in (wrong, Gpu.LimitAllocator(wrong, 1 << 40), *pools,
                     lambda size: Gpu.Array(context, size, "uint8", allocator=wrong)):
            with raises(Gpu.Error.FAILED, texts[name]):
                take(64)
    with raises(Gpu.Error.INVALID_ARGUMENT, "another context, on " + fixture.device.id):
        Gpu.Array(Gpu.Context(fixture.device), 5, allocator=Gpu.DeferredAllocator(context))


def test_adaptors(fixture):
    shelf = Shelf(fixture.context)
    limit = Gpu.LimitAllocator(shelf, 1500)
    statistics = Gpu.StatisticsAllocator(limit)
    tracking = Gpu.TrackingAllocator(statistics)
    check(fixture, tracking)
    gc.collect()
    equal(statistics.current_bytes, 0)
    equal(statistics.counters["total-bytes"], 1000)
    with tracking.tagged("weights"), statistics.counting() as counters:
        memory = tracking(400)
    equal(counters["current-bytes"], 400)
    equal(counters["peak-count"], 1)
    equal([(block["size"], block["tag"]) for block in tracking.blocks], [(400, "weights")])
    assert "'weights'" in tracking.report()
    assert tracking.tag is None
    with raises(Gpu.Error.OUT_OF_DEVICE_MEMORY, "1200", "1500", "400"):
        tracking(1200)
    shelf.failure = KeyError("lost")
    with raises(Gpu.Error.FAILED, "KeyError"):
        tracking(1)
    shelf.failure = None
    equal(limit.active_bytes, 400)
    tracking.free(memory)
    equal(limit.active_bytes, 0)
    equal(shelf.kept, [memory])
    equal(tracking.report(), "")
    with raises(Gpu.Error.INVALID_ARGUMENT):
        statistics.pop()


def run_overlapping(begin, end):
    """Runs end() in with statements of two threads. That of the second begins and ends later."""
    ended, begun = threading.Event(), threading.Event()

    def second():
        with begin("two") as value:
            begun.set()
            ended.wait()
            end("two", value)

    thread = threading.Thread(target=second)
    with begin("one") as value:
        end("one", value)
        thread.start()
        begun.wait()
        end("one", value)
    ended.set()
    thread.join()


def test_overlapping(fixture):
    """The with statements of two threads may overlap: each has its own tag and counters."""
    tracking = Gpu.TrackingAllocator(Gpu.MemoryPool(fixture.context))
    tracking.tag = "rest"
    kept = []
    run_overlapping(tracking.tagged, lambda name, _: kept.append(tracking(len(kept) + 1)))
    kept.append(tracking(4))
    equal([(block["size"], block["tag"]) for block in tracking.blocks],
          [(1, "one"), (2, "one"), (3, "two"), (4, "rest")])
    with tracking.tagged("outer"), tracking.tagged(None):
        kept.append(tracking(5))
    equal((tracking.blocks[-1]["tag"], tracking.tag), ("rest", "rest"))
    with raises(TypeError, "tag", "5"), tracking.tagged(5):
        pass

    statistics = Gpu.StatisticsAllocator(Gpu.MemoryPool(fixture.context))
    counters = {}
    run_overlapping(lambda name: statistics.counting(),
                    lambda name, value: counters.setdefault(name, (value, statistics(100))))
    equal({name: value["total-count"] for name, (value, _) in counters.items()},
          {"one": 2, "two": 2})


def close_elsewhere(tracking):
    """Ends with statements in another task and in another thread, by closing generators."""
    async def list_pieces():
        with tracking.tagged("task"):
            yield 1

    async def run():
        pieces = list_pieces()
        await pieces.__anext__()
        await asyncio.create_task(pieces.aclose())
        equal(tracking.tag, None)

    def list_values():
        with tracking.tagged("thread"):
            yield 1

    asyncio.run(run())
    values = list_values()
    next(values)
    thread = threading.Thread(target=values.close)
    thread.start()
    thread.join()


def test_tagged_elsewhere(fixture):
    """Statements of tagged() end in all contexts, and then do not keep the allocator."""
    tracking = Gpu.TrackingAllocator(Gpu.MemoryPool(fixture.context))
    close_elsewhere(tracking)
    memory = tracking(1)
    equal((tracking.tag, tracking.blocks[0].get("tag")), (None, None))
    kept = []

    async def child(event):
        kept.append(tracking(2))
        await event.wait()
        kept.append(tracking(3))

    async def run():
        nonlocal tracking
        event = asyncio.Event()
        with tracking.tagged("load"):
            task = asyncio.create_task(child(event))
            await asyncio.sleep(0)
            other = await asyncio.to_thread(tracking, 4)
        event.set()
        await task
        equal([(block["size"], block.get("tag")) for block in tracking.blocks[1:]],
              [(2, "load"), (4, "load"), (3, None)])
        del other

    asyncio.run(run())
    kept.clear()

    async def keep():
        allocator = Gpu.TrackingAllocator(Gpu.MemoryPool(fixture.context))
        reference = weakref.ref(allocator)
        with allocator.tagged("load"):
            task = asyncio.create_task(asyncio.sleep(100))
        await asyncio.sleep(0)
        del allocator
        gc.collect()
        assert reference() is None
        task.cancel()

    asyncio.run(keep())
    del memory


def test_tag_of_statement(fixture):
    """The tag of a statement has precedence over handlers of the program, and may be empty."""
    pool = Gpu.MemoryPool(fixture.context)
    for tracking in Gpu.TrackingAllocator(pool), Gpu.TrackingAllocator.new(pool, 0):
        tracking.connect("find-tag", lambda allocator, size: "handler")
        kept = [tracking(1)]
        for tag in "statement", "":
            with tracking.tagged(tag):
                kept.append(tracking(2))
                equal((tracking.tag, tracking.blocks[-1]["tag"]), (tag, tag))
        equal(tracking.blocks[0]["tag"], "handler")
        with raises(ValueError, "tag has a null character"), tracking.tagged("a\0b"):
            pass
        with raises(UnicodeEncodeError, "surrogates"), tracking.tagged("\ud800"):
            pass
        equal(tracking.tag, None)
        tracking.tag = "rest"
        with tracking.tagged("outer"), tracking.tagged(""):
            equal(tracking.tag, "")
        del kept


def test_failing_end(fixture):
    """Exceptions of a statement reach the program, also if the end of the statement fails."""
    statistics = Gpu.StatisticsAllocator(Gpu.MemoryPool(fixture.context))
    deferred = Gpu.DeferredFreeAllocator(statistics)
    for begin, end in (statistics.counting, statistics.pop), (deferred.deferring, deferred.unhold):
        with raises(KeyError, "mine"), begin():
            end()
            raise KeyError("mine")
        with raises(Gpu.Error.INVALID_ARGUMENT, "in effect"), begin():
            end()
        with raises(KeyError, "mine"), begin() as value:
            raise KeyError("mine")
        with raises(Gpu.Error.INVALID_ARGUMENT, "in effect"):
            end()
        assert begin != statistics.counting or value["total-count"] == 0


def test_lines(fixture):
    """Reports name the lines that allocated the memory in use, now and at the peak."""
    context = fixture.context
    tracking = Gpu.TrackingAllocator(Gpu.MemoryPool(context), lines=1)
    context.allocator = tracking
    line = sys._getframe().f_lineno + 1
    kept = [Gpu.Array(context, 10, "uint8") for _ in range(3)]
    large = Gpu.Array.zeros(context, 1000, "uint8")
    with tracking.tagged("mine"):
        tagged = Gpu.Array(context, 7, "uint8")
    del large
    here = [f"{__file__}:{line + i}" for i in range(5)]
    equal(tracking.usage, [
        {"tag": here[0], "bytes": 30, "count": 3, "peak-bytes": 30, "peak-count": 3},
        {"tag": "mine", "bytes": 7, "count": 1, "peak-bytes": 7, "peak-count": 1},
        {"tag": here[1], "bytes": 0, "count": 0, "peak-bytes": 1000, "peak-count": 1}])
    equal(tracking.peak_bytes, 1037)
    equal(tracking.report_usage(), "37 bytes in 4 allocations (peak 1037 bytes)\n"
                                   f"{here[0]}: 30 bytes in 3\nmine: 7 bytes in 1\n")
    equal(tracking.report_usage(1, peak=True), "1037 bytes in 5 allocations at the peak\n"
                                               f"{here[1]}: 1000 bytes in 1\n"
                                               "2 other tags: 37 bytes\n")
    equal([block["tag"] for block in tracking.blocks], [here[0]] * 3 + ["mine"])
    del kept, tagged
    equal(tracking.blocks, [])
    deep = Gpu.TrackingAllocator(tracking, lines=2)
    memory = (lambda: deep(5))()
    tags = deep.usage[0]["tag"].split(" < ")
    equal((len(tags), tags[0], memory.size), (2, tags[1], 5))
    found = []
    thread = threading.Thread(target=lambda: found.append(Gpu.Array(context, 3, "uint8")))
    thread.start()
    thread.join()
    assert __file__ in [entry["tag"].rpartition(":")[0] for entry in tracking.usage]
    context.allocator = None
    for wrong, error in (-1, ValueError), (1.5, TypeError):
        with raises(error, "lines"):
            Gpu.TrackingAllocator(tracking, lines=wrong)


def test_lines_without_frames(fixture):
    """On a thread without other frames of Python, an allocation has no tag."""
    tracking = Gpu.TrackingAllocator(Gpu.MemoryPool(fixture.context), lines=1)
    printed, buffers = [], []
    hook, sys.excepthook = sys.excepthook, lambda *error: printed.append(error[1])
    try:
        alloc = get_introspection_module("Gpu").Allocator.alloc
        _thread.start_new_thread(buffers.extend, (map(alloc, [tracking], [100], [None]),))
        spin(lambda: buffers)
    finally:
        sys.excepthook = hook
    equal(printed, [])
    equal([(block.get("tag"), block["size"]) for block in tracking.blocks], [(None, 100)])


def test_failure(fixture):
    allocator = Gpu.OomAllocator(Gpu.LimitAllocator(Shelf(fixture.context), 1000))
    hogs = [allocator(800)]
    sizes = []

    def make_room(allocator, size):
        sizes.append(size)
        return bool(hogs) and hogs.pop() is not None

    allocator.connect("out-of-memory", make_room)
    memory = allocator(300)
    equal(memory.size, 300)
    equal(sizes, [300])
    with raises(Gpu.Error.OUT_OF_DEVICE_MEMORY):
        allocator(900)
    equal(sizes, [300, 900])


def test_logging(fixture):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "log.csv")
        with Gpu.LoggingAllocator(Shelf(fixture.context), path) as allocator:
            allocator(100)
            memory = allocator(200)
        lines = [line.split(",") for line in open(path).read().splitlines()]
        equal(lines[0], ["Thread", "Time", "Action", "Pointer", "Size", "Stream"])
        equal([(line[2], line[4]) for line in lines[1:]],
              [("allocate", "100"), ("free", "100"), ("allocate", "200")])
        del memory, allocator
        gc.collect()
        equal(open(path).read().splitlines()[-1].split(",")[2], "free")
    output = Gio.MemoryOutputStream.new_resizable()
    with Gpu.LoggingAllocator(Shelf(fixture.context), output) as allocator:
        pass
    output.close()
    equal(output.steal_as_bytes().get_data(), b"Thread,Time,Action,Pointer,Size,Stream\n")


def test_deferred_free(fixture):
    allocator = Gpu.DeferredFreeAllocator(Gpu.DeferredAllocator(fixture.context), max_count=2)
    for count in 1, 2, 0:
        allocator(10)
        equal(allocator.pending_count, count)
    with allocator.deferring():
        for count in range(5):
            allocator(10)
        equal((allocator.pending_count, allocator.pending_bytes), (5, 50))
    equal(allocator.pending_count, 0)
    allocator(10)
    allocator.trim()
    equal(allocator.pending_count, 0)
    with raises(Gpu.Error.INVALID_ARGUMENT, "unhold", "no hold"):
        allocator.unhold()


def test_threads(fixture):
    statistics = Gpu.StatisticsAllocator(Shelf(fixture.context))
    allocator = Gpu.TrackingAllocator(statistics)

    def work(number):
        for size in range(1, 101):
            memory = allocator(size)
            if size % 2:
                allocator.free(memory)

    run_threads(4, work)
    gc.collect()
    equal(statistics.current_count, 0)
    equal(statistics.total_count, 400)
    equal(statistics.total_bytes, 4 * 5050)
    equal(allocator.blocks, [])


if __name__ == "__main__":
    sys.exit(main(globals()))

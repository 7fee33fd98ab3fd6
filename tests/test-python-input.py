#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Python binding raises exceptions for invalid input, on every device that GPUMEM_TEST selects.
Tests sizes and offsets that are not integers, strings with a null character, setters with values
outside their limits, and every method of uninitialised objects."""

import asyncio
import fractions
import os
import subprocess
import sys
import tempfile

from python_util import Skip, equal, main, np, raises, run_without_fast
import gi
from gi._gi import TypeTag
from gi.module import get_introspection_module
from gi.overrides import _gpumem_checks
from gi.repository import GLib, GObject, Gpu

BAD = [3.9, 16.0, "16", True, False, fractions.Fraction(16), 16j]
GOOD = [16]
if np is not None:
    BAD += [np.float32(16), np.float64(16.5), np.bool_(True)]
    GOOD += [np.int8(16), np.uint8(16), np.int64(16), np.uint64(16)]


# --- numbers -------------------------------------------------------------------------------------

def get_calls(fixture, number):
    """Returns calls that pass the number as a size, an offset or a count."""
    context, stream = fixture.context, fixture.stream
    buffer, other = fixture.buffer(4096), fixture.buffer(4096)
    pool = Gpu.MemoryPool(context)
    limited = Gpu.LimitAllocator(Gpu.DeferredAllocator(context), 1 << 20)
    data = bytearray(16)
    completed = stream.record()
    completed.wait()
    return [
        lambda: Gpu.Buffer(context, number).size,
        lambda: Gpu.Buffer.new(context, Gpu.MemoryFlags.NONE, number).size,
        lambda: Gpu.DeferredAllocator(context)(number).size,
        lambda: Gpu.DeferredAllocator(context).alloc(number).size,
        lambda: pool(number).size,
        lambda: pool.alloc_buffer(size=number).size,
        lambda: pool.allocate(number, stream).size,
        lambda: Gpu.HostAllocator(context).alloc(number).get_size(),
        lambda: Gpu.HostMemory(context, number).size,
        lambda: buffer.write(b"x", number),
        lambda: buffer.write(data, offset=number),
        lambda: buffer.read(number),
        lambda: buffer.read(0, number),
        lambda: buffer.read_into(data, number),
        lambda: buffer.fill(1, number),
        lambda: buffer.fill(1, 0, number),
        lambda: buffer.copy(other, offset=number, size=16),
        lambda: buffer.copy(other, source_offset=number, size=16),
        lambda: buffer.copy(other, size=number),
        lambda: stream.copy(buffer, other, number),
        lambda: stream.fill(buffer, 1, number, 16),
        lambda: setattr(Gpu.Extent(1), "height", number),
        lambda: setattr(Gpu.Layout(), "row_pitch", number),
        lambda: stream.write(buffer, data, number),
        lambda: stream.read(buffer, number),
        lambda: stream.read(buffer, 0, number),
        lambda: stream.copy_region(buffer, other, number),
        lambda: stream.copy_region(buffer, other, (number, 2)),
        lambda: stream.copy_region(buffer, other, 1, (number,)),
        lambda: Gpu.Extent(number).width,
        lambda: Gpu.Layout(0, 0, 0, number).row_pitch,
        lambda: Gpu.Local(number).size,
        lambda: setattr(limited, "limit", number),
        lambda: pool.set_limit(number),
        lambda: pool.trim(number),
        lambda: context.set_staging_limit(number),
        lambda: Gpu.DeferredFreeAllocator(limited, max_count=number),
        lambda: Gpu.Array(context, number, "int32").size,
        lambda: Gpu.Array(context, (number, 2), "int32").size,
        lambda: setattr(limited, "limit", number),
        lambda: setattr(pool, "limit", number),
        lambda: setattr(pool, "history_size", number),
        lambda: completed.wait_timeout(number),
    ]


def test_numbers(fixture):
    for bad in BAD:
        for i, call in enumerate(get_calls(fixture, bad)):
            try:
                result = call()
            except TypeError:
                continue
            except BaseException as error:
                raise AssertionError(f"call {i} with {bad!r}: {error!r}") from error
            raise AssertionError(f"call {i} takes {bad!r}: {result!r}")


def test_whole_numbers(fixture):
    """Integers of NumPy are accepted too."""
    for good in GOOD:
        for i, call in enumerate(get_calls(fixture, good)):
            result = call()
            assert result is None or result is True or isinstance(result, (bytes, GLib.Bytes)) \
                or isinstance(result, Gpu.DeferredFreeAllocator) or result in (16, 32), (i, result)
    buffer = fixture.buffer(32)
    for good in GOOD:
        buffer.fill(0)
        buffer.write(b"x", good)
        equal(buffer.read(), bytes(16) + b"x" + bytes(15))


def test_limits_of_numbers(fixture):
    """Negative numbers and too large numbers raise an error that quotes the number."""
    buffer = fixture.buffer(64)
    pool = Gpu.MemoryPool(fixture.context)
    for number in (-1, -1 << 63, 1 << 64, 1 << 200):
        for call in (lambda: buffer.write(b"x", number), lambda: buffer.read(number, 1),
                     lambda: buffer.read(0, number), lambda: pool(number),
                     lambda: Gpu.Buffer(fixture.context, number),
                     lambda: fixture.stream.fill(buffer, 0, number, 1),
                     lambda: Gpu.DeferredAllocator(fixture.context)(number)):
            with raises(OverflowError, str(number)):
                call()
    for number in (1 << 62, (1 << 64) - 1):
        for call in (lambda: buffer.write(b"x", number), lambda: buffer.read(number, 1),
                     lambda: buffer.read(0, number)):
            with raises(GLib.Error, str(number)):
                call()


def functions():
    """Yields (class, function, checks of its arguments) for all functions that take numbers or
    strings."""
    gpu = get_introspection_module("Gpu")
    for info in gi.Repository.get_default().get_infos("Gpu"):
        if not hasattr(info, "get_methods") or info.get_name() == "Arguments":
            continue
        for method in info.get_methods():
            checks = _gpumem_checks.find_checks(method)
            if any(check for _, check in checks):
                yield getattr(gpu, info.get_name()), method, checks


def plain_every_function():
    """All functions of the GIR reject fractions and booleans, also for enumerations, and strings
    with a null character."""
    bads = {_gpumem_checks.to_index: (2.5, True, "1"),
            _gpumem_checks.to_indices: ([1, 2.5], (1, True)),
            _gpumem_checks.to_text: ("a\0b", b"a\0b"),
            _gpumem_checks.to_texts: (["a", "b\0"],)}
    n = 0
    for owner, method, checks in functions():
        good = [1 if check is _gpumem_checks.to_index else check(1) if isinstance(check, type)
                else None for _, check in checks]
        first = [None] * method.is_method()
        for position, (name, check) in enumerate(checks):
            for bad in (1.5, True) if isinstance(check, type) else bads.get(check, ()):
                args = [*first, *good]
                args[len(first) + position] = bad
                with raises(ValueError if "text" in check.__name__ else TypeError,
                            name):
                    getattr(owner, method.__name__)(*args)
                n += 1
    assert n > 400, n


def test_optional_arguments(fixture):
    """As in PyGObject, trailing arguments that may be None can be omitted, arguments can be passed
    by name, and any number of values can be passed to a callback."""
    stream, buffer = fixture.stream, fixture.buffer(64)
    gpu = get_introspection_module("Gpu")
    buffer.fill(7)
    for args, kwargs in (((stream, 16, 8), {}), ((stream, 16, 8, None), {}),
                         ((stream,), {"size": 8, "offset": 16})):
        equal(gpu.Buffer.read_bytes(buffer, *args, **kwargs).get_data(), bytes([7] * 8))
    for args, kwargs in (((stream, 16), {}), ((stream, 16, 8, None, None), {}),
                         ((stream, 16, 8), {"length": 8}), ((stream, 16, 8), {"size": 8})):
        with raises(TypeError, "read_bytes"):
            gpu.Buffer.read_bytes(buffer, *args, **kwargs)
    loop = GLib.MainLoop()
    for data in ((), (1,), (1, "two", None)):
        got = []

        def done(source, result, *data):
            got.append((source.read_bytes_finish(result).get_data(), data))
            loop.quit()
        gpu.Buffer.read_bytes_async(buffer, stream, 16, 8, None, None, (), done, *data)
        loop.run()
        equal(got, [(bytes([7] * 8), data)])


def plain_without_fast():
    """Repeats all tests of this file without the C module."""
    run_without_fast(__file__, "host/", GPUMEM_TEST="host")


# --- strings -------------------------------------------------------------------------------------

def test_null_characters(fixture):
    source = "__kernel void k (__global int *a) { a[0] = 1; }"
    for call in (lambda: Gpu.Program(fixture.context, source[:9] + "\0" + source[9:]),
                 lambda: Gpu.Program(fixture.context, source, "-DAAAAAA=\0"),
                 lambda: Gpu.Program(fixture.context, source, None, ["kernel<1>\0"]),
                 lambda: Gpu.Program.compile(fixture.context, source[:9] + "\0"),
                 lambda: fixture.context.set_build_options("-DAAAAAA=\0")):
        with raises(ValueError, "null character", "offset 9"):
            call()


# --- setters -------------------------------------------------------------------------------------

def test_setters(fixture):
    """A setter that rejects a value raises an error and keeps the old value."""
    pool = Gpu.MemoryPool(fixture.context)
    pool.fragmentation_target, pool.history_size, pool.limit = 0.5, 10, 1 << 20
    for bad in (-1.0, float("nan"), -0.001):
        with raises(Gpu.Error.INVALID_ARGUMENT, f"not {bad:g}"):
            pool.set_fragmentation_target(bad)
        with raises(ValueError, str(bad)):
            pool.fragmentation_target = bad
    with raises(Gpu.Error.INVALID_ARGUMENT, "4294967295"):
        pool.set_history_size(4294967295)
    for name, bad in (("history_size", 4294967295), ("history_size", -1), ("limit", -1),
                      ("limit", 1 << 64), ("soft_limit", -5), ("release_threshold", -1)):
        with raises(ValueError, str(bad)):
            setattr(pool, name, bad)
    for bad in ("1", True, None, 2.5):
        with raises(TypeError):
            pool.limit = bad
    equal((pool.fragmentation_target, pool.history_size, pool.limit), (0.5, 10, 1 << 20))
    with raises(Gpu.Error.INVALID_ARGUMENT, "never initialised"):
        GObject.new(get_introspection_module("Gpu").MemoryPool).set_history_size(1)


def get_setters(thing, name):
    """Returns every way to set a property of an object from Python."""
    return [lambda value: thing.set_property(name, value),
            lambda value: thing.set_properties(**{name.replace("-", "_"): value}),
            lambda value: setattr(thing.props, name.replace("-", "_"), value)]


def test_properties(fixture):
    """A GObject property accepts and rejects the same values as its setter."""
    deferred = Gpu.DeferredAllocator(fixture.context)
    pool = Gpu.MemoryPool(fixture.context)
    for thing, name in ((pool, "limit"), (pool, "history-size"), (pool, "release-threshold"),
                        (Gpu.LimitAllocator(deferred, 64), "limit"),
                        (Gpu.HostAllocator(fixture.context), "held-limit"),
                        (Gpu.DeferredFreeAllocator(deferred), "max-count")):
        for put in get_setters(thing, name):
            for good in GOOD:
                put(good)
                equal(thing.get_property(name), 16)
            for bad in BAD:
                with raises(TypeError, name):
                    put(bad)
            for bad in (-1, 1 << 64):
                with raises(ValueError, name, str(bad)):
                    put(bad)
            equal(thing.get_property(name), 16)
            put(8)
            equal(getattr(thing.props, name.replace("-", "_")), 8)
    for put in get_setters(pool, "history-size"):
        with raises(ValueError, "history-size", "4294967295"):
            put(4294967295)
    for thing, name in ((fixture.context, "build-options"),
                        (Gpu.TrackingAllocator(deferred), "tag")):
        for put in get_setters(thing, name):
            put("text")
            with raises(ValueError, name, "offset 1"):
                put("a\0b")
            equal(thing.get_property(name), "text")
            put(None)
            assert not thing.get_property(name)


def test_constructors(fixture):
    """Constructors check the numbers that become properties. No class with such properties uses the
    constructor of PyGObject."""
    context = fixture.context
    deferred = Gpu.DeferredAllocator(context)
    for bad in BAD:
        for call in (lambda: Gpu.LimitAllocator(deferred, limit=bad),
                     lambda: Gpu.LimitAllocator(upstream=deferred, limit=bad),
                     lambda: Gpu.TrackingAllocator(deferred, backtrace_depth=bad),
                     lambda: Gpu.DeferredFreeAllocator(deferred, max_count=bad),
                     lambda: Gpu.DeferredFreeAllocator(deferred, max_bytes=bad),
                     lambda: Gpu.MemoryPool.new_for_allocator(deferred, leading_bits=bad),
                     lambda: Gpu.Sampler(context, max_anisotropy=bad),
                     lambda: Gpu.Stream.new_full(context, None, Gpu.StreamFlags.NONE, bad),
                     lambda: Gpu.Svm(context, 64, alignment=bad),
                     lambda: Gpu.SvmAllocator(context, alignment=bad)):
            with raises(TypeError, repr(bad)):
                call()
    for kind in (getattr(Gpu, name) for name in dir(Gpu)):
        if isinstance(kind, type) and issubclass(kind, GObject.Object) \
                and not kind.__gtype__.is_abstract() \
                and any(spec.flags & GObject.ParamFlags.WRITABLE and
                        type(getattr(spec, "default_value", None)) in (int, float)
                        for spec in kind.list_properties()):
            assert kind.__new__ is not GObject.Object.__new__, kind


def test_property_names(fixture):
    """props of objects and of classes lists the same properties as in PyGObject."""
    pool = Gpu.MemoryPool(fixture.context)
    equal(Gpu.MemoryPool.props.limit.name, "limit")
    assert "history_size" in dir(pool.props) and "limit" in dir(Gpu.MemoryPool.props)
    equal([spec.name for spec in pool.props], [spec.name for spec in list(Gpu.MemoryPool.props)])
    equal(pool.props.context, fixture.context)
    for call in (lambda: pool.props.size_of_all, lambda: setattr(pool.props, "size_of_all", 1)):
        with raises(AttributeError, "size_of_all"):
            call()
    with raises(TypeError, "size-of-all"):
        pool.set_property("size-of-all", 1)
    with raises(TypeError, "not writable"):
        pool.props.active_bytes = 1
    pool.set_properties(limit=64, fragmentation_target=0.25)
    equal(pool.get_properties("limit", "fragmentation-target"), (64, 0.25))


def test_stream_of_another_context(fixture):
    pool = Gpu.MemoryPool(fixture.context)
    try:
        block = pool.alloc_block(4096, None)
    except GLib.Error as error:
        raise Skip(error.message)
    other = Gpu.Context(fixture.device).default_stream
    for call in (block.add_stream, block.free):
        with raises(Gpu.Error.INVALID_ARGUMENT, "different contexts", fixture.device.id):
            call(other)
    assert not block.freed
    block.free()


def test_no_stream(fixture):
    """Each method names the argument if a number is passed for a stream."""
    if np is None:
        raise Skip("NumPy is not installed")
    context, kind = fixture.context, Gpu.Array
    numbers = np.arange(4, dtype="uint32")
    array, other = kind.from_numpy(context, numbers), kind.empty(context, 4, "uint32")
    host, buffer = Gpu.Context("host"), fixture.buffer(16)
    for stream in (1, 0, "stream"):
        for call in (
                lambda: array.write(numbers, stream=stream),
                lambda: array.write(other, stream=stream),
                lambda: array.fill(1, stream=stream),
                lambda: array.read_into(numbers, stream=stream),
                lambda: array.to_numpy(stream=stream),
                lambda: array.copy_to_host(stream=stream),
                lambda: array.copy(stream=stream),
                lambda: array.copy_to(other, stream=stream),
                lambda: array.copy_to(context, stream=stream),
                lambda: array.copy_to(host, stream=stream),
                lambda: kind.from_dlpack(array, context, stream=stream),
                lambda: kind.from_dlpack(array.__dlpack__(), context, stream=stream),
                lambda: kind.from_dlpack(numbers, context, stream=stream),
                lambda: kind.from_dlpack(numbers, host, stream=stream),
                lambda: buffer.map(stream=stream),
                lambda: buffer.fill(1, stream=stream),
                lambda: buffer.copy(buffer, stream=stream),
                lambda: buffer.read(stream=stream)):
            with raises(TypeError, f"stream must be of type Gpu.Stream, not {stream!r}"):
                call()
    equal(array.to_numpy().tolist(), [0, 1, 2, 3])


def test_no_array(fixture):
    """Each method names the argument if another object is passed for an array of NumPy."""
    if np is None:
        raise Skip("NumPy is not installed")
    context, stream = fixture.context, fixture.stream
    array = Gpu.Array.from_numpy(context, np.arange(4, dtype="uint32"))
    for target in ([0], "abc", memoryview(bytearray(16)), Gpu.Array.empty_like(array)):
        for call in (lambda: array.read_into(target), lambda: array.copy_to_host(target),
                     lambda: array.read_into(target, stream)):
            with raises(TypeError, f"target must be a NumPy array, not '{type(target).__name__}'"):
                call()
    for create in (Gpu.Array.empty_like, Gpu.Array.zeros_like):
        with raises(TypeError, "array must be a Gpu.Array or a NumPy array, not 'list'"):
            create([1, 2], context)
        equal(create(np.zeros((2, 3), "int8"), context).shape, (2, 3))


def test_no_numpy_array(fixture):
    """The error of numpy.asarray() says how to copy the memory to an array of NumPy."""
    if np is None:
        raise Skip("NumPy is not installed")
    buffer = fixture.buffer(16)
    memories = [buffer]
    if fixture.device.capabilities & Gpu.Capabilities.IMAGES:
        memories.append(Gpu.Image(fixture.context, "r-float32", (2, 2)))
    for memory in memories:
        for call in (np.asarray, np.array, lambda memory: np.asarray(memory, "f4"),
                     lambda memory: Gpu.Array.from_numpy(fixture.context, memory)):
            with raises(TypeError, f"a Gpu.{type(memory).__name__} is not", "to_numpy()"):
                call(memory)
        with raises(TypeError, "Buffer.write: data must be a bytes-like object"):
            buffer.write(memory)
    equal(np.asarray(Gpu.HostMemory(fixture.context, 4)).shape, (4,))


def test_offsets(fixture):
    """Errors of offsets name the argument and its value, also where the default size depends on
    it."""
    buffer, memory = fixture.buffer(16), Gpu.HostMemory(fixture.context, 16)
    calls = [memory.read, buffer.read, lambda offset: buffer.map(0, offset),
             lambda offset: Gpu.Buffer.new_from_fd(fixture.context, 0, 16, offset),
             lambda offset: fixture.stream.read(buffer, offset)]
    if fixture.device.capabilities & Gpu.Capabilities.SVM_COARSE:
        svm = Gpu.Svm(fixture.context, 16)
        calls += [lambda offset: svm.map(0, offset), lambda offset: svm.prefetch(0, offset),
                  lambda offset: svm.advise(Gpu.MemoryAdvice.READ_MOSTLY, None, offset),
                  lambda offset: asyncio.run(svm.map_async(0, offset))]
    for call in calls:
        for offset in "a", 1.5, None, True:
            with raises(TypeError, f"offset must be a whole number, not {offset!r}"):
                call(offset)
    memory.write(bytes(range(16)))
    equal((memory.read(10), memory.read(3, 2)), (bytes(range(10, 16)), bytes((3, 4))))
    for context, objects in ((5, [b"1"]), (fixture.context, [])):
        with raises(TypeError, f"{len(objects)} objects", "5" if context == 5 else "Gpu.Context"):
            with Gpu.pinned(context, *objects):
                pass


def test_strides(fixture):
    """Errors name the strides, not the shape, and each function takes the same values."""
    if np is None:
        raise Skip("NumPy is not installed")
    context, buffer, most = fixture.context, fixture.buffer(64), (1 << 63) - 1

    def create(*arguments):
        return Gpu.Array.empty(context, *arguments[:2], strides=arguments[2])

    def wrap(*arguments):
        return Gpu.Array.for_memory(buffer, *arguments[:2], strides=arguments[2])

    for call in (create, wrap):
        with raises(TypeError, "strides[0] must be a whole number, not 'a'"):
            call(6, "f4", "a")
        with raises(TypeError, "strides[1] must be a whole number, not 1.5"):
            call((2, 3), "f4", (12, 1.5))
        with raises(TypeError, "strides must be a whole number, not 1.5"):
            call(6, "f4", 1.5)
        for strides in (4, [4], np.array([4]), np.int8(4)):
            equal(call(6, "f4", strides).strides, (4,))
        equal(call((2, 3), "f4", np.array([12, 4])).strides, (12, 4))
        equal(call((2, 3), "f4", None).strides, (12, 4))
    for stride in (-1 << 63, most):
        with raises(OverflowError, "(2, 3)", f"strides ({stride}, 4)", f"most are {most}"):
            create((2, 3), "f4", (stride, 4))


def test_names(fixture):
    """Messages name the method that the program called, and give no useless advice."""
    if np is None:
        raise Skip("NumPy is not installed")
    array = Gpu.Array.zeros(fixture.context, 4, "uint32")
    numbers = np.arange(4, dtype="uint32")
    for name in ("write", "copy_to_device"):
        for arguments in ((), (1, 2, 3)):
            with raises(TypeError, f"Array.{name}()"):
                getattr(array, name)(*arguments)
        array.fill(0)
        equal(getattr(array, name)(numbers), None)
        equal(array.tolist(), [0, 1, 2, 3])
        equal(getattr(array, name)(data=Gpu.Array.zeros(fixture.context, 4, "uint32"),
                                   stream=fixture.stream), None)
        equal(array.to_numpy(fixture.stream).tolist(), [0] * 4)
    for kind in ("S", "U"):
        try:
            array.astype(kind)
        except TypeError as error:
            assert str(error).endswith("view the array as numbers"), error
        else:
            raise AssertionError(f"there are elements of {kind}")


def make_objects():
    """Returns an object of each class that has void setters."""
    context = Gpu.Context("host")
    deferred = Gpu.DeferredAllocator(context)
    return {"Context": context, "DeferredFreeAllocator": Gpu.DeferredFreeAllocator(deferred),
            "HostAllocator": Gpu.HostAllocator(context),
            "LimitAllocator": Gpu.LimitAllocator(deferred, 1 << 20),
            "MemoryPool": Gpu.MemoryPool(context),
            "TrackingAllocator": Gpu.TrackingAllocator(deferred)}


def set_extremes():
    """Calls every void setter of the GIR with the minimum and the maximum of its type."""
    objects = make_objects()
    gpu = get_introspection_module("Gpu")
    for info in gi.Repository.get_default().get_infos("Gpu"):
        for method in info.get_methods() if hasattr(info, "get_methods") else ():
            is_void = method.get_return_type().get_tag() == TypeTag.VOID
            if not method.__name__.startswith("set_") or not is_void \
                    or method.can_throw_gerror():
                continue
            print(f"{info.get_name()}.{method.__name__}", flush=True)
            thing = objects[info.get_name()]
            for value in (0, 1, (1 << 32) - 1, (1 << 64) - 1, -1.5, float("nan"), "", "text",
                          None, False):
                try:
                    getattr(getattr(gpu, info.get_name()), method.__name__)(thing, value)
                except (TypeError, ValueError, OverflowError):
                    pass
    for number in ((1 << 32) - 1, 0):
        Gpu.staging_set_n_threads(number)


def plain_void_setters():
    """A void setter accepts every value of its type."""
    result = subprocess.run([sys.executable, __file__, "--setters"], timeout=600, text=True,
                            stdin=subprocess.DEVNULL, capture_output=True)
    equal((result.returncode, result.stderr), (0, ""))
    assert len(result.stdout.split()) >= 3, result.stdout


# --- objects that were never initialised ---------------------------------------------------------

ARGUMENTS = ((), (0,), (0, 16), (None,), (None, None), (0, 0, 0), (0, 16, None), (None, 0, 16),
             (b"abcd",), (b"abcd", 0), (0.5,), ("text",))


def keywords(method):
    """If a call has no callback and its cancellable has the wrong type, PyGObject 3.58 drops a
    reference to the finish function, although it does not own the reference:
    `Gio.File.new_for_path("/").read_async(0, "text")`. The next such call uses freed memory."""
    has_fault = method.endswith("_async") and hasattr(gi._gi, "Async")
    return {"callback": lambda *_: None} if has_fault else {}


def walk():
    """Calls every method of an object of every class. The objects are created by g_object_new()
    alone. Prints each method before the call."""
    inherited = set(dir(GObject.Object))
    for name in sorted(name for name in dir(Gpu) if name[0].isupper()):
        kind = getattr(Gpu, name)
        if not (isinstance(kind, type) and issubclass(kind, GObject.Object)):
            continue
        for method in sorted(set(dir(kind)) - inherited):
            if method.startswith("_"):
                continue
            print(f"{name}.{method}", flush=True)
            try:
                thing = GObject.new(kind)
            except TypeError:
                break                           # an interface, or abstract
            for arguments in (*ARGUMENTS, (thing,), (thing, 0, 0, 0)):
                try:
                    function = getattr(thing, method)
                    if callable(function):
                        function(*arguments, **keywords(method))
                except Exception:
                    pass


def plain_never_initialised():
    # Some calls create files whose names are the values of arguments.
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run([sys.executable, os.path.abspath(__file__), "--walk"], timeout=600,
                                text=True, stdin=subprocess.DEVNULL, capture_output=True,
                                cwd=folder)
    calls = result.stdout.split("\n")
    assert result.returncode == 0, (result.returncode, calls[-2:], result.stderr[-2000:])
    assert len(calls) > 400 and "Context.trim_staging" in calls, calls
    # Streams inherit functions of GIO, which do not check a buffer that is None.
    critical = [line for line in result.stderr.split("\n")
                if "CRITICAL" in line and "GLib-GIO-CRITICAL" not in line]
    equal(critical, [])


if __name__ == "__main__":
    if sys.argv[1:] == ["--walk"]:
        walk()
    elif sys.argv[1:] == ["--setters"]:
        set_extremes()
    else:
        sys.exit(main(globals()))

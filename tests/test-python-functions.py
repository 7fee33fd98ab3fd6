# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions of the C module that make-functions writes from the GIR: same results and same
errors as PyGObject, no leaks, no GIL while a call blocks, on every device that GPUMEM_TEST
selects."""

import ctypes
import gc
import inspect
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

import gi
from gi._gi import TypeTag

from python_util import DEADLINE, Skip, equal, main, raises, run_threads
from gi.module import get_introspection_module
from gi.overrides import _gpumem_checks
from gi.repository import Gio, GLib, GObject, Gpu

fast = _gpumem_checks.fast
base = get_introspection_module("Gpu")
TOP = os.environ.get("TEST_TOP_SRCDIR", ".")
BUILD = os.environ.get("TEST_TOP_BUILDDIR", ".")

ROUNDS = int(os.environ.get("GPUMEM_TEST_CALLS", 10000))
# of the rounds of one function, by back end
SECONDS = {"host": ROUNDS / 100000}

# The results of these differ from call to call.
VOLATILE = re.compile("handle|address|hash|allocated|managed|elapsed|memory_info|data|get_duration"
                      "|get_profiling|held|stagi|is_from_cache|native|report|default_stream|alloc"
                      "|try_|poll|wait|is_idle|trim")

# Addresses, temporary files and used memory in messages, and the numbers by which Intel's compiler
# counts programs
UNSTABLE = re.compile(r"0x[0-9a-f]+|/\S+|held \d+, free \d+|\d+ bytes (?:held|free)"
                      r"|^\d+(?=:\d+:\d+: )", re.MULTILINE)

# These change the process, take any number for an address, start a thread, or use another device.
NEVER = re.compile("current$|profiler|_address$|for_address|new_wrapped|from_handle|_fd"
                   "|DeviceModel|new_default")

# A second call with the same objects does something else.
ONCE = re.compile("release|free|unmap|complete|fail|unhold|hold|add_|push|pop|alloc"
                  "|reset|watch|flush|set_|wait|abort")


def need_fast():
    if fast is None:
        raise Skip("the module in C was not built, or is switched off")


class Recorded:
    """The C function of an info, and the function that it replaces. calls counts the calls that the
    C function forwarded."""

    def __init__(self, owner, info):
        self.owner = owner
        self.info = info
        self.name = f"{owner}.{info.__name__}" if owner else info.__name__
        self.original = _gpumem_checks._to_callable(info)
        self.calls = 0
        self.fast = fast.new_function(owner, info.__name__, info, self._make)

    def _make(self, info):
        assert info is self.info

        def forward(*args, **kwargs):
            self.calls += 1
            return self.original(*args, **kwargs)
        return forward

    def list_first(self, objects):
        """Returns the object or the class, in a list."""
        if self.info.is_constructor():
            return [getattr(base, self.owner)]
        return [objects[self.owner]] if self.info.is_method() else []


def list_functions():
    """Returns all functions that have one in C."""
    found = []
    for info in gi.Repository.get_default().get_infos("Gpu"):
        if type(info).__name__ == "FunctionInfo":
            found.append(Recorded(None, info))
        elif hasattr(info, "get_methods"):
            found += [Recorded(info.get_name(), method) for method in info.get_methods()]
    return [one for one in found if one.fast is not None]


def make_objects(fixture):
    """Returns new objects of each class by name."""
    context, stream = fixture.context, fixture.new_stream()
    buffer = Gpu.Buffer(context, bytes(range(64)) * 64)
    deferred = Gpu.DeferredAllocator(context)
    pool = Gpu.MemoryPool(context)
    objects = {"Array": Gpu.Array(context, (4, 4), "int32"), "Buffer": buffer, "Memory": buffer,
               "Color": Gpu.Color(1.0, 0.5), "Context": context, "Device": fixture.device,
               "DType": Gpu.DType.INT32, "Extent": Gpu.Extent(4, 2), "Layout": Gpu.Layout(),
               "ImageFormat": Gpu.ImageFormat("r-uint8"), "Stream": stream,
               "Event": stream.record(), "Arguments": Gpu.Arguments.new(), "MemoryPool": pool,
               "Allocator": deferred, "DeferredAllocator": deferred,
               "HostAllocator": Gpu.HostAllocator(context),
               "LimitAllocator": Gpu.LimitAllocator(deferred, 1 << 20),
               "StatisticsAllocator": Gpu.StatisticsAllocator(deferred),
               "TrackingAllocator": Gpu.TrackingAllocator(deferred),
               "OomAllocator": Gpu.OomAllocator(deferred),
               "DeferredFreeAllocator": Gpu.DeferredFreeAllocator(deferred),
               "HostMemory": Gpu.HostMemory(context, 64),
               "Gio.Cancellable": Gio.Cancellable(), "GLib.Bytes": GLib.Bytes.new(b"12345678"),
               "GLib.MainContext": GLib.MainContext.default()}
    for name, make in (("Image", lambda: Gpu.Image(context, "r-uint8", (4, 2))),
                       ("Sampler", lambda: Gpu.Sampler(context)),
                       ("Svm", lambda: Gpu.Svm(context, 4096)),
                       ("MemoryBlock", lambda: pool.alloc_block(64, None)),
                       ("Mapping", lambda: buffer.map()),
                       ("Program", lambda: fixture.build()),
                       ("Kernel", lambda: fixture.build().scale)):
        try:
            objects[name] = make()
        except GLib.Error:
            pass                                # not supported by the device
    if "Kernel" in objects:
        objects["Launch"] = objects["Kernel"].prepare(4, None, (buffer, 2.0))
    return objects


def make_value(type_info, objects, number, is_nullable):
    """Returns a value for an argument, or raises KeyError if there is none of its type."""
    tag = type_info.get_tag()
    if is_nullable and number == 0:
        return None
    if tag in _gpumem_checks._INTEGERS:
        return number
    if tag == TypeTag.BOOLEAN:
        return bool(number)
    if tag in (TypeTag.FLOAT, TypeTag.DOUBLE):
        return number / 4
    if tag == TypeTag.UTF8:
        return "int32" if number else "host"
    if tag == TypeTag.ARRAY:
        item = type_info.get_param_type(0).get_tag()
        return b"abcd" if item == TypeTag.UINT8 else [number + 1, 2]
    if tag != TypeTag.INTERFACE:
        raise KeyError(type_info.get_tag_as_string())
    interface = type_info.get_interface()
    name = interface.get_name()
    if interface.get_namespace() != "Gpu":
        return objects[f"{interface.get_namespace()}.{name}"]
    if name in objects:
        return objects[name]
    kind = getattr(Gpu, name)
    if issubclass(kind, int):
        return kind(number and interface.get_values()[number % 2].get_value())
    raise KeyError(name)


def make_arguments(one, objects, number):
    return [make_value(_gpumem_checks._type_of(argument), objects, number, argument.may_be_null())
            for argument in _gpumem_checks._list_arguments(one.info)]


def normalize(value):
    """Returns the parts of a result that are the same in two equal calls."""
    if isinstance(value, (list, tuple)):
        return type(value).__mro__[-2:], [normalize(item) for item in value]
    if isinstance(value, GLib.Bytes):
        return type(value), value.get_size()
    if value is None or isinstance(value, (int, float, str)):
        return type(value), value
    if isinstance(value, Gpu.Array):            # repr() has the elements
        return type(value), value.shape, value.strides, value.get_dtype().get_name()
    return type(value), UNSTABLE.sub("", repr(value)) if "Gpu." in repr(value) else ""


def outcome(function, args, kwargs={}):
    """Returns the result or the exception of a call, in a form that can be compared."""
    try:
        return normalize(function(*args, **kwargs))
    except GLib.Error as error:
        return type(error), error.domain, error.code, UNSTABLE.sub("", error.message)
    except Exception as error:
        return type(error), UNSTABLE.sub("", str(error))


def is_error(result):
    return isinstance(result[0], type) and issubclass(result[0], Exception)


def list_types(result):
    """Returns only the types in the outcome of a call."""
    if isinstance(result, (list, tuple)):
        return [list_types(item) for item in result]
    return result if isinstance(result, type) else None


def compare(one, make_call, what):
    """Calls both functions with objects of their own."""
    expected = outcome(one.original, *make_call())
    got = outcome(one.fast, *make_call())
    if VOLATILE.search(one.name):
        got, expected = list_types(got), list_types(expected)
    equal(got, expected, f"{one.name}() with {what}")


class WithProgram:
    """A fixture that builds its program once, and only if the device can."""

    def __init__(self, fixture):
        self.__dict__.update(vars(fixture))
        self.new_stream = fixture.new_stream
        self._program = fixture.program() if fixture.device.capabilities \
            & Gpu.Capabilities.SOURCE else None

    def build(self):
        if self._program is None:
            raise GLib.Error("the device compiles nothing")
        return self._program


def each_function(fixture, number):
    """Yields (function, objects, arguments)."""
    for one in list_functions():
        if NEVER.search(one.name) or one.info.__name__.endswith("_finish"):
            continue
        try:
            objects = make_objects(fixture)
            arguments = one.list_first(objects) + make_arguments(one, objects, number)
        except KeyError:
            continue
        yield one, objects, arguments


def test_results(fixture):
    """Each function returns the same as PyGObject, or raises the same error, and really makes the
    call itself."""
    need_fast()
    fixture = WithProgram(fixture)
    n_compared, forwarded = 0, []
    for number in (0, 1, 2):
        for one, objects, arguments in each_function(fixture, number):
            def make_call():
                objects = make_objects(fixture)
                return [one.list_first(objects) + make_arguments(one, objects, number)]
            compare(one, make_call, f"{arguments[1:]}")
            one.calls = 0
            result = outcome(one.fast, *make_call())
            n_compared += 1
            # The type of a tuple is known after the first call without an error.
            if one.calls and not is_error(result):
                forwarded.append(one.name)
    assert n_compared > 700, n_compared
    equal(forwarded, [], "forwarded calls")


def test_wrong_arguments(fixture):
    """Each function raises the same error as PyGObject for wrong values, numbers and names."""
    need_fast()
    fixture = WithProgram(fixture)
    objects = make_objects(fixture)
    n_compared = 0
    for one, _, arguments in each_function(fixture, 1):
        calls = [(arguments + [None], {}), (arguments, {"other": 1}), (arguments[:-1], {}),
                 ([], {})]
        first = len(one.list_first(objects))
        for place in range(first, len(arguments)):
            for bad in (object(), 2.5, -1, 1 << 32, 1 << 70, "text", "a\0b", True, None, b"", [],
                        objects["Stream"], Gpu.MapFlags.READ, GLib.Bytes.new(b"")):
                calls.append((arguments[:place] + [bad] + arguments[place + 1:], {}))
        if first:
            calls.append(([None] + arguments[1:], {}))
            calls.append(([objects["Context"]] + arguments[1:], {}))
        for args, kwargs in calls:
            if not ONCE.search(one.name):
                compare(one, lambda: (args, kwargs), f"{args[first:]} {kwargs}")
                n_compared += 1
    assert n_compared > 2000, n_compared


def test_names(fixture):
    """Arguments may be passed by name, and trailing ones that may be None may be omitted."""
    need_fast()
    buffer, stream = fixture.buffer(bytes(range(64))), fixture.stream
    for args, kwargs in (((stream, 16, 8), {}), ((stream, 16, 8, None), {}),
                         ((stream,), {"size": 8, "offset": 16}),
                         ((), {"cancellable": None, "stream": stream, "size": 8, "offset": 16})):
        equal(buffer.read_bytes(*args, **kwargs).get_data(), bytes(range(16, 24)))
    for args, kwargs in (((stream, 16), {}), ((stream, 16, 8), {"size": 8})):
        with raises(TypeError, "read_bytes"):
            buffer.read_bytes(*args, **kwargs)


def test_classes(fixture):
    """A constructor creates an instance of the override, called for any class and for an object."""
    need_fast()
    buffer = fixture.buffer(64)
    for kind in base.Buffer, Gpu.Buffer, buffer:
        equal(type(kind.new_for_memory(buffer, 0, 32)), Gpu.Buffer)
    for kind in base.Extent, Gpu.Extent, Gpu.Extent(1):
        equal(type(kind.new(1, 2, 3)), Gpu.Extent)


def plain_module():
    """The module that programs import has each class after its first use, and the overrides."""
    assert Gpu.MapFlags is base.MapFlags and vars(Gpu)["MapFlags"] is base.MapFlags
    assert Gpu.staging_get_n_threads is vars(Gpu)["staging_get_n_threads"]
    for name, module in (("Buffer", "gi.overrides.Gpu"), ("Extent", "gi.repository.Gpu"),
                         ("MemoryPool", "gi.overrides.Gpu")):
        equal(getattr(Gpu, name).__module__, module)
        assert getattr(Gpu, name).__bases__[-1] is getattr(base, name), name


def plain_descriptions():
    """Name and signature are those of PyGObject."""
    need_fast()
    for one in list_functions():
        equal(one.fast.__name__, one.info.__name__)
        assert one.fast.__doc__.startswith(one.info.__name__ + "("), one.fast.__doc__
        equal(one.fast.__qualname__, one.name)
        first = one.info.is_method() or one.info.is_constructor()
        equal(list(inspect.signature(one.fast).parameters)[first:],
              list(inspect.signature(one.original).parameters)[first:], one.name)
        assert one.name in repr(one.fast)
        assert inspect.isroutine(one.fast)
    equal(Gpu.Buffer.slice._original._info.__name__, "slice")


# --- references ----------------------------------------------------------------------------------

def used_bytes():
    """Returns the size of the heap that the process uses."""
    class Info(ctypes.Structure):
        _fields_ = [(name, ctypes.c_size_t)
                    for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks",
                                 "fsmblks", "uordblks", "fordblks", "keepcost")]

    function = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if function is None:
        raise Skip("the C library has no mallinfo2()")
    function.restype = Info
    info = function()
    return info.uordblks + info.hblkhd


def repeat(call, args, seconds):
    """Calls up to ROUNDS times, for up to some seconds. Returns the number of calls."""
    end = time.monotonic() + seconds
    for n in range(1, ROUNDS + 1):
        try:
            call(*args)
        except (GLib.Error, TypeError, OverflowError):
            pass
        if time.monotonic() > end:
            break
    return n


def count_references(args):
    """Returns the references to each object. Other code may refer to the same number, and PyGObject
    itself keeps references to the classes of objects."""
    return [(sys.getrefcount(arg), getattr(arg, "__grefcount__", 0)) for arg in args
            if not isinstance(arg, (int, str, type, type(None)))]


SLACK = 4096                                    # bytes that caches and threads may take
FEW = 64                                        # references that caches may take


def list_subclasses(kind):
    for child in type.__subclasses__(kind):
        yield child
        yield from list_subclasses(child)


def count_all_references():
    """Returns the references to all objects but the classes of GObjects, because PyGObject keeps
    one to the class of each object that a function returns. Returns 0 if nothing counts them: only
    a debug build of Python does, and only the references of extensions that are built for it."""
    if "d-" not in os.path.basename(gi._gi.__file__):
        return 0
    classes = set(list_subclasses(GObject.Object))
    return sys.gettotalrefcount() - sum(map(sys.getrefcount, classes))


def measure(one, args, objects):
    """Returns the number of calls, the growth in bytes and in references to any object per call,
    and the references to the arguments, and to the objects that results refer to, before and after
    the calls. A slow function is called only a few times, so small growth does not count."""
    counted = [*args, *(objects[name] for name in ("Device", "Context", "Stream"))]
    counts = count_references(counted)
    before = used_bytes()
    references = count_all_references()
    n = repeat(one.fast, args, SECONDS.get(objects["Device"].backend, 0.01))
    objects["Stream"].synchronize()
    gc.collect()
    references = max(count_all_references() - references - FEW, 0) / n
    return n, (used_bytes() - before - SLACK) / n, references, counts, count_references(counted)


def test_references(fixture):
    """Thousands of calls of each function leave the reference counts of their arguments, and in a
    debug build of Python the sum of all reference counts. On the host, where no driver allocates,
    they leak no memory."""
    need_fast()
    is_host = fixture.device.backend == "host"
    fixture = WithProgram(fixture)
    n_calls = 0
    for number in (0, 1):
        for one, objects, arguments in each_function(fixture, number):
            if ONCE.search(one.name) or "async" in one.name:
                continue
            for n in range(20):                 # fills caches
                outcome(one.fast, arguments)
            for attempt in range(8):            # caches may grow, and threads may be late
                n, growth, references, before, after = measure(one, arguments, objects)
                if (growth < 16 or not is_host) and before == after and references == 0:
                    break
            n_calls += n
            equal(after, before, f"references to the arguments of {one.name}()")
            equal(references, 0, f"references per call of {one.name}()")
            assert growth < 16 or not is_host, \
                f"{one.name}() leaks {growth} bytes a call in {n} calls"
    assert n_calls > 10 * ROUNDS, n_calls


def test_image_reads(fixture):
    """Image.read(), which is not a function in C, leaks no memory either."""
    need_fast()
    if fixture.device.backend != "host":
        return
    image = Gpu.Image(fixture.context, "rgba-uint8", (8, 8))
    growth = []
    for _ in range(5):                          # caches may grow at first
        before = used_bytes()
        for _ in range(2000):
            image.read()
        fixture.stream.synchronize()
        gc.collect()
        growth.append((used_bytes() - before) / 2000)
    assert min(growth) < 8, f"Image.read() leaks {growth} bytes a call"


# --- threads -------------------------------------------------------------------------------------

def test_gil(fixture):
    """Other threads run Python while a call blocks."""
    need_fast()
    for wait in (lambda event: base.Event.wait(event, None),
                 lambda event: base.Event.poll(event, 30000000, None),
                 lambda event: base.Event.wait_timeout(event, 30000000, None)):
        event = fixture.user_event()
        started = threading.Event()
        results = []

        def run():
            started.set()
            results.append(wait(event))

        thread = threading.Thread(target=run)
        thread.start()
        started.wait()
        time.sleep(0.01)
        assert not results
        event.complete()
        thread.join(DEADLINE)
        equal(len(results), 1)


def test_threads(fixture):
    """Threads call the same functions at the same time."""
    need_fast()
    buffer = fixture.buffer(bytes(range(64)))

    def run(number):
        for i in range(500):
            part = buffer.slice(0, 8 + number)
            equal(part.get_size(), 8 + number)
            equal(buffer.read_bytes(fixture.stream, number, 8).get_data(),
                  bytes(range(number, number + 8)))
            equal(Gpu.Extent.new(number, 2, 3).width, number)
            with raises(Gpu.Error.INVALID_ARGUMENT):
                buffer.slice(0, 65)

    run_threads(4, run)


# --- the generator -------------------------------------------------------------------------------

def generate(folder, gir):
    path = folder + "/Gpu-1.0.gir"
    with open(path, "w", encoding="utf-8") as file:
        file.write(gir)
    return subprocess.run([sys.executable, TOP + "/bindings/python/make-functions", path,
                           folder + "/functions.c", folder + "/report.txt"],
                          text=True, capture_output=True, check=False)


def plain_generator():
    """The generator names a type that it does not know, and writes nothing. It lists the functions
    that stay with PyGObject."""
    path = BUILD + "/gpumem/Gpu-1.0.gir"
    if not os.path.exists(path):
        raise Skip("there is no " + path)
    with open(path, encoding="utf-8") as file:
        gir = file.read()
    with tempfile.TemporaryDirectory() as folder:
        result = generate(folder, gir.replace('<type name="Layout"', '<type name="Strange"', 1))
        assert result.returncode != 0 and "Strange" in result.stderr, result.stderr
        assert re.search(r"\b\w+\.\w+\(\) has the type Strange", result.stderr), result.stderr
        equal(os.listdir(folder), ["Gpu-1.0.gir"])
        equal(generate(folder, gir).returncode, 0)
        with open(folder + "/report.txt", encoding="utf-8") as file:
            report = file.read()
    for line in ("Buffer.copy_async(): a callback", "Event.wait_all(): an array of Event"):
        assert line in report, report
    if fast is not None:
        equal(int(report.split()[0]), len(list_functions()))


sys.exit(main(globals()))

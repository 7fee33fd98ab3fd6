# SPDX-License-Identifier: LGPL-2.1-or-later
"""The exceptions of the Python binding, on every device that GPUMEM_TEST selects: each error of the
library has the class of its code, on every path on which Python gets an error."""

import asyncio
import contextlib
import copy
import ctypes
import gc
import os
import pickle
import re
import signal
import socket
import sys
import threading
import time
import warnings
import weakref

from gi.module import get_introspection_module

from python_util import (C_NAME, DEADLINE, BufferAllocator, Gpu, equal, main, need, need_numpy, np,
                         raises, run_without_fast, spin)
from gi.repository import Gio, GLib, GObject

TOO_LARGE = 1 << 60

# Code of the library, class, built-in exception
CLASSES = [("FAILED", Gpu.Error, RuntimeError),
           ("OUT_OF_DEVICE_MEMORY", Gpu.OutOfDeviceMemoryError, MemoryError),
           ("OUT_OF_HOST_MEMORY", Gpu.OutOfHostMemoryError, MemoryError),
           ("INVALID_ARGUMENT", Gpu.InvalidArgumentError, ValueError),
           ("NOT_SUPPORTED", Gpu.NotSupportedError, NotImplementedError),
           ("NO_DEVICE", Gpu.NoDeviceError, RuntimeError),
           ("DEVICE_LOST", Gpu.DeviceLostError, RuntimeError),
           ("BUILD_FAILED", Gpu.BuildFailedError, RuntimeError),
           ("LAUNCH_FAILED", Gpu.LaunchFailedError, RuntimeError),
           ("BUSY", Gpu.BusyError, RuntimeError),
           ("RELEASED", Gpu.ReleasedError, RuntimeError),
           ("TIMED_OUT", Gpu.TimedOutError, TimeoutError),
           ("IPC", Gpu.IpcError, RuntimeError)]


def catch(kind, call, *args, **kwargs):
    """Returns the exception of a call, which an except statement for this type must catch."""
    try:
        call(*args, **kwargs)
    except kind as error:
        return error
    raise AssertionError(f"no exception of {kind}")


def check_class(error, kind):
    """The error is of exactly this class, and has the attributes and methods of GLib.Error."""
    equal(type(error), kind, repr(error))
    code = next(code for code, one, _ in CLASSES if one is kind)
    equal(error.domain, "gpu-error-quark")
    equal(error.code, getattr(Gpu.Error, code))
    assert error.matches(Gpu.error_quark(), getattr(Gpu.Error, code))
    assert isinstance(error, GLib.Error) and isinstance(error, Gpu.Error)
    assert error.message and error.message == str(error), error.message


# --- classes -------------------------------------------------------------------------------------

def plain_codes():
    """Each code of the typelib has a class."""
    codes = get_introspection_module("Gpu").Error
    names = {name for name in dir(codes) if name.isupper()}
    equal({code for code, _, _ in CLASSES}, names)
    for name in names:
        equal(int(getattr(Gpu.Error, name)), int(getattr(codes, name)), name)
    equal(Gpu.Error.quark(), Gpu.error_quark())


def plain_classes():
    for code, kind, builtin in CLASSES:
        value = getattr(Gpu.Error, code)
        assert issubclass(kind, (GLib.Error,)) and issubclass(kind, Gpu.Error), code
        assert issubclass(kind, builtin), code
        for error in (kind("too few"), Gpu.Error("too few", code=value),
                      GLib.Error("too few", "gpu-error-quark", value),
                      GLib.Error.new_literal(Gpu.error_quark(), "too few", value)):
            check_class(error, kind)
            equal((error.message, error.args), ("too few", ("too few",)), code)
            equal(repr(error), f"Gpu.{kind.__name__}('too few')")
            for other in (error.copy(), copy.copy(error), pickle.loads(pickle.dumps(error))):
                check_class(other, kind)
                equal(other.message, "too few")


def plain_out_of_memory():
    """One class catches both kinds of memory."""
    for kind in (Gpu.OutOfDeviceMemoryError, Gpu.OutOfHostMemoryError):
        assert issubclass(kind, Gpu.OutOfMemoryError)
    assert not issubclass(Gpu.OutOfHostMemoryError, Gpu.OutOfDeviceMemoryError)


def plain_other_domains():
    """Errors of other libraries, and classes that derive from GLib.Error, are unchanged."""
    error = catch(GLib.Error, Gio.File.new_for_path("/no/such/file").read, None)
    equal(type(error), GLib.Error)
    assert error.matches(Gio.io_error_quark(), Gio.IOErrorEnum.NOT_FOUND)
    equal(type(GLib.Error("text")), GLib.Error)
    equal(type(GLib.Error("text", "gpu-error", 1)), GLib.Error)
    equal(type(Gpu.Error("text", "gpu-error", 1)), Gpu.Error)

    class Derived(GLib.Error):
        def __init__(self, number, *, unit):
            super().__init__(f"{number} {unit}", "derived", number)

    class DerivedFromTwo(GLib.Error, OSError):
        pass
    equal((type(Derived(5, unit="m")), Derived(5, unit="m").message), (Derived, "5 m"))
    equal((type(DerivedFromTwo("a")), DerivedFromTwo("a").message), (DerivedFromTwo, "a"))


# --- messages ------------------------------------------------------------------------------------

INNER_NAMES = ("Methods", "__new__", "__init__", "_strict", "try_", "<locals>")


def check_message(call, kind, *words):
    message = str(catch(kind, call))
    for word in words:
        assert word in message, f"'{word}' is not in '{message}'"
    for name in INNER_NAMES:
        assert name not in message, message
    equal(C_NAME.findall(message), [], message)


def test_messages_of_fixed_properties(fixture):
    """A property that GObject only sets during construction, or that the library sets only once,
    raises AttributeError in place of a warning, and keeps its value."""
    context, buffer, event = fixture.context, fixture.buffer(8), fixture.stream.record()
    created, once = "when the object is created", "is already set"
    for thing, name, value, why in ((event, "context", context, once), (buffer, "size", 5, created),
                                    (buffer, "context", context, created)):
        before = thing.get_property(name)
        for put in (lambda: thing.set_property(name, value),
                    lambda: setattr(thing.props, name, value),
                    lambda: thing.set_properties(**{name: value})):
            check_message(put, AttributeError, f"the property '{name}' of <Gpu.", why)
        equal(thing.get_property(name), before)
    unset = GObject.new(Gpu.Event)
    unset.set_property("context", context)
    equal(unset.get_property("context"), context)
    check_message(lambda: unset.set_property("context", None), AttributeError, "'context'", once)


def test_messages_of_host_arrays(fixture):
    """Messages name the function and the argument, and the way to copy."""
    need_numpy()
    buffer, stream, host = fixture.buffer(48), fixture.stream, np.zeros(4)
    array = Gpu.Array.zeros(fixture.context, (4,), "f4")
    for call, kind, words in (
            (lambda: stream.copy(host, buffer), TypeError,
             ("Stream.copy: destination must be", "ndarray", "Stream.read_into()")),
            (lambda: stream.copy(buffer, host), TypeError,
             ("Stream.copy: source must be", "ndarray", "Stream.write()")),
            (lambda: buffer.write([1]), TypeError, ("Buffer.write: data must be", "'list'")),
            (lambda: buffer.read_into([0]), TypeError, ("Buffer.read_into: target must be",)),
            (lambda: buffer.read_into(bytes(48)), BufferError,
             ("Buffer.read_into: target must be writable, and the 'bytes' is not",)),
            (lambda: Gpu.HostMemory.empty(3, "f4"), TypeError,
             ("context must be a Gpu.Context, not 3",)),
            (lambda: Gpu.Svm.shaped(3, "f4"), TypeError, ("context must be a Gpu.Context, not 3",)),
            (lambda: Gpu.HostMemory.zeros_like(host), TypeError, ("missing", "'array'")),
            (lambda: Gpu.Array.zeros(fixture.context, "f4", (4,)), TypeError,
             ("the shape must be", "'f4'", "type is the argument after the shape")),
            (lambda: Gpu.Array.for_memory(buffer, "f4", (4,)), TypeError, ("the shape must be",)),
            (lambda: Gpu.Array(fixture.context, host), TypeError,
             ("the shape must be", "shape (4,): Gpu.Array.from_numpy()")),
            (lambda: Gpu.Array(fixture.context, host[:1].reshape(())), TypeError,
             ("the shape must be", "not array(0.): Gpu.Array.from_numpy()")),
            (lambda: Gpu.Array(fixture.context, memoryview(host)), TypeError,
             ("a length of the shape must be a whole number, not 0.0",)),
            (lambda: array.reshape(-1, -1), ValueError, ("more than one -1",)),
            (lambda: array[host > 0], TypeError, ("an array of type bool and shape (4,)",))):
        check_message(call, kind, *words)
    if fixture.device.capabilities & Gpu.Capabilities.SOURCE:
        kernel = fixture.program().scale
        check_message(lambda: kernel(stream, 1, None, Gpu.In(host), Gpu.Out([0.0])), TypeError,
                      "the array of Gpu.Out, argument 1, must be a bytes-like object", "'list'")
        check_message(lambda: kernel(buffer, 1.0), TypeError, "not Gpu.Buffer")


def list_read_only(fixture):
    """Yields objects with the names of their attributes that come from drivers or from Python."""
    buffer = fixture.buffer(8)
    yield fixture.device, [*fixture.device.attributes, "name", "traits", "capabilities", "props"]
    yield buffer, [*buffer.attributes, "size", "released", "flags"]
    yield fixture.stream, ["device", "priority", "n_submitted"]
    pool = Gpu.MemoryPool(fixture.context)
    yield pool, ["active_bytes", "kind", "hooks", "statistics"]
    if fixture.device.capabilities & Gpu.Capabilities.SOURCE:
        program = fixture.program()
        kernel = program.scale
        yield program, ["scale", "build_log"]
        yield kernel, [*kernel.attributes, "name", "n_arguments"]
    if not fixture.device.capabilities & Gpu.Capabilities.SUB_BUFFERS:
        yield pool.alloc_block(8), ["freed", "size", "address"]


def test_read_only_attributes(fixture):
    """No attribute of Python hides what the driver reports, and other attributes may be set."""
    for thing, names in list_read_only(fixture):
        for name in names:
            name = name.replace("-", "_")
            if C_NAME.match(name):
                continue                        # an attribute of CUDA
            check_message(lambda: setattr(thing, name, 1), AttributeError)
        thing.note = 5
        equal(thing.note, 5)
        thing.note += 1
        del thing.note


def plain_subclasses():
    """Classes that a program derives from GLib.Error may define __new__()."""
    class Own(GLib.Error):
        def __new__(cls, *args):
            return super().__new__(cls, *args)

    error = Own("text", "domain", 1)
    equal((type(error), error.message, error.domain, error.code), (Own, "text", "domain", 1))


def plain_final_classes():
    """A class that derives from a final class raises an error before PyGObject warns. Gpu.Memory
    and Gpu.Allocator are not final."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for base in (Gpu.Buffer, Gpu.Array, Gpu.Context, Gpu.MemoryPool, Gpu.ImmediateAllocator,
                     Gpu.InputStream):
            name = f"Gpu.{base.__name__}"
            check_message(lambda: type("Mine", (base,), {}), TypeError,
                          f"class Mine cannot derive from {name}, which is final")
        for base in Gpu.Memory, Gpu.FunctionAllocator:
            assert issubclass(type(f"Own{base.__name__}", (base,), {}), base)


def plain_messages_name_methods():
    """Messages about missing and surplus arguments name the class that the program uses, also for
    decorated methods."""
    for method, name in ((Gpu.Buffer.splice_async, "Memory.splice_async"),
                         (Gpu.Buffer.copy_async, "Buffer.copy_async"),
                         (Gpu.Context.using_allocator, "Context.using_allocator"),
                         (Gpu.Program.new_from_source_async, "Program.new_from_source_async")):
        check_message(method, TypeError, f"{name}() missing")
    for kind in (Gpu.Array, Gpu.Buffer, Gpu.DType, Gpu.HostMemory, Gpu.Image, Gpu.ImageFormat,
                 Gpu.LimitAllocator, Gpu.MemoryPool, Gpu.Sampler, Gpu.Stream, Gpu.Svm):
        check_message(kind, TypeError, f"Gpu.{kind.__name__}() missing")
    for method in ("Array.zeros", "Array.from_numpy", "Image.from_array", "Svm.shaped",
                   "HostMemory.empty"):
        owner, name = method.split(".")
        check_message(getattr(getattr(Gpu, owner), name), TypeError, f"{name}() missing")
    for kind in (Gpu.In, Gpu.InOut, Gpu.Local):
        check_message(kind, TypeError, f"Gpu.{kind.__name__}() missing")


def test_messages_of_methods(fixture):
    buffer, pool = fixture.buffer(64), Gpu.MemoryPool(fixture.context)
    array = Gpu.Array(fixture.context, (3, 4), "float32")
    check_message(array.fill, TypeError, "Array.fill() missing 1", "'value'")
    check_message(lambda: array.write(1, 2, 3, 4), TypeError, "Array.write() takes")
    check_message(lambda: array.to_numpy(there=1), TypeError, "Array.to_numpy() got", "'there'")
    check_message(pool.alloc_buffer, TypeError, "MemoryPool.alloc_buffer() missing 1", "'size'")
    check_message(buffer.slice, TypeError, "Buffer.slice() missing 2")
    buffer.release()
    check_message(buffer.read, Gpu.ReleasedError, "Buffer.read: ")
    check_message(lambda: buffer.write(b"1"), Gpu.ReleasedError, "Buffer.write: ")


def memory_that_fails(fixture):
    """Yields (call, words): a call that fails because of the state of memory, and the words in
    which the message names the memory."""
    context, stream = fixture.context, fixture.new_stream()
    buffer = Gpu.Buffer(context, 4096)
    part = buffer.slice(1024, 512)
    part.release()
    yield lambda: part.read(), "the buffer of 512 bytes at offset 1024 was released before"
    yield lambda: stream.fill(part, 0), "the buffer of 512 bytes at offset 1024 was released"
    buffer.release()
    yield lambda: buffer.slice(0, 1), "the buffer of 4096 bytes was released before"
    host = Gpu.HostMemory(context, 64)
    host.release()
    yield lambda: stream.fill(host, 0), "the host memory of 64 bytes was released before"
    if fixture.device.capabilities & Gpu.Capabilities.SVM_COARSE:
        svm = Gpu.Svm(context, 128)
        svm.release()
        yield lambda: stream.fill(svm, 0), "the shared virtual memory of 128 bytes was released"
    spilled = Gpu.Buffer(context, 256)
    spilled.spill()
    yield lambda: stream.fill(spilled, 0), "the buffer of 256 bytes is spilled to the host"
    yield lambda: stream.wait_array(GObject.new(Gpu.Array)), "the array was never initialised"
    yield lambda: stream.fill(GObject.new(Gpu.Buffer), 0, 0, 1), "the buffer was never initialised"
    yield (lambda: GObject.new(Gpu.Array).read_bytes(stream, Gpu.ArrayOrder.C, None),
           "Array.read_bytes: the array was never initialised")
    yield (lambda: Gpu.Buffer(stream.context, 16).fill(1, stream=GObject.new(Gpu.Stream)),
           "Buffer.fill: the stream was never initialised")
    yield lambda: GObject.new(Gpu.Event).call(int), "Event.call: the event was never initialised"
    if fixture.device.capabilities & Gpu.Capabilities.USER_EVENTS:
        written, gate = Gpu.Buffer(context, 96), fixture.user_event()
        stream.wait_event(gate)
        stream.fill(written, 0)
        gate.fail("the gate broke")
        yield lambda: written.read(), "the last write of the buffer of 96 bytes failed"


def test_messages_show_no_pointers(fixture):
    """A message names memory by its kind, size and offset, not by an address."""
    for call, words in memory_that_fails(fixture):
        message = str(catch(Gpu.Error, call))
        assert words in message and re.search("0x[0-9a-f]{4}", message) is None, message


def test_messages_name_wrong_types(fixture):
    """An argument of a wrong type raises an error with the name of the argument and the value."""
    stream, buffer, context = fixture.stream, fixture.buffer(64), fixture.context
    for call, words in [
            (lambda: stream.wait_event(None), "event must be of type Gpu.Event, not None"),
            (lambda: stream.wait_event(5), "event must be of type Gpu.Event, not 5"),
            (lambda: stream.launch(None, 4), "kernel must be of type Gpu.Kernel, not None"),
            (lambda: stream.launch("scale", 4), "kernel must be of type Gpu.Kernel, not 'scale'"),
            (lambda: stream.launch_prepared(None), "launch must be of type Gpu.Launch, not None"),
            (lambda: Gpu.Stream(context, "x"), "flags must be of type Gpu.StreamFlags, not 'x'"),
            (lambda: Gpu.Stream(None), "context must be of type Gpu.Context, not None"),
            (lambda: Gpu.Buffer("host", 4), "context must be of type Gpu.Context, not 'host'"),
            (lambda: Gpu.Svm(None, 4), "context must be of type Gpu.Context, not None"),
            (lambda: Gpu.Array(None, 4), "context must be a Gpu.Context or a Gpu.Allocator"),
            (lambda: Gpu.Array("x", 4), "a Gpu.Allocator, not 'x'"),
            (lambda: Gpu.Program(context, None), "source must be a str, not None"),
            (lambda: Gpu.Program(context, "", flags=5), "flags must be of type Gpu.ProgramFlags"),
            (lambda: Gpu.MemoryPool(context).alloc_buffer(4, 5), "of type Gpu.Stream, not 5"),
            (lambda: stream.migrate(buffer), "memories must be a list of memory, not <Gpu.Buffer"),
            (lambda: stream.migrate(Gpu.Array(context, 4)), "pass [memory]"),
            (lambda: stream.migrate(None), "memories must be a list of memory, not None"),
            (lambda: stream.migrate([buffer, 5]), "Stream.migrate: memories[1] must be Gpu.Memory, "
                                                  "a Gpu.Array or an array over Gpu memory, not "
                                                  "'int'"),
            (lambda: Gpu.Event.wait_all([5], None), "events[0] must be of type Gpu.Event, not 5"),
            (lambda: Gpu.Event.wait_all(stream.record()), "events, not <Gpu.Event"),
            (lambda: Gpu.Program(context, "", headers=5), "dictionary from names to texts, not 5"),
            (lambda: Gpu.Program(context, "", headers="x.h"), "names to texts, not 'x.h'"),
            (lambda: Gpu.Program(context, "", names=5), "names must be a list or a tuple of names"),
            (lambda: Gpu.Program(context, "", names="f"), "not 'f': pass names=[name]"),
            (lambda: Gpu.Program(context, "", names=["f", 5]), "names[1] must be of type str")]:
        check_message(call, TypeError, words)


def test_messages_of_arguments(fixture):
    """One kernel argument in the place of a tuple raises an error that shows the tuple, also if it
    could be iterated over. So does memory in the place of a list."""
    kernel, buffer, stream = fixture.program().scale, fixture.buffer(64), fixture.stream
    array = Gpu.Array.zeros(fixture.context, 3, "float32")
    for value in buffer, array, 5, None, "b", b"abc", {1: 2}, Gpu.InOut(bytearray(4)):
        for call in (lambda: stream.launch(kernel, 4, args=value),
                     lambda: stream.launch(kernel, 4, None, value),
                     lambda: kernel.prepare(4, args=value)):
            check_message(call, TypeError, "args must be a list or a tuple of kernel arguments, "
                          "not ", "pass args=(argument,)")
    check_message(lambda: stream.launch(kernel, 4, args=(buffer, 2.0), indirect=[buffer, 5]),
                  TypeError, "Stream.launch: indirect[1] must be Gpu.Memory", "not 'int'")
    check_message(lambda: stream.launch(kernel, 4, args=(buffer, 2.0), indirect=buffer), TypeError,
                  "indirect must be a list or a tuple of memory, not <Gpu.Buffer", "[memory]")
    stream.launch(kernel, 16, args=iter([buffer, 2.0]))
    stream.synchronize()


def test_messages_of_patterns(fixture):
    """An int that is not one byte raises an error that shows larger patterns."""
    stream, buffer = fixture.stream, fixture.buffer(64)
    for value in 300, -1, 1 << 70:
        for call in (lambda: stream.fill(buffer, value), lambda: buffer.fill(value),
                     lambda: stream.fill_region(buffer, value, (1, 1))):
            check_message(call, OverflowError, f"one byte, 0 to 255, not {value}", "numpy.uint32")


def plain_messages_of_devices():
    for empty in [], ():
        check_message(lambda: Gpu.Context(empty), Gpu.InvalidArgumentError, f"{empty!r} is empty",
                      "None")


def plain_messages_of_new_errors():
    """A code in the place of the message raises an error that shows how to pass it."""
    for kind, value in ((Gpu.Error, 3), (Gpu.Error, Gpu.Error.BUSY), (Gpu.BusyError, None)):
        shown = "Gpu.Error.BUSY" if value == Gpu.Error.BUSY else value
        check_message(lambda: kind(value), TypeError, "message must be a str, not ", f"{shown}",
                      "code=Gpu.Error.BUSY")


def test_messages_name_launches(fixture):
    """Errors of launches name the function that the program called, however Python launches."""
    kernel, buffer = fixture.program().get_kernel("scale"), fixture.buffer(64)
    args, stream = (buffer, 2.0), fixture.stream
    for call, name in [(lambda: stream.launch(kernel, 0, args=args), "Stream.launch"),
                       (lambda: stream.launch(kernel, 0, None, [buffer, 2.0]), "Stream.launch"),
                       (lambda: stream.launch(kernel, 0, None, args, global_offset=1),
                        "Stream.launch"),
                       (lambda: stream.launch_arguments(kernel, Gpu.Extent(0), None,
                                                        Gpu.Arguments.new()),
                        "Stream.launch_arguments"),
                       (lambda: kernel(stream, 0, None, *args), "Kernel.__call__"),
                       (lambda: kernel.timed(stream, 0, None, *args), "Kernel.timed"),
                       (lambda: kernel.prepare(0, None, args), "Kernel.prepare")]:
        check_message(call, Gpu.InvalidArgumentError, f"{name}: grid 0 x 1 x 1",
                      "only allow_empty=True allows")
    for wrong in (3, -1):
        if fixture.device.backend != "cuda":
            check_message(lambda: kernel(stream, 4, None, wrong, 2.0), Gpu.InvalidArgumentError,
                          "Kernel.__call__: argument 0", "not a number",
                          "or a null pointer (NULL, null or None)")
    check_message(lambda: kernel(None, 4), TypeError, "stream must be of type Gpu.Stream, not None")
    check_message(lambda: kernel.timed(5, 4), TypeError, "stream must be of type Gpu.Stream, not 5")


def test_messages_name_parts(fixture):
    """Errors of arrays that begin at an unaligned offset name the launch, kernel and argument."""
    need(fixture, Gpu.Capabilities.SUB_BUFFERS)
    kernel, stream = fixture.program().get_kernel("scale"), fixture.stream
    part = Gpu.Array.zeros(fixture.context, 8, "float32")[1:]
    for call, name in [(lambda: stream.launch(kernel, 4, args=(part, 2.0)), "Stream.launch"),
                       (lambda: kernel(stream, 4, None, part, 2.0), "Kernel.__call__"),
                       (lambda: kernel.prepare(4, None, (part, 2.0)), "Kernel.prepare")]:
        check_message(call, Gpu.InvalidArgumentError, f"{name}: argument 0",
                      "of kernel scale: offset 4 is not a multiple of",
                      "pass a copy of the part, or the whole array and an offset")
    kernel(stream, 7, None, part.copy(), 2.0)


def test_messages_name_calls(fixture):
    """Errors name the function that the program called, not the function of C that failed."""
    stream, context, buffer = fixture.stream, fixture.context, fixture.buffer(64)
    data, rest = GLib.Bytes.new(bytes(20)), "offset 60 + size 20 exceeds the 64 bytes"
    for call, message in [
            (lambda: buffer.write(bytes(20), 60), f"Buffer.write: {rest}"),
            (lambda: buffer.write_bytes(stream, 60, data, None), f"Buffer.write_bytes: {rest}"),
            (lambda: buffer.read(60, 20), f"Buffer.read: {rest}"),
            (lambda: buffer.read_bytes(stream, 60, 20, None), f"Buffer.read_bytes: {rest}"),
            (lambda: buffer.read_into(bytearray(20), 60), f"Buffer.read_into: {rest}"),
            (lambda: asyncio.run(buffer.read_async(60, 20)), f"Buffer.read_async: {rest}"),
            (lambda: buffer.fill(1, 60, 20), f"Buffer.fill: {rest}"),
            (lambda: stream.fill(buffer, 1, 60, 20), f"Stream.fill: {rest}"),
            (lambda: stream.write(buffer, bytes(20), 60), f"Stream.write: {rest}"),
            (lambda: buffer.fill(b""), "Buffer.fill: the pattern is empty"),
            (lambda: stream.fill_region(buffer, b"", 4), "Stream.fill_region: the pattern is em"),
            (lambda: stream.copy_region(buffer, buffer, (1 << 63, 2)),
             f"Stream.copy_region: a region of {1 << 63} bytes x 2 rows x 1 slices"),
            (lambda: buffer.slice(60, 20), f"Buffer.slice: {rest}"),
            (lambda: fixture.buffer(0), "Gpu.Buffer: a buffer cannot have 0 bytes"),
            (lambda: Gpu.Array.zeros(context, 1 << 61), "Array.zeros: the shape"),
            (lambda: Gpu.Array(context, 1 << 61), "Gpu.Array: the shape"),
            (lambda: buffer.export_fd(), "Buffer.export_fd: ")]:
        check_message(call, Gpu.Error, message)
    check_message(lambda: Gpu.Program(context, "wrong"), Gpu.BuildFailedError, "Gpu.Program: ")
    check_message(lambda: Gpu.Program.new_from_source(context, "wrong"), Gpu.BuildFailedError,
                  "Program.new_from_source: ")
    missing = Gio.File.new_for_path("/missing")
    for call, name in [(lambda: Gpu.Program.new_from_binary(context, b"junk"), "new_from_binary"),
                       (lambda: Gpu.Program.new_from_il(context, b"junk"), "new_from_il"),
                       (lambda: Gpu.Program.new_from_file(context, missing), "new_from_file"),
                       (lambda: Gpu.Program.new_linked(context, [b"junk"]), "new_linked")]:
        check_message(call, GLib.Error, f"Program.{name}: ")


def test_messages_of_waits(fixture):
    """The error of earlier work, which a wait reports, names the method that waited."""
    need(fixture, Gpu.Capabilities.USER_EVENTS)
    stream, buffer, gate = fixture.new_stream(), fixture.buffer(64), fixture.user_event()
    stream.wait_event(gate)
    stream.fill(buffer, 1)
    event = stream.record()
    threading.Timer(0.05, lambda: gate.fail("it broke")).start()
    for name, wait in (("Stream.synchronize", stream.synchronize), ("Event.wait", event.wait),
                       ("Stream.synchronize", stream.synchronize)):
        try:
            wait()
        except Gpu.Error as error:
            equal(error.message, f"{name}: it broke")
        else:
            raise AssertionError("no error")


def plain_names_of_c():
    """Messages name functions and constants as Python programs do. Other words are unchanged."""
    for c_message, message in [
            ("use gpu_memory_pool_alloc_buffer()", "use MemoryPool.alloc_buffer()"),
            ("call gpu_context_new() first", "call Gpu.Context() first"),
            ("gpu_stream_launch: it failed", "Stream.launch: it failed"),
            ("without GPU_MEMORY_FLAGS_SHAREABLE", "without Gpu.MemoryFlags.SHAREABLE"),
            ("GPU_MEMORY_POOL_BINS", "Gpu.MemoryPoolKind.BINS"),
            ("GPU_SVM_ATTACHMENT_GLOBAL", "Gpu.SvmAttachment.GLOBAL"),
            ("gpu_context has no GPU_THING, GPUMEM_CACHE_DIR has",
             "gpu_context has no GPU_THING, GPUMEM_CACHE_DIR has")]:
        equal(Gpu.Error(c_message).message, message)


def test_messages_of_new_buffers(fixture):
    """Arguments of an array get advice to create one."""
    for shape in ((3, 4), [3, 4]):
        check_message(lambda: fixture.buffer(shape), TypeError, str(shape), "Gpu.Array(")
        check_message(lambda: fixture.buffer(shape, "float32"), TypeError, "float32", "Gpu.Array(")
    for value in (None, 5.5, "text"):
        check_message(lambda: fixture.buffer(value), TypeError, repr(value), "a size in bytes")


def test_messages_of_objects_of_methods(fixture):
    """Classes without a constructor for positional arguments name the call that creates objects."""
    class Adaptor(Gpu.AllocatorAdaptor):
        pass

    allocator = Gpu.DeferredAllocator(fixture.context)
    check_message(lambda: Gpu.Kernel(None, "scale"), TypeError, "Kernel()", "get_kernel(name)")
    check_message(lambda: Gpu.Event(fixture.context), TypeError, "Event()", "stream.record()")
    check_message(lambda: Gpu.Mapping(fixture.buffer(16)), TypeError, "Mapping()", "map()")
    check_message(lambda: Gpu.AllocatorAdaptor(allocator), TypeError, "upstream=allocator")
    check_message(lambda: Adaptor(allocator), TypeError, "Adaptor()", "upstream=allocator")
    equal(Adaptor(upstream=allocator).props.upstream, allocator)


def test_messages_name_arguments(fixture):
    """Integers out of range, and values that are not text, raise an error with the name of the
    argument."""
    buffer, most = fixture.buffer(64), str((1 << 64) - 1)
    for call, name, value in [(lambda: fixture.buffer(-1), "size", -1),
                              (lambda: fixture.buffer(1 << 70), "size", 1 << 70),
                              (lambda: Gpu.HostMemory(fixture.context, -1), "size", -1),
                              (lambda: Gpu.MemoryPool(fixture.context)(-1), "size", -1),
                              (lambda: buffer.read(-5), "offset", -5),
                              (lambda: buffer.read(0, -5), "size", -5),
                              (lambda: buffer.write(b"1", -5), "offset", -5),
                              (lambda: buffer.slice(0, -5), "size", -5)]:
        check_message(call, OverflowError, f"{name} must be 0 to {most}, not {value}")
    check_message(lambda: Gpu.Device.find(5), TypeError, "must be a str, not 5")


def test_messages_of_enumerations(fixture):
    """Only values of the enumeration and their numbers are accepted. PyGObject truncates 2.5, and
    takes True for 1 and values of other enumerations."""
    context, kind, none = fixture.context, Gpu.DTypeKind.UINT, Gpu.MemoryFlags.NONE
    format = Gpu.ImageFormat(Gpu.ChannelOrder.R, Gpu.ChannelType.UINT8)
    for value in (True, False, 2.5, 2.0, 99, -1, 2 ** 70, None, "uint",
                  Gpu.FilterMode.LINEAR, Gpu.MemoryFlags.READ_ONLY):
        named = isinstance(value, (GObject.GEnum, GObject.GFlags))
        text = f"of type Gpu.{type(value).__name__}" if named else f"not {value!r}"
        for call, name in ((lambda: Gpu.DType.get_number(value, 4), "kind"),
                           (lambda: Gpu.MemoryPool.new(context, value, none), "kind"),
                           (lambda: setattr(format, "channel_order", value), "channel_order")):
            check_message(call, TypeError, f"{name} must be of type Gpu.", text)
    for value in (kind, int(kind), np.int64(kind) if np is not None else 2):
        equal(repr(Gpu.DType.get_number(value, 4)), "Gpu.DType('uint32')")
    equal(format.channel_order, Gpu.ChannelOrder.R)
    format.channel_order = int(Gpu.ChannelOrder.RG)
    equal(format.channel_order, Gpu.ChannelOrder.RG)


def test_axis_in_messages(fixture):
    """An index out of bounds names the axis of the array, as in NumPy."""
    array = Gpu.Array.zeros(fixture.context, (3, 4, 5), "float32")
    for key, axis in [((0, 9), 1), ((9, 0), 0), ((0, 0, 9), 2), ((slice(None), 0, 9), 2),
                      ((..., 9), 2), ((None, 0, None, 9), 1), ((0, -5), 1), ((0, ..., -6), 2)]:
        size = array.shape[axis]
        check_message(lambda: array[key], IndexError, f"axis {axis} with size {size}")
    check_message(lambda: array.item(0, 1, 9), IndexError, "axis 2 with size 5")


def test_array_errors(fixture):
    """Shapes and strides that are not possible raise ValueError, as in NumPy."""
    array = Gpu.Array.zeros(fixture.context, (3, 4), "float32")
    for call in (lambda: array.reshape(5, 5), lambda: array.reshape(-1, -1),
                 lambda: array.T.reshape(12), lambda: array.transpose(0, 0),
                 lambda: array.transpose(5, 1), lambda: array[:, ::2].view("float64"),
                 lambda: array[:, :3].view("float64"), lambda: array.T.view("float64"),
                 lambda: Gpu.Array(fixture.context, (3, -4), "float32")):
        catch(ValueError, call)


def test_progress(fixture):
    """progress= must be a function, or the call fails before any work. read_into_async() reports
    progress, and write_bytes_async() takes bytes-like data."""
    buffer, data = fixture.buffer(1 << 16), os.urandom(1 << 16)
    for call in (lambda: buffer.read_async(progress=5),
                 lambda: buffer.write_async(data, progress="shown"),
                 lambda: buffer.read_into_async(bytearray(10), progress=[])):
        check_message(lambda: asyncio.run(call()), TypeError, "progress must be a function")

    for kind in (bytes, bytearray, memoryview, GLib.Bytes):
        buffer.fill(0)
        done = []
        buffer.write_bytes_async(None, 0, kind(data), None, None, None,
                                 lambda source, result: done.append(
                                     source.write_bytes_finish(result)))
        spin(lambda: done)
        equal((done, buffer.read()), ([True], data))

    target, calls = bytearray(1 << 16), []
    count = asyncio.run(buffer.read_into_async(target, progress=lambda *args: calls.append(args)))
    equal((count, bytes(target), calls[-1]), (1 << 16, data, (1 << 16, 1 << 16)))
    part = bytearray(100)
    asyncio.run(buffer.read_into_async(part, 50, progress=lambda current, total: None))
    equal(bytes(part), data[50:150])
    equal(asyncio.run(buffer.read_into_async(bytearray(), progress=print)), 0)


# --- paths ---------------------------------------------------------------------------------------

def test_functions(fixture):
    """Methods, constructors and functions, of the overrides and of PyGObject."""
    context, buffer = fixture.context, fixture.buffer(16)
    check_class(catch(MemoryError, fixture.buffer, TOO_LARGE), Gpu.OutOfDeviceMemoryError)
    check_class(catch(MemoryError, Gpu.Buffer.new, context, Gpu.MemoryFlags.NONE, TOO_LARGE),
                Gpu.OutOfDeviceMemoryError)
    check_class(catch(ValueError, buffer.read, 0, 17), Gpu.InvalidArgumentError)
    check_class(catch(ValueError, buffer.write, bytes(17)), Gpu.InvalidArgumentError)
    check_class(catch(ValueError, buffer.slice, 0, 17), Gpu.InvalidArgumentError)
    check_class(catch(ValueError, fixture.stream.fill, buffer, 1, 0, 17), Gpu.InvalidArgumentError)
    check_class(catch(Gpu.NoDeviceError, Gpu.Device.find, "no such device"), Gpu.NoDeviceError)
    buffer.release()
    check_class(catch(Gpu.Error, buffer.read), Gpu.ReleasedError)
    check_class(catch(RuntimeError, fixture.stream.copy, buffer, fixture.buffer(8)),
                Gpu.ReleasedError)


def test_mapping(fixture):
    mapping = fixture.buffer(16).map()
    mapping.unmap()
    check_class(catch(Gpu.ReleasedError, mapping.view), Gpu.ReleasedError)


def test_block(fixture):
    pool = Gpu.MemoryPool(fixture.context)
    try:
        block = pool.alloc_block(100)
    except NotImplementedError as error:        # no addresses on this device
        check_class(error, Gpu.NotSupportedError)
        return
    block.free()
    check_class(catch(Gpu.ReleasedError, block.free), Gpu.ReleasedError)


def test_build(fixture):
    need(fixture, Gpu.Capabilities.SOURCE)
    check_class(catch(Gpu.BuildFailedError, Gpu.Program, fixture.context, "no program"),
                Gpu.BuildFailedError)


def test_timeout(fixture):
    gate = fixture.gate(fixture.stream)
    try:
        check_class(catch(TimeoutError, fixture.stream.record().wait_timeout, 1000),
                    Gpu.TimedOutError)
    finally:
        gate.complete()


def test_await(fixture):
    buffer = fixture.buffer(16)
    check_class(catch(ValueError, asyncio.run, buffer.read_async(0, 17)), Gpu.InvalidArgumentError)
    if fixture.device.capabilities & Gpu.Capabilities.SOURCE:
        check_class(catch(Gpu.BuildFailedError, asyncio.run,
                          Gpu.Program.new_from_source_async(fixture.context, "no program")),
                    Gpu.BuildFailedError)


def test_finish(fixture):
    """The finish function of an asynchronous call."""
    buffer, caught = fixture.buffer(16), []

    def done(source, result):
        caught.append(catch(ValueError, source.read_bytes_finish, result))
    buffer.read_bytes_async(None, 0, 17, None, None, None, done)
    spin(lambda: caught)
    check_class(caught.pop(), Gpu.InvalidArgumentError)


def test_cancelled(fixture):
    """The error of a cancelled wait is of GIO's domain, and names the call of Python."""
    cancellable = Gio.Cancellable()
    cancellable.cancel()
    gate = fixture.gate(fixture.stream)
    event = fixture.stream.record()
    try:
        for name, call in (("Stream.synchronize", lambda: fixture.stream.synchronize(cancellable)),
                           ("Event.wait", lambda: event.wait(cancellable)),
                           ("Event.wait_timeout", lambda: event.wait_timeout(5, cancellable)),
                           ("Event.poll", lambda: event.poll(5, cancellable))):
            error = catch(GLib.Error, call)
            equal(type(error), GLib.Error)
            assert error.matches(Gio.io_error_quark(), Gio.IOErrorEnum.CANCELLED)
            equal(str(error), error.message)
            assert error.message.startswith(name + ": ") and "gpu_" not in str(error), error
    finally:
        gate.complete()


def test_cancelled_before(fixture):
    """A wait that was cancelled before the call fails, even if there is nothing to wait for."""
    cancellable = Gio.Cancellable()
    cancellable.cancel()
    stream = Gpu.Stream(fixture.context)
    event = stream.record()
    event.wait()
    memory, host = fixture.buffer(16), Gpu.HostMemory(fixture.context, 16)
    for name, call in (("Stream.synchronize", lambda: stream.synchronize(cancellable)),
                       ("Event.wait", lambda: event.wait(cancellable)),
                       ("Event.wait_all", lambda: Gpu.Event.wait_all([event], cancellable)),
                       ("Event.wait_timeout", lambda: event.wait_timeout(5, cancellable)),
                       ("Event.wait_timeout", lambda: event.wait_timeout(-1, cancellable)),
                       ("Event.poll", lambda: event.poll(0, cancellable)),
                       ("Memory.wait", lambda: memory.wait(cancellable)),
                       ("Memory.wait", lambda: memory.wait(cancellable, 5)),
                       ("HostMemory.synchronize",
                        lambda: host.synchronize(Gpu.MapFlags.READ, cancellable)),
                       ("Buffer.read_bytes", lambda: memory.read_bytes(None, 0, 4, cancellable)),
                       ("Buffer.write_bytes",
                        lambda: memory.write_bytes(None, 0, GLib.Bytes.new(b"1"), cancellable))):
        error = catch(GLib.Error, call)
        assert error.matches(Gio.io_error_quark(), Gio.IOErrorEnum.CANCELLED), name
        equal(str(error), f"{name}: Operation was cancelled")
    equal(str(pickle.loads(pickle.dumps(error))), str(error))
    error = GLib.Error("of another library", "g-io-error-quark", 19)
    equal(str(error), "g-io-error-quark: of another library (19)")


def test_negative_timeout(fixture):
    """A deadline in the past, computed as deadline - now, must not wait forever."""
    event = fixture.stream.record()
    event.wait()
    for name in ("wait_timeout", "poll"):
        for timeout in (-2, -1 << 63):
            error = catch(ValueError, getattr(event, name), timeout)
            check_class(error, Gpu.InvalidArgumentError)
            assert error.message.startswith(f"Event.{name}: ") and str(timeout) in error.message


def test_call_on_a_thread(fixture):
    """A message names the call of the program, also if another thread runs the function."""
    memory = Gpu.HostMemory(fixture.context, 16)
    memory.release()
    for name in ("synchronize", "to_numpy", "view"):
        if name != "to_numpy" or np is not None:
            error = catch(Gpu.ReleasedError, getattr(memory, name))
            assert error.message.startswith(f"HostMemory.{name}: "), error


def test_signal(fixture):
    """The error that a handler of a signal gets."""
    event, errors = fixture.user_event(), []
    event.connect("completed", lambda event, error: errors.append(error))
    event.fail("the file is incomplete")
    spin(lambda: errors)
    error = errors.pop()
    assert "the file is incomplete" in error.message, error.message
    check_class(error, Gpu.Error)


class Deadline(Exception):
    """The exception of a signal handler."""


@contextlib.contextmanager
def alarm():
    """The handler of SIGALRM raises Deadline."""
    def fail(*args):
        raise Deadline("alarm")

    previous = signal.signal(signal.SIGALRM, fail)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, previous)


def connect_alarm(pool):
    """Lets each failed allocation of the pool raise SIGALRM. A function of C raises the signal, so
    that Python runs the handler after the C call, while it converts the error."""
    lib, swapped = ctypes.CDLL("libgobject-2.0.so.0"), 2
    lib.g_signal_connect_data(ctypes.c_void_p(hash(pool)), b"out-of-memory",
                              getattr(ctypes.CDLL(None), "raise"),
                              ctypes.c_void_p(signal.SIGALRM), None, swapped)


def test_signal_handler(fixture):
    """An exception of a signal handler takes the place of the error of the call that it
    interrupts."""
    pool = Gpu.MemoryPool(fixture.context)
    pool.limit = 1 << 20
    connect_alarm(pool)
    calls = [lambda: pool(2 << 20), lambda: pool.alloc_buffer(2 << 20),
             lambda: pool.alloc(2 << 20)]
    if fixture.device.backend != "opencl":      # where blocks have no addresses
        calls.append(lambda: pool.alloc_blocks([2 << 20]))
    with alarm():
        for call in calls:
            equal(catch(Deadline, call).args, ("alarm",))


def test_signal_handler_in_wait(fixture):
    """An exception of a signal handler ends a loop of waits that time out."""
    event = fixture.user_event()
    with alarm():
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with raises(Deadline, "alarm"):
            while True:
                try:
                    event.wait_timeout(20000)
                except TimeoutError:
                    pass
    event.complete()


class Refusing(BufferAllocator):
    """An allocator that raises an exception of this type."""

    def __init__(self, context, kind):
        super().__init__(context)
        self.kind = kind

    def do_alloc(self, size, stream):
        raise self.kind("the arena is full")


def test_allocator(fixture):
    """An error of an allocator in Python has the same class behind the library."""
    for raised, kind in [(Gpu.OutOfDeviceMemoryError, Gpu.OutOfDeviceMemoryError),
                         (MemoryError, Gpu.OutOfHostMemoryError), (KeyError, Gpu.Error),
                         (Gpu.NotSupportedError, Gpu.NotSupportedError)]:
        refusing = Refusing(fixture.context, raised)
        error = catch(kind, Gpu.LimitAllocator(refusing, 1 << 20), 16)
        check_class(error, kind)
        assert "the arena is full" in error.message, error.message


def test_frames(fixture):
    """A failed call keeps no reference to the frames of its callers."""
    class Content:
        pass

    class Odd:
        def __repr__(self):
            raise ZeroDivisionError

    def fail(call):
        content = Content()
        try:
            call()
        except (GLib.Error, TypeError) as error:
            assert len(str(error)) < 500, str(error)[:500]
            return weakref.ref(content)
        raise AssertionError("the call did not fail")

    gc.disable()
    try:
        for call in (lambda: fixture.stream.migrate([5]),
                     lambda: Gpu.Context.new_for_devices([]),
                     lambda: Gpu.Event.new_wrapped(list(range(1000000)), 5, 0),
                     lambda: Gpu.Event.new_wrapped(Odd(), 5, 0),
                     lambda: Gpu.Program.new_linked(fixture.context, [], None)):
            equal(fail(call)(), None)
    finally:
        gc.enable()


def test_frames_of_coroutines(fixture):
    """A failed or cancelled coroutine keeps no reference to the frames of its callers."""
    class Content:
        pass

    buffer = fixture.buffer(1000)

    def stop(current, total):
        raise ZeroDivisionError

    async def fail(call):
        content = Content()
        try:
            await call()
        except (GLib.Error, ZeroDivisionError, asyncio.CancelledError):
            return weakref.ref(content)
        raise AssertionError("the coroutine did not fail")

    async def check(call):
        reference = await fail(call)
        deadline = time.monotonic() + DEADLINE  # for the thread that reported the error
        while reference() is not None and time.monotonic() < deadline:
            await asyncio.sleep(0.001)
        equal(reference(), None)

    async def read_nothing():
        here, there = socket.socketpair()
        asyncio.get_running_loop().call_later(0.01, asyncio.current_task().cancel)
        with here, there:
            await buffer.splice_async([here], False)

    gc.disable()
    try:
        for call in (lambda: buffer.read_async(999, 10), read_nothing,
                     lambda: buffer.read_async(999, 10, progress=stop),
                     lambda: buffer.read_async(progress=stop),
                     lambda: buffer.write_async(bytes(1001)),
                     lambda: buffer.write_async(bytes(1000), progress=stop),
                     lambda: buffer.read_file_async("/dev/null", size=1),
                     lambda: buffer.read_file_async("/dev/zero", size=9, progress=stop),
                     lambda: buffer.write_file_async("/dev/full"),
                     lambda: buffer.splice_async([], True)):
            asyncio.run(check(call))
    finally:
        gc.enable()


def plain_without_fast():
    """Repeats all tests of this file without the C module."""
    run_without_fast(__file__)


if __name__ == "__main__":
    sys.exit(main(dict(globals())))

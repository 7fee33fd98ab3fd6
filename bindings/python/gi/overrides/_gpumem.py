# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shared helpers of the Gpu overrides: the memory of Python objects, waits that Ctrl-C interrupts,
and waits under asyncio."""

import contextlib
import ctypes
import functools
import math
import numbers
import os
import queue
import sys
import threading
import time

from gi.repository import Gio, GLib, GObject

from ..module import get_introspection_module
from ._gpumem_checks import DECORATORS, describe, to_index
from ._gpumem_errors import NotSupportedError, TimedOutError
from ._gpumem_names import find_caller, name_call, run_for
from ._gpumem_library import load_symbols
from ._gpumem_native import fast

Gpu = get_introspection_module("Gpu")


# --- memory of Python objects --------------------------------------------------------------------

class _PyBuffer(ctypes.Structure):
    """Py_buffer of the C API."""
    _fields_ = [("buf", ctypes.c_void_p),
                ("obj", ctypes.c_void_p),
                ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int),
                ("ndim", ctypes.c_int),
                ("format", ctypes.c_void_p),
                ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p),
                ("internal", ctypes.c_void_p)]


_get_buffer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_PyBuffer),
                                ctypes.c_int)(("PyObject_GetBuffer", ctypes.pythonapi))
_release_buffer = ctypes.PYFUNCTYPE(None, ctypes.POINTER(_PyBuffer))(
    ("PyBuffer_Release", ctypes.pythonapi))
new_bytes = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi))
get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi))
bytes_address = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(
    ("PyBytes_AsString", ctypes.pythonapi))

_WRITABLE = 0x1
_ANY_CONTIGUOUS = 0x98                          # in C or Fortran order

# Size in bytes from which a copy of the data takes longer than the release of the original on
# another thread.
HELD_SIZE = 1 << 16

# Size in bytes from which a copy may take longer than _SLICE, so that Ctrl-C must not wait for its
# end. The hand-over of such a copy to another thread costs 1 % of the fastest copies or less.
LONG_SIZE = 1 << 28


def loaded_numpy():
    """Returns the numpy module if the program has imported it. Without that import, no object can
    be a NumPy object."""
    return sys.modules.get("numpy")


def is_int(value):
    numpy = loaded_numpy()
    return isinstance(value, int) or numpy is not None and isinstance(value, numpy.integer)


def check_array(data):
    if data.dtype.hasobject:
        raise TypeError(f"an array of dtype {data.dtype} holds Python objects, not data")


def to_sized_dtype(dtype):
    """Returns a NumPy dtype. Raises TypeError for one with Python objects, and ValueError for one
    without a size, such as "S"."""
    import numpy
    dtype = numpy.dtype(dtype)
    if dtype.hasobject:
        raise TypeError(f"elements of dtype {dtype} are Python objects, not data")
    if dtype.itemsize == 0:
        raise ValueError(f"dtype {dtype.str!r} has elements of 0 bytes: pass a size, as in "
                         f"'{dtype.char}8'")
    return dtype


def to_fitting_dtype(dtype, size, advice="pass a part of view() to numpy.frombuffer()"):
    """Returns a NumPy dtype. Raises ValueError if size bytes are not a whole number of elements."""
    dtype = to_sized_dtype(dtype)
    if size % dtype.itemsize != 0:
        raise ValueError(f"{size} bytes are not a multiple of the {dtype.itemsize} bytes of an "
                         f"element of {dtype}: {advice}")
    return dtype


def array_over_bytes(data, dtype, shape, order):
    """Returns a NumPy array over bytes-like data. An error keeps no reference to the data, which
    would keep memory mapped or page-locked: callers have the data in no variable."""
    import numpy
    try:
        dtype = to_fitting_dtype(dtype, memoryview(data).nbytes)
        data = numpy.frombuffer(data, dtype)
        is_whole = isinstance(shape, int) and shape == -1       # also with a dtype with dimensions
        return data.reshape(data.shape if is_whole else shape, order=order)
    finally:
        del data


def _check_contiguous(array, writable, name=None):
    if not array.flags.forc:
        advice = "pass numpy.ascontiguousarray (array), or Gpu.Array.from_numpy()"
        if writable:
            advice = "read into a contiguous array, or use Gpu.Array.read_into()"
        if name is not None:
            advice = "pass a contiguous array"
        raise ValueError(f"{name or 'an array'} of shape {tuple(array.shape)} and strides "
                         f"{tuple(array.strides)} is not contiguous, in C or in Fortran order: "
                         f"{advice}")


def refuse_array(memory, dtype=None, copy=None):
    """The method __array__() of memory that numpy.asarray() cannot access in place. Without this
    method, NumPy returns an array of Python objects, or reports a sequence."""
    raise TypeError(f"a Gpu.{type(memory).__name__} is not an array of NumPy: to_numpy() returns a "
                    "copy of its contents")


def refuse_svm(memory, dtype=None, copy=None):
    """The method __array__() of Gpu.Svm, which the host may only access while it is mapped, unless
    it is fine-grained."""
    raise TypeError("a Gpu.Svm is not an array of NumPy: to_numpy() returns an array over "
                    "fine-grained memory, and map().to_numpy() over any other")


def is_array_like(data):
    if isinstance(data, (Gpu.Buffer, Gpu.Image, Gpu.Svm)):      # whose __array__() raises an error
        return False
    return hasattr(data, "__array_interface__") or hasattr(data, "__array__")


def _to_bytes(array, writable, name=None):
    """Returns a view of the bytes of a NumPy array, in the order of the memory."""
    check_array(array)
    _check_contiguous(array, writable, name)
    if writable and not array.flags.writeable:
        raise ValueError("the target array is read-only")
    return array.ravel(order="K").view("uint8")


def _to_exportable(data, writable, name):
    """Returns an array over the bytes of an object that does not export its memory itself: a NumPy
    array of datetime64, or an array of another library, which is not a target."""
    numpy = loaded_numpy()
    if numpy is not None and isinstance(data, numpy.ndarray):
        return _to_bytes(data, writable, name)
    if isinstance(data, memoryview) and not data.contiguous:
        raise ValueError(f"a memoryview of shape {data.shape} and strides {data.strides} is not "
                         "contiguous: pass its tobytes(), which are in C order")
    if writable or not is_array_like(data):
        return None
    if isinstance(data, Gpu.Array):             # NumPy's copy would have other strides
        _check_contiguous(data, False)
    import numpy
    return _to_bytes(numpy.asarray(data), False)


def _explain_export(error, data, writable, name):
    """Returns an exception that names the function and the argument, by default target or data."""
    name, caller = name or ("target" if writable else "data"), find_caller()
    where = f"{caller}: {name}" if caller else name
    what = f"'{type(data).__name__}'"
    if isinstance(error, TypeError):
        return TypeError(f"{where} must be a bytes-like object, not {what}")
    if writable and isinstance(error, BufferError):
        return BufferError(f"{where} must be writable, and the {what} is not: {error}")
    return error


class Exported:
    """The memory of a bytes-like object, whose address is fixed until release() or the end of a
    with statement. The bytes are in the order of the memory: arrays in Fortran order are not
    transposed, and arrays with gaps raise ValueError."""
    __slots__ = ("kept", "address", "size", "_buffer")

    def __init__(self, data, writable=False, name=None):
        numpy = loaded_numpy()
        if numpy is not None and isinstance(data, numpy.ndarray):
            check_array(data)
        self._buffer = _PyBuffer()
        flags = _ANY_CONTIGUOUS | (_WRITABLE if writable else 0)
        try:
            _get_buffer(data, self._buffer, flags)
        except (BufferError, TypeError, ValueError) as error:
            exportable = _to_exportable(data, writable, name)
            if exportable is None:
                raise _explain_export(error, data, writable, name) from None
            data = exportable
            _get_buffer(data, self._buffer, flags)
        self.kept = [data]                      # contiguous; empty once released
        self.address = self._buffer.buf or 0
        self.size = self._buffer.len

    data = property(lambda self: self.kept[0])

    def release(self, *args):
        """Releases the memory. A second call has no effect."""
        _release_buffer(self._buffer)
        self.kept.clear()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.release()


def export_in_place(data, writable, advice):
    """Returns the exported memory of a bytes-like object that the library uses without a copy. The
    advice is for objects whose memory is read-only."""
    try:
        exported = Exported(data, writable)
    except (BufferError, TypeError, ValueError):
        if writable:
            exported = Exported(data)           # raises an error with better advice
            if exported.size == 0:              # which the caller refuses
                return exported
            exported.release()
            raise ValueError(f"the memory of a '{type(data).__name__}' is read-only: {advice}") \
                from None
        raise
    numpy = loaded_numpy()
    if exported.data is not data and (numpy is None or not isinstance(data, numpy.ndarray)):
        exported.release()
        raise TypeError(f"a '{type(data).__name__}' has no memory that can be used without a copy")
    return exported


# Without the C module: an item for each GLib.Bytes of hold() whose memory is not released. Its
# methods need no lock.
_exports = []


class _Unused(threading.local):
    """Objects whose memory is released by Python on the helper thread. A thread of its own or,
    without the C module, the end of a wait drops their last references. The helper thread does not,
    because a destructor may take a lock of a thread that waits for the helper thread."""
    items = []                                  # of all threads
    is_dropping = False

    def drop(self, *data):
        """Does nothing in a destructor: the outer call also drops the items of inner calls."""
        if self.is_dropping:
            return
        self.is_dropping = True
        try:
            while self.items:
                # One at a time, because destructors give up the GIL. Unlike pop(), del does not
                # give it up before the destructor.
                with contextlib.suppress(IndexError):   # if another thread has dropped the last
                    del self.items[-1]
        finally:
            self.is_dropping = False


_unused = _Unused()


def drop_elsewhere(kept):
    """Takes the object out of a list, for a callback on the helper thread. Another thread drops the
    reference."""
    with contextlib.suppress(IndexError):       # if another thread has taken the object
        _unused.items.append(kept.pop())        # without a reference in a variable
    _drop_later(_unused.drop)


def hold(exported):
    """Returns a GLib.Bytes over exported memory. Freeing the bytes releases the memory on a Python
    thread, since threads of drivers must not wait for the interpreter: at the end of a wait, or on
    the helper thread."""
    if fast is not None:
        return fast.hold_exported(exported, ctypes.addressof(exported._buffer))

    def release(*data):
        _release_buffer(exported._buffer)
        try:
            drop_elsewhere(exported.kept)
        finally:                                # also if the thread cannot start
            _exports.pop()

    _exports.append(None)
    return Gpu.bytes_new_for_address(exported.address, exported.size, _get_await_context(), release)


def _finish_releases():
    if _exports:
        load_symbols()._gpu_binding_wait_for_releases()
        _await_thread.finish()
    _unused.drop()


# Releases the memory of Python objects that was used by work whose completion is known. Called
# after each wait.
release_completed = _finish_releases if fast is None else fast.release_completed


class _Held:
    """The with statement of held(), without the C module or for a GLib.Bytes, which is constant."""

    def __init__(self, data, writable):
        constant = isinstance(data, Bytes) and not writable
        self._exported = None if constant else Exported(data, writable)
        self.bytes = data if self._exported is None else hold(self._exported)
        self.size = self.bytes.get_size()

    def __enter__(self):
        return self

    def __exit__(self, kind, *exception):
        if kind is None and self._exported is not None:
            self._exported.release()
        self.bytes = None


def held(data, writable=False):
    """Returns bytes and size of bytes-like data for a with statement that waits for its work. The
    data are released at the end of the statement. If an exception ends the wait, they are released
    once the library has freed the bytes."""
    return (fast and fast.hold(data, writable)) or _Held(data, writable)


def _is_immutable(data):
    if type(data) is memoryview:
        data = data.obj
    return type(data) is bytes


def _copy(exported):
    """Returns a bytes-like copy. NumPy allocates with large pages, which is twice as fast."""
    numpy = loaded_numpy()
    if numpy is None:
        return ctypes.string_at(exported.address, exported.size)
    copy = numpy.empty(exported.size, numpy.uint8)
    ctypes.memmove(copy.ctypes.data, exported.address, exported.size)
    return copy


# An attribute of GLib takes half a microsecond.
Bytes = GLib.Bytes


def to_glib_bytes(data, copy=True):
    """Returns a GLib.Bytes with the data. With copy, the caller may change the data at once.
    Without copy, the caller must not change the data before the bytes have been freed."""
    if isinstance(data, Bytes):
        return data
    copied = fast and fast.copy_bytes(data)
    if copied:
        return copied
    exported = Exported(data)
    if exported.size >= HELD_SIZE:
        if copy and not _is_immutable(data):
            with exported:
                exported = Exported(_copy(exported))
        return hold(exported)
    with exported:
        return Bytes.new(ctypes.string_at(exported.address, exported.size))


def to_pattern(pattern):
    """Returns the bytes of a fill pattern. An int is one byte."""
    if isinstance(pattern, bytes):
        return pattern
    if isinstance(pattern, int):
        if not 0 <= pattern <= 255:
            raise OverflowError(f"an int as a pattern is one byte, 0 to 255, not {pattern}: pass a "
                                "number of NumPy, such as numpy.uint32 (x), or bytes")
        return pattern.to_bytes(1, "little")
    if type(pattern) is float:                  # not numpy.float64, a subclass with a size
        raise TypeError(f"the pattern {pattern} is a float, which has no definite size: pass "
                        f"numpy.float32 ({pattern}) or numpy.float64 ({pattern})")
    with Exported(pattern) as exported:
        return ctypes.string_at(exported.address, exported.size)


# --- waits that Ctrl-C interrupts ----------------------------------------------------------------

# Microseconds of one wait. Signal handlers run between two waits.
_SLICE = 100000

# Seconds. A longer wait has no limit.
_MAX_TIMEOUT = 1e9


def takes_signals():
    """Returns whether this is the main thread, the only one in which Python runs signal handlers.
    Other threads may block in the driver."""
    return threading.current_thread() is threading.main_thread()


def call_waiting(function, *args):
    """Calls a function that waits, and then releases the data of the completed work."""
    try:
        return function(*args)
    finally:
        release_completed()


def _wait_in_slices(function, event, timeout, cancellable):
    """Calls a function that waits for at most timeout microseconds; -1 is no limit, and other
    negative values are errors of the function. Returns its result, or the status of an event that
    has completed before the last slice."""
    whole = timeout = to_index(timeout, "timeout_usec")
    if takes_signals():
        while timeout == -1 or timeout > _SLICE:
            status = Gpu.Event.poll(event, _SLICE, cancellable)
            if status != Gpu.EventStatus.PENDING:
                return status
            timeout -= _SLICE if timeout >= 0 else 0
    try:
        return function(event, timeout, cancellable)
    except TimedOutError as error:              # names the limit of the last slice
        _replace(error, f"within {timeout} micro", f"within {whole} micro")
        raise


def _replace(error, old, new):
    """Replaces a part of the message of an error."""
    text = error.message.replace(old, new)
    error.message, error.args = text, (text,)


def poll(event, timeout, cancellable=None):
    """Waits for at most timeout microseconds, -1 is no limit, and returns the status."""
    return call_waiting(_wait_in_slices, Gpu.Event.poll, event, timeout, cancellable)


def wait_timeout(event, timeout, cancellable=None):
    """Waits for at most timeout microseconds; -1 is no limit."""
    call_waiting(_wait_in_slices, Gpu.Event.wait_timeout, event, timeout, cancellable)
    return True                                 # or the call has raised an error


def _to_microseconds(timeout):
    """Converts seconds; -1 is a time without end. Negative seconds are a deadline that has passed,
    as in the module threading."""
    if not isinstance(timeout, numbers.Real) or isinstance(timeout, bool):
        raise TypeError(f"timeout must be a number of seconds or None, not {describe(timeout)}")
    if math.isnan(timeout):
        raise ValueError("timeout must be a number of seconds or None, not nan")
    return math.ceil(max(float(timeout), 0) * 1e6) if timeout < _MAX_TIMEOUT else -1


def check_cancellable(cancellable):
    """Raises TypeError for another type, with advice for a number of seconds."""
    if cancellable is not None and not isinstance(cancellable, Gio.Cancellable):
        is_number = isinstance(cancellable, numbers.Real) and not isinstance(cancellable, bool)
        advice = f": a limit in seconds is timeout={cancellable!r}" if is_number else ""
        raise TypeError("cancellable must be of type Gio.Cancellable, not "
                        f"{describe(cancellable)}{advice}")


def wait(event, cancellable=None, timeout=None, owner="event"):
    """Waits for at most timeout seconds; None is no limit. Error messages call the work that of the
    owner."""
    if timeout is not None:
        limit = _to_microseconds(timeout)
        try:
            return wait_timeout(event, limit, cancellable)
        except TimedOutError as error:
            _replace(error, "work of the event", f"work of the {owner}")
            _replace(error, f"within {limit} microseconds", f"within {timeout} seconds")
            raise
    if not takes_signals():
        return call_waiting(Gpu.Event.wait, event, cancellable)
    return poll(event, -1, cancellable) == Gpu.EventStatus.COMPLETE


def wait_all(events, cancellable, timeout):
    """Waits for events, for at most timeout seconds in total; None is no limit. Then raises the
    error of the first event that has failed or is pending."""
    first = left = None
    if timeout is not None:
        limit = _to_microseconds(timeout)
        end = math.inf if limit < 0 else time.monotonic() + limit / 1e6
    for event in events:
        if timeout is not None:
            left = end - time.monotonic()
        try:
            wait(event, cancellable, left)
        except GLib.Error as error:
            if isinstance(error, TimedOutError):
                _replace(error, f"within {left} seconds", f"within {timeout} seconds")
            first = first or error
    if first is not None:
        raise first
    return True


def _is_idle(memory):
    """Returns whether a wait for the work that uses a memory would not block."""
    if fast is not None:
        return fast.is_idle(memory)
    return load_symbols()._gpu_binding_is_idle(get_pointer(memory.__gpointer__, None))


@contextlib.contextmanager
def _cancelled_with(cancellable):
    """Yields a cancellable that is cancelled with another one, which may be None."""
    ending = Gio.Cancellable()
    if cancellable is None:
        yield ending
        return
    # Not the methods of Gio.Cancellable: disconnect() would wait for a running handler
    handler = GObject.Object.connect(cancellable, "cancelled", lambda source: ending.cancel())
    try:
        if cancellable.is_cancelled():          # before the handler was connected
            ending.cancel()
        yield ending
    finally:
        GObject.Object.disconnect(cancellable, handler)


def wait_for_memory(memory, cancellable, timeout):
    """Waits for the work that uses a memory, for at most timeout seconds; None is no limit. The C
    function has no limit, so another thread waits, until this function cancels its wait."""
    if timeout is None:
        return run_behind(lambda: Gpu.Memory.wait(memory, cancellable), memory)
    limit = _to_microseconds(timeout)
    if not _is_idle(memory):
        try:
            with _cancelled_with(cancellable) as ending:
                return call_waiting(run_interruptible, lambda: Gpu.Memory.wait(memory, ending),
                                    ending.cancel, limit / 1e6)
        except _Expired:
            if not _is_idle(memory):
                raise TimedOutError(f"{find_caller() or 'Memory.wait'}: the work that uses "
                                    f"{memory!r} has not completed within {timeout} seconds") \
                    from None
    return call_waiting(Gpu.Memory.wait, memory, cancellable)


def refuse_captured(stream):
    """Raises an error for a stream that is being captured, before a call submits work with memory
    that it frees: each launch of the graph would use that memory."""
    context = stream.get_context()
    if context is None or context.get_device().get_backend() != "cuda":
        return
    try:
        stream.is_idle()
    except NotSupportedError as error:
        _, _, reason = error.message.partition(": ")
        error.message = f"{find_caller() or 'Stream.launch'}: {reason}"
        error.args = (error.message,)
        raise
    except GLib.Error:
        pass                                    # of earlier work: waits for that work get it


def _take_outcome(outcome):
    """Returns the result in a list of a result and an error, or raises the error."""
    result, error = outcome.pop()
    if error is None:
        return result
    try:
        raise error
    finally:
        del error                               # otherwise it is in a cycle with its traceback


_SubmitFunc = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def _call_for_host(stream, function):
    """Calls a function that submits work to a stream, without the C module. Returns its result. The
    library refuses work that would make the stream join a capture, because the caller waits for
    this work."""
    outcome = []

    def call(*data):
        try:
            outcome.append((function(), None))
        except BaseException as error:
            outcome.append((None, error))
        return 0                                # so that the library returns no event

    address, event = get_pointer(stream.__gpointer__, None), ctypes.c_void_p()
    load_symbols()._gpu_binding_submit(ctypes.c_void_p(address), _SubmitFunc(call), None,
                                       ctypes.byref(event), None)
    if not outcome:
        refuse_captured(stream)                 # it may have joined a capture in the meantime
        return function()                       # otherwise raises the error of the stream
    return _take_outcome(outcome)


def submit(stream, function):
    """Calls a function that submits work to a stream. Returns the result of the function, and an
    event, or None if the work has completed. The event fails if any of this work fails, even if
    another thread gets the error first. Without the C module, another thread may hide a failure."""
    if fast is not None:
        return fast.submit(stream, function)
    refuse_captured(stream)
    return _call_for_host(stream, function), stream.record()


def submit_and_wait(stream, function):
    """submit() that waits for the work. Returns the result of the function."""
    if fast is not None:
        return fast.submit_and_wait(stream, function)
    result, event = submit(stream, function)
    wait(event)
    return result


def submit_on(on, given, function):
    """Calls a function that submits work to the stream on, and waits for this work unless the
    program has given a stream."""
    return submit_and_wait(on, function) if given is None else function()


async def submit_and_await(stream, function):
    """submit_and_wait() for asyncio."""
    import asyncio
    result, event = submit(stream, function)
    await (asyncio.sleep(0) if event is None else event)
    return result


# The queues of threads that wait for their next function. A new thread for each wait takes 0.1 ms.
_idle = []
os.register_at_fork(after_in_child=_idle.clear)


def _run_tasks(tasks):
    while True:
        tasks.get()()


def _start_thread():
    tasks = queue.SimpleQueue()
    threading.Thread(target=_run_tasks, args=(tasks,), name="gpumem-wait", daemon=True).start()
    return tasks


class _Expired(Exception):
    """The end of the time of run_interruptible()."""


def run_interruptible(function, cancel=None, timeout=None):
    """Runs a function in another thread and waits for its end, because Ctrl-C can only interrupt
    the wait, not the function. If there is a function cancel, Ctrl-C calls it and waits again. All
    exceptions of signal handlers have this effect, and so has the end of the timeout in seconds,
    which raises _Expired. A negative timeout is no limit."""
    # The end of the interpreter has ended the threads
    if timeout is None and not takes_signals() or sys.is_finalizing():
        return function()
    outcome = []
    report = outcome.append
    caller = find_caller()
    done = threading.Lock()
    done.acquire()
    try:
        tasks = _idle.pop()
    except IndexError:
        tasks = _start_thread()

    def run():
        nonlocal function, caller, report
        try:
            report((run_for(caller, function), None))
        except BaseException as error:
            report((None, error))
        # The thread must not keep them alive, nor an error the outcome that contains it
        function = caller = report = None
        _idle.append(tasks)
        done.release()

    try:
        tasks.put(run)
        if not done.acquire(timeout=-1 if timeout is None or timeout < 0 else timeout):
            raise _Expired
    except BaseException:
        if cancel is not None:
            cancel()
            if not outcome:                     # otherwise this thread may have acquired the lock
                done.acquire()
        raise
    return _take_outcome(outcome)


def _may_block(*uses):
    """Returns whether a wait for the work of uses must be interruptible: a memory, and optionally a
    stream, where None is the default stream. Without pending work, no other thread is needed, which
    takes longer than most functions."""
    return takes_signals() and not (fast is not None and fast.is_idle(*uses))


def run_behind(function, *uses, cancel=None):
    """Runs a function that waits for the work of uses. Ctrl-C interrupts the wait."""
    if _may_block(*uses):
        return call_waiting(run_interruptible, function, cancel)
    return call_waiting(function)


def run_copy(function, size):
    """Runs a function that copies size bytes. Ctrl-C interrupts the wait for a long copy, which
    then continues."""
    if size >= LONG_SIZE:
        return call_waiting(run_interruptible, function)
    return call_waiting(function)


def _get_copied_size(memory, value):
    """Returns the number of bytes of a copy, by the argument that determines it: a size, bytes, or
    the extent of a region of an image."""
    if isinstance(value, Bytes):
        return value.get_size()
    if isinstance(memory, Gpu.Image):
        value = memory.get_extent() if value is None else value
        return memory._get_size_of(value) if isinstance(value, Gpu.Extent) else 0
    return value if type(value) is int else 0


def _interruptible(owner, place, function):
    """Decorates a method of C that copies, and that waits for the work of a memory and of its first
    argument, a stream. The place is the index and the name of the argument that determines the
    number of bytes, or None for an array."""
    def copies_much(self, memory, args, kwargs):
        if memory.get_size() < LONG_SIZE:
            return False
        if place is None:
            return self.get_size() >= LONG_SIZE
        index, name = place
        value = args[index] if len(args) > index else kwargs.get(name)
        return _get_copied_size(memory, value) >= LONG_SIZE

    def method(self, *args, **kwargs):
        memory = self.get_memory() if isinstance(self, Gpu.Array) else self
        uses = () if owner == "HostMemory" else (args[0] if args else kwargs.get("stream"),)
        # The method itself refuses None, and an array without memory.
        if memory is not None and (_may_block(memory, *uses)
                                   or copies_much(self, memory, args, kwargs)):
            return run_interruptible(lambda: function(self, *args, **kwargs))
        return function(self, *args, **kwargs)
    return functools.wraps(function)(method)


# After Ctrl-C, the C function continues in the other thread, which holds the arguments. So it only
# writes to bytes that it returns or holds, and not to memory that Python has freed.
DECORATORS.update({
    (owner, name): functools.partial(_interruptible, owner, place) for owner, name, place in (
        ("Array", "read_bytes", None), ("Array", "read_strided", None),
        ("Array", "write_bytes", None), ("Array", "write_strided", None),
        ("Buffer", "read_bytes", (2, "size")), ("Buffer", "write_bytes", (2, "bytes")),
        ("HostMemory", "read_bytes", (1, "size")), ("HostMemory", "write_bytes", (1, "bytes")),
        ("Image", "read_bytes", (2, "extent")), ("Image", "write_bytes", (3, "bytes")))})


# --- await ---------------------------------------------------------------------------------------

class LoopThread:
    """A thread that runs a main context of its own. It starts at the first use of the context."""

    def __init__(self, name):
        self._name = name
        self._forget()
        # A forked child has none of the other threads.
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self):
        self._lock = threading.Lock()
        self._context = self._identifier = None

    def _run(self, context):
        self._identifier = threading.get_ident()
        context.push_thread_default()
        while True:
            context.iteration(True)

    def get_context(self):
        """Returns the main context."""
        with self._lock:
            if self._context is None:
                context = GLib.MainContext.new()
                threading.Thread(target=self._run, args=(context,), name=self._name,
                                 daemon=True).start()
                self._context = context         # not after a failed start
            return self._context

    def finish(self):
        """Waits until the thread has called the functions that it has been given, unless this is
        the thread."""
        if self._identifier == threading.get_ident() or sys.is_finalizing():
            return
        done = threading.Lock()
        done.acquire()
        self.run_later(lambda *data: done.release())
        done.acquire()

    def run_later(self, function):
        """Lets the thread call function (user_data). The thread calls such functions and those that
        release memory in their order. The function returns GLib.SOURCE_REMOVE or None."""
        source = GLib.idle_source_new()
        source.set_priority(GLib.PRIORITY_DEFAULT)      # which the class GLib.Idle would ignore
        source.set_callback(function)
        source.attach(self.get_context())


# The helper thread, so that asyncio programs need no GLib main loop
_await_thread = LoopThread("gpumem-await")
_get_await_context, run_later = _await_thread.get_context, _await_thread.run_later

_drop_later = LoopThread("gpumem-drop").run_later

# A submission may block while a stream has too much pending work. Waits for events and the release
# of data need the other thread.
_submit_thread = LoopThread("gpumem-submit")

# An item for each function of that thread that has not ended. Its methods need no lock.
_submissions = []
os.register_at_fork(after_in_child=_submissions.clear)


def submit_later(function):
    """Lets the thread for submissions call function (user_data), once."""
    def run(*data):
        try:
            function(*data)
        finally:
            _submissions.pop()

    _submissions.append(None)
    _submit_thread.run_later(run)


def run_behind_submissions(function):
    """Lets the thread that waits call function (user_data), after the submissions that the other
    thread has been given."""
    if _submissions:
        submit_later(lambda *data: run_later(function))
    else:
        run_later(function)


class _Operation:
    """A call of an asynchronous C function that a coroutine awaits. A helper thread runs start(),
    done() and report(). The loop runs the other methods, which keep no exception in a cycle: its
    traceback refers to memory and files of the program."""

    def __init__(self, loop, begin, finish, progress, caller, awaits_end):
        self._loop, self._pending, self._finish = loop, [begin], finish
        self._progress, self._caller, self._awaits_end = progress, caller, awaits_end
        self._failure = None                    # of progress()
        self.cancellable = Gio.Cancellable()
        self.future = loop.create_future()

    def start(self, *data):
        begin = self._take()
        if begin is None:
            return GLib.SOURCE_REMOVE
        failure = None
        try:
            begin(self.cancellable, self.done,
                  *([self.report] if self._progress is not None else []))
        except Exception as error:
            failure = error.with_traceback(None)
        del begin                               # it keeps data of the program
        if failure is not None:
            self._call_later(self._settle, None, failure)
        return GLib.SOURCE_REMOVE

    def _take(self):
        """Returns the function that begins the operation, to the first caller only."""
        try:
            return self._pending.pop()          # atomic
        except IndexError:
            return None

    def cancel(self):
        """Returns whether the operation has begun. Otherwise it never will."""
        self.cancellable.cancel()
        return self._take() is None

    def done(self, source, result):
        try:
            value = run_for(self._caller, functools.partial(self._finish, result))
            self._call_later(self._settle, value, None)
        except Exception as error:
            self._call_later(self._settle, None,
                             name_call(error.with_traceback(None), self._caller))

    def report(self, current, total):
        self._call_later(self._show, current, total)

    def _call_later(self, function, *args):
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            pass                                # the loop is closed and has no waiters

    def _settle(self, value, error):
        failure = error if self._failure is None else self._failure
        self._failure = None
        if self.future.done():
            return
        if failure is not None:
            self.future.set_exception(failure)
        else:
            self.future.set_result(value)

    def _show(self, current, total):
        import asyncio
        try:
            if self._failure is None and not self.future.done():
                self._progress(current, total)
        except (Exception, asyncio.CancelledError) as error:
            self.cancellable.cancel()
            self._failure = error
            if isinstance(error, StopIteration):        # which a future refuses
                self._failure = RuntimeError(f"progress() raised {error!r}")
                self._failure.__cause__ = error
            if not self._awaits_end:
                self._settle(None, None)
        finally:
            del self                            # the traceback refers to this frame


async def _wait_until_end(future):
    """Waits until an operation has ended, also if the await is cancelled again."""
    import asyncio
    while not future.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([future])
    # Otherwise asyncio reports that the exception was never retrieved
    future.exception()


async def wait_for(begin, finish, progress=None, caller=None, awaits_end=False,
                   run=submit_later):
    """Calls begin (cancellable, callback) and awaits finish (result). With a function progress,
    calls begin (cancellable, callback, report), and progress (current, total) in the loop. An
    exception of progress() cancels the operation, and reaches the caller. Errors of failed work
    name the function caller, by default the coroutine that the program awaits. With awaits_end,
    which needs an operation that its cancellable ends soon, the operation has ended when the await
    ends, also if the await is cancelled or progress() fails. run() gives begin() to a thread, by
    default the one that begins operations one after the other."""
    import asyncio
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be a function (current, total), not {progress!r}")
    operation = _Operation(asyncio.get_running_loop(), begin, finish, progress,
                           caller or find_caller(), awaits_end)
    del begin                                   # an exception keeps this frame
    run(operation.start)
    try:
        if awaits_end:
            await asyncio.wait([operation.future])      # which a cancellation does not cancel
        return await operation.future
    except asyncio.CancelledError:
        if operation.cancel() and awaits_end:
            await _wait_until_end(operation.future)
        raise
    finally:
        del operation                           # its future keeps the exception
        release_completed()

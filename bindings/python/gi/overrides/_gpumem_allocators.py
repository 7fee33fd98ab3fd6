# SPDX-License-Identifier: LGPL-2.1-or-later
"""Allocators, which are callable in Python, and adaptors, which have with statements."""

import contextlib
import contextvars
import functools
import os
import reprlib
import sys

from gi.repository import Gio, GLib

from ..module import get_introspection_module
from ._gpumem_callbacks import guarded, keep, keep_cause, run
from ._gpumem_checks import describe, to_index, to_property, to_size, to_text
from ._gpumem_errors import Error, OutOfHostMemoryError
from ._gpumem_names import is_of_overrides
from ._gpumem_protocols import to_address

Gpu = get_introspection_module("Gpu")


def _escape(text):
    """Escapes surrogates and null characters, which the message of a GError cannot have."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _to_error(name, exception):
    """Returns the GError of an allocator for an exception. The call that allocates raises an
    interrupt unchanged, and its error has any other exception as its __cause__."""
    try:
        text = str(exception)
    except Exception as error:
        text = f"its text failed: {type(error).__name__}"
    text = _escape(f"{name}: {type(exception).__name__}: {text}")
    error = (OutOfHostMemoryError if isinstance(exception, MemoryError) else Error)(text)
    if isinstance(exception, Exception):
        keep_cause(error.message, exception)
    else:
        keep(exception)
    return error


def _failing(function, name):
    """Decorates a function that the library calls and that can return an error."""
    @functools.wraps(function)
    def failing(*args):
        try:
            return function(*args)
        except GLib.Error as error:
            text = _escape(error.message)
            raised = error if text == error.message else GLib.Error(text, error.domain, error.code)
            keep_cause(text, error.__cause__)
            raise raised from error.__cause__
        except BaseException as exception:
            raise _to_error(getattr(args[0], "_name", name), exception) from exception
    return failing


def _check_memory_info(result):
    """Returns the result of C and its out arguments: PyGObject converts the items of a tuple
    without checking their number and their range."""
    values = result
    if isinstance(result, (tuple, list)) and len(result) == 3 and result[0] is True:
        values = result[1:]
    if not isinstance(values, (tuple, list)) or len(values) != 2:
        raise TypeError("it must return a pair, the free and the total bytes, not "
                        f"{describe(result)}")
    return (True, *(to_size(value, f"the number of {name} bytes", GLib.MAXUINT64)
                    for value, name in zip(values, ("free", "total"))))


def _check_memory(result, size, stream):
    """PyGObject would print an error for a wrong type, and take the first item of a tuple."""
    if result is None or isinstance(result, Gpu.Memory):
        return result                           # C code checks the memory
    raise TypeError(f"it returned {describe(result)}, not Gpu.Memory of {size} bytes")


def _check_context(result):
    if result is None or isinstance(result, Gpu.Context):
        return result
    raise TypeError(f"do_get_context() must return a Gpu.Context, not {describe(result)}")


# The methods of an allocator that the library calls: the guard, and the check of the result
_METHODS = {"do_alloc": (_failing, _check_memory),
            "do_get_memory_info": (_failing, _check_memory_info),
            "do_free": (lambda function, name: guarded(function), lambda result, memory: None),
            "do_get_context": (lambda function, name: guarded(function), _check_context),
            "do_trim": (lambda function, name: guarded(function), lambda result, held_bytes: None)}


class _Method:
    """A method of an allocator that the library calls. PyGObject calls this object. In Python code,
    such as super().do_alloc(), the attribute is the function of the program."""

    def __init__(self, function, name):
        guard, check = _METHODS[name]
        self._function = function
        self._call = guard(lambda *args: check(function(*args), *args[1:]), name)

    def __get__(self, instance, owner=None):
        function = self._function
        return function.__get__(instance, owner) if hasattr(function, "__get__") else function

    def __call__(self, *args):
        return self._call(*args)


def _implement(cls):
    """Lets the class have a table of virtual functions of its own, a copy of that of its parent.
    Otherwise PyGObject changes the table that the class shares with its parent."""
    kind = Gpu.Allocator.__gtype__
    if all(getattr(base, "__gtype__", None) != kind for base in cls.__bases__):
        cls.__bases__ += (Gpu.Allocator,)


class AllocatorMethods:
    """A source of memory: allocator(size) returns memory, or None for a size of 0.

    To implement an allocator in Python, derive from GObject.Object and Gpu.Allocator, and define
    do_get_context() and do_alloc(size, stream). If do_alloc() raises an exception, the call that
    allocates raises Gpu.Error with that exception as its __cause__, or Gpu.OutOfHostMemoryError for
    a MemoryError, which pools and adaptors handle as they handle any lack of memory.
    KeyboardInterrupt and SystemExit reach the caller unchanged, and so does an exception of
    do_get_context(), do_trim() or do_free(), which cannot fail otherwise. do_get_memory_info()
    returns a pair, the free and the total bytes; the default is the memory of the context.

    A class that derives from Gpu.AllocatorAdaptor changes the requests to another allocator."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        names = {name for name in _METHODS.keys() & vars(cls).keys() if callable(vars(cls)[name])}
        for name in names:
            setattr(cls, name, _Method(vars(cls)[name], name))
        if names:
            _implement(cls)

    def alloc(self, size, stream=None):
        """Returns memory of at least size bytes for use on the stream, or None for a size of 0.
        Raises Gpu.OutOfMemoryError, which is a MemoryError. Dropping the last reference frees the
        memory."""
        return Gpu.Allocator.alloc(self, size, stream)

    __call__ = alloc

    def get_memory_info(self):
        """Gets the free and the total bytes, as a tuple."""
        return tuple(Gpu.Allocator.get_memory_info(self))[1:]

    def trim(self, held_bytes=0):
        """Frees cached memory until at most held_bytes remain cached."""
        Gpu.Allocator.trim(self, held_bytes)


@functools.lru_cache(maxsize=None)
def _get_forwarding(name):
    """Returns a method of the base class of adaptors. PyGObject has no methods for the virtual
    functions of interfaces."""
    info = next(info for info in Gpu.Allocator.__info__.get_vfuncs() if info.get_name() == name)
    # Not the class of the object, whose method calls this one
    return info.__get__(None, Gpu.AllocatorAdaptor)


def _forward(name, adaptor, *args):
    """Calls a method of the base class of adaptors. C code would not check the object."""
    if not isinstance(adaptor, Gpu.AllocatorAdaptor):
        raise TypeError(f"AllocatorAdaptor.do_{name}: self must be a Gpu.AllocatorAdaptor, not "
                        f"{describe(adaptor)}")
    return run(_get_forwarding(name), adaptor, *args)


class AllocatorAdaptorMethods:
    """The base class of allocators that wrap another allocator.

    To change some requests in Python, derive from this class, define do_alloc() or other methods of
    Gpu.Allocator, and create an object with upstream=allocator. The adaptor forwards what the class
    does not define, and super().do_alloc(size, stream) forwards a request. The other allocator is
    self.props.upstream."""

    def do_alloc(self, size, stream):
        """Forwards a request to the upstream allocator, for super().do_alloc() in a subclass."""
        return _forward("alloc", self, to_size(size, "size"), stream)

    def do_free(self, memory):
        """Frees memory with the upstream allocator, for super().do_free() in a subclass."""
        if memory is None:                      # which PyGObject would pass on as NULL
            raise TypeError("AllocatorAdaptor.do_free: memory must be a Gpu.Memory, not None")
        _forward("free", self, memory)

    def do_get_context(self):
        """Gets the context of the upstream allocator, for super().do_get_context() in a
        subclass."""
        return _forward("get_context", self)

    def do_get_memory_info(self):
        """Gets the free and the total bytes of the upstream allocator, as a tuple, for
        super().do_get_memory_info() in a subclass."""
        return tuple(_forward("get_memory_info", self))[1:]

    def do_trim(self, held_bytes):
        """Frees cached memory of the upstream allocator, for super().do_trim() in a subclass."""
        _forward("trim", self, to_size(held_bytes, "held_bytes"))


class SvmAllocatorMethods:
    """Gpu.SvmAllocator(context): an allocator of shared virtual memory. With a stream, memory is
    freed after all work submitted to that stream before the free."""

    def __new__(cls, context, svm_flags=Gpu.SvmFlags.NONE, flags=Gpu.MemoryFlags.NONE, alignment=0,
                stream=None):
        return Gpu.SvmAllocator.new(context, flags, svm_flags, alignment, stream)

    def __init__(self, *args, **kwargs):
        pass


def _to_handle(value):
    """Checks the handle that a function of the program returns. PyGObject would print an error for
    a wrong type, and truncate a fraction."""
    handle = to_address(value)
    if handle:
        return handle
    raise (TypeError if handle is None else ValueError)(
        f"alloc() must return a handle from 1 to {(1 << 64) - 1}, or raise an exception, not "
        f"return {reprlib.repr(value)}")


class ExternalAllocatorMethods:
    """Gpu.ExternalAllocator(context, alloc, free): an allocator over functions of another library.
    alloc(size, stream) returns a native handle, a whole number that is not 0, or raises an
    exception, which the call that allocates reports; stream is a Gpu.Stream or None. free(handle,
    size) frees it, on any thread."""

    def __new__(cls, context, alloc, free):
        for name, function in ("alloc", alloc), ("free", free):
            if not callable(function):
                raise TypeError(f"{name} must be callable, not {function!r}")
        # PyGObject requires a tuple as the user data of every function except the last
        return Gpu.ExternalAllocator.new(
            context, _failing(lambda size, stream, *data: _to_handle(alloc(size, stream)), "alloc"),
            (), guarded(lambda handle, size, *data: free(handle, size)))

    def __init__(self, *args, **kwargs):
        pass


@contextlib.contextmanager
def _ending(end):
    """Calls end() at the end of a with statement. An exception of the statement has precedence over
    an error of end()."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(GLib.Error):
            end()
        raise
    end()


class StatisticsAllocatorMethods:
    """Gpu.StatisticsAllocator(upstream): an allocator with the counters current_bytes, peak_bytes,
    total_bytes, current_count and so on. They are attributes, and entries of the dictionary
    counters, whose keys have hyphens, such as "current-bytes"."""

    def __new__(cls, upstream):
        return Gpu.StatisticsAllocator.new(upstream)

    def __init__(self, *args, **kwargs):
        pass

    @property
    def counters(self):
        return self.get_counters().unpack()

    def __getattr__(self, name):
        if name.endswith(("_bytes", "_count")) and not name.startswith("_"):
            try:
                return self.counters[name.replace("_", "-")]
            except KeyError:
                pass
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def pop(self):
        """Returns the counters since the last push() of this thread."""
        return Gpu.StatisticsAllocator.pop(self).unpack()

    @contextlib.contextmanager
    def counting(self):
        """Counts the allocations of all threads during a with statement. The statement gets a
        dictionary, which receives the counters at the end of the statement. Statements of several
        threads may overlap; those of one thread must be nested, and must end in that thread."""
        counters = {}
        self.push()
        with _ending(lambda: counters.update(self.pop())):
            yield counters


class _Statement:
    """A with statement of tagged(). Other contexts, such as those of tasks that began in the
    statement, may still have the object after the end, when the allocator is None."""
    __slots__ = ("allocator", "tag")

    def __init__(self, allocator, tag):
        self.allocator, self.tag = allocator, tag


# The statements of this thread or asyncio task
_statements = contextvars.ContextVar("gpumem_statements", default=())


def _list_statements():
    return [statement for statement in _statements.get() if statement.allocator is not None]


def _get_local_tag(allocator):
    return next((statement.tag for statement in reversed(_statements.get())
                 if statement.allocator is allocator), None)


def _find_tag(allocator, size, n_lines):
    """Returns the tag of tagged(), or else the lines that allocate if the allocator has no tag."""
    tag = _get_local_tag(allocator)
    if tag is not None or n_lines == 0 or allocator.props.tag is not None:
        return tag
    return _find_lines(n_lines)


def _find_lines(n_lines):
    """Returns the innermost lines outside of PyGObject and the overrides."""
    # sys._getframe(1) fails if this is the only frame of Python, on threads that C code started.
    frame = sys._getframe().f_back
    lines = []
    while frame is not None and len(lines) < n_lines:
        path = frame.f_code.co_filename
        if not is_of_overrides(path):
            lines.append(f"{path}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(lines) or None


class TrackingAllocatorMethods:
    """Gpu.TrackingAllocator(upstream): an allocator that records allocations in use. The attribute
    blocks is a list of dictionaries, and report() returns a text. During a with statement of
    allocator.tagged("name"), new allocations have that tag.

    With lines=1, the tag of any other allocation is the line of the Python program that allocates,
    as "file:line"; with lines=3, also the lines of its two callers, separated by " < ". The
    attribute usage and report_usage() then have the bytes of each line, now and at the peak. To
    track all arrays of a context, set context.allocator = Gpu.TrackingAllocator(pool, lines=1)."""

    def __new__(cls, upstream, backtrace_depth=0, lines=0):
        lines = to_index(lines, "lines")
        if lines < 0:
            raise ValueError(f"lines must not be negative: {lines}")
        allocator = Gpu.TrackingAllocator.new(upstream, backtrace_depth)
        # The first handler, so that tagged() has precedence over the handlers of the program
        allocator._connect_tags(lines)
        return allocator

    def __init__(self, *args, **kwargs):
        pass

    @classmethod
    def new(cls, upstream, backtrace_depth):
        """Creates an allocator that records allocations in use. Gpu.TrackingAllocator(upstream) has
        a default for the depth."""
        return cls(upstream, backtrace_depth)

    @property
    def blocks(self):
        """The allocations in use: a list of dictionaries, for example with size, and with tag if
        the allocation has one."""
        return self.list_blocks().unpack()

    @property
    def peak_bytes(self):
        return self.get_property("peak-bytes")

    @property
    def usage(self):
        """The memory of each tag, the largest first: a list of dictionaries with the tag, or None,
        bytes and count of the memory in use, and peak-bytes and peak-count of the memory that was
        in use when all memory reached peak_bytes."""
        entries = [dict({"tag": None}, **entry) for entry in self.get_property("usage").unpack()]
        return sorted(entries, key=lambda entry: (-entry["bytes"], -entry["peak-bytes"],
                                                  entry["tag"] or ""))

    def report_usage(self, limit=10, peak=False):
        """Formats the usage as text: a line with the sums, and a line for each of the tags with
        the most memory in use, or with the most at the peak."""
        kind = "peak-" if peak else ""
        entries = sorted((entry for entry in self.usage if entry[kind + "count"] > 0),
                         key=lambda entry: -entry[kind + "bytes"])
        total, count = (sum(entry[kind + name] for entry in entries) for name in ("bytes", "count"))
        lines = [f"{total} bytes in {count} allocations" + " at the peak" * peak
                 + f" (peak {self.peak_bytes} bytes)" * (not peak)]
        for entry in entries[:limit]:
            lines.append(f"{entry['tag'] or 'without a tag'}: {entry[kind + 'bytes']} bytes in "
                         f"{entry[kind + 'count']}")
        if len(entries) > limit:
            lines.append(f"{len(entries) - limit} other tags: "
                         f"{sum(entry[kind + 'bytes'] for entry in entries[limit:])} bytes")
        return "\n".join(lines) + "\n"

    @property
    def tag(self):
        """The tag of allocations of this thread: that of tagged(), or else that of all threads,
        which can be set."""
        tag = _get_local_tag(self)
        return self.props.tag if tag is None else tag

    @tag.setter
    def tag(self, tag):
        self.set_property("tag", tag)

    def _connect_tags(self, n_lines):
        self.connect("find-tag", _find_tag, n_lines)
        self._finds_tags = True

    @contextlib.contextmanager
    def tagged(self, tag):
        """Names the purpose of the allocations of a with statement in report(). Tasks that begin in
        the statement, and asyncio.to_thread(), inherit the tag until the statement ends; other
        threads do not. The tag has precedence over handlers of find-tag; None is no tag."""
        if not isinstance(tag, (str, type(None))):
            raise TypeError(f"tag must be a str or None, not {tag!r}")
        if tag is not None:
            to_text(tag, "tag").encode()        # a handler could not report a wrong text
        if not hasattr(self, "_finds_tags"):    # an allocator that C code created
            self._connect_tags(0)
        statement = _Statement(self, tag)
        _statements.set((*_list_statements(), statement))
        try:
            yield self
        finally:
            # This may be another context: another task or thread may close a generator.
            statement.allocator = None
            _statements.set(tuple(_list_statements()))


class LoggingAllocatorMethods:
    """Gpu.LoggingAllocator(upstream, output): an allocator that logs allocations and frees as a
    table, to a path or a Gio.OutputStream. A with statement flushes the log at its end."""

    def __new__(cls, upstream, output):
        if isinstance(output, Gio.OutputStream):
            return Gpu.LoggingAllocator.new(upstream, output)
        return Gpu.LoggingAllocator.new_for_path(upstream, os.fspath(output))

    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.flush()


class DeferredFreeAllocatorMethods:
    """Gpu.DeferredFreeAllocator(upstream): an allocator that frees memory later, once more than
    max_count allocations or max_bytes are pending, or when an allocation fails. During a with
    statement of allocator.deferring(), the allocator frees nothing."""

    def __new__(cls, upstream, max_count=None, max_bytes=None):
        allocator = Gpu.DeferredFreeAllocator.new(upstream)
        for name, value in ("max_count", max_count), ("max_bytes", max_bytes):
            if value is not None:
                spec = allocator.find_property(name.replace("_", "-"))
                allocator.set_property(spec.name, to_property(name, value, spec))
        return allocator

    def __init__(self, *args, **kwargs):
        pass

    pending_count = property(lambda self: self.get_property("pending-count"))
    pending_bytes = property(lambda self: self.get_property("pending-bytes"))

    @contextlib.contextmanager
    def deferring(self):
        """Keeps freed memory until the end of a with statement, and then frees it."""
        self.hold()
        with _ending(self.unhold):
            yield self

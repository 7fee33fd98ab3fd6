# SPDX-License-Identifier: LGPL-2.1-or-later
"""Allocators, which are callables in Python, and adaptors, whose stretches are with statements."""

import contextlib
import functools
import os

from gi.repository import Gio, GLib

from ..module import get_introspection_module
from ._gpumem_checks import to_property

Gpu = get_introspection_module("Gpu")


def _to_error(exception):
    """What gpu_allocator_alloc() fails with when a do_alloc() of Python raises."""
    code = Gpu.Error.OUT_OF_HOST_MEMORY if isinstance(exception, MemoryError) else Gpu.Error.FAILED
    text = f"do_alloc: {type(exception).__name__}: {exception}"
    return GLib.Error.new_literal(Gpu.error_quark(), text, code)


def _guarded(do_alloc):
    @functools.wraps(do_alloc)
    def guarded(self, size, stream):
        try:
            return do_alloc(self, size, stream)
        except GLib.Error:
            raise
        except Exception as exception:
            raise _to_error(exception) from exception
    return guarded


class AllocatorMethods:
    """Whatever memory comes from: allocator(size) is memory, and None for a size of 0.

    A class of Python derives from GObject.Object and Gpu.Allocator, and has do_get_context() and
    do_alloc(size, stream); what that raises comes out of alloc() as a GLib.Error."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "do_alloc" in vars(cls):
            cls.do_alloc = _guarded(vars(cls)["do_alloc"])

    def alloc(self, size, stream=None):
        return Gpu.Allocator.alloc(self, size, stream)

    __call__ = alloc

    def get_memory_info(self):
        """Free and total bytes."""
        return tuple(Gpu.Allocator.get_memory_info(self))[1:]

    def trim(self, held_bytes=0):
        """Gives what is held beyond that back to the driver."""
        Gpu.Allocator.trim(self, held_bytes)


class SvmAllocatorMethods:
    """Gpu.SvmAllocator(context): shared virtual memory. With a stream memory is freed after all
    that was submitted to it before."""

    def __new__(cls, context, svm_flags=Gpu.SvmFlags.NONE, flags=Gpu.MemoryFlags.NONE, alignment=0,
                stream=None):
        return Gpu.SvmAllocator.new(context, flags, svm_flags, alignment, stream)

    def __init__(self, *args, **kwargs):
        pass


class ExternalAllocatorMethods:
    """Gpu.ExternalAllocator(context, alloc, free): memory of others. alloc(size, stream) returns a
    handle of the driver, and free(handle, size) takes it back, on any thread."""

    def __new__(cls, context, alloc, free):
        def guarded(size, stream, *data):
            try:
                return alloc(size, stream)
            except GLib.Error:
                raise
            except Exception as exception:
                raise _to_error(exception) from exception
        # PyGObject wants what comes with all but the last function as a tuple
        return Gpu.ExternalAllocator.new(context, guarded, (),
                                         lambda handle, size, *data: free(handle, size))

    def __init__(self, *args, **kwargs):
        pass


class StatisticsAllocatorMethods:
    """Gpu.StatisticsAllocator(upstream) counts: current_bytes, peak_bytes, total_bytes, and
    current_count and so on, which are keys of the dictionary counters as well."""

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
        """The counters since the last push()."""
        return Gpu.StatisticsAllocator.pop(self).unpack()

    @contextlib.contextmanager
    def counting(self):
        """Counts for a with statement, which gets a dictionary that has the counters at the end."""
        counters = {}
        self.push()
        try:
            yield counters
        finally:
            counters.update(self.pop())


class TrackingAllocatorMethods:
    """Gpu.TrackingAllocator(upstream) knows what is in use: blocks, a list of dictionaries, and
    report(), a text. with allocator.tagged("name") names what memory is for."""

    def __new__(cls, upstream, backtrace_depth=0):
        return Gpu.TrackingAllocator.new(upstream, backtrace_depth)

    def __init__(self, *args, **kwargs):
        pass

    @property
    def blocks(self):
        return self.list_blocks().unpack()

    @property
    def tag(self):
        return self.props.tag

    @tag.setter
    def tag(self, tag):
        self.set_property("tag", tag)

    @contextlib.contextmanager
    def tagged(self, tag):
        before = self.tag
        self.tag = tag
        try:
            yield self
        finally:
            self.tag = before


class LoggingAllocatorMethods:
    """Gpu.LoggingAllocator(upstream, output) writes a table of what happens, to a path or a
    Gio.OutputStream. As the context of a with statement it flushes at the end."""

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
    """Gpu.DeferredFreeAllocator(upstream) frees memory later: when there is more of it than
    max_count or max_bytes, or no memory. with allocator.deferring() it only gathers."""

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
        self.hold()
        try:
            yield self
        finally:
            self.unhold()

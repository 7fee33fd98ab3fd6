# SPDX-License-Identifier: LGPL-2.1-or-later
"""Allocators for a stretch of a program: what is allocated without being told from where."""

import contextlib
import contextvars

from ..module import get_introspection_module

Gpu = get_introspection_module("Gpu")

_scopes = contextvars.ContextVar("gpumem-allocators", default=())


def _begin(allocator):
    _scopes.set((*_scopes.get(), allocator))


def _end(allocator):
    """Ends the last scope of an allocator. Returns whether it was the innermost."""
    scopes = _scopes.get()
    for place in reversed(range(len(scopes))):
        if scopes[place] is allocator:
            _scopes.set(scopes[:place] + scopes[place + 1:])
            return place == len(scopes) - 1
    return False


def _end_properly(allocator):
    if not _end(allocator):
        raise RuntimeError("with statements of pools and allocators end in the thread or task that "
                           "began them, the innermost first")


@contextlib.contextmanager
def using_allocator(allocator):
    """In a with statement: new arrays of its context, and Gpu.In, Gpu.Out and Gpu.InOut, take their
    memory from an allocator, unless they name another. Of several the innermost counts. It holds
    for this thread, or this task of asyncio, and those that the task starts; Gpu.Buffer(context,
    size) is still of the driver's memory."""
    if not isinstance(allocator, Gpu.Allocator):
        raise TypeError(f"an allocator is required, not '{type(allocator).__name__}'")
    _begin(allocator)
    try:
        yield allocator
    except BaseException:
        _end(allocator)
        raise
    _end_properly(allocator)


def get_current_allocator(context):
    """The allocator of the innermost with statement that is for a context, or None: see
    Gpu.using_allocator()."""
    for allocator in reversed(_scopes.get()):
        if allocator.get_context() is context:
            return allocator
    return None


def allocate(stream, size):
    """Memory for work on a stream."""
    context = stream.get_context()
    allocator = get_current_allocator(context)
    if allocator is None:
        return Gpu.Buffer.new(context, Gpu.MemoryFlags.NONE, size)
    return Gpu.Allocator.alloc(allocator, size, stream)


class ScopeMethods:
    """Makes pools with statements."""

    def __enter__(self):
        _begin(self)
        return self

    def __exit__(self, kind=None, value=None, traceback=None):
        # Another error is not hidden by one about the order.
        if kind is None:
            _end_properly(self)
        else:
            _end(self)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Allocators for a part of a program: with statements that set the default allocator."""

import contextlib
import contextvars

from ..module import get_introspection_module

Gpu = get_introspection_module("Gpu")

_scopes = contextvars.ContextVar("gpumem-allocators", default=())


def _begin(allocator):
    _scopes.set((*_scopes.get(), allocator))


def _end(allocator):
    """Ends the innermost scope of an allocator. Returns whether it was the innermost of all
    scopes."""
    scopes = _scopes.get()
    for place in reversed(range(len(scopes))):
        if scopes[place] is allocator:
            _scopes.set(scopes[:place] + scopes[place + 1:])
            return place == len(scopes) - 1
    return False


def _end_properly(allocator):
    if not _end(allocator):
        raise RuntimeError("with statements of pools and allocators must end in the thread or task "
                           "that began them, the innermost first")


@contextlib.contextmanager
def using_allocator(allocator):
    """Sets the default allocator for a with statement. New arrays of the context of the allocator,
    and Gpu.In, Gpu.Out and Gpu.InOut, allocate from it unless they name another allocator. The
    innermost with statement applies. It covers this thread, or this asyncio task and the tasks that
    it starts. Gpu.Buffer(context, size) still allocates from the driver."""
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
    """Returns the allocator of the innermost with statement for a context, or None: see
    Gpu.using_allocator()."""
    for allocator in reversed(_scopes.get()):
        if allocator.get_context() is context:
            return allocator
    return None


def allocate(stream, size):
    """Allocates memory for work on a stream."""
    context = stream.get_context()
    allocator = get_current_allocator(context)
    if allocator is None:
        return Gpu.Buffer.new(context, Gpu.MemoryFlags.NONE, size)
    return Gpu.Allocator.alloc(allocator, size, stream)


class ScopeMethods:
    """The with statement of pools, which sets the default allocator."""

    def __enter__(self):
        _begin(self)
        return self

    def __exit__(self, kind=None, value=None, traceback=None):
        # If an exception ended the block, do not replace it by an error about the order of with
        # statements.
        if kind is None:
            _end_properly(self)
        else:
            _end(self)

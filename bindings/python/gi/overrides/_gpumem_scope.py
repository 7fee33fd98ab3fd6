# SPDX-License-Identifier: LGPL-2.1-or-later
"""Default allocators: those of contexts and of with statements."""

import contextlib
import contextvars

from ..module import get_introspection_module

Gpu = get_introspection_module("Gpu")


def to_allocator(context, value):
    """Returns an allocator for a Gpu.Allocator, a function or None."""
    if value is None or isinstance(value, Gpu.Allocator):
        return value
    from gi.repository import Gpu as overrides
    return overrides.FunctionAllocator(context, value)


# The allocators of with statements, the innermost last
scopes = contextvars.ContextVar("gpumem-allocators", default=())


def _begin(allocator):
    scopes.set((*scopes.get(), allocator))


def _end(allocator):
    """Ends the innermost scope of an allocator. Returns whether it was the innermost of all
    scopes."""
    allocators = scopes.get()
    for place in reversed(range(len(allocators))):
        if allocators[place] is allocator:
            scopes.set(allocators[:place] + allocators[place + 1:])
            return place == len(allocators) - 1
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
    it starts. Gpu.Buffer(context, size) still allocates from the driver.

    context.using_allocator() also accepts a function, and context.allocator covers all threads."""
    if not isinstance(allocator, Gpu.Allocator):
        advice = ": use context.using_allocator()" if callable(allocator) else ""
        raise TypeError(f"an allocator is required, not '{type(allocator).__name__}'{advice}")
    _begin(allocator)
    try:
        yield allocator
    except BaseException:
        _end(allocator)
        raise
    _end_properly(allocator)


def get_current_allocator(context):
    """Returns the allocator of the innermost with statement for a context, or else
    context.allocator, which may be None: see Gpu.using_allocator()."""
    for allocator in reversed(scopes.get()):
        if allocator.get_context() is context:
            return allocator
    return context.get_property("allocator") if context is not None else None


def allocate(stream, size):
    """Allocates memory for work on a stream."""
    context = stream.get_context()
    allocator = get_current_allocator(context)
    if allocator is None:
        return Gpu.Buffer.new(context, Gpu.MemoryFlags.NONE, size)
    return Gpu.Allocator.alloc(allocator, size, stream)


class ContextAllocation:
    """The allocator of a context."""

    @property
    def allocator(self):
        """The allocator of all new arrays of the context, and of Gpu.In, Gpu.Out and Gpu.InOut, in
        all threads: a pool, another Gpu.Allocator or a function, which is called with the size and
        returns memory. None, the default, allocates from the driver. An allocator that a call or a
        with statement names takes precedence. Gpu.Buffer(context, size) is not affected.

        The allocator and the context keep each other alive until this is None again."""
        return self.get_property("allocator")

    @allocator.setter
    def allocator(self, allocator):
        self.set_property("allocator", self._to_allocator(allocator))

    @contextlib.contextmanager
    def using_allocator(self, allocator):
        """Sets the default allocator of this thread or task for a with statement, like
        Gpu.using_allocator(): a Gpu.Allocator of the context, or a function, which is called with
        the size and returns memory."""
        if allocator is None:
            raise TypeError("an allocator is required, not None")
        with using_allocator(self._to_allocator(allocator)) as result:
            yield result

    def _to_allocator(self, allocator):
        allocator = to_allocator(self, allocator)
        context = self if allocator is None else allocator.get_context()
        if context is None:
            raise ValueError(f"{allocator!r} has no context: define do_get_context() in its class")
        if context is not self:
            raise ValueError(f"{allocator!r} belongs to another context: {context!r}")
        return allocator


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

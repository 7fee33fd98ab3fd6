# SPDX-License-Identifier: LGPL-2.1-or-later
"""Coroutines for asyncio: each has the name and arguments of a blocking method, with the suffix
_async. A call with a callback, as in C, still calls the C function."""

import functools
import inspect

from gi.repository import GLib, GObject

from ..module import get_introspection_module
from ._gpumem import run_behind_submissions, submit_and_await, wait_for
from ._gpumem_arrays import to_range
from ._gpumem_checks import checked, to_size
from ._gpumem_values import to_headers, to_names, to_options

Gpu = get_introspection_module("Gpu")


def _or_callback(class_name, name, adapt=None):
    """Decorates a coroutine: if an argument of a call is a callback, the call goes to the C
    function instead, or to the function that adapt() makes of the C function."""
    def decorate(function):
        @functools.wraps(function)
        def method(*args, **kwargs):
            if "callback" in kwargs or any(map(inspect.isroutine, args[1:])) \
                    or any(isinstance(arg, functools.partial) for arg in args[1:]):
                call = getattr(getattr(Gpu, class_name), name)
                return (call if adapt is None else adapt(call, name))(*args, **kwargs)
            return function(*args, **kwargs)
        return method
    return decorate


def _with_options(function):
    """Decorates a function of (context, source, options) that also accepts options as a list."""
    @functools.wraps(function)
    def method(context, source, options=None, *args, **kwargs):
        return function(context, source, to_options(context, options), *args, **kwargs)
    return method


class AsyncContext:
    """Coroutines of Gpu.Context."""

    @staticmethod
    async def new_async(device, flags=Gpu.ContextFlags.NONE):
        """Creates a context for a Gpu.Device on another thread, for asyncio."""
        if device is not None:                  # which the library refuses
            checked(device, Gpu.Device, "device")
        context = GObject.new(Gpu.Context, device=device, flags=flags)
        await wait_for(
            lambda cancellable, callback: context.init_async(GLib.PRIORITY_DEFAULT, cancellable,
                                                             callback),
            context.init_finish)
        return context


class AsyncMemory:
    """Coroutines of Gpu.Memory."""

    @_or_callback("Memory", "wait_async")
    async def wait_async(self) -> bool:
        """wait() for asyncio."""
        return await wait_for(
            lambda cancellable, callback: Gpu.Memory.wait_async(self, cancellable, callback),
            self.wait_finish, run=run_behind_submissions)


class AsyncEvent:
    """Coroutines of Gpu.Event."""

    @_or_callback("Event", "wait_async")
    async def wait_async(self) -> bool:
        """wait() for asyncio, the same as await event."""
        return await self


class AsyncBuffer:
    """Coroutines of Gpu.Buffer."""

    async def fill_async(self, pattern, offset=0, size=None, stream=None):
        """fill() for asyncio."""
        stream = self._get_stream(stream)
        await submit_and_await(stream, lambda: stream.fill(self, pattern, offset, size))
        return True

    @_or_callback("Buffer", "copy_async")
    async def copy_async(self, source, *, offset=0, source_offset=0, size=None, stream=None):
        """copy() for asyncio."""
        offset, source_offset = to_size(offset, "offset"), to_size(source_offset, "source_offset")
        stream = self._get_stream(stream)
        if isinstance(source, Gpu.Buffer) and source.get_context() is not self.get_context():
            # Not every stream can copy between contexts. If this stream cannot, the C function
            # copies on another thread.
            source, source_offset, size = to_range(source, source_offset, size)
            return await wait_for(
                lambda cancellable, callback: Gpu.Buffer.copy_async(
                    self, stream, offset, source, source_offset, size, cancellable, callback),
                self.copy_finish)
        await submit_and_await(
            stream, lambda: stream.copy(self, source, size, offset, source_offset))
        return True

    @_or_callback("Buffer", "map_async")
    async def map_async(self, flags=Gpu.MapFlags.NONE, offset=0, size=None, stream=None):
        """map() for asyncio."""
        stream = self._get_stream(stream)
        return await submit_and_await(stream, lambda: stream.map(self, flags, offset, size))


class AsyncImage:
    """Coroutines of Gpu.Image."""

    async def fill_async(self, color, origin=None, extent=None, stream=None):
        """fill() for asyncio."""
        stream = self._get_stream(stream)
        await submit_and_await(stream, lambda: stream.fill_image(self, color, origin, extent))
        return True

    async def copy_async(self, source, origin=None, source_origin=None, extent=None, stream=None):
        """copy() for asyncio."""
        stream = self._get_stream(stream)
        await submit_and_await(
            stream, lambda: self._submit_copy(source, origin, source_origin, extent, stream))
        return True

    @_or_callback("Image", "map_async")
    async def map_async(self, flags=Gpu.MapFlags.NONE, origin=None, extent=None, stream=None):
        """map() for asyncio."""
        stream = self._get_stream(stream)
        return await submit_and_await(
            stream, lambda: stream.map_image(self, flags, origin, extent))


class AsyncSvm:
    """Coroutines of Gpu.Svm."""

    @_or_callback("Svm", "map_async")
    async def map_async(self, flags=Gpu.MapFlags.NONE, offset=0, size=None, stream=None):
        """map() for asyncio."""
        _, offset, size = to_range(self, offset, size)
        return await wait_for(
            lambda cancellable, callback: Gpu.Svm.map_async(self, stream, flags, offset, size,
                                                            cancellable, callback),
            self.map_finish)


class AsyncHostMemory:
    """Coroutines of Gpu.HostMemory."""

    @_or_callback("HostMemory", "synchronize_async")
    async def synchronize_async(self, flags=Gpu.MapFlags.NONE):
        """synchronize() for asyncio."""
        return await wait_for(
            lambda cancellable, callback: Gpu.HostMemory.synchronize_async(self, flags, cancellable,
                                                                           callback),
            self.synchronize_finish)


class AsyncProgram:
    """Coroutines of Gpu.Program."""

    @staticmethod
    @_with_options
    @_or_callback("Program", "new_from_source_async")
    async def new_from_source_async(context, source, options=None, flags=Gpu.ProgramFlags.NONE,
                                    names=None, headers=None):
        """new_from_source() on another thread, for asyncio."""
        if flags != Gpu.ProgramFlags.NONE or names is not None or headers is not None:
            import asyncio
            return await asyncio.to_thread(
                Gpu.Program.new_from_source_full, context, source, options, flags,
                to_names(names), to_headers(headers))
        return await wait_for(
            lambda cancellable, callback: Gpu.Program.new_from_source_async(
                context, source, options, cancellable, callback),
            Gpu.Program.new_from_source_finish)


class AsyncStream:
    """Coroutines and asynchronous with statements of Gpu.Stream."""

    @_or_callback("Stream", "synchronize_async")
    async def synchronize_async(self) -> bool:
        """synchronize() for asyncio, the same as await stream."""
        return await self

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, exception, traceback):
        """Waits for the stream. An error of the device does not replace the exception that ended
        the block."""
        try:
            await self
        except Exception:
            if kind is None:
                raise

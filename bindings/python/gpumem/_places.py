# SPDX-License-Identifier: LGPL-2.1-or-later
"""Places of elements for libraries that move data: the memory itself where the library can access
it, or a packed copy, in page-locked memory that is reused."""

import contextlib

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import Gpu  # noqa: E402  first: it loads the library
from gi.overrides._gpumem_checks import checked, get_stream  # noqa: E402
from gi.overrides._gpumem_protocols import find_stream_handle  # noqa: E402

# Elements for which other libraries have a type; the others are bytes
_TYPED = frozenset("b1 i1 i2 i4 i8 u1 u2 u4 u8 f4 f8 c8 c16".split())

_allocators: list = []                  # of page-locked memory, one for each context


def _alloc_host(context, size):
    allocator = next((one for one in _allocators if one.context is context), None)
    if allocator is None:
        allocator = Gpu.HostAllocator(context)
        _allocators.append(allocator)
    return allocator.alloc(size)


def trim():
    """Frees the page-locked memory that is kept for reuse, and drops its contexts."""
    _allocators.clear()


def _to_stream(stream, memory):
    """Returns the stream for memory. Without memory, only checks the type."""
    if memory is not None:
        return get_stream(stream, memory.context)
    if not isinstance(stream, (Gpu.Stream, type(None))) \
            and find_stream_handle(stream, "stream") is None:
        checked(stream, Gpu.Stream, "stream")
    return None


def _to_bytes(array):
    return array.reshape(-1).view("uint8")


class Place:
    """The elements of an array, in C order. has_cuda returns whether the other library can access
    CUDA memory."""

    def __init__(self, caller, memory, stream, has_cuda, receives=False):
        if not isinstance(memory, (Gpu.Array, Gpu.Memory, type(None))):
            raise TypeError(f"{caller}: memory must be a Gpu.Array, Gpu.Memory or None, not "
                            f"{type(memory).__name__!r}")
        self.stream = _to_stream(stream, memory)
        name = f"an array of shape {getattr(memory, 'shape', None)}"
        if isinstance(memory, Gpu.Memory):
            name = f"memory of {memory.size} bytes"
            memory = Gpu.Array.for_memory(memory, memory.size, "uint8")
        self.array = self.copy = memory
        self.size, self.is_direct = 0 if memory is None else memory.nbytes, False
        if self.size == 0:
            return
        if receives and (not memory.is_writable() or memory.shares_bytes):
            reason = "its elements share memory" if memory.shares_bytes else "it is read-only"
            raise ValueError(f"{caller}: {name} cannot be written, because {reason}")
        on_host = memory.get_host_address() != 0
        if not on_host and memory.context.device.backend == "cuda":
            self.is_direct = has_cuda()
        if not memory.is_contiguous(Gpu.ArrayOrder.C) or not (on_host or self.is_direct):
            self.copy = self._make_copy()

    def _make_copy(self):
        context, shape, dtype = self.array.context, self.array.shape, self.array.get_dtype()
        if self.is_direct:
            return Gpu.Array.empty(context, shape, dtype, stream=self.stream)
        return Gpu.Array.for_memory(_alloc_host(context, self.size), shape, dtype)

    def load(self, as_bytes=True):
        """Copies the elements to the place if it is a copy, and returns get_data(as_bytes)."""
        if self.copy is not self.array:
            self.copy.write(self.array, self.stream)
        return self.get_data(as_bytes)

    def get_data(self, as_bytes=True):
        """Waits for the earlier work on the memory of the place. Returns an array of NumPy, or a
        Gpu.Array in CUDA memory: of bytes if as_bytes is true and other libraries lack the type."""
        import numpy
        if self.size == 0:
            return numpy.empty(0, numpy.uint8)
        is_typed = not as_bytes or self.copy.get_dtype().str[1:] in _TYPED
        data = self.copy if is_typed else _to_bytes(self.copy)
        if not self.is_direct:
            return numpy.asarray(data)
        self.stream.wait_array(data)
        self.stream.record().wait()
        return data

    def store(self, n_bytes):
        """Submits the copy of the first bytes of the place to the array. Later work on the array is
        ordered after the copy. The stream keeps the memory."""
        copy = self.copy
        if copy is self.array or n_bytes == 0:
            return
        if 0 < n_bytes < self.size:     # the other elements stay
            copy = self._make_copy()
            copy.write(self.array, self.stream)
            _to_bytes(copy)[:n_bytes].write(_to_bytes(self.copy)[:n_bytes], self.stream)
        self.array.write(copy, self.stream)

    def current(self):
        """A with statement for calls that access CUDA memory, which may need a current context."""
        return self.array.context.current() if self.is_direct else contextlib.nullcontext()

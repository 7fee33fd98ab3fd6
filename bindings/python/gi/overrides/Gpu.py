# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Python API of libgpumem: memory of GPUs, and streams, programs and kernels that use it.

A Gpu.Context is for a device, Gpu.Buffer(context, data) copies data to the device, and
context.default_stream.launch() runs a kernel of a Gpu.Program. help(Gpu.Buffer) describes a class.

Bytes-like objects (bytes, bytearray, memoryview, array.array, NumPy arrays, ctypes objects) are
copied to and from the device at the speed of memcpy: the library gets the address of their memory
and never converts single elements. Bytes keep the order that they have in memory, so an array in
Fortran order is not transposed. An array with gaps, such as array[::2], raises ValueError:
numpy.ascontiguousarray (array) is a copy in C order. Only methods of Gpu.Array, and
Gpu.Image.from_array(), transfer elements by their index, regardless of their order in memory.

Sizes, offsets and counts are integers: anything that operator.index() accepts, except booleans. A
float raises TypeError, as in NumPy.

stream=None selects the default stream of the context.

Ctrl-C interrupts functions that wait for pending work, and copies of 256 MiB and more by read(),
read_into(), write(), read_bytes() and write_bytes() of buffers and images, and by contiguous
arrays. The work still completes. Until then, a read may still write to its target, and a write may
still read its data: do not change or use them. Other copies that have no pending work to wait for,
Buffer.spill(), Buffer.unspill(), calls of pools that wait until work no longer uses their memory
and, on CUDA, reads of less than 256 MiB into pageable memory are not interrupted: Ctrl-C takes
effect at their end. The same holds for functions of Gio that use a
Gpu.InputStream or a Gpu.OutputStream, for example Gio.DataInputStream.read_line(). Methods of the
two classes themselves can be interrupted.
"""

import collections
import contextlib
import ctypes
import functools
import operator
import reprlib
import sys
import warnings
import weakref

from gi.repository import GLib, GObject

from ..module import get_introspection_module
from ..overrides import override
from . import _gpumem_native as _native  # first: it loads the library
from . import _gpumem_dlpack
from ._gpumem import (HELD_SIZE, Bytes, Exported, _get_await_context, array_over_bytes,
                      bytes_address, call_waiting, check_cancellable, export_in_place, held, hold,
                      is_int, loaded_numpy, new_bytes, poll, refuse_array, refuse_svm,
                      run_behind_submissions, run_copy, run_interruptible, run_later,
                      submit_and_await, submit_and_wait, takes_signals, to_glib_bytes, to_pattern,
                      to_fitting_dtype, to_sized_dtype, wait, wait_all, wait_for, wait_for_memory,
                      wait_timeout)
from ._gpumem_allocators import (AllocatorAdaptorMethods, AllocatorMethods,
                                 DeferredFreeAllocatorMethods, ExternalAllocatorMethods,
                                 LoggingAllocatorMethods, StatisticsAllocatorMethods,
                                 SvmAllocatorMethods, TrackingAllocatorMethods)
from ._gpumem_arrays import (check_destination, is_empty, is_over_memory, lacks_region, memory_of,
                             to_memory, to_range)
from ._gpumem_async import (AsyncBuffer, AsyncContext, AsyncEvent, AsyncHostMemory, AsyncImage,
                            AsyncMemory, AsyncStream, AsyncSvm)
from ._gpumem_cache import clear_caches, memoize
from ._gpumem_checks import (checked, describe, set_stream_class, to_items, to_size,
                             to_stream)
from ._gpumem_dlpack import DLPackMemoryMethods
from ._gpumem_errors import (BuildFailedError, BusyError, DeviceLostError, Error,
                             InvalidArgumentError, IpcError, LaunchFailedError, NoDeviceError,
                             NotSupportedError, OutOfDeviceMemoryError, OutOfHostMemoryError,
                             OutOfMemoryError, ReleasedError, TimedOutError)
from ._gpumem_file import (ArrayFileMethods, FileMethods, InputStreamMethods, MemoryFileMethods,
                           OutputStreamMethods, StreamFileMethods)
from ._gpumem_help import ConstructorSignature, name_methods
from ._gpumem_host import HostMemoryMethods, new_on_node, pinned
from ._gpumem_image import (ColorMethods, FormatMethods, ImageMethods, SamplerMethods, to_color,
                            view_texels)
from ._gpumem_launch import In, InOut, Out, launch, to_flags
from ._gpumem_names import find_caller, register
from ._gpumem_ndarray import DeviceArrayMethods, DTypeMethods, numbers
from ._gpumem_parameters import (OtherArgument, ScalarArgument, VectorArgument, bind_arguments,
                                 declare_arguments, parse_arguments)
from ._gpumem_pool import MemoryBlockMethods, MemoryPoolMethods, add_attributes
from ._gpumem_program import ProgramMethods
from ._gpumem_repr import install as install_repr
from ._gpumem_rows import ArrayRowMethods, copy_batch
from ._gpumem_scope import (ContextAllocation, ScopeMethods, get_current_allocator, scopes,
                            using_allocator)
from ._gpumem_structs import match_dtype_to_c_struct
from ._gpumem_svm import SvmMethods, array_over
from ._gpumem_values import (Local, to_arguments, to_extent, to_layout, to_list, to_offset,
                             to_options, to_origin, to_region, to_shape)

Gpu = get_introspection_module("Gpu")

__all__ = ["BuildFailedError", "BusyError", "DeviceLostError", "Error", "FunctionAllocator", "In",
           "InOut", "InvalidArgumentError", "IpcError", "LaunchFailedError", "Local",
           "NoDeviceError", "NotSupportedError", "OtherArgument", "Out", "OutOfDeviceMemoryError",
           "OutOfHostMemoryError", "OutOfMemoryError", "ReleasedError", "ScalarArgument",
           "TimedOutError", "VectorArgument", "bind_arguments", "clear_caches", "declare_arguments",
           "devices", "get_current_allocator", "match_dtype_to_c_struct", "memoize", "memory_of",
           "parse_arguments", "pinned", "using_allocator"]


# --- classes -------------------------------------------------------------------------------------

class _Attributes:
    """Driver attributes: object.attributes is a dictionary, and each entry is also an attribute of
    the object, such as object.max_work_group_size. Each class has the property, with its own
    docstring."""

    def __getattr__(self, name):
        if not name.startswith("_"):
            try:
                return self.attributes[name.replace("_", "-")]
            except (GLib.Error, KeyError):
                pass
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


class _WithoutConstructor:
    """A class that takes no positional arguments, such as one whose objects other calls create. The
    message of PyGObject names neither the class nor these calls."""
    _advice: "str"

    def __init__(self, *args, **properties):
        if args:
            raise TypeError(f"{type(self).__name__}() takes no positional arguments: "
                            f"{self._advice}")
        super().__init__(**properties)


def _set_attribute(self, name, value):
    """The method __setattr__() of classes with driver attributes. Each class needs its own, because
    that of GObject precedes those of mixins."""
    if not name.startswith("_") and not hasattr(type(self), name) and hasattr(self, name) \
            and name not in vars(self):
        raise AttributeError(f"the attribute '{name}' of {self!r} is read-only")
    GObject.Object.__setattr__(self, name, value)


def _get(name):
    """A read-only property that calls a getter."""
    return property(lambda self: getattr(self, "get_" + name)())


def _property(name, doc=None):
    """A read-only property of Python that reads the GObject property."""
    name = name.replace("_", "-")
    return property(lambda self: self.get_property(name), doc=doc)


def _advise(owner, **advice):
    """Adds advice to the errors for attributes that only classes of other libraries have. Type
    checkers report these attributes, because the class has no __getattr__() of its own."""
    def get_missing(self, name):
        if name in advice:
            raise AttributeError(f"'{owner.__name__}' object has no attribute '{name}': "
                                 f"use {advice[name]}")
        # The error of Python, or that of a getter without side effects
        return object.__getattribute__(self, name)

    get_missing.__name__ = "__getattr__"
    get_missing.__qualname__ = f"{owner.__name__}.__getattr__"
    owner.__getattr__ = get_missing


class Device(Gpu.Device, _Attributes):
    __setattr__ = _set_attribute
    id = _get("id")
    name = _get("name")
    backend = _get("backend")
    vendor = _property("vendor")
    platform = _property("platform")
    version = _property("version")
    driver_version = _get("driver_version")
    pci_bus_id = _property("pci_bus_id")
    device_type = _get("device_type")
    capabilities = _get("capabilities")
    memory_size = _get("memory_size")
    max_allocation = _get("max_allocation")
    base_alignment = _get("base_alignment")
    attributes = property(lambda self: self.get_attributes().unpack(),
                          doc="All attributes that the driver reports for the device, as a "
                              "dictionary.")
    traits = property(lambda self: self.characterize().unpack(),
                      doc="The result of characterize(), as a dictionary.")

    def __new__(cls, name=None):
        return Gpu.Device.get_default() if name is None else Gpu.Device.find(name)

    def __init__(self, *args, **kwargs):
        pass

    def explain_bank_conflicts(self, item_size, shape):
        """Returns a description of the bank conflicts of an array in local memory, and the highest
        number of passes that one access takes."""
        return tuple(Gpu.Device.explain_bank_conflicts(self, item_size, list(shape)))

    def can_access_peer(self, peer):
        """Returns whether kernels of this device can access memory of another device."""
        return _last(Gpu.Device.can_access_peer(self, peer))

    def __eq__(self, other):
        return self.equal(other) if isinstance(other, Gpu.Device) else NotImplemented

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return self.hash()

    def __copy__(self):
        return self                             # the library has one object for each device

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return type(self), (self.get_id(),)

    def __repr__(self):
        return f"<Gpu.Device {self.get_id()} '{self.get_name()}'>"


Device = override(Device)


def _to_device(value):
    if isinstance(value, str):
        return Gpu.Device.find(value)
    if isinstance(value, Gpu.Device):
        return value
    raise TypeError("a device must be a Gpu.Device or a name for Gpu.Device.find(), not "
                    f"'{type(value).__name__}'")


class Context(AsyncContext, ContextAllocation, Gpu.Context):
    """A context of a device, which has memory and streams. Gpu.Context() is for the default device,
    Gpu.Context("host") for a device by name, and Gpu.Context([device, ...]) for several devices,
    given as names or as Gpu.Device.

    A with statement waits at its end for all work of the context. Contexts with the same native
    handle are equal, for example two contexts that share the primary context of CUDA; memory and
    streams of one context still cannot be used with the other context."""
    device = _get("device")
    native_handle = _get("native_handle")
    devices = property(lambda self: self.list_devices())
    default_stream = _get("default_stream")
    allocated_size = _get("allocated_size")

    flags = _property("flags")
    api_version = _get("api_version")
    priority_range = _get("priority_range")

    def __new__(cls, device=None, flags=Gpu.ContextFlags.NONE):
        if isinstance(device, (list, tuple, set, frozenset)):
            if not device:
                raise InvalidArgumentError(f"a context needs a device, and {device!r} is empty: "
                                           "None selects the default device")
            return Gpu.Context.new_for_devices([_to_device(one) for one in device])
        if device is None:
            device = Gpu.Device.get_default()
        return Gpu.Context.new(_to_device(device), flags)

    @classmethod
    def new(cls, device, flags=Gpu.ContextFlags.NONE):
        """Creates a context for a Gpu.Device."""
        return Gpu.Context.new(device, flags)

    def __init__(self, *args, **kwargs):
        pass

    def __eq__(self, other):
        if not isinstance(other, Gpu.Context):
            return NotImplemented
        handle = self.get_native_handle()
        return self is other or handle != 0 and handle == other.get_native_handle() and (
            self.get_device().get_backend() == other.get_device().get_backend())

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash(self.get_native_handle())

    def __enter__(self):
        return self

    def __exit__(self, kind, exception, traceback):
        _synchronize_at_exit(self.synchronize, kind)

    def set_build_options(self, options):
        """Sets the options that precede those of every program: see Gpu.Program."""
        Gpu.Context.set_build_options(self, to_options(self, options))

    def get_api_version(self) -> int:
        """Gets the version of the API of the context, such as 12020 for CUDA 12.2."""
        return _last(Gpu.Context.get_api_version(self))

    def get_cache_preference(self) -> "CachePreference":
        """Gets the Gpu.CachePreference of the kernels of the context."""
        return _last(Gpu.Context.get_cache_preference(self))

    def get_limit(self, limit) -> int:
        """Gets a limit of the context, such as Gpu.Limit.STACK_SIZE."""
        return _last(Gpu.Context.get_limit(self, limit))

    def get_memory_info(self) -> "tuple[int, int, MemoryInfoSource]":
        """Gets the free and the total bytes, and the Gpu.MemoryInfoSource of these numbers."""
        return tuple(Gpu.Context.get_memory_info(self))[-3:]

    def get_max_image_extent(self, image_type) -> "Extent":
        """Gets the maximum Gpu.Extent of images of a type."""
        return _last(Gpu.Context.get_max_image_extent(self, image_type))

    def get_priority_range(self) -> "tuple[int, int]":
        """Gets the lowest and the highest priority of streams, as a tuple."""
        return tuple(Gpu.Context.get_priority_range(self))[-2:]

    @contextlib.contextmanager
    def current(self):
        """Makes this context the driver's current context during a with statement, for libraries
        that use the current context."""
        self.push_current()
        try:
            yield self
        finally:
            self.pop_current()

    @contextlib.contextmanager
    def profiled(self):
        """Lets a profiler record the work of a with statement. At its end, the statement waits for
        the work of the context."""
        self.start_profiler()
        try:
            yield self
        finally:
            self.synchronize()
            self.stop_profiler()

    def synchronize(self):
        """Waits for all work of the context. This includes work that the program submitted through
        the native handles of its streams and, on CUDA, work of other libraries in the same driver
        context. There is no timeout, because drivers cannot limit this wait: call synchronize() of
        the streams."""
        return call_waiting(run_interruptible, lambda: Gpu.Context.synchronize(self))

    def __repr__(self):
        names = ", ".join(device.get_id() for device in self.list_devices())
        return f"<Gpu.Context on {names or 'no device'}>"


_advise(Context, mem_get_info="get_memory_info()")
Context = override(Context)


def _synchronize_at_exit(synchronize, kind):
    """Waits at the end of a with statement. An error of the device does not replace the exception
    that ended the block."""
    try:
        synchronize()
    except GLib.Error:
        if kind is None:
            raise


class Memory(AsyncMemory, MemoryFileMethods, Gpu.Memory, _Attributes):
    """Memory of a context. Objects over the same memory are equal, released memory only to itself,
    and the hash never changes. A with statement releases the memory at its end."""
    __setattr__ = _set_attribute
    context = _get("context")
    flags = _get("flags")
    size = _get("size")
    nbytes = property(lambda self: self.get_size(), doc="The size in bytes, like size.")
    native_handle = _get("native_handle")
    device_address = _get("device_address")
    released = property(lambda self: self.is_released())
    pool = _property("pool")
    attributes = property(lambda self: self.get_attributes().unpack(),
                          doc="The size, the handles and all attributes that the driver reports "
                              "for the memory or the image, as a dictionary.")

    def wait(self, cancellable=None, timeout=None):
        """Waits for the work that uses the memory, for at most timeout seconds, a float; None is no
        limit. Raises the error of that work, and Gpu.TimedOutError, which is a TimeoutError, at the
        end of that time. Ctrl-C ends the wait, but not the work."""
        check_cancellable(cancellable)
        return wait_for_memory(self, cancellable, timeout)

    def __eq__(self, other):
        return self.equal(other) if isinstance(other, Gpu.Memory) else NotImplemented

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return self.hash()

    def __len__(self):
        return self.get_size()

    def __bool__(self):
        return True

    __iter__ = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.release()

    def __repr__(self):
        if self.is_released():
            return f"<Gpu.{type(self).__name__} released>"
        context = self.get_context()
        device = context.get_device().get_id() if context is not None else "no device"
        return f"<Gpu.{type(self).__name__} of {self.get_size()} bytes on {device}>"


Memory = override(Memory)


def _check_scalar(value):
    """Rejects NumPy scalars, which are bytes-like, in place of a size or data. Records and bytes
    are data."""
    numpy = loaded_numpy()
    if numpy is not None and isinstance(value, numpy.generic) \
            and not isinstance(value, (numpy.void, bytes)):
        raise TypeError(f"a size must be a whole number, not {value!r}: for a buffer that holds "
                        "this value, pass numpy.array ([value])")


def _check_new_buffer(size_or_data, flags):
    """Rejects the arguments of an array for a new buffer."""
    if not isinstance(flags, int):
        raise TypeError(f"flags must be of type Gpu.MemoryFlags, not {flags!r}: for an array of a "
                        "shape and a dtype, create Gpu.Array(context, shape, dtype)")
    if isinstance(size_or_data, (tuple, list)) or size_or_data is None \
            or isinstance(size_or_data, (float, str, complex)):
        raise TypeError("a buffer needs a size in bytes or a bytes-like object, not "
                        f"{reprlib.repr(size_or_data)}: for an array of a shape, create "
                        "Gpu.Array(context, shape, dtype); for numbers, pass numpy.array(numbers, "
                        "dtype)")


def _get_size_of(data):
    """Returns the size of contiguous data, or None for data that need a conversion."""
    try:
        view = memoryview(data)
    except (BufferError, TypeError, ValueError):
        return None
    return view.nbytes if view.c_contiguous and "O" not in view.format else None


# Flags of memory that the host cannot write
_NO_WRITES = int(Gpu.MemoryFlags.HOST_READ_ONLY | Gpu.MemoryFlags.HOST_NO_ACCESS)


# Flags of memory that nothing can write
_CONSTANT = Gpu.MemoryFlags.READ_ONLY | Gpu.MemoryFlags.HOST_READ_ONLY

_PIECE = 1 << 22                                # bytes to copy before the event loop runs


async def _copy_bytes(data, address, size):
    """Copies a GLib.Bytes to an address. Runs the event loop between the pieces of a long copy."""
    import asyncio
    for start in range(0, size, _PIECE):
        piece = data.new_from_bytes(start, min(_PIECE, size - start)).get_data()
        ctypes.memmove(address + start, piece, len(piece))
        await asyncio.sleep(0)


class _Spilled(Exception):
    """Another thread has spilled a buffer after a method began to read it."""


class Buffer(AsyncBuffer, DLPackMemoryMethods, _native.BufferBase, Gpu.Buffer):
    """Gpu.Buffer(context, size) or Gpu.Buffer(context, data). An integer of NumPy is a size; any
    other number of NumPy raises TypeError. buffer[a:b] is a slice that shares the memory of the
    buffer. Other libraries take a buffer as an array of uint8: see Gpu.Array.__dlpack__()."""
    offset = _get("offset")
    memory = _get("memory")
    parent = _get("parent")
    spilled = _property("spilled")
    row_pitch = _get("row_pitch")

    def __new__(cls, context, size_or_data, flags=Gpu.MemoryFlags.NONE):
        if type(size_or_data) is int or is_int(size_or_data):
            return Gpu.Buffer.new(context, flags, size_or_data)
        _check_new_buffer(size_or_data, flags)
        _check_scalar(size_or_data)
        return cls.new_from_data(context, size_or_data, flags)

    def __init__(self, *args, **kwargs):
        pass

    @classmethod
    def new_from_data(cls, context, data, flags=Gpu.MemoryFlags.NONE) -> "Buffer":
        """Creates a buffer that holds a copy of bytes-like data."""
        if isinstance(data, Bytes) or flags & _NO_WRITES:
            return Gpu.Buffer.new_from_bytes(context, flags, to_glib_bytes(data, copy=False))
        size = _get_size_of(data)
        if size is not None:
            buffer = Gpu.Buffer.new(context, flags, size)
            buffer.write(data)
            return buffer
        with Exported(data) as exported:
            buffer = Gpu.Buffer.new(context, flags, exported.size)
            buffer.write(exported.data)
        return buffer

    @classmethod
    def new_for_data(cls, context, data, flags=Gpu.MemoryFlags.NONE):
        """Creates a buffer that uses the memory of a contiguous bytes-like object, such as a NumPy
        array, without a copy. The buffer keeps the object alive, and fixes the address of its data.
        Map the buffer before you access the object: a device with memory of its own may work on a
        copy until then. The copy may be faster if the address is a multiple of the page size. The
        object is released at the end of release() or of the with statement, or at the end of a
        later wait for pending work that uses the buffer. If the last reference to the buffer is
        dropped instead, a thread of this module releases the object shortly afterwards.

        The object must be writable, unless the flags contain both Gpu.MemoryFlags.READ_ONLY and
        HOST_READ_ONLY: all work that writes the buffer then fails."""
        writable = flags & _CONSTANT != _CONSTANT
        exported = export_in_place(data, writable, "pass flags=Gpu.MemoryFlags.READ_ONLY | "
                                                   "Gpu.MemoryFlags.HOST_READ_ONLY, or a copy")
        if exported.size == 0:
            exported.release()
            raise ValueError("a buffer cannot have 0 bytes")
        return Gpu.Buffer.new_for_host_bytes(context, flags, hold(exported))

    @classmethod
    def new_from_handle(cls, context, handle):
        """Opens a buffer of another process, from the bytes of export_handle() there. The buffer is
        no copy: both processes use the same memory."""
        return Gpu.Buffer.new_from_handle(context, to_glib_bytes(handle))

    @classmethod
    def new_from_fds(cls, context, handle, fds):
        """Opens a buffer of another process, from the bytes of export_fds() there and the
        Gio.UnixFDList with its descriptors. Both processes use the same memory."""
        return Gpu.Buffer.new_from_fds(context, to_glib_bytes(handle), fds)

    @classmethod
    def new_from_fd(cls, context, fd, whole_size, offset=0, size=None, kind=Gpu.FdKinds.OPAQUE,
                    flags=Gpu.MemoryFlags.NONE):
        """Creates a buffer over memory that another library or process shares: see export_fd().
        Without a size, the buffer reaches from the offset to the end of the memory. The caller
        still has to close the descriptor."""
        whole_size, offset = to_size(whole_size, "whole_size"), to_size(offset, "offset")
        size = max(whole_size - offset, 0) if size is None else size
        return Gpu.Buffer.new_from_fd(context, flags, kind, fd, whole_size, offset, size)

    def export_fd(self, kind=Gpu.FdKinds.OPAQUE):
        """Exports a buffer that was created with Gpu.MemoryFlags.SHAREABLE. Returns a tuple of a
        file descriptor, which the caller must close, the size of the whole shared memory, and the
        offset of the buffer in that memory. Gpu.Buffer.new_from_fd(context, *buffer.export_fd(),
        buffer.size) opens the same buffer."""
        return Gpu.Buffer.export_fd(self, kind)

    def export_handle(self) -> bytes:
        """Returns bytes that another process passes to Gpu.Buffer.new_from_handle()."""
        return Gpu.Buffer.export_handle(self).get_data()

    def export_fds(self, fds) -> bytes:
        """Returns bytes that another process passes to Gpu.Buffer.new_from_fds(), together with the
        Gio.UnixFDList to which this function appends descriptors."""
        return Gpu.Buffer.export_fds(self, fds).get_data()

    def _get_stream(self, stream):
        if stream is None:
            context = self.get_context()
            stream = context.get_default_stream() if context is not None else None
        if stream is None:
            self.read_bytes(None, 0, 1, None)   # raises the precise error
        return checked(to_stream(stream, "stream", (self,)), Gpu.Stream, "stream")

    def _write_exported(self, exported, offset, stream):
        """Writes exported data, and releases the export."""
        return run_copy(lambda: self._write_here(exported, offset, stream), exported.size)

    def _write_here(self, exported, offset, stream):
        address, size = exported.address, exported.size
        if self._try(exported, self.try_write_address, stream, offset, address, size):
            return True
        data, stream = hold(exported), self._get_stream(stream)
        submit_and_wait(stream, lambda: Gpu.Stream.write(stream, self, offset, data))
        exported.release()
        return True

    def _read_exported(self, exported, offset, stream):
        """Reads into exported memory, and releases the export."""
        return run_copy(lambda: self._read_here(exported, offset, stream), exported.size)

    def _read_here(self, exported, offset, stream):
        address, size = exported.address, exported.size
        if self._try(exported, self.try_read_address, stream, offset, address, size):
            return True
        target, stream = hold(exported), self._get_stream(stream)
        try:
            submit_and_wait(stream, lambda: self._submit_read(target, offset, stream))
        except _Spilled:
            data = self.read_bytes(stream, offset, size, None)
            ctypes.memmove(address, data.get_data(), size)
        exported.release()
        return True

    def _submit_read(self, target, offset, stream):
        try:
            Gpu.Stream.read_into(stream, self, offset, target)
        except BusyError:
            raise _Spilled from None
        finally:
            del target                          # an exception keeps this frame

    @staticmethod
    def _try(exported, move, *args):
        """Moves the data at once and releases the export. Returns False, and does nothing, while
        other work is pending, because a wait for that work may take arbitrarily long."""
        moved = True
        try:
            moved = move(*args)
        finally:
            if moved:
                exported.release()
        return moved

    def write(self, data, offset=0, stream=None) -> bool:
        """Copies all bytes of bytes-like data, such as a NumPy array of any dtype and shape that is
        contiguous, to the buffer from offset bytes on, and waits. Bytes keep their order in memory,
        and are not converted. Returns True. Raises Gpu.InvalidArgumentError (a ValueError) if the
        data exceed the buffer, ValueError for an array with gaps, and the error of earlier work on
        the stream."""
        if not isinstance(data, Bytes):
            return self._write_exported(Exported(data), offset, stream)
        if not takes_signals():
            return self.write_bytes(stream, offset, data, None)
        stream = self._get_stream(stream)
        run_copy(lambda: submit_and_wait(
            stream, lambda: Gpu.Stream.write(stream, self, offset, data)), data.get_size())
        return True

    def read(self, offset=0, size=None, stream=None) -> bytes:
        """Returns size bytes of the buffer from offset on, by default all, as bytes, and waits.
        Raises Gpu.InvalidArgumentError (a ValueError) for a range outside the buffer."""
        _, offset, size = to_range(self, offset, size)
        if not 0 < size <= self.get_size():
            return self.read_bytes(stream, offset, size, None).get_data() or b""
        data = new_bytes(None, size)
        self._read_exported(Exported(data), offset, stream)
        return data

    def read_into(self, target, offset=0, stream=None) -> int:
        """Reads from the buffer into a writable, contiguous bytes-like object and waits. Returns
        the number of bytes."""
        exported = Exported(target, writable=True)
        size = exported.size
        self._read_exported(exported, offset, stream)
        return size

    def to_numpy(self, dtype="uint8", shape=None, offset=0, stream=None, order="C"):
        """Returns a new NumPy array with a copy of the contents of the buffer from offset bytes on,
        as elements of a dtype, and waits. The shape is a number or a tuple; without one the array
        has one dimension, and all elements to the end of the buffer. As in numpy.reshape(), a
        length of -1 is computed from the size. The order is "C" or "F". Raises ValueError if the
        array would be larger than the buffer or, without a shape, if the bytes are not a whole
        number of elements."""
        import numpy
        _, offset, size = to_range(self, offset)
        if not 0 <= offset <= self.get_size():
            raise ValueError(f"offset {offset} is not in the {self.get_size()} bytes of the buffer")
        if shape is None:
            dtype = to_fitting_dtype(dtype, size, "pass a shape")
            shape = size // dtype.itemsize
        else:
            dtype = to_sized_dtype(dtype)
            shape = to_shape(shape, dtype, size)
        count = int(numpy.prod(shape, dtype=object))
        if offset + count * dtype.itemsize > self.get_size():
            raise ValueError(f"shape {shape} of {dtype} at offset {offset} is larger than the "
                             f"{self.get_size()} bytes of the buffer")
        array = numpy.empty(shape, dtype, order)
        if array.nbytes > 0:
            self.read_into(array.ravel(order="K").view("uint8"), offset, stream)
        return array

    def fill(self, pattern, offset=0, size=None, stream=None):
        """Fills the buffer with a repeated pattern and waits. The pattern is a NumPy scalar, a
        bytes-like object or an int of one byte."""
        stream = self._get_stream(stream)
        submit_and_wait(stream, lambda: stream.fill(self, pattern, offset, size))
        return True

    def copy(self, source, *, offset=0, source_offset=0, size=None, stream=None):
        """Copies another buffer to this one, at offset, and waits. By default, copies all of the
        source from source_offset on. The numbers have no positions, because those of Stream.copy()
        are in another order."""
        offset, source_offset = to_size(offset, "offset"), to_size(source_offset, "source_offset")
        stream = self._get_stream(stream)
        submit_and_wait(stream, lambda: stream.copy(self, source, size, offset, source_offset))
        return True

    def map(self, flags=Gpu.MapFlags.NONE, offset=0, size=None, stream=None):
        """Maps the buffer for the host and waits. Returns a Gpu.Mapping."""
        stream = self._get_stream(stream)
        _, offset, size = to_range(self, offset, size)
        return submit_and_wait(stream, lambda: Gpu.Stream.map(stream, self, flags, offset, size))

    def read_bytes_async(self, stream, offset, size, cancellable=None, progress_callback=None,
                         progress_data=None, callback=None, *user_data):
        """Reads in a main loop of GLib: read_bytes_finish() in the callback returns the bytes.
        progress_callback(current, total, *progress_data) is called as by read_async().
        progress_data is a tuple or None."""
        items = to_items(progress_callback, progress_data)
        return Gpu.Buffer.read_bytes_async(self, stream, offset, size, cancellable,
                                           progress_callback, items, callback, *user_data)

    def write_bytes_async(self, stream, offset, bytes, cancellable=None, progress_callback=None,
                          progress_data=None, callback=None, *user_data):
        """Writes bytes-like data, which must not change before the write has completed, in a main
        loop of GLib: the callback calls write_bytes_finish().
        progress_callback(current, total, *progress_data) is called as by read_async().
        progress_data is a tuple or None."""
        items = to_items(progress_callback, progress_data)
        data = to_glib_bytes(bytes, copy=False)
        return Gpu.Buffer.write_bytes_async(self, stream, offset, data, cancellable,
                                            progress_callback, items, callback, *user_data)

    async def read_async(self, offset=0, size=None, stream=None, *, progress=None) -> bytes:
        """read() for asyncio. progress(current, total) is called in the event loop with the number
        of bytes read so far, at most 25 times per second and once with the total."""
        _, offset, size = to_range(self, offset, size)
        if progress is None and HELD_SIZE <= size <= self.get_size() and not self.spilled:
            data = new_bytes(None, size)
            with held(data) as kept:
                if await self._read_held_async(kept, offset, stream):
                    return data
        data = await self._read_with_progress(offset, size, stream, progress)
        result = new_bytes(None, size)
        await _copy_bytes(data, bytes_address(result), size)
        return result

    async def _read_with_progress(self, offset, size, stream, progress):
        """Returns a GLib.Bytes."""
        return await wait_for(
            lambda cancellable, callback, report=None: self.read_bytes_async(
                stream, offset, size, cancellable, report, None, callback),
            self.read_bytes_finish, progress)

    async def read_into_async(self, target, offset=0, stream=None, *, progress=None) -> int:
        """read_into() for asyncio. The target must be contiguous. Nothing else may access it before
        the read has completed, even if the await is cancelled. progress(current, total) is called
        as by read_async(); with it, and from a spilled buffer, the data are read into other memory
        first, and then copied to the target."""
        with held(target, True) as kept:
            size = kept.size
            if (progress is None or size == 0) and not self.spilled:
                if await self._read_held_async(kept, offset, stream):
                    return size
        with Exported(target, writable=True) as exported:
            data = await self._read_with_progress(offset, size, stream, progress)
            await _copy_bytes(data, exported.address, size)
        return size

    async def _read_held_async(self, kept, offset, stream):
        """Returns False if the memory is in use: another thread may have spilled it."""
        stream = self._get_stream(stream)
        try:
            await submit_and_await(stream, lambda: self._submit_read(kept.bytes, offset, stream))
        except _Spilled:
            return False
        return True

    async def write_async(self, data, offset=0, stream=None, *, progress=None) -> bool:
        """write() for asyncio. The data must not change before the write has completed.
        progress(current, total) is called as by read_async()."""
        with held(data) as kept:
            return await wait_for(
                # content, because the work continues after the await is cancelled
                lambda cancellable, callback, report=None, content=kept.bytes:
                    self.write_bytes_async(stream, offset, content, cancellable, report, None,
                                           callback),
                self.write_bytes_finish, progress)

    def __bytes__(self):
        return self.read()

    def __copy__(self):
        """Returns a buffer of the same context and size, without flags, with a copy of the bytes,
        made on the device."""
        stream = self._get_stream(None)
        copied = Gpu.Buffer.new(self.get_context(), Gpu.MemoryFlags.NONE, self.get_size())
        copied.copy(self, stream=stream)
        return copied

    def __deepcopy__(self, memo):
        memo[id(self)] = result = self.__copy__()
        return result

    def __reduce_ex__(self, protocol):
        """Pickles a copy of the bytes, and waits for it: pickle.loads() returns a NumPy array of
        uint8, from which Gpu.Buffer(context, array) creates a buffer in any context."""
        return self.to_numpy().__reduce_ex__(protocol)

    def __getitem__(self, key):
        if not isinstance(key, slice):
            raise TypeError("a buffer only has slices, buffer[a:b]: use read() for its bytes")
        start, stop, step = key.indices(self.get_size())
        if step != 1:
            raise ValueError(f"a slice of a buffer must have step 1, not {step}")
        return self.slice(start, max(stop - start, 0))


Buffer = override(Buffer)


class Svm(AsyncSvm, SvmMethods, DLPackMemoryMethods, Gpu.Svm):
    __doc__ = SvmMethods.__doc__


Svm = override(Svm)


class DType(DTypeMethods, Gpu.DType):
    __doc__ = DTypeMethods.__doc__
    # Declared here for type checkers; numbers() lists them
    BOOL: "DType"
    INT8: "DType"
    INT16: "DType"
    INT32: "DType"
    INT64: "DType"
    UINT8: "DType"
    UINT16: "DType"
    UINT32: "DType"
    UINT64: "DType"
    FLOAT16: "DType"
    FLOAT32: "DType"
    FLOAT64: "DType"
    BFLOAT16: "DType"
    COMPLEX64: "DType"
    COMPLEX128: "DType"


DType = override(DType)

for _name, _number in numbers():
    setattr(DType, _name, _number)


class Array(DeviceArrayMethods, ArrayFileMethods, ArrayRowMethods, Gpu.Array):
    __doc__ = DeviceArrayMethods.__doc__


Array = override(Array)


class File(FileMethods, Gpu.File):
    __doc__ = FileMethods.__doc__


File = override(File)


class InputStream(InputStreamMethods, Gpu.InputStream):
    __doc__ = InputStreamMethods.__doc__


InputStream = override(InputStream)


class OutputStream(OutputStreamMethods, Gpu.OutputStream):
    __doc__ = OutputStreamMethods.__doc__


OutputStream = override(OutputStream)


class Color(ColorMethods, Gpu.Color):
    pass


Color = override(Color)


class ImageFormat(FormatMethods, Gpu.ImageFormat):
    pass


ImageFormat = override(ImageFormat)


class Image(AsyncImage, ImageMethods, Gpu.Image):
    __doc__ = ImageMethods.__doc__


Image = override(Image)

# Not in the classes: type checkers reject numpy.asarray(buffer) because the stubs lack the method
Buffer.__array__ = Image.__array__ = refuse_array
Svm.__array__ = refuse_svm


class Sampler(SamplerMethods, Gpu.Sampler):
    __doc__ = SamplerMethods.__doc__


Sampler = override(Sampler)


class HostMemory(AsyncHostMemory, HostMemoryMethods, DLPackMemoryMethods, Gpu.HostMemory):
    __doc__ = HostMemoryMethods.__doc__


HostMemory = override(HostMemory)


# Must precede the overrides of its subclasses, which inherit from this override
class Allocator(AllocatorMethods, Gpu.Allocator):
    __doc__ = AllocatorMethods.__doc__


Allocator = override(Allocator)


class FunctionAllocator(GObject.Object, Allocator):
    """Gpu.FunctionAllocator(context, function): an allocator that calls function(size), which must
    return Gpu.Memory of the context, of size bytes or more, or raise an exception, which becomes
    the __cause__ of the Gpu.Error of the call that allocates. KeyboardInterrupt, from Ctrl-C,
    reaches the caller unchanged. The last reference to the memory frees it.

    Gpu.Array and Gpu.Context also accept such a function in place of an allocator."""
    __gtype_name__ = "GpuFunctionAllocator"
    __module__ = "Gpu"      # PyGObject registers no type for a class of the module gi.overrides

    _function = None

    function = property(lambda self: self._function)

    def __init__(self, context, function):
        if not isinstance(context, Gpu.Context):
            raise TypeError(f"a context is required, not '{type(context).__name__}'")
        if not callable(function):
            raise TypeError("an allocator must be a Gpu.Allocator or a function of the size, not "
                            f"'{type(function).__name__}'")
        super().__init__()
        self._context = context
        self._function = function
        self._name = f"the allocator {function!r}"

    def do_get_context(self):
        return self._context

    def do_alloc(self, size, stream):
        memory = self._function(size)
        if not isinstance(memory, Gpu.Memory) or memory.get_size() < size:
            raise TypeError(f"it returned {memory!r}, not Gpu.Memory of {size} bytes")
        if memory.get_context() is not self._context:
            raise ValueError(f"it returned memory of another context: {memory!r}")
        return memory

    def __repr__(self):
        return f"<Gpu.FunctionAllocator of {self._function!r}>"


class HostAllocator(Gpu.HostAllocator):
    """Gpu.HostAllocator(context): an allocator of page-locked memory that caches freed memory. On
    the host back end, the memory is pageable. numa_node is as for Gpu.HostMemory."""
    context = _property("context")
    host_flags = _property("host_flags")
    numa_node = _property("numa_node")
    held_bytes = _property("held_bytes")
    active_bytes = _property("active_bytes")

    def __new__(cls, context, flags=Gpu.HostMemoryFlags.NONE, *, numa_node=Gpu.NUMA_NODE_DEVICE):
        if numa_node == Gpu.NUMA_NODE_DEVICE:
            return Gpu.HostAllocator.new(context, flags)
        return new_on_node(Gpu.HostAllocator, context, flags, numa_node)

    def __init__(self, *args, **kwargs):
        pass

    def alloc(self, size, stream=None):
        """Returns Gpu.HostMemory of at least size bytes, or None for a size of 0. The stream is
        ignored."""
        return Gpu.HostAllocator.alloc(self, size)

    def trim(self, held_bytes=0):
        """Frees cached memory until at most held_bytes remain cached."""
        Gpu.HostAllocator.trim(self, held_bytes)


HostAllocator = override(HostAllocator)


class DeferredAllocator(Gpu.DeferredAllocator):
    """Gpu.DeferredAllocator(context): buffers whose memory the driver may allocate at their first
    use."""

    def __new__(cls, context, flags=Gpu.MemoryFlags.NONE):
        return Gpu.DeferredAllocator.new(context, flags)

    def __init__(self, *args, **kwargs):
        pass


DeferredAllocator = override(DeferredAllocator)


class ImmediateAllocator(Gpu.ImmediateAllocator):
    """Gpu.ImmediateAllocator(stream): buffers whose memory the driver allocates at once."""

    def __new__(cls, stream, flags=Gpu.MemoryFlags.NONE):
        return Gpu.ImmediateAllocator.new(stream, flags)

    def __init__(self, *args, **kwargs):
        pass


ImmediateAllocator = override(ImmediateAllocator)


class StreamAllocator(Gpu.StreamAllocator):
    """Gpu.StreamAllocator(stream): memory that is allocated and freed in the order of a stream."""

    def __new__(cls, stream, flags=Gpu.MemoryFlags.NONE):
        return Gpu.StreamAllocator.new(stream, flags)

    def __init__(self, *args, **kwargs):
        pass


StreamAllocator = override(StreamAllocator)


class SvmAllocator(SvmAllocatorMethods, Gpu.SvmAllocator):
    __doc__ = SvmAllocatorMethods.__doc__


SvmAllocator = override(SvmAllocator)


class ExternalAllocator(ExternalAllocatorMethods, Gpu.ExternalAllocator):
    __doc__ = ExternalAllocatorMethods.__doc__


ExternalAllocator = override(ExternalAllocator)


# Must precede the overrides of its subclasses, which inherit from this override
class AllocatorAdaptor(_WithoutConstructor, AllocatorAdaptorMethods, Gpu.AllocatorAdaptor):
    __doc__ = AllocatorAdaptorMethods.__doc__
    _advice = "derive a class, and create an object of it with upstream=allocator"


AllocatorAdaptor = override(AllocatorAdaptor)


class LimitAllocator(Gpu.LimitAllocator):
    """Gpu.LimitAllocator(upstream, limit): an allocator that has at most limit bytes in use."""
    limit = property(lambda self: self.props.limit,
                     lambda self, limit: self.set_property("limit", limit))
    active_bytes = _property("active_bytes")

    def __new__(cls, upstream, limit):
        return Gpu.LimitAllocator.new(upstream, limit)

    def __init__(self, *args, **kwargs):
        pass


LimitAllocator = override(LimitAllocator)


class StatisticsAllocator(StatisticsAllocatorMethods, Gpu.StatisticsAllocator):
    __doc__ = StatisticsAllocatorMethods.__doc__


StatisticsAllocator = override(StatisticsAllocator)


class TrackingAllocator(TrackingAllocatorMethods, Gpu.TrackingAllocator):
    __doc__ = TrackingAllocatorMethods.__doc__


TrackingAllocator = override(TrackingAllocator)


class LoggingAllocator(LoggingAllocatorMethods, Gpu.LoggingAllocator):
    __doc__ = LoggingAllocatorMethods.__doc__


LoggingAllocator = override(LoggingAllocator)


class OomAllocator(Gpu.OomAllocator):
    """Gpu.OomAllocator(upstream): an allocator that emits the signal out-of-memory when an
    allocation fails. If a handler frees memory and returns True, the allocator tries the allocation
    again."""

    def __new__(cls, upstream):
        return Gpu.OomAllocator.new(upstream)

    def __init__(self, *args, **kwargs):
        pass


OomAllocator = override(OomAllocator)


class DeferredFreeAllocator(DeferredFreeAllocatorMethods, Gpu.DeferredFreeAllocator):
    __doc__ = DeferredFreeAllocatorMethods.__doc__


DeferredFreeAllocator = override(DeferredFreeAllocator)


class MemoryBlock(MemoryBlockMethods, Gpu.MemoryBlock):
    __doc__ = MemoryBlockMethods.__doc__


MemoryBlock = override(MemoryBlock)


class MemoryPool(ScopeMethods, MemoryPoolMethods, Gpu.MemoryPool):
    __doc__ = MemoryPoolMethods.__doc__
    allocate = __call__ = Gpu.MemoryPool.alloc_buffer


_advise(MemoryPool, free_all_blocks="trim()", get_limit="limit", total_bytes="managed_bytes")
MemoryPool = override(MemoryPool)
add_attributes(MemoryPool)


# Flags of mappings that the host may write
_WRITES = int(Gpu.MapFlags.WRITE | Gpu.MapFlags.WRITE_INVALIDATE)


def _export_mapping(mapping):
    """Returns an object that exports the mapped bytes, or None if the mapping is unmapped."""
    data = mapping.get_bytes()                  # keeps the memory mapped
    if data is None:
        return None
    exported = (ctypes.c_uint8 * mapping.get_size()).from_address(mapping.get_address())
    exported._owner = mapping, data
    return exported


class Mapping(_WithoutConstructor, Gpu.Mapping):
    """A range of memory that is mapped for the host until the end of a with statement or the
    release of the last reference.

    numpy.asarray (mapping) and view() access that memory without a copy. Their results are views,
    which keep the mapping alive. While a view exists, unmap() raises BufferError, as
    mmap.mmap.close() does. Views of read-only mappings are read-only. An index is a whole number or
    a slice, which returns a copy of its bytes. Assignments, loops and "in" are as in view()."""
    _advice = "memory.map() creates a mapping"
    memory = _property("memory")
    flags = _property("flags")
    mapped = _property("mapped")
    size = _get("size")
    address = _get("address")
    row_pitch = _get("row_pitch")
    slice_pitch = _get("slice_pitch")

    _exported = None

    def _export(self):
        """Returns the object to which all views of this mapping hold a reference. It exports the
        mapped bytes."""
        exported = self._exported() if self._exported is not None else None
        if exported is None:
            exported = _export_mapping(self)
            if exported is None:
                raise ReleasedError("the mapping is unmapped; map the memory again")
            self._exported = weakref.ref(exported)
        return exported

    def view(self):
        """Returns a memoryview of the mapped bytes."""
        view = memoryview(self._export())
        if view.format != "B":                  # of ctypes
            view = view.cast("B")
        return view if view.readonly or self._is_writable() else view.toreadonly()

    def _is_writable(self):
        flags = int(self.get_property("flags"))
        return flags == 0 or flags & _WRITES != 0

    def to_numpy(self, dtype=None, shape=-1, order="C"):
        """Returns a NumPy array over the mapped bytes, or over the texels of an image. If no type
        and no shape are given, and all of a Gpu.Svm.shaped() is mapped, the array has the type and
        shape of that memory."""
        if dtype is not None:
            return array_over_bytes(self._export() if _native.fast is not None else self.view(),
                                    dtype, shape, order)
        memory = self.get_property("memory")
        if shape == -1 and isinstance(memory, Gpu.Image):
            array = view_texels(memory, tuple(self.get_extent()), self, self._export())
            array.flags.writeable = self._is_writable()
            return array
        return array_over(memory, self.view(), dtype, shape, order)

    @property
    def __array_interface__(self):
        return {"version": 3, "shape": (self.get_size(),), "typestr": "|u1", "data": self.view()}

    def unmap(self):
        """Ends the mapping, and waits until the device has the contents. Raises BufferError while a
        view of the mapping exists."""
        if self._exported is not None and self._exported() is not None:
            raise BufferError("a mapping cannot be unmapped while views of it exist: "
                              "drop them first")
        return Gpu.Mapping.unmap(self)

    def __len__(self):
        return self.get_size()

    def __bool__(self):
        return True

    def _to_number(self, key):
        """Returns the number of a byte. The error of memoryview would not name it."""
        try:
            number, size = operator.index(key), self.get_size()
        except TypeError:
            raise TypeError("an index of a mapping must be a whole number or a slice, not "
                            f"{describe(key)}") from None
        if not -size <= number < size:
            raise IndexError(f"index {number} is out of bounds for a mapping of {size} bytes")
        return number

    # Without a variable for the view, which an error would keep in the frame

    def __getitem__(self, key):
        """Returns a byte as an int, or a copy of a slice as bytes."""
        if isinstance(key, slice):
            return bytes(self.view()[key])
        return self.view()[self._to_number(key)]

    def __setitem__(self, key, value):
        try:
            self.view()[key if isinstance(key, slice) else self._to_number(key)] = value
        except ValueError:
            there = len(range(*key.indices(len(self)))) if isinstance(key, slice) else 1
            here = memoryview(value).nbytes if isinstance(key, slice) else there
            if here == there:
                raise
            raise ValueError(f"{here} bytes cannot replace {there} bytes of a mapping") from None

    def __iter__(self):
        return iter(self.view())

    def __bytes__(self):
        return bytes(self.view())

    def __enter__(self):
        return self

    def __exit__(self, kind, exception, traceback):
        if self.get_address() == 0:             # unmapped
            return
        try:
            self.unmap()
        except (BufferError, GLib.Error) as error:
            # Do not replace the exception that ended the block
            if kind is None:
                raise
            if isinstance(error, BufferError) and hasattr(exception, "add_note"):
                exception.add_note("Gpu.Mapping: the memory stays mapped while views of it exist; "
                                   "the traceback of this exception may hold them")

    def __repr__(self):
        if not self.get_property("mapped"):
            return "<Gpu.Mapping unmapped>"
        return f"<Gpu.Mapping of {self.get_size()} bytes at 0x{self.get_address():x}>"


Mapping = override(Mapping)


class Event(_WithoutConstructor, AsyncEvent, Gpu.Event):
    """An event in a stream, which asyncio can await. Connecting to 'completed' makes the event
    watch for its completion. Events of new_wrapped() over the same handle are equal."""
    _advice = "stream.record() and Gpu.Event.new_user(context) create events"
    context = _property("context")
    native_handle = _property("native_handle",
                              """The driver's handle of the event, an int, for waits and queries of
                              other libraries: a cl_event on OpenCL, a CUevent on CUDA. The event
                              owns the handle. 0 if the event needs no driver's event because it has
                              already completed or failed, or if the driver cannot create one.""")

    def connect(self, signal, *args):
        """Connects a function, and further arguments for it, to a signal. Connecting to "completed"
        makes the event watch for its completion. Returns the id for disconnect()."""
        return self._connect(super().connect, signal, args)

    def connect_after(self, signal, *args):
        """Like connect(), but the function is called after the default handler."""
        return self._connect(super().connect_after, signal, args)

    def _connect(self, connect, signal, args):
        handler = connect(signal, *args)
        if signal == "completed":
            try:
                self.watch()
            except GLib.Error:
                self.disconnect(handler)
                raise
        return handler

    def wait(self, cancellable=None, timeout=None):
        """Waits for the event, for at most timeout seconds, a float; None is no limit. Raises the
        error of the work before it, and Gpu.TimedOutError, which is a TimeoutError, at the end of
        that time. Ctrl-C ends the wait, but not the work."""
        check_cancellable(cancellable)
        return wait(self, cancellable, timeout)

    def poll(self, timeout_usec, cancellable=None) -> "EventStatus":
        """Waits for at most timeout_usec microseconds, -1 is no limit, and returns the status.
        Raises the error of the work before the event, and a ValueError if timeout_usec is below
        -1."""
        return poll(self, timeout_usec, cancellable)

    def wait_timeout(self, timeout_usec, cancellable=None):
        """Waits for at most timeout_usec microseconds; -1 is no limit, and any other negative value
        raises a ValueError. Raises Gpu.TimedOutError at the end of that time, and the error of the
        work before the event."""
        return wait_timeout(self, timeout_usec, cancellable)

    @staticmethod
    def wait_all(events, cancellable=None, timeout=None):
        """Waits for all events, for at most timeout seconds in total, a float; None is no limit.
        Then raises the first error: that of the work before an event, or Gpu.TimedOutError, which
        is a TimeoutError, for an event that is still pending."""
        events = to_list(events, "events", "events", "[event]")
        for index, event in enumerate(events):
            checked(event, Gpu.Event, f"events[{index}]")
        check_cancellable(cancellable)
        return wait_all(events, cancellable, timeout)

    def get_elapsed(self, since):
        """Gets the nanoseconds since another event."""
        return _last(Gpu.Event.get_elapsed(self, since))

    _wrapped = None                             # the back end and the handle of a wrapped event

    @classmethod
    def new_wrapped(cls, context, handle, mode):
        """Creates an event over a driver's handle, a cl_event or a CUevent as an int, that other
        code has created and recorded. Events over the same handle are equal.

        With Gpu.WrapMode.ADOPT the event takes ownership of the handle. With Gpu.WrapMode.BORROW
        the caller keeps it: on CUDA, the handle must be valid as long as the event, and until all
        waits for the event have ended. If the call fails, the caller keeps the ownership.

        Raises Gpu.Error.INVALID_ARGUMENT if the handle is 0, is not an event or belongs to another
        context of OpenCL, and Gpu.Error.NOT_SUPPORTED on the host, which has no events to wrap."""
        event = Gpu.Event.new_wrapped(context, handle, mode)
        event._wrapped = context.get_device().get_backend(), int(handle)
        return event

    def __eq__(self, other):
        if not isinstance(other, Gpu.Event):
            return NotImplemented
        return self is other or self._wrapped is not None and self._wrapped == other._wrapped

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return object.__hash__(self) if self._wrapped is None else hash(self._wrapped)

    @classmethod
    def new_from_handle(cls, context, handle):
        """Opens an event of another process, from the bytes of export_handle() there."""
        return Gpu.Event.new_from_handle(context, to_glib_bytes(handle))

    def export_handle(self):
        """Returns bytes that another process passes to Gpu.Event.new_from_handle()."""
        return Gpu.Event.export_handle(self).get_data()

    def get_duration(self):
        """Gets the nanoseconds that the operation before the event took."""
        return _last(Gpu.Event.get_duration(self))

    def get_profiling_time(self, point):
        """Gets a time of the operation in nanoseconds, on the clock of the device."""
        return _last(Gpu.Event.get_profiling_time(self, point))

    def call(self, function, *args):
        """Calls a function when the event has completed, without a main loop. Returns a
        concurrent.futures.Future with the result of the function.

        The thread gpumem-call of this module makes all such calls of the process, one after the
        other, on another thread than the caller's, possibly before this method returns. Pending and
        later work does not wait for them. So the function should return soon, and must not wait for
        the future of another call. If the event fails, the function is not called, and the future
        gets the error. An exception of the function also becomes that of the future. Python prints
        an exception that the program has not taken from the future. Calls that are still pending at
        the end of the process are dropped. Raises Gpu.NotSupportedError for an event of a stream
        that is being captured into a CUDA graph."""
        from ._gpumem_call import call
        return call(self, function, args, collections.deque())

    def __await__(self):
        # Not behind submissions that block: the point of an event is fixed
        return wait_for(functools.partial(Gpu.Event.wait_async, self), self.wait_finish,
                        caller=find_caller(), run=run_later).__await__()


_advise(Event, synchronize="wait()", is_done="query()", done="query()", time_since="get_elapsed()",
        elapsed_time="get_elapsed()", profile="get_profiling_time()")
Event = override(Event)


def _last(result):
    return result[-1] if isinstance(result, tuple) else result


class Program(ProgramMethods, Gpu.Program):
    """Gpu.Program(context, source, options). program.scale returns a new Gpu.Kernel named scale.

    Options are a string, which each compiler splits by its own rules, or a list of strings with one
    option or value each: ["-DN=4", "-I", path]. headers maps the names of headers, which the source
    may include, to their texts: {"types.h": "typedef float number;"}. names lists the templates,
    overloads and variables that the program looks up later. Binaries are bytes-like objects."""
    __setattr__ = _set_attribute
    build_log = _get("build_log")
    binary = _get("binary")
    context = _get("context")
    headers = _property("headers")
    native_handle = _property("native_handle",
                              """The driver's handle of the program, an int: a cl_program on
                              OpenCL, a CUmodule on CUDA, 0 on the host. The program and its
                              kernels own the handle.""")
    options = _property("options")
    source = _property("source")
    kernels = property(lambda self: self.list_kernels(), doc="The names of all kernels, a list.")


Program = override(Program)


class Kernel(_WithoutConstructor, Gpu.Kernel, _Attributes):
    """A kernel of a program. A call launches the kernel: kernel (stream, grid, block,
    *arguments)."""
    _advice = "program.get_kernel(name) returns a kernel"
    __setattr__ = _set_attribute
    name = _get("name")
    n_arguments = _get("n_arguments")
    native_handle = _get("native_handle")
    program = _get("program")
    attributes = property(lambda self: self.get_attributes().unpack(),
                          doc="All attributes that the driver reports for the kernel, as a "
                              "dictionary.")

    def __call__(self, stream, grid, block=None, *args, shared_size=0,
                 flags=Gpu.LaunchFlags.NONE, allow_empty=False, global_offset=None):
        stream = checked(to_stream(stream, "stream", (self.program,)), Gpu.Stream, "stream")
        return stream.launch(self, grid, block, args, shared_size, flags, allow_empty=allow_empty,
                             global_offset=global_offset)

    def prepare(self, grid, block=None, args=(), shared_size=0, flags=Gpu.LaunchFlags.NONE,
                indirect=(), *, allow_empty=False, global_offset=None):
        """Creates a Gpu.Launch for any number of calls of stream.launch_prepared()."""
        return Gpu.Launch.new(self, to_extent(grid, "grid"), to_extent(block, "block"),
                              to_offset(global_offset), shared_size, to_flags(flags, allow_empty),
                              to_arguments(self, args, indirect))

    def timed(self, stream, grid, block=None, *args, shared_size=0, flags=Gpu.LaunchFlags.NONE,
              allow_empty=False, global_offset=None):
        """Launches the kernel. Returns a function that waits for the kernel and returns the seconds
        that it took."""
        stream = checked(to_stream(stream, "stream", (self.program,)), Gpu.Stream, "stream")
        launch = self.prepare(grid, block, args, shared_size, flags, allow_empty=allow_empty,
                              global_offset=global_offset)
        event = stream.launch_timed(launch)

        def seconds():
            event.wait()
            return event.get_duration() * 1e-9
        return seconds

    def get_max_active_blocks(self, block_size, shared_size=0):
        """Gets the maximum number of work-groups that run concurrently on one multiprocessor."""
        return _last(Gpu.Kernel.get_max_active_blocks(self, block_size, shared_size))

    def __repr__(self):
        return f"<Gpu.Kernel {self.get_name()}>"


Kernel = override(Kernel)


class Launch(Gpu.Launch):
    """A prepared launch: see Gpu.Kernel.prepare()."""

    def get_block(self) -> "Extent | None":
        """Gets the Gpu.Extent of a work-group, or None if the driver chooses it."""
        is_given, block = Gpu.Launch.get_block(self)
        return block if is_given else None


Launch = override(Launch)
Launch.__signature__ = ConstructorSignature()


class Stream(StreamFileMethods, AsyncStream, Gpu.Stream):
    """A queue of work. Its methods enqueue work and return at once; the stream keeps references to
    memory and data. asyncio can await a stream, and a with statement waits for it at the end.
    Streams with the same native handle in the same driver context are equal."""
    context = _get("context")
    device = _property("device")
    flags = _property("flags")
    native_handle = _get("native_handle")
    priority = _get("priority")
    n_submitted = _property("n_submitted")
    n_completed = _property("n_completed")
    n_hazard_waits = _property("n_hazard_waits")

    def __new__(cls, context, flags=Gpu.StreamFlags.NONE):
        return Gpu.Stream.new(context, flags)

    def __init__(self, *args, **kwargs):
        pass

    def __eq__(self, other):
        return self.equal(other) if isinstance(other, Gpu.Stream) else NotImplemented

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return self.hash()

    def __cuda_stream__(self) -> "tuple[int, int]":
        """The protocol by which other CUDA libraries take this stream: the version of the protocol
        and the native handle. Raises TypeError for a stream of another back end."""
        if self.device.backend != "cuda":
            raise TypeError(f"{self} is not a CUDA stream")
        return 0, self.get_native_handle()

    _is_fast = False    # whether the C module handles a call first, and this class only the rest

    def write(self, destination, data, offset=0, copy=True):
        """Copies bytes-like data to memory. The caller may change the data after the call: mutable
        data are copied first, unless no work is pending and the write can complete at once. With
        copy=False large data are not copied: do not change them before the stream has completed the
        write."""
        if (copy and not Stream._is_fast and isinstance(destination, Gpu.Buffer)
                and not isinstance(data, Bytes)):
            exported = Exported(data)
            try:
                if exported.size >= HELD_SIZE and destination._try(
                        exported, destination.try_write_address, self, offset, exported.address,
                        exported.size):
                    return True
            except NotSupportedError:           # the stream is being captured
                pass
            exported.release()
        data = to_glib_bytes(data, copy)
        destination, offset, _ = to_range(destination, offset, data.get_size(), self,
                                          "destination")
        return destination is None or Gpu.Stream.write(self, destination, offset, data)

    def read(self, source, offset=0, size=None) -> "GLib.Bytes":
        """Enqueues a read. Returns a GLib.Bytes that is valid once the stream has completed the
        read."""
        source, offset, size = to_range(source, offset, size, self, "source")
        return GLib.Bytes.new(b"") if source is None else self.read_bytes(source, offset, size)

    def fill(self, destination, pattern, offset=0, size=None):
        """Fills memory with a repeated pattern: a NumPy scalar, a bytes-like object or an int of
        one byte."""
        destination, offset, size = to_range(destination, offset, size, self, "destination")
        pattern = to_pattern(pattern)
        return destination is None or Gpu.Stream.fill(self, destination, offset, size, pattern)

    def copy(self, destination, source, size=None, destination_offset=0, source_offset=0):
        """Copies memory, by default all of the source. All methods that read, write and fill also
        accept a contiguous Gpu.Array, an array over memory, or a part of such an array, and then
        use its bytes in the memory: see Gpu.memory_of(). Gpu.Array.copy_to_device() copies
        elements."""
        source, source_offset, size = to_range(source, source_offset, size, self, "source")
        destination, destination_offset, size = to_range(destination, destination_offset, size,
                                                         self, "destination")
        if destination is None or source is None:
            return True                 # no bytes, as to_range() has checked
        return Gpu.Stream.copy(self, destination, destination_offset, source, source_offset, size)

    def copy_batch(self, copies):
        """Does many copies at once, in any order: a list of tuples of a destination and a source,
        and optionally the size, the offset in the destination and that in the source, as for
        copy(). No destination may overlap another range."""
        return copy_batch(self, copies)

    def copy_region(self, destination, source, extent, destination_layout=None,
                    source_layout=None):
        """Copies a region of up to three dimensions. A layout is (x, y, z, row_pitch, slice_pitch);
        the last numbers may be omitted."""
        check_destination(destination)
        extent = to_region(extent)
        return lacks_region(extent, destination, source) or Gpu.Stream.copy_region(
            self, memory_of(destination), to_layout(destination_layout), memory_of(source),
            to_layout(source_layout), extent)

    def read_into(self, source, target, offset=0):
        """Reads from memory into a writable, contiguous bytes-like object. The object is valid, and
        may be accessed again, once the stream has completed the read. Returns the number of
        bytes."""
        kept = held(target, True)
        try:
            size = kept.size
            source, offset, _ = to_range(source, offset, size, self, "source")
            if source is not None:
                Gpu.Stream.read_into(self, source, offset, kept.bytes)
            return size
        finally:
            del kept                            # an exception keeps this frame

    def write_region(self, destination, data, extent, destination_layout=None, data_layout=None,
                     copy=True):
        """Copies a region of up to three dimensions from bytes-like data: see copy_region() and
        write()."""
        check_destination(destination)
        extent = to_region(extent)
        return lacks_region(extent, destination) or Gpu.Stream.write_region(
            self, memory_of(destination), to_layout(destination_layout),
            to_glib_bytes(data, copy), to_layout(data_layout), extent)

    def read_region(self, source, extent, source_layout=None):
        """Enqueues a read of a region. Returns a GLib.Bytes without padding between rows, which is
        valid once the stream has completed the read."""
        return Gpu.Stream.read_region(self, memory_of(source), to_layout(source_layout),
                                      to_region(extent))

    def fill_region(self, destination, pattern, extent, layout=None):
        """Fills a region of up to three dimensions with a repeated pattern: see fill() and
        copy_region()."""
        check_destination(destination)
        extent = to_region(extent)
        return lacks_region(extent, destination) or Gpu.Stream.fill_region(
            self, memory_of(destination), to_layout(layout), extent, to_pattern(pattern))

    def migrate(self, memories, flags=Gpu.MigrateFlags.NONE):
        """Moves a list of memory, or of arrays over memory, to the device of the stream, or to the
        host."""
        if isinstance(memories, (Gpu.Memory, Gpu.Array)) or is_over_memory(memories) \
                or not hasattr(memories, "__iter__"):
            raise TypeError(f"memories must be a list of memory, not {reprlib.repr(memories)}"
                            f"{'' if memories is None else ': pass [memory]'}")
        memories = list(memories)
        moved = [to_memory(memory, f"memories[{index}]") for index, memory in enumerate(memories)
                 if not is_empty(memory)]
        return bool(memories) and not moved or Gpu.Stream.migrate(self, moved, flags)

    def map(self, memory, flags=Gpu.MapFlags.NONE, offset=0, size=None):
        """Enqueues a map of memory for the host. The Gpu.Mapping is valid once the stream has
        completed the map."""
        memory, offset, size = to_range(memory, offset, size)
        return Gpu.Stream.map(self, memory, flags, offset, size)

    def read_region_into(self, source, target, extent, source_layout=None, target_layout=None):
        """Reads into a region of a writable, contiguous bytes-like object: see read_into()."""
        kept = held(target, True)
        try:
            return Gpu.Stream.read_region_into(self, memory_of(source), to_layout(source_layout),
                                               kept.bytes, to_layout(target_layout),
                                               to_region(extent))
        finally:
            del kept                            # an exception keeps this frame

    def fill_image(self, image, color, origin=None, extent=None):
        """Fills a region of an image with a Gpu.Color, or with the components of one."""
        return Gpu.Stream.fill_image(self, image, to_color(color), to_origin(origin),
                                     to_region(extent))

    def map_image(self, image, flags=Gpu.MapFlags.NONE, origin=None, extent=None):
        """Enqueues a map of a region of an image for the host. The Gpu.Mapping is valid once the
        stream has completed the map."""
        origin = to_origin(origin)
        extent = checked(image, Gpu.Image, "image")._rest(origin, extent)
        return Gpu.Stream.map_image(self, image, flags, origin, to_extent(extent))

    def launch(self, kernel, grid, block=None, args=(), shared_size=0,
               flags=Gpu.LaunchFlags.NONE, indirect=(), *, allow_empty=False,
               global_offset=None):
        """Launches a kernel over a grid of work-items. The grid is an int or a tuple of up to three
        ints. A grid with a size of 0 is an error; with allow_empty, the launch does nothing.
        global_offset, also an int or a tuple, is added to the global ids. On CUDA, only kernels in
        the portable dialect take an offset.

        An argument is memory, an array over memory, None for a null pointer, a Gpu.MemoryBlock for
        its address, a Gpu.Local, a sampler, (image, sampler) for a texture object of CUDA C++, a
        number, or any other bytes-like object for its bytes. Gpu.In, Gpu.Out and Gpu.InOut copy a
        bytes-like object to device memory before the launch, back after it, or both; with Gpu.Out
        and Gpu.InOut the call waits for the copy back.

        For a parameter that is a number, a NumPy array of one element is that number. Parameters of
        other types, such as float4, a structure or a typedef of the program, take the bytes of the
        array.

        An array of another library is passed in place, if it has __cuda_array_interface__ and the
        context is one of CUDA, or if it has __dlpack__() and the device can access its memory. The
        launch waits for the work on the stream that the array names, and keeps the array alive. For
        a pointer, a NumPy array needs Gpu.In, Gpu.Out or Gpu.InOut. On CUDA, an int is an address.

        List in indirect all memory that the kernel accesses only through pointers stored in other
        memory."""
        return launch(self, kernel, grid, block, args, shared_size, flags, indirect, allow_empty,
                      global_offset)

    def record(self, flags=Gpu.EventFlags.NONE):
        """Returns a Gpu.Event that completes with all work submitted to the stream before this
        call."""
        return Gpu.Stream.record(self, flags)

    def call(self, function, *args):
        """Calls a function when the work submitted so far has completed, on another thread,
        possibly before this method returns: see Gpu.Event.call(). The calls of a stream are made in
        their order. synchronize() does not wait for them: wait for the future."""
        from ._gpumem_call import call
        calls = self.__dict__.setdefault("_calls", collections.deque())
        return call(self.record(), function, args, calls)

    def synchronize(self, cancellable=None, timeout=None):
        """Waits for all work submitted before the call, for at most timeout seconds, a float; None
        is no limit. Raises the error of the work, and Gpu.TimedOutError, which is a TimeoutError,
        at the end of that time. Ctrl-C ends the wait, but not the work."""
        check_cancellable(cancellable)
        if timeout is None and not takes_signals():
            return call_waiting(Gpu.Stream.synchronize, self, cancellable)
        return wait(self.record(), cancellable, timeout, "stream")

    def __await__(self):
        return wait_for(functools.partial(Gpu.Stream.synchronize_async, self),
                        self.synchronize_finish, caller=find_caller(),
                        run=run_behind_submissions).__await__()

    def __enter__(self):
        return self

    def __exit__(self, kind, exception, traceback):
        _synchronize_at_exit(self.synchronize, kind)

    def __repr__(self):
        device = self.device
        return (f"<Gpu.Stream on {device.get_id() if device is not None else 'no device'}, "
                f"{self.props.n_completed} of {self.props.n_submitted} operations completed>")


_advise(Stream, finish="synchronize()", wait="synchronize()", is_done="is_idle()",
        done="is_idle()", query="is_idle()", record_event="record()",
        add_callback="call()", launch_host_func="call()",
        wait_for_event="wait_event()", wait_stream="wait_event(other.record())")
Stream = override(Stream)
set_stream_class(Stream)


class Extent(Gpu.Extent):
    """A size in up to three dimensions: Gpu.Extent(width, height, depth)."""

    def __new__(cls, width, height=1, depth=1):
        return Gpu.Extent.new(width, height, depth)

    def __init__(self, *args, **kwargs):
        pass

    def __iter__(self):
        return iter((self.width, self.height, self.depth))

    def __eq__(self, other):
        return self.equal(other) if isinstance(other, Gpu.Extent) else NotImplemented

    def __ne__(self, other):
        return not self == other

    __hash__ = None

    def __reduce__(self):
        return type(self), tuple(self)

    def __repr__(self):
        return f"Gpu.Extent({self.width}, {self.height}, {self.depth})"


Extent = override(Extent)


class Layout(Gpu.Layout):
    """A position in memory and its pitches: Gpu.Layout(x, y, z, row_pitch, slice_pitch)."""

    def __new__(cls, x=0, y=0, z=0, row_pitch=0, slice_pitch=0):
        return Gpu.Layout.new(x, y, z, row_pitch, slice_pitch)

    def __init__(self, *args, **kwargs):
        pass

    def __iter__(self):
        return iter((self.x, self.y, self.z, self.row_pitch, self.slice_pitch))

    def __eq__(self, other):
        return tuple(self) == tuple(other) if isinstance(other, Gpu.Layout) else NotImplemented

    def __ne__(self, other):
        return not self == other

    __hash__ = None

    def __reduce__(self):
        return type(self), tuple(self)

    def __repr__(self):
        return "Gpu.Layout({}, {}, {}, {}, {})".format(*self)


Layout = override(Layout)


install_repr()


def devices():
    """Returns all devices of all back ends, including unusable devices: see Gpu.Device.check()."""
    return Gpu.Device.list()


# --- C module -------------------------------------------------------------------------------------

def _install_fast():
    """Replaces the most frequently called methods with those of the C module, if the module is
    built. The results are the same. GPUMEM_PYTHON_FAST=0 disables the module, and the warning about
    a missing module."""
    if _native.error is not None:
        warnings.warn(
            "gpumem has no C module for this Python, so calls take several times as long "
            f"({_native.error}). To add it, run '{sys.executable} -m pip install .' in gpumem's "
            "source. GPUMEM_PYTHON_FAST=0 silences this warning.", RuntimeWarning, stacklevel=2)
    if _native.fast is None:
        return
    _native.fast.install(Array, Buffer, Event, Image, Kernel, Mapping, Memory, MemoryPool, Sampler,
                         Stream, Svm, _get_await_context, scopes)
    Stream._is_fast = True
    _gpumem_dlpack.new_capsule = _native.fast.new_dlpack_capsule
    _gpumem_dlpack.take_capsule = _native.fast.take_dlpack_capsule
    Array.__dlpack_c_exchange_api__ = _native.fast.new_exchange(
        Array, _gpumem_dlpack.import_tensor,
        functools.partial(_gpumem_dlpack.alloc_tensor, Array))
    MemoryPool.allocate = MemoryPool.__call__ = MemoryPool.alloc_buffer
    Extent.__iter__ = Layout.__iter__ = lambda self: iter(_native.fast.unpack(self))
    # Constructors in __new__: object.__init__ ignores their arguments without a call of Python
    for kind in (Array, Buffer, Context, HostMemory, Image, MemoryPool, Program, Sampler, Stream,
                 Svm):
        kind.__init__ = object.__init__
        kind.__signature__ = ConstructorSignature()


sys.modules["gi.repository.Gpu"].__doc__ = __doc__
name_methods([one for name, one in list(globals().items())
              if isinstance(one, type) and (hasattr(one, "__info__") or name in __all__)])
for _name in __all__:
    register(globals()[_name], f"Gpu.{_name}")
for _value in Color, Device, DType, Extent, ImageFormat, Layout:
    _value.__module__ = "gi.repository.Gpu"     # pickle.loads() cannot import gi.overrides.Gpu
_install_fast()

# SPDX-License-Identifier: LGPL-2.1-or-later
"""What makes Gpu read like Python.

Bytes-like objects (bytes, bytearray, memoryview, array.array, NumPy arrays, ctypes objects) go to
and from the device at the speed of memcpy: their memory is handed over by address, and never
converted element by element. Arrays that are not C-contiguous are made so first.

Every stream=None stands for the default stream of the context.
"""

import ctypes
import operator
import sys
import weakref

from gi.repository import GLib

from ..module import get_introspection_module
from ..overrides import override
from ._gpumem import (Exported, bytes_address, check_array, is_int, loaded_numpy, new_bytes,
                      to_glib_bytes, to_pattern, wait_for)

Gpu = get_introspection_module("Gpu")

__all__ = ["Local", "devices"]


# --- sizes, layouts and arguments ----------------------------------------------------------------

def _to_numbers(value, most, what):
    numbers = tuple(value) if hasattr(value, "__iter__") else (value,)
    if not 1 <= len(numbers) <= most:
        raise ValueError(f"{what} has 1 to {most} numbers, not {len(numbers)}: {numbers}")
    return tuple(operator.index(number) for number in numbers)


def _to_extent(value):
    """An int or up to three of them, for a Gpu.Extent."""
    if value is None or isinstance(value, Gpu.Extent):
        return value
    numbers = _to_numbers(value, 3, "a size")
    return Gpu.Extent.new(*numbers, *(1,) * (3 - len(numbers)))


def _to_layout(value):
    """Up to five numbers (x, y, z, row_pitch, slice_pitch), for a Gpu.Layout."""
    if value is None or isinstance(value, Gpu.Layout):
        return value
    numbers = _to_numbers(value, 5, "a layout")
    return Gpu.Layout.new(*numbers, *(0,) * (5 - len(numbers)))


class Local:
    """A kernel argument: so many bytes of memory that a work-group shares."""

    def __init__(self, size):
        self.size = size

    def __repr__(self):
        return f"Gpu.Local({self.size})"


def _add_number(arguments, value, type_name):
    """A NumPy number for a parameter whose type is known is a number: it is converted, and refused
    where it does not fit. For any other parameter it is its bytes."""
    numpy = loaded_numpy()
    if not type_name:
        arguments.add_value(value.tobytes())
    elif isinstance(value, (numpy.integer, numpy.bool_)):
        _add_integer(arguments, int(value), type_name)
    elif isinstance(value, numpy.floating):
        arguments.add_double(float(value))
    else:
        arguments.add_value(value.tobytes())


def _add_integer(arguments, value, type_name):
    if type_name in ("ulong", "unsigned long") and 1 << 63 <= value < 1 << 64:
        arguments.add_value(value.to_bytes(8, sys.byteorder))
    else:
        arguments.add_int(value)


def _add_argument(arguments, value, index, type_name):
    numpy = loaded_numpy()
    if value is None or isinstance(value, Gpu.Memory):
        arguments.add_memory(value)
    elif numpy is not None and isinstance(value, numpy.generic):
        _add_number(arguments, value, type_name)
    elif isinstance(value, int):
        _add_integer(arguments, value, type_name)
    elif isinstance(value, float):
        arguments.add_double(value)
    elif isinstance(value, Local):
        arguments.add_local(value.size)
    elif isinstance(value, bytes):
        arguments.add_value(value)
    else:
        try:
            with Exported(value) as exported:
                arguments.add_value(ctypes.string_at(exported.address, exported.size))
        except TypeError:
            raise TypeError(f"argument {index} cannot be a {type(value).__name__}: memory, "
                            "numbers, Gpu.Local, bytes-like objects and None can") from None


def _to_arguments(kernel, values):
    if isinstance(values, Gpu.Arguments):
        return values
    arguments = Gpu.Arguments.new()
    n_known = kernel.get_n_arguments()
    for index, value in enumerate(values):
        type_name = kernel.get_argument_type_name(index) if index < n_known else None
        _add_argument(arguments, value, index, type_name)
    return arguments

# --- classes -------------------------------------------------------------------------------------

class _Attributes:
    """Whatever the driver tells: object.attributes is a dictionary, object.max_work_group_size
    one of them."""

    @property
    def attributes(self):
        return self.get_attributes().unpack()

    def __getattr__(self, name):
        if not name.startswith("_"):
            try:
                return self.attributes[name.replace("_", "-")]
            except (GLib.Error, KeyError):
                pass
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


def _get(name):
    """A read-only property that calls a getter."""
    return property(lambda self: getattr(self, "get_" + name)())


class Device(Gpu.Device, _Attributes):
    id = _get("id")
    name = _get("name")
    backend = _get("backend")
    vendor = _get("vendor")
    platform = _get("platform")
    version = _get("version")
    driver_version = _get("driver_version")
    pci_bus_id = _get("pci_bus_id")
    device_type = _get("device_type")
    capabilities = _get("capabilities")
    memory_size = _get("memory_size")
    max_allocation = _get("max_allocation")
    base_alignment = _get("base_alignment")

    def __new__(cls, name=None):
        return Gpu.Device.get_default() if name is None else Gpu.Device.find(name)

    def __init__(self, *args, **kwargs):
        pass

    def __eq__(self, other):
        return self.equal(other) if isinstance(other, Gpu.Device) else NotImplemented

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return self.hash()

    def __repr__(self):
        return f"<Gpu.Device {self.get_id()} '{self.get_name()}'>"


Device = override(Device)


class Context(Gpu.Context):
    """Gpu.Context() is one for the default device, Gpu.Context("host") for a device by name. As
    the context of a with statement it waits for all of its streams at the end."""
    device = _get("device")
    devices = property(lambda self: self.list_devices())
    default_stream = _get("default_stream")
    allocated_size = _get("allocated_size")

    def __new__(cls, device=None):
        if device is None:
            return Gpu.Context.new_default()
        if isinstance(device, str):
            device = Gpu.Device.find(device)
        if isinstance(device, Gpu.Device):
            return Gpu.Context.new(device)
        return Gpu.Context.new_for_devices(list(device))

    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, kind, exception, traceback):
        _synchronize_at_exit(lambda: self.synchronize(), kind)

    def __repr__(self):
        names = ", ".join(device.get_id() for device in self.list_devices())
        return f"<Gpu.Context on {names}>"


Context = override(Context)


def _synchronize_at_exit(synchronize, kind):
    """An error of the device does not hide the exception that ended the block."""
    try:
        synchronize()
    except GLib.Error:
        if kind is None:
            raise


class Memory(Gpu.Memory, _Attributes):
    """Equal to what has the same native handle; released at the end of a with statement."""
    context = _get("context")
    flags = _get("flags")
    size = _get("size")
    native_handle = _get("native_handle")
    device_address = _get("device_address")
    released = property(lambda self: self.is_released())

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


def _rest(memory, offset, size):
    return max(memory.get_size() - offset, 0) if size is None else size


class Buffer(Gpu.Buffer):
    """Gpu.Buffer(context, size) or Gpu.Buffer(context, data). buffer[a:b] is a slice of it, which
    shares its memory."""
    offset = _get("offset")
    parent = _get("parent")
    row_pitch = _get("row_pitch")

    def __new__(cls, context, size_or_data, flags=Gpu.MemoryFlags.NONE):
        if is_int(size_or_data):
            return Gpu.Buffer.new(context, flags, int(size_or_data))
        return cls.new_from_data(context, size_or_data, flags)

    def __init__(self, *args, **kwargs):
        pass

    @classmethod
    def new_from_data(cls, context, data, flags=Gpu.MemoryFlags.NONE):
        """A buffer that begins with a copy of bytes-like data."""
        barred = Gpu.MemoryFlags.HOST_READ_ONLY | Gpu.MemoryFlags.HOST_NO_ACCESS
        if isinstance(data, GLib.Bytes) or flags & barred:
            return Gpu.Buffer.new_from_bytes(context, flags, to_glib_bytes(data))
        with Exported(data) as exported:
            buffer = Gpu.Buffer.new(context, flags, exported.size)
            buffer.write_address(None, 0, exported.address, exported.size)
        return buffer

    def write(self, data, offset=0, stream=None):
        """Copies bytes-like data into the buffer and waits until they are there."""
        if isinstance(data, GLib.Bytes):
            return self.write_bytes(stream, offset, data, None)
        with Exported(data) as exported:
            return self.write_address(stream, offset, exported.address, exported.size)

    def read(self, offset=0, size=None, stream=None):
        """The content of the buffer, or of a part of it, as bytes."""
        size = _rest(self, offset, size)
        if not 0 < size <= self.get_size():
            return self.read_bytes(stream, offset, size, None).get_data() or b""
        data = new_bytes(None, size)
        self.read_address(stream, offset, bytes_address(data), size)
        return data

    def read_into(self, target, offset=0, stream=None):
        """Fills a writable bytes-like object from the buffer, without another copy if it is
        contiguous. Returns the number of bytes."""
        try:
            exported = Exported(target, writable=True)
        except (BufferError, ValueError):
            numpy = loaded_numpy()
            if numpy is None or not isinstance(target, numpy.ndarray) or not target.flags.writeable:
                raise
            target[...] = self.to_numpy(target.dtype, target.shape, offset, stream)
            return target.nbytes
        with exported:
            self.read_address(stream, offset, exported.address, exported.size)
            return exported.size

    def to_numpy(self, dtype="uint8", shape=None, offset=0, stream=None):
        """A new NumPy array with the content of the buffer."""
        import numpy
        dtype = numpy.dtype(dtype)
        if shape is None:
            shape = _rest(self, offset, None) // dtype.itemsize
        count = int(numpy.prod(shape, dtype=object))
        if offset + count * dtype.itemsize > self.get_size():
            raise ValueError(f"shape {shape} of {dtype} at offset {offset} is larger than the "
                             f"{self.get_size()} bytes of the buffer")
        array = numpy.empty(shape, dtype)
        check_array(array)
        if array.nbytes > 0:
            self.read_address(stream, offset, array.ctypes.data, array.nbytes)
        return array

    def fill(self, pattern, offset=0, size=None, stream=None):
        """Repeats a pattern, a NumPy scalar, a bytes-like object or an int of one byte, over the
        buffer and waits until it is there."""
        return Gpu.Buffer.fill(self, stream, offset, _rest(self, offset, size),
                               to_pattern(pattern), None)

    def copy(self, source, offset=0, source_offset=0, size=None, stream=None):
        """Copies another buffer into this one and waits until it is there."""
        return Gpu.Buffer.copy(self, stream, offset, source, source_offset,
                               _rest(source, source_offset, size), None)

    def map(self, flags=Gpu.MapFlags.NONE, offset=0, size=None, stream=None):
        """The buffer in the memory of the host: see Gpu.Mapping."""
        return Gpu.Buffer.map(self, stream, flags, offset, _rest(self, offset, size), None)

    async def read_async(self, offset=0, size=None, stream=None):
        """read() for asyncio."""
        data = await wait_for(
            lambda cancellable, callback: self.read_bytes_async(
                stream, offset, _rest(self, offset, size), cancellable, callback),
            self.read_bytes_finish)
        return data.get_data()

    async def write_async(self, data, offset=0, stream=None):
        """write() for asyncio. The data are copied first."""
        data = to_glib_bytes(data)
        return await wait_for(
            lambda cancellable, callback: self.write_bytes_async(
                stream, offset, data, cancellable, callback),
            self.write_bytes_finish)

    def __getitem__(self, key):
        if not isinstance(key, slice):
            raise TypeError("a buffer has slices, buffer[a:b], and no elements: read() gives those")
        start, stop, step = key.indices(self.get_size())
        if step != 1:
            raise ValueError(f"a slice of a buffer has step 1, not {step}")
        return self.slice(start, max(stop - start, 0))


Buffer = override(Buffer)


class Mapping(Gpu.Mapping):
    """A part of a buffer in the memory of the host, unmapped at the end of a with statement or
    with the last reference.

    numpy.asarray (mapping) and view() show that memory, without a copy. They keep the mapping
    alive, and as long as one of them lives unmap() raises BufferError, as close() of an mmap.mmap
    does. Read-only mappings give read-only views."""
    memory = _get("memory")
    flags = _get("flags")
    size = _get("size")
    address = _get("address")
    row_pitch = _get("row_pitch")
    slice_pitch = _get("slice_pitch")

    def _export(self):
        """The ctypes array that all views of this mapping hold."""
        if not self.is_mapped():
            raise GLib.Error.new_literal(Gpu.error_quark(), "the mapping is unmapped",
                                         Gpu.Error.RELEASED)
        exported = self._exported() if hasattr(self, "_exported") else None
        if exported is None:
            exported = (ctypes.c_uint8 * self.get_size()).from_address(self.get_address())
            exported._owner = self
            self._exported = weakref.ref(exported)
        return exported

    def view(self):
        """A memoryview of the mapped bytes."""
        view = memoryview(self._export()).cast("B")
        flags = self.get_flags()
        writes = Gpu.MapFlags.WRITE | Gpu.MapFlags.WRITE_INVALIDATE
        return view if flags & writes or not flags else view.toreadonly()

    def to_numpy(self, dtype="uint8", shape=-1):
        """A NumPy array over the mapped bytes."""
        import numpy
        return numpy.asarray(self).view(dtype).reshape(shape)

    @property
    def __array_interface__(self):
        return {"version": 3, "shape": (self.get_size(),), "typestr": "|u1", "data": self.view()}

    def unmap(self):
        if hasattr(self, "_exported") and self._exported() is not None:
            raise BufferError("a mapping cannot be unmapped while views of it exist")
        return Gpu.Mapping.unmap(self)

    def __len__(self):
        return self.get_size()

    def __bool__(self):
        return True

    def __getitem__(self, key):
        item = self.view()[key]
        return bytes(item) if isinstance(key, slice) else item

    def __setitem__(self, key, value):
        self.view()[key] = value

    __iter__ = None

    def __bytes__(self):
        return bytes(self.view())

    def __enter__(self):
        return self

    def __exit__(self, kind, exception, traceback):
        if not self.is_mapped():
            return
        try:
            self.unmap()
        except (BufferError, GLib.Error):
            # A traceback may well hold the views: what went wrong first is what counts.
            if kind is None:
                raise

    def __repr__(self):
        if not self.is_mapped():
            return "<Gpu.Mapping unmapped>"
        return f"<Gpu.Mapping of {self.get_size()} bytes at 0x{self.get_address():x}>"


Mapping = override(Mapping)


class Event(Gpu.Event):
    """Can be awaited under asyncio. Connecting to 'completed' starts to watch for it."""
    context = _get("context")

    def connect(self, signal, *args):
        return self._connect(super().connect, signal, args)

    def connect_after(self, signal, *args):
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

    def wait(self, cancellable=None):
        return Gpu.Event.wait(self, cancellable)

    def get_elapsed(self, since):
        """Nanoseconds since another event."""
        return _last(Gpu.Event.get_elapsed(self, since))

    def get_profiling_time(self, point):
        """Nanoseconds on the clock of the device."""
        return _last(Gpu.Event.get_profiling_time(self, point))

    def __await__(self):
        return wait_for(self.wait_async, self.wait_finish).__await__()


Event = override(Event)


def _last(result):
    return result[-1] if isinstance(result, tuple) else result


class Program(Gpu.Program):
    """Gpu.Program(context, source). program.scale is a new Gpu.Kernel with the name scale."""
    build_log = _get("build_log")
    binary = _get("binary")
    context = _get("context")
    options = _get("options")
    source = _get("source")
    kernels = property(lambda self: self.list_kernels())

    def __new__(cls, context, source, options=None):
        return Gpu.Program.new_from_source(context, source, options)

    def __init__(self, *args, **kwargs):
        pass

    @classmethod
    def new_from_source(cls, context, source, options=None):
        return Gpu.Program.new_from_source(context, source, options)

    def __getattr__(self, name):
        if not name.startswith("_"):
            try:
                return self.get_kernel(name)
            except GLib.Error as error:
                raise AttributeError(f"the program has no kernel '{name}': "
                                     f"{error.message}") from None
        raise AttributeError(name)


Program = override(Program)


class Kernel(Gpu.Kernel, _Attributes):
    """Launched by a call: kernel (stream, grid, block, *arguments)."""
    name = _get("name")
    n_arguments = _get("n_arguments")
    program = _get("program")

    def __call__(self, stream, grid, block=None, *args):
        return stream.launch(self, grid, block, args)

    def __repr__(self):
        return f"<Gpu.Kernel {self.get_name()}>"


Kernel = override(Kernel)


class Stream(Gpu.Stream):
    """Its methods enqueue work and return at once; memory and data may be dropped right away. It
    can be awaited under asyncio, and a with statement waits for it at the end."""
    context = _get("context")
    device = _get("device")
    flags = _get("flags")
    priority = _get("priority")
    n_submitted = _get("n_submitted")
    n_completed = _get("n_completed")
    n_hazard_waits = _get("n_hazard_waits")

    def __new__(cls, context, flags=Gpu.StreamFlags.NONE):
        return Gpu.Stream.new(context, flags)

    def __init__(self, *args, **kwargs):
        pass

    def write(self, destination, data, offset=0):
        """Copies bytes-like data to memory. They are copied before the call returns."""
        return Gpu.Stream.write(self, destination, offset, to_glib_bytes(data))

    def read(self, source, offset=0, size=None):
        """A GLib.Bytes that holds the content of memory once the stream got there."""
        return self.read_bytes(source, offset, _rest(source, offset, size))

    def fill(self, destination, pattern, offset=0, size=None):
        """Repeats a pattern: a NumPy scalar, a bytes-like object or an int of one byte."""
        return Gpu.Stream.fill(self, destination, offset, _rest(destination, offset, size),
                               to_pattern(pattern))

    def copy(self, destination, source, size=None, destination_offset=0, source_offset=0):
        """Copies memory, by default all of the source."""
        return Gpu.Stream.copy(self, destination, destination_offset, source, source_offset,
                               _rest(source, source_offset, size))

    def copy_region(self, destination, source, extent, destination_layout=None,
                    source_layout=None):
        """Copies up to three dimensions. Layouts are (x, y, z, row_pitch, slice_pitch), of which
        the last may be left out."""
        return Gpu.Stream.copy_region(self, destination, _to_layout(destination_layout), source,
                                      _to_layout(source_layout), _to_extent(extent))

    def write_region(self, destination, data, extent, destination_layout=None, data_layout=None):
        return Gpu.Stream.write_region(self, destination, _to_layout(destination_layout),
                                       to_glib_bytes(data), _to_layout(data_layout),
                                       _to_extent(extent))

    def read_region(self, source, extent, source_layout=None):
        """A GLib.Bytes that holds the region, tightly, once the stream got there."""
        return Gpu.Stream.read_region(self, source, _to_layout(source_layout), _to_extent(extent))

    def fill_region(self, destination, pattern, extent, layout=None):
        return Gpu.Stream.fill_region(self, destination, _to_layout(layout), _to_extent(extent),
                                      to_pattern(pattern))

    def migrate(self, memories, flags=Gpu.MigrateFlags.NONE):
        return Gpu.Stream.migrate(self, list(memories), flags)

    def map(self, memory, flags=Gpu.MapFlags.NONE, offset=0, size=None):
        """The memory is right once the stream got there."""
        return Gpu.Stream.map(self, memory, flags, offset, _rest(memory, offset, size))

    def launch(self, kernel, grid, block=None, args=()):
        """Runs a kernel over a grid of work-items, an int or up to three of them. Arguments are
        memory, None, Gpu.Local, numbers, and anything bytes-like by its bytes."""
        return self.launch_arguments(kernel, _to_extent(grid), _to_extent(block),
                                     _to_arguments(kernel, args))

    def record(self, flags=Gpu.EventFlags.NONE):
        return Gpu.Stream.record(self, flags)

    def synchronize(self, cancellable=None):
        return Gpu.Stream.synchronize(self, cancellable)

    def __await__(self):
        return wait_for(self.synchronize_async, self.synchronize_finish).__await__()

    def __enter__(self):
        return self

    def __exit__(self, kind, exception, traceback):
        _synchronize_at_exit(self.synchronize, kind)

    def __repr__(self):
        device = self.get_device()
        return (f"<Gpu.Stream on {device.get_id() if device is not None else 'no device'}, "
                f"{self.get_n_completed()} of {self.get_n_submitted()} operations completed>")


Stream = override(Stream)


class Extent(Gpu.Extent):
    """Gpu.Extent(width, height, depth)."""

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

    def __repr__(self):
        return f"Gpu.Extent({self.width}, {self.height}, {self.depth})"


Extent = override(Extent)


class Layout(Gpu.Layout):
    """Gpu.Layout(x, y, z, row_pitch, slice_pitch)."""

    def __new__(cls, x=0, y=0, z=0, row_pitch=0, slice_pitch=0):
        return Gpu.Layout.new(x, y, z, row_pitch, slice_pitch)

    def __init__(self, *args, **kwargs):
        pass

    def __iter__(self):
        return iter((self.x, self.y, self.z, self.row_pitch, self.slice_pitch))

    def __repr__(self):
        return "Gpu.Layout({}, {}, {}, {}, {})".format(*self)


Layout = override(Layout)


def devices():
    """Every device of every back end, also those that cannot be used: see Gpu.Device.check()."""
    return Gpu.Device.list()

# SPDX-License-Identifier: LGPL-2.1-or-later
"""NumPy arrays over memory that host and device share, and the lookup of the memory of an array."""

import ctypes

from ..module import get_introspection_module
from ._gpumem import check_array, loaded_numpy
from ._gpumem_checks import to_index
from ._gpumem_dlpack import import_foreign
from ._gpumem_names import find_caller

Gpu = get_introspection_module("Gpu")


def export(memory, data, readonly=False):
    """Returns a memoryview of host-accessible memory. The view keeps a reference to the memory and
    to data, the GLib.Bytes of the memory."""
    exported = (ctypes.c_uint8 * memory.get_size()).from_address(memory.address)
    exported._owner = data
    exported._memory = memory
    view = memoryview(exported).cast("B")
    return view.toreadonly() if readonly else view


class Form:
    """The dtype, shape and strides of a NumPy array."""

    def __init__(self, array):
        check_array(array)
        self.dtype = array.dtype
        self.shape = array.shape
        self.strides = array.strides
        self.size = array.nbytes

    @classmethod
    def of(cls, shape, dtype, order):
        import numpy
        return cls(numpy.empty(shape, dtype, order))

    @classmethod
    def like(cls, array, dtype, order, shape):
        import numpy
        return cls(numpy.empty_like(array, dtype, order, False, shape))

    def over(self, data):
        """Returns an array of this form over bytes-like data."""
        import numpy
        return numpy.ndarray(self.shape, self.dtype, data, strides=self.strides)


def zeroed(array):
    """Clears an array, and returns it."""
    ctypes.memset(array.__array_interface__["data"][0], 0, array.nbytes)
    return array


def check_context(context):
    if not isinstance(context, Gpu.Context):
        raise TypeError(f"context must be a Gpu.Context, not {context!r}")


class ArrayMethods:
    """Class methods that allocate memory and return a NumPy array over it. Subclasses implement
    _for_form(), which allocates."""

    @classmethod
    def _array(cls, context, form, **kwargs):
        # Arrays may be empty, memory may not: _for_form() allocates at least one byte.
        return form.over(cls._for_form(context, form, **kwargs).view())

    @classmethod
    def empty(cls, context, shape, dtype=float, order="C", **kwargs):
        """Returns a NumPy array over new memory, like numpy.empty(). The array and its views keep
        the memory allocated. Gpu.memory_of() returns the memory; kernels and copies accept the
        array in place of the memory. The keywords are those of the constructor."""
        check_context(context)
        return cls._array(context, Form.of(shape, dtype, order), **kwargs)

    @classmethod
    def zeros(cls, context, shape, dtype=float, order="C", **kwargs):
        """Like empty(), but filled with zeros."""
        return zeroed(cls.empty(context, shape, dtype, order, **kwargs))

    @classmethod
    def empty_like(cls, context, array, dtype=None, order="K", shape=None, **kwargs):
        """Like empty(), with the shape, type and order of an array, as in numpy.empty_like()."""
        check_context(context)
        return cls._array(context, Form.like(array, dtype, order, shape), **kwargs)

    @classmethod
    def zeros_like(cls, context, array, dtype=None, order="K", shape=None, **kwargs):
        """Like empty_like(), but filled with zeros."""
        return zeroed(cls.empty_like(context, array, dtype, order, shape, **kwargs))


# --- from arrays to memory -----------------------------------------------------------------------

def _exported_under(array):
    """Returns the ctypes array of export() under a NumPy array; None for any other object."""
    numpy = loaded_numpy()
    data = array if numpy is not None and isinstance(array, numpy.ndarray) else None
    while data is not None:
        if isinstance(data, ctypes.Array):
            return data if hasattr(data, "_memory") else None
        data = data.obj if isinstance(data, memoryview) else getattr(data, "base", None)
    return None


def is_over_memory(array):
    return _exported_under(array) is not None


# How to copy between memory and an array of the host
_ADVICE = {"destination": ": Stream.read_into() reads into an array of the host",
           "source": ": Stream.write() writes from an array of the host"}


def _locate(array, stream=None, name="memory"):
    """Returns the memory under an array, and the offset and size of the array in it. With a CUDA
    stream, the array may be of another library."""
    is_ours = isinstance(array, Gpu.Array)
    exported = None if is_ours else _exported_under(array)
    if exported is None and not is_ours and isinstance(stream, Gpu.Stream):
        foreign = import_foreign(stream.get_context(), array, name)
        is_ours, array = foreign is not None, array if foreign is None else foreign
    if exported is None and not is_ours:
        caller = find_caller()
        advice = _ADVICE.get(name, "") if caller == "Stream.copy" else ""
        raise TypeError(f"{f'{caller}: ' if caller else ''}{name} must be Gpu.Memory, a Gpu.Array "
                        f"or an array over Gpu memory, not '{type(array).__name__}'{advice}")
    if is_ours and name == "destination":
        check_destination(array)
    if not array.flags.forc:
        raise ValueError(f"an array of shape {array.shape} and strides {array.strides} is not "
                         "contiguous: its bytes are not one range of the memory")
    if is_ours:
        memory = array.memory if name in ("destination", "source") else _check_memory(array)
        return memory, array.offset, array.nbytes
    offset = array.__array_interface__["data"][0] - ctypes.addressof(exported)
    return exported._memory, offset, array.nbytes


def check_destination(array):
    """Raises ValueError if elements of a Gpu.Array, or of an array that it views, may share memory.
    The flags of the memory are left to the library."""
    if isinstance(array, Gpu.Array) and array.shares_bytes:
        raise ValueError(f"an array of shape {array.shape} and strides {array.strides} cannot be "
                         f"written: its elements of {array.dtype.itemsize} bytes, or those of an "
                         "array that it views, may share memory")


def is_empty(value):
    """Returns whether a value is a Gpu.Array without elements."""
    return isinstance(value, Gpu.Array) and value.nbytes == 0


def lacks_region(extent, *values):
    """Returns whether a region has no bytes, as it must in a Gpu.Array without elements. The
    library checks regions of memory."""
    return (extent is not None and 0 in (extent.width, extent.height, extent.depth)
            and any(map(is_empty, values)))


def _check_memory(array):
    if array.memory is None:
        raise ValueError(f"an array of shape {array.shape} has no bytes")
    return array.memory


def memory_of(array):
    """Returns the memory under a contiguous Gpu.Array, or under a NumPy array over Gpu.HostMemory
    or Gpu.Svm. If the array covers only a part of the memory, returns a Gpu.Buffer over that part,
    whose offset must be a multiple of the base_alignment of the device."""
    return to_memory(array, "memory")


def to_memory(array, name):
    """Returns memory_of() of an argument of this name."""
    if isinstance(array, Gpu.Memory):
        return array
    memory, offset, size = _locate(array, name=name)
    if size == 0:
        raise ValueError(f"an array of shape {array.shape} has no bytes")
    if size == memory.get_size():
        return memory
    return Gpu.Buffer.new_for_memory(memory, offset, size)


def to_range(value, offset, size=None, stream=None, name="memory"):
    """Returns (memory, offset, size) for a range of memory or of an array over memory. Without a
    size, the range reaches to the end. With a stream, also accepts CUDA arrays of other
    libraries. name is the argument, for errors of such an array. The memory of a "source" or a
    "destination" is None for a Gpu.Array without elements."""
    if type(offset) is not int:
        offset = to_index(offset, "offset")
    if size is not None and type(size) is not int:
        size = to_index(size, "size")
    if isinstance(value, Gpu.Memory):
        return value, offset, max(value.get_size() - offset, 0) if size is None else size
    memory, start, length = _locate(value, stream, name)
    rest = length - offset
    if offset < 0 or rest < 0 or size is not None and size > rest:
        raise ValueError(f"{'' if size is None else f'{size} bytes at '}offset {offset} reach past "
                         f"the {length} bytes of the array")
    return memory, start + offset, rest if size is None else size

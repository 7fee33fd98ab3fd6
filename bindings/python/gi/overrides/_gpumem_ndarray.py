# SPDX-License-Identifier: LGPL-2.1-or-later
"""Gpu.Array and Gpu.DType: device arrays with the interface of NumPy arrays."""

import operator
import reprlib

from gi.repository import GLib

from ..module import get_introspection_module
from ._gpumem import (_get_await_context, check_array, drop_elsewhere, loaded_numpy, run_copy,
                      submit_and_wait, submit_on, takes_signals, to_glib_bytes, wait_for)
from ._gpumem_array_convert import (ArrayConversions, list_raveled_axes, new_in_order, to_bfloat,
                                    to_order)
from ._gpumem_array_operators import ArrayOperators, compute_once
from ._gpumem_array_text import ArrayText
from ._gpumem_checks import describe, get_stream, to_index
from ._gpumem_dlpack import DLPackMethods, get_descr
from ._gpumem_errors import BusyError, InvalidArgumentError, NotSupportedError
from ._gpumem_native import fast
from ._gpumem_rows import advise_rows, is_list_of_rows
from ._gpumem_scope import get_current_allocator, to_allocator

Gpu = get_introspection_module("Gpu")

_LEAST, _MOST = GLib.MININT64, GLib.MAXINT64

_ORDERS = {"C": Gpu.ArrayOrder.C, "F": Gpu.ArrayOrder.F}


# --- types ---------------------------------------------------------------------------------------

def _from_numpy_dtype(dtype):
    if dtype.name == "bfloat16":
        return Gpu.DType.new_from_string("bfloat16")
    if dtype.subdtype is not None:
        raise TypeError(f"dtype {dtype} has dimensions: pass its base {dtype.base} as the dtype, "
                        f"and append {dtype.shape} to the shape")
    if dtype.kind in "mMSU":
        advice = f", or as 'V{dtype.itemsize}'" if dtype.itemsize > 0 else ""
        raise TypeError(f"devices have no elements of dtype {dtype}: view the array as numbers"
                        f"{advice}")
    if dtype.isbuiltin == 2:                    # of another package: its text is "<V1" or "<f1"
        view = f"uint{8 * dtype.itemsize}" if dtype.itemsize in (1, 2, 4, 8) \
            else f"V{dtype.itemsize}"
        raise TypeError(f"devices have no elements of dtype {dtype}: view the array as numbers, "
                        f"with view('{view}')")
    if not dtype.isnative and dtype.names is None:
        native = dtype.newbyteorder("=").str
        raise NotSupportedError(f"dtype {dtype.str} is not in the byte order of the host: convert "
                                f"an array with array.astype({native!r})")
    if dtype.names is None:
        return Gpu.DType.new_from_string(dtype.str)
    record = Gpu.DType.new_record(dtype.itemsize)
    for name in dtype.names:
        field, offset = dtype.fields[name][:2]
        record = record.add_field(name, _from_numpy_dtype(field.base), offset, field.shape)
    return record


# The types of NumPy's own numbers, by number. Types of other byte order have the same number.
_known_dtypes = {}
# The NumPy dtypes of plain numbers, by their texts
_numpy_dtypes = {}


def _find_bfloat():
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError("NumPy has no bfloat16 without the package ml_dtypes: install ml_dtypes, "
                        "or view the bits with array.view('uint16')") from None
    return ml_dtypes.bfloat16


def _is_pickled_record(value):
    """Returns whether a value is the dictionary of DType.__reduce__(), not one of NumPy."""
    return (isinstance(value, dict) and value.keys() == {"names", "formats", "offsets", "itemsize"}
            and all(isinstance(form, tuple) and form and isinstance(form[0], Gpu.DType)
                    for form in value["formats"]))


def _from_pickled_record(names, formats, offsets, itemsize):
    record = Gpu.DType.new_record(itemsize)
    for name, (field, shape), offset in zip(names, formats, offsets):
        record = record.add_field(name, field, offset, shape)
    return record


def to_dtype(value):
    """Converts a Gpu.DType, its name, or anything that numpy.dtype() accepts."""
    if isinstance(value, Gpu.DType):
        return value
    if _is_pickled_record(value):
        return _from_pickled_record(**value)
    if isinstance(value, str):
        try:
            return Gpu.DType.new_from_string(value)
        except GLib.Error:
            pass
    import numpy
    dtype = numpy.dtype(value)
    known = _known_dtypes.get(dtype.num)
    if known is not None and known[0] is dtype:
        return known[1]
    if dtype.hasobject:
        raise TypeError(f"elements of dtype {dtype} are Python objects, not data")
    result = _from_numpy_dtype(dtype)
    if dtype.isbuiltin == 1:
        _known_dtypes[dtype.num] = dtype, result
    return result


class DTypeMethods:
    """Gpu.DType("float32"): the type of an element, from its name or anything that numpy.dtype()
    accepts. numpy() returns the NumPy dtype."""
    kind = property(lambda self: self.get_kind())
    itemsize = property(lambda self: self.get_item_size(), doc="The size of an element in bytes.")
    name = property(lambda self: self.get_name())
    str = property(lambda self: self.to_string(),
                   doc="The type string of NumPy's array interface, such as '<f4'.")
    format = property(lambda self: self.to_format(),
                      doc="The format of Python's buffer protocol, such as 'f'.")

    def __new__(cls, value):
        return to_dtype(value)

    def __init__(self, *args, **kwargs):
        pass

    def add_field(self, name, dtype, offset, shape=()):
        """Returns a new type with an additional field."""
        return Gpu.DType.add_field(self, name, to_dtype(dtype), offset, list(shape))

    @property
    def fields(self):
        """{name: (type, offset, shape)}"""
        return {self.get_field_name(i): (self.get_field_type(i), self.get_field_offset(i),
                                         tuple(self.get_field_shape(i) or ()))
                for i in range(self.get_n_fields())}

    def numpy(self):
        """Returns the NumPy dtype. For bfloat16 this needs the package ml_dtypes, and raises
        TypeError without it."""
        text = self.to_string()
        dtype = _numpy_dtypes.get(text)
        if dtype is not None:
            return dtype
        import numpy
        if self.get_kind() == Gpu.DTypeKind.BFLOAT:
            return numpy.dtype(_find_bfloat())
        if self.get_kind() != Gpu.DTypeKind.RECORD:
            dtype = numpy.dtype(text)
            if dtype.kind != "V":               # whose text is also that of records
                _numpy_dtypes[text] = dtype
            return dtype
        fields = self.fields
        return numpy.dtype({"names": list(fields),
                            "formats": [(field.numpy(), shape) if shape else field.numpy()
                                        for field, _, shape in fields.values()],
                            "offsets": [offset for _, offset, _ in fields.values()],
                            "itemsize": self.get_item_size()})

    def __eq__(self, other):
        return self.equal(other) if isinstance(other, Gpu.DType) else NotImplemented

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return self.hash()

    def __copy__(self):
        return self                             # types are immutable

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        if self.get_kind() != Gpu.DTypeKind.RECORD:
            return type(self), (self.to_string(),)
        # The dictionary that numpy.dtype() accepts, but with types that NumPy may lack
        fields = self.fields
        return type(self), ({"names": list(fields), "itemsize": self.get_item_size(),
                             "formats": [(field, shape) for field, _, shape in fields.values()],
                             "offsets": [offset for _, offset, _ in fields.values()]},)

    def __repr__(self):
        fields = "".join(f", {name!r} at {offset}" for name, (_, offset, _) in self.fields.items())
        return f"Gpu.DType({self.get_name()!r}{fields})"


# --- the memory of NumPy's arrays ----------------------------------------------------------------

def _get_range(shape, strides, itemsize):
    """Returns the offset of the first element in the bytes of the elements, and the size of these
    bytes."""
    if not all(length > 0 for length in shape):
        return 0, 0
    steps = [stride * (length - 1) for stride, length in zip(strides, shape)]
    below = sum(step for step in steps if step < 0)
    above = sum(step for step in steps if step > 0)
    return -below, above - below + itemsize


class _Held:
    """The bytes of a NumPy array, from the lowest to the highest address of its elements."""

    def __init__(self, array):
        check_array(array)
        interface = array.__array_interface__
        self.offset, size = _get_range(array.shape, array.strides, array.itemsize)
        # The callback must not refer to self. Otherwise self, self.bytes and the callback would be
        # a cycle, which the garbage collector cannot detect, because self.bytes is an object in C.
        kept = [array]
        self.release = kept.clear
        self.bytes = Gpu.bytes_new_for_address(interface["data"][0] - self.offset, size,
                                               _get_await_context(),
                                               lambda *args: drop_elsewhere(kept))


def _transfer(stream, submit, array, target, writable):
    """Submits a transfer between a Gpu.Array and a NumPy array, and waits."""
    kept = fast.hold(target, writable) if fast and target.flags.c_contiguous else None
    if kept is None:
        held = _Held(target)
        submit_and_wait(stream, lambda: submit(stream, array, held.bytes, held.offset,
                                               list(target.strides)))
        held.release()
        return
    with kept:
        submit_and_wait(stream, lambda: submit(stream, array, kept.bytes, 0, None))     # in C order


class _HostView:
    """Exposes host-accessible memory to NumPy. NumPy holds this object, and thereby the array."""

    def __init__(self, array, interface):
        self._array = array
        self.__array_interface__ = interface


class Flags:
    """The flags of an array: c_contiguous, f_contiguous, contiguous and forc. As in NumPy, a flag
    is also an item: flags["C_CONTIGUOUS"] or flags["C"]."""
    _ITEMS = {"C": "c_contiguous", "C_CONTIGUOUS": "c_contiguous", "F": "f_contiguous",
              "F_CONTIGUOUS": "f_contiguous", "FORC": "forc"}

    def __init__(self, array):
        self.c_contiguous = array.is_contiguous(Gpu.ArrayOrder.C)
        self.f_contiguous = array.is_contiguous(Gpu.ArrayOrder.F)

    contiguous = property(lambda self: self.c_contiguous or self.f_contiguous)
    forc = contiguous

    def __getitem__(self, name):
        if name not in self._ITEMS:
            raise KeyError(f"{name!r} is none of the flags {', '.join(self._ITEMS)}")
        return getattr(self, self._ITEMS[name])

    def __repr__(self):
        return f"c_contiguous={self.c_contiguous}, f_contiguous={self.f_contiguous}"


def _to_shape(shape):
    if isinstance(shape, (str, bytes)):
        raise TypeError(f"the shape must be a number or a tuple of numbers, not {shape!r}: the "
                        "type is the argument after the shape")
    kind = getattr(getattr(shape, "dtype", None), "kind", "i")
    if (hasattr(shape, "ndim") and hasattr(shape, "__iter__")
            and (shape.ndim > 1 or kind not in "iu")):
        raise TypeError(f"the shape must be a number or a tuple of numbers, not {describe(shape)}: "
                        "Gpu.Array.from_numpy() copies an array")
    is_sequence = hasattr(shape, "__iter__") and getattr(shape, "ndim", 1) > 0
    return [to_index(length, "a length of the shape")
            for length in (shape if is_sequence else (shape,))]


def _to_strides(strides):
    if not hasattr(strides, "__iter__"):
        return [to_index(strides, "strides")]
    return [to_index(stride, f"strides[{i}]") for i, stride in enumerate(strides)]


def _to_order(order):
    if order not in _ORDERS:
        raise ValueError(f"order must be 'C' or 'F', not {order!r}")
    return _ORDERS[order]


def _source(context, allocator):
    """Returns (context, allocator). An allocator is accepted in place of the context."""
    if isinstance(context, Gpu.Allocator):
        return None, context
    if allocator is None and not isinstance(context, Gpu.Context):
        raise TypeError("context must be a Gpu.Context or a Gpu.Allocator, not "
                        f"{reprlib.repr(context)}")
    if allocator is None:
        return context, get_current_allocator(context)
    return context, to_allocator(context, allocator)


def _to_element(value, dtype):
    """Returns the bytes of a value as an element. Bytes are the bytes of an element."""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    import numpy
    if dtype.kind != Gpu.DTypeKind.BFLOAT:
        return numpy.asarray(value, dtype.numpy()).tobytes()
    return to_bfloat(value).tobytes()


def _broadcast(data, shape):
    import numpy
    try:
        return numpy.broadcast_to(data, shape)
    except ValueError:
        raise ValueError(f"data of shape {data.shape} cannot be written to an array of shape "
                         f"{shape}") from None


def _to_index(value):
    numpy = loaded_numpy()
    is_bool = isinstance(value, bool) or numpy is not None and isinstance(value, numpy.bool_)
    try:
        return operator.index(None if is_bool else value)
    except TypeError:
        is_array = isinstance(value, Gpu.Array) \
            or numpy is not None and isinstance(value, numpy.ndarray)
        advice = advise_rows(value) if is_array else ""
        raise TypeError("an array index must be a number, a slice, None, ..., the name of a field "
                        "of a record, or without other indices a list of whole numbers, those of "
                        f"rows, not {describe(value)}{advice}") from None


class DeviceArrayMethods(ArrayConversions, ArrayOperators, ArrayText, DLPackMethods):
    """Gpu.Array(context, shape, dtype): memory with a type, a shape and strides. All functions that
    take a context also accept a pool or another allocator. An allocator may also be a function,
    which is called with the size in bytes and returns Gpu.Memory.

    fill(), full() and array[key] = value take a bytes or a bytearray as the bytes of one element.
    They convert any other value, also a memoryview, as numpy.asarray() does. array[key] = value
    converts the elements of a Gpu.Array as astype() does.

    array[2:5, ::2, None, ...] is a view of the same memory. numpy.asarray(array) is also a view if
    the host may access the memory at any time, and a copy otherwise. With stream=None a method
    waits on the default stream. With a stream only to_numpy() waits; the results of copy_to_host()
    and read_into() are valid once the stream has completed them.

    bool(), float(), int(), item(), tolist(), comparisons and "in" read the elements and wait. Their
    results are those of NumPy, on the host. str() and repr() show the elements, unless work is
    pending for long. pickle saves a NumPy array with a copy of the elements."""
    context = property(lambda self: self.get_context())
    memory = property(lambda self: self.get_memory())
    offset = property(lambda self: self.get_offset())
    shape = property(lambda self: tuple(self.get_shape() or ()))
    strides = property(lambda self: tuple(self.get_strides() or ()))
    ndim = property(lambda self: self.get_n_dims(), doc="The number of dimensions.")
    itemsize = property(lambda self: self.get_dtype().get_item_size(),
                        doc="The size of an element in bytes.")
    nbytes = property(lambda self: self.get_size(), doc="The size of all elements in bytes.")
    size = property(lambda self: self.get_n_elements(), doc="The number of elements.")
    flags = property(Flags)
    device_address = property(lambda self: self.get_device_address())
    shares_bytes = property(lambda self: self.get_property("shares-bytes"))
    T = property(lambda self: self.transpose(), doc="The transposed array, over the same memory.")

    def __new__(cls, context, shape, dtype=float, order="C", allocator=None, stream=None,
                strides=None):
        return cls.empty(context, shape, dtype, order, allocator, stream, strides)

    def __init__(self, *args, **kwargs):
        pass

    @property
    def dtype(self):
        """The NumPy dtype; get_dtype() returns the Gpu.DType."""
        return self.get_dtype().numpy()

    # construction

    @classmethod
    def empty(cls, context, shape, dtype=float, order="C", allocator=None, stream=None,
              strides=None):
        """Creates an array with undefined contents. If strides (in bytes) are given, the order is
        ignored. With a negative stride the first element is not at the start of the memory, as in
        NumPy."""
        source, shape, dtype = _source(context, allocator), _to_shape(shape), to_dtype(dtype)
        if strides is None:
            return Gpu.Array.new_full(*source, stream, dtype, shape, _to_order(order))
        strides = _to_strides(strides)
        if len(strides) != len(shape):
            raise InvalidArgumentError(f"Array.empty: an array of {len(shape)} dimensions cannot "
                                       f"have {len(strides)} strides")
        offset, size = _get_range(shape, strides, dtype.get_item_size())
        if size > _MOST:
            raise OverflowError(f"elements of {dtype.get_item_size()} bytes with the shape "
                                f"{tuple(shape)} and the strides {tuple(strides)} span {size} "
                                f"bytes, and the most are {_MOST}")
        held = Gpu.Array.new_full(*source, stream, to_dtype("uint8"), [max(size, 1)],
                                  Gpu.ArrayOrder.C)
        return Gpu.Array.new_for_memory(held.get_memory(), offset, dtype, shape, strides)

    @classmethod
    def zeros(cls, context, shape, dtype=float, order="C", allocator=None, stream=None):
        """Creates an array of zeros."""
        shape = _to_shape(shape)
        return Gpu.Array.new_filled(*_source(context, allocator), stream, to_dtype(dtype),
                                    shape, _to_order(order), None)

    @classmethod
    def full(cls, context, shape, value, dtype=None, order="C", allocator=None, stream=None):
        """Creates an array whose elements all have the same value, see fill(). Bytes need a
        dtype."""
        import numpy
        if dtype is None and isinstance(value, (bytes, bytearray)):
            raise TypeError(f"{value!r} needs a dtype: bytes are the bytes of an element")
        dtype = to_dtype(numpy.asarray(value).dtype if dtype is None else dtype)
        return Gpu.Array.new_filled(*_source(context, allocator), stream, dtype, _to_shape(shape),
                                    _to_order(order), to_glib_bytes(_to_element(value, dtype)))

    @classmethod
    def empty_like(cls, array, context=None, allocator=None, stream=None, *, dtype=None,
                   order="K") -> "Array":
        """Creates an array with the shape of another Gpu.Array, or of a NumPy array, which needs a
        context. An allocator is accepted in place of the context. The type is that of the array
        unless dtype, which is a keyword, names another. The orders are those of copy(); for a NumPy
        array, "K" is "F" if the array is contiguous in that order alone, otherwise "C"."""
        if not isinstance(array, Gpu.Array):
            return cls.empty(context, *_get_form(array, dtype, order), allocator, stream)
        if dtype is None and order == "K" and context is None:
            return Gpu.Array.new_like(array, _source(array.context, allocator)[1], stream)
        dtype = array.get_dtype() if dtype is None else to_dtype(dtype)
        return new_in_order(array, dtype, to_order(array, order), allocator, stream, context)

    @classmethod
    def zeros_like(cls, array, context=None, allocator=None, stream=None, *, dtype=None,
                   order="K") -> "Array":
        """Like empty_like(), but filled with zeros."""
        if isinstance(array, Gpu.Array):
            result = cls.empty_like(array, context, allocator, stream, dtype=dtype, order=order)
            result.fill(bytes(result.itemsize), get_stream(stream, result.context))
            return result
        return cls.zeros(context, *_get_form(array, dtype, order), allocator, stream)

    @classmethod
    def for_memory(cls, memory, shape, dtype, offset=0, strides=()):
        """Creates an array over existing memory."""
        strides, shape = [] if strides is None else _to_strides(strides), _to_shape(shape)
        return Gpu.Array.new_for_memory(memory, offset, to_dtype(dtype), shape, strides)

    @classmethod
    def from_numpy(cls, context, array, stream=None, allocator=None) -> "Array":
        """Creates an array with a copy of a NumPy array, or of anything that numpy.asarray()
        accepts: a list, a number, an array of another library. Shape and dtype are those of the
        NumPy array, and so is Fortran order; an array with gaps becomes contiguous. Elements of
        64-bit numbers, the types of lists, are not converted to 32 bits. The caller may change the
        original after the call, even with a stream. Raises TypeError for Python objects, text and
        times, and Gpu.OutOfMemoryError."""
        import numpy
        array = numpy.asarray(array)
        result = cls.empty_like(array, *_source(context, allocator), stream)
        result.write(array, stream)
        return result

    # to the host and back

    def write(self, data, stream=None):
        """Copies a Gpu.Array of any context, a NumPy array, or anything that numpy.asarray()
        accepts, to this array. NumPy data are broadcast to the shape of this array. The data must
        have the dtype of this array: that of a list of floats is float64. array[...] = data
        converts the data."""
        on = get_stream(stream, self.context)
        if isinstance(data, Gpu.Array):
            submit_on(on, stream, lambda: Gpu.Stream.copy_array(on, self, data))
        else:
            import numpy
            array = numpy.asarray(data)
            if array.shape != self.shape:
                array = _broadcast(array, self.shape)
            if array.dtype is not self.dtype and to_dtype(array.dtype) != self.get_dtype():
                raise TypeError(f"elements of type {array.dtype} cannot be written to an array of "
                                f"{self.get_dtype().name}: array[...] = data converts them")
            if stream is None:
                run_copy(lambda: _transfer(on, Gpu.Stream.write_array, self, array, False),
                         array.nbytes)
                return
            array = array.copy("K")
            held = _Held(array)
            Gpu.Stream.write_array(on, self, held.bytes, held.offset, list(array.strides))

    def copy_to_device(self, data, stream=None):
        """Copies data to this array, like write(). This is the name in Numba."""
        self.write(data, stream)

    def read_into(self, target, stream=None):
        """Reads into a writable NumPy array of the same shape and type. Returns that array."""
        _check_target(target)
        if (target.shape != self.shape or target.dtype is not self.dtype
                and to_dtype(target.dtype) != self.get_dtype()):
            raise ValueError(f"a target of shape {target.shape} and type {target.dtype} does not "
                             f"match an array of shape {self.shape} and type "
                             f"{self.get_dtype().name}")
        if not target.flags.writeable:
            raise ValueError("the target array is read-only")
        if stream is None:
            return _read(self, target, None)
        on = get_stream(stream, self.context)
        held = _Held(target)
        Gpu.Stream.read_array(on, self, held.bytes, held.offset, list(target.strides))
        return target

    def _get_order(self):
        flags = self.flags
        return Gpu.ArrayOrder.F if flags.f_contiguous and not flags.c_contiguous \
            else Gpu.ArrayOrder.C

    def to_numpy(self, stream=None):
        """Returns a new NumPy array with the elements. Waits even with a stream."""
        return _read(self, _new_target(self), stream)

    def copy_to_host(self, target=None, stream=None):
        """Reads into a NumPy array, or into a new one. With a stream the call does not wait: the
        elements are valid once the stream has completed the read."""
        return self.read_into(_new_target(self) if target is None else target, stream)

    async def to_numpy_async(self, stream=None):
        """to_numpy() for asyncio."""
        import numpy
        target = numpy.empty(self.shape, self.dtype)
        held = _Held(target)
        await wait_for(
            lambda cancellable, callback: self.read_strided_async(
                stream, held.bytes, held.offset, list(target.strides), cancellable, callback),
            self.read_strided_finish)
        return target

    def fill(self, value, stream=None):
        """Sets all elements to a value. Bytes are used as the bytes of an element; any other value
        is converted."""
        value = _to_element(value, self.get_dtype())
        on = get_stream(stream, self.context)
        submit_on(on, stream, lambda: Gpu.Stream.fill_array(on, self, to_glib_bytes(value)))

    def copy(self, allocator=None, stream=None, order="K"):
        """Returns a new array with a copy of the elements, made on the device. The order is "C",
        "F", "A" for "F" if this array is contiguous in that order alone, otherwise "C", or "K" for
        that of this array. As in NumPy, the order may also be the only positional argument."""
        if isinstance(allocator, str) and order == "K":
            allocator, order = None, allocator
        allocator = _source(self.context, allocator)[1]
        if order == "K" and _is_contiguous(self):
            result = Gpu.Array.new_like(self, allocator, stream)
        else:
            result = new_in_order(self, self.get_dtype(), to_order(self, order), allocator, stream)
        result.write(self, stream)
        return result

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        memo[id(self)] = result = self.copy()
        return result

    def copy_to(self, target, stream=None) -> "Array":
        """Copies to another array, or to a new array of a context or an allocator. The target may
        belong to another driver. Returns the target. The stream may belong to either context. With
        stream=None, the call waits."""
        if not isinstance(target, Gpu.Array):
            context, allocator = _source(target, None)
            there = context or allocator.get_context()
            stream = None if stream is None else get_stream(stream, there)
            on = stream if stream is not None and stream.get_context() is there else None
            target = Gpu.Array.new_full(context, allocator, on, self.get_dtype(),
                                        list(self.shape), self._get_order())
        target.write(self, stream)
        return target

    # views

    def reshape(self, *shape, order="C"):
        """Returns a view of another shape, given as lengths or as a tuple. A length of -1 is
        computed. Raises ValueError if the number of elements differs, or if the elements would have
        to be copied."""
        shape = shape[0] if len(shape) == 1 and hasattr(shape[0], "__iter__") else shape
        if sum(length == -1 for length in shape if isinstance(length, int)) > 1:
            raise ValueError(f"Array.reshape: the shape {tuple(shape)} has more than one -1: only "
                             "one length can be computed")
        return Gpu.Array.reshape(self, _to_shape(shape), _to_order(order))

    def ravel(self, order="C"):
        """Returns the elements in one dimension, without gaps: a view if they are contiguous in the
        order, otherwise a copy, as in NumPy. The orders are those of copy(). reshape(-1) returns a
        view with gaps instead of a copy."""
        order = to_order(self, order)
        if order == "K":
            return self.transpose(list_raveled_axes(self)).ravel()
        order = _to_order(order)
        array = self if self.is_contiguous(order) else self.copy(order=order.value_nick.upper())
        return Gpu.Array.ravel(array, order)

    def flatten(self, order="C") -> "Array":
        """Returns a copy of the elements in one dimension. The orders are those of copy()."""
        result = self.ravel(order)
        return result.copy() if result.memory is self.memory else result

    def squeeze(self, axis=None) -> "Array":
        """Returns a view without the axes of length 1, or without the given axes, which must have
        that length."""
        axes = range(self.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        axes = [_axis(one, self.ndim) for one in axes]
        if len(set(axes)) < len(axes):
            raise ValueError(f"axis {axis} names an axis twice")
        for one in axes:
            if axis is not None and self.shape[one] != 1:
                raise ValueError(f"axis {axis} is not an axis of length 1 in the shape "
                                 f"{self.shape}")
        return self[tuple(0 if i in axes and self.shape[i] == 1 else slice(None)
                          for i in range(self.ndim))]

    def transpose(self, *axes):
        """Returns a view with permuted axes; without axes, or with None, in reverse order. Raises
        ValueError for an axis that does not exist or that is named twice."""
        # None is from numpy.transpose(), which otherwise copies
        if not axes or len(axes) == 1 and axes[0] is None:
            return Gpu.Array.transpose(self, [])
        is_sequence = len(axes) == 1 and (isinstance(axes[0], (tuple, list, range))
                                          or getattr(axes[0], "ndim", 0) == 1)
        axes = [_axis(axis, self.ndim) for axis in (axes[0] if is_sequence else axes)]
        if not axes and self.ndim > 0:
            raise ValueError(f"no axes for an array of {self.ndim} dimensions: pass None for the "
                             "reverse order")
        return Gpu.Array.transpose(self, axes)

    def swapaxes(self, axis1, axis2):
        """Returns a view in which two axes are exchanged. Raises ValueError for an axis that does
        not exist."""
        axes = list(range(self.ndim))
        one, other = _axis(axis1, self.ndim), _axis(axis2, self.ndim)
        axes[one], axes[other] = other, one
        return Gpu.Array.transpose(self, axes)

    def broadcast_to(self, shape):
        """Returns a view of a larger shape, in which axes of length 1 are repeated, as in
        numpy.broadcast_to(). Raises ValueError if the shapes do not match."""
        return Gpu.Array.broadcast(self, _to_shape(shape))

    def split(self, length, axis=0):
        """Returns parts of length elements along an axis. The last part may be shorter."""
        return Gpu.Array.split(self, _axis(axis, self.ndim), length)

    def view(self, dtype=None):
        """Returns a view of the same bytes, as another dtype if one is given. If its size differs,
        the last axis, which must be contiguous, changes its length, as in NumPy."""
        dtype, old = self.get_dtype() if dtype is None else to_dtype(dtype), self.itemsize
        new = dtype.get_item_size()
        if new == old:
            return Gpu.Array.view(self, dtype)
        if self.ndim == 0 or (old % new if new < old else self.shape[-1] * old % new) != 0:
            raise ValueError(f"elements of {old} bytes in an array of shape {self.shape} are not "
                             f"elements of {new} bytes")
        if self.size == 0:
            return self.empty(self.context, [*self.shape[:-1], self.shape[-1] * old // new], dtype)
        return Gpu.Array.view(self, dtype)

    def __getitem__(self, key):
        """Returns a view of the same memory. The key is a number, a slice, None for a new axis,
        ..., a tuple of these, or the name of a field of a record. The view of a single element has
        no dimensions: item() returns its value. A list of numbers selects rows, and returns a copy:
        see take(). Raises IndexError for a number out of bounds, and TypeError for other arrays of
        numbers or truth values."""
        if isinstance(key, str) and self.get_dtype().get_n_fields() > 0:
            return self.get_field(key)
        if is_list_of_rows(key):
            return self.take(key)
        keys = list(key) if isinstance(key, tuple) else [key]
        n_indices = sum(one is not None and one is not Ellipsis for one in keys)
        if n_indices > self.ndim:
            raise IndexError(f"{n_indices} indices for {self.ndim} dimensions")
        if not any(one is Ellipsis for one in keys):
            keys.append(Ellipsis)
        return _apply(self, keys, self.ndim - n_indices)

    def __setitem__(self, key, value):
        if is_list_of_rows(key):
            self.put(key, value)
            return
        view = self[key]
        if isinstance(value, Gpu.Array):
            dtype = view.get_dtype()
            view.write(value if value.get_dtype() == dtype else value.astype(dtype))
        elif isinstance(value, (bytes, bytearray)):
            view.fill(value)
        else:
            import numpy
            view.write(numpy.asarray(value, view.dtype))

    def __len__(self):
        if self.ndim == 0:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    # protocols of NumPy

    @property
    def __array_interface__(self):
        data = self.get_host_bytes()
        if data is None:
            raise AttributeError("the host cannot access the memory: use numpy.asarray() for a "
                                 "copy")
        dtype = self.dtype
        descr = None if dtype.names is None else get_descr(dtype)
        self.memory.wait()
        # A consumer of the interface keeps a reference to this array, which keeps the memory alive.
        self._host_bytes = data
        interface = {"version": 3, "shape": self.shape, "strides": self.strides,
                     "typestr": dtype.str,
                     "data": (self.get_host_address(), not self.is_writable())}
        if descr is not None:
            interface["descr"] = descr
        return interface

    def tobytes(self, order="C") -> bytes:
        """Returns the bytes of the elements in an order: "C", "F", or "A" for "F" if this array is
        contiguous in that order alone, otherwise "C". Waits."""
        order = _to_order(to_order(self, order, "CFA"))
        return bytes(self.read_bytes(None, order, None).get_data() or b"")

    def __bytes__(self):
        return self.tobytes()

    def __array__(self, dtype=None, copy=None):
        """Converts to a NumPy array. Copies only with copy=True, or if the host cannot access the
        memory. copy=False raises ValueError if a copy is needed."""
        import numpy
        interface = None if copy else getattr(self, "__array_interface__", None)
        if interface is not None:
            array = numpy.asarray(_HostView(self, interface))
        elif copy is False and self.size > 0:
            raise ValueError("the host cannot access the memory of the array without a copy")
        else:
            array = self.to_numpy()
        if dtype is None or array.dtype == dtype:
            return array
        if copy is False:
            raise ValueError(f"dtype {array.dtype} cannot become {dtype} without a copy")
        return array.astype(dtype)


compute_once(DeviceArrayMethods, "__array_interface__")
compute_once(DLPackMethods, "__cuda_array_interface__")


def _new_target(array):
    import numpy
    is_fortran = (not array.is_contiguous(Gpu.ArrayOrder.C)
                  and array.is_contiguous(Gpu.ArrayOrder.F))
    return numpy.empty(array.shape, array.dtype, "F" if is_fortran else "C")


def _check_target(target):
    import numpy
    if not isinstance(target, numpy.ndarray):
        advice = ": copy_to() copies to a Gpu.Array" if isinstance(target, Gpu.Array) else ""
        raise TypeError(f"target must be a NumPy array, not '{type(target).__name__}'{advice}")


def _get_form(array, dtype, order):
    """Returns the shape, the dtype and the order of an array of NumPy or of a similar library. The
    dtype may be None, and the order may be one that depends on the array."""
    try:
        order = to_order(array, order)
        return array.shape, array.dtype if dtype is None else dtype, "C" if order == "K" else order
    except AttributeError:
        raise TypeError("array must be a Gpu.Array or a NumPy array, not "
                        f"'{type(array).__name__}'") from None


def _is_contiguous(array):
    return array.is_contiguous(Gpu.ArrayOrder.C) or array.is_contiguous(Gpu.ArrayOrder.F)


def _read(array, target, stream):
    """Reads into a NumPy array and waits."""
    return run_copy(lambda: _read_here(array, target, stream), target.nbytes)


def _read_here(array, target, stream):
    if takes_signals() and target.flags.forc and _is_contiguous(array):
        on = get_stream(stream, array.context)
        try:
            _transfer(on, Gpu.Stream.read_array, array, target, True)
            return target
        except BusyError:
            pass                                # read_strided() also reads spilled memory
    held = _Held(target)
    Gpu.Array.read_strided(array, stream, held.bytes, held.offset, list(target.strides), None)
    held.release()
    return target


def _axis(axis, ndim):
    axis = to_index(axis, "axis")
    if not -ndim <= axis < ndim:
        raise ValueError(f"there is no axis {axis} in an array of {ndim} dimensions")
    return axis + ndim if axis < 0 else axis


def _apply(array, keys, n_rest):
    """Applies the keys in order, each to its dimension."""
    axis = 0                                    # of the view
    dimension = 0                               # of the array
    seen = False
    for key in keys:
        if key is Ellipsis:
            if seen:
                raise IndexError("an index can have only one '...'")
            seen = True
            axis += n_rest
            dimension += n_rest
        elif key is None:
            array = array.insert_axis(axis)
            axis += 1
        elif isinstance(key, slice):
            step = 1 if key.step is None else operator.index(key.step)
            first, last = (_LEAST, _MOST) if step >= 0 else (_MOST, _LEAST)
            array = array.slice(axis, _clamp(key.start, first), _clamp(key.stop, last),
                                _clamp(step, 1))
            axis += 1
            dimension += 1
        else:
            index = _to_index(key)
            if not -array.shape[axis] <= index < array.shape[axis]:
                raise IndexError(f"index {index} is out of bounds for axis {dimension} with "
                                 f"size {array.shape[axis]}")
            array = array.index(axis, index)
            dimension += 1
    return array


def _clamp(value, default):
    return default if value is None else max(_LEAST, min(operator.index(value), _MOST))


def numbers():
    """Yields (name, type) for the types that are attributes of Gpu.DType."""
    kinds = Gpu.DTypeKind
    for kind, sizes in ((kinds.BOOL, (1,)), (kinds.INT, (1, 2, 4, 8)), (kinds.UINT, (1, 2, 4, 8)),
                        (kinds.FLOAT, (2, 4, 8)), (kinds.BFLOAT, (2,)), (kinds.COMPLEX, (8, 16))):
        for size in sizes:
            number = Gpu.DType.get_number(kind, size)
            yield number.get_name().upper(), number

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Conversions of a Gpu.Array: to another dtype, on the device, and to objects of Python and NumPy,
which read the elements and wait."""

from ..module import get_introspection_module
from ._gpumem import submit_on
from ._gpumem_array_text import from_bfloat
from ._gpumem_cache import memoize
from ._gpumem_checks import get_stream

Gpu = get_introspection_module("Gpu")

# Types that kernels of the portable dialect have, which has no half. A bool has one byte.
_NAMES = {"bool": "uchar", "int8": "char", "int16": "short", "int32": "int", "int64": "long",
          "uint8": "uchar", "uint16": "ushort", "uint32": "uint", "uint64": "ulong",
          "float32": "float", "float64": "double"}

_SOURCE = """
__kernel void
convert (__global {to} *to, __global const {source} *from, ulong start, ulong n)
{{
  ulong i = get_global_id (0);

  if (i < n)
    {{
      {source} x = from[start + i];

      to[i] = {value};
    }}
}}
"""

# Work-items beyond the last element return at once.
_GROUP = 256

# In C, the conversion of a float that is not in the range of the integer type is undefined, and
# devices differ. These expressions give the values of NumPy on x86-64 on every device. For uint32,
# NumPy's value depends on the length of the array.
_TO_INT = "({name}) (x >= -2147483648.0{f} && x < 2147483648.0{f} ? (int) x : (int) 0x80000000u)"
_TO_LONG = ("({name}) (x >= -9223372036854775808.0{f} && x < 9223372036854775808.0{f} ? (long) x"
            " : (long) 0x8000000000000000ul)")
_TO_ULONG = ("x >= 18446744073709551616.0{f} ? 0ul : x >= 9223372036854775808.0{f} ? (ulong) x : "
             + _TO_LONG)


def _get_expression(source, to):
    """Returns the value of x of a type in another type, as NumPy converts it."""
    name = _NAMES[to]
    if to == "bool":
        return "x != 0"
    if source == "bool":
        return f"({name}) (x != 0)"
    if not source.startswith("float") or to.startswith("float"):
        return f"({name}) x"
    form = {"uint32": _TO_LONG, "int64": _TO_LONG, "uint64": _TO_ULONG}.get(to, _TO_INT)
    return form.format(name=name, f="f" if source == "float32" else "")


@memoize
def _get_kernel(context, source, to):
    text = _SOURCE.format(source=_NAMES[source], to=_NAMES[to], value=_get_expression(source, to))
    return Gpu.Program.new_from_source(context, text, None).get_kernel("convert")


def _has_kernel(context, source, to):
    has = context.get_device().get_capabilities()
    return (source in _NAMES and to in _NAMES and has & Gpu.Capabilities.SOURCE
            and ("float64" not in (source, to) or has & Gpu.Capabilities.FP64))


# --- orders --------------------------------------------------------------------------------------

def to_order(array, order, choices="CFAK"):
    """Returns "C", "F" or "K" for an order of NumPy."""
    if order not in tuple(choices):
        raise ValueError(f"order must be one of {', '.join(map(repr, choices))}, not {order!r}")
    flags = array.flags
    if order == "A" or order == "K" and flags.forc:
        return "F" if flags.f_contiguous and not flags.c_contiguous else "C"
    return order


def list_axes(array):
    """Returns the axes in the order of the memory, from the largest stride to the smallest."""
    return sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))


def list_raveled_axes(array):
    """Returns the axes in the order of ravel("K"). It differs from that of copy("K"), as in NumPy:
    an axis with the stride 0, or of length 1, stays where it is."""
    strides = [abs(stride) if length > 1 else 0
               for stride, length in zip(array.strides, array.shape)]
    axes = []                                   # from the smallest stride
    for axis in reversed(range(array.ndim)):
        place = len(axes)
        for i in reversed(range(len(axes))):
            if strides[axis] == 0 or strides[axes[i]] == 0:
                continue
            if strides[axes[i]] <= strides[axis]:
                break
            place = i
        axes.insert(place, axis)
    return axes[::-1]


def new_in_order(array, dtype, order, allocator, stream, context=None):
    """Returns a new array with the shape of another one. "K" keeps the order of its axes."""
    empty, shape = type(array).empty, array.shape
    context = array.context if context is None else context
    if order != "K":
        return empty(context, shape, dtype, order, allocator, stream)
    axes = list_axes(array)
    result = empty(context, [shape[axis] for axis in axes], dtype, "C", allocator, stream)
    return result.transpose([axes.index(axis) for axis in range(array.ndim)])


# --- values of bfloat16 --------------------------------------------------------------------------

def to_bfloat(values):
    """Returns the bits of numbers as bfloat16, in an array of uint16."""
    import numpy
    values = numpy.asarray(values, "float32")
    bits = values.view("uint32")
    # Round to nearest, ties to even.
    rounded = (bits + (0x7fff + (bits >> 16 & 1))) >> 16
    return numpy.where(numpy.isnan(values), 0x7fc0, rounded).astype("uint16")


def _is_bfloat(dtype):
    return dtype.get_kind() == Gpu.DTypeKind.BFLOAT


def _convert_on_host(array, result, stream):
    """Converts with NumPy, but bfloat16 without the package that NumPy needs for this type."""
    if _is_bfloat(array.get_dtype()):
        values = from_bfloat(array.view("uint16").to_numpy(stream))
    else:
        values = array.to_numpy(stream)
    if _is_bfloat(result.get_dtype()):
        result.view("uint16").write(to_bfloat(values), stream)
    else:
        result.write(values.astype(result.dtype), stream)


def _convert_on_device(array, result, kernel, order, stream):
    """Converts contiguous memory. The axes of both arrays have the same order in memory."""
    is_same = order == "C" and array.flags.c_contiguous or order == "F" and array.flags.f_contiguous
    if not is_same or array.offset % array.itemsize != 0:
        source = new_in_order(array, array.get_dtype(), order, None, stream)
        source.write(array, stream)
        array = source
    grid = (array.size + _GROUP - 1) // _GROUP * _GROUP
    on = get_stream(stream, array.context)
    # Kernels of OpenCL cannot take an array at any offset
    start = array.offset // array.itemsize
    args = result, array.memory, start, array.size
    submit_on(on, stream, lambda: on.launch(kernel, grid, None, args))


def to_numbers(array):
    """Returns the elements in an array of NumPy. bfloat16 becomes float32."""
    if _is_bfloat(array.get_dtype()):
        return from_bfloat(array.view("uint16").to_numpy())
    return array.to_numpy()


class ArrayConversions:
    """The methods of Gpu.Array that convert its elements."""

    def astype(self, dtype, order="K", casting="unsafe", copy=True, allocator=None,
               stream=None) -> "Array":
        """Returns a new array with the elements as another dtype, as in NumPy. The device converts
        booleans, integers, float32 and float64; all other types, and devices without source
        programs or FP64, convert through the host, which waits.

        A float that is out of the range of the integer type becomes the same value on each device,
        without NumPy's warning: that of NumPy on x86-64, except for uint32. The order is that of
        copy(). With copy=False, returns this array if it has the dtype and the order. Kernels are
        cached as long as Python refers to the context."""
        from ._gpumem_ndarray import to_dtype
        dtype, own = to_dtype(dtype), self.get_dtype()
        if casting != "unsafe":
            import numpy
            if not numpy.can_cast(self.dtype, dtype.numpy(), casting):
                raise TypeError(f"cannot cast array data from {own.name} to {dtype.name} according "
                                f"to the rule {casting!r}")
        wanted = to_order(self, order)
        if dtype == own:
            flags = self.flags
            is_done = order == "K" or {"C": flags.c_contiguous, "F": flags.f_contiguous,
                                       "A": flags.forc}[order]
            return self if is_done and not copy else self.copy(allocator, stream, order)
        result = new_in_order(self, dtype, wanted, allocator, stream)
        if self.size == 0:
            pass
        elif _has_kernel(self.context, own.name, dtype.name):
            kernel = _get_kernel(self.context, own.name, dtype.name)
            _convert_on_device(self, result, kernel, wanted, stream)
        else:
            _convert_on_host(self, result, stream)
        return result

    # to Python

    def _get_only(self, kind):
        """Returns the only element as a number of Python."""
        if self.size != 1 or self.get_dtype().get_kind() in (Gpu.DTypeKind.RECORD,
                                                             Gpu.DTypeKind.OPAQUE):
            raise TypeError(f"an array of shape {self.shape} and type {self.get_dtype().name} "
                            f"cannot become {kind}: only one number can")
        return to_numbers(self).item()

    def __bool__(self):
        if self.size != 1:
            raise ValueError(f"the truth value of an array of {self.size} elements is ambiguous: "
                             "use array.to_numpy().any() or all(), array.size > 0, or 'is not "
                             "None'")
        return bool(to_numbers(self))

    def __float__(self):
        return float(self._get_only("a float"))

    def __int__(self):
        return int(self._get_only("an int"))

    def __complex__(self):
        return complex(self._get_only("a complex number"))

    def __format__(self, form):
        """Formats the only element, as a 0-dimensional array of NumPy."""
        return format(self.item(), form) if form and self.ndim == 0 else super().__format__(form)

    def item(self, *index):
        """Returns an element as an object of Python: the only one, or that at an index, which is a
        number in C order or one number for each axis."""
        from ._gpumem_ndarray import _to_index
        index = index[0] if len(index) == 1 and isinstance(index[0], tuple) else index
        index = tuple(map(_to_index, index))
        if not index:
            if self.size != 1:
                raise ValueError(f"an array of {self.size} elements has not one element: pass an "
                                 "index")
            return to_numbers(self).item()
        if len(index) == 1 and self.ndim != 1:
            import numpy
            number = index[0] + self.size if -self.size <= index[0] < 0 else index[0]
            if not 0 <= number < self.size:
                raise IndexError(f"index {index[0]} is out of bounds for {self.size} elements")
            index = tuple(map(int, numpy.unravel_index(number, self.shape)))
        if len(index) != self.ndim:
            raise ValueError(f"{len(index)} indices for {self.ndim} dimensions")
        return to_numbers(self[index]).item()

    def tolist(self):
        """Returns the elements as nested lists of objects of Python."""
        return to_numbers(self).tolist()

    def __reduce_ex__(self, protocol):
        """Pickles a copy of the elements, with their shape, dtype and order, and waits for it:
        pickle.loads() returns a NumPy array, which Gpu.Array.from_numpy() copies to a device."""
        return self.to_numpy().__reduce_ex__(protocol)

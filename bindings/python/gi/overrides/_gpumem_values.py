# SPDX-License-Identifier: LGPL-2.1-or-later
"""Conversion of Python objects to sizes, layouts, shapes, kernel arguments and build options."""

import ctypes
import reprlib
import shlex

from gi.repository import GLib

from ..module import get_introspection_module
from . import _gpumem_native as _native
from ._gpumem import Exported, check_array, is_array_like, loaded_numpy
from ._gpumem_arrays import is_over_memory, memory_of, to_memory
from ._gpumem_checks import checked, to_index, to_size, to_text
from ._gpumem_checks import describe as show
from ._gpumem_parameters import is_scalar_type
from ._gpumem_pointers import add_address, add_foreign, describe, is_pointer, name_argument

Gpu = get_introspection_module("Gpu")


def to_numbers(value, most, what):
    """Converts a number or a sequence to a tuple of 1 to most integers."""
    single = hasattr(value, "__index__") and not getattr(value, "ndim", 0)
    try:
        if isinstance(value, (bytes, bytearray, dict, set)):
            raise TypeError
        result = tuple(to_index(number, what) for number in ((value,) if single else value))
    except TypeError:
        # The repr of an array has the elements
        shown = show(value) if is_array_like(value) else repr(value)
        raise TypeError(f"{what} must be 1 to {most} whole numbers, not {shown}") from None
    if not 1 <= len(result) <= most:
        raise ValueError(f"{what} must have 1 to {most} numbers, not {len(result)}: "
                         f"{reprlib.repr(result)}")
    return result


def _new_extent(numbers, omitted, what):
    for number in numbers:
        to_size(number, what)
    return Gpu.Extent.new(*numbers, *(omitted,) * (3 - len(numbers)))


def to_extent(value, what="a size"):
    """Converts an int, or a tuple of up to three, to a Gpu.Extent. Omitted numbers are 1."""
    if value is None or isinstance(value, Gpu.Extent):
        return value
    extent = _native.fast.pack_extent(value) if _native.fast is not None else None
    if extent is not None:
        return extent
    return _new_extent(to_numbers(value, 3, what), 1, what)


def to_region(value):
    """to_extent() for the extent of a region. The depth 0 has no bytes in Python, which never means
    1. C refuses it, because an initializer in C sets it by mistake."""
    extent = to_extent(value)
    if extent is not None and extent.depth == 0:
        return _new_extent((0, extent.height, 1), 1, "a size")
    return extent


def to_layout(value, most=5, what="a layout"):
    """Converts up to five numbers (x, y, z, row_pitch, slice_pitch) to a Gpu.Layout."""
    if value is None or isinstance(value, Gpu.Layout):
        return value
    layout = _native.fast.pack_layout(value, most) if _native.fast is not None else None
    if layout is not None:
        return layout
    values = to_numbers(value, most, what)
    return Gpu.Layout.new(*values, *(0,) * (5 - len(values)))


def to_origin(value):
    """Converts up to three numbers (x, y, z) to the Gpu.Layout of a region of an image."""
    return to_layout(value, 3, "an origin")


def to_offset(value):
    """Converts an int, or a tuple of up to three, to a Gpu.Extent. Omitted numbers are 0."""
    if value is None or isinstance(value, Gpu.Extent):
        return value
    return _new_extent(to_numbers(value, 3, "global_offset"), 0, "global_offset")


class Local:
    """A kernel argument: size bytes of local memory, which a work-group shares."""

    def __init__(self, size):
        self.size = to_index(size, "size")

    def __repr__(self):
        return f"Gpu.Local({self.size})"


def _check_byte_order(kernel, value, index):
    """Refuses the bytes of an array or a record that are in the byte order of another machine."""
    if not value.dtype.isnative:
        raise ValueError(f"{describe(kernel, index)} cannot be of dtype {value.dtype.str}, which "
                         "is not in the byte order of this machine: pass "
                         "value.astype (value.dtype.newbyteorder ('='))")


def _add_number(arguments, kernel, value, index, type_name):
    """Adds a NumPy number. If the type of the parameter is known, the number is converted, and
    rejected if it is out of range. For any other parameter, the bytes of the number are passed."""
    numpy = loaded_numpy()
    if isinstance(value, numpy.integer) and is_pointer(kernel, index):
        _add_integer(arguments, kernel, int(value), index)
    elif not type_name:
        _check_byte_order(kernel, value, index)
        arguments.add_value(value.tobytes())
    elif isinstance(value, (numpy.integer, numpy.bool_)):
        _add_integer(arguments, kernel, int(value), index)
    elif isinstance(value, numpy.floating):
        arguments.add_double(float(value))
    elif isinstance(value, (numpy.complexfloating, numpy.str_)) and is_scalar_type(type_name):
        raise TypeError(f"{describe(kernel, index)} is a number of type {type_name}, and cannot be "
                        f"{value!r}")
    else:
        _check_byte_order(kernel, value, index)
        arguments.add_value(value.tobytes())


def _add_element(arguments, kernel, value, index, type_name):
    """Adds the only element of an array to a parameter that is a number, as if the program had
    passed the element."""
    numpy = loaded_numpy()
    if numpy.ma.is_masked(value):
        raise ValueError(f"{describe(kernel, index)} cannot be a masked element")
    array = numpy.asarray(value)
    if array.size != 1:
        raise TypeError(f"{describe(kernel, index)} is a number of type {type_name}, and cannot be "
                        f"an array of shape {array.shape}: pass one element, or a Gpu.Buffer to a "
                        "parameter that is a pointer")
    check_array(array)
    _add_number(arguments, kernel, array.reshape(())[()], index, type_name)


def _add_integer(arguments, kernel, value, index):
    if not isinstance(value, bool) and is_pointer(kernel, index) \
            and add_address(arguments, kernel, value, index):
        return
    if value >= 1 << 63:
        arguments.add_uint(value)
    else:
        arguments.add_int(value)


def _is_host_numpy(value):
    """Returns whether an object is a NumPy array. Programs must copy NumPy arrays on every back
    end, also where the kernel could access them by DLPack."""
    numpy = loaded_numpy()
    return numpy is not None and isinstance(value, numpy.ndarray)


def _is_host_array(value):
    """Returns whether an object is a NumPy array, or an array of another library that NumPy can
    access."""
    return loaded_numpy() is not None and is_array_like(value) \
        and not hasattr(value, "__cuda_array_interface__")


def _is_array(value):
    """Returns whether an object is an array of the host: a NumPy array, an array of a library that
    converts to one, or another object with a buffer. bytes and numbers of ctypes are not arrays,
    because they may hold an address."""
    if isinstance(value, (bytes, ctypes._SimpleCData)):
        return False
    try:
        memoryview(value)
    except (BufferError, TypeError, ValueError):
        return is_array_like(value)
    return True


def _is_for_pointer(kernel, value, index):
    """Returns whether the kernel expects a pointer to the elements of an array. If the kind of the
    parameter is unknown, NumPy arrays with dimensions count as such: otherwise, the 8 bytes of a
    small array would become an address."""
    if index >= kernel.get_n_arguments() or not _is_array(value):
        return False
    kind = kernel.get_argument_kind(index)
    return kind == Gpu.ArgumentKind.MEMORY \
        or kind == Gpu.ArgumentKind.UNKNOWN and not isinstance(value, memoryview) \
        and bool(getattr(value, "ndim", 0))


def _add_bytes(arguments, kernel, value, index):
    """Adds the bytes of a bytes-like object."""
    if _is_for_pointer(kernel, value, index):
        raise TypeError(f"{describe(kernel, index)} cannot be a {type(value).__name__}, which is "
                        "in the memory of the host: wrap it in Gpu.In, Gpu.Out or Gpu.InOut to "
                        "copy it for one launch, or copy it to a Gpu.Buffer")
    if _is_host_numpy(value):
        _check_byte_order(kernel, value, index)
    try:
        with Exported(value) as exported:
            arguments.add_value(ctypes.string_at(exported.address, exported.size))
    except TypeError:
        from ._gpumem_launch import Transfer
        where = describe(kernel, index)
        if isinstance(value, Transfer):
            raise TypeError(f"{where}: only launches at once copy {value!r}; prepare the launch "
                            "with a Gpu.Buffer") from None
        raise TypeError(f"{where} cannot be a {type(value).__name__}: memory, samplers, numbers, "
                        "Gpu.Local, bytes-like objects and None can") from None


def _add_argument(arguments, kernel, value, index, type_name):
    numpy = loaded_numpy()
    if value is None or isinstance(value, Gpu.Memory):
        arguments.add_memory(value)
    elif isinstance(value, Gpu.Array):
        arguments.add_array(value)
    elif isinstance(value, Gpu.Sampler):
        arguments.add_sampler(value)
    elif isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], Gpu.Image):
        arguments.add_texture(*value)
    elif numpy is not None and isinstance(value, numpy.generic):
        _add_number(arguments, kernel, value, index, type_name)
    elif isinstance(value, int):
        _add_integer(arguments, kernel, value, index)
    elif isinstance(value, float):
        arguments.add_double(value)
    elif isinstance(value, Gpu.MemoryBlock):
        arguments.add_address(value.address)
    elif isinstance(value, Local):
        arguments.add_local(value.size)
    elif isinstance(value, bytes):
        arguments.add_value(value)
    elif is_over_memory(value):
        arguments.add_memory(memory_of(value) if value.nbytes > 0 else None)
    elif _is_host_array(value) and is_scalar_type(type_name):
        _add_element(arguments, kernel, value, index, type_name)
    elif _is_host_numpy(value) or not add_foreign(arguments, kernel, value, index):
        _add_bytes(arguments, kernel, value, index)


def to_list(values, name, what, example):
    """Returns a list, or raises TypeError for a single value, such as an array, text or memory,
    even if the value could be iterated over."""
    single = (str, bytes, bytearray, memoryview, dict, set, Gpu.Memory, Gpu.Array)
    if not isinstance(values, single) and hasattr(values, "__iter__") and not is_array_like(values):
        return list(values)
    raise TypeError(f"{name} must be a list or a tuple of {what}, not {reprlib.repr(values)}: pass "
                    f"{example}")


def to_arguments(kernel, values, indirect=()):
    """Converts kernel arguments. indirect lists memory that the kernel accesses only through
    pointers in other memory."""
    if isinstance(values, Gpu.Arguments):
        if indirect:
            raise TypeError("indirect requires a list of arguments: a Gpu.Arguments has its own")
        return values
    if type(values) not in (list, tuple):
        values = to_list(values, "args", "kernel arguments", "args=(argument,)")
    if type(indirect) not in (list, tuple):
        indirect = to_list(indirect, "indirect", "memory", "indirect=[memory]")
    arguments = Gpu.Arguments.new()
    n_known = kernel.get_n_arguments()
    for index, value in enumerate(values):
        type_name = kernel.get_argument_type_name(index) if index < n_known else None
        try:
            _add_argument(arguments, kernel, value, index, type_name)
        except GLib.Error as error:
            name_argument(error, kernel, index)
            raise
    for index, memory in enumerate(indirect):
        arguments.add_indirect(to_memory(memory, f"indirect[{index}]"))
    return arguments


def to_shape(shape, dtype, size):
    """Returns the shape of an array of size bytes and a NumPy type. A length of -1 is computed."""
    lengths = tuple(to_index(length, "a length of the shape")
                    for length in (shape if hasattr(shape, "__iter__") else (shape,)))
    if min(lengths, default=0) >= 0:
        return lengths
    known = 1
    for length in lengths:
        known *= length if length >= 0 else 1
    count, rest = divmod(size, known * dtype.itemsize) if known * dtype.itemsize > 0 else (0, 1)
    if min(lengths) < -1 or lengths.count(-1) > 1 or rest > 0:
        raise ValueError(f"{size} bytes cannot hold an array of {dtype} of shape {shape}")
    return tuple(count if length < 0 else length for length in lengths)


def to_headers(headers):
    """Returns a dictionary from the names of headers to their texts."""
    if headers is None:
        return None
    try:
        headers = dict(headers)
    except (TypeError, ValueError):
        raise TypeError("headers must be a dictionary from names to texts, not "
                        f"{reprlib.repr(headers)}") from None
    for name, text in headers.items():
        to_text(checked(name, str, "the name of a header"), "the name of a header")
        to_text(checked(text, str, f"headers[{name!r}]"), f"headers[{name!r}]")
    return headers


def to_names(names):
    """Returns a list of names, or None."""
    if names is None:
        return None
    names = to_list(names, "names", "names", "names=[name]")
    for index, name in enumerate(names):
        to_text(checked(name, str, f"names[{index}]"), f"names[{index}]")
    return names


def _quote_for_opencl(word, index):
    """Returns a word for the options of an OpenCL driver. OpenCL does not specify how drivers split
    options. Drivers accept double quotes around a value with blanks, and differ in other quotes and
    in backslashes."""
    if any(character in word for character in "\"'\\\n\r"):
        raise ValueError(f"options[{index}] is {word!r}: drivers of OpenCL differ in their syntax "
                         "for quotes, backslashes and line breaks; pass all options as one string "
                         "in the syntax of the driver")
    if not any(character.isspace() for character in word):
        return word
    flag = word[:2] if word.startswith(("-D", "-I")) else ""
    name, equals, value = word[len(flag):].partition("=" if flag == "-D" else "\0")
    return f'{flag}{name}="{value}"' if equals else f'{flag}"{name}"'


def to_options(context, options):
    """Returns the options of a program as a string, quoted for the compiler of the context. A
    string remains unchanged."""
    if options is None or isinstance(options, str):
        return options
    if not isinstance(options, (list, tuple)):
        raise TypeError("options must be a string or a list of strings, not "
                        f"'{type(options).__name__}'")
    is_opencl = checked(context, Gpu.Context, "context").get_device().get_backend() == "opencl"
    words = []
    for index, word in enumerate(options):
        to_text(checked(word, str, f"options[{index}]"), f"options[{index}]")
        if not word.strip():
            raise ValueError(f"options[{index}] is {word!r}, which is no option")
        words.append(_quote_for_opencl(word, index) if is_opencl else shlex.quote(word))
    return " ".join(words)

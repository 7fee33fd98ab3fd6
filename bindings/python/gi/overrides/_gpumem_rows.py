# SPDX-License-Identifier: LGPL-2.1-or-later
"""Batches of copies, and rows of arrays by a list of their numbers."""

from ..module import get_introspection_module
from ._gpumem import loaded_numpy, refuse_captured, submit_on
from ._gpumem_arrays import check_destination, to_range
from ._gpumem_checks import describe, get_stream, refuse_on_device, to_index, to_size
from ._gpumem_errors import InvalidArgumentError

Gpu = get_introspection_module("Gpu")

_NUMBERS = ("size", "destination_offset", "source_offset")


def _complete(destination, source, size=None, destination_offset=0, source_offset=0):
    return destination, source, size, destination_offset, source_offset


def _complete_at(i, copy):
    if not isinstance(copy, (tuple, list)) or not 2 <= len(copy) <= 5:
        raise TypeError(f"copies[{i}] must be a tuple of a destination and a source, and then "
                        f"optionally {', '.join(_NUMBERS)}, not {describe(copy)}")
    return _complete(*copy)


def _check_numbers(i, size, to, start):
    """Raises an error for numbers outside of the range of a size of C. Returns the numbers."""
    numbers = [value if value is None else to_size(value, f"copies[{i}]: {name}")
               for name, value in zip(_NUMBERS, (size, to, start))]
    if None in numbers[1:]:
        raise TypeError(f"copies[{i}]: the offsets must be whole numbers, not None")
    return numbers


def _locate(i, copy, stream):
    """Returns the arguments of one copy with the memory that arrays use."""
    destination, source, *numbers = _complete_at(i, copy)
    size, to, start = _check_numbers(i, *numbers)
    try:
        source, start, size = to_range(source, start, size, stream, "source")
        destination, to, size = to_range(destination, to, size, stream, "destination")
    except (TypeError, ValueError) as error:
        if type(error) not in (TypeError, ValueError):      # of the library
            raise
        message = str(error).replace("Stream.copy_batch: ", "", 1)
        raise type(error)(f"copies[{i}]: {message}") from None
    return destination, source, size, to, start


def to_copies(copies, stream):
    """Returns the arguments of copy_batch() for tuples of the arguments of copy()."""
    memories, numbers, ranges = [], {}, []

    def number(memory):
        # Cheaper than the hash of a memory. The list keeps the memory, so no id() repeats.
        found = numbers.get(id(memory))
        if found is None:
            found = numbers[id(memory)] = len(memories)
            memories.append(memory)
        return found

    for i, copy in enumerate(copies):
        destination, source, size, to, start = _complete_at(i, copy)
        if not (type(size) is type(to) is type(start) is int and isinstance(source, Gpu.Memory)
                and isinstance(destination, Gpu.Memory)):
            destination, source, size, to, start = _locate(i, copy, stream)
        if destination is not None and source is not None:
            ranges += (number(destination), to, number(source), start, size)
    return memories, ranges


def copy_batch(stream, copies):
    """Calls the function of the library for tuples of the arguments of copy()."""
    try:
        copies = list(copies)
    except TypeError:
        raise TypeError("copies must be a list of tuples of the arguments of copy(), not "
                        f"{describe(copies)}") from None
    memories, ranges = to_copies(copies, stream)
    try:
        return Gpu.Stream.copy_batch(stream, memories, ranges)
    except OverflowError:
        for i, copy in enumerate(copies):
            _check_numbers(i, *_complete(*copy)[2:])
        raise


def is_list_of_rows(key):
    """Returns whether an index is a list of numbers: a list, or a NumPy array of integers with one
    dimension."""
    numpy = loaded_numpy()
    return isinstance(key, list) or (numpy is not None and isinstance(key, numpy.ndarray)
                                     and key.ndim == 1 and key.dtype.kind in "iu")


def advise_rows(rows):
    """Returns the advice that ends the error about an array that is not a list of rows."""
    if isinstance(rows, Gpu.Array):
        return ": pass its to_numpy()"
    if rows.dtype.kind == "b":
        return ": pass numpy.flatnonzero() of a mask of the rows"
    return ": pass its ravel(), and reshape() the result" if rows.dtype.kind in "iu" else ""


def _to_rows(rows):
    """Returns numbers of rows as an object that the library reads without a call for each number: a
    NumPy array of int64, or a list of int."""
    numpy = loaded_numpy()
    if is_list_of_rows(rows) and not isinstance(rows, list):
        # Numbers that int64 cannot represent must not become others
        return rows.tolist() if rows.dtype == "uint64" else rows.astype("int64", copy=False)
    if numpy is not None and isinstance(rows, numpy.ndarray):
        raise TypeError("rows must be integers with one dimension, not "
                        f"{describe(rows)}{advise_rows(rows)}")
    if isinstance(rows, Gpu.Array):
        refuse_on_device("rows")
    try:
        rows = list(rows)
    except TypeError:
        raise TypeError(f"rows must be a list of numbers of rows, not {describe(rows)}") from None
    if set(map(type, rows)) <= {int}:
        return rows
    return [to_index(row, f"rows[{i}]") for i, row in enumerate(rows)]


def _to_values(values, array, n_rows):
    """Returns an array of NumPy with values for n_rows rows of an array."""
    import numpy
    dtype, shape = array.dtype, (n_rows, *array.shape[1:])
    try:
        values = numpy.asarray(values, dtype)
    except (TypeError, ValueError) as error:
        raise type(error)(f"values must be numbers of type {dtype}: {error}") from None
    try:
        return numpy.ascontiguousarray(numpy.broadcast_to(values, shape))
    except ValueError:
        raise ValueError(f"values of shape {values.shape} cannot be broadcast to {n_rows} rows of "
                         f"shape {shape[1:]}") from None


def _run(method, target, source, rows, stream, numbered):
    """Calls take_rows() or put_rows(), whose rows are numbers of rows of numbered."""
    on = get_stream(stream, target.context)
    try:
        submit_on(on, stream, lambda: method(on, target, source, rows))
    except (InvalidArgumentError, OverflowError):
        n_rows = len(numbered)
        for i, row in enumerate(rows):
            if not -n_rows <= row < n_rows:
                raise IndexError(f"row {row} at position {i} of the list is out of bounds for an "
                                 f"array with {n_rows} rows") from None
        raise


def _check_rows(array):
    if array.ndim == 0:
        raise IndexError("an array with no dimensions has no rows")


class ArrayRowMethods:
    """Methods of Gpu.Array for rows, which are the elements along the first axis."""

    def take(self, rows, stream=None) -> "Array":
        """Returns a new array with the rows of these numbers, in this order, as array[[3, 1]] does
        with stream=None, which waits. A row may be taken several times. Negative numbers count from
        the end. Raises IndexError for other rows."""
        _check_rows(self)
        rows = _to_rows(rows)
        result = type(self).empty(self.context, [len(rows), *self.shape[1:]], self.get_dtype(),
                                  stream=stream)
        _run(Gpu.Stream.take_rows, result, self, rows, stream, self)
        return result

    def put(self, rows, values, stream=None):
        """Copies the rows of another array to the rows of these numbers, as array[[3, 1]] = values
        does. The other array is broadcast to these rows, is converted to the dtype of this array,
        and may belong to NumPy. A bytes or a bytearray has the bytes of one element. If a number
        occurs several times, the last one counts."""
        check_destination(self)
        _check_rows(self)
        rows = _to_rows(rows)
        if not isinstance(values, Gpu.Array) or values.get_dtype() != self.get_dtype():
            refuse_captured(get_stream(stream, self.context))
        if isinstance(values, (bytes, bytearray)):
            element = type(self).empty(self.context, (), self.get_dtype(), stream=stream)
            element.fill(values, stream)
            values = element
        elif not isinstance(values, Gpu.Array):
            values = type(self).from_numpy(self.context, _to_values(values, self, len(rows)))
        elif values.get_dtype() != self.get_dtype():
            on = stream if values.context == self.context else None
            values = values.astype(self.get_dtype(), stream=on)
        _run(Gpu.Stream.put_rows, self, values, rows, stream, self)

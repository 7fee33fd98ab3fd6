# SPDX-License-Identifier: LGPL-2.1-or-later
"""Batches of copies, and rows of arrays by a list of their numbers."""

import operator

from ..module import get_introspection_module
from ._gpumem import loaded_numpy
from ._gpumem_arrays import check_destination, to_range
from ._gpumem_checks import describe, get_stream
from ._gpumem_errors import InvalidArgumentError

Gpu = get_introspection_module("Gpu")


def _complete(destination, source, size=None, destination_offset=0, source_offset=0):
    return destination, source, size, destination_offset, source_offset


def to_copies(copies, stream):
    """Returns the arguments of copy_batch() for tuples of the arguments of copy()."""
    memories, numbers, ranges = [], {}, []

    def number(memory):
        found = numbers.get(id(memory))         # cheaper than the hash of a memory
        if found is None:
            found = numbers[id(memory)] = len(memories)
            memories.append(memory)
        return found

    for i, copy in enumerate(copies):
        try:
            destination, source, size, to, start = _complete(*copy)
        except TypeError:
            raise TypeError(f"copy {i} must be a tuple of a destination and a source, and then "
                            f"size and offsets, not {describe(copy)}") from None
        if not (type(size) is type(to) is type(start) is int and isinstance(source, Gpu.Memory)
                and isinstance(destination, Gpu.Memory)):
            source, start, size = to_range(source, start, size, stream, "source")
            destination, to, size = to_range(destination, to, size, stream, "destination")
        if destination is not None and source is not None:
            ranges += (number(destination), to, number(source), start, size)
    return memories, ranges


def is_list_of_rows(key):
    """Returns whether an index is a list of numbers: a list, or a NumPy array of integers with one
    dimension."""
    numpy = loaded_numpy()
    return isinstance(key, list) or (numpy is not None and isinstance(key, numpy.ndarray)
                                     and key.ndim == 1 and key.dtype.kind in "iu")


def _to_rows(rows):
    """Returns numbers of rows as an object that the library reads without a call for each number: a
    NumPy array of int64, or a list of int."""
    numpy = loaded_numpy()
    if is_list_of_rows(rows) and not isinstance(rows, list):
        # Numbers that int64 cannot represent must not become others
        return rows.tolist() if rows.dtype == "uint64" else rows.astype("int64", copy=False)
    if numpy is not None and isinstance(rows, numpy.ndarray):
        raise TypeError(f"rows must be integers with one dimension, not {describe(rows)}")
    rows = list(rows)
    if set(map(type, rows)) <= {int}:
        return rows
    return [_to_row(row, i) for i, row in enumerate(rows)]


def _to_row(row, i):
    if not isinstance(row, bool):
        try:
            return operator.index(row)
        except TypeError:
            pass
    raise TypeError(f"rows[{i}] must be the number of a row, not {describe(row)}")


def _run(method, target, source, rows, stream, numbered):
    """Calls take_rows() or put_rows(), whose rows are numbers of rows of numbered."""
    on = get_stream(stream, target.context)
    try:
        method(on, target, source, rows)
    except (InvalidArgumentError, OverflowError):
        n_rows = len(numbered)
        for i, row in enumerate(rows):
            if not -n_rows <= row < n_rows:
                raise IndexError(f"row {row} at position {i} of the list is out of bounds for an "
                                 f"array with {n_rows} rows") from None
        raise
    if stream is None:
        on.synchronize()


class ArrayRowMethods:
    """Methods of Gpu.Array for rows, which are the elements along the first axis."""

    def take(self, rows, stream=None) -> "Array":
        """Returns a new array with the rows of these numbers, in this order, as array[[3, 1]] does
        with stream=None, which waits. A row may be taken several times. Negative numbers count from
        the end. Raises IndexError for other rows."""
        rows = _to_rows(rows)
        result = type(self).empty(self.context, [len(rows), *self.shape[1:]], self.dtype,
                                  stream=stream)
        _run(Gpu.Stream.take_rows, result, self, rows, stream, self)
        return result

    def put(self, rows, values, stream=None):
        """Copies the rows of another array to the rows of these numbers, as array[[3, 1]] = values
        does. The other array is broadcast to these rows, and may belong to NumPy. If a number
        occurs several times, the last one counts."""
        check_destination(self)
        rows = _to_rows(rows)
        if not isinstance(values, Gpu.Array):
            import numpy
            values = numpy.broadcast_to(numpy.asarray(values, self.dtype),
                                        (len(rows), *self.shape[1:]))
            values = type(self).from_numpy(self.context, numpy.ascontiguousarray(values))
        _run(Gpu.Stream.put_rows, self, values, rows, stream, self)

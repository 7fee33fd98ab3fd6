# SPDX-License-Identifier: LGPL-2.1-or-later
"""Batches of copies, and rows of arrays by a list of their numbers."""

import operator

from ..module import get_introspection_module
from ._gpumem import loaded_numpy
from ._gpumem_arrays import check_destination, to_range
from ._gpumem_checks import describe, get_stream

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


def _to_rows(array, rows):
    """Returns the numbers of rows, counted from the first row."""
    n_rows = len(array)
    result = []
    for row in rows:
        if isinstance(row, bool):
            raise TypeError("the numbers of rows cannot be truth values")
        index = operator.index(row)
        if not -n_rows <= index < n_rows:
            raise IndexError(f"row {index} is out of bounds for an array with {n_rows} rows")
        result.append(index % n_rows)
    return result


def _copy_rows(target, source, pairs, stream):
    """Copies rows, from pairs of a row of the target and one of the source."""
    size = target.nbytes // len(target)
    to, to_step = target.offset, target.strides[0]
    start, step = source.offset, source.strides[0]
    ranges = [number for row, other in pairs
              for number in (0, to + row * to_step, 1, start + other * step, size)]
    Gpu.Stream.copy_batch(stream, [target.memory, source.memory], ranges)


def _has_whole_rows(array):
    """Returns whether each row is one range of bytes."""
    return array[0].is_contiguous(Gpu.ArrayOrder.C)


class ArrayRowMethods:
    """Methods of Gpu.Array for rows, which are the elements along the first axis."""

    def take(self, rows, stream=None) -> "Array":
        """Returns a new array with the rows of these numbers, in this order, as array[[3, 1]] does
        with stream=None, which waits. A row may be taken several times. Negative numbers count from
        the end. Raises IndexError for other rows."""
        rows = _to_rows(self, rows)
        result = type(self).empty(self.context, [len(rows), *self.shape[1:]], self.dtype,
                                  stream=stream)
        if result.size > 0:
            _move(result, self, list(enumerate(rows)), stream)
        return result

    def put(self, rows, values, stream=None):
        """Copies the rows of another array to the rows of these numbers, as array[[3, 1]] = values
        does. The other array may belong to NumPy. If a number occurs several times, the last one
        counts."""
        check_destination(self)
        rows = _to_rows(self, rows)
        shape = (len(rows), *self.shape[1:])
        if not isinstance(values, Gpu.Array):
            import numpy
            values = numpy.broadcast_to(numpy.asarray(values, self.dtype), shape)
            values = type(self).from_numpy(self.context, numpy.ascontiguousarray(values))
        if values.shape != shape or values.dtype != self.dtype:
            raise ValueError(f"values of shape {values.shape} and dtype {values.dtype} are not "
                             f"{len(rows)} rows of shape {self.shape[1:]} and dtype {self.dtype}")
        if values.size > 0:
            _move(self, values, list({row: i for i, row in enumerate(rows)}.items()), stream)


def _move(target, source, pairs, stream):
    on = get_stream(stream, target.context)
    if target.memory == source.memory:          # the rows may overlap
        source = source.copy(stream=on)
    if _has_whole_rows(target) and _has_whole_rows(source) and source.context is target.context:
        _copy_rows(target, source, pairs, on)
    else:
        for row, other in pairs:
            target[row].write(source[other], on)
    if stream is None:
        on.synchronize()

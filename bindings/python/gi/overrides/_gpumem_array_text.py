# SPDX-License-Identifier: LGPL-2.1-or-later
"""The text of a Gpu.Array. Large arrays are shortened as in NumPy, and only the elements in the
text are read. Waits for pending work are short, since a debugger may show an array at any time."""

import html
import itertools
import threading

from gi.repository import Gio

from ..module import get_introspection_module

Gpu = get_introspection_module("Gpu")

_MAX_READ = 1 << 16                             # bytes of one read
_MAX_READS = 256                                # for one text


_MAX_WAIT = 100000                              # microseconds of each of two waits


class _NotReadable(Exception):
    """The memory is busy, or its elements are too far apart."""


def _wait_briefly(memory):
    """Waits for the work on the default stream, which reads wait for, and for that on the memory.
    Raises an error if the work takes long."""
    stream = memory.get_context().get_default_stream()
    if not stream.record().wait_timeout(_MAX_WAIT):
        raise _NotReadable
    cancellable = Gio.Cancellable()
    timer = threading.Timer(_MAX_WAIT / 1e6, cancellable.cancel)
    timer.start()
    try:
        memory.wait(cancellable)
    finally:
        timer.cancel()


def from_bfloat(bits):
    """Returns the float32 values of an array of uint16."""
    return (bits.astype("uint32") << 16).view("float32").reshape(bits.shape)


class _Reader:
    """Reads parts of an array whose memory is idle."""

    def __init__(self, memory):
        self.left = _MAX_READS
        if not isinstance(memory, Gpu.Buffer):
            memory = Gpu.Buffer.new_for_memory(memory, 0, memory.get_size())
        self.buffer = memory

    def read(self, array):
        import numpy
        start, size = array.get_range()
        if size > _MAX_READ:
            shape, strides = array.shape, array.strides
            axis = max(range(array.ndim), key=lambda i: abs(strides[i]) * (shape[i] > 1))
            if shape[axis] > self.left:
                raise _NotReadable
            return numpy.stack([self.read(array.index(axis, i)) for i in range(shape[axis])], axis)
        self.left -= 1
        data = numpy.empty(size, "uint8")
        where = None, start, data.__array_interface__["data"][0], size
        if self.left < 0:
            raise _NotReadable
        if size > 0 and not self.buffer.try_read_address(*where):
            _wait_briefly(self.buffer)
            if not self.buffer.try_read_address(*where):
                raise _NotReadable
        return numpy.ndarray(array.shape, array.dtype, data, array.offset - start, array.strides)


def _read_shortened(array, edge):
    """Returns the elements that NumPy prints of an array of many elements, and one more per long
    axis, for the dots."""
    import numpy
    if edge < 1:
        raise _NotReadable
    lengths = [min(length, 2 * edge + 1) for length in array.shape]
    if array.memory is None:
        return numpy.empty(lengths, array.dtype)
    pieces = [(slice(edge), slice(-edge, None)) if length > 2 * edge else (slice(None),)
              for length in array.shape]
    if 1 << sum(len(piece) - 1 for piece in pieces) > _MAX_READS:
        raise _NotReadable
    result = numpy.zeros(lengths, array.dtype)
    reader = _Reader(array.memory)
    for keys in itertools.product(*pieces):
        result[keys] = reader.read(array[keys])
    return result


def _to_text(array, is_str):
    import numpy
    is_bfloat = array.get_dtype().get_kind() == Gpu.DTypeKind.BFLOAT
    bits = array.view("uint16") if is_bfloat else array
    options = numpy.get_printoptions()
    if array.size > options["threshold"]:
        values = _read_shortened(bits, options["edgeitems"])
        options["threshold"] = 0
    elif array.memory is not None:
        values = _Reader(array.memory).read(bits)
    else:
        values = numpy.empty(array.shape, bits.dtype)
    values = from_bfloat(values) if is_bfloat else values
    if is_str and array.ndim == 0:
        return str(values[()])                  # as str() of NumPy: 3.0, where repr() has 3.
    return numpy.array2string(values, threshold=options["threshold"])


class ArrayText:
    """The methods of Gpu.Array that return its text."""

    def _describe(self):
        if self.context is None:
            return "Gpu.Array never initialised"
        fields = f", strides {self.strides}" if not self.flags.c_contiguous else ""
        is_released = self.memory is not None and self.memory.is_released()
        return (f"Gpu.Array of shape {self.shape}{fields}, {self.get_dtype().name}, on "
                f"{self.context.get_device().get_id()}{', released' * is_released}")

    def _get_text(self, is_str=False):
        """Returns the text of the elements, or None if they cannot be read at once."""
        try:
            return _to_text(self, is_str)
        except Exception:                       # repr() must not fail
            return None

    def __str__(self):
        text = self._get_text(True)
        return f"<{self._describe()}>" if text is None else text

    def __repr__(self):
        """Returns shape, type, device and elements. Without the elements if work on the default
        stream or on the memory takes long, or if the host cannot read the memory."""
        text = self._get_text()
        if text is None:
            return f"<{self._describe()}>"
        return f"<{self._describe()}:{chr(10) if chr(10) in text else ' '}{text}>"

    def _repr_html_(self):
        text = self._get_text()
        values = "" if text is None else f"<pre>{html.escape(text)}</pre>"
        return f"<div><code>{html.escape(self._describe())}</code>{values}</div>"

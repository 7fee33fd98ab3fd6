# SPDX-License-Identifier: LGPL-2.1-or-later
"""The protocols of other CUDA libraries: __cuda_stream__(), __cuda_array_interface__ and DLPack.
The errors of these functions name the argument, the type of the object, and the fault. name is the
argument, or a function that returns it."""

import numbers
import operator
import reprlib

_MOST = (1 << 64) - 1


def _describe(value, name, member):
    return f"{name() if callable(name) else name} is a {type(value).__name__}, whose {member}"


def to_address(value):
    """Returns an int from 0 to 2^64 - 1, or None. Handles of NVIDIA's bindings only have
    __int__()."""
    if isinstance(value, bool):
        return None
    try:
        number = operator.index(value)
    except TypeError:
        # Fractions, and texts that int() would parse
        if isinstance(value, (numbers.Number, str, bytes, bytearray)) or hasattr(value, "dtype"):
            return None
        try:
            number = int(value)
        except (TypeError, ValueError):
            return None
    return number if 0 <= number <= _MOST else None


def find_stream_handle(value, name):
    """Returns the handle of a stream of another CUDA library, or None. Streams of older versions of
    PyTorch only have the attribute cuda_stream."""
    member = "__cuda_stream__()"
    try:
        protocol = getattr(value, "__cuda_stream__", None)
        # An attribute in older versions of cuda.core
        found = protocol() if callable(protocol) else protocol
    except Exception as error:
        raise TypeError(f"{_describe(value, name, member)} failed: {type(error).__name__}: "
                        f"{error}") from error
    if protocol is None:
        member, found = "cuda_stream", getattr(value, "cuda_stream", None)
        if found is None:
            return None
        found = 0, found
    try:
        version, handle = found
    except (TypeError, ValueError):
        raise TypeError(f"{_describe(value, name, member)} must return a pair, the version 0 and "
                        f"the handle, not {reprlib.repr(found)}") from None
    if version != 0:
        raise TypeError(f"{_describe(value, name, member)} has version {version!r}, not 0")
    number = to_address(handle)
    if number is None:
        raise TypeError(f"{_describe(value, name, member)} must have a handle from 0 to {_MOST}, "
                        f"not {reprlib.repr(handle)}")
    return number


def read_dlpack_device(value, name):
    """Returns the type and the number of the DLPack device."""
    method = getattr(value, "__dlpack_device__", None)
    if method is None:
        raise TypeError(f"{_describe(value, name, '__dlpack__()')} needs a __dlpack_device__() "
                        "beside it")
    found = method()
    try:
        kind, number = found
        return operator.index(kind), operator.index(number)
    except (TypeError, ValueError):
        raise TypeError(f"{_describe(value, name, '__dlpack_device__()')} must return a type and a "
                        f"number, not {reprlib.repr(found)}") from None


def request_capsule(value, stream, name):
    """Returns a capsule of the newest version that the other library supports."""
    keywords = {} if stream is None else {"stream": stream}
    try:
        capsule = value.__dlpack__(max_version=(1, 1), **keywords)
    except TypeError:
        capsule = value.__dlpack__(**keywords)
    if type(capsule).__name__ != "PyCapsule":
        raise TypeError(f"{_describe(value, name, '__dlpack__()')} must return a capsule, not "
                        f"{reprlib.repr(capsule)}")
    return capsule


def _is_sizes(value, least):
    try:
        return all(operator.index(number) >= least for number in value)
    except TypeError:
        return False


def _find_fault(interface):
    """Returns the text of the first fault of a CUDA Array Interface, or None."""
    for key in ("shape", "typestr", "data"):
        if key not in interface:
            return f"has no {key!r}"
    shape, strides, data = interface["shape"], interface.get("strides"), interface["data"]
    if not _is_sizes(shape, 0):
        return f"must have a shape of sizes, not {reprlib.repr(shape)}"
    if strides is not None and (not _is_sizes(strides, -_MOST) or len(strides) != len(shape)):
        return f"must have strides for the shape {tuple(shape)}, not {reprlib.repr(strides)}"
    if not isinstance(interface["typestr"], str) or len(interface["typestr"]) < 3:
        return f"must have a typestr such as '<f4', not {reprlib.repr(interface['typestr'])}"
    if not isinstance(data, (tuple, list)) or len(data) != 2 or to_address(data[0]) is None:
        return f"must have data of an address and whether it is read-only, not {reprlib.repr(data)}"
    if not data[0] and 0 not in shape:
        return f"has the address 0 for the shape {tuple(shape)}"
    stream = interface.get("stream")
    if stream is not None and to_address(stream) is None:
        return f"must have a stream handle or None, not {reprlib.repr(stream)}"
    if stream == 0:
        return ("has the stream 0, which the interface disallows as ambiguous: the legacy default "
                "stream is 1, that of each thread is 2, and None needs no wait")
    return None


class Interface:
    """A with statement around the use of a CUDA Array Interface. Valid interfaces cost no checks:
    if the use fails, the statement looks for the fault."""

    def __init__(self, value, interface, name):
        self.value, self.interface, self.name = value, interface, name

    def __enter__(self):
        return self.interface

    def __exit__(self, kind, error, trace):
        if not isinstance(error, Exception):
            return
        member = "__cuda_array_interface__"
        if not hasattr(self.interface, "keys"):
            raise TypeError(f"{_describe(self.value, self.name, member)} must be a dictionary, not "
                            f"{reprlib.repr(self.interface)}") from None
        fault = _find_fault(self.interface)
        if fault is not None:
            raise ValueError(f"{_describe(self.value, self.name, member)} {fault}") from None

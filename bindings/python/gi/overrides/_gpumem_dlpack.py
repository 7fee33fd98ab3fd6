# SPDX-License-Identifier: LGPL-2.1-or-later
"""Arrays of other libraries: DLPack, and the CUDA Array Interface."""

import ctypes
import gc
import sys
import threading

from gi.repository import GLib

from ..module import get_introspection_module
from ._gpumem import _get_await_context

Gpu = get_introspection_module("Gpu")

CPU, CUDA, CUDA_HOST, OPENCL, CUDA_MANAGED = 1, 2, 3, 4, 13

_NAMES = {False: b"dltensor", True: b"dltensor_versioned"}
_USED_NAMES = {False: b"used_dltensor", True: b"used_dltensor_versioned"}


def _capsule_function(name, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new_capsule = _capsule_function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p,
                                 ctypes.c_char_p, ctypes.c_void_p)
_get_pointer = _capsule_function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object,
                                 ctypes.c_char_p)
_is_valid = _capsule_function("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_set_name = _capsule_function("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)

_capsules = []
_sweeping = threading.Lock()


def _sweep(*args):
    """Frees the tensors of capsules that nobody else has any more, and that nobody took."""
    if sys.is_finalizing() or not _sweeping.acquire(blocking=False):
        return
    try:
        for _ in range(len(_capsules)):
            capsule = _capsules.pop(0)
            if sys.getrefcount(capsule) > 2:
                _capsules.append(capsule)
                continue
            for versioned, name in _NAMES.items():
                if _is_valid(capsule, name):
                    Gpu.dlpack_free(_get_pointer(capsule, name), versioned)
    finally:
        _sweeping.release()


def new_capsule(tensor, versioned):
    """A capsule for a tensor, which is freed if nobody takes it: the module in C has this as well.
    A destructor written in Python would lose the exception that is on its way up, and cannot run
    once the interpreter has ended. So capsules are looked after here, without one."""
    if _sweep not in gc.callbacks:
        gc.callbacks.append(_sweep)
    _sweep()
    capsule = _new_capsule(tensor, _NAMES[versioned], None)
    _capsules.append(capsule)
    return capsule


def _default_device(context):
    backend = context.get_device().get_backend()
    number = context.get_device().get_id().rpartition(":")[2]
    kind = {"cuda": CUDA, "opencl": OPENCL}.get(backend, CPU)
    return kind, int(number) if kind != CPU and number.isdigit() else 0


def _wait_on(array, stream):
    """Has a stream of CUDA, as DLPack and the CUDA Array Interface number them, or a Gpu.Stream,
    wait for the work on an array; without one the caller waits."""
    is_cuda = array.context.get_device().get_backend() == "cuda"
    if stream is None or isinstance(stream, int) and not is_cuda:
        array.context.synchronize()
        return
    if not isinstance(stream, Gpu.Stream):
        stream = Gpu.Stream.new_wrapped(array.context, stream, Gpu.WrapMode.BORROW)
    Gpu.Stream.wait_array(stream, array)
    if array.memory is not None:
        array.memory.add_stream(stream)


def _import_capsule(context, capsule):
    for versioned, name in _NAMES.items():
        if _is_valid(capsule, name):
            array = Gpu.Array.new_from_dlpack(context, _get_pointer(capsule, name), versioned)
            _set_name(capsule, _USED_NAMES[versioned])
            return array
    raise ValueError("the capsule holds no tensor of DLPack, or another has taken it")


class DLPackMethods:
    """What Gpu.Array has for other libraries."""

    def __dlpack_device__(self):
        return tuple(Gpu.Array.get_dlpack_device(self))[-2:]

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A capsule for the from_dlpack() of another library. On CUDA its stream waits for the work
        on the array: stream is 1 for the legacy default stream, 2 for the one of each thread, -1
        for none that waits, or the handle of another. Without one, and for memory of the host, the
        caller waits."""
        array = self
        if dl_device is not None and tuple(dl_device) != array.__dlpack_device__():
            raise BufferError(f"the array is on the device {array.__dlpack_device__()} of DLPack, "
                              f"and not on {tuple(dl_device)}")
        if copy:
            array = array.copy()
        if stream != -1:
            _wait_on(array, stream)
        versioned = max_version is not None and max_version[0] >= 1
        try:
            tensor = Gpu.Array.to_dlpack(array, versioned)
        except GLib.Error as error:
            raise BufferError(error.message) from error
        return new_capsule(tensor, versioned)

    @classmethod
    def from_dlpack(cls, data, context=None, copy=None, stream=None):
        """An array over the memory of another library, from what has __dlpack__(), or a capsule of
        that. Memory that the context does not reach is copied, unless copy=False. Without a context
        it is one of the device that the memory is on."""
        if not hasattr(data, "__dlpack__"):
            return _import_capsule(context, data)
        kind, number = data.__dlpack_device__()
        if context is None:
            name = {CUDA: f"cuda:{number}", CUDA_MANAGED: f"cuda:{number}", OPENCL: "opencl"}
            context = Gpu.Context.new(Gpu.Device.find(name.get(kind, "host")))
        if kind == CPU and _default_device(context)[0] != CPU:
            if copy is False:
                raise BufferError("memory of the host is not reached by "
                                  f"{context.get_device().get_id()} without a copy")
            import numpy
            return cls.from_numpy(context, numpy.from_dlpack(data), stream)
        if kind not in (CUDA, CUDA_MANAGED):
            number = None
        elif stream is None:
            number = context.get_default_stream().get_native_handle() or 1
        else:
            number = stream.get_native_handle() or 1
        array = _import_capsule(context, _ask(data, number))
        return array.copy() if copy else array

    # CUDA Array Interface

    @property
    def __cuda_array_interface__(self):
        if self.context.get_device().get_backend() != "cuda":
            raise AttributeError("the array is on no device of CUDA")
        dtype = self.get_dtype()
        stream = self.context.get_default_stream()
        Gpu.Stream.wait_array(stream, self)
        return {"version": 3, "shape": self.shape,
                "typestr": "|V2" if dtype.kind == Gpu.DTypeKind.BFLOAT else dtype.to_string(),
                "descr": self.dtype.descr if dtype.fields else [("", dtype.to_string())],
                "data": (self.get_device_address(), False), "strides": self.strides,
                "stream": stream.get_native_handle() or 1}

    @classmethod
    def from_cuda_array_interface(cls, context, data, stream=None):
        """An array over memory of CUDA that another library has. The stream, or the default stream,
        waits for the work that it names."""
        interface = data.__cuda_array_interface__
        if interface.get("mask") is not None:
            raise ValueError("an array with a mask is no plain memory")
        shape, strides = tuple(interface["shape"]), interface.get("strides")
        dtype = _to_cuda_dtype(interface)
        address, read_only = interface["data"]
        if read_only:
            raise ValueError("the array is only to be read")
        _order(context, interface.get("stream"), stream)
        if 0 in shape:
            return cls.empty(context, shape, dtype)
        return cls._for_address(context, address, shape, strides, dtype, data)

    @classmethod
    def _for_address(cls, context, address, shape, strides, dtype, owner):
        item = dtype.get_item_size()
        if strides is None:
            strides = [item] * len(shape)
            for i in range(len(shape) - 1, 0, -1):
                strides[i - 1] = strides[i] * shape[i]
        steps = [stride * (length - 1) for stride, length in zip(strides, shape)]
        below = sum(step for step in steps if step < 0)
        size = sum(map(abs, steps)) + item
        buffer = Gpu.Buffer.new_wrapped_owned(context, address + below, size, _own(owner))
        return cls.for_memory(buffer, shape, dtype, -below, strides)


def _own(owner):
    """GLib.Bytes that keep any object, and let go of it on a thread of Python's."""
    kept = [owner]
    return Gpu.bytes_new_for_address(id(owner), 0, _get_await_context(), lambda *args: kept.clear())


def _ask(data, stream):
    """A capsule of the newest kind that the other library has."""
    keywords = {} if stream is None else {"stream": stream}
    try:
        return data.__dlpack__(max_version=(1, 1), **keywords)
    except TypeError:
        return data.__dlpack__(**keywords)


def _to_cuda_dtype(interface):
    from ._gpumem_ndarray import to_dtype
    descr = interface.get("descr")
    if interface["typestr"][1] != "V" or not descr or not descr[0][0]:
        return to_dtype(interface["typestr"])
    import numpy
    return to_dtype(numpy.dtype(descr))


def _order(context, theirs, ours):
    """Has a stream of ours wait for what is on one of another library."""
    if theirs is None:
        return
    ours = ours or context.get_default_stream()
    other = Gpu.Stream.new_wrapped(context, theirs, Gpu.WrapMode.BORROW)
    Gpu.Stream.wait_event(ours, other.record())

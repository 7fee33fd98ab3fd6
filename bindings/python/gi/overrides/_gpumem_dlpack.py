# SPDX-License-Identifier: LGPL-2.1-or-later
"""Arrays of other libraries: DLPack, and the CUDA Array Interface."""

import ctypes
import gc
import operator
import sys
import threading
import weakref

from gi.repository import GLib

from ..module import get_introspection_module
from ._gpumem import _get_await_context, drop_elsewhere, get_pointer
from ._gpumem_checks import get_stream, to_index, to_stream
from ._gpumem_errors import NotSupportedError
from ._gpumem_names import FUNCTION, find_caller
from ._gpumem_protocols import Interface, read_dlpack_device, request_capsule

Gpu = get_introspection_module("Gpu")

CPU, CUDA, CUDA_HOST, OPENCL, CUDA_MANAGED = 1, 2, 3, 4, 13

LEGACY_STREAM = 1

# In DLManagedTensorVersioned, the flags follow two version numbers and two pointers
_FLAGS_OFFSET = 8 + 2 * ctypes.sizeof(ctypes.c_void_p)
_READ_ONLY = 1

# Flags of memory that other libraries must not write
_NO_WRITES = Gpu.MemoryFlags.READ_ONLY | Gpu.MemoryFlags.HOST_READ_ONLY

_NAMES = {False: b"dltensor", True: b"dltensor_versioned"}
_USED_NAMES = {False: b"used_dltensor", True: b"used_dltensor_versioned"}


def _capsule_function(name, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new_capsule = _capsule_function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p,
                                 ctypes.c_char_p, ctypes.c_void_p)
_is_valid = _capsule_function("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_set_name = _capsule_function("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)

_capsules = []
_sweeping = threading.Lock()
_taking = threading.Lock()


def _sweep(*args):
    """Frees the tensors of capsules that have no other reference and were never consumed."""
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
                    Gpu.dlpack_free(get_pointer(capsule, name), versioned)
    finally:
        _sweeping.release()


def new_capsule(tensor, versioned):
    """Returns a capsule whose tensor is freed if no library consumes it. The C module replaces this
    function. A destructor written in Python would lose a pending exception, and cannot run after
    the interpreter has ended, so _sweep() frees the tensors instead."""
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


def _to_consumer(context, stream):
    """Returns the stream of a consumer as None, a number or a Gpu.Stream. The stream may be an
    object of another library, with __cuda_stream__()."""
    if stream is None or isinstance(stream, Gpu.Stream):
        return stream
    if isinstance(stream, int) or hasattr(stream, "__index__"):
        number = to_index(stream, "stream")
        if -1 <= number < 1 << 64:
            return number
        raise ValueError(f"stream must be -1 to {(1 << 64) - 1}, not {number}")
    found = to_stream(stream, "stream", (context,))
    if not isinstance(found, Gpu.Stream):
        raise TypeError("stream must be None, a number, a Gpu.Stream or an object with "
                        f"__cuda_stream__(), not {stream!r}")
    return found


def _is_untracked(array):
    return array.memory is not None and array.memory.get_flags() & Gpu.MemoryFlags.UNTRACKED


def _wait_for(array):
    """Waits for the work on an array, or for all work of the context if it is not tracked."""
    if _is_untracked(array):
        array.context.synchronize()
    elif array.memory is not None:
        array.memory.wait()


def _wait_on(array, stream):
    """Makes a stream wait for the work on an array. The stream is a Gpu.Stream, or the number that
    DLPack and the CUDA Array Interface use for a CUDA stream. Without a stream the caller waits."""
    is_cuda = array.context.get_device().get_backend() == "cuda"
    stream = _to_consumer(array.context, stream)
    if stream is None or isinstance(stream, int) and not is_cuda:
        array.context.synchronize()
        return
    handle = None if isinstance(stream, Gpu.Stream) else stream
    if handle == 0:
        raise ValueError("stream 0 is ambiguous: pass 1 for the legacy default stream, or 2 for "
                         "the per-thread default stream")
    memory = array.memory
    if handle == LEGACY_STREAM:
        stream = getattr(memory, "_legacy_stream", None)
    if handle is not None and not isinstance(stream, Gpu.Stream):
        stream = Gpu.Stream.new_wrapped(array.context, handle, Gpu.WrapMode.BORROW)
    Gpu.Stream.wait_array(stream, array)
    if memory is not None:
        memory.add_stream(stream)
        # Cache the wrapper of the legacy default stream only. Any other stream may be destroyed
        # before the memory is freed.
        if handle == LEGACY_STREAM:
            memory._legacy_stream = stream


def _order_consumer(array, stream):
    """Orders the work of the consumer of a tensor after the work on the array: see __dlpack__()."""
    stream = _to_consumer(array.context, stream)
    kind = array.get_dlpack_device()[0]
    if kind == OPENCL and isinstance(stream, int):
        raise BufferError(f"OpenCL memory has no address: stream must be None, not {stream}, which "
                          "is for CUDA; use to_numpy(), or gpumem.mpi for messages of MPI")
    if kind in (CPU, CUDA_HOST):
        _wait_for(array)
    elif stream != -1:
        _wait_on(array, stream)


def _share_with_host(array, context):
    """Returns an array of a context of the host over the same elements; None if there are none, or
    if the host cannot access the memory at any time."""
    data = None if array.size == 0 else array.get_host_bytes()
    if data is None:
        return None
    begin = array.get_range()[0]
    address = array.get_host_address() - (array.get_offset() - begin)
    buffer = Gpu.Buffer.new_wrapped(context, address, data.get_size(), Gpu.WrapMode.BORROW, data)
    if array.get_memory().get_flags() & _NO_WRITES:
        buffer = _to_constant(context, buffer)
    return Gpu.Array.new_for_memory(buffer, array.get_offset() - begin, array.get_dtype(),
                                    list(array.shape), list(array.strides))


def _is_spilled(array):
    return isinstance(array.memory, Gpu.Buffer) and array.memory.spilled


def _to_host(array, device, copy, versioned):
    """Returns an array for a consumer that requested the device (CPU, 0), once the work on the
    elements has completed, and whether it is a copy. Consumers of old tensors may write them, so
    elements that must not be written are copied."""
    if device != (CPU, 0):
        raise BufferError(f"the memory is on the DLPack device {array.__dlpack_device__()}, and "
                          f"cannot be exported to {device}")
    context = Gpu.Context.new(Gpu.Device.find("host"), Gpu.ContextFlags.NONE)
    if not copy and (versioned or array.is_writable()):
        shared = _share_with_host(array, context)
        if shared is not None:
            _wait_for(array)
            return shared, False
    if copy is False and array.size > 0:
        if _is_spilled(array):
            raise BufferError("the memory is spilled, and cannot be exported to "
                              f"{device} without a copy; Buffer.unspill() restores it")
        raise BufferError(f"the memory is on the DLPack device {array.__dlpack_device__()}, and "
                          f"cannot be exported to {device} without a copy")
    result = type(array).empty(context, array.shape, array.get_dtype())
    if _is_untracked(array):
        _wait_for(array)                        # a copy only waits for tracked memory
    if array.size > 0:
        array.read_strided(None, result.get_host_bytes(), 0, list(result.strides), None)
    return result, copy is not False


def _new_allocator(context, kind):
    """Returns an allocator of memory of a DLPack device."""
    if kind == CUDA_HOST:
        return Gpu.HostAllocator.new(context, Gpu.HostMemoryFlags.NONE)
    if kind == CUDA_MANAGED:
        return Gpu.SvmAllocator.new(context, Gpu.MemoryFlags.NONE, Gpu.SvmFlags.NONE, 0, None)
    return Gpu.DeferredAllocator.new(context, Gpu.MemoryFlags.NONE)


def _copy_on_device(array, device):
    """Returns a copy of an array, on the same DLPack device. The allocator of the context may have
    memory of another one."""
    if array.size == 0:
        return array                            # an array without memory may have another device
    if _is_untracked(array):
        _wait_for(array)                        # a copy only waits for tracked memory
    if device[0] in (CUDA, OPENCL):
        result = array.copy()
        if result.__dlpack_device__() == device:
            return result
    return array.copy(_new_allocator(array.context, device[0]))


def _copy_from_host(context, array):
    """Copies an array of a context of the host to another context, and waits. Between contexts,
    copy_to() would keep the driver's part of the context of the host."""
    result = Gpu.Array.new_full(context, None, None, array.get_dtype(), list(array.shape),
                                array._get_order())
    if array.size > 0:
        array.memory.wait()
        offset = array.get_offset() - array.get_range()[0]
        result.write_strided(None, array.get_host_bytes(), offset, list(array.strides), None)
    return result


_PAIRS = {"dl_device": "a type and a number of DLPack", "max_version": "two numbers"}


def _to_pair(value, name):
    """Returns the two ints of an argument of __dlpack__()."""
    try:
        first, second = value
        return operator.index(first), operator.index(second)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be {_PAIRS[name]}, such as (1, 0), or None, not "
                        f"{value!r}") from None


def can_access(context, kind, number):
    """Returns whether a context can access memory of a DLPack device in place."""
    own = _default_device(context)
    if kind in (CUDA, CUDA_MANAGED):
        return own == (CUDA, number)
    return own[0] == kind or kind == CUDA_HOST and own[0] in (CPU, CUDA)


def _find_context(kind, number):
    if kind == OPENCL:
        raise ValueError("only the context that owns OpenCL memory can access the memory: pass "
                         "that context")
    name = f"cuda:{number}" if kind in (CUDA, CUDA_MANAGED) else "host"
    return Gpu.Context.new(Gpu.Device.find(name), Gpu.ContextFlags.NONE)


def _to_copier(kind, stream):
    """Returns the stream of a copy. The call waits for copies of host memory, which the program may
    change as soon as the call returns."""
    return None if kind in (CPU, CUDA_HOST) else stream


def _refuse_device(context, kind, number, how=""):
    return BufferError(f"memory of the DLPack device {(kind, number)} is not accessible to "
                       f"{context.get_device().get_id()}{how}")


def _to_context(context, device):
    """Returns the context for a device, which is a Gpu.Device, a name or a DLPack device."""
    if context is not None and not isinstance(context, Gpu.Context):
        raise TypeError(f"context must be a Gpu.Context or None, not {context!r}; a device is the "
                        "argument device")
    if device is None:
        return context
    if context is not None:
        raise ValueError("a context already has a device: pass only one of context and device")
    if isinstance(device, tuple) and len(device) == 2:
        return _find_context(*(to_index(number, "device") for number in device))
    if not isinstance(device, (Gpu.Device, str)):
        raise TypeError("device must be a Gpu.Device, a name or a type and number of DLPack, not "
                        f"{device!r}")
    return Gpu.Context.new(device if isinstance(device, Gpu.Device) else Gpu.Device.find(device),
                           Gpu.ContextFlags.NONE)


def take_capsule(capsule):
    """Renames the capsule, so that no other thread consumes its tensor. Returns the tensor and
    whether it is versioned, or None. The lock does not exclude other libraries; the C version
    of this function does."""
    with _taking:
        for versioned, name in _NAMES.items():
            if _is_valid(capsule, name):
                tensor = get_pointer(capsule, name)
                _set_name(capsule, _USED_NAMES[versioned])
                return tensor, versioned
    return None


def _read_capsule_device(capsule):
    """Returns the type and the number of the DLPack device of a capsule. The capsule keeps its
    tensor."""
    with _taking:
        for versioned, name in _NAMES.items():
            if _is_valid(capsule, name):
                offset = _DEVICE_OFFSET if versioned else _OLD_DEVICE_OFFSET
                address = get_pointer(capsule, name) + offset
                return tuple((ctypes.c_int32 * 2).from_address(address))
    raise ValueError("the capsule holds no DLPack tensor, or its tensor was consumed before")


def _import_capsule(context, capsule):
    taken = take_capsule(capsule)
    if taken is None:
        raise ValueError("the capsule holds no DLPack tensor, or its tensor was consumed before")
    tensor, versioned = taken
    try:
        return Gpu.Array.new_from_dlpack(context, tensor, versioned)
    except (GLib.Error, TypeError, ValueError, OverflowError):
        # Do not catch KeyboardInterrupt, which may be raised after the array has taken the tensor.
        _set_name(capsule, _NAMES[versioned])   # the capsule still owns the tensor
        raise


# The C exchange interface. It names devices, not contexts; the contexts exist as long as their
# arrays.
_contexts = weakref.WeakValueDictionary()
_TYPES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_OLD_DEVICE_OFFSET = ctypes.sizeof(ctypes.c_void_p)
_DEVICE_OFFSET = _FLAGS_OFFSET + 8 + _OLD_DEVICE_OFFSET


def _get_exchange_context(kind, number):
    context = _contexts.get((kind, number))
    if context is None:
        context = _contexts[kind, number] = _find_context(kind, number)
    return context


def import_tensor(address):
    """Returns an array for a versioned tensor, and takes ownership of the tensor, also on failure.
    Later work on the array is ordered after the work on the legacy default stream."""
    kind, number = (ctypes.c_int32 * 2).from_address(address + _DEVICE_OFFSET)
    try:
        context = _get_exchange_context(kind, number)
        array = Gpu.Array.new_from_dlpack(context, address, True)
    except (GLib.Error, TypeError, ValueError, OverflowError):
        # Do not catch KeyboardInterrupt, which may be raised after the array has taken the tensor.
        Gpu.dlpack_free(address, True)
        raise
    # From here on the array owns the tensor.
    if kind == CUDA:
        _order(array, LEGACY_STREAM)
    return array


def alloc_tensor(array_class, kind, number, code, bits, lanes, shape):
    """Returns the address of a versioned tensor with new memory."""
    if code not in _TYPES or lanes != 1:
        raise BufferError(f"arrays have no elements of the DLPack type {code} with {bits} bits and "
                          f"{lanes} lanes")
    dtype = _TYPES[code] if code == 6 else f"{_TYPES[code]}{bits}"
    array = array_class.empty(_get_exchange_context(kind, number), shape, dtype)
    return Gpu.Array.to_dlpack(array, True, False)


class DLPackMethods:
    """The methods of Gpu.Array that exchange arrays with other libraries."""

    def get_dlpack_device(self) -> "tuple[int, int]":
        """Gets the type and the number of the DLPack device."""
        return tuple(Gpu.Array.get_dlpack_device(self))[-2:]

    def __dlpack_device__(self) -> "tuple[int, int]":
        return self.get_dlpack_device()

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """Returns a capsule for from_dlpack() of another library. On CUDA the stream of that
        library waits for the work on the array: 1 is the legacy default stream, 2 the per-thread
        default stream, -1 skips the wait, and any other number is the handle of a stream. An object
        with __cuda_stream__() is accepted in place of the number. Without a stream, and for host
        memory, also page-locked, the caller waits. OpenCL memory has no address: with a number,
        which consumers pass that need one, such as mpi4py, the call raises BufferError.

        The tensor, also with copy=True, has the device of the array, or dl_device. For
        dl_device=(1, 0), the call waits for the work on the array, and exports memory that the host
        may access at any time without a copy: host memory, fine-grained shared memory, and managed
        memory of CUDA devices that access it at the same time as the host. Elements in other
        memory, and those of a spilled buffer, are copied to the host; copy=False raises BufferError
        instead. So does any other device than (1, 0) and that of the array."""
        array, is_copied = self, bool(copy)
        if copy not in (None, True, False):
            raise ValueError(f"copy must be None, True or False, not {copy!r}")
        copy = None if copy is None else bool(copy)         # 0 and numpy.False_ are equal to False
        versioned = max_version is not None and _to_pair(max_version, "max_version")[0] >= 1
        dl_device = None if dl_device is None else _to_pair(dl_device, "dl_device")
        try:
            own = self.__dlpack_device__()
            if copy and own == (CPU, 0) and dl_device is None:
                dl_device = own
            if dl_device is not None and (dl_device != own or own == (CPU, 0)
                                          and (copy or _is_spilled(self))):
                array, is_copied = _to_host(self, dl_device, copy, versioned)   # waits
            else:
                array = _copy_on_device(self, own) if copy else self
                _order_consumer(array, stream)
            tensor = Gpu.Array.to_dlpack(array, versioned, is_copied)
        except (BufferError, GLib.Error) as error:
            raise BufferError(_name_method(self, "__dlpack__", error)) from _get_cause(error)
        return new_capsule(tensor, versioned)

    @classmethod
    def from_dlpack(cls, data, context=None, copy=None, stream=None, device=None):
        """Returns an array over the memory of another library, given an object with __dlpack__() or
        a DLPack capsule. The stream, or else the default stream, waits for the pending work on the
        memory; work that this library submits later is ordered after the import.

        The elements are copied if the context cannot access the memory, or if the other library
        does not export it: NumPy before 2.1 does not export read-only arrays. copy=False raises an
        error instead.

        Without a context, this method creates a context for the given device (a Gpu.Device, a name
        or a DLPack device) or, without a device, for the device of the memory. Capsules and OpenCL
        memory need a context."""
        is_capsule = type(data).__name__ == "PyCapsule"
        if not is_capsule and not hasattr(data, "__dlpack__"):
            raise TypeError("data must have __dlpack__() or be a capsule, not "
                            f"{type(data).__name__!r}")
        context = _to_context(context, device)
        if is_capsule:
            if context is None:
                raise ValueError("a capsule does not name its context: pass a context")
            stream = None if stream is None else get_stream(stream, context)
            return cls._from_capsule(context, data, copy, stream)
        kind, number = read_dlpack_device(data, "data")
        if context is None:
            context = _find_context(kind, number)
        stream = None if stream is None else get_stream(stream, context)
        if can_access(context, kind, number):
            asked = _get_handle(context, stream) if kind in (CUDA, CUDA_MANAGED) else None
            try:
                capsule = request_capsule(data, asked, "data")
            except (BufferError, TypeError):
                if copy is False or kind != CPU or not hasattr(data, "__array__"):
                    raise
                return cls.from_numpy(context, data, stream)
            array = _import(context, capsule, stream)
            return array.copy(stream=_to_copier(kind, stream)) if copy else array
        if copy is False:
            raise _refuse_device(context, kind, number, " without a copy")
        return cls._copy_from(context, data, kind, number, stream)

    @classmethod
    def _from_capsule(cls, context, capsule, copy, stream):
        """Imports the tensor of a capsule, and copies it if the context cannot access its
        memory."""
        kind, number = _read_capsule_device(capsule)
        if can_access(context, kind, number):
            array = _import(context, capsule, stream)
            return array.copy(stream=_to_copier(kind, stream)) if copy else array
        if copy is False:
            raise _refuse_device(context, kind, number, " without a copy")
        if kind not in (CPU, CUDA_HOST, CUDA, CUDA_MANAGED):
            raise _refuse_device(context, kind, number)
        array = _import(_find_context(kind, number), capsule, None)
        if kind in (CPU, CUDA_HOST):
            return _copy_from_host(context, array)
        return array.copy_to(context, stream)

    @classmethod
    def _copy_from(cls, context, data, kind, number, stream):
        """Copies memory that only another context can access."""
        if isinstance(data, DLPackMemoryMethods):
            data = data._to_bytes()
        if isinstance(data, Gpu.Array):
            return data.copy_to(context, stream)
        if kind in (CPU, CUDA_HOST):
            # numpy.from_dlpack() would need __dlpack__() in the class, and explains no fault of it
            if not hasattr(data, "__array__"):
                data = cls.from_dlpack(data, _find_context(kind, number))
            return cls.from_numpy(context, data, stream)
        if kind not in (CUDA, CUDA_MANAGED):
            raise _refuse_device(context, kind, number)
        return cls.from_dlpack(data, _find_context(kind, number)).copy_to(context, stream)

    # CUDA Array Interface

    @property
    def __cuda_array_interface__(self):
        if self.context.get_device().get_backend() != "cuda":
            raise AttributeError("the array is not on a CUDA device")
        dtype = self.get_dtype()
        descr = get_descr(self.dtype) if dtype.fields else [("", dtype.to_string())]
        stream = self.context.get_default_stream()
        try:
            Gpu.Stream.wait_array(stream, self)
            if self.memory is not None:
                self.memory.add_stream(stream)
        except GLib.Error as error:
            raise AttributeError(_name_method(self, "__cuda_array_interface__", error)) from error
        return {"version": 3, "shape": self.shape,
                "typestr": "|V2" if dtype.kind == Gpu.DTypeKind.BFLOAT else dtype.to_string(),
                "descr": descr,
                "data": (self.get_device_address(), not self.is_writable()),
                "strides": self.strides, "stream": stream.get_native_handle() or 1}

    @classmethod
    def from_cuda_array_interface(cls, context, data, stream=None):
        """Returns an array over CUDA memory of another library. The stream, or else the default
        stream, waits for the work on the stream that the interface names: 1 is the legacy default
        stream of CUDA, 2 that of each thread, and 0 raises ValueError. If the interface says that
        the array is read-only, all work of this library that writes it fails. The version of the
        interface is not checked, as in CuPy and Numba."""
        interface = getattr(data, "__cuda_array_interface__", None)
        if interface is None:
            raise TypeError("data must have __cuda_array_interface__, unlike a "
                            f"{type(data).__name__!r}")
        if _default_device(context)[0] != CUDA:
            raise NotSupportedError("Array.from_cuda_array_interface: "
                                    f"{context.get_device().get_id()} has no addresses of CUDA")
        own = get_stream(stream, context)
        with Interface(data, interface, "data"):
            if 0 in interface["shape"]:
                return cls.empty(context, tuple(interface["shape"]), _to_cuda_dtype(interface))
            array = _wrap_interface(context, data, interface)
            _order(array, interface.get("stream"), own)
        return array


def _name_method(memory, name, error):
    """Returns the message of an error of a method with two underscores, which Python or another
    library calls. The message names this method instead of the functions that it calls, or the
    function of the overrides that the program called."""
    text = FUNCTION.sub("", str(error), 1)
    return f"{find_caller() or f'{type(memory).__name__}.{name}'}: {text}"


def _get_cause(error):
    """Returns the cause of an error with the text of _name_method(): an error of the library."""
    return error if isinstance(error, GLib.Error) else error.__cause__


class DLPackMemoryMethods:
    """The methods of memory that pass its bytes to other libraries, as an array of uint8."""

    def _to_bytes(self):
        return Gpu.Array.new_for_memory(self, 0, Gpu.DType.get_number(Gpu.DTypeKind.UINT, 1),
                                        [self.get_size()], None)

    def __dlpack_device__(self) -> "tuple[int, int]":
        try:
            return self._to_bytes().get_dlpack_device()
        except GLib.Error as error:
            error.message = _name_method(self, "__dlpack_device__", error)
            raise

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """Gpu.Array.__dlpack__() of an array of all bytes."""
        try:
            return self._to_bytes().__dlpack__(stream=stream, max_version=max_version,
                                               dl_device=dl_device, copy=copy)
        except (BufferError, GLib.Error) as error:
            raise BufferError(_name_method(self, "__dlpack__", error)) from _get_cause(error)

    @property
    def __cuda_array_interface__(self):
        if self.context.get_device().get_backend() != "cuda":
            raise AttributeError("the memory is not on a CUDA device")
        try:
            return self._to_bytes().__cuda_array_interface__
        except (AttributeError, GLib.Error) as error:
            raise AttributeError(_name_method(self, "__cuda_array_interface__", error)) \
                from _get_cause(error)


_compute_interface = vars(DLPackMemoryMethods)["__cuda_array_interface__"].fget
del DLPackMemoryMethods.__cuda_array_interface__


def _get_missing(self, name):
    """Computes the interface of memory. The error of a property would be lost: see
    compute_once()."""
    if name == "__cuda_array_interface__":
        return _compute_interface(self)
    return super(DLPackMemoryMethods, self).__getattr__(name)


DLPackMemoryMethods.__getattr__ = _get_missing


def _wrap_interface(context, data, interface):
    """Returns an array over the memory that a CUDA Array Interface describes, which must have
    elements."""
    if interface.get("mask") is not None:
        raise ValueError("an array with a mask cannot be imported")
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    dtype = _to_cuda_dtype(interface)
    address, read_only = interface["data"]
    item = dtype.get_item_size()
    if strides is None:
        strides = [item] * len(shape)
        for i in range(len(shape) - 1, 0, -1):
            strides[i - 1] = strides[i] * shape[i]
    steps = [stride * (length - 1) for stride, length in zip(strides, shape)]
    below = sum(step for step in steps if step < 0)
    size = sum(map(abs, steps)) + item
    memory = Gpu.Buffer.new_wrapped(context, address + below, size, Gpu.WrapMode.BORROW,
                                    _own(data))
    if read_only:
        memory = _to_constant(context, memory)
    return Gpu.Array.new_for_memory(memory, -below, dtype, shape, list(strides))


def import_interface(context, data, interface, name):
    """Returns an array over CUDA memory of another library, for kernels only. A kernel that may
    write a read-only array is refused."""
    with Interface(data, interface, name):
        if 0 in interface["shape"]:
            return Gpu.Array.new(context, _to_cuda_dtype(interface), tuple(interface["shape"]))
        array = _wrap_interface(context, data, interface)
        _order(array, interface.get("stream"))
    return array


def import_foreign(context, data, name):
    """Returns an array over CUDA memory of another library; None for other objects and contexts."""
    interface = getattr(data, "__cuda_array_interface__", None)
    if interface is None or _default_device(context)[0] != CUDA:
        return None
    return import_interface(context, data, interface, name)


def import_array(context, data, name):
    """Returns an array over memory of another library, given an object with __dlpack__() whose
    memory the context can access."""
    is_cuda = _default_device(context)[0] == CUDA
    capsule = request_capsule(data, _get_handle(context, None) if is_cuda else None, name)
    return _import(context, capsule, None)


def _to_constant(context, buffer):
    """Returns an object over the same memory through which nothing writes: the memory of a
    read-only tensor."""
    array = Gpu.Array.new_for_memory(buffer, 0, Gpu.DType.get_number(Gpu.DTypeKind.UINT, 1),
                                     [buffer.get_size()], None)
    tensor = Gpu.Array.to_dlpack(array, True, False)
    try:
        ctypes.c_uint64.from_address(tensor + _FLAGS_OFFSET).value |= _READ_ONLY
        return Gpu.Array.new_from_dlpack(context, tensor, True).get_memory()
    except GLib.Error:
        Gpu.dlpack_free(tensor, True)
        raise


def _own(owner):
    """Returns a GLib.Bytes that keeps an object alive, and drops the reference on a Python
    thread."""
    kept = [owner]
    return Gpu.bytes_new_for_address(id(owner), 0, _get_await_context(),
                                     lambda *args: drop_elsewhere(kept))


def _get_handle(context, stream):
    return get_stream(stream, context).get_native_handle() or LEGACY_STREAM


def _import(context, capsule, stream):
    """Returns an array over the memory of a capsule that is ready on the stream. Work on other
    streams is ordered after that point."""
    try:
        array = _import_capsule(context, capsule)
        if context.get_device().get_backend() == "cuda":
            Gpu.Stream.wait_array(get_stream(stream, context), array)
    except GLib.Error as error:
        raise BufferError(error.message) from error
    return array


def _to_cuda_dtype(interface):
    from ._gpumem_ndarray import to_dtype
    typestr, descr = interface["typestr"], interface.get("descr")
    if typestr[1] != "V" or not any(name for name, *_ in descr or ()):
        return to_dtype(typestr)
    return to_dtype(_to_record(descr))


def _to_record(descr):
    """Returns the NumPy dtype for a description, in which fields without a name are padding."""
    import numpy
    fields = {"names": [], "formats": [], "offsets": []}
    size = 0
    for name, kind, *shape in descr:
        kind = _to_record(kind) if isinstance(kind, list) else kind
        field = numpy.dtype((kind, *shape) if shape else kind)
        if name:
            fields["names"].append(name[-1] if isinstance(name, tuple) else name)
            fields["formats"].append(field)
            fields["offsets"].append(size)
        size += field.itemsize
    return numpy.dtype(dict(fields, itemsize=size))


def get_descr(dtype):
    """Returns the description of a record for the array interfaces, which cannot express every
    offset."""
    import numpy
    try:
        descr = dtype.descr
    except ValueError:
        descr = None
    if descr is None or numpy.dtype(descr) != dtype:
        raise AttributeError(f"the array interfaces cannot describe elements of dtype {dtype}")
    return descr


def _order(array, theirs, *ours):
    """Orders later work of this library on the array, and some streams as a whole, after the work
    on a stream of another library."""
    if theirs is None:
        return
    if theirs == 0:
        raise ValueError("the interface has the stream 0")      # Interface describes the fault
    other = Gpu.Stream.new_wrapped(array.get_context(), theirs, Gpu.WrapMode.BORROW)
    for stream in (other, *ours):
        Gpu.Stream.wait_array(stream, array)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C exchange interface of DLPack 1.3, called as a C module of another library calls it."""

import ctypes
import gc

from python_util import Skip, equal, main, need_numpy, np, raises
from gi.overrides import _gpumem_dlpack as dlpack
from gi.repository import GLib, Gpu

CPU, CUDA = 1, 2
FLOAT = 2


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("number", ctypes.c_int32),
                ("n_dims", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    """DLManagedTensorVersioned"""


Managed._fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                    ("manager", ctypes.c_void_p),
                    ("deleter", ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))),
                    ("flags", ctypes.c_uint64), ("tensor", Tensor)]

SetError = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
ManagedOut = ctypes.POINTER(ctypes.POINTER(Managed))


class Exchange(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("previous", ctypes.c_void_p),
                ("alloc", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Tensor), ManagedOut,
                                           ctypes.c_void_p, SetError)),
                ("from_object", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ManagedOut)),
                ("to_object", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(Managed),
                                                ctypes.POINTER(ctypes.py_object))),
                ("borrow", ctypes.c_void_p),
                ("get_stream", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32,
                                                ctypes.POINTER(ctypes.c_void_p)))]


def get_exchange():
    need_numpy()
    capsule = getattr(Gpu.Array, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        raise Skip("there is no C module for this Python")
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return Exchange.from_address(get(capsule, b"dlpack_exchange_api"))


def export(exchange, array):
    managed = ctypes.POINTER(Managed)()
    equal(exchange.from_object(array, ctypes.byref(managed)), 0)
    return managed


def plain_table():
    exchange = get_exchange()
    equal((exchange.major, exchange.minor, exchange.previous, exchange.borrow), (1, 3, None, None))
    stream = ctypes.c_void_p(7)
    equal(exchange.get_stream(CPU, 0, ctypes.byref(stream)), 0)
    equal(stream.value, None)
    equal(exchange.get_stream(CUDA, 0, ctypes.byref(stream)), 0)
    equal(stream.value, 1)
    with raises(TypeError, "Gpu.Array", "'no array'"):
        exchange.from_object("no array", ctypes.byref(ctypes.POINTER(Managed)()))


def test_export(fixture):
    exchange = get_exchange()
    data = np.arange(24, dtype=np.float32).reshape(4, 6)
    array = Gpu.Array.from_numpy(fixture.context, data)
    stream = Gpu.Stream(fixture.context)
    for i in range(20):
        array.fill(np.float32(i), stream)
        managed = export(exchange, array)
        tensor = managed.contents.tensor
        equal((tensor.kind, tensor.number), array.__dlpack_device__())
        equal((tensor.n_dims, tensor.code, tensor.bits, tensor.lanes), (2, FLOAT, 32, 1))
        equal(([*tensor.shape[:2]], [*tensor.strides[:2]]), ([4, 6], [6, 1]))
        equal(managed.contents.flags, 0)
        if tensor.kind == CPU:
            values = ctypes.cast(tensor.data + tensor.offset, ctypes.POINTER(ctypes.c_float))
            equal(values[:24], [i] * 24)
        if tensor.kind == CUDA:
            # As another library, on the current work stream
            legacy = Gpu.Stream.new_wrapped(fixture.context, 1, Gpu.WrapMode.BORROW)
            buffer = Gpu.Buffer.new_wrapped(fixture.context, tensor.data + tensor.offset, 96,
                                            Gpu.WrapMode.BORROW)
            equal(np.frombuffer(bytes(buffer.read(stream=legacy)), np.float32).tolist(), [i] * 24)
        managed.contents.deleter(managed)
    array.memory.release()
    with raises(BufferError, "released"):
        exchange.from_object(array, ctypes.byref(ctypes.POINTER(Managed)()))


def test_import(fixture):
    exchange = get_exchange()
    if fixture.device.backend == "opencl":
        raise Skip("a tensor does not have the context of OpenCL memory")
    data = np.arange(100, dtype=np.int16)
    managed = export(exchange, Gpu.Array.from_numpy(fixture.context, data))
    found = ctypes.py_object()
    equal(exchange.to_object(managed, ctypes.byref(found)), 0)
    array = found.value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(array))
    assert isinstance(array, Gpu.Array)
    equal(array.to_numpy().tolist(), data.tolist())


def count_deletions(code):
    """Imports a tensor of the host with elements of the given type, which fails, and returns how
    often the tensor was freed."""
    exchange = get_exchange()
    deletions = []
    data, shape = (ctypes.c_float * 4)(), (ctypes.c_int64 * 1)(4)
    deleter = Managed._fields_[3][1](lambda managed: deletions.append(managed))
    managed = Managed(major=1, minor=3, deleter=deleter,
                      tensor=Tensor(data=ctypes.addressof(data), kind=CPU, n_dims=1, code=code,
                                    bits=32, lanes=1, shape=shape))
    try:
        exchange.to_object(ctypes.byref(managed), ctypes.byref(ctypes.py_object()))
        raise AssertionError("the import succeeded")
    except (GLib.Error, ValueError):
        pass
    gc.collect()
    return len(deletions)


def plain_failed_import():
    """A tensor is freed once if its import fails, before or after an array has taken the tensor."""
    def fail(*args):
        raise ValueError("no order")

    equal(count_deletions(code=99), 1)
    context = dlpack._get_exchange_context(CPU, 0)
    order, dlpack._order, dlpack.CUDA = dlpack._order, fail, CPU
    try:
        equal(count_deletions(FLOAT), 1)
    finally:
        dlpack._order, dlpack.CUDA = order, CUDA
    del context


def test_alloc(fixture):
    exchange = get_exchange()
    if fixture.device.backend == "opencl":
        raise Skip("a tensor does not have the context of OpenCL memory")
    kind, number = Gpu.Array.empty(fixture.context, 1, "float32").__dlpack_device__()
    errors = []
    set_error = SetError(lambda data, name, text: errors.append((data, name, text)))
    managed = ctypes.POINTER(Managed)()
    shape = (ctypes.c_int64 * 3)(2, 3, 4)
    prototype = Tensor(kind=kind, number=number, n_dims=3, code=FLOAT, bits=64, lanes=1,
                       shape=shape)
    equal((exchange.alloc(ctypes.byref(prototype), ctypes.byref(managed), 5, set_error), errors),
          (0, []))
    tensor = managed.contents.tensor
    equal((tensor.kind, tensor.number, tensor.code, tensor.bits), (kind, number, FLOAT, 64))
    equal([*tensor.shape[:3]], [2, 3, 4])
    managed.contents.deleter(managed)
    prototype.lanes = 4
    equal(exchange.alloc(ctypes.byref(prototype), ctypes.byref(managed), 5, set_error), -1)
    equal(errors[0][:2], (5, b"BufferError"))
    assert b"4 lanes" in errors[0][2]


if __name__ == "__main__":
    raise SystemExit(main(globals()))

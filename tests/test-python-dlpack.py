# SPDX-License-Identifier: LGPL-2.1-or-later
"""Arrays that other libraries have: DLPack by NumPy and by hand, and the CUDA Array Interface."""

import ctypes
import gc
import os
import subprocess
import sys

from python_util import Skip, equal, main, need_numpy, np, raises
from gi.repository import Gpu


class Tensor(ctypes.Structure):
    """DLTensor"""
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned"""
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", Tensor)]


get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi))


class Producer:
    """Somebody else's array, of which all that is known is what it says by DLPack."""

    def __init__(self, array):
        self.array = array
        self.asked = None

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **keywords):
        self.asked = keywords
        return self.array.__dlpack__(**keywords)


class OldProducer(Producer):
    def __dlpack__(self, stream=None):
        return self.array.__dlpack__(stream=stream)


def sample():
    return np.arange(60, dtype="float32").reshape(3, 4, 5)


def test_numpy_from_dlpack(fixture):
    need_numpy()
    array = Gpu.Array.from_numpy(Gpu.HostAllocator(fixture.context), sample())
    kind, number = array.__dlpack_device__()
    if kind != 1:
        equal((kind, number), (3, 0))           # NumPy takes memory of CPUs only
        return
    part = array[1:, ::-2, 1]
    got = np.from_dlpack(part)
    equal(got.ctypes.data, part.get_host_address())
    equal(got.tolist(), sample()[1:, ::-2, 1].tolist())
    array.memory.release()
    del array, part
    gc.collect()
    equal(got.tolist(), sample()[1:, ::-2, 1].tolist())


def test_from_numpy(fixture):
    need_numpy()
    data = sample()
    array = Gpu.Array.from_dlpack(data[:, 1:3], fixture.context)
    equal(array.to_numpy().tolist(), data[:, 1:3].tolist())
    if fixture.context.device.backend == "host":
        equal(array.get_host_address(), data[:, 1:3].ctypes.data)
        array.fill(8)
        equal(data[2, 2, 4], 8)
        expected = data[:, 1:3].tolist()
        del data
        gc.collect()
        equal(array.to_numpy().tolist(), expected)
    else:
        with raises(BufferError):
            Gpu.Array.from_dlpack(data, fixture.context, copy=False)


def test_structure(fixture):
    """What the capsule says, word by word."""
    need_numpy()
    array = Gpu.Array.from_numpy(fixture.context, sample())[1:, :, ::2]
    capsule = array.__dlpack__(max_version=(1, 0))
    pointer = get_pointer(capsule, b"dltensor_versioned")
    managed = ctypes.cast(pointer, ctypes.POINTER(Versioned))[0]
    tensor = managed.tensor
    equal((managed.major, managed.flags), (1, 0))
    equal((tensor.device_type, tensor.device_id), array.__dlpack_device__())
    equal(tensor.shape[:3], [2, 4, 3])
    equal(tensor.strides[:3], [20, 5, 2])
    equal((tensor.code, tensor.bits, tensor.lanes), (2, 32, 1))
    backend = fixture.context.device.backend
    equal(tensor.device_type, {"host": 1, "cuda": 2, "opencl": 4}[backend])
    if backend == "opencl":
        equal((tensor.data, tensor.byte_offset), (array.memory.native_handle, 80))
    else:
        equal((tensor.data, tensor.byte_offset), (array.device_address, 0))


def test_there_and_back(fixture):
    """Either side may go first."""
    need_numpy()
    for producer in (Producer, OldProducer):
        array = Gpu.Array.from_numpy(fixture.context, sample())[:, ::-1, 1:]
        other = producer(array)
        if fixture.context.device.backend == "opencl":
            got = Gpu.Array.from_dlpack(other, fixture.context)
        else:
            got = Gpu.Array.from_dlpack(other, fixture.context, copy=None)
        equal(got.to_numpy().tolist(), sample()[:, ::-1, 1:].tolist())
        got[0] = 0
        fixture.context.synchronize()
        expected = sample()[:, ::-1, 1:].copy()
        expected[0] = 0
        equal(array.to_numpy().tolist(), expected.tolist())
        copied = Gpu.Array.from_dlpack(other, fixture.context, copy=True)
        del array, other
        gc.collect()
        equal(got.to_numpy().tolist(), expected.tolist())
        del got
        gc.collect()
        equal(copied.to_numpy().tolist(), expected.tolist())


def test_capsules(fixture):
    need_numpy()
    array = Gpu.Array.from_numpy(fixture.context, sample())
    array.__dlpack__()                          # nobody takes it: it must not leak
    capsule = array.__dlpack__(max_version=(1, 0))
    got = Gpu.Array.from_dlpack(capsule, fixture.context)
    with raises(ValueError, "taken"):
        Gpu.Array.from_dlpack(capsule, fixture.context)
    del capsule, array
    gc.collect()
    equal(got.to_numpy().tolist(), sample().tolist())
    empty = Gpu.Array.zeros(fixture.context, (0, 3))
    equal(Gpu.Array.from_dlpack(empty.__dlpack__(), fixture.context).shape, (0, 3))


def test_refused(fixture):
    need_numpy()
    records = Gpu.Array.zeros(fixture.context, 3, [("a", "f4"), ("b", "u1")])
    for array in (records, records["a"]):       # no such type; a stride of 5 bytes
        with raises(BufferError):
            array.__dlpack__()
    with raises(BufferError):
        Gpu.Array.zeros(fixture.context, 3).__dlpack__(dl_device=(10, 0))


def test_stream_order(fixture):
    """The consumer's stream comes after what was submitted on others."""
    need_numpy()
    if fixture.context.device.backend != "cuda":
        return
    writer = Gpu.Stream(fixture.context)
    reader = Gpu.Stream(fixture.context)
    array = Gpu.Array.zeros(fixture.context, (1 << 20,), "uint32")
    for i in range(20):
        array.fill(np.uint32(i), stream=writer)
    capsule = array.__dlpack__(stream=reader.get_native_handle())
    got = Gpu.Array.from_dlpack(capsule, fixture.context)
    equal(got.to_numpy(stream=None)[-1], 19)


def test_errors_stay(fixture):
    """A capsule that nobody took leaves the consumer's error as it is."""
    need_numpy()
    array = Gpu.Array.zeros(fixture.context, 3, "bfloat16")
    with raises(RuntimeError, "Unsupported"):
        np.from_dlpack(array)


AT_EXIT = """
import builtins, sys
import gi
gi.require_version("Gpu", "1.0")
from gi.repository import Gpu
array = Gpu.Array.zeros(Gpu.Context("host"), 3, "f4")
cycle = [array.__dlpack__()]
cycle.append(cycle)
builtins.kept = array.__dlpack__()
sys.kept = array.__dlpack__(max_version=(1, 0))
sys.modules["kept"] = array.__dlpack__()
"""


def plain_at_exit():
    """Capsules that the interpreter lets go of last."""
    result = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True,
                            timeout=120)
    equal((result.returncode, result.stderr), (0, ""))


def plain_without_fast():
    """All of this, without the module in C."""
    if os.environ.get("GPUMEM_PYTHON_FAST") == "0":
        raise Skip("this is without it")
    result = subprocess.run([sys.executable, __file__], timeout=600, text=True,
                            env=dict(os.environ, GPUMEM_PYTHON_FAST="0", GPUMEM_TEST="host"),
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert result.returncode == 0 and "\nnot ok" not in result.stdout, result.stdout


class Foreign:
    """An array of another library for CUDA."""

    def __init__(self, array, stream):
        self.array = array
        self.__cuda_array_interface__ = dict(array.__cuda_array_interface__, stream=stream)


def test_cuda_array_interface(fixture):
    need_numpy()
    array = Gpu.Array.from_numpy(fixture.context, sample())
    if fixture.context.device.backend != "cuda":
        assert not hasattr(array, "__cuda_array_interface__")
        return
    part = array[:, 1:, ::-1]
    interface = part.__cuda_array_interface__
    equal(interface["version"], 3)
    equal(interface["shape"], (3, 3, 5))
    equal(interface["strides"], (80, 20, -4))
    equal(interface["typestr"], "<f4")
    equal(interface["data"], (part.device_address, False))
    assert interface["stream"] not in (0, None)
    other = Gpu.Stream(fixture.context)
    foreign = Foreign(part, other.get_native_handle())
    got = Gpu.Array.from_cuda_array_interface(fixture.context, foreign)
    del foreign, part, array
    gc.collect()
    equal(got.to_numpy().tolist(), sample()[:, 1:, ::-1].tolist())


if __name__ == "__main__":
    sys.exit(main(globals()))

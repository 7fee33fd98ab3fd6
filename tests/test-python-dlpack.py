# SPDX-License-Identifier: LGPL-2.1-or-later
"""Arrays of other libraries: DLPack with NumPy and with handwritten tensors, and the CUDA Array
Interface."""

import ctypes
import gc
import subprocess
import sys
import threading
import time
import types
import weakref
from types import SimpleNamespace

from python_util import (DEADLINE, Skip, equal, main, need_numpy, np, raises, run_threads,
                         run_without_fast, spin)
from gi.repository import Gpu


class Tensor(ctypes.Structure):
    """The structure DLTensor of DLPack."""
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Versioned(ctypes.Structure):
    """The structure DLManagedTensorVersioned of DLPack."""
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", Tensor)]


get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi))


class Producer:
    """Simulates another library, whose array is only accessible through DLPack."""

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
        # NumPy only imports memory of CPUs.
        equal((kind, number), (3, int(fixture.device.id.rpartition(":")[2])))
        return
    part = array[1:, ::-2, 1]
    got = np.from_dlpack(part)
    equal(got.ctypes.data, part.get_host_address())
    equal(got.tolist(), sample()[1:, ::-2, 1].tolist())
    array.memory.release()
    del array, part
    gc.collect()
    equal(got.tolist(), sample()[1:, ::-2, 1].tolist())


def list_memory(fixture):
    """Yields a memory object of each class whose export the context can import in place."""
    yield fixture.buffer(64)
    yield fixture.buffer(4096)[1024:1088]
    yield Gpu.MemoryPool(fixture.context)(64)
    if fixture.device.backend != "opencl":
        yield Gpu.HostMemory(fixture.context, 64)
    if fixture.device.capabilities & Gpu.Capabilities.SVM_COARSE:
        yield Gpu.Svm(fixture.context, 64)


def test_memory(fixture):
    """Memory is exported as an array of its bytes, and the other array keeps it allocated."""
    stream = fixture.stream
    for memory in list_memory(fixture):
        own = Gpu.Array.for_memory(memory, 64, "uint8")
        equal(memory.__dlpack_device__(), own.__dlpack_device__())
        stream.fill(memory, 7)
        array = Gpu.Array.from_dlpack(Producer(memory), fixture.context)
        equal((array.shape, array.dtype), ((64,), own.dtype))
        equal(array.tobytes(), b"\7" * 64)
        stream.fill(array, 8, 16, 16)
        equal(own.tobytes(), b"\7" * 16 + b"\x08" * 16 + b"\7" * 32)
        copied = Gpu.Array.from_dlpack(memory.__dlpack__(copy=True), fixture.context)
        stream.fill(memory, 9)
        equal(copied.tobytes(), b"\7" * 16 + b"\x08" * 16 + b"\7" * 32)
        if fixture.device.backend == "cuda":
            interface = memory.__cuda_array_interface__
            equal((interface["typestr"], interface["shape"], interface["data"]),
                  ("|u1", (64,), (memory.device_address, False)))
        else:
            assert not hasattr(memory, "__cuda_array_interface__")
            with raises(AttributeError, "the memory is not on a CUDA device"):
                memory.__cuda_array_interface__
        del memory, own
        equal(array.tobytes(), b"\x09" * 64)


def test_released_memory(fixture):
    buffer = fixture.buffer(64)
    buffer.release()
    with raises(BufferError, "Buffer.__dlpack__: the buffer of 64 bytes was released"):
        buffer.__dlpack__()
    assert not hasattr(buffer, "__cuda_array_interface__")
    if fixture.device.backend == "cuda":
        with raises(AttributeError, "the buffer of 64 bytes was released"):
            buffer.__cuda_array_interface__
    with raises(AttributeError, "'Buffer' object has no attribute '__array_interface__'"):
        buffer.__array_interface__


def test_memory_of_other_context(fixture):
    """An import copies memory that the context cannot access, as it copies arrays."""
    source, other = fixture.buffer(64), Gpu.Context("host")
    source.fill(7)
    array = Gpu.Array.from_dlpack(source, other)
    equal((array.context, array.tobytes()), (other, b"\7" * 64))
    if fixture.device.backend != "host":
        with raises(BufferError, "not accessible to host without a copy"):
            Gpu.Array.from_dlpack(source, other, copy=False)


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
        with raises(BufferError, "without a copy"):
            Gpu.Array.from_dlpack(data, fixture.context, copy=False)


def test_from_read_only(fixture):
    """Arrays that NumPy does not export are copied, unless copies are forbidden."""
    need_numpy()
    data = sample()
    data.flags.writeable = False
    shared = fixture.context.device.backend == "host" and \
        np.lib.NumpyVersion(np.__version__) >= "2.1.0"
    for copy in (None, True):
        array = Gpu.Array.from_dlpack(data, fixture.context, copy=copy)
        equal(array.to_numpy().tolist(), data.tolist())
        if shared and copy is None:
            with raises(Gpu.Error.INVALID_ARGUMENT, "read only"):
                array.fill(3)
        else:
            array.fill(3)
            equal(array.to_numpy().ravel()[0], 3)
        equal(data[0, 0, 1], 1)
    if not shared:
        with raises(BufferError):
            Gpu.Array.from_dlpack(data, fixture.context, copy=False)


def test_from_refusal(fixture):
    """The error of the exporting library reaches the caller."""
    class Refusing:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **keywords):
            raise BufferError("the conjugate bit is set")

    with raises(BufferError, "conjugate"):
        Gpu.Array.from_dlpack(Refusing(), fixture.context)
    with raises(TypeError, "'Context'"):
        Gpu.Array.from_dlpack(fixture.context, Refusing())


def test_from_object(fixture):
    """Each back end imports an object whose methods are attributes of the object, and explains a
    result that is not a capsule."""
    need_numpy()
    data = sample()
    methods = types.SimpleNamespace(__dlpack__=lambda **keywords: data.__dlpack__(),
                                    __dlpack_device__=data.__dlpack_device__)
    for stream in (None, fixture.stream):
        array = Gpu.Array.from_dlpack(methods, fixture.context, stream=stream)
        equal(array.to_numpy(stream).tolist(), data.tolist())
        methods.__dlpack__, keep = (lambda **keywords: None), methods.__dlpack__
        with raises(TypeError, "data is a SimpleNamespace", "must return a capsule, not None"):
            Gpu.Array.from_dlpack(methods, fixture.context, stream=stream)
        methods.__dlpack__ = keep


def test_from_device(fixture):
    """Imports to a device instead of a context. The device is an object, a name, or, if the device
    has them, the numbers of DLPack."""
    need_numpy()
    data = sample()
    devices = [fixture.device, fixture.device.id]
    if fixture.device.backend != "opencl":
        devices.append(Gpu.Array.zeros(fixture.context, 1).__dlpack_device__())
    for device in devices:
        array = Gpu.Array.from_dlpack(data, device=device, copy=True)
        equal(array.context.device.id, fixture.device.id)
        equal(array.to_numpy().tolist(), data.tolist())
        other = Gpu.Array.from_dlpack(array[:, ::-2], device="host")
        equal(other.context.device.backend, "host")
        equal(other.to_numpy().tolist(), data[:, ::-2].tolist())
    with raises(ValueError, "only one"):
        Gpu.Array.from_dlpack(data, fixture.context, device=fixture.device)


def get_flags(capsule):
    pointer = get_pointer(capsule, b"dltensor_versioned")
    return ctypes.cast(pointer, ctypes.POINTER(Versioned))[0].flags


READ_ONLY, IS_COPIED = 1, 2


def test_copies(fixture):
    """Exported copies have the flag IS_COPIED, are writable, and do not share memory with the
    array."""
    need_numpy()
    array = Gpu.Array.from_numpy(fixture.context, sample())
    repeated = array[0, 0].broadcast_to((3, 5))
    equal(get_flags(array.__dlpack__(max_version=(1, 0), copy=False)), 0)
    equal(get_flags(array.__dlpack__(max_version=(1, 0))), 0)
    equal(get_flags(repeated.__dlpack__(max_version=(1, 0), copy=False)), READ_ONLY)
    for one in (array, repeated):
        capsule = one.__dlpack__(max_version=(2, 3), copy=True)
        equal(get_flags(capsule), IS_COPIED)
        got = Gpu.Array.from_dlpack(capsule, fixture.context)
        expected = one.to_numpy().tolist()
        equal(got.to_numpy().tolist(), expected)
        got.fill(7)
        equal(one.to_numpy().tolist(), expected)
    host = array.__dlpack__(max_version=(1, 1), dl_device=(1, 0))
    equal(get_flags(host), IS_COPIED if array.__dlpack_device__() != (1, 0) else 0)
    old = repeated.__dlpack__(copy=True, max_version=(0, 8))
    equal(Gpu.Array.from_dlpack(old, fixture.context).shape, (3, 5))
    with raises(ValueError, "copy"):
        array.__dlpack__(copy="yes")


class ReadOnly(Producer):
    """Exports its array with the read-only flag."""

    def __dlpack__(self, **keywords):
        capsule = self.array.__dlpack__(**keywords)
        pointer = get_pointer(capsule, b"dltensor_versioned")
        ctypes.cast(pointer, ctypes.POINTER(Versioned))[0].flags |= READ_ONLY
        return capsule


KERNELS = """
__kernel void
clear (__global uint *to)
{
  to[get_global_id (0)] = 0;
}

__kernel void
take (__global const uint *from, __global uint *to)
{
  to[get_global_id (0)] = from[get_global_id (0)];
}
"""


def check_constant(fixture, array):
    """Asserts that all writes to a read-only import are refused: by streams, by the host, and by
    kernels through pointers that are not const."""
    context, memory, size = fixture.context, array.memory, array.memory.size
    source = fixture.buffer(bytes(size))
    part = memory[:8] if isinstance(memory, Gpu.Buffer) else memory
    small = source[:memory.size if part is memory else 8]
    zeros = Gpu.Array.zeros(context, array.shape, array.dtype)
    writes = [lambda: array.fill(0), lambda: fixture.stream.fill(memory, 0),
              lambda: fixture.stream.fill(part, 0), lambda: fixture.stream.copy(memory, source),
              lambda: fixture.stream.copy(part, small),
              lambda: fixture.stream.write(memory, bytes(4)),
              lambda: fixture.stream.copy_region(memory, source, (4, 1, 1)),
              lambda: fixture.stream.fill_region(memory, b"\0", (4, 1, 1)),
              lambda: array.copy_to_device(zeros)]
    if isinstance(memory, Gpu.Buffer):
        writes += [lambda: memory.map(Gpu.MapFlags.WRITE), lambda: part.write(bytes(4))]
    if fixture.device.capabilities & Gpu.Capabilities.SOURCE:
        program = Gpu.Program(context, KERNELS)
        writes += [lambda: program.clear(fixture.stream, array.size, None, memory),
                   lambda: program.clear(fixture.stream, 1, None, part),
                   lambda: fixture.stream.launch_prepared(
                       program.clear.prepare(array.size, None, (memory,))),
                   lambda: program.take(fixture.stream, 1, None, source, memory)]
    before = array.to_numpy().copy()
    for number, write in enumerate(writes):
        with raises(Gpu.Error.INVALID_ARGUMENT):
            write()
            raise AssertionError(f"write {number} was not refused")
    context.synchronize()
    assert np.array_equal(array.to_numpy(), before)
    if fixture.device.capabilities & Gpu.Capabilities.SOURCE:
        program.take(fixture.stream, array.size, None, memory, source)
        assert np.array_equal(source.to_numpy("uint32"), before)


def test_constant_own_memory(fixture):
    """Imports a read-only tensor over memory of this library. The program may still write the
    memory through its buffer."""
    need_numpy()
    numbers = np.arange(1, 65, dtype="uint32")
    buffer = fixture.buffer(numbers)
    array = Gpu.Array.for_memory(buffer, 64, "uint32")
    taken = Gpu.Array.from_dlpack(ReadOnly(array), fixture.context)
    assert not taken.is_writable()
    check_constant(fixture, taken)
    buffer.write(numbers * 2)
    assert np.array_equal(taken.to_numpy(), numbers * 2)


def test_constant_host_memory(fixture):
    need_numpy()
    numbers = np.arange(1, 65, dtype="uint32")
    numbers.flags.writeable = False
    if fixture.device.backend == "opencl":
        raise Skip("kernels of OpenCL do not reach registered memory")
    memory = Gpu.HostMemory.registered(fixture.context, numbers, Gpu.HostMemoryFlags.READ_ONLY
                                       | Gpu.HostMemoryFlags.MAPPED)
    check_constant(fixture, Gpu.Array.for_memory(memory, 64, "uint32"))
    assert np.array_equal(numbers, np.arange(1, 65, dtype="uint32"))


def test_read_only_import(fixture):
    """A read-only import can be exported again as a read-only tensor, or as a copy."""
    need_numpy()
    array = Gpu.Array.from_numpy(fixture.context, sample())
    got = Gpu.Array.from_dlpack(ReadOnly(array), fixture.context)
    equal(get_flags(got.__dlpack__(max_version=(1, 0))), READ_ONLY)
    equal(get_flags(got.__dlpack__(max_version=(1, 0), copy=True)), IS_COPIED)
    with raises(BufferError, "read"):
        got.__dlpack__()
    shared = np.asarray(got)
    equal(shared.tolist(), sample().tolist())
    assert shared.flags.writeable == (got.get_host_address() == 0)
    copied = np.array(got, copy=True)
    copied[0] = 5
    equal(got.to_numpy().tolist(), sample().tolist())
    mine = Gpu.Array.from_dlpack(ReadOnly(array), fixture.context, copy=True)
    mine.fill(2)
    equal(array.to_numpy().tolist(), sample().tolist())
    if got.__dlpack_device__() == (1, 0):
        taken = np.from_dlpack(Copied(got))
        assert taken.ctypes.data != got.get_host_address()
        equal(taken.tolist(), sample().tolist())


class Copied(Producer):
    """Always exports a copy, because older NumPy versions cannot pass copy=True."""

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**dict(keywords, copy=True))


def test_structure(fixture):
    """Checks the fields of the exported tensor."""
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
    """The exporting array or the imported array may be freed first."""
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


def test_capsules_of_other_devices(fixture):
    """A capsule is copied like an object with __dlpack__(): with copy=True, and if the context
    cannot access the memory. The copy is complete before the caller can change the memory."""
    need_numpy()
    host = Gpu.Context("host")
    is_shared = fixture.device.backend == "host"
    stream = fixture.new_stream()
    for dtype, max_version in (("f8", None), ("f2", (1, 0)), ("bfloat16", (1, 0)), ("?", None)):
        source = Gpu.Array.from_numpy(host, np.arange(6).reshape(2, 3)).astype(dtype)
        for part in source, source[:, ::-2], source.T[1], source[:0]:
            expected = part.astype("f4").tolist()
            for copy in None, True:
                data = part.copy()
                capsule = data.__dlpack__(max_version=max_version)
                got = Gpu.Array.from_dlpack(capsule, fixture.context, copy, stream)
                if not is_shared or copy:
                    data.fill(7)
                assert got.context is fixture.context
                equal((got.get_dtype(), got.shape), (part.get_dtype(), part.shape))
                equal(got.astype("f4").tolist(), expected)
                with raises(ValueError, "consumed"):
                    Gpu.Array.from_dlpack(capsule, fixture.context, copy)
    array = Gpu.Array.from_numpy(fixture.context, sample())
    capsule = array.__dlpack__()
    if fixture.device.backend == "opencl":      # only its own context can access the memory
        with raises(BufferError, "(4, ", "host"):
            Gpu.Array.from_dlpack(capsule, host)
    else:
        equal(Gpu.Array.from_dlpack(capsule, host).tolist(), sample().tolist())
    copied = Gpu.Array.from_dlpack(array.__dlpack__(), fixture.context, True)
    array.fill(0)
    equal(copied.tolist(), sample().tolist())


def test_capsules_leave_no_context(fixture):
    """The context of the host through which a capsule is copied does not outlive the copy."""
    need_numpy()

    def count():
        gc.collect()
        return Gpu.debug_list_live_objects().unpack().get("native-context", 0)

    before = count()
    for _ in range(10):
        Gpu.Array.from_dlpack(sample().__dlpack__(), fixture.context, copy=True)
    deadline = time.monotonic() + DEADLINE      # another thread frees the capsules' memory
    while count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    equal(count(), before)


def test_capsules(fixture):
    need_numpy()
    array = Gpu.Array.from_numpy(fixture.context, sample())
    array.__dlpack__()                          # no consumer imports the capsule: it must not leak
    capsule = array.__dlpack__(max_version=(1, 0))
    got = Gpu.Array.from_dlpack(capsule, fixture.context)
    with raises(ValueError, "consumed"):
        Gpu.Array.from_dlpack(capsule, fixture.context)
    del capsule, array
    gc.collect()
    equal(got.to_numpy().tolist(), sample().tolist())
    empty = Gpu.Array.zeros(fixture.context, (0, 3))
    equal(Gpu.Array.from_dlpack(empty.__dlpack__(), fixture.context).shape, (0, 3))


def test_refused(fixture):
    need_numpy()
    records = Gpu.Array.zeros(fixture.context, 3, [("a", "f4"), ("b", "u1")])
    for array in (records, records["a"]):       # unsupported type; a stride of 5 bytes
        with raises(BufferError):
            array.__dlpack__()
    with raises(BufferError):
        Gpu.Array.zeros(fixture.context, 3).__dlpack__(dl_device=(10, 0))


def test_wrong_requests(fixture):
    """The error names the argument."""
    array = Gpu.Array.zeros(fixture.context, 3, "int32")
    for name in ("dl_device", "max_version"):
        for value in (5, (1,), (), "cpu", ("a", 0), (1.5, 0)):
            with raises(TypeError, f"{name} must be", f"not {value!r}"):
                array.__dlpack__(**{name: value})
    assert array.__dlpack__(dl_device=[*array.__dlpack_device__()], max_version=[1, 0])


N_LATE = 1 << 16


class Other:
    """Simulates another library on the same device, whose work the library does not track."""

    def __init__(self, fixture):
        if fixture.device.backend != "cuda":
            raise Skip("other libraries have streams of CUDA only")
        self.context = Gpu.Context(fixture.device)
        self.stream = Gpu.Stream(self.context)

    def fill_late(self):
        array = Gpu.Array.zeros(self.context, N_LATE, "uint32")
        for i in range(20):
            array.fill(np.uint32(i), stream=self.stream)
        return array


def test_stream_order(fixture):
    """The consumer's stream is ordered after earlier work of other streams."""
    need_numpy()
    other = Other(fixture)
    writer = Gpu.Stream(fixture.context)
    array = Gpu.Array.zeros(fixture.context, N_LATE, "uint32")
    for stream in (other.stream.get_native_handle(), 1):
        for i in range(20):
            array.fill(np.uint32(i), stream=writer)
        capsule = array.__dlpack__(stream=stream)
        theirs = Gpu.Buffer.new_wrapped(other.context, array.device_address, array.nbytes,
                                        Gpu.WrapMode.BORROW)
        reader = other.stream
        if stream == 1:
            reader = Gpu.Stream.new_wrapped(other.context, 1, Gpu.WrapMode.BORROW)
        got = Gpu.Array.for_memory(theirs, N_LATE, "uint32").to_numpy(reader)
        reader.synchronize()
        equal((got.min(), got.max()), (19, 19))
        array.fill(0)
        del capsule, theirs, reader


def test_import_order(fixture):
    """Each stream that uses an array of another library is ordered after the other library's work
    on the array."""
    need_numpy()
    for stream in (None, Gpu.Stream(fixture.context)):
        for take in (Gpu.Array.from_dlpack,
                     lambda array, context: Gpu.Array.from_cuda_array_interface(
                         context, Foreign(array, other.stream.get_native_handle()))):
            other = Other(fixture)
            array = other.fill_late()
            got = take(array, fixture.context)
            numbers = got.to_numpy(stream)
            (stream or fixture.stream).synchronize()
            equal((numbers.min(), numbers.max()), (19, 19))
            other.context.synchronize()
            del array, got, other


def test_legacy_stream(fixture):
    """A pool reuses memory that a consumer uses on the legacy default stream only after this
    use."""
    need_numpy()
    other = Other(fixture)
    pool = Gpu.MemoryPool(fixture.context)
    home = Gpu.Stream(fixture.context, Gpu.StreamFlags.NON_BLOCKING)
    array = Gpu.Array.empty(pool, N_LATE, "uint32", stream=home)
    array.fill(1, stream=home)
    home.synchronize()
    capsule = array.__dlpack__(stream=1)
    theirs = Gpu.Buffer.new_wrapped(other.context, array.device_address, array.nbytes,
                                    Gpu.WrapMode.BORROW)
    legacy = Gpu.Stream.new_wrapped(other.context, 1, Gpu.WrapMode.BORROW)
    for i in range(20):
        legacy.fill(theirs, 0xee)
    del capsule, array
    gc.collect()
    array = Gpu.Array.empty(pool, N_LATE, "uint32", stream=home)
    array.fill(np.uint32(5), stream=home)
    home.synchronize()
    legacy.synchronize()
    equal(array.to_numpy().tolist(), [5] * N_LATE)


def test_stream_of_other_devices(fixture):
    """mpi4py passes stream=-1 for all devices but the CPU. The numbers are streams of CUDA: OpenCL
    memory is not exported, because the consumer would take the handle for an address. For host
    memory, also page-locked, the call waits for the work on the array, which the consumer cannot
    do."""
    array = Gpu.Array.zeros(fixture.context, 16, "uint8")
    if array.__dlpack_device__()[0] == 4:
        for stream in -1, 0, 1, 2:
            with raises(BufferError, f"not {stream}", "CUDA", "to_numpy()", "gpumem.mpi"):
                array.__dlpack__(stream=stream)
        array.__dlpack__(dl_device=(1, 0), stream=-1)       # the elements are exported on the host
        array.__dlpack__()
    array = Gpu.Array.for_memory(Gpu.HostMemory(fixture.context, N_LATE), N_LATE, "uint8")
    if array.__dlpack_device__()[0] not in (1, 3):
        return
    byte = ctypes.c_uint8.from_address(array.get_host_address() + N_LATE - 1)
    for stream in -1, 1, 2, None:
        gate = fixture.gate(fixture.stream, must_hold=False)
        for i in range(20):
            array.fill(i, stream=fixture.stream)
        seen = []
        thread = threading.Thread(
            target=lambda: seen.append((array.__dlpack__(stream=stream), byte.value)))
        thread.start()
        thread.join(0.05 if gate.holds else None)
        gate.complete()
        thread.join()
        equal(seen[0][1], 19, f"the byte after __dlpack__(stream={stream})")
        array.fill(0)
        fixture.context.synchronize()
        del thread, seen


def test_host_memory_without_work(fixture):
    """The export of host memory waits for the work on the array only: other work may wait for a
    message that the caller sends afterwards."""
    array = Gpu.Array.for_memory(Gpu.HostMemory(fixture.context, N_LATE), N_LATE, "uint8")
    other = fixture.buffer(100)
    gate = fixture.gate(fixture.stream, must_hold=False)
    fixture.stream.fill(other, 0)
    for device in (None, (1, 0)):
        thread = threading.Thread(
            target=lambda: array.__dlpack__(stream=-1, dl_device=device, max_version=(1, 0)))
        thread.start()
        thread.join(DEADLINE if gate.holds else None)
        ended = not thread.is_alive()
        if not ended:
            gate.complete()
        thread.join()
        assert ended, device
    gate.complete()
    fixture.stream.synchronize()


def test_not_reached(fixture):
    """Checks the errors for memory that cannot be shared."""
    need_numpy()
    context = fixture.context
    array = Gpu.Array.from_numpy(context, sample())
    with raises(ValueError, "context"):
        Gpu.Array.from_dlpack(array.__dlpack__())
    kind = array.__dlpack_device__()[0]
    if kind == 4:
        with raises(ValueError, "context"):
            Gpu.Array.from_dlpack(array)
    if kind != 1:
        host = Gpu.Context("host")
        with raises(BufferError, "accessible"):
            Gpu.Array.from_dlpack(array, host, copy=False)
        equal(Gpu.Array.from_dlpack(array, host).to_numpy().tolist(), sample().tolist())
        if kind == 4:
            with raises(BufferError, "accessible"):
                Gpu.Array.from_dlpack(Producer(array), host)
        else:
            equal(Gpu.Array.from_dlpack(Producer(array), host).to_numpy().tolist(),
                  sample().tolist())
    else:
        equal(Gpu.Array.from_dlpack(array).to_numpy().tolist(), sample().tolist())
    if kind == 2:
        with raises(ValueError, "stream 0"):
            array.__dlpack__(stream=0)
    array.memory.release()
    with raises(BufferError, "Array.__dlpack__: ", "released"):
        array.__dlpack__()
    assert ", released>" in repr(array), repr(array)
    assert not hasattr(array, "__cuda_array_interface__")


def test_errors_of_memory(fixture):
    """Errors of the export of memory name its method, or the function that the program called, not
    the functions of the array that exports its bytes."""
    host, context = Gpu.HostMemory(fixture.context, 16), Gpu.Context("host")
    buffer, spilled, released = (fixture.buffer(16) for _ in range(3))
    spilled.spill()
    released.release()
    for memory in host, buffer, Gpu.Array(fixture.context, 4):
        name = type(memory).__name__
        device = memory.__dlpack_device__()
        with raises(BufferError, f"{name}.__dlpack__: the memory is on the DLPack device {device}, "
                                 "and cannot be exported to (7, 0)") as caught:
            memory.__dlpack__(dl_device=(7, 0))
        equal(caught.cause, None)               # and not the same message without the name
    if buffer.__dlpack_device__()[0] == 4:
        with raises(BufferError, "Buffer.__dlpack__: OpenCL memory has no address", "not 2"):
            buffer.__dlpack__(stream=2)
    with raises(BufferError, "Buffer.__dlpack__: ", "is spilled"):
        spilled.__dlpack__()
    with raises(BufferError, "Buffer.__dlpack__: the memory is spilled", "to (1, 0)"):
        spilled.__dlpack__(dl_device=(1, 0), copy=False)
    with raises(BufferError, "Buffer.__dlpack__: ", "released") as caught:
        released.__dlpack__()
    assert isinstance(caught.cause, Gpu.ReleasedError), caught.cause
    with raises(Gpu.ReleasedError, "Buffer.__dlpack_device__: ", "released"):
        released.__dlpack_device__()
    with raises(Gpu.ReleasedError, "Array.from_dlpack: ", "released"):
        Gpu.Array.from_dlpack(released, context)
    if fixture.device.backend == "cuda":
        with raises(AttributeError, "Buffer.__cuda_array_interface__: ", "released"):
            released.__cuda_array_interface__


def test_to_host(fixture):
    """A consumer may request a copy in host memory."""
    need_numpy()
    part = Gpu.Array.from_numpy(fixture.context, sample())[:, ::-1, 1:]
    host = Gpu.Context("host")
    capsule = part.__dlpack__(dl_device=(1, 0), max_version=(1, 0))
    got = Gpu.Array.from_dlpack(capsule, host)
    equal(got.to_numpy().tolist(), sample()[:, ::-1, 1:].tolist())
    if part.__dlpack_device__() == (1, 0):
        return
    with raises(BufferError, "copy"):
        part.__dlpack__(dl_device=(1, 0), copy=False)
    got.fill(0)
    equal(part.to_numpy().tolist(), sample()[:, ::-1, 1:].tolist())
    floats = Gpu.Array.full(fixture.context, 3, 1.5, "bfloat16").__dlpack__(dl_device=(1, 0))
    equal(Gpu.Array.from_dlpack(floats, host).view("uint16").to_numpy().tolist(), [0x3fc0] * 3)


def test_to_host_spilled(fixture):
    """A consumer gets a copy of spilled elements in host memory, also from a context of the host,
    whose memory is exported in place otherwise."""
    need_numpy()
    pool = Gpu.MemoryPool(fixture.context)
    buffer = pool(240)
    array = Gpu.Array.for_memory(buffer, (3, 4, 5), "float32")
    array.write(sample())
    part = array[:, ::-1, 1:]
    buffer.spill()
    for version in None, (1, 0):
        capsule = part.__dlpack__(dl_device=(1, 0), max_version=version)
        got = Gpu.Array.from_dlpack(capsule, Gpu.Context("host"))
        equal(got.to_numpy().tolist(), sample()[:, ::-1, 1:].tolist())
        got.fill(0)
    with raises(BufferError, "copy", "spilled", "Buffer.unspill()"):
        part.__dlpack__(dl_device=(1, 0), copy=False)
    with raises(BufferError, "spilled"):
        part.__dlpack__()
    buffer.unspill()
    equal(part.to_numpy().tolist(), sample()[:, ::-1, 1:].tolist())


def host_accessible(fixture):
    """Yields memory of 60 floats that the host may access at any time."""
    context = fixture.context
    yield Gpu.HostMemory(context, 240)
    if fixture.device.capabilities & Gpu.Capabilities.SVM_FINE:
        yield Gpu.Svm(context, 240, Gpu.SvmFlags.FINE_GRAIN)


def test_to_host_in_place(fixture):
    """Memory that the host may access at any time is exported to the host without a copy, once the
    work on it has completed."""
    need_numpy()
    for memory in host_accessible(fixture):
        array = Gpu.Array.for_memory(memory, (3, 4, 5), "float32")
        array.write(sample(), fixture.stream)
        part = array[:, ::-1, 1:]
        for copy in None, False:
            capsule = part.__dlpack__(dl_device=(1, 0), max_version=(1, 0), copy=copy)
            equal(get_flags(capsule), 0)
            got = Gpu.Array.from_dlpack(capsule, Gpu.Context("host"))
            equal(got.get_host_address(), part.get_host_address())
            equal(got.to_numpy().tolist(), sample()[:, ::-1, 1:].tolist())
        got.fill(7)
        equal(np.unique(part.to_numpy()).tolist(), [7])
        equal(array[0, 0, 0].item(), sample()[0, 0, 0])
        capsule = part.__dlpack__(dl_device=(1, 0), max_version=(1, 0), copy=True)
        copied = Gpu.Array.from_dlpack(capsule, Gpu.Context("host"))
        assert copied.get_host_address() != part.get_host_address()
        spread = part[0, 0, 0].broadcast_to((2, 2))
        equal(get_flags(spread.__dlpack__(dl_device=(1, 0), max_version=(1, 0))), READ_ONLY)
        if part.__dlpack_device__() != (1, 0):
            old = Gpu.Array.from_dlpack(spread.__dlpack__(dl_device=(1, 0)), Gpu.Context("host"))
            assert old.get_host_address() != part.get_host_address()
        del memory, array, part, spread, capsule
        gc.collect()
        equal(np.unique(got.to_numpy()).tolist(), [7])      # the export keeps the memory


def test_to_host_read_only(fixture):
    need_numpy()
    numbers = np.arange(6, dtype="float32")
    numbers.flags.writeable = False
    memory = Gpu.HostMemory.registered(fixture.context, numbers, Gpu.HostMemoryFlags.READ_ONLY)
    array = Gpu.Array.for_memory(memory, 6, "float32")
    capsule = array.__dlpack__(dl_device=(1, 0), max_version=(1, 0), copy=False)
    equal(get_flags(capsule), READ_ONLY)
    got = Gpu.Array.from_dlpack(capsule, Gpu.Context("host"))
    equal((got.get_host_address(), got.is_writable()), (numbers.ctypes.data, False))
    with raises(Gpu.Error.INVALID_ARGUMENT, "read only"):
        got.fill(0)
    empty = Gpu.Array(fixture.context, 0).__dlpack__(dl_device=(1, 0), copy=False)
    equal(Gpu.Array.from_dlpack(empty, Gpu.Context("host")).shape, (0,))


def get_device(capsule, versioned):
    pointer = get_pointer(capsule, b"dltensor_versioned" if versioned else b"dltensor")
    tensor = ctypes.cast(pointer, ctypes.POINTER(Versioned))[0].tensor if versioned \
        else ctypes.cast(pointer, ctypes.POINTER(Tensor))[0]
    return tensor.device_type, tensor.device_id


def list_allocators(fixture):
    """Returns allocators of memory of each DLPack device that the device has."""
    context, has = fixture.context, fixture.device.capabilities
    found = [Gpu.DeferredAllocator(context), Gpu.HostAllocator(context)]
    if has & Gpu.Capabilities.SVM_COARSE:
        found.append(Gpu.SvmAllocator(context))
    if has & Gpu.Capabilities.SVM_FINE:
        found.append(Gpu.SvmAllocator(context, Gpu.SvmFlags.FINE_GRAIN))
    return found


def can_export(array, to, copy):
    """Returns whether an export to a DLPack device must succeed."""
    if to != (1, 0) or to == array.__dlpack_device__():
        return to == array.__dlpack_device__()
    return copy is not False or array.size == 0 or array.get_host_bytes() is not None


def check_export(fixture, array, max_version, asked, copy):
    """Checks the device, the flags and the elements of an export, and whether it shares memory."""
    own = array.__dlpack_device__()
    to = own if asked is None else asked
    request = {"max_version": max_version, "dl_device": asked, "copy": copy}
    if not can_export(array, to, copy):
        with raises(BufferError):
            array.__dlpack__(**request)
        return
    before, shares = array.tolist(), not copy and (to == own or array.get_host_bytes() is not None)
    capsule, versioned = array.__dlpack__(**request), max_version == (1, 0)
    equal(get_device(capsule, versioned), to, request)
    if versioned and (array.size > 0 or copy is not None):
        is_copied = not shares if copy is None else copy
        equal(get_flags(capsule), IS_COPIED if is_copied else 0, request)
    got = Gpu.Array.from_dlpack(capsule, Gpu.Context("host") if to == (1, 0) else fixture.context)
    equal(got.tolist(), before, request)
    got.fill(7)
    got.context.synchronize()
    equal(array.tolist(), got.tolist() if shares else before, request)
    if to[0] in (1, 3) and not versioned:       # memory that NumPy imports
        taken = np.from_dlpack(RequestingProducer(array, request))
        equal(taken.tolist(), array.tolist(), request)


class RequestingProducer(Producer):
    """Passes its own arguments, because older NumPy versions pass none."""

    def __init__(self, array, request):
        super().__init__(array)
        self.request = request

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**self.request)


def test_requests(fixture):
    """The tensor has the device of the array or the one that the consumer requests, or the export
    raises BufferError. Any allocator may be that of the context."""
    need_numpy()
    allocators = list_allocators(fixture)
    for allocator in allocators:
        array = Gpu.Array.from_numpy(allocator, sample())
        own = array.__dlpack_device__()
        others = (1, 0), (2, own[1]), (3, own[1]), (4, own[1]), (13, own[1]), (own[0], own[1] + 1)
        for of_context in None, *allocators:
            fixture.context.allocator = of_context
            for max_version in None, (1, 0):
                for asked in dict.fromkeys((None, own, *others)):
                    for copy in None, True, False:
                        array.write(sample())
                        for part in array[:, ::-1, 1:], array[:0]:
                            check_export(fixture, part, max_version, asked, copy)
        fixture.context.allocator = None


def test_untracked(fixture):
    """An export waits for all work of the context, because memory without tracking has no record of
    its work."""
    stream, host = fixture.new_stream(), Gpu.Context("host")
    buffer = Gpu.Buffer(fixture.context, 4096, Gpu.MemoryFlags.UNTRACKED)
    array = Gpu.Array.for_memory(buffer, 4096, "uint8")
    for value, request in enumerate(({"copy": True}, {"copy": True, "dl_device": (1, 0)},
                                     {"dl_device": (1, 0)}), 1):
        gate = fixture.gate(stream)
        stream.fill(buffer, value)
        timer = threading.Timer(0.05, gate.complete)
        timer.start()
        capsule = array.__dlpack__(max_version=(1, 0), **request)
        timer.join()
        copy = Gpu.Array.from_dlpack(capsule, host if "dl_device" in request else fixture.context)
        equal(bytes(copy), bytes([value]) * 4096, request)


def test_errors_stay(fixture):
    """If the consumer raises an error, freeing the unused capsule does not replace this error."""
    need_numpy()
    array = Gpu.Array.zeros(fixture.context, 3, "bfloat16")
    with raises(Exception, "Unsupported"):      # RuntimeError; BufferError from NumPy 2 on
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


def plain_taken_by_two_threads():
    """If two threads import a capsule, one gets the tensor, and the deleter is called once."""
    need_numpy()
    context = Gpu.Context("host")
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(1000):
            capsule = np.arange(100, dtype=np.float32).__dlpack__()
            barrier = threading.Barrier(2)
            results = []

            def take(number):
                barrier.wait()
                try:
                    results.append(Gpu.Array.from_dlpack(capsule, context))
                except ValueError as error:
                    results.append(error)
            run_threads(2, take)
            equal(sum(isinstance(result, Gpu.Array) for result in results), 1)
    finally:
        sys.setswitchinterval(interval)


def test_refused_capsule_stays(fixture):
    """After a failed import, the capsule can be imported into another context."""
    need_numpy()
    if fixture.device.backend == "host":
        raise Skip("the host reaches it")
    capsule = np.arange(5, dtype=np.float32).__dlpack__()
    with raises(BufferError, "(1, 0)", fixture.device.id, "without a copy"):
        Gpu.Array.from_dlpack(capsule, fixture.context, copy=False)
    equal(Gpu.Array.from_dlpack(capsule, Gpu.Context("host")).to_numpy().tolist(),
          [0, 1, 2, 3, 4])


def plain_at_exit():
    """The interpreter frees unused capsules at exit, without an error."""
    result = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True,
                            timeout=120)
    equal((result.returncode, result.stderr), (0, ""))


def plain_without_fast():
    """Repeats all tests of this file without the C module."""
    run_without_fast(__file__, GPUMEM_TEST="host")


class Foreign:
    """Simulates a CUDA array of another library."""

    def __init__(self, array, stream):
        self.array = array
        self.__cuda_array_interface__ = dict(array.__cuda_array_interface__, stream=stream)


def test_cuda_array_interface_read_only(fixture):
    """A read-only array is exported and imported as read-only: nothing writes the import."""
    need_numpy()
    if fixture.device.backend != "cuda":
        raise Skip("not on CUDA")
    numbers = np.arange(1, 65, dtype="uint32")
    array = Gpu.Array.from_numpy(fixture.context, numbers)
    foreign = Foreign(array, fixture.stream.get_native_handle() or 1)
    equal(foreign.__cuda_array_interface__["data"], (array.device_address, False))
    foreign.__cuda_array_interface__["data"] = (array.device_address, True)
    got = Gpu.Array.from_cuda_array_interface(fixture.context, foreign)
    assert not got.is_writable() and got.device_address == array.device_address
    check_constant(fixture, got)
    equal(got.__cuda_array_interface__["data"], (array.device_address, True))
    again = Gpu.Array.from_cuda_array_interface(fixture.context, got)
    with raises(Gpu.Error.INVALID_ARGUMENT, "read only"):
        again.fill(0)
    array.fill(5)                               # the owner still writes
    equal(set(got.to_numpy().tolist()), {5})
    row = array.reshape(8, 8)[::-2, 1]
    foreign = Foreign(row, None)
    foreign.__cuda_array_interface__["data"] = (row.device_address, True)
    equal(Gpu.Array.from_cuda_array_interface(fixture.context, foreign).strides, (-64,))
    got = Gpu.Array.from_cuda_array_interface(fixture.context, foreign)
    alive = weakref.ref(foreign)
    del foreign
    gc.collect()
    assert alive() is not None                  # the import keeps the exporter alive
    del got
    gc.collect()
    spin(lambda: alive() is None)


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


RECORDS = [("id", "u1"), ("x", "<f4")]


def test_cuda_array_interface_elsewhere(fixture):
    """An address of CUDA means nothing in a context of another back end."""
    if fixture.device.backend == "cuda":
        raise Skip("the interface is one of CUDA")
    for address, stream in (4096, None), (1 << 46, 1):
        interface = dict(shape=(3,), typestr="<f4", data=(address, False), version=3,
                         stream=stream)
        with raises(Gpu.Error.NOT_SUPPORTED, fixture.device.id):
            Gpu.Array.from_cuda_array_interface(
                fixture.context, SimpleNamespace(__cuda_array_interface__=interface))


def test_foreign_records(fixture):
    """The gaps of records are unnamed fields in the CUDA Array Interface. An import has no fields
    for them."""
    need_numpy()
    if fixture.device.backend != "cuda":
        raise Skip("the interface is one of CUDA")
    host = np.zeros(3, np.dtype(RECORDS, align=True))
    host["id"], host["x"] = [1, 2, 3], [0.5, 1.5, 2.5]
    for descr, names in ([("id", "|u1"), ("", "|V3"), ("x", "<f4")], ("id", "x")), \
            ([("", "|V4"), ("x", "<f4")], ("x",)):
        array = Gpu.Array.from_numpy(fixture.context, host)
        foreign = Foreign(array.view("V8"), None)
        foreign.__cuda_array_interface__["descr"] = descr
        got = Gpu.Array.from_cuda_array_interface(fixture.context, foreign)
        equal(got.dtype.names, names)
        for name in names:
            equal(got.to_numpy()[name].tolist(), host[name].tolist())
        assert not hasattr(array, "__cuda_array_interface__")
    packed = Gpu.Array.zeros(fixture.context, 3, RECORDS)
    equal(packed.__cuda_array_interface__["descr"], np.dtype(RECORDS).descr)


if __name__ == "__main__":
    sys.exit(main(globals()))

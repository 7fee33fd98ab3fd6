# SPDX-License-Identifier: LGPL-2.1-or-later
"""Streams and memory of other CUDA libraries, which have __cuda_stream__() and
__cuda_array_interface__, as arguments of methods, and streams of this library in other
libraries."""

import gc
from types import SimpleNamespace

from python_util import Skip, equal, main, need_numpy, np, raises
from gi.repository import Gpu

N = 1024


class Foreign:
    """A stream of another library. As there, the object owns the stream of the driver."""

    def __init__(self, stream):
        self.stream = stream

    def __cuda_stream__(self):
        return self.stream.__cuda_stream__()


class Old:
    """Older versions of cuda.core have an attribute in place of the method."""

    def __init__(self, stream):
        self.stream = stream
        self.__cuda_stream__ = stream.__cuda_stream__()


class Torch:
    """A stream of an older version of PyTorch."""

    def __init__(self, stream):
        self.stream = stream
        self.cuda_stream = stream.get_native_handle()


def need_cuda(fixture):
    if fixture.device.backend != "cuda":
        raise Skip(f"{fixture.device.id} is no CUDA device")


def test_protocol(fixture):
    stream = Gpu.Stream(fixture.context)
    if fixture.device.backend != "cuda":
        with raises(TypeError, "is not a CUDA stream"):
            stream.__cuda_stream__()
        return
    equal(stream.__cuda_stream__(), (0, stream.get_native_handle()))


def check_methods(context, data, stream):
    pool = Gpu.MemoryPool(context)
    buffer = pool.alloc_buffer(data.nbytes, stream)
    buffer.write(data, stream=stream)
    equal(bytes(buffer.read(stream=stream)), data.tobytes())
    block = pool.alloc_block(1000, stream)
    pool.free(block)
    array = Gpu.Array.from_numpy(context, data, stream=stream)
    equal(array.to_numpy(stream=stream).tolist(), data.tolist())
    kernel = Gpu.Program(context, "__kernel void twice (__global float *x)\n"
                         "{ x[get_global_id (0)] *= 2; }").get_kernel("twice")
    kernel(stream, N, None, array)
    equal(array.to_numpy(stream=stream).tolist(), (2 * data).tolist())
    own = Gpu.Stream(context)
    event = Gpu.Stream.record(stream.stream, Gpu.EventFlags.NONE)
    own.wait_event(event)
    own.synchronize()
    with buffer.map(Gpu.MapFlags.READ, stream=stream) as view:
        equal(view.to_numpy("float32").tolist(), data.tolist())


def test_methods(fixture):
    need_cuda(fixture)
    need_numpy()
    data = np.arange(N, dtype=np.float32)
    for kind in (Foreign, Old, Torch):
        stream = kind(Gpu.Stream(fixture.context))
        check_methods(fixture.context, data, stream)
        # The stream must outlive the objects that used it
        gc.collect()


class ForeignArray:
    """An array of another library, which has only the CUDA Array Interface."""

    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


def test_memory(fixture):
    """Arrays of other libraries as memory of the methods of streams."""
    need_numpy()
    stream, data = fixture.stream, np.arange(N, dtype=np.float32)
    if fixture.device.backend != "cuda":
        with raises(TypeError, "destination must be Gpu.Memory"):
            stream.fill(SimpleNamespace(__cuda_array_interface__={}), b"a")
        return
    array = Gpu.Array.from_numpy(fixture.context, data)
    foreign = ForeignArray(array)
    content = stream.read(foreign, 4, 8)
    stream.synchronize()
    equal(content.get_data(), data[1:3].tobytes())
    target = Gpu.Buffer(fixture.context, data.nbytes)
    stream.copy(target, foreign)
    equal(target.to_numpy("float32").tolist(), data.tolist())
    stream.write(foreign, data[::-1].copy())
    stream.synchronize()
    equal(array.to_numpy().tolist(), data[::-1].tolist())
    stream.fill(foreign, np.float32(3), size=8)
    out = bytearray(12)
    stream.read_into(foreign, out)
    stream.synchronize()
    equal(np.frombuffer(out, np.float32).tolist(), [3, 3, N - 3])
    with raises(ValueError, "reach past"):
        stream.fill(foreign, b"a", offset=4 * N - 4, size=8)
    stream.copy(foreign, target)
    stream.synchronize()
    equal(array.to_numpy().tolist(), data.tolist())
    with raises(ValueError, "not contiguous"):
        interface = dict(array.__cuda_array_interface__, shape=(N // 2,), strides=(8,))
        stream.fill(SimpleNamespace(__cuda_array_interface__=interface), b"a")


def test_order(fixture):
    """Work through the wrapped stream is ordered with other work of the stream."""
    need_cuda(fixture)
    need_numpy()
    stream = Gpu.Stream(fixture.context)
    buffer = Gpu.Buffer(fixture.context, 4 * N)
    for i in range(50):
        stream.fill(buffer, np.uint32(i))
        equal(np.frombuffer(bytes(buffer.read(stream=Foreign(stream))), np.uint32).tolist(),
              [i] * N)


def test_wrong(fixture):
    """A stream of another back end or version, or of no library."""
    pool = Gpu.MemoryPool(fixture.context)

    class Newer:
        def __cuda_stream__(self):
            return 1, 0

    class Current:
        def __cuda_stream__(self):
            return 0, 0
    with raises(TypeError, "stream", "version 1"):
        pool.alloc_buffer(100, Newer())
    if fixture.device.backend != "cuda":
        with raises(TypeError, "stream is a Current", fixture.device.id):
            pool.alloc_buffer(100, Current())
    with raises(TypeError, "stream"):
        pool.alloc_buffer(100, "stream")


class Protocol:
    """A stream whose protocol is faulty."""

    def __init__(self, found):
        self.found = found

    def __cuda_stream__(self):
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def test_faulty_streams(fixture):
    """Errors name the argument, the type of the object and the fault, on every back end."""
    buffer = fixture.buffer(64)
    for found, *words in ((None, "None"), (5, "not 5"), ((0,), "(0,)"), ((0, 1, 2), "(0, 1, 2)"),
                          (("0", 1), "version '0'"), ((0, "x"), "handle", "'x'"),
                          ((0, -1), "handle", "-1"), ((0, 1 << 64), "handle", str(1 << 64)),
                          ((0, 1.5), "handle", "1.5"), (KeyError("gone"), "KeyError", "gone")):
        with raises(TypeError, "stream is a Protocol, whose __cuda_stream__()", *words):
            buffer.fill(b"a", stream=Protocol(found))
    with raises(TypeError, "stream is a SimpleNamespace, whose cuda_stream", "'x'"):
        buffer.fill(b"a", stream=SimpleNamespace(cuda_stream="x"))


def test_faulty_interfaces(fixture):
    """Errors name the argument, the type of the object and the fault."""
    need_cuda(fixture)
    need_numpy()
    stream = fixture.stream
    array = Gpu.Array.from_numpy(fixture.context, np.arange(N, dtype=np.float32))
    kernel = fixture.program().get_kernel("triple")
    right = array.__cuda_array_interface__
    calls = (("destination", lambda value: stream.fill(value, b"a")),
             ("destination", lambda value: stream.copy(value, array)),
             ("source", lambda value: stream.copy(array, value)),
             ("source", lambda value: stream.read(value)),
             ("data", lambda value: Gpu.Array.from_cuda_array_interface(fixture.context, value)),
             ("argument 0 (numbers) of kernel triple",
              lambda value: kernel(stream, N, None, value)))
    for changes, word in (({"shape": None}, "shape"), ({"shape": (-1,)}, "(-1,)"),
                          ({"shape": (2.5,)}, "2.5"), ({"strides": (4, 4)}, "(4, 4)"),
                          ({"strides": 4}, "strides"), ({"typestr": 5}, "typestr"),
                          ({"typestr": "f"}, "'f'"), ({"data": 5}, "not 5"),
                          ({"data": ("x", False)}, "'x'"), ({"data": (0, False)}, "address 0"),
                          ({"stream": "x"}, "'x'"), ({"stream": -5}, "-5"),
                          ({"stream": 0}, "has the stream 0, which the interface disallows"),
                          *((key, f"no '{key}'") for key in ("shape", "typestr", "data"))):
        if isinstance(changes, str):
            interface = {key: value for key, value in right.items() if key != changes}
        else:
            interface = dict(right, **changes)
        value = SimpleNamespace(__cuda_array_interface__=interface)
        for name, call in calls:
            with raises(ValueError, f"{name} is a SimpleNamespace, whose __cuda_array_interface__",
                        word):
                call(value)
    for name, call in calls:
        with raises(TypeError, f"{name} is a SimpleNamespace, whose", "a dictionary", "not 5"):
            call(SimpleNamespace(__cuda_array_interface__=5))
    with raises(TypeError, "data", "'int'"):
        Gpu.Array.from_cuda_array_interface(fixture.context, 5)
    equal(array.to_numpy().tolist(), list(range(N)))


def test_versions_of_interfaces(fixture):
    """Arrays with an unknown version of the interface, or none, are accepted, as by CuPy."""
    need_cuda(fixture)
    need_numpy()
    array = Gpu.Array.from_numpy(fixture.context, np.arange(N, dtype=np.float32))
    right = array.__cuda_array_interface__
    for version in (0, 2, 4, None):
        value = SimpleNamespace(__cuda_array_interface__=dict(right, version=version))
        found = Gpu.Array.from_cuda_array_interface(fixture.context, value)
        equal(found.to_numpy().tolist(), list(range(N)))


class Exporter:
    """An array of another library whose DLPack methods return what the test wants."""

    def __init__(self, device, capsule):
        self.device, self.capsule = device, capsule

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        return self.capsule


def test_faulty_dlpack(fixture):
    """Errors name the argument, the type of the object and the fault."""
    own = Gpu.Array.zeros(fixture.context, 4).__dlpack_device__()
    kernel = fixture.program().get_kernel("triple")
    calls = (("data", lambda value: Gpu.Array.from_dlpack(value, fixture.context)),
             ("argument 0 (numbers) of kernel triple",
              lambda value: kernel(fixture.stream, 4, None, value)))
    for name, call in calls:
        for device in (5, None, (1,), ("x", 0), (1.5, 0)):
            with raises(TypeError, f"{name} is a Exporter, whose __dlpack_device__()",
                        repr(device)):
                call(Exporter(device, None))
        for capsule in (None, 5, "dltensor"):
            with raises(TypeError, f"{name} is a Exporter, whose __dlpack__()", repr(capsule)):
                call(Exporter(own, capsule))
        with raises(TypeError, f"{name} is a SimpleNamespace, whose __dlpack__()",
                    "__dlpack_device__()"):
            call(SimpleNamespace(__dlpack__=lambda **keywords: None))
    array = Gpu.Array.zeros(fixture.context, 4)
    for call, words in ((lambda: Gpu.Array.from_dlpack(array, "host"), ("context", "'host'")),
                        (lambda: Gpu.Array.from_dlpack(array, device=5), ("device", "not 5")),
                        (lambda: Gpu.Array.from_dlpack(array, device=(1, 2, 3)), ("device",)),
                        (lambda: Gpu.Array.from_dlpack(array, device=("x", 0)), ("device", "'x'")),
                        (lambda: Gpu.Array.from_dlpack(5), ("data", "'int'"))):
        with raises(TypeError, *words):
            call()


def test_dlpack_stream(fixture):
    """The stream of a consumer may be an object of its library."""
    array = Gpu.Array.zeros(fixture.context, 4)
    array.__dlpack__(stream=Gpu.Stream(fixture.context))
    for wrong, *words in (("x", "'x'"), (1.5, "1.5"), (True, "True"), (object(), "object"),
                          (Protocol(5), "Protocol", "5")):
        with raises(TypeError, "stream", *words):
            array.__dlpack__(stream=wrong)
    for wrong in (-2, 1 << 64):
        with raises(ValueError, "stream", str(wrong)):
            array.__dlpack__(stream=wrong)
    if fixture.device.backend != "cuda":
        with raises(TypeError, "stream is a Protocol", fixture.device.id):
            array.__dlpack__(stream=Protocol((0, 0)))
        return
    need_numpy()
    stream = Gpu.Stream(fixture.context)
    for foreign in (Foreign(stream), Torch(stream), Old(stream)):
        array.fill(7)
        capsule = array.__dlpack__(stream=foreign)
        got = Gpu.Array.from_dlpack(capsule, fixture.context, stream=foreign)
        equal(got.to_numpy(stream=stream).tolist(), [7] * 4)
    # The stream waits for the work on the array
    gate = fixture.gate(fixture.stream, must_hold=False)
    array.fill(9, stream=fixture.stream)
    array.__dlpack__(stream=Foreign(stream))
    event = stream.record(Gpu.EventFlags.NONE)
    assert not gate.holds or event.query() != Gpu.EventStatus.COMPLETE
    gate.complete()
    stream.synchronize()
    equal(array.to_numpy().tolist(), [9] * 4)


if __name__ == "__main__":
    raise SystemExit(main(globals()))

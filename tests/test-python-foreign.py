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
        with raises(TypeError, "is required"):
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


if __name__ == "__main__":
    raise SystemExit(main(globals()))

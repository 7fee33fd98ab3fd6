# SPDX-License-Identifier: LGPL-2.1-or-later
"""Streams of other CUDA libraries, which have __cuda_stream__(), as arguments of all methods that
take a stream, and streams of this library in other libraries."""

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


def test_methods(fixture):
    need_cuda(fixture)
    need_numpy()
    context, data = fixture.context, np.arange(N, dtype=np.float32)
    for kind in (Foreign, Old, Torch):
        stream = kind(Gpu.Stream(context))
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

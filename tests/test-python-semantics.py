# SPDX-License-Identifier: LGPL-2.1-or-later
"""Calls that programs bring along from NumPy, PyOpenCL, PyCUDA and Numba give the result that NumPy
or that library documents, or raise an error that names the alternative."""

import inspect
import sys

from gi import _gi

from python_util import Skip, equal, main, need, need_numpy, np, raises
from gi.repository import Gpu

ROWS = """
__kernel void
rows (__global float *to, __global const float *from)
{
  size_t i = get_global_id (0);

  to[i] = from[i];
}
"""


def same(got, expected):
    got, expected = np.asarray(got), np.asarray(expected)
    equal((got.shape, got.dtype), (expected.shape, expected.dtype))
    assert got.tobytes() == expected.tobytes(), f"{got} and not {expected}"


# --- the order of bytes --------------------------------------------------------------------------

def layouts():
    """Yields contiguous arrays in both orders, which PyOpenCL copies as they lie in memory."""
    numbers = np.arange(12, dtype=np.float32).reshape(3, 4)
    yield numbers
    yield np.asfortranarray(numbers)
    yield numbers.T
    yield numbers[1:, None]
    yield np.asfortranarray(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    yield np.asfortranarray(np.arange(6).astype("datetime64[s]").reshape(2, 3))
    yield np.zeros((2, 2), "float16", order="F")
    yield np.asfortranarray(np.arange(1 << 16, dtype=np.float32).reshape(2, -1))


def gaps():
    """Yields arrays that PyOpenCL refuses."""
    numbers = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    yield numbers[:, :, ::2]
    yield numbers[:, ::-1]
    yield numbers.transpose(1, 0, 2)
    yield numbers.ravel()[::2]
    yield np.broadcast_to(np.float32(1), 5)
    yield np.arange(6).astype("datetime64[s]")[::2]


def writers(fixture):
    """Yields (name, function), each of which returns the bytes that a call copied."""
    context, stream = fixture.context, fixture.stream

    def with_buffer(write):
        def call(array):
            buffer = fixture.buffer(max(array.nbytes, 4))
            write(buffer, array)
            return buffer.read(0, array.nbytes)
        return call

    def host_memory(array):
        memory = Gpu.HostMemory(context, array.nbytes)
        memory.write(array)
        return memory.read()

    def image(array, write=False):
        size = array.nbytes // 2
        if write:
            image = Gpu.Image(context, "r-uint16", (size,))
            image.write(array)
        else:
            image = Gpu.Image.new_from_data(context, "r-uint16", (size,), array)
        return image.read()

    yield "Buffer", lambda array: Gpu.Buffer(context, array).read()
    yield "new_from_data", lambda array: Gpu.Buffer.new_from_data(
        context, array, Gpu.MemoryFlags.HOST_READ_ONLY).read()
    yield "Buffer.write", with_buffer(lambda buffer, array: buffer.write(array))
    yield "Stream.write", with_buffer(stream.write)
    yield "Stream.write later", with_buffer(
        lambda buffer, array: stream.write(buffer, array, copy=False))
    yield "write_region", with_buffer(
        lambda buffer, array: stream.write_region(buffer, array, array.nbytes))
    yield "HostMemory.write", host_memory
    if fixture.device.capabilities & Gpu.Capabilities.IMAGES:
        yield "new_from_data of images", image
        yield "Image.write", lambda array: image(array, True)


def test_memory_order(fixture):
    need_numpy()
    for name, write in writers(fixture):
        for array in layouts():
            if "mage" in name and array.nbytes > 4096:
                continue
            equal(write(array), array.tobytes("A"), f"{name} of {array.shape}{array.strides}")
        for array in gaps():
            with raises(ValueError, "ascontiguousarray"):
                write(array)


def readers(fixture):
    """Yields (name, function), each of which reads a buffer into an array."""
    def later(buffer, target):
        fixture.stream.read_into(buffer, target)
        fixture.stream.synchronize()

    def region(buffer, target):
        fixture.stream.read_region_into(buffer, target, target.nbytes)
        fixture.stream.synchronize()

    yield "Buffer.read_into", lambda buffer, target: buffer.read_into(target)
    yield "Stream.read_into", later
    yield "read_region_into", region


def test_memory_order_of_reads(fixture):
    need_numpy()
    for name, read in readers(fixture):
        for array in layouts():
            buffer = Gpu.Buffer(fixture.context, array)
            target = np.zeros_like(array)
            equal(target.flags.fnc, array.flags.fnc)
            read(buffer, target)
            same(target, array)
        for array in gaps():
            buffer = fixture.buffer(array.nbytes)
            wide = np.zeros((*array.shape, 2), array.dtype)
            with raises(ValueError, "contiguous", "Gpu.Array.read_into"):
                read(buffer, wide[..., 0])
            assert not wide.view("u1").any(), name


def test_memory_order_of_views(fixture):
    """to_numpy() takes the order of the memory, and transfers by element know the order."""
    need_numpy()
    context = fixture.context
    fortran = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    buffer = Gpu.Buffer(context, fortran)
    same(buffer.to_numpy("float32", (2, 3), order="F"), fortran)
    same(buffer.to_numpy("float32", (3, 2)), fortran.T)
    same(Gpu.Array.from_numpy(context, fortran).to_numpy(), fortran)
    same(Gpu.Array.from_numpy(context, fortran[:, ::2]).to_numpy(), fortran[:, ::2])
    with raises(ValueError, "order"):
        buffer.to_numpy("float32", (2, 3), order="X")
    target = np.zeros((2, 3), np.float32, order="F")
    Gpu.Array.for_memory(buffer, (3, 2), "float32").T.read_into(target)
    same(target, fortran)
    if fixture.device.capabilities & Gpu.Capabilities.IMAGES:
        same(Gpu.Image.from_array(context, fortran).to_numpy(), fortran)


def test_memory_order_of_arrays(fixture):
    """A Gpu.Array as data follows the same rule, whether or not the host can access its memory."""
    need_numpy()
    fortran = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    array = Gpu.Array.from_numpy(fixture.context, fortran)
    equal(Gpu.Buffer(fixture.context, array).read(), fortran.tobytes("A"))
    with raises(ValueError, "contiguous"):
        Gpu.Buffer(fixture.context, array[:, ::2])
    with raises(ValueError, "tobytes"):
        Gpu.Buffer(fixture.context, memoryview(b"123456")[::2])


def test_memory_order_of_launches(fixture):
    need_numpy()
    need(fixture, Gpu.Capabilities.SOURCE)
    kernel = Gpu.Program(fixture.context, ROWS).rows
    fortran = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    for make in Gpu.Out, Gpu.InOut:
        target = np.zeros((2, 3), np.float32, order="F")
        kernel(fixture.stream, 6, None, make(target), Gpu.In(fortran))
        same(target, fortran)
    flat = np.zeros(6, np.float32)
    kernel(fixture.stream, 6, None, Gpu.Out(flat), Gpu.In(fortran))
    same(flat, fortran.ravel(order="F"))
    for wrong in (lambda: kernel(fixture.stream, 2, None, Gpu.Out(flat), Gpu.In(fortran[:, ::2])),
                  lambda: kernel(fixture.stream, 2, None, Gpu.Out(fortran[:, ::2]), Gpu.In(flat))):
        with raises(ValueError, "contiguous"):
            wrong()


# --- sizes and results ---------------------------------------------------------------------------

def test_sizes(fixture):
    """Integers are sizes, arrays and bytes are data, and other numbers are refused."""
    need_numpy()
    context = fixture.context
    for size in 5, np.int32(5), np.uint8(5), np.int64(5):
        equal(Gpu.Buffer(context, size).size, 5)
    for data, size in ((b"12345", 5), (np.bytes_(b"123"), 3), (np.array(5, "int16"), 2),
                       (np.array([5], "float32"), 4), (np.zeros(2, "i4,f8")[0], 12)):
        equal(Gpu.Buffer(context, data).size, size)
    for wrong in (5.0, np.float32(5), np.float64(5), np.complex64(5), np.bool_(True), True, "5",
                  np.str_("5"), np.datetime64(5, "s"), np.timedelta64(5), None, [5]):
        with raises(TypeError):
            Gpu.Buffer(context, wrong)
        if wrong is not None:
            for call in (lambda: Gpu.HostMemory(context, wrong), lambda: Gpu.Local(wrong),
                         lambda: Gpu.MemoryPool(context)(wrong),
                         lambda: Gpu.Svm(context, wrong),
                         lambda: fixture.buffer(8).read(wrong),
                         lambda: fixture.buffer(8).to_numpy("u1", None, wrong),
                         lambda: fixture.buffer(8).slice(0, wrong),
                         lambda: Gpu.HostMemory(context, 8).read(0, wrong)):
                with raises(TypeError):
                    call()
    with raises(TypeError, "numpy.array ("):
        Gpu.Buffer(context, np.float32(5))


def results():
    """Yields (class, method) for all methods that return whether they succeeded, and more."""
    for info in _gi.Repository.get_default().get_infos("Gpu"):
        for method in getattr(info, "get_methods", list)():
            outputs = [argument for argument in method.get_arguments()
                       if argument.get_direction() == _gi.Direction.OUT]
            if outputs and method.get_return_type().get_tag() == _gi.TypeTag.BOOLEAN:
                yield getattr(Gpu, info.get_name()), method.get_name()


def plain_results():
    """No method returns True in front of its results."""
    found = list(results())
    assert (Gpu.Context, "get_memory_info") in found, found
    for kind, name in found:
        method = inspect.unwrap(inspect.getattr_static(kind, name))
        assert inspect.isfunction(method), f"{kind.__name__}.{name}() has no override"


def test_results(fixture):
    context = fixture.context
    free, total, source = context.get_memory_info()
    assert 0 <= free <= total and isinstance(source, Gpu.MemoryInfoSource)
    free, total = Gpu.DeferredAllocator(context).get_memory_info()
    assert 0 <= free <= total
    kind, number = Gpu.Array.zeros(context, 1).get_dlpack_device()
    assert type(kind) is int and type(number) is int
    if fixture.device.backend == "cuda":
        size = context.get_limit(Gpu.Limit.STACK_SIZE)
        assert type(size) is int and size > 1, size
    if not fixture.device.capabilities & Gpu.Capabilities.SOURCE:
        raise Skip("no kernels")
    kernel = fixture.program().add
    equal(kernel.prepare(64, 16, (fixture.buffer(4), 1)).get_block(), Gpu.Extent(16))
    equal(kernel.prepare(64, None, (fixture.buffer(4), 1)).get_block(), None)


if __name__ == "__main__":
    sys.exit(main(globals()))

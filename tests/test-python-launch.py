# SPDX-License-Identifier: LGPL-2.1-or-later
"""Grids and arguments of launches from Python, on every device that GPUMEM_TEST selects. Each test
launches through the C module and through the overrides."""

import array
import ctypes
import gc
import struct
import sys
import time
import weakref
from types import SimpleNamespace

from python_util import DEADLINE, Skip, equal, main, need, need_numpy, np, raises
from gi.repository import Gpu


def ways(fixture, kernel):
    """Yields functions (grid, block, args, **options) that launch a kernel in each possible way."""
    stream = fixture.stream
    yield lambda grid, block, args, **options: stream.launch(kernel, grid, block, args, **options)
    yield lambda grid, block, args, **options: kernel(stream, grid, block, *args, **options)
    yield lambda grid, block, args, **options: stream.launch(kernel, grid, block, list(args),
                                                             **options)
    yield lambda grid, block, args, **options: stream.launch_prepared(
        kernel.prepare(grid, block, args, **options))


# --- empty launches ------------------------------------------------------------------------------

def test_empty(fixture):
    kernel = fixture.program().triple
    buffer = fixture.buffer(struct.pack("=4I", *range(4)))
    for launch in ways(fixture, kernel):
        for grid in (0, (0,), (4, 0), (4, 1, 0), Gpu.Extent(0, 4, 4)):
            with raises(Gpu.Error.INVALID_ARGUMENT, "no work-items", "allow_empty=True"):
                launch(grid, None, (buffer,))
            with raises(Gpu.Error.INVALID_ARGUMENT, "no work-items"):
                launch(grid, None, (buffer,), allow_empty=False)
            assert launch(grid, None, (buffer,), allow_empty=True) is True
            assert launch(grid, (1, 1, 1), (buffer,), allow_empty=True) is True
    equal(buffer.read(), struct.pack("=4I", *range(4)))
    for launch in ways(fixture, kernel):
        launch(4, None, (buffer,), allow_empty=True)
    equal(buffer.read(), struct.pack("=4I", *(81 * n for n in range(4))))


def test_empty_checks(fixture):
    kernel = fixture.program().triple
    buffer = fixture.buffer(16)
    for launch in ways(fixture, kernel):
        with raises(Gpu.Error.INVALID_ARGUMENT, "takes 1 argument"):
            launch(0, None, (), allow_empty=True)
        with raises(Gpu.Error.INVALID_ARGUMENT, "block"):
            launch(0, 0, (buffer,), allow_empty=True)
    buffer.release()
    for launch in ways(fixture, kernel):
        with raises(Gpu.Error.RELEASED):
            launch(0, None, (buffer,), allow_empty=True)


def test_empty_with_arrays(fixture):
    """An empty launch leaves the arrays of Gpu.Out and Gpu.InOut as they are; arrays without
    elements are null pointers."""
    need_numpy()
    triple = fixture.program().triple
    for transfer in (Gpu.Out, Gpu.InOut):
        numbers = np.arange(5, dtype=np.uint32)
        fixture.stream.launch(triple, 0, args=(transfer(numbers),), allow_empty=True)
        equal(numbers.tolist(), [0, 1, 2, 3, 4])
        none = np.empty(0, np.uint32)
        fixture.stream.launch(triple, none.size, args=(transfer(none),), allow_empty=True)


def test_empty_timed(fixture):
    need(fixture, Gpu.Capabilities.PROFILING)
    kernel = fixture.program().triple
    buffer = fixture.buffer(16)
    stream = Gpu.Stream(fixture.context, Gpu.StreamFlags.PROFILING)
    assert kernel.timed(stream, 0, None, buffer, allow_empty=True)() >= 0
    with raises(Gpu.Error.INVALID_ARGUMENT, "no work-items"):
        kernel.timed(stream, 0, None, buffer)


# --- offsets -------------------------------------------------------------------------------------

OFFSETS = """
__kernel void
count (__global uint *out)
{
  out[get_global_id (0)] += 1 + 10 * get_global_id (1) + 100 * get_global_offset (0);
}
"""


def test_offset(fixture):
    need(fixture, Gpu.Capabilities.SOURCE)
    kernel = Gpu.Program(fixture.context, OFFSETS).count
    for launch in ways(fixture, kernel):
        buffer = fixture.buffer(bytes(24))
        launch(2, None, (buffer,), global_offset=3)
        launch((2,), 1, (buffer,), global_offset=(1,))
        launch(1, None, (buffer,), global_offset=(0, 4))
        launch(1, None, (buffer,), global_offset=Gpu.Extent(5, 0, 0))
        launch(6, None, (buffer,), global_offset=0)
        launch(6, None, (buffer,))
        equal(struct.unpack("=6I", buffer.read()), (43, 103, 103, 303, 303, 503))
        launch(0, None, (buffer,), global_offset=1, allow_empty=True)
        with raises(Gpu.Error.INVALID_ARGUMENT, "global offset", str((1 << 64) - 1)):
            launch(1, None, (buffer,), global_offset=(1 << 64) - 1)
        for number in (-1, 1 << 64):
            with raises(OverflowError, "global_offset", str(number)):
                launch(1, None, (buffer,), global_offset=number)
            with raises(OverflowError, "grid", str(number)):
                launch(number, None, (buffer,), global_offset=1)
            with raises(OverflowError, "block", str(number)):
                launch(1, (1, number), (buffer,), global_offset=1)
            with raises(OverflowError, "grid", str(number)):
                launch((1, number), None, (buffer,))
        with raises(TypeError, "global_offset"):
            launch(1, None, (buffer,), global_offset="1")


def test_offset_timed(fixture):
    need(fixture, Gpu.Capabilities.SOURCE | Gpu.Capabilities.PROFILING)
    kernel = Gpu.Program(fixture.context, OFFSETS).count
    buffer = fixture.buffer(bytes(12))
    stream = Gpu.Stream(fixture.context, Gpu.StreamFlags.PROFILING)
    assert kernel.timed(stream, 1, None, buffer, global_offset=2)() >= 0
    equal(struct.unpack("=3I", buffer.read(stream=stream)), (0, 0, 201))


# --- arrays of the host --------------------------------------------------------------------------

def test_host_arrays(fixture):
    """An array of the host in the place of memory is a TypeError that names the argument and the
    remedy, also an array of 8 bytes, the size of an address."""
    scale = fixture.program().scale
    buffer = fixture.buffer(struct.pack("=4f", 1, 2, 3, 4))
    arrays = [array.array("f", [1, 2, 3]), bytearray(8), memoryview(bytes(8)),
              (ctypes.c_float * 2)()]
    if np is not None:
        arrays += [np.arange(4, dtype=np.float32), np.zeros(1), np.array(1.5), np.zeros((2, 2)),
                   np.zeros(4)[::2]]
    for launch in ways(fixture, scale):
        for data in arrays:
            with raises(TypeError, "argument 0 (numbers) of kernel scale", type(data).__name__,
                        "Gpu.In, Gpu.Out or Gpu.InOut"):
                launch(4, None, (data, 2.0))
        # An array is data for a parameter that is a value.
        launch(4, None, (buffer, array.array("f", [2])))
        if np is not None:
            launch(4, None, (buffer, np.array([0.5], np.float32)))
            launch(4, None, (buffer, np.array(1, np.float32)))
        else:
            launch(4, None, (buffer, 0.5))
    equal(struct.unpack("=4f", buffer.read()), (1, 2, 3, 4))


def test_empty_arrays(fixture):
    """An array without elements is a null pointer for the kernel."""
    need_numpy()
    result, kernel = fixture.buffer(4), fixture.program().is_null
    for kind in Gpu.In, Gpu.InOut, Gpu.Out:
        for array in np.empty(0, np.float32), np.empty((3, 0)), bytearray():
            result.fill(0)
            fixture.stream.launch(kernel, 1, args=(result, kind(array)))
            equal(result.read(), struct.pack("=I", 1), (kind, array))


KINDS = """
typedef struct { int a; float b; } pair;

__kernel void
kinds (__global double *out, int i, ulong l, float f, float4 v, pair p)
{
  out[0] = i;
  out[1] = (double) l;
  out[2] = f;
  out[3] = v.y;
  out[4] = p.a + p.b;
}
"""


class ArrayLike:
    """Simulates an array of a library that converts to NumPy."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


def prepare_kinds(fixture):
    need_numpy()
    need(fixture, Gpu.Capabilities.SOURCE)
    return fixture.buffer(40), Gpu.Program(fixture.context, KINDS).get_kernel("kinds")


VECTOR, PAIR = struct.pack("=4f", 1, 2, 3, 4), struct.pack("=if", 5, 6)


def test_array_for_number(fixture):
    """An array of one element passes the value of the element to a parameter that is a number, with
    the same limits as a number of NumPy."""
    out, kernel = prepare_kinds(fixture)
    for launch in ways(fixture, kernel):
        for dtype in ("i1", "u2", "i4", ">i4", "i8", ">u8", "f2", "f4", ">f8", "longdouble"):
            for number in (np.array(3, dtype), np.array([3], dtype), np.full((1, 1), 3, dtype),
                           ArrayLike(np.array(3, dtype)), np.array([3, 4], dtype)[0]):
                out.fill(0)
                launch(1, None, (out, number, number, number, VECTOR, PAIR))
                equal(out.to_numpy("f8").tolist(), [3, 3, 3, 2, 11], (dtype, number))
        out.fill(0)
        launch(1, None, (out, np.array([True]), np.array(1 << 63, "u8"), np.array(0.5), VECTOR,
                         PAIR))
        equal(out.to_numpy("f8").tolist(), [1, 1 << 63, 0.5, 2, 11])
        for number in (np.int64(1 << 31), np.array(1 << 31), np.float64(1.5), np.array([1.5])):
            with raises(Gpu.Error.INVALID_ARGUMENT, "argument 1 (i) of kernel kinds is an int, "
                        f"which cannot hold {number.item()}"):
                launch(1, None, (out, number, 1, 1, VECTOR, PAIR))


def test_bool(fixture):
    """A parameter of the type bool takes truth values, and the numbers 0 and 1."""
    if fixture.device.backend == "opencl":
        raise Skip("kernels of OpenCL C have no parameters of the type bool")
    kernel = Gpu.Program(fixture.context, """
      __kernel void choose (bool first, __global int *out, bool last)
      {
        out[0] = (first ? 1 : 2) + (last ? 10 : 20);
      }""").choose
    out = fixture.buffer(4)
    values = [True, False, 1, 0, 1.0]
    if np is not None:
        values += [np.bool_(True), np.False_, np.uint8(1), np.array(True), np.array([False])]
    for launch in ways(fixture, kernel):
        for value in values:
            launch(1, None, (value, out, not value))
            equal(out.read(), struct.pack("=i", 21 if value else 12), repr(value))
        for value in 2, -1, 0.5:
            with raises(Gpu.Error.INVALID_ARGUMENT, "argument 0 (first) of kernel choose",
                        f"a bool, which cannot hold {value}"):
                launch(1, None, (value, out, True))
        with raises(TypeError):
            launch(1, None, ("yes", out, True))
    kernel.declare_arguments("?p?")
    with raises(Gpu.Error.INVALID_ARGUMENT):
        kernel.declare_arguments("fp?")
    kernel(fixture.stream, 1, None, True, out, True)
    equal(out.read(), struct.pack("=i", 11))


def test_array_not_a_number(fixture):
    """A parameter that is a number refuses arrays of several elements and of complex numbers, even
    if their bytes fit."""
    out, kernel = prepare_kinds(fixture)
    for launch in ways(fixture, kernel):
        for array, words in ((np.array([1, 2], "i4"), ["an array of shape (2,)"]),
                             (np.zeros((2, 4), "u1"), ["an array of shape (2, 4)"]),
                             (np.zeros((0, 1), "u8"), ["an array of shape (0, 1)"]),
                             (ArrayLike(np.zeros(2, "f4")), ["an array of shape (2,)"]),
                             (np.array(1j, "c8"), ["1j"]), (np.complex64(1j), ["1j"]),
                             (np.array(None), ["Python objects"])):
            with raises(TypeError, *words):
                launch(1, None, (out, 1, array, 1, VECTOR, PAIR))
            with raises(TypeError):
                launch(1, None, (out, 1, 1, array, VECTOR, PAIR))
        with raises(TypeError, "argument 2 (l) of kernel kinds"):
            launch(1, None, (out, 1, np.array([1, 2], "i4"), 1, VECTOR, PAIR))
        with raises(ValueError, "argument 2 (l) of kernel kinds", "masked"):
            launch(1, None, (out, 1, np.ma.array(3, "i4", mask=True), 1, VECTOR, PAIR))


def test_array_for_bytes(fixture):
    """A vector or a structure accepts the bytes of an array in the byte order of the machine."""
    out, kernel = prepare_kinds(fixture)
    record = [("a", "i4"), ("b", "f4")]
    vector, pair = np.array([1, 7, 3, 4], "f4"), np.array([(8, 9)], record)
    swapped = np.dtype(record).newbyteorder("S")
    for launch in ways(fixture, kernel):
        for value in (pair, pair[0], pair.reshape(()), np.array([8, 0x41100000], "i4")):
            out.fill(0)
            launch(1, None, (out, 1, 2, 3, vector, value))
            equal(out.to_numpy("f8").tolist(), [1, 2, 3, 7, 17])
        for value in (vector.astype(vector.dtype.newbyteorder("S")),
                      vector.astype(vector.dtype.newbyteorder("S")).reshape(2, 2)):
            with raises(ValueError, "argument 4 (v) of kernel kinds", "byte order"):
                launch(1, None, (out, 1, 2, 3, value, pair))
        for value in (pair.astype(swapped), pair.astype(swapped)[0]):
            with raises(ValueError, "argument 5 (p) of kernel kinds", "byte order"):
                launch(1, None, (out, 1, 2, 3, vector, value))


def test_wrong_objects(fixture):
    scale = fixture.program().scale
    buffer = fixture.buffer(16)
    for launch in ways(fixture, scale):
        for value in ("text", [1.0], object(), {}):
            with raises(TypeError, "argument 1 (factor) of kernel scale", type(value).__name__):
                launch(4, None, (buffer, value))
        with raises(Gpu.Error.INVALID_ARGUMENT, "takes 2 arguments"):
            launch(4, None, (buffer, 1.0, bytearray(8)))


def test_transfer_in_prepared(fixture):
    scale = fixture.program().scale
    data = array.array("f", [1, 2])
    for transfer in (Gpu.In(data), Gpu.Out(data), Gpu.InOut(data)):
        with raises(TypeError, "argument 0 (numbers) of kernel scale", "Gpu.Buffer"):
            scale.prepare(2, None, (transfer, 2.0))


def test_host_arrays_without_description(fixture):
    """If the kind of a parameter is unknown, an array with dimensions is refused too: 8 bytes would
    be used as an address."""
    need_numpy()
    need(fixture, Gpu.Capabilities.SOURCE)
    if fixture.device.backend != "cuda":
        raise Skip("the drivers of this back end describe all arguments")
    # The library does not describe a kernel whose name is also a macro.
    source = """
#define triple triple
extern "C" __global__ void triple (unsigned *x)
{
  x[threadIdx.x] *= 3;
}
"""
    kernel = Gpu.Program(fixture.context, source).triple
    equal(kernel.get_argument_kind(0), Gpu.ArgumentKind.UNKNOWN)
    with raises(TypeError, "argument 0 of kernel triple", "Gpu.InOut"):
        fixture.stream.launch(kernel, 1, args=(np.zeros(1),))


def test_array_with_gaps(fixture):
    """The error for an array with gaps names the argument."""
    need_numpy()
    kernel = fixture.program().triple
    with raises(ValueError, "the array of Gpu.InOut, argument 0, of shape (4,)", "not contiguous"):
        fixture.stream.launch(kernel, 4, args=(Gpu.InOut(np.zeros(8, "uint32")[::2]),))


# --- memory of other libraries -------------------------------------------------------------------

class Foreign:
    """Simulates an array of another library, with the CUDA Array Interface."""

    def __init__(self, array, stream=None, read_only=False, **keys):
        self.array = array
        self.__cuda_array_interface__ = {
            "version": 3, "shape": (array.size,), "typestr": "<u4", "strides": None,
            "data": (array.device_address, read_only), "stream": stream, **keys}


class Exporter:
    """Simulates an array of another library, with DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)


def need_cuda(fixture):
    need_numpy()
    if fixture.device.backend != "cuda":
        raise Skip("the interface is one of CUDA")


# A kernel that takes many milliseconds, and then writes a number to memory that the library does
# not track.
LATER = """
__kernel void
later (ulong address, uint number)
{
  ulong x = number;

  for (uint i = 0; i < 20000000; i++)
    x = x * 6364136223846793005 + i;
  *(__global uint *) address = number + (x == 0);
}
"""


def run_later(fixture, stream, address, number):
    kernel = Gpu.Program(fixture.context, LATER).later
    kernel(stream, 1, None, address, number)


def numbers(fixture):
    return Gpu.Array.from_numpy(fixture.context, np.arange(4, dtype=np.uint32))


def test_cuda_array(fixture):
    need_cuda(fixture)
    for launch in ways(fixture, fixture.program().triple):
        array = numbers(fixture)
        launch(4, None, (Foreign(array),))
        equal(array.to_numpy().tolist(), [0, 3, 6, 9])
        launch(2, None, (Foreign(array[2:]),))
        equal(array.to_numpy().tolist(), [0, 3, 18, 27])
        # The kernel gets the address of the first element, also if strides are negative.
        launch(1, None, (Foreign(array, shape=(2,), strides=(-4,),
                                 data=(array.device_address + 4, False)),))
        equal(array.to_numpy().tolist(), [0, 9, 18, 27])
        launch(0, None, (Foreign(array[:0], data=(0, False)),), allow_empty=True)


def test_cuda_array_order(fixture):
    """The launch waits for the work on the stream that the array names."""
    need_cuda(fixture)
    for launch in ways(fixture, fixture.program().triple):
        other = Gpu.Stream(fixture.context, Gpu.StreamFlags.NON_BLOCKING)
        array = numbers(fixture)
        fixture.stream.synchronize()
        run_later(fixture, other, array.device_address + 4, 1000)
        launch(4, None, (Foreign(array, other.get_native_handle()),))
        equal(array.to_numpy().tolist(), [0, 3000, 6, 9])


def test_cuda_array_lives(fixture):
    """The object of the other library lives until the kernel has completed."""
    need_cuda(fixture)
    kernel = fixture.program().triple
    array = numbers(fixture)
    run_later(fixture, fixture.stream, array.device_address + 4, 1000)
    foreign = Foreign(array)
    collected = []
    fixture.stream.launch(kernel, 4, args=(foreign,))
    event = fixture.stream.record()
    # On a busy machine the kernel can complete before this line.
    weakref.finalize(foreign, lambda: collected.append(event.query()))
    del foreign
    gc.collect()
    equal(array.to_numpy().tolist(), [0, 3000, 6, 9])
    deadline = time.monotonic() + DEADLINE
    while not collected:
        assert time.monotonic() < deadline, "the object is still alive"
        fixture.stream.synchronize()
        time.sleep(0.001)
    equal(collected, [Gpu.EventStatus.COMPLETE])


def test_cuda_array_read_only(fixture):
    need_cuda(fixture)
    program = fixture.program()
    array = numbers(fixture)
    for launch in ways(fixture, program.triple):
        with raises(Gpu.Error.INVALID_ARGUMENT, "argument 0 (numbers) of kernel triple", "const"):
            launch(4, None, (Foreign(array, read_only=True),))
    out = fixture.buffer(4)
    for launch in ways(fixture, program.is_null):
        out.fill(7)
        launch(1, None, (out, Foreign(array, read_only=True)))
        equal(struct.unpack("=I", out.read()), (0,))


def test_cuda_array_errors(fixture):
    need_cuda(fixture)
    array = numbers(fixture)
    others = [device for device in Gpu.devices()
              if device.backend == "cuda" and device.id != fixture.device.id]
    for launch in ways(fixture, fixture.program().triple):
        where = "argument 0 (numbers) of kernel triple"
        with raises(ValueError, where, "mask"):
            launch(4, None, (Foreign(array, mask=array),))
        with raises(Gpu.Error.INVALID_ARGUMENT, where, "0x10"):
            launch(4, None, (Foreign(array, data=(16, False)),))
        with raises(Gpu.Error.INVALID_ARGUMENT, where, "bytes"):
            launch(4, None, (Foreign(array, shape=(1 << 40,)),))
        for device in others[:1]:
            elsewhere = Gpu.Array.zeros(Gpu.Context(device), 4, np.uint32)
            with raises(Gpu.Error.INVALID_ARGUMENT, where, "belongs to context"):
                launch(4, None, (Foreign(elsewhere),))
    equal(array.to_numpy().tolist(), [0, 1, 2, 3])


def test_cuda_array_elsewhere(fixture):
    need_numpy()
    if fixture.device.backend == "cuda":
        raise Skip("the device can access CUDA memory")
    foreign = Foreign(SimpleNamespace(size=4, device_address=1 << 40))
    for launch in ways(fixture, fixture.program().triple):
        with raises(TypeError, "argument 0 (numbers) of kernel triple", "CUDA", fixture.device.id):
            launch(4, None, (foreign,))


def test_dlpack(fixture):
    """Arrays with DLPack are used in place if the device can access their memory."""
    need_numpy()
    for launch in ways(fixture, fixture.program().triple):
        array = numbers(fixture)
        launch(4, None, (Exporter(array),))
        equal(array.to_numpy().tolist(), [0, 3, 6, 9])
        if fixture.device.backend == "host":
            continue
        elsewhere = Gpu.Array.zeros(Gpu.Context(Gpu.Device.find("host")), 4, np.uint32)
        with raises(TypeError, "argument 0 (numbers) of kernel triple", "Exporter"):
            launch(4, None, (Exporter(elsewhere),))


# --- addresses -----------------------------------------------------------------------------------

def test_addresses(fixture):
    """On CUDA, an integer is an address for a pointer. The driver must know the address."""
    if fixture.device.backend != "cuda":
        raise Skip("memory objects have no addresses")
    kinds = [int] if np is None else [int, np.intp, np.uint64]
    for launch in ways(fixture, fixture.program().triple):
        buffer = fixture.buffer(struct.pack("=4I", *range(4)))
        address = buffer.get_device_address()
        for kind in kinds:
            launch(4, None, (kind(address),))
            launch(1, None, (kind(address + 12),))
        times = 3 ** len(kinds)
        equal(struct.unpack("=4I", buffer.read()), (0, times, 2 * times, 3 * times * times))
        for value in (1, 16, (1 << 64) - 1):
            with raises(Gpu.Error.INVALID_ARGUMENT, "argument 0 (numbers) of kernel triple",
                        hex(value)):
                launch(4, None, (value,))
        for value in (0, -1, True, 1.5):
            with raises(Gpu.Error.INVALID_ARGUMENT, "argument 0 (numbers) of kernel triple",
                        "not a number"):
                launch(4, None, (value,))


def test_address_lives(fixture):
    """A launch with the address of memory of this library keeps that memory allocated, and later
    uses are ordered after the launch."""
    if fixture.device.backend != "cuda":
        raise Skip("memory objects have no addresses")
    kernel = fixture.program().triple
    other = Gpu.Stream(fixture.context, Gpu.StreamFlags.NON_BLOCKING)
    buffer, copy = fixture.buffer(struct.pack("=4I", *range(4))), fixture.buffer(16)
    run_later(fixture, fixture.stream, buffer.get_device_address(), 0)
    fixture.stream.launch(kernel, 4, args=(buffer.get_device_address(),))
    other.copy(copy, buffer)
    buffer.release()
    equal(struct.unpack("=4I", copy.read(stream=other)), (0, 3, 6, 9))


def test_addresses_elsewhere(fixture):
    if fixture.device.backend == "cuda":
        raise Skip("addresses are numbers")
    reason = "on OpenCL, memory is an object" if fixture.device.backend == "opencl" else "memory"
    for launch in ways(fixture, fixture.program().triple):
        for value in (0, 1, 1 << 40):
            with raises(Gpu.Error.INVALID_ARGUMENT, "argument 0 (numbers) of kernel triple",
                        "not a number", reason):
                launch(4, None, (value,))


if __name__ == "__main__":
    sys.exit(main(globals()))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Grids and arguments of launches from Python, on every device that GPUMEM_TEST selects. Each test
launches through the C module and through the overrides."""

import array
import ctypes
import struct
import sys

from python_util import Skip, equal, main, need, need_numpy, np, raises
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
            with raises(Gpu.Error.INVALID_ARGUMENT, "no work-items", "ALLOW_EMPTY"):
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


if __name__ == "__main__":
    sys.exit(main(globals()))

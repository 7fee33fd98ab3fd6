# SPDX-License-Identifier: LGPL-2.1-or-later
"""Grids and arguments of launches from Python, on every device that GPUMEM_TEST selects. Each test
launches through the C module and through the overrides."""

import struct
import sys

from python_util import equal, main, need, need_numpy, np, raises
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


if __name__ == "__main__":
    sys.exit(main(globals()))

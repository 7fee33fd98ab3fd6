# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sizes, offsets, pitches and counts at which arithmetic may overflow, in all calls with such
arguments, on every device that GPUMEM_TEST selects. A call must raise an exception unless it is
valid by arithmetic in Python, whose integers never overflow. Memory next to the memory of the call
must not change."""

import random
import sys

from python_util import GLib, Gpu, equal, main, need

SIZE = 4096
SMALL = (0, 1, 2, 3, 7, 8, 64, SIZE - 1, SIZE)
# All larger than the memory of any machine
HUGE = (2**61, 2**62, 2**63 - SIZE, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - SIZE, 2**64 - 8, 2**64 - 1)
SIZES = SMALL + (2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1) + HUGE
PITCHES = (0, 0, 0, 1, 1, 2, 4, 16, 64, 2**32, 2**63, 2**64 - 64, 2**64 - 1)
SIGNED = (0, 1, -1, 2, -2, 8, 2**31, 2**62, 2**63 - 1, -2**63, -2**63 + 1, -2**62)
REFUSALS = (GLib.Error, OverflowError, ValueError, TypeError, IndexError)


def choices(count, *pools):
    """Returns random arguments, which are the same in each run and on every device."""
    source = random.Random(str(pools))
    return [tuple(source.choice(pool) for pool in pools) for _ in range(count)]


def attempt(call, *arguments):
    """Returns the result of the call, or None if the call was rejected."""
    try:
        return call(*arguments)
    except REFUSALS:
        return None


def succeeds(call, *arguments):
    try:
        call(*arguments)
    except REFUSALS:
        return False
    return True


class Guarded:
    """A slice in the middle of a buffer, with guard bytes around it."""

    def __init__(self, fixture):
        self.whole = fixture.buffer(b"\xa5" * (3 * SIZE))
        self.buffer = self.whole.slice(SIZE, SIZE)
        self.stream = fixture.stream

    def check(self):
        data = bytes(self.whole.read())
        equal(data[:SIZE], b"\xa5" * SIZE, "bytes before the buffer")
        equal(data[2 * SIZE:], b"\xa5" * SIZE, "bytes after the buffer")


def test_ranges(fixture):
    guarded, other = Guarded(fixture), fixture.buffer(SIZE)
    buffer, stream = guarded.buffer, fixture.stream
    calls = {
        "slice": lambda offset, size: buffer.slice(offset, size),
        "read": lambda offset, size: buffer.read(offset, size),
        "fill": lambda offset, size: stream.fill(buffer, b"\1", offset, size),
        "copy": lambda offset, size: stream.copy(buffer, other, size, offset, 0),
        "copy from": lambda offset, size: stream.copy(other, buffer, size, 0, offset),
        "map": lambda offset, size: buffer.map(Gpu.MapFlags.READ, offset, size).unmap(),
    }
    for name, call in calls.items():
        for offset, size in choices(120, SIZES, SIZES):
            if succeeds(call, offset, size):
                assert offset + size <= SIZE, f"{name}: {size} bytes at {offset}"
    for offset in SIZES:
        if succeeds(buffer.write, b"abcd", offset):
            assert offset + 4 <= SIZE, f"write at {offset}"
    stream.synchronize()
    guarded.check()


def region_end(layout, extent):
    """Returns the end of a region, or None if the region is empty."""
    width, height, depth = extent
    row, pitch, x, y, z = layout
    row = row or width
    pitch = pitch or row * max(height, 1)
    if not width or not height or not depth:
        return None
    return x + y * row + z * pitch + (depth - 1) * pitch + (height - 1) * row + width


def make_layout(numbers):
    layout = Gpu.Layout()
    layout.row_pitch, layout.slice_pitch, layout.x, layout.y, layout.z = numbers
    return layout


def check_region(what, layout, extent, size):
    end = region_end(layout, extent)
    assert end is None or end <= size, f"{what}: {extent} at {layout} of {size} bytes"


def test_regions(fixture):
    guarded, other = Guarded(fixture), fixture.buffer(SIZE)
    buffer, stream = guarded.buffer, fixture.stream
    for numbers in choices(600, *[PITCHES] * 13):
        to, source, extent = numbers[:5], numbers[5:10], numbers[10:]
        if succeeds(stream.copy_region, buffer, other, extent, make_layout(to),
                    make_layout(source)):
            check_region("copy to", to, extent, SIZE)
            check_region("copy from", source, extent, SIZE)
        if succeeds(stream.write_region, buffer, bytes(256), extent, make_layout(to),
                    make_layout(source)):
            check_region("write", to, extent, SIZE)
            check_region("write from", source, extent, 256)
        if succeeds(stream.fill_region, buffer, b"\1", extent, make_layout(to)):
            check_region("fill", to, extent, SIZE)
        if succeeds(stream.read_region, buffer, extent, make_layout(to)):
            check_region("read", to, extent, SIZE)
    stream.synchronize()
    guarded.check()


def test_allocations(fixture):
    """Every function rejects sizes that exceed any memory, and leaves nothing allocated."""
    context, stream = fixture.context, fixture.stream
    pool = Gpu.MemoryPool(context)
    calls = {
        "Buffer": lambda size: Gpu.Buffer.new(context, Gpu.MemoryFlags.NONE, size),
        "HostMemory": lambda size: Gpu.HostMemory.new(context, Gpu.HostMemoryFlags.NONE, size),
        "Svm": lambda size: Gpu.Svm.new(context, Gpu.MemoryFlags.NONE, Gpu.SvmFlags(0), size, 0),
        "alloc": lambda size: pool.alloc(size, stream),
        "alloc_block": lambda size: pool.alloc_block(size, stream),
        "alloc_buffer": lambda size: pool.alloc_buffer(size, stream),
        "DType": Gpu.DType.new_record,
        "Array": lambda size: Gpu.Array.empty(context, (size, 2), "float64"),
    }
    for name, call in calls.items():
        for size in HUGE:
            if name == "DType" and size < 2**63:
                continue
            assert not succeeds(call, size), f"{name} of {size}"
        for size in SMALL:
            attempt(call, size)
    for size, alignment in choices(60, SMALL + HUGE, SIZES):
        memory = attempt(pool.alloc_block_aligned, size, alignment, stream)
        assert memory is None or size in SMALL, f"{size} bytes, aligned to {alignment}"
    equal(pool.active_bytes, 0, "active bytes")


def test_images(fixture):
    need(fixture, Gpu.Capabilities.IMAGES)
    context, none = fixture.context, Gpu.MemoryFlags.NONE
    kinds = list(Gpu.ImageType.__enum_values__.values())
    lengths = (0, 1, 1, 1, 2, 7, 64) + HUGE
    for kind in kinds:
        for extent in choices(60, lengths, lengths, lengths):
            image = attempt(Gpu.Image, context, "rgba-unorm8", extent, kind)
            assert image is None or max(extent) <= 64, f"{kind} of {extent}"
    plain = Gpu.Image(context, "rgba-unorm8", (8, 8, 1), Gpu.ImageType.IMAGE_2D)
    numbers = (0, 0, 1, 1, 2, 8, 2**31, 2**32) + HUGE
    for place in choices(200, *[numbers] * 6):
        at, extent = place[:3], place[3:]
        fits = all(a + b <= c for a, b, c in zip(at, extent, (8, 8, 1)))
        if succeeds(plain.read, at, extent):
            assert fits or 0 in extent, f"read of {extent} at {at}"
        if succeeds(fixture.stream.fill_image, plain, (1, 2, 3, 4), at, extent):
            assert fits or 0 in extent, f"fill of {extent} at {at}"
    for width, height, row, pitch in choices(100, lengths, lengths, PITCHES, PITCHES):
        image = attempt(Gpu.Image.new_from_bytes, context, none, "rgba-unorm8",
                        Gpu.ImageType.IMAGE_2D, (width, height, 1), GLib.Bytes.new(bytes(256)), row,
                        pitch)
        assert image is None or ((row or 4 * width) * (height - 1) + 4 * width <= 256), \
            f"{width} x {height} with the pitches {row}, {pitch} of 256 bytes"


def test_arrays(fixture):
    guarded = Guarded(fixture)
    for offset, *shape, first, second in choices(300, SIZES, SIGNED, SIGNED, SIGNED, SIGNED):
        array = attempt(Gpu.Array.for_memory, guarded.buffer, tuple(shape), "float32", offset,
                        (first, second))
        if array is None or 0 in shape:
            continue
        ends = [(length - 1) * stride for length, stride in zip(shape, (first, second))]
        least = offset + sum(min(end, 0) for end in ends)
        most = offset + sum(max(end, 0) for end in ends) + 4
        assert 0 <= least and most <= SIZE, f"{shape} at {offset}, strides {first}, {second}"
    array = Gpu.Array.empty(fixture.context, (4, 4), "float32")
    for start, stop, step in choices(150, SIGNED, SIGNED, SIGNED):
        part = attempt(lambda a, b, c: array[a:b:c], start, stop, step)
        equal(None if part is None else part.shape[0],
              len(range(4)[start:stop:step]) if step else None, f"[{start}:{stop}:{step}]")
    # An array without elements may have any strides
    empty = attempt(Gpu.Array.for_memory, guarded.buffer, (0, 3), "float32", 0, (1, 2**62))
    assert empty is None or empty[:, 2:0:-1].shape == (0, 2)
    for shape in choices(150, SIGNED, SIGNED, SIGNED):
        attempt(array.reshape, shape)
        attempt(Gpu.Array.broadcast_to, array, shape)
    guarded.check()


def test_launches(fixture):
    program = fixture.program()
    numbers = fixture.buffer(bytes(4 * SIZE))
    kernel = program.add
    limits = (0, 2**63, 2**64 - 1)
    for grid in choices(40, limits, limits, limits):
        assert not succeeds(fixture.stream.launch, kernel, grid, (1, 1, 1), (numbers, 1)), grid
    for block in choices(40, *[(0,) + HUGE] * 3):
        succeeds(fixture.stream.launch, kernel, (1, 1, 1), block, (numbers, 1))
    for size in HUGE:
        assert not succeeds(fixture.stream.launch, program.reverse, 1, 1,
                            (numbers, Gpu.Local(size))), size
    fixture.stream.launch(kernel, 1, 1, (numbers, 7))
    fixture.stream.synchronize()


if __name__ == "__main__":
    sys.exit(main(globals()))

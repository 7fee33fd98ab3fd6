# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory of the host from Python, over every device that GPUMEM_TEST chooses."""

import gc
import sys

from python_util import equal, main, need_numpy, np, raises
from gi.repository import GLib, Gpu

SIZE = 65536


def test_views(fixture):
    memory = Gpu.HostMemory(fixture.context, SIZE)
    equal(memory.size, SIZE)
    equal(len(memory), SIZE)
    assert "HostMemory" in repr(memory)
    memory.write(bytes(range(256)), 256)
    equal(memory.read(256, 256), bytes(range(256)))
    view = memory.view()
    view[:4] = b"abcd"
    equal(memory.read(0, 4), b"abcd")
    buffer = fixture.buffer(SIZE)
    fixture.stream.copy(buffer, memory)
    equal(buffer.read(0, 4), b"abcd")
    fixture.stream.fill(memory, 7)
    memory.synchronize(Gpu.MapFlags.READ)
    equal(bytes(view), b"\7" * SIZE)
    memory.release()
    equal(bytes(view[:4]), b"\7" * 4)
    with raises(Gpu.Error.RELEASED):
        memory.view()
    del memory
    gc.collect()
    equal(bytes(view), b"\7" * SIZE)


def test_numpy(fixture):
    need_numpy()
    with Gpu.HostMemory(fixture.context, 4 * 6) as memory:
        array = memory.to_numpy(np.float32, (2, 3))
        array[:] = [[1, 2, 3], [4, 5, 6]]
        equal(array.ctypes.data, memory.address)
        equal(np.asarray(memory).ctypes.data, memory.address)
        buffer = fixture.buffer(24)
        fixture.stream.copy(buffer, memory)
        equal(buffer.to_numpy(np.float32).tolist(), [1, 2, 3, 4, 5, 6])
        turned = memory.to_numpy(np.float32, (3, 2), order="F")
        equal(turned[1, 0], 2)
    equal(array.sum(), 21)


def test_buffers(fixture):
    memory = Gpu.HostMemory.new_aligned(fixture.context, 0, SIZE)
    equal(memory.address % 4096, 0)
    assert not memory.page_locked
    part = Gpu.Buffer.new_for_memory(memory, 1024, 4096)
    equal(part.memory, memory)
    assert part.parent is None
    part.fill(3)
    equal(memory.read(1023, 3)[1:], b"\3\3")


def test_registered(fixture):
    data = bytearray(b"x" * SIZE)
    buffer = fixture.buffer(b"y" * SIZE)
    with Gpu.HostMemory.registered(fixture.context, data) as memory:
        equal(memory.size, SIZE)
        fixture.stream.copy(memory, buffer)
        memory.synchronize()
        equal(data, b"y" * SIZE)
    assert memory.is_released()
    with raises(BufferError):
        Gpu.HostMemory.registered(fixture.context, bytes(10))
    with Gpu.HostMemory.registered(fixture.context, b"z" * SIZE,
                                   Gpu.HostMemoryFlags.READ_ONLY) as memory:
        assert memory.view().readonly
        fixture.stream.copy(buffer, memory)
        equal(buffer.read(0, 2), b"zz")
        with raises(Gpu.Error.INVALID_ARGUMENT):
            fixture.stream.copy(memory, buffer)


def test_pinned(fixture):
    need_numpy()
    first = np.arange(1000, dtype=np.int32)
    second = np.zeros(1000, dtype=np.int32)
    buffer = fixture.buffer(4000)
    with Gpu.pinned(fixture.context, first, second) as (source, target):
        fixture.stream.copy(buffer, source)
        fixture.stream.copy(target, buffer)
        target.synchronize()
    assert np.array_equal(first, second)
    with Gpu.pinned(fixture.context, first) as memory:
        equal(memory.to_numpy(np.int32).tolist(), first.tolist())


def test_allocator(fixture):
    allocator = Gpu.HostAllocator(fixture.context)
    memory = allocator.alloc(5000)
    equal((allocator.active_bytes, allocator.held_bytes), (8192, 0))
    address = memory.address
    memory.release()
    equal((allocator.active_bytes, allocator.held_bytes), (0, 8192))
    equal(allocator.alloc(8000).address, address)
    gc.collect()
    allocator.trim()
    equal(allocator.held_bytes, 0)


def test_errors(fixture):
    with raises(Gpu.Error.INVALID_ARGUMENT):
        Gpu.HostMemory(fixture.context, 0)
    memory = Gpu.HostMemory(fixture.context, 16)
    with raises(GLib.Error):
        memory.write(bytes(17))


if __name__ == "__main__":
    sys.exit(main(globals()))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Host memory from Python, on every device that GPUMEM_TEST selects."""

import contextlib
import gc
import sys
import threading
import time

from python_util import DEADLINE, equal, main, need_numpy, np, raises
from gi.overrides._gpumem import run_later
from gi.overrides._gpumem_native import fast
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


def test_numa_node(fixture):
    def alloc(context, size, numa_node):
        return Gpu.HostAllocator(context, numa_node=numa_node)(size)
    for kind in (Gpu.HostMemory, alloc):
        for node in (0, Gpu.NUMA_NODE_NONE, Gpu.NUMA_NODE_DEVICE):
            memory = kind(fixture.context, 1 << 22, numa_node=node)
            assert memory.numa_node >= Gpu.NUMA_NODE_NONE
            memory.write(b"abc")
            equal(memory.read(0, 3), b"abc")
        with raises(Gpu.Error.INVALID_ARGUMENT):
            kind(fixture.context, 1 << 22, numa_node=-3)
    equal(Gpu.HostAllocator(fixture.context, numa_node=0).numa_node, 0)


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
    with raises(ValueError, "read-only", "HostMemoryFlags.READ_ONLY"):
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


def try_append(data):
    """Appends to a bytearray, unless its memory is in use. Returns whether it did."""
    try:
        data.append(1)
    except BufferError:
        return False
    return True


def append(data):
    """Appends to a bytearray, as soon as its memory is released."""
    deadline = time.monotonic() + DEADLINE
    while not try_append(data):
        assert time.monotonic() < deadline, "the memory of the bytearray is still in use"


def test_released_objects(fixture):
    """The end of pinned() releases the objects, without another thread. Without the C module, a
    thread releases them later, after the functions that it was given before."""
    target, stream, go, waits = fixture.buffer(5000), fixture.stream, threading.Event(), []
    started = threading.Event()
    data = bytearray(5000)
    for number in range(50):
        with contextlib.suppress(ZeroDivisionError), Gpu.pinned(fixture.context, data) as memory:
            stream.copy(target, memory, 5000)
            stream.synchronize()
            1 / (number % 2)
        append(data)
    run_later(lambda *ignored: waits.append((started.set(), go.wait(DEADLINE))))
    assert started.wait(DEADLINE)
    run_later(lambda *ignored: waits.append(try_append(data)))
    with Gpu.pinned(fixture.context, data):
        pass
    equal(try_append(data), fast is not None)
    go.set()
    append(data)
    run_later(lambda *ignored: started.clear())
    while started.is_set():
        time.sleep(0.001)
    equal(waits, [(None, True), fast is not None])
    memory = Gpu.HostMemory.registered(fixture.context, data)
    del memory
    append(data)


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


def test_arrays(fixture):
    need_numpy()
    array = Gpu.HostMemory.empty(fixture.context, (3, 4), np.float32, "F")
    equal((array.shape, array.dtype, array.flags.f_contiguous), ((3, 4), np.float32, True))
    memory = Gpu.memory_of(array)
    assert isinstance(memory, Gpu.HostMemory)
    equal((memory.size, memory.address), (48, array.ctypes.data))
    assert Gpu.memory_of(memory) is memory
    equal(Gpu.memory_of(array.T), memory)
    array[:] = 5
    del memory
    gc.collect()
    equal(array.sum(), 60)
    flags = Gpu.HostMemoryFlags.PORTABLE
    zeros = Gpu.HostMemory.zeros(fixture.context, 7, flags=flags)
    equal((zeros.dtype, zeros.tolist()), (np.float64, [0] * 7))
    equal(Gpu.memory_of(zeros).host_flags, Gpu.HostMemory(fixture.context, 56, flags).host_flags)
    equal(Gpu.HostMemory.zeros(fixture.context, (), "i4").shape, ())
    pairs = Gpu.HostMemory.zeros(fixture.context, 4, [("a", "u1"), ("b", "f8")])
    equal(pairs["b"].tolist(), [0] * 4)
    with raises(ValueError):
        Gpu.HostMemory.empty(fixture.context, -1)
    with raises(TypeError, "Python objects"):
        Gpu.HostMemory.empty(fixture.context, 5, object)


def test_arrays_like(fixture):
    need_numpy()
    model = np.zeros((4, 3, 2), np.int16).transpose(2, 0, 1)
    for like in (Gpu.HostMemory.empty_like, Gpu.HostMemory.zeros_like):
        array = like(fixture.context, model)
        equal((array.shape, array.strides, array.dtype),
              (model.shape, np.empty_like(model).strides, np.int16))
    assert not array.any()
    array = Gpu.HostMemory.empty_like(fixture.context, model, "f8", "C", (2, 5))
    equal((array.shape, array.strides, array.dtype), ((2, 5), (40, 8), np.float64))
    equal(Gpu.HostMemory.zeros_like(fixture.context, [1, 2]).tolist(), [0, 0])


def test_arrays_aligned(fixture):
    need_numpy()
    for alignment, multiple in ((0, 4096), (1 << 16, 1 << 16)):
        array = Gpu.HostMemory.zeros(fixture.context, (2, 2), alignment=alignment)
        equal(array.ctypes.data % multiple, 0)
        assert not Gpu.memory_of(array).page_locked
    equal(Gpu.HostMemory.empty_like(fixture.context, array, alignment=0).shape, (2, 2))
    with raises(ValueError, "alignment"):
        Gpu.HostMemory.empty(fixture.context, 1, flags=Gpu.HostMemoryFlags.PORTABLE, alignment=64)
    with raises(Gpu.Error.INVALID_ARGUMENT, "3"):
        Gpu.HostMemory.empty(fixture.context, 1, alignment=3)


def test_arrays_copied(fixture):
    need_numpy()
    stream = fixture.stream
    source = Gpu.HostMemory.empty(fixture.context, (10, 100), np.int32)
    target = Gpu.HostMemory.zeros_like(fixture.context, source)
    source[:] = np.arange(1000).reshape(10, 100)
    buffer = fixture.buffer(4000)
    stream.copy(buffer, source)
    stream.copy(target[3:], buffer, 400, source_offset=1200)
    stream.copy(target[1], source[9])
    stream.fill(target[2, 5:], 1, size=4)
    stream.synchronize()
    equal(target[3].tolist(), source[3].tolist())
    equal(target[1].tolist(), source[9].tolist())
    equal(target[2, 4:7].tolist(), [0, 0x01010101, 0])
    assert not target[4:].any() and not target[0].any()
    buffer.copy(target[1], offset=8)
    equal(buffer.to_numpy(np.int32)[1:4].tolist(), [1, 900, 901])
    stream.copy_region(target, source, (40, 10), (0, 0, 0, 400), (0, 0, 0, 400))
    stream.synchronize()
    assert np.array_equal(target[:, :10], source[:, :10])
    with raises(ValueError, "400 bytes"):
        stream.copy(target[3], buffer)
    with raises(ValueError, "offset 404"):
        stream.copy(buffer, target[3], source_offset=404)
    with raises(ValueError, "contiguous"):
        stream.copy(buffer, target[:, 1])
    with raises(TypeError, "ndarray"):
        stream.copy(buffer, np.zeros(10))


def test_arrays_parts(fixture):
    need_numpy()
    array = Gpu.HostMemory.zeros(fixture.context, 4096, np.uint8)
    start = fixture.device.base_alignment
    part = Gpu.memory_of(array[start:start + 100])
    assert isinstance(part, Gpu.Buffer)
    equal((part.offset, part.size, part.memory), (start, 100, Gpu.memory_of(array)))
    part.fill(3)
    equal((array.sum(), array[start]), (300, 3))
    equal(Gpu.memory_of(array[:10].view(np.uint16)).size, 10)
    equal(Gpu.memory_of(np.asarray(part.memory)), part.memory)
    empty = Gpu.HostMemory.zeros(fixture.context, (0, 3))
    equal(empty.tolist(), [])
    for wrong in (empty, array[5:5]):
        with raises(ValueError, "no bytes"):
            Gpu.memory_of(wrong)
    for wrong in (array * 2, np.zeros(3), b"abc", None):
        with raises(TypeError):
            Gpu.memory_of(wrong)
    Gpu.memory_of(array).release()
    equal(array.sum(), 300)
    for wrong in (array, array[start:]):
        with raises(Gpu.Error.RELEASED):
            fixture.stream.fill(wrong, 1)


def test_arrays_launched(fixture):
    need_numpy()
    program = fixture.program()
    try:
        array = Gpu.HostMemory.empty(fixture.context, 1000, np.float32,
                                     flags=Gpu.HostMemoryFlags.MAPPED)
    except GLib.Error as error:
        assert error.matches(Gpu.error_quark(), Gpu.Error.NOT_SUPPORTED)
        return
    array[:] = np.arange(1000)
    start = fixture.device.base_alignment // 4
    fixture.stream.launch(program.scale, 1000, args=(array, 2.0))
    fixture.stream.launch(program.scale, 10, args=(array[start:start + 10], 2.0))
    fixture.stream.synchronize()
    expected = 2 * np.arange(1000)
    expected[start:start + 10] *= 2
    equal(array.tolist(), expected.tolist())
    null = fixture.buffer(4)
    program.is_null(fixture.stream, 1, 1, null, array[:0])
    equal(null.read(), b"\1\0\0\0")


def test_errors(fixture):
    with raises(Gpu.Error.INVALID_ARGUMENT):
        Gpu.HostMemory(fixture.context, 0)
    memory = Gpu.HostMemory(fixture.context, 16)
    with raises(GLib.Error):
        memory.write(bytes(17))


if __name__ == "__main__":
    sys.exit(main(globals()))

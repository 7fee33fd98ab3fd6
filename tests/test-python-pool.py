# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pools from Python, on every device that GPUMEM_TEST selects: buffers and blocks of every kind of
pool, which the garbage collector or the program frees at difficult moments."""

import ctypes
import gc
import random
import sys
import threading
import weakref

from python_util import (BufferAllocator, Skip, equal, main, need, need_numpy, np, raises,
                         run_threads, spin)
from gi.repository import GObject, Gpu

KINDS = (Gpu.MemoryPoolKind.EXPANDABLE, Gpu.MemoryPoolKind.SEGMENTS, Gpu.MemoryPoolKind.BINS)
BINS = Gpu.MemoryPoolKind.BINS

SOURCE = """
__kernel void
add_at (ulong address, uint summand)
{
  __global uint *numbers = (__global uint *) address;

  numbers[get_global_id (0)] += summand;
}
"""


def pools(fixture):
    """Yields a pool of the automatic kind, and of each kind that the device supports."""
    yield Gpu.MemoryPool(fixture.context)
    n = 0
    for kind in KINDS:
        try:
            pool = Gpu.MemoryPool(fixture.context, kind)
        except Exception as error:
            assert error.matches(Gpu.error_quark(), Gpu.Error.NOT_SUPPORTED), error
            equal(kind, Gpu.MemoryPoolKind.EXPANDABLE)
            continue
        equal(pool.kind, kind)
        n += 1
        yield pool
    assert n >= 2


def block_pools(fixture):
    """Yields the pools that have blocks."""
    if fixture.device.capabilities & Gpu.Capabilities.SUB_BUFFERS:
        with raises(Gpu.Error.NOT_SUPPORTED, "no device addresses"):
            Gpu.MemoryPool(fixture.context).alloc_block(10)
        raise Skip(f"{fixture.device.id} has no device addresses")
    for pool in pools(fixture):
        if pool.kind == BINS:
            with raises(Gpu.Error.NOT_SUPPORTED, "no device addresses"):
                pool.alloc_block(10)
        else:
            yield pool


def collect():
    for i in range(2):
        gc.collect()


def check_data(fixture, pool):
    """Adjacent buffers keep their own content. Every method that allocates returns a buffer."""
    buffers = []
    for number, size in enumerate((1, 511, 512, 513, 70000, 1 << 20), 1):
        take = (pool, pool.allocate, pool.alloc_buffer, pool.alloc_buffer)[number % 4]
        buffer = take(size, fixture.stream) if number % 2 else take(size)
        assert isinstance(buffer, Gpu.Buffer), buffer
        equal((buffer.size, buffer.context), (size, fixture.context))
        fixture.stream.fill(buffer, number)
        buffers.append(buffer)
    for number, buffer in enumerate(buffers, 1):
        equal(buffer.read(), bytes([number]) * buffer.size)
    equal(pool.active_blocks, len(buffers))
    equal(pool.active_bytes, sum(buffer.size for buffer in buffers))
    assert pool.managed_bytes >= pool.used_bytes >= pool.active_bytes


def test_released_buffers(fixture):
    """The Python wrapper may be freed after its memory was returned to the pool and reused."""
    for pool in pools(fixture):
        for i in range(50):
            buffer = pool.alloc_buffer(4096)
            buffer.write(bytes([i]) * 4096)
            buffer.release()
            with raises(Gpu.Error.RELEASED):
                buffer.read()
            del buffer
            other = pool.alloc_buffer(4096)
            other.write(bytes([i + 1]) * 4096)
            equal(other.read(), bytes([i + 1]) * 4096)
            del other
        equal(pool.active_bytes, 0)


def test_data(fixture):
    for pool in pools(fixture):
        check_data(fixture, pool)
        collect()
        equal((pool.active_blocks, pool.active_bytes), (0, 0))
        assert pool.held_blocks > 0
        fixture.context.synchronize()
        pool.free_held()
        equal((pool.held_blocks, pool.managed_bytes), (0, 0))


def test_nothing(fixture):
    for pool in pools(fixture):
        for take in pool, pool.allocate, pool.alloc_buffer:
            assert take(0) is None and take(0, fixture.stream) is None
        equal((pool.n_allocs, pool.managed_bytes), (0, 0))
        for wrong in -1, 1 << 64:
            with raises(OverflowError):
                pool(wrong)
        with raises(TypeError):
            pool("many")
        with raises(TypeError):
            pool.alloc_buffer(10, fixture.context)
    stranger = Gpu.Context(fixture.device).default_stream
    if stranger.context is not fixture.context:
        with raises(Gpu.Error.INVALID_ARGUMENT, "another context"):
            Gpu.MemoryPool(fixture.context)(10, stranger)


class Label(GObject.Object):
    value = GObject.Property(type=GObject.TYPE_UINT64)


def test_binding(fixture):
    """A property of another object follows a counter of the pool."""
    pool, label = Gpu.MemoryPool(fixture.context), Label()
    pool.bind_property("active-blocks", label, "value", GObject.BindingFlags.DEFAULT)
    pool.props.notify_interval = 1
    buffer = pool(1000)
    spin(lambda: label.value == 1)
    del buffer
    fixture.context.synchronize()
    spin(lambda: label.value == 0)


def test_peak_of_threads(fixture):
    """Blocks that another thread has freed to its thread cache do not count towards the peak."""
    pool = Gpu.MemoryPool(fixture.context)

    def take_and_drop():
        pool(1 << 20, fixture.stream)

    take_and_drop()
    for _ in range(3):
        thread = threading.Thread(target=take_and_drop)
        thread.start()
        thread.join()
    equal(pool.peak_active_bytes, 1 << 20)
    held = [pool(1 << 20, fixture.stream) for _ in range(3)]
    equal(pool.peak_active_bytes, 3 << 20)
    del held
    fixture.context.synchronize()


def test_numpy(fixture):
    need_numpy()
    for pool in pools(fixture):
        arrays = [np.random.default_rng(n).integers(0, 1 << 30, n) for n in (1, 1000, 100000)]
        buffers = [pool.alloc_buffer(array.nbytes) for array in arrays]
        for buffer, array in zip(buffers, arrays):
            buffer.write(array)
        for buffer, array in zip(buffers, arrays):
            assert np.array_equal(buffer.to_numpy(array.dtype), array)
        assert pool.alloc_buffer(np.empty(0).nbytes) is None
        equal(pool(np.int64(100)).size, 100)


def test_reuse(fixture):
    """Dropping the last reference frees the memory, even while pending work uses it."""
    for pool in pools(fixture):
        handles = {pool(5000).native_handle}
        managed = pool.managed_bytes
        for number in range(200):
            buffer = pool(5000)
            fixture.stream.fill(buffer, number)
            handles.add(buffer.native_handle)
            copy = pool(5000)
            fixture.stream.copy(copy, buffer)
            del buffer
            equal(copy.read(), bytes([number]) * 5000)
            del copy
        assert pool.managed_bytes <= 3 * managed
        if fixture.device.backend != "opencl":
            assert len(handles) <= 3, handles
        with pool(100) as buffer:
            equal(pool.active_blocks, 1)
        equal((buffer.released, pool.active_blocks), (True, 0))


def test_attributes(fixture):
    """The next buffer with the same memory does not have the Python attributes of the previous
    buffer."""
    class Token:
        pass

    for pool in pools(fixture):
        for i in range(10):
            buffer = pool(100)
            assert not hasattr(buffer, "token")
            buffer.token = Token()
            gone = weakref.ref(buffer.token)
            called = []
            buffer.connect("released", lambda *args: called.append(args))
            del buffer
            collect()
            assert gone() is None
        buffer = pool(100)
        buffer.me = buffer                      # a reference cycle for the collector
        equal(pool.active_blocks, 1)
        del buffer
        collect()
        equal(pool.active_blocks, 0)


def test_blocks(fixture):
    for pool in block_pools(fixture):
        with pool.alloc_block(1000) as block:
            equal((block.size, len(block), int(block)), (1000, 1000, block.address))
            assert block.address % 512 == 0 and hex(block) == hex(block.address)
            equal((pool.active_blocks, pool.active_bytes, block.freed), (1, 1000, False))
            address = block.address
        equal((pool.active_blocks, block.freed), (0, True))
        again = pool.alloc_block(1000)
        equal(again.address, address)
        for use in (block.free, block.get_size, block.get_address, block.ref, block.copy,
                    lambda: int(block), lambda: len(block), lambda: block.size,
                    lambda: pool.free(block), lambda: block.__enter__(),
                    lambda: block.add_stream(fixture.stream)):
            with raises(Gpu.Error.RELEASED, "freed"):
                use()
        equal(repr(block), "<Gpu.MemoryBlock freed>")
        equal((pool.active_blocks, again.address), (1, address))
        pool.free(again)
        equal(pool.active_blocks, 0)
        with pool.alloc_block(10) as block:
            block.free()
        with raises(ZeroDivisionError):
            with pool.alloc_block(10):
                1 / 0
        equal(pool.active_blocks, 0)
        assert pool.alloc_block(0) is None
        with raises(TypeError):
            Gpu.MemoryBlock()
        block = pool.alloc_block_aligned(100, 1 << 16)
        equal(block.address % (1 << 16), 0)
        with raises(Gpu.Error.INVALID_ARGUMENT, "power of two"):
            pool.alloc_block_aligned(100, 1000)


def test_collected_blocks(fixture):
    """A block is freed when it is collected, unless another reference keeps it alive."""
    for pool in block_pools(fixture):
        block = pool.alloc_block(3000)
        address = block.address
        other = block.ref()
        block.free()
        equal((pool.active_blocks, other.address, other.size), (1, address, 3000))
        del block, other
        collect()
        equal(pool.active_blocks, 0)
        equal(pool.alloc_block(3000).address, address)

        blocks = pool.alloc_blocks([10, 2000, 30000])
        equal([block.size for block in blocks], [10, 2000, 30000])
        equal(pool.active_blocks, 3)
        del blocks[1]
        equal(pool.active_blocks, 2)
        blocks[0].free()
        blocks.append(blocks)
        del blocks
        collect()
        equal(pool.active_blocks, 0)

        block = pool.alloc_block(10)                  # keeps the pool's resources alive
        del pool
        collect()
        assert block.address != 0
        block.free()


def test_block_arguments(fixture):
    """A block can be passed to a kernel as its address."""
    need(fixture, Gpu.Capabilities.SOURCE)
    stream = fixture.new_stream()
    for pool in block_pools(fixture):
        kernel = Gpu.Program(fixture.context, SOURCE).add_at
        buffer = pool.alloc_buffer(4096, stream)
        address = buffer.device_address
        stream.fill(buffer, 0)
        stream.synchronize()
        del buffer
        with pool.alloc_block(4096, stream) as block:
            equal(block.address, address)
            stream.launch(kernel, 1024, args=(block, 7))
            stream.launch(kernel, 1024, args=(int(block), 5))
            block.free(stream)
        with raises(Gpu.Error.RELEASED):
            stream.launch(kernel, 1024, args=(block, 7))
        buffer = pool.alloc_buffer(4096, stream)
        equal(buffer.device_address, address)
        equal(buffer.read(stream=stream), (12).to_bytes(4, sys.byteorder) * 1024)


def test_block_streams(fixture):
    """A block that two streams use is reused after the work of both, in either order."""
    for pool in block_pools(fixture):
        for n in range(3):
            one, other = fixture.new_stream(), fixture.new_stream()
            gate = fixture.gate(one, must_hold=False)
            block = pool.alloc_block(5000, one)
            address = block.address
            if n == 0:
                block.free(other)
            elif n == 1:
                block.add_stream(other)
                block.free()
            else:
                kept = block.ref()
                pool.free(block, other)
                del kept
            equal(pool.active_blocks, 0)
            block = pool.alloc_block(5000, other)
            end = other.record()
            if gate.holds and block.address == address:
                equal(end.query(), Gpu.EventStatus.PENDING)
            gate.complete()
            end.wait()
            block.free()
            fixture.context.synchronize()
            pool.free_held()


def test_bins(fixture):
    """Each size has a bin of sufficient size, and the waste is within the bound of
    "leading-bits"."""
    for bits in 0, 2, 4, 8:
        allocator = Gpu.ImmediateAllocator(fixture.stream)
        pool = Gpu.MemoryPool.new_for_allocator(allocator, BINS, bits)
        equal((pool.leading_bits, pool.allocator), (bits, allocator))
        random.seed(bits)
        sizes = {1, 2, 3} | {(1 << i) + j for i in range(2, 40) for j in (-1, 0, 1)}
        sizes |= {int(2 ** random.uniform(0, 40)) for i in range(500)}
        before = -1
        for size in sorted(sizes):
            number = pool.bin_number(size)
            capacity = pool.alloc_size(number)
            assert size <= capacity, (size, number, capacity)
            assert capacity <= size * (1 + 2 ** -bits), (size, number, capacity)
            equal(pool.bin_number(capacity), number)
            if number > 0:
                assert pool.alloc_size(number - 1) < size
            assert number >= before
            before = number
    equal(Gpu.MemoryPool.new_for_allocator(allocator).leading_bits, 4)
    with raises(Gpu.Error.INVALID_ARGUMENT, "11"):
        Gpu.MemoryPool.new_for_allocator(allocator, BINS, 11)


def test_mempool(fixture):
    """Ten buffers of each size are live at a time. Many requests do not allocate more memory than
    these buffers need."""
    pool = Gpu.MemoryPool.new_for_allocator(Gpu.ImmediateAllocator(fixture.stream), BINS)
    for exponent in 6, 7:
        live = []
        for i in range(100):
            live.append(pool.allocate(1 << exponent))
            if len(live) > 10:
                live.pop(0)
        equal(pool.active_blocks, 10)
        del live[:]
        fixture.stream.synchronize()
    equal(pool.active_blocks, 0)
    equal((pool.held_blocks, pool.n_growths), (22, 22))
    pool.stop_holding()
    equal((pool.held_blocks, pool.managed_bytes), (0, 0))
    buffer = pool(64)
    del buffer
    fixture.stream.synchronize()
    equal((pool.held_blocks, pool.managed_bytes), (0, 0))


def test_statistics(fixture):
    for pool in pools(fixture):
        buffers = [pool(size) for size in (100, 200, 300)]
        buffers.pop(1)
        figures = pool.statistics
        equal((figures["active-blocks"], figures["active-bytes"], figures["peak-active-bytes"],
               figures["n-allocs"], figures["n-frees"]), (2, 400, 600, 3, 1))
        for name, value in figures.items():
            equal(getattr(pool, name.replace("-", "_")), value, name)
        segments = pool.snapshot()
        assert isinstance(segments, list)
        blocks = [block for segment in segments for block in segment["blocks"]]
        active = [block for block in blocks if block["state"] == "active"]
        equal(sorted(block["requested"] for block in active), [100, 300])
        equal(sum(block["size"] for block in blocks if block["state"] != "unmapped"),
              pool.managed_bytes)
        equal(sum(block["size"] for block in active), pool.used_bytes)
        pool.limit = 1 << 30
        pool.soft_limit = 1 << 29
        pool.release_threshold = 1 << 20
        pool.fragmentation_target = 0.5
        equal((pool.limit, pool.soft_limit, pool.release_threshold, pool.fragmentation_target),
              (1 << 30, 1 << 29, 1 << 20, 0.5))
        with raises(AttributeError):
            pool.active_bytes = 0
        pool.reset_peaks()
        equal(pool.peak_active_bytes, 400)
        equal(pool.peak_managed_bytes, pool.managed_bytes)


def test_limit_of_constructor(fixture):
    """The constructor sets the limit of the pool, which then refuses to grow beyond it."""
    pool = Gpu.MemoryPool(fixture.context, limit=4 << 20)
    equal(pool.limit, 4 << 20)
    with pool(1 << 20) as buffer:
        equal(buffer.size, 1 << 20)
    with raises(Gpu.OutOfDeviceMemoryError, "the limit is 4194304 bytes"):
        pool(8 << 20)
    equal(Gpu.MemoryPool(fixture.context, Gpu.MemoryPoolKind.BINS, limit=100).limit, 100)
    for limit in 0, None:
        equal(Gpu.MemoryPool(fixture.context, limit=limit).limit, 0)
    with raises(TypeError, "context must be of type Gpu.Context, not Gpu.HostAllocator",
                "Gpu.MemoryPool.new_for_allocator()"):
        Gpu.MemoryPool(Gpu.HostAllocator(fixture.context))
    with raises(ValueError, "limit must be 0 to", "-1"):
        Gpu.MemoryPool(fixture.context, limit=-1)
    for limit in 1.5, 0.0, False, True, "1":
        with raises(TypeError, f"limit must be of type int, not {limit!r}"):
            Gpu.MemoryPool(fixture.context, limit=limit)


def check_out_of_memory(fixture, pool):
    """The handler of "out-of-memory" collects a reference cycle, so that the request succeeds."""
    pool.limit = 4 << 20
    hoard = [[pool(3 << 20)]]
    sizes = []

    def make_room(which, size):
        assert which is pool
        sizes.append(size)
        if not hoard:
            return False
        cycle = hoard.pop()
        cycle.append(cycle)
        del cycle
        collect()
        return True

    handler = pool.connect("out-of-memory", make_room)
    fixture.stream.fill(hoard[0][0], 1)
    buffer = pool(2 << 20)
    fixture.stream.fill(buffer, 9)
    equal(buffer.read(), b"\x09" * (2 << 20))
    equal((len(sizes), pool.active_blocks), (1, 1))
    assert sizes[0] >= 2 << 20
    with raises(Gpu.Error.OUT_OF_DEVICE_MEMORY, str(4 << 20) if pool.kind == BINS else ""):
        pool(3 << 20)
    assert len(sizes) >= 2 and pool.n_refused == 1
    pool.disconnect(handler)
    del buffer
    equal(pool(3 << 20).size, 3 << 20)


def test_out_of_memory(fixture):
    for pool in pools(fixture):
        check_out_of_memory(fixture, pool)


def work(pool, stream, seed):
    """Allocates, writes, reads and drops buffers. Some of them are in reference cycles, which the
    garbage collector frees on any thread."""
    chooser = random.Random(seed)
    live = []
    for i in range(150):
        size = chooser.randint(1, 20000)
        buffer = pool(size, stream)
        stream.fill(buffer, seed)
        live.append(buffer)
        if len(live) > 8:
            buffer = live.pop(chooser.randrange(len(live)))
            equal(buffer.read(stream=stream), bytes([seed]) * buffer.size)
            if i % 3 == 0:
                buffer.cycle = buffer
            del buffer
        if i % 40 == 0:
            gc.collect()


class Hooks(ctypes.Structure):
    """The first members of GpuPoolHooks."""
    _fields_ = [("version", ctypes.c_uint), ("pool", ctypes.c_void_p),
                ("alloc", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t,
                                           ctypes.c_void_p, ctypes.c_void_p)),
                ("free", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64,
                                          ctypes.c_void_p))]


def test_hooks(fixture):
    """The hooks are an address, through which C code allocates memory."""
    for pool in pools(fixture):
        if pool.hooks is None:
            assert pool.kind == BINS or fixture.device.backend == "opencl"
            continue
        assert type(pool.hooks) is int and pool.hooks == pool.hooks > 4096
        hooks = Hooks.from_address(pool.hooks)
        equal(hooks.version, 1)
        address = hooks.alloc(hooks.pool, 1000, None, None)
        equal((pool.active_bytes, pool.active_blocks), (1000, 1))
        equal(hooks.free(hooks.pool, address, None), 1)
        equal(pool.active_bytes, 0)
    with raises(AttributeError, "hooks"):
        pool.hooks = 5


def test_threads(fixture):
    for pool in pools(fixture):
        run_threads(4, lambda number: work(pool, fixture.new_stream(), number + 1))
        collect()
        spin(lambda: gc.collect() is not None and pool.active_blocks == 0)
        equal(pool.n_allocs, 600)
        equal(pool.n_frees, 600)


def test_block_threads(fixture):
    """If threads free a block at the same time, one thread frees the block, and the other threads
    get an error."""
    for pool in block_pools(fixture):
        blocks = [pool.alloc_block(100 * n) for n in range(1, 301)]
        barrier = threading.Barrier(4)
        freed = []

        def free_all(number):
            barrier.wait()
            for block in blocks:
                try:
                    block.free()
                    freed.append(block)
                except Exception as error:
                    assert error.matches(Gpu.error_quark(), Gpu.Error.RELEASED), error

        run_threads(4, free_all)
        equal((len(freed), pool.active_blocks, pool.n_frees), (300, 0, 300))


def test_free_foreign(fixture):
    """A pool refuses to free memory of another pool or of none, and does not release it."""
    pool, other = Gpu.MemoryPool(fixture.context, BINS), Gpu.MemoryPool(fixture.context, BINS)
    buffer, part, alone = pool(64), pool(4096).slice(1024, 64), fixture.buffer(bytes(range(32)))
    svm = []
    if fixture.device.capabilities & Gpu.Capabilities.SVM_COARSE:
        svm = [Gpu.Svm(fixture.context, 64)]
    equal((buffer.pool, part.pool), (pool, pool))
    equal(alone.pool, None)
    for memory in [buffer, part, alone, *svm]:
        owner = "no pool" if memory in [alone, *svm] else repr(pool)
        with raises(ValueError, f"{memory!r} is not memory of {other!r}, but of {owner}"):
            other.free(memory)
        assert not memory.released
    equal(alone.read(), bytes(range(32)))
    for memory in part, buffer:
        pool.free(memory)
        assert memory.released
        equal(memory.pool, None)
        for again in pool, other:               # as releasing it again does
            again.free(memory)
    last = Gpu.MemoryPool(fixture.context, BINS)(64)
    gc.collect()
    equal(last.pool, None)


def test_free_block(fixture):
    """free_block() frees a block while the program refers to it. A pool refuses the block of
    another pool, and a stream of another context, and loses no block."""
    pool, other = Gpu.MemoryPool(fixture.context), Gpu.MemoryPool(fixture.context)
    stream = Gpu.Stream(Gpu.Context(fixture.device))
    try:
        block = pool.alloc_block(1000)
    except Gpu.NotSupportedError:
        raise Skip(f"{fixture.device.id} has no blocks") from None
    with raises(ValueError, "MemoryPool.free_block: ", "1000 bytes", "another pool"):
        other.free_block(block)
    with raises(ValueError, "MemoryPool.free_block: ", "context"):
        pool.free_block(block, stream)
    equal((pool.active_blocks, block.freed, block.size), (1, False, 1000))
    del block
    equal(pool.active_blocks, 0)
    block = pool.alloc_block(1000)
    pool.free_block(block, fixture.stream)
    equal((pool.active_blocks, block.freed), (0, True))
    with raises(Gpu.ReleasedError):
        pool.free_block(block)
    pool.free_block(None)
    with raises(TypeError, "block must be of type Gpu.MemoryBlock"):
        pool.free_block(3)


def test_python_allocator(fixture):
    """Allocates from a pool on top of an adaptor, and from an adaptor on top of a pool."""
    statistics = Gpu.StatisticsAllocator(Gpu.ImmediateAllocator(fixture.stream))
    pool = Gpu.MemoryPool.new_for_allocator(statistics, BINS)
    tracking = Gpu.TrackingAllocator(pool)
    for i in range(10):
        memory = tracking(1000)
        fixture.stream.fill(memory, i)
        equal(memory.read(), bytes([i]) * 1000)
        tracking.free(memory)
        del memory
        fixture.stream.synchronize()
    assert statistics.total_count <= 2
    equal(tracking.blocks, [])
    pool.trim()
    equal((statistics.current_bytes, pool.managed_bytes), (0, 0))


def test_growth_and_collection(fixture):
    """Frees blocks while another thread makes the pool grow, is in the Python allocator and waits
    for the interpreter lock."""
    if fixture.device.capabilities & Gpu.Capabilities.SUB_BUFFERS:
        raise Skip(f"{fixture.device.id} has no device addresses")
    pool = Gpu.MemoryPool.new_for_allocator(BufferAllocator(fixture.context),
                                            Gpu.MemoryPoolKind.SEGMENTS)
    pool.stop_holding()

    def take_and_free(number):
        stream = fixture.new_stream()
        for i in range(100):
            blocks = [pool.alloc_block((1 << 20) * (1 + (i + k) % 5), stream) for k in range(3)]
            blocks.pop().free()
            del blocks

    run_threads(3, take_and_free)
    equal((pool.active_blocks, pool.n_frees), (0, 900))
    fixture.context.synchronize()
    pool.trim()
    equal((pool.held_blocks, pool.managed_bytes), (0, 0))


def test_pool_gone(fixture):
    """Buffers outlive their pool and keep their data."""
    for kind in range(4):
        pool = list(pools(fixture))[-1 - kind % 2]
        buffer = pool(10000)
        fixture.stream.fill(buffer, 5)
        del pool
        collect()
        equal(buffer.read(), b"\5" * 10000)


def plain_address():
    """A block converts to its address where Python expects an integer."""
    try:
        context = Gpu.Context("host")
    except Exception:
        raise Skip("there is no host device")
    with Gpu.MemoryPool(context).alloc_block(16) as block:
        ctypes.memset(int(block), 3, 16)
        equal(ctypes.string_at(block.address, 16), b"\3" * 16)


if __name__ == "__main__":
    sys.exit(main(globals()))

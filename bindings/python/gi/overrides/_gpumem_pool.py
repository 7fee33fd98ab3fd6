# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pools, which are callable in Python as all allocators are, and their blocks, which a with
statement frees."""

from gi.repository import GObject

from ..module import get_introspection_module
from ._gpumem_checks import checked, describe
from ._gpumem_errors import ReleasedError

Gpu = get_introspection_module("Gpu")


class MemoryBlockMethods:
    """A range of memory in a pool, with an address and a size. free(), the end of a with statement
    or the release of the last reference frees the block. int(block) is the address. As a kernel
    argument a block passes its address, for a pointer or a ulong parameter.

    All methods of a freed block raise Gpu.ReleasedError."""
    _freed = False

    @property
    def freed(self) -> bool:
        """Whether the block was freed."""
        return self._freed

    def _check(self):
        if self.freed:
            raise ReleasedError("the block was already freed")

    def free(self, stream=None):
        """Frees the block. The pool reuses the memory after the work submitted so far to the stream
        of the allocation, to the added streams, and to this stream."""
        self._check()
        if stream is not None:
            Gpu.MemoryBlock.add_stream(self, stream)
        self._freed = True
        self._clear_boxed()

    unref = free

    def copy(self):
        """Returns another reference, which is freed separately."""
        self._check()
        return super().copy()

    ref = copy

    def get_address(self):
        """Gets the device address of the block."""
        self._check()
        return Gpu.MemoryBlock.get_address(self)

    def get_size(self):
        """Gets the size of the block in bytes."""
        self._check()
        return Gpu.MemoryBlock.get_size(self)

    def add_stream(self, stream):
        """Adds a stream whose work uses the block."""
        self._check()
        Gpu.MemoryBlock.add_stream(self, stream)

    address = property(get_address)
    size = property(get_size)

    __index__ = __int__ = get_address
    __len__ = get_size
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __bool__(self):
        return True

    def __enter__(self):
        self._check()
        return self

    def __exit__(self, *exception):
        if not self.freed:
            self.free()

    def __repr__(self):
        if self.freed:
            return "<Gpu.MemoryBlock freed>"
        return f"<Gpu.MemoryBlock of {self.get_size()} bytes at 0x{self.get_address():x}>"


class MemoryPoolMethods:
    """Gpu.MemoryPool(context, kind, flags, limit=None): an allocator that caches freed memory. The
    limit counts the bytes in use and the cached bytes; None or 0 is no limit. pool(size),
    pool.allocate(size) and pool.alloc_buffer(size) return a buffer, pool.alloc_block(size) returns
    a Gpu.MemoryBlock; all return None for a size of 0. "with pool:" is short for "with
    Gpu.using_allocator(pool):". The end of the statement does not return cached memory to the
    driver: call trim().

    All statistics are attributes, such as managed_bytes, and entries of the dictionary statistics,
    whose keys have hyphens, such as "managed-bytes"."""

    def __new__(cls, context, kind=Gpu.MemoryPoolKind.AUTOMATIC, flags=Gpu.MemoryFlags.NONE, *,
                limit=None):
        if isinstance(context, Gpu.Allocator):
            raise TypeError(f"context must be of type Gpu.Context, not {describe(context)}: "
                            "Gpu.MemoryPool.new_for_allocator() creates a pool over an allocator")
        pool = Gpu.MemoryPool.new(context, kind, flags)
        if limit is not None:
            pool.limit = limit
        return pool

    def __init__(self, *args, **kwargs):
        pass

    @classmethod
    def new(cls, context, kind=Gpu.MemoryPoolKind.AUTOMATIC, flags=Gpu.MemoryFlags.NONE):
        """Creates a pool that allocates from the driver."""
        return Gpu.MemoryPool.new(context, kind, flags)

    @classmethod
    def new_for_allocator(cls, allocator, kind=Gpu.MemoryPoolKind.AUTOMATIC, leading_bits=4):
        """Creates a pool that allocates from an allocator."""
        return Gpu.MemoryPool.new_for_allocator(allocator, kind, leading_bits)

    def free(self, memory, stream=None):
        """Frees a block, in the pool that allocated it, or releases memory of this pool. Raises
        ValueError for memory of another pool or allocator. Does nothing for released memory. The
        pool of a block is not checked."""
        if isinstance(memory, Gpu.MemoryBlock):
            memory.free(stream)
            return
        if isinstance(memory, Gpu.Memory):
            owner = memory.pool
            # Memory has no pool once it is released, maybe by another thread just now.
            if owner is not self and not memory.is_released():
                raise ValueError(f"MemoryPool.free: {memory} is not memory of {self}, but of "
                                 f"{'no pool' if owner is None else owner}")
        Gpu.Allocator.free(self, memory)

    def free_block(self, block, stream=None):
        """Frees a block, even if other variables refer to it: see Gpu.MemoryBlock.free(). Raises
        ValueError for a block of another pool, which stays allocated."""
        if block is None:
            return
        checked(block, Gpu.MemoryBlock, "block")._check()
        Gpu.MemoryPool.free_block(self, block, stream)  # drops a reference of its own
        block.free()

    def trim(self, managed_bytes=0):
        """Returns cached memory to the driver until the pool manages at most managed_bytes."""
        Gpu.MemoryPool.trim(self, managed_bytes)

    @property
    def statistics(self):
        return self.get_statistics().unpack()

    def snapshot(self):
        """Returns the layout of the pool: a list of segments, which are dictionaries with a list of
        blocks."""
        return Gpu.MemoryPool.snapshot(self).unpack()

    @property
    def history(self):
        """The last events as a list of dictionaries, if history_size is not 0."""
        return self.get_history().unpack()

    @property
    def hooks(self):
        """The address of the functions of the pool for other libraries, a GpuPoolHooks of C, to
        pass to ctypes or a C module; None if memory of the pool has no device addresses, or if the
        pool is of kind Gpu.MemoryPoolKind.BINS. The pool owns the functions: keep the pool as long
        as they are in use. Python programs have no use for them: call the methods of the pool."""
        pointer = self.get_property("hooks")
        # The hash of a GPointer is its address, as a signed number
        return None if pointer is None else hash(pointer) & (1 << 64) - 1

    def __repr__(self):
        return (f"<Gpu.MemoryPool ({self.kind.value_nick}) of {self.managed_bytes} bytes, "
                f"{self.active_bytes} in use>")


def _attribute(spec, is_writable):
    def get(self):
        return self.get_property(spec.name)

    def put(self, value):
        self.set_property(spec.name, value)
    return property(get, put if is_writable else None)


def add_attributes(pool_class):
    for spec in pool_class.list_properties():
        if spec.name in vars(MemoryPoolMethods):
            continue
        is_writable = bool(spec.flags & GObject.ParamFlags.WRITABLE) \
            and not spec.flags & GObject.ParamFlags.CONSTRUCT_ONLY
        setattr(MemoryPoolMethods, spec.name.replace("-", "_"), _attribute(spec, is_writable))

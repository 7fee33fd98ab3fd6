# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pools, which are callables in Python as all allocators are, and their blocks, which end with a
with statement."""

from gi.repository import GLib, GObject

from ..module import get_introspection_module

Gpu = get_introspection_module("Gpu")


class MemoryBlockMethods:
    """An address and a size in a pool. It goes back with free(), at the end of a with statement, or
    with the last reference; int(block) is the address, and a kernel takes the block for that: as a
    pointer, or as a ulong.

    Once it went back, whatever is asked of it raises a GLib.Error, Gpu.Error.RELEASED."""
    freed = False

    def _check(self):
        if self.freed:
            raise GLib.Error.new_literal(Gpu.error_quark(), "the block was given back already",
                                         Gpu.Error.RELEASED)

    def free(self, stream=None):
        """Gives it back: it may be used again after what was submitted so far to the stream that it
        was taken on, to those that were added, and to this one."""
        self._check()
        if stream is not None:
            Gpu.MemoryBlock.add_stream(self, stream)
        self.freed = True
        self._clear_boxed()

    unref = free

    def copy(self):
        """Another reference, which is given back on its own."""
        self._check()
        return super().copy()

    ref = copy

    def get_address(self):
        self._check()
        return Gpu.MemoryBlock.get_address(self)

    def get_size(self):
        self._check()
        return Gpu.MemoryBlock.get_size(self)

    def add_stream(self, stream):
        """Work on this stream uses the block, too."""
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
            return "<Gpu.MemoryBlock given back>"
        return f"<Gpu.MemoryBlock of {self.get_size()} bytes at 0x{self.get_address():x}>"


class MemoryPoolMethods:
    """Gpu.MemoryPool(context): memory that is handed out again and again. pool(size), which is
    pool.allocate(size) and pool.alloc_buffer(size), is a buffer; pool.alloc_block(size) is a
    Gpu.MemoryBlock. Either is None for a size of 0. Within with pool: the pool is what
    Gpu.using_allocator() makes of it; nothing is given back at the end, which trim() does.

    All figures are attributes, managed_bytes and so on, and keys of the dictionary statistics."""

    def __new__(cls, context, kind=Gpu.MemoryPoolKind.AUTOMATIC, flags=Gpu.MemoryFlags.NONE):
        return Gpu.MemoryPool.new(context, kind, flags)

    def __init__(self, *args, **kwargs):
        pass

    @classmethod
    def new(cls, context, kind=Gpu.MemoryPoolKind.AUTOMATIC, flags=Gpu.MemoryFlags.NONE):
        """A pool whose memory comes from the driver."""
        return Gpu.MemoryPool.new(context, kind, flags)

    @classmethod
    def new_for_allocator(cls, allocator, kind=Gpu.MemoryPoolKind.AUTOMATIC, leading_bits=4):
        """A pool whose memory comes from an allocator."""
        return Gpu.MemoryPool.new_for_allocator(allocator, kind, leading_bits)

    def free(self, memory, stream=None):
        """Gives a block back, or lets go of a buffer."""
        if isinstance(memory, Gpu.MemoryBlock):
            memory.free(stream)
        else:
            Gpu.Allocator.free(self, memory)

    def trim(self, managed_bytes=0):
        """Gives what is held back to the driver, until no more than that is managed."""
        Gpu.MemoryPool.trim(self, managed_bytes)

    @property
    def statistics(self):
        return self.get_statistics().unpack()

    def snapshot(self):
        """What is where: segments, dictionaries whose blocks are lists of dictionaries."""
        return Gpu.MemoryPool.snapshot(self).unpack()

    @property
    def history(self):
        """The last events, dictionaries, of a pool whose history_size is not 0."""
        return self.get_history().unpack()

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
        is_writable = bool(spec.flags & GObject.ParamFlags.WRITABLE) \
            and not spec.flags & GObject.ParamFlags.CONSTRUCT_ONLY
        setattr(MemoryPoolMethods, spec.name.replace("-", "_"), _attribute(spec, is_writable))

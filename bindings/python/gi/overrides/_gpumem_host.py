# SPDX-License-Identifier: LGPL-2.1-or-later
"""Page-locked host memory as Python objects, and page-locking of the memory of Python objects."""

import contextlib

from gi.repository import GObject

from ..module import get_introspection_module
from ._gpumem import Bytes, array_over_bytes, export_in_place, held, hold, run_behind
from ._gpumem_arrays import ArrayMethods, export, to_range
from ._gpumem_checks import describe

Gpu = get_introspection_module("Gpu")


def new_on_node(kind, context, flags, numa_node, **properties):
    """Creates an object of a class with the properties host-flags and numa-node."""
    result = GObject.new(kind, context=context, host_flags=flags, numa_node=numa_node, **properties)
    result.init(None)
    return result


class HostMemoryMethods(ArrayMethods):
    """Gpu.HostMemory(context, size): page-locked host memory. The host back end locks no pages:
    there the memory is pageable, and page_locked is False.

    view(), to_numpy() and numpy.asarray (memory) wait for the work that uses the memory, and then
    access it without a copy. Views keep the memory allocated, even after release(). After further
    work, call synchronize() before you access a view again.

    Gpu.HostMemory.empty(), zeros(), empty_like() and zeros_like() return NumPy arrays over new
    memory. Pass flags for page-locked memory, or alignment for pageable memory with that alignment
    in bytes. An alignment of 0 means 4096.

    numa_node is the number of the NUMA node to prefer, Gpu.NUMA_NODE_DEVICE or
    Gpu.NUMA_NODE_NONE."""

    def __new__(cls, context, size, flags=Gpu.HostMemoryFlags.NONE, *,
                numa_node=Gpu.NUMA_NODE_DEVICE):
        if numa_node == Gpu.NUMA_NODE_DEVICE:
            return Gpu.HostMemory.new(context, flags, size)
        return new_on_node(Gpu.HostMemory, context, flags, numa_node, size=size)

    def __init__(self, *args, **kwargs):
        pass

    @classmethod
    def registered(cls, context, data, flags=Gpu.HostMemoryFlags.NONE):
        """Page-locks the memory of a contiguous bytes-like object. The memory stays page-locked
        until the with statement ends or the last reference is dropped, and until pending work no
        longer uses the memory. Until then, the size of the object is fixed: bytearray.extend()
        raises BufferError. The end of the with statement, or of a later wait for that work,
        releases the object. If the last reference is dropped instead, another thread does. The
        object must be writable, except with Gpu.HostMemoryFlags.READ_ONLY."""
        if isinstance(data, Bytes):
            return Gpu.HostMemory.new_registered(context, flags, data)
        writable = not flags & Gpu.HostMemoryFlags.READ_ONLY
        exported = export_in_place(data, writable, "pass flags=Gpu.HostMemoryFlags.READ_ONLY")
        return Gpu.HostMemory.new_registered(context, flags, hold(exported))

    @classmethod
    def _for_form(cls, context, form, flags=Gpu.HostMemoryFlags.NONE, alignment=None):
        size = max(form.size, 1)
        if alignment is None:
            return cls(context, size, flags)
        if flags:
            raise ValueError("flags are for page-locked memory, alignment is for pageable memory: "
                             "pass only one of them")
        return Gpu.HostMemory.new_aligned(context, alignment, size)

    host_flags = property(lambda self: self.get_property("host-flags"))
    numa_node = property(lambda self: self.get_property("numa-node"))
    page_locked = property(lambda self: self.get_property("page-locked"))
    address = property(lambda self: self.get_address())

    def synchronize(self, flags=Gpu.MapFlags.NONE, cancellable=None):
        """Waits until the host may read or write the memory. wait() has a timeout."""
        return run_behind(lambda: Gpu.HostMemory.synchronize(self, flags, cancellable), self)

    def view(self):
        """Waits for the work that uses the memory, and returns a memoryview of the memory."""
        self.synchronize()
        return export(self, self.get_bytes(),
                      bool(self.host_flags & Gpu.HostMemoryFlags.READ_ONLY))

    def to_numpy(self, dtype="uint8", shape=-1, order="C"):
        """Waits for the work that uses the memory, and returns a NumPy array over the memory."""
        return array_over_bytes(self.view(), dtype, shape, order)

    @property
    def __array_interface__(self):
        return {"version": 3, "shape": (self.get_size(),), "typestr": "|u1", "data": self.view()}

    def read(self, offset=0, size=None):
        """Returns a copy of the memory, or of a part of it, as bytes."""
        _, offset, size = to_range(self, offset, size)
        return bytes(self.read_bytes(offset, size, None).get_data() or b"")

    def write(self, data, offset=0):
        """Copies bytes-like data to the memory."""
        with held(data) as kept:
            return self.write_bytes(offset, kept.bytes, None)


@contextlib.contextmanager
def pinned(context, *objects, flags=Gpu.HostMemoryFlags.NONE):
    """Page-locks the memory of bytes-like objects for a with statement. The statement gets a
    Gpu.HostMemory, or a list of Gpu.HostMemory for several objects."""
    if not isinstance(context, Gpu.Context) or not objects:
        raise TypeError("pinned() takes a Gpu.Context and at least one object, not "
                        f"{describe(context)} and {len(objects)} objects")
    with contextlib.ExitStack() as stack:
        memories = [stack.enter_context(HostMemoryMethods.registered(context, data, flags))
                    for data in objects]
        yield memories[0] if len(memories) == 1 else memories

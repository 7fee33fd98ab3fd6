# SPDX-License-Identifier: LGPL-2.1-or-later
"""One memory pool under PyTorch, CuPy, Numba, RMM and cuda.core.

    import torch, cupy
    import gpumem.allocators

    installed = gpumem.allocators.install(limit=8 << 30)

From then on, all these libraries allocate from one pool for each CUDA device, with one limit and
common statistics. Memory that one library frees can be used by the others. If memory runs out, each
library raises its own out-of-memory error, after the signal out-of-memory of the pool.

Only calls of CUDA are needed. PyGObject is optional: with it, the attribute pool is a
Gpu.MemoryPool."""

import ctypes
import glob
import os
import sys

from . import _libraries

LIBRARIES = tuple(_libraries.ADAPTORS)
FIGURES = ("held-blocks", "active-blocks", "managed-bytes", "active-bytes", "used-bytes",
           "largest-free", "peak-active-bytes", "peak-used-bytes", "peak-managed-bytes", "n-allocs",
           "n-frees", "n-cache-hits", "n-hits", "n-steals", "n-waits", "n-growths", "n-recycled",
           "n-maps", "n-unmaps", "n-refused")

_TEXT_SIZE = 1024
_library = None


def _find_library():
    for folder in (os.path.dirname(os.path.abspath(__file__)),
                   *(os.path.join(folder, "gpumem") for folder in sys.path)):
        for path in glob.glob(os.path.join(glob.escape(folder), "_allocators*.so")):
            return path
    raise ImportError("gpumem.allocators: _allocators.so is not installed beside allocators.py")


def _load():
    """Loads the shared object. In a wheel, only the overrides find libgpumem-1.0."""
    global _library
    if _library is not None:
        return _library
    path = _find_library()
    try:
        library = ctypes.CDLL(path)
    except OSError:
        import gi
        gi.require_version("Gpu", "1.0")
        from gi.repository import Gpu  # noqa: F401
        library = ctypes.CDLL(path)
    library.path = path
    address, size, device = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for name, result, *arguments in (
            ("set_pool", ctypes.c_int, device, pointer),
            ("has_pool", ctypes.c_int, device),
            ("get_pool", pointer, device, text, size),
            ("alloc", address, device, size, pointer, ctypes.POINTER(ctypes.c_int), text, size),
            ("free", ctypes.c_int, device, address, pointer),
            ("end_stream", None, device, pointer),
            ("get_figure", address, device, text),
            ("get_memory", ctypes.c_int, device, ctypes.POINTER(address), ctypes.POINTER(address)),
            ("set_limit", None, device, address),
            ("trim", None, device, address)):
        function = getattr(library, f"gpumem_allocators_{name}")
        function.restype, function.argtypes = result, arguments
    _library = library
    return library


class OutOfMemory(MemoryError):
    """No memory is left within the limit. Each adaptor raises the error of its library instead."""


class DevicePool:
    """The pool of a CUDA device, for adaptors: addresses, and streams as integers."""

    def __init__(self, device):
        self.library, self.device = _load(), device

    def alloc(self, size, stream):
        failed = ctypes.c_int(0)
        text = ctypes.create_string_buffer(_TEXT_SIZE)
        address = self.library.gpumem_allocators_alloc(self.device, size, stream,
                                                       ctypes.byref(failed), text, _TEXT_SIZE)
        if text.value:
            message = text.value.decode(errors="replace")
            raise OutOfMemory(message) if failed.value else RuntimeError(message)
        return address

    def free(self, address, stream):
        if not self.library.gpumem_allocators_free(self.device, address, stream):
            raise ValueError(f"0x{address:x} is not memory of the pool")

    def get_memory(self):
        """Returns the free and the total bytes of the device."""
        free, total = ctypes.c_uint64(), ctypes.c_uint64()
        if not self.library.gpumem_allocators_get_memory(self.device, ctypes.byref(free),
                                                         ctypes.byref(total)):
            raise RuntimeError(f"cuda:{self.device} does not report its memory")
        return free.value, total.value

    def end_stream(self, stream):
        """Call this before the stream is destroyed."""
        self.library.gpumem_allocators_end_stream(self.device, stream)


class Installed:
    """The result of install()."""

    def __init__(self, library, device, pool, names):
        self._library, self._limit = library, None
        self.device = device
        self.pool = pool
        """The Gpu.MemoryPool; None without PyGObject."""
        self.libraries = names
        """The names of the libraries that use the pool."""

    def __repr__(self):
        names = ", ".join(self.libraries) or "nothing"
        return (f"<gpumem pool of cuda:{self.device} under {names}, "
                f"{self.statistics['managed-bytes']} bytes>")

    @property
    def statistics(self):
        """The counters of the pool, for all libraries together."""
        if self.pool is not None:
            return self.pool.statistics
        return {name: self._library.gpumem_allocators_get_figure(self.device, name.encode())
                for name in FIGURES}

    def snapshot(self):
        """The layout of the pool, as of Gpu.MemoryPool.snapshot(). Needs PyGObject."""
        if self.pool is None:
            raise RuntimeError("snapshot() needs PyGObject")
        return self.pool.snapshot()

    @property
    def limit(self):
        """The most bytes that the pool holds for all libraries together; 0 for no limit."""
        return self.pool.limit if self.pool is not None else self._limit or 0

    @limit.setter
    def limit(self, limit):
        self._limit = limit
        self._library.gpumem_allocators_set_limit(self.device, limit)

    def trim(self, managed_bytes=0):
        """Returns unused memory to the driver until at most managed_bytes remain."""
        self._library.gpumem_allocators_trim(self.device, managed_bytes)


def _make_pool(device):
    """Returns a Gpu.MemoryPool of the device, or None without PyGObject."""
    try:
        import gi
        gi.require_version("Gpu", "1.0")
        from gi.repository import Gpu
    except (ImportError, ValueError, AttributeError):     # AttributeError: gi is only a folder
        return None
    return Gpu.MemoryPool(Gpu.Context(Gpu.Device.find(f"cuda:{device}")))


def _is_pool(pool):
    try:
        from gi.repository import Gpu
    except ImportError:
        return False
    return isinstance(pool, Gpu.MemoryPool)


_pools = {}


def _use_pool(library, pool, device):
    """Makes the pool, or a new one, the pool of the device."""
    known = _pools.get(device)
    if pool is None and known is not None:
        return known
    if pool is not None and not _is_pool(pool):
        raise TypeError(f"pool must be a Gpu.MemoryPool or None, not {type(pool).__name__}")
    if pool is not None and pool.context.device.id != f"cuda:{device}":
        raise ValueError(f"the pool is on {pool.context.device.id}, not on cuda:{device}")
    if pool is None and not library.gpumem_allocators_has_pool(device):
        pool = _make_pool(device)
    if pool is not None:
        used = library.gpumem_allocators_set_pool(device, hash(pool))
        if used < 0:
            raise ValueError(f"memory of {pool} has no addresses")
        if used == 0 and pool is not known:
            raise ValueError(f"cuda:{device} already has a pool, whose memory may be in use")
        _pools[device] = pool
        return pool
    text = ctypes.create_string_buffer(_TEXT_SIZE)
    if not library.gpumem_allocators_get_pool(device, text, _TEXT_SIZE):
        raise RuntimeError(text.value.decode(errors="replace"))
    return None


def install(pool=None, libraries=None, device=0, limit=None):
    """Makes libraries allocate their CUDA memory from one pool of a device.

    pool is a Gpu.MemoryPool; None for the pool of an earlier call, or a new one. libraries are
    names of LIBRARIES, which are imported if necessary; None for those that are imported already.
    limit is the most bytes that the pool holds for all of them. A device keeps its pool until the
    process ends. Other devices get a pool when a library first allocates memory there.

    Call install() before PyTorch allocates CUDA memory, and before Numba creates its context: both
    accept no other allocator later. Memory that a library allocated before stays where it is."""
    names = tuple(name for name in LIBRARIES if _libraries.is_imported(name)) \
        if libraries is None else (libraries,) if isinstance(libraries, str) else tuple(libraries)
    for name in names:
        if name not in LIBRARIES:
            raise ValueError(f"{name!r} is not one of {', '.join(LIBRARIES)}")
    library = _load()
    pool = _use_pool(library, pool, device)
    installed = Installed(library, device, pool, names)
    if limit is not None:
        installed.limit = limit
    for name in names:
        _libraries.ADAPTORS[name](library.path, device)
    return installed


def torch_mem_pool(pool=None, device=0):
    """Returns a torch.cuda.MemPool whose memory comes from the pool of the device, for use with
    torch.cuda.use_mem_pool(). PyTorch may have allocated other memory already."""
    library = _load()
    _use_pool(library, pool, device)
    return _libraries.make_mem_pool(library.path)

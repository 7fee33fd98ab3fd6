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
import operator
import os
import re
import sys
import threading

from . import _libraries

LIBRARIES = tuple(_libraries.ADAPTORS)
FIGURES = ("held-blocks", "active-blocks", "managed-bytes", "active-bytes", "used-bytes",
           "largest-free", "peak-active-bytes", "peak-used-bytes", "peak-managed-bytes", "n-allocs",
           "n-frees", "n-cache-hits", "n-hits", "n-steals", "n-waits", "n-growths", "n-recycled",
           "n-maps", "n-unmaps", "n-refused")

_TEXT_SIZE = 1024
_MOST_BYTES = (1 << 64) - 1
_MOST_DEVICES = 64                      # GPUMEM_MAX_DEVICES
_library = None
_lock = threading.RLock()               # one install() at a time, so that it can undo its work


def _find_library():
    for folder in (os.path.dirname(os.path.abspath(__file__)),
                   *(os.path.join(folder, "gpumem") for folder in sys.path)):
        for path in glob.glob(os.path.join(glob.escape(folder), "_allocators*.so")):
            return path
    raise ImportError("gpumem.allocators: _allocators.so is not installed beside allocators.py")


def _import_gpu():
    """Returns the namespace Gpu, or None without PyGObject."""
    try:
        import gi
        gi.require_version("Gpu", "1.0")
        from gi.repository import Gpu
    except (ImportError, ValueError, AttributeError):     # AttributeError: gi is only a folder
        return None
    return Gpu


def _load():
    """Loads the shared object. In a wheel, only the overrides find libgpumem-1.0."""
    global _library
    if _library is not None:
        return _library
    path = _find_library()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        if _import_gpu() is None:
            raise ImportError(f"gpumem.allocators cannot load {path}: {error}") from error
        library = ctypes.CDLL(path)
    library.path = path
    address, size, device = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for name, result, *arguments in (
            ("has_pool", ctypes.c_int, device),
            ("offer_pool", ctypes.c_int, device, pointer, text, size),
            ("accept_pool", ctypes.c_int, device),
            ("withdraw_pool", ctypes.c_int, device),
            ("alloc", address, device, size, pointer, ctypes.POINTER(ctypes.c_int), text, size),
            ("free", ctypes.c_int, device, address, pointer),
            ("end_stream", None, device, pointer),
            ("get_figure", address, device, text),
            ("get_memory", ctypes.c_int, device, ctypes.POINTER(address), ctypes.POINTER(address)),
            ("get_limit", address, device),
            ("set_limit", None, device, address),
            ("reset_peaks", None, device),
            ("trim", None, device, address)):
        function = getattr(library, f"gpumem_allocators_{name}")
        function.restype, function.argtypes = result, arguments
    _library = library
    return library


def _to_whole(value, name, most):
    """Checks a number. ctypes would wrap a negative number, and its errors name no argument."""
    if not isinstance(value, bool):
        try:
            number = operator.index(value)
        except TypeError:
            pass
        else:
            if 0 <= number <= most:
                return number
            raise ValueError(f"gpumem.allocators.{name} must be 0 to {most}, not {number}")
    raise TypeError(f"gpumem.allocators.{name} must be a whole number, not {value!r}")


# The function of C at the start of a message
_C_FUNCTION = re.compile(r"^gpu_[a-z0-9_]+: ")


class OutOfMemory(MemoryError):
    """No memory is left within the limit. Each adaptor raises the error of its library instead."""


class DevicePool:
    """The pool of a CUDA device, for adaptors: addresses, and streams as integers."""

    def __init__(self, device):
        self.library = _load()
        self.device = _to_whole(device, "DevicePool(): device", _MOST_DEVICES - 1)

    def alloc(self, size, stream):
        size = _to_whole(size, "DevicePool.alloc(): size", _MOST_BYTES)
        stream = _to_whole(stream, "DevicePool.alloc(): stream", _MOST_BYTES)
        failed = ctypes.c_int(0)
        text = ctypes.create_string_buffer(_TEXT_SIZE)
        address = self.library.gpumem_allocators_alloc(self.device, size, stream,
                                                       ctypes.byref(failed), text, _TEXT_SIZE)
        if text.value:
            message = _C_FUNCTION.sub("gpumem.allocators.DevicePool.alloc(): ",
                                      text.value.decode(errors="replace"))
            raise OutOfMemory(message) if failed.value else RuntimeError(message)
        return address

    def free(self, address, stream):
        address = _to_whole(address, "DevicePool.free(): address", _MOST_BYTES)
        stream = _to_whole(stream, "DevicePool.free(): stream", _MOST_BYTES)
        if not self.library.gpumem_allocators_free(self.device, address, stream):
            raise ValueError(f"gpumem.allocators.DevicePool.free(): 0x{address:x} is not the start "
                             f"of memory of the pool of cuda:{self.device}")

    def get_memory(self):
        """Returns the free and the total bytes of the device."""
        free, total = ctypes.c_uint64(), ctypes.c_uint64()
        if not self.library.gpumem_allocators_get_memory(self.device, ctypes.byref(free),
                                                         ctypes.byref(total)):
            raise RuntimeError(f"cuda:{self.device} does not report its memory")
        return free.value, total.value

    def end_stream(self, stream):
        """Call this before the stream is destroyed."""
        stream = _to_whole(stream, "DevicePool.end_stream(): stream", _MOST_BYTES)
        self.library.gpumem_allocators_end_stream(self.device, stream)


class Installed:
    """The result of install()."""

    def __init__(self, library, device, pool, names):
        self._library = library
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

    def reset_peaks(self):
        """Sets the peaks in statistics to the present values."""
        self._library.gpumem_allocators_reset_peaks(self.device)

    def snapshot(self):
        """The layout of the pool, as of Gpu.MemoryPool.snapshot(). Needs PyGObject."""
        if self.pool is None:
            raise RuntimeError("gpumem.allocators.Installed.snapshot() needs PyGObject, and a pool "
                               "that install() received or created")
        return self.pool.snapshot()

    @property
    def limit(self):
        """The most bytes that the pool holds for all libraries together; 0 for no limit."""
        return self._library.gpumem_allocators_get_limit(self.device)

    @limit.setter
    def limit(self, limit):
        limit = _to_whole(limit, "Installed.limit", _MOST_BYTES)
        self._library.gpumem_allocators_set_limit(self.device, limit)

    def trim(self, managed_bytes=0):
        """Returns unused memory to the driver until at most managed_bytes remain."""
        managed_bytes = _to_whole(managed_bytes, "Installed.trim(): managed_bytes", _MOST_BYTES)
        self._library.gpumem_allocators_trim(self.device, managed_bytes)


def _make_pool(function, device):
    """Returns a Gpu.MemoryPool of the device, or None without PyGObject."""
    Gpu = _import_gpu()
    if Gpu is None:
        return None
    from gi.repository import GLib
    try:
        return Gpu.MemoryPool(Gpu.Context(Gpu.Device.find(f"cuda:{device}")))
    except GLib.Error as error:
        raise RuntimeError(f"gpumem.allocators.{function}(): no pool on cuda:{device}: "
                           f"{error.message}") from error


def _check_pool(function, pool, device):
    Gpu = _import_gpu()
    if Gpu is None or not isinstance(pool, Gpu.MemoryPool):
        raise TypeError(f"gpumem.allocators.{function}(): pool must be a Gpu.MemoryPool or None, "
                        f"not {type(pool).__name__}")
    if pool.context.device.id != f"cuda:{device}":
        raise ValueError(f"gpumem.allocators.{function}(): the pool is on "
                         f"{pool.context.device.id}, not on cuda:{device}")


_pools = {}


class _Offer:
    """The pool of a device during install(). If the with statement fails, the pool of the device
    and its limit are as before; a new pool stays if another thread has allocated from it."""

    def __init__(self, function, pool, device):
        self.library, self.device = _load(), device
        if pool is not None:
            _check_pool(function, pool, device)
        elif not self.library.gpumem_allocators_has_pool(device):
            pool = _make_pool(function, device)
        text = ctypes.create_string_buffer(_TEXT_SIZE)
        state = self.library.gpumem_allocators_offer_pool(
            device, None if pool is None else hash(pool), text, _TEXT_SIZE)
        if state < 0:
            raise RuntimeError(f"gpumem.allocators.{function}(): no pool on cuda:{device}: "
                               f"{text.value.decode(errors='replace')}")
        if state == 0:
            raise ValueError(f"gpumem.allocators.{function}(): cuda:{device} already has a pool, "
                             "whose memory may be in use")
        self.is_new = state == 1
        self.pool = pool if pool is not None else _pools.get(device)
        self.limit = self.library.gpumem_allocators_get_limit(device)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None:
            self.library.gpumem_allocators_set_limit(self.device, self.limit)
            # Another thread may have allocated memory from the pool already
            if self.is_new and self.library.gpumem_allocators_withdraw_pool(self.device):
                return
        self.library.gpumem_allocators_accept_pool(self.device)
        _pools[self.device] = self.pool


def _to_names(libraries):
    if libraries is None:
        return tuple(name for name in LIBRARIES if _libraries.is_imported(name))
    try:
        names = (libraries,) if isinstance(libraries, str) else tuple(libraries)
    except TypeError:
        raise TypeError("gpumem.allocators.install(): libraries must be a name, several names or "
                        f"None, not {libraries!r}") from None
    for name in names:
        if name not in LIBRARIES:
            raise ValueError(f"gpumem.allocators.install(): the library {name!r} is not one of "
                             f"{', '.join(LIBRARIES)}")
    return tuple(dict.fromkeys(names))


def install(pool=None, libraries=None, device=0, limit=None):
    """Makes libraries allocate their CUDA memory from one pool of a device.

    pool is a Gpu.MemoryPool; None for the pool of an earlier call, or a new one. libraries are
    names of LIBRARIES, which are imported if necessary; None for those that are imported already.
    limit is the most bytes that the pool holds for all of them. A device keeps its pool until the
    process ends. Other devices get a pool when a library first allocates memory there.

    Call install() before PyTorch allocates CUDA memory, and before Numba creates its context: both
    accept no other allocator later. Memory that a library allocated before stays where it is.

    If install() raises an error, all libraries, the pool of the device and its limit are as
    before. A new pool stays only if another thread has allocated from it meanwhile."""
    names = _to_names(libraries)
    device = _to_whole(device, "install(): device", _MOST_DEVICES - 1)
    if limit is not None:
        limit = _to_whole(limit, "install(): limit", _MOST_BYTES)
    for name in names:
        _libraries.import_library(name)
    with _lock, _Offer("install", pool, device) as offer:
        installed = Installed(offer.library, device, offer.pool, names)
        if limit is not None:
            installed.limit = limit
        _libraries.install(names, offer.library.path, device)
    return installed


def torch_mem_pool(pool=None, device=0):
    """Returns a torch.cuda.MemPool whose memory comes from the pool of the device, for use with
    torch.cuda.use_mem_pool(). PyTorch may have allocated other memory already."""
    device = _to_whole(device, "torch_mem_pool(): device", _MOST_DEVICES - 1)
    _libraries.import_library("torch", "torch_mem_pool")
    with _lock, _Offer("torch_mem_pool", pool, device) as offer:
        return _libraries.make_mem_pool(offer.library.path)

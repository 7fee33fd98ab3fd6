# SPDX-License-Identifier: LGPL-2.1-or-later
"""An adaptor for each library. A library is only imported when its adaptor is called. Adaptors
return a function that undoes their work."""

import ctypes
import importlib
import inspect
import sys
import threading

# The hooks of PyTorch's CUDAPluggableAllocator, by method. Older versions lack some of them.
TORCH_HOOKS = (
    (("set_init_fn",), "init"),
    (("set_reset_fn",), "reset"),
    (("set_memory_fraction_fn",), "set_memory_fraction"),
    (("set_base_alloc_fn",), "get_base"),
    (("set_record_stream_fn",), "record_stream"),
    (("set_begin_allocate_to_pool", "set_begin_allocate_to_pool_fn"), "begin_allocate_to_pool"),
    (("set_end_allocate_to_pool_fn",), "end_allocate_to_pool"),
    (("set_release_pool", "set_release_pool_fn"), "release_pool"),
)

# Streams that an adaptor keeps alive for each device. For more streams, it forgets the oldest of
# those without live blocks.
MOST_STREAMS = 256

MODULES = {"torch": ("torch",), "cupy": ("cupy",), "numba": ("numba.cuda",), "rmm": ("rmm",),
           "cuda.core": ("cuda.core", "cuda.core.experimental")}


def is_imported(name):
    return any(module in sys.modules for module in MODULES[name])


def import_library(name, function="install"):
    error = None
    for module in MODULES[name]:
        try:
            return importlib.import_module(module)
        except Exception as failure:
            error = failure if error is None else error
    try:
        raise ImportError(f"gpumem.allocators.{function}(): the library {name} cannot be imported: "
                          f"{type(error).__name__}: {error}", name=name) from error
    finally:
        del error                               # otherwise it is in a cycle with its traceback


def install(names, path, device):
    """Puts all libraries on the pool, or none of them."""
    undo = []
    name = None
    try:
        # PyTorch comes last: it accepts one allocator only
        for name in sorted(names, key="torch".__eq__):
            undo.append(ADAPTORS[name](path, device))
    except BaseException as error:
        for function in reversed(undo):
            if function is not None:
                function()
        if not isinstance(error, Exception):
            raise
        version = getattr(sys.modules.get(MODULES[name][0].partition(".")[0]), "__version__", "")
        raise RuntimeError(f"gpumem.allocators.install(): the library {name} {version}".rstrip()
                           + f" does not accept the pool of cuda:{device}: "
                           f"{type(error).__name__}: {error}") from error


def _get_pool(device):
    from . import allocators
    return allocators.DevicePool(device)


def _to_handle(stream):
    """The handle of a stream of any library, as an int; 0 is the default stream."""
    if stream is None:
        return 0
    if isinstance(stream, int):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        found = protocol() if callable(protocol) else protocol
        try:
            version, handle = found
            if version == 0:
                return int(handle)
        except (TypeError, ValueError):
            pass
        raise TypeError(f"stream is a {type(stream).__name__}, whose __cuda_stream__() must return "
                        f"the version 0 and a handle, not {found!r}")
    for name in ("ptr", "cuda_stream", "handle", "value"):
        value = getattr(stream, name, None)
        if value is not None:
            value = value() if callable(value) else value
            return int(getattr(value, "value", value) or 0)
    raise TypeError(f"stream must be a CUDA stream or its handle, not {stream!r}")


class Streams:
    """Keeps the streams that the pool uses: a library may destroy a stream with its object. Streams
    of live blocks are always kept, because their handles, which the blocks name, could otherwise
    become those of new streams."""

    def __init__(self, pool):
        self.pool, self.kept, self.counts = pool, {}, {}
        self.lock = threading.RLock()       # a collected object may free memory meanwhile

    def _forget_idle(self):
        oldest = next((handle for handle in self.kept if handle not in self.counts), None)
        if oldest is None:
            return False
        forgotten = self.kept.pop(oldest)
        self.pool.end_stream(oldest)
        del forgotten                       # may destroy the stream
        return True

    def use(self, stream, is_held=False):
        """Returns the handle. With is_held, keeps the stream until release()."""
        handle = _to_handle(stream)
        if handle <= 2:                     # the default streams
            return handle
        with self.lock:
            if is_held:
                self.counts[handle] = self.counts.get(handle, 0) + 1
            if handle not in self.kept:
                while len(self.kept) >= MOST_STREAMS and self._forget_idle():
                    pass
                self.kept[handle] = stream
        return handle

    def release(self, handle):
        with self.lock:
            count = self.counts.pop(handle, 1) - 1
            if count > 0:
                self.counts[handle] = count


class Blocks:
    """Memory for a library that does not pass the stream of the allocation to its free function."""

    def __init__(self, device):
        self.pool = _get_pool(device)
        self.streams = Streams(self.pool)
        self.handles = {}

    def alloc(self, size, stream):
        handle = self.streams.use(stream, True)
        address = 0
        try:
            address = self.pool.alloc(size, handle)
        finally:
            if address:
                self.handles[address] = handle
            else:
                self.streams.release(handle)
        return address

    def free(self, address, stream=None):
        if not address:
            return
        handle = self.handles.pop(address, 0)
        try:
            self.pool.free(address, handle if stream is None else self.streams.use(stream))
        finally:
            self.streams.release(handle)


# --- PyTorch ------------------------------------------------------------------------------------


def _make_torch_allocator(path):
    import torch

    allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "gpumem_torch_alloc",
                                                         "gpumem_torch_free")
    library, native = ctypes.CDLL(path), allocator.allocator()
    for methods, name in TORCH_HOOKS:
        for method in methods:
            if hasattr(native, method):
                function = getattr(library, f"gpumem_torch_{name}")
                getattr(native, method)(ctypes.cast(function, ctypes.c_void_p).value)
                break
    return allocator


_torch_allocator = None


def install_torch(path, device):
    global _torch_allocator
    import torch

    if _torch_allocator is not None:
        return None
    allocator = _make_torch_allocator(path)
    try:
        torch.cuda.memory.change_current_allocator(allocator)
    except RuntimeError as error:
        raise RuntimeError("PyTorch has allocated CUDA memory already: call install() earlier, or "
                           f"use torch_mem_pool() ({error})") from error
    _torch_allocator = allocator
    return None


def make_mem_pool(path):
    import torch

    return torch.cuda.MemPool(_make_torch_allocator(path).allocator())


# --- CuPy ---------------------------------------------------------------------------------------


def install_cupy(path, device):
    import cupy

    blocks = {}

    def get_blocks(ordinal):
        if ordinal not in blocks:
            blocks[ordinal] = Blocks(ordinal)
        return blocks[ordinal]

    def malloc(size, ordinal):
        from . import allocators
        try:
            return get_blocks(ordinal).alloc(size, cupy.cuda.get_current_stream())
        except allocators.OutOfMemory as error:
            raise _make_cupy_error(cupy, size, ordinal) from error

    def free(address, ordinal):
        get_blocks(ordinal).free(address)

    before = cupy.cuda.get_allocator()
    cupy.cuda.set_allocator(cupy.cuda.PythonFunctionAllocator(malloc, free).malloc)
    return lambda: cupy.cuda.set_allocator(before)


def _make_cupy_error(cupy, size, ordinal):
    from . import allocators
    held = allocators.Installed(allocators._load(), ordinal, allocators._pools.get(ordinal), ())
    return cupy.cuda.memory.OutOfMemoryError(size, held.statistics["managed-bytes"], held.limit)


# --- Numba --------------------------------------------------------------------------------------


def _to_numba_pointer(address):
    try:
        from cuda.bindings.driver import CUdeviceptr
    except ImportError:
        return ctypes.c_uint64(address)
    from numba.cuda.cudadrv import driver
    if getattr(driver, "USE_NV_BINDING", True):
        return CUdeviceptr(address)
    return ctypes.c_uint64(address)


def _make_numba_error(message):
    from numba.cuda.cudadrv import driver
    return driver.CudaAPIError(2, f"CUDA_ERROR_OUT_OF_MEMORY: {message}")


def install_numba(path, device):
    """Numba passes no streams: memory is allocated and freed on the legacy default stream, which is
    ordered with all streams that Numba creates."""
    from numba import cuda

    class Manager(cuda.HostOnlyCUDAMemoryManager):
        interface_version = 1

        def __init__(self, context):
            super().__init__(context=context)
            # Numba first makes an object without a context, to read the version of the interface.
            self.ordinal = getattr(getattr(context, "device", None), "id", device)

        def initialize(self):
            pass

        def memalloc(self, size):
            from . import allocators
            pool = _get_pool(self.ordinal)
            try:
                address = pool.alloc(size, 0)
            except allocators.OutOfMemory as error:
                raise _make_numba_error(error) from error
            arguments = {"pointer": _to_numba_pointer(address), "size": size,
                         "finalizer": lambda: pool.free(address, 0)}
            if "context" in inspect.signature(cuda.MemoryPointer.__init__).parameters:
                arguments["context"] = self.context
            return cuda.MemoryPointer(**arguments)

        def get_memory_info(self):
            free, total = _get_pool(self.ordinal).get_memory()
            return cuda.MemoryInfo(free=free, total=total)

        def get_ipc_handle(self, memory):
            raise NotImplementedError("memory of a pool is not shared with other processes")

    driver = cuda.cudadrv.driver
    before = getattr(driver, "_memory_manager", None)       # Numba has no public getter
    cuda.set_memory_manager(Manager)
    return lambda: setattr(driver, "_memory_manager", before)


# --- RMM ----------------------------------------------------------------------------------------


def install_rmm(path, device):
    import rmm

    pool = _get_pool(device)

    def allocate(size, stream=None):
        return pool.alloc(size, _to_handle(stream))

    def deallocate(address, size, stream=None):
        if address:
            pool.free(address, _to_handle(stream))

    before = rmm.mr.get_per_device_resource(device)
    rmm.mr.set_per_device_resource(device, rmm.mr.CallbackMemoryResource(allocate, deallocate))
    return lambda: rmm.mr.set_per_device_resource(device, before)


# --- cuda.core ----------------------------------------------------------------------------------


def _import_cuda_core():
    try:
        import cuda.core as core
        if hasattr(core, "Device"):
            return core
    except ImportError:
        pass
    import cuda.core.experimental as core
    return core


def _make_cuda_core_error(message):
    for module in ("cuda.core._utils.cuda_utils", "cuda.core.experimental._utils.cuda_utils"):
        try:
            return __import__(module, fromlist=["CUDAError"]).CUDAError(
                f"CUDA_ERROR_OUT_OF_MEMORY: {message}")
        except (ImportError, AttributeError):
            continue
    return MemoryError(message)


def install_cuda_core(path, device):
    core = _import_cuda_core()
    base = getattr(core, "MemoryResource", None)
    if base is None:
        from cuda.core.experimental._memory import MemoryResource as base

    class Resource(base):
        def __init__(self):
            self.blocks = Blocks(device)

        def allocate(self, size, stream=None, **options):
            from . import allocators
            try:
                address = self.blocks.alloc(size, stream)
            except allocators.OutOfMemory as error:
                raise _make_cuda_core_error(error) from error
            return core.Buffer.from_handle(address, size, mr=self)

        def deallocate(self, ptr, size, stream=None, **options):
            self.blocks.free(int(ptr), stream)

        @property
        def is_device_accessible(self):
            return True

        @property
        def is_host_accessible(self):
            return False

        @property
        def device_id(self):
            return device

    owner = core.Device(device)
    before = owner.memory_resource
    owner.memory_resource = Resource()
    return lambda: setattr(owner, "memory_resource", before)


ADAPTORS = {"torch": install_torch, "cupy": install_cupy, "numba": install_numba,
            "rmm": install_rmm, "cuda.core": install_cuda_core}

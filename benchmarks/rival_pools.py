# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory pools on a CUDA device, for pool-rivals.py. Each constructor imports the packages that it
needs. open() creates a new pool, with a limit in bytes or None. verbs() returns the functions
(take, give), and empty_verbs() functions of the same form that do nothing. peak() returns the peak
of reserved memory, or the currently reserved memory if polls is True."""

import ctypes
import ctypes.util
import operator
import os


class Refused(Exception):
    """The pool is out of memory."""


def is_refusal(error):
    words = f"{type(error).__name__} {error}".lower().replace("_", "").replace(" ", "")
    return isinstance(error, (Refused, MemoryError)) or "outofmemory" in words


class Torch:
    expandable = False

    def __init__(self, options):
        if self.expandable:
            os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
            os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
        import torch

        self.torch = torch
        self.version = torch.__version__
        self.kept = []
        torch.cuda.set_device(options.ordinal)
        torch.cuda.init()
        self.total = torch.cuda.get_device_properties(options.ordinal).total_memory

    def open(self, limit):
        cuda = self.torch.cuda
        self.close()
        cuda.set_per_process_memory_fraction(min(1.0, limit / self.total) if limit else 1.0)
        cuda.reset_peak_memory_stats()

    def stream(self):
        self.kept.append(self.torch.cuda.Stream())
        return self.kept[-1].cuda_stream

    def verbs(self):
        c = self.torch._C
        return self.wrap(c._cuda_cudaCachingAllocator_raw_alloc,
                         c._cuda_cudaCachingAllocator_raw_delete)

    def empty_verbs(self):
        return self.wrap(operator.add, operator.neg)

    @staticmethod
    def wrap(alloc, delete):
        return (lambda size, stream: alloc(size, stream)), (lambda memory, stream: delete(memory))

    def peak(self):
        return self.torch.cuda.memory_stats()["reserved_bytes.all.peak"]

    def close(self):
        self.torch.cuda.synchronize()
        self.torch.cuda.empty_cache()


class TorchExpandable(Torch):
    expandable = True


class CuPy:
    polls = True                       # peak() returns the current value

    def __init__(self, options):
        import cupy

        self.cupy = cupy
        self.version = cupy.__version__
        self.pool = self.current = None
        cupy.cuda.Device(options.ordinal).use()

    def open(self, limit):
        self.close()
        self.pool = self.cupy.cuda.MemoryPool()
        if limit:
            self.pool.set_limit(size=limit)

    def stream(self):
        return self.cupy.cuda.Stream(non_blocking=True)

    def verbs(self):
        return self.wrap(self.pool.malloc)

    def empty_verbs(self):
        return self.wrap(operator.neg)

    def wrap(self, malloc):
        def take(size, stream):
            if stream is not self.current:
                self.current = stream
                stream.use()
            return malloc(size)

        return take, (lambda memory, stream: None)

    def peak(self):
        return self.pool.total_bytes()

    def close(self):
        if self.pool is not None:
            self.cupy.cuda.Device().synchronize()
            self.pool.free_all_blocks()


class Rmm:
    """The pool of RMM over memory of the driver."""

    def __init__(self, options):
        import rmm

        self.rmm = rmm
        self.version = rmm.__version__
        self.device = self.make(0)

    def make(self, limit):
        mr = self.rmm.mr
        self.counted = mr.StatisticsResourceAdaptor(mr.CudaMemoryResource())
        return mr.PoolMemoryResource(self.counted, initial_pool_size=0,
                                     maximum_pool_size=limit // 256 * 256 if limit else None)

    def open(self, limit):
        self.device = self.make(limit)

    def stream(self):
        from rmm.pylibrmm.stream import Stream

        return Stream()

    def verbs(self):
        return self.wrap(self.device.allocate, self.device.deallocate)

    def empty_verbs(self):
        return self.wrap(operator.is_, lambda address, size, stream: None)

    @staticmethod
    def wrap(allocate, deallocate):
        return ((lambda size, stream: (allocate(size, stream), size)),
                (lambda memory, stream: deallocate(*memory, stream)))

    def peak(self):
        return self.counted.allocation_counts.peak_bytes

    def close(self):
        pass


class RmmArena(Rmm):
    def make(self, limit):
        mr = self.rmm.mr
        self.counted = mr.StatisticsResourceAdaptor(mr.CudaMemoryResource())
        return mr.ArenaMemoryResource(self.counted, arena_size=limit or None)


class Driver:
    """cuMemAllocFromPoolAsync and cuMemFreeAsync through ctypes, on a pool that retains all
    memory."""

    THRESHOLD, RESERVED_HIGH = 4, 6

    class Properties(ctypes.Structure):
        _fields_ = [("kind", ctypes.c_int), ("handles", ctypes.c_int), ("place", ctypes.c_int),
                    ("ordinal", ctypes.c_int), ("security", ctypes.c_void_p),
                    ("most", ctypes.c_size_t), ("rest", ctypes.c_ubyte * 56)]

    def __init__(self, options):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.ordinal, self.pool = options.ordinal, ctypes.c_void_p()
        context, version = ctypes.c_void_p(), ctypes.c_int()
        self.call("cuInit", 0)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        self.version = f"{version.value // 1000}.{version.value % 1000 // 10}"
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.ordinal)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        status = getattr(self.cuda, name)(*arguments)
        if status:
            raise Refused(name) if status == 2 else OSError(f"{name} gave error {status}")

    def open(self, limit):
        self.close()
        properties = self.Properties(1, 0, 1, self.ordinal, None, limit or 0)
        most = ctypes.c_uint64((1 << 64) - 1)
        self.call("cuMemPoolCreate", ctypes.byref(self.pool), ctypes.byref(properties))
        self.call("cuMemPoolSetAttribute", self.pool, self.THRESHOLD, ctypes.byref(most))

    def stream(self):
        stream = ctypes.c_void_p()
        self.call("cuStreamCreateWithPriority", ctypes.byref(stream), 1, 0)
        return stream.value

    def verbs(self):
        return self.wrap(self.cuda.cuMemAllocFromPoolAsync, self.cuda.cuMemFreeAsync)

    def empty_verbs(self):
        """Returns functions that return 0 for any arguments."""
        name = "pthread_equal"
        return self.wrap(ctypes.CDLL(None)[name], ctypes.CDLL(None)[name])

    def wrap(self, alloc, free):
        alloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
        free.argtypes = [ctypes.c_uint64, ctypes.c_void_p]
        address, pool = ctypes.c_uint64(), self.pool
        reference = ctypes.byref(address)

        def take(size, stream):
            status = alloc(reference, size, pool, stream)
            if status:
                raise Refused() if status == 2 else OSError(f"error {status}")
            return address.value

        return take, (lambda memory, stream: free(memory, stream))

    def peak(self):
        value = ctypes.c_uint64()
        self.call("cuMemPoolGetAttribute", self.pool, self.RESERVED_HIGH, ctypes.byref(value))
        return value.value

    def close(self):
        if self.pool:
            self.call("cuCtxSynchronize")
            self.call("cuMemPoolDestroy", self.pool)
            self.pool.value = None


class CudaCore:
    """The memory resource of cuda.core: the pool of the driver, from Python."""

    def __init__(self, options):
        try:
            import cuda.core as core

            core.DeviceMemoryResource
        except (ImportError, AttributeError):
            import cuda.core.experimental as core
        import cuda.core as package

        self.core = core
        self.version = getattr(package, "__version__", "unknown version")
        self.device = core.Device(options.ordinal)
        self.device.set_current()

    def open(self, limit):
        settings = self.core.DeviceMemoryResourceOptions(max_size=limit or 0)
        self.resource = self.core.DeviceMemoryResource(self.device, options=settings)
        try:
            self.resource.attributes.release_threshold = (1 << 64) - 1
        except AttributeError:
            pass

    def stream(self):
        return self.device.create_stream()

    def verbs(self):
        allocate = self.resource.allocate
        return ((lambda size, stream: allocate(size, stream=stream)),
                (lambda memory, stream: memory.close(stream)))

    def empty_verbs(self):
        return (lambda size, stream: size), (lambda memory, stream: None)

    def peak(self):
        return self.resource.attributes.reserved_mem_high

    def close(self):
        self.device.sync()


class Numba:
    """Numba has no pool: it allocates from the driver, and frees in small batches."""

    n_workloads = 4
    has_pool = False

    def __init__(self, options):
        import numba
        from numba import cuda

        self.version = numba.__version__
        cuda.select_device(options.ordinal)
        self.context = cuda.current_context()

    def open(self, limit):
        pass

    def stream(self):
        return 0

    def verbs(self):
        memalloc = self.context.memalloc
        return (lambda size, stream: memalloc(size)), (lambda memory, stream: None)

    def empty_verbs(self):
        return (lambda size, stream: size), (lambda memory, stream: None)

    def close(self):
        self.context.deallocations.clear()


class Library:
    """Blocks of gpumem through ctypes."""

    def __init__(self, options):
        path = options.library or ctypes.util.find_library("gpumem-1.0")
        if path is None:
            raise ImportError("libgpumem-1.0 is not found; --library names its file")
        self.gpumem = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        self.gobject = ctypes.CDLL("libgobject-2.0.so.0")
        self.version = os.path.basename(path)
        self.pool = None
        for name in ("device_find", "context_new", "stream_new", "memory_pool_new",
                     "memory_pool_alloc_block"):
            self.get(name).restype = ctypes.c_void_p
        self.device = self.make("device_find", options.device.encode())
        self.context = self.make("context_new", ctypes.c_void_p(self.device), 0)

    def get(self, name):
        return getattr(self.gpumem, "gpu_" + name)

    def make(self, name, *arguments):
        made = self.get(name)(*arguments, None)
        if made is None:
            raise OSError(f"gpu_{name} failed")
        return made

    def open(self, limit):
        self.close()
        self.pool = self.make("memory_pool_new", ctypes.c_void_p(self.context), 0, 0)
        self.get("memory_pool_set_limit")(ctypes.c_void_p(self.pool), ctypes.c_uint64(limit or 0))

    def stream(self):
        return self.make("stream_new", ctypes.c_void_p(self.context), 0)

    def verbs(self):
        return self.wrap(self.get("memory_pool_alloc_block"), self.get("memory_pool_free_block"))

    def empty_verbs(self):
        return self.wrap(ctypes.CDLL(None)["labs"], ctypes.CDLL(None)["labs"])

    def wrap(self, alloc, free):
        alloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
        free.argtypes = [ctypes.c_void_p] * 4
        alloc.restype, free.restype, pool = ctypes.c_void_p, None, self.pool

        def take(size, stream):
            block = alloc(pool, size, stream, None)
            if block is None:
                raise Refused()
            return block

        return take, (lambda memory, stream: free(pool, memory, stream, None))

    def peak(self):
        value = ctypes.c_uint64()
        self.gobject.g_object_get(ctypes.c_void_p(self.pool), b"peak-managed-bytes",
                                  ctypes.byref(value), None)
        return value.value

    def close(self):
        if self.pool is not None:
            self.gobject.g_object_unref(ctypes.c_void_p(self.pool))
            self.pool = None


RIVALS = {"gpumem by ctypes": Library, "PyTorch": Torch, "PyTorch expandable": TorchExpandable,
          "CuPy": CuPy, "cuMemAllocAsync": Driver, "cuda.core": CudaCore, "RMM pool": Rmm,
          "RMM arena": RmmArena, "Numba": Numba}

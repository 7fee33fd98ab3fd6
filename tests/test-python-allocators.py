# SPDX-License-Identifier: LGPL-2.1-or-later
"""gpumem.allocators puts other libraries on one pool, with one limit, and each of them raises its
own out-of-memory error. The libraries are small stand-ins here; benchmarks/adoption.py runs the
real ones on a GPU. A pool stays with its device, so each case runs in a separate process."""

import ctypes
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import types
import weakref

from python_util import Skip, equal, main, raises

MIB = 1 << 20
HERE = os.path.dirname(os.path.abspath(__file__))
CASE = "--case"


def install(**options):
    import gpumem.allocators
    return gpumem.allocators.install(**options)


def make_module(name, **members):
    module = types.ModuleType(name)
    module.__dict__.update(members)
    sys.modules[name] = module
    return module


def make_stream(installed):
    from gi.repository import Gpu
    return Gpu.Stream(installed.pool.context)


# --- stand-ins for the libraries ------------------------------------------------------------------


class CupyError(MemoryError):
    def __init__(self, size, total, limit=0):
        super().__init__(f"no memory for {size} bytes (allocated {total}, limit {limit})")


class CupyStream:
    def __init__(self, owner=None):
        self.owner = owner
        self.ptr = owner.get_native_handle() if owner else 0


def make_cupy():
    class PythonFunctionAllocator:
        def __init__(self, malloc, free):
            self.functions = malloc, free

        def malloc(self, size):
            return self.functions[0](size, 0)

    def set_allocator(malloc):
        cupy.malloc = malloc
        cupy.free = malloc.__self__.functions[1] if malloc else None
    cuda = make_module("cupy.cuda", PythonFunctionAllocator=PythonFunctionAllocator,
                       set_allocator=set_allocator, get_allocator=lambda: cupy.malloc,
                       get_current_stream=lambda: cupy.current,
                       memory=types.SimpleNamespace(OutOfMemoryError=CupyError))
    cupy = make_module("cupy", cuda=cuda, current=CupyStream(), malloc=None)
    return cupy


class CudaAPIError(Exception):
    def __init__(self, code, message):
        super().__init__(code, message)


def make_numba():
    class Manager:
        def __init__(self, context):
            self.context = context

    class MemoryPointer:
        def __init__(self, context, pointer, size, owner=None, finalizer=None):
            self.pointer, self.size, self.finalizer = pointer, size, finalizer

    def set_memory_manager(manager):
        assert manager(context=None).interface_version == 1        # as Numba does
        cuda.manager = driver._memory_manager = manager
    driver = make_module("numba.cuda.cudadrv.driver", CudaAPIError=CudaAPIError,
                         USE_NV_BINDING=False, _memory_manager=None)
    cudadrv = make_module("numba.cuda.cudadrv", driver=driver)
    cuda = make_module("numba.cuda", HostOnlyCUDAMemoryManager=Manager, MemoryPointer=MemoryPointer,
                       set_memory_manager=set_memory_manager, cudadrv=cudadrv,
                       MemoryInfo=lambda free, total: (free, total))
    make_module("numba", cuda=cuda)
    return cuda


def make_rmm():
    class CallbackMemoryResource:
        def __init__(self, allocate, deallocate):
            self.allocate, self.deallocate = allocate, deallocate

    mr = types.SimpleNamespace(CallbackMemoryResource=CallbackMemoryResource, resources={})
    mr.set_per_device_resource = mr.resources.__setitem__
    mr.get_per_device_resource = mr.resources.get
    return make_module("rmm", mr=mr)


def make_cuda_core():
    class MemoryResource:
        pass

    class Buffer:
        @classmethod
        def from_handle(cls, ptr, size, mr=None):
            buffer = cls()
            buffer.handle, buffer.size, buffer.memory_resource = ptr, size, mr
            return buffer

        def close(self, stream=None):
            self.memory_resource.deallocate(self.handle, self.size, stream)

    class CUDAError(Exception):
        pass

    devices = {}

    def get_device(ordinal):
        return devices.setdefault(ordinal, types.SimpleNamespace(memory_resource=None))
    utils = make_module("cuda.core._utils.cuda_utils", CUDAError=CUDAError)
    make_module("cuda.core._utils", cuda_utils=utils)
    core = make_module("cuda.core", MemoryResource=MemoryResource, Buffer=Buffer, Device=get_device,
                       CUDAError=CUDAError)
    make_module("cuda", core=core)
    return core


class NativeTorchAllocator:
    """Keeps the addresses of the functions, as PyTorch does."""

    def __init__(self, path, alloc, free):
        library = ctypes.CDLL(path)
        self.functions = {"alloc": getattr(library, alloc), "free": getattr(library, free)}

    def allocator(self):
        return self

    def __getattr__(self, name):
        if not name.startswith("set_"):
            raise AttributeError(name)
        return lambda address: self.functions.__setitem__(name, address)


def make_torch(is_late=False):
    def change_current_allocator(allocator):
        if is_late:
            raise RuntimeError("Can't swap an already initialized allocator")
        torch.allocator = allocator
    memory = types.SimpleNamespace(CUDAPluggableAllocator=NativeTorchAllocator,
                                   change_current_allocator=change_current_allocator)
    torch = make_module("torch", cuda=types.SimpleNamespace(memory=memory, MemPool=lambda a: a))
    return torch


# --- cases ----------------------------------------------------------------------------------------


def check_import_error(allocators):
    """The error of a library that is not installed keeps no frames of its callers."""
    class Content:
        pass

    def call():
        content = Content()
        try:
            allocators.install(libraries="cupy")
        except ImportError:
            return weakref.ref(content)
        raise AssertionError("the call did not fail")

    gc.disable()
    try:
        equal(call()(), None)
    finally:
        gc.enable()


def case_lone():
    """Nothing is imported for install(), and wrong arguments raise an error."""
    import gpumem.allocators as allocators
    installed = allocators.install()
    equal(installed.libraries, ())
    assert not {"torch", "cupy", "numba", "rmm", "cuda"} & set(sys.modules)
    with raises(ValueError, "install()", "jax"):
        allocators.install(libraries=("jax",))
    for name in (("cupy",), "cupy"):
        with raises(ImportError, "install()", "the library cupy cannot be imported"):
            allocators.install(libraries=name)
    check_import_error(allocators)
    with raises(ImportError, "torch_mem_pool()", "the library torch"):
        allocators.torch_mem_pool()
    assert allocators.install().pool is installed.pool
    from gi.repository import Gpu
    with raises(ValueError, "already has a pool"):
        allocators.install(pool=Gpu.MemoryPool(installed.pool.context))
    with raises(TypeError, "object"):
        allocators.install(pool=object())
    with raises(ValueError, "host", "cuda:0"):
        allocators.install(pool=Gpu.MemoryPool(Gpu.Context("host")))
    equal(installed.statistics["active-bytes"], 0)
    equal([block["state"] for segment in installed.snapshot() for block in segment["blocks"]],
          ["unmapped"])
    assert "nothing" in repr(installed)
    pool = allocators.DevicePool(0)
    equal(pool.alloc(0, 0), 0)
    address = pool.alloc(1000, 0)
    equal(installed.statistics["active-bytes"], 1000)
    pool.free(address, 0)
    with raises(ValueError, "is not the start of memory"):
        pool.free(address, 0)


def case_wrong_values():
    """Errors name the call, the argument and the value. None of them has an effect."""
    import gpumem.allocators as allocators
    for options, kind, *words in (
            ({"device": "cuda:0"}, TypeError, "device", "whole number", "'cuda:0'"),
            ({"device": True}, TypeError, "device", "True"),
            ({"device": -1}, ValueError, "device", "0 to 63", "-1"),
            ({"device": 64}, ValueError, "device", "64"),
            ({"device": 63}, RuntimeError, "cuda:63"),
            ({"limit": "8G"}, TypeError, "limit", "'8G'"),
            ({"limit": 1.5}, TypeError, "limit", "1.5"),
            ({"limit": -1}, ValueError, "limit", "-1"),
            ({"limit": 1 << 64}, ValueError, "limit", str(1 << 64)),
            ({"libraries": 5}, TypeError, "libraries", "5"),
            ({"libraries": (5,)}, ValueError, "library", "5")):
        with raises(kind, "gpumem.allocators.install()", *words):
            allocators.install(**options)
    from gi.repository import Gpu
    pool = Gpu.MemoryPool(Gpu.Context(Gpu.Device.find("cuda:0")), Gpu.MemoryPoolKind.BINS)
    equal(pool.hooks, None)
    with raises(RuntimeError, "gpumem.allocators.install()", "cuda:0", "has no addresses"):
        allocators.install(pool=pool)
    assert not allocators._load().gpumem_allocators_has_pool(0)
    installed, other = allocators.install(limit=8 * MIB), allocators.install()
    equal((installed.limit, other.limit), (8 * MIB, 8 * MIB))
    other.limit = 4 * MIB
    equal((installed.limit, installed.pool.limit), (4 * MIB, 4 * MIB))
    for value, kind in ((-1, ValueError), ("x", TypeError), (None, TypeError)):
        with raises(kind, "Installed.limit", repr(value)):
            installed.limit = value
    with raises(ValueError, "Installed.trim()", "-5"):
        installed.trim(-5)
    pool = allocators.DevicePool(0)
    for call, kind, *words in (
            (lambda: allocators.DevicePool(None), TypeError, "DevicePool()", "None"),
            (lambda: pool.alloc(-1, 0), ValueError, "alloc()", "size", "-1"),
            (lambda: pool.alloc(1.5, 0), TypeError, "alloc()", "size", "1.5"),
            (lambda: pool.alloc(1, "s"), TypeError, "alloc()", "stream", "'s'"),
            (lambda: pool.free(None, 0), TypeError, "free()", "address", "None"),
            (lambda: pool.free(64, 0), ValueError, "free()", "0x40", "cuda:0"),
            (lambda: pool.end_stream("s"), TypeError, "end_stream()", "'s'")):
        with raises(kind, "gpumem.allocators.DevicePool", *words):
            call()
    # The driver of NVIDIA would crash
    if installed.pool.context.device.name.startswith("Stand-in"):
        with raises(RuntimeError, "gpumem.allocators.DevicePool.alloc(): cuStream", "INVALID"):
            pool.alloc(100, 5)
    equal((installed.limit, installed.statistics["n-allocs"]), (4 * MIB, 0))


def case_failed():
    """After a failure, the libraries, the pool and its limit are as before."""
    import gpumem.allocators as allocators
    from gi.repository import Gpu
    cupy, cuda, rmm, core, torch = make_cupy(), make_numba(), make_rmm(), make_cuda_core(), \
        make_torch(is_late=True)
    torch.__version__ = "2.99"
    numba = sys.modules["numba.cuda.cudadrv.driver"]

    def get_state():
        return (cupy.malloc, numba._memory_manager, rmm.mr.resources.get(0),
                core.Device(0).memory_resource)
    equal(get_state(), (None,) * 4)
    pool = Gpu.MemoryPool(Gpu.Context(Gpu.Device.find("cuda:0")))
    pool.limit = 3 * MIB
    for given in (None, pool):
        with raises(RuntimeError, "install()", "torch 2.99", "cuda:0", "torch_mem_pool()"):
            allocators.install(pool=given, limit=MIB)
        equal(get_state(), (None,) * 4)
        assert not allocators._load().gpumem_allocators_has_pool(0)
    equal(pool.limit, 3 * MIB)
    torch.cuda.MemPool = None
    with raises(TypeError):
        allocators.torch_mem_pool(pool)
    assert not allocators._load().gpumem_allocators_has_pool(0)
    del rmm.mr.set_per_device_resource
    with raises(RuntimeError, "library rmm", "set_per_device_resource"):
        allocators.install(libraries=("cupy", "numba", "rmm"))
    equal(get_state(), (None,) * 4)

    # A pool whose memory is in use stays
    installed = allocators.install(pool=pool, libraries="cupy", limit=2 * MIB)
    assert installed.pool is pool
    before = get_state()
    with raises(RuntimeError, "torch"):
        allocators.install(libraries=("torch", "cupy", "numba"), limit=MIB)
    equal((get_state(), installed.limit), (before, 2 * MIB))
    address = cupy.malloc(1000)
    equal(pool.active_bytes, 1000)
    cupy.free(address, 0)
    assert cuda.manager is not None


def case_failed_in_use():
    """A pool stays if another thread allocates from it before install() fails."""
    import gpumem.allocators as allocators
    torch = make_torch()
    addresses = []

    def fail(allocator):
        addresses.append(allocators.DevicePool(0).alloc(1000, 0))
        raise RuntimeError("late")
    torch.cuda.memory.change_current_allocator = fail
    with raises(RuntimeError, "late"):
        allocators.install(limit=4 * MIB)
    installed = allocators.install(libraries=())
    equal((installed.limit, installed.pool.active_bytes), (0, 1000))
    allocators.DevicePool(0).free(addresses[0], 0)
    equal(installed.pool.active_bytes, 0)


def case_own_pool():
    """A pool of the program, with its limit."""
    from gi.repository import Gpu
    pool = Gpu.MemoryPool(Gpu.Context(Gpu.Device.find("cuda:0")))
    pool.limit = 16 * MIB
    cupy = make_cupy()
    installed = install(pool=pool)
    assert installed.pool is pool
    equal((installed.libraries, installed.limit), (("cupy",), 16 * MIB))
    address = cupy.malloc(3 * MIB)
    equal(pool.active_bytes, 3 * MIB)
    cupy.free(address, 0)
    installed.trim()
    equal(pool.active_bytes, 0)


def case_pool_of_c():
    """A device whose pool comes from C keeps it."""
    import gpumem.allocators as allocators
    pool = allocators.DevicePool(0)
    address = pool.alloc(1000, 0)
    installed = allocators.install()
    equal(installed.statistics["active-bytes"], 1000)
    pool.free(address, 0)


def case_cupy():
    cupy = make_cupy()
    installed = install(libraries=("cupy",), limit=8 * MIB)
    stream = make_stream(installed)
    first = cupy.malloc(6 * MIB)
    with raises(CupyError, "6291456", "limit 8388608"):
        cupy.malloc(6 * MIB)
    cupy.current = CupyStream(stream)
    cupy.free(first, 0)
    second = cupy.malloc(6 * MIB)
    cupy.free(second, 0)
    equal(installed.statistics["active-blocks"], 0)
    for _ in range(300):
        cupy.current = CupyStream(make_stream(installed))
        cupy.free(cupy.malloc(1000), 0)


def case_streams():
    """The streams of live blocks are kept, however many. Others are forgotten, so that the library
    can destroy them."""
    installed = install()
    from gpumem import _libraries
    blocks = _libraries.Blocks(0)
    n = _libraries.MOST_STREAMS + 20
    streams = [CupyStream(make_stream(installed)) for _ in range(n)]
    alive = [weakref.ref(stream) for stream in streams]
    addresses = [blocks.alloc(1000, stream) for stream in streams]
    again = blocks.alloc(1000, streams[0])
    first = [streams[0].ptr, streams[1].ptr]
    del streams
    assert all(one() is not None for one in alive)
    equal(blocks.alloc(0, alive[2]()), 0)
    with raises(MemoryError, str(1 << 60)):
        blocks.alloc(1 << 60, alive[2]())
    for address in addresses:
        blocks.free(address)
    for _ in range(n):
        blocks.free(blocks.alloc(100, CupyStream(make_stream(installed))))
    assert len(blocks.streams.kept) <= _libraries.MOST_STREAMS
    assert first[0] in blocks.streams.kept and alive[0]() is not None, "it has a live block"
    assert first[1] not in blocks.streams.kept and alive[1]() is None
    blocks.free(again)
    equal((blocks.streams.counts, installed.statistics["active-blocks"]), ({}, 0))


def case_numba():
    cuda = make_numba()
    installed = install(limit=8 * MIB)
    manager = cuda.manager(types.SimpleNamespace(device=types.SimpleNamespace(id=0)))
    manager.initialize()
    pointer = manager.memalloc(6 * MIB)
    equal((pointer.size, installed.statistics["active-bytes"]), (6 * MIB, 6 * MIB))
    equal(manager.get_memory_info(), (2 * MIB, 8 * MIB))
    with raises(CudaAPIError, "CUDA_ERROR_OUT_OF_MEMORY"):
        manager.memalloc(6 * MIB)
    pointer.finalizer()
    equal(installed.statistics["active-bytes"], 0)
    equal(manager.interface_version, 1)


def case_rmm():
    rmm = make_rmm()
    installed = install(limit=8 * MIB)
    resource = rmm.mr.resources[0]
    stream = make_stream(installed)
    address = resource.allocate(6 * MIB, stream)
    with raises(MemoryError, "6291456"):
        resource.allocate(6 * MIB, stream)
    resource.deallocate(address, 6 * MIB, stream)
    resource.deallocate(0, 0, stream)
    for wrong, *words in (("s", "'s'"),
                          (types.SimpleNamespace(__cuda_stream__=(1, 0)), "version 0", "(1, 0)"),
                          (types.SimpleNamespace(__cuda_stream__=5), "SimpleNamespace", "5")):
        with raises(TypeError, "stream", *words):
            resource.allocate(100, wrong)
    equal(installed.statistics["active-bytes"], 0)


def case_cuda_core():
    core = make_cuda_core()
    installed = install(limit=8 * MIB)
    resource = core.Device(0).memory_resource
    stream = make_stream(installed)
    buffer = resource.allocate(6 * MIB, stream=stream)
    equal((buffer.size, buffer.memory_resource), (6 * MIB, resource))
    with raises(core.CUDAError, "CUDA_ERROR_OUT_OF_MEMORY"):
        resource.allocate(6 * MIB, stream=stream)
    buffer.close(stream)
    resource.allocate(6 * MIB, stream=stream).close()
    equal(installed.statistics["active-bytes"], 0)
    equal((resource.device_id, resource.is_device_accessible, resource.is_host_accessible),
          (0, True, False))


def case_shared():
    """Three libraries, one limit; a handler of out-of-memory makes room for another library."""
    cupy, rmm, torch = make_cupy(), make_rmm(), make_torch()
    installed = install(limit=8 * MIB)
    equal(installed.libraries, ("torch", "cupy", "rmm"))
    alloc, free = torch.allocator.functions["alloc"], torch.allocator.functions["free"]
    alloc.restype = ctypes.c_void_p
    alloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    free.restype = None
    held = [cupy.malloc(5 * MIB)]
    requests = []

    def make_room(pool, requested):
        requests.append(requested)
        if not held:
            return False
        cupy.free(held.pop(), 0)
        return True
    handler = installed.pool.connect("out-of-memory", make_room)
    address = alloc(6 * MIB, 0, None)
    assert address
    equal((requests, held), ([6 * MIB], []))
    with raises(MemoryError, "5242880"):
        rmm.mr.resources[0].allocate(5 * MIB, 0)
    installed.pool.disconnect(handler)
    free(address, 6 * MIB, 0, None)
    address = rmm.mr.resources[0].allocate(5 * MIB, 0)
    rmm.mr.resources[0].deallocate(address, 5 * MIB, 0)
    assert installed.statistics["peak-managed-bytes"] <= 8 * MIB


def case_reset_peaks():
    """The peaks can be reset without PyGObject."""
    import gpumem.allocators
    gpumem.allocators._import_gpu = lambda: None
    installed = gpumem.allocators.install(libraries=())
    equal(installed.pool, None)
    pool = gpumem.allocators.DevicePool(0)
    kept, dropped = pool.alloc(MIB, 0), pool.alloc(3 * MIB, 0)
    pool.free(dropped, 0)
    equal(installed.statistics["peak-active-bytes"], 4 * MIB)
    installed.reset_peaks()
    equal(installed.statistics["peak-active-bytes"], MIB)
    pool.free(kept, 0)


def case_torch_late():
    make_torch(is_late=True)
    import gpumem.allocators
    with raises(RuntimeError, "torch_mem_pool()"):
        install()
    pool = gpumem.allocators.torch_mem_pool()
    assert pool.functions["alloc"] and pool.functions["set_record_stream_fn"]


def case_torch_functions():
    """Every hook of PyTorch, with the types of C."""
    torch = make_torch()
    installed = install()
    functions = torch.allocator.functions
    for name in ("init", "reset", "memory_fraction", "base_alloc", "record_stream",
                 "end_allocate_to_pool"):
        assert functions[f"set_{name}_fn"]
    assert functions["set_begin_allocate_to_pool"] and functions["set_release_pool"]

    def get(name, result, *types_):
        return ctypes.CFUNCTYPE(result, *types_)(functions[name])
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    alloc, free = functions["alloc"], functions["free"]
    alloc.restype, alloc.argtypes = pointer, [ctypes.c_ssize_t, ctypes.c_int, pointer]
    free.restype, free.argtypes = None, [pointer, ctypes.c_ssize_t, ctypes.c_int, pointer]
    get("set_init_fn", None, ctypes.c_int)(1)
    stream, other = make_stream(installed), make_stream(installed)
    address = alloc(3 * MIB, 0, stream.get_native_handle())
    found = size()
    base = get("set_base_alloc_fn", pointer, pointer, ctypes.POINTER(size))
    equal(base(address + MIB, ctypes.byref(found)), address)
    equal(found.value, 3 * MIB)
    equal(base(64, ctypes.byref(found)), 64)
    record = get("set_record_stream_fn", None, pointer, pointer)
    record(address, other.get_native_handle())
    record(None, None)
    free(address, 3 * MIB, 0, stream.get_native_handle())
    free(None, 0, 0, None)
    equal(installed.statistics["active-bytes"], 0)
    for _ in range(3):
        stream.synchronize()
        other.synchronize()
        get("set_reset_fn", None)()
    equal(installed.statistics["managed-bytes"], 0)
    get("set_memory_fraction_fn", None, ctypes.c_double, ctypes.c_int)(0.5, 0)
    total = installed.pool.context.device.memory_size \
        if hasattr(installed.pool.context.device, "memory_size") else 0
    assert installed.limit > 0 and (not total or abs(installed.limit - total / 2) < MIB)
    threads = [threading.Thread(target=lambda: [free(alloc(n * 100, 0, None), 0, 0, None)
                                                for n in range(1, 500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(installed.statistics["active-blocks"], 0)


def build_fake_torch(folder):
    compiler = shutil.which("c++")
    if compiler is None:
        raise Skip("no C++ compiler")
    source, before = os.path.join(HERE, "fake-torch.cpp"), []
    for name, macro in (("libc10.so", "FAKE_C10"), ("libc10_cuda.so", "FAKE_C10_CUDA"),
                        ("libfake_torch.so", "FAKE_TORCH")):
        path = os.path.join(folder, name)
        subprocess.run([compiler, "-shared", "-fPIC", "-std=c++17", f"-D{macro}", source,
                        "-Wl,--no-as-needed", *before, f"-Wl,-soname,{name}",
                        f"-Wl,-rpath,{folder}", "-o", path], check=True)
        before.append(path)
    return before[-1]


def case_torch_cpp():
    """Errors and filters with the types of C++."""
    with tempfile.TemporaryDirectory() as folder:
        path = build_fake_torch(folder)
        torch = make_torch()
        installed = install(limit=8 * MIB)
        functions = torch.allocator.functions
        fake = ctypes.CDLL(path)
        fake.fake_alloc.restype = ctypes.c_void_p
        kind, text = ctypes.c_int(), ctypes.create_string_buffer(1024)

        def alloc(size, device=0, stream=0):
            text.value = b""
            return fake.fake_alloc(functions["alloc"], ctypes.c_ssize_t(size), device,
                                   ctypes.c_void_p(stream), ctypes.byref(kind), text)

        def free(address, stream=0):
            functions["free"](ctypes.c_void_p(address), ctypes.c_ssize_t(0), 0,
                              ctypes.c_void_p(stream))
        equal(alloc(9 * MIB), None)
        equal(kind.value, 1)
        assert b"9437184" in text.value and b"gpumem_torch_alloc" in text.value, text.value
        equal(alloc(100, device=63), None)
        equal(kind.value, 2)
        address = alloc(100)
        equal(kind.value, 0)
        free(address)

        stream, other = make_stream(installed), make_stream(installed)
        handle, wrong = stream.get_native_handle(), other.get_native_handle()
        begin = ctypes.c_void_p(functions["set_begin_allocate_to_pool"])
        end = ctypes.c_void_p(functions["set_end_allocate_to_pool_fn"])
        release = ctypes.c_void_p(functions["set_release_pool"])
        number = ctypes.c_ulonglong
        fake.fake_begin(begin, 0, number(0), number(5), ctypes.c_void_p(handle))
        equal(fake.fake_live(), 1)
        private = alloc(1000, stream=handle)
        shared = alloc(1000, stream=wrong)
        free(private, handle)
        free(shared, wrong)
        fake.fake_end(end, 0, number(0), number(5))
        equal(fake.fake_live(), 0)
        assert alloc(1000, stream=handle) != private
        fake.fake_begin(begin, 0, number(0), number(5), ctypes.c_void_p(handle))
        equal(alloc(1000, stream=handle), private)
        fake.fake_end(end, 0, number(0), number(5))
        free(private, handle)
        fake.fake_end(release, 0, number(0), number(5))


def run_case(fixture, name):
    if fixture.device.id != "cuda:0":
        raise Skip("for the first CUDA device")
    done = subprocess.run([sys.executable, os.path.abspath(__file__), CASE, name],
                          capture_output=True, text=True, check=False)
    if done.returncode == 77:
        raise Skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr


def add_tests():
    for name in list(globals()):
        if name.startswith("case_"):
            globals()[f"test_{name[5:]}"] = lambda fixture, case=name: run_case(fixture, case)


if CASE in sys.argv:
    try:
        globals()[sys.argv[-1]]()
    except Skip as reason:
        print(reason)
        sys.exit(77)
    sys.exit(0)
add_tests()
sys.exit(main(globals()))

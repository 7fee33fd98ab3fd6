#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Python equivalents of PyOpenCL's tools, on every device that GPUMEM_TEST selects (parity rows
T15, T17, T18, T19, D56)."""

import gc
import struct
import sys
import weakref

from python_util import Gpu, equal, main, need, need_numpy, np, raises, run_threads

CAPABILITIES = Gpu.Capabilities


# --- Gpu.memoize(): results cached for an object --------------------------------------------

class Owner:
    pass


def counted(**kwargs):
    """Returns a memoized function, and the list of calls that executed it."""
    calls = []

    @Gpu.memoize(**kwargs)
    def function(owner, *args, **kwargs):
        calls.append((args, kwargs))
        return Owner()
    return function, calls


def plain_memoize():
    function, calls = counted()
    one, other = Owner(), Owner()
    first = function(one, 1, flag="a")
    assert function(one, 1, flag="a") is first
    assert function(one, 2, flag="a") is not first
    assert function(one, 1, flag="b") is not first
    assert function(one, 1) is not first
    assert function(other, 1, flag="a") is not first
    equal(len(calls), 5)
    equal(len(function.cache), 5)
    equal(function.__name__, "function")
    function.cache_clear()
    assert function(one, 1, flag="a") is not first
    equal(len(calls), 6)
    with raises(TypeError, "unhashable"):
        function(one, [])


def plain_memoize_alike():
    """Some arguments have the same text or compare equal, but must not share a result."""
    function, calls = counted()
    owner = Owner()
    for args, kwargs in ((((1,), (("a", 2),)), {}), ((1,), {"a": 2}), ((1,), {}), ((1.0,), {}),
                         ((True,), {}), ((), {"a": 1}), ((), {"a": 1.0}), ((), {}),
                         ((1, 2), {}), ((), {"b": 2, "a": 1}), ((1, ("a", 2)), {})):
        found = function(owner, *args, **kwargs)
        assert function(owner, *args, **kwargs) is found
        equal(calls[-1], (args, kwargs))
    equal(len(calls), 11)
    assert function(owner, a=1, b=2) is function(owner, b=2, a=1)
    equal(len(calls), 11)


def plain_memoize_key():
    function, calls = counted(key=lambda numbers: tuple(numbers))
    owner = Owner()
    assert function(owner, [1, 2]) is function(owner, [1, 2])
    assert function(owner, [1, 2]) is not function(owner, [2, 1])
    equal(len(calls), 2)


def plain_memoize_dies():
    """Memoized results are freed with their object, even if the object is in a reference cycle."""
    function, calls = counted()
    owner, other = Owner(), Owner()
    owner.itself = owner
    result = weakref.ref(function(owner))
    kept = weakref.ref(function(other))
    del owner
    gc.collect()
    equal(result(), None)
    assert kept() is function(other)
    equal(len(function.cache), 1)
    Gpu.clear_caches()
    equal(kept(), None)
    equal(len(function.cache), 0)


def plain_memoize_failure():
    calls = []

    @Gpu.memoize
    def function(owner):
        calls.append(owner)
        raise KeyError("always")
    owner = Owner()
    for _ in range(2):
        with raises(KeyError, "always"):
            function(owner)
    equal(len(calls), 2)


def plain_memoize_methods():
    class Maker(Owner):
        @Gpu.memoize
        def make(self, number):
            return [self.name, number]
    one, other = Maker(), Maker()
    one.name, other.name = "one", "other"
    equal(one.make(1), ["one", 1])
    equal(other.make(1), ["other", 1])
    assert one.make(1) is one.make(1)


def plain_memoize_threads():
    """All threads get the same result, even if another object is freed at the same time."""
    function, calls = counted()
    owner = Owner()
    results = []

    def work(thread):
        for number in range(200):
            results.append((number, function(owner, number)))
            function(Owner(), number)

    run_threads(4, work)
    equal(len(results), 800)
    assert all(result is function(owner, number) for number, result in results)
    gc.collect()
    equal(len(function.cache), 200)


def test_memoize_kernels(fixture):
    """Memoized kernels hold a reference to their context, but are still freed when the program
    drops the context."""
    need(fixture, CAPABILITIES.SOURCE)
    calls = []

    @Gpu.memoize
    def get_kernel(context, type_name):
        calls.append(type_name)
        return Gpu.Program(context, "__kernel void k (__global TYPE *p) { p[0] += 3; }",
                           f"-DTYPE={type_name}").k

    for type_name in ("int", "float", "int"):
        get_kernel(fixture.context, type_name)
    equal(calls, ["int", "float"])
    numbers = fixture.buffer(struct.pack("=i", 4))
    get_kernel(fixture.context, "int")(fixture.stream, 1, None, numbers)
    equal(numbers.read(), struct.pack("=i", 7))

    context = Gpu.Context(fixture.device)
    get_kernel(context, "int")
    get_kernel(context.default_stream.context, "int")
    equal(calls, ["int", "float", "int"])
    del context
    gc.collect()
    equal(len(get_kernel.cache), 2)

    Gpu.clear_caches()
    equal(len(get_kernel.cache), 0)
    get_kernel(fixture.context, "int")
    equal(len(calls), 4)


# --- arguments of kernels (T17) ----------------------------------------------------------------

def plain_parse_arguments():
    parsed = Gpu.parse_arguments("__global const float *x, unsigned int n, float4 *restrict v,"
                                 " __local int *shared, __read_only image2d_t i, sampler_t s,"
                                 " size_t size, long long a, struct point p, double d[]")
    equal(parsed, [
        Gpu.VectorArgument("float", "x", const=True), Gpu.ScalarArgument("uint", "n"),
        Gpu.VectorArgument("float4", "v"), Gpu.OtherArgument("__local int *shared", "shared"),
        Gpu.OtherArgument("__read_only image2d_t i", "i"), Gpu.OtherArgument("sampler_t s", "s"),
        Gpu.ScalarArgument("ulong", "size"), Gpu.ScalarArgument("long", "a"),
        Gpu.ScalarArgument("struct point", "p"), Gpu.VectorArgument("double", "d")])
    equal(Gpu.parse_arguments(""), [])
    equal(Gpu.parse_arguments("void"), [])
    equal(Gpu.parse_arguments(parsed), parsed)
    equal(Gpu.parse_arguments(["int n", Gpu.ScalarArgument("int", "m")]),
          Gpu.parse_arguments("int n, int m"))
    # Types of the program, also if NumPy has a type with that code
    equal([argument.type_name for argument in Gpu.parse_arguments("u8 *p, i2 n")], ["u8", "i2"])
    equal(eval(repr(parsed)), parsed)
    assert parsed[0] != Gpu.VectorArgument("float", "x") and parsed[0] != 3
    equal(len({*parsed, *parsed}), len(parsed))
    with_offset, = Gpu.parse_arguments("float *x", with_offset=True)
    equal(with_offset, Gpu.VectorArgument("float", "x", True))
    equal(eval(repr(with_offset)), with_offset)


def plain_parse_refused():
    for text, word in (("float", "float"), ("float **x", "**x"), ("*x", "*x"), ("int 3", "int 3"),
                       ("float x,", "''"), ("void x", "lacks a *"), ("__global int x", "lacks a *"),
                       ("const x", "const x"), ("int n, float n", "'n'"),
                       ("long float x", "not a type"), ("unsigned float x", "is not a type"),
                       ("int &x", "int &x"),
                       ("signed unsigned int x", "not a type"), ("unsigned int", "lacks"),
                       ("int x[3]", "int x[3]")):
        with raises(ValueError, word):
            Gpu.parse_arguments(text)
    with raises(ValueError, "not a valid name"):
        Gpu.ScalarArgument("int", "a b")
    with raises(ValueError, "not a type"):
        Gpu.ScalarArgument("int *", "a")


def plain_declare_arguments():
    text = "const uchar *x, long n, half h, ulong4 v, some_type t"
    arguments = Gpu.parse_arguments(text)
    equal(Gpu.declare_arguments(arguments, "opencl"),
          "__global const uchar *x, long n, half h, ulong4 v, some_type t")
    equal(Gpu.declare_arguments(arguments, "cuda"),
          "const unsigned char *x, long long n, __half h, ulonglong4 v, some_type t")
    with raises(ValueError, "half"):
        Gpu.declare_arguments(arguments)
    for text, word in (("float8 v", "float8"), ("float3 *v", "size"), ("__local int *s", "__local"),
                       ("image2d_t i", "image2d_t")):
        Gpu.declare_arguments(text)
        with raises(ValueError, word):
            Gpu.declare_arguments(text, "cuda")
    with raises(ValueError, "metal"):
        Gpu.declare_arguments("int n", "metal")
    vector = Gpu.VectorArgument("int", "x", with_offset=True)
    equal(vector.declare("cuda"), "int *x__base, long long x__offset")
    equal(vector.get_prologue("cuda"), "int *x = (int *) ((char *) x__base + x__offset);")
    equal(Gpu.ScalarArgument("int", "n").get_prologue(), "")


def plain_argument_dtypes():
    need_numpy()
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
                  "float16", "float32", "float64"):
        equal(Gpu.ScalarArgument(np.dtype(dtype), "x").dtype, np.dtype(dtype))
        equal(Gpu.VectorArgument(getattr(np, dtype), "x").dtype, np.dtype(dtype))
        equal(Gpu.VectorArgument(dtype, "x").dtype, np.dtype(dtype))
    equal(Gpu.ScalarArgument(float, "x").type_name, "double")
    equal(Gpu.ScalarArgument("float", "x").type_name, "float")
    equal(Gpu.ScalarArgument(np.bool_, "x").type_name, "uchar")
    equal(Gpu.ScalarArgument("float3", "x").dtype.itemsize, 16)
    equal(Gpu.ScalarArgument("point", "x").dtype, None)
    for dtype in (complex, "datetime64[D]", [("a", "i4")]):
        with raises(ValueError):
            Gpu.ScalarArgument(dtype, "x")


def plain_bind_arguments():
    text = "char a, ushort b, float c, double3 d, point p"
    bound = Gpu.bind_arguments(text, (-1, True, 3, (1, 2, 3), b"1234"))
    equal(bound, [b"\xff", struct.pack("=H", 1), struct.pack("=f", 3),
                  struct.pack("=4d", 1, 2, 3, 0), b"1234"])
    for values, error, word in (((200, 1, 3, (1, 2, 3), b""), OverflowError, "200"),
                                ((1, -1, 3, (1, 2, 3), b""), OverflowError, "b is a ushort"),
                                ((1, 1, 1e300, (1, 2, 3), b""), OverflowError, "1e+300"),
                                ((1.5, 1, 1, (1, 2, 3), b""), TypeError, "argument a of type "
                                 "char cannot be 1.5, a float"),
                                ((1, 1, 1, 5, b""), TypeError, "d of type double3 cannot be 5"),
                                ((1, 1, 1, (1, 2), b""), ValueError, "double3"),
                                ((1,), TypeError, "5 arguments: a, b, c, d, p")):
        with raises(error, word):
            Gpu.bind_arguments(text, values)


def plain_bind_arrays():
    """An array of one element counts as the element, and an array of more elements is refused."""
    need_numpy()
    for dtype, shape in (("i4", ()), ("u1", (1,)), (">i8", (1, 1)), ("?", ())):
        equal(Gpu.bind_arguments("float x, long y", [np.ones(shape, dtype)] * 2),
              [struct.pack("=f", 1), struct.pack("=q", 1)])
    with raises(OverflowError, "x is a char"):
        Gpu.bind_arguments("char x", [np.array(128)])
    with raises(TypeError, "argument x of type char cannot be array([1.5])"):
        Gpu.bind_arguments("char x", [np.array([1.5])])
    for shape in ((2,), (0,), (1, 2)):
        for text in ("float x", "int x"):
            with raises(TypeError, "argument x", f"an array of shape {shape}"):
                Gpu.bind_arguments(text, [np.ones(shape, "i4")])


AXPY = "const float *x, float *y, int n, float a"


def test_argument_offsets(fixture):
    vector = Gpu.VectorArgument("int", "x", with_offset=True)
    buffer = fixture.buffer(512)
    equal(Gpu.bind_arguments([vector], [(buffer, 512)]), [buffer, 512])
    for offset in (-4, 513, 1024):
        with raises(ValueError, "argument x", str(offset), "512"):
            Gpu.bind_arguments([vector], [(buffer, offset)])


def launch_axpy(fixture, dialect, with_offset):
    arguments = Gpu.parse_arguments(AXPY, with_offset)
    start, index = {"cuda": ('extern "C" __global__ void', "blockIdx.x * blockDim.x + threadIdx.x")
                    }.get(dialect, ("__kernel void", "get_global_id (0)"))
    prologue = " ".join(argument.get_prologue(dialect) for argument in arguments)
    source = (f"{start} axpy ({Gpu.declare_arguments(arguments, dialect)}) {{ {prologue} "
              f"int i = (int) ({index}); if (i < n) y[i] += a * x[i]; }}")
    kernel = Gpu.Program(fixture.context, source).axpy
    x = fixture.buffer(struct.pack("=20f", *range(20)))
    y = fixture.buffer(struct.pack("=20f", *[100] * 20))
    values = ((x, 12), (y, 8), 10, 0.5) if with_offset else (x, y, 10, 0.5)
    kernel(fixture.stream, 10, None, *Gpu.bind_arguments(arguments, values))
    expected = [100.0] * 20
    for i in range(10):
        expected[i + 2 * with_offset] += 0.5 * (i + 3 * with_offset)
    equal(list(struct.unpack("=20f", y.read())), expected)


def test_argument_kernels(fixture):
    """A declared kernel builds, and accepts the bound arguments."""
    need(fixture, CAPABILITIES.SOURCE)
    dialects = ["portable", "cuda" if fixture.device.backend == "cuda" else "opencl"]
    for dialect in dialects:
        for with_offset in (False, True):
            launch_axpy(fixture, dialect, with_offset)


def test_argument_arrays(fixture):
    """An array over memory can be bound to an argument that is memory with an offset."""
    need_numpy()
    array = Gpu.HostMemory.zeros(fixture.context, 20, np.int32)
    argument = Gpu.VectorArgument(np.int32, "x", with_offset=True)
    memory, offset = Gpu.bind_arguments([argument], [array[5:]])
    equal(memory, Gpu.memory_of(array))
    equal(offset, 20)
    equal(Gpu.bind_arguments([argument], [None]), [None, 0])
    equal(Gpu.bind_arguments("int *x", [None]), [None])


# --- traits of devices (T18, T19) ------------------------------------------------------------

def test_traits(fixture):
    device = fixture.device
    traits = device.traits
    assert traits["simd-group-size"] >= 1 and traits["work-group-size-multiple"] >= 1
    for name, capability in (("fp64", "FP64"), ("fp16", "FP16"), ("svm-coarse", "SVM_COARSE"),
                             ("svm-fine", "SVM_FINE"), ("svm-system", "SVM_SYSTEM"),
                             ("svm-atomics", "SVM_ATOMICS")):
        equal(traits[name], bool(device.capabilities & getattr(CAPABILITIES, capability)), name)
    if device.backend == "cuda":
        major, minor = traits["nv-compute-capability"]
        equal(device.attributes["compute-capability-major"], major)
        equal(traits["local-memory-bank-count"], 32)
    if device.capabilities & CAPABILITIES.SOURCE:
        source = "__kernel void k (__global float *p) { p[0] = p[0] * p[0] + 1; }"
        options = traits["fast-inaccurate-build-options"]
        kernel = Gpu.Program(fixture.context, source, options).k
        numbers = fixture.buffer(struct.pack("=f", 3))
        kernel(fixture.stream, 1, None, numbers)
        equal(numbers.read(), struct.pack("=f", 10))


def test_bank_conflicts(fixture):
    text, ways = fixture.device.explain_bank_conflicts(4, (32, 32))
    if "local-memory-bank-count" in fixture.device.traits:
        equal(ways, 32)
        equal(fixture.device.explain_bank_conflicts(4, (32, 33))[1], 1)
    else:
        equal(ways, 1)
        assert "no banks" in text, text


# --- profilers (D56) -----------------------------------------------------------------------------

def test_profiled(fixture):
    """The driver gets one call when the `with` statement begins, and one when it ends, even after
    an exception."""
    if fixture.device.backend != "cuda":
        with raises(Gpu.Error.NOT_SUPPORTED, "start_profiler"):
            fixture.context.start_profiler()
        with raises(Gpu.Error.NOT_SUPPORTED, "stop_profiler"):
            fixture.context.stop_profiler()
        return
    before = profiler_calls()
    with fixture.context.profiled() as context:
        assert context is fixture.context
        fixture.buffer(64).fill(1)
    with raises(KeyError):
        with fixture.context.profiled():
            raise KeyError
    after = profiler_calls()
    if before is not None:
        equal([n - m for n, m in zip(after, before)], [2, 2])


def profiler_calls():
    """Returns the number of calls of the stand-in for the CUDA driver, or None with a real
    driver."""
    import ctypes
    try:
        count = ctypes.CDLL("libcuda.so.1").gpumem_cuda_driver_get_count
    except (AttributeError, OSError):
        return None
    count.restype = ctypes.c_uint64
    return [count(name) for name in (b"cuProfilerStart", b"cuProfilerStop")]


if __name__ == "__main__":
    sys.exit(main(globals()))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Calls that programs bring along from NumPy, PyOpenCL, PyCUDA and Numba give the result that NumPy
or that library documents, or raise an error that names the alternative."""

import copy
import inspect
import itertools
import operator
import pickle
import platform
import random
import subprocess
import sys
import threading
import time
import warnings
from unittest import mock

from gi import _gi
from gi.module import get_introspection_module

from python_util import DEADLINE, Skip, equal, main, need, need_numpy, np, raises
from gi.repository import Gpu

ROWS = """
__kernel void
rows (__global float *to, __global const float *from)
{
  size_t i = get_global_id (0);

  to[i] = from[i];
}
"""


def same(got, expected):
    got, expected = np.asarray(got), np.asarray(expected)
    equal((got.shape, got.dtype), (expected.shape, expected.dtype))
    assert got.tobytes() == expected.tobytes(), f"{got} and not {expected}"


# --- the order of bytes --------------------------------------------------------------------------

def layouts():
    """Yields contiguous arrays in both orders, which PyOpenCL copies as they lie in memory."""
    numbers = np.arange(12, dtype=np.float32).reshape(3, 4)
    yield numbers
    yield np.asfortranarray(numbers)
    yield numbers.T
    yield numbers[1:, None]
    yield np.asfortranarray(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    yield np.asfortranarray(np.arange(6).astype("datetime64[s]").reshape(2, 3))
    yield np.zeros((2, 2), "float16", order="F")
    yield np.asfortranarray(np.arange(1 << 16, dtype=np.float32).reshape(2, -1))


def gaps():
    """Yields arrays that PyOpenCL refuses."""
    numbers = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    yield numbers[:, :, ::2]
    yield numbers[:, ::-1]
    yield numbers.transpose(1, 0, 2)
    yield numbers.ravel()[::2]
    yield np.broadcast_to(np.float32(1), 5)
    yield np.arange(6).astype("datetime64[s]")[::2]


def writers(fixture):
    """Yields (name, function), each of which returns the bytes that a call copied."""
    context, stream = fixture.context, fixture.stream

    def with_buffer(write):
        def call(array):
            buffer = fixture.buffer(max(array.nbytes, 4))
            write(buffer, array)
            return buffer.read(0, array.nbytes)
        return call

    def host_memory(array):
        memory = Gpu.HostMemory(context, array.nbytes)
        memory.write(array)
        return memory.read()

    def image(array, write=False):
        size = array.nbytes // 2
        if write:
            image = Gpu.Image(context, "r-uint16", (size,))
            image.write(array)
        else:
            image = Gpu.Image.new_from_data(context, "r-uint16", (size,), array)
        return image.read()

    yield "Buffer", lambda array: Gpu.Buffer(context, array).read()
    yield "new_from_data", lambda array: Gpu.Buffer.new_from_data(
        context, array, Gpu.MemoryFlags.HOST_READ_ONLY).read()
    yield "Buffer.write", with_buffer(lambda buffer, array: buffer.write(array))
    yield "Stream.write", with_buffer(stream.write)
    yield "Stream.write later", with_buffer(
        lambda buffer, array: stream.write(buffer, array, copy=False))
    yield "write_region", with_buffer(
        lambda buffer, array: stream.write_region(buffer, array, array.nbytes))
    yield "HostMemory.write", host_memory
    if fixture.device.capabilities & Gpu.Capabilities.IMAGES:
        yield "new_from_data of images", image
        yield "Image.write", lambda array: image(array, True)


def test_memory_order(fixture):
    need_numpy()
    for name, write in writers(fixture):
        for array in layouts():
            if "mage" in name and array.nbytes > 4096:
                continue
            equal(write(array), array.tobytes("A"), f"{name} of {array.shape}{array.strides}")
        for array in gaps():
            with raises(ValueError, "ascontiguousarray"):
                write(array)


def readers(fixture):
    """Yields (name, function), each of which reads a buffer into an array."""
    def later(buffer, target):
        fixture.stream.read_into(buffer, target)
        fixture.stream.synchronize()

    def region(buffer, target):
        fixture.stream.read_region_into(buffer, target, target.nbytes)
        fixture.stream.synchronize()

    yield "Buffer.read_into", lambda buffer, target: buffer.read_into(target)
    yield "Stream.read_into", later
    yield "read_region_into", region


def test_memory_order_of_reads(fixture):
    need_numpy()
    for name, read in readers(fixture):
        for array in layouts():
            buffer = Gpu.Buffer(fixture.context, array)
            target = np.zeros_like(array)
            equal(target.flags.fnc, array.flags.fnc)
            read(buffer, target)
            same(target, array)
        for array in gaps():
            buffer = fixture.buffer(array.nbytes)
            wide = np.zeros((*array.shape, 2), array.dtype)
            with raises(ValueError, "contiguous", "Gpu.Array.read_into"):
                read(buffer, wide[..., 0])
            assert not wide.view("u1").any(), name


def test_memory_order_of_views(fixture):
    """to_numpy() takes the order of the memory, and transfers by element know the order."""
    need_numpy()
    context = fixture.context
    fortran = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    buffer = Gpu.Buffer(context, fortran)
    same(buffer.to_numpy("float32", (2, 3), order="F"), fortran)
    same(buffer.to_numpy("float32", (3, 2)), fortran.T)
    same(Gpu.Array.from_numpy(context, fortran).to_numpy(), fortran)
    same(Gpu.Array.from_numpy(context, fortran[:, ::2]).to_numpy(), fortran[:, ::2])
    with raises(ValueError, "order"):
        buffer.to_numpy("float32", (2, 3), order="X")
    target = np.zeros((2, 3), np.float32, order="F")
    Gpu.Array.for_memory(buffer, (3, 2), "float32").T.read_into(target)
    same(target, fortran)
    if fixture.device.capabilities & Gpu.Capabilities.IMAGES:
        same(Gpu.Image.from_array(context, fortran).to_numpy(), fortran)


def test_memory_order_of_arrays(fixture):
    """A Gpu.Array as data follows the same rule, whether or not the host can access its memory."""
    need_numpy()
    fortran = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    array = Gpu.Array.from_numpy(fixture.context, fortran)
    equal(Gpu.Buffer(fixture.context, array).read(), fortran.tobytes("A"))
    with raises(ValueError, "contiguous"):
        Gpu.Buffer(fixture.context, array[:, ::2])
    with raises(ValueError, "tobytes"):
        Gpu.Buffer(fixture.context, memoryview(b"123456")[::2])


def test_memory_order_of_launches(fixture):
    need_numpy()
    need(fixture, Gpu.Capabilities.SOURCE)
    kernel = Gpu.Program(fixture.context, ROWS).rows
    fortran = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    for make in Gpu.Out, Gpu.InOut:
        target = np.zeros((2, 3), np.float32, order="F")
        kernel(fixture.stream, 6, None, make(target), Gpu.In(fortran))
        same(target, fortran)
    flat = np.zeros(6, np.float32)
    kernel(fixture.stream, 6, None, Gpu.Out(flat), Gpu.In(fortran))
    same(flat, fortran.ravel(order="F"))
    for wrong in (lambda: kernel(fixture.stream, 2, None, Gpu.Out(flat), Gpu.In(fortran[:, ::2])),
                  lambda: kernel(fixture.stream, 2, None, Gpu.Out(fortran[:, ::2]), Gpu.In(flat))):
        with raises(ValueError, "contiguous"):
            wrong()


# --- arrays in place of values -------------------------------------------------------------------

NUMBERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
           "float32", "float64")


def outcome(call):
    """Returns the result of a call, or the type of its exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        except (IndexError, OverflowError, TypeError, ValueError) as error:
            return type(error)


def samples(dtype):
    """Yields arrays of several shapes, and views with gaps and in Fortran order."""
    numbers = np.arange(24).reshape(2, 3, 4) % 5
    if np.dtype(dtype).kind == "c":
        numbers = numbers * (1 - 2j)
    numbers = numbers.astype(dtype)
    yield numbers
    yield numbers[1]
    yield numbers[1:, 2:, 3:]
    yield numbers[1, 2, 3:].reshape(())
    yield numbers[:1, :1, :1]
    yield numbers[:0]
    yield np.asfortranarray(numbers)
    yield numbers[::-1, :, ::2]
    yield numbers.transpose(2, 0, 1)
    yield np.zeros((1, 1), dtype)


def pairs(fixture, dtypes=("bool", "int32", "float32", "float16", "complex64", "uint64")):
    """Yields a NumPy array, and an array on the device with the same elements and strides."""
    for dtype in dtypes:
        for host in samples(dtype):
            host = np.asarray(host)
            base = host if host.base is None or host.size == 0 else host.base
            array = Gpu.Array.from_numpy(fixture.context, base)
            if base is not host and host.size > 0:
                start = host.ctypes.data - base.ctypes.data
                array = Gpu.Array.for_memory(array.memory, host.shape, host.dtype, start,
                                             host.strides)
            same(array.to_numpy(), host)
            yield host, array


def test_truth(fixture):
    """bool() is that of NumPy. An array without elements is ambiguous, as in NumPy 2.2."""
    need_numpy()
    for host, array in pairs(fixture):
        if host.size == 1:
            equal(bool(array), bool(host))
        else:
            with raises(ValueError, "ambiguous", "any()"):
                bool(array)


def test_format(fixture):
    """An array without dimensions has the formats of its element, as in NumPy."""
    need_numpy()
    for host, array in pairs(fixture):
        for form in "", ".2f", "+.3e", ">12", "d", "s":
            equal(outcome(lambda: format(array, form)), outcome(lambda: format(host, form)),
                  (form, host.shape, host.dtype))
    text = f"{Gpu.Array.from_numpy(fixture.context, np.float32([1.5, 2.25]))[1]:.3f}"
    equal(text, "2.250")


def test_scalars(fixture):
    need_numpy()
    for host, array in pairs(fixture):
        for function in float, int, complex:
            # Newer NumPy refuses arrays with dimensions
            only = host.reshape(()) if host.size == 1 else host
            expected = outcome(lambda: function(only))
            if host.dtype.kind == "c" and function is not complex:
                expected = TypeError            # older NumPy discards the imaginary part
            equal(outcome(lambda: function(array)), expected, (function, host.shape, host.dtype))
        equal(array.tolist(), host.tolist())
        for index in ((), (0,), (-1,), (host.size,), (0,) * host.ndim, ((0,) * host.ndim,),
                      (0,) * (host.ndim + 1), (slice(0, 1),), (None,)):
            expected = outcome(lambda: host.item(*index))
            got = outcome(lambda: array.item(*index))
            equal(got, expected, (index, host.shape))
            equal(type(got), type(expected))
    with raises(TypeError, "(2,)"):
        float(Gpu.Array.zeros(fixture.context, 2))
    with raises(TypeError):
        float(Gpu.Array.zeros(fixture.context, 1, "V4"))
    with raises(TypeError):
        range(Gpu.Array.zeros(fixture.context, 1))


def test_comparison(fixture):
    need_numpy()
    for host, array in pairs(fixture):
        others = [host, host[..., :1] if host.ndim > 0 else 1, 3, 2.5, "text", None, host.tolist()]
        for other in others:
            for call in (lambda a: a == other, lambda a: a != other, lambda a: other == a,
                         lambda a: other != a, lambda a: a < other, lambda a: a >= other,
                         lambda a: other <= a, lambda a: other > a):
                expected = outcome(lambda: np.asarray(call(host)))
                got = outcome(lambda: np.asarray(call(array)))
                if isinstance(expected, type):
                    equal(got, expected)
                else:
                    same(got, expected)
        same(array == array, host == host)
        same(array == array.copy(order="F"), host == host)
        for value in (0, 3, 77, 1 - 2j):
            equal(outcome(lambda: value in array), outcome(lambda: value in host))
    first, second = (Gpu.Array.full(fixture.context, 2, i) for i in range(2))
    assert not (first == second).any() and (first != second).all()
    with raises(TypeError, "unhashable"):
        hash(first)
    same(first < second, [True, True])


class Reflected:
    """The operand of an operator that knows arrays of devices."""

    def __radd__(self, other):
        return "sum"


def test_operators(fixture):
    """Operators say that there is no arithmetic, unless the other operand has the operation."""
    need_numpy()
    array = Gpu.Array.zeros(fixture.context, 2, "float32")
    for other in array, np.ones(2, "float32"), np.float32(2), 3, 1.5, 2j, None:
        for name, sign in (("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/"),
                           ("floordiv", "//"), ("mod", "%"), ("pow", "**"), ("matmul", "@"),
                           ("lshift", "<<"), ("rshift", ">>"), ("and_", "&"), ("or_", "|"),
                           ("xor", "^")):
            for one, two in (array, other), (other, array):
                with raises(TypeError, "no arithmetic", f" {sign}:", "to_numpy()"):
                    getattr(operator, name)(one, two)
    for name, text in ("neg", " -:"), ("pos", " +:"), ("invert", " ~:"), ("abs", " abs():"):
        with raises(TypeError, "no arithmetic", text, "to_numpy()", "from_dlpack()", "kernel"):
            getattr(operator, name)(array)
    for text, call in (("divmod()", lambda: divmod(array, 2)),
                       ("divmod()", lambda: divmod(2, array)),
                       ("numpy.divmod()", lambda: np.divmod(array, 2)),
                       ("round()", lambda: round(array)), ("round()", lambda: round(array, 2))):
        with raises(TypeError, "no arithmetic", f" {text}:", "to_numpy()"):
            call()
    with raises(TypeError, "no arithmetic"):
        array += 1
    with raises(TypeError, "no arithmetic"):
        [1, 2] + array
    equal(array + Reflected(), "sum")


def test_missing_attributes(fixture):
    """Attributes that only arrays of other libraries have raise an error that names the ones to
    use. Other errors are unchanged."""
    need_numpy()
    array = Gpu.Array.zeros(fixture.context, 2, "float32")
    for name, words in (("get", ("to_numpy()",)), ("set", ("write()",)), ("cpu", ("to_numpy()",)),
                        ("numpy", ("to_numpy()",)), ("gpudata", ("memory", "offset")),
                        ("data", ("memory", "offset")), ("ptr", ("device_address",)),
                        ("tofile", ("to_file()",)),
                        ("sum", ("to_numpy()", "from_dlpack()", "CuPy", "PyTorch", "kernel")),
                        ("mean", ("to_numpy()",)), ("sort", ("to_numpy()",)),
                        ("base", ("memory",)), ("tostring", ("tobytes()",)),
                        ("flat", ("ravel()",)), ("setflags", ("to_numpy()",)),
                        ("ctypes", ("to_numpy()",)), ("clone", ("copy()",)),
                        ("to", ("to_numpy()", "copy_to()", "astype()")),
                        ("wait", ("memory.wait()",)), ("synchronize", ("memory.wait()",)),
                        ("element_size", ("itemsize",)), ("numel", ("size",)),
                        ("data_ptr", ("device_address",)), ("permute", ("transpose()",)),
                        ("contiguous", ("copy(order='C')",))):
        assert not hasattr(array, name)
        with raises(AttributeError, f"'Array' object has no attribute '{name}': ", *words):
            getattr(array, name)
    for name in "base", "ctypes", "setflags", "flat":
        with raises(AttributeError) as caught:
            getattr(array, name)
        assert "kernel" not in caught.text, caught.text
    equal((Gpu.Array.__getattr__.__name__, Gpu.Array.__getattr__.__qualname__),
          ("__getattr__", "Array.__getattr__"))
    for name in "smu", "_sum", "__array_struct__", "__float128__":
        with raises(AttributeError, f"'Array' object has no attribute '{name}'"):
            getattr(array, name)
    if array.get_host_bytes() is None:
        with raises(AttributeError, "numpy.asarray()"):
            array.__array_interface__


def test_attributes_of_other_libraries(fixture):
    """Names of PyOpenCL, PyCUDA, PyTorch and CuPy raise an error with the name of this library.
    Other names raise the error of Python."""
    stream, pool = fixture.stream, Gpu.MemoryPool(fixture.context)
    for thing, name, advice in ((stream, "finish", "synchronize()"),
                                (stream, "is_done", "is_idle()"),
                                (stream, "wait_for_event", "wait_event()"),
                                (stream.record(), "synchronize", "wait()"),
                                (stream.record(), "is_done", "query()"),
                                (stream.record(), "time_since", "get_elapsed()"),
                                (stream.record(), "profile", "get_profiling_time()"),
                                (stream, "wait", "synchronize()"), (stream, "done", "is_idle()"),
                                (stream, "query", "is_idle()"),
                                (stream, "record_event", "record()"),
                                (stream, "add_callback", "call()"),
                                (stream, "launch_host_func", "call()"),
                                (stream, "wait_stream", "wait_event(other.record())"),
                                (stream.record(), "done", "query()"),
                                (stream.record(), "elapsed_time", "get_elapsed()"),
                                (pool, "free_all_blocks", "trim()"),
                                (pool, "total_bytes", "managed_bytes"),
                                (pool, "get_limit", "limit"),
                                (fixture.context, "mem_get_info", "get_memory_info()")):
        assert not hasattr(thing, name)
        assert hasattr(thing, advice.partition("(")[0])
        kind = type(thing).__name__
        with raises(AttributeError, f"'{kind}' object has no attribute '{name}': use {advice}"):
            getattr(thing, name)
        with raises(AttributeError, f"'{kind}' object has no attribute 'fnish'") as caught:
            thing.fnish()
        assert "use" not in caught.text, caught.text


def test_nbytes(fixture):
    """Memory has the size in bytes under the same name as arrays."""
    buffer = fixture.buffer(48)
    array = Gpu.Array.for_memory(buffer, (3, 4), "float32")
    equal((buffer.nbytes, buffer.slice(0, 16).nbytes, array.nbytes, array.memory.nbytes),
          (48, 16, 48, 48))
    equal(Gpu.HostMemory(fixture.context, 20).nbytes, 20)


def test_interfaces_once(fixture):
    """An interface of an array is computed once per access, and its error is that of this call."""
    need_numpy()
    array, calls = Gpu.Array.zeros(fixture.context, 2, "float32"), []

    def fail_once(*args):
        calls.append(args)
        if len(calls) == 1:
            raise Gpu.Error("the first call fails")
        return None

    if fixture.device.backend == "cuda":
        with mock.patch.object(get_introspection_module("Gpu").Stream, "wait_array", fail_once):
            with raises(AttributeError, "the first call fails"):
                array.__cuda_array_interface__
            equal(len(calls), 1)
            equal(array.__cuda_array_interface__["shape"], (2,))
    else:
        with raises(AttributeError, "CUDA"):
            array.__cuda_array_interface__
        assert not hasattr(array, "__cuda_array_interface__")
    calls.clear()

    def return_none(*args):
        calls.append(args)

    with mock.patch.object(Gpu.Array, "get_host_bytes", return_none):
        with raises(AttributeError, "numpy.asarray()"):
            array.__array_interface__
        equal(len(calls), 1)
        same(np.asarray(array), np.zeros(2, "float32"))


ADVICE = """
{imports}
import gi, sys
gi.require_version("Gpu", "1.0")
from gi.repository import Gpu
array = Gpu.Array.zeros(Gpu.Context("host"), 2, "int32")
for call in (lambda: array.sum, lambda: array.base, lambda: array[array], lambda: array.take(array),
             lambda: array.smu):
    try:
        call()
    except (AttributeError, TypeError) as error:
        print(error)
print("numpy" in sys.modules)
"""


def plain_advice_without_numpy():
    """Advice is the same whether the program has imported NumPy."""
    need_numpy()
    without, after = (
        subprocess.run([sys.executable, "-c", ADVICE.format(imports=imports)], check=True,
                       stdout=subprocess.PIPE, text=True).stdout.splitlines()
        for imports in ("", "import numpy"))
    equal((without[-1], after[-1]), ("False", "True"))
    equal(without[:-1], after[:-1])
    for line, word in zip(without, ("to_numpy()", "memory", "to_numpy()", "to_numpy()", "'smu'")):
        assert word in line, line


def test_swapaxes(fixture):
    """swapaxes() returns a view, as in NumPy."""
    need_numpy()
    for host, array in pairs(fixture, ("int32",)):
        axes = range(-host.ndim - 1, host.ndim + 1)
        for one, two in itertools.product(axes, axes):
            expected = outcome(lambda: host.swapaxes(one, two))
            got = outcome(lambda: array.swapaxes(one, two))
            if isinstance(expected, type):
                assert issubclass(expected, ValueError), expected
                equal(got, ValueError)
            else:
                same(got.to_numpy(), expected)
                equal((got.strides, got.memory is array.memory), (expected.strides, True))
    with raises(ValueError, "axis 3", "2 dimensions"):
        Gpu.Array.zeros(fixture.context, (2, 3)).swapaxes(0, 3)
    with raises(TypeError):
        Gpu.Array.zeros(fixture.context, (2, 3)).swapaxes(0, 1.0)


def test_tobytes(fixture):
    """tobytes() has the elements in C order, or in another order, as in NumPy."""
    need_numpy()
    for host, array in pairs(fixture, ("int32", "complex64")):
        for one, two in (host, array), (host.T, array.T):
            equal((two.tobytes(), bytes(two)), (one.tobytes(), one.tobytes()))
            for order in "CFA":
                equal(two.tobytes(order), one.tobytes(order))
    equal(Gpu.Array.zeros(fixture.context, (0, 3)).tobytes(), b"")
    with raises(ValueError, "'X'"):
        Gpu.Array.zeros(fixture.context, 3).tobytes("X")


def test_functions_of_numpy(fixture):
    """A function of NumPy that has no result for arrays of devices raises an error, and keeps no
    reference to the array."""
    need_numpy()
    array = Gpu.Array.from_numpy(fixture.context, np.float32([1, 2, 3]))
    host = np.float32([1, 5, 3])
    for function, name in ((np.sqrt, "numpy.sqrt()"), (np.negative, "numpy.negative()"),
                           # NumPy 1.24 leaks the arguments of a reduction that fails
                           (lambda a: a.__array_ufunc__(np.add, "reduce", a), "numpy.add.reduce()"),
                           (lambda a: np.add(host, a), "the operator +"),
                           (lambda a: np.add(host, host, out=a), "the operator +"),
                           (lambda a: np.less(host, host, out=a), "numpy.less()"),
                           (lambda a: np.add.at(host, [0], a), "numpy.add.at()")):
        with raises(TypeError, "no arithmetic", f" {name}:", "to_numpy()"):
            function(array)
    equal(np.equal(host, array).tolist(), [True, False, True])
    mask = Gpu.Array.from_numpy(fixture.context, np.array([False, True, True]))
    for where in mask, mask.to_numpy():
        equal(np.equal(host, array, where=where)[1:].tolist(), [False, True])
    equal((host > array).tolist(), [False, True, False])
    equal((np.float32(2) < array).tolist(), [False, False, True])
    equal(host.tolist(), [1, 5, 3])


def test_ravel(fixture):
    need_numpy()
    for host, array in pairs(fixture, ("int32",)):
        for order in "CFAK":
            raveled = array.ravel(order)
            same(raveled.to_numpy(), host.ravel(order))
            same(array.flatten(order).to_numpy(), host.flatten(order))
            if host.size > 1:
                equal(raveled.memory is array.memory,
                      np.shares_memory(host, host.ravel(order)) or host.ravel(order).base is host)
                assert array.flatten(order).memory is not array.memory
        with raises(ValueError, "'X'"):
            array.ravel("X")


def test_ravel_gaps(fixture):
    """ravel() and flatten() return contiguous memory. A view with gaps or in reverse order becomes
    a copy, also in one dimension."""
    need_numpy()
    host = np.arange(24, dtype="float32").reshape(2, 3, 4)
    array = Gpu.Array.from_numpy(fixture.context, host)
    for index in (np.s_[:, 0, 0], np.s_[0, 0, ::2], np.s_[0, 0, ::-1], np.s_[1, ::-1, 2],
                  np.s_[0, :, ::2], np.s_[:, 1, :], np.s_[:, :, 1:2], np.s_[::-1, ::-1, ::-1],
                  np.s_[1], np.s_[0, 1, 1:3], np.s_[0, 0, 3:4]):
        part = array[index]
        for order in "CFAK":
            raveled, expected = part.ravel(order), host[index].ravel(order)
            assert raveled.flags.c_contiguous and raveled.flags.f_contiguous, (index, order)
            same(raveled.to_numpy(), expected)
            same(part.flatten(order).to_numpy(), expected)
            equal(raveled.memory is array.memory, np.shares_memory(host, expected), (index, order))
            if raveled.memory is not array.memory:
                raveled.fill(-1)
    same(array.to_numpy(), host)
    equal(array[:, 0, 0].reshape(-1).strides, (48,))


def test_copy_of_broadcast(fixture):
    need_numpy()
    host = np.broadcast_to(np.arange(3, dtype="int64"), (4, 3))
    array = Gpu.Array.from_numpy(fixture.context, host[0]).broadcast_to((4, 3))
    for got, expected in ((array.copy(), host.copy("K")), (array.astype("i4"), host.astype("i4")),
                          (array.astype("i8"), host.astype("i8"))):
        same(got.to_numpy(), expected)
        equal(got.strides, expected.strides)


def test_write_of_broadcast(fixture):
    """If elements of an array share memory, no write to the array or to a view of it succeeds. The
    message is the same on every path, and the elements keep their values."""
    need_numpy()
    records = np.zeros(3, "i4,i4")
    host = np.arange(3, dtype="int32").reshape(3, 1)
    array = Gpu.Array.from_numpy(fixture.context, host)
    repeated = array.broadcast_to((3, 4))
    buffer = Gpu.Buffer(fixture.context, records)
    overlapping = Gpu.Array.for_memory(buffer, 5, "i4,i4", 0, [4])
    stream = fixture.new_stream()
    for view in (repeated, repeated[:, 1:3], repeated[:, 0], repeated[:, :1], repeated.T[0],
                 repeated[0, 0], repeated[0][:1], repeated[:, :1].reshape(3), repeated[:, 0, None],
                 repeated[:, 0].view("u1"), overlapping, overlapping["f0"], overlapping[:1]):
        data = np.ones(view.shape, view.dtype)
        new = Gpu.Array.from_numpy(fixture.context, data)
        assert not view.is_writable()
        text = f"an array of shape {view.shape} and strides {view.strides} cannot be written: " \
               f"its elements of {view.dtype.itemsize} bytes, or those of an array that it " \
               "views, may share memory"
        for write in (lambda: view.write(data), lambda: view.write(new),
                      lambda: view.copy_to_device(data), lambda: view.write(data, stream),
                      lambda: view.fill(data.flat[0]), lambda: view.fill(data.flat[0], stream),
                      lambda: view.__setitem__(..., data), lambda: stream.write(view, data),
                      lambda: stream.fill(view, 1), lambda: stream.copy(view, new),
                      lambda: stream.copy_region(view, new, view.nbytes)):
            with raises(ValueError, text):
                write()
    stream.synchronize()
    same(array.to_numpy(), host)
    equal(buffer.read(), bytes(24))
    once = array.broadcast_to((3, 1))           # no two elements share memory
    once[1:] = 5
    same(array.to_numpy(), np.array([[0], [5], [5]], "int32"))
    for none in repeated[0:0], repeated[:, :1][3:]:
        assert none.is_writable()
        none.fill(7)
        none.write(np.zeros(none.shape, none.dtype))
        none[...] = 7
    same(array.to_numpy(), np.array([[0], [5], [5]], "int32"))


def test_write_of_sliding_windows(fixture):
    """A window of an array of windows cannot be written, because the windows share elements. A row
    of interleaved rows can, because these share no bytes."""
    need_numpy()
    buffer = Gpu.Buffer(fixture.context, np.arange(8, dtype="u1"))
    windows = Gpu.Array.for_memory(buffer, (3, 4), "u1", 0, [1, 1])
    rows = Gpu.Array.for_memory(buffer, (2, 3), "u1", 0, [3, 2])
    for array in windows, windows[0], windows[1, 1:], rows:
        assert array.shares_bytes and not array.is_writable()
        with raises(ValueError, "may share memory"):
            array.fill(9)
    assert not rows[0].shares_bytes
    rows[0].fill(9)
    rows[1].write(np.array([11, 12, 13], "u1"))
    equal(buffer.read(), bytes([9, 1, 9, 11, 9, 12, 6, 13]))


def test_write_of_read_only_broadcast(fixture):
    """The flags of memory for kernels change nothing: the stream refuses arrays whose elements
    share memory, and writes others."""
    need_numpy()
    for flags in Gpu.MemoryFlags.READ_ONLY, Gpu.MemoryFlags.WRITE_ONLY:
        buffer = Gpu.Buffer(fixture.context, np.zeros(4, "f4"), flags=flags)
        array = Gpu.Array.for_memory(buffer, (1, 4), "f4")
        row = array.broadcast_to((3, 4))[0]
        stream = fixture.new_stream()
        new = Gpu.Array.full(fixture.context, (4,), 7, dtype="f4")
        for write in (lambda: stream.write(row, np.ones(4, "f4")), lambda: row.fill(1),
                      lambda: stream.fill(row, np.float32(2)), lambda: stream.copy(row, new),
                      lambda: stream.copy_region(row, new, 16)):
            with raises(ValueError, "may share memory"):
                write()
        stream.write(array[0], np.full(4, 3, "f4"))
        stream.synchronize()
        equal(bytes(buffer.read()), np.full(4, 3, "f4").tobytes())


def test_bytes_of_elements(fixture):
    """fill(), full() and item assignment use bytes as the bytes of one element, and a memoryview as
    numbers."""
    need_numpy()
    context, stream = fixture.context, fixture.new_stream()
    array = Gpu.Array.zeros(context, (2, 3), "int32")
    for data in b"\1\2\0\0", bytearray(b"\1\2\0\0"), np.bytes_(b"\1\2\3\4"):
        expected = np.frombuffer(bytes(data), "int32")[0]
        for where in None, stream:
            array.fill(0)
            array.fill(data, where)
            stream.synchronize()
            same(array.to_numpy(), np.full((2, 3), expected))
            full = Gpu.Array.full(context, (2, 3), data, "int32", stream=where)
            stream.synchronize()
            same(full.to_numpy(), np.full((2, 3), expected))
        array.fill(0)
        array[1] = data
        array[0, 0] = data
        same(array.to_numpy(), np.array([[expected, 0, 0], [expected] * 3], "int32"))
        with raises(TypeError, "needs a dtype"):
            Gpu.Array.full(context, 3, data)
    for wrong in b"", b"\1", bytes(8), bytearray(3):
        for call in (lambda: array.fill(wrong), lambda: array.fill(wrong, stream),
                     lambda: array.__setitem__(..., wrong),
                     lambda: Gpu.Array.full(context, 3, wrong, "int32")):
            with raises(Gpu.Error.INVALID_ARGUMENT, f"{len(wrong)} bytes, but an element has 4"):
                call()


    array[1] = memoryview(b"\1\2\3")
    same(array.to_numpy()[1], np.array([1, 2, 3], "int32"))


def test_regions_of_arrays(fixture):
    """Transfers of regions take arrays as their memory, and refuse arrays whose elements share
    memory."""
    need_numpy()
    stream, host = fixture.new_stream(), np.arange(12, dtype="u1").reshape(3, 4)
    array = Gpu.Array.from_numpy(fixture.context, host)
    stream.write_region(array, b"abcd", (2, 2), (1, 1, 0, 4))
    host[1:, 1:3] = np.frombuffer(b"abcd", "u1").reshape(2, 2)
    target = bytearray(4)
    stream.read_region_into(array, target, (2, 2), (1, 1, 0, 4))
    got = stream.read_region(array, (2, 2), (1, 1, 0, 4))
    stream.synchronize()
    same(array.to_numpy(), host)
    equal((got.get_data(), bytes(target)), (b"abcd", b"abcd"))
    with raises(ValueError, "may share memory"):
        stream.write_region(array[:1].broadcast_to((3, 4))[0], b"abcd", 4)


def test_transfers_of_no_bytes(fixture):
    """A stream accepts arrays without elements as memory, as NumPy accepts them in copies."""
    need_numpy()
    stream = fixture.new_stream()
    empty, other = (Gpu.Array.zeros(fixture.context, (0, 3), "int32") for _ in range(2))
    array = Gpu.Array.from_numpy(fixture.context, np.arange(6, dtype="int32"))
    for call in (lambda: stream.copy(empty, other), lambda: stream.copy(array, empty),
                 lambda: stream.copy(empty, array, 0), lambda: stream.write(empty, b""),
                 lambda: stream.write(empty, np.zeros((0, 3), "int32")),
                 lambda: stream.fill(empty, 0), lambda: stream.copy_region(empty, other, 0),
                 lambda: stream.copy_region(array, array[:0], (4, 0)),
                 lambda: stream.fill_region(empty, b"1", 0),
                 lambda: stream.write_region(empty, b"", 0),
                 lambda: stream.migrate([empty, array[:0]]),
                 lambda: stream.migrate([empty, array])):
        equal(call(), True)
    equal(stream.read(empty).get_data() or b"", b"")
    equal(stream.read_into(empty, bytearray()), 0)
    stream.synchronize()
    same(array.to_numpy(), np.arange(6, dtype="int32"))
    for call in (lambda: stream.copy(empty, array), lambda: stream.write(empty, b"1"),
                 lambda: stream.read(empty, 1), lambda: stream.fill(empty, 0, 0, 4)):
        with raises(ValueError, "reach past the 0 bytes"):
            call()
    for call in (lambda: stream.copy_region(empty, array, 1), lambda: Gpu.memory_of(empty),
                 lambda: stream.fill_region(empty, b"1", (1, 1)),
                 lambda: stream.write_region(empty, b"1", 1)):
        with raises(ValueError, "has no bytes"):
            call()


def test_write_of_wrong_shape(fixture):
    need_numpy()
    array, stream = Gpu.Array.zeros(fixture.context, (2, 3), "int32"), fixture.new_stream()
    for data in np.zeros((4, 5), "int32"), np.zeros(2, "int32"), [[1], [2], [3]]:
        text = f"data of shape {np.shape(data)} cannot be written to an array of shape (2, 3)"
        for call in (lambda: array.write(data), lambda: array.write(data, stream),
                     lambda: array.copy_to_device(data), lambda: array.__setitem__(..., data)):
            with raises(ValueError, text):
                call()


def test_squeeze(fixture):
    need_numpy()
    host = np.arange(6, dtype="int32").reshape(1, 2, 1, 3)
    array = Gpu.Array.from_numpy(fixture.context, host)
    for axis in (None, 0, 2, -2, (0, 2), (), 1, 4, -5, (0, 1), (0, 0), np.array(2), np.int8(0),
                 (np.array(0),), True, False, [0], [0, 2], np.array([0, 2]), "0", 0.0, (0, False)):
        expected = outcome(lambda: host.squeeze(axis))
        got = outcome(lambda: array.squeeze(axis).to_numpy())
        if isinstance(expected, type):
            equal(got, TypeError if expected is TypeError else ValueError)
        else:
            same(got, expected)
    array.squeeze()[...] = 5
    same(array.to_numpy(), np.full_like(host, 5))


def test_view(fixture):
    need_numpy()
    rng = random.Random(3)
    dtypes = ("u1", "i2", "f4", "f8", "c16", "V3", "V6")
    for _ in range(300):
        shape = tuple(rng.choice((0, 1, 2, 3, 4, 6)) for _ in range(rng.randrange(4)))
        host = np.zeros(shape, rng.choice(dtypes), rng.choice("CF"))
        if host.size > 0:
            host.ravel("K").view("u1")[:] = np.arange(host.nbytes) % 251
        array = Gpu.Array.from_numpy(fixture.context, host)
        key = tuple(slice(None, None, rng.choice((1, 1, 2))) for _ in shape)
        host, array = host[key], array[key]
        dtype = rng.choice(dtypes)
        expected = outcome(lambda: host.view(dtype))
        try:
            got = array.view(dtype)
        except Exception:
            equal(expected, ValueError, (host.shape, host.strides, host.dtype, dtype))
        else:
            assert not isinstance(expected, type), (host.shape, host.strides, host.dtype, dtype)
            same(got.to_numpy(), expected)


def test_view_without_dtype(fixture):
    need_numpy()
    host = np.arange(24, dtype="i4").reshape(4, 6)
    array = Gpu.Array.from_numpy(fixture.context, host)[::-2, 1:]
    view = array.view()
    equal((view.shape, view.strides, view.dtype), (array.shape, array.strides, array.dtype))
    view.fill(5)
    same(array.to_numpy(), np.full((2, 5), 5, "i4"))


def test_strides_of_one_element(fixture):
    """A single element has the strides of NumPy in its other shapes."""
    need_numpy()
    for shape in (), (1,), (1, 1):
        host = np.full(shape, 7, "f4")
        array = Gpu.Array.from_numpy(fixture.context, host)
        for new in (), 1, -1, (1, -1, 1):
            for order in "CF":
                expected = host.reshape(new, order=order)
                got = array.reshape(new, order=order)
                equal((got.shape, got.strides), (expected.shape, expected.strides), new)
                same(got.to_numpy(), expected)


def test_arrays_like(fixture):
    """empty_like() and zeros_like() accept the dtype and the order of NumPy's functions."""
    need_numpy()
    cube = np.arange(24, dtype="i4").reshape(2, 3, 4)
    for host in cube, np.asfortranarray(cube), cube.transpose(1, 2, 0):
        array = Gpu.Array.from_numpy(fixture.context, cube)
        if host is not cube:
            array = array.transpose(1, 2, 0) if host.shape != cube.shape else array.copy("F")
        for order in "CFAK":
            for dtype in None, "complex64":
                expected = np.zeros_like(host, dtype, order)
                for model, *context in (array,), (host, fixture.context):
                    if model is host and order == "K" and not host.flags.forc:
                        continue                # the order of a NumPy array is C or F
                    empty = Gpu.Array.empty_like(model, *context, dtype=dtype, order=order)
                    zeros = Gpu.Array.zeros_like(model, *context, dtype=dtype, order=order)
                    same(zeros.to_numpy(), expected)
                    equal(zeros.strides, expected.strides, (order, dtype))
                    equal((empty.strides, empty.dtype), (expected.strides, expected.dtype))
    array, pool = Gpu.Array.from_numpy(fixture.context, cube), Gpu.MemoryPool(fixture.context)
    host = Gpu.Context("host")
    for like in Gpu.Array.empty_like, Gpu.Array.zeros_like:
        for context in pool, host:
            for options in {}, {"dtype": "f8"}, {"order": "F"}:
                equal(like(array, context, **options).context,
                      host if context is host else fixture.context)
            equal(pool.active_bytes, 0)
        held = like(array, pool)
        equal(pool.active_bytes, held.nbytes)
        del held
        for wrong in "f8", np.float64, 5:
            with raises(TypeError, "context must be a Gpu.Context or a Gpu.Allocator, not "):
                like(array, wrong)
        with raises(ValueError, "'K'", "'X'"):
            like(array, order="X")
        with raises(ValueError, "'K'", "'X'"):
            like(cube, fixture.context, order="X")


def test_orders_of_copies(fixture):
    need_numpy()
    for host, array in pairs(fixture, ("int32", "float16")):
        for order in "CFAK":
            for dtype in host.dtype, "float64", "complex64":
                expected = host.astype(dtype, order)
                got = array.astype(dtype, order)
                same(got.to_numpy(), expected)
                if all(length > 1 for length in host.shape):    # other strides do not matter
                    equal(got.strides, expected.strides, (order, host.strides))
            got = array.copy(order=order)
            same(got.to_numpy(), host)
            if all(length > 1 for length in host.shape):
                equal(got.strides, host.copy(order).strides, (order, host.strides))
    for call in array.copy, lambda order: array.astype("int8", order):
        with raises(ValueError, "'X'"):
            call(order="X")


# --- conversions ---------------------------------------------------------------------------------

def extremes(dtype):
    """Returns values around the limits of all types."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([limits.min, limits.max, limits.max // 2, 0, 1, 77, limits.max - 1], dtype)
    values = [0.0, -0.0, 0.5, -0.5, -1.0, 1.75, -129.0, 300.5, 70000.0, 1e-40, -1e-46, 1e300,
              np.nan, np.inf, -np.inf, 16777217.0]
    for bits in (7, 8, 15, 16, 31, 32, 63, 64):
        values += [2.0 ** bits, -2.0 ** bits, 2.0 ** bits - 1, 1 - 2.0 ** bits,
                   2.0 ** bits * (1 + 2.0 ** -20), -(2.0 ** bits) - 1]
    with np.errstate(over="ignore"):
        return np.array(values, dtype)


def in_range(values, dtype):
    """Returns whether each float can be converted, which C and NumPy require."""
    limits = np.iinfo(dtype)
    with np.errstate(invalid="ignore"):
        whole = np.trunc(values.astype("float64"))
        return (whole >= limits.min) & (whole <= limits.max) & (whole < 2.0 ** (limits.bits - (
            limits.min < 0)))


def test_astype(fixture):
    """The device converts as NumPy does. On x86-64 the same is true of floats out of range, except
    to uint32, for which the result of NumPy depends on the length of the array."""
    need_numpy()
    types = NUMBERS + ("float16", "complex64", "complex128")
    for source, to in itertools.product(types, types):
        host = extremes(source if np.dtype(source).kind != "c" else "float32")
        if np.dtype(source).kind == "c":
            host = (host[:12] * (1 + 2j)).astype(source)
        if np.dtype(source).kind in "fc" and np.dtype(to).kind in "iu" and (
                platform.machine() != "x86_64" or source == "float16" or to == "uint32"):
            host = host[in_range(host.real, to)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = host.astype(to)
            got = Gpu.Array.from_numpy(fixture.context, host).astype(to)
        equal(got.dtype, np.dtype(to))
        read = got.to_numpy()
        assert np.array_equal(read, expected, equal_nan=read.dtype.kind in "fc"), \
            f"{source} to {to}: {host} is {read} and not {expected}"
        if read.dtype.kind == "f":
            assert np.array_equal(np.signbit(read), np.signbit(expected)) or np.isnan(host).any()


def test_astype_uses_device(fixture):
    """A conversion on a stream does not wait, so the host has no part in it."""
    need_numpy()
    need(fixture, Gpu.Capabilities.SOURCE)
    array = Gpu.Array.from_numpy(fixture.context, np.arange(3000, dtype="int32"))
    array.astype("float32")                     # builds the program
    stream = fixture.new_stream()
    gate = fixture.gate(stream)
    timer = threading.Timer(DEADLINE, gate.complete)
    timer.start()
    converted = array[::-3].astype("float32", stream=stream)
    assert timer.is_alive(), "the conversion waited for the stream"
    timer.cancel()
    gate.complete()
    same(converted.to_numpy(), np.arange(3000, dtype="float32")[::-3])


def test_astype_arguments(fixture):
    need_numpy()
    host = np.asfortranarray(np.arange(6, dtype="float32").reshape(2, 3))
    array = Gpu.Array.from_numpy(fixture.context, host)
    assert array.astype("float32", copy=False) is array
    assert array.astype("float32") is not array
    for order, is_same in (("C", False), ("F", True), ("A", True), ("K", True)):
        equal(array.astype("float32", order, copy=False) is array, is_same)
    for casting in "no", "equiv", "safe", "same_kind":
        with raises(TypeError, casting):
            array.astype("int32", casting=casting)
    same(array.astype("float64", casting="safe").to_numpy(), host.astype("float64"))
    with raises(TypeError, "datetime64"):
        array.astype("M8[s]")
    pool = Gpu.MemoryPool(fixture.context)
    same(array.astype("int8", allocator=pool).to_numpy(), host.astype("int8"))
    equal(Gpu.Array.zeros(fixture.context, (0, 3)).astype("int8").shape, (0, 3))
    truths = np.array([0, 1, 2, 255], "uint8").view("bool")
    same(Gpu.Array.from_numpy(fixture.context, truths).astype("int32").to_numpy(),
         np.array([0, 1, 1, 1], "int32"))
    odd = np.arange(16, dtype="uint8")
    same(Gpu.Array.for_memory(fixture.buffer(odd), 3, "int32", 1).astype("int64").to_numpy(),
         odd[1:13].view("int32").astype("int64"))


def test_astype_bfloat(fixture):
    """Conversions from and to bfloat16 need no other package, and round to nearest even."""
    need_numpy()
    host = np.array([1.5, -2, 1 + 2 ** -8, 1 + 3 * 2 ** -8, np.inf], "float32")
    array = Gpu.Array.from_numpy(fixture.context, host).astype("bfloat16")
    same(array.astype("float32").to_numpy(),
         np.array([1.5, -2, 1, 1 + 4 * 2 ** -8, np.inf], "float32"))
    same(array[:2].astype("int32").to_numpy(), np.array([1, -2], "int32"))
    assert "[ 1.5" in repr(array) and "bfloat16" in repr(array), repr(array)


# --- text and copies -----------------------------------------------------------------------------

def test_text(fixture):
    """str() is that of NumPy, also of large arrays, of which only the edges are read."""
    need_numpy()
    hosts = [np.arange(20000, dtype="float32"), np.eye(80, dtype="int16"),
             np.arange(24000, dtype="int32").reshape(20, 30, 40), np.zeros((300, 2, 3), "bool"),
             np.array(1.5), np.zeros((0, 3)), np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")])]
    for host in hosts:
        array = Gpu.Array.from_numpy(fixture.context, host)
        for key in (..., np.s_[::-1], np.s_[..., ::2]):
            if host.ndim == 0 and key is not ...:
                continue
            text = str(host[key])
            equal(str(array[key]), text)
            for words in (text, str(host[key].shape), fixture.device.id, "Gpu.Array",
                          array.get_dtype().name):
                assert words in repr(array[key]), repr(array[key])
    with np.printoptions(threshold=4, edgeitems=1, precision=2):
        equal(str(Gpu.Array.from_numpy(fixture.context, hosts[0])), str(hosts[0]))
    page = Gpu.Array.from_numpy(fixture.context, hosts[1][:2, :3])._repr_html_()
    assert "[[1 0 0]" in page and "int16" in page and "<pre>" in page, page
    # Elements too far apart for few reads
    wide = Gpu.Array.zeros(fixture.context, (900, 1000), "uint8")[:, 0]
    assert "(900,)" in str(wide), str(wide)


def test_text_of_busy_memory(fixture):
    """repr() does not wait long, and does not fail."""
    need_numpy()
    stream = fixture.new_stream()
    array = Gpu.Array.from_numpy(fixture.context, np.full(3, 7))
    assert "[7 7 7]" in repr(array)
    for on in stream, fixture.stream:
        gate = fixture.gate(on)
        array.fill(8, stream=on)
        start = time.monotonic()
        for text in repr(array), str(array), array._repr_html_():
            assert "(3,)" in text and "7 7" not in text and "8 8" not in text, text
        assert time.monotonic() - start < DEADLINE
        gate.complete()
        on.synchronize()
        assert "[8 8 8]" in repr(array)
    array.memory.release()
    assert "(3,)" in repr(array) and "8 8" not in repr(array)


def test_pickle(fixture):
    """pickle saves the elements as a NumPy array; copies of copy stay on the device."""
    need_numpy()
    for host, array in pairs(fixture, ("float32",)):
        loaded = pickle.loads(pickle.dumps(array))
        equal(type(loaded), np.ndarray)
        same(loaded, host)
        for function in copy.copy, copy.deepcopy:
            copied = function(array)
            equal(type(copied), Gpu.Array)
            same(copied.to_numpy(), host)
    twice = copy.deepcopy([array, array])
    assert twice[0] is twice[1] and twice[0] is not array
    with raises(TypeError, "pickle"):
        pickle.dumps(fixture.context)
    device = fixture.device
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        equal(pickle.loads(pickle.dumps(device, protocol)), device)
    equal((copy.copy(device), copy.deepcopy([device])), (device, [device]))
    program = ("import gi, pickle, sys; gi.require_version('Gpu', '1.0'); "
               "print(pickle.load(sys.stdin.buffer).id)")
    result = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True,
                            input=pickle.dumps(device), timeout=DEADLINE)
    equal(result.stdout.decode().strip(), device.id)


def test_copies_of_buffers(fixture):
    """copy copies a buffer on the device; pickle saves its bytes as a NumPy array."""
    data = bytes(range(256)) * 16
    align = fixture.device.base_alignment
    whole = Gpu.Buffer(fixture.context, data)
    pooled = Gpu.MemoryPool(fixture.context)(1000)
    pooled.write(data[:1000])
    for buffer, expected in ((whole, data), (pooled, data[:1000]),
                             (whole[align:align + 5], data[align:align + 5])):
        for function in copy.copy, copy.deepcopy:
            copied = function(buffer)
            equal((type(copied), copied.context, copied.size, copied.read()),
                  (Gpu.Buffer, fixture.context, len(expected), expected))
            copied.fill(0)
            equal(buffer.read(), expected)
    twice = copy.deepcopy([whole, whole])
    assert twice[0] is twice[1] and twice[0] is not whole
    need_numpy()
    expected = np.frombuffer(data, np.uint8)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        same(pickle.loads(pickle.dumps(whole, protocol)), expected)
    outside = []
    pickled = pickle.dumps(whole, 5, buffer_callback=outside.append)
    assert len(pickled) < 1000, len(pickled)
    loaded = pickle.loads(pickled, buffers=outside)
    same(loaded, expected)
    equal(Gpu.Buffer(fixture.context, loaded).read(), data)
    whole.release()
    for function in copy.copy, copy.deepcopy, pickle.dumps:
        with raises(Gpu.Error.RELEASED, "released"):
            function(whole)


def test_dates(fixture):
    """Arrays of dates are refused with advice; buffers hold their bytes."""
    need_numpy()
    days = np.array(["2026-01-01", "2027-01-01"], "datetime64[D]")
    for call in (lambda: Gpu.Array.from_numpy(fixture.context, days),
                 lambda: Gpu.Array.zeros(fixture.context, 2, "M8[D]"),
                 lambda: Gpu.Array.zeros(fixture.context, 2, "m8[s]"),
                 lambda: Gpu.Array.zeros(fixture.context, 2, "int64").write(days),
                 lambda: Gpu.Array.zeros(fixture.context, 2, "int64").view("M8[D]")):
        with raises(TypeError, "view the array as numbers"):
            call()
    same(Gpu.Array.from_numpy(fixture.context, days.view("int64")).to_numpy(), days.view("int64"))
    same(Gpu.Buffer(fixture.context, days).to_numpy("M8[D]"), days)


# --- sizes and results ---------------------------------------------------------------------------

def test_sizes(fixture):
    """Integers are sizes, arrays and bytes are data, and other numbers are refused."""
    need_numpy()
    context = fixture.context
    for size in 5, np.int32(5), np.uint8(5), np.int64(5):
        equal(Gpu.Buffer(context, size).size, 5)
    for data, size in ((b"12345", 5), (np.bytes_(b"123"), 3), (np.array(5, "int16"), 2),
                       (np.array([5], "float32"), 4), (np.zeros(2, "i4,f8")[0], 12)):
        equal(Gpu.Buffer(context, data).size, size)
    for wrong in (5.0, np.float32(5), np.float64(5), np.complex64(5), np.bool_(True), True, "5",
                  np.str_("5"), np.datetime64(5, "s"), np.timedelta64(5), None, [5]):
        with raises(TypeError):
            Gpu.Buffer(context, wrong)
        if wrong is not None:
            for call in (lambda: Gpu.HostMemory(context, wrong), lambda: Gpu.Local(wrong),
                         lambda: Gpu.MemoryPool(context)(wrong),
                         lambda: Gpu.Svm(context, wrong),
                         lambda: fixture.buffer(8).read(wrong),
                         lambda: fixture.buffer(8).to_numpy("u1", None, wrong),
                         lambda: fixture.buffer(8).slice(0, wrong),
                         lambda: Gpu.HostMemory(context, 8).read(0, wrong)):
                with raises(TypeError):
                    call()
    with raises(TypeError, "numpy.array ("):
        Gpu.Buffer(context, np.float32(5))


def results():
    """Yields (class, method) for all methods that return whether they succeeded, and more."""
    for info in _gi.Repository.get_default().get_infos("Gpu"):
        for method in getattr(info, "get_methods", list)():
            outputs = [argument for argument in method.get_arguments()
                       if argument.get_direction() == _gi.Direction.OUT]
            if outputs and method.get_return_type().get_tag() == _gi.TypeTag.BOOLEAN:
                yield getattr(Gpu, info.get_name()), method.get_name()


def plain_results():
    """No method returns True in front of its results."""
    found = list(results())
    assert (Gpu.Context, "get_memory_info") in found, found
    for kind, name in found:
        method = inspect.unwrap(inspect.getattr_static(kind, name))
        assert inspect.isfunction(method), f"{kind.__name__}.{name}() has no override"


def test_results(fixture):
    context = fixture.context
    free, total, source = context.get_memory_info()
    assert 0 <= free <= total and isinstance(source, Gpu.MemoryInfoSource)
    free, total = Gpu.DeferredAllocator(context).get_memory_info()
    assert 0 <= free <= total
    kind, number = Gpu.Array.zeros(context, 1).get_dlpack_device()
    assert type(kind) is int and type(number) is int
    if fixture.device.backend == "cuda":
        size = context.get_limit(Gpu.Limit.STACK_SIZE)
        assert type(size) is int and size > 1, size
    if not fixture.device.capabilities & Gpu.Capabilities.SOURCE:
        raise Skip("no kernels")
    kernel = fixture.program().add
    equal(kernel.prepare(64, 16, (fixture.buffer(4), 1)).get_block(), Gpu.Extent(16))
    equal(kernel.prepare(64, None, (fixture.buffer(4), 1)).get_block(), None)


if __name__ == "__main__":
    sys.exit(main(globals()))

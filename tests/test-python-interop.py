# SPDX-License-Identifier: LGPL-2.1-or-later
"""Several libraries on one GPU in one process: memory and streams of this library in CuPy, PyTorch
and Numba, and memory and streams of these libraries in this library, without copies. Tests of
missing libraries are skipped."""

import gc
import importlib
import sys

from python_util import Skip, equal, main, need_numpy, np
from gi.repository import Gpu

N = 1 << 20


class Foreign:
    """An object with the CUDA Array Interface (version 3), through which other libraries read the
    address of a buffer."""

    def __init__(self, buffer, stream=None):
        self.buffer = buffer
        self.__cuda_array_interface__ = {
            "shape": (buffer.size // 4,), "typestr": "<f4", "version": 3, "strides": None,
            "data": (buffer.get_device_address(), False),
            "stream": stream.get_native_handle() if stream else None}


def library(fixture, name):
    need_numpy()
    if fixture.device.backend != "cuda":
        raise Skip("they share memory through CUDA")
    if "Stand-in" in fixture.device.name:
        raise Skip("the stand-in for the driver is no GPU")
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Skip(f"{name} is not installed") from None


def numbers():
    return np.arange(N, dtype=np.float32)


def triple(fixture, buffer, stream):
    kernel = Gpu.Program(fixture.context, "__kernel void triple (__global float *x)"
                         "{ x[get_global_id (0)] *= 3; }").triple
    stream.launch(kernel, N, args=(buffer,))


def test_buffer_in_cupy(fixture):
    cupy = library(fixture, "cupy")
    buffer = fixture.buffer(numbers())
    stream = fixture.new_stream()
    triple(fixture, buffer, stream)
    with cupy.cuda.ExternalStream(stream.get_native_handle()):
        array = cupy.asarray(Foreign(buffer))
        equal(array.data.ptr, buffer.get_device_address(), "the address")
        array += 1
    triple(fixture, buffer, stream)
    stream.synchronize()
    assert np.array_equal(buffer.to_numpy(np.float32), (numbers() * 3 + 1) * 3)


def test_cupy_array_as_buffer(fixture):
    cupy = library(fixture, "cupy")
    theirs = cupy.cuda.Stream(non_blocking=True)
    with theirs:
        array = cupy.arange(N, dtype=cupy.float32)
        array *= 2
    buffer = Gpu.Buffer.new_wrapped(fixture.context, array.data.ptr, array.nbytes,
                                    Gpu.WrapMode.BORROW)
    stream = Gpu.Stream.new_wrapped(fixture.context, theirs.ptr, Gpu.WrapMode.BORROW)
    triple(fixture, buffer, stream)
    with theirs:
        array += 1
        result = cupy.asnumpy(array, stream=theirs)
    theirs.synchronize()
    assert np.array_equal(result, numbers() * 6 + 1)
    assert np.array_equal(buffer.to_numpy(np.float32, stream=stream), result)
    stream.synchronize()


def test_buffer_in_torch(fixture):
    torch = library(fixture, "torch")
    buffer = fixture.buffer(numbers())
    stream = fixture.new_stream()
    triple(fixture, buffer, stream)
    with torch.cuda.stream(torch.cuda.ExternalStream(stream.get_native_handle())):
        tensor = torch.as_tensor(Foreign(buffer), device="cuda")
        equal(tensor.data_ptr(), buffer.get_device_address(), "the address")
        tensor.add_(1)
    triple(fixture, buffer, stream)
    stream.synchronize()
    assert np.array_equal(buffer.to_numpy(np.float32), (numbers() * 3 + 1) * 3)


def test_torch_tensor_as_buffer(fixture):
    torch = library(fixture, "torch")
    theirs = torch.cuda.Stream()
    with torch.cuda.stream(theirs):
        tensor = torch.arange(N, dtype=torch.float32, device="cuda") * 2
    buffer = Gpu.Buffer.new_wrapped(fixture.context, tensor.data_ptr(), N * 4,
                                    Gpu.WrapMode.BORROW)
    stream = Gpu.Stream.new_wrapped(fixture.context, theirs.cuda_stream, Gpu.WrapMode.BORROW)
    triple(fixture, buffer, stream)
    with torch.cuda.stream(theirs):
        tensor.add_(1)
        result = tensor.cpu().numpy()
    assert np.array_equal(result, numbers() * 6 + 1)
    stream.synchronize()


def test_buffer_in_numba(fixture):
    cuda = library(fixture, "numba.cuda")
    buffer = fixture.buffer(numbers())
    array = cuda.as_cuda_array(Foreign(buffer))
    stream = cuda.external_stream(fixture.stream.get_native_handle())
    triple(fixture, buffer, fixture.stream)
    result = array.copy_to_host(stream=stream)
    fixture.stream.synchronize()
    assert np.array_equal(result, numbers() * 3)


def lend(fixture, from_dlpack, add, get_address, to_numpy):
    """Passes an array of this library to another library, which changes the memory, and keeps the
    memory alive after the array is freed."""
    array = Gpu.Array.from_numpy(fixture.context, numbers().reshape(1024, -1))
    part = array[::2, 1:]
    triple(fixture, array.memory, fixture.new_stream())
    theirs = from_dlpack(part)
    equal(get_address(theirs), part.device_address, "the address")
    add(theirs)
    expected = numbers().reshape(1024, -1) * 3
    expected[::2, 1:] += 1
    assert np.array_equal(array.to_numpy(), expected)
    del array, part
    gc.collect()
    for _ in range(4):                          # would reuse the memory if it was freed
        Gpu.Array.zeros(fixture.context, (1024, 1024), np.float32)
    assert np.array_equal(to_numpy(theirs), expected[::2, 1:])


def borrow(fixture, theirs, get_address, to_numpy, forget):
    """Imports an array of another library. Each of the two arrays stays valid if the other array is
    freed first."""
    array = Gpu.Array.from_dlpack(theirs, fixture.context)
    equal(array.device_address, get_address(theirs), "the address")
    before = to_numpy(theirs).copy()
    equal(array.shape, before.shape)
    assert np.array_equal(array.to_numpy(), before)
    again = Gpu.Array.from_dlpack(theirs, fixture.context)
    del again
    gc.collect()
    array[0] = 7
    fixture.context.synchronize()
    before[0] = 7
    assert np.array_equal(to_numpy(theirs), before)
    del theirs
    forget()
    for _ in range(4):
        Gpu.Array.zeros(fixture.context, before.shape, np.float32)
    assert np.array_equal(array.to_numpy(), before)


def test_array_in_cupy(fixture):
    cupy = library(fixture, "cupy")

    def add(array):
        array += 1
        cupy.cuda.get_current_stream().synchronize()

    lend(fixture, cupy.from_dlpack, add, lambda array: array.data.ptr, cupy.asnumpy)
    lend(fixture, cupy.asarray, add, lambda array: array.data.ptr, cupy.asnumpy)


def test_cupy_array_as_array(fixture):
    cupy = library(fixture, "cupy")

    def forget():
        gc.collect()
        cupy.get_default_memory_pool().free_all_blocks()

    made = [cupy.arange(N, dtype=cupy.float32).reshape(512, -1)]
    borrow(fixture, made.pop(), lambda array: array.data.ptr, cupy.asnumpy, forget)
    made = cupy.arange(N, dtype=cupy.float32)
    array = Gpu.Array.from_cuda_array_interface(fixture.context, made)
    equal(array.device_address, made.data.ptr, "the address")
    del made
    forget()
    assert np.array_equal(array.to_numpy(), numbers())


def test_array_in_torch(fixture):
    torch = library(fixture, "torch")

    def add(tensor):
        tensor.add_(1)
        torch.cuda.current_stream().synchronize()

    lend(fixture, torch.from_dlpack, add, lambda tensor: tensor.data_ptr(),
         lambda tensor: tensor.cpu().numpy())


def test_torch_tensor_as_array(fixture):
    torch = library(fixture, "torch")

    def forget():
        gc.collect()
        torch.cuda.empty_cache()

    made = [torch.arange(N, dtype=torch.float32, device="cuda").reshape(512, -1)]
    borrow(fixture, made.pop(), lambda tensor: tensor.data_ptr(),
           lambda tensor: tensor.cpu().numpy(), forget)


def test_current_context_stays(fixture):
    cupy = library(fixture, "cupy")
    before = cupy.cuda.driver.ctxGetCurrent()
    buffer = fixture.buffer(numbers())
    triple(fixture, buffer, fixture.stream)
    fixture.stream.synchronize()
    equal(cupy.cuda.driver.ctxGetCurrent(), before, "the current context")
    equal(fixture.context.get_native_handle(), before or fixture.context.get_native_handle(),
          "the primary context")


if __name__ == "__main__":
    sys.exit(main(globals()))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Moves NumPy arrays to a device and back, on every device that GPUMEM_TEST selects: with one copy
in each direction, or without a copy if kernels can access the memory of the array."""

import gc
import sys
import threading
import weakref

from python_util import Skip, equal, main, need, need_numpy, np, raises, spin
from gi.repository import GLib, Gpu

N = 100000

SOURCE = """
__kernel void
increment (__global uint *numbers, __global ulong *address)
{
  size_t i = get_global_id (0);

  numbers[i] += 1;
  if (i == 0)
    address[0] = (ulong) numbers;
}
"""


def shares_memory(device):
    """Returns whether the device has no memory other than host memory."""
    return device.backend == "host" or device.device_type == Gpu.DeviceType.CPU


def new_numbers():
    return np.arange(N, dtype=np.uint32)


def increment(fixture, memory):
    """Launches a kernel that increments all numbers, and waits for it. Returns the address of the
    numbers in the kernel."""
    need(fixture, Gpu.Capabilities.SOURCE)
    kernel = Gpu.Program(fixture.context, SOURCE).increment
    address = fixture.buffer(8)
    fixture.stream.launch(kernel, N, args=(memory, address))
    return int(address.to_numpy(np.uint64)[0])


def check(array):
    assert np.array_equal(array, new_numbers() + 1), f"{array} instead of 1 to {N}"


def test_copies(fixture):
    need_numpy()
    numbers = new_numbers()
    buffer = fixture.buffer(numbers.nbytes)
    buffer.write(numbers)
    increment(fixture, buffer)
    target = np.zeros(N, np.uint32)
    equal(buffer.read_into(target), numbers.nbytes)
    check(target)
    check(buffer.to_numpy(np.uint32))


def test_mapped_buffer(fixture):
    need_numpy()
    buffer = fixture.buffer(4 * N)
    with buffer.map(Gpu.MapFlags.WRITE_INVALIDATE) as mapping:
        array = np.asarray(mapping).view(np.uint32)
        equal(array.ctypes.data, mapping.address)
        array[:] = new_numbers()
        del array
    seen = increment(fixture, buffer)
    with buffer.map(Gpu.MapFlags.READ) as mapping:
        array = np.asarray(mapping).view(np.uint32)
        equal(array.ctypes.data, mapping.address)
        if shares_memory(fixture.device):
            equal(array.ctypes.data, seen)
        check(array)
        del array


def test_in_place(fixture):
    """A buffer over an array uses the memory of the array, and keeps the array alive."""
    need_numpy()
    need(fixture, Gpu.Capabilities.HOST_POINTER)
    numbers = new_numbers()
    buffer = Gpu.Buffer.new_for_data(fixture.context, numbers)
    equal(buffer.size, numbers.nbytes)
    address = increment(fixture, buffer)
    with buffer.map(Gpu.MapFlags.READ) as mapping:
        equal(mapping.address, numbers.ctypes.data)
        check(numbers)
    if shares_memory(fixture.device):
        equal(address, numbers.ctypes.data)
    array = Gpu.Array.for_memory(buffer, (2, N // 2), np.uint32)
    assert np.array_equal(array.to_numpy(), numbers.reshape(2, -1))
    freed = []
    weakref.finalize(numbers, freed.append, True)
    del numbers, mapping
    gc.collect()
    check(buffer.to_numpy(np.uint32))
    equal(freed, [])
    del buffer, array
    gc.collect()
    spin(lambda: freed == [True])


def test_in_place_released(fixture):
    """A release drops the array, although the buffer object still exists."""
    need_numpy()
    need(fixture, Gpu.Capabilities.HOST_POINTER)
    numbers = new_numbers()
    buffer = Gpu.Buffer.new_for_data(fixture.context, numbers)
    increment(fixture, buffer)
    freed = []
    weakref.finalize(numbers, freed.append, True)
    del numbers
    with buffer:
        assert buffer.get_host_bytes() is not None
    equal(buffer.get_host_bytes(), None)
    equal(buffer.props.host_bytes, None)
    spin(lambda: freed == [True])


def test_in_place_released_by_threads(fixture):
    """The bytes that a call returns are valid although other threads release the buffer."""
    need(fixture, Gpu.Capabilities.HOST_POINTER)
    content = bytes(range(256)) * 16
    for _ in range(300):
        buffer = Gpu.Buffer.new_for_data(fixture.context, bytearray(content))
        go = threading.Event()
        threads = [threading.Thread(target=lambda: go.wait() and buffer.release())
                   for _ in range(2)]
        for thread in threads:
            thread.start()
        go.set()
        while (data := buffer.get_host_bytes()) is not None:
            equal(data.get_data(), content)
        for thread in threads:
            thread.join()


def test_in_place_orders(fixture):
    """The buffer has the bytes in the order of the memory, also of a record or a view."""
    need_numpy()
    need(fixture, Gpu.Capabilities.HOST_POINTER)
    for data in (np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)),
                 np.zeros(3, [("a", "u1"), ("b", "f8")]), np.arange(9, dtype=np.uint8)[3:],
                 np.array(["2020-01-02"], "datetime64[D]"), bytearray(b"abc"),
                 np.asarray(5.0)):
        buffer = Gpu.Buffer.new_for_data(fixture.context, data)
        equal(buffer.read(), data.tobytes("A") if hasattr(data, "tobytes") else bytes(data))
        buffer.fill(7)
        with buffer.map(Gpu.MapFlags.READ):
            equal(data.tobytes() if hasattr(data, "tobytes") else bytes(data), b"\7" * buffer.size)


def test_in_place_read_only(fixture):
    """All work that writes read-only memory fails."""
    need_numpy()
    need(fixture, Gpu.Capabilities.HOST_POINTER)
    flags = Gpu.MemoryFlags.READ_ONLY | Gpu.MemoryFlags.HOST_READ_ONLY
    numbers = new_numbers()
    numbers.flags.writeable = False
    for data in numbers, bytes(8), memoryview(b"12345678"):
        with raises(ValueError, f"'{type(data).__name__}' is read-only", "HOST_READ_ONLY"):
            Gpu.Buffer.new_for_data(fixture.context, data)
        with raises(ValueError, "read-only"):
            Gpu.Buffer.new_for_data(fixture.context, data, Gpu.MemoryFlags.READ_ONLY)
        buffer = Gpu.Buffer.new_for_data(fixture.context, data, flags)
        equal(buffer.read(), bytes(data))
        for write in (lambda: buffer.write(b"x"), lambda: buffer.fill(1), buffer.map,
                      lambda: buffer.map(Gpu.MapFlags.WRITE),
                      lambda: fixture.stream.copy(buffer, fixture.buffer(8)),
                      lambda: fixture.stream.launch(fixture.program().add, 1, args=(buffer, 1))):
            with raises(Gpu.Error.INVALID_ARGUMENT):
                write()
        array = Gpu.Array.for_memory(buffer, (2, 4), "uint8")
        for part in array, array[0], array[0, ::2], array[:, ::2], array[:, :2], array[:, 1:]:
            with raises(Gpu.Error.INVALID_ARGUMENT, "Array.fill: bytes ", "read only"):
                part.fill(1)
        equal(buffer.read(), bytes(data))


def test_in_place_wrong(fixture):
    need_numpy()
    need(fixture, Gpu.Capabilities.HOST_POINTER)
    for data, error, word in ((np.zeros((4, 4))[:, ::2], ValueError, "not contiguous"),
                              (np.array([None]), TypeError, "object"),
                              ([1, 2], TypeError, "bytes-like"), (5, TypeError, "bytes-like"),
                              (np.zeros(0), ValueError, "0 bytes"),
                              (b"", ValueError, "0 bytes"),
                              (Gpu.Array.zeros(fixture.context, 3), Exception, "")):
        for flags in (0, 5):
            with raises(error, word):
                Gpu.Buffer.new_for_data(fixture.context, data, Gpu.MemoryFlags(flags))


def test_mapped_svm(fixture):
    need_numpy()
    need(fixture, Gpu.Capabilities.SVM_COARSE)
    svm = Gpu.Svm.shaped(fixture.context, N, np.uint32)
    with svm.map(Gpu.MapFlags.WRITE_INVALIDATE) as mapping:
        mapping.to_numpy()[:] = new_numbers()
    seen = increment(fixture, svm)
    with svm.map(Gpu.MapFlags.READ) as mapping:
        array = mapping.to_numpy()
        equal((svm.address, seen), (array.ctypes.data, array.ctypes.data))
        check(array)
        del array


def test_svm_of_fine_grain(fixture):
    need_numpy()
    need(fixture, Gpu.Capabilities.SVM_FINE)
    array = Gpu.Svm.empty(fixture.context, N, np.uint32)
    array[:] = new_numbers()
    equal(increment(fixture, array), array.ctypes.data)
    check(array)


def new_page_locked(fixture):
    """Creates an array in host memory that kernels can access."""
    try:
        return Gpu.HostMemory.empty(fixture.context, N, np.uint32,
                                    flags=Gpu.HostMemoryFlags.MAPPED)
    except GLib.Error as error:
        if not error.matches(Gpu.error_quark(), Gpu.Error.NOT_SUPPORTED):
            raise
        raise Skip(error.message) from None


def test_page_locked(fixture):
    need_numpy()
    array = new_page_locked(fixture)
    array[:] = new_numbers()
    seen = increment(fixture, array)
    Gpu.memory_of(array).synchronize()
    equal(np.asarray(Gpu.memory_of(array)).ctypes.data, array.ctypes.data)
    # On OpenCL a GPU may see the memory at another address.
    if fixture.device.backend != "opencl" or shares_memory(fixture.device):
        equal(array.ctypes.data, seen)
    check(array)


def test_array_page_locked(fixture):
    """An existing NumPy array is page-locked, and the device copies from and to its memory."""
    need_numpy()
    array = new_numbers()
    buffer = fixture.buffer(array)
    increment(fixture, buffer)
    with Gpu.pinned(fixture.context, array) as memory:
        equal(memory.address, array.ctypes.data)
        fixture.stream.copy(memory, buffer)
        memory.synchronize(Gpu.MapFlags.READ)
        check(array)


if __name__ == "__main__":
    sys.exit(main(globals()))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Moves NumPy arrays to a device and back, on every device that GPUMEM_TEST selects: with one copy
in each direction, or without a copy if kernels can access the memory of the array."""

import sys

from python_util import Skip, equal, main, need, need_numpy, np
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

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Moves a NumPy array of 1 GiB to the device and back: first without any copy, through NumPy arrays
over memory that the kernel accesses; then with one copy in each direction, compared with PyOpenCL,
CuPy and PyTorch on the same device.

    benchmarks/numpy-roundtrip.py [--python FILE] [DEVICE [MIB]]

DEVICE defaults to the library's default device. --python runs the other libraries in another Python
interpreter. Times are wall-clock times, a GB is 10^9 bytes, and figures are medians of all rounds.
A ratio is the speed of gpumem divided by the speed of the library in the previous column, as the
median of the ratios of the rounds. Each library runs in a separate process, which sleeps while the
other libraries are measured."""

import argparse
import contextlib
import json
import sys
import time

import numpy as np

from rounds import environment, median, print_speeds, print_table, start, take_turns

ROUNDS = 7
OURS = "gpumem"
RIVALS = {"PyOpenCL": "pyopencl", "CuPy": "cupy", "PyTorch": "torch"}

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


def make_numbers(n):
    return np.arange(n, dtype=np.uint32)


# --- arrays over memory -------------------------------------------------------------------------
# Each function returns the kernel argument, and a function that returns the array.

def map_buffer(Gpu, context, n):
    buffer = Gpu.Buffer(context, 4 * n)
    return buffer, buffer.map


def map_svm(Gpu, context, n):
    svm = Gpu.Svm(context, 4 * n)
    return svm, svm.map


def use_svm(Gpu, context, n):
    array = Gpu.Svm.empty(context, n, np.uint32)
    return array, lambda flags: contextlib.nullcontext(array)


def use_page_locked(Gpu, context, n):
    array = Gpu.HostMemory.empty(context, n, np.uint32, flags=Gpu.HostMemoryFlags.MAPPED)
    return array, lambda flags: contextlib.nullcontext(array)


def lock_array(Gpu, context, n):
    array = np.empty(n, np.uint32)
    memory = Gpu.HostMemory.registered(context, array, Gpu.HostMemoryFlags.MAPPED)
    return memory, lambda flags: contextlib.nullcontext(array)


WAYS = {"a buffer, mapped": map_buffer,
        "shared virtual memory, mapped": map_svm,
        "shared virtual memory of fine grain": use_svm,
        "page-locked memory": use_page_locked,
        "an array of NumPy's, page-locked": lock_array}


def see(show, flags, use):
    """Calls use (array). Returns the address of the array, and the milliseconds that it took to
    create and to release the array."""
    start = time.perf_counter()
    with show(flags) as shown:
        array = np.asarray(shown).view(np.uint32)
        address = array.ctypes.data
        begin = time.perf_counter()
        use(array)
        used = time.perf_counter() - begin
        del array
    return address, (time.perf_counter() - start - used) * 1e3


def time_seeing(show, flags):
    return f"{median(see(show, flags, id)[1] for i in range(ROUNDS)):.3f}"


def check_numbers(array):
    if not np.array_equal(array, make_numbers(array.size) + 1):
        sys.exit("numpy-roundtrip: the numbers are wrong")


def try_way(Gpu, context, increment, make, n):
    """Returns the cells of one line of the table."""
    read, write = Gpu.MapFlags.READ, Gpu.MapFlags.WRITE_INVALIDATE
    argument, show = make(Gpu, context, n)
    seen = Gpu.Buffer(context, 8)
    to_write = time_seeing(show, write)
    see(show, write, lambda array: np.copyto(array, make_numbers(n)))
    increment(context.default_stream, n, None, argument, seen)
    context.synchronize()
    to_read = time_seeing(show, read)
    address, _ = see(show, read, check_numbers)
    seen = int(seen.to_numpy(np.uint64)[0])
    copies = "none" if address == seen else "the driver makes"
    return [f"0x{address:x}", f"0x{seen:x}", copies, to_write, to_read]


def show_arrays(Gpu, device, n):
    """Prints the table of arrays over memory that the kernel uses."""
    from gi.repository import GLib

    context = Gpu.Context(device)
    increment = Gpu.Program(context, SOURCE).increment
    lines = [["an array over", "is at", "for the kernel at", "copies", "ms to write",
              "ms to read"]]
    for name, make in WAYS.items():
        try:
            lines.append([name, *try_way(Gpu, context, increment, make, n)])
        except GLib.Error as error:
            if not error.matches(Gpu.error_quark(), Gpu.Error.NOT_SUPPORTED):
                raise
            print(f"{name} is left out: {error.message}")
    print_table(lines)


# --- copies -------------------------------------------------------------------------------------
# There is one function for each library. It returns one function for each direction of a copy.

def copy_with_gpumem(name, numbers, result):
    import gi
    gi.require_version("Gpu", "1.0")
    from gi.repository import Gpu

    buffer = Gpu.Buffer(Gpu.Context(name), numbers.nbytes)
    return lambda: buffer.write(numbers), lambda: buffer.read_into(result)


def copy_with_pyopencl(name, numbers, result):
    import pyopencl as cl

    devices = [device for platform in cl.get_platforms() for device in platform.get_devices()
               if device.name == name]
    if not devices:
        sys.exit(f"no device {name}")
    context = cl.Context(devices[:1])
    queue = cl.CommandQueue(context)
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, numbers.nbytes)
    return (lambda: cl.enqueue_copy(queue, buffer, numbers),
            lambda: cl.enqueue_copy(queue, result, buffer))


def copy_with_cupy(name, numbers, result):
    import cupy as cp

    runtime = cp.cuda.runtime
    indices = [index for index in range(runtime.getDeviceCount())
               if runtime.getDeviceProperties(index)["name"].decode() == name]
    if not indices:
        sys.exit(f"no device {name}")
    cp.cuda.Device(indices[0]).use()
    array = cp.empty_like(numbers)

    def write():
        array.set(numbers)
        cp.cuda.get_current_stream().synchronize()
    return write, lambda: array.get(out=result)


def copy_with_torch(name, numbers, result):
    import torch

    indices = [index for index in range(torch.cuda.device_count())
               if torch.cuda.get_device_name(index) == name]
    if not indices:
        sys.exit(f"no device {name}")
    source, target = (torch.from_numpy(array.view(np.int32)) for array in (numbers, result))
    tensor = torch.empty_like(source, device=f"cuda:{indices[0]}")

    def write():
        tensor.copy_(source)
        torch.cuda.synchronize(indices[0])
    return write, lambda: target.copy_(tensor)


def time_call(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def work(library, name, n):
    """Runs as a worker process of rounds.py."""
    numbers, result = make_numbers(n), np.zeros(n, np.uint32)
    write, read = globals()[f"copy_with_{library}"](name, numbers, result)
    for _ in sys.stdin:
        speeds = {"to the device": 1e-9 * numbers.nbytes / time_call(write),
                  "from the device": 1e-9 * numbers.nbytes / time_call(read)}
        if not np.array_equal(result, numbers):
            sys.exit("the data are wrong after the round trip")
        result[:] = 0
        print(json.dumps(speeds), flush=True)


def list_commands(device, python, n):
    """Returns each library's worker command and environment."""
    ours = [sys.executable, __file__, "--work", OURS, device.id, str(n)]
    commands = {OURS: (ours, environment())}
    for library, word in RIVALS.items():
        command = [python or sys.executable, __file__, "--work", word, device.name, str(n)]
        commands[library] = (command, environment(python is not None))
    return commands


def main():
    if sys.argv[1:2] == ["--work"]:
        return work(*sys.argv[2:4], int(sys.argv[4]))
    parser = argparse.ArgumentParser(description="NumPy arrays to a device and back")
    parser.add_argument("--python", metavar="FILE")
    parser.add_argument("device", nargs="?")
    parser.add_argument("mib", nargs="?", type=int, default=1024)
    options = parser.parse_args()

    import gi
    gi.require_version("Gpu", "1.0")
    from gi.repository import Gpu

    device = Gpu.Device(options.device)
    n = options.mib << 18
    print(f"{options.mib} MiB on {device.id}, {device.name}\n")
    show_arrays(Gpu, device, n)
    print()
    print_speeds(take_turns(start(list_commands(device, options.python, n)), ROUNDS), OURS)


main()

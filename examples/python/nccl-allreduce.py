#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""nccl-allreduce: NCCL adds vectors of several GPUs, in memory of pools. The work before and after
NCCL is on other streams. The streams wait for each other, and this program does not wait.

    ./nccl-allreduce.py 2

The argument is the number of GPUs, by default all. NCCL is loaded with ctypes: the library
libnccl.so.2 of the system, or that of the package nvidia-nccl-cu12 or -cu13 of PyPI."""

import argparse
import ctypes
import glob
import sys

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

N = 1 << 20
FLOAT32, SUM = 7, 0                             # ncclFloat32 and ncclSum of nccl.h

SOURCE = """
__kernel void
begin (__global float *numbers, float factor)
{
  size_t i = get_global_id (0);

  numbers[i] = factor * (float) (i % 1000);
}

__kernel void
halve (__global float *numbers)
{
  numbers[get_global_id (0)] /= 2;
}
"""


def skip(reason):
    print(reason)
    sys.exit(77)


def load():
    """Returns the library, whose functions raise RuntimeError if they fail."""
    wheels = [path for folder in sys.path
              for path in glob.glob(f"{glob.escape(folder)}/nvidia/nccl/lib/libnccl.so*")]
    try:
        nccl = ctypes.CDLL(wheels[0] if wheels else "libnccl.so.2")
    except OSError as error:
        skip(f"NCCL is not installed: {error}")

    def check(result, function, arguments):
        if result != 0:
            raise RuntimeError(f"{function.__name__}: {nccl.ncclGetErrorString(result).decode()}")

    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    nccl.ncclGetErrorString.restype = ctypes.c_char_p
    nccl.ncclGetErrorString.argtypes = [number]
    for name, arguments in (
            ("ncclCommInitAll", [ctypes.POINTER(pointer), number, ctypes.POINTER(number)]),
            ("ncclAllReduce", [pointer, pointer, size, number, number, pointer, pointer]),
            ("ncclGroupStart", []),
            ("ncclGroupEnd", []),
            ("ncclCommDestroy", [pointer])):
        function = getattr(nccl, name)
        function.restype, function.argtypes, function.errcheck = number, arguments, check
    return nccl


class Worker:
    """A GPU with its vector in memory of a pool, a stream for kernels, and a stream for NCCL."""

    def __init__(self, device):
        self.context = Gpu.Context(device)
        self.program = Gpu.Program(self.context, SOURCE)
        self.compute, self.exchange = Gpu.Stream(self.context), Gpu.Stream(self.context)
        self.pool = Gpu.MemoryPool(self.context)
        self.vector = Gpu.Array.empty(self.context, N, "float32", allocator=self.pool)

    def begin(self, factor):
        self.compute.launch(self.program.begin, N, args=(self.vector, float(factor)))

    def end(self):
        self.compute.launch(self.program.halve, N, args=(self.vector,))


def connect(nccl, workers):
    """Returns the communicators of NCCL, one for each GPU."""
    numbers = [int(worker.context.device.id.rpartition(":")[2]) for worker in workers]
    comms = (ctypes.c_void_p * len(workers))()
    try:
        nccl.ncclCommInitAll(comms, len(workers), (ctypes.c_int * len(workers))(*numbers))
    except RuntimeError as error:
        skip(f"NCCL cannot use these GPUs: {error}")
    return comms


def reduce(nccl, comms, workers):
    """Replaces each vector by the sum of all vectors. NCCL submits its work to the driver's
    streams, and the library cannot see that work."""
    for worker in workers:
        # NCCL waits for the kernels that use the vector, on any stream
        worker.exchange.wait_array(worker.vector)
        # The pool does not reuse the memory before the work of NCCL has completed
        worker.vector.memory.add_stream(worker.exchange)

    nccl.ncclGroupStart()
    for comm, worker in zip(comms, workers):
        address = worker.vector.device_address
        nccl.ncclAllReduce(address, address, N, FLOAT32, SUM, comm,
                           worker.exchange.get_native_handle())
    nccl.ncclGroupEnd()

    for worker in workers:
        # Later kernels wait for NCCL
        worker.compute.wait_event(worker.exchange.record())


def check(workers):
    total = sum(range(1, len(workers) + 1)) / 2
    for worker in workers:
        numbers = worker.vector.to_numpy(worker.compute)
        if any(numbers[i] != total * (i % 1000) for i in range(0, N, 997)):
            sys.exit(f"nccl-allreduce: the sum is wrong on {worker.context.device.id}")


def run(number=None):
    devices = [device for device in Gpu.devices() if device.backend == "cuda"]
    number = len(devices) if number is None else number
    if not 2 <= number <= len(devices):
        skip(f"there are {len(devices)} GPUs with CUDA, and this takes at least 2, not {number}")
    nccl = load()
    workers = [Worker(device) for device in devices[:number]]
    comms = connect(nccl, workers)

    for rank, worker in enumerate(workers):
        worker.begin(rank + 1)
    reduce(nccl, comms, workers)
    for worker in workers:
        worker.end()
    check(workers)
    for comm in comms:
        nccl.ncclCommDestroy(comm)
    print(f"NCCL added {number} vectors of {N} numbers in memory of pools")


parser = argparse.ArgumentParser(prog="nccl-allreduce", description=__doc__.partition("\n\n")[0])
parser.add_argument("number", type=int, nargs="?", help="number of GPUs, by default all")
try:
    run(parser.parse_args().number)
except GLib.Error as error:
    sys.exit(f"nccl-allreduce: {error.message}")
except RuntimeError as error:
    sys.exit(f"nccl-allreduce: {error}")

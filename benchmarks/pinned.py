#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measures the allocation of page-locked memory, compared with cuMemHostAlloc() and PyTorch.

    benchmarks/pinned.py [--python FILE] [--numa-node NODE] [--rounds N] [DEVICE [MIB...]]

The first table has the time to allocate memory of each size, by default 64, 1024 and 16384 MiB, in
milliseconds for each MiB, and the speed of the first copy of that memory to the device, of at most
256 MiB. The memory is new in each round. The ratio is the time of gpumem divided by the time of the
library in the previous column; for copies, the speed of gpumem divided by the other speed. Ratios
and figures are medians of all rounds.

The second table has the largest number of bytes that each cache of page-locked memory held, divided
by the largest number of bytes that were in use, for three sequences of 4000 random requests of 4
KiB to 64 MiB with random lifetimes, of 1 to 2 GiB in use. The pool of gpumem is expandable if the
device supports that for host memory; otherwise it has segments from a Gpu.HostAllocator.

DEVICE defaults to the library's default device. --python runs PyTorch in another Python
interpreter. Each library runs in a separate process, which sleeps while the others are measured."""

import argparse
import contextlib
import ctypes
import gc
import heapq
import json
import os
import random
import sys
import time

from rounds import environment, median, print_table, start, take_turns

OURS = "gpumem"
MIB = 1 << 20
MAX_COPY = 256 * MIB
PORTABLE = 1                           # of cuMemHostAlloc()
TRACES = 3
REQUESTS = 4000
LIFETIME = 200                         # requests, on average


def find_ordinal(device_id):
    backend, _, ordinal = device_id.partition(":")
    if backend != "cuda":
        sys.exit(f"{device_id} is not a CUDA device")
    return int(ordinal)


# --- libraries ----------------------------------------------------------------------------------
# take(size) returns new page-locked memory, copy(memory, size) copies it to the device and waits.
# open() returns a cache of page-locked memory, as functions that allocate memory, and that return
# the largest number of bytes that the cache held; open() returns None if there is no such cache.

class Ours:
    def __init__(self, device, size, numa_node):
        import gi
        gi.require_version("Gpu", "1.0")
        from gi.repository import GLib, Gpu

        self.Gpu, self.GLib = Gpu, GLib
        self.context = Gpu.Context(device)
        self.stream = self.context.default_stream
        self.target = Gpu.Buffer(self.context, size)
        self.options = {} if numa_node is None else {"numa_node": numa_node}

    def take(self, size):
        return self.Gpu.HostMemory(self.context, size, **self.options)

    def copy(self, memory, size):
        self.stream.copy(self.target, memory, size)
        self.stream.synchronize()

    def new_pool(self):
        Gpu = self.Gpu
        with contextlib.suppress(self.GLib.Error):
            return Gpu.MemoryPool.new(self.context, Gpu.MemoryPoolKind.EXPANDABLE,
                                      Gpu.MemoryFlags.ALLOC_HOST)
        allocator = Gpu.HostAllocator(self.context, **self.options)
        return Gpu.MemoryPool.new_for_allocator(allocator, Gpu.MemoryPoolKind.SEGMENTS, 0)

    def open(self):
        pool = self.new_pool()
        return pool.alloc_buffer, lambda: pool.props.peak_managed_bytes

    def empty(self):
        gc.collect()


class Driver:
    """Calls of the CUDA driver."""

    def __init__(self, device, size, numa_node):
        try:
            self.cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            sys.exit(str(error))
        self.context, self.target = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), find_ordinal(device))
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuMemAlloc_v2", ctypes.byref(self.target), ctypes.c_size_t(size))

    def call(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        if code != 0:
            raise MemoryError(f"{name}: {code}")

    def take(self, size):
        driver, data = self, ctypes.c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(data), ctypes.c_size_t(size), PORTABLE)

        class Memory:
            def __del__(self):
                driver.call("cuMemFreeHost", data)
        memory = Memory()
        memory.data = data
        return memory

    def copy(self, memory, size):
        self.call("cuMemcpyHtoDAsync_v2", self.target, memory.data, ctypes.c_size_t(size), None)
        self.call("cuStreamSynchronize", None)

    def open(self):
        return None

    def empty(self):
        gc.collect()


class Torch:
    conf = None

    def __init__(self, device, size, numa_node):
        ordinal = find_ordinal(device)
        if self.conf is not None:
            os.environ["PYTORCH_CUDA_ALLOC_CONF"] = self.conf
            os.environ["PYTORCH_ALLOC_CONF"] = self.conf
        import torch

        self.torch = torch
        torch.cuda.set_device(ordinal)
        self.target = torch.empty(size, dtype=torch.uint8, device=f"cuda:{ordinal}")

    def take(self, size):
        return self.torch.empty(size, dtype=self.torch.uint8, pin_memory=True)

    def copy(self, memory, size):
        self.target[:size].copy_(memory[:size], non_blocking=True)
        self.torch.cuda.synchronize()

    def open(self):
        cuda = self.torch.cuda
        if not hasattr(cuda, "host_memory_stats"):
            return None
        self.empty()
        cuda.reset_peak_host_memory_stats()
        return self.take, self.get_peak

    def get_peak(self):
        stats = self.torch.cuda.host_memory_stats()
        return stats.get("reserved_bytes.peak", stats.get("allocated_bytes.peak"))

    def empty(self):
        gc.collect()
        self.torch.cuda.synchronize()
        self.torch._C._host_emptyCache()


class TorchRegistering(Torch):
    conf = "pinned_use_cuda_host_register:True,pinned_num_register_threads:8"


LIBRARIES = {OURS: Ours, "cuMemHostAlloc": Driver, "PyTorch": Torch,
             "PyTorch, registering": TorchRegistering}


# --- workers ------------------------------------------------------------------------------------

def measure(library, size):
    """Returns the milliseconds for each MiB, and the GB/s of the first copy."""
    copied = min(size, MAX_COPY)
    library.empty()
    begin = time.perf_counter()
    memory = library.take(size)
    allocated = time.perf_counter()
    library.copy(memory, copied)
    done = time.perf_counter()
    del memory
    library.empty()
    return 1e3 * (allocated - begin) / (size / MIB), 1e-9 * copied / (done - allocated)


def list_requests(seed):
    """Yields (number, size) for an allocation, and (number, None) for a free."""
    numbers = random.Random(seed)
    ends = []                          # a heap of (time, number)
    for i in range(REQUESTS):
        while ends and ends[0][0] <= i:
            yield heapq.heappop(ends)[1], None
        yield i, int(4096 * 2 ** numbers.uniform(0, 14))
        heapq.heappush(ends, (i + 1 + numbers.expovariate(1 / LIFETIME), i))


def replay(cache, seed):
    """Returns the largest number of bytes that the cache held, divided by those in use."""
    take, get_peak = cache
    held, total, peak = {}, 0, 0
    for number, size in list_requests(seed):
        if size is None:
            total -= held.pop(number)[1]
        else:
            held[number] = take(size), size
            total += size
            peak = max(peak, total)
    held.clear()
    return get_peak() / peak


def run_round(library, sizes):
    figures = {}
    for size in sizes:
        figures[f"{size // MIB} MiB, ms/MiB"], figures[f"{size // MIB} MiB, GB/s"] = \
            measure(library, size)
    return figures


def work(name, device, numa_node, sizes):
    """Runs as a worker process of rounds.py. The first line of input also starts the traces, whose
    results are the same in each round."""
    library = LIBRARIES[name](device, min(max(sizes), MAX_COPY), numa_node)
    wastes = []
    for _ in sys.stdin:
        for seed in range(len(wastes), TRACES):
            cache = library.open()
            wastes.append(cache and replay(cache, seed))
            cache = None
            library.empty()
        print(json.dumps({"waste": wastes, "times": run_round(library, sizes)}), flush=True)


# --- tables -------------------------------------------------------------------------------------

def print_times(rounds):
    others = [name for name in rounds[0] if name != OURS]
    lines = [["", OURS] + [title for name in others for title in (name, "ratio")]]
    for what in rounds[0][OURS]["times"]:
        figures = {name: [values[name]["times"][what] for values in rounds] for name in rounds[0]}
        cells = [what, f"{median(figures[OURS]):.3f}"]
        for name in others:
            ratio = median(a / b for a, b in zip(figures[OURS], figures[name]))
            cells += [f"{median(figures[name]):.3f}", f"{ratio:.2f}"]
        lines.append(cells)
    print_table(lines)


def print_wastes(figures):
    names = [name for name in figures if figures[name]["waste"][0] is not None]
    lines = [["held / in use", *names]]
    for i in range(TRACES):
        lines.append([f"trace {i + 1}", *(f"{figures[name]['waste'][i]:.3f}" for name in names)])
    print_table(lines)


def list_commands(device, options):
    """Returns each library's worker command and environment."""
    commands = {}
    for name in LIBRARIES:
        is_torch = name.startswith("PyTorch")
        python = options.python if is_torch and options.python else sys.executable
        command = [python, __file__, "--work", name, device.id, json.dumps(options.numa_node),
                   *map(str, options.mib)]
        commands[name] = (command, environment(is_torch and options.python is not None))
    return commands


def main():
    if sys.argv[1:2] == ["--work"]:
        name, device, numa_node, *sizes = sys.argv[2:]
        return work(name, device, json.loads(numa_node), [int(size) * MIB for size in sizes])
    parser = argparse.ArgumentParser(description="The allocation of page-locked memory")
    parser.add_argument("--python", metavar="FILE")
    parser.add_argument("--numa-node", metavar="NODE", type=int)
    parser.add_argument("--rounds", metavar="N", type=int, default=5)
    parser.add_argument("device", nargs="?")
    parser.add_argument("mib", nargs="*", type=int, default=[64, 1024, 16384])
    options = parser.parse_args()

    import gi
    gi.require_version("Gpu", "1.0")
    from gi.repository import Gpu

    device = Gpu.Device(options.device)
    print(f"{device.id}, {device.name}\n")
    workers = start(list_commands(device, options))
    if OURS not in workers:
        sys.exit(1)
    rounds = take_turns(workers, options.rounds)
    print_times(rounds)
    print()
    print_wastes(rounds[0])


main()

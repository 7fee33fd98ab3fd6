#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Copies 4,096 rows in a random order: on the device, from page-locked memory to the device, and
back. Compares Gpu.Stream.take_rows() with Gpu.Stream.copy_batch(), with a loop of
Gpu.Stream.copy(), with index_select() of PyTorch and with copy_batch() of cuda.core on a GPU, and
with take() of NumPy on a CPU.

    benchmarks/copy-batches.py [--python FILE] [--seconds N] [DEVICE [ROWS]]

DEVICE defaults to the library's default device. --python runs PyTorch and cuda.core in another
Python interpreter. Libraries that are not installed are omitted. All processes end after N seconds,
by default 240. PyTorch gathers rows in page-locked memory with the CPU, and copies the result; it
gathers rows for page-locked memory on the device first.

Times are wall-clock times of several consecutive batches, including the wait for the last one. A GB
is 10^9 copied bytes. Figures are medians of all rounds. A ratio is the speed of gpumem divided by
the speed of the library in the previous column, as the median of the ratios of the rounds."""

import argparse
import json
import signal
import sys
import time

import numpy as np

from rounds import environment, print_speeds, start, take_turns

ROUNDS = 5
SECONDS = 0.02                  # of batches per figure, in at most REPEATS batches
REPEATS = 20
KIB = (4, 8, 16, 32)
OURS = "gpumem"
LIBRARIES = {OURS: "gpumem", "a batch": "batch", "a loop": "loop", "PyTorch": "torch",
             "cuda.core": "core", "NumPy": "numpy"}

# The names of the directions, and whether the destination and the source are host memory
DIRECTIONS = {"on the device": (False, False), "to the device": (False, True),
              "from the device": (True, False)}


def choose_rows(n_rows):
    return np.random.default_rng(1).permutation(n_rows)


def prepare_gpumem(name, n_bytes, kind="rows"):
    import gi
    gi.require_version("Gpu", "1.0")
    from gi.repository import Gpu

    context = Gpu.Context(Gpu.Device(name))
    stream = context.default_stream

    def make(is_host):
        return Gpu.HostMemory(context, n_bytes) if is_host else Gpu.Buffer(context, n_bytes)

    def to_array(memory, n_rows, size):
        return Gpu.Array.new_for_memory(memory, 0, Gpu.DType("uint8"), [n_rows, size], None)

    def prepare(target, source, rows, size):
        arrays = [to_array(memory, len(rows), size) for memory in (target, source)]
        copies = [(target, source, size, i * size, int(row) * size)
                  for i, row in enumerate(rows)]

        def copy_each():
            for each in copies:
                stream.copy(*each)
        return {"rows": lambda: stream.take_rows(*arrays, rows),
                "batch": lambda: stream.copy_batch(copies), "loop": copy_each}[kind]

    def fill(memory, data):
        stream.write(memory, data.tobytes())
        stream.synchronize()

    def read(memory, size):
        data = stream.read(memory, size=size)
        stream.synchronize()
        return np.frombuffer(data.get_data(), np.uint8)

    return make, fill, prepare, stream.synchronize, read


def prepare_batch(name, n_bytes):
    return prepare_gpumem(name, n_bytes, "batch")


def prepare_loop(name, n_bytes):
    return prepare_gpumem(name, n_bytes, "loop")


def prepare_torch(name, n_bytes):
    import torch

    device = find_torch_device(torch, name)

    def make(is_host):
        return (torch.empty(n_bytes, dtype=torch.uint8, pin_memory=True) if is_host
                else torch.empty(n_bytes, dtype=torch.uint8, device=device))

    def prepare(target, source, rows, size):
        n = len(rows)
        target, source = (tensor[:n * size].view(n, size) for tensor in (target, source))
        rows = torch.from_numpy(rows).to(source.device)
        if target.device == source.device:
            return lambda: torch.index_select(source, 0, rows, out=target)
        between = torch.empty((n, size), dtype=torch.uint8, device=source.device,
                              pin_memory=source.device.type == "cpu")

        def copy():
            if source.device.type == "cpu":
                torch.cuda.synchronize(device)          # before the CPU writes the rows again
            torch.index_select(source, 0, rows, out=between)
            target.copy_(between, non_blocking=True)
        return copy

    return (make, lambda memory, data: memory[:len(data)].copy_(torch.from_numpy(data)), prepare,
            lambda: torch.cuda.synchronize(device),
            lambda memory, size: memory[:size].cpu().numpy())


def find_torch_device(torch, name):
    for index in range(torch.cuda.device_count()):
        if torch.cuda.get_device_name(index) == name:
            return torch.device("cuda", index)
    sys.exit(f"no device {name}")


def prepare_core(name, n_bytes):
    from cuda.core import Buffer, Device
    from cuda.core.utils import copy_batch

    make, fill, _, _, read = prepare_torch(name, n_bytes)       # which allocates the memory
    import torch
    device = Device(find_torch_device(torch, name).index)
    device.set_current()
    stream = device.create_stream()

    def prepare(target, source, rows, size):
        sources = [Buffer.from_handle(source.data_ptr() + int(row) * size, size, owner=source)
                   for row in rows]
        targets = [Buffer.from_handle(target.data_ptr() + i * size, size, owner=target)
                   for i in range(len(rows))]
        return lambda: copy_batch(stream, sources, targets)

    return make, fill, prepare, stream.sync, read


def prepare_numpy(name, n_bytes):
    def prepare(target, source, rows, size):
        n = len(rows)
        target, source = (array[:n * size].reshape(n, size) for array in (target, source))
        return lambda: np.take(source, rows, axis=0, out=target, mode="clip")

    def fill(memory, data):
        memory[:len(data)] = data

    return (lambda is_host: np.empty(n_bytes, np.uint8), fill, prepare, int,
            lambda memory, size: memory[:size])


def prepare_batches(prepared, n_rows):
    """Does each batch once and verifies the copies. Returns each batch with its size in bytes."""
    make, fill, prepare, wait, read = prepared
    rows = choose_rows(n_rows)
    batches = {}
    for direction, (to_host, from_host) in DIRECTIONS.items():
        target, source = make(to_host), make(from_host)
        for kib in KIB:
            size = kib << 10
            data = np.random.default_rng(kib).integers(0, 256, n_rows * size, np.uint8)
            fill(source, data)
            copy = prepare(target, source, rows, size)
            copy()
            wait()
            if not np.array_equal(read(target, n_rows * size).reshape(n_rows, size),
                                  data.reshape(n_rows, size)[rows]):
                sys.exit(f"a copy is wrong: {direction}, {kib} KiB")
            batches[f"{direction}, {kib} KiB"] = copy, n_rows * size
    return batches


def time_some(n, copy, wait):
    start_time = time.perf_counter()
    for _ in range(n):
        copy()
    wait()
    return (time.perf_counter() - start_time) / n


def time_batch(copy, wait, n_bytes):
    """Returns GB/s."""
    n = int(SECONDS / time_some(1, copy, wait))
    return 1e-9 * n_bytes / time_some(min(max(n, 1), REPEATS), copy, wait)


def work(library, name, n_rows, seconds):
    """Runs as a worker process of rounds.py."""
    signal.alarm(seconds)
    prepared = globals()[f"prepare_{library}"](name, n_rows * max(KIB) << 10)
    batches = prepare_batches(prepared, n_rows)
    wait = prepared[3]
    for _ in sys.stdin:
        print(json.dumps({what: time_batch(copy, wait, n_bytes)
                          for what, (copy, n_bytes) in batches.items()}), flush=True)


def list_commands(device, options):
    """Returns each library's worker command and environment."""
    from gi.repository import Gpu

    is_gpu = device.device_type == Gpu.DeviceType.GPU
    commands = {}
    for library, word in LIBRARIES.items():
        is_ours = word in ("gpumem", "batch", "loop")
        if not is_ours and (word == "numpy") == is_gpu:
            continue
        is_other = not is_ours and options.python is not None
        command = [options.python if is_other else sys.executable, __file__, "--work", word,
                   device.id if is_ours else device.name, str(options.rows),
                   str(options.seconds)]
        commands[library] = (command, environment(is_other))
    return commands


def main():
    if sys.argv[1:2] == ["--work"]:
        return work(*sys.argv[2:4], int(sys.argv[4]), int(sys.argv[5]))
    parser = argparse.ArgumentParser(description="batches of copies of rows")
    parser.add_argument("--python", metavar="FILE")
    parser.add_argument("--seconds", metavar="N", type=int, default=240)
    parser.add_argument("device", nargs="?")
    parser.add_argument("rows", nargs="?", type=int, default=4096)
    options = parser.parse_args()

    import gi
    gi.require_version("Gpu", "1.0")
    from gi.repository import Gpu

    device = Gpu.Device(options.device)
    print(f"{options.rows} rows on {device.id}, {device.name}\n")
    workers = start(list_commands(device, options))
    print_speeds(take_turns(workers, ROUNDS), OURS)


main()

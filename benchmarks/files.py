#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Copies a file of 8 GiB from the page cache to the device and back, and compares the speed with
pread() and pwrite() with as many threads, safetensors, fastsafetensors, KvikIO in its compatibility
mode, np.memmap with CuPy, and read() into page-locked memory of PyTorch.

    benchmarks/files.py [--python FILE] [--folder FOLDER] [--gib N] [--rounds N] [--limit S]
                        [--threads N] [DEVICE]

DEVICE defaults to the library's default device, and FOLDER to the folder for temporary files, which
needs space for three files. In a tmpfs such as /dev/shm, no disk slows the writes. --python runs
the other libraries in another Python interpreter. --threads sets the number of threads that access
the file, by default the number of processors, but at most 12, as in gpumem. Times are wall-clock
times, including the time to open the file. A GB is 10^9 bytes, and figures are medians of all
rounds. A ratio is the speed of gpumem divided by the speed of the library in the previous column,
as the median of the ratios of the rounds. Each library runs in a separate process, which sleeps
while the other libraries are measured. Each process compares all bytes after its first round, and
some of them after the others. A library that is not installed, or whose round takes more than
--limit seconds, is omitted with the reason. pread() and pwrite() only copy between the file and
memory of the host. fastsafetensors only reads files; that its data are right is checked with a file
that PyTorch writes, whose time is not measured."""

import argparse
import concurrent.futures
import functools
import json
import os
import sys
import tempfile
import time

import numpy as np

from rounds import environment, print_speeds, start, take_turns

OURS = "gpumem"
RIVALS = {"pread()": "pread", "safetensors": "safetensors",
          "fastsafetensors": "fastsafetensors", "KvikIO": "kvikio", "memmap, CuPy": "memmap",
          "read(), PyTorch": "read"}
READERS = {"fastsafetensors"}    # have no function that writes a file
FILE_THREADS = 12               # at most, as in gpumem
BLOCK = 64 << 20
SAMPLE = 4099                   # bytes at the begin of each block; not a multiple of a page

# The data of the input begin at this position, which suits direct access, after a header of
# safetensors.
BEGIN = 4096


def make_header(size):
    tensors = {"data": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    return (BEGIN - 8).to_bytes(8, "little") + json.dumps(tensors).encode().ljust(BEGIN - 8)


@functools.cache
def make_words():
    return np.frombuffer(np.random.default_rng(0).bytes(BLOCK), np.uint64)


def make_block(index, size):
    """Makes the first bytes of a block, which differ from those of all other blocks. Random numbers
    for each block would take longer than the copies."""
    n_words = -(-size // 8)
    return (make_words()[:n_words] ^ np.uint64(index)).view(np.uint8)[:size]


def make_input(path, size):
    with open(path, "wb") as file:
        file.write(make_header(size))
        for begin in range(0, size, BLOCK):
            file.write(make_block(begin // BLOCK, min(BLOCK, size - begin)))


def check_output(path, position, size, length):
    """Compares the first bytes of each block, and fills them with zeros for the next round."""
    with open(path, "r+b") as file:
        for begin in range(0, size, BLOCK):
            n = min(length, size - begin)
            file.seek(position + begin)
            if file.read(n) != make_block(begin // BLOCK, n).tobytes():
                sys.exit(f"the block at byte {begin} of {path} is wrong")
            file.seek(position + begin)
            file.write(bytes(n))


# --- libraries ----------------------------------------------------------------------------------
# There is one function for each library. It returns the function that copies the file to the
# device, the function that copies back to the output, and the position of the data in the output.

def find_cuda(name, count, get_name):
    indices = [index for index in range(count) if get_name(index) == name]
    if not indices:
        sys.exit(f"no device {name}")
    return indices[0]


def use_torch(name):
    import torch

    index = find_cuda(name, torch.cuda.device_count(), torch.cuda.get_device_name)
    return torch, f"cuda:{index}"


def use_cupy(name, size):
    import cupy as cp

    runtime = cp.cuda.runtime
    cp.cuda.Device(find_cuda(name, runtime.getDeviceCount(),
                             lambda i: runtime.getDeviceProperties(i)["name"].decode())).use()
    return cp, cp.empty(size, np.uint8)


def copy_with_gpumem(name, source, target, size):
    import gi
    gi.require_version("Gpu", "1.0")
    from gi.repository import Gpu

    buffer = Gpu.Buffer(Gpu.Context(name), size)
    return (lambda: buffer.read_file(source, position=BEGIN),
            lambda: buffer.write_file(Gpu.File(target, "r+")), 0)


def copy_with_safetensors(name, source, target, _):
    from safetensors.torch import load_file, save_file

    torch, device = use_torch(name)
    tensors = {}

    def read():
        tensors.update(load_file(source, device=device))
        torch.cuda.synchronize(device)

    read()
    save_file(tensors, target)
    with open(target, "rb") as file:
        position = 8 + int.from_bytes(file.read(8), "little")
    return read, lambda: save_file(tensors, target), position


def copy_with_pread(_, source, target, size):
    data = np.zeros(size, np.uint8)
    n_threads = int(os.environ["KVIKIO_NTHREADS"])
    pool = concurrent.futures.ThreadPoolExecutor(n_threads)
    piece = 1 << 20

    def run(call, path, flags, position):
        fd = os.open(path, flags)

        def copy(begin):
            view = memoryview(data)[begin:begin + piece]
            while view:
                n = call(fd, view, position + begin)
                begin, view = begin + n, view[n:]
        list(pool.map(copy, range(0, size, piece)))
        os.close(fd)
    return (lambda: run(lambda fd, view, at: os.preadv(fd, [view], at), source, os.O_RDONLY, BEGIN),
            lambda: run(os.pwrite, target, os.O_WRONLY, 0), 0)


def copy_with_fastsafetensors(name, source, target, size):
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup

    torch, device = use_torch(name)
    tensors = {}

    def read():
        loader = SafeTensorsFileLoader(SingleGroup(), device, nogds=True)
        loader.add_filenames({0: [source]})
        tensors["data"] = loader.copy_files_to_device().get_tensor("data").clone()
        loader.close()
        torch.cuda.synchronize(device)

    def write():                    # to compare the data
        with open(target, "r+b", buffering=0) as file:
            tensors["data"].cpu().numpy().tofile(file)
    return read, write, 0


def copy_with_kvikio(name, source, target, size):
    import kvikio

    array = use_cupy(name, size)[1]

    def read():
        with kvikio.CuFile(source, "r") as file:
            file.read(array, size, BEGIN)

    def write():
        with kvikio.CuFile(target, "r+") as file:
            file.write(array, size, 0)
    return read, write, 0


def copy_with_memmap(name, source, target, size):
    cp, array = use_cupy(name, size)

    def read():
        array.set(np.memmap(source, np.uint8, "r", BEGIN, size))
        cp.cuda.get_current_stream().synchronize()
    return read, lambda: array.get(out=np.memmap(target, np.uint8, "r+", 0, size)), 0


def copy_with_read(name, source, target, size):
    torch, device = use_torch(name)
    locked = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    tensor = torch.empty_like(locked, device=device)
    view = memoryview(locked.numpy())

    def read():
        with open(source, "rb", buffering=0) as file:
            file.seek(BEGIN)
            done = 0
            while done < size:
                done += file.readinto(view[done:])
        tensor.copy_(locked, non_blocking=True)
        torch.cuda.synchronize(device)

    def write():
        locked.copy_(tensor, non_blocking=True)
        torch.cuda.synchronize(device)
        with open(target, "r+b", buffering=0) as file:
            done = 0
            while done < size:
                done += file.write(view[done:])
    return read, write, 0


def time_call(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def work(library, name, source, target, size):
    """Runs as a worker process of rounds.py."""
    read, write, position = globals()[f"copy_with_{library}"](name, source, target, size)
    length = BLOCK
    for _ in sys.stdin:
        speeds = {"file to device": 1e-9 * size / time_call(read)}
        seconds = time_call(write)
        if library not in READERS:
            speeds["device to file"] = 1e-9 * size / seconds
        check_output(target, position, size, length)
        length = SAMPLE
        print(json.dumps(speeds), flush=True)


def list_commands(device, python, n_threads, folder, size):
    """Returns each library's worker command and environment. Each library writes the same file,
    but that of safetensors replaces it, so it has its own."""
    commands = {}
    for library, word in {OURS: OURS, **RIVALS}.items():
        ours = library == OURS
        target = os.path.join(folder, "tensors" if word == "safetensors" else "output")
        command = [sys.executable if ours else python or sys.executable, __file__, "--work", word,
                   device.id if ours else device.name, os.path.join(folder, "input"), target,
                   str(size)]
        variables = {"KVIKIO_COMPAT_MODE": "ON", "KVIKIO_NTHREADS": str(n_threads)}
        commands[library] = command, environment(not ours and python is not None, **variables)
    return commands


def main():
    if sys.argv[1:2] == ["--work"]:
        return work(*sys.argv[2:6], int(sys.argv[6]))
    parser = argparse.ArgumentParser(description="files to a device and back")
    parser.add_argument("--python", metavar="FILE")
    parser.add_argument("--folder")
    parser.add_argument("--gib", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=60, metavar="SECONDS")
    parser.add_argument("--threads", type=int)
    parser.add_argument("device", nargs="?")
    options = parser.parse_args()

    import gi
    gi.require_version("Gpu", "1.0")
    from gi.repository import Gpu

    device = Gpu.Device(options.device)
    size = int(options.gib * (1 << 30))
    n_threads = options.threads or min(len(os.sched_getaffinity(0)), FILE_THREADS)
    os.environ["GPUMEM_COPY_THREADS"] = str(n_threads)          # in the processes
    with tempfile.TemporaryDirectory(prefix="gpumem-files-", dir=options.folder) as folder:
        make_input(os.path.join(folder, "input"), size)
        with open(os.path.join(folder, "output"), "wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
        print(f"{size / (1 << 30):g} GiB in {folder}, {device.id}, {device.name}, "
              f"{n_threads} threads\n")
        commands = list_commands(device, options.python, n_threads, folder, size)
        workers = start(commands, options.limit)
        print_speeds(take_turns(workers, options.rounds, options.limit), OURS)


main()

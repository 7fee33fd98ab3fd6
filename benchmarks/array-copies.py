#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Copies views of a 64 MiB array into arrays of another element order on the device, and compares
the speed with CuPy and PyTorch on a GPU, and with NumPy on a CPU.

    benchmarks/array-copies.py [--python FILE] [DEVICE [MIB]]

DEVICE defaults to the library's default device. --python runs the other libraries in another Python
interpreter. Times are wall-clock times of several consecutive copies, including the wait for the
last copy. A GB is 10^9 copied bytes. Figures are medians of all rounds. A ratio is the speed of
gpumem divided by the speed of the library in the previous column, as the median of the ratios of
the rounds. Each library runs in a separate process, which sleeps while the other libraries are
measured."""

import argparse
import json
import sys
import time

import numpy as np

from rounds import environment, print_speeds, start, take_turns

ROUNDS = 5
SECONDS = 0.02                  # of copies per figure, in at most REPEATS copies
REPEATS = 50
OURS = "gpumem"
RIVALS = {"CuPy": "cupy", "PyTorch": "torch", "NumPy": "numpy"}

# The views by name: element type, number of dimensions, and a function that makes the view. PyTorch
# has no views with negative steps.
VIEWS = {
    "a matrix of float, as it is": ("float32", 2, lambda a: a),
    "transposed": ("float32", 2, lambda a: a.T),
    "every other column": ("float32", 2, lambda a: a[:, ::2]),
    "every eighth column": ("float32", 2, lambda a: a[:, ::8]),
    "every other row": ("float32", 2, lambda a: a[::2]),
    "the left half of each row": ("float32", 2, lambda a: a[:, :a.shape[1] // 2]),
    "a matrix of bytes, transposed": ("uint8", 2, lambda a: a.T),
    "one of double, transposed": ("float64", 2, lambda a: a.T),
    "three dimensions of float, the first two exchanged":
        ("float32", 3, lambda a: a.swapaxes(0, 1)),
    "the last two exchanged": ("float32", 3, lambda a: a.swapaxes(1, 2)),
    "the first and the last exchanged": ("float32", 3, lambda a: a.swapaxes(0, 2)),
}


def make_array(dtype, n_dims, n_bytes):
    n = n_bytes // np.dtype(dtype).itemsize
    side = int(round(n ** (1 / n_dims))) // 8 * 8
    return (np.arange(side ** n_dims) % 251).astype(dtype).reshape((side,) * n_dims)


def prepare_gpumem(name):
    import gi
    gi.require_version("Gpu", "1.0")
    from gi.repository import Gpu

    Gpu.Array.swapaxes = lambda self, a, b: self.transpose(
        *[{a: b, b: a}.get(i, i) for i in range(self.ndim)])
    context = Gpu.Context(Gpu.Device(name))
    stream = context.default_stream
    return (lambda host: Gpu.Array.from_numpy(context, host),
            lambda view: Gpu.Array.empty(context, tuple(view.shape), view.dtype),
            stream.copy_array, stream.synchronize, lambda array: array.to_numpy())


def prepare_cupy(name):
    import cupy as cp

    runtime = cp.cuda.runtime
    indices = [index for index in range(runtime.getDeviceCount())
               if runtime.getDeviceProperties(index)["name"].decode() == name]
    if not indices:
        sys.exit(f"no device {name}")
    cp.cuda.Device(indices[0]).use()
    return (cp.asarray, lambda view: cp.empty(view.shape, view.dtype), cp.copyto,
            lambda: cp.cuda.get_current_stream().synchronize(), cp.asnumpy)


def prepare_torch(name):
    import torch

    indices = [index for index in range(torch.cuda.device_count())
               if torch.cuda.get_device_name(index) == name]
    if not indices:
        sys.exit(f"no device {name}")
    device = f"cuda:{indices[0]}"
    return (lambda host: torch.from_numpy(host).to(device),
            lambda view: torch.empty(view.shape, dtype=view.dtype, device=device),
            lambda target, view: target.copy_(view),
            lambda: torch.cuda.synchronize(indices[0]), lambda array: array.cpu().numpy())


def prepare_numpy(name):
    return np.array, lambda view: np.empty(view.shape, view.dtype), np.copyto, int, np.asarray


def prepare_views(prepared, n_bytes):
    """Copies each view once and verifies the copy. Returns each view with the target of its
    copy."""
    upload, make_target, copy, wait, download = prepared
    hosts, arrays, views = {}, {}, {}
    for what, (dtype, n_dims, select) in VIEWS.items():
        key = dtype, n_dims
        if key not in hosts:
            hosts[key] = make_array(dtype, n_dims, n_bytes)
            arrays[key] = upload(hosts[key])
        view = select(arrays[key])
        target = make_target(view)
        copy(target, view)
        wait()
        if not np.array_equal(download(target), select(hosts[key])):
            sys.exit(f"a copy is wrong: {what}")
        views[what] = target, view
    return views


def time_some(n, copy, wait, target, view):
    start = time.perf_counter()
    for _ in range(n):
        copy(target, view)
    wait()
    return (time.perf_counter() - start) / n


def time_copies(*arguments):
    """Returns GB/s."""
    n = int(SECONDS / time_some(1, *arguments))
    target = arguments[2]
    return 1e-9 * target.nbytes / time_some(min(max(n, 1), REPEATS), *arguments)


def work(library, name, n_bytes):
    """Runs as a worker process of rounds.py."""
    prepared = globals()[f"prepare_{library}"](name)
    views = prepare_views(prepared, n_bytes)
    copy, wait = prepared[2:4]
    for _ in sys.stdin:
        print(json.dumps({what: time_copies(copy, wait, *pair) for what, pair in views.items()}),
              flush=True)


def list_commands(device, python, n_bytes):
    """Returns each library's worker command and environment."""
    from gi.repository import Gpu

    ours = [sys.executable, __file__, "--work", OURS, device.id, str(n_bytes)]
    commands = {OURS: (ours, environment())}
    for library, word in RIVALS.items():
        if (library == "NumPy") == (device.device_type == Gpu.DeviceType.GPU):
            continue
        command = [python or sys.executable, __file__, "--work", word, device.name, str(n_bytes)]
        commands[library] = (command, environment(python is not None))
    return commands


def main():
    if sys.argv[1:2] == ["--work"]:
        return work(*sys.argv[2:4], int(sys.argv[4]))
    parser = argparse.ArgumentParser(description="views of arrays, copied on a device")
    parser.add_argument("--python", metavar="FILE")
    parser.add_argument("device", nargs="?")
    parser.add_argument("mib", nargs="?", type=int, default=64)
    options = parser.parse_args()

    import gi
    gi.require_version("Gpu", "1.0")
    from gi.repository import Gpu

    device = Gpu.Device(options.device)
    print(f"{options.mib} MiB on {device.id}, {device.name}\n")
    workers = start(list_commands(device, options.python, options.mib << 20))
    print_speeds(take_turns(workers, ROUNDS), OURS)


main()

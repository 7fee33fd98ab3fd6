#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""mpi-ring: several processes share a plate of metal, and compute how heat spreads in it. Each
process has a band of the plate on its device, and exchanges the rows at the borders with its
neighbours before each step. Then a vector travels around the ring of all processes.

    mpiexec -n 4 python3 -m mpi4py mpi-ring.py

The same program runs on CUDA, OpenCL and the host, with any number of processes."""

import argparse
import os
import sys

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

try:
    import numpy as np
    from mpi4py import MPI  # type: ignore

    from gpumem import mpi  # type: ignore
except ImportError as error:
    print(f"{error.name} is not installed: this program needs NumPy, mpi4py and an MPI")
    sys.exit(77)

WIDTH, HEIGHT, STEPS = 200, 120, 50

SOURCE = """
__kernel void
spread (__global const float *from, __global float *to)
{
  size_t x = get_global_id (0) + 1;
  size_t width = get_global_size (0) + 2;
  size_t i = (get_global_id (1) + 1) * width + x;

  to[i] = (from[i - 1] + from[i + 1] + from[i - width] + from[i + width]) / 4;
}

__kernel void
add (__global float *sum, __global const float *numbers)
{
  sum[get_global_id (0)] += numbers[get_global_id (0)];
}
"""


def choose_device(world):
    """Gives the processes of a machine different devices of the back end of the default device."""
    default = Gpu.Device()
    if "GPUMEM_DEVICE" in os.environ:
        return default
    devices = [device for device in Gpu.devices() if device.backend == default.backend]
    return devices[world.Split_type(MPI.COMM_TYPE_SHARED).rank % len(devices)]


def make_plate():
    plate = np.zeros((HEIGHT, WIDTH), np.float32)
    plate[0] = 100                              # the hot edge
    return plate


def compute_alone():
    """Computes the whole plate with NumPy, for the check."""
    plate = make_plate()
    for step in range(STEPS):
        inner = (plate[1:-1, :-2] + plate[1:-1, 2:] + plate[:-2, 1:-1] + plate[2:, 1:-1]) / 4
        plate[1:-1, 1:-1] = inner
    return plate


def exchange(world, band, stream):
    """Sends the first and the last row of the band, and receives the rows outside of the band."""
    above = world.rank - 1 if world.rank > 0 else MPI.PROC_NULL
    below = world.rank + 1 if world.rank < world.size - 1 else MPI.PROC_NULL
    mpi.sendrecv(world, band[1], above, 0, band[-1], below, stream=stream)
    mpi.sendrecv(world, band[-2], below, 0, band[0], above, stream=stream)


def spread(world, context, program):
    """Returns the rows of this process after all steps, and their place in the plate."""
    first, last = (1 + (HEIGHT - 2) * rank // world.size for rank in (world.rank, world.rank + 1))
    here = make_plate()[first - 1:last + 1]
    band, other = (Gpu.Array.from_numpy(context, here) for i in range(2))
    stream = context.default_stream

    for step in range(STEPS):
        # The send waits for the kernel of the last step, and the kernel waits for the receive
        exchange(world, band, stream)
        stream.launch(program.spread, (WIDTH - 2, last - first), args=(band, other))
        band, other = other, band
    return slice(first, last), band[1:-1]


def travel(world, context, program):
    """Adds the vectors of all processes: each vector travels around the ring."""
    own = np.arange(1000, dtype=np.float32) * (world.rank + 1)
    total, vector = Gpu.Array.from_numpy(context, own), Gpu.Array.from_numpy(context, own)
    following, previous = (world.rank + 1) % world.size, (world.rank - 1) % world.size

    for turn in range(world.size - 1):
        received = Gpu.Array.empty_like(vector)
        mpi.sendrecv(world, vector, following, 0, received, previous)
        context.default_stream.launch(program.add, total.size, args=(total, received))
        vector = received
    return total


def check(world, rows, part, total):
    if not np.allclose(part.to_numpy(), compute_alone()[rows], atol=1e-3):
        sys.exit("mpi-ring: the temperatures are wrong")
    # Collectives and all other functions of mpi4py take mapped memory
    ones = Gpu.Array.full(total.context, total.shape, world.rank + 1, total.dtype)
    with mpi.mapped(ones) as data:
        world.Allreduce(MPI.IN_PLACE, data)
    if not np.array_equal(total.to_numpy(), ones.to_numpy() * np.arange(1000)):
        sys.exit("mpi-ring: the sum of the vectors is wrong")


def run():
    world = MPI.COMM_WORLD
    context = Gpu.Context(choose_device(world))
    program = Gpu.Program(context, SOURCE)
    rows, part = spread(world, context, program)
    check(world, rows, part, travel(world, context, program))
    devices = world.gather(context.device.id)
    if devices is None:                         # not in the first process
        return
    print(f"rows of the plate: {HEIGHT}, processes: {world.size}, on {', '.join(devices)}; MPI is "
          f"{'' if mpi.is_cuda_aware() else 'not '}CUDA-aware")
    if world.size == 1:
        print("one process has no neighbours: start several with mpiexec -n 4 python3 -m mpi4py "
              "mpi-ring.py")


argparse.ArgumentParser(prog="mpi-ring", description=__doc__.partition("\n\n")[0],
                        epilog="Start it with mpiexec -n 4 python3 -m mpi4py mpi-ring.py"
                        ).parse_args()
try:
    run()
except GLib.Error as error:
    sys.exit(f"mpi-ring: {error.message}")

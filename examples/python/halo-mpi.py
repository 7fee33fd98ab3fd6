#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""halo-mpi: processes of MPI blur a picture that is larger than a device, each with a device.

    mpiexec -n 4 python3 -m mpi4py halo-mpi.py --width 16384 --rows 65536 --steps 256 --depth 32

Processes of one machine take different devices of the default back end. MPI gets the memory of the
device if it is CUDA-aware, otherwise page-locked memory. See halo.py."""

import os

import gi
import halo

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

try:
    from mpi4py import MPI  # type: ignore

    from gpumem import mpi  # type: ignore
except ImportError as error:
    print(f"halo-mpi: {error}")
    raise SystemExit(77)


def choose_device(world):
    default = Gpu.Device()
    if "GPUMEM_DEVICE" in os.environ:
        return default
    devices = [device for device in Gpu.devices() if device.backend == default.backend]
    return devices[world.Split_type(MPI.COMM_TYPE_SHARED).rank % len(devices)]


def exchange(world, band):
    """Sends the edges to the neighbours, and receives the halo. The next steps are ordered after
    the copies of the halo to the device."""
    above = world.rank - 1 if band.above else MPI.PROC_NULL
    below = world.rank + 1 if band.below else MPI.PROC_NULL
    requests = [mpi.irecv(world, band.upper_halo, above), mpi.irecv(world, band.lower_halo, below),
                mpi.isend(world, band.upper_edge, above), mpi.isend(world, band.lower_edge, below)]
    for request in requests:
        request.wait()


def blur(world, band, sizes):
    for steps in halo.rounds(sizes):
        exchange(world, band)
        band.blur(steps)


def run_on(world, context, sizes):
    """Runs on a part of all processes. Returns the seconds."""

    def synchronize():
        context.synchronize()
        world.Barrier()

    for is_first in (True, False):              # The first run compiles the kernel
        band = halo.Band(context, world.rank, world.size, sizes)
        _, seconds = halo.measure(lambda: blur(world, band, sizes), synchronize)
    halo.check_rows(context, band.inner.to_numpy(), world.rank, world.size, sizes)
    return seconds


def run():
    world = MPI.COMM_WORLD
    sizes = halo.parse(halo.make_parser(__doc__, has_workers=False))    # mpiexec -n is their number
    context = Gpu.Context(choose_device(world))
    table = halo.Table(sizes, "processes") if world.rank == 0 else None
    for count in halo.counts(world.size):
        part = world.Split(0 if world.rank < count else MPI.UNDEFINED, world.rank)
        if part != MPI.COMM_NULL:
            seconds = run_on(part, context, sizes)
        if table is not None:
            table.add(count, seconds)
        world.Barrier()


try:
    run()
except GLib.Error as error:
    raise SystemExit(f"halo-mpi: {error.message}")

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The examples halo-devices, halo-mpi and halo-dask with more devices and other sizes than in
check-examples. They compare the picture with that of one device."""

import importlib.util
import os
import shutil
import subprocess
import sys

from python_util import DEADLINE, Gpu, Skip, equal, main, need, need_numpy

ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",   # of Open MPI 5
               # Containers may forbid that a process reads the memory of another process
               "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
               "OMPI_MCA_plm_rsh_agent": "true"}


def find_example(name):
    folder = os.environ.get("TEST_TOP_SRCDIR", "none")
    path = os.path.join(folder, "examples", "python", name)
    if not os.path.exists(path):
        raise Skip("the examples are not here")
    return path


def start(*command, **environment):
    done = subprocess.run(command, env={**os.environ, **ENVIRONMENT, **environment}, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE)
    if done.returncode == 77:
        raise Skip(done.stdout.strip().split("\n")[-1])
    return done


def run(*command, **environment):
    """Runs a program. Returns the first words of the lines of its table."""
    done = start(*command, **environment)
    assert done.returncode == 0, f"status {done.returncode}: {done.stdout}{done.stderr}"
    return [line.split()[0] for line in done.stdout.splitlines()[2:]]


def prepare(fixture, name):
    need(fixture, Gpu.Capabilities.SOURCE)
    need_numpy()
    return find_example(name)


def test_contexts(fixture):
    """Three bands on one device, each in a context of its own. The last round has one step."""
    program = prepare(fixture, "halo-devices.py")
    equal(run(sys.executable, program, "--workers=3", "--width=50", "--rows=9", "--steps=10",
              "--depth=3", GPUMEM_DEVICE=fixture.device.id), ["1", "2", "3"])


def test_processes(fixture):
    program = prepare(fixture, "halo-mpi.py")
    for name in ("mpi4py", "gpumem.mpi"):
        if importlib.util.find_spec(name) is None:
            raise Skip(f"{name} is not installed")
    if shutil.which("mpiexec") is None:
        raise Skip("mpiexec is not installed")
    equal(run("mpiexec", "-n", "3", sys.executable, "-m", "mpi4py", program, "--width=50",
              "--rows=9", "--steps=10", "--depth=3", GPUMEM_DEVICE=fixture.device.id),
          ["1", "2", "3"])


def test_bands(fixture):
    """Three workers of Dask with three bands each. The middle band of a worker has its neighbours
    on the same worker. The last round has one step."""
    program = prepare(fixture, "halo-dask.py")
    equal(run(sys.executable, program, "--workers=3", "--bands=3", "--width=300", "--rows=9",
              "--steps=10", "--depth=3", GPUMEM_DEVICE=fixture.device.id), ["1", "2", "3"])


def plain_usage():
    """Each program refuses arguments that it cannot use, with its usage. The number of processes is
    that of mpiexec."""
    need_numpy()
    cases = [("halo-mpi.py", "--workers=2", "unrecognized"),
             ("halo-devices.py", "--workers=0", "--workers: must be 1 or more, not 0"),
             ("halo-devices.py", "--steps=-5", "--steps: must be 1 or more, not -5"),
             ("halo-devices.py", "--width=-320", "--width: must be 1 or more, not -320"),
             ("halo-devices.py", "--rows=x", "--rows: invalid count value: 'x'"),
             ("halo-devices.py", "--depth=97", "--depth: must be 1 to 96")]
    if importlib.util.find_spec("distributed") is not None:
        cases += [("halo-dask.py", "--limit", "--limit: expected one argument"),
                  ("halo-dask.py", "--limit=lots", "--limit: invalid size value: 'lots'"),
                  ("halo-dask.py", "--limit=-1", "--limit: must be 1 or more, not -1"),
                  ("halo-dask.py", "--rows=3 --depth=1", "--rows: must be 4 or more"),
                  ("halo-dask.py", "--bands=0", "--bands: must be 1 or more, not 0"),
                  ("halo-dask.py", "--rows=5 --bands=6", "--rows: must be 6 or more")]
        assert "--limit LIMIT" in run_help("halo-dask.py")
        assert "--protocol PROTOCOL" in run_help("halo-dask.py")
    for name, arguments, words in cases:
        done = start(sys.executable, find_example(name), *arguments.split())
        assert done.returncode == 2 and "usage: " in done.stderr and words in done.stderr, done


def run_help(name):
    done = start(sys.executable, find_example(name), "--help")
    equal(done.returncode, 0)
    return done.stdout


def count_devices(**environment):
    """Returns the number of devices of the default back end, in a new process."""
    code = ("import gi; gi.require_version('Gpu', '1.0'); from gi.repository import Gpu; "
            "print(sum(device.backend == Gpu.Device().backend for device in Gpu.devices()))")
    return int(subprocess.run([sys.executable, "-c", code], env={**os.environ, **environment},
                              text=True, capture_output=True, check=True).stdout)


def plain_devices():
    """Four bands on the devices of the default back end, or on two devices of PoCL."""
    need_numpy()
    program = find_example("halo-devices.py")
    # The name of PoCL's CPU device depends on the version
    for environment in ({}, {"POCL_DEVICES": "cpu cpu"}, {"POCL_DEVICES": "pthread pthread"}):
        if count_devices(**environment) > 1:
            equal(run(sys.executable, program, "--workers=4", "--depth=5", **environment),
                  ["1", "2", "4"])
            return
    raise Skip("the default back end has one device")


if __name__ == "__main__":
    sys.exit(main(globals()))

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the ten calls that programs make most cost from C, Vala, JavaScript and Python, there also
without the module in C, beside PyOpenCL and CuPy on the same device where those are.

    benchmarks/calls.py [--python FILE] [DEVICE]

Run it in the build folder, whose benchmarks/calls and benchmarks/calls-vala it needs. Without a
device it is the default one. With --python the other libraries run in another Python than this one.

Times are nanoseconds of the calling thread, so the work itself does not count, nor do waits that
sleep. Waits on CUDA do count: its driver spins, and threads that wait for this library poll for
up to 20 milliseconds before they sleep. They are medians of all rounds. Each column is a process
of its own, which sleeps while the others are measured. The ratios are those of Python to the
library before them, the medians of the ratios of the rounds."""

import argparse
import os
import shutil
import sys

import gi

from rounds import environment, median, print_table, start, take_turns

gi.require_version("Gpu", "1.0")
from gi.repository import Gpu  # noqa: E402

ROUNDS = 21
FOLDER = os.path.dirname(os.path.abspath(__file__))
WITHOUT = "the same without the module"
RIVALS = ("PyOpenCL", "CuPy")


def find_program(name):
    """In the build folder, or beside this file, where a bundle has it."""
    for folder in ("benchmarks", FOLDER):
        path = os.path.abspath(os.path.join(folder, name))
        if os.access(path, os.X_OK):
            return path
    return None


def list_commands(device, python):
    """The command of each column, None for what is not there, and its environment."""
    script = os.path.join(FOLDER, "calls-python.py")
    gjs = shutil.which("gjs")
    commands = {
        "C": [find_program("calls"), device.id],
        "Vala": [find_program("calls-vala"), device.id],
        "JavaScript": [gjs, "-m", os.path.join(FOLDER, "calls.js"), device.id],
        "Python": [sys.executable, script, "gpumem", device.id],
        WITHOUT: [sys.executable, script, "gpumem", device.id],
        "PyOpenCL": [python or sys.executable, script, "pyopencl", device.name],
        "CuPy": [python or sys.executable, script, "cupy", device.name]}
    return {column: (None if None in command else command,
                     environment(python is not None and column in RIVALS,
                                 GPUMEM_PYTHON_FAST="0" if column == WITHOUT else "1"))
            for column, command in commands.items()}


def tell(call, rounds, columns):
    """One line of the table."""
    cells = []
    for column in columns:
        if call not in rounds[0][column]:
            cells += ["-"] * (2 if column in RIVALS else 1)
            continue
        cells.append(f"{median(times[column][call] for times in rounds):.0f}")
        if column in RIVALS:
            ratio = median(times["Python"][call] / times[column][call] for times in rounds)
            cells.append(f"{ratio:.2f}")
    return [call] + cells


def main():
    parser = argparse.ArgumentParser(description="what calls cost from each language")
    parser.add_argument("--python", metavar="FILE")
    parser.add_argument("device", nargs="?")
    options = parser.parse_args()
    device = Gpu.Device(options.device)
    workers = start(list_commands(device, options.python))
    if "Python" not in workers:
        sys.exit("calls: nothing can be compared without Python")

    rounds = take_turns(workers, ROUNDS)
    head = ["call"]
    for column in workers:
        head += [column, "ratio"] if column in RIVALS else [column]
    print(f"\nns of the calling thread on {device.id}, {device.name}\n")
    print_table([head, *(tell(call, rounds, workers) for call in rounds[0]["Python"])])


main()

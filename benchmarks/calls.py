#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measures the ten most frequent calls from C, Vala, JavaScript, Python, and Python without the C
module, and the other calls from Python only. Compares their times with those of PyOpenCL and CuPy
on the same device.

    benchmarks/calls.py [--python FILE] [DEVICE]

Run this script in the build folder, because it needs benchmarks/calls and benchmarks/calls-vala.
DEVICE defaults to the library's default device. --python runs the other libraries in another Python
interpreter.

Times are nanoseconds of CPU time of the calling thread. They exclude the time on the device and the
time for which the thread sleeps. They include waits on CUDA, because the CUDA driver spins. They
also include polls: a thread that waits in gpumem polls for up to 20 milliseconds before it sleeps.
Figures are medians of all rounds. Each column runs in a separate process, which sleeps while the
others are measured. A ratio is the time of gpumem from Python divided by the time of the library in
the previous column, as the median of the ratios of the rounds."""

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
    """Finds a program in the build folder, or next to this file in a bundle."""
    for folder in ("benchmarks", FOLDER):
        path = os.path.abspath(os.path.join(folder, name))
        if os.access(path, os.X_OK):
            return path
    return None


def list_commands(device, python):
    """Returns for each column its command, or None if the program is missing, and its
    environment."""
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


def format_line(call, rounds, columns):
    """Formats one line of the table."""
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
    parser = argparse.ArgumentParser(description="measures calls from each language")
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
    print_table([head, *(format_line(call, rounds, workers) for call in rounds[0]["Python"])])


main()

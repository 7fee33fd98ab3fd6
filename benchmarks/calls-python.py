#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measures calls from Python. The first ten are also those of calls.c.

    benchmarks/calls-python.py gpumem DEVICE
    benchmarks/calls-python.py pyopencl|cupy NAME

The other libraries find their device by its driver name."""

import gc
import importlib
import json
import sys
import time

CALLS = 100
BATCHES = 5


def measure(call, wait):
    """Returns the CPU time of one call on this thread, in nanoseconds."""
    total = 0
    gc.disable()
    for batch in range(BATCHES):
        start = time.thread_time_ns()
        for i in range(CALLS):
            call()
        total += time.thread_time_ns() - start
        wait()
    gc.enable()
    return total / CALLS / BATCHES


def main():
    library, name = sys.argv[1:3]
    wait, calls = importlib.import_module("calls_" + library).get_calls(name)
    for _ in sys.stdin:
        print(json.dumps({name: measure(call, wait) for name, call in calls.items()}), flush=True)


main()

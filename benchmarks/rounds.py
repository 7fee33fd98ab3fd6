# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processes that are measured in turns: each line that one reads is a round, for which it prints a
JSON object with a figure for each thing measured."""

import json
import os
import statistics
import subprocess
import tempfile


def environment(other_python=False, **variables):
    """Variables for a process, less those that lead Python to the modules of this one."""
    left_out = ("PYTHONHOME", "PYTHONPATH") if other_python else ()
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return dict(kept, PYOPENCL_COMPILER_OUTPUT="0", **variables)


class Worker:
    def __init__(self, command, variables):
        self.errors = tempfile.TemporaryFile("w+", encoding="utf-8")
        self.process = subprocess.Popen(command, text=True, bufsize=1, env=variables,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors)

    def run_round(self):
        """The figures; None if the process ended."""
        try:
            print(file=self.process.stdin, flush=True)
        except BrokenPipeError:
            return None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def get_last_words(self):
        status = self.process.wait()
        self.errors.seek(0)
        return self.errors.read().strip().split("\n")[-1] or f"it ended with {status}"


def start(commands):
    """A worker for each (command, environment) by name, after a first round that does not count.
    Those without a command, and those that end, are left out."""
    workers = {}
    for name, (command, variables) in commands.items():
        if command is None:
            print(f"{name} is left out: it is not there")
            continue
        worker = Worker(command, variables)
        if worker.run_round() is None:
            print(f"{name} is left out: {worker.get_last_words()}")
            continue
        workers[name] = worker
    return workers


def take_turns(workers, n_rounds):
    """The figures by name of each round."""
    rounds = [{name: worker.run_round() for name, worker in workers.items()}
              for i in range(n_rounds)]
    for name, worker in workers.items():
        if None in [figures[name] for figures in rounds]:
            raise SystemExit(f"{name} broke off: {worker.get_last_words()}")
    return rounds


def median(values):
    return statistics.median(list(values))


def print_table(lines):
    """The first has the heads of the columns."""
    for cells in [lines[0], ["---"] * len(lines[0]), *lines[1:]]:
        print(f"| {' | '.join(cells)} |")


def print_speeds(rounds, ours, unit="GB/s"):
    """A line for each thing measured: speeds, and after each of the others how many times as fast
    ours is, both as medians of all rounds."""
    lines = [[unit, ours]]
    others = [name for name in rounds[0] if name != ours]
    for name in others:
        lines[0] += [name, "ratio"]
    for what in rounds[0][ours]:
        cells = [what, f"{median(figures[ours][what] for figures in rounds):.2f}"]
        for name in others:
            ratio = median(figures[ours][what] / figures[name][what] for figures in rounds)
            cells += [f"{median(figures[name][what] for figures in rounds):.2f}", f"{ratio:.2f}"]
        lines.append(cells)
    print_table(lines)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs rounds of worker processes in turn. Each line on the standard input of a worker starts a
round. At the end of the round, the worker prints a JSON object with all figures."""

import json
import os
import statistics
import subprocess
import tempfile
import threading


def environment(other_python=False, **variables):
    """Returns the environment of a worker. For another Python interpreter, the environment lacks
    the variables that set the module path of this interpreter."""
    left_out = ("PYTHONHOME", "PYTHONPATH") if other_python else ()
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return dict(kept, PYOPENCL_COMPILER_OUTPUT="0", **variables)


class Worker:
    def __init__(self, command, variables):
        self.errors = tempfile.TemporaryFile("w+", encoding="utf-8")
        self.process = subprocess.Popen(command, text=True, bufsize=1, env=variables,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors)
        self.late = None            # the limit that a round has exceeded

    def end(self, limit):
        self.late = limit
        self.process.kill()

    def run_round(self, limit=None):
        """Returns the figures, or None if the process has ended. Ends it after limit seconds."""
        timer = threading.Timer(limit or 0, self.end, [limit])
        if limit is not None:
            timer.start()
        try:
            print(file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        except BrokenPipeError:
            return None
        finally:
            timer.cancel()
        return json.loads(line) if line else None

    def get_last_words(self):
        status = self.process.wait()
        if self.late is not None:
            return f"a round took more than {self.late:g} s"
        self.errors.seek(0)
        return self.errors.read().strip().split("\n")[-1] or f"it ended with {status}"


def start(commands, limit=None):
    """Starts a worker for each name from its (command, environment), and runs a warm-up round of at
    most limit seconds. Omits workers without a command, and workers that end."""
    workers = {}
    for name, (command, variables) in commands.items():
        if command is None:
            print(f"{name} is omitted: it is not installed")
            continue
        worker = Worker(command, variables)
        if worker.run_round(limit) is None:
            print(f"{name} is omitted: {worker.get_last_words()}")
            continue
        workers[name] = worker
    return workers


def take_turns(workers, n_rounds, limit=None):
    """Returns the figures of each round, by name. With a limit, in seconds, omits workers whose
    rounds take longer."""
    rounds = [{name: worker.run_round(limit) for name, worker in workers.items()}
              for i in range(n_rounds)]
    for name, worker in workers.items():
        if None not in [figures[name] for figures in rounds]:
            continue
        if worker.late is None:
            raise SystemExit(f"{name} ended early: {worker.get_last_words()}")
        print(f"{name} is omitted: {worker.get_last_words()}")
        for figures in rounds:
            del figures[name]
    return rounds


def median(values):
    return statistics.median(list(values))


def print_table(lines):
    """Prints lines of cells. The first line contains the column titles."""
    for cells in [lines[0], ["---"] * len(lines[0]), *lines[1:]]:
        print(f"| {' | '.join(cells)} |")


def print_speeds(rounds, ours, unit="GB/s"):
    """Prints a line for each figure: the speed of each library, and for each other library the
    ratio of our speed to its speed, all as medians of all rounds; "-" if the library has no such
    figure."""
    lines = [[unit, ours]]
    others = [name for name in rounds[0] if name != ours]
    for name in others:
        lines[0] += [name, "ratio"]
    for what in rounds[0][ours]:
        cells = [what, f"{median(figures[ours][what] for figures in rounds):.2f}"]
        for name in others:
            if what not in rounds[0][name]:
                cells += ["-", "-"]
                continue
            ratio = median(figures[ours][what] / figures[name][what] for figures in rounds)
            cells += [f"{median(figures[name][what] for figures in rounds):.2f}", f"{ratio:.2f}"]
        lines.append(cells)
    print_table(lines)

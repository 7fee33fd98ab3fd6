#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Compares pools on a CUDA device: those of gpumem, PyTorch, CuPy, RMM, cuda.core, Numba and the
driver, as far as they are installed. Measures the time of an allocation and a free, the memory that
recorded allocations need, and how many allocations of a recording succeed if the limit is little
above its peak of live memory.

    benchmarks/pool-rivals.py [OPTION...] [TRACE...]

Needs Python 3.9, but not the bindings of gpumem: the script runs the gpumem command and, if it
finds the library file, calls the library through ctypes. Each pool runs in a separate process.
Nanoseconds are medians of five rounds. The overhead of the loop and of a Python call is measured
with empty calls of the same form, and subtracted. The workloads are those of 'gpumem pool bench',
which measures calls from C. A TRACE has lines "a ID SIZE STREAM" and "f ID STREAM", and may be
compressed with gzip."""

import argparse
import gc
import gzip
import itertools
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import time

from rival_pools import RIVALS, is_refusal

KIB, MIB = 1 << 10, 1 << 20
ROUNDS = 5
MOST_PAIRS = 1 << 18
MOST_GROWN = 256 * MIB

# Name, pattern, number of live blocks, smallest and largest size, number of permanent holes of 512
# bytes
WORKLOADS = (
    ("one of 1 KiB", "one", 1, KIB, KIB, 0),
    ("one of 1 MiB", "one", 1, MIB, MIB, 0),
    ("16 of 256 KiB, last in, first out", "stack", 16, 256 * KIB, 256 * KIB, 0),
    ("100 of 512 B to 1 MiB", "random", 100, 512, MIB, 0),
    ("1,000 of 512 B to 1 MiB", "random", 1000, 512, MIB, 0),
    ("10,000 of 8 to 4,096 B", "random", 10000, 8, 4096, 0),
    ("up to 256 MiB of 1 B to 1 MiB, at random", "growing", 1000, 1, MIB, 0),
    ("one of 1 KiB, 4,096 holes", "one", 1, KIB, KIB, 4096),
    ("one of 1 KiB, 65,536 holes", "one", 1, KIB, KIB, 65536),
)


# --- workloads: steps (slot, size or 0 to free, stream) ------------------------------------------


class Plan:
    """One workload on one stream, in parts. Each part begins with the blocks that are live at the
    end of the previous part."""

    def __init__(self, workload, stream):
        self.name, self.pattern, self.n_live, self.smallest, self.largest, self.n_holes = workload
        self.stream = stream
        self.random = random.Random(1)
        self.sizes = []

    def choose(self):
        return self.random.randint(self.smallest, self.largest)

    def begin(self):
        steps = [(i, self.choose(), self.stream) for i in range(self.n_live)]
        return steps if self.pattern == "random" else []

    def part(self, n):
        return list(getattr(self, "part_" + self.pattern)(n))

    def part_one(self, n):
        for i in range(n):
            yield 0, self.largest, self.stream
            yield 0, 0, self.stream

    def part_stack(self, n):
        for i in range(-(-n // self.n_live)):
            yield from ((place, self.largest, self.stream) for place in range(self.n_live))
            yield from ((place, 0, self.stream) for place in reversed(range(self.n_live)))

    def part_random(self, n):
        for i in range(n):
            place = self.random.randrange(self.n_live)
            yield place, 0, self.stream
            yield place, self.choose(), self.stream

    def part_growing(self, n):
        """Allocates with a probability of 73 %, otherwise frees. Always frees while there is no
        room for the largest block. Reuses free slots."""
        live, places = self.sizes, getattr(self, "places", None)
        if places is None:
            places = self.places = []
            self.n_places, self.empty, self.bytes = 0, [], 0
        for i in range(2 * n):
            room = self.bytes + self.largest <= MOST_GROWN
            if not live or (room and self.random.randrange(100) < 73):
                if not self.empty:
                    self.empty.append(self.n_places)
                    self.n_places += 1
                places.append(self.empty.pop())
                live.append(self.choose())
                self.bytes += live[-1]
                yield places[-1], live[-1], self.stream
            else:
                at = self.random.randrange(len(live))
                live[at], live[-1] = live[-1], live[at]
                places[at], places[-1] = places[-1], places[at]
                self.bytes -= live.pop()
                self.empty.append(places.pop())
                yield self.empty[-1], 0, self.stream


class Trace:
    def __init__(self, path):
        self.name = os.path.basename(path).split(".")[0]
        self.streams = {}
        self.steps = []
        self.peak_live = live = 0
        numbers, sizes = {}, {}
        opener = gzip.open if path.endswith(".gz") else open
        with opener(path, "rt") as lines:
            for words in map(str.split, lines):
                if not words or words[0] not in "af":
                    continue
                place = numbers.setdefault(words[1], len(numbers))
                stream = self.streams.setdefault(words[-1], len(self.streams))
                size = int(words[2]) if words[0] == "a" else 0
                live += size or -sizes[place]
                sizes[place] = size or sizes[place]
                self.peak_live = max(self.peak_live, live)
                self.steps.append((place, size, stream))
        self.n_places = len(numbers)

    def on(self, streams):
        return [(place, size, streams[stream]) for place, size, stream in self.steps]


def play(steps, verbs, memories):
    take, give = verbs
    for place, size, stream in steps:
        if size:
            memories[place] = take(size, stream)
        else:
            give(memories[place], stream)
            memories[place] = None


def return_to_pool(verbs, memories, stream):
    play([(place, 0, stream) for place, memory in enumerate(memories) if memory is not None],
         verbs, memories)


def timed(steps, verbs, memories):
    gc.collect()
    gc.disable()
    begin = time.perf_counter_ns()
    play(steps, verbs, memories)
    nanoseconds = time.perf_counter_ns() - begin
    gc.enable()
    return nanoseconds


# --- process of one pool ----------------------------------------------------------------------


def tell(**result):
    print(json.dumps(result), flush=True)


def attempt(what, name, measure, *arguments):
    """Prints the result of measure(), or its error."""
    try:
        tell(what=what, name=name, **measure(*arguments))
    except Exception as error:
        tell(what=what, name=name, error=f"{type(error).__name__}: {error}"[:300])


def measure_pairs(rival, workload, min_time):
    rival.open(None)
    plan = Plan(workload, rival.stream())
    verbs, empty = rival.verbs(), rival.empty_verbs()
    memories, holes = [None] * (1 << 14), [None] * 2 * plan.n_holes
    rounds, loops, n = [], [], max(16, 4 * plan.n_live)
    try:
        play([(i, 512, plan.stream) for i in range(2 * plan.n_holes)], verbs, holes)
        play([(i, 0, plan.stream) for i in range(1, 2 * plan.n_holes, 2)], verbs, holes)
        play(plan.begin(), verbs, memories)
        while timed(plan.part(n), verbs, memories) < min_time * 1e9 / ROUNDS and n < MOST_PAIRS:
            n *= 2
        for i in range(ROUNDS):
            steps = plan.part(n)
            nothing = [empty[0](512, plan.stream)] * len(memories)
            rounds.append(timed(steps, verbs, memories) / len(steps) * 2)
            loops.append(timed(steps, empty, nothing) / len(steps) * 2)
    finally:
        return_to_pool(verbs, memories, plan.stream)
        return_to_pool(verbs, holes, plan.stream)
        rival.close()
    whole, loop = statistics.median(rounds), statistics.median(loops)
    return {"ns": max(whole - loop, 0), "with-loop-ns": whole, "loop-ns": loop}


def count_steps(rival, trace, steps):
    """Returns the number of successful steps, the error of the failed step or None, and the peak of
    the reserved memory."""
    polls = getattr(rival, "polls", False)
    memories, peak, refusal, done = [None] * trace.n_places, 0, None, len(steps)
    take, give = rival.verbs()
    try:
        for i, (place, size, stream) in enumerate(steps):
            if not size:
                give(memories[place], stream)
                memories[place] = None
                continue
            memories[place] = take(size, stream)
            if polls:
                peak = max(peak, rival.peak())
    except Exception as error:
        if not is_refusal(error):
            raise
        refusal, done = str(error)[:200] or type(error).__name__, i
    finally:
        peak = peak if polls else rival.peak()
        return_to_pool((take, give), memories, steps[0][2])
    return done, refusal, peak


def measure_trace(rival, trace, limit):
    steps = trace.on([rival.stream() for i in trace.streams])
    result = {"operations": len(steps), "peak-live": trace.peak_live, "limit": limit}
    if limit is None:
        rival.open(None)
        verbs, memories = rival.verbs(), [None] * trace.n_places
        time_of_all = timed(steps, verbs, memories)
        return_to_pool(verbs, memories, steps[0][2])
        loop = timed(steps, rival.empty_verbs(), [None] * trace.n_places)
        result["ns-per-operation"] = max(time_of_all - loop, 0) / len(steps)
        result["loop-ns-per-operation"] = loop / len(steps)
    rival.open(limit)
    done, refusal, peak = count_steps(rival, trace, steps)
    rival.close()
    result.update({"done": done, "refusal": refusal, "peak-reserved": peak,
                   "ratio": peak / trace.peak_live})
    return result


def run_rival(options):
    try:
        rival = RIVALS[options.rival](options)
        tell(what="version", version=rival.version)
    except Exception as error:
        tell(what="reason", reason=f"{type(error).__name__}: {error}"[:300])
        return 1
    for workload in WORKLOADS[:getattr(rival, "n_workloads", None)]:
        attempt("pairs", workload[0], measure_pairs, rival, workload, options.min_time)
    if not getattr(rival, "has_pool", True):
        return 0
    for trace in map(Trace, options.traces):
        attempt("trace", trace.name, measure_trace, rival, trace, None)
        attempt("capacity", trace.name, measure_trace, rival, trace,
                int(trace.peak_live * options.margin))
    return 0


# --- the command gpumem ------------------------------------------------------------------------


def read_json(options, *arguments):
    command = [*shlex.split(options.gpumem), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise OSError((done.stderr.strip() or f"exit status {done.returncode}")[-300:])


def ask_replay(options, kind, path, limit):
    arguments = ["--limit", str(limit)] if limit else []
    answer = read_json(options, "pool", "replay", "--json", "--kind", kind, *arguments,
                       options.device, path)["results"][0]
    return {"operations": answer["operations"], "peak-live": answer["peak-live-of-trace"],
            "limit": limit, "ns-per-operation": answer["ns-per-operation"],
            "done": answer.get("refused-at", answer["operations"] + 1) - 1,
            "refusal": answer.get("refusal"), "peak-reserved": answer["peak-managed"],
            "ratio": answer["peak-managed"] / answer["peak-live-of-trace"]}


def run_command(options, kind):
    """Yields the results of one kind of pool, in the format that the other pools' processes
    print."""
    results = []
    add = results.append
    try:
        bench = read_json(options, "pool", "bench", "--json", "--threads", "1", "--kind", kind,
                          "--min-time", str(options.min_time), options.device)
    except (OSError, KeyError, subprocess.TimeoutExpired) as error:
        return [{"what": "reason", "reason": str(error)}]
    add({"what": "version", "version": bench["device"].get("name", options.device)})
    for line in bench["results"]:
        add({"what": "pairs", "name": line["workload"], "all": line,
             "ns": line.get("pool-block-ns", line.get("pool-buffer-ns"))})
    for path in options.traces:
        trace = Trace(path)
        for what, limit in (("trace", None), ("capacity", int(trace.peak_live * options.margin))):
            try:
                add({"what": what, "name": trace.name, **ask_replay(options, kind, path, limit)})
            except (OSError, KeyError, subprocess.TimeoutExpired) as error:
                add({"what": what, "name": trace.name, "error": str(error)})
    return results


# --- all processes -----------------------------------------------------------------------------


def start_rival(options, name):
    """Reads lines of JSON until the process ends or times out. Returns the lines and why the
    process ended."""
    command = [sys.executable, os.path.abspath(__file__), "--rival", name, "--device",
               options.device, "--min-time", str(options.min_time), "--margin",
               str(options.margin), *(["--library", options.library] if options.library else []),
               *options.traces]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    reason = None
    try:
        out, err = process.communicate(timeout=options.timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        reason = f"took longer than {options.timeout:g} s"
    results = []
    for line in out.splitlines():
        try:
            results.append(json.loads(line))
        except ValueError:
            pass
    if process.returncode and reason is None and not any("reason" in r for r in results):
        reason = f"exit status {process.returncode}: {' '.join(err.split())[-300:]}"
    return results + ([{"what": "reason", "reason": reason}] if reason else [])


def pick(results, what, name):
    return next((r for r in results if r.get("what") == what and r.get("name") == name), None)


def tabulate(head, rows):
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))))
    print()


def show(result, key, form):
    return "-" if result is None or result.get(key) is None else form.format(result[key])


def print_tables(options, everything):
    names = [name for name, results in everything.items()
             if any("error" not in r and "name" in r for r in results)]
    print("Nanoseconds of an allocation and a release\n")
    tabulate(["", *names],
             [[workload[0], *(show(pick(everything[name], "pairs", workload[0]), "ns", "{:.0f}")
                              for name in names)] for workload in WORKLOADS])
    for trace in dict.fromkeys(r["name"] for results in everything.values() for r in results
                               if r["what"] in ("trace", "capacity")):
        known = [r for results in everything.values()
                 for r in (pick(results, "trace", trace),) if r and "peak-live" in r]
        print(f"{trace}, at most {known[0]['peak-live']:,} bytes live" if known else trace, "\n")
        rows = []
        for name in names:
            free, held = (pick(everything[name], what, trace) for what in ("trace", "capacity"))
            if free is None and held is None:
                continue
            if held is not None and "done" in held:
                held["part"] = 100 * held["done"] / held["operations"]
            rows.append([name, show(free, "ratio", "{:.4f}"),
                         show(free, "ns-per-operation", "{:.0f}"), show(held, "part", "{:.2f} %"),
                         show(held, "ratio", "{:.4f}")])
        tabulate(["", "reserved / live", "ns per operation", f"done in {options.margin:g} of live",
                  "reserved / live there"], rows)
    for name, results in everything.items():
        for r in results:
            what = " ".join(filter(None, (r.get("what"), r.get("name"))))
            why = r.get("reason") or (r.get("error") and f"{what}: {r['error']}")
            if why:
                print(f"{name}: {why}")


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("traces", nargs="*", metavar="TRACE")
    parser.add_argument("--device", default="cuda:0", help="CUDA device [cuda:0]")
    parser.add_argument("--gpumem", default="gpumem",
                        help="the command gpumem, with optional words before it")
    parser.add_argument("--library", help="the file of libgpumem-1.0, for ctypes")
    parser.add_argument("--kinds", default="expandable,segments", help="kinds of pools of gpumem")
    parser.add_argument("--rivals", default=",".join(RIVALS),
                        help="pools to compare, separated by commas")
    parser.add_argument("--rival", choices=RIVALS, help=argparse.SUPPRESS)
    parser.add_argument("--margin", type=float, default=1.02,
                        help="limit, as a multiple of peak live memory")
    parser.add_argument("--min-time", type=float, default=0.1, help="minimum seconds per figure")
    parser.add_argument("--timeout", type=float, default=100, help="seconds per process")
    parser.add_argument("--json", metavar="FILE", help="write all results as JSON, - for stdout")
    options = parser.parse_args()
    backend, colon, ordinal = options.device.partition(":")
    if backend != "cuda" or not ordinal.isdigit():
        parser.error(f"{options.device!r} is not a device such as cuda:0")
    options.ordinal = int(ordinal)
    wrong = [name for name in filter(None, options.rivals.split(",")) if name not in RIVALS]
    if wrong:
        parser.error(f"no rival {wrong[0]!r}; there are {', '.join(RIVALS)}")
    return options


def main():
    options = read_options()
    if options.rival:
        return run_rival(options)
    everything = {}
    for kind in filter(None, options.kinds.split(",")):
        everything[f"gpumem {kind}"] = run_command(options, kind)
    for name in filter(None, options.rivals.split(",")):
        everything[name] = start_rival(options, name)
        for r in itertools.islice((r for r in everything[name] if "version" in r), 1):
            print(f"# {name} {r['version']}", file=sys.stderr, flush=True)
    if options.json != "-":
        print_tables(options, everything)
    if options.json:
        text = json.dumps({"device": options.device, "margin": options.margin,
                           "rivals": everything}, indent=2)
        with open(1 if options.json == "-" else options.json, "w") as file:
            print(text, file=file)
    return 0 if any(r["what"] == "pairs" and "ns" in r for results in everything.values()
                    for r in results) else 1


sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""halo-dask: workers of Dask blur a picture that is larger than all devices.

    ./halo-dask.py --width 16384 --rows 65536 --steps 256 --depth 32 --workers 4 --bands 16 \\
        --limit "2 GiB"

Each worker is a process, and has a device and several bands. A device has at most --limit bytes:
the bands that do not fit are spilled to the host, and to the disk. A task uses six of them. See
halo.py."""

import gi
import halo

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

try:
    from dask.utils import parse_bytes  # type: ignore
    from distributed import Client, LocalCluster, wait  # type: ignore

    import gpumem.distributed  # type: ignore
except ImportError as error:
    print(f"halo-dask: {error}")
    raise SystemExit(77)


# --- tasks, which run in the workers -------------------------------------------------------------

def load(first, last, width):
    return Gpu.Array.from_numpy(gpumem.distributed.context(), halo.make_rows(first, last, width))


def get_edge(rows, first, last):
    """Returns a view of some rows, which travels to a neighbour without the other rows."""
    return rows[first:last]


def blur(above, rows, below, depth, steps):
    """Blurs a band between the last rows above and the first rows below it."""
    parts = [rows]
    if above is not None:
        parts.insert(0, above[-depth:])
    if below is not None:
        parts.append(below[:depth])
    whole = Gpu.Array.empty(rows.context, (sum(len(part) for part in parts), rows.shape[1]),
                            rows.dtype)
    stream = rows.context.default_stream
    first = 0
    for part in parts:
        whole[first:first + len(part)].write(part, stream)
        first += len(part)
    start = 0 if above is None else depth
    result, _ = halo.blur(whole, Gpu.Array.empty_like(whole), steps)
    return result[start:start + len(rows)].copy(stream=stream)      # No wait, as everywhere here


def synchronize():
    """Waits for the device. Tasks do not: they return while their work is pending."""
    gpumem.distributed.context().synchronize()


def check(rows, number, count, sizes):
    halo.check_rows(rows.context, rows.to_numpy(), number, count, sizes)
    return True


# --- the client ----------------------------------------------------------------------------------

def blur_all(client, bands, places, sizes):
    """Submits all steps, and waits. Dask keeps the bands of this round and the next. Tasks cost
    time of the scheduler, so only edges between workers have their own."""

    def submit(number, function, *arguments):
        return client.submit(function, *arguments, workers=places[number],
                             allow_other_workers=True, pure=False)

    def get_neighbour(number, other, first, last):
        if not 0 <= other < len(bands):
            return None
        if places[other] == places[number]:
            return bands[other]
        return submit(other, get_edge, bands[other], first, last)

    for steps in halo.rounds(sizes):
        bands = [submit(number, blur, get_neighbour(number, number - 1, -sizes.depth, None), band,
                        get_neighbour(number, number + 1, 0, sizes.depth), sizes.depth, steps)
                 for number, band in enumerate(bands)]
    wait(bands)
    client.run(synchronize)
    return bands


def run_on(client, workers, sizes):
    """Runs on a part of all workers. Returns the seconds."""
    count = len(workers) * sizes.bands
    places = [[workers[number // sizes.bands]] for number in range(count)]
    bands = [client.submit(load, number * sizes.rows, (number + 1) * sizes.rows, sizes.width,
                           workers=place, pure=False) for number, place in enumerate(places)]
    wait(bands)
    bands, seconds = halo.measure(lambda: blur_all(client, bands, places, sizes))
    checks = [client.submit(check, band, number, count, sizes, pure=False)
              for number, band in enumerate(bands)]
    if not all(client.gather(checks)):
        raise SystemExit("halo-dask: a check did not run")
    return seconds


def size(text):
    """The type of an argument that is a number of bytes."""
    return halo.count(parse_bytes(text))


def run():
    parser = halo.make_parser(__doc__)
    parser.add_argument("--bands", type=halo.count, default=4, help="bands of each worker")
    parser.add_argument("--limit", type=size,
                        help="memory of each device, in bytes or with a unit, such as '2 GiB'; "
                             "default: all")
    parser.add_argument("--protocol", default="tcp",
                        help="that of Dask: tcp, or ucx of distributed-ucxx; default: tcp")
    sizes = halo.parse(parser)
    if sizes.rows < sizes.bands:
        parser.error(f"argument --rows: must be {sizes.bands} or more, one for each band of a "
                     f"worker, not {sizes.rows}")
    sizes.rows //= sizes.bands
    sizes.depth = min(sizes.depth, sizes.rows)
    with LocalCluster(n_workers=sizes.workers, threads_per_worker=1, dashboard_address=None,
                      protocol=sizes.protocol) as cluster, Client(cluster) as client:
        client.upload_file(halo.__file__)
        gpumem.distributed.register(client, sizes.limit)
        workers = list(client.scheduler_info()["workers"])
        run_on(client, workers, sizes)          # The first run compiles the kernel
        table = halo.Table(sizes, "workers", sizes.bands)
        for part in halo.counts(len(workers)):
            table.add(part, run_on(client, workers[:part], sizes))


if __name__ == "__main__":                      # The workers import this file
    try:
        run()
    except GLib.Error as error:
        raise SystemExit(f"halo-dask: {error.message}")

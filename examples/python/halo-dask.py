#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""halo-dask: workers of Dask blur a picture that is larger than all devices.

    ./halo-dask.py --width 16384 --rows 65536 --steps 256 --depth 32 --workers 4 --limit "2 GiB"

Each worker is a process, and has a device and several bands. A device has at most --limit bytes:
the bands that do not fit are spilled to the host, and to the disk. See halo.py."""

import gi
import halo

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402

try:
    from dask.utils import parse_bytes
    from distributed import Client, LocalCluster, wait

    import gpumem.distributed  # type: ignore
except ImportError as error:
    print(f"halo-dask: {error}")
    raise SystemExit(77)

BANDS = 4                                       # of each worker


# --- tasks, which run in the workers -------------------------------------------------------------

def load(first, last, width):
    return Gpu.Array.from_numpy(gpumem.distributed.context(), halo.make_rows(first, last, width))


def get_edge(rows, first, last):
    """Returns a copy of some rows, which travels alone to the neighbour."""
    return rows[first:last].copy()


def blur(above, rows, below, steps):
    """Blurs a band between the edges of its neighbours."""
    parts = [part for part in (above, rows, below) if part is not None]
    whole = Gpu.Array.empty(rows.context, (sum(len(part) for part in parts), rows.shape[1]),
                            rows.dtype)
    stream = rows.context.default_stream
    first = 0
    for part in parts:
        whole[first:first + len(part)].write(part, stream)
        first += len(part)
    start = 0 if above is None else len(above)
    result, _ = halo.blur(whole, Gpu.Array.empty_like(whole), steps)
    return result[start:start + len(rows)].copy(stream=stream)


def check(rows, number, count, sizes):
    halo.check_rows(rows.context, rows.to_numpy(), number, count, sizes)
    return True


# --- the client ----------------------------------------------------------------------------------

def blur_all(client, bands, places, sizes):
    """Submits all steps, and waits. Dask keeps the bands of this round and the next."""

    def submit(number, function, *arguments):
        return client.submit(function, *arguments, workers=places[number],
                             allow_other_workers=True, pure=False)

    depth, last = sizes.depth, len(bands) - 1
    for steps in halo.rounds(sizes):
        upper = [submit(number, get_edge, band, 0, depth) for number, band in enumerate(bands)]
        lower = [submit(number, get_edge, band, -depth, None) for number, band in enumerate(bands)]
        bands = [submit(number, blur, lower[number - 1] if number > 0 else None, band,
                        upper[number + 1] if number < last else None, steps)
                 for number, band in enumerate(bands)]
    wait(bands)
    return bands


def run_on(client, workers, sizes):
    """Runs on a part of all workers. Returns the seconds."""
    count = len(workers) * BANDS
    places = [[workers[number // BANDS]] for number in range(count)]
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
    parser.add_argument("--limit", type=size,
                        help="memory of each device, in bytes or with a unit, such as '2 GiB'; "
                             "default: all")
    sizes = halo.parse(parser)
    if sizes.rows < BANDS:
        parser.error(f"argument --rows: must be {BANDS} or more, one for each band of a worker, "
                     f"not {sizes.rows}")
    sizes.rows //= BANDS
    sizes.depth = min(sizes.depth, sizes.rows)
    with LocalCluster(n_workers=sizes.workers, threads_per_worker=1, dashboard_address=None) \
            as cluster, Client(cluster) as client:
        client.upload_file(halo.__file__)
        gpumem.distributed.register(client, sizes.limit)
        workers = list(client.scheduler_info()["workers"])
        run_on(client, workers, sizes)          # The first run compiles the kernel
        table = halo.Table(sizes, "workers", BANDS)
        for part in halo.counts(len(workers)):
            table.add(part, run_on(client, workers[:part], sizes))


if __name__ == "__main__":                      # The workers import this file
    try:
        run()
    except GLib.Error as error:
        raise SystemExit(f"halo-dask: {error.message}")

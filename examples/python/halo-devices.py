#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""halo-devices: one process blurs a picture that is larger than a device with several devices.

    ./halo-devices.py --width 16384 --rows 65536 --steps 256 --depth 32 --workers 4

The devices exchange rows directly where the driver can do that, otherwise through page-locked
memory. If there is only one device, it serves all bands, each in a context of its own. See
halo.py."""

import gi
import halo

gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu  # noqa: E402


def make_contexts(count):
    """Returns contexts on the devices of the default back end, on each device in turn."""
    default = Gpu.Device()
    devices = [device for device in Gpu.devices() if device.backend == default.backend]
    return [Gpu.Context(devices[number % len(devices)]) for number in range(count)]


def exchange(bands):
    """Copies the edges of each band to the halos of its neighbours. Does not wait: each copy is
    ordered after the last step of both devices, and their next steps are ordered after it."""
    for upper, lower in zip(bands, bands[1:]):
        lower.upper_halo.write(upper.lower_edge, lower.array.context.default_stream)
        upper.lower_halo.write(lower.upper_edge, upper.array.context.default_stream)


def blur(bands, sizes):
    for steps in halo.rounds(sizes):
        exchange(bands)
        for band in bands:
            band.blur(steps)


def run():
    sizes = halo.parse(halo.make_parser(__doc__))
    contexts = make_contexts(sizes.workers)
    table = halo.Table(sizes, "devices")

    def synchronize():
        for context in contexts:
            context.synchronize()

    for count in halo.counts(sizes.workers):
        for is_first in (True, False):          # The first run compiles the kernel
            bands = [halo.Band(context, number, count, sizes)
                     for number, context in enumerate(contexts[:count])]
            _, seconds = halo.measure(lambda: blur(bands, sizes), synchronize)
        table.add(count, seconds)
        for number, band in enumerate(bands):
            halo.check_rows(contexts[0], band.inner.to_numpy(), number, count, sizes)


try:
    run()
except GLib.Error as error:
    raise SystemExit(f"halo-devices: {error.message}")

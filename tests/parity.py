#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Prints every row of the guides, its test and the back ends on which the test passes. make parity
runs this script.

The exit status is 1 if a row is missing or fails. If a back end has several devices with different
results, the cell lists the result of each device.
"""

import sys
import textwrap
import traceback

from guide_util import COMING_FROM, Guide, read_rows, run_section
from python_util import Skip, check_nothing_lives, choose_devices

COLUMNS = (("host", "host"), ("opencl", "OpenCL"), ("cuda", "CUDA"))
YES = "yes"


def try_section(guide, section, device):
    """Runs a section on a device. Returns the text of the cell (YES, or the reason for another
    result), and whether the row failed."""
    try:
        run_section(guide, section, device)
        check_nothing_lives()
    except Skip as reason:
        answer = "in part" if getattr(reason, "in_part", False) else "no"
        return f"{answer}: {str(reason).partition(': ')[2] or reason}", False
    except BaseException:
        print(f"{section.row} on {device.id}:\n{traceback.format_exc()}", file=sys.stderr)
        return "FAILED", True
    return YES, False


def try_backend(guide, section, devices):
    outcomes = [(device, *try_section(guide, section, device)) for device in devices]
    texts = sorted({text for _, text, _ in outcomes})
    if len(texts) == 1:
        return texts[0], outcomes[0][2]
    return "; ".join(f"{device.id}: {text}" for device, text, _ in outcomes), \
        any(red for _, _, red in outcomes)


def rows_of_table(devices):
    """Yields (ID, title, test, cells, whether the row is missing or failed) for every row."""
    shown = {section.row: (guide, section) for guide in map(Guide, COMING_FROM)
             for section in guide.sections}
    for row in read_rows():
        if row.omitted:
            cells, test, bad = [f"omitted: {row.omitted}"] * len(COLUMNS), "-", False
        elif row.id not in shown:
            cells, test, bad = [f"MISSING: {row.waits}"] * len(COLUMNS), "MISSING", True
        else:
            found = [try_backend(*shown[row.id], devices[backend]) if devices[backend]
                     else ("no device", False) for backend, _ in COLUMNS]
            cells, test = [text for text, _ in found], f"/parity/{row.id}"
            bad = any(red for _, red in found)
        yield row.id, row.title, test, cells, bad


def print_row(cells, widths):
    """Prints cells side by side, and wraps long cells."""
    lines = [textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, widths)]
    for number in range(max(map(len, lines))):
        texts = [part[number] if number < len(part) else "" for part in lines]
        print("  ".join(f"{text:{width}}" for text, width in zip(texts, widths)).rstrip())


def main():
    devices = {backend: [] for backend, _ in COLUMNS}
    for device in choose_devices():
        devices[device.backend].append(device)
    widths = (4, 40, 12, 22, 28, 28)
    print_row(("row", "title", "test", *(name for _, name in COLUMNS)), widths)
    print_row(["-" * width for width in widths], widths)
    n_rows = n_bad = 0
    for row, title, test, cells, bad in rows_of_table(devices):
        print_row((row, title, test, *cells), widths)
        sys.stdout.flush()
        n_rows += 1
        n_bad += bad
    print(f"\n{n_rows} rows, {n_bad} of them missing or red")
    return n_bad > 0


if __name__ == "__main__":
    sys.exit(main())

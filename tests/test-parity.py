#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs each section of the guides for users of PyOpenCL and Numba as the test /parity/ROW, on every
device that GPUMEM_TEST selects. test-parity-pycuda.py runs the guide for users of PyCUDA."""

import re
import sys

from guide_util import COMING_FROM, Guide, main_in_folder, parity_cases, read_rows
from python_util import Skip, equal


def plain_rows():
    """Checks that every row has one section, which shows the call of the other library."""
    shown = {}
    for name in COMING_FROM:
        for section in Guide(name).sections:
            if section.row is None:
                continue
            assert section.row not in shown, f"{section.row} is there twice"
            assert section.shown, f"{section.row}: no call of theirs"
            shown[section.row] = section
    for row in read_rows():
        section = shown.pop(row.id, None)
        assert (section is None) == bool(row.omitted or row.waits), \
            f"{row.id} is {'in no' if section is None else 'in a'} guide"
        if section is not None:
            equal(section.title, row.title, f"the title of {row.id}")
            assert section.blocks, f"{row.id} shows nothing that is run"
    equal(list(shown), [], "sections of no row")


def plain_indexes():
    """Checks that the index of each guide has every name of PyOpenCL or PyCUDA that a section
    shows."""
    for name, prefix in ("coming-from-pyopencl", "cl"), ("coming-from-pycuda", "drv"):
        guide = Guide(name)
        with open(guide.path, encoding="utf-8") as file:
            index = file.read().partition("\n## Index ")[2].partition("\n## ")[0]
        shown = "".join(text for section in guide.sections for text in section.shown)
        names = set(re.findall(rf"\b{prefix}\.(\w+)", shown))
        equal(sorted(names - set(re.findall(r"\w+", index))), [], f"not in the index of {name}")


def plain_waiting_rows():
    waiting = [f"{row.id} ({row.waits})" for row in read_rows() if row.waits]
    if waiting:
        raise Skip("not in the guides yet: " + ", ".join(waiting))


def cases():
    yield "plain_rows", plain_rows
    yield "plain_indexes", plain_indexes
    yield "plain_waiting_rows", plain_waiting_rows
    for name in COMING_FROM:
        if name != "coming-from-pycuda":
            yield from parity_cases(name)


if __name__ == "__main__":
    sys.exit(main_in_folder(dict(cases())))

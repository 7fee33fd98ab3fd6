#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the guides show runs, over every device that GPUMEM_TEST chooses: each row of parity as
/parity/ROW, each recipe, and the tutorial from its first line to its last."""

import functools
import os
import shutil
import subprocess
import sys
import tempfile

import gi

from guide_util import COMING_FROM, Guide, clear, find_guides, read_rows, run_section
from python_util import Skip, equal, main


def plain_rows():
    """Every row has one section, with a call of theirs, and there is none without a row."""
    shown = {}
    for name in COMING_FROM:
        for section in Guide(name).sections:
            assert section.row is not None, f"{name}: '{section.title}' has no row"
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


def plain_waiting_rows():
    waiting = [f"{row.id} ({row.waits})" for row in read_rows() if row.waits]
    if waiting:
        raise Skip("not in the guides yet: " + ", ".join(waiting))


def need_tour():
    try:
        gi.require_version("GdkPixbuf", "2.0")
    except ValueError:
        raise Skip("GdkPixbuf is not installed") from None
    tool = shutil.which("gpumem")
    if tool is None or subprocess.run([tool, "tour", "--help"], capture_output=True).returncode:
        raise Skip("gpumem tour is not there to draw a picture")


def plain_native_calls():
    """The tables of coming-from-c.md are what the sources tell."""
    script = os.path.join(find_guides(), "native-calls")
    if not os.path.exists(script):
        raise Skip("the sources are not there")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    equal((done.returncode, done.stdout), (0, ""))


def run_all(guide, fixture):
    """All of a guide in one namespace, from the top."""
    fixture.context = fixture.stream = None
    need_tour()
    names = {"__name__": "guide"}
    try:
        for section in [guide.preamble, *guide.sections]:
            run_section(guide, section, fixture.device, names)
    finally:
        clear(names)


def run_one(guide, section, fixture):
    fixture.context = fixture.stream = None
    run_section(guide, section, fixture.device)


def cases():
    for name in COMING_FROM:
        guide = Guide(name)
        for section in guide.sections:
            if section.blocks:
                yield f"parity/{section.row}", functools.partial(run_one, guide, section)
    for name in ("cookbook", "coming-from-c"):
        guide = Guide(name)
        for section in guide.sections:
            yield f"{name}/{section.slug}", functools.partial(run_one, guide, section)
    yield "tutorial", functools.partial(run_all, Guide("tutorial"))


def main_in_folder():
    """In an empty folder, for guides write files, and with our own tool."""
    tool = os.environ.get("GPUMEM_TOOL")
    if tool:
        os.environ["PATH"] = os.path.dirname(tool) + os.pathsep + os.environ["PATH"]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        plain = {name: test for name, test in globals().items() if name.startswith("plain_")}
        on_devices = {f"test_{name}": test for name, test in cases()}
        return main({**plain, **on_devices}, "/{test}/{device}")


if __name__ == "__main__":
    sys.exit(main_in_folder())

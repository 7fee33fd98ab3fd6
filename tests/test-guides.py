#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs the sections of the guide for C, and the tutorial from top to bottom, on every device that
GPUMEM_TEST selects. The recipes are in test-cookbook.py, and the rows of parity in test-parity.py
and test-parity-pycuda.py."""

import functools
import os
import re
import shutil
import subprocess
import sys

import gi

from guide_util import Guide, clear, find_guides, main_in_folder, run_section, section_cases
from python_util import Skip, equal


def need_tour():
    try:
        gi.require_version("GdkPixbuf", "2.0")
    except ValueError:
        raise Skip("GdkPixbuf is not installed") from None
    tool = shutil.which("gpumem")
    if tool is None or subprocess.run([tool, "tour", "--help"], capture_output=True).returncode:
        raise Skip("gpumem tour is not installed")


def plain_native_calls():
    """The tables of coming-from-c.md match the gtk-doc blocks of the sources."""
    script = os.path.join(find_guides(), "native-calls")
    if not os.path.exists(script):
        raise Skip("the sources are not there")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    equal((done.returncode, done.stdout), (0, ""))


def find_anchors(text):
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return set(re.findall(r'<a id="(\w+)">', text)) \
        | {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def plain_links():
    """Every link to a section of a guide has a target."""
    texts = {}
    for name in os.listdir(find_guides()):
        if name.endswith(".md"):
            with open(os.path.join(find_guides(), name), encoding="utf-8") as file:
                texts[name] = file.read()
    anchors = {name: find_anchors(text) for name, text in texts.items()}
    for name, text in texts.items():
        for path, anchor in re.findall(r"\]\(([\w-]+\.md|)(?:#([\w-]+))?\)", text):
            assert (path or name) in texts, f"{name}: there is no {path}"
            assert not anchor or anchor in anchors[path or name], f"{name}: {path}#{anchor}"


def run_all(guide, fixture):
    """Runs the tutorial from top to bottom in one namespace."""
    fixture.context = fixture.stream = None
    need_tour()
    names = {"__name__": "guide"}
    try:
        for section in [guide.preamble, *guide.sections]:
            run_section(guide, section, fixture.device, names)
    finally:
        clear(names)


def cases():
    yield "plain_native_calls", plain_native_calls
    yield "plain_links", plain_links
    yield from section_cases("coming-from-c")
    yield "test_tutorial", functools.partial(run_all, Guide("tutorial"))


if __name__ == "__main__":
    sys.exit(main_in_folder(dict(cases())))

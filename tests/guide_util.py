# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads the guides and runs their code.

A guide is Markdown. Code before the first section runs before each section. A section is a heading
of the third level. `<a id="M7"></a>` on the line above a heading makes the section the test of row
M7.

Fenced blocks of Python run, as do whole programs in C, JavaScript and Vala, unless the first line
names another library, as "# PyCUDA" does. "# gpumem on CUDA" in the first line limits a block to
that back end. A comment such as

    <!-- python
    assert ...
    -->

runs at its position between the blocks, and is hidden from readers. "<!-- python cuda" limits a
hidden block to a back end. The visible and hidden C blocks of a section form one program, within
the frame of the guide.

The line "Not on OpenCL: it has no addresses" means that on OpenCL the section must fail with
GPU_ERROR_NOT_SUPPORTED. "Not on every OpenCL device: ..." means that the section may fail with this
error. "Not without a second device: ..." skips the section if the back end has only one device.
"""

import contextlib
import faulthandler
import functools
import importlib
import io
import linecache
import os
import re
import shutil
import subprocess
import tempfile
import traceback
from typing import NamedTuple

from python_util import DEADLINE, GLib, Gpu, Skip, main

BACKENDS = {"host": "host", "OpenCL": "opencl", "CUDA": "cuda"}
COMING_FROM = ("coming-from-pyopencl", "coming-from-pycuda", "coming-from-numba")
OTHERS = ("PyOpenCL", "PyCUDA", "Numba", "OpenCL", "CUDA")
FRAME = "  /* your code */\n"                    # replaced by the C of a section

ANCHOR = re.compile(r'<a id="(?P<row>[MTDCN]\d+)"></a>')
HEADING = re.compile(r"### (?P<title>.+)")
HIDDEN = re.compile(r"<!-- (?P<language>python|c|js|vala)")
NOT_ON = re.compile(r"Not on (?P<every>every )?(?:the )?(?P<backend>host|OpenCL|CUDA)"
                    r"(?: device)?: ")
ONLY_ON = re.compile(r"# gpumem on (?P<backend>host|OpenCL|CUDA)\b")
NOT_ALONE = re.compile(r"Not without a second device: ")


def find_guides():
    """Returns the folder of the guides: if the tests are installed, the folder of this file."""
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in (os.path.join(here, "..", "docs", "guides"), here):
        if os.path.exists(os.path.join(folder, "rows.txt")):
            return os.path.normpath(folder)
    raise FileNotFoundError("rows.txt: there are no guides beside the tests")


scratch = tempfile.TemporaryDirectory()


class Lacking(Skip):
    """Raised if the device lacks a feature that the section needs, or that a part of the section
    needs."""

    def __init__(self, text, in_part):
        super().__init__(text)
        self.in_part = in_part


class Row:
    """A row of the list of tasks that the guides must show. `omitted` is the reason why no guide
    shows the task, or None. `waits` is a missing feature that the task needs, or None."""

    def __init__(self, line):
        text, _, why = line.strip().partition(" | ")
        self.id, self.title = text.split(None, 1)
        kind, _, reason = why.partition(": ")
        self.omitted = reason if kind == "omitted" else None
        self.waits = reason if kind == "waits for" else None


def read_rows():
    with open(os.path.join(find_guides(), "rows.txt"), encoding="utf-8") as file:
        return [Row(line) for line in file if line.strip() and not line.startswith("#")]


class Block(NamedTuple):
    """A code block of a guide. Runs on the back ends that the block names, or on all."""
    language: str
    first: int                                  # number of the first line
    text: str
    backends: tuple = ()


class Section:
    def __init__(self, path, row, title):
        self.path = path
        self.row = row
        self.title = title
        self.blocks = []
        self.shown = []                         # code of other libraries
        self.fails_on = set()
        self.may_fail_on = set()
        self.takes_two = False

    @property
    def slug(self):
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


class Guide:
    def __init__(self, name):
        self.name = name
        self.path = os.path.join(find_guides(), name + ".md")
        self.preamble = Section(self.path, None, "preamble")
        self.sections = []
        with open(self.path, encoding="utf-8") as file:
            self._read(file.read().split("\n"))

    @property
    def frame(self):
        """Returns the program that contains the C code of a section."""
        return next((block.text for block in self.preamble.blocks if FRAME in block.text), None)

    def _read(self, lines):
        section = self.preamble
        row = None
        number = 0
        while number < len(lines):
            line = lines[number]
            number += 1
            heading, not_on, hidden = (pattern.match(line) for pattern in (HEADING, NOT_ON, HIDDEN))
            if heading:
                section = Section(self.path, row, heading["title"])
                self.sections.append(section)
                row = None
            elif ANCHOR.fullmatch(line):
                row = ANCHOR.fullmatch(line)["row"]
            elif not_on:
                fails = section.may_fail_on if not_on["every"] else section.fails_on
                fails.add(BACKENDS[not_on["backend"]])
            elif NOT_ALONE.match(line):
                section.takes_two = True
            elif hidden or line.startswith("```"):
                end = lines.index("-->" if hidden else "```", number)
                language, *backends = line.strip("`<!- ").split() or [""]
                only_on = ONLY_ON.match(lines[number])
                if only_on:
                    backends.append(BACKENDS[only_on["backend"]])
                self._add(section, Block(language, number + 1,
                                         "\n".join(lines[number:end]) + "\n", tuple(backends)))
                number = end + 1

    @staticmethod
    def _add(section, block):
        if block.text.split("\n")[0].strip("#/* ").split(":")[0] in OTHERS:
            section.shown.append(block.text)
        elif block.language in ("python", "js", "c", "vala"):
            section.blocks.append(block)


# --- running -------------------------------------------------------------------------------------

def run_python(path, first, text, names):
    # Tracebacks quote the lines of the guide
    linecache.lazycache(path, None)
    exec(compile("\n" * (first - 1) + text, path, "exec"), names)


def run_command(*command):
    """Runs a command. The last line of a program that exits with 77 is the reason for skipping."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    if done.returncode == 77:
        raise Skip(done.stdout.strip().split("\n")[-1])
    assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"


def build_folder():
    folder = os.environ.get("TEST_TOP_BUILDDIR")
    if not folder:
        raise Skip("programs in C and Vala are built beside the sources only")
    return folder


@functools.lru_cache(maxsize=None)
def build(language, text):
    """Builds a program in C or Vala in the scratch folder."""
    folder = build_folder()
    program = tempfile.mkdtemp(dir=scratch.name) + "/program"
    source = f"{program}.{language}"
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    top = os.environ["TEST_TOP_SRCDIR"]
    flags = ["-I" + top, "-I" + folder, "-L" + os.path.join(folder, "gpumem", ".libs"),
             "-lgpumem-1.0"]
    if language == "c":
        glib = subprocess.run(["pkg-config", "--cflags", "--libs", "gio-unix-2.0"], check=True,
                              capture_output=True, text=True).stdout.split()
        run_command("cc", "-Wall", "-Werror", "-Wno-unused-but-set-variable", source, "-o", program,
                    *flags, *glib)
    else:
        vapi = os.path.join(folder, "bindings", "vala")
        if shutil.which("valac") is None or not os.path.exists(vapi):
            raise Skip("valac is not installed, or was not when this was built")
        options = [option for flag in ("-w", *flags) for option in ("-X", flag)]
        run_command("valac", "--vapidir=" + vapi, "--pkg", "gio-unix-2.0", "--pkg", "gpumem-1.0",
                    *options, "-o", program, source)
    return program


def run_program(language, text):
    """Runs a program in C, JavaScript or Vala."""
    if language == "js":
        gjs = os.environ.get("TEST_GJS", "gjs")
        if shutil.which(gjs) is None:
            raise Skip("gjs is not installed")
        path = os.path.join(scratch.name, "program.js")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        run_command(gjs, "-m", path)
    else:
        run_command(build(language, text))


def run_blocks(section, backend, names, frame=None):
    parts = ""
    for block in section.blocks:
        if FRAME in block.text or block.backends and backend not in block.backends:
            continue
        if block.language == "python":
            run_python(section.path, block.first, block.text, names)
        elif block.language == "c" and frame and "main (" not in block.text:
            parts += block.text
        else:
            run_program(block.language, block.text)
    if parts:
        run_program("c", frame.replace(FRAME, parts))


def is_not_supported(error):
    return isinstance(error, GLib.Error) \
        and error.matches(Gpu.error_quark(), Gpu.Error.NOT_SUPPORTED)


def has_shown_some(section, error):
    """Returns whether an assertion passed before the error."""
    frames = traceback.extract_tb(error.__traceback__)
    failed = [frame.lineno for frame in frames if frame.filename == section.path]
    first = [block.first + number for block in section.blocks
             for number, line in enumerate(block.text.split("\n"))
             if line.lstrip().startswith("assert")]
    return bool(failed and first and first[0] < failed[0])


def clear(names):
    """Drops the objects of a test. Does not clear the modules that it imported."""
    for name in list(names):
        del names[name]


@contextlib.contextmanager
def environment(device):
    """Makes the device the default, discards output, and aborts if the code hangs."""
    os.environ["GPUMEM_DEVICE"] = device.id
    faulthandler.dump_traceback_later(DEADLINE, exit=True)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        del os.environ["GPUMEM_DEVICE"]


def run_where_it_can(guide, section, backend, names):
    if section.takes_two and backend not in section.fails_on \
            and sum(device.backend == backend for device in Gpu.devices()) < 2:
        raise Skip(f"{backend} has one device, and this takes two")
    try:
        run_blocks(section, backend, names, guide.frame)
    except GLib.Error as error:
        if not is_not_supported(error) or backend not in section.fails_on | section.may_fail_on:
            raise
        raise Lacking(error.message, has_shown_some(section, error)) from None
    assert backend not in section.fails_on, \
        f"the guide says that {section.row or section.title} is not on {backend}"


def run_section(guide, section, device, names=None):
    """Runs a section on a device. Without `names`, the section runs in a new namespace, after the
    preamble of the guide."""
    try:
        importlib.import_module("numpy")
    except ImportError:
        raise Skip("NumPy is not installed") from None
    fresh = names is None
    names = {"__name__": "guide"} if fresh else names
    with environment(device):
        try:
            if fresh:
                run_blocks(guide.preamble, device.backend, names)
            run_where_it_can(guide, section, device.backend, names)
        finally:
            if fresh:
                clear(names)


def run_one(guide, section, fixture):
    fixture.context = fixture.stream = None
    run_section(guide, section, fixture.device)


def section_cases(name):
    """Yields a test NAME/SECTION for each section of a guide."""
    guide = Guide(name)
    for section in guide.sections:
        yield f"test_{name}/{section.slug}", functools.partial(run_one, guide, section)


def parity_cases(name):
    """Yields a test parity/ROW for each section of a guide for users of another library."""
    guide = Guide(name)
    for section in guide.sections:
        if section.blocks:
            name = section.row or section.slug
            yield f"test_parity/{name}", functools.partial(run_one, guide, section)


def main_in_folder(tests):
    """Runs the tests with the tool of this build, in an empty folder because guides write files."""
    tool = os.environ.get("GPUMEM_TOOL")
    if tool:
        os.environ["PATH"] = os.path.dirname(tool) + os.pathsep + os.environ["PATH"]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        return main(tests, "/{test}/{device}")

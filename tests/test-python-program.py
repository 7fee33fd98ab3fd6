# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs in Python: options, headers and binaries, on every device that GPUMEM_TEST selects."""

import asyncio
import contextlib
import ctypes
import os
import subprocess
import sys
import tempfile

from python_util import Gio, GLib, Gpu, equal, main, need, need_numpy, np, raises, spin

CAPABILITIES = Gpu.Capabilities


@contextlib.contextmanager
def environ(name, value):
    """Sets a variable of the environment during a with statement."""
    before = GLib.getenv(name)
    GLib.setenv(name, value, True)
    try:
        yield
    finally:
        if before is None:
            GLib.unsetenv(name)
        else:
            GLib.setenv(name, before, True)


# --- options --------------------------------------------------------------------------------------

OPTIONS_SOURCE = """
#include "five.h"
__kernel void k (__global int *p) { p[0] = FIVE; p[1] = SUM; p[2] = SIGN; }
"""


def built_numbers(fixture, program):
    out = np.zeros(3, np.int32)
    program.get_kernel("k")(fixture.stream, 1, None, Gpu.Out(out))
    return out.tolist()


def test_unknown_kernel(fixture):
    """The error has the name once, and lists the kernels."""
    program = fixture.program()
    for kind, call in ((AttributeError, lambda: program.sclae),
                       (Gpu.Error.INVALID_ARGUMENT, lambda: program.get_kernel("sclae"))):
        with raises(kind, "Program.get_kernel: kernel \"sclae\"",
                    "the program only has the kernels ", "scale", "triple") as caught:
            call()
        equal(caught.text.count("sclae"), 1)
    program = Gpu.Program(fixture.context, "void scale (float *x) { x[0] = 1; }")
    equal(program.kernels, [])
    with raises(AttributeError, "kernel \"scale\"", "the program has no kernels"):
        program.scale


def test_iteration(fixture):
    """A program iterates over its kernels, whose names also complete."""
    program = fixture.program()
    equal([kernel.name for kernel in program], program.kernels)
    assert "scale" in dir(program) and "build_log" in dir(program), dir(program)


def test_options_list(fixture):
    """A list of options gives each option and value to the compiler as it is."""
    need(fixture, CAPABILITIES.SOURCE)
    need_numpy()
    if fixture.device.backend != "opencl":
        folder = "$inc 'a' \"b\" \\ #"
    else:
        # NVIDIA's driver refuses options with a folder whose path contains a dollar sign.
        folder = "inc" if "NVIDIA" in fixture.device.platform else "$inc"
    with tempfile.TemporaryDirectory() as parent:
        path = os.path.join(parent, folder)
        os.mkdir(path)
        with open(os.path.join(path, "five.h"), "w", encoding="utf-8") as file:
            file.write("#define FIVE 5\n")
        for options in (["-DSUM=(1 + 2)", "-D", "SIGN=-1", "-I", path],
                        ("-I" + path, "-D", "SUM=1 + 2", "-DSIGN=-1")):
            program = Gpu.Program(fixture.context, OPTIONS_SOURCE, options)
            equal(built_numbers(fixture, program), [5, 3, -1])
        fixture.context.set_build_options(["-I", path, "-DSUM=3  *  2"])
        program = Gpu.Program.new_from_source(fixture.context, OPTIONS_SOURCE, ["-DSIGN=1"])
        equal(built_numbers(fixture, program), [5, 6, 1])


def test_options_list_everywhere(fixture):
    """Every function that takes options takes a list, also with a callback."""
    need(fixture, CAPABILITIES.SOURCE)
    need_numpy()
    source = OPTIONS_SOURCE.replace('#include "five.h"', "")
    options = ["-DFIVE=5", "-DSUM=1 + 2", "-DSIGN=1"]
    context = fixture.context
    builds = [lambda: Gpu.Program.new_from_source_full(context, source, options,
                                                       Gpu.ProgramFlags.NO_CACHE),
              lambda: asyncio.run(Gpu.Program.new_from_source_async(context, source, options))]
    if fixture.device.capabilities & CAPABILITIES.LINKING:
        builds.append(lambda: Gpu.Program.new_linked(
            context, [Gpu.Program.compile(context, source, options)], []))
    for build in builds:
        program = build()
        program.get_kernel("k").declare_arguments("p")
        equal(built_numbers(fixture, program), [5, 3, 1])
    results = []
    Gpu.Program.new_from_source_async(context, source, options, None,
                                      lambda source, result: results.append(result))
    spin(lambda: results)
    equal(built_numbers(fixture, Gpu.Program.new_from_source_finish(results[0])), [5, 3, 1])


def test_options_list_refused(fixture):
    """Options that no compiler, or not this one, could get as they are."""
    def build(options):
        return Gpu.Program(fixture.context, OPTIONS_SOURCE, options)

    for options, error, words in ((["-DN", 4], TypeError, "options[1]"),
                                  (["-DN", " "], ValueError, "options[1] is ' '"),
                                  (["-DN=1\0"], ValueError, "options[0]"),
                                  ({"-DN": 4}, TypeError, "'dict'"),
                                  (b"-DN", TypeError, "'bytes'")):
        with raises(error, words):
            build(options)
    if fixture.device.backend == "opencl":
        for word in ('-DN="a"', "-DN='a'", "-DN=\\", "-DN=1\n2"):
            with raises(ValueError, "options[1]", repr(word), "one string"):
                build(["-w", word])


# --- headers --------------------------------------------------------------------------------------

HEADERS = {"five.h": "#pragma once\n#include <kinds/sum.h>\n#define FIVE 5\n",
           "kinds/sum.h": '#include "kinds/sign.h"\n#define SUM (-SIGN * 8)\n',
           "kinds/sign.h": "#define SIGN -1\n"}


def test_headers(fixture):
    """A program and its headers include headers by their names."""
    need(fixture, CAPABILITIES.SOURCE)
    need_numpy()
    program = Gpu.Program(fixture.context, OPTIONS_SOURCE, headers=HEADERS)
    equal(built_numbers(fixture, program), [5, 8, -1])
    equal(program.headers, HEADERS)
    equal(Gpu.Program(fixture.context, "__kernel void k (int i) {}").headers, None)


def test_headers_translated(fixture):
    """Headers are in the language of the program."""
    need(fixture, CAPABILITIES.SOURCE)
    need_numpy()
    header = """
        constant float factors[] = { 2, 3 };
        typedef struct { float2 pair; } Pair;
        float sum (local float *values) { return values[0] + factors[1]; }
        kernel void k (global int *p)
        {
          local float values[1];
          Pair pair;
          values[0] = 4;
          pair.pair = (float2) (5, 6);
          p[0] = (int) sum (values);
          p[1] = (int) pair.pair.y;
          p[2] = (int) factors[0];
        }"""
    program = Gpu.Program(fixture.context, '#include "k.h"\n', headers={"k.h": header})
    equal(built_numbers(fixture, program), [7, 6, 2])
    if fixture.device.backend == "cuda":
        header = 'extern "C" __global__ void k (int *p) { p[0] = p[1] = p[2] = threadIdx.x + 3; }'
        program = Gpu.Program(fixture.context, '#include "k.h"\n', headers={"k.h": header})
        equal(built_numbers(fixture, program), [3, 3, 3])


def test_headers_first(fixture):
    """Named headers precede those in folders. Headers in folders remain available."""
    need(fixture, CAPABILITIES.SOURCE)
    need_numpy()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("five.h", "#define FIVE 6\n#include <rest.h>\n"),
                           ("rest.h", "#define SUM 1\n#define SIGN 2\n")):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        options = ["-I", folder]
        for headers, numbers in (({"five.h": "#define FIVE 5\n#include <rest.h>\n"}, [5, 1, 2]),
                                 ({"rest.h": "#define SUM 3\n#define SIGN 4\n"}, [6, 3, 4]),
                                 ({}, [6, 1, 2])):
            program = Gpu.Program(fixture.context, OPTIONS_SOURCE, options, headers=headers)
            equal(built_numbers(fixture, program), numbers)
            assert not program.is_from_cache()


def test_headers_before_current_folder(fixture):
    """A file in the current folder of the process does not replace a header."""
    need(fixture, CAPABILITIES.SOURCE)
    need_numpy()
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        for name in HEADERS:
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write("#error a file of the current folder\n")
        try:
            os.chdir(folder)
            program = Gpu.Program(fixture.context, OPTIONS_SOURCE, headers=HEADERS)
        finally:
            os.chdir(before)
    equal(built_numbers(fixture, program), [5, 8, -1])


def test_headers_cached(fixture):
    """The key of the program cache contains the names and the texts of the headers."""
    need(fixture, CAPABILITIES.SOURCE)
    need(fixture, CAPABILITIES.BINARY)
    need_numpy()
    with tempfile.TemporaryDirectory() as folder, environ("GPUMEM_CACHE_DIR", folder):
        for cached in (False, True):
            for five in (5, 6):
                text = f"#include <kinds/sum.h>\n#define FIVE {five}\n"
                headers = dict(HEADERS, **{"five.h": text})
                program = Gpu.Program(fixture.context, OPTIONS_SOURCE, headers=headers)
                equal(built_numbers(fixture, program), [five, 8, -1])
                equal(program.is_from_cache(), cached)
        more = dict(headers, unused="")
        assert not Gpu.Program(fixture.context, OPTIONS_SOURCE, headers=more).is_from_cache()


def test_headers_compiled(fixture):
    """Parts of a program include headers by their names."""
    need(fixture, CAPABILITIES.SOURCE)
    need(fixture, CAPABILITIES.LINKING)
    need_numpy()
    parts = [Gpu.Program.compile(fixture.context, OPTIONS_SOURCE, headers=HEADERS),
             Gpu.Program.compile(fixture.context, "int unused (int i) { return i; }", None, {})]
    program = Gpu.Program.new_linked(fixture.context, parts)
    program.get_kernel("k").declare_arguments("p")
    equal(built_numbers(fixture, program), [5, 8, -1])
    with raises(Gpu.Error.BUILD_FAILED, "five.h"):
        Gpu.Program.compile(fixture.context, OPTIONS_SOURCE, headers={"four.h": ""})


HEADERS_CHILD = """
import sys
import gi
gi.require_version("Gpu", "1.0")
from gi.repository import GLib, Gpu
try:
    Gpu.Program(Gpu.Context(sys.argv[1]), '#include "five.h"', headers={"five.h": sys.argv[2]})
except GLib.Error as error:
    print(error.message)
"""


def test_headers_in_folder_with_blank(fixture):
    """If the driver does not accept the folder for temporary files, the error names TMPDIR."""
    need(fixture, CAPABILITIES.SOURCE)
    with tempfile.TemporaryDirectory() as parent:
        folder = os.path.join(parent, "a folder")
        os.mkdir(folder)
        header = f"/* {parent} */ __kernel void k (int i) {{}}"     # in no cache
        result = subprocess.run([sys.executable, "-c", HEADERS_CHILD, fixture.device.id, header],
                                env=dict(os.environ, TMPDIR=folder), stdout=subprocess.PIPE,
                                text=True, timeout=300, check=True)
        equal(os.listdir(folder), [])
    if fixture.device.backend == "opencl":
        for word in ("headers", f"'{folder}/gpumem-", f"TMPDIR to another folder than '{folder}'"):
            assert word in result.stdout, result.stdout
    else:
        equal(result.stdout, "")


COMPILER_CHILD = """
import sys
import gi
gi.require_version("Gpu", "1.0")
from gi.repository import Gpu
try:
    Gpu.Program(Gpu.Context(sys.argv[1]), sys.argv[2])
except Gpu.NotSupportedError as error:
    print(ascii(str(error)))
"""


def test_compiler_not_utf8(fixture):
    """The message is UTF-8, although the name of a compiler in the environment need not be."""
    name = b"/missing/\xff"
    result = subprocess.run([sys.executable, "-c", COMPILER_CHILD, fixture.device.id,
                             "__kernel void compiler_not_utf8 () {}"],
                            env={**os.environb, b"CC": name, b"GPUMEM_NVRTC": name,
                                 b"GPUMEM_CACHE_DIR": b""}, stdout=subprocess.PIPE,
                            text=True, timeout=300, check=True)
    if fixture.device.backend != "opencl":      # its driver compiles
        assert r"/missing/\ufffd" in result.stdout, result.stdout


def test_headers_refused(fixture):
    """Names that would lead out of the folder of the headers, and values of other types."""
    for name in ("", "/five.h", "../five.h", "kinds/../five.h", "kinds//five.h", "./five.h",
                 "kinds/", "..", 'five".h', "five\n.h", "kinds\\five.h", "<five.h>"):
        with raises(Gpu.Error.INVALID_ARGUMENT, "cannot have the name", f"'{name}'"):
            Gpu.Program(fixture.context, OPTIONS_SOURCE, headers={name: ""})
        if fixture.device.capabilities & CAPABILITIES.LINKING:
            with raises(Gpu.Error.INVALID_ARGUMENT, "Program.compile", "cannot have the name"):
                Gpu.Program.compile(fixture.context, OPTIONS_SOURCE, headers={name: ""})
    for headers, error in (({"five.h": 5}, TypeError), ({5: ""}, TypeError), (5, TypeError),
                           ({"five.h": "\0"}, ValueError)):
        with raises(error):
            Gpu.Program(fixture.context, OPTIONS_SOURCE, headers=headers)
    with raises(Gpu.Error.BUILD_FAILED, "five.h"):
        Gpu.Program(fixture.context, OPTIONS_SOURCE, headers={"four.h": ""})
    # A name that is also a folder, on back ends with and without files
    for headers in ({"a": "", "a/b": ""}, {"a/b/c.h": "", "a-b": "", "a/b": ""}):
        name = max(headers, key=len)
        folder = name.rpartition("/")[0]
        with raises(Gpu.Error.INVALID_ARGUMENT, f"header '{folder}' cannot", f"header '{name}'"):
            Gpu.Program(fixture.context, OPTIONS_SOURCE, headers=headers)
    if fixture.device.backend == "host":
        for name in "program.cl", "program.cl/x.h":
            with raises(Gpu.Error.INVALID_ARGUMENT, f"'{name}', because", "needs 'program.cl' for"):
                Gpu.Program(fixture.context, OPTIONS_SOURCE, headers={name: ""})


def test_headers_everywhere(fixture):
    """Each constructor from source takes headers, flags and names. Others name the right one."""
    need(fixture, CAPABILITIES.SOURCE)
    need_numpy()
    context, flags = fixture.context, Gpu.ProgramFlags.NO_CACHE
    keywords = {"flags": flags, "headers": HEADERS}
    for build in (lambda: Gpu.Program(context, OPTIONS_SOURCE, ["-DSIGN=-1"], **keywords),
                  lambda: Gpu.Program.new_from_source(context, OPTIONS_SOURCE, None, **keywords),
                  lambda: Gpu.Program.new_from_source_full(context, OPTIONS_SOURCE, **keywords),
                  lambda: asyncio.run(Gpu.Program.new_from_source_async(
                      context, OPTIONS_SOURCE, **keywords))):
        program = build()
        equal((program.get_property("flags"), program.headers), (flags, HEADERS))
        equal(built_numbers(fixture, program)[0], 5)
    for name, argument in (("new_from_binary", b""), ("new_from_il", b""), ("new_linked", []),
                           ("new_from_file", Gio.File.new_for_path("none"))):
        with raises(TypeError, f"Program.{name}() takes no flags and no headers", "Gpu.Program()"):
            getattr(Gpu.Program, name)(context, argument, **keywords)


def test_headers_leave_no_files(fixture):
    """The folders of headers are removed, also after a failed build."""
    need(fixture, CAPABILITIES.SOURCE)
    with tempfile.TemporaryDirectory() as folder, environ("TMPDIR", folder):
        for source in (OPTIONS_SOURCE, OPTIONS_SOURCE + "broken ("):
            try:
                Gpu.Program.new_from_source_full(fixture.context, source, None,
                                                 Gpu.ProgramFlags.NO_CACHE, None, HEADERS)
            except GLib.Error as error:
                assert "broken" in source, error
        equal([name for name in os.listdir(folder) if name.startswith("gpumem")], [])


# --- native handles -------------------------------------------------------------------------------

CL_PROGRAM_NUM_KERNELS = 0x1167


def test_native_handle(fixture):
    """The handles of a program and of its kernel are those of the driver."""
    need(fixture, CAPABILITIES.SOURCE)
    program = Gpu.Program(fixture.context, "__kernel void k (__global int *p) { p[0] = 5; }")
    assert program.k.native_handle != 0
    if fixture.device.backend == "opencl":
        library, number = ctypes.CDLL("libOpenCL.so.1"), ctypes.c_size_t(0)
        equal(library.clGetProgramInfo(ctypes.c_void_p(program.native_handle),
                                       CL_PROGRAM_NUM_KERNELS, ctypes.c_size_t(8),
                                       ctypes.byref(number), None), 0)
        equal(number.value, 1)
    elif fixture.device.backend == "cuda":
        function, library = ctypes.c_void_p(), ctypes.CDLL("libcuda.so.1")
        with fixture.context.current():
            equal(library.cuModuleGetFunction(ctypes.byref(function),
                                              ctypes.c_void_p(program.native_handle), b"k"), 0)
        assert function.value is not None
    else:
        equal(program.native_handle, 0)


# --- binaries -------------------------------------------------------------------------------------

def test_binaries(fixture):
    """Programs load from every bytes-like object, of any size."""
    need(fixture, CAPABILITIES.SOURCE)
    need(fixture, CAPABILITIES.BINARY)
    need_numpy()
    source = "__kernel void k (__global int *p) { p[0] = 5; p[1] = p[2] = 0; }"
    binary = Gpu.Program(fixture.context, source).get_binary()
    data = binary.get_data()
    for kind in (bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)):
        program = Gpu.Program.new_from_binary(fixture.context, kind(data))
        program.get_kernel("k").declare_arguments("p")
        equal(built_numbers(fixture, program), [5, 0, 0])
    for options in (None, []):
        assert "k" in Gpu.Program.new_from_binary(fixture.context, binary, options).kernels
    with raises(TypeError, "bytes-like"):
        Gpu.Program.new_from_binary(fixture.context, "binary")
    with raises(TypeError, "bytes-like"):
        Gpu.Program.new_from_il(fixture.context, 5)
    if not fixture.device.capabilities & CAPABILITIES.IL:
        with raises(Gpu.Error.NOT_SUPPORTED, "SPIR-V"):
            Gpu.Program.new_from_il(fixture.context, bytes(20), ["-w"])


if __name__ == "__main__":
    sys.exit(main(globals()))

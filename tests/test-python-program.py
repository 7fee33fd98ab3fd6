# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs in Python: options, binaries, on every device that GPUMEM_TEST selects."""

import asyncio
import os
import sys
import tempfile

from python_util import Gpu, equal, main, need, need_numpy, np, raises, spin

CAPABILITIES = Gpu.Capabilities


# --- options --------------------------------------------------------------------------------------

OPTIONS_SOURCE = """
#include "five.h"
__kernel void k (__global int *p) { p[0] = FIVE; p[1] = SUM; p[2] = SIGN; }
"""


def built_numbers(fixture, program):
    out = np.zeros(3, np.int32)
    program.get_kernel("k")(fixture.stream, 1, None, Gpu.Out(out))
    return out.tolist()


def test_options_list(fixture):
    """A list of options gives each option and value to the compiler as it is."""
    need(fixture, CAPABILITIES.SOURCE)
    need_numpy()
    is_opencl = fixture.device.backend == "opencl"
    folder = "$inc" if is_opencl else "$inc 'a' \"b\" \\ #"
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


def test_binaries(fixture):
    """Programs load from every bytes-like object, of any size."""
    need(fixture, CAPABILITIES.SOURCE | CAPABILITIES.BINARY)
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

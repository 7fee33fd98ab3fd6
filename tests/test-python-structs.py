# SPDX-License-Identifier: LGPL-2.1-or-later
"""Structures of kernels for NumPy records, on every device that GPUMEM_TEST selects."""

import ctypes
import re
import sys

from python_util import equal, main, need, need_numpy, np, raises
from gi.repository import Gpu

SUM = """
__kernel void
sum (__global const point *points, __global double *sums)
{
  size_t i = get_global_id (0);
  double total = points[i].id + points[i].x + points[i].part.b + points[i].c.y;
  for (int j = 0; j < 3; j++)
    for (int k = 0; k < 2; k++)
      total += points[i].v[j][k] * (j * 2 + k);
  sums[i] = total;
}
"""


def match(fixture, *arguments, **keywords):
    need_numpy()
    need(fixture, Gpu.Capabilities.SOURCE)
    return Gpu.match_dtype_to_c_struct(fixture.context, *arguments, **keywords)


def test_kernel(fixture):
    """A kernel reads each field of an array of the adapted dtype."""
    need_numpy()
    record = np.dtype([("id", np.uint8), ("x", np.float64), ("v", np.float32, (3, 2)),
                       ("c", np.complex64), ("part", [("a", np.int16), ("b", np.int64)])])
    dtype, declaration = match(fixture, "point", record)
    equal(dtype.names, record.names)
    equal([dtype.fields[name][1] for name in dtype.names], [0, 8, 16, 40, 48])
    equal((dtype.itemsize, dtype["part"].itemsize, dtype["part"].fields["b"][1]), (64, 16, 8))
    points = np.zeros(5, record)
    points["id"], points["x"], points["part"]["b"] = 200, np.arange(5) + 0.5, -7
    points["c"] = 3j
    points["v"] = np.arange(6).reshape(3, 2)
    program = Gpu.Program(fixture.context, declaration + SUM)
    sums = fixture.buffer(40)
    fixture.stream.launch(program.sum, 5, args=(fixture.buffer(points.astype(dtype)), sums))
    equal(sums.to_numpy("float64").tolist(), [200 + i + 0.5 - 7 + 3 + 55 for i in range(5)])


def test_declarations(fixture):
    dtype, declaration = match(fixture, "pair", np.dtype([("n", "?"), ("count", "u8", 3)]))
    equal(declaration, "typedef struct\n{\n  uchar n;\n  ulong count[3];\n} pair;\n")
    equal((dtype.fields["count"][1], dtype.itemsize), (8, 32))
    _, cuda = match(fixture, "pair", dtype, dialect="cuda")
    assert "unsigned char n;\n  unsigned long long count[3];" in cuda, cuda
    half = Gpu.DType(np.dtype([("h", "f2"), ("b", "u1")]))
    adapted, declaration = match(fixture, "half_pair", half, dialect="opencl")
    assert "half h;" in declaration and adapted.itemsize == 4
    equal(Gpu.match_dtype_to_c_struct(fixture.device, "pair", dtype)[0], dtype)
    # Records that already have the layout stay the same, padding included
    padded = np.dtype({"names": ["a"], "formats": ["i4"], "offsets": [0], "itemsize": 4})
    equal(match(fixture, "one", padded)[0], padded)


def test_names(fixture):
    """Each nested record becomes a structure of its own, even if names and fields join to the same
    name."""
    need_numpy()
    record = np.dtype([("a", [("b", [("x", "i4")])]), ("a_b", [("y", "f8")]),
                       ("a_b_2", [("z", "i2")])])
    dtype, declaration = match(fixture, "outer", record)
    names = re.findall(r"^} (\w+);", declaration, re.MULTILINE)
    equal(names, ["outer_a_b", "outer_a", "outer_a_b_2", "outer_a_b_2_2", "outer"])
    equal([dtype.fields[name][1] for name in dtype.names], [0, 8, 16])
    equal((dtype["a"]["b"].names, dtype["a_b"].names, dtype["a_b_2"].names),
          (("x",), ("y",), ("z",)))


def test_errors(fixture):
    for name, record, error, *words in (
            ("two words", [("a", "i4")], ValueError, "'two words'", "structure"),
            ("one", [("a-b", "i4")], ValueError, "'a-b'", "field"),
            ("one", "i4", TypeError, "fields", "int32"),
            ("one", [("a", ">i4")], ValueError, "'a'", "byte order"),
            ("one", [("a", "S3")], ValueError, "'a'", "S3"),
            ("one", [("a", "f2")], ValueError, "'a'", "half"),
            ("one", [("a", object)], ValueError, "'a'", "object"),
            ("one", {"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [0, 2]},
             ValueError, "'b'", "overlaps"),
            ("int", [("a", "i4")], ValueError, "'int'", "a structure", "OpenCL C"),
            ("one", [("a", "i4"), ("kernel", "i4")], ValueError, "'kernel'", "a field"),
            ("one", [("a", [("struct", "i4")])], ValueError, "'struct'", "a field"),
            ("one", [("FLT_MAX", "i4")], ValueError, "'FLT_MAX'", "OpenCL C")):
        with raises(error, *words):
            match(fixture, name, record)
    for field in ("class", "template"):
        if fixture.device.backend == "cuda":
            with raises(ValueError, repr(field), "a field", "CUDA C++"):
                match(fixture, "one", [(field, "i4")])
        else:
            equal(match(fixture, "one", [(field, "i4")])[0].names, (field,))
        with raises(ValueError, repr(field)):
            match(fixture, "one", [(field, "i4")], dialect="cuda")
    for field in ("uint", "float4", "sqrt", "x", "M", "image", "M_TOT", "INT_ID", "image_t"):
        equal(match(fixture, "one", [("a", "i1"), (field, "i4")])[0].names, ("a", field))
    with raises(TypeError, "'int'"):
        Gpu.match_dtype_to_c_struct(5, "one", [("a", "i4")])
    with raises(ValueError, "'fortran'"):
        match(fixture, "one", [("a", "i4")], dialect="fortran")


VALUES = """
typedef struct { int a; float b; } pair;
__kernel void
values (__global int *out, pair p, float4 v, int3 t)
{
  out[0] = p.a;
  out[1] = (int) p.b;
  out[2] = (int) v.w;
  out[3] = t.z;
}
"""


class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_float)]


class Longer(ctypes.Structure):
    _fields_ = [*Pair._fields_, ("c", ctypes.c_int)]


def test_sizes_of_values(fixture):
    """A value of a wrong size raises an error with both sizes: vectors always, and structures if
    the back end knows their size or the program has declared it."""
    need(fixture, Gpu.Capabilities.SOURCE)
    need_numpy()
    kernel = Gpu.Program(fixture.context, VALUES).get_kernel("values")
    out = fixture.buffer(16)
    vector, numbers = np.array([1, 2, 3, 4], "f4"), np.array([5, 6, 7, 8], "i4")

    def launch(pair, vector=vector.tobytes(), numbers=numbers.tobytes()):
        kernel(fixture.stream, 1, None, out, pair, vector, numbers)

    pair = Pair(9, 10.5)
    record = np.array([(9, 10.5)], [("a", "i4"), ("b", "f4")])[0]
    for value in (pair, bytes(pair), record):
        out.fill(0)
        launch(value)
        equal(out.to_numpy("int32").tolist(), [9, 10, 4, 7])
    for size in (4, 12, 15, 17, 32):
        with raises(Gpu.Error.INVALID_ARGUMENT, "(v) of kernel values is a float4 of 16 "
                    f"bytes, not {size} bytes"):
            launch(pair, vector=bytes(size))
        with raises(Gpu.Error.INVALID_ARGUMENT, f"an int3 of 16 bytes, not {size} bytes"):
            launch(pair, numbers=bytes(size))
    if fixture.device.backend == "opencl":      # the driver does not describe structures
        kernel.declare_arguments("pv8vv")
    longer = np.zeros(1, [("a", "i4"), ("b", "f4"), ("c", "i4")])[0]
    for value in (Longer(), bytes(12), longer, bytes(7), bytes(4)):
        size = memoryview(value).nbytes
        with raises(Gpu.Error.INVALID_ARGUMENT, "argument 1 (p) of kernel values is a pair of 8 "
                    f"bytes, not {size} bytes"):
            launch(value)
    launch(pair)
    equal(out.to_numpy("int32").tolist(), [9, 10, 4, 7])


if __name__ == "__main__":
    sys.exit(main(globals()))

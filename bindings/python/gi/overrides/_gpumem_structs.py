# SPDX-License-Identifier: LGPL-2.1-or-later
"""Structures of C for NumPy records, with the layout that the compiler of a device chooses."""

import itertools
import re
import threading

from ..module import get_introspection_module
from ._gpumem_parameters import DIALECTS, get_c_type

Gpu = get_introspection_module("Gpu")

_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_VECTORS = {"complex64": "float2", "complex128": "double2"}
_HALF = "ushort"                                # has the same size and alignment
_COUNT = 256                                    # of known layouts

# Names of fields that a declaration cannot have: keywords of C and OpenCL C, and macros of OpenCL C
_RESERVED = frozenset("""
    auto break case char const continue default do double else enum extern float for goto if inline
    int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while _Alignas _Alignof _Atomic _Bool _Complex _Generic _Imaginary
    _Noreturn _Static_assert _Thread_local asm typeof
    kernel __kernel global __global local __local constant __constant private __private generic
    __generic read_only __read_only write_only __write_only read_write __read_write uniform pipe
    half bool true false vec_step __attribute__ NULL INFINITY NAN MAXFLOAT linux unix
    """.split())
_RESERVED_CUDA = frozenset("""
    alignas alignof and and_eq bitand bitor catch char16_t char32_t char8_t class co_await co_return
    co_yield compl concept const_cast consteval constexpr constinit decltype delete dynamic_cast
    explicit export friend mutable namespace new noexcept not not_eq nullptr operator or or_eq
    protected public reinterpret_cast requires static_assert static_cast template this thread_local
    throw try typeid typename using virtual wchar_t xor xor_eq
    __device__ __global__ __host__ __shared__ __constant__ __managed__ __restrict__
    threadIdx blockIdx blockDim gridDim warpSize
    """.split())
# Constants of OpenCL C, which are macros, and types of images
_CONSTANT = re.compile(
    r"(M_(E|LOG2E|LOG10E|LN2|LN10|PI|PI_2|PI_4|1_PI|2_PI|2_SQRTPI|SQRT2|SQRT1_2)(_[FH])?"
    r"|(FLT|DBL|HALF)_(DIG|MANT_DIG|MAX|MIN|EPSILON|RADIX|MAX_10_EXP|MAX_EXP|MIN_10_EXP|MIN_EXP)"
    r"|HUGE_VALF?|CHAR_BIT|(CHAR|SCHAR|SHRT|INT|LONG)_(MAX|MIN)|(UCHAR|USHRT|UINT|ULONG)_MAX"
    r"|FP_(FAST_)?(FMA|FMAF|FMA_HALF|ILOGB0|ILOGBNAN|CONTRACT)|CLK_\w+|CL_VERSION_\w+|cl_khr_\w+"
    r"|image[123]d(_array|_buffer|_depth|_array_depth|_msaa|_array_msaa|_msaa_depth"
    r"|_array_msaa_depth)?_t|__\w+)\Z")

_lock = threading.Lock()
_layouts = {}


def _check_name(name, what, is_cuda):
    if not isinstance(name, str) or not _NAME.match(name):
        raise ValueError(f"{name!r} is not a valid name of {what} in C")
    is_reserved = name in _RESERVED or _CONSTANT.match(name)
    if is_reserved or is_cuda and name in _RESERVED_CUDA:
        language = "OpenCL C" if is_reserved else "CUDA C++"
        raise ValueError(f"{name!r} is not a valid name of {what}: it has another meaning in "
                         f"{language}")


def _number(name):
    """Yields the name, then name_2, name_3 and so on."""
    yield name
    for number in itertools.count(2):
        yield f"{name}_{number}"


class _Struct:
    """The structure of one record. Nested records are structures of their own, declared first.
    names is the set of the names of all structures so far."""

    def __init__(self, name, dtype, names, is_cuda):
        _check_name(name, "a structure", is_cuda)
        if dtype.names is None or not dtype.names:
            raise TypeError(f"a structure needs a dtype with fields, not {dtype}")
        self.name = next(one for one in _number(name) if one not in names)
        names.add(self.name)
        self.fields = []                        # (name, type of an element, shape)
        self.nested = {}                        # structure by field
        end = 0
        for field in dtype.names:
            _check_name(field, "a field", is_cuda)
            kind, offset = dtype.fields[field][:2]
            if offset < end:
                raise ValueError(f"the field '{field}' at offset {offset} overlaps another field, "
                                 "or lies before it: C has no such structure")
            end = offset + kind.itemsize
            if kind.base.names is not None:
                self.nested[field] = _Struct(f"{self.name}_{field}", kind.base, names, is_cuda)
            self.fields.append((field, kind.base, kind.shape))

    def list_all(self):
        return [one for nested in self.nested.values() for one in nested.list_all()] + [self]

    def declare(self, dialect, half=None):
        """Returns the typedef. A half, which some dialects and devices lack, can have another
        name."""
        lines = ["typedef struct", "{"]
        for field, kind, shape in self.fields:
            counts = "".join(f"[{length}]" for length in shape)
            lines.append(f"  {self._get_type(field, kind, dialect, half)} {field}{counts};")
        return "\n".join(lines + [f"}} {self.name};", ""])

    def _get_type(self, field, kind, dialect, half):
        if field in self.nested:
            return self.nested[field].name
        if not kind.isnative:
            raise ValueError(f"the field '{field}' of dtype {kind} has another byte order than the "
                             "device")
        if half is not None and kind.name == "float16":
            return half
        try:
            return get_c_type(_VECTORS.get(kind.name) or kind, dialect)
        except ValueError as error:
            raise ValueError(f"the field '{field}': {error}") from None

    def adapt(self, numbers):
        """Returns the dtype for the numbers of measure(), which are an iterator."""
        import numpy
        nested = {field: one.adapt(numbers) for field, one in self.nested.items()}
        size = int(next(numbers))
        return numpy.dtype({"names": [field for field, *_ in self.fields],
                            "formats": [(nested.get(field, kind), shape) if shape
                                        else nested.get(field, kind)
                                        for field, kind, shape in self.fields],
                            "offsets": [int(next(numbers)) for _ in self.fields],
                            "itemsize": size})


def _measure(context, structs):
    """Returns the size of each structure, followed by the offsets of its fields."""
    lines = [one.declare("portable", _HALF) for one in structs]
    lines.append("__kernel void\ngpumem_layout (__global ulong *out)\n{")
    count = 0
    for number, one in enumerate(structs):
        lines.append(f"  __global {one.name} *at{number} = (__global {one.name} *) out;")
        lines.append(f"  out[{count}] = sizeof ({one.name});")
        for place, (field, *_) in enumerate(one.fields, count + 1):
            lines.append(f"  out[{place}] = (ulong) &at{number}->{field} - (ulong) out;")
        count += 1 + len(one.fields)
    program = Gpu.Program.new_from_source(context, "\n".join(lines + ["}", ""]), None)
    stream = context.get_default_stream()
    out = Gpu.Buffer.new(context, Gpu.MemoryFlags.NONE, 8 * count)
    stream.launch(program.get_kernel("gpumem_layout"), 1, args=(out,))
    return out.to_numpy("uint64").tolist()


def match_dtype_to_c_struct(context, name, dtype, dialect="portable"):
    """Adapts a NumPy record to the structure that the compiler of a device makes of its fields.

    Returns the dtype, with the offsets and the size of the structure, and its declaration in C, a
    typedef of the name. array.astype(dtype) adds the padding to an array. The declaration is in
    OpenCL C for the dialect "opencl", in CUDA C++ for "cuda", and in the portable dialect by
    default. Nested records become structures, too, named after the record and the field, with
    a number if another one has that name. Complex numbers become vectors of two numbers. Names of
    fields must be identifiers of C without another meaning in OpenCL C, and in CUDA C++ on CUDA.

    The first argument is a context or a device. The call builds a small program, and waits for it,
    unless it did so before for this device and these fields."""
    import numpy
    if dialect not in DIALECTS:
        raise ValueError(f"dialect must be one of {', '.join(DIALECTS)}, not {dialect!r}")
    if isinstance(context, Gpu.Device):
        context = Gpu.Context.new(context, Gpu.ContextFlags.NONE)
    if not isinstance(context, Gpu.Context):
        raise TypeError(f"a context or a device is required, not '{type(context).__name__}'")
    record = dtype.numpy() if isinstance(dtype, Gpu.DType) else numpy.dtype(dtype)
    device = context.get_device()
    is_cuda = dialect == "cuda" or device.get_backend() == "cuda"
    struct = _Struct(name, record, set(), is_cuda)
    structs = struct.list_all()
    declaration = "\n".join(one.declare(dialect) for one in structs)
    key = device.get_id(), tuple(one.declare("portable", _HALF) for one in structs)
    numbers = _layouts.get(key)
    if numbers is None:
        numbers = _measure(context, structs)
        with _lock:
            if len(_layouts) >= _COUNT:
                _layouts.clear()
            _layouts[key] = numbers
    return struct.adapt(iter(numbers)), declaration

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Descriptions of kernel parameters, for programs that generate kernels. They are parsed from text
or created one by one, and yield declarations in each language and the values of a launch."""

import functools
import math
import operator
import re
import reprlib
import struct

from ..module import get_introspection_module
from ._gpumem_arrays import to_range

Gpu = get_introspection_module("Gpu")

DIALECTS = ("portable", "opencl", "cuda")

# OpenCL C name: (CUDA C++ name, struct format, NumPy name). long has 64 bits in both languages.
_SCALARS = {"char": ("signed char", "b", "int8"), "uchar": ("unsigned char", "B", "uint8"),
            "short": ("short", "h", "int16"), "ushort": ("unsigned short", "H", "uint16"),
            "int": ("int", "i", "int32"), "uint": ("unsigned int", "I", "uint32"),
            "long": ("long long", "q", "int64"), "ulong": ("unsigned long long", "Q", "uint64"),
            "half": ("__half", "e", "float16"), "float": ("float", "f", "float32"),
            "double": ("double", "d", "float64")}
_OTHER_NAMES = {"__half": "half", "size_t": "ulong", "ptrdiff_t": "long", "uintptr_t": "ulong",
                "intptr_t": "long", "int8_t": "char", "uint8_t": "uchar", "int16_t": "short",
                "uint16_t": "ushort", "int32_t": "int", "uint32_t": "uint", "int64_t": "long",
                "uint64_t": "ulong", "bool": "uchar"}
_FROM_NUMPY = {numpy: name for name, (_, _, numpy) in _SCALARS.items()}
_FROM_NUMPY["bool"] = "uchar"

_GLOBAL = {"__global", "global"}
_OTHER_SPACES = {"__local", "local", "__constant", "constant"}
_ACCESS = {"__read_only", "read_only", "__write_only", "write_only", "__read_write", "read_write"}
_IGNORED = {"restrict", "__restrict", "__restrict__", "volatile", "register"}
_NO_MEMORY = re.compile(r"(image\w*|sampler|pipe|event|queue)_t$")
_ONLY_OPENCL = re.compile(r"\b(__local|local|__constant|constant|__global|global|image\w*_t|"
                          r"sampler_t)\b")
_VECTOR = re.compile(r"(u?(?:char|short|int|long)|half|float|double)(2|3|4|8|16)$")
_NAME = re.compile(r"[A-Za-z_]\w*$")
_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|\d+|\S)")


# --- types ---------------------------------------------------------------------------------------

def _join_words(words, text):
    """Returns the OpenCL C name of a type of one or more words, such as unsigned long long."""
    if words[0] == "struct" and len(words) == 2:
        return " ".join(words)
    signs = [word for word in words if word in ("signed", "unsigned")]
    kinds = [word for word in words if word not in ("signed", "unsigned")]
    if not signs and len(kinds) == 1:
        return _OTHER_NAMES.get(kinds[0], kinds[0])
    longs = kinds.count("long")
    base = [kind for kind in kinds if kind != "long"]
    if longs > 0 and base in ([], ["int"]) and longs < 3:
        name = "long"
    elif longs == 0 and base in ([], ["int"], ["char"], ["short"], ["short", "int"]):
        name = base[0] if base else "int"
    else:
        raise ValueError(f"'{' '.join(words)}' is not a type: {text!r}")
    if len(signs) > 1:
        raise ValueError(f"'{' '.join(words)}' is not a type: {text!r}")
    return "u" + name if signs == ["unsigned"] else name


def _to_type_name(dtype):
    """Returns the OpenCL C name of a type, given a C name or a NumPy dtype."""
    if isinstance(dtype, str):
        words = dtype.split()
        if words and all(_NAME.match(word) for word in words):
            name = _join_words(words, dtype)
            return _FROM_NUMPY.get(name, name)
        raise ValueError(f"{dtype!r} is not a type")
    import numpy
    dtype = numpy.dtype(dtype)
    if dtype.name not in _FROM_NUMPY:
        raise ValueError(f"kernels have no type for {dtype}: pass the name of a type of the "
                         "program")
    return _FROM_NUMPY[dtype.name]


@functools.lru_cache(maxsize=None)
def is_scalar_type(type_name):
    """Returns whether the name of a type, as a driver reports it, is a number and not a vector, a
    structure, a pointer or a type of the program. None, of an unknown type, is not a number."""
    words = [word for word in (type_name or "").split() if word not in _IGNORED | {"const"}]
    if not words or not all(map(_NAME.match, words)):
        return False
    try:
        return words == ["_Bool"] or _join_words(words, type_name) in _SCALARS
    except ValueError:
        return False


def _spell(type_name, dialect):
    """Returns the name of a type in a dialect."""
    if dialect not in DIALECTS:
        raise ValueError(f"dialect must be one of {', '.join(DIALECTS)}, not {dialect!r}")
    vector = _VECTOR.match(type_name)
    base, count = vector.groups() if vector else (type_name, None)
    if base == "half" and dialect == "portable":
        raise ValueError("the portable dialect has no half")
    if dialect != "cuda" or base not in _SCALARS:
        return type_name
    if count is None:
        return _SCALARS[base][0]
    if count in ("8", "16") or base == "half":
        raise ValueError(f"CUDA C++ has no {type_name}")
    if count == "3":
        raise ValueError(f"{type_name} has another size in CUDA C++ than in OpenCL C")
    return base.replace("long", "longlong") + count


def get_c_type(dtype, dialect):
    """Returns the name in C of a NumPy dtype, or of the name of a type in OpenCL C."""
    return _spell(_to_type_name(dtype), dialect)


# --- arguments -----------------------------------------------------------------------------------

class Argument:
    """A kernel parameter: a Gpu.VectorArgument, a Gpu.ScalarArgument or a Gpu.OtherArgument."""

    def __init__(self, name):
        if not isinstance(name, str) or not _NAME.match(name):
            raise ValueError(f"{name!r} is not a valid name of an argument")
        self.name = name

    def declare(self, dialect="portable"):
        """Returns the declaration in a dialect: "portable", "opencl" or "cuda"."""
        raise NotImplementedError

    def get_prologue(self, dialect="portable"):
        """Returns the code with which the kernel body must begin, or ""."""
        return ""

    def _get_values(self, value):
        """Returns the launch arguments for a value."""
        return [value]

    def __eq__(self, other):
        return vars(self) == vars(other) if type(self) is type(other) else NotImplemented

    def __hash__(self):
        return hash((type(self), *sorted(vars(self).items())))


class _TypedArgument(Argument):
    def __init__(self, dtype, name):
        super().__init__(name)
        self.type_name = _to_type_name(dtype)

    @property
    def dtype(self):
        """The NumPy dtype; None for a type that the program defines."""
        import numpy
        vector = _VECTOR.match(self.type_name)
        base, count = vector.groups() if vector else (self.type_name, None)
        if base not in _SCALARS:
            return None
        base = numpy.dtype(_SCALARS[base][2])
        count = 4 if count == "3" else int(count or 0)
        return numpy.dtype((base, count)) if count else base


class VectorArgument(_TypedArgument):
    """Gpu.VectorArgument(dtype, name): a pointer to device memory.

    The type is a NumPy dtype or the name of a type in C: "float" has 32 bits, and an unknown name
    is a structure that the program defines. OpenCL cannot pass pointers into the middle of memory.
    With with_offset=True the kernel therefore takes two parameters, the memory name__base and an
    offset in bytes name__offset, and get_prologue() declares the pointer name from them."""

    def __init__(self, dtype, name, with_offset=False, const=False):
        super().__init__(dtype, name)
        self.with_offset = bool(with_offset)
        self.const = bool(const)

    def _get_pointer(self, type_name, dialect):
        const = "const " if self.const else ""
        return f"{'' if dialect == 'cuda' else '__global '}{const}{type_name} *"

    def declare(self, dialect="portable"):
        """Returns the declaration of the parameter in a dialect: "portable", "opencl" or "cuda"."""
        pointer = self._get_pointer(_spell(self.type_name, dialect), dialect)
        if self.with_offset:
            return f"{pointer}{self.name}__base, {_spell('long', dialect)} {self.name}__offset"
        return pointer + self.name

    def get_prologue(self, dialect="portable"):
        """Returns the lines with which the body of the kernel must begin."""
        if not self.with_offset:
            return ""
        pointer = self._get_pointer(_spell(self.type_name, dialect), dialect)
        return (f"{pointer}{self.name} = ({pointer}) (({self._get_pointer('char', dialect)}) "
                f"{self.name}__base + {self.name}__offset);")

    def _get_values(self, value):
        if not self.with_offset:
            return [value]
        memory, offset = value if isinstance(value, tuple) else (value, 0)
        if memory is None:
            return [None, offset]
        memory, offset, _ = to_range(memory, offset)
        if memory is not None and not 0 <= offset <= memory.get_size():
            raise ValueError(f"argument {self.name}: offset {offset} is outside of the "
                             f"{memory.get_size()} bytes of the memory")
        return [memory, offset]

    def __repr__(self):
        with_offset = ", with_offset=True" if self.with_offset else ""
        const = ", const=True" if self.const else ""
        return f"Gpu.VectorArgument({self.type_name!r}, {self.name!r}{with_offset}{const})"


class ScalarArgument(_TypedArgument):
    """Gpu.ScalarArgument(dtype, name): a number or a structure. The type is given as for
    Gpu.VectorArgument."""

    def declare(self, dialect="portable"):
        """Returns the declaration of the parameter in a dialect: "portable", "opencl" or "cuda"."""
        return f"{_spell(self.type_name, dialect)} {self.name}"

    def _get_values(self, value):
        """Returns the bytes of a number. Raises OverflowError for a number outside the range of the
        type, and TypeError for a value that the type cannot be."""
        vector = _VECTOR.match(self.type_name)
        base, count = vector.groups() if vector else (self.type_name, None)
        if base not in _SCALARS or isinstance(value, (bytes, bytearray, memoryview)):
            return [value]
        numbers = self._to_list(value) if count else [self._to_number(value)]
        if len(numbers) != int(count or 1):
            raise ValueError(f"{self.name} is a {self.type_name} and takes {int(count or 1)} "
                             f"numbers, not {len(numbers)}")
        kind = _SCALARS[base][1]
        convert = float if kind in "efd" else _to_int
        try:
            data = struct.pack(f"={len(numbers)}{kind}", *map(convert, numbers))
        except TypeError:
            self._refuse(value)
        except (OverflowError, struct.error):
            raise OverflowError(f"{self.name} is a {self.type_name}: {value!r} is outside the "
                                "range of the type") from None
        return [data + bytes(struct.calcsize(kind)) if count == "3" else data]

    def _refuse(self, value):
        raise TypeError(f"argument {self.name} of type {self.type_name} cannot be "
                        f"{reprlib.repr(value)}, a {type(value).__name__}") from None

    def _to_list(self, value):
        try:
            return list(value)
        except TypeError:
            self._refuse(value)

    def _to_number(self, value):
        """Returns the only element of an array. Any other value remains unchanged."""
        shape = getattr(value, "shape", None)
        if not isinstance(shape, tuple) or not hasattr(value, "reshape"):
            return value
        if math.prod(shape) != 1:
            raise TypeError(f"argument {self.name} of type {self.type_name} cannot be an array of "
                            f"shape {shape}")
        return value.reshape(())[()]

    def __repr__(self):
        return f"Gpu.ScalarArgument({self.type_name!r}, {self.name!r})"


def _to_int(number):
    # operator.index() rejects NumPy booleans.
    return int(number) if type(number).__name__ in ("bool", "bool_") else operator.index(number)


class OtherArgument(Argument):
    """Gpu.OtherArgument(declaration, name): a parameter of any other kind, such as an image, a
    sampler or local memory, which CUDA C++ does not have as parameters. The declaration is used
    unchanged."""

    def __init__(self, declaration, name):
        super().__init__(name)
        self.declaration = declaration

    def declare(self, dialect="portable"):
        """Returns the declaration of the parameter in a dialect: "portable", "opencl" or "cuda"."""
        _spell("int", dialect)
        if dialect == "cuda" and _ONLY_OPENCL.search(self.declaration):
            raise ValueError(f"CUDA C++ has no parameter '{self.declaration}'")
        return self.declaration

    def __repr__(self):
        return f"Gpu.OtherArgument({self.declaration!r}, {self.name!r})"


# --- lists of arguments --------------------------------------------------------------------------

def _parse_argument(text, with_offset):
    tokens = _TOKEN.findall(text)
    if tokens[-2:] == ["[", "]"]:
        tokens = [*tokens[:-3], "*", *tokens[-3:-2]]
    words = [token for token in tokens[:-1] if token != "*"]
    stars = len(tokens) - 1 - len(words)
    if not words or not all(map(_NAME.match, [*words, tokens[-1]])) or stars > 1:
        raise ValueError(f"{text.strip()!r} is not a kernel argument: write a type, at most one * "
                         "and a name")
    name = tokens[-1]
    type_words = [word for word in words
                  if word not in _GLOBAL | _OTHER_SPACES | _ACCESS | _IGNORED | {"const"}]
    if not type_words or name in _SCALARS or name in _OTHER_NAMES:
        raise ValueError(f"{text.strip()!r} lacks a type or a name")
    if _ACCESS.intersection(words) or _NO_MEMORY.match(type_words[0]) \
            or _OTHER_SPACES.intersection(words):
        return OtherArgument(" ".join(words) + (" *" if stars else " ") + name, name)
    type_name = _join_words(type_words, text)
    if stars:
        return VectorArgument(type_name, name, with_offset, "const" in words)
    if _GLOBAL.intersection(words) or type_name == "void":
        raise ValueError(f"{text.strip()!r} is not a kernel argument: it lacks a *")
    return ScalarArgument(type_name, name)


def parse_arguments(arguments, with_offset=False):
    """Parses text such as "__global const float *x, int n", in OpenCL C or CUDA C++, to a list of
    descriptions. A pointer without an address space points to device memory. In a list, texts are
    parsed and descriptions are kept. Raises ValueError for text that is not a kernel argument."""
    if isinstance(arguments, str):
        if arguments.strip() in ("", "void"):
            return []
        arguments = arguments.split(",")
    parsed = []
    for argument in arguments:
        if not isinstance(argument, Argument):
            argument = _parse_argument(argument, with_offset)
        parsed.append(argument)
    names = [argument.name for argument in parsed]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two arguments have the name '{name}'")
    return parsed


def declare_arguments(arguments, dialect="portable"):
    """Returns the text between the parentheses of a kernel declaration."""
    return ", ".join(argument.declare(dialect) for argument in parse_arguments(arguments))


def bind_arguments(arguments, values):
    """Returns the launch arguments for a list of descriptions and one value for each. Numbers
    become bytes of their type. For an argument with_offset the value is memory, (memory, offset) or
    an array over memory, and becomes two launch arguments."""
    arguments, values = parse_arguments(arguments), list(values)
    if len(arguments) != len(values):
        names = ", ".join(argument.name for argument in arguments)
        raise TypeError(f"{len(values)} values for {len(arguments)} arguments: {names}")
    bound = []
    for argument, value in zip(arguments, values):
        bound += argument._get_values(value)
    return bound

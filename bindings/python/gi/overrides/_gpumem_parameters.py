# SPDX-License-Identifier: LGPL-2.1-or-later
"""Descriptions of what kernels take, for programs that write kernels: from text or one by one, to
declarations in each language, and to the values of a launch."""

import operator
import re
import struct

from ..module import get_introspection_module
from ._gpumem_arrays import to_range

Gpu = get_introspection_module("Gpu")

DIALECTS = ("portable", "opencl", "cuda")

# By the name in OpenCL C: in CUDA C++, in struct, in NumPy. A long has 64 bits in both languages.
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
    """The OpenCL name of a type of several words, as unsigned long long; of one, as it is."""
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
        raise ValueError(f"'{' '.join(words)}' is no type: {text!r}")
    if len(signs) > 1:
        raise ValueError(f"'{' '.join(words)}' is no type: {text!r}")
    return "u" + name if signs == ["unsigned"] else name


def _to_type_name(dtype):
    """The name in OpenCL C of a type: of C by its name, or of NumPy."""
    if isinstance(dtype, str):
        words = dtype.split()
        if words and all(_NAME.match(word) for word in words):
            name = _join_words(words, dtype)
            return _FROM_NUMPY.get(name, name)
        raise ValueError(f"{dtype!r} is no type")
    import numpy
    dtype = numpy.dtype(dtype)
    if dtype.name not in _FROM_NUMPY:
        raise ValueError(f"kernels have no type for {dtype}: name one of the program's own")
    return _FROM_NUMPY[dtype.name]


def _spell(type_name, dialect):
    """The type in a language."""
    if dialect not in DIALECTS:
        raise ValueError(f"a dialect is one of {', '.join(DIALECTS)}, not {dialect!r}")
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


# --- arguments -----------------------------------------------------------------------------------

class Argument:
    """What a kernel takes: a Gpu.VectorArgument, a Gpu.ScalarArgument or a Gpu.OtherArgument."""

    def __init__(self, name):
        if not isinstance(name, str) or not _NAME.match(name):
            raise ValueError(f"{name!r} is no name of an argument")
        self.name = name

    def declare(self, dialect="portable"):
        """The parameter, or parameters, in the portable dialect, "opencl" or "cuda"."""
        raise NotImplementedError

    def get_prologue(self, dialect="portable"):
        """What the body of the kernel has to begin with."""
        return ""

    def _get_values(self, value):
        """What a launch takes for it."""
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
        """Of NumPy; None for a type of the program's own."""
        import numpy
        vector = _VECTOR.match(self.type_name)
        base, count = vector.groups() if vector else (self.type_name, None)
        if base not in _SCALARS:
            return None
        base = numpy.dtype(_SCALARS[base][2])
        count = 4 if count == "3" else int(count or 0)
        return numpy.dtype((base, count)) if count else base


class VectorArgument(_TypedArgument):
    """Gpu.VectorArgument(dtype, name): a pointer to memory of the device.

    The type is one of NumPy, or text, which is the name in C: "float" has 32 bits, and a name that
    C does not have is a structure of the program's own. With with_offset the kernel takes memory
    and a number of bytes from where on it is meant, name__base and name__offset, of which
    get_prologue() makes name: OpenCL has no pointers into the middle of memory."""

    def __init__(self, dtype, name, with_offset=False, const=False):
        super().__init__(dtype, name)
        self.with_offset = bool(with_offset)
        self.const = bool(const)

    def _get_pointer(self, type_name, dialect):
        const = "const " if self.const else ""
        return f"{'' if dialect == 'cuda' else '__global '}{const}{type_name} *"

    def declare(self, dialect="portable"):
        pointer = self._get_pointer(_spell(self.type_name, dialect), dialect)
        if self.with_offset:
            return f"{pointer}{self.name}__base, {_spell('long', dialect)} {self.name}__offset"
        return pointer + self.name

    def get_prologue(self, dialect="portable"):
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
        return [memory, offset]

    def __repr__(self):
        with_offset = ", with_offset=True" if self.with_offset else ""
        const = ", const=True" if self.const else ""
        return f"Gpu.VectorArgument({self.type_name!r}, {self.name!r}{with_offset}{const})"


class ScalarArgument(_TypedArgument):
    """Gpu.ScalarArgument(dtype, name): a number, or a structure. See Gpu.VectorArgument."""

    def declare(self, dialect="portable"):
        return f"{_spell(self.type_name, dialect)} {self.name}"

    def _get_values(self, value):
        """Its bytes: a number that the type has no room for is an OverflowError."""
        vector = _VECTOR.match(self.type_name)
        base, count = vector.groups() if vector else (self.type_name, None)
        if base not in _SCALARS or isinstance(value, (bytes, bytearray, memoryview)):
            return [value]
        numbers = [value] if count is None else list(value)
        if len(numbers) != int(count or 1):
            raise ValueError(f"{self.name} is a {self.type_name}, not {len(numbers)} numbers")
        kind = _SCALARS[base][1]
        convert = float if kind in "efd" else _to_int
        try:
            data = struct.pack(f"={len(numbers)}{kind}", *map(convert, numbers))
        except (OverflowError, struct.error):
            raise OverflowError(f"{self.name} is a {self.type_name}, which {value!r} does not fit "
                                "into") from None
        return [data + bytes(struct.calcsize(kind)) if count == "3" else data]

    def __repr__(self):
        return f"Gpu.ScalarArgument({self.type_name!r}, {self.name!r})"


def _to_int(number):
    # Booleans of NumPy are no integers.
    return int(number) if type(number).__name__ == "bool_" else operator.index(number)


class OtherArgument(Argument):
    """Gpu.OtherArgument(declaration, name): anything else, as images, samplers and local memory.
    CUDA C++ has none of these as parameters, and a declaration of its own for the rest."""

    def __init__(self, declaration, name):
        super().__init__(name)
        self.declaration = declaration

    def declare(self, dialect="portable"):
        _spell("int", dialect)
        if dialect == "cuda" and _ONLY_OPENCL.search(self.declaration):
            raise ValueError(f"CUDA C++ has no parameter '{self.declaration}'")
        return self.declaration

    def __repr__(self):
        return f"Gpu.OtherArgument({self.declaration!r}, {self.name!r})"


# --- lists of them -------------------------------------------------------------------------------

def _parse_argument(text, with_offset):
    tokens = _TOKEN.findall(text)
    if tokens[-2:] == ["[", "]"]:
        tokens = [*tokens[:-3], "*", *tokens[-3:-2]]
    words = [token for token in tokens[:-1] if token != "*"]
    stars = len(tokens) - 1 - len(words)
    if not words or not all(map(_NAME.match, [*words, tokens[-1]])) or stars > 1:
        raise ValueError(f"{text.strip()!r} is no argument of a kernel: a type, at most one * and "
                         "a name are")
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
        raise ValueError(f"{text.strip()!r} is no argument of a kernel: it lacks a *")
    return ScalarArgument(type_name, name)


def parse_arguments(arguments, with_offset=False):
    """A list of descriptions of text as "__global const float *x, int n", in OpenCL C or CUDA C++;
    pointers without an address space are to memory of the device. Of a list, the texts in it are
    parsed, and descriptions stay what they are. A ValueError names what is none."""
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
    """What stands between the brackets of a kernel."""
    return ", ".join(argument.declare(dialect) for argument in parse_arguments(arguments))


def bind_arguments(arguments, values):
    """The values that a launch takes for a list of descriptions and as many values: numbers as
    bytes of their type, and for memory with an offset both of these. A value of the latter is
    memory, (memory, offset), or an array over memory."""
    arguments, values = parse_arguments(arguments), list(values)
    if len(arguments) != len(values):
        names = ", ".join(argument.name for argument in arguments)
        raise TypeError(f"{len(values)} values for {len(arguments)} arguments: {names}")
    bound = []
    for argument, value in zip(arguments, values):
        bound += argument._get_values(value)
    return bound

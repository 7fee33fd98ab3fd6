# SPDX-License-Identifier: LGPL-2.1-or-later
"""The operators of a Gpu.Array: comparisons, which NumPy makes on the host, and arithmetic, which
raises an error, as attributes do that not all arrays have."""

import numbers
from typing import Any

from ..module import get_introspection_module
from ._gpumem_array_convert import to_numbers

Gpu = get_introspection_module("Gpu")

# The names of each operator: in Python, and of the functions of NumPy
_SIGNS = {"+": ("add", "add"), "-": ("sub", "subtract"), "*": ("mul", "multiply"),
          "/": ("truediv", "divide", "true_divide"), "//": ("floordiv", "floor_divide"),
          "%": ("mod", "remainder"), "**": ("pow", "power"), "@": ("matmul", "matmul"),
          "<<": ("lshift", "left_shift"), ">>": ("rshift", "right_shift"),
          "&": ("and", "bitwise_and"), "|": ("or", "bitwise_or"), "^": ("xor", "bitwise_xor")}

# Names for messages: of operators with two operands and with one, and of functions of NumPy
_BINARY = {"divmod": "divmod()",
           **{name: f"the operator {sign}" for sign, (name, *_) in _SIGNS.items()}}
_UNARY = {"neg": "the operator -", "pos": "the operator +", "invert": "the operator ~",
          "abs": "abs()", "round": "round()"}
_UFUNCS = {name: f"the operator {sign}" for sign, (_, *names) in _SIGNS.items() for name in names}
_COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}

_ADVICE = ("convert it with to_numpy(), pass it to from_dlpack() of CuPy or PyTorch, or launch a "
           "kernel")

# Advice for attributes that only arrays of other libraries have. The names are also those of NumPy,
# because the advice must not depend on whether the program has imported NumPy.
_ATTRIBUTES = {
    **dict.fromkeys(("all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "clip",
                     "compress", "conj", "conjugate", "cumprod", "cumsum", "diagonal", "dot",
                     "imag", "max", "mean", "min", "nonzero", "partition", "prod", "ptp", "real",
                     "repeat", "round", "searchsorted", "sort", "std", "sum", "trace", "var"),
                    _ADVICE),
    **dict.fromkeys(("byteswap", "cpu", "ctypes", "dump", "dumps", "get", "getfield", "itemset",
                     "newbyteorder", "numpy", "setfield", "setflags"),
                    "use to_numpy()"),
    **dict.fromkeys(("data", "gpudata"), "use memory and offset"),
    **dict.fromkeys(("synchronize", "wait"), "use memory.wait()"),
    **dict.fromkeys(("data_ptr", "ptr"), "use device_address"),
    "base": "use memory", "clone": "use copy()", "contiguous": "use copy(order='C')",
    "device": "use context.device", "element_size": "use itemsize", "flat": "use ravel()",
    "mT": "use swapaxes(-2, -1)", "numel": "use size", "permute": "use transpose()",
    "set": "use write()",
    "resize": "assign to a new array, new[:n] = array",
    "to": "use to_numpy(), copy_to() or astype()", "to_device": "use copy_to()",
    "tofile": "use to_file()", "tostring": "use tobytes()"}


def _refuse(what):
    raise TypeError(f"Gpu.Array has no arithmetic, such as {what}: {_ADVICE}")


def _refusing(name, is_reflected):
    """Returns the method of an operator, for a message that is clearer than that of Python, or of
    NumPy, which tries to concatenate. Python asks the right operand first if its class may know
    arrays of devices, as those of CuPy."""
    def method(self, other, *modulus):
        if not is_reflected and hasattr(other, f"__r{name}__") \
                and not isinstance(other, (Gpu.Array, numbers.Number)) \
                and type(other).__module__ != "numpy":
            return NotImplemented
        _refuse(_BINARY[name])
    method.__name__ = f"__{'r' * is_reflected}{name}__"
    method.__qualname__ = f"Array.{method.__name__}"
    return method


def _refusing_unary(name):
    """Returns the method of an operator with one operand. round() has a number of digits, too."""
    def method(self, *digits):
        _refuse(_UNARY[name])
    method.__name__ = f"__{name}__"
    method.__qualname__ = f"Array.{method.__name__}"
    return method


# Functions that compute attributes which not all arrays have, by name
_computed = {}


def compute_once(owner, name):
    """Lets __getattr__() compute a property that may raise AttributeError. If a class had such a
    property, Python would drop its error and call __getattr__(), which would have to compute the
    property again to get the error."""
    _computed[name] = vars(owner)[name].fget
    delattr(owner, name)


def _get_missing(self, name):
    """Computes an attribute that not all arrays have. Raises an error with advice for attributes
    that only arrays of other libraries have."""
    if name in _computed:
        return _computed[name](self)
    if name in _ATTRIBUTES:
        raise AttributeError(f"'Array' object has no attribute '{name}': {_ATTRIBUTES[name]}")
    # The error of Python, or that of a getter without side effects
    return object.__getattribute__(self, name)


_get_missing.__name__, _get_missing.__qualname__ = "__getattr__", "Array.__getattr__"


def _to_comparable(value):
    return to_numbers(value) if isinstance(value, Gpu.Array) else value


def _array_ufunc(self, ufunc, method, *inputs, **options):
    """Refuses a function of NumPy. If this were None, NumPy 1.24 would leak its arguments."""
    name = ufunc.__name__
    if method == "__call__" and name in _COMPARISONS and "out" not in options:
        values = {key: _to_comparable(value) for key, value in options.items()}     # such as where
        return ufunc(*map(_to_comparable, inputs), **values)
    if method != "__call__":
        _refuse(f"numpy.{name}.{method}()")
    _refuse(_UFUNCS.get(name, f"numpy.{name}()"))


class ArrayOperators:
    """The operators of Gpu.Array."""

    def __eq__(self, other) -> Any:
        """Compares the elements on the host, as in NumPy. Returns an array of NumPy."""
        return to_numbers(self) == _to_comparable(other)

    def __ne__(self, other) -> Any:
        return to_numbers(self) != _to_comparable(other)

    # PyGObject would compare addresses

    def __lt__(self, other) -> Any:
        return to_numbers(self) < _to_comparable(other)

    def __le__(self, other) -> Any:
        return to_numbers(self) <= _to_comparable(other)

    def __gt__(self, other) -> Any:
        return to_numbers(self) > _to_comparable(other)

    def __ge__(self, other) -> Any:
        return to_numbers(self) >= _to_comparable(other)

    __hash__ = None                             # as in NumPy and PyOpenCL

    def __contains__(self, value):
        return _to_comparable(value) in to_numbers(self)


# Not in the class, so that type checkers report these operators and attributes
for _name in _BINARY:
    for _method in _refusing(_name, False), _refusing(_name, True):
        setattr(ArrayOperators, _method.__name__, _method)
for _name in _UNARY:
    setattr(ArrayOperators, f"__{_name}__", _refusing_unary(_name))
ArrayOperators.__array_ufunc__ = _array_ufunc
ArrayOperators.__getattr__ = _get_missing

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The operators of a Gpu.Array: comparisons, which NumPy makes on the host, and arithmetic, which
raises an error, as attributes do that only arrays of other libraries have."""

import numbers
from typing import Any

from ..module import get_introspection_module
from ._gpumem import loaded_numpy
from ._gpumem_array_convert import to_numbers

Gpu = get_introspection_module("Gpu")

_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%",
              "pow": "**", "matmul": "@", "lshift": "<<", "rshift": ">>", "and": "&", "or": "|",
              "xor": "^"}
_UNARY = {"neg": "the operator -", "pos": "the operator +", "invert": "the operator ~",
          "abs": "abs()"}

# Functions of NumPy, by name
_UFUNCS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/",
           "floor_divide": "//", "remainder": "%", "power": "**", "matmul": "@",
           "left_shift": "<<", "right_shift": ">>", "bitwise_and": "&", "bitwise_or": "|",
           "bitwise_xor": "^"}
_COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}


# What to use for attributes of arrays of other libraries
_ATTRIBUTES = {"get": "to_numpy()", "numpy": "to_numpy()", "cpu": "to_numpy()", "set": "write()",
               "data": "memory and offset", "gpudata": "memory and offset",
               "ptr": "device_address", "tofile": "to_file()"}
_ADVICE = ("convert it with to_numpy(), pass it to from_dlpack() of CuPy or PyTorch, or launch a "
           "kernel")


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
        _refuse(f"the operator {_OPERATORS[name]}")
    method.__name__ = f"__{'r' * is_reflected}{name}__"
    method.__qualname__ = f"Array.{method.__name__}"
    return method


def _refusing_unary(name):
    """Returns the method of an operator with one operand."""
    def method(self):
        _refuse(_UNARY[name])
    method.__name__ = f"__{name}__"
    method.__qualname__ = f"Array.{method.__name__}"
    return method


def _get_missing(self, name):
    """The method __getattr__(), for attributes that do not exist."""
    numpy = loaded_numpy()
    if name in _ATTRIBUTES:
        advice = f"use {_ATTRIBUTES[name]}"
    elif not name.startswith("_") and numpy is not None and hasattr(numpy.ndarray, name):
        advice = _ADVICE
    else:                                       # or a property that raised an AttributeError
        return object.__getattribute__(self, name)
    raise AttributeError(f"'Array' object has no attribute '{name}': {advice}")


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
    _refuse(f"the operator {_UFUNCS[name]}" if name in _UFUNCS else f"numpy.{name}()")


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
for _name in _OPERATORS:
    for _method in _refusing(_name, False), _refusing(_name, True):
        setattr(ArrayOperators, _method.__name__, _method)
for _name in _UNARY:
    setattr(ArrayOperators, f"__{_name}__", _refusing_unary(_name))
ArrayOperators.__array_ufunc__ = _array_ufunc
ArrayOperators.__getattr__ = _get_missing

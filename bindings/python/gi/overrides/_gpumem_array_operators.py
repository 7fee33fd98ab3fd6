# SPDX-License-Identifier: LGPL-2.1-or-later
"""The operators of a Gpu.Array: comparisons, which NumPy makes on the host, and arithmetic, which
raises an error."""

import numbers
from typing import Any

from ..module import get_introspection_module
from ._gpumem_array_convert import to_numbers

Gpu = get_introspection_module("Gpu")

_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%",
              "pow": "**", "matmul": "@"}


def _refusing(name, is_reflected):
    """Returns the method of an operator, for a message that is clearer than that of Python, or of
    NumPy, which tries to concatenate. Python asks the right operand first if its class may know
    arrays of devices, as those of CuPy."""
    def method(self, other, *modulus):
        if not is_reflected and hasattr(other, f"__r{name}__") \
                and not isinstance(other, (Gpu.Array, numbers.Number)) \
                and type(other).__module__ != "numpy":
            return NotImplemented
        raise TypeError(f"Gpu.Array has no arithmetic, such as the operator {_OPERATORS[name]}: "
                        "convert it with to_numpy(), or launch a kernel")
    method.__name__ = f"__{'r' * is_reflected}{name}__"
    method.__qualname__ = f"Array.{method.__name__}"
    return method


def _to_comparable(value):
    return to_numbers(value) if isinstance(value, Gpu.Array) else value


class ArrayOperators:
    """The operators of Gpu.Array."""

    def __eq__(self, other) -> Any:
        """Compares the elements on the host, as in NumPy. Returns an array of NumPy."""
        return to_numbers(self) == _to_comparable(other)

    def __ne__(self, other) -> Any:
        return to_numbers(self) != _to_comparable(other)

    __array_ufunc__ = None                      # no arithmetic, also with an operand of NumPy

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


# Not in the class, so that type checkers report these operators
for _name in _OPERATORS:
    for _method in _refusing(_name, False), _refusing(_name, True):
        setattr(ArrayOperators, _method.__name__, _method)

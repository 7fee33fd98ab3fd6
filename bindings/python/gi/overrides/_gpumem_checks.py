# SPDX-License-Identifier: LGPL-2.1-or-later
"""Strict checks of the arguments of all functions of the library. PyGObject truncates a fraction
that is passed for an integer, takes True for 1, and ends a string at a null character; here each of
these raises an error."""

import operator

from gi._gi import Direction, FunctionInfo, TypeTag

from ..module import get_introspection_module

Gpu = get_introspection_module("Gpu")

_INTEGERS = {TypeTag.INT8, TypeTag.UINT8, TypeTag.INT16, TypeTag.UINT16, TypeTag.INT32,
             TypeTag.UINT32, TypeTag.INT64, TypeTag.UINT64}
_STRINGS = {TypeTag.UTF8, TypeTag.FILENAME}


def to_index(value, name):
    """Converts to int anything that operator.index() accepts, except truth values."""
    if type(value) is int:
        return value
    if type(value).__name__ not in ("bool", "bool_"):       # also those of NumPy
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{name} must be a whole number, not {value!r}")


def to_indices(value, name):
    """Converts a sequence to a list of ints. Leaves anything else to PyGObject."""
    if not hasattr(value, "__iter__") or isinstance(value, (str, bytes, bytearray)):
        return value
    return [to_index(item, f"{name}[{i}]") for i, item in enumerate(value)]


def to_text(value, name):
    """Returns the text; raises ValueError if it has a null character."""
    if isinstance(value, str):
        offset = value.find("\0")
    else:
        offset = value.find(b"\0") if isinstance(value, bytes) else -1
    if offset >= 0:
        raise ValueError(f"{name} has a null character at offset {offset} of {len(value)}")
    return value


def to_texts(value, name):
    if value is None or isinstance(value, (str, bytes)):
        return value
    return [to_text(item, f"{name}[{i}]") for i, item in enumerate(value)]


def _find_check(type_info):
    tag = type_info.get_tag()
    if tag in _INTEGERS:
        return to_index
    if tag in _STRINGS:
        return to_text
    if tag == TypeTag.ARRAY:
        tag = type_info.get_param_type(0).get_tag()
        if tag in _STRINGS:
            return to_texts
        if tag in _INTEGERS and tag not in (TypeTag.INT8, TypeTag.UINT8):
            return to_indices
    return None


def _find_checks(info, first):
    """(position, name, check) for the arguments that Python passes."""
    arguments = info.get_arguments()
    hidden = {info.get_return_type().get_array_length()}
    for argument in arguments:
        hidden.add(argument.get_destroy())
        hidden.add(argument.get_type().get_array_length())
    visible = [argument for i, argument in enumerate(arguments)
               if i not in hidden and argument.get_direction() != Direction.OUT]
    checks = ((i, argument.get_name(), _find_check(argument.get_type()))
              for i, argument in enumerate(visible, first))
    return tuple(check for check in checks if check[2] is not None)


def _strict(info, checks):
    def call(*args, **kwargs):
        for position, name, check in checks:
            if position < len(args):
                value = args[position]
                if type(value) is not int or check is not to_index:
                    args = (*args[:position], check(value, name), *args[position + 1:])
            elif name in kwargs:
                kwargs[name] = check(kwargs[name], name)
        return info(*args, **kwargs)
    call.__name__ = info.__name__
    call.__qualname__ = info.__name__
    call.__doc__ = info.__doc__
    call.__wrapped__ = info
    return call


def _replace(owner, info):
    is_bound = info.is_method() or info.is_constructor()
    checks = _find_checks(info, 1 if is_bound else 0)
    if not checks:
        return
    call = _strict(info, checks)
    if info.is_constructor():
        call = classmethod(call)
    elif not is_bound and owner is not Gpu:
        call = staticmethod(call)
    setattr(owner, info.__name__, call)


def _replace_fields(owner):
    """Replaces the setters of integer fields of a structure."""
    for name, field in list(vars(owner).items()):
        info = getattr(getattr(field, "fset", None), "__self__", None)
        if info is not None and info.get_type().get_tag() in _INTEGERS:
            setattr(owner, name, property(field.fget, _strict_setter(field.fset, name)))


def _strict_setter(put, name):
    return lambda self, value: put(self, to_index(value, name))


class _StrictModule(type(Gpu)):
    """Replaces the functions of a class when the class is created, at its first use: a class that
    is created before the override of its parent would not inherit from the override. Leaves out
    Gpu.Arguments, whose numbers are values of kernel arguments, and may be True."""

    def __getattr__(self, name):
        value = super().__getattr__(name)
        if isinstance(value, FunctionInfo):
            _replace(self, value)
            return self.__dict__[name]
        if isinstance(value, type) and name != "Arguments":
            for method in list(vars(value).values()):
                if isinstance(method, FunctionInfo):
                    _replace(value, method)
            _replace_fields(value)
        return value


# Before any class is created.
Gpu.__class__ = _StrictModule

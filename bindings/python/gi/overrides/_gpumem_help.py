# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names of methods as messages and help() show them."""

import types


def _is_of_overrides(kind):
    return kind.__module__.startswith("gi.overrides.")


def _find_owners(classes):
    """Returns the classes that use each class of the overrides: itself, or as a mixin."""
    owners = {}
    for owner in classes:
        inherited = {kind for base in owner.__bases__ if hasattr(base, "__info__")
                     for kind in base.__mro__}
        for kind in filter(_is_of_overrides, owner.__mro__):
            if kind not in inherited:
                owners.setdefault(kind, set()).add(owner)
    return owners


def _copy(function, name):
    copy = types.FunctionType(function.__code__, function.__globals__, function.__name__,
                              function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = name
    return copy


def name_methods(classes):
    """Names methods after the class that programs use, not after a mixin: Python shows these names
    in messages and tracebacks. Methods of a mixin of several classes have names without a class."""
    for kind, owners in _find_owners(classes).items():
        initialize = vars(kind).get("__init__")
        if len(owners) > 1 and isinstance(initialize, types.FunctionType):
            for owner in owners:
                if owner.__init__ is initialize:
                    owner.__init__ = _copy(initialize, f"Gpu.{owner.__name__}")
        prefix = owners.pop().__name__ + "." if len(owners) == 1 else ""
        for member in vars(kind).values():
            member = getattr(member, "fget", getattr(member, "__func__", member))
            if isinstance(member, types.FunctionType):
                name = prefix + member.__name__
                is_constructor = prefix and member.__name__ in ("__new__", "__init__")
                member.__qualname__ = f"Gpu.{prefix[:-1]}" if is_constructor else name

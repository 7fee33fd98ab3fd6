# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names and docstrings of methods as messages and help() show them."""

import types

import gi.docstring
from gi._gi import StructInfo

from ._gpumem_checks import find_doc
from ._gpumem_names import register


def _generate_doc(info):
    """Returns the docstring of a structure. The classes of PyGObject for structures ask for the
    docstring here, even if the class has one."""
    if isinstance(info, StructInfo) and info.get_namespace() == "Gpu":
        kind = _structures.get(info.get_name())
        doc = (kind and vars(kind).get("__doc__")) or find_doc(info.get_name(), "")
        if doc:
            return doc
    return _generate_other_doc(info)


_structures = {}
_generate_other_doc = gi.docstring.get_doc_string_generator()
gi.docstring.set_doc_string_generator(_generate_doc)


class ConstructorSignature:
    """The attribute __signature__ of a class whose constructor is __new__(). Without this
    attribute, inspect.signature() finds object.__init__(), which has no signature, or takes the
    first argument of a constructor of a structure for the class."""

    def __get__(self, thing, owner=None):
        is_struct = isinstance(getattr(owner, "__info__", None), StructInfo)
        if thing is not None:
            raise AttributeError("__signature__")       # objects are not callable
        import inspect
        signature = inspect.signature(owner.__new__)
        parameters = list(signature.parameters.values())
        return signature.replace(parameters=parameters[0 if is_struct else 1:])


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


def _find_attribute_doc(owners, name):
    """Returns the docstring of a property or of its getter, from the classes or their parents. The
    classes are sorted by name, because the order of a set depends on the hash seed."""
    kinds = [kind.__name__ for owner in sorted(owners, key=lambda one: one.__name__)
             for kind in owner.__mro__
             if hasattr(kind, "__info__")]
    return next(filter(None, (find_doc(kind, ":" + name) for kind in kinds)), None)


def _may_be_called(name):
    return name.isidentifier() and (not name.startswith("_")
                                    or name in ("__aexit__", "__await__", "__call__", "__init__",
                                                "__new__"))


def name_methods(classes):
    """Names methods after the class that programs use, not after a mixin: Python shows these names
    in messages and tracebacks. Methods of a mixin of several classes have names without a class."""
    _structures.update((one.__name__, one) for one in classes
                       if isinstance(getattr(one, "__info__", None), StructInfo))
    for kind, owners in _find_owners(classes).items():
        initialize = vars(kind).get("__init__")
        if len(owners) > 1 and isinstance(initialize, types.FunctionType):
            for owner in owners:
                if owner.__init__ is initialize:
                    owner.__init__ = _copy(initialize, f"Gpu.{owner.__name__}")
        for name, member in vars(kind).items():
            if isinstance(member, property) and not member.__doc__:
                member.__doc__ = _find_attribute_doc(owners, name)
        prefix = owners.pop().__name__ + "." if len(owners) == 1 else ""
        for member in vars(kind).values():
            member = getattr(member, "fget", getattr(member, "__func__", member))
            if isinstance(member, types.FunctionType):
                if prefix and not member.__doc__:
                    member.__doc__ = find_doc(prefix[:-1], member.__name__)
                name = prefix + member.__name__
                is_constructor = prefix and member.__name__ in ("__new__", "__init__")
                member.__qualname__ = f"Gpu.{prefix[:-1]}" if is_constructor else name
                if prefix and _may_be_called(member.__name__):
                    register(member, member.__qualname__)
                # Python reports missing arguments with the name of the decorated function.
                inner = getattr(member, "__wrapped__", None)
                if isinstance(inner, types.FunctionType):
                    inner.__qualname__ = member.__qualname__

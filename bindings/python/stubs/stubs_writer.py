# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the stubs from the GIR and the overrides."""

import ast
import re
import textwrap

from stubs_gir import Parameter
from stubs_types import ALIASES, ALLOCATED, COMPUTED, WITHOUT_GETATTR

HEAD = '''\
# SPDX-License-Identifier: LGPL-2.1-or-later
# Made by bindings/python/make-stubs
# mypy: disable-error-code="override", no-warn-unused-ignores
import builtins
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future
from contextlib import AbstractContextManager
from enum import EnumMeta, IntEnum, IntFlag
from types import EllipsisType, TracebackType
from typing import (Any, Generic, ParamSpec, Protocol, SupportsIndex, TypeAlias, TypeVar,
                    overload)

import numpy as np  # type: ignore
import numpy.typing as npt  # type: ignore
from _typeshed import ReadableBuffer, WriteableBuffer
from gi.repository import Gio, GLib, GObject
from typing_extensions import CapsuleType, Self  # type: ignore

# The classes of PyGObject 3.42 are not containers of their values
class _EnumMeta(EnumMeta):
    __contains__: None  # type: ignore
    __getitem__: None  # type: ignore
    __iter__: None  # type: ignore
    __len__: None  # type: ignore
    __reversed__: None  # type: ignore

class _Enum(IntEnum, metaclass=_EnumMeta):  # type: ignore[misc]
    @property
    def value_name(self) -> str: ...
    @property
    def value_nick(self) -> str: ...

class _Flags(IntFlag, metaclass=_EnumMeta):  # type: ignore[misc]
    @property
    def value_names(self) -> builtins.list[str]: ...
    @property
    def value_nicks(self) -> builtins.list[str]: ...
    @property
    def first_value_name(self) -> str: ...
    @property
    def first_value_nick(self) -> str: ...

_P = ParamSpec("_P")
_R = TypeVar("_R")
_AllocatorT = TypeVar("_AllocatorT", bound="Allocator")

class _Memoized(Generic[_P, _R]):
    cache: Sized
    def cache_clear(self) -> None: ...
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @overload
    def __get__(self, owner: None, kind: type | None = None) -> _Memoized[_P, _R]: ...
    @overload
    def __get__(self, owner: object, kind: type | None = None) -> Callable[..., _R]: ...
'''

# Parameters and result of generic functions, and of functions whose result depends on the type of
# an argument
GENERIC = {
    "Mapping.__getitem__": [("self, key: SupportsIndex", "int"), ("self, key: slice", "bytes")],
    "memoize": [("function: Callable[_P, _R]", "_Memoized[_P, _R]"),
                ("function: None = None, *, key: Callable[..., object] | None = None",
                 "Callable[[Callable[_P, _R]], _Memoized[_P, _R]]")],
    "pinned": [("context: Context, data: _Readable, /, *, flags: HostMemoryFlags = ...",
                "AbstractContextManager[HostMemory]"),
               ("context: Context, first: _Readable, second: _Readable, /, *more: _Readable, "
                "flags: HostMemoryFlags = ...",
                "AbstractContextManager[builtins.list[HostMemory]]")],
    "using_allocator": [("allocator: _AllocatorT", "AbstractContextManager[_AllocatorT]")],
}


def docstring(text, indent):
    """Formats documentation as a docstring. Keeps gtk-doc markup, and escapes what Python would
    interpret."""
    if not text:
        return []
    text = " ".join(text.split()).replace("\\", "\\\\").replace('"""', "'''")
    lines = textwrap.wrap(text + ("" if text.endswith((".", ":")) else "."), 93 - len(indent))
    lines[0] = '"""' + lines[0]
    lines[-1] += ' """' if lines[-1].endswith('"') else '"""'
    return [indent + line for line in lines]


def unshadow(text, names):
    """Qualifies the builtin types that members of a class would hide."""
    for name in sorted(names & {"bool", "bytes", "float", "int", "str"}):
        hidden = re.compile(rf"(-> |: |\[|\| ){name}\b")
        text = re.sub(r"(?m)^ +(async )?def .*$",
                      lambda line: hidden.sub(rf"\1builtins.{name}", line[0]), text)
    return text


def in_order_of_bases(extra):
    """Returns the items of the overrides, base classes before the classes that derive from them."""
    def depth(node):
        bases = [extra[base.id] for base in getattr(node, "bases", [])
                 if isinstance(base, ast.Name) and base.id in extra]
        return max((1 + depth(base) for base in bases), default=0)

    return sorted(extra.items(), key=lambda item: depth(item[1]))


class Writer:
    def __init__(self, namespace, overrides):
        self._namespace = namespace
        self._overrides = overrides

    def module(self):
        parts = [HEAD + ALIASES]
        parts += [f"{name}: {kind}" for name, kind in sorted(self._namespace.constants.items())]
        parts += [self._callback(*item) for item in sorted(self._namespace.callbacks.items())]
        parts.append("")
        extra = dict(self._overrides.exported())
        parts += [self._enum(found) for name, found in sorted(self._namespace.enums.items())
                  if name not in extra]
        parts += [self._class(found) for _, found in sorted(self._namespace.classes.items())]
        parts += [self._native(name, function, "")
                  for name, function in sorted(self._namespace.functions.items())]
        parts += [self._extra(name, node) for name, node in in_order_of_bases(extra)]
        return "\n".join(parts) + "\n"

    @staticmethod
    def _callback(name, function):
        return f"{name} = Callable[..., {function.result}]"

    def _enum(self, found):
        lines = [f"class {found.name}({'_Flags' if found.is_flags else '_Enum'}):",
                 *docstring(found.doc, "    ")]
        lines += [f"    {name} = {value}" for name, value in found.members.items()]
        lines += [self._native(one.name, one, "    ") for one in found.functions]
        return "\n".join(lines) + "\n"

    def _bases(self, found):
        bases = [re.sub(rf"^{self._namespace.name}\.", "", base) for base in found.bases]
        if not bases:
            bases = ["GObject.GInterface" if any(one.kind == "virtual"
                                                 for one in found.functions.values())
                     else "GObject.GBoxed"]
        return ", ".join(bases)

    def _class(self, found):
        overridden = self._overrides.members(found.name)
        if found.name in WITHOUT_GETATTR:
            overridden.pop("__getattr__")
        overridden.pop("__setattr__", None)         # with it, type checkers accept misspelled names
        lines = [f"class {found.name}({self._bases(found)}):"]
        lines += docstring(self._overrides.doc(found.name) or found.doc, "    ")
        lines += [f"    {name}: {kind}" for name, kind in found.fields.items()
                  if name not in overridden]
        if found.name in self._overrides.with_properties:
            lines += [f"    {name}: {kind}" for name, kind in sorted(found.properties.items())
                      if name not in overridden]
        lines += [f"    @property\n    def {name}(self) -> int: ..."
                  for name in COMPUTED.get(found.name, ())]
        if found.name in ALLOCATED:
            for name in {"__call__", "alloc"} - overridden.keys():
                overridden[name] = self._overrides.members("Allocator")[name]
                overridden[name].result = ALLOCATED[found.name]
        if found.properties:
            lines += ["    class Props(GObject.Object):"]
            lines += [f"        {name}: {kind}" for name, kind in sorted(found.properties.items())]
            lines += ["    @property", "    def props(self) -> Props: ...  # type: ignore"]
        for name in sorted({*found.functions, *overridden}):
            if f"{found.name}.{name}" in GENERIC:
                lines.append(self._generic(f"{found.name}.{name}", overridden[name].doc, "    "))
            elif name in overridden:
                native = self._namespace.find(found.name, name)
                lines.append(self._member(name, overridden[name], native))
            else:
                lines.append(self._native(name, found.functions[name], "    "))
        if len(lines) == 1:
            lines.append("    ...")
        return unshadow("\n".join(lines) + "\n", {*found.functions, *overridden})

    def _native(self, name, function, indent):
        first = {"classmethod": "cls", "method": "self", "virtual": "self"}.get(function.kind)
        decorators = [indent + "@" + function.kind] if function.kind.endswith("method") \
            and function.kind != "method" else []
        return self._definition(decorators, indent, name, first, function.parameters,
                                function.result, function.doc)

    def _member(self, name, member, native):
        if name in ("__iter__", "__hash__") and member.result == "None":
            return f"    {name}: None  # type: ignore"
        if member.kind == "value":
            return f"    {name}: {member.result}"
        decorators = [] if member.kind == "method" else ["    @" + member.kind]
        first = {"classmethod": "cls", "staticmethod": None}.get(member.kind, "self")
        doc = member.doc or (native.doc if native is not None else "")
        if name == "__getattr__":
            member.parameters = [Parameter("name", "str")]
        text = self._definition(decorators, "    ", name, "cls" if name == "__new__" else first,
                                member.parameters, member.result, doc, member.is_async)
        if member.setter is None:
            return text
        return text + "\n" + self._definition([f"    @{name}.setter"], "    ", name, "self",
                                              [member.setter], "None", "")

    @staticmethod
    def _definition(decorators, indent, name, first, parameters, result, doc, is_async=False):
        words = ([first] if first else []) + [str(one) for one in parameters]
        head = f"{indent}{'async ' if is_async else ''}def {name}({', '.join(words)}) -> {result}:"
        body = docstring(doc, indent + "    ")
        if not body:
            return "\n".join([*decorators, head + " ..."])
        return "\n".join([*decorators, head, *body])

    def _extra(self, name, node):
        """Writes a class or function that only the overrides define."""
        if not hasattr(node, "bases"):
            member = self._overrides.function(node)
            if name in GENERIC:
                return self._generic(name, member.doc)
            return self._definition([], "", name, None, member.parameters, member.result,
                                    member.doc, member.is_async)
        bases = self._overrides.public_bases(node)
        lines = [f"class {name}({', '.join(bases)}):" if bases else f"class {name}:"]
        lines += docstring(self._overrides.doc(name), "    ")
        if set(bases) & {other for other, _ in self._overrides.exported()}:
            return "\n".join(lines) + "\n"      # an exception, which adds no members
        lines += [self._member(*item, None) for item in self._overrides.members(name).items()]
        lines.append(self._initializer(name))
        return "\n".join(lines) + "\n"

    def _generic(self, name, doc, indent=""):
        signatures = GENERIC[name]
        decorators = [indent + "@overload"] if len(signatures) > 1 else []
        return "\n".join(self._definition(decorators, indent, name.rpartition(".")[2], None,
                                          [parameters], result, doc)
                         for parameters, result in signatures)

    def _initializer(self, name):
        node = self._overrides.initializer(name)
        return self._definition([], "    ", "__init__", "self",
                                [] if node is None else node.parameters, "None", "")

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads a GIR as PyGObject exposes it: without lengths of arrays, and with out arguments as
results."""

import keyword
import re
import xml.etree.ElementTree

CORE = "{http://www.gtk.org/introspection/core/1.0}"
C = "{http://www.gtk.org/introspection/c/1.0}"
GLIB = "{http://www.gtk.org/introspection/glib/1.0}"

BASIC = {"gboolean": "bool", "gdouble": "float", "gfloat": "float", "none": "None",
         "utf8": "str", "filename": "str", "gpointer": "int", "gconstpointer": "int",
         "GType": "type", "gunichar": "str"}
INTEGERS = re.compile(r"g?u?(char|short|int|long|int(8|16|32|64)|size|intptr|offset)$"
                      r"|gssize$|GLib.Quark$")
# By full name, because Gpu.Device also defines list()
CONTAINERS = {"GLib.List": "builtins.list", "GLib.SList": "builtins.list",
              "GLib.PtrArray": "builtins.list", "GLib.Array": "builtins.list",
              "GLib.HashTable": "dict"}

# These getters return None only for objects that were not properly constructed, so the stubs omit
# None from the type of the result
NEVER_NONE = ("get_context", "get_default_stream", "get_device")

# Allocations return None only for a size of 0, which few programs request. With None in the type,
# each use of an allocation would need a test. Implementations of do_alloc() may return None.
ALLOCATIONS = ("alloc", "alloc_block", "alloc_buffer")


def safe(name):
    """Appends an underscore to a keyword, as PyGObject does."""
    return name + "_" if keyword.iskeyword(name) else name


def first_paragraph(element):
    text = element.findtext(CORE + "doc") or ""
    return " ".join(text.strip().split("\n\n")[0].split())


def type_of(element, is_result=False):
    """Returns the Python type of a parameter, a result, a field or a property."""
    array = element.find(CORE + "array")
    if array is not None:
        item = array.find(CORE + "type")
        if array.get("name") == "GLib.ByteArray" or item.get("name") in ("guint8", "gchar"):
            return "bytes"
        inner = named_type(item, is_result)
        if inner == "int" and not is_result:
            return "Iterable[SupportsIndex]"    # to_indices() of the overrides
        return f"builtins.list[{inner}]" if is_result else f"Sequence[{inner}]"
    kind = element.find(CORE + "type")
    return "Any" if kind is None else named_type(kind, is_result)


def named_type(kind, is_result):
    name = kind.get("name", "gpointer")
    if name in CONTAINERS:
        inner = ", ".join(named_type(one, is_result) for one in kind.findall(CORE + "type"))
        outer = CONTAINERS[name]
        if outer == "builtins.list" and not is_result:
            outer = "Sequence"
        return f"{outer}[{inner}]" if inner else outer
    if INTEGERS.match(name):
        return "int"
    return BASIC.get(name, name)


class Parameter:
    def __init__(self, name, type_, default=None, star=""):
        self.name = safe(name)
        self.type = type_
        self.default = default
        self.star = star

    def __str__(self):
        text = self.star + self.name + (f": {self.type}" if self.type else "")
        return text + (f" = {self.default}" if self.default is not None else "")


class Function:
    """A function, method or constructor: parameters without the instance, and the result."""

    def __init__(self, element, kind):
        self.name = element.get("name")
        self.kind = kind
        self.doc = first_paragraph(element)
        found = element.find(CORE + "parameters")
        self._all = [] if found is None else found.findall(CORE + "parameter")
        self._middle = self._list_middle_data()
        self.parameters = self._inputs(self._hidden(element))
        self.result = self._result(element)

    def _list_middle_data(self):
        """Returns the positions of the data of all callbacks except the last one. PyGObject only
        hides the data of the last callback; of the others, the data is a tuple of further
        arguments."""
        data = [int(one.get("closure")) for one in self._all
                if one.get("scope") and one.get("closure")]
        return set(data[:-1])

    def _hidden(self, element):
        """Returns the positions of array lengths, user data and destroy functions."""
        hidden = set()
        for holder in [*self._all, element.find(CORE + "return-value")]:
            for array in holder.findall(CORE + "array"):
                hidden.add(int(array.get("length", -1)))
        for number, one in enumerate(self._all):
            if one.get("scope"):
                hidden |= {int(one.get("closure", -1)), int(one.get("destroy", -1))} - {number}
        return hidden - self._middle

    def _inputs(self, hidden):
        shown = [one for number, one in enumerate(self._all)
                 if number not in hidden and one.get("direction", "in") != "out"
                 and one.find(CORE + "varargs") is None]
        # PyGObject passes all parameters to an implementation in Python
        required = len(shown)
        while self.kind != "virtual" and required > 0 and self._may_be_none(shown[required - 1]):
            required -= 1
        # The library passes memory to an implementation in Python
        never = ("free",) if self.kind == "virtual" else ()
        parameters = []
        for number, one in enumerate(shown):
            may_be_none = self._may_be_none(one) and self.name not in never
            type_ = "tuple[object, ...]" if self._all.index(one) in self._middle else type_of(one)
            type_ += " | None" if may_be_none else ""
            parameters.append(Parameter(one.get("name"), type_,
                                        "None" if number >= required else None))
        if any(one.get("scope") and one.get("closure") for one in shown):
            parameters.append(Parameter("user_data", "object", star="*"))
        return parameters

    @staticmethod
    def _may_be_none(one):
        return one.get("nullable") == "1" or one.get("allow-none") == "1"

    def _result(self, element):
        value = element.find(CORE + "return-value")
        hidden = self._hidden(element)
        results = [type_of(one, True) for number, one in enumerate(self._all)
                   if one.get("direction", "in") != "in" and number not in hidden]
        if value.get("skip") != "1":
            type_ = type_of(value, True)
            # An implementation in Python returns no True before other values
            if type_ != "None" and not (self.kind == "virtual" and type_ == "bool" and results):
                never = NEVER_NONE if self.kind == "virtual" else NEVER_NONE + ALLOCATIONS
                may_be_none = value.get("nullable") == "1" and self.name not in never
                results.insert(0, type_ + (" | None" if may_be_none else ""))
        if len(results) > 1:
            return f"tuple[{', '.join(results)}]"
        return results[0] if results else "None"


class Class:
    """A class, an interface or a record."""

    def __init__(self, element):
        self.name = element.get("name")
        self.doc = first_paragraph(element)
        self.bases = [element.get("parent")] if element.get("parent") else []
        self.bases += [one.get("name") for one in element.findall(CORE + "implements")]
        self.functions = {}
        for tag, kind in (("constructor", "classmethod"), ("function", "staticmethod"),
                          ("method", "method"), ("virtual-method", "virtual")):
            for one in element.findall(CORE + tag):
                if one.get("introspectable") != "0" and not one.get("shadowed-by"):
                    function = Function(one, kind)
                    name = one.get("shadows") or function.name
                    self.functions[("do_" if kind == "virtual" else "") + safe(name)] = function
        self.properties = {one.get("name").replace("-", "_"): type_of(one, True)
                           for one in element.findall(CORE + "property")
                           if one.get("readable") != "0"}
        self.fields = {safe(one.get("name")): type_of(one, True)
                       for one in element.findall(CORE + "field")
                       if element.tag != CORE + "class" and one.get("private") != "1"
                       and one.find(CORE + "callback") is None}


class Enum:
    def __init__(self, element):
        self.name = element.get("name")
        self.doc = first_paragraph(element)
        self.is_flags = element.tag == CORE + "bitfield"
        self.members = {safe(one.get("name").upper()): one.get("value")
                        for one in element.findall(CORE + "member")}
        self.functions = [Function(one, "staticmethod")
                          for one in element.findall(CORE + "function")]


class Namespace:
    def __init__(self, path):
        root = xml.etree.ElementTree.parse(path).getroot().find(CORE + "namespace")
        self.name = root.get("name")
        self.version = root.get("version")
        self.classes = {}
        for tag in ("interface", "record", "union", "class"):
            for one in root.findall(CORE + tag):
                if not one.get(GLIB + "is-gtype-struct-for") and one.get("disguised") != "1":
                    self.classes[one.get("name")] = Class(one)
        self.functions = {one.get("name"): Function(one, "function")
                          for one in root.findall(CORE + "function")
                          if one.get("introspectable") != "0"}
        self.constants = {one.get("name"): type_of(one, True)
                          for one in root.findall(CORE + "constant")}
        self.callbacks = {one.get("name"): Function(one, "function")
                          for one in root.findall(CORE + "callback")}
        self.enums = {one.get("name"): Enum(one) for tag in ("enumeration", "bitfield")
                      for one in root.findall(CORE + tag)}

    def find_property(self, class_name, name):
        """Finds the type of a property of a class or of one of its ancestors."""
        found = self.classes.get(class_name)
        if found is None:
            return None
        inherited = (self.find_property(base, name) for base in found.bases)
        return found.properties.get(name) or next(filter(None, inherited), None)

    def find(self, class_name, name):
        """Finds a function of a class or of one of its ancestors."""
        found = self.classes.get(class_name)
        if found is None:
            return None
        if name in found.functions:
            return found.functions[name]
        for base in found.bases:
            inherited = self.find(base, name)
            if inherited is not None:
                return inherited
        return None

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads from a GIR the functions that PyGObject offers, with all that their C calls need."""

import xml.etree.ElementTree

CORE = "{http://www.gtk.org/introspection/core/1.0}"
C = "{http://www.gtk.org/introspection/c/1.0}"
GLIB = "{http://www.gtk.org/introspection/glib/1.0}"


class Type:
    """The type of a parameter or of a result. item is the name of the type of the elements, length
    the position of the parameter with their number, or None."""

    def __init__(self, element):
        array = element.find(CORE + "array")
        kind = array if array is not None else element.find(CORE + "type")
        self.is_array = array is not None
        self.name = "varargs" if kind is None else kind.get("name", "array")
        self.c_type = "" if kind is None else kind.get(C + "type", "")
        inner = None if kind is None else kind.find(CORE + "type")
        self.item = None if inner is None else inner.get("name")
        length = None if array is None else array.get("length")
        self.length = None if length is None else int(length)

    def __str__(self):
        if self.item is None:
            return self.name
        return f"{'array' if self.is_array else self.name} of {self.item}"


class Value:
    """A parameter or a result."""

    def __init__(self, element):
        self.name = element.get("name")
        self.type = Type(element)
        self.is_out = element.get("direction", "in") != "in"
        self.is_inout = element.get("direction") == "inout"
        self.is_nullable = element.get("nullable") == "1" or element.get("allow-none") == "1"
        self.is_callback = element.get("scope") is not None
        self.is_skipped = element.get("skip") == "1"
        self.is_allocated_by_caller = element.get("caller-allocates") == "1"
        self.transfer = element.get("transfer-ownership", "none")
        self.helpers = {int(element.get(key, -1)) for key in ("closure", "destroy")}


class Function:
    """A function of a class, or of the namespace if owner is None. kind is "method", "constructor"
    or "function"."""

    def __init__(self, element, owner, kind):
        self.owner = owner
        self.kind = kind
        self.name = element.get("shadows") or element.get("name")
        self.symbol = element.get(C + "identifier")
        self.throws = element.get("throws") == "1"
        found = element.find(CORE + "parameters")
        self.parameters = [] if found is None else [Value(one)
                                                    for one in found.findall(CORE + "parameter")]
        instance = None if found is None else found.find(CORE + "instance-parameter")
        self.takes_instance = instance is not None \
            and instance.get("transfer-ownership", "none") != "none"
        self.result = Value(element.find(CORE + "return-value"))
        self.lengths = {value.type.length for value in [*self.parameters, self.result]} - {None}

    @property
    def full_name(self):
        return f"{self.owner}.{self.name}" if self.owner else self.name

    def list_inputs(self):
        """Returns the parameters that Python passes, without the object or the class."""
        return [value for position, value in enumerate(self.parameters)
                if not value.is_out and position not in self.lengths]

    def count_required(self):
        """As in PyGObject, trailing arguments that may be None may be omitted."""
        inputs = self.list_inputs()
        n_required = len(inputs)
        while n_required > 0 and inputs[n_required - 1].is_nullable:
            n_required -= 1
        return n_required


class Namespace:
    """The functions of a GIR in the order of their names, and its types by name: the prefix of
    their C names, and whether they are objects, boxed types, enumerations or flags."""

    KINDS = {"class": "object", "interface": "object", "record": "boxed", "enumeration": "enum",
             "bitfield": "flags"}

    def __init__(self, path):
        root = xml.etree.ElementTree.parse(path).getroot().find(CORE + "namespace")
        self.name = root.get("name")
        self.kinds, self.type_functions, self.functions = {}, {}, []
        self._add_functions(root, None)
        for tag, kind in self.KINDS.items():
            for element in root.findall(CORE + tag):
                if element.get(GLIB + "is-gtype-struct-for"):
                    continue
                name = element.get("name")
                self.kinds[name] = kind
                self.type_functions[name] = element.get(GLIB + "get-type")
                self._add_functions(element, name)
        self.functions.sort(key=lambda function: (function.owner or "", function.name))

    def _add_functions(self, parent, owner):
        for kind in ("constructor", "method", "function"):
            for element in parent.findall(CORE + kind):
                if element.get("introspectable") != "0" and not element.get("shadowed-by") \
                        and not element.get("moved-to"):
                    self.functions.append(Function(element, owner, kind))

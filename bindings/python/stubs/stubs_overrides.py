# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads the overrides from their source."""

import ast
import builtins
import os

from stubs_gir import Parameter
from stubs_types import PARAMETERS, PARAMETERS_OF, RESULTS_OF

RESULTS = {"__bool__": "bool", "__eq__": "bool", "__hash__": "int", "__index__": "int",
           "__int__": "int", "__len__": "int", "__ne__": "bool", "__repr__": "str",
           "__contains__": "bool", "__float__": "float", "__complex__": "complex",
           "__str__": "str", "__format__": "str"}
ANY_METHOD = {"__exit__": "None", "__aexit__": "None", "__bytes__": "bytes"}


class Member:
    """A method or a property of an override: decorators, parameters, result and docstring."""

    def __init__(self, kind, parameters, result, doc="", is_async=False):
        self.kind = kind
        self.parameters = parameters
        self.result = result
        self.doc = doc
        self.is_async = is_async
        self.setter = None              # the parameter of the setter of a property


class Overrides:
    def __init__(self, path, namespace):
        self._namespace = namespace
        self._classes = {}
        self._functions = {}
        self.with_properties = set()            # classes with properties as attributes
        self._used = set()                      # entries of PARAMETERS_OF and RESULTS_OF
        folder = os.path.dirname(path)
        self._main = self._parse(path)
        for name in sorted(os.listdir(folder)):
            if name.startswith("_gpumem") and name.endswith(".py"):
                self._parse(os.path.join(folder, name))

    def _parse(self, path):
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                self._classes.setdefault(node.name, node)
            elif isinstance(node, ast.FunctionDef):
                self._functions.setdefault(node.name, node)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "add_attributes":
                self.with_properties.add(ast.unparse(node.args[0]))
        return tree

    def doc(self, name):
        """Returns the docstring of an override, or of the mixin whose docstring the override has:
        __doc__ = Mixin.__doc__."""
        node = self._classes.get(name)
        for one in node.body if node is not None else []:
            if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "__doc__":
                node = self._classes[ast.unparse(one.value).removesuffix(".__doc__")]
                break
        return ast.get_docstring(node) or "" if node is not None else ""

    def _chain(self, name):
        """Returns the override class and its mixins, in the order of name lookup. The stubs inherit
        from the bases that are classes of the library."""
        node = self._classes.get(name)
        if node is None:
            return []
        chain = [node]
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id not in self._namespace.classes:
                chain += self._chain(base.id)
        return chain

    def members(self, name):
        """Returns the public and special members of an override class by name."""
        found = {}
        for node in reversed(self._chain(name)):
            for one in node.body:
                for member_name, member in self._member(name, one, found):
                    if not member_name.startswith("_") or member_name.endswith("__"):
                        found[member_name] = member
        for skipped in ("__init__", "__init_subclass__", "__doc__", "__slots__"):
            found.pop(skipped, None)
        return found

    def initializer(self, name):
        """Returns __init__() of a class that only the overrides define."""
        for node in self._chain(name):
            for one in node.body:
                if isinstance(one, ast.FunctionDef) and one.name == "__init__":
                    return self.function(one, name)
        return None

    def exported(self):
        """Yields (name, node) for names of the module that are not classes of the library."""
        for node in self._main.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                for name in sorted(ast.literal_eval(node.value)):
                    yield name, self._classes.get(name) or self._functions.get(name)

    def public_bases(self, node):
        """Returns the bases of a class that only the overrides define, without mixins."""
        public = dict(self.exported())
        return [ast.unparse(base) for base in node.bases
                if isinstance(base, ast.Attribute) or base.id in public
                or base.id in self._namespace.classes or hasattr(builtins, base.id)]

    def function(self, node, class_name=None):
        """Converts a Python function to a member."""
        decorators = [ast.unparse(one) for one in node.decorator_list]
        kind = "method"
        for known in ("property", "classmethod", "staticmethod"):
            kind = known if known in decorators else kind
        result = self._find(RESULTS_OF, class_name, node.name) or self._result(node, class_name)
        if "contextlib.contextmanager" in decorators:
            result = f"AbstractContextManager[{self._yielded(node, class_name)}]"
        return Member(kind, self._parameters(node, class_name), result,
                      ast.get_docstring(node) or "", isinstance(node, ast.AsyncFunctionDef))

    def _yielded(self, node, class_name):
        """Returns the type of the only value that a function for a with statement yields."""
        value = next(one for one in ast.walk(node) if isinstance(one, ast.Yield)).value
        known = self._find(RESULTS_OF, class_name, node.name)
        return known or ("None" if value is None else self._expression(value, class_name))

    def _find(self, table, class_name, *names):
        """Returns the entry of a table for a function, or for a parameter of a function."""
        for key in (".".join(filter(None, (class_name, *names))),
                    ".".join(filter(None, (class_name, "*", names[-1]))),
                    ".".join(("*", *names))):
            if key in table:
                self._used.add(key)
                return table[key]
        return None

    def list_unused(self):
        """Returns the entries of the tables that no class or function has."""
        return sorted({*PARAMETERS_OF, *RESULTS_OF} - self._used)

    def _member(self, class_name, node, found):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            member = self.function(node, class_name)
            if f"{node.name}.setter" in map(ast.unparse, node.decorator_list):
                found[node.name].setter = member.parameters[0]
            else:
                yield node.name, member
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if ast.unparse(node.value).startswith("object."):
                    continue                    # inherited
                member = self._assigned(class_name, node.value, found)
                known = self._find(RESULTS_OF, class_name, target.id)
                yield target.id, Member(member.kind, member.parameters, known or member.result,
                                        member.doc, member.is_async)
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id, Member("value", [], ast.literal_eval(node.annotation))

    def _assigned(self, class_name, value, found):
        """Converts an assignment of a property, of another member or of a value to a member."""
        if isinstance(value, ast.Name) and value.id in found:
            return found[value.id]
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            argument = value.args[0]
            getter = self._getter(class_name, "get_" + str(getattr(argument, "value", "")))
            if value.func.id == "_get" and getter is not None:
                return Member("property", [], getter.result)
            if value.func.id in ("_get", "_property"):
                return Member("property", [], self._property(class_name, argument.value))
            if isinstance(argument, ast.Name) and argument.id in found:
                return Member("property", [], found[argument.id].result)
            if isinstance(argument, ast.Lambda):
                return Member("property", [], self._expression(argument.body, class_name))
            return Member("property", [], "Any")
        if isinstance(value, ast.Attribute) and ast.unparse(value.value).startswith("Gpu."):
            native = self._namespace.find(ast.unparse(value.value)[len("Gpu."):], value.attr)
            return Member("method", native.parameters, native.result, native.doc)
        return Member("value", [], self._expression(value, class_name))

    def _getter(self, class_name, name):
        """Returns the method of an override, which may follow the property that calls it."""
        for node in self._chain(class_name):
            for one in node.body:
                if isinstance(one, ast.FunctionDef) and one.name == name:
                    return self.function(one, class_name)
        return None

    def _native(self, class_name, name):
        function = self._namespace.find(class_name, name)
        return function.result if function is not None else "Any"

    def _property(self, class_name, name):
        """Returns the type of a property: the result of its getter, or else the GObject property.
        The getters of objects return None only before the construction."""
        native = self._native(class_name, "get_" + name)
        if native != "Any":
            return native
        return self._namespace.find_property(class_name, name.replace("-", "_")) or "Any"

    def _parameters(self, node, class_name):
        is_member = class_name is not None
        static = any(ast.unparse(one) == "staticmethod" for one in node.decorator_list)
        named = (node.args.posonlyargs + node.args.args)[is_member and not static:]
        defaults = [None] * (len(named) - len(node.args.defaults)) + node.args.defaults
        defaults = defaults[len(defaults) - len(named):]
        of = (class_name, node.name)
        parameters = [self._parameter(of, *both) for both in zip(named, defaults)]
        if node.args.vararg is not None:
            parameters.append(self._star(of, node.args.vararg.arg, "*"))
        elif node.args.kwonlyargs:
            parameters.append(Parameter("", "", star="*"))
        parameters += [self._parameter(of, *both)
                       for both in zip(node.args.kwonlyargs, node.args.kw_defaults)]
        if node.args.kwarg is not None:
            parameters.append(self._star(of, node.args.kwarg.arg, "**"))
        return parameters

    def _star(self, of, name, star):
        """Returns the parameter for further arguments."""
        known = self._find(PARAMETERS_OF, *of, star + name)
        return Parameter(name, known or PARAMETERS.get(star + name, "Any"), star=star)

    def _of_native(self, of, name):
        """Returns the type that the function of the library has for a parameter."""
        class_name, function = of
        native = self._namespace.find(class_name, "new" if function == "__new__" else function)
        return next((one.type for one in native.parameters if one.name == name), None) \
            if native is not None else None

    def _parameter(self, of, argument, default):
        text = ast.unparse(default) if isinstance(default, ast.Constant) else default and "..."
        if argument.annotation is not None:
            return Parameter(argument.arg, ast.unparse(argument.annotation), text)
        known = self._find(PARAMETERS_OF, *of, argument.arg)
        known = known or PARAMETERS.get(argument.arg) or self._of_native(of, argument.arg) or "Any"
        if isinstance(default, ast.Attribute) and isinstance(default.value, ast.Attribute):
            known = ast.unparse(default).removeprefix("Gpu.").rsplit(".", 1)[0]
        elif isinstance(default, ast.Constant) and known == "Any" \
                and type(default.value) in (bool, int, float):
            known = type(default.value).__name__
        if text == "None" and known != "Any" and not known.endswith("| None"):
            known += " | None"
        return Parameter(argument.arg, known, text)

    def _result(self, node, class_name):
        if node.returns is not None:
            return ast.unparse(node.returns)
        if node.name == "__new__":
            return class_name
        if node.name in RESULTS or node.name in ANY_METHOD:
            return RESULTS.get(node.name) or ANY_METHOD[node.name]
        returns = [one.value for one in walk_function(node) if isinstance(one, ast.Return)]
        kinds = {"None" if one is None else self._expression(one, class_name) for one in returns}
        if not kinds:
            return "None"
        if node.name in ("__enter__", "__aenter__") and kinds == {class_name}:
            return "Self"
        if len(kinds) == 1 and "Any" not in kinds:
            return kinds.pop()
        native = self._native(class_name, node.name)
        is_one_of_ours = native.removesuffix(" | None") in self._namespace.classes
        return native if is_one_of_ours or native == "bool" else "Any"

    def _expression(self, node, class_name):
        """Returns the type of a returned expression if it is evident."""
        if isinstance(node, ast.Constant):
            return type(node.value).__name__.replace("NoneType", "None")
        if isinstance(node, ast.JoinedStr):
            return "str"
        if isinstance(node, ast.Name) and node.id == "self":
            return class_name or "Any"
        if isinstance(node, ast.Compare):
            return "bool"
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("tuple", "_last"):
            found = self._expression(node.args[0], class_name)
            is_last = ast.unparse(node.func) == "_last" and found.startswith("tuple[")
            return found[:-1].rsplit(", ", 1)[-1] if is_last else found
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value)
            if owner in ("self", "cls"):
                if node.func.attr == "get_property":
                    return self._property(class_name, node.args[0].value)
                return self._native(class_name, node.func.attr)
            if owner == "Gpu" and node.func.attr in self._namespace.classes:
                return node.func.attr
            if owner.startswith("Gpu."):
                return self._native(owner[len("Gpu."):], node.func.attr)
        return "Any"


def walk_function(node):
    """Yields the nodes of a function, without those of nested functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield child
            yield from walk_function(child)

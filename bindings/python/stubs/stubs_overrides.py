# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads the overrides from their source."""

import ast
import builtins
import os

from stubs_gir import Parameter

# Types of parameters by name, used if there is no other source
KNOWN = {"stream": "Stream | None", "cancellable": "Gio.Cancellable | None",
         "headers": "dict[str, str] | None",
         "options": "str | Sequence[str] | None",
         "offset": "int", "size": "int | None", "callback": "Gio.AsyncReadyCallback | None",
         "progress_callback": "Gio.FileProgressCallback | None",
         "progress_data": "tuple[Any, ...] | None",
         "progress": "Callable[[int, int], object] | None", "order": "str", "dialect": "str",
         "shape": "int | Sequence[int]", "other": "object", "upstream": "Allocator",
         "context": "Context | Allocator | Callable[[int], Memory]",
         "allocator": "Allocator | Callable[[int], Memory]",
         "image_type": "ImageType", "memo": "dict[int, Any]", "traceback": "TracebackType | None"}
RESULTS = {"__bool__": "bool", "__eq__": "bool", "__hash__": "int", "__index__": "int",
           "__int__": "int", "__len__": "int", "__ne__": "bool", "__repr__": "str",
           "__contains__": "bool", "__float__": "float", "__complex__": "complex",
           "__str__": "str"}
ANY_METHOD = {"__await__": "Generator[Any, Any, Any]", "__exit__": "None"}


class Member:
    """A method or a property of an override: decorators, parameters, result and docstring."""

    def __init__(self, kind, parameters, result, doc="", is_async=False):
        self.kind = kind
        self.parameters = parameters
        self.result = result
        self.doc = doc
        self.is_async = is_async


class Overrides:
    def __init__(self, path, namespace):
        self._namespace = namespace
        self._classes = {}
        self._functions = {}
        self.with_properties = set()            # classes with properties as attributes
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
        """Returns the docstring of an override, or of the mixin that implements it."""
        for node in self._chain(name):
            if ast.get_docstring(node):
                return ast.get_docstring(node)
        return ""

    def _chain(self, name):
        """Returns the override class and its mixins, in the order of name lookup."""
        node = self._classes.get(name)
        if node is None:
            return []
        chain = [node]
        for base in node.bases:
            if isinstance(base, ast.Name):
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
                or hasattr(builtins, base.id)]

    def function(self, node, class_name=None):
        """Converts a Python function to a member."""
        decorators = [ast.unparse(one) for one in node.decorator_list]
        kind = "method"
        for known in ("property", "classmethod", "staticmethod"):
            kind = known if known in decorators else kind
        result = self._result(node, class_name)
        if "contextlib.contextmanager" in decorators:
            result = "AbstractContextManager[Any]"
        return Member(kind, self._parameters(node, class_name is not None), result,
                      ast.get_docstring(node) or "", isinstance(node, ast.AsyncFunctionDef))

    def _member(self, class_name, node, found):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, self.function(node, class_name)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                yield target.id, self._assigned(class_name, node.value, found)
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id, Member("value", [], ast.literal_eval(node.annotation))

    def _assigned(self, class_name, value, found):
        """Converts an assignment of a property, of another member or of a value to a member."""
        if isinstance(value, ast.Name) and value.id in found:
            return found[value.id]
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            argument = value.args[0]
            if value.func.id == "_get":
                return Member("property", [], self._native(class_name, "get_" + argument.value))
            if isinstance(argument, ast.Name) and argument.id in found:
                return Member("property", [], found[argument.id].result)
            if isinstance(argument, ast.Lambda):
                return Member("property", [], self._expression(argument.body, class_name))
            return Member("property", [], "Any")
        if isinstance(value, ast.Attribute) and ast.unparse(value.value).startswith("Gpu."):
            native = self._namespace.find(ast.unparse(value.value)[len("Gpu."):], value.attr)
            return Member("method", native.parameters, native.result, native.doc)
        return Member("value", [], self._expression(value, class_name))

    def _native(self, class_name, name):
        function = self._namespace.find(class_name, name)
        return function.result if function is not None else "Any"

    def _parameters(self, node, is_member):
        static = any(ast.unparse(one) == "staticmethod" for one in node.decorator_list)
        named = (node.args.posonlyargs + node.args.args)[is_member and not static:]
        defaults = [None] * (len(named) - len(node.args.defaults)) + node.args.defaults
        defaults = defaults[len(defaults) - len(named):]
        parameters = [self._parameter(*both) for both in zip(named, defaults)]
        if node.args.vararg is not None:
            parameters.append(Parameter(node.args.vararg.arg, "Any", star="*"))
        elif node.args.kwonlyargs:
            parameters.append(Parameter("", "", star="*"))
        parameters += [self._parameter(*both)
                       for both in zip(node.args.kwonlyargs, node.args.kw_defaults)]
        if node.args.kwarg is not None:
            parameters.append(Parameter(node.args.kwarg.arg, "Any", star="**"))
        return parameters

    def _parameter(self, argument, default):
        text = ast.unparse(default) if isinstance(default, ast.Constant) else default and "..."
        if argument.annotation is not None:
            return Parameter(argument.arg, ast.unparse(argument.annotation), text)
        known = KNOWN.get(argument.arg, "Any")
        if isinstance(default, ast.Attribute):
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
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value)
            if owner in ("self", "cls"):
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

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Gpu.pyi, the types for editors, has all that the library has and nothing else, and the examples
are right by them. It is TEST_PYTHON_STUBS, or the one that is installed."""

import ast
import glob
import os
import shutil
import subprocess
import sys
import tempfile

from gi import _gi

from python_util import Skip, equal, main
from gi.repository import Gpu

FOR_CLASSES_OF_PYTHON = ("__", "do_")


def stubs_path():
    """Where the overrides are installed, the types are beside gi."""
    overrides = os.path.dirname(sys.modules["gi.overrides.Gpu"].__file__)
    installed = os.path.join(overrides, "../../gi-stubs/repository/Gpu.pyi")
    return os.environ.get("TEST_PYTHON_STUBS") or installed


def parse():
    if not os.path.exists(stubs_path()):
        raise Skip(f"no {stubs_path()}: types are beside the Python that they are installed for")
    with open(stubs_path(), encoding="utf-8") as file:
        return ast.parse(file.read())


def names_in(body):
    """What a module or a class defines."""
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield node.targets[0].id
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id


def infos():
    """(name, info) of all that the typelib has for programs."""
    for info in _gi.Repository.get_default().get_infos("Gpu"):
        if not (isinstance(info, _gi.StructInfo) and info.is_gtype_struct()):
            yield info.get_name(), info


def is_public(name):
    return not name.startswith("_") or name.endswith("__")


def plain_names():
    """Classes, functions, constants, callbacks and what the overrides add."""
    stubbed = set(names_in(parse().body))
    missing = {name for name, info in infos() if name not in stubbed and hasattr(Gpu, name)}
    overrides = set(sys.modules["gi.overrides.Gpu"].__all__)
    equal(missing | overrides - stubbed, set(), "what the types lack")
    callbacks = {name for name, info in infos()
                 if isinstance(info, _gi.CallbackInfo)}
    invented = {name for name in stubbed - callbacks if is_public(name) and not hasattr(Gpu, name)}
    equal(invented, set(), "what only the types have")


def runtime_names(found):
    """What a class has by itself, of the typelib or of its override."""
    names = set()
    for one in found.__mro__:
        if one.__module__.startswith(("gi.repository.Gpu", "gi.overrides")) and \
                "GObject" not in one.__module__ and one.__module__ != "gi.overrides.Gio":
            names |= {name for name in vars(one) if not name.startswith("_")}
    return names


def plain_members():
    """Methods, properties, values of enumerations: each way."""
    classes = {node.name: node for node in parse().body if isinstance(node, ast.ClassDef)}
    stubbed = {name: set(names_in(node.body)) - {"Props"} for name, node in classes.items()}

    def with_inherited(name):
        bases = [base.id for base in classes[name].bases if isinstance(base, ast.Name)]
        return stubbed[name].union(*(with_inherited(base) for base in bases if base in classes))

    missing, invented, count = set(), set(), 0
    for name, info in infos():
        if name not in classes:
            continue
        found = getattr(Gpu, name)
        count += 1
        known = with_inherited(name)
        missing |= {f"{name}.{member}" for member in runtime_names(found) - known}
        invented |= {f"{name}.{member}" for member in stubbed[name]
                     if not hasattr(found, member)
                     and not member.startswith(FOR_CLASSES_OF_PYTHON)}
    assert count > 60, f"only {count} classes were compared"
    equal(missing, set(), "what the types lack")
    equal(invented, set(), "what only the types have")


def plain_examples():
    """mypy has nothing to say about programs that use the types."""
    examples = glob.glob(os.path.join(os.environ.get("TEST_TOP_SRCDIR", "none"),
                                      "examples/python/*.py"))
    if not examples:
        raise Skip("the examples are not here")
    if subprocess.run([sys.executable, "-m", "mypy", "--version"], capture_output=True).returncode:
        raise Skip("mypy is not installed")
    with tempfile.TemporaryDirectory() as folder:
        package = os.path.join(folder, "gi")
        shutil.copytree(os.path.join(os.path.dirname(stubs_path()), ".."), package)
        for path in (".", "repository"):
            with open(os.path.join(package, path, "__init__.pyi"), "w", encoding="utf-8") as file:
                file.write("from typing import Any\ndef __getattr__(name: str) -> Any: ...\n")
        wrong = os.path.join(folder, "wrong.py")
        with open(wrong, "w", encoding="utf-8") as file:
            file.write("from gi.repository import Gpu\nGpu.Buffer().no_such_thing(1)\n")
        command = [sys.executable, "-m", "mypy", "--check-untyped-defs", "--scripts-are-modules",
                   "--cache-dir", os.path.join(folder, "cache")]
        environment = {**os.environ, "MYPYPATH": folder}
        result = subprocess.run([*command, *examples], env=environment, capture_output=True,
                                text=True)
        assert result.returncode == 0, result.stdout + result.stderr
        result = subprocess.run([*command, wrong], env=environment, capture_output=True, text=True)
        assert result.returncode == 1 and "Buffer" in result.stdout, result.stdout + result.stderr


if __name__ == "__main__":
    sys.exit(main(dict(globals())))

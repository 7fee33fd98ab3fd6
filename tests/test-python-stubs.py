# SPDX-License-Identifier: LGPL-2.1-or-later
"""Checks that Gpu.pyi, the type stubs for editors, declares exactly the API of the library, and
that the examples are valid by these types. TEST_PYTHON_STUBS is the path of the stubs; by default
the installed stubs are used."""

import ast
import functools
import glob
import importlib.util
import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile

from gi import _gi

from python_util import Skip, equal, main
from gi.repository import Gpu

FOR_CLASSES_OF_PYTHON = ("__", "do_")


def stubs_path():
    """Returns the path of the stubs. The default is the path of stubs that are installed with the
    loaded overrides."""
    overrides = os.path.dirname(sys.modules["gi.overrides.Gpu"].__file__)
    installed = os.path.join(overrides, "../../gi-stubs/repository/Gpu.pyi")
    return os.environ.get("TEST_PYTHON_STUBS") or installed


def parse():
    if not os.path.exists(stubs_path()):
        raise Skip(f"no {stubs_path()}: types are beside the Python that they are installed for")
    with open(stubs_path(), encoding="utf-8") as file:
        return ast.parse(file.read())


def names_in(body):
    """Yields the names that the body of a module or a class defines."""
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield node.targets[0].id
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id


def infos():
    """Yields (name, info) for all public symbols of the typelib."""
    for info in _gi.Repository.get_default().get_infos("Gpu"):
        if not (isinstance(info, _gi.StructInfo) and info.is_gtype_struct()):
            yield info.get_name(), info


def is_public(name):
    return not name.startswith("_") or name.endswith("__")


def plain_names():
    """The stubs declare all classes, functions, constants and callbacks, and the additions of the
    overrides."""
    stubbed = set(names_in(parse().body))
    missing = {name for name, info in infos() if name not in stubbed and hasattr(Gpu, name)}
    overrides = set(sys.modules["gi.overrides.Gpu"].__all__)
    equal(missing | overrides - stubbed, set(), "missing in the types")
    callbacks = {name for name, info in infos()
                 if isinstance(info, _gi.CallbackInfo)}
    invented = {name for name in stubbed - callbacks if is_public(name) and not hasattr(Gpu, name)}
    equal(invented, set(), "only in the types")


def runtime_names(found):
    """Returns the members of a class in the typelib or its override."""
    names = set()
    for one in found.__mro__:
        if one.__module__.startswith(("gi.repository.Gpu", "gi.overrides")) and \
                "GObject" not in one.__module__ and one.__module__ != "gi.overrides.Gio":
            names |= {name for name in vars(one) if not name.startswith("_")}
    # The stubs inherit these three names from GObject.Object, even if the override replaces them to
    # check values.
    return names - {"connect", "connect_after", "connect_object", "connect_object_after", "props",
                    "set_properties", "set_property"}


def has_member(found, name):
    """Returns whether a class has a member, or its objects have an attribute of that name."""
    return hasattr(found, name) or name in attributes_of_objects().get(found, ())


@functools.lru_cache(maxsize=None)
def attributes_of_objects():
    context = Gpu.Context("host")
    image = Gpu.Image(context, "rgba-unorm8", (4, 4))
    counters = Gpu.StatisticsAllocator(Gpu.MemoryPool(context)).counters
    return {Gpu.Image: [name.replace("-", "_") for name in image.attributes],
            Gpu.StatisticsAllocator: [name.replace("-", "_") for name in counters]}


def parse_classes():
    """Returns the classes of the stubs by name."""
    return {node.name: node for node in parse().body if isinstance(node, ast.ClassDef)}


def with_inherited(classes, name):
    """Returns the names of the members that the stubs declare for a class and its bases."""
    bases = [base.id for base in classes[name].bases if isinstance(base, ast.Name)]
    return set(names_in(classes[name].body)).union(
        *(with_inherited(classes, base) for base in bases if base in classes))


def plain_members():
    """The stubs declare all methods, properties and enumeration values of the library, and no other
    members."""
    classes = parse_classes()
    stubbed = {name: set(names_in(node.body)) - {"Props"} for name, node in classes.items()}

    missing, invented, count = set(), set(), 0
    for name, info in infos():
        if name not in classes:
            continue
        found = getattr(Gpu, name)
        count += 1
        known = with_inherited(classes, name)
        missing |= {f"{name}.{member}" for member in runtime_names(found) - known}
        invented |= {f"{name}.{member}" for member in stubbed[name]
                     if not has_member(found, member)
                     and not member.startswith(FOR_CLASSES_OF_PYTHON)}
    assert count > 60, f"only {count} classes were compared"
    equal(missing, set(), "missing in the types")
    equal(invented, set(), "only in the types")


def plain_protocols():
    """The stubs declare the members by which other libraries find memory and streams."""
    classes = parse_classes()
    found = {(name, member) for name, _ in infos() if name in classes
             for member in ("__cuda_stream__", "__dlpack__", "__dlpack_device__")
             if hasattr(getattr(Gpu, name), member)}
    # Objects compute this interface in __getattr__()
    found |= {(name, "__cuda_array_interface__") for name, member in found
              if member == "__dlpack__"}
    assert {("Buffer", "__dlpack__"), ("Stream", "__cuda_stream__")} <= found, found
    equal({(name, member) for name, member in found if member not in with_inherited(classes, name)},
          set(), "missing in the types")


def plain_docs():
    """The stubs have the docstrings of the classes of the overrides."""
    found = {name: (getattr(Gpu, name).__doc__, ast.get_docstring(node))
             for name, node in parse_classes().items()
             if getattr(getattr(Gpu, name, None), "__module__", "").startswith("gi.overrides")}
    # PyGObject writes the docstring of a class without one
    found = {name: docs for name, docs in found.items()
             if docs[0] and not docs[0].lstrip().startswith(":Constructors:")}
    assert len(found) > 30, sorted(found)
    equal({name for name, docs in found.items()
           if "".join(docs[0].split()) != "".join((docs[1] or "").split())}, set(),
          "another docstring in the types")


def list_parameters(node):
    """Returns (name, kind, has a default) for the parameters of a function of the stubs. Names of
    further arguments may differ."""
    args = node.args
    named = args.posonlyargs + args.args
    first_default = len(named) - len(args.defaults)
    return ([(one.arg, "", i >= first_default) for i, one in enumerate(named)]
            + [("", "*", False)] * (args.vararg is not None)
            + [(one.arg, "keyword", default is not None)
               for one, default in zip(args.kwonlyargs, args.kw_defaults)]
            + [("", "**", False)] * (args.kwarg is not None))


STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def list_runtime_parameters(function):
    """Returns the same for a function of the loaded module."""
    parameters = inspect.signature(function).parameters.values()
    return [("", STARS[one.kind], False) if one.kind in STARS else
            (one.name, "keyword" * (one.kind == inspect.Parameter.KEYWORD_ONLY),
             one.default is not inspect.Parameter.empty) for one in parameters]


def list_functions(body, owner=Gpu):
    """Yields (name, parameters, parameters at run time) for functions of a module or a class."""
    for node in body:
        if isinstance(node, ast.ClassDef) and owner is Gpu and hasattr(Gpu, node.name):
            yield from list_functions(node.body, getattr(Gpu, node.name))
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) \
                or not is_public(node.name):
            continue
        decorators = {ast.unparse(one) for one in node.decorator_list}
        static = inspect.getattr_static(owner, node.name, None)
        if static is None or any(word in one for one in decorators
                                 for word in ("overload", "property", "setter")):
            continue
        name, function, has_self = node.name, getattr(owner, node.name), False
        parameters = list_parameters(node)
        if owner is not Gpu:
            name = f"{owner.__name__}.{name}"
            parameters = parameters["staticmethod" not in decorators:]
            has_self = not (decorators & {"classmethod", "staticmethod"}
                            or isinstance(static, (classmethod, staticmethod)))
        if node.name in ("__new__", "__init__"):
            function, has_self = owner, False
        yield name, parameters, list_runtime_parameters(function)[has_self:]


def plain_signatures():
    """The parameters of each function in the stubs are those that help() shows."""
    compared = list(list_functions(parse().body))
    assert len(compared) > 700, len(compared)
    wrong = {name: (stubbed, found) for name, stubbed, found in compared if stubbed != found}
    equal(wrong, {}, "signatures that differ")


def plain_data_of_callbacks():
    """A callback that is not the last one has a parameter for its data, as in PyGObject."""
    buffer = next(node for node in parse().body
                  if isinstance(node, ast.ClassDef) and node.name == "Buffer")
    method = next(node for node in buffer.body
                  if isinstance(node, ast.FunctionDef) and node.name == "read_bytes_async")
    equal([one.arg for one in method.args.args][-3:],
          ["progress_callback", "progress_data", "callback"])
    equal(method.args.vararg.arg, "user_data")


def plain_timeouts():
    """Numbers of microseconds may be integers of NumPy."""
    event = next(node for node in parse().body
                 if isinstance(node, ast.ClassDef) and node.name == "Event")
    for node in event.body:
        if isinstance(node, ast.FunctionDef) and node.name in ("poll", "wait_timeout"):
            equal(ast.unparse(node.args.args[1]), "timeout_usec: SupportsIndex")


# Definitions that may have the type Any. Declare other types in bindings/python/stubs.
ALLOWED_ANY = {
    # Types of NumPy and dictionaries, whose values differ by entry
    "_Dictionary": 1, "_NDArray": 1, "_NumpyDType": 1,
    # Driver attributes
    "Device.__getattr__": 1, "Kernel.__getattr__": 1,
    # A number, or an array or number of NumPy
    "Array.item": 1, "Array.tolist": 1, "Array.__eq__": 1, "Array.__ne__": 1, "Array.__lt__": 1,
    "Array.__le__": 1, "Array.__gt__": 1, "Array.__ge__": 1,
    "Array.__reduce_ex__": 1, "Buffer.__reduce_ex__": 1, "bind_arguments": 1}


def count_any(body, prefix=""):
    """Yields (name, count) for the definitions of a module or a class in which Any occurs."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from count_any(node.body, f"{prefix}{node.name}.")
        elif not isinstance(node, ast.ImportFrom):
            count = sum(isinstance(one, ast.Name) and one.id == "Any" or
                        isinstance(one, ast.Constant) and isinstance(one.value, str) and
                        re.search(r"\bAny\b", one.value) is not None
                        for part in types_in(node) for one in ast.walk(part))
            if count > 0:
                yield f"{prefix}{next(names_in([node]))}", count


def types_in(node):
    """Returns the parts of a definition that are types, which excludes its docstring."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return [node.args] + [node.returns] * (node.returns is not None)
    return [node]


def plain_any():
    """Each type is declared. Any is only the type of values that can be anything."""
    equal(dict(count_any(parse().body)), ALLOWED_ANY, "definitions with the type Any")


TYPED = """
import array
import numpy as np
from gi.repository import GLib, GObject, Gpu

@Gpu.memoize
def get_kernel(context: Gpu.Context, name: str, size: int = 1) -> Gpu.Kernel:
    return Gpu.Program(context, name, f"-DN={size}").get_kernel(name)

class Holder:
    @Gpu.memoize(key=len)
    def get_size(self, names: list[str]) -> int:
        return len(names)

context = Gpu.Context("host")
reveal_type(get_kernel(context, "scale", size=4))
reveal_type(Holder().get_size(["a"]))
get_kernel.cache_clear()
with Gpu.using_allocator(Gpu.MemoryPool(context)) as pool:
    reveal_type(pool)
with Gpu.pinned(context, b"1") as memory:
    reveal_type(memory)
with Gpu.pinned(context, b"1", b"2") as memories:
    reveal_type(memories)
buffer = Gpu.Buffer(context, 16)
reveal_type(buffer.read())
reveal_type(buffer.read_into(bytearray(16)))
reveal_type(Gpu.Array.from_numpy(context, [1, 2]))
reveal_type(context.get_priority_range())
Gpu.Buffer(context, array.array("i", [1])).write(memoryview(b"1"))
buffer.write(GLib.Bytes.new(b"1"))
numbers = Gpu.Array(context, (2, 3), "float32")
reveal_type(numbers.shape)
numbers.memory.to_numpy("float32")
reveal_type(numbers.memory.size)
reveal_type(numbers[1:, None, ...])
stream = context.default_stream
reveal_type(stream.take_rows(numbers, numbers, np.array([1, 0], np.uint8)))
reveal_type(stream.put_rows(numbers, numbers, [np.int32(1), 0]))
stream.take_rows(numbers, numbers, range(2))
numbers.put(np.array([1, 0]), numbers.take((1, np.int64(0))))
reveal_type(numbers[np.array([1, 0])])
reveal_type(Gpu.Program(context, "").scale)
arguments = (numbers, 1, 1.5, None, b"1", Gpu.Local(4), Gpu.Out(bytearray(4)))
reveal_type(context.default_stream.launch(get_kernel(context, "a"), (4, 4), 2, arguments))
reveal_type(context.default_stream.call(len, "x"))
reveal_type(buffer.map().view().nbytes)
reveal_type(buffer.map()[np.int32(1)])
reveal_type(buffer.map()[1:])
context.default_stream.record().wait_timeout(np.int64(1))
reveal_type(context.device.vendor)

class Doubling(GObject.Object, Gpu.Allocator):
    def do_get_context(self) -> Gpu.Context:
        return context

    def do_alloc(self, size: int, stream: Gpu.Stream | None) -> Gpu.Memory:
        return Gpu.Buffer(context, 2 * size)

allocator = Gpu.FunctionAllocator(context, lambda size: Gpu.Buffer(context, size))
context.allocator = allocator
context.allocator = None
Gpu.LimitAllocator(allocator, 100)
Gpu.FunctionAllocator(context, Gpu.LimitAllocator(Doubling(), 100))
Gpu.ImageFormat(Gpu.ChannelOrder.RGBA, Gpu.ChannelType.UNORM8)
reveal_type(context.api_version)
reveal_type(context.priority_range)
reveal_type(Gpu.MemoryPool(context)(100).size)
reveal_type(allocator(100).size)
reveal_type(Gpu.MemoryPool(context).alloc_block(100).size)
np.from_dlpack(numbers)
np.from_dlpack(buffer)
with Gpu.Buffer(context, 16) as scratch:
    reveal_type(scratch)
reveal_type(Gpu.SvmAllocator(context)(100))
reveal_type(Gpu.HostAllocator(context).alloc(100))
reveal_type(Gpu.Image(context, "rgba-unorm8", (4, 4)).num_channels)
reveal_type(Gpu.StatisticsAllocator(allocator).current_bytes)

class Counting(Gpu.AllocatorAdaptor):
    def do_alloc(self, size: int, stream: Gpu.Stream | None) -> Gpu.Memory | None:
        return super().do_alloc(size, stream)

    def do_free(self, memory: Gpu.Memory) -> None:
        super().do_free(memory)

    def do_get_memory_info(self) -> tuple[int, int]:
        return super().do_get_memory_info()

class Own(GObject.Object, Gpu.Allocator):
    def do_free(self, memory: Gpu.Memory) -> None: ...
    def do_get_memory_info(self) -> tuple[int, int]:
        return 1, 2

async def main() -> None:
    reveal_type(await context.default_stream.record())
    reveal_type(await Gpu.Program.new_from_source_async(context, ""))
"""

REVEALED = ["Gpu.Kernel", "int", "Gpu.MemoryPool", "Gpu.HostMemory", "list[Gpu.HostMemory]",
            "bytes", "int", "Gpu.Array", "tuple[int, int]", "tuple[int, ...]",
            "int", "Gpu.Array", "bool", "bool", "Gpu.Array",
            "Gpu.Kernel", "bool", "concurrent.futures._base.Future[int]", "int", "int", "bytes",
            "str", "int", "tuple[int, int]", "int", "int", "int", "Gpu.Buffer",
            "Gpu.Svm", "Gpu.HostMemory", "int", "int", "bool", "Gpu.Program"]

# Wrong code, each with a part of mypy's error message
WRONG = [("Gpu.Buffer().no_such_thing(1)", "Buffer"),
         ("get_kernel(context, 1)", "int"), ("get_kernel(context)", "argument"),
         ("Holder().get_size([]).x", "int"), ("Gpu.using_allocator(5)", "using_allocator"),
         ("Gpu.Buffer('host', 16)", "str"), ("Gpu.LimitAllocator(5, 5)", "Allocator"),
         ("Gpu.Array(context, 1.5)", "float"),
         ("work = buffer.read_async(progress=5)", "int"), ("buffer.read() + 1", "bytes"),
         ("Gpu.pinned(context)", "pinned"), ("Gpu.pinned(1, b'')", "pinned"),
         ("Gpu.Buffer(context, 'text')", "str"), ("Gpu.Buffer(context, 1.5)", "float"),
         ("buffer.write('text')", "str"), ("numbers[1.5]", "float"),
         ("buffer.fill(1.5)", "float"), ("numbers.shape.x", "tuple"),
         ("context.default_stream.take_rows(numbers, numbers, 5)", "int"),
         ("context.default_stream.put_rows(numbers, numbers, [1.5])", "float"),
         ("context.default_stream.launch(None, 4)", "None"),
         ("context.default_stream.launch(get_kernel(context, 'a'), 1.5)", "float"),
         ("context.default_stream.launch(get_kernel(context, 'a'), 4, args=('text',))", "str"),
         ("context.default_stream.wait_event(None)", "None"),
         ("context.default_stream.copy(buffer, 5)", "int"),
         ("context.default_stream.call(5)", "int"), ("Gpu.Program(context, b'')", "bytes"),
         ("Gpu.Program(context, '', headers={1: ''})", "dict"),
         ("context.allocator = 5", "int"),
         ("Gpu.LimitAllocator(Gpu.Context().allocator, 5)", "Allocator"),
         ("context.priority_range[2]", "tuple"),
         ("buffer.wirte(b'x')", "wirte"), ("Gpu.Svm(context, 5).rite(3)", "rite"),
         ("Gpu.StatisticsAllocator(allocator).curent_bytes", "curent_bytes"),
         ("Gpu.ImageFormat(Gpu.ChannelType.UNORM8)", "ChannelType"),
         ("Gpu.FunctionAllocator(context, Gpu.Buffer)", "Buffer"),
         ("Gpu.MemoryPool.new_for_allocator(lambda size: buffer)", "Allocator"),
         ("Gpu.Context(5)", "int"), ("Gpu.Stream(context, 'x')", "str"),
         ("buffer.map()['a']", "str"),
         ("context.default_stream.record().wait_timeout(1.5)", "float"),
         ("list(Gpu.ImageType)", "ImageType"), ("len(Gpu.MapFlags)", "MapFlags")]


# Stubs for the rest of gi. A union with an unknown type accepts anything, so GLib.Bytes needs one.
# A class with an unknown base has any attribute, so the bases need stubs.
ANYTHING = "from typing import Any\ndef __getattr__(name: str) -> Any: ...\n"
BYTES = """class Bytes:
    @staticmethod
    def new(data: bytes) -> Bytes: ...
    def __getattr__(self, name: str) -> Any: ...
"""
OBJECT = """class GInterface: ...
class GBoxed: ...
class Object:
    def __init__(self, **properties: object) -> None: ...
    def connect(self, signal: str, callback: Any, *data: object) -> int: ...
    def disconnect(self, handler: int) -> None: ...
    def get_property(self, name: str) -> Any: ...
    def set_property(self, name: str, value: object) -> None: ...
"""
INITABLE = "class Initable: ...\nclass AsyncInitable: ...\n"


class Checker:
    """Runs mypy with these stubs, and without complete stubs for the rest of gi."""

    def __init__(self, folder):
        if subprocess.run([sys.executable, "-m", "mypy", "--version"],
                          capture_output=True).returncode:
            raise Skip("mypy is not installed")
        self._folder = folder
        package = os.path.join(folder, "gi")
        shutil.copytree(os.path.join(os.path.dirname(stubs_path()), ".."), package)
        for path in (".", "repository"):
            with open(os.path.join(package, path, "__init__.pyi"), "w", encoding="utf-8") as file:
                file.write(ANYTHING)
        for name, text in (("GLib", BYTES), ("GObject", OBJECT), ("Gio", INITABLE)):
            path = os.path.join(package, f"repository/{name}.pyi")
            with open(path, "w", encoding="utf-8") as file:
                file.write(ANYTHING + text)

    def check_text(self, text):
        path = os.path.join(self._folder, "program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return self.check(path)

    def check_stubs(self):
        return self.check("--strict", "--allow-subclassing-any",
                          os.path.join(self._folder, "gi/repository/Gpu.pyi"))

    def check(self, *paths):
        """Returns the exit status and the output of mypy."""
        result = subprocess.run(
            [sys.executable, "-m", "mypy", "--check-untyped-defs", "--scripts-are-modules",
             "--cache-dir", os.path.join(self._folder, "cache"), *paths],
            env={**os.environ, "MYPYPATH": self._folder}, capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr


def plain_examples():
    """mypy reports no error for programs that use the types correctly."""
    folder = os.path.join(os.environ.get("TEST_TOP_SRCDIR", "none"), "examples")
    examples = glob.glob(f"{folder}/python/*.py") + glob.glob(f"{folder}/ported/*.py")
    if not examples:
        raise Skip("the examples are not here")
    with tempfile.TemporaryDirectory() as folder:
        status, output = Checker(folder).check(*examples)
        equal(status, 0, output)


def plain_strict():
    """mypy reports no error for the types themselves."""
    parse()
    with tempfile.TemporaryDirectory() as folder:
        status, output = Checker(folder).check_stubs()
        equal(status, 0, output)


def plain_generic():
    """mypy infers types through decorators and callbacks, and reports wrong uses."""
    parse()
    with tempfile.TemporaryDirectory() as folder:
        checker = Checker(folder)
        status, output = checker.check_text(TYPED)
        equal(status, 0, output)
        output = output.replace("gi.repository.", "").replace("builtins.", "")
        equal([found.replace("Tuple", "tuple")
               for found in re.findall('Revealed type is "(.*)"', output)], REVEALED, output)
        plain = re.sub(r"reveal_type\((.*)\)", r"\1", TYPED)
        status, output = checker.check_text(plain + "".join(f"{line}\n" for line, _ in WRONG))
        equal(status, 1, output)
        for number, (line, word) in enumerate(WRONG, plain.count("\n") + 1):
            found = [text for text in output.splitlines() if f"program.py:{number}: error" in text]
            assert found and word.lower() in found[0].lower(), f"{line}: {output}"


# Wrong calls of gpumem.mpi
MPI = """import gi
gi.require_version("Gpu", "1.0")
from gi.repository import Gpu
from mpi4py import MPI
from gpumem import mpi
world, array = MPI.COMM_WORLD, Gpu.Array(Gpu.Context(), 3, "float32")
reveal_type(mpi.isend(world, array, 1).test())
with mpi.mapped(array[1:], Gpu.MapFlags.READ, direct=True) as data:
    mpi.recv(world, None)
mpi.send(world, b"text", 1)
mpi.recv(array, world)
"""


def plain_mpi():
    """mypy knows the types of gpumem.mpi."""
    if importlib.util.find_spec("mpi4py") is None:
        raise Skip("mpi4py is not installed")
    with tempfile.TemporaryDirectory() as folder:
        checker = Checker(folder)
        package = importlib.util.find_spec("gpumem").submodule_search_locations
        for path in glob.glob(os.path.join(glob.escape(package[0]), "*.py")):
            os.makedirs(f"{folder}/gpumem", exist_ok=True)
            shutil.copy(path, f"{folder}/gpumem")
        os.mkdir(f"{folder}/gi/overrides")
        for name, text in (("__init__", ""), ("_gpumem_checks", ANYTHING)):
            with open(f"{folder}/gi/overrides/{name}.pyi", "w", encoding="utf-8") as file:
                file.write(text)
        status, output = checker.check_text(MPI)
        lines = [int(line) for line in re.findall(r"program.py:(\d+): error", output)]
        equal((status, set(lines), 'type is "bool"' in output.replace("builtins.", "")),
              (1, {10, 11}, True), output)


if __name__ == "__main__":
    sys.exit(main(dict(globals())))

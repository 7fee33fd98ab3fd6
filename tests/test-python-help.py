#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Docstrings and signatures at run time, as help() and the completion of notebooks show them."""

import ast
import inspect
import os
import pydoc
import re
import subprocess
import sys

from python_util import Gpu, Skip, equal, main, run_without_fast
from gi.overrides import _gpumem_checks

HAS_MODULE = _gpumem_checks.fast is not None

# Markup of gtk-doc, and names of C
MARKUP = re.compile(r"[#%@](?!Gpu\.)[A-Za-z]\w*|GPU_ERROR|\|\["
                    r"|\bgpu_(?!device\b|context\b|stream\b)\w+\(")

LEAST = 600                                     # callables that the walk must find


def is_ours(kind):
    return kind.__module__.startswith(("gi.repository.Gpu", "gi.overrides._gpumem",
                                       "gi.overrides.Gpu"))


def list_names(kind):
    """Returns the public names that the library defines in a class."""
    names = set()
    for base in filter(is_ours, kind.__mro__):
        names |= {name for name in vars(base) if not name.startswith("_")}
    return sorted(names)


def list_callables():
    """Yields (name, callable) for all public functions and methods."""
    for name in dir(Gpu):
        value = None if name.startswith("_") else getattr(Gpu, name)
        if inspect.isclass(value):
            for member in list_names(value):
                if callable(getattr(value, member)) and not inspect.isclass(getattr(value, member)):
                    yield f"{name}.{member}", getattr(value, member)
        elif callable(value):
            yield name, value


def list_classes():
    return [value for name, value in vars(Gpu).items()
            if inspect.isclass(value) and not name.startswith("_")]


def plain_docstrings():
    """Every function and method has a docstring, without markup of C."""
    missing, marked, count = [], [], 0
    for name, value in list_callables():
        count += 1
        doc = value.__doc__ or ""
        if len(doc) < 10:
            missing.append(name)
        found = MARKUP.search(doc)
        if found and HAS_MODULE:
            marked.append((name, found[0]))
    assert count >= LEAST, count
    equal(missing, [])
    equal(marked, [])


def list_attributes():
    """Yields (name, attribute) for the attributes of all classes that programs use."""
    for kind in list_classes():
        if kind.__name__.endswith(("Class", "Interface")):     # of GObject's type system
            continue
        for name in list_names(kind):
            for owner in kind.__mro__:
                if name in vars(owner):
                    if inspect.isdatadescriptor(vars(owner)[name]):
                        yield f"{kind.__name__}.{name}", vars(owner)[name]
                    break


def plain_attributes():
    """Every attribute has a docstring without markup of C: that of the GIR, or one of its own."""
    if not HAS_MODULE:
        raise Skip("only the C module has the docstrings of the GIR")
    missing, marked, count = [], [], 0
    for name, attribute in list_attributes():
        count += 1
        doc = attribute.__doc__ or ""
        if len(doc) < 10 or not doc[0].isupper() and not doc.startswith("{"):
            missing.append((name, doc))
        found = MARKUP.search(doc)
        if found:
            marked.append((name, found[0]))
    assert count >= 180, count
    equal(missing, [])
    equal(marked, [])
    equal(Gpu.Buffer.size.__doc__, "The size in bytes.")
    equal(Gpu.Array.size.__doc__, "The number of elements.")
    equal(Gpu.Device.name.__doc__, "The name of the device, as the driver reports it.")
    text = pydoc.plain(pydoc.render_doc(Gpu.Stream))
    assert "The number of submitted operations." in text, text


LIST_DOCS = """
import gi, inspect
gi.require_version("Gpu", "1.0")
from gi.repository import Gpu
for name in dir(Gpu):
    kind = getattr(Gpu, name)
    if inspect.isclass(kind) and hasattr(kind, "__info__"):
        for member in dir(kind):
            value = inspect.getattr_static(kind, member)
            if isinstance(value, property):
                print(name, member, repr(value.__doc__))
"""


def plain_docs_of_attributes():
    """Docstrings of attributes are the same with each hash seed. Each class with driver attributes
    has a text of its own, also without the C module."""
    docs = [subprocess.run([sys.executable, "-c", LIST_DOCS], timeout=300, text=True, check=True,
                           env=dict(os.environ, PYTHONHASHSEED=seed), capture_output=True).stdout
            for seed in ("0", "1", "2", "3", "4")]
    assert docs[0].count("\n") > 100, docs[0]
    for other in docs[1:]:
        equal(other, docs[0])
    for kind, word in ((Gpu.Device, "device"), (Gpu.Buffer, "memory"), (Gpu.Image, "image"),
                       (Gpu.Kernel, "kernel")):
        assert word in (kind.attributes.__doc__ or ""), (kind, kind.attributes.__doc__)
    text = pydoc.plain(pydoc.render_doc(Gpu.Kernel))
    assert "reports for the kernel, as a" in text, text


PRINT_DOCS = """
import gi, inspect
gi.require_version("Gpu", "1.0")
from gi.repository import Gpu
for kind in Gpu.Array, Gpu.Buffer, Gpu.Event, Gpu.Image, Gpu.Kernel, Gpu.Mapping, Gpu.Stream:
    for name in "__getitem__ __call__ copy fill launch read read_into record unmap wait write \\
                 zeros".split():
        print(kind.__name__, name, inspect.getdoc(getattr(kind, name, None)))
"""


def plain_docs_of_methods():
    """A method of the C module has the docstring of the method that it replaces."""
    if not HAS_MODULE:
        raise Skip("this run has no C module")
    fast, slow = [subprocess.run([sys.executable, "-c", PRINT_DOCS], timeout=300, text=True,
                                 env=dict(os.environ, GPUMEM_PYTHON_FAST=enabled), check=True,
                                 capture_output=True).stdout for enabled in ("1", "0")]
    assert "A list of numbers selects rows" in fast, fast
    equal(fast.split("\n"), slow.split("\n"))


def plain_signatures():
    """Every function and method has a signature, which begins with self or cls unless it is bound
    or static, and has the parameters of the docstring."""
    missing, count = [], 0
    for name, value in list_callables():
        count += 1
        try:
            inspect.signature(value)
        except (TypeError, ValueError):
            missing.append(name)
    assert count >= LEAST, count
    equal(missing, [])
    buffer_slice = inspect.signature(Gpu.Buffer.slice)
    equal(list(buffer_slice.parameters)[1:], ["offset", "size"])
    poll = inspect.signature(Gpu.Event.poll).parameters
    equal(poll["cancellable"].default, None)
    equal(list(inspect.signature(Gpu.Context("host").push_current).parameters), [])
    equal(list(inspect.signature(Gpu.Buffer.new).parameters), ["context", "flags", "size"])
    equal(list(inspect.signature(Gpu.Extent(1).equal).parameters), ["b"])
    equal(list(inspect.signature(Gpu.Device.find).parameters), ["name"])
    equal(str(inspect.signature(Gpu.staging_get_n_threads)), "()")


def plain_constructors():
    """inspect.signature() of a class has the parameters of its constructor."""
    for kind, expected in ((Gpu.Buffer, "context size_or_data flags"),
                           (Gpu.Stream, "context flags"),
                           (Gpu.Svm, "context size svm_flags flags alignment"),
                           (Gpu.HostMemory, "context size flags numa_node"),
                           (Gpu.MemoryPool, "context kind flags limit"),
                           (Gpu.Array, "context shape dtype order allocator stream strides"),
                           (Gpu.Image, "context format extent image_type flags n_levels"),
                           (Gpu.Program, "context source options names headers flags"),
                           (Gpu.Context, "device flags"), (Gpu.Device, "name"),
                           (Gpu.Launch, "kernel grid block global_offset shared_size flags "
                                        "arguments"),
                           (Gpu.Extent, "width height depth")):
        equal(" ".join(inspect.signature(kind).parameters), expected, kind.__name__)


def plain_native_handles():
    """help() shows the text of properties that have no getter in C."""
    for kind, word in ((Gpu.Event, "CUevent"), (Gpu.Program, "CUmodule")):
        text = pydoc.plain(pydoc.render_doc(kind))
        assert re.search(rf"native_handle\n.*\n?.*{word}|native_handle\n(.*\n){{1,3}}.*{word}",
                         text), text[text.find("native_handle"):][:300]


def plain_classes():
    """The module and all its classes have docstrings. Without the C module, enumerations have
    none."""
    assert "Gpu.Context" in Gpu.__doc__ and "Gpu.Buffer" in Gpu.__doc__
    missing = {kind.__name__ for kind in list_classes() if not kind.__doc__}
    if not HAS_MODULE:
        missing = {name for name in missing if not issubclass(getattr(Gpu, name), int)}
    else:
        assert "mapping" in (Gpu.MapFlags.__doc__ or ""), Gpu.MapFlags.__doc__
    equal(missing, set())
    assert "Gpu.Extent(width" in Gpu.Extent.__doc__, Gpu.Extent.__doc__


def plain_quotes():
    """The C code of a docstring has its text in UTF-8, also before a hexadecimal digit."""
    if "TEST_TOP_SRCDIR" not in os.environ:
        raise Skip("the installed tests lack the sources of the C module")
    folder = os.path.join(os.environ["TEST_TOP_SRCDIR"], "bindings/python/functions")
    sys.path.insert(0, folder)
    try:
        from functions_docs import _quote
    finally:
        sys.path.remove(folder)
    for text in ("plain\n", "\u00e9a\u00b5" + "1", "\u20ac\n\U0001f600f", "a \"b\" \\303"):
        code = _quote(text)
        assert code.isascii(), code
        # Octal escapes of bytes mean the same in Python and C.
        equal(b"".join(ast.literal_eval(f"b{line.strip()}") for line in code.split("\n")),
              text.encode())


def plain_raised():
    """Errors follow "raises" in every docstring from the library's documentation."""
    texts = [(name, " ".join((value.__doc__ or "").split())) for name, value in list_callables()]
    found = [(name, what) for name, text in texts
             for what in re.findall(r"; raises\b(.{,30})", text)]
    wrong = [one for one in found if not re.match(r":| (Gpu\.Error\.|G_IO_ERROR|GIOError"
                                                  r"|the |an )", one[1])]
    assert len(found) >= 100 or not HAS_MODULE, len(found)
    equal(wrong, [])
    assert "Gpu.TimedOutError" in Gpu.Event.wait_timeout.__doc__


def plain_text():
    """Docstrings of the library list parameters and errors; those of the main methods of the
    overrides mention shapes, dtypes, copies and errors."""
    if HAS_MODULE:
        text = Gpu.Buffer.slice.__doc__
        for words in ("slice(offset: int, size: int) -> Buffer", "size: size of the slice in bytes",
                      "raises Gpu.Error.INVALID_ARGUMENT", "Gpu.Device.get_base_alignment()"):
            assert words in text, text
    for method, words in [(Gpu.Buffer.to_numpy, ("copy", "dtype", "shape", "ValueError")),
                          (Gpu.Array.__getitem__, ("view", "a copy", "IndexError")),
                          (Gpu.Array.__reduce_ex__, ("shape", "dtype", "NumPy array")),
                          (Gpu.Array.from_numpy, ("copy", "Shape and dtype", "TypeError"))]:
        for word in words:
            assert word in method.__doc__, f"'{word}' is not in {method.__doc__}"
    if not HAS_MODULE:
        for word in ("dtype", "not converted", "ValueError"):
            assert word in Gpu.Buffer.write.__doc__, Gpu.Buffer.write.__doc__


def plain_new_wrapped():
    """help() of the functions that wrap handles names the parameters, the ownership and the errors,
    in terms of Python."""
    kinds = [kind for kind in list_classes() if hasattr(kind, "new_wrapped")]
    assert len(kinds) >= 7, kinds
    for kind in kinds:
        text = pydoc.plain(pydoc.render_doc(kind.new_wrapped))
        assert not re.search(r"\bGPU_[A-Z]|\bGBytes\b|; with Gpu", text), text
        # Without the C module, docstrings of functions that have no override are those of PyGObject
        if HAS_MODULE or kind in (Gpu.Event, Gpu.Image):
            for word in ("handle", "ownership", "BORROW", "INVALID_ARGUMENT", "NOT_SUPPORTED"):
                assert word in text, f"{word}: {text}"


def plain_pydoc():
    """help() of every class contains its methods with their signatures."""
    for kind in list_classes():
        pydoc.plain(pydoc.render_doc(kind))
    text = pydoc.plain(pydoc.render_doc(Gpu.Buffer))
    assert re.search(r"write\(self, (/, )?data, offset=0, stream=None\)", text)
    assert re.search(r"slice\(self, /, offset, size\)" if HAS_MODULE
                     else r"slice\(self_, offset, size\)", text)


FIRST_USE = """
import gi
gi.require_version("Gpu", "1.0")
from gi.repository import Gpu
Gpu.Device.find("host")
"""


def plain_debug_help():
    """GPUMEM_DEBUG=help lists the topics even if the program only finds a device."""
    result = subprocess.run([sys.executable, "-c", FIRST_USE], timeout=300, text=True,
                            env=dict(os.environ, GPUMEM_DEBUG="help"), capture_output=True)
    equal(result.returncode, 0, result.stderr)
    for topic in ("hazards", "stage", "marks"):
        assert topic in result.stderr, result.stderr


def plain_without_fast():
    """Repeats all tests of this file without the C module."""
    run_without_fast(__file__)


if __name__ == "__main__":
    sys.exit(main(dict(globals())))

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names of Python in messages of the library, which name functions and constants of C."""

import contextlib
import os
import re
import sys

import gi
from gi.repository import GLib

from ..module import get_introspection_module, repository
from ._gpumem_callbacks import get_call

Gpu = get_introspection_module("Gpu")

GENERATED = "<gi.overrides.Gpu>"                # the file of generated functions in tracebacks

_FOLDERS = (os.path.dirname(__file__), os.path.dirname(gi.__file__), GENERATED)

_SYMBOL = re.compile(r"\bgpu_[a-z0-9_]*[a-z0-9]\b(?!\.)|\bGPU_[A-Z0-9_]*[A-Z0-9]\b")
_CLASS = re.compile(r"\bGpu([A-Z]\w*)")
FUNCTION = re.compile(r"[A-Z]\w*\.\w+: ")       # at the start of a message
_PREFIX = re.compile(r"(gpu_[a-z0-9_]+): ")

# Functions that methods of another name call. A message may be that of an earlier call.
_OTHER_NAMES = {"gpu_buffer_read_bytes": "Buffer.read",
                "gpu_buffer_read_bytes_async": "Buffer.read_async",
                "gpu_buffer_try_read_address": "Buffer.read",
                "gpu_buffer_try_write_address": "Buffer.write",
                "gpu_buffer_write_bytes": "Buffer.write",
                "gpu_buffer_write_bytes_async": "Buffer.write_async",
                "gpu_input_stream": "Gpu.InputStream",
                "gpu_output_stream": "Gpu.OutputStream",
                "gpu_program_new_from_source_full": "Gpu.Program",
                "gpu_stream_launch_arguments": "Stream.launch",
                "gpu_stream_read_bytes": "Stream.read"}

_CONSTANTS = {"GPU_LAUNCH_FLAGS_ALLOW_EMPTY": "allow_empty=True"}

_table = {}

# The names of functions of the overrides that programs call, by their code
_callable_names = {}


def is_of_overrides(path):
    """Returns whether a source file is part of PyGObject or of the overrides."""
    return path.startswith(_FOLDERS)


def register(function, name):
    """Gives a function of the overrides a name for messages. All functions with one decorator
    share the code of its wrapper, which therefore gets no name."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    if code is not None and is_of_overrides(code.co_filename):
        _callable_names[code] = name


def _name_function(owner, info):
    name = info.get_name()
    if owner == "":
        return f"Gpu.{name}"
    return f"Gpu.{owner}" if name == "new" and info.is_constructor() else f"{owner}.{name}"


def _name_value(owner, name):
    """Returns the C name and the Python name of a value of an enumeration or of flags."""
    name = name.upper().rstrip("_")
    value = getattr(getattr(Gpu, owner), name, None)
    names = [getattr(value, "first_value_name", None), getattr(value, "value_name", None)]
    return next(filter(None, names), None), f"Gpu.{owner}.{name}"


def _get_table():
    """Returns the names of Python by those of C, from the typelib."""
    if not _table:
        table = {}
        for info in repository.get_infos("Gpu"):
            owner = info.get_name()
            for method in getattr(info, "get_methods", tuple)():
                table[method.get_symbol()] = _name_function(owner, method)
            for value in getattr(info, "get_values", tuple)():
                c_name, name = _name_value(owner, value.get_name())
                table[c_name] = name
            if hasattr(info, "get_symbol"):
                table[info.get_symbol()] = _name_function("", info)
        table.update(_CONSTANTS)
        _table.update(table)
    return _table


def _find_name(symbol):
    """Returns the name of Python, or the symbol. A function that the typelib does not have gets the
    name of the class with the longest matching name."""
    table = _get_table()
    name = table.get(symbol)
    if name is not None or symbol.startswith("GPU_"):
        return name or symbol
    words = symbol.split("_")
    for count in range(len(words) - 1, 1, -1):
        owner = "".join(words[1:count]).lower()
        for kind in {name.rpartition(".")[0] for name in table.values()}:
            if kind.lower() == owner:
                return f"{kind}.{'_'.join(words[count:])}"
    return symbol


def _replace_symbol(match):
    symbol = match[0]
    return _OTHER_NAMES.get(symbol) or _find_name(symbol)


def _replace_class(match):
    return match[0] if repository.find_by_name("Gpu", match[1]) is None else f"Gpu.{match[1]}"


def find_caller():
    """Returns the name of the function of the overrides that the program called, or None."""
    name, frame = None, sys._getframe(1)
    while frame is not None and (is_of_overrides(frame.f_code.co_filename)
                                 # the with statements of the overrides
                                 or frame.f_code.co_filename == contextlib.__file__):
        if frame.f_code is run_for.__code__:
            return frame.f_locals["caller"] or name
        name = _callable_names.get(frame.f_code, name)
        frame = frame.f_back
    return name


def name_call(error, caller):
    """Puts the function that the program called in front of the message of failed work, unless the
    message names a function already. Returns the error."""
    if caller and isinstance(error, GLib.Error) and not FUNCTION.match(error.message):
        error.message = f"{caller}: {error.message}"
        error.is_named = True
    return error


def run_for(caller, function):
    """Calls a function on another thread than the program, which has called the function of the
    overrides with the name caller."""
    return function()


def _name_call(symbol):
    """Returns the name of the function that the program called if its call of a C function has
    reported the error for this symbol. Returns None if the message may be that of an earlier call,
    for example in a wait."""
    if symbol in ("gpu_input_stream", "gpu_output_stream"):     # in functions of Gio
        return find_caller()
    name, called = get_call()
    if called is not None and not isinstance(called, str):
        called = getattr(called, "get_symbol", str)()
    for one in (called or "").split():
        if one.endswith("_finish") and symbol == one.removesuffix("finish") + "async":
            return find_caller()
        # A function with more parameters reports errors for that with fewer parameters
        if one.startswith(symbol) and not one.endswith("_finish"):
            return find_caller() or name or _find_name(one)
    return None


def to_python(message):
    """Replaces the names of C in a message. The message begins with the function that failed."""
    if "gpu_" not in message and "GPU_" not in message:
        return message
    match = _PREFIX.match(message)
    name = _name_call(match[1]) if match else None
    if name is not None:
        message = f"{name}: {message[match.end():]}"
    return _CLASS.sub(_replace_class, _SYMBOL.sub(_replace_symbol, message))

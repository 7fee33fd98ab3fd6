# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the C functions, their table, and the report."""

import re

from functions_types import INTEGERS, Excluded, Types

HEAD = """\
/* Written by make-functions from the GIR. Do not edit. */
#include "gpumem-fast-function.h"

#include <gio/gunixfdlist.h>

"""

# All functions of these types are computations, without locks and drivers.
PURE = {"Color", "DType", "Extent", "ImageFormat", "Layout"}

# Functions that only read fields that never change, or that are read atomically. All others run
# without the GIL: they may wait for a lock or for the driver, or free an object whose finalizer
# needs the GIL.
QUICK = {"Arguments": {"add_double", "add_int", "add_uint", "new"},
         "Array": {"get_context", "get_dtype", "get_memory", "get_n_dims", "get_n_elements",
                   "get_offset", "get_shape", "get_size", "get_strides", "is_writable"},
         "Buffer": {"get_memory", "get_offset", "get_parent", "get_row_pitch"},
         "Device": {"get_id", "get_name"},
         "Image": {"get_buffer", "get_format", "get_image_type", "get_n_levels", "get_parent",
                   "get_row_pitch", "get_slice_pitch"},
         "Kernel": {"get_n_arguments", "get_name"},
         "Memory": {"get_context", "get_flags", "get_size", "is_released"},
         "Sampler": {"get_context"},
         "Stream": {"get_context", "get_priority"}}


def _keeps_gil(function):
    return function.owner in PURE or function.name in QUICK.get(function.owner, ())


def _c_name(function):
    return re.sub(r"\W", "_", function.full_name).lower()


class Writer:
    """Collects the parts of one C function."""

    def __init__(self, function, types):
        self.function = function
        self.types = types
        self.first = 1 if function.kind != "function" else 0      # the object or the class
        self.declarations, self.conditions, self.arguments, self.results = [], [], [], []
        self.n_values = self.first + len(function.list_inputs())
        self._add_first()
        self._add_parameters()
        self._add_result()
        if function.throws:
            self.declarations.append("GError *error = NULL;")
            self.arguments.append("&error")

    def _add_first(self):
        function = self.function
        if function.takes_instance:
            raise Excluded("a method that frees its object")
        if function.kind == "constructor":
            self.conditions.append(f'gpu_fast_is_class (values[0], "{function.owner}")')
        elif function.kind == "method":
            lines, condition, argument = self.types._typed_to_c(function.owner, function, "c_self_",
                                                                "values[0]", "FALSE")
            self.declarations += lines
            self.conditions.append(condition)
            self.arguments.append(argument)

    def _add_parameters(self):
        """Adds the parameters. The argument for the length of an array is a name that depends on
        the array."""
        function, position = self.function, self.first
        arrays = {value.type.length: value for value in function.parameters
                  if value.type.length is not None}
        for index, value in enumerate(function.parameters):
            if index == function.result.type.length:
                self.declarations.append(f"{INTEGERS[value.type.name][0]} n_result = 0;")
                self.arguments.append("&n_result")
            elif index in arrays:
                self.arguments.append(f"n_c_{arrays[index].name}")
            elif value.is_out and not value.is_inout:
                line, argument, item = self.types.out(value, function, "c_" + value.name)
                self.declarations.append(line)
                self.arguments.append(argument)
                self.results.append(item)
            else:
                lines, condition, argument = self.types.to_c(value, function, position)
                self.declarations += lines
                self.conditions.append(condition)
                self.arguments.append(argument)
                position += 1

    def _add_result(self):
        result = self.function.result
        item = self.types.result(result, self.function)
        self.has_result = item is not None
        if item is None:
            return
        if result.is_skipped and result.type.name != "gboolean":
            raise Excluded("a result that is not returned")
        self.declarations.append(f"{result.type.c_type} result;".replace("* ", " *"))
        if not result.is_skipped:
            self.results.insert(0, item)

    def _lines_of_call(self):
        call = f"{self.function.symbol} ({', '.join(self.arguments)});"
        call = f"  result = {call}" if self.has_result else f"  {call}"
        if _keeps_gil(self.function):
            return [call]
        return ["  Py_BEGIN_ALLOW_THREADS", call, "  Py_END_ALLOW_THREADS"]

    def _lines_of_results(self):
        if not self.results:
            return ["  Py_RETURN_NONE;"]
        if len(self.results) == 1:
            return [f"  return {self.results[0]};"]
        lines = [f"  items[{i}] = {item};" for i, item in enumerate(self.results)]
        return [*lines, "", f"  return gpu_fast_pack (callable, items, {len(self.results)});"]

    def code(self):
        name, has_tuple = _c_name(self.function), len(self.results) > 1
        lines = ["static PyObject *",
                 f"call_{name} (PyObject *callable, PyObject *const *args, size_t n_args, "
                 "PyObject *names)", "{",
                 f"  PyObject *slots[{max(self.n_values, 1)}];",
                 "  PyObject *const *values = gpu_fast_bind (callable, args, n_args, names, "
                 "slots);"]
        lines += ["  " + line for line in self.declarations]
        if has_tuple:
            lines.append(f"  PyObject *items[{len(self.results)}];")
        conditions = self.conditions + ["gpu_fast_can_pack (callable)"] * has_tuple
        lines += ["", "\n      || !".join(["  if (values == NULL", *conditions]) + ")",
                  "    return gpu_fast_forward (callable, args, n_args, names);", "",
                  *self._lines_of_call(), ""]
        if self.function.throws:
            lines += ["  if (error != NULL)", "    return gpu_fast_raise (error);", ""]
        return "\n".join([*lines, *self._lines_of_results(), "}", "", ""])

    def table(self):
        """Returns the entry of the table, and the list of names that the entry refers to."""
        function, name = self.function, _c_name(self.function)
        inputs = function.list_inputs()
        names = "".join(f'"{value.name}", ' for value in inputs)
        owner = f'"{function.owner}"' if function.owner else "NULL"
        kind = f"GPU_FAST_{function.kind.upper()}"
        # The frame of a call has the name of the function for the message of its error
        is_quick = "TRUE" if _keeps_gil(function) and not function.throws else "FALSE"
        return (f'  {{ {owner}, "{function.name}", "{function.symbol}", {kind}, call_{name}, '
                f"names_{name}, {len(inputs)}, {function.count_required()}, {is_quick} }},\n",
                f"static const char *const names_{name}[] = {{ {names}NULL }};\n")


def write_functions(namespace):
    """Returns the C code, and the reasons why the other functions stay with PyGObject, by name."""
    types = Types(namespace)
    writers, reasons = [], {}
    for function in namespace.functions:
        before = dict(types.classes)
        try:
            writers.append(Writer(function, types))
        except Excluded as error:
            types.classes = before
            reasons[function.full_name] = str(error)
    classes = "".join(
        f'static GpuFastClass class_{name.replace(".", "_")} = {{ "{name.split(".")[0]}", '
        f'"{name.split(".")[1]}", {get_type}, NULL }};\n'
        for name, get_type in sorted(types.classes.items()))
    entries, names = zip(*(writer.table() for writer in writers))
    return (HEAD + classes + "\n" + "".join(writer.code() for writer in writers) + "".join(names)
            + "\nconst GpuFastSpec gpu_fast_specs[] = {\n" + "".join(entries)
            + "};\n\nconst guint gpu_fast_n_specs = G_N_ELEMENTS (gpu_fast_specs);\n\n"), reasons


def write_report(namespace, reasons):
    """Returns the text of the report."""
    n_all = len(namespace.functions)
    lines = [f"{n_all - len(reasons)} of {n_all} functions are called without introspection. "
             "These stay with PyGObject:", ""]
    lines += [f"{name}(): {reason}" for name, reason in sorted(reasons.items())]
    return "\n".join(lines) + "\n"

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Constructors of programs: options as lists, and binaries as bytes-like objects."""

import functools

from gi.repository import GLib

from ..module import get_introspection_module
from ._gpumem import to_glib_bytes
from ._gpumem_async import AsyncProgram
from ._gpumem_values import to_headers, to_names, to_options

Gpu = get_introspection_module("Gpu")


_FOR_SOURCE = {"flags", "headers", "names"}


def _without_source(function):
    """Decorates a constructor for other code than source text: its error for parameters of source
    text names the right constructor."""
    @functools.wraps(function)
    def method(cls, *args, **kwargs):
        wrong = sorted(_FOR_SOURCE & kwargs.keys())
        if wrong:
            raise TypeError(f"{method.__qualname__}() takes no {' and no '.join(wrong)}, which "
                            "only source text needs: pass the text of the source to Gpu.Program()")
        return function(cls, *args, **kwargs)
    return method


class ProgramMethods(AsyncProgram):

    def __new__(cls, context, source, options=None, names=None, headers=None,
                flags=Gpu.ProgramFlags.NONE):
        return cls.new_from_source(context, source, options, flags, names, headers)

    def __init__(self, *args, **kwargs):
        pass

    @classmethod
    def new_from_source(cls, context, source, options=None, flags=Gpu.ProgramFlags.NONE,
                        names=None, headers=None):
        """Builds a program from source text. The options are a string or a list of strings. names
        lists the templates, overloads and variables that the program looks up later. headers maps
        the names of headers to their texts. Raises Gpu.BuildFailedError with the compiler's log."""
        return Gpu.Program.new_from_source_full(context, source, to_options(context, options),
                                                flags, to_names(names), to_headers(headers))

    @classmethod
    def new_from_source_full(cls, context, source, options=None, flags=Gpu.ProgramFlags.NONE,
                             names=None, headers=None):
        """The same as new_from_source()."""
        return cls.new_from_source(context, source, options, flags, names, headers)

    @classmethod
    @_without_source
    def new_from_binary(cls, context, binary, options=None):
        """Loads a program from a bytes-like object."""
        return Gpu.Program.new_from_binary(context, to_glib_bytes(binary),
                                           to_options(context, options))

    @classmethod
    @_without_source
    def new_from_il(cls, context, il, options=None):
        """Builds a program from SPIR-V, a bytes-like object."""
        return Gpu.Program.new_from_il(context, to_glib_bytes(il), to_options(context, options))

    @classmethod
    @_without_source
    def new_from_file(cls, context, file, options=None):
        """Loads or builds a program from a Gio.File."""
        return Gpu.Program.new_from_file(context, file, to_options(context, options))

    @staticmethod
    def compile(context, source, options=None, headers=None):
        """Compiles source to bytes for Gpu.Program.new_linked(). headers maps the names of headers
        to their texts."""
        return Gpu.Program.compile(context, source, to_options(context, options),
                                   to_headers(headers)).get_data()

    @classmethod
    @_without_source
    def new_linked(cls, context, images, options=None):
        """Links bytes-like objects from Gpu.Program.compile()."""
        return Gpu.Program.new_linked(context, [to_glib_bytes(image) for image in images],
                                      to_options(context, options))

    def __iter__(self):
        return map(self.get_kernel, self.list_kernels())

    def __dir__(self) -> "list[str]":
        return [*super().__dir__(), *self.list_kernels()]

    def __getattr__(self, name):
        if not name.startswith("_"):
            try:
                return self.get_kernel(name)
            except GLib.Error as error:
                if not error.matches(Gpu.error_quark(), Gpu.Error.INVALID_ARGUMENT):
                    raise
                raise AttributeError(error.message) from None
        raise AttributeError(name)

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Loads the C library from the folder of the typelib or its parent, for a wheel or a prefix that
the dynamic linker does not search. The typelib names the library without a folder, so the
linker uses the library that is already loaded."""

import ctypes
import functools
import os

from gi._gi import Repository

_LIBRARY = "libgpumem-1.0.so.0"


def _load():
    folder = os.path.dirname(Repository.get_default().get_typelib_path("Gpu"))
    if os.path.exists(os.path.join(folder, "libOpenCL.so.1")):      # a wheel
        try:
            ctypes.CDLL("libOpenCL.so.1")
        except OSError:
            ctypes.CDLL(os.path.join(folder, "libOpenCL.so.1"))
    for library in (os.path.join(folder, _LIBRARY),
                    os.path.join(os.path.dirname(folder), _LIBRARY)):
        if os.path.exists(library):
            ctypes.CDLL(library)
            break


@functools.cache
def load_symbols():
    """Returns the library, for functions that are not in the typelib."""
    return ctypes.CDLL(_LIBRARY)


_load()

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C module: fast is the module, or None if it is missing or disabled by GPUMEM_PYTHON_FAST=0;
error is the reason why it is missing, or None; BufferBase is a base of Gpu.Buffer."""

import os

from . import _gpumem_library  # noqa: F401  first: the module needs the library


def _load():
    if os.environ.get("GPUMEM_PYTHON_FAST") == "0":
        return None, None
    try:
        from . import _gpumem_fast
    except ImportError as error:
        return None, error
    return _gpumem_fast, None


class _BufferBase:
    pass


fast, error = _load()
BufferBase = _BufferBase if fast is None else fast.BufferBase

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Loads the installed typelib with the installed override from the given folder, and copies bytes
to and from a device."""

import os
import sys

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import Gpu  # noqa: E402

overrides = sys.argv[1]
override = sys.modules.get("gi.overrides.Gpu")
assert override is not None, "no override was loaded"
assert override.__file__.startswith(overrides), f"{override.__file__} is not in {overrides}"

stubs = os.path.join(os.path.realpath(override.__file__), "../../../gi-stubs/repository/Gpu.pyi")
assert os.path.exists(os.path.abspath(stubs)), f"there is no {os.path.abspath(stubs)}"

context = Gpu.Context("host")
data = bytes(range(256)) * 16
buffer = Gpu.Buffer(context, data)
assert buffer.read() == data, "the bytes read differ from those written"
where = "in a virtual environment" if sys.prefix != sys.base_prefix else "as installed"
print(f"installcheck: Python, {where}, on {context.device.name}")

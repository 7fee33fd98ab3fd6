# SPDX-License-Identifier: LGPL-2.1-or-later
"""Loads the installed typelib with the installed override."""

import sys

import gi

gi.require_version("Gpu", "1.0")
from gi.repository import Gpu  # noqa: E402

overrides = sys.argv[1]
override = sys.modules.get("gi.overrides.Gpu")
assert override is not None, "no override was loaded"
assert override.__file__.startswith(overrides), f"{override.__file__} is not in {overrides}"

device = Gpu.Device.find("host")
print("installcheck: Python, on", device.get_name())

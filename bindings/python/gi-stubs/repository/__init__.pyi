# SPDX-License-Identifier: LGPL-2.1-or-later
from typing import Any

def __getattr__(name: str) -> Any: ...

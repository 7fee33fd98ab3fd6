#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs each section of the guide for users of PyCUDA as the test /parity/ROW, on every device that
GPUMEM_TEST selects."""

import sys

from guide_util import main_in_folder, parity_cases

if __name__ == "__main__":
    sys.exit(main_in_folder(dict(parity_cases("coming-from-pycuda"))))

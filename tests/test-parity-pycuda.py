#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Each row of parity in the guide for PyCUDA, run as /parity/ROW on every device that GPUMEM_TEST
chooses."""

import sys

from guide_util import main_in_folder, parity_cases

if __name__ == "__main__":
    sys.exit(main_in_folder(dict(parity_cases("coming-from-pycuda"))))

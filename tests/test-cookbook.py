#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs each recipe of the cookbook on every device that GPUMEM_TEST selects."""

import sys

from guide_util import main_in_folder, section_cases

if __name__ == "__main__":
    sys.exit(main_in_folder(dict(section_cases("cookbook"))))

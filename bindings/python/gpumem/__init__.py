# SPDX-License-Identifier: LGPL-2.1-or-later
"""Parts of gpumem for other libraries. The classes are in gi.repository.Gpu."""

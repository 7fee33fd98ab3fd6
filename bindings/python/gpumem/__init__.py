# SPDX-License-Identifier: LGPL-2.1-or-later
"""Parts of gpumem that need no introspection. The classes are in gi.repository.Gpu."""

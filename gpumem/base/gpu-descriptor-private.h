/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* File descriptors. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Duplicates @fd, closed on exec. Returns -1 with GPU_ERROR_FAILED if that is impossible; the error
 * names the limit if the process has too many open. */
int _gpu_descriptor_duplicate (int      fd,
                               GError **error);

G_END_DECLS

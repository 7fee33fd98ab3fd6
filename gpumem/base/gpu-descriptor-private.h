/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* File descriptors. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Duplicates @fd and sets FD_CLOEXEC on the copy. Returns -1 with GPU_ERROR_FAILED if the system
 * call fails. If the process has too many descriptors open, the message names the limit. */
int _gpu_descriptor_duplicate (int      fd,
                               GError **error);

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* File descriptors. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Duplicates @fd and sets FD_CLOEXEC on the copy. Returns -1 with GPU_ERROR_FAILED if the system
 * call fails. If the process has too many descriptors open, the message names the limit. */
int _gpu_descriptor_duplicate (int      fd,
                               GError **error);

/* Returns an empty array of descriptors, which g_array_unref() closes. */
GArray *_gpu_descriptors_new  (void);
/* Removes the only descriptor from @fds and returns it. Returns -1 with GPU_ERROR_NOT_SUPPORTED if
 * the memory, which has @size bytes, has several descriptors. */
int _gpu_descriptors_take_only (GArray  *fds,
                                gsize    size,
                                GError **error);

G_END_DECLS

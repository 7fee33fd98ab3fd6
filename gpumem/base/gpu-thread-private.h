/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Returns a number that identifies the calling thread, from 1. Unlike the address of a GThread, it
 * is never reused in the process. */
guint64 _gpu_thread_get_number (void);

G_END_DECLS

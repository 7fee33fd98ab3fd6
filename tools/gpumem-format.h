/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

char *gpumem_format_size    (guint64   bytes);
char *gpumem_format_time    (gint64    nanoseconds);
char *gpumem_format_speed   (guint64   bytes,
                             gint64    nanoseconds);
char *gpumem_format_variant (GVariant *value);
/* Parses a size such as "4096", "64K" or "1GiB". */
gboolean gpumem_parse_size  (const char  *word,
                             guint64     *size,
                             GError     **error);

G_END_DECLS

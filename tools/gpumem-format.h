/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

char *gpumem_format_size    (guint64   bytes);
char *gpumem_format_time    (gint64    nanoseconds);
char *gpumem_format_speed   (guint64   bytes,
                             gint64    nanoseconds);
char *gpumem_format_variant (GVariant *value);

G_END_DECLS

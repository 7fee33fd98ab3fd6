/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib-object.h>

G_BEGIN_DECLS

/* Return the nicks of enumerations and flags, for error messages. */
char *_gpu_enum_get_nick   (GType type,
                            int   value);
char *_gpu_flags_get_nicks (GType type,
                            guint flags);

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib-object.h>

G_BEGIN_DECLS

/* Both functions return (transfer full) the nick of a value, or the nicks of flags, for error
 * messages. */
char *_gpu_enum_get_nick   (GType type,
                            int   value);
char *_gpu_flags_get_nicks (GType type,
                            guint flags);

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib-object.h>

G_BEGIN_DECLS

/* These two functions return (transfer full) the nick of a value, or the nicks of flags, for error
 * messages. */
char *_gpu_enum_get_nick   (GType type,
                            int   value);
char *_gpu_flags_get_nicks (GType type,
                            guint flags);
/* Return FALSE with GPU_ERROR_INVALID_ARGUMENT if @type has no such value, or if @flags has bits
 * that @type lacks. The error message contains the noun @what. Constructors must check before they
 * set a property: GObject replaces invalid values, with a warning and without an error. */
gboolean _gpu_enum_check   (GType        type,
                            int          value,
                            const char  *what,
                            const char  *function,
                            GError     **error);
gboolean _gpu_flags_check  (GType        type,
                            guint        flags,
                            const char  *what,
                            const char  *function,
                            GError     **error);

G_END_DECLS

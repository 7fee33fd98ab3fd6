/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names of built-in functions of OpenCL C, which programs must not define. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

gboolean  _gpu_builtin_has_name       (const char  *name);
/* If @error is GPU_ERROR_BUILD_FAILED, appends to its message the names of those functions of
 * @source that are also names of built-in functions. Only called after a failed build, because such
 * a name is not always an error: a program may #undef the name, or only define the function for
 * other back ends. */
void      _gpu_builtin_explain_failure (const char  *source,
                                        GError     **error);

G_END_DECLS

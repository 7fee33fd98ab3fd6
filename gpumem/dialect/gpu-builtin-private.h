/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names of built-in functions of OpenCL C, which programs must not define. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

gboolean  _gpu_builtin_has_name       (const char  *name);
/* Prefixes a GPU_ERROR_BUILD_FAILED error with the functions of @source that have the name of a
 * built-in function. Only called after a failed build: a program may #undef a name, or define the
 * function for other back ends only, so the name alone is no reason to refuse the program. */
void      _gpu_builtin_explain_failure (const char  *source,
                                        GError     **error);

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The names of the built-in functions of OpenCL C, which a program must not define itself. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Whether @name is the name of a built-in function of OpenCL C. */
gboolean  _gpu_builtin_has_name       (const char  *name);
/* Prefixes @error, if it is GPU_ERROR_BUILD_FAILED, with the functions of @source that have the
 * name of a built-in function. Called after a build has failed: a program may #undef a name, or
 * define the function for other back ends only, so the name alone is no reason to refuse it. */
void      _gpu_builtin_explain_failure (const char  *source,
                                        GError     **error);

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names of built-in functions of OpenCL C. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* NULL-terminated: functions with one and with two floating-point arguments that <math.h> has too,
 * and names of functions with one argument that may follow the prefixes "native_" and "half_". */
extern const char *const _gpu_builtin_unary[];
extern const char *const _gpu_builtin_binary[];
extern const char *const _gpu_builtin_fast[];

/* Programs must not define functions with these names. */
gboolean  _gpu_builtin_has_name       (const char  *name);
/* If @error is GPU_ERROR_BUILD_FAILED, adds to its message the names of those functions of @source
 * that are also names of built-in functions, and whether @source is CUDA C++ or uses the type half.
 * Not called for CUDA C++ on the CUDA back end. Only called after a failed build, because such a
 * name is not always an error: a program may #undef the name, or only define the function for other
 * back ends. */
void      _gpu_builtin_explain_failure (const char  *source,
                                        GError     **error);

G_END_DECLS

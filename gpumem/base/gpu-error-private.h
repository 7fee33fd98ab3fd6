/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

#include "gpumem/base/gpu-error.h"

G_BEGIN_DECLS

/* Returns FALSE, with an error of @function, if @cancellable is cancelled. It is nullable. */
gboolean _gpu_error_check_cancelled  (GCancellable  *cancellable,
                                      const char    *function,
                                      GError       **error);

/* Like g_task_propagate_boolean() and g_task_propagate_pointer(), but the error of a cancelled call
 * names @function: GTask replaces the error of the library by an error without a name. */
gboolean _gpu_error_propagate_boolean (GAsyncResult  *result,
                                      const char    *function,
                                      GError       **error);
gpointer _gpu_error_propagate_pointer (GAsyncResult  *result,
                                      const char    *function,
                                      GError       **error);

/* Returns whether the request that failed with @error may succeed after other memory is freed. */
gboolean _gpu_error_is_out_of_memory (const GError *error);
/* Allocates @n elements of @size bytes with g_malloc(), for numbers that come from the program.
 * Returns NULL with GPU_ERROR_OUT_OF_HOST_MEMORY on failure. */
gpointer _gpu_try_alloc              (const char    *function,
                                      gsize          n,
                                      gsize          size,
                                      GError       **error);
/* Like _gpu_try_alloc(), and sets all bytes to 0. */
gpointer _gpu_try_alloc0             (const char    *function,
                                      gsize          n,
                                      gsize          size,
                                      GError       **error);

G_END_DECLS

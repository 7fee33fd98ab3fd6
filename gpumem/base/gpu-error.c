/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-error-private.h"

#include <gpumem/gpumem.h>

/**
 * SECTION:gpu-error
 * @title: Errors
 * @short_description: error domain and codes
 *
 * Functions that can fail report a #GError, usually of the domain #GPU_ERROR. The message begins
 * with the function of this library that failed. If the cause is a driver call, the name of that
 * call and the name and number of its error code follow. If the cause is an invalid value, the
 * message quotes the value.
 *
 * Functions that take a #GCancellable can also fail with %G_IO_ERROR_CANCELLED. Functions that read
 * files can also fail with other codes of #G_IO_ERROR.
 */

/**
 * gpu_error_quark:
 *
 * Gets the error domain of this library, #GPU_ERROR. Any thread may call this function.
 *
 * Returns: the quark of the domain
 *
 * Since: 0.1
 */
GQuark
gpu_error_quark (void)
{
  /* G_DEFINE_QUARK() is not used, because several threads may write its static variable at the same
   * time, which is a data race. Without a static variable, an error in a forked process would take
   * the lock of GLib's quarks, which another thread may have held during the fork. */
  static gint quark;
  GQuark found = (GQuark) g_atomic_int_get (&quark);

  if (G_UNLIKELY (found == 0))
    {
      found = g_quark_from_static_string ("gpu-error-quark");
      g_atomic_int_set (&quark, (gint) found);
    }

  return found;
}

gboolean
_gpu_error_check_cancelled (GCancellable  *cancellable,
                            const char    *function,
                            GError       **error)
{
  if (!g_cancellable_set_error_if_cancelled (cancellable, error))
    return TRUE;

  g_prefix_error (error, "%s: ", function);

  return FALSE;
}

/* Takes ownership of @failure, which is nullable. */
static void
propagate (GError      *failure,
           const char  *function,
           GError     **error)
{
  if (g_error_matches (failure, G_IO_ERROR, G_IO_ERROR_CANCELLED)
      && !g_str_has_prefix (failure->message, "gpu_"))
    g_prefix_error (&failure, "%s: ", function);

  if (failure != NULL)
    g_propagate_error (error, failure);
}

gboolean
_gpu_error_propagate_boolean (GAsyncResult  *result,
                              const char    *function,
                              GError       **error)
{
  GError *failure = NULL;
  gboolean success = g_task_propagate_boolean (G_TASK (result), &failure);

  propagate (failure, function, error);

  return success;
}

gpointer
_gpu_error_propagate_pointer (GAsyncResult  *result,
                              const char    *function,
                              GError       **error)
{
  GError *failure = NULL;
  gpointer pointer = g_task_propagate_pointer (G_TASK (result), &failure);

  propagate (failure, function, error);

  return pointer;
}

gboolean
_gpu_error_is_out_of_memory (const GError *error)
{
  return g_error_matches (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY)
         || g_error_matches (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY);
}

static gpointer
fail_alloc (const char  *function,
            gsize        n,
            gsize        size,
            GError     **error)
{
  if (size == 1)
    g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY,
                 "%s: cannot allocate %" G_GSIZE_FORMAT " bytes of host memory", function, n);
  else
    g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY,
                 "%s: cannot allocate host memory for %" G_GSIZE_FORMAT " elements of %"
                 G_GSIZE_FORMAT " bytes", function, n, size);

  return NULL;
}

gpointer
_gpu_try_alloc (const char  *function,
                gsize        n,
                gsize        size,
                GError     **error)
{
  gpointer data = g_try_malloc_n (MAX (n, 1), size);

  return data != NULL ? data : fail_alloc (function, n, size, error);
}

gpointer
_gpu_try_alloc0 (const char  *function,
                 gsize        n,
                 gsize        size,
                 GError     **error)
{
  gpointer data = g_try_malloc0_n (MAX (n, 1), size);

  return data != NULL ? data : fail_alloc (function, n, size, error);
}

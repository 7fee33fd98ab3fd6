/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <gpumem/gpumem.h>

/**
 * SECTION:gpu-error
 * @title: Errors
 * @short_description: what can go wrong
 *
 * Everything that can fail says so with a #GError, most often of the domain #GPU_ERROR. The text
 * begins with the function of this library that failed, goes on with the function of the driver
 * and its code by name and number where a driver was asked, and names the values that were wrong.
 *
 * Functions that take a #GCancellable can also fail with %G_IO_ERROR_CANCELLED, and those that
 * read files with any other code of #G_IO_ERROR.
 */

/**
 * gpu_error_quark:
 *
 * The error domain of this library, as #GPU_ERROR. Any thread may call it.
 *
 * Returns: the quark of the domain
 *
 * Since: 0.1
 */
GQuark
gpu_error_quark (void)
{
  /* G_DEFINE_QUARK() would keep it where threads race for it. */
  return g_quark_from_static_string ("gpu-error-quark");
}

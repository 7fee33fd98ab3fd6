/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a test may ask of the stand-in for the CUDA driver. Every function is safe on any thread
 * and is no call of the driver.
 *
 *   if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_get_live") != NULL)
 *     n = GPUMEM_CUDA_DRIVER (get_live) ("event");
 */
#pragma once

#include <dlfcn.h>
#include <glib.h>

#define CUDA_DRIVER_EXPORT __attribute__ ((visibility ("default")))

/* One of the functions below. */
#define GPUMEM_CUDA_DRIVER(name) \
  ((__typeof__ (&gpumem_cuda_driver_##name)) gpumem_cuda_driver_symbol \
    ("gpumem_cuda_driver_" #name))

G_BEGIN_DECLS

/* Calls since the start; @function may be a glob ("cuMemcpy*"). */
CUDA_DRIVER_EXPORT guint64  gpumem_cuda_driver_get_count  (const char *function);
/* What the program still owns: "event", "stream", "device memory", ...; "" stands for all. */
CUDA_DRIVER_EXPORT guint    gpumem_cuda_driver_get_live   (const char *kind);
/* What would have ended the program under strict=yes. */
CUDA_DRIVER_EXPORT guint    gpumem_cuda_driver_get_misuse (void);
/* As fail= in GPUMEM_CUDA_DRIVER, counted from now; "" takes it back. */
CUDA_DRIVER_EXPORT gboolean gpumem_cuda_driver_set_fail   (const char *spec);

/* NULL where the driver is another one, or none. */
static inline gpointer
gpumem_cuda_driver_symbol (const char *name)
{
  gpointer driver = dlopen ("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  gpointer symbol = driver != NULL ? dlsym (driver, name) : NULL;

  if (driver != NULL)
    dlclose (driver);
  return symbol;
}

G_END_DECLS

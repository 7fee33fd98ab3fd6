/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Functions of the stand-in for the CUDA driver that tests may call. The functions are safe on any
 * thread and do not count as driver calls.
 *
 *   if (gpumem_cuda_driver_symbol ("gpumem_cuda_driver_get_live") != NULL)
 *     n = GPUMEM_CUDA_DRIVER (get_live) ("event");
 */
#pragma once

#include <dlfcn.h>
#include <glib.h>

#define CUDA_DRIVER_EXPORT __attribute__ ((visibility ("default")))

/* Gets one of the functions below. */
#define GPUMEM_CUDA_DRIVER(name) \
  ((__typeof__ (&gpumem_cuda_driver_##name)) gpumem_cuda_driver_symbol \
    ("gpumem_cuda_driver_" #name))

G_BEGIN_DECLS

typedef struct CUgraphExec_st *CUgraphExec; /* the library launches no graphs */

/* Gets the number of calls since the start; @function may be a glob ("cuMemcpy*"). */
CUDA_DRIVER_EXPORT guint64  gpumem_cuda_driver_get_count  (const char *function);
/* Gets the number of live objects of a kind: "event", "stream", "device memory", ...; "" is any. */
CUDA_DRIVER_EXPORT guint    gpumem_cuda_driver_get_live   (const char *kind);
/* Gets the number of misuses, each of which aborts the program under strict=yes. */
CUDA_DRIVER_EXPORT guint    gpumem_cuda_driver_get_misuse (void);
/* Injects other faults, in the syntax of the option fail= of GPUMEM_CUDA_DRIVER. The numbers of
 * calls in @spec count from now on. With "" no further call fails. */
CUDA_DRIVER_EXPORT gboolean gpumem_cuda_driver_set_fail   (const char *spec);
/* Sets whether the import of a dma-buf closes its descriptor. */
CUDA_DRIVER_EXPORT void     gpumem_cuda_driver_close_dma_bufs (gboolean closes);
/* Returns whether the driver refuses the function, on any thread, while a stream is capturing. */
CUDA_DRIVER_EXPORT gboolean gpumem_cuda_driver_is_unsafe  (const char *function);
/* Makes the stream look like a new stream that has the handle of a destroyed stream. */
CUDA_DRIVER_EXPORT void     gpumem_cuda_driver_renew_stream (guint64 handle);

/* Returns NULL unless the stand-in is the loaded driver. */
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

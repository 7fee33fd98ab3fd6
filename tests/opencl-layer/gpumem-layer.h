/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Functions of the OpenCL layer that tests may call. The functions are safe on any thread and make
 * no driver call.
 *
 *   if (gpumem_layer_symbol ("gpumem_layer_get_count") != NULL)
 *     n = GPUMEM_LAYER (get_count) ("clEnqueue*");
 *
 * A function is a name or a glob ("clEnqueue*"); "" stands for all. A kind is one of context,
 * queue, mem, event, program, kernel, sampler, device, svm; "" stands for all.
 */
#ifndef GPUMEM_LAYER_H
#define GPUMEM_LAYER_H

#include <dlfcn.h>
#include <glib.h>
#include <stdlib.h>

#define LAYER_EXPORT __attribute__ ((visibility ("default")))

/* Gets one of the functions below. Only call the result if the program runs under the layer. */
#define GPUMEM_LAYER(name) \
  ((__typeof__ (&gpumem_layer_##name)) gpumem_layer_symbol ("gpumem_layer_" #name))

G_BEGIN_DECLS

/* Gets the number of calls since the start or the last reset; G_MAXUINT64 if @function matches no
 * function. */
LAYER_EXPORT guint64  gpumem_layer_get_count    (const char *function);
LAYER_EXPORT void     gpumem_layer_reset_counts (void);

/* Gets the number of handles that the program still owns; G_MAXUINT for an unknown kind. */
LAYER_EXPORT guint    gpumem_layer_get_live     (const char *kind);

/* Gets the number of calls rejected since the start because of a released or unknown handle. */
LAYER_EXPORT guint    gpumem_layer_get_misuse   (void);

/* Arms a fault; the count of calls starts at 0 now. NULL or "" disarms the fault. Returns FALSE if
 * @spec is invalid. */
LAYER_EXPORT gboolean gpumem_layer_set_fail     (const char *spec);

/* Makes the @n-th call from now fail once with @code, or with a plausible code if @code is 0. */
LAYER_EXPORT void     gpumem_layer_fail_after   (guint n, int code);

/* Gets the number of calls that failed since the fault was armed. */
LAYER_EXPORT guint    gpumem_layer_get_failed   (void);

/* Writes the live handles and the misuses so far to the file @path. Returns FALSE if @path cannot
 * be written. */
LAYER_EXPORT gboolean gpumem_layer_write_report (const char *path);

/* Returns NULL if the program does not run under the layer. Opens the layer by its name:
 * RTLD_DEFAULT does not find its symbols, because the ICD loader opens layers with RTLD_LOCAL. May
 * be called before the ICD loader is loaded. */
static inline gpointer
gpumem_layer_symbol (const char *name)
{
  const char *layers = getenv ("OPENCL_LAYERS");
  g_auto (GStrv) paths = g_strsplit (layers != NULL ? layers : "", ":", -1);

  for (guint i = 0; paths[i] != NULL; i++)
    {
      gpointer module = paths[i][0] != '\0' ? dlopen (paths[i], RTLD_LAZY) : NULL;
      gpointer symbol = module != NULL ? dlsym (module, name) : NULL;

      if (symbol != NULL)
        return symbol;
    }
  return NULL;
}

G_END_DECLS

#endif

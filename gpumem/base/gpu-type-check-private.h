/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib-object.h>

#include "gpumem/base/gpu-attributes-private.h"

G_BEGIN_DECLS

/* G_TYPE_CHECK_INSTANCE_TYPE(), for the slow path of the checks below. */
GPU_COLD gboolean _gpu_is_a (gpointer   object,
                             GType    (*get_type) (void));

/* Compares the class of @object with a class pointer that class_init stored. This is faster than a
 * call of get_type(). */
static inline gboolean
_gpu_has_class (gpointer object,
                gpointer klass)
{
  return G_LIKELY (object != NULL) && G_LIKELY (((GTypeInstance *) object)->g_class == klass);
}

G_END_DECLS

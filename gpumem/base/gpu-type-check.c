/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-type-check-private.h"

gboolean
_gpu_is_a (gpointer   object,
           GType    (*get_type) (void))
{
  return G_TYPE_CHECK_INSTANCE_TYPE (object, get_type ());
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-hot-private.h"

GpuHot _gpu_hot __attribute__ ((aligned (GPU_LINE)));

G_STATIC_ASSERT (sizeof (GpuHot) <= GPU_LINE);

gboolean
_gpu_is_a (gpointer   object,
           GType    (*get_type) (void))
{
  return G_TYPE_CHECK_INSTANCE_TYPE (object, get_type ());
}

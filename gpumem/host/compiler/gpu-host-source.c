/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/host/compiler/gpu-host-source.h"

static gboolean
has_barrier (GpuSource         *source,
             GpuSourceFunction *function)
{
  if (g_str_equal (function->name, "gpu_host_barrier"))
    return TRUE;

  function->visited = TRUE;

  for (guint i = function->body.first; i < function->body.last; i++)
    {
      g_autofree char *word = NULL;
      GpuSourceFunction *called;

      if (source_get_kind (source, i) != GPU_SOURCE_WORD)
        continue;

      word = source_get_text (source, i);
      called = g_hash_table_lookup (source->by_name, word);

      if (called != NULL && !called->visited && has_barrier (source, called))
        return TRUE;
    }

  return FALSE;
}

gboolean
_gpu_host_source_has_barrier (GpuSource         *source,
                              GpuSourceFunction *kernel)
{
  for (guint i = 0; i < source->functions->len; i++)
    ((GpuSourceFunction *) source->functions->pdata[i])->visited = FALSE;

  return has_barrier (source, kernel);
}

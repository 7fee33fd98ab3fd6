/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

/* Memory of a device, in bytes, in use by all processes. */
typedef struct
{
  guint64 total;
  guint64 used;
  guint64 free;
} GpumemUsage;

/* @context: (inout): a context of the device, created if the query needs one, for later queries.
 * Returns: %FALSE if the drivers do not report the memory that other processes use */
gboolean gpumem_usage_get (GpuDevice    *device,
                           GpuContext  **context,
                           GpumemUsage  *usage);

G_END_DECLS

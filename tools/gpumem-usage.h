/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

/* The memory of a device in bytes. `used` is the memory that all processes use. */
typedef struct
{
  guint64 total;
  guint64 used;
  guint64 free;
} GpumemUsage;

/* @context: (inout): a context of the device, or NULL. If the query needs a context, creates one,
 * which later queries can use.
 * Returns: %FALSE if the drivers do not report the memory that other processes use */
gboolean gpumem_usage_get (GpuDevice    *device,
                           GpuContext  **context,
                           GpumemUsage  *usage);

G_END_DECLS

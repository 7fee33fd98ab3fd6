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

/* @context: (inout): a context of the device, or NULL. If it is NULL and the query needs a context,
 * the function creates one. Later queries with the same variable reuse the context.
 * Returns: %FALSE if the drivers do not report the memory that other processes use */
gboolean gpumem_usage_get (GpuDevice    *device,
                           GpuContext  **context,
                           GpumemUsage  *usage);

G_END_DECLS

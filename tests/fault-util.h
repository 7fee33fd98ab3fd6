/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* For the programs that run while calls of the driver fail (tests/fault-harness): whatever fails,
 * they end in good time, with right data or in a GError, and leave nothing alive. */
#pragma once

#include <string.h>

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

typedef gboolean (*FaultFunc) (GpuContext  *context,
                               GError     **error);

/* Runs @func on the OpenCL device that GPUMEM_DEVICE names, or the first one. The exit code: 0,
 * 3 if it ended in a GError, 77 without a device, 1 if a promise was broken. */
int      fault_run   (FaultFunc      func);
/* Ends the program with 1 unless @size bytes of @data are all @value. */
void     fault_check (gconstpointer  data,
                      guint8         value,
                      gsize          size,
                      const char    *what);

G_END_DECLS

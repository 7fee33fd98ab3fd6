/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* For the programs that tests/fault-harness runs while driver calls fail. With any fault, a program
 * must end in time, with correct data or a GError, and must leave no live objects. */
#pragma once

#include <string.h>

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

typedef gboolean (*FaultFunc) (GpuContext  *context,
                               GError     **error);

/* Runs @func on the device that GPUMEM_DEVICE names, or on the first OpenCL device. Returns the
 * exit code: 0 for success, 3 after a GError, 77 without a device, 1 for a wrong result. */
int      fault_run   (FaultFunc      func);
/* Exits with 1 unless all @size bytes of @data are @value. */
void     fault_check (gconstpointer  data,
                      guint8         value,
                      gsize          size,
                      const char    *what);

G_END_DECLS

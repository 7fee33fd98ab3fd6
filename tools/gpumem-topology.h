/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where devices are, and the links between them. */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

/* @devices: a list of GpuDevice */
void gpumem_topology_print      (GList    *devices);
#ifdef HAVE_TOUR
void gpumem_topology_print_json (GList    *devices,
                                 gboolean  csv);
#endif

G_END_DECLS

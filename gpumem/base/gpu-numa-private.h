/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * NUMA nodes of the host. Functions read system files below @root, which is "" except in tests. On
 * a host with one node, a node has no effect.
 */
#pragma once

#include "gpumem/base/gpu-types.h"

G_BEGIN_DECLS

/* Returns FALSE if the host has several nodes with memory and @node is none of them. Accepts
 * GPU_NUMA_NODE_NONE and GPU_NUMA_NODE_DEVICE. */
gboolean _gpu_numa_check   (const char  *root,
                            const char  *function,
                            int          node,
                            GError     **error);
/* Returns the node to bind memory to, or GPU_NUMA_NODE_NONE. For GPU_NUMA_NODE_DEVICE, that is the
 * node of the PCI device @pci_bus_id, which is nullable. */
int      _gpu_numa_resolve (const char  *root,
                            int          node,
                            const char  *pci_bus_id);
/* Makes the kernel prefer @node for pages of the whole pages at @data that have no memory yet.
 * Returns the node in effect: GPU_NUMA_NODE_NONE if @node is GPU_NUMA_NODE_NONE, or if the kernel
 * refuses. */
int      _gpu_numa_bind    (gpointer     data,
                            gsize        size,
                            int          node);

G_END_DECLS

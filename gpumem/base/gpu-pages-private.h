/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Pages of the host. The kernel provides a page when a thread first writes to it, and one thread
 * takes 0.2 to 0.4 ms for each MiB. So several threads write the pages of large memory.
 */
#pragma once

#include "gpumem/base/gpu-types.h"

G_BEGIN_DECLS

/* The size of a huge page. Smaller memory is not worth a mapping of its own. */
#define GPU_PAGES_MIN_SIZE ((gsize) 2 * 1024 * 1024)

/* Makes the kernel provide all pages. The contents are undefined afterwards. Returns 0 or an errno:
 * ENOMEM if @size exceeds the free memory, because the kernel would then end processes. Blocks for
 * as long as clearing the memory takes. */
int      _gpu_pages_commit (guint8   *data,
                            gsize     size);
/* Maps memory with all its pages, zeroed, on NUMA node @node if that is not negative. Sets @node to
 * the node in effect. The memory is aligned to GPU_PAGES_MIN_SIZE, and has huge pages if the system
 * allows it. Forked processes do not have the mapping. Fails with GPU_ERROR_OUT_OF_HOST_MEMORY. */
gpointer _gpu_pages_map    (gsize     size,
                            int      *node,
                            GError  **error);
/* Must not be called in a forked process. */
void     _gpu_pages_unmap  (gpointer  data,
                            gsize     size);

G_END_DECLS

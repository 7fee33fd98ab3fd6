/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Memory that the process may use, in bytes. */
typedef struct
{
  guint64 total_size;
  guint64 free_size;
} GpuMemoryLimits;

/* Returns the value of the first line "@key : value" in the file @path, or NULL. */
char *_gpu_read_value         (const char      *path,
                               const char      *key);
/* Gets the free and the total memory of the machine, within the limits of the cgroups of the
 * process. Reads system files below @root, which is "" except in tests, on each call; a move of the
 * process to another cgroup takes effect after a second. */
void  _gpu_memory_limits_read (const char      *root,
                               GpuMemoryLimits *limits);

G_END_DECLS

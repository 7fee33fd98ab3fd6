/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Status files, which processes with GPUMEM_STATUS=1 write about their memory pools. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  guint    pid;
  char    *name;        /* of the program, from the file */
  char    *device;      /* id */
  char    *kind;
  guint64  managed;     /* bytes */
  guint64  active;      /* bytes, as requested */
  guint64  used;        /* bytes, with rounding */
  guint64  largest;     /* bytes of the largest free block */
} GpumemPoolStatus;

void       gpumem_pool_status_free    (gpointer     data);
/* Appends the pools of a status file to @pools. Returns: %FALSE if the text is not valid; @pools is
 * then unchanged */
gboolean   gpumem_status_parse        (const char  *text,
                                       gsize        size,
                                       guint        pid,
                                       GPtrArray   *pools);
/* Returns: (transfer full): the pools of all processes of the user, of GpumemPoolStatus. Removes
 * files of processes that have ended. Without XDG_RUNTIME_DIR the list is empty. */
GPtrArray *gpumem_status_list         (void);
/* Returns whether XDG_RUNTIME_DIR is an absolute path. */
gboolean   gpumem_status_has_folder   (void);
/* Returns the fraction of the free memory that is outside the largest free block, from 0 to 1. */
double     gpumem_status_get_fragmentation (const GpumemPoolStatus *pool);

G_END_DECLS

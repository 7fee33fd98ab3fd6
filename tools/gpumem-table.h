/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tools/gpumem-terminal.h"

G_BEGIN_DECLS

typedef struct
{
  const char *title;
  gboolean    right;      /* align the text to the right */
  guint       narrowest;  /* minimum width if the table is too wide; 0: does not shrink */
} GpumemColumn;

typedef struct _GpumemTable GpumemTable;

GpumemTable *gpumem_table_new     (const GpumemColumn *columns,
                                   guint               n_columns);
void         gpumem_table_free    (GpumemTable        *table);
void         gpumem_table_add     (GpumemTable        *table,
                                   GpumemStyle         style,
                                   const char *const  *cells);
void         gpumem_table_print   (GpumemTable        *table,
                                   guint               width);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpumemTable, gpumem_table_free)

G_END_DECLS

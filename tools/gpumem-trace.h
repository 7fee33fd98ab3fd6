/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Recorded allocations, read from files. A file has lines "a ID SIZE STREAM" and "f ID STREAM", or
 * is the log of a memory resource of RMM, with the names of the columns in its first line. Empty
 * lines and lines that begin with '#' are ignored. Both formats may be compressed with gzip.
 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct
{
  guint64 size;                     /* bytes of the block */
  guint32 block;                    /* from 0, in order of allocation */
  guint32 stream : 31;              /* from 0, in order of appearance */
  guint32 is_free : 1;
} GpumemTraceOperation;

typedef struct
{
  GpumemTraceOperation *operations;
  gsize                 n_operations;
  gsize                 n_blocks;   /* allocations */
  gsize                 n_failures; /* failed allocations in the log, which are not operations */
  GPtrArray            *streams;    /* names of the streams */
  char                 *comment;    /* the first comment, nullable */
  guint64               peak_live;  /* bytes */
  guint64               live;       /* bytes that the trace never frees */
  gsize                 peak_blocks;
} GpumemTrace;

GpumemTrace *gpumem_trace_read (const char   *path,
                                GError      **error);
void         gpumem_trace_free (GpumemTrace  *trace);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GpumemTrace, gpumem_trace_free)

G_END_DECLS

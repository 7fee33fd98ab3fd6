/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the host back end makes of a program behind the preprocessor.
 */
#pragma once

#include "gpumem/dialect/gpu-source-private.h"
#include "gpumem/host/compiler/gpu-host-compiler.h"

G_BEGIN_DECLS

/* What a program becomes while its tokens are replaced, from the first to the last. */
typedef struct
{
  GpuSource  source;
  GString   *output;
  gsize      copied;            /* so much of the text has gone to the output */
} GpuHostRewriter;

/* @text stays with the caller; the caller clears the source and frees the output. */
void      _gpu_host_rewriter_init      (GpuHostRewriter    *rewriter,
                                        const char         *text);
/* Puts @replacement in the place of token @i; all before it is there, too, then. */
void      _gpu_host_rewriter_replace   (GpuHostRewriter    *rewriter,
                                        guint               i,
                                        const char         *replacement);
void      _gpu_host_rewriter_copy_rest (GpuHostRewriter    *rewriter);

/* Whether @function or anything it calls waits at a barrier. */
gboolean  _gpu_host_source_has_barrier (GpuSource          *source,
                                        GpuSourceFunction  *function);
/* The text that describes all kernels, to stand behind the program. */
char     *_gpu_host_source_describe    (GpuSource          *source,
                                        GError            **error);

G_END_DECLS

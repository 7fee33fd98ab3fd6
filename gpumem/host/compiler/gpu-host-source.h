/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Rewriting of preprocessed programs as C.
 */
#pragma once

#include "gpumem/dialect/gpu-source-private.h"
#include "gpumem/host/compiler/gpu-host-compiler.h"

G_BEGIN_DECLS

/* Replaces tokens of a program in ascending order. */
typedef struct
{
  GpuSource  source;
  GString   *output;
  gsize      copied;            /* bytes of the text that the output contains already */
} GpuHostRewriter;

/* @text must outlive @rewriter. The caller later clears `source` and frees `output`. */
void      _gpu_host_rewriter_init      (GpuHostRewriter    *rewriter,
                                        const char         *text);
/* Copies the text before token @i to the output, then @replacement instead of the token. */
void      _gpu_host_rewriter_replace   (GpuHostRewriter    *rewriter,
                                        guint               i,
                                        const char         *replacement);
void      _gpu_host_rewriter_copy_rest (GpuHostRewriter    *rewriter);

/* Returns whether @function, or a function that it calls, waits at a barrier. */
gboolean  _gpu_host_source_has_barrier (GpuSource          *source,
                                        GpuSourceFunction  *function);
/* Returns the text that describes all kernels. The caller appends this text to the program. */
char     *_gpu_host_source_describe    (GpuSource          *source,
                                        GError            **error);

G_END_DECLS

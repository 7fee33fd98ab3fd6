/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the host back end makes of a program behind the preprocessor.
 */
#pragma once

#include "gpumem/gpu-source-private.h"
#include "gpumem/host/gpu-host.h"

G_BEGIN_DECLS

/* Whether @function or anything it calls waits at a barrier. */
gboolean  _gpu_host_source_has_barrier (GpuSource          *source,
                                        GpuSourceFunction  *function);
/* The text that describes all kernels, to stand behind the program. */
char     *_gpu_host_source_describe    (GpuSource          *source,
                                        GError            **error);

G_END_DECLS

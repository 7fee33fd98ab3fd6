/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies by direct driver calls on a stream of the library. */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

/* Returns whether raw copies are implemented for the driver of @device. */
gboolean bench_raw_can    (GpuDevice *device);
void     bench_raw_write  (GpuStream *stream,
                           GpuBuffer *buffer,
                           void      *data,
                           gsize      size);
void     bench_raw_read   (GpuStream *stream,
                           GpuBuffer *buffer,
                           void      *data,
                           gsize      size);
void     bench_raw_finish (GpuStream *stream);

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/backend/gpu-backend.h"

G_BEGIN_DECLS

/* (transfer none): gets the native sampler, for launches. Returns NULL with @error if @sampler was
 * never initialised. */
GpuNativeSampler *_gpu_sampler_get_native  (GpuSampler        *sampler,
                                            const char        *function,
                                            GError           **error);
GpuNativeSampler *_gpu_native_sampler_ref   (GpuNativeSampler *sampler);
void              _gpu_native_sampler_unref (GpuNativeSampler *sampler);

G_END_DECLS

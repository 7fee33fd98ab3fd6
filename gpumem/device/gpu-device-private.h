/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/backend/gpu-backend.h"

G_BEGIN_DECLS

/* Returns NULL for an object of g_object_new(), which gpu_device_check() rejects. */
GpuNativeDevice *_gpu_device_get_native        (GpuDevice        *device);
/* (transfer full): gets the only GpuDevice of @native, or creates it. */
GpuDevice       *_gpu_device_new_for_native    (GpuNativeDevice  *native);
/* Returns FALSE with an error that starts with @function if @device is an object of
 * g_object_new(). */
gboolean         _gpu_device_check_initialized (GpuDevice        *device,
                                                const char       *function,
                                                GError          **error);

G_END_DECLS

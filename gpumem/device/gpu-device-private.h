/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/backend/gpu-backend.h"

G_BEGIN_DECLS

/* NULL for an object that did not come from here: gpu_device_check() says so. */
GpuNativeDevice *_gpu_device_get_native        (GpuDevice        *device);
/* (transfer full): the one living object of @native. */
GpuDevice       *_gpu_device_new_for_native    (GpuNativeDevice  *native);
/* FALSE with @error set, beginning with @function, if @device came from g_object_new(). */
gboolean         _gpu_device_check_initialized (GpuDevice        *device,
                                                const char       *function,
                                                GError          **error);

G_END_DECLS

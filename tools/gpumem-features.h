/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gpumem/gpumem.h>

G_BEGIN_DECLS

char      **gpumem_list_features        (GpuDevice     *device);
const char *gpumem_get_device_type_name (GpuDeviceType  type);

G_END_DECLS

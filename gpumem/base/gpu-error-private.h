/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/base/gpu-error.h"

G_BEGIN_DECLS

/* Returns whether the request that failed with @error may succeed after other memory is freed. */
gboolean _gpu_error_is_out_of_memory (const GError *error);

G_END_DECLS

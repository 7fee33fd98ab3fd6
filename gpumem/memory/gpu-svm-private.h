/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gpumem/memory/gpu-memory-private.h"

G_BEGIN_DECLS

/* Of an object that was given a storage: where the host may touch it at any time. */
void _gpu_svm_set_data (GpuSvm *svm);

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the stand-in offers: what the back end calls, and what programs of the tests call beside. */
#include "gpumem/cuda/driver/gpu-cuda-symbols.h"

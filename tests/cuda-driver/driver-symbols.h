/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The functions of the stand-in: those that the back end calls, and others that tests call. */
#include "gpumem/cuda/driver/gpu-cuda-symbols.h"

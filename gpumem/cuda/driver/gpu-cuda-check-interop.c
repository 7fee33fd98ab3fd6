/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Compiles the inline functions of gpumem-cuda.h. Compiled if configure finds a CUDA Toolkit; never
 * linked.
 */
#include "gpumem/gpumem-cuda.h"

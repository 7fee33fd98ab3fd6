/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Checks that the inline functions of gpumem-cuda.h compile. This file is only compiled if
 * configure finds a CUDA Toolkit, and never linked.
 */
#include "gpumem/gpumem-cuda.h"

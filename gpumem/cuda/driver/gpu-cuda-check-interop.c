/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Compiles the inline functions for C programs that call CUDA themselves. Compiled where configure
 * finds a CUDA Toolkit, linked nowhere.
 */
#include "gpumem/gpumem-cuda.h"

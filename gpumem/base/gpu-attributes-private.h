/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where the compiler places functions. A driver call leaves little in the processor's caches, so
 * the code that every operation runs lies together, apart from the code that handles failures.
 */
#pragma once

#include <glib.h>

#define GPU_HOT __attribute__ ((hot))
#define GPU_COLD __attribute__ ((cold, noinline))
/* Not inlined: the common path past the call then saves no registers for it. */
#define GPU_APART __attribute__ ((noinline))

/* Bytes in a cache line. Structures that every operation reads are aligned to it. */
#define GPU_LINE 64

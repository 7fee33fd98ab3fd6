/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Compiler attributes that place functions. A driver call evicts most of the processor's caches, so
 * the code that every operation runs is kept together, apart from the code that handles failures.
 */
#pragma once

#include <glib.h>

#define GPU_HOT __attribute__ ((hot))
#define GPU_COLD __attribute__ ((cold, noinline))
/* Not inlined, so that the common path around the call need not save registers for it. */
#define GPU_APART __attribute__ ((noinline))

/* Bytes in a cache line. Structures that every operation reads are aligned to it. */
#define GPU_LINE 64

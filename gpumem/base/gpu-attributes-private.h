/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Compiler attributes that determine where the code of functions is placed. A driver call evicts
 * most of the processor's caches. The code that every operation runs is therefore placed together,
 * apart from the code that handles failures, and is reloaded from few cache lines.
 */
#pragma once

#include <glib.h>

/* The macros of GLib assign the result of the test to a variable. GCC 12 then ignores the
 * expectation, and places the unlikely code between the likely code. g_return_if_fail() also uses
 * these definitions. */
#undef G_LIKELY
#undef G_UNLIKELY
#define G_LIKELY(expr) (__builtin_expect (!!(expr), 1))
#define G_UNLIKELY(expr) (__builtin_expect (!!(expr), 0))

/* Bytes in a cache line, the alignment of structures and functions that every operation uses. */
#define GPU_LINE 64

/* The alignment saves a line for most functions. */
#define GPU_HOT __attribute__ ((hot, aligned (GPU_LINE)))
#define GPU_COLD __attribute__ ((cold, noinline))
/* Prevents inlining. If the function were inlined, its caller would save registers for it on every
 * path. */
#define GPU_APART __attribute__ ((noinline))


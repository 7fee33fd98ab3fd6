/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined (__GPUMEM_INSIDE__) && !defined (GPUMEM_COMPILATION)
#error "Only <gpumem/gpumem.h> can be included directly."
#endif

#include <glib.h>

#include <gpumem/base/gpu-version.h>

/* Every public function is declared with one of the GPU_AVAILABLE_IN macros. The macros export the
 * symbol, because the library is built with hidden visibility. They also make the compiler warn
 * about functions that are newer than the version that the program allows. */
#ifndef _GPU_EXTERN
#if defined (__GNUC__)
#define _GPU_EXTERN __attribute__ ((visibility ("default"))) extern
#else
#define _GPU_EXTERN extern
#endif
#endif

/**
 * GPU_VERSION_0_1:
 *
 * The 0.1 series, in the form that %GPU_VERSION_MIN_REQUIRED and
 * %GPU_VERSION_MAX_ALLOWED take.
 *
 * Since: 0.1
 */
#define GPU_VERSION_0_1 (G_ENCODE_VERSION (0, 1))

/* The series of these headers */
#define _GPU_VERSION_CURRENT (G_ENCODE_VERSION (GPU_MAJOR_VERSION, GPU_MINOR_VERSION))

/**
 * GPU_VERSION_MIN_REQUIRED:
 *
 * Define this macro to one of the version macros, such as %GPU_VERSION_0_1, before including
 * `gpumem.h`. The compiler then warns about functions that were already deprecated in that version,
 * and not about later deprecations.
 *
 * Since: 0.1
 */
#ifndef GPU_VERSION_MIN_REQUIRED
#define GPU_VERSION_MIN_REQUIRED _GPU_VERSION_CURRENT
#endif

/**
 * GPU_VERSION_MAX_ALLOWED:
 *
 * Define this macro to one of the version macros, such as %GPU_VERSION_0_1, before including
 * `gpumem.h`. The compiler then warns about functions that were added after that version.
 *
 * Since: 0.1
 */
#ifndef GPU_VERSION_MAX_ALLOWED
#define GPU_VERSION_MAX_ALLOWED _GPU_VERSION_CURRENT
#endif

#if GPU_VERSION_MIN_REQUIRED > GPU_VERSION_MAX_ALLOWED
#error "GPU_VERSION_MAX_ALLOWED must be >= GPU_VERSION_MIN_REQUIRED"
#endif
#if GPU_VERSION_MIN_REQUIRED < GPU_VERSION_0_1
#error "GPU_VERSION_MIN_REQUIRED must be >= GPU_VERSION_0_1"
#endif

#define GPU_AVAILABLE_IN_ALL _GPU_EXTERN

/* 0.1 is the first series, so no program can require an older one */
#define GPU_AVAILABLE_IN_0_1 _GPU_EXTERN
#define GPU_DEPRECATED_IN_0_1 G_DEPRECATED
#define GPU_DEPRECATED_IN_0_1_FOR(f) G_DEPRECATED_FOR (f)

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared by the tests of the stand-in itself, which find it as the library does. */
#pragma once

#include <string.h>

#include "cuda-driver.h"
#include "gpumem/cuda/gpu-cuda-types.h"

#define DRIVER_SYMBOLS "driver-symbols.h"

G_BEGIN_DECLS

typedef struct
{
#define GPU_CUDA_SYMBOL(group, name, version, parameters) CUresult (CUDAAPI *name) parameters;
#include DRIVER_SYMBOLS
#undef GPU_CUDA_SYMBOL
} Driver;

extern Driver driver;

/* driver.NAME (...), which must succeed. */
#define OK(name, ...) g_assert_cmpuint (driver.name (__VA_ARGS__), ==, CUDA_SUCCESS)
#define FAILS(code, name, ...) g_assert_cmpuint (driver.name (__VA_ARGS__), ==, code)

/* Runs the test in a process of its own, which must abort and say @text. */
void      assert_aborts     (const char *text);
/* A context of the first device, current on this thread, and back. */
CUcontext begin             (void);
void      end               (void);

void      add_misuse_tests  (void);
void      add_program_tests (void);
void      add_share_tests   (void);

/* The other process of a test: test-driver --export. */
void      run_exporter      (void);

G_END_DECLS

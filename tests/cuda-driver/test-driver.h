/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared by the tests of the stand-in. The tests load the stand-in as the library loads a
 * driver. */
#pragma once

#include <string.h>

#include "cuda-driver.h"
#include "gpumem/cuda/driver/gpu-cuda-types.h"

#define DRIVER_SYMBOLS "driver-symbols.h"

G_BEGIN_DECLS

typedef struct
{
#define GPU_CUDA_SYMBOL(group, name, version, parameters) CUresult (CUDAAPI *name) parameters;
#include DRIVER_SYMBOLS
#undef GPU_CUDA_SYMBOL
} Driver;

extern Driver driver;

/* Calls driver.NAME (...), which must succeed. */
#define OK(name, ...) g_assert_cmpuint (driver.name (__VA_ARGS__), ==, CUDA_SUCCESS)
#define FAILS(code, name, ...) g_assert_cmpuint (driver.name (__VA_ARGS__), ==, code)

/* Repeats the current test in a subprocess, which must abort and print @text. */
void      assert_aborts     (const char *text);
/* begin() creates a context of the first device and makes it current on this thread. end() destroys
 * the context. */
CUcontext begin             (void);
void      end               (void);

/* Keeps @stream busy for a tenth of a second. */
void      keep_busy         (CUstream    stream);
/* Loads a program in CUDA C++. */
CUmodule  load_source       (const char *text);
void      launch_kernel     (CUmodule    module,
                             const char *name,
                             guint       n_blocks,
                             guint       n_threads,
                             guint       shared,
                             void      **arguments);

/* A test of one misuse of the driver. The stand-in must abort during `run`, with a message that
 * contains `text`. */
typedef struct
{
  const char *name;
  const char *text;
  void      (*run) (void);
} Misuse;

void      add_misuses       (const Misuse *misuses,
                             gsize         n);

/* test-driver-image.c: @depth is the number of layers of a layered array. */
CUarray   new_array         (gsize          width,
                             gsize          height,
                             gsize          depth,
                             CUarray_format format,
                             guint          n_channels,
                             guint          flags);
/* Copies a whole array from or to packed host memory. */
void      copy_array        (CUarray        array,
                             gpointer       data,
                             gsize          row,
                             gsize          height,
                             gsize          depth,
                             gboolean       to_array);
/* Creates a texture with a border of 9. */
CUtexObject new_texture     (CUarray        array,
                             CUaddress_mode mode,
                             CUfilter_mode  filter,
                             guint          flags);

void      add_image_tests   (void);
void      add_managed_tests (void);
void      add_misuse_tests  (void);
void      add_program_tests (void);
void      add_share_tests   (void);
void      add_texture_tests (void);

/* Runs the other process of a test: test-driver --export. */
void      run_exporter      (void);

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From source to code of a device: what NVRTC gets, what comes out, and what the compiler of the
 * driver makes of it. Knows of a device only its compute capability.
 */
#pragma once

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/cuda/compiler/gpu-cuda-sampler-words.h"
#include "gpumem/cuda/driver/gpu-cuda-api.h"

G_BEGIN_DECLS

typedef enum
{
  GPU_CUDA_LANGUAGE_CPP,
  GPU_CUDA_LANGUAGE_PORTABLE            /* OpenCL C, as far as it is C++ too */
} GpuCudaLanguage;

typedef enum
{
  GPU_CUDA_BINARY_UNKNOWN,
  GPU_CUDA_BINARY_ELF,
  GPU_CUDA_BINARY_FATBIN,
  GPU_CUDA_BINARY_PTX
} GpuCudaBinaryKind;

/* gpu-cuda-binary.c: binaries are only read as far as they are whole. */
GpuCudaBinaryKind _gpu_cuda_binary_identify    (GBytes              *binary);
/* Whether an ELF file is of the device, and not an object for the host with code for devices. */
gboolean          _gpu_cuda_binary_is_cubin    (GBytes              *binary);
/* FALSE: not the whole of a binary, or none at all. */
gboolean          _gpu_cuda_binary_check       (GBytes              *binary,
                                                GError             **error);
/* NULL: the binary does not tell. */
char            **_gpu_cuda_binary_list_kernels (GBytes             *binary);
/* Sizes of the arguments, of gsize; NULL: the binary does not tell. */
GArray           *_gpu_cuda_binary_get_sizes   (GBytes              *binary,
                                                const char          *kernel);

/* gpu-cuda-name.c */
/* The name in @names, which end with NULL, that a function of the source goes by; NULL if there
 * is none, or more than one. */
const char       *_gpu_cuda_name_find          (const char *const   *names,
                                                const char          *name);
/* What a function is called in the source, as far as that can be read from @mangled. */
char             *_gpu_cuda_name_simplify      (const char          *mangled);

/* gpu-cuda-jit.c: options of the driver's compiler and linker. */
typedef struct
{
  CUjit_option  options[24];
  void         *values[24];
  guint         n;
  char         *info_log;
  char         *error_log;
} GpuCudaJit;

gboolean          _gpu_cuda_jit_init           (GpuCudaJit          *jit,
                                                const char          *options,
                                                GError             **error);
void              _gpu_cuda_jit_clear          (GpuCudaJit          *jit);
/* Both logs, cleaned up. */
void              _gpu_cuda_jit_append_log     (GpuCudaJit          *jit,
                                                GString             *log);

/* gpu-cuda-options.c: options of NVRTC, from those that a program was given. */
GPtrArray        *_gpu_cuda_options_new        (int                  compute_capability,
                                                GpuCudaLanguage      language,
                                                const char          *text,
                                                GError             **error);
gboolean          _gpu_cuda_options_have       (GPtrArray           *options,
                                                const char          *prefix);
/* Whether a file is put before the program. */
gboolean          _gpu_cuda_options_include    (GPtrArray           *options);
/* Takes the macros out of @options that those define, or do not: the lines of a program that do. */
char             *_gpu_cuda_options_take_macros (GPtrArray          *options);

/* gpu-cuda-prelude*.c, gpu-cuda-rewrite.c, gpu-cuda-rewrite-image.c */
void              _gpu_cuda_prelude_append     (GString             *text,
                                                GpuCudaLanguage      language,
                                                gboolean             has_images);
/* What has to stand before vectors get the names that CUDA has for its own; and the rest. */
void              _gpu_cuda_prelude_append_vectors (GString         *text);
void              _gpu_cuda_prelude_append_native (GString          *text);
void              _gpu_cuda_prelude_append_images (GString          *text);
/* Whether a source in the dialect names a type of images or samplers, or may do so unseen. */
gboolean          _gpu_cuda_source_has_images  (const char          *source);
/* Bits: the constant samplers that it may use; all if it is but a part of what is compiled. */
guint             _gpu_cuda_source_find_samplers (const char        *source,
                                                gboolean             is_part);
GpuCudaLanguage   _gpu_cuda_source_identify    (const char          *source);
/* The whole of what the compiler gets, with those of the @options that are left. */
char             *_gpu_cuda_source_prepare     (const char          *source,
                                                GpuCudaLanguage      language,
                                                GPtrArray           *options);

/* gpu-cuda-compile.c */
/* Compiles for devices of @compute_capability, which is 90 for 9.0. @log may be NULL and is set to
 * NULL if nothing was said. @names and @lowered may be NULL. */
GBytes           *_gpu_cuda_compile            (int                  compute_capability,
                                                const char          *source,
                                                const char          *options,
                                                gboolean             relocatable,
                                                const char *const   *names,
                                                char              ***lowered,
                                                char               **log,
                                                GError             **error);
/* Appends what decides, beside source, options and device, what comes out. */
void              _gpu_cuda_compile_identify   (GString             *text);

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the files of the CUDA back end that make programs and kernels.
 */
#pragma once

#include "gpumem/cuda/gpu-cuda.h"

G_BEGIN_DECLS

/* A module that the driver has loaded; programs and kernels hold it. */
struct _GpuCudaModule
{
  gatomicrefcount  refs;
  GpuCudaContext  *context;     /* outlives the module */
  CUmodule         module;
  GBytes          *image;       /* what it was loaded from: cubin, fatbin or PTX */
  GHashTable      *limits;      /* of CUfunction to gint; guarded by a lock of its own */
};

typedef struct
{
  GpuNativeKernel  base;
  CUfunction       function;            /* what every launch needs comes first */
  int              max_threads;         /* of a block of this kernel */
  guint            n_image_words;       /* of 64 bits: the structures of its images */
  guint            required_block[3];   /* zeros if the kernel runs in any */
  gboolean         is_described;        /* by the compiler: what it is given was checked */
  gint            *dynamic_shared;      /* atomic; bytes that a launch may ask for; the module's */
  int              static_shared;       /* bytes */
  GpuCudaModule   *module;
  char            *name;
  guint            constant_samplers;   /* bits: which of them its program may use */
} GpuCudaKernel;

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

/* gpu-cuda-module.c */
GpuCudaModule    *_gpu_cuda_module_ref         (GpuCudaModule       *module);
void              _gpu_cuda_module_unref       (GpuCudaModule       *module);
/* Loads @image. What the compiler of the driver says is appended to @log. */
GpuCudaModule    *_gpu_cuda_module_load        (GpuCudaContext      *context,
                                                GBytes              *image,
                                                const char          *options,
                                                GString             *log,
                                                GError             **error);
/* The same for several images, linked. */
GpuCudaModule    *_gpu_cuda_module_link        (GpuCudaContext      *context,
                                                GBytes *const       *images,
                                                guint                n_images,
                                                const char          *options,
                                                GString             *log,
                                                GError             **error);
/* Names as the driver knows them; NULL with @error if nobody tells. */
char            **_gpu_cuda_module_list        (GpuCudaModule       *module,
                                                GError             **error);
/* Copies what a variable of the module holds. FALSE without @error: there is none. */
gboolean          _gpu_cuda_module_read        (GpuCudaModule       *module,
                                                const char          *name,
                                                GBytes             **data,
                                                GError             **error);

/* What launches of @function may ask for, in bytes of local memory; the same for all kernels that
 * are made of it. It begins as @initial. */
gint             *_gpu_cuda_module_get_limit   (GpuCudaModule       *module,
                                                CUfunction           function,
                                                gint                 initial);

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
GPtrArray        *_gpu_cuda_options_new        (GpuCudaDevice       *device,
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
/* Compiles; @log may be NULL and is set to NULL if nothing was said. @names and @lowered may be
 * NULL. */
GBytes           *_gpu_cuda_compile            (GpuCudaContext      *context,
                                                const char          *source,
                                                const char          *options,
                                                gboolean             relocatable,
                                                const char *const   *names,
                                                char              ***lowered,
                                                char               **log,
                                                GError             **error);
/* What decides, beside source and options, what comes out. */
void              _gpu_cuda_compile_identify   (GpuCudaContext      *context,
                                                GString             *text);

/* gpu-cuda-kernel.c */
GpuNativeKernel  *_gpu_cuda_kernel_new         (GpuCudaModule       *module,
                                                const char          *name,
                                                const char          *native_name,
                                                GError             **error);

/* gpu-cuda-launch-image.c: what kernels in the portable dialect are given for images and samplers,
 * and those in CUDA C++ for textures and surfaces. */
/* 0 for what is no image of the dialect. */
guint             _gpu_cuda_image_get_n_words  (char                     kind,
                                                char                     type,
                                                gsize                    size,
                                                gboolean                 read_only);
/* "image2d_t", by the letter that the prelude has for it; NULL if there is none. */
const char       *_gpu_cuda_image_get_type_name (char                    type);
/* With the context entered. One image or sampler of a launch. @slot are 8 bytes for it; @words is
 * what is left of those for images, and moves on. */
gboolean          _gpu_cuda_launch_set_object  (const GpuCudaKernel     *kernel,
                                                const GpuArgumentValue  *values,
                                                guint                    n_values,
                                                guint                    index,
                                                guint64                 *slot,
                                                guint64                **words,
                                                void                   **argument,
                                                GError                 **error);

/* gpu-cuda-launch.c */
/* With the context entered. */
CUresult          _gpu_cuda_kernel_set_limit   (GpuCudaKernel           *kernel,
                                                int                      size);
GpuKernelLaunchOp _gpu_cuda_kernel_launch;

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the files of the CUDA back end that make programs and kernels.
 */
#pragma once

#include "gpumem/cuda/compiler/gpu-cuda-compiler.h"
#include "gpumem/cuda/core/gpu-cuda.h"

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

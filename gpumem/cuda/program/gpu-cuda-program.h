/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the files of the CUDA back end that create programs and kernels.
 */
#pragma once

#include "gpumem/cuda/compiler/gpu-cuda-compiler.h"
#include "gpumem/cuda/core/gpu-cuda.h"

G_BEGIN_DECLS

/* A loaded module, referenced by programs and kernels. */
struct _GpuCudaModule
{
  gatomicrefcount  refs;
  GpuCudaContext  *context;     /* outlives the module */
  CUmodule         module;
  GBytes          *image;       /* the loaded binary: cubin, fatbin or PTX */
  GHashTable      *limits;      /* CUfunction to gint: the limit of dynamic shared memory; guarded
                                 * by a static lock of gpu-cuda-module.c */
};

typedef struct
{
  GpuNativeKernel  base;
  CUfunction       function;            /* the fields of every launch come first */
  int              max_threads;         /* per block of this kernel */
  guint            n_image_words;       /* size of its image structures in 64-bit words */
  guint            required_block[3];   /* zeros if the kernel supports any block */
  gboolean         is_described;        /* the types of arguments are known, so GpuKernel checks
                                         * them */
  gint            *dynamic_shared;      /* atomic; limit of dynamic shared memory in bytes; owned
                                         * by the module */
  int              static_shared;       /* bytes */
  GpuCudaModule   *module;
  char            *name;
  guint            constant_samplers;   /* bitmap of the constant samplers that the program may
                                         * use */
} GpuCudaKernel;

/* gpu-cuda-module.c */
GpuCudaModule    *_gpu_cuda_module_ref         (GpuCudaModule       *module);
void              _gpu_cuda_module_unref       (GpuCudaModule       *module);
/* Loads @image. Appends the messages of the driver's compiler to @log. */
GpuCudaModule    *_gpu_cuda_module_load        (GpuCudaContext      *context,
                                                GBytes              *image,
                                                const char          *options,
                                                GString             *log,
                                                GError             **error);
/* Links the images and loads the result. Appends the messages of the driver's compiler to @log. */
GpuCudaModule    *_gpu_cuda_module_link        (GpuCudaContext      *context,
                                                GBytes *const       *images,
                                                guint                n_images,
                                                const char          *options,
                                                GString             *log,
                                                GError             **error);
/* Returns the names by which the driver finds the kernels. Fails if neither the driver nor the
 * binary lists the kernels. */
char            **_gpu_cuda_module_list        (GpuCudaModule       *module,
                                                GError             **error);
/* Copies the contents of a variable. Returns FALSE without @error if there is no such variable. */
gboolean          _gpu_cuda_module_read        (GpuCudaModule       *module,
                                                const char          *name,
                                                GBytes             **data,
                                                GError             **error);

/* Returns a pointer to the limit of dynamic shared memory for launches of @function, in bytes. All
 * kernel objects of @function share the limit. The first call sets it to @initial. */
gint             *_gpu_cuda_module_get_limit   (GpuCudaModule       *module,
                                                CUfunction           function,
                                                gint                 initial);

/* gpu-cuda-kernel.c */
GpuNativeKernel  *_gpu_cuda_kernel_new         (GpuCudaModule       *module,
                                                const char          *name,
                                                const char          *native_name,
                                                GError             **error);

/* gpu-cuda-launch-image.c: image and sampler arguments of portable kernels, and texture and surface
 * arguments of CUDA C++ kernels. */
/* Returns the size of the image structure in 64-bit words, or 0 if the argument is not an image of
 * the portable dialect. */
guint             _gpu_cuda_image_get_n_words  (char                     kind,
                                                char                     type,
                                                gsize                    size,
                                                gboolean                 read_only);
/* Returns the name of an image type, such as "image2d_t" for '2'. The characters are listed in
 * gpu-cuda-prelude-image.c. Returns NULL for any other character. */
const char       *_gpu_cuda_image_get_type_name (char                    type);
/* Caller has entered the context. Sets @argument to the address of the value for one image or
 * sampler of a launch. The value of a sampler, a texture object or a surface object is stored in
 * @slot, which has 8 bytes. The value of any other image is a structure at @words; the function
 * advances @words past the structure. */
gboolean          _gpu_cuda_launch_set_object  (const GpuCudaKernel     *kernel,
                                                const GpuArgumentValue  *values,
                                                guint                    n_values,
                                                guint                    index,
                                                guint64                 *slot,
                                                guint64                **words,
                                                void                   **argument,
                                                GError                 **error);

/* gpu-cuda-launch.c */
/* Caller has entered the context. */
CUresult          _gpu_cuda_kernel_set_limit   (GpuCudaKernel           *kernel,
                                                int                      size);
GpuKernelLaunchOp _gpu_cuda_kernel_launch;

G_END_DECLS

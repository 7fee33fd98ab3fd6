/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the files of the CUDA back end that create programs and kernels.
 */
#pragma once

#include "gpumem/cuda/compiler/gpu-cuda-compiler.h"
#include "gpumem/cuda/core/gpu-cuda.h"

G_BEGIN_DECLS

typedef struct _GpuCudaKernel GpuCudaKernel;

/* The module of a program, loaded a second time, for launches with an offset. Such launches write
 * the variable GPU_CUDA_OFFSET_NAME of this module; that of the first module stays 0. */
typedef struct _GpuCudaOffset GpuCudaOffset;

struct _GpuCudaOffset
{
  /* All launches have completed. @has_context: the caller has entered the context; otherwise, the
   * driver has already freed its objects. */
  void           (*free) (GpuCudaOffset *self,
                          gboolean       has_context);
  GMutex           lock;        /* guards the fields below while a launch is enqueued */
  GpuCudaModule   *module;
  CUdeviceptr      address;     /* of the variable */
  CUevent          last;        /* recorded after the last launch; the next launch waits for it */
  GpuExtent        offset;      /* value of the variable after the last launch */
};

/* A loaded module, referenced by programs and kernels. */
struct _GpuCudaModule
{
  gatomicrefcount  refs;
  GpuCudaContext  *context;     /* outlives the module */
  CUmodule         module;
  GBytes          *image;       /* the loaded binary: cubin, fatbin or PTX; NULL for a wrapped
                                 * module */
  gboolean         is_borrowed; /* wrapped; the program unloads it */
  GHashTable      *limits;      /* CUfunction to gint: the limit of dynamic shared memory; guarded
                                 * by a static lock of gpu-cuda-module.c */
  GMutex           offset_lock; /* guards `offset`, and `with_offset` of the kernels */
  GpuCudaOffset   *offset;      /* nullable */
};

struct _GpuCudaKernel
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
  gint             cache_preference;    /* atomic; a GpuCachePreference */
  GpuCudaKernel   *with_offset;         /* atomic, nullable; this kernel in GpuCudaOffset.module */
};

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
/* Creates an object for a module of the program. */
GpuCudaModule    *_gpu_cuda_module_wrap        (GpuCudaContext      *context,
                                                CUmodule             handle,
                                                GpuWrapMode          mode,
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

/* gpu-cuda-offset.c */
/* Implements GpuKernelOps.prepare_offset(). Sets `with_offset` of the kernel. */
gboolean          _gpu_cuda_kernel_prepare_offset (GpuNativeContext *context,
                                                GpuNativeKernel     *native,
                                                GError             **error);
/* Sets @copy to the kernel for launches with an offset, or to NULL if the program has had none. */
gboolean          _gpu_cuda_kernel_find_copy   (GpuCudaKernel       *kernel,
                                                GpuCudaKernel      **copy,
                                                GError             **error);
/* Caller has entered the context. Locks @self, and makes @stream wait for the last launch with an
 * offset and set @offset. If successful, the caller must then enqueue the launch and call
 * _gpu_cuda_offset_end() with the result of the driver. Otherwise, unlocks @self, and sets
 * @function to the call that failed. */
CUresult          _gpu_cuda_offset_begin       (GpuCudaOffset       *self,
                                                CUstream             stream,
                                                const GpuExtent     *offset,
                                                const char         **function);
/* Makes the next launch with an offset wait for @stream, and unlocks @self. Returns @code, the
 * result of the launch, if it is an error. */
CUresult          _gpu_cuda_offset_end         (GpuCudaOffset       *self,
                                                CUstream             stream,
                                                CUresult             code,
                                                const char         **function);

/* gpu-cuda-kernel.c */
void              _gpu_cuda_kernel_free        (GpuNativeContext    *context,
                                                GpuNativeKernel     *native);
GpuNativeKernel  *_gpu_cuda_kernel_new         (GpuCudaModule       *module,
                                                const char          *name,
                                                const char          *native_name,
                                                GError             **error);

/* Caller has entered the context. Sets the attributes and the cache preference of @kernel to those
 * of @source. */
gboolean          _gpu_cuda_kernel_copy_attributes (GpuCudaKernel    *kernel,
                                                GpuCudaKernel        *source,
                                                GError              **error);

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

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The binary interface between the library and the programs that it compiles. The library compiles
 * the declarations as C, and inserts the same text at the start of each program's source.
 */
#pragma once

/* Increment this number for every change of the declarations below and of other interfaces that
 * compiled programs use. */
#define GPU_HOST_ABI_VERSION 5

#define GPU_HOST_ABI(_) _ ( \
  typedef __SIZE_TYPE__ GpuHostSize; \
  /* The work-items of a group that one call of run() executes, from begin to end - 1. */ \
  typedef struct _GpuHostItem GpuHostItem; \
  struct _GpuHostItem \
  { \
    unsigned int  work_dim; \
    GpuHostSize   global_size[3]; \
    GpuHostSize   offset[3]; \
    GpuHostSize   block[3]; \
    GpuHostSize   n_groups[3]; \
    GpuHostSize   group[3]; \
    GpuHostSize   local_size[3]; \
    GpuHostSize   begin[3]; \
    GpuHostSize   end[3]; \
    GpuHostSize   item[3]; \
    const void   *scratch;            /* local memory of arguments */ \
    GpuHostSize   scratch_size; \
    void        (*barrier) (GpuHostItem *self); \
  }; \
  typedef enum \
  { \
    GPU_HOST_ARGUMENT_MEMORY, \
    GPU_HOST_ARGUMENT_LOCAL, \
    GPU_HOST_ARGUMENT_VALUE, \
    GPU_HOST_ARGUMENT_IMAGE, \
    GPU_HOST_ARGUMENT_SAMPLER \
  } GpuHostArgumentKind; \
  typedef struct \
  { \
    GpuHostArgumentKind  kind; \
    const char          *name; \
    const char          *type_name; \
    char                 type; \
    int                  read_only; \
    GpuHostSize          size; \
  } GpuHostArgument; \
  /* A sampler constant is the sum of these flags and of the address mode times \
     GPU_HOST_SAMPLER_ADDRESS. Values from GPU_HOST_SAMPLER_END on are the address of a sampler of \
     the library. */ \
  typedef enum \
  { \
    GPU_HOST_SAMPLER_NORMALIZED = 1, \
    GPU_HOST_SAMPLER_ADDRESS = 2, \
    GPU_HOST_SAMPLER_LINEAR = 16, \
    GPU_HOST_SAMPLER_END = 32 \
  } GpuHostSamplerBits; \
  typedef struct _GpuHostImage GpuHostImage; \
  /* All functions take three coordinates: those within a layer, then the number of the layer. \
     Unused coordinates are 0. A texel is four 32-bit numbers. lod may be NULL, and sampler may be \
     0. */ \
  typedef struct \
  { \
    void (*sample) (const GpuHostImage *image, GpuHostSize sampler, const float *coordinates, \
                    const float *lod, void *texel); \
    void (*fetch) (const GpuHostImage *image, GpuHostSize sampler, const int *coordinates, \
                   void *texel); \
    void (*store) (const GpuHostImage *image, const int *coordinates, const void *texel); \
  } GpuHostImageFunctions; \
  /* width, height and depth are the size of a layer if there are layers. channel_order and \
     channel_type have the values of OpenCL. */ \
  struct _GpuHostImage \
  { \
    const GpuHostImageFunctions *functions; \
    int                          width; \
    int                          height; \
    int                          depth; \
    int                          n_layers; \
    int                          n_levels; \
    int                          channel_order; \
    int                          channel_type; \
  }; \
  /* local_sizes, up to local_sizes_end: the size of each variable in local memory in bytes. */ \
  typedef struct \
  { \
    const char            *name; \
    void                 (*run) (void **arguments, GpuHostItem *self); \
    const GpuHostArgument *arguments; \
    unsigned int           n_arguments; \
    int                    has_barrier; \
    GpuHostSize            required_block[3]; \
    const GpuHostSize     *local_sizes; \
    const GpuHostSize     *local_sizes_end; \
  } GpuHostKernelEntry; \
  typedef struct \
  { \
    unsigned int              abi_version; \
    unsigned int              n_kernels; \
    const GpuHostKernelEntry *kernels; \
  } GpuHostProgramEntry; \
)

#define GPU_HOST_ABI_AS_C(...) __VA_ARGS__
#define GPU_HOST_ABI_AS_TEXT(...) #__VA_ARGS__

GPU_HOST_ABI (GPU_HOST_ABI_AS_C)

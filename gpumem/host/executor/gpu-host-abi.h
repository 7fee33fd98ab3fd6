/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What this library and the programs that it compiles both know, written once: the library
 * compiles it as C, and a program gets it as text at the head of its source.
 */
#pragma once

/* Changes with everything below and with whatever else a compiled program relies on. */
#define GPU_HOST_ABI_VERSION 3

#define GPU_HOST_ABI(_) _ ( \
  typedef __SIZE_TYPE__ GpuHostSize; \
  /* Where one call of a kernel stands: the work-items from begin up to end of one group. */ \
  typedef struct _GpuHostItem GpuHostItem; \
  struct _GpuHostItem \
  { \
    unsigned int  work_dim; \
    GpuHostSize   global_size[3]; \
    GpuHostSize   block[3]; \
    GpuHostSize   n_groups[3]; \
    GpuHostSize   group[3]; \
    GpuHostSize   local_size[3]; \
    GpuHostSize   begin[3]; \
    GpuHostSize   end[3]; \
    GpuHostSize   item[3]; \
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
  /* A sampler is a sum of these, with the address mode times GPU_HOST_SAMPLER_ADDRESS, as in a \
     constant; or else the address of a sampler of the library, which is above any such sum. */ \
  typedef enum \
  { \
    GPU_HOST_SAMPLER_NORMALIZED = 1, \
    GPU_HOST_SAMPLER_ADDRESS = 2, \
    GPU_HOST_SAMPLER_LINEAR = 16, \
    GPU_HOST_SAMPLER_END = 32 \
  } GpuHostSamplerBits; \
  typedef struct _GpuHostImage GpuHostImage; \
  /* Coordinates are three, with layers in the dimension after those of a layer, and 0 in those \
     that there are not; a texel is four numbers of 32 bits. lod may be null, sampler 0. */ \
  typedef struct \
  { \
    void (*sample) (const GpuHostImage *image, GpuHostSize sampler, const float *coordinates, \
                    const float *lod, void *texel); \
    void (*fetch) (const GpuHostImage *image, GpuHostSize sampler, const int *coordinates, \
                   void *texel); \
    void (*store) (const GpuHostImage *image, const int *coordinates, const void *texel); \
  } GpuHostImageFunctions; \
  /* The dimensions are those of a layer, where there are layers; the order and the type have the \
     numbers of OpenCL. */ \
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
  /* local_sizes: up to local_sizes_end, bytes of each variable in local memory. */ \
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

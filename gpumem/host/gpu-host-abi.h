/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What this library and the programs that it compiles both know, written once: the library
 * compiles it as C, and a program gets it as text at the head of its source.
 */
#pragma once

/* Changes with everything below and with whatever else a compiled program relies on. */
#define GPU_HOST_ABI_VERSION 2

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
    GPU_HOST_ARGUMENT_VALUE \
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

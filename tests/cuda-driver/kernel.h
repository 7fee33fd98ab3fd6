/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Types shared by kernels and the stand-in for the driver. The stand-in includes this file. The
 * stand-in for NVRTC puts this file, followed by kernel-prelude.h, before every CUDA C++
 * program. */
#pragma once

/* Kinds of textures and surfaces */
enum gpumem_kind
{
  FETCH_LINEAR,
  FETCH_1D,
  FETCH_2D,
  FETCH_3D,
  FETCH_1D_LAYERED,
  FETCH_2D_LAYERED,
  FETCH_CUBE,
  FETCH_CUBE_LAYERED
};

/* cudaSurfaceBoundaryMode */
enum
{
  OUTSIDE_ZERO,
  OUTSIDE_CLAMP,
  OUTSIDE_TRAP
};

/* The parameters of a texture fetch */
typedef struct gpumem_fetch
{
  __UINT64_TYPE__ object;
  unsigned int    kind;
  int             layer;
  float           place[3];
  float           level;
} KernelFetch;

/* The parameters of a surface access */
typedef struct gpumem_access
{
  __UINT64_TYPE__ object;
  unsigned int    kind;
  int             place[3];     /* bytes, rows, slices */
  int             layer;
  unsigned int    size;         /* bytes */
  unsigned int    outside;
  int             writes;
  void           *data;
} KernelAccess;

/* The state of one thread of a block. Kernels access each array of three numbers as a uint3. */
typedef struct gpumem_thread KernelThread;
struct gpumem_thread
{
  unsigned int     thread[3];
  unsigned int     block[3];
  unsigned int     block_size[3];
  unsigned int     grid_size[3];
  void            *shared;
  __UINT64_TYPE__ *slots;       /* of the warp, one per lane */
  unsigned int     lane;
  void           (*barrier)      (KernelThread *thread);
  void           (*warp_barrier) (KernelThread *thread,
                                  unsigned int  mask);
  void           (*stop)         (KernelThread *thread,
                                  unsigned int  code);
  void           (*fetch)        (KernelThread       *thread,
                                  const KernelFetch  *fetch,
                                  unsigned int        result[4]);
  void           (*access)       (KernelThread       *thread,
                                  const KernelAccess *access);
  /* Behind the members that kernels of older versions in the cache use */
  __SIZE_TYPE__    shared_size;      /* bytes of `shared` */
  void            *variables;       /* thread-local variables of the module: those in shared memory,
                                     * and gpumem_self */
  __SIZE_TYPE__    variables_size;
};

typedef struct gpumem_kernel
{
  void               (*function) (void);
  void               (*run) (void (*function) (void), void **arguments);
  const char          *name;            /* as in the source */
  const __SIZE_TYPE__ *sizes;           /* sizes of the parameters */
  const __SIZE_TYPE__ *alignments;
  __SIZE_TYPE__        n_parameters;
  int                  max_threads;     /* 0: the maximum of the device */
} KernelEntry;

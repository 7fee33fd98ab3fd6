/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Arrays, textures and surfaces of the stand-in. */
#pragma once

#include "driver.h"
#include "gpumem/host/executor/gpu-host-texture.h"
#include "kernel.h"

G_BEGIN_DECLS

typedef struct CUarray_st          Array;
typedef struct CUmipmappedArray_st Mipmapped;
typedef struct _Texture            Texture;
typedef struct _Surface            Surface;

typedef struct
{
  GpuChannelType plain;         /* the type with CU_TRSF_READ_AS_INTEGER */
  GpuChannelType type;          /* the type that textures return by default */
  guint          size;          /* bytes of a channel */
  guint          n_channels;    /* 0: the number in the descriptor */
  gboolean       normalized;    /* CU_TRSF_READ_AS_INTEGER is misuse */
} FormatInfo;

/* The number of mip levels of the largest texture */
#define MAX_LEVELS 20

struct CUarray_st
{
  Object                   object;
  CUDA_ARRAY3D_DESCRIPTOR  descriptor;
  FormatInfo               format;
  Memory                  *memory;      /* owned; for a level, the memory of its mipmapped array */
  Mipmapped               *parent;      /* nullable; the mipmapped array of a level */
  guint64                  offset;      /* of the array in `memory`, in bytes */
  guint                    element;     /* bytes */
  guint64                  width;       /* elements */
  guint64                  height;      /* 1 if unused */
  guint64                  depth;       /* or layers; 1 if unused */
};

struct CUmipmappedArray_st
{
  Object     object;
  Memory    *memory;
  Array    **levels;
  guint      n_levels;
};

struct _Texture
{
  Object              object;
  CUDA_RESOURCE_DESC  resource;
  CUDA_TEXTURE_DESC   texture;
  Array              *array;            /* nullable; the first level of a mipmapped array */
  Mipmapped          *mipmapped;        /* nullable */
  FormatInfo          format;
  GpuHostTexture      view;             /* the levels, as kernels read them */
  GpuHostLevel        levels[MAX_LEVELS];
  GpuSamplerDescription sampler;
  GPtrArray          *uses;             /* of Point */
};

struct _Surface
{
  Object     object;
  Array     *array;
  GPtrArray *uses;                      /* of Point */
};

/* array.c */
/* Returns FALSE if arrays do not support the format. */
gboolean    format_get_info   (CUarray_format   format,
                               FormatInfo      *info);
/* Checks that the array belongs to the current context. */
CUresult    array_check       (CUarray          array,
                               Context         *context);
gboolean    array_is_layered  (const Array     *array);
guint64     array_get_address (const Array     *array);
guint64     array_get_row     (const Array     *array);
guint64     array_get_slice   (const Array     *array);
void        array_get_level   (const Array     *array,
                               GpuHostLevel    *level);

/* texture.c */
/* Searches the bytes of an argument for handles of textures and surfaces, and retains their objects
 * for @op. */
CUresult    textures_use      (Op              *op,
                               Stream          *stream,
                               const guint8    *value,
                               gsize            size);
/* Finds a texture or surface object that was created for an array or mipmapped array. (nullable) */
Object     *texture_find_for  (gconstpointer    array);

/* sample.c; called by kernels, without the lock held */
void        texture_fetch     (KernelThread        *thread,
                               const KernelFetch   *fetch,
                               guint32              result[4]);
void        surface_access    (KernelThread        *thread,
                               const KernelAccess  *access);

G_END_DECLS

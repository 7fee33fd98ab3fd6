/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The ABI of DLPack 1.1, and of DLPack before version 1.0. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define GPU_DLPACK_MAJOR 1
#define GPU_DLPACK_MINOR 1

#define GPU_DLPACK_READ_ONLY (G_GUINT64_CONSTANT (1) << 0)
#define GPU_DLPACK_IS_COPIED (G_GUINT64_CONSTANT (1) << 1)

typedef enum
{
  GPU_DL_CPU          = 1,
  GPU_DL_CUDA         = 2,
  GPU_DL_CUDA_HOST    = 3,
  GPU_DL_OPENCL       = 4,
  GPU_DL_CUDA_MANAGED = 13
} GpuDLDeviceType;

typedef enum
{
  GPU_DL_INT     = 0,
  GPU_DL_UINT    = 1,
  GPU_DL_FLOAT   = 2,
  GPU_DL_BFLOAT  = 4,
  GPU_DL_COMPLEX = 5,
  GPU_DL_BOOL    = 6
} GpuDLTypeCode;

typedef struct
{
  gpointer  data;                   /* an address, or a cl_mem on OpenCL */
  gint32    device_type;
  gint32    device_id;
  gint32    n_dims;
  guint8    type_code;
  guint8    type_bits;
  guint16   type_lanes;
  gint64   *shape;
  gint64   *strides;                /* in elements; NULL for C order without gaps */
  guint64   byte_offset;
} GpuDLTensor;

typedef struct _GpuDLManaged GpuDLManaged;
typedef struct _GpuDLVersioned GpuDLVersioned;

struct _GpuDLManaged
{
  GpuDLTensor   tensor;
  gpointer      manager;
  void        (*deleter) (GpuDLManaged *self);
};

struct _GpuDLVersioned
{
  guint32       major;
  guint32       minor;
  gpointer      manager;
  void        (*deleter) (GpuDLVersioned *self);
  guint64       flags;
  GpuDLTensor   tensor;
};

G_STATIC_ASSERT (sizeof (gpointer) != 8 || sizeof (GpuDLTensor) == 48);
G_STATIC_ASSERT (sizeof (gpointer) != 8 || sizeof (GpuDLManaged) == 64);
G_STATIC_ASSERT (sizeof (gpointer) != 8 || sizeof (GpuDLVersioned) == 80);

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies of regions: their state, and the commands that copy a part of a region. */
#pragma once

#include "gpumem/opencl/driver/gpu-opencl.h"

G_BEGIN_DECLS

typedef struct
{
  cl_mem                mem;        /* NULL for host memory and unified shared memory */
  const GpuOpenclImage *image;      /* NULL for linear memory, which includes 1D_BUFFER images */
  gpointer              data;       /* address of host or unified shared memory, otherwise NULL */
  const GpuOpenclUsm   *usm;        /* not NULL for unified shared memory */
} GpuOpenclRegionMemory;

typedef struct
{
  GpuOpenclStream       *stream;
  GpuOpenclRegionMemory  destination;
  GpuOpenclRegionMemory  source;
  gsize                  unit;      /* unit of extents in bytes: the size of a texel, or 1 */
  const char            *function;  /* the last function called */
  cl_int                 code;      /* the code that the function returned */
  GArray                *pieces;    /* nullable; cl_event of all commands except the last */
} GpuOpenclRegion;

/* gpu-opencl-region-command.c */
/* Returns FALSE if the driver cannot copy the region in one command. */
gboolean _gpu_opencl_region_fits    (const GpuOpenclRegion *region,
                                     const GpuRegionSide   *to,
                                     const GpuRegionSide   *from,
                                     const GpuExtent       *extent);
gboolean _gpu_opencl_region_enqueue (GpuOpenclRegion       *region,
                                     const GpuRegionSide   *to,
                                     const GpuRegionSide   *from,
                                     const GpuExtent       *extent,
                                     cl_event              *event);

/* Returns whether the source or the destination is host memory or unified shared memory. The driver
 * accesses such memory by its address. */
static inline gboolean
_gpu_opencl_region_has_host (const GpuOpenclRegion *region)
{
  return region->destination.data != NULL || region->source.data != NULL;
}

/* Returns whether the rows of @side follow each other without gaps. */
static inline gboolean
_gpu_opencl_region_is_tight (const GpuRegionSide *side,
                             const GpuExtent     *extent,
                             gsize                unit)
{
  return (extent->height == 1 || side->row_pitch == extent->width * unit)
         && (extent->depth == 1 || side->slice_pitch == extent->width * unit * extent->height);
}

G_END_DECLS

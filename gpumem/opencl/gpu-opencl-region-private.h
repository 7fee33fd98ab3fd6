/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies of regions: what is to be done, and the single commands that do a part of it. */
#pragma once

#include "gpumem/opencl/driver/gpu-opencl.h"

G_BEGIN_DECLS

typedef struct
{
  cl_mem                mem;        /* NULL for memory of the host */
  const GpuOpenclImage *image;      /* NULL for linear memory, as images over buffers are here */
  gpointer              data;       /* of the host, or unified shared memory; NULL for others */
  const GpuOpenclUsm   *usm;        /* of the latter, or NULL */
} GpuOpenclRegionMemory;

typedef struct
{
  GpuOpenclStream       *stream;
  GpuOpenclRegionMemory  destination;
  GpuOpenclRegionMemory  source;
  gsize                  unit;      /* bytes that extents count by: those of a texel, or 1 */
  const char            *function;  /* the last one called */
  cl_int                 code;      /* what it answered */
  GArray                *pieces;    /* of cl_event: all but the last command; NULL without any */
} GpuOpenclRegion;

/* gpu-opencl-region-command.c */
/* FALSE if the driver would not take it in one command. */
gboolean _gpu_opencl_region_fits    (const GpuOpenclRegion *region,
                                     const GpuRegionSide   *to,
                                     const GpuRegionSide   *from,
                                     const GpuExtent       *extent);
gboolean _gpu_opencl_region_enqueue (GpuOpenclRegion       *region,
                                     const GpuRegionSide   *to,
                                     const GpuRegionSide   *from,
                                     const GpuExtent       *extent,
                                     cl_event              *event);

/* One of the two is memory of the host. */
static inline gboolean
_gpu_opencl_region_has_host (const GpuOpenclRegion *region)
{
  return region->destination.data != NULL || region->source.data != NULL;
}

/* The rows of one follow each other without gaps. */
static inline gboolean
_gpu_opencl_region_is_tight (const GpuRegionSide *side,
                             const GpuExtent     *extent,
                             gsize                unit)
{
  return (extent->height == 1 || side->row_pitch == extent->width * unit)
         && (extent->depth == 1 || side->slice_pitch == extent->width * unit * extent->height);
}

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies of regions. The source and the destination are memory of the process. */
#include "config.h"

#include <string.h>

#include "gpumem/host/gpu-host.h"

typedef struct
{
  guint8 *data;                     /* address of the first byte */
  gsize   row_pitch;
  gsize   slice_pitch;
} Side;

typedef struct
{
  GpuHostOperation  parent;
  Side              destination;
  Side              source;
  GpuExtent         extent;         /* bytes, rows, slices */
} GpuHostCopyRegion;

static Side
get_side (const GpuRegionSide *side)
{
  guint8 *data = side->memory != NULL ? _gpu_host_memory_get_data (side->memory) : side->data;

  return (Side) { data + side->offset, side->row_pitch, side->slice_pitch };
}

/* Returns the number of bytes in one unit of the extent's width. */
static gsize
get_unit (const GpuRegionSide *side)
{
  return side->memory != NULL && side->memory->is_image
         ? ((const GpuNativeImage *) side->memory)->description.texel_size : 1;
}

static gboolean
copy_region_run (GpuHostOperation  *operation,
                 GError           **error G_GNUC_UNUSED)
{
  GpuHostCopyRegion *copy = (GpuHostCopyRegion *) operation;
  guint8 *destination_slice = copy->destination.data;
  const guint8 *source_slice = copy->source.data;

  for (gsize z = 0; z < copy->extent.depth; z++)
    {
      guint8 *destination = destination_slice;
      const guint8 *source = source_slice;

      for (gsize y = 0; y < copy->extent.height; y++)
        {
          memcpy (destination, source, copy->extent.width);
          destination += copy->destination.row_pitch;
          source += copy->source.row_pitch;
        }

      destination_slice += copy->destination.slice_pitch;
      source_slice += copy->source.slice_pitch;
    }

  return TRUE;
}

gboolean
_gpu_host_copy_region (GpuNativeStream      *stream,
                       const GpuRegionSide  *destination,
                       const GpuRegionSide  *source,
                       const GpuExtent      *extent,
                       GpuNativeEvent      **event,
                       GError              **error)
{
  GpuHostCopyRegion *copy = _gpu_host_operation_new (sizeof *copy, copy_region_run);

  copy->destination = get_side (destination);
  copy->source = get_side (source);
  copy->extent = *extent;
  copy->extent.width *= MAX (get_unit (destination), get_unit (source));

  return _gpu_host_stream_submit (stream, copy, event, error);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <string.h>

#include "tools/gpumem-tour-device.h"

#define COUNTS_SIZE (GPUMEM_N_COUNTS * sizeof (guint32))

static gsize
picture_size (GpumemWork *work)
{
  return g_bytes_get_size (work->tour->picture->pixels);
}

/* Allocates the memory of all kernels, with a name for each buffer. */
gboolean
gpumem_work_allocate (GpumemWork  *work,
                      GError     **error)
{
  const struct
  {
    GpuBuffer      **buffer;
    GpuMemoryFlags   flags;
    gsize            size;
  } buffers[] = {
    { &work->input, GPU_MEMORY_FLAGS_READ_ONLY, picture_size (work) },
    { &work->scratch, GPU_MEMORY_FLAGS_NONE, picture_size (work) },
    { &work->blurred, GPU_MEMORY_FLAGS_NONE, picture_size (work) },
    { &work->edges, GPU_MEMORY_FLAGS_NONE, picture_size (work) },
    { &work->before, GPU_MEMORY_FLAGS_NONE, COUNTS_SIZE },
    { &work->after, GPU_MEMORY_FLAGS_NONE, COUNTS_SIZE },
  };
  g_autoptr (GBytes) weights = g_bytes_new_static (work->tour->reference->weights,
                                                   sizeof work->tour->reference->weights);

  work->weights = gpu_buffer_new_from_bytes (work->context, GPU_MEMORY_FLAGS_READ_ONLY, weights,
                                             error);
  if (work->weights == NULL)
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
    {
      *buffers[i].buffer = gpu_buffer_new (work->context, buffers[i].flags, buffers[i].size,
                                           error);
      if (*buffers[i].buffer == NULL)
        return FALSE;
    }
  work->note = g_strdup_printf ("%u buffers", (guint) G_N_ELEMENTS (buffers) + 1);
  return TRUE;
}

gboolean
gpumem_work_upload (GpumemWork  *work,
                    GError     **error)
{
  work->moved = picture_size (work);
  return gpu_stream_write (work->first, GPU_MEMORY (work->input), 0, work->tour->picture->pixels,
                           error) &&
         gpu_stream_synchronize (work->first, work->tour->cancellable, error);
}

GpuProgram *
gpumem_work_load (GpumemWork  *work,
                  const char  *path,
                  GError     **error)
{
  g_autoptr (GBytes) source = g_resources_lookup_data (path, G_RESOURCE_LOOKUP_FLAGS_NONE, error);

  if (source == NULL)
    return NULL;
  return gpu_program_new_from_source (work->context, g_bytes_get_data (source, NULL), NULL, error);
}

gboolean
gpumem_work_get_kernel (GpuProgram  *program,
                        const char  *name,
                        const char  *types,
                        GpuKernel  **kernel,
                        GError     **error)
{
  *kernel = gpu_program_get_kernel (program, name, error);
  return *kernel != NULL && gpu_kernel_declare_arguments (*kernel, types, error);
}

gboolean
gpumem_work_build (GpumemWork  *work,
                   GError     **error)
{
  g_autoptr (GpuProgram) program = gpumem_work_load (work, "/gpumem/tour.cl", error);

  if (program == NULL ||
      !gpumem_work_get_kernel (program, "blur", "pppiiii", &work->blur_kernel, error) ||
      !gpumem_work_get_kernel (program, "edges", "ppii", &work->edges_kernel, error) ||
      !gpumem_work_get_kernel (program, "histogram", "ppii", &work->histogram_kernel, error))
    return FALSE;
  work->note = g_strdup (gpu_program_is_from_cache (program) ? "3 kernels, from the cache"
                                                             : "3 kernels");
  return TRUE;
}

static GpuExtent
grid_of (GpumemWork *work)
{
  return (GpuExtent) { work->tour->picture->width, work->tour->picture->height, 1 };
}

/* Blurs along the rows, then along the columns. */
gboolean
gpumem_work_blur (GpumemWork  *work,
                  GError     **error)
{
  GpuExtent grid = grid_of (work);
  int width = work->tour->picture->width;
  int height = work->tour->picture->height;

  work->moved = 4 * picture_size (work);
  return gpu_stream_launch (work->first, work->blur_kernel, &grid, NULL, error, work->input,
                            work->scratch, work->weights, GPUMEM_BLUR_RADIUS, width, height,
                            1) &&
         gpu_stream_launch (work->first, work->blur_kernel, &grid, NULL, error, work->scratch,
                            work->blurred, work->weights, GPUMEM_BLUR_RADIUS, width, height,
                            0) &&
         gpu_stream_synchronize (work->first, work->tour->cancellable, error);
}

gboolean
gpumem_work_find_edges (GpumemWork  *work,
                        GError     **error)
{
  GpuExtent grid = grid_of (work);
  int width = work->tour->picture->width;
  int height = work->tour->picture->height;

  work->moved = 2 * picture_size (work);
  return gpu_stream_launch (work->first, work->edges_kernel, &grid, NULL, error, work->input,
                            work->edges, width, height) &&
         gpu_stream_synchronize (work->first, work->tour->cancellable, error);
}

/* Copies @picture to the scratch buffer on the first stream, and counts the copied pixels on the
 * second stream. */
static gboolean
count_one (GpumemWork  *work,
           GpuBuffer   *picture,
           GpuBuffer   *counts,
           GError     **error)
{
  const guint8 zero = 0;
  GpuExtent grid = grid_of (work);
  int width = work->tour->picture->width;
  int height = work->tour->picture->height;

  return gpu_stream_copy (work->first, GPU_MEMORY (work->scratch), 0, GPU_MEMORY (picture), 0,
                          picture_size (work), error) &&
         gpu_stream_fill (work->second, GPU_MEMORY (counts), 0, COUNTS_SIZE, &zero, sizeof zero,
                          error) &&
         gpu_stream_launch (work->second, work->histogram_kernel, &grid, NULL, error,
                            work->scratch, counts, width, height);
}

static guint64
count_hazard_waits (GpumemWork *work)
{
  guint64 first, second;

  g_object_get (work->first, "n-hazard-waits", &first, NULL);
  g_object_get (work->second, "n-hazard-waits", &second, NULL);
  return first + second;
}

/* Two streams alternate on one buffer without explicit ordering: the library tracks the memory of
 * each operation and inserts the necessary waits. */
gboolean
gpumem_work_count (GpumemWork  *work,
                   GError     **error)
{
  guint64 before = count_hazard_waits (work);
  guint64 waits;

  work->moved = 6 * picture_size (work);
  if (!count_one (work, work->input, work->before, error) ||
      !count_one (work, work->blurred, work->after, error) ||
      !gpu_stream_synchronize (work->second, work->tour->cancellable, error))
    return FALSE;
  waits = count_hazard_waits (work) - before;
  work->result->hazard_waits = waits;
  work->note = g_strdup_printf ("2 streams, %" G_GUINT64_FORMAT " waits inserted by the library",
                                waits);
  return TRUE;
}

/* Copies the blurred picture from a mapping. If the device does not support mappings, reads the
 * picture from its buffer instead. */
gboolean
gpumem_work_map (GpumemWork  *work,
                 GError     **error)
{
  GpuDevice *device = gpu_context_get_device (work->context);
  g_autoptr (GpuMapping) mapping = NULL;

  work->moved = picture_size (work);
  g_clear_pointer (&work->blurred_result, g_bytes_unref);
  if (!(gpu_device_get_capabilities (device) & GPU_CAPABILITIES_MAP))
    {
      work->note = g_strdup ("cannot be mapped here: read instead");
      work->blurred_result = gpu_buffer_read_bytes (work->blurred, work->first, 0,
                                                    picture_size (work),
                                                    work->tour->cancellable, error);
      return work->blurred_result != NULL;
    }
  mapping = gpu_buffer_map (work->blurred, work->first, GPU_MAP_FLAGS_READ, 0,
                            picture_size (work), work->tour->cancellable, error);
  if (mapping == NULL)
    return FALSE;
  work->note = g_strdup ("and copied out");
  work->blurred_result = g_bytes_new (gpu_mapping_get_data (mapping),
                                      gpu_mapping_get_size (mapping));
  return gpu_mapping_unmap (mapping, error);
}

static gboolean
read_one (GpumemWork  *work,
          GpuBuffer   *buffer,
          GBytes     **result,
          GError     **error)
{
  gsize size = gpu_memory_get_size (GPU_MEMORY (buffer));

  g_clear_pointer (result, g_bytes_unref);
  work->moved += size;
  *result = gpu_buffer_read_bytes (buffer, work->first, 0, size, work->tour->cancellable, error);
  return *result != NULL;
}

gboolean
gpumem_work_read_back (GpumemWork  *work,
                       GError     **error)
{
  return read_one (work, work->edges, &work->edges_result, error) &&
         read_one (work, work->before, &work->before_result, error) &&
         read_one (work, work->after, &work->after_result, error) &&
         gpumem_work_read_images (work, error);
}

void
gpumem_work_clear (GpumemWork *work)
{
  g_clear_pointer (&work->blurred_result, g_bytes_unref);
  g_clear_pointer (&work->edges_result, g_bytes_unref);
  g_clear_pointer (&work->before_result, g_bytes_unref);
  g_clear_pointer (&work->after_result, g_bytes_unref);
  g_clear_object (&work->blur_kernel);
  g_clear_object (&work->edges_kernel);
  g_clear_object (&work->histogram_kernel);
  g_clear_object (&work->input);
  g_clear_object (&work->scratch);
  g_clear_object (&work->blurred);
  g_clear_object (&work->edges);
  g_clear_object (&work->weights);
  g_clear_object (&work->before);
  g_clear_object (&work->after);
  gpumem_work_clear_images (work);
  g_clear_object (&work->first);
  g_clear_object (&work->second);
  g_clear_pointer (&work->note, g_free);
}

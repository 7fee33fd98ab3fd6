/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Measures all paths, directions and sizes in order. */
#include "config.h"

#include "tools/gpumem-bandwidth.h"
#include "tools/gpumem-format.h"

static void
figure_free (gpointer data)
{
  GpumemFigure *figure = data;

  g_free (figure->wrong);
  g_free (figure);
}

static void
omission_free (gpointer data)
{
  GpumemOmission *omission = data;

  g_free (omission->reason);
  g_free (omission);
}

const char *
gpumem_direction_get_name (GpumemDirection direction)
{
  static const char *const names[GPUMEM_N_DIRECTIONS] = { "to", "from", "both", "within" };

  return names[direction];
}

GpumemPlace *
gpumem_lane_get_source (GpumemBench *bench,
                        guint        lane)
{
  return lane == 0 ? &bench->lanes[0].near : &bench->lanes[lane].far;
}

GpumemPlace *
gpumem_lane_get_destination (GpumemBench *bench,
                             guint        lane)
{
  return lane == 0 ? &bench->lanes[0].far : &bench->lanes[lane].near;
}

void
gpumem_lane_clear (GpumemLane *lane)
{
  g_clear_object (&lane->near.memory);
  g_clear_object (&lane->far.memory);
  g_clear_object (&lane->detour.memory);
  g_clear_pointer (&lane->bytes, g_bytes_unref);
  gpumem_file_clear (lane);
  lane->near.data = NULL;
  lane->detour.data = NULL;
}

/* --- omitted measurements --------------------------------------------------- */

static gboolean
is_lack (const GError *error)
{
  return g_error_matches (error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED) ||
         g_error_matches (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY) ||
         g_error_matches (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY);
}

/* Records an omitted measurement, unless it was cancelled. */
static void
omit (GpumemBench      *bench,
      const GpumemPath *path,
      gsize             size,
      const GError     *error)
{
  GpumemOmission *omission;

  if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return;
  omission = g_new0 (GpumemOmission, 1);
  omission->path = path != NULL ? path->name : NULL;
  omission->size = size;
  omission->reason = g_strdup (error->message);
  omission->failed = !is_lack (error);
  g_ptr_array_add (bench->omissions, omission);
}

/* Copies in both directions at once need two allocations in device memory and two in host memory.
 * If the device has no memory of its own, all four are in host memory. Half of the free memory
 * remains unused. */
gboolean
gpumem_bench_get_limit (GpuContext  *device_context,
                        guint64     *limit,
                        GError     **error)
{
  g_autoptr (GpuDevice) host = gpu_device_find ("host", error);
  g_autoptr (GpuContext) context = host != NULL ? gpu_context_new (host, GPU_CONTEXT_FLAGS_NONE,
                                                                   error) : NULL;
  guint64 host_size, device_size, total;
  GpuMemoryInfoSource source;

  if (context == NULL ||
      !gpu_context_get_memory_info (context, &host_size, &total, &source, error) ||
      !gpu_context_get_memory_info (device_context, &device_size, &total, &source, error))
    return FALSE;
  *limit = MIN (gpu_device_get_max_allocation (gpu_context_get_device (device_context)),
                MIN (host_size / 8, device_size / 4));
  return TRUE;
}

static gboolean
limit_sizes (GpumemBench  *bench,
             GError      **error)
{
  guint64 largest;

  if (!gpumem_bench_get_limit (bench->context, &largest, error))
    return FALSE;
  for (guint i = bench->sizes->len; i > 0; i--)
    {
      guint64 size = g_array_index (bench->sizes, guint64, i - 1);
      g_autofree char *limit = gpumem_format_size (largest);
      g_autoptr (GError) lack = NULL;

      if (size <= largest)
        break;
      lack = g_error_new (GPU_ERROR, GPU_ERROR_NOT_SUPPORTED,
                          "the free memory is enough for copies of at most %s", limit);
      omit (bench, NULL, size, lack);
      g_array_set_size (bench->sizes, i - 1);
    }
  return TRUE;
}

/* --- running ---------------------------------------------------------------- */

static guint
count_directions (const GpumemPath *path)
{
  guint n = 0;

  for (guint i = 0; i < GPUMEM_N_DIRECTIONS; i++)
    n += path->directions >> i & 1;
  return n;
}

static guint
count_lines (GpumemBench *bench)
{
  guint n = 0;

  for (guint i = 0; i < bench->paths->len; i++)
    n += count_directions (g_ptr_array_index (bench->paths, i)) * bench->sizes->len;
  return n;
}

static void
clear_lanes (GpumemBench *bench)
{
  for (guint i = 0; i < GPUMEM_N_LANES; i++)
    gpumem_lane_clear (&bench->lanes[i]);
}

static gboolean
prepare (GpumemBench       *bench,
         const GpumemPath  *path,
         gsize              size,
         GError           **error)
{
  for (guint i = 0; i < GPUMEM_N_LANES; i++)
    {
      if (i == 1 && (path->directions & 1 << GPUMEM_DIRECTION_FROM) == 0)
        continue;
      if (g_cancellable_set_error_if_cancelled (bench->cancellable, error) ||
          !path->prepare (bench, i, size, error) ||
          !gpumem_pattern_fill (bench, i, size, error))
        {
          clear_lanes (bench);
          return FALSE;
        }
    }
  return TRUE;
}

/* Allocates memory for the largest size that fits in memory. Smaller sizes use a part of this
 * memory. Returns: the number of sizes that fit */
static guint
prepare_largest (GpumemBench      *bench,
                 const GpumemPath *path)
{
  guint n_sizes;

  for (n_sizes = bench->sizes->len; n_sizes > 0; n_sizes--)
    {
      guint64 size = g_array_index (bench->sizes, guint64, n_sizes - 1);
      g_autoptr (GError) error = NULL;

      if (prepare (bench, path, size, &error))
        break;
      if (!g_error_matches (error, GPU_ERROR, GPU_ERROR_OUT_OF_DEVICE_MEMORY) &&
          !g_error_matches (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY))
        {
          omit (bench, path, 0, error);
          return 0;
        }
      omit (bench, path, size, error);
    }
  return n_sizes;
}

static gboolean
run_line (GpumemBench       *bench,
          const GpumemPath  *path,
          GpumemDirection    direction,
          gsize              size,
          GError           **error)
{
  GpumemFigure *figure = g_new0 (GpumemFigure, 1);
  g_autofree char *text = gpumem_format_size (size);

  figure->path = path;
  figure->direction = direction;
  figure->size = size;
  figure->has_raw = bench->has_raw;
  gpumem_progress_begin (bench->progress, "%s, %s, %s", path->name,
                         gpumem_direction_get_name (direction), text);
  if (gpumem_bench_measure (bench, figure, error))
    {
      g_ptr_array_add (bench->figures, figure);
      return TRUE;
    }
  figure_free (figure);
  g_prefix_error (error, "stopped at direction %s, size %s; later sizes and directions were not "
                  "measured: ", gpumem_direction_get_name (direction), text);
  return FALSE;
}

/* Returns: the number of lines of the table */
static guint
run_path (GpumemBench      *bench,
          const GpumemPath *path)
{
  g_autoptr (GError) error = NULL;
  guint n_sizes = 0;
  guint n_lines = 0;

  bench->has_raw = TRUE;
  if (path->check != NULL && !path->check (bench, &error))
    omit (bench, path, 0, error);
  else
    n_sizes = prepare_largest (bench, path);
  for (guint i = 0; i < GPUMEM_N_DIRECTIONS && error == NULL; i++)
    {
      if ((path->directions & 1u << i) == 0)
        continue;
      for (guint j = 0; j < n_sizes && error == NULL; j++)
        {
          gsize size = g_array_index (bench->sizes, guint64, j);

          n_lines++;
          if (!run_line (bench, path, i, size, &error))
            omit (bench, path, 0, error);
        }
    }
  clear_lanes (bench);
  return n_lines;
}

gboolean
gpumem_bench_run (GpumemBench *bench)
{
  for (guint i = 0; i < bench->paths->len; i++)
    {
      const GpumemPath *path = g_ptr_array_index (bench->paths, i);
      guint n_lines = run_path (bench, path);

      if (g_cancellable_is_cancelled (bench->cancellable))
        return FALSE;
      gpumem_progress_skip (bench->progress,
                            count_directions (path) * bench->sizes->len - n_lines);
    }
  return TRUE;
}

gboolean
gpumem_bench_open (GpumemBench  *bench,
                   GError      **error)
{
  bench->figures = g_ptr_array_new_with_free_func (figure_free);
  bench->omissions = g_ptr_array_new_with_free_func (omission_free);
  if (!gpu_device_check (bench->device, error))
    return FALSE;
  bench->context = gpu_context_new (bench->device, GPU_CONTEXT_FLAGS_NONE, error);
  if (bench->context == NULL || !gpumem_raw_init (&bench->raw, bench->context, error))
    return FALSE;
  for (guint i = 0; i < GPUMEM_N_LANES; i++)
    {
      bench->streams[i] = gpu_stream_new (bench->context, GPU_STREAM_FLAGS_NON_BLOCKING, error);
      if (bench->streams[i] == NULL)
        return FALSE;
    }
  if (!limit_sizes (bench, error))
    return FALSE;
  bench->progress = gpumem_progress_new (count_lines (bench));
  return gpumem_helper_start (bench, error);
}

void
gpumem_bench_clear (GpumemBench *bench)
{
  gpumem_helper_stop (bench);
  clear_lanes (bench);
  for (guint i = 0; i < GPUMEM_N_LANES; i++)
    g_clear_object (&bench->streams[i]);
  gpumem_raw_clear (&bench->raw);
  g_clear_object (&bench->peer_context);
  g_clear_object (&bench->context);
  g_clear_object (&bench->device);
  g_clear_object (&bench->peer);
  g_clear_pointer (&bench->progress, gpumem_progress_free);
  g_clear_pointer (&bench->paths, g_ptr_array_unref);
  g_clear_pointer (&bench->sizes, g_array_unref);
  g_clear_pointer (&bench->plot, g_free);
  g_clear_pointer (&bench->file, g_free);
  g_clear_pointer (&bench->figures, g_ptr_array_unref);
  g_clear_pointer (&bench->omissions, g_ptr_array_unref);
}

gboolean
gpumem_bench_has_failed (GpumemBench *bench)
{
  for (guint i = 0; i < bench->figures->len; i++)
    if (((GpumemFigure *) g_ptr_array_index (bench->figures, i))->wrong != NULL)
      return TRUE;
  for (guint i = 0; i < bench->omissions->len; i++)
    if (((GpumemOmission *) g_ptr_array_index (bench->omissions, i))->failed)
      return TRUE;
  return bench->figures->len == 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "tools/gpumem-tour-device.h"

/* The time in nanoseconds after which a step is not run again. A step runs at least twice if the
 * table allows it, because some drivers compile a kernel at its first run. */
#define ENOUGH (G_GINT64_CONSTANT (400) * 1000 * 1000)

static const struct
{
  const char *name;
  gboolean  (*run) (GpumemWork  *work,
                    GError     **error);
  guint       n_runs;
} steps[] = {
  { "allocate", gpumem_work_allocate, 1 },
  { "upload", gpumem_work_upload, 3 },
  { "build", gpumem_work_build, 1 },
  { "blur", gpumem_work_blur, 3 },
  { "edges", gpumem_work_find_edges, 3 },
  { "histogram", gpumem_work_count, 3 },
  { "images", gpumem_work_make_images, 1 },
  { "image blur", gpumem_work_blur_image, 3 },
  { "resize", gpumem_work_resize, 3 },
  { "map", gpumem_work_map, 3 },
  { "read back", gpumem_work_read_back, 3 },
  { "check", gpumem_work_check, 1 },
  { "write", gpumem_work_save, 1 },
};

guint
gpumem_tour_n_steps (void)
{
  return G_N_ELEMENTS (steps);
}

static void
step_free (gpointer data)
{
  GpumemStep *step = data;

  g_free (step->note);
  g_free (step);
}

static GpumemResult *
result_new (GpuDevice *device)
{
  GpumemResult *result = g_new0 (GpumemResult, 1);

  result->device = g_object_ref (device);
  result->outcome = GPUMEM_OUTCOME_RIGHT;
  result->steps = g_ptr_array_new_with_free_func (step_free);
  result->pictures = g_ptr_array_new_with_free_func (g_free);
  return result;
}

void
gpumem_result_free (GpumemResult *result)
{
  g_object_unref (result->device);
  g_ptr_array_unref (result->steps);
  g_ptr_array_unref (result->pictures);
  g_free (result->message);
  g_free (result);
}

static void
finish (GpumemResult  *result,
        GpumemOutcome  outcome,
        const char    *message)
{
  result->outcome = outcome;
  g_free (result->message);
  result->message = g_strchomp (g_strdup (message));
}

/* Runs a step as often as the table states, and records the best time. */
static gboolean
run_step (GpumemWork  *work,
          guint        index,
          GError     **error)
{
  GpumemStep *step = g_new0 (GpumemStep, 1);
  gint64 spent = 0;

  gpumem_progress_begin (work->tour->progress, "%s: %s", gpu_device_get_id (work->result->device),
                         steps[index].name);
  g_ptr_array_add (work->result->steps, step);
  step->name = steps[index].name;
  for (guint i = 0; i < steps[index].n_runs && (i < 2 || spent < ENOUGH); i++)
    {
      gint64 start = gpumem_tour_clock ();
      gint64 elapsed;

      work->moved = 0;
      g_clear_pointer (&work->note, g_free);
      if (g_cancellable_set_error_if_cancelled (work->tour->cancellable, error) ||
          !steps[index].run (work, error))
        return FALSE;
      elapsed = gpumem_tour_clock () - start;
      step->nanoseconds = i == 0 ? elapsed : MIN (step->nanoseconds, elapsed);
      spent += elapsed;
      gpumem_progress_part (work->tour->progress, (i + 1.0) / steps[index].n_runs);
    }
  step->moved = work->moved;
  step->note = g_steal_pointer (&work->note);
  step->held = gpu_context_get_allocated_size (work->context);
  gpumem_report_step (work->tour, step);
  return TRUE;
}

static gboolean
run_steps (GpumemWork  *work,
           GError     **error)
{
  work->first = gpu_stream_new (work->context, GPU_STREAM_FLAGS_NONE, error);
  if (work->first == NULL)
    return FALSE;
  work->second = gpu_stream_new (work->context, GPU_STREAM_FLAGS_NONE, error);
  if (work->second == NULL)
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (steps); i++)
    if (!run_step (work, i, error))
      {
        g_prefix_error (error, "%s: ", steps[i].name);
        return FALSE;
      }
  return TRUE;
}

static gboolean
is_fit (GpuDevice     *device,
        GpumemResult  *result)
{
  g_autoptr (GError) error = NULL;

  if (!gpu_device_check (device, &error))
    finish (result, GPUMEM_OUTCOME_SKIPPED, error->message);
  else if (!(gpu_device_get_capabilities (device) & GPU_CAPABILITIES_SOURCE))
    finish (result, GPUMEM_OUTCOME_SKIPPED, "it has no compiler for kernels");
  else
    return TRUE;
  return FALSE;
}

/* Runs the tour on one device. Returns a result even after an error. */
GpumemResult *
gpumem_tour_run (GpumemTour *tour,
                 GpuDevice  *device)
{
  GpumemResult *result = result_new (device);
  GpumemWork work = { .tour = tour, .result = result };
  g_autoptr (GError) error = NULL;

  gpumem_report_device (tour, device);
  if (is_fit (device, result))
    {
      work.context = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
      if (work.context == NULL || !run_steps (&work, &error))
        {
          if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
            finish (result, GPUMEM_OUTCOME_SKIPPED, "interrupted");
          else
            finish (result, GPUMEM_OUTCOME_FAILED, error->message);
        }
      gpumem_work_clear (&work);
      if (work.context != NULL)
        {
          gpu_context_synchronize (work.context, NULL);
          result->held_afterwards = gpu_context_get_allocated_size (work.context);
          g_object_unref (work.context);
        }
    }
  gpumem_progress_skip (tour->progress,
                        gpumem_tour_n_steps () - MIN (result->steps->len, gpumem_tour_n_steps ()));
  gpumem_report_result (tour, result);
  return result;
}

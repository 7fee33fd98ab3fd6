/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "tools/gpumem-format.h"
#include "tools/gpumem-html.h"
#include "tools/gpumem-tour.h"

static void
add_steps (GString            *page,
           const GpumemResult *result)
{
  static const char *const columns[] = { "Step", "Moved", "Time", "Speed", "Held", "Note", NULL };

  gpumem_html_begin_table (page, columns);
  for (guint i = 0; i < result->steps->len; i++)
    {
      const GpumemStep *step = g_ptr_array_index (result->steps, i);
      g_autofree char *moved = gpumem_format_size (step->moved);
      g_autofree char *time = gpumem_format_time (step->nanoseconds);
      g_autofree char *speed = gpumem_format_speed (step->moved, step->nanoseconds);
      g_autofree char *held = gpumem_format_size (step->held);

      gpumem_html_row (page, (const char *const[]) { step->name, step->moved > 0 ? moved : "",
                                                     time, speed, held,
                                                     step->note != NULL ? step->note : "", NULL });
    }
  gpumem_html_end_table (page);
}

static gboolean
add_result (GString             *page,
            const GpumemResult  *result,
            GError             **error)
{
  g_autofree char *title = g_strdup_printf ("%s: %s", gpu_device_get_id (result->device),
                                            gpu_device_get_name (result->device));

  gpumem_html_heading (page, title);
  gpumem_html_paragraph (page, result->message != NULL ? result->message
                                                       : "All results are right.");
  add_steps (page, result);
  for (guint i = 0; i < result->pictures->len; i++)
    if (!gpumem_html_picture (page, g_ptr_array_index (result->pictures, i), error))
      return FALSE;
  return TRUE;
}

gboolean
gpumem_report_save (GpumemTour  *tour,
                    GPtrArray   *results,
                    const char  *path,
                    GError     **error)
{
  g_autofree char *input = g_build_filename (tour->output, "input.png", NULL);
  g_autoptr (GString) page = gpumem_html_begin ("gpumem tour");

  gpumem_html_heading (page, "Picture");
  if (!gpumem_html_picture (page, input, error))
    return FALSE;
  for (guint i = 0; i < results->len; i++)
    if (!add_result (page, g_ptr_array_index (results, i), error))
      return FALSE;
  return gpumem_html_save (page, path, error);
}

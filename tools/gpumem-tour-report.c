/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <stdio.h>

#include "tools/gpumem-format.h"
#include "tools/gpumem-json.h"
#include "tools/gpumem-terminal.h"
#include "tools/gpumem-tour.h"

static const struct
{
  const char  *name;
  const char  *text;
  GpumemStyle  style;
} outcomes[] = {
  [GPUMEM_OUTCOME_RIGHT]   = { "right", "right", GPUMEM_STYLE_GOOD },
  [GPUMEM_OUTCOME_WRONG]   = { "wrong", "WRONG", GPUMEM_STYLE_BAD },
  [GPUMEM_OUTCOME_FAILED]  = { "failed", "FAILED", GPUMEM_STYLE_BAD },
  [GPUMEM_OUTCOME_SKIPPED] = { "skipped", "skipped", GPUMEM_STYLE_FAINT }
};

static void
print_styled (GpumemStyle  style,
              const char  *text)
{
  g_print ("%s%s%s", gpumem_style_begin (style), text, gpumem_style_end (style));
}

void
gpumem_report_begin (GpumemTour *tour)
{
  g_autofree char *size = gpumem_format_size (g_bytes_get_size (tour->picture->pixels));
  g_autofree char *time = gpumem_format_time (tour->reference->nanoseconds);

  if (tour->json)
    return;
  gpumem_progress_clear (tour->progress);
  g_print ("Picture    %s, %u x %u pixels, %s\n"
           "Reference  blur, edges and histograms in plain C on this CPU: %s\n",
           tour->picture_name, tour->picture->width, tour->picture->height, size, time);
}

void
gpumem_report_device (GpumemTour *tour,
                      GpuDevice  *device)
{
  if (tour->json)
    return;
  gpumem_progress_clear (tour->progress);
  g_print ("\n%s%s: %s%s\n", gpumem_style_begin (GPUMEM_STYLE_TITLE), gpu_device_get_id (device),
           gpu_device_get_name (device), gpumem_style_end (GPUMEM_STYLE_TITLE));
}

void
gpumem_report_step (GpumemTour       *tour,
                    const GpumemStep *step)
{
  g_autofree char *moved = step->moved > 0 ? gpumem_format_size (step->moved) : g_strdup ("");
  g_autofree char *time = gpumem_format_time (step->nanoseconds);
  g_autofree char *speed = gpumem_format_speed (step->moved, step->nanoseconds);
  g_autofree char *held = gpumem_format_size (step->held);
  g_autofree char *line = NULL;

  if (tour->json)
    return;
  gpumem_progress_clear (tour->progress);
  if (g_str_equal (step->name, "allocate"))
    print_styled (GPUMEM_STYLE_FAINT,
                  "  step            moved        time        speed  memory held\n");
  line = g_strdup_printf ("  %-10s %10s  %10s  %11s   %10s  %s", step->name, moved, time, speed,
                          held, step->note != NULL ? step->note : "");
  g_print ("%s\n", g_strchomp (line));
  fflush (stdout);
}

void
gpumem_report_result (GpumemTour         *tour,
                      const GpumemResult *result)
{
  g_autofree char *held = gpumem_format_size (result->held_afterwards);

  if (tour->json)
    return;
  gpumem_progress_clear (tour->progress);
  g_print ("  ");
  print_styled (outcomes[result->outcome].style, outcomes[result->outcome].text);
  if (result->message != NULL)
    g_print (": %s\n", result->message);
  else
    g_print (", memory held afterwards: %s\n", held);
  fflush (stdout);
}

static void
add_step (JsonBuilder      *builder,
          const GpumemStep *step)
{
  json_builder_begin_object (builder);
  gpumem_json_add_string (builder, "name", step->name);
  gpumem_json_add_int (builder, "bytes-moved", step->moved);
  gpumem_json_add_int (builder, "nanoseconds", step->nanoseconds);
  if (step->moved > 0 && step->nanoseconds > 0)
    gpumem_json_add_double (builder, "gigabytes-per-second",
                            (double) step->moved / step->nanoseconds);
  gpumem_json_add_int (builder, "bytes-held", step->held);
  gpumem_json_add_string (builder, "note", step->note);
  json_builder_end_object (builder);
}

static void
add_result (JsonBuilder        *builder,
            const GpumemResult *result)
{
  json_builder_begin_object (builder);
  gpumem_json_add_string (builder, "id", gpu_device_get_id (result->device));
  gpumem_json_add_string (builder, "name", gpu_device_get_name (result->device));
  gpumem_json_add_string (builder, "outcome", outcomes[result->outcome].name);
  gpumem_json_add_string (builder, "message", result->message);
  gpumem_json_add_int (builder, "hazard-waits", result->hazard_waits);
  gpumem_json_add_int (builder, "bytes-held-afterwards", result->held_afterwards);
  json_builder_set_member_name (builder, "steps");
  json_builder_begin_array (builder);
  for (guint i = 0; i < result->steps->len; i++)
    add_step (builder, g_ptr_array_index (result->steps, i));
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "pictures");
  json_builder_begin_array (builder);
  for (guint i = 0; i < result->pictures->len; i++)
    json_builder_add_string_value (builder, g_ptr_array_index (result->pictures, i));
  json_builder_end_array (builder);
  json_builder_end_object (builder);
}

static void
print_json (GpumemTour *tour,
            GPtrArray  *results)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "picture");
  json_builder_begin_object (builder);
  gpumem_json_add_string (builder, "name", tour->picture_name);
  gpumem_json_add_int (builder, "width", tour->picture->width);
  gpumem_json_add_int (builder, "height", tour->picture->height);
  json_builder_end_object (builder);
  gpumem_json_add_string (builder, "output", tour->output);
  gpumem_json_add_int (builder, "reference-nanoseconds", tour->reference->nanoseconds);
  json_builder_set_member_name (builder, "devices");
  json_builder_begin_array (builder);
  for (guint i = 0; i < results->len; i++)
    add_result (builder, g_ptr_array_index (results, i));
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  gpumem_json_print (builder);
}

void
gpumem_report_end (GpumemTour *tour,
                   GPtrArray  *results)
{
  guint n[G_N_ELEMENTS (outcomes)] = { 0 };
  guint n_pictures = 0;
  const char *separator = "\nDevices: ";

  gpumem_progress_clear (tour->progress);
  if (tour->json)
    {
      print_json (tour, results);
      return;
    }
  for (guint i = 0; i < results->len; i++)
    {
      const GpumemResult *result = g_ptr_array_index (results, i);

      n[result->outcome]++;
      n_pictures += result->pictures->len;
    }
  for (guint i = 0; i < G_N_ELEMENTS (outcomes); i++)
    if (n[i] > 0 || i == GPUMEM_OUTCOME_RIGHT)
      {
        g_print ("%s%u %s", separator, n[i], outcomes[i].name);
        separator = ", ";
      }
  g_print (". %u picture%s in %s, next to input.png.\n", n_pictures, n_pictures == 1 ? "" : "s",
           tour->output);
}

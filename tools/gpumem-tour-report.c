/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "tools/gpumem-command.h"
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

static void
print_wrapped (GpumemStyle  style,
               const char  *text)
{
  g_autofree char *wrapped = gpumem_terminal_wrap (text, gpumem_terminal_width ());

  print_styled (style, wrapped);
}

void
gpumem_report_begin (GpumemTour *tour)
{
  g_autofree char *size = gpumem_format_size (g_bytes_get_size (tour->picture->pixels));
  g_autofree char *time = gpumem_format_time (tour->reference->nanoseconds);
  g_autofree char *picture = NULL;
  g_autofree char *reference = NULL;

  if (tour->json)
    return;
  gpumem_progress_clear (tour->progress);
  picture = g_strdup_printf ("Picture    %s, %u x %u pixels, %s", tour->picture_name,
                             tour->picture->width, tour->picture->height, size);
  reference = g_strdup_printf ("Reference  blur, edges and histograms in plain C on this CPU: %s",
                               time);
  print_wrapped (GPUMEM_STYLE_PLAIN, picture);
  print_wrapped (GPUMEM_STYLE_PLAIN, reference);
}

void
gpumem_report_device (GpumemTour *tour,
                      GpuDevice  *device)
{
  g_autofree char *title = NULL;

  if (tour->json)
    return;
  gpumem_progress_clear (tour->progress);
  title = g_strdup_printf ("%s: %s", gpu_device_get_id (device), gpu_device_get_name (device));
  g_print ("\n");
  print_wrapped (GPUMEM_STYLE_TITLE, title);
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
  g_autofree char *wrapped = NULL;

  if (tour->json)
    return;
  gpumem_progress_clear (tour->progress);
  if (g_str_equal (step->name, "allocate"))
    print_styled (GPUMEM_STYLE_FAINT,
                  "  step           moved       time       speed       held\n");
  line = g_strdup_printf ("  %-10s %9s %10s %11s %10s  %s", step->name, moved, time, speed,
                          held, step->note != NULL ? step->note : "");
  wrapped = gpumem_terminal_wrap (g_strchomp (line), gpumem_terminal_width ());
  g_print ("%s", wrapped);
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
    {
      g_autofree char *message = gpumem_command_plain (result->message);
      g_autofree char *line = g_strdup_printf ("  : %s", message);
      g_autofree char *wrapped = gpumem_terminal_wrap (line, gpumem_terminal_width () - 8);

      g_print ("%s", wrapped + 2);
    }
  else
    g_print (", memory held afterwards: %s\n", held);
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
  gpumem_json_print (builder, tour->csv ? "devices/steps" : NULL);
}

void
gpumem_report_end (GpumemTour *tour,
                   GPtrArray  *results)
{
  guint n[G_N_ELEMENTS (outcomes)] = { 0 };
  g_autofree char *input = g_build_filename (tour->output, "input.png", NULL);
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
    }
  for (guint i = 0; i < G_N_ELEMENTS (outcomes); i++)
    if (n[i] > 0 || i == GPUMEM_OUTCOME_RIGHT)
      {
        g_print ("%s%u %s", separator, n[i], outcomes[i].name);
        separator = ", ";
      }
  g_print ("\n");
  if (results->len == 0)
    g_print ("Nothing measured\n");
  gpumem_command_wrote (input, FALSE);
  for (guint i = 0; i < results->len; i++)
    {
      const GpumemResult *result = g_ptr_array_index (results, i);

      for (guint j = 0; j < result->pictures->len; j++)
        gpumem_command_wrote (g_ptr_array_index (result->pictures, j), FALSE);
    }
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>
#include <time.h>

#include "tools/gpumem-command.h"
#include "tools/gpumem-html.h"
#include "tools/gpumem-interrupt.h"
#include "tools/gpumem-json.h"
#include "tools/gpumem-tour.h"

#define DEFAULT_OUTPUT "gpumem-tour"
#define OWN_WIDTH      1920
#define OWN_HEIGHT     1280

typedef struct
{
  char      *picture;     /* nullable */
  char      *output;
  char      *report;      /* nullable */
  char     **devices;     /* nullable */
  gboolean   json;
  gboolean   csv;
} Options;

static void
options_clear (Options *options)
{
  g_free (options->picture);
  g_free (options->output);
  g_free (options->report);
  g_strfreev (options->devices);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

/* Returns the time of a monotonic clock in nanoseconds. */
gint64
gpumem_tour_clock (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return now.tv_sec * G_GINT64_CONSTANT (1000000000) + now.tv_nsec;
}

/* Returns: (transfer full): the devices of the option --device, or all devices */
static GList *
find_devices (const Options *options,
              GError       **error)
{
  g_autolist (GpuDevice) devices = NULL;

  if (options->devices == NULL)
    return gpu_device_list ();
  for (guint i = 0; options->devices[i] != NULL; i++)
    {
      GpuDevice *device = gpu_device_find (options->devices[i], error);

      if (device == NULL)
        return NULL;
      devices = g_list_append (devices, device);
    }
  return g_steal_pointer (&devices);
}

static gboolean
load_picture (GpumemTour     *tour,
              const Options  *options,
              GError        **error)
{
  if (options->picture != NULL)
    {
      gpumem_progress_begin (tour->progress, "reading %s", options->picture);
      tour->picture = gpumem_picture_load (options->picture, error);
      tour->picture_name = g_filename_display_name (options->picture);
    }
  else
    {
      gpumem_progress_begin (tour->progress, "drawing a picture");
      tour->picture = gpumem_picture_landscape (OWN_WIDTH, OWN_HEIGHT);
      tour->picture_name = g_strdup ("drawn by the tour itself");
    }
  return tour->picture != NULL;
}

static gboolean
prepare (GpumemTour     *tour,
         const Options  *options,
         GError        **error)
{
  g_autofree char *input = g_build_filename (tour->output, "input.png", NULL);

  if (!load_picture (tour, options, error))
    return FALSE;
  if (g_mkdir_with_parents (tour->output, 0777) != 0)
    {
      int code = errno;

      g_set_error (error, G_FILE_ERROR, g_file_error_from_errno (code),
                   "Cannot create the folder '%s': %s", tour->output, g_strerror (code));
      return FALSE;
    }
  /* Check the report after the folder was created, because the report may be in this folder. */
  if (tour->report != NULL && !gpumem_html_check (tour->report, error))
    return FALSE;
  if (!gpumem_picture_save (tour->picture, input, error))
    return FALSE;
  tour->reference = gpumem_reference_new (tour->picture, tour->progress, tour->cancellable, error);
  return tour->reference != NULL;
}

static int
exit_status (GpumemTour *tour,
             GPtrArray  *results)
{
  gboolean any = FALSE;

  if (g_cancellable_is_cancelled (tour->cancellable))
    return GPUMEM_EXIT_INTERRUPTED;
  for (guint i = 0; i < results->len; i++)
    {
      const GpumemResult *result = g_ptr_array_index (results, i);

      if (result->outcome == GPUMEM_OUTCOME_WRONG || result->outcome == GPUMEM_OUTCOME_FAILED)
        return GPUMEM_EXIT_FAILED;
      any |= result->outcome == GPUMEM_OUTCOME_RIGHT;
    }
  return any ? GPUMEM_EXIT_OK : GPUMEM_EXIT_FAILED;
}

static int
visit_devices (GpumemTour *tour,
               GList      *devices)
{
  g_autoptr (GPtrArray) results =
    g_ptr_array_new_with_free_func ((GDestroyNotify) gpumem_result_free);
  g_autoptr (GError) error = NULL;

  gpumem_report_begin (tour);
  for (GList *l = devices; l != NULL; l = l->next)
    {
      if (g_cancellable_is_cancelled (tour->cancellable))
        break;
      g_ptr_array_add (results, gpumem_tour_run (tour, l->data));
    }
  gpumem_report_end (tour, results);
  if (tour->report == NULL)
    return exit_status (tour, results);
  if (!gpumem_report_save (tour, results, tour->report, &error))
    {
      gpumem_complain ("%s", error->message);
      return GPUMEM_EXIT_FAILED;
    }
  gpumem_command_wrote (tour->report, tour->json);
  return exit_status (tour, results);
}

static void
tour_clear (GpumemTour *tour)
{
  g_clear_pointer (&tour->progress, gpumem_progress_free);
  g_clear_pointer (&tour->picture, gpumem_picture_free);
  g_clear_pointer (&tour->picture_name, g_free);
  g_clear_pointer (&tour->reference, gpumem_reference_free);
}

static int
take_tour (const Options *options)
{
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GpumemInterrupt) interrupt = NULL;
  g_autolist (GpuDevice) devices = NULL;
  g_autoptr (GError) error = NULL;
  GpumemTour tour = {
    .output = options->output != NULL ? options->output : DEFAULT_OUTPUT,
    .report = options->report,
    .cancellable = cancellable,
    .json = options->json || options->csv,
    .csv = options->csv
  };
  gboolean is_prepared;
  int status;

  devices = find_devices (options, &error);
  if (error != NULL)
    {
      gpumem_complain ("%s", error->message);
      return GPUMEM_EXIT_FAILED;
    }
  interrupt = gpumem_interrupt_new (cancellable);
  tour.progress = gpumem_progress_new (2 + gpumem_tour_n_steps () * g_list_length (devices));
  is_prepared = prepare (&tour, options, &error);
  if (is_prepared)
    status = visit_devices (&tour, devices);
  else
    status = g_cancellable_is_cancelled (cancellable) ? GPUMEM_EXIT_INTERRUPTED
                                                      : GPUMEM_EXIT_FAILED;
  tour_clear (&tour);
  if (error != NULL && status == GPUMEM_EXIT_FAILED)
    gpumem_complain ("%s", error->message);
  if (status == GPUMEM_EXIT_INTERRUPTED)
    gpumem_complain (is_prepared ? "interrupted" : "interrupted, nothing measured");
  return status;
}

static int
run_tour (char **arguments)
{
  g_auto (Options) options = { NULL };
  const GOptionEntry entries[] = {
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options.output,
      "Write the pictures to the folder DIR [" DEFAULT_OUTPUT "]", "DIR" },
    { "device", 'd', 0, G_OPTION_ARG_STRING_ARRAY, &options.devices,
      "Use only this device; may be repeated", "ID" },
    { "report", 0, 0, G_OPTION_ARG_FILENAME, &options.report,
      "Write a page with the results and the machine, as .html", "FILE" },
    GPUMEM_JSON_ENTRIES (&options.json, &options.csv)
    { NULL, 0, 0, 0, NULL, NULL, NULL }
  };

  if (!gpumem_command_parse (&gpumem_tour_command, entries, arguments))
    return GPUMEM_EXIT_USAGE;
  if (arguments[1] != NULL && arguments[2] != NULL)
    return gpumem_command_usage (&gpumem_tour_command,
                                 "too many arguments: '%s'; name at most one picture",
                                 arguments[2]);
  options.picture = g_strdup (arguments[1]);
  return take_tour (&options);
}

const GpumemCommand gpumem_tour_command = {
  .name = "tour",
  .parameters = "[PICTURE]",
  .summary = "process a picture on every device, and check the results",
  .description =
    "PICTURE is a PNG, a JPEG or another format of gdk-pixbuf; by default the tour draws one.\n"
    "On each device it is uploaded, blurred, searched for edges, counted into histograms, mapped\n"
    "and read back. The results are written as pictures and compared bit for bit with the results\n"
    "of plain C on this CPU.\n\n"
    "Exit status: 0 if the results of all devices are correct, 1 if a device failed or returned\n"
    "wrong results, 2 for an invalid command line, 130 after Ctrl-C.",
  .run = run_tour
};

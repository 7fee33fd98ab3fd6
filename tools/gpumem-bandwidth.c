/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "tools/gpumem-bandwidth.h"
#include "tools/gpumem-command.h"
#include "tools/gpumem-html.h"
#include "tools/gpumem-interrupt.h"
#include "tools/gpumem-plot.h"
#ifdef HAVE_TOUR
#include "tools/gpumem-json.h"
#endif

#define DEFAULT_SIZES    "4K,64K,1M,16M,256M"
#define DEFAULT_PEERS    "256M"
#define DEFAULT_MIN_TIME 0.1
#define DEFAULT_ROUNDS   5
#define MAX_MIN_TIME     3600
#define MAX_MIN_ROUNDS   1000
#define MAX_THREADS      256

typedef struct
{
  char     *peer;       /* nullable, like the following strings */
  char     *sizes;
  char     *paths;
  char     *plot;
  char     *report;
  char     *file;
  int       n_threads;  /* 0: the default of the library */
  int       n_rounds;
  double    min_time;
  gboolean  json;
  gboolean  csv;
  gboolean  temporary_file;
  gboolean  peers;
} Options;

static void
options_clear (Options *options)
{
  g_free (options->peer);
  g_free (options->sizes);
  g_free (options->paths);
  g_free (options->plot);
  g_free (options->report);
  g_free (options->file);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (GpumemBench, gpumem_bench_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (GpumemPeers, gpumem_peers_clear)

static int
usage (const GError *error)
{
  return gpumem_command_usage (&gpumem_bandwidth_command, "%s", error->message);
}

/* Sets the fields of @bench from @options. Returns: an exit status */
static int
read_options (GpumemBench   *bench,
              const Options *options)
{
  const char *sizes = options->sizes != NULL ? options->sizes
                                             : options->peers ? DEFAULT_PEERS : DEFAULT_SIZES;
  g_autoptr (GError) error = NULL;

  if (options->peers && (options->peer != NULL || options->paths != NULL || options->file != NULL
                         || options->temporary_file))
    return gpumem_command_usage (&gpumem_bandwidth_command,
                                 "--peers cannot be used with --peer, --paths or --file");
  bench->sizes = gpumem_sizes_parse (sizes, &error);
  if (bench->sizes == NULL)
    return usage (error);
  bench->paths = gpumem_paths_parse (options->paths,
                                     options->temporary_file || options->file != NULL, &error);
  if (bench->paths == NULL)
    return usage (error);
  if (options->n_threads < 0 || options->n_threads > MAX_THREADS)
    return gpumem_command_usage (&gpumem_bandwidth_command,
                                 "invalid number of threads %d: use 1 to %d, or 0 for the "
                                 "default of the library", options->n_threads, MAX_THREADS);
  if (options->n_rounds < 1 || options->n_rounds > MAX_MIN_ROUNDS)
    return gpumem_command_usage (&gpumem_bandwidth_command,
                                 "invalid number of rounds %d: use 1 to %d",
                                 options->n_rounds, MAX_MIN_ROUNDS);
  if (!(options->min_time > 0 && options->min_time <= MAX_MIN_TIME))
    return gpumem_command_usage (&gpumem_bandwidth_command,
                                 "invalid time of %g seconds: use more than 0 and at most %d",
                                 options->min_time, MAX_MIN_TIME);
  if (options->plot != NULL && !gpumem_plot_is_name (options->plot))
    return gpumem_command_usage (&gpumem_bandwidth_command,
                                 "'%s' ends neither in .svg nor in .png", options->plot);
  bench->n_rounds = options->n_rounds;
  bench->min_time = options->min_time;
  bench->plot = g_strdup (options->plot);
  bench->file = g_strdup (options->file);
  return GPUMEM_EXIT_OK;
}

static gboolean
find_devices (GpumemBench    *bench,
              const Options  *options,
              const char     *name,
              GError        **error)
{
  bench->device = name != NULL ? gpu_device_find (name, error) : gpu_device_get_default (error);
  if (bench->device == NULL)
    return FALSE;
  if (options->peer == NULL)
    return TRUE;
  bench->peer = gpu_device_find (options->peer, error);
  if (bench->peer == NULL)
    return FALSE;
  if (!gpu_device_equal (bench->peer, bench->device) &&
      g_str_equal (gpu_device_get_backend (bench->peer), gpu_device_get_backend (bench->device)))
    return TRUE;
  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "The peer of %s must be another device of the same back end, and not %s",
               gpu_device_get_id (bench->device), gpu_device_get_id (bench->peer));
  return FALSE;
}

static void
report (GpumemBench   *bench,
        const Options *options)
{
  gpumem_progress_clear (bench->progress);
#ifdef HAVE_TOUR
  if (options->json || options->csv)
    {
      gpumem_bandwidth_print_json (bench, options->csv);
      return;
    }
#endif
  (void) options;
  gpumem_bandwidth_print (bench);
}

static void
report_peers (GpumemPeers   *peers,
              const Options *options)
{
#ifdef HAVE_TOUR
  if (options->json || options->csv)
    {
      gpumem_peers_print_json (peers, options->csv);
      return;
    }
#endif
  (void) options;
  gpumem_peers_print (peers);
}

/* Measures all devices of the back end of the bench's device. */
static int
measure_peers (GpumemBench   *bench,
               const Options *options)
{
  g_auto (GpumemPeers) peers = { NULL };
  g_autoptr (GError) error = NULL;
  gboolean whole;

  gpumem_peers_init (&peers, bench->device);
  peers.sizes = g_array_ref (bench->sizes);
  peers.min_time = bench->min_time;
  peers.n_rounds = bench->n_rounds;
  peers.cancellable = bench->cancellable;
  whole = (options->sizes != NULL || gpumem_peers_fit_size (&peers, &error))
          && gpumem_peers_run (&peers, &error);
  if (error == NULL)
    report_peers (&peers, options);
  if (error == NULL && bench->plot != NULL && gpumem_peers_plot (&peers, bench->plot, &error))
    gpumem_command_wrote (bench->plot, options->json || options->csv);
  if (error == NULL && options->report != NULL
      && gpumem_peers_save_report (&peers, options->report, &error))
    gpumem_command_wrote (options->report, options->json || options->csv);
  if (error == NULL)
    return gpumem_command_end (whole, gpumem_peers_has_failed (&peers));
  gpumem_complain ("%s", error->message);
  return GPUMEM_EXIT_FAILED;
}

static gboolean
write_files (GpumemBench    *bench,
             const Options  *options,
             GError        **error)
{
  const gboolean data = options->json || options->csv;

  if (bench->plot != NULL && bench->figures->len > 0)
    {
      if (!gpumem_bandwidth_plot (bench, error))
        return FALSE;
      gpumem_command_wrote (bench->plot, data);
    }
  if (options->report != NULL)
    {
      if (!gpumem_bandwidth_save_report (bench, options->report, error))
        return FALSE;
      gpumem_command_wrote (options->report, data);
    }
  return TRUE;
}

static int
measure (GpumemBench   *bench,
         const Options *options,
         const char    *name)
{
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GpumemInterrupt) interrupt = NULL;
  g_autoptr (GError) error = NULL;
  gboolean whole;

  bench->cancellable = cancellable;
  if ((bench->plot != NULL && !gpumem_plot_check (bench->plot, &error)) ||
      (options->report != NULL && !gpumem_html_check (options->report, &error)) ||
      !find_devices (bench, options, name, &error) ||
      (!options->peers && !gpumem_bench_open (bench, &error)))
    {
      gpumem_complain ("%s", error->message);
      return GPUMEM_EXIT_FAILED;
    }
  gpu_staging_set_n_threads (options->n_threads);
  interrupt = gpumem_interrupt_new (cancellable);
  if (options->peers)
    return measure_peers (bench, options);
  whole = gpumem_bench_run (bench);
  report (bench, options);
  if (!write_files (bench, options, &error))
    {
      gpumem_complain ("%s", error->message);
      return GPUMEM_EXIT_FAILED;
    }
  return gpumem_command_end (whole, gpumem_bench_has_failed (bench));
}

static gboolean
parse (Options  *options,
       char    **arguments)
{
  g_autofree char *paths = gpumem_paths_describe ();
  g_autofree char *description = g_strconcat (gpumem_bandwidth_command.description, paths, NULL);
  GpumemCommand command = gpumem_bandwidth_command;
  const GOptionEntry entries[] = {
    { "sizes", 's', 0, G_OPTION_ARG_STRING, &options->sizes,
      "Sizes of copies in bytes [" DEFAULT_SIZES "]", "LIST" },
    { "paths", 'p', 0, G_OPTION_ARG_STRING, &options->paths,
      "Paths to measure [all but file]", "LIST" },
    { "file", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, &options->temporary_file, NULL, NULL },
    { "file", 0, 0, G_OPTION_ARG_FILENAME, &options->file,
      "Measure a file, too, in this folder or with this new name [$TMPDIR]", "PATH" },
    { "peer", 0, 0, G_OPTION_ARG_STRING, &options->peer,
      "The other end of the path peer [the next device]", "ID" },
    { "peers", 0, 0, G_OPTION_ARG_NONE, &options->peers,
      "Measure between all devices of the back end; the default of --sizes is then " DEFAULT_PEERS
      ", or what fits", NULL },
    { "threads", 't', 0, G_OPTION_ARG_INT, &options->n_threads,
      "Number of threads that copy pageable memory", "N" },
    { "min-time", 0, 0, G_OPTION_ARG_DOUBLE, &options->min_time,
      "Minimum time per line [" G_STRINGIFY (DEFAULT_MIN_TIME) "]", "SECONDS" },
    { "rounds", 'r', 0, G_OPTION_ARG_INT, &options->n_rounds,
      "Minimum number of rounds per line [" G_STRINGIFY (DEFAULT_ROUNDS) "]", "N" },
    { "plot", 0, 0, G_OPTION_ARG_FILENAME, &options->plot,
      "Draw diagrams with gnuplot, as .svg or .png", "FILE" },
    { "report", 0, 0, G_OPTION_ARG_FILENAME, &options->report,
      "Write a page with the results and the machine, as .html", "FILE" },
#ifdef HAVE_TOUR
    GPUMEM_JSON_ENTRIES (&options->json, &options->csv)
#endif
    { NULL, 0, 0, 0, NULL, NULL, NULL }
  };

  command.description = description;
  return gpumem_command_parse (&command, entries, arguments);
}

static int
run_bandwidth (char **arguments)
{
  g_auto (Options) options = { .n_rounds = DEFAULT_ROUNDS, .min_time = DEFAULT_MIN_TIME };
  g_auto (GpumemBench) bench = { NULL };
  int status;

  if (!parse (&options, arguments))
    return GPUMEM_EXIT_USAGE;
  if (arguments[1] != NULL && arguments[2] != NULL)
    return gpumem_command_usage (&gpumem_bandwidth_command,
                                 "too many arguments: '%s'; name at most one device", arguments[2]);
  status = read_options (&bench, &options);
  return status == GPUMEM_EXIT_OK ? measure (&bench, &options, arguments[1]) : status;
}

const GpumemCommand gpumem_bandwidth_command = {
  .name = "bandwidth",
  .parameters = "[DEVICE]",
  .summary = "measure copies on every path, and compare with raw driver calls",
  .description =
    "DEVICE is an id from 'gpumem devices'; the default is the default device.\n"
    "Sizes are in bytes, such as 64K or 1GiB, or ranges: 4K-1G doubles the size at each step,\n"
    "4K-1G:16 multiplies it by 16. A copy on the device counts its bytes once, copies both ways\n"
    "count the bytes of both directions.\n\n"
    "With --peers, the result is a matrix for each size: of copies between all devices of the\n"
    "back end of DEVICE and page-locked memory, and of their ratio to the driver's own calls.\n\n"
    "Exit status: 0 if all supported paths were measured and all copies were correct, 1 if a\n"
    "copy failed or was wrong, 2 for an invalid command line, 130 after Ctrl-C.\n\n"
    "Paths:\n",
  .run = run_bandwidth
};

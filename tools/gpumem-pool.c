/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "tools/gpumem-format.h"
#include "tools/gpumem-html.h"
#include "tools/gpumem-interrupt.h"
#include "tools/gpumem-plot.h"
#include "tools/gpumem-pool.h"
#ifdef HAVE_TOUR
#include "tools/gpumem-json.h"
#endif

#define DEFAULT_MIN_TIME 0.1
#define MAX_MIN_TIME     3600
#define MAX_THREADS      256
#define KIND_HELP        "expandable, segments or bins [the best of the device]"

typedef struct
{
  char     *kind;       /* nullable, like the following strings */
  char     *limit;
  char     *plot;
  char     *report;
  char     *malloc_line;
  char     *snapshot;
  char     *perfetto;
  double    target;
  double    min_time;
  int       n_threads;
  gboolean  blocks;
  gboolean  buffers;
  gboolean  touch;
  gboolean  slow;
  gboolean  json;
  gboolean  csv;
} Options;

static void
options_clear (Options *options)
{
  g_free (options->kind);
  g_free (options->limit);
  g_free (options->plot);
  g_free (options->report);
  g_free (options->malloc_line);
  g_free (options->snapshot);
  g_free (options->perfetto);
}

static void
replay_clear (GpumemReplay *replay)
{
  g_clear_object (&replay->context);
  g_clear_object (&replay->device);
  g_clear_object (&replay->cancellable);
  g_clear_pointer (&replay->progress, gpumem_progress_free);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (GpumemReplay, replay_clear)

static int
fail (const GError *error)
{
  gpumem_complain ("%s", error->message);
  return GPUMEM_EXIT_FAILED;
}

static gboolean
find_kind (const char        *name,
           GpuMemoryPoolKind *kind)
{
  *kind = GPU_MEMORY_POOL_AUTOMATIC;
  if (name == NULL)
    return TRUE;
  for (guint i = GPU_MEMORY_POOL_EXPANDABLE; i <= GPU_MEMORY_POOL_BINS; i++)
    if (g_str_equal (name, gpumem_pool_kind_get_name (i)))
      *kind = i;
  return *kind != GPU_MEMORY_POOL_AUTOMATIC;
}

static int
wrong_kind (const GpumemCommand *command,
            const char          *name)
{
  return gpumem_command_usage (command, "no kind '%s'; the kinds are expandable, segments and bins",
                               name);
}

/* --- replay ------------------------------------------------------------------------------- */

static gboolean
is_viewers (const char *path)
{
  return g_str_has_suffix (path, ".json") || g_str_has_suffix (path, ".pickle");
}

/* Returns: an exit status */
static int
read_files (const Options *options,
            guint          n_traces)
{
  const GpumemCommand *command = &gpumem_pool_replay_command;

  if (n_traces == 0)
    return gpumem_command_usage (command, "missing TRACE");
  if (n_traces > 1 && (options->plot != NULL || options->snapshot != NULL ||
                       options->perfetto != NULL || options->report != NULL))
    return gpumem_command_usage (command, "--plot, --report, --snapshot and --perfetto need "
                                 "exactly one trace, not %u", n_traces);
  if (options->plot != NULL && !gpumem_plot_is_name (options->plot))
    return gpumem_command_usage (command, "'%s' ends neither in .svg nor in .png", options->plot);
  if (options->snapshot != NULL && !is_viewers (options->snapshot))
    return gpumem_command_usage (command, "'%s' ends neither in .json nor in .pickle",
                                 options->snapshot);
  return GPUMEM_EXIT_OK;
}

/* Sets the fields of @replay from @options. Returns: an exit status */
static int
read_replay_options (GpumemReplay  *replay,
                     const Options *options)
{
  const GpumemCommand *command = &gpumem_pool_replay_command;
  g_autoptr (GError) error = NULL;

  if (!find_kind (options->kind, &replay->kind))
    return wrong_kind (command, options->kind);
  if (options->limit != NULL && !gpumem_parse_size (options->limit, &replay->limit, &error))
    return gpumem_command_usage (command, "%s", error->message);
  if (options->limit != NULL && replay->limit == 0)
    return gpumem_command_usage (command, "the limit '%s' is too small: the minimum is 1 byte",
                                 options->limit);
  if (!(options->target >= 0 || options->target == -1))
    return gpumem_command_usage (command, "invalid fragmentation target %g: the minimum is 0",
                                 options->target);
  if (options->blocks && (options->buffers || options->touch))
    return gpumem_command_usage (command, "--blocks cannot be used with --buffers or --touch");
  replay->target = options->target;
  replay->touch = options->touch;
  if (options->blocks)
    replay->take = GPUMEM_TAKE_BLOCKS;
  else if (options->buffers || options->touch)
    replay->take = GPUMEM_TAKE_BUFFERS;
  return GPUMEM_EXIT_OK;
}

static gboolean
save_record (const GpumemReplay    *replay,
             const Options         *options,
             const GpumemReplayed  *replayed,
             GError               **error)
{
  const gboolean with_events = options->snapshot != NULL || options->perfetto != NULL;
  g_auto (GpumemRecord) record = { NULL };

  if (options->plot == NULL && options->report == NULL && !with_events)
    return TRUE;
  if (!gpumem_replay_record (replay, replayed->trace, with_events, &record, error))
    return FALSE;
  if (options->plot != NULL &&
      !gpumem_replay_plot (replay, replayed, &record, options->plot, error))
    return FALSE;
  if (options->report != NULL &&
      !gpumem_replay_save_report (replay, replayed, &record, options->report, error))
    return FALSE;
#ifdef HAVE_TOUR
  return gpumem_record_save (&record, options->snapshot, options->perfetto, error);
#else
  return TRUE;
#endif
}

static void
report (const GpumemReplay *replay,
        const Options      *options,
        GPtrArray          *results)
{
  gpumem_progress_clear (replay->progress);
#ifdef HAVE_TOUR
  if (options->json || options->csv)
    {
      gpumem_replay_print_json (replay, results, options->csv);
      return;
    }
#endif
  (void) options;
  gpumem_replay_print (replay, results);
}

static void
report_files (const Options *options)
{
  const char *const files[] = { options->plot, options->report, options->snapshot,
                                options->perfetto };

  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    if (files[i] != NULL)
      gpumem_command_wrote (files[i], options->json || options->csv);
}

static int
run_replay (GpumemReplay  *replay,
            const Options *options,
            char         **traces)
{
  g_autoptr (GPtrArray) results =
    g_ptr_array_new_with_free_func ((GDestroyNotify) gpumem_replayed_free);
  g_autoptr (GpumemInterrupt) interrupt = gpumem_interrupt_new (replay->cancellable);
  g_autoptr (GError) error = NULL;
  gboolean refused = FALSE;

  replay->progress = gpumem_progress_new (g_strv_length (traces) + 1);
  for (guint i = 0; traces[i] != NULL && error == NULL; i++)
    {
      GpumemReplayed *replayed = gpumem_replay_run (replay, traces[i], &error);

      if (replayed == NULL)
        break;
      g_ptr_array_add (results, replayed);
      refused |= replayed->refusal != NULL;
      save_record (replay, options, replayed, &error);
    }
  if (results->len > 0 || error == NULL)
    report (replay, options, results);
  if (error == NULL && results->len > 0)
    report_files (options);
  gpumem_progress_clear (replay->progress);
  if (g_cancellable_is_cancelled (replay->cancellable))
    {
      gpumem_complain ("interrupted");
      return GPUMEM_EXIT_INTERRUPTED;
    }
  if (error != NULL)
    return fail (error);
  return refused ? GPUMEM_EXIT_FAILED : GPUMEM_EXIT_OK;
}

static int
open_replay (GpumemReplay  *replay,
             const Options *options,
             const char    *device,
             char         **traces)
{
  g_autoptr (GError) error = NULL;

  replay->device = device != NULL ? gpu_device_find (device, &error)
                                  : gpu_device_get_default (&error);
  if (replay->device == NULL)
    {
      if (device != NULL)
        g_prefix_error (&error, "'%s' is neither a file nor a device: ", device);
      return fail (error);
    }
  if ((options->plot != NULL && !gpumem_plot_check (options->plot, &error)) ||
      (options->report != NULL && !gpumem_html_check (options->report, &error)) ||
      !gpu_device_check (replay->device, &error))
    return fail (error);
  replay->context = gpu_context_new (replay->device, GPU_CONTEXT_FLAGS_NONE, &error);
  if (replay->context == NULL)
    return fail (error);
  return run_replay (replay, options, traces);
}

static int
run_replay_command (char **arguments)
{
  g_auto (Options) options = { .target = -1 };
  g_auto (GpumemReplay) replay = { .cancellable = g_cancellable_new () };
  const GOptionEntry entries[] = {
    { "kind", 'k', 0, G_OPTION_ARG_STRING, &options.kind, KIND_HELP, "KIND" },
    { "limit", 'l', 0, G_OPTION_ARG_STRING, &options.limit,
      "Maximum size of the pool in bytes", "SIZE" },
    { "fragmentation-target", 0, 0, G_OPTION_ARG_DOUBLE, &options.target,
      "Fragmentation above which the pool moves memory [0.01]", "X" },
    { "blocks", 0, 0, G_OPTION_ARG_NONE, &options.blocks, "Allocate blocks, or fail", NULL },
    { "buffers", 0, 0, G_OPTION_ARG_NONE, &options.buffers,
      "Allocate buffers [blocks, if supported]", NULL },
    { "touch", 't', 0, G_OPTION_ARG_NONE, &options.touch,
      "Allocate buffers, and fill the first bytes of each", NULL },
    { "plot", 0, 0, G_OPTION_ARG_FILENAME, &options.plot,
      "Draw bytes over operations with gnuplot, as .svg or .png", "FILE" },
    { "report", 0, 0, G_OPTION_ARG_FILENAME, &options.report,
      "Write a page with the results and the machine, as .html", "FILE" },
#ifdef HAVE_TOUR
    { "snapshot", 0, 0, G_OPTION_ARG_FILENAME, &options.snapshot,
      "Write a snapshot for PyTorch's viewer, .json or .pickle", "FILE" },
    { "perfetto", 0, 0, G_OPTION_ARG_FILENAME, &options.perfetto,
      "Write bytes over time for Perfetto", "FILE" },
    GPUMEM_JSON_ENTRIES (&options.json, &options.csv)
#endif
    { NULL, 0, 0, 0, NULL, NULL, NULL }
  };
  const char *device = NULL;
  char **traces = arguments + 1;
  int status;

  if (!gpumem_command_parse (&gpumem_pool_replay_command, entries, arguments))
    return GPUMEM_EXIT_USAGE;
  if (traces[0] != NULL && traces[1] != NULL && !g_file_test (traces[0], G_FILE_TEST_EXISTS))
    device = *traces++;
  status = read_files (&options, g_strv_length (traces));
  if (status == GPUMEM_EXIT_OK)
    status = read_replay_options (&replay, &options);
  return status == GPUMEM_EXIT_OK ? open_replay (&replay, &options, device, traces) : status;
}

const GpumemCommand gpumem_pool_replay_command = {
  .name = "pool replay",
  .parameters = "[DEVICE] TRACE...",
  .summary = "replay recorded allocations on a pool of a device",
  .description =
    "DEVICE is an id from 'gpumem devices'; the default is the default device.\n"
    "A TRACE has lines \"a ID SIZE STREAM\" and \"f ID STREAM\", or is a log of RMM, and may be\n"
    "compressed with gzip. Each trace is replayed on a separate pool, with a stream for each\n"
    "of its streams.\n\n"
    "Exit status: 0 if all allocations succeeded, 1 if one failed or after another error, 2 for\n"
    "an invalid command line, 130 after Ctrl-C.\n",
  .run = run_replay_command
};

/* --- bench ----------------------------------------------------------------------------------- */

static int
measure (GpumemPoolBench *bench,
         const Options   *options,
         const char      *name)
{
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GpumemInterrupt) interrupt = NULL;
  g_autoptr (GError) error = NULL;
  gboolean whole;

  bench->cancellable = cancellable;
  bench->device = name != NULL ? gpu_device_find (name, &error) : gpu_device_get_default (&error);
  if (bench->device == NULL ||
      (options->report != NULL && !gpumem_html_check (options->report, &error)) ||
      !gpu_device_check (bench->device, &error) ||
      !gpumem_pool_bench_open (bench, &error))
    return fail (error);
  interrupt = gpumem_interrupt_new (cancellable);
  if (options->malloc_line != NULL)
    return gpumem_pool_bench_print_malloc (bench, options->malloc_line, &error) ? GPUMEM_EXIT_OK
                                                                                : fail (error);
  whole = gpumem_pool_bench_run (bench);
  gpumem_progress_clear (bench->progress);
#ifdef HAVE_TOUR
  if (options->json || options->csv)
    gpumem_pool_bench_print_json (bench, options->csv);
#endif
  if (!options->json && !options->csv)
    gpumem_pool_bench_print (bench);
  if (options->report != NULL)
    {
      if (!gpumem_pool_bench_save_report (bench, options->report, &error))
        return fail (error);
      gpumem_command_wrote (options->report, options->json || options->csv);
    }
  return gpumem_command_end (whole, bench->failed || bench->latencies->len == 0);
}

static int
run_bench_command (char **arguments)
{
  const GpumemCommand *command = &gpumem_pool_bench_command;
  g_auto (Options) options = { .n_threads = 2, .min_time = DEFAULT_MIN_TIME };
  g_auto (GpumemPoolBench) bench = { NULL };
  const GOptionEntry entries[] = {
    { "kind", 'k', 0, G_OPTION_ARG_STRING, &options.kind, KIND_HELP, "KIND" },
    { "threads", 't', 0, G_OPTION_ARG_INT, &options.n_threads,
      "Measure with one thread and with N threads [2]", "N" },
    { "min-time", 0, 0, G_OPTION_ARG_DOUBLE, &options.min_time,
      "Minimum time per figure [" G_STRINGIFY (DEFAULT_MIN_TIME) "]", "SECONDS" },
    { "slow", 0, 0, G_OPTION_ARG_NONE, &options.slow, "Also measure 1,000,000 holes", NULL },
    { "malloc-line", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &options.malloc_line, NULL,
      NULL },
    { "report", 0, 0, G_OPTION_ARG_FILENAME, &options.report,
      "Write a page with the results and the machine, as .html", "FILE" },
#ifdef HAVE_TOUR
    GPUMEM_JSON_ENTRIES (&options.json, &options.csv)
#endif
    { NULL, 0, 0, 0, NULL, NULL, NULL }
  };

  if (!gpumem_command_parse (command, entries, arguments))
    return GPUMEM_EXIT_USAGE;
  if (arguments[1] != NULL && arguments[2] != NULL)
    return gpumem_command_usage (command, "too many arguments: '%s'; name at most one device",
                                 arguments[2]);
  if (!find_kind (options.kind, &bench.kind))
    return wrong_kind (command, options.kind);
  if (options.n_threads < 1 || options.n_threads > MAX_THREADS)
    return gpumem_command_usage (command, "invalid number of threads %d: use 1 to %d",
                                 options.n_threads,
                                 MAX_THREADS);
  if (!(options.min_time > 0 && options.min_time <= MAX_MIN_TIME))
    return gpumem_command_usage (command,
                                 "invalid time of %g seconds: use more than 0 and at most %d",
                                 options.min_time, MAX_MIN_TIME);
  bench.n_threads = options.n_threads;
  bench.min_time = options.min_time;
  bench.slow = options.slow;
  return measure (&bench, &options, arguments[1]);
}

const GpumemCommand gpumem_pool_bench_command = {
  .name = "pool bench",
  .parameters = "[DEVICE]",
  .summary = "measure allocations of a pool, and compare with the driver's",
  .description =
    "DEVICE is an id from 'gpumem devices'; the default is the default device.\n"
    "Figures are nanoseconds of an allocation and a free, as the median of five rounds. Rounds in\n"
    "which the pool still grows come before them. With several threads, each with its own\n"
    "stream, they are the mean of the threads.\n"
    "MALLOC, on the host device, is malloc() of the process; set LD_PRELOAD to measure that of\n"
    "another library. The rows below it are malloc() of processes that preload jemalloc and\n"
    "mimalloc, if they are installed.\n\n"
    "Exit status: 0 if all workloads that fit in memory were measured, 1 after an error, 2 for an\n"
    "invalid command line, 130 after Ctrl-C.\n",
  .run = run_bench_command
};

/* --- the command with its subcommands -------------------------------------------------------- */

static void
print_usage (void)
{
  static const GpumemCommand *const commands[] = { &gpumem_pool_replay_command,
                                                   &gpumem_pool_bench_command };

  g_print ("Usage:\n");
  for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
    g_print ("  gpumem %s [OPTION...] %s\n      %s\n", commands[i]->name, commands[i]->parameters,
             commands[i]->summary);
  g_print ("\nSee 'gpumem pool replay --help' and 'gpumem pool bench --help' for more.\n");
}

static int
run_pool (char **arguments)
{
  const char *word = arguments[1];

  if (g_strcmp0 (word, "replay") == 0)
    return gpumem_pool_replay_command.run (arguments + 1);
  if (g_strcmp0 (word, "bench") == 0)
    return gpumem_pool_bench_command.run (arguments + 1);
  if (g_strcmp0 (word, "--help") == 0 || g_strcmp0 (word, "-h") == 0)
    {
      print_usage ();
      return GPUMEM_EXIT_OK;
    }
  if (word == NULL)
    return gpumem_command_usage (&gpumem_pool_command, "missing subcommand: replay or bench");
  return gpumem_command_usage (&gpumem_pool_command, "'%s' is neither replay nor bench", word);
}

const GpumemCommand gpumem_pool_command = {
  .name = "pool",
  .parameters = "replay|bench",
  .summary = "replay recorded allocations on a pool, or measure one",
  .run = run_pool
};

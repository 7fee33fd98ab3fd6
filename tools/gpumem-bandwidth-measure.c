/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Measures rounds of copies, alternately with the library and with direct calls of the driver. */
#include "config.h"

#include <stdlib.h>

#include "tools/gpumem-bandwidth.h"

#define MAX_COPIES 1024

/* The maximum time of a round in seconds. Ctrl-C only takes effect after a round. */
#define MAX_ROUND 0.5

/* The work of one thread in a round. */
typedef struct
{
  GpumemBench      *bench;
  const GpumemPath *path;
  gboolean          raw;
  guint             lane;
  gsize             size;
  guint             n_copies;
  GError           *error;
} Job;

static gboolean
wait_for_lane (Job     *job,
               GError **error)
{
  GpumemBench *bench = job->bench;

  return job->raw ? bench->raw.driver->wait (&bench->raw, job->lane, error)
                  : gpu_stream_synchronize (bench->streams[job->lane], NULL, error);
}

/* Waits for the copies even after an error, so that no work is pending on return. */
static void
run_job (Job *job)
{
  GpumemBench *bench = job->bench;
  GpumemCopyFunc copy = job->raw ? job->path->raw : job->path->ours;
  gboolean success = TRUE;

  if (job->raw && !gpumem_raw_enter (&bench->raw, &job->error))
    return;
  for (guint i = 0; success && i < job->n_copies; i++)
    success = copy (bench, job->lane, job->size, &job->error);
  wait_for_lane (job, success ? &job->error : NULL);
  if (job->raw)
    gpumem_raw_leave (&bench->raw);
}

static gpointer
help (gpointer data)
{
  GpumemBench *bench = data;
  Job *job;

  while ((job = g_async_queue_pop (bench->begun))->bench != NULL)
    {
      run_job (job);
      g_async_queue_push (bench->ended, job);
    }
  return NULL;
}

gboolean
gpumem_helper_start (GpumemBench  *bench,
                     GError      **error)
{
  bench->begun = g_async_queue_new ();
  bench->ended = g_async_queue_new ();
  bench->helper = g_thread_try_new ("second lane", help, bench, error);
  return bench->helper != NULL;
}

void
gpumem_helper_stop (GpumemBench *bench)
{
  Job last = { NULL };

  if (bench->helper != NULL)
    {
      g_async_queue_push (bench->begun, &last);
      g_thread_join (g_steal_pointer (&bench->helper));
    }
  g_clear_pointer (&bench->begun, g_async_queue_unref);
  g_clear_pointer (&bench->ended, g_async_queue_unref);
}

/* Runs a round, and sets @seconds to the time that it took. */
static gboolean
run_round (GpumemBench        *bench,
           const GpumemFigure *figure,
           gboolean            raw,
           guint               n_copies,
           double             *seconds,
           GError            **error)
{
  gboolean both = figure->direction == GPUMEM_DIRECTION_BOTH;
  Job job = { bench, figure->path, raw, 0, figure->size, n_copies, NULL };
  Job second = job;
  gint64 start;

  if (g_cancellable_set_error_if_cancelled (bench->cancellable, error))
    return FALSE;
  job.lane = figure->direction == GPUMEM_DIRECTION_FROM ? 1 : 0;
  second.lane = 1;
  start = g_get_monotonic_time ();
  if (both)
    g_async_queue_push (bench->begun, &second);
  run_job (&job);
  if (both)
    g_async_queue_pop (bench->ended);
  *seconds = MAX (g_get_monotonic_time () - start, 1) / 1e6;
  if (job.error == NULL)
    job.error = g_steal_pointer (&second.error);
  g_clear_error (&second.error);
  if (job.error == NULL)
    return TRUE;
  g_propagate_error (error, job.error);
  return FALSE;
}

static gboolean
uses_lane (const GpumemFigure *figure,
           guint               lane)
{
  return figure->direction == GPUMEM_DIRECTION_BOTH ||
         lane == (figure->direction == GPUMEM_DIRECTION_FROM ? 1 : 0);
}

static gboolean
verify (GpumemBench   *bench,
        GpumemFigure  *figure,
        gboolean       raw,
        GError       **error)
{
  g_autofree char *wrong = NULL;
  double seconds;

  for (guint i = 0; i < GPUMEM_N_LANES; i++)
    if (uses_lane (figure, i) && !gpumem_pattern_scrub (bench, i, figure->size, error))
      return FALSE;
  if (!run_round (bench, figure, raw, 1, &seconds, error))
    return FALSE;
  for (guint i = 0; i < GPUMEM_N_LANES; i++)
    if (uses_lane (figure, i) && !gpumem_pattern_check (bench, i, figure->size, &wrong, error))
      return FALSE;
  if (wrong != NULL && figure->wrong == NULL)
    figure->wrong = g_strdup_printf ("%s%s", raw ? "copied by the driver: " : "", wrong);
  return TRUE;
}

/* Chooses the number of copies per round, and warms up. A single copy takes longer than each copy
 * of a series, so the first estimate of the number is too low. The second estimate measures a
 * series of that many copies. */
static gboolean
choose_n_copies (GpumemBench   *bench,
                 GpumemFigure  *figure,
                 GError       **error)
{
  double target = MIN (bench->min_time / bench->n_rounds, MAX_ROUND);

  figure->n_copies = 1;
  for (guint i = 0; i < 2; i++)
    {
      double ours;
      double raw = 0;

      if (!run_round (bench, figure, FALSE, figure->n_copies, &ours, error) ||
          (figure->has_raw &&
           !run_round (bench, figure, TRUE, figure->n_copies, &raw, error)))
        return FALSE;
      figure->n_copies = CLAMP (target * figure->n_copies / (ours + raw), 1, MAX_COPIES);
    }
  return TRUE;
}

static int
compare_doubles (gconstpointer a,
                 gconstpointer b)
{
  double one = *(const double *) a;
  double other = *(const double *) b;

  return one < other ? -1 : one > other;
}

static GpumemSpeed
summarize (GArray *values)
{
  GpumemSpeed speed;
  guint middle = values->len / 2;

  g_array_sort (values, compare_doubles);
  speed.least = g_array_index (values, double, 0);
  speed.most = g_array_index (values, double, values->len - 1);
  speed.median = g_array_index (values, double, middle);
  if (values->len % 2 == 0)
    speed.median = (speed.median + g_array_index (values, double, middle - 1)) / 2;
  return speed;
}

/* Runs a round of the library and a round of direct calls. Alternates the order of the two, because
 * the first round of a pair has lower clock rates and colder caches. */
static gboolean
run_pair (GpumemBench   *bench,
          GpumemFigure  *figure,
          guint          round,
          double         seconds[2],
          GError       **error)
{
  guint first = round % 2;

  if (!figure->has_raw)
    return run_round (bench, figure, FALSE, figure->n_copies, &seconds[0], error);
  return run_round (bench, figure, first, figure->n_copies, &seconds[first], error) &&
         run_round (bench, figure, !first, figure->n_copies, &seconds[!first], error);
}

static gboolean
run_rounds (GpumemBench   *bench,
            GpumemFigure  *figure,
            GArray        *values[3],
            GError       **error)
{
  double n_bytes = (double) figure->size * figure->n_copies *
                   (figure->direction == GPUMEM_DIRECTION_BOTH ? 2 : 1);
  double spent = 0;

  for (guint i = 0; i < bench->n_rounds || spent < bench->min_time; i++)
    {
      double seconds[2] = { 0, 1 };
      double speeds[3];

      if (!run_pair (bench, figure, i, seconds, error))
        return FALSE;
      speeds[0] = n_bytes / seconds[0] / 1e9;
      speeds[1] = n_bytes / seconds[1] / 1e9;
      speeds[2] = seconds[1] / seconds[0];
      for (guint j = 0; j < 3; j++)
        g_array_append_val (values[j], speeds[j]);
      spent += seconds[0] + (figure->has_raw ? seconds[1] : 0);
      gpumem_progress_part (bench->progress,
                            MIN ((i + 1.0) / bench->n_rounds, spent / bench->min_time));
    }
  return TRUE;
}

/* @figure: the caller has set path, direction and size; the function sets the other fields */
gboolean
gpumem_bench_measure (GpumemBench   *bench,
                      GpumemFigure  *figure,
                      GError       **error)
{
  GArray *values[3];
  gboolean success;

  if (!verify (bench, figure, FALSE, error) ||
      (figure->has_raw && !verify (bench, figure, TRUE, error)) ||
      !choose_n_copies (bench, figure, error))
    return FALSE;
  for (guint i = 0; i < 3; i++)
    values[i] = g_array_new (FALSE, FALSE, sizeof (double));
  success = run_rounds (bench, figure, values, error);
  if (success)
    {
      figure->n_rounds = values[0]->len;
      figure->ours = summarize (values[0]);
      if (figure->has_raw)
        {
          figure->raw = summarize (values[1]);
          figure->ratio = summarize (values[2]);
        }
    }
  for (guint i = 0; i < 3; i++)
    g_array_unref (values[i]);
  return success;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "benchmarks/bench-util.h"

#define N_ROUNDS 401

/* CPU time of this thread, which other processes on the machine do not affect. */
static gint64
get_thread_time (void)
{
  struct timespec now;

  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &now);

  return now.tv_sec * G_GINT64_CONSTANT (1000000000) + now.tv_nsec;
}

static double
time_round (BenchFunc func,
            guint     n,
            BenchFunc settle,
            gpointer  bench)
{
  gint64 start;
  gint64 end;

  settle (bench);
  start = get_thread_time ();

  for (guint i = 0; i < n; i++)
    func (bench);

  end = get_thread_time ();

  return (double) (end - start) / n;
}

static int
compare (gconstpointer a,
         gconstpointer b)
{
  double difference = *(const double *) a - *(const double *) b;

  return difference < 0 ? -1 : difference > 0;
}

double
bench_median (double *values,
              guint   n)
{
  qsort (values, n, sizeof *values, compare);

  return values[n / 2];
}

static void
run (const BenchOperation *operation,
     BenchFunc             settle,
     gpointer              bench)
{
  static double ours[N_ROUNDS];
  static double raw[N_ROUNDS];
  static double difference[N_ROUNDS];
  double ours_median;
  double raw_median;

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      /* The measurement that runs first finds the driver's threads asleep, so alternate the
       * order. */
      if (i % 2 == 0)
        ours[i] = time_round (operation->ours, operation->n, settle, bench);

      raw[i] = time_round (operation->raw, operation->n, settle, bench);

      if (i % 2 == 1)
        ours[i] = time_round (operation->ours, operation->n, settle, bench);

      difference[i] = ours[i] - raw[i];
    }

  ours_median = bench_median (ours, N_ROUNDS);
  raw_median = bench_median (raw, N_ROUNDS);
  printf ("%-28s %10.0f %10.0f %10.0f %8.2f\n", operation->name, ours_median, raw_median,
          bench_median (difference, N_ROUNDS), ours_median / raw_median);
}

void
bench_overhead (const BenchOperation *operations,
                gsize                 n_operations,
                BenchFunc             settle,
                gpointer              bench)
{
  printf ("%-28s %10s %10s %10s %8s\n", "operation", "ours ns", "raw ns", "on top ns", "ratio");

  for (gsize i = 0; i < n_operations; i++)
    run (&operations[i], settle, bench);

  settle (bench);
}

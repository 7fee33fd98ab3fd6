/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Compares copies between the host and a device with raw driver calls: pageable memory by size, by
 * the number of staging threads, and by many copies in a row; page-locked memory in each direction
 * and in both directions at once. Also measures how long calls take that enqueue writes behind
 * pending work. The raw calls use a separate stream of the same context.
 *
 *   benchmarks/transfers DEVICE [MIB]
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpumem/gpumem.h>

#include "benchmarks/bench-raw.h"
#include "benchmarks/bench-util.h"

#define MIB ((gsize) 1024 * 1024)
#define MAX_ROUNDS 101
#define N_ENQUEUED_ROUNDS 15
#define WORK_SIZE ((guint64) 32 * 1024 * MIB) /* bytes of the copies before the enqueued writes */
#define N_WRITES 16

typedef struct
{
  GpuContext *context;
  GpuStream  *stream;
  GpuStream  *back;             /* for copies in the other direction */
  GpuStream  *raw_stream;
  GpuStream  *raw_back;
  GpuBuffer  *buffer;
  GpuBuffer  *other;
  guint8     *ordinary;
  guint8     *locked;
  guint8     *locked_other;
} Bench;

typedef void (*TransferFunc) (const Bench *bench,
                              guint8      *data,
                              gsize        size);

static void
ours_write (const Bench *bench,
            guint8      *data,
            gsize        size)
{
  g_autoptr (GError) error = NULL;

  if (!gpu_buffer_write (bench->buffer, bench->stream, 0, data, size, NULL, &error))
    g_error ("%s", error->message);
}

static void
ours_read (const Bench *bench,
           guint8      *data,
           gsize        size)
{
  g_autoptr (GError) error = NULL;

  if (!gpu_buffer_read (bench->buffer, bench->stream, 0, data, size, NULL, &error))
    g_error ("%s", error->message);
}

static void
raw_write (const Bench *bench,
           guint8      *data,
           gsize        size)
{
  bench_raw_write (bench->raw_stream, bench->buffer, data, size);
  bench_raw_finish (bench->raw_stream);
}

static void
raw_read (const Bench *bench,
          guint8      *data,
          gsize        size)
{
  bench_raw_read (bench->raw_stream, bench->buffer, data, size);
  bench_raw_finish (bench->raw_stream);
}

static void
ours_both (const Bench *bench,
           guint8      *data,
           gsize        size)
{
  g_autoptr (GBytes) bytes = g_bytes_new_static (data, size);
  gboolean success = gpu_stream_write (bench->stream, GPU_MEMORY (bench->buffer), 0, bytes, NULL)
                     && gpu_stream_read (bench->back, GPU_MEMORY (bench->other), 0,
                                         bench->locked_other, size, NULL)
                     && gpu_stream_synchronize (bench->stream, NULL, NULL)
                     && gpu_stream_synchronize (bench->back, NULL, NULL);

  g_assert_true (success);
}

static void
raw_both (const Bench *bench,
          guint8      *data,
          gsize        size)
{
  bench_raw_write (bench->raw_stream, bench->buffer, data, size);
  bench_raw_read (bench->raw_back, bench->other, bench->locked_other, size);
  bench_raw_finish (bench->raw_stream);
  bench_raw_finish (bench->raw_back);
}

static double
time_transfer (const Bench  *bench,
               TransferFunc  transfer,
               guint8       *data,
               gsize         size,
               guint         n)
{
  gint64 start = g_get_monotonic_time ();

  for (guint i = 0; i < n; i++)
    transfer (bench, data, size);

  return (double) (g_get_monotonic_time () - start) / n;
}

static void
print_size (gsize size)
{
  if (size >= MIB)
    printf ("%7" G_GSIZE_FORMAT " MiB", size / MIB);
  else if (size >= 1024)
    printf ("%7" G_GSIZE_FORMAT " KiB", size / 1024);
  else
    printf ("%7" G_GSIZE_FORMAT " B  ", size);
}

/* Prints a row. The ratio is the median of the ratios of all rounds; in each round the library and
 * the raw calls alternate, after @n calls each. */
static double
compare (const Bench  *bench,
         const char   *name,
         TransferFunc  ours,
         TransferFunc  raw,
         guint8       *data,
         gsize         size,
         guint         factor,
         guint         n)
{
  guint n_rounds = size <= 16 * MIB ? MAX_ROUNDS : size <= 128 * MIB ? 21 : 5;
  double our_times[MAX_ROUNDS];
  double raw_times[MAX_ROUNDS];
  double ratios[MAX_ROUNDS];
  double ratio;

  for (guint i = 0; i < 3; i++)
    {
      time_transfer (bench, ours, data, size, n);
      time_transfer (bench, raw, data, size, n);
    }

  for (guint i = 0; i < n_rounds; i++)
    {
      if (i % 2 == 0)
        our_times[i] = time_transfer (bench, ours, data, size, n);

      raw_times[i] = time_transfer (bench, raw, data, size, n);

      if (i % 2 == 1)
        our_times[i] = time_transfer (bench, ours, data, size, n);

      ratios[i] = raw_times[i] / our_times[i];
    }

  ratio = bench_median (ratios, n_rounds);
  printf ("%-28s ", name);
  print_size (size);
  printf (" %10.1f us %7.2f GB/s %10.1f us %7.2f GB/s %7.3f\n",
          bench_median (our_times, n_rounds),
          (double) (factor * size) / bench_median (our_times, n_rounds) / 1000,
          bench_median (raw_times, n_rounds),
          (double) (factor * size) / bench_median (raw_times, n_rounds) / 1000, ratio);

  return ratio;
}

static void
bench_sizes (const Bench *bench,
             gsize        max)
{
  double worst = G_MAXDOUBLE;

  for (gsize size = 4; size <= max; size *= 2)
    {
      guint n = size < 64 * 1024 ? 20 : size < MIB ? 5 : 1;
      double to = compare (bench, "ordinary, to the device", ours_write, raw_write,
                           bench->ordinary, size, 1, n);
      double from = compare (bench, "ordinary, from the device", ours_read, raw_read,
                             bench->ordinary, size, 1, n);

      worst = MIN (worst, MIN (to, from));
    }

  printf ("worst ratio %.3f\n\n", worst);
}

/* The threads of the library that copy still wait for work when the next of these copies begins. */
static void
bench_in_a_row (const Bench *bench,
                gsize        max)
{
  for (gsize size = MIB; size <= MIN (max, 256 * MIB); size *= 2)
    {
      guint n = MIN (256 * MIB / size, 16);

      compare (bench, "in a row, to the device", ours_write, raw_write, bench->ordinary, size, 1,
               n);
      compare (bench, "in a row, from the device", ours_read, raw_read, bench->ordinary, size, 1,
               n);
    }

  printf ("\n");
}

static void
bench_threads (const Bench *bench,
               gsize        size)
{
  for (guint n = 1; n <= 16; n *= 2)
    {
      gpu_staging_set_n_threads (n);
      printf ("%u threads\n", n);
      compare (bench, "ordinary, to the device", ours_write, raw_write, bench->ordinary, size, 1,
               1);
      compare (bench, "ordinary, from the device", ours_read, raw_read, bench->ordinary, size, 1,
               1);
    }

  gpu_staging_set_n_threads (0);
  printf ("%" G_GSIZE_FORMAT " bytes of page-locked memory for it\n\n",
          gpu_context_get_staging_size (bench->context));
}

/* Enqueues copies on the device. An H200 needs about 16 ms for them. */
static void
enqueue_work (const Bench *bench,
              GpuStream   *stream)
{
  gsize size = MIN (gpu_memory_get_size (GPU_MEMORY (bench->buffer)),
                    gpu_memory_get_size (GPU_MEMORY (bench->other)));

  for (guint64 done = 0; done < WORK_SIZE; done += size)
    g_assert_true (gpu_stream_copy (stream, GPU_MEMORY (bench->other), 0,
                                    GPU_MEMORY (bench->buffer), 0, size, NULL));
}

/* Returns microseconds for each call that enqueues a write, as the median of several rounds. */
static double
time_enqueued (const Bench *bench,
               gsize        size,
               gboolean     is_pending,
               gboolean     is_raw)
{
  GpuStream *stream = is_raw ? bench->raw_stream : bench->stream;
  double times[N_ENQUEUED_ROUNDS];

  for (guint i = 0; i < G_N_ELEMENTS (times); i++)
    {
      gint64 start;

      if (is_pending)
        enqueue_work (bench, stream);

      start = g_get_monotonic_time ();
      for (gsize k = 0; k < N_WRITES; k++)
        {
          g_autoptr (GBytes) bytes = g_bytes_new_static (bench->ordinary + k * size, size);

          if (is_raw)
            bench_raw_write (stream, bench->buffer, bench->ordinary + k * size, size);
          else
            g_assert_true (gpu_stream_write (stream, GPU_MEMORY (bench->buffer), 0, bytes, NULL));
        }
      times[i] = (double) (g_get_monotonic_time () - start) / N_WRITES;
      g_assert_true (gpu_stream_synchronize (stream, NULL, NULL));
      if (is_raw)
        bench_raw_finish (stream);
    }

  return bench_median (times, G_N_ELEMENTS (times));
}

static void
bench_enqueued (const Bench *bench)
{
  printf ("\n%-33s %13s %8s %13s %8s\n", "us of each of 16 enqueued writes", "idle: ours", "raw",
          "pending: ours", "raw");

  for (gsize size = 32 * 1024; size <= MIB; size *= 2)
    {
      print_size (size);
      printf ("%22s %13.1f %8.1f %13.1f %8.1f\n", "",
              time_enqueued (bench, size, FALSE, FALSE), time_enqueued (bench, size, FALSE, TRUE),
              time_enqueued (bench, size, TRUE, FALSE), time_enqueued (bench, size, TRUE, TRUE));
    }
}

static GpuBuffer *
new_buffer (GpuContext     *context,
            gsize           size)
{
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, size, &error);

  if (buffer == NULL)
    g_error ("%s", error->message);

  return buffer;
}

static GpuStream *
new_stream (GpuContext *context)
{
  g_autoptr (GError) error = NULL;
  GpuStream *stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, &error);

  if (stream == NULL)
    g_error ("%s", error->message);

  return stream;
}

static GpuHostMemory *
new_locked (GpuContext *context,
            gsize       size)
{
  g_autoptr (GError) error = NULL;
  GpuHostMemory *memory = gpu_host_memory_new (context, GPU_HOST_MEMORY_FLAGS_NONE, size, &error);

  if (memory == NULL)
    g_error ("%s", error->message);

  return memory;
}

static void
bench_init (Bench     *bench,
            GpuDevice *device,
            gsize      size)
{
  g_autoptr (GError) error = NULL;

  bench->context = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  bench->stream = new_stream (bench->context);
  bench->back = new_stream (bench->context);
  bench->raw_stream = new_stream (bench->context);
  bench->raw_back = new_stream (bench->context);
  bench->buffer = new_buffer (bench->context, size);
  bench->other = new_buffer (bench->context, MIN (size, 1024 * MIB));
  bench->ordinary = g_malloc (size);
  memset (bench->ordinary, 1, size);
}

static void
bench_clear (Bench *bench)
{
  g_free (bench->ordinary);
  g_object_unref (bench->other);
  g_object_unref (bench->buffer);
  g_object_unref (bench->raw_back);
  g_object_unref (bench->raw_stream);
  g_object_unref (bench->back);
  g_object_unref (bench->stream);
  g_object_unref (bench->context);
}

static void
bench_locked (Bench *bench,
              gsize  size)
{
  g_autoptr (GpuHostMemory) one = new_locked (bench->context, size);
  g_autoptr (GpuHostMemory) other = new_locked (bench->context, size);
  g_autoptr (GBytes) one_bytes = gpu_host_memory_get_bytes (one);
  g_autoptr (GBytes) other_bytes = gpu_host_memory_get_bytes (other);

  bench->locked = (guint8 *) g_bytes_get_data (one_bytes, NULL);
  bench->locked_other = (guint8 *) g_bytes_get_data (other_bytes, NULL);
  memset (bench->locked, 2, size);
  memset (bench->locked_other, 3, size);

  compare (bench, "page-locked, to the device", ours_write, raw_write, bench->locked, size, 1, 1);
  compare (bench, "page-locked, from the device", ours_read, raw_read, bench->locked, size, 1, 1);
  compare (bench, "page-locked, both ways", ours_both, raw_both, bench->locked, size, 2,
           1);
}

int
main (int    argc,
      char **argv)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = gpu_device_find (argc > 1 ? argv[1] : "cuda:0", &error);
  gsize n_mib = argc > 2 ? g_ascii_strtoull (argv[2], NULL, 10) : 1024;
  gsize size = MAX (n_mib, 1) * MIB;
  Bench bench = { NULL, };

  if (device == NULL || !bench_raw_can (device))
    {
      fprintf (stderr, "transfers: %s\n", error != NULL ? error->message
                                                        : "no device with raw driver calls");
      return 77;
    }

  bench_init (&bench, device, size);
  printf ("%s, driver %s, %u threads unless said otherwise\n\n", gpu_device_get_name (device),
          gpu_device_get_driver_version (device), gpu_staging_get_n_threads ());
  printf ("%-39s %27s %27s %7s\n", "copies", "ours", "raw", "ratio");
  bench_sizes (&bench, size);
  bench_in_a_row (&bench, size);
  bench_threads (&bench, MIN (size, 1024 * MIB));
  bench_locked (&bench, MIN (size, 1024 * MIB));

  if (size >= 4 * N_WRITES * MIB)
    bench_enqueued (&bench);

  bench_clear (&bench);

  return 0;
}

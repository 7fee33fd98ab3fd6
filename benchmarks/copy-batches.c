/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Compares gpu_stream_copy_batch() with a loop of gpu_stream_copy(): 4,096 copies between rows of
 * two memory objects in a random order, in each direction between page-locked memory and a buffer,
 * and between buffers. The time is that of the calls and of the copies, as the median of rounds
 * that alternate between the two.
 *
 *   benchmarks/copy-batches [DEVICE]
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include <gpumem/gpumem.h>

#include "benchmarks/bench-util.h"

#define N_COPIES 4096
#define N_ROUNDS 21
#define KIB      ((gsize) 1024)

typedef struct
{
  GpuStream *stream;
  GpuMemory *memories[2];       /* the destination and the source */
  guint64    ranges[5 * N_COPIES];
} Bench;

static void
fail (GError *error)
{
  g_printerr ("copy-batches: %s\n", error->message);
  exit (EXIT_FAILURE);
}

static void
copy_batch (Bench *bench)
{
  GError *error = NULL;

  if (!gpu_stream_copy_batch (bench->stream, bench->memories, 2, bench->ranges,
                              G_N_ELEMENTS (bench->ranges), &error))
    fail (error);
}

static void
copy_each (Bench *bench)
{
  GError *error = NULL;

  for (const guint64 *range = bench->ranges; range < bench->ranges + 5 * N_COPIES; range += 5)
    if (!gpu_stream_copy (bench->stream, bench->memories[0], range[1], bench->memories[1],
                          range[3], range[4], &error))
      fail (error);
}

/* Each row has one destination. */
static void
choose_ranges (Bench *bench,
               gsize  row)
{
  for (guint64 i = 0; i < N_COPIES; i++)
    {
      guint64 *range = bench->ranges + 5 * i;

      range[0] = 0;
      range[1] = i * 2654435761 % N_COPIES * row;
      range[2] = 1;
      range[3] = i * 40503 % N_COPIES * row;
      range[4] = row;
    }
}

/* Returns: microseconds, including the wait for the copies */
static double
measure (Bench  *bench,
         void  (*copy) (Bench *bench))
{
  gint64 begin = g_get_monotonic_time ();
  GError *error = NULL;

  copy (bench);
  if (!gpu_stream_synchronize (bench->stream, NULL, &error))
    fail (error);

  return g_get_monotonic_time () - begin;
}

static void
compare (Bench      *bench,
         const char *name,
         gsize       row)
{
  double batches[N_ROUNDS], loops[N_ROUNDS], batch, loop;

  choose_ranges (bench, row);
  copy_batch (bench);
  for (guint i = 0; i < N_ROUNDS; i++)
    {
      batches[i] = measure (bench, copy_batch);
      loops[i] = measure (bench, copy_each);
    }

  batch = bench_median (batches, N_ROUNDS);
  loop = bench_median (loops, N_ROUNDS);
  printf ("%-24s %4" G_GSIZE_FORMAT " KiB %12.1f %12.1f %8.2f %8.2f\n", name, row / KIB, batch,
          loop, loop / batch, N_COPIES * row / batch / 1e3);
}

static GpuMemory *
allocate (GpuContext *context,
          gboolean    is_host,
          gsize       size)
{
  GError *error = NULL;
  gpointer memory;

  if (is_host)
    memory = gpu_host_memory_new (context, GPU_HOST_MEMORY_FLAGS_NONE, size, &error);
  else
    memory = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, size, &error);
  if (memory == NULL)
    fail (error);

  return memory;
}

int
main (int   argc,
      char *argv[])
{
  static const struct { const char *name; gboolean to_host, from_host; } directions[] = {
    { "page-locked to device", FALSE, TRUE },
    { "device to page-locked", TRUE, FALSE },
    { "device to device", FALSE, FALSE }
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = gpu_device_find (argc > 1 ? argv[1] : NULL, &error);
  g_autoptr (GpuContext) context = NULL;
  g_autofree Bench *bench = g_new0 (Bench, 1);

  if (device != NULL)
    context = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
  if (context == NULL)
    fail (error);
  bench->stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NON_BLOCKING, &error);
  if (bench->stream == NULL)
    fail (error);

  printf ("%s, %d copies\n%-24s %8s %12s %12s %8s %8s\n", gpu_device_get_name (device), N_COPIES,
          "", "each", "batch, us", "loop, us", "ratio", "GB/s");
  for (gsize row = 4 * KIB; row <= 32 * KIB; row *= 2)
    for (guint i = 0; i < G_N_ELEMENTS (directions); i++)
      {
        bench->memories[0] = allocate (context, directions[i].to_host, N_COPIES * row);
        bench->memories[1] = allocate (context, directions[i].from_host, N_COPIES * row);
        compare (bench, directions[i].name, row);
        g_object_unref (bench->memories[0]);
        g_object_unref (bench->memories[1]);
      }
  g_object_unref (bench->stream);

  return EXIT_SUCCESS;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the library adds to the driver's own calls: the same operations on the same OpenCL device,
 * by this library and by raw OpenCL calls, in turns. Prints the median of each in nanoseconds of
 * the calling thread, and their difference; the times themselves mean nothing on a shared machine.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <gpumem/gpumem-opencl.h>

#define SIZE 64
#define N_ROUNDS 401

typedef struct
{
  GpuContext       *context;
  GpuStream        *stream;
  GpuBuffer        *a;
  GpuBuffer        *b;
  cl_command_queue  queue;          /* a queue of its own, as the library's stream has */
  cl_mem            raw_a;
  cl_mem            raw_b;
  guint8            data[SIZE];
} Bench;

typedef struct
{
  const char *name;
  guint       n;                    /* operations of a round */
  void      (*ours) (Bench *bench);
  void      (*raw)  (Bench *bench);
} Operation;

static void
check (cl_int      code,
       const char *what)
{
  if (code != CL_SUCCESS)
    g_error ("%s: %d", what, code);
}

static void
ours_write (Bench *bench)
{
  g_autoptr (GError) error = NULL;

  if (!gpu_buffer_write (bench->a, bench->stream, 0, bench->data, SIZE, NULL, &error))
    g_error ("%s", error->message);
}

static void
raw_write (Bench *bench)
{
  check (clEnqueueWriteBuffer (bench->queue, bench->raw_a, CL_TRUE, 0, SIZE, bench->data, 0, NULL,
                               NULL), "clEnqueueWriteBuffer");
}

static void
ours_fill (Bench *bench)
{
  const guint8 pattern[4] = { 1, 2, 3, 4 };

  g_assert_true (gpu_stream_fill (bench->stream, GPU_MEMORY (bench->a), 0, SIZE, pattern,
                                  sizeof pattern, NULL));
}

static void
raw_fill (Bench *bench)
{
  const guint8 pattern[4] = { 1, 2, 3, 4 };

  check (clEnqueueFillBuffer (bench->queue, bench->raw_a, pattern, sizeof pattern, 0, SIZE, 0,
                              NULL, NULL), "clEnqueueFillBuffer");
}

static void
ours_copy (Bench *bench)
{
  g_assert_true (gpu_stream_copy (bench->stream, GPU_MEMORY (bench->b), 0, GPU_MEMORY (bench->a),
                                  0, SIZE, NULL));
}

static void
raw_copy (Bench *bench)
{
  check (clEnqueueCopyBuffer (bench->queue, bench->raw_a, bench->raw_b, 0, 0, SIZE, 0, NULL,
                              NULL), "clEnqueueCopyBuffer");
}

static void
settle (Bench *bench)
{
  g_assert_true (gpu_stream_synchronize (bench->stream, NULL, NULL));
  check (clFinish (bench->queue), "clFinish");
}

/* Of this thread alone: who else runs on the machine does not count. */
static gint64
get_thread_time (void)
{
  struct timespec now;

  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &now);

  return now.tv_sec * G_GINT64_CONSTANT (1000000000) + now.tv_nsec;
}

static double
time_round (Bench  *bench,
            void  (*func) (Bench *bench),
            guint   n)
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

static double
median (double *values)
{
  qsort (values, N_ROUNDS, sizeof *values, compare);

  return values[N_ROUNDS / 2];
}

static void
run (Bench           *bench,
     const Operation *operation)
{
  static double ours[N_ROUNDS];
  static double raw[N_ROUNDS];
  static double difference[N_ROUNDS];

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      /* Who goes first finds the driver's threads asleep: take turns. */
      if (i % 2 == 0)
        ours[i] = time_round (bench, operation->ours, operation->n);

      raw[i] = time_round (bench, operation->raw, operation->n);

      if (i % 2 == 1)
        ours[i] = time_round (bench, operation->ours, operation->n);

      difference[i] = ours[i] - raw[i];
    }

  printf ("%-24s %10.0f %10.0f %10.0f %8.2f\n", operation->name, median (ours), median (raw),
          median (difference), median (ours) / median (raw));
}

static GpuDevice *
find_device (const char *name)
{
  g_autoptr (GError) error = NULL;
  GpuDevice *device = gpu_device_find (name != NULL ? name : "opencl", &error);

  if (device == NULL || g_strcmp0 (gpu_device_get_backend (device), "opencl") != 0)
    {
      fprintf (stderr, "overhead: no OpenCL device to measure on: %s\n",
               error != NULL ? error->message : name);
      exit (77);
    }

  return device;
}

int
main (int    argc,
      char **argv)
{
  const Operation operations[] = { { "blocking write, 64 B", 50, ours_write, raw_write },
                                   { "fill, 64 B", 200, ours_fill, raw_fill },
                                   { "copy, 64 B", 200, ours_copy, raw_copy } };
  g_autoptr (GpuDevice) device = find_device (argc > 1 ? argv[1] : NULL);
  g_autoptr (GError) error = NULL;
  Bench bench = { 0 };
  cl_int code;

  bench.context = gpu_context_new (device, &error);
  g_assert_no_error (error);
  bench.stream = gpu_stream_new (bench.context, GPU_STREAM_FLAGS_NONE, &error);
  g_assert_no_error (error);
  bench.a = gpu_buffer_new (bench.context, GPU_MEMORY_NONE, SIZE, &error);
  bench.b = gpu_buffer_new (bench.context, GPU_MEMORY_NONE, SIZE, &error);
  g_assert_no_error (error);
  bench.queue = clCreateCommandQueueWithProperties (gpu_context_get_cl_context (bench.context),
                                                    gpu_device_get_cl_device (device), NULL,
                                                    &code);
  check (code, "clCreateCommandQueueWithProperties");
  bench.raw_a = gpu_buffer_get_cl_mem (bench.a);
  bench.raw_b = gpu_buffer_get_cl_mem (bench.b);

  printf ("%s, %s\n\n", gpu_device_get_name (device), gpu_device_get_driver_version (device));
  printf ("%-24s %10s %10s %10s %8s\n", "operation", "ours ns", "raw ns", "on top ns", "ratio");

  for (gsize i = 0; i < G_N_ELEMENTS (operations); i++)
    run (&bench, &operations[i]);

  settle (&bench);
  clReleaseCommandQueue (bench.queue);
  g_object_unref (bench.a);
  g_object_unref (bench.b);
  g_object_unref (bench.stream);
  g_object_unref (bench.context);

  return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Measures the most frequent calls from C. calls.py runs this program and its versions in other
 * languages in turn.
 *
 *   benchmarks/calls DEVICE
 *
 * Each line on standard input starts a round, which prints {"call": CPU nanoseconds of this thread,
 * ...}.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <gpumem/gpumem.h>

#define N 1024
#define SIZE (N * sizeof (float))
#define CALLS 100
#define BATCHES 5

static const char source[] =
  "__kernel void\n"
  "scale (__global float *numbers, float factor)\n"
  "{\n"
  "  numbers[get_global_id (0)] *= factor;\n"
  "}\n";

static const GpuExtent grid = { N, 1, 1 };

typedef struct
{
  GpuContext *context;
  GpuStream *stream;
  GpuMemoryPool *pool;
  GpuKernel *kernel;
  GpuLaunch *prepared;
  GpuBuffer *a;
  GpuBuffer *b;
  float numbers[N];
  gsize size;
} Bench;

typedef void (*Call) (Bench *bench, GError **error);

static void
take (Bench   *bench,
      GError **error)
{
  g_object_unref (gpu_memory_pool_alloc_buffer (bench->pool, SIZE, NULL, error));
}

static void
copy (Bench   *bench,
      GError **error)
{
  gpu_stream_copy (bench->stream, GPU_MEMORY (bench->b), 0, GPU_MEMORY (bench->a), 0, SIZE, error);
}

static void
fill (Bench   *bench,
      GError **error)
{
  const float zero = 0;

  gpu_stream_fill (bench->stream, GPU_MEMORY (bench->a), 0, SIZE, &zero,
                   sizeof zero, error);
}

/* Copies the numbers, so that the caller may change them after the call, as in the other
 * languages. */
static void
write_later (Bench   *bench,
             GError **error)
{
  g_autoptr (GBytes) bytes = g_bytes_new (bench->numbers, SIZE);

  gpu_stream_write (bench->stream, GPU_MEMORY (bench->a), 0, bytes, error);
}

static void
write_and_wait (Bench   *bench,
                GError **error)
{
  gpu_buffer_write (bench->a, NULL, 0, bench->numbers, SIZE, NULL, error);
}

static void
read_and_wait (Bench   *bench,
               GError **error)
{
  gpu_buffer_read (bench->a, NULL, 0, bench->numbers, SIZE, NULL, error);
}

static void
launch (Bench   *bench,
        GError **error)
{
  gpu_stream_launch (bench->stream, bench->kernel, &grid, NULL, error, bench->a, 2.0);
}

static void
launch_prepared (Bench   *bench,
                 GError **error)
{
  gpu_stream_launch_prepared (bench->stream, bench->prepared, error);
}

static void
synchronize (Bench   *bench,
             GError **error)
{
  gpu_stream_synchronize (bench->stream, NULL, error);
}

static void
get_size (Bench   *bench,
          GError **error)
{
  bench->size = gpu_memory_get_size (GPU_MEMORY (bench->a));
}

static const struct
{
  const char *name;
  Call call;
} calls[] = {
  { "take and drop a buffer of a pool", take },
  { "copy 4 KiB between buffers", copy },
  { "fill 4 KiB", fill },
  { "write 4 KiB, later", write_later },
  { "write 4 KiB, and wait", write_and_wait },
  { "read 4 KiB into an array", read_and_wait },
  { "launch a kernel with arguments", launch },
  { "launch it as it was prepared", launch_prepared },
  { "wait for a stream that is idle", synchronize },
  { "size of a buffer", get_size },
};

static void
check (GError *error)
{
  if (error == NULL)
    return;

  fprintf (stderr, "calls: %s\n", error->message);
  exit (1);
}

static void
set_up (Bench      *bench,
        const char *name)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = gpu_device_find (name, &error);
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();

  check (error);
  bench->context = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
  check (error);
  bench->stream = g_object_ref (gpu_context_get_default_stream (bench->context));
  bench->pool = gpu_memory_pool_new (bench->context, GPU_MEMORY_POOL_AUTOMATIC,
                                     GPU_MEMORY_FLAGS_NONE,
                                     &error);
  check (error);
  program = gpu_program_new_from_source (bench->context, source, NULL, &error);
  check (error);
  bench->kernel = gpu_program_get_kernel (program, "scale", &error);
  check (error);
  bench->a = gpu_buffer_new (bench->context, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  check (error);
  bench->b = gpu_buffer_new (bench->context, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  check (error);

  gpu_arguments_add_memory (arguments, GPU_MEMORY (bench->a));
  gpu_arguments_add_double (arguments, 2);
  bench->prepared = gpu_launch_new (bench->kernel, &grid, NULL, NULL, 0, GPU_LAUNCH_FLAGS_NONE,
                                    arguments, &error);
  check (error);
  fill (bench, &error);
  check (error);
}

static void
tear_down (Bench *bench)
{
  gpu_launch_unref (bench->prepared);
  g_object_unref (bench->a);
  g_object_unref (bench->b);
  g_object_unref (bench->kernel);
  g_object_unref (bench->pool);
  g_object_unref (bench->stream);
  g_object_unref (bench->context);
}

static gint64
get_thread_time (void)
{
  struct timespec now;

  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &now);

  return now.tv_sec * G_GINT64_CONSTANT (1000000000) + now.tv_nsec;
}

static double
measure (Bench *bench,
         Call   call)
{
  GError *error = NULL;
  gint64 total = 0;

  for (guint batch = 0; batch < BATCHES; batch++)
    {
      gint64 start = get_thread_time ();

      for (guint i = 0; i < CALLS; i++)
        {
          call (bench, &error);
          check (error);
        }
      total += get_thread_time () - start;
      synchronize (bench, &error);
      check (error);
    }

  return (double) total / CALLS / BATCHES;
}

int
main (int    argc,
      char **argv)
{
  Bench bench = { 0 };
  char line[16];

  if (argc != 2)
    {
      fprintf (stderr, "usage: %s DEVICE\n", argv[0]);
      return 2;
    }

  set_up (&bench, argv[1]);
  while (fgets (line, sizeof line, stdin) != NULL)
    {
      for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
        printf ("%s\"%s\": %.1f", i == 0 ? "{" : ", ", calls[i].name,
                measure (&bench, calls[i].call));
      printf ("}\n");
      fflush (stdout);
    }
  tear_down (&bench);

  return 0;
}

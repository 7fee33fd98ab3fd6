/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Measures the overhead of the library over OpenCL calls. On a shared machine only the ratios are
 * meaningful, not the absolute times.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include <gpumem/gpumem-opencl.h>

#include "benchmarks/bench-util.h"

#define SIZE 64

typedef struct
{
  GpuContext       *context;
  GpuStream        *stream;
  GpuBuffer        *a;
  GpuBuffer        *b;
  GpuMemory        *memory_a;       /* buffers a and b, to exclude the time of a cast */
  GpuMemory        *memory_b;
  cl_command_queue  queue;          /* a separate queue with the properties of the stream's queue */
  cl_mem            raw_a;
  cl_mem            raw_b;
  guint8            data[SIZE];
} Bench;

static void
check (cl_int      code,
       const char *what)
{
  if (code != CL_SUCCESS)
    g_error ("%s: %d", what, code);
}

static void
ours_write (gpointer data)
{
  Bench *bench = data;
  g_autoptr (GError) error = NULL;

  if (!gpu_buffer_write (bench->a, bench->stream, 0, bench->data, SIZE, NULL, &error))
    g_error ("%s", error->message);
}

static void
raw_write (gpointer data)
{
  Bench *bench = data;

  check (clEnqueueWriteBuffer (bench->queue, bench->raw_a, CL_TRUE, 0, SIZE, bench->data, 0, NULL,
                               NULL), "clEnqueueWriteBuffer");
}

static void
ours_fill (gpointer data)
{
  Bench *bench = data;
  const guint8 pattern[4] = { 1, 2, 3, 4 };

  g_assert_true (gpu_stream_fill (bench->stream, bench->memory_a, 0, SIZE, pattern,
                                  sizeof pattern, NULL));
}

static void
raw_fill (gpointer data)
{
  Bench *bench = data;
  const guint8 pattern[4] = { 1, 2, 3, 4 };

  check (clEnqueueFillBuffer (bench->queue, bench->raw_a, pattern, sizeof pattern, 0, SIZE, 0,
                              NULL, NULL), "clEnqueueFillBuffer");
}

static void
ours_copy (gpointer data)
{
  Bench *bench = data;

  g_assert_true (gpu_stream_copy (bench->stream, bench->memory_b, 0, bench->memory_a, 0, SIZE,
                                  NULL));
}

static void
raw_copy (gpointer data)
{
  Bench *bench = data;

  check (clEnqueueCopyBuffer (bench->queue, bench->raw_a, bench->raw_b, 0, 0, SIZE, 0, NULL,
                              NULL), "clEnqueueCopyBuffer");
}

static void
settle (gpointer data)
{
  Bench *bench = data;

  g_assert_true (gpu_stream_synchronize (bench->stream, NULL, NULL));
  check (clFinish (bench->queue), "clFinish");
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
  const BenchOperation operations[] = { { "blocking write, 64 B", 50, ours_write, raw_write },
                                        { "fill, 64 B", 200, ours_fill, raw_fill },
                                        { "copy, 64 B", 200, ours_copy, raw_copy } };
  g_autoptr (GpuDevice) device = find_device (argc > 1 ? argv[1] : NULL);
  g_autoptr (GError) error = NULL;
  Bench bench = { 0 };
  cl_int code;

  bench.context = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  bench.stream = gpu_stream_new (bench.context, GPU_STREAM_FLAGS_NONE, &error);
  g_assert_no_error (error);
  bench.a = gpu_buffer_new (bench.context, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  bench.b = gpu_buffer_new (bench.context, GPU_MEMORY_FLAGS_NONE, SIZE, &error);
  g_assert_no_error (error);
  bench.queue = clCreateCommandQueueWithProperties (gpu_context_get_cl_context (bench.context),
                                                    gpu_device_get_cl_device (device), NULL,
                                                    &code);
  check (code, "clCreateCommandQueueWithProperties");
  bench.memory_a = GPU_MEMORY (bench.a);
  bench.memory_b = GPU_MEMORY (bench.b);
  bench.raw_a = gpu_buffer_get_cl_mem (bench.a);
  bench.raw_b = gpu_buffer_get_cl_mem (bench.b);

  printf ("%s, %s\n\n", gpu_device_get_name (device), gpu_device_get_driver_version (device));
  bench_overhead (operations, G_N_ELEMENTS (operations), settle, &bench);
  clReleaseCommandQueue (bench.queue);
  g_object_unref (bench.a);
  g_object_unref (bench.b);
  g_object_unref (bench.stream);
  g_object_unref (bench.context);

  return 0;
}

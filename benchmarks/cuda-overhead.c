/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Measures the overhead of the library over calls of the CUDA driver. The raw calls use a separate
 * stream of the same context. The context stays current.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include <gpumem/gpumem.h>

#include "benchmarks/bench-util.h"
#include "gpumem/cuda/driver/gpu-cuda-api.h"

#define SIZE 4

static const char source[] =
  "extern \"C\" __global__ void empty () { }\n"
  "extern \"C\" __global__ void three (float *a, float b, int n) { }\n";

typedef struct
{
  GpuContext *context;
  GpuStream  *stream;
  GpuMemory  *a;
  GpuMemory  *b;
  GpuKernel  *empty;
  GpuKernel  *three;
  GpuLaunch  *launch;           /* prepared launch of the kernel "empty" */
  GpuExtent   one;
  CUstream    raw_stream;
  CUdeviceptr raw_a;
  CUdeviceptr raw_b;
  CUfunction  raw_empty;
  CUfunction  raw_three;
  guint8      data[SIZE];
} Bench;

static void
check (CUresult    code,
       const char *what)
{
  if (code != CUDA_SUCCESS)
    g_error ("%s: %u", what, code);
}

static void
ours_copy (gpointer data)
{
  Bench *bench = data;

  g_assert_true (gpu_stream_copy (bench->stream, bench->b, 0, bench->a, 0, SIZE, NULL));
}

static void
raw_copy (gpointer data)
{
  Bench *bench = data;

  check (_gpu_cuda_raw.cuMemcpyDtoDAsync (bench->raw_b, bench->raw_a, SIZE, bench->raw_stream),
         "cuMemcpyDtoDAsync");
}

static void
ours_fill (gpointer data)
{
  Bench *bench = data;
  const guint8 pattern[SIZE] = { 1, 2, 3, 4 };

  g_assert_true (gpu_stream_fill (bench->stream, bench->a, 0, SIZE, pattern, SIZE, NULL));
}

static void
raw_fill (gpointer data)
{
  Bench *bench = data;

  check (_gpu_cuda_raw.cuMemsetD32Async (bench->raw_a, 0x04030201, 1, bench->raw_stream),
         "cuMemsetD32Async");
}

static void
ours_write (gpointer data)
{
  Bench *bench = data;

  g_assert_true (gpu_buffer_write (GPU_BUFFER (bench->a), bench->stream, 0, bench->data, SIZE,
                                   NULL, NULL));
}

static void
raw_write (gpointer data)
{
  Bench *bench = data;

  check (_gpu_cuda_raw.cuMemcpyHtoDAsync (bench->raw_a, bench->data, SIZE, bench->raw_stream),
         "cuMemcpyHtoDAsync");
  check (_gpu_cuda_raw.cuStreamSynchronize (bench->raw_stream), "cuStreamSynchronize");
}

static void
ours_empty (gpointer data)
{
  Bench *bench = data;

  g_assert_true (gpu_stream_launch (bench->stream, bench->empty, &bench->one, &bench->one, NULL));
}

static void
ours_prepared (gpointer data)
{
  Bench *bench = data;

  g_assert_true (gpu_stream_launch_prepared (bench->stream, bench->launch, NULL));
}

static void
raw_empty (gpointer data)
{
  Bench *bench = data;

  check (_gpu_cuda_raw.cuLaunchKernel (bench->raw_empty, 1, 1, 1, 1, 1, 1, 0, bench->raw_stream,
                                       NULL, NULL), "cuLaunchKernel");
}

static void
ours_three (gpointer data)
{
  Bench *bench = data;

  g_assert_true (gpu_stream_launch (bench->stream, bench->three, &bench->one, &bench->one, NULL,
                                    bench->a, 2.0, 3));
}

static void
raw_three (gpointer data)
{
  Bench *bench = data;
  float factor = 2;
  int n = 3;
  void *arguments[] = { &bench->raw_a, &factor, &n };

  check (_gpu_cuda_raw.cuLaunchKernel (bench->raw_three, 1, 1, 1, 1, 1, 1, 0, bench->raw_stream,
                                       arguments, NULL), "cuLaunchKernel");
}

static void
ours_synchronize (gpointer data)
{
  Bench *bench = data;

  ours_copy (data);
  g_assert_true (gpu_stream_synchronize (bench->stream, NULL, NULL));
}

static void
raw_synchronize (gpointer data)
{
  Bench *bench = data;

  raw_copy (data);
  check (_gpu_cuda_raw.cuStreamSynchronize (bench->raw_stream), "cuStreamSynchronize");
}

static void
settle (gpointer data)
{
  Bench *bench = data;

  g_assert_true (gpu_stream_synchronize (bench->stream, NULL, NULL));
  check (_gpu_cuda_raw.cuStreamSynchronize (bench->raw_stream), "cuStreamSynchronize");
}

static GpuMemory *
new_memory (Bench *bench)
{
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer = gpu_buffer_new (bench->context, GPU_MEMORY_FLAGS_NONE, SIZE, &error);

  if (buffer == NULL)
    g_error ("%s", error->message);

  return GPU_MEMORY (buffer);
}

static GpuKernel *
get_kernel (GpuProgram *program,
            const char *name)
{
  g_autoptr (GError) error = NULL;
  GpuKernel *kernel = gpu_program_get_kernel (program, name, &error);

  if (kernel == NULL)
    g_error ("%s", error->message);

  return kernel;
}

static void
bench_init (Bench     *bench,
            GpuDevice *device)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuArguments) arguments = gpu_arguments_new ();

  bench->context = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  bench->stream = gpu_stream_new (bench->context, GPU_STREAM_FLAGS_NON_BLOCKING, &error);
  g_assert_no_error (error);
  bench->one = (GpuExtent) { 1, 1, 1 };
  bench->a = new_memory (bench);
  bench->b = new_memory (bench);
  bench->raw_a = gpu_memory_get_device_address (bench->a);
  bench->raw_b = gpu_memory_get_device_address (bench->b);
  check (_gpu_cuda_raw.cuCtxSetCurrent ((CUcontext) (guintptr)
                                        gpu_context_get_native_handle (bench->context)),
         "cuCtxSetCurrent");
  check (_gpu_cuda_raw.cuStreamCreateWithPriority (&bench->raw_stream, CU_STREAM_NON_BLOCKING, 0),
         "cuStreamCreateWithPriority");

  program = gpu_program_new_from_source (bench->context, source, NULL, &error);

  if (program == NULL)
    {
      printf ("no launches: %s\n", error->message);
      return;
    }

  bench->empty = get_kernel (program, "empty");
  bench->three = get_kernel (program, "three");
  bench->raw_empty = (CUfunction) (guintptr) gpu_kernel_get_native_handle (bench->empty);
  bench->raw_three = (CUfunction) (guintptr) gpu_kernel_get_native_handle (bench->three);
  bench->launch = gpu_launch_new (bench->empty, &bench->one, &bench->one, NULL, 0,
                                  GPU_LAUNCH_FLAGS_NONE, arguments, &error);
  g_assert_no_error (error);
}

static void
bench_clear (Bench *bench)
{
  settle (bench);
  check (_gpu_cuda_raw.cuStreamDestroy (bench->raw_stream), "cuStreamDestroy");
  g_clear_pointer (&bench->launch, gpu_launch_unref);
  g_clear_object (&bench->empty);
  g_clear_object (&bench->three);
  g_object_unref (bench->a);
  g_object_unref (bench->b);
  g_object_unref (bench->stream);
  g_object_unref (bench->context);
}

int
main (int    argc,
      char **argv)
{
  const BenchOperation operations[] = { { "copy on the device, 4 B", 100, ours_copy, raw_copy },
                                        { "fill, 4 B", 100, ours_fill, raw_fill },
                                        { "blocking write, 4 B", 50, ours_write, raw_write },
                                        { "copy, 4 B, and synchronize", 50, ours_synchronize,
                                          raw_synchronize },
                                        { "empty launch", 100, ours_empty, raw_empty },
                                        { "empty launch, prepared", 100, ours_prepared,
                                          raw_empty },
                                        { "launch, 3 arguments", 100, ours_three, raw_three } };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = gpu_device_find (argc > 1 ? argv[1] : "cuda:0", &error);
  Bench bench = { 0 };

  if (device == NULL || g_strcmp0 (gpu_device_get_backend (device), "cuda") != 0)
    {
      fprintf (stderr, "cuda-overhead: %s\n", error != NULL ? error->message : "no CUDA device");
      return 77;
    }

  bench_init (&bench, device);
  printf ("%s, driver %s\n\n", gpu_device_get_name (device),
          gpu_device_get_driver_version (device));
  bench_overhead (operations, bench.launch != NULL ? G_N_ELEMENTS (operations) : 4, settle,
                  &bench);
  bench_clear (&bench);

  return 0;
}

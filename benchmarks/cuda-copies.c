/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Compares copies by the library with copies by raw driver calls, both contiguous and in rows with
 * gaps. The raw calls use the library's table of driver functions and a separate stream of the same
 * context, and copy between the same allocations.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include <gpumem/gpumem.h>

#include "benchmarks/bench-util.h"
#include "gpumem/cuda/driver/gpu-cuda-api.h"

#define N_COPIES 16
#define N_ROUNDS 21

/* The size of a row of the region, in bytes. The two pitches differ, and are larger than a row. */
#define ROW       ((gsize) 8 * 1000)
#define FROM_ROW  ((gsize) 8 * 1024)
#define TO_ROW    ((gsize) 8 * 1152)

typedef struct
{
  GpuContext *context;
  GpuStream  *stream;
  CUstream    raw_stream;
  gsize       size;             /* of each allocation */
  GpuMemory  *from;
  GpuMemory  *to;
} Bench;

/* Enqueues one copy, and returns the number of bytes. */
typedef gsize (*CopyFunc) (const Bench *bench);

static void
check (CUresult    code,
       const char *what)
{
  if (code != CUDA_SUCCESS)
    g_error ("%s: %u", what, code);
}

static gsize
ours_whole (const Bench *bench)
{
  g_assert_true (gpu_stream_copy (bench->stream, bench->to, 0, bench->from, 0, bench->size, NULL));

  return bench->size;
}

static gsize
raw_whole (const Bench *bench)
{
  check (_gpu_cuda_raw.cuMemcpyAsync (gpu_memory_get_device_address (bench->to),
                                      gpu_memory_get_device_address (bench->from), bench->size,
                                      bench->raw_stream), "cuMemcpyAsync");

  return bench->size;
}

static gsize
ours_rows (const Bench *bench)
{
  const GpuLayout from = { .row_pitch = FROM_ROW };
  const GpuLayout to = { .row_pitch = TO_ROW };
  const GpuExtent extent = { ROW, bench->size / TO_ROW, 1 };

  g_assert_true (gpu_stream_copy_region (bench->stream, bench->to, &to, bench->from, &from, &extent,
                                         NULL));

  return extent.width * extent.height;
}

static gsize
raw_rows (const Bench *bench)
{
  const CUDA_MEMCPY2D copy =
  {
    .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
    .srcDevice = gpu_memory_get_device_address (bench->from),
    .srcPitch = FROM_ROW,
    .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
    .dstDevice = gpu_memory_get_device_address (bench->to),
    .dstPitch = TO_ROW,
    .WidthInBytes = ROW,
    .Height = bench->size / TO_ROW
  };

  check (_gpu_cuda_raw.cuMemcpy2DAsync (&copy, bench->raw_stream), "cuMemcpy2DAsync");

  return copy.WidthInBytes * copy.Height;
}

static void
settle (const Bench *bench)
{
  g_assert_true (gpu_stream_synchronize (bench->stream, NULL, NULL));
  check (_gpu_cuda_raw.cuStreamSynchronize (bench->raw_stream), "cuStreamSynchronize");
}

/* Returns GB/s. */
static double
time_copies (const Bench *bench,
             CopyFunc     copy)
{
  gsize n_bytes = 0;
  gint64 start;

  settle (bench);
  start = g_get_monotonic_time ();

  for (guint i = 0; i < N_COPIES; i++)
    n_bytes += copy (bench);

  settle (bench);

  return (double) n_bytes / (double) (g_get_monotonic_time () - start) / 1000;
}

static void
compare (const Bench *bench,
         const char  *name,
         CopyFunc     ours,
         CopyFunc     raw)
{
  double our_speeds[N_ROUNDS];
  double raw_speeds[N_ROUNDS];
  double ratios[N_ROUNDS];

  time_copies (bench, ours);
  time_copies (bench, raw);

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      /* The device clocks are lower during the measurement that runs first, so alternate the
       * order. */
      if (i % 2 == 0)
        our_speeds[i] = time_copies (bench, ours);

      raw_speeds[i] = time_copies (bench, raw);

      if (i % 2 == 1)
        our_speeds[i] = time_copies (bench, ours);

      ratios[i] = our_speeds[i] / raw_speeds[i];
    }

  printf ("%-32s %8.1f GB/s %8.1f GB/s %8.4f\n", name, bench_median (our_speeds, N_ROUNDS),
          bench_median (raw_speeds, N_ROUNDS), bench_median (ratios, N_ROUNDS));
}

static GpuMemory *
new_memory (const Bench    *bench,
            GpuMemoryFlags  flags)
{
  g_autoptr (GError) error = NULL;
  GpuBuffer *buffer = gpu_buffer_new (bench->context, flags, bench->size, &error);

  if (buffer == NULL)
    g_error ("%s", error->message);

  return GPU_MEMORY (buffer);
}

static void
bench_copies (Bench          *bench,
              const char     *name,
              GpuMemoryFlags  from,
              GpuMemoryFlags  to)
{
  g_autofree char *rows = g_strconcat (name, ", rows", NULL);

  bench->from = new_memory (bench, from);
  bench->to = new_memory (bench, to);
  compare (bench, name, ours_whole, raw_whole);
  compare (bench, rows, ours_rows, raw_rows);
  g_clear_object (&bench->from);
  g_clear_object (&bench->to);
}

static void
bench_init (Bench     *bench,
            GpuDevice *device)
{
  g_autoptr (GError) error = NULL;

  bench->context = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  bench->stream = gpu_stream_new (bench->context, GPU_STREAM_FLAGS_NON_BLOCKING, &error);
  g_assert_no_error (error);
  check (_gpu_cuda_raw.cuCtxSetCurrent ((CUcontext) (guintptr)
                                        gpu_context_get_native_handle (bench->context)),
         "cuCtxSetCurrent");
  check (_gpu_cuda_raw.cuStreamCreateWithPriority (&bench->raw_stream, CU_STREAM_NON_BLOCKING, 0),
         "cuStreamCreateWithPriority");
}

static void
bench_clear (Bench *bench)
{
  check (_gpu_cuda_raw.cuStreamDestroy (bench->raw_stream), "cuStreamDestroy");
  g_object_unref (bench->stream);
  g_object_unref (bench->context);
}

int
main (int    argc,
      char **argv)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = gpu_device_find (argc > 1 ? argv[1] : "cuda:0", &error);
  gsize n_mib = argc > 2 ? g_ascii_strtoull (argv[2], NULL, 10) : 1024;
  Bench bench = { .size = MAX (n_mib, 1) << 20 };

  if (device == NULL || g_strcmp0 (gpu_device_get_backend (device), "cuda") != 0)
    {
      fprintf (stderr, "cuda-copies: %s\n", error != NULL ? error->message : "no CUDA device");
      return 77;
    }

  bench_init (&bench, device);
  printf ("%s, driver %s, memories of %" G_GSIZE_FORMAT " MiB; rows of %" G_GSIZE_FORMAT
          " bytes, each %" G_GSIZE_FORMAT " and %" G_GSIZE_FORMAT " from the next\n\n",
          gpu_device_get_name (device), gpu_device_get_driver_version (device), bench.size >> 20,
          ROW, FROM_ROW, TO_ROW);
  printf ("%-32s %13s %13s %8s\n", "copies", "ours", "raw", "ratio");
  bench_copies (&bench, "on the device", GPU_MEMORY_FLAGS_NONE, GPU_MEMORY_FLAGS_NONE);
  bench_copies (&bench, "page-locked to device", GPU_MEMORY_FLAGS_ALLOC_HOST,
                GPU_MEMORY_FLAGS_NONE);
  bench_copies (&bench, "device to page-locked", GPU_MEMORY_FLAGS_NONE,
                GPU_MEMORY_FLAGS_ALLOC_HOST);
  bench_clear (&bench);

  return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Measures the driver calls that an expandable pool makes to move memory: the time, for each chunk,
 * to create it, map it, set its access, unmap it and release it, by the size of the chunks and by
 * the number of adjacent chunks that one call sets access to, or unmaps. A chunk is created, mapped
 * and released by calls of its own.
 *
 *   cuda-chunks [DEVICE [MIB]]     at most MIB of memory at once, 512 by default
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <gpumem/gpumem.h>

#include "benchmarks/bench-util.h"
#include "gpumem/cuda/driver/gpu-cuda-api.h"

#define N_ROUNDS 21
#define MAX_N    64

static const guint sizes[] = { 1, 4, 16, 64 };      /* granules */
static const guint numbers[] = { 1, 8, MAX_N };     /* chunks */

typedef enum
{
  CREATE,
  MAP,
  ACCESS,
  UNMAP,
  RELEASE,
  N_STEPS
} Step;

typedef struct
{
  CUmemAllocationProp properties;
  CUmemAccessDesc     access;
  gsize               granularity;
  gsize               most;         /* bytes */
  double              first[N_STEPS + 1];   /* the times of the first line */
} Bench;

static void
check (CUresult    code,
       const char *name)
{
  if (code != CUDA_SUCCESS)
    g_error ("%s: %u", name, code);
}

static double
get_microseconds (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);

  return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

/* Stores the time of each step for all @n chunks of @size bytes, in microseconds. */
static void
run_round (const Bench *bench,
           CUdeviceptr  address,
           gsize        size,
           guint        n,
           double       times[N_STEPS])
{
  CUmemGenericAllocationHandle chunks[MAX_N];
  double begin = get_microseconds ();

  for (guint i = 0; i < n; i++)
    check (_gpu_cuda_raw.cuMemCreate (&chunks[i], size, &bench->properties, 0), "cuMemCreate");
  times[CREATE] = get_microseconds () - begin;

  begin = get_microseconds ();
  for (guint i = 0; i < n; i++)
    check (_gpu_cuda_raw.cuMemMap (address + i * size, size, 0, chunks[i], 0), "cuMemMap");
  times[MAP] = get_microseconds () - begin;

  begin = get_microseconds ();
  check (_gpu_cuda_raw.cuMemSetAccess (address, n * size, &bench->access, 1), "cuMemSetAccess");
  times[ACCESS] = get_microseconds () - begin;

  begin = get_microseconds ();
  check (_gpu_cuda_raw.cuMemUnmap (address, n * size), "cuMemUnmap");
  times[UNMAP] = get_microseconds () - begin;

  begin = get_microseconds ();
  for (guint i = 0; i < n; i++)
    check (_gpu_cuda_raw.cuMemRelease (chunks[i]), "cuMemRelease");
  times[RELEASE] = get_microseconds () - begin;
}

/* Prints the median time of each step and of all steps, for each chunk, and the ratio to the first
 * line. */
static void
print_line (Bench *bench,
            gsize  size,
            guint  n,
            double rounds[N_STEPS][N_ROUNDS])
{
  double all[N_STEPS + 1] = { 0, };

  for (guint step = 0; step < N_STEPS; step++)
    {
      all[step] = bench_median (rounds[step], N_ROUNDS) / n;
      all[N_STEPS] += all[step];
    }

  printf ("%5" G_GSIZE_FORMAT " MiB x %2u", size >> 20, n);
  for (guint step = 0; step <= N_STEPS; step++)
    {
      if (bench->first[step] == 0)
        bench->first[step] = all[step];
      printf (" %8.2f %5.2f", all[step], all[step] / MAX (bench->first[step], 1e-3));
    }
  printf ("\n");
}

static void
bench_chunks (Bench *bench,
              gsize  size,
              guint  n)
{
  double rounds[N_STEPS][N_ROUNDS];
  double times[N_STEPS];
  CUdeviceptr address = 0;

  if (n * size > bench->most)
    return;

  check (_gpu_cuda_raw.cuMemAddressReserve (&address, n * size, 0, 0, 0), "cuMemAddressReserve");
  run_round (bench, address, size, n, times);
  for (guint i = 0; i < N_ROUNDS; i++)
    {
      run_round (bench, address, size, n, times);
      for (guint step = 0; step < N_STEPS; step++)
        rounds[step][i] = times[step];
    }
  check (_gpu_cuda_raw.cuMemAddressFree (address, n * size), "cuMemAddressFree");

  print_line (bench, size, n, rounds);
}

static void
bench_init (Bench      *bench,
            GpuContext *context)
{
  CUdevice device = 0;

  check (_gpu_cuda_raw.cuCtxSetCurrent ((CUcontext) (guintptr)
                                        gpu_context_get_native_handle (context)),
         "cuCtxSetCurrent");
  check (_gpu_cuda_raw.cuCtxGetDevice (&device), "cuCtxGetDevice");
  bench->properties = (CUmemAllocationProp) {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .location = { CU_MEM_LOCATION_TYPE_DEVICE, device }
  };
  bench->access = (CUmemAccessDesc) {
    .location = { CU_MEM_LOCATION_TYPE_DEVICE, device },
    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE
  };
  check (_gpu_cuda_raw.cuMemGetAllocationGranularity (&bench->granularity, &bench->properties,
                                                      CU_MEM_ALLOC_GRANULARITY_MINIMUM),
         "cuMemGetAllocationGranularity");
}

int
main (int    argc,
      char **argv)
{
  static const char *const steps[] = { "create", "map", "access", "unmap", "release", "all" };
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuDevice) device = gpu_device_find (argc > 1 ? argv[1] : "cuda:0", &error);
  g_autoptr (GpuContext) context = NULL;
  gsize n_mib = argc > 2 ? g_ascii_strtoull (argv[2], NULL, 10) : 512;
  Bench bench = { .most = MAX (n_mib, 1) << 20 };

  if (device == NULL || g_strcmp0 (gpu_device_get_backend (device), "cuda") != 0
      || (gpu_device_get_capabilities (device) & GPU_CAPABILITIES_VIRTUAL_MEMORY) == 0)
    {
      fprintf (stderr, "cuda-chunks: %s\n",
               error != NULL ? error->message : "no CUDA device with virtual memory");
      return 77;
    }

  context = gpu_context_new (device, GPU_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  bench_init (&bench, context);
  bench.most = MAX (bench.most, bench.granularity);

  printf ("%s, driver %s; microseconds for each chunk, and the ratio to the first line\n\n"
          "%-14s", gpu_device_get_name (device), gpu_device_get_driver_version (device), "chunks");
  for (guint i = 0; i < G_N_ELEMENTS (steps); i++)
    printf (" %14s", steps[i]);
  printf ("\n");

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    for (guint j = 0; j < G_N_ELEMENTS (numbers); j++)
      bench_chunks (&bench, sizes[i] * bench.granularity, numbers[j]);

  return 0;
}

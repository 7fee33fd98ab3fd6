/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* pool: two streams process the chunks of a long input. The buffers for each chunk come from a
 * pool, which reuses the memory of earlier chunks and rarely calls the driver.
 *
 *   cc pool.c -o pool $(pkg-config --cflags --libs gpumem-1.0)
 */
#include <gpumem/gpumem.h>

#define N        16384
#define SIZE     (N * sizeof (guint32))
#define N_CHUNKS 64

static const char source[] =
  "__kernel void\n"
  "polynomial (__global const uint *x, __global uint *y)\n"
  "{\n"
  "  size_t i = get_global_id (0);\n"
  "\n"
  "  y[i] = 3 * x[i] * x[i] + 2 * x[i] + 1;\n"
  "}\n";

static GBytes *
make_numbers (guint32 chunk)
{
  guint32 *numbers = g_new (guint32, N);

  for (guint32 i = 0; i < N; i++)
    numbers[i] = chunk * N + i;

  return g_bytes_new_take (numbers, SIZE);
}

/* Returns at once. The buffers may be dropped: the pool orders the next use of their memory after
 * the pending work of the stream. */
static GBytes *
enqueue (GpuMemoryPool *pool, GpuStream *stream, GpuKernel *kernel, guint32 chunk, GError **error)
{
  g_autoptr (GpuBuffer) x = gpu_memory_pool_alloc_buffer (pool, SIZE, stream, error);
  g_autoptr (GpuBuffer) y = NULL;
  g_autoptr (GBytes) numbers = make_numbers (chunk);
  const GpuExtent grid = { N, 1, 1 };

  if (x == NULL ||
      (y = gpu_memory_pool_alloc_buffer (pool, SIZE, stream, error)) == NULL ||
      !gpu_stream_write (stream, GPU_MEMORY (x), 0, numbers, error) ||
      !gpu_stream_launch (stream, kernel, &grid, NULL, error, x, y))
    return NULL;

  return gpu_stream_read_bytes (stream, GPU_MEMORY (y), 0, SIZE, error);
}

static gboolean
check (GBytes *result, guint32 chunk, GError **error)
{
  const guint32 *numbers = g_bytes_get_data (result, NULL);

  for (guint32 i = 0; i < N; i++)
    {
      guint32 x = chunk * N + i;

      if (numbers[i] != 3 * x * x + 2 * x + 1)
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "number %u of chunk %u is %u", i, chunk,
                       numbers[i]);
          return FALSE;
        }
    }

  return TRUE;
}

static gboolean
run_chunks (GpuContext *context, GpuMemoryPool *pool, GError **error)
{
  g_autoptr (GpuStream) one = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuStream) other = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GPtrArray) results = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);

  if (one == NULL ||
      (other = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error)) == NULL ||
      (program = gpu_program_new_from_source (context, source, NULL, error)) == NULL ||
      (kernel = gpu_program_get_kernel (program, "polynomial", error)) == NULL)
    return FALSE;

  for (guint32 chunk = 0; chunk < N_CHUNKS; chunk++)
    {
      GBytes *result = enqueue (pool, chunk % 2 == 0 ? one : other, kernel, chunk, error);

      if (result == NULL)
        return FALSE;
      g_ptr_array_add (results, result);
    }

  if (!gpu_context_synchronize (context, error))
    return FALSE;

  for (guint32 chunk = 0; chunk < N_CHUNKS; chunk++)
    {
      if (!check (g_ptr_array_index (results, chunk), chunk, error))
        return FALSE;
    }

  return TRUE;
}

static void
print_figures (GpuContext *context, GpuMemoryPool *pool)
{
  guint64 n_allocs, managed, n_growths, active, peak;

  g_object_get (pool, "n-allocs", &n_allocs, "managed-bytes", &managed, "n-growths", &n_growths,
                "active-blocks", &active, "peak-active-bytes", &peak, NULL);
  g_print ("%d chunks on %s are correct\n", N_CHUNKS,
           gpu_device_get_id (gpu_context_get_device (context)));
  g_print ("the pool served %" G_GUINT64_FORMAT " buffers from %" G_GUINT64_FORMAT " bytes, which "
           "took %" G_GUINT64_FORMAT " allocations by the driver; %" G_GUINT64_FORMAT " are in "
           "use, and the peak was %" G_GUINT64_FORMAT " bytes\n", n_allocs, managed, n_growths,
           active, peak);
}

int
main (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GpuContext) context = gpu_context_new_default (&error);
  g_autoptr (GpuMemoryPool) pool = NULL;

  if (context != NULL)
    pool = gpu_memory_pool_new (context, GPU_MEMORY_POOL_AUTOMATIC, GPU_MEMORY_FLAGS_NONE, &error);
  if (pool != NULL && run_chunks (context, pool, &error))
    print_figures (context, pool);

  if (error != NULL)
    g_printerr ("pool: %s\n", error->message);
  return error != NULL;
}

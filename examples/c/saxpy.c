/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* saxpy: builds a kernel, launches it over a million numbers and maps the result.
 *
 *   cc saxpy.c -o saxpy $(pkg-config --cflags --libs gpumem-1.0)
 */
#include <gpumem/gpumem.h>

#define N (1 << 20)

static const char source[] =
  "__kernel void\n"
  "saxpy (float a, __global const float *x, __global float *y)\n"
  "{\n"
  "  size_t i = get_global_id (0);\n"
  "\n"
  "  y[i] = a * x[i] + y[i];\n"
  "}\n";

static GpuBuffer *
upload (GpuContext *context, float first, float step, GError **error)
{
  g_autoptr (GBytes) bytes = NULL;
  float *numbers = g_new (float, N);

  for (gsize i = 0; i < N; i++)
    numbers[i] = first + step * i;
  bytes = g_bytes_new_take (numbers, N * sizeof (float));

  return gpu_buffer_new_from_bytes (context, GPU_MEMORY_FLAGS_NONE, bytes, error);
}

/* The mapping gives the host access to the buffer. Dropping the last reference to the mapping
 * unmaps the buffer. */
static gboolean
check (GpuBuffer *y, GError **error)
{
  g_autoptr (GpuMapping) mapping = NULL;
  const float *numbers;

  mapping = gpu_buffer_map (y, NULL, GPU_MAP_FLAGS_READ, 0, N * sizeof (float), NULL, error);
  if (mapping == NULL)
    return FALSE;
  numbers = gpu_mapping_get_data (mapping);

  for (gsize i = 0; i < N; i++)
    {
      if (numbers[i] != 2.5f * i + 1)
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "number %" G_GSIZE_FORMAT " is %g, "
                       "not %g", i, numbers[i], 2.5f * i + 1);
          return FALSE;
        }
    }
  g_print ("2.5 x + 1 is correct for all %d numbers: %.1f, %.1f, %.1f ... %.1f\n", N,
           numbers[0], numbers[1], numbers[2], numbers[N - 1]);

  return TRUE;
}

static gboolean
run (GError **error)
{
  g_autoptr (GpuContext) context = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) x = NULL;
  g_autoptr (GpuBuffer) y = NULL;
  g_autoptr (GpuStream) stream = NULL;
  GpuExtent grid = { N, 1, 1 };

  context = gpu_context_new_default (error);
  if (context == NULL)
    return FALSE;
  program = gpu_program_new_from_source (context, source, NULL, error);
  if (program == NULL)
    return FALSE;
  kernel = gpu_program_get_kernel (program, "saxpy", error);
  if (kernel == NULL)
    return FALSE;
  x = upload (context, 0, 1, error);
  if (x == NULL)
    return FALSE;
  y = upload (context, 1, 0, error);
  if (y == NULL)
    return FALSE;

  /* The launch returns at once. The mapping in check() waits for the kernel, because both use y. */
  stream = gpu_context_get_default_stream (context);
  if (!gpu_stream_launch (stream, kernel, &grid, NULL, error, 2.5, x, y))
    return FALSE;

  return check (y, error);
}

int
main (void)
{
  g_autoptr (GError) error = NULL;

  if (!run (&error))
    {
      g_printerr ("saxpy: %s\n", error->message);
      return 1;
    }

  return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* squares: squares the numbers of the command line on a device.
 *
 *   GPUMEM_DEVICE=host ./squares 1 2 3
 */
#include <gpumem/gpumem.h>

static const char source[] =
  "__kernel void\n"
  "square (__global float *x)\n"
  "{\n"
  "  size_t i = get_global_id (0);\n"
  "\n"
  "  x[i] *= x[i];\n"
  "}\n";

static gboolean
square (float *numbers, gsize n, GError **error)
{
  g_autoptr (GpuContext) context = gpu_context_new_default (error);
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) x = NULL;
  GpuStream *stream;
  GpuExtent grid = { n, 1, 1 };
  gsize size = n * sizeof *numbers;

  if (context == NULL)
    return FALSE;
  stream = gpu_context_get_default_stream (context);

  return (program = gpu_program_new_from_source (context, source, NULL, error)) != NULL &&
         (kernel = gpu_program_get_kernel (program, "square", error)) != NULL &&
         (x = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, size, error)) != NULL &&
         gpu_buffer_write (x, stream, 0, numbers, size, NULL, error) &&
         gpu_stream_launch (stream, kernel, &grid, NULL, error, x) &&
         gpu_buffer_read (x, stream, 0, numbers, size, NULL, error);
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  gsize n = argc - 1;
  g_autofree float *numbers = g_new (float, argc);

  if (n == 0)
    {
      g_printerr ("Usage: %s NUMBER...\n", argv[0]);
      return 2;
    }

  for (gsize i = 0; i < n; i++)
    numbers[i] = g_ascii_strtod (argv[i + 1], NULL);
  if (!square (numbers, n, &error))
    {
      g_printerr ("squares: %s\n", error->message);
      return 1;
    }
  for (gsize i = 0; i < n; i++)
    g_print ("%g\n", numbers[i]);

  return 0;
}

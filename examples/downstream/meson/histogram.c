/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* histogram: counts the bytes of a file by value on a device.
 *
 *   GPUMEM_DEVICE=host ./histogram FILE
 */
#include <gpumem/gpumem.h>

#define BINS 256

static const char source[] =
  "__kernel void\n"
  "count (__global const uchar *data, __global uint *bins)\n"
  "{\n"
  "  atomic_inc (&bins[data[get_global_id (0)]]);\n"
  "}\n";

static gboolean
count_bytes (GBytes *bytes, guint32 *bins, GError **error)
{
  static const guint8 zero = 0;
  g_autoptr (GpuContext) context = gpu_context_new_default (error);
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  g_autoptr (GpuBuffer) data = NULL;
  g_autoptr (GpuBuffer) counts = NULL;
  GpuStream *stream;
  GpuExtent grid = { g_bytes_get_size (bytes), 1, 1 };
  gsize size = BINS * sizeof *bins;

  if (context == NULL)
    return FALSE;
  stream = gpu_context_get_default_stream (context);

  return (program = gpu_program_new_from_source (context, source, NULL, error)) != NULL &&
         (kernel = gpu_program_get_kernel (program, "count", error)) != NULL &&
         (data = gpu_buffer_new_from_bytes (context, GPU_MEMORY_FLAGS_NONE, bytes,
                                            error)) != NULL &&
         (counts = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, size, error)) != NULL &&
         gpu_buffer_fill (counts, stream, 0, size, &zero, 1, NULL, error) &&
         gpu_stream_launch (stream, kernel, &grid, NULL, error, data, counts) &&
         gpu_buffer_read (counts, stream, 0, bins, size, NULL, error);
}

/* Counts the bytes on the CPU, to verify the result of the device. */
static gboolean
check_bins (GBytes *bytes, const guint32 *bins, GError **error)
{
  guint32 expected[BINS] = { 0 };
  gsize size;
  const guint8 *data = g_bytes_get_data (bytes, &size);

  for (gsize i = 0; i < size; i++)
    expected[data[i]]++;
  for (guint i = 0; i < BINS; i++)
    {
      if (bins[i] != expected[i])
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "byte %u was counted %u times, not %u",
                       i, bins[i], expected[i]);
          return FALSE;
        }
    }

  return TRUE;
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = NULL;
  guint32 bins[BINS];
  char *content;
  gsize size;

  if (argc != 2)
    {
      g_printerr ("Usage: %s FILE\n", argv[0]);
      return 2;
    }

  if (g_file_get_contents (argv[1], &content, &size, &error))
    bytes = g_bytes_new_take (content, size);
  if (bytes == NULL || !count_bytes (bytes, bins, &error) || !check_bins (bytes, bins, &error))
    {
      g_printerr ("histogram: %s\n", error->message);
      return 1;
    }
  for (guint i = 0; i < BINS; i++)
    {
      if (bins[i] > 0)
        g_print ("%3u %u\n", i, bins[i]);
    }

  return 0;
}

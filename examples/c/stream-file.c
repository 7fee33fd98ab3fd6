/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* stream-file: counts the bytes of a file that is larger than the device memory that the program
 * may use. The chunks of the file alternate between two streams: while the device processes a
 * chunk, the program reads the next chunk.
 *
 *   cc stream-file.c -o stream-file $(pkg-config --cflags --libs gpumem-1.0)
 *   ./stream-file disk.img 64
 *
 * Without arguments, the program creates a file and uses 2 MiB.
 */
#include <string.h>

#include <gpumem/gpumem.h>

#define N_GROUPS 32
#define COUNTS_SIZE (N_GROUPS * 256 * sizeof (guint64))

/* Each group of 256 work-items counts bytes in local memory, and adds the result to its own part of
 * counts. */
static const char source[] =
  "__kernel void\n"
  "count (__global const uchar *bytes, ulong size, __global ulong *counts)\n"
  "{\n"
  "  __local uint mine[256];\n"
  "\n"
  "  mine[get_local_id (0)] = 0;\n"
  "  barrier (CLK_LOCAL_MEM_FENCE);\n"
  "  for (ulong i = get_global_id (0); i < size; i += get_global_size (0))\n"
  "    atomic_inc (&mine[bytes[i]]);\n"
  "  barrier (CLK_LOCAL_MEM_FENCE);\n"
  "  counts[get_global_id (0)] += mine[get_local_id (0)];\n"
  "}\n";

/* A stream, with one half of the device memory, and with page-locked memory into which the file is
 * read. */
typedef struct
{
  GpuStream     *stream;
  GpuHostMemory *chunk;
  GpuBuffer     *bytes;
  GpuBuffer     *counts;
} Lane;

static gboolean
lane_init (Lane *lane, GpuContext *context, gsize size, GError **error)
{
  const gsize chunk_size = size - COUNTS_SIZE;
  const guint8 zero = 0;

  return (lane->stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error)) != NULL
         && (lane->chunk = gpu_host_memory_new (context, GPU_HOST_MEMORY_FLAGS_NONE, chunk_size,
                                                error)) != NULL
         && (lane->bytes = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, chunk_size,
                                           error)) != NULL
         && (lane->counts = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, COUNTS_SIZE,
                                            error)) != NULL
         && gpu_stream_fill (lane->stream, GPU_MEMORY (lane->counts), 0, COUNTS_SIZE, &zero, 1,
                             error);
}

static void
lane_clear (Lane *lane)
{
  g_clear_object (&lane->stream);
  g_clear_object (&lane->chunk);
  g_clear_object (&lane->bytes);
  g_clear_object (&lane->counts);
}

/* Submits the copies and launches for the whole file, chunk by chunk. @held receives the peak of
 * device memory in use. */
static gboolean
stream_file (Lane lanes[2], GpuKernel *kernel, GInputStream *input, guint64 *held, GError **error)
{
  const GpuExtent grid = { N_GROUPS * 256, 1, 1 };
  const GpuExtent block = { 256, 1, 1 };

  for (guint turn = 0;; turn++)
    {
      Lane *lane = &lanes[turn % 2];
      gsize size;

      /* Waits only for the copy of the chunk: the kernel and the other stream may still run. */
      if (!gpu_host_memory_synchronize (lane->chunk, GPU_MAP_FLAGS_WRITE, NULL, error)
          || !g_input_stream_read_all (input, gpu_host_memory_get_data (lane->chunk),
                                       gpu_memory_get_size (GPU_MEMORY (lane->chunk)), &size,
                                       NULL, error))
        return FALSE;
      if (size == 0)
        return TRUE;

      if (!gpu_stream_copy (lane->stream, GPU_MEMORY (lane->bytes), 0, GPU_MEMORY (lane->chunk), 0,
                            size, error)
          || !gpu_stream_launch (lane->stream, kernel, &grid, &block, error, lane->bytes,
                                 (guint64) size, lane->counts))
        return FALSE;
      *held = MAX (*held,
                   gpu_context_get_allocated_size (gpu_stream_get_context (lane->stream)));
    }
}

/* Waits for the stream of the lane. */
static gboolean
add_counts (Lane *lane, guint64 totals[256], GError **error)
{
  g_autoptr (GBytes) bytes = gpu_buffer_read_bytes (lane->counts, lane->stream, 0, COUNTS_SIZE,
                                                    NULL, error);
  const guint64 *counts;

  if (bytes == NULL)
    return FALSE;
  counts = g_bytes_get_data (bytes, NULL);
  for (guint i = 0; i < N_GROUPS * 256; i++)
    totals[i % 256] += counts[i];

  return TRUE;
}

/* Verifies the counts on the CPU. */
static gboolean
check (GFile *file, const guint64 totals[256], GError **error)
{
  g_autoptr (GFileInputStream) input = g_file_read (file, NULL, error);
  guint64 expected[256] = { 0 };
  guint8 block[65536];
  gssize size;

  if (input == NULL)
    return FALSE;
  while ((size = g_input_stream_read (G_INPUT_STREAM (input), block, sizeof block, NULL,
                                      error)) > 0)
    for (gssize i = 0; i < size; i++)
      expected[block[i]]++;
  if (size < 0)
    return FALSE;

  if (memcmp (totals, expected, sizeof expected) != 0)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "the counts are wrong");
      return FALSE;
    }

  return TRUE;
}

static gboolean
run (GFile *file, guint64 budget, GError **error)
{
  g_autoptr (GpuContext) context = gpu_context_new_default (error);
  g_autoptr (GFileInputStream) input = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) kernel = NULL;
  guint64 totals[256] = { 0 };
  Lane lanes[2] = { { NULL } };
  guint64 held = 0, size = 0;
  gboolean success;

  if (context == NULL
      || (program = gpu_program_new_from_source (context, source, NULL, error)) == NULL
      || (kernel = gpu_program_get_kernel (program, "count", error)) == NULL
      || (input = g_file_read (file, NULL, error)) == NULL)
    return FALSE;

  success = lane_init (&lanes[0], context, budget / 2, error)
            && lane_init (&lanes[1], context, budget / 2, error)
            && stream_file (lanes, kernel, G_INPUT_STREAM (input), &held, error)
            && add_counts (&lanes[0], totals, error)
            && add_counts (&lanes[1], totals, error);
  lane_clear (&lanes[0]);
  lane_clear (&lanes[1]);
  if (!success || !check (file, totals, error))
    return FALSE;
  if (held > budget)
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "%" G_GUINT64_FORMAT " bytes were held on "
                   "the device, more than %" G_GUINT64_FORMAT, held, budget);
      return FALSE;
    }

  for (guint i = 0; i < 256; i++)
    size += totals[i];
  g_print ("counted %" G_GUINT64_FORMAT " bytes on %s, %" G_GUINT64_FORMAT " of them zero, with "
           "at most %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " bytes held there\n", size,
           gpu_device_get_id (gpu_context_get_device (context)), totals[0], held, budget);

  return TRUE;
}

static GFile *
make_file (GError **error)
{
  g_autoptr (GFileIOStream) stream = NULL;
  g_autoptr (GFile) file = g_file_new_tmp ("stream-file-XXXXXX", &stream, error);
  guint8 block[65000];

  if (file == NULL)
    return NULL;
  for (guint i = 0; i < sizeof block; i++)
    block[i] = i * i >> 8;
  for (guint i = 0; i < 160; i++)
    {
      if (!g_output_stream_write_all (g_io_stream_get_output_stream (G_IO_STREAM (stream)), block,
                                      sizeof block, NULL, NULL, error))
        return NULL;
    }

  return g_steal_pointer (&file);
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GFile) file = argc > 1 ? g_file_new_for_commandline_arg (argv[1])
                                    : make_file (&error);
  guint64 mebibytes = 2;

  if (file != NULL
      && (argc < 3 || g_ascii_string_to_unsigned (argv[2], 10, 1, 1 << 20, &mebibytes, &error)))
    run (file, mebibytes << 20, &error);
  if (argc < 2 && file != NULL)
    g_file_delete (file, NULL, NULL);

  if (error != NULL)
    g_printerr ("stream-file: %s\n", error->message);
  return error != NULL;
}

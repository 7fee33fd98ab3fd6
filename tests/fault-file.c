/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies between files and memory, and streams of GIO, while driver calls fail. GPUMEM_DEBUG=stage
 * makes the chunks of files small, so that a copy has many of them. */
#include "config.h"

#include <glib/gstdio.h>
#include <unistd.h>

#include "fault-util.h"

#define SIZE (300 * 1024)

static GpuFile *
open_temporary (GError **error)
{
  g_autofree char *path = NULL;
  int fd = g_file_open_tmp ("gpumem-fault-XXXXXX", &path, NULL);
  GpuFile *file;

  g_assert_cmpint (fd, >=, 0);
  g_unlink (path);
  file = gpu_file_new_for_fd (fd, GPU_FILE_FLAGS_NONE, error);
  close (fd);

  return file;
}

static void
take_result (GObject *source, GAsyncResult *result, gpointer user_data)
{
  *(GAsyncResult **) user_data = g_object_ref (result);
}

/* Writes the file and reads it into other memory. */
static gboolean
blocking (GpuContext *context, GpuFile *file, GpuMemory *from, GpuMemory *to, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);

  return stream != NULL
         && gpu_stream_fill (stream, from, 0, SIZE, "\7", 1, error)
         && gpu_memory_write_file (from, stream, 0, file, 0, SIZE, NULL, error)
         && gpu_memory_read_file (to, stream, 0, file, 0, SIZE, NULL, error);
}

/* The same without a wait between the copies, through page-locked memory of the program as well */
static gboolean
in_order (GpuContext *context, GpuFile *file, GpuMemory *from, GpuMemory *to, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuHostMemory) host = NULL;

  if (stream == NULL)
    return FALSE;
  host = gpu_host_memory_new (context, GPU_HOST_MEMORY_FLAGS_NONE, SIZE, error);

  return host != NULL
         && gpu_stream_fill (stream, from, 0, SIZE, "\7", 1, error)
         && gpu_stream_write_file (stream, from, 0, file, 0, SIZE, NULL, error)
         && gpu_stream_read_file (stream, GPU_MEMORY (host), 0, file, 0, SIZE, NULL, error)
         && gpu_stream_write_file (stream, GPU_MEMORY (host), 0, file, 1, SIZE, NULL, error)
         && gpu_stream_read_file (stream, to, 0, file, 1, SIZE, NULL, error)
         && gpu_stream_synchronize (stream, NULL, error);
}

static gboolean
asynchronous (GpuFile *file, GpuMemory *memory, GError **error)
{
  g_autoptr (GAsyncResult) result = NULL;

  gpu_memory_read_file_async (memory, NULL, 0, file, 0, SIZE, NULL, NULL, NULL, NULL, take_result,
                              &result);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);

  return gpu_memory_read_file_finish (memory, result, error);
}

static gboolean
streams (GpuMemory *from, GpuMemory *to, GError **error)
{
  g_autoptr (GInputStream) input = gpu_input_stream_new (from, NULL, 0, SIZE, error);
  g_autoptr (GOutputStream) output = NULL;

  if (input == NULL)
    return FALSE;
  output = gpu_output_stream_new (to, NULL, 0, SIZE, error);

  return output != NULL
         && g_output_stream_splice (output, input, G_OUTPUT_STREAM_SPLICE_CLOSE_TARGET, NULL,
                                    error) == SIZE;
}

static gboolean
copy_files (GpuContext *context, GError **error)
{
  g_autoptr (GpuFile) file = open_temporary (error);
  g_autoptr (GpuBuffer) from = NULL;
  g_autoptr (GpuBuffer) to = NULL;
  g_autofree guint8 *data = g_malloc0 (SIZE);

  if (file == NULL)
    return FALSE;
  from = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  if (from == NULL)
    return FALSE;
  to = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  if (to == NULL || !blocking (context, file, GPU_MEMORY (from), GPU_MEMORY (to), error)
      || !gpu_buffer_read (to, NULL, 0, data, SIZE, NULL, error))
    return FALSE;
  fault_check (data, 7, SIZE, "blocking");
  if (!gpu_buffer_fill (to, NULL, 0, SIZE, "\1", 1, NULL, error)
      || !in_order (context, file, GPU_MEMORY (from), GPU_MEMORY (to), error)
      || !gpu_buffer_read (to, NULL, 0, data, SIZE, NULL, error))
    return FALSE;
  fault_check (data, 7, SIZE, "in order");
  if (!gpu_memory_write_file (GPU_MEMORY (to), NULL, 0, file, 10, SIZE, NULL, error)
      || !asynchronous (file, GPU_MEMORY (from), error)
      || !gpu_buffer_read (from, NULL, 0, data, SIZE, NULL, error))
    return FALSE;
  fault_check (data, 7, SIZE, "asynchronous");
  if (!gpu_buffer_fill (to, NULL, 0, SIZE, "\1", 1, NULL, error)
      || !streams (GPU_MEMORY (from), GPU_MEMORY (to), error)
      || !gpu_buffer_read (to, NULL, 0, data, SIZE, NULL, error))
    return FALSE;
  fault_check (data, 7, SIZE, "GIO");

  return TRUE;
}

int
main (void)
{
  g_setenv ("GPUMEM_DEBUG", "stage", FALSE);

  return fault_run (copy_files);
}

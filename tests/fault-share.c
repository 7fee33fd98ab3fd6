/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory and events that are exported to and imported from another process, while driver calls
 * fail. The other process runs this program with a driver that does not fail. */
#include "config.h"

#include <stdio.h>

#include <gio/gunixfdlist.h>

#include "fault-util.h"
#include "test-util.h"

#define SIZE 8192
#define POOLED_SIZE (5 * 1024 * 1024)

static gboolean
has (GpuContext *context, GpuCapabilities capability)
{
  GpuDevice *device = gpu_context_get_device (context);

  return (gpu_device_get_capabilities (device) & capability) == capability;
}

static gboolean
fill (GpuStream *stream, GpuBuffer *buffer, guint8 value, GError **error)
{
  return gpu_stream_fill (stream, GPU_MEMORY (buffer), 0,
                          gpu_memory_get_size (GPU_MEMORY (buffer)), &value, 1, error);
}

static gboolean
check (GpuBuffer *buffer, GpuStream *stream, guint8 value, const char *what, GError **error)
{
  gsize size = gpu_memory_get_size (GPU_MEMORY (buffer));
  g_autoptr (GBytes) content = gpu_buffer_read_bytes (buffer, stream, 0, size, NULL, error);

  if (content == NULL)
    return FALSE;
  fault_check (g_bytes_get_data (content, NULL), value, size, what);
  return TRUE;
}

/* --- file descriptors ------------------------------------------------------------------------- */

/* Exports and imports memory twice: first the whole buffer, then a part of it. */
static gboolean
pass_fd (GpuContext *context, GpuStream *stream, GpuBuffer *buffer, GError **error)
{
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GpuBuffer) part = NULL;
  g_autoptr (GpuBuffer) whole_again = NULL;
  g_autoptr (GpuBuffer) part_again = NULL;
  g_autoptr (GBytes) handle = NULL;
  g_autoptr (GBytes) part_handle = NULL;

  if (!fill (stream, buffer, 3, error))
    return FALSE;
  part = gpu_buffer_slice (buffer, 4096, 1024, error);
  if (part == NULL)
    return FALSE;
  handle = gpu_buffer_export_fds (buffer, fds, error);
  if (handle == NULL)
    return FALSE;
  part_handle = gpu_buffer_export_fds (part, fds, error);
  if (part_handle == NULL || !gpu_stream_synchronize (stream, NULL, error))
    return FALSE;
  whole_again = gpu_buffer_new_from_fds (context, handle, fds, error);
  if (whole_again == NULL)
    return FALSE;
  part_again = gpu_buffer_new_from_fds (context, part_handle, fds, error);
  /* The library does not order uses of the two imports if the whole has more descriptors than the
   * part, so wait. */
  if (part_again == NULL || !check (part_again, NULL, 3, "file descriptor", error)
      || !fill (stream, whole_again, 4, error) || !gpu_stream_synchronize (stream, NULL, error))
    return FALSE;
  g_clear_object (&whole_again);
  return check (part_again, NULL, 4, "file descriptor", error)
         && check (part, stream, 4, "its exporter", error);
}

/* Exports and imports a buffer over several chunks of a pool. */
static gboolean
pass_chunks (GpuContext *context, GpuStream *stream, GError **error)
{
  g_autoptr (GpuMemoryPool) pool = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;

  pool = gpu_memory_pool_new (context, GPU_MEMORY_POOL_EXPANDABLE, GPU_MEMORY_FLAGS_SHAREABLE,
                              error);
  if (pool == NULL)
    return FALSE;
  buffer = gpu_memory_pool_alloc_buffer (pool, POOLED_SIZE, stream, error);
  return buffer != NULL && pass_fd (context, stream, buffer, error);
}

static gboolean
file_descriptors (GpuContext *context, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuBuffer) mapped = NULL;
  g_autoptr (GpuBuffer) pooled = NULL;

  if (stream == NULL)
    return FALSE;
  if (has (context, GPU_CAPABILITIES_IPC_FDS))
    {
      mapped = gpu_buffer_new (context, GPU_MEMORY_FLAGS_SHAREABLE, SIZE, error);
      if (mapped == NULL || !pass_fd (context, stream, mapped, error))
        return FALSE;
    }
  if (has (context, GPU_CAPABILITIES_IPC_FDS | GPU_CAPABILITIES_VIRTUAL_MEMORY)
      && !pass_chunks (context, stream, error))
    return FALSE;
  if (has (context, GPU_CAPABILITIES_IPC_FDS | GPU_CAPABILITIES_STREAM_ORDERED))
    {
      pooled = gpu_buffer_new_on_stream (stream, GPU_MEMORY_FLAGS_SHAREABLE, SIZE, error);
      if (pooled == NULL || !pass_fd (context, stream, pooled, error))
        return FALSE;
    }
  return TRUE;
}

/* --- handles ---------------------------------------------------------------------------------- */

static void
print (GBytes *handle)
{
  g_autofree char *text = g_base64_encode (g_bytes_get_data (handle, NULL),
                                           g_bytes_get_size (handle));

  g_print ("%s\n", text);
}

/* Exports a buffer, and an event after which all bytes of the buffer are 5. */
static gboolean
export (GpuContext *context, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuBuffer) buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GBytes) handle = NULL;
  g_autoptr (GBytes) event_handle = NULL;

  if (!fill (stream, buffer, 5, error))
    return FALSE;
  event = gpu_stream_record (stream, GPU_EVENT_FLAGS_INTERPROCESS, error);
  handle = gpu_buffer_export_handle (buffer, error);
  event_handle = gpu_event_export_handle (event, error);
  if (handle == NULL || event_handle == NULL)
    return FALSE;
  print (handle);
  print (event_handle);
  while (getchar () != EOF)
    ;
  return TRUE;
}

static GBytes *
read_handle (GDataInputStream *answers, GError **error)
{
  g_autofree char *line = g_data_input_stream_read_line (answers, NULL, NULL, error);
  gsize size;
  guchar *data;

  if (line == NULL)
    g_error ("the other process printed no handles");
  data = g_base64_decode (line, &size);
  return g_bytes_new_take (data, size);
}

static gboolean
import (GpuContext *context, GBytes *handle, GBytes *event_handle, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GpuBuffer) first = NULL;
  g_autoptr (GpuBuffer) second = NULL;

  if (stream == NULL)
    return FALSE;
  event = gpu_event_new_from_handle (context, event_handle, error);
  if (event == NULL || !gpu_stream_wait_event (stream, event, error))
    return FALSE;
  first = gpu_buffer_new_from_handle (context, handle, error);
  if (first == NULL)
    return FALSE;
  second = gpu_buffer_new_from_handle (context, handle, error);
  if (second == NULL || !check (second, stream, 5, "handle", error)
      || !gpu_event_wait (event, NULL, error) || !fill (stream, first, 6, error))
    return FALSE;
  g_clear_object (&first);
  return check (second, NULL, 6, "handle", error);
}

static gboolean
handles (GpuContext *context, GError **error)
{
  const GSubprocessFlags flags = G_SUBPROCESS_FLAGS_STDIN_PIPE | G_SUBPROCESS_FLAGS_STDOUT_PIPE;
  g_autoptr (GSubprocessLauncher) launcher = g_subprocess_launcher_new (flags);
  g_autofree char *program = g_file_read_link ("/proc/self/exe", error);
  g_autoptr (GSubprocess) other = NULL;
  g_autoptr (GDataInputStream) answers = NULL;
  g_autoptr (GBytes) handle = NULL;
  g_autoptr (GBytes) event_handle = NULL;
  gboolean imported;

  if (!has (context, GPU_CAPABILITIES_IPC_HANDLES))
    return TRUE;
  g_subprocess_launcher_unsetenv (launcher, "GPUMEM_CUDA_DRIVER");
  other = g_subprocess_launcher_spawn (launcher, error, program, "--export", NULL);
  if (other == NULL)
    return FALSE;
  answers = g_data_input_stream_new (g_subprocess_get_stdout_pipe (other));
  handle = read_handle (answers, error);
  event_handle = read_handle (answers, error);
  imported = import (context, handle, event_handle, error);
  g_output_stream_close (g_subprocess_get_stdin_pipe (other), NULL, NULL);
  g_subprocess_wait (other, NULL, NULL);
  return imported;
}

/* Exports handles that are never imported. */
static gboolean
own_handles (GpuContext *context, GError **error)
{
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuEvent) event = NULL;
  g_autoptr (GBytes) handle = NULL;
  g_autoptr (GBytes) event_handle = NULL;

  if (!has (context, GPU_CAPABILITIES_IPC_HANDLES))
    return TRUE;
  stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  if (stream == NULL)
    return FALSE;
  buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, SIZE, error);
  if (buffer == NULL)
    return FALSE;
  handle = gpu_buffer_export_handle (buffer, error);
  if (handle == NULL)
    return FALSE;
  event = gpu_stream_record (stream, GPU_EVENT_FLAGS_INTERPROCESS, error);
  if (event == NULL)
    return FALSE;
  event_handle = gpu_event_export_handle (event, error);
  return event_handle != NULL;
}

static gboolean
share (GpuContext *context, GError **error)
{
  return file_descriptors (context, error) && own_handles (context, error)
         && handles (context, error);
}

int
main (int argc, char **argv)
{
  int code = fault_run (argc > 1 && g_str_equal (argv[1], "--export") ? export : share);
  guint n_open = test_count_descriptors ("memfd:cuda-share");

  if (n_open == 0)
    return code;
  g_printerr ("%u descriptors of memory are still open\n", n_open);
  return 1;
}

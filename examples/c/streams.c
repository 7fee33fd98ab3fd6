/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* streams: two streams use one buffer in turns, and the program itself does not wait. A main loop
 * is notified of the completion.
 *
 *   cc streams.c -o streams $(pkg-config --cflags --libs gpumem-1.0)
 */
#include <gpumem/gpumem.h>

#define N 65536
#define N_TURNS 100

static const char source[] =
  "__kernel void\n"
  "increment (__global uint *numbers)\n"
  "{\n"
  "  numbers[get_global_id (0)] += 1;\n"
  "}\n"
  "\n"
  "__kernel void\n"
  "triple (__global uint *numbers)\n"
  "{\n"
  "  numbers[get_global_id (0)] *= 3;\n"
  "}\n";

typedef struct
{
  GMainLoop *loop;
  GError    *error;
} Run;

static gboolean
check (GpuBuffer *buffer, GError **error)
{
  g_autoptr (GBytes) bytes = NULL;
  const guint32 *numbers;
  guint32 expected = 0;

  for (guint turn = 0; turn < N_TURNS; turn++)
    expected = (expected + 1) * 3;

  bytes = gpu_buffer_read_bytes (buffer, NULL, 0, N * sizeof (guint32), NULL, error);
  if (bytes == NULL)
    return FALSE;
  numbers = g_bytes_get_data (bytes, NULL);

  for (gsize i = 0; i < N; i++)
    {
      if (numbers[i] != expected)
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "number %" G_GSIZE_FORMAT " is %u, "
                       "not %u", i, numbers[i], expected);
          return FALSE;
        }
    }
  g_print ("all %d numbers are %u, as if a single stream had run all kernels\n", N, expected);

  return TRUE;
}

/* Called by the main loop, in the thread that made the request. */
static void
completed_cb (GObject *source_object, GAsyncResult *result, gpointer user_data)
{
  Run *run = user_data;

  if (gpu_event_wait_finish (GPU_EVENT (source_object), result, &run->error))
    g_print ("main loop: both streams have completed\n");
  g_main_loop_quit (run->loop);
}

/* Odd turns run on one stream, even turns on the other stream. All turns use the same buffer, so on
 * the device each kernel waits for the previous kernel. This thread does not wait. */
static GpuBuffer *
enqueue (Run *run, GpuContext *context, GError **error)
{
  g_autoptr (GpuStream) one = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  g_autoptr (GpuStream) other = NULL;
  g_autoptr (GpuProgram) program = NULL;
  g_autoptr (GpuKernel) increment = NULL;
  g_autoptr (GpuKernel) triple = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;
  g_autoptr (GpuEvent) end = NULL;
  const GpuExtent grid = { N, 1, 1 };
  const guint32 zero = 0;
  guint64 waits_of_one, waits_of_other;

  if (one == NULL ||
      (other = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error)) == NULL ||
      (program = gpu_program_new_from_source (context, source, NULL, error)) == NULL ||
      (increment = gpu_program_get_kernel (program, "increment", error)) == NULL ||
      (triple = gpu_program_get_kernel (program, "triple", error)) == NULL ||
      (buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, N * sizeof zero, error)) == NULL ||
      !gpu_stream_fill (one, GPU_MEMORY (buffer), 0, N * sizeof zero, &zero, sizeof zero, error))
    return NULL;

  for (guint turn = 0; turn < N_TURNS; turn++)
    {
      if (!gpu_stream_launch (one, increment, &grid, NULL, error, buffer) ||
          !gpu_stream_launch (other, triple, &grid, NULL, error, buffer))
        return NULL;
    }

  end = gpu_stream_record (other, GPU_EVENT_FLAGS_NONE, error);
  if (end == NULL)
    return NULL;
  gpu_event_wait_async (end, NULL, completed_cb, run);
  g_object_get (one, "n-hazard-waits", &waits_of_one, NULL);
  g_object_get (other, "n-hazard-waits", &waits_of_other, NULL);
  g_print ("enqueued %d kernels on two streams, which waited %" G_GUINT64_FORMAT " times for "
           "each other\n", 2 * N_TURNS,
           waits_of_one + waits_of_other);

  return g_steal_pointer (&buffer);
}

int
main (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GMainLoop) loop = g_main_loop_new (NULL, FALSE);
  g_autoptr (GpuContext) context = gpu_context_new_default (&error);
  g_autoptr (GpuBuffer) buffer = NULL;
  Run run = { loop, NULL };

  if (context != NULL)
    buffer = enqueue (&run, context, &error);
  if (buffer != NULL)
    {
      g_main_loop_run (loop);
      if (run.error != NULL)
        g_propagate_error (&error, run.error);
      else
        check (buffer, &error);
    }

  if (error != NULL)
    g_printerr ("streams: %s\n", error->message);
  return error != NULL;
}

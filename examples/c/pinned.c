/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* pinned: copies numbers in pieces to the device and back, through page-locked memory.
 *
 *   cc pinned.c -o pinned $(pkg-config --cflags --libs gpumem-1.0)
 */
#include <gpumem/gpumem.h>

#define N_PIECES 16
#define PIECE (1 << 16)
#define PIECE_SIZE (PIECE * sizeof (gint32))

/* Dropping the memory does not wait: the allocator reuses the memory only after the copy. */
static gboolean
upload (GpuHostAllocator *allocator, GpuStream *stream, GpuBuffer *buffer, int piece,
        GError **error)
{
  g_autoptr (GpuHostMemory) memory = gpu_host_allocator_alloc (allocator, PIECE_SIZE, error);
  gint32 *numbers;

  if (memory == NULL)
    return FALSE;
  numbers = gpu_host_memory_get_data (memory);
  for (int i = 0; i < PIECE; i++)
    numbers[i] = piece * PIECE + i;

  return gpu_stream_copy (stream, GPU_MEMORY (buffer), piece * PIECE_SIZE, GPU_MEMORY (memory), 0,
                          PIECE_SIZE, error);
}

static gboolean
check (GpuHostMemory *memory, GError **error)
{
  const gint32 *numbers = gpu_host_memory_get_data (memory);

  /* The copy is in flight: do not access its memory before it has completed. */
  if (!gpu_host_memory_synchronize (memory, GPU_MAP_FLAGS_READ, NULL, error))
    return FALSE;

  for (int i = 0; i < N_PIECES * PIECE; i++)
    {
      if (numbers[i] != i)
        {
          g_set_error (error, GPU_ERROR, GPU_ERROR_FAILED, "number %d is %d", i, numbers[i]);
          return FALSE;
        }
    }

  return TRUE;
}

static gboolean
run (GError **error)
{
  g_autoptr (GpuContext) context = gpu_context_new_default (error);
  g_autoptr (GpuHostAllocator) allocator = NULL;
  g_autoptr (GpuHostMemory) result = NULL;
  g_autoptr (GpuStream) stream = NULL;
  g_autoptr (GpuBuffer) buffer = NULL;

  if (context == NULL)
    return FALSE;
  stream = gpu_context_get_default_stream (context);
  allocator = gpu_host_allocator_new (context, GPU_HOST_MEMORY_FLAGS_NONE, error);
  if (allocator == NULL)
    return FALSE;
  buffer = gpu_buffer_new (context, GPU_MEMORY_FLAGS_NONE, N_PIECES * PIECE_SIZE, error);
  if (buffer == NULL)
    return FALSE;

  for (int i = 0; i < N_PIECES; i++)
    {
      if (!upload (allocator, stream, buffer, i, error))
        return FALSE;
    }

  result = gpu_host_memory_new (context, GPU_HOST_MEMORY_FLAGS_NONE, N_PIECES * PIECE_SIZE, error);
  if (result == NULL
      || !gpu_stream_copy (stream, GPU_MEMORY (result), 0, GPU_MEMORY (buffer), 0,
                           N_PIECES * PIECE_SIZE, error)
      || !check (result, error))
    return FALSE;
  g_print ("copied %d numbers to the device and back\n", N_PIECES * PIECE);

  return TRUE;
}

int
main (void)
{
  g_autoptr (GError) error = NULL;

  if (!run (&error))
    {
      g_printerr ("pinned: %s\n", error->message);
      return 1;
    }

  return 0;
}

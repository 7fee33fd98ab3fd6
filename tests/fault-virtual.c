/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Maps chunks of memory, writes them, moves them to other addresses and reads them, and enables and
 * disables access of a peer, while driver calls fail. */
#include "config.h"

#include "fault-util.h"
#include "gpumem/device/gpu-context-private.h"
#include "gpumem/memory/gpu-memory-private.h"
#include "gpumem/memory/gpu-virtual-memory-private.h"

#define N_CHUNKS 3

typedef struct
{
  GpuNativeContext    *context;
  const GpuVirtualOps *ops;
  GpuNativeBuffer     *native;
  GpuBuffer           *buffer;
  gsize                unit;
  GpuNativeChunk      *chunks[N_CHUNKS];
  guint                places[N_CHUNKS]; /* position of each chunk in units, or 0 */
} Range;

static gboolean
map (Range *range, guint first, guint n_chunks, guint at, GError **error)
{
  if (!range->ops->map (range->context, range->native, at * range->unit, &range->chunks[first],
                        n_chunks, error))
    return FALSE;
  for (guint i = 0; i < n_chunks; i++)
    range->places[first + i] = at + i;
  return TRUE;
}

static void
unmap (Range *range, guint which)
{
  range->ops->unmap (range->context, range->native, range->places[which] * range->unit,
                     range->unit);
  range->places[which] = 0;
}

static gboolean
reserve (Range *range, gboolean is_host, GpuContext *context, GError **error)
{
  GpuStorage *storage;

  range->context = _gpu_context_get_native (context);
  range->ops = range->context->backend->virtual_memory;
  if (!range->ops->get_granularity (range->context, is_host, &range->unit, error))
    return FALSE;
  range->native = range->ops->reserve (range->context, is_host, 8 * range->unit, error);
  if (range->native == NULL)
    return FALSE;
  range->buffer = g_object_new (GPU_TYPE_BUFFER, "context", context, NULL);
  storage = _gpu_storage_new (range->context, range->native, GPU_MEMORY_FLAGS_NONE,
                              GPU_STORAGE_FOREIGN,
                              NULL, NULL);
  _gpu_memory_set_storage (GPU_MEMORY (range->buffer), storage);
  for (guint i = 0; i < N_CHUNKS; i++)
    {
      range->chunks[i] = is_host ? _gpu_virtual_create_host_chunk (range->context, range->unit,
                                                                   error)
                                 : _gpu_virtual_create_chunk (range->context, range->unit, NULL,
                                                              error);
      if (range->chunks[i] == NULL)
        return FALSE;
    }
  return TRUE;
}

static void
clear (Range *range)
{
  for (guint i = 0; i < N_CHUNKS; i++)
    {
      if (range->places[i] != 0)
        unmap (range, i);
      if (range->chunks[i] != NULL)
        _gpu_virtual_destroy_chunk (range->context, range->chunks[i]);
    }
  if (range->context != NULL)
    {
      g_assert_cmpuint ((gsize) g_atomic_pointer_get (&range->context->allocated), ==, 0);
      g_assert_cmpuint ((gsize) g_atomic_pointer_get (&range->context->allocated_host), ==, 0);
    }
  g_clear_object (&range->buffer);
}

/* Blocks until the fill has completed or failed, so that the chunk can be unmapped. */
static gboolean
fill (Range *range, guint which, guint8 value, GError **error)
{
  return gpu_buffer_fill (range->buffer, NULL, range->places[which] * range->unit, range->unit,
                          &value, 1, NULL, error);
}

static gboolean
check (Range *range, guint which, guint8 value, GError **error)
{
  g_autoptr (GBytes) content =
    gpu_buffer_read_bytes (range->buffer, NULL, range->places[which] * range->unit, 4096, NULL,
                           error);

  if (content == NULL)
    return FALSE;
  fault_check (g_bytes_get_data (content, NULL), value, 4096, "a piece that was moved");
  return TRUE;
}

/* Copies rows that are in different chunks. Blocks, also on failure, until no copy is pending. */
static gboolean
copy_rows (Range *range, GpuStream *stream, GError **error)
{
  const gsize start = range->places[0] * range->unit;
  const GpuLayout from = { .x = start, .row_pitch = range->unit };
  const GpuLayout to = { .x = start + range->unit / 2, .row_pitch = range->unit };
  const GpuExtent extent = { 4096, 2, 1 };
  gboolean success = gpu_stream_copy_region (stream, GPU_MEMORY (range->buffer), &to,
                                             GPU_MEMORY (range->buffer), &from, &extent, error);

  return gpu_stream_synchronize (stream, NULL, success ? error : NULL) && success;
}

static gboolean
move (Range *range, GError **error)
{
  unmap (range, 1);
  return map (range, 1, 1, 6, error) && check (range, 0, 1, error) && check (range, 1, 2, error)
         && check (range, 2, 3, error);
}

/* Creates a context of another device, or returns NULL. */
static GpuContext *
find_peer (GpuContext *context, GError **error)
{
  g_autoptr (GpuDevice) other = gpu_device_find ("cuda:1", NULL);
  gboolean reaches = FALSE;

  if (other == NULL
      || !gpu_device_can_access_peer (other, gpu_context_get_device (context), &reaches, error)
      || !reaches)
    return NULL;
  return gpu_context_new (other, GPU_CONTEXT_FLAGS_NONE, error);
}

static gboolean
use (Range *range, GpuContext *context, GpuContext *peer, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);

  if (stream == NULL)
    return FALSE;
  if (!map (range, 0, N_CHUNKS, 1, error))
    return FALSE;
  for (guint i = 0; i < N_CHUNKS; i++)
    if (!fill (range, i, i + 1, error))
      return FALSE;
  if (!copy_rows (range, stream, error))
    return FALSE;
  if (peer == NULL)
    return move (range, error);
  return gpu_context_enable_peer_access (peer, context, error) && move (range, error)
         && gpu_context_disable_peer_access (peer, context, error);
}

static gboolean
chunks (GpuContext *context, gboolean is_host, GError **error)
{
  g_autoptr (GpuContext) peer = NULL;
  GError *failure = NULL;
  Range range = { 0 };
  gboolean success;

  peer = find_peer (context, &failure);
  success = failure == NULL && reserve (&range, is_host, context, &failure)
            && use (&range, context, peer, &failure);
  clear (&range);
  if (failure != NULL)
    g_propagate_error (error, failure);
  return success;
}

static gboolean
virtual_memory (GpuContext *context, GError **error)
{
  GpuNativeContext *native = _gpu_context_get_native (context);

  return _gpu_virtual_check (native, FALSE, error) && chunks (context, FALSE, error)
         && (!native->devices[0]->has_host_chunks || chunks (context, TRUE, error));
}

int
main (void)
{
  return fault_run (virtual_memory);
}

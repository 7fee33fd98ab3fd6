/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* All kinds of pools, while driver calls fail. Another stream reuses the memory, the memory is
 * freed while work uses it, and some memory outlives its pool. An expandable pool maps chunks at
 * two places. */
#include "config.h"

#include "fault-util.h"

#define MIB  ((gsize) 1024 * 1024)
#define SIZE (3 * MIB)

static GpuBuffer *
take_size (GpuMemoryPool *pool, gsize size, GpuStream *stream, guint8 value, GError **error)
{
  g_autoptr (GpuBuffer) buffer = gpu_memory_pool_alloc_buffer (pool, size, stream, error);

  if (buffer == NULL
      || !gpu_stream_fill (stream, GPU_MEMORY (buffer), 0, size, &value, 1, error))
    return NULL;

  return g_steal_pointer (&buffer);
}

static GpuBuffer *
take_filled (GpuMemoryPool *pool, GpuStream *stream, guint8 value, GError **error)
{
  return take_size (pool, SIZE, stream, value, error);
}

static gboolean
check (GpuBuffer *buffer, GpuStream *stream, guint8 value, GError **error)
{
  gsize size = gpu_memory_get_size (GPU_MEMORY (buffer));
  g_autoptr (GBytes) content = gpu_buffer_read_bytes (buffer, stream, 0, size, NULL, error);

  if (content == NULL)
    return FALSE;

  fault_check (g_bytes_get_data (content, NULL), value, size, "buffer");

  return TRUE;
}

/* Spills a buffer and restores it. A failed step must not change the contents. */
static gboolean
move (GpuBuffer *buffer, GpuStream *first, GpuStream *second, guint8 value, GError **error)
{
  if (!gpu_buffer_spill (buffer, first, error))
    {
      check (buffer, second, value, NULL);
      return FALSE;
    }

  if (!gpu_buffer_unspill (buffer, second, error))
    {
      if (gpu_buffer_unspill (buffer, second, NULL))
        check (buffer, second, value, NULL);
      return FALSE;
    }

  return check (buffer, first, value, error);
}

/* The limit allows two buffers, so the second stream needs memory that the first stream has
 * freed. */
static gboolean
use (GpuMemoryPool *pool, GpuStream *first, GpuStream *second, GError **error)
{
  g_autoptr (GpuBuffer) kept = NULL;
  g_autoptr (GpuBuffer) other = NULL;

  gpu_memory_pool_set_limit (pool, 4 * SIZE);

  for (guint8 i = 1; i < 4; i++)
    {
      g_autoptr (GpuBuffer) one = take_filled (pool, first, i, error);
      g_autoptr (GpuBuffer) two = one != NULL ? take_filled (pool, first, ~i, error) : NULL;

      if (two == NULL
          || !gpu_stream_copy (first, GPU_MEMORY (two), 0, GPU_MEMORY (one), 0, SIZE, error))
        return FALSE;

      g_set_object (&kept, two);
    }

  other = take_filled (pool, second, 99, error);

  return other != NULL && check (kept, second, 3, error) && check (other, first, 99, error)
         && move (kept, first, second, 3, error);
}

/* Makes a pool and two streams. Sets @pool to NULL if the device has no such pools. */
static gboolean
make_pool (GpuContext *context, GpuMemoryPoolKind kind, GpuMemoryPool **pool, GpuStream **first,
           GpuStream **second, GError **error)
{
  g_autoptr (GError) local_error = NULL;

  *pool = gpu_memory_pool_new (context, kind, GPU_MEMORY_FLAGS_NONE, &local_error);

  if (g_error_matches (local_error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
    return TRUE;

  if (*pool == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }

  *first = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  *second = *first != NULL ? gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error) : NULL;

  return *second != NULL;
}

static gboolean
use_kind (GpuContext *context, GpuMemoryPoolKind kind, GError **error)
{
  g_autoptr (GpuMemoryPool) pool = NULL;
  g_autoptr (GpuStream) first = NULL;
  g_autoptr (GpuStream) second = NULL;
  g_autoptr (GpuBuffer) last = NULL;

  if (!make_pool (context, kind, &pool, &first, &second, error))
    return FALSE;

  if (pool == NULL)
    return TRUE;

  if (!use (pool, first, second, error))
    return FALSE;

  gpu_memory_pool_trim (pool, SIZE);
  last = take_filled (pool, second, 7, error);
  g_clear_object (&pool);

  return last != NULL && check (last, second, 7, error);
}

/* At the limit of the pool, the last buffer uses the free parts of two chunks whose other parts are
 * in use, and whole chunks between them. A failed step must not change the other buffers. */
static gboolean
use_parts (GpuMemoryPool *pool, GpuStream *stream, GPtrArray *buffers, GError **error)
{
  static const gsize sizes[] = { 3 * MIB, 3 * MIB, 2 * MIB, 3 * MIB, 3 * MIB, 6 * MIB };
  GpuBuffer *buffer = NULL;

  gpu_memory_pool_set_limit (pool, 14 * MIB);

  for (guint8 i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      if (i == 5)
        {
          g_clear_object (&buffers->pdata[1]);
          g_clear_object (&buffers->pdata[3]);
        }

      buffer = take_size (pool, sizes[i], stream, i + 1, error);
      if (buffer == NULL)
        break;
      g_ptr_array_add (buffers, buffer);
    }

  for (guint8 i = 0; i < buffers->len; i++)
    if (buffers->pdata[i] != NULL
        && !check (buffers->pdata[i], stream, i + 1, buffer != NULL ? error : NULL))
      return FALSE;

  return buffer != NULL;
}

static void
unref_buffer (gpointer buffer)
{
  if (buffer != NULL)
    g_object_unref (buffer);
}

static gboolean
use_edges (GpuContext *context, GError **error)
{
  g_autoptr (GPtrArray) buffers = g_ptr_array_new_with_free_func (unref_buffer);
  g_autoptr (GError) local_error = NULL;
  g_autoptr (GpuMemoryPool) pool = gpu_memory_pool_new (context, GPU_MEMORY_POOL_EXPANDABLE,
                                                        GPU_MEMORY_FLAGS_NONE, &local_error);
  g_autoptr (GpuStream) stream = NULL;

  if (g_error_matches (local_error, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
    return TRUE;

  if (pool == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }

  stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);

  return stream != NULL && use_parts (pool, stream, buffers, error);
}

/* A stream gets the memory of several buffers that pending work of another stream uses. A failed
 * step must not change the buffers between them. */
static gboolean
take_over (GpuMemoryPool *pool, GpuStream *first, GpuStream *second, GError **error)
{
  GpuBuffer *buffers[6] = { NULL, };
  g_autoptr (GpuBuffer) large = NULL;
  gboolean success = TRUE;

  for (guint8 i = 0; i < G_N_ELEMENTS (buffers) && success; i++)
    {
      buffers[i] = take_size (pool, 4 * MIB, first, i, error);
      success = buffers[i] != NULL;
    }
  for (guint i = 0; i < G_N_ELEMENTS (buffers); i += 2)
    g_clear_object (&buffers[i]);

  large = success ? take_size (pool, 12 * MIB, second, 99, error) : NULL;
  success = large != NULL && check (large, first, 99, error);

  for (guint8 i = 1; i < G_N_ELEMENTS (buffers); i += 2)
    {
      if (buffers[i] != NULL && !check (buffers[i], second, i, success ? error : NULL))
        success = FALSE;
      g_clear_object (&buffers[i]);
    }

  return success;
}

static gboolean
use_streams (GpuContext *context, GError **error)
{
  g_autoptr (GpuMemoryPool) pool = NULL;
  g_autoptr (GpuStream) first = NULL;
  g_autoptr (GpuStream) second = NULL;

  return make_pool (context, GPU_MEMORY_POOL_EXPANDABLE, &pool, &first, &second, error)
         && (pool == NULL || take_over (pool, first, second, error));
}

static gboolean
pools (GpuContext *context, GError **error)
{
  return use_kind (context, GPU_MEMORY_POOL_EXPANDABLE, error)
         && use_kind (context, GPU_MEMORY_POOL_SEGMENTS, error)
         && use_kind (context, GPU_MEMORY_POOL_BINS, error) && use_edges (context, error)
         && use_streams (context, error);
}

int
main (void)
{
  return fault_run (pools);
}

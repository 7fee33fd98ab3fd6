/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Allocates from every allocator through a stack of all adaptors, in two orders, while driver calls
 * fail. The adaptors must still count correctly. */
#include "config.h"

#include <stdlib.h>

#include "fault-util.h"

#define SIZE 10000

typedef struct
{
  GpuContext *context;
  GpuStream  *stream;
} Fixture;

/* Creates an allocator of each class, with the construct-only property that the class requires. */
static GpuAllocator *
new_base (Fixture *fixture, guint i, GError **error)
{
  const GType types[] = { GPU_TYPE_DEFERRED_ALLOCATOR, GPU_TYPE_SVM_ALLOCATOR,
                          GPU_TYPE_HOST_ALLOCATOR, GPU_TYPE_IMMEDIATE_ALLOCATOR,
                          GPU_TYPE_STREAM_ALLOCATOR };

  if (i < 3)
    return g_initable_new (types[i], NULL, error, "context", fixture->context, NULL);

  return g_initable_new (types[i], NULL, error, "stream", fixture->stream, NULL);
}

#define N_BASES    5
#define N_ADAPTORS 6

static GpuAllocator *
new_adaptor (guint i, GpuAllocator *upstream)
{
  const GType types[N_ADAPTORS] = { GPU_TYPE_LIMIT_ALLOCATOR, GPU_TYPE_STATISTICS_ALLOCATOR,
                                    GPU_TYPE_TRACKING_ALLOCATOR, GPU_TYPE_LOGGING_ALLOCATOR,
                                    GPU_TYPE_OOM_ALLOCATOR, GPU_TYPE_DEFERRED_FREE_ALLOCATOR };
  g_autoptr (GOutputStream) output = NULL;

  if (types[i] != GPU_TYPE_LOGGING_ALLOCATOR)
    return g_object_new (types[i], "upstream", upstream, NULL);

  output = g_memory_output_stream_new_resizable ();

  return g_object_new (types[i], "upstream", upstream, "output", output, NULL);
}

/* Stacks all adaptors over @base. The first class is the innermost adaptor, or the outermost if
 * @reverse is TRUE. (transfer full) */
static GPtrArray *
make_chain (GpuAllocator *base, gboolean reverse)
{
  GPtrArray *chain = g_ptr_array_new_with_free_func (g_object_unref);

  g_ptr_array_add (chain, g_object_ref (base));
  for (guint i = 0; i < N_ADAPTORS; i++)
    g_ptr_array_add (chain, new_adaptor (reverse ? N_ADAPTORS - 1 - i : i, chain->pdata[i]));
  return chain;
}

/* --- use of the memory --------------------------------------------------------------- */

static void
expect_none (const char *what, gint64 n)
{
  if (n == 0)
    return;

  g_printerr ("%" G_GINT64_FORMAT " %s, not 0\n", n, what);
  exit (1);
}

/* Checks that no memory is in use or pending. */
static void
check_empty (GPtrArray *chain)
{
  for (guint i = 0; i < chain->len; i++)
    {
      gpointer allocator = chain->pdata[i];

      if (GPU_IS_LIMIT_ALLOCATOR (allocator))
        {
          guint64 n_bytes;

          g_object_get (allocator, "active-bytes", &n_bytes, NULL);
          expect_none ("bytes under the limit", n_bytes);
        }
      if (GPU_IS_STATISTICS_ALLOCATOR (allocator))
        {
          g_autoptr (GVariant) counters = gpu_statistics_allocator_get_counters (allocator);
          gint64 bytes = -1, blocks = -1;

          g_variant_lookup (counters, "current-bytes", "x", &bytes);
          g_variant_lookup (counters, "current-count", "x", &blocks);
          expect_none ("bytes in use", bytes);
          expect_none ("memories in use", blocks);
        }
      if (GPU_IS_TRACKING_ALLOCATOR (allocator))
        {
          g_autoptr (GVariant) list = gpu_tracking_allocator_list_blocks (allocator);

          expect_none ("tracked memories", g_variant_n_children (list));
        }
    }
}

static gboolean
use (Fixture *fixture, GpuMemory *memory, guint8 value, GError **error)
{
  const gsize size = gpu_memory_get_size (memory);
  g_autofree guint8 *data = g_malloc (size);
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GBytes) content = NULL;
  g_autoptr (GpuBuffer) copy = NULL;

  memset (data, value, size);
  bytes = g_bytes_new_take (g_steal_pointer (&data), size);
  copy = gpu_buffer_new (fixture->context, GPU_MEMORY_FLAGS_NONE, size, error);

  if (copy == NULL || !gpu_stream_write (fixture->stream, memory, 0, bytes, error)
      || !gpu_stream_copy (fixture->stream, GPU_MEMORY (copy), 0, memory, 0, size, error))
    return FALSE;

  content = gpu_buffer_read_bytes (copy, fixture->stream, 0, size, NULL, error);

  if (content == NULL)
    return FALSE;

  fault_check (g_bytes_get_data (content, NULL), value, size, "memory");
  return TRUE;
}

/* Allocates memory. Frees some of the memory, unrefs some, and keeps some until after the
 * finalization of the allocator. */
static gboolean
use_chain (Fixture *fixture, GPtrArray *chain, GpuMemory **kept, GError **error)
{
  GpuAllocator *last = chain->pdata[chain->len - 1];
  g_autoptr (GpuMemory) freed = gpu_allocator_alloc (last, SIZE, fixture->stream, error);
  g_autoptr (GpuMemory) dropped = NULL;

  if (freed == NULL || !use (fixture, freed, 1, error))
    return FALSE;

  dropped = gpu_allocator_alloc (last, 2 * SIZE, fixture->stream, error);

  if (dropped == NULL || !use (fixture, dropped, 2, error))
    return FALSE;

  gpu_allocator_free (last, freed);
  gpu_allocator_trim (last, 0);
  *kept = gpu_allocator_alloc (last, SIZE, fixture->stream, error);

  return *kept != NULL && use (fixture, *kept, 3, error);
}

static gboolean
use_base (Fixture *fixture, guint base, gboolean reverse, GError **error)
{
  g_autoptr (GError) failure = NULL;
  g_autoptr (GpuAllocator) allocator = new_base (fixture, base, &failure);
  g_autoptr (GPtrArray) chain = NULL;
  g_autoptr (GpuMemory) kept = NULL;
  gboolean success;

  if (g_error_matches (failure, GPU_ERROR, GPU_ERROR_NOT_SUPPORTED))
    return TRUE;

  if (allocator == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }

  chain = make_chain (allocator, reverse);
  success = use_chain (fixture, chain, &kept, error);

  if (reverse || !success)
    {
      g_clear_object (&kept);
      gpu_allocator_trim (chain->pdata[chain->len - 1], 0);
      check_empty (chain);
    }

  g_clear_pointer (&chain, g_ptr_array_unref);
  g_clear_object (&allocator);

  return success && (kept == NULL || use (fixture, kept, 4, error));
}

static gboolean
allocators (GpuContext *context, GError **error)
{
  g_autoptr (GpuStream) stream = gpu_stream_new (context, GPU_STREAM_FLAGS_NONE, error);
  Fixture fixture = { context, stream };

  if (stream == NULL)
    return FALSE;

  for (guint i = 0; i < 2 * N_BASES; i++)
    if (!use_base (&fixture, i / 2, i % 2 == 1, error))
      return FALSE;

  return TRUE;
}

int
main (void)
{
  return fault_run (allocators);
}

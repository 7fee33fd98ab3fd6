/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Under failing calls of the driver: memory of every allocator, through all adaptors around each
 * other, in two orders. What an adaptor counts is right whatever failed. */
#include "config.h"

#include <stdlib.h>

#include "fault-util.h"

#define SIZE  10000
#define LIMIT (1 << 20)

typedef struct
{
  GpuContext *context;
  GpuStream  *stream;
} Fixture;

typedef GpuAllocator *(*BaseFunc) (Fixture *fixture, GError **error);
typedef GpuAllocator *(*AdaptorFunc) (GpuAllocator *upstream);

/* --- allocators -------------------------------------------------------------------------- */

static GpuAllocator *
new_deferred (Fixture *fixture, GError **error)
{
  return (GpuAllocator *) gpu_deferred_allocator_new (fixture->context, GPU_MEMORY_NONE, error);
}

static GpuAllocator *
new_immediate (Fixture *fixture, GError **error)
{
  return (GpuAllocator *) gpu_immediate_allocator_new (fixture->stream, GPU_MEMORY_NONE, error);
}

static GpuAllocator *
new_svm (Fixture *fixture, GError **error)
{
  return (GpuAllocator *) gpu_svm_allocator_new (fixture->context, GPU_MEMORY_NONE,
                                                 GPU_SVM_FLAGS_NONE, 0, NULL, error);
}

static GpuAllocator *
new_host (Fixture *fixture, GError **error)
{
  return (GpuAllocator *) gpu_host_allocator_new (fixture->context, GPU_HOST_MEMORY_NONE, error);
}

static GpuAllocator *
new_on_stream (Fixture *fixture, GError **error)
{
  return (GpuAllocator *) gpu_stream_allocator_new (fixture->stream, GPU_MEMORY_NONE, error);
}

static GpuAllocator *
add_limit (GpuAllocator *upstream)
{
  return (GpuAllocator *) gpu_limit_allocator_new (upstream, LIMIT);
}

static GpuAllocator *
add_statistics (GpuAllocator *upstream)
{
  return (GpuAllocator *) gpu_statistics_allocator_new (upstream);
}

static GpuAllocator *
add_tracking (GpuAllocator *upstream)
{
  return (GpuAllocator *) gpu_tracking_allocator_new (upstream, 0);
}

static GpuAllocator *
add_logging (GpuAllocator *upstream)
{
  g_autoptr (GOutputStream) output = g_memory_output_stream_new_resizable ();

  return (GpuAllocator *) gpu_logging_allocator_new (upstream, output);
}

static GpuAllocator *
add_failure (GpuAllocator *upstream)
{
  return (GpuAllocator *) gpu_failure_allocator_new (upstream);
}

static GpuAllocator *
add_deferred_free (GpuAllocator *upstream)
{
  return (GpuAllocator *) gpu_deferred_free_allocator_new (upstream);
}

static const BaseFunc bases[] = { new_deferred, new_immediate, new_svm, new_host, new_on_stream };
static const AdaptorFunc adaptors[] = { add_limit, add_statistics, add_tracking, add_logging,
                                        add_failure, add_deferred_free };

/* Around each other, the first one innermost, or outermost if @reverse. (transfer full) */
static GPtrArray *
make_chain (GpuAllocator *base, gboolean reverse)
{
  const guint n = G_N_ELEMENTS (adaptors);
  GPtrArray *chain = g_ptr_array_new_with_free_func (g_object_unref);

  g_ptr_array_add (chain, g_object_ref (base));
  for (guint i = 0; i < n; i++)
    g_ptr_array_add (chain, adaptors[reverse ? n - 1 - i : i] (chain->pdata[i]));
  return chain;
}

/* --- what they are used for --------------------------------------------------------------- */

static void
expect_none (const char *what, gint64 n)
{
  if (n == 0)
    return;

  g_printerr ("%" G_GINT64_FORMAT " %s, not 0\n", n, what);
  exit (1);
}

/* With nothing in use, and nothing that waits to be freed. */
static void
check_empty (GPtrArray *chain)
{
  for (guint i = 0; i < chain->len; i++)
    {
      gpointer allocator = chain->pdata[i];

      if (GPU_IS_LIMIT_ALLOCATOR (allocator))
        expect_none ("bytes under the limit", gpu_limit_allocator_get_active_bytes (allocator));
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

          expect_none ("memories that are followed", g_variant_n_children (list));
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
  copy = gpu_buffer_new (fixture->context, GPU_MEMORY_NONE, size, error);

  if (copy == NULL || !gpu_stream_write (fixture->stream, memory, 0, bytes, error)
      || !gpu_stream_copy (fixture->stream, GPU_MEMORY (copy), 0, memory, 0, size, error))
    return FALSE;

  content = gpu_buffer_read_bytes (copy, fixture->stream, 0, size, NULL, error);

  if (content == NULL)
    return FALSE;

  fault_check (g_bytes_get_data (content, NULL), value, size, "memory");
  return TRUE;
}

/* Memory that is freed, is dropped, is kept beyond its allocator. */
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
use_base (Fixture *fixture, BaseFunc base, gboolean reverse, GError **error)
{
  g_autoptr (GError) failure = NULL;
  g_autoptr (GpuAllocator) allocator = base (fixture, &failure);
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

  for (guint i = 0; i < 2 * G_N_ELEMENTS (bases); i++)
    if (!use_base (&fixture, bases[i / 2], i % 2 == 1, error))
      return FALSE;

  return TRUE;
}

int
main (void)
{
  return fault_run (allocators);
}

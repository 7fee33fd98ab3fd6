/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/allocator/gpu-allocator-adaptor-private.h"
#include "gpumem/base/gpu-error-private.h"
#include "gpumem/base/gpu-signal-private.h"

/**
 * SECTION:gpu-oom-allocator
 * @title: GpuOomAllocator
 * @short_description: a signal for lack of memory
 * @see_also: #GpuAllocatorAdaptor
 */

/**
 * GpuOomAllocator:
 *
 * An adaptor that emits a signal when memory runs out, so that the program can free memory.
 *
 * |[<!-- language="C" -->
 * struct { gboolean (*drop) (GpuOomAllocator *, guint64, gpointer); } *cache = data;
 * g_autoptr (GpuOomAllocator) oom = gpu_oom_allocator_new (allocator);
 * g_autoptr (GpuMemory) memory = NULL;
 *
 * g_signal_connect (oom, "out-of-memory", G_CALLBACK (cache->drop), cache);
 * memory = gpu_allocator_alloc (GPU_ALLOCATOR (oom), size, stream, &error);
 * ]|
 *
 * When upstream is out of memory, handlers of the signal #GpuOomAllocator::out-of-memory can free
 * memory: drop caches, spill data to the host, or wait for work. The adaptor retries the request as
 * long as a handler returns %TRUE.
 *
 * Since: 0.1
 */
struct _GpuOomAllocator
{
  GpuAllocatorAdaptor parent_instance;
};

static guint out_of_memory;

G_DEFINE_FINAL_TYPE (GpuOomAllocator, gpu_oom_allocator, GPU_TYPE_ALLOCATOR_ADAPTOR)

static GpuMemory *
oom_alloc (GpuAllocatorAdaptor  *adaptor,
           gsize                 size,
           GpuStream            *stream,
           GError              **error)
{
  for (;;)
    {
      g_autoptr (GError) failure = NULL;
      GpuMemory *memory = _gpu_adaptor_alloc (adaptor, size, stream, &failure);
      GpuEmission emission;
      gboolean again = FALSE;

      if (memory != NULL)
        return memory;

      if (_gpu_error_is_out_of_memory (failure) && _gpu_emission_find (adaptor) == NULL)
        {
          _gpu_emission_begin (&emission, adaptor);
          g_signal_emit (adaptor, out_of_memory, 0, (guint64) size, &again);
          _gpu_emission_end (&emission);
        }

      if (!again)
        {
          g_propagate_error (error, g_steal_pointer (&failure));
          return NULL;
        }
    }
}

static const GpuAdaptorOps oom_ops =
{
  .core_size = sizeof (GpuAdaptorCore),
  .lease_size = sizeof (GpuLease),
  .alloc = oom_alloc
};

static void
gpu_oom_allocator_class_init (GpuOomAllocatorClass *klass)
{
  /**
   * GpuOomAllocator::out-of-memory:
   * @allocator: the allocator
   * @size: bytes requested
   *
   * Emitted in gpu_allocator_alloc() when upstream is out of memory, on the calling thread and
   * without a lock. The first handler that returns %TRUE stops the emission. If a handler itself
   * allocates with this allocator and upstream is out of memory, that allocation fails without
   * another emission.
   *
   * Returns: %TRUE to retry the request, %FALSE to let it fail
   *
   * Since: 0.1
   */
  out_of_memory = g_signal_new ("out-of-memory", GPU_TYPE_OOM_ALLOCATOR, G_SIGNAL_RUN_LAST, 0,
                                g_signal_accumulator_true_handled, NULL, NULL, G_TYPE_BOOLEAN, 1,
                                G_TYPE_UINT64);
  (void) klass;
}

static void
gpu_oom_allocator_init (GpuOomAllocator *allocator)
{
  _gpu_adaptor_init (&allocator->parent_instance, &oom_ops);
}

/**
 * gpu_oom_allocator_new:
 * @upstream: the allocator to wrap
 *
 * Creates an adaptor that emits a signal when memory runs out. May be called from any thread.
 *
 * Returns: (transfer full): the allocator
 *
 * Since: 0.1
 */
GpuOomAllocator *
gpu_oom_allocator_new (GpuAllocator *upstream)
{
  g_return_val_if_fail (GPU_IS_ALLOCATOR (upstream), NULL);

  return g_object_new (GPU_TYPE_OOM_ALLOCATOR, "upstream", upstream, NULL);
}

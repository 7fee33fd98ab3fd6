/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/allocator/gpu-basic-allocator-private.h"

/**
 * SECTION:gpu-external-allocator
 * @title: GpuExternalAllocator
 * @short_description: an allocator that calls functions of the program
 * @see_also: gpu_buffer_new_wrapped()
 */

/**
 * GpuExternalAllocator:
 *
 * An allocator that calls functions of the program.
 *
 * |[<!-- language="C" -->
 * struct { GpuExternalAllocFunc alloc; GpuExternalFreeFunc free; } *functions = data;
 * g_autoptr (GpuExternalAllocator) allocator =
 *   gpu_external_allocator_new (context, functions->alloc, data, NULL, functions->free, data, NULL,
 *                               &error);
 * g_autoptr (GpuMemory) memory =
 *   gpu_allocator_alloc (GPU_ALLOCATOR (allocator), size, stream, &error);
 * ]|
 *
 * Use this class for memory that another library, or the program itself, allocates. One function
 * allocates memory and returns a handle of the driver. The other function frees the memory when the
 * last work that uses it has completed. Each request returns a #GpuBuffer that wraps a handle.
 *
 * To control more than allocating and freeing, implement #GpuAllocator instead.
 *
 * Since: 0.1
 */
struct _GpuExternalAllocator
{
  GpuBasicAllocator  parent_instance;

  struct Core       *core;          /* NULL if constructed without functions */
};

/* State shared by the allocator and its memory, which may outlive the allocator. */
typedef struct Core
{
  gatomicrefcount      refs;
  GpuExternalAllocFunc alloc_func;
  gpointer             alloc_data;
  GDestroyNotify       alloc_notify;
  GpuExternalFreeFunc  free_func;
  gpointer             free_data;
  GDestroyNotify       free_notify;
} Core;

typedef struct
{
  Core    *core;                    /* the block holds a reference */
  guint64  handle;
  gsize    size;
} Block;

G_DEFINE_FINAL_TYPE (GpuExternalAllocator, gpu_external_allocator, GPU_TYPE_BASIC_ALLOCATOR)

static void
core_unref (Core *core)
{
  if (!g_atomic_ref_count_dec (&core->refs))
    return;

  if (core->alloc_notify != NULL)
    core->alloc_notify (core->alloc_data);

  if (core->free_notify != NULL)
    core->free_notify (core->free_data);

  g_free (core);
}

static void
block_free (gpointer data)
{
  Block *block = data;

  block->core->free_func (block->handle, block->size, block->core->free_data);
  core_unref (block->core);
  g_free (block);
}

static gboolean
external_check (GpuBasicAllocator  *allocator,
                GError            **error)
{
  if (GPU_EXTERNAL_ALLOCATOR (allocator)->core != NULL)
    return TRUE;

  g_set_error (error, GPU_ERROR, GPU_ERROR_INVALID_ARGUMENT,
               "gpu_external_allocator_new: no functions were given; "
               "the constructor sets the functions that allocate and free");

  return FALSE;
}

static GpuMemory *
external_alloc (GpuBasicAllocator  *allocator,
                gsize               size,
                GpuStream          *stream,
                GError            **error)
{
  Core *core = GPU_EXTERNAL_ALLOCATOR (allocator)->core;
  g_autoptr (GError) failure = NULL;
  guint64 handle = core->alloc_func (size, stream, core->alloc_data, &failure);
  GpuBuffer *buffer = NULL;
  Block *block;

  if (failure == NULL && handle != 0)
    {
      block = g_new0 (Block, 1);
      g_atomic_ref_count_inc (&core->refs);
      *block = (Block) { core, handle, size };
      buffer = _gpu_buffer_new_wrapped (allocator->context, handle, size, GPU_WRAP_MODE_BORROW,
                                        block, block_free, &failure);

      if (buffer == NULL)
        block_free (block);
    }

  if (buffer == NULL && failure == NULL)
    g_set_error (&failure, GPU_ERROR, GPU_ERROR_FAILED,
                 "gpu_allocator_alloc: the function returned neither a handle of %" G_GSIZE_FORMAT
                 " bytes nor an error", size);

  if (failure != NULL)
    g_propagate_error (error, g_steal_pointer (&failure));

  return (GpuMemory *) buffer;
}

static void
gpu_external_allocator_finalize (GObject *object)
{
  g_clear_pointer (&GPU_EXTERNAL_ALLOCATOR (object)->core, core_unref);

  G_OBJECT_CLASS (gpu_external_allocator_parent_class)->finalize (object);
}

static void
gpu_external_allocator_class_init (GpuExternalAllocatorClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = gpu_external_allocator_finalize;
  klass->parent_class.function = "gpu_external_allocator_new";
  klass->parent_class.check = external_check;
  klass->parent_class.alloc = external_alloc;
}

static void
gpu_external_allocator_init (GpuExternalAllocator *allocator G_GNUC_UNUSED)
{
}

/**
 * gpu_external_allocator_new:
 * @context: a #GpuContext
 * @alloc_func: (scope notified) (closure alloc_data) (destroy alloc_notify): allocates memory
 * @alloc_data: data for @alloc_func
 * @alloc_notify: (nullable): called with @alloc_data after the allocator and its memory are freed
 * @free_func: (scope notified) (closure free_data) (destroy free_notify): frees memory
 * @free_data: data for @free_func
 * @free_notify: (nullable): called with @free_data after the allocator and its memory are freed
 * @error: return location for an error
 *
 * Creates an allocator that calls functions of the program. The library may call @free_func,
 * @alloc_notify and @free_notify on any thread, so they cannot be functions of JavaScript. May be
 * called from any thread.
 *
 * Returns: (transfer full): the allocator, or %NULL with %GPU_ERROR_DEVICE_LOST. On failure the
 *   library calls @alloc_notify and @free_notify, but not @alloc_func and @free_func
 *
 * Since: 0.1
 */
GpuExternalAllocator *
gpu_external_allocator_new (GpuContext            *context,
                            GpuExternalAllocFunc   alloc_func,
                            gpointer               alloc_data,
                            GDestroyNotify         alloc_notify,
                            GpuExternalFreeFunc    free_func,
                            gpointer               free_data,
                            GDestroyNotify         free_notify,
                            GError               **error)
{
  g_autoptr (GpuExternalAllocator) allocator = NULL;
  Core *core;

  g_return_val_if_fail (GPU_IS_CONTEXT (context), NULL);
  g_return_val_if_fail (alloc_func != NULL && free_func != NULL, NULL);

  core = g_new (Core, 1);
  *core = (Core) { .alloc_func = alloc_func, .alloc_data = alloc_data,
                   .alloc_notify = alloc_notify, .free_func = free_func, .free_data = free_data,
                   .free_notify = free_notify };
  g_atomic_ref_count_init (&core->refs);
  allocator = g_object_new (GPU_TYPE_EXTERNAL_ALLOCATOR, "context", context, NULL);
  allocator->core = core;

  if (!g_initable_init (G_INITABLE (allocator), NULL, error))
    return NULL;

  return g_steal_pointer (&allocator);
}

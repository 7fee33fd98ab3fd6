/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sub-buffers, released in an order that every driver survives: NVIDIA's crashes when one goes
 * while a newer one of the same bytes is there. So each holds the older ones that it overlaps.
 */
#include "config.h"

#include "gpumem/opencl/gpu-opencl.h"

struct _GpuOpenclSlice
{
  guint            refs;        /* with the lock of the context's slices, as all that follows */
  cl_mem           mem;
  gsize            offset;
  gsize            size;
  GpuOpenclBuffer *root;
  GPtrArray       *older;       /* nullable; of referenced GpuOpenclSlice, the oldest first */
};

static void
add_older_locked (GpuOpenclSlice *slice,
                  GpuOpenclSlice *other)
{
  if (other->offset >= slice->offset + slice->size || slice->offset >= other->offset + other->size)
    return;

  if (slice->older == NULL)
    slice->older = g_ptr_array_new ();

  other->refs++;
  g_ptr_array_add (slice->older, other);
}

/* Takes @mem over. */
GpuOpenclSlice *
_gpu_opencl_slice_new (GpuOpenclContext *context,
                       GpuOpenclBuffer  *root,
                       cl_mem            mem,
                       gsize             offset,
                       gsize             size)
{
  GpuOpenclSlice *slice = g_new0 (GpuOpenclSlice, 1);
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->slices_lock);

  slice->refs = 1;
  slice->mem = mem;
  slice->offset = offset;
  slice->size = size;
  slice->root = root;

  if (root->slices == NULL)
    root->slices = g_ptr_array_new ();

  for (guint i = 0; i < root->slices->len; i++)
    add_older_locked (slice, g_ptr_array_index (root->slices, i));

  g_ptr_array_add (root->slices, slice);

  return slice;
}

/* The chain is as long as slices overlap: no recursion. */
static void
release_locked (GpuOpenclSlice *slice)
{
  g_autoptr (GPtrArray) pending = g_ptr_array_new ();

  g_ptr_array_add (pending, slice);

  while (pending->len > 0)
    {
      GpuOpenclSlice *next = g_ptr_array_steal_index (pending, pending->len - 1);

      if (--next->refs > 0)
        continue;

      clReleaseMemObject (next->mem);
      g_ptr_array_remove (next->root->slices, next);

      if (next->older != NULL)
        g_ptr_array_extend_and_steal (pending, g_steal_pointer (&next->older));

      g_free (next);
    }
}

void
_gpu_opencl_slice_release (GpuOpenclContext *context,
                           GpuOpenclSlice   *slice)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->slices_lock);

  release_locked (slice);
}

/* They stay as they are for as long as the slice is there: no lock. */
GpuOpenclBuffer *
_gpu_opencl_slice_get_root (GpuOpenclSlice *slice,
                            gsize          *offset)
{
  *offset = slice->offset;

  return slice->root;
}

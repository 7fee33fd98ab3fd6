/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sub-buffers for NVIDIA's driver, which crashes if a sub-buffer is released before a newer
 * sub-buffer that overlaps it. Each slice therefore holds references to the older slices that it
 * overlaps. Requests for the same range share a slice. Otherwise a program that replaces a slice
 * again and again would build an endless chain of references.
 */
#include "config.h"

#include "gpumem/opencl/driver/gpu-opencl.h"

struct _GpuOpenclSlice
{
  guint             refs;       /* slices_lock of the context guards all members */
  cl_mem            mem;
  cl_mem_flags      flags;
  cl_buffer_region  region;
  GpuOpenclBuffer  *root;
  GPtrArray        *older;      /* nullable; of referenced GpuOpenclSlice, the newest first */
  gboolean          is_held;    /* directly or indirectly referenced by the slice that is being
                                 * created */
};

static gboolean
overlap (const cl_buffer_region *a,
         const cl_buffer_region *b)
{
  return a->origin < b->origin + b->size && b->origin < a->origin + a->size;
}

static GpuOpenclSlice *
find_locked (GpuOpenclBuffer        *root,
             cl_mem_flags            flags,
             const cl_buffer_region *region)
{
  for (guint i = 0; i < root->slices->len; i++)
    {
      GpuOpenclSlice *slice = g_ptr_array_index (root->slices, i);

      if (slice->flags == flags && slice->region.origin == region->origin
          && slice->region.size == region->size)
        return slice;
    }

  return NULL;
}

/* Marks the slices that @slice references directly or indirectly. Not recursive, because chains of
 * overlapping slices may be long. */
static void
mark_held_locked (GpuOpenclSlice *slice)
{
  g_autoptr (GPtrArray) pending = g_ptr_array_new ();

  slice->is_held = TRUE;
  g_ptr_array_add (pending, slice);

  while (pending->len > 0)
    {
      GpuOpenclSlice *next = g_ptr_array_steal_index (pending, pending->len - 1);

      for (guint i = 0; next->older != NULL && i < next->older->len; i++)
        {
          GpuOpenclSlice *older = g_ptr_array_index (next->older, i);

          if (!older->is_held)
            g_ptr_array_add (pending, older);

          older->is_held = TRUE;
        }
    }
}

/* Adds references to the existing slices that @slice overlaps. Starts with the newest of them,
 * which already holds references to most of the others. */
static void
hold_older_locked (GpuOpenclSlice *slice)
{
  GPtrArray *slices = slice->root->slices;

  for (guint i = 0; i < slices->len; i++)
    ((GpuOpenclSlice *) slices->pdata[i])->is_held = FALSE;

  for (guint i = slices->len; i > 0; i--)
    {
      GpuOpenclSlice *other = g_ptr_array_index (slices, i - 1);

      if (other->is_held || !overlap (&slice->region, &other->region))
        continue;

      if (slice->older == NULL)
        slice->older = g_ptr_array_new ();

      other->refs++;
      g_ptr_array_add (slice->older, other);
      mark_held_locked (other);
    }
}

/* Caller holds slices_lock and keeps it until the slice is in the list of its root, so that the
 * list has the order in which the driver created the slices. */
static GpuOpenclSlice *
create_locked (GpuOpenclContext       *context,
               GpuOpenclBuffer        *root,
               cl_mem_flags            flags,
               const cl_buffer_region *region,
               cl_int                 *code)
{
  GpuOpenclSlice *slice;
  cl_mem mem;

  g_atomic_int_set (&context->has_slices, TRUE);
  g_rw_lock_writer_lock (&context->slices_use);
  mem = clCreateSubBuffer (root->mem, flags, CL_BUFFER_CREATE_TYPE_REGION, region, code);
  g_rw_lock_writer_unlock (&context->slices_use);

  if (*code != CL_SUCCESS)
    return NULL;

  slice = g_new0 (GpuOpenclSlice, 1);
  slice->mem = mem;
  slice->flags = flags;
  slice->region = *region;
  slice->root = root;
  hold_older_locked (slice);
  g_ptr_array_add (root->slices, slice);

  return slice;
}

GpuOpenclSlice *
_gpu_opencl_slice_get (GpuOpenclContext       *context,
                       GpuOpenclBuffer        *root,
                       cl_mem_flags            flags,
                       const cl_buffer_region *region,
                       cl_mem                 *mem,
                       cl_int                 *code)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&context->slices_lock);
  GpuOpenclSlice *slice;

  if (root->slices == NULL)
    root->slices = g_ptr_array_new ();

  *code = CL_SUCCESS;
  slice = find_locked (root, flags, region);

  if (slice == NULL)
    slice = create_locked (context, root, flags, region, code);

  if (slice == NULL)
    return NULL;

  slice->refs++;
  *mem = slice->mem;

  return slice;
}

static void
release_locked (GpuOpenclContext *context,
                GpuOpenclSlice   *slice)
{
  g_autoptr (GPtrArray) pending = g_ptr_array_new ();

  g_ptr_array_add (pending, slice);

  while (pending->len > 0)
    {
      GpuOpenclSlice *next = g_ptr_array_steal_index (pending, pending->len - 1);

      if (--next->refs > 0)
        continue;

      g_rw_lock_writer_lock (&context->slices_use);
      clReleaseMemObject (next->mem);
      g_rw_lock_writer_unlock (&context->slices_use);
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

  release_locked (context, slice);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Work-items that meet at barriers: each has a stack of its own, and one thread switches between
 * them. */
#include "config.h"

#include <errno.h>

#include "gpumem/host/executor/gpu-host-stack.h"
#include "gpumem/host/executor/gpu-host-executor.h"

/* Stacks begin at different places in their pages: all at the same would share few lines of the
 * cache. */
#define N_COLOURS 32
#define COLOUR_SIZE 128

typedef struct _GpuHostFiber GpuHostFiber;

/* One stack and what runs on it: the fibers of a thread, and the thread itself. */
struct _GpuHostFiber
{
  GpuHostItem       item;       /* first: what a barrier knows of the fiber it stands in */
  GpuHostFiber     *next;       /* where it goes from a barrier; the thread, from the last */
  GpuHostItemFunc   run;
  void            **arguments;
  gboolean          over;

  GpuHostStack      stack;
};

/* What a thread keeps from one group to the next. */
typedef struct
{
  GpuHostFiber  thread;
  GPtrArray    *fibers;
  gsize         stack_size;
} GpuHostFiberSet;

static void
fiber_free (gpointer data)
{
  GpuHostFiber *fiber = data;

  _gpu_host_stack_unmap (&fiber->stack);
  g_free (fiber);
}

static void
fiber_set_free (gpointer data)
{
  GpuHostFiberSet *set = data;

  g_ptr_array_unref (set->fibers);
  g_free (set);
}

static GPrivate fiber_set = G_PRIVATE_INIT (fiber_set_free);

static GPU_HOST_NO_TSAN void
fiber_leave (GpuHostFiber *fiber)
{
  GpuHostFiber *next = fiber->next;

  while (next->over)
    next = next->next;

  _gpu_host_stack_switch (&fiber->stack, &next->stack);
}

static void
fiber_barrier (GpuHostItem *item)
{
  fiber_leave ((GpuHostFiber *) item);
}

/* The foot of a fiber's stack. It comes here once, goes back at once, and is switched to for each
 * work-item from then on. */
static GPU_HOST_NO_TSAN void fiber_main (gpointer data) G_GNUC_NORETURN;

static GPU_HOST_NO_TSAN void
fiber_main (gpointer data)
{
  GpuHostFiber *fiber = data;

  for (;;)
    {
      fiber_leave (fiber);
      fiber->run (fiber->arguments, &fiber->item);
      fiber->over = TRUE;
    }
}

static GpuHostFiber *
fiber_new (GpuHostFiber  *thread,
           guint          colour,
           gsize          stack_size,
           GError       **error)
{
  GpuHostFiber *fiber = g_new0 (GpuHostFiber, 1);

  if (!_gpu_host_stack_map (&fiber->stack, stack_size))
    {
      g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY,
                   "host: mmap: %s (%d): no stack of %" G_GSIZE_FORMAT " bytes for a work-item",
                   g_strerror (errno), errno, stack_size);
      g_free (fiber);
      return NULL;
    }

  fiber->next = thread;
  _gpu_host_stack_enter (&fiber->stack, &thread->stack, colour * COLOUR_SIZE, fiber_main, fiber);

  return fiber;
}

/* The fibers of this thread, at least @n of them. */
static GpuHostFiberSet *
get_fibers (gsize    n,
            gsize    stack_size,
            GError **error)
{
  GpuHostFiberSet *set = g_private_get (&fiber_set);

  if (set == NULL)
    {
      set = g_new0 (GpuHostFiberSet, 1);
      set->fibers = g_ptr_array_new_with_free_func (fiber_free);
      g_private_set (&fiber_set, set);
    }

  if (set->stack_size != stack_size)
    {
      g_ptr_array_set_size (set->fibers, 0);
      set->stack_size = stack_size;
    }

  _gpu_host_stack_adopt (&set->thread.stack);

  while (set->fibers->len < n)
    {
      GpuHostFiber *fiber = fiber_new (&set->thread, set->fibers->len % N_COLOURS, stack_size,
                                       error);

      if (fiber == NULL)
        return NULL;

      g_ptr_array_add (set->fibers, fiber);
    }

  return set;
}

static void
set_range (GpuHostItem *item,
           guint        dimension,
           gsize        begin)
{
  item->begin[dimension] = begin;
  item->end[dimension] = begin + 1;
}

/* Gives every fiber one work-item of @item, and each the next one to go on to. */
static void
fibers_prepare (GpuHostFiberSet    *set,
                const GpuHostItem  *item,
                GpuHostItemFunc     run,
                void              **arguments)
{
  GpuHostFiber *last = &set->thread;
  gpointer *fibers = set->fibers->pdata;

  for (gsize z = item->begin[2]; z < item->end[2]; z++)
    {
      for (gsize y = item->begin[1]; y < item->end[1]; y++)
        {
          for (gsize x = item->begin[0]; x < item->end[0]; x++)
            {
              GpuHostFiber *fiber = *fibers++;

              fiber->item = *item;
              fiber->item.barrier = fiber_barrier;
              set_range (&fiber->item, 0, x);
              set_range (&fiber->item, 1, y);
              set_range (&fiber->item, 2, z);
              fiber->run = run;
              fiber->arguments = arguments;
              fiber->over = FALSE;
              last->next = fiber;
              last = fiber;
            }
        }
    }

  last->next = &set->thread;
}

static gboolean
are_over (GpuHostFiberSet *set)
{
  for (GpuHostFiber *fiber = set->thread.next; fiber != &set->thread; fiber = fiber->next)
    {
      if (!fiber->over)
        return FALSE;
    }

  return TRUE;
}

gboolean
_gpu_host_fibers_run (const GpuHostItem  *item,
                      GpuHostItemFunc     run,
                      void              **arguments,
                      gsize               stack_size,
                      GError            **error)
{
  gsize n = 1;
  GpuHostFiberSet *set;

  for (guint i = 0; i < 3; i++)
    n *= item->end[i] - item->begin[i];

  set = get_fibers (n, stack_size, error);

  if (set == NULL)
    return FALSE;

  fibers_prepare (set, item, run, arguments);

  /* A program that is right has all of them at the same barrier, or all over. */
  do
    fiber_leave (&set->thread);
  while (!are_over (set));

  return TRUE;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/host/executor/gpu-host-fiber.h"

/* Stacks begin at different offsets in their pages. With the same offset, they would compete for a
 * few cache lines. */
#define N_COLOURS 32
#define COLOUR_SIZE 128

struct _GpuHostFibers
{
  GpuHostFiber      home;           /* the thread itself */
  GpuHostFiber     *last;           /* in the ring, before home */
  GPtrArray        *all;            /* of GpuHostFiber */
  gsize             stack_size;
  gsize             n_used;         /* fibers in the ring */

  GpuHostFiberFunc  func;
  gpointer          data;
  gsize             n_items;
  gsize             n_begun;
  gsize             n_completed;
  gboolean          is_stopped;
};

static void
fiber_free (gpointer data)
{
  GpuHostFiber *fiber = data;

  _gpu_host_stack_unmap (&fiber->stack);
  g_free (fiber);
}

GpuHostFibers *
_gpu_host_fibers_new (void)
{
  GpuHostFibers *fibers = g_new0 (GpuHostFibers, 1);

  fibers->home.fibers = fibers;
  fibers->all = g_ptr_array_new_with_free_func (fiber_free);

  return fibers;
}

void
_gpu_host_fibers_free (GpuHostFibers *fibers)
{
  g_ptr_array_unref (fibers->all);
  g_free (fibers);
}

/* Adds a fiber to the ring, to run items that have not begun. */
static GpuHostFiber *
append_fiber (GpuHostFibers *fibers)
{
  GpuHostFiber *fiber = fibers->all->pdata[fibers->n_used++];

  fiber->is_blocked = FALSE;
  fiber->next = &fibers->home;
  fibers->last->next = fiber;
  fibers->last = fiber;

  return fiber;
}

/* Returns the fiber that runs after the last fiber of the ring. If some items have not begun and an
 * unused fiber is left, appends that fiber to the ring and returns it. Otherwise returns `home`,
 * which stands for the thread's own stack. */
static G_GNUC_NO_INLINE GpuHostFiber *
get_last (GpuHostFibers *fibers)
{
  if (fibers->n_begun < fibers->n_items && fibers->n_used < fibers->all->len)
    return append_fiber (fibers);

  return &fibers->home;
}

GPU_HOST_NO_TSAN void
_gpu_host_fiber_wait (GpuHostFiber *fiber)
{
  GpuHostFiber *next = fiber->next;

  while (next->is_blocked)
    next = next->next;

  if (next == &fiber->fibers->home)
    next = get_last (fiber->fibers);

  _gpu_host_stack_switch (&fiber->stack, &next->stack);
}

/* The first function on a fiber's stack. On entry, it immediately switches back to the thread.
 * Later it runs items each time that the thread or another fiber switches to this fiber. */
static GPU_HOST_NO_TSAN void fiber_main (gpointer data) G_GNUC_NORETURN;

static GPU_HOST_NO_TSAN void
fiber_main (gpointer data)
{
  GpuHostFiber *fiber = data;
  GpuHostFibers *fibers = fiber->fibers;

  _gpu_host_stack_switch (&fiber->stack, &fibers->home.stack);

  for (;;)
    {
      while (fibers->n_begun < fibers->n_items)
        {
          fibers->func (fiber, fibers->n_begun++, fibers->data);
          fibers->n_completed++;
        }

      fiber->is_blocked = TRUE;
      _gpu_host_fiber_wait (fiber);
    }
}

gboolean
_gpu_host_fibers_reserve (GpuHostFibers *fibers,
                          gsize          n,
                          gsize          stack_size)
{
  if (fibers->stack_size != stack_size)
    {
      g_ptr_array_set_size (fibers->all, 0);
      fibers->stack_size = stack_size;
    }

  _gpu_host_stack_adopt (&fibers->home.stack);

  while (fibers->all->len < n)
    {
      GpuHostFiber *fiber = g_new0 (GpuHostFiber, 1);
      gsize colour = fibers->all->len % N_COLOURS;

      if (!_gpu_host_stack_map (&fiber->stack, stack_size))
        {
          g_free (fiber);
          return FALSE;
        }

      fiber->fibers = fibers;
      _gpu_host_stack_enter (&fiber->stack, &fibers->home.stack, colour * COLOUR_SIZE, fiber_main,
                             fiber);
      g_ptr_array_add (fibers->all, fiber);
    }

  return TRUE;
}

/* Begins all items. An item that waits switches to an unused fiber, which begins the next item. If
 * no unused fiber is left, control returns to this function, which creates one. */
static gboolean
begin_items (GpuHostFibers *fibers)
{
  while (fibers->n_begun < fibers->n_items && !fibers->is_stopped)
    {
      if (!_gpu_host_fibers_reserve (fibers, fibers->n_used + 1, fibers->stack_size))
        return FALSE;

      _gpu_host_stack_switch (&fibers->home.stack, &append_fiber (fibers)->stack);
    }

  return TRUE;
}

static GpuHostFibersResult
run_items (GpuHostFibers   *fibers,
           GpuHostWakeFunc  wake)
{
  if (!begin_items (fibers))
    return GPU_HOST_FIBERS_NO_MEMORY;

  while (!fibers->is_stopped && fibers->n_completed < fibers->n_items)
    {
      if (wake != NULL && !wake (fibers->data))
        return GPU_HOST_FIBERS_STUCK;

      _gpu_host_fiber_wait (&fibers->home);
    }

  return fibers->is_stopped ? GPU_HOST_FIBERS_STOPPED : GPU_HOST_FIBERS_COMPLETE;
}

GpuHostFibersResult
_gpu_host_fibers_run (GpuHostFibers    *fibers,
                      gsize             n_items,
                      GpuHostFiberFunc  func,
                      GpuHostWakeFunc   wake,
                      gpointer          data)
{
  GpuHostFibersResult result;

  fibers->home.next = &fibers->home;
  fibers->last = &fibers->home;
  fibers->func = func;
  fibers->data = data;
  fibers->n_items = n_items;
  fibers->n_used = 0;
  fibers->n_begun = 0;
  fibers->n_completed = 0;
  fibers->is_stopped = FALSE;
  _gpu_host_stack_adopt (&fibers->home.stack);
  result = run_items (fibers, wake);

  /* Stacks of abandoned items cannot be reused. */
  if (result != GPU_HOST_FIBERS_COMPLETE)
    g_ptr_array_set_size (fibers->all, 0);

  return result;
}

void
_gpu_host_fibers_stop (GpuHostFibers *fibers)
{
  fibers->is_stopped = TRUE;
  _gpu_host_stack_leave (&fibers->home.stack);
}

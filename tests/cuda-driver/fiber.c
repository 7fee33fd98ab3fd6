/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Runs each thread of a block as a fiber (see gpu-host-fiber.h). A fiber may wait for the other
 * threads of its block or of its warp. */
#include "config.h"

#include <string.h>

#include "fiber.h"
#include "gpumem/host/executor/gpu-host-fiber.h"

#define STACK_SIZE (252 * 1024)
#define WARP_SIZE 32
#define CODE_STUCK 702

typedef struct _Block Block;

typedef enum
{
  THREAD_RUNNING,               /* or not started yet */
  THREAD_AT_BARRIER,
  THREAD_AT_WARP,
  THREAD_OVER
} ThreadState;

/* A thread of the block. */
typedef struct
{
  KernelThread  thread;         /* must be first; the part that the kernel sees */
  Block        *block;
  GpuHostFiber *fiber;
  ThreadState   state;
  guint         mask;           /* the lanes of its warp for which the thread waits */
} Item;

/* The state of a block. A stream thread reuses it for the next block. */
struct _Block
{
  GpuHostFibers  *fibers;
  const FiberRun *run;
  Item           *items;
  guint64        *slots;
  guint           n_items;
  guint           n_allocated;
  guint           code;         /* the code with which the kernel was terminated, or 0 */
};

static __thread Block *this_block;

/* --- one thread of the block ------------------------------------------------------------------ */

/* Suspends the fiber of @item until wake() is called for @item. */
static GPU_HOST_NO_TSAN void
wait (Item        *item,
      ThreadState  state)
{
  item->state = state;
  item->fiber->is_blocked = TRUE;
  _gpu_host_fiber_wait (item->fiber);
  *item->block->run->place = &item->thread;
}

static void
barrier (KernelThread *thread)
{
  wait ((Item *) thread, THREAD_AT_BARRIER);
}

static void
warp_barrier (KernelThread *thread,
              guint         mask)
{
  Item *item = (Item *) thread;

  item->mask = mask;
  wait (item, THREAD_AT_WARP);
}

void
fiber_stop_current (guint code)
{
  this_block->code = code;
  _gpu_host_fibers_stop (this_block->fibers);
}

/* Terminates the kernel, with all of its threads. */
static void
stop (KernelThread *thread G_GNUC_UNUSED,
      guint         code)
{
  fiber_stop_current (code);
}

static void
run_item (GpuHostFiber *fiber,
          gsize         index,
          gpointer      data)
{
  Block *block = data;
  Item *item = &block->items[index];

  item->fiber = fiber;
  *block->run->place = &item->thread;
  block->run->run (block->run->function, block->run->arguments);
  item->state = THREAD_OVER;
}

/* --- the fibers of one block ------------------------------------------------------------------ */

void
fibers_free (void)
{
  Block *block = this_block;

  if (block == NULL)
    return;
  this_block = NULL;
  _gpu_host_fibers_free (block->fibers);
  g_free (block->items);
  g_free (block->slots);
  g_free (block);
}

static Block *
get_block (guint n_items)
{
  Block *block = this_block;

  if (block == NULL)
    {
      block = this_block = g_new0 (Block, 1);
      block->fibers = _gpu_host_fibers_new ();
    }
  if (block->n_allocated < n_items)
    {
      block->n_allocated = n_items;
      block->items = g_renew (Item, block->items, n_items);
      block->slots = g_renew (guint64, block->slots, n_items + WARP_SIZE);
    }
  return block;
}

static void
prepare (Block          *block,
         const FiberRun *run)
{
  guint n = 0;

  memset (block->items, 0, sizeof (Item) * block->n_items);
  for (guint z = 0; z < run->template.block_size[2]; z++)
    for (guint y = 0; y < run->template.block_size[1]; y++)
      for (guint x = 0; x < run->template.block_size[0]; x++, n++)
        {
          Item *item = &block->items[n];

          item->thread = run->template;
          item->thread.thread[0] = x;
          item->thread.thread[1] = y;
          item->thread.thread[2] = z;
          item->thread.lane = n % WARP_SIZE;
          item->thread.slots = block->slots + n / WARP_SIZE * WARP_SIZE;
          item->thread.barrier = barrier;
          item->thread.warp_barrier = warp_barrier;
          item->thread.stop = stop;
          item->block = block;
        }
}

static void
wake (Item *item)
{
  item->state = THREAD_RUNNING;
  item->fiber->is_blocked = FALSE;
}

/* Resumes the threads of a warp once all lanes that they wait for have arrived. */
static gboolean
wake_warp (Block *block,
           guint  first)
{
  guint last = MIN (first + WARP_SIZE, block->n_items);
  guint waiting = 0;
  guint alive = 0;
  gboolean woken = FALSE;

  for (guint i = first; i < last; i++)
    {
      alive |= (guint) (block->items[i].state != THREAD_OVER) << (i - first);
      waiting |= (guint) (block->items[i].state == THREAD_AT_WARP) << (i - first);
    }
  for (guint i = first; i < last; i++)
    {
      Item *item = &block->items[i];

      if (item->state == THREAD_AT_WARP && (item->mask & alive & ~waiting) == 0)
        {
          wake (item);
          woken = TRUE;
        }
    }
  return woken;
}

static gboolean
wake_items (gpointer data)
{
  Block *block = data;
  gboolean woken = FALSE;

  for (guint i = 0; i < block->n_items; i += WARP_SIZE)
    woken |= wake_warp (block, i);
  for (guint i = 0; i < block->n_items; i++)
    if (block->items[i].state != THREAD_AT_BARRIER && block->items[i].state != THREAD_OVER)
      return woken;
  for (guint i = 0; i < block->n_items; i++)
    if (block->items[i].state == THREAD_AT_BARRIER)
      wake (&block->items[i]);
  return TRUE;
}

guint
fibers_run (const FiberRun *run)
{
  guint n_items = run->template.block_size[0] * run->template.block_size[1] *
                  run->template.block_size[2];
  Block *block = get_block (n_items);
  GpuHostFibersResult result = GPU_HOST_FIBERS_NO_MEMORY;

  block->run = run;
  block->n_items = n_items;
  block->code = 0;
  prepare (block, run);
  if (_gpu_host_fibers_reserve (block->fibers, 1, STACK_SIZE))
    result = _gpu_host_fibers_run (block->fibers, n_items, run_item, wake_items, block);
  if (result == GPU_HOST_FIBERS_NO_MEMORY)
    g_error ("gpumem-cuda-driver: no stack for a thread of a kernel");
  return result == GPU_HOST_FIBERS_STUCK ? CODE_STUCK : block->code;
}

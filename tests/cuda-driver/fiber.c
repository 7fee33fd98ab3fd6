/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The threads of a block. They run one after another on one stack, for as long as none of them
 * waits for others; one that does keeps its stack, and the next ones get another.
 */
#include "config.h"

#include <string.h>

#include "fiber.h"
#include "gpumem/host/executor/gpu-host-stack.h"

#define STACK_SIZE (252 * 1024)
#define WARP_SIZE 32

typedef struct _Fiber Fiber;
typedef struct _Block Block;

typedef enum
{
  THREAD_NEW,
  THREAD_READY,                 /* it waited, and may go on */
  THREAD_AT_BARRIER,
  THREAD_AT_WARP,
  THREAD_OVER
} ThreadState;

/* A thread of the block. */
typedef struct
{
  KernelThread  thread;         /* first: what the kernel knows of it */
  Block        *block;
  Fiber        *fiber;          /* that it stands on */
  ThreadState   state;
  guint         mask;           /* of the warp's lanes that it waits for */
} Item;

struct _Fiber
{
  Block       *block;
  Item        *item;            /* on it at the moment */
  GpuHostStack stack;
};

/* What a thread of the stand-in keeps from one block to the next. */
struct _Block
{
  const FiberRun *run;
  GpuHostStack    home;         /* that of the stand-in's thread */
  GPtrArray      *fibers;       /* of Fiber, all that there are */
  GPtrArray      *idle;
  Item           *items;
  guint64        *slots;
  guint           n_items;
  guint           n_allocated;
  guint           next;         /* the first item that has not begun */
  guint           n_over;
  guint           code;         /* not 0: the kernel was stopped */
};

static __thread Block *this_block;

/* --- switching -------------------------------------------------------------------------------- */

static GPU_HOST_NO_TSAN void
go_home (Fiber *fiber)
{
  _gpu_host_stack_switch (&fiber->stack, &fiber->block->home);
}

static void
begin_item (Fiber *fiber,
            Item  *item)
{
  fiber->item = item;
  item->fiber = fiber;
  *fiber->block->run->place = &item->thread;
}

/* The foot of a stack: it goes home at once, and then runs items for as long as there are any. */
static GPU_HOST_NO_TSAN void fiber_main (gpointer data) G_GNUC_NORETURN;

static GPU_HOST_NO_TSAN void
fiber_main (gpointer data)
{
  Fiber *fiber = data;
  Block *block = fiber->block;

  for (;;)
    {
      go_home (fiber);
      while (block->next < block->n_items && block->code == 0)
        {
          Item *item = &block->items[block->next++];

          begin_item (fiber, item);
          block->run->run (block->run->function, block->run->arguments);
          item->state = THREAD_OVER;
          block->n_over++;
        }
      g_ptr_array_add (block->idle, fiber);
    }
}

static void
barrier (KernelThread *thread)
{
  Item *item = (Item *) thread;

  item->state = THREAD_AT_BARRIER;
  go_home (item->fiber);
}

static void
warp_barrier (KernelThread *thread,
              guint         mask)
{
  Item *item = (Item *) thread;

  item->state = THREAD_AT_WARP;
  item->mask = mask;
  go_home (item->fiber);
}

/* The kernel does not go on: neither this thread of it nor another. */
static void
stop (KernelThread *thread,
      guint         code)
{
  Item *item = (Item *) thread;

  item->block->code = code;
  go_home (item->fiber);
}

void
fiber_stop_current (guint code)
{
  Block *block = this_block;

  block->code = code;
  _gpu_host_stack_leave (&block->home);
}

/* --- stacks ----------------------------------------------------------------------------------- */

static Fiber *
fiber_new (Block *block)
{
  Fiber *fiber = g_new0 (Fiber, 1);

  fiber->block = block;
  if (!_gpu_host_stack_map (&fiber->stack, STACK_SIZE))
    g_error ("gpumem-cuda-driver: no stack for a thread of a kernel");
  _gpu_host_stack_enter (&fiber->stack, &block->home, 0, fiber_main, fiber);
  g_ptr_array_add (block->fibers, fiber);
  return fiber;
}

static void
fiber_free (gpointer data)
{
  Fiber *fiber = data;

  _gpu_host_stack_unmap (&fiber->stack);
  g_free (fiber);
}

static void
drop_fibers (Block *block)
{
  g_ptr_array_set_size (block->idle, 0);
  g_ptr_array_set_size (block->fibers, 0);
}

void
fibers_free (void)
{
  Block *block = this_block;

  if (block == NULL)
    return;
  this_block = NULL;
  g_ptr_array_unref (block->idle);
  g_ptr_array_unref (block->fibers);
  g_free (block->items);
  g_free (block->slots);
  g_free (block);
}

/* --- one block -------------------------------------------------------------------------------- */

static Block *
get_block (guint n_items)
{
  Block *block = this_block;

  if (block == NULL)
    {
      block = this_block = g_new0 (Block, 1);
      block->fibers = g_ptr_array_new_with_free_func (fiber_free);
      block->idle = g_ptr_array_new ();
    }
  if (block->n_allocated < n_items)
    {
      block->n_allocated = n_items;
      block->items = g_renew (Item, block->items, n_items);
      block->slots = g_renew (guint64, block->slots, n_items + WARP_SIZE);
    }
  _gpu_host_stack_adopt (&block->home);
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

/* Lets a warp go on in which all that are waited for have come. */
static gboolean
release_warp (Block *block,
              guint  first)
{
  guint last = MIN (first + WARP_SIZE, block->n_items);
  guint waiting = 0;
  guint alive = 0;
  gboolean released = FALSE;

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
          item->state = THREAD_READY;
          released = TRUE;
        }
    }
  return released;
}

static gboolean
release_all (Block *block)
{
  gboolean released = FALSE;
  guint n_waiting = 0;

  for (guint i = 0; i < block->n_items; i += WARP_SIZE)
    released |= release_warp (block, i);
  for (guint i = 0; i < block->n_items; i++)
    n_waiting += block->items[i].state == THREAD_AT_BARRIER;
  if (n_waiting == 0 || n_waiting + block->n_over < block->n_items)
    return released;
  for (guint i = 0; i < block->n_items; i++)
    if (block->items[i].state == THREAD_AT_BARRIER)
      block->items[i].state = THREAD_READY;
  return TRUE;
}

static void
resume (Block *block)
{
  for (guint i = 0; i < block->n_items && block->code == 0; i++)
    {
      Item *item = &block->items[i];

      if (item->state != THREAD_READY)
        continue;
      *block->run->place = &item->thread;
      _gpu_host_stack_switch (&block->home, &item->fiber->stack);
    }
}

guint
fibers_run (const FiberRun *run)
{
  guint n_items = run->template.block_size[0] * run->template.block_size[1] *
                  run->template.block_size[2];
  Block *block = get_block (n_items);

  block->run = run;
  block->n_items = n_items;
  block->next = 0;
  block->n_over = 0;
  block->code = 0;
  prepare (block, run);
  while (block->n_over < n_items && block->code == 0)
    {
      while (block->next < n_items && block->code == 0)
        {
          Fiber *fiber = block->idle->len > 0
                         ? g_ptr_array_steal_index_fast (block->idle, block->idle->len - 1)
                         : fiber_new (block);

          _gpu_host_stack_switch (&block->home, &fiber->stack);
        }
      if (block->n_over < n_items && block->code == 0 && !release_all (block))
        block->code = 702;
      resume (block);
    }
  /* What was stopped stands in the middle of its stack. */
  if (block->code != 0)
    drop_fibers (block);
  return block->code;
}

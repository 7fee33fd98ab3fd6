/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The threads of a block. They run one after another on one stack, for as long as none of them
 * waits for others; one that does keeps its stack, and the next ones get another.
 */
#undef _FORTIFY_SOURCE          /* its longjmp() takes another stack for an overrun one */
#include "config.h"

#include <setjmp.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "fiber.h"

#if defined (__has_feature)
#define HAS_FEATURE(feature) __has_feature (feature)
#else
#define HAS_FEATURE(feature) 0
#endif

#if defined (__SANITIZE_ADDRESS__) || HAS_FEATURE (address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define HAVE_ASAN 1
#endif

#if defined (__SANITIZE_THREAD__) || HAS_FEATURE (thread_sanitizer)
#include <sanitizer/tsan_interface.h>
#define HAVE_TSAN 1
#define NO_TSAN __attribute__ ((no_sanitize ("thread")))
#else
#define NO_TSAN
#endif

#if defined (__has_include)
#if __has_include (<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#endif

#define STACK_SIZE (256 * 1024)
#define GUARD_SIZE 4096
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
  Block    *block;
  Item     *item;               /* on it at the moment */
  gpointer  stack;
  jmp_buf   place;
#ifdef HAVE_ASAN
  gpointer  fake_stack;
  const void *stack_bottom;
  size_t    stack_size;
#endif
#ifdef HAVE_TSAN
  gpointer  tsan;
#endif
#ifdef VALGRIND_STACK_REGISTER
  guint     valgrind_id;
#endif
};

/* What a thread of the stand-in keeps from one block to the next. */
struct _Block
{
  const FiberRun *run;
  Fiber           home;         /* the stack of the stand-in's thread */
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

static NO_TSAN void
switch_to (Fiber *from,
           Fiber *to)
{
#ifdef HAVE_ASAN
  __sanitizer_start_switch_fiber (&from->fake_stack, to->stack_bottom, to->stack_size);
#endif
#ifdef HAVE_TSAN
  __tsan_switch_to_fiber (to->tsan, 0);
#endif

  if (_setjmp (from->place) == 0)
    _longjmp (to->place, 1);

#ifdef HAVE_ASAN
  __sanitizer_finish_switch_fiber (from->fake_stack, NULL, NULL);
#endif
}

static NO_TSAN void
go_home (Fiber *fiber)
{
  switch_to (fiber, &fiber->block->home);
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
static NO_TSAN void fiber_main (guint low,
                                guint high) G_GNUC_NORETURN;

static NO_TSAN void
fiber_main (guint low,
            guint high)
{
  Fiber *fiber = (Fiber *) (guintptr) ((guint64) high << 32 | low);
  Block *block = fiber->block;

#ifdef HAVE_ASAN
  __sanitizer_finish_switch_fiber (NULL, &block->home.stack_bottom, &block->home.stack_size);
#endif

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

NO_TSAN void
fiber_stop_current (guint code)
{
  Block *block = this_block;

  block->code = code;
#ifdef HAVE_ASAN
  __sanitizer_start_switch_fiber (NULL, block->home.stack_bottom, block->home.stack_size);
#endif
#ifdef HAVE_TSAN
  __tsan_switch_to_fiber (block->home.tsan, 0);
#endif
  _longjmp (block->home.place, 1);
}

/* --- stacks ----------------------------------------------------------------------------------- */

static NO_TSAN void
enter (Fiber      *home,
       Fiber      *fiber,
       ucontext_t *context)
{
#ifdef HAVE_ASAN
  __sanitizer_start_switch_fiber (&home->fake_stack, fiber->stack_bottom, fiber->stack_size);
#endif
#ifdef HAVE_TSAN
  __tsan_switch_to_fiber (fiber->tsan, 0);
#endif
  if (_setjmp (home->place) == 0)
    setcontext (context);
#ifdef HAVE_ASAN
  __sanitizer_finish_switch_fiber (home->fake_stack, NULL, NULL);
#endif
}

static Fiber *
fiber_new (Block *block)
{
  Fiber *fiber = g_new0 (Fiber, 1);
  guintptr address = (guintptr) fiber;
  guint8 *bottom;
  ucontext_t context;

  fiber->block = block;
  fiber->stack = mmap (NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (fiber->stack == MAP_FAILED || mprotect (fiber->stack, GUARD_SIZE, PROT_NONE) != 0)
    g_error ("gpumem-cuda-driver: no stack for a thread of a kernel");
  bottom = (guint8 *) fiber->stack + GUARD_SIZE;
#ifdef HAVE_ASAN
  fiber->stack_bottom = bottom;
  fiber->stack_size = STACK_SIZE - GUARD_SIZE;
#endif
#ifdef HAVE_TSAN
  fiber->tsan = __tsan_create_fiber (0);
#endif
#ifdef VALGRIND_STACK_REGISTER
  fiber->valgrind_id = VALGRIND_STACK_REGISTER (bottom, bottom + STACK_SIZE - GUARD_SIZE);
#endif
  getcontext (&context);
  context.uc_link = NULL;
  context.uc_stack.ss_sp = bottom;
  context.uc_stack.ss_size = STACK_SIZE - GUARD_SIZE;
  makecontext (&context, (void (*) (void)) fiber_main, 2, (guint) address,
               (guint) ((guint64) address >> 32));
  enter (&block->home, fiber, &context);
  g_ptr_array_add (block->fibers, fiber);
  return fiber;
}

static void
fiber_free (gpointer data)
{
  Fiber *fiber = data;

#ifdef HAVE_TSAN
  __tsan_destroy_fiber (fiber->tsan);
#endif
#ifdef VALGRIND_STACK_REGISTER
  VALGRIND_STACK_DEREGISTER (fiber->valgrind_id);
#endif
  munmap (fiber->stack, STACK_SIZE);
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
#ifdef HAVE_TSAN
  block->home.tsan = __tsan_get_current_fiber ();
#endif
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
      switch_to (&block->home, item->fiber);
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

          switch_to (&block->home, fiber);
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

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Work-items that meet at barriers: each has a stack of its own, and one thread switches between
 * them. A fiber is entered once through its ucontext; from then on _setjmp() and _longjmp() do,
 * which save no signal mask and so need no system call.
 */
#undef _FORTIFY_SOURCE          /* its longjmp() takes another stack for an overrun one */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

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

#include "gpumem/host/gpu-host.h"

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

  gpointer          stack;      /* with a page in front that nobody may touch */
  gsize             mapped_size;
  jmp_buf           place;
#ifdef HAVE_ASAN
  gpointer          fake_stack;
  const void       *stack_bottom;
  size_t            stack_size;
#endif
#ifdef HAVE_TSAN
  gpointer          tsan;
#endif
#ifdef VALGRIND_STACK_REGISTER
  guint             valgrind_id;
#endif
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

#ifdef HAVE_TSAN
  __tsan_destroy_fiber (fiber->tsan);
#endif
#ifdef VALGRIND_STACK_REGISTER
  VALGRIND_STACK_DEREGISTER (fiber->valgrind_id);
#endif
  munmap (fiber->stack, fiber->mapped_size);
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

/* Leaves @from until somebody switches back to it, and goes on in @to. */
static NO_TSAN void
fiber_switch (GpuHostFiber *from,
              GpuHostFiber *to)
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
fiber_leave (GpuHostFiber *fiber)
{
  GpuHostFiber *next = fiber->next;

  while (next->over)
    next = next->next;

  fiber_switch (fiber, next);
}

static void
fiber_barrier (GpuHostItem *item)
{
  fiber_leave ((GpuHostFiber *) item);
}

/* The foot of a fiber's stack. It comes here once, goes back at once, and is switched to for each
 * work-item from then on. */
static NO_TSAN void fiber_main (guint low,
                                guint high) G_GNUC_NORETURN;

static NO_TSAN void
fiber_main (guint low,
            guint high)
{
  GpuHostFiber *fiber = (GpuHostFiber *) (guintptr) ((guint64) high << 32 | low);

#ifdef HAVE_ASAN
  __sanitizer_finish_switch_fiber (NULL, &fiber->next->stack_bottom, &fiber->next->stack_size);
#endif

  for (;;)
    {
      fiber_leave (fiber);
      fiber->run (fiber->arguments, &fiber->item);
      fiber->over = TRUE;
    }
}

static NO_TSAN void
fiber_enter (GpuHostFiber *thread,
             GpuHostFiber *fiber,
             ucontext_t   *context)
{
#ifdef HAVE_ASAN
  __sanitizer_start_switch_fiber (&thread->fake_stack, fiber->stack_bottom, fiber->stack_size);
#endif
#ifdef HAVE_TSAN
  __tsan_switch_to_fiber (fiber->tsan, 0);
#endif

  if (_setjmp (thread->place) == 0)
    setcontext (context);

#ifdef HAVE_ASAN
  __sanitizer_finish_switch_fiber (thread->fake_stack, NULL, NULL);
#endif
}

static gboolean
fiber_map (GpuHostFiber  *fiber,
           gsize          stack_size,
           GError       **error)
{
  gsize page = sysconf (_SC_PAGESIZE);

  fiber->mapped_size = (stack_size + page - 1) / page * page + page;
  fiber->stack = mmap (NULL, fiber->mapped_size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

  if (fiber->stack != MAP_FAILED)
    {
      if (mprotect (fiber->stack, page, PROT_NONE) == 0)
        return TRUE;

      munmap (fiber->stack, fiber->mapped_size);
    }

  g_set_error (error, GPU_ERROR, GPU_ERROR_OUT_OF_HOST_MEMORY,
               "host: mmap: %s (%d): no stack of %" G_GSIZE_FORMAT " bytes for a work-item",
               g_strerror (errno), errno, stack_size);

  return FALSE;
}

static GpuHostFiber *
fiber_new (GpuHostFiber  *thread,
           guint          colour,
           gsize          stack_size,
           GError       **error)
{
  GpuHostFiber *fiber = g_new0 (GpuHostFiber, 1);
  gsize page = sysconf (_SC_PAGESIZE);
  guintptr address = (guintptr) fiber;
  ucontext_t context;

  if (!fiber_map (fiber, stack_size, error))
    {
      g_free (fiber);
      return NULL;
    }

  fiber->next = thread;
#ifdef HAVE_ASAN
  fiber->stack_bottom = (guint8 *) fiber->stack + page;
  fiber->stack_size = fiber->mapped_size - page;
#endif
#ifdef HAVE_TSAN
  fiber->tsan = __tsan_create_fiber (0);
#endif
#ifdef VALGRIND_STACK_REGISTER
  fiber->valgrind_id = VALGRIND_STACK_REGISTER ((guint8 *) fiber->stack + page,
                                                (guint8 *) fiber->stack + fiber->mapped_size);
#endif

  getcontext (&context);
  context.uc_link = NULL;
  context.uc_stack.ss_sp = (guint8 *) fiber->stack + page;
  context.uc_stack.ss_size = fiber->mapped_size - page - colour * COLOUR_SIZE;
  makecontext (&context, (void (*) (void)) fiber_main, 2, (guint) address,
               (guint) ((guint64) address >> 32));
  fiber_enter (thread, fiber, &context);

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

#ifdef HAVE_TSAN
  set->thread.tsan = __tsan_get_current_fiber ();
#endif

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

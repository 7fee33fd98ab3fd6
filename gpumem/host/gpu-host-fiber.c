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
  GpuHostItem    item;          /* first: what a barrier knows of the fiber it stands in */
  GpuHostFiber  *thread;        /* where it goes at a barrier and at its end */
  void         (*run) (void **, GpuHostItem *);
  void         **arguments;
  gboolean       over;

  gpointer       stack;         /* with a page in front that nobody may touch */
  gsize          mapped_size;
  jmp_buf        place;
#ifdef HAVE_ASAN
  gpointer       fake_stack;
  const void    *stack_bottom;
  size_t         stack_size;
#endif
#ifdef HAVE_TSAN
  gpointer       tsan;
#endif
#ifdef VALGRIND_STACK_REGISTER
  guint          valgrind_id;
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

static void
fiber_barrier (GpuHostItem *item)
{
  GpuHostFiber *fiber = (GpuHostFiber *) item;

  fiber_switch (fiber, fiber->thread);
}

/* The foot of a fiber's stack. It comes here once, goes back at once, and is switched to for each
 * work-item from then on. */
static NO_TSAN void
fiber_main (guint low,
            guint high)
{
  GpuHostFiber *fiber = (GpuHostFiber *) (guintptr) ((guint64) high << 32 | low);

#ifdef HAVE_ASAN
  __sanitizer_finish_switch_fiber (NULL, &fiber->thread->stack_bottom,
                                   &fiber->thread->stack_size);
#endif

  for (;;)
    {
      fiber_switch (fiber, fiber->thread);
      fiber->run (fiber->arguments, &fiber->item);
      fiber->over = TRUE;
    }
}

static NO_TSAN void
fiber_enter (GpuHostFiber *fiber,
             ucontext_t   *context)
{
  GpuHostFiber *thread = fiber->thread;

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

  fiber->thread = thread;
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
  fiber_enter (fiber, &context);

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
fiber_prepare (GpuHostFiber      *fiber,
               const GpuHostItem *item,
               gsize              index)
{
  gsize width = item->end[0] - item->begin[0];
  gsize height = item->end[1] - item->begin[1];
  const gsize place[3] = { index % width, index / width % height, index / width / height };

  fiber->item = *item;
  fiber->item.barrier = fiber_barrier;
  fiber->over = FALSE;

  for (guint i = 0; i < 3; i++)
    {
      fiber->item.begin[i] = item->begin[i] + place[i];
      fiber->item.end[i] = fiber->item.begin[i] + 1;
    }
}

gboolean
_gpu_host_fibers_run (const GpuHostItem  *item,
                      void              (*run) (void **, GpuHostItem *),
                      void              **arguments,
                      gsize               stack_size,
                      GError            **error)
{
  gsize n = 1;
  gsize n_over = 0;
  GpuHostFiberSet *set;

  for (guint i = 0; i < 3; i++)
    n *= item->end[i] - item->begin[i];

  set = get_fibers (n, stack_size, error);

  if (set == NULL)
    return FALSE;

  for (gsize i = 0; i < n; i++)
    {
      GpuHostFiber *fiber = g_ptr_array_index (set->fibers, i);

      fiber->run = run;
      fiber->arguments = arguments;
      fiber_prepare (fiber, item, i);
    }

  while (n_over < n)
    {
      for (gsize i = 0; i < n; i++)
        {
          GpuHostFiber *fiber = g_ptr_array_index (set->fibers, i);

          if (!fiber->over)
            {
              fiber_switch (&set->thread, fiber);
              n_over += fiber->over;
            }
        }
    }

  return TRUE;
}

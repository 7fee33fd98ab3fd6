/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A stack is entered once through a ucontext. Later switches use _setjmp() and _longjmp(), which do
 * not save the signal mask and so need no system call.
 */
#undef _FORTIFY_SOURCE          /* its longjmp() reports a switch of stacks as an overrun */
#include "config.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "gpumem/host/executor/gpu-host-stack.h"

#if defined (__has_feature)
#if __has_feature (address_sanitizer)
#define HAVE_ASAN 1
#endif
#endif
#if defined (__SANITIZE_ADDRESS__)
#define HAVE_ASAN 1
#endif

#ifdef HAVE_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

#ifdef GPU_HOST_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#if defined (__has_include)
#if __has_include (<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#endif

/* @fake_stack receives AddressSanitizer's data for the current stack. It is NULL if nothing
 * switches back to the current stack. */
static inline GPU_HOST_NO_TSAN void
announce_switch (void         **fake_stack,
                 GpuHostStack  *to)
{
#ifdef HAVE_ASAN
  __sanitizer_start_switch_fiber (fake_stack, to->bottom, to->size);
#endif
#ifdef GPU_HOST_TSAN
  __tsan_switch_to_fiber (to->fiber, 0);
#endif
  (void) fake_stack;
  (void) to;
}

static inline GPU_HOST_NO_TSAN void
confirm_switch (GpuHostStack *arrived G_GNUC_UNUSED)
{
#ifdef HAVE_ASAN
  __sanitizer_finish_switch_fiber (arrived->fake_stack, NULL, NULL);
#endif
}

void
_gpu_host_stack_adopt (GpuHostStack *stack G_GNUC_UNUSED)
{
#ifdef GPU_HOST_TSAN
  stack->fiber = __tsan_get_current_fiber ();
#endif
}

gboolean
_gpu_host_stack_map (GpuHostStack *stack,
                     gsize         size)
{
  gsize page = sysconf (_SC_PAGESIZE);
  gsize mapped_size = (size + page - 1) / page * page + page;
  gpointer memory = mmap (NULL, mapped_size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

  if (memory == MAP_FAILED)
    return FALSE;

  if (mprotect (memory, page, PROT_NONE) != 0)
    {
      munmap (memory, mapped_size);
      return FALSE;
    }

  stack->memory = memory;
  stack->mapped_size = mapped_size;
  stack->bottom = (guint8 *) memory + page;
  stack->size = mapped_size - page;
#ifdef GPU_HOST_TSAN
  stack->fiber = __tsan_create_fiber (0);
#endif
#ifdef VALGRIND_STACK_REGISTER
  stack->valgrind_id = VALGRIND_STACK_REGISTER (stack->bottom, (guint8 *) memory + mapped_size);
#endif

  return TRUE;
}

void
_gpu_host_stack_unmap (GpuHostStack *stack)
{
#ifdef GPU_HOST_TSAN
  __tsan_destroy_fiber (stack->fiber);
#endif
#ifdef VALGRIND_STACK_REGISTER
  VALGRIND_STACK_DEREGISTER (stack->valgrind_id);
#endif
  munmap (stack->memory, stack->mapped_size);
}

static GPU_HOST_NO_TSAN void start (guint low,
                                    guint high) G_GNUC_NORETURN;

static GPU_HOST_NO_TSAN void
start (guint low,
       guint high)
{
  GpuHostStack *stack = (GpuHostStack *) (guintptr) ((guint64) high << 32 | low);

#ifdef HAVE_ASAN
  __sanitizer_finish_switch_fiber (NULL, &stack->origin->bottom, &stack->origin->size);
#endif

  stack->start (stack->data);
  g_assert_not_reached ();
}

static GPU_HOST_NO_TSAN void
enter (GpuHostStack *from,
       GpuHostStack *stack,
       ucontext_t   *context)
{
  announce_switch (&from->fake_stack, stack);

  if (_setjmp (from->place) == 0)
    setcontext (context);

  confirm_switch (from);
}

void
_gpu_host_stack_enter (GpuHostStack     *stack,
                       GpuHostStack     *from,
                       gsize             colour,
                       GpuHostStackFunc  func,
                       gpointer          data)
{
  guintptr address = (guintptr) stack;
  ucontext_t context;

  stack->start = func;
  stack->data = data;
  stack->origin = from;

  getcontext (&context);
  context.uc_link = NULL;
  context.uc_stack.ss_sp = (gpointer) stack->bottom;
  context.uc_stack.ss_size = stack->size - colour;
  makecontext (&context, (void (*) (void)) start, 2, (guint) address,
               (guint) ((guint64) address >> 32));
  enter (from, stack, &context);
}

GPU_HOST_NO_TSAN void
_gpu_host_stack_switch (GpuHostStack *from,
                        GpuHostStack *to)
{
  announce_switch (&from->fake_stack, to);

  if (_setjmp (from->place) == 0)
    _longjmp (to->place, 1);

  confirm_switch (from);
}

GPU_HOST_NO_TSAN void
_gpu_host_stack_leave (GpuHostStack *to)
{
  announce_switch (NULL, to);
  _longjmp (to->place, 1);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Stacks that one thread switches between. The sanitizers and valgrind are told. The stand-in CUDA
 * driver of the tests compiles this file as well (tests/cuda-driver/): it uses nothing but GLib.
 */
#pragma once

#include <setjmp.h>

#include <glib.h>

G_BEGIN_DECLS

#if defined (__has_feature)
#if __has_feature (thread_sanitizer)
#define GPU_HOST_TSAN 1
#endif
#endif
#if defined (__SANITIZE_THREAD__)
#define GPU_HOST_TSAN 1
#endif

/* For functions that are entered on one stack and go on on another. */
#ifdef GPU_HOST_TSAN
#define GPU_HOST_NO_TSAN __attribute__ ((no_sanitize ("thread")))
#else
#define GPU_HOST_NO_TSAN
#endif

typedef void (*GpuHostStackFunc) (gpointer data);

typedef struct _GpuHostStack GpuHostStack;

struct _GpuHostStack
{
  jmp_buf           place;          /* where it was left */
  gpointer          memory;         /* with a page in front that nobody may touch; NULL for the
                                     * stack of a thread */
  gsize             mapped_size;
  GpuHostStackFunc  start;
  gpointer          data;
  GpuHostStack     *origin;         /* from which it was entered */

  const void       *bottom;
  gsize             size;
  gpointer          fake_stack;     /* of the address sanitizer */
  gpointer          fiber;          /* of the thread sanitizer */
  guint             valgrind_id;
};

/* @stack, which is 0, becomes the stack that the caller stands on. Again for each thread. */
void     _gpu_host_stack_adopt  (GpuHostStack     *stack);
/* @stack, which is 0, becomes one of @size bytes. FALSE and errno if there is no memory. */
gboolean _gpu_host_stack_map    (GpuHostStack     *stack,
                                 gsize             size);
void     _gpu_host_stack_unmap  (GpuHostStack     *stack);
/* Calls @start on @stack, @colour bytes below its top, until that switches back to @from. It must
 * never return. */
void     _gpu_host_stack_enter  (GpuHostStack     *stack,
                                 GpuHostStack     *from,
                                 gsize             colour,
                                 GpuHostStackFunc  start,
                                 gpointer          data);
/* Leaves @from until somebody switches back to it, and goes on where @to was left. */
void     _gpu_host_stack_switch (GpuHostStack     *from,
                                 GpuHostStack     *to);
/* The same for a stack that nobody ever comes back to; also in a handler of signals. */
void     _gpu_host_stack_leave  (GpuHostStack     *to) G_GNUC_NORETURN;

G_END_DECLS

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Stacks that one thread switches between, with notifications for the sanitizers and Valgrind. Uses
 * only GLib, because the stand-in CUDA driver of the tests (tests/cuda-driver/) also compiles this
 * file.
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

/* For functions that switch stacks. ThreadSanitizer inserts a call at the entry and at the exit of
 * each function; these two calls would not match in a function that switches stacks. */
#ifdef GPU_HOST_TSAN
#define GPU_HOST_NO_TSAN __attribute__ ((no_sanitize ("thread")))
#else
#define GPU_HOST_NO_TSAN
#endif

typedef void (*GpuHostStackFunc) (gpointer data);

typedef struct _GpuHostStack GpuHostStack;

struct _GpuHostStack
{
  jmp_buf           place;          /* execution state when the stack was left */
  gpointer          memory;         /* begins with a guard page; NULL for the stack of a thread */
  gsize             mapped_size;
  GpuHostStackFunc  start;
  gpointer          data;
  GpuHostStack     *origin;         /* the stack that entered this one */

  const void       *bottom;
  gsize             size;
  gpointer          fake_stack;     /* of the address sanitizer */
  gpointer          fiber;          /* of the thread sanitizer */
  guint             valgrind_id;
};

/* Initializes @stack, which must be all 0, with the current stack. Must be called again if another
 * thread uses @stack. */
void     _gpu_host_stack_adopt  (GpuHostStack     *stack);
/* Initializes @stack, which must be all 0, with a new stack of @size bytes. Returns FALSE and sets
 * errno if there is no memory. */
gboolean _gpu_host_stack_map    (GpuHostStack     *stack,
                                 gsize             size);
void     _gpu_host_stack_unmap  (GpuHostStack     *stack);
/* Calls @start on @stack, @colour bytes below its top. Returns when @start switches back to @from;
 * @start must never return. */
void     _gpu_host_stack_enter  (GpuHostStack     *stack,
                                 GpuHostStack     *from,
                                 gsize             colour,
                                 GpuHostStackFunc  start,
                                 gpointer          data);
/* Leaves @from and continues at the point where @to was left. Returns after a switch back to
 * @from. */
void     _gpu_host_stack_switch (GpuHostStack     *from,
                                 GpuHostStack     *to);
/* Like _gpu_host_stack_switch(), but nothing switches back to the current stack. May be called in a
 * signal handler. */
void     _gpu_host_stack_leave  (GpuHostStack     *to) G_GNUC_NORETURN;

G_END_DECLS

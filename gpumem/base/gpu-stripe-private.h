/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Stripes: copies of a counter or a list, each in its own cache lines. A thread always uses the
 * same stripe, so threads that work at the same time rarely write to the same cache line. The
 * stripes of two threads may be the same, so each access still needs a lock or an atomic operation.
 */
#pragma once

#include <glib.h>

#include "gpumem/base/gpu-attributes-private.h"

G_BEGIN_DECLS

#define GPU_N_STRIPES 16

/* The stripe of this thread plus 1; 0 before the first use. */
extern __thread guint _gpu_stripe_of_thread __attribute__ ((tls_model ("initial-exec")));

/* Assigns a stripe to this thread. */
GPU_COLD guint _gpu_stripe_assign (void);

/* Returns the stripe of this thread, a number below GPU_N_STRIPES. */
static inline guint
_gpu_stripe_get (void)
{
  guint stripe = _gpu_stripe_of_thread;

  return G_LIKELY (stripe != 0) ? stripe - 1 : _gpu_stripe_assign ();
}

G_END_DECLS

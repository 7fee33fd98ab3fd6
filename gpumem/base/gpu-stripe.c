/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-stripe-private.h"

__thread guint _gpu_stripe_of_thread;

guint
_gpu_stripe_assign (void)
{
  static guint n_assigned;          /* atomic */
  guint stripe = __atomic_fetch_add (&n_assigned, 1, __ATOMIC_RELAXED) % GPU_N_STRIPES;

  _gpu_stripe_of_thread = stripe + 1;

  return stripe;
}

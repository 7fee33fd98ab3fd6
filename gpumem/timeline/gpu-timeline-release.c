/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Retiring work releases host memory of the program after it has made the completion of the work
 * visible, possibly on another thread than the one that waits for the work. This file lets a thread
 * wait for such releases. Releases have one of two phases, so that a thread that waits for the
 * present releases need not wait for later ones. */
#include "config.h"

#include "gpumem/backend/gpu-backend.h"
#include "gpumem/gpumem-bindings.h"
#include "gpumem/timeline/gpu-timeline-private.h"

static struct
{
  GMutex turn;                      /* held by the thread that changes `phase` */
  GMutex lock;
  GCond  cond;
  gint   phase;                     /* atomic; 0 or 1 */
  gint   n[2];                      /* atomic; by phase */
  gint   is_awaited;                /* atomic */
} releases;

/* The releases that this thread has begun, which may call functions of the program. */
static _Thread_local guint n_own;

guint
_gpu_release_begin (void)
{
  guint phase = g_atomic_int_get (&releases.phase);

  g_atomic_int_inc (&releases.n[phase]);
  n_own++;

  return phase;
}

void
_gpu_release_end (guint phase)
{
  n_own--;

  if (!g_atomic_int_dec_and_test (&releases.n[phase])
      || !g_atomic_int_get (&releases.is_awaited))
    return;

  g_mutex_lock (&releases.lock);
  g_cond_broadcast (&releases.cond);
  g_mutex_unlock (&releases.lock);
}

gboolean
_gpu_binding_is_releasing (void)
{
  return g_atomic_int_get (&releases.n[0]) > 0 || g_atomic_int_get (&releases.n[1]) > 0;
}

/* Waits for the releases of the present phase. Later ones have the other phase. */
static void
end_phase (void)
{
  guint phase = g_atomic_int_get (&releases.phase);

  g_atomic_int_set (&releases.phase, !phase);
  g_mutex_lock (&releases.lock);

  while (g_atomic_int_get (&releases.n[phase]) > 0)
    g_cond_wait (&releases.cond, &releases.lock);

  g_mutex_unlock (&releases.lock);
}

void
_gpu_binding_wait_for_releases (void)
{
  if (G_LIKELY (!_gpu_binding_is_releasing ()) || n_own > 0 || g_atomic_int_get (&_gpu_forked))
    return;

  g_mutex_lock (&releases.turn);
  g_atomic_int_set (&releases.is_awaited, TRUE);
  /* Twice: a release that reads the phase just before it changes has the former one. */
  end_phase ();
  end_phase ();
  g_atomic_int_set (&releases.is_awaited, FALSE);
  g_mutex_unlock (&releases.turn);
}

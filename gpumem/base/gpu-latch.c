/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-latch-private.h"
#include "gpumem/gpumem.h"

struct _GpuLatch
{
  gatomicrefcount  refs;
  GMutex           lock;            /* guards the fields below */
  GCond            cond;
  gboolean         open;
  GError          *error;
};

GpuLatch *
_gpu_latch_new (void)
{
  GpuLatch *latch = g_new0 (GpuLatch, 1);

  g_atomic_ref_count_init (&latch->refs);
  g_mutex_init (&latch->lock);
  g_cond_init (&latch->cond);

  return latch;
}

GpuLatch *
_gpu_latch_ref (GpuLatch *latch)
{
  g_atomic_ref_count_inc (&latch->refs);

  return latch;
}

void
_gpu_latch_unref (GpuLatch *latch)
{
  if (!g_atomic_ref_count_dec (&latch->refs))
    return;

  g_clear_error (&latch->error);
  g_mutex_clear (&latch->lock);
  g_cond_clear (&latch->cond);
  g_free (latch);
}

void
_gpu_latch_open (gpointer      data,
                 const GError *error)
{
  GpuLatch *latch = data;

  g_mutex_lock (&latch->lock);
  latch->open = TRUE;
  latch->error = error != NULL ? g_error_copy (error) : NULL;
  g_cond_broadcast (&latch->cond);
  g_mutex_unlock (&latch->lock);
  _gpu_latch_unref (latch);
}

static void
cancelled (GCancellable *cancellable,
           GpuLatch     *latch)
{
  g_mutex_lock (&latch->lock);
  g_cond_broadcast (&latch->cond);
  g_mutex_unlock (&latch->lock);
}

static gboolean
sleep_until (GpuLatch *latch,
             gint64    deadline)
{
  if (deadline >= 0)
    return g_cond_wait_until (&latch->cond, &latch->lock, deadline);

  g_cond_wait (&latch->cond, &latch->lock);

  return TRUE;
}

gboolean
_gpu_latch_wait (GpuLatch      *latch,
                 gint64         deadline,
                 GCancellable  *cancellable,
                 GError       **error)
{
  gboolean in_time = TRUE;
  gboolean success = FALSE;
  gulong id = 0;

  if (cancellable != NULL)
    id = g_cancellable_connect (cancellable, G_CALLBACK (cancelled), _gpu_latch_ref (latch),
                                (GDestroyNotify) _gpu_latch_unref);

  g_mutex_lock (&latch->lock);

  while (!latch->open && in_time && !g_cancellable_is_cancelled (cancellable))
    in_time = sleep_until (latch, deadline);

  if (latch->open && latch->error == NULL)
    success = TRUE;
  else if (latch->open)
    g_propagate_error (error, g_error_copy (latch->error));
  else if (!g_cancellable_set_error_if_cancelled (cancellable, error))
    g_set_error_literal (error, GPU_ERROR, GPU_ERROR_TIMED_OUT, "the timeout expired");

  g_mutex_unlock (&latch->lock);
  g_cancellable_disconnect (cancellable, id);

  return success;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "gpumem/base/gpu-workers-private.h"
#include "gpumem/host/executor/gpu-host-executor.h"

/* Work that several threads share. A worker that starts after the work has completed does
 * nothing. */
typedef struct
{
  gatomicrefcount refs;
  GpuHostPoolFunc func;
  gpointer        data;

  GMutex          lock;             /* protects the next three members */
  GCond           cond;
  guint           n_workers;
  gboolean        completed;
} GpuHostShare;

/* ThreadSanitizer supports 8128 threads, and counts each work-item with its own stack as a thread.
 * The limit allows for groups of 256 work-items. */
#ifdef __SANITIZE_THREAD__
#define MAX_THREADS 16u
#else
#define MAX_THREADS G_MAXUINT
#endif

guint
_gpu_host_pool_get_n_threads (void)
{
  static gsize n_threads;

  if (g_once_init_enter (&n_threads))
    g_once_init_leave (&n_threads, MIN (g_get_num_processors (), MAX_THREADS));

  return n_threads;
}

void
_gpu_host_pool_push (GpuHostPoolFunc func,
                     gpointer        data)
{
  static GpuWorkers workers = { .name = "gpumem-host" };

  if (!_gpu_workers_push (&workers, MAX (_gpu_host_pool_get_n_threads (), 2), func, data, NULL))
    func (data);
}

static void
share_unref (GpuHostShare *share)
{
  if (!g_atomic_ref_count_dec (&share->refs))
    return;

  g_mutex_clear (&share->lock);
  g_cond_clear (&share->cond);
  g_free (share);
}

static void
run_share (gpointer data)
{
  GpuHostShare *share = data;
  gboolean completed;

  g_mutex_lock (&share->lock);
  completed = share->completed;
  share->n_workers += completed ? 0 : 1;
  g_mutex_unlock (&share->lock);

  if (!completed)
    {
      share->func (share->data);
      g_mutex_lock (&share->lock);
      share->n_workers--;
      g_cond_signal (&share->cond);
      g_mutex_unlock (&share->lock);
    }

  share_unref (share);
}

void
_gpu_host_pool_share (GpuHostPoolFunc func,
                      gpointer        data)
{
  guint n_workers = _gpu_host_pool_get_n_threads () - 1;
  GpuHostShare *share;

  if (n_workers == 0)
    {
      func (data);
      return;
    }

  share = g_new0 (GpuHostShare, 1);
  g_atomic_ref_count_init (&share->refs);
  g_mutex_init (&share->lock);
  g_cond_init (&share->cond);
  share->func = func;
  share->data = data;

  for (guint i = 0; i < n_workers; i++)
    {
      g_atomic_ref_count_inc (&share->refs);
      _gpu_host_pool_push (run_share, share);
    }

  func (data);

  g_mutex_lock (&share->lock);
  share->completed = TRUE;

  while (share->n_workers > 0)
    g_cond_wait (&share->cond, &share->lock);

  g_mutex_unlock (&share->lock);
  share_unref (share);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The threads of the engine. Those that copy are as many as the knob says, and never wait for
 * anything but work: GLib ends them after a while without. Waiting for the device is left to
 * others, one for each copy that nobody waits for otherwise.
 */
#include "config.h"

#include <stdlib.h>

#include "gpumem/transfer/gpu-transfer-private.h"

#define DEFAULT_MAX_THREADS 8
#define MAX_THREADS 256

static GMutex lock;
static guint  n_threads;            /* guarded by it; 0 before it is known */
static gint   n_threads_known;      /* atomic; the same */

static guint
get_default (void)
{
  const char *text = g_getenv ("GPUMEM_COPY_THREADS");
  guint64 value;

  if (text == NULL)
    return MIN (g_get_num_processors (), DEFAULT_MAX_THREADS);

  if (g_ascii_string_to_unsigned (text, 10, 1, MAX_THREADS, &value, NULL))
    return value;

  g_warning ("GPUMEM_COPY_THREADS=%s is no number from 1 to %d", text, MAX_THREADS);

  return MIN (g_get_num_processors (), DEFAULT_MAX_THREADS);
}

guint
_gpu_transfer_get_n_threads (void)
{
  guint n = (guint) g_atomic_int_get (&n_threads_known);

  if (n != 0)
    return n;

  g_mutex_lock (&lock);
  if (n_threads == 0)
    n_threads = get_default ();
  n = n_threads;
  g_atomic_int_set (&n_threads_known, (gint) n);
  g_mutex_unlock (&lock);

  return n;
}

static void
help (gpointer transfer,
      gpointer unused G_GNUC_UNUSED)
{
  _gpu_transfer_help (transfer);
}

static void
attend (gpointer transfer,
        gpointer unused G_GNUC_UNUSED)
{
  _gpu_transfer_attend (transfer);
}

static GThreadPool *
get_helpers (void)
{
  static GThreadPool *pool;

  if (g_once_init_enter (&pool))
    g_once_init_leave (&pool, g_thread_pool_new (help, NULL, (gint) _gpu_transfer_get_n_threads (),
                                                 FALSE, NULL));

  return pool;
}

static GThreadPool *
get_attendants (void)
{
  static GThreadPool *pool;

  if (g_once_init_enter (&pool))
    g_once_init_leave (&pool, g_thread_pool_new (attend, NULL, -1, FALSE, NULL));

  return pool;
}

void
_gpu_transfer_set_n_threads (guint n)
{
  n = MIN (n, MAX_THREADS);

  g_mutex_lock (&lock);
  n_threads = n != 0 ? n : get_default ();
  n = n_threads;
  g_atomic_int_set (&n_threads_known, (gint) n);
  g_mutex_unlock (&lock);

  g_thread_pool_set_max_threads (get_helpers (), (gint) n, NULL);
}

/* An error means that the thread could not be started now: those there are take its part. */
void
_gpu_transfer_push_help (GpuTransfer *transfer)
{
  g_thread_pool_push (get_helpers (), transfer, NULL);
}

void
_gpu_transfer_push_attend (GpuTransfer *transfer)
{
  g_thread_pool_push (get_attendants (), transfer, NULL);
}
